"""write_synced: what the store says, in a person's own sheet, with a backup of it as it was."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from petsync.errors import SheetError
from petsync.sheets.agreement import must_agree
from petsync.sheets.backup import kept, must_be_writable
from petsync.sheets.base import TAB, notice
from petsync.sheets.copies import as_sheet, sidecar_lines, unchanged
from petsync.sheets.edits import Obstacle, SheetEdits
from petsync.sheets.locks import must_be_closed
from petsync.sheets.results import put
from petsync.sheets.source import Source
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["must_take_edits", "obstacles", "write_synced"]

_AGAIN = "Nothing was written. Read it again, or let the next round do it."
_LONGEST = {"workbook": 32_767, "text": 131_072}
_UNREAL = re.compile("[\0\ud800-\udfff]")


def must_take_edits(sheet: Sheet) -> None:
    """Raise SheetError where `write_synced` could not write the sheet's file as things are now: it
    is open in a program, read-only, in a folder that takes no backup, or not as it was read.
    """
    must_be_writable(as_sheet(sheet), _AGAIN)


def obstacles(sheet: Sheet, edits: SheetEdits) -> tuple[Obstacle, ...]:
    """Those of the edits that cannot be written, and why: a cell that is calculated by a formula, a
    text that no file of the kind can hold, a table that ends with its totals. `edits.without(…)`
    gives the rest. Raises SheetError where the file has changed since it was read.
    """
    source = unchanged(as_sheet(sheet), _AGAIN)
    if source.kind == "workbook":
        # What only workbooks need is loaded for workbooks.
        from petsync.sheets.ooxml.amend import is_free

        if not is_free(source, sheet):
            return _made(source, sheet, edits, None)[1]
    return tuple(_unwritable(source, sheet, edits))


def write_synced(
    sheet: Sheet,
    edits: SheetEdits,
    *,
    base: Base | None = None,
    moment: dt.datetime | None = None,
) -> Path:
    """Put the edits into the sheet's own file; the path of the backup, as `write_back` keeps one.

    Everything else stays: of a workbook each other cell, formula and format, of a CSV file each
    byte of the other records. Rows that are added look like the last one, with people's own columns
    blank, and tables, filters and drop-downs reach over them; a row that is taken out leaves
    blank cells in a workbook, and nothing in a CSV file. Columns that the sheet lacks are passed
    over, but the id is made where a row gets one. `base` takes the place of the one that the
    file carries, if it carries one.

    What was made is read before it is written. Raises SheetError, and changes nothing, where
    another cell would read otherwise than before, an edit cannot be made (`obstacles` tells which),
    the file has changed since it was read, is open in a program, or cannot be written.
    """
    must_take_edits(sheet)
    source = unchanged(sheet, _AGAIN)
    data, held = _made(source, sheet, edits, base)
    if held:
        more = f", and {len(held) - 1:,} more" if len(held) > 1 else ""
        raise SheetError(
            f"{source.path}: {held[0]}{more}", hint=f"Nothing was written. {held[0].suggestion}"
        )
    must_agree(source, replace(source, data=data), sheet, edits)
    backup = kept(source.path.resolve(), source.content, moment or dt.datetime.now(dt.UTC))
    # Whoever saved the sheet in the meantime keeps what they wrote.
    must_be_closed(source.path)
    unchanged(sheet, _AGAIN)
    put(source.path, source, data, _sidecar(source, base))
    return backup


def _made(
    source: Source, sheet: Sheet, edits: SheetEdits, base: Base | None
) -> tuple[bytes, tuple[Obstacle, ...]]:
    """The file as it is to be, and the edits that are not in it."""
    _must_be_there(sheet, edits)
    held = tuple(_unwritable(source, sheet, edits))
    if source.kind == "workbook":
        # What only workbooks need is loaded for workbooks.
        from petsync.sheets.ooxml.amend import amended

        lines = _lines(base) if base is not None and _carries(source) else None
        data, more = amended(source, sheet, edits.without(held), lines=lines)
        return data, (*held, *more)
    from petsync.sheets.delimited.script import extended

    rest = edits.without(held)
    new = ["id"] if "id" not in sheet.columns and _gives_id(rest) else []
    cells, added = rest.cells, rest.added
    return extended(source, sheet, cells, new, added=added, removed=rest.removed), held


def _must_be_there(sheet: Sheet, edits: SheetEdits) -> None:
    there = {*sheet.frame.index.tolist(), *sheet.blocked}
    lost = sorted({*edits.cells, *edits.removed} - there)
    if lost:
        raise SheetError(
            f"{sheet.source}: there is no row {lost[0]} of a pet that could be written",
            hint="Give the numbers of rows of the sheet as it was read.",
        )


def _unwritable(source: Source, sheet: Sheet, edits: SheetEdits) -> Iterator[Obstacle]:
    """What no file of the kind can hold."""
    most = _LONGEST[source.kind]
    for row, name, text in _texts(edits):
        why = _why_not(text, most)
        if why:
            place = f"new row {-row}, {name}" if row < 0 else sheet.address(row, name)
            yield Obstacle(row=row, column=name, address=place, problem=why)


def _texts(edits: SheetEdits) -> Iterator[tuple[int, str, str]]:
    new = {-n: texts for n, texts in enumerate(edits.added, 1)}
    for row, texts in {**edits.cells, **new}.items():
        for name, text in texts.items():
            yield row, name, text


def _why_not(text: str, most: int) -> str:
    if _UNREAL.search(text):
        return "the store's text has a character that no sheet can hold"
    if len(text) > most // 2 and len(text.encode("utf-16-le")) // 2 > most:
        return f"the store's text has more than the {most:,} characters that a cell can hold"
    return ""


def _gives_id(edits: SheetEdits) -> bool:
    return bool(edits.added) or any("id" in texts for texts in edits.cells.values())


def _carries(source: Source) -> bool:
    # calamine is loaded when a workbook is read.
    from petsync.sheets.ooxml.archive import Package

    return any(tab.name == TAB for tab in Package(source).tabs)


def _lines(base: Base) -> list[str]:
    return [notice(base), *base.to_lines()]


def _sidecar(source: Source, base: Base | None) -> list[str] | None:
    lines = sidecar_lines(source)
    return lines if lines is None or base is None else _lines(base)
