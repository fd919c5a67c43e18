"""The files that a run in the forms writes: new ids in the sheet, and results to download."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import full_disk

import petsync as ps
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.sheets import read_sheet
from petsync.widgets.review import ReviewForm, review
from petsync.widgets.review_view import LeftFiles

TEXT = "id,name,status\n1,Max,available\n,New,sold\n"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ps.Store]:
    """Yield a connection to a store with one pet; the current folder is empty."""
    monkeypatch.chdir(tmp_path)
    shop = [Pet(id=1, name="Rex", status="available")]
    with (
        Sandbox(auth=False, pets=shop) as box,
        ps.connect(box.url, environ={}, state=tmp_path / "state") as connected,
    ):
        yield connected


@pytest.fixture
def sheet() -> Path:
    """Return a sheet with a new pet."""
    path = Path("pets.csv")
    path.write_text(TEXT, "utf-8")
    return path


def asked(form: ReviewForm) -> None:
    """Click on until the confirmation is shown."""
    assert form.widget is not None
    assert form.work.wait()
    form.apply.click()
    assert form.work.wait()
    assert form.ready is not None


def sent(form: ReviewForm) -> None:
    """Confirm, and wait for the report."""
    form.send.click()
    assert form.work.wait()
    assert form.report is not None


def downloaded(form: ReviewForm) -> dict[str, bytes]:
    """Return the contents of the download links, by file name."""
    links = re.findall(r'base64,([\w+/=]+)"[^>]*download="([^"]+)"', form.files.value)
    return {name: base64.b64decode(body) for body, name in links}


def test_new_ids_are_written_unless_the_tick_goes(store: ps.Store, sheet: Path) -> None:
    """The new ids are written into the sheet unless the user unticks this; a backup and the results
    are written too. The results and the sheet can be downloaded.
    """
    form = review(store.plan(sheet), store)
    asked(form)
    assert form.write_ids.layout.display is None
    assert form.write_ids.value
    assert "pets.csv" in form.write_ids.description
    sent(form)
    assert sheet.read_text("utf-8") == TEXT.replace(",New", "2,New")
    (backup,) = Path().glob("pets.backup-*.csv")
    assert backup.read_text("utf-8") == TEXT
    results = Path("pets.results.csv").read_bytes()
    assert downloaded(form) == {"pets.results.csv": results, "pets.csv": sheet.read_bytes()}
    form.close()


@pytest.mark.parametrize(
    ("size", "messages"),
    [
        (40_000, ["Pets.results.csv cannot be written", "The new ids were not written into "]),
        (30, ["Neither results nor ids were written: the journal "]),
    ],
    ids=["files", "journal"],
)
def test_a_full_disk_says_what_was_not_written(
    store: ps.Store,
    sheet: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    messages: list[str],
) -> None:
    """If the files cannot be written, the form shows the report, and says what was not written."""
    note = "x" * size
    text = f"id,name,status,note\n1,Max,available,{note}\n,New,sold,\n"
    sheet.write_text(text, "utf-8")
    form = review(store.plan(sheet), store)
    asked(form)
    write = LeftFiles.write

    def write_on_full_disk(files: LeftFiles, report: ps.types.Report) -> None:
        with full_disk(size):
            write(files, report)

    monkeypatch.setattr(LeftFiles, "write", write_on_full_disk)
    sent(form)
    for message in messages:
        assert message in form.files.value
    assert sheet.read_text("utf-8") == text
    form.close()


def test_without_the_tick_the_sheet_stays(store: ps.Store, sheet: Path) -> None:
    """Without the tick the sheet is unchanged, and the results can be downloaded."""
    form = review(store.plan(sheet), store)
    asked(form)
    form.write_ids.value = False
    sent(form)
    assert sheet.read_text("utf-8") == TEXT
    (results,) = downloaded(form).values()
    Path("again.csv").write_bytes(results)
    assert list(read_sheet("again.csv").frame["id"]) == [1, 2]
    form.close()


def test_a_sheet_that_is_open_elsewhere_is_not_offered(store: ps.Store, sheet: Path) -> None:
    """Ids are not written into a sheet that another program has open, nor into an uploaded copy."""
    Path(".~lock.pets.csv#").write_text("someone,,,,;", "utf-8")
    form = review(store.plan(sheet), store)
    asked(form)
    assert not form.write_ids.value
    assert form.write_ids.layout.display == "none"
    Path(".~lock.pets.csv#").unlink()
    received = review(store.plan(sheet), store, sheet=store.read(sheet))
    asked(received)
    assert not received.write_ids.value
    sent(received)
    assert sheet.read_text("utf-8") == TEXT
    assert not [*Path().glob("pets.results*")]
    assert b"New" in downloaded(received)["pets.results.csv"]
    for each in (form, received):
        each.close()


def test_results_that_are_too_large_for_the_page_are_kept(
    store: ps.Store, sheet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results of an uploaded sheet that are too large for a link stay in the working folder,
    and the form says where.
    """
    monkeypatch.setattr("petsync.widgets.review_view.MAX_LINKED_BYTES", 10)
    received = review(store.plan(sheet), store, sheet=store.read(sheet))
    asked(received)
    sent(received)
    results = Path("pets.results.csv").absolute()
    assert f"Continue with {results}" in received.files.value
    assert list(read_sheet(results).frame["id"]) == [1, 2]
    received.close()
