"""Values as text and HTML, with the options of their views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petsync.plan.change import Snapshot
from petsync.plan.plan import Plan
from petsync.plan.report import PastRun, Report, RoundReport
from petsync.plan.rounds import Round
from petsync.plan.uploads import Pictures, UploadReport
from petsync.report.html import document_html, document_page
from petsync.report.markdown import document_markdown
from petsync.report.text import plain_text
from petsync.report.views.history import history_view
from petsync.report.views.images import pictures_view, uploaded_view
from petsync.report.views.plan import plan_page_view, plan_title, plan_view
from petsync.report.views.round import round_page_view, round_view, rounds_view
from petsync.report.views.run import report_view
from petsync.report.views.sheet import findings_view, sheet_view, snapshot_view
from petsync.table.sheet import Findings, Sheet

__all__ = [
    "findings_html",
    "findings_text",
    "history_page",
    "pictures_html",
    "pictures_text",
    "plan_html",
    "plan_markdown",
    "plan_page",
    "plan_text",
    "report_html",
    "report_text",
    "round_html",
    "round_page",
    "round_text",
    "rounds_html",
    "rounds_text",
    "sheet_html",
    "snapshot_html",
    "snapshot_text",
    "table_text",
    "uploaded_html",
    "uploaded_text",
]


def plan_text(plan: Plan, *, width: int = 80, **options: Any) -> str:
    """Return a plan as text."""
    return plain_text(plan_view(plan, **options), width=width)


def plan_html(plan: Plan, **options: Any) -> str:
    """Return a plan as HTML."""
    return document_html(plan_view(plan, **options))


def plan_page(plan: Plan) -> str:
    """Return a plan as a page."""
    return document_page(plan_page_view(plan), plan_title(plan))


def plan_markdown(plan: Plan, *, limit: int | None = 100) -> str:
    """Return a plan as Markdown."""
    return document_markdown(plan_view(plan, limit=limit, has_fingerprint=True))


def report_text(report: Report, *, width: int = 80, **options: Any) -> str:
    """Return a run's report as text."""
    return plain_text(report_view(report, **options), width=width)


def report_html(report: Report, **options: Any) -> str:
    """Return a run's report as HTML."""
    return document_html(report_view(report, **options))


def findings_text(sheet: Sheet, *, width: int = 80, limit: int = 5) -> str:
    """Return a sheet with its findings as text."""
    return plain_text(sheet_view(sheet, limit=limit), width=width)


def sheet_html(sheet: Sheet, **options: Any) -> str:
    """Return a sheet with its findings as HTML."""
    return document_html(sheet_view(sheet, **options))


def table_text(findings: Findings, *, limit: int = 5) -> str:
    """Return a table of findings as text."""
    return plain_text(findings_view(findings, limit=limit))


def findings_html(findings: Findings) -> str:
    """Return a table of findings as HTML."""
    return document_html(findings_view(findings))


def snapshot_text(snapshot: Snapshot, *, width: int = 80) -> str:
    """Return a snapshot as text."""
    return plain_text(snapshot_view(snapshot), width=width)


def snapshot_html(snapshot: Snapshot) -> str:
    """Return a snapshot as HTML."""
    return document_html(snapshot_view(snapshot))


def pictures_text(value: Pictures, *, width: int = 80, **options: Any) -> str:
    """Return pictures to upload as text."""
    return plain_text(pictures_view(value, **options), width=width)


def pictures_html(value: Pictures, **options: Any) -> str:
    """Return pictures to upload as HTML."""
    return document_html(pictures_view(value, **options))


def uploaded_text(value: UploadReport, *, width: int = 80, **options: Any) -> str:
    """Return an upload's report as text."""
    return plain_text(uploaded_view(value, **options), width=width)


def uploaded_html(value: UploadReport, **options: Any) -> str:
    """Return an upload's report as HTML."""
    return document_html(uploaded_view(value, **options))


def round_text(value: RoundReport) -> str:
    """Return a round as text."""
    return plain_text(round_view(value))


def round_html(value: RoundReport) -> str:
    """Return a round as HTML."""
    return document_html(round_view(value))


def rounds_text(value: Sequence[RoundReport]) -> str:
    """Return rounds as text."""
    return plain_text(rounds_view(value))


def rounds_html(value: Sequence[RoundReport]) -> str:
    """Return rounds as HTML."""
    return document_html(rounds_view(value))


def round_page(value: RoundReport) -> str:
    """Return a round as a page."""
    return document_page(round_page_view(value), value.round.name)


def history_page(rounds: Sequence[Round], runs: Sequence[PastRun], **options: Any) -> str:
    """Return a history as a page."""
    return document_page(history_view(rounds, runs, **options), "Reconciliation history")
