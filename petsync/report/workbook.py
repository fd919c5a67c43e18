"""Plans and reports as Excel workbooks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Literal

from openpyxl.cell import Cell
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.styles.differential import DifferentialStyle
from openpyxl.worksheet.worksheet import Worksheet
from rich.cells import cell_len

from petsync._files import write_atomically
from petsync.errors import SheetError
from petsync.plan.change import Change, Clash, Conflict, Delete, job_of
from petsync.plan.differences import Differences
from petsync.plan.plan import Plan
from petsync.plan.report import OUTCOMES, Report, Result
from petsync.report import words
from petsync.report.plan import record_of_change, summary_rows
from petsync.report.textdiff import Piece, compare_cells, compare_texts, describe_traits
from petsync.report.words import (
    EMPTY,
    NO_CURE,
    RANK,
    SHOWN_CAUSES,
    describe_cause,
    results_by_cause,
)
from petsync.table.cells import make_visible
from petsync.workbook import (
    MAX_ROWS,
    PLAIN,
    UNDERLINE,
    BulkWorkbook,
    CellStyle,
    MarkedText,
    Value,
    bulk_workbook,
    height_xml,
    row_xml,
    style_header,
)

__all__ = ["LINE_HEIGHT", "Tab", "diff_workbook", "plan_workbook", "report_workbook", "write"]


# Values as cells, and the heights that they need.


LINE_HEIGHT = 13.5
_MAX_LENGTH = 16_000
"""The maximum length of a cell in characters. Excel allows 32,767 UTF-16 code units, and a
character may take two.
"""
_MAX_MARKED_LENGTH = _MAX_LENGTH // 8
_MAX_LINES = 25
_WIDE, _SLACK = 1.15, 0.1
"""Corrections for the estimated number of lines: letters are narrower than the digits in which
widths are counted, and words do not fill a line completely.
"""
_NO_XML = re.compile(r"[\ufffe\uffff]")
_PARTS = re.compile(r"(?<=[\s/?-])(?=[^\W\d_])")


def _show(value: Value) -> Value:
    """Return the value for a cell: printable, not too long for a cell, and with its marks unless it
    is very long.
    """
    if isinstance(value, MarkedText):
        text = str(value)
        if any(is_marked for _, is_marked in value.pieces) and len(text) <= _MAX_MARKED_LENGTH:
            pieces = [(_show_text(part), is_marked) for part, is_marked in value.pieces]
            return MarkedText(pieces, value.mark)
        value = text
    return _show_text(value) if isinstance(value, str) else value


def _show_text(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}..."
    visible = make_visible(text, keep="\n")
    shown = _NO_XML.sub(lambda match: f"[U+{ord(match[0]):04X}]", visible)
    return shown if len(shown) <= _MAX_LENGTH else f"{shown[:_MAX_LENGTH]}..."


def _height(values: Sequence[Value], widths: Sequence[int]) -> str:
    """Return the XML attributes for the height that the row's texts need, because not every program
    computes it; "" for one line.
    """
    lines = max(map(_lines, values, widths), default=1)
    if lines == 1:
        return ""
    return height_xml(lines * LINE_HEIGHT, is_fixed=lines == _MAX_LINES)


def _lines(value: Value, width: int) -> int:
    """Estimate the number of lines of the text in a column of `width` characters."""
    if isinstance(value, int):
        return 1
    text = str(value)
    if len(text) < width // 2 and "\n" not in text:
        return 1
    return min(sum(_count_lines(line, width) for line in text.split("\n")[:_MAX_LINES]), _MAX_LINES)


def _count_lines(line: str, width: int) -> int:
    cells = cell_len(line[: width * _MAX_LINES]) / (_WIDE * width)
    if cells <= 1 or "://" not in line:
        return 1 if cells <= 1 else math.ceil(cells + _SLACK)
    return _count_url_lines(line[: 2 * width * _MAX_LINES], _WIDE * width)


def _count_url_lines(line: str, room: float) -> int:
    """Estimate the lines of a text with URLs, which break only before a letter that follows a space
    or punctuation.
    """
    lines, used = 1, 0.0
    for part in _PARTS.split(line):
        size = cell_len(part)
        if used and used + size > room:
            lines, used = lines + 1, 0.0
        lines += max(math.ceil(size / room) - 1, 0)
        used += size % room
    return lines


# The format of a worksheet: header, widths and colours.


_READABLE = Alignment(wrap_text=True, vertical="top", horizontal="left")
_PALE = Font(color="6B747B")


def _styles_of(sheet: Worksheet, columns: int) -> list[CellStyle]:
    """Return the formats of the columns' cells: wrapped text, aligned to the top."""
    cell = Cell(sheet, row=2, column=1)
    cell.font, cell.alignment = PLAIN, _READABLE
    plain = cell.style_id
    cell.quotePrefix = True
    return [CellStyle(letter, plain, cell.style_id) for letter in _LETTERS[:columns]]


def _lay_out(sheet: Worksheet, columns: Mapping[str, int]) -> None:
    """Add the header to an empty worksheet, and set the widths (in characters) of its columns."""
    style_header(sheet, columns, height=1.5 * LINE_HEIGHT)
    for letter, width in zip(_LETTERS, columns.values(), strict=False):
        sheet.column_dimensions[letter].width = width
    sheet.sheet_format.defaultRowHeight = LINE_HEIGHT


def _colour(
    sheet: Worksheet,
    columns: Mapping[str, int],
    colours: Mapping[str, str],
    repeated_columns: str,
    rows: int,
) -> None:
    """Add a filter and colours for `rows` rows. In a row with the same values as the row above in
    all `repeated_columns`, the values from column A up to the first gap in these columns are pale.
    """
    last, end = _LETTERS[len(columns) - 1], rows + 1
    sheet.auto_filter.ref = f"A1:{last}{end}"
    if not rows:
        return
    is_repeated = ",".join(f"${letter}2=${letter}1" for letter in repeated_columns)
    fills = {f'$A2="{value}"': colour for value, colour in colours.items()}
    for test, fill in {**fills, "TRUE": ""}.items():
        # Some programs apply only the first rule, so each rule has the complete format.
        if repeated_columns:
            area = f"A2:{_last_in_a_row(repeated_columns)}{end}"
            sheet.conditional_formatting.add(area, _rule(f"AND({test},{is_repeated})", fill, _PALE))
        sheet.conditional_formatting.add(f"A2:{last}{end}", _rule(test, fill))


def _last_in_a_row(letters: str) -> str:
    """Return the last letter of the sequence that starts with A and has no gap: C for `ABCE`."""
    return max(letter for n, letter in enumerate(letters) if ord(letter) - ord("A") == n)


def _rule(test: str, fill: str, font: Font | None = None) -> Rule:
    style = DifferentialStyle(
        fill=PatternFill("solid", bgColor=fill) if fill else None, border=UNDERLINE, font=font
    )
    return Rule(type="expression", formula=[test], dxf=style)


# Worksheets of a workbook, written into a file completely or not at all.
#
# Conditional formatting colours the rows, because it is fast even for a million rows.


_MAX_ROWS = MAX_ROWS - 1
"""The maximum number of rows below a worksheet's header; further rows go into another worksheet."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALL_ROWS = f"A2:Z{MAX_ROWS}"


@dataclass(frozen=True, slots=True)
class Tab:
    """The content of a worksheet; of several if there are too many rows for one."""

    title: str
    columns: Mapping[str, int]
    """The width of each column in characters, by title."""
    rows: Iterable[Sequence[Value]]
    colours: Mapping[str, str] = field(default_factory=dict)
    """RGB colours of rows, by the value in the first column."""
    repeated_columns: str = ""
    """Letters of columns. In a row that has the same values as the row above in all of them, the
    values from column A up to the first gap in these letters are pale.
    """


def write(path: Path, tabs: Iterable[Tab], *, like: str | None = None) -> None:
    """Write the tabs into an .xlsx file, which replaces an existing file. With `like`, only users
    who can read that file can read the new one.

    Raises SheetError if the file cannot be written; an existing file is then left unchanged.
    """
    write_atomically(path, partial(_write_tabs, tabs), like=like, error=SheetError)


def _write_tabs(tabs: Iterable[Tab], file: IO[bytes]) -> None:
    with bulk_workbook() as bulk:
        for tab in tabs:
            _add_tab(bulk, tab)
        bulk.save(file, with_seal=True)


def _add_tab(bulk: BulkWorkbook, tab: Tab) -> None:
    """Add the tab's worksheets: as many as its rows need, but at least one."""
    rows, widths = iter(tab.rows), list(tab.columns.values())
    row = next(rows, None)
    page = 0
    while page == 0 or row is not None:
        page += 1
        sheet = bulk.book.create_sheet(tab.title if page == 1 else f"{tab.title} {page}")
        _lay_out(sheet, tab.columns)
        styles = _styles_of(sheet, len(widths))
        following = () if row is None else islice(chain([row], rows), _MAX_ROWS)
        lines = (
            row_xml(number, map(_show, values), styles, _height(values, widths))
            for number, values in enumerate(following, 2)
        )
        written = bulk.add_rows(sheet, lines, columns=len(widths), texts=_ALL_ROWS)
        _colour(sheet, tab.columns, tab.colours, tab.repeated_columns, written)
        row = next(rows, None)


# The worksheets of plans and reports.


_RED, _GREEN, _AMBER = "FBE3E1", "E6F4E8", "FFF4D9"
_COLOURS = {
    "add": _GREEN,
    "update": _AMBER,
    "delete": _RED,
    "applied": _GREEN,
    "conflict": "F3E8F7",
    "needs fixing": _RED,
    "failed": _RED,
    "unknown": _AMBER,
}
_REFUSED, _KEPT, _UNANSWERED = "guard refuses", "guard", "no answer"
_FACT_COLOURS = {_REFUSED: _RED, _KEPT: _GREEN, _UNANSWERED: _RED}
_NONE = MarkedText([(EMPTY, True)], "empty")
_FACTS = {"What": 16, "Number": 10, "Text": 100}


def plan_workbook(plan: Plan, path: Path) -> None:
    """Write the plan: a summary, the changes (a row for each changed field), the conflicts (a row
    for each field that both sides changed), blocked rows, notes.

    The file is written completely or not at all. Raises SheetError if it cannot be written.
    """
    changes = {"Change": 9, "Id": 21, "Pet": 26, "Field": 12, "Before": 42, "After": 42}
    sides = {"Before": 24, "Sheet": 24, "Store": 24, "Who wins": 11}
    problem_columns = {"Problem": 40, "What to do": 32}
    conflicts = {"Where": 13, "Id": 21, "Pet": 20, "Field": 11, **sides, **problem_columns}
    blocked = {"Row": 10, "Where": 18, "Id": 21, "Pet": 26}
    write(
        path,
        [
            Tab("Summary", _FACTS, _plan_facts(plan), _FACT_COLOURS),
            Tab("Changes", {**changes, "Where": 16}, _change_rows(plan), _COLOURS, "ABCG"),
            Tab("Conflicts", conflicts, _conflict_rows(plan), repeated_columns="ABC"),
            Tab("Needs fixing", {**blocked, "Problem": 90}, _blocked_rows(plan)),
            Tab("Notes", {"Note": 120}, ([note] for note in plan.raw_notes)),
        ],
        like=plan.source,
    )


def diff_workbook(found: Differences, path: Path) -> None:
    """Write the differences: a summary, a row for each different cell, and the rows that could not
    be compared.

    The file is written completely or not at all. Raises SheetError if it cannot be written.
    """
    cells = {"Kind": 9, "Id": 21, "Pet": 26, "Column": 12, "A": 36, "B": 36}
    base = {"Base": 30} if found.base else {}
    where = {"Where in A": 14, "Where in B": 14}
    blocked = {"File": 20, "Row": 10, "Where": 18, "Id": 21, "Problem": 90}
    colours = {kind: _COLOURS[change] for kind, change in _KIND_COLOURS.items()}
    write(
        path,
        [
            Tab("Summary", _FACTS, _diff_facts(found)),
            Tab("Differences", {**cells, **base, **where}, _cell_rows(found), colours, "ABC"),
            Tab("Not compared", blocked, _uncompared_rows(found)),
            Tab("Notes", {"Note": 120}, ([note] for note in found.notes)),
        ],
    )


def report_workbook(report: Report, path: Path) -> None:
    """Write the report: a summary with the causes, and a row for each change, conflict and blocked
    row; those that need attention come first.

    The file is written completely or not at all. Raises SheetError if it cannot be written.
    """
    id_ = _width(result.pet_id for result in report.results)
    new = _width(result.assigned_id for result in report.results)
    pet = {"Change": 9, "Id": id_, "New id": new, "Pet": 22, "Fields": 18, "Where": 15}
    result_columns = {"What happened": 52, "What to do": 48}
    write(
        path,
        [
            Tab("Summary", _FACTS, _report_facts(report), _COLOURS),
            Tab(
                "Results",
                {"Outcome": 13, "Cause": 16, **pet, **result_columns},
                _result_rows(report),
                _COLOURS,
            ),
        ],
        like=report.plan.source,
    )


def _plan_facts(plan: Plan) -> Iterator[Sequence[Value]]:
    summary = plan.summary()
    counts = {"add": summary.adds, "update": summary.updates, "delete": summary.deletes}
    yield "summary", "", words.plan_summary(plan, counts)
    yield from _verdict(plan)
    for problem, consequence in words.iter_unanswered(plan):
        yield _UNANSWERED, "", words.sentences(problem, consequence)
    yield from (("not covered", "", sentence) for sentence in plan.uncovered)
    yield from ((name, "", value) for name, value in words.plan_facts(plan))
    yield from ((name, "", value) for name, value in words.scope_facts(plan))
    yield "who wins", "", words.describe_winner(plan)
    yield from summary_rows(summary)
    yield "fingerprint", "", plan.fingerprint


_KIND_COLOURS = {
    "differs": "update",
    "only-a": "delete",
    "only-b": "add",
    "a": "update",
    "b": "update",
    "a-added": "add",
    "b-added": "add",
    "a-removed": "delete",
    "b-removed": "delete",
    "conflict": "conflict",
}


def _diff_facts(found: Differences) -> Iterator[Sequence[Value]]:
    yield "A", found.rows_a, found.a
    yield "B", found.rows_b, found.b
    if found.base:
        yield "base", "", found.base
    yield "equal", found.equal, "rows"
    if found.same:
        yield "same", found.same, "rows that both changed in the same way"
    yield from ((kind, number, "rows") for kind, number in found.counts.items())
    blocked = len(found.blocked_a) + len(found.blocked_b)
    yield "not compared", blocked, "because of errors" if blocked else ""


def _cell_rows(found: Differences) -> Iterator[Sequence[Value]]:
    for row in found.rows:
        head = (row.listed_as, _id(row.pet_id), row.name)
        for column, (a, b, base) in row.cells():
            before, after = compare_texts(a, b)
            sides = _mark_value(before, "removed"), _mark_value(after, "added")
            yield *head, column, *sides, *([base] if found.base else []), row.where_a, row.where_b


def _uncompared_rows(found: Differences) -> Iterator[Sequence[Value]]:
    for side, rows in ((found.a, found.blocked_a), (found.b, found.blocked_b)):
        for row in rows:
            yield side, row.row, row.source, _id(row.pet_id), row.problem


def _verdict(plan: Plan) -> Iterator[Sequence[Value]]:
    if plan.verdict.ok:
        yield _KEPT, "", words.LIMITS_KEPT
    for refusal in plan.verdict.refusals:
        yield _REFUSED, "", words.sentences(refusal.problem, words.refusal_advice(refusal))


def _change_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for change in plan.changes:
        pet = words.pet_of(change)
        head = (change.kind, _id(change.pet_id), pet.name or "")
        for name, before, after in _fields(change):
            yield *head, name, before, after, words.source_of(change)


def _fields(change: Change) -> Iterator[tuple[str, Value, Value]]:
    if isinstance(change, Delete):
        yield "(the pet)", describe_traits(record_of_change(change).fields), ""
        return
    for column in change.fields:
        before, after = compare_cells(change.before, change.after, column)
        if change.before is None:
            yield column, "", MarkedText(after, "added")
        else:
            yield column, _mark_value(before, "removed"), _mark_value(after, "added")


def _conflict_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    for conflict in plan.conflicts:
        head = (conflict.source, _id(conflict.pet_id), conflict.name)
        problem = words.sentences(f"{conflict.subject} {conflict.problem}")
        columns = (problem[:1].upper() + problem[1:], conflict.suggestion)
        for clash in conflict.clashes:
            yield *head, clash.column, *_sides(clash), conflict.winner, *columns
        if not conflict.clashes:
            yield *head, "", "", "", "", _winner(conflict), *columns


def _winner(conflict: Conflict) -> str:
    return conflict.winner or "not decided"


def _sides(clash: Clash) -> tuple[Value, Value, Value]:
    """Return the exported value, and the values of sheet and store with their differences from it
    marked.
    """
    sheet, store = (compare_texts(clash.base, text)[1] for text in (clash.sheet, clash.store))
    return clash.base or _NONE, _mark_value(sheet, "added"), _mark_value(store, "added")


def _mark_value(pieces: Sequence[Piece], mark: Literal["removed", "added"]) -> MarkedText:
    """Return the marked value; `(empty)` for an empty one."""
    return MarkedText(pieces, mark) if any(text for text, _ in pieces) else _NONE


def _blocked_rows(plan: Plan) -> Iterator[Sequence[Value]]:
    return ((row.row, row.source, _id(row.pet_id), row.name, row.problem) for row in plan.blocked)


def _report_facts(report: Report) -> Iterator[Sequence[Value]]:
    counts = report.counts
    yield "summary", "", words.report_summary(report)
    yield "run", "", report.run_id
    yield from ((name, "", value) for name, value in words.report_facts(report))
    yield from (("stopped", "", line) for line in report.stopped.splitlines())
    if undo := words.undo_hint(report):
        yield "undo", "", undo
    yield from (("rows", counts[outcome], outcome) for outcome in OUTCOMES)
    yield "rows", sum(counts.values()), "in all"
    for group in results_by_cause(report, 0):
        if not group.is_plain:
            title = f"{group.text.title[:1].upper()}{group.text.title[1:]}"
            value = words.sentences(title, group.text.meaning, group.text.cure)
            yield group.outcome, group.listing.total, value


def _result_rows(report: Report) -> Iterator[Sequence[Value]]:
    names = words.result_names(report.plan)
    undoes, job = report.plan.undoes, job_of(report.plan.raw_notes)
    describe = cache(partial(describe_cause, run_id=report.run_id, undoes=undoes, job=job))
    for each in sorted(report.results, key=_rank):
        result = words.with_terms(each, job) if job else each
        cure = describe(result.outcome, result.cause).cure
        yield (
            result.outcome,
            result.cause,
            "" if result.kind == "none" else result.kind,
            _id(result.pet_id),
            _id(result.assigned_id),
            names(result.number),
            "" if result.kind == "add" else ", ".join(result.fields),
            result.source,
            result.message,
            "" if cure == NO_CURE else cure,
        )


def _rank(result: Result) -> tuple[int, bool, str]:
    """Return the sort key: outcomes that need attention come first; causes that the plan already
    showed come last.
    """
    return RANK.index(result.outcome), result.cause in SHOWN_CAUSES, result.cause


def _width(ids: Iterable[int | None]) -> int:
    """Return the width of a column with these ids, in characters."""
    return max(map(len, map(_id, ids)), default=0) + 8


def _id(number: int | None) -> str:
    """Return an id as text, because numbers in a spreadsheet have only 15 exact digits. An export
    contains ids as text, too: formulas that look up ids find them.
    """
    return "" if number is None else str(number)
