"""Begun: which plan a job applies, so that what became of it is known whatever happens to the job.

The note is written before the run, and stays until both sides were looked at again and the base is
kept: what a run has sent is agreed on, whoever edits what in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync.apply.resume import has_more
from petsync.diff.report import Report
from petsync.diff.settled import SETTLED
from petsync.diff.standing import undone_by
from petsync.errors import PetsyncError, PlanError
from petsync.model import Category
from petsync.reconcile.kept import write
from petsync.store import Store

__all__ = ["Begun", "Past", "Run", "mark_of", "told_of"]

_LOG = logging.getLogger(__name__)


class _Note(msgspec.Struct, frozen=True):
    """A plan of the job. `categories`: by the number of its change, the cells of a row's category
    that are not what the store gets.
    """

    fingerprint: str
    is_own: bool = True
    categories: dict[int, tuple[int | None, str | None]] = {}


class _Notes(msgspec.Struct, frozen=True):
    plans: tuple[_Note, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the job's plan: `is_stopped` if it is the job's own, nobody has undone it, and it
    only has to be resumed.
    `categories`: see `categories_of`.
    """

    id: str
    is_stopped: bool
    categories: Mapping[int, Category]


@dataclass(frozen=True, slots=True)
class Past:
    """What has become of a run, which the kept base does not have yet; `is_by_hand`: of one that is
    not the job's.
    """

    report: Report
    categories: Mapping[int, Category]
    is_by_hand: bool = False

    @property
    def mark(self) -> str:
        """What tells a base that has all of the report from one that has less of it."""
        return mark_of(self.report)


def mark_of(report: Report) -> str:
    """The run, and how many of its changes have arrived."""
    done = sum(r.outcome == "applied" or r.cause in SETTLED for r in report.results)
    return f"{report.run_id}:{done}"


@dataclass(frozen=True, slots=True)
class Begun:
    """The notes of a job's plans that may have been begun since its base was kept; `is_own` is
    False where it takes a person to release the plan.
    """

    path: Path

    def remember(
        self,
        fingerprint: str,
        categories: Mapping[int, Category],
        *,
        is_own: bool = True,
    ) -> None:
        """Add a note, on the disk when this returns; the one of a plan that is known stays. Raises
        PetsyncError.
        """
        notes = self._notes()
        if any(note.fingerprint == fingerprint for note in notes):
            return
        cells = {number: (each.id, each.name) for number, each in categories.items()}
        note = _Note(fingerprint, is_own, cells)
        write(self.path, msgspec.json.encode(_Notes((*notes, note))))

    def forget(self) -> None:
        """The base has all of it."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise PetsyncError(f"{self.path} cannot be removed: {error.strerror}") from None

    def runs(self, store: Store) -> list[Run]:
        """The runs that have begun with the plans, in the order of the notes."""
        return [run for note in self._notes() if (run := _run(note, store)) is not None]

    def _notes(self) -> tuple[_Note, ...]:
        try:
            body = self.path.read_bytes()
            if b'"plans"' not in body:
                return (msgspec.json.decode(body, type=_Note),)
            return msgspec.json.decode(body, type=_Notes).plans
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning("%s cannot be read (%s): a new plan does what is left", self.path, error)
            return ()


def _run(note: _Note, store: Store) -> Run | None:
    """The run of a plan, None where there is none."""
    with store.aio.history.opened() as journal:
        run = journal.used_by(note.fingerprint)
    if run is None:
        return None
    try:
        past, _ = store.aio.to_resume(run)
        is_undone = past.run_id in undone_by(store.aio.history.runs(past.store))
    except PlanError as error:
        # Its plan is of another petsync, or of another store: a new plan does what is left.
        _LOG.warning("run %s is not resumed: %s", run, error.message)
        return None
    categories = {number: Category(*cells) for number, cells in note.categories.items()}
    is_stopped = note.is_own and past.state != "done" and has_more(past) and not is_undone
    return Run(past.run_id, is_stopped, categories)


def told_of(run_id: str, store: Store) -> Report | None:
    """What has become of the run's changes so far; None where that cannot be told any more."""
    try:
        return store.run(run_id)
    except PlanError as error:
        _LOG.warning("run %s is not known any more: %s", run_id, error.message)
        return None
