"""The ways out of conflicts: advice that is followed ends the conflict and doubles no pet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from shop import base_of, plan_of, sheet_saying

from petsync.models import Category, Pet, Tag
from petsync.plan.plan import Plan

pytestmark = pytest.mark.slow

Row = Mapping[str, Any]
DOGS, CATS = Category(1, "Dogs"), Category(2, "Cats")
ANN = Pet(id=1, name="Ann", status="available", category=DOGS, tags=(Tag(1, "calm"),))
BEN = Pet(id=2, name="Ben", status="pending", category=CATS, tags=(Tag(2, "shy"),))
CID = Pet(id=3, name="Cid", status="sold", category=DOGS)
DOT = Pet(id=4, name="Dot", status="available", category=CATS)
SHOP = (ANN, BEN, CID, DOT)
NAMESAKE = Pet(id=5, name="Ann", status="sold", category=CATS)
NEO = Pet(id=6, name="Neo", status="sold", category=DOGS)


def row(pet: Pet, **cells: Any) -> dict[str, Any]:
    """Return the pet's row with these cells."""
    category = None if pet.category is None else pet.category.name
    own = {"id": pet.id, "name": pet.name, "status": pet.status, "category": category}
    return {**own, "tags": [*pet.tags] or None, **cells}


def without_id(pet: Pet, **cells: Any) -> dict[str, Any]:
    """Return the pet's row without its id, with these cells."""
    return row(pet, id=None, **cells)


A, B, C, D = map(row, SHOP)
ANOTHER = {"action": "add-another"}
ADD = {"action": "add"}
UPDATE = {"action": "update"}
ZED: Row = {"name": "Zed", "status": "sold"}


class Case(NamedTuple):
    """A sheet with conflicts, and sheets in which their advice was followed, each with the kinds of
    its changes. `advice` has parts of the suggestions.
    """

    rule: str
    rows: Sequence[Row]
    advice: Sequence[str]
    ways: Sequence[tuple[Sequence[Row], str]]
    store: Sequence[Pet] = SHOP
    is_export: bool = True
    options: Mapping[str, Any] = {}


BY_NAME: Mapping[str, Any] = {"is_export": False, "options": {"match_on": ("name",)}}
DELETING: Mapping[str, Any] = {"options": {"delete_missing": True}}
EDITED = without_id(ANN, status="sold")
SOLD = {"status": "sold"}
FISH = [without_id(ANN, name=name, category=name) for name in ("Fish", "fish")]
RED = [without_id(ANN, name=name, tags=[Tag(None, name)]) for name in ("red", "Red")]

CASES = {
    "several matches": Case(
        "matches-several",
        [{"id": None, "name": "Ann", **SOLD}],
        ["its id", "`add-another`"],
        [([row(NAMESAKE, **SOLD)], ""), ([{"id": None, "name": "Ann", **SOLD, **ANOTHER}], "add")],
        store=(*SHOP, NAMESAKE),
        **BY_NAME,
    ),
    "two rows for one pet": Case(
        "claimed-twice",
        [{"id": None, "name": "Ann"}, {"id": None, "name": "Ann", **SOLD}],
        ["Give each row its id", "`add-another`"],
        [
            ([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Ann", **SOLD}], "update"),
            ([{"id": None, "name": "Ann"}, {"id": None, "name": "Ann", **SOLD, **ANOTHER}], "add"),
        ],
        **BY_NAME,
    ),
    "update without an id": Case(
        "no-id",
        [without_id(ANN, **SOLD, **UPDATE)],
        ["the pet's id"],
        [([row(ANN, **SOLD, **UPDATE)], "update")],
        is_export=False,
    ),
    "update of no pet": Case(
        "no-such-pet",
        [row(NEO, **UPDATE)],
        ["Correct the id", "`add`"],
        [([row(NEO, **ADD)], "add"), ([row(NEO, id=1, **UPDATE)], "update")],
    ),
    "edited, and gone": Case(
        "gone-edited",
        [row(ANN, **SOLD), B],
        ["`add`", "remove the row"],
        [([row(ANN, **SOLD, **ADD), B], "add"), ([B], "")],
        store=SHOP[1:],
    ),
    "add of an existing pet": Case(
        "exists",
        [row(ANN, **ZED, **ADD)],
        ["`update`", "leave the action blank", "leave the id blank"],
        [
            ([row(ANN, **ZED, **UPDATE)], "update"),
            ([row(ANN, **ZED)], "update"),
            ([without_id(ANN, **ZED, **ADD)], "add"),
        ],
    ),
    "twin in no row": Case(
        "twin",
        [without_id(ANN, **ADD)],
        ["Remove the row", "the id 1", "`add-another`"],
        [([B], ""), ([row(ANN, **ADD)], ""), ([without_id(ANN, **ANOTHER)], "add")],
        is_export=False,
    ),
    "two equal new rows": Case(
        "twin",
        [without_id(NEO), without_id(NEO)],
        ["Remove the row, or write `add-another`"],
        [
            ([without_id(NEO)], "add"),
            ([without_id(NEO), without_id(NEO, **ANOTHER)], "add add"),
            ([without_id(NEO, **ANOTHER), without_id(NEO)], "add add"),
        ],
    ),
    "copy of a row, without its id": Case(
        "twin",
        [A, without_id(ANN)],
        ["Remove the row, or write `add-another`"],
        [([A], ""), ([A, without_id(ANN, **ANOTHER)], "add")],
    ),
    "copy of a row with some columns, without its id": Case(
        "twin",
        [{"id": 1, "name": "Ann", **SOLD}, {"id": None, "name": "Ann", **SOLD}],
        ["Remove the row, or write `add-another`"],
        [
            ([{"id": 1, "name": "Ann", **SOLD}], "update"),
            (
                [
                    {"id": 1, "name": "Ann", **SOLD},
                    {"id": None, "name": "Ann", **SOLD, **ANOTHER},
                ],
                "add update",
            ),
        ],
    ),
    "twin in a row": Case(
        "twin",
        [A, without_id(ANN, **ADD)],
        ["Remove the row, or write `add-another`"],
        [([A], ""), ([A, without_id(ANN, **ANOTHER)], "add")],
        is_export=False,
    ),
    "new pet without a name": Case(
        "no-name",
        [without_id(ANN, name=None)],
        ["a name", "the id"],
        [([without_id(ANN, name="Zed")], "add"), ([row(ANN, name=None)], "")],
    ),
    "new pet without a status": Case(
        "no-status",
        [without_id(NEO, status=None)],
        ["available, pending, sold"],
        [([without_id(NEO)], "add")],
    ),
    "id below one": Case(
        "id-below-one",
        [row(NEO, id=-5)],
        ["Leave the id blank", "give the id"],
        [([without_id(NEO)], "add"), ([row(ANN)], "")],
    ),
    "spelling of a category": Case(
        "category-spelling",
        [row(ANN, category="dogs")],
        ["Write 'Dogs'", "another category_id"],
        [([A], ""), ([row(ANN, category="dogs", category_id=50)], "update")],
    ),
    "two spellings of a new category": Case(
        "category-spelling",
        FISH,
        ["Write 'Fish' in all rows", "another category_id"],
        [
            ([{**each, "category": "Fish"} for each in FISH], "add add"),
            ([FISH[0], {**FISH[1], "category_id": 50}], "add add"),
            ([{**FISH[0], "category_id": 50}, FISH[1]], "add add"),
        ],
    ),
    "spelling of a tag": Case(
        "tag-spelling",
        [row(ANN, tags=[Tag(None, "Calm")])],
        ["Write 'calm'", "`NUMBER:Calm`"],
        [([A], ""), ([row(ANN, tags=[Tag(50, "Calm")])], "update")],
    ),
    "two spellings of a new tag": Case(
        "tag-spelling",
        RED,
        ["Write 'red' in all rows", "a number"],
        [
            ([{**each, "tags": [Tag(None, "red")]} for each in RED], "add add"),
            ([RED[0], {**RED[1], "tags": [Tag(50, "Red")]}], "add add"),
        ],
    ),
    "id of no category": Case(
        "no-category-name",
        [row(ANN, category=None, category_id=9)],
        ["the category's name"],
        [([row(ANN, category="Fish", category_id=9)], "update")],
    ),
    "id beside the name of another category": Case(
        "no-category-name",
        [row(ANN, category_id=9)],
        ["correct the id", "a new name"],
        [
            ([row(ANN, category_id=1)], ""),
            ([row(ANN, category="Fish", category_id=9)], "update"),
        ],
    ),
    "like a pet, no ids": Case(
        "looks-alike",
        [EDITED, *map(without_id, SHOP[1:])],
        ["their ids", "`add`"],
        [
            ([row(ANN, **SOLD), B, C, D], "update"),
            ([{**EDITED, **ADD}, *map(without_id, SHOP[1:])], "add"),
        ],
        is_export=False,
    ),
    "like a pet that came since": Case(
        "looks-alike",
        [A, B, C, D, without_id(NEO, status="available")],
        ["the id 6", "`add-another`"],
        [
            ([A, B, C, D, row(NEO, status="available")], "update"),
            ([A, B, C, D, without_id(NEO, status="available", **ANOTHER)], "add"),
        ],
        store=(*SHOP, NEO),
    ),
    "like a pet, another id": Case(
        "looks-alike",
        [row(ANN, id=101), B, C, D],
        ["the id 1", "`add`"],
        [([A, B, C, D], ""), ([row(ANN, id=101, **ADD), B, C, D], "add")],
        is_export=False,
    ),
    "lost id": Case(
        "lost-id",
        [EDITED, B, C, D],
        ["give the row its id", "`add-another`", "`delete`"],
        [
            ([row(ANN, **SOLD), B, C, D], "update"),
            ([{**EDITED, **ANOTHER}, B, C, D], "add"),
            ([{**EDITED, **ANOTHER}, row(ANN, action="delete"), B, C, D], "add delete"),
        ],
    ),
    **{
        f"lost id, other name, {what}": Case(
            "lost-id",
            rows,
            ["give the row its id", "`add-another`"],
            [
                ([{**each, "id": each["id"] or pet.id} for each in rows], "update"),
                ([{**each, **({} if each["id"] else ANOTHER)} for each in rows], "add"),
            ],
        )
        for what, pet, rows in (
            ("no tags", CID, [A, B, without_id(CID, name="Otto"), D]),
            ("and status", BEN, [A, without_id(BEN, name="Otto", status="sold"), C, D]),
        )
    },
    "lost id, and deletes": Case(
        "lost-id",
        [row(ANN, id=-1, **SOLD), B, C, D],
        ["give the row its id", "leave the id blank", "`add-another`"],
        [
            ([row(ANN, **SOLD), B, C, D], "update"),
            ([{**EDITED, **ANOTHER}, B, C, D], "add delete"),
        ],
        **DELETING,
    ),
    "removed, and changed": Case(
        "removed-changed",
        [B, C, D],
        ["Export again"],
        [([row(ANN, **SOLD), B, C, D], "")],
        store=(replace(ANN, status="sold"), *SHOP[1:]),
        **DELETING,
    ),
    "values of a pet in no row": Case(
        "misplaced-id",
        [row(BEN, id=1), C, D],
        ["Write 2 into the id cell", "`update`"],
        [([B, C, D], ""), ([row(BEN, id=1, **UPDATE), C, D], "update")],
    ),
    "ids in other rows": Case(
        "misplaced-id",
        [row(BEN, id=1), row(CID, id=2), row(DOT, id=3)],
        ["Write 2 into", "Write 3 into", "Write 4 into"],
        [([B, C, D], "")],
    ),
    "two rows with the values of a pet": Case(
        "misplaced-id",
        [row(BEN, id=1), row(BEN, id=3), D],
        ["Write 2 into only one of Pets!A2, Pets!A3"],
        [
            ([B, row(BEN, id=3, **UPDATE), D], "update"),
            ([row(BEN, id=1, **UPDATE), B, D], "update"),
        ],
    ),
    "values of a pet whose id has another row": Case(
        "misplaced-id",
        [row(BEN, id=1), row(DOT, id=3), row(DOT, **ZED)],
        ["Move the id 4 from Pets!A4 into the id cell", "Move the id to Pets!A3"],
        [
            ([B, D, without_id(DOT, **ZED)], "add"),
            ([B, row(DOT, id=3, **UPDATE), row(DOT, **ZED, **UPDATE)], "update update"),
        ],
    ),
    "values of a pet that has its row": Case(
        "misplaced-id",
        [row(BEN, id=1), row(DOT, id=3), row(DOT, **SOLD)],
        ["Write 2 into the id cell", "Write the values of pet 3 into the row again"],
        [
            ([B, C, row(DOT, **SOLD)], "update"),
            ([B, row(DOT, id=3, **UPDATE), row(DOT, **SOLD)], "update update"),
        ],
    ),
    "old values in a new row": Case(
        "misplaced-id",
        [A, row(BEN, **ZED), without_id(BEN), C, D],
        ["Move the id to Pets!A4", "Move the id here from Pets!A3", "`update`", "`add-another`"],
        [
            ([A, without_id(BEN, **ZED), B, C, D], "add"),
            ([A, row(BEN, **ZED, **UPDATE), without_id(BEN, **ANOTHER), C, D], "add update"),
        ],
    ),
    "both changed": Case(
        "both-changed",
        [row(ANN, name="Anna")],
        ["Write it into the sheet"],
        [([row(ANN, name="Anne")], "")],
        store=(replace(ANN, name="Anne"), *SHOP[1:]),
    ),
}


@pytest.mark.parametrize("removed", range(3))
@pytest.mark.parametrize("is_deleting", [False, True])
def test_a_new_row_at_the_end_is_no_lost_one(removed: int, is_deleting: bool) -> None:
    """If a row was removed and another one is typed at the end, it is a new pet, also with all
    values of the removed one but the name.
    """
    rows = [A, B, C, D]
    gone = rows.pop(removed)
    sheet = sheet_saying(*rows, {**gone, "id": None, "name": "Otto"}, base=base_of(SHOP))
    plan = plan_of(SHOP, sheet, delete_missing=is_deleting)
    assert not plan.conflicts
    assert [each.kind for each in plan.changes] == ["add", "delete"][: 1 + is_deleting]


def test_a_renamed_row_of_a_plain_pet_without_its_id_is_a_conflict() -> None:
    """A pet with a name and a status is not added again under another name in its place."""
    plain = [Pet(id=n, name=f"Pet {name}", status="sold") for n, name in enumerate("abc", 1)]
    rows = [{"id": pet.id, "name": pet.name, "status": pet.status} for pet in plain]
    rows[1] |= {"id": None, "name": "Otto"}
    (conflict,) = plan_of(plain, sheet_saying(*rows, base=base_of(plain))).conflicts
    assert (conflict.rule, conflict.pet_id) == ("lost-id", 2)


def plan_for(case: Case, rows: Sequence[Row]) -> Plan:
    """Return the plan of these rows."""
    base = base_of(SHOP) if case.is_export else None
    return plan_of(case.store, sheet_saying(*rows, base=base), **case.options)


@pytest.mark.parametrize("name", CASES)
def test_advice_can_be_followed(name: str) -> None:
    """Each part of the advice, followed literally, ends all conflicts, and the plan has no other
    changes than the advice says.
    """
    case = CASES[name]
    conflicts = plan_for(case, case.rows).conflicts
    assert {each.rule for each in conflicts} == {case.rule}
    advice = " ".join(each.suggestion for each in conflicts)
    for part in case.advice:
        assert part in advice
    for rows, kinds in case.ways:
        ids = [each["id"] for each in rows if each.get("id") is not None]
        assert len(ids) == len({*ids})
        plan = plan_for(case, rows)
        assert not plan.conflicts
        assert [each.kind for each in plan.changes] == kinds.split()
