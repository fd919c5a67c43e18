"""Rows whose ids were sorted, swapped or moved without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace as other
from nightly import PETS, Night, changed

import petsync as ps
from petsync.plan.compare import find_exchanged, twins
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture(params=["two-way", "push"])
def night(_open_box: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Night:
    """A store and a sheet that agree, and were reconciled once."""
    _open_box.reset(PETS)
    night = Night(_open_box, tmp_path, {"mode": request.param})
    night.write()
    assert night.run().round.status == "in-sync"
    return night


def _as(ids: Sequence[int]) -> list[ps.Pet]:
    """The first pets under these ids, the others as they are."""
    first = [other(pet, id=number) for pet, number in zip(PETS, ids, strict=False)]
    return [*first, *PETS[len(ids) :]]


@pytest.mark.parametrize("ids", [(2, 3, 4, 5, 1), (1, 2, 4, 3)])
def test_ids_that_were_sorted_alone_are_refused(night: Night, ids: Sequence[int]) -> None:
    """Exit code 4, nothing is changed on either side, and the first cells are named."""
    night.write(_as(ids))
    said, stored = night.sheet.read_bytes(), night.stored()
    for dry_run in (True, False):
        told = night.run(dry_run=dry_run).round
        assert (told.status, told.exit_code) == ("refused", 4)
    assert "rows say what other pets were" in told.problem
    assert "line 4" in told.problem or "line 2" in told.problem
    assert "petsync plan" in told.hint
    assert (night.sheet.read_bytes(), night.stored()) == (said, stored)
    night.write()
    assert night.run().round.status == "in-sync"


def test_an_exchange_that_the_store_has_by_now_is_none(night: Night) -> None:
    """Whoever meant it, and planned it by hand, is not asked again."""
    night.write(_as((2, 1)))
    assert night.run().round.status == "refused"
    night.box.reset(_as((2, 1)))
    assert night.run().round.exit_code == 0


def test_one_row_that_says_what_another_pet_was_is_an_edit(night: Night) -> None:
    """Only in pairs do identities go astray."""
    pets = changed(PETS, 1, name="Rex")
    night.write([*pets[:1], other(PETS[0], id=2), *pets[2:]])
    assert night.run().round.to_store.update == 2
    assert night.stored()[2].name == "Pet 1"


def test_copies_of_a_row_that_is_as_it_was_are_edits(night: Night) -> None:
    """Filled down, rows say what another pet still is."""
    night.write([other(PETS[0], id=pet.id) if pet.id in (2, 3) else pet for pet in PETS])
    assert night.run().round.to_store.update == 2


def test_twins_are_looked_for_in_whole_columns() -> None:
    """Many rows of one name, and many of names that differ."""
    many = [ps.Pet(id=n, name="Rex" if n % 2 else f"Pet {n}", photo_urls=()) for n in range(6_000)]
    frame = ps.frame_from_pets(many)
    found = twins(frame, frame)
    assert (found[::2] == pd.RangeIndex(0, 6_000, 2)).all()
    assert (found[1::2] == 1).all()


def test_rows_that_say_nothing_else_are_alike_by_name_alone(tmp_path: Path) -> None:
    """A sheet of ids and names; nothing is exchanged without a base, names, or two rows."""
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
