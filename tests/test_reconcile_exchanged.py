"""Ids that were sorted, swapped or moved without their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace as other
from nightly import PETS, Typed, changed, kinds

import petsync as ps
from petsync.plan.compare import find_exchanged, find_twins
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture(params=["two-way", "push"])
def night(_open_box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Typed:
    """Return a store and a sheet that agree after one round."""
    _open_box.reset(PETS)
    night = Typed(_open_box, tmp_path, {"mode": request.param})
    night.write()
    assert night.run().round.status == "in-sync"
    return night


def _as(ids: Sequence[int]) -> list[ps.Pet]:
    """Return the first pets with these ids, and the others unchanged."""
    first = [other(pet, id=number) for pet, number in zip(PETS, ids, strict=False)]
    return [*first, *PETS[len(ids) :]]


@pytest.mark.parametrize("ids", [(2, 3, 4, 5, 1), (1, 2, 4, 3)])
def test_ids_that_were_sorted_alone_are_refused(night: Typed, ids: Sequence[int]) -> None:
    """Ids that were sorted alone are refused with exit code 4: both sides stay unchanged, and the
    first cells are named.
    """
    night.write(_as(ids))
    said, stored = night.sheet.read_bytes(), night.stored()
    for dry_run in (True, False):
        result = night.run(dry_run=dry_run).round
        assert (result.status, result.exit_code) == ("refused", 4)
    assert "rows have the earlier values of other pets" in result.problem
    assert "line 4" in result.problem or "line 2" in result.problem
    assert "petsync plan" in result.hint
    assert (night.sheet.read_bytes(), night.stored()) == (said, stored)
    night.write()
    assert night.run().round.status == "in-sync"


def test_an_exchange_that_the_store_has_by_now_is_none(night: Typed) -> None:
    """An exchange of two pets that the store already has is not refused again."""
    night.write(_as((2, 1)))
    assert night.run().round.status == "refused"
    night.box.reset(_as((2, 1)))
    assert night.run().round.exit_code == 0


def test_one_row_that_says_what_another_pet_was_is_an_edit(night: Typed) -> None:
    """A single row with the old values of another pet is an edit, because only exchanged pairs are
    refused.
    """
    pets = changed(PETS, 1, name="Rex")
    night.write([*pets[:1], other(PETS[0], id=2), *pets[2:]])
    assert night.run().round.to_store.update == 2
    assert night.stored()[2].name == "Pet 1"


def test_copies_of_a_row_that_is_as_it_was_are_edits(night: Typed) -> None:
    """Copies of an unchanged row are edits, because its own pet still has these values."""
    night.write([other(PETS[0], id=pet.id) if pet.id in (2, 3) else pet for pet in PETS])
    assert night.run().round.to_store.update == 2


@pytest.mark.parametrize("deletes", [False, True], ids=["", "delete-missing"])
@pytest.mark.parametrize("ids", [("", "1"), ("2", "3", "")], ids=["moved down", "shifted up"])
def test_an_id_in_the_row_of_another_pet_overwrites_and_doubles_none(
    night: Typed, ids: Sequence[str], deletes: bool
) -> None:
    """An id that is moved into the row of another pet overwrites and adds no pet: the rows are in
    conflict until the ids are restored.
    """
    night.options["delete_missing"] = deletes
    stored = night.stored()
    header, *rows = night.rows()
    for row, text in zip(rows, ids, strict=False):
        row[header.index("id")] = text
    night.save([header, *rows])
    for _ in range(2):
        report = night.run()
        assert (report.round.status, night.stored()) == ("conflicts", stored)
        assert {*kinds(report)} >= {("conflict", 1), ("conflict", 2)}
    assert any("ids seem to have been moved" in each.problem for each in report.open)
    with ps.connect(night.box.url, state=night.state) as store:
        plan = store.plan(night.sheet, delete_missing=deletes)
    assert plan.changes == ()
    assert {each.rule for each in plan.conflicts} == {"misplaced-id"}
    night.write()
    assert night.run().round.status == "in-sync"


@pytest.mark.parametrize("edit", [{"status": "sold"}, {"tags": "old"}])
def test_the_old_values_of_a_pet_in_a_new_row_are_no_second_pet(
    night: Typed, edit: dict[str, str]
) -> None:
    """A new row with the old values of a pet whose own row has another name is a conflict, and adds
    no second pet.
    """
    stored = night.stored()
    header, *rows = night.rows()
    night.save(
        [header, *rows, ["" if name == "id" else rows[0][at] for at, name in enumerate(header)]]
    )
    night.type(1, name="Rex", **edit)
    report = night.run()
    assert (report.round.status, night.stored()) == ("conflicts", stored)
    assert kinds(report)[:2] == [("conflict", 1), ("conflict", 1)]
    night.type(1, action="update")
    header, *rows = night.rows()
    rows[-1][header.index("action")] = "add-another"
    night.save([header, *rows])
    assert night.run().round.exit_code == 0
    assert (night.stored()[1].name, len(night.stored())) == ("Rex", len(stored) + 1)


def test_what_another_pet_is_may_be_meant(night: Typed) -> None:
    """A row that takes the values of another pet, whose row was removed, is sent only with the
    action `update`.
    """
    header, *rows = night.rows()
    night.save([header, *rows[:1], *rows[2:]])
    second = dict(zip(header, rows[1], strict=True))
    values = {name: text for name, text in second.items() if name != "id"}
    night.type(1, **values)
    assert night.run().round.status == "conflicts"
    night.type(1, action="update")
    assert night.run().round.to_store.update == 1
    assert night.stored()[1].name == "Pet 2"


@pytest.mark.parametrize("filled", [(1, 2), (1, 2, 3)])
def test_ids_that_were_filled_down_delete_no_pet(night: Typed, filled: Sequence[int]) -> None:
    """Ids that were filled down delete no pet, because the rows of the other pets are still in the
    sheet under that id.
    """
    night.options["delete_missing"] = True
    stored = night.stored()
    header, *rows = night.rows()
    for at in filled:
        rows[at][header.index("id")] = "1"
    night.save([header, *rows])
    report = night.run()
    assert (report.round.status, night.stored()) == ("findings", stored)
    with ps.connect(night.box.url, state=night.state) as store:
        plan = store.plan(night.sheet, delete_missing=True)
    assert plan.changes == ()
    assert any("may refer to any of them" in note for note in plan.notes)


def test_a_row_that_adds_a_pet_under_the_id_of_another_one_deletes_none(night: Typed) -> None:
    """A row with the action `add` and the id of another pet deletes no pet, because it may replace
    that pet's row.
    """
    header, *rows = night.rows()
    night.save([header, rows[0], *rows[2:]])
    night.type(1, id="2", action="add")
    with ps.connect(night.box.url, state=night.state) as store:
        plan = store.plan(night.sheet, delete_missing=True)
    assert (plan.changes, [each.rule for each in plan.conflicts]) == ((), ["exists"])


def test_twins_are_looked_for_in_whole_columns() -> None:
    """find_twins gives each row the first pet with its name, for many equal and different names."""
    many = [ps.Pet(id=n, name="Rex" if n % 2 else f"Pet {n}", photo_urls=()) for n in range(6_000)]
    frame = ps.frame_from_pets(many)
    found = find_twins(frame, frame)
    assert (found[::2] == pd.RangeIndex(0, 6_000, 2)).all()
    assert (found[1::2] == 1).all()


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
    assert not find_exchanged(
        replace(sheet, frame=sheet.frame.drop(columns="name")), before, {2, 3}
    )
