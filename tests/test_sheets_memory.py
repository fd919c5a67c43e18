"""Files that would take all memory or time: an error at once, or a sheet within the limits."""

import json
import random
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from sheetmaking import assert_same_frames
from specimens import KINDS, MAIN, package, unzipped, zipped

from petsync.errors import SheetError
from petsync.sheets import read_sheet
from petsync.sheets.load import load
from petsync.sheets.xlsx.package import Package, shared_size, strip_count, without_trailing

pytestmark = pytest.mark.slow

SECONDS = 60.0
"""The limit of processor time; most take less than a second. A slow algorithm takes minutes."""


def cell(place, text):
    """Return a cell with an inline text."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


HEADER = f'<row r="1">{cell("A1", "id")}{cell("B1", "name")}</row>'
ROW = f'<row r="2"><c r="A2"><v>7</v></c>{cell("B2", "Bello")}</row>'


def sheet(rows, before=""):
    """Return a worksheet with these rows after the header."""
    return f'<worksheet xmlns="{MAIN}">{before}<sheetData>{HEADER}{rows}</sheetData></worksheet>'


def shared(count, text, *, index="0", kind='t="s"'):
    """Return a workbook in which this number of cells refer to one text."""
    rows = "".join(
        f'<row r="{n}"><c r="A{n}" {kind}><v>{index}</v></c></row>' for n in range(2, count + 2)
    )
    return package(sheet(rows), strings=f'<sst xmlns="{MAIN}"><si>{text}</si></sst>')


def letters(number):
    """Return a column's letters; the first column is 0."""
    return (letters(number // 26 - 1) if number > 25 else "") + chr(65 + number % 26)


def lying():
    """Return a workbook with a part of 60 MB whose declared size is a thousand bytes."""
    part = sheet(ROW + " " * 60_000_000)
    size, lie = len(part).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    return package(part).replace(size, lie)


def many_tabs():
    """Return a workbook of 100,000 tabs that all share one part."""
    tabs = "".join(f'<sheet name="t{n}" sheetId="{n}" r:id="rId1"/>' for n in range(100_000))
    book = f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}"><sheets>{tabs}</sheets></workbook>'
    parts = unzipped(package(sheet("")))
    return zipped([(name, book if name == "xl/workbook.xml" else data) for name, data in parts])


def tabs_of_one_part(count):
    """Return a workbook of many tabs that all share one part of a megabyte without a header."""
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, 25_000))
    part = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    tabs = "".join(f'<sheet name="t{n}" sheetId="{n}" r:id="rId1"/>' for n in range(count))
    book = f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}"><sheets>{tabs}</sheets></workbook>'
    parts = unzipped(package(part))
    return zipped([(name, book if name == "xl/workbook.xml" else data) for name, data in parts])


def many_parts(count, rows):
    """Return a workbook of many tabs without a header, each with its own part."""
    part = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    tabs = "".join(f'<sheet name="t{n}" sheetId="{n}" r:id="tab{n}"/>' for n in range(count))
    links = "".join(
        f'<Relationship Id="tab{n}" Type="{KINDS}/worksheet" Target="worksheets/s{n}.xml"/>'
        for n in range(count)
    )
    book = f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}"><sheets>{tabs}</sheets></workbook>'
    texts = f'<sst xmlns="{MAIN}"><si><t>x</t></si></sst>'
    styles = f'<styleSheet xmlns="{MAIN}"><cellXfs><xf/></cellXfs></styleSheet>'
    kept = dict(unzipped(package(part, strings=texts, styles=styles)))
    kept["xl/workbook.xml"] = book
    kept["xl/_rels/workbook.xml.rels"] = re.sub(
        '<Relationship Id="rId1" [^>]*/>', links, str(kept["xl/_rels/workbook.xml.rels"], "utf-8")
    )
    return zipped([*kept.items(), *((f"xl/worksheets/s{n}.xml", part) for n in range(count))])


def blank_rows(style, count):
    """Return rows that have only formats, as Excel or LibreOffice writes them."""
    if style == "Excel":
        return "".join(
            f'<row r="{n}" spans="1:2" s="1" customFormat="1"><c r="A{n}" s="1"/></row>'
            for n in range(3, count + 3)
        )
    return "".join(
        f'<row r="{n}" customFormat="false" ht="12.8" hidden="false" customHeight="false" '
        f'outlineLevel="0" collapsed="false"><c r="A{n}" s="1"/><c r="B{n}" s="1"/></row>'
        for n in range(3, count + 3)
    )


FAR = "too far for a table of pets"
CASES = {
    "a text of 32 MB in 100,000 cells.xlsx": (
        lambda: shared(100_000, f"<t>{'x' * 32_000_000}</t>"),
        r"the sheet's cells contain 3,200,\d{3} MB of text",
    ),
    "a rich text of 3 MB in 100,000 cells.xlsx": (
        lambda: shared(100_000, f"<r><t>{'x' * 1000}</t></r>" * 3000),
        r"the sheet's cells contain \d{3},\d{3} MB of text",
    ),
    "cells with no index, which are read as the first text.xlsx": (
        lambda: shared(100_000, f"<t>{'x' * 3_000_000}</t>", index="x"),
        r"the sheet's cells contain \d{3},\d{3} MB of text",
    ),
    "references in another spelling.xlsx": (
        lambda: shared(100_000, f"<t>{'x' * 3_000_000}</t>", kind="t = 's'"),
        r"the sheet's cells contain \d{3},\d{3} MB of text",
    ),
    "a text of 100,000 characters in fifty cells.xlsx": (
        lambda: shared(50, f"<t>{'x' * 100_000}</t>"),
        "0 rows, 50 problems",
    ),
    "a cell of 40,000 characters.xlsx": (
        lambda: package(
            sheet(f'<row r="2"><c r="A2"><v>7</v></c>{cell("B2", "x" * 40_000)}</row>')
        ),
        "1 rows, 1 problems",
    ),
    "16,384 columns.xlsx": (
        lambda: package(
            sheet(ROW).replace(
                "</row>",
                "".join(cell(f"{letters(n)}1", f"c{n}") for n in range(2, 16_384)) + "</row>",
                1,
            )
        ),
        "1 rows, 0 problems",
    ),
    "an extent that is a lie.xlsx": (
        lambda: package(sheet(ROW, before='<dimension ref="A1:XFD1048576"/>')),
        "1 rows, 0 problems",
    ),
    "a million formatted rows of Excel.xlsx": (
        lambda: package(sheet(ROW + blank_rows("Excel", 1_000_000))),
        "1 rows, 0 problems",
    ),
    "formatted rows of LibreOffice by the hundred thousand.xlsx": (
        lambda: package(sheet(ROW + blank_rows("LibreOffice", 200_000))),
        "1 rows, 0 problems",
    ),
    "a stray cell in the last corner.xlsx": (
        lambda: package(sheet(ROW + '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')),
        FAR,
    ),
    "a stray cell within what could be a table.xlsx": (
        lambda: package(sheet(ROW + '<row r="1000000"><c r="AB1000000"><v>1</v></c></row>')),
        FAR,
    ),
    "a stray cell among many.xlsx": (
        lambda: package(
            sheet(
                "".join(f'<row r="{n}"><c r="A{n}"><v>1</v></c></row>' for n in range(2, 102_000))
                + '<row r="999999"><c r="Z999999"><v>1</v></c></row>'
            )
        ),
        FAR,
    ),
    "50,000 parts.xlsx": (
        lambda: zipped((f"xl/{n}", b"") for n in range(50_000)),
        "too many parts",
    ),
    "100,000 sheets.xlsx": (many_tabs, "the workbook has 100,000 sheets"),
    "1,000 tabs on one part.xlsx": (
        lambda: tabs_of_one_part(1000),
        "no column has a header that petsync recognises",
    ),
    "300 large sheets without a header.xlsx": (
        lambda: many_parts(
            300,
            "".join(
                f'<row r="{n}">{cell(f"A{n}", random.Random(1).randbytes(5_000).hex())}</row>'
                for n in range(1, 101)
            ),
        ),
        "together they are too large to search",
    ),
    "two million values in a cell.xlsx": (
        lambda: package(
            sheet(f'{ROW}<row r="3"><c r="A3"><f>1</f>{"<v>7</v>" * 2_000_000}</c></row>')
        ),
        "0 rows, 2 problems",
    ),
    "a count of texts that is there a million times.xlsx": (
        lambda: package(
            sheet(ROW), strings=f'<sst xmlns="{MAIN}"><si><t>{"uniqueCount" * 10**6}</t></si></sst>'
        ),
        "1 rows, 0 problems",
    ),
    "a count of texts in a million attributes.xlsx": (
        lambda: package(
            sheet(ROW), strings=f'<sst xmlns="{MAIN}" {"uniqueCount=0 " * 10**6}><si/></sst>'
        ),
        "attributes",
    ),
    "15 million styles.xlsx": (
        lambda: package(
            sheet(ROW), styles=f'<styleSheet xmlns="{MAIN}">{"<a/>" * 15_000_000}</styleSheet>'
        ),
        "it has more than 400,000 elements",
    ),
    "40 million texts.xlsx": (
        lambda: package(sheet(ROW), strings=f'<sst xmlns="{MAIN}">{"<si/>" * 41_000_000}</sst>'),
        "elements|times its packed size",
    ),
    "an element of a million attributes.xlsx": (
        lambda: package(sheet("<row " + " ".join(f"a{n}='>'" for n in range(10**6)) + "/>" + ROW)),
        "an element of more than 100,000 attributes",
    ),
    "a part that is a million elements deep.xlsx": (
        lambda: package(sheet(f"{ROW}{'<a>' * 10**6}<f/>{'</a>' * 10**6}")),
        "deep|damaged",
    ),
    "a million defined names.xlsx": (
        lambda: package(
            sheet(ROW), book=f"<definedNames>{'<definedName/>' * 10**6}</definedNames>"
        ),
        "it has more than 400,000 elements",
    ),
    "merged cells that overlap.xlsx": (
        lambda: package(
            sheet(
                "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(2, 20_000))
            ).replace(
                "</worksheet>",
                "<mergeCells>"
                + '<mergeCell ref="A2:B20000"/>' * 100_000
                + "</mergeCells></worksheet>",
            )
        ),
        "0 rows, 79990 problems",
    ),
    "a million columns that are set.xlsx": (
        lambda: package(sheet(ROW, before=f"<cols>{'<col ' * 200_000}</cols>")),
        "1 rows, 0 problems",
    ),
    "a million filters.xlsx": (
        lambda: package(
            sheet(ROW).replace("</sheetData>", "</sheetData>" + "<autoFilter " * 10**6)
        ),
        "1 rows, 0 problems",
    ),
    "deep elements.xlsx": (
        lambda: package(sheet(f'<row r="2">{"<c>" * 200_000}{"</c>" * 200_000}</row>')),
        "the worksheet is damaged",
    ),
    "a count of texts that is a lie.xlsx": (
        lambda: package(
            sheet(ROW), strings=f'<sst xmlns="{MAIN}" uniqueCount="4294967296"><si/></sst>'
        ),
        "1 rows, 0 problems",
    ),
    "a million columns.csv": (
        lambda: b"id,name," + b",".join(b"c%d" % n for n in range(1_000_000)) + b"\n1,Bello\n",
        "line 1 has 1,000,002 cells, and a sheet has at most 16,384 columns",
    ),
    "a line of 100 MB.csv": (
        lambda: b"id,name\n1," + b"x" * 100_000_000,
        "line 2 has more than 16 MiB without a line break",
    ),
    "ten million blank lines.csv": (
        lambda: b"id,name\n1,Bello\n" + b"\n" * 10_000_000,
        "1 rows, 0 problems",
    ),
}


@pytest.fixture(scope="module")
def became(tmp_path_factory):
    """Return the outcome, seconds and message of reading each file, in one process with limits."""
    folder = tmp_path_factory.mktemp("files")
    for name, (make, _) in CASES.items():
        (folder / name).write_bytes(make())
    program = Path(__file__).parent / "support" / "fuzzed.py"
    command = [sys.executable, str(program), "files", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, ""), lines[-1]
    return dict(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize("name", CASES)
def test_no_file_takes_all_memory_or_time(became, name):
    """Each file gives a sheet or an error that names the excess, within the limits."""
    outcome, seconds, message = became[name]
    assert outcome in ("sheet", "refused")
    assert seconds < SECONDS
    assert re.search(CASES[name][1], message)
    assert (outcome == "sheet") == (" rows, " in CASES[name][1])


def test_a_part_that_is_larger_than_it_says_is_not_unpacked(tmp_path):
    """A part is unpacked only up to its declared size, and a larger part is reported as damage."""
    path = tmp_path / "pets.xlsx"
    path.write_bytes(lying())
    tracemalloc.start()
    try:
        with pytest.raises(SheetError, match="the workbook is damaged: xl/worksheets"):
            read_sheet(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("style", ["Excel", "LibreOffice"])
def test_trailing_formatted_rows_are_not_even_looked_at(tmp_path, style):
    """Trailing rows with only formats are cut before parsing, give no finding, and cost only the
    unpacking.
    """
    clean, blank = tmp_path / "clean.xlsx", tmp_path / "blank.xlsx"
    clean.write_bytes(package(sheet(ROW)))
    rows = blank_rows(style, 100_000)
    blank.write_bytes(package(sheet(ROW + rows)))
    books = [Package(load(path)) for path in (clean, blank)]
    one, other = (book.worksheet(book.tabs[0]) for book in books)
    assert one == other
    tracemalloc.start()
    try:
        result = read_sheet(blank)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * len(rows)
    assert_same_frames(result.frame, read_sheet(clean).frame)
    assert not result.problems


@pytest.mark.parametrize(
    "odd",
    [
        '<row r="9"><c r="A9"><v>7</v></row>',
        "<!-- <c -->",
        "<![CDATA[x]]>",
        '<x:row r="9"/>',
        '<row r="9"><c r="A9" t="inlineStr"><is/></row>',
    ],
)
def test_nothing_but_formatted_cells_is_cut_off(odd):
    """A part with anything else after its last cell is left unchanged."""
    data = sheet(ROW + blank_rows("Excel", 200) + odd).encode()
    assert without_trailing(data) == data
    assert without_trailing(data.replace(odd.encode(), b"")) == sheet(ROW).encode()


def test_the_text_of_cells_is_never_underestimated():
    """The bound of the cells' text is never too low, and is close where many cells share texts."""
    strings = b"<sst><si><t>" + b"x" * 1000 + b"</t></si><si><t>y</t></si></sst>"
    many = b'<c t="s"><v>1</v></c>' * 1000 + b"<c t='s'><v>0</v></c>" * 10
    assert 11_000 <= shared_size(many, strings, 0) < 50_000
    assert shared_size(many, strings, 10**9) >= 1_010_000
    assert shared_size(b"<c><v>1</v></c>", strings, 0) == 0


def test_a_claimed_count_of_texts_is_taken_away_and_no_text_is_changed():
    """Only the table's own tag loses its count, and not text changes."""
    text = b'<si><t>uniqueCount="9" &lt;sst uniqueCount="9"</t></si></sst>'
    assert strip_count(b'<x:sst count="2" uniqueCount="9">' + text) == (
        b'<x:sst count="2" was="9">' + text
    )


def test_a_part_that_many_tabs_share_is_read_once(tmp_path, monkeypatch):
    """A part that many tabs share, and the workbook's texts and styles, are read once."""
    read = []
    whole = Package.part

    def counted(self, name):
        read.append(name)
        return whole(self, name)

    monkeypatch.setattr(Package, "part", counted)
    for data in (tabs_of_one_part(50), many_parts(50, f'<row r="1">{cell("A1", "x")}</row>')):
        path = tmp_path / "pets.xlsx"
        path.write_bytes(data)
        with pytest.raises(SheetError, match="no column has a header"):
            read_sheet(path)
    wanted = {"xl/worksheets/sheet1.xml", *(f"xl/worksheets/s{n}.xml" for n in range(50))}
    wanted |= {"xl/sharedStrings.xml", "xl/styles.xml"}
    counts = {name: read.count(name) for name in wanted}
    assert counts == dict.fromkeys(wanted, 1)
