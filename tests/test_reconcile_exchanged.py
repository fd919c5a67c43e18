"""Ids that were sorted, swapped or moved without their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace as other
from scenarios import PETS, CsvScenario, changed, kinds
from shop import base_of, plan_of, sheet_of, sheet_saying

import petsync as ps
from petsync.plan.compare import find_exchanged, find_twins
from petsync.plan.guard import Guard
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture(params=["two-way", "push"])
def scenario(_open_box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> CsvScenario:
    """Return a store and a sheet that agree after one round."""
    _open_box.reset(PETS)
    scenario = CsvScenario(_open_box, tmp_path, {"mode": request.param})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    return scenario


def _as(ids: Sequence[int]) -> list[ps.Pet]:
    """Return the first pets with these ids, and the others unchanged."""
    first = [other(pet, id=number) for pet, number in zip(PETS, ids, strict=False)]
    return [*first, *PETS[len(ids) :]]


@pytest.mark.parametrize("ids", [(2, 3, 4, 5, 1), (1, 2, 4, 3)])
def test_ids_that_were_sorted_alone_are_refused(scenario: CsvScenario, ids: Sequence[int]) -> None:
    """Ids that were sorted alone are refused with exit code 4: both sides stay unchanged, and the
    first cells are named.
    """
    scenario.write(_as(ids))
    content, stored = scenario.sheet.read_bytes(), scenario.store_pets()
    for dry_run in (True, False):
        result = scenario.run(dry_run=dry_run).round
        assert (result.status, result.exit_code) == ("refused", 4)
    assert "rows have the earlier values of other pets" in result.problem
    assert "line 4" in result.problem or "line 2" in result.problem
    assert "petsync plan" in result.hint
    assert (scenario.sheet.read_bytes(), scenario.store_pets()) == (content, stored)
    scenario.write()
    assert scenario.run().round.status == "in-sync"


def test_an_exchange_that_the_store_has_by_now_is_none(scenario: CsvScenario) -> None:
    """An exchange of two pets that the store already has is not refused again."""
    scenario.write(_as((2, 1)))
    assert scenario.run().round.status == "refused"
    scenario.box.reset(_as((2, 1)))
    assert scenario.run().round.exit_code == 0


def test_one_row_that_says_what_another_pet_was_is_an_edit(scenario: CsvScenario) -> None:
    """A single row with the old values of another pet is an edit, because only exchanged pairs are
    refused.
    """
    pets = changed(PETS, 1, name="Rex")
    scenario.write([*pets[:1], other(PETS[0], id=2), *pets[2:]])
    assert scenario.run().round.to_store.update == 2
    assert scenario.store_pets()[2].name == "Pet 1"


def test_copies_of_a_row_that_is_as_it_was_are_edits(scenario: CsvScenario) -> None:
    """Copies of an unchanged row are edits, because its own pet still has these values."""
    scenario.write([other(PETS[0], id=pet.id) if pet.id in (2, 3) else pet for pet in PETS])
    assert scenario.run().round.to_store.update == 2


@pytest.mark.parametrize("deletes", [False, True], ids=["", "delete-missing"])
@pytest.mark.parametrize("ids", [("", "1"), ("2", "3", "")], ids=["moved down", "shifted up"])
def test_an_id_in_the_row_of_another_pet_overwrites_and_doubles_none(
    scenario: CsvScenario, ids: Sequence[str], deletes: bool
) -> None:
    """An id that is moved into the row of another pet overwrites and adds no pet: the rows are in
    conflict until the ids are restored.
    """
    scenario.options["delete_missing"] = deletes
    stored = scenario.store_pets()
    header, *rows = scenario.rows()
    for row, text in zip(rows, ids, strict=False):
        row[header.index("id")] = text
    scenario.save([header, *rows])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, scenario.store_pets()) == ("conflicts", stored)
        assert {*kinds(report)} >= {("conflict", 1), ("conflict", 2)}
    assert any("ids seem to have been moved" in each.problem for each in report.open)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet, delete_missing=deletes)
    assert plan.changes == ()
    assert {each.rule for each in plan.conflicts} == {"misplaced-id"}
    scenario.write()
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("edit", [{"status": "sold"}, {"tags": "old"}])
def test_the_old_values_of_a_pet_in_a_new_row_are_no_second_pet(
    scenario: CsvScenario, edit: dict[str, str]
) -> None:
    """A new row with the old values of a pet whose own row has another name is a conflict, and adds
    no second pet.
    """
    stored = scenario.store_pets()
    header, *rows = scenario.rows()
    scenario.save(
        [header, *rows, ["" if name == "id" else rows[0][at] for at, name in enumerate(header)]]
    )
    scenario.type(1, name="Rex", **edit)
    report = scenario.run()
    assert (report.round.status, scenario.store_pets()) == ("conflicts", stored)
    assert kinds(report)[:2] == [("conflict", 1), ("conflict", 1)]
    scenario.type(1, action="update")
    header, *rows = scenario.rows()
    rows[-1][header.index("action")] = "add-another"
    scenario.save([header, *rows])
    assert scenario.run().round.exit_code == 0
    assert (scenario.store_pets()[1].name, len(scenario.store_pets())) == ("Rex", len(stored) + 1)


def test_what_another_pet_is_may_be_meant(scenario: CsvScenario) -> None:
    """A row that takes the values of another pet, whose row was removed, is sent only with the
    action `update`.
    """
    header, *rows = scenario.rows()
    scenario.save([header, *rows[:1], *rows[2:]])
    second = dict(zip(header, rows[1], strict=True))
    values = {name: text for name, text in second.items() if name != "id"}
    scenario.type(1, **values)
    assert scenario.run().round.status == "conflicts"
    scenario.type(1, action="update")
    assert scenario.run().round.to_store.update == 1
    assert scenario.store_pets()[1].name == "Pet 2"


@pytest.mark.parametrize("filled", [(1, 2), (1, 2, 3)])
def test_ids_that_were_filled_down_delete_no_pet(
    scenario: CsvScenario, filled: Sequence[int]
) -> None:
    """Ids that were filled down delete no pet, because the rows of the other pets are still in the
    sheet under that id.
    """
    scenario.options["delete_missing"] = True
    stored = scenario.store_pets()
    header, *rows = scenario.rows()
    for at in filled:
        rows[at][header.index("id")] = "1"
    scenario.save([header, *rows])
    report = scenario.run()
    assert (report.round.status, scenario.store_pets()) == ("findings", stored)
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet, delete_missing=True)
    assert plan.changes == ()
    assert any("may refer to any of them" in note for note in plan.notes)


def test_a_row_that_adds_a_pet_under_the_id_of_another_one_deletes_none(
    scenario: CsvScenario,
) -> None:
    """A row with the action `add` and the id of another pet deletes no pet, because it may replace
    that pet's row.
    """
    header, *rows = scenario.rows()
    scenario.save([header, rows[0], *rows[2:]])
    scenario.type(1, id="2", action="add")
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        plan = store.plan(scenario.sheet, delete_missing=True)
    assert (plan.changes, [each.rule for each in plan.conflicts]) == ((), ["exists"])


def test_twins_are_looked_for_in_whole_columns() -> None:
    """find_twins gives each row the first pet with its name, for many equal and different names."""
    many = [ps.Pet(id=n, name="Rex" if n % 2 else f"Pet {n}", photo_urls=()) for n in range(6_000)]
    frame = ps.frame_from_pets(many)
    found = find_twins(frame, frame)
    assert (found[::2] == pd.RangeIndex(0, 6_000, 2)).all()
    assert (found[1::2] == 1).all()


@pytest.mark.parametrize("number", [9, 10, 11, 30])
def test_a_moved_id_is_found_among_many_pets_of_one_name(number: int) -> None:
    """If an id moved to another row, both rows are conflicts, however many pets have the name."""
    pets = [
        ps.Pet(id=n, name="Kit", status="available", tags=(ps.Tag(None, f"{n}"),))
        for n in range(1, number + 1)
    ]
    rows = [
        {"id": each.id, "name": each.name, "status": each.status, "tags": [*each.tags]}
        for each in pets
    ]
    moved = {"id": number, "name": "Bo", "status": "sold", "tags": [ps.Tag(None, "new")]}
    sheet = sheet_saying(*rows[:-1], moved, {**rows[-1], "id": None}, base=base_of(pets))
    plan = plan_of(pets, sheet)
    assert not plan.changes
    assert [each.rule for each in plan.conflicts] == ["misplaced-id"] * 2


def test_moved_ids_refuse_the_changes_between_pets_of_one_name() -> None:
    """If ids moved down by a row, the rows with another name are conflicts. The few whose pet has
    the name by chance would overwrite it, so the guard refuses them.
    """
    names = ["Ada", "Bo", "Cleo", "Cleo", "Dot", "Emil"]
    pets = [
        ps.Pet(id=n, name=name, status="sold", tags=(ps.Tag(None, f"{n}"),))
        for n, name in enumerate(names, 1)
    ]
    rows = [{"id": each.id + 1, "name": each.name, "tags": [*each.tags]} for each in pets]
    plan = plan_of(pets, sheet_saying(*rows[:-1], base=base_of(pets)), guard=Guard())
    assert [each.pet_id for each in plan.changes] == [4]
    assert {each.rule for each in plan.conflicts} == {"misplaced-id"}
    assert [each.limit for each in plan.verdict.refusals] == ["shifted"]
    assert "the ids of 4 rows (" in str(plan.verdict.refusals[0])
    few = plan_of(pets, sheet_saying(rows[2], base=base_of(pets)), guard=Guard())
    assert (len(few.changes), few.verdict.refusals) == (1, ())


@pytest.mark.parametrize("ids", [(2, 3, 4, 5, 1), (2, 3, 4, 5, 6), (5, 4, 3, 2, 1)])
def test_moved_ids_are_refused_without_a_base(ids: Sequence[int]) -> None:
    """Without a base, the guard refuses a sheet in which most rows that differ have all values of
    another pet. It does not refuse names that several pets have, or two exchanged names.
    """
    pets = [ps.Pet(id=n, name=f"Pet {n}", status="sold") for n in range(1, 41)]
    rows = [{"id": n, "name": f"Pet {at}"} for at, n in enumerate(ids, 1)]
    plan = plan_of(pets, sheet_saying(*rows), guard=Guard())
    assert len(plan.updates) >= 4
    assert [each.limit for each in plan.verdict.refusals] == ["shifted"]
    assert plan.with_guard(Guard(allow_shifted=True)).verdict.ok
    edited = [{"id": n, "name": "Rex"} for n in range(10, 16)]
    common = [ps.Pet(id=pet.id + 40, name=pet.name, status="sold") for pet in pets]
    for some, known in ((rows + edited, pets), (rows, pets + common), (rows[:2], pets)):
        assert not plan_of(known, sheet_saying(*some), guard=Guard()).verdict.refusals


@pytest.mark.parametrize("turn", [lambda ids: ids[::-1], lambda ids: [*ids[1:], ids[0]]])
def test_exchanged_ids_of_an_export_are_named(turn: Callable[[list[int]], list[int]]) -> None:
    """The guard names exchanged ids, with their number and place, and not the columns that agree
    with each other. It also names a column of other rows that was shifted.
    """
    pets = [
        ps.Pet(
            id=n,
            name=f"Pet {n}",
            status=("sold", "pending", "available")[n * n % 3],
            tags=(ps.Tag(None, f"tag {n % 7}"),),
            photo_urls=(f"https://pets.example/{n}.jpg",),
        )
        for n in range(1, 61)
    ]
    ids = [each.id or 0 for each in pets]
    turned = [*ids[:10], *turn(ids[10:20]), *ids[20:]]
    rows = [other(pet, id=number) for pet, number in zip(pets, turned, strict=True)]
    plan = plan_of(pets, sheet_of(rows, base=base_of(pets)), guard=Guard())
    assert (plan.shifted, plan.moved_ids) == (("id",), tuple(range(12, 22)))
    (refusal,) = plan.verdict.refusals
    assert "the ids of 10 rows (" in refusal.problem
    assert plan.address(plan.changes[0], "id") in refusal.problem
    assert any("ids had been moved without their rows" in note for note in plan.notes)
    assert not any("was sorted or shifted" in note for note in plan.notes)
    assert Plan.from_json(plan.to_json()) == plan
    part = plan.select(ids=[turned[10]])
    assert "the ids of 10 rows" in part.verdict.refusals[0].problem
    photos = [each.photo_urls for each in rows[30:45]]
    shifted = [*rows[:30], *map(_with_photos, rows[30:45], [photos[-1], *photos[:-1]]), *rows[45:]]
    both = plan_of(pets, sheet_of(shifted, base=base_of(pets)), guard=Guard())
    assert both.shifted == ("id", "photo_urls")
    assert "the column photo_urls was" in str(both.verdict.refusals)


def _with_photos(pet: ps.Pet, photos: tuple[str, ...]) -> ps.Pet:
    return other(pet, photo_urls=photos)


def test_rows_that_say_nothing_else_are_alike_by_name_alone(tmp_path: Path) -> None:
    """Rows with only ids and names are compared by name, and nothing counts as exchanged without a
    base, without names or with one row.
    """
    path = tmp_path / "names.csv"
    path.write_text("id,name\n1,Pet 2\n2,Pet 1\n3,Pet 3\n")
    sheet = ps.read_sheet(path)
    before = ps.frame_from_pets(PETS)
    assert [(each.pet_id, each.other) for each in find_exchanged(sheet, before, {2, 3})] == [
        (1, 2),
        (2, 1),
    ]
    assert not find_exchanged(sheet, None, {2, 3})
    assert not find_exchanged(sheet, before, {2})
    assert not find_exchanged(sheet.with_rows(sheet.frame.drop(columns="name")), before, {2, 3})
