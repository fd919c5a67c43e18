"""Pets to a DataFrame and back."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import pets

from petsync.errors import ResponseError
from petsync.models import MAX_ID, Pet, Tag
from petsync.protocol import json
from petsync.table.columns import COLUMNS
from petsync.table.decode import frame_from_json
from petsync.table.dtypes import TEXT
from petsync.table.frame import frame_from_pets, list_values, pets_from_frame, texts


@given(st.lists(pets(), max_size=5))
def test_pets_come_back_as_they_were(several: list[Pet]) -> None:
    """Pet to row to pet loses nothing: ids, missing and empty text, order, unknown fields."""
    assert pets_from_frame(frame_from_pets(several)) == several


@given(st.lists(pets(), max_size=5, unique_by=lambda pet: id(pet) if pet.id is None else pet.id))
def test_bytes_become_the_same_table_as_pets(several: list[Pet]) -> None:
    """The direct way from JSON to a frame gives the same pets as the way through objects."""
    frame = frame_from_json(json.encode_pets(several))
    assert pets_from_frame(frame) == several


def test_the_columns_have_exact_dtypes() -> None:
    """The columns are Int64, texts and lists, for an empty store too."""
    for frame in (frame_from_pets([]), frame_from_pets([Pet(id=MAX_ID, tags=(Tag(1, "a"),))])):
        assert tuple(frame) == COLUMNS
        assert [*frame.dtypes] == ["Int64", TEXT, TEXT, TEXT, "Int64", "object", "object"]


def test_texts_have_the_dtype_of_pandas_3() -> None:
    """A column of texts is `str`, with NaN for a missing one; pandas 2.2 names it `string`."""
    column = pd.Series(texts(["Rex", None]))
    assert str(column.dtype) == ("string" if pd.__version__.startswith("2.2.") else "str")
    assert column.dtype == TEXT
    assert column.tolist() == ["Rex", pytest.approx(np.nan, nan_ok=True)]
    assert (column != "Rex").tolist() == [False, True]


def test_the_largest_id_is_exact() -> None:
    """No id ever passes through a float."""
    frame = frame_from_pets([Pet(id=MAX_ID), Pet(), Pet(id=2**53 + 1)])
    assert frame["id"].tolist() == [MAX_ID, pd.NA, 2**53 + 1]


def test_a_pet_that_is_there_twice_is_one_row() -> None:
    """A pet that is listed twice is one row, and the later entry counts."""
    body = json.encode_pets([Pet(id=1, name="a"), Pet(id=2), Pet(id=1, name="b"), Pet(), Pet()])
    assert pets_from_frame(frame_from_json(body)) == [Pet(id=2), Pet(id=1, name="b"), Pet(), Pet()]


def test_columns_that_are_not_there_are_empty() -> None:
    """A missing column is empty: a table of ids and names is enough to make pets."""
    frame = pd.DataFrame({"id": pd.array([1], "Int64"), "name": ["Rex"]})
    assert pets_from_frame(frame) == [Pet(id=1, name="Rex")]


def test_the_garbage_collector_is_as_it_was() -> None:
    """Loading pauses the garbage collector, and enables it again even after a failure."""
    assert gc.isenabled()
    frame_from_json(b"[]")
    with pytest.raises(ResponseError):
        frame_from_json(b"[1]")
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["a", None, "ß"], TEXT),
        (["a", None], pd.StringDtype("pyarrow")),
        (["a", None], pd.StringDtype("python")),
        ([1, None, 2**62 + 1], pd.ArrowDtype(pa.int64())),
        ([1.5, None], pd.ArrowDtype(pa.float64())),
        ([["a", None], [], None], pd.ArrowDtype(pa.list_(pa.string()))),
        ([[1, None], None], pd.ArrowDtype(pa.large_list(pa.int64()))),
        ([pd.Timestamp("2026-01-01"), None], pd.ArrowDtype(pa.timestamp("ns"))),
        ([[pd.Timestamp("2026-01-01")]], pd.ArrowDtype(pa.list_(pa.timestamp("ns")))),
        ([1, None], "Int64"),
        ([["a"], None, 1.5, "b"], "object"),
    ],
)
def test_values_are_those_of_tolist(values: list[Any], dtype: Any) -> None:
    """The fast way to a column's values gives the same values, of the same types."""
    column = pd.Series(values, dtype=dtype)
    found, expected = list_values(column), column.tolist()
    assert [*map(repr, found)] == [*map(repr, expected)]
    assert [*map(type, found)] == [*map(type, expected)]
