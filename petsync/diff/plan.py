"""Plan: everything that a run would do, as one frozen value with a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.change import Add, Blocked, Change, Conflict, Delete, Update
from petsync.diff.fields import cell
from petsync.diff.guard import Guard, Verdict
from petsync.errors import GuardError, PlanError
from petsync.table.columns import Column

__all__ = ["Plan", "PlanOptions"]

FORMAT = 2


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sheet and store are compared."""

    delete_missing: bool = False
    """Whether pets that no row names are to be deleted."""
    match_on: tuple[Column, ...] = ()
    """The columns on which a row without an id finds its pet."""
    two_way: bool = False
    """Whether the base that the sheet carries is left out."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered changes, and everything that is not one, by what a person wants to know.

    `changes`: adds, then updates, then deletes, each in the sheet's order. `conflicts`: rows that
    the store contradicts. `blocked`: rows that an error in the sheet keeps out. `unchanged` and
    `ignored`: for how many rows nothing is to be done, and how many have the action `ignore`. Of
    the unchanged rows, by number: `older` say what was exported while the store says something
    newer, and the pets of `gone` are not there any more. `recognised`: the pet of each row without
    an id that means one. `rows`: all rows of the sheet; `pets`: the store's size. `notes`: what a
    person should look at. `verdict`: what the guard says. `created` is ISO 8601 in UTC, and so is
    `base`: when the sheet was exported, "" if it is compared with the store alone. `columns` is
    the mapping of headers that the sheet was read by.
    """

    format: int = FORMAT
    created: str
    store: str
    profile: str
    source: str
    source_digest: str = ""
    columns: Mapping[str, str] = {}
    base: str = ""
    options: PlanOptions = PlanOptions()
    guard: Guard = Guard()
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    unchanged: int = 0
    recognised: Mapping[int, int] = {}
    older: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    ignored: int = 0
    rows: int = 0
    pets: int = 0
    notes: tuple[str, ...] = ()
    verdict: Verdict = Verdict()

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
        return not (self.changes or self.conflicts or self.blocked)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the whole plan: two plans that would do the same differ in `created`."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def require_ok(self) -> None:
        """Raise GuardError unless the guard lets the plan through."""
        if not self.verdict.ok:
            raise GuardError(
                "the guard refuses this plan: " + "; ".join(self.verdict.refusals),
                hint="Nothing was sent. Look at the plan; if it is right, raise the limit.",
            )

    def to_frame(self) -> pd.DataFrame:
        """The changes: source, kind, id, name, column, before, after; a row a changed field."""
        # As objects first: beside a missing one, pandas would round an id to a float.
        frame = pd.DataFrame(
            [row for change in self.changes for row in _field_rows(change)],
            columns=["source", "kind", "id", "name", "column", "before", "after"],
            dtype=object,
        )
        return frame.astype({"id": "Int64"}).infer_objects()

    def to_json(self) -> bytes:
        """The plan as a file holds it: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the plan") -> Plan:
        """The plan of `to_json`. Raises PlanError where it is none, or was changed since."""
        try:
            saved = msgspec.json.decode(body, type=_Saved)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PlanError(f"{where} is no plan of petsync: {error}") from None
        if saved.plan.format != FORMAT:
            raise PlanError(f"{where} has format {saved.plan.format}; this petsync reads {FORMAT}")
        if saved.plan.fingerprint != saved.fingerprint:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not fit",
                hint="Make the plan again from the sheet, and apply it as it is.",
            )
        return saved.plan

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class _Saved(msgspec.Struct, frozen=True):
    fingerprint: str
    plan: Plan


def _field_rows(change: Change) -> list[list[object]]:
    pet = change.before if isinstance(change, Delete) else change.after
    head = [change.source, change.kind, change.pet_id, pet.name]
    if isinstance(change, Delete):
        return [[*head, "", "", ""]]
    return [
        [*head, column, cell(change.before, column), cell(change.after, column)]
        for column in change.fields
    ]
