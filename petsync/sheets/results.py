"""Result sheets: what became of each row, backups, and copies."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from os import PathLike
from os.path import lexists
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from petsync import _files
from petsync.errors import ResponseError, SheetError
from petsync.plan import match
from petsync.plan.base import advance_base, named_ids
from petsync.plan.fields import normal
from petsync.plan.plan import lagging
from petsync.plan.report import Report
from petsync.protocol.json import decode_pet, decode_pets
from petsync.sheets.base import notice
from petsync.sheets.files import Source, load, must_be_closed
from petsync.sheets.headers import ACTION, OURS, RESULTS
from petsync.sheets.read import read_sheet
from petsync.sheets.sidecar import INTERRUPTED, beside, content, write_with
from petsync.sheets.xlsx.contents import GUIDE, OUT
from petsync.table.base import Base
from petsync.table.columns import ADDING, COLUMNS
from petsync.table.frame import EXTRA
from petsync.table.sheet import Sheet

__all__ = [
    "Results",
    "apart",
    "as_path",
    "as_results",
    "as_sheet",
    "create_backup",
    "fitting",
    "load_unchanged",
    "make_way",
    "must_be_replaceable",
    "must_be_writable",
    "must_take_results",
    "of_one_sheet",
    "sidecar_lines",
    "with_results",
    "write_back",
    "write_file",
    "write_noted",
    "write_results",
]


# What every copy of a sheet's file keeps to: it is of the bytes that were read, and elsewhere.
#
# What a caller gives is of another type more often than not by mistake, and is told so.


Results = Report | pd.DataFrame

_UNREADABLE = "petsync-base could not be read"


def as_sheet(sheet: object) -> Sheet:
    """The sheet itself. Raises SheetError where it is none."""
    if not isinstance(sheet, Sheet):
        raise SheetError(
            f"a {type(sheet).__name__} is no sheet", hint="Give what read_sheet returns."
        )
    return sheet


def as_results(results: object) -> Results:
    """The results themselves. Raises SheetError where they are none, or not of rows."""
    if not isinstance(results, Report | pd.DataFrame):
        raise SheetError(
            f"a {type(results).__name__} holds no results of a run",
            hint="Give what apply returns, or a DataFrame indexed by row number.",
        )
    kinds = ("integer", "empty")
    if isinstance(results, pd.DataFrame) and results.index.inferred_type not in kinds:
        raise SheetError(
            "the results are not indexed by row number",
            hint='Where they have a column with it, use results.set_index("row").',
        )
    return results


def as_path(path: object) -> Path:
    """The path. Raises SheetError where it is none."""
    if not isinstance(path, str | PathLike):
        raise SheetError(
            f"a {type(path).__name__} is no path", hint='Give the file\'s name, as "pets.xlsx".'
        )
    return Path(path)


def of_one_sheet(sheet: Sheet, results: Results) -> None:
    """Raise SheetError where a report is of another sheet: its rows are not this one's."""
    if isinstance(results, Report) and results.plan.source_digest != sheet.digest:
        raise SheetError(
            f"{sheet.source}: the report is of another sheet, or of other content: "
            f"{results.plan.source}",
            hint="Give the sheet that the plan was made from, as it was read then.",
        )


def fitting(path: Path, source: Source) -> None:
    """Raise SheetError where the name says another kind of file than the copy is."""
    endings = (".csv", ".tsv", ".txt") if source.kind == "text" else (".xlsx", ".xlsm")
    if path.suffix.casefold() not in endings:
        raise SheetError(
            f"{path}: the copy of {source.path.name} is of the same kind as that",
            hint=f"Its name ends in {' or '.join(endings)}.",
        )


def load_unchanged(sheet: Sheet, hint: str) -> Source:
    """The sheet's file. Raises SheetError where it has changed since it was read."""
    source = load(Path(sheet.source), sheet.encoding or None)
    if source.digest != sheet.digest:
        raise SheetError(f"{source.path}: the file has changed since it was read", hint=hint)
    return source


def apart(path: Path, source: Source) -> None:
    """Raise SheetError where `path` is the sheet itself."""
    is_same = lexists(path) and path.exists() and path.samefile(source.path)
    if is_same or path.resolve() == source.path.resolve():
        raise SheetError(f"{path}: this is the sheet itself", hint="Give the copy another name.")


def sidecar_lines(source: Source) -> list[str] | None:
    """The lines of the file's sidecar, None where there is none. They are taken as they are: what
    is refused there is refused in a copy too.
    """
    if source.kind != "text":
        return None
    try:
        return content(beside(source.path)).decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError:
        return [_UNREADABLE]


# write_results: a copy of the user's own sheet that tells what became of each row.


_AGREES = "the store agrees already"
_IGNORED = "ignored, as its action says"


def write_results(sheet: Sheet, results: Results, path: str | Path, *, follow: bool = True) -> None:
    """Write to `path` a copy of the sheet's file with the columns of RESULTS filled in.

    `results` is a run's report, or a DataFrame indexed by row number with the columns `outcome`,
    `message` and `assigned_id`; the sheet's blocked rows are told by their findings. An id
    cell gets the assigned id, a blank one also that of the pet that the row was recognised as,
    unless another row names that id; and an `add` that has its pet becomes `merge`, so that the
    copy can be read and applied again; for that the base that the sheet carries goes with it, and
    says of each row that a report calls applied what the row says. Cells that the sheet has
    corrected are so here, but for those with a formula on which others hang. Of a workbook all else
    stays as it is (its macros if the copy is an `.xlsm` too), of a CSV file every other byte.

    Without `follow`, for a path that no person named, a symbolic link at `path` is an error, and
    not the way to another file. Raises SheetError where the file has changed since it was read,
    cannot be written, or what is given is no sheet, no results or no path.
    """
    sheet, results, path = as_sheet(sheet), as_results(results), as_path(path)
    source = load_unchanged(sheet, "What became of each row is in the report.")
    apart(path, source)
    fitting(path, source)
    write_file(path, source, *with_results(source, sheet, results, path.suffix), follow=follow)


def with_results(
    source: Source, sheet: Sheet, results: Results, suffix: str = "", *, only_ids: bool = False
) -> tuple[bytes, list[str] | None]:
    """The file's bytes with the results, and of a CSV file the lines of its sidecar if it has one.

    A workbook becomes of the kind that a suffix tells. With `only_ids` no column of results is
    made or filled.
    """
    of_one_sheet(sheet, results)
    base = advance_base(sheet, results) if isinstance(results, Report) else None
    edits = _result_edits(
        sheet, _by_row(results, sheet) if isinstance(results, Report) else results
    )
    lines = None if base is None else [notice(base), *base.to_lines()]
    edits = _ids_alone(edits) if only_ids else _rename_results(edits, sheet.columns)
    for each in sheet.corrections:
        # What the row gets of the run comes first: an id, or another action.
        edits.setdefault(each.row, {}).setdefault(each.column, each.after)
    new = _new_columns(sheet.columns, edits)
    if source.kind == "text":
        # What only CSV needs is loaded for CSV.
        from petsync.sheets.csv import edit_csv

        return edit_csv(source, sheet, edits, new), lines or sidecar_lines(source)
    from petsync.sheets.xlsx.edit import patch_workbook

    over = {(each.row, each.column) for each in sheet.corrections}
    return patch_workbook(source, sheet, edits, new, lines=lines, suffix=suffix, over=over), None


def write_file(
    path: Path, source: Source, data: bytes, lines: list[str] | None, *, follow: bool = True
) -> None:
    """Put the file there, with its sidecar where it is CSV. Raises SheetError."""
    if source.kind == "text":
        write_with(path, _content(source, data), lines, follow=follow, like=source.path)
    else:
        _files.replace_sheet_file(path, data, follow=follow, like=source.path)


def _content(source: Source, data: bytes) -> bytes:
    """The bytes of the file."""
    return source.encode(data) if source.kind == "text" else data


def _by_row(report: Report, sheet: Sheet) -> pd.DataFrame:
    """outcome, message, assigned_id and recognised (the pet of a row that has no id), indexed by
    row; rows that were no change are unchanged, and blocked ones are left out: their findings tell
    more.
    """
    plan, ignored = report.plan, sheet.rows.index[sheet.rows["action"] == "ignore"]
    results = msgspec.structs.replace(report, results=tuple(report.by_row().values())).to_frame()
    results = results.set_index("row").drop(index=list(sheet.blocked), errors="ignore")
    rows = sheet.rows.index.union(results.index)
    said = results[["outcome", "message", "assigned_id"]].reindex(rows)
    quiet = said["outcome"].isna()
    said.loc[quiet, "outcome"] = "unchanged"
    said.loc[quiet, "message"] = _AGREES
    said.loc[quiet & rows.isin(ignored), "message"] = _IGNORED
    for each in lagging(plan):
        said.loc[quiet & rows.isin(each.rows), "message"] = each.message
    recognised = pd.Series(plan.recognised, dtype="Int64").reindex(rows)
    said["recognised"] = recognised.where(said["outcome"].isin(("applied", "unchanged")))
    return said


def _result_edits(sheet: Sheet, results: pd.DataFrame) -> dict[int, dict[str, str]]:
    rows = [*sheet.rows.index.tolist(), *sheet.blocked]
    repeats = {each.row: each.problem for each in sheet.problems if each.rule == "duplicate-row"}
    # Blank first: the sheet may carry what became of its rows in an earlier run.
    edits = {row: {**dict.fromkeys(RESULTS, ""), "row": str(row)} for row in (*rows, *repeats)}
    for row, same in repeats.items():
        edits[row] |= {"outcome": "unchanged", "message": same}
    for problem in sheet.problems:
        if problem.severity == "error" and problem.row in edits:
            blocked = edits[problem.row]
            before = f"{blocked['message']}; " if blocked["outcome"] == "needs fixing" else ""
            said = f"{problem.address}: {problem.problem} {problem.suggestion}".rstrip()
            blocked |= {"outcome": "needs fixing", "message": before + said}
    adds = set(sheet.rows.index[sheet.rows["action"].isin(ADDING)])
    ids = sheet.rows["id"].dropna().to_dict() if "id" in sheet.rows else {}
    named = named_ids(sheet)
    for result in results.itertuples():
        row = int(str(result.Index))
        edit = _describe_result(result, is_add=row in adds, own=ids.get(row))
        if int(edit.get("id", 0)) in named:
            del edit["id"]
            if edit["outcome"] != "applied":
                edit.pop(ACTION, None)
        edits.setdefault(row, {"row": str(row)}).update(edit)
    return edits


def _describe_result(result: object, *, is_add: bool, own: int | None) -> dict[str, str]:
    """The cells of a row's results, of which `own` is the id that it gives."""
    said = {name: _format_field(result, name) for name in ("outcome", "message", "assigned_id")}
    recognised = _format_field(result, "recognised")
    if recognised:
        before = "" if said["message"] in ("", _AGREES) else f"; {said['message']}"
        said["message"] = f"recognised as pet {recognised}{before}"
    # Without its id the row would be another pet as soon as somebody edits it; and under an id that
    # the service has exchanged for one of its own it would add the pet again.
    pet_id = said["assigned_id"] or ("" if own is not None else recognised)
    if pet_id and pet_id != str(own):
        said["id"] = pet_id
    has_pet = said["outcome"] == "applied" or "id" in said
    return {**said, "action": "merge"} if is_add and has_pet else said


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


def _rename_results(
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


def _format_field(result: object, name: str) -> str:
    value = getattr(result, name, None)
    if value is None or value is pd.NA or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)


# Files of a person that are replaced: with a backup, and never what nobody else has.


_NO_EXPORT = "it is no export of petsync"
_INSTEAD = "What became of each row is in the report; write_results puts it into a copy."


def must_take_results(sheet: Sheet) -> None:
    """Raise SheetError where `write_back` could not write the sheet's file as things are now:
    it is open in a program, read-only, in a folder that takes no backup, or not as it was read.
    """
    must_be_writable(as_sheet(sheet), _INSTEAD)


def must_be_writable(sheet: Sheet, hint: str) -> None:
    """Raise SheetError where the sheet's file cannot be replaced as things are now; the hint is
    for one that is not as it was read.
    """
    path = Path(sheet.source)
    must_be_closed(path)
    load_unchanged(sheet, hint)
    file = path.resolve()
    is_writable = bool(file.stat().st_mode & 0o222) and os.access(file, os.W_OK)
    if not is_writable:
        raise SheetError(
            f"{path}: the file is read-only", hint="Allow writing it, or have a copy written."
        )
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise SheetError(
            f"{path}: no backup can be kept in the folder {file.parent}, which is read-only",
            hint="Move the sheet to a folder of your own, or have a copy written.",
        )


def write_back(
    sheet: Sheet,
    results: Results,
    *,
    moment: dt.datetime | None = None,
    only_ids: bool = False,
) -> Path:
    """Write the results into the sheet's own file, as `write_results` writes them into a copy. With
    `only_ids`, write no result columns but only the ids, and `merge` for an `add` that has its pet.

    Return the path of the backup: the file as it was, beside it, with the `moment` in its name, by
    default now in UTC (`catalogue.backup-20261121-103000.xlsx`); no earlier backup is replaced. The
    sidecar of a CSV file gets a backup too. The file is replaced in one step: after an
    interruption, either the old or the new file is there, complete, and the backup before the new
    one. Links are followed and stay.

    Raises SheetError, and changes nothing, if the file has changed since it was read, is open in
    Excel or LibreOffice, or cannot be written.
    """
    return write_noted(sheet, results, moment=moment, only_ids=only_ids)


def write_noted(
    sheet: Sheet,
    results: Results,
    *,
    moment: dt.datetime | None = None,
    only_ids: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Path:
    """As `write_back`; `note` gets the SHA-256 of the new file before that is put there."""
    results = as_results(results)
    must_take_results(sheet)
    source = load_unchanged(sheet, _INSTEAD)
    data, lines = with_results(source, sheet, results, only_ids=only_ids)
    backup = create_backup(source.path.resolve(), source.content, moment or dt.datetime.now(dt.UTC))
    note(hashlib.sha256(_content(source, data)).hexdigest())
    # Whoever saved the sheet in the meantime keeps what they wrote.
    must_be_closed(source.path)
    load_unchanged(sheet, _INSTEAD)
    write_file(source.path, source, data, lines)
    return backup


def must_be_replaceable(path: Path, *, force: str = "force=True") -> None:
    """Raise SheetError where an export to `path` would replace what only that file may hold: it
    was edited since its export, is no export, or is open in a program. `force` is what the caller
    can say to replace it all the same.
    """
    _read_replaceable(path, force)


def _read_replaceable(path: Path, force: str = "force=True") -> Sheet | None:
    """The sheet that an export may replace; None where there is none. Raises SheetError as
    `must_be_replaceable`.
    """
    if not _has_content(path):
        return None
    must_be_closed(path)
    sheet = None
    is_export = _NO_SHEETS.get(path.suffix.casefold())
    if is_export is not None:
        why = "" if is_export(path) else _NO_EXPORT
    else:
        try:
            sheet = read_sheet(path)
        except SheetError:
            why = _NO_EXPORT
        else:
            why = _edits_of_export(sheet)
    if why:
        raise SheetError(
            f"{path} was left alone: {why}",
            hint="Give the export another name. To replace the file all the same, use "
            f"{force}; a backup of it is kept then.",
        )
    return sheet


def make_way(path: Path, data: bytes, *, force: bool = False) -> Path | None:
    """The backup of the file that `data` is about to replace; None where none is needed: no file is
    there, it has the same contents, or it is an export that nobody edited.

    Raises SheetError as `must_be_replaceable`, unless `force`.
    """
    sheet = None if force else _read_replaceable(path)
    if not _has_content(path):
        return None
    file = path.resolve()
    before = file.read_bytes()
    if _is_same(before, data) or not (force or _is_unsure(path, sheet)):
        return None
    return create_backup(file, before, dt.datetime.now(dt.UTC))


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        # Such a name no file can have: writing it says so.
        return False


def _edits_of_export(sheet: Sheet) -> str:
    """Why the sheet is not what petsync exported, as a clause; "" where it is."""
    if sheet.base_refused and not sheet.base_refused.endswith(INTERRUPTED):
        return sheet.base_refused
    if sheet.base is None:
        return "" if _is_plain_export(sheet) else _NO_EXPORT
    edits = [*_edited_places(sheet, sheet.base)]
    more = f" and {len(edits) - 3:,} more" if len(edits) > 3 else ""
    return f"it was edited since its export: {', '.join(edits[:3])}{more}" if edits else ""


def _edited_places(sheet: Sheet, base: Base) -> Iterator[str]:
    """Where a sheet says something else than its base, column by column."""
    frame = sheet.rows
    yield from (f"a column {name}" for name in sheet.others.columns)
    yield from (f"no column {name}" for name in COLUMNS if name not in frame)
    yield from (f"a worksheet {tab}" for tab in sheet.tabs if tab != GUIDE)
    yield from (sheet.address(row) for row in sheet.blocked)
    asked = frame.index[(frame["action"] != "merge").to_numpy(dtype=bool)]
    yield from (sheet.address(row, "action") for row in asked)
    if "id" not in frame:
        return
    places = match.positions(frame["id"], base.frame)
    yield from (sheet.address(row) for row in frame.index[places < 0])
    rows = len(set(places[places >= 0].tolist())) + len(sheet.blocked)
    if rows < len(base):
        yield f"{len(base) - rows:,} rows fewer"
    at = np.flatnonzero(places >= 0)
    differences = match.differences(frame, at, base.frame, places[at])
    masks: dict[str, match.Mask] = {str(unit): mask for unit, mask in differences.items()}
    for column in COLUMNS[1:]:
        if column in frame:
            was_blank = _is_blank(base.frame[column].iloc[places[at]])
            edited = _is_blank(frame[column].iloc[at]) & ~was_blank
            if column in masks:
                edited |= masks[column]
            yield from (sheet.address(row, column) for row in frame.index[at[edited]])


def _is_blank(values: pd.Series[Any]) -> match.Mask:
    """Which values an export shows as a blank cell."""
    texts = (value if isinstance(value, list) else normal(str(value)) for value in values)
    result: match.Mask = np.array([not text for text in texts], dtype=bool)
    return result | values.isna().to_numpy(dtype=bool)


def _is_plain_export(sheet: Sheet) -> bool:
    """Whether a sheet that carries no base has just the columns of an export."""
    return set(sheet.columns) == set(OUT)


def _is_same(before: bytes, data: bytes) -> bool:
    """Whether both are the same file: of workbooks that petsync wrote, the time may differ."""
    files = io.BytesIO(before), io.BytesIO(data)
    if before == data or not all(map(zipfile.is_zipfile, files)):
        return before == data
    # openpyxl is loaded for a workbook.
    from petsync.sheets.xlsx.write import is_sealed, seal

    with zipfile.ZipFile(files[0]) as old, zipfile.ZipFile(files[1]) as new:
        return is_sealed(old) and seal(old) == seal(new)


def _is_unsure(path: Path, sheet: Sheet | None) -> bool:
    """Whether the file, read as `sheet`, may hold what its contents do not show: an export without
    a base, in which no edit can be told, and a workbook that another program has saved.
    """
    if sheet is None or sheet.base is None:
        return True
    if not zipfile.is_zipfile(path):
        return False
    # openpyxl is loaded for a workbook.
    from petsync.sheets.xlsx.write import is_sealed

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
    # What reads Parquet is loaded for Parquet.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    return bool(names) and set(names) <= {*COLUMNS, EXTRA}


_NO_SHEETS = {
    ".json": _are_pets,
    ".jsonl": _are_pets_by_line,
    ".parquet": _is_table_of_pets,
}


def create_backup(file: Path, data: bytes, moment: dt.datetime) -> Path:
    """The path of a backup of the file and of its sidecar, both whole on the disk, beside it under
    its name and the moment; no earlier one is replaced.
    """
    sidecar = beside(file)
    for again in count(1):
        number = f"-{again}" if again > 1 else ""
        name = f"{file.stem}.backup-{moment:%Y%m%d-%H%M%S}{number}{file.suffix}"
        backup = file.with_name(name)
        if not lexists(beside(backup)) and _files.create_sheet_file(backup, data, like=file):
            break
    if sidecar.is_file() and not sidecar.is_symlink():
        _files.create_sheet_file(beside(backup), sidecar.read_bytes(), like=sidecar)
    return backup
