"""SheetEdits: what is to be written into a person's own sheet; Obstacle: what cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from petsync.models import Pet, Tag
from petsync.plan.fields import normal
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
    """An edit that cannot be written: the `row` and the `column` of the cell and its `address`;
    `column` is "" where the row cannot be taken out, and `row` None where none can be added. The
    rows that are added have the numbers -1, -2 and so on.
    """

    row: int | None
    column: str
    address: str
    problem: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.address}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SheetEdits:
    """New texts of `cells` by row number and column, rows that are `added` behind the last one
    (texts by column), and the numbers of rows that are `removed`.
    """

    cells: Mapping[int, Texts] = field(default_factory=dict)
    added: Sequence[Texts] = ()
    removed: Collection[int] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.cells or self.added or self.removed)

    def without(self, obstacles: Iterable[Obstacle]) -> SheetEdits:
        """The edits but for those that cannot be written."""
        held = {(each.row, each.column) for each in obstacles}

        def drop_held(row: int, texts: Texts) -> Texts:
            return {name: text for name, text in texts.items() if (row, name) not in held}

        cells = {row: kept for row, texts in self.cells.items() if (kept := drop_held(row, texts))}
        added = [drop_held(-n, texts) for n, texts in enumerate(self.added, 1)]
        removed = tuple(row for row in self.removed if (row, "") not in held)
        return SheetEdits(cells, () if (None, "") in held else added, removed)


def cells_of(
    pet: Pet,
    columns: Iterable[str],
    *,
    separator: Literal["\n", " | "] = "\n",
    clear: str = CLEAR,
) -> dict[str, str]:
    """The texts of a pet's cells in these columns, "" where it has nothing; photo URLs stand with
    the `separator` between them. What is written so is read back as the same value; a text that is
    the marker `clear` is escaped.
    """
    return _texts([pet], columns, separator, clear)[0]


def edits_of(inbound: Inbound, sheet: Sheet, *, clear: str = CLEAR) -> SheetEdits:
    """What is to be written so that the sheet has all of it. A new row has its id in any case, as
    has a row that was settled: the only column that is made where the sheet lacks it. In a sheet
    that names tags without their ids they are named so, where that is as plain.
    """
    separator: Literal["\n", " | "] = "\n" if sheet.tab else " | "
    columns = [
        "id",
        *(name for name in OUT if name in sheet.columns and name not in ("id", ACTION)),
    ]
    form = _by_name if _names_tags(sheet) else _as_it_is
    pets = [form(each.pet) for each in inbound.edits]
    edited = _texts(pets, columns, separator, clear)
    cells: dict[int, Texts] = {
        each.row: {name: texts[name] for name in each.fields if name in sheet.columns}
        for each, texts in zip(inbound.edits, edited, strict=True)
    }
    for each in inbound.identified:
        own = {"id": str(each.pet_id)} if each.lacks_id else {}
        own |= {ACTION: "merge"} if each.was_add and ACTION in sheet.columns else {}
        cells[each.row] = {**cells.get(each.row, {}), **own}
    added = [
        {name: text for name, text in texts.items() if text}
        for texts in _texts(list(map(form, inbound.added)), columns, separator, clear)
    ]
    return SheetEdits(cells, added, tuple(each.row for each in inbound.removed))


def _names_tags(sheet: Sheet) -> bool:
    """Whether the sheet has tags, and none with its id."""
    given = sheet.rows["tags"].tolist() if "tags" in sheet.rows else []
    tags = [tag for each in given if isinstance(each, list) for tag in each]
    return bool(tags) and all(tag.id is None for tag in tags)


def _by_name(pet: Pet) -> Pet:
    """The pet with its tags by their names alone: they mean its own, if no two are alike."""
    names = {normal(tag.name) for tag in pet.tags} - {""}
    if len(names) < len(pet.tags):
        return pet
    return msgspec.structs.replace(pet, tags=tuple(Tag(None, tag.name) for tag in pet.tags))


def _as_it_is(pet: Pet) -> Pet:
    return pet


def _texts(
    pets: Sequence[Pet], columns: Iterable[str], separator: Literal["\n", " | "], clear: str
) -> list[dict[str, str]]:
    texts = cell_texts(frame_from_pets(pets), marker=clear, separator=separator)
    wanted = {name: texts[OUT.index(name)] for name in columns if name in OUT}
    return [dict(zip(wanted, row, strict=True)) for row in zip(*wanted.values(), strict=True)]
