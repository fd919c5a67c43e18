"""write_results: a copy of the user's sheet with each row's outcome and all else unchanged."""

import io
import re
import zipfile

import openpyxl
import pandas as pd
import pytest
from books import add, change, parts, plain, rich
from msgspec.structs import replace
from openpyxl.styles import PatternFill
from shop import base_of, plan_of
from test_advance import report_on

from petsync.errors import SheetError
from petsync.models import Category, Pet
from petsync.sheets import (
    annotate_sheet,
    read_sheet,
    write_back,
    write_corrected,
    write_results,
    write_sheet,
)
from petsync.sheets.sidecar import sidecar_path
from petsync.table.frame import frame_from_pets

ROWS = [
    ["Spring list"],
    ["id", "name", "status", "action", "Price"],
    [1, "Bello", "sold", None, "=2*3"],
    [None, "Rex", "sold", "add", 2.5],
    [3, "Mia", "solld", None, None],
    [None, "Zoë", "sold", "ADD", None],
    [5, "Leo", "sold", "ignore", None],
]


def results(**rows):
    """Return results by row number, as a run reports them."""
    frame = pd.DataFrame.from_dict(
        {int(row[1:]): value for row, value in rows.items()},
        orient="index",
        columns=["outcome", "message", "assigned_id"],
    )
    return frame.astype({"assigned_id": "Int64"})


RESULTS = results(
    r3=("applied", "", None),
    r4=("applied", "=added", 91),
    r6=("failed", "the service said: a\x01\n'b'", None),
)


@pytest.fixture
def workbook(tmp_path):
    """Return a workbook as people make it: title, colours, formulas with values, another sheet."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Pets"
    for row in ROWS:
        sheet.append(row)
    sheet["A4"].fill = PatternFill("solid", fgColor="FF0000")
    sheet.column_dimensions["B"].width = 33
    book.create_sheet("Notes").append(["keep me"])
    path = tmp_path / "pets.xlsx"
    plain = io.BytesIO()
    book.save(plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            # openpyxl writes the empty value in one of three ways, which depend on its XML library.
            value = rb"(<f>2\*3</f>)<v(?: ?/>|></v>)"
            new.writestr(name, re.sub(value, rb"\1<v>6</v>", old.read(name)))
    return path


def test_each_row_tells_what_became_of_it(workbook, tmp_path):
    """Outcome, message, assigned id and row are written beside each row, blocked rows included."""
    write_results(read_sheet(workbook), RESULTS, tmp_path / "out.xlsx")
    rows = list(openpyxl.load_workbook(tmp_path / "out.xlsx")["Pets"].iter_rows(values_only=True))
    assert rows[0][:6] == ("Spring list", None, None, None, None, None)
    assert rows[1][5:] == ("outcome", "message", "assigned_id", "row")
    assert rows[2][5:] == ("applied", None, None, "3")
    assert rows[3] == ("91", "Rex", "sold", "merge", 2.5, "applied", "=added", "91", "4")
    assert rows[4][5] == "needs fixing"
    assert rows[4][6].startswith("Pets!C5: petsync knows no such status. Write sold")
    assert rows[5][0] is None
    assert rows[5][3] == "ADD"
    assert rows[5][5:] == ("failed", "the service said: a_x0001_\n'b'", None, "6")


def test_the_rest_of_the_workbook_stays(workbook, tmp_path):
    """Formats, widths, formulas with their values and other sheets stay unchanged."""
    write_results(read_sheet(workbook), RESULTS, tmp_path / "out.xlsx")
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    assert book["Pets"]["A4"].fill.fgColor.rgb == "00FF0000"
    assert book["Pets"].column_dimensions["B"].width == 33
    assert book["Pets"]["E3"].value == "=2*3"
    assert book["Notes"]["A1"].value == "keep me"
    values = openpyxl.load_workbook(tmp_path / "out.xlsx", data_only=True)
    assert values["Pets"]["E3"].value == 6
    with zipfile.ZipFile(workbook) as old, zipfile.ZipFile(tmp_path / "out.xlsx") as new:
        assert old.namelist() == new.namelist()
        changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert sorted(changed) == ["xl/styles.xml", "xl/worksheets/sheet1.xml"]


@pytest.mark.parametrize("copy", ["results", "marked"])
def test_a_copy_keeps_the_file_that_it_replaces(workbook, tmp_path, copy):
    """A file that has the name of a copy gets a backup: it may have the user's edits."""
    path, sheet = tmp_path / "out.xlsx", read_sheet(workbook)

    def write():
        if copy == "results":
            return write_results(sheet, RESULTS, path)
        return annotate_sheet(sheet, path).backup

    assert write() is None
    book = openpyxl.load_workbook(path)
    book["Pets"]["B3"] = "mine"
    book.save(path)
    edited = path.read_bytes()
    backup = write()
    assert backup.read_bytes() == edited
    assert backup.name.startswith("out.backup-")
    assert path.read_bytes() != edited


def test_the_copy_can_be_read_again(workbook, tmp_path):
    """The copy reads like the sheet, with the assigned ids and the results as further columns."""
    first = read_sheet(workbook)
    write_results(first, RESULTS, tmp_path / "out.xlsx")
    second = read_sheet(tmp_path / "out.xlsx")
    assert second.blocked == first.blocked == (5,)
    assert second.frame["id"].tolist() == [1, 91, pd.NA, 5]
    assert second.frame["action"].tolist() == ["merge", "merge", "add", "ignore"]
    assert second.others.loc[6, "message"] == "the service said: a\x01\n'b'"
    assert not [each for each in second.problems if each.rule.startswith("header")]


def test_results_of_results_use_the_same_columns(workbook, tmp_path):
    """A second run on the copy overwrites its result columns and adds none."""
    write_results(read_sheet(workbook), RESULTS, tmp_path / "one.xlsx")
    again = read_sheet(tmp_path / "one.xlsx")
    write_results(again, results(r3=("unchanged", "same", None)), tmp_path / "two.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "two.xlsx")["Pets"]
    assert sheet.max_column == 9
    assert [cell.value for cell in sheet[3]][5:] == ["unchanged", "same", None, "3"]
    assert [cell.value for cell in sheet[4]][5:] == [None, None, None, "4"]
    assert sheet["A4"].value == "91"


def test_a_formula_is_never_replaced(tmp_path):
    """A formula in the column action stays, whatever the outcome of the row."""
    book = openpyxl.Workbook()
    for row in (["id", "name", "action"], [None, "Rex", "=A9"]):
        book.active.append(row)
    plain, path = io.BytesIO(), tmp_path / "pets.xlsx"
    book.save(plain)
    formula = b'<c r="C2" t="str"><f>LOWER("ADD")</f><v>add</v></c>'
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, re.sub(rb'<c r="C2".*?</c>', formula, old.read(name)))
    sheet = read_sheet(path)
    assert sheet.frame["action"].tolist() == ["add"]
    write_results(sheet, results(r2=("applied", "", 7)), tmp_path / "out.xlsx")
    out = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    assert out["C2"].value == '=LOWER("ADD")'
    assert (out["A2"].value, out["F2"].value) == ("7", "7")


def test_elements_with_a_prefix_are_filled_in(tmp_path):
    """Where a worksheet's elements have a prefix, the new cells have it too."""
    book = openpyxl.Workbook()
    for row in (["id", "name"], [1, "Rex"]):
        book.active.append(row)
    plain, path = io.BytesIO(), tmp_path / "pets.xlsx"
    book.save(plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("sheet1.xml"):
                data = re.sub(rb"<(/?)(?=[a-zA-Z])", rb"<\1x:", data).replace(
                    b"xmlns=", b"xmlns:x="
                )
            new.writestr(name, data)
    write_results(read_sheet(path), results(r2=("applied", "", None)), tmp_path / "out.xlsx")
    assert read_sheet(tmp_path / "out.xlsx").others["outcome"].tolist() == ["applied"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_copy_keeps_delimiter_mark_and_rows(tmp_path, delimiter):
    """The copy of a CSV has every row in order, also rows that cannot be read."""
    path, out = tmp_path / "pets.csv", tmp_path / "out.csv"
    lines = [
        ["title"],
        ["id", "name", "note"],
        ["1", '"a\nb"', "'=x"],
        [""],
        ["", "Rex", "y"],
        ["2", '"c" d', "z"],
        ["3", "e", "f", "g"],
    ]
    text = "\r\n".join(delimiter.join(line) for line in lines)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    sheet = read_sheet(path)
    assert sheet.frame.index.tolist() == [3, 6]
    write_results(sheet, results(r3=("applied", "-1", None), r6=("applied", "", 92)), out)
    data = out.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    text = data.decode("utf-8-sig")
    assert f'"a\nb"{delimiter}\'=x' in text
    assert f"{delimiter}'-1{delimiter}" in text
    again = read_sheet(out)
    assert again.frame["id"].tolist()[:2] == [1, 92]
    assert again.others["outcome"].tolist()[:2] == ["applied", "applied"]
    assert again.others["note"].tolist()[:2] == ["=x", "y"]
    assert "needs fixing" in text
    assert again.blocked_ids >= {3}


def test_ids_are_added_where_the_sheet_has_none(tmp_path):
    """A sheet without ids gets an id column, or the copy would add its pets again."""
    path, out = tmp_path / "pets.csv", tmp_path / "out.csv"
    path.write_text("name\nBello\nRex\n")
    write_results(read_sheet(path), results(r2=("applied", "", 7), r3=("failed", "", None)), out)
    assert read_sheet(out).frame["id"].tolist() == [7, pd.NA]


def test_a_sheet_that_changed_meanwhile_is_refused(workbook, tmp_path):
    """A sheet that changed since it was read is refused, so no result is at a wrong row."""
    sheet = read_sheet(workbook)
    book = openpyxl.load_workbook(workbook)
    book["Pets"].delete_rows(3)
    book.save(workbook)
    with pytest.raises(SheetError, match="has changed since it was read"):
        write_results(sheet, RESULTS, tmp_path / "out.xlsx")


def test_the_sheet_itself_is_never_written(workbook):
    """The input is refused as the output."""
    before = workbook.read_bytes()
    with pytest.raises(SheetError, match="this is the sheet itself"):
        write_results(read_sheet(workbook), RESULTS, workbook)
    assert workbook.read_bytes() == before


def test_results_are_a_pleasure_to_read(tmp_path):
    """The result columns have the header's style, a width and coloured outcomes, and the filter
    covers them; the frozen panes stay.
    """
    path = rich(tmp_path / "pets.xlsx")
    rows = results(r2=("applied", "", None), r5=("conflict", "x" * 90, None))
    write_results(read_sheet(path), rows, tmp_path / "out.xlsx")
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    sheet = book["Pets"]
    assert [cell.value for cell in sheet[1]][5:] == ["outcome", "message", "assigned_id", "row"]
    assert sheet["F1"].fill.fgColor.rgb == sheet["E1"].fill.fgColor.rgb == "002F5D62"
    assert sheet["F1"].font.bold
    assert [sheet.column_dimensions[name].width for name in "BFG"] == [33, 13, 90]
    fills = {sheet[f"F{row}"].fill.fgColor.rgb for row in (2, 3, 5)}
    assert len(fills) == 3
    assert sheet["F2"].number_format == "@"
    assert sheet["G5"].alignment.wrap_text
    assert sheet["C3"].fill.fgColor.rgb == "0000FF00"
    assert sheet["F3"].border.left.style == sheet["C3"].border.left.style == "thin"
    assert sheet.auto_filter.ref == "A1:I5"
    assert sheet.freeze_panes == "B2"
    assert sheet.dimensions == "A1:I5"
    name = parts(tmp_path / "out.xlsx")["xl/workbook.xml"]
    assert b"!$A$1:$I$5" in name


def test_a_long_message_is_seen_whole(tmp_path):
    """A row of an export gets the height of its message, because Excel computes none; a row that is
    higher or has a fixed height stays.
    """
    photos = ["https://shop.example/photo.jpg"] * 4
    pets = [Pet(id=n, name="Rex", status="sold") for n in range(1, 6)]
    pets[2] = replace(pets[2], photo_urls=photos)
    path = tmp_path / "pets.xlsx"
    write_sheet(frame_from_pets(pets), path, base=base_of(pets))
    fixed = b'<row r="5" customHeight="1"'
    change(path, {"sheet1.xml": lambda data: data.replace(b'<row r="5"', fixed)})
    before = openpyxl.load_workbook(path)["Pets"].row_dimensions
    long = ("failed", "words " * 40, None)
    rows = results(r2=long, r3=long, r4=long, r5=long, r6=("failed", "short", None))
    write_results(read_sheet(path), rows, tmp_path / "out.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx")["Pets"]
    heights = [sheet.row_dimensions[row].height for row in range(2, 7)]
    assert before[2].height < heights[0] == heights[1] == 41.25
    assert heights[2:] == [before[row].height for row in (4, 5, 6)]
    message = [cell.value for cell in sheet[1]].index("message")
    assert [sheet[row][message].alignment.wrap_text for row in (2, 5)] == [True, None]


def test_a_second_run_changes_the_colours_too(tmp_path):
    """An outcome has the colour of the last run; an empty outcome has none."""
    path = rich(tmp_path / "pets.xlsx")
    write_results(read_sheet(path), results(r2=("failed", "", None)), tmp_path / "one.xlsx")
    one = openpyxl.load_workbook(tmp_path / "one.xlsx")["Pets"]
    again = read_sheet(tmp_path / "one.xlsx")
    write_results(again, results(r2=("applied", "", None)), tmp_path / "two.xlsx")
    two = openpyxl.load_workbook(tmp_path / "two.xlsx")["Pets"]
    write_results(again, results(r2=("", "", None)), tmp_path / "three.xlsx")
    three = openpyxl.load_workbook(tmp_path / "three.xlsx")["Pets"]
    fills = [sheet["F2"].fill.fill_type and sheet["F2"].fill.fgColor.rgb for sheet in (one, two)]
    assert fills[0] != fills[1]
    assert None not in fills
    assert three["F2"].fill.fill_type is None
    assert two.max_column == 9


def test_a_table_object_stays_as_it_is(tmp_path):
    """New columns are beside a table, whose part and range stay unchanged."""
    path = rich(tmp_path / "pets.xlsx", table=True)
    write_results(read_sheet(path), results(r2=("applied", "", None)), tmp_path / "out.xlsx")
    old, new = parts(path), parts(tmp_path / "out.xlsx")
    assert {name for name in old if old[name] != new[name]} == {
        "xl/styles.xml",
        "xl/worksheets/sheet1.xml",
    }
    assert openpyxl.load_workbook(tmp_path / "out.xlsx")["Pets"].tables["pets"].ref == "A1:E5"


def test_hidden_columns_do_not_hide_the_results(tmp_path):
    """Of hidden columns or columns with a width to the right, only the result columns change."""
    path = rich(tmp_path / "pets.xlsx")
    cols = b'<cols><col min="1" max="2" width="9"/><col min="5" max="16384" width="3" hidden="1"/>'
    change(path, {"sheet1.xml": lambda data: re.sub(rb"<cols>.*</cols>", cols + b"</cols>", data)})
    write_results(read_sheet(path), results(r2=("applied", "", None)), tmp_path / "out.xlsx")
    found = re.search(rb"<cols>.*</cols>", parts(tmp_path / "out.xlsx")["xl/worksheets/sheet1.xml"])
    assert re.findall(rb'min="(\d+)" max="(\d+)" width="(\d+)"( hidden)?', found[0]) == [
        (b"1", b"2", b"9", b""),
        (b"5", b"5", b"3", b" hidden"),
        (b"6", b"6", b"13", b""),
        (b"7", b"7", b"90", b""),
        (b"8", b"8", b"22", b""),
        (b"9", b"9", b"8", b""),
        (b"10", b"16384", b"3", b" hidden"),
    ]


def test_a_row_that_repeats_another_is_reported(tmp_path):
    """A row that repeats another is `unchanged`, and its copy can be read."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Bello\n1,Bello\n2,Rex\n")
    sheet = read_sheet(path)
    rows = results(r2=("applied", "", None), r4=("applied", "", None))
    write_results(sheet, rows, tmp_path / "out.csv")
    again = read_sheet(tmp_path / "out.csv")
    assert again.blocked == ()
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[2].startswith('1,Bello,unchanged,"The row is the same as line 2')


def test_an_id_that_the_service_exchanged_is_replaced(tmp_path):
    """An id that the service replaced is replaced in the sheet, or the next plan would add the pet
    again.
    """
    path = plain(tmp_path / "pets.xlsx", [["id", "name"], ["7", "Rex"], [None, "Mia"]])
    rows = results(r2=("applied", "", 99), r3=("applied", "", 98))
    write_results(read_sheet(path), rows, tmp_path / "out.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    assert [sheet["A2"].value, sheet["E2"].value, sheet["A3"].value] == ["99", "99", "98"]


@pytest.mark.parametrize(
    ("outcome", "action"), [("applied", "merge"), ("unchanged", "merge"), ("conflict", "add")]
)
def test_an_add_whose_pet_exists_is_no_add_any_more(tmp_path, outcome, action):
    """An add becomes `merge` if the run added its pet or found it in the store."""
    path = plain(tmp_path / "pets.xlsx", [["id", "name", "action"], ["7", "Rex", "add"]])
    rows = results(r2=(outcome, "", None))
    write_results(read_sheet(path), rows, tmp_path / "out.xlsx")
    assert read_sheet(tmp_path / "out.xlsx").frame["action"].tolist() == [action]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_of_a_csv_every_other_byte_stays(tmp_path, end, mark):
    """The copy of a CSV is the file with cells after its records; line ends, quotes, mark, `sep=`
    line and title stay.
    """
    path = tmp_path / "pets.csv"
    old = ["sep=;", "Spring", 'id;"name"', '1;"Rex"', "", "2 ; Mia;;", '"3";"a;b"']
    path.write_bytes((mark + end.join(old)).encode())
    rows = results(r4=("applied", "", None), r6=("failed", 'say "no"', None))
    write_results(read_sheet(path), rows, tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_bytes().decode()
    assert text == mark + end.join(
        [
            "sep=;",
            "Spring",
            'id;"name";outcome;message;assigned_id;row',
            '1;"Rex";applied;;;4',
            "",
            '2 ; Mia;failed;"say ""no""";;6',
            '"3";"a;b";;;;7',
        ]
    )


def test_a_csv_that_quotes_everything_still_does(tmp_path):
    """A record that is rewritten is quoted like the file's header."""
    path = tmp_path / "pets.csv"
    path.write_text('"id","name"\n"","Rex"\n')
    write_results(read_sheet(path), results(r2=("applied", "", 7)), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == (
        '"id","name","outcome","message","assigned_id","row"\n"7","Rex","applied","","7","2"\n'
    )


def test_headers_that_only_a_mapping_explains_are_found_again(tmp_path):
    """The copy uses the delimiter and the mapping with which the sheet was read."""
    path = tmp_path / "pets.csv"
    path.write_text("Nummer;Name, kurz, so;Preis\n1;Rex;2,50\n")
    sheet = read_sheet(path, mapping={"Nummer": "id", "Name, kurz, so": "name"})
    write_results(sheet, results(r2=("applied", "", None)), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "1;Rex;2,50;applied;;;2"


def test_what_a_csv_was_exported_with_goes_with_its_copy(tmp_path):
    """The copy of a CSV gets its base, and a refused base stays refused."""
    path, out = tmp_path / "pets.csv", tmp_path / "out.csv"
    path.write_text("id,name\n1,Rex\n")
    sidecar_path(path).write_text("petsync-base 1 1 0\nAAAA\n")
    sheet = read_sheet(path)
    assert sheet.base_refused
    write_results(sheet, results(r2=("applied", "", None)), out)
    assert read_sheet(out).base_refused
    sidecar_path(path).unlink()
    write_results(read_sheet(path), results(r2=("applied", "", None)), out)
    assert not sidecar_path(out).exists()


def test_an_xlsm_keeps_its_macros(tmp_path):
    """A copy that is an .xlsm keeps the macros; an .xlsx, which cannot be opened with them, does
    not.
    """
    path = plain(tmp_path / "pets.xlsm", [["id", "name"], ["1", "Rex"]])
    add(path, **{"xl/vbaProject.bin": b"macros"})
    macro = b"application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    usual = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    link = b'<Relationship Id="rId99" Type="x/vbaProject" Target="vbaProject.bin"/>'
    change(
        path,
        {
            "Types].xml": lambda data: data.replace(usual, macro),
            "workbook.xml.rels": lambda data: data.replace(b"</R", link + b"</R"),
        },
    )
    for out, kind in ((tmp_path / "out.xlsm", macro), (tmp_path / "out.xlsx", usual)):
        write_results(read_sheet(path), results(r2=("applied", "", None)), out)
        assert kind in parts(out)["[Content_Types].xml"]
        assert ("xl/vbaProject.bin" in parts(out)) == (kind == macro)


STORE = [
    Pet(id=1, name="Rex", status="sold"),
    Pet(id=2, name="Tom", status="sold"),
    Pet(id=4, name="Mia", status="sold"),
    Pet(id=7, name="Leo", status="sold"),
]


def exported(path):
    """Return an export of pets 1, 2 and 3, of which 2 and 3 differ in STORE, with three new rows
    without an id.
    """
    old = [STORE[0], replace(STORE[1], status="pending"), Pet(id=3, name="Zoë", status="sold")]
    new = [Pet(name="Mia", status="sold"), Pet(name="Leo", status="pending"), Pet(name="New")]
    base = base_of(old)
    write_sheet(frame_from_pets([*old, *new]), path, base=base)
    return path


@pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv"])
@pytest.mark.parametrize("is_back", [True, False], ids=["back", "copy"])
def test_a_recognised_row_gets_its_pet_s_id(tmp_path, name, is_back):
    """A row that is recognised as a pet gets its id, and each unchanged row gets the reason."""
    path, out = exported(tmp_path / name), tmp_path / f"out-{name}"
    sheet = read_sheet(path)
    plan = plan_of(STORE, sheet, match_on=("name",))
    assert plan.recognised == {5: 4, 6: 7}
    report = report_on(plan)
    if is_back:
        write_back(sheet, report)
        out = path
    else:
        write_results(sheet, report, out)
    done = read_sheet(out)
    assert done.frame["id"].tolist()[:5] == [1, 2, 3, 4, 7]
    assert done.others["message"].fillna("").tolist()[:5] == [
        "the store already has these values",
        "as exported; the store has a newer value, which stays",
        "as exported; the pet has been deleted from the store since then",
        "recognised as pet 4",
        "recognised as pet 7",
    ]
    assert done.others["outcome"].tolist()[:5] == [*["unchanged"] * 4, "applied"]
    now = [*STORE[:2], replace(STORE[2], name="Mina"), replace(STORE[3], status="pending")]
    again = plan_of(now, done)
    assert [change.row for change in again.changes] == []
    assert (again.older, again.deleted_in_store, again.recognised) == ((3, 5), (4,), {})


@pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv"])
def test_the_number_of_a_category_that_was_sent_is_written(tmp_path, name):
    """The copy has the number of each category that the run sent, and later changes in the store
    conflict with none of them.
    """
    dogs, cats, fish = Category(1, "Dogs"), Category(2, "Cats"), Category(3, "Fish")
    old = [
        Pet(id=1, name="Rex", status="sold", category=dogs),
        Pet(id=2, name="Mia", status="sold", category=cats),
        Pet(id=3, name="Nemo", status="sold", category=fish),
    ]
    rows = frame_from_pets([*old, Pet(name="New", status="sold"), Pet(name="Odd", status="sold")])
    rows["category"] = ["Cats", "Cats", "Fish", "Dogs", "Birds"]
    write_sheet(rows, tmp_path / name, base=base_of(old))
    sheet = read_sheet(tmp_path / name)
    plan = plan_of(old, sheet)
    report = report_on(plan)
    write_results(sheet, report, tmp_path / f"out-{name}")
    done = read_sheet(tmp_path / f"out-{name}")
    assert done.frame["category_id"].tolist() == [2, 2, 3, 1, pd.NA]
    now = [replace(old[0], category=cats), *old[1:]]
    now += [
        replace(change.after, id=result.assigned_id)
        for change, result in zip(plan.changes, report.results, strict=True)
        if result.assigned_id is not None
    ]
    assert not plan_of(now, done).changes
    now[0] = replace(now[0], category=fish)
    later = plan_of(now, done)
    assert (later.changes, later.conflicts) == ((), ())


def test_the_number_beside_a_formula_stays(tmp_path):
    """If the worksheet has formulas, only blank numbers are written, because formulas stay."""
    dogs, cats = Category(1, "Dogs"), Category(2, "Cats")
    old = [Pet(id=1, name="Rex", status="sold", category=dogs)]
    path = tmp_path / "pets.xlsx"
    write_sheet(frame_from_pets(old), path, base=base_of([*old, Pet(id=2, category=cats)]))
    book = openpyxl.load_workbook(path)
    book["Pets"]["D2"] = "Cats"
    book["Pets"]["J1"], book["Pets"]["J2"] = "Note", "=1+1"
    book.save(path)
    sheet = read_sheet(path)
    write_results(
        sheet, report_on(plan_of([*old, Pet(id=2, category=cats)], sheet)), tmp_path / "out.xlsx"
    )
    assert read_sheet(tmp_path / "out.xlsx").frame["category_id"].tolist() == [1]


def test_ids_are_recognised_where_the_sheet_has_none(tmp_path):
    """A sheet without ids gets an id column for recognised rows; a row in conflict gets no id."""
    path, out = tmp_path / "pets.csv", tmp_path / "out.csv"
    path.write_text("name,status\nMia,sold\nRex,\n")
    sheet = read_sheet(path)
    plan = plan_of([STORE[2], STORE[0], replace(STORE[0], id=5)], sheet, match_on=("name",))
    assert (len(plan.conflicts), plan.recognised) == (1, {2: 4})
    write_results(sheet, report_on(plan), out)
    assert read_sheet(out).frame["id"].tolist() == [4, pd.NA]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inner", ["\n", "\r\n", "\r"])
def test_a_csv_row_with_a_line_break_in_a_cell_stays_one_row(tmp_path, end, inner):
    """A row that is rewritten with its new id keeps its quotes around a cell with line breaks."""
    path = tmp_path / "pets.csv"
    photos = f"https://a.example/1.jpg{inner}https://a.example/2.jpg"
    lines = ["name,status,photo_urls,id", f'New,available,"{photos}",', ""]
    path.write_bytes(end.join(lines).encode())
    sheet = read_sheet(path)
    report = report_on(plan_of([], sheet))
    write_back(sheet, report)
    again = read_sheet(path)
    assert again.findings.empty
    assert again.frame["id"].tolist() == [100]
    assert again.frame["photo_urls"].tolist() == sheet.frame["photo_urls"].tolist()


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
def test_people_s_own_columns_are_never_taken_for_results(tmp_path, name):
    """A person's column with a result's name stays, and the result columns get longer names."""
    path = tmp_path / name
    own = [["id", "name", "message", "row"], ["1", "Rex", "call back", "shelf 3"]]
    if name == "pets.csv":
        path.write_text("\n".join(map(",".join, own)), "utf-8")
    else:
        book = openpyxl.Workbook()
        for row in own:
            book.active.append(row)
        book.save(path)
    sheet = read_sheet(path)
    report = report_on(plan_of([Pet(id=1, name="Max", status="sold")], sheet))
    write_back(sheet, report)
    first = read_sheet(path)
    assert first.others.loc[2].tolist() == [
        *("call back", "shelf 3"),
        *("applied", "", "", "2"),
    ]
    assert list(first.others)[2:] == [
        f"petsync {each}" for each in ("outcome", "message", "assigned_id", "row")
    ]
    again = report_on(plan_of([Pet(id=1, name="Rex", status="sold")], first))
    write_back(first, again)
    assert list(read_sheet(path).others) == list(first.others)


def test_a_report_of_another_sheet_is_refused(workbook, tmp_path):
    """A report of another sheet is refused, as its outcomes are of other rows."""
    other = tmp_path / "other.csv"
    other.write_text("id,name\n1,Max\n", "utf-8")
    report = report_on(plan_of([Pet(id=1, name="Rex", status="sold")], read_sheet(other)))
    with pytest.raises(SheetError, match="the report is for another sheet"):
        write_results(read_sheet(workbook), report, tmp_path / "results.xlsx")


def test_a_copy_is_named_as_what_it_is(tmp_path):
    """A copy must have the kind of its sheet, so a CSV is not written with a workbook's name."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Max\n", "utf-8")
    sheet = read_sheet(path)
    report = report_on(plan_of([Pet(id=1, name="Rex", status="sold")], sheet))
    with pytest.raises(SheetError, match="same kind"):
        write_results(sheet, report, tmp_path / "results.xlsx")


def test_a_dataframe_has_no_file_to_write_into(tmp_path):
    """Each function that writes into a sheet's file or copies it says that a DataFrame has none,
    and what to do instead.
    """
    sheet = read_sheet(pd.DataFrame({"id": [1], "name": ["Rex"], "status": ["sold"]}))
    report = report_on(plan_of([Pet(id=1, name="Rex", status="sold")], sheet))
    for write in (
        lambda: annotate_sheet(sheet, tmp_path / "a.xlsx"),
        lambda: write_corrected(sheet, tmp_path / "a.xlsx"),
        lambda: write_results(sheet, report, tmp_path / "a.xlsx"),
        lambda: write_back(sheet, report),
    ):
        with pytest.raises(SheetError, match="the sheet is a DataFrame, which has no file") as said:
            write()
        assert "ps.write_sheet" in said.value.hint
    assert not [*tmp_path.iterdir()]
