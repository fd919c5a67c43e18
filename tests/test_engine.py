"""Runs against a store in memory: every row is accounted for, and nothing is sent unchecked."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from shop import MemoryTarget, error_at, lost, plan_of, sheet_of, sheet_saying
from test_compare import PETS, REX, TOM, shop_pets
from times import times

from petsync.apply import engine
from petsync.apply.engine import (
    NO_EARLIER_RESULTS,
    EarlierResults,
    build_earlier_results,
)
from petsync.apply.journal import Journal, RunSession
from petsync.apply.options import ApplyOptions
from petsync.apply.undo import find_effects
from petsync.errors import (
    ApiError,
    AuthError,
    DuplicateError,
    InvalidInputError,
    NotFoundError,
    PetsyncError,
    ServiceError,
    StalePlanError,
    TransportError,
    UnavailableError,
)
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Change
from petsync.plan.plan import Plan
from petsync.plan.report import Progress, Report

pytestmark = pytest.mark.slow

NEW = Pet(name="Goldie", status="available")


def begin_run(state: Path, plan: Plan) -> RunSession:
    """Return the session of a new run of the plan."""
    return Journal.open(state, create=True).begin(
        "run",
        kind="apply",
        store=plan.store,
        source=plan.source,
        started="2026-11-20T00:00:00+00:00",
        total=len(plan.changes),
        plan=plan,
        fingerprint=plan.fingerprint,
    )


async def ran(
    plan: Plan,
    target: MemoryTarget,
    session: RunSession,
    *,
    before: EarlierResults = NO_EARLIER_RESULTS,
    on_progress: Any = None,
    **options: Any,
) -> Report:
    """Run one session to its end, and return its report."""
    asked = ApplyOptions(**{"settle": 0.0, **options})
    try:
        report = await engine.run(
            plan,
            target,
            session,
            run_id="run",
            started="now",
            options=asked,
            earlier=before,
            on_progress=on_progress,
        )
        await session.finish(stopped=report.stopped)
        return report
    finally:
        await session.close()


def carry_out(plan: Plan, target: MemoryTarget, state: Path, **options: Any) -> Report:
    """Return the report of a new run."""
    return asyncio.run(ran(plan, target, begin_run(state, plan), **options))


def resumed(plan: Plan, target: MemoryTarget, state: Path, **options: Any) -> Report:
    """Return the report of the run after another session."""
    journal = Journal.open(state, create=False)
    session = journal.resume("run")
    before = build_earlier_results(plan, lambda: journal.entries("run"), 0.0)
    return asyncio.run(ran(plan, target, session, before=before, **options))


def full_after(intents: int, session: RunSession) -> RunSession:
    """Return the session with a disk that has room for this number of further intents."""
    intend = session.record_intent

    async def short(number: int, change: Change, **images: Any) -> None:
        nonlocal intents
        intents -= 1
        if intents < 0:
            raise PetsyncError("the journal cannot be written: No space left on device")
        await intend(number, change, **images)

    session.record_intent = short  # type: ignore[method-assign]
    return session


def outcomes(report: Report) -> list[str]:
    """Return the outcomes in the plan's order."""
    return [result.outcome for result in report.results]


@settings(max_examples=times(25), deadline=None)
@given(store=shop_pets, wanted=shop_pets)
def test_a_run_makes_the_store_say_what_the_sheet_says(
    store: list[Pet], wanted: list[Pet], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After a run, a second plan is empty, and every row has an outcome."""
    target = MemoryTarget(store)
    plan = plan_of(store, sheet_of(wanted), delete_missing=True)
    report = carry_out(plan, target, tmp_path_factory.mktemp("state"))
    assert set(outcomes(report)) <= {"applied", "conflict"}
    assert report.counts["conflict"] == len(plan.conflicts)
    assert sum(report.counts.values()) == plan.rows + len(plan.deletes)
    after = list(target.pets.values())
    if not plan.conflicts:
        assert plan_of(after, sheet_of(wanted), delete_missing=True).changes == ()
        assert set(target.pets) == {pet.id for pet in wanted}


def test_the_smallest_call_is_used(tmp_path: Path) -> None:
    """A change of name and status alone uses the form request; any other replaces the whole pet."""
    rows = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "tags": []})
    target = MemoryTarget(PETS)
    carry_out(plan_of(PETS, rows), target, tmp_path, concurrency=1)
    assert target.calls == ["get", "update_with_form", "get", "replace"]


def test_adds_come_first_and_deletes_last(tmp_path: Path) -> None:
    """No delete begins before every add and update ends."""
    sheet = sheet_saying(
        {"id": 2, "action": "delete"}, {"id": 1, "name": "Max"}, {"name": "G", "status": "sold"}
    )
    target = MemoryTarget(PETS)
    report = carry_out(plan_of(PETS, sheet), target, tmp_path)
    changing = [call for call in target.calls if call not in ("get", "list_pets")]
    assert changing == ["add", "update_with_form", "delete"]
    assert [r.assigned_id for r in report.results] == [3, None, None]


def test_what_others_changed_meanwhile_is_never_overwritten(tmp_path: Path) -> None:
    """If someone changed the same field since the plan, the change is a conflict; a change of
    another field stays.
    """
    rows = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "tags": []})
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, rows)
    target.pets[1] = msgspec.structs.replace(REX, name="Fido")
    target.pets[2] = msgspec.structs.replace(TOM, name="Thomas", extra={"chip": 1})
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["conflict", "applied"]
    assert "name" in report.results[0].message
    assert target.pets[1].name == "Fido"
    assert target.pets[2] == msgspec.structs.replace(TOM, name="Thomas", tags=(), extra={"chip": 1})


def test_unknown_fields_that_others_changed_meanwhile_stay(tmp_path: Path) -> None:
    """An update sends the tags and the category that it keeps as the store has them now, with their
    unknown fields and assigned ids.
    """

    def rex(mark: int, *, tag_id: int | None = 2) -> Pet:
        fields = {"mark": mark}
        category = Category(3, "Dogs", fields)
        tags = (Tag(1, "calm", fields), Tag(tag_id, "big", fields), Tag(None, "old"))
        return msgspec.structs.replace(REX, category=category, tags=tags, extra=fields)

    before, now = rex(1, tag_id=None), rex(2)
    tags = [Tag(None, "calm"), Tag(None, "big"), Tag(None, "new")]
    rows = sheet_saying({"id": 1, "category": "Puppies", "category_id": 3, "tags": tags})
    pets = [before, msgspec.structs.replace(TOM, category=Category(3, "Puppies"))]
    target = MemoryTarget(pets)
    plan = plan_of(pets, rows)
    assert plan.updates[0].after.category == Category(3, "Puppies", {"mark": 1})
    target.pets[1] = now
    assert outcomes(carry_out(plan, target, tmp_path)) == ["applied"]
    assert target.pets[1] == msgspec.structs.replace(
        now, category=Category(3, "Puppies", {"mark": 2}), tags=(*now.tags[:2], Tag(None, "new"))
    )


def test_a_pet_that_changed_is_not_deleted(tmp_path: Path) -> None:
    """A pet that changed since the plan is not deleted."""
    plan = plan_of(PETS, sheet_of(PETS, action="delete"))
    target = MemoryTarget([msgspec.structs.replace(REX, photo_urls=("other",))])
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["conflict", "unchanged"]
    assert list(target.pets) == [1]


def test_a_change_that_somebody_made_already_is_not_sent(tmp_path: Path) -> None:
    """A change that the store already has is not sent."""
    plan = plan_of(
        PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 9, "name": "N", "status": "sold"})
    )
    target = MemoryTarget(
        [msgspec.structs.replace(REX, name="Max"), Pet(id=9, name="N", status="sold")]
    )
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["unchanged", "unchanged"]
    assert set(target.calls) == {"get"}


@pytest.mark.parametrize("status", ["pending", REX.status])
def test_a_change_that_somebody_made_in_part_is_a_conflict(tmp_path: Path, status: str) -> None:
    """If the store has one planned value and not the other, the change is neither done nor sent."""
    theirs = msgspec.structs.replace(REX, name="Max", status=status)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max", "status": "sold"}))
    target = MemoryTarget([theirs, TOM])
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["conflict"]
    assert target.pets[1] == theirs


def test_an_add_with_an_id_is_sent_only_after_a_404(tmp_path: Path) -> None:
    """An add with an id is sent only after a 404, because some services would replace the pet."""
    plan = plan_of([], sheet_saying({"id": 9, "name": "New", "status": "sold"}))
    other = Pet(id=9, name="Somebody else's", status="sold")
    target = MemoryTarget([other])
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["conflict"]
    assert target.pets == {9: other}


@pytest.mark.parametrize("committed", [True, False])
def test_an_add_without_answer_is_settled_by_comparing(tmp_path: Path, committed: bool) -> None:
    """An add without an answer is settled by the store's pets: it is sent again only if its pet is
    proved missing.
    """
    target = MemoryTarget([REX, Pet(id=5, name="Goldie", status="available")])
    target.failures["add"], target.commits = [lost()], committed
    sheet = sheet_of([NEW, NEW], action="add-another")
    report = carry_out(plan_of(list(target.pets.values()), sheet), target, tmp_path, concurrency=1)
    assert target.calls.count("add") == (2 if committed else 3)
    assert outcomes(report) == ["applied", "applied"]
    assert len(target.pets) == 4
    given_ids = {r.assigned_id for r in report.results if r.outcome == "applied"}
    assert given_ids == set(target.pets) - {1, 5}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("operation", ["update_with_form", "replace", "delete"])
def test_a_change_without_answer_is_settled_by_reading(
    tmp_path: Path, committed: bool, operation: str
) -> None:
    """A change without an answer is settled by reading the pet."""
    row = {
        "update_with_form": {"id": 1, "name": "Max"},
        "replace": {"id": 1, "tags": []},
        "delete": {"id": 1, "action": "delete"},
    }[operation]
    target = MemoryTarget(PETS)
    target.failures[operation], target.commits = [lost()], committed
    report = carry_out(plan_of(PETS, sheet_saying(row)), target, tmp_path)
    assert outcomes(report) == ["applied" if committed else "failed"]
    assert target.calls.count(operation) == 1


def test_what_cannot_be_settled_is_unknown(tmp_path: Path) -> None:
    """If the pet cannot be read either, the outcome is unknown."""
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    target.failures["update_with_form"] = [lost()]

    async def get(pet_id: int) -> Pet | None:
        if "update_with_form" in target.calls:
            raise lost()
        return await MemoryTarget.get(target, pet_id)

    target.get = get  # type: ignore[method-assign]
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == ["unknown"]
    assert report.exit_code == 3
    assert "list_pets" not in target.calls


@pytest.mark.parametrize("is_gone", [True, False])
def test_an_unknown_outcome_says_what_became_of_the_pet(tmp_path: Path, is_gone: bool) -> None:
    """If another client changed or deleted the pet after a request without an answer, the message
    says which.
    """
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    target.failures["update_with_form"] = [lost()]

    async def get(pet_id: int) -> Pet | None:
        if "update_with_form" in target.calls:
            return None if is_gone else msgspec.structs.replace(REX, name="Fido")
        return await MemoryTarget.get(target, pet_id)

    target.get = get  # type: ignore[method-assign]
    (result,) = carry_out(plan, target, tmp_path).results
    assert result.outcome == "unknown"
    assert result.message.endswith("no longer exists" if is_gone else "has other values now")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InvalidInputError("refused"), "failed"),
        (DuplicateError("there"), "conflict"),
        (TransportError("no route", may_have_happened=False), "failed"),
        (ServiceError("down", status=503, may_have_happened=True), "applied"),
    ],
)
def test_one_failure_is_one_rows_result(tmp_path: Path, error: PetsyncError, outcome: str) -> None:
    """A failed request is the result of its row only; the other rows are sent."""
    target = MemoryTarget(PETS)
    target.failures["add"], target.commits = [error], False
    sheet = sheet_saying(
        {"id": 8, "name": "a", "status": "sold"}, {"id": 9, "name": "b", "status": "sold"}
    )
    report = carry_out(plan_of(PETS, sheet), target, tmp_path, concurrency=1)
    assert outcomes(report) == [outcome, "applied"]


@pytest.mark.parametrize("status", [502, 503, 504, 520, 524, 599])
def test_an_add_that_a_gateway_gave_up_is_waited_for(tmp_path: Path, status: int) -> None:
    """If a gateway answers for the service, which may still carry out the add, it is not sent again
    before the settle time is over.
    """

    class Slow(MemoryTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            await self._begin("add")
            added = msgspec.structs.replace(pet, id=9)
            asyncio.get_running_loop().call_later(0.1, self.pets.setdefault, 9, added)
            raise ServiceError("timeout", status=status, may_have_happened=True)

    target = Slow(PETS)
    plan = plan_of(PETS, sheet_saying({"name": "a", "status": "sold"}))
    report = carry_out(plan, target, tmp_path, settle=0.5)
    assert outcomes(report) == ["applied"]
    assert target.calls.count("add") == 1
    assert [pet.name for pet in target.pets.values()].count("a") == 1


@pytest.mark.parametrize("error", [DuplicateError("locked"), NotFoundError("no such path")])
@pytest.mark.parametrize(
    ("request_name", "row"),
    [
        ("add", {"name": "a", "status": "sold"}),
        ("update_with_form", {"id": 1, "name": "Max"}),
        ("replace", {"id": 1, "category": "Birds"}),
        ("delete", {"id": 1, "action": "delete"}),
    ],
)
def test_a_refusal_has_the_services_message_unless_it_is_about_the_pets_id(
    tmp_path: Path, request_name: str, row: dict[str, Any], error: PetsyncError
) -> None:
    """A 409 is about an existing pet only for an add with an id, and a 404 about a missing pet only
    for other changes. Otherwise the change fails with the service's message.
    """
    target = MemoryTarget(PETS)
    target.failures[request_name], target.commits = [error], False
    (result,) = carry_out(plan_of(PETS, sheet_saying(row)), target, tmp_path).results
    assert target.calls.count(request_name) == 1
    if isinstance(error, NotFoundError) and request_name != "add":
        assert result.cause in ("gone", "already-gone")
    else:
        assert (result.outcome, result.message) == ("failed", error.message)
    assert target.pets == {pet.id: pet for pet in PETS}


def test_deletes_are_held_back_when_something_failed(tmp_path: Path) -> None:
    """After a failure, the deletes are held back, unless that number of failures is allowed."""
    target = MemoryTarget(PETS)
    target.failures["update_with_form"] = [InvalidInputError("refused")]
    sheet = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"})
    report = carry_out(plan_of(PETS, sheet), target, tmp_path)
    assert outcomes(report) == ["failed", "not sent"]
    assert "held back" in report.results[1].message
    target.failures["update_with_form"] = [InvalidInputError("refused")]
    lenient = plan_of(PETS, sheet, match_on=("name",))
    report = carry_out(lenient, target, tmp_path / "other", failures_before_deletes=1)
    assert outcomes(report) == ["failed", "applied"]


def test_a_refused_token_stops_the_run(tmp_path: Path) -> None:
    """A refused token stops the run, and the report names the reason."""
    target = MemoryTarget(PETS)
    target.failures["update_with_form"] = [AuthError("token expired", status=401)]
    sheet = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "Moritz"})
    report = carry_out(plan_of(PETS, sheet), target, tmp_path, concurrency=1)
    assert outcomes(report) == ["failed", "not sent"]
    assert report.stopped == "token expired"
    assert report.exit_code == 7


def test_an_interrupt_ends_at_a_changes_boundary(tmp_path: Path) -> None:
    """An interrupt completes the changes under way and begins no others."""
    store = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 101)]
    wanted = [msgspec.structs.replace(pet, name="x") for pet in store]
    target = MemoryTarget(store)
    target.delay = 0.01
    plan = plan_of(store, sheet_of(wanted))

    async def work() -> Report:
        task = asyncio.create_task(
            ran(
                plan,
                target,
                begin_run(tmp_path, plan),
                concurrency=4,
                on_progress=lambda progress: progress.done == 20 and task.cancel(),
            )
        )
        return await task

    report = asyncio.run(work())
    applied = [r for r in report.results if r.outcome == "applied"]
    assert 20 <= len(applied) <= 24
    assert {r.pet_id for r in applied} == {i for i, p in target.pets.items() if p.name == "x"}
    assert report.stopped == "interrupted"
    assert sum(report.counts.values()) == 100


def test_a_second_cancellation_ends_the_changes_under_way_too(tmp_path: Path) -> None:
    """A second interrupt also ends the changes under way."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    asked = asyncio.Event()

    class Slow(MemoryTarget):
        async def get(self, pet_id: int) -> Pet | None:
            asked.set()
            return await super().get(pet_id)

    target = Slow(PETS)
    target.delay = 30

    async def work() -> Report:
        task = asyncio.create_task(ran(plan, target, begin_run(tmp_path, plan), grace=30.0))
        await asked.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.wait_for(task, 60)

    assert outcomes(asyncio.run(work())) == ["not sent"]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_cancellation_while_the_journal_is_closed_loses_no_report(
    tmp_path: Path, times: int
) -> None:
    """An interrupt while the run's end is written loses neither the report nor the end
    in the journal.
    """
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    session = begin_run(tmp_path, plan)
    blocker = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)

    sent = asyncio.Event()

    class Blocking(MemoryTarget):
        """A target after whose rename another connection keeps the journal locked."""

        async def update_with_form(self, pet_id: int, **more: Any) -> None:
            await super().update_with_form(pet_id, **more)
            blocker.execute("BEGIN IMMEDIATE")
            sent.set()

    async def work() -> Report:
        task = asyncio.create_task(ran(plan, Blocking(PETS), session))
        await sent.wait()
        for _ in range(times):
            task.cancel()
            for _ in range(3):
                await asyncio.sleep(0)
        blocker.execute("ROLLBACK")
        return await asyncio.wait_for(task, 60)

    report = asyncio.run(work())
    blocker.close()
    assert outcomes(report) == ["applied"]
    (past,) = Journal.open(tmp_path, create=False).runs()
    assert past.counts["applied"] == 1
    assert past.ended


@pytest.mark.parametrize("step", ["finish", "close"])
def test_a_cancelled_end_of_a_run_is_written(tmp_path: Path, step: str) -> None:
    """Each step at a run's end completes despite cancellation, or the report would be lost and the
    run would count as interrupted.
    """
    session = begin_run(tmp_path, plan_of(PETS, sheet_saying({"id": 1, "name": "Max"})))
    blocker = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)

    async def work() -> None:
        if step == "close":
            await session.finish()
        blocker.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(getattr(session, step)())
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        blocker.execute("ROLLBACK")
        await asyncio.wait_for(task, 60)
        await session.close()

    asyncio.run(work())
    blocker.close()
    (past,) = Journal.open(tmp_path, create=False).runs()
    assert past.ended


def test_so_many_changes_run_at_a_time_and_no_more(tmp_path: Path) -> None:
    """No more changes run at a time than `concurrency` allows."""
    store = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 41)]
    target = MemoryTarget(store)
    target.delay = 0.001
    plan = plan_of(store, sheet_of([msgspec.structs.replace(p, name="x") for p in store]))
    carry_out(plan, target, tmp_path, concurrency=5)
    assert target.most == 5


def test_progress_counts_every_change(tmp_path: Path) -> None:
    """Progress counts every change of the plan."""
    seen: list[Progress] = []
    sheet = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"})
    carry_out(plan_of(PETS, sheet), MemoryTarget(PETS), tmp_path, on_progress=seen.append)
    assert [(p.done, p.total) for p in seen] == [(1, 2), (2, 2)]


def test_conflicts_and_blocked_rows_are_in_the_report(tmp_path: Path) -> None:
    """Every row has one outcome in the report, also if nothing is sent for it."""
    sheet = sheet_saying(
        {"id": 1}, {"id": 9, "action": "update"}, blocked=(8,), problems=(error_at(8),)
    )
    report = carry_out(plan_of(PETS, sheet), MemoryTarget(PETS), tmp_path)
    assert {name: n for name, n in report.counts.items() if n} == {
        "unchanged": 1,
        "conflict": 1,
        "needs fixing": 1,
    }
    assert report.to_frame()["row"].tolist() == [3, 8]
    assert report.exit_code == 3


def test_verify_reads_every_changed_pet_back(tmp_path: Path) -> None:
    """With `verify`, a service that answers 200 and stores nothing is detected."""

    class Forgetful(MemoryTarget):
        async def replace(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            return pet

    plan = plan_of(PETS, sheet_saying({"id": 1, "tags": []}, {"id": 2, "name": "Max"}))
    report = carry_out(plan, Forgetful(PETS), tmp_path, verify=True)
    assert outcomes(report) == ["failed", "applied"]
    assert report.results[0].message == "sent, but when read back, the pet differs in tags"


def test_a_plan_is_used_once(tmp_path: Path) -> None:
    """A second run of the same plan is refused before anything is sent."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    carry_out(plan, MemoryTarget(PETS), tmp_path)
    target = MemoryTarget(PETS)
    with pytest.raises(StalePlanError, match="in run run"):
        carry_out(plan, target, tmp_path)
    assert target.calls == []


def test_every_intent_is_on_disk_before_its_request(tmp_path: Path) -> None:
    """The journal has every intent on disk before its request is sent."""

    class Watching(MemoryTarget):
        def _commit(self, operation: str, change: Any) -> None:
            entries = list(Journal.open(tmp_path, create=False).entries("run"))
            begun = {entry.pet_id for entry in entries if entry.intended}
            assert len(begun) > len(sent)
            sent.append(operation)
            super()._commit(operation, change)

    sent: list[str] = []
    rows = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "tags": []})
    carry_out(plan_of(PETS, rows), Watching(PETS), tmp_path)
    entries = list(Journal.open(tmp_path, create=False).entries("run"))
    assert sent == ["update_with_form", "replace"]
    assert [(entry.outcome, entry.before) for entry in entries] == [
        ("applied", REX),
        ("applied", TOM),
    ]


def test_a_journal_that_cannot_be_written_stops_before_anything_is_sent(tmp_path: Path) -> None:
    """If the journal cannot be written, nothing is sent."""
    (tmp_path / "file").write_text("in the way")
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    with pytest.raises(PetsyncError, match="cannot be written"):
        carry_out(plan, target, tmp_path / "file")
    assert target.calls == []


def test_a_full_disk_stops_the_run(tmp_path: Path) -> None:
    """The first intent that cannot be written stops the run, and the report is kept."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "M"}))
    target = MemoryTarget(PETS)
    report = asyncio.run(ran(plan, target, full_after(0, begin_run(tmp_path, plan)), concurrency=1))
    assert "cannot be written" in report.stopped
    assert set(target.calls) == {"get"}
    assert outcomes(report) == ["not sent", "not sent"]


def test_a_lost_add_is_not_mistaken_for_an_old_pet_that_got_the_same_values(
    tmp_path: Path,
) -> None:
    """A pet that existed before the run is never taken for the pet of a lost add."""
    old = Pet(id=5, name="Rex", status="sold")
    target = MemoryTarget([old])
    target.failures["add"], target.commits = [lost()], False
    row = {"name": "Rex", "status": "available", "action": "add-another"}
    sheet = sheet_saying(row, {"id": 5, "name": "Rex", "status": "available"})
    report = carry_out(plan_of([old], sheet), target, tmp_path)
    assert outcomes(report) == ["applied", "applied"]
    assert report.results[0].assigned_id == 6


def test_an_add_whose_pet_has_come_since_the_plan_is_not_sent(tmp_path: Path) -> None:
    """A plan that is applied again, where its first run is unknown, doubles no pet."""
    target = MemoryTarget(PETS)
    twins = {"name": "Goldie", "status": "sold", "action": "add-another"}
    plan = plan_of(PETS, sheet_saying(twins, twins))
    assert outcomes(carry_out(plan, target, tmp_path / "here")) == ["applied", "applied"]
    again = carry_out(plan, target, tmp_path / "elsewhere")
    assert [(r.outcome, r.cause) for r in again.results] == [("unchanged", "already-so")] * 2
    assert {r.assigned_id for r in again.results} == {3, 4}
    assert len(target.pets) == 4
    more = plan_of(list(target.pets.values()), sheet_saying(twins))
    assert outcomes(carry_out(more, target, tmp_path / "there")) == ["applied"]


def test_an_add_with_the_name_of_a_pet_that_came_since_the_plan_is_not_sent(
    tmp_path: Path,
) -> None:
    """A pet of another client, or one that somebody renamed, with an add's name is a conflict of
    this add. A pet of another row is none, and a resume does not count the pets of its own run.
    """
    old, litter = Pet(id=3, name="Luna", status="sold"), {"name": "Luna"}
    rows = [{**litter, "status": status} for status in ("available", "pending")]
    sheet = sheet_saying(*rows, {"id": 2, "name": "Ada"}, {"name": "Ada", "status": "sold"})
    for case, changes, wanted in (
        ("as planned", [], ["applied"] * 4),
        ("came", [Pet(id=9, name=" Luna", status="sold")], ["conflict"] * 2 + ["applied"] * 2),
        ("renamed", [Pet(id=1, name="Luna")], ["conflict"] * 2 + ["applied"] * 2),
        (
            "own row",
            [msgspec.structs.replace(PETS[1], name="Ada")],
            ["applied"] * 3 + ["unchanged"],
        ),
    ):
        plan = plan_of([*PETS, old], sheet)
        target = MemoryTarget([*PETS, old, *changes])
        report = interrupted_after(1, plan, target, tmp_path / case)
        report = resumed(plan, target, tmp_path / case)
        assert outcomes(report) == wanted, case
        names = [result.cause for result in report.results if result.outcome == "conflict"]
        assert set(names) <= {"came-meanwhile"}


def test_an_id_that_the_service_chose_in_place_of_the_sheets_is_reported(tmp_path: Path) -> None:
    """An id that the service assigned in place of the sheet's is reported, so that the next plan
    does not add the pet again.
    """

    class Wilful(MemoryTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            return await super().add(msgspec.structs.replace(pet, id=None))

    plan = plan_of(PETS, sheet_saying({"id": 999, "name": "Nina", "status": "sold"}))
    (result,) = carry_out(plan, Wilful(PETS), tmp_path).results
    assert (result.outcome, result.assigned_id) == ("applied", 3)
    assert "999" in result.message


def test_a_callback_that_raises_stops_the_run_and_keeps_the_report(tmp_path: Path) -> None:
    """An error in a callback stops the run, and the report has every change that was made."""

    def bad(_: Progress) -> None:
        raise RuntimeError("my own mistake")

    target = MemoryTarget(PETS)
    rows = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "M"})
    report = carry_out(plan_of(PETS, rows), target, tmp_path, on_progress=bad, concurrency=1)
    assert outcomes(report) == ["applied", "not sent"]
    assert "my own mistake" in report.stopped
    assert target.pets[1].name == "Max"


def test_a_disk_that_fills_up_in_the_middle_keeps_the_report(tmp_path: Path) -> None:
    """If the disk fills up while many changes run, the report still has every change
    that was made.
    """
    store = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 31)]
    target = MemoryTarget(store)
    plan = plan_of(store, sheet_of([msgspec.structs.replace(p, name="x") for p in store]))

    session = full_after(9, begin_run(tmp_path, plan))
    report = asyncio.run(ran(plan, target, session, concurrency=8))
    assert "cannot be written" in report.stopped
    renamed = {pet.id for pet in target.pets.values() if pet.name == "x"}
    result = {r.pet_id for r in report.results if r.outcome in ("applied", "unknown", "failed")}
    assert renamed <= result
    assert sum(report.counts.values()) == 30


def test_a_start_that_fails_leaves_the_plan_usable(tmp_path: Path) -> None:
    """A run whose journal cannot be opened does not use up the plan."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}))
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(PetsyncError, match=r"journal\.db"):
        carry_out(plan, MemoryTarget(PETS), tmp_path)
    (tmp_path / "journal.db").rmdir()
    assert outcomes(carry_out(plan, MemoryTarget(PETS), tmp_path)) == ["applied"]


# Resumed runs --------------------------------------------------------------------------------


def interrupted_after(changes: int, plan: Plan, target: MemoryTarget, state: Path) -> Report:
    """Return the report of a run whose journal accepted this number of intents."""
    return asyncio.run(
        ran(plan, target, full_after(changes, begin_run(state, plan)), concurrency=1)
    )


@pytest.mark.parametrize("done", range(4))
def test_a_resumed_run_does_the_rest_and_nothing_twice(tmp_path: Path, done: int) -> None:
    """A resume sends only the remaining changes, and its report covers the whole run."""
    sheet = sheet_saying(
        {"id": 2, "action": "delete"}, {"id": 1, "name": "Max"}, {"name": "G", "status": "sold"}
    )
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet)
    first = interrupted_after(done, plan, target, tmp_path)
    assert [r.outcome == "applied" for r in first.results].count(True) == done
    report = resumed(plan, target, tmp_path)
    assert outcomes(report) == ["applied"] * 3
    assert [r.assigned_id for r in report.results] == [3, None, None]
    assert sorted(c for c in target.calls if c not in ("get", "list_pets")) == [
        "add",
        "delete",
        "update_with_form",
    ]
    assert set(target.pets) == {1, 3}


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("row", [{"name": "G", "status": "sold"}, {"id": 1, "tags": []}])
def test_what_was_on_its_way_when_a_run_was_cut_is_found_out(
    tmp_path: Path, landed: bool, row: dict[str, Any]
) -> None:
    """A request under way at a cut is confirmed if it arrived and sent if it did not, each exactly
    once.
    """
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying(row))
    operation = "replace" if "id" in row else "add"

    class Stuck(MemoryTarget):
        is_stuck: asyncio.Event

        def _commit(self, operation: str, change: Any) -> None:
            if landed:
                super()._commit(operation, change)

        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            await super().add(pet)
            return await self._never()

        async def replace(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            await super().replace(pet)
            return await self._never()

        async def _never(self) -> Pet:
            self.is_stuck.set()
            await asyncio.sleep(3600)
            raise AssertionError

    stuck = Stuck(PETS)
    stuck.pets, stuck.is_stuck = target.pets, asyncio.Event()

    async def cut() -> Report:
        task = asyncio.create_task(ran(plan, stuck, begin_run(tmp_path, plan), grace=0.01))
        await stuck.is_stuck.wait()
        task.cancel()
        return await asyncio.wait_for(task, 120)

    first = asyncio.run(cut())
    assert [(r.outcome, r.cause) for r in first.results] == [("unknown", "cut-off")]
    assert sum(first.counts.values()) == 1
    report = resumed(plan, target, tmp_path)
    assert [(r.outcome, r.cause) for r in report.results] == [
        ("applied", "confirmed" if landed else "")
    ]
    assert target.calls.count(operation) == (0 if landed else 1)
    assert len(target.pets) == (3 if operation == "add" else 2)


def test_failures_are_tried_again_by_a_resume_and_deletes_follow(tmp_path: Path) -> None:
    """A resume tries failed changes again, and then sends the deletes that were held back."""
    target = MemoryTarget(PETS)
    target.failures["update_with_form"] = [InvalidInputError("refused")]
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"}))
    assert outcomes(carry_out(plan, target, tmp_path)) == ["failed", "not sent"]
    assert outcomes(resumed(plan, target, tmp_path)) == ["applied", "applied"]
    assert list(target.pets) == [1]


def test_too_many_failures_stop_a_run(tmp_path: Path) -> None:
    """More failures than `max_failures` stop the run, which can be resumed."""
    store = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 11)]
    target = MemoryTarget(store)
    target.failures["update_with_form"] = [InvalidInputError("refused")] * 10
    plan = plan_of(store, sheet_of([msgspec.structs.replace(p, name="x") for p in store]))
    report = carry_out(plan, target, tmp_path, concurrency=1, max_failures=2)
    assert outcomes(report) == ["failed"] * 3 + ["not sent"] * 7
    assert "the limit is 2 (--max-failures, in Python max_failures)" in report.stopped
    target.failures.clear()
    assert outcomes(resumed(plan, target, tmp_path)) == ["applied"] * 10


def test_failures_of_earlier_sessions_do_not_stop_a_resume(tmp_path: Path) -> None:
    """Unknown outcomes of an earlier session are settled first, and do not count as new
    failures.
    """
    target = MemoryTarget(PETS)
    target.failures["add"] = [lost(), lost(), lost()]
    rows = [{"name": f"new {n}", "status": "sold"} for n in range(6)]
    plan = plan_of(PETS, sheet_saying(*rows))
    first = carry_out(plan, target, tmp_path, concurrency=1, max_failures=1)
    assert first.counts["unknown"] == 2
    target.failures.clear()
    report = resumed(plan, target, tmp_path, max_failures=0)
    assert outcomes(report) == ["applied"] * 6
    assert len(target.pets) == 8


def test_what_failed_before_is_reported_where_a_resume_does_not_come_to_it(tmp_path: Path) -> None:
    """A change that failed before stays failed in the report of a resume that stops before it."""
    target = MemoryTarget(PETS)
    target.failures["update_with_form"] = [
        InvalidInputError("no such name"),
        InvalidInputError("nor this"),
    ]
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "M"}))
    assert outcomes(carry_out(plan, target, tmp_path, concurrency=1)) == ["failed", "failed"]
    target.failures["update_with_form"] = [AuthError("token expired", status=401)]
    report = resumed(plan, target, tmp_path, concurrency=1)
    assert [result.message for result in report.results] == ["token expired", "nor this"]
    assert outcomes(report) == ["failed", "failed"]


def test_what_was_stored_otherwise_is_not_sent_once_more(tmp_path: Path) -> None:
    """A new pet that was stored with other values is not added a second time by a resume."""

    class Loud(MemoryTarget):
        async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            return await super().add(msgspec.structs.replace(pet, name="LOUD"))

    target = Loud(PETS)
    plan = plan_of(PETS, sheet_saying({"name": "soft", "status": "sold"}))
    assert carry_out(plan, target, tmp_path, verify=True).results[0].cause == "not-as-sent"
    report = resumed(plan, target, tmp_path)
    assert [(r.outcome, r.cause) for r in report.results] == [("conflict", "not-as-sent")]
    assert len(target.pets) == 3


@pytest.mark.parametrize(
    "row",
    [
        {"name": "new", "status": "sold"},
        {"id": 9, "name": "new", "status": "sold"},
        {"id": 1, "name": "Max"},
        {"id": 1, "tags": []},
    ],
)
@pytest.mark.parametrize("again", [1, 5])
def test_a_read_back_that_fails_is_tried_again(
    tmp_path: Path, row: dict[str, Any], again: int
) -> None:
    """A read-back that fails is tried again, in the run or by a resume, which then sends the
    deletes that waited.
    """

    class Mute(MemoryTarget):
        left = again

        async def get(self, pet_id: int) -> Pet | None:
            if self.left and {"add", "update_with_form", "replace"} & {*self.calls}:
                self.left -= 1
                raise lost()
            return await super().get(pet_id)

    target = Mute(PETS)
    plan = plan_of(PETS, sheet_saying(row, {"id": 2, "action": "delete"}))
    first = carry_out(plan, target, tmp_path, verify=True, concurrency=1)
    if again == 1:
        assert outcomes(first) == ["applied", "applied"]
        return
    assert [(r.outcome, r.cause) for r in first.results] == [
        ("unknown", "unverified"),
        ("not sent", "held-back"),
    ]
    target.left = 0
    report = resumed(plan, target, tmp_path)
    assert outcomes(report) == ["applied", "applied"]
    assert report.exit_code == 0
    assert sum(target.calls.count(each) for each in ("add", "update_with_form", "replace")) == 1


def test_deletes_follow_where_a_pet_is_still_not_as_it_was_sent(tmp_path: Path) -> None:
    """A pet that still differs from what was sent is a conflict in a resume, and the
    deletes follow.
    """

    class Loud(MemoryTarget):
        async def update_with_form(self, pet_id: int, *, name: str | None, **more: Any) -> None:
            await super().update_with_form(pet_id, name=(name or "").upper(), **more)

    target = Loud(PETS)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"}))
    first = carry_out(plan, target, tmp_path, verify=True)
    assert outcomes(first) == ["failed", "not sent"]
    report = resumed(plan, target, tmp_path)
    assert [(r.outcome, r.cause) for r in report.results] == [
        ("conflict", "not-as-sent"),
        ("applied", ""),
    ]
    assert target.calls.count("update_with_form") == 1


def test_a_resume_adds_nothing_that_a_later_run_has_added(tmp_path: Path) -> None:
    """A resume adds no pet that a later run of the same sheet added: each row is one pet."""
    rows = [{"name": f"new {n}", "status": "sold"} for n in range(8)]
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying(*rows))
    interrupted_after(3, plan, target, tmp_path)
    later = plan_of(list(target.pets.values()), sheet_saying(*rows))
    assert len(later.adds) == 5
    report = carry_out(later, target, tmp_path / "later")
    assert outcomes(report) == ["applied"] * 5
    report = resumed(plan, target, tmp_path)
    assert len(target.pets) == 2 + 8
    assert outcomes(report) == ["applied"] * 3 + ["unchanged"] * 5
    assert len({r.assigned_id for r in report.results}) == 8
    assert report.exit_code == 0


def test_a_pet_of_a_status_that_the_plan_did_not_ask_for_is_taken(tmp_path: Path) -> None:
    """An add matches an existing pet of a status that was not queried, unless another row names
    that pet.
    """
    hidden = Pet(id=9, name="Goldie", status="elsewhere")
    row = {"name": "Goldie", "status": "elsewhere"}
    target = MemoryTarget([*PETS, hidden])
    report = carry_out(plan_of(PETS, sheet_saying(row)), target, tmp_path / "one")
    assert [(r.outcome, r.cause, r.assigned_id) for r in report.results] == [
        ("unchanged", "already-so", 9)
    ]
    assert "already has a pet with these values: 9" in report.results[0].message
    named = sheet_saying({"id": 9, **row}, {**row, "action": "add-another"})
    plan = plan_of(PETS, named, elsewhere={9: hidden})
    assert outcomes(carry_out(plan, target, tmp_path / "two")) == ["applied"]
    assert len(target.pets) == 4


def test_a_repeated_request_has_what_was_read_before_it(tmp_path: Path) -> None:
    """A repeated request keeps unknown fields that somebody changed between two attempts."""

    class Retrying(MemoryTarget):
        async def replace(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            if not self.calls.count("replace"):
                self.calls.append("replace")
                self.pets[1] = msgspec.structs.replace(self.pets[1], extra={"chip": "new"})
                await before_retry(ServiceError("busy", status=503))
            return await super().replace(pet)

    old = msgspec.structs.replace(REX, extra={"chip": "old"})
    target = Retrying([old, TOM])
    plan = plan_of([old, TOM], sheet_saying({"id": 1, "tags": []}))
    assert outcomes(carry_out(plan, target, tmp_path)) == ["applied"]
    assert target.pets[1] == msgspec.structs.replace(REX, tags=(), extra={"chip": "new"})
    (entry,) = Journal.open(tmp_path, create=False).entries("run")
    assert entry.before is not None
    assert entry.before.extra == {"chip": "new"}


def test_a_pet_that_goes_between_two_attempts_is_gone(tmp_path: Path) -> None:
    """If somebody deletes the pet before a request is repeated, the result says that it is gone."""

    class Retrying(MemoryTarget):
        async def replace(self, pet: Pet, *, before_retry: Any = None) -> Pet:
            del self.pets[pet.id]
            await before_retry(ServiceError("busy", status=503))
            raise AssertionError

    plan = plan_of(PETS, sheet_saying({"id": 1, "tags": []}))
    (result,) = carry_out(plan, Retrying(PETS), tmp_path).results
    assert (result.outcome, result.cause) == ("conflict", "gone")


def test_an_unavailable_service_pauses_the_run(tmp_path: Path) -> None:
    """If the service is unavailable, the run stops, and its changes are not sent yet rather than
    failed or unknown.
    """
    target = MemoryTarget(PETS)
    target.failures["update_with_form"] = [UnavailableError("failing since 09:00")]
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "M"}))
    report = carry_out(plan, target, tmp_path, concurrency=1)
    assert [r.cause for r in report.results] == ["not-begun", "not-begun"]
    assert report.stopped == "failing since 09:00"
    (past,) = Journal.open(tmp_path, create=False).runs()
    assert {name: n for name, n in past.counts.items() if n} == {"not sent": 2}
    assert past.open == 0
    assert outcomes(resumed(plan, target, tmp_path)) == ["applied", "applied"]


class Late(MemoryTarget):
    """Loses the response to the first request, which it carries out just before the second one;
    the second one gets `error`.
    """

    error: ApiError

    async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        await self._begin("add")
        if self.calls.count("add") == 1:
            raise lost()
        self.pets[pet.id] = pet
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DuplicateError("there"), "applied"),
        (InvalidInputError("refused"), "applied"),
        (UnavailableError("failing since 09:00"), "unknown"),
        (AuthError("expired"), "unknown"),
    ],
)
def test_an_add_that_arrives_late_is_of_this_run(
    tmp_path: Path, error: ApiError, outcome: str
) -> None:
    """If the first request of an add with an id is carried out after the pet was looked for,
    whatever the second request gets, the run or its resume finds the pet, and an undo removes it.
    """
    target = Late(PETS)
    target.error = error
    plan = plan_of(PETS, sheet_saying({"id": 8, "name": "a", "status": "sold"}))
    report = carry_out(plan, target, tmp_path)
    assert outcomes(report) == [outcome]
    if outcome == "unknown":
        assert outcomes(resumed(plan, target, tmp_path)) == ["applied"]
    (effect,) = find_effects(Journal.open(tmp_path, create=False).entries("run"))
    assert (effect.kind, effect.pet_id, effect.is_settled) == ("add", 8, True)


def test_bulk_reads_all_pets_once(tmp_path: Path) -> None:
    """A bulk recheck reads all pets once, and still finds a pet that changed since the plan."""
    target = MemoryTarget(PETS)
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "M"}))
    target.pets[2] = msgspec.structs.replace(TOM, name="Thomas")
    report = carry_out(plan, target, tmp_path, recheck="bulk")
    assert outcomes(report) == ["applied", "conflict"]
    assert target.calls == ["list_pets", "update_with_form"]
