"""Round: one time that one job was reconciled, as its history, its report and a notice tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from petsync.table.columns import Column

__all__ = [
    "MODES",
    "Counts",
    "Difference",
    "Mode",
    "Round",
    "SheetChange",
    "Status",
    "exit_code_of",
]


Mode = Literal["push", "pull", "two-way", "check"]
MODES: tuple[Mode, ...] = ("push", "pull", "two-way", "check")
"""push: the sheet leads. pull: the store leads. two-way: both merge. check: tells drift only."""

Status = Literal[
    "in-sync",
    "done",
    "drift",
    "findings",
    "failed-rows",
    "waiting",
    "refused",
    "conflicts",
    "locked",
    "interrupted",
    "error",
]
_WORST = (64, 1, 7, 4, 3, 5, 6, 2, 0)
"""The exit codes, the one that a person should hear of first in front."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many pets are to be added, changed and taken away on one side."""

    add: int = 0
    update: int = 0
    delete: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.add + self.update + self.delete


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between sheet and store that a round left, and why it stands.

    `conflict`: both sides changed it apart. `finding`: the row has an error. `failed`: the change
    was sent, or meant to be, and did not arrive. `waiting`: it is part of a plan that waits.
    `drift`: nobody was to change it (check, dry run), or it came while the round was at work.
    `note`: the job's policy leaves it (a row was taken out and deletes are not asked for, say).
    `pet_id` is None for a new row; `row` and `address` are those of the sheet, None and "" where
    no row is concerned; `fields` is () where it is about the whole pet. `hint` is the way out, ""
    where that is the kind's own.
    """

    kind: Literal["conflict", "finding", "failed", "waiting", "drift", "note"]
    problem: str
    pet_id: int | None = None
    name: str = ""
    row: int | None = None
    address: str = ""
    fields: tuple[Column, ...] = ()
    hint: str = ""


class SheetChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the sheet was to take from the store, of one pet: `values` are the cells' texts, before
    and after, by column. `add` made a row of it, `delete` took its row out. `row` and `address` are
    the sheet's, None and "" for a new row.
    """

    kind: Literal["add", "update", "delete"]
    pet_id: int | None = None
    name: str = ""
    row: int | None = None
    address: str = ""
    values: Mapping[Column, tuple[str, str]] = {}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One time that one job was reconciled, with one sheet.

    `id` is unique, and sorts by time; `part` is the file's name where the job has a folder of them.
    `started` is ISO 8601 in UTC. `status` and `exit_code` say how it ended, `problem` and `hint`
    why, where that is not good. `runs` are the runs of the journal that it made or finished,
    `resumed` how many of these are older than it. `rows` and `pets` are the sizes of both sides.
    `drift` is the number of rows and pets that were not in agreement when it began; `to_store` and
    `to_sheet` what was planned for either side, `applied` how many of these changes arrived there.
    `conflicts`, `findings` (blocked rows), `failed`, `notes` and `left` (differences that a look at
    the end found, and nothing explains yet) count what is open. `waiting`, `report` and `backup`
    are paths, "" where there is none.
    """

    id: str
    job: str
    part: str = ""
    mode: Mode = "check"
    dry_run: bool = False
    store: str = ""
    source: str = ""
    started: str
    seconds: float = 0.0
    status: Status = "done"
    exit_code: int = 0
    problem: str = ""
    hint: str = ""
    runs: tuple[str, ...] = ()
    resumed: int = 0
    rows: int = 0
    pets: int = 0
    drift: int = 0
    to_store: Counts = Counts()
    to_sheet: Counts = Counts()
    applied: int = 0
    conflicts: int = 0
    findings: int = 0
    failed: int = 0
    notes: int = 0
    left: int = 0
    waiting: str = ""
    report: str = ""
    backup: str = ""

    @property
    def name(self) -> str:
        """`catalogue`, or of a folder's job `inbox/dogs.csv`."""
        return f"{self.job}/{self.part}" if self.part else self.job

    @property
    def is_well(self) -> bool:
        """Whether nobody has to look at it."""
        return self.exit_code == 0


def exit_code_of(codes: Iterable[int]) -> int:
    """The exit code of several rounds: the one that a person should hear of first."""
    return min(codes, key=lambda code: _WORST.index(code) if code in _WORST else 1, default=0)
