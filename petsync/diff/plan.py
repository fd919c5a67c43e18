"""Plan: everything that a run would do, as one frozen value with a fingerprint."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
import pandas as pd

from petsync._show import Where, as_file, as_html, as_text, from_file
from petsync.diff.change import Add, Blocked, Change, Conflict, Delete, Update
from petsync.diff.guard import CAPACITY_CURE, Guard, Verdict, over_capacity
from petsync.diff.lineage import Slot
from petsync.diff.resolve import Choices, resolved
from petsync.diff.selection import conflicts_of, frame_of, is_told, selected, unknown_ids
from petsync.diff.sentinel import lost_or_touched
from petsync.diff.snapshot import Coverage
from petsync.diff.summary import Summary, summary_of
from petsync.errors import GuardError, PlanError
from petsync.model import Pet
from petsync.table.columns import Column
from petsync.table.correction import Correction
from petsync.table.sheet import cell_address

__all__ = ["Plan", "PlanOptions"]

FORMAT = 6
_PIECE = 500
_OF_REFUSED = (
    "This is a part of a plan that the guard refuses as a whole. The guard judges a part by "
    "itself: several parts together may be more than its limits let through."
)


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sheet and store are compared."""

    delete_missing: bool = False
    """Whether pets that no row names are to be deleted."""
    match_on: tuple[Column, ...] = ()
    """The columns on which a row without an id finds its pet."""
    two_way: bool = False
    """Whether the base that the sheet carries is left out."""
    on_conflict: Literal["store", "sheet"] = "store"
    """Whose value a field takes that both changed apart since the export."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered changes, and everything that is not one, by what a person wants to know.

    `changes`: adds, then updates, then deletes, each in the sheet's order, but that adds with an id
    come before those without. `conflicts`: rows that the store contradicts. `blocked`: rows that
    an error in the sheet keeps out. `unchanged` and `ignored`: for how many rows nothing is to be
    done, and how many have the action `ignore`. Of the unchanged rows, by number: `older` say what
    was exported while the store says something newer, and the pets of `gone` are not there any
    more; `undone` gives those of both whose pets are so by an undo, with the run that was undone.
    `recognised`: the pet of each row without an id that means one; `slots`: where the
    rows without an id stand, and what is known of them. `rows`: all rows of the
    sheet; `pets`: the store's size; `capacity`: how many pets the service keeps before an add
    drops the oldest, None where no limit is known. `notes`: what a person should look at.
    `verdict`: what the guard says. `created` is ISO 8601 in UTC, and so is `base`: when the sheet
    was exported, "" if it is compared with the store alone. `tab` is the worksheet, "" for CSV;
    `places` are the letters or numbers of its columns; `columns` is the mapping of headers that
    the sheet was read by, `encoding` that of a CSV file that is not UTF-8. `coverage`: what the
    store was asked for, and what of it failed. `sentinels`: the guard's, as they were.
    `left_out`: how many changes `select` has taken out whole, but for those of rows in conflict.
    `undoes`: the run that it takes back, "" if it is no undo. `corrections`: the cells that were
    read as somebody said, and not as the sheet's file says. `shifted`: the columns
    that seem to be sorted or shifted without their rows.
    """

    format: int = FORMAT
    created: str
    store: str
    profile: str
    source: str
    tab: str = ""
    places: Mapping[str, str] = {}
    source_digest: str = ""
    columns: Mapping[str, str] = {}
    encoding: str = ""
    base: str = ""
    undoes: str = ""
    options: PlanOptions = PlanOptions()
    guard: Guard = Guard()
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    unchanged: int = 0
    recognised: Mapping[int, int] = {}
    slots: Mapping[int, Slot] = {}
    older: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    undone: Mapping[int, str] = {}
    ignored: int = 0
    rows: int = 0
    pets: int = 0
    capacity: int | None = None
    notes: tuple[str, ...] = ()
    coverage: Coverage = Coverage()
    sentinels: tuple[Pet, ...] = ()
    left_out: int = 0
    verdict: Verdict = Verdict()
    corrections: tuple[Correction, ...] = ()
    shifted: tuple[Column, ...] = ()

    @property
    def adds(self) -> tuple[Add, ...]:
        """The pets that are to be added."""
        return tuple(change for change in self.changes if isinstance(change, Add))

    @property
    def updates(self) -> tuple[Update, ...]:
        """The pets that are to change."""
        return tuple(change for change in self.changes if isinstance(change, Update))

    @property
    def deletes(self) -> tuple[Delete, ...]:
        """The pets that are to go."""
        return tuple(change for change in self.changes if isinstance(change, Delete))

    @property
    def in_sync(self) -> bool:
        """Whether there is nothing to send and nothing to decide."""
        return not (self.changes or self.open_conflicts or self.blocked or self.left_out)

    @property
    def open_conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts that a person has to look at: those in which the sheet does not win."""
        return tuple(conflict for conflict in self.conflicts if conflict.is_open)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the whole plan: two plans that would do the same differ in `created`."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """The plan's JSON in pieces: as a whole it may be as large as the plan itself."""
        # Quotes in a text are escaped, so that no text can look like this key.
        around = msgspec.json.encode(msgspec.structs.replace(self, changes=()))
        head, key, tail = around.partition(b'"changes":[')
        yield head + key
        for first in range(0, len(self.changes), _PIECE):
            piece = msgspec.json.encode(self.changes[first : first + _PIECE])[1:-1]
            yield b"," + piece if first else piece
        yield tail

    @property
    def needs_count(self) -> bool:
        """Whether the guard's verdict depends on how many pets the store has."""
        kinds = Counter(change.kind for change in self.changes)
        return self.guard.needs_count(
            adds=kinds["add"], updates=kinds["update"], deletes=kinds["delete"]
        )

    def require_ok(self, pets: int | None = None) -> None:
        """Raise GuardError unless the guard lets the plan through, also for a store of so many
        `pets`, if that is given.
        """
        # Judged again, so that no file's own word is taken for it.
        refusals = {*self.verdict.refusals, *self.judged().verdict.refusals}
        if pets is not None:
            refusals |= {*msgspec.structs.replace(self, pets=pets).judged().verdict.refusals}
        if refusals:
            cure = "Look at the plan; if it is right, raise the limit."
            if any(refusal.limit == "sentinel" for refusal in refusals):
                cure = "Find out what becomes of the sentinels: nothing overrides them."
            elif any(refusal.limit == "capacity" for refusal in refusals):
                cure = CAPACITY_CURE
            raise GuardError(
                "the guard refuses this plan: " + "; ".join(sorted(map(str, refusals))),
                hint=f"Nothing was sent. {cure}",
            )

    def judged(self) -> Plan:
        """The plan with the guard's verdict on what it holds now."""
        kinds = Counter(change.kind for change in self.changes)
        watched = [
            *lost_or_touched(self.guard.sentinels, self.sentinels, self.changes),
            *(each for each in self.verdict.refusals if each.of_store),
            *over_capacity(kinds["add"], self.pets, self.capacity),
        ]
        verdict = self.guard.judge(
            pets=self.pets,
            # A run may have changed nothing; a sheet without a row is a mistake.
            rows=self.rows or bool(self.undoes),
            adds=kinds["add"],
            updates=kinds["update"],
            deletes=kinds["delete"],
            namesakes=sum(add.namesake is not None for add in self.adds),
            shifted=[c for c in self.shifted if any(c in each.fields for each in self.updates)],
            sentinels=dict.fromkeys(watched),
        )
        return msgspec.structs.replace(self, verdict=verdict)

    def save(self, path: Where) -> Where:
        """Write the plan to a file of mode 0600, whole or not at all; the path itself.

        Raises PlanError where it cannot be written.
        """
        return as_file(self, path)

    @classmethod
    def load(cls, path: Where) -> Plan:
        """The plan in a file. Raises PlanError where there is none, or it was changed by hand."""
        plan: Plan = from_file(path)
        return plan

    def summary(self) -> Summary:
        """How many of what: of changes, of changed fields, and of rows that are none."""
        return summary_of(self.changes, self.conflicts, self)

    def select(
        self,
        *,
        ids: Iterable[int] | int | None = None,
        actions: Iterable[str] | str | None = None,
        fields: Iterable[str] | str | None = None,
        query: str | None = None,
        numbers: Iterable[int] | None = None,
    ) -> Plan:
        """A plan of a part of the changes: of those pets, of those kinds (add, update, delete), of
        those columns, of those rows of `to_frame()` that a pandas query picks, and of those places
        in `changes`; all that are given must hold.

        By `fields`, and by a query on updates, an update keeps these fields alone; a category's
        name and id stay together. An add or a delete is whole or not there, and no change of a
        field. Conflicts and blocked rows stay; where the sheet was to win and its value is left
        out, the store wins. The guard judges the new plan, which has a
        fingerprint of its own. Raises PlanError for what cannot be selected by.
        """
        changes = selected(
            self.changes,
            self.address,
            ids=ids,
            actions=actions,
            fields=fields,
            query=query,
            numbers=numbers,
        )
        notes = [*self.notes, *unknown_ids(self.changes, ids)]
        if not self.verdict.ok:
            notes.append(_OF_REFUSED)
        conflicts = conflicts_of(changes, self.conflicts)
        told = {_place(each) for each in (*changes, *conflicts) if is_told(each)}
        left_out = self.left_out + sum(_place(change) not in told for change in self.changes)
        part = msgspec.structs.replace(
            self,
            changes=changes,
            conflicts=conflicts,
            left_out=left_out,
            notes=tuple(dict.fromkeys(notes)),
        )
        return part.judged()

    def resolve(self, choices: Choices) -> Plan:
        """The plan in which clashes have the winner that a person gives them:
        `{(7, "name"): "sheet"}` sends the sheet's name of pet 7, and "store" keeps the store's.

        Conflicts stay listed. With every clash given to "sheet", it is the plan that
        `on_conflict="sheet"` makes. The guard judges the new plan, which has a fingerprint of its
        own. Raises PlanError for a clash that the plan has not, and for a value that cannot be
        sent.
        """
        if not choices:
            return self
        made = resolved(self.changes, self.conflicts, self.notes, choices, self._cell)
        new = msgspec.structs.replace(
            self,
            changes=made.changes,
            conflicts=made.conflicts,
            notes=made.notes,
            options=msgspec.structs.replace(self.options, on_conflict=made.winner),
        )
        return new.judged()

    def guarded(self, guard: Guard) -> Plan:
        """The plan under another guard, judged by it. Its sentinels stay as they were."""
        kept = msgspec.structs.replace(guard, sentinels=self.guard.sentinels)
        return msgspec.structs.replace(self, guard=kept).judged()

    def to_frame(self) -> pd.DataFrame:
        """The changes: source, kind, id, name, column, before, after; a row a changed field."""
        return frame_of(self.changes, self.address)

    def address(self, change: Change, column: Column) -> str:
        """Where the sheet says what a change does to a column; "" for a pet that is in no row."""
        place = self.places.get(column)
        if change.row is None or place is None:
            return change.source
        return cell_address(self.tab, place, change.row)

    def _cell(self, row: int, column: Column) -> str:
        return cell_address(self.tab, self.places.get(column, ""), row)

    def to_json(self) -> bytes:
        """The plan as a file holds it: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the plan") -> Plan:
        """The plan of `to_json`. Raises PlanError where it is none, or was changed since."""
        try:
            # First the format alone: of another one, the rest need not be as this one has it.
            found = msgspec.json.decode(body, type=_Numbered).plan.format
            if found != FORMAT:
                raise _of_another(found, where)
            saved = msgspec.json.decode(body, type=_Saved)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"{where} is no plan of petsync: {error}") from None
        if saved.plan.fingerprint != saved.fingerprint or saved.plan.to_json() != body:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not fit",
                hint="Make the plan again from the sheet, and apply it as it is.",
            )
        return saved.plan

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class _Format(msgspec.Struct, frozen=True):
    format: int


class _Numbered(msgspec.Struct, frozen=True):
    plan: _Format


def _of_another(found: int, where: str) -> PlanError:
    older = found < FORMAT
    return PlanError(
        f"{where} has format {found}, of {'an older' if older else 'a newer'} petsync; this one "
        f"reads {FORMAT}",
        hint="Make the plan again from its sheet"
        + ("." if older else ", or apply it with the petsync that made it."),
    )


class _Saved(msgspec.Struct, frozen=True):
    fingerprint: str
    plan: Plan


def _place(each: Change | Conflict) -> tuple[int | None, int | None]:
    return each.row, each.pet_id
