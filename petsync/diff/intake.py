"""Inbound: what a sheet is to take from the store, as one value that can be judged and saved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from petsync.diff.fields import cell, differing, stated
from petsync.diff.guard import Guard, Limit, Refusal, Verdict
from petsync.diff.round import Counts, Open, SheetChange
from petsync.errors import GuardError, PlanError
from petsync.model import Pet
from petsync.table.columns import COLUMNS, Column
from petsync.table.sheet import cell_address

__all__ = ["Identified", "Inbound", "Lead", "Removal", "RowEdit"]

FORMAT = 1
_FEW = 10
"""So many rows may always change, as `Guard` has it for the store."""

Lead = Literal["merge", "store"]


class RowEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A row that takes `fields` of its `pet`, as the store has it now. `before` are the texts that
    the row has there, "" where it says nothing; `source` is the address of the first field.
    """

    row: int
    source: str
    fields: tuple[Column, ...]
    before: Mapping[Column, str] = {}
    pet: Pet


class Identified(msgspec.Struct, frozen=True, kw_only=True):
    """A row whose pet is known by now: it gets the id, where it lacks one, and its action `add`
    goes, if it `was_add`.
    """

    row: int
    source: str
    pet_id: int
    lacks_id: bool = True
    was_add: bool = False


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A row that goes, as its pet is gone from the store. `before` are its texts."""

    row: int
    source: str
    pet_id: int
    name: str = ""
    before: Mapping[Column, str] = {}


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """What a sheet is to take from the store: `edits` of rows, `identified` rows, pets that are
    `added` as rows, rows that are `removed`; and `notes`, the differences that stay.

    `created` is ISO 8601 in UTC; `store` the service's address; `source`, `tab`, `encoding`,
    `columns` (the mapping of headers), `places` (the columns' letters or numbers) and `digest` are
    those of the sheet; `rows` is how many rows it has. `verdict` is what the `guard` says.
    """

    format: int = FORMAT
    created: str
    store: str
    source: str
    tab: str = ""
    encoding: str = ""
    digest: str = ""
    columns: Mapping[str, str] = {}
    places: Mapping[str, str] = {}
    lead: Lead
    rows: int = 0
    edits: tuple[RowEdit, ...] = ()
    identified: tuple[Identified, ...] = ()
    added: tuple[Pet, ...] = ()
    removed: tuple[Removal, ...] = ()
    notes: tuple[Open, ...] = ()
    guard: Guard = Guard()
    verdict: Verdict = Verdict()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.edits or self.identified or self.added or self.removed)

    @property
    def counts(self) -> Counts:
        """How many rows come, change and go. An id that a row gets is no change of its own."""
        return Counts(add=len(self.added), update=len(self.edits), delete=len(self.removed))

    @property
    def touched(self) -> Counts:
        """The same, rows that get no more than an id among those that change."""
        ids = {each.row for each in self.identified} - {each.row for each in self.edits}
        return msgspec.structs.replace(self.counts, update=len(self.edits) + len(ids))

    @property
    def pet_ids(self) -> tuple[int, ...]:
        """The pets that it is about."""
        pets = (*(edit.pet.id for edit in self.edits), *(pet.id for pet in self.added))
        return (*filter(None, pets), *(gone.pet_id for gone in self.removed))

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all but `created`: the same sheet is to take the same."""
        timeless = msgspec.structs.replace(self, created="")
        return hashlib.sha256(msgspec.json.encode(timeless)).hexdigest()

    @property
    def changes(self) -> tuple[SheetChange, ...]:
        """The same, a pet each, as a report tells it: rows that change or get their id, come, and
        go.
        """
        return tuple(self._changes())

    def judged(self, guard: Guard | None = None) -> Inbound:
        """The same under this guard (its own by default), with the verdict: the guard's limits
        as shares of the sheet's rows.
        """
        guard = self.guard if guard is None else guard
        verdict = Verdict(tuple(_refusals(guard, self.counts, self.rows)))
        return msgspec.structs.replace(self, guard=guard, verdict=verdict)

    def require_ok(self) -> None:
        """Raise GuardError unless the guard lets it through."""
        refusals = {*self.verdict.refusals, *self.judged().verdict.refusals}
        if refusals:
            raise GuardError(
                f"the guard refuses to write {self.source}: "
                + "; ".join(sorted(map(str, refusals))),
                hint="Nothing was written. Look at what is to be written; if it is right, raise "
                "the limit.",
            )

    def standing(self, pet_of: Callable[[int], Pet | None]) -> Inbound:
        """Only what still holds: rows and pets that the store has as they are here, rows whose pet
        is still gone. `pet_of` gives the pet that the store has by an id.
        """
        kept = msgspec.structs.replace(
            self,
            edits=tuple(each for each in self.edits if _is_as(each.pet, pet_of(each.pet.id or 0))),
            added=tuple(pet for pet in self.added if _is_as(pet, pet_of(pet.id or 0))),
            removed=tuple(each for each in self.removed if pet_of(each.pet_id) is None),
        )
        return kept.judged()

    def to_json(self) -> bytes:
        """All of it as a file holds it: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "sheet_plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the file") -> Inbound:
        """What `to_json` gave. Raises PlanError where it is something else, or was changed."""
        try:
            found = msgspec.json.decode(body, type=_Numbered).sheet_plan.format
            if found != FORMAT:
                raise PlanError(
                    f"{where} has format {found}; this petsync reads {FORMAT}",
                    hint="Let the next `petsync reconcile` make it again.",
                )
            saved = msgspec.json.decode(body, type=_Saved)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"{where} is nothing that a sheet waits for: {error}") from None
        if saved.sheet_plan.fingerprint != saved.fingerprint or saved.sheet_plan.to_json() != body:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not fit",
                hint="Delete it; the next `petsync reconcile` makes it again.",
            )
        return saved.sheet_plan

    def _changes(self) -> Iterator[SheetChange]:
        for edit in self.edits:
            yield SheetChange(
                kind="update",
                pet_id=edit.pet.id,
                name=edit.pet.name or "",
                row=edit.row,
                address=edit.source,
                values={c: (edit.before.get(c, ""), cell(edit.pet, c)) for c in edit.fields},
            )
        edited = {edit.row for edit in self.edits}
        for known in self.identified:
            if known.lacks_id and known.row not in edited:
                yield SheetChange(
                    kind="update",
                    pet_id=known.pet_id,
                    row=known.row,
                    address=known.source,
                    values={"id": ("", str(known.pet_id))},
                )
        for pet in self.added:
            values = {c: ("", cell(pet, c)) for c in stated(pet) if c in self.places}
            yield SheetChange(kind="add", pet_id=pet.id, name=pet.name or "", values=values)
        for gone in self.removed:
            yield SheetChange(
                kind="delete",
                pet_id=gone.pet_id,
                name=gone.name,
                row=gone.row,
                address=gone.source,
                values={c: (text, "") for c, text in gone.before.items()},
            )

    def address(self, row: int, column: str = "id") -> str:
        """Where a cell of the sheet stands."""
        return cell_address(self.tab, self.places.get(column, ""), row)

    def __hash__(self) -> int:
        return hash(self.fingerprint)


class _Format(msgspec.Struct, frozen=True):
    format: int


class _Numbered(msgspec.Struct, frozen=True):
    sheet_plan: _Format


class _Saved(msgspec.Struct, frozen=True):
    fingerprint: str
    sheet_plan: Inbound


def _is_as(pet: Pet, now: Pet | None) -> bool:
    return now is not None and not differing(pet, now)


def places_of(columns: Mapping[str, str]) -> dict[str, str]:
    """Those of a sheet's columns that are the table's."""
    return {name: at for name, at in columns.items() if name in COLUMNS}


def _refusals(guard: Guard, counts: Counts, rows: int) -> Iterator[Refusal]:
    kinds: tuple[tuple[Any, str, int, Limit | None, int], ...] = (
        ("add", "added to the sheet", counts.add, guard.max_add, 0),
        ("update", "changed in the sheet", counts.update, guard.max_update, _FEW),
        ("delete", "taken out of the sheet", counts.delete, guard.max_delete, 1),
    )
    for kind, done, count, limit, least in kinds:
        is_free = limit is None or limit.is_free(rows)
        allowed = count if limit is None or is_free else limit.allows(rows, least)
        if count > allowed:
            share = f" ({allowed:,} of {rows:,} rows)" if limit and limit.is_share else ""
            problem = (
                f"{_rows(count)} to be {done} {'is' if count == 1 else 'are'} more than "
                f"--max-{kind} {limit} lets through{share}"
            )
            yield Refusal(kind, problem, f"--max-{kind} {count}")
    if counts.delete and counts.delete >= rows and not guard.allow_empty:
        problem = f"every row ({rows:,}) would be taken out of the sheet"
        yield Refusal("everything", problem, "--allow-empty")


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
