"""The views of a sheet, of its findings, and of a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from petsync._display import quote
from petsync.errors import PlanError
from petsync.plan.change import Snapshot
from petsync.report.document import (
    Block,
    Column,
    Details,
    Document,
    Facts,
    Note,
    Row,
    Summary,
    Table,
    fold_limit,
)
from petsync.report.words import (
    FindingGroup,
    Mark,
    corrections_fact,
    count,
    format_need_fixing,
    format_timestamp,
    group_findings,
    iter_findings,
    number,
    sentences,
    totals,
)
from petsync.table.cells import trim
from petsync.table.columns import COLUMNS
from petsync.table.rules import RuleResult
from petsync.table.sheet import Finding, Findings, Sheet

__all__ = [
    "findings_view",
    "refusal_of",
    "sheet_facts",
    "sheet_summary",
    "sheet_view",
    "snapshot_view",
]


_STATUSES = 12
_TABS = 5
_OPEN_RULES = 3
"""The maximum number of rules whose findings are not collapsed."""
_SHOWN_PLACES = 3
_SHOWN_WAYS, _LONGEST_CORRECTED = 3, 40
_COLUMNS = (
    Column("Where", "where"),
    Column("Value", "value"),
    Column("Problem"),
    Column("Suggestion"),
)
_RULE_COLUMNS = (
    Column("Rule", "head"),
    Column("Severity"),
    Column("Rows", "number"),
    Column("Result"),
)


def sheet_view(sheet: Sheet, *, limit: int | None = 20, with_rules: bool = False) -> Document:
    """Return the sheet and its findings by rule, the most frequent rule first, with the first
    `limit` findings of each rule. Equal findings count as one. `with_rules` adds the result of each
    of the user's own rules.
    """
    blocks = [*_sheet_blocks(sheet, limit)]
    if with_rules:
        at = next(n for n, block in enumerate(blocks) if isinstance(block, Summary))
        blocks.insert(at, _own_rules(sheet.rules))
    return Document("petsync sheet", blocks)


def findings_view(findings: Findings, *, limit: int | None = 20) -> Document:
    """Return the findings by rule, as for a sheet."""
    each = list(iter_findings(findings))
    return Document("", [*_groups(each, limit), Summary(totals(each))])


def snapshot_view(snapshot: Snapshot) -> Document:
    """Return the snapshot's time, its pets by status, and its coverage."""
    rows = [Row((number(total), status)) for status, total in _status_counts(snapshot)]
    columns = (Column("Pets", "number"), Column("Status", "head"))
    return Document(
        "petsync snapshot",
        [
            Facts(list(_snapshot_facts(snapshot))),
            Table(columns, rows, "grid"),
            Summary(_describe_coverage(snapshot)),
        ],
    )


def _sheet_blocks(sheet: Sheet, limit: int | None) -> Iterator[Block]:
    yield Facts(list(sheet_facts(sheet)))
    yield from _groups(sheet.problems, limit)
    yield Summary(sheet_summary(sheet))
    if not sheet.is_table and (ways := list(_ways_to_correct(sheet.problems))):
        yield Note(f"Equal cells can be corrected together: {'; '.join(ways)}.")
    refusal = refusal_of(sheet)
    if sheet.problems or refusal is not None:
        yield Note(_next_step(sheet.problems, refusal))


def _groups(findings: Iterable[Finding], limit: int | None) -> Iterator[Details]:
    for n, group in enumerate(group_findings(findings)):
        common = sentences(group.problem, group.suggestion)
        same = group.same[:limit]
        mark: Mark = "blocked" if group.severity == "error" else "warning"
        rows = [
            Row((each.where, each.shown, sentences(each.problem), sentences(each.suggestion)), mark)
            for each in same
        ]
        table = Table(_COLUMNS, rows, more=group.more(len(same)))
        yield Details(
            group.title,
            [*([Note(common)] if common else []), table],
            is_open=n < _OPEN_RULES and len(same) <= fold_limit(limit),
            aside=_describe_start(group),
        )


def _own_rules(results: Sequence[RuleResult]) -> Block:
    """Return a table of the user's own rules, with the rows that each looked at."""
    if not results:
        return Note("No rules of your own: docs/rules.md explains how to write them.")
    rows = [
        Row((each.name, each.severity, *_describe_rule(each)), _mark_of(each)) for each in results
    ]
    return Details("Rules of your own", [Table(_RULE_COLUMNS, rows, "grid", has_titles=True)])


def _describe_rule(result: RuleResult) -> tuple[str, str]:
    if result.skipped:
        return "", f"did not run: {result.skipped}"
    kept = "kept" if not result.broken else f"broken in {count(result.broken, 'row')}"
    return f"{number(result.looked)} of {number(result.rows)}", kept


def _mark_of(result: RuleResult) -> Mark | None:
    if not result.broken:
        return "note" if result.skipped else None
    return "blocked" if result.severity == "error" else "warning"


def _ways_to_correct(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield ways to correct the most frequent mistakes that several cells of a column have in
    common.
    """
    equal: Counter[tuple[str, str, str]] = Counter()
    for each in findings:
        is_short = len(each.value) <= _LONGEST_CORRECTED and each.value.isprintable()
        is_open = each.severity == "error" and each.column in COLUMNS and is_short
        if is_open and (each.meant is not None or each.rule == "unknown-status"):
            equal[each.column, trim(each.value), each.meant or "STATUS"] += 1
    for (column, value, meant), cells in equal.most_common(_SHOWN_WAYS):
        if cells > 1:
            key = f"{column}:{value}"
            option = quote(f"{key}={meant}")
            python = f"in Python corrections={{{key!r}: {meant!r}}}"
            yield f"{number(cells)} cells by --correct {option}, {python}"


def _describe_start(group: FindingGroup) -> str:
    """Return the places of the group's first findings, and the problem if all findings have the
    same one.
    """
    places = "; ".join(same.where for same in group.same[:_SHOWN_PLACES])
    more = " ..." if len(group.same) > _SHOWN_PLACES else ""
    return f"{places}{more}: {group.problem}" if group.problem else f"{places}{more}"


def sheet_facts(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield facts about the sheet: the file, the tabs that are not read, the corrected cells,
    petsync's columns and the other columns.
    """
    tab = f", tab {sheet.tab}" if sheet.tab else ""
    yield "file", f"{sheet.source}{tab}"
    if sheet.tabs:
        more = f" and {len(sheet.tabs) - _TABS} more" if len(sheet.tabs) > _TABS else ""
        yield "not read", f"{_format_tabs(sheet.tabs[:_TABS])}{more}"
    yield from corrections_fact(sheet)
    # The frame has the column `action` even if the file does not.
    known_columns = (str(name) for name in sheet.rows.columns if str(name) in sheet.columns)
    yield "columns", ", ".join(known_columns)
    if len(sheet.others.columns):
        yield "others", ", ".join(map(str, sheet.others.columns))


def _format_tabs(tabs: Sequence[str]) -> str:
    return f"{'tab' if len(tabs) == 1 else 'tabs'} {', '.join(tabs)}"


def sheet_summary(sheet: Sheet) -> str:
    """Return one sentence with the numbers of usable rows and of findings."""
    total = len(sheet) + sheet.agreeing
    usable = count(total, "row")
    warnings = len(sheet.problems) - sheet.errors
    findings = f"{count(sheet.errors, 'error')}, {count(warnings, 'warning')}"
    if refusal_of(sheet) is not None:
        rows = count(total + len(sheet.blocked), "row")
        return (
            f"Checked: no plan of this sheet is made, so none of its {rows} can be used; "
            f"{findings}."
        )
    if not sheet.problems:
        return f"Checked: {usable}, no findings."
    need_fixing = format_need_fixing(len(sheet.blocked))
    return f"Checked: {usable} can be used, {need_fixing}; {findings}."


def refusal_of(sheet: Sheet) -> PlanError | None:
    """Return the error for which no plan of the sheet is made, None if there is none."""
    if sheet.base is None and not sheet.base_refused:
        return None
    # Most sheets are no exports, and need no comparison.
    from petsync.plan.compare import find_refusal

    return find_refusal(sheet)


def _next_step(findings: Sequence[Finding], refusal: PlanError | None) -> str:
    """Return the next step for these findings, and the page that explains each code."""
    where = "docs/findings.md explains each code." if findings else ""
    if any(finding.rule == "header-renamed" for finding in findings):
        return f"Restore the headers or map them, and check again. {where}"
    if refusal is not None:
        return f"{refusal.problem}. {refusal.cure} {where}".rstrip()
    if any(finding.severity == "error" for finding in findings):
        return f"A plan changes nothing for these rows: fix the cells, and check again. {where}"
    return f"Every row can be used: warnings show how cells were read. {where}"


def _snapshot_facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield facts about the snapshot: the store, the time, and the pets that were read again
    because the lists had different versions of them.
    """
    yield "store", snapshot.source
    yield "taken", format_timestamp(snapshot.taken_at)
    if snapshot.reread:
        pets = count(len(snapshot.reread), "pet")
        yield "read again", f"{pets} by id, because the lists had different versions of them"


def _status_counts(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Return the number of pets with each status, the most frequent first; the rare statuses are
    combined.
    """
    counts = snapshot.rows["status"].value_counts(sort=False, dropna=False)
    counts = counts.sort_values(ascending=False, kind="stable")
    pairs = [(_status_words(status), int(total)) for status, total in counts.items()]
    rest = sum(total for _, total in pairs[_STATUSES:])
    return [*pairs[:_STATUSES], *([("(other statuses)", rest)] if rest else [])]


def _describe_coverage(snapshot: Snapshot) -> str:
    """Return the statuses that the snapshot covers, and those that it does not cover."""
    statuses = ", ".join(snapshot.coverage.statuses) or "none"
    missing = (
        f" The pets of the status {lookup.query} are missing: {lookup.problem}."
        for lookup in snapshot.coverage.failed
    )
    return (
        f"{count(len(snapshot), 'pet')}. Covers the statuses {statuses}; a pet of another status "
        f"may exist without being listed here.{''.join(missing)}"
    )


def _status_words(status: object) -> str:
    return (status or "(empty)") if isinstance(status, str) else "(no status)"
