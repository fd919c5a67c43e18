"""Files of a person that are replaced: with a backup, and never what nobody else has."""

from __future__ import annotations

import datetime as dt
import os
import zipfile
from collections.abc import Iterator
from itertools import count
from os.path import lexists
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.fields import normal
from petsync.errors import ResponseError, SheetError
from petsync.sheets import atomic
from petsync.sheets.copies import Results, as_results, as_sheet, unchanged
from petsync.sheets.delimited.sidecar import INTERRUPTED, beside
from petsync.sheets.export.contents import GUIDE
from petsync.sheets.export.text import OUT
from petsync.sheets.locks import must_be_closed
from petsync.sheets.read import read_sheet
from petsync.sheets.results import put, told
from petsync.table.base import Base
from petsync.table.columns import COLUMNS
from petsync.table.frame import EXTRA
from petsync.table.sheet import Sheet
from petsync.wire.json import decode_pet, decode_pets

__all__ = [
    "kept",
    "make_way",
    "must_be_replaceable",
    "must_be_writable",
    "must_take_results",
    "write_back",
]

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
    unchanged(sheet, hint)
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
    """Put the results into the sheet's own file, as `write_results` puts them into a copy; with
    `only_ids` no columns of results, but the ids alone, and `merge` for an `add` that was applied.

    The path of the backup is returned: the file as it was, beside it under the name and the
    `moment`, by default now in UTC (`catalogue.backup-20261121-103000.xlsx`; no earlier backup is
    ever replaced), and so the sidecar of a CSV file. The file is replaced in one step: whenever
    it is interrupted, the old one or the new one is there, whole, and the backup before the new
    one. Links are followed and stay.

    Raises SheetError, and changes nothing, where the file has changed since it was read, is open
    in Excel or LibreOffice, or cannot be written.
    """
    results = as_results(results)
    must_take_results(sheet)
    source = unchanged(sheet, _INSTEAD)
    data, lines = told(source, sheet, results, only_ids=only_ids)
    backup = kept(source.path.resolve(), source.content, moment or dt.datetime.now(dt.UTC))
    # Whoever saved the sheet in the meantime keeps what they wrote.
    must_be_closed(source.path)
    unchanged(sheet, _INSTEAD)
    put(source.path, source, data, lines)
    return backup


def must_be_replaceable(path: Path, *, force: str = "force=True") -> None:
    """Raise SheetError where an export to `path` would replace what only that file may hold: it
    was edited since its export, is no export, or is open in a program. `force` is what the caller
    can say to replace it all the same.
    """
    if _has_content(path):
        must_be_closed(path)
        why = _edits(path)
        if why:
            raise SheetError(
                f"{path} was left alone: {why}",
                hint="Give the export another name. To replace the file all the same, use "
                f"{force}; a backup of it is kept then.",
            )


def make_way(path: Path, data: bytes, *, force: bool = False) -> Path | None:
    """The backup of the file that `data` is about to replace; None where none is needed: no file is
    there, it has the same bytes, or it is an export that nobody edited.

    Raises SheetError as `must_be_replaceable`, unless `force`.
    """
    if not force:
        must_be_replaceable(path)
    if not _has_content(path):
        return None
    file = path.resolve()
    before = file.read_bytes()
    if before == data or not (force or _is_unsure(path)):
        return None
    return kept(file, before, dt.datetime.now(dt.UTC))


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        # Such a name no file can have: writing it says so.
        return False


def _edits(path: Path) -> str:
    """Why the file is not what petsync exported, as a clause; "" where it is."""
    kind = _NO_SHEETS.get(path.suffix.casefold())
    if kind is not None:
        return "" if kind(path) else "it is no export of petsync"
    try:
        sheet = read_sheet(path)
    except SheetError:
        return "it is no export of petsync"
    if sheet.base_refused and not sheet.base_refused.endswith(INTERRUPTED):
        return sheet.base_refused
    if sheet.base is None:
        return "" if _is_plain_export(sheet) else "it is no export of petsync"
    edits = [*_edited_places(sheet, sheet.base)]
    more = f" and {len(edits) - 3:,} more" if len(edits) > 3 else ""
    return f"it was edited since its export: {', '.join(edits[:3])}{more}" if edits else ""


def _edited_places(sheet: Sheet, base: Base) -> Iterator[str]:
    """Where a sheet says something else than its base, column by column."""
    frame = sheet.frame
    yield from (f"a column {name}" for name in sheet.others.columns)
    yield from (f"no column {name}" for name in COLUMNS if name not in frame)
    yield from (f"a worksheet {tab}" for tab in sheet.tabs if tab != GUIDE)
    yield from (sheet.address(row) for row in sheet.blocked)
    asked = frame.index[(frame["action"] != "merge").to_numpy(dtype=bool)]
    yield from (sheet.address(row, "action") for row in asked)
    if "id" not in frame:
        return
    places = align.positions(frame["id"], base.frame)
    yield from (sheet.address(row) for row in frame.index[places < 0])
    rows = len(set(places[places >= 0].tolist())) + len(sheet.blocked)
    if rows < len(base):
        yield f"{len(base) - rows:,} rows fewer"
    at = np.flatnonzero(places >= 0)
    differences = align.differences(frame, at, base.frame, places[at])
    masks: dict[str, align.Mask] = {str(unit): mask for unit, mask in differences.items()}
    for column in COLUMNS[1:]:
        if column in frame:
            was_blank = _is_blank(base.frame[column].iloc[places[at]])
            edited = _is_blank(frame[column].iloc[at]) & ~was_blank
            if column in masks:
                edited |= masks[column]
            yield from (sheet.address(row, column) for row in frame.index[at[edited]])


def _is_blank(values: pd.Series[Any]) -> align.Mask:
    """Which values an export shows as a blank cell."""
    texts = (value if isinstance(value, list) else normal(str(value)) for value in values)
    result: align.Mask = np.array([not text for text in texts], dtype=bool)
    return result | values.isna().to_numpy(dtype=bool)


def _is_plain_export(sheet: Sheet) -> bool:
    """Whether a sheet that carries no base has just the columns of an export."""
    return set(sheet.columns) == set(OUT)


def _is_unsure(path: Path) -> bool:
    """Whether the file may hold what its contents do not show: an export without a base, in which
    no edit can be told, and a workbook that another program has saved.
    """
    if path.suffix.casefold() in _NO_SHEETS or read_sheet(path).base is None:
        return True
    if not zipfile.is_zipfile(path):
        return False
    # openpyxl is loaded for a workbook.
    from petsync.sheets.export.workbook import is_sealed

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


def kept(file: Path, data: bytes, moment: dt.datetime) -> Path:
    """The path of a backup of the file and of its sidecar, both whole on the disk, beside it under
    its name and the moment; no earlier one is replaced.
    """
    sidecar = beside(file)
    for again in count(1):
        number = f"-{again}" if again > 1 else ""
        name = f"{file.stem}.backup-{moment:%Y%m%d-%H%M%S}{number}{file.suffix}"
        backup = file.with_name(name)
        if not lexists(beside(backup)) and atomic.create(backup, data, like=file):
            break
    if sidecar.is_file() and not sidecar.is_symlink():
        atomic.create(beside(backup), sidecar.read_bytes(), like=sidecar)
    return backup
