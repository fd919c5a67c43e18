"""Values as plain text: stable, without colour, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from petsync.diff.explain import Explanation
from petsync.diff.plan import Plan
from petsync.diff.rehearsal import Rehearsal
from petsync.diff.report import Report
from petsync.diff.round_report import RoundReport
from petsync.diff.snapshot import Snapshot
from petsync.diff.summary import Summary
from petsync.render.explain_lines import explanation_lines
from petsync.render.plan_lines import plan_lines
from petsync.render.rehearsal_lines import rehearsal_lines
from petsync.render.report_lines import report_lines
from petsync.render.round_lines import round_lines, rounds_lines
from petsync.render.sheet_lines import findings_lines, snapshot_lines, table_lines
from petsync.render.summary_lines import summary_lines
from petsync.table.findings import Findings
from petsync.table.sheet import Sheet

__all__ = [
    "explanations_text",
    "findings_text",
    "plan_text",
    "rehearsal_text",
    "report_text",
    "round_text",
    "rounds_text",
    "snapshot_text",
    "summary_text",
    "table_text",
]


def plan_text(plan: Plan, *, limit: int | None = 20, width: int = 80) -> str:
    """The plan with the first `limit` rows of each sort (all where it is None)."""
    return _joined(plan_lines(plan, limit=limit, width=width))


def explanations_text(explanations: Iterable[Explanation], *, width: int = 80) -> str:
    """What becomes of each pet, and why, field by field."""
    return _joined(explanation_lines(explanations, width=width))


def summary_text(summary: Summary, *, width: int = 80) -> str:
    """A plan's numbers."""
    return _joined(summary_lines(summary, width=width))


def report_text(report: Report, *, limit: int | None = 20, width: int = 80) -> str:
    """The report with the first `limit` rows of each outcome that needs a person."""
    return _joined(report_lines(report, limit=limit, width=width))


def rehearsal_text(rehearsal: Rehearsal, *, limit: int | None = 5, width: int = 80) -> str:
    """The rehearsal with the first `limit` rows of each sort."""
    return _joined(rehearsal_lines(rehearsal, limit=limit, width=width))


def round_text(told: RoundReport, *, limit: int | None = 20, width: int = 80) -> str:
    """The round with the first `limit` of each kind of difference that it left."""
    return _joined(round_lines(told, width, limit=limit))


def rounds_text(rounds: Sequence[RoundReport], *, limit: int | None = 5, width: int = 80) -> str:
    """The rounds as a table, and of each that needs a person what it left."""
    return _joined(rounds_lines(rounds, width, limit=limit))


def findings_text(sheet: Sheet, *, limit: int = 5, width: int = 80) -> str:
    """The sheet and its findings by rule, the first `limit` (≥ 1) of each."""
    return _joined(findings_lines(sheet, limit=limit, width=width))


def table_text(findings: Findings, *, limit: int = 5, width: int = 80) -> str:
    """A table of findings by rule, the first `limit` (≥ 1) of each."""
    return _joined(table_lines(findings, limit=limit, width=width))


def snapshot_text(snapshot: Snapshot, *, width: int = 80) -> str:
    """The snapshot's moment, its pets by status, and what it covers."""
    return _joined(snapshot_lines(snapshot, width=width))


def _joined(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)
