"""Files that cannot be read at all: each error names the problem and the fix."""

import io
import itertools
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from specimens import unzipped, zipped
from times import times

import petsync as ps
from petsync._files import write_atomically
from petsync.errors import SheetError
from petsync.models import Pet
from petsync.sheets import read_sheet, write_results, write_sheet
from petsync.sheets.headers import Mapper
from petsync.sheets.load import load
from petsync.sheets.xlsx import package, read
from petsync.table.frame import frame_from_pets

OLE = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(600)
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook(*rows, packing=zipfile.ZIP_DEFLATED, **parts):
    """Return the bytes of a workbook; `sheet`, `workbook` and `styles` replace these parts."""
    book = openpyxl.Workbook()
    for row in rows or (["id", "name"], [1, "Bello"]):
        book.active.append(row)
    plain, changed = io.BytesIO(), io.BytesIO()
    book.save(plain)
    names = {"sheet": "xl/worksheets/sheet1.xml"}
    names |= {name: f"xl/{name}.xml" for name in ("workbook", "styles")}
    replaced = {names[key]: value for key, value in parts.items()}
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(changed, "w", packing) as new:
        for info in old.infolist():
            new.writestr(info.filename, replaced.get(info.filename) or old.read(info))
    return changed.getvalue()


def worksheet(rows, prefix=""):
    """Return a worksheet part with these rows."""
    space = f"xmlns{':' + prefix[:-1] if prefix else ''}"
    return (
        f'<{prefix}worksheet {space}="{MAIN}"><{prefix}sheetData>{rows}</{prefix}sheetData>'
        f"</{prefix}worksheet>"
    ).encode()


def text_cell(place, text, prefix=""):
    """Return one cell with an inline string."""
    return (
        f'<{prefix}c r="{place}" t="inlineStr"><{prefix}is><{prefix}t>{text}</{prefix}t>'
        f"</{prefix}is></{prefix}c>"
    )


NAMES = ("id", "name", "Notes")
HEADER = f'<row r="1">{text_cell("A1", "id")}{text_cell("B1", "name")}</row>'


def zipped_again(name, text):
    """Return the bytes of a workbook with a second part of that name."""
    return zipped([*unzipped(workbook()), (name, text)])


def locked():
    """Return the bytes of a workbook whose parts are marked as encrypted."""
    data = bytearray(workbook())
    for entry in re.finditer(rb"PK\x01\x02", bytes(data)):
        data[entry.start() + 8] |= 1
    return bytes(data)


BROKEN = {
    "truncated": ("pets.xlsx", workbook()[:2000], "the end of the workbook is missing"),
    "wrong bytes": ("pets.xlsx", workbook().replace(b"PK\1\2", b"XX\1\2"), "is damaged"),
    "torn sheet": ("pets.xlsx", workbook(sheet=worksheet("")[:-20] + b'"e"'), "is damaged"),
    "not XML": ("pets.xlsx", workbook(workbook=b"<workbook"), "is damaged"),
    "no sheets": ("pets.xlsx", workbook(workbook=b"<workbook/>"), "no worksheet in this file"),
    "entities": (
        "pets.xlsx",
        workbook(sheet=b'<!DOCTYPE a [<!ENTITY b "c">]>' + worksheet("")),
        "no spreadsheet program writes",
    ),
    "UTF-16 XML": ("pets.xlsx", workbook(sheet="<worksheet/>".encode("utf-16")), "is damaged"),
    "stray cell": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')),
        "as far as column XFD and as far as row 1,048,576",
    ),
    "impossible cell": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + '<row r="2"><c r="ZZZZZZ2"><v>1</v></c></row>')),
        "it has a cell beyond the limits of a sheet",
    ),
    "impossible row": (
        "pets.xlsx",
        workbook(
            sheet=worksheet(HEADER + '<row r="4000000000"><c r="A4000000000"><v>1</v></c></row>')
        ),
        "it has a cell beyond the limits of a sheet",
    ),
    "a cell in another row": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + f'<row r="2">{text_cell("A1", "7")}</row>')),
        "the cell A1 is in the row 2",
    ),
    "a cell in another row of a sheet with errors": (
        "pets.xlsx",
        workbook(
            sheet=worksheet(
                HEADER + f'<row r="2">{text_cell("A1", "7")}<c t="e"><v>x</v></c></row>'
            )
        ),
        "the cell A1 is in the row 2",
    ),
    "two cells in one place": (
        "pets.xlsx",
        workbook(
            sheet=worksheet(
                HEADER + f'<row r="2">{text_cell("B2", "x")}{text_cell("B2", "y")}</row>'
            )
        ),
        "the cell B2 occurs twice",
    ),
    "a formatted cell in the place of another one": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + f'<row r="2">{text_cell("B2", "x")}<c r="B2"/></row>')),
        "the cell B2 occurs twice",
    ),
    "one place in two rows of one number": (
        "pets.xlsx",
        workbook(
            sheet=worksheet(
                f'{HEADER}<row r="2">{text_cell("B2", "x")}</row><row r="3"/>'
                f'<row r="2">{text_cell("A2", "7")}{text_cell("B2", "y")}</row>'
            )
        ),
        "the cell B2 occurs twice",
    ),
    "one place in two rows of one number of a sheet with errors": (
        "pets.xlsx",
        workbook(
            sheet=worksheet(
                f'{HEADER}<row r="2">{text_cell("B2", "x")}</row><row r="3"/>'
                '<row r="2"><c r="C2"/><c r="A2" t="e"><v>x</v></c><c><v>7</v></c></row>'
            )
        ),
        "the cell B2 occurs twice",
    ),
    "no place at all": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + '<row r="2"><c r="A9999999999999"><v>7</v></c></row>')),
        "the cell A9999999999999 is in the row 2",
    ),
    "two tables in a sheet": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + "</sheetData><sheetData>")),
        "it has two tables of cells",
    ),
    "two tables, prefixed": (
        "pets.xlsx",
        workbook(sheet=worksheet("</x:sheetData><x:sheetData>", "x:")),
        "it has two tables of cells",
    ),
    **{
        f"a number in pieces: {number}": (
            "pets.xlsx",
            workbook(sheet=worksheet(HEADER + f'<row r="2"><c r="A2"><v>{number}</v></c></row>')),
            "a number in it is split into pieces",
        )
        for number in ("4<!-- -->2", "<![CDATA[42]]>", "4&#50;", "&#x34;2")
    },
    "unreadable formats": (
        "pets.xlsx",
        workbook(styles=b"<styleSheet><xf></styleSheet>"),
        "styles.xml: mismatched tag",
    ),
    "XML in another encoding": (
        "pets.xlsx",
        workbook(styles=b'<?xml version="1.0" encoding="cp500"?><styleSheet/>'),
        "XML of a kind that no spreadsheet program writes",
    ),
    "a part there twice": (
        "pets.xlsx",
        zipped_again("xl/workbook.xml", b"<workbook/>"),
        "the part xl/workbook.xml occurs twice",
    ),
    "another packing": (
        "pets.xlsx",
        workbook(packing=zipfile.ZIP_BZIP2),
        "compressed with a method that no spreadsheet program uses",
    ),
    "a locked archive": ("pets.xlsx", locked(), "the file is encrypted"),
    "missing text": (
        "pets.xlsx",
        workbook(sheet=worksheet(HEADER + '<row r="2"><c r="A2" t="s"><v>99</v></c></row>')),
        "the worksheet is damaged",
    ),
    "unclosed quote": (
        "pets.csv",
        b'id,name\n1,a\n2,"b\n3,c\n',
        "line 3 has a quote that is never",
    ),
    "no header": ("pets.csv", b"1,Bello\n2,Rex\n", "line 1 has '1', 'Bello'"),
    "no known header": (
        "pets.xlsx",
        workbook(["nummer", "nmae"], [1, "Bello"]),
        "mapping={'nummer': 'id', 'nmae': 'name'}",
    ),
    "two of a kind": (
        "pets.csv",
        b"id,Photo URLs,photo_urls\n",
        "columns mean photo_urls: 'Photo URLs' in column 2",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_the_way_out(tmp_path, case):
    """The error of a broken file names the file and the problem, and has a hint."""
    name, data, problem = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SheetError, match=problem) as caught:
        read_sheet(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_missing_file_names_its_neighbours(tmp_path):
    """The hint of a missing file names the sheets in the folder, whatever the case of their
    suffixes.
    """
    for name in ("catalogue.xlsx", "PETS.XLSX", "Stock.Csv", "readme.md"):
        (tmp_path / name).touch()
    with pytest.raises(SheetError, match="no such file") as caught:
        read_sheet(tmp_path / "catalog.xlsx")
    assert "there are PETS.XLSX, Stock.Csv, catalogue.xlsx." in caught.value.hint


def test_a_pattern_of_files_is_named(tmp_path):
    """A pattern is no missing file: the hint says how to check and to compare several files."""
    (tmp_path / "a.csv").touch()
    for name in ("*.csv", "?.csv"):
        with pytest.raises(SheetError, match="this is a pattern of several files") as caught:
            read_sheet(tmp_path / name)
        for way in ("there is a.csv", "ps.check_sheet(path)", "store.plan(path)"):
            assert way in caught.value.hint


def test_a_file_without_permission_is_named(tmp_path):
    """A file without read permission has its own error, different from a missing file."""
    path = tmp_path / "pets.csv"
    path.write_text("id\n1\n")
    path.chmod(0)
    code = f"read_sheet({str(path)!r})"
    drop = "import os; os.geteuid() or (os.setgid(65534), os.setuid(65534)); "
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", f"from petsync.sheets import read_sheet; {drop}{code}"],
        capture_output=True,
        text=True,
    )
    assert "you do not have permission to read this file" in done.stderr


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    """A workbook that is far larger unpacked is refused before anything is unpacked."""
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(HEADER + " " * 80_000_000)))
    with pytest.raises(SheetError, match="times its packed size; it is not opened"):
        read_sheet(path)


def test_an_unknown_tab_names_those_there_are(tmp_path):
    """An unknown `tab` is an error whose hint names the worksheets; case does not count."""
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook())
    with pytest.raises(SheetError, match="no sheet 'Pets'") as caught:
        read_sheet(path, tab="Pets")
    assert "'Sheet'" in caught.value.hint
    assert read_sheet(path, tab="SHEET").tab == "Sheet"


def test_the_first_visible_tab_with_our_headers_is_read(tmp_path):
    """The first visible worksheet with known headers is read; notes before it and hidden worksheets
    are skipped.
    """
    book = openpyxl.Workbook()
    book.active.append(["How to use this sheet"])
    hidden = book.create_sheet("base")
    hidden.append(["id", "name"])
    hidden.sheet_state = "veryHidden"
    book.create_sheet("My pets").append(["id", "name"])
    book["My pets"].append([1, "[clear]"])
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert sheet.tab == "My pets"
    assert sheet.problems[0].address == "'My pets'!B2"


def test_a_mapping_to_no_column_is_refused(tmp_path):
    """A mapping to an unknown column is refused."""
    path = tmp_path / "pets.csv"
    path.write_text("Nr\n1\n")
    with pytest.raises(SheetError, match="names 'nummer', which is not a column"):
        read_sheet(path, mapping={"Nr": "nummer"})
    assert read_sheet(path, mapping={"nr": "ID"}).frame["id"].tolist() == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"id;name\n1;Bello, the dog\n",
        b"id\tname\n1\tBello, the dog\n",
        b'\xef\xbb\xbfid,name\r\n1,"Bello, the dog"\r\n',
        b'sep=;\r\nid;name\r\n1;"Bello, the dog"\r\n',
        b'id,name\r1,"Bello, the dog"\r',
        b"Pets; 2026, spring\nid;name\n1;Bello, the dog\n",
    ],
)
def test_the_delimiter_is_found(tmp_path, data):
    """Comma, semicolon and tab are detected, with and without a byte order mark, with every line
    end.
    """
    path = tmp_path / "pets.csv"
    path.write_bytes(data)
    assert read_sheet(path).frame["name"].tolist() == ["Bello, the dog"]


def test_a_workbook_is_known_by_its_bytes(tmp_path):
    """A workbook with the suffix .csv is read as a workbook."""
    path = tmp_path / "pets.csv"
    path.write_bytes(workbook())
    assert read_sheet(path).tab == "Sheet"


def test_texts_in_pieces_are_put_together(tmp_path):
    """Comments, CDATA and references split no text, and a formula's text keeps its line break."""
    rows = (
        f'{HEADER}<row r="2">{text_cell("A2", "<![CDATA[7]]>")}{text_cell("B2", "a<!-- b -->c")}'
        f'</row><row r="3">{text_cell("A3", "8")}<c r="B3" t="str"><v>3&#10;4&amp;</v></c></row>'
    )
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(rows)))
    assert read_sheet(path).frame["name"].tolist() == ["ac", "3\n4&"]


def test_a_wrong_extent_does_not_matter(tmp_path):
    """A wrong `dimension` of a worksheet has no effect."""
    data = worksheet(HEADER + f'<row r="2"><c r="A2"><v>7</v></c>{text_cell("B2", "x")}</row>')
    for extent in (b"A1", b"A1:XFD1048576", b"Z9:Z9"):
        claim = b'<dimension ref="' + extent + b'"/><sheetData>'
        path = tmp_path / "pets.xlsx"
        path.write_bytes(workbook(sheet=data.replace(b"<sheetData>", claim)))
        assert read_sheet(path).frame["id"].tolist() == [7]


def test_shared_strings_are_read_from_wherever_they_are(tmp_path):
    """The shared strings are found by the workbook's relations, whatever the name of their part."""
    strings = f'<sst xmlns="{MAIN}"><si><t>id</t></si><si><t>7</t></si></sst>'
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c></row><row r="2"><c r="A2" t="s"><v>1</v></c></row>'
    )
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    link = f'<Relationship Id="s" Type="{kinds}/sharedStrings" Target="/xl/other.xml"/>'
    path = tmp_path / "pets.xlsx"
    with zipfile.ZipFile(io.BytesIO(workbook(sheet=worksheet(rows)))) as old:
        relations = old.read("xl/_rels/workbook.xml.rels").decode()
        names = [name for name in old.namelist() if "haredStrings" not in name]
        kept = {name: old.read(name) for name in names}
    relations = re.sub(r"<Relationship [^>]*sharedStrings[^>]*/>", "", relations)
    kept["xl/_rels/workbook.xml.rels"] = relations.replace("</Rel", f"{link}</Rel").encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in kept.items():
            new.writestr(name, data)
        new.writestr("xl/other.xml", strings)
    assert read_sheet(path).frame["id"].tolist() == [7]


def test_elements_with_a_prefix_are_read(tmp_path):
    """Worksheets whose elements have a prefix, such as `x:c`, are read, with the errors in them."""
    x = "x:"
    rows = (
        f'<x:row r="1">{text_cell("A1", "id", x)}{text_cell("B1", "name", x)}</x:row>'
        '<x:row r="2"><x:c r="A2"><x:v>7</x:v></x:c>'
        '<x:c r="B2" t="e"><x:v>#REF!</x:v></x:c></x:row>'
    )
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(rows, x)))
    assert [(each.address, each.rule) for each in read_sheet(path).problems] == [
        ("Sheet!B2", "error-cell")
    ]


ERRORS = ["#SPILL!", "#CALC!", "#ERROR!", "#CONNECT!", "#GETTING_DATA", "Err:508", "#n/a", ""]


@pytest.mark.parametrize("shown", ERRORS)
@pytest.mark.parametrize("prefix", ["", "x:"])
def test_an_error_that_is_new_to_the_reader_is_one_of_its_row(tmp_path, shown, prefix):
    """An error of an unknown kind is a finding only in a column that petsync reads, and the rest of
    the worksheet is read, also without cell references.
    """
    p = prefix
    head = "".join(text_cell(f"{at}1", name, p) for at, name in zip("ABC", NAMES, strict=True))

    def cell(kind, text):
        return f"<{p}c {kind}><{p}v>{text}</{p}v></{p}c>"

    rows = [
        [cell("", 2), cell("t='e'", shown), cell('t="str"', shown)],
        [cell("", 3), cell('t="str"', "Rex"), cell('s="0" t="e" ', shown)],
        [cell("", 4), cell('t="str"', "Mia")],
    ]
    rows = "".join(f"<{p}row>{''.join(cells)}</{p}row>" for cells in rows)
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(f'<{p}row r="1">{head}</{p}row>{rows}', p)))
    sheet = read_sheet(path)
    assert [(each.address, each.rule, each.value) for each in sheet.problems] == [
        ("Sheet!B2", "error-cell", shown)
    ]
    assert sheet.frame[["id", "name"]].to_numpy().tolist() == [[3, "Rex"], [4, "Mia"]]
    assert sheet.others["Notes"].tolist() == [shown, ""]


def test_a_large_worksheet_with_a_new_error_is_read(tmp_path):
    """An error of an unknown kind affects only its row, in whichever part of a large worksheet it
    is.
    """
    rows = [["id", "name", "Notes"], *([n, f"N{n}", "x"] for n in range(1, 301))]
    part = dict(unzipped(workbook(*rows)))["xl/worksheets/sheet1.xml"]
    new = re.sub(rb'<c r="C250".*?</c>', b'<c r="C250" t="e"><v>#SPILL!</v></c>', part)
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=new))
    grid = read.read_grid(load(path), Mapper.of("", None), None, block=1000)
    assert [len(each) for each in grid.columns] == [300] * 3
    assert grid.columns[2].kinds.nonzero()[0].tolist() == [248]


def test_cells_without_a_reference_are_read_in_order(tmp_path):
    """A cell without a reference follows the cell before it."""
    rows = (
        "<row><c t='inlineStr'><is><t>id</t></is></c>"
        "<c t='inlineStr'><is><t>name</t></is></c></row>"
        "<row><c><v>7</v></c><c t='e'><v>#N/A</v></c></row>"
    )
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(rows)))
    sheet = read_sheet(path)
    assert [(each.address, each.value) for each in sheet.problems] == [("Sheet!B2", "#N/A")]


@st.composite
def sheets_in_any_order(draw):
    """Return the rows of a worksheet with a header, in any order, and whether a cell is there
    twice.
    """
    contents = st.sampled_from(
        [
            *("<v>7</v>", "<is><t>Bello</t></is>", "<is><t>é &amp; &lt;b&gt;</t></is>"),
            *("<is><t/></is>", "<f>1+1</f><v>2</v>", ""),
        ]
    )
    places = st.tuples(st.integers(2, 9), st.sampled_from("ABC"))
    cells = draw(st.dictionaries(places, contents, max_size=12))
    cells |= {(1, "A"): "<is><t>id</t></is>", (1, "B"): "<is><t>name</t></is>"}
    order = draw(st.permutations(sorted(cells)))
    is_repeated = draw(st.integers(0, 4)) == 0
    order += order[:1] if is_repeated else []
    if draw(st.booleans()):
        order.sort(key=lambda place: place[0])
    rows = [(number, [*group]) for number, group in itertools.groupby(order, lambda at: at[0])]
    if draw(st.booleans()):
        rows.sort(key=lambda row: row[0])
    return "".join(
        f'<row r="{number}">'
        + "".join(_cell(f"{column}{number}", cells[number, column]) for _, column in group)
        + "</row>"
        for number, group in rows
    ), is_repeated


def _cell(place, content):
    kind = ' t="inlineStr"' if content.startswith("<is") else ""
    return f'<c r="{place}"{kind}>{content}</c>' if content else f'<c r="{place}"/>'


@settings(max_examples=times(30), deadline=None)
@given(case=sheets_in_any_order())
@example(
    case=(
        HEADER
        + f'<row r="2">{_cell("A2", "<v>7</v>")}{_cell("C2", "<v>1</v>")}'
        + f"{_cell('B2', '<is><t/></is>')}</row>",
        False,
    )
)
def test_cells_in_any_order_are_read(tmp_path_factory, case):
    """Rows and cells are read by their references, whatever their order is. A worksheet with two
    cells of one reference is refused, and the error names the cell.
    """
    rows, is_repeated = case
    path = tmp_path_factory.mktemp("order") / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(rows)))
    if is_repeated:
        with pytest.raises(SheetError, match=r"the cell [ABC][1-9] occurs twice"):
            read_sheet(path)
        return
    grid = read.read_grid(load(path), Mapper.of("", None), None)
    values = {
        f"{place}{row}": text
        for place, column in zip(grid.places, grid.columns, strict=True)
        for row, text in zip(grid.rows.tolist(), column.text.to_pylist(), strict=True)
        if text
    }
    expected = openpyxl.load_workbook(path, data_only=True).active
    assert values == {
        cell.coordinate: str(cell.value)
        for row in expected.iter_rows(min_row=2)
        for cell in row
        if cell.value
    }


def test_a_cell_beside_the_table_is_not_part_of_it(tmp_path):
    """A stray value near the table is a warning, and the table is read."""
    rows = HEADER + '<row r="2"><c r="A2"><v>7</v></c><c r="AB2"><v>1</v></c></row>'
    path = tmp_path / "pets.xlsx"
    path.write_bytes(workbook(sheet=worksheet(rows)))
    sheet = read_sheet(path)
    assert [(each.address, each.rule) for each in sheet.problems] == [
        ("Sheet!AB1", "header-missing")
    ]
    assert len(sheet) == 1


def test_importing_the_sheets_does_not_load_openpyxl():
    """openpyxl and calamine are imported only when a workbook is read or written."""
    code = "import sys, petsync.sheets; print({'openpyxl', 'python_calamine'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_limits_hold_together():
    """The size that is always allowed is smaller than the size that is refused as a ZIP bomb."""
    assert package.FREE < package.MAX_UNPACKED


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "x" * 300 + ".xlsx", "a\0b.csv"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    """A name that no file can have is refused by the writer and by all readers."""
    with pytest.raises(SheetError, match="cannot be written"):
        write_sheet(frame_from_pets([Pet(id=7, name="Rex")]), tmp_path / name)
    with ps.connect("http://127.0.0.1:1/v2", state=tmp_path / "state") as store:
        for read in (read_sheet, ps.check_sheet, store.read, store.plan, lambda a: ps.diff(a, a)):
            with pytest.raises(SheetError, match="cannot be read"):
                read(tmp_path / name)


@pytest.mark.parametrize("letter", ["x", "\u5ba0", "\U0001f436"])
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_long_name_is_no_reason_to_lose_results(tmp_path, suffix, letter):
    """A sheet whose name is too long for a sidecar or a lock is written without them, and takes
    results.
    """
    path = tmp_path / (letter * ((255 - len(suffix)) // len(letter.encode())) + suffix)
    write_sheet(frame_from_pets([Pet(id=7, name="Rex", status="sold")]), path)
    sheet = read_sheet(path)
    assert (len(sheet), sheet.base, sheet.base_refused) == (1, None, "")
    write_results(sheet, pd.DataFrame(), tmp_path / f"results{suffix}")
    assert len(read_sheet(tmp_path / f"results{suffix}")) == 1


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    """A file name that is not UTF-8 is refused, because no plan and no journal could store it."""
    path = os.fsencode(tmp_path / "bad") + b"\xff.csv"
    Path(os.fsdecode(path)).write_text("id,name\n7,Rex\n", "utf-8")
    with pytest.raises(SheetError, match="not UTF-8") as caught:
        read_sheet(os.fsdecode(path))
    caught.value.message.encode()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("none/pets.csv", r"There is no folder .*none; create it first\."),
        ("file/pets.csv", r".*file is not a folder; name another one\."),
        ("file/below/pets.csv", r".*file is not a folder; name another one\."),
        (f"{'x' * 300}.csv", r"Give it another, shorter name\."),
        ("loop/pets.csv", r"Remove the link, or name another file\."),
        ("loop.csv", r"Remove the link, or name another file\."),
    ],
)
def test_a_path_that_cannot_be_written_has_a_fitting_hint(tmp_path, name, hint):
    """The hint of a failed write names the folder that is missing or is a file, or asks for a
    shorter name or to remove a link to itself.
    """
    (tmp_path / "file").touch()
    for loop in ("loop", "loop.csv"):
        (tmp_path / loop).symlink_to(loop)
    with pytest.raises(SheetError, match="cannot be written") as caught:
        write_sheet(frame_from_pets([Pet(id=1)]), tmp_path / name)
    assert re.fullmatch(hint, caught.value.hint)


def test_a_private_copy_of_a_public_file_is_private(tmp_path):
    """A private file can be read only by its owner, also as a copy of a file that all can read."""
    public, private = tmp_path / "public", tmp_path / "private"
    public.touch(0o644)
    write_atomically(private, b"", new=True, private=True, like=public)
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_folder_without_permission_is_not_asked_for_a_shorter_name(tmp_path, monkeypatch):
    """The hint of a write without permission to the folder is to check permissions."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", refuse)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SheetError, match="Permission denied") as caught:
        write_sheet(frame_from_pets([Pet(id=1)]), tmp_path / "pets.csv")
    assert "check permissions" in caught.value.hint
