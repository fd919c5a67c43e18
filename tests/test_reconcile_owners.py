"""Jobs whose fields belong to one side: no round writes a field on its owner's side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reference import UNITS, compared
from scenarios import DOGS, PETS, CsvScenario, changed, kinds
from times import times
from triples import OWNERS

import petsync as ps
from petsync.cli import main
from petsync.reconcile.state import BaseFile, StatePaths
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[CsvScenario]:
    """Return a store and a sheet with the same pets."""
    with Sandbox(auth=False, pets=PETS) as box:
        scenario = CsvScenario(box, tmp_path, {"mode": "two-way"})
        scenario.write()
        yield scenario


def agreed(scenario: CsvScenario, pet_id: int) -> ps.Pet:
    """Return a pet of the job's base."""
    base = BaseFile(StatePaths(scenario.state).base("catalogue")).load(set_aside=False).base
    assert base is not None
    (pet,) = (each for each in ps.pets_from_frame(base.rows) if each.id == pet_id)
    return pet


OWNED: Any = {"status": "store", "category": "sheet", "tags": "never"}


def test_each_side_keeps_its_fields(scenario: CsvScenario) -> None:
    """In a two-way round, the store's field reaches the sheet over an edit, the sheet's field the
    store over a change, and a field of nobody stays on both sides, all without a conflict.
    """
    assert scenario.run(owners=OWNED).round.status == "in-sync"
    scenario.type(1, status="sold", category="Cats", tags="shy", name="Max")
    scenario.type(2, status="available")
    moved = changed(PETS, 1, status="available", category=ps.Category(5, "Fish"), tags=())[0]
    scenario.box.put(moved)
    report = scenario.run(owners=OWNED)
    assert (report.round.status, report.round.exit_code) == ("done", 0)
    # The first note: the sheet replaces the changed category; the second: the tags stay apart.
    assert kinds(report) == [("note", 1)] * 2
    assert report.open[0].fields == ("category", "category_id")
    store, sheet = scenario.store_pets(), scenario.sheet_pets()
    assert (store[1].status, store[1].tags, store[1].name) == ("available", (), "Max")
    assert [each.category.name for each in (store[1], sheet[1]) if each.category] == ["Cats"] * 2
    assert (sheet[1].status, sheet[1].tags) == ("available", (ps.Tag(None, "shy"),))
    assert (store[2].status, sheet[2].status) == ("sold", "sold")
    assert agreed(scenario, 1).tags == (ps.Tag(1, "calm"),)
    again = scenario.run(owners=OWNED)
    assert (again.round.status, kinds(again)) == ("in-sync", [("note", 1)])


def test_the_undo_of_an_owned_field_says_what_the_next_round_does(
    scenario: CsvScenario, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next two-way round sends a field of the sheet again, and the undo announces it. It
    writes the undo of other fields into the sheet.
    """
    scenario.run(owners=OWNED)
    scenario.type(1, category="Cats", name="Max")
    assert scenario.run(owners=OWNED).round.status == "done"
    with pytest.raises(SystemExit) as ended:
        main(["undo", "--yes", "--url", scenario.box.url, "--state", str(scenario.state)])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().err.split())
    assert "The sheet owns category: the next round sends the sheet's values again" in text
    assert scenario.run(owners=OWNED).round.status == "done"
    pet = scenario.store_pets()[1]
    assert (pet.category and pet.category.name, pet.name) == ("Cats", PETS[0].name)


def test_a_base_claims_no_agreement_that_was_not_there(scenario: CsvScenario) -> None:
    """After the owner is taken back, a difference that remained is a conflict, or a change of the
    side that changed it; nothing is overwritten.
    """
    owners: Any = {"status": "never"}
    scenario.type(3, status="pending")
    assert kinds(scenario.run(owners=owners)) == [("note", 3)]
    scenario.type(1, status="sold")
    scenario.box.put(changed(PETS, 2, status="available")[1])
    for _ in range(2):
        assert sorted(kinds(scenario.run(owners=owners))) == [("note", n) for n in (1, 2, 3)]
    report = scenario.run()
    assert kinds(report) == [("conflict", 3)]
    assert (scenario.store_pets()[1].status, scenario.cell(2, "status")) == ("sold", "available")
    assert (scenario.store_pets()[3].status, scenario.cell(3, "status")) == ("available", "pending")


def test_a_push_sends_only_what_the_sheet_owns(scenario: CsvScenario) -> None:
    """A push reports fields of the store as notes, and deletes a removed row's pet although the
    store has changed them.
    """
    push: dict[str, Any] = {"mode": "push", "owners": {"status": "store"}, "delete_missing": True}
    scenario.type(1, status="sold", name="Max")
    assert kinds(scenario.run(**push)) == [("note", 1)]
    assert (scenario.store_pets()[1].name, scenario.store_pets()[1].status) == ("Max", "pending")
    for number, status in ((1, "available"), (2, "pending"), (3, "sold")):
        scenario.box.put(ps.Pet(**{**as_dict(scenario.store_pets()[number]), "status": status}))
    scenario.box.put(changed(PETS, 4, name="Elsewhere", status="sold")[3])
    rows = [row for row in scenario.rows() if row[0] not in ("1", "4")]
    scenario.save(rows)
    report = scenario.run(**push)
    assert sorted(kinds(report)) == [("conflict", 4), ("note", 2), ("note", 3)]
    assert 1 not in scenario.store_pets()
    assert scenario.store_pets()[2].status == "pending"


def as_dict(pet: ps.Pet) -> dict[str, Any]:
    """Return the values of a pet."""
    return {name: getattr(pet, name) for name in pet.__struct_fields__}


def test_a_pull_writes_only_what_the_store_owns(scenario: CsvScenario) -> None:
    """A pull keeps the sheet's fields and those of nobody, also those that are blank."""
    owners: Any = {"name": "sheet", "tags": "never"}
    scenario.type(1, name="Max", tags="", status="sold")
    scenario.box.put(changed(PETS, 2, name="Elsewhere", status="pending")[1])
    report = scenario.run(mode="pull", owners=owners)
    assert report.round.status == "done"
    assert [scenario.cell(1, name) for name in ("name", "tags", "status")] == ["Max", "", "pending"]
    assert [scenario.cell(2, name) for name in ("name", "status")] == ["Pet 2", "pending"]
    assert scenario.store_pets()[1].name == "Pet 1"
    assert sorted(kinds(report)) == [("note", 1), ("note", 2)]
    scenario.sheet.unlink()
    scenario.run(mode="pull", owners=owners)
    assert scenario.sheet_pets() == scenario.store_pets()


def test_a_check_reports_only_fields_that_somebody_writes(scenario: CsvScenario) -> None:
    """A difference is drift, in a field of nobody it is a note."""
    scenario.type(1, tags="shy")
    scenario.type(2, status="pending")
    scenario.type(3, category="Cats")
    report = scenario.run(mode="check", owners=OWNED)
    assert sorted(kinds(report)) == [("drift", 2), ("drift", 3), ("note", 1)]


def test_new_rows_and_new_pets_lack_the_other_side_s_fields(scenario: CsvScenario) -> None:
    """A new pet in the store becomes a row with its name and without the sheet's fields; a new row
    becomes a pet with name and status and without the store's fields.
    """
    owners: Any = {"name": "sheet", "status": "store", "category": "sheet", "tags": "store"}
    scenario.run(owners=owners)
    scenario.box.put(
        ps.Pet(id=50, name="Fern", status="sold", category=DOGS, tags=(ps.Tag(1, "calm"),))
    )
    scenario.save([*scenario.rows(), ["", "Nah", "sold", "Dogs", "", "shy", "", ""]])
    report = scenario.run(owners=owners)
    assert (report.round.status, report.round.exit_code) == ("done", 0)
    assert [scenario.cell(50, n) for n in ("name", "status", "category", "category_id")] == [
        "Fern",
        "sold",
        "",
        "",
    ]
    (new,) = (pet for pet in scenario.store_pets().values() if pet.name == "Nah")
    assert (new.status, new.category, new.tags) == ("sold", DOGS, ())
    assert scenario.cell(new.id or 0, "tags") == ""
    assert scenario.run(owners=owners).round.status == "in-sync"
    # A blank cell says nothing, also after the store has changed the value beside it.
    scenario.box.put(ps.Pet(id=50, name="Fern", status="sold", category=ps.Category(5, "Fish")))
    scenario.run(owners=owners)
    assert scenario.cell(50, "category") == ""
    scenario.save([row for row in scenario.rows() if row[0] != "50"])
    scenario.run(owners=owners, delete_missing=True)
    assert 50 not in scenario.store_pets()


def test_an_owner_in_a_dry_run_of_the_first_round(scenario: CsvScenario) -> None:
    """The first round, without a base, decides fields with an owner, and asks about the others."""
    scenario.type(1, name="Max", status="sold", category="Cats")
    report = scenario.run(dry_run=True, owners=OWNED)
    assert sorted(kinds(report)) == [("conflict", 1), ("drift", 1), ("drift", 1)]
    scenario.run(owners=OWNED)
    pet = scenario.store_pets()[1]
    assert (pet.name, pet.category and pet.category.name) == ("Pet 1", "Cats")
    assert [scenario.cell(1, name) for name in ("name", "status")] == ["Max", "pending"]


@pytest.mark.parametrize("seed", range(times(2)))
def test_no_round_writes_a_field_on_its_owner_s_side(scenario: CsvScenario, seed: int) -> None:
    """Random edits of both sides in several rounds change no field on its owner's side, and fields
    of one side agree afterwards.
    """
    chance = Random(seed)
    owners: Any = {unit: chance.choice(OWNERS) for unit in UNITS}
    values: dict[str, list[Any]] = {
        "name": ["Rex", "Tom", "Mia"],
        "status": ["available", "pending", "sold"],
        "category": ["Dogs", "Cats", "Fish"],
        "tags": ["shy", "calm", "old; calm"],
        "photo_urls": ["https://shop.example/a.jpg", "https://shop.example/b.jpg"],
    }
    guard = ps.Guard(max_update=ps.Limit(1.0))
    for _ in range(2):
        for pet in PETS:
            unit = chance.choice(UNITS)
            scenario.type(pet.id or 0, **{unit: chance.choice(values[unit])})
            if unit == "category":
                scenario.type(pet.id or 0, category_id="")
        typed = ps.read_sheet(scenario.sheet).frame
        others = dict(zip(range(1, 13), chance.sample(ps.pets_from_frame(typed), 12), strict=True))
        for pet in scenario.box.pets():
            unit = chance.choice(UNITS)
            value = getattr(others[pet.id or 0], unit)
            scenario.box.put(ps.Pet(**{**as_dict(pet), unit: value}))
        store, sheet = scenario.store_pets(), scenario.sheet_pets()
        scenario.run(owners=owners, guard=guard)
        now, then = scenario.store_pets(), scenario.sheet_pets()
        for unit in UNITS:
            for pet_id in store:
                if owners[unit] in ("store", "never"):
                    assert compared(unit, now[pet_id]) == compared(unit, store[pet_id])
                if owners[unit] in ("sheet", "never"):
                    assert text(unit, then[pet_id]) == text(unit, sheet[pet_id])
                if owners[unit] in ("sheet", "store"):
                    assert text(unit, then[pet_id]) == text(unit, now[pet_id])


def text(unit: str, pet: ps.Pet) -> Any:
    """Return a comparable value of a unit, without ids."""
    if unit == "tags":
        return {tag.name for tag in pet.tags}
    if unit == "category":
        return pet.category.name if pet.category else ""
    return getattr(pet, unit)
