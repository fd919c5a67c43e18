"""A sheet and its findings as text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from petsync.plan.change import Snapshot
from petsync.report import html, words
from petsync.report.html import element, table_cell, text
from petsync.report.text import BLANK, facts, heading, item, paragraph
from petsync.report.words import (
    EqualFindings,
    FindingGroup,
    corrections_fact,
    count,
    format_need_fixing,
    format_timestamp,
    group_findings,
    iter_findings,
    shorten,
    totals,
)
from petsync.table.cells import make_visible
from petsync.table.sheet import Finding, Findings, Sheet

__all__ = [
    "coverage",
    "findings_html",
    "findings_lines",
    "next_step",
    "sheet_facts",
    "sheet_html",
    "sheet_summary",
    "snapshot_facts",
    "snapshot_html",
    "snapshot_lines",
    "status_counts",
    "table_lines",
]


# The words of a sheet, its findings and a snapshot, for every format.


_STATUSES = 12
_TABS = 5


def sheet_facts(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield the file, its tabs that are not read, its corrected cells, and its columns: first those
    of petsync, then the others.
    """
    tab = f", tab {sheet.tab}" if sheet.tab else ""
    yield "file", make_visible(f"{sheet.source}{tab}")
    if sheet.tabs:
        more = f" and {len(sheet.tabs) - _TABS} more" if len(sheet.tabs) > _TABS else ""
        yield "not read", make_visible(f"{_format_tabs(sheet.tabs[:_TABS])}{more}")
    yield from corrections_fact(sheet)
    # The frame has the column `action` even if the file does not.
    known_columns = (str(name) for name in sheet.rows.columns if str(name) in sheet.columns)
    yield "columns", ", ".join(map(make_visible, known_columns))
    if len(sheet.others.columns):
        yield "kept", ", ".join(make_visible(str(name)) for name in sheet.others.columns)


def _format_tabs(tabs: Sequence[str]) -> str:
    return f"{'tab' if len(tabs) == 1 else 'tabs'} {', '.join(tabs)}"


def sheet_summary(sheet: Sheet) -> str:
    """Return one sentence with the numbers of usable rows and of findings."""
    if not sheet.problems:
        return f"Checked: {count(len(sheet), 'row')}, no findings."
    warnings = len(sheet.problems) - sheet.errors
    return (
        f"Checked: {count(len(sheet), 'row')} can be used, "
        f"{format_need_fixing(len(sheet.blocked))}; {count(sheet.errors, 'error')}, "
        f"{count(warnings, 'warning')}."
    )


def next_step(findings: Sequence[Finding]) -> str:
    """Return the next step for these findings, and the page that explains each code."""
    where = "docs/findings.md explains each code."
    if any(finding.severity == "error" for finding in findings):
        return (
            "A plan leaves these rows and their pets alone: fix the cells, and check again. "
            f"{where}"
        )
    return f"Every row can be used: warnings show how cells were read. {where}"


def snapshot_facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the store and the time of the snapshot, and the number of pets that were listed in
    different versions and read again.
    """
    yield "store", make_visible(snapshot.source)
    yield "taken", format_timestamp(snapshot.taken_at)
    if snapshot.reread:
        pets = count(len(snapshot.reread), "pet")
        yield "read again", f"{pets} by id, because the lists had different versions of them"


def status_counts(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Return the number of pets with each status, the most frequent first; the rare statuses are
    combined.
    """
    counts = snapshot.frame["status"].value_counts(dropna=False)
    pairs = [(_status_words(status), int(total)) for status, total in counts.items()]
    rest = sum(total for _, total in pairs[_STATUSES:])
    return [*pairs[:_STATUSES], *([("(other statuses)", rest)] if rest else [])]


def coverage(snapshot: Snapshot) -> str:
    """Return the statuses that the snapshot covers, and those that it does not cover."""
    statuses = ", ".join(make_visible(status) for status in snapshot.coverage.statuses) or "none"
    missing = (
        f" The pets of the status {make_visible(lookup.query)} are missing: "
        f"{make_visible(lookup.problem)}."
        for lookup in snapshot.coverage.failed
    )
    return (
        f"{count(len(snapshot), 'pet')}. Covers the statuses {statuses}; a pet of another status "
        f"may exist without being listed here.{''.join(missing)}"
    )


def _status_words(status: object) -> str:
    return (make_visible(status) or "(empty)") if isinstance(status, str) else "(no status)"


# A sheet with its findings, and a snapshot, as HTML.


_COLUMNS = ("Where", "Value", "Problem", "Suggestion")
_KINDS = {"Where": "ps-place", "Value": "ps-value"}
_SHOWN_PLACES = 3
_OPEN_RULES = 3
"""The maximum number of rules whose findings are expanded."""


def sheet_html(sheet: Sheet, *, limit: int | None = 20) -> str:
    """Return the sheet as HTML, with the first `limit` findings of each rule."""
    return html.fragment(_parts(sheet, limit))


def snapshot_html(snapshot: Snapshot) -> str:
    """Return the snapshot's time, its pets by status, and its coverage, as HTML."""
    rows = [_status_html(status, total) for status, total in status_counts(snapshot)]
    return html.fragment(
        [
            html.summary(coverage(snapshot)),
            html.facts(snapshot_facts(snapshot)),
            html.table(("Status", "Pets"), rows, small=True),
        ]
    )


def findings_html(findings: Findings, *, limit: int | None = 20) -> str:
    """Return a table of findings as HTML, grouped by rule as for a sheet."""
    all_findings = list(iter_findings(findings))
    return html.fragment([html.summary(totals(all_findings)), *_groups(all_findings, limit)])


def _parts(sheet: Sheet, limit: int | None) -> Iterator[str]:
    yield html.summary(sheet_summary(sheet))
    yield html.facts(sheet_facts(sheet))
    yield from _groups(sheet.problems, limit)
    if sheet.problems:
        yield element("p", text(next_step(sheet.problems)), class_="ps-facts")


def _groups(all_findings: Iterable[Finding], limit: int | None) -> Iterator[str]:
    fold_over = html.fold_limit(limit)
    for n, group in enumerate(group_findings(all_findings)):
        is_open = n < _OPEN_RULES and len(group.same[:limit]) <= fold_over
        yield html.collapsible(
            group.title, _group_html(group, limit), aside=_aside(group), open_=is_open
        )


def _aside(group: FindingGroup) -> str:
    """Return the places of the group's first findings, and the problem if all findings have the
    same one.
    """
    shown = "; ".join(same.where for same in group.same[:_SHOWN_PLACES])
    more = " ..." if len(group.same) > _SHOWN_PLACES else ""
    return f"{shown}{more}: {group.problem}" if group.problem else f"{shown}{more}"


def _group_html(group: FindingGroup, limit: int | None) -> str:
    same = group.same[:limit]
    common = words.sentences(group.problem, group.suggestion)
    columns = [name for name in _COLUMNS if any(_cells(each)[name] for each in same)]
    parts = [
        element("p", text(common)) if common else "",
        html.table(["", *columns], (_row(each, group, columns) for each in same)),
        element("p", text(group.more(len(same)))) if limit is not None else "",
    ]
    return "\n".join(part for part in parts if part and part != "<p></p>")


def _row(same: EqualFindings, group: FindingGroup, columns: Sequence[str]) -> str:
    cells = _cells(same)
    return html.row(
        "blocked" if group.severity == "error" else "warning",
        *(table_cell(cells[name], kind=_KINDS.get(name, "")) for name in columns),
    )


def _cells(same: EqualFindings) -> dict[str, str]:
    texts = (same.where, same.shown, same.problem, same.suggestion)
    return dict(zip(_COLUMNS, texts, strict=True))


def _status_html(status: str, total: int) -> str:
    number = element("td", words.number(total), class_="ps-number")
    return element("tr", html.row_head(status) + number)


# A sheet, with its findings by rule, and a snapshot, as lines.


def findings_lines(sheet: Sheet, *, limit: int = 5, width: int = 80) -> Iterator[Text]:
    """Yield the sheet and its findings by rule, the most frequent first, each with the first
    `limit` (≥ 1) findings; cells with equal findings count as one.
    """
    yield Text("petsync sheet", "bold")
    yield from facts(sheet_facts(sheet), width)
    for group in group_findings(sheet.problems):
        yield from _group_text(group, limit, width)
    yield BLANK
    yield from paragraph(sheet_summary(sheet), width, style="bold")
    yield from paragraph(next_step(sheet.problems), width) if sheet.problems else ()


def table_lines(findings: Findings, *, limit: int = 5, width: int = 80) -> Iterator[Text]:
    """Yield a table of findings, grouped by rule as for a sheet."""
    all_findings = list(iter_findings(findings))
    for group in group_findings(all_findings):
        yield from _group_text(group, limit, width)
    yield from [BLANK] if all_findings else []
    yield from paragraph(totals(all_findings), width, style="bold")


def snapshot_lines(snapshot: Snapshot, *, width: int = 80) -> Iterator[Text]:
    """Yield the snapshot's time, its pets by status, and its coverage."""
    counts = status_counts(snapshot)
    column = max((len(words.number(total)) for _, total in counts), default=1)
    yield Text("petsync snapshot", "bold")
    yield from facts(snapshot_facts(snapshot), width)
    yield BLANK
    for status, total in counts:
        yield Text(f"  {words.number(total):>{column}}  {shorten(status, width - column - 4)}")
    yield BLANK
    yield from paragraph(coverage(snapshot), width)


def _group_text(group: FindingGroup, limit: int, width: int) -> Iterator[Text]:
    mark: words.Mark = "blocked" if group.severity == "error" else "warning"
    yield from heading(group.title, width)
    common = make_visible(words.sentences(group.problem, group.suggestion))
    yield from paragraph(common, width, indent=2) if common else ()
    for same in group.same[:limit]:
        text = make_visible(words.sentences(same.problem, same.suggestion))
        where = f"{same.where} {same.shown}".rstrip()
        yield from item(mark, f"{where}: {text}" if text else where, width)
    if more := group.more(limit):
        yield Text(f"  {more}", "dim")
