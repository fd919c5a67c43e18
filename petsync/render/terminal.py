"""Values on a terminal: the lines of the plain text, coloured where the console has colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from petsync.diff.explain import Explanation
from petsync.diff.history import Entry, Past
from petsync.diff.intake import Inbound
from petsync.diff.plan import Plan
from petsync.diff.rehearsal import Rehearsal
from petsync.diff.report import Report
from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport
from petsync.diff.snapshot import Snapshot
from petsync.diff.uploaded import UploadedFile
from petsync.render import lines
from petsync.render.explain_lines import explanation_lines
from petsync.render.intake_lines import intake_lines
from petsync.render.plan_lines import plan_lines
from petsync.render.rehearsal_lines import rehearsal_lines
from petsync.render.report_lines import report_lines
from petsync.render.round_lines import list_lines, round_lines, rounds_lines
from petsync.render.runs_lines import deeds_lines, pet_lines, runs_lines
from petsync.render.sheet_lines import findings_lines, snapshot_lines
from petsync.table.sheet import Sheet

__all__ = [
    "show_deeds",
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
    "show_runs",
    "show_snapshot",
    "terminal_svg",
]

_NARROW, _WIDE = 60, 100


def show_plan(plan: Plan, console: Console, *, limit: int | None = 20) -> None:
    """Print the plan with the first `limit` rows of each sort."""
    _show(plan_lines(plan, limit=limit, width=_width(console)), console)


def show_explanations(explanations: Iterable[Explanation], console: Console) -> None:
    """Print what becomes of each pet, and why, field by field."""
    _show(explanation_lines(explanations, width=_width(console)), console)


def show_report(report: Report, console: Console, *, limit: int | None = 20) -> None:
    """Print the report with the first `limit` rows of each outcome that needs a person."""
    _show(report_lines(report, limit=limit, width=_width(console)), console)


def show_rounds(rounds: Sequence[RoundReport], console: Console, *, limit: int | None = 5) -> None:
    """Print the rounds as a table, and of each that needs a person the first `limit` differences
    of each kind that it left.
    """
    _show(rounds_lines(rounds, _width(console), limit=limit), console)


def show_round(told: RoundReport, console: Console, *, limit: int | None = 20) -> None:
    """Print the round with the first `limit` of each kind of difference that it left."""
    _show(round_lines(told, _width(console), limit=limit), console)


def show_past_rounds(rounds: Sequence[Round], console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` rounds as a table."""
    shown = rounds if limit is None else rounds[:limit]
    _show(list_lines(shown, _width(console), begun=True), console)
    _show(lines.more(len(rounds) - len(shown)), console)


def show_intake(inbound: Inbound, console: Console, *, limit: int | None = 20) -> None:
    """Print what a sheet is to take from the store, the first `limit` rows of it."""
    _show(intake_lines(inbound, width=_width(console), limit=limit), console)


def show_rehearsal(rehearsal: Rehearsal, console: Console, *, limit: int | None = 5) -> None:
    """Print the rehearsal with the first `limit` rows of each sort."""
    _show(rehearsal_lines(rehearsal, limit=limit, width=_width(console)), console)


def show_runs(runs: Sequence[Past], console: Console, *, limit: int | None = 20) -> None:
    """Print the first `limit` runs, and what became of each."""
    _show(runs_lines(runs, limit=limit, width=_width(console)), console)


def show_pet(pet_id: int, deeds: Sequence[tuple[Past, Entry]], console: Console) -> None:
    """Print all that runs did to a pet, before and after."""
    _show(pet_lines(pet_id, deeds, width=_width(console)), console)


def show_deeds(
    run: Past,
    entries: Sequence[Entry],
    console: Console,
    *,
    limit: int | None = 20,
    files: Sequence[UploadedFile] = (),
) -> None:
    """Print a run, and what became of the first `limit` of its changes, or of its files."""
    width = _width(console)
    _show(deeds_lines(run, entries, limit=limit, width=width, files=files), console)


def show_findings(sheet: Sheet, console: Console, *, limit: int = 5) -> None:
    """Print the sheet and its findings by rule, the first `limit` (≥ 1) of each."""
    _show(findings_lines(sheet, limit=limit, width=_width(console)), console)


def show_snapshot(snapshot: Snapshot, console: Console) -> None:
    """Print the snapshot's moment, its pets by status, and what it covers."""
    _show(snapshot_lines(snapshot, width=_width(console)), console)


def terminal_svg(show: Callable[[Console], None], *, title: str, width: int = 80) -> str:
    """A picture, as SVG without any address in it, of what `show` prints on its console."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor"
    )
    show(console)
    plain = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, code_format=plain)


def _width(console: Console) -> int:
    return min(max(console.width, _NARROW), _WIDE)


def _show(shown: Iterable[Text], console: Console) -> None:
    for line in shown:
        line.rstrip()
        console.print(line, soft_wrap=True)
