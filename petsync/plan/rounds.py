"""Round: the record of one reconciliation of a job, for the history, the report and the notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from petsync.table.columns import Column

__all__ = [
    "MODES",
    "NEW_ID",
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
"""push: the sheet leads. pull: the store leads. two-way: both merge. check: report drift only."""

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
"""The exit codes, ordered from the most urgent."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of pets to add, update and delete on one side."""

    add: int = 0
    update: int = 0
    delete: int = 0

    @property
    def total(self) -> int:
        """The sum of the three numbers."""
        return self.add + self.update + self.delete


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between sheet and store that remains after a round, and the reason."""

    kind: Literal["conflict", "finding", "failed", "waiting", "drift", "note"]
    """`conflict`: a user must decide, for example because both sides changed the value differently.

    `finding`: the row has an error. `failed`: the change was sent, or was to be sent, and did not
    reach the store. `waiting`: the change is part of a plan that waits for approval. `drift`: the
    round makes no changes (check, dry run), or the difference appeared during the round. `note`:
    the job's settings keep the difference, for example a removed row if deletes are not
    enabled; or the round reverts a change of the store, an undo concerns the row, or a rule of the
    user's own is broken that is no error.
    """
    problem: str
    """The problem."""
    pet_id: int | None = None
    """The pet's id, None for a new row, or if the difference concerns no single pet."""
    name: str = ""
    """The pet's name."""
    row: int | None = None
    """The sheet's row, None if the difference concerns no row."""
    address: str = ""
    """The row's address, "" if the difference concerns no row."""
    fields: tuple[Column, ...] = ()
    """The columns that differ, () if the difference concerns the whole pet."""
    hint: str = ""
    """The advice to the user, "" for the general advice of the kind."""


NEW_ID = "the new id"
"""In a dry run, the text of a cell that gets an id which the store is still to assign."""


class SheetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that the sheet takes from the store, for one pet."""

    kind: Literal["add", "update", "delete"]
    """`add`: the pet gets a row. `delete`: its row is removed."""
    pet_id: int | None = None
    """The pet's id, None for a pet that is still to be added."""
    name: str = ""
    """The pet's name."""
    row: int | None = None
    """The sheet's row, None for a new row."""
    address: str = ""
    """The row's address, "" for a new row."""
    values: Mapping[str, tuple[str, str]] = {}
    """The cells' texts before and after the change, by column."""
    after_requests: bool = False
    """True in a dry run for cells that the round completes after its requests to the store."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """A reconciliation of a job with one sheet."""

    id: str
    """The unique id, which sorts by time."""
    job: str
    """The job's name."""
    part: str = ""
    """The file's name if the job has a folder of sheets, else ""."""
    mode: Mode = "check"
    """The job's mode."""
    dry_run: bool = False
    """True for a dry run, which makes no changes."""
    store: str = ""
    """The service's address."""
    replaced_url: str = ""
    """The address in petsync.toml, if PETSYNC_URL names another one, else ""."""
    source: str = ""
    """The sheet's file."""
    started: str
    """The start, ISO 8601 in UTC."""
    seconds: float = 0.0
    """The duration in seconds."""
    status: Status = "done"
    """The result."""
    exit_code: int = 0
    """The exit code of the result."""
    problem: str = ""
    """The problem, "" for none."""
    hint: str = ""
    """The advice on the problem, "" for none."""
    runs: tuple[str, ...] = ()
    """The runs in the journal that the round made or finished."""
    resumed: int = 0
    """The number of runs in `runs` that began before the round."""
    rows: int = 0
    """The number of rows in the sheet."""
    pets: int = 0
    """The number of pets in the store."""
    drift: int = 0
    """The number of rows and pets that differed at the start."""
    to_store: Counts = Counts()
    """The planned changes of the store."""
    to_sheet: Counts = Counts()
    """The planned changes of the sheet."""
    applied: int = 0
    """The number of planned changes that were made."""
    conflicts: int = 0
    """The number of open conflicts."""
    findings: int = 0
    """The number of blocked rows."""
    failed: int = 0
    """The number of failed changes."""
    notes: int = 0
    """The number of notes."""
    unexplained: int = msgspec.field(default=0, name="left")
    """The number of differences for which the comparison at the end finds no explanation. Its name
    in JSON, frames, logs, metrics and notices is `left`.
    """
    waiting: str = ""
    """The path of the waiting plan, "" for none."""
    report: str = ""
    """The path of the report, "" for none."""
    backup: str = ""
    """The path of the sheet's backup, "" for none."""
    again: tuple[str, ...] = ()
    """The words after `petsync reconcile` that start rounds with the same configuration: its file,
    and the options of the command line that it depends on. Empty in older rounds.
    """
    common: tuple[str, ...] = ()
    """The options with which other commands find the same journal and store. Empty in older
    rounds.
    """

    @property
    def name(self) -> str:
        """The job's name, with the file for a job with a folder: `catalogue`, `inbox/dogs.csv`."""
        return f"{self.job}/{self.part}" if self.part else self.job

    @property
    def is_well(self) -> bool:
        """True if the round needs no attention."""
        return self.exit_code == 0


def exit_code_of(codes: Iterable[int]) -> int:
    """Return the most urgent exit code of several rounds, 0 if there are none."""
    return min(codes, key=lambda code: _WORST.index(code) if code in _WORST else 1, default=0)
