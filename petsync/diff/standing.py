"""Which runs stand, and which are taken back by one that stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from petsync.diff.history import Entry, Past
from petsync.diff.round import Round

__all__ = ["has_left", "left_in", "runs_of", "taken_back", "undone_by"]


def undone_by(runs: Iterable[Past]) -> dict[str, Past]:
    """For each run that is taken back, the newest run that did so and is not taken back itself; one
    that may have, as nobody knows its outcome yet, counts too. `runs` are those of a store, or of
    several, the newest first.
    """
    found: dict[str, Past] = {}
    for run in runs:
        has_begun = run.open or run.counts.get("applied") or run.counts.get("unknown")
        if run.undoes and has_begun and run.run_id not in found:
            found.setdefault(run.undoes, run)
    return found


def taken_back(
    runs: Iterable[Past], entries: Callable[[str], Iterable[Entry]]
) -> Mapping[str, frozenset[int]]:
    """For each run that is taken back, in whole or in part, the pets that are; what an undo did
    that was itself taken back does not count. `runs` are the newest first, and `entries` gives a
    run's.
    """
    found: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for run in runs:
        if run.undoes:
            # Whatever takes this run back is newer, and was met before.
            found[run.undoes] |= _pets(entries(run.run_id)) - found[run.run_id]
    return found


def runs_of(runs: Sequence[Past], rounds: Iterable[Round]) -> list[Past]:
    """Those of the runs (the newest first) that these rounds made or finished, those by which
    somebody applied their sheet, or a plan of it that waited, to their store, and what took any of
    these back.
    """
    rounds = list(rounds)
    ids = {run for each in rounds for run in each.runs}
    sides = {(each.store, each.source) for each in rounds}
    for run in reversed(runs):
        if run.undoes in ids or (not run.undoes and (run.store, run.source) in sides):
            ids.add(run.run_id)
    return [run for run in runs if run.run_id in ids]


def has_left(run: Past) -> bool:
    """Whether anything of a run is left that was not done, or that nobody knows the end of."""
    return run.state != "done" or left_in(run) > 0


def left_in(run: Past) -> int:
    """How many changes of a run were not done, or have an unknown outcome."""
    return run.total - run.counts.get("applied", 0) - run.counts.get("skipped", 0)


def _pets(entries: Iterable[Entry]) -> frozenset[int]:
    ids = (entry.pet_id for entry in entries if entry.outcome == "applied")
    return frozenset(pet_id for pet_id in ids if pet_id is not None)
