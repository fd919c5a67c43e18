"""The whole way through `Store`: load, plan, apply, and a second plan that is empty."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pytest
from sheetmaking import assert_same_frames

import petsync as ps
from petsync._collector import pause_collection
from petsync.apply.journal import journal, schema
from petsync.apply.journal.writer import RunSession
from petsync.errors import SheetError
from petsync.plan.change import Change
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

REX = ps.Pet(id=1, name="Rex", status="available", tags=(ps.Tag(1, "shy"),))
TOM = ps.Pet(id=2, name="Tom", status="sold", photo_urls=("u",), extra={"chip": "A1"})
ADA = ps.Pet(id=3, name="Ada", status="pending", category=ps.Category(1, "Cats"))


@pytest.fixture(params=["standard", "live"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox of each profile with three pets."""
    with Sandbox(profile=request.param, pets=[REX, TOM, ADA]) as sandbox:
        yield sandbox


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store that is connected to the sandbox."""
    auth = ps.auth.bearer(box.token(), api_key=box.api_key)
    with ps.connect(box.url, auth=auth, profile=box.profile, state=tmp_path / "state") as store:
        yield store


def test_loaders_give_dataframes(store: ps.Store) -> None:
    """Pets load by status and by tags as DataFrames, and as a snapshot with its coverage."""
    assert store.find_by_status("sold", "pending")["name"].sort_values().tolist() == ["Ada", "Tom"]
    assert len(store.find_by_status()) == 3
    assert store.find_by_tags("shy")["id"].tolist() == [1]
    snapshot = store.snapshot()
    assert snapshot.frame["id"].tolist() == [1, 2, 3]
    assert ps.pets_from_frame(snapshot.frame) == [REX, TOM, ADA]
    assert snapshot.coverage.statuses == ("available", "pending", "sold")
    assert len(store.snapshot(statuses=["sold"])) == 1


def test_values_are_given_one_by_one_or_as_lists(store: ps.Store) -> None:
    """The find methods take lists as well as single values; an empty list finds nothing, instead of
    everything.
    """
    single = store.find_by_status("sold", "pending")
    for given in (["sold", "pending"], single["status"], ("sold", "pending")):
        assert_same_frames(store.find_by_status(given), single)
    assert_same_frames(store.find_by_status(["sold"], "pending"), single)
    assert_same_frames(store.find_by_tags(["shy"]), store.find_by_tags("shy"))
    for find in (store.find_by_status, store.find_by_tags):
        with pytest.raises(ps.errors.InvalidInputError, match="at least one value"):
            find([])


def test_pandas_and_other_libraries_take_the_tags_as_texts(store: ps.Store, tmp_path: Path) -> None:
    """Counts are of names; Arrow and Parquet have lists of texts, which polars and DuckDB read too;
    and such a table, or a list of names, plans as the table with ids.
    """
    store.api.update_pet(msgspec.structs.replace(TOM, tags=(ps.Tag(7, "shy"), ps.Tag(2, "old"))))
    pets = store.pets()
    assert pets["tags"].explode().value_counts().to_dict() == {"shy": 2, "old": 1}
    assert pa.array(pets["tags"]).to_pylist() == [["shy"], ["shy", "old"], []]
    assert pa.table(pets)["tags"].type in (pa.list_(pa.string()), pa.list_(pa.large_string()))
    pets.to_parquet(tmp_path / "pets.parquet")
    for table in (pets, pd.read_parquet(tmp_path / "pets.parquet"), pa.table(pets)):
        assert store.plan(table).changes == ()
    pets.at[1, "tags"] = ["old", "brand new"]
    (change,) = store.plan(pets).changes
    assert change.after is not None
    assert change.after.tags == (ps.Tag(2, "old"), ps.Tag(None, "brand new"))


def test_a_table_has_the_ids_of_tags_with_one_name(store: ps.Store, tmp_path: Path) -> None:
    """Two tags with one name, tags without a name and with unknown fields are not changed by the
    plan of the table that has them; a table from Parquet can be written as a sheet.
    """
    odd = (ps.Tag(8, "shy"), ps.Tag(7, "shy"), ps.Tag(5, None), ps.Tag(6, "a", {"colour": "red"}))
    store.api.update_pet(msgspec.structs.replace(REX, tags=odd))
    pets = store.pets()
    assert store.plan(pets).changes == ()
    snapshot = store.snapshot()
    assert snapshot.frame.at[0, "tags"] == ["shy", "shy", "", "a"]
    assert store.plan(pets, snapshot=snapshot).changes == ()
    snapshot.frame.at[0, "tags"].pop(0)
    (change,) = store.plan(snapshot.frame, snapshot=snapshot, two_way=True).changes
    assert change.fields == ("tags",)
    pets.to_parquet(tmp_path / "pets.parquet")
    for suffix in (".csv", ".xlsx"):
        ps.write_sheet(pd.read_parquet(tmp_path / "pets.parquet"), tmp_path / f"pets{suffix}")
        read = ps.read_sheet(tmp_path / f"pets{suffix}").frame
        assert read["tags"].iloc[0] == ["shy", "", "a"]


@pytest.mark.parametrize("others", [0, 300])
def test_an_edit_of_a_tag_s_id_alone_is_planned(tmp_path: Path, others: int) -> None:
    """The plan of a DataFrame, and `diff`, see another id of a tag whose name stays, in small and
    in large stores; the ids of pets and of categories can be assigned too.
    """
    twice = msgspec.structs.replace(TOM, tags=(ps.Tag(7, "x"), ps.Tag(8, "x")))
    more = (ps.Pet(id=100 + n, name=f"pet {n}", status="sold") for n in range(others))
    with (
        Sandbox(pets=[REX, twice, *more], auth=False) as box,
        ps.connect(box.url, state=tmp_path / "state") as store,
    ):
        pets = store.pets()
        pets.at[0, "tags"] = [ps.Tag(99, "shy")]
        pets.at[1, "tags"] = [pets.at[1, "tags"][0], ps.Tag(9, "x")]
        plan = store.plan(pets)
        assert {each.pet_id: each.fields for each in plan.changes} == {1: ("tags",), 2: ("tags",)}
        assert len(ps.diff(store.pets(), pets).rows) == 2
        store.apply(plan, progress=False)
        assert store.api.get_pet_by_id(1).tags == (ps.Tag(99, "shy"),)
        assert store.api.get_pet_by_id(2).tags == (ps.Tag(7, "x"), ps.Tag(9, "x"))
        pets = store.snapshot().frame
        pets.loc[0, "category_id"] = 5
        pets.loc[pets["id"] == 2, "id"] = 2
        assert pets[["id", "category_id"]].iloc[0].to_list() == [1, 5]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet", ".csv", ".xlsx"])
def test_a_written_table_means_what_the_table_means(tmp_path: Path, suffix: str) -> None:
    """A missing list or column changes nothing, a text stands for a list, and a tag without a name
    keeps its id: the plan of the file is that of the DataFrame.
    """
    rex = msgspec.structs.replace(REX, tags=(ps.Tag(5), ps.Tag(1, "shy")), photo_urls=("u",))
    with (
        Sandbox(pets=[rex, TOM], auth=False) as box,
        ps.connect(box.url, state=tmp_path / "state") as store,
    ):

        def changes(frame: pd.DataFrame | ps.types.Snapshot) -> list[tuple[int | None, Any]]:
            ps.write_sheet(frame, path, force=True)
            plan = store.plan(path, two_way=True)
            assert not plan.blocked
            return [(each.pet_id, each.after and each.after.tags) for each in plan.changes]

        path = tmp_path / f"pets{suffix}"
        assert changes(store.snapshot()) == []
        pets = store.pets()
        assert changes(pets[["id", "name"]]) == []
        pets.at[0, "tags"] = pets.at[0, "photo_urls"] = None
        assert changes(pets) == []
        pets.at[0, "tags"], pets.at[0, "photo_urls"] = "shy; old", "u"
        assert changes(pets) == [(1, (ps.Tag(1, "shy"), ps.Tag(None, "old")))]
        if suffix in (".json", ".jsonl", ".parquet"):
            pets.at[1, "tags"] = '"shy'
            with pytest.raises(SheetError, match="row 1 of the DataFrame has '\"shy' in tags"):
                ps.write_sheet(pets, path, force=True)


def test_pets_are_all_pets(store: ps.Store) -> None:
    """pets() has every pet of the snapshot; indexed by id it makes the same plan."""
    pets, by_id = store.pets(), store.pets(index="id")
    assert_same_frames(pets, store.snapshot().frame)
    assert_same_frames(by_id.reset_index(), pets)
    pets.loc[pets["id"] == 2, "name"] = by_id.loc[2, "name"] = "Moritz"
    for edited in (pets, by_id):
        (change,) = store.plan(edited).changes
        assert (change.kind, change.pet_id, change.fields) == ("update", 2, ("name",))
    with pytest.raises(ps.errors.SettingsError, match="index must be 'id'"):
        store.pets(index="name")


def test_the_async_face_is_the_same(box: Sandbox, store: ps.Store) -> None:
    """store.aio has the same methods as coroutines."""

    async def work() -> tuple[int, int]:
        frame = await store.aio.find_by_status("sold")
        plan = await store.aio.plan(frame.assign(name="Moritz"))
        report = await store.aio.apply(plan)
        await store.aio.close()
        return len(frame), report.counts["applied"]

    assert asyncio.run(work()) == (1, 1)
    assert box.pets()[1] == msgspec.structs.replace(TOM, name="Moritz")


def test_the_journal_is_opened_and_read_outside_of_the_event_loop(
    box: Sandbox, store: ps.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan and an undo open and read the journal in threads: opening it checks its integrity. A
    plan reads several kinds of records with one connection.
    """
    sheet = tmp_path / "pets.csv"
    ps.write_sheet(store.snapshot(), sheet)
    sheet.write_text(sheet.read_text(encoding="utf-8").replace("Rex", "Max"), encoding="utf-8")
    report = store.apply(store.plan(sheet), progress=False)
    box.remove(3)
    on_loop, in_all = list[str](), Counter[str]()
    opened = schema.open_for_reading, schema.check_integrity

    def watch(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> Any:
            in_all[name] += 1
            if threading.current_thread() is threading.main_thread():
                on_loop.append(f"{name} in {sys._getframe(3).f_code.co_qualname}")
            return function(*args, **options)

        return call

    for function in opened:
        monkeypatch.setattr(journal, function.__name__, watch(function.__name__, function))

    async def work() -> None:
        async with store.aio:
            await store.aio.plan(store.read(sheet).frame)
            assert in_all["open_for_reading"] == 4
            await store.aio.plan(sheet)
            await store.aio.undo(report.run_id)

    asyncio.run(work())
    assert on_loop == []


def test_a_store_can_be_used_on_its_own_loop_and_on_others(store: ps.Store) -> None:
    """A store works synchronously and on other event loops; each loop has its own connections."""
    assert len(store.snapshot()) == 3
    for _ in range(2):
        assert len(asyncio.run(_snapshot_and_close(store))) == 3
    assert len(store.snapshot()) == 3


async def _snapshot_and_close(store: ps.Store) -> ps.types.Snapshot:
    try:
        return await store.aio.snapshot()
    finally:
        await store.aio.close()


def test_an_edited_table_is_planned_applied_and_then_in_sync(box: Sandbox, store: ps.Store) -> None:
    """An edited DataFrame is planned and applied, and a second plan is empty. Unknown fields stay
    where the store keeps them.
    """
    frame = store.find_by_status()
    edited = frame[frame["id"] != 3].set_index("id", drop=False)
    edited.loc[1, "status"] = "sold"
    edited.at[2, "tags"] = ["shy", "new"]
    added = pd.concat([edited, pd.DataFrame([{"name": "Goldie", "status": "available"}])])
    guard = ps.Guard(max_delete=ps.Limit(1, is_share=False))
    plan = store.plan(added, delete_missing=True, guard=guard)
    assert (len(plan.adds), len(plan.updates), len(plan.deletes)) == (1, 2, 1)
    assert box.pets() == [REX, TOM, ADA]
    report = store.apply(plan, verify=True)
    assert report.counts == {
        "applied": 4,
        "unchanged": 0,
        "not sent": 0,
        "conflict": 0,
        "needs fixing": 0,
        "failed": 0,
        "unknown": 0,
    }
    assert store.plan(added, delete_missing=True).in_sync
    after = {pet.name: pet for pet in box.pets()}
    assert set(after) == {"Rex", "Tom", "Goldie"}
    # A live store drops unknown fields and assigns the id 0 to a tag without an id.
    is_live = box.profile == "live"
    assert after["Tom"].extra == (None if is_live else {"chip": "A1"})
    assert after["Tom"].tags == (ps.Tag(1, "shy"), ps.Tag(0 if is_live else None, "new"))


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_an_exported_status_is_no_error_once_the_store_moved_on(
    tmp_path: Path, suffix: str
) -> None:
    """An unedited cell does not block its row, even if its status is no longer in the profile or in
    the store; without its base it is an error.
    """
    odd = ps.Pet(id=4, name="Odd", status="reserved")
    path = tmp_path / f"pets{suffix}"
    with (
        Sandbox(profile="live", pets=[REX, odd], auth=False) as sandbox,
        ps.connect(sandbox.url, profile="live", state=tmp_path / "state") as store,
    ):
        ps.write_sheet(store.snapshot(statuses=["available", "reserved"]), path)
        sandbox.reset([REX, msgspec.structs.replace(odd, status="sold")])
        for sheet in (path, store.read(path), ps.read_sheet(path)):
            plan = store.plan(sheet)
            assert (plan.blocked, plan.changes, plan.unchanged) == ((), (), 2)
        ps.write_sheet(ps.read_sheet(path).frame.drop(columns="action"), path, base=False)
        assert len(store.plan(path).blocked) == 1


@pytest.mark.parametrize("kind", ["file", "frame"])
def test_a_sheet_that_was_read_before_plans_as_its_source_does(tmp_path: Path, kind: str) -> None:
    """A sheet read without the store gives the same plan as its source file or DataFrame."""
    odd = ps.Pet(id=4, name="Odd", status="reserved")
    path = tmp_path / "pets.csv"
    path.write_text("id,name,status\n4,Even,reserved\n", "utf-8")
    source = path if kind == "file" else pd.read_csv(path)
    with (
        Sandbox(profile="live", pets=[REX, odd], auth=False) as sandbox,
        ps.connect(sandbox.url, profile="live", state=tmp_path / "state") as store,
    ):
        now = store.snapshot(statuses=["available", "reserved"])
        plan = store.plan(store.read(source), snapshot=now)
        direct = store.plan(source, snapshot=now)
    assert plan.changes == direct.changes
    assert [change.fields for change in plan.changes] == [("name",)]
    assert (plan.blocked, plan.source, plan.source_digest) == (
        (),
        direct.source,
        direct.source_digest,
    )


def test_a_plan_sends_nothing_but_gets(box: Sandbox, store: ps.Store) -> None:
    """Planning sends only GET requests."""
    before = box.requests
    store.plan(pd.DataFrame([{"id": 1, "name": "x"}, {"id": 99, "name": "y", "status": "sold"}]))
    sent = box.requests - before
    assert set(sent) == {"findPetsByStatus", "getPetById"}


def test_a_plan_over_a_limit_is_refused_before_anything_is_sent(
    box: Sandbox, store: ps.Store
) -> None:
    """A plan over a limit of the guard is refused before anything is sent."""
    plan = store.plan(store.find_by_status().assign(action="delete"))
    assert not plan.verdict.ok
    with pytest.raises(ps.errors.GuardError) as caught:
        store.apply(plan)
    assert caught.value.exit_code == 4
    assert len(box.pets()) == 3


def test_a_plan_for_another_store_is_refused(store: ps.Store, tmp_path: Path) -> None:
    """A saved plan is applied only to its own store, and only once."""
    plan = store.plan(pd.DataFrame([{"id": 1, "name": "Max"}]))
    path = ps.save_plan(plan, tmp_path / "plan.json")
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = ps.load_plan(path)
    assert loaded == plan
    with (
        ps.demo(state=tmp_path) as other,
        pytest.raises(ps.errors.PlanError, match="this store is"),
    ):
        other.apply(loaded)
    assert store.apply(loaded).counts["applied"] == 1
    with pytest.raises(ps.errors.StalePlanError):
        store.apply(loaded)


def test_a_plan_file_holds_no_secret(box: Sandbox, store: ps.Store, tmp_path: Path) -> None:
    """The token is in no plan file, journal or repr."""
    plan = store.plan(pd.DataFrame([{"id": 1, "name": "Max"}]))
    ps.save_plan(plan, tmp_path / "plan.json")
    report = store.apply(plan)
    token = store.api.aio.session.credentials.token
    assert token is not None
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in tmp_path.rglob("*")} >= {"plan.json", "journal.db"}
    shown = f"{store!r}{plan!r}{report!r}{vars(store.aio)!r}".encode()
    assert not any(token.reveal().encode() in text for text in [*files, shown])


@pytest.mark.parametrize("fault", ["503", "429", "drop_before", "drop_after", "torn"])
def test_a_bad_network_loses_nothing_and_adds_nothing_twice(
    box: Sandbox, tmp_path: Path, fault: str
) -> None:
    """With a third of all requests failing, the store ends up equal to the sheet, each pet once."""
    retry = ps.RetryPolicy(attempts=12, first=0.001, longest=0.01)
    auth = ps.auth.bearer(box.token(), api_key=box.api_key)
    rows = [{"name": f"new {n}", "status": "sold"} for n in range(30)]
    sheet = pd.DataFrame([{"id": 1, "name": "Max", "status": "sold"}, *rows])
    with ps.connect(box.url, auth=auth, profile=box.profile, state=tmp_path, retry=retry) as store:
        for _ in range(12):
            plan = store.plan(sheet, guard=ps.Guard(max_update=ps.Limit(1.0)))
            if plan.in_sync:
                break
            box.set_faults(f"{fault}=0.3,retry_after=0,seed=5")
            try:
                store.apply(plan, settle=0.1)
            except ps.errors.InterruptedRunError:
                pass
            finally:
                box.set_faults(None)
        names = sorted(str(pet.name) for pet in box.pets())
        assert names == sorted(["Max", "Tom", "Ada", *(row["name"] for row in rows)])
        assert plan.in_sync


def test_an_interrupt_raises_with_the_report_so_far(box: Sandbox, store: ps.Store) -> None:
    """Ctrl-C ends the run between two changes, and the error's report has all applied changes."""
    box.reset([ps.Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 301)])
    plan = store.plan(
        store.find_by_status().assign(name="renamed"), guard=ps.Guard(max_update=ps.Limit(1.0))
    )

    def interrupt(progress: object) -> None:
        if getattr(progress, "done", 0) == 20:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    with pytest.raises(ps.errors.InterruptedRunError) as caught:
        store.apply(plan, concurrency=2, rate=50, on_progress=interrupt)
    report = caught.value.report
    assert isinstance(report, ps.types.Report)
    done = {result.pet_id for result in report.results if result.outcome == "applied"}
    assert 20 <= len(done) < 300
    assert done == {pet.id for pet in box.pets() if pet.name == "renamed"}
    assert caught.value.exit_code == 7


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupt_in_on_progress_stops_the_run(
    box: Sandbox, store: ps.Store, error: type[BaseException]
) -> None:
    """An interrupt that `on_progress` raises stops a run and a resume as Ctrl-C does, requests
    under way get their outcomes, and the next resume sends the rest.
    """
    box.reset([ps.Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 31)])
    plan = store.plan(
        store.find_by_status().assign(name="renamed"), guard=ps.Guard(max_update=ps.Limit(1.0))
    )

    def interrupt(progress: ps.types.Progress) -> None:
        if progress.done % 10 >= 5:
            raise error

    for run in (
        lambda: store.apply(plan, concurrency=4, on_progress=interrupt),
        lambda: store.resume(on_progress=interrupt),
    ):
        with pytest.raises(ps.errors.InterruptedRunError, match="interrupted") as caught:
            run()
        report = caught.value.report
        assert isinstance(report, ps.types.Report)
        done = {result.pet_id for result in report.results if result.outcome == "applied"}
        assert done == {pet.id for pet in box.pets() if pet.name == "renamed"}
        assert report.counts["unknown"] == 0 < report.counts["not sent"]
    assert store.resume().exit_code == 0
    assert {pet.name for pet in box.pets()} == {"renamed"}


@pytest.mark.parametrize(
    ("sql", "options", "why"),
    [
        ("SELECT 1", {"concurrency": 0}, "concurrency is 0"),
        ("UPDATE change SET intended = ''", {}, "does not match its checksum"),
    ],
)
def test_a_resume_that_cannot_begin_leaves_the_store_free(
    box: Sandbox, store: ps.Store, tmp_path: Path, sql: str, options: Any, why: str
) -> None:
    """If a resume fails before it sends anything, its error keeps no lock on the store: other runs
    can begin at once, and the run can be resumed.
    """
    plan = store.plan(store.pets().assign(name="renamed"), guard=ps.Guard(max_update=ps.Limit(1.0)))

    def interrupt(_: ps.types.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(ps.errors.InterruptedRunError):
        store.apply(plan, concurrency=1, on_progress=interrupt)
    path = tmp_path / "state" / "journal.db"
    saved = path.read_bytes()
    with closing(sqlite3.connect(path)) as damaged, damaged:
        damaged.execute(sql)
    with pytest.raises(ps.errors.PetsyncError, match=why) as caught:
        store.resume(**options)
    path.write_bytes(saved)
    with pytest.raises(ps.errors.StalePlanError, match="finishes it"):
        store.apply(plan)
    assert store.resume().exit_code == 0
    assert {pet.name for pet in box.pets()} == {"renamed"}
    assert why in str(caught.value)


def test_a_change_cancelled_before_its_request_is_not_sent(
    box: Sandbox, store: ps.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that an interrupt cancels after its intent is on disk, and before its request, is
    `not sent` in the journal: a resume that is interrupted before it does not report it as
    `unknown`.
    """
    box.reset([ps.Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 9)])
    plan = store.plan(
        store.find_by_status().assign(name="renamed"), guard=ps.Guard(max_update=ps.Limit(1.0))
    )
    record = RunSession.record_intent
    intended, all_intended = list[int](), asyncio.Event()

    async def record_and_wait(
        self: RunSession,
        number: int,
        change: Change,
        *,
        before: ps.Pet | None,
        after: ps.Pet | None,
    ) -> None:
        await record(self, number, change, before=before, after=after)
        intended.append(number)
        if len(intended) == 4:
            all_intended.set()
        await all_intended.wait()
        if number != intended[0]:
            await asyncio.sleep(60)

    def interrupt(progress: ps.types.Progress) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunSession, "record_intent", record_and_wait)
        with pytest.raises(ps.errors.InterruptedRunError) as caught:
            store.apply(plan, concurrency=4, on_progress=interrupt)
    assert len(intended) == 4
    runs = [caught.value.report]
    with pytest.raises(ps.errors.InterruptedRunError) as caught:
        store.resume(concurrency=1, on_progress=interrupt)
    runs.append(caught.value.report)
    for report, applied in zip(runs, (1, 2), strict=True):
        assert isinstance(report, ps.types.Report)
        counts = {outcome: n for outcome, n in report.counts.items() if n}
        assert counts == {"applied": applied, "not sent": 8 - applied}
    assert store.resume().exit_code == 0
    assert {pet.name for pet in box.pets()} == {"renamed"}


def test_an_interrupt_in_the_progress_of_look_ups_reaches_the_caller(store: ps.Store) -> None:
    """An interrupt that `on_progress` raises ends look-ups, and the store can still be used."""
    steps = list[object]()

    def interrupt(step: object) -> None:
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.look_up([1, 2, 3], on_progress=interrupt)
    assert len(steps) == 2
    assert set(store.look_up([1, 2, 3])) == {1, 2, 3}


def test_a_token_that_may_only_read_changes_nothing(box: Sandbox, tmp_path: Path) -> None:
    """With a token that may only read, the run stops at the first refusal and changes nothing."""
    auth = ps.auth.bearer(box.token("read:pets"))
    with ps.connect(box.url, auth=auth, profile=box.profile, state=tmp_path) as store:
        plan = store.plan(pd.DataFrame([{"id": 1, "name": "Max"}]))
        with pytest.raises(ps.errors.InterruptedRunError, match="stopped"):
            store.apply(plan)
    assert box.pets() == [REX, TOM, ADA]


def test_connect_needs_an_address() -> None:
    """`connect` without an address raises an error that names `ps.demo()`."""
    with pytest.raises(ps.errors.SettingsError, match=r"ps\.demo\(\)"):
        ps.connect(environ={})


def test_connect_takes_the_environment(box: Sandbox) -> None:
    """`connect` needs only PETSYNC_URL and PETSYNC_TOKEN in the environment."""
    environ = {"PETSYNC_URL": box.url, "PETSYNC_TOKEN": box.token()}
    with ps.connect(environ=environ) as store:
        assert len(store.find_by_status("sold")) == 1
    wrong = {**environ, "PETSYNC_TOKEN": "wrong"}
    with ps.connect(environ=wrong) as store, pytest.raises(ps.errors.AuthError):
        store.find_by_status("sold")


def test_the_demo_store_is_a_real_one(tmp_path: Path) -> None:
    """ps.demo() serves the sample catalogue, and its service ends with the store."""
    with ps.demo(state=tmp_path) as store:
        assert len(store.snapshot()) >= 1200
        url = store.url
    gone = ps.connect(url, auth=ps.auth.none(), environ={}, retry=ps.RetryPolicy(attempts=1))
    with gone, pytest.raises(ps.errors.TransportError):
        gone.api.get_pet_by_id(1)


@pytest.mark.parametrize("operation", ["updatePet", "updatePetWithForm", "deletePet"])
def test_a_pet_is_looked_at_again_before_a_request_is_repeated(
    box: Sandbox, store: ps.Store, operation: str
) -> None:
    """A pet that another user changes while petsync waits to retry is not overwritten."""
    row: dict[str, object] = {
        "updatePet": {"id": 1, "tags": ["old"]},
        "updatePetWithForm": {"id": 1, "name": "Max"},
        "deletePet": {"id": 1, "action": "delete"},
    }[operation]
    plan = store.plan(pd.DataFrame([row]))
    changed = msgspec.structs.replace(REX, status="sold", photo_urls=("new",))
    box.set_faults(f"429=1,retry_after=1,only={operation},first=9")
    threading.Timer(0.5, lambda: (box.set_faults(None), box.put(changed))).start()
    report = store.apply(plan)
    assert [result.outcome for result in report.results] == ["conflict"]
    assert box.pets()[0] == changed


@pytest.mark.parametrize("last", ["429", "503"])
def test_an_answer_that_was_lost_is_settled_whatever_the_next_one_says(
    box: Sandbox, store: ps.Store, last: str
) -> None:
    """A change whose response was lost is found to be applied and is not sent again."""
    plan = store.plan(pd.DataFrame([{"id": 1, "tags": ["old"]}]))
    box.set_faults(f"drop_after=1,only=updatePet,first=1,seed={last}")
    report = store.apply(plan)
    assert [result.outcome for result in report.results] == ["applied"]
    assert box.requests["updatePet"] == 1


@pytest.mark.parametrize("how", ["store = ps.connect({url!r})", "store = ps.demo()"])
def test_a_script_that_forgets_to_close_ends_without_noise(how: str, tmp_path: Path) -> None:
    """A script that does not close its store ends without an error message."""
    with Sandbox(auth=False, pets=[REX]) as sandbox:
        script = (
            f"import petsync as ps; {how.format(url=sandbox.url)}; print(len(store.snapshot()))"
        )
        done = subprocess.run(
            # Without -X dev: asyncio would report slow callbacks on a busy machine.
            [sys.executable, "-W", "default", "-c", script],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
        )
    assert done.returncode == 0
    assert int(done.stdout) >= 1
    assert done.stderr == ""


def test_a_forgotten_store_that_is_freed_on_its_own_thread_is_closed(tmp_path: Path) -> None:
    """If the garbage collector finds a forgotten store on the store's own thread, the store is
    closed, and nothing waits forever.
    """

    async def collect() -> None:
        gc.collect()

    with Sandbox(auth=False) as box:
        store = ps.connect(box.url, state=tmp_path, environ={})
        store.snapshot()
        bridge, thread, cycle = store._loop, store._loop._thread, [store]
        cycle.append(cycle)
        del store, cycle
        with pause_collection():
            collecting = bridge.start(collect())
            assert thread is not None
            thread.join(30)
        assert not thread.is_alive()
        assert collecting.done.exception() is None


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.find_by_status("available"),
        lambda store: store.snapshot(),
        lambda store: store.api.get_pet_by_id(1),
    ],
)
def test_a_closed_store_says_so(use: Callable[[ps.Store], object]) -> None:
    """A closed store raises an error and sends no request; closing it again is allowed."""
    with Sandbox(auth=False) as box:
        store = ps.connect(box.url, environ={})
        store.snapshot()
        store.close()
        asked = box.requests.total()
        with pytest.raises(ps.errors.PetsyncError, match=r"was closed(.|\n)*ps\.connect"):
            use(store)
        assert box.requests.total() == asked
        store.close()
