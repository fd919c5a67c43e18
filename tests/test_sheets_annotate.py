"""annotate_sheet: a copy of the user's workbook with every finding at its cell and all else
unchanged.
"""

import itertools
import re
import tracemalloc
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from books import OURS, ROWS, add, change, parts, plain, prefixed, rich, strict
from effort import growth
from openpyxl.formatting.rule import FormulaRule
from openpyxl.styles import PatternFill
from sheetmaking import assert_same_frames

from petsync.errors import SheetError
from petsync.sheets import annotate_sheet, read_sheet, write_sheet
from petsync.sheets.base import BASE_NAME
from petsync.sheets.sidecar import sidecar_path
from petsync.sheets.xlsx.annotate import ERROR, MAX_COMMENTS, WARNING
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.rules import SheetRule

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parent.parent / "sample_data"


def annotated(path, out=None):
    """Return the copy's path, its result, and its worksheet as openpyxl reads it."""
    out = out or path.with_name("out.xlsx")
    sheet = read_sheet(path)
    done = annotate_sheet(sheet, out)
    return out, done, openpyxl.load_workbook(out)[sheet.tab or "Pets"]


def colours(worksheet):
    """Return the cells that have one of petsync's colours."""
    return {
        cell.coordinate: cell.fill.fgColor.rgb[2:]
        for row in worksheet.iter_rows()
        for cell in row
        if cell.fill.fgColor.rgb in ("FF" + ERROR, "FF" + WARNING)
    }


def comments(worksheet):
    """Return the texts of the comments by cell."""
    return {
        cell.coordinate: cell.comment.text
        for row in worksheet.iter_rows()
        for cell in row
        if cell.comment
    }


def test_each_finding_is_at_its_cell(tmp_path):
    """An error is red and a warning yellow, and the comment names the problem and the fix."""
    _, done, sheet = annotated(rich(tmp_path / "pets.xlsx"))
    assert colours(sheet)["C3"] == colours(sheet)["A4"] == ERROR
    assert colours(sheet)["D3"] == WARNING
    assert done.cells == len(colours(sheet))
    text = comments(sheet)["C3"]
    assert text.startswith("petsync: petsync knows no such status.\nWrite sold")
    assert text.endswith(" (unknown-status)")
    assert sheet["C3"].comment.author == "petsync"
    assert comments(sheet).keys() == colours(sheet).keys()


def test_every_planted_mistake_of_the_samples_is_marked(tmp_path):
    """In the edited catalogue each cell with a finding is coloured and commented, and no other cell
    is.
    """
    sheet = read_sheet(SAMPLES / "catalogue_edited.xlsx")
    _, done, marked = annotated(SAMPLES / "catalogue_edited.xlsx", tmp_path / "out.xlsx")
    found = {each.address.rpartition("!")[2] for each in sheet.problems}
    assert colours(marked).keys() == comments(marked).keys() == found
    assert done.cells == len(found) > 40


def test_the_copy_reads_like_the_original(tmp_path):
    """The copy's findings and rows are those of the sheet."""
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "really?")])
    first, again = read_sheet(path), read_sheet(annotated(path)[0])
    assert again.problems == first.problems
    assert_same_frames(again.frame, first.frame)
    assert again.others.equals(first.others)


def test_all_findings_of_a_cell_are_in_one_comment(tmp_path):
    """Several findings of one cell are paragraphs of its one comment."""
    path = plain(tmp_path / "pets.xlsx", [["id", "tags"], ["1", "calm;;; calm; x"]])
    sheet = read_sheet(path)
    assert len(sheet.problems) > 1
    _, done, marked = annotated(path)
    assert done.cells == 1
    for problem in sheet.problems:
        assert problem.problem in comments(marked)["B2"]
        assert f"({problem.rule})" in comments(marked)["B2"]


def test_every_other_byte_stays(tmp_path):
    """Only the worksheet, the styles, the content types and the relations change; in the worksheet
    only the marked cells' styles and the name of the drawing.
    """
    path = rich(tmp_path / "pets.xlsx")
    out, done, sheet = annotated(path)
    old, new = parts(path), parts(out)
    assert old.keys() <= new.keys()
    changed = {name for name in old if old[name] != new[name]}
    assert changed == {
        "[Content_Types].xml",
        "xl/styles.xml",
        "xl/worksheets/sheet1.xml",
        "xl/worksheets/_rels/sheet1.xml.rels",
    }
    text = new["xl/worksheets/sheet1.xml"]
    text = re.sub(rb"<legacyDrawing [^>]*/>", b"", text)
    marked = "|".join(colours(sheet)).encode()
    assert unstyled(text, marked) == unstyled(old["xl/worksheets/sheet1.xml"], marked)
    assert done.cells == len(colours(sheet)) > 3


def unstyled(text, cells):
    """Return a worksheet without the styles of these cells."""

    def bare(match):
        pairs = re.findall(rb' ([a-z]+)="([^"]*)"', match[0])
        return b"<c " + repr([pair for pair in pairs if pair[0] != b"s"]).encode()

    return re.sub(rb'<c(?: [a-z]+="[^"]*")* r="(?:%b)"(?: [a-z]+="[^"]*")* ?' % cells, bare, text)


def test_a_cell_keeps_the_rest_of_its_format(tmp_path):
    """Only the fill of a marked cell changes: number format, border and font stay."""
    path = rich(tmp_path / "pets.xlsx")
    before, after = openpyxl.load_workbook(path)["Pets"]["C3"], annotated(path)[2]["C3"]
    assert after.number_format == before.number_format == "0.00"
    assert repr(after.border) == repr(before.border)
    assert repr(after.font) == repr(before.font)
    assert repr(before.fill) != repr(after.fill)


def test_formulas_keep_their_values(tmp_path):
    """A formula and its cached value stay unchanged."""
    path = rich(tmp_path / "pets.xlsx")
    out = annotated(path)[0]
    assert openpyxl.load_workbook(out)["Pets"]["E4"].value == "=SUM(E2:E3)"
    assert openpyxl.load_workbook(out, data_only=True)["Pets"]["E4"].value == 30


def test_people_keep_their_comments(tmp_path):
    """A person's comments stay on all cells and sheets; on a marked cell petsync adds its text
    below, and reports that.
    """
    existing = [("A2", "is that right?"), ("C3", "Mia told me so")]
    path = rich(tmp_path / "pets.xlsx", comments=existing, notes=[("A1", "for us")])
    out, done, sheet = annotated(path)
    texts = comments(sheet)
    assert texts["A2"] == "is that right?"
    assert texts["C3"].startswith("Mia told me so\n\npetsync: petsync knows no such status.")
    assert openpyxl.load_workbook(out)["Notes"]["A1"].comment.text == "for us"
    assert "1 cell has a comment already; petsync's text is below it." in done.lost
    assert sheet["C3"].comment.author == "Anna"


def test_annotating_again_does_not_pile_up(tmp_path):
    """Annotating an annotated copy gives the same comments, colours and styles."""
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "Mia told me so")])
    one, _, first = annotated(path)
    two, _, second = annotated(one, tmp_path / "two.xlsx")
    assert comments(second) == comments(first)
    assert colours(second) == colours(first)
    assert parts(two)["xl/styles.xml"] == parts(one)["xl/styles.xml"]
    assert parts(two)["xl/worksheets/sheet1.xml"] == parts(one)["xl/worksheets/sheet1.xml"]
    assert boxes(two) == boxes(one)
    assert len(boxes(two)) == len(comments(first))


def boxes(path):
    """Return the anchor or the style of each comment's box, by column and row from 0."""
    text = b"".join(data for name, data in parts(path).items() if name.endswith(".vml"))
    found = {}
    for shape in re.findall(rb"<\w+:shape .*?:shape>", text, re.DOTALL):
        place = tuple(
            int(re.search(rb":%b>([0-9]+)" % way, shape)[1]) for way in (b"Column", b"Row")
        )
        size = re.search(rb"Anchor>[0-9, ]+", shape) or re.search(rb'style="[^"]*"', shape)
        found[place] = size[0]
    return found


def high(style):
    """Return the height in pixels that a style gives a box."""
    return int(re.search(rb"height:([0-9]+)px", style)[1])


def test_the_box_of_a_persons_comment_grows_and_shrinks(tmp_path):
    """The box of a person's comment grows for petsync's text and shrinks again when the text is
    removed.
    """
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "Mia told me so")])
    one, _, _ = annotated(path)
    assert high(boxes(one)[2, 2]) == high(boxes(path)[2, 2]) + 15 * 5
    change(one, {"sheet1.xml": lambda data: data.replace(b"solld", b"sold")})
    two, _, sheet = annotated(one, tmp_path / "two.xlsx")
    assert comments(sheet)["C3"] == "Mia told me so"
    assert boxes(two)[2, 2] == boxes(path)[2, 2]


def test_an_anchored_box_grows_by_whole_rows(tmp_path):
    """A box with an anchor, as Excel writes it, grows down by whole rows and shrinks back."""
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "Mia told me so")])
    anchor = rb"\1<ns2:Anchor>3, 15, 1, 10, 5, 31, 4, 9</ns2:Anchor>"
    data = rb"(<ns2:ClientData[^>]*>)"
    change(path, {"Drawing1.vml": lambda text: re.sub(data, anchor, text)})
    one, _, _ = annotated(path)
    assert boxes(one)[2, 2] == b"Anchor>3, 15, 1, 10, 5, 31, 8, 4"
    change(one, {"sheet1.xml": lambda text: text.replace(b"solld", b"sold")})
    two, _, _ = annotated(one, tmp_path / "two.xlsx")
    assert boxes(two)[2, 2] == b"Anchor>3, 15, 1, 10, 5, 31, 4, 9"


@pytest.mark.parametrize("height", [15, None])
def test_a_box_is_as_tall_beside_hidden_rows(tmp_path, height):
    """Hidden rows have no height, so a box ends as many rows further down as are hidden."""
    path = plain(tmp_path / "pets.xlsx", _faulty(30))
    shown, _, _ = annotated(path)
    book = openpyxl.load_workbook(path)
    for number in range(4, 14):
        book.active.row_dimensions[number].hidden = True
        book.active.row_dimensions[number].height = height
    book.save(path)
    hidden, _, _ = annotated(path, tmp_path / "hidden.xlsx")
    before, after = (
        [int(text) for text in boxes(each)[1, 1].removeprefix(b"Anchor>").split(b",")]
        for each in (shown, hidden)
    )
    assert after == [*before[:6], before[6] + 10, before[7]]


def test_a_fixed_cell_gets_its_own_colour_back(tmp_path):
    """A cell that is fixed in an annotated copy gets its own fill and the person's comment back,
    without petsync's colour and text.
    """
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "Mia told me so")])
    one = annotated(path)[0]
    book = openpyxl.load_workbook(one)
    book["Pets"]["C3"].value, book["Pets"]["A4"].value = "sold", "3"
    book.save(one)
    _, _, sheet = annotated(one, tmp_path / "two.xlsx")
    assert sheet["C3"].fill.fgColor.rgb[2:] == "00FF00"
    assert sheet["C3"].number_format == "0.00"
    assert comments(sheet)["C3"] == "Mia told me so"
    assert "A4" not in colours(sheet)
    assert "A4" not in comments(sheet)


def test_the_mark_of_an_own_rule_is_replaced_too(tmp_path):
    """The mark of a user's own rule does not pile up, and goes once the cell keeps the rule."""
    rules = [SheetRule(name="Max_2.x", columns=("name",), max_length=2)]
    path = plain(tmp_path / "pets.xlsx", [["id", "name", "status"], ["1", "Rex", "sold"]])
    for name in ("one.xlsx", "two.xlsx"):
        annotate_sheet(read_sheet(path, rules=rules), path := tmp_path / name)
        tab = openpyxl.load_workbook(path).active
        assert comments(tab) == {"B2": "petsync: It must have at most 2 characters. (rule:Max_2.x)"}
        assert [*colours(tab)] == ["B2"]
    _, _, tab = annotated(path)
    assert comments(tab) == colours(tab) == {}


def test_an_answer_to_petsync_is_kept(tmp_path):
    """A person's text in petsync's comment stays when petsync's text is replaced."""
    one = annotated(rich(tmp_path / "pets.xlsx"))[0]
    answer = rb"(\(unknown-status\))</t>"
    change(one, {"comments1.xml": lambda data: re.sub(answer, rb"\1&#10;Anna: it is</t>", data)})
    _, _, sheet = annotated(one, tmp_path / "two.xlsx")
    assert comments(sheet)["C3"].startswith("Anna: it is\n\npetsync: petsync knows")
    assert comments(sheet)["C3"].count("petsync:") == 1


def test_blank_and_absent_cells_are_marked(tmp_path):
    """A finding on a cell that the file lacks creates the cell with its column's format."""
    path = plain(tmp_path / "pets.xlsx", [["id", "name", "status"], [None, None, "sold"]])
    book = openpyxl.load_workbook(path)
    book.active.column_dimensions["B"].number_format = "@"
    book.save(path)
    change(path, {"sheet1.xml": lambda data: re.sub(rb'<c r="[AB]2"[^>]*/>', b"", data)})
    out, _, sheet = annotated(path)
    assert colours(sheet) == {"B2": ERROR}
    assert sheet["B2"].number_format == "@"
    assert parts(out)["xl/worksheets/sheet1.xml"].index(b'"B2"') < parts(out)[
        "xl/worksheets/sheet1.xml"
    ].index(b'"C2"')


def test_the_mark_of_a_merged_cell_is_at_the_one_that_is_seen(tmp_path):
    """The first of merged cells, the only visible one, has the mark and the findings of all of
    them.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "status"], ["1", "sold"], ["2", None]])
    book = openpyxl.load_workbook(path)
    book.active.merge_cells("B2:B3")
    book.save(path)
    _, done, sheet = annotated(path)
    assert done.cells == 1
    assert colours(sheet) == {"B2": ERROR}
    assert "merged" in comments(sheet)["B2"]


def test_elements_with_a_prefix_are_marked_too(tmp_path):
    """Where the elements of worksheet and styles have a prefix, the added elements have it too."""
    path = rich(tmp_path / "pets.xlsx")
    change(path, {"sheet1.xml": prefixed, "styles.xml": prefixed})
    out = annotated_without_openpyxl(path)
    text = parts(out)["xl/worksheets/sheet1.xml"]
    assert b"<x:legacyDrawing " in text
    assert re.search(rb'<x:c r="C3" s="[0-9]+"', text) or re.search(rb'<x:c [^>]*r="C3"', text)
    assert re.search(rb"<x:xf [^>]*applyFill", parts(out)["xl/styles.xml"])


def annotated_without_openpyxl(path):
    """Return the annotated copy of a workbook that openpyxl cannot read but calamine can."""
    sheet, out = read_sheet(path), path.with_name("out.xlsx")
    annotate_sheet(sheet, out)
    again = read_sheet(out)
    assert again.problems == sheet.problems
    assert_same_frames(again.frame, sheet.frame)
    return out


def test_a_strict_workbook_stays_strict(tmp_path):
    """In a strict workbook the new relations and comments use the strict namespaces."""
    path = rich(tmp_path / "pets.xlsx")
    change(path, {"": strict})
    out = annotated_without_openpyxl(path)
    new = b"".join(parts(out).values())
    assert b"http://purl.oclc.org/ooxml/officeDocument/relationships/comments" in new
    assert b"http://purl.oclc.org/ooxml/officeDocument/relationships/vmlDrawing" in new
    assert OURS.encode() not in parts(out)["xl/comments1.xml"]


def test_a_workbook_without_styles_gets_them(tmp_path):
    """A workbook without a styles part gets one, and its cells are coloured."""
    path = plain(tmp_path / "pets.xlsx", ROWS)
    old = parts(path)
    gone = (rb'<(?:Override|Relationship)[^>]*styles\.xml"[^>]*>', rb"styles.xml")
    path.unlink()
    add(
        path,
        **{
            name: re.sub(gone[0], b"", data)
            for name, data in old.items()
            if not name.endswith("styles.xml")
        },
    )
    change(path, {"sheet1.xml": lambda data: re.sub(rb' s="[0-9]+"', b"", data)})
    _, _, sheet = annotated(path)
    assert colours(sheet)["C3"] == ERROR


def test_macros_stay_in_an_xlsm(tmp_path):
    """An .xlsm keeps its macros byte for byte; a copy named .xlsx leaves the macros out and reports
    that.
    """
    path = rich(tmp_path / "pets.xlsm")
    add(path, **{"xl/vbaProject.bin": b"\xd0\xcf macros"})
    relation = (
        b'<Relationship Id="rId99" Type="http://schemas.microsoft.com/office/2006/relationships/'
        b'vbaProject" Target="vbaProject.bin"/></Relationships>'
    )
    macro = b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    change(
        path,
        {
            "workbook.xml.rels": lambda data: data.replace(b"</Relationships>", relation),
            "Types].xml": lambda data: data.replace(
                b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml", macro
            ).replace(b"<Override", b'<Default Extension="bin" ContentType="x/y"/><Override', 1),
        },
    )
    out, done, _ = annotated(path, tmp_path / "out.xlsm")
    assert parts(out)["xl/vbaProject.bin"] == b"\xd0\xcf macros"
    assert macro in parts(out)["[Content_Types].xml"]
    assert done.lost == tuple(text for text in done.lost if "macros" not in text)
    out, done, _ = annotated(path, tmp_path / "out.xlsx")
    assert "xl/vbaProject.bin" not in parts(out)
    assert macro not in parts(out)["[Content_Types].xml"]
    assert b"vbaProject" not in parts(out)["xl/_rels/workbook.xml.rels"]
    assert any("macros are left out" in text for text in done.lost)


def test_a_signature_that_no_longer_holds_is_left_out(tmp_path):
    """A digital signature and all references to it are left out, and that is reported."""
    path = plain(tmp_path / "pets.xlsx", ROWS)
    add(path, **{"_xmlsignatures/origin.sigs": b"", "_xmlsignatures/sig1.xml": b"<s/>"})
    origin = (
        b'<Relationship Id="rIdS" Type="http://schemas.openxmlformats.org/package/2006/'
        b'relationships/digital-signature/origin" Target="_xmlsignatures/origin.sigs"/>'
        b"</Relationships>"
    )
    change(path, {"_rels/.rels": lambda data: data.replace(b"</Relationships>", origin)})
    out, done, _ = annotated(path)
    assert not [name for name in parts(out) if "signature" in name]
    assert b"signature" not in parts(out)["_rels/.rels"]
    assert any("signature is left out" in text for text in done.lost)


def test_what_may_hide_a_mark_is_reported(tmp_path):
    """Conditional formats, protection, patterns and hidden rows, which may hide a mark, are
    reported.
    """
    path = rich(tmp_path / "pets.xlsx")
    book = openpyxl.load_workbook(path)
    sheet = book["Pets"]
    sheet.protection.sheet = True
    sheet.row_dimensions[4].hidden = True
    sheet["A4"].fill = PatternFill("lightGrid", fgColor="0000FF")
    book.save(path)
    _, done, _ = annotated(path)
    result = "\n".join(done.lost)
    assert "1 cell is in the range of a conditional format" in result
    assert "The sheet is protected" in result
    assert "1 cell has a pattern" in result
    assert "in hidden rows" in result


def test_a_conversation_is_not_written_into(tmp_path):
    """A cell with a threaded comment is coloured, its conversation stays, and that is reported."""
    path = rich(tmp_path / "pets.xlsx", comments=[("C3", "[Threaded comment] hello")])
    change(path, {"comment1.xml": lambda data: data.replace(b">Anna<", b">tc={1-2}<")})
    _, done, sheet = annotated(path)
    assert comments(sheet)["C3"] == "[Threaded comment] hello"
    assert colours(sheet)["C3"] == ERROR
    assert any("1 cell has a threaded comment" in text for text in done.lost)


def test_the_drawing_stands_where_the_schema_has_it(tmp_path):
    """`legacyDrawing` follows `drawing` and precedes `tableParts`, or Excel would repair it."""
    path = rich(tmp_path / "pets.xlsx", table=True)
    text = parts(annotated(path)[0])["xl/worksheets/sheet1.xml"]
    order = [text.index(b"<" + name) for name in (b"drawing ", b"legacyDrawing ", b"tableParts")]
    assert order == sorted(order)


def test_ids_of_shapes_are_unique_in_the_workbook(tmp_path):
    """New boxes have ids of a block that no other sheet's boxes use."""
    path = rich(tmp_path / "pets.xlsx", comments=[("A2", "one")], notes=[("A1", "two")])
    out, _, sheet = annotated(path)
    shapes = b"".join(data for name, data in parts(out).items() if name.endswith(".vml"))
    ids = re.findall(rb'id="_x0000_s([0-9]+)"', shapes)
    new = [int(each) for each in ids if int(each) > 2048]
    assert len(new) == len(set(new)) == len(colours(sheet))
    assert {each // 1024 for each in new} == {2}
    assert re.search(rb'idmap[^>]* data="1,2"', shapes)


def test_shared_formulas_and_missing_columns_stay(tmp_path):
    """A sheet with a shared formula and without `cols`, `dimension` and cell references is
    annotated.
    """
    path = plain(tmp_path / "pets.xlsx", ROWS)
    shared = b'<c><f t="shared" ref="E2:E3" si="0">1+1</f><v>2</v></c>'
    body = (
        b"<sheetData><row><c t='str'><v>id</v></c><c t='str'><v>status</v></c></row>"
        b"<row><c t='str'><v>1</v></c><c t='str'><v>so</v></c>" + shared + b"</row></sheetData>"
    )
    head = f'<worksheet xmlns="{OURS}">'.encode()
    change(path, {"sheet1.xml": lambda data: head + body + b"</worksheet>"})
    out = annotated_without_openpyxl(path)
    text = parts(out)["xl/worksheets/sheet1.xml"]
    assert shared in text
    assert re.search(rb'<c t="str" s="[1-9][0-9]*"><v>so</v></c>', text)


def test_a_csv_becomes_a_workbook_with_the_same_line_numbers(tmp_path):
    """The copy of a CSV file is a workbook of texts; the row of a cell is its line in the file."""
    path = tmp_path / "pets.csv"
    path.write_bytes(
        "\ufeffsep=;\nSpring\nid;name;status\n007;'=x;sold\n\n2;a\u00a0\n".encode()
        + b'3;"two\nlines";solld\n4;Rex;sold\n'
    )
    sheet = read_sheet(path)
    out, done, marked = annotated(path)
    again = read_sheet(out)
    assert [cell.value for cell in marked[4]] == ["007", "=x", "sold"]
    assert marked["B7"].value == "two\nlines"
    assert colours(marked)["C7"] == ERROR
    assert_same_frames(again.frame.loc[[4, 9]], sheet.frame.loc[[4, 9]])
    assert {7} <= set(again.blocked) <= set(sheet.blocked)
    assert done.cells == len(colours(marked))


def test_the_base_of_an_export_goes_with_the_copy(tmp_path):
    """The copy of an export carries its base for a three-way comparison; a refused base stays
    refused.
    """
    frame = pd.DataFrame({"id": pd.array([1], "Int64"), "name": ["Rex"]})
    base = Base(
        pets=PetTable(frame=frame),
        store="https://example.org",
        taken_at="2026-11-21T10:00:00+00:00",
    )
    for suffix in (".xlsx", ".csv"):
        path = tmp_path / f"pets{suffix}"
        write_sheet(frame, path, base=base)
        out = annotated(path)[0]
        assert len(read_sheet(out).base) == 1
        assert BASE_NAME in openpyxl.load_workbook(out).defined_names
    sidecar_path(path).write_bytes(sidecar_path(path).read_bytes().replace(b"A", b"B"))
    assert read_sheet(annotated(path)[0]).base_refused


def test_an_export_s_own_conditional_formats_are_not_reported(tmp_path):
    """The conditional formats of the export itself are not reported; a person's own are."""
    path = tmp_path / "pets.xlsx"
    write_sheet(pd.DataFrame({"id": pd.array([1], "Int64"), "status": ["solld"]}), path)
    assert annotated(path)[1].lost == ()
    book = openpyxl.load_workbook(path)
    book["Pets"].insert_cols(1)
    book["Pets"].conditional_formatting.add("D2", FormulaRule(['TRIM($D2)="sold"']))
    book.save(path)
    (result,) = annotated(path)[1].lost
    assert result.startswith("1 cell is in the range of a conditional format")


def test_a_cell_too_long_for_a_workbook_is_refused(tmp_path):
    """A CSV cell that is too long for a workbook is refused and never cut."""
    path = tmp_path / "pets.csv"
    path.write_text(f"id,name\n1,{'x' * 40_000}\n")
    with pytest.raises(SheetError, match="line 2 has a cell of more than"):
        annotate_sheet(read_sheet(path), tmp_path / "out.xlsx")


def test_a_csv_copy_is_never_a_csv(tmp_path):
    """An output without a workbook's suffix is refused, and the hint names .xlsx."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,a\n")
    with pytest.raises(SheetError, match="need a workbook") as caught:
        annotate_sheet(read_sheet(path), tmp_path / "out.csv")
    assert ".xlsx" in caught.value.hint


def test_a_file_that_changed_is_not_annotated(tmp_path):
    """A file that changed since it was read is not annotated, so no mark is at a wrong row."""
    path = plain(tmp_path / "pets.xlsx", ROWS)
    sheet = read_sheet(path)
    plain(path, ROWS[::-1])
    with pytest.raises(SheetError, match="changed since it was read"):
        annotate_sheet(sheet, tmp_path / "out.xlsx")
    assert not (tmp_path / "out.xlsx").exists()


def test_the_sheet_itself_is_never_annotated(tmp_path):
    """The input is refused as the output, also under another name."""
    path = plain(tmp_path / "pets.xlsx", ROWS)
    before = path.read_bytes()
    (tmp_path / "link.xlsx").hardlink_to(path)
    for out in (path, tmp_path / "link.xlsx"):
        with pytest.raises(SheetError, match="this is the sheet itself"):
            annotate_sheet(read_sheet(path), out)
    assert path.read_bytes() == before


def test_a_clean_sheet_is_copied_as_it_is(tmp_path):
    """The copy of a sheet without findings has the same parts."""
    path = rich(tmp_path / "pets.xlsx")
    book = openpyxl.load_workbook(path)
    book["Pets"].delete_rows(3, 3)
    book.save(path)
    out, done, _ = annotated(path)
    assert (done.cells, done.lost) == (0, ())
    assert parts(out) == parts(path)


def _faulty(count):
    statuses = (" sold" if n % 2 else "solld" for n in range(1, count + 1))
    return [["id", "status"], *([str(n), status] for n, status in enumerate(statuses, 1))]


def test_findings_are_annotated_in_linear_time(tmp_path):
    """The time to annotate grows linearly with the number of findings."""
    sheets = {n: read_sheet(plain(tmp_path / f"{n}.xlsx", _faulty(n))) for n in (500, 2_000)}
    outs = map("{}.out.xlsx".format, itertools.count())
    assert growth(lambda n: annotate_sheet(sheets[n], tmp_path / next(outs)), 500) < 5


def test_findings_in_hidden_rows_are_annotated_in_linear_time(tmp_path):
    """The time to annotate grows linearly with the number of findings in hidden rows."""
    hide = lambda data: data.replace(b"<row ", b'<row hidden="1" ')  # noqa: E731
    for n in (500, 2_000):
        change(plain(tmp_path / f"{n}.xlsx", _faulty(n)), {"sheet1.xml": hide})
    sheets = {n: read_sheet(tmp_path / f"{n}.xlsx") for n in (500, 2_000)}
    outs = map("{}.out.xlsx".format, itertools.count())
    assert growth(lambda n: annotate_sheet(sheets[n], tmp_path / next(outs)), 500) < 5


def test_very_many_findings_are_coloured_and_the_first_errors_commented(tmp_path):
    """Above MAX_COMMENTS, errors get the comments first, the other cells are only coloured, and
    that is reported.
    """
    sheet = read_sheet(plain(tmp_path / "pets.xlsx", _faulty(12_000)))
    done = annotate_sheet(sheet, tmp_path / "out.xlsx")
    assert done.cells == len({each.address for each in sheet.problems}) > MAX_COMMENTS
    texts = parts(tmp_path / "out.xlsx")["xl/comments1.xml"]
    assert texts.count(b"<comment ") == MAX_COMMENTS == texts.count(b"(unknown-status)")
    assert any("only coloured" in text for text in done.lost)


def test_a_merge_of_a_whole_sheet_costs_little(tmp_path):
    """The 17 thousand million cells of a merged range are never listed."""
    book = openpyxl.Workbook()
    for row in (["id", "name", "status"], [1, "Rex", "sold"], [2, "Tom", "solld"]):
        book.active.append(row)
    book.active.merged_cells.add("A2:XFD1048576")
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    tracemalloc.start()
    try:
        annotate_sheet(sheet, tmp_path / "marked.xlsx")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
