"""A sheet with its findings, and a snapshot, as HTML."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.diff.snapshot import Snapshot
from petsync.render import markup, words
from petsync.render.digest import findings_by_rule
from petsync.render.markup import cell, element
from petsync.render.sheet_words import (
    coverage,
    problem_of,
    rule_title,
    sheet_facts,
    sheet_summary,
    snapshot_facts,
    status_counts,
)
from petsync.table.sheet import Finding, Sheet

__all__ = ["sheet_html", "snapshot_html"]

_OPEN = 3
"""So many rules stand open; the rest would push what comes after them off the screen."""


def sheet_html(sheet: Sheet, *, limit: int | None = 20) -> str:
    """The sheet and its findings by rule, the first `limit` of each."""
    return markup.fragment(_parts(sheet, limit))


def snapshot_html(snapshot: Snapshot) -> str:
    """The snapshot's moment, its pets by status, and what it covers."""
    rows = [_status(status, total) for status, total in status_counts(snapshot)]
    return markup.fragment(
        [
            markup.summary(coverage(snapshot)),
            markup.facts(snapshot_facts(snapshot)),
            markup.table(("Status", "Pets"), rows, small=True),
        ]
    )


def _parts(sheet: Sheet, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    yield markup.summary(sheet_summary(sheet))
    yield markup.facts(sheet_facts(sheet))
    columns = ("", "Where", "Problem", "Suggestion")
    for n, listing in enumerate(findings_by_rule(sheet, limit)):
        title = rule_title(listing)
        fold = fold_over if n < _OPEN else 0
        yield markup.listing(title, listing, columns, _finding, fold_over=fold)


def _finding(finding: Finding) -> str:
    return markup.row(
        "blocked" if finding.severity == "error" else "warning",
        cell(finding.address, kind="ps-where"),
        cell(problem_of(finding)),
        cell(finding.suggestion),
    )


def _status(status: str, total: int) -> str:
    number = element("td", words.number(total), class_="ps-number")
    return element("tr", markup.row_head(status) + number)
