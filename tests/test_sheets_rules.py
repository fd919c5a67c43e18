"""The rules of docs/findings.md: each is found at its address, in workbooks and in CSV files."""

from __future__ import annotations

import ast
import csv
import datetime as dt
import re
import shlex
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import openpyxl
import pandas as pd
import pytest
from sheetmaking import csv_of, list_findings, sheet_of, workbook_of
from shop import base_of, plan_of, snapshot_of

from petsync.errors import SheetError
from petsync.models import Category, Pet, Tag
from petsync.plan.compare import blocked_row
from petsync.sheets import as_edited, read_sheet, sheet_from_frame, write_sheet
from petsync.sheets.validate.columns import read_id
from petsync.sheets.validate.rules import KINDS, RULES
from petsync.table.frame import frame_from_pets
from petsync.table.rules import SheetRule
from petsync.table.sheet import Finding, Sheet

URL = "https://example.org/1.jpg"
NBSP = "\u00a0"
BASE = {"id": 7, "name": "Bello"}


class Case(NamedTuple):
    """A cell that breaks a rule, in a workbook and in a CSV file (None: impossible there), and
    parts of the problem and the suggestion.
    """

    rule: str
    column: str
    cell: Any
    text: str | None
    problem: str
    suggestion: str
    beside: Mapping[str, Any] = MappingProxyType({})


CASES = [
    Case(
        "error-cell",
        "name",
        "#REF!",
        "#REF!",
        "points to cells that no longer exist",
        "type the value",
    ),
    Case("error-cell", "status", "#N/A", "#N/A", "a look-up found nothing", "leave the cell blank"),
    Case("error-cell", "id", "#DIV/0!", "#DIV/0!", "divides by zero", "type the value"),
    Case("error-cell", "tags", None, "########", "too narrow", "Make the column wider"),
    Case("error-cell", "category", None, "#NV", "a look-up found nothing", "leave the cell blank"),
    Case("formula-without-value", "name", '="Bel"&"lo"', None, "never calculated", "save it"),
    Case("formula-without-value", "category_id", "=1+1", None, "never calculated", "save it"),
    Case("formula-text", "name", None, '="007"', "looks like a formula", "Write 007 without"),
    Case("formula-text", "category", None, "=A2", "looks like a formula", "Write the value"),
    Case("date-instead-of-text", "name", dt.date(2026, 5, 1), None, "2026-05-01", '"May 1", "5/1"'),
    Case("date-instead-of-text", "status", dt.date(2026, 5, 1), None, "2026-05-01", "as text"),
    Case("boolean-instead-of-text", "name", True, None, "TRUE", "Format the cell as text"),
    Case(
        "number-instead-of-text",
        "name",
        12,
        None,
        "leading zeros may be lost",
        "12 is not the intended value",
    ),
    Case("number-imprecise", "name", 1234567890123456789, None, "15 digits", "as text"),
    Case("looks-converted", "name", None, "01-May", "typed date or number", "its source"),
    Case("looks-converted", "category", None, "1.20E+15", "typed date or number", "its source"),
    Case("looks-converted", "tags", None, "04-Mar", "typed date or number", "its source"),
    Case("clear-refused", "name", "[clear]", "[clear]", "cannot be emptied", "leave the cell"),
    Case("clear-refused", "id", "[clear]", "[clear]", "cannot be emptied", "leave the cell"),
    Case("category-text", "category", "{'id': 1, 'name': 'Dogs'}", None, "a program", "Write Dogs"),
    Case("name-text", "name", "['Bello']", "('Bello',)", "for a list", "Write Bello"),
    Case("category-numbered", "category", "1:Dogs", "1:Dogs", "its number", "Write Dogs"),
    Case("category-numbered", "category", f"{10**19}:Dogs", f"{10**19}:Dogs", "its number", ""),
    Case("category-numbered", "category", '1:"Dogs', '1:"Dogs', "its number", ""),
    Case("nul-character", "name", None, "Bel\0lo", "NUL", "Type the value again"),
    Case("nul-character", "status", None, "so\0ld", "NUL", "Type the value again"),
    Case("nul-character", "id", None, "1\x002", "NUL", "Type the value again"),
    Case("damaged-characters", "name", "ZoÃ«", "ZoÃ«", "wrong encoding", "It may be 'Zoë'"),
    Case("damaged-characters", "tags", "sch\ufffdn", "sch\ufffdn", "wrong encoding", "UTF-8"),
    Case("decomposed-characters", "name", "Zoe\u0308", "Zoe\u0308", "accent", "No action"),
    Case(
        "no-break-space",
        "status",
        "sold" + NBSP,
        "sold" + NBSP,
        "no-break space",
        "Delete the space",
    ),
    Case("no-break-space", "id", NBSP + "7", NBSP + "7", "no-break", "Delete the space"),
    Case("no-break-space", "tags", NBSP + "shy", NBSP + "shy", "no-break", "Delete the space"),
    Case("invisible-characters", "name", "Be\u200bl", "Be\u200bl", "U+200B", "instead of pasting"),
    Case("invisible-characters", "tags", "sh\u00ady", "sh\u00ady", "U+00AD (soft hyp", "Type the"),
    Case("invisible-characters", "category", "\ufeffDogs", "\ufeffDogs", "U+FEFF", "Type the"),
    Case(
        "id-not-a-number", "id", "new", "new", "not a whole number", "leave the cell blank to add"
    ),
    Case("id-not-a-number", "id", "#12", "#12", "not a whole number", "It may be 12;"),
    Case("id-not-a-number", "category_id", "dogs", "dogs", "The category's id", "the category's"),
    Case("id-ambiguous", "id", "12.000", "12.000", "may be 12 or 12000", "without a point"),
    Case("id-fraction", "id", 12.5, "12.5", "has a fraction", "Write the whole number"),
    Case("id-fraction", "id", None, "12,5", "has a fraction", "Write the whole number"),
    Case("id-scientific", "id", "1.2E+3", "1.2E+3", "digits may be lost", "was about 1200;"),
    Case("id-scientific", "id", None, "9,22337E+18", "digits may be lost", "look the number up"),
    Case("id-imprecise", "id", 10**15, None, "keeps only 15", "as text"),
    Case("id-imprecise", "category_id", 10**15, None, "The category's id", "as text"),
    Case("id-imprecise", "id", "9007199254740992.0", "9007199254740992.0", "15 digits", "as text"),
    Case("id-imprecise", "category_id", "1000000000000000.", "1000000000000000,0", "15", "as text"),
    Case("id-rounded", "id", "123456789012345000", "9223372036854770000", "zeros", "Compare the"),
    Case("id-rounded", "category_id", None, "-9223372036854770000", "zeros", "Compare the"),
    Case("id-below-one", "id", "0", "0", "below 1", "Leave the id blank"),
    Case("id-below-one", "id", -1001, "-1001", "below 1", "Leave the id blank"),
    Case("id-out-of-range", "id", "9223372036854775808", "9223372036854775808", "64", "correct"),
    Case("id-not-a-cell", "id", dt.date(1912, 5, 1), None, "as a number, this is 4505", "If 4505"),
    Case("id-not-a-cell", "id", True, None, "TRUE or FALSE", "Format the column as text"),
    Case("id-decimal", "id", "12.0", "12.0", "read as 12.", "Write 12."),
    Case("id-decimal", "id", None, "12,0", "read as 12.", "Write 12."),
    Case("id-respelled", "id", "007", "007", "read as 7.", "Write 7."),
    Case(
        "name-missing",
        "name",
        " ",
        " ",
        "has no name",
        "Write the pet's",
        {"id": "", "tags": "x"},
    ),
    Case("name-long", "name", "x" * 256, "x" * 256, "255 characters", "Shorten it"),
    Case("status-missing", "status", " ", "[clear]", "no status", "Write one", {"id": ""}),
    Case(
        "unknown-status",
        "status",
        "availabel",
        "availabel",
        "petsync knows no such status",
        "Write available",
    ),
    Case(
        "unknown-status",
        "status",
        "asleep",
        "asleep",
        "petsync knows no such status",
        "petsync.toml",
    ),
    Case("unknown-status", "status", "s\u043eld", "s\u043eld", "no such", "U+043E, cyrillic small"),
    Case("status-spelling", "status", "Sold ", "Sold ", "read as sold", "Write sold."),
    Case(
        "category-contradiction",
        "category_id",
        "[clear]",
        "[clear]",
        "disagree on whether",
        "in both columns",
        {"category": "Dogs"},
    ),
    Case("unknown-action", "action", "remove", "remove", "action is unknown", "Write delete"),
    Case("unknown-action", "action", "zzz", "zzz", "action is unknown", "leave the cell blank"),
    Case("tags-unreadable", "tags", '"calm; shy', '"calm; shy', "never closed", "Close each quote"),
    Case(
        "tags-unreadable", "tags", "9" * 20 + ":x", "9" * 20 + ":x", "range of ids", "Correct the"
    ),
    Case("tag-repeated", "tags", "calm; shy; calm", "calm; shy; calm", "calm", "Keep one"),
    Case("tags-separators", "tags", "calm;; shy", "calm;; shy", "extra semicolon", "one semicolon"),
    Case("tags-commas", "tags", "calm, shy", "calm, shy", "a semicolon seems", "Write calm; shy "),
    Case(
        "tags-commas",
        "tags",
        "calm\nshy",
        "calm\nshy",
        "a semicolon seems",
        "Put double quotes only",
    ),
    Case(
        "tags-commas",
        "tags",
        "calm\uff1bshy",
        "a,\u3001b",
        "a semicolon seems",
        "these are 2 tags",
    ),
    Case("tags-commas", "tags", "calm,", "calm|shy", "a semicolon seems", "Write calm"),
    Case("list-text", "tags", "[Tag(106, 'young')]", "['calm']", "for a list", "Write "),
    Case("list-text", "tags", '["calm", "shy"]', "[]", "for a list", " "),
    Case("list-text", "photo_urls", f"['{URL}']", f'["{URL}"]', "for a list", f"Write {URL}"),
    Case("clear-spelling", "tags", "[ clear ]", "(clear)", "resembles the marker", "Write [clear]"),
    Case("clear-spelling", "category", "{Clear}", "<clear>", "resembles the", "put an apostrophe"),
    Case("quote-after-space", "name", None, ' "Bella"', "is part of the text", "Delete the space"),
    Case("quote-after-space", "id", None, ' "7"', "is part of the text", "Delete the space"),
    Case(
        "clear-beside-others",
        "tags",
        "shy; [Clear]",
        "[clear];shy",
        "in a list with other items",
        "Write only [clear]",
    ),
    Case("placeholder-text", "category", "N/A", "-", "uses it as text", "Leave the cell blank"),
    Case("placeholder-text", "tags", "null", " ? ", "read as a tag", "Leave the cell blank"),
    Case("placeholder-text", "category", "NaN", "<NA>", "uses it as text", "Leave the cell blank"),
    Case("photos-unreadable", "photo_urls", '"https://e', '"https://e', "never closed", "Close"),
    Case("photo-repeated", "photo_urls", f"{URL}\n{URL}", f"{URL} | {URL}", "More", "Keep one"),
    Case("photos-separators", "photo_urls", f"{URL}, {URL}?2", f"{URL};{URL}?2", "several", "| wi"),
    Case("photos-separators", "photo_urls", f"{URL}|{URL}?2", f"{URL}{URL}?2", "several", "quotes"),
    Case("photos-separators", "photo_urls", f"{URL}|2", f"{URL}; 2", "several", "quotes"),
    Case("photo-not-an-address", "photo_urls", "C:\\B.jpg", "C:\\B.jpg", "not look", "upload"),
]


def _read(case: Case, kind: str, folder: Path) -> tuple[Sheet, str]:
    """Return the sheet of one row with the case's cell, and the address of that cell."""
    value = case.cell if kind == "workbook" else case.text
    row = {**BASE, **case.beside, case.column: value}
    position = list(row).index(case.column)
    if kind == "workbook":
        return sheet_of(folder, [list(row), list(row.values())]), f"Pets!{'ABCDEFGH'[position]}2"
    with (folder / "pets.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(row), list(row.values())])
    return read_sheet(folder / "pets.csv"), f"line 2, column {position + 1}"


def _cases() -> list[Any]:
    seen: dict[tuple[str, str], int] = {}
    params = []
    for case in CASES:
        for kind, value in (("workbook", case.cell), ("csv", case.text)):
            if value is not None:
                number = seen[case.rule, kind] = seen.get((case.rule, kind), 0) + 1
                name = f"{case.rule}-{kind}" + (f"-{number}" if number > 1 else "")
                params.append(pytest.param(case, kind, id=name))
    return params


@pytest.mark.parametrize(("case", "kind"), _cases())
def test_rule(tmp_path: Path, case: Case, kind: str) -> None:
    """A cell that breaks a rule is found at its address, blocks its row only if it is an error, and
    has a suggestion.
    """
    sheet, address = _read(case, kind, tmp_path)
    assert list_findings(sheet) == [(address, case.rule)]
    finding = sheet.problems[0]
    shown = case.cell if kind == "workbook" else case.text
    assert finding.value == "" or finding.value[:15].upper() == str(shown)[:15].upper()
    assert (finding.row, finding.column) == (2, case.column)
    assert case.problem in finding.problem
    assert case.suggestion in finding.suggestion
    _check_severity(sheet, finding)


def _check_severity(sheet: Sheet, finding: Finding) -> None:
    assert finding.severity == RULES[finding.rule].severity
    blocked = finding.severity == "error"
    assert (finding.row in sheet.blocked) == blocked
    assert (finding.row in sheet.frame.index) != blocked


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("calm, shy", "Write calm; shy (without quotes) if these are 2 tags. "),
        ("calm,", "Write calm (without quotes) if that is intended. "),
        ('calm, shy; "a, b"', 'Write calm; shy; "a, b" if these are 3 tags. '),
    ],
)
def test_tags_that_are_suggested_stand_as_they_are_to_be_typed(
    tmp_path: Path, cell: str, hint: str
) -> None:
    """Suggested tags have no quotes around them, which would make them one tag."""
    path = tmp_path / "pets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "name", "tags"], ["7", "Bello", cell]])
    (finding,) = read_sheet(path).problems
    assert finding.suggestion == f"{hint}Put double quotes only around a single tag."


@pytest.mark.parametrize("text", ["1,000", "12,000", "100,000"])
def test_an_id_with_thousands_separators_is_not_cut(text: str) -> None:
    """A comma before three zeros may separate thousands: `1,000` is not read as the id 1."""
    reading = read_id(text)
    assert (reading.number, reading.meant) == (None, text.replace(",", ""))


def test_every_rule_is_tested() -> None:
    """Each rule has a case in CASES or a test that has its name."""
    names = (name.replace("_", "-") for name in vars(sys.modules[__name__]))
    named = {code for name in names for code in RULES if name.startswith(f"test-rule-{code}")}
    assert {case.rule for case in CASES} | named == set(RULES)
    assert sum(map(len, KINDS.values())) == len(RULES)


def test_rule_wrong_value(tmp_path: Path) -> None:
    """A value that no cell can have is an error at its row and key, and says what is needed."""
    path = tmp_path / "pets.json"
    path.write_text('[{"id": 7, "name": {"first": "Bello"}}]')
    (found,) = read_sheet(path).problems
    assert (found.address, found.rule, found.value) == (
        "row 1, name",
        "wrong-value",
        '{"first":"Bello"}',
    )
    assert "an object, where petsync needs text or a number" in found.problem


def test_rule_unknown_fields() -> None:
    """A row of a DataFrame that changes fields that petsync does not know is an error: in `extra`,
    in the category, or in a tag. An unchanged or missing value is none, nor is another pet's tag.
    """
    marked = {"mark": 1}
    store = [
        Pet(
            id=n,
            name=f"Pet {n}",
            status="sold",
            category=Category(1, "Dogs", {"size": n}),
            tags=(Tag(n, "x", {"color": n}),),
            extra=marked,
        )
        for n in range(1, 8)
    ]
    frame = snapshot_of(store).frame
    read = sheet_from_frame(frame.set_index("id"))
    assert (read.problems, read.has_unknown_fields) == ((), False)
    frame.at[0, "extra"]["mark"] = 2
    frame.at[1, "extra"] = {**frame.at[1, "extra"], "(category)": {"size": 9}}
    frame.at[2, "tags"] = [Tag(3, "x", {"color": 9})]
    frame.at[3, "tags"] = [*frame.at[3, "tags"], frame.at[4, "tags"][0], Tag(9, "new", {})]
    frame.at[4, "extra"] = None
    frame.at[5, "tags"] = [Tag(8, "y", {"color": 1})]
    found = [(each.address, each.rule) for each in sheet_from_frame(frame).problems]
    columns = {0: "extra", 1: "extra", 2: "tags", 5: "tags"}
    assert found == [(f"row {n}, {name}", "unknown-fields") for n, name in columns.items()]
    frame.attrs.clear()
    plan = plan_of(store, sheet_from_frame(frame))
    assert any("fields that petsync does not know" in note for note in plan.notes)
    sheet = read_sheet(pd.DataFrame({"id": [1, 2], "tags": ["x", "y"]}))
    sheet.frame.at[1, "tags"] = [Tag(2, "x", {"color": 9})]
    with pytest.raises(SheetError, match="row 1, tags: sheet"):
        as_edited(sheet)
    sheet.frame.at[1, "tags"] = ["x"]
    sheet.frame["extra"] = [{"mark": 3}, None]
    with pytest.raises(SheetError, match="values in the column extra"):
        as_edited(sheet)


def test_every_rule_says_all() -> None:
    """Each rule has a meaning, an example, a correct form and a fix."""
    for rule in RULES.values():
        assert all((rule.meaning, rule.example, rule.fixed, rule.cure))
        assert rule.meaning.endswith(".")
        assert rule.cure.endswith(".")


def test_every_rule_has_its_section_in_the_documentation() -> None:
    """`docs/findings.md` has exactly one section for each rule, with its severity."""
    page = (Path(__file__).parents[1] / "docs" / "findings.md").read_text("utf-8")
    for code, rule in RULES.items():
        assert page.count(f"[`{code}`](#{code})") == 1
        assert page.count(f"\n### {code}\n\n**{rule.severity.capitalize()}.** ") == 1


def test_rule_ragged_row(tmp_path: Path) -> None:
    """A row with too many or too few cells is blocked with one finding; blank cells at its end are
    allowed.
    """
    text = "id,name,status\n1,Bello, the dog,sold\n2,Rex\n3,Mia,sold,,\n,,zzz,ignore\n"
    sheet = csv_of(tmp_path, text)
    assert list_findings(sheet) == [
        ("line 2, column 1", "ragged-row"),
        ("line 3, column 1", "ragged-row"),
        ("line 5, column 1", "ragged-row"),
    ]
    assert sheet.problems[0].problem == "The row has 4 cells where the header has 3."
    assert "has 2 cells where" in sheet.problems[1].problem
    assert "Quote cells" in sheet.problems[0].suggestion
    assert sheet.problems[0].value == "1,Bello, the dog,sold"
    assert sheet.frame["id"].tolist() == [3]
    assert sheet.blocked_ids == {1, 2}


def test_rule_ragged_row_keeps_what_its_id_says(tmp_path: Path) -> None:
    """The id of a ragged row is still checked, as its pet must not be changed."""
    sheet = csv_of(tmp_path, "id,name,action\nx,Bello\n7,Rex,ignore,ignore\n7,Rex,\n")
    assert list_findings(sheet) == [
        ("line 2, column 1", "id-not-a-number"),
        ("line 2, column 1", "ragged-row"),
        ("line 3, column 1", "ragged-row"),
        ("line 3, column 1", "duplicate-id"),
        ("line 4, column 1", "duplicate-id"),
    ]


def test_rule_broken_quote(tmp_path: Path) -> None:
    """Text after a closing quote blocks its row, and the following rows are read."""
    sheet = csv_of(tmp_path, 'id,name\n1,"Bello" the dog\n2,"say ""hi"""\n')
    assert list_findings(sheet) == [("line 2, column 1", "broken-quote")]
    assert "double the quotes" in sheet.problems[0].suggestion
    assert sheet.blocked == (2,)
    assert sheet.frame["name"].tolist() == ['say "hi"']


def test_rule_duplicate_id(tmp_path: Path) -> None:
    """Rows with the same id and different values are all blocked; each finding names all rows and
    the differing columns.
    """
    sheet = csv_of(tmp_path, "id,name\n7,Bello\n8,Rex\n7.0,Bella\n7,Bello\n")
    assert [(each.row, each.rule) for each in sheet.problems] == [
        (2, "duplicate-id"),
        (4, "id-decimal"),
        (4, "duplicate-id"),
        (5, "duplicate-id"),
    ]
    assert sheet.blocked == (2, 4, 5)
    assert sheet.blocked_ids == {7}
    assert sheet.frame.index.tolist() == [3]
    assert sheet.problems[0].problem == (
        "The id 7 is in 3 rows with different values (name): line 2, column 1; line 4, "
        "column 1; line 5, column 1."
    )
    assert "the id of its pet" in sheet.problems[0].suggestion


def test_rule_duplicate_row(tmp_path: Path) -> None:
    """A row that repeats another in all known columns is used once."""
    sheet = csv_of(tmp_path, "id,name,shelf\n7,Bello,1\n7,Bello,2\n")
    assert list_findings(sheet) == [("line 3, column 1", "duplicate-row")]
    assert "line 2, column 1" in sheet.problems[0].problem
    assert sheet.problems[0].value == "7"
    assert sheet.frame.index.tolist() == [2]
    assert not sheet.blocked


def test_rule_row_repeated(tmp_path: Path) -> None:
    """A row without an id that equals another row has a warning that names the other row."""
    text = "id,name,status\n,Bubble,sold\n, Bubble,sold\n,Bubble,pending\n7,Rex,sold\n,Rex,sold\n"
    sheet = csv_of(tmp_path, text)
    assert list_findings(sheet) == [
        ("line 3, column 2", "row-repeated"),
        ("line 6, column 2", "row-repeated"),
    ]
    assert (
        "the same values as line 2, column 2, which has no id either" in sheet.problems[0].problem
    )
    assert "the same values as line 5, column 2, which has an id" in sheet.problems[1].problem
    assert "write add-another" in sheet.problems[0].suggestion
    assert len(sheet) == 5


def test_rule_row_repeated_without_a_column_of_ids(tmp_path: Path) -> None:
    """Equal rows of a sheet without an id column have the warning too. Ignored rows, and those
    that say that they add another pet, have none.
    """
    actions = ("", "ignore", "add", "add-another")
    rows = "".join(f"Bubble,sold,{action}\n" for action in actions)
    sheet = csv_of(tmp_path, f"name,status,action\n{rows}")
    assert list_findings(sheet) == [("line 4, column 1", "row-repeated")]


def test_rule_row_repeated_is_no_warning_of_rows_with_an_id(tmp_path: Path) -> None:
    """Pets with equal values and ids of their own have no warning; an equal row without an id has
    one.
    """
    sheet = csv_of(tmp_path, "id,name,status\n7,Rex,sold\n8,Rex,sold\n,Rex,sold\n")
    assert list_findings(sheet) == [("line 4, column 2", "row-repeated")]


def test_rule_header_repeated(tmp_path: Path) -> None:
    """A repeated header row is one finding and no pet."""
    rows = [["ID", "Name", "Status"], [1, "Bello", "sold"], ["id", "name", "status"], [2, "Rex"]]
    sheet = sheet_of(tmp_path, rows)
    assert list_findings(sheet) == [("Pets!A3", "header-repeated")]
    assert "Delete the row" in sheet.problems[0].suggestion
    assert sheet.blocked == (3,)
    assert sheet.frame["id"].tolist() == [1, 2]


def test_rule_header_repeated_without_ids(tmp_path: Path) -> None:
    """A repeated header row is found without an id column; a pet may have the name Name."""
    sheet = csv_of(tmp_path, "name,status\nBello,sold\nName,sold\nname,status\n")
    assert list_findings(sheet) == [("line 4, column 1", "header-repeated")]
    assert sheet.frame["name"].tolist() == ["Bello", "Name"]


@pytest.mark.parametrize(
    "row",
    [["Total", "", "", "2"], ["Summe: 2", "", "", ""], ["", "Total", "", "2"]],
    ids=["id", "counted", "name"],
)
def test_rule_totals_row(tmp_path: Path, row: list[str]) -> None:
    """A row of totals is one finding with its own rule."""
    rows = [["id", "name", "status", "Price"], [1, "Bello", "sold", 2], row]
    sheet = sheet_of(tmp_path, rows)
    assert list_findings(sheet) == [("Pets!A3", "totals-row")]
    assert "write ignore" in sheet.problems[0].suggestion
    assert sheet.blocked == (3,)


def test_rule_totals_row_is_no_pet_called_total(tmp_path: Path) -> None:
    """A pet with an id or a status may have the name Total."""
    sheet = csv_of(tmp_path, "id,name,status\n1,Total,\n,Total,sold\n2,Count,\n")
    assert not sheet.problems
    assert (
        "totals-row" not in dict(list_findings(csv_of(tmp_path, "name\nBubble\nTotal\n"))).values()
    )


def test_rule_merged_cells(tmp_path: Path) -> None:
    """Only the first of merged cells has a value, so the other rows are blocked."""
    book = workbook_of([["id", "name"], [1, "Bello"], [2, None], [3, "Rex"]])
    book.active.merge_cells("B2:B3")
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!B3", "merged-cells")]
    assert "(B2:B3); only B2 has a value" in sheet.problems[0].problem
    assert "Undo the merge" in sheet.problems[0].suggestion
    assert blocked_row(sheet, 3, sheet.problems, {}).problem.startswith("The cell is part of")
    assert sheet.blocked_ids == {2}
    assert sheet.frame["id"].tolist() == [1, 3]


def test_rule_hidden_rows(tmp_path: Path) -> None:
    """Hidden rows are read like other rows, with one warning that counts and names them."""
    book = workbook_of([["id", "name"], *([n, f"Pet {n}"] for n in range(2, 40))])
    for row in (3, 5, 6, 7, 60):
        book.active.row_dimensions[row].hidden = True
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!A1", "hidden-rows")]
    assert sheet.problems[0].problem == "4 rows are hidden and are used like the others: 3, 5-7."
    assert "Show all rows" in sheet.problems[0].suggestion
    assert len(sheet) == 38


def test_rule_hidden_columns(tmp_path: Path) -> None:
    """A hidden column that petsync uses is read with a warning; another hidden column is no
    finding.
    """
    book = workbook_of([["id", "name", "status", "Shelf"], [1, "Bello", "sold", "A"]])
    for letter in "CD":
        book.active.column_dimensions[letter].hidden = True
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!C1", "hidden-columns")]
    assert "The column C (status) is hidden" in sheet.problems[0].problem
    assert "Show the column" in sheet.problems[0].suggestion
    assert sheet.frame["status"].tolist() == ["sold"]


def test_rule_filter_active(tmp_path: Path) -> None:
    """A filter with a condition is a warning that names its column; a filter without one is no
    finding.
    """
    book = workbook_of([["id", "name", "status"], [1, "Bello", "sold"], [2, "Rex", "pending"]])
    book.active.auto_filter.ref = "A1:C3"
    book.save(tmp_path / "pets.xlsx")
    assert not read_sheet(tmp_path / "pets.xlsx").problems
    book.active.auto_filter.add_filter_column(2, ["sold"])
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!A1", "hidden-rows"), ("Pets!C1", "filter-active")]
    assert "The column C (status) has a filter" in sheet.problems[1].problem
    assert "Clear the filter" in sheet.problems[1].suggestion
    assert len(sheet) == 2


def test_rule_status_missing_is_reported_once_without_such_a_column(tmp_path: Path) -> None:
    """Without id and status columns the missing status is reported once, not for each row."""
    sheet = csv_of(tmp_path, "name,tags\nBello,calm\nMia,shy\nRex,\n")
    assert list_findings(sheet) == [("line 1", "status-missing")]
    rows = csv_of(tmp_path, "id,name,action\n,Bello,\n7,Mia,\n8,Rex,add\n,Max,ignore\n")
    assert list_findings(rows) == [("line 2", "status-missing"), ("line 4", "status-missing")]


@pytest.mark.parametrize("end", ["\n", ""])
def test_rule_cell_long(tmp_path: Path, end: str) -> None:
    """A cell that is too long blocks its row, and the rows after it are read."""
    long = "x" * 131_073
    text = f'id,name,status\n1,{long},sold\n2,"a\n{long}",sold\n3,Mia,sold{end}'
    sheet = csv_of(tmp_path, text)
    assert list_findings(sheet) == [
        ("line 2, column 1", "cell-long"),
        ("line 3, column 1", "cell-long"),
    ]
    assert "column 2 has 131,073 characters" in sheet.problems[0].problem
    assert sheet.blocked_ids == {1, 2}
    assert sheet.frame["id"].tolist() == [3]
    assert csv.field_size_limit() == 131_072


def _of_formulas(folder: Path, cells: str) -> Sheet:
    """Return the sheet of a worksheet whose second column holds these cells unchanged."""
    book = workbook_of([["id", "name"], *([n, "x"] for n in range(2, 2 + cells.count("<c ")))])
    book.save(folder / "pets.xlsx")
    members = {}
    with zipfile.ZipFile(folder / "pets.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    part = "xl/worksheets/sheet1.xml"
    for cell in re.findall("<c .*?</c>", cells):
        place = re.search('r="([A-Z0-9]+)"', cell)[1]
        old = re.compile(rf'<c r="{place}".*?</c>'.encode(), re.DOTALL)
        members[part] = old.sub(cell.encode(), members[part])
    with zipfile.ZipFile(folder / "pets.xlsx", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return read_sheet(folder / "pets.xlsx")


EMPTY = '<c r="B2"><f>IF(A2="","",A2)</f><v></v></c>'


def test_rule_formula_empty(tmp_path: Path) -> None:
    """A formula with an empty text as its value is a blank cell."""
    sheet = _of_formulas(tmp_path, EMPTY)
    assert list_findings(sheet) == [("Pets!B2", "formula-empty")]
    assert sheet.frame["name"].isna().tolist() == [True]


def test_rule_formula_empty_in_a_row_of_its_own(tmp_path: Path) -> None:
    """A row with only formulas that give an empty text is not a row."""
    cells = "".join(f'<c r="{c}2"><f>IF(Z2="","",Z2)</f><v></v></c>' for c in "AB")
    sheet = _of_formulas(tmp_path, cells)
    assert list_findings(sheet) == []
    assert sheet.frame["id"].tolist() == [3]


@pytest.mark.parametrize(
    ("cells", "rules"),
    [
        (EMPTY + '<c r="B3" t="str"><f>"a"</f><v>a</v></c>', []),
        (EMPTY + '<c r="B3"><f>"a"</f><v></v></c>', ["formula-without-value"] * 2),
        (EMPTY + '<c r="B3"><f>IF(A3="","",1)</f></c>', ["formula-without-value"] * 2),
        ('<c r="B2" t="str"><f>IF(A2="","",A2)</f><v></v></c>', []),
    ],
)
def test_rule_formula_empty_differs_from_an_uncalculated_cell(
    tmp_path: Path, cells: str, rules: list[str]
) -> None:
    """Other formulas of the worksheet decide whether an empty formula was calculated."""
    assert [rule for _, rule in list_findings(_of_formulas(tmp_path, cells))] == rules


@pytest.mark.parametrize("header", [["id", "name"], ["ID", "Status"]])
def test_rule_header_elsewhere(tmp_path: Path, header: list[str]) -> None:
    """Another visible worksheet with pets is reported, unless the worksheet to read was named."""
    book = workbook_of([["id", "name"], [1, "Bello"]])
    for title, state in (
        ("More pets", "visible"),
        ("Old pets", "hidden"),
        ("petsync x", "visible"),
    ):
        tab = book.create_sheet(title)
        tab.sheet_state = state
        for row in (["Cats & co"], [], header, [2, "Mia"]):
            tab.append(row)
    notes = book.create_sheet("Notes")
    notes.append(["name", "phone"])
    notes.append(["Petra", "1234"])
    path = tmp_path / "pets.xlsx"
    book.save(path)
    sheet = read_sheet(path)
    assert list_findings(sheet) == [("Pets!A1", "header-elsewhere")]
    assert "'More pets'" in sheet.problems[0].problem
    assert "--sheet 'More pets', in Python tab='More pets'." in sheet.problems[0].suggestion
    assert not read_sheet(path, tab="Pets").problems


def test_a_copied_worksheet_is_reported_if_it_differs(tmp_path: Path) -> None:
    """A warning names the worksheet that is read, and the first cell in which a copy of it differs.
    A copy without a difference is no finding.
    """
    rows = [["id", "name", "note"], *([n, f"Pet {n}", "x"] for n in range(1, 9))]
    book = workbook_of(rows)
    copied = book.copy_worksheet(book.worksheets[0])
    copied.title = "Pets (2)"
    path = tmp_path / "pets.xlsx"
    book.save(path)
    assert not read_sheet(path).problems
    copied["B5"], copied["A10"] = "Rex", "9"
    book.save(path)
    sheet = read_sheet(path)
    assert list_findings(sheet) == [("Pets!A1", "header-elsewhere")]
    (finding,) = sheet.problems
    assert finding.problem == (
        "Only the worksheet 'Pets' is read. 'Pets (2)', a copy of it that differs from "
        "'Pets (2)'!B5 on, is not read: edits in it have no effect."
    )
    (warning,) = plan_of([], sheet).warnings
    assert warning.startswith("Pets!A1: Only the worksheet 'Pets' is read.")
    copied["B5"] = "Pet 4"
    book.save(path)
    assert "differs from 'Pets (2)'!A10 on" in read_sheet(path).problems[0].problem
    assert read_sheet(path, tab="Pets (2)").frame["id"].tolist() == [*range(1, 10)]


def test_options_in_suggestions_are_quoted(tmp_path: Path) -> None:
    """A name with quotes can be pasted into a shell and into Python."""
    name, header = "Tom's $pets", "My \"own\" 'state'"
    pet = Pet(id=7, name="Bello", status="sold")
    path = tmp_path / "pets.xlsx"
    write_sheet(frame_from_pets([pet]), path, base=base_of([pet]))
    book = openpyxl.load_workbook(path)
    book["Pets"]["C1"] = header
    other = book.create_sheet(name)
    for row in (["id", "name"], [8, "Mia"]):
        other.append(row)
    book.save(path)
    suggestions = {each.rule: each.suggestion for each in read_sheet(path).problems}
    for rule, option, value in (
        ("header-elsewhere", ["--sheet", name], name),
        ("header-renamed", ["--column", f"{header}=status"], {header: "status"}),
    ):
        found = re.search(r"(--[a-z]+ .*), in Python [a-z]+=(.*?)\)?\.", suggestions[rule])
        assert found is not None
        assert shlex.split(found[1]) == option
        assert ast.literal_eval(found[2]) == value


def test_rule_header_unchecked(tmp_path: Path) -> None:
    """A rule of one's own for a column that the sheet lacks is reported at the header."""
    rule = SheetRule(name="price", columns=["Prise"], minimum=0)
    sheet = sheet_of(tmp_path, [["id", "name", "Price"], ["1", "Bello", "5"]], rules=[rule])
    assert list_findings(sheet) == [("Pets!A1", "header-unchecked")]
    assert "Did you mean Price?" in sheet.problems[0].suggestion
    assert sheet.blocked == ()


def test_rule_header_numbers(tmp_path: Path) -> None:
    """An unused column that may contain ids is reported in a sheet without ids."""
    sheet = csv_of(tmp_path, "Regal,name,status\n1001,Bello,sold\n1002,Mia,sold\n")
    assert list_findings(sheet) == [("line 1, column 1", "header-numbers")]


def test_rule_header_renamed(tmp_path: Path) -> None:
    """A column of the base that has an unknown header in the sheet is reported."""
    pet = Pet(id=7, name="Bello", status="sold")
    path = tmp_path / "pets.csv"
    write_sheet(frame_from_pets([pet]), path, base=base_of([pet]))
    text = path.read_text("utf-8-sig")
    path.write_text(text.replace("status", "Whatever", 1), "utf-8-sig")
    sheet = read_sheet(path)
    assert list_findings(sheet) == [("line 1, column 3", "header-renamed")]
    assert "--column Whatever=status, in Python" in sheet.problems[0].suggestion


def test_rule_header_near_miss(tmp_path: Path) -> None:
    """A column with a nearly known header is not used, and the finding suggests the right one."""
    sheet = csv_of(tmp_path, "id,nmae,photo url\n1,Bello,x\n")
    assert list_findings(sheet) == [
        ("line 1, column 2", "header-near-miss"),
        ("line 1, column 3", "header-near-miss"),
    ]
    assert "Rename it to name" in sheet.problems[0].suggestion
    assert "Rename it to photo_urls" in sheet.problems[1].suggestion
    assert list(sheet.frame.columns) == ["id", "action"]
    assert list(sheet.others.columns) == ["nmae", "photo url"]


def test_rule_header_missing(tmp_path: Path) -> None:
    """Values below a blank header are not used, and are reported."""
    sheet = sheet_of(tmp_path, [["id", "name", None], [7, "Bello", "sold"]])
    assert list_findings(sheet) == [("Pets!C1", "header-missing")]
    assert "Column C has values, the first in row 2" in sheet.problems[0].problem
    assert "Give the column a header" in sheet.problems[0].suggestion
    frame = sheet_from_frame(pd.DataFrame({"id": [7], "name": ["Bello"], " ": ["sold"]}))
    assert "Column ' ' has values" in frame.problems[0].problem


@pytest.mark.parametrize("shown", ["#N/A", "#REF!", "####"])
def test_rule_error_text(tmp_path: Path, shown: str) -> None:
    """The text of an error in a text cell of a workbook is used, with a warning."""
    book = workbook_of([["id", "name"], [7, "x"]])
    book.active["B2"].value = shown
    book.active["B2"].data_type = "s"
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!B2", "error-text")]
    assert sheet.problems[0].problem == RULES["error-text"].meaning
    assert sheet.frame["name"].tolist() == [shown]
    assert "leave the text if it is correct" in sheet.problems[0].suggestion
