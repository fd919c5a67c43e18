"""Edge cases of a plan that random catalogues rarely reach."""

from __future__ import annotations

from dataclasses import replace as but
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from msgspec.structs import replace
from shop import base_of, error_at, plan_of, sheet_of, sheet_saying, snapshot_of

from petsync.errors import PlanError, SettingsError
from petsync.models import MAX_ID, MIN_ID, Category, Pet, Tag
from petsync.plan.guard import Guard, Limit
from petsync.plan.match import positions
from petsync.plan.plan import Plan
from petsync.report.text import plain_text
from petsync.report.views.plan import plan_view
from petsync.sheets import read_sheet, write_sheet
from petsync.table.frame import FEW, frame_from_pets, integers

REX = Pet(id=1, name="Rex", status="sold")


def with_(**fields: object) -> Pet:
    """Return Rex with other fields."""
    return replace(REX, **fields)


def test_a_tag_without_an_id_is_taken_away_though_the_store_gave_it_one() -> None:
    """A tag that was exported without an id is removed although the service has since given it
    one.
    """
    exported, now = with_(tags=(Tag(None, "x"),)), with_(tags=(Tag(1, "x"), Tag(2, "y")))
    sheet = sheet_saying({"id": 1, "tags": []}, base=base_of([exported]))
    (change,) = plan_of([now], sheet).changes
    assert change.after == with_(tags=(Tag(2, "y"),))


@pytest.mark.parametrize(
    ("exported", "row", "now", "after"),
    [
        ([(5, "x")], [], [(9, "x")], []),
        ([(5, "x"), (6, "y")], ["y"], [(9, "x"), (6, "y")], [(6, "y")]),
        ([(5, "x"), (6, "x")], [], [(5, "x"), (9, "x")], []),
        ([(5, "x")], [], [(5, "x"), (9, "x")], [(9, "x")]),
        ([(5, "x"), (6, "x")], [(6, "x")], [(9, "x"), (6, "x")], [(6, "x")]),
        ([(5, "x"), (6, "x")], [(6, "x")], [(9, "x")], None),
        ([(5, "x"), (8, "x")], [(8, "x")], [(None, "x"), (8, "x")], [(8, "x")]),
        (
            [(None, "x"), (8, "x")],
            [(8, "x")],
            [(None, "x"), (8, "x"), (1, "y")],
            [(8, "x"), (1, "y")],
        ),
        ([(5, "x")], [(7, "x")], [(9, "x")], [(9, "x"), (7, "x")]),
    ],
)
def test_a_tag_that_the_store_renumbered_is_removed_by_its_name(
    exported: list[Any], row: list[Any], now: list[Any], after: list[Any] | None
) -> None:
    """A tag that the sheet removes is removed although the store changed its id since the export.
    A tag of the name that the sheet keeps stays, and so does a second one that the store added.
    """
    tags = [Tag(None, each) if isinstance(each, str) else Tag(*each) for each in row]
    old, current = (with_(tags=[Tag(*each) for each in side]) for side in (exported, now))
    plan = plan_of([current], sheet_saying({"id": 1, "tags": tags}, base=base_of([old])))
    assert [change.after for change in plan.changes] == (
        [] if after is None else [with_(tags=[Tag(*each) for each in after])]
    )


def test_a_category_without_a_name_can_be_cleared() -> None:
    """A category without a name can be cleared although its id is still in the cell beside."""
    sheet = sheet_saying({"id": 1, "category": "", "category_id": 7})
    (change,) = plan_of([with_(category=Category(7, None))], sheet).changes
    assert change.after == REX
    assert plan_of([REX], sheet).in_sync


def test_a_row_with_the_old_number_beside_the_new_category_is_not_older() -> None:
    """A run sent the row's category; the number of the previous one, still beside it, is no older
    value than the store's.
    """
    sent = with_(category=Category(2, "Cats"))
    row = with_(category=Category(1, "Cats"))
    base = but(base_of([sent]), sheet_pets={1: row})
    plan = plan_of([sent], but(sheet_of([row]), base=base))
    assert plan.in_sync
    assert (plan.older, plan.notes, plan.unchanged) == ((), (), 1)


def test_a_row_with_the_old_number_is_older_if_the_category_changed_since() -> None:
    """The same row is older once the store has another category than the run sent."""
    row = with_(category=Category(1, "Cats"))
    base = but(base_of([with_(category=Category(2, "Cats"))]), sheet_pets={1: row})
    sheet = but(sheet_of([row]), base=base)
    assert plan_of([with_(category=Category(3, "Birds"))], sheet).older == (2,)


def test_a_conflict_names_its_pet() -> None:
    """A conflict has the pet's name in the store, or else the name in the row."""
    sheet = sheet_saying({"id": 1, "action": "add", "name": "Max"}, {"id": 9, "name": "Zoe"})
    named = [(each.rule, each.name) for each in plan_of([REX], sheet).conflicts]
    assert named == [("exists", "Rex"), ("no-status", "Zoe")]


def test_each_field_stands_at_its_own_cell() -> None:
    """The table of changes has the cell of each field, and the pet's current name."""
    plan = plan_of([REX], sheet_saying({"id": 1, "name": "Max", "status": "pending"}))
    frame = plan.to_frame()
    assert frame["source"].tolist() == ["Pets!B2", "Pets!C2"]
    assert frame["name"].tolist() == ["Rex", "Rex"]


def test_ids_that_are_in_no_change_are_reported() -> None:
    """A selection names the ids that are in no change of the plan."""
    plan = plan_of([REX], sheet_saying({"id": 1, "name": "Max"}))
    assert plan.select(ids=[1]).notes == plan.notes
    assert plan.select(ids=[1, 5]).notes[-1] == "Selected ids without a change in the plan: 5."


def test_a_blocked_row_names_its_pet() -> None:
    """A blocked row has the id in its cell, and the store's name of the pet."""
    sheet = sheet_saying(
        blocked=(3,), blocked_ids=frozenset({1}), blocked_pets={3: 1}, problems=(error_at(3),)
    )
    (blocked,) = plan_of([REX], sheet).blocked
    assert (blocked.pet_id, blocked.name) == (1, "Rex")


def test_plans_can_be_members_of_a_set() -> None:
    """Equal plans have equal hashes."""
    sheet = sheet_saying({"id": 1, "name": "Max"})
    assert len({plan_of([REX], sheet), plan_of([REX], sheet)}) == 1


def test_a_part_of_a_refused_plan_says_so() -> None:
    """A part of a refused plan carries a note, because each part can keep the limits that the whole
    exceeds.
    """
    guard = Guard(max_update=Limit(1, is_share=False))
    sheet = sheet_saying({"id": 1, "name": "Max"}, {"id": 2, "name": "Moritz"})
    plan = plan_of([REX, replace(REX, id=2)], sheet, guard=guard)
    part = plan.select(ids=1)
    assert (plan.verdict.ok, part.verdict.ok) == (False, True)
    assert any("refuses as a whole" in note for note in part.notes)
    assert part.select(ids=1).notes == part.notes


@pytest.mark.parametrize("limit", [Limit(10, is_share=False), Limit(1), Limit(0), Limit(0.1)])
def test_a_limit_given_as_a_whole_number_survives_the_file(limit: Limit) -> None:
    """A limit that is a whole number is read back identically, so the plan does not seem
    changed.
    """
    plan = plan_of([REX], sheet_saying({"id": 1, "name": "Max"}), guard=Guard(max_delete=limit))
    assert Plan.from_json(plan.to_json()) == plan


def test_a_number_of_a_category_beside_the_name_of_another() -> None:
    """A new category id beside an unchanged name is a conflict whose advice can be followed: write
    a new name.
    """
    (conflict,) = plan_of(
        [with_(category=Category(1, "Dogs"))],
        sheet_saying(
            {"id": 1, "category": "Dogs", "category_id": 99},
            base=base_of([with_(category=Category(1, "Dogs"))]),
        ),
    ).conflicts
    assert conflict.rule == "no-category-name"
    assert "write a new name" in conflict.suggestion


@pytest.mark.parametrize("name", ["dogs", "DOGS ", "\uff24ogs", "Dogs\u200a"])
@pytest.mark.parametrize("number", [None, 1, 0])
def test_another_spelling_of_a_category_is_no_new_one(name: str, number: int | None) -> None:
    """Another spelling of a category is a conflict, in an update and in an add, with or without the
    old id beside it.
    """
    store = [with_(category=Category(1, "Dogs")), with_(id=2, category=None)]
    cells = {"category": name, **({} if number is None else {"category_id": number})}
    new = {"name": "Mia", "status": "sold", **cells}
    plan = plan_of(store, sheet_saying({"id": 1, **cells}, {"id": 2, **cells}, new))
    if name.strip() == "Dogs":
        assert not plan.conflicts
        return
    assert plan.changes == ()
    assert {conflict.rule for conflict in plan.conflicts} == {"category-spelling"}
    assert "the store has 'Dogs'" in plan.conflicts[0].problem
    assert "Write 'Dogs'" in plan.conflicts[0].suggestion
    assert len(plan.conflicts) == 3


def test_another_spelling_with_a_number_of_its_own_is_meant() -> None:
    """Another spelling with a new id is accepted as a new category, and the store then has both."""
    store = [with_(category=Category(1, "Dogs"))]
    sheet = sheet_saying({"id": 1, "category": "dogs", "category_id": 9})
    plan = plan_of(store, sheet)
    assert not plan.conflicts
    assert [change.after.category for change in plan.updates] == [Category(9, "dogs")]
    kept = plan_of(store, sheet_saying({"id": 1, "category": "Cats"}))
    assert [change.after.category for change in kept.updates] == [Category(None, "Cats")]


def test_new_categories_that_differ_in_spelling_alone_are_not_both_made() -> None:
    """Of new categories that differ only in spelling, the most frequent one is created; of equally
    frequent ones, none.
    """
    names = ["Ferrets", "ferrets", "Ferrets", "Owls", "OWLS"]
    rows = [
        {"name": f"pet {n}", "status": "sold", "category": name} for n, name in enumerate(names)
    ]
    plan = plan_of([], sheet_saying(*rows))
    assert [change.after.category for change in plan.adds] == [Category(None, "Ferrets")] * 2
    assert [conflict.rule for conflict in plan.conflicts] == ["category-spelling"] * 3
    assert "other rows name 'Ferrets'" in plan.conflicts[0].problem


@pytest.mark.parametrize("name", ["young", "YOUNG ", "\uff39oung", "good  boy", "Good boy"])
def test_another_spelling_of_a_tag_is_no_new_one(name: str) -> None:
    """Another spelling of a tag is a conflict, in an update and in an add, alone or beside
    others.
    """
    store = [with_(tags=(Tag(7, "Young"), Tag(None, "good boy"))), with_(id=2, tags=())]
    meant = "good boy" if name[1:2] == "o" and "b" in name else "Young"
    new = {"name": "Mia", "status": "sold", "tags": [Tag(None, name)]}
    rows = (
        {"id": 1, "tags": [Tag(None, "good boy"), Tag(7, "Young"), Tag(None, name)]},
        {"id": 2, "tags": [Tag(None, name), Tag(None, "calm")]},
    )
    plan = plan_of(store, sheet_saying(*rows, new))
    assert plan.changes == ()
    assert [conflict.rule for conflict in plan.conflicts] == ["tag-spelling"] * 3
    assert f"the store has {meant!r}" in plan.conflicts[0].problem
    assert f"Write {meant!r}" in plan.conflicts[0].suggestion


def test_a_tag_gets_a_number_as_its_sheet_has_it(tmp_path: Path) -> None:
    """The advice to give a tag a number names the form of a cell, of a DataFrame or of JSON, and
    ends the conflict.
    """
    store = [with_(tags=(Tag(7, "Young"),)), with_(id=2, tags=())]
    cells, rows = tmp_path / "pets.csv", tmp_path / "pets.json"
    cells.write_text("id,tags\n2,young\n", "utf-8")
    rows.write_text('[{"id": 2, "tags": ["young"]}]', "utf-8")
    frame = pd.DataFrame({"id": [2], "tags": [["young"]]})
    ways = {}
    for name, data in (("cells", cells), ("rows", rows), ("frame", frame)):
        (conflict,) = plan_of(store, read_sheet(data)).conflicts
        assert conflict.rule == "tag-spelling"
        ways[name] = conflict.suggestion.split("`")[1]
    assert ways["frame"] == 'ps.Tag(NUMBER, "young")'
    cells.write_text(f"id,tags\n2,{ways['cells']}\n".replace("NUMBER", "106"), "utf-8")
    rows.write_text(f'[{{"id": 2, "tags": [{ways["rows"]}]}}]'.replace("NUMBER", "106"), "utf-8")
    frame.at[0, "tags"] = [Tag(106, "young")]
    for data in (cells, rows, frame):
        plan = plan_of(store, read_sheet(data))
        assert not plan.conflicts
        assert [change.after.tags for change in plan.updates] == [(Tag(106, "young"),)]


def test_a_tag_that_a_person_means_is_sent() -> None:
    """A tag with its own id, a tag that the store has in both spellings, and a tag that the
    looked-up pet already has are sent without a conflict.
    """
    store = [with_(tags=(Tag(7, "Young"),)), with_(id=2, tags=(Tag(8, "calm"), Tag(9, "Calm")))]
    sheet = sheet_saying(
        {"id": 1, "tags": [Tag(70, "young"), Tag(None, "Calm"), Tag(None, "calm")]},
        {"id": 2, "tags": [Tag(None, "Young"), Tag(None, "Calm"), Tag(None, "old")]},
        {"id": 3, "tags": [Tag(None, "young"), Tag(None, "shy")]},
    )
    other = with_(id=3, tags=(Tag(None, "young"),), status="unlisted")
    plan = plan_of(store, sheet, elsewhere={3: other})
    assert not plan.conflicts
    assert [[tag.name for tag in change.after.tags] for change in plan.updates] == [
        ["young", "Calm", "calm"],
        ["Calm", "Young", "old"],
        ["young", "shy"],
    ]


def test_new_tags_that_differ_in_spelling_alone_are_not_both_made() -> None:
    """Of new tags that differ only in spelling, the most frequent one is created; of equally
    frequent ones, none.
    """
    tags = [["Shy"], ["shy"], ["Shy", "old"], ["Calm", "calm"]]
    rows = [
        {"name": f"pet {n}", "status": "sold", "tags": [Tag(None, name) for name in names]}
        for n, names in enumerate(tags)
    ]
    plan = plan_of([], sheet_saying(*rows))
    assert [[tag.name for tag in change.after.tags] for change in plan.adds] == [
        ["Shy"],
        ["Shy", "old"],
    ]
    assert [conflict.rule for conflict in plan.conflicts] == ["tag-spelling"] * 2
    assert "other rows name 'Shy'" in plan.conflicts[0].problem


@pytest.mark.parametrize("name", ["1:Dogs", "24: dogs"])
def test_a_category_with_a_number_before_it_is_no_new_one(name: str) -> None:
    """A category with a number before its name is a conflict if the store has that category;
    otherwise it is a new name.
    """
    store = [with_(category=Category(1, "Dogs")), with_(id=2, category=None)]
    (conflict,) = plan_of(store, sheet_saying({"id": 2, "category": name})).conflicts
    assert conflict.rule == "category-spelling"
    assert "Write 'Dogs'" in conflict.suggestion
    assert not plan_of(store, sheet_saying({"id": 2, "category": "1:Cats"})).conflicts


def test_a_sentinel_is_a_number_of_64_bits() -> None:
    """A sentinel that is not a 64-bit integer is refused, and so is a truth value as an id."""
    for wrong in (2**63, -(2**63) - 1, True):
        with pytest.raises(SettingsError, match="are not ids of pets"):
            Guard(sentinels=(wrong,))
    with pytest.raises(PlanError, match="not pets' ids"):
        plan_of([REX], sheet_saying({"id": 1, "name": "Max"})).select(ids=[True])


def test_a_file_that_is_nested_without_end_is_no_plan() -> None:
    """A deeply nested file is refused as no plan, and so is a file with an id that no pet can
    have.
    """
    with pytest.raises(PlanError, match="is not a plan"):
        Plan.from_json(b'{"plan":' * 100_000)
    body = plan_of([REX], sheet_saying({"id": 1, "name": "Max"})).to_json()
    with pytest.raises(PlanError, match="is not a plan"):
        Plan.from_json(body.replace(b'"id": 1', b'"id": 9223372036854775808'))


@pytest.mark.parametrize(
    "known",
    [
        [MIN_ID, 0, MAX_ID],
        [5],
        [5, 6, 7, 9],
        [MAX_ID - 1, MAX_ID],
        [MIN_ID, MIN_ID + 1],
        [],
        [number * 10**9 for number in range(2 * FEW)],
    ],
)
def test_ids_are_found_however_far_they_lie_apart(known: list[int]) -> None:
    """Ids are found by a table where they lie close together; where they do not, by a search if
    they are in order, else by hashing.
    """
    pets = frame_from_pets([Pet(id=number) for number in known])
    asked = [*known, MAX_ID, MIN_ID, 0, 8, None]
    expected = [known.index(each) if each in known else -1 for each in asked]
    # The second time there are too many ids for a loop.
    for times in (1, FEW):
        ids = integers(asked * times)
        assert positions(ids, pets).tolist() == expected * times
    ordered = [each for each in range(-9, 10) if each not in known] + known[FEW // 2 :]
    expected = [known.index(each) if each in known else -1 for each in ordered]
    assert positions(integers(ordered), pets).tolist() == expected


def test_a_text_without_the_letters_of_the_store_replaces_none(tmp_path: Path) -> None:
    """A text of the store in which a program wrote a question mark for each letter that its
    encoding lacks is a conflict; a question mark that a person wrote is sent.
    """
    store = [
        Pet(id=1, name="Čenda", status="sold", category=Category(1, "Psy"), tags=(Tag(1, "zlý"),)),
        Pet(id=2, name="小雪", status="sold", category=Category(2, "Kočky")),
        Pet(id=3, name="Zoë", status="sold", category=Category(2, "Kočky"), tags=(Tag(1, "zlý"),)),
        Pet(id=4, name="Rex", status="sold", category=Category(1, "Psy")),
    ]
    path = tmp_path / "pets.csv"
    snapshot = snapshot_of(store)
    write_sheet(snapshot, path)
    text = path.read_text("utf-8-sig")
    for encoding in ("cp1252", "ascii"):
        lossy = text.encode(encoding, "replace").decode(encoding)
        path.write_text(lossy.replace("Rex", "Who?"), "utf-8")
        plan = plan_of(store, read_sheet(path))
        assert {each.rule for each in plan.conflicts} == {"damaged-text"}
        assert {each.pet_id for each in plan.conflicts} == {1, 2, 3}
        assert [(each.pet_id, each.after.name) for each in plan.changes] == [(4, "Who?")]


def test_names_that_lose_their_accents_are_noted(tmp_path: Path) -> None:
    """Several names that only lose their accents are in a note, because a program may have saved
    the sheet in an encoding without these letters. With a question mark, they are conflicts.
    """
    names = ["Żabka", "Čenda", "Łukasz", "Lăbuș", "Rex"]
    store = [Pet(id=n, name=name, status="sold") for n, name in enumerate(names, 1)]
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Zabka\n2,Cenda\n3,Lukasz\n4,Labu?\n5,Rexo\n", "utf-8")
    plan = plan_of(store, read_sheet(path))
    assert [(each.pet_id, each.rule) for each in plan.conflicts] == [(4, "damaged-text")]
    (note,) = [note for note in plan.notes if "an encoding that lacks these letters" in note]
    assert all(name in note for name in names[:3])
    path.write_text("id,name\n1,Zabka\n", "utf-8")
    assert not [note for note in plan_of(store, read_sheet(path)).notes if "encoding" in note]


def test_a_text_read_in_a_wrong_encoding_replaces_no_text_of_the_store(tmp_path: Path) -> None:
    """A name or a category that the store has undamaged is a conflict; other damaged text is named
    in a note. A row whose damaged text is also in the store is in sync.
    """
    store = [
        Pet(id=1, name="Zoë", status="sold", category=Category(1, "Hündchen")),
        Pet(id=2, name="Rex", status="sold", category=Category(2, "Dogs")),
        Pet(id=3, name="JÃ¶rg", status="sold"),
    ]
    rows = ["1,Zoë,,", "2,,Hündchen,", "3,Jörg,,", "4,Örni,,sold"]
    text = "\n".join(rows).encode().decode("cp1252")
    path = tmp_path / "pets.csv"
    path.write_text(f"id,name,category,status\n{text}\n", "utf-8")
    plan = plan_of(store, read_sheet(path))
    held = [(each.row, each.pet_id, each.rule) for each in plan.conflicts]
    assert held == [(2, 1, "damaged-text"), (3, 2, "damaged-text")]
    assert "'Zoë'" in plan.conflicts[0].problem
    assert [change.kind for change in plan.changes] == ["add"]
    (note,) = [note for note in plan.notes if "wrong encoding" in note]
    assert "line 5, column 2 'Ã–rni'" in note


def test_new_tags_are_pointed_out() -> None:
    """A note names the tags that no pet has yet, and asks for a similar one; a tag with a number,
    and one of a row in conflict, has no note.
    """
    store = [replace(REX, tags=(Tag(1, "friendly"),)), Pet(id=2, name="Tom", status="sold")]
    tags = [[Tag(None, "freindly"), Tag(None, "friendly")], [Tag(None, "vip"), Tag(7, "own")]]
    rows = [{"id": n, "tags": each} for n, each in enumerate(tags, 1)]
    held = {"id": 2, "name": "Tom", "status": "sold", "tags": [Tag(None, "held")], "action": "add"}
    notes = plan_of(store, sheet_saying(*rows, held)).notes
    assert [each for each in notes if "new tag" in each] == [
        "Pets!B2: new tag 'freindly', which no pet of the store has. Did you mean 'friendly'?",
        "new tag, which no pet of the store has yet: 'vip' (Pets!B3).",
    ]


def test_a_misspelt_header_is_counted_in_the_summary(tmp_path: Path) -> None:
    """The first line of a plan counts the columns with a misspelt header as warnings, also if the
    rest is in sync, and a warning is shown once.
    """
    sheet = tmp_path / "pets.csv"
    for name, start in (
        ("Rex", "In sync: the one row agrees with the store. 1 warning."),
        ("Max", "Plan: 0"),
    ):
        sheet.write_text(f"id,name,statsu\n1,{name},sold\n", "utf-8")
        text = plain_text(plan_view(plan_of([REX], read_sheet(sheet))))
        assert text.startswith(start)
        assert "1 warning" in text.splitlines()[0]
        assert text.count("is not used") == 1
        assert "1 note" not in text
