"""Services that assign an id twice: a pet that is reported as applied is always in the store."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from shop import MemoryTarget, lost, plan_of, sheet_saying
from test_engine import begin_run, carry_out, full_after, outcomes, ran, resumed
from times import times

import petsync as ps
from petsync.apply.journal import Journal
from petsync.apply.undo import build_undo_plan
from petsync.errors import InvalidInputError
from petsync.models import MAX_ID, Pet
from petsync.plan.change import Add, Delete, Update
from petsync.plan.fields import differing_columns
from petsync.plan.guard import Guard
from petsync.plan.plan import Plan
from petsync.plan.report import Report, result_of
from petsync.profile import LIVE
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

replace = msgspec.structs.replace
OLD = Pet(id=7, name="Old", status="sold")


class RacingTarget(MemoryTarget):
    """Gives a new pet the highest id plus one, and waits between reading the ids and storing it."""

    def __init__(self, pets: Iterable[Pet] = (), *, seed: int = 0, **more: bool) -> None:
        super().__init__(pets)
        self.random = random.Random(seed)
        self.assigns_unique_ids = more.get("admits", True) is False

    async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        """Add a pet as the original server does, without a lock."""
        self.calls.append("add")
        number = pet.id or min(MAX_ID, max((i for i in self.pets if i), default=0) + 1)
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(self.random.randrange(3)):
            await asyncio.sleep(0)
        self.running -= 1
        stored = replace(pet, id=number)
        self._commit("add", lambda: self.pets.__setitem__(number, stored))
        return stored


def new_pets(count: int, **more: Any) -> Plan:
    """Return a plan of this number of adds without an id; every fifth one has a twin."""
    look = {"status": "sold", "action": "add-another"}
    rows = [{"name": f"new {n - n % 5 // 4}", **look, **more} for n in range(count)]
    return plan_of([OLD], sheet_saying(*rows))


def check(report: Report, target: MemoryTarget) -> None:
    """Check that each applied row has a separate pet with the row's values, and that the store has
    no other pet.
    """
    applied = [r for r in report.results if r.outcome == "applied"]
    changes = report.plan.changes
    ids = [r.assigned_id for r in applied]
    assert len({*ids}) == len(ids)
    for result in applied:
        change = changes[result.number]
        assert isinstance(change, Add)
        assert differing_columns(change.after, target.pets[result.assigned_id]) == ()
    assert target.pets.keys() - {7} == {*ids}
    assert target.pets[7] == OLD


@pytest.mark.parametrize("admits", [True, False])
@pytest.mark.parametrize("seed", range(times(8)))
def test_what_is_applied_is_stored(tmp_path: Path, admits: bool, seed: int) -> None:
    """Every applied add is stored, whether the profile declares that ids may be assigned twice or
    the run detects it.
    """
    target = RacingTarget([OLD], seed=seed, admits=admits)
    report = carry_out(new_pets(60), target, tmp_path, concurrency=16)
    assert outcomes(report) == ["applied"] * 60
    check(report, target)
    if admits:
        assert target.most == 1
        assert target.calls.count("add") == 60


@pytest.mark.parametrize("seed", range(times(8)))
def test_what_is_applied_is_stored_after_a_crash(tmp_path: Path, seed: int) -> None:
    """Every applied add is stored after a crash at any point with lost answers and a
    resumed run.
    """
    target = RacingTarget([OLD], seed=seed, admits=False)
    plan = new_pets(40)
    target.failures["add"] = [None, None, lost(), None, lost()]  # type: ignore[list-item]
    first = full_after(seed * 3 + 2, begin_run(tmp_path, plan))
    report = asyncio.run(ran(plan, target, first, concurrency=8))
    assert report.stopped
    report = resumed(plan, target, tmp_path, concurrency=8)
    assert outcomes(report) == ["applied"] * 40
    check(report, target)


def test_a_lost_answer_and_its_rival(tmp_path: Path) -> None:
    """If a pet whose answer was lost replaced another pet, both are stored at the end
    of the run.
    """

    class Cut(RacingTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            stored = await super().add(pet)
            if len(self.calls) == 3:
                # The second add of the run replaced the first, and the answer was lost.
                self.pets.pop(stored.id)
                self.pets[8] = replace(stored, id=8)
                raise lost()
            return stored

    target = Cut([OLD], admits=False)
    plan = new_pets(3)
    report = carry_out(plan, target, tmp_path, concurrency=1)
    assert outcomes(report) == ["applied"] * 3
    check(report, target)


def test_two_records_with_one_id_are_settled_by_reading_the_pet(tmp_path: Path) -> None:
    """If a run was killed after two answers with one id, the row that is stored is applied, and the
    other is added exactly once.
    """
    target = RacingTarget([OLD], admits=False)
    plan = new_pets(2)
    session = begin_run(tmp_path, plan)

    async def killed() -> None:
        await session.record_known_ids([7])
        for number, change in enumerate(plan.changes):
            await session.record_intent(number, change, before=None, after=change.after)
        for number, change in enumerate(plan.changes):
            result = report_of(plan, number)
            session.record_result(result, after=replace(change.after, id=8))
        await session.close()

    def report_of(plan: Plan, number: int) -> Any:
        return result_of(number, plan.changes[number], "applied", "", "", 8)

    asyncio.run(killed())
    second = plan.changes[1].after
    assert second is not None
    target.pets[8] = replace(second, id=8)
    report = resumed(plan, target, tmp_path)
    assert [(r.outcome, r.assigned_id) for r in report.results] == [("applied", 9), ("applied", 8)]
    assert target.calls.count("add") == 1
    check(report, target)


def test_a_pet_that_somebody_else_put_in_place_of_ours(tmp_path: Path) -> None:
    """If another client got the same id, its pet stays, and the row's pet is added
    again and reported.
    """

    class Shared(RacingTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            stored = await super().add(pet)
            if self.calls.count("add") == 2:
                self.pets[stored.id] = Pet(id=stored.id, name="Foreign", status="sold")
            return stored

    target = Shared([OLD])
    report = carry_out(new_pets(4), target, tmp_path)
    assert outcomes(report) == ["applied"] * 4
    assert Counter(pet.name for pet in target.pets.values())["Foreign"] == 1
    assert "added again" in report.results[1].message
    assert len(target.pets) == 6


@pytest.mark.parametrize(
    ("there", "holder"), [(None, "no pet"), (Pet(name="Foreign", status="sold"), "another pet")]
)
def test_a_pet_that_is_never_stored_is_reported_with_the_holder_of_its_id(
    tmp_path: Path, there: Pet | None, holder: str
) -> None:
    """If an add is never stored under its id, the message says whether another pet has the id."""

    class Losing(RacingTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            stored = await super().add(pet)
            del self.pets[stored.id]
            if there is not None:
                self.pets[stored.id] = replace(there, id=stored.id)
            return stored

    (result,) = carry_out(new_pets(1), Losing([OLD]), tmp_path).results
    assert (result.outcome, result.cause) == ("failed", "same-id")
    assert f", which {holder} has now, so the pet is not stored" in result.message


class RestartedTarget(RacingTarget):
    """Always assigns the id of a pet that exists."""

    async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        return await super().add(replace(pet, id=pet.id or 9))


@pytest.mark.parametrize("admits", [True, False])
def test_a_pet_that_an_add_replaced_is_named_and_can_be_put_back(
    tmp_path: Path, admits: bool
) -> None:
    """If an add replaced a pet, its row is not applied, no further add is sent, and undo restores
    the pet and deletes none.
    """
    ninth = Pet(id=9, name="Ninth", status="sold", photo_urls=("/9.png",))
    target = RestartedTarget([OLD, ninth], admits=admits)
    rows = [{"name": f"n{n}", "status": "sold"} for n in "abcde"]
    plan = plan_of([OLD, ninth], sheet_saying(*rows))
    report = carry_out(plan, target, tmp_path, concurrency=8)
    assert outcomes(report) == ["failed"] * 5
    assert [r.cause for r in report.results] == ["overwrote", *["unsafe-id"] * 4]
    assert "'Ninth'" in report.results[0].message
    assert target.calls.count("add") == 1
    assert outcomes(resumed(plan, target, tmp_path))[0] == "failed"
    assert target.calls.count("add") == 1
    (change,) = undone(tmp_path, target).changes
    assert isinstance(change, Update)
    assert change.after == ninth


def test_an_undo_of_the_newest_run_puts_a_replaced_pet_back(tmp_path: Path) -> None:
    """A run that replaced a pet counts as the newest run to undo, although it applied nothing."""
    ninth = Pet(id=9, name="Ninth", status="sold")
    target = RestartedTarget([OLD, ninth])
    plan = plan_of([OLD, ninth], sheet_saying({"name": "new", "status": "sold"}))
    with Sandbox(auth=False) as sandbox, ps.connect(sandbox.url, state=tmp_path) as store:
        report = carry_out(replace(plan, store=sandbox.url), target, tmp_path)
        assert [r.cause for r in report.results] == ["overwrote"]
        sandbox.reset(target.pets.values())
        assert outcomes(store.apply(store.undo(), progress=False)) == ["applied"]
        assert {pet.id: pet for pet in sandbox.pets()} == {7: OLD, 9: ninth}


@pytest.mark.parametrize("admits", [True, False])
@pytest.mark.parametrize("is_listed", [True, False])
def test_an_add_that_would_replace_a_pet_is_refused(
    tmp_path: Path, is_listed: bool, admits: bool
) -> None:
    """If the highest possible id is taken, an add is refused, even if no list has that pet, under
    any profile.
    """
    highest = Pet(id=MAX_ID, name="Highest", status="elsewhere")

    class Hiding(RacingTarget):
        async def list_pets(self, statuses: Any = ()) -> list[Pet]:
            return [pet for pet in await super().list_pets() if is_listed or pet.id != MAX_ID]

    target = Hiding([OLD, highest], admits=admits)
    report = carry_out(new_pets(2), target, tmp_path)
    assert [r.cause for r in report.results] == ["unsafe-id"] * 2
    assert "'Highest'" in report.results[0].message
    assert "add" not in target.calls


def test_the_highest_id_is_given_to_one_pet(tmp_path: Path) -> None:
    """The add that gets the highest possible id is stored, and no other add replaces it."""
    below = Pet(id=MAX_ID - 1, name="Below", status="sold")
    target = RacingTarget([below], admits=False)
    plan = plan_of([below], sheet_saying(*[{"name": n, "status": "sold"} for n in "abc"]))
    report = carry_out(plan, target, tmp_path, concurrency=8)
    assert outcomes(report) == ["applied", "failed", "failed"]
    assert [r.cause for r in report.results[1:]] == ["unsafe-id"] * 2
    assert target.pets[MAX_ID].name == "a"
    assert target.calls.count("add") == 1


def test_a_service_without_such_ids_is_sent_adds(tmp_path: Path) -> None:
    """A service that refuses to look up the highest id still gets the adds."""

    class Narrow(MemoryTarget):
        async def get(self, pet_id: int) -> Pet | None:
            if pet_id == MAX_ID:
                raise InvalidInputError("Invalid ID supplied", status=400)
            return await super().get(pet_id)

    assert outcomes(carry_out(new_pets(3), Narrow([OLD]), tmp_path)) == ["applied"] * 3


def test_an_undo_of_an_old_journal_deletes_no_pet_that_was_there(tmp_path: Path) -> None:
    """An undo deletes no earlier pet, even if an old journal has `applied` for an add that replaced
    it.
    """
    target = MemoryTarget([OLD])
    plan = new_pets(1)
    session = begin_run(tmp_path, plan)
    change = plan.changes[0]
    assert change.after is not None
    new = replace(change.after, id=7)

    async def before() -> None:
        await session.record_known_ids([7])
        await session.record_intent(0, change, before=None, after=change.after)
        session.record_result(result_of(0, change, "applied", "", "", 7), after=new)
        await session.finish()
        await session.close()

    asyncio.run(before())
    target.pets[7] = new
    plan = undone(tmp_path, target)
    assert not any(isinstance(each, Delete) for each in plan.changes)
    assert [each.rule for each in plan.conflicts] == ["not-recorded"]


def undone(state: Path, target: MemoryTarget) -> Plan:
    """Return the plan that undoes the run."""
    journal = Journal.open(state, create=False)
    entries = list(journal.entries("run"))
    ids = {e.assigned_id for e in entries if e.assigned_id is not None}
    return build_undo_plan(
        journal.find("run"),
        entries,
        {each: target.pets.get(each) for each in ids},
        store=journal.find("run").store,
        profile="live",
        pets=len(target.pets),
        created="",
        guard=Guard(),
        known_ids=journal.find_known_ids("run"),
    )


@pytest.mark.parametrize("admits", [True, False])
def test_what_is_applied_is_stored_on_the_original_server(tmp_path: Path, admits: bool) -> None:
    """Every applied add is stored over HTTP, on a sandbox that assigns ids as the original server
    does.
    """
    rows = pd.DataFrame({"name": [f"pet {n}" for n in range(120)], "status": "available"})
    profile = dataclasses.replace(LIVE, assigns_unique_ids=not admits)
    with (
        Sandbox(profile="live", pets=[OLD], auth=False) as sandbox,
        ps.connect(sandbox.url, profile=profile, state=tmp_path) as store,
    ):
        report = store.apply(store.plan(rows, guard=Guard(max_add=None)), progress=False)
        pets = store.snapshot().frame
    assert outcomes(report) == ["applied"] * 120
    stored = dict(zip(pets["id"], pets["name"], strict=True))
    result = {each.assigned_id: f"pet {each.row}" for each in report.results}
    assert stored == {7: "Old", **result}
