"""Recorder: where the engine writes what it is about to do, and what became of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from petsync.diff.change import Change
from petsync.diff.report import Result
from petsync.model import Pet

__all__ = ["Recorder"]


class Recorder(Protocol):
    """One run's part of a journal, while it is at work. What is handed over is kept in order.

    Everything raises PetsyncError where the journal cannot be written, and LockedError where
    another process has taken over: then nothing more may be sent.
    """

    async def intend(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Return when it is on disk that this change is about to be sent, `before` being the pet as
        it is and `after` as it is to be. Intended anew, it counts as one more attempt.
        """

    def repeats(self, number: int, why: str) -> None:
        """The change's request is about to be sent once more, as the last attempt ended so."""

    def done(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """What became of a change; on disk soon, and in any case before a later intent is. `after`
        is the pet as the service then said it is, where it said so, and `replaced` the pet that a
        new one took the place of.
        """

    async def keep_known(self, ids: Iterable[int]) -> None:
        """Return when it is on disk which pets there were before one without an id was added."""

    def known(self) -> Collection[int] | None:
        """The ids of `keep_known`, None where it was never called in this run."""

    async def hold(self) -> None:
        """Return when it is sure that no other process has taken over this run."""

    def hurry(self) -> None:
        """From now on, wait no longer than a moment for others that keep the journal locked."""

    async def flush(self) -> None:
        """Return when all that was handed over is on disk."""
