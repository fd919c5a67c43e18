"""What is to become of each row: a change, a conflict, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.change import Add, Change, Conflict, Delete, Update
from petsync.diff.fields import content, differing, normal
from petsync.diff.match import Candidates
from petsync.diff.merge import contradiction, merged, nameless
from petsync.diff.plan import PlanOptions
from petsync.diff.remarks import Remarks
from petsync.diff.rows import Row, said_rows
from petsync.diff.since import Since
from petsync.diff.snapshot import Snapshot
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Pet
from petsync.profile import ServiceProfile
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Decisions"]

_NEW = Pet()


class Decisions:
    """The rows of a sheet, decided one after the other against a snapshot.

    After `changes()`: `conflicts`, `unchanged` and `ignored` (numbers of rows), `named` (the
    places in the snapshot of the pets that rows mean), `uncertain` (the addresses of rows that may
    mean any pet: blocked, ignored or in conflict, and without an id), `remarks` and `notes()`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        sheet: Sheet,
        found: Mapping[int, Pet | None],
        options: PlanOptions,
        profile: ServiceProfile,
        base: Base | None = None,
    ) -> None:
        self._pets, self._sheet, self._found = snapshot.frame, sheet, found
        self._options, self._profile = options, profile
        self._vocabulary = Vocabulary(snapshot.frame)
        self._since = Since(base, self._vocabulary)
        frame = sheet.frame
        places = align.positions(frame["id"], self._pets) if "id" in frame else _nowhere(frame)
        active = (frame["action"] != "ignore").to_numpy(dtype=bool)
        self._rows, self._places = frame[active], places[active]
        self.named = {int(place) for place in places if place >= 0} | self._blocked_places()
        self.ignored = int((~active).sum())
        self.uncertain = [*_untrusted(sheet), *self._ignored_without_id(active)]
        self.unchanged = 0
        self.conflicts: list[Conflict] = []
        self.remarks = Remarks()

    def changes(self) -> list[Change]:
        """The changes, in the order of the rows."""
        return [change for row in self._left_over() if (change := self._decide(row)) is not None]

    def notes(self) -> Iterator[str]:
        """What a person should look at, in a sentence each."""
        known = self._pets["category"].dropna().unique()
        yield from self.remarks.notes(self._sheet.address, known)

    def _blocked_places(self) -> set[int]:
        ids = pd.Series(sorted(self._sheet.blocked_ids), dtype="Int64")
        return {int(place) for place in align.positions(ids, self._pets) if place >= 0}

    def _ignored_without_id(self, active: align.Mask) -> list[str]:
        frame = self._sheet.frame
        lacking = frame["id"].isna().to_numpy() if "id" in frame else np.ones(len(frame), bool)
        return [self._sheet.address(row) for row in frame.index[~active & lacking].tolist()]

    def _left_over(self) -> Iterator[Row]:
        """The rows that may be anything but in agreement with their pet."""
        placed = self._places >= 0
        compared = placed & self._rows["action"].isin(("merge", "update", "add")).to_numpy()
        rows, pets = self._rows[compared], self._pets.iloc[self._places[compared]]
        left = np.ones(len(self._rows), dtype=bool)
        differ = align.may_differ(rows, pets)
        edited = self._since.edited(rows[differ])
        self._note_older(rows[differ][~edited], self._places[compared][differ][~edited])
        differ[differ] = edited
        left[compared] = differ
        self.unchanged += int((~left).sum())
        return said_rows(self._rows[left], self._places[left])

    def _note_older(self, rows: pd.DataFrame, places: align.Positions) -> None:
        self.remarks.older += [
            row.number
            for row in said_rows(rows, places)
            if self._lacks(row, self._pet_at(row.place))
        ]

    def _decide(self, row: Row) -> Change | None:
        if row.pet_id is not None:
            pet = self._pet_at(row.place) if row.place >= 0 else self._found.get(row.pet_id)
            return self._on(row, pet)
        if row.action == "add":
            return self._add(row)
        matches = self._candidates.agreeing(row.said) if self._options.match_on else []
        if len(matches) > 1:
            ids = ", ".join(str(pet.id) for _, pet in matches[:5])
            return self._conflict(row, f"matches several pets: {ids}", "Give the row its id.")
        if matches:
            return self._on_match(row, *matches[0])
        return self._without_match(row)

    def _on_match(self, row: Row, place: int, pet: Pet) -> Change | None:
        if place in self.named:
            problem = f"matches pet {pet.id}, which another row means already"
            return self._conflict(row, problem, "Give each row its id.", pet.id)
        self._recognise(row, place, pet)
        return self._on(row, pet)

    def _without_match(self, row: Row) -> Change | None:
        if row.action in ("update", "delete"):
            return self._conflict(
                row, f"is to {row.action} a pet, but has no id", "Give the row the pet's id."
            )
        taken = self._candidates.take_identical(row.said, self._vocabulary)
        if taken is None:
            return self._add(row)
        place, pet = taken
        self._recognise(row, place, pet)
        self.remarks.identical.append(row.number)
        return self._agrees()

    def _recognise(self, row: Row, place: int, pet: Pet) -> None:
        self.named.add(place)
        if pet.id is not None:
            self.remarks.recognised[row.number] = pet.id

    def _on(self, row: Row, pet: Pet | None) -> Change | None:
        """The change of a row whose pet is known, or known not to be there."""
        old = self._since.pet(row.pet_id if pet is None else pet.id)
        if pet is None:
            return self._on_nothing(row, old)
        if row.action == "delete":
            return self._delete(row, pet, old)
        return self._update(row, pet, old)

    def _on_nothing(self, row: Row, old: Pet | None) -> Change | None:
        if row.action == "delete":
            return self._agrees()
        if row.action == "update":
            problem = f"is to update pet {row.pet_id}, which the store does not have"
            return self._conflict(row, problem, "Correct the id, or write `add`.", row.pet_id)
        if row.action == "add" or old is None:
            return self._add(row)
        if self._since.edits(old, row.said):
            problem = f"was edited, and pet {row.pet_id} is gone from the store since the export"
            hint = "Write `add` in the action column to add it again, or take the row out."
            return self._conflict(row, problem, hint, row.pet_id)
        self.remarks.gone.append(row.number)
        return self._agrees()

    def _delete(self, row: Row, pet: Pet, old: Pet | None) -> Change | None:
        if old is not None and (moved := differing(old, pet)):
            problem = (
                f"is to delete pet {pet.id}, of which the store changed {', '.join(moved)} since "
                "the export"
            )
            return self._conflict(row, problem, "Export afresh, and decide again.", pet.id)
        return Delete(row=row.number, source=self._source(row), before=pet)

    def _update(self, row: Row, pet: Pet, old: Pet | None) -> Change | None:
        whole = row
        if old is not None:
            row = replace(row, said=self._edits(row.said, old, pet))
        after = merged(pet, row.said, self._vocabulary)
        fields = differing(pet, after)
        self._mind(row)
        if not fields:
            if row is not whole and self._lacks(whole, pet):
                self.remarks.older.append(row.number)
            return self._agrees()
        if old is not None and (clashes := self._since.clashes(old, pet, after, row.said)):
            return self._clash(whole, pet, clashes)
        if nameless(pet.category, row.said, self._vocabulary):
            return self._nameless(row, pet.id)
        if row.action == "add":
            problem = f"is to add pet {pet.id}, which is there and differs in {', '.join(fields)}"
            return self._conflict(
                row, problem, "Write `update`, or leave the action blank.", pet.id
            )
        if not normal(after.status) and "status" in fields:
            problem = "would have no status, and no query of the service could find it"
            return self._conflict(row, problem, self._a_status(), pet.id)
        self._mind_category(row, fields)
        if old is not None and _is_converted(old.name, row.said.get("name")):
            self.remarks.converted[row.number] = (str(old.name), row.said["name"])
        source = self._source(row, next((c for c in fields if c in row.said), fields[0]))
        return Update(row=row.number, source=source, fields=fields, before=pet, after=after)

    def _lacks(self, row: Row, pet: Pet) -> tuple[Column, ...]:
        return differing(pet, merged(pet, row.said, self._vocabulary))

    def _edits(self, said: Mapping[Column, Any], old: Pet, pet: Pet) -> dict[Column, Any]:
        edits = self._since.edits(old, said)
        if "tags" in edits:
            edits["tags"] = self._since.merge_tags(old, pet, edits["tags"])
        return edits

    def _clash(self, row: Row, pet: Pet, clashes: list[str]) -> Change | None:
        problem = f"and the store both changed pet {pet.id} since the export: {'; '.join(clashes)}"
        hint = "Write the store's value to keep it, or export afresh and change it there."
        return self._conflict(row, problem, hint, pet.id)

    def _add(self, row: Row) -> Change | None:
        after = merged(Pet(id=row.pet_id), row.said, self._vocabulary)
        if not normal(after.name) and "name" in self._profile.required:
            return self._conflict(
                row, "would be a new pet without a name", "Give it a name, or the id of its pet."
            )
        if not normal(after.status):
            return self._conflict(
                row,
                "would be a new pet without a status, which no query of the service could find",
                self._a_status(),
            )
        if nameless(None, row.said, self._vocabulary):
            return self._nameless(row)
        self._mind(row)
        fields = differing(_NEW, after)
        self._mind_category(row, fields)
        alike = 0 if row.pet_id is not None else self._alike[content(after)]
        source = self._source(row)
        return Add(row=row.number, source=source, fields=fields, after=after, alike=alike)

    def _nameless(self, row: Row, pet_id: int | None = None) -> Change | None:
        problem = f"names the category {row.said['category_id']}, which the store does not know"
        return self._conflict(row, problem, "Write the category's name as well.", pet_id)

    def _a_status(self) -> str:
        return f"Give it a status: {', '.join(self._profile.statuses)}."

    def _mind(self, row: Row) -> None:
        if contradiction(row.said, self._vocabulary):
            self.remarks.by_name.append(row.number)

    def _mind_category(self, row: Row, fields: Sequence[Column]) -> None:
        name = row.said.get("category")
        is_new = "category" in fields and name and self._vocabulary.category_named(name) is None
        if is_new and normal(name):
            self.remarks.categories.setdefault(str(name), []).append(row.number)

    def _agrees(self) -> Change | None:
        self.unchanged += 1
        return None

    def _conflict(
        self, row: Row, problem: str, suggestion: str, pet_id: int | None = None
    ) -> Change | None:
        if row.pet_id is None:
            self.uncertain.append(self._source(row))
        self.conflicts.append(
            Conflict(
                row=row.number,
                source=self._source(row),
                pet_id=pet_id,
                problem=problem,
                suggestion=suggestion,
            )
        )
        return None

    def _source(self, row: Row, column: Column = "id") -> str:
        return self._sheet.address(row.number, column)

    def _pet_at(self, place: int) -> Pet:
        return pets_from_frame(self._pets.iloc[[place]])[0]

    @cached_property
    def _alike(self) -> Counter[Hashable]:
        """How many pets of the snapshot say the same, for each name that a row without id has."""
        wanted = self._pets["name"].map(normal).isin(self._free_names).to_numpy(dtype=bool)
        return Counter(content(pet) for pet in pets_from_frame(self._pets[wanted]))

    @cached_property
    def _free_names(self) -> set[str]:
        rows = self._rows
        free = rows[rows["id"].isna()] if "id" in rows else rows
        return set(free["name"].dropna().map(normal)) if "name" in rows else set()

    @cached_property
    def _candidates(self) -> Candidates:
        places = range(len(self._pets))
        free = [p for p in places if self._options.match_on or p not in self.named]
        return Candidates(self._pets, free, self._free_names, self._options.match_on)


def _is_converted(old: str | None, new: str | None) -> bool:
    """Whether the new name is what a spreadsheet program makes of the old one: 7 of 007, TRUE of
    True.
    """
    if not old or not new or old == new:
        return False
    if new in ("TRUE", "FALSE"):
        return old.casefold() == new.casefold()
    return old.isdecimal() and old.lstrip("0") == new


def _untrusted(sheet: Sheet) -> list[str]:
    """Where an id is missing in a blocked row, or is there but cannot be read."""
    findings = [
        finding.address
        for finding in sheet.problems
        if finding.column == "id"
        and finding.severity == "error"
        and not finding.rule.startswith("duplicate")
    ]
    rows = {finding.row for finding in sheet.problems if finding.address in set(findings)}
    return findings + [sheet.address(row) for row in sheet.unidentified if row not in rows]


def _nowhere(frame: pd.DataFrame) -> align.Positions:
    return np.full(len(frame), -1, dtype=np.intp)
