"""Moments as a journal holds them: ISO 8601 in UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["iso", "seconds_between"]


def iso(seconds: float) -> str:
    """Seconds since 1970 as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds_between(earlier: str, later: str) -> float:
    """How long it took, 0.0 where one of the two is unknown or the clock was set back."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, round(passed.total_seconds(), 3))
