"""How a rehearsal is said: what was tried, on what, and how it would end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from petsync.diff.rehearsal import Broken, Left, Rehearsal, Why
from petsync.render import words
from petsync.render.digest import Listing, first
from petsync.render.visible import visible

__all__ = [
    "AGAIN",
    "LOOK",
    "NOTHING_SENT",
    "NO_STATUS",
    "REFUSED",
    "ROWS",
    "Surprise",
    "again_said",
    "left_by_reason",
    "left_title",
    "left_where",
    "new_title",
    "refusals",
    "rehearsal_facts",
    "rehearsal_summary",
    "surprise_title",
    "surprises",
    "unapplied",
]

REFUSED = "The guard refuses this plan: `petsync apply` would send nothing of it"
NOTHING_SENT = "petsync rehearsal: nothing was sent to the store"
NO_STATUS = "(no status)"
ROWS = "What would become of the rows"
LOOK = "How the store would look, by status"
AGAIN = "A second plan from the same sheet"
_WENT_WELL = ("applied", "")
_LEFT: Mapping[Why, str] = {
    "not-applied": "not applied on the copy:",
    "left-out": "left out of this plan:",
    "new": "new since the first plan:",
    "not-settled": "applied, and still not in agreement:",
}


class Surprise(NamedTuple):
    """A pet's column that is not as the plan said; texts."""

    where: str
    pet: str
    said: str


def rehearsal_facts(rehearsal: Rehearsal) -> Iterator[tuple[str, str]]:
    """What was tried, and on what."""
    plan = rehearsal.plan
    pets = words.count(len(rehearsal.before), "pet")
    yield "store", visible(plan.store)
    yield "copied", f"{pets}, as they were at {words.moment(rehearsal.taken_at)}"
    yield words.origin(plan)
    yield "tried", f"on the copy, on this machine (profile {visible(rehearsal.profile)})"
    if rehearsal.broken is not None:
        yield "faults", visible(rehearsal.broken.faults)
        yield "broken", _hits(rehearsal.broken)


def rehearsal_summary(rehearsal: Rehearsal) -> str:
    """Two sentences: how many rows had each outcome, and how it would end."""
    return f"Rehearsed: {words.outcomes(rehearsal.report)}. {_end(rehearsal)}"


def refusals(rehearsal: Rehearsal) -> Iterator[str]:
    """Each limit that the plan breaks, and the way out."""
    for refusal in rehearsal.plan.verdict.refusals:
        yield words.sentences(visible(refusal.problem), words.way_out(refusal))


def again_said(rehearsal: Rehearsal) -> str:
    """What the second plan comes to."""
    again = rehearsal.again
    if again is None:
        return f"There is none: {visible(rehearsal.why_not_again)}."
    if again.changes:
        changes = words.count(len(again.changes), "change")
        return f"It would still hold {changes}."
    if again.in_sync:
        return "It would be empty: sheet and store would be in sync."
    rest = [
        *([words.count(n, "conflict")] if (n := len(again.open_conflicts)) else []),
        *([f"{words.count(n, 'row')} blocked"] if (n := len(again.blocked)) else []),
    ]
    return f"It would send nothing more; left to a person: {' and '.join(rest)}."


def left_by_reason(rehearsal: Rehearsal, limit: int | None) -> Mapping[Why, Listing[Left]]:
    """What a second plan would still send, the first `limit` of each reason."""
    groups: dict[Why, list[Left]] = {}
    for left in rehearsal.left():
        groups.setdefault(left.why, []).append(left)
    return {why: first(group, limit) for why, group in groups.items()}


def left_title(why: Why, total: int) -> str:
    """What is said of all changes that are left for one reason."""
    return f"{words.count(total, 'change')}, {_LEFT[why]}"


def left_where(left: Left) -> str:
    """Which change is left, and what was said of it."""
    change = left.change
    pet = "" if change.pet_id is None else f"pet {change.pet_id}, "
    said = f"{words.source_of(change)}, {change.kind} of {pet}{words.name_of(words.pet_of(change))}"
    return f"{said}: {visible(left.message)}" if left.message else said


def new_title(total: int) -> str:
    """The heading of the pets to which the copy gave ids."""
    pets = words.count(total, "new pet")
    return f"{pets}, with the ids that the copy gave: the store may give others"


def surprises(rehearsal: Rehearsal) -> list[Surprise]:
    """What is not as the plan said although nothing went wrong."""
    rows = rehearsal.unexpected
    return [
        Surprise(str(row.source), _pet(row.id, row.name), _said(row))
        for row in rows[rows["outcome"].isin(_WENT_WELL)].itertuples()
    ]


def surprise_title(total: int) -> str:
    """The heading of what is not as the plan said."""
    return f"Not as the plan said, although nothing went wrong: {words.number(total)}"


def unapplied(rehearsal: Rehearsal) -> str:
    """How many pets are not as the plan said because their changes were not applied; "" if none."""
    rows = rehearsal.unexpected
    missed = rows[~rows["outcome"].isin(_WENT_WELL)]
    total = len(missed[["id", "source"]].drop_duplicates())
    if not total:
        return ""
    are = "is" if total == 1 else "are"
    why = "its change was" if total == 1 else "their changes were"
    return f"{words.count(total, 'pet')} {are} not as the plan said, as {why} not applied."


def _end(rehearsal: Rehearsal) -> str:
    if not rehearsal.plan.verdict.ok:
        return "But the guard refuses this plan: `petsync apply` would send nothing."
    if rehearsal.stopped:
        return "The run stopped early."
    again = rehearsal.again
    if again is None:
        said = "is as the plan says" if rehearsal.ok else "is not all as the plan says"
        return f"The copy {said}."
    if again.changes:
        return f"A second plan would still hold {words.count(len(again.changes), 'change')}."
    return "A second plan would " + ("be empty." if again.in_sync else "send nothing more.")


def _hits(broken: Broken) -> str:
    hit = sum(broken.hits.values())
    kinds = ", ".join(f"{kind}: {words.number(n)}" for kind, n in sorted(broken.hits.items()))
    of = f"{words.number(hit)} of {words.count(broken.requests, 'request')}"
    return f"{of} ({kinds})" if kinds else of


def _pet(pet_id: object, name: object) -> str:
    said = "new pet" if pet_id is pd.NA else f"pet {pet_id}"
    return f"{said} ({visible(str(name))})" if name else said


def _said(row: object) -> str:
    column, expected, found, why = (
        str(getattr(row, name)) for name in ("column", "expected", "found", "why")
    )
    lead = f"{column}: " if column else ""
    told = f"{lead}expected {_shown(expected, column)}, found {_shown(found, column)}"
    return f"{told} ({why})" if why else told


def _shown(text: str, column: str) -> str:
    if not column:
        return text
    return f"'{text}'" if text else "nothing"
