"""Decide the result of each row: change, conflict or nothing, with the applied rule."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Add, Change, Clash, Conflict, Delete, FailedLookup, Snapshot, Update
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    UnreadVocabulary,
    cell,
    changed_columns,
    content,
    differing_columns,
    equal,
    find_filled_columns,
    find_row_columns,
    has_lost_letters,
    has_value,
    is_another,
    known_id,
    normalize,
    spelling,
    unit_text,
)
from petsync.plan.lineage import (
    Identity,
    Match,
    RemovedPet,
    RenumberedPet,
    RestoredPet,
    RowRecord,
    Suspect,
    choose_records,
    is_renamed,
    select_undos,
)
from petsync.plan.match import (
    Alignment,
    Candidates,
    Row,
    RowValues,
    has_contradiction,
    is_nameless_category,
    iter_rows,
    merge_row,
    names_among,
    pet_of,
    positions_of,
    without_units,
)
from petsync.plan.merge import FieldRule, Judge, Judgement
from petsync.plan.notes import Remarks, first_items, is_converted
from petsync.plan.options import NEEDED, OWNABLE, UNSENT, PlanOptions, Side
from petsync.plan.plan import describe_clashes, hint_of
from petsync.plan.uploads import Uploads
from petsync.profile import ServiceProfile
from petsync.table.base import Base, SourceRow
from petsync.table.columns import ADDING, CLEAR, CLEARED, Column
from petsync.table.frame import (
    find_rows,
    has_action,
    has_id_in,
    ids_of,
    lacks_id,
    mask_rows,
    pets_from_frame,
    unique_texts,
)
from petsync.table.sheet import Sheet

__all__ = [
    "Decisions",
    "FoundPets",
    "NoChangeRule",
    "RowDecision",
    "SheetComparison",
]


# Decide the result of each row: a change, a conflict, or nothing.


FoundPets = Mapping[int, Pet | FailedLookup | None]
"""The results of getPetById for ids that the snapshot lacks: the pet, None for a 404, or a
failure.
"""


@dataclass(frozen=True, slots=True)
class SheetComparison:
    """The input of a plan: the store's records, the sheet, and the look-ups for them."""

    snapshot: Snapshot
    sheet: Sheet
    found: FoundPets
    """The results of the look-ups, by id, for ids that the snapshot lacks."""
    uploads: Uploads = field(default_factory=Uploads)
    """Photos that uploads added."""
    matches: Mapping[int, Match] = field(default_factory=dict)
    """By row, the results of matching rows without an id with the records of earlier runs."""
    missing_rows: Sequence[RowRecord] = ()
    """The rows without an id that the last run of this file had, and that are not in the sheet."""
    undone: Mapping[int, str] = field(default_factory=dict)
    """The ids of pets that undos removed, each with the id of the undone run."""
    restored: Mapping[int, RestoredPet] = field(default_factory=dict)
    """Pets that undos changed, with their values after the undo."""
    own_undone: frozenset[str] = frozenset()
    """The undone runs of this sheet, or of a sheet from the same export."""
    renumbered: Mapping[int, RenumberedPet] = field(default_factory=dict)
    """Pets that the service stored under another id, by the id with which they were added."""
    outside: frozenset[int] = frozenset()
    """The ids of pets outside the caller's scope; they are not deleted as missing."""
    fixed: Mapping[int, SourceRow] = field(default_factory=dict)
    """By id of the pets that a workbook of this sheet's failed rows updated, their rows in this
    sheet at the failed run. Only for a sheet without a base.
    """
    suspects: Mapping[int, Suspect] = field(default_factory=dict)
    """The rows, by number, whose id may refer to an earlier pet, not to the pet that has this id
    now.
    """
    removed: Mapping[int, RemovedPet] = field(default_factory=dict)
    """Pets that runs deleted, including undos."""
    is_unsure: bool = False
    """True if the history of the rows depends on categories or tags of pets that were not read."""


NoChangeRule = Literal[
    "agrees",
    "owned",
    "older",
    "recognised",
    "known-row",
    "gone",
    "not-there",
    "ignored",
    "both-changed",
]
"""The rule of a row without a change; "both-changed" if only its clashing fields differ."""


class RowDecision(NamedTuple):
    """The rules that decided a row, and the values that they used."""

    row: Row
    """The row."""
    no_change_rule: NoChangeRule | None
    """The rule if the row has neither a change nor a conflict about the whole row, else None."""
    old: Pet | None
    """The pet with the last values on which both sides agreed, None if they are not known."""
    fields: Mapping[Unit, FieldRule]
    """The rule of each unit; empty if the store does not have the row's pet."""


class _RowConflict(Exception):  # noqa: N818 - a decision for the caller, not an error
    """The decision that the whole row becomes a conflict. `column` is that of the cell to correct;
    "" if it is the id, or no single cell.
    """

    def __init__(
        self,
        rule: str,
        problem: str,
        suggestion: str,
        pet_id: int | None = None,
        column: Column | Literal[""] = "",
    ) -> None:
        super().__init__(problem)
        self.rule, self.problem, self.suggestion = rule, problem, suggestion
        self.pet_id, self.column = pet_id, column


class _Unknown(Enum):
    UNKNOWN = "no record decides the row"


_UNKNOWN = _Unknown.UNKNOWN
_OF_VOCABULARY = frozenset({"no-category-name", "category-spelling", "tag-spelling"})
"""The rules of conflicts that say something about the categories and tags of the store."""
_READ_ALL = 'plan with the whole store: --scope all (in Python scope="all")'
_INSTEAD: Mapping[Column, str] = {
    "name": "A name cannot be emptied; a missing value (None) changes nothing.",
    "category": 'Write "" to empty the field.',
}
_NEW_PET = "write `add-another` in the action column for a new pet"
_TEXTS: tuple[Column, ...] = ("name", "category")
_NUMBERED = re.compile(r"-?[0-9]+:\s*(.*)", re.DOTALL)
"""Matches a category that is written like a tag, with a number before the name."""


class Decisions:
    """The decisions on the rows of a sheet, which is compared with a snapshot.

    The attributes are complete after `decide()`. `changes` are in the order of the rows.
    `unchanged` is the number of unchanged rows.
    `sides.named` is a mask of the pets that rows name. `may_be` has, by row, the pets to which a
    row in conflict may belong. `uncertain` has the addresses of rows that may belong to any pet:
    rows without a reliable id that are blocked, ignored or in conflict. `withheld` has the rows
    that add a pet without some of their values, because of the fields' owners, and `unedited`, by
    field, the rows that send a value that was not edited. `unanswered` has the rows that depend on
    pets that were not read, because only single pets were; `unread_categories` has those of them
    whose category has another owner than the sheet.
    """

    def __init__(
        self,
        compared: SheetComparison,
        options: PlanOptions,
        profile: ServiceProfile,
        base: Base | None = None,
    ) -> None:
        self.sheet, self._found, snapshot = compared.sheet, compared.found, compared.snapshot
        self._options, self._profile = options, profile
        self._words = snapshot.known_pets
        self.vocabulary = snapshot.vocabulary
        self._failed_queries = snapshot.failed_queries
        self.judge = Judge(
            self.vocabulary,
            options.sheet_wins,
            compared.uploads,
            base,
            options.owners,
            restored=select_undos(compared.restored, compared.own_undone),
        )
        self._matches = compared.matches
        self._suspects = self._select_suspects(compared.suspects)
        self.sides = Alignment(
            self.sheet,
            snapshot.rows,
            base,
            self._suspects,
            unsent=options.unsent_units,
            always=[unit for unit, owner in options.owners.items() if owner == "sheet"],
        )
        self.uncertain = [*_find_untrusted_ids(self.sheet), *self._ignored_without_id()]
        self.unchanged = self.sides.unchanged
        self.changes: list[Change] = []
        self.conflicts: list[Conflict] = []
        self.may_be: dict[int, tuple[Identity, ...]] = {}
        self.remarks = Remarks(older=list(self.sides.older))
        self._rows: list[Row] = []
        self._usual_tags: dict[str, tuple[str, str, str]] = {}
        self._has_base = base is not None
        self._exported_at = (
            datetime.fromisoformat(base.taken_at) if base is not None and base.taken_at else None
        )
        self._missing_since = {} if base is None else base.missing_since
        self._undone, self._restored = compared.undone, compared.restored
        self._removed = {
            content(each.pet): each for each in compared.removed.values() if each.undoes
        }
        self._renumbered, self._fixed = compared.renumbered, compared.fixed
        self._known = self._claim_places()
        self._twins: dict[int, Sequence[int]] = {}
        self.withheld: list[int] = []
        self.unedited: dict[Unit, set[int]] = {}
        self._is_narrow = snapshot.coverage.is_narrow
        self.unanswered: list[int] = []
        self.unread_categories: list[int] = []
        self._no_change_rules: dict[int, NoChangeRule] = {}
        self._judged: dict[int, tuple[tuple[Unit, FieldRule], ...]] = {}

    def decide(self) -> None:
        self._rows = list(self.sides.rows())
        held_rows = set[int]()
        for row in self._rows:
            try:
                decision = self._decide_as_read(row)
            except _RowConflict as held:
                self._add_conflict(row, held)
                held_rows.add(row.number)
            else:
                if isinstance(decision, str):
                    self._no_change_rules[row.number] = decision
                else:
                    self.changes.append(decision)
        self.remarks.forget(held_rows)
        rows: dict[NoChangeRule, list[int]] = defaultdict(list)
        for number, rule in self._no_change_rules.items():
            rows[rule].append(number)
        self.unchanged += len(self._no_change_rules) - len(rows["both-changed"])
        self.remarks.older += rows["older"]
        self.remarks.deleted_in_store += rows["gone"]
        self._note_restored()
        self._note_unsent_values()

    def _note_unsent_values(self) -> None:
        """Record the rows whose values are not sent because of a field's owner."""
        found = self.remarks.unsent_values
        for unit in self._options.unsent_units:
            rows = self.sides.differing.get(unit, [])
            if unit == "category" and rows:
                rows = [*self._iter_other_categories(rows)]
            found[unit] = sorted({*rows, *found.get(unit, ())})

    def _iter_other_categories(self, rows: Sequence[int]) -> Iterator[int]:
        """Yield those of the rows whose category really differs from their pet's."""
        frame = self.sheet.rows
        at = find_rows(frame, rows)
        for row in iter_rows(frame, at, self.sides.places_of(at)):
            pet = self.sides.pet(row.place)
            old = self._base_of(row, pet.id)
            rules = dict(self.judge.judge(row.values, pet, old, ("category",)).rules)
            if _is_kept_by_owner(rules["category"]):
                name = None if pet.category is None else normalize(pet.category.name)
                if self._is_narrow and name == normalize(row.values.get("category")):
                    self.unread_categories.append(row.number)
                yield row.number

    def rows_of(self, pet_id: int) -> Iterator[RowDecision]:
        """Yield the decision on each row that names the pet, or that was recognised as its row."""
        frame = self.sheet.rows
        own = [row for row, each in self.remarks.recognised.items() if each == pet_id]
        pet = self.pet_of(pet_id)
        for row in iter_rows(frame, has_id_in(frame, {pet_id}) | mask_rows(frame, own)):
            old, rules = self._base_of(row, pet_id), dict(self._judged.get(row.number, ()))
            if pet is not None:
                # The comparison by columns has found the other units equal, or the row unedited.
                units = [unit for unit in UNITS if unit not in rules]
                known = None if row.action in ADDING else old
                rules |= self.judge.judge(row.values, pet, known, units).rules
            else:
                rules |= {unit: self._rule_of_unsent(unit) for unit in self._find_withheld(row)}
            yield RowDecision(row, self._find_no_change_rule(row), old, rules)

    def find_unit_rules(self, row: int) -> Mapping[Unit, FieldRule]:
        """Return the rules of the row's units that were compared with its pet one by one."""
        return dict(self._judged.get(row, ()))

    def pet_of(self, pet_id: int) -> Pet | None:
        """Return the pet as the store has it; None if the store does not have it or did not
        answer.
        """
        found = self._found.get(pet_id)
        return pet_of(pet_id, self.sides.pets) or (found if isinstance(found, Pet) else None)

    def _find_no_change_rule(self, row: Row) -> NoChangeRule | None:
        """Return the rule of a row without a change, None for other rows."""
        if row.action == "ignore":
            return "ignored"
        if row.number in self._decided:
            return self._no_change_rules.get(row.number)
        if row.number in self.sides.older:
            return "older"
        return "owned" if row.number in self._unsent_rows else "agrees"

    @cached_property
    def _unsent_rows(self) -> frozenset[int]:
        return frozenset().union(*self.remarks.unsent_values.values())

    @cached_property
    def _decided(self) -> frozenset[int]:
        """The rows that were decided one by one."""
        return frozenset(row.number for row in self._rows)

    def _note_restored(self) -> None:
        """Record the `older` rows that differ from the store because of an undo."""
        if not self._restored or not self.remarks.older:
            return
        places = positions_of(self._restored, self.sides.pets).tolist()
        as_left = {
            pet_id: each
            for (pet_id, each), place in zip(self._restored.items(), places, strict=True)
            if place >= 0 and not differing_columns(each.pet, self.sides.pet(place))
        }
        frame, known = self.sheet.rows, self.remarks.recognised
        ids: dict[Any, int] = {**known}
        if "id" in frame:
            ids = {**frame["id"].loc[self.remarks.older].dropna().to_dict(), **known}
        for row in self.remarks.older:
            if row in ids and ids[row] in as_left:
                self.remarks.restored[row] = as_left[ids[row]]

    def hold(
        self, conflicts: Iterable[Conflict], may_be: Mapping[int, tuple[Identity, ...]] = {}
    ) -> None:
        """Add these conflicts, and drop the changes that were already decided for their rows. The
        rows count as uncertain. `may_be` has the pets of rows that may belong to several.
        """
        conflicts = list(conflicts)
        self.conflicts += conflicts
        held = {each.row: each for each in conflicts if each.row is not None}
        if not held:
            return
        self.changes = [change for change in self.changes if change.row not in held]
        for row, each in held.items():
            if each.pet_id is not None and each.rule in _MAY_BE:
                self.may_be[row] = may_be.get(row, (each.pet_id,))
        self.uncertain += [each.source for each in held.values()]
        self.remarks.forget(held)

    def notes(self) -> Iterator[str]:
        """Yield a sentence on each thing that the user should check."""
        known = self.vocabulary.categories if self.remarks.categories else ()
        yield from self.remarks.notes(self.sheet.address, known)
        if self.remarks.tags:
            tags = {tag.name for tag in self.vocabulary.used_tags if tag.name}
            yield from self.remarks.iter_tag_notes(self.sheet.address, sorted(tags))
        yield from self.remarks.iter_owner_notes(self._options.owners, self.sheet.address)

    def _ignored_without_id(self) -> list[str]:
        frame = self.sheet.rows
        ignored = frame.index[~self.sides.active & lacks_id(frame)].tolist()
        return [self.sheet.address(row) for row in ignored]

    def _decide_as_read(self, row: Row) -> Change | NoChangeRule:
        """Return what `_decide` returns. Raises _RowConflict too if the decision depends on the
        categories or tags of pets that were not read.
        """
        vocabulary, before = self.vocabulary, len(self.conflicts)
        if not isinstance(vocabulary, UnreadVocabulary):
            return self._decide(row)
        vocabulary.questions.clear()
        try:
            decision = self._decide(row)
            # A row that asks for nothing new does not depend on the answers.
            if not vocabulary.questions or (
                isinstance(decision, str) and decision != "both-changed"
            ):
                return decision
        except _RowConflict as held:
            if vocabulary.questions or held.rule == "not-covered":
                self.unanswered.append(row.number)
            if not vocabulary.questions or held.rule not in _OF_VOCABULARY:
                raise
        else:
            self.unanswered.append(row.number)
        del self.conflicts[before:]
        names = first_items([*vocabulary.questions])
        problem = f"names the {names}, and its number in the store is not known: only the pets "
        raise _RowConflict(
            "not-covered",
            f"{problem}that rows name were read",
            f"To send the row, {_READ_ALL}.",
            row.pet_id,
        )

    def _decide(self, row: Row) -> Change | NoChangeRule:
        """Return the row's change, or the rule if it changes nothing. Raises _RowConflict if the
        row needs a decision.
        """
        if row.pet_id is not None:
            pet = self._pet_of(row, row.pet_id)
            if pet is not None and row.number in self._suspects:
                raise _conflict_of_reused_id(row, pet, self._suspects[row.number])
            return self._decide_pet(row, pet)
        match = self._matches.get(row.number)
        if match is not None and (change := self._decide_recorded(row, match)) is not _UNKNOWN:
            return change
        if self._is_narrow and row.action not in ("update", "delete"):
            problem = (
                "has no id, and may belong to a pet that was not read: only the pets that rows "
                "name were"
            )
            hint = f"Give the row its pet's id, or {_READ_ALL}."
            raise _RowConflict("not-covered", problem, hint)
        if row.action in ADDING:
            return self._add(row)
        matches = self._candidates_by_key(row)
        if len(matches) > 1:
            ids = ", ".join(str(pet.id) for _, pet in matches[:5])
            problem = f"matches several pets: {ids}"
            raise _RowConflict("matches-several", problem, f"Give the row its id, or {_NEW_PET}.")
        if matches:
            return self._decide_candidate(row, *matches[0])
        return self._decide_unmatched(row)

    def _decide_recorded(self, row: Row, match: Match) -> Change | NoChangeRule | _Unknown:
        """Return the change of a row that earlier runs may have recorded; _UNKNOWN if their records
        do not decide the row.
        """
        record = match.record
        if record.state == "unsent":
            self.remarks.unsent[row.number] = record
            return _UNKNOWN
        if match.kind == "other":
            self.remarks.replaced.append(row.number)
            return _UNKNOWN
        if match.kind == "certain" and record.pet_id is not None:
            return self._decide_known(row, match, record.pet_id)
        is_certain = match.kind == "certain"
        doubt = match if is_certain else self._doubts.get(row.number)
        if doubt is None and row.action == "merge" and self._was_about_removed_pets(row, match):
            raise _conflict_of_removed_pet(match, self.sheet.source)
        if doubt is None or (is_certain and row.number in self._identical):
            return _UNKNOWN
        self.may_be[row.number] = tuple(each.identity for each in doubt.records)
        record = doubt.record
        is_unclear = not record.is_sure and not self._may_be_there(record)
        raise (
            _conflict_of_unknown_add(record)
            if is_certain or is_unclear
            else self._conflict_of_doubt(doubt)
        )

    def _conflict_of_doubt(self, match: Match) -> _RowConflict:
        pet_ids = dict.fromkeys(each.pet_id for each in match.records)
        removed = [
            pet_id
            for pet_id in pet_ids
            if pet_id is not None and pet_id in self._ids and pet_id not in self.sheet.named_ids
        ]
        deletes = self._options.delete_missing
        return _conflict_of_doubt(match, self.sheet.source, removed, deletes=deletes)

    def _was_about_removed_pets(self, row: Row, match: Match) -> bool:
        """Return true if the row was in conflict about pets that are no longer in the store."""
        return (
            match.kind == "lost"
            and match.was_conflict
            and not any(map(self._may_be_there, match.records))
            and not self._candidates_by_key(row)
        )

    def _candidates_by_key(self, row: Row) -> Sequence[tuple[int, Pet]]:
        """Return the pets that agree with the row in the columns to match on."""
        return self._candidates.find_agreeing(row.values) if self._options.match_on else []

    @cached_property
    def _doubts(self) -> Mapping[int, Match]:
        """By row number, the matches in doubt that leave the row in conflict, with the most likely
        record of each first.
        """
        doubts = {
            row.number: match
            for row in (self._rows if self._matches else ())
            if row.pet_id is None and (match := self._find_doubt(row)) is not None
        }
        if not doubts:
            return {}
        taken = {m.record.identity for m in self._matches.values() if m.kind == "certain"}
        reused = {each.reused.pet.id for each in self._suspects.values()}
        taken |= {*ids_of(self.sheet.rows)} - reused
        chosen = choose_records(doubts, self.sheet, self.vocabulary, taken)
        first = {m.record.identity: row for row, m in chosen.items() if not m.is_shared}
        identical = {
            row: pet.id
            for row, (_, pet) in self._identical.items()
            if row in doubts and not doubts[row].is_contested
            if pet.id is not None and first.get(pet.id, row) == row
        }
        if not identical:
            return chosen
        # A row that has all values of its pet is no longer in doubt.
        rest = {row: match for row, match in doubts.items() if row not in identical}
        return choose_records(rest, self.sheet, self.vocabulary, taken | {*identical.values()})

    @cached_property
    def _first_of_doubts(self) -> frozenset[Identity]:
        """The most likely pets of the rows in doubt."""
        return frozenset(match.record.identity for match in self._doubts.values())

    def _find_doubt(self, row: Row) -> Match | None:
        """Return the row's match, with the records of pets to which it may belong; None if there
        are none.
        """
        match = self._matches.get(row.number)
        if match is None or match.kind not in ("doubt", "lost") or match.record.state == "unsent":
            return None
        if row.action == "add-another":
            # The action adds one pet. The row may be the one that requested this in the earlier
            # run.
            same = tuple(each for each in match.records if each.action == row.action)
            match = match._replace(records=same)
        if match.kind == "lost":
            match = match._replace(records=tuple(filter(self._may_be_there, match.records)))
            if self._candidates_by_key(row):
                return None
        return match if match.records else None

    def _may_be_there(self, record: RowRecord) -> bool:
        """Return true if the store may have the record's pet, or an undo removed it."""
        pet_id = record.pet_id
        if pet_id is None or pet_id in self._ids or record.is_undone:
            return True
        return self._found.get(pet_id) is not None

    def _decide_known(self, row: Row, match: Match, pet_id: int) -> Change | NoChangeRule:
        """Return the change of a row whose pet an earlier run added or recognised."""
        record = match.record
        was = f"was {record.how} on {record.on} as {pet_id}"
        place = self._known.get(row.number)
        if place is None:
            hint = "Remove one of the two rows, or correct the id in the other one."
            way = "write `add-another` in this row's action column"
            if row.action == record.action == "add-another":
                way = "write `ignore` in the action column of that row until the pet is added"
            hint += f" For another pet, {way}."
            if others := [r for r, s in self._suspects.items() if s.reused.pet.id == pet_id]:
                other = self.sheet.address(others[0], "id")
                hint = f"Remove the row at {other} if it refers to an earlier pet with that id."
            what = f"may be the row that {was}, with other values now" if match.is_edited else was
            raise _RowConflict(
                "added-claimed", f"{what}, and another row names that pet", hint, pet_id
            )
        pet = self.sides.pet(place) if place >= 0 else self._found.get(pet_id)
        if isinstance(pet, FailedLookup):
            problem = f"{was}, which could not be looked up: {pet.problem}"
            raise _RowConflict(
                "not-looked-up", problem, "Plan again once the service answers.", pet_id
            )
        if pet is None:
            if row.action == "delete":
                return "not-there"
            hint = (
                f"Remove the row; or, to add the pet again, write {pet_id} into its id cell and "
                "`add` into its action cell."
            )
            raise _RowConflict(
                "added-gone", f"{was}, and that pet is no longer in the store", hint, pet_id
            )
        self.remarks.recognised[row.number] = pet_id
        self.remarks.known[row.number] = record
        return self._decide_pet(row, pet)

    def _claim_places(self) -> dict[int, int]:
        """Return, by row, the positions of the pets that earlier runs added or recognised, -1 for a
        pet that is not in the snapshot. Mark these pets as named.

        A pet that another row names by its id is omitted, so that no pet gets two rows.
        """
        if not self._recorded:
            return {}
        named = {*ids_of(self.sheet.rows), *self.sheet.blocked_ids}
        free = {row: pet_id for row, pet_id in self._recorded.items() if pet_id not in named}
        return dict(zip(free, self.sides.claim(free.values()), strict=True))

    @cached_property
    def _recorded(self) -> Mapping[int, int]:
        """By row, the pets that earlier runs certainly added or recognised from rows without an
        id.
        """
        return {
            row: match.record.pet_id
            for row, match in self._matches.items()
            if match.kind == "certain" and match.record.pet_id is not None
        }

    def _select_suspects(self, suspects: Mapping[int, Suspect]) -> Mapping[int, Suspect]:
        """Return the suspect rows that become conflicts.

        A suspect row becomes a conflict if it certainly belongs to an earlier pet, or if a row
        without an id may belong to the pet that has its id.
        """
        if not suspects:
            return {}
        known = {
            record.pet_id
            for match in self._matches.values()
            if match.kind != "other"
            for record in match.records
        }
        ids = self.sheet.rows["id"]
        return {row: each for row, each in suspects.items() if each.is_sure or ids.at[row] in known}

    def _pet_of(self, row: Row, pet_id: int) -> Pet | None:
        if row.place >= 0:
            return self.sides.pet(row.place)
        pet = self._found.get(pet_id)
        if isinstance(pet, FailedLookup):
            problem = f"names pet {pet_id}, which could not be looked up: {pet.problem}"
            raise _RowConflict(
                "not-looked-up", problem, "Plan again once the service answers.", pet_id
            )
        return pet

    def _decide_candidate(self, row: Row, place: int, pet: Pet) -> Change | NoChangeRule:
        if self.sides.named[place]:
            problem = f"matches pet {pet.id}, which another row already names"
            hint = f"Give each row its id, or {_NEW_PET}."
            raise _RowConflict("claimed-twice", problem, hint, pet.id)
        self._recognise(row, place, pet)
        return self._decide_pet(row, pet)

    def _decide_unmatched(self, row: Row) -> Change | NoChangeRule:
        if row.action in ("update", "delete"):
            problem = f"is to {row.action} a pet, but has no id"
            raise _RowConflict("no-id", problem, "Give the row the pet's id.")
        identical = self._identical.get(row.number)
        if identical is None:
            self._check_unsent_key(row)
            return self._add(row)
        place, pet = identical
        if pet.id is not None and pet.id in self._first_of_doubts:
            self.may_be[row.number] = (pet.id,)
            problem = f"looks like pet {pet.id}, which has its name and all its values{SHARED}"
            hint = f"Give the row the id {pet.id}, or {_NEW_PET}."
            raise _RowConflict("looks-alike", problem, hint, pet.id)
        self._recognise(row, place, pet)
        self.remarks.identical.append(row.number)
        unsent = self._options.unsent_units
        if unsent:
            judged = self.judge.judge(row.values, pet, None, [u for u in UNITS if u in unsent])
            self._note_kept_by_owner(row, judged)
        return "recognised"

    def _check_unsent_key(self, row: Row) -> None:
        """Raise _RowConflict if a column to match on is not sent, and a pet in no row has the name
        and all sent values of the row: an earlier run may have added it from the row.
        """
        unsent = self._options.unsent_units - {"name"}
        key = [column for column in self._options.match_on if OWNABLE[column] in unsent]
        if not key:
            return
        values = without_units(row.values, unsent)
        for place, pet in self._namesakes.find_agreeing(values):
            after = merge_row(pet, values, self.vocabulary)
            if not self.sides.named[place] and not differing_columns(after, pet):
                columns = ", ".join(key)
                problem = (
                    f"looks like pet {pet.id}, which has its name and all its sent values. "
                    f"They differ only in {columns}, which a new pet does not get from its row"
                )
                if pet.id is not None:
                    self.may_be[row.number] = (pet.id,)
                raise _RowConflict(
                    "looks-alike", problem, f"Give the row the id {pet.id}, or {_NEW_PET}.", pet.id
                )

    @cached_property
    def _namesakes(self) -> Candidates:
        """The pets, by name, that no row names and that match no row without an id."""
        free = ~self.sides.named
        for row in self._rows:
            if row.pet_id is None and row.action not in ADDING:
                matches = self._candidates.find_agreeing(row.values)
                free[[place for place, _ in matches]] = False
        return Candidates(self.sides.pets, free, self._free_names, ())

    def _recognise(self, row: Row, place: int, pet: Pet) -> None:
        self.sides.named[place] = True
        if pet.id is not None:
            self.remarks.recognised[row.number] = pet.id

    def _decide_pet(self, row: Row, pet: Pet | None) -> Change | NoChangeRule:
        """Return the change of a row whose pet is known, or known to be missing."""
        old = self._base_of(row, row.pet_id if pet is None else pet.id)
        if pet is None:
            return self._decide_missing_pet(row, old)
        if row.action == "delete":
            return self._delete(row, pet, old)
        return self._update(row, pet, old)

    def _base_of(self, row: Row, pet_id: int | None) -> Pet | None:
        """Return the exported pet or, for a row whose pet a run added or recognised, the values on
        which both sides last agreed. If the row was fixed in a workbook of failed rows, these are
        its values at the failed run.
        """
        old, record = self.sides.find_exported(pet_id), self.remarks.known.get(row.number)
        if old is None and pet_id is not None and pet_id in self._fixed:
            origin = self._fixed[pet_id]
            return self._agreed_on(pet_id, origin.row_pet or Pet(), origin.category)
        has_agreed = record is not None and bool(
            (self._has_base and record.base) or record.fixed_in
        )
        if old is not None or record is None or not has_agreed:
            return old
        return self._agreed_on(pet_id, record.last_agreed, record.category)

    def _agreed_on(self, pet_id: int | None, values: Pet, cells: Category | None) -> Pet:
        """Return the values as those of the pet, and remember the row's category cells if they
        differ.
        """
        old = msgspec.structs.replace(values, id=pet_id)
        if cells is not None and pet_id is not None:
            row_pet = msgspec.structs.replace(old, category=cells)
            self.judge.last_row_pets[pet_id] = row_pet
        return old

    def _decide_missing_pet(self, row: Row, old: Pet | None) -> Change | NoChangeRule:
        if row.action == "delete":
            return "not-there"
        if row.action == "update":
            problem = f"is to update pet {row.pet_id}, which the store does not have"
            hint = "Correct the id, or write `add`."
            raise _RowConflict("no-such-pet", problem, hint, row.pet_id)
        if row.action in ADDING or old is None:
            self._check_renumbered(row)
            return self._add(row)
        run = self._undone.get(row.pet_id or 0)
        sent_units = [unit for unit in UNITS if unit not in self._options.unsent_units]
        if self.judge.edits(row.values, old, sent_units):
            problem = (
                f"was edited, and pet {row.pet_id} has been deleted from the store since the export"
            )
            if since := self._missing_since.get(row.pet_id or 0):
                on = datetime.fromisoformat(since).astimezone()
                problem = (
                    f"has the id of pet {row.pet_id}, which has been missing since {on:%Y-%m-%d}"
                )
            if run:
                problem = f"was edited, and the undo of run {run} removed pet {row.pet_id}"
            hint = "Write `add` in the action column to add it again, or remove the row."
            raise _RowConflict("gone-edited", problem, hint, row.pet_id)
        if run:
            self.remarks.undone[row.number] = run
        return "gone"

    def _check_renumbered(self, row: Row) -> None:
        """Raise _RowConflict if an earlier run added the row's pet and the store has it under
        another id.

        A row of another sheet with another name belongs to another pet.
        """
        known = self._renumbered.get(row.pet_id or 0)
        if known is None:
            return
        (place,) = positions_of([known.pet_id], self.sides.pets).tolist()
        is_there = place >= 0 or isinstance(self._found.get(known.pet_id), Pet)
        is_same = normalize(row.values.get("name")) == normalize(known.name)
        if is_there and (is_same or known.source == self.sheet.source):
            if place >= 0:
                self.sides.named[place] = True
            problem = (
                f"was added on {_when(known, self.sheet.source)} as {known.pet_id}: the service "
                f"gave the pet this id instead of {row.pet_id}"
            )
            hint = (
                f"Write {known.pet_id} into the id cell; or, to add another pet, remove the id and "
                "write `add-another` in the action column."
            )
            raise _RowConflict("added-renumbered", problem, hint, known.pet_id)

    def _delete(self, row: Row, pet: Pet, old: Pet | None) -> Change | NoChangeRule:
        undo = self._restored.get(pet.id or 0)
        never = {column for unit in self._options.never_units for column in COLUMNS_OF[unit]}
        if undo is not None and self._is_same_delete(undo, old):
            self.remarks.restored[row.number] = undo
            return "older"
        if old is not None and (
            moved := [c for c in self.judge.find_moved_columns(pet, old) if c not in never]
        ):
            problem = (
                f"is to delete pet {pet.id}, but the store changed its {', '.join(moved)} since "
                "the export"
            )
            raise _RowConflict("delete-changed", problem, "Export again, and decide again.", pet.id)
        if unsure := self.judge.find_older_units(row.values, pet, old):
            problem = (
                f"is to delete pet {pet.id}, and has other values in {', '.join(unsure)}: the row "
                "may be older than a change in another copy of the sheet"
            )
            raise _RowConflict("delete-changed", problem, "Export again, and decide again.", pet.id)
        name = row.values.get("name")
        if old is None and name and normalize(name) != normalize(pet.name):
            self.remarks.misnamed[row.number] = (pet, name)
        self._note_undone_values(row, pet, old, UNITS)
        return Delete(row=row.number, source=self._source(row), before=pet)

    def _is_same_delete(self, undo: RestoredPet, old: Pet | None) -> bool:
        """Return true if the mark `delete` of a row is older than the undo that restored its pet.

        Without a base, a mark in a sheet of the same name counts as older.
        """
        if self._exported_at is not None:
            # A round's base has no pet that a run deleted.
            return old is None or (
                undo.kind == "delete" and self._exported_at < datetime.fromisoformat(undo.at)
            )
        return undo.kind == "delete" and _have_same_name(undo.source, self.sheet.source)

    def _note_repeat(self, row: Row, pet: Pet, judged: Judgement) -> None:
        """Note an update that makes an undone change again."""
        undo = self._restored.get(pet.id or 0)
        if (
            undo is not None
            and undo.sent is not None
            and (self._exported_at is None or self._exported_at < datetime.fromisoformat(undo.at))
            and all(
                equal(judged.after, undo.sent, column) and equal(pet, undo.pet, column)
                for column in judged.fields
            )
        ):
            self.remarks.repeated[row.number] = (undo.run, undo.undo)

    def _note_undone_values(
        self, row: Row, pet: Pet, old: Pet | None, units: Iterable[Unit]
    ) -> None:
        """Note the first undo whose values the row replaces or deletes."""
        found = (self.judge.find_undo(unit, pet, old) for unit in units if old is not None)
        if (undo := next(filter(None, found), None)) is not None:
            self.remarks.replaces_restored[row.number] = (undo.run, undo.undo)

    def _update(self, row: Row, pet: Pet, old: Pet | None) -> Change | NoChangeRule:
        if row.action in ADDING and not self._has_added(row, old):
            old = None
        judged = self.judge.judge(row.values, pet, old, row.units)
        self._judged[row.number] = judged.rules
        if "photo_urls" in row.units and self.judge.keeps_photos(row.values, pet, old):
            self.remarks.uploaded.append(row.number)
        self._note_kept_by_owner(row, judged)
        edits = self._find_category_edits(row, old)
        if has_contradiction(edits, self.vocabulary):
            self.remarks.by_name.append(row.number)
        if not judged.fields and not judged.clashes:
            return self._keep(row, pet, judged)
        self._check(row, pet, old, judged, edits)
        if judged.clashes:
            self._clash(row, pet, old, judged)
        if not judged.fields:
            return "both-changed"
        # The conflict has the remarks on clashing fields.
        plain = [c for c in judged.fields if c not in {each.column for each in judged.clashes}]
        self._note_category(row, plain)
        if "tags" in plain:
            self._note_tags(row, pet, judged.after)
        if "name" in plain:
            self._note_name(row, old)
        self._note_overwritten(row, pet, old, judged)
        self._note_repeat(row, pet, judged)
        self._note_undone_values(
            row, pet, old, [unit for unit, rule in judged.rules if rule == "undone"]
        )
        return Update(
            row=row.number,
            source=self._source(row, find_row_columns(judged.fields, row.values)[0]),
            fields=judged.fields,
            before=pet,
            after=judged.after,
        )

    def _has_added(self, row: Row, old: Pet | None) -> bool:
        """Return true if an earlier run did what the row's action says, and nothing in the row was
        edited since.
        """
        record = self.remarks.known.get(row.number)
        is_same = record is not None and record.is_added and record.action == row.action
        return is_same and old is not None and not self.judge.edits(row.values, old, row.units)

    def _note_kept_by_owner(self, row: Row, judged: Judgement) -> None:
        """Note the values that are not sent because of a field's owner."""
        for unit, rule in judged.rules:
            if _is_kept_by_owner(rule):
                self.remarks.unsent_values.setdefault(unit, []).append(row.number)

    def _find_category_edits(self, row: Row, old: Pet | None) -> RowValues:
        """Return the row's values from which its category comes; {} if it is not compared."""
        owner = self._options.owners.get("category")
        if "category" not in row.units or owner in UNSENT:
            return {}
        edits = self.judge.edits(row.values, old, ("category",))
        return edits or (row.values if owner == "sheet" else {})

    def _note_overwritten(self, row: Row, pet: Pet, old: Pet | None, judged: Judgement) -> None:
        """Note the store's changes since the export that values of the sheet replace."""
        for unit, rule in judged.rules:
            if rule == "owner-sheet" and old is not None and changed_columns(old, pet, unit):
                text = unit_text(pet, unit, cell)
                self.remarks.overwritten.setdefault(unit, {})[row.number] = text
                if not self.judge.edits(row.values, old, (unit,)):
                    self.unedited.setdefault(unit, set()).add(row.number)

    def _keep(self, row: Row, pet: Pet, judged: Judgement) -> NoChangeRule:
        """Return the rule of a row that changes nothing."""
        if self.judge.is_older(judged, row.values, pet):
            return "older"
        if any(_is_kept_by_owner(rule) for _, rule in judged.rules):
            return "owned"
        if row.number in self.remarks.known:
            return "known-row"
        return "recognised" if row.number in self.remarks.recognised else "agrees"

    def _note_name(self, row: Row, old: Pet | None) -> None:
        """Note possible mistakes in a name that changes."""
        name = row.values["name"]
        if old is not None and is_converted(old.name, name):
            self.remarks.converted[row.number] = (str(old.name), name)
        record = self.remarks.known.get(row.number)
        if record is not None and is_renamed(record, merge_row(Pet(), row.values, self.vocabulary)):
            self.remarks.renamed[row.number] = (record, name)

    def _check(
        self, row: Row, pet: Pet, old: Pet | None, judged: Judgement, edits: RowValues
    ) -> None:
        """Raise _RowConflict if the user probably did not intend the change."""
        if old is not None and not self._profile.assigns_unique_ids and is_another(old, pet):
            raise _conflict_of_replaced_pet(old, pet)
        if is_nameless_category(pet.category, edits, self.vocabulary):
            raise self._conflict_of_nameless_category(row, pet.id)
        if row.action in ADDING:
            differs = [*judged.fields, *(clash.column for clash in judged.clashes)]
            problem = (
                f"is to add pet {pet.id}, which already exists and differs in {', '.join(differs)}"
            )
            hint = "Write `update`, or leave the action blank"
            hint += "." if row.pet_id is None else "; for a new pet, leave the id blank."
            raise _RowConflict("exists", problem, hint, pet.id)
        if "status" in judged.fields and not normalize(judged.after.status):
            problem = (
                "would leave its pet with no status, and no query of the service could find the pet"
            )
            raise _RowConflict("no-status", problem, self._describe_statuses(), pet.id, "status")
        self._check_spelling(row, judged.fields, pet, judged.after)

    def _clash(self, row: Row, pet: Pet, old: Pet | None, judged: Judgement) -> None:
        forced = judged
        if not self.judge.sheet_wins:
            forced = replace(self.judge, sheet_wins=True).judge(row.values, pet, old, row.units)
        clashes = [
            self._annotate_clash(clash, row, self._find_refusal(clash, row, pet, forced))
            for clash in judged.clashes
        ]
        source = self._source(row, _column(clashes[0].column, row.values))
        sides: tuple[Side, ...] = ("sheet", "store")
        for winner in sides:
            is_sheets = winner == "sheet"
            own = tuple(c for c in clashes if _wins(c, judged) is is_sheets)
            if own:
                self.conflicts.append(
                    Conflict(
                        row=row.number,
                        source=source,
                        pet_id=pet.id,
                        name=pet.name or "",
                        rule="both-changed",
                        problem=describe_clashes(pet.id, own),
                        suggestion=hint_of(winner, own),
                        clashes=own,
                        winner=winner,
                        before=pet,
                        after=forced.after,
                        says=find_row_columns(forced.fields, row.values),
                    )
                )

    def _find_refusal(self, clash: Clash, row: Row, pet: Pet, forced: Judgement) -> str:
        """Return why the sheet's value of a clash cannot be sent, "" if it can. `forced` is the
        judgement in which the sheet wins.
        """
        if not _wins(clash, forced):  # Only a status that the sheet clears cannot win.
            return "the pet would have no status, and no query of the service could find it"
        fields = [column for column in forced.fields if OWNABLE[column] == clash.column]
        try:
            self._check_spelling(row, fields, pet, forced.after)
        except _RowConflict as held:
            return f"the row {held.problem}"
        return ""

    def _annotate_clash(self, clash: Clash, row: Row, refused: str) -> Clash:
        """Return the clash with notes on the sheet's value, and with the reason why it is
        `refused`, if it is.
        """
        remarks = Remarks()
        if clash.column == "category" and self._is_new(row.values.get("category")):
            remarks.categories[row.values["category"]] = [row.number]
        if clash.column == "name" and is_converted(clash.base, row.values["name"]):
            remarks.converted[row.number] = (clash.base, row.values["name"])
        known = self.vocabulary.categories if remarks.categories else ()
        note = " ".join(remarks.notes(self.sheet.address, known))
        return msgspec.structs.replace(clash, refused=refused, note=note)

    def _add(self, row: Row) -> Add:
        if self._is_narrow and self._profile.capacity is not None:
            problem = (
                f"would add a pet. The service, which keeps {self._profile.capacity:,}, may "
                "drop another for it: the store's pets were not counted, because only the pets "
                "that rows name were read"
            )
            raise _RowConflict("not-covered", problem, f"To add it, {_READ_ALL}.", row.pet_id)
        withheld = self._find_withheld(row)
        values = without_units(row.values, withheld)
        after = merge_row(Pet(id=row.pet_id), values, self.vocabulary)
        if not normalize(after.name) and "name" in self._profile.required:
            hint = "Give it a name, or the id of its pet."
            raise _RowConflict(
                "no-name", "would be a new pet without a name", hint, row.pet_id, "name"
            )
        if not normalize(after.status):
            problem = (
                "would be a new pet without a status, which no query of the service could find"
            )
            raise _RowConflict(
                "no-status", problem, self._describe_statuses(), row.pet_id, "status"
            )
        if is_nameless_category(None, values, self.vocabulary):
            raise self._conflict_of_nameless_category(row, row.pet_id)
        if has_contradiction(values, self.vocabulary):
            self.remarks.by_name.append(row.number)
        fields = find_filled_columns(after)
        self._check_spelling(row, fields, None, after)
        self._note_category(row, fields)
        self._note_tags(row, None, after)
        alike = [] if row.pet_id is not None else self._alike.get(content(after), [])
        if row.pet_id is None and row.action != "add-another":
            self._check_repeats(row, content(after))
            self._check_twins(row, alike, content(after))
        self._note_owners_of_new(row, withheld)
        if (removed := self._removed.get(content(after))) is not None:
            self.remarks.repeated[row.number] = (removed.undoes, removed.run)
        source = self._source(row)
        return Add(row=row.number, source=source, fields=fields, after=after, alike=len(alike))

    def _check_repeats(self, row: Row, sent: Hashable) -> None:
        """Raise _RowConflict if a row without an id would add a pet with the same values, `sent`,
        as an earlier row without an id.
        """
        first = self._first_rows.get(sent, row.number)
        if first != row.number:
            problem = f"has no id, and the same values as the row at {self.sheet.address(first)}"
            hint = "Remove the row, or write `add-another` as its action to add another pet."
            raise _RowConflict("twin", problem, hint)

    @cached_property
    def _first_rows(self) -> Mapping[Hashable, int]:
        """By the content to send, the first of the rows without an id that have the name of another
        one. Rows with the action `add-another` do not count.
        """
        frame = self.sheet.rows
        if "name" not in frame:
            return {}
        is_free = self.sides.active & lacks_id(frame) & ~has_action(frame, "add-another")
        names = Counter(map(normalize, frame["name"].array[is_free].dropna()))
        repeated = {name for name, number in names.items() if number > 1 and name}
        if not repeated:
            return {}
        found: dict[Hashable, int] = {}
        for row in iter_rows(frame, is_free & names_among(frame["name"], repeated)):
            found.setdefault(self._content_of_add(row), row.number)
        return found

    def _content_of_add(self, row: Row) -> Hashable:
        """Return the content of the pet that the row would add."""
        values = without_units(row.values, self._find_withheld(row))
        return content(merge_row(Pet(), values, self.vocabulary))

    def _check_twins(self, row: Row, alike: Sequence[int], sent: Hashable) -> None:
        """Raise _RowConflict if a row with the action `add` would add a pet that exists. `sent` has
        the values to send, and `alike` the pets with these values. `hold_twins` holds back the rows
        whose action leaves open whether the pet exists: other rules may decide about them.
        """
        twins = [*alike]
        if self._options.owners:
            whole = merge_row(Pet(), row.values, self.vocabulary)
            twins += self._alike.get(content(whole), [])
        if not twins:
            twins += self._named_alike.get(sent, ())
        if twins and row.action == "add":
            used = self._used_ids()
            self.may_be[row.number] = (twins[0],)
            raise _conflict_of_twin(twins, used)
        if twins:
            self._twins[row.number] = twins

    def _used_ids(self) -> set[Identity]:
        """Return the pets that rows name, or that are the most likely ones of rows in doubt."""
        recognised = self.remarks.recognised.values()
        return {*self.sheet.named_ids, *recognised, *self._first_of_doubts}

    def hold_twins(self) -> None:
        """Make conflicts of the adds whose pets exist, by their values."""
        used = self._used_ids() if self._twins else set()
        adds = {change.row for change in self.changes if isinstance(change, Add)}
        rows = [row for row in self._rows if row.number in self._twins and row.number in adds]
        self.hold(
            [
                self._build_conflict(row, _conflict_of_twin(self._twins[row.number], used))
                for row in rows
            ]
        )

    @cached_property
    def _named_alike(self) -> Mapping[Hashable, list[int]]:
        """By content, the ids in rows with the name of a row without an id."""
        frame = self.sheet.rows
        if "id" not in frame or "name" not in frame:
            return {}
        is_named = (
            ~lacks_id(frame) & self.sides.active & names_among(frame["name"], self._free_names)
        )
        found: defaultdict[Hashable, list[int]] = defaultdict(list)
        for row in iter_rows(frame, is_named):
            if row.pet_id is not None:
                found[self._content_of_add(row)].append(row.pet_id)
        return found

    def _note_owners_of_new(self, row: Row, withheld: Collection[Unit]) -> None:
        """Note the values that a new pet does not get, or gets although the sheet does not own the
        field.
        """
        for unit in withheld:
            self.remarks.unsent_values.setdefault(unit, []).append(row.number)
        for unit in self._options.unsent_units.intersection(NEEDED):
            if has_value(row.values, unit):
                self.remarks.initial_values.setdefault(unit, []).append(row.number)
        if withheld:
            self.withheld.append(row.number)

    def _find_withheld(self, row: Row) -> list[Unit]:
        """Return the units of a row that are not sent if the row adds a pet."""
        units = (unit for unit in UNITS if unit in self._options.unsent_units)
        return [
            unit
            for unit in units
            if unit not in NEEDED and has_value(_find_filled(row.values), unit)
        ]

    def _rule_of_unsent(self, unit: Unit) -> FieldRule:
        return "owner-store" if self._options.owners[unit] == "store" else "owner-never"

    def _conflict_of_nameless_category(self, row: Row, pet_id: int | None) -> _RowConflict:
        problem = f"names the category {row.values['category_id']}, which the store does not have"
        hint = "Write the category's name as well."
        if normalize(row.values.get("category")):
            hint = "The name belongs to another category: correct the id, or write a new name."
        return _RowConflict("no-category-name", problem, hint, pet_id, "category_id")

    def _describe_statuses(self) -> str:
        return f"Give it a status: {', '.join(self._profile.statuses)}."

    def _check_spelling(
        self, row: Row, fields: Sequence[Column], current: Pet | None, new: Pet
    ) -> None:
        """Raise _RowConflict for a text that is probably a mistake: the marker `[clear]`, a damaged
        text, or a new category or tag that seems to be another spelling of a known one. Also raise
        it for a new category or tag if not all pets of the store were listed.

        A new category or tag that has a number is intended.
        """
        pet_id = row.pet_id if current is None else current.id
        self._check_marker(row, fields, pet_id)
        self._check_damage(row, fields, current, pet_id)
        if "category" in fields:
            self._check_category(row, pet_id)
            has_number = new.category is not None and known_id(new.category.id) is not None
            if not has_number and self._is_new(row.values.get("category")):
                self._check_coverage("category", normalize(row.values.get("category")), pet_id)
        if "tags" in fields:
            self._check_tags(current, new, pet_id)

    def _check_tags(self, current: Pet | None, new: Pet, pet_id: int | None) -> None:
        """Raise _RowConflict for a new tag without a number as `_check_spelling` does."""
        for name in _find_unnumbered_tags(current, new):
            if name not in self._usual_tags:
                self._usual_tags[name] = self._find_usual_tag(name)
            usual, who, way = self._usual_tags[name]
            if usual:
                problem = f"names the tag {name!r}, and {who} {usual!r}"
                hint = f"{way}, or give the tag a number to have both: `{self._numbered(name)}`."
                raise _RowConflict("tag-spelling", problem, hint, pet_id, "tags")
            if self._is_new_tag(name):
                self._check_coverage("tag", name, pet_id)

    def _numbered(self, name: str) -> str:
        """Return how a tag with a number is written in this sheet."""
        if not self.sheet.is_table:
            return f"NUMBER:{name}"
        quoted = json.dumps(name, ensure_ascii=False)
        is_file = bool(self.sheet.digest)
        return f'{{"id": NUMBER, "name": {quoted}}}' if is_file else f"ps.Tag(NUMBER, {quoted})"

    def _check_coverage(self, what: str, name: str, pet_id: int | None) -> None:
        """Raise _RowConflict if pets that were not listed may have the category or tag."""
        if self._failed_queries:
            queries = ", ".join(each.query for each in self._failed_queries)
            problem = (
                f"names the {what} {name!r}, whose number could not be looked up: the store did "
                f"not list its pets of status {queries}"
            )
            raise _RowConflict(
                "not-looked-up", problem, "Plan again once the service answers.", pet_id
            )

    def _check_marker(self, row: Row, fields: Sequence[Column], pet_id: int | None) -> None:
        """Raise _RowConflict if a value of a DataFrame is the marker `[clear]`, which would be sent
        as plain text.
        """
        if not self.sheet.is_table:
            return
        for column, hint in _INSTEAD.items():
            if column in fields and normalize(row.values.get(column)).casefold() == CLEAR:
                problem = f"has {CLEAR!r} in {column}, which is plain text in a DataFrame"
                raise _RowConflict("clear-text", problem, hint, pet_id, column)

    def _check_damage(
        self, row: Row, fields: Sequence[Column], current: Pet | None, pet_id: int | None
    ) -> None:
        """Raise _RowConflict if the row would replace a text of the store with the same text in a
        wrong encoding, or without the letters that an encoding lacks.
        """
        self._check_lost_letters(row, fields, current, pet_id)
        for column in _TEXTS if self._damaged else ():
            undamaged = self._damaged.get((row.number, column), "") if column in fields else ""
            had = None if current is None else cell(current, column)
            is_known = (
                column == "category" and self.vocabulary.category_named(undamaged) is not None
            )
            if undamaged and (normalize(undamaged) == normalize(had) or is_known):
                problem = (
                    f"has {row.values.get(column)!r} in {column}, and the store has "
                    f"{undamaged!r}: a program has read the text in a wrong encoding"
                )
                hint = f"Write {undamaged!r}, or leave the cell blank to change nothing."
                raise _RowConflict("damaged-text", problem, hint, pet_id, column)

    def _check_lost_letters(
        self, row: Row, fields: Sequence[Column], current: Pet | None, pet_id: int | None
    ) -> None:
        found: list[tuple[Column, str | None]] = [
            (column, row.values.get(column)) for column in _TEXTS if column in fields
        ]
        if "tags" in fields:
            found += [("tags", tag.name) for tag in row.values.get("tags") or ()]
        for column, text in found:
            if not text or not ("?" in text or "\ufffd" in text):
                continue
            originals: list[str | None] = []
            if column == "name" and current is not None:
                originals = [current.name]
            elif column == "category":
                originals = [*self.vocabulary.categories]
            elif column == "tags":
                originals = [tag.name for tag in self.vocabulary.used_tags]
            original = next((each for each in originals if has_lost_letters(text, each)), None)
            if original is not None:
                problem = (
                    f"has {text!r} in {column}, and the store has {original!r}: a program has "
                    "replaced letters that its encoding lacks"
                )
                hint = f"Write {original!r}, and save CSV files as UTF-8."
                raise _RowConflict("damaged-text", problem, hint, pet_id, column)

    @cached_property
    def _damaged(self) -> Mapping[tuple[int, str], str]:
        """The probable original texts of damaged cells, by row and column."""
        return {
            (each.row, each.column): each.meant
            for each in self.sheet.problems
            if each.rule == "damaged-characters" and each.meant
        }

    def _find_usual_tag(self, name: str) -> tuple[str, str, str]:
        if not self._is_new_tag(name):
            return "", "", ""
        return _find_usual_spelling(name, self.vocabulary.tag_spelled(name), self._new_tags)

    def _check_category(self, row: Row, pet_id: int | None) -> None:
        name = str(row.values.get("category") or "")
        if not self._is_new(name) or self._has_new_number(row):
            return
        known = self.vocabulary.category_spelled(name)
        numbered = _NUMBERED.fullmatch(normalize(name))
        if known is None and numbered:
            known = self.vocabulary.category_spelled(numbered[1])
        usual, who, way = _find_usual_spelling(normalize(name), known, self._new_categories)
        if usual:
            problem = f"names the category {name!r}, and {who} {usual!r}"
            hint = f"{way}, or give {name!r} another category_id to have both."
            raise _RowConflict("category-spelling", problem, hint, pet_id, "category")

    def _has_new_number(self, row: Row) -> bool:
        """Return true if the row has a category_id that no category of the store has."""
        number = known_id(row.values.get("category_id"))
        return number is not None and self.vocabulary.category_numbered(number) is None

    @cached_property
    def _new_categories(self) -> Mapping[str, Counter[str]]:
        """The new categories, with the number of rows that name each, by the normal form of their
        spelling. Rows with a new category_id do not count.
        """
        rows = (row for row in self._rows if not self._has_new_number(row))
        names = Counter(str(row.values.get("category") or "") for row in rows)
        return _by_spelling({name: n for name, n in names.items() if self._is_new(name)})

    @cached_property
    def _new_tags(self) -> Mapping[str, Counter[str]]:
        """The new tags without an id, with the number of rows that name each, by the normal form of
        their spelling.
        """
        names = Counter(
            tag.name or ""
            for row in self._rows
            for tag in row.values.get("tags") or ()
            if known_id(tag.id) is None
        )
        return _by_spelling({name: n for name, n in names.items() if self._is_new_tag(name)})

    def _note_category(self, row: Row, fields: Sequence[Column]) -> None:
        name = row.values.get("category")
        if "category" in fields and self._is_new(name):
            self.remarks.categories.setdefault(str(name), []).append(row.number)

    def _note_tags(self, row: Row, current: Pet | None, new: Pet) -> None:
        for name in filter(self._is_new_tag, _find_unnumbered_tags(current, new)):
            self.remarks.tags.setdefault(name, []).append(row.number)

    def _is_new(self, category: str | None) -> bool:
        if not category or category == CLEARED:
            return False
        return self.vocabulary.category_named(category) is None and bool(normalize(category))

    def _is_new_tag(self, name: str | None) -> bool:
        return bool(normalize(name)) and self.vocabulary.tag_named(str(name)) is None

    def _add_conflict(self, row: Row, conflict: _RowConflict) -> None:
        is_new = row.pet_id is None or (row.pet_id < 1 and not self._is_there(row))
        if is_new or self._has_id_of_another(row):
            self.uncertain.append(self._source(row))
        self.conflicts.append(self._build_conflict(row, conflict))

    def _build_conflict(self, row: Row, conflict: _RowConflict) -> Conflict:
        column = conflict.column
        has_cell = column in self.sheet.columns
        return Conflict(
            row=row.number,
            source=self.sheet.address(row.number, column) if has_cell else self._source(row),
            pet_id=conflict.pet_id,
            name=self._name(row),
            rule=conflict.rule,
            problem=conflict.problem,
            suggestion=conflict.suggestion,
        )

    def _is_there(self, row: Row) -> bool:
        """Return true if the store may have the pet that the row names."""
        return row.place >= 0 or self._found.get(row.pet_id or 0) is not None

    def _has_id_of_another(self, row: Row) -> bool:
        """Return true if a row adds a pet under the id of an existing pet with another name.

        The id may have replaced the row's correct one.
        """
        pet = self.sides.pet(row.place) if row.place >= 0 else self._found.get(row.pet_id or 0)
        if row.action not in ADDING or not isinstance(pet, Pet):
            return False
        return normalize(row.values.get("name")) != normalize(pet.name)

    def _name(self, row: Row) -> str:
        """Return the pet's name in the store, else in the row."""
        known = self.sides.pet(row.place).name if row.place >= 0 else ""
        return known or row.values.get("name") or ""

    def _source(self, row: Row, column: Column = "id") -> str:
        return self.sheet.address(row.number, column)

    @cached_property
    def _alike(self) -> Mapping[Hashable, list[int]]:
        """By content, the ids of the store's pets that have the name of a row without an id."""
        pets = self._words
        wanted = names_among(pets["name"], self._free_names)
        # Pets known only from getPetById exist too.
        others = (pet for pet in self._found.values() if isinstance(pet, Pet))
        found: defaultdict[Hashable, list[int]] = defaultdict(list)
        for pet in (*pets_from_frame(pets[wanted]), *others):
            found[content(pet)].append(pet.id or 0)
        return found

    @cached_property
    def _free_names(self) -> set[str]:
        rows = self.sheet.rows
        free = rows[self.sides.active & lacks_id(rows)]
        return {normalize(name) for name in unique_texts(free, "name")}

    @cached_property
    def _identical(self) -> Mapping[int, tuple[int, Pet]]:
        """For rows without an id, by row number: the position of a pet that has the name and all
        values of the row that are sent, and that no row names; and this pet. Rows whose pet earlier
        runs recorded get no other one.
        """
        if self._options.match_on:
            return {}
        rows = [
            row
            for row in self._rows
            if row.pet_id is None and row.action == "merge" and row.number not in self._recorded
        ]
        # The pet that was added from the row lacks the other values, or the store changed them.
        unsent = self._options.unsent_units - {"name"}
        return self._candidates.find_identical(rows, self.vocabulary, unsent)

    @cached_property
    def _ids(self) -> frozenset[int]:
        return frozenset(ids_of(self.sides.pets))

    @cached_property
    def _candidates(self) -> Candidates:
        on = self._options.match_on
        free = np.ones(len(self.sides.named), dtype=bool) if on else ~self.sides.named
        return Candidates(self.sides.pets, free, self._free_names, on)


def _have_same_name(one: str, other: str) -> bool:
    """Return true if two files have the same name, in whatever folder."""
    names = (re.split(r"[/\\]", each)[-1] for each in (one, other))
    return next(names) == next(names)


def _is_kept_by_owner(rule: FieldRule) -> bool:
    return rule in ("owner-store", "owner-never")


def _find_unnumbered_tags(current: Pet | None, new: Pet) -> list[str]:
    """Return the names of the new pet's tags without a number that the current pet does not
    have.
    """
    tags = [tag for tag in new.tags if known_id(tag.id) is None]
    had = {normalize(tag.name) for tag in current.tags} if current is not None and tags else set()
    return [name for tag in tags if (name := normalize(tag.name)) not in had]


def _find_filled(values: RowValues) -> RowValues:
    """Return the values without those that empty a field."""
    return {column: each for column, each in values.items() if each and each != CLEARED}


def _wins(clash: Clash, judged: Judgement) -> bool:
    """Return true if the sheet's value is sent, according to the judge."""
    return dict[str, FieldRule](judged.rules)[clash.column] == "clash-sheet"


def _by_spelling(names: Mapping[str, int]) -> Mapping[str, Counter[str]]:
    """Return the names and their counts, by the normal form of their spelling."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in names.items():
        found[spelling(name)][normalize(name)] += count
    return found


def _find_usual_spelling(
    name: str, known: Category | Tag | None, new: Mapping[str, Counter[str]]
) -> tuple[str, str, str]:
    """Return the usual spelling of a new name, "" for none; the words for what uses it; and the
    advice, which is the same for all rows.
    """
    if known is not None:
        return known.name or "", "the store has", f"Write {known.name!r}"
    counts: Mapping[str, int] = new.get(spelling(name), {})
    most = max(counts.values(), default=0)
    usual = [each for each, count in counts.items() if count == most]
    way = f"Write {usual[0]!r} in all rows" if usual else ""
    return next((each for each in usual if each != name), ""), "other rows name", way


def _conflict_of_reused_id(row: Row, pet: Pet, suspect: Suspect) -> _RowConflict:
    reused, pet_id = suspect.reused, pet.id
    name = repr(normalize(reused.pet.name))
    if isinstance(reused, RemovedPet):
        problem = (
            f"names pet {pet_id}, which was {name} until run {reused.run} removed it on "
            f"{reused.on}. The store has another pet under this id now, {normalize(pet.name)!r}"
        )
        cells = "the id and the action" if row.action in ("update", "delete") else "the id"
        hint = (
            f"Remove {cells} to add the row's pet again, or remove the row if the pet is to stay "
            "deleted. Export again to edit the pet that has the id now."
        )
        return _RowConflict("id-reused", problem, hint, pet_id)
    problem = (
        f"names pet {pet_id}, and the service assigned this id on {reused.on} to the new pet "
        f"{name} of the row at {reused.source}, although another row already named the id"
    )
    hint = (
        "Remove this row if it refers to an earlier pet. If it refers to the new pet, write "
        f"{name} as its name, and remove the other row."
    )
    return _RowConflict("id-reused", problem, hint, pet_id)


def _conflict_of_replaced_pet(old: Pet, pet: Pet) -> _RowConflict:
    problem = (
        f"was edited, and names pet {pet.id}, which was {normalize(old.name)!r} at the export. The "
        f"store has {normalize(pet.name)!r} under this id, with nothing in common: the service may "
        "have given the id of a deleted pet to a new one"
    )
    hint = (
        "Remove the row if it refers to the earlier pet. If it is the same pet, export again to "
        "edit it, or write the store's name into the row of a reconciled sheet."
    )
    return _RowConflict("id-reused", problem, hint, pet.id)


def _conflict_of_twin(twins: Sequence[int], used: Collection[Identity]) -> _RowConflict:
    """Return the conflict of a row with the values of these pets; rows have the `used` ids."""
    twin = next((each for each in twins if each not in used), None)
    way = "" if twin is None else f"give it the id {twin}, "
    problem = f"would add a pet, and pet {twin or twins[0]} has the same values"
    hint = f"Remove the row, {way}or write `add-another` as its action to add another pet."
    return _RowConflict("twin", problem, hint, twin or twins[0])


def _conflict_of_unknown_add(record: RowRecord) -> _RowConflict:
    return _RowConflict(
        "added-unknown",
        f"was about to be added on {record.on} in run {record.run_id}, and it is unknown whether "
        "it was",
        f"`{record.resume}` finds out whether it was.",
    )


def _when(record: RowRecord | RenumberedPet, source: str) -> str:
    """Return when the record was made, and from which file if it is not the sheet's."""
    return record.on + (f" from {record.source}" if record.source not in ("", source) else "")


def _conflict_of_doubt(
    match: Match, source: str, removed: Sequence[int], *, deletes: bool
) -> _RowConflict:
    """Return the conflict of a row of the sheet in the file `source`. `removed` are those of the
    row's possible pets that no row names; the plan `deletes` missing pets.
    """
    records = match.records
    pets = {
        r.pet_id: "" if r.state == "held" else normalize(r.row_pet.name)
        for r in records
        if r.pet_id is not None
    }
    record = match.record
    if not pets:
        return _conflict_of_unknown_add(record)
    ids = first_items([*map(str, pets)])
    named = first_items(
        [f"{pet_id} ({name!r})" if name else str(pet_id) for pet_id, name in pets.items()]
    )
    if all(each.is_undone for each in records):
        return _RowConflict(
            "added-before",
            f"may be the row that was {record.how} on {_when(record, source)} as {named}, and an "
            "undo removed that pet",
            "Remove the row, or write `add-another` in the action column to add it.",
            record.pet_id,
        )
    what = _describe_doubt(match, named, source, is_one=len(pets) == 1)
    if match.is_shared:
        what += SHARED
    way = "write `add-another` in the action column: the row is then added"
    if any(each.action == "add-another" for each in records):
        rows = "a row with the id" if len(records) == 1 else "rows with the ids"
        way = f"insert {rows} {ids} and the action `ignore`"
    elif removed and deletes:
        some = "pet" if len(removed) == 1 else "each of the pets"
        way += f", and {some} {first_items([*map(str, removed)])} is deleted if no row has its id"
    elif removed:
        some = "the pet" if len(removed) == 1 else "one of the removed pets"
        way += f". To delete {some} too, insert a row with its id and the action `delete`"
    hint = f"Give the row the pet's id if it is that pet. If it is another one, {way}."
    return _RowConflict("added-before", what, hint, record.pet_id)


def _describe_doubt(match: Match, named: str, source: str, *, is_one: bool) -> str:
    """Return why a row of the sheet in the file `source` may belong to one of the `named` pets."""
    record = match.record
    if not record.is_sure:
        return (
            f"may belong to pet {named}, which was edited since: the add on {record.on} got no "
            "answer"
        )
    pets = f"the row of pet {named}" if is_one else f"a row of one of the pets {named}"
    if not record.run_id:
        return f"may be {pets}, which is no longer in any row"
    when = _when(record, source)
    if record.state == "held":
        return f"may be {pets}: a run on {when} left it in conflict"
    rows = "the row that was" if len(match.records) == 1 else "one of the rows that were"
    says = ", with other values now" if match.is_edited else ""
    return f"may be {rows} {record.how} on {when} as {named}{says}"


def _conflict_of_removed_pet(match: Match, source: str) -> _RowConflict:
    """Return the conflict of a row of the sheet in the file `source` that may belong to a deleted
    pet, and that was in conflict about this pet before.
    """
    record = match.record
    return _RowConflict(
        "added-gone",
        f"may be the row that was {record.how} on {_when(record, source)} as {record.pet_id}, "
        "and that pet is no longer in the store",
        "Remove the row, or write `add-another` in the action column to add it.",
        record.pet_id,
    )


SHARED = "; the same is true of another row"
"""The end of a conflict's problem if another conflict already names its only possible pet."""
_MAY_BE = frozenset({"looks-alike", "lost-id", "misplaced-id", "twin"})
"""The rules of conflicts in which the row may belong to one particular pet."""


def _column(column: Column, values: RowValues) -> Column:
    """Return the column of a clash in which the row has a value."""
    return "category_id" if column == "category" and column not in values else column


def _find_untrusted_ids(sheet: Sheet) -> list[str]:
    """Return the addresses of ids that are missing in a blocked row, unreadable, or also in other
    rows.

    Such an id may have replaced the correct one, and a copied row may have replaced another row.
    """
    findings = [
        finding.address
        for finding in sheet.problems
        if finding.column == "id"
        and not finding.is_own
        and (finding.severity == "error" or finding.rule == "duplicate-row")
    ]
    rows = {finding.row for finding in sheet.problems if finding.address in set(findings)}
    return findings + [sheet.address(row) for row in sheet.unidentified if row not in rows]
