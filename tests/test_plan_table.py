"""The merge table of export, sheet and store: every case of it, for every unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace
from shop import base_of, plan_of, sheet_saying
from triples import row_of

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Clash, Conflict, Update
from petsync.plan.plan import Plan

SHY, OLD, CALM = Tag(1, "shy"), Tag(2, "old"), Tag(3, "calm")
DOGS, CATS, BIRDS = Category(1, "Dogs"), Category(2, "Cats"), Category(3, "Birds")
REX = Pet(
    id=1,
    name="Rex",
    status="available",
    category=DOGS,
    tags=(SHY,),
    photo_urls=("a", "b", "c"),
    extra={"chip": 7},
)
OTHERS = [
    Pet(id=50 + n, name=f"other {n}", status="sold", category=category, tags=(SHY, OLD, CALM))
    for n, category in enumerate((DOGS, CATS, BIRDS))
]


@dataclass(frozen=True)
class Unit:
    """A unit with the sheet's edit, the store's edit and the clash of both."""

    name: Any
    columns: tuple[str, ...]
    by_sheet: Any
    by_store: Any
    clash: Clash | None

    def __str__(self) -> str:
        return str(self.name)

    def of_sheet(self, pet: Pet = REX) -> Pet:
        """Return the pet with the sheet's edit."""
        return replace(pet, **{self.name: self.by_sheet})

    def of_store(self, pet: Pet = REX) -> Pet:
        """Return the pet with the store's edit."""
        return replace(pet, **{self.name: self.by_store})


UNITS = [
    Unit(
        "name", ("name",), "Max", "Bello",
        Clash(column="name", base="Rex", sheet="Max", store="Bello"),
    ),
    Unit(
        "status", ("status",), "sold", "pending",
        Clash(column="status", base="available", sheet="sold", store="pending"),
    ),
    Unit(
        "category", ("category", "category_id"), CATS, BIRDS,
        Clash(column="category", base="Dogs (1)", sheet="Cats (2)", store="Birds (3)"),
    ),
    Unit("tags", ("tags",), (OLD,), (CALM,), None),
    Unit(
        "photo_urls", ("photo_urls",), ("b", "a", "c"), ("c", "b", "a"),
        Clash(column="photo_urls", base="a\nb\nc", sheet="b\na\nc", store="c\nb\na"),
    ),
]  # fmt: skip
every_unit = pytest.mark.parametrize("unit", UNITS, ids=str)
clashing_units = pytest.mark.parametrize("unit", [u for u in UNITS if u.clash], ids=str)
both_winners = pytest.mark.parametrize("winner", ["store", "sheet"])


def plan(row: Pet | dict[str, Any] | None, store: Pet | None, **options: Any) -> Plan:
    """Return the plan for one row, exported as REX, beside unchanged pets."""
    line = row_of(row) if isinstance(row, Pet) else row
    lines = [line] if line is not None else []
    base = options.pop("base", [REX, *OTHERS])
    more = {"ids_elsewhere": options.pop("ids_elsewhere", {})}
    more["base"] = None if base is None else base_of(base)
    sheet = sheet_saying(*lines, *map(row_of, OTHERS), **more)
    return plan_of([*([store] if store else []), *OTHERS], sheet, **options)


def changes_nothing(made: Plan, *, unchanged: int = 1) -> bool:
    """Return true if a plan leaves the store unchanged and has no conflict."""
    assert (made.changes, made.conflicts) == ((), ())
    return made.in_sync and made.unchanged == unchanged + len(OTHERS)


def update(made: Plan) -> Update:
    """Return the only change of a plan, which is an update."""
    (change,) = made.changes
    assert isinstance(change, Update)
    return change


def conflict(made: Plan) -> Conflict:
    """Return the only conflict of a plan."""
    (one,) = made.conflicts
    return one


class TestSame:
    """Base to sheet: same. Base to store: any. Result: nothing."""

    @both_winners
    def test_and_the_store_is_the_same(self, winner: str) -> None:
        """An unedited row of an unchanged pet changes nothing."""
        assert changes_nothing(plan(REX, REX, on_conflict=winner))

    @both_winners
    @every_unit
    def test_and_the_store_changed(self, unit: Unit, winner: str) -> None:
        """The store's change stays, whichever side wins, and the row counts as older."""
        made = plan(REX, unit.of_store(), on_conflict=winner)
        assert changes_nothing(made)
        assert made.older == (2,)

    @both_winners
    def test_and_the_pet_is_gone(self, winner: str) -> None:
        """A pet that is gone is not added again by its unedited row."""
        made = plan(REX, None, on_conflict=winner, delete_missing=True)
        assert changes_nothing(made)
        assert made.deleted_in_store == (2,)

    @every_unit
    def test_where_a_cell_is_blank_the_store_s_value_stays(self, unit: Unit) -> None:
        """A blank cell in one or all columns of the unit leaves the store's value unchanged."""
        for columns in {unit.columns[:1], unit.columns[1:], unit.columns}:
            line = row_of(REX) | dict.fromkeys(columns)
            assert changes_nothing(plan(line, unit.of_store()))

    @every_unit
    def test_where_a_column_is_missing_the_store_s_value_stays(self, unit: Unit) -> None:
        """A missing column leaves the store's value unchanged."""
        line = {name: value for name, value in row_of(REX).items() if name not in unit.columns}
        others = [{n: v for n, v in row_of(p).items() if n not in unit.columns} for p in OTHERS]
        sheet = sheet_saying(line, *others, base=base_of([REX, *OTHERS]))
        made = plan_of([unit.of_store(), *OTHERS], sheet, on_conflict="sheet")
        assert changes_nothing(made)
        assert made.older == ()


class TestChangedAndSame:
    """Base to sheet: changed. Base to store: same. Result: update."""

    @both_winners
    @every_unit
    def test_is_an_update(self, unit: Unit, winner: str) -> None:
        """The update has that unit alone; all other fields of the pet stay identical, unknown ones
        included.
        """
        change = update(plan(unit.of_sheet(), REX, on_conflict=winner))
        assert change.after == unit.of_sheet()
        assert change.fields == unit.columns
        assert (change.before, change.row) == (REX, 2)

    @every_unit
    def test_beside_what_others_changed(self, unit: Unit) -> None:
        """Edits of different units by sheet and store are both kept."""
        for other in UNITS:
            if other != unit:
                now = other.of_store()
                made = plan(unit.of_sheet(), now)
                assert update(made).after == unit.of_sheet(now)
                assert update(made).fields == unit.columns
                assert made.conflicts == ()

    @pytest.mark.parametrize(
        ("cells", "after"),
        [
            ({"tags": []}, replace(REX, tags=())),
            ({"photo_urls": []}, replace(REX, photo_urls=())),
            ({"category": ""}, replace(REX, category=None)),
        ],
        ids=["tags", "photo_urls", "category"],
    )
    def test_that_it_is_empty(self, cells: Any, after: Pet) -> None:
        """[clear] is an edit too."""
        assert update(plan(row_of(REX) | cells, REX)).after == after


class TestChangedAlike:
    """Base to sheet: changed. Base to store: changed, equal to the sheet. Result: nothing."""

    @both_winners
    @every_unit
    def test_changes_nothing(self, unit: Unit, winner: str) -> None:
        """If both sides have the same edit, the plan has no change, no conflict and no older
        row.
        """
        made = plan(unit.of_sheet(), unit.of_sheet(), on_conflict=winner)
        assert changes_nothing(made)
        assert made.older == ()

    @pytest.mark.parametrize(
        "now",
        [
            replace(REX, name=" Zoe\u0308 "),
            replace(REX, status="SOLD "),
            replace(REX, tags=(CALM, OLD)),
            replace(REX, photo_urls=("b", "b", "a", "c", "b")),
            replace(REX, category=Category(2, " Cats", {"note": "x"})),
        ],
        ids=["name", "status", "tags", "photo_urls", "category"],
    )
    def test_but_for_the_spelling(self, now: Pet) -> None:
        """Values that differ only in spelling are equal, and the store's spelling stays."""
        row = replace(
            REX,
            name="Zo\u00eb" if now.name != "Rex" else "Rex",
            status="sold" if now.status != "available" else "available",
            tags=(OLD, CALM) if CALM in now.tags else (SHY,),
            photo_urls=("b", "a", "c") if now.photo_urls[0] == "b" else REX.photo_urls,
            category=CATS if now.category != DOGS else DOGS,
        )
        assert changes_nothing(plan(row, now))


class TestChangedApart:
    """Base to sheet: changed. Base to store: changed to another value. Result: conflict."""

    @clashing_units
    def test_the_store_wins(self, unit: Unit) -> None:
        """By default the store wins: nothing is sent, and the clash is listed with all three
        values.
        """
        made = plan(unit.of_sheet(), unit.of_store())
        assert made.changes == ()
        found = conflict(made)
        assert (found.row, found.pet_id, found.rule) == (2, 1, "both-changed")
        assert found.clashes == (unit.clash,)
        assert (found.winner, found.is_open) == ("store", True)
        assert made.open_conflicts == made.conflicts
        assert not made.in_sync
        assert made.unchanged == len(OTHERS)

    @clashing_units
    def test_the_sheet_wins_if_asked_to(self, unit: Unit) -> None:
        """If the sheet wins, its value is sent, and the clash is still listed."""
        made = plan(unit.of_sheet(), unit.of_store(), on_conflict="sheet")
        assert update(made).after == unit.of_sheet()
        assert update(made).fields == unit.columns
        found = conflict(made)
        assert found.clashes == (unit.clash,)
        assert (found.rule, found.winner, found.is_open) == ("both-changed", "sheet", False)
        assert made.open_conflicts == ()

    @clashing_units
    def test_the_row_s_other_edits_are_sent(self, unit: Unit) -> None:
        """A clash affects its own field only; the other edits of the row are sent."""
        for other in UNITS:
            if other == unit:
                continue
            row, now = other.of_sheet(unit.of_sheet()), unit.of_store()
            kept = plan(row, now)
            assert update(kept).after == other.of_sheet(now)
            assert update(kept).fields == other.columns
            assert conflict(kept).clashes == (unit.clash,)
            taken = plan(row, now, on_conflict="sheet")
            assert update(taken).after == row
            assert set(update(taken).fields) == {*unit.columns, *other.columns}

    def test_all_units_at_once(self) -> None:
        """With clashes in all units, each clash is listed in the order of the table, and tags are
        merged.
        """
        row, now = REX, REX
        for unit in UNITS:
            row, now = unit.of_sheet(row), unit.of_store(now)
        made = plan(row, now)
        assert conflict(made).clashes == tuple(unit.clash for unit in UNITS if unit.clash)
        assert update(made).fields == ("tags",)
        assert set(update(made).after.tags) == {OLD, CALM}
        forced = plan(row, now, on_conflict="sheet")
        assert conflict(forced).clashes == conflict(made).clashes
        assert replace(update(forced).after, tags=()) == replace(row, tags=())
        assert set(update(forced).after.tags) == {OLD, CALM}

    def test_a_value_that_was_cleared_clashes_too(self) -> None:
        """A cleared value clashes with a changed one, on either side."""
        made = plan(row_of(REX) | {"category": ""}, replace(REX, category=CATS))
        (clash,) = conflict(made).clashes
        assert clash == Clash(column="category", base="Dogs (1)", sheet="", store="Cats (2)")
        gone = plan(replace(REX, category=CATS), replace(REX, category=None))
        (clash,) = conflict(gone).clashes
        assert clash == Clash(column="category", base="Dogs (1)", sheet="Cats (2)", store="")

    def test_a_status_is_not_cleared_even_where_the_sheet_wins(self) -> None:
        """A status is never cleared, even if the sheet wins, because no query would find the
        pet.
        """
        line = row_of(REX) | {"status": "", "name": "Max"}
        made = plan(line, replace(REX, status="sold"), on_conflict="sheet")
        assert update(made).after == replace(REX, status="sold", name="Max")
        assert update(made).fields == ("name",)
        clash = conflict(made)
        assert (clash.rule, clash.winner, clash.is_open) == ("both-changed", "store", True)
        assert clash.clashes[0].refused
        assert "--on-conflict" not in clash.suggestion

    def test_a_cleared_status_keeps_no_other_clash_from_being_won(self) -> None:
        """A cleared status keeps the store's value, and the sheet still wins the other clashes of
        the row.
        """
        line = row_of(REX) | {"status": "", "name": "Max"}
        now = replace(REX, status="sold", name="Rexy")
        made = plan(line, now, on_conflict="sheet")
        assert update(made).after == replace(now, name="Max")
        assert [(each.winner, each.clashes[0].column) for each in made.conflicts] == [
            ("sheet", "name"),
            ("store", "status"),
        ]
        chosen = plan(line, now).resolve({(1, "name"): "sheet"})
        assert (chosen.changes, chosen.conflicts) == (made.changes, made.conflicts)


class TestRowRemoved:
    """The row was removed from the sheet."""

    def test_and_the_store_is_the_same(self) -> None:
        """A removed row deletes its unchanged pet only with delete_missing."""
        assert changes_nothing(plan(None, REX), unchanged=0)
        (delete,) = plan(None, REX, delete_missing=True).deletes
        assert (delete.before, delete.why, delete.row) == (REX, "missing", None)

    @both_winners
    @every_unit
    def test_and_the_store_changed(self, unit: Unit, winner: str) -> None:
        """A removed row of a changed pet is a conflict with delete_missing, whichever side wins;
        otherwise nothing happens.
        """
        now = unit.of_store()
        assert changes_nothing(plan(None, now, on_conflict=winner), unchanged=0)
        made = plan(None, now, on_conflict=winner, delete_missing=True)
        assert made.changes == ()
        found = conflict(made)
        assert (found.row, found.pet_id, found.rule) == (None, 1, "removed-changed")
        assert (found.winner, found.clashes) == ("", ())
        assert found.is_open

    def test_and_the_pet_is_gone_too(self) -> None:
        """If row and pet are both gone, nothing is left to do."""
        assert changes_nothing(plan(None, None, delete_missing=True), unchanged=0)

    def test_but_never_was_there(self) -> None:
        """A pet that was not exported does not count as missing."""
        made = plan(None, REX, base=OTHERS, delete_missing=True)
        assert changes_nothing(made, unchanged=0)


class TestGone:
    """Base to sheet: changed. Base to store: gone. Result: conflict."""

    @both_winners
    @every_unit
    def test_an_edited_row_whose_pet_is_gone(self, unit: Unit, winner: str) -> None:
        """An edited row whose pet is gone is a conflict and is not added again, whichever side
        wins.
        """
        made = plan(unit.of_sheet(), None, on_conflict=winner)
        assert made.changes == ()
        found = conflict(made)
        assert (found.row, found.pet_id, found.rule) == (2, 1, "gone-edited")
        assert (found.winner, found.clashes) == ("", ())

    def test_comes_back_by_the_action_add(self) -> None:
        """The action `add` adds the whole row of a pet that is gone."""
        (add,) = plan(row_of(REX) | {"name": "Max", "action": "add"}, None).adds
        assert add.after == replace(REX, name="Max", extra=None)


class TestDelete:
    """The row's action is `delete`."""

    line = row_of(REX) | {"action": "delete"}

    def test_a_pet_that_is_as_it_was(self) -> None:
        """The row's unchanged pet is deleted."""
        (delete,) = plan(self.line, REX).deletes
        assert (delete.before, delete.why, delete.row) == (REX, "asked", 2)

    @both_winners
    @every_unit
    def test_a_pet_that_was_changed(self, unit: Unit, winner: str) -> None:
        """A changed pet is not deleted, whichever side wins; the row is a conflict."""
        made = plan(self.line, unit.of_store(), on_conflict=winner)
        assert made.changes == ()
        assert (conflict(made).rule, conflict(made).pet_id) == ("delete-changed", 1)

    @every_unit
    def test_a_pet_that_was_changed_without_a_base(self, unit: Unit) -> None:
        """Without a base a change of the pet is unknown, and the pet is deleted with its present
        values.
        """
        (delete,) = plan(self.line, unit.of_store(), base=None).deletes
        assert delete.before == unit.of_store()

    def test_a_pet_that_is_gone(self) -> None:
        """If the pet is already gone, the plan is in sync."""
        assert plan(self.line, None).in_sync


class TestWithoutBase:
    """Two-way comparison: sheet and store alone."""

    @both_winners
    @every_unit
    def test_what_differs_is_sent(self, unit: Unit, winner: str) -> None:
        """Without a base a filled cell wins over the store, and is not a conflict."""
        made = plan(unit.of_sheet(), unit.of_store(), base=None, on_conflict=winner)
        assert update(made).after == unit.of_sheet()
        assert update(made).fields == unit.columns
        assert made.conflicts == ()

    @every_unit
    def test_what_is_equal_is_not(self, unit: Unit) -> None:
        """Without a base, equal values give no change and no older row."""
        made = plan(unit.of_sheet(), unit.of_sheet(), base=None)
        assert changes_nothing(made)
        assert made.older == ()

    @every_unit
    def test_a_pet_that_the_base_lacks_is_compared_so_too(self, unit: Unit) -> None:
        """A pet that the base lacks is compared without a base, because its row was added after the
        export.
        """
        made = plan(unit.of_sheet(), unit.of_store(), base=OTHERS)
        assert update(made).after == unit.of_sheet()

    @every_unit
    def test_with_two_way_the_base_is_left_out(self, unit: Unit) -> None:
        """With two_way the base is not used, so an old sheet sends its old values."""
        made = plan(REX, unit.of_store(), two_way=True)
        assert update(made).after == REX


PHOTOS: dict[str, tuple[str, str, str, str]] = {
    # base, sheet, store, merge
    "only the sheet added": ("ab", "abx", "ab", "abx"),
    "only the store added": ("ab", "ab", "abx", "abx"),
    "both added the same": ("a", "ax", "ax", "ax"),
    "both added, at the end": ("a", "ay", "ax", "axy"),
    "both added, at the front": ("a", "ya", "xa", "xya"),
    "both added, in the middle": ("ab", "ayb", "axb", "axyb"),
    "both added, in different places": ("ab", "yab", "abx", "yabx"),
    "several each, at the same place": ("a", "ayz", "awx", "awxyz"),
    "several, one of them the same": ("a", "axy", "azx", "azxy"),
    "to no photos at all": ("", "y", "x", "xy"),
    "one removed here, one there": ("abcd", "acd", "abd", "ad"),
    "both removed the same": ("abc", "ac", "acx", "acx"),
    "both removed all": ("ab", "y", "x", "xy"),
    "the sheet cleared, the store added": ("ab", "", "abx", "x"),
    "the store cleared, the sheet added": ("ab", "aby", "", "y"),
    "the sheet removed, the store added behind it": ("ab", "a", "abx", "ax"),
    "the sheet added behind what the store removed": ("abc", "abyc", "ac", "ayc"),
    "the sheet added at the front, whose neighbour is gone": ("ab", "ayb", "b", "yb"),
    "the sheet turned, the store added": ("ab", "ba", "abx", "bxa"),
    "the store turned, the sheet added": ("ab", "aby", "ba", "bya"),
    "the sheet turned, the store removed": ("abc", "cba", "ab", "ba"),
    "the store turned, the sheet removed": ("abc", "ac", "cba", "ca"),
    "both turned alike, and added": ("ab", "bay", "bax", "baxy"),
    "the sheet moved one, the store another, of which one is left": ("ab", "ba", "a", "a"),
    "duplicates count once": ("aab", "abby", "abax", "abxy"),
}
TURNED_APART: dict[str, tuple[str, str, str]] = {
    "both turned apart": ("abc", "bac", "acb"),
    "both turned apart, and added": ("abc", "bacx", "acby"),
    "both turned apart what is left": ("abcd", "bac", "acb"),
}


def photos(row: str, store: str, base: str, **options: Any) -> Plan:
    """Return the plan for a row whose photos are one letter each."""
    line = row_of(REX) | {"photo_urls": [*row]}
    exported = replace(REX, photo_urls=tuple(base))
    now = replace(REX, photo_urls=tuple(store))
    return plan(line, now, base=[exported, *OTHERS], **options)


@both_winners
@pytest.mark.parametrize(("base", "row", "store", "merge"), PHOTOS.values(), ids=[*PHOTOS])
def test_photos_of_both_sides_are_merged(
    base: str, row: str, store: str, merge: str, winner: str
) -> None:
    """Photos are merged in the order of the side that changed the order; no added photo is lost,
    and no removed one is restored.
    """
    made = photos(row, store, base, on_conflict=winner)
    assert made.conflicts == ()
    after = [change.after.photo_urls for change in made.updates] or [tuple(store)]
    assert after == [tuple(merge)]
    assert bool(made.updates) == (merge != store)


@pytest.mark.parametrize(("base", "row", "store"), TURNED_APART.values(), ids=[*TURNED_APART])
def test_photos_that_both_put_in_another_order_clash(base: str, row: str, store: str) -> None:
    """Photos that both sides put in different orders are a clash."""
    kept = photos(row, store, base)
    assert kept.changes == ()
    assert conflict(kept).clashes == (
        Clash(
            column="photo_urls",
            base="\n".join(base),
            sheet="\n".join(row),
            store="\n".join(store),
        ),
    )
    assert update(photos(row, store, base, on_conflict="sheet")).after.photo_urls == tuple(row)


TAGS: dict[str, tuple[tuple[Tag, ...], tuple[Tag, ...], tuple[Tag, ...], set[Tag]]] = {
    # base, sheet, store, merge
    "one added here, one there": ((SHY,), (SHY, OLD), (SHY, CALM), {SHY, OLD, CALM}),
    "one removed here, one there": ((SHY, OLD, CALM), (SHY, OLD), (OLD, CALM), {OLD}),
    "one added here, one removed there": ((SHY, OLD), (SHY, OLD, CALM), (OLD,), {OLD, CALM}),
    "one removed here, one added there": ((SHY, OLD), (OLD,), (SHY, OLD, CALM), {OLD, CALM}),
    "the same removed by both": ((SHY, OLD), (OLD, CALM), (OLD,), {OLD, CALM}),
    "all cleared here, one added there": ((SHY,), (), (SHY, OLD), {OLD}),
    "one added here, all cleared there": ((SHY,), (SHY, OLD), (), {OLD}),
    "by name alone": ((SHY,), (Tag(None, "shy"), Tag(None, "old")), (SHY, CALM), {SHY, OLD, CALM}),
    "by id alone": ((SHY,), (Tag(1), Tag(2)), (SHY, CALM), {SHY, OLD, CALM}),
    "by a new name": ((SHY,), (SHY, Tag(None, "x")), (CALM,), {CALM, Tag(None, "x")}),
    "twice": ((SHY,), (OLD, SHY, Tag(None, "old")), (SHY, CALM), {SHY, OLD, CALM}),
}  # fmt: skip


@both_winners
@pytest.mark.parametrize(("base", "row", "store", "merge"), TAGS.values(), ids=[*TAGS])
def test_tags_of_both_sides_are_merged(
    base: Any, row: Any, store: Any, merge: set[Tag], winner: str
) -> None:
    """Tags of both sides are merged as sets, each once, so they never clash."""
    exported, now = (replace(REX, tags=tags) for tags in (base, store))
    line = row_of(REX) | {"tags": [*row]}
    made = plan(line, now, base=[exported, *OTHERS], on_conflict=winner)
    assert made.conflicts == ()
    after = [change.after.tags for change in made.updates] or [store]
    assert sorted(after[0], key=str) == sorted(merge, key=str)
    assert bool(made.updates) == (merge != set(store))


HOUNDS = Category(1, "Hounds")


def halves() -> Iterator[Any]:
    """Yield a title, the row's two cells, the store's category and the result."""
    yield "no cell edited", ("Dogs", 1), BIRDS, BIRDS
    yield "name edited, store same", ("Cats", 1), DOGS, CATS
    yield "number edited, store same", ("Dogs", 2), DOGS, CATS
    yield "both edited, store same", ("Cats", 2), DOGS, CATS
    yield "name edited, number blank", ("Cats", None), DOGS, CATS
    yield "number edited, name blank", (None, 2), DOGS, CATS
    yield "name edited to the store's", ("Cats", 1), CATS, CATS
    yield "number edited to the store's", ("Dogs", 2), CATS, CATS
    yield "name edited to a new one", ("Fish", 1), DOGS, Category(None, "Fish")
    yield "name cleared, number left", ("", 1), DOGS, None
    yield "name edited, store otherwise", ("Cats", 1), BIRDS, "clash"
    yield "number edited, store otherwise", ("Dogs", 2), BIRDS, "clash"
    yield "name cleared, store otherwise", ("", 1), BIRDS, "clash"
    yield "no cell edited, store's name alone changed", ("Dogs", 1), HOUNDS, HOUNDS
    yield "name edited, store's name alone changed", ("Cats", 1), HOUNDS, "clash"


CASES = list(halves())


@both_winners
@pytest.mark.parametrize(
    ("cells", "now", "after"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_category_s_name_and_number_move_together(
    cells: Any, now: Category, after: Any, winner: str
) -> None:
    """The edited cell of a category decides and the other follows; no name of one side is combined
    with the id of the other.
    """
    line = row_of(REX) | {"category": cells[0], "category_id": cells[1]}
    made = plan(line, replace(REX, category=now), on_conflict=winner)
    if after == "clash":
        assert [clash.column for clash in conflict(made).clashes] == ["category"]
        meant = None if cells[0] == "" else CATS
        after = now if winner == "store" else meant
    else:
        assert made.conflicts == ()
    result = [change.after.category for change in made.updates] or [now]
    assert result == [after]
    assert bool(made.updates) == (after != now)


def test_an_unknown_number_alone_is_a_conflict() -> None:
    """An unknown category id without its name is a conflict that holds back the row's other edits,
    because it would remove the category's name.
    """
    made = plan(row_of(REX) | {"category_id": 999, "name": "Max"}, REX)
    assert made.changes == ()
    assert conflict(made).rule == "no-category-name"


class TestRowInAnotherWorksheet:
    """The row is in another worksheet of the file, or may be."""

    @pytest.mark.parametrize("base", [[REX, *OTHERS], None])
    @pytest.mark.parametrize("ids", [frozenset({1, 7}), None])
    def test_its_pet_is_not_missing(
        self, ids: frozenset[int] | None, base: list[Pet] | None
    ) -> None:
        """With delete_missing, the pet is a conflict that names the other worksheet; otherwise
        nothing happens.
        """
        more = {"base": base, "ids_elsewhere": {"For Anna": ids}}
        assert changes_nothing(plan(None, REX, **more), unchanged=0)
        made = plan(None, REX, delete_missing=True, **more)
        assert made.changes == ()
        found = conflict(made)
        assert (found.row, found.pet_id, found.rule) == (None, 1, "other-worksheet")
        assert "'For Anna'" in found.problem
        assert "--sheet" in found.suggestion

    def test_a_pet_that_no_worksheet_names_is(self) -> None:
        """A pet that is in no worksheet is deleted."""
        more = {"ids_elsewhere": {"For Anna": frozenset({50})}}
        (delete,) = plan(None, REX, delete_missing=True, **more).deletes
        assert delete.pet_id == 1
