"""A DataFrame as a sheet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import plan_of
from strategies import ids, pets

from petsync.errors import SheetError
from petsync.model import MAX_ID, Pet, Tag
from petsync.sheets import sheet_from_frame
from petsync.table.frame import frame_from_pets

PLAIN = pets(extra=st.none(), pet_ids=ids).filter(lambda pet: bool((pet.name or "").strip()))


@given(st.lists(PLAIN, max_size=4, unique_by=lambda pet: pet.id))
def test_a_table_from_the_store_says_what_the_store_says(store: list[Pet]) -> None:
    """Whatever the pets hold, their own table plans as nothing to do."""
    known = {pet.status for pet in store if pet.status}
    sheet = sheet_from_frame(frame_from_pets(store), known_statuses=known)
    plan = plan_of(store, sheet)
    assert plan.changes == ()


def test_missing_says_nothing_and_empty_clears() -> None:
    """NaN, None, NA and NaT are silent; an empty text or list empties the field."""
    frame = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "status": [np.nan, None, pd.NA],
            "category": ["", "Dogs", pd.NaT],
            "tags": [[], ["shy", Tag(3, "old")], "shy; 3:old"],
            "photo_urls": [None, ["a", "b"], "a | b"],
        }
    )
    said = sheet_from_frame(frame).frame
    assert said["status"].isna().all()
    assert said["category"].tolist()[:2] == ["", "Dogs"]
    assert said["tags"].tolist() == [[], *[[Tag(None, "shy"), Tag(3, "old")]] * 2]
    assert said["photo_urls"].tolist()[1:] == [["a", "b"]] * 2
    assert said["action"].tolist() == ["merge"] * 3


def test_mistakes_are_found_at_their_row_and_column() -> None:
    """The same rules as in a file; rows are counted from 0."""
    frame = pd.DataFrame(
        {"id": [1, 1.5, 7], "status": ["sold", "sold", "solld"], "Shelf": [1, 2, 3]}
    )
    sheet = sheet_from_frame(frame)
    assert [problem.address for problem in sheet.problems] == ["row 1, id", "row 2, status"]
    assert sheet.blocked == (1, 2)
    assert sheet.others["Shelf"].tolist() == ["1"]


def test_ids_are_exact_and_a_float_that_lost_digits_is_a_finding() -> None:
    """pandas makes floats of ids where one is missing; beyond 2^53 that is damage."""
    exact = pd.DataFrame({"id": pd.array([MAX_ID, 2**53 + 1], "Int64")})
    assert sheet_from_frame(exact).frame["id"].tolist() == [MAX_ID, 2**53 + 1]
    damaged = pd.DataFrame({"id": [float(2**60), 12.0]})
    sheet = sheet_from_frame(damaged)
    assert (sheet.blocked, sheet.frame["id"].tolist()) == ((0,), [12])


def test_a_frame_that_is_no_catalogue_is_refused() -> None:
    """Without a column of petsync's, and with two of one name."""
    with pytest.raises(SheetError, match="no column"):
        sheet_from_frame(pd.DataFrame({"a": [1]}))
    with pytest.raises(SheetError, match="two columns"):
        sheet_from_frame(pd.DataFrame([[1, 2]], columns=["id", "id"]))


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
def test_missing_items_of_a_list_say_nothing(missing: object) -> None:
    """As groupby().agg(list) makes them: they are no tags and no addresses."""
    columns = {"id": [1], "tags": [["shy", missing]], "photo_urls": [[missing]]}
    sheet = sheet_from_frame(pd.DataFrame(columns))
    assert sheet.frame["tags"].tolist() == [[Tag(None, "shy")]]
    assert sheet.frame["photo_urls"].isna().tolist() == [True]


@pytest.mark.parametrize(("column", "item"), [("tags", {"a"}), ("photo_urls", 5)])
def test_items_of_another_kind_are_refused(column: str, item: object) -> None:
    """They would be sent as what Python prints of them."""
    with pytest.raises(SheetError, match=f"column {column} has a list with"):
        sheet_from_frame(pd.DataFrame({"id": [1], column: [[item]]}))


@pytest.mark.parametrize("column", ["name", "tags", "photo_urls"])
def test_half_a_character_is_refused(column: str) -> None:
    """No file and no service could take it."""
    value = "a\ud800" if column == "name" else ["a\ud800"]
    with pytest.raises(SheetError, match=f"column {column} has half a character at position"):
        sheet_from_frame(pd.DataFrame({"id": [1], column: [value]}, dtype=object))
