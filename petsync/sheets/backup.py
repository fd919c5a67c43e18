"""write_back: the results in the user's own file, with a backup of it as it was."""

from __future__ import annotations

import datetime as dt
import os
from itertools import count
from pathlib import Path

from petsync.errors import SheetError
from petsync.sheets import atomic
from petsync.sheets.copies import Results, as_results, as_sheet, unchanged
from petsync.sheets.delimited.sidecar import beside
from petsync.sheets.locks import must_be_closed
from petsync.sheets.results import put, told
from petsync.table.sheet import Sheet

__all__ = ["kept", "must_be_writable", "must_take_results", "write_back"]

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


def write_back(sheet: Sheet, results: Results, *, moment: dt.datetime | None = None) -> Path:
    """Put the results into the sheet's own file, as `write_results` puts them into a copy.

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
    data, lines = told(source, sheet, results)
    backup = kept(source.path.resolve(), source.data, moment or dt.datetime.now(dt.UTC))
    # Whoever saved the sheet in the meantime keeps what they wrote.
    must_be_closed(source.path)
    unchanged(sheet, _INSTEAD)
    put(source.path, source, data, lines)
    return backup


def kept(file: Path, data: bytes, moment: dt.datetime) -> Path:
    """The path of a backup of the file and of its sidecar, both whole on the disk, beside it under
    its name and the moment; no earlier one is replaced.
    """
    sidecar = beside(file)
    for again in count(1):
        number = f"-{again}" if again > 1 else ""
        name = f"{file.stem}.backup-{moment:%Y%m%d-%H%M%S}{number}{file.suffix}"
        backup = file.with_name(name)
        if not beside(backup).exists() and atomic.create(backup, data, like=file):
            break
    if sidecar.is_file():
        atomic.create(beside(backup), sidecar.read_bytes(), like=sidecar)
    return backup
