"""Findings on screen: grouped by rule, in few lines."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from render_samples import HOSTILE, finding, sheet_with
from rendering import findings_html, findings_text, sheet_html, table_text
from rich.cells import cell_len
from sheetmaking import csv_of

from petsync import sample_data
from petsync.report.html import document_page
from petsync.report.views.sheet import sheet_view
from petsync.report.words import Place, format_places, group_findings
from petsync.sheets import read_sheet, write_sheet
from petsync.table.dtypes import TEXT
from petsync.table.sheet import FINDING_FIELDS, Finding, Findings, cell_address

SPELLING = {"severity": "warning", "suggestion": "Write sold.", "value": "Sold"}


def spelt(row: int, **more: object) -> Finding:
    """Return a warning in column C."""
    return finding("status-spelling", row, **{**SPELLING, **more})


def test_many_equal_findings_take_a_few_lines() -> None:
    """240 cells with the same mistake are one range, so a single error stays visible."""
    sheet = sheet_with(*(spelt(n) for n in range(2, 242)), finding("unknown-status", 300))
    text = findings_text(sheet)
    assert '  ! Pets!C2:C241 (240 cells) "Sold"\n' in text
    assert "1 error: unknown-status" in text
    assert len(text.splitlines()) < 20


def test_the_most_frequent_rule_comes_first_and_errors_among_equals() -> None:
    """Groups are ordered by number, then by severity, then by code."""
    rules = ["b-two", "a-one", "b-two", "c-one"]
    groups = group_findings(
        [finding(rule, n) for n, rule in enumerate(rules)]
        + [
            replace(spelt(9), rule="a-warned"),
            *(replace(spelt(n), rule="z-warned") for n in (10, 11)),
        ]
    )
    assert [group.rule for group in groups] == ["b-two", "z-warned", "a-one", "c-one", "a-warned"]
    assert sum(group.total for group in groups) == 7


def test_no_finding_is_left_uncounted() -> None:
    """Findings that are not listed are counted below the list."""
    findings = [spelt(n, value=f"S{n}") for n in range(0, 40, 2)]
    text = table_text(Findings.of(findings), limit=3)
    assert "20 warnings: status-spelling" in text
    assert "  ... and 17 more" in text
    assert text.endswith("0 errors and 20 warnings in 20 rows.")


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([("Pets!", "C", 12)], "Pets!C12"),
        ([("Pets!", "C", 12), ("Pets!", "C", 14)], "Pets!C12, C14"),
        ([("Pets!", "C", 3), ("Pets!", "C", 2), ("Pets!", "D", 9)], "Pets!C2:C3, D9 (3 cells)"),
        ([("line", "column 3", 2)], "line 2, column 3"),
        ([("line", "column 3", 2), ("line", "column 3", 5)], "column 3, lines 2, 5"),
        (
            [("line", "column 3", n) for n in (2, 3, 4)] + [("line", "column 5", 4)],
            "column 3, lines 2-4; line 4, column 5 (4 cells)",
        ),
        ([("line", "", 7)], "line 7"),
        ([("row", "status", n) for n in (0, 1)], "status, rows 0-1 (2 cells)"),
        (
            [("Pets!", "A", n) for n in range(0, 40, 2)],
            "Pets!A0, A2, A4, A6, A8, A10 and 14 more (20 cells)",
        ),
        ([("somewhere\n", "", -1)], "somewhere[line break]"),
    ],
)
def test_places_are_shortened(places: list[tuple[str, str, int]], text: str) -> None:
    """Places are short: ranges for consecutive rows, the sheet's name once, and a number of cells
    for ranges.
    """
    assert format_places([Place(*each) for each in places]) == text


@given(st.sets(st.integers(1, 60), min_size=1))
def test_ranges_are_the_cells_they_stand_for(rows: set[int]) -> None:
    """For any rows, the number of cells is right and each listed cell is one of them."""
    text = format_places([Place("Pets!", "C", row) for row in rows])
    head = re.sub(r"( and [0-9]+ more)? \([0-9]+ cells\)$", "", text)
    found: set[int] = set()
    for span in head.removeprefix("Pets!").split(", "):
        first, _, last = span.replace("C", "").partition(":")
        found |= set(range(int(first), int(last or first) + 1))
    more = re.search(r" and ([0-9]+) more", text)
    assert found <= rows
    assert len(found) + int(more[1] if more else 0) == len(rows)


def test_findings_are_a_dataframe() -> None:
    """Findings are a DataFrame with stable columns and dtypes, with and without rows."""
    for findings in (Findings.of([]), Findings.of([spelt(2)])):
        assert isinstance(findings, pd.DataFrame)
        assert tuple(findings.columns) == FINDING_FIELDS == Finding.__slots__[: len(FINDING_FIELDS)]
        kinds = findings.dtypes.to_dict()
        assert kinds.pop("row") == "int64"
        assert set(kinds.values()) == {TEXT}


def test_findings_show_themselves_by_rule() -> None:
    """Findings, and the rows that a query selects, show themselves by rule in a terminal and in a
    notebook.
    """
    findings = sheet_with(spelt(2), finding("unknown-status", 3)).findings
    assert repr(findings) == table_text(findings)
    assert findings._repr_html_() == findings_html(findings)
    errors = findings[findings["severity"] == "error"]
    assert "1 error: unknown-status" in repr(errors)
    assert "status-spelling" not in repr(errors)
    assert repr(findings.query("row == 2").reset_index(drop=True)).startswith("1 warning")


def test_findings_without_all_columns_show_themselves_as_any_table() -> None:
    """A selection of columns, and a copy as a DataFrame, show themselves as plain tables."""
    findings = sheet_with(spelt(2)).findings
    few = findings[["address", "value"]]
    assert repr(few) == repr(pd.DataFrame(few))
    assert "<table" in few._repr_html_()
    assert "Sold" in few._repr_html_()
    assert "row" in repr(pd.DataFrame(findings))


def test_tables_made_from_findings_show_themselves_too() -> None:
    """Tables that are made from findings, and have other columns or values, show themselves as in
    pandas.
    """
    findings = sheet_with(spelt(2), spelt(3)).findings
    for made in (
        findings.describe(include="all"),
        findings.isna(),
        findings.reindex([0, 99]),
        findings.assign(row="x"),
        findings[["row", "row", *FINDING_FIELDS]],
        findings.groupby("rule").first(),
        findings.T,
    ):
        assert repr(made) == repr(pd.DataFrame(made))
        assert "<table" in made._repr_html_()


def test_no_findings_say_so() -> None:
    """Findings without rows show one sentence."""
    assert repr(Findings.of([])) == "0 errors and 0 warnings in 0 rows."
    assert "0 errors and 0 warnings" in findings_html(Findings.of([]))


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_hides_or_breaks_out(name: str) -> None:
    """Invisible characters in values, codes and addresses are shown by name, and HTML is
    escaped.
    """
    hostile = finding(name, 4, value=name, problem=name, suggestion=name, column=name)
    findings = Findings.of([replace(hostile, address=cell_address(name, "C", 4)), hostile])
    text = repr(findings)
    assert text.replace("\n", "").replace("\u200d", "").isprintable()
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    assert "<script" not in findings_html(findings).partition("</style>")[2]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_sample_fits_the_width(width: int) -> None:
    """The findings of the sample fit the width, and show each code with its number."""
    sheet = read_sheet(sample_data() / "catalogue_edited.xlsx")
    text = findings_text(sheet, width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    for rule, total in sheet.findings["rule"].value_counts().items():
        assert re.search(rf"^{total} (error|warning)s?: {rule}$", text, re.MULTILINE)


def test_a_page_of_findings_names_each_rule_and_its_first_cells() -> None:
    """In HTML the first addresses are beside the folded title of a rule, and the details below
    it.
    """
    findings = [spelt(n, value=f"S{n}") for n in range(0, 60, 2)]
    sheet = sheet_with(*findings, finding("unknown-status", 3))
    html = sheet_html(sheet)
    assert "30 warnings: status-spelling" in html
    assert "Pets!C0; Pets!C2; Pets!C4 ...: petsync knows no such status." in html
    assert "<details>" in html
    assert "... and 10 more" in html
    assert "explains each code" in html
    assert "<h2>30 warnings: status-spelling</h2>" in document_page(sheet_view(sheet), "Findings")


def test_the_columns_that_are_listed_are_those_of_the_file(tmp_path: Path) -> None:
    """The listed columns are those of the file, so a sheet without an action column shows none."""
    assert "  columns  id, name\n" in findings_text(csv_of(tmp_path, "name,id\nBello,1\n"))
    sheet = csv_of(tmp_path, "id,Tun,Regal\n1,add,x\n", mapping={"Tun": "action"})
    assert "  columns  id, action\n  others   Regal\n" in findings_text(sheet)


def test_tabs_that_are_not_read_are_named(tmp_path: Path) -> None:
    """Visible worksheets that are not read are named."""
    write_sheet(csv_of(tmp_path, "id,name\n1,Bello\n"), tmp_path / "out.xlsx")
    book = openpyxl.load_workbook(tmp_path / "out.xlsx")
    assert read_sheet(tmp_path / "out.xlsx").tabs == ()
    book.copy_worksheet(book["Pets"]).title = "Pets (2)"
    book.create_sheet("Secret").sheet_state = "hidden"
    book.save(tmp_path / "copied.xlsx")
    sheet = read_sheet(tmp_path / "copied.xlsx")
    assert sheet.tabs == ("Pets (2)",)
    assert "  not read  tab Pets (2)\n" in findings_text(sheet)
    assert "<dt>not read</dt><dd><bdi>tab Pets (2)</bdi></dd>" in sheet_html(sheet)
    other = read_sheet(tmp_path / "copied.xlsx", tab="Pets (2)")
    assert (other.tab, other.tabs) == ("Pets (2)", ("Pets",))


def test_many_tabs_are_counted() -> None:
    """Many unread worksheets are counted, a few are named, and a line break in a name is shown by
    name.
    """
    sheet = replace(sheet_with(), tabs=("A\nb", *"CDEFGH"))
    assert "  not read  tabs A[line break]b, C, D, E, F and 2 more\n" in findings_text(sheet)
