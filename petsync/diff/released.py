"""Which limit a plan broke that a job had wait, and that whoever applies it releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from petsync.diff.guard import Refusal

__all__ = ["broken", "release_of", "released_note"]

_END = "Whoever applies it releases it: its limits were raised just as far as it needs."


def broken(refusals: Iterable[Refusal]) -> str:
    """The limits by the names that they have in the configuration."""
    return "; ".join(refusal.problem.replace("--max-", "max_") for refusal in refusals)


def released_note(job: str, limits: str) -> str:
    """What the plan of a job is told to say of the limits that it broke."""
    return f"Job {job} did not apply this plan by itself: {limits}. {_END}"


def release_of(notes: Sequence[str]) -> str:
    """The first of these notes, if it says so; else ""."""
    return next((note for note in notes[:1] if note.endswith(_END)), "")
