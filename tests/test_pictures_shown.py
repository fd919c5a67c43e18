"""Pictures and uploads as text, HTML, frames and JSON: escaped, complete, failures first."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from rendering import pictures_html, pictures_text, uploaded_html, uploaded_text

import petsync as ps
import petsync.report
from petsync.errors import PlanError
from petsync.plan.options import PictureOptions
from petsync.plan.report import OUTCOMES
from petsync.plan.uploads import UPLOAD_DECISIONS, result_of, result_of_problem, treatment
from petsync.report.views.images import DECISION_TITLES, size

EVIL = "<script>alert(1)</script>\x1b[31m\u202e"


def picture(**more: Any) -> ps.types.Picture:
    """Return a picture that is sent unchanged."""
    values: dict[str, Any] = {
        "pet_id": 7,
        "pet": "Rex",
        "file": "7.jpg",
        "path": "/photos/7.jpg",
        "size": 2_000,
        "format": "JPEG",
        "width": 40,
        "height": 30,
        "digest": "d",
        "sent_size": 2_000,
        "sent_digest": "d",
        "sent_width": 40,
        "sent_height": 30,
    }
    return ps.types.Picture(**{**values, **more})


def pictures(*members: ps.types.Picture, **more: Any) -> ps.types.Pictures:
    """Return a list of pictures to upload."""
    return ps.types.Pictures(
        created="2026-11-20T09:30:00+00:00",
        store="http://127.0.0.1:1/v2",
        source="photos",
        pictures=members,
        **more,
    )


def report(*results: ps.types.UploadedFile, **more: Any) -> ps.types.UploadReport:
    """Return an upload report with these results."""
    return ps.types.UploadReport(
        run_id="r1",
        store="http://127.0.0.1:1/v2",
        source="photos",
        started="2026-11-20T09:30:00+00:00",
        seconds=1.0,
        results=results,
        **more,
    )


def everything() -> ps.types.Pictures:
    """Return pictures of every decision, and two problems."""
    members = [
        picture(decision=decision, file=f"{n}.jpg", run="r0")
        for n, decision in enumerate(UPLOAD_DECISIONS)
    ]
    problems = (
        ps.types.PictureProblem(file="a.png", problem="it is text", cure="Look."),
        ps.types.PictureProblem(file="b.txt", problem="it is not a picture", blocks=False),
    )
    return pictures(*members, problems=problems, ignored=2)


def test_every_decision_is_shown() -> None:
    """Text and HTML show each file once, and files that are not uploaded before the others."""
    value = everything()
    for shown in (repr(value), value._repr_html_()):
        for file in [p.file for p in value.pictures] + ["a.png", "b.txt"]:
            assert shown.count(file) == 1
        assert shown.index("a.png") < shown.index("1.jpg") < shown.index("b.txt")
    assert set(DECISION_TITLES) == set(UPLOAD_DECISIONS)


def test_summary_adds_up() -> None:
    """The summary sentence counts every file."""
    last = " ".join(repr(everything()).split())
    text = (
        "To upload: 3 pictures of 1 pet, 5.9 KiB; 1 uploaded before, 1 to record as uploaded, "
        "1 listed twice, 1 unknown, 1 not uploaded, 1 left out, 2 ignored."
    )
    assert last.endswith(text)


@pytest.mark.parametrize("limit", [0, 1, None])
def test_limit(limit: int | None) -> None:
    """Each list shows as many files as the limit allows, and the number of the others."""
    many = pictures(*[picture(file=f"{n}.jpg") for n in range(5)])
    shown = pictures_text(many, limit=limit)
    assert shown.count(".jpg") == (5 if limit is None else limit)
    assert ("more" in shown) == (limit is not None)


def test_what_is_the_same_is_reported_once() -> None:
    """The text and HTML of pictures and reports show a shared problem, cure or earlier run once,
    and name each of its files.
    """
    problems = [
        ps.types.PictureProblem(file=f"{n}.png", problem="too large", cure="Shrink it.")
        for n in range(9)
    ]
    before = [picture(file=f"{n}.gif", decision="uploaded", run="r-0") for n in range(9)]
    looked = pictures(
        *before, problems=(*problems, ps.types.PictureProblem(file="z.png", problem="no"))
    )
    done = report(*map(result_of_problem, looked.problems))
    for shown in (pictures_text(looked), pictures_html(looked), uploaded_text(done)):
        assert shown.count("9 files: too large. Shrink it.") == shown.count("Shrink it.") == 1
        assert all(shown.count(f"{n}.png") == 1 for n in [*range(9), "z"])
    assert pictures_text(looked).count("run r-0") == 1
    assert uploaded_html(done).count("Shrink it.") == 1
    assert "and 8 more" in uploaded_text(done, limit=1)


def test_names_are_harmless() -> None:
    """A file name or a pet name is never shown as markup or as a control character."""
    evil = picture(file=EVIL, pet=EVIL, metadata=EVIL, source=EVIL)
    looked = pictures(evil, problems=(ps.types.PictureProblem(file=EVIL, problem=EVIL, cure=EVIL),))
    done = report(result_of(evil, "failed", "refused", EVIL, cure=EVIL, urls=(EVIL,)))
    for text in (pictures_text(looked), uploaded_text(done)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    for html in (pictures_html(looked), uploaded_html(done)):
        assert "<script>alert" not in html
        assert "\x1b" not in html


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_lines_fit(width: int) -> None:
    """No line is wider than the terminal."""
    from rich.cells import cell_len

    long = picture(file="ご" * 200, pet="長" * 90, metadata="x " * 300)
    done = report(result_of(long, "failed", "refused", "word " * 80, cure="y" * 300))
    for text in (pictures_text(pictures(long), width=width), uploaded_text(done, width=width)):
        assert max(map(cell_len, text.splitlines())) <= width


def test_failures_come_first() -> None:
    """Files that need a decision are shown before all others, each with its cure."""
    done = report(
        result_of(picture(file="ok.jpg"), "applied", urls=("http://x/1",), sent=2_000),
        result_of(picture(file="old.jpg"), "unchanged", "already-so", "uploaded before"),
        result_of(picture(file="lost.jpg"), "unknown", "no-answer", "no answer", cure="Look."),
        result_of(picture(file="bad.jpg"), "failed", "refused", "too large", cure="Shrink it."),
        result_of_problem(
            ps.types.PictureProblem(file="none.jpg", problem="no pet", cure="Add it.")
        ),
    )
    for shown in (repr(done), done._repr_html_()):
        places = [shown.index(name) for name in ("bad.jpg", "lost.jpg", "none.jpg", "old.jpg")]
        assert places == sorted(places)
        assert "Shrink it." in shown
    assert sum(done.counts.values()) == len(done.results) == len(done.to_frame()) == 5
    assert done.exit_code == 3
    assert done.total_bytes == 2_000


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(o, 0 if o in ("applied", "unchanged", "not sent") else 3) for o in OUTCOMES],
)
def test_exit_code(outcome: Any, code: int) -> None:
    """A file that should be uploaded and is not gives exit code 3; a stopped run always gives 7."""
    done = report(result_of(picture(), outcome))
    assert done.exit_code == code
    assert msgspec.structs.replace(done, stopped="interrupted").exit_code == 7
    assert json.loads(done.to_json())["exit_code"] == code


def test_frame_of_pictures() -> None:
    """The frame has one row for each picture or problem, with exact ids."""
    big = 2**63 - 2
    frame = pictures(picture(pet_id=big), problems=everything().problems).to_frame()
    assert frame["id"].tolist()[0] == big
    assert str(frame["id"].dtype) == "Int64"
    assert frame["decision"].tolist() == ["new", "problem", "left out"]


def test_round_trip() -> None:
    """The JSON of pictures reads back as the same value; any other content is a PlanError."""
    value = everything()
    assert ps.types.Pictures.from_json(value.to_json()) == value
    assert hash(ps.types.Pictures.from_json(value.to_json())) == hash(value)
    newer = value.to_json().replace(b'"format":2', b'"format":3', 1)
    for body in (b"", b"[]", b"\xff", b'{"format":1}', b'{"format":2}', newer, b"[" * 100_000):
        with pytest.raises(PlanError):
            ps.types.Pictures.from_json(body)


def test_pictures_of_petsync_0_2_are_read() -> None:
    """The JSON of petsync 0.2 (format 1) reads as the same value; its key and words were others."""
    value = everything()
    body = value.to_json().replace(b'"format":2', b'"format":1', 1)
    body = body.replace(b'"decision":', b'"fate":')
    for now, before in (("uploaded", "already"), ("duplicate", "twice"), ("unknown", "doubtful")):
        body = body.replace(f'"fate":"{now}"'.encode(), f'"fate":"{before}"'.encode())
    assert body.count(b'"already"') == body.count(b'"twice"') == body.count(b'"doubtful"') == 1
    assert ps.types.Pictures.from_json(body) == value
    for wrong in (b"null", b"[]", b'"other"'):
        with pytest.raises(PlanError):
            ps.types.Pictures.from_json(body.replace(b'"already"', wrong))


def test_treatment_says_all() -> None:
    """The treatment of a picture names the removed metadata, the new size and the quality."""
    done = picture(
        done=("metadata", "scaled"), saved="JPEG, quality 90", sent_width=20, sent_height=15
    )
    assert treatment(done) == (
        "metadata removed, scaled to 20 × 15, saved again as JPEG, quality 90"
    )
    assert treatment(picture()) == "unchanged"
    asked = pictures(done, options=PictureOptions(keep_metadata=True, max_side=20))
    assert "metadata kept, no side over 20 pixels" in repr(asked)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (3 * 1024**3, "3.0 GiB"),
    ],
)
def test_size(value: int, text: str) -> None:
    """A size is shown in the unit that suits it."""
    assert size(value) == text


def test_nothing_there() -> None:
    """An empty folder is reported as empty."""
    assert "there is no picture" in repr(pictures())
    assert repr(report()).endswith("Done: 0 uploaded.")
