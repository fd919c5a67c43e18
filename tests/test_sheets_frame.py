"""DataFrames as sheets: missing values, markers, exact ids, indexes and findings."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace as but
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sheetmaking import Stream, with_whole_tags
from shop import NO_LIMITS, plan_of, snapshot_of
from strategies import ids, pets

import petsync as ps
from petsync.differences import diff
from petsync.errors import SettingsError, SheetError
from petsync.models import MAX_ID, Category, Pet, Tag, TagName
from petsync.protocol.json import decode_pets
from petsync.sheets import as_edited, read_sheet, sheet_from_frame, write_sheet
from petsync.table.arrow import PetTable, table_from_pets
from petsync.table.columns import CLEARED
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.sheet import Sheet, rows_of
from petsync.testing import FakeService

pytestmark = pytest.mark.slow

PLAIN = pets(extra=st.none(), pet_ids=ids).filter(lambda pet: bool((pet.name or "").strip()))


@given(st.lists(PLAIN, max_size=4, unique_by=lambda pet: pet.id))
def test_a_table_from_the_store_says_what_the_store_says(store: list[Pet]) -> None:
    """The table of any pets plans no change against these pets."""
    known = {pet.status for pet in store if pet.status}
    sheet = sheet_from_frame(frame_from_pets(store), known_statuses=known)
    plan = plan_of(store, sheet)
    assert plan.changes == ()


def test_missing_says_nothing_and_empty_clears() -> None:
    """NaN, None, NA and NaT leave a field unchanged; an empty text or list clears it."""
    frame = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "status": [np.nan, None, pd.NA],
            "category": ["", "Dogs", pd.NaT],
            "tags": [[], ["shy", Tag(3, "old")], "shy; 3:old"],
            "photo_urls": [None, ["a", "b"], "a | b"],
        }
    )
    rows = sheet_from_frame(frame).frame
    assert rows["status"].isna().all()
    assert rows["category"].tolist()[:2] == ["", "Dogs"]
    assert with_whole_tags(rows["tags"]) == [[], *[[Tag(None, "shy"), Tag(3, "old")]] * 2]
    assert rows["photo_urls"].tolist()[1:] == [["a", "b"]] * 2
    assert rows["action"].tolist() == ["merge"] * 3


def test_the_marker_of_a_cell_is_a_text_only_where_texts_are() -> None:
    """[clear] is a text in a text column and clears a list column; a sheet's frame keeps its
    meaning as a DataFrame.
    """
    frame = pd.DataFrame(
        {"id": [1], "category": ["[clear]"], "tags": ["[clear]"], "photo_urls": ["[Clear]"]}
    )
    rows = sheet_from_frame(frame).frame
    assert rows["category"].tolist() == ["'[clear]"]
    assert rows["tags"].tolist() == rows["photo_urls"].tolist() == [[]]
    assert sheet_from_frame(frame).rows["category"].tolist() == ["[clear]"]
    again = sheet_from_frame(rows)
    assert again.rows["category"].tolist() == ["[clear]"]


CELLS = ["[clear]", "'[clear]", "''[Clear]", "'(clear)", "Dogs", ""]
MEANT = [CLEARED, "[clear]", "'[Clear]", "(clear)", "Dogs"]


def _saved(sheet: Sheet, kind: str, folder: Path) -> Sheet:
    """Return the sheet that is read after the frame was saved in this way."""
    frame, path = sheet.frame, folder / f"saved.{kind.rpartition('.')[2]}"
    match kind:
        case "DataFrame":
            return sheet_from_frame(frame[frame["id"] > 0].drop(columns="action"))
        case "parquet":
            frame.to_parquet(path)
            return sheet_from_frame(pd.read_parquet(path))
        case "read_csv":
            frame.to_csv(path)
            return sheet_from_frame(pd.read_csv(path, dtype={"category": "str"}))
        case "pandas.csv":
            frame.to_csv(path, index=False)
        case "pandas.xlsx":
            frame.to_excel(path)
        case _:
            write_sheet(frame, path)
    return read_sheet(path)


@pytest.mark.parametrize(
    "kind", ["DataFrame", "parquet", "read_csv", "pandas.csv", "pandas.xlsx", "own.csv", "own.xlsx"]
)
def test_a_frame_shows_and_keeps_what_a_cell_clears(kind: str, tmp_path: Path) -> None:
    """A sheet's frame shows a category as in its cell and keeps its meaning in each format: the
    marker clears the field, and no name becomes the marker.
    """
    path = tmp_path / "pets.csv"
    lines = [f"{n},Rex {n},{cell}" for n, cell in enumerate(CELLS, 1)]
    path.write_text("\n".join(["id,name,category", *lines, ""]))
    sheet = read_sheet(path)
    assert sheet.frame["category"].tolist()[:-1] == CELLS[:-1]
    assert sheet.rows["category"].tolist()[:-1] == MEANT
    saved = _saved(sheet, kind, tmp_path)
    assert saved.rows["category"].tolist()[:-1] == MEANT
    assert pd.isna(saved.rows["category"].iloc[-1])


@pytest.mark.parametrize("times", [1, 33, 34, 1_000])
def test_a_category_means_the_same_in_few_rows_and_in_many(times: int) -> None:
    """Markers, texts like them, names and missing values mean the same in few rows and in many."""
    cells = [*CELLS, "[cLeaR]", "'CLEAR]", "Nuclear", "\N{KELVIN SIGN}lear", None]
    meant = [*MEANT, "", CLEARED, "CLEAR]", "Nuclear", "\N{KELVIN SIGN}lear", ""]
    frame = pd.DataFrame({"row": range(times * len(cells)), "category": cells * times})
    assert rows_of(frame)["category"].fillna("").tolist() == meant * times


def test_a_table_of_values_with_a_category_called_like_the_marker_is_in_sync(
    tmp_path: Path,
) -> None:
    """The store's table and its export never clear a category that has the name [clear]."""
    pets = [
        Pet(id=n, name="Rex", status="sold", category=Category(n, name))
        for n, name in enumerate(["[clear]", "'[clear]", "(Clear)"], 1)
    ]
    frame = frame_from_pets(pets)
    write_sheet(frame, tmp_path / "pets.csv")
    for sheet in (sheet_from_frame(frame), read_sheet(tmp_path / "pets.csv")):
        assert plan_of(pets, sheet).in_sync
        assert plan_of(pets, sheet_from_frame(sheet.frame)).in_sync


@pytest.mark.parametrize("column", ["name", "category"])
def test_the_marker_of_a_cell_is_not_written_from_a_frame(column: str) -> None:
    """A DataFrame row with the text [clear] is a conflict, unless its pet has just this text."""
    rex = Pet(id=1, name="Rex", status="sold", category=Category(1, "Dogs"))
    frame = pd.DataFrame({"id": [1, 2], "name": ["Rex", "Tom"], "category": ["Dogs", "Dogs"]})
    frame.loc[0, column] = "[Clear]"
    frame = frame.drop(index=1)
    (conflict,) = plan_of([rex], sheet_from_frame(frame)).conflicts
    assert (conflict.rule, conflict.row, conflict.pet_id) == ("clear-text", 0, 1)
    assert column in conflict.problem
    (pet,) = pets_from_frame(frame.assign(status="sold"))
    assert plan_of([pet], sheet_from_frame(frame)).in_sync


def test_mistakes_are_found_at_their_row_and_column() -> None:
    """The rules of a file apply to a DataFrame; the rows in addresses count from 0."""
    frame = pd.DataFrame(
        {"id": [1, 1.5, 7], "status": ["sold", "sold", "solld"], "Shelf": [1, 2, 3]}
    )
    sheet = sheet_from_frame(frame)
    assert [problem.address for problem in sheet.problems] == ["row 1, id", "row 2, status"]
    assert sheet.blocked == (1, 2)
    assert sheet.others["Shelf"].tolist() == ["1"]


def test_ids_are_exact_and_a_float_that_lost_digits_is_a_finding() -> None:
    """Ids are exact, and a float id beyond 2^53 is a finding."""
    exact = pd.DataFrame({"id": pd.array([MAX_ID, 2**53 + 1], "Int64")})
    assert sheet_from_frame(exact).frame["id"].tolist() == [MAX_ID, 2**53 + 1]
    damaged = pd.DataFrame({"id": [float(2**60), 12.0]})
    sheet = sheet_from_frame(damaged)
    assert (sheet.blocked, sheet.frame["id"].tolist()) == ((0,), [12])


ODD = 2**24 + 1
DICTIONARY = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.float32()))
NARROW = {
    "float32": pd.Series([ODD], dtype="float32"),
    "float16": pd.Series([2049], dtype="float16"),
    "Float32": pd.Series(pd.array([ODD], dtype="Float32")),
    "float32[pyarrow]": pd.Series(pd.array([float(ODD)], dtype="float32[pyarrow]")),
    "halffloat[pyarrow]": pd.Series(pd.array([2049.0], dtype="halffloat[pyarrow]")),
    "category": pd.Series([ODD], dtype="float32").astype("category"),
    "sparse": pd.Series(pd.arrays.SparseArray(np.array([ODD], dtype="float32"))),
    "scalar": pd.Series([np.float32(ODD)], dtype=object),
    "array": pd.Series([np.array(ODD, dtype="float32")], dtype=object),
    "dictionary": pd.Series(
        pd.array(pa.array([float(ODD)], pa.float32()).dictionary_encode(), dtype=DICTIONARY)
    ),
}


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("column", ["id", "category_id"])
def test_a_narrow_float_that_lost_digits_is_a_finding(kind: str, column: str) -> None:
    """An id beyond the exact range of its float32 or float16 is a finding."""
    frame = pd.DataFrame({"id": [7], "status": ["sold"], column: NARROW[kind]})
    (finding,) = sheet_from_frame(frame).problems
    assert (finding.column, finding.rule) == (column, "id-imprecise")
    assert "may be rounded" in finding.problem
    assert "Int64" in finding.suggestion


def test_a_narrow_float_is_a_finding_in_the_index_and_in_a_parquet_file(tmp_path: Path) -> None:
    """Narrow floats are found in an index, in an index level and in a Parquet file."""
    narrow = NARROW["float32"]
    names = pd.DataFrame({"name": ["Odd"]})
    names.assign(id=narrow).to_parquet(tmp_path / "a.parquet")
    two = pd.MultiIndex.from_arrays([narrow, ["a"]], names=["id", "b"])
    for frame in (
        names.set_index(pd.Index(narrow, name="id")),
        names.set_index(two),
        pd.read_parquet(tmp_path / "a.parquet"),
        names.assign(No=narrow).rename(columns={"No": "id"}),
    ):
        assert [each.rule for each in sheet_from_frame(frame).problems] == ["id-imprecise"]


def test_a_narrow_float_below_its_limit_is_exact_and_a_name_of_one_is_judged() -> None:
    """Narrow floats up to the exact limit are read; a name that may be rounded is an error."""
    exact = pd.DataFrame({"id": np.array([2**24 - 1, 12], "float32"), "category_id": [5.0, 6.0]})
    assert sheet_from_frame(exact).frame["id"].tolist() == [2**24 - 1, 12]
    assert sheet_from_frame(pd.DataFrame({"id": [float(ODD)], "name": ["a"]})).problems == ()
    names = pd.DataFrame({"id": [1, 2], "name": np.array([ODD, 7], "float32")})
    rules = [each.rule for each in sheet_from_frame(names).problems]
    assert rules == ["number-imprecise", "number-instead-of-text"]


@pytest.mark.parametrize("wrong", [1.5, float(ODD), np.float16(2049), True, "x"], ids=repr)
def test_the_id_of_a_tag_in_a_list_is_exact_or_refused(wrong: object) -> None:
    """The id of a tag in a list must be an exact whole number of any type, and is never rounded."""
    tag = {"id": wrong, "name": "shy"}
    (found,) = sheet_from_frame(pd.DataFrame({"id": [1], "tags": [[tag]]})).problems
    assert (found.address, found.rule) == ("row 0, tags", "wrong-value")
    assert "not an exact whole number" in found.problem
    for right, number in ((101.0, 101), (np.int64(101), 101), ("101", 101), (float("nan"), None)):
        tag = {"id": right, "name": "shy"}
        rows = sheet_from_frame(pd.DataFrame({"id": [1], "tags": [[tag]]})).frame
        assert with_whole_tags(rows["tags"]) == [[Tag(number, "shy")]]


def test_the_id_of_a_tag_in_a_list_of_arrow_has_the_digits_of_its_type() -> None:
    """The id of a tag in an Arrow list is checked against the digits of its Arrow type."""
    kind = pa.list_(pa.struct([("id", pa.float16()), ("name", pa.string())]))
    table = pa.table({"id": [1], "tags": pa.array([[{"id": 2049.0, "name": "shy"}]], kind)})
    (found,) = sheet_from_frame(table.to_pandas(types_mapper=pd.ArrowDtype)).problems
    assert "not an exact whole number" in found.problem


def test_a_frame_that_is_no_catalogue_is_refused() -> None:
    """A frame with no known column, or with two columns with the same name, is refused."""
    with pytest.raises(SheetError, match="no column"):
        sheet_from_frame(pd.DataFrame({"a": [1]}))
    with pytest.raises(SheetError, match="two columns with the same name: 'name'"):
        sheet_from_frame(pd.DataFrame([[1, "a", "b"]], columns=["id", "name", "name"]))


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
def test_missing_items_of_a_list_say_nothing(missing: object) -> None:
    """Missing items of a list, as groupby().agg(list) makes them, are neither tags nor
    addresses.
    """
    columns = {"id": [1], "tags": [["shy", missing]], "photo_urls": [[missing]]}
    sheet = sheet_from_frame(pd.DataFrame(columns))
    assert with_whole_tags(sheet.frame["tags"]) == [[Tag(None, "shy")]]
    assert sheet.frame["photo_urls"].isna().tolist() == [True]


class _Silent:
    """A value without a text."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("tags", [{"a"}], "a list with an item of the type set"),
        ("tags", [{"id": 1, "name": 5}], "a tag with the name 5, which is not text"),
        ("tags", [np.array(["a", "b"])], "a list with an item of the type ndarray"),
        ("tags", pd.Series(["a", "b"]), "a value of the type Series"),
        ("name", pd.Series(["a", "b"]), "a value of the type Series"),
        ("name", ["a"], "a value of the type list"),
        ("category", [], "a value of the type list"),
        ("id", pd.Index([1, 2]), "a value of the type Index"),
        ("status", pd.DataFrame({"a": [1, 2]}), "a value of the type DataFrame"),
        ("photo_urls", [5], "a list with an item of the type int"),
        ("photo_urls", [Tag(1, "a")], "a list with an item of the type Tag"),
        ("status", _Silent(), "a value of the type _Silent: '…'"),
    ],
)
def test_values_of_another_kind_block_their_row(column: str, value: object, says: str) -> None:
    """A value or item of another type is an error at its place, as it would be sent as Python's
    repr; the other rows are read.
    """
    frame = pd.DataFrame({"id": [1, 2], "name": "Rex"}, index=["a", "b"], dtype=object)
    frame[column] = pd.Series([3 if column == "id" else None, value], frame.index, dtype=object)
    sheet = sheet_from_frame(frame)
    (found,) = sheet.problems
    assert (found.address, found.rule) == (f"row 1 (index 'b'), {column}", "wrong-value")
    assert says in found.problem
    assert found.suggestion.startswith(("Make ", "Its items must be"))
    assert sheet.rows.index.tolist() == [0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], "[1, 2]"),
        ([1.5, None], "[1.5, None]"),
        ([{"kg": 4}], "[{'kg': 4}]"),
        (["a", None, "b"], "a; b"),
        ([], ""),
    ],
)
def test_a_column_of_the_user_s_own_may_have_any_lists(
    value: object, text: str, tmp_path: Path
) -> None:
    """A column that petsync does not know does not stop a DataFrame or a file from being read."""
    rows = [{"id": 1, "status": "sold", "weights": value}]
    (tmp_path / "pets.json").write_bytes(msgspec.json.encode(rows))
    pd.DataFrame(rows).to_parquet(tmp_path / "pets.parquet")
    sheets = map(read_sheet, (tmp_path / "pets.json", tmp_path / "pets.parquet"))
    for sheet in (sheet_from_frame(pd.DataFrame(rows)), *sheets):
        assert not sheet.problems
        assert sheet.others["weights"].str.replace("nan", "None").tolist() == [text]


def test_a_tag_without_a_list_is_one_tag() -> None:
    """A tag that is taken out of a list into a cell stays this tag with its id."""
    tag = Tag(7, "a;b")
    for cell in (tag, TagName(tag)):
        sheet = sheet_from_frame(pd.DataFrame({"id": [1], "tags": [cell]}, dtype=object))
        assert with_whole_tags(sheet.frame["tags"]) == [[tag]]


@pytest.mark.parametrize("column", ["name", "tags", "photo_urls"])
def test_half_a_character_is_refused(column: str) -> None:
    """Half a surrogate pair is refused, because no file and no service accepts it."""
    value = "a\ud800" if column == "name" else ["a\ud800"]
    (found,) = sheet_from_frame(pd.DataFrame({"id": [1], column: [value]}, dtype=object)).problems
    assert (found.address, found.rule) == (f"row 0, {column}", "wrong-value")
    assert "half of a surrogate pair at position" in found.problem


PETS_OF_TWO = pd.DataFrame({"id": [1, 2], "name": ["A", "B"], "status": ["sold", "sold"]})
HALF = pd.Series(["x", "a\ud800"], dtype=object)
HALVES = {
    "a column of one's own": (PETS_OF_TWO.assign(note=HALF), "column note in row 1 has half"),
    "its name": (
        PETS_OF_TWO.set_axis(pd.Index(["id", "name", "a\ud800"], dtype=object), axis="columns"),
        "column whose name has half of a surrogate pair at position 2 of",
    ),
    "an index": (PETS_OF_TWO.set_index(pd.Index(HALF, name="my")), "column my in row 1 .* half"),
    "the name of an index": (PETS_OF_TWO.rename_axis("a\ud800"), "column whose name has half"),
}


@pytest.mark.parametrize("case", HALVES)
def test_half_a_character_outside_the_pets_is_named(case: str) -> None:
    """Half a surrogate pair in other columns and in names is an error that names the place, for
    sheets, checks and differences.
    """
    frame, problem = HALVES[case]
    for read in (ps.read_sheet, ps.check_sheet, lambda each: ps.diff(PETS_OF_TWO, each)):
        with pytest.raises(SheetError, match=problem):
            read(frame)


@pytest.mark.parametrize("column", ["name", "tags"])
def test_half_a_character_is_no_pet(tmp_path: Path, column: str) -> None:
    """What makes pets or a file of a DataFrame names the row and the column of half a character."""
    frame = PETS_OF_TWO.assign(**{column: HALF if column == "name" else HALF.map(lambda x: [x])})
    for write in (ps.pets_from_frame, lambda each: ps.write_sheet(each, tmp_path / "pets.parquet")):
        with pytest.raises(SheetError, match=f"column {column} .* has half of a .* in row 1"):
            write(frame)


CATALOGUE = pd.DataFrame({"id": [7, MAX_ID], "name": ["Bello", "Mia"], "status": ["sold"] * 2})


@pytest.mark.parametrize(
    "frame",
    [
        CATALOGUE.set_index("id"),
        CATALOGUE.rename(columns={"id": "Pet_Id"}).set_index("Pet_Id"),
        CATALOGUE.set_index("id", drop=False),
        CATALOGUE.set_index(["id", "name"]),
        CATALOGUE.set_index([pd.Index(["a", "b"], name="shelf"), "id"]),
        CATALOGUE.astype({"id": "Int64"}).set_index("id"),
    ],
    ids=["id", "mapped", "both", "two levels", "own level", "Int64"],
)
def test_an_index_that_has_a_name_is_a_column(frame: pd.DataFrame) -> None:
    """A named index is a column, so a frame indexed by id adds no pet again."""
    sheet = sheet_from_frame(frame, defaults={"Pet_Id": "id"})
    assert sheet.frame["id"].tolist() == [7, MAX_ID]
    assert sheet.frame["name"].tolist() == ["Bello", "Mia"]
    assert not sheet.errors
    assert sheet.others.columns.tolist() == (["shelf"] if "shelf" in frame.index.names else [])
    pets = [Pet(id=7, name="Bello", status="sold"), Pet(id=MAX_ID, name="Mia", status="sold")]
    assert plan_of(pets, sheet).changes == ()


def test_an_index_without_a_name_says_nothing() -> None:
    """An index without a name, or with the name of petsync's row numbers, is not a column."""
    for index in (pd.Index([5, 6]), pd.Index([5, 6], name="row")):
        sheet = sheet_from_frame(CATALOGUE.drop(columns="id").set_index(index))
        assert "id" not in sheet.frame
        assert sheet.others.empty


@pytest.mark.parametrize(
    "frame",
    [
        CATALOGUE.rename(columns={"id": "extra"}),
        CATALOGUE.rename(columns={"id": "row"}),
        CATALOGUE.rename(columns={"id": "assigned_id"}).set_index("assigned_id"),
    ],
    ids=["extra", "row", "assigned_id"],
)
def test_ids_under_a_name_of_petsync_s_own_are_pointed_out(frame: pd.DataFrame) -> None:
    """Numbers in a column with a name of petsync's own are reported, as they may be the ids."""
    rules = [problem.rule for problem in sheet_from_frame(frame).problems]
    assert rules.count("header-numbers") == 1


def test_an_index_and_a_column_that_disagree_about_the_id_are_refused() -> None:
    """An index and a column with different ids are refused, as the right id is unknown."""
    frame = CATALOGUE.set_index(pd.Index([1, 2], name="id"))
    with pytest.raises(SheetError, match="index 'id' and its column 'id' have different ids"):
        sheet_from_frame(frame)


@pytest.mark.parametrize("known", [{}, {"name": "Bello"}, {"name": "Bello", "status": "sold"}])
def test_a_misspelt_column_is_an_error(known: dict[str, str]) -> None:
    """A misspelt column is an error, whatever other columns there are, so no value is ignored."""
    with pytest.raises(SheetError, match="does not recognise: 'staus'") as caught:
        sheet_from_frame(pd.DataFrame([{"id": 7, "staus": "sold", **known}]))
    assert "'staus' may mean status" in str(caught.value.hint)


@pytest.mark.parametrize("header", ["old_status", "Status 2", "Zustand", "status_x"])
def test_a_column_like_one_that_is_there_is_reported(header: str) -> None:
    """A column like a known column that is present is reported as not used."""
    sheet = sheet_from_frame(pd.DataFrame([{"id": 7, "status": "sold", header: "pending"}]))
    (finding,) = sheet.problems
    assert (finding.rule, finding.address) == ("header-near-miss", f"column {header}")
    assert finding.problem.endswith("the column status is used instead.")


@pytest.mark.parametrize(("header", "hint"), [("Zustand", "may mean status"), ("Regal", "Rename")])
def test_a_frame_of_which_only_the_id_is_known_is_refused(header: str, hint: str) -> None:
    """A frame with ids and only unknown columns is refused, as it could change nothing."""
    with pytest.raises(SheetError, match="no known column except the ids") as caught:
        sheet_from_frame(pd.DataFrame({"id": [7], header: ["sold"]}))
    assert hint in str(caught.value.hint)
    assert len(sheet_from_frame(pd.DataFrame({"id": [7]}))) == 1
    assert len(sheet_from_frame(pd.DataFrame({"id": [7], header: ["x"], "action": ["delete"]})))


INDEXES = {
    "id 1001": pd.Index([1000, 1001, 1002], name="id"),
    "index 5": pd.Index([2, 5, 1]),
    "index 7": pd.Index([4, 7, 9], name="row"),
    "sku 'B, 2'": pd.Index(["A, 1", "B, 2", "A, 1"], name="sku"),
    "shop 'A', index 2": pd.MultiIndex.from_tuples(
        [("A", 1), ("A", 2), ("B", 1)], names=["shop", None]
    ),
}


@pytest.mark.parametrize("label", INDEXES)
def test_a_row_is_named_by_its_position_and_its_label(label: str, tmp_path: Path) -> None:
    """Findings, plan, run and explanations name the row's position and its label."""
    frame = pd.DataFrame(
        {"name": ["Rex", "Max", "Bo"], "status": ["sold", "bad", "sold"]}, index=INDEXES[label]
    )
    where = f"row 1 ({label})"
    assert f"{where}, status" in str(read_sheet(frame))
    sold = frame.assign(status="sold")
    pets = [Pet(id=number, name="Pet", status="sold") for number in range(1000, 1003)]
    with FakeService(pets) as service, service.connect(state=tmp_path) as store:
        plan = store.plan(sold)
        assert where in plan.changes[1].source
        assert any(text.startswith(where) for text in plan.to_frame()["source"])
        if label.startswith("id"):
            assert where in str(store.why(sold, 1001))
        assert f"{where}, status" in str(store.plan(frame))
        assert f"{where}, status" in str(store.apply(store.plan(frame)))


def test_a_row_whose_label_is_its_position_is_named_once() -> None:
    """Without labels that differ from the positions, an address has the position alone."""
    frame = pd.DataFrame({"id": [1, 2], "status": ["sold", "bad"]}, index=[0, 1])
    assert [each.address for each in sheet_from_frame(frame).problems] == ["row 1, status"]
    assert sheet_from_frame(frame.drop(columns="id").assign(name="Rex")).address(1) == "row 1"


def test_rows_with_labels_are_listed_in_order() -> None:
    """Findings of many rows with labels list the first of them in the order of the table."""
    frame = pd.DataFrame({"name": "Rex", "status": "bad"}, index=range(1, 200))
    text = " ".join(str(read_sheet(frame).findings).split())
    assert "row 0 (index 1), status; row 1 (index 2), status; row 2 (index 3), status;" in text


def test_a_mapping_of_a_header_that_is_not_there_is_an_error() -> None:
    """A mapping of a missing header is an error; `defaults` may name missing headers."""
    frame = pd.DataFrame({"id": [7], "name": ["Bello"]})
    with pytest.raises(SheetError, match="no column has the header 'Foo'") as caught:
        sheet_from_frame(frame, mapping={"Foo": "name"})
    assert "'id', 'name'" in str(caught.value.hint)
    assert sheet_from_frame(frame, defaults={"Foo": "name"}).mapping == {}


def test_values_that_are_no_text_are_judged_as_in_a_workbook() -> None:
    """A date or a boolean in a text column is an error, a number is a warning."""
    values = [dt.date(2026, 5, 1), pd.Timestamp("2026-05-01"), np.datetime64("2026-05-01", "ns")]
    frame = pd.DataFrame(
        {"name": pd.Series([*values, True, np.bool_(False), 7, 8.0], dtype=object)}
    )
    sheet = sheet_from_frame(frame.assign(status="sold"))
    assert [(each.row, each.rule) for each in sheet.problems] == [
        *((row, "date-instead-of-text") for row in range(3)),
        *((row, "boolean-instead-of-text") for row in (3, 4)),
        *((row, "number-instead-of-text") for row in (5, 6)),
    ]
    assert sheet.problems[0].value == "2026-05-01"
    assert sheet.frame["name"].tolist() == ["7", "8"]
    ids = pd.DataFrame({"id": pd.Series([True, dt.date(1912, 5, 1), 10**15, 7.0], dtype=object)})
    sheet = sheet_from_frame(ids)
    assert [each.rule for each in sheet.problems] == ["id-not-a-cell"] * 2
    assert sheet.frame["id"].tolist() == [10**15, 7]


@pytest.mark.parametrize("value", [b"Bello", {"name": "Bello"}, dt.timedelta(1), {"Bello"}])
def test_a_pet_whose_row_has_an_odd_value_stays(value: object) -> None:
    """A value that no cell can contain blocks its row: nothing of it is sent, and its pet does not
    count as missing, even if the value is the id.
    """
    pets = [Pet(id=n, name="Rex", status="sold") for n in range(1, 9)]
    for column in ("id", "name"):
        frame = pd.DataFrame({"id": range(1, 8), "name": "Max", "status": "sold"}, dtype=object)
        frame.at[3, column] = value
        plan = plan_of(pets, sheet_from_frame(frame), delete_missing=True, guard=NO_LIMITS)
        (blocked,) = plan.blocked
        assert f"a value of the type {type(value).__name__}" in blocked.problem
        assert [each.pet_id for each in plan.updates] == [1, 2, 3, 5, 6, 7]
        assert 4 not in [each.pet_id for each in plan.deletes]
        assert not plan.adds


def test_a_parquet_export_that_pandas_read_is_a_sheet(tmp_path: Path) -> None:
    """A Parquet export that pandas reads, with arrays, is a sheet in sync; the names of its tags
    count.
    """
    pets = [
        Pet(id=7, name="Bello", status="sold", tags=(Tag(3, "old"), Tag(None, "a, b"))),
        Pet(id=8, name="Mia", status="sold", photo_urls=("https://a/1.jpg", "https://a/2.jpg")),
    ]
    write_sheet(frame_from_pets(pets), tmp_path / "pets.parquet")
    sheet = sheet_from_frame(pd.read_parquet(tmp_path / "pets.parquet"))
    assert plan_of(pets, sheet).changes == ()
    assert not sheet.problems
    odd = [
        Pet(id=1, name="A", status="sold", tags=(Tag(1, "x"), Tag(2, "x"))),
        Pet(id=2, name="B", status="sold", tags=(Tag(3, None), Tag(1, "a"))),
        Pet(id=3, name="C", status="sold", tags=(Tag(4, ""),)),
    ]
    write_sheet(frame_from_pets(odd), tmp_path / "odd.parquet")
    assert plan_of(odd, sheet_from_frame(pd.read_parquet(tmp_path / "odd.parquet"))).changes == ()
    frame = pd.read_parquet(tmp_path / "pets.parquet")
    for renamed in (frame.rename(columns=str.upper), frame.rename(columns={"tags": "Etiketten"})):
        sheet = sheet_from_frame(renamed, defaults={"Etiketten": "tags"})
        assert (plan_of(pets, sheet).changes, sheet.problems) == ((), ())
    frame.at[0, "tags"] = ["new", "a, b"]
    (change,) = plan_of(pets, sheet_from_frame(frame)).changes
    assert change.after is not None
    assert {*change.after.tags} == {Tag(None, "new"), Tag(None, "a, b")}


@pytest.mark.parametrize(
    ("column", "value", "suggestion"),
    [
        ("id", dt.date(2026, 5, 1), "If 46143 is intended, write it as a string."),
        ("id", dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC), "Write the number as a string."),
        ("id", True, "Write the number as a string."),
        ("id", "1.2E+3", "look the number up, then write the whole number as a string."),
        (
            "name",
            dt.date(2026, 5, 1),
            'If "May 1", "5/1" or "1/5" was typed, write it as a string.',
        ),
        ("name", True, "Write the value as a string."),
        ("name", 1.5, "If 1.5 is not the intended value, write the intended value as a string."),
        ("name", np.inf, "Write the value as a string."),
        ("status", dt.date(2026, 5, 1), "Write the value as a string."),
        ("category_id", dt.date(2026, 5, 1), "If 46143 is intended, write it as a string."),
        ("name", "", "Write the value that the pet should have, or leave the value out."),
        ("id", "", "Write the value that the pet should have, or leave the value out."),
    ],
)
def test_the_advice_for_a_value_fits_a_frame(column, value, suggestion):
    """A DataFrame has no formats and is not typed, so its findings advise to write strings."""
    frame = pd.DataFrame({"id": [1], "name": ["x"], "status": ["sold"]}, dtype=object)
    (finding,) = sheet_from_frame(frame.assign(**{column: [value]})).problems
    assert finding.suggestion.endswith(suggestion)
    # A cell is emptied by a marker, a DataFrame by an empty text.
    assert value != "" or finding.value == ""


class Batch:
    """A record batch of another library: it has only the Arrow PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        (self._batch,) = table.to_batches()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._batch.__arrow_c_array__(requested_schema)


def test_any_arrow_table_is_a_sheet() -> None:
    """A table of another library has exact ids, and its lists, categories and structs are read."""
    table = pa.table(
        {
            "Id": pa.array([2**63 - 1, None, 7], pa.uint64()),
            "name": pa.array(["Zoë", "Mia", None], pa.string_view()),
            "status": pa.array(["sold", "sold", None]).dictionary_encode(),
            "category": pa.array(
                [{"id": 2**60 + 1, "name": "Cats"}, None, {"name": "Dogs"}],
                pa.struct([("id", pa.int64()), ("name", pa.string_view())]),
            ),
            "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
            "photo_urls": pa.array([["http://x/1"], None, None], pa.list_view(pa.string())),
        }
    )
    views = pa.DictionaryArray.from_arrays(
        pa.array([0, 0, None], pa.uint32()), pa.array(["sold"], pa.string_view())
    )
    others = (table, table.to_reader(), table.set_column(2, "status", views))
    for each in (Stream(table), Batch(table), *others):
        sheet = read_sheet(each)
        assert not sheet.problems
        frame = sheet.frame
        assert frame["id"].to_list() == [2**63 - 1, pd.NA, 7]
        assert frame["status"].to_list()[:2] == ["sold", "sold"]
        assert frame["category"].to_list()[::2] == ["Cats", "Dogs"]
        assert frame["category_id"].to_list() == [2**60 + 1, pd.NA, pd.NA]
        assert frame["photo_urls"].iloc[0] == ["http://x/1"]
        assert frame["tags"].to_list()[1] == []
        assert frame["tags"].to_list()[2] is None
    assert ps.diff(Batch(table), Stream(table)).equal == 3


def test_polars_types_are_read_exactly() -> None:
    """The types that polars gives its columns keep their values, also in columns of one's own."""
    table = pa.table(
        {
            "id": pa.array([2**63 - 1, None], pa.uint64()),
            "name": pa.array(["Zoë", "Mia"], pa.string_view()),
            "status": pa.array(["sold", None], pa.dictionary(pa.uint32(), pa.large_string())),
            "category": pa.array(
                [{"id": 2**60 + 1, "name": "Cats"}, None],
                pa.struct([("id", pa.uint64()), ("name", pa.string_view())]),
            ),
            "tags": pa.array(
                [[{"id": 7, "name": "a"}], []],
                pa.large_list(pa.struct([("id", pa.uint64()), ("name", pa.string_view())])),
            ),
            "photo_urls": pa.array([["http://x/1"], None], pa.large_list(pa.string_view())),
            "array": pa.array([["a", "b"], None], pa.list_(pa.string_view(), 2)),
            "price": pa.array([None, Decimal("2.50")], pa.decimal128(10, 2)),
            "none": pa.nulls(2),
        }
    )
    sheet = read_sheet(Stream(table))
    assert [each.rule for each in sheet.problems] == ["status-missing"]
    frame, others = sheet.frame, sheet.others
    assert frame["id"].to_list() == [2**63 - 1, pd.NA]
    assert frame[["category", "category_id"]].iloc[0].to_list() == ["Cats", 2**60 + 1]
    assert with_whole_tags(frame["tags"]) == [[Tag(7, "a")], []]
    assert others.iloc[0].to_list() == ["a; b", "", ""]


def test_a_table_is_compared_and_written_like_a_data_frame(tmp_path: Path) -> None:
    """Arrow tables are sides of a difference, and `write_sheet` writes them."""
    columns = {"id": [1, 2], "name": ["Rex", "Mia"], "tags": [["a"], None]}
    table = pa.table(columns).cast(
        pa.schema(
            [
                ("id", pa.uint64()),
                ("name", pa.string_view()),
                ("tags", pa.large_list(pa.string_view())),
            ]
        )
    )
    assert not diff(Stream(table), pd.DataFrame(columns))
    for name in ("pets.csv", "pets.xlsx", "pets.json", "pets.jsonl", "pets.parquet"):
        write_sheet(Stream(table), tmp_path / name)
        written = read_sheet(tmp_path / name).frame
        assert written["id"].to_list() == [1, 2]
        assert with_whole_tags(written["tags"])[0] == [Tag(None, "a")]


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx", "pets.json", "pets.parquet"])
def test_a_written_data_frame_changes_what_the_data_frame_changes(
    name: str, tmp_path: Path
) -> None:
    """An empty list or category of a DataFrame is empty in the file, too. A cell that the store's
    pet has empty, and that nobody edited, says nothing: it is blank.
    """
    full = Pet(
        name="A",
        status="sold",
        category=Category(1, "Dogs"),
        tags=(Tag(1, "x"),),
        photo_urls=("u",),
    )
    none = Pet(name="B", status="sold", category=Category(2, ""))
    store = [replace(pet, id=n) for n, pet in enumerate((full, full, none, none), 1)]
    with ps.demo() as shop:
        own = shop.snapshot()
    frame = but(own, pets=PetTable(table_from_pets(store))).frame
    for row in (0, 2):
        frame.at[row, "tags"], frame.at[row, "photo_urls"] = [], ()
    frame["category"] = frame["category"].where(frame["id"] != 1, "")
    frame["category_id"] = frame["category_id"].where(frame["id"] != 1)
    write_sheet(frame, tmp_path / name)
    sheet = read_sheet(tmp_path / name)
    expected = replace(full, id=1, category=None, tags=(), photo_urls=())
    for each in (sheet_from_frame(frame), sheet):
        assert [change.after for change in plan_of(store, each).changes] == [expected]
    written = [*zip(sheet.rows["tags"], sheet.rows["photo_urls"], strict=True)]
    is_cell = not name.endswith(("json", "parquet"))
    assert written[2:] == ([(None, None)] * 2 if is_cell else [([], [])] * 2)
    frame.attrs.clear()
    write_sheet(frame, tmp_path / name, force=True)
    rows = read_sheet(tmp_path / name).frame
    assert rows["tags"].tolist() == [[], ["x"], [], []]
    assert rows["photo_urls"].tolist() == [[], ["u"], [], []]


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx", "pets.json", "pets.parquet"])
def test_an_edited_snapshot_is_written_with_its_edits(name: str, tmp_path: Path) -> None:
    """The file of a snapshot whose frame was edited has the edits, and the store's values as base;
    an index of ids is a column.
    """
    with ps.demo() as store:
        snapshot = store.snapshot()
        snapshot.frame.at[0, "tags"] = []
        snapshot.frame.loc[1, "status"] = "sold"
        write_sheet(snapshot, tmp_path / name)
        ids = [(change.pet_id, change.fields) for change in store.plan(tmp_path / name).changes]
        assert ids == [(1001, ("tags",)), (1002, ("status",))]
        write_sheet(store.pets(index="id").head(2), tmp_path / f"indexed.{name}")
        assert read_sheet(tmp_path / f"indexed.{name}").frame["id"].tolist() == [1001, 1002]


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx", "pets.json", "pets.parquet"])
def test_the_ids_of_tags_stay_beside_their_names(name: str, tmp_path: Path) -> None:
    """The ids of the tags in a Parquet export are written. After edits of the names, each id stays
    with its name, also in another place, and a new name has no id.
    """
    a, b, none = Tag(2**60 + 1, "a"), Tag(5, "b"), Tag(7)
    pets = [Pet(id=n, name="A", status="sold", tags=(a, b, none)) for n in range(1, 8)]
    pets.append(Pet(id=9, name="B", status="sold", tags=(Tag(None, "c"), b)))
    write_sheet(frame_from_pets(pets), tmp_path / "export.parquet")
    with pytest.raises(SheetError, match=r"row 0 has a wrong value in tag_ids: .* exact") as caught:
        write_sheet(pd.read_parquet(tmp_path / "export.parquet"), tmp_path / name)
    assert "dtype_backend" in caught.value.hint
    frame = pd.read_parquet(tmp_path / "export.parquet", dtype_backend="pyarrow")
    frame["tags"] = frame["tags"].astype(object)
    edits: list[Any] = [["b", "a", None], [None, "b", "a"], ["a", "new", "b", None], ["b"]]
    for row, names in enumerate(edits):
        frame.at[row, "tags"] = names
    expected = [{b, a, none}, {none, b, a}, {a, Tag(None, "new"), b, none}, {b}]
    expected += [{*pet.tags} for pet in pets[4:]]
    write_sheet(frame, tmp_path / name)
    is_parquet = name.endswith("parquet")
    table = pq.read_table(tmp_path / name) if is_parquet else read_sheet(tmp_path / name).frame
    for each in (table, frame, pa.Table.from_pandas(frame)):
        assert [{*pet.tags} for pet in ps.pets_from_frame(each)] == expected
    updates = plan_of(pets, sheet_from_frame(frame)).updates
    assert [{*change.after.tags} for change in updates] == expected[2:4]
    frame.at[0, "tags"] = ["a", "", "", "b"]
    for use in (ps.pets_from_frame, sheet_from_frame, partial(write_sheet, path=tmp_path / name)):
        with pytest.raises(SheetError, match=r"row 0 .* 2 tags without a name") as caught:
            use(frame)
        assert "ps.Tag" in caught.value.hint


def test_unknown_fields_of_several_types_stay(tmp_path: Path) -> None:
    """A Parquet or JSON file has unknown fields whose values are of several types, also after
    pandas has read the file; a plan of such a frame changes nothing. The fields of a tag stay with
    its id.
    """
    values: list[Any] = [1, "x", {"a": [1]}, None]
    pets = [
        Pet(
            id=n,
            name="A",
            status="sold",
            tags=(Tag(1, "b"), Tag(7, "a", {"size": value}), Tag(None, "c", {"since": 2020})),
            extra={"chip": value},
        )
        for n, value in enumerate(values, 2)
    ]
    frame = frame_from_pets(pets)
    write_sheet(frame, tmp_path / "pets.parquet")
    read = pd.read_parquet(tmp_path / "pets.parquet")
    assert ps.pets_from_frame(read) == ps.pets_from_frame(frame) == pets
    assert ps.pets_from_frame(Stream(pq.read_table(tmp_path / "pets.parquet"))) == pets
    edited = read.copy()
    edited.at[0, "tags"] = ["a"]
    assert ps.pets_from_frame(edited)[0].tags == pets[0].tags[1:2]
    for name in ("again.parquet", "again.json"):
        write_sheet(read, tmp_path / name)
    assert ps.pets_from_frame(pd.read_parquet(tmp_path / "again.parquet")) == pets
    assert decode_pets((tmp_path / "again.json").read_bytes()) == pets
    read.attrs = snapshot_of(pets).frame.attrs
    sheet = sheet_from_frame(read)
    assert (sheet.problems, plan_of(pets, sheet).changes) == ((), ())


def test_pets_of_any_table(tmp_path: Path) -> None:
    """`pets_from_frame` takes a DataFrame with or without an id index, an Arrow table with names of
    tags, and a Parquet export with the ids of tags, without losing a value.
    """
    pet = Pet(id=7, name="Rex", tags=(Tag(3, "shy"), Tag(None, "old")), extra={"age": 2})
    frame = frame_from_pets([pet])
    assert ps.pets_from_frame(frame) == ps.pets_from_frame(frame.set_index("id")) == [pet]
    write_sheet(frame, tmp_path / "pets.parquet")
    assert ps.pets_from_frame(Stream(pq.read_table(tmp_path / "pets.parquet"))) == [pet]
    named = {"id": [7], "name": ["Rex"], "tags": [["shy"]], "category": [{"id": 1, "name": "Dog"}]}
    expected = Pet(id=7, name="Rex", tags=(Tag(None, "shy"),), category=Category(1, "Dog"))
    assert ps.pets_from_frame(Stream(pa.table(named))) == [expected]
    plain = pd.DataFrame({**named, "category": ["Dog"]})
    assert ps.pets_from_frame(plain)[0].tags == (Tag(None, "shy"),)
    assert ps.pets_from_frame(pd.DataFrame()) == []


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ([1], "a list is not a table of pets"),
        (None, "a NoneType is not a table of pets"),
        (pd.DataFrame({"foo": [1]}), "the DataFrame has no column of pets"),
        (pa.table({"foo": [1]}), "the table has no column of pets"),
        (pa.table({"id": ["x"]}), "not a table that petsync can read"),
        (pa.table({"id": [1], "tags": ["a; b"]}), "the column tags of the table has texts"),
        (pd.DataFrame({"photo_urls": ["a"]}), "the column photo_urls of the DataFrame has texts"),
    ],
)
def test_what_is_no_table_of_pets_is_refused(table: Any, problem: str) -> None:
    """`pets_from_frame` refuses what would give empty pets, or lose values."""
    with pytest.raises(SheetError, match=problem) as caught:
        ps.pets_from_frame(table)
    assert caught.value.hint


@pytest.mark.parametrize("option", ["tab", "encoding"])
def test_options_of_files_do_not_apply_to_tables(option: str, tmp_path: Path) -> None:
    """`tab` and `encoding` of a DataFrame are refused, by `plan` and `why` with the way out."""
    frame, options = pd.DataFrame({"id": [7]}), {option: "x"}
    with pytest.raises(SettingsError, match=f"{option} cannot apply to a DataFrame"):
        read_sheet(frame, **options)
    with FakeService() as service, service.connect(state=tmp_path) as store:
        for call in (lambda: store.plan(frame, **options), lambda: store.why(frame, 7, **options)):
            with pytest.raises(TypeError, match=f"'{option}': .* store.read\\(path, {option}=…"):
                call()


class LazyFrame:
    """A query without rows, as polars has it."""

    def collect(self) -> pa.Table:
        """Return the rows."""
        return pa.table({"id": [1], "name": ["Rex"]})


def test_a_lazy_table_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """A query has no rows before its `collect()`, and the error names this."""
    with pytest.raises(SheetError) as caught:
        read_sheet(LazyFrame())
    assert "collect()" in caught.value.hint
    with pytest.raises(SheetError, match=r"collect\(\)"):
        diff(LazyFrame(), LazyFrame())
    with FakeService() as service, service.connect(state=tmp_path) as store:
        with pytest.raises(SheetError) as caught:
            store.plan(LazyFrame())
        assert "collect()" in caught.value.hint


def test_an_arrow_stream_that_is_no_table_is_refused() -> None:
    """A single column, or corrections of a table, are refused with the way out."""
    with pytest.raises(SheetError, match="is not a table that petsync can read") as caught:
        read_sheet(pa.chunked_array([[1, 2]]))
    assert "named columns" in caught.value.hint
    table = pa.table({"id": [1], "name": ["A"]})
    with pytest.raises(SheetError, match="a DataFrame has no file"):
        read_sheet(table, corrections={"row 0, name": "B"})


def test_pets_are_read_from_lists_of_any_kind(tmp_path: Path) -> None:
    """A DataFrame that pandas saved as Parquet, with arrays as lists, has the same pets, without
    the tags' ids; a value of another type is named.
    """
    pets = [Pet(id=1, name="Rex", tags=(Tag(7, "shy"),), photo_urls=("u",)), Pet(id=2)]
    frame = ps.frame_from_pets(pets)
    assert ps.pets_from_frame(frame) == pets
    frame.to_parquet(tmp_path / "pets.parquet")
    rex, other = ps.pets_from_frame(pd.read_parquet(tmp_path / "pets.parquet"))
    assert (rex.tags, rex.photo_urls, other) == ((Tag(None, "shy"),), ("u",), pets[1])
    frame["id"] = [1.5, 2]
    with pytest.raises(SheetError, match="a value of another type than its column"):
        ps.pets_from_frame(frame)


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx", "pets.json", "pets.parquet"])
def test_an_array_that_is_assigned_to_a_cell_is_a_list(name: str, tmp_path: Path) -> None:
    """pandas makes an array without dimensions of an array with one item."""
    frame = ps.frame_from_pets([Pet(id=1, name="Rex", tags=(Tag(7, "shy"),)), Pet(id=2)])
    for column, text in (("tags", "a; b"), ("photo_urls", "u | v")):
        frame.at[0, column] = np.array([text])
        assert frame.at[0, column].shape == ()
    expected = Pet(id=1, name="Rex", tags=(Tag(None, "a; b"),), photo_urls=("u | v",))
    assert ps.pets_from_frame(frame)[0] == expected
    write_sheet(frame, tmp_path / name)
    for sheet in (sheet_from_frame(frame), read_sheet(tmp_path / name)):
        assert ps.pets_from_frame(sheet.frame)[0] == expected
        sheet.frame.at[sheet.frame.index[0], "tags"] = np.array(["c; d"])
        again = as_edited(sheet).frame
        assert ps.pets_from_frame(again)[0] == replace(expected, tags=(Tag(None, "c; d"),))


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("tags", [5], "a list with an int"),
        ("tags", Tag(7, "shy"), "a Tag instead of a list"),
        ("tags", pd.Series(["shy", "calm"]), "a Series instead of a list"),
        ("tags", 5, "an int instead of a list"),
        ("photo_urls", {"u": 1}, "a dict instead of a list"),
        ("photo_urls", [Tag(7, "shy")], "a list with a Tag"),
        ("name", pd.Series(["Rex"]), "a Series"),
        ("category", ["Dogs"], "a list"),
    ],
)
def test_a_value_that_no_pet_has_is_refused(
    tmp_path: Path, column: str, value: object, says: str
) -> None:
    """A DataFrame with such a value becomes no pets and no file: the value would be lost."""
    frame = ps.frame_from_pets([Pet(id=1, name="Rex"), Pet(id=2)]).astype({column: object})
    frame.index = pd.Index([8, 9], name="No")
    frame[column] = pd.Series([None, value], frame.index, dtype=object)
    message = rf"the column {column} of the DataFrame has {says} in row 1 \(No 9\)"
    with pytest.raises(SheetError, match=message):
        ps.pets_from_frame(frame)
    for ending in ("csv", "xlsx", "json", "parquet"):
        with pytest.raises(SheetError, match=message):
            ps.write_sheet(frame, tmp_path / f"pets.{ending}")
    assert not [*tmp_path.iterdir()]


def test_an_export_has_its_tags_whatever_names_their_ids_have(tmp_path: Path) -> None:
    """A tag without a name keeps its id in a Parquet export, also if other pets have a name for
    that id, and the list has another tag without a name.
    """
    pets = [
        Pet(id=1, name="Rex", tags=(Tag(5, None), Tag(None, None))),
        Pet(id=2, name="Tom", tags=(Tag(5, "x"),)),
        Pet(id=3, name="Zoe", tags=(Tag(5, "x"), Tag(6, None))),
        Pet(id=4, name="Ada", tags=(Tag(None, "z"), Tag(8, None), Tag(None, None))),
    ]
    write_sheet(frame_from_pets(pets), tmp_path / "pets.parquet")
    assert read_sheet(tmp_path / "pets.parquet").frame["tags"].iloc[0][0].tag == Tag(5, None)
    assert ps.pets_from_frame(pd.read_parquet(tmp_path / "pets.parquet")) == pets
    other = Pet(id=5, name="Max", tags=(Tag(5, "y"), Tag(7, None), Tag(None, None)))
    write_sheet(frame_from_pets([*pets, other]), tmp_path / "others.parquet")
    tags = read_sheet(tmp_path / "others.parquet").frame["tags"].iloc[4]
    assert [each.tag for each in tags] == [Tag(None, "y"), Tag(7, None), Tag(None, None)]


@pytest.mark.parametrize("name", ["name", "tags", "tag_ids"])
def test_two_equal_columns_are_named(tmp_path: Path, name: str) -> None:
    """A table with two columns of one name is an error that names it, also for what makes pets or
    a file of it.
    """
    frame = pd.DataFrame([[1, "A", ["x"], ["y"]]], columns=["id", "status", name, name])
    table = pa.table([[1], ["A"], [["x"]], [["y"]]], names=list(frame.columns))
    pq.write_table(table, tmp_path / "pets.parquet")
    write = partial(ps.write_sheet, path=tmp_path / "pets.csv")
    for each in (frame, table):
        for way in (ps.read_sheet, ps.pets_from_frame, write):
            with pytest.raises(SheetError, match=f"two columns .* same name: '{name}'"):
                way(each)
    with pytest.raises(SheetError, match=f"two columns have the same name: '{name}'"):
        ps.read_sheet(tmp_path / "pets.parquet")
