"""A DataFrame of the store carries the values with which it was read: its plan is three-way."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

import petsync as ps
from petsync.sandbox import Sandbox

SHOP = [ps.Pet(id=n, name=f"Pet {n}", status="available", photo_urls=()) for n in range(1, 6)]
Load = Callable[[ps.Store], pd.DataFrame]
LOADS: dict[str, Load] = {
    "pets": lambda store: store.pets(),
    "by id": lambda store: store.pets(index="id").reset_index(),
    "by status": lambda store: store.find_by_status("available"),
    "filtered": lambda store: store.pets().query("id != 5").sort_values("name").copy(),
    "assigned": lambda store: store.pets().assign(status="available").set_index("id").reset_index(),
    "pickled": lambda store: pickle.loads(pickle.dumps(store.pets())),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store of five pets."""
    with (
        Sandbox(pets=SHOP, auth=False) as box,
        ps.connect(box.url, environ={}, state=tmp_path) as connected,
    ):
        yield connected


def rename(store: ps.Store, pet_id: int, name: str) -> None:
    """Change a pet in the store, as a colleague does."""
    store.apply(store.plan(pd.DataFrame({"id": [pet_id], "name": [name]})), progress=False)


@pytest.mark.parametrize("load", LOADS.values(), ids=[*LOADS])
def test_old_values_of_a_frame_take_nothing_back(store: ps.Store, load: Load) -> None:
    """A value that the frame has as it was read is no edit: a colleague's later change stays. What
    both changed is a conflict.
    """
    frame = load(store)
    rename(store, 1, "Theirs")
    rename(store, 3, "Theirs too")
    frame.loc[frame["id"] == 2, "name"] = "Mine"
    frame.loc[frame["id"] == 3, "name"] = "Mine too"
    plan = store.plan(frame)
    assert [(each.pet_id, each.after.name) for each in plan.updates] == [(2, "Mine")]
    (conflict,) = plan.conflicts
    assert (conflict.pet_id, conflict.clashes[0].base) == (3, "Pet 3")
    assert not store.plan(frame, two_way=True).conflicts


def test_a_frame_is_planned_again_after_its_run(store: ps.Store) -> None:
    """After its run, a value that is set back is sent again, or at least no edit is ignored."""
    frame = store.pets()
    frame.loc[frame["id"] == 1, "name"] = "New"
    frame.loc[frame["id"] == 2, "name"] = "New too"
    store.apply(store.plan(frame), progress=False)
    assert store.plan(frame).in_sync
    frame.loc[frame["id"] == 1, "name"] = "Pet 1"
    plan = store.plan(frame)
    assert [each.pet_id for each in (*plan.updates, *plan.conflicts)] == [1]


def test_a_frame_of_another_store_has_no_base(store: ps.Store, tmp_path: Path) -> None:
    """The values of another store are compared with this store alone."""
    with (
        Sandbox(pets=SHOP[:2], auth=False) as box,
        ps.connect(box.url, environ={}, state=tmp_path / "other") as other,
    ):
        frame = other.pets()
    plan = store.plan(frame.assign(name="Both"))
    assert not plan.base
    assert len(plan.updates) == 2


def test_a_frame_with_a_base_is_written_to_any_format(store: ps.Store) -> None:
    """pandas writes the frame to Parquet and JSON, with or without what it carries."""
    frame = store.pets().drop(columns=["tags", "photo_urls"])
    body = io.BytesIO()
    frame.to_parquet(body)
    assert pd.read_parquet(body)["id"].tolist() == [1, 2, 3, 4, 5]
    assert '"Pet 5"' in frame.to_json()
    assert len(pd.concat([frame, store.pets()])) == 10


def test_the_frame_of_an_export_carries_its_base(store: ps.Store, tmp_path: Path) -> None:
    """The frame of an exported sheet is compared like the sheet: a colleague's change stays."""
    path = tmp_path / "catalogue.csv"
    ps.write_sheet(store.snapshot(), path)
    frame = store.read(path).frame
    rename(store, 1, "Theirs")
    frame.loc[frame["id"] == 2, "name"] = "Mine"
    plan = store.plan(frame)
    assert [(each.pet_id, each.after.name) for each in plan.updates] == [(2, "Mine")]
    assert plan.base


def test_a_lost_column_is_named_if_it_may_be_a_renamed_one(store: ps.Store) -> None:
    """Selected columns are no reason for a note; a column that petsync does not know is one."""
    part = store.pets()[["id", "status"]].assign(status="sold")
    assert not store.plan(part).notes
    (note,) = store.plan(part.assign(Title="x")).notes
    assert note.startswith("The DataFrame lacks the columns name, category")
    assert "'Title'" in note


def test_a_plan_without_a_base_says_so(store: ps.Store) -> None:
    """pandas drops the base in concat: the plan says that old values count as edits, and the line
    that it names keeps the base, with the new rows as new pets.
    """
    pets = store.pets()
    table = pd.concat([pets, pd.DataFrame([{"name": "New", "status": "sold"}])])
    assert not store.plan(table).notes  # nothing of the store is overwritten
    rename(store, 1, "Theirs")
    plan = store.plan(table)
    assert [each.pet_id for each in plan.updates] == [1]
    (note,) = plan.notes
    assert "does not carry" in note
    assert "new.attrs = pets.attrs" in note
    assert not store.plan(table, two_way=True).notes
    table.attrs = pets.attrs
    plan = store.plan(table)
    assert [(each.kind, each.after.name) for each in plan.changes] == [("add", "New")]
    assert plan.older == (0,)
