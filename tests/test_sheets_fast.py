"""The fast readers give the same result as the careful readers, cell by cell and line by line."""

import io
import itertools
import re
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from effort import count_threads
from hypothesis import example, given, settings
from hypothesis import strategies as st
from specimens import MAIN, package
from times import times

import petsync as ps
from petsync import sample_data
from petsync.errors import SheetError
from petsync.models import MIN_ID, Category, Pet, Tag
from petsync.sheets import csv
from petsync.sheets.csv import MAX_CELL_LENGTH, Mark, parse_block
from petsync.sheets.files import Source
from petsync.sheets.grid import ROW_NUMBER, CellEdits, CellKind, Cells, Grid, letter
from petsync.sheets.headers import Mapper
from petsync.sheets.load import load
from petsync.sheets.validate import columns
from petsync.sheets.validate.columns import NBSP, Column
from petsync.sheets.validate.findings import Notes
from petsync.sheets.write import write_sheet
from petsync.sheets.xlsx import edit, read, xml
from petsync.sheets.xlsx.contents import cell_columns, cell_texts
from petsync.sheets.xlsx.package import Package, pack_parts
from petsync.sheets.xlsx.read import blocks
from petsync.sheets.xlsx.survey import Extent, extent
from petsync.sheets.xlsx.xml import contains_pair
from petsync.table.arrow import PetTable, frame_from_table, table_from_pets
from petsync.table.cells import BLANKS, trim
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

pytestmark = pytest.mark.slow

PIECES = ["a", "é", "'=", '"', '""', ",", ";", "\t", "\n", "\r", "\r\n", " ", "\0", "\ufeff", "7"]
CELLS = st.sampled_from(["", "7", "é", "'=1", '"a,b"', '"say ""hi"""', '"two\nlines"', '""', " "])
ROUGH = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40)
ROWS = st.lists(CELLS, min_size=1, max_size=4).map(",".join)
FINE = st.tuples(st.lists(ROWS, max_size=12), st.sampled_from(["\n", "\r\n", "\r"])).map(
    lambda drawn: drawn[1].join(drawn[0])
)
HEADS = st.sampled_from(["id,name\n", "id,name,,\r\n", "\ufeffid\n", "sep=;\nid;name\n", "a\nid\r"])
SIZES = st.integers(1, 60) | st.just(1 << 20)


def grid(data, size):
    """Return the grid as plain values, or the error of a file that has none."""
    source = Source(Path("pets.csv"), "text", data)
    try:
        found = csv.read_grid(source, Mapper.of("pets.csv", None), size=size)
    except SheetError as error:
        return str(error)
    columns = [column.text.to_pylist() for column in found.columns]
    return found.header, found.header_row, found.rows.tolist(), columns, found.faults


@settings(max_examples=times(30), deadline=None)
@given(head=HEADS, body=ROUGH | FINE, size=SIZES)
@example(head="id,name\n", body='1,"a"b\n2,"c\n",\n3,d', size=8)
@example(head="id,name\n", body='1,5" pipe\n2,5" pipe\n', size=20)
@example(head="id,name\n", body="1,a\r\n2,b\r\n3,c\r\n", size=4)
@example(head="id,name\n", body="1,a,,\n2,b,x,\n", size=100)
@example(head="id,name,,\n", body="1,a,,\n2,b, ,\n3,c,x,\n", size=100)
@example(head="id\n", body='\n""\n\n7\n', size=100)
@example(head="id\n", body="\ufeff7\n\ufeff8\n", size=5)
def test_a_file_is_read_alike_in_blocks_of_any_size(head, body, size):
    """For any text, the grid or the error of a read in blocks is that of the careful reader."""
    data = (head + body).encode("utf-8", "surrogatepass")
    assert grid(data, size) == grid(data, 0)


@settings(max_examples=times(30), deadline=None)
@given(
    head=HEADS,
    body=st.lists(FINE, max_size=20).map("\n".join),
    size=st.integers(64, 200),
    encoding=st.sampled_from([None, "utf-16", "utf-8"]),
)
@example(head="id\n", body="7\n" * 70 + "\ufeff8\n" * 70, size=70, encoding=None)
def test_a_file_is_read_alike_in_pieces(tmp_path_factory, head, body, size, encoding):
    """A file of any size that is read in pieces has the rows and the errors of a read at once."""
    path = tmp_path_factory.getbasetemp() / "pieces.csv"
    path.write_bytes((head + body).encode(encoding or "utf-8"))
    mapper = Mapper.of(str(path), None)

    def read(grids):
        try:
            found = list(grids())
        except SheetError as error:
            return str(error)
        columns = [
            Cells.concat([each.columns[at] for each in found]).text.to_pylist()
            for at in range(len(found[0].header))
        ]
        faults = {int(each.rows[at]): fault for each in found for at, fault in each.faults.items()}
        rows = [row for each in found for row in each.rows.tolist()]
        return {(*each.header, each.header_row) for each in found}, rows, columns, faults

    pieces = read(lambda: csv.iter_grids(path, encoding, mapper, size=size))
    assert pieces == read(lambda: [csv.read_grid(load(path, encoding), mapper)])


@settings(max_examples=times(30), deadline=None)
@given(body=st.binary(max_size=30) | ROUGH.map(lambda text: text.encode("utf-8", "replace")))
def test_bytes_that_are_not_utf8_are_refused_alike(body):
    """Bytes are refused as not UTF-8 exactly if Python cannot decode them."""
    data = b"id,name\n" + body.replace(b"\0", b"0")  # many NULs are the mark of UTF-16
    try:
        data.decode()
        refused = False
    except UnicodeDecodeError:
        refused = True
    assert ("is not UTF-8" in str(grid(data, 1 << 20))) == refused


TITLES = ["id,name", "name", "id,name,,", "id,name,outcome,message,assigned_id,row", "row,id"]
FULL = st.lists(st.lists(CELLS, min_size=1, max_size=6).map(",".join), max_size=12)
LINES = st.integers(1, 12)
CHANGED = st.dictionaries(
    st.sampled_from(["id", "name", "outcome"]), st.sampled_from(["", "=1", "7"])
)
SHARED = {
    "outcome": "unchanged",
    "message": "as it is, still",
    "assigned_id": "",
    "row": ROW_NUMBER,
}


def sheet_of(columns, header_row=1, tab=""):
    """Return a sheet with these columns, as far as an edit of its file needs it."""
    return Sheet(
        source="pets",
        tab=tab,
        content=PetTable(frame=frame_from_pets([])),
        others=pd.DataFrame(),
        columns=columns,
        header_row=header_row,
    )


@settings(max_examples=times(30), deadline=None)
@given(
    title=st.sampled_from(TITLES),
    head=st.sampled_from(["", "\ufeff", "sep=,\n"]),
    body=FULL,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    own=st.dictionaries(LINES, CHANGED, max_size=3),
    removed=st.sets(LINES, max_size=2),
    kinds=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    has_results=st.booleans(),
    size=SIZES,
)
def test_a_file_is_edited_alike_in_blocks_of_any_size(
    title, head, body, end, own, removed, kinds, has_results, size
):
    """A file that is edited in blocks has the bytes of one that is edited record by record."""
    data = (head + end.join([title, *body])).encode()
    source = Source(Path("pets.csv"), "text", data)
    try:
        found = csv.read_grid(source, Mapper.of("pets.csv", None))
    except SheetError:
        return
    sheet = sheet_of(dict(zip(found.header, found.places, strict=True)), found.header_row)
    new = [name for name in ("id", *SHARED) if name not in found.header] if has_results else []
    edits = CellEdits(own)
    if has_results:
        of_line = np.zeros(data.count(b"\n") + data.count(b"\r") + 2, np.int32)
        of_line[found.rows] = (kinds * len(found.rows))[: len(found.rows)]
        edits = CellEdits(own, ({}, SHARED, {**SHARED, "message": ""}), of_line)
    expected, edited = (
        csv.edit_csv(source, sheet, edits, new, added=[{"id": "8"}], removed=removed, size=each)
        for each in (0, size)
    )
    assert edited == expected


def test_edits_are_written_in_blocks(monkeypatch):
    """Of a plain file, only the header is read as a record, so the comparison above tests
    blocks.
    """
    single, lines = [], csv.record_lines
    monkeypatch.setattr(
        csv, "record_lines", lambda *args: (single.append(each) or each for each in lines(*args))
    )
    source = Source(Path("pets.csv"), "text", b'id,name\r\n7,a\r\n\r\n8,"b\n"\r\n9,c')
    sheet = sheet_of({"id": "1", "name": "2"})
    edits = CellEdits({4: {"name": "x"}}, ({}, SHARED), np.array([0, 0, 1, 0, 1, 0, 1], np.int32))
    assert csv.edit_csv(source, sheet, edits, list(SHARED)).decode().splitlines() == [
        "id,name,outcome,message,assigned_id,row",
        '7,a,unchanged,"as it is, still",,2',
        "",
        "8,x,,,,",
        '9,c,unchanged,"as it is, still",,6',
    ]
    assert [each.number for each in single] == [1]


def test_blocks_are_in_use():
    """Plain and quoted records are parsed as a block, so the comparison above tests blocks."""
    data = b'7,"a ""b"", c",x\r\n\r\n8,"d\r\ne",\r\n9,f,'
    block = parse_block(data, Mark(0, 5), ",", 3)
    assert [column.to_pylist() for column in block.columns] == [
        ["7", "8", "9"],
        ['a "b", c', "d\r\ne", "f"],
        ["x", "", ""],
    ]
    assert block.lines.tolist() == [5, 7, 9]
    assert block.after == Mark(len(data), 9)


@pytest.mark.parametrize(
    "data",
    [
        '7,5" pipe\n',
        '7,"a"b\n',
        '7,"a\n',
        "7\n",
        "7,a,b\n",
        "\ufeff7,a\n",
        f"7,{'a' * MAX_CELL_LENGTH}\n",
    ],
)
def test_what_is_doubtful_is_left_to_the_careful_way(data):
    """A block with an ambiguous quote, another width or a very long record is left to the careful
    reader.
    """
    assert parse_block(data.encode(), Mark(0, 1), ",", 2) is None
    assert parse_block(b"7,a\n8,b\n", Mark(0, 1), ",", 2) is not None


def test_a_cell_of_the_longest_kind_is_read():
    """The limit of a cell counts characters, not bytes; a cell of just this length is read."""
    longest = "é" * MAX_CELL_LENGTH
    assert grid(f"id,name\n7,{longest}\n".encode(), 1 << 20)[3] == [["7"], [longest]]
    for size in (1 << 20, 0):
        found = grid(f"id,name\n7,{longest}é\n8,b\n".encode(), size)
        assert found[3] == [["7", "8"], ["", "b"]]
        assert found[4][0].rule == "cell-long"


MARKUP = st.sampled_from(
    [
        '<c r="{}"/>',
        '<c r="{}" s="1" />',
        '<c r="{}"><v>7</v></c>',
        '<c r="{}" s="1" t="inlineStr"><is><t>a &amp; é</t></is></c>',
        '<c r="{}" t="inlineStr"><is><t xml:space="preserve"> b</t></is></c>',
        "",
    ]
)
OTHER_MARKUP = st.sampled_from(
    [
        '<c r="{}" t="inlineStr"><is><r><t>rich</t></r></is></c>',
        '<c r="{}" t="str"><f>"c"</f><v>c</v></c>',
        " ",
        "<!-- {} -->",
    ]
)


@st.composite
def worksheet_rows(draw):
    """Draw rows of seven cells, with their attributes and their kind of shared texts. Most rows
    differ from others in at most one cell.
    """
    look = draw(st.lists(MARKUP, min_size=7, max_size=7))
    rows = []
    for _ in range(draw(st.integers(3, 10))):
        cells = list(look)
        if draw(st.booleans()):
            cells[draw(st.integers(0, 6))] = draw(MARKUP)
        attributes = draw(st.sampled_from([*[""] * 3, ' spans="1:3"', ' ht="30" customHeight="1"']))
        rows.append((cells, attributes, draw(st.sampled_from([1, 1, 1, 2, 0]))))
    if draw(st.integers(0, 3)) == 0:
        rows[-1][0][draw(st.integers(0, 6))] = draw(OTHER_MARKUP)
    return rows


DIMENSIONS = st.sampled_from(["", '<dimension ref="A1:C20"/>', '<dimension ref="A1:B3"/>'])
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><cellXfs count="2"><xf xfId="0"/>'
    '<xf xfId="0" fontId="1"/></cellXfs></styleSheet>'
)


def assert_edited_alike(data, columns, edits, new):
    """Raise AssertionError unless the worksheet gets the same edits, or the same error, whether or
    not its rows with shared texts are parsed.
    """
    source = Source(Path("pets.xlsx"), "workbook", data)

    def edited():
        try:
            patched = edit.patch_workbook(source, sheet_of(columns, tab="Pets"), edits, new)
        except SheetError as error:
            return str(error)
        with zipfile.ZipFile(io.BytesIO(patched)) as book:
            return {name: book.read(name) for name in book.namelist()}

    result = edited()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "_find_last_column", lambda _: None)
        assert result == edited()


@settings(max_examples=times(30), deadline=None)
@given(
    rows=worksheet_rows(),
    dimension=DIMENSIONS,
    own=st.dictionaries(LINES, CHANGED, max_size=2),
    has_results=st.booleans(),
)
def test_a_worksheet_is_edited_alike_with_and_without_parsing_its_rows(
    rows, dimension, own, has_results
):
    """A workbook in which few rows are parsed for their edits is the same as one in which all
    are.
    """
    names = ["id", "name", "status", *(SHARED if has_results else ["a", "b", "c", "d"])]
    columns = dict(zip(names, "ABCDEFG", strict=True))
    marked = [
        f'<row r="{number}"{attributes}>'
        + "".join(
            cell.format(f"{place}{number}") for place, cell in zip("ABCDEFG", cells, strict=True)
        )
        + "</row>"
        for number, (cells, attributes, _) in enumerate(rows, 2)
    ]
    head = "".join(
        f'<c r="{place}1" t="inlineStr"><is><t>{name}</t></is></c>'
        for name, place in columns.items()
    )
    data = package(
        f'<worksheet xmlns="{MAIN}">{dimension}<sheetData><row r="1">{head}</row>'
        f"{''.join(marked)}</sheetData></worksheet>",
        styles=STYLES,
    )
    kinds = np.array([0, 0, *(kind for *_, kind in rows)], np.int32)
    edits = CellEdits(own, ({}, SHARED, {**SHARED, "message": ""}), kinds)
    assert_edited_alike(data, columns, edits, [] if has_results else list(SHARED))


def test_rows_that_share_their_results_are_not_parsed(monkeypatch):
    """Of rows that look alike, only the first is parsed, so the comparison above tests others."""
    parsed, change = [], edit._CellPatch.change
    monkeypatch.setattr(
        edit._CellPatch, "change", lambda self, row: parsed.append(row.number) or change(self, row)
    )
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"/><c r="B{n}" s="1"/><c r="C{n}"><v>{n}</v></c></row>'
        for n in range(1, 8)
    )
    sheet_data = f"<sheetData>{rows}</sheetData>"
    data = package(f'<worksheet xmlns="{MAIN}">{sheet_data}</worksheet>', styles=STYLES)
    edits = CellEdits({4: {"name": "x"}}, ({}, SHARED), np.array([0, 0, 1, 1, 0, 1, 0, 1], "i4"))
    source = Source(Path("pets.xlsx"), "workbook", data)
    sheet = sheet_of({"id": "A", "name": "B", "status": "C"}, tab="Pets")
    edit.patch_workbook(source, sheet, edits, list(SHARED))
    assert parsed == [1, 2, 4]


@pytest.mark.parametrize(
    ("root", "rows", "end"),
    [
        ("x:worksheet", 'spans="1:3"', ""),
        ("worksheet", 'spans="1:3"', "<row/>"),
        ("worksheet", 'spans="1:3"', '<row s="1"></row>'),
        ("worksheet", "", '<row r="6"/>'),
        ("worksheet", 'foo="{row}"', ""),
        ("worksheet", 'foo="&#123;row}"', ""),
        ("worksheet", 'spans="1:3"', '<row r="07" spans="1:3"><c r="A7"><v>7</v></c></row>'),
        ("worksheet", 'spans="1:3"', '<x:row r="7"><x:c r="A7"><x:v>7</x:v></x:c></x:row>'),
    ],
)
@pytest.mark.parametrize("own", [{}, {3: {"outcome": "applied"}, 7: {"outcome": "failed"}}])
def test_unusual_rows_get_the_same_results(root, rows, end, own):
    """Rows without a number, with a repeated or unusual number, with other prefixes or with a text
    that looks like the mark of a row number are edited as if all rows were parsed.
    """
    marked = "".join(
        f'<row r="{n}" {rows}><c r="A{n}"><v>{n}</v></c><c r="B{n}" t="inlineStr"><is><t>x</t></is>'
        "</c></row>"
        for n in range(1, 7)
    )
    data = package(
        f'<{root} xmlns="{MAIN}" xmlns:x="{MAIN}"><sheetData>{marked}{end}</sheetData></{root}>',
        styles=STYLES,
    )
    edits = CellEdits(own, ({}, SHARED), np.array([0, 0, 1, 1, 1, 1, 1], "i4"))
    assert_edited_alike(data, {"id": "A", "name": "B"}, edits, list(SHARED))


def test_cells_out_of_order_get_the_same_results():
    """The results are written into their own cells, wherever these are in the row."""
    columns = {"id": "A", **dict(zip(SHARED, "BCDE", strict=False))}
    rows = "".join(
        f'<row r="{n}">'
        + "".join(f'<c r="{place}{n}" t="inlineStr"><is><t>x</t></is></c>' for place in "CBDAE")
        + "</row>"
        for n in range(1, 4)
    )
    data = package(
        f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>', styles=STYLES
    )
    edits = CellEdits({}, ({}, SHARED), np.array([0, 0, 1, 1], "i4"))
    assert_edited_alike(data, columns, edits, [])


def test_a_result_of_a_row_that_no_file_has_is_left_out(tmp_path):
    """A row number above 2^63 - 1 is no error."""
    (tmp_path / "pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    results = pd.DataFrame(
        {"outcome": "applied", "message": "", "assigned_id": None}, index=[2, 2**63]
    )
    ps.write_results(ps.read_sheet(tmp_path / "pets.csv"), results, tmp_path / "results.csv")
    assert (tmp_path / "results.csv").read_text("utf-8").splitlines()[1].startswith("1,Max,applied")


ITEMS = st.text(st.sampled_from(f"ab;:7 \n\r|\"'{NBSP}é\u2028\u3000/"), max_size=8)
ENDS = ["", "a", "b", f"a{NBSP}", "a\u2028", "é", "a|", 'a"', "a b", " | ", ";b"]
ADDRESSES = st.sampled_from(ENDS).map(lambda end: f"https://{end}")
LISTS = st.sampled_from(["[]", " ['a']", "[Tag(1, 'a')]", '["a"]', "[a", "('x", "\u00a0{'a'}"])
TAGS = LISTS | st.lists(ITEMS | st.sampled_from(["calm", "3:calm", "shy"]), max_size=4).map(
    "; ".join
)
PHOTOS = LISTS | st.tuples(
    st.lists(ITEMS | ADDRESSES | st.just("http://a"), max_size=4),
    st.sampled_from(["\n", "\r\n", " | ", "|", " "]),
).map(lambda drawn: drawn[1].join(drawn[0]))


def column_of(texts):
    """Return a column of these cells that gathers its own findings."""
    cells = Cells(pa.array(texts, pa.large_string()))
    grid_ = Grid(
        tab="",
        header=["tags"],
        header_row=1,
        rows=np.arange(2, len(texts) + 2),
        columns=[cells],
        places=["1"],
    )
    notes = Notes(grid_, {"tags": 0})
    blank = cells.find_blank()
    return Column("tags", cells, ~blank, np.zeros(len(texts), dtype=bool), notes)


@pytest.mark.parametrize(
    ("judge", "careful", "texts"),
    [
        (columns.tags, columns.validate_tags, TAGS),
        (columns.photos, columns.validate_photos, PHOTOS),
    ],
    ids=["tags", "photos"],
)
@settings(max_examples=times(30), deadline=None)
@given(data=st.data())
def test_lists_of_many_cells_are_those_of_each(judge, careful, texts, data):
    """The values and findings of a whole column are those of each of its cells alone."""
    cells = data.draw(st.lists(texts, max_size=6))
    column = column_of(cells)
    found = judge(column)
    rules = {(each.row, each.rule) for each in column.notes.findings()}
    expected = set()
    for at, text in enumerate(cells):
        verdict = careful(text) if trim(text) else None
        assert found[at] == (verdict.value if verdict else None)
        expected |= {(at + 2, note.rule) for note in (verdict.notes if verdict else ())}
    assert {each for each in rules if each[1] not in DAMAGE} == expected


@pytest.mark.parametrize("cell", ["|", " | ", "||", "| http://a", "http://a |", "\n"])
def test_a_column_of_one_short_cell_is_read(cell: str) -> None:
    """A separator is recognised at the first and the last byte of a column."""
    column = column_of([cell])
    expected = columns.validate_photos(cell) if trim(cell) else None
    assert columns.photos(column)[0] == (expected.value if expected else None)


DAMAGE = ("damaged-characters", "decomposed-characters")


@given(
    texts=st.lists(
        st.text(st.sampled_from(BLANKS + "aé茶") | st.characters(codec="utf-8"), max_size=4)
    )
)
def test_blanks_are_trimmed_alike(texts):
    """A column is trimmed, and is blank, exactly like each of its texts."""
    cells = Cells(pa.array(texts, pa.large_string()))
    assert cells.trim().to_pylist() == [trim(text) for text in texts]
    assert cells.find_blank().tolist() == [not trim(text) for text in texts]


@settings(max_examples=times(30), deadline=None)
@given(
    texts=st.lists(
        st.text(
            st.sampled_from("\0\t !az~éß茶\U0001f3f4") | st.characters(codec="utf-8"), max_size=4
        )
    ),
    marks=st.binary(max_size=12) | st.sampled_from([bytes(range(256)), b"\0", b"az", b"\xff\0"]),
    before=st.integers(0, 2),
)
def test_bytes_are_found_wherever_they_are(texts, marks, before):
    """Bytes of a column are found at every position, and at the edges of every cell."""
    cells = Cells(pa.array(["\0é"] * before + texts, pa.large_string()).slice(before))
    encoded = [text.encode() for text in texts]
    found = cells.utf8.find(marks)
    assert found.tolist() == [n for n, byte in enumerate(b"".join(encoded)) if byte in marks]
    owners = [row for row, text in enumerate(encoded) for byte in text if byte in marks]
    assert cells.utf8.rows(found).tolist() == sorted({*owners})
    assert cells.utf8.start_with(marks).tolist() == [text[:1] in each(marks) for text in encoded]
    assert cells.utf8.end_with(marks).tolist() == [text[-1:] in each(marks) for text in encoded]


def each(marks):
    """Return the bytes one by one."""
    return {bytes([mark]) for mark in marks}


def test_equal_lists_are_not_one_list():
    """Equal lists of two rows are separate objects, so a change to one row changes no other."""
    column = column_of(["calm; shy", "calm; shy", '"calm"', '"calm"'])
    first, second, third, fourth = columns.tags(column)
    assert first == second
    assert first is not second
    assert third == fourth
    assert third is not fourth


PLACES = st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(0, 25)), min_size=1, max_size=8)


def worksheet(cells):
    """Return a worksheet part with these cell elements, each in a row without a number."""
    rows = cells.replace("<c ", "</row><row><c ")
    return part(f"<row>{rows}</row>")


def part(rows):
    """Return a worksheet part with these row elements."""
    return f"<worksheet><sheetData>{rows}</sheetData></worksheet>{' ' * 40}".encode()


@given(places=PLACES, empty=st.booleans())
def test_the_extent_holds_every_cell(places, empty):
    """The extent contains every cell, and its last row is exact; it is unknown if two cells have
    one reference.
    """
    content = "/>" if empty else "><v>1</v></c>"
    cells = "".join(f'<c r="{letter(column)}{row}"{content}' for row, column in places)
    rows, columns = zip(*places, strict=True)
    found = extent(worksheet(cells))
    if len(set(places)) < len(places):
        assert found is None
        return
    assert found == Extent(max(rows), max(columns) + 1, False)


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 12), st.lists(st.integers(0, 25), max_size=4)), max_size=6
    ),
    padding=st.integers(0, 3),
)
def test_a_worksheet_is_in_order_if_each_tag_is_after_the_others(rows, padding):
    """A worksheet is in order exactly if its rows are, and in each of them the cells, wherever the
    search through the bytes is divided.
    """
    places = [(row, column) for row, columns in rows for column in columns]
    tags = [place for row, columns in rows for place in ((row, -1), *((row, n) for n in columns))]
    text = "".join(
        f'<row r="{row}"{" " * padding}>'
        + "".join(f'<c r="{letter(n)}{row}"><v>1</v></c>' for n in columns)
        + "</row>"
        for row, columns in rows
    )
    data = part(text)
    found = extent(data, part=16)
    assert (found is None) == (len(set(places)) < len(places))
    if found is not None:
        assert found.ordered == (sorted(set(tags)) == tags)
    assert found == extent(data)


@pytest.mark.parametrize(
    "cell",
    [
        *("<c><v>1</v></c>", "<c/>", '<c s="1" r="A1"/>', '<c r="AA1"/>', '<c r="1"/>'),
        *("<c r='A1'/>", '<c r="A1 "/>', '<c r="A"/>', '<c r="A0"/>', '<c r="A123456789"/>'),
    ],
)
def test_cells_that_are_written_otherwise_take_a_walk(cell):
    """The extent is unknown if a cell is written in an unusual form."""
    usual = '<c r="B7"><v>1</v></c>'
    assert extent(worksheet(usual)) == Extent(7, 2, False)
    assert extent(worksheet(usual + cell)) is None
    assert extent(worksheet(usual + '<x:c r="B8"/>')) is None


@given(
    data=st.text("ab<", max_size=12).map(str.encode),
    pair=st.sampled_from([b"ab", b"<a", b"aa"]),
    start=st.integers(0, 3),
    end=st.none() | st.integers(-2, 12),
)
def test_two_bytes_are_found_wherever_they_are(data, pair, start, end):
    """The search for two bytes has the result of the operator `in`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml, "_PIECE", 3)
        assert contains_pair(data, pair, start, end) == (pair in data[start:end])


def test_a_cell_in_another_row_takes_a_walk():
    """The extent is unknown if a cell is in a row, or after a cell, of another number."""
    cells = '<c r="A7"/><c r="B7"/>'
    assert extent(part(f'<row r="7">{cells}</row>')) == Extent(7, 2, True)
    assert extent(part(f"<row>{cells}</row>")) == Extent(7, 2, False)
    assert extent(part(f'<row r="8">{cells}</row>')) is None
    assert extent(part(f'<row>{cells}<c r="C8"/></row>')) is None


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**54), 2**54).map(float)


@given(
    values=st.lists(WHOLE, min_size=1, max_size=5)
    | st.lists(WHOLE | NUMBERS | st.booleans() | st.sampled_from(["", "7", "a"]), min_size=1)
)
@example(values=[-0.0, 1e300])
def test_numbers_of_many_cells_are_shown_as_each(values):
    """A column of a workbook has the texts and the kinds of its cells, one by one."""
    kinds = {float: CellKind.NUMBER, bool: CellKind.BOOLEAN, str: CellKind.TEXT}
    cells = read.cells_of(values)
    assert cells.text.to_pylist() == [read.format_value(value) for value in values]
    found = [CellKind.TEXT] * len(values) if cells.kinds is None else cells.kinds.tolist()
    assert found == [kinds[type(value)] for value in values]


@given(parts=st.dictionaries(st.text(max_size=5).filter(lambda t: "\0" not in t), st.binary()))
def test_a_stored_container_is_a_zip_file(parts):
    """The container is a ZIP file that holds every part unchanged, with a correct checksum."""
    with zipfile.ZipFile(pack_parts({f"xl/é{name}": data for name, data in parts.items()})) as file:
        assert file.testzip() is None
        assert file.namelist() == [f"xl/é{name}" for name in parts]
        assert [file.read(info) for info in file.infolist()] == list(parts.values())


def workbook(tmp_path_factory, cells, *, shared):
    """Return a workbook with these values at these places, below a header; as openpyxl writes it,
    with shared texts, or with texts in the cells.
    """
    names = {(1, n): name for n, name in enumerate(("id", "name", "status"))}
    cells = names | {(row + 2, column): value for (row, column), value in cells.items()}
    path = tmp_path_factory.mktemp("blocks") / "pets.xlsx"
    if shared:
        book = openpyxl.Workbook()
        for (row, column), value in cells.items():
            book.active.cell(row + 1, column + 1, value)
        book.save(path)
    else:
        rows = itertools.groupby(sorted(cells), key=lambda place: place[0])
        text = "".join(
            f'<row r="{row + 1}">{"".join(cell(place, cells[place]) for place in places)}</row>'
            for row, places in rows
        )
        sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{text}</sheetData></worksheet>'
        path.write_bytes(package(sheet))
    return Source(path, "workbook", path.read_bytes())


def cell(place, value):
    """Return one cell, with its text in it."""
    reference = f'r="{letter(place[1])}{place[0] + 1}"'
    if isinstance(value, str):
        return f'<c {reference} t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    kind = ' t="b"' if value is True else ""
    return f"<c {reference}{kind}><v>{value:g}</v></c>"


def in_blocks(source, size):
    """Return the grid of a workbook as plain values."""
    found = read.read_grid(source, Mapper.of("pets.xlsx", None), None, block=size)
    columns = [
        (column.text.to_pylist(), None if column.kinds is None else column.kinds.tolist())
        for column in found.columns
    ]
    return found.header, found.header_row, found.rows.tolist(), columns, found.places


@settings(max_examples=times(30), deadline=None)
@given(
    cells=st.dictionaries(
        st.tuples(st.integers(0, 30) | st.integers(2_000, 2_030), st.integers(0, 4)),
        st.sampled_from(["a", "é <b> & c", 7, 1.5, True, "two\nlines", ""]),
        max_size=25,
    ),
    size=st.sampled_from([1, 200, 1000]),
    shared=st.booleans(),
)
@example(cells={(0, 0): 7, (30, 0): 8}, size=1, shared=False)
@example(cells={(n, n % 4): "x" for n in range(12)}, size=1, shared=True)
def test_a_worksheet_is_read_alike_in_blocks(tmp_path_factory, cells, size, shared):
    """A worksheet that is read in blocks gives the same grid, with any cells and blank rows or
    columns.
    """
    source = workbook(tmp_path_factory, cells, shared=shared)
    assert in_blocks(source, size) == in_blocks(source, 1 << 30)


def test_each_row_is_parsed_once(tmp_path_factory, monkeypatch):
    """Each row of a worksheet is parsed once, also if only some blocks have cells in a column."""
    cells = {(n, 0): n for n in range(1, 40)} | {(0, n): "x" for n in range(5)} | {(20, 4): "y"}
    source = workbook(tmp_path_factory, cells, shared=False)
    parsed = []
    extract = Package.extract_sheet

    def record(self, sheet, texts):
        parsed.extend(re.findall(rb'<row r="([0-9]+)"', sheet))
        return extract(self, sheet, texts)

    monkeypatch.setattr(Package, "extract_sheet", record)
    expected = in_blocks(source, 1 << 30)
    assert len(expected[0]) == 5
    numbers = sorted(map(int, parsed))
    parsed.clear()
    assert in_blocks(source, 200) == expected
    assert sorted(map(int, parsed)) == numbers


ROWS = b"".join(b'<row r="%d"><c r="A%d"><v>1</v></c></row>' % (n, n) for n in range(1, 9))
PLAIN = (
    b'<?xml version="1.0"?><worksheet><cols/><sheetData>' + ROWS + b"</sheetData><x/></worksheet>"
)


@pytest.mark.parametrize("size", [1, 50, 100, 200])
def test_a_worksheet_is_divided_where_rows_begin(size):
    """A worksheet is divided where a row begins, into parts of about the same size."""
    parts = list(blocks(PLAIN, size))
    assert len(parts) == -(-8 // -(-size // (len(ROWS) // 8)))
    assert b"".join(part[part.index(b"<row ") : part.rindex(b"</s")] for part in parts) == ROWS
    assert parts[0].startswith(PLAIN[: PLAIN.index(b"<row ")])
    assert parts[-1].endswith(PLAIN[PLAIN.index(b"</s") :])


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"<v>1", b"<!-- <row --><v>1"),
        (b"<v>1", b"<v><![CDATA[<row ]]>"),
        (b"<v>1", b"<?x <row ?><v>1"),
        (ROWS, b""),
        (b"</sheetData>", b""),
    ],
)
def test_a_worksheet_stays_whole_if_its_rows_are_uncertain(part, other):
    """A worksheet is one part if a text may look like a tag, or if it has no rows."""
    data = PLAIN.replace(part, other, 1)
    assert list(blocks(data, 1)) == [data]


@pytest.mark.parametrize("name", ["catalogue_edited.xlsx", "catalogue_clean.xlsx"])
def test_the_samples_are_read_alike_in_blocks(name):
    """The samples with hidden rows, formulas and errors give the same grid in blocks."""
    path = sample_data() / name
    source = Source(path, "workbook", path.read_bytes())
    assert in_blocks(source, 1) == in_blocks(source, 1 << 30)


# Texts of cells, written column by column.


TEXT_PIECES = [
    *("a", "é", "Ж", "犬", "7", " ", "  ", "_", "-", "+1", "=", "@", "'", '"', ",", ";", ":", "|"),
    *(
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\xa0",
        "\u200b",
        "\u3164",
        "\u2028",
        "(",
        "[",
        "]",
        "{",
        "<br>",
        "&",
    ),
    *(
        "clear",
        "[clear]",
        "CLEAR]",
        "Err:",
        "#N/A",
        "_x000a_",
        "\\n",
        "Tag(",
        "nan",
        "\x1c\x1d\x1e\x1f",
    ),
    *("http://a.b/c.jpg", "https://a:80/x_", "://", "12:", "\uff0b", "\ufb29"),
]
TEXTS = st.lists(st.sampled_from(TEXT_PIECES), max_size=4).map("".join) | st.text(max_size=6)
NUMBERS = st.none() | st.sampled_from([0, 1, -5, 2**53 + 1, MIN_ID])
URLS = (
    TEXTS
    | st.sampled_from(["http://a.b/c.jpg", "https://a:80/x_y?z=1&b"])
    | st.builds("http://{}".format, TEXTS)
)
ANY_PETS = st.builds(
    Pet,
    id=NUMBERS,
    name=st.none() | TEXTS,
    status=st.none() | TEXTS | st.just("sold"),
    category=st.none() | st.builds(Category, NUMBERS, st.none() | TEXTS),
    tags=st.lists(st.builds(Tag, NUMBERS, st.none() | TEXTS), max_size=3).map(tuple),
    photo_urls=st.lists(URLS, max_size=3).map(tuple),
)


@settings(max_examples=times(30))
@given(st.lists(ANY_PETS, max_size=4), st.sampled_from(["[clear]", "", "-", "Tag"]))
@example([Pet(tags=(Tag(None, "http://a.b/c"), Tag(None, "http://a.b/d")))], "[clear]")
def test_texts_of_columns_are_those_of_cells(several, marker):
    """The texts of whole columns are the same as those of one cell after the other."""
    table = table_from_pets(several)
    for separator in ("\n", " | "):
        fast = cell_columns(table, marker=marker, separator=separator)
        careful = cell_texts(frame_from_table(table), marker=marker, separator=separator)
        assert [column.to_pylist() for column in fast] == careful


@settings(max_examples=times(30))
@given(st.lists(ANY_PETS, max_size=4), st.sampled_from([".csv", ".tsv"]))
def test_a_csv_of_columns_is_that_of_rows(tmp_path_factory, several, suffix):
    """A CSV or TSV file that is written column by column has the same bytes as one that is written
    row by row. In an export, an empty list and an empty category are blank.
    """
    folder = tmp_path_factory.mktemp("csv", numbered=True)
    table = table_from_pets(several)
    frame = frame_from_table(table)
    frame["category"] = frame["category"].where(frame["category"] != "")
    for name in ("tags", "photo_urls"):
        frame[name] = pd.Series([each or None for each in frame[name]], dtype=object)
    for name, data in (("fast", PetTable(table)), ("careful", frame)):
        write_sheet(data, folder / f"{name}{suffix}", base=False)
    assert (folder / f"fast{suffix}").read_bytes() == (folder / f"careful{suffix}").read_bytes()


def test_a_cell_that_no_csv_can_hold_is_refused_in_columns_too(tmp_path):
    """A cell above the limit of readers is refused, however the file is written."""
    pets = PetTable(table_from_pets([Pet(id=7, name="x" * (MAX_CELL_LENGTH + 1))]))
    with pytest.raises(SheetError, match=r"row 2 \(7\) would have a cell of more than 131,072"):
        write_sheet(pets, tmp_path / "pets.csv", base=False)


def test_a_small_sheet_is_read_without_threads(tmp_path: Path) -> None:
    """Reading a small sheet starts no thread, which would take longer than the reading."""
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    pets = [Pet(id=n, name=f"Pet {n}") for n in range(20_000)]
    write_sheet(frame_from_pets(pets[:12]), small)
    write_sheet(frame_from_pets(pets), large)
    assert count_threads(lambda: ps.read_sheet(large)) > 0
    assert count_threads(lambda: ps.read_sheet(small)) == 0
