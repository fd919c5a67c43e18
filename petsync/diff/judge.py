"""Judge: what becomes of each unit of a pet, from what base, sheet and store say of it.

The table of the design's section 5, field by field; docs/plan.md tells the same to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from petsync.diff.change import Clash
from petsync.diff.fields import cell, normal
from petsync.diff.merge import Said, laid_over
from petsync.diff.photos import merged_photos
from petsync.diff.tags import merged_tags
from petsync.diff.units import COLUMNS_OF, Unit, changed_columns, says, unit_key, unit_text
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Pet
from petsync.table.columns import Column

__all__ = ["FieldRule", "Judge", "Judgement"]

FieldRule = Literal[
    "blank",
    "equal",
    "differs",
    "same",
    "not-edited",
    "edited",
    "alike",
    "merged",
    "clash-store",
    "clash-sheet",
]


class Judgement(msgspec.Struct, frozen=True):
    """The pet as it is to be, the columns that change, the fields that clash, and each judged
    unit's rule.
    """

    after: Pet
    fields: tuple[Column, ...]
    clashes: tuple[Clash, ...]
    rules: tuple[tuple[Unit, FieldRule], ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges rows whose pet is known. Where both sides changed a field apart the store wins, or
    the sheet if `sheet_wins`.
    """

    vocabulary: Vocabulary
    sheet_wins: bool = False

    def judge(self, said: Said, now: Pet, old: Pet | None, units: Iterable[Unit]) -> Judgement:
        """The judgement of a row on the pet as it is `now`; `old` is the pet as exported, None
        where that is not known. Units that are not given are in agreement.
        """
        after = now
        fields: list[Column] = []
        clashes: list[Clash] = []
        rules: list[tuple[Unit, FieldRule]] = []
        for unit in units:
            if not says(said, unit):
                rules.append((unit, "blank"))
                continue
            rule, new = self._one(unit, said, now, old)
            rules.append((unit, rule))
            if rule in ("clash-store", "clash-sheet") and old is not None:
                clashes.append(_clash(unit, old, new, now))
            if rule in _CHANGING and (changed := changed_columns(now, new, unit)):
                fields += changed
                after = msgspec.structs.replace(after, **{unit: getattr(new, unit)})
        return Judgement(after, tuple(fields), tuple(clashes), tuple(rules))

    def edits(self, said: Said, old: Pet | None) -> Said:
        """What the row says and did not say when it was exported: all, where that is not known."""
        if old is None:
            return said
        edited = (c for unit in COLUMNS_OF for c in self._edited(unit, said, old))
        return {column: said[column] for column in edited}

    def _one(self, unit: Unit, said: Said, now: Pet, old: Pet | None) -> tuple[FieldRule, Pet]:
        """The rule that holds for a unit, and a pet that has it as the sheet wants it then."""
        if old is None:
            new = laid_over(now, unit, said, self.vocabulary)
            return ("differs" if _moved(now, new, unit) else "equal"), new
        moved = _moved(old, now, unit)
        edits = {column: said[column] for column in self._edited(unit, said, old)}
        if not edits:
            return ("not-edited" if moved else "same"), now
        new = laid_over(now, unit, edits, self.vocabulary)
        if not _moved(now, new, unit):
            return ("alike" if moved else "same"), now
        if not moved:
            return "edited", new
        return self._both(unit, edits, now, old, new)

    def _both(self, unit: Unit, edits: Said, now: Pet, old: Pet, new: Pet) -> tuple[FieldRule, Pet]:
        if unit == "tags":
            tags = merged_tags(old.tags, edits["tags"], now.tags, self.vocabulary)
            return "merged", msgspec.structs.replace(now, tags=tags)
        if unit == "photo_urls":
            urls = merged_photos(old.photo_urls, edits["photo_urls"], now.photo_urls)
            if urls is not None:
                return "merged", msgspec.structs.replace(now, photo_urls=urls)
        return ("clash-sheet" if self.sheet_wins else "clash-store"), new

    def _edited(self, unit: Unit, said: Said, old: Pet) -> tuple[Column, ...]:
        """The unit's columns that the row says otherwise than the export: of a category's name
        and id each cell by itself, as people change the one and leave the other.
        """
        given = tuple(column for column in COLUMNS_OF[unit] if column in said)
        if unit == "category":
            return tuple(column for column in given if _other_cell(column, said, old))
        new = laid_over(old, unit, said, self.vocabulary) if given else old
        return given if _moved(old, new, unit) else ()


_CHANGING: frozenset[FieldRule] = frozenset({"differs", "edited", "merged", "clash-sheet"})


def _moved(one: Pet, other: Pet, unit: Unit) -> bool:
    return unit_key(one, unit) != unit_key(other, unit)


def _other_cell(column: Column, said: Said, old: Pet) -> bool:
    if column == "category":
        return normal(said[column]) != normal(cell(old, column))
    return str(said[column]) != cell(old, column)


def _clash(unit: Unit, old: Pet, new: Pet, now: Pet) -> Clash:
    base, sheet, store = (unit_text(pet, unit, cell) for pet in (old, new, now))
    return Clash(column=unit, base=base, sheet=sheet, store=store)
