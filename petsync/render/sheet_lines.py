"""A sheet, with its findings by rule, and a snapshot, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from petsync.diff.snapshot import Snapshot
from petsync.render import lines, words
from petsync.render.gathered import Group, gathered, problems, totals
from petsync.render.sheet_words import (
    coverage,
    next_step,
    sheet_facts,
    sheet_summary,
    snapshot_facts,
    status_counts,
)
from petsync.render.visible import shorten, visible
from petsync.table.findings import Findings
from petsync.table.sheet import Sheet

__all__ = ["findings_lines", "snapshot_lines", "table_lines"]


def findings_lines(sheet: Sheet, *, limit: int = 5, width: int = 80) -> Iterator[Text]:
    """The sheet and its findings by rule, the most frequent first, each with the first `limit`
    (≥ 1) of what is said; cells of which the same is said are one.
    """
    yield Text("petsync sheet", "bold")
    yield from lines.facts(sheet_facts(sheet), width)
    for group in gathered(sheet.problems):
        yield from _group(group, limit, width)
    yield lines.BLANK
    yield from lines.paragraph(sheet_summary(sheet), width, style="bold")
    yield from lines.paragraph(next_step(sheet.problems), width) if sheet.problems else ()


def table_lines(findings: Findings, *, limit: int = 5, width: int = 80) -> Iterator[Text]:
    """A table of findings by rule, as those of a sheet."""
    found = list(problems(findings))
    for group in gathered(found):
        yield from _group(group, limit, width)
    yield from [lines.BLANK] if found else []
    yield from lines.paragraph(totals(found), width, style="bold")


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


def _group(group: Group, limit: int, width: int) -> Iterator[Text]:
    mark: words.Mark = "blocked" if group.severity == "error" else "warning"
    yield from lines.heading(group.title, width)
    common = visible(words.sentences(group.problem, group.suggestion))
    yield from lines.paragraph(common, width, indent=2) if common else ()
    for same in group.same[:limit]:
        said = visible(words.sentences(same.problem, same.suggestion))
        where = f"{same.where} {same.shown}".rstrip()
        yield from lines.item(mark, f"{where}: {said}" if said else where, width)
    if more := group.more(limit):
        yield Text(f"  {more}", "dim")
