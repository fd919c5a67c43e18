"""write_results: a copy of the user's own sheet that tells what became of each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from petsync.diff.report import Report
from petsync.errors import SheetError
from petsync.sheets import atomic, csv
from petsync.sheets.headers import RESULTS, Mapper
from petsync.sheets.source import Source, load
from petsync.sheets.write import csv_bytes
from petsync.table.sheet import Sheet

__all__ = ["write_results"]

Edits = Mapping[int, Mapping[str, str]]
"""New texts by row and by the name of the column."""


def write_results(sheet: Sheet, results: Report | pd.DataFrame, path: str | Path) -> None:
    """Write to `path` a copy of the sheet's file with the columns of RESULTS filled in.

    `results` is a run's report, or a DataFrame indexed by row number with the columns `outcome`,
    `message` and `assigned_id`; the sheet's blocked rows are told by their findings. An assigned
    id also goes into a blank id cell, and an `add` that was applied becomes `merge`, so that the
    copy can be read and applied again. Of a workbook all else stays as it is; of a CSV file the
    delimiter.

    Raises SheetError where the file has changed since it was read, or cannot be written.
    """
    path, source = Path(path), load(Path(sheet.source))
    if source.digest != sheet.digest:
        raise SheetError(
            f"{source.path}: the file has changed since it was read",
            hint="What became of each row is in the report.",
        )
    if path.resolve() == source.path.resolve():
        raise SheetError(f"{path}: this is the sheet itself", hint="Give the copy another name.")
    edits = _edits(sheet, _by_row(results, sheet) if isinstance(results, Report) else results)
    if source.kind == "text":
        atomic.replace(path, _text(source, sheet, edits))
        return
    # openpyxl is loaded when a workbook is written.
    from petsync.sheets.patch import patched

    atomic.replace(path, patched(source, sheet, edits, new_columns(sheet.columns, edits)))


def _by_row(report: Report, sheet: Sheet) -> pd.DataFrame:
    """outcome, message and assigned_id, indexed by row; rows that were no change are skipped, and
    blocked ones left out: their findings tell more.
    """
    results = report.to_frame().dropna(subset=["row"]).set_index("row")
    results = results.drop(index=list(sheet.blocked), errors="ignore")
    rows = sheet.frame.index.union(results.index)
    told = results[["outcome", "message", "assigned_id"]].reindex(rows)
    quiet = told["outcome"].isna()
    is_ignored = (sheet.frame["action"] == "ignore").reindex(rows, fill_value=False)
    told.loc[quiet, "outcome"] = "skipped"
    told.loc[quiet, "message"] = "the store agrees already"
    told.loc[quiet & is_ignored, "message"] = "ignored, as its action says"
    return told


def _edits(sheet: Sheet, results: pd.DataFrame) -> dict[int, dict[str, str]]:
    rows = [*sheet.frame.index.tolist(), *sheet.blocked]
    # Blank first: the sheet may carry what became of its rows in an earlier run.
    edits = {row: {**dict.fromkeys(RESULTS, ""), "row": str(row)} for row in rows}
    for problem in sheet.problems:
        if problem.severity == "error" and problem.row in edits:
            edit = edits[problem.row]
            before = f"{edit['message']}; " if edit["message"] else ""
            told = f"{problem.address}: {problem.problem} {problem.suggestion}".rstrip()
            edit |= {"outcome": "failed", "message": before + told}
    adds = set(sheet.frame.index[sheet.frame["action"] == "add"])
    for result in results.itertuples():
        row = int(str(result.Index))
        edits.setdefault(row, {"row": str(row)}).update(_told(result, is_add=row in adds))
    return edits


def _told(result: object, *, is_add: bool) -> dict[str, str]:
    told = {name: _shown(result, name) for name in ("outcome", "message", "assigned_id")}
    if told["assigned_id"]:
        told["id"] = told["assigned_id"]
    return {**told, "action": "merge"} if is_add and told["outcome"] == "applied" else told


def new_columns(places: Collection[str], edits: Edits) -> list[str]:
    """The columns that the copy has and the sheet has not; the id too where one was assigned,
    or else the copy would add the pets again.
    """
    wanted = ("id", *RESULTS) if any("id" in edit for edit in edits.values()) else RESULTS
    return [name for name in wanted if name not in places]


def _shown(result: object, name: str) -> str:
    value = getattr(result, name, None)
    if value is None or value is pd.NA or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)


def _text(source: Source, sheet: Sheet, edits: Edits) -> bytes:
    dialect = csv.sniff(source, Mapper.of(str(source.path), None))
    places = {name: int(place) - 1 for name, place in sheet.columns.items()}
    records = list(csv.records(source, dialect))
    header = next(each.cells or [] for each in records if each.line == sheet.header_row)
    width = len(csv.without_tail(header))
    new = new_columns(places, edits)
    places.update({name: width + n for n, name in enumerate(new)})
    rows = [_row(source, each, sheet.header_row, width, new, places, edits) for each in records]
    mark = source.data.startswith(b"\xef\xbb\xbf")
    head = source.data.partition(b"\n")[0] + b"\n" if dialect.skipped else b""
    return head + csv_bytes(rows, dialect.delimiter, mark=mark and not head)


def _row(
    source: Source,
    record: csv.Record,
    header_row: int,
    width: int,
    new: Sequence[str],
    places: Mapping[str, int],
    edits: Edits,
) -> list[str]:
    cells = _lines(source, record) if record.cells is None else record.cells
    edit = edits.get(record.line, {})
    if record.line == header_row:
        return [*cells[:width], *new]
    if not edit:
        return cells
    if csv.is_ragged(cells, width):
        # Still ragged, so that no one takes the copy's cells for what they are not.
        return [*cells, *(csv.guarded(edit.get(name, "")) for name in new)]
    cells = [*cells[:width], *[""] * len(new)]
    for name, text in edit.items():
        if name in places and (name != "id" or not cells[places[name]].strip()):
            cells[places[name]] = text if name == "id" else csv.guarded(text)
    return cells


def _lines(source: Source, record: csv.Record) -> list[str]:
    """The text of a record that cannot be taken apart, as one cell."""
    return source.data.decode("utf-8-sig").splitlines()[record.line - 1 : record.line]
