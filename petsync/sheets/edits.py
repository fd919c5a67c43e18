"""SheetEdits: edits to write into a user's sheet; Obstacle: an edit that cannot be written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from petsync.models import Pet
from petsync.plan.plan import Inbound
from petsync.sheets.headers import ACTION
from petsync.sheets.xlsx.contents import OUT, cell_texts
from petsync.table.columns import CLEAR
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = ["Obstacle", "SheetEdits", "cells_of", "edits_of"]


Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """An edit that cannot be written."""

    row: int | None
    """The row of the cell; None if no row can be added. Added rows have the numbers -1, -2 and so
    on.
    """
    column: str
    """The column of the cell; "" if the row cannot be added or removed."""
    address: str
    problem: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.address}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SheetEdits:
    """Edits of a sheet: `cells` has the new texts by row number and column, `added` the texts of
    each new row by column, and `removed` the numbers of the rows to remove.
    """

    cells: Mapping[int, Texts] = field(default_factory=dict)
    added: Sequence[Texts] = ()
    removed: Collection[int] = ()

    def __bool__(self) -> bool:
        """Return true if there is anything to write."""
        return bool(self.cells or self.added or self.removed)

    def without(self, obstacles: Iterable[Obstacle]) -> SheetEdits:
        """Return the edits without those that cannot be written."""
        blocked = {(each.row, each.column) for each in obstacles}

        def drop_blocked(row: int, texts: Texts) -> Texts:
            return {name: text for name, text in texts.items() if (row, name) not in blocked}

        cells = {
            row: remaining
            for row, texts in self.cells.items()
            if (remaining := drop_blocked(row, texts))
        }
        added = [drop_blocked(-n, texts) for n, texts in enumerate(self.added, 1)]
        removed = tuple(row for row in self.removed if (row, "") not in blocked)
        return SheetEdits(cells, () if (None, "") in blocked else added, removed)


def cells_of(
    pet: Pet, columns: Iterable[str], *, separator: Literal["\n", " | "] = "\n"
) -> dict[str, str]:
    """Return the texts of the pet's cells in these columns, "" for an empty field. `separator`
    separates photo URLs. A text that could be read as the marker of a cleared cell is escaped.
    """
    return _pet_texts([pet], columns, separator)[0]


def edits_of(inbound: Inbound, sheet: Sheet) -> SheetEdits:
    """Return the edits that write the changes in `inbound` into the sheet.

    New rows and rows whose pet is now known get the pet's id; the action `add` or `add-another` of
    such a row becomes `merge`. No column other than `id` is added to a sheet. A tag is written as
    in an export: by its name, with its id only if the name is empty, or if the pet or the store has
    other tags with it.
    """
    separator: Literal["\n", " | "] = "\n" if sheet.tab else " | "
    columns = [
        "id",
        *(name for name in OUT if name in sheet.columns and name not in ("id", ACTION)),
    ]
    pets = [inbound.as_written(each.pet) for each in inbound.edits]
    edited = _pet_texts(pets, columns, separator)
    cells: dict[int, Texts] = {
        each.row: {name: texts[name] for name in each.fields if name in sheet.columns}
        for each, texts in zip(inbound.edits, edited, strict=True)
    }
    for each in inbound.identified:
        id_texts = {"id": str(each.pet_id)} if each.lacks_id else {}
        id_texts |= {ACTION: "merge"} if each.was_add and ACTION in sheet.columns else {}
        cells[each.row] = {**cells.get(each.row, {}), **id_texts}
    added = [
        {name: text for name, text in texts.items() if text and name not in inbound.blank}
        for texts in _pet_texts(list(map(inbound.as_written, inbound.added)), columns, separator)
    ]
    return SheetEdits(cells, added, tuple(each.row for each in inbound.removed))


def _pet_texts(
    pets: Sequence[Pet], columns: Iterable[str], separator: Literal["\n", " | "]
) -> list[dict[str, str]]:
    texts = cell_texts(frame_from_pets(pets), marker=CLEAR, separator=separator)
    columns_texts = {name: texts[OUT.index(name)] for name in columns if name in OUT}
    return [
        dict(zip(columns_texts, row, strict=True))
        for row in zip(*columns_texts.values(), strict=True)
    ]
