"""Judge: what becomes of each unit of a pet, from what base, sheet and store say of it.

The table of the design's section 5, field by field; docs/plan.md tells the same to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from petsync.diff.change import Clash
from petsync.diff.fields import cell, equal, key, normal, photo_keys
from petsync.diff.merge import Said, clears, laid_over, said_pet
from petsync.diff.photos import kept_photos, merged_photos
from petsync.diff.tags import merged_tags
from petsync.diff.units import COLUMNS_OF, UNITS, Unit, changed_columns, says, unit_text
from petsync.diff.uploads import Uploads
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Pet
from petsync.table.base import Base
from petsync.table.columns import Column

__all__ = ["FieldRule", "Judge", "Judgement"]

FieldRule = Literal[
    "blank",
    "equal",
    "differs",
    "uploaded",
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
    the sheet if `sheet_wins`, except for a status that the sheet clears. Photos that `uploads`
    added stay where a cell that names others lacks them, and what was exported is not known: nobody
    can have meant to take them away.

    Of the `base` only the sheet's side counts here: what a row last said, where both sides differed
    in that, the columns that were missing, and the units of which nobody knows whether the row is
    older than the base: what it says otherwise clashes, whatever the store has.
    """

    vocabulary: Vocabulary
    sheet_wins: bool = False
    uploads: Uploads = field(default_factory=Uploads)
    base: Base | None = None

    def judge(self, said: Said, now: Pet, old: Pet | None, units: Iterable[Unit]) -> Judgement:
        """The judgement of a row on the pet as it is `now`; `old` is the pet as exported, None
        where that is not known. Units that are not given are in agreement.
        """
        after = now
        fields: list[Column] = []
        clashes: list[Clash] = []
        rules: list[tuple[Unit, FieldRule]] = []
        for unit in units:
            agreed = self._agreed(unit, said, old)
            rule, new, changed = self._one(unit, said, now, agreed)
            rules.append((unit, rule))
            if rule in _CLASHING and agreed is not None:
                clashes.append(_clash(unit, agreed, new, now))
            if changed and rule in _CHANGING:
                fields += changed
                after = new if after is now else _with(after, unit, new)
        return Judgement(after, tuple(fields), tuple(clashes), tuple(rules))

    def edits(self, said: Said, old: Pet | None, units: Iterable[Unit] = UNITS) -> Said:
        """What the row says of the units and did not say when it was exported: all, where that is
        not known.
        """
        if old is None:
            return said
        edited = (c for unit in units for c in self._edited(unit, said, old))
        return {column: said[column] for column in edited}

    def meant_category(self, said: Said, now: Pet, old: Pet | None) -> Pet:
        """The pet with the category that a row means: by what was edited in it, else by all that it
        says.
        """
        edits = {} if old is None else self.edits(said, old, ("category",))
        return laid_over(now, "category", edits or said, self.vocabulary)

    def keeps(self, said: Said, now: Pet, old: Pet | None) -> bool:
        """Whether photos stay that uploads added and the row lacks."""
        return old is None and bool(said.get("photo_urls")) and bool(self._lacking(said, now))

    def _lacking(self, said: Said, now: Pet) -> frozenset[str]:
        there = frozenset(photo_keys(said["photo_urls"]))
        return frozenset(url for url in self.uploads.photos(now) if normal(url) not in there)

    def is_older(self, judged: Judgement, said: Said, now: Pet) -> bool:
        """Whether the row says of some unit what was exported, and the store something newer."""
        kept = (unit for unit, rule in judged.rules if rule == "not-edited")
        return any(
            changed_columns(laid_over(now, unit, said, self.vocabulary), now, unit) for unit in kept
        )

    def _one(
        self, unit: Unit, said: Said, now: Pet, old: Pet | None
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        """The rule that holds for a unit, a pet that has it as the sheet wants it then, and the
        columns in which that one differs.
        """
        if not says(said, unit):
            return "blank", now, ()
        if old is None:
            return self._alone(unit, said, now)
        moved = changed_columns(old, now, unit)
        edits = {column: said[column] for column in self._edited(unit, said, old)}
        if not edits:
            return ("not-edited" if moved else "same"), now, ()
        new = laid_over(now, unit, edits, self.vocabulary)
        changed = changed_columns(new, now, unit)
        if not changed:
            return ("alike" if moved else "same"), now, ()
        is_unsure = self.base is not None and unit in self.base.unsure.get(old.id or 0, ())
        if not moved and not is_unsure:
            return "edited", new, changed
        return self._both(unit, edits, now, old, new, merges=not is_unsure)

    def _alone(self, unit: Unit, said: Said, now: Pet) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        """As `_one`, where what was exported is not known."""
        new = laid_over(now, unit, said, self.vocabulary)
        kept = unit == "photo_urls" and self.keeps(said, now, None)
        if kept:
            urls = kept_photos(said["photo_urls"], now.photo_urls, self._lacking(said, now))
            new = msgspec.structs.replace(now, photo_urls=urls)
        changed = changed_columns(new, now, unit)
        return ("differs" if changed else "uploaded" if kept else "equal"), new, changed

    def _both(
        self, unit: Unit, edits: Said, now: Pet, old: Pet, new: Pet, *, merges: bool
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        # A pet without a status could not be found any more, so the store's stays.
        can_win = unit != "status" or bool(normal(new.status))
        rule: FieldRule = "clash-sheet" if self.sheet_wins and can_win else "clash-store"
        if not merges:
            return rule, new, changed_columns(new, now, unit)
        if unit == "tags":
            tags = merged_tags(old.tags, edits["tags"], now.tags, self.vocabulary)
            rule, new = "merged", msgspec.structs.replace(now, tags=tags)
        elif unit == "photo_urls":
            urls = merged_photos(old.photo_urls, edits["photo_urls"], now.photo_urls)
            if urls is not None:
                rule, new = "merged", msgspec.structs.replace(now, photo_urls=urls)
        return rule, new, changed_columns(new, now, unit)

    def _agreed(self, unit: Unit, said: Said, old: Pet | None) -> Pet | None:
        """The pet as both sides last agreed on it: where the row's columns were missing at the last
        round, as the sheet said it before, since the sheet has not seen what came meanwhile.
        """
        if old is None or self.base is None or not self.base.missing:
            return old
        given = {column for column in COLUMNS_OF[unit] if column in said}
        return self._last_said(old) if given and given <= self.base.missing else old

    def _last_said(self, old: Pet) -> Pet:
        """The pet as the sheet last said it."""
        if self.base is None or old.id is None:
            return old
        return self.base.said.get(old.id, old)

    def _edited(self, unit: Unit, said: Said, old: Pet) -> tuple[Column, ...]:
        """The unit's columns that the row says otherwise than the export: of a category's name
        and id each cell by itself, as people change the one and leave the other.
        """
        given = tuple(column for column in COLUMNS_OF[unit] if column in said)
        old = self._last_said(old)
        if unit == "category":
            if clears(said, old.category):
                given = given[:1]  # whatever number stands beside a category that is cleared
            return tuple(column for column in given if _other_cell(column, said, old))
        new = laid_over(old, unit, said, self.vocabulary) if given else old
        return given if changed_columns(new, old, unit) else ()


_CLASHING: frozenset[FieldRule] = frozenset({"clash-store", "clash-sheet"})
_CHANGING: frozenset[FieldRule] = frozenset({"differs", "edited", "merged", "clash-sheet"})


def _with(pet: Pet, unit: Unit, other: Pet) -> Pet:
    """The pet with a unit of another."""
    return msgspec.structs.replace(pet, **{unit: getattr(other, unit)})


def _other_cell(column: Column, said: Said, old: Pet) -> bool:
    if column == "category" and clears(said, old.category):
        # [clear] takes away a category that has an id alone, too.
        return bool(normal(cell(old, column)) or key(old, "category_id") is not None)
    return not equal(said_pet({column: said[column]}), old, column)


def _clash(unit: Unit, old: Pet, new: Pet, now: Pet) -> Clash:
    base, sheet, store = (unit_text(pet, unit, cell) for pet in (old, new, now))
    return Clash(column=unit, base=base, sheet=sheet, store=store)
