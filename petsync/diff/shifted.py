"""Columns that were sorted or shifted without their rows, as the base of the sheet shows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from petsync.diff.change import Change, Update
from petsync.diff.known import pets_of
from petsync.diff.units import COLUMNS_OF, UNITS, Unit, unit_key
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.sheet import Sheet

__all__ = ["Shifted", "shifted"]

_LEAST = 3
"""Two rows may exchange a value on purpose; so many do not."""
_REACH = 3
"""A column is shifted by so many rows at the most."""
_PART = 0.8
"""So large a part of the edits has to be explained."""
_BITS = 9.0
"""So unlikely, as a power of two, it has to be that the edits agree by chance."""
_RARE = 3.0
"""So many bits tells a value of the column by itself: then any order of them counts."""

Values = Mapping[int, Hashable]
"""What a column says, by row number."""


class Shifted(tuple[Column, ...]):
    """The columns, with `note`: a sentence that names the first cell of each; "" for none."""

    note: str = ""


def shifted(changes: Iterable[Change], sheet: Sheet, base: Base | None) -> Shifted:
    """The columns in which most updates give a row what another row had when the sheet was
    exported: what a sort of the column alone, or cells that were inserted or deleted, leave behind.
    """
    updates = [each for each in changes if isinstance(each, Update) and each.row is not None]
    if base is None or len(updates) < _LEAST or "id" not in sheet.frame:
        return Shifted()
    ids = sheet.frame["id"].dropna()
    old = {pet.id: pet for pet in pets_of(ids.tolist(), base.frame)}
    pairs = zip(ids.index.tolist(), ids.tolist(), strict=True)
    exported = {int(row): old[pet_id] for row, pet_id in pairs if pet_id in old}
    found: list[Column] = []
    places: list[str] = []
    for unit in UNITS:
        edits = {
            row: unit_key(update.after, unit)
            for update in updates
            if (row := update.row or 0) in exported
            and not {*COLUMNS_OF[unit]}.isdisjoint(update.fields)
        }
        if len(edits) < _LEAST:
            continue
        was = {row: unit_key(pet, unit) for row, pet in exported.items()}
        texts = {row: _text(pet, unit) for row, pet in exported.items()}
        now = {**texts, **{u.row: _text(u.after, unit) for u in updates if u.row in edits}}
        others = len(sheet.frame) - len(exported)
        if _is_moved(edits, was) or _is_sorted(edits, was, texts, now, others):
            there = {*was.values()}
            first = next(row for row, value in edits.items() if value in there)
            found += [column for column in COLUMNS_OF[unit] if column in sheet.frame]
            places.append(f"{sheet.address(first, unit)} ({unit})")
    return _told(found, places)


def _told(found: Sequence[Column], places: Sequence[str]) -> Shifted:
    result = Shifted(found)
    if places:
        result.note = (
            f"From {', '.join(places)} on, cells say what other rows said when the sheet was "
            "exported: the column was sorted or shifted without its rows. Undo that in the sheet; "
            "if it is meant, --allow-shifted lets it pass."
        )
    return result


def _is_moved(edits: Values, was: Values) -> bool:
    """Whether the edits are values of other rows, in so many that it is no chance."""
    bits = _bits(was.values())
    if len(edits) * bits < _BITS:
        return False
    return (bits >= _RARE and _is_exchanged(edits, was)) or _is_along(edits, was)


def _bits(values: Iterable[Hashable]) -> float:
    """How much a value of the column tells: of 8 that are equally frequent, 3 bits."""
    counts = Counter(values)
    total = counts.total()
    return -math.log2(sum((count / total) ** 2 for count in counts.values()))


def _is_exchanged(edits: Values, was: Values) -> bool:
    """Whether the edited rows have one another's values."""
    before = Counter(was[row] for row in edits)
    return (before & Counter(edits.values())).total() >= _PART * len(edits)


def _is_along(edits: Values, was: Values) -> bool:
    """Whether the edited rows have the values of rows that are as far above or below, or of rows
    that are as far from the other end.
    """
    rows = [*was]
    at = {row: n for n, row in enumerate(rows)}
    shifts = [(1, step) for step in range(-_REACH, _REACH + 1) if step]
    turns = [(-1, len(rows) - 1 + step) for step in range(-_REACH, _REACH + 1)]
    for sign, start in (*shifts, *turns):
        places = ((row, start + sign * at[row]) for row in edits)
        there = ((row, rows[place]) for row, place in places if 0 <= place < len(rows))
        if sum(was[other] == edits[row] for row, other in there) >= _PART * len(edits):
            return True
    return False


def _is_sorted(
    edits: Values, was: Values, before: Mapping[int, str], after: Mapping[int, str], others: int
) -> bool:
    """Whether the whole column is in order and was not, and has the values that it had; `others`
    is the number of rows that were not exported and took part.
    """
    if len(edits) * _bits(was.values()) < _BITS:
        return False
    there = Counter({**was, **edits}.values())
    if (there - Counter(was.values())).total() > max(others, 0):
        return False
    return any(
        [*after.values()] == sorted(after.values(), reverse=turned)
        and [*before.values()] != sorted(before.values(), reverse=turned)
        for turned in (False, True)
    )


def _text(pet: Pet, unit: Unit) -> str:
    """What a cell shows of the unit, as programs sort it."""
    if unit == "category":
        text = pet.category.name if pet.category else ""
    elif unit == "tags":
        text = "; ".join(tag.name or "" for tag in pet.tags)
    elif unit == "photo_urls":
        text = "\n".join(pet.photo_urls)
    else:
        text = getattr(pet, unit)
    return (text or "").casefold()
