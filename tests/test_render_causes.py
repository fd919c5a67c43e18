"""Results by their causes: each with its title, meaning and cure."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest
from effort import growth, steps
from render_samples import HOSTILE, UPDATE, large_plan, plan_with, report_of, result
from rendering import report_html, report_text

from petsync.plan.report import OUTCOMES, Cause, Report
from petsync.report.text import document_lines
from petsync.report.views.run import report_view
from petsync.report.words import CAUSES, describe_cause, results_by_cause

DOCS = Path(__file__).parent.parent / "docs"
OF_SHEETS = {"apply", "check"}
COMMANDS = {*OF_SHEETS, "resume", "undo"}
MANY = 100_000


def mixed(size: int) -> Report:
    """Return a report on a run of this size that has every cause in turn."""
    causes = get_args(Cause)
    results = []
    for n in range(size):
        cause = causes[n % len(causes)]
        results.append(result(n, "failed", row=n, cause=cause, message="it failed"))
    return report_of(*results, plan=large_plan(size))


def test_each_cause_is_reported() -> None:
    """Every cause has a title, a meaning and a cure, and there is no other entry."""
    assert set(CAUSES) == set(get_args(Cause))
    for title, meaning, cure in CAUSES.values():
        assert title
        assert title[0].islower()
        assert not title.endswith(".")
        assert meaning.endswith(".")
        assert cure.endswith(".")


def test_cures_name_real_commands() -> None:
    """Each command in a cure exists and names the run of the report."""
    for outcome in OUTCOMES:
        for cause in CAUSES:
            words = describe_cause(outcome, cause, "20261120-1")
            typed = re.findall(r"`petsync (\w+)([^`]*)`", words.cure)
            assert {command for command, _ in typed} <= COMMANDS
            assert all("20261120-1" in rest for command, rest in typed if command not in OF_SHEETS)
            assert "RUN" not in words.cure
            assert "--" not in re.sub(r"`petsync [^`]*`", "", words.cure)


def test_causes_page_is_up_to_date() -> None:
    """docs/causes.md is what docs/make.py writes: each cause with outcomes that a report can
    have.
    """
    make = runpy.run_path(str(DOCS / "make.py"))
    page = (DOCS / "causes.md").read_text("utf-8")
    assert page == make["causes_page"](), "run: python docs/make.py"
    table = page.partition("| code |")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert [row[0].strip('`"') for row in rows] == list(get_args(Cause)) == list(CAUSES)
    for code, outcomes, *_ in rows:
        assert set(outcomes.split(", ")) <= set(OUTCOMES), code
    assert {*re.findall(r"^\| `([a-z ]+)` \|", page.partition("| code |")[0], re.MULTILINE)} == {
        *OUTCOMES
    }


def test_what_needs_a_person_comes_first() -> None:
    """Failures come before unknowns and conflicts, larger groups of one outcome first, and what the
    plan already showed last; an applied change is listed only if it needs attention.
    """
    report = report_of(
        result(0, "applied"),
        result(1, "unchanged", cause="already-so"),
        result(2, "conflict", cause="gone"),
        result(3, "unknown", cause="no-answer"),
        result(4, "failed", cause="refused"),
        result(5, "failed", cause="service-error"),
        result(6, "failed", cause="service-error"),
        result(7, "applied", cause="another-id"),
        result(8, "applied", cause="confirmed"),
        *(result(n, "needs fixing", cause="blocked", kind="none") for n in range(9, 14)),
        plan=plan_with(*[UPDATE] * 9),
    )
    lines = report_text(report).splitlines()
    assert [line for line in lines if re.match(r"\d[a-z\d ]*: ", line)] == [
        "2 failed: an error in the service",
        "1 failed: refused by the service",
        "1 unknown: no answer",
        "5 need fixing: errors in the sheet",
        "1 in conflict: no longer in the store",
        "1 applied: under another id",
        "1 unchanged: the store already had the values",
    ]


def test_an_undo_has_no_sheet() -> None:
    """No cure in the report of an undo mentions a sheet, or a plan that is made from one."""
    for outcome in OUTCOMES:
        for cause in CAUSES:
            cure = describe_cause(outcome, cause, "r-2", "r-1").cure
            assert not re.search("sheet|row as|Plan again|plan again|new plan|UNDONE", cure), cause
    assert describe_cause("conflict", "changed-since", "r-2", "r-1").cure == (
        "`petsync undo r-1` again shows what is left."
    )


def test_a_lost_answer_says_what_is_known() -> None:
    """The meaning of a lost response states whether the store has shown the outcome."""
    failed, unknown = (describe_cause(o, "no-answer", "x").meaning for o in ("failed", "unknown"))
    assert failed.endswith("The store shows that the change was not made.")
    assert unknown.endswith("It is not known whether the change was made.")


def test_results_from_before_causes_are_reported_too() -> None:
    """A report from a journal without causes has groups with their own words."""
    report = report_of(*(result(n, o) for n, o in enumerate(OUTCOMES)), plan=large_plan(5))
    assert [group.text.title for group in results_by_cause(report, None)] == [
        "no cause on record",
        "it is not known whether the change was made",
        "no cause on record",
        "a decision is needed",
        "no cause on record",
        "as planned",
        "no cause on record",
    ]


def test_what_was_not_begun_is_counted_and_not_listed() -> None:
    """Changes that were not begun are counted, and three of them are listed, or all on request."""
    left = [result(n, "not sent", cause="not-begun") for n in range(50)]
    report = report_of(*left, stopped="interrupted", plan=large_plan(50))
    assert report_text(report).count("  * Pets!B18") == 3
    assert "... and 47 more" in report_text(report)
    assert report_text(report, limit=None).count("  * Pets!B18") == 50
    assert "<details>\n<summary>50 not sent: not started</summary>" in report_html(report)


def test_a_large_report_is_shown_at_once() -> None:
    """The first line of a report takes the same work for a hundred thousand results as for a
    hundred, and the whole report is linear.
    """
    report, few = mixed(MANY), mixed(100)
    assert next(document_lines(report_view(report))).plain == "petsync run 20261120-093100-4f2a"
    assert steps(lambda: next(document_lines(report_view(report)))) == steps(
        lambda: next(document_lines(report_view(few)))
    )
    reports = {size: mixed(size) for size in (1_300, 5_200)}
    assert growth(lambda size: report_text(reports[size]), 1_300) < 5
    shown = len(report_text(report).splitlines())
    assert shown < 24 * len(CAUSES) + len(OUTCOMES)
    number = sum(each.cause == "no-answer" for each in report.results)
    assert f"{number:,} failed: no answer" in report_text(report)


def test_a_large_report_in_html_is_short() -> None:
    """A large report in HTML has the first rows of each cause, folded if there are many."""
    html = report_html(mixed(2_100))
    assert len(html) < 400_000
    assert html.count('<tr class="ps-blocked" role="row">') == len(CAUSES) * 20 - 4 * 17


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_message_steers_a_terminal(name: str) -> None:
    """Any text from a service, a sheet or a run is shown without control characters and as escaped
    HTML.
    """
    failed = [result(n, "failed", cause="refused", source=name, message=name) for n in range(2)]
    report = Report(
        run_id=name[:60],
        plan=plan_with(UPDATE, source=name),
        started=name,
        seconds=1.0,
        results=tuple(failed),
        stopped=name,
    )
    text = report_text(report)
    assert text.replace("\n", "").replace("\u200d", "").isprintable()
    assert "<script" not in report_html(report)
