"""The comparison of snapshot and sheet, and its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import NO_LIMITS, base_of, error_at, plan_of, sheet_of, sheet_saying
from strategies import ids, pets, texts

from petsync.errors import GuardError, PlanError
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Add, Delete, Update
from petsync.plan.fields import normalize
from petsync.plan.guard import Guard
from petsync.plan.match import folded_among, folded_forms, names_among
from petsync.plan.plan import Plan
from petsync.profile import LIVE, STANDARD, ServiceProfile
from petsync.table import lists
from petsync.table.columns import CLEARED
from petsync.table.dtypes import TEXT
from petsync.table.frame import FEW
from petsync.table.sheet import Sheet

pytestmark = pytest.mark.slow

DOGS, CATS = Category(1, "Dogs"), Category(2, "Cats")
SHY, OLD = Tag(1, "shy"), Tag(2, "old")
REX = Pet(id=1, name="Rex", status="available", category=DOGS, tags=(SHY,), photo_urls=("u",))
TOM = Pet(id=2, name="Tom", status="sold", category=CATS, tags=(OLD, SHY))
PETS = [REX, TOM]


def as_in_a_shop(pet: Pet) -> Pet:
    """Return the pet with a name and a status, and with each id used by at most one tag."""
    tags = {tag.id if tag.id is not None else normalize(tag.name): tag for tag in pet.tags}
    return msgspec.structs.replace(
        pet,
        status=pet.status or "available",
        name=pet.name or "nameless",
        tags=tuple(tags.values()),
    )


shop_pets = st.lists(
    pets(extra=st.none(), pet_ids=ids).map(as_in_a_shop),
    max_size=5,
    unique_by=lambda pet: pet.id,
)


def applied(plan: Plan, store: Sequence[Pet]) -> list[Pet]:
    """Return the store's pets after a complete run of the plan."""
    left = {pet.id: pet for pet in store}
    for change in plan.changes:
        if isinstance(change, Delete):
            del left[change.before.id]
        else:
            left[change.after.id] = change.after
    return sorted(left.values(), key=lambda pet: pet.id or 0)


@given(shop_pets)
def test_a_store_is_in_sync_with_its_own_table(store: list[Pet]) -> None:
    """diff(a, a) is empty for any pets."""
    plan = plan_of(store, sheet_of(store), delete_missing=True)
    assert plan.in_sync
    assert plan.unchanged == len(store)


@pytest.mark.parametrize("is_based", [False, True])
def test_an_empty_name_and_a_cleared_cell_are_two_things(is_based: bool) -> None:
    """A category with an id and an empty name is in sync with its own table, and a cleared cell
    removes it once.
    """
    pet = msgspec.structs.replace(REX, category=Category(7, ""))
    base = base_of([pet]) if is_based else None
    own = sheet_of([pet], base=base)
    assert plan_of([pet], own).in_sync
    for cells in ({"category": CLEARED}, {"category": CLEARED, "category_id": 7}):
        sheet = sheet_saying({"id": 1, **cells}, base=base)
        plan = plan_of([pet], sheet)
        (change,) = plan.changes
        assert change.after == msgspec.structs.replace(pet, category=None)
        assert change.fields == ("category_id",)
        assert plan_of(applied(plan, [pet]), sheet).in_sync
    assert plan_of([REX], sheet_of([pet])).updates[0].after.category is None


@pytest.mark.parametrize(
    ("profile", "now", "is_held"),
    [
        (LIVE, {}, True),
        (LIVE, {"name": "Quinn"}, False),
        (LIVE, {"tags": (Tag(None, "young"), Tag(None, "shy"))}, False),
        (LIVE, {"category": DOGS}, False),
        (LIVE, {"tags": (), "category": None}, False),
        (LIVE, {"tags": ()}, True),
        (LIVE, {"category": None}, True),
        (LIVE, {"tags": (), "category": DOGS}, False),
        (STANDARD, {}, False),
    ],
)
def test_an_edit_of_an_exported_pet_is_not_sent_to_one_that_got_its_id(
    profile: ServiceProfile, now: dict[str, Any], is_held: bool
) -> None:
    """If a service reuses the ids of deleted pets, an edit is held when no field of the pet is as
    exported.
    """
    old = Pet(id=1, name="Quinn", category=DOGS, tags=(Tag(None, "young"),), status="sold")
    birds, shy = Category(3, "Birds"), (Tag(None, "shy"),)
    stranger = Pet(id=1, name="Coco", category=birds, tags=shy, status="sold")
    store = [msgspec.structs.replace(stranger, **now)]
    sheet = sheet_saying({"id": 1, "name": "Quinn", "photo_urls": ["a"]}, base=base_of([old]))
    plan = plan_of(store, sheet, profile=profile)
    assert [each.rule for each in plan.conflicts] == ["id-reused"] * is_held
    assert bool(plan.changes) is not is_held
    # A row without an edit accepts the new pet.
    row = {"id": 1, "name": "Quinn"}
    assert not plan_of(store, sheet_saying(row, base=base_of([old])), profile=profile).conflicts


@pytest.mark.parametrize(("status", "is_held"), [("sold", False), ("Sold", False), ("lost", True)])
def test_a_status_in_other_case_does_not_show_another_pet(status: str, is_held: bool) -> None:
    """An edit is held if the pet of the id has another name, category and status; a status in other
    case is the same.
    """
    old = Pet(id=1, name="Quinn", category=DOGS, status="sold")
    pet = Pet(id=1, name="Coco", category=Category(3, "Birds"), status=status)
    sheet = sheet_saying({"id": 1, "photo_urls": ["a"]}, base=base_of([old]))
    plan = plan_of([pet], sheet, profile=LIVE)
    assert [each.rule for each in plan.conflicts] == ["id-reused"] * is_held


def test_an_empty_name_beside_another_id_is_no_name() -> None:
    """An empty category name with another category's id removes the category, once."""
    pet = msgspec.structs.replace(REX, category=Category(7, ""))
    sheet = sheet_saying({"id": 1, "category": "", "category_id": 2})
    plan = plan_of([pet, TOM], sheet)
    (change,) = plan.changes
    assert change.after is not None
    assert change.after.category is None
    assert plan_of(applied(plan, [pet, TOM]), sheet).in_sync


@given(shop_pets, shop_pets)
def test_applying_the_difference_makes_the_store_say_what_the_sheet_says(
    store: list[Pet], wanted: list[Pet]
) -> None:
    """apply(diff(a, b), a) == b if missing pets are deleted, and a second plan has no changes."""
    plan = plan_of(store, sheet_of(wanted), delete_missing=True)
    after = applied(plan, store)
    again = plan_of(after, sheet_of(wanted), delete_missing=True)
    if not plan.conflicts:
        assert again.changes == ()
        assert {pet.id for pet in after} == {pet.id for pet in wanted}


@given(shop_pets, shop_pets)
def test_without_delete_missing_nothing_is_ever_deleted(
    store: list[Pet], wanted: list[Pet]
) -> None:
    """Without `delete_missing`, a pet that the sheet does not name stays."""
    assert plan_of(store, sheet_of(wanted)).deletes == ()


@given(shop_pets, shop_pets)
def test_a_plan_survives_its_file(store: list[Pet], wanted: list[Pet]) -> None:
    """A plan's JSON round-trip is exact, and its fingerprint is the same."""
    plan = plan_of(store, sheet_of(wanted), delete_missing=True)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.fingerprint == plan.fingerprint


@given(shop_pets, shop_pets)
def test_the_same_input_gives_the_same_plan(store: list[Pet], wanted: list[Pet]) -> None:
    """The same input gives a plan with the same order and fingerprint."""
    one, other = (plan_of(store, sheet_of(wanted)) for _ in range(2))
    assert one.fingerprint == other.fingerprint


STARTS = st.sampled_from(["", "the long name ", "the longer name of a pet "])
_BLOCKS = (1, 3, lists._BLOCK)


@contextmanager
def in_blocks_of(size: int) -> Iterator[None]:
    """Compare columns of this many rows in the way of large columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "_BLOCK", size)
        yield


@given(
    st.lists(st.none() | st.text("aeé\u0301\u0308\u212b \t\x85\xa0\u2003\x1c가각", max_size=4)),
    st.sets(
        st.text("aeé\u0301\u0308\u212b가각", min_size=1, max_size=3).map(normalize), min_size=1
    ),
    STARTS,
    st.lists(st.integers(0, 5)),
)
def test_names_are_found_in_their_normal_form(
    names: Sequence[str | None], wanted: frozenset[str], start: str, places: Sequence[int]
) -> None:
    """The quick search by name finds the same names as a comparison one by one."""
    names = [None if name is None else start + name for name in names]
    wanted = frozenset(normalize(start + name) for name in wanted)
    column, at = pd.Series(names, dtype=TEXT), [n for n in places if n < len(names)]
    expected = [normalize(name) in wanted for name in names]
    for size in _BLOCKS:
        with in_blocks_of(size):
            assert names_among(column, wanted).tolist() == expected
            found = names_among(column, wanted, np.array(at, dtype=np.intp))
            assert found.tolist() == [expected[n] for n in at]


@given(
    st.lists(st.none() | st.text("aAéÉ\u0301ßẞſKİıµΜŉǰ \xa0\u2003\x1c", max_size=4)),
    st.sets(st.text("aAéÉ\u0301ßſKİıµμŉǰ \xa0", max_size=3).map(str.casefold), min_size=1),
    STARTS,
)
def test_texts_are_found_in_their_folded_forms(
    texts: Sequence[str | None], wanted: frozenset[str], start: str
) -> None:
    """The quick search without regard to case finds the same texts as a comparison one by one."""
    texts = [None if text is None else start + text for text in texts]
    wanted = frozenset(start + text for text in wanted)
    column = pd.Series(texts, dtype=TEXT)
    expected = [text is not None and not wanted.isdisjoint(folded_forms(text)) for text in texts]
    for size in _BLOCKS:
        with in_blocks_of(size):
            assert folded_among(column, wanted).tolist() == expected


@pytest.mark.parametrize("end", ["", "S", "Sir", "the 1st Sir", "Sir Rex, the 1st of all"])
def test_texts_are_found_whatever_is_before_their_last_letters(end: str) -> None:
    """A large column is searched by the last letters. The letter before these may have another
    number of bytes in the other form, or be composed.
    """
    letters = ["", "x", *"éßſKİıµŉǰ가ⱥȺ", "e\u0301", "\u1112\u1161"]
    texts = [f"{start}{letter}{end}" for start in ("of 16 bytes more ", "") for letter in letters]
    column = pd.Series(["of 16 bytes more ", *texts], dtype=TEXT)
    with in_blocks_of(1):
        for place, text in enumerate(texts, start=1):
            found = [names_among(column, {normalize(text)})]
            found += [folded_among(column, {form}) for form in folded_forms(text)]
            assert all(mask[place] for mask in found), ascii(text)


def test_lower_case_is_the_folded_form_of_usual_letters() -> None:
    """Each character below U+0300 is found by its folded form, and by no other one."""
    letters = [chr(code) for code in range(0x300) if not chr(code).isspace()]
    column = pd.Series(letters, dtype=TEXT)
    for letter in letters:
        wanted = {letter.casefold()}
        expected = [other.casefold() in wanted for other in letters]
        assert folded_among(column, wanted).tolist() == expected, ascii(letter)


@given(texts)
def test_a_changed_name_is_one_field(name: str) -> None:
    """A change has only the differing fields, and the rest of the pet is unchanged."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "name": name + "!"}))
    (change,) = plan.changes
    assert isinstance(change, Update)
    assert change.fields == ("name",)
    assert change.after == msgspec.structs.replace(REX, name=name + "!")
    assert (change.row, change.source) == (2, "Pets!B2")


def test_rows_in_are_all_accounted_for() -> None:
    """Every row is a change, a conflict, blocked, ignored or unchanged."""
    sheet = sheet_saying(
        {"id": 1, "status": "sold"},
        {"id": 2, "status": "sold"},
        {"id": 3, "action": "update", "status": "sold"},
        {"name": "New", "status": "sold"},
        {"id": 9, "action": "ignore"},
        blocked=(7,),
        problems=(error_at(7),),
    )
    plan = plan_of(PETS, sheet)
    listed = len(plan.changes) + len(plan.conflicts) + len(plan.blocked)
    assert plan.rows == 6 == listed + plan.unchanged + plan.ignored
    assert (plan.blocked[0].source, plan.blocked[0].problem) == ("Pets!C7", "'?': it is wrong")


def test_a_blank_cell_says_nothing_and_an_empty_value_clears() -> None:
    """A blank cell leaves its field unchanged; an empty text or list clears the field."""
    silent = {"id": 1, "name": None, "status": None, "category": None, "tags": None}
    assert plan_of(PETS, sheet_saying(silent)).in_sync
    clearing = {"id": 1, "category": "", "tags": [], "photo_urls": []}
    (change,) = plan_of(PETS, sheet_saying(clearing)).changes
    assert change.fields == ("category", "category_id", "tags", "photo_urls")
    assert change.after == Pet(id=1, name="Rex", status="available")


def test_names_are_compared_trimmed_and_in_nfc_and_statuses_without_case() -> None:
    """A different spelling of the same name or status is not a change and is not sent."""
    zoe = Pet(id=5, name="Zoë ", status="SOLD")
    rows = sheet_saying({"id": 5, "name": "Zoe\u0308", "status": "sold"})
    assert plan_of([zoe], rows).in_sync


def test_a_tag_without_id_is_the_tag_of_that_name() -> None:
    """A tag without an id gets the pet's id for that name, else the store's, else none; tags are a
    set.
    """
    rows = {"id": 1, "tags": [Tag(None, "old"), Tag(None, "shy"), Tag(None, "new")]}
    (change,) = plan_of(PETS, sheet_saying(rows)).changes
    assert change.after.tags == (SHY, OLD, Tag(None, "new"))
    reordered = sheet_saying({"id": 2, "tags": [Tag(None, "shy"), Tag(2)]})
    assert plan_of(PETS, reordered).in_sync


def test_photo_urls_are_compared_trimmed_and_composed() -> None:
    """White space and Unicode composition make no change to a photo address, and the store's
    spelling stays when another address is edited.
    """
    pet = Pet(id=1, name="Rex", status="sold", photo_urls=("http://s/e\u0301.png ", "b"))
    same = sheet_saying({"id": 1, "photo_urls": ["http://s/\u00e9.png", " b"]})
    assert plan_of([pet], same).changes == ()
    more = sheet_saying({"id": 1, "photo_urls": ["http://s/\u00e9.png", "b", "c"]})
    (change,) = plan_of([pet], more).changes
    assert change.after is not None
    assert change.after.photo_urls == ("http://s/e\u0301.png ", "b", "c")


def test_merged_photos_keep_their_order_whatever_their_spelling() -> None:
    """A merge keeps the place of a new photo, even if the store spells the photo before it
    differently.
    """
    old = Pet(id=1, name="Rex", status="sold", photo_urls=("\u00e9", "b"))
    now = msgspec.structs.replace(old, photo_urls=("b", "e\u0301"))
    sheet = sheet_saying({"id": 1, "photo_urls": ["\u00e9", "new", "b"]}, base=base_of([old]))
    (change,) = plan_of([now], sheet).changes
    assert change.after is not None
    assert change.after.photo_urls == ("b", "e\u0301", "new")


@pytest.mark.parametrize("number", [None, 0, 3])
def test_a_tag_that_lost_its_id_in_the_store_can_be_taken_out(number: int | None) -> None:
    """A tag without an id, or with id 0, in the store can still be removed; the store's
    new tag stays.
    """
    old = Pet(id=1, name="Rex", status="sold", tags=(Tag(3, "shy"), Tag(4, "calm")))
    now = msgspec.structs.replace(old, tags=(Tag(number, "shy"), Tag(0, "calm"), Tag(0, "old")))
    sheet = sheet_saying(
        {"id": 1, "tags": [Tag(None, "calm"), Tag(None, "new")]}, base=base_of([old])
    )
    (change,) = plan_of([now], sheet).changes
    assert change.after is not None
    assert [tag.name for tag in change.after.tags] == ["calm", "old", "new"]


@pytest.mark.parametrize("is_based", [False, True])
def test_a_category_without_a_name_can_be_cleared(is_based: bool) -> None:
    """[clear] removes a category that has only an id, and the change names that cell, with and
    without an export.
    """
    pet = Pet(id=1, name="Rex", status="sold", category=Category(5, None))
    base = base_of([pet]) if is_based else None
    plan = plan_of([pet], sheet_saying({"id": 1, "name": "Rex", "category": ""}, base=base))
    (change,) = plan.changes
    assert change.after is not None
    assert (change.after.category, change.fields) == (None, ("category_id",))
    assert change.source == "Pets!C2"
    assert Plan.from_json(plan.to_json()) == plan


def test_a_clash_of_a_category_without_a_name_can_be_won_by_clearing_it() -> None:
    """If both sides changed a category, a choice of the sheet's side clears it and
    names the cell.
    """
    old = Pet(id=1, name="Rex", status="sold", category=DOGS)
    now = msgspec.structs.replace(old, category=Category(5, None))
    sheet = sheet_saying({"id": 1, "name": "Rex", "category": ""}, base=base_of([old]))
    chosen = plan_of([now], sheet).resolve({(1, "category"): "sheet"})
    forced = plan_of([now], sheet, on_conflict="sheet")
    assert chosen.changes == forced.changes
    assert forced.changes[0].source == "Pets!C2"


def test_photo_urls_are_an_ordered_list() -> None:
    """Another order of the photos is a change."""
    pet = Pet(id=1, name="Rex", status="sold", photo_urls=("a", "b"))
    (change,) = plan_of([pet], sheet_saying({"id": 1, "photo_urls": ["b", "a"]})).changes
    assert change.fields == ("photo_urls",)


@pytest.mark.parametrize(
    ("cells", "category"),
    [
        ({"category": "Cats"}, CATS),
        ({"category": "Birds"}, Category(None, "Birds")),
        ({"category": "Birds", "category_id": 7}, Category(7, "Birds")),
        ({"category_id": 2}, CATS),
        ({"category": "Cats", "category_id": 1}, CATS),
        ({"category": "Hounds", "category_id": 1}, Category(None, "Hounds")),
        ({"category": "", "category_id": 1}, None),
    ],
)
def test_a_category_is_completed_from_the_store(
    cells: dict[str, object], category: Category | None
) -> None:
    """A category's name or id alone is completed; if both contradict the store, the name counts."""
    (change,) = plan_of(PETS, sheet_saying({"id": 1, **cells})).changes
    assert change.after == msgspec.structs.replace(REX, category=category)
    after = [change.after, TOM]
    assert plan_of(after, sheet_saying({"id": 1, **cells})).in_sync


@pytest.mark.parametrize("name", ["Cats", "Hounds", "Dogs"])
def test_a_category_that_contradicts_its_id_is_pointed_out(name: str) -> None:
    """A category name that contradicts its id gets a note, even if nothing is sent."""
    number = 2 if name == "Dogs" else 1
    plan = plan_of(PETS, sheet_saying({"id": 1, "category": name, "category_id": number}))
    assert any("Pets!C2" in note and "category_id" in note for note in plan.notes)
    assert plan.changes if name != "Dogs" else not plan.changes


def test_a_category_of_which_only_an_unknown_id_is_given_is_a_conflict() -> None:
    """An unknown category id without a name is a conflict, because it would remove the category's
    name.
    """
    rows = sheet_saying(
        {"id": 1, "category_id": 999}, {"name": "N", "status": "sold", "category_id": 999}
    )
    plan = plan_of(PETS, rows)
    assert plan.changes == ()
    assert [conflict.row for conflict in plan.conflicts] == [2, 3]
    assert "999" in plan.conflicts[0].problem


def test_an_id_outside_the_snapshot_is_looked_up_before_it_is_an_add() -> None:
    """A row of a pet whose status was not queried is an update, not a second pet."""
    hidden = Pet(id=77, name="Ghost", status="lost")
    row = sheet_saying({"id": 77, "name": "Casper", "status": "sold"})
    (update,) = plan_of(PETS, row, elsewhere={77: hidden}).changes
    assert isinstance(update, Update)
    (add,) = plan_of(PETS, row).changes
    assert isinstance(add, Add)
    assert add.after.id == 77


def test_actions_are_held_to_what_they_say() -> None:
    """`add` needs a new pet, `update` needs an existing one, and `delete` of a missing pet is
    unchanged.
    """
    plan = plan_of(
        PETS,
        sheet_saying(
            {"id": 1, "action": "add", "name": "Max"},
            {"id": 5, "action": "update", "name": "Max"},
            {"action": "delete", "name": "Max"},
            {"id": 6, "action": "delete"},
            {"id": 2, "action": "delete", "name": "other"},
        ),
    )
    assert [conflict.row for conflict in plan.conflicts] == [2, 3, 4]
    assert plan.changes == (Delete(row=6, source="Pets!A6", before=TOM),)
    assert plan.unchanged == 1


def test_an_add_of_an_existing_pet_is_done_already() -> None:
    """An `add` whose pet exists with the same values is not a conflict."""
    assert plan_of(PETS, sheet_of([REX], action="add")).in_sync


def test_a_new_pet_needs_a_name_and_a_status() -> None:
    """A new pet needs a status, or no query would find it, and a name except under `live`."""
    rows = sheet_saying({"status": "sold"}, {"name": "Max"})
    plan = plan_of(PETS, rows)
    assert [conflict.row for conflict in plan.conflicts] == [2, 3]
    assert "available, pending, sold" in plan.conflicts[1].suggestion
    assert len(plan_of(PETS, rows, profile=LIVE).adds) == 1


def test_a_pet_never_loses_its_status() -> None:
    """A row that clears a pet's status is a conflict, because no query would find the pet."""
    plan = plan_of(PETS, sheet_saying({"id": 1, "status": ""}))
    assert plan.changes == ()
    assert "no status" in plan.conflicts[0].problem


def test_a_sheet_without_ids_adds_its_pets_once() -> None:
    """A row with the same values as an unclaimed pet is that pet; each pet counts once."""
    new = {"name": "Goldie", "status": "available", "tags": [Tag(None, "shy")]}
    plan = plan_of(PETS, sheet_saying(new, {**new, "action": "add-another"}))
    assert len(plan.adds) == 2
    sheet = sheet_saying(new, new)
    goldies = [msgspec.structs.replace(add.after, id=n) for n, add in enumerate(plan.adds, 50)]
    again = plan_of([*PETS, *goldies], sheet)
    assert again.in_sync
    assert "Pets!A2 = pet 50" in again.notes[0]
    (conflict,) = plan_of([*PETS, goldies[0]], sheet).conflicts
    assert (conflict.rule, conflict.row) == ("twin", 3)


def test_a_pet_that_another_row_claims_is_not_taken() -> None:
    """If another row has Rex's id, a second Rex without an id is a second pet."""
    rex = {"name": "Rex", "status": "available"}
    assert len(plan_of(PETS, sheet_saying({"id": 1}, rex)).adds) == 1
    assert len(plan_of(PETS, sheet_saying(rex)).adds) == 0
    assert len(plan_of(PETS, sheet_saying({**rex, "action": "add"})).adds) == 1


def test_rows_are_matched_on_the_columns_that_are_asked_for() -> None:
    """With `match_on`, one match is an update and none is an add; several matches, or two rows for
    one pet, are a conflict.
    """
    twins = [*PETS, Pet(id=3, name="Tom", status="sold")]
    sheet = sheet_saying(
        {"name": " rex".title(), "status": "sold"},
        {"name": "Rex", "status": "pending"},
        {"name": "Tom", "status": "pending"},
        {"name": "Max", "status": "pending"},
    )
    plan = plan_of(twins, sheet, match_on=("name",))
    assert [(type(c), c.row) for c in plan.changes] == [(Add, 5), (Update, 2)]
    assert [conflict.row for conflict in plan.conflicts] == [3, 4]
    assert "2, 3" in plan.conflicts[1].problem


def test_blocked_and_ignored_rows_protect_their_pets() -> None:
    """A blocked or ignored row never makes its pet look missing."""
    sheet = sheet_saying({"id": 1, "action": "ignore"}, blocked=(3,), blocked_ids=frozenset({2}))
    assert plan_of(PETS, sheet, delete_missing=True).changes == ()


def test_an_id_that_cannot_be_read_holds_back_the_deletes_of_missing_pets() -> None:
    """An unreadable id holds the deletes of missing pets, because its row may mean any of them."""
    sheet = sheet_saying({"id": 1}, blocked=(3,), problems=(error_at(3, "id", "id-damaged"),))
    plan = plan_of(PETS, sheet, delete_missing=True)
    assert plan.deletes == ()
    assert "Pets!C3" in plan.notes[0]


@pytest.mark.parametrize(
    "rows",
    [
        sheet_saying({"id": 2}, blocked=(3,), unidentified=(3,)),
        sheet_saying({"id": 2}, {"name": "Rex", "action": "ignore"}),
        sheet_saying({"id": 2}, {"name": "Rex", "action": "update"}),
        sheet_saying({"id": 2}, {"name": "Rex"}),
    ],
    ids=["blocked", "ignored", "in conflict", "without a status"],
)
@pytest.mark.parametrize("match_on", [(), ("name",)])
def test_a_row_without_an_id_that_is_not_carried_out_may_mean_any_pet(
    rows: Sheet, match_on: tuple[str, ...]
) -> None:
    """If a row without an id is not carried out, no missing pet that it may mean is deleted, and a
    note gives the reason.
    """
    plan = plan_of(PETS, rows, delete_missing=True, match_on=match_on)
    gone = {change.before.id for change in plan.deletes}
    held = any("No missing pet is deleted" in note for note in plan.notes)
    assert (held and not gone) or 1 not in gone


def test_a_name_that_several_pets_share_deletes_none_of_them() -> None:
    """A row that matches several pets protects each of them from deletion."""
    twins = [*PETS, Pet(id=3, name="Rex", status="sold")]
    sheet = sheet_saying({"name": "Rex", "status": "sold"}, {"name": "Tom"})
    plan = plan_of(twins, sheet, delete_missing=True, match_on=("name",))
    assert plan.deletes == ()


def test_adds_with_an_id_come_before_those_without() -> None:
    """Adds with an id come first, because the service could assign their ids to other pets."""
    rows = sheet_saying({"name": "A", "status": "sold"}, {"id": 3, "name": "B", "status": "sold"})
    assert [add.pet_id for add in plan_of(PETS, rows).adds] == [3, None]


def test_a_plan_says_which_pets_are_in_no_row_and_what_was_read_with_a_warning() -> None:
    """A plan has notes for pets in no row, for cells with a warning, and for a header similar to a
    known one.
    """
    near = replace(error_at(1, "Staus", "header-near-miss"), severity="warning")
    soft = replace(error_at(2), severity="warning")
    plan = plan_of(PETS, sheet_saying({"id": 1}, problems=(near, soft)))
    assert plan.in_sync
    first, cells, missing = plan.notes
    assert first.startswith("Pets!C1:")
    assert cells.startswith("1 cell was read with a warning: Pets!C2.")
    assert missing.startswith("1 pet of the store is in no row")


def test_a_plan_names_the_few_exported_pets_whose_rows_were_removed() -> None:
    """The note on pets in no row names them if they were exported and are at most five."""
    pets = [Pet(id=n, name=f"Pet {n}", status="sold") for n in range(1, 12)]
    for removed in (1, 6):
        rows = sheet_saying(*({"id": n} for n in range(1, 12 - removed)), base=base_of(pets))
        (note,) = [each for each in plan_of(pets, rows).notes if "in no row" in each]
        assert ("is in no row, pet 11 (Pet 11): nothing" in note) is (removed == 1)
        assert ("6 pets of the store are in no row: nothing" in note) is (removed == 6)


def test_rows_with_one_id_have_their_own_names() -> None:
    """A blocked row has the name of its pet; if several rows have the id, the name in the row."""
    for rule, name in (("status-unknown", "Rex"), ("duplicate-id", "Copy")):
        names = {"blocked_pets": {2: 1}, "blocked_names": {2: "Copy"}}
        sheet = sheet_saying(problems=(error_at(2, "id", rule),), blocked=(2,), **names)
        (blocked,) = plan_of([Pet(id=1, name="Rex", status="sold")], sheet).blocked
        assert blocked.name == name


def test_a_plan_says_how_to_write_the_lists_of_a_dataframe() -> None:
    """If cells have the text of a Python list, a note names the function that writes a sheet."""
    for number, expected in ((0, False), (2, True)):
        problems = [error_at(n, "tags", "list-text") for n in range(1, 1 + number)]
        plan = plan_of(PETS, sheet_saying(*({"id": n} for n in (1, 2)), problems=(*problems,)))
        assert any("ps.write_sheet(frame, FILE)" in note for note in plan.notes) is expected


@pytest.mark.parametrize("cells", [{"name": "Rexy", "photo_urls": ["u"]}, {"name": "Rex"}])
def test_a_pet_that_may_have_lost_its_id_is_held(cells: dict[str, object]) -> None:
    """A missing pet and a similar new row are both held until a person decides; other pets are
    deleted.
    """
    new = {"status": "sold", **cells}
    rows = ({"id": 2}, {"name": "Other", "status": "sold"})
    store = [*PETS, Pet(id=9, name="Ninth", status="sold")]
    plan = plan_of(store, sheet_saying(*rows, new), delete_missing=True)
    assert [(each.row, each.pet_id, each.rule) for each in plan.conflicts] == [
        (4, 1, "lost-id"),
        (None, 1, "lost-id"),
    ]
    assert "add-another" in plan.conflicts[0].suggestion
    assert [(c.kind, c.pet_id) for c in plan.changes] == [("add", None), ("delete", 9)]

    given = plan_of(store, sheet_saying(*rows, {"id": 1, **new}), delete_missing=True)
    assert [(c.kind, c.pet_id) for c in given.changes if c.pet_id == 1] == [("update", 1)]
    another = sheet_saying(*rows, {**new, "action": "add-another"})
    kinds = [c.kind for c in plan_of(store, another, delete_missing=True).changes]
    assert kinds == ["add", "add", "delete", "delete"]
    both = plan_of(store, sheet_saying(*rows, new, {"id": 1, "action": "delete"}))
    assert [(c.kind, c.pet_id) for c in both.deletes] == [("delete", 1)]
    assert both.conflicts == ()


def test_the_guard_judges_every_kind_and_never_lets_everything_go() -> None:
    """By default, the guard limits deletes to 10 % and updates to 30 %, and never lets every pet be
    deleted.
    """
    store = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 101)]
    eleven = sheet_of(store[11:])
    with pytest.raises(GuardError, match="11 deletes are more than max_delete 10 %"):
        plan_of(store, eleven, delete_missing=True, guard=Guard()).require_ok()
    assert plan_of(store, sheet_of(store[10:]), delete_missing=True, guard=Guard()).verdict.ok
    renamed = [msgspec.structs.replace(pet, name="x") for pet in store[:31]]
    (refusal,) = plan_of(store, sheet_of(renamed), guard=Guard()).verdict.refusals
    assert "31 updates" in refusal.problem
    assert not plan_of(store, sheet_of([]), guard=Guard()).verdict.ok
    everything = plan_of(
        store, sheet_of(store, action="delete"), guard=Guard(max_delete=NO_LIMITS.max_delete)
    )
    assert "every one of the 100 pets" in str(everything.verdict.refusals[0])


@pytest.mark.parametrize("column", ["name", "status", "category", "action"])
@pytest.mark.parametrize("size", [3, FEW + 3])
def test_texts_count_the_same_in_a_column_of_objects(column: str, size: int) -> None:
    """A row is decided the same if its texts are in a column of objects, as pandas 2 makes it."""
    pets = [Pet(id=n, name=f"Pet {n}", status="sold", category=DOGS) for n in range(1, size)]
    rows = [
        {"id": 1, "action": "delete"},
        {"id": 2, "name": "Rex", "status": "pending", "category": ""},
        *({"id": pet.id, "name": pet.name, "category": "Cats"} for pet in pets[2:]),
        {"id": size, "name": "Max", "status": "sold", "action": "add"},
    ]
    sheet = sheet_saying(*rows)
    frame = sheet.content.rows
    objects = frame.assign(**{column: pd.Series([*frame[column]], frame.index, dtype=object)})
    plan = plan_of(pets, sheet.with_rows(objects), guard=NO_LIMITS)
    assert plan.changes == plan_of(pets, sheet, guard=NO_LIMITS).changes
    assert [each.kind for each in plan.changes[-2:]] == ["update", "delete"]


def test_a_plan_that_was_changed_by_hand_is_refused() -> None:
    """A plan file that was edited by hand is refused by its fingerprint."""
    body = plan_of(PETS, sheet_saying({"id": 1, "name": "Max"})).to_json()
    with pytest.raises(PlanError, match="changed after it was made"):
        Plan.from_json(body.replace(b"Max", b"Moo"))
    with pytest.raises(PlanError, match=r"x\.json is not a plan"):
        Plan.from_json(b"{}", "x.json")


def test_the_frame_of_a_plan_has_a_row_for_each_changed_field() -> None:
    """`to_frame` has a row for each changed field, with before and after as cell texts."""
    plan = plan_of(
        PETS, sheet_saying({"id": 1, "name": "Max", "tags": []}, {"id": 2, "action": "delete"})
    )
    frame = plan.to_frame()
    assert frame["column"].tolist() == ["name", "tags", ""]
    assert frame["before"].tolist() == ["Rex", "1:shy", ""]
    assert frame["kind"].tolist() == ["update", "update", "delete"]
    assert frame.dtypes.to_dict() == dict.fromkeys(frame, TEXT) | {"id": "Int64"}


def test_the_frame_of_a_plan_has_what_is_held_back() -> None:
    """With `with_held`, `to_frame` also has each field in conflict and each row that is held back,
    with its outcome and what to do; the rows of the changes stay the same.
    """
    rows = [{"id": 1, "name": "Max"}, {"id": 99, "name": "Gone"}, {"id": 2, "status": "pending"}]
    sheet = sheet_saying(*rows, base=base_of(PETS))
    plan = plan_of([msgspec.structs.replace(REX, name="New"), TOM], sheet)
    frame = plan.to_frame(with_held=True)
    assert frame["outcome"].tolist() == ["planned", "conflict", "conflict"]
    changes = frame[frame["outcome"] == "planned"].drop(columns=["outcome", "message"])
    pd.testing.assert_frame_equal(changes, plan.to_frame())
    clash = frame[(frame["column"] == "name") & (frame["outcome"] == "conflict")].iloc[0]
    assert (clash["id"], clash["before"], clash["after"]) == (1, "New", "Max")
    assert frame["id"].dtype == "Int64"
    assert frame["message"].str.len().gt(0).sum() == 2
    broken = plan_of(PETS, sheet_saying({"id": 1}, blocked=(3,), problems=(error_at(3),)))
    assert broken.to_frame(with_held=True)["outcome"].tolist() == ["needs fixing"]


@pytest.mark.parametrize("number", [0, -1001])
@pytest.mark.parametrize("action", ["merge", "add", "add-another"])
def test_an_add_with_an_id_below_one_is_a_conflict(number: int, action: str) -> None:
    """An add with an id below 1 is a conflict: a service may assign another id, and each apply
    would add the pet again.
    """
    row = {"id": number, "name": "Zero", "status": "sold", "action": action}
    plan = plan_of(PETS, sheet_saying({"id": 1}, {"id": 2}, row))
    assert not plan.changes
    (conflict,) = plan.conflicts
    assert (conflict.row, conflict.pet_id, conflict.rule) == (4, number, "id-below-one")
    assert f"the id {number}" in conflict.problem
    assert "Leave the id blank if it is a new pet" in conflict.suggestion


@pytest.mark.parametrize("number", [0, -1001])
def test_a_pet_that_has_an_id_below_one_is_updated(number: int) -> None:
    """An existing pet with an id below 1 is updated, whether it is listed or found by getPetById
    alone.
    """
    pet, row = Pet(id=number, name="Zero", status="sold"), {"id": number, "name": "One"}
    for store, elsewhere in (([*PETS, pet], {}), (PETS, {number: pet})):
        plan = plan_of(store, sheet_saying({"id": 1}, {"id": 2}, row), elsewhere=elsewhere)
        assert not plan.conflicts
        assert [(each.kind, each.pet_id) for each in plan.changes] == [("update", number)]


@pytest.mark.parametrize(
    "cells", [{"name": "Other"}, {"name": "Rex"}, {"name": "Other", "status": ""}]
)
def test_a_row_with_an_id_below_one_may_be_about_any_pet(cells: dict[str, object]) -> None:
    """A row with an id below 1 may mean any pet, so no missing pet is deleted."""
    row = {"id": 0, "status": "sold", **cells}
    plan = plan_of(PETS, sheet_saying({"id": 2}, row), delete_missing=True)
    assert not plan.changes
    assert "No missing pet is deleted" in " ".join(plan.notes)
