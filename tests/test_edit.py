"""`store.edit`: a change of one pet by hand, with the same checks as every plan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import petsync as ps
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

REX = ps.Pet(
    id=7,
    name="Rex",
    status="available",
    category=ps.Category(1, "Dogs"),
    tags=(ps.Tag(1, "calm"),),
    photo_urls=("https://shop.example/a.jpg",),
)
MIA = ps.Pet(id=8, name="Mia", status="sold", category=ps.Category(2, "Cats"))


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with two pets."""
    with Sandbox(auth=False, pets=[REX, MIA]) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store."""
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as store:
        yield store


def applied(store: ps.Store, plan: ps.types.Plan) -> ps.Pet:
    """Apply the plan and return pet 7."""
    report = store.apply(plan, progress=False)
    assert [result.outcome for result in report.results] == ["applied"]
    return store.api.get_pet_by_id(7)


def test_an_edit_is_a_plan_of_the_given_values(store: ps.Store) -> None:
    """An edit is a plan with only the given fields, and nothing is sent before it is applied."""
    plan = store.edit(7, name="Rexi", status="sold")
    assert [(c.pet_id, c.kind, c.fields) for c in plan.changes] == [
        (7, "update", ("name", "status"))
    ]
    assert plan.verdict.ok
    assert store.api.get_pet_by_id(7) == REX
    assert applied(store, plan) == msgspec.structs.replace(REX, name="Rexi", status="sold")


def test_an_edit_takes_what_a_cell_takes(store: ps.Store) -> None:
    """An edit accepts lists in a cell's grammar, and a known category gets its id."""
    plan = store.edit(7, category="Cats", tags="calm; old", photo_urls="https://x/1\nhttps://x/2")
    now = applied(store, plan)
    assert now.category == ps.Category(2, "Cats")
    assert [tag.name for tag in now.tags] == ["calm", "old"]
    assert now.tags[0].id == 1
    assert now.photo_urls == ("https://x/1", "https://x/2")


def test_an_empty_value_empties_a_field(store: ps.Store) -> None:
    """An empty text or list clears a field; None leaves it unchanged."""
    now = applied(store, store.edit(7, category="", tags=[], photo_urls=""))
    assert (now.category, now.tags, now.photo_urls) == (None, (), ())
    assert (now.name, now.status) == ("Rex", "available")


def test_a_category_with_an_id_alone_can_be_emptied(box: Sandbox, store: ps.Store) -> None:
    """An empty text clears a category that has an id and an empty name."""
    box.reset([msgspec.structs.replace(REX, category=ps.Category(9, "")), MIA])
    assert applied(store, store.edit(7, category="")).category is None
    assert store.edit(7, category="").in_sync


def test_a_category_of_its_own_is_taken_whole(store: ps.Store) -> None:
    """A Category value sets both name and id."""
    plan = store.edit(7, category=ps.Category(9, "Birds"))
    assert applied(store, plan).category == ps.Category(9, "Birds")


def test_no_value_is_nothing_to_do(store: ps.Store) -> None:
    """An edit without a difference is a plan in sync."""
    assert store.edit(7).in_sync
    assert store.edit(7, name="Rex", tags=["calm"]).in_sync


def test_what_somebody_else_changed_meanwhile_stays(box: Sandbox, store: ps.Store) -> None:
    """With the pet in `seen`, lists are merged, and a field that both sides changed is
    a conflict.
    """
    box.put(msgspec.structs.replace(REX, name="Max", tags=(*REX.tags, ps.Tag(5, "new"))))
    plan = store.edit(7, name="Rexi", tags=["calm", "old"], seen=REX)
    (conflict,) = plan.conflicts
    assert [(c.column, c.base, c.sheet, c.store) for c in conflict.clashes] == [
        ("name", "Rex", "Rexi", "Max")
    ]
    assert "since it was read" in conflict.problem
    report = store.apply(plan, progress=False)
    assert [result.outcome for result in report.results] == ["applied", "conflict"]
    now = store.api.get_pet_by_id(7)
    assert now.name == "Max"
    assert {tag.name for tag in now.tags} == {"calm", "new", "old"}


def test_an_old_snapshot_does_no_harm(box: Sandbox, store: ps.Store) -> None:
    """With a given snapshot, the pet itself is read again, but not the whole store."""
    snapshot = store.snapshot()
    box.put(msgspec.structs.replace(REX, status="pending"))
    asked = box.requests["findPetsByStatus"]
    plan = store.edit(7, category="Cats", snapshot=snapshot)
    assert box.requests["findPetsByStatus"] == asked
    assert plan.changes[0].before == msgspec.structs.replace(REX, status="pending")
    assert applied(store, plan).category == ps.Category(2, "Cats")


def test_a_pet_that_no_query_lists_can_be_edited(tmp_path: Path) -> None:
    """A pet with a status that is not queried can be edited."""
    strange = msgspec.structs.replace(REX, status="on holiday")
    with (
        Sandbox(auth=False, profile="live", pets=[strange, MIA]) as box,
        ps.connect(box.url, profile="live", state=tmp_path, environ={}) as store,
    ):
        plan = store.edit(7, name="Rexi")
        assert [change.fields for change in plan.changes] == [("name",)]
        assert applied(store, plan) == msgspec.structs.replace(strange, name="Rexi")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"status": "avialable"}, "status: 'avialable'"),
        ({"name": ""}, "pet 7, name: A name cannot be emptied.*leave name out"),
        ({"name": " "}, "pet 7, name: A name cannot be emptied.*leave name out"),
        ({"tags": '"open'}, "tags"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(
    store: ps.Store, given: dict[str, Any], message: str
) -> None:
    """A value that would block a row of a sheet raises an error with a hint."""
    with pytest.raises(ps.errors.FindingsError, match=f"(?s){message}") as caught:
        store.edit(7, **given)
    assert caught.value.hint


@pytest.mark.parametrize(
    "given",
    [
        {"name": 5},
        {"category": 5},
        {"seen": MIA},
        {"seen": "Rex"},
        {"tags": [3]},
        {"tags": ps.Tag(8, "shy")},
        {"tags": {"id": 8, "name": "shy"}},
        {"tags": 5},
        {"photo_urls": float("nan")},
        {"photo_urls": Path("a.jpg")},
        {"photo_urls": b"a.jpg"},
    ],
)
def test_what_is_no_value_is_refused(store: ps.Store, given: dict[str, Any]) -> None:
    """Arguments of the wrong type, or another pet in `seen`, raise a typed error."""
    with pytest.raises((ps.errors.SettingsError, ps.errors.SheetError)):
        store.edit(7, **given)


def test_an_unknown_pet_is_not_found(store: ps.Store) -> None:
    """An edit of a missing pet raises NotFoundError."""
    with pytest.raises(ps.errors.NotFoundError):
        store.edit(99, name="Nobody")


def test_the_guard_judges_an_edit(store: ps.Store) -> None:
    """The guard applies to an edit: a sentinel is not changed."""
    plan = store.edit(7, name="Rexi", guard=ps.Guard(sentinels=(7,)))
    with pytest.raises(ps.errors.GuardError):
        store.apply(plan, progress=False)
    assert store.api.get_pet_by_id(7) == REX


def test_an_edit_says_nothing_of_sheets(store: ps.Store) -> None:
    """The plan of an edit names the edit as its source, and has no cells and no notes."""
    plan = store.edit(7, name="Rexi", seen=REX)
    assert plan.source == "edit of pet 7"
    assert set(plan.to_frame()["source"]) == {"edit"}
    assert plan.notes == ()


def test_an_edit_can_be_undone_and_made_elsewhere(store: ps.Store) -> None:
    """The asynchronous method makes the same plan, and an applied edit can be undone."""

    async def elsewhere() -> ps.types.Plan:
        async with ps.connect(store.url, environ={}).aio as aio:
            return await aio.edit(7, name="Rexi")

    one, other = store.edit(7, name="Rexi"), asyncio.run(elsewhere())
    assert one.changes == other.changes
    applied(store, one)
    assert applied(store, store.undo()) == REX


RULES = """
rules = [
  { name = "price", columns = ["Price EUR"], required = true },
  { name = "filled", columns = ["category", "tags"], required = true },
  { name = "sold", expression = "status != 'sold' or not is_blank(category)" },
  { name = "short", columns = ["name"], max_length = 3, severity = "warning" },
  { name = "drift", columns = ["category"], values = ["Birds"], applies_to = "store" },
]
"""


def test_an_edit_keeps_the_rules_about_its_fields(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules of petsync.toml look at the pet as the edit would leave it, and only at the fields that
    it changes: an error is refused, and a warning is a note.
    """
    (tmp_path / "petsync.toml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    box.put(ps.Pet(id=9, name="Tweety", status="available", tags=(ps.Tag(1, "calm"),)))
    with ps.connect(box.url, state=tmp_path / "state", environ={}) as store:
        plan = store.edit(7, status="sold")
        assert [(change.fields, plan.notes) for change in plan.changes] == [(("status",), ())]
        assert store.edit(9, photo_urls=["https://shop.example/b.jpg"]).changes
        with pytest.raises(ps.errors.FindingsError, match="pet 7, category: The cell is blank"):
            store.edit(7, category="")
        with pytest.raises(ps.errors.FindingsError, match="pet 9, status: The row breaks"):
            store.edit(9, status="sold")
        assert store.edit(9, status="sold", category="Dogs").changes
        (note,) = store.edit(7, name="Long").notes
        assert note == (
            "pet 7, name: It must have at most 3 characters. "
            "The rule short in petsync.toml says so."
        )
