"""Undo on a running service: the values from before the run return, for each profile and size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pandas as pd
import pytest
from openpyxl import load_workbook
from sheetmaking import assert_same_frames
from times import times

import petsync as ps
from petsync.apply.journal import Journal
from petsync.cli import main
from petsync.errors import GuardError, InterruptedRunError, LockedError, PlanError, StalePlanError
from petsync.models import Category, Pet, Tag
from petsync.plan.guard import Guard, Limit
from petsync.protocol import json
from petsync.sandbox import Sandbox
from petsync.sandbox.http import bind_json
from petsync.table.dtypes import TEXT

pytestmark = pytest.mark.slow

FREE = Guard(max_delete=Limit(1.0), max_update=Limit(1.0), allow_empty=True)
STATUSES = ("available", "pending", "sold")
replace = msgspec.structs.replace


def catalogue(size: int) -> list[Pet]:
    """Return `size` pets with categories, tags, photos, and unknown fields."""
    return [
        Pet(
            id=n,
            name=f" Pet {n} " if n % 10 == 0 else f"Pet {n}",
            status=STATUSES[n % 3],
            category=Category(n % 7 + 1, f"Group {n % 7}", {"floor": 2}) if n % 5 else None,
            tags=tuple(
                Tag(t, f"tag {t}", {"hue": t} if n % 6 == 0 else None) for t in range(n % 4)
            ),
            photo_urls=tuple(f"/{n}/{p}.png" for p in range(n % 3)),
            extra={"chip": n, "vet": {"name": "Ada"}} if n % 4 == 0 else None,
        )
        for n in range(1, size + 1)
    ]


def edited(pets: list[Pet], random: Random) -> pd.DataFrame:
    """Return a sheet that deletes a third of the pets, changes the others, and adds as many as it
    deletes, half of them with an id.
    """
    rows: list[dict[str, object]] = []
    for pet in pets:
        if random.random() < 1 / 3:
            rows.append({"id": pet.id, "action": "delete"})
            new = {"name": f"New {pet.id}", "status": random.choice(STATUSES), "action": "add"}
            rows.append({**new, "id": 100_000 + (pet.id or 0) if random.random() < 0.5 else None})
        else:
            cells = {"name": f"{pet.name}!", "tags": "one; two", "category": "Birds"}
            kept = {key: value for key, value in cells.items() if random.random() < 0.5}
            rows.append({"id": pet.id, "status": "sold", **kept})
    frame = pd.DataFrame(rows, dtype=object)
    return frame.astype({"id": "Int64"})


@pytest.fixture(scope="module", params=["standard", "live"])
def _boxes(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(auth=False, profile=request.param) as box:
        yield box


@pytest.fixture
def box(_boxes: Sandbox) -> Sandbox:
    """Return a sandbox of each profile with sixty pets that the profile can store."""
    _boxes.set_faults(None)
    pets = catalogue(60)
    if _boxes.profile == "live":
        pets = [bind_json(json.encode_pet(pet)).pet for pet in pets]
    _boxes.reset(pets)
    return _boxes


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store that is connected to the sandbox."""
    with ps.connect(box.url, profile=box.profile, state=tmp_path / "state", environ={}) as store:
        yield store


def changed(store: ps.Store, *rows: Mapping[str, object]) -> str:
    """Apply these rows and return the id of the run."""
    frame = pd.DataFrame(rows, dtype=object).astype({"id": "Int64"})
    return store.apply(store.plan(frame, guard=FREE)).run_id


def put(store: ps.Store, pets: Iterable[Pet]) -> None:
    """Update these pets without the journal, as another program does."""
    for pet in pets:
        store.api.update_pet(pet)


@pytest.mark.parametrize("seed", range(times(3)))
def test_the_store_is_as_before(store: ps.Store, box: Sandbox, seed: int) -> None:
    """After a random sheet and its undo, every pet has its earlier values; the undo of the undo
    restores the run's pets with their ids.
    """
    pets, before = box.pets(), store.snapshot().frame
    plan = store.plan(edited(pets, Random(seed)), guard=FREE)
    report = store.apply(plan)
    assert report.counts["applied"] == len(plan.changes) > 50
    after = store.snapshot().frame
    undone = store.apply(store.undo(report.run_id, guard=FREE))
    assert_same_frames(store.snapshot().frame, before)
    assert box.pets() == pets
    store.apply(store.undo(undone.run_id, guard=FREE))
    assert_same_frames(store.snapshot().frame, after)


def test_many_changes(tmp_path: Path) -> None:
    """The undo of 1,500 changes restores all pets except the 50 that changed since the run, which
    stay unchanged and are conflicts.
    """
    pets = catalogue(1_200)
    with (
        Sandbox(auth=False, pets=pets) as box,
        ps.connect(box.url, state=tmp_path / "state", environ={}) as store,
    ):
        before = store.snapshot().frame
        plan = store.plan(edited(pets, Random(5)), guard=FREE)
        assert len(plan.changes) > 1_500
        assert store.apply(plan, concurrency=64, recheck="bulk").exit_code == 0
        ids = Random(50).sample([change.pet_id or 0 for change in plan.updates], 50)
        there = {pet.id: pet for pet in box.pets()}
        mine = [replace(there[number], name="Mine", photo_urls=("/mine.png",)) for number in ids]
        put(store, mine)
        undo = store.undo(guard=FREE)
        assert {conflict.pet_id for conflict in undo.conflicts} == set(ids)
        undone = store.apply(undo, concurrency=64, recheck="bulk")
        assert undone.counts["applied"] == len(plan.changes) - 50
        kept = {pet.id: pet for pet in mine}
        assert box.pets() == [kept.get(pet.id, pet) for pet in pets]
        put(store, [pet for pet in pets if pet.id in kept])
        assert_same_frames(store.snapshot().frame, before)


def seen_through(store: ps.Store, plan: ps.types.Plan) -> str:
    """Apply the plan, resume its run until it is complete, and return the run's id."""
    with suppress(InterruptedRunError):
        store.apply(plan, settle=0.5)
    run: str = store.runs()["id"].iloc[0]
    for _ in range(20):
        if store.run(run).exit_code == 0:
            break
        with suppress(InterruptedRunError):
            store.resume(run)
    assert store.run(run).exit_code == 0
    return run


@pytest.mark.parametrize("seed", range(times(2)))
def test_a_sick_service_changes_nothing_of_that(store: ps.Store, box: Sandbox, seed: int) -> None:
    """With lost responses and refused requests, a run and its undo are resumed until they are
    complete, and the store has its earlier pets.
    """
    pets = box.pets()
    faults = f"503=0.05,drop_before=0.05,drop_after=0.05,torn=0.03,seed={seed}"
    changing = "only=addPet+updatePet+deletePet+updatePetWithForm"
    plan = store.plan(edited(pets, Random(seed)), guard=FREE)
    box.set_faults(f"{faults},{changing}")
    run = seen_through(store, plan)
    assert box.pets() != pets
    seen_through(store, store.undo(run, guard=FREE))
    box.set_faults(None)
    assert box.pets() == pets


def test_the_newest_run_that_is_not_undone(store: ps.Store) -> None:
    """Without a run id, undo selects the newest run with changes that is not yet undone."""
    first = changed(store, {"id": 1, "name": "One"})
    second = changed(store, {"id": 2, "name": "Two"})
    nothing = changed(store, {"id": 2, "name": "Two"})
    plan = store.undo()
    assert plan.undoes == second != nothing
    store.apply(plan)
    plan = store.undo()
    assert plan.undoes == first
    store.apply(plan)
    with pytest.raises(PlanError, match=r"no run on .* has any changes left to undo"):
        store.undo()


def test_a_run_that_is_undone_in_part_can_be_undone_further(store: ps.Store) -> None:
    """A partly undone run can be undone again; the restored pets are unchanged."""
    run = changed(store, {"id": 1, "name": "One"}, {"id": 2, "name": "Two"})
    store.apply(store.undo().select(ids=1))
    plan = store.undo()
    assert plan.undoes == run
    assert [change.pet_id for change in plan.changes] == [2]
    assert plan.unchanged == 1


def test_a_later_run_is_to_be_undone_first(store: ps.Store) -> None:
    """The undo of an older run on the same pet names the newer run; undone newest first, the pet
    has its earlier values.
    """
    before = store.look_up([1])[1]
    first = changed(store, {"id": 1, "name": "One"})
    second = changed(store, {"id": 1, "status": "sold", "tags": "new"})
    (conflict,) = store.undo(first).conflicts
    assert conflict.rule == "changed-since-run"
    assert second in conflict.suggestion
    store.apply(store.undo(second))
    store.apply(store.undo(first))
    assert store.look_up([1])[1] == before


@pytest.mark.parametrize("status", ["available", "sold"])
def test_a_pet_that_was_added_again_does_not_come_back_twice(
    store: ps.Store, tmp_path: Path, status: str
) -> None:
    """After an add, its undo and a second add of the same row, the undo of the undo is a conflict
    that names the existing pet.
    """
    sheet = tmp_path / "new.csv"
    sheet.write_text("name,status,tags\nNora,available,calm\n", "utf-8")
    added = store.apply(store.plan(sheet))
    undo = store.apply(store.undo(added.run_id))
    store.api.add_pet(Pet(id=5000, name="Otto", status="sold"))  # A live store reuses the last id.
    sheet.write_text(f"name,status,tags\nNora,{status},calm\n", "utf-8")
    again = store.apply(store.plan(sheet))
    plan = store.undo(undo.run_id)
    assert plan.changes == ()
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.pet_id) == ("added-again", added.results[0].assigned_id)
    assert f"pet {again.results[0].assigned_id} (run {again.run_id})" in conflict.problem
    # After the second pet is deleted, the first can be added again.
    store.apply(store.undo(again.run_id))
    assert [each.kind for each in store.undo(undo.run_id).changes] == ["add"]


def test_a_pet_whose_row_moved_and_was_edited_does_not_come_back_twice(
    store: ps.Store, tmp_path: Path
) -> None:
    """The undo of an undo is a conflict too if the row was moved and edited before it was added
    again. Each pet that was added again counts for one row of its name.
    """
    sheet = tmp_path / "new.csv"
    sheet.write_text("name,status,tags\nNora,available,calm\nNora,sold,shy\n", "utf-8")
    added = store.apply(store.plan(sheet))
    undo = store.apply(store.undo(added.run_id))
    store.api.add_pet(Pet(id=5000, name="Otto", status="sold"))  # A live store reuses the last id.
    sheet.write_text(
        "name,status,tags,action\nOlga,sold,,\nPia,sold,,\nNora,pending,loud,add-another\n", "utf-8"
    )
    again = store.apply(store.plan(sheet))
    assert [each.outcome for each in again.results] == ["applied"] * 3
    plan = store.undo(undo.run_id)
    (conflict,) = plan.conflicts
    assert conflict.rule == "added-again"
    assert f"pet {again.results[2].assigned_id} (run {again.run_id})" in conflict.problem
    assert len(plan.adds) == 1


def test_a_deleted_pet_that_was_added_again_does_not_come_back_twice(store: ps.Store) -> None:
    """The undo of a delete is a conflict if a pet with the same values was added since; the same
    name alone is not a conflict.
    """
    ids = [4001, 4002]
    pets = [
        Pet(id=each, name=f"Nora {each}", status="sold", tags=(Tag(1, "calm"),)) for each in ids
    ]
    for pet in pets:
        store.api.add_pet(pet)
    gone = changed(store, *({"id": each, "action": "delete"} for each in ids))
    store.api.add_pet(Pet(id=5000, name="Otto", status="sold"))
    result = {"id": None, "status": "sold", "tags": "calm"}
    again = changed(
        store, {**result, "name": "Nora 4001"}, {**result, "name": "Nora 4002", "tags": "loud"}
    )
    plan = store.undo(gone)
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.pet_id) == ("added-again", ids[0])
    assert again in conflict.problem
    assert [change.pet_id for change in plan.changes] == [ids[1]]


def test_the_gates_are_those_of_every_plan(store: ps.Store, tmp_path: Path) -> None:
    """An undo over a limit is refused, and a saved undo plan can be applied only once."""
    new = [{"id": None, "name": f"New {n}", "status": "sold"} for n in range(9)]
    run = changed(store, *new)
    with pytest.raises(GuardError, match="9 deletes"):
        store.apply(store.undo(run, guard=Guard()))
    with pytest.raises(GuardError, match="9 deletes"):
        store.apply(store.undo(run, max_delete=8))
    plan = store.undo(run, max_update=0)
    plan.save(tmp_path / "undo.json")
    loaded = ps.load_plan(tmp_path / "undo.json")
    assert store.apply(loaded).counts["applied"] == 9
    with pytest.raises(StalePlanError):
        store.apply(loaded)


def test_what_moves_after_the_undo_was_made_is_left_alone(store: ps.Store, box: Sandbox) -> None:
    """A pet that changes after the undo plan was made is a conflict and stays unchanged."""
    run = changed(store, {"id": 1, "name": "One"}, {"id": 2, "name": "Two"})
    plan = store.undo(run)
    put(store, [replace(box.pets()[1], name="Mine")])
    report = store.apply(plan)
    assert (report.counts["applied"], report.counts["conflict"]) == (1, 1)
    assert [pet.name for pet in box.pets()[:2]] == ["Pet 1", "Mine"]


@pytest.mark.parametrize("_boxes", ["live"], indirect=True, scope="module")
def test_a_pet_of_a_status_that_is_not_asked_for(store: ps.Store, box: Sandbox) -> None:
    """Pets with a status that no query lists are looked up by id and undone, with progress. The
    standard service refuses such a status.
    """
    hidden = replace(catalogue(1)[0], status="on loan")
    box.reset([hidden, *catalogue(60)[1:]])
    run = changed(store, {"id": 1, "name": "One"})
    seen: list[int] = []
    plan = store.undo(run, on_progress=lambda lookups: seen.append(lookups.total))
    assert set(seen) == {1}
    store.apply(plan)
    assert box.pets()[0] == hidden


def test_an_upload_is_taken_back(store: ps.Store, box: Sandbox, picture: Path) -> None:
    """The undo of an upload removes the added photo addresses."""
    before = box.pets()
    uploaded = store.upload(store.pictures(picture.parent))
    assert uploaded.counts["applied"] == 1
    plan = store.undo(uploaded.run_id)
    store.apply(plan)
    assert box.pets() == before
    assert len(plan.changes) == (box.profile == "standard")
    assert any("image files themselves stay" in note for note in plan.notes)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Return a small image file for pet 2."""
    from PIL import Image

    path = tmp_path / "pictures" / "2.png"
    path.parent.mkdir()
    Image.new("RGB", (8, 8), "red").save(path)
    return path


def test_runs_are_a_table(store: ps.Store) -> None:
    """`runs` returns one row for each run with its counts, newest first; it can be empty."""
    assert store.runs().empty
    run = changed(store, {"id": 1, "name": "One"}, {"id": None, "name": "New", "status": "sold"})
    undone = store.apply(store.undo(run)).run_id
    table = store.runs()
    assert table["id"].tolist() == [undone, run]
    assert table["kind"].tolist() == ["undo", "apply"]
    assert table["undoes"].tolist() == [run, ""]
    assert table["applied"].tolist() == [2, 2]
    assert table["total"].tolist() == [2, 2]
    assert table["state"].eq("done").all()
    assert table["started"].dtype == "datetime64[us, UTC]"
    assert table["source"].dtype == TEXT
    assert store.runs().dtypes.equals(table.iloc[:0].dtypes)


def test_a_past_run_has_its_report(store: ps.Store) -> None:
    """A past run's report is found by the beginning of its id; for an unknown id the error names
    the newest run.
    """
    run = changed(store, {"id": 1, "name": "One"}, {"id": 3, "name": "Three"})
    report = store.run(run[:-1])
    assert report.run_id == run
    assert [result.outcome for result in report.results] == ["applied", "applied"]
    with pytest.raises(PlanError, match="there is no run 'nothing'") as caught:
        store.run("nothing")
    assert run in caught.value.hint


def test_a_run_of_another_store_is_named(store: ps.Store, tmp_path: Path) -> None:
    """A run of another store is neither undone nor reported, and the error names its store."""
    run = changed(store, {"id": 1, "name": "One"})
    with ps.connect("http://127.0.0.1:9/v2", state=tmp_path / "state", environ={}) as other:
        ask: Callable[[str], object]
        for ask in (other.undo, other.run):
            with pytest.raises(PlanError, match=f"run {run} was on {store.url}"):
                ask(run)


def test_a_run_at_work_is_not_undone(store: ps.Store, tmp_path: Path) -> None:
    """A run that is still running cannot be undone."""
    begun = Journal.open(tmp_path / "state", create=True).begin(
        "20261121-000000-0000",
        kind="apply",
        store=store.url,
        source="a.xlsx",
        started="2026-11-21T00:00:00+00:00",
        total=1,
    )
    try:
        with pytest.raises(LockedError, match="still running"):
            store.undo("20261121")
    finally:
        asyncio.run(begun.close())


@pytest.mark.parametrize("how", ["some", "none", "reverted"])
def test_a_killed_run_that_was_undone_is_not_taken_up_again(tmp_path: Path, how: str) -> None:
    """`resume` without an id does not select an undone run; with its id, the run can be resumed,
    and sends nothing: also if it had made no change, or others had reverted all of them.
    """
    pets = catalogue(30)
    rows = pd.DataFrame({"id": range(1, 31), "name": [f"new {n}" for n in range(30)]})
    with (
        Sandbox(pets=pets, auth=False) as sandbox,
        ps.connect(sandbox.url, state=tmp_path, retry=ps.RetryPolicy(attempts=1)) as store,
    ):
        plan = store.plan(rows, guard=FREE)
        sandbox.set_faults("503=1,only=updatePet+updatePetWithForm" if how == "none" else None)
        with pytest.raises(InterruptedRunError) as stopped:
            store.apply(
                plan, concurrency=1, max_failures=0, progress=False, on_progress=_stop_at(10)
            )
        sandbox.set_faults(None)
        report = stopped.value.report
        assert report is not None
        taken, _ = store.aio.to_resume()
        assert taken.run_id == report.run_id
        assert (how == "none") == (sandbox.pets() == pets)
        if how == "reverted":
            sandbox.reset(pets)
        store.apply(store.undo(report.run_id, guard=FREE), progress=False)
        with pytest.raises(PlanError, match="no run on"):
            store.resume(progress=False)
        assert store.aio.to_resume(report.run_id)[0].run_id == report.run_id
        with suppress(PlanError):
            store.resume(report.run_id, progress=False)
        assert sandbox.pets() == pets


def test_resume_refuses_before_it_says_that_it_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`resume` refuses a busy store's run and an undone run before it reports that it resumes."""
    state = tmp_path / "state"
    rows = pd.DataFrame({"id": range(1, 31), "name": "new"})
    with Sandbox(pets=catalogue(30), auth=False) as sandbox:
        resume = ["resume", "--url", sandbox.url, "--state", str(state)]
        with ps.connect(sandbox.url, state=state) as store:
            with pytest.raises(InterruptedRunError) as stopped:
                store.apply(
                    store.plan(rows, guard=FREE),
                    concurrency=1,
                    progress=False,
                    on_progress=_stop_at(10),
                )
            report = stopped.value.report
            assert report is not None
            run = report.run_id
            other = Journal.open(state, create=False).begin(
                "20261121-000000-0000",
                kind="apply",
                store=store.url,
                source="a.xlsx",
                started="2026-11-21T00:00:00+00:00",
                total=1,
            )
            results = [_ended([*resume, run], capsys)]
            asyncio.run(other.close())
            store.apply(store.undo(run, guard=FREE), progress=False)
        results.append(_ended([*resume, run], capsys))
    assert [code for code, _ in results] == [6, 1]
    assert "is working on" in results[0][1]
    assert "was undone by run" in results[1][1]
    assert not any("Resuming" in text for _, text in results)


def _ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the error output of a command."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(str(ended.value.code)), " ".join(capsys.readouterr().err.split())


def _stop_at(done: int) -> Callable[[ps.Progress], None]:
    """Return a callback that ends a run after `done` changes."""

    def step(progress: ps.Progress) -> None:
        if progress.done == done:
            raise ZeroDivisionError

    return step


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_the_sheet_after_an_undo_deletes_nothing_again(
    store: ps.Store, tmp_path: Path, suffix: str
) -> None:
    """A mark `delete` that an undo took back stays undone, and a note names each change that the
    sheet makes again.
    """
    sheet = tmp_path / f"pets{suffix}"

    def edit(marked: int) -> None:
        frame = pd.DataFrame([{"id": 1, "name": "One"}, {"id": 2, "name": "Two"}, {"id": 3}])
        frame["status"] = "sold"
        frame.loc[len(frame)] = [None, "Nora", "sold"]
        frame["action"] = ["delete" if each == marked else None for each in frame["id"]]
        if suffix == ".csv":
            frame.to_csv(sheet, index=False)
            return
        ps.write_sheet(store.snapshot(), sheet, force=True)
        book = load_workbook(sheet)
        page = book.worksheets[0]
        rows = {page.cell(row, 1).value: row for row in range(2, page.max_row + 1)}
        page.cell(rows[str(marked)], 8).value = "delete"
        page.cell(rows["1" if marked == 2 else "2"], 2).value = "Renamed"
        page.append([None, "Nora", "sold"])
        book.save(sheet)

    edit(2)
    report = store.apply(store.plan(sheet, guard=FREE))
    assert {each.kind for each in report.results if each.outcome == "applied"} == {
        "add",
        "update",
        "delete",
    }
    undo = store.apply(store.undo(report.run_id))
    plan = store.plan(sheet, guard=FREE)
    assert not plan.deletes
    assert (len(plan.adds), bool(plan.updates)) == (1, True)
    notes = [each for each in plan.notes if undo.run_id in each and report.run_id in each]
    assert len(notes) == 2
    assert "stay restored" in notes[0]
    assert "again" in notes[1]
