"""Write the results of a run into a sheet or a copy of it, and make backups."""

from __future__ import annotations

import datetime as dt
import glob
import hashlib
import io
import itertools
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os.path import lexists
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from petsync._display import count, type_name
from petsync._files import checked_path, write_atomically
from petsync.errors import ResponseError, SheetError
from petsync.plan import match
from petsync.plan.base import advance_base, is_empty
from petsync.plan.fields import COLUMNS_OF
from petsync.plan.plan import Plan, iter_stale_rows
from petsync.plan.report import Report
from petsync.protocol.json import decode_pet, decode_pets
from petsync.sheets.base import base_notice
from petsync.sheets.files import (
    TEXT_SUFFIXES,
    WORKBOOK_SUFFIXES,
    Source,
    must_be_closed,
)
from petsync.sheets.grid import ROW_NUMBER, CellEdits, CellKind, Grid, letter
from petsync.sheets.headers import ACTION, RESULT_PREFIX, RESULTS, own_results
from petsync.sheets.load import STDIN, base_tab, digest_of, load, load_unchanged
from petsync.sheets.read import as_edited, read_grid, read_sheet, sheet_of, with_edits
from petsync.sheets.sidecar import (
    INTERRUPTED,
    read_unchecked_lines,
    sidecar_path,
    write_with_sidecar,
)
from petsync.sheets.xlsx.contents import GUIDE, OUT
from petsync.table.arrow import SCHEMA
from petsync.table.base import Base
from petsync.table.columns import ADDING, COLUMNS
from petsync.table.frame import has_action, is_blank
from petsync.table.options import STATUSES
from petsync.table.sheet import Correction, Finding, Sheet, cell_address, frame_of

__all__ = [
    "Results",
    "ResultsCopy",
    "apply_results",
    "as_path",
    "as_planned",
    "as_results",
    "as_sheet",
    "as_workbook",
    "back_up",
    "backup_before_export",
    "build_results",
    "check_other_path",
    "check_replaceable",
    "check_same_sheet",
    "check_suffix",
    "check_writable",
    "create_backup",
    "find_written_digest",
    "has_backup",
    "id_edits",
    "must_take_results",
    "results_endings",
    "sidecar_lines",
    "writable_corrections",
    "write_back",
    "write_back_noting_digest",
    "write_file",
    "write_results",
]


# Check arguments and files. A copy is made from the bytes that were read, and is written to another
# path.


Results = Report | pd.DataFrame


def as_sheet(sheet: object) -> Sheet:
    """Return the sheet itself. Raises SheetError if the value is not a Sheet."""
    if not isinstance(sheet, Sheet):
        raise SheetError(
            f"{type_name(sheet)} is not a sheet",
            hint="Pass the Sheet that read_sheet returns.",
        )
    return sheet


def as_results(results: object) -> Results:
    """Return the results. Raises SheetError if they have another type, or no index of row
    numbers.
    """
    if not isinstance(results, Report | pd.DataFrame):
        raise SheetError(
            f"{type_name(results)} has no results of a run",
            hint="Pass the report that apply returns, or a DataFrame indexed by row number.",
        )
    kinds = ("integer", "empty")
    if isinstance(results, pd.DataFrame) and results.index.inferred_type not in kinds:
        raise SheetError(
            "the results are not indexed by row number",
            hint='If they have a column `row`, use results.set_index("row").',
        )
    return results


def as_path(path: object) -> Path:
    """Return the path. Raises SheetError if the value is not a path."""
    return checked_path(path, "pets.xlsx", SheetError)


def as_planned(sheet: Sheet, results: Results) -> Sheet:
    """Return the sheet with the corrections with which the plan of the results was made, including
    those in its `frame`. Raises SheetError if a report belongs to another sheet, or if the sheet
    has changed since.
    """
    check_same_sheet(sheet, results)
    sheet = as_edited(sheet)
    if not isinstance(results, Report) or sheet.corrections == tuple(results.plan.corrections):
        return sheet
    planned = results.plan.corrections
    later = [each for each in sheet.corrections if each not in planned]
    if later or sheet.read_again is None:
        places = ", ".join(each.address for each in later[:3]) or "its corrections"
        raise SheetError(
            f"{sheet.source}: the sheet was changed after its plan was made: {places}",
            hint="Read the file again, and write the results into that sheet; then make the "
            "changes, and plan them.",
        )
    return with_edits(replace(sheet, corrections=tuple(planned)), {})


def check_same_sheet(sheet: Sheet, results: Results) -> None:
    """Raise SheetError if a report belongs to another sheet."""
    if isinstance(results, Report) and results.plan.source_digest != sheet.digest:
        raise SheetError(
            f"{sheet.source}: the report is for another sheet, or for other content of this one: "
            f"{results.plan.source}",
            hint="Pass the sheet that the plan was made from, with its content at that time.",
        )


def check_suffix(path: Path, source: Source) -> None:
    """Raise SheetError if the suffix of the path does not fit the kind of the copy."""
    endings = results_endings(source.kind, source.form)
    if path.suffix.casefold() not in endings:
        kind = "CSV" if source.kind == "text" else "a workbook"
        problem = (
            f"the copy of {source.form} must be {kind}"
            if source.form
            else f"the copy of {source.path.name} must be of the same kind as that file"
        )
        raise SheetError(
            f"{path}: {problem}", hint=f"Give it a name that ends in {' or '.join(endings)}."
        )


def results_endings(kind: str, form: str) -> tuple[str, ...]:
    """Return the endings for the copy of a source of this kind and form."""
    if kind == "text":
        return TEXT_SUFFIXES
    return WORKBOOK_SUFFIXES[:1] if form else WORKBOOK_SUFFIXES


def check_other_path(path: Path, source: Source) -> None:
    """Raise SheetError if `path` is the sheet itself."""
    is_same = lexists(path) and path.exists() and path.samefile(source.path)
    if is_same or path.resolve() == source.path.resolve():
        raise SheetError(f"{path}: this is the sheet itself", hint="Give the copy another name.")


def sidecar_lines(source: Source) -> list[str] | None:
    """Return the lines of a file's sidecar for a copy of the file, see `read_unchecked_lines`; None
    for a workbook, which contains its base.
    """
    return None if source.kind == "workbook" else read_unchecked_lines(source.path)


# Records as a workbook: the copy of a file in a format that petsync does not write into.


_TAB = "Pets"


def as_workbook(source: Source, sheet: Sheet) -> tuple[Source, Sheet]:
    """Return records as a workbook with the same cells and corrections, and with the lines of the
    file's sidecar; and the sheet with the places of the workbook. The first row has the headers, so
    that record 1 is in row 2.
    """
    # The modules for workbooks are loaded only for workbooks.
    from petsync.sheets.xlsx.plain import PlainCell, PlainTab, plain_workbook

    corrections = {each.address: each.after for each in sheet.corrections}
    grid = read_grid(source, None, sheet.mapping, corrections)
    tab = PlainTab(_TAB, f"{source.path}, as a workbook")
    tab.add_row(1, [PlainCell(n, CellKind.TEXT, name) for n, name in enumerate(grid.header)])
    columns = [column.text.to_pylist() for column in grid.columns]
    for number, *texts in zip(grid.rows.tolist(), *columns, strict=True):
        tab.add_row(number + 1, [PlainCell(n, CellKind.TEXT, text) for n, text in enumerate(texts)])
    tabs = [tab] if (lines := sidecar_lines(source)) is None else [tab, base_tab(lines)]
    places = {place: letter(n) for n, place in enumerate(grid.places)}
    columns_of_sheet = {name: places[place] for name, place in sheet.columns.items()}

    def move(problem: Finding) -> Finding:
        place = columns_of_sheet.get(problem.column, "")
        row = problem.row + 1
        return replace(problem, row=row, address=cell_address(_TAB, place, row))

    moved = replace(
        sheet,
        tab=_TAB,
        columns=columns_of_sheet,
        header_row=1,
        problems=tuple(map(move, sheet.problems)),
        corrections=(),
    )
    return Source(source.path, "workbook", plain_workbook(tabs), form=source.form), moved


def _move_down(edits: CellEdits) -> CellEdits:
    """Return the edits one row below."""
    return CellEdits({row + 1: edits.of(row) for row in edits.rows})


# write_results: write a copy of a sheet with the outcome of each row.


_SEE_REPORT = "The report has the outcome of each row."
_AGREES = "the store already has these values"
_IGNORED = "ignored, because of its action"


def write_results(
    sheet: Sheet, results: Results, path: str | Path, *, now: dt.datetime | None = None
) -> Path | None:
    """Write to `path` a copy of the sheet's file with the outcome of each row, in the columns
    `outcome`, `message`, `assigned_id` and `row`.

    `results` is the report of a run, or a DataFrame indexed by row number with the columns
    `outcome`, `message` and `assigned_id`. For a blocked row, the message has its findings.

    The copy can be read and applied again. A row gets its assigned id; a row without an id gets the
    id of the pet that it was recognised as. No row gets the id of another row. The action `add` or
    `add-another` becomes `merge` if the row's pet now exists. A column `category_id` gets the
    numbers of the categories that the run sent. The sheet's base is updated with the results of the
    report. The sheet's corrections are written into the copy, except over formulas that other cells
    share. Other parts of the file are kept, except a digital signature, and macros
    unless the copy is an `.xlsm`. An existing file at `path` gets a backup, as in `write_back`.
    Return the path of the backup, or None if there was no file.

    Raises SheetError if the file has changed since it was read, the report is for another sheet,
    `path` is the sheet itself or names another kind of file, the file at `path` is open in Excel or
    LibreOffice, the copy cannot be written, or an argument has the wrong type.
    """
    copy = build_results(sheet, results, path)
    backup = back_up(copy.path, now)
    copy.write()
    return backup


@dataclass(frozen=True, slots=True)
class ResultsCopy:
    """The copy of a sheet's file that `write_results` writes to `path`."""

    path: Path
    source: Source
    data: bytes
    lines: list[str] | None

    def write(self, *, follow: bool = True) -> None:
        """Write the copy, over any file at its path. If `follow` is false, a symbolic link there is
        an error. Raises SheetError.
        """
        write_file(self.path, self.source, self.data, self.lines, follow=follow)


def build_results(sheet: Sheet, results: Results, path: str | Path) -> ResultsCopy:
    """Return the copy that `write_results` writes. Raises its errors."""
    sheet, results, path = as_sheet(sheet), as_results(results), as_path(path)
    source = load_unchanged(sheet, _SEE_REPORT)
    check_other_path(path, source)
    check_suffix(path, source)
    sheet = as_planned(sheet, results)
    return ResultsCopy(path, source, *apply_results(source, sheet, results, path.suffix))


def apply_results(
    source: Source, sheet: Sheet, results: Results, suffix: str = "", *, only_ids: bool = False
) -> tuple[bytes, list[str] | None]:
    """Return the file's bytes with the results, and for a CSV file the lines of its sidecar, if it
    has one. A workbook gets the format of files with the `suffix`. With `only_ids`, no result
    columns are written.
    """
    check_same_sheet(sheet, results)
    base, categories = None, {}
    if isinstance(results, Report):
        categories = {} if only_ids else _category_ids(source, sheet, results)
        base = advance_base(_with_category_ids(sheet, categories), results)
    edits = _result_edits(sheet, results)
    lines = None if base is None else [base_notice(base), *base.to_lines()]
    edits = _only_ids(edits) if only_ids else _rename_results(edits, sheet.columns)
    own = dict(edits.own)
    for row, number in categories.items():
        own[row] = {"category_id": str(number), **own.get(row, edits.of(row))}
    for each in writable_corrections(sheet):
        # An id or an action from the run takes precedence.
        own[each.row] = {each.column: each.after, **own.get(each.row, edits.of(each.row))}
    edits = replace(edits, own=own)
    new_columns = _new_columns(sheet.columns, edits)
    if source.kind == "records":
        edits = _move_down(edits)
        source, sheet = as_workbook(source, sheet)
    if source.kind == "text":
        # The modules for CSV are loaded only for CSV.
        from petsync.sheets.csv import edit_csv

        return edit_csv(source, sheet, edits, new_columns), lines or sidecar_lines(source)
    from petsync.sheets.xlsx.edit import patch_workbook

    formula_cells = {(each.row, each.column) for each in sheet.corrections}
    return patch_workbook(
        source, sheet, edits, new_columns, lines=lines, suffix=suffix, replaceable=formula_cells
    ), None


def writable_corrections(sheet: Sheet) -> list[Correction]:
    """Return the sheet's corrections without those that are too long for a cell."""
    long = {(each.row, each.column) for each in sheet.problems if each.rule == "cell-long"}
    return [each for each in sheet.corrections if (each.row, each.column) not in long]


def write_file(
    path: Path, source: Source, data: bytes, lines: list[str] | None, *, follow: bool = True
) -> None:
    """Write the file, and the sidecar of a CSV file. Raises SheetError if that fails."""
    if source.kind == "text":
        write_with_sidecar(
            path, _encoded_content(source, data), lines, follow=follow, like=source.path
        )
    else:
        write_atomically(path, data, follow=follow, like=source.path, error=SheetError)


def _encoded_content(source: Source, data: bytes) -> bytes:
    return source.encode(data) if source.kind == "text" else data


@dataclass(frozen=True, slots=True)
class _RowResult:
    """The result of one row, as texts."""

    row: int
    outcome: str
    message: str
    assigned_id: str
    recognised: str
    """The id of the pet as which a row without an id was recognised."""


def _result_edits(sheet: Sheet, results: Results) -> CellEdits:
    plan = results.plan if isinstance(results, Report) else None
    edits = _edits_without_result(sheet, plan)
    repeated_rows = {
        each.row: each.problem for each in sheet.problems if each.rule == "duplicate-row"
    }
    own = {row: _blank_result(row) for row in (*sheet.blocked, *repeated_rows)}
    for row, message in repeated_rows.items():
        own[row] |= {"outcome": "unchanged", "message": message}
    for row, problems in sheet.errors_by_row.items():
        texts = (f"{each.address}: {each.problem} {each.suggestion}".rstrip() for each in problems)
        own[row] |= {"outcome": "needs fixing", "message": "; ".join(texts)}
    adds = set(sheet.rows.index[sheet.rows["action"].isin(ADDING)].tolist())
    found = list(
        _results_of_report(results, sheet, edits, {*own, *adds})
        if isinstance(results, Report)
        else _results_of_frame(results)
    )
    ids = {}
    if "id" in sheet.rows:
        ids = sheet.rows["id"].reindex([each.row for each in found]).dropna().to_dict()
    for result in found:
        edit = _describe_result(result, is_add=result.row in adds, own=ids.get(result.row))
        if "id" in edit and int(edit["id"]) in sheet.named_ids:
            del edit["id"]
            if edit["outcome"] != "applied":
                edit.pop(ACTION, None)
        own.setdefault(result.row, _blank_result(result.row)).update(edit)
    return replace(edits, own=own)


def _blank_result(row: int | str) -> dict[str, str]:
    """Return blank cells: the sheet may have the results of an earlier run."""
    return {**dict.fromkeys(RESULTS, ""), "row": str(row)}


def _edits_without_result(sheet: Sheet, plan: Plan | None) -> CellEdits:
    """Return the edits of the sheet's rows without a result: they are `unchanged` for the reasons
    in the plan, or blank without a plan.
    """
    numbers = sheet.rows.index.to_numpy()
    shared = _blank_result(ROW_NUMBER)
    groups: list[tuple[str, Iterable[int]]] = [("", numbers)]
    if plan is not None:
        shared["outcome"] = "unchanged"
        ignored = numbers[sheet.rows["action"] == "ignore"]
        stale = ((each.message, each.rows) for each in iter_stale_rows(plan))
        groups = [(_AGREES, numbers), (_IGNORED, ignored), *stale]
    kinds = np.zeros(numbers.max(initial=0) + 1, np.int32)
    kinds[numbers] = 1
    for kind, (_, rows) in enumerate(groups[1:], 2):
        kinds[np.intersect1d(np.fromiter(rows, np.int64), numbers)] = kind
    return CellEdits({}, ({}, *({**shared, "message": message} for message, _ in groups)), kinds)


def _results_of_report(
    report: Report, sheet: Sheet, edits: CellEdits, rows: Collection[int]
) -> Iterator[_RowResult]:
    """Yield the results of the report, and those without a result of the `rows` and of the
    recognised rows. Blocked rows are left out, because their findings have more details.
    """
    results, recognised = report.by_row(), report.plan.recognised
    for row in {**results, **recognised, **dict.fromkeys(rows)}.keys() - {*sheet.blocked}:
        texts: Mapping[str, str] = edits.of(row)
        if row in results:
            result = results[row]
            assigned = "" if result.assigned_id is None else str(result.assigned_id)
            texts = {"outcome": result.outcome, "message": result.message, "assigned_id": assigned}
        if texts:
            has_pet = texts["outcome"] in ("applied", "unchanged") and row in recognised
            pet_id = str(recognised[row]) if has_pet else ""
            yield _RowResult(row, texts["outcome"], texts["message"], texts["assigned_id"], pet_id)


def _results_of_frame(frame: pd.DataFrame) -> Iterator[_RowResult]:
    names = ("outcome", "message", "assigned_id", "recognised")
    for result in frame.itertuples():
        yield _RowResult(int(str(result.Index)), *(_format_field(result, name) for name in names))


def _describe_result(result: _RowResult, *, is_add: bool, own: int | None) -> dict[str, str]:
    """Return the cells of a row's results; `own` is the id in the row."""
    message = result.message
    if result.recognised:
        separator = "" if message in ("", _AGREES) else f"; {message}"
        message = f"recognised as pet {result.recognised}{separator}"
    texts = {
        "outcome": result.outcome,
        "message": message,
        "assigned_id": result.assigned_id,
    }
    # Without the id, the row would add another pet as soon as somebody edits it. With an id that
    # the service replaced by another one, it would add the pet again.
    pet_id = result.assigned_id or ("" if own is not None else result.recognised)
    if pet_id and pet_id != str(own):
        texts["id"] = pet_id
    has_pet = result.outcome in ("applied", "unchanged") or "id" in texts
    return {**texts, "action": "merge"} if is_add and has_pet else texts


def _category_ids(source: Source, sheet: Sheet, report: Report) -> dict[int, int]:
    """Return, by row, the id of the category that was sent for the row, if its cell differs.

    A number beside a new category is replaced only if the worksheet has no formulas: petsync keeps
    formulas, so the base must have the same value as such a cell.
    """
    if "category" not in sheet.columns or "category_id" not in sheet.columns:
        return {}
    sent = {
        result.row: after.category.id
        for result in report.results
        if result.row is not None and result.is_in_store and result.kind in ("add", "update")
        for change in [report.plan.changes[result.number]]
        if (after := change.after) is not None and after.category is not None
        if after.category.id and (result.kind == "add" or "category" in change.fields)
    }
    cells = sheet.rows["category_id"].reindex([*sent])
    is_new = cells.isna()
    differs = is_new | (cells != pd.Series(sent, dtype="Int64")).fillna(value=True)
    if not is_new[differs].all() and _has_formulas(source, sheet.tab):
        differs = is_new
    return {row: sent[row] for row in cells.index[differs].tolist()}


def _has_formulas(source: Source, tab: str) -> bool:
    if source.kind != "workbook":
        return False
    # The modules for workbooks are loaded only for a workbook.
    from petsync.sheets.xlsx.package import Package

    package = Package(source)
    return re.search(rb"<(?:\w+:)?f[\s/>]", package.worksheet(package.tab(tab))) is not None


def _with_category_ids(sheet: Sheet, categories: Mapping[int, int]) -> Sheet:
    """Return the sheet with these ids in its cells."""
    if not categories:
        return sheet
    rows = sheet.rows
    numbers = rows["category_id"].copy()
    numbers.loc[[*categories]] = [*categories.values()]
    return sheet.with_rows(frame_of(rows.assign(category_id=numbers)))


def id_edits(sheet: Sheet, report: Report) -> CellEdits:
    """Return the ids and the actions that the rows get after the run, including the id of a row
    without one whose pet was recognised and whose change failed.
    """
    edits = _only_ids(_result_edits(sheet, report))
    known = {
        row: {"id": str(pet_id), **edits.of(row)}
        for row, pet_id in report.plan.recognised.items()
        if pet_id not in sheet.named_ids
    }
    return replace(edits, own={**edits.own, **known})


def _only_ids(edits: CellEdits) -> CellEdits:
    """Return only the edits of ids and actions."""
    id_edits = {
        row: {name: text for name, text in edit.items() if name in ("id", ACTION)}
        for row, edit in edits.own.items()
    }
    return CellEdits({row: edit for row, edit in id_edits.items() if edit})


def _new_columns(places: Collection[str], edits: CellEdits) -> list[str]:
    """Return the columns that the copy has and the sheet lacks. They include the id if a row gets
    an id: otherwise the copy would add the pets again.
    """
    names = ("id", *RESULTS, *map(_add_prefix, RESULTS))
    edited = edits.columns
    return [name for name in names if name in edited and name not in places]


def _rename_results(edits: CellEdits, places: Collection[str]) -> CellEdits:
    """Return the edits, with a prefix on the result columns if the sheet has some but not all of
    them. If the sheet has only some, they are columns of the user; if it has all of them, petsync
    added them.
    """
    result_columns = [name for name in RESULTS if name in places]
    if not result_columns or len(result_columns) == len(RESULTS):
        return edits

    def rename(edit: Mapping[str, str]) -> dict[str, str]:
        return {_add_prefix(name) if name in RESULTS else name: edit[name] for name in edit}

    own = {row: rename(edit) for row, edit in edits.own.items()}
    return replace(edits, own=own, shared=[*map(rename, edits.shared)])


def _add_prefix(name: str) -> str:
    return f"{RESULT_PREFIX}{name}"


def _format_field(result: object, name: str) -> str:
    value = getattr(result, name, None)
    if value is None or value is pd.NA or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)


# Replace a user's files, with a backup, so that no edit is lost.


_NO_EXPORT = "it is not an export of petsync"


def must_take_results(sheet: Sheet) -> None:
    """Raise SheetError if `write_back` cannot write the sheet's file now: it is open in a program,
    read-only, in a folder without permission to write a backup, or has changed since it was read.
    """
    check_writable(as_sheet(sheet), "Read it again.")


def check_writable(sheet: Sheet, hint: str) -> None:
    """Raise SheetError if the sheet's file cannot be replaced now, or never because of its format;
    `hint` is for a file that has changed since it was read.
    """
    path = Path(sheet.source)
    if sheet.form:
        raise SheetError(
            f"{path}: petsync does not write into {sheet.form}",
            hint="Save the sheet as .xlsx or .csv, and use that; or continue with the results "
            "file, which has the new ids.",
        )
    must_be_closed(path)
    load_unchanged(sheet, hint)
    file = path.resolve()
    is_writable = bool(file.stat().st_mode & 0o222) and os.access(file, os.W_OK)
    if not is_writable:
        raise SheetError(f"{path}: the file is read-only", hint="Make it writable.")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise SheetError(
            f"{path}: no backup can be written: the folder {file.parent} is read-only",
            hint="Move the sheet to a folder that you can write to.",
        )


def write_back(
    sheet: Sheet,
    results: Results,
    *,
    now: dt.datetime | None = None,
    only_ids: bool = False,
) -> Path:
    """Write the results into the sheet's file, as `write_results` writes them into a copy, and
    return the path of a backup. With `only_ids`, no result columns are written.

    The backup is a copy of the old file in the same folder, with the time `now` in its name, by
    default the current time in UTC (`catalogue.backup-20261121-103000.xlsx`); no earlier backup is
    replaced. The sidecar of a CSV file gets a backup too. The file is replaced atomically, after
    the backup is complete. Symbolic links are followed and kept.

    Raises SheetError if the file has changed since it was read, is open in Excel or LibreOffice, or
    cannot be written, the report is for another sheet, or an argument has the wrong type.
    """
    return write_back_noting_digest(sheet, results, now=now, only_ids=only_ids)


def write_back_noting_digest(
    sheet: Sheet,
    results: Results,
    *,
    now: dt.datetime | None = None,
    only_ids: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the results as `write_back` does, and call `note` with the SHA-256 of the new file
    before it is written.
    """
    results = as_results(results)
    check_writable(as_sheet(sheet), _SEE_REPORT)
    source = load_unchanged(sheet, _SEE_REPORT)
    sheet = as_planned(sheet, results)
    data, lines = apply_results(source, sheet, results, only_ids=only_ids)
    backup = create_backup(source.path.resolve(), source.content, now or dt.datetime.now(dt.UTC))
    note(hashlib.sha256(_encoded_content(source, data)).hexdigest())
    # Check again, in order not to overwrite a sheet that was saved in the meantime.
    must_be_closed(source.path)
    load_unchanged(sheet, _SEE_REPORT)
    write_file(source.path, source, data, lines)
    return backup


def find_written_digest(report: Report, statuses: Sequence[str] = STATUSES) -> str | None:
    """Return the SHA-256 of the sheet's file if `write_back` of the report, with or without the
    result columns, is all that has changed it since the plan; else None. The backup of the file
    shows what it was before.
    """
    plan = report.plan
    if plan.source == STDIN or not plan.source_digest:
        return None
    try:
        now = load(Path(plan.source), plan.encoding or None)
        before = _read_backup(now.path.resolve(), plan, statuses)
        if before is None:
            return None
        sheet, source = before
        grid = read_grid(now, sheet.tab or None, sheet.mapping)
        for only_ids in (True, False):
            data, _ = apply_results(source, sheet, report, only_ids=only_ids)
            written = replace(source, data=data, original=b"")
            if _has_same_cells(grid, read_grid(written, sheet.tab or None, sheet.mapping)):
                return now.digest
    except (OSError, ValueError, SheetError):
        return None
    return None


def _find_backups(file: Path) -> list[Path]:
    return [*file.parent.glob(f"{glob.escape(file.stem)}.backup-*{glob.escape(file.suffix)}")]


def has_backup(file: Path, digest: str, since: dt.datetime) -> bool:
    """Return true if a backup of the file made since that time has this SHA-256: petsync has
    written into the file after it had this content.
    """
    first = f"{since.astimezone(dt.UTC):%Y%m%d-%H%M%S}"
    file = file.resolve()
    for path in _find_backups(file):
        if path.stem.removeprefix(f"{file.stem}.backup-") >= first:
            with suppress(OSError, SheetError):
                if digest_of(path) == digest:
                    return True
    return False


def _read_backup(file: Path, plan: Plan, statuses: Sequence[str]) -> tuple[Sheet, Source] | None:
    """Return the backup of a file with the content that the plan is for; None if there is none."""
    for path in _find_backups(file):
        at_backup = msgspec.structs.replace(plan, source=str(path))
        sheet = sheet_of(at_backup, statuses=statuses)
        if sheet is not None:
            return sheet, load(path, plan.encoding or None)
    return None


def _has_same_cells(grid: Grid, other: Grid) -> bool:
    """Return true if two grids have the same texts in the same places, except in the columns of
    results.
    """
    found = []
    for each in (grid, other):
        results = own_results(each.header)
        found.append(
            [
                (name, cells.text)
                for name, cells in zip(each.header, each.columns, strict=True)
                if name not in results
            ]
        )
    return np.array_equal(grid.rows, other.rows) and found[0] == found[1]


def check_replaceable(path: Path, *, force: str = "") -> None:
    """Raise SheetError if an export to `path` would replace a file that was edited since its
    export, is not an export, or is open in a program. `force` is the option that replaces the file
    anyway, for the hint.
    """
    _read_replaceable(path, force)


def _read_replaceable(path: Path, force: str) -> Sheet | None:
    """Return the sheet that an export may replace; None if there is no file with content, or if it
    is an export that is not a sheet (JSON or Parquet). Raises SheetError as `check_replaceable`
    does.
    """
    if not _has_content(path):
        return None
    must_be_closed(path)
    sheet = None
    is_export = _EXPORT_CHECKS.get(path.suffix.casefold())
    if is_export is not None:
        why = "" if is_export(path) else _NO_EXPORT
    else:
        try:
            sheet = read_sheet(path)
        except SheetError:
            why = _NO_EXPORT
        else:
            why = _describe_edits(sheet)
    if why:
        hint = "Name another file."
        if force:
            hint += f" To replace this one, use {force}; petsync then keeps a backup of it."
        raise SheetError(f"{path} was not changed: {why}", hint=hint)
    return sheet


def backup_before_export(path: Path, data: bytes, *, force: bool = False) -> Path | None:
    """Make a backup of the file that `data` is about to replace, and return its path; None if no
    backup is needed: there is no file, it has the same content, or it is an export that nobody
    edited.

    Raises SheetError if the backup cannot be written and, without `force`, as `check_replaceable`
    does.
    """
    sheet = None if force else _read_replaceable(path, "force=True")
    if not _has_content(path):
        return None
    file = path.resolve()
    before = file.read_bytes()
    if _is_same_file(before, data) or not (force or _may_hide_edits(path, sheet)):
        return None
    return create_backup(file, before, dt.datetime.now(dt.UTC))


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        # No file can have this name, so writing the file raises the error.
        return False


def _describe_edits(sheet: Sheet) -> str:
    """Return, as a clause, why the sheet is not an unedited export of petsync; "" if nothing shows
    that. Without a base, edits are not detected.
    """
    if sheet.base_refused and not sheet.base_refused.endswith(INTERRUPTED):
        return sheet.base_refused
    if sheet.base is None:
        return "" if _is_plain_export(sheet) else _NO_EXPORT
    edits = [*_edited_places(sheet, sheet.base)]
    more = f" and {len(edits) - 3:,} more" if len(edits) > 3 else ""
    return f"it was edited since its export: {', '.join(edits[:3])}{more}" if edits else ""


def _edited_places(sheet: Sheet, base: Base) -> Iterator[str]:
    """Yield the differences between a sheet and its base, in words."""
    frame = sheet.rows
    yield from (f"a new column {name}" for name in sheet.others.columns)
    yield from (f"no column {name}" for name in COLUMNS if name not in frame)
    yield from (f"a new worksheet {tab}" for tab in sheet.tabs if tab != GUIDE)
    yield from (sheet.address(row) for row in sheet.blocked)
    with_action = frame.index[~has_action(frame, "merge")]
    yield from (sheet.address(row, "action") for row in with_action)
    if "id" not in frame:
        return
    places = match.positions(frame["id"].array, base.rows)
    yield from (sheet.address(row) for row in frame.index[places < 0])
    rows = len(set(places[places >= 0].tolist())) + len(sheet.blocked)
    if rows < len(base):
        yield f"{count(len(base) - rows, 'row')} fewer"
    found_rows = np.flatnonzero(places >= 0)
    edited = match.edited_units(frame, found_rows, base)
    for unit, columns in COLUMNS_OF.items():
        for column in (name for name in columns if name in frame):
            # A plan ignores a blank cell, but the export had a value there.
            had_value = ~is_empty(base.rows[column].array.take(places[found_rows]))
            mask = is_blank(frame[column].array.take(found_rows)) & had_value
            if column == unit:
                mask |= edited[unit]
            yield from (sheet.address(row, column) for row in frame.index[found_rows[mask]])


def _is_plain_export(sheet: Sheet) -> bool:
    """Return true if a sheet without a base has exactly the columns of an export."""
    return set(sheet.columns) == set(OUT)


def _is_same_file(before: bytes, data: bytes) -> bool:
    """Return true if both files have the same content; workbooks that petsync wrote may differ in
    their timestamps.
    """
    files = io.BytesIO(before), io.BytesIO(data)
    if before == data or not all(map(zipfile.is_zipfile, files)):
        return before == data
    # openpyxl is loaded only for a workbook.
    from petsync.workbook import is_sealed, seal

    with zipfile.ZipFile(files[0]) as old, zipfile.ZipFile(files[1]) as new:
        return is_sealed(old) and seal(old) == seal(new)


def _may_hide_edits(path: Path, sheet: Sheet | None) -> bool:
    """Return true if the file, read as `sheet`, may have edits that are not detected: in an export
    without a base, and in a workbook that another program saved.
    """
    if sheet is None or sheet.base is None:
        return True
    if not zipfile.is_zipfile(path):
        return False
    # openpyxl is loaded only for a workbook.
    from petsync.workbook import is_sealed

    with zipfile.ZipFile(path) as book:
        return not is_sealed(book)


def _are_pets(path: Path) -> bool:
    try:
        decode_pets(path.read_bytes())
    except (ResponseError, ValueError):
        return False
    return True


def _are_pets_by_line(path: Path) -> bool:
    try:
        for line in path.read_bytes().splitlines():
            decode_pet(line)
    except (ResponseError, ValueError):
        return False
    return True


def _is_table_of_pets(path: Path) -> bool:
    # pyarrow.parquet is loaded only for Parquet files.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    return bool(names) and set(names) <= {*SCHEMA.names}


_EXPORT_CHECKS = {
    ".json": _are_pets,
    ".jsonl": _are_pets_by_line,
    ".parquet": _is_table_of_pets,
}


def back_up(path: Path, now: dt.datetime | None = None) -> Path | None:
    """Write a backup of the file at `path`, and return its path; None if there is no file. Raises
    SheetError if the file is open in another program.
    """
    if not path.is_file():
        return None
    must_be_closed(path)
    file = path.resolve()
    return create_backup(file, file.read_bytes(), now or dt.datetime.now(dt.UTC))


def create_backup(file: Path, data: bytes, now: dt.datetime) -> Path:
    """Write a backup of the file, and one of its sidecar if it has one, into the same folder, with
    the time in their names. Return the path of the file's backup when both are completely on disk.
    No earlier backup is replaced.
    """
    sidecar = sidecar_path(file)
    for attempt in itertools.count(1):
        number = f"-{attempt}" if attempt > 1 else ""
        name = f"{file.stem}.backup-{now:%Y%m%d-%H%M%S}{number}{file.suffix}"
        backup = file.with_name(name)
        if lexists(sidecar_path(backup)):
            continue
        with suppress(FileExistsError):
            write_atomically(backup, data, new=True, like=file, error=SheetError)
            break
    if sidecar.is_file() and not sidecar.is_symlink():
        data = sidecar.read_bytes()
        with suppress(FileExistsError):
            write_atomically(sidecar_path(backup), data, new=True, like=sidecar, error=SheetError)
    return backup
