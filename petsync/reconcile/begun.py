"""Begun: which plan a job is about to apply, so that its own interrupted run is found again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync.apply.resume import has_more
from petsync.errors import PetsyncError, PlanError
from petsync.reconcile.kept import write
from petsync.store import Store

__all__ = ["Begun"]

_LOG = logging.getLogger(__name__)


class _Note(msgspec.Struct, frozen=True):
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The note of a job's run. It is written before the run, so that it is there whatever kills
    it; the journal knows which run has begun with the plan, if any.
    """

    path: Path

    def remember(self, fingerprint: str) -> None:
        """Write it, on the disk when this returns. Raises PetsyncError."""
        write(self.path, msgspec.json.encode(_Note(fingerprint)))

    def forget(self) -> None:
        """The run is over."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise PetsyncError(f"{self.path} cannot be removed: {error.strerror}") from None

    def run(self, store: Store) -> str:
        """The run that was stopped, and that only has to be resumed; "" where there is none."""
        try:
            note = msgspec.json.decode(self.path.read_bytes(), type=_Note)
        except FileNotFoundError:
            return ""
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning(
                "%s cannot be read (%s); the next plan does what was left", self.path, error
            )
            return ""
        with store.aio.history.opened() as journal:
            run = journal.used_by(note.fingerprint)
        if run is None:
            return ""
        try:
            past, _ = store.aio.to_resume(run)
        except PlanError as error:
            # Its plan is of another petsync, or of another store: a new plan does what is left.
            _LOG.warning("run %s is not resumed: %s", run, error.message)
            return ""
        return past.run_id if past.state != "done" and has_more(past) else ""
