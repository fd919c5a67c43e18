"""Traffic: how the requests to a service go just now."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Traffic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Counts since the beginning (of a run, or of the session), and the state at this moment.

    `requests` counts every attempt that was sent, `retries` those of them that were not a first
    one, `refused` the answers 429 and 503. `limit` is how many requests may be under way at a
    time, `under_way` how many are. `waiting` is in seconds: how long everything waits, because
    the service asked for it; 0.0 if nothing does.
    """

    requests: int = 0
    retries: int = 0
    refused: int = 0
    limit: int = 0
    under_way: int = 0
    waiting: float = 0.0
