"""Undo plans and past runs in every output format, in 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import openpyxl
import pytest
from render_samples import BELLA, DELETE, HOSTILE, UPDATE, plan_with, report_of, result
from rendering import plan_html, plan_markdown, plan_page, plan_text, report_html, report_text
from rich.cells import cell_len
from test_undo_rules import ADDED, DELETED, REX, RUN, SHOWN, entry

from petsync.plan.change import Change, Conflict, Coverage, FailedLookup
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, PastRun
from petsync.plan.uploads import UploadedFile
from petsync.report.document import Document
from petsync.report.html import document_html
from petsync.report.markdown import document_markdown
from petsync.report.text import plain_text
from petsync.report.views.run import pet_view, run_view, runs_view
from petsync.report.workbook import plan_workbook

replace = msgspec.structs.replace
KEPT = Conflict(
    row=None,
    source="Pets!B18",
    pet_id=17,
    name="Bella",
    rule="changed-since-run",
    problem="was changed since the run, and is not changed",
    suggestion="Change it by a sheet.",
)
PAST = PastRun(
    run_id=RUN,
    store="http://127.0.0.1:1/v2",
    source="spring.xlsx",
    started="2026-11-21T09:30:00+00:00",
    seconds=3.2,
    state="done",
    total=14,
    counts={"applied": 12, "not sent": 1, "conflict": 1},
)


def undo_of(*changes: Change, **more: object) -> Plan:
    """Return an undo plan with these changes."""
    values: dict[str, object] = {"source": f"run {RUN}", "undoes": RUN, "rows": 3, "unchanged": 1}
    return plan_with(*changes, **{**values, **more})


def folded(text: str) -> str:
    """Return the text in one line."""
    return " ".join(text.split())


SMALL = undo_of(UPDATE, replace(DELETE, why="asked"), conflicts=(KEPT,), rows=4)


def every_format(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the plan in each format as text."""
    plan_workbook(plan, folder / "undo.xlsx")
    cells = [
        str(cell)
        for tab in openpyxl.load_workbook(folder / "undo.xlsx")
        for row in tab.iter_rows(values_only=True)
        for cell in row
    ]
    return {
        "text": plan_text(plan),
        "html": plan_html(plan),
        "page": plan_page(plan),
        "markdown": plan_markdown(plan),
        "workbook": "\n".join(cells),
    }


def test_every_format_says_which_run_it_takes_back(tmp_path: Path) -> None:
    """Every format of an undo plan names the run and does not mention a sheet."""
    for name, shown in every_format(SMALL, tmp_path).items():
        assert RUN in shown, name
        assert "Undo: 0 to add, 1 to change, 1 to delete; 1 conflict" in shown, name
        assert "1 already restored" in shown, name
        assert "only with the store" not in shown, name
        assert "of the sheet" not in shown, name
    assert "changed since the run, and is not changed" in folded(plan_text(SMALL))


def test_a_report_on_an_undo() -> None:
    """The report of an undo names the undone run in text and HTML."""
    report = report_of(result(0, "applied"), plan=SMALL)
    for shown in (report_text(report), report_html(report)):
        assert "undo of" in shown
        assert RUN in shown


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (0, "Nothing to undo: the run changed no pet."),
        (1, "Nothing to undo: its one pet is the same as before the run."),
        (1200, "Nothing to undo: all 1,200 pets are the same as before the run."),
    ],
)
def test_nothing_to_undo(rows: int, message: str) -> None:
    """An undo plan without changes gives the reason in one sentence."""
    assert message in plan_text(undo_of(rows=rows, unchanged=rows))


def test_the_numbers_of_an_undo() -> None:
    """The rows of an undo's summary are the pets that the run changed."""
    text = str(SMALL.summary())
    assert f"4  that run {RUN} changed" in text
    assert "as before" in text


def test_what_the_store_did_not_answer() -> None:
    """A status that could not be loaded affects only the size of the store in an undo plan."""
    silent = Coverage(("sold",), (FailedLookup("pending", "the service answered 503"),))
    text = folded(plan_text(replace(SMALL, coverage=silent)))
    assert "Pets of this status are not included in the store's count." in text


def test_a_list_of_runs() -> None:
    """The list of runs shows each run's id, time, state and counts, and how many runs it omits."""
    undo = replace(
        PAST, run_id="20261121-100000-beef", kind="undo", undoes=RUN, total=5, counts={"applied": 5}
    )
    stopped = replace(PAST, run_id="20261120-080000-cafe", state="stopped", open=1)
    text = plain_text(runs_view([undo, PAST, stopped]))
    assert f"  {RUN}  2026-11-21 09:30:00 UTC  apply  + Done     3.2 s" in text
    assert (
        "spring.xlsx: 12 of 14 changes applied, 1 not sent, 1 conflict; undone in part by run"
        in (folded(text))
    )
    assert "x Stopped" in text
    assert "1 open" in text
    assert plain_text(runs_view([PAST], limit=0)).endswith("... and 1 more")


def test_an_undo_that_was_undone_leaves_its_run_standing() -> None:
    """A run is shown as undone only by an undo that is not itself undone."""
    undo = replace(PAST, run_id="b", kind="undo", undoes=RUN)
    again = replace(PAST, run_id="c", kind="undo", undoes="b")
    text = plain_text(runs_view([again, undo, PAST]))
    assert "undone by run c" in folded(text)
    assert "undone by run b" not in folded(text)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_fit_the_width(name: str) -> None:
    """Any name of a store, sheet or pet fits in 80 columns without control characters."""
    pet = replace(REX, name=name, status=name)
    run = replace(PAST, source=name, store=name)
    deeds = [
        entry("update", fields=("name",), before=REX, after=pet, source=name, message=name),
        replace(ADDED, after=pet),
        replace(DELETED, before=pet),
    ]
    failed = UploadedFile(file=name, source=name, outcome="failed", message=name)
    views: list[Callable[[], Document]] = [
        lambda: runs_view([run, replace(run, store="other")]),
        lambda: pet_view(7, [(run, each) for each in deeds]),
        lambda: run_view(run, deeds),
        lambda: run_view(run, deeds, files=[failed]),
    ]
    for view in views:
        text = plain_text(view())
        assert max(map(cell_len, text.split("\n"))) <= 80
        for shown in (text, document_html(view()), document_markdown(view())):
            assert not any(mark in shown for mark in "\x1b\x07\x08\r\u202e")


def test_all_that_was_done_to_a_pet() -> None:
    """A pet's history shows each change with its values, and the reason if it was not made."""
    failed = replace(
        entry("update", fields=("name",), before=REX, after=BELLA),
        outcome="conflict",
        message="the pet no longer exists",
    )
    opened = Entry(number=3, kind="delete", pet_id=7, before=REX)
    renumbered = replace(ADDED, assigned_id=99, message="the service gave it the id 99")
    text = plain_text(pet_view(7, [(PAST, each) for each in (SHOWN, failed, opened, renumbered)]))
    assert text.count(f"Run {RUN}: spring.xlsx") == 1
    assert "Apply, started 2026-11-21 09:30:00 UTC, took 3.2 s, done" in text
    assert "Image uploaded" in text
    assert "+/2.png" in text
    assert "! Update, conflict: the pet no longer exists" in text
    assert "Rex -> Bella" in text
    assert "Delete, started, and it is not known yet whether it was applied" in text
    assert "+ 99  Rex" in text
    nothing = replace(SHOWN, before=None, after=None)
    assert "Image uploaded" in plain_text(run_view(PAST, [nothing]))


def test_the_files_of_an_upload() -> None:
    """A run with files shows each file's outcome, the change to its pet, and how many it omits."""
    files = [
        UploadedFile(file="7_2.png", outcome="applied"),
        UploadedFile(file="8.png", source="Pets!F3", outcome="failed", message="the pet is gone"),
        UploadedFile(file="9.png", outcome="applied"),
    ]
    entries = [replace(SHOWN, number=0)]
    text = plain_text(run_view(PAST, entries, files=files, limit=2))
    assert "spring.xlsx on http://127.0.0.1:1/v2: 12 of 14 changes applied" in folded(text)
    assert "\n3 files\n  7_2.png: image uploaded\n" in text
    assert "photo_urls: +/2.png" in text
    assert "  x Pets!F3, 8.png: failed: the pet is gone" in text
    assert text.endswith("... and 1 more")
    page = document_html(run_view(PAST, entries, files=files))
    assert "9.png: image uploaded" in page
    assert "<dt>photo_urls</dt>" in page
