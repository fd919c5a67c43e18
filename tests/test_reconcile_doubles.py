"""Pets that exist twice, or would; and a service that answers no look-up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from doubles import Double
from msgspec.structs import replace as other
from pairwise import pairwise
from scenarios import PETS, Scenario, kinds

from petsync.models import Category, Pet, Tag
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Round
from petsync.reconcile.context import Step, Watcher
from petsync.sandbox import Sandbox
from petsync.sheets import write_sheet
from petsync.table.frame import frame_from_pets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Iterator[Scenario]:
    """Yield a store and a sheet that agree after one round."""
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path, {"mode": "two-way"})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    yield scenario
    _open_box.set_faults(None)


class Somebody(Double, of=Watcher):
    """A watcher that puts a pet like the new one into the store while a round runs."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def on_begin(self, round_: Round) -> None:
        """Do nothing."""

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Add the pet, or give it the values of the new one, after the round has applied its
        plan.
        """
        yield
        if name == "apply":
            others = [pet for pet in self.scenario.box.pets() if pet.id != 500]
            made = next(pet for pet in others if pet.name == "New")
            self.scenario.box.reset([*others, other(made, id=500)])

    def on_end(self, report: RoundReport) -> None:
        """Do nothing."""


@pytest.mark.parametrize("mode", ["two-way", "push"])
def test_a_row_that_was_copied_over_another_deletes_no_pet(scenario: Scenario, mode: str) -> None:
    """A row that was copied unchanged over another one may have replaced it by mistake: the pet
    without a row is not deleted, and a note names it.
    """
    scenario.write(PETS[2] if pet.id == 8 else pet for pet in PETS)
    report = scenario.run(mode=mode, delete_missing=True)
    assert report.round.to_store.delete == 0
    assert scenario.store_pets().keys() == {pet.id for pet in PETS}
    assert [each.pet_id for each in report.open if "may be its row" in each.problem] == [8]
    scenario.write(pet for pet in PETS if pet.id != 8)
    assert scenario.run(mode=mode, delete_missing=True).round.to_store.delete == 1


def test_a_copied_row_without_an_id_is_held(scenario: Scenario) -> None:
    """A copied row without an id adds no second pet, until a person writes `add-another`."""
    copied = other(PETS[0], id=None)
    scenario.write([*PETS, copied])
    report = scenario.run()
    assert (report.round.status, report.round.to_store.add) == ("conflicts", 0)
    (held,) = report.open
    assert held.address == "line 14, column 1"
    assert "pet 1 has the same values" in held.problem
    text = scenario.sheet.read_text("utf-8-sig")
    scenario.sheet.write_text(f"{text.rstrip()}add-another\n", "utf-8")
    report = scenario.run()
    assert (report.round.status, report.round.to_store.add) == ("done", 1)
    assert not scenario.run().open


@pytest.mark.parametrize("way", ["same pets", "other pets"])
@pytest.mark.parametrize("deletes", [True, False])
def test_a_new_litter_in_place_of_a_removed_one_is_decided_as_advised(
    scenario: Scenario, deletes: bool, way: str
) -> None:
    """New rows may be removed rows of an earlier litter. Their conflicts name both ways out: the
    pets' ids, and the action with which the rows are added and the removed pets are deleted.
    """
    free = Limit(1.0)
    guard = Guard(max_add=free, max_update=free, max_delete=free)
    scenario.options = {**scenario.options, "guard": guard, "delete_missing": deletes}
    kit = Pet(status="available", category=Category(2, "Cats"), tags=(Tag(None, "young"),))
    old, new = ([other(kit, name=f"{one} {n}") for n in (1, 2, 3)] for one in ("Old", "New"))
    scenario.write([*PETS, *old])
    assert scenario.run().round.to_store.add == 3
    stored = {pet.name: pet for pet in scenario.store_pets().values()}
    removed, left = [stored[f"Old {n}"] for n in (1, 2)], [*PETS, stored["Old 3"]]
    scenario.write([*left, *new[:2]])
    report = scenario.run()
    held = [each for each in report.open if each.kind == "conflict"]
    assert {each.pet_id for each in held} == {pet.id for pet in removed}
    assert scenario.store_pets().keys() == {pet.id for pet in stored.values()}
    for each in held:
        assert "Give the row the pet's id if it is that pet" in each.hint
        assert "write `add-another` in the action column: the row is then added" in each.hint
        wanted = "is deleted if no row has its id" if deletes else "and the action `delete`"
        assert wanted in each.hint
    rows, actions = [*left, *new[:2]], [""] * len(left) + ["add-another"] * 2
    if way == "same pets":
        rows = [*left, *(other(one, id=pet.id) for one, pet in zip(new, removed, strict=False))]
        actions = [""] * len(rows)
    elif not deletes:
        rows, actions = [*rows, *removed], [*actions, "delete", "delete"]
    frame = frame_from_pets(rows).assign(action=actions)
    write_sheet(frame, scenario.sheet, base=False, force=True)
    assert scenario.run().round.status == "done"
    names = {pet.name for pet in scenario.store_pets().values()}
    assert names == {pet.name for pet in (*left, *new[:2])}
    ids = {pet.id for pet in removed}
    assert len(ids & scenario.store_pets().keys()) == (2 if way == "same pets" else 0)


def test_a_blank_cell_of_a_row_that_finds_its_pet_takes_what_the_store_has(
    scenario: Scenario,
) -> None:
    """A blank cell of a row that finds its pet takes the store's value."""
    new = Pet(name="Lost", status="pending")
    scenario.write([*PETS, new])
    photos = ("https://x.example/1.jpg",)
    full = other(new, id=900, category=Category(3, "Cats"), tags=(Tag(1, "late"),))
    full = other(full, photo_urls=photos)
    scenario.box.reset([*PETS, full])
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets()[900] == scenario.store_pets()[900] == full
    assert scenario.run().round.status == "in-sync"


def test_a_like_pet_that_somebody_else_added_meanwhile_is_drift(scenario: Scenario) -> None:
    """A second pet like a new row's, which another client adds during a push, is drift with exit
    code 2.
    """
    scenario.write([*PETS, other(PETS[0], id=None, name="New")])
    report = scenario.run(mode="push", watchers=[Somebody(scenario)])
    assert (report.round.status, report.round.exit_code, report.round.unexplained) == (
        "drift",
        2,
        1,
    )
    assert ("drift", 500) in kinds(report)
    assert "appeared in the store during this round" in next(
        e.problem for e in report.open if e.pet_id == 500
    )


@pytest.mark.parametrize(
    ("scope", "earlier"),
    [({"statuses": ("available",)}, {"status": "sold"}), ({"tags": ("calm",)}, {"tags": ()})],
    ids=["by status", "by tag"],
)
def test_a_like_pet_that_enters_the_scope_has_not_appeared(
    scenario: Scenario, scope: dict[str, Any], earlier: dict[str, Any]
) -> None:
    """A pet that existed before the round, and gets the values of a new row during it, is not
    reported as one that appeared.
    """
    new = other(PETS[2], id=None, name="New")
    scenario.write([*PETS, new])
    scenario.box.reset([*PETS, other(new, id=500, name="Old", **earlier)])
    report = scenario.run(mode="push", watchers=[Somebody(scenario)], **scope)
    assert report.round.to_store.add == 1
    assert scenario.store_pets()[500] == other(new, id=500)
    assert not any("appeared" in each.problem for each in report.open)


def test_like_rows_of_one_sheet_add_one_pet(scenario: Scenario) -> None:
    """Of two identical new rows, one is added, and the other is a conflict that names the first."""
    new = other(PETS[0], id=None, name="New")
    scenario.write([*PETS, new, new])
    report = scenario.run(mode="push")
    assert (report.round.status, report.round.unexplained) == ("conflicts", 0)
    assert [pet.name for pet in scenario.store_pets().values()].count("New") == 1
    assert [each.name for each in report.open] == ["New"]


def test_an_outage_is_no_matter_for_a_person_to_decide(scenario: Scenario) -> None:
    """A round whose look-ups all fail ends with exit code 1 and changes nothing, and reports no
    conflict.
    """
    scenario.write([*PETS[:1], other(PETS[1], name="Rex"), *PETS[2:], other(PETS[0], id=77)])
    scenario.box.set_faults("html=1,only=getPetById")
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("error", 1)
    assert "all look-ups of pets in the store failed" in report.round.problem
    assert scenario.store_pets()[2].name == "Pet 2"


@pytest.mark.parametrize(
    ("mode", "rows", "delete_missing", "is_first"),
    pairwise(("two-way", "push"), (12, 4), (False, True), (False, True), together=[(0, 2, 3)]),
)
def test_rows_under_other_ids_double_no_pet(
    scenario: Scenario, mode: str, rows: int, delete_missing: bool, is_first: bool
) -> None:
    """Rows whose ids were shifted or replaced are conflicts: no pet is added, deleted or written
    into the sheet until the ids are restored.
    """
    if is_first:
        shutil.rmtree(scenario.state)
    scenario.options = {"mode": mode, "delete_missing": delete_missing}
    moved = [other(pet, id=(pet.id or 0) + 2000) for pet in PETS[:rows]]
    scenario.write([*moved, *PETS[rows:]])
    sheet_pets = scenario.sheet_pets()
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.round.conflicts) == ("conflicts", rows)
        assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 0)
        assert (scenario.box.pets(), scenario.sheet_pets()) == (PETS, sheet_pets)
    scenario.write()
    assert scenario.run().round.status in ("done", "in-sync")
    assert scenario.run().round.status == "in-sync"
    assert scenario.box.pets() == PETS
