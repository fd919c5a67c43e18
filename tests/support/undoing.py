"""A small store and its history: random plans that are applied, undone and disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from doubles import Double
from hypothesis import strategies as st
from shop import NO_LIMITS, URL, MemoryTarget
from strategies import extras, pets, texts

from petsync.apply import engine
from petsync.apply.engine import Recorder
from petsync.apply.options import ApplyOptions
from petsync.apply.undo import build_undo_plan
from petsync.models import Pet
from petsync.plan.change import Add, Change, Delete, Update
from petsync.plan.fields import differing_columns, find_filled_columns, with_fields
from petsync.plan.guard import Guard
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, PastRun, Report, Result, RunKind

replace = msgspec.structs.replace
CREATED = "2026-11-21T09:00:00+00:00"
_RESULT_FIELDS = ("outcome", "cause", "message", "assigned_id")
_KINDS = ("add", "update", "delete")


def plan_with(changes: Iterable[Change], *, pets: int = 10, **more: Any) -> Plan:
    """Return a plan with these changes, in the order of every plan."""
    ordered = sorted(changes, key=lambda change: (_KINDS.index(change.kind), change.pet_id is None))
    values: dict[str, Any] = {
        "created": CREATED,
        "store": URL,
        "profile": "standard",
        "source": "test.xlsx",
        "changes": tuple(ordered),
        "rows": len(ordered),
        "pets": pets,
        "guard": NO_LIMITS,
    }
    return Plan(**{**values, **more})


class Notes(Double, of=Recorder):
    """A recorder that keeps one run's entries in memory, as a journal does."""

    def __init__(self) -> None:
        self.by_number: dict[int, Entry] = {}
        self._known: Collection[int] | None = None

    async def record_intent(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Record an entry without an outcome."""
        self.by_number[number] = _entry(
            number, change, before=before, after=after, intended=CREATED, attempts=1
        )

    def record_retry(self, number: int, why: str) -> None:
        """Record nothing: an undo does not need retries."""

    def record_result(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """Record the entry with its outcome."""
        values = {name: getattr(result, name) for name in _RESULT_FIELDS}
        known = self.by_number.get(result.number) or _entry(result.number, result)
        self.by_number[result.number] = replace(
            known, **values, after=after or known.after, before=replaced or known.before
        )

    async def record_known_ids(self, ids: Iterable[int]) -> None:
        """Record the ids for `get_known_ids`."""
        self._known = frozenset(ids)

    def get_known_ids(self) -> Collection[int] | None:
        """Return the ids of `record_known_ids`."""
        return self._known

    def stop_waiting(self) -> None:
        """Do nothing: there is no disk to wait for."""

    async def flush(self) -> None:
        """Do nothing: every entry is already recorded."""


def _entry(number: int, about: Change | Result, **more: Any) -> Entry:
    kind = about.kind
    assert kind != "none"
    places: dict[str, Any] = {"row": about.row, "source": about.source, "fields": about.fields}
    return Entry(number=number, kind=kind, pet_id=about.pet_id, **places, **more)


@dataclass
class World:
    """A store in memory, and its runs, numbered from 1."""

    target: MemoryTarget
    runs: dict[str, tuple[PastRun, list[Entry]]] = field(default_factory=dict)

    @property
    def pets(self) -> dict[int | None, Pet]:
        """The store's current pets by id."""
        return dict(self.target.pets)

    def apply(self, plan: Plan, **options: Any) -> Report:
        """Run the plan, keep the run's entries, and return its report."""
        run = f"run-{len(self.runs) + 1}"
        notes = Notes()
        asked = ApplyOptions(**{"settle": 0.0, **options})
        made = engine.run(plan, self.target, notes, run_id=run, started=CREATED, options=asked)
        report = asyncio.run(made)
        kind: RunKind = "undo" if plan.undoes else "apply"
        past = PastRun(
            run_id=run,
            kind=kind,
            store=URL,
            source=plan.source,
            undoes=plan.undoes,
            started=CREATED,
            state="stopped" if report.stopped else "done",
        )
        self.runs[run] = past, [notes.by_number[n] for n in sorted(notes.by_number)]
        return report

    def undo(self, run: str, *, guard: Guard = NO_LIMITS, **more: Any) -> Plan:
        """Return the plan that undoes a run in the current store."""
        past, entries = self.runs[run]
        return build_undo_plan(
            past,
            entries,
            {each: self.target.pets.get(each) for each in ids_of(entries)},
            store=URL,
            profile="standard",
            pets=len(self.target.pets),
            created=CREATED,
            guard=guard,
            **more,
        )


def ids_of(entries: Iterable[Entry]) -> set[int]:
    """Return the known ids of the pets that the entries concern."""
    ids = {e.pet_id if e.assigned_id is None else e.assigned_id for e in entries}
    return {each for each in ids if each is not None}


def numbered(pet: Pet, number: int | None) -> Pet:
    """Return the pet with this id."""
    return msgspec.structs.replace(pet, id=number)


def renamed(pet: Pet, name: str) -> Pet:
    """Return the pet with this name."""
    return msgspec.structs.replace(pet, name=name)


_whole = pets(texts, extras)


@st.composite
def stores(draw: st.DrawFn) -> list[Pet]:
    """Draw up to six pets of every kind, with distinct ids."""
    drawn = draw(st.lists(_whole, max_size=6))
    return [numbered(pet, number * 7) for number, pet in enumerate(drawn, 1)]


@st.composite
def plans(draw: st.DrawFn, store: list[Pet]) -> Plan:
    """Draw a plan that adds pets with and without an id, and updates, deletes or keeps
    each other.
    """
    changes: list[Change] = []
    for row, pet in enumerate(store, 2):
        place: dict[str, Any] = {"row": row, "source": f"Pets!A{row}"}
        fate = draw(st.sampled_from(["leave", "update", "update", "delete"]))
        if fate == "update":
            wish = draw(_whole)
            moved = differing_columns(pet, wish)
            fields = tuple(each for each in moved if draw(st.booleans())) or moved
            after = with_fields(pet, wish, fields)
            if fields := differing_columns(pet, after):
                changes.append(Update(**place, fields=fields, before=pet, after=after))
        elif fate == "delete":
            changes.append(Delete(**place, before=pet))
    for row, pet in enumerate(draw(st.lists(_whole, max_size=3)), 20):
        new = numbered(pet, draw(st.sampled_from([None, 1000 + row])))
        place = {"row": row, "source": f"Pets!A{row}", "fields": find_filled_columns(new)}
        changes.append(Add(**place, after=new))
    return plan_with(changes)
