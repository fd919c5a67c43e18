"""Files that a browser sends: complete, private, with a safe name, or refused."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.widgets.components import Files, ReceivedFile, accepts, safe_name


@pytest.fixture
def files() -> Iterator[Files]:
    """Yield a file field for several files."""
    place = Files(multiple=True)
    yield place
    place.close()


def _sent(files: Files, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the list of messages to the browser."""
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(files, "send", messages.append)
    return messages


def _hear(files: Files, do: str, *pieces: bytes, file: str = "a", **fields: Any) -> None:
    files._handle_message(files, {"do": do, "file": file, **fields}, [*pieces])


def test_pieces_become_the_file(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is acknowledged with the number of bytes received, and the file equals what was
    sent.
    """
    result, came = _sent(files, monkeypatch), list[ReceivedFile]()
    files.on_file(came.append)
    _hear(files, "begin", name="pets.xlsx", size=5)
    _hear(files, "piece", b"abc", at=0)
    assert files.arriving == 1
    _hear(files, "piece", b"de", at=3)
    _hear(files, "end")
    assert result == [{"taken": "a", "at": n} for n in (0, 3, 5)] + [{"whole": "a"}]
    assert came == [*files.received]
    assert (came[0].name, came[0].size, came[0].path.read_bytes()) == ("pets.xlsx", 5, b"abcde")
    assert files.arriving == 0


def test_a_name_that_no_file_has_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a NUL is refused with a message, and the next file is accepted."""
    result = _sent(files, monkeypatch)
    assert files.put("a\0b.png", b"x") is None
    assert [each["why"] for each in result if "refused" in each] == [
        "It could not be stored: its name is not a valid file name."
    ]
    assert (files.arriving, files.present) == (0, [])
    assert files.put("b.png", b"x") is not None


def test_only_the_owner_reads_it(files: Files) -> None:
    """Only the owner can read the received file and its folder."""
    file = files.put("pets.csv", b"id\n")
    assert file is not None
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (file.path, *file.path.parents[:2])]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize(
    "sent",
    [[(0, b"ab"), (3, b"de")], [(0, b"abcdef")], [(0, b"abc")], [(0, b"abc"), (0, b"abc")]],
    ids=["gap", "too long", "too short", "twice"],
)
def test_nothing_half_is_taken(
    files: Files, monkeypatch: pytest.MonkeyPatch, sent: list[tuple[int, bytes]]
) -> None:
    """A file with a missing or extra piece is refused and deleted."""
    result = _sent(files, monkeypatch)
    _hear(files, "begin", name="pets.csv", size=5)
    folder = files._coming["a"].path.parent
    for at, piece in sent:
        _hear(files, "piece", piece, at=at)
    _hear(files, "end")
    assert result[-1]["refused"] == "a"
    assert files.received == ()
    assert not folder.exists()


def test_cancelled_on_the_way(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled file is deleted, and its later pieces are ignored."""
    result = _sent(files, monkeypatch)
    _hear(files, "begin", name="pets.csv", size=5)
    folder = files._coming["a"].path.parent
    _hear(files, "cancel")
    _hear(files, "piece", b"abc", at=0)
    _hear(files, "end")
    assert result[-1] == {"gone": "a"}
    assert (files.received, files.arriving, folder.exists()) == ((), 0, False)


def test_taken_back_after_it_came(files: Files) -> None:
    """A file that the user removes is deleted here too."""
    kept, file = files.put("kept.csv", b"id\n"), files.put("pets.csv", b"id\n")
    assert file is not None
    _hear(files, "cancel", file=next(k for k, f in files._whole.items() if f == file))
    assert (files.received, file.path.exists()) == ((kept,), False)


def test_one_file_takes_the_place_of_another() -> None:
    """In a field for one file, a second file replaces the first."""
    files = Files()
    first, second = files.put("a.csv", b"1"), files.put("b.csv", b"2")
    assert first is not None
    assert (files.received, first.path.exists()) == ((second,), False)
    files.close()


@pytest.mark.parametrize(
    ("name", "size", "why"),
    [
        ("pets.exe", 1, "these kinds are accepted: .xlsx, .csv"),
        ("pets.csv", 11, "larger than 10 bytes. Open it by its path."),
        ("pets.csv", -1, "larger"),
    ],
)
def test_refused_before_it_comes(
    monkeypatch: pytest.MonkeyPatch, name: str, size: int, why: str
) -> None:
    """A file of another type or a too large one is refused, whatever the browser allowed."""
    files = Files(accept=".xlsx,.csv", max_bytes=10, way_out="Open it by its path.")
    result = _sent(files, monkeypatch)
    _hear(files, "begin", name=name, size=size)
    assert why in result[-1]["why"]
    assert not files._coming
    files.close()


def test_nothing_is_taken_while_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disabled field refuses each file with a message."""
    files = Files(disabled=True)
    result = _sent(files, monkeypatch)
    assert files.put("pets.csv", b"1") is None
    assert result[0]["why"] == "No files are accepted at the moment."
    files.close()


def test_closing_leaves_nothing(files: Files) -> None:
    """A closed field deletes all files, also incomplete ones."""
    file = files.put("pets.csv", b"id\n")
    _hear(files, "begin", name="half.csv", size=5)
    assert file is not None
    folder = file.path.parents[1]
    files.close()
    assert not folder.exists()


def test_full_disk_is_reported(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file cannot be written, the browser gets the reason."""
    result = _sent(files, monkeypatch)
    monkeypatch.setattr(files, "_folder", Path("/proc/none"))
    assert files.put("pets.csv", b"1") is None
    assert result[0]["why"].startswith("It could not be stored: ")
    monkeypatch.setattr(files, "_folder", None)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"file": 7, "do": "begin"},
        {"file": "a", "do": "begin", "name": 1, "size": 1},
        {"file": "a", "do": "begin", "name": "x", "size": "1"},
        {"file": "a", "do": "piece", "at": 0},
        {"file": "a", "do": "end"},
        {"file": "a", "do": "cancel"},
    ],
)
def test_strange_messages_do_nothing(files: Files, message: dict[str, Any]) -> None:
    """A message that the field's script never sends changes nothing."""
    files._handle_message(files, message, [])
    assert (files.received, files._coming) == ((), {})


@given(st.text(max_size=300))
def test_no_name_is_a_path(name: str) -> None:
    """Any file name becomes one valid, visible name in the file's own folder."""
    safe = safe_name(name)
    assert Path(safe).name == safe
    assert safe not in {"", ".", ".."}
    assert not safe.startswith(".")
    assert safe.isprintable()
    assert not set('/\\:*?"<>|') & set(safe)
    assert len(safe.encode()) <= 140
    assert safe_name(safe) == safe


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\pets\\März (2).xlsx", "März (2).xlsx"),
        ("rex\u202egnp.exe", "rex_gnp.exe"),
        (".bashrc", "bashrc"),
        ("CON.csv", "file_CON.csv"),
        ("\0", "_"),
        ("", "file"),
        ("a" * 300 + ".xlsx", "a" * 115 + ".xlsx"),
        ("Dr. Smith with Rex", "Dr. Smith with Rex"),
        ("rex." + "a" * 300, "rex." + "a" * 116),
    ],
)
def test_names_stay_readable(name: str, safe: str) -> None:
    """A safe name keeps as much of the name as possible, with its extension."""
    assert safe_name(name) == safe


@pytest.mark.parametrize(
    ("accept", "name", "kind", "is_taken"),
    [
        ("", "a.exe", "", True),
        (".xlsx,.csv", "A.CSV", "", True),
        (".xlsx, .csv", "a.png", "image/png", False),
        ("image/*", "a.png", "image/png", True),
        ("image/*", "a.csv", "text/csv", False),
        ("image/*", "a.png", "", True),
    ],
)
def test_kinds_are_as_in_html(accept: str, name: str, kind: str, is_taken: bool) -> None:
    """`accept` has the same meaning as in a browser's file dialog."""
    assert accepts(accept, name, kind) is is_taken
