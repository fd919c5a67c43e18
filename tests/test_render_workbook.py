"""Plans and reports as workbooks, read back with openpyxl."""

from __future__ import annotations

import subprocess
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from effort import growth
from openpyxl import Workbook, load_workbook
from openpyxl.cell import Cell
from openpyxl.cell.rich_text import TextBlock
from openpyxl.worksheet.worksheet import Worksheet
from render_samples import (
    ADD,
    BELLA,
    BLOCKED,
    CLASHING,
    DELETE,
    HOSTILE,
    SILENT,
    UPDATE,
    hostile_plan,
    large_plan,
    plan_with,
    replace,
    small_plan,
    small_report,
)

from petsync.errors import SheetError
from petsync.plan.change import Coverage
from petsync.plan.plan import Plan
from petsync.report import workbook
from petsync.report.workbook import LINE_HEIGHT, Tab, plan_workbook, report_workbook, write
from petsync.workbook import MarkedText


def rows(sheet: Worksheet) -> list[tuple[object, ...]]:
    """Return the values of a worksheet below its header."""
    return list(sheet.iter_rows(min_row=2, values_only=True))


def test_a_plan_as_a_workbook(tmp_path: Path) -> None:
    """The workbook of a plan has a summary, a row for each changed field, conflicts, blocked rows
    and notes.
    """
    plan_workbook(small_plan(), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    assert book.sheetnames == ["Summary", "Changes", "Conflicts", "Needs fixing", "Notes"]
    changes = rows(book["Changes"])
    assert changes[0] == ("add", None, "Mochi", "name", None, "Mochi", "Pets!A61")
    assert ("update", "17", "Bella", "status", "available", "sold", "Pets!B18") in changes
    (tags,) = [row for row in changes if row[0] == "update" and row[3] == "tags"]
    assert tags[4:6] == ("1:shy; 2:calm", "2:calm; 3:good with kids")
    assert changes[-1][:4] == ("delete", "100", "Tom", "(the pet)")
    assert changes[-1][-1] == "not in the sheet"
    assert len(changes) == 4 + 4 + 2
    assert rows(book["Conflicts"]) == [
        (
            "Pets!A12",
            *[None] * 6,
            "not decided",
            "The row matches several pets: 3, 8.",
            "Give the row its id.",
        )
    ]
    assert rows(book["Notes"]) == [("Pet 100 (Tom) would be deleted. Look twice.",)]
    assert rows(book["Needs fixing"]) == [
        (60, "Pets!C60", None, None, "petsync knows no such status.")
    ]
    facts = {row[0]: row[1:] for row in rows(book["Summary"])}
    assert facts["to change"] == (1, "name 1, status 1, tags 1, photo_urls 1")
    assert facts["in agreement"] == (870, None)
    assert facts["fingerprint"] == (None, small_plan().fingerprint)
    cure = "--max-delete 2 (in Python max_delete=2) would allow it."
    assert facts["guard refuses"][1].endswith(cure)


def test_a_conflict_has_a_row_for_each_field(tmp_path: Path) -> None:
    """A conflict has a row for each field, with the values of export, sheet and store, and the
    winner.
    """
    plan = plan_with(
        UPDATE, conflicts=(replace(CLASHING, name="Bella"),), base="2026-11-19T08:00:00Z"
    )
    plan_workbook(plan, tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    name, status = rows(book["Conflicts"])
    assert name[:8] == ("Pets!B18", "17", "Bella", "name", "Bella", "Bela", "Bellina", "store")
    assert status[3:8] == ("status", "sold", "pending", "(empty)", "store")
    facts = {row[0]: row[2] for row in rows(book["Summary"])}
    assert facts["who wins"].startswith("The store, if both changed")
    assert "--on-conflict sheet" in facts["who wins"]


def test_a_query_without_an_answer_is_in_the_summary(tmp_path: Path) -> None:
    """A failed query is in the summary with its error, marked in red."""
    book = saved(plan_with(coverage=Coverage(("available",), (SILENT,))), tmp_path)
    text = {row[0]: row[2] for row in rows(book["Summary"])}["no answer"]
    assert text.startswith("status sold: findPetsByStatus: the service answered 503.")
    rules = [rule for area in book["Summary"].conditional_formatting for rule in area.rules]
    (red,) = [rule for rule in rules if rule.formula == ['$A2="no answer"']]
    assert red.dxf.fill.bgColor.rgb == "00FBE3E1"


def saved(plan: Plan, folder: Path) -> Workbook:
    """Return the plan's workbook, read back with its formats."""
    plan_workbook(plan, folder / "plan.xlsx")
    return load_workbook(folder / "plan.xlsx", rich_text=True)


def parts(cell: Cell) -> list[tuple[str, str]]:
    """Return the marked parts of a cell: each text with its kind of mark."""
    blocks = [each for each in cell.value if isinstance(each, TextBlock)]
    hows = {True: "struck red", False: "bold green"}
    colours = {"struck red": "FFB3261E", "bold green": "FF1B6E2E"}
    for block in blocks:
        assert block.font.color.rgb == colours[hows[bool(block.font.strike)]]
        assert bool(block.font.b) is not bool(block.font.strike)
    return [(block.text, hows[bool(block.font.strike)]) for block in blocks]


def test_changed_characters_are_marked(tmp_path: Path) -> None:
    """Removed text is struck through in red, added text is bold and green, and the cell's text is
    complete.
    """
    sheet = saved(small_plan(), tmp_path)["Changes"]
    cells = {row[3].value: row[4:6] for row in sheet.iter_rows(min_row=6, max_row=9)}
    assert parts(cells["name"][0]) == [("l", "struck red")]
    assert str(cells["name"][0].value) == "Bella"
    assert cells["name"][1].value == "Bela"
    assert parts(cells["status"][0]) == [("available", "struck red")]
    assert parts(cells["status"][1]) == [("sold", "bold green")]
    assert parts(cells["tags"][0]) == [("1:shy", "struck red")]
    assert parts(cells["tags"][1]) == [("3:good with kids", "bold green")]
    assert parts(cells["photo_urls"][1]) == [("/2.png", "bold green")]


def test_photos_in_another_order_are_marked(tmp_path: Path) -> None:
    """In a reordered list the moved items are marked."""
    before = replace(BELLA, photo_urls=("/1", "/2", "/3"))
    after = replace(BELLA, photo_urls=("/3", "/1", "/2"))
    change = replace(UPDATE, fields=("photo_urls",), before=before, after=after)
    sheet = saved(plan_with(change), tmp_path)["Changes"]
    assert parts(sheet["E2"]) == [("/3", "struck red")]
    assert parts(sheet["F2"]) == [("/3", "bold green")]


def test_a_new_pet_and_a_deleted_one_are_not_marked(tmp_path: Path) -> None:
    """The values of an added and of a deleted pet are not marked."""
    sheet = saved(plan_with(ADD, DELETE), tmp_path)["Changes"]
    values = [cell.value for row in sheet.iter_rows(min_row=2) for cell in row[4:6]]
    assert {type(value) for value in values} == {str, type(None)}


def test_a_long_text_is_marked_as_a_whole(tmp_path: Path) -> None:
    """A very long name is marked without a comparison of its words, and is cut to the limit of a
    cell.
    """

    def written(words: int) -> Workbook:
        before, after = ("word " * words + end for end in ("one", "two"))
        change = replace(UPDATE, fields=("name",), before=replace(BELLA, name=before))
        return saved(plan_with(replace(change, after=replace(BELLA, name=after))), tmp_path)

    assert growth(written, 5_000) < 1.5
    value = written(5_000)["Changes"]["E2"].value
    assert str(value).startswith("word word")
    assert len(str(value)) <= 16_003


def test_characters_that_xml_lacks_make_no_cell_too_long(tmp_path: Path) -> None:
    """A text of characters that are shown by their numbers is cut like any other."""
    write(tmp_path / "a.xlsx", [Tab("T", {"A": 10}, [["\uffff" * 5_000]])])
    text = load_workbook(tmp_path / "a.xlsx")["T"]["A2"].value
    assert isinstance(text, str)
    assert text.startswith("[U+FFFF][U+FFFF]")
    assert text.endswith("...")


def test_each_sheet_can_be_printed(tmp_path: Path) -> None:
    """Every worksheet prints in landscape, one page wide, with its header on each page."""
    for sheet in saved(small_plan(), tmp_path):
        assert sheet.page_setup.orientation == "landscape"
        assert (sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight) == (1, 0)
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        assert sheet.print_title_rows == "$1:$1"


def test_long_text_wraps_and_is_seen(tmp_path: Path) -> None:
    """Long text wraps in its column, and its row has the height for that in any program."""
    name = "The very good boy who lives down the lane and barks at nobody " * 2
    sheet = saved(plan_with(replace(ADD, after=replace(BELLA, name=name))), tmp_path)["Changes"]
    assert sheet["F2"].alignment.wrap_text
    assert sheet.row_dimensions[2].height >= 40
    plain = saved(plan_with(ADD), tmp_path)["Changes"]
    assert plain.row_dimensions[2].height is None


def test_addresses_take_the_lines_that_they_need(tmp_path: Path) -> None:
    """A row of photo addresses has exactly the height that they need."""
    address = "https://images.petshop.example/pets/17/photo-1-large-version-of-it.jpg"
    photos = tuple(f"{address}?{n}" for n in range(4))
    change = replace(UPDATE, fields=("photo_urls",), after=replace(BELLA, photo_urls=photos))
    sheet = saved(plan_with(change), tmp_path)["Changes"]
    assert sheet.row_dimensions[2].height == 8 * LINE_HEIGHT


def test_an_emptied_field_says_so(tmp_path: Path) -> None:
    """A field that an update empties or fills is shown as (empty) in italics, and a new pet's empty
    fields stay blank.
    """
    bare = replace(BELLA, category=None)
    change = replace(UPDATE, fields=("category",), after=bare)
    back = replace(change, before=bare, after=BELLA)
    plan_workbook(plan_with(ADD, change, back), tmp_path / "plan.xlsx")
    sheet = load_workbook(tmp_path / "plan.xlsx", rich_text=True)["Changes"]
    (gone, come) = (sheet[f"F{sheet.max_row - 1}"].value, sheet[f"E{sheet.max_row}"].value)
    assert str(gone) == str(come) == "(empty)"
    assert gone[0].font.i
    assert come[0].font.i
    assert sheet["E2"].value is None


def test_a_blocked_row_names_its_pet(tmp_path: Path) -> None:
    """A blocked row has the id and the name of its pet in their own columns."""
    blocked = replace(BLOCKED, pet_id=17, name="Bella")
    book = saved(plan_with(blocked=(blocked,)), tmp_path)
    assert rows(book["Needs fixing"])[0][:4] == (60, "Pets!C60", "17", "Bella")


def test_excel_gets_ids_as_text(tmp_path: Path) -> None:
    """Excel does not flag an id as a number stored as text."""
    plan_workbook(small_plan(), tmp_path / "plan.xlsx")
    with zipfile.ZipFile(tmp_path / "plan.xlsx") as archive:
        xml = archive.read("xl/worksheets/sheet2.xml").decode()
    assert '<ignoredError sqref="A2:Z1048576" numberStoredAsText="1"' in xml
    assert xml.index("<headerFooter") < xml.index("<ignoredErrors")


@pytest.mark.slow
@pytest.mark.office
def test_libreoffice_opens_it(tmp_path: Path) -> None:
    """LibreOffice reads the workbook with hostile names as it was written."""
    name = '=HYPERLINK("http://x.example")'
    looks_escaped = replace(ADD, after=replace(BELLA, name="_x0041_ & <b> \uffff"))
    plan = hostile_plan(name)
    plan = replace(plan, changes=(*plan.changes, looks_escaped))
    plan_workbook(plan, tmp_path / "plan.xlsx")
    convert = ["--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,,,2"]
    home = f"-env:UserInstallation=file://{tmp_path}/home"
    command = ["soffice", home, "--headless", *convert, "--outdir", str(tmp_path), "plan.xlsx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=100)
    (made,) = tmp_path.glob("*.csv")
    text = made.read_text("utf-8")
    assert text.startswith("Change,Id,Pet,Field,Before,After,Where\n")
    assert '"=HYPERLINK(""http://x.example"")"' in text
    assert "_x0041_ & <b> [U+FFFF]" in text


def test_the_changes_can_be_worked_with(tmp_path: Path) -> None:
    """The header is frozen, every column has a filter and a width, and each kind of change has its
    colour.
    """
    plan_workbook(small_plan(), tmp_path / "plan.xlsx")
    sheet = load_workbook(tmp_path / "plan.xlsx")["Changes"]
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == "A1:G11"
    assert sheet.column_dimensions["F"].width == 42
    formulas = {r.formula[0] for rules in sheet.conditional_formatting for r in rules.rules}
    assert {'$A2="add"', '$A2="update"', '$A2="delete"'} <= formulas


def test_ids_are_exact(tmp_path: Path) -> None:
    """The largest id is read back with all digits, as text."""
    big = replace(UPDATE, before=replace(BELLA, id=2**63 - 1))
    plan_workbook(plan_with(big), tmp_path / "plan.xlsx")
    cell = load_workbook(tmp_path / "plan.xlsx")["Changes"]["B2"]
    assert (cell.value, cell.data_type) == ("9223372036854775807", "s")


@pytest.mark.parametrize(
    "name", [*HOSTILE, "=1+1", "+1", "-1", "@x", "#N/A", "#REF!", "a\ufffe\uffff", "_x0041_"]
)
def test_no_name_becomes_a_formula(tmp_path: Path, name: str) -> None:
    """With any names, the workbook opens, and every cell is text or an integer."""
    plan_workbook(hostile_plan(name), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells if cell.value is not None} <= {"s", "n"}
    assert all(
        isinstance(cell.value, int) for cell in cells if cell.data_type == "n" and cell.value
    )
    assert all(len(str(cell.value)) <= 32_767 for cell in cells)


def test_a_name_like_a_formula_is_kept(tmp_path: Path) -> None:
    """A name like a formula is unchanged, and its cell is marked as text for later edits."""
    plan_workbook(plan_with(replace(ADD, after=replace(BELLA, name="=1+1"))), tmp_path / "p.xlsx")
    cell = load_workbook(tmp_path / "p.xlsx")["Changes"]["C2"]
    assert cell.value == "=1+1"
    assert cell.quotePrefix


def test_more_rows_than_fit_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that do not fit into one worksheet continue in the next, and none is lost."""
    monkeypatch.setattr(workbook, "_MAX_ROWS", 5)
    plan_workbook(large_plan(3), tmp_path / "plan.xlsx")
    book = load_workbook(tmp_path / "plan.xlsx")
    pages = [name for name in book.sheetnames if name.startswith("Changes")]
    assert pages == ["Changes", "Changes 2", "Changes 3"]
    assert [len(rows(book[name])) for name in pages] == [5, 5, 2]


def test_a_report_as_a_workbook(tmp_path: Path) -> None:
    """The workbook of a report has the totals and a row for each result, the most urgent first,
    with its cause, its cure and the assigned id.
    """
    report_workbook(small_report(), tmp_path / "report.xlsx")
    book = load_workbook(tmp_path / "report.xlsx")
    results = rows(book["Results"])
    assert [row[0] for row in results] == ["failed", "unknown", "conflict", "not sent", "applied"]
    assert results[0][1] == "service-error"
    assert results[0][-2] == "updatePet: the service answered 503"
    assert "`petsync resume 20261120-093100-4f2a`" in results[0][-1]
    assert results[2][:6] == ("conflict", "from-plan", None, None, None, None)
    assert results[4][:6] == ("applied", None, "add", None, "1201", "Mochi")
    assert results[4][-1] is None
    lines = rows(book["Summary"])
    counts = {name: number for what, number, name in lines if what == "rows"}
    assert counts.pop("in all") == sum(counts.values()) == 878
    groups = {what: (number, text) for what, number, text in lines if what in counts}
    assert groups["failed"][0] == 1
    assert groups["failed"][1].startswith("An error in the service. The service reported")
    assert groups["failed"][1].endswith("tries them once more.")
    assert "applied" not in groups


def test_a_workbook_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write leaves the existing file unchanged, and no other file."""
    path = tmp_path / "plan.xlsx"
    path.write_bytes(b"as it was")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SheetError, match=r"plan\.xlsx cannot be written: No space left"):
        plan_workbook(small_plan(), path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("plan.xlsx", b"as it was")]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A path that cannot be written is an error with the path and a hint."""
    with pytest.raises(SheetError, match="nowhere") as caught:
        plan_workbook(small_plan(), tmp_path / "nowhere" / "plan.xlsx")
    assert "folder" in caught.value.hint


@pytest.mark.slow
def test_many_rows_cost_time_and_no_memory(tmp_path: Path) -> None:
    """Of twenty thousand rows only a few are in memory at a time, and the time is linear."""
    texts = [MarkedText([("Bel", False), ("l", True), ("a", False)], "removed"), "Bela", "Pets!B18"]

    def written(count: int) -> None:
        rows = (["update", str(n), *texts] for n in range(count))
        write(tmp_path / "plan.xlsx", [Tab("Changes", dict.fromkeys("ABCDE", 9), rows)])

    assert growth(written, 500) < 5
    tracemalloc.start()
    written(20_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    with zipfile.ZipFile(tmp_path / "plan.xlsx") as archive:
        xml = archive.read("xl/worksheets/sheet1.xml")
    assert xml.count(b"<row ") == 20_001
    assert b'<dimension ref="A1:E20001"' in xml
