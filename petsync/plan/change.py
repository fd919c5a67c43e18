"""The changes of a plan, and the snapshot from which it was made."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal, TypeVar, overload

import msgspec
import pandas as pd

from petsync._display import as_html, as_text, explain_assignment
from petsync._json import decoder_of
from petsync.errors import SheetError
from petsync.models import Pet
from petsync.plan.fields import UnreadVocabulary, Usage, Vocabulary, fold_status
from petsync.plan.guard import Refusal
from petsync.table.arrow import PetTable
from petsync.table.base import Base, base_of_frame, carry_base
from petsync.table.columns import Column
from petsync.table.frame import has_id_in, ids_of, join_rows

__all__ = [
    "Add",
    "Blocked",
    "Change",
    "Clash",
    "Conflict",
    "Coverage",
    "Delete",
    "FailedLookup",
    "LongChanges",
    "LongSequence",
    "Snapshot",
    "Tally",
    "Update",
    "describe_limits",
    "job_of",
    "release_of",
    "released_note",
]


# Change: an Add, Update or Delete of one pet. Conflict: a row or pet on which the user may have to
# decide. Blocked: a row with an error.


Kind = Literal["add", "update", "delete"]


class _Change(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="kind"):
    row: int | None
    """The row's number in the sheet, None for a pet that the sheet does not name."""
    source: str
    """The address of the row's id cell or, for an update, of the first changed cell. It is "" if
    `row` is None, and "edit" in a plan of `Store.edit`.
    """
    fields: tuple[Column, ...] = ()
    """The columns that change, in the table's order; () for a delete."""


class Add(_Change, frozen=True, kw_only=True, tag="add"):
    """A pet that the store lacks. Without an id, the service assigns one."""

    after: Pet
    """The pet to add."""
    alike: int = 0
    """The number of pets in the store with the same values, if the row has no id."""
    namesake: int | None = None
    """The id of a pet with this name that is in no row, None if there is none.

    It is set only if the row has no id, or one that no pet has.
    """
    kind: ClassVar[Kind] = "add"

    @property
    def pet_id(self) -> int | None:
        """The id in the sheet, None if the service is to assign one."""
        return self.after.id

    @property
    def before(self) -> None:
        """None: the pet does not exist yet."""
        return


class Update(_Change, frozen=True, kw_only=True, tag="update"):
    """A pet that changes from `before` to `after`, only in `fields`."""

    before: Pet
    """The pet in the store when the plan was made."""
    after: Pet
    """The pet after the change."""
    kind: ClassVar[Kind] = "update"

    @property
    def pet_id(self) -> int | None:
        """The pet's id."""
        return self.before.id


class Delete(_Change, frozen=True, kw_only=True, tag="delete"):
    """A pet to delete, if it is still equal to `before`."""

    before: Pet
    """The pet in the store when the plan was made."""
    why: Literal["asked", "missing"] = "asked"
    """"missing" if the pet is deleted because no row names it, else "asked"."""
    kind: ClassVar[Kind] = "delete"

    @property
    def pet_id(self) -> int | None:
        """The pet's id."""
        return self.before.id

    @property
    def after(self) -> None:
        """None: the pet is deleted."""
        return


Change = Add | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The numbers of changes of each kind in a plan."""

    kinds: Counter[Kind]
    """The number of adds, updates and deletes."""
    fields: Counter[Column]
    """The number of updates that change each column."""
    namesakes: int
    """The number of adds with a namesake."""
    unassigned: int
    """The number of adds whose id the service assigns."""

    @classmethod
    def of(cls, changes: Sequence[Change]) -> Tally:
        """Return the numbers of these changes."""
        return changes.tally if isinstance(changes, LongChanges) else cls.count(changes)

    @classmethod
    def count(cls, changes: Iterable[Change]) -> Tally:
        """Count the changes."""
        kinds, fields = Counter[Kind](), Counter[Column]()
        namesakes = unassigned = 0
        for change in changes:
            kinds[change.kind] += 1
            if isinstance(change, Update):
                fields.update(change.fields)
            elif isinstance(change, Add):
                namesakes += change.namesake is not None
                unassigned += change.pet_id is None
        return cls(kinds=kinds, fields=fields, namesakes=namesakes, unassigned=unassigned)


T = TypeVar("T")


class LongSequence(Sequence[T]):
    """A sequence that makes an item when it is read. It equals a sequence with equal items."""

    @abstractmethod
    def make(self, number: int) -> T:
        """Return the item at this position."""

    def make_all(self, numbers: range) -> tuple[T, ...]:
        """Return the items at these positions."""
        return tuple(map(self.make, numbers))

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        numbers = range(len(self))[place]
        return self.make(numbers) if isinstance(numbers, int) else self.make_all(numbers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        pairs = zip(self, other, strict=False)
        return len(self) == len(other) and all(one == another for one, another in pairs)


_RECENT = 4
"""The number of blocks of `LongChanges` that stay decoded."""
_block_decoder = decoder_of(tuple[Change, ...])


class LongChanges(LongSequence[Change]):
    """The changes of a plan that is too long to be in memory: a block of them is decoded when one
    of its changes is read.

    `sizes` are the numbers of changes in the blocks. `read` returns the changes of a block as JSON,
    with commas between them.
    """

    def __init__(self, sizes: Iterable[int], read: Callable[[int], bytes]) -> None:
        self._starts = (0, *accumulate(sizes))
        self._read = read
        self._recent: dict[int, tuple[Change, ...]] = {}
        self.fingerprints: dict[bytes, str] = {}
        """The known fingerprints of plans with these changes, by the SHA-256 of the other parts of
        the plan.
        """
        self.packed: tuple[str, bytes] = "", b""
        """The fingerprint and the content of a plan file with these changes, if it is in memory."""

    def __len__(self) -> int:
        return self._starts[-1]

    def make(self, number: int) -> Change:
        block = bisect_right(self._starts, number) - 1
        return self._decode(block)[number - self._starts[block]]

    def __iter__(self) -> Iterator[Change]:
        for block in range(len(self._starts) - 1):
            yield from self._decode(block)

    @cached_property
    def tally(self) -> Tally:
        """The numbers of changes of each kind."""
        return Tally.count(self)

    def pieces(self) -> Iterator[bytes]:
        """Yield the changes as JSON, with commas between them, block by block."""
        return map(self._read, range(len(self._starts) - 1))

    def _decode(self, block: int) -> tuple[Change, ...]:
        found = self._recent.get(block)
        if found is None:
            found = _block_decoder.decode(b"[" + self._read(block) + b"]")
            # Another thread may read the old dict.
            self._recent = dict([*self._recent.items(), (block, found)][-_RECENT:])
        return found


class Clash(msgspec.Struct, frozen=True, kw_only=True):
    """A field that sheet and store changed differently since the export.

    Each value is written as in a cell. For a category, `column` is `category`, and a text has name
    and id, such as `Dogs (1)`.
    """

    column: Column
    """The column."""
    base: str
    """The text at the export."""
    sheet: str
    """The sheet's text."""
    store: str
    """The store's text."""
    refused: str = ""
    """The reason why the sheet's value cannot be sent, "" if it can."""
    note: str = ""
    """A note for the user if the sheet's value is sent, "" for none."""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A contradiction between a row and the store, or a pet in no row, on which the user may have
    to decide. It is listed even if the sheet wins.

    With `clashes`, it concerns only these fields, and an Update has the row's other changes.
    Without `clashes`, nothing is sent for the row until the user decides.
    """

    row: int | None
    """The row's number, None for a pet that is in no row."""
    source: str
    """The row's address, "" if `row` is None."""
    pet_id: int | None
    """The pet's id, None if it is unknown."""
    name: str = ""
    """The pet's name in the store or in the row."""
    rule: str = ""
    """The conflict's stable code, as in docs/plan.md."""
    problem: str
    """The problem: the end of a sentence that begins with `subject`."""
    suggestion: str
    """The advice to the user."""
    clashes: tuple[Clash, ...] = ()
    """The fields that clash."""
    winner: Literal["", "store", "sheet"] = ""
    """The side that wins the clashes, "" without clashes."""
    before: Pet | None = None
    """With clashes: the pet as the store has it."""
    after: Pet | None = None
    """With clashes: the pet as it would be if the sheet won all clashes of the row."""
    says: tuple[Column, ...] = ()
    """With clashes: the row's columns from which `after` takes values."""

    @property
    def subject(self) -> str:
        """The subject of the sentence for `problem`: the row, or a pet in no row."""
        return "the row" if self.row is not None else f"pet {self.pet_id}"

    @property
    def is_unanswered(self) -> bool:
        """True if the service did not answer a request that is needed to decide on the row."""
        return self.rule == "not-looked-up"

    @property
    def is_open(self) -> bool:
        """True if the user must decide, because the sheet's change is not sent."""
        return self.winner != "sheet"


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A row that an error in the sheet excludes from the plan."""

    row: int
    """The row's number."""
    source: str
    """The address of the first error."""
    problem: str
    """The errors."""
    pet_id: int | None = None
    """The id in the row, None if there is no reliable one."""
    name: str = ""
    """The name of that pet in the store, else the name in the row, or "". If several rows have the
    id, the name in the row comes first.
    """


# The limits that a waiting plan of a job exceeded, and that are raised when a user applies it.


_RELEASED = re.compile(r"Job (.+?) did not apply this plan without approval: ", re.DOTALL)
_END = "Applying the plan approves it: its limits are raised as far as it needs."


def describe_limits(refusals: Iterable[Refusal]) -> str:
    """Return the exceeded limits, with their names in the configuration."""
    return "; ".join(refusal.problem.replace("--max-", "max_") for refusal in refusals)


def released_note(job: str, limits: str) -> str:
    """Return the note in a job's plan on the limits that it exceeded."""
    return f"Job {job} did not apply this plan without approval: {limits}. {_END}"


def job_of(notes: Sequence[str]) -> str:
    """Return the job of the first of these notes if it is a `released_note`, else ""."""
    found = _RELEASED.match(release_of(notes))
    return found[1] if found else ""


def release_of(notes: Sequence[str]) -> str:
    """Return the first of these notes if it is a `released_note`, else ""."""
    return next((note for note in notes[:1] if note.endswith(_END)), "")


# Snapshot: the store's records at one time, and what they prove.


class FailedLookup(msgspec.Struct, frozen=True):
    """A status query or a look-up by id that failed."""

    query: str
    """The status or the id of the query."""
    problem: str
    """The error."""


class Coverage(msgspec.Struct, frozen=True):
    """The status queries of a snapshot.

    The service cannot list everything: a pet may exist without being in the snapshot if no
    successful query asked for its status. Only getPetById therefore proves absence, and only a pet
    with one of `statuses` can be deleted as missing. `pet.status in coverage` ignores surrounding
    spaces and case.

    A snapshot of single pets, read by getPetById, has `ids` instead. It is evidence only about
    these pets.
    """

    statuses: tuple[str, ...] = ()
    """The statuses whose queries succeeded."""
    failed: tuple[FailedLookup, ...] = ()
    """The queries and look-ups that failed."""
    ids: tuple[int, ...] | None = None
    """The ids that were looked up, None if statuses were queried."""

    @property
    def is_narrow(self) -> bool:
        """True if only single pets were read, not the store's lists."""
        return self.ids is not None

    def __contains__(self, status: object) -> bool:
        if not isinstance(status, str):
            return False
        return fold_status(status) in map(fold_status, self.statuses)

    def require_whole(self) -> None:
        """Raise SheetError if a query failed, because a table would lack these pets."""
        if not self.failed:
            return
        queries = ", ".join(each.query for each in self.failed)
        answered = ", ".join(self.statuses)
        raise SheetError(
            f"the pets of the status {queries} would be missing: {self.failed[0].problem}",
            hint="Try again when the store answers, or read only the statuses that it does list: "
            f"{answered} (--status, in Python snapshot(statuses=[…])).",
        )


@explain_assignment("change its values, or use the DataFrame itself: store.plan(frame)")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """The store's records at one time."""

    pets: PetTable
    """The pets, one row for each, sorted by id.

    A pet that a query returned although its status was not requested is included, but is outside
    `coverage`.
    """
    coverage: Coverage
    """The status queries."""
    source: str
    """The service's base URL."""
    taken_at: datetime
    """The time (UTC) before the first query."""
    reread: tuple[int, ...] = ()
    """The ids of pets that the queries returned several times with different values, and that were
    read again by id.
    """
    whole: Snapshot | None = None
    """A snapshot of the whole store, if `frame` has only a part of the store. A plan takes the
    known categories and tags from it.
    """
    left_out: int = 0
    """The number of pets that are not in `pets` because their rows agree with them, or because they
    are in no row. If the coverage is narrow, the store has at least this number of other pets.
    """
    unnamed: int = 0
    """How many of the pets that are left out are in no row."""
    unexported: int = 0
    """How many of these the sheet's base lacks."""
    usage: Usage | None = None
    """The use of the categories and tags by all pets, if some are left out."""

    @property
    def frame(self) -> pd.DataFrame:
        """The pets in the canonical columns, and `extra` if a pet has unknown fields. The frame
        carries these values as its base, unless pets are missing.
        """
        coverage, frame = self.coverage, self.pets.frame
        is_part = bool(coverage.failed) or coverage.is_narrow or self.whole is not None
        if is_part or self.left_out or base_of_frame(frame) is not None:
            return frame
        return carry_base(frame, self._base_of(self.pets))

    def _base_of(self, pets: PetTable) -> Base:
        return Base(
            pets=pets,
            store=self.source,
            taken_at=self.taken_at.isoformat(timespec="microseconds"),
            statuses=self.coverage.statuses,
        )

    def as_base(self) -> Base:
        """Return the snapshot as a base, without a user's edits of `frame`. Raises SheetError if
        one of its queries failed.
        """
        self.require_whole()
        return self._base_of(self.pets)

    @property
    def rows(self) -> pd.DataFrame:
        """The pets for comparisons, see `PetTable.rows`."""
        return self.pets.rows

    @property
    def known_pets(self) -> pd.DataFrame:
        """The known pets of the whole store, for its categories and tags."""
        if self.whole is None:
            return self.rows
        if self.rows is self.whole.rows:
            return self.rows
        is_other = ~has_id_in(self.rows, ids_of(self.whole.rows))
        if not is_other.any():
            return self.whole.rows
        return join_rows([self.whole.rows, self.rows[is_other]])

    @property
    def vocabulary(self) -> Vocabulary:
        """The categories and tags of the whole store."""
        if self.coverage.is_narrow:
            return UnreadVocabulary(self.rows)
        return Vocabulary(self.known_pets, self.usage)

    @property
    def failed_queries(self) -> tuple[FailedLookup, ...]:
        """The failed queries of `whole`, () if it is None. If any failed, the store may have more
        categories and tags.
        """
        return () if self.whole is None else self.whole.coverage.failed

    @property
    def not_found(self) -> dict[int, FailedLookup | None]:
        """The look-ups of a narrow snapshot that found no pet, by id: None for a 404, or the
        failure.
        """
        if self.coverage.ids is None:
            return {}
        failed = {int(each.query): each for each in self.coverage.failed}
        found = {*ids_of(self.rows)}
        return {each: failed.get(each) for each in self.coverage.ids if each not in found}

    def __len__(self) -> int:
        return len(self.pets) + self.left_out

    def require_whole(self) -> None:
        """Raise SheetError if a query failed, see `Coverage.require_whole`."""
        self.coverage.require_whole()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
