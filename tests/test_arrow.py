"""Pets to an Arrow table and back, beside the DataFrame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import pets

from petsync.errors import ResponseError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.protocol import json
from petsync.table import frame as frames
from petsync.table.arrow import (
    SCHEMA,
    PetTable,
    frame_from_table,
    table_from_frame,
    table_from_json,
    table_from_pets,
)
from petsync.table.frame import frame_from_pets, pets_from_frame

ODD = Pet(
    id=MAX_ID,
    name="",
    category=Category(None, "", {"shelf": [1, None]}),
    tags=(Tag(0, None), Tag(None, "shy", {"colour": "red"}), Tag(2**53 + 1, "")),
    photo_urls=("", "http://a/b.png"),
    extra={"weight": 1.5, "note": {"by": "me"}},
)


@given(st.lists(pets(), max_size=6))
def test_pets_come_back_as_they_were(several: list[Pet]) -> None:
    """Pets to table to DataFrame to pets loses nothing, in both directions."""
    table = table_from_pets(several)
    assert table.schema == SCHEMA
    frame = frame_from_table(table)
    assert pets_from_frame(frame) == several
    assert table_from_frame(frame).equals(table)


@given(st.lists(pets(), max_size=6))
def test_json_and_pets_give_the_same_table(several: list[Pet]) -> None:
    """The strict decoder and the careful one build the same table."""
    body = json.encode_pets(several)
    careful = table_from_pets(json.decode_pets_carefully(body))
    assert table_from_json(body, copies=True).equals(careful)


@pytest.mark.parametrize("several", [[], [Pet()], [ODD], [ODD, Pet(id=1), ODD]])
def test_unusual_pets_come_back(several: list[Pet]) -> None:
    """No pet, empty pets and unknown fields at every level come back as they were."""
    table = table_from_json(json.encode_pets(several), copies=True)
    assert pets_from_frame(frame_from_table(table)) == several
    assert frame_from_table(table).dtypes.equals(frame_from_pets(several).dtypes)


def test_many_pets_are_the_same_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and the tags of many pets give the same frame as pets one by one."""
    tags = [Tag(n % 7 or None, f"tag {n % 11}" if n % 5 else None) for n in range(5_000)]
    several = [
        Pet(
            id=n,
            name=None if n % 13 == 0 else f"Zoë {n}",
            tags=tuple(tags[n : n + n % 4]),
            photo_urls=tuple(f"http://a/{k}" for k in range(n % 3)),
        )
        for n in range(4_500)
    ]
    table = table_from_json(json.encode_pets(several))
    assert [table[name].num_chunks for name in table.column_names] == [1] * len(SCHEMA)
    assert pets_from_frame(frame_from_table(table)) == several
    part = table.slice(1_000, 30)
    assert pets_from_frame(frame_from_table(part)) == several[1_000:1_030]
    joined = pa.concat_tables([part, table])
    assert pets_from_frame(frame_from_table(joined)) == [*several[1_000:1_030], *several]
    monkeypatch.setattr(frames, "FEW", 0)
    assert pets_from_frame(frame_from_table(part)) == several[1_000:1_030]


def test_a_pet_that_is_listed_twice_is_one_row() -> None:
    """Of several copies of a pet the last one stays, and all pets without an id."""
    body = json.encode_pets([Pet(id=1, name="a"), Pet(id=2), Pet(id=1, name="b"), Pet(), Pet()])
    assert table_from_json(body)["id"].to_pylist() == [2, 1, None, None]
    assert table_from_json(body)["name"].to_pylist() == [None, "b", None, None]
    assert table_from_json(body, copies=True)["id"].to_pylist() == [1, 2, 1, None, None]


def test_the_bad_pet_of_a_late_batch_is_named() -> None:
    """A pet that cannot be read is named, wherever it is in the list."""
    body = json.encode_pets([Pet(id=n) for n in range(3_000)])[:-1] + b',{"id":"x"}]'
    with pytest.raises(ResponseError, match="pet 3001 of 3001"):
        table_from_json(body)


def test_a_frame_may_lack_columns_and_hold_names() -> None:
    """A missing column is null, a missing list stays missing, and a tag may be a name."""
    frame = pd.DataFrame({"id": pd.array([1, 2], "Int64"), "tags": [["shy", Tag(3, "calm")], None]})
    table = table_from_frame(frame)
    assert table.schema == SCHEMA
    assert table["tags"].to_pylist() == [["shy", "calm"], None]
    assert table["tag_ids"].to_pylist() == [[None, 3], None]
    assert table["name"].to_pylist() == table["photo_urls"].to_pylist() == [None, None]
    back = frame_from_table(table)
    assert back["tags"].tolist() == [[Tag(None, "shy"), Tag(3, "calm")], None]


def test_a_frame_that_somebody_changed_is_what_the_table_has() -> None:
    """A PetTable keeps the table until its frame is used; then the frame counts, changes too."""
    table = table_from_pets([ODD])
    of_table = PetTable(table)
    assert of_table.table is table
    assert of_table.frame is of_table.frame
    assert of_table.table.equals(table)
    of_table.frame.loc[0, "name"] = "Rex"
    assert of_table.table["name"].to_pylist() == ["Rex"]
    of_frame = PetTable(frame=frame_from_pets([ODD, ODD]))
    assert len(of_frame) == len(of_frame.table) == 2
    assert len(of_table) == 1
    with pytest.raises(TypeError, match="either a table or a frame"):
        PetTable()


def test_frames_with_and_without_unknown_fields_can_be_joined() -> None:
    """A row whose `extra` is NaN after a join keeps the unknown fields of its tags."""
    odd_tag = Pet(id=2, tags=(Tag(1, "t", {"c": 1}),))
    frame = pd.concat([frame_from_pets([ODD]), frame_from_pets([odd_tag])], ignore_index=True)
    assert pets_from_frame(frame_from_table(table_from_frame(frame))) == [ODD, odd_tag]


@pytest.mark.parametrize("value", [5, None, {"a": {}}, {"0": {"c": 1}}, [{"x": 1}, {}]])
def test_an_unknown_field_of_any_name_is_kept(value: object) -> None:
    """No name of an unknown field has a meaning of its own."""
    pet = Pet(id=1, tags=(Tag(1, "t", {"c": 1}),), extra={"(tags)": value})
    for several in ([pet], [Pet(id=1, extra={"(tags)": value})]):
        table = table_from_json(json.encode_pets(several))
        assert pets_from_frame(frame_from_table(table)) == several


def test_arrays_and_missing_items_of_a_frame_are_lists() -> None:
    """A frame that pandas read from a Parquet file has arrays; an item may be missing."""
    urls = [np.array(["u", "v"], dtype=object), ["u", None]]
    frame = pd.DataFrame({"photo_urls": urls, "tags": [np.array(["a"], dtype=object), ["b", None]]})
    table = table_from_frame(frame)
    assert table["photo_urls"].to_pylist() == [["u", "v"], ["u", None]]
    assert table["tags"].to_pylist() == [["a"], ["b", None]]
