"""Whether a file with edits reads as before but for what was edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.sheets.edits import SheetEdits
from petsync.sheets.grid import Bools, Cells, Grid, Kind
from petsync.sheets.read import read_grid
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet, cell_address

__all__ = ["must_agree"]

_EDITED = (Kind.TEXT, Kind.NUMBER)


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
        header = [*self.before.header, *self._made()]
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

    def _made(self) -> list[str]:
        more = len(self.after.header) - len(self.before.header)
        return ["id"] if more and "id" not in self.sheet.columns else []

    def _names(self) -> Iterator[str]:
        """The columns by the names that edits give them, "" where none does."""
        by_place = {place: name for name, place in self.sheet.columns.items()}
        yield from (by_place.get(place, "") for place in self.before.places)
        yield from self._made()

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
        edited, new = self._edited(name, numbers)
        texts = pc.replace_with_mask(texts, pa.array(edited), pa.array(new, pa.large_string()))
        added = [each.get(name, "") if name else "" for each in self.edits.added]
        meant = pa.concat_arrays([texts, pa.array(added, pa.large_string())])
        seen = self.after.columns[column]
        kinds = np.full(len(kept), Kind.TEXT, dtype=np.int8) if own is None else _kinds(own)[kept]
        is_free = np.concatenate([edited, np.ones(len(added), dtype=bool)])
        wrong = _other_kind(_kinds(seen), kinds, is_free)
        wrong |= np.asarray(pc.not_equal(meant, seen.text))
        places = np.flatnonzero(wrong)
        return int(places[0]) if len(places) else None

    def _edited(
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
    return np.full(len(cells), Kind.TEXT, dtype=np.int8) if cells.kinds is None else cells.kinds
