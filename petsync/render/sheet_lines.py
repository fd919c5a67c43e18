"""A sheet, with its findings by rule, and a snapshot, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from petsync.diff.snapshot import Snapshot
from petsync.render import lines, words
from petsync.render.digest import Listing, findings_by_rule
from petsync.render.sheet_words import (
    coverage,
    problem_of,
    rule_title,
    sheet_facts,
    sheet_summary,
    snapshot_facts,
    status_counts,
)
from petsync.render.visible import shorten, visible
from petsync.table.sheet import Finding, Sheet

__all__ = ["findings_lines", "snapshot_lines"]


def findings_lines(sheet: Sheet, *, limit: int = 5, width: int = 80) -> Iterator[Text]:
    """The sheet and its findings: errors first, by rule, the first `limit` (≥ 1) of each rule."""
    yield Text("petsync sheet", "bold")
    yield from lines.facts(sheet_facts(sheet), width)
    for listing in findings_by_rule(sheet, limit):
        yield from _rule(listing, width)
    yield lines.BLANK
    yield from lines.paragraph(sheet_summary(sheet), width, style="bold")


def snapshot_lines(snapshot: Snapshot, *, width: int = 80) -> Iterator[Text]:
    """The snapshot's moment, its pets by status, and what it covers."""
    counts = status_counts(snapshot)
    column = max((len(words.number(total)) for _, total in counts), default=1)
    yield Text("petsync snapshot", "bold")
    yield from lines.facts(snapshot_facts(snapshot), width)
    yield lines.BLANK
    for status, total in counts:
        yield Text(f"  {words.number(total):>{column}}  {shorten(status, width - column - 4)}")
    yield lines.BLANK
    yield from lines.paragraph(coverage(snapshot), width)


def _rule(listing: Listing[Finding], width: int) -> Iterator[Text]:
    yield from lines.heading(rule_title(listing), width)
    advice = ""
    for finding in listing.shown:
        mark: words.Mark = "blocked" if finding.severity == "error" else "warning"
        new_advice = "" if finding.suggestion == advice else finding.suggestion
        said = words.sentences(problem_of(finding), new_advice)
        yield from lines.item(mark, visible(f"{finding.address}: {said}"), width)
        advice = finding.suggestion
    yield from lines.more(listing.more)
