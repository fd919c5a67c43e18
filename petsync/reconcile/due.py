"""Due: which jobs of a `--every` it is time for, and how long until the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from petsync.reconcile.config.model import Job
from petsync.reconcile.history import History
from petsync.reconcile.schedule import last_due, next_due

__all__ = ["Due"]


class Due:
    """Knows when each job ran last: here, or by the history before this was begun."""

    def __init__(self, state: Path) -> None:
        self.began = datetime.now(UTC)
        self._history = History(state)
        self._last: dict[str, datetime] = {}

    def is_it(self, job: Job, *, all_of: bool) -> bool:
        """Whether it is time for the job; without a schedule it is whenever it is for `all_of`."""
        if not job.schedule:
            return all_of
        now = datetime.now(UTC)
        # A last time in the future is one from before the clock was set back.
        last = self._last[job.name] = min(self._last.get(job.name) or self._before(job), now)
        due = last_due(job.schedule, now)
        return due is not None and due > last

    def runs(self, job: Job) -> None:
        """The job runs now."""
        self._last[job.name] = datetime.now(UTC)

    def pause(self, jobs: Iterable[Job]) -> Iterator[float]:
        """The seconds until each schedule's next time."""
        now = datetime.now(UTC)
        for job in jobs:
            due = next_due(job.schedule, now) if job.enabled else None
            if due is not None:
                yield (due - now).total_seconds()

    def _before(self, job: Job) -> datetime:
        """When the job ran last before this was begun; one that never ran waits from there."""
        rounds = self._history.rounds(job.name)
        starts = (datetime.fromisoformat(each.started) for each in rounds if not each.dry_run)
        return max(starts, default=self.began)
