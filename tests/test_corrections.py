"""Corrections: a cell is read with a given text, each use is reported, and the file is
unchanged.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sheetmaking import csv_of, list_findings, sheet_of, workbook_of
from times import times

import petsync as ps
from petsync.apply.planfile import load_plan, save_plan
from petsync.errors import SheetError
from petsync.sheets import annotate_sheet, read_sheet, write_back, write_corrected, write_results
from petsync.sheets.read import sheet_of as sheet_of_plan
from petsync.table.sheet import Sheet

pytestmark = pytest.mark.slow

HEADER = ["id", "name", "status", "category", "tags", "photo_urls", "action"]
MESSY = [
    HEADER,
    ["7.0", "Rex", "Sold ", "Dogs", "calm;;shy;", "https://a.example/1.jpg", ""],
    ["8", "Zoe", "availabel", "n/a", "calm; calm", "", "remove"],
    ["\u00a09", "Mia", "pending", "Cats", "\u00a0calm;\u00a0shy", "", ""],
    ["1,234", "Tom", "avai\u200blable", "Cats", "calm | shy", "htps://a.example/2.jpg", "delet"],
]


@pytest.fixture
def store() -> Iterator[ps.Store]:
    """Yield the embedded store with its 1,240 pets."""
    with ps.demo() as demo:
        yield demo


@pytest.mark.parametrize("address", ["Pets!C3", "C3", "$C$3", " Pets!c3 "])
def test_a_cell_of_a_workbook_is_read_as_it_is_corrected(tmp_path: Path, address: str) -> None:
    """A corrected row is checked again with the new text; the sheet lists the correction, and the
    file is unchanged.
    """
    sheet_of(tmp_path, MESSY[:3])
    before = (tmp_path / "pets.xlsx").read_bytes()
    sheet = read_sheet(tmp_path / "pets.xlsx", corrections={address: "available"})
    assert ("Pets!C3", "unknown-status") not in list_findings(sheet)
    (made,) = sheet.corrections
    assert made == ps.types.Correction(
        address="Pets!C3", row=3, column="status", before="availabel", after="available"
    )
    assert (tmp_path / "pets.xlsx").read_bytes() == before


def test_a_cell_of_a_csv_is_read_as_it_is_corrected(tmp_path: Path) -> None:
    """A CSV cell is corrected at the address that findings use; an empty text makes the
    cell blank.
    """
    text = "id,name,status\n1,Rex,solld\n2,Mia,avail\n"
    sheet = csv_of(
        tmp_path,
        text,
        corrections={"line 2, column 3": "sold", "Line 3, Column 3": ""},
    )
    assert not sheet.problems
    assert sheet.frame["status"].tolist()[0] == "sold"
    assert sheet.frame["status"].isna().tolist() == [False, True]
    assert [each.address for each in sheet.corrections] == ["line 2, column 3", "line 3, column 3"]


def test_equal_cells_are_corrected_at_once(tmp_path: Path, store: ps.Store) -> None:
    """A column with a text stands for all its cells with the text; an address has priority. The
    plan has the corrections cell by cell.
    """
    rows = [["id", "name", "Zustand"], *([n, f"P{n}", "reserved"] for n in range(1, 201))]
    rows += [[201, "Q", " Reserved "], [202, "reserved", "sold"]]
    sheet_of(tmp_path, rows, mapping={"Zustand": "status"})
    sheet = store.read(
        tmp_path / "pets.xlsx",
        mapping={"Zustand": "status"},
        corrections={"status:reserved": "pending", "Pets!C3": "sold"},
    )
    assert not sheet.problems
    assert sheet.frame["status"].value_counts().to_dict() == {"pending": 200, "sold": 2}
    assert sheet.frame["name"].iloc[-1] == "reserved"
    assert len(sheet.corrections) == 201
    plan = store.plan(sheet)
    assert {each.address for each in plan.corrections} == {f"Pets!C{n}" for n in range(2, 203)}
    assert sheet_of_plan(plan) is not None


@pytest.mark.parametrize("key", ["status:sold", "status:", "state:solld", "others:solld"])
def test_a_text_that_no_cell_has_is_refused(tmp_path: Path, key: str) -> None:
    """A text that no cell of the column has, and an unknown column, are errors."""
    with pytest.raises(SheetError, match=f"a correction cannot be made: '?{key}"):
        csv_of(tmp_path, "id,name,status\n1,Rex,solld\n", corrections={key: "pending"})


def test_a_worksheets_name_with_quotes_is_an_address(tmp_path: Path) -> None:
    """The address of a finding in a worksheet with a quote in its name can be corrected."""
    book = workbook_of([["id", "name", "status"], [1, "Rex", "solld"]])
    book.active.title = "It's ours"
    book.save(tmp_path / "pets.xlsx")
    address = read_sheet(tmp_path / "pets.xlsx").problems[-1].address
    sheet = read_sheet(tmp_path / "pets.xlsx", corrections={address: "sold"})
    assert sheet.frame["status"].tolist() == ["sold"]


def test_what_is_no_text_becomes_text(tmp_path: Path) -> None:
    """A corrected number, date or error becomes a text, even with the same characters."""
    rows = [["id", "name", "status"], ["1", 7, "sold"], ["2", dt.date(2026, 5, 1), "sold"]]
    sheet = sheet_of(tmp_path, rows)
    assert [rule for _, rule in list_findings(sheet)] == [
        "number-instead-of-text",
        "date-instead-of-text",
    ]
    fixed = read_sheet(tmp_path / "pets.xlsx", corrections={"B2": "7", "B3": "May 1"})
    assert not fixed.problems
    assert fixed.frame["name"].tolist() == ["7", "May 1"]
    assert [each.before for each in fixed.corrections] == ["7", "2026-05-01"]


def test_what_stands_there_already_is_no_correction(tmp_path: Path) -> None:
    """A correction to the same text is not listed."""
    sheet = csv_of(tmp_path, "id,name\n1,Rex\n", corrections={"line 2, column 2": "Rex"})
    assert sheet.corrections == ()


def test_a_text_like_a_formula_or_an_error_is_a_text(tmp_path: Path) -> None:
    """A corrected text is never read as a formula or an error value."""
    for text in ("=1+1", "#N/A", "+x", "'=x"):
        sheet = csv_of(tmp_path, "id,name\n1,Rex\n", corrections={"line 2, column 2": text})
        assert sheet.frame["name"].tolist() == [text]
        assert not [each for each in sheet.problems if each.severity == "error"]
        write_corrected(sheet, tmp_path / "copy.csv")
        assert read_sheet(tmp_path / "copy.csv").frame["name"].tolist() == [text]


@pytest.mark.parametrize(
    ("corrections", "message"),
    [
        ({"Z9": "x"}, "Z9: there is no such cell"),
        ({"C99": "x"}, "C99: there is no such cell"),
        ({"B1": "x"}, "B1: this is a header"),
        ({"Notes!B2": "x"}, "petsync reads only the worksheet 'Pets'"),
        ({"line 2, column 2": "x"}, "is not an address"),
        ({"B2": "\ud800"}, "half of a surrogate pair"),
        ({"B2": "x", "Pets!B2": "y"}, "corrected twice"),
    ],
)
def test_what_cannot_be_corrected_is_refused(
    tmp_path: Path, corrections: dict[Any, Any], message: str
) -> None:
    """An impossible correction is refused before anything is read, and the existing
    cells are named.
    """
    sheet_of(tmp_path, MESSY)
    with pytest.raises(SheetError, match="a correction cannot be made") as refused:
        read_sheet(tmp_path / "pets.xlsx", corrections=corrections)
    assert message in refused.value.message
    assert "The sheet's rows are 2 to 5, its columns A, B, C" in refused.value.hint


def test_all_refused_addresses_are_named_at_once(tmp_path: Path) -> None:
    """All refused addresses are in one message."""
    sheet_of(tmp_path, MESSY)
    with pytest.raises(SheetError) as refused:
        read_sheet(tmp_path / "pets.xlsx", corrections={f"Z{n}": "x" for n in range(20, 30)})
    assert "Z20" in refused.value.message
    assert "and 5 more" in refused.value.message


def test_a_row_that_cannot_be_taken_apart_is_not_corrected(tmp_path: Path) -> None:
    """A row that cannot be split into cells is not corrected, because its columns may be wrong."""
    text = "id,name\n1,Rex,x\n2,Mia\n"
    with pytest.raises(SheetError, match="its row has the error ragged-row; fix it in the file"):
        csv_of(tmp_path, text, corrections={"line 2, column 2": "x"})


def test_a_row_with_a_cell_that_is_too_long_is_not_corrected(tmp_path: Path) -> None:
    """The refusal names the error of the row, whose cells can be split. A correction that is too
    long is an error of its cell, and is in no copy.
    """
    sheet_of(tmp_path, MESSY)
    sheet = read_sheet(tmp_path / "pets.xlsx", corrections={"B2": "x" * 40_000, "B3": "Mia"})
    found = [each for each in sheet.problems if each.severity == "error" and each.column == "name"]
    assert [(each.rule, each.address) for each in found] == [("cell-long", "Pets!B2")]
    assert [(each.address, len(each.after)) for each in sheet.corrections] == [
        ("Pets!B2", 40_000),
        ("Pets!B3", 3),
    ]
    with pytest.raises(SheetError, match=r"Pets!B2: the text of 40,000 characters is too long"):
        write_corrected(sheet, tmp_path / "copy.xlsx")
    annotate_sheet(sheet, tmp_path / "marked.xlsx")
    cells = openpyxl.load_workbook(tmp_path / "marked.xlsx")["Pets"]
    assert [cells["B2"].value, cells["B3"].value] == ["Rex", "Mia"]
    text = f"id,name\n1,{'x' * 140_000}\n"
    with pytest.raises(SheetError, match="its row has the error cell-long"):
        csv_of(tmp_path, text, corrections={"line 2, column 2": "x"})


def test_a_cell_without_a_header_is_not_corrected(tmp_path: Path) -> None:
    """A cell in a column without a header exists, but has no column to correct."""
    with pytest.raises(SheetError, match="line 2, column 2: its column has no header"):
        csv_of(tmp_path, "id,,name\n1,x,Rex\n", corrections={"line 2, column 2": "y"})


def test_what_is_suggested_is_sure_or_a_guess(tmp_path: Path) -> None:
    """A suggestion is sure if it changes only the spelling, and a guess if it changes the value."""
    sheet = sheet_of(tmp_path, MESSY)
    assert {(each.address, each.after): each.is_sure for each in sheet.suggestions} == {
        ("Pets!A2", "7"): True,
        ("Pets!C2", "sold"): True,
        ("Pets!E2", "calm; shy"): True,
        ("Pets!C3", "available"): False,
        ("Pets!D3", ""): False,
        ("Pets!E3", "calm"): True,
        ("Pets!G3", "delete"): False,
        ("Pets!A4", "9"): True,
        ("Pets!E4", "calm; shy"): True,
        ("Pets!A5", "1234"): False,
        ("Pets!C5", "available"): False,
        ("Pets!E5", "calm; shy"): False,
        ("Pets!F5", "https://a.example/2.jpg"): False,
        ("Pets!G5", "delete"): False,
    }
    assert set(sheet.suggested_corrections()) < set(sheet.suggested_corrections(guesses=True))


def test_with_all_suggestions_nothing_is_left_to_say(tmp_path: Path) -> None:
    """With all suggestions applied, no finding is left."""
    sheet = sheet_of(tmp_path, MESSY)
    fixed = read_sheet(
        tmp_path / "pets.xlsx", corrections=sheet.suggested_corrections(guesses=True)
    )
    assert not fixed.problems
    assert not fixed.suggestions


def test_the_marker_is_never_suggested(tmp_path: Path) -> None:
    """A tag with the name of the marker [clear] keeps its quotes in a suggestion, or it would clear
    the field.
    """
    sheet = csv_of(tmp_path, 'id,tags\n1,"""[clear]""; ""[clear]"""\n2,"a; ""[CLEAR]"";;"\n')
    suggested = sheet.suggested_corrections(guesses=True)
    again = csv_of(tmp_path, (tmp_path / "pets.csv").read_text(), corrections=suggested)
    names = [[tag.name for tag in tags] for tags in again.frame["tags"]]
    assert names == [["[clear]"], ["a", "[CLEAR]"]]


def test_what_empties_a_field_is_no_blank_cell(tmp_path: Path) -> None:
    """A lone semicolon clears the tags, and a blank cell, which would keep them, is not
    suggested.
    """
    sheet = csv_of(tmp_path, "id,tags\n1,;\n")
    assert sheet.frame["tags"].tolist() == [[]]
    assert list_findings(sheet) == [("line 2, column 2", "tags-separators")]
    assert not sheet.suggestions


TEXTS = st.text(
    st.sampled_from("ab1 7.,;|'\"=+-@\t\n\r\u00a0é\u200b[clear]#N/A\0"), max_size=12
) | st.sampled_from(["[clear]", "'[clear]", "", "Sold", "=1", "#N/A", "'#N/A", "'=x", "1.0"])
STATUSES = st.sampled_from(["sold", " Sold", "PENDING\u00a0", "availabel", "", "[clear]"])
TAGS = st.lists(
    st.sampled_from(["calm", "shy", " calm", "", "\u00a0shy", '"a;b"', "7:x", "n/a"]), max_size=4
).map(";".join)
IDS = ["{}", "{}.0", "+{}", "00{}", "\u00a0{}", " {} "]


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    """Draw the rows of a messy sheet in which each id is there once."""
    count = draw(st.integers(1, 5))
    return [["id", "name", "status", "tags"]] + [
        [
            draw(st.sampled_from(IDS)).format(number),
            draw(st.sampled_from(["Rex", "Mia ", "Zoe\u0301"])),
            draw(STATUSES),
            draw(TAGS),
        ]
        for number in range(1, count + 1)
    ]


def _read_cells(sheet: Sheet) -> list[Any]:
    frame = sheet.frame.astype(object).where(sheet.frame.notna(), None)
    return [list(frame.columns), frame.to_numpy().tolist(), frame.index.tolist(), sheet.blocked]


LAWS = settings(
    max_examples=times(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _csv(tmp_path: Path, rows: list[list[str]]) -> Path:
    from petsync.sheets.write import csv_bytes

    path = tmp_path / "law.csv"
    path.write_bytes(csv_bytes(rows))
    return path


@LAWS
@given(tables(), st.sampled_from(["csv", "xlsx"]))
def test_sure_corrections_change_nothing_that_the_sheet_says(
    tmp_path: Path, rows: list[list[str]], kind: str
) -> None:
    """With all sure corrections, a sheet has the same values, and no sure suggestion is left."""
    path = tmp_path / "law.xlsx"
    if kind == "csv":
        path = _csv(tmp_path, rows)
    else:
        workbook_of(rows).save(path)
    sheet = read_sheet(path)
    fixed = read_sheet(path, corrections=sheet.suggested_corrections())
    assert _read_cells(fixed) == _read_cells(sheet)
    assert not fixed.suggested_corrections()
    assert fixed.errors == sheet.errors


@LAWS
@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4),
    st.dictionaries(st.tuples(st.integers(0, 3), st.integers(1, 3)), TEXTS, max_size=4),
    st.sampled_from(["csv", "xlsx"]),
)
def test_a_corrected_copy_reads_as_the_corrected_sheet(
    tmp_path: Path,
    cells: list[tuple[str, str, str]],
    chosen: dict[tuple[int, int], str],
    kind: str,
) -> None:
    """A corrected copy has the same values and findings as the corrected sheet."""
    rows = [["id", "name", "status", "tags"]]
    rows += [[str(n), *row] for n, row in enumerate(cells, 1)]
    if kind == "csv":
        path = _csv(tmp_path, rows)
    else:
        path = tmp_path / "law.xlsx"
        workbook_of([[_plain(text) for text in row] for row in rows]).save(path)
    before = read_sheet(path)
    lines = before.frame.index.tolist() + list(before.blocked)
    corrections = {
        before.address(sorted(lines)[row], ["id", "name", "status", "tags"][column]): text
        for (row, column), text in chosen.items()
        if row < len(lines)
    }
    sheet = read_sheet(path, corrections=corrections)
    copy = path.with_name(f"copy.{kind}")
    copy.unlink(missing_ok=True)
    original = path.read_bytes()
    write_corrected(sheet, copy)
    again = read_sheet(copy)
    assert path.read_bytes() == original
    assert again.corrections == ()
    assert _values(again) == _values(sheet)
    assert [(p.rule, p.value, p.column) for p in again.problems] == [
        (p.rule, p.value, p.column) for p in sheet.problems
    ]


def _plain(text: str) -> str:
    return openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("", text).removeprefix("=")


def _values(sheet: Sheet) -> list[Any]:
    frame = sheet.frame.astype(object).where(sheet.frame.notna(), None)
    return frame.to_numpy().tolist()


@LAWS
@given(st.dictionaries(st.sampled_from(["B2", "C3", "E5", "A4"]), TEXTS, max_size=4))
def test_corrections_in_two_steps_are_those_in_one(
    tmp_path: Path, corrections: dict[str, str]
) -> None:
    """Corrections in two steps give the same sheet as all of them at once."""
    path = tmp_path / "pets.xlsx"
    if not path.exists():
        workbook_of(MESSY).save(path)
    with ps.connect("http://127.0.0.1:9/v2") as store:
        first = dict(list(corrections.items())[:2])
        rest = dict(list(corrections.items())[2:])
        stepwise = store.read(store.read(path, corrections=first), corrections=rest)
        at_once = store.read(path, corrections=corrections)
    assert stepwise.corrections == at_once.corrections
    assert stepwise.problems == at_once.problems
    assert _read_cells(stepwise) == _read_cells(at_once)


def test_a_file_that_changed_is_not_corrected_further(store: ps.Store, tmp_path: Path) -> None:
    """A sheet whose file changed since it was read is not corrected."""
    sheet = csv_of(tmp_path, "id,name,status\n1,Rex,solld\n")
    (tmp_path / "pets.csv").write_bytes(b"id,name,status\n1,Tom,solld\n")
    with pytest.raises(SheetError, match="changed since it was read"):
        store.read(sheet, corrections={"line 2, column 3": "sold"})


def test_a_data_frame_is_corrected_in_itself(store: ps.Store) -> None:
    """A DataFrame has no file, so a correction by address is refused."""
    frame = store.find_by_status("sold")
    for sheet in (frame, store.read(frame)):
        with pytest.raises(SheetError, match="a DataFrame has no file, so corrections"):
            store.read(sheet, corrections={"B2": "x"})


def test_plan_and_report_tell_of_every_correction(store: ps.Store, tmp_path: Path) -> None:
    """Sheet, plan and report show which cells were corrected, also after the plan is saved."""
    path = tmp_path / "pets.xlsx"
    workbook_of([["id", "name", "status"], ["1002", "Rex", "solld"]]).save(path)
    sheet = store.read(path, corrections={"C2": "sold"})
    plan = store.plan(sheet)
    report = store.apply(plan)
    for shown in (sheet, plan, report):
        assert "1 cell, but not in the file: Pets!C2" in str(shown)
        assert "not in the file: Pets!C2" in shown._repr_html_()
    assert "Pets!C2: corrected to 'sold'; the file has 'solld'." in plan.notes
    assert plan.corrections == sheet.corrections
    saved = load_plan(save_plan(plan, tmp_path / "plan.json"))
    assert saved.corrections == sheet.corrections
    again = sheet_of_plan(saved, statuses=("available", "pending", "sold"))
    assert again is not None
    assert again.corrections == sheet.corrections


def test_results_are_written_with_what_was_applied(store: ps.Store, tmp_path: Path) -> None:
    """A results copy and a write-back have the corrected text that was applied."""
    path = tmp_path / "pets.xlsx"
    workbook_of([["id", "name", "status"], ["1002", "Rex", "solld"]]).save(path)
    sheet = store.read(path, corrections={"C2": "sold"})
    report = store.apply(store.plan(sheet))
    write_results(sheet, report, tmp_path / "results.xlsx")
    assert read_sheet(tmp_path / "results.xlsx").frame["status"].tolist() == ["sold"]
    assert read_sheet(path).errors == 1
    backup = write_back(sheet, report)
    assert read_sheet(path).frame["status"].tolist() == ["sold"]
    assert read_sheet(backup).errors == 1


def test_results_have_a_value_in_place_of_a_formula(store: ps.Store, tmp_path: Path) -> None:
    """In the results, a corrected formula is a value, so that they can be applied again; a formula
    shared with other cells stays, as does every formula without a correction.
    """
    book = workbook_of([["id", "name", "status", "Price"]])
    book.active.append(["1002", "=PROPER(A2)", "sold", "=1+1"])
    book.active.append(["1003", None, "sold", ""])
    shared = openpyxl.worksheet.formula.ArrayFormula("B3:B4", "=A3:A4")
    book.active["B3"] = shared
    book.save(tmp_path / "pets.xlsx")
    sheet = store.read(tmp_path / "pets.xlsx", corrections={"B2": "Rex", "B3": "Mia"})
    write_results(sheet, store.apply(store.plan(sheet)), tmp_path / "results.xlsx")
    cells = openpyxl.load_workbook(tmp_path / "results.xlsx")["Pets"]
    assert (cells["B2"].value, cells["D2"].value) == ("Rex", "=1+1")
    assert cells["B3"].value.ref == "B3:B4"


class TestCopy:
    """Corrected copies by `write_corrected`."""

    def test_all_else_stays(self, tmp_path: Path) -> None:
        """Other worksheets, formats and cells of a workbook are unchanged in the copy."""
        source = ps.sample_data() / "catalogue_edited.xlsx"
        sheet = read_sheet(source)
        fixed = read_sheet(source, corrections=sheet.suggested_corrections(guesses=True))
        assert write_corrected(fixed, tmp_path / "fixed.xlsx") is None
        again = read_sheet(tmp_path / "fixed.xlsx")
        assert again.problems == fixed.problems
        assert again.frame.astype(str).equals(fixed.frame.astype(str))
        assert again.tabs == sheet.tabs
        before, after = (
            {
                cell.coordinate: cell.value
                for row in openpyxl.load_workbook(each)["Pets"].iter_rows()
                for cell in row
            }
            for each in (source, tmp_path / "fixed.xlsx")
        )
        changed = {at for at, value in before.items() if after[at] != value}
        assert changed <= {each.address.removeprefix("Pets!") for each in fixed.corrections}

    def test_never_the_original(self, tmp_path: Path) -> None:
        """The sheet itself, under any name, is refused as the target, and no file is written."""
        sheet = csv_of(
            tmp_path, "id,name,status\n1,Rex,solld\n", corrections={"line 2, column 3": "sold"}
        )
        (tmp_path / "link.csv").symlink_to(tmp_path / "pets.csv")
        for name in ("pets.csv", "link.csv"):
            with pytest.raises(SheetError, match="the sheet itself"):
                write_corrected(sheet, tmp_path / name)
        assert (tmp_path / "pets.csv").read_text() == "id,name,status\n1,Rex,solld\n"

    def test_what_is_there_is_kept(self, tmp_path: Path) -> None:
        """An existing file at the target is kept as a backup, and no backup replaces
        another one.
        """
        sheet = csv_of(
            tmp_path, "id,name,status\n1,Rex,solld\n", corrections={"line 2, column 3": "sold"}
        )
        moment = dt.datetime(2026, 11, 21, 10, 30, tzinfo=dt.UTC)
        copy = tmp_path / "copy.csv"
        copy.write_text("mine")
        first = write_corrected(sheet, copy, now=moment)
        second = write_corrected(sheet, copy, now=moment)
        assert first is not None
        assert first.name == "copy.backup-20261121-103000.csv"
        assert first.read_text() == "mine"
        assert second is not None
        assert second.name == "copy.backup-20261121-103000-2.csv"
        assert copy.read_text() == "id,name,status\n1,Rex,sold\n"

    def test_a_base_goes_with_it(self, store: ps.Store, tmp_path: Path) -> None:
        """A corrected copy of an export carries the base of the export."""
        for name in ("pets.csv", "pets.xlsx"):
            ps.write_sheet(store.snapshot(), tmp_path / name)
            sheet = read_sheet(tmp_path / name)
            address = sheet.address(int(sheet.frame.index[0]), "name")
            fixed = read_sheet(tmp_path / name, corrections={address: "Rex II"})
            write_corrected(fixed, tmp_path / f"copy-{name}")
            plan = store.plan(tmp_path / f"copy-{name}")
            assert plan.base
            assert [change.fields for change in plan.changes] == [("name",)]

    def test_a_formula_that_others_share_is_not_replaced(self, tmp_path: Path) -> None:
        """A formula shared with other cells is not replaced, because those would be lost; the error
        names the alternative.
        """
        book = workbook_of([["id", "name", "status"], ["1", None, "sold"], ["2", None, "sold"]])
        formula = openpyxl.worksheet.formula.ArrayFormula("B2:B3", "=A2:A3")
        book.active["B2"] = formula
        book.save(tmp_path / "pets.xlsx")
        sheet = read_sheet(tmp_path / "pets.xlsx", corrections={"B2": "Rex", "B3": "Mia"})
        with pytest.raises(SheetError, match="shared with other cells") as refused:
            write_corrected(sheet, tmp_path / "copy.xlsx")
        assert "Type the value over it" in refused.value.hint
        assert not (tmp_path / "copy.xlsx").exists()

    def test_a_formula_gives_way_to_a_value(self, tmp_path: Path) -> None:
        """A formula that no other cell shares is replaced by the corrected text, also an array
        formula of one cell.
        """
        book = workbook_of([["id", "name", "status"], ["1", "=PROPER(A2)", "sold"], ["2", "", ""]])
        book.active["B3"] = openpyxl.worksheet.formula.ArrayFormula("B3", "=PROPER(A3)")
        book.save(tmp_path / "pets.xlsx")
        sheet = read_sheet(tmp_path / "pets.xlsx", corrections={"B2": "Rex", "B3": "Mia"})
        write_corrected(sheet, tmp_path / "copy.xlsx")
        copy = openpyxl.load_workbook(tmp_path / "copy.xlsx")["Pets"]
        assert (copy["B2"].value, copy["B3"].value) == ("Rex", "Mia")

    def test_a_marked_copy_has_the_corrections(self, tmp_path: Path) -> None:
        """The marked copy of a corrected sheet has the corrected text, without a mark on it."""
        rows = [["id", "name", "status"], ["1", "Rex", "solld"], ["2", "Mia", "unheard"]]
        sheet = sheet_of(tmp_path, rows, corrections={"C2": "sold"})
        done = annotate_sheet(sheet, tmp_path / "marked.xlsx")
        marked = openpyxl.load_workbook(tmp_path / "marked.xlsx")["Pets"]
        assert done.cells == 1
        assert marked["C2"].value == "sold"
        assert marked["C2"].comment is None
        assert marked["C3"].comment is not None


# Changes of `sheet.frame` are corrections.


@pytest.fixture(params=["xlsx", "csv"])
def export(request: pytest.FixtureRequest, store: ps.Store, tmp_path: Path) -> Path:
    """An export of the store."""
    path = tmp_path / f"pets.{request.param}"
    ps.write_sheet(store.snapshot(), path)
    return path


@pytest.mark.parametrize("is_copy", [False, True])
def test_changes_of_a_frame_are_written_with_the_results(
    store: ps.Store, export: Path, is_copy: bool
) -> None:
    """A plan of the sheet sends the changed values, its results have them in their cells, and the
    next plan of that file is empty. Without the values, it would undo the changes.
    """
    sheet = read_sheet(export)
    first, second, third = sheet.frame.index[:3]
    sheet.frame.at[first, "name"] = "Changed"
    sheet.frame.at[first, "photo_urls"] = ["https://a.example/1", "https://a.example/2"]
    sheet.frame.at[second, "category"] = ""
    sheet.frame.at[third, "tags"] = ["calm", ps.Tag(7, "odd; name")]
    # No cell can have this text, so only its row is blocked.
    long = sheet.frame.index[3]
    name = sheet.frame.at[long, "name"]
    sheet.frame.at[long, "name"] = "N" * 140_000
    plan = store.plan(sheet)
    assert [each.row for each in plan.blocked] == [long]
    assert sorted((each.row, each.column) for each in plan.corrections) == [
        (first, "name"),
        (first, "photo_urls"),
        (second, "category"),
        (third, "tags"),
        (long, "name"),
    ]
    report = store.apply(load_plan(save_plan(plan, export.with_suffix(".json"))))
    assert report.counts["applied"] == 3
    path = export.with_name(f"copy{export.suffix}") if is_copy else export
    # The file as it was read has the same corrections: those of the plan.
    given = read_sheet(export) if is_copy else sheet
    if is_copy:
        write_results(given, report, path)
    else:
        write_back(given, report)
    again = read_sheet(path)
    assert again.frame.at[first, "name"] == "Changed"
    assert again.frame.at[first, "photo_urls"] == ["https://a.example/1", "https://a.example/2"]
    assert again.frame.at[long, "name"] == name
    assert not store.plan(again).changes
    # A text of a single line: no row of a CSV file has moved.
    assert again.frame.index.equals(sheet.frame.index)


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("name", "", "clear-refused"),
        ("name", "[clear]", "clear-refused"),
        ("status", "reserved", "unknown-status"),
        ("action", "delte", "unknown-action"),
        ("tags", "calm | shy", "tags-commas"),
        ("name", "N" * 140_000, "cell-long"),
    ],
)
def test_values_of_a_frame_are_checked_like_cells(
    store: ps.Store, export: Path, column: str, value: object, rule: str
) -> None:
    """A wrong value in `sheet.frame` is a finding with the address of its cell, also in a changed
    copy of the frame.
    """
    sheet = read_sheet(export)
    row = sheet.frame.index[4]
    changed = sheet.frame.copy()
    sheet.frame.at[row, column] = changed.at[row, column] = value
    plan = store.plan(sheet)
    assert store.plan(read_sheet(export).with_frame(changed)).blocked == plan.blocked
    found = [each for each in store.read(sheet).problems if each.row == row]
    assert [(each.rule, each.address) for each in found] == [(rule, sheet.address(row, column))]
    is_blocked = found[0].severity == "error"
    assert (len(plan.changes), len(plan.blocked)) == ((0, 1) if is_blocked else (1, 0))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda frame: frame.at.__setitem__((3, "tags"), [5]),
            "column tags in row 3 has a list with",
        ),
        (
            lambda frame: frame.__setitem__("name", [["Rex"]] * len(frame)),
            "column name in row 2 has a value of the type list",
        ),
        (
            lambda frame: frame.__setitem__(
                "name", frame["name"].astype(object).replace("Bella", pd.Timestamp("2026-01-02"))
            ),
            "sheet.frame has 2026-01-02, a date",
        ),
        (
            lambda frame: frame.__setitem__("id", frame["id"].astype("float32") + 2.0**24),
            r"sheet.frame has .*, a number whose type may have rounded it",
        ),
        (lambda frame: frame.__setitem__("stauts", "sold"), "does not recognise: 'stauts'"),
        (lambda frame: frame.loc.__setitem__(9999, frame.iloc[0]), "has a row 9999"),
        (lambda frame: frame.reset_index(inplace=True), "no longer has the numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_frame_that_the_file_cannot_have_is_refused(
    store: ps.Store, export: Path, change: Any, problem: str
) -> None:
    """The error of a changed frame names the file, and no change is ignored."""
    sheet = read_sheet(export)
    change(sheet.frame)
    with pytest.raises(SheetError, match=problem) as caught:
        store.plan(sheet)
    assert str(export) in caught.value.message


def test_a_frame_that_is_assigned_names_the_way_out(store: ps.Store, export: Path) -> None:
    """An assignment to `frame` is an error that names what to use; so is any other assignment."""
    for value, way in (
        (read_sheet(export), r"sheet\.with_frame"),
        (store.snapshot(), r"store\.plan"),
    ):
        for name, advice in {"frame": f": .*{way}", "source": "$", "findings": "$"}.items():
            with pytest.raises(AttributeError, match=f"cannot assign to '{name}'{advice}"):
                setattr(value, name, store.pets())


def test_a_column_that_the_file_lacks_cannot_be_filled(store: ps.Store, tmp_path: Path) -> None:
    """`sheet.frame` always has the column `action`; a file without it has no cell for a value."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1001,Rex\n", "utf-8")
    for column in ("action", "status", "Status"):
        sheet = read_sheet(path)
        sheet.frame[column] = "delete" if column == "action" else "sold"
        with pytest.raises(SheetError, match=f"values in the column {column}") as caught:
            store.plan(sheet)
        assert "store.plan(sheet.frame)" in str(caught.value.hint)
        assert len(store.plan(sheet.frame).changes) == 1


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_rows_and_columns_removed_from_a_frame_are_not_planned(
    store: ps.Store, export: Path
) -> None:
    """A change of a row counts, unless the row or the column is removed."""
    sheet = read_sheet(export)
    rows = sheet.frame.index[:3]
    sheet.frame.loc[rows, ["name", "status"]] = ["Changed", "sold"]
    sheet.frame.drop(index=rows[0], inplace=True)
    sheet.frame.pop("status")
    plan = store.plan(sheet)
    assert [(each.row, each.fields) for each in plan.changes] == [(n, ("name",)) for n in rows[1:]]


@pytest.mark.parametrize("kind", ["xlsx", "csv", "DataFrame"])
def test_changes_of_a_frame_stay_when_the_sheet_is_read_again(
    store: ps.Store, tmp_path: Path, kind: str
) -> None:
    """A sheet with changes can be read and changed again. Its removed rows do not come back, and a
    text that empties a field still does.
    """
    path, is_file = tmp_path / f"pets.{kind}", kind != "DataFrame"
    if is_file:
        ps.write_sheet(store.snapshot(), path, clear="-")
        tags = read_sheet(path).address(2, "tags")
    sheet = (
        read_sheet(path, clear="-", corrections={tags: "-"})
        if is_file
        else read_sheet(store.pets())
    )
    first, second, third = sheet.frame.index[:3]
    sheet.frame.at[first, "name"] = "One"
    # Other processes can have the sheet, too.
    sheet = pickle.loads(pickle.dumps(store.read(sheet.with_frame(sheet.frame.drop(index=second)))))
    sheet.frame.at[third, "name"] = "Three"
    if is_file:
        sheet = store.read(sheet, corrections={sheet.address(third, "photo_urls"): "-"})
    changes = {each.row: each for each in store.plan(sheet).changes}
    assert {row: each.fields for row, each in changes.items()} == {
        first: ("name", "tags") if is_file else ("name",),
        third: ("name", "photo_urls") if is_file else ("name",),
    }
    assert not is_file or (changes[first].after.tags, changes[third].after.photo_urls) == ((), ())


def test_a_sheet_that_changed_after_its_plan_gets_no_results(store: ps.Store, export: Path) -> None:
    """A value that the run did not send is not written as its result."""
    sheet = read_sheet(export)
    first, second = sheet.frame.index[:2]
    sheet.frame.at[first, "name"] = "Planned"
    report = store.apply(store.plan(sheet))
    sheet.frame.at[second, "name"] = "Later"
    content = export.read_bytes()
    with pytest.raises(SheetError, match="was changed after its plan") as caught:
        write_back(sheet, report)
    assert sheet.address(second, "name") in caught.value.message
    assert export.read_bytes() == content


def test_copies_have_the_changes_of_a_frame(tmp_path: Path) -> None:
    """`write_corrected` and `annotate_sheet` write the sheet as it is in Python."""
    sheet_of(tmp_path, [HEADER, ["7", "Rex", "sold", "Dogs", "", "", ""]])
    sheet = read_sheet(tmp_path / "pets.xlsx")
    sheet.frame.at[2, "name"] = "Max"
    sheet.frame.at[2, "status"] = "sould"
    write_corrected(sheet, tmp_path / "corrected.xlsx")
    assert annotate_sheet(sheet, tmp_path / "annotated.xlsx").cells == 1
    for name in ("corrected.xlsx", "annotated.xlsx"):
        cells = openpyxl.load_workbook(tmp_path / name)["Pets"]
        assert (cells["B2"].value, cells["C2"].value) == ("Max", "sould")


def test_the_frame_of_a_data_frames_sheet_can_be_changed(store: ps.Store) -> None:
    """The sheet of a DataFrame keeps its values, and its own frame can be changed."""
    ids = store.snapshot().frame["id"].tolist()
    frame = pd.DataFrame({"id": ids[:3], "name": ["a", "b", ""], "category": ["", "x", "y"]})
    sheet = read_sheet(frame)
    sheet.frame.loc[1, "name"] = "changed"
    sheet.frame.loc[0, "category"] = "filled"
    frame.loc[0, "name"] = "too late"
    plan = store.plan(sheet)
    after = {each.pet_id: each.after for each in plan.changes if each.after is not None}
    assert {i: pet.name for i, pet in after.items()} == {ids[0]: "a", ids[1]: "changed"}
    assert after[ids[0]].category is not None
    assert after[ids[0]].category.name == "filled"
    assert [each.pet_id for each in plan.blocked] == [ids[2]]


def test_the_store_is_what_it_is_whatever_a_user_changes_in_its_snapshot(store: ps.Store) -> None:
    """A changed `snapshot.frame` can be planned with its snapshot, which has the store's values."""
    snapshot = store.snapshot()
    snapshot.frame.loc[0, "name"] = "Changed"
    snapshot.frame.at[1, "tags"] = ["calm"]
    plan = store.plan(snapshot.frame, snapshot=snapshot)
    assert [each.fields for each in plan.changes] == [("name",), ("tags",)]
    assert store.plan(snapshot.frame).changes == plan.changes
