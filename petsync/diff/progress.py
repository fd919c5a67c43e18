"""Progress: how far a run is, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass

from petsync.diff.report import Result
from petsync.wire.traffic import Traffic

__all__ = ["Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` changes have a result, `problems` of them one that a person has to look at
    (failed, unknown, conflict); `last` is the newest, and `traffic` how the requests go.
    """

    done: int
    total: int
    last: Result
    problems: int = 0
    traffic: Traffic = Traffic()  # noqa: RUF009 - frozen
