"""Copies of a workbook with a few changed cells: nothing else in the copy changes."""

import random

import mutants
import openpyxl
import pandas as pd
import pytest
import specimens
from books import add, change, parts, plain, rich
from hypothesis import given
from hypothesis import strategies as st
from sheetmaking import assert_same_frames

from petsync.errors import SheetError
from petsync.sheets import annotate_sheet, must_take_results, read_sheet, write_back, write_results
from petsync.sheets.xlsx.edit import widen_columns
from petsync.sheets.xlsx.edit_parts import Splices, Styles, outline

pytestmark = pytest.mark.slow

RANGES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), max_size=6)


def copies(sheet, folder):
    """Make an annotated copy and a copy with results, and return their paths."""
    marked, result = folder / "marked.xlsx", folder / "told.xlsx"
    annotate_sheet(sheet, marked)
    rows = pd.DataFrame(
        {"outcome": "applied", "message": "", "assigned_id": None}, sheet.frame.index
    )
    write_results(sheet, rows, result)
    return marked, result


@pytest.mark.parametrize("kind", ["rich", "annotated", "petsync"])
def test_copies_of_mutated_workbooks_read_the_same_or_are_refused(tmp_path, kind):
    """A copy of a damaged workbook that can be read has the same values, or a SheetError refuses
    the copy.
    """
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "hey")], notes=[("A1", "n")], table=True)
    if kind == "annotated":
        annotate_sheet(read_sheet(path), tmp_path / "a.xlsx")
        path = tmp_path / "a.xlsx"
    data = specimens.sample("catalogue_clean.xlsx") if kind == "petsync" else path.read_bytes()
    made = 0
    for number in range(8 if kind == "petsync" else 70):
        path.write_bytes(mutants.mutate_package(random.Random(f"{kind} {number}"), data))
        try:
            sheet = read_sheet(path)
            for copy in copies(sheet, tmp_path):
                again = read_sheet(copy, tab=sheet.tab)
                assert_same_frames(again.frame, sheet.frame)
                assert again.problems == sheet.problems
                made += 1
        except SheetError:
            continue
    assert made > 5


def test_a_tab_whose_name_another_has_is_refused(tmp_path):
    """Two worksheets with one name, which Excel never allows, are refused and not written to."""
    path = plain(tmp_path / "pets.xlsx", [["id", "name"], ["1", "Rex"]])
    book = openpyxl.load_workbook(path)
    book.create_sheet("Other")
    book.save(path)
    change(path, {"workbook.xml": lambda data: data.replace(b'"Other"', b'"Pets"')})
    with pytest.raises(SheetError, match="two worksheets have the name 'Pets'"):
        annotate_sheet(read_sheet(path), tmp_path / "out.xlsx")


def test_buttons_on_a_sheet_stay(tmp_path):
    """A drawing with form controls that is not well-formed, as Excel writes it, keeps them and gets
    the comments' boxes after them.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "status"], ["1", "solld"]])
    button = (
        b'<xml xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:'
        b'office" xmlns:x="urn:schemas-microsoft-com:office:excel"><o:shapelayout v:ext="edit">'
        b'<o:idmap v:ext="edit" data="7"/></o:shapelayout><v:shape id="_x0000_s7169"><v:textbox>'
        b'<div><font>one<br>two</font></div></v:textbox><x:ClientData ObjectType="Button">'
        b"<x:Row>1</x:Row><x:Column>1</x:Column></x:ClientData></v:shape></xml>"
    )
    link = (
        b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        b'<Relationship Id="rId5" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        b'relationships/vmlDrawing" Target="../drawings/vmlDrawing1.vml"/></Relationships>'
    )
    add(path, **{"xl/drawings/vmlDrawing1.vml": button})
    add(path, **{"xl/worksheets/_rels/sheet1.xml.rels": link})
    tag = (
        b'<legacyDrawing xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/'
        b'relationships" r:id="rId5"/></worksheet>'
    )
    change(path, {"sheet1.xml": lambda data: data.replace(b"</worksheet>", tag)})
    annotate_sheet(read_sheet(path), tmp_path / "out.xlsx")
    new = parts(tmp_path / "out.xlsx")
    drawing = new["xl/drawings/vmlDrawing1.vml"]
    assert drawing.startswith(button.partition(b'data="7"')[0])
    assert button.partition(b'data="7"')[2].removesuffix(b"</xml>") in drawing
    assert b'data="7,8"' in drawing
    assert b'id="_x0000_s8193"' in drawing
    assert new["xl/worksheets/sheet1.xml"].count(b"legacyDrawing") == 1


@given(RANGES, st.dictionaries(st.integers(0, 40), st.integers(1, 99), max_size=4))
def test_other_columns_keep_their_width(gaps, widths):
    """Of any `cols`, only the chosen columns change; ranges stay in order and do not overlap."""
    first, cols, before = 1, "", {}
    for n, (gap, length) in enumerate(gaps):
        first += gap
        last = first + length
        cols += f'<col min="{first}" max="{last}" width="{n}" hidden="1"/>'
        before |= {column: {"width": str(n), "hidden": "1"} for column in range(first, last + 1)}
        first = last + 1
    root = outline(f"<worksheet><cols>{cols}</cols></worksheet>".encode())
    after, end = {}, 0
    for each in widen_columns(root, widths):
        low, high = int(each.pop("min")), int(each.pop("max"))
        assert end < low <= high
        end = high
        after |= dict.fromkeys(range(low, high + 1), each)
    for column, width in widths.items():
        before[column + 1] = {"width": str(width), "customWidth": "1"}
    assert after == before


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.text("ab", max_size=3))))
def test_splices_change_only_their_places(wanted):
    """Bytes outside the replaced places stay unchanged and in order."""
    data, splices, end, expected = b"0123456789abcdefghij", Splices(), 0, b""
    for start, stop, text in sorted(wanted):
        if end <= start <= stop:
            splices.replace(start, stop, text)
            expected += data[end:start] + text.encode()
            end = stop
    assert splices.apply(data) == expected + data[end:]


@pytest.mark.parametrize(
    "fill",
    [
        '<patternFill patternType="none"/>',
        '<patternFill patternType="solid"><fgColor rgb="FF00FF00"/></patternFill>',
        (
            '<patternFill patternType="solid"><fgColor theme="4" tint="0.4"/>'
            '<bgColor indexed="64"/></patternFill>'
        ),
    ],
)
def test_a_colour_that_is_taken_away_leaves_the_style_of_before(fill):
    """Painting and then stripping a style gives the original style, also after the part was
    written.
    """
    text = (
        f'<styleSheet xmlns="x"><fills><fill>{fill}</fill></fills><cellXfs><xf fillId="0"/>'
        '<xf numFmtId="4" fillId="0"><alignment horizontal="center"/></xf></cellXfs></styleSheet>'
    )
    styles = Styles(text.encode())
    painted = styles.paint(1, "ABCDEF")
    assert styles.is_painted(painted, "ABCDEF")
    assert Styles(styles.bytes()).strip_paint(painted, "ABCDEF") == 1
    assert Styles(styles.bytes()).strip_paint(painted, "123456") == painted
    assert Styles(styles.bytes()).paint(1, "ABCDEF") == painted


RESULTS = pd.DataFrame({"outcome": ["applied"], "message": [""], "assigned_id": [None]}, [2])
WRONG = {
    "a str is not a sheet": [
        lambda _: annotate_sheet("pets.xlsx", "out.xlsx"),
        lambda _: must_take_results("pets.xlsx"),
        lambda _: write_back("pets.xlsx", RESULTS),
        lambda _: write_results("pets.xlsx", RESULTS, "out.xlsx"),
    ],
    "a DataFrame is not a sheet": [lambda _: write_back(RESULTS, RESULTS)],
    "a Sheet has no results": [lambda sheet: write_back(sheet, sheet)],
    "a list has no results": [lambda sheet: write_results(sheet, [], "out.xlsx")],
    "not indexed by row number": [
        lambda sheet: write_results(sheet, RESULTS.set_axis(["Rex"]), "out.xlsx")
    ],
    "an int is not a sheet": [lambda _: write_back(5, RESULTS)],
    "an int has no results": [lambda sheet: write_back(sheet, 5)],
    "an int is not a path": [lambda sheet: write_results(sheet, RESULTS, 5)],
    "a NoneType is not a path": [
        lambda sheet: annotate_sheet(sheet, None),
        lambda sheet: write_results(sheet, RESULTS, None),
    ],
}


@pytest.mark.parametrize(
    ("reason", "call"), [(reason, call) for reason, calls in WRONG.items() for call in calls]
)
def test_what_is_of_a_wrong_type_is_refused(tmp_path, monkeypatch, reason, call):
    """Arguments of a wrong type or in a wrong order are refused with a hint, and nothing is
    written.
    """
    monkeypatch.chdir(tmp_path)
    sheet = read_sheet(plain(tmp_path / "pets.xlsx", [["id", "name"], ["1", "Rex"]]))
    with pytest.raises(SheetError, match=reason) as caught:
        call(sheet)
    assert caught.value.hint
    assert [each.name for each in tmp_path.iterdir()] == ["pets.xlsx"]


def test_results_of_a_sheet_with_the_id_0(tmp_path):
    """A row with the id 0 does not stop the results of the other rows."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name,status\n1,Rex,available\n0,Zero,sold\n2,Mia,sold\n", "utf-8")
    sheet = read_sheet(path)
    assert len(sheet.frame) == 3
    results = pd.DataFrame(
        {"outcome": "applied", "message": "", "assigned_id": None}, sheet.frame.index
    )
    write_results(sheet, results, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text("utf-8").count("applied") == 3
