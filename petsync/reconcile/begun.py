"""Begun: which plan a job applies, so that what became of it is known whatever happens to the job.

The note is written before the run, and stays until both sides were looked at again and the base is
kept: what a run has sent is agreed on, whoever edits what in between.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync.apply.resume import has_more
from petsync.diff.report import Report
from petsync.errors import PetsyncError, PlanError
from petsync.reconcile.kept import write
from petsync.store import Store

__all__ = ["Begun", "Run", "told_of"]

_LOG = logging.getLogger(__name__)


class _Note(msgspec.Struct, frozen=True):
    fingerprint: str
    is_own: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the job's plan: `is_stopped` if it is the job's own, and only has to be resumed."""

    id: str
    is_stopped: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """The note of a job's run; `is_own` is False where a person released its plan."""

    path: Path

    def remember(self, fingerprint: str, *, is_own: bool = True) -> None:
        """Write it, on the disk when this returns. Raises PetsyncError."""
        write(self.path, msgspec.json.encode(_Note(fingerprint, is_own)))

    def forget(self) -> None:
        """The base has all of it."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise PetsyncError(f"{self.path} cannot be removed: {error.strerror}") from None

    def run(self, store: Store) -> Run | None:
        """The run that has begun with the plan, None where there is none."""
        try:
            note = msgspec.json.decode(self.path.read_bytes(), type=_Note)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning("%s cannot be read (%s): a new plan does what is left", self.path, error)
            return None
        with store.aio.history.opened() as journal:
            run = journal.used_by(note.fingerprint)
        if run is None:
            return None
        try:
            past, _ = store.aio.to_resume(run)
        except PlanError as error:
            # Its plan is of another petsync, or of another store: a new plan does what is left.
            _LOG.warning("run %s is not resumed: %s", run, error.message)
            return None
        return Run(past.run_id, note.is_own and past.state != "done" and has_more(past))


def told_of(run: Run, store: Store) -> Report | None:
    """What has become of the run's changes so far; None where that cannot be told any more."""
    try:
        return store.run(run.id)
    except PlanError as error:
        _LOG.warning("run %s is not known any more: %s", run.id, error.message)
        return None
