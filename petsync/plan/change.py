"""Changes of a plan, and the snapshot that it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

import msgspec
import pandas as pd

from petsync._display import as_html, as_text
from petsync.errors import SheetError
from petsync.models import Pet
from petsync.plan.fields import normal
from petsync.plan.guard import Refusal
from petsync.table.columns import Column

__all__ = [
    "Add",
    "Blocked",
    "Change",
    "Clash",
    "Conflict",
    "Coverage",
    "Delete",
    "FailedLookup",
    "Snapshot",
    "Update",
    "describe_limits",
    "release_of",
    "released_note",
]


# Change: an Add, an Update or a Delete of one pet; Conflict and Blocked: rows that are none.


Kind = Literal["add", "update", "delete"]


class _Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    row: int | None
    """The row in the sheet, None for a pet that the sheet does not name."""
    source: str
    """The row's address in the sheet, "" where `row` is None."""
    fields: tuple[Column, ...] = ()
    """The columns that differ, in the table's order."""


class Add(_Change, frozen=True, kw_only=True, tag="add"):
    """A pet that the store does not have; without an id the service assigns one."""

    after: Pet
    alike: int = 0
    """How many pets say just the same already, where no id is given."""
    namesake: int | None = None
    """The id of a pet of this name that is in no row, where no id is given, or one that no pet has;
    None for none.
    """
    kind: ClassVar[Kind] = "add"

    @property
    def pet_id(self) -> int | None:
        """The id that the sheet gives, None if the service is to assign one."""
        return self.after.id

    @property
    def before(self) -> None:
        """Nothing: the pet is not there yet."""
        return


class Update(_Change, frozen=True, kw_only=True, tag="update"):
    """A pet that is to change from `before` to `after`, in `fields` only."""

    before: Pet
    after: Pet
    kind: ClassVar[Kind] = "update"

    @property
    def pet_id(self) -> int | None:
        """The pet's id."""
        return self.before.id


class Delete(_Change, frozen=True, kw_only=True, tag="delete"):
    """A pet that is to go, if it still is as `before`. `why` is "asked" (the row's action) or
    "missing" (no row names it).
    """

    before: Pet
    why: Literal["asked", "missing"] = "asked"
    kind: ClassVar[Kind] = "delete"

    @property
    def pet_id(self) -> int | None:
        """The pet's id."""
        return self.before.id

    @property
    def after(self) -> None:
        """Nothing: the pet will be gone."""
        return


Change = Add | Update | Delete


class Clash(msgspec.Struct, frozen=True, kw_only=True):
    """A field that sheet and store both changed since the export, apart; texts as a cell shows
    them. A category's name and id move together: `column` is then `category`, and the texts are
    `Dogs (1)`. `refused` says why the sheet's value cannot be sent, "" where it can; `note` what a
    person should look at where it is.
    """

    column: Column
    base: str
    sheet: str
    store: str
    refused: str = ""
    note: str = ""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A row that the store contradicts; always listed, whoever wins.

    With `clashes` it is about these fields alone: `winner` says whose values they take, and what
    else the row says is an Update of its own. Without, nothing is sent for the row until a person
    decides, and `winner` is "". `rule` is the stable code of docs/plan.md. `row` is None, and
    `source` "", for a pet whose row was taken out of the sheet. `name` is the pet's, as the store
    or else the row has it. With clashes, `before` is the pet as the store has it, `after` the pet
    with all that the row says, and `says` are the columns that the row says of what it changes.
    """

    row: int | None
    source: str
    pet_id: int | None
    name: str = ""
    rule: str = ""
    problem: str
    suggestion: str
    clashes: tuple[Clash, ...] = ()
    winner: Literal["", "store", "sheet"] = ""
    before: Pet | None = None
    after: Pet | None = None
    says: tuple[Column, ...] = ()

    @property
    def subject(self) -> str:
        """What `problem` is told of: the row, or the pet that is in none."""
        return "the row" if self.row is not None else f"pet {self.pet_id}"

    @property
    def is_unanswered(self) -> bool:
        """Whether the service did not answer what the row needs: an outage, no contradiction."""
        return self.rule == "not-looked-up"

    @property
    def is_open(self) -> bool:
        """Whether a person has to look: what the sheet says is not what the store will have."""
        return self.winner != "sheet"


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A row that an error in the sheet keeps out of the plan; the id that it names, None where it
    names none that can be trusted, and what the store calls that pet.
    """

    row: int
    source: str
    problem: str
    pet_id: int | None = None
    name: str = ""


# Which limit a plan broke that a job had wait, and that whoever applies it releases.


_END = "Whoever applies it releases it: its limits were raised just as far as it needs."


def describe_limits(refusals: Iterable[Refusal]) -> str:
    """The limits by the names that they have in the configuration."""
    return "; ".join(refusal.problem.replace("--max-", "max_") for refusal in refusals)


def released_note(job: str, limits: str) -> str:
    """What the plan of a job is told to say of the limits that it broke."""
    return f"Job {job} did not apply this plan by itself: {limits}. {_END}"


def release_of(notes: Sequence[str]) -> str:
    """The first of these notes, if it says so; else ""."""
    return next((note for note in notes[:1] if note.endswith(_END)), "")


# Snapshot: the store's records at one moment, and what can be proved from them.


class FailedLookup(msgspec.Struct, frozen=True):
    """A question that the service did not answer: the status or the id `asked` for, and what went
    wrong.
    """

    asked: str
    problem: str


class Coverage(msgspec.Struct, frozen=True):
    """Which status queries a snapshot is the union of, and which of those asked failed.

    The service cannot list everything: a pet whose status was not asked for, or whose query
    failed, may exist without being in the snapshot. So absence is proved by getPetById alone, and
    only a pet with one of `statuses`, those that were answered, can be missing from a sheet:
    `pet.status in coverage`, compared as statuses are, trimmed and without regard to case.
    """

    statuses: tuple[str, ...] = ()
    failed: tuple[FailedLookup, ...] = ()

    def __contains__(self, status: object) -> bool:
        if not isinstance(status, str):
            return False
        return _fold_status(status) in map(_fold_status, self.statuses)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """The store's records: `frame` has the canonical columns, one row for each pet, sorted by id.

    `source` is the service's base URL, `taken_at` the moment (UTC) before the first query.
    `reread` are the ids of pets that the queries gave more than once, and differently, and that
    were read by their ids. A pet that a query gave unasked is there, and outside `coverage`.
    `whole` lists the whole store where the frame is a part of it: its categories and tags count.
    """

    frame: pd.DataFrame
    coverage: Coverage
    source: str
    taken_at: datetime
    reread: tuple[int, ...] = ()
    whole: Snapshot | None = None

    @property
    def words(self) -> pd.DataFrame:
        """The pets whose categories and tags are the store's: all that are known."""
        if self.whole is None:
            return self.frame
        others = self.frame[~self.frame["id"].isin(self.whole.frame["id"])]
        return pd.concat([self.whole.frame, others]) if len(others) else self.whole.frame

    @property
    def unheard(self) -> tuple[FailedLookup, ...]:
        """The queries of the whole store that failed: it may have more categories and tags."""
        return () if self.whole is None else self.whole.coverage.failed

    def __len__(self) -> int:
        return len(self.frame)

    def require_whole(self) -> None:
        """Raise SheetError where a query failed: a sheet made of the rest would lack pets."""
        if not self.coverage.failed:
            return
        queries = ", ".join(query.asked for query in self.coverage.failed)
        answered = ", ".join(self.coverage.statuses)
        raise SheetError(
            f"the pets of the status {queries} would be missing from the sheet: "
            f"{self.coverage.failed[0].problem}",
            hint="Try again when the store answers, or export by their names the statuses that it "
            f"does list: {answered} (--status, or snapshot(statuses=[…])).",
        )

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _fold_status(status: str) -> str:
    return normal(status).casefold()
