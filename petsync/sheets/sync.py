"""Write the store's changes into a sheet, or save them until the file can be written."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync._files import write_atomically
from petsync.errors import PlanError, SheetError
from petsync.plan.plan import Inbound
from petsync.sheets.base import BASE_TAB, base_notice
from petsync.sheets.edits import Obstacle, SheetEdits
from petsync.sheets.files import Source, must_be_closed
from petsync.sheets.grid import (
    MAX_CELL_LENGTHS,
    Bools,
    CellEdits,
    CellKind,
    Cells,
    Grid,
    is_longer,
)
from petsync.sheets.load import load_unchanged
from petsync.sheets.read import read_grid
from petsync.sheets.results import (
    as_sheet,
    check_writable,
    create_backup,
    sidecar_lines,
    write_file,
)
from petsync.table.base import Base
from petsync.table.sheet import Sheet, cell_address

__all__ = [
    "check_agreement",
    "load_edits",
    "must_take_edits",
    "obstacles",
    "save_edits",
    "write_synced",
]


# Comparison of a file before and after edits: only edited cells may differ.


_EDITED_KINDS = (CellKind.TEXT, CellKind.NUMBER)


def check_agreement(source: Source, copy: Source, sheet: Sheet, edits: SheetEdits) -> None:
    """Raise SheetError if an edited cell of the `copy` does not have its new text, or another cell
    has changed.
    """
    tab = sheet.tab or None
    before, after = (read_grid(each, tab, sheet.mapping) for each in (source, copy))
    difference = _Comparison(before, after, sheet, edits).difference()
    if difference is not None:
        raise SheetError(
            f"{source.path}: the new file would not be correct: {difference}",
            hint="Nothing was written. Write the values into the sheet by hand.",
        )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares the grids of a file `before` and `after` its `edits`."""

    before: Grid
    after: Grid
    sheet: Sheet
    edits: SheetEdits

    def difference(self) -> str | None:
        """Return the first difference besides the edits, as a clause; None if there is none."""
        kept_rows = np.flatnonzero(~np.isin(self.before.rows, list(self.edits.removed)))
        header = [*self.before.header, *self._new_columns()]
        if list(self.after.header) != header:
            return "its header would be different"
        if len(self.after.rows) != len(kept_rows) + len(self.edits.added):
            return "it would have other rows"
        if self._faults(kept_rows) != {
            position: fault.rule for position, fault in self.after.faults.items()
        }:
            return "other rows would be invalid"
        numbers = self.before.rows[kept_rows]
        for column, name in enumerate(self._names()):
            position = self._find_difference(column, name, kept_rows, numbers)
            if position is not None:
                place = self.after.places[column]
                row = int(self.after.rows[position])
                return f"{cell_address(self.after.tab, place, row)} would be wrong"
        return None

    def _new_columns(self) -> list[str]:
        more = len(self.after.header) - len(self.before.header)
        return ["id"] if more and "id" not in self.sheet.columns else []

    def _names(self) -> Iterator[str]:
        """Yield each column's name in the edits, "" for a column that petsync does not use."""
        by_place = {place: name for name, place in self.sheet.columns.items()}
        yield from (by_place.get(place, "") for place in self.before.places)
        yield from self._new_columns()

    def _faults(self, kept_rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Mapping[int, str]:
        return {
            n: self.before.faults[position].rule
            for n, position in enumerate(kept_rows.tolist() if self.before.faults else ())
            if position in self.before.faults
        }

    def _find_difference(
        self,
        column: int,
        name: str,
        kept_rows: np.ndarray[tuple[int], np.dtype[np.intp]],
        numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> int | None:
        """Return the position of the first cell of the column that does not have its expected text
        or kind, or None.
        """
        before_column = self.before.columns[column] if column < len(self.before.columns) else None
        blank = pa.array([""] * len(kept_rows), pa.large_string())
        texts = blank if before_column is None else before_column.text.take(pa.array(kept_rows))
        edited, new = self._find_edited(name, numbers)
        texts = pc.replace_with_mask(texts, pa.array(edited), pa.array(new, pa.large_string()))
        added = [each.get(name, "") if name else "" for each in self.edits.added]
        expected = pa.concat_arrays([texts, pa.array(added, pa.large_string())])
        actual = self.after.columns[column]
        kinds = (
            np.full(len(kept_rows), CellKind.TEXT, dtype=np.int8)
            if before_column is None
            else _kinds(before_column)[kept_rows]
        )
        is_free = np.concatenate([edited, np.ones(len(added), dtype=bool)])
        wrong = _other_kind(_kinds(actual), kinds, is_free)
        wrong |= np.asarray(pc.not_equal(expected, actual.text))
        places = np.flatnonzero(wrong)
        return int(places[0]) if len(places) else None

    def _find_edited(
        self, name: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> tuple[Bools, Sequence[str]]:
        """Return a mask of the rows in which the column is edited, and their new texts in the rows'
        order.
        """
        cells = self.edits.cells
        new_texts = {row: texts[name] for row, texts in cells.items() if name and name in texts}
        mask = np.isin(numbers, list(new_texts))
        return mask, [new_texts[row] for row in numbers[mask].tolist()]


def _other_kind(
    seen: np.ndarray[tuple[int], np.dtype[np.int8]],
    meant: np.ndarray[tuple[int], np.dtype[np.int8]],
    is_free: Bools,
) -> Bools:
    same = np.zeros(len(seen), dtype=bool)
    same[: len(meant)] = seen[: len(meant)] == meant
    return np.asarray(np.where(is_free, ~np.isin(seen, _EDITED_KINDS), ~same))


def _kinds(cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.full(len(cells), CellKind.TEXT, dtype=np.int8) if cells.kinds is None else cells.kinds


# write_synced: write the store's changes into the sheet's file, after a backup.


_READ_AGAIN = "The edits were not written. Read the sheet again, or let the next round write them."
_STORE_CURE = "Change the text in the store."
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def must_take_edits(sheet: Sheet) -> None:
    """Raise SheetError if `write_synced` cannot write the sheet's file now: it is open in a
    program, read-only, in a folder without permission to write a backup, or has changed since it
    was read.
    """
    check_writable(as_sheet(sheet), _READ_AGAIN)


def obstacles(sheet: Sheet, edits: SheetEdits) -> tuple[Obstacle, ...]:
    """Return the edits that cannot be written, with the reasons: a cell has a formula, a text is
    too long for a cell or has a character that no file can contain, a new row would be below the
    total row of a table, or a row to remove has a formula that other cells share.
    `edits.without(…)` returns the other edits. Raises SheetError if the file has changed since it
    was read.
    """
    source = load_unchanged(as_sheet(sheet), _READ_AGAIN)
    if source.kind == "workbook":
        # The modules for workbooks are loaded only for workbooks.
        from petsync.sheets.xlsx.edit import is_free

        if not is_free(source, sheet):
            return _build_file(source, sheet, edits, None)[1]
    return tuple(_find_unwritable(source, sheet, edits))


def write_synced(
    sheet: Sheet,
    edits: SheetEdits,
    *,
    base: Base | None = None,
    now: dt.datetime | None = None,
) -> Path:
    """Write the edits into the sheet's file, and return the path of a backup, as `write_back`
    does.

    The other cells stay unchanged. In a workbook, added rows have the format of the last row, and
    are blank in the user's other columns; tables, filters and drop-downs are extended to them. A
    removed row leaves blank cells in a workbook, and nothing in a CSV file. Edits of columns that
    the sheet lacks are ignored, but a column `id` is added if a row gets an id. `base` replaces the
    base of the file, if it has one. A digital signature is left out.

    The new file is read and compared before it replaces the old one. Raises SheetError if another
    cell would change, an edit cannot be written (see `obstacles`), or the file has changed since it
    was read, is open in a program or cannot be written.
    """
    must_take_edits(sheet)
    source = load_unchanged(sheet, _READ_AGAIN)
    data, unwritable = _build_file(source, sheet, edits, base)
    if unwritable:
        more = f", and {len(unwritable) - 1:,} more" if len(unwritable) > 1 else ""
        raise SheetError(
            f"{source.path}: {unwritable[0]}{more}",
            hint=f"Nothing was written. {unwritable[0].suggestion}",
        )
    check_agreement(source, replace(source, data=data), sheet, edits)
    backup = create_backup(source.path.resolve(), source.content, now or dt.datetime.now(dt.UTC))
    # Check again, in order not to overwrite a sheet that was saved in the meantime.
    must_be_closed(source.path)
    load_unchanged(sheet, _READ_AGAIN)
    write_file(source.path, source, data, _sidecar(source, base))
    return backup


def _build_file(
    source: Source, sheet: Sheet, edits: SheetEdits, base: Base | None
) -> tuple[bytes, tuple[Obstacle, ...]]:
    """Return the bytes of the new file, and the edits that cannot be written into it."""
    _check_rows(sheet, edits)
    unwritable = tuple(_find_unwritable(source, sheet, edits))
    if source.kind == "workbook":
        # The modules for workbooks are loaded only for workbooks.
        from petsync.sheets.xlsx.edit import amend_workbook

        lines = _lines(base) if base is not None and _has_base(source) else None
        data, unwritable_in_workbook = amend_workbook(
            source, sheet, edits.without(unwritable), lines=lines
        )
        return data, (*unwritable, *unwritable_in_workbook)
    from petsync.sheets.csv import edit_csv

    writable = edits.without(unwritable)
    new = ["id"] if "id" not in sheet.columns and _gives_id(writable) else []
    added, removed = writable.added, writable.removed
    cells = CellEdits(writable.cells)
    return edit_csv(source, sheet, cells, new, added=added, removed=removed), unwritable


def _check_rows(sheet: Sheet, edits: SheetEdits) -> None:
    present = {*sheet.rows.index.tolist(), *sheet.blocked}
    missing = sorted({*edits.cells, *edits.removed} - present)
    if missing:
        raise SheetError(
            f"{sheet.source}: row {missing[0]} is not a row of the sheet",
            hint="Use the row numbers of the sheet that was read.",
        )


def _find_unwritable(source: Source, sheet: Sheet, edits: SheetEdits) -> Iterator[Obstacle]:
    """Yield the edits whose texts no cell of this kind of file can contain."""
    limit = MAX_CELL_LENGTHS[source.kind]
    for row, name, text in _edited_texts(edits):
        problem = _storage_problem(text, limit)
        if problem:
            place = f"new row {-row}, {name}" if row < 0 else sheet.address(row, name)
            yield Obstacle(
                row=row, column=name, address=place, problem=problem, suggestion=_STORE_CURE
            )


def _edited_texts(edits: SheetEdits) -> Iterator[tuple[int, str, str]]:
    new = {-n: texts for n, texts in enumerate(edits.added, 1)}
    for row, texts in {**edits.cells, **new}.items():
        for name, text in texts.items():
            yield row, name, text


def _storage_problem(text: str, limit: int) -> str:
    if _UNSTORABLE.search(text):
        return "the store's text has a character that no sheet can contain"
    if is_longer(text, limit):
        return f"the store's text has more than the {limit:,} characters that a cell can have"
    return ""


def _gives_id(edits: SheetEdits) -> bool:
    return bool(edits.added) or any("id" in texts for texts in edits.cells.values())


def _has_base(source: Source) -> bool:
    # The modules for workbooks are loaded only for workbooks.
    from petsync.sheets.xlsx.package import Package

    return any(tab.name == BASE_TAB for tab in Package(source).tabs)


def _lines(base: Base) -> list[str]:
    return [base_notice(base), *base.to_lines()]


def _sidecar(source: Source, base: Base | None) -> list[str] | None:
    lines = sidecar_lines(source)
    return lines if lines is None or base is None else _lines(base)


# Edits saved as a file: JSON that only its owner can read, written completely or not at all.


def save_edits(inbound: Inbound, path: str | Path) -> Path:
    """Save the edits as a file with mode 0600, and return its path. Raises PlanError if it cannot
    be written.
    """
    write_atomically(Path(path), inbound.to_json(), private=True, error=PlanError)
    return Path(path)


def load_edits(path: str | Path) -> Inbound:
    """Return the edits in a file that `save_edits` wrote. Raises PlanError if it cannot be read, is
    invalid or was changed.
    """
    source = Path(path)
    try:
        return Inbound.from_json(source.read_bytes(), str(source))
    except OSError as error:
        raise PlanError(
            f"{source} cannot be read: {error.strerror}",
            hint="Run `petsync reconcile` again to recreate it.",
        ) from None
