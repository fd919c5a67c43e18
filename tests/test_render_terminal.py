"""Plans, reports and findings on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from effort import steps
from render_samples import (
    HOSTILE,
    UPDATE,
    finding,
    hostile_plan,
    replace,
    sheet_with,
    small_plan,
    small_report,
    small_snapshot,
)
from rendering import snapshot_text
from rich.cells import cell_len
from rich.console import Console

from petsync._terms import in_shell
from petsync.plan.explain import Explanation
from petsync.report.document import Document, reword
from petsync.report.text import document_lines, plain_text, show, terminal_svg
from petsync.report.views.explain import explanations_view
from petsync.report.views.plan import plan_view
from petsync.report.views.run import report_view
from petsync.report.views.sheet import sheet_view, snapshot_view

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def console(**options: object) -> Console:
    """Return a console of 80 columns that writes into a string, with rich's usual settings."""
    return Console(file=io.StringIO(), width=80, **options)


def written(out: Console) -> str:
    """Return the output of the console."""
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def shell_text(view: Document) -> str:
    """Return the plain text of a document, with the options of commands alone."""
    return plain_text(reword(view, in_shell))


def test_without_a_terminal_it_is_the_plain_text() -> None:
    """Without a terminal the output is the plain text, byte for byte, for each kind of value."""
    sheet = sheet_with(finding("unknown-status", 4))
    for show_value, value, text in (
        (show, plan_view(small_plan()), shell_text(plan_view(small_plan()))),
        (show, report_view(small_report()), shell_text(report_view(small_report()))),
        (show, sheet_view(sheet), plain_text(sheet_view(sheet))),
        (
            show,
            snapshot_view(small_snapshot()),
            snapshot_text(small_snapshot()),
        ),
    ):
        out = console()
        show_value(value, out)
        assert written(out) == text + "\n"


def test_on_a_terminal_it_is_the_same_text_in_colour() -> None:
    """On a terminal the output without its colour codes is the plain text."""
    out = console(force_terminal=True, color_system="standard")
    show(plan_view(small_plan()), out)
    assert "\x1b[32m  + new  \x1b[0m" in written(out)
    assert "\x1b[31m  -  99  \x1b[0m" in written(out)
    assert _STYLE.sub("", written(out)) == shell_text(plan_view(small_plan())) + "\n"


def test_changed_characters_are_coloured() -> None:
    """In a changed text, removed characters are red and added ones are green."""
    out = console(force_terminal=True, color_system="standard")
    show(plan_view(small_plan()), out)
    assert "name: Bel\x1b[31ml\x1b[0ma -> Bela" in written(out)
    assert "status: \x1b[31mavailable\x1b[0m -> \x1b[32msold\x1b[0m" in written(out)
    assert '\x1b[32m+"good with kids"\x1b[0m \x1b[31m-shy\x1b[0m' in written(out)


def test_explanations_on_a_terminal() -> None:
    """The sign of a pet's decision has its colour, and the text is the plain one."""
    result = Explanation(
        pet_id=7,
        name="Rex",
        decision="delete",
        row=None,
        source="",
        rule="missing",
        sentence="Gone.",
    )
    out = console(force_terminal=True, color_system="standard")
    show(explanations_view([result]), out)
    assert written(out).startswith("\x1b[31m- \x1b[0m\x1b[1mPet 7, Rex: it will be deleted.")
    assert _STYLE.sub("", written(out)) == plain_text(explanations_view([result])) + "\n"


def test_a_huge_plan_is_on_the_screen_at_once() -> None:
    """The first line of a huge plan is there before any change is rendered in detail."""

    def first(count: int) -> str:
        return next(
            iter(document_lines(plan_view(replace(small_plan(), changes=(UPDATE,) * count))))
        ).plain

    assert first(300_000).startswith("Plan: 0 to add, 300,000 to change")
    # Counting a change takes a few lines of Python; showing one takes hundreds.
    assert steps(lambda: first(6_000)) - steps(lambda: first(1_000)) < 30 * 5_000


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a terminal gets no colour codes, and the symbols remain."""
    monkeypatch.setenv("NO_COLOR", "1")
    out = console(force_terminal=True, color_system="standard")
    show(plan_view(small_plan()), out)
    codes = {code for found in _STYLE.findall(written(out)) for code in found[2:-1].split(";")}
    assert codes <= {"0", "1", "2"}
    assert "+ new  " in written(out)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_reaches_the_terminal_raw(name: str) -> None:
    """No name can colour, link or move text, and markup in a name is shown unchanged."""
    plan = hostile_plan(name)
    out = console(force_terminal=True, color_system="truecolor")
    show(plan_view(plan), out)
    plain = _STYLE.sub("", written(out))
    assert plain == shell_text(plan_view(plan)) + "\n"
    assert "\x1b" not in plain


@pytest.mark.parametrize(("columns", "used"), [(20, 60), (80, 80), (500, 100)])
def test_lines_keep_a_readable_width(columns: int, used: int) -> None:
    """Lines fill the terminal, with at least 60 and at most 100 columns."""
    out = Console(file=io.StringIO(), width=columns)
    show(plan_view(small_plan()), out)
    assert max(map(cell_len, written(out).splitlines())) == used


def test_a_picture_needs_nothing_from_elsewhere() -> None:
    """The SVG of a terminal shows the plan and loads nothing from another address."""
    svg = terminal_svg(lambda out: show(plan_view(small_plan()), out), title="petsync plan")
    assert "Mochi" in svg
    assert "@font-face" not in svg
    assert set(re.findall(r"https?://[^\s\"<&]+", svg)) == {
        "http://www.w3.org/2000/svg",
        "http://127.0.0.1:1/v2",
    }
