"""History: the runs of a state folder, as tables, reports, and what they did to one pet."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import pandas as pd

from petsync.apply.journal import Journal
from petsync.apply.pictures.recount import recounted
from petsync.diff.history import Entry, Past
from petsync.diff.lineage import Renumbered, Restored, RowRecord, added_for
from petsync.diff.pictures import Pictures
from petsync.diff.report import OUTCOMES, Report
from petsync.diff.uploaded import Uploaded
from petsync.errors import PlanError
from petsync.table.sheet import Sheet

__all__ = ["History", "runs_frame"]

_COLUMNS = ["id", "kind", "state", "started", "seconds", "source", "total", *OUTCOMES, "undoes"]
_LISTED = 5


_UNSEEN = frozenset({"not-looked-up", "not-settled"})
"""Rules of conflicts that another look may resolve."""


@dataclass(frozen=True, slots=True)
class History:
    """The journal below a state folder; only notes are written. Everything raises PetsyncError
    where the journal cannot be read.
    """

    state: Path

    @contextmanager
    def opened(self) -> Iterator[Journal]:
        """The journal itself; empty where there is none yet."""
        with closing(Journal.open(self.state, create=False)) as journal:
            yield journal

    def note(self, name: str) -> str:
        """What the journal keeps under the name, "" where there is nothing."""
        with self.opened() as journal:
            return journal.note(name)

    def set_note(self, name: str, text: str, *, patience: float = 30.0) -> None:
        """Have the journal keep a text under the name; another process that writes is waited for
        so many seconds.
        """
        with closing(Journal.open(self.state, create=True)) as journal:
            journal.set_note(name, text, patience=patience)

    def runs(self, store: str | None = None) -> list[Past]:
        """All runs, or those on a store, the newest first."""
        with self.opened() as journal:
            return journal.runs(store)

    def find(self, name: str, store: str | None = None) -> Past:
        """The run of that id, or whose id alone begins so. Raises PlanError that names the newest
        runs where there is none, or several, or it was on another store.
        """
        runs = self.runs()
        found = [run for run in runs if run.run_id == name]
        found = found or [run for run in runs if name and run.run_id.startswith(name)]
        here = [run for run in found if store in (None, run.store)]
        if len(here) == 1:
            return here[0]
        raise _not_found(name, found, here, runs, store)

    def report(self, run_id: str, store: str | None = None) -> Report:
        """What became of every row of a run. Raises PlanError for an upload, too."""
        past = self.find(run_id, store)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images, and has no plan to report on",
                hint=f"`petsync runs {past.run_id}` shows what became of each image.",
            )
        with self.opened() as journal:
            return journal.report(past.run_id)

    def upload(self, run_id: str) -> Uploaded:
        """What became of every file that an upload was to send. Raises PlanError where the journal
        has no list of them that this petsync can read.
        """
        past = self.find(run_id)
        with self.opened() as journal:
            pictures = Pictures.from_json(journal.payload(past.run_id))
            return recounted(past, pictures, journal.entries(past.run_id))

    def entries(self, run_id: str) -> list[Entry]:
        """What the run did to each pet, by number."""
        with self.opened() as journal:
            return list(journal.entries(run_id))

    def known(self, run_id: str) -> frozenset[int]:
        """The ids of the pets that there were before the run added some without an id."""
        with self.opened() as journal:
            return journal.known(run_id)

    def is_part(self, run_id: str) -> bool:
        """Whether the run's plan was a part of one, or knew too little of some pets to be whole. A
        plan that cannot be read any more was neither.
        """
        with self.opened() as journal:
            try:
                plan = journal.plan(run_id)
            except PlanError:
                return False
        return plan.left_out > 0 or any(c.rule in _UNSEEN for c in plan.conflicts)

    def row_records(
        self, store: str, sheet: Sheet, *, with_undone: bool = False
    ) -> list[RowRecord]:
        """What runs on the store knew of rows without an id, the newest first; the sheet's own
        records have its `source`, however its path was written. Rows whose pets an undo took away
        are there only `with_undone`.
        """
        with self.opened() as journal:
            records = journal.row_records(store, with_undone=with_undone)
        if not sheet.digest:
            return records
        same = {each.source: _is_same(each.source, sheet.source) for each in records}
        own = sheet.source
        return [
            msgspec.structs.replace(each, source=own) if same[each.source] else each
            for each in records
        ]

    def added_again(self, run_id: str) -> dict[int, tuple[str, int]]:
        """The pets that the run made of rows without an id, by their ids, where a later run of the
        same sheet made another pet of the same row: that run, and the other pet's id. A plan that
        cannot be read any more has none.
        """
        with self.opened() as journal:
            try:
                plan = journal.plan(run_id)
            except PlanError:
                return {}
            later = journal.later_run(run_id)
            if later is None:
                return {}
            made = {each.number: each.assigned_id for each in journal.entries(run_id)}
        started = datetime.fromisoformat(self.find(run_id).started)
        records = [r for r in later.added if datetime.fromisoformat(r.written) > started]
        runs = {record.pet_id: record.run_id for record in records}
        return {
            old: (runs[new], new)
            for number, new in added_for(plan.changes, plan.tab, records, skip=()).items()
            if (old := made.get(number)) is not None
        }

    def undone_adds(self, store: str) -> dict[int, str]:
        """The pets that undos took away and that are not back: by id, the run that was undone."""
        with self.opened() as journal:
            return journal.undone_adds(store)

    def restored(self, store: str) -> dict[int, Restored]:
        """The pets that undos changed, as the newest undo left each."""
        with self.opened() as journal:
            return journal.restored(store)

    def renumbered(self, store: str) -> dict[int, Renumbered]:
        """The pets to which the store gave another id than they were added with, by that one."""
        with self.opened() as journal:
            return journal.renumbered(store)

    def of_pet(self, pet_id: int, store: str | None = None) -> list[tuple[Past, Entry]]:
        """All that any run did, or meant to do, to a pet, the newest first."""
        with self.opened() as journal:
            return [
                (past, entry)
                for past in journal.runs(store)
                for entry in reversed(list(journal.entries(past.run_id)))
                if pet_id in (entry.pet_id, entry.assigned_id)
            ]


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def runs_frame(runs: Iterable[Past]) -> pd.DataFrame:
    """The runs in their order: id, kind, state, started (UTC), seconds, source, total, applied,
    skipped, conflict, failed, unknown, undoes. A change that was begun, and of which nobody knows
    the outcome yet, is unknown; what is missing to the total was not begun.
    """
    rows = [
        [
            run.run_id,
            run.kind,
            run.state,
            run.started,
            run.seconds,
            run.source,
            run.total,
            *(run.counts.get(outcome, 0) + _open(run, outcome) for outcome in OUTCOMES),
            run.undoes,
        ]
        for run in runs
    ]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    texts = dict.fromkeys(("id", "kind", "state", "source", "undoes"), "str")
    integers = dict.fromkeys(("total", *OUTCOMES), "int64")
    frame = frame.astype({**texts, **integers, "seconds": "float64"})
    frame["started"] = pd.to_datetime(frame["started"], utc=True, format="ISO8601")
    return frame


def _open(run: Past, outcome: str) -> int:
    return run.open if outcome == "unknown" else 0


def _not_found(
    name: str, found: list[Past], here: list[Past], runs: list[Past], store: str | None
) -> PlanError:
    if len(here) > 1:
        return PlanError(f"{len(here)} runs begin with {name!r}: {_some(here)}", hint="Say more.")
    if found:
        other = found[0]
        return PlanError(
            f"run {other.run_id} was on {other.store}, and this store is {store}",
            hint=f"Name that store: --url {other.store}",
        )
    known = [run for run in runs if store in (None, run.store)]
    latest = f"The newest are {_some(known)}. " if known else "No run is known yet. "
    return PlanError(f"there is no run {name!r}", hint=f"{latest}`petsync runs` lists them.")


def _some(runs: list[Past]) -> str:
    return ", ".join(run.run_id for run in runs[:_LISTED])
