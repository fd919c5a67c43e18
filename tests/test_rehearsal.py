"""rehearse: a plan is applied to a copy, while the store is only read."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from petsync import (
    LIVE,
    STANDARD,
    Category,
    Guard,
    Limit,
    Pet,
    Store,
    Tag,
    auth,
    connect,
    frame_from_pets,
    load_plan,
    pets_from_frame,
    read_sheet,
    write_sheet,
)
from petsync.errors import InterruptedRunError, PlanError, SettingsError, StalePlanError
from petsync.plan.rehearsal import find_unexpected
from petsync.plan.report import Progress
from petsync.rehearsal import rehearse
from petsync.rehearsal.run import build_behaviour
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

FAR = 2**63 - 10
# Every attempt gets a 503.
_REFUSED = "503=1"
READING = {"findPetsByStatus", "findPetsByTags", "getPetById"}
EXTRA = {"chip": {"maker": "Ω", "since": 2019}, "weight": 4.25}


def _shop(profile: str = "standard") -> list[Pet]:
    """Return pets, one of them with unknown fields, which a live store does not keep."""
    extra = EXTRA if profile == "standard" else None
    tags = (Tag(1, "calm"), Tag(2, "old"))
    pets = [Pet(id=n, name=f"Pet {n}", status="available", tags=tags) for n in range(1, 31)]
    return [
        *pets,
        Pet(id=40, name="Rex", status="sold", category=Category(3, "Dogs"), extra=extra),
        Pet(id=FAR, name="Far", status="pending", photo_urls=("https://a.example/1.png",)),
    ]


@pytest.fixture(scope="module", params=["standard", "live"])
def open_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a store with tokens, once for each profile."""
    with Sandbox(profile=request.param) as box:
        yield box


@pytest.fixture
def box(open_box: Sandbox) -> Sandbox:
    """Return the store, filled again and without requests."""
    open_box.reset(_shop(open_box.profile))
    return open_box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[Store]:
    """Yield a connection with its own state folder."""
    credentials = auth.bearer(box.token(), api_key=box.api_key)
    with connect(
        box.url, environ={}, auth=credentials, profile=box.profile, state=tmp_path / "state"
    ) as store:
        yield store


def _rows(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, dtype=object)


def _pets(frame: pd.DataFrame) -> dict[int, Pet]:
    return {pet.id: pet for pet in pets_from_frame(frame) if pet.id is not None}


def test_the_store_is_only_read(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """A rehearsal sends only reading requests to the store, changes no pet, and does not create the
    state folder.
    """
    sheet = _rows(
        {"id": 1, "name": "Max", "action": ""},
        {"id": 2, "name": None, "action": "delete"},
        {"id": None, "name": "New", "status": "sold", "action": ""},
        {"id": 77, "name": "Numbered", "status": "sold", "action": ""},
    )
    rehearsal = rehearse(store, sheet)
    assert rehearsal.report.counts["applied"] == 4
    assert set(box.requests) <= READING
    assert box.pets() == _shop(box.profile)
    assert not (tmp_path / "state").exists()


def test_every_kind_of_change_as_the_store_would_do_it(store: Store, box: Sandbox) -> None:
    """A rehearsal shows the same pets as applying the plan leaves in the store, for updates, a
    delete and adds, with unknown fields and the largest ids.
    """
    sheet = _rows(
        {"id": 1, "name": "Max"},
        {"id": 3, "tags": [Tag(1, "calm"), "new"]},
        {"id": 40, "category": "Cats"},
        {"id": FAR, "photo_urls": ["https://a.example/2.png"]},
        {"id": 5, "action": "delete"},
        {"id": None, "name": "New", "status": "sold"},
        {"id": 77, "name": "Numbered", "status": "pending"},
    )
    plan = store.plan(sheet)
    rehearsal = rehearse(store, plan, sheet=store.read(sheet))
    assert rehearsal.ok, rehearsal
    assert len(rehearsal.unexpected) == 0
    assert rehearsal.again is not None
    assert rehearsal.again.in_sync
    store.apply(plan)
    assert _pets(rehearsal.after) == {pet.id: pet for pet in box.pets()}
    assert _pets(rehearsal.after)[40].extra == (EXTRA if box.profile == "standard" else None)
    assert _pets(rehearsal.before) == {pet.id: pet for pet in _shop(box.profile)}


def test_a_saved_plan_is_not_used_up(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """A plan file can be rehearsed twice and then applied, but not rehearsed after that."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Max\n", "utf-8")
    file = tmp_path / "plan.json"
    store.plan(path).save(file)
    for _ in range(2):
        rehearsal = rehearse(store, file)
        assert rehearsal.ok
        assert rehearsal.again is not None
    assert store.apply(load_plan(file)).counts["applied"] == 1
    assert box.pets()[0].name == "Max"
    with pytest.raises(StalePlanError):
        rehearse(store, file)


def test_a_list_of_pets_in_json_is_a_sheet(store: Store, tmp_path: Path) -> None:
    """A JSON file with a list of pets is rehearsed as a sheet, not read as a saved plan."""
    path = tmp_path / "pets.json"
    path.write_text('[{"id": 1, "name": "Max"}]', "utf-8")
    rehearsal = rehearse(store, path)
    assert rehearsal.ok
    assert _pets(rehearsal.after)[1].name == "Max"


@pytest.mark.usefixtures("few_parts")
def test_a_folder_and_its_saved_plan(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """A folder of files is rehearsed like its plan in Parquet, without a second plan."""
    folder, file = tmp_path / "big", tmp_path / "plan.parquet"
    folder.mkdir()
    (folder / "one.csv").write_text("id,name\n1,Max\n", "utf-8")
    store.plan(folder).save(file)
    for source in (folder, str(folder / "*.csv"), file):
        rehearsal = rehearse(store, source)
        assert rehearsal.report.counts["applied"] == 1
        assert _pets(rehearsal.after)[1].name == "Max"
        assert rehearsal.again is None
        assert "one file" in rehearsal.why_not_again
    with pytest.raises(SettingsError):
        rehearse(store, file, delete_missing=True)
    assert box.pets() == _shop(box.profile)


def test_a_plan_whose_sheet_is_gone(store: Store, tmp_path: Path) -> None:
    """A plan whose sheet is missing or changed is rehearsed without a second plan, and the reason
    is given.
    """
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Max\n", "utf-8")
    plan = store.plan(path)
    path.write_text("id,name\n1,Moritz\n", "utf-8")
    for _ in range(2):
        rehearsal = rehearse(store, plan)
        assert rehearsal.again is None
        assert "missing, or was changed" in rehearsal.why_not_again
        assert rehearsal.ok
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("action", ["add", "add-another"])
def test_rows_that_add_do_so_once(store: Store, action: str) -> None:
    """The second plan of a new row is empty, because the copy's journal has the row."""
    rehearsal = rehearse(store, _rows({"name": "New", "status": "sold", "action": action}))
    assert rehearsal.exit_code == 0
    assert rehearsal.remaining_changes() == []


def test_a_part_of_a_plan(store: Store) -> None:
    """Changes that a selection left out are in the second plan, with that reason."""
    sheet = _rows({"id": 1, "name": "Max"}, {"id": 2, "name": "Moritz"})
    rehearsal = rehearse(store, store.plan(sheet).select(ids=[1]), sheet=store.read(sheet))
    assert rehearsal.exit_code == 2
    assert [(left.change.pet_id, left.why) for left in rehearsal.remaining_changes()] == [
        (2, "left-out")
    ]


def test_a_change_that_the_run_causes_is_not_left_out(store: Store) -> None:
    """In the second plan of a part of a plan, a change of a pet that changed on the copy is new."""
    sheet = _rows(
        {"id": 2, "name": "Moritz"},
        {"id": 40, "status": "sold"},
        {"name": "New", "status": "sold"},
    )
    part = store.plan(sheet).select(actions="add")
    rehearsal = rehearse(store, part, sheet=store.read(sheet), faults="moves=40:available")
    assert [(left.change.pet_id, left.why) for left in rehearsal.remaining_changes()] == [
        (2, "left-out"),
        (40, "new"),
    ]


def test_new_ids_are_reported(store: Store) -> None:
    """Each pet that was added without an id has the id that the copy assigned."""
    rehearsal = rehearse(
        store, _rows({"name": "A", "status": "sold"}, {"name": "B", "status": "sold"})
    )
    assigned = {number: change.after.name for change, number in rehearsal.assigned_ids()}
    after = _pets(rehearsal.after)
    assert {number: after[number].name for number in assigned} == assigned
    assert sorted(assigned.values()) == ["A", "B"]


def test_pets_outside_every_query(store: Store, box: Sandbox) -> None:
    """A pet that no status query lists is copied by its id if a row has it, with all fields, and is
    changed as in the store.
    """
    box.put(Pet(id=900, name="Hidden", status="on loan", extra=EXTRA))
    sheet = _rows({"id": 900, "name": "Found", "status": "sold"})
    rehearsal = rehearse(store, sheet)
    assert rehearsal.ok
    assert _pets(rehearsal.before)[900].status == "on loan"
    assert _pets(rehearsal.after)[900] == Pet(id=900, name="Found", status="sold", extra=EXTRA)


def test_conflicts_stay_conflicts(store: Store) -> None:
    """A row that contradicts the store is a conflict on the copy too, with exit code 5."""
    rehearsal = rehearse(store, _rows({"id": 999, "name": "Nobody", "action": "update"}))
    assert rehearsal.exit_code == 5
    assert rehearsal.again is not None
    assert len(rehearsal.again.conflicts) == 1
    assert len(rehearsal.unexpected) == 0


def test_drift_since_the_plan(store: Store, box: Sandbox) -> None:
    """A pet that changed since the plan is a conflict on the copy, is listed as unexpected, and
    stays in the second plan.
    """
    sheet = _rows(
        {"id": 1, "name": "Max"}, {"id": 2, "name": "Moritz"}, {"id": 3, "action": "delete"}
    )
    plan = store.plan(sheet)
    box.put(Pet(id=1, name="Other", status="available"))
    box.put(Pet(id=3, name="Pet 3", status="sold"))
    rehearsal = rehearse(store, plan, sheet=store.read(sheet))
    assert rehearsal.exit_code == 5
    assert rehearsal.report.counts["applied"] == 1
    rows = rehearsal.unexpected.set_index("id")
    assert dict(rows["outcome"]) == {1: "conflict", 3: "conflict"}
    assert (rows.loc[1, "column"], rows.loc[1, "expected"], rows.loc[1, "found"]) == (
        "name",
        "Max",
        "Other",
    )
    assert {left.why for left in rehearsal.remaining_changes()} == {"not-applied"}


def test_a_refused_plan_is_rehearsed_and_reported(store: Store, box: Sandbox) -> None:
    """A plan that the guard refuses is rehearsed with all its effects, and the refusal is shown."""
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), delete_missing=True)
    assert rehearsal.exit_code == 4
    assert not rehearsal.ok
    assert len(rehearsal.after) == 1
    assert "The guard refuses this plan" in repr(rehearsal)
    assert len(box.pets()) == len(_shop(box.profile))


def test_a_base_goes_along(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """The second plan of an edited export uses its base too, and is empty except for the clash."""
    path = tmp_path / "catalogue.xlsx"
    write_sheet(store.snapshot(), path)
    base = read_sheet(path).base
    edited = _shop()
    edited[0] = Pet(id=1, name="Max", status="available", tags=(*edited[0].tags, Tag(7, "loud")))
    edited[1] = _named(edited[1], "Moritz")
    write_sheet(frame_from_pets(edited), path, base=base)
    box.put(Pet(id=1, name="Pet 1", status="available", tags=(Tag(1, "calm"), Tag(9, "quick"))))
    box.put(_named(_shop()[1], "Otto"))
    rehearsal = rehearse(store, path)
    tags = {tag.name for tag in _pets(rehearsal.after)[1].tags}
    assert tags == {"calm", "quick", "loud"}
    assert _pets(rehearsal.after)[1].name == "Max"
    assert _pets(rehearsal.after)[2].name == "Otto"
    assert rehearsal.again is not None
    assert not rehearsal.again.changes
    assert len(rehearsal.again.open_conflicts) == 1
    assert rehearsal.exit_code == 5
    won = rehearse(store, path, on_conflict="sheet")
    assert won.ok, won
    assert _pets(won.after)[2].name == "Moritz"


def _named(pet: Pet, name: str) -> Pet:
    return msgspec.structs.replace(pet, name=name)


def test_faults_are_overcome_and_counted(store: Store, box: Sandbox) -> None:
    """With refused, lost and incomplete responses each change is still made once, and the broken
    requests are counted; with concurrency 1, one seed breaks the same requests.
    """
    sheet = _rows(
        *({"id": n, "name": f"New {n}"} for n in range(1, 6)),
        *({"name": f"Added {n}", "status": "sold"} for n in range(4)),
        {"id": 20, "action": "delete"},
    )
    spec = "503=0.05,drop_before=0.05,drop_after=0.1,torn=0.1"
    if box.profile == "live":
        # A live store is listed until an add is settled, so the number of these requests depends on
        # the clock.
        spec += ",only=addPet+updatePet+updatePetWithForm+deletePet+getPetById"
    first = rehearse(store, sheet, faults=spec, seed=3, concurrency=1)
    assert first.broken is not None
    assert sum(first.broken.hits.values()) > 3
    assert "seed=3" in first.broken.faults
    second = rehearse(store, sheet, faults=spec, seed=3, concurrency=1)
    for each in (first, second):
        names = [pet.name for pet in _pets(each.after).values()]
        assert all(names.count(f"Added {n}") <= 1 for n in range(4))
    assert second.broken == first.broken
    assert second.report.counts == first.report.counts
    assert set(box.requests) <= READING
    assert box.pets() == _shop(box.profile)


def test_a_copy_that_cannot_be_written(store: Store) -> None:
    """If updates fail on the copy, the pets are unchanged and listed as unexpected, and the second
    plan has all changes again.
    """
    sheet = _rows({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"})
    rehearsal = rehearse(store, sheet, faults=f"{_REFUSED},only=updatePetWithForm+updatePet")
    assert rehearsal.exit_code == 3
    assert rehearsal.report.counts["failed"] == 1
    assert set(rehearsal.unexpected["id"]) == {1, 2}
    assert [left.why for left in rehearsal.remaining_changes()] == ["not-applied", "not-applied"]
    assert _pets(rehearsal.before) == _pets(rehearsal.after)


def test_what_nobody_planned(store: Store) -> None:
    """A pet that changes on the copy without a row is listed as unexpected, and the rehearsal
    fails.
    """
    sheet = _rows({"name": "New", "status": "sold"})
    rehearsal = rehearse(store, sheet, faults="moves=40:available")
    assert rehearsal.exit_code == 3
    row = rehearsal.unexpected.iloc[0]
    assert (row["id"], row["kind"], row["column"]) == (40, "none", "status")
    assert (row["expected"], row["found"], row["outcome"]) == ("sold", "available", "")
    assert "Different from the plan, although no change failed: 1" in repr(rehearsal)
    assert "pet 40 (Rex): status: expected 'sold', found 'available'" in repr(rehearsal)


def test_surprises_are_found_to_the_last_field(store: Store) -> None:
    """A surprise is any difference from the plan in any field, unknown fields included, and any
    additional or missing pet.
    """
    rehearsal = rehearse(store, _rows({"id": 40, "category": "Cats"}))
    before, after = _pets(rehearsal.before), _pets(rehearsal.after)
    assert find_unexpected(rehearsal.report, before, after).empty
    changed = {
        **after,
        40: msgspec.structs.replace(after[40], extra={"weight": 4.25}),
        1: msgspec.structs.replace(after[1], name=" Pet 1"),
        77: Pet(id=77, name="Twin"),
    }
    del changed[FAR]
    found = find_unexpected(rehearsal.report, before, changed).set_index("id")
    assert list(found.index) == [40, 1, 77, FAR]
    assert list(found["column"]) == ["(unknown fields)", "", "", ""]
    assert list(found.loc[[77, FAR], "found"]) == ["in the store", "not there"]
    assert '" Pet 1"' in found.loc[1, "found"]


def test_an_empty_store(tmp_path: Path) -> None:
    """An empty store is copied and shown like any other, and so is an empty sheet."""
    with (
        Sandbox(auth=False) as box,
        connect(box.url, environ={}, state=tmp_path) as store,
    ):
        rehearsal = rehearse(store, _rows({"name": "New", "status": "sold"}))
        assert rehearsal.ok
        assert list(rehearsal.by_status().loc["sold"]) == [0, 1, 0, 0, 0, 1]
        nothing = rehearse(store, frame_from_pets([]))
        assert nothing.exit_code == 4
        assert "1 new pet" not in repr(nothing) + nothing._repr_html_()


def test_a_service_that_speaks_xml(tmp_path: Path) -> None:
    """The copy of a service with XML uses XML too, and ids and texts stay exact."""
    profile = replace(STANDARD, media="xml")
    pets = [pet for pet in _shop() if pet.extra is None]
    with (
        Sandbox(pets=pets, auth=False) as box,
        connect(box.url, environ={}, profile=profile, state=tmp_path) as store,
    ):
        rehearsal = rehearse(store, _rows({"id": FAR, "name": "Ünö <&>", "tags": ["far"]}))
    assert rehearsal.ok, rehearsal
    assert _pets(rehearsal.after)[FAR].name == "Ünö <&>"


def test_a_run_that_stops_early(store: Store) -> None:
    """If the copy cannot be listed, which an add without an id needs, the run stops with exit code
    7 and the reason, and all changes are left.
    """
    sheet = _rows({"id": 1, "name": "Max"}, {"name": "New", "status": "sold"})
    rehearsal = rehearse(store, sheet, faults=f"{_REFUSED},only=findPetsByStatus")
    assert rehearsal.exit_code == 7
    assert "not available" in rehearsal.report.stopped
    assert "Why it stopped" in repr(rehearsal)
    assert len(rehearsal.remaining_changes()) == 2


def test_pets_that_gave_no_answer(store: Store, box: Sandbox) -> None:
    """A pet that could not be looked up is not in the copy, a note names it, and the second plan
    does not add it.
    """
    box.put(Pet(id=900, name="Hidden", status="on loan"))
    box.set_faults(f"{_REFUSED},only=getPetById")
    rehearsal = rehearse(store, _rows({"id": 900, "name": "Found"}, {"id": 1, "name": "Max"}))
    box.set_faults(None)
    assert rehearsal.exit_code == 3
    assert any("no answer for pet 900" in note for note in rehearsal.notes)
    assert rehearsal.again is not None
    assert not rehearsal.again.changes
    assert _pets(rehearsal.after)[1].name == "Max"


def test_a_status_that_no_query_asks_for(tmp_path: Path) -> None:
    """A pet that gets a status outside of the profile's queries is still in the copy, and a note
    says that no query finds it.
    """
    pets = [Pet(id=n, name=f"Pet {n}", status=s) for n, s in ((1, "sold"), (2, "on loan"))]
    with (
        Sandbox(profile="live", pets=pets, auth=False) as box,
        connect(box.url, environ={}, profile="live", state=tmp_path) as store,
    ):
        now = store.snapshot(statuses=("sold", "on loan"))
        plan = store.plan(_rows({"id": 1, "status": "on loan"}), snapshot=now)
        rehearsal = rehearse(store, plan, snapshot=store.snapshot())
    assert _pets(rehearsal.after)[1].status == "on loan"
    assert any(
        "No status query, and so no export, would return pet 1." in note for note in rehearsal.notes
    )


def test_statuses_add_up(store: Store) -> None:
    """For each status, the pets before, plus added and moved in, minus deleted and moved out, are
    the pets afterwards.
    """
    sheet = _rows(
        {"id": 1, "status": "sold"},
        {"id": 2, "action": "delete"},
        {"name": "New", "status": "pending"},
    )
    table = rehearse(store, sheet).by_status()
    came = table["added"] - table["deleted"] + table["moved_in"] - table["moved_out"]
    assert (table["before"] + came == table["after"]).all()
    assert list(table.loc["sold"]) == [1, 0, 0, 1, 0, 2]
    assert list(table.loc["available"]) == [30, 0, 1, 0, 1, 28]
    assert list(table.loc["pending"]) == [1, 1, 0, 0, 0, 2]


def test_the_copy_can_be_kept(store: Store, tmp_path: Path) -> None:
    """`keep` saves the final copy in a file, and an existing file is not overwritten."""
    file = tmp_path / "copy.db"
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), keep=file)
    with Sandbox(db=file, auth=False) as kept:
        assert {pet.id: pet for pet in kept.pets()} == _pets(rehearsal.after)
    with pytest.raises(SettingsError, match="already exists, but the copy"):
        rehearse(store, _rows({"id": 1, "name": "Max"}), keep=file)


def test_nothing_is_left_behind(store: Store, tmp_path: Path, monkeypatch: Any) -> None:
    """A rehearsal that ends or is interrupted leaves no temporary folder and no incomplete copy."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    rehearse(store, _rows({"id": 1, "name": "Max"}))

    def stop(progress: Progress) -> None:
        if progress.done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    sheet = _rows(*({"id": n, "name": "Max"} for n in range(1, 9)))
    with pytest.raises(InterruptedRunError, match="the rehearsal was interrupted"):
        rehearse(store, sheet, keep=tmp_path / "x.db", on_progress=stop, faults="latency=0.1")
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(tmp_path.glob("x.db*"))


def test_no_secret_is_reported(
    store: Store, box: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The copy gets no token of the store, and no log, report or result contains one."""
    caplog.set_level("DEBUG")
    token = store.api.aio.session.credentials.token
    assert token is not None
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), faults="429=0.2")
    shown = caplog.text + repr(rehearsal) + rehearsal._repr_html_() + str(rehearsal.report.plan)
    assert token.reveal() not in shown
    assert "Bearer" not in shown


def test_arguments_that_cannot_be(store: Store, box: Sandbox) -> None:
    """Invalid faults, options that a plan cannot take, and a plan of another store are refused
    before any request.
    """
    plan = store.plan(_rows({"id": 1, "name": "Max"}))
    asked = box.requests.total()
    with pytest.raises(SettingsError, match="latnecy"):
        rehearse(store, plan, faults="latnecy=1")
    with pytest.raises(SettingsError, match="delete_missing"):
        rehearse(store, plan, delete_missing=True)
    with pytest.raises(PlanError, match="this store is"):
        rehearse(store, msgspec.structs.replace(plan, store="http://127.0.0.1:1/v2"))
    with pytest.raises(SettingsError, match="concurrency"):
        rehearse(store, plan, concurrency=0)
    assert box.requests.total() == asked


def test_limits_of_the_plan_go_along(store: Store) -> None:
    """The second plan has the guard of the first, with its sentinels."""
    guard = Guard(max_update=Limit(25, is_share=False), sentinels=(40,))
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), guard=guard)
    assert rehearsal.ok
    assert rehearsal.again is not None
    assert rehearsal.again.guard == guard


def test_settings_of_a_service_are_imitated(tmp_path: Path) -> None:
    """The copy of a service with its own statuses accepts these."""
    profile = replace(STANDARD, statuses=("here", "gone"))
    with Sandbox(profile=build_behaviour(profile)[0], auth=False) as box:
        box.reset([Pet(id=n, name=f"Pet {n}", status="here") for n in range(1, 12)])
        with connect(box.url, environ={}, profile=profile, state=tmp_path) as store:
            rehearsal = rehearse(store, _rows({"id": 1, "status": "gone"}))
            assert rehearsal.ok, rehearsal
            assert list(rehearsal.by_status()["after"]) == [10, 1]


def test_settings_that_cannot_be_imitated_are_reported() -> None:
    """A required field that the sandbox cannot require is reported in a sentence; the two built-in
    profiles are imitated completely.
    """
    assert build_behaviour(STANDARD)[1] == build_behaviour(LIVE)[1] == ()
    behaviour, beyond = build_behaviour(replace(STANDARD, required=("name", "status")))
    assert not behaviour.strict_pets
    assert len(beyond) == 1
    assert "name and status" in beyond[0]
    assert (
        "status"
        in build_behaviour(replace(STANDARD, required=("name", "photo_urls", "status")))[1][0]
    )
