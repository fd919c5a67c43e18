"""diff: the differences between two tables, with and without a base."""

import copy
import csv
import io
import itertools
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import plan_of, sheet_of, snapshot_of
from times import times

import petsync as ps
from petsync.errors import SheetError
from petsync.models import Category, Pet, Tag
from petsync.report.html import document_page
from petsync.report.json import diff_json
from petsync.report.views.diff import diff_page_view, diff_title
from petsync.report.workbook import diff_workbook
from petsync.sheets import common

HEAD = "id,name,status,tags,Price\n"
OLD = HEAD + "1,Rex,available,a; b,5\n2,Mia,sold,,6\n3,Leo,reserved,,\n,Kim,sold,,8\n"
NEW = HEAD + "1,Rexy,available,b; a,5\n3,Leo,,,7\n4,Zoe,sold,x,\n,Kim,sold,,8\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write both files into the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("old.csv").write_text(OLD, "utf-8")
    Path("new.csv").write_text(NEW, "utf-8")


def texts_of(found):
    """Return what a comparison found: kind, id, name and values of each row."""
    return [(row.kind, row.pet_id, row.name, dict(row.values)) for row in found.rows]


def test_rows_differ_or_are_on_one_side(files):
    """A changed, an emptied and an own cell are listed, and rows that one side lacks; the order of
    tags does not count, and any status is valid.
    """
    found = ps.diff("old.csv", "new.csv")
    assert texts_of(found) == [
        ("differs", 1, "Rex", {"name": ("Rex", "Rexy")}),
        ("differs", 3, "Leo", {"status": ("reserved", ""), "Price": ("", "7")}),
        ("only-a", 2, "Mia", {"name": ("Mia", ""), "status": ("sold", ""), "Price": ("6", "")}),
        ("only-b", 4, "Zoe", {"name": ("", "Zoe"), "status": ("", "sold"), "tags": ("", "x")}),
    ]
    assert (found.equal, found.exit_code, bool(found)) == (1, 2, True)
    assert (found.rows[0].where_a, found.rows[1].where_b) == ("line 2", "line 3")


def test_a_row_that_one_side_repeats_is_a_difference(files):
    """Rows that repeat another one with its id are named and counted. They are a difference if the
    sides repeat other numbers of rows of a pet.
    """
    Path("twice.csv").write_text(f"{OLD}2,Mia,sold,,6\n2,Mia,sold,,6\n", "utf-8")
    for a, b in (("old.csv", "twice.csv"), ("twice.csv", "old.csv")):
        found = ps.diff(a, b)
        assert (found.equal, len(found.rows), found.exit_code, bool(found)) == (4, 0, 2, True)
        repeated = found.repeated_b if b == "twice.csv" else found.repeated_a
        assert [(each.pet_id, each.where) for each in repeated] == [
            (2, "line 6"),
            (2, "line 7"),
        ]
        assert sorted((found.rows_a, found.rows_b)) == [4, 6]
        note = "twice.csv repeats 2 rows: line 6, line 7; each counts once."
        assert found.notes == (note,)
        for text in (repr(found), found._repr_html_(), document_page(diff_page_view(found), "")):
            assert "2 repeated in twice.csv" in text
            assert "line 7" in text
        assert b'"repeated_b"' in diff_json(found)
    found = ps.diff("twice.csv", "twice.csv")
    assert (found.exit_code, bool(found), found.rows_a) == (0, False, 6)
    Path("other.csv").write_text(f"{OLD}2,Mia,sold,,6\n1,Rex,available,a; b,5\n", "utf-8")
    assert ps.diff("twice.csv", "other.csv").exit_code == 2
    pets = ps.frame_from_pets([Pet(id=1, name="Rex")])
    found = ps.diff(pets, pd.concat([pets, pets]))
    assert (found.exit_code, found.rows_b, len(found.repeated_b)) == (2, 2, 1)
    both = ps.diff(pd.concat([pets, pets]), pd.concat([pets, pets]))
    assert (both.exit_code, len(both.notes)) == (0, 2)


def test_a_base_tells_the_sides_apart(files):
    """With a base, each change is listed under its side, and a field that both changed is a
    conflict with the value of the base; equal changes are counted.
    """
    text = OLD.replace("Rex", "Rexo").replace("1,Rexo,available", "1,Rexo,sold")
    Path("other.csv").write_text(text.replace("2,Mia,sold,,6\n", ""), "utf-8")
    found = ps.diff("new.csv", "other.csv", "old.csv")
    assert texts_of(found)[:2] == [
        ("conflict", 1, "Rex", {"name": ("Rexy", "Rexo")}),
        ("a", 3, "Leo", {"status": ("reserved", ""), "Price": ("", "7")}),
    ]
    assert ("b", 1, "Rex", {"status": ("available", "sold")}) in texts_of(found)
    assert found.rows[0].base == {"name": "Rex"}
    assert (found.same, found.counts["a"]) == (1, 2)
    assert {row.name: row.missing for row in found.rows} == {"Rex": "", "Leo": "", "Zoe": "base"}
    assert {row.name: row.listed_as for row in found.rows if row.missing} == {"Zoe": "a-added"}


def test_tags_with_equal_names_have_their_ids(files):
    """Tags that differ only in their ids show them on both sides; other tags are only names.
    Changes to different ids are a conflict.
    """
    for name, tags in {"a": "1:x; 2:y; 3:z", "b": "9:x; 2:y; z", "c": "7:x; 2:y; 3:z"}.items():
        Path(f"{name}.csv").write_text(f"id,name,tags\n1,Rex,{tags}\n", "utf-8")
    found = ps.diff("a.csv", "b.csv")
    assert texts_of(found) == [("differs", 1, "Rex", {"tags": ("1:x; y; z", "9:x; y; z")})]
    text = str(found)
    assert "1:x" in text
    assert "9:x" in text
    found = ps.diff("b.csv", "c.csv", "a.csv")
    assert texts_of(found) == [("conflict", 1, "Rex", {"tags": ("9:x; y; z", "7:x; y; z")})]
    assert found.rows[0].base == {"tags": "1:x; y; z"}
    Path("c.csv").write_text("id,name,tags\n1,Rex,1:x; 5:x; 2:y\n", "utf-8")
    assert texts_of(ps.diff("a.csv", "c.csv"))[0][3] == {"tags": ("1:x; y; z", "1:x; 5:x; y")}


def test_an_id_that_one_side_lacks_is_not_a_difference():
    """Each category and each tag is compared with the one of the same row, however many rows have
    it; an id counts only if both sides have one.
    """
    one, nameless = ps.Tag(1, "calm"), ps.Tag(None, "calm")
    same = {"id": [1, 2, 3, 4, 5], "category": ["Dogs"] * 5, "category_id": [1] * 5}
    a = pd.DataFrame({**same, "tags": [[one]] * 5})
    b = pd.DataFrame(
        {
            "id": [1, 2, 3, 4, 5],
            "category": ["Dogs", "Dogs", "Cats", "Dogs", "Dogs"],
            "category_id": [None, 2, 1, None, 2],
            "tags": [[nameless], [nameless], [ps.Tag(2, "calm")], [ps.Tag(1, "old")], [one]],
        }
    )
    for sides in ((a, b), (b, a)):
        found = {row.pet_id: [*row.values] for row in ps.diff(*sides).rows}
        assert found == {2: ["category"], 3: ["category", "tags"], 4: ["tags"], 5: ["category"]}


def test_a_row_that_one_side_removed_and_the_other_changed_is_a_conflict(files):
    """Nothing is lost: the removed row is listed with the values of the other side."""
    Path("gone.csv").write_text(OLD.replace("3,Leo,reserved,,\n", ""), "utf-8")
    found = ps.diff("gone.csv", "new.csv", "old.csv")
    (conflict,) = [row for row in found.rows if row.kind == "conflict"]
    assert conflict.pet_id == 3
    assert conflict.values["name"] == ("", "Leo")
    assert conflict.values["Price"] == ("", "7")


def test_a_row_without_an_id_is_paired_by_its_values_or_its_name(files):
    """A row that got its id is equal, and one with a unique name differs; or `match_on` decides."""
    Path("a.csv").write_text("id,name,status\n,Kim,sold\n,Tom,sold\n", "utf-8")
    Path("b.csv").write_text("id,name,status\n7,Kim,sold\n,Tom,pending\n", "utf-8")
    found = ps.diff("a.csv", "b.csv")
    assert texts_of(found) == [("differs", None, "Tom", {"status": ("sold", "pending")})]
    assert {row[0] for row in texts_of(ps.diff("a.csv", "b.csv", match_on="tags"))} == {
        "only-a",
        "only-b",
    }


def test_rows_with_errors_are_listed_and_not_compared(files):
    """A duplicate id is on neither side; without differences the exit code is 3."""
    Path("twice.csv").write_text(OLD + "2,Mia again,sold,,6\n", "utf-8")
    found = ps.diff("old.csv", "twice.csv")
    assert [row.row for row in found.blocked_b] == [3, 6]
    Path("bad.csv").write_text(OLD + "x,Bad,sold,,\n", "utf-8")
    assert ps.diff("old.csv", "bad.csv").exit_code == 3
    assert ps.diff("bad.csv", "bad.csv").exit_code == 0


@pytest.mark.parametrize("large", [0, 1 << 60])
def test_a_pet_with_an_error_on_one_side_is_compared_on_no_side(files, monkeypatch, large):
    """The other sides' rows of its id are not compared either, and name the error; no side has
    added, removed or changed the pet, whichever side has the error.
    """
    monkeypatch.setattr("petsync.differences._LARGE", large)
    Path("twice.csv").write_text(OLD + "2,Mia again,sold,,6\n", "utf-8")
    Path("repeated.csv").write_text(OLD + "2,Mia,sold,,6\n", "utf-8")
    reason = (
        "Another row with this id has an error: twice.csv, line 3, column 1: '2': The id 2 is in 2 "
        "rows with different values (name): line 3, column 1; line 6, column 1. Give each row the "
        "id of its pet, and clear the id of a new pet. Of rows of one pet, keep the correct one."
    )
    for other in ("old.csv", "repeated.csv"):
        for sides in ((other, "twice.csv"), ("twice.csv", other)):
            found = ps.diff(*sides)
            assert (texts_of(found), found.equal, found.exit_code) == ([], 3, 3)
            blocked = found.blocked_a if sides[0] == other else found.blocked_b
            assert [(row.row, row.source, row.pet_id, row.problem) for row in blocked] == [
                (3, "line 3", 2, reason)
            ]
            assert sorted((found.rows_a, found.rows_b)) == [4 + (other == "repeated.csv"), 5]
    for sides in itertools.permutations(("old.csv", "new.csv", "twice.csv")):
        found = ps.diff(sides[0], sides[1], sides[2])
        assert 2 not in [row.pet_id for row in found.rows], sides
        found = ps.diff(*("twice.csv" if side == "twice.csv" else "old.csv" for side in sides))
        assert (texts_of(found), found.equal, found.exit_code) == ([], 3, 3), sides
        assert ("1 row of old.csv could not be compared." in found.notes) == (
            sides[2] != "twice.csv"
        )
    pets = [Pet(id=n, name=f"Pet {n}", status="sold") for n in (1, 2)]
    found = ps.diff(snapshot_of(pets), "twice.csv")
    assert 2 not in [row.pet_id for row in found.rows]
    assert [row.pet_id for row in found.blocked_a] == [2]


def test_columns_of_one_side_are_not_compared_and_named(files):
    """A missing column says nothing; a note names it, unless the other side's is blank."""
    Path("few.csv").write_text("id,name,Note\n1,Rex,x\n2,Mia,\n3,Leo,\n,Kim,\n", "utf-8")
    found = ps.diff("old.csv", "few.csv")
    assert not found
    assert found.notes == (
        "Not compared: status, tags, Price of old.csv, which few.csv lacks.",
        "Not compared: Note of few.csv, which old.csv lacks.",
    )
    for action, notes in (
        (" ", ()),
        ("delete", ("Not compared: action of a.csv, which b.csv lacks.",)),
    ):
        Path("a.csv").write_text(f"id,name,action,Note\n1,Rex,{action},\n2,Mia,,\n", "utf-8")
        Path("b.csv").write_text("id,name\n1,Rex\n2,Mia\n", "utf-8")
        assert ps.diff("a.csv", "b.csv").notes == notes


def test_every_kind_of_side_can_be_compared(files, tmp_path):
    """An export of each format, a folder, a DataFrame, a sheet and a snapshot of the same pets are
    equal.
    """
    pets = [Pet(id=n, name=f"Pet {n}", status="sold", tags=(Tag(n, "a"),)) for n in (1, 2)]
    snapshot = snapshot_of(pets)
    for name in ("x.xlsx", "x.csv", "x.json", "x.jsonl", "x.parquet"):
        ps.write_sheet(snapshot, name)
    Path("folder").mkdir()
    ps.write_sheet(snapshot, "folder/part.parquet")
    sides = ["x.xlsx", "x.csv", "x.json", "x.jsonl", "x.parquet", "folder", ps.read_sheet("x.csv")]
    for side in (*sides, ps.frame_from_pets(pets)):
        assert not ps.diff(snapshot, side), side
    edited = replace(pets[0], name="Rex")
    assert texts_of(ps.diff("x.parquet", snapshot_of([edited, pets[1]])))[0][3] == {
        "name": ("Pet 1", "Rex")
    }


def test_a_plan_is_compared_by_what_it_would_write(files):
    """Two plans are compared by their changes, a plan and a snapshot only by the plan's pets."""
    pets = [Pet(id=n, name=f"Pet {n}", status="sold") for n in (1, 2, 3)]
    renamed = [replace(pets[0], name="Rex"), *pets[1:]]
    monday = plan_of(pets, sheet_of(renamed))
    tuesday = plan_of(pets, sheet_of([replace(renamed[0], status="pending"), *pets[1:]]))
    ps.save_plan(monday, "monday.json")
    assert texts_of(ps.diff("monday.json", tuesday)) == [
        ("differs", 1, "Rex", {"status": ("sold", "pending")})
    ]
    assert texts_of(ps.diff(snapshot_of(pets), monday)) == [
        ("differs", 1, "Pet 1", {"name": ("Pet 1", "Rex")})
    ]
    assert not ps.diff(monday, snapshot_of(renamed))
    deleting = plan_of(pets, sheet_of(pets[:1], action="delete"))
    assert texts_of(ps.diff(monday, deleting))[0][3]["change"] == ("update", "delete")


def test_headers_are_mapped_if_any_side_has_them(files):
    """A mapping needs its header on one side only; a header that no side has is an error."""
    Path("german.csv").write_text("id,Tiername\n1,Rex\n", "utf-8")
    Path("english.csv").write_text("id,name\n1,Max\n", "utf-8")
    found = ps.diff("german.csv", "english.csv", mapping={"Tiername": "name"})
    assert texts_of(found)[0][3] == {"name": ("Rex", "Max")}
    with pytest.raises(SheetError, match="no side has the header 'Nom'"):
        ps.diff("german.csv", "english.csv", mapping={"Nom": "name"})
    with pytest.raises(SheetError, match="cannot be compared"):
        ps.diff("english.csv", 7)


def test_the_result_shows_itself_in_every_format(files):
    """Text, HTML, JSON, a workbook and a frame have each difference."""
    found = ps.diff("old.csv", "new.csv")
    assert "Only in old.csv: 1 row" in repr(found)
    assert "petsync apply" not in repr(found)
    assert "Only in new.csv" in found._repr_html_()
    page = document_page(diff_page_view(found), diff_title(found))
    assert "Only in old.csv" in page
    assert b'"kind": "only-a"' in diff_json(found)
    diff_workbook(found, Path("diff.xlsx"))
    tab = openpyxl.load_workbook("diff.xlsx")["Differences"]
    rows = [[cell.value for cell in row] for row in tab.iter_rows(min_row=2)]
    assert ["differs", "1", "Rex", "name", "Rex", "Rexy", "line 2", "line 2"] in rows
    frame = found.to_frame()
    assert [*frame.columns[:4]] == ["kind", "id", "name", "column"]
    assert len(frame) == sum(len(row.values) for row in found.rows)


TAGS = [Tag(n, f"t{n}") for n in range(3)]
tables = st.lists(
    st.builds(
        Pet,
        id=st.integers(1, 6),
        name=st.sampled_from(["Rex", "Mia", ""]),
        status=st.sampled_from([None, "sold", "pending"]),
        category=st.sampled_from([None, Category(1, "Dogs")]),
        tags=st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
        photo_urls=st.lists(st.sampled_from(["u", "v"]), unique=True).map(tuple),
    ),
    max_size=5,
    unique_by=lambda pet: pet.id,
)


@pytest.mark.slow
@given(tables, tables)
def test_a_comparison_is_a_mirror(one, two):
    """diff(a, a) is empty, and diff(b, a) has the differences of diff(a, b) with exchanged sides;
    every row is equal, different, or on one side.
    """
    a, b = snapshot_of(one), snapshot_of(two)
    assert not ps.diff(a, snapshot_of(one))
    there, back = ps.diff(a, b), ps.diff(b, a)
    other = {"differs": "differs", "only-a": "only-b", "only-b": "only-a"}
    mirror = {
        (other[row.kind], row.pet_id, *((c, y, x) for c, (x, y) in row.values.items()))
        for row in back.rows
    }
    assert {
        (row.kind, row.pet_id, *((c, x, y) for c, (x, y) in row.values.items()))
        for row in there.rows
    } == mirror
    counts = there.counts
    assert there.equal + counts["differs"] + counts["only-a"] == len(one)
    assert there.equal + counts["differs"] + counts["only-b"] == len(two)


@pytest.mark.slow
@given(tables, tables, tables)
def test_three_ways_are_two_comparisons_with_the_base(one, two, base):
    """A cell is listed under A, B or as a conflict exactly if A, B or both differ from the base in
    it, unless both have the same value.
    """
    a, b, common = snapshot_of(one), snapshot_of(two), snapshot_of(base)
    found = ps.diff(a, b, common)
    changes = [_cells(ps.diff(common, side)) for side in (a, b)]
    listed = {"a": set(), "b": set(), "conflict": set()}
    for row in found.rows:
        listed[row.kind] |= {(row.pet_id, column) for column in row.values}
    for key in {*changes[0], *changes[1]}:
        mine, theirs = (each.get(key) for each in changes)
        kinds = {kind for kind, keys in listed.items() if key in keys}
        if mine == theirs:
            assert kinds <= {"conflict"}
        else:
            assert kinds, key
            assert "conflict" in kinds or kinds == {"a" if theirs is None else "b"}


def _cells(found):
    return {
        (row.pet_id, column): after
        for row in found.rows
        for column, (_, after) in row.values.items()
    }


def test_missing_values_of_a_frame_are_blank():
    """A missing value of a DataFrame differs from a value, as a blank cell does."""
    one = pd.DataFrame({"id": [1, 2], "name": ["Rex", None]})
    two = pd.DataFrame({"id": [1, 2], "name": ["Rex", "Mia"]})
    assert texts_of(ps.diff(one, two)) == [("differs", 2, "Mia", {"name": ("", "Mia")})]


def test_arrow_tables_are_compared():
    """Tables with the Arrow PyCapsule interface have the differences of the same DataFrames."""
    one = pd.DataFrame({"id": [1, 2], "name": ["Rex", None], "Price": [5, 6]})
    two = pd.DataFrame({"id": [1, 2], "name": ["Rex", "Mia"], "Price": [5, 7]})
    found = ps.diff(pa.Table.from_pandas(one), pa.Table.from_pandas(two))
    assert found.rows == ps.diff(one, two).rows
    assert texts_of(found) == [("differs", 2, "Mia", {"name": ("", "Mia"), "Price": ("6", "7")})]


def _random_lines(dice):
    for number in range(1, 60):
        texts = [f"Pet {number}", f"Pet {number % 7}", '"a, ""b"""', "x" * dice.randrange(3)]
        ids = [str(number)] * 400 + ["", "7", " 8", "9.0", f'"{number}"', "0012"]
        statuses = ["sold", "", "odd", "Odd", " odd ", "SOLD", "odd\u00a0"]
        yield f"{dice.choice(ids)},{dice.choice(texts)},{dice.choice(statuses)},5"


_starts = st.from_regex(rb"[0-9]{0,20}([,;\t /:a]|\xc3\xbf)?[0-9]{0,3}", fullmatch=True)


@given(st.lists(st.tuples(st.integers(1, 3), _starts), max_size=40), st.booleans(), st.data())
def test_ids_are_read_from_the_start_of_lines(pairs, has_end, draw):
    """The ids of lines are the numbers of at most 18 digits before a delimiter, each once in its
    file, wherever the line and the blocks of the file are; and lines are the same as `splitlines`
    has them.
    """
    each = [start for times, start in pairs for _ in range(times)] + [b"x" * 20]
    data = b"\n" * common._HEAD + b"\n".join(each) + b"\n" * has_end
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "_BLOCK", draw.draw(st.integers(40, 200)))
        lines = common.read_lines(io.BufferedReader(io.BytesIO(data)))
    found = [(re.match(rb"([0-9]{1,18})[,;\t]", start), n) for n, start in enumerate(each, 32)]
    ids = [(int(match[1]), n) for match, n in found if match]
    counts = Counter(number for number, _ in ids)
    expected = sorted(pair for pair in ids if counts[pair[0]] == 1)
    assert [*zip(lines.ids.tolist(), lines.at.tolist(), strict=True)] == expected
    assert [data[a:b] for a, b in pairwise(lines.offsets.tolist())] == data.splitlines(True)


def test_only_differences_that_are_read_are_made(files):
    """The differences of two files are the same one by one, in parts, all together and as a copy,
    and as those of two tables.
    """
    found = ps.diff("new.csv", "old.csv")
    rows = [*found.rows]
    assert [found.rows[n] for n in range(len(rows))] == rows == [*found.rows[:2], *found.rows[2:]]
    assert found.rows == rows == copy.deepcopy(found).rows
    assert [row.kind for row in rows] == [*found.counts.elements()]
    tables = ps.diff(ps.read_sheet("new.csv"), ps.read_sheet("old.csv"))
    assert isinstance(tables.rows, list)
    assert [replace(row, where_a="", where_b="") for row in tables.rows] == [
        replace(row, where_a="", where_b="") for row in rows
    ]


@pytest.mark.parametrize("seed", range(times(8)))
def test_lines_that_both_files_have_do_not_matter(files, monkeypatch, seed):
    """Large files are compared without their common lines; the result is the same as with them, and
    as that of two sheets, in which some statuses are unknown.
    """
    dice = random.Random(seed)
    lines = [*_random_lines(dice)]
    other = list(lines)
    for at, each in enumerate(_random_lines(dice)):
        if dice.random() < 0.1:
            other[at] = each
    for at in sorted(dice.sample(range(len(other)), dice.randrange(4)), reverse=True):
        del other[at]
    if seed % 4 == 0:
        dice.shuffle(other)
    for each in dice.sample(other, seed % 3):
        other.insert(dice.randrange(40, len(other)), each)
    end = "\r\n" if seed % 2 else "\n"
    if seed % 3 == 0:
        # A line of the other file, in a cell.
        line = next(each for each in other[40:] if each[0].isdigit() and '"' not in each)
        other.remove(line)
        other.append(f'60,"Rex{end}{line}{end}",sold,5')
    for name, rows in (("old.csv", lines), ("new.csv", other)):
        text = end.join(["id,name,status,Price", *rows]) + end * (seed % 4 > 0)
        Path(name).write_bytes(text.encode())
    monkeypatch.setattr(common, "_BLOCK", dice.choice((80, 400, 1 << 20)))
    for sides in (("old.csv", "new.csv"), ("new.csv", "old.csv")):
        monkeypatch.setattr("petsync.differences._LARGE", 1 << 60)
        whole = ps.diff(*sides)
        monkeypatch.setattr("petsync.differences._LARGE", 0)
        found = ps.diff(*sides)
        assert found == whole
        assert ps.diff(*map(ps.read_sheet, sides)) == whole


def test_a_file_that_changes_while_it_is_read_is_an_error(files, monkeypatch):
    """Large files, which are read twice, are not compared if one of them changes between."""
    for name in ("old.csv", "new.csv"):
        rows = [f"{number},Pet {number},sold\n" for number in range(1, 100)]
        Path(name).write_text("id,name,status\n" + "".join(rows), "utf-8")
    monkeypatch.setattr("petsync.differences._LARGE", 0)
    assert ps.diff("old.csv", "new.csv").equal == 99
    pair = common._pair

    def change(a, b):
        with Path("new.csv").open("a", encoding="utf-8") as file:
            file.write("100,Rex,sold\n")
        return pair(a, b)

    monkeypatch.setattr(common, "_pair", change)
    with pytest.raises(SheetError, match=r"new\.csv: the file changed while it was read"):
        ps.diff("old.csv", "new.csv")


@pytest.mark.parametrize("large", [0, 1 << 60])
def test_files_with_the_same_bytes_are_equal(files, monkeypatch, large):
    """Rows without an id that look alike make no difference between files with the same bytes."""
    monkeypatch.setattr("petsync.differences._LARGE", large)
    rows = "".join(f"{number},Pet {number},sold\n" for number in range(1, 100))
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("id,name,status\n,Rex,sold\n,Rex,sold\n" + rows, "utf-8")
    assert not ps.diff("a.csv", "b.csv", match_on="name")
    assert not ps.diff("a.csv", "a.csv")


def test_threads_read_very_long_cells(files):
    """Two threads can read files with cells that are longer than Python's csv module allows."""
    text = "id,name,status\n" + "".join(f'{n},"{n}{140_000 * "x"}",sold\n' for n in range(1, 30))
    Path("long.csv").write_text(text, "utf-8")
    before = csv.field_size_limit()
    with ThreadPoolExecutor(4) as pool:
        sheets = [*pool.map(ps.read_sheet, ["long.csv"] * 12)]
    assert {len(sheet.blocked) for sheet in sheets} == {29}
    assert csv.field_size_limit() == before


def test_an_error_names_its_place_in_the_whole_file(files, monkeypatch):
    """The line and the byte of an error are those of the file, whatever other lines are equal."""
    rows = [b"id,name,status\n", *(b"%d,Pet %d,sold\n" % (n, n) for n in range(1, 100))]
    Path("old.csv").write_bytes(b"".join(rows))
    rows[80] = b"80,P\xe9t,sold\n"
    Path("new.csv").write_bytes(b"".join(rows))
    byte = len(b"".join(rows[:80])) + 5
    monkeypatch.setattr("petsync.differences._LARGE", 0)
    with pytest.raises(SheetError, match=f"new.csv: line 81, byte {byte} of the file"):
        ps.diff("old.csv", "new.csv")


def test_text_that_is_not_utf8_is_found_in_common_lines(files, monkeypatch):
    """A line that two large files have in common must be UTF-8, too."""
    rows = [b"id,name,status\n", *(b"%d,P\xe9t %d,sold\n" % (n, n) for n in range(1, 100))]
    Path("old.csv").write_bytes(b"".join(rows))
    Path("new.csv").write_bytes(b"".join([*rows, b"100,Rex,sold\n"]))
    monkeypatch.setattr("petsync.differences._LARGE", 0)
    with pytest.raises(SheetError, match=r"old\.csv: line 2, byte 19 of the file"):
        ps.diff("old.csv", "new.csv")
    assert ps.diff("old.csv", "new.csv", encoding="cp1252").counts == {"only-b": 1}


ENCODED = [
    *((name, "cp1252", "Zo\xeb", 0) for name in ("a.xlsx", "a.json", "a.jsonl", "a.parquet")),
    ("folder", "cp1252", "Zo\xeb", 0),
    ("utf-8", "latin-1", "Zo\xeb", 1),
    ("utf-8-sig", "cp1252", "Zo\xeb", 1),
    ("utf-16", "cp1252", "Zo\xeb", 1),
    ("cp1252", "cp1252", "Zo\xeb", 0),
    ("utf-8", "utf-16", "Zo\xeb", 1),
    ("utf-8", "utf-16-le", "Zo\xeb", 1),
    ("ascii", "utf-16-be", "Zoe", 1),
    ("ascii", "cp1252", "Zoe", 0),
    ("iso2022_jp", "iso2022_jp", "\u732b", 0),
]


@pytest.mark.parametrize(("side", "encoding", "name", "notes"), ENCODED)
def test_each_side_has_its_own_encoding(files, side, encoding, name, notes):
    """An encoding is for the text files that are in it: workbooks, records and files in UTF-8 or
    with a byte order mark are read as they are, and a note names those of text.
    """
    pets = ps.frame_from_pets([Pet(id=1, name=name, status="sold"), Pet(id=2, name="Rex")])
    one = side
    if side == "folder":
        Path(side).mkdir()
        ps.write_sheet(pets, "folder/a.parquet")
    elif "." in side:
        ps.write_sheet(pets, side)
    else:
        one = "a.csv"
        pets[["id", "name", "status"]].to_csv(one, index=False, encoding=side)
    pets[["id", "name", "status"]].to_csv("b.csv", index=False, encoding=encoding)
    for sides in ((one, "b.csv"), ("b.csv", one)):
        found = ps.diff(*sides, encoding=encoding)
        assert not found.rows
        noted = [note for note in found.notes if "it was not read in the encoding" in note]
        assert len(noted) == notes
        assert all(note.startswith("a.csv is ") for note in noted)


def test_another_worksheet_with_pets_is_noted(files):
    """A workbook may have pets in a worksheet that is not compared: a note names it, unless the
    caller names the worksheet to read.
    """
    book = openpyxl.Workbook()
    for title, name in (("Dogs", "Rex"), ("Cats", "Mia"), ("Prices", "5 EUR")):
        tab = book.create_sheet(title)
        tab.append(["id", "name", "status"] if title != "Prices" else ["Kind", "Price"])
        tab.append([1, name, "sold"])
    book.remove(book.worksheets[0])
    book.save("two.xlsx")
    found = ps.diff("two.xlsx", "old.csv")
    (note,) = [each for each in found.notes if "worksheets" in each]
    assert note.startswith("two.xlsx: only 'Dogs' was read. Other worksheets with ids: 'Cats'")
    found = ps.diff("two.xlsx", "old.csv", tab="Cats")
    assert not [each for each in found.notes if "worksheets" in each]


def test_an_encoding_needs_a_text_file(files):
    """An encoding for no side is an error, which says what to leave out."""
    pets = ps.frame_from_pets([Pet(id=1, name="Rex", status="sold")])
    with pytest.raises(SheetError, match="no side is a text file") as caught:
        ps.diff(pets, pets, encoding="cp1252")
    assert "encoding='cp1252'" in str(caught.value)


@pytest.mark.slow
def test_threads_read_two_plans(files):
    """Two saved plans that are compared in a new process can be read at once, however the threads
    take turns.
    """
    pets = [Pet(id=1, name="Rex", status="sold")]
    ps.save_plan(plan_of(pets, sheet_of([replace(pets[0], name="Rexy")])), "p.json")
    code = "import sys; sys.setswitchinterval(1e-6); import petsync as ps; ps.diff(*2 * ['p.json'])"
    runs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [run.wait() for run in runs] == [0] * 4


# The tables that daff publishes as examples (test/data, harness/MergeTest.hx), or tables of their
# shape: docs/diff.md explains what differs in the outcome.


def _text(*rows):
    return "".join(f"{row}\n" for row in rows)


_WIDE = ",".join("abcdefgh")
BRIDGES = [
    "bridge,designer,length",
    "Brooklyn,J. A. Roebling,1595",
    "Manhattan,G. Lindenthal,1470",
    "Williamsburg,L. L. Buck,1600",
    'Triborough,O. H. Ammann,"1380,383"',
]
DAFF = {
    "bridges": (
        "bridge",
        _text(*BRIDGES),
        _text(*BRIDGES[:2], "Williamsburg,D. Duck,1600", BRIDGES[4], "Spam,S. Spam,10000"),
        [
            ("differs", None, "Williamsburg", {"designer": ("L. L. Buck", "D. Duck")}),
            (
                "only-a",
                None,
                "Manhattan",
                {
                    "name": ("Manhattan", ""),
                    "designer": ("G. Lindenthal", ""),
                    "length": ("1470", ""),
                },
            ),
            (
                "only-b",
                None,
                "Spam",
                {"name": ("", "Spam"), "designer": ("", "S. Spam"), "length": ("", "10000")},
            ),
        ],
        2,
    ),
    # A changed first column is a row of each side, also with quotation marks and line breaks.
    "quote_me": (
        "this",
        _text("this,is,a", "in,cells,->", 'you,"see?","123"""', '"!HI!","new\nline",x', "same,y,z"),
        _text(
            "this,a,is", "same,z,y", 'you,Indeed,"see?..."', "in,cells,->", '"!!HI!!",x,"new\nline"'
        ),
        [
            ("differs", None, "you", {"is": ("see?", "see?..."), "a": ('123"', "Indeed")}),
            ("differs", None, "in", {"is": ("cells", "->"), "a": ("->", "cells")}),
            (
                "only-a",
                None,
                "!HI!",
                {
                    "name": ("!HI!", ""),
                    "is": ("new\nline", ""),
                    "a": ("x", ""),
                },
            ),
            (
                "only-b",
                None,
                "!!HI!!",
                {"name": ("", "!!HI!!"), "is": ("", "new\nline"), "a": ("", "x")},
            ),
        ],
        1,
    ),
    # Rows with one id are one pet: what was repeated is a note.
    "waffle": (
        "",
        _text("id,color", "15,red", "13,mauve", *["15,red"] * 8),
        _text("id,color", "15,red", "13,mauve", *["15,red"] * 3, "16,green", *["15,red"] * 5),
        [("only-b", 16, "", {"color": ("", "green")})],
        2,
    ),
    # Of rows with one name, those that are equal are paired first, then the others in their order.
    "wide": (
        "A",
        _text("A,B,C", *["thing,greeny,zappy"] * 5),
        _text(
            "A,B,C",
            "boom,greeny,zappy",
            *["thing,greeny,zappy"] * 2,
            "thing,boom,zappy",
            "thing,greeny,boom",
        ),
        [
            ("differs", None, "thing", {"B": ("greeny", "boom")}),
            ("differs", None, "thing", {"C": ("zappy", "boom")}),
            (
                "only-a",
                None,
                "thing",
                {
                    "name": ("thing", ""),
                    "B": ("greeny", ""),
                    "C": ("zappy", ""),
                },
            ),
            (
                "only-b",
                None,
                "boom",
                {"name": ("", "boom"), "B": ("", "greeny"), "C": ("", "zappy")},
            ),
        ],
        2,
    ),
}


@pytest.mark.parametrize("case", DAFF)
def test_the_examples_of_daff(tmp_path, monkeypatch, case):
    """The outcome of each example of daff is as docs/diff.md says."""
    monkeypatch.chdir(tmp_path)
    header, a, b, rows, equal = DAFF[case]
    Path("a.csv").write_text(a, "utf-8")
    Path("b.csv").write_text(b, "utf-8")
    found = ps.diff("a.csv", "b.csv", mapping={header: "name"} if header else None)
    assert texts_of(found) == rows
    assert found.equal == equal
    if header:
        with pytest.raises(SheetError, match="no column has a header that petsync recognises"):
            ps.diff("a.csv", "b.csv")


@pytest.mark.parametrize(("capital", "kind"), [("Barcelona", "a"), ("Lisbon", "conflict")])
def test_the_merge_of_daff(tmp_path, monkeypatch, capital, kind):
    """In daff's example of a merge, one cell is changed on one side, or is a conflict; a changed
    name is a removed and an added row, and the column of one side is not compared.
    """
    monkeypatch.chdir(tmp_path)
    tables = {
        "base": ("Country,Capital", "Ireland,Dublin", "France,Paris", "Spain,Barcelona"),
        "a": ("Country,Code,Capital", "Ireland,ie,Dublin", "France,fr,Paris", "Spain,es,Madrid"),
        "b": ("Country,Capital", "Dear old Ireland,Dublin", f"Spain,{capital}", "Finland,Helsinki"),
    }
    for name, rows in tables.items():
        Path(f"{name}.csv").write_text(_text(*rows), "utf-8")
    found = ps.diff("a.csv", "b.csv", "base.csv", mapping={"Country": "name"})
    assert [(row.kind, row.missing, row.name) for row in found.rows] == [
        (kind, "", "Spain"),
        ("b", "base", "Dear old Ireland"),
        ("b", "base", "Finland"),
        ("b", "b", "Ireland"),
        ("b", "b", "France"),
    ]
    assert found.notes == ("Not compared: Code of a.csv, which base.csv and b.csv lack.",)
