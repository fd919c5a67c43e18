"""rehearse: a plan tried out on a copy, while the store itself is only read."""

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
from petsync.plan.rehearsal import surprises
from petsync.plan.report import Progress
from petsync.rehearsal import rehearse
from petsync.rehearsal.run import build_behaviour
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

FAR = 2**63 - 10
# Each of a few attempts is refused.
_REFUSED = "503=1"
READING = {"findPetsByStatus", "findPetsByTags", "getPetById"}
EXTRA = {"chip": {"maker": "Ω", "since": 2019}, "weight": 4.25}


def _shop(profile: str = "standard") -> list[Pet]:
    """Pets, one of them with fields of its own, which a live store does not keep."""
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
    """A store with tokens, once as each profile."""
    with Sandbox(profile=request.param) as box:
        yield box


@pytest.fixture
def box(open_box: Sandbox) -> Sandbox:
    """The store, filled anew, and asked for nothing yet."""
    open_box.reset(_shop(open_box.profile))
    return open_box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[Store]:
    """A connection with a state folder of its own."""
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
    """Whatever the plan does, the store sees requests that read, and keeps every pet; its state
    folder is not even made.
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
    """What the rehearsal shows is what applying the plan for real leaves in the store: an update of
    a name, of tags, of a pet with unknown fields, of the farthest id, a delete, and adds.
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
    """A plan's file can be rehearsed, rehearsed again, and then applied; and not after that."""
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


def test_a_plan_whose_sheet_is_gone(store: Store, tmp_path: Path) -> None:
    """Without its sheet, or with a changed one, a plan is rehearsed; only the second plan is not
    there, and it is said why.
    """
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Max\n", "utf-8")
    plan = store.plan(path)
    path.write_text("id,name\n1,Moritz\n", "utf-8")
    for _ in range(2):
        rehearsal = rehearse(store, plan)
        assert rehearsal.again is None
        assert "gone, or was changed" in rehearsal.why_not_again
        assert rehearsal.ok
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("action", ["add", "add-another"])
def test_rows_that_add_do_so_once(store: Store, action: str) -> None:
    """The copy's journal knows the row, so that the second plan is empty."""
    rehearsal = rehearse(store, _rows({"name": "New", "status": "sold", "action": action}))
    assert rehearsal.exit_code == 0
    assert rehearsal.left() == []


def test_a_part_of_a_plan(store: Store) -> None:
    """What was left out of a plan is left for the second one, and told as that."""
    sheet = _rows({"id": 1, "name": "Max"}, {"id": 2, "name": "Moritz"})
    rehearsal = rehearse(store, store.plan(sheet).select(ids=[1]), sheet=store.read(sheet))
    assert rehearsal.exit_code == 2
    assert [(left.change.pet_id, left.why) for left in rehearsal.left()] == [(2, "left-out")]


def test_new_ids_are_told(store: Store) -> None:
    """Each pet that was added without an id is there with the id that the copy gave."""
    rehearsal = rehearse(
        store, _rows({"name": "A", "status": "sold"}, {"name": "B", "status": "sold"})
    )
    assigned = {number: change.after.name for change, number in rehearsal.assigned()}
    after = _pets(rehearsal.after)
    assert {number: after[number].name for number in assigned} == assigned
    assert sorted(assigned.values()) == ["A", "B"]


def test_pets_outside_every_query(store: Store, box: Sandbox) -> None:
    """A pet that no status query lists is copied by its id if a row names it, whole, and changed
    there as it would be in the store.
    """
    box.put(Pet(id=900, name="Hidden", status="on loan", extra=EXTRA))
    sheet = _rows({"id": 900, "name": "Found", "status": "sold"})
    rehearsal = rehearse(store, sheet)
    assert rehearsal.ok
    assert _pets(rehearsal.before)[900].status == "on loan"
    assert _pets(rehearsal.after)[900] == Pet(id=900, name="Found", status="sold", extra=EXTRA)


def test_conflicts_stay_conflicts(store: Store) -> None:
    """A row that contradicts the store is no change on the copy either, and exits with 5."""
    rehearsal = rehearse(store, _rows({"id": 999, "name": "Nobody", "action": "update"}))
    assert rehearsal.exit_code == 5
    assert rehearsal.again is not None
    assert len(rehearsal.again.conflicts) == 1
    assert len(rehearsal.unexpected) == 0


def test_drift_since_the_plan(store: Store, box: Sandbox) -> None:
    """The copy is the store as it is now: what others changed since the plan is quarantined there
    as it would be, told as not what the plan said, and left by the second plan.
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
    assert {left.why for left in rehearsal.left()} == {"not-applied"}


def test_a_refused_plan_is_rehearsed_and_said_so(store: Store, box: Sandbox) -> None:
    """Where the guard refuses, all is shown that would have happened, and that it would not."""
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), delete_missing=True)
    assert rehearsal.exit_code == 4
    assert not rehearsal.ok
    assert len(rehearsal.after) == 1
    assert "The guard refuses this plan" in repr(rehearsal)
    assert len(box.pets()) == len(_shop(box.profile))


def test_a_base_goes_along(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """An exported workbook, edited, and changed in the store meanwhile: the second plan is made by
    its base too, and is empty but for the clash, which stays with a person.
    """
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
    """With answers refused, lost and torn each change is still done once, and it is told how many
    requests were broken; one at a time, the same seed breaks the same ones.
    """
    sheet = _rows(
        *({"id": n, "name": f"New {n}"} for n in range(1, 6)),
        *({"name": f"Added {n}", "status": "sold"} for n in range(4)),
        {"id": 20, "action": "delete"},
    )
    spec = "503=0.05,drop_before=0.05,drop_after=0.1,torn=0.1"
    if box.profile == "live":
        # A live store is listed until an add is settled, as often as the clock allows.
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
    """Where every write fails the rows fail, the pets are as before and told as not as planned, and
    the second plan is the first one again.
    """
    sheet = _rows({"id": 1, "name": "Max"}, {"id": 2, "action": "delete"})
    rehearsal = rehearse(store, sheet, faults=f"{_REFUSED},only=updatePetWithForm+updatePet")
    assert rehearsal.exit_code == 3
    assert rehearsal.report.counts["failed"] == 1
    assert set(rehearsal.unexpected["id"]) == {1, 2}
    assert [left.why for left in rehearsal.left()] == ["not-applied", "not-applied"]
    assert _pets(rehearsal.before) == _pets(rehearsal.after)


def test_what_nobody_planned(store: Store) -> None:
    """A pet that changes on the copy and is in no row is told, and is a failure."""
    sheet = _rows({"name": "New", "status": "sold"})
    rehearsal = rehearse(store, sheet, faults="moves=40:available")
    assert rehearsal.exit_code == 3
    row = rehearsal.unexpected.iloc[0]
    assert (row["id"], row["kind"], row["column"]) == (40, "none", "status")
    assert (row["expected"], row["found"], row["outcome"]) == ("sold", "available", "")
    assert "Not as the plan said, although nothing went wrong: 1" in repr(rehearsal)
    assert "pet 40 (Rex): status: expected 'sold', found 'available'" in repr(rehearsal)


def test_surprises_are_found_to_the_last_field(store: Store) -> None:
    """Of a pet that was changed every other field must be as it was, unknown ones too; of the
    others every character. A pet too many, or too few, is told.
    """
    rehearsal = rehearse(store, _rows({"id": 40, "category": "Cats"}))
    before, after = _pets(rehearsal.before), _pets(rehearsal.after)
    assert surprises(rehearsal.report, before, after).empty
    changed = {
        **after,
        40: msgspec.structs.replace(after[40], extra={"weight": 4.25}),
        1: msgspec.structs.replace(after[1], name=" Pet 1"),
        77: Pet(id=77, name="Twin"),
    }
    del changed[FAR]
    found = surprises(rehearsal.report, before, changed).set_index("id")
    assert list(found.index) == [40, 1, 77, FAR]
    assert list(found["column"]) == ["(unknown fields)", "", "", ""]
    assert list(found.loc[[77, FAR], "found"]) == ["in the store", "not there"]
    assert '" Pet 1"' in found.loc[1, "found"]


def test_an_empty_store(tmp_path: Path) -> None:
    """A store without a pet is copied, filled and shown like any other; so is an empty sheet."""
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
    """Where pets travel as XML the copy speaks it too, and ids and texts stay exact."""
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
    """Where the copy cannot be listed, which adds without an id need, the run stops before it has
    begun: code 7, why it stopped, and all of it left.
    """
    sheet = _rows({"id": 1, "name": "Max"}, {"name": "New", "status": "sold"})
    rehearsal = rehearse(store, sheet, faults=f"{_REFUSED},only=findPetsByStatus")
    assert rehearsal.exit_code == 7
    assert "not available" in rehearsal.report.stopped
    assert "Why it stopped" in repr(rehearsal)
    assert len(rehearsal.left()) == 2


def test_pets_that_gave_no_answer(store: Store, box: Sandbox) -> None:
    """A pet that could not be looked up is not in the copy: it is said so, and the second plan does
    not take it for a new one.
    """
    box.put(Pet(id=900, name="Hidden", status="on loan"))
    box.break_with(f"{_REFUSED},only=getPetById")
    rehearsal = rehearse(store, _rows({"id": 900, "name": "Found"}, {"id": 1, "name": "Max"}))
    box.break_with(None)
    assert rehearsal.exit_code == 3
    assert any("no answer to pet 900" in note for note in rehearsal.notes)
    assert rehearsal.again is not None
    assert not rehearsal.again.changes
    assert _pets(rehearsal.after)[1].name == "Max"


def test_a_status_that_no_query_asks_for(tmp_path: Path) -> None:
    """Where a plan gives a pet a status that no query of the profile asks for, the pet is still in
    the copy, and it is said that no export would have it.
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
    assert any("No status query would find pet 1 any more" in note for note in rehearsal.notes)


def test_statuses_add_up(store: Store) -> None:
    """For each status, what was there and what became of it gives what is there afterwards."""
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
    """The file that is asked for holds the copy as it is in the end; one that is there is left."""
    file = tmp_path / "copy.db"
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), keep=file)
    with Sandbox(db=file, auth=False) as kept:
        assert {pet.id: pet for pet in kept.pets()} == _pets(rehearsal.after)
    with pytest.raises(SettingsError, match="is there already"):
        rehearse(store, _rows({"id": 1, "name": "Max"}), keep=file)


def test_nothing_is_left_behind(store: Store, tmp_path: Path, monkeypatch: Any) -> None:
    """Neither a rehearsal nor one that fails leaves a temporary folder, or a half copy."""
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


def test_no_secret_is_told(store: Store, box: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    """The copy never sees the store's token, and no token is in a log, the report or the result."""
    caplog.set_level("DEBUG")
    token = store.api.aio.session.credentials.token
    assert token is not None
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), faults="429=0.2")
    shown = caplog.text + repr(rehearsal) + rehearsal._repr_html_() + str(rehearsal.report.plan)
    assert token.reveal() not in shown
    assert "Bearer" not in shown


def test_arguments_that_cannot_be(store: Store, box: Sandbox) -> None:
    """Faults that cannot be read, options for a plan, and a plan of another store are refused
    before anything is asked for.
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
    """The second plan is judged by the first one's guard, with its sentinels."""
    guard = Guard(max_update=Limit(25, is_share=False), sentinels=(40,))
    rehearsal = rehearse(store, _rows({"id": 1, "name": "Max"}), guard=guard)
    assert rehearsal.ok
    assert rehearsal.again is not None
    assert rehearsal.again.guard == guard


def test_settings_of_a_service_are_imitated(tmp_path: Path) -> None:
    """A shop with statuses of its own gets a copy that takes these and refuses others."""
    profile = replace(STANDARD, statuses=("here", "gone"))
    with Sandbox(profile=build_behaviour(profile)[0], auth=False) as box:
        box.reset([Pet(id=n, name=f"Pet {n}", status="here") for n in range(1, 12)])
        with connect(box.url, environ={}, profile=profile, state=tmp_path) as store:
            rehearsal = rehearse(store, _rows({"id": 1, "status": "gone"}))
            assert rehearsal.ok, rehearsal
            assert list(rehearsal.by_status()["after"]) == [10, 1]


def test_settings_that_cannot_be_imitated_are_told() -> None:
    """What a profile requires and the sandbox does not is said in a sentence; the two profiles that
    come along are imitated whole.
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
