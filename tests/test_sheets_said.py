"""The values that a sheet reads from cells and rows, and the rules for them."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from rendering import findings_text, table_text
from sheetmaking import csv_of, list_findings, sheet_of, with_whole_tags, workbook_of

from petsync.models import MAX_ID, Tag
from petsync.sheets import annotate_sheet, read_sheet
from petsync.sheets.xlsx.annotate import Mark
from petsync.table.columns import CLEAR
from petsync.table.dtypes import TEXT

URL = "https://example.org/1.jpg"
NBSP = "\u00a0"


def test_a_clean_row_has_no_finding(tmp_path: Path) -> None:
    """Valid cells are read unchanged, without a finding."""
    sheet = sheet_of(
        tmp_path,
        [
            ["id", "name", "status", "category", "category_id", "tags", "photo_urls", "action"],
            [12, "NA", "sold", "Dogs", "3", "1:calm; shy", f"{URL} | {URL}?2", "Update"],
            ["9223372036854775807", "=Bello", None, None, None, "[clear]", "[clear]", None],
            [13, "x", "[clear]", "[clear]", "[clear]", None, None, "merge"],
        ],
    )
    assert list_findings(sheet) == [("Pets!B3", "formula-without-value")]
    frame = sheet.frame
    assert frame.loc[2, "name"] == "NA"
    assert with_whole_tags(frame["tags"])[0] == [Tag(1, "calm"), Tag(None, "shy")]
    assert frame.loc[2, "photo_urls"] == [URL, f"{URL}?2"]
    assert list(frame["action"]) == ["update", "merge"]
    assert (frame.loc[4, "status"], frame.loc[4, "category"]) == ("", CLEAR)
    assert frame.loc[4, "tags"] is None
    assert sheet.blocked_ids == {MAX_ID}


def test_the_frame_has_the_dtypes_of_the_table(tmp_path: Path) -> None:
    """Text is TEXT, numbers `Int64`, lists `object`, rows an int64 index, full or empty."""
    header = "id,name,status,category,category_id,tags,photo_urls,action\n"
    for body in ("", "1,Bello,sold,Dogs,1,calm,u,\n"):
        frame = csv_of(tmp_path, header + body).frame
        assert frame.dtypes.to_dict() == {
            "id": "Int64",
            "name": TEXT,
            "status": TEXT,
            "category": TEXT,
            "category_id": "Int64",
            "tags": "object",
            "photo_urls": "object",
            "action": TEXT,
        }
        assert (frame.index.name, str(frame.index.dtype)) == ("row", "int64")


def test_a_blank_cell_says_nothing(tmp_path: Path) -> None:
    """A missing, a cleared and a given value are three different things, for text and for lists."""
    sheet = csv_of(tmp_path, "id,status,tags\n1,, \n2,[CLEAR], [clear] \n3,sold,calm\n")
    assert sheet.frame["status"].isna().tolist() == [True, False, False]
    assert sheet.frame["status"].tolist()[1:] == ["", "sold"]
    assert with_whole_tags(sheet.frame["tags"]) == [None, [], [Tag(None, "calm")]]
    assert not sheet.problems


def test_a_missing_column_says_nothing(tmp_path: Path) -> None:
    """A sheet has only the columns of its file; the action is always present."""
    sheet = csv_of(tmp_path, "Pet_ID,NAME\n1,Bello\n", mapping={"pet id": "id"})
    assert list(sheet.frame.columns) == ["id", "name", "action"]
    assert sheet.frame["action"].tolist() == ["merge"]


def test_clear_empties_a_field_but_never_a_name(tmp_path: Path) -> None:
    """The marker clears status, category and lists; in a name the marker is an error."""
    sheet = csv_of(
        tmp_path,
        "id,status,category,tags,photo_urls\n1,[clear],[clear],[clear],[clear]\n",
    )
    row = sheet.frame.iloc[0]
    values = [row[name] for name in ("status", "category", "tags", "photo_urls")]
    assert values == ["", CLEAR, [], []]
    assert list_findings(csv_of(tmp_path, "id,name\n1,[Clear] \n")) == [
        ("line 2, column 2", "clear-refused")
    ]


def test_the_clear_marker_is_configurable(tmp_path: Path) -> None:
    """Another marker clears a field, and `[clear]` is then an ordinary text."""
    sheet = csv_of(tmp_path, "id,category\n1,<none>\n2,[clear]\n", clear="<none>")
    assert sheet.frame["category"].tolist() == ["[clear]", "'[clear]"]
    (finding,) = csv_of(tmp_path, "id,tags\n1,[]\n", clear="<none>").problems
    assert finding.suggestion.endswith("or write <none> to empty the field.")


@pytest.mark.parametrize("name", ["NA", "N/A", "nan", "None", "NULL", "null", "TRUE", "-", "0"])
def test_a_pet_may_be_called_na(tmp_path: Path, name: str) -> None:
    """No name becomes a missing value, a number or a boolean; some texts of programs for a missing
    value have a warning.
    """
    for sheet in (
        csv_of(tmp_path, f"id,name\n1,{name}\n"),
        sheet_of(tmp_path, [["id", "name"], ["1", name]]),
    ):
        assert sheet.frame["name"].tolist() == [name]
        rules = [each.rule for each in sheet.problems]
        assert rules == (["placeholder-text"] if name in ("nan", "None", "NULL") else [])


def test_an_id_is_text_or_an_integer(tmp_path: Path) -> None:
    """Digits as text and whole numbers are valid ids."""
    rows = [["id", "category_id"], ["12", "3"], [12_000, 3], [str(MAX_ID), None]]
    sheet = sheet_of(tmp_path, rows)
    assert sheet.frame["id"].tolist() == [12, 12_000, MAX_ID]
    assert sheet.frame["category_id"].tolist()[:2] == [3, 3]
    assert not sheet.problems


def test_a_number_of_more_than_15_digits_is_never_rounded(tmp_path: Path) -> None:
    """A number cell of at most 15 digits is its id; a longer one is an error."""
    sheet = sheet_of(tmp_path, [["id"], [12], [999_999_999_999_999], [-(10**15)]])
    assert sheet.frame["id"].tolist() == [12, 999_999_999_999_999]
    assert list_findings(sheet) == [("Pets!A4", "id-imprecise")]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1,234", "It may be 1234; write the number without separators."),
        ("1.234.567", "It may be 1234567; write the number without separators."),
        ("1 234", "It may be 1234; write the number without separators."),
        ("1'234", "It may be 1234; write the number without separators."),
        ("#12", "It may be 12; write only the number."),
        ("ID 0012", "It may be 12; write only the number."),
        ("Pet-12", "It may be 12; write only the number."),
        ("12 €", "It may be 12; write only the number."),
        ("'12", "It may be 12; write only the number."),
        ("1\u200b2", "It may be 12; write only the number."),
        ("12; 13", "The cell has several numbers; write one number in each row."),
        ("１２", "Write 12, with the digits 0 to 9."),
        ("1O2", "It may be 102: the cell has a letter that looks like a digit."),
        ("12a", "Write the pet's number, or leave the cell blank to add a pet."),
        ("9" * 5000 + "x", "Write the pet's number, or leave the cell blank to add a pet."),
    ],
)
def test_what_is_nearly_an_id_is_suggested_and_never_assumed(
    tmp_path: Path, text: str, meant: str
) -> None:
    """An id with separators, a label, a currency or a look-alike is an error with a suggestion."""
    sheet = csv_of(tmp_path, f'id,name\n"{text}",Bello\n')
    finding = sheet.problems[-1] if sheet.problems[0].rule != "id-not-a-number" else None
    finding = finding or sheet.problems[0]
    assert finding.rule == "id-not-a-number"
    assert finding.suggestion == meant
    assert sheet.unidentified == (2,)


@pytest.mark.parametrize(("text", "value"), [("1.500", 1), ("1E+999999999", 1), ("1e-7", 1)])
def test_an_id_is_never_rounded(tmp_path: Path, text: str, value: int) -> None:
    """An id that may be a fraction, or is out of any range, is an error."""
    sheet = csv_of(tmp_path, f"id,name\n{text},Bello\n")
    assert len(sheet.problems) == sheet.errors == value
    assert not len(sheet)


def test_outer_spaces_do_not_count_on_ids_statuses_and_tags(tmp_path: Path) -> None:
    """Outer spaces of ids, statuses and tags are trimmed, no-break spaces with a warning; a name
    keeps its spaces.
    """
    sheet = csv_of(tmp_path, f"id,name,status,tags\n{NBSP}7, Bello ,{NBSP}sold,{NBSP}a;b\n 8,,,\n")
    assert sheet.frame.iloc[0].tolist()[:3] == [7, " Bello ", "sold"]
    assert with_whole_tags(sheet.frame["tags"])[0] == [Tag(None, "a"), Tag(None, "b")]
    assert sheet.frame["id"].tolist() == [7, 8]
    assert [each.rule for each in sheet.problems] == ["no-break-space"] * 3


def test_a_name_is_sent_as_typed(tmp_path: Path) -> None:
    """A name keeps its accents and its spaces."""
    sheet = csv_of(tmp_path, f"id,name\n7,  Zoe\u0308{NBSP}\n")
    assert sheet.frame["name"].tolist() == [f"  Zoe\u0308{NBSP}"]


def test_a_status_is_folded_and_a_typing_error_gets_a_suggestion(tmp_path: Path) -> None:
    """Case and spaces of a status do not count; a misspelt status is an error with a suggestion."""
    sheet = csv_of(tmp_path, "id,status\n1, SOLD \n2,pendng\n3,zzz\n")
    assert sheet.frame["status"].tolist() == ["sold"]
    assert [each.rule for each in sheet.problems] == [
        "status-spelling",
        "unknown-status",
        "unknown-status",
    ]
    assert sheet.problems[1].suggestion == (
        "Write pending if you mean that. The store's statuses are available, pending, sold."
    )
    hint = sheet.problems[2].suggestion
    assert hint.startswith("The store's statuses are available, pending, sold: write one of them.")
    assert "ask the people who run the store" in hint


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("Reserved", "pending"),
        ("Verkauft", "sold"),
        ("disponible", "available"),
    ],
)
def test_a_common_word_for_a_status_gets_a_hint(tmp_path: Path, word: str, status: str) -> None:
    """A word that shops use for a status is an error whose hint names the status; it is no typing
    error, so it is no suggested correction.
    """
    sheet = csv_of(tmp_path, f"id,status\n1,{word}\n")
    assert sheet.errors == 1
    assert f"write one of them, perhaps {status}." in sheet.problems[0].suggestion
    assert not sheet.suggestions


def test_a_status_that_the_store_has_is_kept(tmp_path: Path) -> None:
    """A status that the store has is valid and gets the store's spelling."""
    text = "id,status\n1,Reserved\n2,reserved\n3,resrved\n"
    sheet = csv_of(tmp_path, text, known_statuses={"Reserved"})
    assert sheet.frame["status"].tolist() == ["Reserved", "Reserved"]
    assert [each.rule for each in sheet.problems] == ["status-spelling", "unknown-status"]
    assert sheet.problems[0].problem.startswith("The status differs from Reserved only in case")
    assert sheet.problems[1].suggestion.startswith("Write Reserved if you mean that.")


def test_tags_are_a_set_and_photos_a_list(tmp_path: Path) -> None:
    """A repeated tag is used once, with a warning; the order of photos is kept."""
    sheet = csv_of(tmp_path, "id,tags,photo_urls\n1,b; a; b,https://e/2 | https://e/1\n")
    assert with_whole_tags(sheet.frame["tags"]) == [[Tag(None, "b"), Tag(None, "a")]]
    assert sheet.frame["photo_urls"].tolist() == [["https://e/2", "https://e/1"]]
    assert [each.rule for each in sheet.problems] == ["tag-repeated"]


@pytest.mark.parametrize("action", ["add", "update", "delete", "ignore", "merge"])
def test_an_action_is_one_of_five(tmp_path: Path, action: str) -> None:
    """Case and spaces around an action do not count."""
    sheet = csv_of(tmp_path, f"id,name,action\n1,Bello, {action.title()} \n")
    assert sheet.frame["action"].tolist() == [action]


def test_a_blank_action_is_merge(tmp_path: Path) -> None:
    """A blank action is merge."""
    assert csv_of(tmp_path, "id,action\n1,\n").frame["action"].tolist() == ["merge"]


def test_rows_that_are_ignored_have_no_problems(tmp_path: Path) -> None:
    """A row with the action `ignore` stays in the frame and has no findings."""
    sheet = csv_of(tmp_path, "id,status,action\n1,ask Petra,Ignore\n1,sold,\nTotal,,ignore\n")
    assert not sheet.problems
    assert sheet.frame["action"].tolist() == ["ignore", "merge", "ignore"]


def test_two_pets_without_an_id_may_be_alike(tmp_path: Path) -> None:
    """Two equal rows without an id are two pets."""
    assert len(csv_of(tmp_path, "name\nBubble\nBubble\n")) == 2


def test_unknown_columns_are_kept_as_text(tmp_path: Path) -> None:
    """Unknown columns of the file are in `others` as text, indexed like the frame."""
    sheet = sheet_of(tmp_path, [["id", "Shelf", "Price"], [1, "A-1", 9.5], [2, None, 12]])
    assert sheet.others["Price"].tolist() == ["9.5", "12"]
    assert sheet.others["Shelf"].tolist() == ["A-1", ""]
    assert sheet.others.index.equals(sheet.frame.index)


def test_a_row_is_named_by_the_line_where_it_begins(tmp_path: Path) -> None:
    """A row number is the line where the row begins, also after quoted breaks and blank lines."""
    text = 'id,name,tags\r\n1,"a\r\nb",x\r\n\r\n,,\r\n2,c,y\r\n3,"[clear]",z'
    sheet = csv_of(tmp_path, text)
    assert sheet.frame.index.tolist() == [2, 6]
    assert sheet.frame["name"].tolist() == ["a\r\nb", "c"]
    assert list_findings(sheet) == [("line 7, column 2", "clear-refused")]


def test_an_apostrophe_says_that_a_text_is_meant(tmp_path: Path) -> None:
    """In a CSV, an apostrophe before a formula, an error or the marker is removed; before other
    text it stays.
    """
    sheet = csv_of(tmp_path, "id,name\n1,'=A1\n2,'#N/A\n3,'[clear]\n4,'tis\n5,'+49\n")
    assert sheet.frame["name"].tolist() == ["=A1", "#N/A", "[clear]", "'tis", "+49"]
    assert list_findings(sheet) == [("line 3, column 2", "error-text")]


def test_a_dataframe_is_judged_by_the_same_rules() -> None:
    """A DataFrame has the rules of a file, except those for damage that programs do to files."""

    from petsync.sheets import sheet_from_frame

    sheet = sheet_from_frame(
        pd.DataFrame({"id": [1, 2, 3], "name": ["#N/A", "01-May", "=A2"], "tags": ["a, b", "", ""]})
    )
    assert list_findings(sheet) == [("row 0, name", "error-text"), ("row 0, tags", "tags-commas")]
    assert sheet.frame["name"].tolist() == ["01-May", "=A2"]


def test_findings_of_the_whole_sheet_come_first(tmp_path: Path) -> None:
    """Findings are in the order of the file: header, rows, columns."""
    sheet = csv_of(tmp_path, "status,id,Nmae\nsolld,x,\nsold,y,\n")
    assert list_findings(sheet) == [
        ("line 1, column 3", "header-near-miss"),
        ("line 2, column 1", "unknown-status"),
        ("line 2, column 2", "id-not-a-number"),
        ("line 3, column 2", "id-not-a-number"),
    ]


def test_nothing_is_read_of_a_sheet_that_has_only_a_header(tmp_path: Path) -> None:
    """A sheet with only a header has no rows, no findings, and stable dtypes in both tables."""
    sheet = csv_of(tmp_path, "id,name\n")
    assert len(sheet) == 0
    assert sheet.findings.dtypes.to_dict() == {
        "address": TEXT,
        "row": "int64",
        "column": TEXT,
        "severity": TEXT,
        "rule": TEXT,
        "value": TEXT,
        "problem": TEXT,
        "suggestion": TEXT,
    }
    assert read_sheet(tmp_path / "pets.csv").errors == 0


def test_unseen_characters_are_named_in_comments_and_in_the_terminal(tmp_path: Path) -> None:
    """Invisible characters have names in the terminal and in comments."""
    header = ["id", "name", "tags"]
    sheet = sheet_of(tmp_path, [header, ["\u00a02038", "Bel\u200blo", "a\u00a0b; a\u00a0b"]])
    text = " ".join(findings_text(sheet).split())
    for shown in ('"[NBSP]2038"', '"Bel[U+200B]lo"', "a[NBSP]b"):
        assert shown in text
    annotate_sheet(sheet, tmp_path / "marked.xlsx")
    marked = openpyxl.load_workbook(tmp_path / "marked.xlsx")["Pets"]
    assert "More than once in this cell: a[NBSP]b." in marked["C2"].comment.text


def test_a_number_format_does_not_hide_that_zeros_may_be_lost(tmp_path: Path) -> None:
    """The finding of a cell that shows 007 for its value 7 reports that only the value counts."""
    book = workbook_of([["id", "name"], [1, 7]])
    book.active["B2"].number_format = "000"
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert list_findings(sheet) == [("Pets!B2", "number-instead-of-text")]
    assert "leading zeros may be lost, even if the cell" in sheet.problems[0].problem
    assert sheet.frame["name"].tolist() == ["7"]


def test_one_of_anything_is_reported_in_the_singular(tmp_path: Path) -> None:
    """One error, warning, row, cell or further finding is written in the singular."""
    sheet = csv_of(tmp_path, "id,name,status\n1\n2,Rex,Sold\n")
    assert "The row has 1 cell where the header has 3" in sheet.problems[0].problem
    text = " ".join(findings_text(sheet).split())
    assert "1 row can be used, 1 row needs fixing; 1 error, 1 warning." in text
    assert table_text(sheet.findings).endswith("1 error and 1 warning in 2 rows.")
    mark = Mark(1, 0, paragraphs=dict.fromkeys("abcdefghi"))
    assert mark.text.endswith("petsync: 1 more finding is listed by petsync check. (more)")
