"""Display of objects: in a notebook, in a terminal, and as plain text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from petsync.plan.change import Snapshot
from petsync.plan.explain import Explanation
from petsync.plan.plan import Inbound, Plan, Summary
from petsync.plan.rehearsal import Rehearsal
from petsync.plan.report import Entry, PastRun, Report, RoundReport
from petsync.plan.rounds import Round
from petsync.plan.uploads import UploadedFile
from petsync.report import text
from petsync.report.explain import explanation_lines
from petsync.report.plan import intake_lines, plan_html, plan_lines, plan_page, summary_lines
from petsync.report.rehearsal import rehearsal_lines
from petsync.report.round import list_lines, round_lines, rounds_lines
from petsync.report.run import pet_lines, report_html, report_lines, run_details_lines, runs_lines
from petsync.report.sheet import (
    findings_html,
    findings_lines,
    sheet_html,
    snapshot_html,
    snapshot_lines,
    table_lines,
)
from petsync.table.sheet import Findings, Sheet

__all__ = [
    "explanations_text",
    "findings_html",
    "findings_text",
    "plan_html",
    "plan_page",
    "plan_text",
    "rehearsal_text",
    "report_html",
    "report_text",
    "round_text",
    "rounds_text",
    "sheet_html",
    "show_explanations",
    "show_findings",
    "show_intake",
    "show_past_rounds",
    "show_pet",
    "show_plan",
    "show_rehearsal",
    "show_report",
    "show_round",
    "show_rounds",
    "show_run_details",
    "show_runs",
    "show_snapshot",
    "snapshot_html",
    "snapshot_text",
    "summary_text",
    "table_text",
    "terminal_svg",
]


# Values in a terminal: the lines of the plain text, in colour if the console has colours.


_NARROW, _WIDE = 60, 100


def show_plan(plan: Plan, console: Console, *, limit: int | None = 20) -> None:
    """Print the plan with the first `limit` rows of each kind."""
    _show(plan_lines(plan, limit=limit, width=_width(console)), console)


def show_explanations(explanations: Iterable[Explanation], console: Console) -> None:
    """Print each pet's decision, and the reason for each field."""
    _show(explanation_lines(explanations, width=_width(console)), console)


def show_report(report: Report, console: Console, *, limit: int | None = 20) -> None:
    """Print the report with the first `limit` rows of each outcome and cause that needs
    attention.
    """
    _show(report_lines(report, limit=limit, width=_width(console)), console)


def show_rounds(rounds: Sequence[RoundReport], console: Console, *, limit: int | None = 5) -> None:
    """Print the rounds as a table, and the first `limit` differences of each kind for each round
    that needs attention.
    """
    _show(rounds_lines(rounds, _width(console), limit=limit), console)


def show_round(round_report: RoundReport, console: Console, *, limit: int | None = 20) -> None:
    """Print the round with the first `limit` remaining differences of each kind."""
    _show(round_lines(round_report, _width(console), limit=limit), console)


def show_past_rounds(rounds: Sequence[Round], console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` rounds as a table."""
    shown = rounds if limit is None else rounds[:limit]
    _show(list_lines(shown, _width(console), show_start=True), console)
    _show(text.more(len(rounds) - len(shown)), console)


def show_intake(inbound: Inbound, console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` changes from the store for the sheet."""
    _show(intake_lines(inbound, width=_width(console), limit=limit), console)


def show_rehearsal(rehearsal: Rehearsal, console: Console, *, limit: int | None = 5) -> None:
    """Print the rehearsal with the first `limit` rows of each kind."""
    _show(rehearsal_lines(rehearsal, limit=limit, width=_width(console)), console)


def show_runs(runs: Sequence[PastRun], console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` runs, and their outcomes."""
    _show(runs_lines(runs, limit=limit, width=_width(console)), console)


def show_pet(pet_id: int, entries: Sequence[tuple[PastRun, Entry]], console: Console) -> None:
    """Print the changes that runs made to a pet, with the values before and after."""
    _show(pet_lines(pet_id, entries, width=_width(console)), console)


def show_run_details(
    run: PastRun,
    entries: Sequence[Entry],
    console: Console,
    *,
    limit: int | None = 20,
    files: Sequence[UploadedFile] = (),
) -> None:
    """Print a run, and the outcomes of the first `limit` of its changes or files."""
    width = _width(console)
    _show(run_details_lines(run, entries, limit=limit, width=width, files=files), console)


def show_findings(sheet: Sheet, console: Console, *, limit: int = 5) -> None:
    """Print the sheet with the first `limit` (≥ 1) findings of each rule."""
    _show(findings_lines(sheet, limit=limit, width=_width(console)), console)


def show_snapshot(snapshot: Snapshot, console: Console) -> None:
    """Print the snapshot's time, its pets by status, and its coverage."""
    _show(snapshot_lines(snapshot, width=_width(console)), console)


def terminal_svg(show: Callable[[Console], None], *, title: str, width: int = 80) -> str:
    """Return an SVG image, without any URL in it, of the text that `show` prints on its console."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor"
    )
    show(console)
    plain = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, code_format=plain)


def _width(console: Console) -> int:
    return min(max(console.width, _NARROW), _WIDE)


def _show(lines: Iterable[Text], console: Console) -> None:
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)


# Values as plain text: stable, without colour, by default at most 80 columns wide.


def plan_text(plan: Plan, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the plan as text, with the first `limit` rows of each kind; all rows if `limit` is
    None.
    """
    return _join_lines(plan_lines(plan, limit=limit, width=width))


def explanations_text(explanations: Iterable[Explanation], *, width: int = 80) -> str:
    """Return each pet's decision, and the reason for each field, as text."""
    return _join_lines(explanation_lines(explanations, width=width))


def summary_text(summary: Summary, *, width: int = 80) -> str:
    """Return the counts of a plan as text."""
    return _join_lines(summary_lines(summary, width=width))


def report_text(report: Report, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the report as text, with the first `limit` rows of each outcome and cause that needs
    attention.
    """
    return _join_lines(report_lines(report, limit=limit, width=width))


def rehearsal_text(rehearsal: Rehearsal, *, limit: int | None = 5, width: int = 80) -> str:
    """Return the rehearsal as text, with the first `limit` rows of each kind."""
    return _join_lines(rehearsal_lines(rehearsal, limit=limit, width=width))


def round_text(round_report: RoundReport, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the round as text, with the first `limit` remaining differences of each kind."""
    return _join_lines(round_lines(round_report, width, limit=limit))


def rounds_text(rounds: Sequence[RoundReport], *, limit: int | None = 5, width: int = 80) -> str:
    """Return the rounds as a table, and the differences of each round that needs attention, as
    text.
    """
    return _join_lines(rounds_lines(rounds, width, limit=limit))


def findings_text(sheet: Sheet, *, limit: int = 5, width: int = 80) -> str:
    """Return the sheet as text, with the first `limit` (≥ 1) findings of each rule."""
    return _join_lines(findings_lines(sheet, limit=limit, width=width))


def table_text(findings: Findings, *, limit: int = 5, width: int = 80) -> str:
    """Return a table of findings as text, with the first `limit` (≥ 1) of each rule."""
    return _join_lines(table_lines(findings, limit=limit, width=width))


def snapshot_text(snapshot: Snapshot, *, width: int = 80) -> str:
    """Return the snapshot's time, its pets by status, and its coverage, as text."""
    return _join_lines(snapshot_lines(snapshot, width=width))


def _join_lines(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)
