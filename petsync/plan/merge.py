"""Merge a row into its pet, field by field: the winner of each field, and the rule that decided.

docs/plan.md ("Field by field") explains the rules to users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from petsync.models import Pet
from petsync.plan.change import Clash
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    Vocabulary,
    category_cells,
    cell,
    changed_columns,
    differing_columns,
    equal,
    has_value,
    key,
    merge_photos,
    merge_tags,
    normalize,
    photo_keys,
    unit_text,
    with_columns,
    with_kept_photos,
)
from petsync.plan.lineage import RestoredPet
from petsync.plan.match import RowValues, apply_unit, build_pet, clears
from petsync.plan.options import UNSENT, Owner
from petsync.plan.uploads import Uploads
from petsync.table.base import Base
from petsync.table.columns import CLEARED, Column

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
    "undone",
    "clash-store",
    "clash-sheet",
    "owner-sheet",
    "owner-store",
    "owner-never",
]


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """The result of judging a row."""

    after: Pet
    """The resulting pet."""
    fields: tuple[Column, ...]
    """The columns that change."""
    clashes: tuple[Clash, ...]
    """The fields that clash."""
    rules: tuple[tuple[Unit, FieldRule], ...]
    """The rule of each judged unit."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges rows whose pet is known.

    If both sides changed a field differently and the changes cannot be merged, the store wins, or
    the sheet with `sheet_wins`. A status that the sheet clears never wins.
    """

    vocabulary: Vocabulary
    """The store's categories and tags."""
    sheet_wins: bool = False
    """True if the sheet wins clashes."""
    uploads: Uploads = field(default_factory=Uploads)
    """The uploaded photos.

    They stay if a cell lists other photos and the export is unknown, because the user cannot have
    intended to remove them.
    """
    base: Base | None = None
    """The base. It is used only for data about the sheet: the last values of rows that differed
    from the store, the columns that were missing, and the units in which a row may be older than
    the base. In such a unit, a value that differs from both base and store is a clash, even if the
    store did not change.
    """
    owners: Mapping[Unit, Owner] = field(default_factory=dict)
    """The owners of fields. A field that one side owns is not merged, and cannot clash."""
    last_row_pets: dict[int, Pet] = field(default_factory=dict)
    """The values of rows whose pets the base lacks, as a run last read them, by the pet's id."""
    restored: Mapping[int, RestoredPet] = field(default_factory=dict)
    """The pets that undos of the sheet's runs restored, by id. A restored value counts as known."""

    def judge(
        self, values: RowValues, current: Pet, old: Pet | None, units: Iterable[Unit]
    ) -> Judgement:
        """Judge a row against the `current` pet; `old` is the exported pet, None if it is unknown.

        Units that are not in `units` count as equal.
        """
        after = current
        fields: list[Column] = []
        clashes: list[Clash] = []
        rules: list[tuple[Unit, FieldRule]] = []
        for unit in units:
            agreed = self._find_agreed_pet(unit, values, old)
            rule, new, changed = self._judge_unit(unit, values, current, agreed)
            rules.append((unit, rule))
            if rule in _CLASHING and agreed is not None:
                clashes.append(_clash(unit, agreed, new, current))
            if changed and rule in _CHANGING:
                fields += changed
                after = new if after is current else _with(after, unit, new)
        return Judgement(after, tuple(fields), tuple(clashes), tuple(rules))

    def is_settled(
        self, unit: Unit, values: RowValues, current: Pet, old: Pet | None, *, keeps_both: bool
    ) -> bool:
        """Return true if the store has, or keeps, the value that results from an edited unit, so
        that the sheet takes it. With `keeps_both`, a clash is not settled, whichever side wins.

        A cell of the unit may still differ, for example the number beside a cleared category.
        """
        judged = self.judge(values, current, old, (unit,))
        return not judged.fields and not (keeps_both and judged.clashes)

    def edits(self, values: RowValues, old: Pet | None, units: Iterable[Unit] = UNITS) -> RowValues:
        """Return the row's values that differ from the export, all values if the export is
        unknown.
        """
        if old is None:
            return values
        edited = (c for unit in units for c in self._find_edited_columns(unit, values, old))
        return {column: values[column] for column in edited}

    def resolve_category(self, values: RowValues, current: Pet, old: Pet | None) -> Pet:
        """Return the pet with the row's category: from the edited cells, or from all cells if none
        is edited.
        """
        edits = {} if old is None else self.edits(values, old, ("category",))
        return apply_unit(current, "category", edits or values, self.vocabulary)

    def keeps_photos(self, values: RowValues, current: Pet, old: Pet | None) -> bool:
        """Return true if the pet keeps uploaded photos that the row lacks."""
        owner = self.owners.get("photo_urls")
        if owner in UNSENT or (old is not None and owner is None):
            return False
        return bool(values.get("photo_urls")) and bool(
            self._find_lacking_photos(values, current, old)
        )

    def _find_lacking_photos(
        self, values: RowValues, current: Pet, old: Pet | None
    ) -> frozenset[str]:
        """Return the uploaded photos that the row lacks, and that it did not have at the export."""
        uploaded = self.uploads.photos(current)
        if not uploaded:
            return frozenset()
        exported = () if old is None else old.photo_urls
        known = frozenset(photo_keys((*values["photo_urls"], *exported)))
        return frozenset(url for url in uploaded if normalize(url) not in known)

    def find_older_units(
        self, values: RowValues, current: Pet, old: Pet | None
    ) -> tuple[Unit, ...]:
        """Return the units that differ from the `current` pet and may be older than the base."""
        if old is None or self.base is None:
            return ()
        unsure = self.base.unsure_units.get(old.id or 0, ())
        units = [unit for unit in UNITS if unit in unsure and has_value(values, unit)]
        pets = ((unit, apply_unit(current, unit, values, self.vocabulary)) for unit in units)
        return tuple(unit for unit, new in pets if changed_columns(new, current, unit))

    def find_undo(self, unit: Unit, current: Pet, old: Pet) -> RestoredPet | None:
        """Return the undo that gave the `current` pet its value of the unit, if it took back the
        `old` value, on which both sides last agreed; None if there is none. Several undos, one
        after the other, may have taken it back.
        """
        newest, value = None, current
        each = self.restored.get(old.id or 0)
        while each is not None:
            if not {*COLUMNS_OF[unit]}.isdisjoint(each.fields) and each.sent is not None:
                if changed_columns(each.pet, value, unit):
                    return None
                newest = newest or each
                if not changed_columns(each.sent, old, unit):
                    return newest
                value = each.sent
            each = each.earlier
        return None

    def find_moved_columns(self, current: Pet, old: Pet) -> tuple[Column, ...]:
        """Return the columns that the store changed since both sides agreed on `old`, except those
        that an undo restored.
        """
        moved = differing_columns(old, current)
        if not moved or (old.id or 0) not in self.restored:
            return moved
        known = {c for u in UNITS if self.find_undo(u, current, old) for c in COLUMNS_OF[u]}
        return tuple(column for column in moved if column not in known)

    def is_older(self, judged: Judgement, values: RowValues, current: Pet) -> bool:
        """Return true if the row has an exported value and the store has a newer one."""
        units = (unit for unit, rule in judged.rules if rule == "not-edited")
        return any(
            changed_columns(apply_unit(current, unit, values, self.vocabulary), current, unit)
            for unit in units
        )

    def _judge_unit(
        self, unit: Unit, values: RowValues, current: Pet, old: Pet | None
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        """Return the rule for a unit, the pet with the sheet's or the merged value of the unit (the
        `current` pet if the sheet has no edit), and the columns in which this pet differs from the
        current one.
        """
        if not has_value(values, unit):
            return "blank", current, ()
        if (owner := self.owners.get(unit)) is not None:
            return self._judge_owned(unit, owner, values, current, old)
        if old is None:
            return self._judge_without_base(unit, values, current)
        moved = changed_columns(old, current, unit)
        edits = {column: values[column] for column in self._find_edited_columns(unit, values, old)}
        if not edits:
            return ("not-edited" if moved else "same"), current, ()
        new = apply_unit(current, unit, edits, self.vocabulary)
        changed = changed_columns(new, current, unit)
        if not changed:
            return ("alike" if moved else "same"), current, ()
        is_unsure = self.base is not None and unit in self.base.unsure_units.get(old.id or 0, ())
        if not moved and not is_unsure:
            return "edited", new, changed
        rule, new, changed = self._judge_both_edits(
            unit, edits, current, old, new, merges=not is_unsure
        )
        if rule in _CLASHING and not is_unsure and self.find_undo(unit, current, old) is not None:
            rule = "undone"
        return rule, new, changed

    def _judge_owned(
        self, unit: Unit, owner: Owner, values: RowValues, current: Pet, old: Pet | None
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        """Judge a unit, as `_judge_unit` does, that the sheet or the store owns, or nobody."""
        rule, new, changed = self._judge_without_base(unit, values, current, old)
        if not changed:
            return rule, new, ()
        if owner == "sheet":
            return "owner-sheet", new, changed
        return ("owner-store" if owner == "store" else "owner-never"), new, changed

    def _judge_without_base(
        self, unit: Unit, values: RowValues, current: Pet, old: Pet | None = None
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        """Judge a unit, as `_judge_unit` does, by the row's whole value. An exported pet shows only
        which cell of a category was edited, and which photos the row has had.
        """
        if unit == "category" and old is not None:
            new = self.resolve_category(values, current, old)
        else:
            new = apply_unit(current, unit, values, self.vocabulary)
        has_uploads = unit == "photo_urls" and self.keeps_photos(values, current, old)
        if has_uploads:
            lacking = self._find_lacking_photos(values, current, old)
            urls = with_kept_photos(values["photo_urls"], current.photo_urls, lacking)
            new = msgspec.structs.replace(current, photo_urls=urls)
        changed = changed_columns(new, current, unit)
        return ("differs" if changed else "uploaded" if has_uploads else "equal"), new, changed

    def _judge_both_edits(
        self, unit: Unit, edits: RowValues, current: Pet, old: Pet, new: Pet, *, merges: bool
    ) -> tuple[FieldRule, Pet, tuple[Column, ...]]:
        # Without a status, no query finds the pet, so the store's status stays.
        can_win = unit != "status" or bool(normalize(new.status))
        rule: FieldRule = "clash-sheet" if self.sheet_wins and can_win else "clash-store"
        if not merges:
            return rule, new, changed_columns(new, current, unit)
        if unit == "tags":
            tags = merge_tags(old.tags, edits["tags"], current.tags, self.vocabulary)
            rule, new = "merged", msgspec.structs.replace(current, tags=tags)
        elif unit == "photo_urls":
            urls = merge_photos(old.photo_urls, edits["photo_urls"], current.photo_urls)
            if urls is not None:
                rule, new = "merged", msgspec.structs.replace(current, photo_urls=urls)
        return rule, new, changed_columns(new, current, unit)

    def _find_agreed_pet(self, unit: Unit, values: RowValues, old: Pet | None) -> Pet | None:
        """Return the last state of the pet on which both sides agreed.

        Columns that the row lacked in the last round have the sheet's earlier values, because the
        sheet does not have later ones. If only one column of a category was missing, it has the
        sheet's earlier value only if it is edited.
        """
        if old is None or self.base is None or not self.base.missing:
            return old
        columns = {column for column in COLUMNS_OF[unit] if column in values}
        if not columns & self.base.missing:
            return old
        if columns <= self.base.missing:
            return self.find_sheet_pet(old)
        edited = self.base.missing.intersection(self._find_edited_columns(unit, values, old))
        return with_columns(old, self.find_sheet_pet(old), edited)

    def find_sheet_pet(self, old: Pet) -> Pet:
        """Return an exported pet with the sheet's last values."""
        if old.id is None:
            return old
        exported = None if self.base is None else self.base.sheet_pets.get(old.id)
        return exported or self.last_row_pets.get(old.id, old)

    def _find_edited_columns(self, unit: Unit, values: RowValues, old: Pet) -> tuple[Column, ...]:
        """Return the unit's columns in which the row differs from the export.

        A category's name and id count separately, because users change one and leave the other.
        """
        columns = tuple(column for column in COLUMNS_OF[unit] if column in values)
        old = self.find_sheet_pet(old)
        if unit == "category":
            if clears(values, old.category):
                columns = columns[:1]  # ignore the number of a cleared category
            return tuple(column for column in columns if _is_other_cell(column, values, old))
        new = apply_unit(old, unit, values, self.vocabulary) if columns else old
        return columns if changed_columns(new, old, unit) else ()


_CLASHING: frozenset[FieldRule] = frozenset({"clash-store", "clash-sheet"})
_CHANGING: frozenset[FieldRule] = frozenset(
    {"differs", "edited", "merged", "undone", "clash-sheet", "owner-sheet"}
)


def _with(pet: Pet, unit: Unit, other: Pet) -> Pet:
    """Return a copy of `pet` with the values of the unit from `other`."""
    return msgspec.structs.replace(pet, **{unit: getattr(other, unit)})


def _is_other_cell(column: Column, values: RowValues, old: Pet) -> bool:
    if column == "category" and clears(values, old.category):
        if category_cells(old).name == CLEARED:
            return False
        # CLEARED also removes a category that has only an id.
        return bool(normalize(cell(old, column)) or key(old, "category_id") is not None)
    return not equal(build_pet({column: values[column]}), old, column)


def _clash(unit: Unit, old: Pet, new: Pet, current: Pet) -> Clash:
    base, sheet, store = (unit_text(pet, unit, cell) for pet in (old, new, current))
    return Clash(column=unit, base=base, sheet=sheet, store=store)
