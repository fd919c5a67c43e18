"""Changes from the store to the sheet: merged by the base, or led by the store."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from msgspec.structs import replace
from shop import base_of, decided_of, error_at, plan_of, sheet_of, sheet_saying, snapshot_of
from test_compare import CATS, DOGS, OLD, REX, SHY, TOM, shop_pets
from times import times

from petsync.errors import GuardError, PlanError
from petsync.models import Pet, Tag
from petsync.plan.change import Conflict
from petsync.plan.fields import differing_columns
from petsync.plan.guard import Guard, Limit
from petsync.plan.intake import build_inbound
from petsync.plan.options import MergeOptions
from petsync.plan.plan import Inbound
from petsync.table.sheet import Sheet

NEW = Pet(id=9, name="Neo", status="available", tags=(Tag(3, "shop"),))
FREE = Guard(max_delete=Limit(1.0), max_update=Limit(1.0), allow_empty=True)


def taken(
    sheet: Sheet,
    now: list[Pet],
    base: list[Pet] | None = None,
    lead: Any = "merge",
    **more: Any,
) -> Inbound:
    """Return the changes that the sheet takes from a store of these pets."""
    old = None if base is None else base_of(base)
    names = ("on_conflict", "delete_missing", "holds_deletes")
    chosen = {name: more.pop(name) for name in names if name in more}
    options = MergeOptions(**chosen)
    if lead == "merge":
        sheet = dataclasses.replace(sheet, base=old)
    if (decided := more.pop("decided", None)) is None:
        decided = decided_of(
            now,
            sheet,
            delete_missing=options.delete_missing and lead == "merge",
            on_conflict="sheet" if options.sheet_wins else "store",
            two_way=lead == "store" or old is None,
        )
    return build_inbound(
        sheet,
        snapshot_of(now),
        old,
        decided,
        lead=lead,
        created="2026-11-21",
        options=options,
        **{"guard": FREE, **more},
    )


def fields(one: Inbound) -> dict[int, tuple[str, ...]]:
    """Return the columns that each row takes."""
    return {edit.row: edit.fields for edit in one.edits}


SOLD = replace(REX, status="sold")
SAID: dict[str, Any] = {"id": 1, "name": "Rex", "status": "available"}


@pytest.mark.parametrize(
    ("row", "now", "becomes"),
    [
        (SAID, REX, ()),
        (SAID, SOLD, ("status",)),
        (SAID, replace(REX, name=" Rex "), ()),
        (SAID, replace(REX, name="Max", status="sold"), ("name", "status")),
        ({**SAID, "status": "pending"}, REX, ()),
        ({**SAID, "status": "pending"}, SOLD, ()),
        ({**SAID, "status": "sold"}, SOLD, ()),
        ({**SAID, "name": "Max"}, SOLD, ("status",)),
        ({**SAID, "tags": [SHY]}, replace(REX, tags=(SHY, OLD)), ("tags",)),
        ({**SAID, "tags": [Tag(None, "shy")]}, REX, ()),
        ({**SAID, "tags": [SHY]}, replace(REX, tags=()), ("tags",)),
        ({**SAID, "tags": [SHY, Tag(None, "new")]}, replace(REX, tags=(SHY, OLD)), ()),
        ({**SAID, "tags": [SHY, OLD]}, replace(REX, tags=(SHY, OLD, NEW.tags[0])), ("tags",)),
        ({**SAID, "photo_urls": ["u"]}, replace(REX, photo_urls=("u", "v")), ("photo_urls",)),
        ({**SAID, "category": "Dogs"}, replace(REX, category=CATS), ("category",)),
        (
            {**SAID, "category": "Dogs", "category_id": 1},
            replace(REX, category=CATS),
            ("category", "category_id"),
        ),
        ({**SAID, "category": "Birds"}, replace(REX, category=CATS), ()),
        ({**SAID, "action": "ignore"}, SOLD, ()),
        ({**SAID, "action": "delete"}, SOLD, ()),
        ({**SAID, "action": "add"}, SOLD, ()),
        ({**SAID, "action": "update"}, SOLD, ("status",)),
    ],
)
def test_a_row_takes_what_only_the_store_changed(
    row: dict[str, Any], now: Pet, becomes: tuple[str, ...]
) -> None:
    """A row takes each field that only the store changed; it keeps its own edits and conflicts."""
    one = taken(sheet_saying(row), [now], [REX])
    assert fields(one) == ({2: becomes} if becomes else {})
    assert not one.added
    assert not one.removed


@pytest.mark.parametrize(
    ("winner", "becomes"), [("ask", {}), ("store", {2: ("status",)}), ("sheet", {})]
)
def test_a_clash_goes_to_the_sheet_where_the_store_is_to_win(
    winner: Any, becomes: dict[int, tuple[str, ...]]
) -> None:
    """A clash changes the sheet only if the store wins; otherwise the row is unchanged."""
    sheet = sheet_saying({**SAID, "status": "pending"})
    one = taken(sheet, [SOLD], [REX], on_conflict=winner)
    assert fields(one) == becomes


@pytest.mark.parametrize(
    ("base", "now", "lead", "becomes"),
    [
        (replace(REX, tags=()), REX, "merge", {2: ("tags",)}),
        (REX, replace(REX, tags=(SHY, OLD)), "merge", {}),
        (REX, REX, "merge", {}),
        (None, REX, "merge", {}),
        (REX, REX, "store", {2: ("tags",)}),
        (None, REX, "store", {2: ("tags",)}),
        (None, replace(REX, tags=()), "store", {}),
    ],
)
def test_a_blank_cell_is_filled_where_it_was_all_that_there_was_to_say(
    base: Pet | None, now: Pet, lead: Any, becomes: dict[int, tuple[str, ...]]
) -> None:
    """In a merge, a blank cell is filled only if the pet had no value before; if the store leads,
    it is always filled.
    """
    tom = {"id": 2, "name": "Tom", "status": "sold", "tags": [OLD, SHY]}
    sheet = sheet_saying({**SAID, "tags": None}, tom)
    one = taken(sheet, [now, TOM], None if base is None else [base, TOM], lead)
    assert fields(one) == becomes
    assert all(edit.before["tags"] == "" for edit in one.edits)


def test_a_number_is_not_filled_beside_a_category_that_the_sheet_changed() -> None:
    """A category id is not filled in a row whose category the sheet changed."""
    now = replace(REX, category=DOGS)
    base = replace(REX, category=replace(DOGS, id=None))
    rows = [{**SAID, "category": name, "category_id": None} for name in ("Puppies", "Dogs")]
    assert fields(taken(sheet_saying(rows[0], numbered()), [now, TOM], [base, TOM])) == {}
    result = fields(taken(sheet_saying(rows[1], numbered()), [now, TOM], [base, TOM]))
    assert result == {2: ("category_id",)}


def numbered() -> dict[str, Any]:
    """Return a row with a category id, so that the sheet has the column."""
    return {"id": 2, "name": "Tom", "category": "Cats", "category_id": 2}


def test_the_store_leads_in_all_that_the_sheet_says() -> None:
    """If the store leads, it replaces every differing value, and the sheet's old values
    are listed.
    """
    sheet = sheet_saying({**SAID, "name": "Max", "tags": [OLD], "category": ""})
    one = taken(sheet, [REX], [replace(REX, name="Max")], "store")
    (edit,) = one.edits
    assert edit.fields == ("name", "category", "tags")
    assert edit.before == {"name": "Max", "category": "", "tags": "2:old"}
    (change,) = one.changes
    assert change.values["name"] == ("Max", "Rex")
    assert change.address == "Pets!B2"


def test_rows_in_conflict_and_blocked_rows_are_left_alone() -> None:
    """Rows in conflict and blocked rows take nothing."""
    nowhere = {"id": 1, "name": "Rex", "status": ""}
    conflict = sheet_saying(nowhere)
    assert plan_of([REX], conflict).conflicts[0].rule == "no-status"
    assert not taken(conflict, [replace(REX, name="Max")], [REX])
    blocked = sheet_of([], problems=(error_at(2),), blocked=(2,), blocked_ids=frozenset({1}))
    assert not taken(blocked, [SOLD], [REX])
    assert not taken(blocked, [SOLD], [REX], "store")


@settings(max_examples=times(15))
@given(shop_pets, shop_pets)
@example([Pet(id=1, name="Rex", status="sold")], [Pet(id=0, name="Rex", status="sold")])
def test_where_the_store_leads_the_sheet_says_the_same_afterwards(
    old: list[Pet], now: list[Pet]
) -> None:
    """If the store leads, the rows afterwards are the store's pets, and nothing is left to take."""
    one = taken(sheet_of(old), now, old, "store", delete_missing=True)
    rows = {pet.id: pet for pet in old}
    rows |= {edit.pet.id: edit.pet for edit in one.edits} | {pet.id: pet for pet in one.added}
    for gone in one.removed:
        del rows[gone.pet_id]
    assert rows.keys() == {pet.id for pet in now}
    assert all(not differing_columns(rows[pet.id], pet) for pet in now)
    after = taken(sheet_of(list(rows.values())), now, now, "store", delete_missing=True)
    assert not after
    assert not after.notes


@settings(max_examples=times(15))
@given(shop_pets, shop_pets)
def test_an_unedited_sheet_becomes_the_store(old: list[Pet], now: list[Pet]) -> None:
    """For an unedited sheet, a merge takes the same changes as a leading store."""
    decided = decided_of(now, sheet_of(old, base=base_of(old)), delete_missing=True)
    merge = taken(sheet_of(old), now, old, "merge", delete_missing=True, decided=decided)
    leads = taken(sheet_of(old), now, old, "store", delete_missing=True, decided=decided)
    assert (merge.edits, merge.added, merge.removed) == (leads.edits, leads.added, leads.removed)


@settings(max_examples=times(15))
@given(shop_pets, shop_pets)
def test_an_unchanged_store_gives_nothing(old: list[Pet], sheet: list[Pet]) -> None:
    """From an unchanged store, a sheet takes nothing but category cells."""
    one = taken(sheet_of(sheet), old, old, delete_missing=True)
    assert not [edit for edit in one.edits if set(edit.fields) - {"category", "category_id"}]
    assert not one.added
    assert not one.removed


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, ["Neo"]),
        ({"adds": ()}, []),
        ({"statuses": ("AVAILABLE ",)}, ["Neo"]),
        ({"statuses": ("sold",)}, []),
        ({"tags": ("shop",)}, ["Neo"]),
        ({"tags": ("other",)}, []),
    ],
)
def test_a_new_pet_of_the_scope_becomes_a_row(more: dict[str, Any], names: list[str]) -> None:
    """A new pet becomes a row if it is in the job's scope and adds are enabled."""
    one = taken(sheet_of([REX]), [REX, NEW], [REX], **more)
    assert [pet.name for pet in one.added] == names
    assert [change.kind for change in one.changes] == ["add"] * len(names)


def test_a_row_that_was_taken_out_does_not_come_back_in_a_merge() -> None:
    """In a merge, a removed row stays removed, with a note; if the store leads, it returns."""
    one = taken(sheet_of([REX]), [REX, TOM], [REX, TOM])
    assert not one
    assert "was removed from the sheet" in one.notes[0].problem
    assert taken(sheet_of([REX]), [REX, TOM], [REX, TOM], "store").added == (TOM,)
    first = taken(sheet_of([REX]), [REX, TOM])
    assert first.added == (TOM,)


@pytest.mark.parametrize("holds", [False, True])
def test_notes_say_why_nothing_is_deleted(holds: bool) -> None:
    """The notes on a removed row and on a deleted pet say whether the job does not ask for deletes,
    or the base may be outdated.
    """
    why = "the base may be outdated" if holds else "delete_missing is off"
    one = taken(sheet_of([TOM]), [REX], [REX, TOM], holds_deletes=holds)
    assert {each.pet_id for each in one.notes if each.problem.endswith(f": {why}")} == {1, 2}
    assert all(("set delete_missing" in each.hint) is not holds for each in one.notes if each.row)


def test_a_note_names_the_row_for_which_the_plan_deletes_no_pet() -> None:
    """If a row without an id is in conflict, the plan deletes no missing pet, and the note on such
    a pet names the row.
    """
    sheet = sheet_saying(SAID, {"name": "Neo"})
    one = taken(sheet, [REX, TOM], [REX, TOM], delete_missing=True)
    assert [each.pet_id for each in one.notes if "Pets!A3 may be its row" in each.problem] == [2]


def test_a_row_is_removed_if_the_plan_found_it_unedited() -> None:
    """A row that clears a category which its pet never had is not edited: it goes with its pet."""
    old = [replace(REX, category=None), TOM]
    row = {**SAID, "category": "", "tags": [SHY], "photo_urls": ["u"]}
    one = taken(sheet_saying(row, {"id": 2}), [TOM], old, delete_missing=True)
    assert [each.pet_id for each in one.removed] == [1]
    assert one.notes == ()


def test_what_the_plan_deletes_is_no_note() -> None:
    """A removed row whose pet the plan deletes gets no note."""
    sheet = dataclasses.replace(sheet_of([REX]), base=base_of([REX, TOM]))
    decided = decided_of([REX, TOM], sheet, delete_missing=True)
    assert decided.plan.deletes
    one = taken(sheet, [REX, TOM], [REX, TOM], decided=decided, delete_missing=True)
    assert not one
    assert not one.notes


@pytest.mark.parametrize("lead", ["merge", "store"])
def test_a_pet_that_a_row_may_mean_is_not_added_beside_it(lead: Any) -> None:
    """A pet is not added if a row with an unreadable id, or one without an id and with its name,
    may mean it.
    """
    doubtful = sheet_of([REX], problems=(error_at(3, "id"),), blocked=(3,), unidentified=(3,))
    one = taken(doubtful, [REX, TOM], [REX, TOM], lead)
    assert not one.added
    assert "Pets!A3" in one.notes[0].problem
    unread = taken(doubtful, [REX, TOM, NEW], [REX, TOM], lead)
    assert unread.added == (NEW,)
    named = sheet_saying(SAID, {"name": "Neo", "status": "available"})
    one = taken(named, [REX, NEW], [REX], lead)
    assert not one.added
    assert any("Pets!B3" in note.problem for note in one.notes)


def test_a_row_that_was_settled_gets_its_id() -> None:
    """A row that was matched with its pet gets the id, loses its action `add`, and gets
    no second row.
    """
    sheet = sheet_saying(SAID, {"name": "Neo", "status": "available", "action": "add"})
    one = taken(sheet, [REX, NEW], [REX], pet_ids={3: 9}, decided=decided_of([REX], sheet))
    (row,) = one.identified
    assert (row.row, row.pet_id, row.lacks_id, row.was_add) == (3, 9, True, True)
    assert not one.added
    assert one.counts.total == 0


@pytest.mark.parametrize("lead", ["merge", "store"])
def test_a_row_goes_with_its_pet_only_if_that_is_asked_for(lead: Any) -> None:
    """A row is removed with its pet only with `delete_missing` and if the base had the pet;
    otherwise it stays.
    """
    gone = taken(sheet_of([REX, TOM]), [REX], [REX, TOM], lead, delete_missing=True)
    assert [each.row for each in gone.removed] == [3]
    assert gone.changes[0].values["name"] == ("Tom", "")
    assert not gone.notes
    kept = taken(sheet_of([REX, TOM]), [REX], [REX, TOM], lead)
    assert not kept
    assert "is no longer in the store" in kept.notes[0].problem
    never = taken(sheet_of([REX, TOM]), [REX], [REX], lead, delete_missing=True)
    assert not never.removed


def test_a_row_that_somebody_edited_stays_when_its_pet_goes() -> None:
    """In a merge, an edited row stays if its pet is deleted."""
    edited = sheet_of([REX, replace(TOM, name="Tim")])
    assert not taken(edited, [REX], [REX, TOM], delete_missing=True)


def test_a_pet_that_could_not_be_looked_up_is_not_gone() -> None:
    """A pet that could not be looked up does not count as deleted, and a note gives the reason."""
    held = Conflict(
        row=3, source="Pets!A3", pet_id=2, rule="not-looked-up", problem="?", suggestion=""
    )
    decided = decided_of([REX], sheet_of([REX]))
    decided = dataclasses.replace(decided, plan=replace(decided.plan, conflicts=(held,)))
    for lead in ("merge", "store"):
        one = taken(
            sheet_of([REX, TOM]),
            [REX],
            [REX, TOM],
            lead,
            decided=decided,
            delete_missing=True,
        )
        assert not one
    assert "gave no answer" in one.notes[0].problem


def test_what_is_not_sent_where_the_store_leads_is_noted() -> None:
    """If the store leads, rows without a pet and rows that ask for an add or a delete
    get a note.
    """
    sheet = sheet_saying(
        SAID,
        {"id": 5, "name": "Five"},
        {"name": "Six"},
        {"id": 7, "name": "Seven", "action": "add"},
        {"id": 1, "action": "delete"},
    )
    one = taken(sheet, [REX], [REX], "store")
    assert [note.row for note in one.notes] == [3, 4, 5, 6]
    assert all(note.kind == "note" and note.address for note in one.notes)


def many(count: int) -> list[Pet]:
    """Return this number of pets."""
    return [replace(REX, id=n) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("changed", "gone", "limits"),
    [(10, 0, []), (61, 0, ["update"]), (0, 21, ["delete"]), (0, 200, ["delete", "everything"])],
)
def test_the_guard_holds_the_sheet_to_shares_of_its_rows(
    changed: int, gone: int, limits: list[str]
) -> None:
    """The guard's limits apply to the sheet as shares of its rows, and a refusal names
    the limit.
    """
    old = many(200)
    now = [replace(p, status="sold") if (p.id or 0) <= changed else p for p in old[gone:]]
    one = taken(sheet_of(old), now, old, delete_missing=True, guard=Guard())
    assert [each.limit for each in one.verdict.refusals] == limits
    if limits:
        with pytest.raises(GuardError, match="of 200 rows"):
            one.require_ok()
        assert one.with_verdict(FREE).verdict.ok
    else:
        one.require_ok()


def test_it_is_the_same_in_a_file_and_on_another_day() -> None:
    """The fingerprint covers the changes and not the time, and survives the file."""
    one = taken(sheet_of([REX, TOM]), [SOLD, NEW], [REX, TOM], delete_missing=True)
    assert Inbound.from_json(one.to_json()) == one
    later = msgspec.structs.replace(one, created="2026-11-22")
    assert later.fingerprint == one.fingerprint
    other = taken(sheet_of([REX, TOM]), [SOLD], [REX, TOM], delete_missing=True)
    assert other.fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "not a file of waiting sheet changes"),
        (b"\xff", "not a file of waiting sheet changes"),
        (b'{"fingerprint": "", "sheet_plan": {"format": 99}}', "has format 99"),
    ],
)
def test_another_file_is_refused(body: bytes, message: str) -> None:
    """A file of another kind or format is refused with the reason."""
    with pytest.raises(PlanError, match=message):
        Inbound.from_json(body, "sheet.json")


def test_a_file_that_somebody_changed_is_refused() -> None:
    """A file that was edited is refused."""
    body = taken(sheet_of([REX]), [SOLD], [REX]).to_json()
    changed = re.sub(rb'"sold"', b'"lost"', body)
    with pytest.raises(PlanError, match="was changed"):
        Inbound.from_json(changed)


def test_only_what_still_holds_is_kept() -> None:
    """Changes whose pet changed, returned or was deleted since are left to the next round."""
    one = taken(sheet_of([REX, TOM]), [SOLD, NEW], [REX, TOM], delete_missing=True)
    assert one.keep_valid({1: SOLD, 9: NEW}.get) == one
    assert not one.keep_valid({1: REX, 2: TOM}.get)
