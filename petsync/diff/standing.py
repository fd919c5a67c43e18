"""Which runs stand, and which are taken back by one that stands."""

from __future__ import annotations

from collections.abc import Iterable

from petsync.diff.history import Past

__all__ = ["undone_by"]


def undone_by(runs: Iterable[Past]) -> dict[str, Past]:
    """For each run that is taken back, the newest run that did so and is not taken back itself;
    `runs` are those of a store, or of several, the newest first.
    """
    found: dict[str, Past] = {}
    for run in runs:
        if run.undoes and run.counts.get("applied") and run.run_id not in found:
            found.setdefault(run.undoes, run)
    return found
