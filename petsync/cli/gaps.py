"""What the store did not answer, said before anything that is built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from petsync.cli.context import Context

if TYPE_CHECKING:
    from petsync.diff.snapshot import Coverage

__all__ = ["warn"]


def warn(context: Context, coverage: Coverage) -> None:
    """Say which statuses the store did not list, and what that means for a plan."""
    for query in coverage.failed:
        said = f"warning: no pet of the status {query.asked} was listed: {query.problem}"
        context.say(said, "yellow")
    if coverage.failed:
        context.say("Rows that name such a pet are looked up by id; none is deleted as missing.")
