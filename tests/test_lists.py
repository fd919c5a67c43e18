"""Columns of lists as Arrow arrays: they have the values of Python lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.sheets import as_edited
from petsync.table import lists
from petsync.table.arrow import PetTable, table_from_pets
from petsync.table.frame import (
    find_rows,
    frame_from_pets,
    is_blank,
    join_rows,
    pets_from_frame,
    plain_values,
)
from petsync.table.lists import (
    Items,
    ListArray,
    count_items,
    have_items,
    lists_of,
    with_python_lists,
)

TAGS = st.builds(Tag, st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "a", "b"]))
URLS = st.sampled_from(["", "u", "v", "w"])
Values = list[list[Any] | None]


def columns(items: st.SearchStrategy[Any], size: int = 5) -> st.SearchStrategy[Values]:
    return st.lists(st.none() | st.lists(items, max_size=3), max_size=size)


ANY = st.one_of(
    st.tuples(columns(TAGS), st.just("tags")), st.tuples(columns(URLS), st.just("urls"))
)


def array_of(values: Values, kind: str) -> ListArray:
    return ListArray(Items.of(values, has_ids=kind == "tags"))


def whole(values: Iterable[Any]) -> Values:
    """Return the lists with each tag as a Tag."""
    return [each and [getattr(item, "tag", item) for item in each] for each in values]


@given(ANY, st.data())
def test_a_column_has_the_values_of_its_lists(column: tuple[Values, str], data: Any) -> None:
    """Slices, masks, positions and joined columns have the same values as Python lists."""
    values, kind = column
    array = array_of(values, kind)
    assert whole(array) == values == whole(plain_values(array))
    assert array.isna().tolist() == [each is None for each in values] == is_blank(array).tolist()
    start, stop = (data.draw(st.integers(-6, 6)) for _ in range(2))
    step = data.draw(st.sampled_from([1, 2, -1]))
    assert whole(array[start:stop:step]) == values[start:stop:step]
    assert whole(array[1:][1:]) == values[1:][1:]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    mask = mask.astype(bool)
    assert whole(array[mask]) == [each for each, is_in in zip(values, mask, strict=True) if is_in]
    if values:
        places = data.draw(st.lists(st.integers(-len(values), len(values) - 1), max_size=6))
        assert whole(array.take(places)) == [values[n] for n in places]
        at_most = [max(n, -1) for n in places]
        filled = [None if n < 0 else values[n] for n in at_most]
        assert whole(array.take(at_most, allow_fill=True)) == filled
        first = places[0] if places else 0
        assert whole([array[first]]) == [values[first]]
    joined = pd.concat([pd.Series(array), pd.Series(array[:2])], ignore_index=True)
    assert isinstance(joined.array, ListArray)
    assert whole(joined) == [*values, *values[:2]]
    mixed = pd.concat([pd.Series(array), pd.Series(lists_of([["x"]]))], ignore_index=True)
    assert whole(mixed) == [*values, ["x"]]


@given(ANY, st.data())
def test_columns_are_searched_as_their_lists(column: tuple[Values, str], data: Any) -> None:
    """Counts, numbers of equal lists, differences and masks are those of the Python lists."""
    values, kind = column
    array = array_of(values, kind)[:]
    flat = [item for each in values for item in each or ()]
    assert count_items(array) == Counter(flat)
    assert list(count_items(array)) == list(Counter(flat))
    assert count_items(pd.Series(lists_of(values)).array) == Counter(flat)
    numbers = array.items.encode().tolist()
    keys = [tuple(each or ()) for each in values]
    assert [n == m for n in numbers for m in numbers] == [n == m for n in keys for m in keys]
    wanted = {item for item in flat if data.draw(st.booleans())}
    has = [not wanted.isdisjoint(each or ()) for each in values]
    for same in (array, pd.Series(lists_of(values)).array):
        assert have_items(same, wanted.__contains__).tolist() == has
    others = data.draw(
        st.lists(
            st.none() | st.lists(TAGS if kind == "tags" else URLS, max_size=3),
            min_size=len(values),
            max_size=len(values),
        )
    )
    differs = [(one or []) != (other or []) for one, other in zip(values, others, strict=True)]
    items = array_of(others, kind).items
    assert array.items.differ(items).tolist() == differs
    last = len(values) - 1
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, last)] * 2)) if values else st.just([]))
    at, places = (np.array([pair[n] for pair in pairs], dtype=np.intp) for n in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "_BLOCK", 3)
        found = array.items.differ_at(at, items, places).tolist()
    assert found == [(values[one] or []) != (others[other] or []) for one, other in pairs]
    replaced = data.draw(st.sets(st.integers(0, len(values) - 1))) if values else set()
    new = array.items.replace({at: others[at] for at in replaced}) if replaced else array.items
    result = [others[n] if n in replaced else each for n, each in enumerate(values)]
    assert whole(new.to_lists()) == result


@given(st.lists(st.integers(2, 9)), st.sets(st.integers(0, 11)), st.booleans())
def test_rows_are_found_by_number(numbers: list[int], wanted: set[int], is_sorted: bool) -> None:
    """The positions of rows are found in any order of the rows."""
    index = pd.Index(sorted({*numbers}) if is_sorted else numbers, dtype=np.int64)
    expected = [n for n, number in enumerate(index.tolist()) if number in wanted]
    assert find_rows(pd.DataFrame(index=index), wanted).tolist() == expected


def test_the_items_of_missing_lists_do_not_count() -> None:
    """A missing list may have items in an Arrow array: they are no part of the column."""
    values = pa.array(["a", "b", "c", "d"], pa.large_string())
    ends, mask = pa.array([0, 1, 3, 4]), pa.array([False, True, False])
    filled = Items(pa.LargeListArray.from_arrays(ends, values, mask=mask))
    empty = Items.of([["a"], None, ["d"]])
    assert filled.texts.tolist() == empty.texts.tolist() == ["a", "d"]
    assert filled.bounds().tolist() == empty.bounds().tolist() == [0, 1, 1, 2]
    assert not filled.differ(empty).any()
    assert not empty.slice(1, 2).differ(filled.slice(1, 2)).any()
    assert filled.count() == empty.count() == {"a": 1, "d": 1}


def test_equal_tags_are_one_object() -> None:
    """Equal tags share one object, which saves most of their memory."""
    column = array_of([[Tag(1, "a")], [Tag(1, "a"), Tag(2, "a")]], "tags")
    first, second = list(column)
    assert first[0] is second[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.at[0, "tags"].append(Tag(9, "new")),
        lambda frame: frame.__setitem__("tags", [[Tag(1, "a"), Tag(9, "new")]]),
    ],
)
def test_changes_of_a_frame_are_noticed(change: Callable[[pd.DataFrame], None]) -> None:
    """A user may change the frame of pets. The pets are unchanged, and know of the change."""
    pets = PetTable(table_from_pets([Pet(id=1, tags=(Tag(1, "a"),), photo_urls=("u",))]))
    assert isinstance(pets.rows["tags"].array, ListArray)
    frame = pets.frame
    assert frame.dtypes.equals(frame_from_pets([Pet(id=1)]).dtypes)
    assert not pets.is_edited
    change(frame)
    assert pets.is_edited
    assert pets.frame is frame
    assert [tag.name for tag in frame.at[0, "tags"]] == ["a", "new"]
    assert pets_from_frame(pets.rows)[0].tags == (Tag(1, "a"),)
    assert pets.table["tags"].to_pylist() == [["a"]]


@pytest.mark.parametrize("name", ["name", "status", "category"])
def test_texts_that_are_assigned_again_are_no_change(name: str) -> None:
    """A user who assigns the same texts, in a column of any dtype, has changed nothing."""
    pets = [Pet(id=n, name="Rex", category=Category(1, "Dogs")) for n in (1, 2)]
    table = PetTable(table_from_pets([*pets, Pet(id=3)]))
    table.frame[name] = table.frame[name].astype(object)
    assert not table.is_edited
    table.frame[name] = "Max"
    assert table.is_edited


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("others", [[], [None, None], [["b"], None]])
def test_rows_are_joined_whatever_their_lists_are(others: Values, order: int) -> None:
    """Rows with Arrow lists are joined with rows with Python lists, even missing ones or none."""
    arrays = pd.DataFrame({"id": 1, "tags": array_of([[Tag(1, "a")], None], "tags")})
    objects = pd.DataFrame({"id": 2, "tags": pd.Series(others, dtype=object)})
    rows = join_rows([arrays, objects][::order])
    assert sorted(rows["id"]) == [1, 1] + [2] * len(others)
    found = {each: rows["tags"][rows["id"] == each].tolist() for each in (1, 2)}
    assert found == {1: [[Tag(1, "a")], None], 2: others}


def test_a_frame_with_unknown_fields_is_edited_only_if_it_was_changed() -> None:
    """Tags with unknown fields are Python objects: reading them is no change, adding one is."""
    pets = PetTable(table_from_pets([Pet(id=1, tags=(Tag(1, "a", {"x": 1}),)), Pet(id=2)]))
    assert pets.frame["tags"].iloc[0] == ["a"]
    assert not pets.is_edited
    pets.frame["tags"].iloc[0].append("b")
    assert pets.is_edited
    assert pets_from_frame(pets.rows)[0].tags == (Tag(1, "a", {"x": 1}),)


def test_a_sheet_that_a_user_edits_in_python_is_planned_so(tmp_path: Path) -> None:
    """An edit in `sheet.frame` is in the plan of the sheet, also after an earlier plan."""
    path = tmp_path / "pets.csv"
    with ps.demo() as store:
        ps.write_sheet(store.snapshot(), path)
        sheet = ps.read_sheet(path)
        assert not store.plan(sheet).changes
        sheet.frame.at[sheet.frame.index[0], "tags"] = [Tag(None, "brand new")]
        (change,) = store.plan(sheet).changes
        assert change.after is not None
        assert [tag.name for tag in change.after.tags] == ["brand new"]


@pytest.mark.parametrize(
    "tags",
    [("new",), [Tag(None, "new")], np.array(["new"], dtype=object), ["new"]],
    ids=["tuple", "list", "array", "text"],
)
def test_lists_of_any_kind_in_a_sheet_s_frame_are_planned(tmp_path: Path, tags: Any) -> None:
    """Whatever a user sets as a list in `sheet.frame` is planned, also if an earlier plan has read
    the sheet, and a cell has the marker.
    """
    path = tmp_path / "pets.csv"
    with ps.demo() as store:
        frame = store.snapshot().frame.head(5)
        ps.write_sheet(frame, path, base=store.snapshot())
        sheet = ps.read_sheet(path)
        sheet.frame.at[sheet.frame.index[0], "category"] = "[clear]"
        assert len(store.plan(sheet).changes) == 1
        sheet.frame["tags"] = pd.Series([tags] * 5, sheet.frame.index, dtype=object)
        plan = store.plan(sheet)
        assert {each.pet_id for each in plan.changes} == {*frame["id"]}
        for change in plan.changes:
            assert change.after is not None
            assert [tag.name for tag in change.after.tags] == ["new"]


def test_a_frame_that_a_user_edits_is_validated_again(tmp_path: Path) -> None:
    """The edits in the frame count, although a status that only the store knows blocks a row."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name,status\n1,Rex,adopted\n2,Tom,sold\n", "utf-8")
    with ps.demo() as store:
        sheet = ps.read_sheet(path)
        sheet.frame.at[sheet.frame.index[0], "name"] = "Brand new"
        names = [each.after.name for each in store.plan(sheet).changes if each.after]
    assert "Brand new" in names


def test_a_frame_that_a_user_only_reads_is_validated_again(tmp_path: Path) -> None:
    """A look at `sheet.frame` is no edit: the sheet can still learn the statuses of a store."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name,status,tags,photo_urls\n1,Rex,adopted,a;b,\n2,Tom,sold,,u\n", "utf-8")
    sheet = ps.read_sheet(path)
    assert (len(sheet.frame), sheet.frame["tags"].tolist(), as_edited(sheet) is sheet) == (
        len(sheet),
        [None],
        True,
    )
    known = as_edited(sheet).with_statuses(["adopted"])
    assert known.frame["status"].tolist() == ["adopted", "sold"]


def test_a_column_of_lists_refuses_what_is_not_one() -> None:
    """A column cannot be changed, and is made of lists only."""
    column = array_of([["a"]], "urls")
    with pytest.raises(NotImplementedError):
        column[0] = ["b"]
    with pytest.raises(IndexError):
        column.take([1])
    plain = pd.DataFrame({"n": [1]})
    assert with_python_lists(plain) is plain
