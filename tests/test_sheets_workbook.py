"""Exported workbooks: drop-downs, guide, print layout and exact texts."""

import errno
import io
import os
import re
import tempfile
import tracemalloc
import zipfile

import openpyxl
import pandas as pd
import pytest
from openpyxl.utils import get_column_letter
from test_sheets_base import a_snapshot

from petsync import workbook
from petsync.errors import SheetError
from petsync.models import Category, Pet, Tag
from petsync.sheets import exact, read_sheet, write_sheet
from petsync.sheets.exact import find_resaved_forms
from petsync.sheets.xlsx.contents import GUIDE, Contents
from petsync.sheets.xlsx.write import LISTS, SPARE, workbook_bytes
from petsync.table.columns import ACTIONS, COLUMNS
from petsync.table.frame import frame_from_pets

CATALOGUE = [
    Pet(id=1, name="Bella", status="available", category=Category(1, "Dogs")),
    Pet(id=2, name="Zoë", status="reserved", category=Category(2, "=Cats, big & small")),
    Pet(id=3, photo_urls=tuple(f"https://a.example/{n}.jpg" for n in range(9))),
    Pet(id=4, photo_urls=("https://a.example/1.jpg", "https://a.example/2.jpg")),
    Pet(id=5, tags=tuple(Tag(n, "a rather long word") for n in range(20))),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return the export of a small catalogue."""
    path = tmp_path_factory.mktemp("export") / "my pets.xlsx"
    write_sheet(a_snapshot(CATALOGUE), path)
    return path


@pytest.fixture(scope="module")
def book(path):
    """Return the export as openpyxl reads it."""
    return openpyxl.load_workbook(path)


def validations(book):
    """Return the drop-downs by the letter of their column."""
    found = book["Pets"].data_validations.dataValidation
    return {str(each.sqref)[0]: each for each in found}


def offered(book, validation):
    """Return the values that a drop-down offers."""
    if validation.formula1.startswith('"'):
        return validation.formula1.strip('"').split(",")
    place = book.defined_names[validation.formula1].attr_text
    tab, _, cells = place.rpartition("!")
    return [cell.value for (cell,) in book[tab.strip("'")][cells.replace("$", "")]]


def test_the_drop_downs_offer_what_there_is(book):
    """The drop-downs offer the profile's and the used statuses, the categories, the actions and the
    marker.
    """
    lists = validations(book)
    assert offered(book, lists["C"]) == ["available", "pending", "sold", "reserved", "[clear]"]
    assert offered(book, lists["D"]) == ["=Cats, big & small", "Dogs", "[clear]"]
    assert offered(book, lists["H"]) == list(ACTIONS)
    assert book[LISTS].sheet_state == "hidden"
    assert {cell.data_type for row in book[LISTS].iter_rows() for cell in row} <= {"s", "n"}


def test_the_drop_downs_reach_new_rows(book):
    """The drop-downs also cover the SPARE blank rows below the pets."""
    for column, validation in validations(book).items():
        assert str(validation.sqref) == f"{column}2:{column}{len(CATALOGUE) + 1 + SPARE}"


def test_the_drop_downs_forbid_nothing(book):
    """A value outside a drop-down gives at most a warning, blank is valid, and texts fit Excel's
    limits.
    """
    for validation in validations(book).values():
        assert validation.allow_blank
        assert not validation.showErrorMessage or validation.errorStyle == "warning"
        assert len(validation.prompt or "") <= 255
        assert len(validation.error or "") <= 225
        assert max(len(validation.promptTitle or ""), len(validation.errorTitle or "")) <= 32


def test_statuses_are_given_by_the_caller(tmp_path):
    """The drop-down of statuses begins with those that the caller gives."""
    write_sheet(frame_from_pets(CATALOGUE), tmp_path / "a.xlsx", statuses=("new", "available"))
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert offered(book, validations(book)["C"]) == ["new", "available", "reserved", "[clear]"]


def test_a_list_leaves_out_what_a_cell_cannot_show(tmp_path):
    """A drop-down leaves out categories with invisible characters or too long text."""
    names = ["a\x01", "b\r\nc", "_x0041_", "x" * 300, "d"]
    frame = frame_from_pets(Pet(id=n, category=Category(n, c)) for n, c in enumerate(names))
    write_sheet(frame, tmp_path / "a.xlsx", clear="")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert offered(book, validations(book)["D"]) == ["d"]
    assert read_sheet(tmp_path / "a.xlsx").frame["category"].tolist() == names


def test_one_pet_is_counted_as_one(tmp_path):
    """The guide and the notice of a base say `1 pet`."""
    one = a_snapshot([Pet(id=1, name="Rex")])
    for name in ("a.xlsx", "a.csv"):
        write_sheet(one, tmp_path / name)
    guide = openpyxl.load_workbook(tmp_path / "a.xlsx")[GUIDE]
    sidecar = (tmp_path / "a.csv.petsync-base").read_text("utf-8")
    for text in (guide["B2"].value, sidecar.partition("\n")[0]):
        assert "1 pet of http" in text


def test_the_guide_explains_every_column_and_action(book):
    """The guide worksheet names the source, each column, each action and the next command."""
    assert book.sheetnames[:2] == ["Pets", GUIDE]
    assert book.active.title == "Pets"
    texts = [str(cell.value) for row in book[GUIDE].iter_rows() for cell in row if cell.value]
    text = "\n".join(texts)
    assert "5 pets of http://shop.example/v2/ü, as exported on 21 November 2026, 12:30" in text
    assert 'petsync plan "my pets.xlsx"' in text
    assert "changes nothing" in text
    assert "[clear]" in texts
    for name in (*COLUMNS, "action"):
        assert f"{name}:" in texts
    for action in ACTIONS:
        assert action in text
    assert min(cell.font.size for row in book[GUIDE].iter_rows() for cell in row) >= 11


def test_the_guide_is_never_read_as_pets(path, tmp_path):
    """The guide is never read as pets, even if it is named or the pets' worksheet is missing."""
    with pytest.raises(SheetError, match="no column"):
        read_sheet(path, tab=GUIDE)
    book = openpyxl.load_workbook(path)
    del book["Pets"]
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(SheetError, match="'Pets', which petsync wrote or read before, no longer"):
        read_sheet(tmp_path / "a.xlsx")


def test_an_export_has_no_finding(path):
    """An export that petsync wrote has no finding."""
    sheet = read_sheet(path, known_statuses=["reserved"])
    assert sheet.findings.empty
    assert sheet.tab == "Pets"


def test_no_green_triangles_and_no_tall_rows(path, book):
    """Digits as text have no Excel warning, and no row is higher than seven lines."""
    with zipfile.ZipFile(path) as package:
        part = package.read("xl/worksheets/sheet1.xml").decode()
    (ignored,) = re.findall(r'<ignoredError sqref="([^"]*)" numberStoredAsText="1"/>', part)
    assert ignored == f"A2:{get_column_letter(8)}{len(CATALOGUE) + 1 + SPARE}"
    heights = [book["Pets"].row_dimensions[row].height for row in range(2, 7)]
    assert heights == [(lines * 12.75) + 3 for lines in (1, 1, 7, 2, 7)]
    assert book["Pets"]["G4"].alignment.wrap_text


@pytest.mark.slow
def test_many_rows_take_no_memory():
    """Of the rows of an export only a few are in memory as XML at a time."""
    rows = 20_000
    columns = [[f"{name} {n}" for n in range(rows)] for name in (*COLUMNS, "action")]
    contents = Contents(columns=columns, tab="Pets", file="a.xlsx", exact=False)
    tracemalloc.start()
    data = workbook_bytes(contents)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        part = archive.read("xl/worksheets/sheet1.xml")
    assert part.count(b"<row ") == rows + 1
    assert peak < 0.8 * len(part)


def test_no_room_for_temporary_files_is_an_error_with_a_way_out(tmp_path, monkeypatch):
    """If the rows do not fit into the folder for temporary files, the error names TMPDIR, and no
    file is written.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(workbook, "_IN_MEMORY", 10)
    with pytest.raises(SheetError, match="temporary file") as caught:
        write_sheet(frame_from_pets(CATALOGUE), tmp_path / "a.xlsx")
    assert "TMPDIR" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_last_rows_that_do_not_fit_are_the_same_error(tmp_path, monkeypatch):
    """The end of the rows, which the file may hold back until it is flushed, is checked too."""

    class Full(io.BytesIO):
        def flush(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(workbook.tempfile, "SpooledTemporaryFile", lambda max_size: Full())
    with pytest.raises(SheetError, match="temporary file") as caught:
        write_sheet(frame_from_pets(CATALOGUE), tmp_path / "a.xlsx")
    assert "TMPDIR" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\ud800.xlsx", "a\ud800.csv", "a\ud800.json"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    """A name with a character that no file system takes is the name's error, not a cell's."""
    with pytest.raises(SheetError, match="no file name can have") as caught:
        write_sheet(frame_from_pets(CATALOGUE), f"{tmp_path}/{name}")
    assert "name" in caught.value.hint


def test_long_addresses_have_their_lines(tmp_path):
    """A row is high enough for an address that wraps to several lines."""
    path, end = tmp_path / "a.xlsx", "x" * 80
    pets = [Pet(id=1, photo_urls=("u", "v")), Pet(id=2, photo_urls=(end,)), Pet(id=3)]
    write_sheet(frame_from_pets([*pets, Pet(id=4, photo_urls=(end, end))]), path)
    rows = openpyxl.load_workbook(path)["Pets"].row_dimensions
    assert rows[5].height > rows[3].height == rows[2].height > rows[4].height


def test_the_footer_is_inside_the_page(book):
    """The footer has its own space inside the page margin."""
    for sheet in (book["Pets"], book[GUIDE]):
        margins = sheet.page_margins
        assert margins.bottom - margins.footer >= 0.4
        assert margins.footer >= 0.25


def test_new_rows_are_text_too(book):
    """Blank rows have the text format, so that a typed id is not converted."""
    assert {book["Pets"].column_dimensions[letter].number_format for letter in "ABEH"} == {"@"}


def test_it_prints_well_and_tells_no_names(path, book):
    """The sheet prints in landscape at page width with the header on each page, and the file names
    no person.
    """
    sheet = book["Pets"]
    assert sheet.page_setup.orientation == "landscape"
    assert (sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight) == (1, 0)
    assert sheet.print_title_rows == "$1:$1"
    assert book.properties.title == "Pets of http://shop.example/v2/ü"
    assert book.properties.creator == "petsync"
    assert book.properties.lastModifiedBy is None


def test_actions_colour_their_row(book):
    """A row with the action delete, add or ignore has a colour."""
    rules = [rule for each in book["Pets"].conditional_formatting for rule in each.rules]
    formulas = " ".join(rule.formula[0] for rule in rules)
    assert all(f'TRIM($H2)="{word}"' in formulas for word in ("delete", "add", "ignore"))


@pytest.mark.parametrize("tab", [GUIDE, "PETSYNC LISTS", "petsync texts"])
def test_petsyncs_own_worksheets_keep_their_names(tmp_path, tab):
    """The worksheet of the pets cannot have the name of a worksheet that petsync adds."""
    with pytest.raises(SheetError, match="petsync itself"):
        write_sheet(frame_from_pets(CATALOGUE), tmp_path / "a.xlsx", tab=tab)


FRAGILE = [Pet(id=1, name="a\r\nb"), Pet(id=2, name="a\nb"), Pet(id=3, name="_x0041_x0042_")]


def as_libreoffice_saves(path, names):
    """Change the names in a workbook, as LibreOffice would."""
    book = openpyxl.load_workbook(path)
    for row, name in enumerate(names, 2):
        book["Pets"].cell(row, 2).value = name
    book.save(path)


def test_what_a_program_mangled_is_no_edit(tmp_path):
    """A text that is exactly LibreOffice's form of an exported text is read as exported; any other
    is an edit.
    """
    path = tmp_path / "a.xlsx"
    write_sheet(frame_from_pets(FRAGILE), path)
    as_libreoffice_saves(
        path, ["a\nb", "a\nb", find_resaved_forms(FRAGILE[2].name)[0].replace("_", "_x005F_")]
    )
    assert read_sheet(path).frame["name"].tolist() == [pet.name for pet in FRAGILE]
    as_libreoffice_saves(path, ["a b", "a\nb\n", "AB"])
    assert read_sheet(path).frame["name"].tolist() == ["a b", "a\nb\n", "AB"]


def test_forged_exact_texts_change_nothing(tmp_path):
    """Forged exact texts have no effect where no program could have changed the cell's text like
    that.
    """
    path = tmp_path / "a.xlsx"
    write_sheet(frame_from_pets(FRAGILE), path)
    book = openpyxl.load_workbook(path)
    forged = exact.exact_lines({"id": ["1", "2"], "name": ["Rex\r\n", "evil\r\nname"]})
    for row, line in enumerate(forged, 1):
        book[exact.TEXTS_TAB].cell(row, 1).value = line
    book.save(path)
    assert read_sheet(path).frame["name"].tolist()[1:] == [pet.name for pet in FRAGILE[1:]]
    book[exact.TEXTS_TAB].cell(2, 1).value = "AAAA"
    book.save(path)
    assert len(read_sheet(path)) == 3


def test_most_workbooks_have_no_exact_texts(book, tmp_path):
    """A workbook has exact texts only if a text is fragile and the export has a base."""
    assert exact.TEXTS_TAB not in book.sheetnames
    write_sheet(frame_from_pets(FRAGILE), tmp_path / "a.xlsx")
    assert exact.TEXTS_TAB in openpyxl.load_workbook(tmp_path / "a.xlsx").sheetnames
    write_sheet(frame_from_pets(FRAGILE), tmp_path / "b.xlsx", base=False)
    names = openpyxl.load_workbook(tmp_path / "b.xlsx").sheetnames
    assert names == ["Pets", GUIDE, LISTS]


def test_json_lines_have_a_pet_each(tmp_path):
    """Every line of .jsonl is one pet as the service has it, exact and with unknown fields."""
    catalogue = [Pet(id=2**63 - 1, name="a\nb", extra={"color": "red"}), Pet(id=1)]
    write_sheet(frame_from_pets(catalogue), tmp_path / "pets.jsonl")
    frame = pd.read_json(tmp_path / "pets.jsonl", lines=True, dtype=False)
    assert frame["id"].tolist() == [2**63 - 1, 1]
    assert frame["color"].tolist()[0] == "red"
    assert (tmp_path / "pets.jsonl").read_bytes().count(b"\n") == 2
