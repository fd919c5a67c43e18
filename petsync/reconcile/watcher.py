"""Watcher: whoever is told, while it happens, what a reconciliation does."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

from petsync.diff.round import Round
from petsync.diff.round_report import RoundReport

__all__ = ["STEPS", "Step", "Watcher"]

Step = Literal[
    "resume", "read", "snapshot", "plan", "guard", "apply", "write", "verify", "report", "notify"
]
STEPS: tuple[Step, ...] = (
    "resume",
    "read",
    "snapshot",
    "plan",
    "guard",
    "apply",
    "write",
    "verify",
    "report",
    "notify",
)


class Watcher(Protocol):
    """Logs, metrics, spans: what they raise is logged and never ends a round."""

    def began(self, begun: Round) -> None:
        """A round has the job's lock and begins; of it only what identifies it is filled in."""

    def step(self, begun: Round, name: Step) -> AbstractContextManager[object]:
        """Entered and left around each step; an error passes through it."""

    def ended(self, told: RoundReport) -> None:
        """The round is over, and its report is written."""
