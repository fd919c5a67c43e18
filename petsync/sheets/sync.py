"""Write what sheet and store agreed on into the sheet, or keep it until the file is free."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync._files import write_private
from petsync.errors import PlanError, SheetError
from petsync.plan.plan import Inbound
from petsync.sheets.base import TAB, notice
from petsync.sheets.edits import Obstacle, SheetEdits
from petsync.sheets.files import Source, must_be_closed
from petsync.sheets.grid import Bools, CellKind, Cells, Grid
from petsync.sheets.read import read_grid
from petsync.sheets.results import (
    as_sheet,
    create_backup,
    load_unchanged,
    must_be_writable,
    sidecar_lines,
    write_file,
)
from petsync.table.base import Base
from petsync.table.sheet import Sheet, cell_address

__all__ = ["load_edits", "must_agree", "must_take_edits", "obstacles", "save_edits", "write_synced"]


# Whether a file with edits reads as before but for what was edited.


_EDITED = (CellKind.TEXT, CellKind.NUMBER)


def must_agree(source: Source, copy: Source, sheet: Sheet, edits: SheetEdits) -> None:
    """Raise SheetError where in the `copy` of the file an edited cell does not read as told, or
    another one not as before.
    """
    tab = sheet.tab or None
    before, after = (read_grid(each, tab, sheet.mapping) for each in (source, copy))
    where = _Sides(before, after, sheet, edits).difference()
    if where is not None:
        raise SheetError(
            f"{source.path}: with what the store says in its cells the file would be read "
            f"otherwise{where}",
            hint="Nothing was written. Write it into the sheet by hand, in its own program.",
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    """The file before and after; `edits` are those that the second one has."""

    before: Grid
    after: Grid
    sheet: Sheet
    edits: SheetEdits

    def difference(self) -> str | None:
        """Where it is, None where there is none."""
        kept = np.flatnonzero(~np.isin(self.before.rows, list(self.edits.removed)))
        header = [*self.before.header, *self._new_columns()]
        if list(self.after.header) != header:
            return ": its header"
        if len(self.after.rows) != len(kept) + len(self.edits.added):
            return ": it would have other rows"
        if self._faults(kept) != {at: fault.rule for at, fault in self.after.faults.items()}:
            return ": a row could not be taken apart"
        numbers = self.before.rows[kept]
        for column, name in enumerate(self._names()):
            at = self._differing(column, name, kept, numbers)
            if at is not None:
                place = self.after.places[column]
                row = int(self.after.rows[at])
                return f": {cell_address(self.after.tab, place, row)}"
        return None

    def _new_columns(self) -> list[str]:
        more = len(self.after.header) - len(self.before.header)
        return ["id"] if more and "id" not in self.sheet.columns else []

    def _names(self) -> Iterator[str]:
        """The columns by the names that edits give them, "" where none does."""
        by_place = {place: name for name, place in self.sheet.columns.items()}
        yield from (by_place.get(place, "") for place in self.before.places)
        yield from self._new_columns()

    def _faults(self, kept: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Mapping[int, str]:
        return {
            n: self.before.faults[at].rule
            for n, at in enumerate(kept.tolist() if self.before.faults else ())
            if at in self.before.faults
        }

    def _differing(
        self,
        column: int,
        name: str,
        kept: np.ndarray[tuple[int], np.dtype[np.intp]],
        numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> int | None:
        """The position of a cell of the column that does not read as it is meant to."""
        own = self.before.columns[column] if column < len(self.before.columns) else None
        blank = pa.array([""] * len(kept), pa.large_string())
        texts = blank if own is None else own.text.take(pa.array(kept))
        edited, new = self._find_edited(name, numbers)
        texts = pc.replace_with_mask(texts, pa.array(edited), pa.array(new, pa.large_string()))
        added = [each.get(name, "") if name else "" for each in self.edits.added]
        meant = pa.concat_arrays([texts, pa.array(added, pa.large_string())])
        seen = self.after.columns[column]
        kinds = (
            np.full(len(kept), CellKind.TEXT, dtype=np.int8) if own is None else _kinds(own)[kept]
        )
        is_free = np.concatenate([edited, np.ones(len(added), dtype=bool)])
        wrong = _other_kind(_kinds(seen), kinds, is_free)
        wrong |= np.asarray(pc.not_equal(meant, seen.text))
        places = np.flatnonzero(wrong)
        return int(places[0]) if len(places) else None

    def _find_edited(
        self, name: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> tuple[Bools, Sequence[str]]:
        """Which of the rows have the column edited, and their texts in the rows' order."""
        cells = self.edits.cells
        told = {row: texts[name] for row, texts in cells.items() if name and name in texts}
        mask = np.isin(numbers, list(told))
        return mask, [told[row] for row in numbers[mask].tolist()]


def _other_kind(
    seen: np.ndarray[tuple[int], np.dtype[np.int8]],
    meant: np.ndarray[tuple[int], np.dtype[np.int8]],
    is_free: Bools,
) -> Bools:
    same = np.zeros(len(seen), dtype=bool)
    same[: len(meant)] = seen[: len(meant)] == meant
    return np.asarray(np.where(is_free, ~np.isin(seen, _EDITED), ~same))


def _kinds(cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.full(len(cells), CellKind.TEXT, dtype=np.int8) if cells.kinds is None else cells.kinds


# write_synced: what the store says, in a person's own sheet, with a backup of it as it was.


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
    source = load_unchanged(as_sheet(sheet), _AGAIN)
    if source.kind == "workbook":
        # What only workbooks need is loaded for workbooks.
        from petsync.sheets.xlsx.edit import is_free

        if not is_free(source, sheet):
            return _build_file(source, sheet, edits, None)[1]
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
    source = load_unchanged(sheet, _AGAIN)
    data, held = _build_file(source, sheet, edits, base)
    if held:
        more = f", and {len(held) - 1:,} more" if len(held) > 1 else ""
        raise SheetError(
            f"{source.path}: {held[0]}{more}", hint=f"Nothing was written. {held[0].suggestion}"
        )
    must_agree(source, replace(source, data=data), sheet, edits)
    backup = create_backup(source.path.resolve(), source.content, moment or dt.datetime.now(dt.UTC))
    # Whoever saved the sheet in the meantime keeps what they wrote.
    must_be_closed(source.path)
    load_unchanged(sheet, _AGAIN)
    write_file(source.path, source, data, _sidecar(source, base))
    return backup


def _build_file(
    source: Source, sheet: Sheet, edits: SheetEdits, base: Base | None
) -> tuple[bytes, tuple[Obstacle, ...]]:
    """The file as it is to be, and the edits that are not in it."""
    _must_be_there(sheet, edits)
    held = tuple(_unwritable(source, sheet, edits))
    if source.kind == "workbook":
        # What only workbooks need is loaded for workbooks.
        from petsync.sheets.xlsx.edit import amend_workbook

        lines = _lines(base) if base is not None and _carries(source) else None
        data, more = amend_workbook(source, sheet, edits.without(held), lines=lines)
        return data, (*held, *more)
    from petsync.sheets.csv import edit_csv

    rest = edits.without(held)
    new = ["id"] if "id" not in sheet.columns and _gives_id(rest) else []
    cells, added = rest.cells, rest.added
    return edit_csv(source, sheet, cells, new, added=added, removed=rest.removed), held


def _must_be_there(sheet: Sheet, edits: SheetEdits) -> None:
    there = {*sheet.rows.index.tolist(), *sheet.blocked}
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
    from petsync.sheets.xlsx.package import Package

    return any(tab.name == TAB for tab in Package(source).tabs)


def _lines(base: Base) -> list[str]:
    return [notice(base), *base.to_lines()]


def _sidecar(source: Source, base: Base | None) -> list[str] | None:
    lines = sidecar_lines(source)
    return lines if lines is None or base is None else _lines(base)


# What a sheet is to take, as a file: JSON for its owner alone, written whole or not at all.


def save_edits(inbound: Inbound, path: str | Path) -> Path:
    """The path of the file, of mode 0600. Raises PlanError where it cannot be written."""
    try:
        write_private(Path(path), inbound.to_json())
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from None
    return Path(path)


def load_edits(path: str | Path) -> Inbound:
    """What a file of `save_edits` holds. Raises PlanError where there is none, or it was changed by
    hand.
    """
    source = Path(path)
    try:
        return Inbound.from_json(source.read_bytes(), str(source))
    except OSError as error:
        raise PlanError(
            f"{source} cannot be read: {error.strerror}",
            hint="Let the next `petsync reconcile` make it again.",
        ) from None
