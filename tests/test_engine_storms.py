"""Many short runs in memory, each with random faults, killed at random moments and resumed until
done: the store is as planned, and no pet is missing, doubled or partly written.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import virtual
from doubles import Double
from shop import MemoryTarget, long_plan, lost, plan_of, sheet_saying
from times import times

from petsync.apply import engine
from petsync.apply.engine import NO_EARLIER_RESULTS, Recorder, build_earlier_results
from petsync.apply.options import ApplyOptions
from petsync.errors import RateLimitedError, ServiceError, TransportError, UnavailableError
from petsync.models import Pet
from petsync.plan.change import Change
from petsync.plan.fields import content
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, Report, Result

pytestmark = pytest.mark.slow

ROUNDS = times(60)
_SETTLE = 5.0
"""Longer than a late request takes, in virtual seconds."""


class MemoryJournal(Double, of=Recorder):
    """A journal that loses the entries that were not on disk when its process is killed."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.ids: frozenset[int] | None = None
        self._waiting: list[Entry] = []

    async def record_intent(
        self, number: int, change: Change, *, before: Pet | None, after: Pet | None
    ) -> None:
        """Write the intent and all waiting entries to disk."""
        self._waiting.append(
            Entry(
                number=number,
                kind=change.kind,
                pet_id=change.pet_id,
                fields=change.fields,
                before=before,
                after=after,
                intended="2026-11-20T00:00:00+00:00",
            )
        )
        await self.flush()

    def record_retry(self, number: int, why: str) -> None:
        """Record nothing: a resume does not need retries."""

    def record_result(
        self, result: Result, *, after: Pet | None = None, replaced: Pet | None = None
    ) -> None:
        """Keep the result until the next flush."""
        known = self.entries.get(result.number) or next(
            (e for e in self._waiting if e.number == result.number), None
        )
        found = {
            name: getattr(result, name)
            for name in ("outcome", "cause", "message", "assigned_id", "row", "source")
        }
        fresh = Entry(number=result.number, kind=result.kind, pet_id=result.pet_id)  # type: ignore[arg-type]
        self._waiting.append(msgspec.structs.replace(known or fresh, **found))

    async def record_known_ids(self, ids: Iterable[int]) -> None:
        """Write the ids to disk."""
        await self.flush()
        self.ids = frozenset(ids)

    def get_known_ids(self) -> Collection[int] | None:
        """Return the recorded ids."""
        return self.ids

    def stop_waiting(self) -> None:
        """Do nothing: the journal never waits."""

    async def flush(self) -> None:
        """Wait for the disk; a process may be killed in this wait."""
        await asyncio.sleep(0)
        self.entries.update((entry.number, entry) for entry in self._waiting)
        self._waiting.clear()

    def killed(self) -> None:
        """Lose the waiting entries."""
        self._waiting.clear()


class StormyTarget(MemoryTarget):
    """A target that fails at random, before or after the change, or makes the change late, when the
    client has stopped waiting.
    """

    def __init__(self, pets: Iterable[Pet], luck: random.Random) -> None:
        super().__init__(pets)
        self.luck = luck
        self.calm = self.races = False
        self.late: list[asyncio.Task[None]] = []

    async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        """Add a pet; its id is chosen when it is stored, or a little earlier without a lock if ids
        are not unique.
        """
        await self._begin("add")
        stored: list[Pet] = []
        chosen = self._next_id() if self.races else None
        for _ in range(0 if chosen is None else self.luck.randrange(4)):
            await asyncio.sleep(0)

        def store(number: int | None = None) -> None:
            given = pet.id or number or self._next_id()
            stored.append(msgspec.structs.replace(pet, id=given))
            self.pets[given] = stored[0]

        self._commit("add", partial(store, chosen), store)
        return stored[0]

    def _next_id(self) -> int:
        return max(i for i in self.pets if i is not None) + 1

    async def _begin(self, operation: str) -> None:
        self.calls.append(operation)
        for _ in range(self.luck.randrange(4)):
            await asyncio.sleep(0)
        if not self.calm and self.luck.random() < 0.05:
            raise self._unsent()

    def _commit(self, operation: str, change: Any, late: Any = None) -> None:
        draw = 1.0 if self.calm else self.luck.random()
        if draw < 0.05:
            raise lost()
        if draw < 0.1:
            self.late.append(asyncio.create_task(self._later(late or change)))
            raise lost()
        if draw < 0.15:
            raise ServiceError("down", status=500, may_have_happened=True)
        change()
        if draw < 0.25:
            raise lost()

    async def _later(self, change: Any) -> None:
        await asyncio.sleep(_SETTLE / 4)
        with suppress(KeyError):  # a delete that was sent again since
            change()

    def _unsent(self) -> Exception:
        return self.luck.choice(
            [
                RateLimitedError("too many", status=429),
                TransportError("refused", may_have_happened=False),
                UnavailableError("failing for a minute"),
            ]
        )


def some_plan(luck: random.Random) -> tuple[list[Pet], Plan]:
    """Return a store and a plan with changes of every kind."""
    store = [Pet(id=n, name=f"p{n}", status="sold", photo_urls=("a",)) for n in range(1, 13)]
    rows: list[dict[str, Any]] = [{"id": n, "name": f"new {n}"} for n in (1, 2, 3)]
    rows += [{"id": n, "photo_urls": ["b", "c"]} for n in (4, 5, 6)]
    rows += [{"id": n, "action": "delete"} for n in (7, 8)]
    rows += [{"id": 100 * n + 100, "name": f"given {n}", "status": "sold"} for n in range(3)]
    twin = {"name": "twin", "status": "available", "action": "add-another"}
    rows += [twin, twin, {"name": "free", "status": "sold", "action": "add"}]
    rows += [{"name": "p9", "status": "sold", "photo_urls": ["a"], "action": "add-another"}]
    luck.shuffle(rows)
    return store, plan_of(store, sheet_saying(*rows))


def planned(store: Iterable[Pet], plan: Plan) -> Counter[Any]:
    """Count the planned pets; those without an id by their content."""
    pets = {pet.id: pet for pet in store}
    new = []
    for change in plan.changes:
        if change.pet_id is None:
            new.append((None, content(change.after)))
        elif change.after is None:
            del pets[change.pet_id]
        else:
            pets[change.pet_id] = change.after
    return Counter([*((pet.id, content(pet)) for pet in pets.values()), *new])


def count_pets(target: MemoryTarget, plan: Plan, store: Iterable[Pet]) -> Counter[Any]:
    """Count the pets in the store."""
    named = {pet.id for pet in store} | {change.pet_id for change in plan.changes}
    return Counter((p.id if p.id in named else None, content(p)) for p in target.pets.values())


async def one_session(
    plan: Plan, target: StormyTarget, journal: MemoryJournal, kill_after: int | None
) -> Report | None:
    """Return the report of a session; None if it was killed after this number of loop turns."""
    before = (
        build_earlier_results(plan, lambda: list(journal.entries.values()), 0.0)
        if journal.entries
        else NO_EARLIER_RESULTS
    )
    options = ApplyOptions(concurrency=3, settle=_SETTLE, grace=0.0)
    run = asyncio.create_task(
        engine.run(plan, target, journal, run_id="r", started="", options=options, earlier=before)
    )
    if kill_after is None:
        return await run
    for _ in range(kill_after):
        await asyncio.sleep(0)
        if run.done():
            return run.result()
    frozen = dict(journal.entries)
    # A killed process does no clean-up: it writes and sends nothing more.
    for task in asyncio.all_tasks() - {asyncio.current_task(), *target.late}:
        task.cancel()
    journal.killed()
    ids = journal.ids
    await asyncio.gather(run, return_exceptions=True)
    journal.entries, journal.ids = frozen, ids
    journal.killed()
    return None


async def storm(seed: int, folder: Path, *, races: bool = False, admits: bool = True) -> None:
    """Run one plan with kills and resumes until it is done; every other plan is one in Parquet. A
    service with `races` may assign an id twice; its profile declares this if `admits`.
    """
    luck = random.Random(seed)
    store, plan = some_plan(luck)
    if luck.randrange(2):
        plan = long_plan(plan, folder / "plan.parquet")
    target, journal = StormyTarget(store, luck), MemoryJournal()
    target.races, target.assigns_unique_ids = races, not (races and admits)
    for session in range(40):
        target.calm = session > 8
        kill_after = None if target.calm else luck.choice([None, luck.randrange(1, 150)])
        report = await one_session(plan, target, journal, kill_after)
        if report is not None and report.exit_code == 0:
            break
    assert report is not None, f"seed {seed}"
    assert report.exit_code == 0, f"seed {seed}: {report}"
    assert {r.outcome for r in report.results} == {"applied"}, f"seed {seed}: {report}"
    await asyncio.gather(*target.late)
    assert count_pets(target, plan, store) == planned(store, plan), f"seed {seed}"
    assigned = [r.assigned_id for r in report.results if r.pet_id is None]
    assert len(set(assigned)) == len(assigned) == 4, f"seed {seed}"
    assert all(e.outcome == "applied" for e in journal.entries.values()), f"seed {seed}"


@pytest.mark.parametrize("part", range(4))
def test_no_storm_loses_or_doubles_a_pet(part: int, tmp_path: Path) -> None:
    """With random faults and kills, resumes bring the store to the plan."""

    async def storms() -> None:
        for seed in range(part, ROUNDS, 4):
            await storm(seed, tmp_path)

    virtual.run(storms())


@pytest.mark.parametrize("admits", [True, False])
def test_no_storm_on_a_service_that_gives_out_ids_twice(admits: bool, tmp_path: Path) -> None:
    """The store reaches the plan even if parallel adds replace each other, whether the profile
    declares it or not.
    """

    async def storms() -> None:
        for seed in range(ROUNDS // 4):
            await storm(seed, tmp_path, races=True, admits=admits)

    virtual.run(storms())
