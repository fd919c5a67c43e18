"""Round trips: any table reads back unchanged from a CSV and from a workbook."""

import csv
import dataclasses
import json
import os
import stat
from collections import defaultdict
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sheetmaking import assert_same_frames, with_whole_tags
from shop import snapshot_of
from strategies import ids, pets
from times import times

from petsync.errors import SheetError
from petsync.models import MAX_ID, Category, Pet, Tag, as_tag
from petsync.plan.fields import normalize
from petsync.protocol.json import decode_pets
from petsync.sheets import read_sheet, write_sheet
from petsync.sheets.sidecar import sidecar_path
from petsync.table.arrow import PetTable, table_from_pets
from petsync.table.cells import LIST_LITERAL, trim
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import frame_from_pets
from petsync.table.lists import with_python_lists

pytestmark = pytest.mark.slow

# Characters with a meaning in a layer of a sheet: guards, escapes, separators, quotes.
AWKWARD = st.text(st.sampled_from("'=+-@\t\r\n\x01\x1f_x0041FE;\"| ,\ufffe\uffff\u00a0é"))
MARKERS = st.sampled_from(
    ["[clear]", "'[clear]", " [CLEAR] ", "'' [Clear]", "\t[clear]", "_x0041_"]
)
# NUL is left out: a text with a NUL is an error that blocks its row.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
TEXT = TEXT | AWKWARD | MARKERS


def is_plain(pet):
    """Return false for a category like a list that a program writes: without a base, it is an error
    that blocks its row.
    """
    text = (pet.category.name if pet.category else None) or ""
    return not LIST_LITERAL.match(trim(text))


CATALOGUES = st.lists(
    pets(TEXT, st.none(), ids).filter(is_plain), max_size=6, unique_by=lambda pet: pet.id
)


def as_sheet_values(frame, *, is_export=False):
    """Return the table as a sheet has it: blank for a text without visible characters, and each tag
    once. In an export, an empty list and an empty category are blank.
    """
    rows = frame[list(COLUMNS)].copy()
    is_cleared = (rows["category"] == "") & rows["category_id"].isna() & (not is_export)
    for name in ("name", "status", "category"):
        seen = [text if isinstance(text, str) and trim(text) else None for text in rows[name]]
        rows[name] = pd.array(seen, dtype=frame[name].dtype)
    rows.loc[is_cleared, "category"] = CLEARED
    for name in ("tags", "photo_urls"):
        key = as_tag if name == "tags" else str
        once = [[*{key(each): each for each in items}.values()] for items in rows[name]]
        once = [each or (None if is_export else []) for each in once]
        rows[name] = pd.Series(once, dtype=object, index=rows.index)
    return rows


def with_needed_ids(catalogue):
    """Return the pets with the tags of an export: the id of a tag only where its name is ambiguous,
    in the catalogue or in the pet.
    """
    numbers = defaultdict(set)
    for tag in (tag for pet in catalogue for tag in pet.tags):
        numbers[normalize(tag.name)].add(tag.id)

    def needs_id(pet, tag):
        name = normalize(tag.name)
        in_pet = [other for other in pet.tags if normalize(other.name) == name]
        is_several = len(numbers[name]) > 1
        return not name or len(numbers[name] - {None, 0}) > 1 or (is_several and len(in_pet) > 1)

    return [
        replace(
            pet, tags=tuple(tag if needs_id(pet, tag) else Tag(None, tag.name) for tag in pet.tags)
        )
        for pet in catalogue
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for all examples of one test run."""
    return tmp_path_factory.mktemp("sheets")


def _remove(*paths):
    """Remove the files of an earlier example, because an export reads the file that it replaces."""
    for path in paths:
        path.unlink(missing_ok=True)
        sidecar_path(path).unlink(missing_ok=True)


@pytest.mark.parametrize("suffix", [".xlsx", ".csv", ".tsv"])
@settings(deadline=None, max_examples=times(25))
@given(catalogue=CATALOGUES)
@example(catalogue=[Pet(id=MAX_ID, name="\x01", tags=(Tag(None, "[clear]"),), photo_urls=("",))])
@example(catalogue=[Pet(id=1, name="_x0041\x01", status="'=A1"), Pet(id=2, name="''\t[clear]")])
def test_a_table_comes_back(folder, suffix, catalogue):
    """read_sheet(write_sheet(x)) is x for any Unicode and any id, without an error."""
    frame = frame_from_pets(catalogue)
    path = folder / f"pets{suffix}"
    _remove(path)
    write_sheet(frame, path)
    sheet = read_sheet(path, known_statuses={pet.status for pet in catalogue if pet.status})
    assert not sheet.errors
    rows = with_python_lists(sheet.rows)[list(COLUMNS)].reset_index(drop=True)
    assert_same_frames(rows, as_sheet_values(frame))


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@settings(deadline=None, max_examples=times(30))
@given(catalogue=CATALOGUES)
@example(catalogue=[Pet(id=1, tags=(Tag(7, "a"), Tag(None, "b"))), Pet(id=2, tags=(Tag(8, "a"),))])
@example(catalogue=[Pet(id=1, tags=(Tag(7, "a"), Tag(0, "a"))), Pet(id=2, tags=(Tag(7, "a"),))])
@example(catalogue=[Pet(id=1, tags=(Tag(7, "e\u0301"), Tag(8, " \u00e9")))])
@example(catalogue=[Pet(id=1, tags=(Tag(7), Tag(None, ""), Tag(9, "7:a"), Tag(9, "7:a")))])
def test_an_export_has_the_names_of_tags(folder, suffix, catalogue):
    """In an export, a tag is its name; it has its id only where the name alone is ambiguous."""
    catalogue.sort(key=lambda pet: pet.id)
    path = folder / f"export{suffix}"
    _remove(path)
    write_sheet(snapshot_of(catalogue), path)
    sheet = read_sheet(path, known_statuses={pet.status for pet in catalogue if pet.status})
    assert not sheet.errors
    rows = with_python_lists(sheet.rows)[list(COLUMNS)].reset_index(drop=True)
    meant = as_sheet_values(frame_from_pets(with_needed_ids(catalogue)), is_export=True)
    assert_same_frames(rows, meant)


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@pytest.mark.parametrize("text", ["[[", "['a']", "Tag(1, 'a')"])
def test_an_exported_text_like_a_list_is_no_error(tmp_path, suffix, text):
    """A category of the store that looks like a list of a program is read from an export; typed
    into a sheet without a base, it is an error.
    """
    frame = frame_from_pets([Pet(id=1, name=text, category=Category(1, text), status="sold")])
    path = tmp_path / f"pets{suffix}"
    write_sheet(frame, path)
    problems = read_sheet(path).problems
    assert [each.rule for each in problems if each.severity == "error"] == ["category-text"]
    _remove(path)
    write_sheet(
        snapshot_of([Pet(id=1, name=text, category=Category(1, text), status="sold")]), path
    )
    assert not read_sheet(path).errors


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@settings(deadline=None, max_examples=times(30))
@given(catalogue=CATALOGUES)
def test_a_sheet_comes_back(folder, suffix, catalogue):
    """A Sheet that is written and read again is the same, with the same cleared fields."""
    known = {pet.status for pet in catalogue if pet.status}
    frame = frame_from_pets(catalogue).drop(columns=["category_id"])
    _remove(folder / "first.csv", folder / f"second{suffix}")
    write_sheet(frame, folder / "first.csv")
    first = read_sheet(folder / "first.csv", known_statuses=known)
    if len(first):
        nothing_in = {"status": "", "category": CLEAR, "tags": [], "photo_urls": []}
        for name, nothing in nothing_in.items():
            first.frame.at[first.frame.index[0], name] = nothing
    write_sheet(first, folder / f"second{suffix}")
    second = read_sheet(folder / f"second{suffix}", known_statuses=known)
    assert not second.errors
    assert_same_frames(second.frame.reset_index(drop=True), first.frame.reset_index(drop=True))


@given(catalogue=st.lists(pets(TEXT, st.none()), max_size=4))
@settings(deadline=None, max_examples=times(30))
def test_json_is_the_pets_themselves(folder, catalogue):
    """The JSON export is the list of pets as the service has it."""
    write_sheet(frame_from_pets(catalogue), folder / "pets.json")
    assert decode_pets((folder / "pets.json").read_bytes()) == catalogue


def test_parquet_keeps_types_and_ids(tmp_path):
    """The Parquet export has exact ids, lists of URLs, and the tags' names beside their ids."""
    catalogue = [
        Pet(id=MAX_ID, name="Zoë", tags=(Tag(1, "calm"), Tag(None, "shy")), photo_urls=("u",)),
        Pet(id=2, extra={"color": "red"}),
    ]
    write_sheet(frame_from_pets(catalogue), tmp_path / "pets.parquet")
    first, second = pq.read_table(tmp_path / "pets.parquet").to_pylist()
    assert first["id"] == MAX_ID
    assert (first["tags"], first["tag_ids"]) == (["calm", "shy"], [1, None])
    assert (second["name"], second["photo_urls"]) == (None, [])
    assert json.loads(second["extra"]) == {"color": "red"}


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1"]
FORMULAS += ["＝1+1", "＋1", "－1", "＠SUM(A1)", ";=1+1", ", @SUM(A1)", "|=1", " ;－1"]
BEFORE = [
    "\u3000",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\x0b",
    "\x1f",
    "\x85",
    "\u00ad",
    "\u2060",
    "\u202e",
]
BEFORE += ["\U000e0020", "\u3164", "\u2009", "\ufe0f", "；", "\u200b \u3000;\ufeff", "'\u3000"]
FORMULAS += [f"{each}=1+1" for each in BEFORE] + ["\u3000＠SUM(A1)", "\u200b﹣1"]
FORMULAS += ["﹦1+1", "﹢1", "﹣1", "﹫SUM(A1)", "−1", "−1+1", "\u3000−1", "⁼1", "₋1", "﬩1", "'−1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_becomes_a_formula(tmp_path, text):
    """A text like a formula is a string in a workbook, and begins with ' in a CSV file."""
    frame = frame_from_pets([Pet(id=-1, name=text, tags=(Tag(None, text),))])
    write_sheet(frame, tmp_path / "pets.csv")
    with (tmp_path / "pets.csv").open(encoding="utf-8-sig", newline="") as file:
        row = next(csv.DictReader(file))
    assert row["name"] == f"'{text}"
    assert row["tags"][0] in "'\""
    assert read_sheet(tmp_path / "pets.csv").frame["name"].tolist() == [text]
    assert row["id"] == "-1"
    write_sheet(frame, tmp_path / "pets.xlsx")
    cells = openpyxl.load_workbook(tmp_path / "pets.xlsx")["Pets"][2]
    assert {cell.data_type for cell in cells if cell.value is not None} == {"s"}


def test_a_workbook_is_pleasant(tmp_path):
    """A workbook has a frozen header with a filter, columns as wide as their texts, and only text
    cells.
    """
    frame = frame_from_pets([Pet(id=7, name="A name of some length", photo_urls=("u", "v"))])
    write_sheet(frame, tmp_path / "pets.xlsx", tab="My pets")
    sheet = openpyxl.load_workbook(tmp_path / "pets.xlsx")["My pets"]
    assert [cell.value for cell in sheet[1]] == [*COLUMNS, "action"]
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == "A1:H2"
    assert sheet.dimensions == "A1:H2"
    assert sheet["A2"].value == "7"
    assert sheet["A2"].number_format == "@"
    assert sheet["G2"].alignment.wrap_text
    assert sheet.column_dimensions["B"].width > sheet.column_dimensions["A"].width
    assert sheet["A1"].font.bold


def test_anything_with_a_frame_is_written(tmp_path):
    """An object with a frame is written like its frame; other objects are refused."""

    class Holder:
        frame = frame_from_pets([Pet(id=7)])

    write_sheet(Holder(), tmp_path / "pets.csv")
    assert read_sheet(tmp_path / "pets.csv").frame["id"].tolist() == [7]
    with pytest.raises(SheetError, match="DataFrame"):
        write_sheet([1], tmp_path / "pets.csv")


def test_a_frame_made_by_hand_is_written(tmp_path):
    """Plain Python values, floats without a fraction, and tags as text are accepted."""
    frame = pd.DataFrame({"id": [1.0, None], "name": ["a", "b"], "tags": [["x"], None]})
    write_sheet(frame, tmp_path / "pets.csv")
    sheet = read_sheet(tmp_path / "pets.csv")
    assert sheet.frame["id"].isna().tolist() == [False, True]
    assert with_whole_tags(sheet.frame["tags"]) == [[Tag(None, "x")], None]
    with pytest.raises(SheetError, match=r"1\.5, which is not a whole number"):
        write_sheet(pd.DataFrame({"id": [1.5]}), tmp_path / "pets.csv")


def test_the_clear_marker_is_written_where_it_clears(tmp_path):
    """A status without a text in a DataFrame is a blank cell; a sheet that clears the status has
    the marker, and so has an empty list of both.
    """
    path = tmp_path / "pets.csv"
    path.write_text("id,status,tags\n1,[clear],[clear]\n")
    sheet = read_sheet(path)
    write_sheet(sheet, tmp_path / "sheet.csv")
    write_sheet(sheet.frame, tmp_path / "frame.csv")
    assert "1,,[clear],,,[clear],," in (tmp_path / "sheet.csv").read_text()
    assert "1,,,,,[clear],," in (tmp_path / "frame.csv").read_text()


def test_writing_is_atomic_and_keeps_the_mode(tmp_path):
    """A failed write leaves only the old file; a successful write keeps the file's mode."""
    path = tmp_path / "pets.xlsx"
    frame = frame_from_pets([Pet(id=7, name="x" * 32_767)])
    write_sheet(frame, path)
    path.chmod(0o640)
    before = path.read_bytes()
    problem = "pet 7, name: the cell B2 would have 32,768 characters, and Excel allows 32,767: 'xxx"
    with pytest.raises(SheetError, match=problem) as caught:
        write_sheet(frame_from_pets([Pet(id=7, name="x" * 32_768)]), path)
    assert caught.value.hint.startswith("Write a format without this limit, such as .json")
    assert path.read_bytes() == before
    write_sheet(frame, path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["pets.xlsx"]


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_nobody_else_reads_a_private_sheet_while_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, umask: int
) -> None:
    """The new file has the old file's private mode from its first byte, with any umask."""
    path, modes, fsync = tmp_path / name, [], os.fsync
    frame = frame_from_pets([Pet(id=7, name="Rex")])
    write_sheet(frame, path)
    path.chmod(0o600)

    def look(file: int) -> None:
        modes.append(os.fstat(file).st_mode)
        fsync(file)

    monkeypatch.setattr(os, "fsync", look)
    before = os.umask(umask)
    try:
        write_sheet(frame, path)
    finally:
        os.umask(before)
    files = [mode & 0o777 for mode in modes if stat.S_ISREG(mode)]
    assert files
    assert {*files} == {0o600}


@pytest.mark.parametrize(
    ("name", "tab", "problem"),
    [
        ("no/such/folder.csv", "Pets", "no folder"),
        ("", "Pets", "not a kind"),
        ("pets.xls", "Pets", "not a kind"),
        ("folder.csv", "Pets", "This is a folder"),
        ("pets.xlsx", "a/b", "cannot be the name of a worksheet"),
        ("pets.xlsx", "x" * 32, "cannot be the name of a worksheet"),
        ("pets.xlsx", "", "cannot be the name of a worksheet"),
        ("pets.xlsx", "History", "cannot be the name of a worksheet"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path, name, tab, problem):
    """An impossible place, kind or tab is a SheetError with a hint."""
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SheetError, match=problem) as caught:
        write_sheet(frame_from_pets([]), tmp_path / name, tab=tab)
    assert caught.value.hint


def test_half_a_surrogate_pair_is_refused(tmp_path):
    """Half a surrogate pair is refused, in a CSV file and in a workbook."""
    frame = pd.DataFrame({"id": [1], "tags": [[Tag(None, "a\ud800")]]})
    for name in ("pets.csv", "pets.xlsx"):
        with pytest.raises(SheetError, match="surrogate"):
            write_sheet(frame, tmp_path / name)


def test_no_csv_is_written_that_cannot_be_read(tmp_path):
    """A cell beyond the reader's limit is refused in a CSV, and the hint names other formats."""
    pet = Pet(id=7, name="x" * 131_073, status="sold")
    with pytest.raises(SheetError, match="row 2 \\(7\\)") as caught:
        write_sheet(frame_from_pets([pet]), tmp_path / "pets.csv")
    assert ".parquet" in caught.value.hint
    assert not (tmp_path / "pets.csv").exists()
    write_sheet(frame_from_pets([replace(pet, name="x" * 131_072)]), tmp_path / "pets.csv")
    assert len(read_sheet(tmp_path / "pets.csv").frame["name"][2]) == 131_072


def test_a_guard_is_known_again_after_a_program_changed_the_line_end(tmp_path):
    """A formula's guard is still recognised after LibreOffice changed its CR to a line feed."""
    pets = [Pet(id=7, name="\r=x", status="sold"), Pet(id=8, name="'\nx", status="sold")]
    path = tmp_path / "pets.csv"
    write_sheet(frame_from_pets(pets), path)
    assert read_sheet(path).frame["name"].tolist() == ["\r=x", "'\nx"]
    path.write_bytes(path.read_bytes().replace(b"\r=x", b"\n=x"))
    assert read_sheet(path).frame["name"].tolist() == ["\n=x", "'\nx"]


@pytest.mark.parametrize("suffix", [".xlsx", ".csv", ".json", ".jsonl", ".parquet"])
def test_an_export_does_not_build_the_dataframe_of_its_pets(tmp_path, suffix, monkeypatch):
    """The memory and time of an export do not include the DataFrame that a snapshot has for
    users.
    """
    pets = PetTable(table_from_pets([Pet(id=1, name="Rex", tags=(Tag(1, "calm"),))]))
    snapshot = dataclasses.replace(snapshot_of([]), pets=pets)
    monkeypatch.setattr(PetTable, "frame", property(lambda _: pytest.fail("the frame was built")))
    write_sheet(snapshot, tmp_path / f"pets{suffix}")
    assert read_sheet(tmp_path / f"pets{suffix}").rows["name"].tolist() == ["Rex"]
