"""What a person should know of a rehearsal besides its result."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from petsync.diff.snapshot import Snapshot
from petsync.rehearsal.copied import Copied

__all__ = ["notes"]

_SHOWN = 5


def notes(source: Copied, listed: Snapshot, after: Collection[int]) -> Iterator[str]:
    """What could not be copied, and what no query would find any more; `listed` is the copy as its
    status queries tell it, and `after` the ids of all of its pets.
    """
    for query in source.snapshot.coverage.failed:
        yield f"The copy has no pets of status {query.asked}: {query.problem}."
    if source.unanswered:
        ids = _few([int(each.asked) for each in source.unanswered])
        yield (
            f"The store gave no answer to {ids}. The copy does not have them, and nothing was "
            f"tried for them: {source.unanswered[0].problem}."
        )
    outside = {pet.id for pet in source.outside}
    if hidden := set(after) - set(listed.frame["id"]) - outside:
        yield (
            f"No status query would find {_few(sorted(hidden))} any more: an export would not "
            "have them."
        )


def _few(ids: list[int]) -> str:
    """`pet 7`, `pets 7, 8`, `pets 1, 2, 3, 4, 5 and 10 more`."""
    named = ", ".join(map(str, ids[:_SHOWN]))
    rest = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return f"pet{'' if len(ids) == 1 else 's'} {named}{rest}"
