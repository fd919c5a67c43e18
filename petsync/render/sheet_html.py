"""A sheet with its findings, and a snapshot, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from petsync.diff.snapshot import Snapshot
from petsync.render import markup, words
from petsync.render.gathered import Group, Same, gathered, problems, totals
from petsync.render.markup import cell, element, text
from petsync.render.sheet_words import (
    coverage,
    next_step,
    sheet_facts,
    sheet_summary,
    snapshot_facts,
    status_counts,
)
from petsync.table.findings import Findings
from petsync.table.sheet import Finding, Sheet

__all__ = ["findings_html", "sheet_html", "snapshot_html"]

_COLUMNS = ("Where", "Value", "Problem", "Suggestion")
_KINDS = {"Where": "ps-place", "Value": "ps-value"}
_NAMED = 3
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


def findings_html(findings: Findings, *, limit: int | None = 20) -> str:
    """A table of findings by rule, as those of a sheet."""
    found = list(problems(findings))
    return markup.fragment([markup.summary(totals(found)), *_groups(found, limit)])


def _parts(sheet: Sheet, limit: int | None) -> Iterator[str]:
    yield markup.summary(sheet_summary(sheet))
    yield markup.facts(sheet_facts(sheet))
    yield from _groups(sheet.problems, limit)
    if sheet.problems:
        yield element("p", text(next_step(sheet.problems)), class_="ps-facts")


def _groups(found: Iterable[Finding], limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    for n, group in enumerate(gathered(found)):
        is_open = n < _OPEN and len(group.same[:limit]) <= fold_over
        yield markup.folding(group.title, _group(group, limit), aside=_aside(group), open_=is_open)


def _aside(group: Group) -> str:
    """Where the first ones are, and what is wrong if that can be said in general."""
    shown = "; ".join(same.where for same in group.same[:_NAMED])
    more = " ..." if len(group.same) > _NAMED else ""
    return f"{shown}{more}: {group.problem}" if group.problem else f"{shown}{more}"


def _group(group: Group, limit: int | None) -> str:
    same = group.same[:limit]
    common = words.sentences(group.problem, group.suggestion)
    columns = [name for name in _COLUMNS if any(_cells(each)[name] for each in same)]
    parts = [
        element("p", text(common)) if common else "",
        markup.table(["", *columns], (_row(each, group, columns) for each in same)),
        element("p", text(group.more(len(same)))) if limit is not None else "",
    ]
    return "\n".join(part for part in parts if part and part != "<p></p>")


def _row(same: Same, group: Group, columns: Sequence[str]) -> str:
    cells = _cells(same)
    return markup.row(
        "blocked" if group.severity == "error" else "warning",
        *(cell(cells[name], kind=_KINDS.get(name, "")) for name in columns),
    )


def _cells(same: Same) -> dict[str, str]:
    said = (same.where, same.shown, same.problem, same.suggestion)
    return dict(zip(_COLUMNS, said, strict=True))


def _status(status: str, total: int) -> str:
    number = element("td", words.number(total), class_="ps-number")
    return element("tr", markup.row_head(status) + number)
