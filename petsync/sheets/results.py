"""write_results: a copy of the user's own sheet that tells what became of each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec
import pandas as pd

from petsync.diff.advance import advanced
from petsync.diff.report import Report
from petsync.diff.summary import lagging
from petsync.sheets import atomic
from petsync.sheets.base import notice
from petsync.sheets.copies import (
    Results,
    apart,
    as_path,
    as_results,
    as_sheet,
    fitting,
    of_one_sheet,
    sidecar_lines,
    unchanged,
)
from petsync.sheets.delimited.sidecar import write_with
from petsync.sheets.headers import ACTION, OURS, RESULTS
from petsync.sheets.source import Source
from petsync.table.columns import ADDING, COLUMNS
from petsync.table.sheet import Sheet

__all__ = ["put", "told", "write_results"]

_AGREES = "the store agrees already"
_IGNORED = "ignored, as its action says"


def write_results(sheet: Sheet, results: Results, path: str | Path, *, follow: bool = True) -> None:
    """Write to `path` a copy of the sheet's file with the columns of RESULTS filled in.

    `results` is a run's report, or a DataFrame indexed by row number with the columns `outcome`,
    `message` and `assigned_id`; the sheet's blocked rows are told by their findings. An id
    cell gets the assigned id, a blank one also that of the pet that the row was recognised as, and
    an `add` that was applied becomes `merge`, so that the copy can be read and applied again; for
    that the base that the sheet carries goes with it, and says of each row that a report calls
    applied what the row says. Cells that the sheet has corrected are so here, but for those with a
    formula on which others hang. Of a workbook all else stays as it is (its macros if the copy is
    an `.xlsm` too), of a CSV file every other byte.

    Without `follow`, for a path that no person named, a symbolic link at `path` is an error, and
    not the way to another file. Raises SheetError where the file has changed since it was read,
    cannot be written, or what is given is no sheet, no results or no path.
    """
    sheet, results, path = as_sheet(sheet), as_results(results), as_path(path)
    source = unchanged(sheet, "What became of each row is in the report.")
    apart(path, source)
    fitting(path, source)
    put(path, source, *told(source, sheet, results, path.suffix), follow=follow)


def told(
    source: Source, sheet: Sheet, results: Results, suffix: str = "", *, only_ids: bool = False
) -> tuple[bytes, list[str] | None]:
    """The file's bytes with the results, and of a CSV file the lines of its sidecar if it has one.

    A workbook becomes of the kind that a suffix tells. With `only_ids` no column of results is
    made or filled.
    """
    of_one_sheet(sheet, results)
    base = advanced(sheet, results) if isinstance(results, Report) else None
    edits = _edits(sheet, _by_row(results, sheet) if isinstance(results, Report) else results)
    lines = None if base is None else [notice(base), *base.to_lines()]
    edits = _ids_alone(edits) if only_ids else _renamed(edits, sheet.columns)
    for each in sheet.corrections:
        # What the row gets of the run comes first: an id, or another action.
        edits.setdefault(each.row, {}).setdefault(each.column, each.after)
    new = _new_columns(sheet.columns, edits)
    if source.kind == "text":
        # What only CSV needs is loaded for CSV.
        from petsync.sheets.delimited.script import extended

        return extended(source, sheet, edits, new), lines or sidecar_lines(source)
    from petsync.sheets.ooxml.patch import patched

    over = {(each.row, each.column) for each in sheet.corrections}
    return patched(source, sheet, edits, new, lines=lines, suffix=suffix, over=over), None


def put(
    path: Path, source: Source, data: bytes, lines: list[str] | None, *, follow: bool = True
) -> None:
    """Put the file there, with its sidecar where it is CSV. Raises SheetError."""
    if source.kind == "text":
        write_with(path, source.encoded(data), lines, follow=follow, like=source.path)
    else:
        atomic.replace(path, data, follow=follow, like=source.path)


def _by_row(report: Report, sheet: Sheet) -> pd.DataFrame:
    """outcome, message, assigned_id and recognised (the pet of a row that has no id), indexed by
    row; rows that were no change are skipped, and blocked ones left out: their findings tell more.
    """
    plan, ignored = report.plan, sheet.frame.index[sheet.frame["action"] == "ignore"]
    results = msgspec.structs.replace(report, results=tuple(report.by_row().values())).to_frame()
    results = results.set_index("row").drop(index=list(sheet.blocked), errors="ignore")
    rows = sheet.frame.index.union(results.index)
    said = results[["outcome", "message", "assigned_id"]].reindex(rows)
    quiet = said["outcome"].isna()
    said.loc[quiet, "outcome"] = "skipped"
    said.loc[quiet, "message"] = _AGREES
    said.loc[quiet & rows.isin(ignored), "message"] = _IGNORED
    for each in lagging(plan):
        said.loc[quiet & rows.isin(each.rows), "message"] = each.message
    recognised = pd.Series(plan.recognised, dtype="Int64").reindex(rows)
    said["recognised"] = recognised.where(said["outcome"].isin(("applied", "skipped")))
    return said


def _edits(sheet: Sheet, results: pd.DataFrame) -> dict[int, dict[str, str]]:
    rows = [*sheet.frame.index.tolist(), *sheet.blocked]
    repeats = {each.row: each.problem for each in sheet.problems if each.rule == "duplicate-row"}
    # Blank first: the sheet may carry what became of its rows in an earlier run.
    edits = {row: {**dict.fromkeys(RESULTS, ""), "row": str(row)} for row in (*rows, *repeats)}
    for row, same in repeats.items():
        edits[row] |= {"outcome": "skipped", "message": same}
    for problem in sheet.problems:
        if problem.severity == "error" and problem.row in edits:
            blocked = edits[problem.row]
            before = f"{blocked['message']}; " if blocked["outcome"] == "failed" else ""
            said = f"{problem.address}: {problem.problem} {problem.suggestion}".rstrip()
            blocked |= {"outcome": "failed", "message": before + said}
    adds = set(sheet.frame.index[sheet.frame["action"].isin(ADDING)])
    ids = sheet.frame["id"].dropna().to_dict() if "id" in sheet.frame else {}
    for result in results.itertuples():
        row = int(str(result.Index))
        edit = _told(result, is_add=row in adds, own=ids.get(row))
        edits.setdefault(row, {"row": str(row)}).update(edit)
    return edits


def _told(result: object, *, is_add: bool, own: int | None) -> dict[str, str]:
    """The cells of a row's results, of which `own` is the id that it gives."""
    said = {name: _shown(result, name) for name in ("outcome", "message", "assigned_id")}
    recognised = _shown(result, "recognised")
    if recognised:
        before = "" if said["message"] in ("", _AGREES) else f"; {said['message']}"
        said["message"] = f"recognised as pet {recognised}{before}"
    # Without its id the row would be another pet as soon as somebody edits it; and under an id that
    # the service has exchanged for one of its own it would add the pet again.
    pet_id = said["assigned_id"] or ("" if own is not None else recognised)
    if pet_id and pet_id != str(own):
        said["id"] = pet_id
    return {**said, "action": "merge"} if is_add and said["outcome"] == "applied" else said


def _ids_alone(edits: Mapping[int, Mapping[str, str]]) -> dict[int, dict[str, str]]:
    """The edits of ids and actions."""
    own = {
        row: {name: text for name, text in edit.items() if name in ("id", ACTION)}
        for row, edit in edits.items()
    }
    return {row: edit for row, edit in own.items() if edit}


def _new_columns(places: Collection[str], edits: Mapping[int, Mapping[str, str]]) -> list[str]:
    """The columns that the copy has and the sheet has not; the id too where a row gets one,
    or else the copy would add the pets again.
    """
    named = {name for edit in edits.values() for name in edit} - set(COLUMNS) - {ACTION}
    results = [name for name in (*RESULTS, *map(_ours, RESULTS)) if name in named]
    wanted = ["id", *results] if any("id" in edit for edit in edits.values()) else results
    return [name for name in wanted if name not in places]


def _renamed(
    edits: dict[int, dict[str, str]], places: Collection[str]
) -> dict[int, dict[str, str]]:
    """The edits under names that are no columns of people's own: only a sheet with all columns of
    results has them from petsync.
    """
    own = [name for name in RESULTS if name in places]
    if not own or len(own) == len(RESULTS):
        return edits
    return {
        row: {_ours(name) if name in RESULTS else name: text for name, text in edit.items()}
        for row, edit in edits.items()
    }


def _ours(name: str) -> str:
    return f"{OURS}{name}"


def _shown(result: object, name: str) -> str:
    value = getattr(result, name, None)
    if value is None or value is pd.NA or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)
