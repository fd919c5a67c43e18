"""write_synced: the store's values in a person's own sheet, and nothing else changes."""

import datetime as dt
import re

import openpyxl
import pandas as pd
import pytest
from books import change, parts, plain, rich
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openpyxl.worksheet.table import Table
from sheetmaking import with_whole_tags
from shop import base_of, decided_of, snapshot_of
from test_sheets_round_trip import CATALOGUES, as_sheet_values
from times import times

from petsync.errors import PlanError, SheetError
from petsync.models import Category, Pet, Tag
from petsync.plan.fields import normalize
from petsync.plan.guard import Guard, Limit
from petsync.plan.intake import build_inbound
from petsync.plan.options import MergeOptions
from petsync.sheets import (
    SheetEdits,
    cells_of,
    edits_of,
    load_edits,
    must_take_edits,
    obstacles,
    read_sheet,
    save_edits,
    write_sheet,
    write_synced,
)
from petsync.sheets.sidecar import sidecar_path
from petsync.table.cells import normal_status
from petsync.table.frame import frame_from_pets
from petsync.table.lists import with_python_lists

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 11, 21, 10, 30, tzinfo=dt.UTC)
FREE = Guard(max_delete=Limit(1.0), max_update=Limit(1.0), allow_empty=True)
REX = Pet(id=1, name="Rex", status="sold", category=Category(1, "Dogs"), photo_urls=("a", "b"))
NEW = {"id": "9", "name": "Neo", "status": "available"}


def led(path, now, known=(), **more):
    """Return the sheet at the path and the edits that bring it in agreement with the store."""
    sheet = read_sheet(path, known_statuses=known)
    return sheet, edits_of(inbound_of(sheet, now, **more), sheet)


def inbound_of(sheet, now, **more):
    """Return the changes of the sheet that bring it in agreement with the store."""
    return build_inbound(
        sheet,
        snapshot_of(now),
        sheet.base,
        decided_of(now, sheet, two_way=True),
        lead="store",
        created="",
        options=MergeOptions(delete_missing=True),
        guard=FREE,
        **more,
    )


def with_needed_ids(pet, catalogue):
    """Return the pet with the ids of those tags that have no name, or whose name is ambiguous in
    the pet or in the catalogue.
    """

    def needs_id(tag):
        name = normalize(tag.name)
        known = {other.id for each in catalogue for other in each.tags if is_named(other, name)}
        own = {other.id or None for other in pet.tags if is_named(other, name)}
        return not name or len(known - {None, 0}) > 1 or len(own) > 1

    def is_named(tag, name):
        return normalize(tag.name) == name

    return replace(
        pet, tags=tuple(tag if needs_id(tag) else Tag(None, tag.name) for tag in pet.tags)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder for all examples of one test run."""
    return tmp_path_factory.mktemp("synced")


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@settings(max_examples=times(10))
@given(old=CATALOGUES, now=CATALOGUES, data=st.data())
def test_a_sheet_that_takes_all_says_what_the_store_says(folder, suffix, old, now, data):
    """A sheet with all edits agrees with the store, for changed, added, deleted and unchanged pets
    of any Unicode.
    """
    kept = data.draw(
        st.lists(st.sampled_from(old), unique_by=lambda pet: pet.id) if old else st.just([])
    )
    now = list({pet.id: pet for pet in (*now, *kept)}.values())
    known = {pet.status for pet in (*old, *now) if pet.status}
    path = folder / f"pets{suffix}"
    write_sheet(snapshot_of(old), path, force=True)
    sheet, edits = led(path, now, known)
    backup = write_synced(sheet, edits)
    backup.unlink()
    sidecar_path(backup).unlink(missing_ok=True)
    after = read_sheet(path, known_statuses=known)
    assert not after.errors
    assert sorted(after.frame["id"]) == sorted(pet.id for pet in now)
    assert not led(path, now, known)[1]


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@settings(max_examples=times(10))
@given(catalogue=CATALOGUES)
def test_what_is_written_reads_back_as_it_was(folder, suffix, catalogue):
    """Each value of a new row reads back unchanged, with any characters; a tag without its id,
    unless its name is ambiguous.
    """
    path = folder / f"new{suffix}"
    write_sheet(snapshot_of([]), path, force=True)
    known = {pet.status for pet in catalogue if pet.status}
    backup = write_synced(*led(path, catalogue, known))
    backup.unlink()
    sidecar_path(backup).unlink(missing_ok=True)
    sheet = read_sheet(path, known_statuses=known)
    frame = with_python_lists(sheet.rows).reset_index(drop=True)
    pets = [with_needed_ids(pet, catalogue) for pet in sorted(catalogue, key=lambda pet: pet.id)]
    meant = as_sheet_values(frame_from_pets(pets), is_export=True)
    for name in meant:
        if name == "status":
            seen = [
                frame[name].map(normal_status, "ignore"),
                meant[name].map(normal_status, "ignore"),
            ]
            pd.testing.assert_series_equal(*seen)
        else:
            pd.testing.assert_series_equal(frame[name], meant[name])
    assert with_whole_tags(frame["tags"]) == with_whole_tags(meant["tags"])


@pytest.mark.parametrize(("tab", "separator"), [("Pets", "\n"), ("", " | ")])
def test_the_texts_are_those_of_the_cell_grammar(tab, separator):
    """Photos have the separator of the file's kind, and a text like the marker is escaped."""
    pet = replace(REX, name="[clear]", tags=(Tag(3, "a;b"),))
    result = cells_of(pet, ["name", "tags", "photo_urls", "Price"], separator=separator)
    assert result == {"name": "'[clear]", "tags": '"3:a;b"', "photo_urls": f"a{separator}b"}
    assert cells_of(Pet(id=4), ["id", "name", "tags"]) == {"id": "4", "name": "", "tags": ""}


@pytest.fixture
def book(tmp_path):
    """Return a workbook as people have them."""
    return rich(tmp_path / "pets.xlsx")


def cells(path, area, **options):
    """Return the values of some cells."""
    sheet = openpyxl.load_workbook(path, **options)["Pets"]
    return [[cell.value for cell in row] for row in sheet[area]]


def test_of_a_workbook_everything_else_stays(book):
    """Chart, picture, other sheets and cells without an edit stay, with the formulas' values."""
    before = parts(book)
    sheet = read_sheet(book)
    backup = write_synced(sheet, SheetEdits({2: {"name": "Max"}}, [NEW]), now=NOW)
    assert backup.name == "pets.backup-20261121-103000.xlsx"
    assert parts(backup) == before
    touched = {name for name, data in parts(book).items() if data != before[name]}
    assert touched == {"xl/worksheets/sheet1.xml", "xl/workbook.xml", "docProps/app.xml"}
    assert cells(book, "A2:E2") == [["1", "Max", "sold", "calm", 10]]
    assert cells(book, "A3:E5") == cells(backup, "A3:E5")
    assert cells(book, "E4:E4", data_only=True) == [[30]]
    assert b'fullCalcOnLoad="1"' in parts(book)["xl/workbook.xml"]
    # LibreOffice recalculates a file on load only if neither Excel nor LibreOffice wrote it.
    assert b"<Application>petsync</Application>" in parts(book)["docProps/app.xml"]


def test_a_new_row_looks_like_the_last_one_and_is_in_reach(book):
    """A new row has the last row's format; filter, drop-down, dimension and print area include it,
    and other columns stay blank.
    """
    own = openpyxl.load_workbook(book)
    own["Pets"].print_area = "A1:E5"
    own["Pets"]["B5"].fill = openpyxl.styles.PatternFill("solid", fgColor="ABCDEF")
    own["Pets"]["E5"].number_format = "0.00"
    own.save(book)
    sheet = read_sheet(book)
    write_synced(sheet, SheetEdits(added=[NEW, {**NEW, "id": "10"}]))
    after = openpyxl.load_workbook(book)["Pets"]
    assert cells(book, "A6:E7") == [
        ["9", "Neo", "available", None, None],
        ["10", "Neo", "available", None, None],
    ]
    assert after["B6"].fill.fgColor.rgb == after["B7"].fill.fgColor.rgb == "00ABCDEF"
    assert after["E7"].number_format == "0.00"
    assert (after.auto_filter.ref, after.dimensions) == ("A1:E7", "A1:E7")
    assert after.print_area == "'Pets'!$A$1:$E$7"
    assert str(after.data_validations.dataValidation[0].sqref) == "C2:C7"
    assert [str(each.sqref) for each in after.conditional_formatting] == ["C2:C3"]


def test_a_filter_takes_in_what_a_person_wrote_below_it(book):
    """A filter that begins at the header extends to the added rows; one that begins elsewhere
    stays.
    """
    for reference, after in (("A1:E3", "A1:E6"), ("A2:E3", "A2:E3")):
        own = openpyxl.load_workbook(book)
        own["Pets"].auto_filter.ref = reference
        own.save(book)
        sheet = read_sheet(book)
        write_synced(sheet, SheetEdits(added=[NEW]))
        assert openpyxl.load_workbook(book)["Pets"].auto_filter.ref == after
        write_synced(read_sheet(book), SheetEdits(removed=[6]))


def in_other_order(data):
    """Return a worksheet part with its last row first, and in each row its last cell first."""
    rows = re.findall(rb"<row .*?</row>", data)
    turned = []
    for row in rows[-1:] + rows[:-1]:
        first, *rest = re.findall(rb"<c .*?</c>|<c [^>]*/>", row)
        turned.append(row.replace(first + b"".join(rest), b"".join([*reversed(rest), first])))
    return data.replace(b"".join(rows), b"".join(turned))


def test_rows_in_any_order_are_edited(tmp_path):
    """Edits go into the rows of their numbers, whatever the order of the rows and cells is, and a
    new row goes below all others. A worksheet with two rows of one number is not edited.
    """
    pets = [("id", "name", "status"), *((str(n), f"Pet {n}", "sold") for n in range(1, 5))]
    path = plain(tmp_path / "pets.xlsx", pets)
    edits = SheetEdits({3: {"name": "Max"}}, [NEW], [2])
    write_synced(read_sheet(path), edits)
    expected = cells(path, "A1:C6")
    plain(path, pets)
    change(path, {"sheet1.xml": in_other_order})
    write_synced(read_sheet(path), edits)
    assert cells(path, "A1:C6") == expected
    assert expected[1:3] == [[None] * 3, ["2", "Max", "sold"]]
    assert expected[-1] == list(NEW.values())
    divided = b'</row><row r="4"><c r="D4"/></row><row '
    change(path, {"sheet1.xml": lambda data: data.replace(b"</row><row ", divided, 1)})
    sheet = read_sheet(path)
    with pytest.raises(SheetError, match="the row 4 occurs twice"):
        write_synced(sheet, SheetEdits({3: {"name": "Rex"}}))


def test_a_table_reaches_over_new_rows(tmp_path):
    """A table and its filter extend to new rows, and a new id is a number where the ids are
    numbers.
    """
    path = rich(tmp_path / "pets.xlsx", table=True)
    own = openpyxl.load_workbook(path)
    for row, number in ((2, 1), (3, 2), (5, 4)):
        own["Pets"].cell(row, 1).value = number
    own.save(path)
    write_synced(read_sheet(path), SheetEdits(added=[NEW]))
    table = openpyxl.load_workbook(path)["Pets"].tables["pets"]
    assert (table.ref, table.autoFilter.ref) == ("A1:E6", "A1:E6")
    assert cells(path, "A6:B6") == [[9, "Neo"]]
    assert 9 in read_sheet(path).frame["id"].tolist()


def test_below_a_row_of_totals_nothing_is_added(tmp_path):
    """A row below a table's totals is reported before the write, and the other edits can be
    written.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "name"], ["1", "Rex"], ["2", "Tom"]])
    own = openpyxl.load_workbook(path)
    table = Table(displayName="pets", ref="A1:B3")
    own["Pets"].add_table(table)
    table.totalsRowCount = 1
    own.save(path)
    sheet = read_sheet(path)
    edits = SheetEdits({2: {"name": "Max"}}, [NEW])
    (held,) = obstacles(sheet, edits)
    assert (held.row, held.address) == (None, "Pets!A4")
    assert "total row" in held.problem
    with pytest.raises(SheetError, match="total row"):
        write_synced(sheet, edits)
    write_synced(sheet, edits.without([held]))
    assert cells(path, "A2:B4") == [["1", "Max"], ["2", "Tom"], [None, None]]


def test_a_formula_is_never_overwritten(tmp_path):
    """An edit of a formula is reported before the write, and the other edits can be written."""
    rows = [["id", "name", "status"], ["1", "Rex", '="so"&"ld"'], ["2", "Tom", "sold"]]
    path = plain(tmp_path / "pets.xlsx", rows)
    change(
        path,
        {"sheet1.xml": lambda data: re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>sold</v>", data)},
    )
    sheet = read_sheet(path)
    edits = SheetEdits({2: {"name": "Max", "status": "available"}, 3: {"status": "pending"}})
    (held,) = obstacles(sheet, edits)
    assert (held.row, held.column, held.address) == (2, "status", "Pets!C2")
    before = path.read_bytes()
    with pytest.raises(SheetError, match=r"Pets!C2: the cell has a formula"):
        write_synced(sheet, edits)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["pets.xlsx"]
    write_synced(sheet, edits.without([held]))
    assert cells(path, "B2:C3") == [["Max", '="so"&"ld"'], ["Tom", "pending"]]


def test_a_row_that_goes_leaves_blank_cells(book):
    """A removed row leaves blank cells; other rows keep their places, formulas and formats."""
    sheet = read_sheet(book)
    numbers = sheet.frame.index.tolist()
    write_synced(sheet, SheetEdits(removed=[2]))
    after = read_sheet(book)
    assert after.frame.index.tolist() == numbers[1:]
    assert cells(book, "A2:E2") == [[None] * 5]
    assert cells(book, "E4:E4") == [["=SUM(E2:E3)"]]


def test_rows_are_added_where_the_last_ones_went(tmp_path):
    """New rows fill the place of removed last rows, and are as high as their texts need."""
    path = tmp_path / "pets.xlsx"
    write_sheet(snapshot_of([REX, replace(REX, id=2)]), path)
    photos = "a\nb\nc"
    edits = SheetEdits({2: {"photo_urls": photos}}, [{**NEW, "photo_urls": photos}, NEW], [3])
    write_synced(read_sheet(path), edits)
    sheet = openpyxl.load_workbook(path)["Pets"]
    assert [sheet.cell(row, 1).value for row in (2, 3, 4)] == ["1", "9", "9"]
    assert [sheet.row_dimensions[row].height for row in (2, 3, 4)] == [41.25, 41.25, 15.75]


def test_a_text_that_another_program_would_change_may_be_written_over(tmp_path):
    """A text that the workbook remembers as fragile can be overwritten, and does not come back."""
    path = tmp_path / "pets.xlsx"
    write_sheet(snapshot_of([replace(REX, name="a\r\nb")]), path)
    write_synced(read_sheet(path), SheetEdits({2: {"name": "a\nb"}}))
    assert read_sheet(path).frame["name"].tolist() == ["a\nb"]


def test_a_row_goes_with_its_own_formulas(tmp_path):
    """A row is removed with its own formulas; a row with a shared formula stays, and that is
    reported.
    """
    rows = [["id", "name", "Twice"], ["1", "Rex", "=A2*2"], ["2", "Tom", "=A3*2"]]
    path = plain(tmp_path / "pets.xlsx", rows)
    value = lambda data: re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>2</v>", data)  # noqa: E731
    change(path, {"sheet1.xml": value})
    write_synced(read_sheet(path), SheetEdits(removed=[3]))
    assert read_sheet(path).frame.index.tolist() == [2]
    shared = b'<f t="shared" ref="C2:C3" si="0">A2*2</f>'
    change(path, {"sheet1.xml": lambda data: data.replace(b"<f>A2*2</f>", shared)})
    sheet = read_sheet(path)
    (held,) = obstacles(sheet, SheetEdits(removed=[2]))
    assert (held.row, held.column) == (2, "")
    assert held.suggestion == "Delete the row in Excel or LibreOffice."
    assert not SheetEdits(removed=[2]).without([held])


@pytest.mark.parametrize("reference", [b"C3", b"C3:C3", b"$C$3"])
def test_a_row_goes_with_an_array_formula_of_one_cell(tmp_path, reference):
    """A row is removed with an array formula that fills only one cell."""
    rows = [["id", "name", "Twice"], ["1", "Rex", "=A2*2"], ["2", "Tom", "=A3*2"]]
    path = plain(tmp_path / "pets.xlsx", rows)
    value = lambda data: re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>2</v>", data)  # noqa: E731
    array = b'<f t="array" ref="%b">A3*2</f>' % reference
    change(path, {"sheet1.xml": lambda data: value(data).replace(b"<f>A3*2</f>", array)})
    sheet = read_sheet(path)
    assert obstacles(sheet, SheetEdits(removed=[3])) == ()
    write_synced(sheet, SheetEdits(removed=[3]))
    assert read_sheet(path).frame.index.tolist() == [2]


def test_an_id_is_made_where_the_sheet_has_no_column_for_it(tmp_path):
    """The id is the only column that is created; other missing columns are skipped."""
    for path in (
        plain(tmp_path / "pets.xlsx", [["name", "status"], ["Rex", "sold"]]),
        tmp_path / "pets.csv",
    ):
        if path.suffix == ".csv":
            path.write_text("name,status\nRex,sold\n")
        edits = SheetEdits({2: {"id": "1", "category": "Dogs"}}, [NEW])
        write_synced(read_sheet(path), edits)
        after = read_sheet(path)
        assert after.frame["id"].tolist() == [1, 9]
        assert list(after.columns) == ["id", "name", "status"] or set(after.columns) == {
            "id",
            "name",
            "status",
        }


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("id,name\n1,Rex\n2,Tom\n", "id,name\n1,=Max\n9,Neo\n"),
        ("id,name\r\n1,Rex\r\n2,Tom\r\n", "id,name\r\n1,=Max\r\n9,Neo\r\n"),
        ("id;name\n1;Rex\n2;Tom", "id;name\n1;=Max\n9;Neo\n"),
        ("\ufeffid\tname\n1\tRex\n2\tTom\n", "\ufeffid\tname\n1\t=Max\n9\tNeo\n"),
        ('"id","name"\n"1","Rex"\n"2","Tom"\n', '"id","name"\n"1","=Max"\n"9","Neo"\n'),
        ("sep=;\r\nid;name\r\n1;Rex\r\n2;Tom\r\n", "sep=;\r\nid;name\r\n1;=Max\r\n9;Neo\r\n"),
        ("id,name,,\n1,Rex,,\n2,Tom,,\n", "id,name,,\n1,=Max,,\n9,Neo,,\n"),
        ("id,Note,name\n1,mine,Rex\n2,,Tom\n", "id,Note,name\n1,mine,=Max\n9,,Neo\n"),
    ],
)
def test_a_csv_file_stays_as_it_is_written(tmp_path, text, after):
    """A CSV keeps delimiter, mark, line ends and quotes; a text like a formula gets the guard."""
    path = tmp_path / "pets.csv"
    path.write_bytes(text.encode())
    sheet = read_sheet(path)
    first, second = sheet.frame.index
    write_synced(sheet, SheetEdits({first: {"name": "=Max"}}, [NEW], [second]))
    assert path.read_bytes().decode() == after.replace("=Max", "'=Max")
    assert read_sheet(path).frame["name"].tolist() == ["=Max", "Neo"]


def test_a_csv_file_without_its_last_line_end_gets_none(tmp_path):
    """A CSV without a line end after its last record has none after a new one."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Rex")
    write_synced(read_sheet(path), SheetEdits(added=[NEW]))
    assert path.read_text() == "id,name\n1,Rex\n9,Neo"


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_the_base_that_a_sheet_carries_is_replaced(tmp_path, suffix):
    """The base of a sheet is replaced by a given base; a sheet without a base gets none."""
    path = tmp_path / f"pets{suffix}"
    write_sheet(snapshot_of([REX]), path)
    max_ = replace(REX, name="Max")
    write_synced(read_sheet(path), SheetEdits({2: {"name": "Max"}}), base=base_of([max_]))
    assert read_sheet(path).base.frame["name"].tolist() == ["Max"]
    write_synced(read_sheet(path), SheetEdits({2: {"name": "Moritz"}}))
    assert read_sheet(path).base.frame["name"].tolist() == ["Max"]
    write_sheet(snapshot_of([REX]), path, base=False, force=True)
    write_synced(read_sheet(path), SheetEdits({2: {"name": "Max"}}), base=base_of([max_]))
    assert read_sheet(path).base is None


def test_who_has_it_open_or_saved_it_meanwhile_keeps_it(book):
    """A file that is open in Excel, or changed since it was read, is not written."""
    sheet = read_sheet(book)
    lock = book.with_name(f"~${book.name}")
    lock.write_bytes(b"\x04Anna")
    for act in (must_take_edits, lambda sheet: write_synced(sheet, SheetEdits(added=[NEW]))):
        with pytest.raises(SheetError, match=r"Excel has the file open \(Anna\)"):
            act(sheet)
    lock.unlink()
    must_take_edits(sheet)
    book.write_bytes(book.read_bytes() + b"\0")
    with pytest.raises(SheetError, match="has changed since it was read"):
        write_synced(sheet, SheetEdits(added=[NEW]))
    with pytest.raises(SheetError, match="has changed since it was read"):
        obstacles(sheet, SheetEdits(added=[NEW]))
    assert [each.name for each in book.parent.iterdir()] == [book.name]


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 140_000])
def test_what_no_cell_can_hold_is_reported_beforehand(tmp_path, suffix, text):
    """A value that no cell can contain is reported before the write, and the other edits can be
    written.
    """
    path = tmp_path / f"pets{suffix}"
    write_sheet(snapshot_of([REX]), path)
    sheet = read_sheet(path)
    edits = SheetEdits({2: {"name": text, "status": "pending"}}, [{**NEW, "name": text}])
    held = obstacles(sheet, edits)
    assert [(each.row, each.column) for each in held] == [(2, "name"), (-1, "name")]
    assert {each.suggestion for each in held} == {"Change the text in the store."}
    with pytest.raises(SheetError) as caught:
        write_synced(sheet, edits)
    assert caught.value.hint == "Nothing was written. Change the text in the store."
    write_synced(sheet, edits.without(held))
    assert read_sheet(path).frame["status"].tolist() == ["pending", "available"]


def test_a_row_that_is_not_there_is_an_error(book):
    """An edit of a missing row is an error, and nothing is written."""
    sheet = read_sheet(book)
    for edits in (SheetEdits({99: {"name": "Max"}}), SheetEdits(removed=[1])):
        with pytest.raises(SheetError, match="is not a row of the sheet"):
            write_synced(sheet, edits)


def test_what_would_be_read_otherwise_is_not_written(book, monkeypatch):
    """The new file is read before it replaces the old one, and a file with other changes is
    refused.
    """
    from petsync.sheets.xlsx import edit

    made = edit.amend_workbook

    def spoilt(source, sheet, edits, **more):
        return made(source, sheet, SheetEdits({2: {"tags": "lost"}, **edits.cells}), **more)

    monkeypatch.setattr(edit, "amend_workbook", spoilt)
    before = book.read_bytes()
    with pytest.raises(SheetError, match="would not be correct: Pets!D2 would be wrong"):
        write_synced(read_sheet(book), SheetEdits({3: {"name": "Max"}}))
    assert book.read_bytes() == before


@pytest.mark.parametrize(
    ("cell", "tags", "others", "written"),
    [
        ("calm; shy", (Tag(1, "calm"), Tag(3, "old")), (), "calm; old"),
        ("calm; shy", (Tag(1, "old"), Tag(3, "old")), (), "1:old; 3:old"),
        ("calm; shy", (Tag(1, "old"), Tag(3, None)), (), "old; 3:"),
        ("1:calm; shy", (Tag(1, "calm"), Tag(3, "old")), (), "calm; old"),
        ("calm; shy", (Tag(1, "calm"), Tag(3, "old")), (Tag(7, "calm"),), "1:calm; old"),
    ],
)
def test_tags_are_written_by_name(tmp_path, cell, tags, others, written):
    """A tag is written and shown as an export writes it: by its name, with its id only if the name
    is empty, or if the store or the pet has it with several ids.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "tags"], ["1", cell]])
    now = [replace(REX, tags=tags), replace(REX, id=2, tags=others)]
    sheet = read_sheet(path)
    taken = inbound_of(sheet, now)
    assert taken.changes[0].values["tags"][1] == written
    write_synced(sheet, edits_of(taken, sheet))
    assert cells(path, "B2:B2") == [[written]]
    assert not led(path, now)[1]


def test_settled_rows_get_their_ids(tmp_path):
    """A row whose pet was added gets the id, and its action becomes merge."""
    path = plain(
        tmp_path / "pets.xlsx", [["id", "name", "status", "action"], [None, "Rex", "sold", "add"]]
    )
    sheet, edits = led(path, [replace(REX, category=None, photo_urls=())], pet_ids={2: 1})
    assert edits.cells == {2: {"id": "1", "action": "merge"}}
    write_synced(sheet, edits)
    assert cells(path, "A2:D2") == [["1", "Rex", "sold", "merge"]]


def test_what_a_sheet_waits_for_is_kept_in_a_file_of_its_owner(tmp_path):
    """Pending edits are saved with mode 0600 and load unchanged; a file that cannot be read or
    written is a PlanError.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "name"], ["1", "Rex"]])
    sheet = read_sheet(path)
    now = [replace(REX, name="Max")]
    decided = decided_of(now, sheet, two_way=True)
    one = build_inbound(sheet, snapshot_of(now), None, decided, lead="store", created="")
    file = tmp_path / "waiting.json"
    assert save_edits(one, file) == file
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_edits(file) == one
    write_synced(sheet, edits_of(load_edits(file), sheet))
    assert cells(path, "B2:B2") == [["Max"]]
    with pytest.raises(PlanError, match="cannot be read"):
        load_edits(tmp_path / "none.json")
    with pytest.raises(PlanError, match="cannot be written"):
        save_edits(one, tmp_path / "no" / "waiting.json")
