"""Every rule: found at its address, beside the others of its row, and without false alarms."""

import datetime as dt

import openpyxl
import pandas as pd
import pytest

from petsync.model import Tag
from petsync.sheets import read_sheet
from petsync.sheets.rules import RULES

URL = "https://example.org/1.jpg"
NBSP = "\u00a0"


def sheet_of(tmp_path, rows, **options):
    """Read rows that were put into a workbook cell by cell, the first of them the header."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.active.title = "Pets"
    path = tmp_path / "pets.xlsx"
    book.save(path)
    return read_sheet(path, **options)


def csv_of(tmp_path, text, **options):
    """Read a text that was written as CSV."""
    path = tmp_path / "pets.csv"
    path.write_bytes(text.encode())
    return read_sheet(path, **options)


def found(sheet):
    """The findings as rule by address."""
    return [(each.address, each.rule) for each in sheet.problems]


# For each rule: the header, a row that breaks it, and the address of the cell.
IN_WORKBOOKS = {
    "error-cell": (["id", "name"], [7, "#REF!"], "B2"),
    "formula-without-value": (["id", "name"], [7, '="Bel"&"lo"'], "B2"),
    "date-instead-of-text": (["id", "name"], [7, dt.date(2026, 5, 1)], "B2"),
    "boolean-instead-of-text": (["id", "name"], [7, True], "B2"),
    "number-instead-of-text": (["id", "name"], [7, 12], "B2"),
    "number-imprecise": (["id", "name"], [7, 1234567890123456789], "B2"),
    "nul-character": (["id", "name"], [7, "Bel_x0000_lo"], "B2"),
    "damaged-characters": (["id", "name"], [7, "ZoÃ«"], "B2"),
    "decomposed-characters": (["id", "name"], [7, "Zoe\u0308"], "B2"),
    "no-break-space": (["id", "status"], [7, "sold" + NBSP], "B2"),
    "clear-refused": (["id", "name"], [7, "[clear]"], "B2"),
    "id-not-a-number": (["id", "name"], ["new", "Bello"], "A2"),
    "id-fraction": (["id", "name"], [12.5, "Bello"], "A2"),
    "id-scientific": (["id", "name"], ["1.2E+3", "Bello"], "A2"),
    "id-imprecise": (["id", "name"], [10**15, "Bello"], "A2"),
    "id-out-of-range": (["id", "name"], ["9223372036854775808", "Bello"], "A2"),
    "id-not-a-cell": (["id", "name"], [dt.date(2026, 5, 1), "Bello"], "A2"),
    "id-decimal": (["id", "name"], ["12.0", "Bello"], "A2"),
    "id-respelled": (["id", "name"], ["007", "Bello"], "A2"),
    "name-missing": (["id", "name", "status"], [None, " ", "sold"], "B2"),
    "name-long": (["id", "name"], [7, "x" * 256], "B2"),
    "unknown-status": (["id", "status"], [7, "availabel"], "B2"),
    "status-spelling": (["id", "status"], [7, "Sold "], "B2"),
    "category-contradiction": (["id", "category", "category_id"], [7, "Dogs", "[clear]"], "C2"),
    "tags-unreadable": (["id", "tags"], [7, '"calm; shy'], "B2"),
    "tag-repeated": (["id", "tags"], [7, "calm; shy; calm"], "B2"),
    "tags-separators": (["id", "tags"], [7, "calm;; shy"], "B2"),
    "photos-unreadable": (["id", "photo_urls"], [7, '"https://example.org'], "B2"),
    "photo-repeated": (["id", "photo_urls"], [7, f"{URL}\n{URL}"], "B2"),
    "photo-not-an-address": (["id", "photo_urls"], [7, r"C:\Photos\Bello.jpg"], "B2"),
    "unknown-action": (["id", "name", "action"], [7, "Bello", "remove"], "C2"),
    "header-near-miss": (["id", "name", "Staus"], [7, "Bello", "sold"], "C1"),
    "header-missing": (["id", "name", None], [7, "Bello", "sold"], "C1"),
}


@pytest.mark.parametrize("rule", IN_WORKBOOKS)
def test_each_rule_is_found_at_its_address(tmp_path, rule):
    """A cell that breaks a rule is found there, blocks its row if it is an error, and helps."""
    header, row, place = IN_WORKBOOKS[rule]
    sheet = sheet_of(tmp_path, [header, row])
    assert [each.rule for each in sheet.problems] == [rule]
    finding = sheet.problems[0]
    assert finding.address == f"Pets!{place}"
    assert finding.severity == RULES[rule].severity
    assert finding.problem
    assert finding.suggestion
    assert (2 in sheet.blocked) == (finding.severity == "error")
    assert (2 in sheet.frame.index) == (finding.severity == "warning")


def test_every_rule_is_tested():
    """The table of rules has no rule that these tests do not break."""
    elsewhere = {
        "ragged-row",
        "broken-quote",
        "duplicate-id",
        "duplicate-row",
        "merged-cells",
        "hidden-rows",
    }
    assert set(IN_WORKBOOKS) | elsewhere == set(RULES)
    assert all(rule.meaning and rule.example and rule.cure for rule in RULES.values())


def test_a_clean_row_has_no_finding(tmp_path):
    """What is right is read as it is, without a finding."""
    sheet = sheet_of(
        tmp_path,
        [
            ["id", "name", "status", "category", "category_id", "tags", "photo_urls", "action"],
            [12, "NA", "sold", "Dogs", "3", "1:calm; shy", f"{URL} | {URL}?2", "Update"],
            ["9223372036854775807", "=Bello", None, None, None, "[clear]", "[clear]", None],
            [13, "x", "[clear]", "[clear]", "[clear]", None, None, "merge"],
        ],
    )
    assert found(sheet) == [("Pets!B3", "formula-without-value")]
    frame = sheet.frame
    assert frame.loc[2, "name"] == "NA"
    assert frame.loc[2, "tags"] == [Tag(1, "calm"), Tag(None, "shy")]
    assert frame.loc[2, "photo_urls"] == [URL, f"{URL}?2"]
    assert list(frame["action"]) == ["update", "merge"]
    assert frame.loc[4, "status"] == frame.loc[4, "category"] == ""
    assert frame.loc[4, "tags"] is None
    assert sheet.blocked_ids == {2**63 - 1}
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {
        "id": "Int64",
        "name": "str",
        "status": "str",
        "category": "str",
        "category_id": "Int64",
        "tags": "object",
        "photo_urls": "object",
        "action": "str",
    }
    assert (frame.index.name, str(frame.index.dtype)) == ("row", "int64")


def test_a_blank_cell_says_nothing_and_clear_says_empty(tmp_path):
    """Missing, empty and given are three things, for text and for lists."""
    sheet = csv_of(tmp_path, "id,status,tags\n1,,\n2,[CLEAR], [clear] \n3,sold,calm\n")
    assert sheet.frame["status"].isna().tolist() == [True, False, False]
    assert sheet.frame["status"].tolist()[1:] == ["", "sold"]
    assert sheet.frame["tags"].tolist() == [None, [], [Tag(None, "calm")]]
    assert not sheet.problems


def test_the_clear_marker_is_configurable(tmp_path):
    """Another marker empties, and `[clear]` is then a text like any other."""
    sheet = csv_of(tmp_path, "id,category\n1,<none>\n2,[clear]\n", clear="<none>")
    assert sheet.frame["category"].tolist() == ["", "[clear]"]


def test_a_missing_column_is_not_in_the_frame(tmp_path):
    """A sheet is compared only on the columns that it has; the action is always there."""
    sheet = csv_of(tmp_path, "Pet_ID,NAME\n1,Bello\n", mapping={"pet id": "id"})
    assert list(sheet.frame.columns) == ["id", "name", "action"]
    assert sheet.frame["action"].tolist() == ["merge"]


def test_all_problems_of_a_row_are_reported(tmp_path):
    """No problem hides another one in the same row."""
    sheet = csv_of(tmp_path, 'id,name,status,tags,action\nx,[clear],solld,"""a",zap\n')
    assert [each.rule for each in sheet.problems] == [
        "id-not-a-number",
        "clear-refused",
        "unknown-status",
        "tags-unreadable",
        "unknown-action",
    ]
    assert sheet.errors == 5
    assert sheet.findings["row"].tolist() == [2] * 5


def test_rows_that_are_ignored_have_no_problems(tmp_path):
    """`ignore` keeps a row in the frame, and its cells are nobody's problem."""
    sheet = csv_of(tmp_path, "id,status,action\n1,ask Petra,Ignore\n1,sold,\n")
    assert not sheet.problems
    assert sheet.frame["action"].tolist() == ["ignore", "merge"]


@pytest.mark.parametrize("action", ["add", "update", "delete", "ignore", "merge"])
def test_each_action_is_read(tmp_path, action):
    """Case and spaces around an action do not count."""
    sheet = csv_of(tmp_path, f"id,name,action\n1,Bello, {action.title()} \n")
    assert sheet.frame["action"].tolist() == [action]


def test_statuses_that_the_store_has_are_kept(tmp_path):
    """A known status is kept as the store spells it; a typing error gets a suggestion."""
    text = "id,status\n1,Reserved\n2,reserved\n3,availabel\n4,zzz\n"
    sheet = csv_of(tmp_path, text, known_statuses={"Reserved"})
    assert sheet.frame["status"].tolist() == ["Reserved", "Reserved"]
    assert [each.rule for each in sheet.problems] == [
        "status-spelling",
        "unknown-status",
        "unknown-status",
    ]
    assert sheet.problems[1].suggestion.startswith("Write available ")
    assert sheet.problems[2].suggestion == ("The statuses are available, pending, sold, Reserved.")


def test_duplicate_ids_block_every_row_and_name_all_addresses(tmp_path):
    """Rows that disagree about a pet are all kept out, each naming the others."""
    sheet = csv_of(tmp_path, "id,name\n7,Bello\n8,Rex\n7.0,Bella\n7,Bello\n")
    rules = [(each.row, each.rule) for each in sheet.problems]
    assert rules == [
        (2, "duplicate-id"),
        (4, "id-decimal"),
        (4, "duplicate-id"),
        (5, "duplicate-id"),
    ]
    assert sheet.blocked == (2, 4, 5)
    assert sheet.blocked_ids == {7}
    assert sheet.frame.index.tolist() == [3]
    for address in ("line 2, column 1", "line 4, column 1", "line 5, column 1"):
        assert address in sheet.problems[0].problem


def test_identical_rows_collapse(tmp_path):
    """A row that stands there twice, word for word in our columns, is used once."""
    sheet = csv_of(tmp_path, "id,name,shelf\n7,Bello,1\n7,Bello,2\n")
    assert found(sheet) == [("line 3, column 1", "duplicate-row")]
    assert sheet.frame.index.tolist() == [2]
    assert not sheet.blocked


def test_rows_without_an_id_may_be_alike(tmp_path):
    """Two goldfish of the same name are two pets."""
    assert len(csv_of(tmp_path, "name\nBubble\nBubble\n")) == 2


def test_a_name_is_kept_as_typed(tmp_path):
    """Spaces around a name are not rewritten, nor its accents; ids and statuses are trimmed."""
    sheet = csv_of(tmp_path, f"id,name,status,tags\n{NBSP}7, Bello ,{NBSP}sold,{NBSP}a;b\n")
    assert sheet.frame.iloc[0].tolist()[:3] == [7, " Bello ", "sold"]
    assert sheet.frame.iloc[0]["tags"] == [Tag(None, "a"), Tag(None, "b")]
    assert [each.rule for each in sheet.problems] == ["no-break-space"] * 3


def test_numbers_in_a_workbook_are_exact(tmp_path):
    """A whole number cell is its id; 15 digits are sure, 16 are not."""
    sheet = sheet_of(tmp_path, [["id"], [12], [999_999_999_999_999], [-(10**15)]])
    assert sheet.frame["id"].tolist() == [12, 999_999_999_999_999]
    assert found(sheet) == [("Pets!A4", "id-imprecise")]


def test_headers_match_loosely(tmp_path):
    """Case, spaces, underscores and hyphens in a header do not count."""
    sheet = csv_of(tmp_path, "ID,Photo URLs,category-ID,STATUS \n1,,2,sold\n")
    assert list(sheet.frame.columns) == ["id", "status", "category_id", "photo_urls", "action"]
    assert sheet.columns == {"id": "1", "photo_urls": "2", "category_id": "3", "status": "4"}


def test_near_misses_are_suggested_and_never_guessed(tmp_path):
    """A header that is nearly ours is not used; the finding says what may be meant."""
    sheet = csv_of(tmp_path, "id,nmae,photo url\n1,Bello,x\n")
    assert list(sheet.frame.columns) == ["id", "action"]
    assert [each.rule for each in sheet.problems] == ["header-near-miss"] * 2
    assert "Rename it to name" in sheet.problems[0].suggestion
    assert "Rename it to photo_urls" in sheet.problems[1].suggestion
    assert list(sheet.others.columns) == ["nmae", "photo url"]


def test_unknown_columns_are_kept_as_text(tmp_path):
    """The file's further columns are in `others`, indexed like the frame."""
    sheet = sheet_of(tmp_path, [["id", "Shelf", "Price"], [1, "A-1", 9.5], [2, None, 12]])
    assert sheet.others["Price"].tolist() == ["9.5", "12"]
    assert sheet.others["Shelf"].tolist() == ["A-1", ""]
    pd.testing.assert_index_equal(sheet.others.index, sheet.frame.index)


def test_title_lines_above_the_header_are_passed_over(tmp_path):
    """The header is the row that names most of our columns; addresses count from the file."""
    rows = [["Pets of the month"], [], ["id", "name"], [1, "Bello"], [2, "[clear]"]]
    sheet = sheet_of(tmp_path, rows)
    assert sheet.header_row == 3
    assert found(sheet) == [("Pets!B5", "clear-refused")]
    assert sheet.frame.index.tolist() == [4]


def test_merged_cells_block_the_rows_they_cover(tmp_path):
    """Only the first of merged cells has a value; what the others mean is not guessed."""
    book = openpyxl.Workbook()
    for row in (["id", "name"], [1, "Bello"], [2, None], [3, "Rex"]):
        book.active.append(row)
    book.active.merge_cells("B2:B3")
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert found(sheet) == [("Sheet!B3", "merged-cells")]
    assert sheet.blocked_ids == {2}
    assert sheet.frame["id"].tolist() == [1, 3]


def test_hidden_rows_count_and_are_pointed_out(tmp_path):
    """A row that a filter hides is read like the others, with one warning for the sheet."""
    book = openpyxl.Workbook()
    for row in (["id", "name"], [1, "Bello"], [2, "Rex"]):
        book.active.append(row)
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert [each.rule for each in sheet.problems] == ["hidden-rows"]
    assert len(sheet) == 2


def test_ragged_rows_block_themselves(tmp_path):
    """A row with a cell too many or too few is not used; blank ones at its end do no harm."""
    sheet = csv_of(tmp_path, "id,name,status\n1,Bello, the dog,sold\n2,Rex\n3,Mia,sold,,\n")
    assert found(sheet) == [
        ("line 2, column 1", "ragged-row"),
        ("line 2, column 3", "unknown-status"),
        ("line 3, column 1", "ragged-row"),
    ]
    assert sheet.frame["id"].tolist() == [3]
    assert sheet.blocked_ids == {1, 2}


def test_a_broken_quote_blocks_its_row(tmp_path):
    """Text behind a closing quote is not guessed at; the following rows are read."""
    sheet = csv_of(tmp_path, 'id,name\n1,"Bello" the dog\n2,"say ""hi"""\n')
    assert found(sheet) == [("line 2, column 1", "broken-quote")]
    assert sheet.frame["name"].tolist() == ['say "hi"']


def test_an_error_cell_in_an_id_is_not_blank(tmp_path):
    """An id cell with an error does not make its row an addition."""
    sheet = sheet_of(tmp_path, [["name", "id"], ["Bello", "#N/A"], ["Rex", "=A1"]])
    assert found(sheet) == [("Pets!B2", "error-cell"), ("Pets!B3", "formula-without-value")]
    assert not len(sheet)


def test_a_cell_that_is_no_text_is_judged_once(tmp_path):
    """A date over a status is a date, and not an unknown status as well."""
    day = dt.date(2026, 5, 1)
    sheet = sheet_of(tmp_path, [["id", "status", "tags", "action"], [1, day, day, day]])
    assert [each.rule for each in sheet.problems] == ["date-instead-of-text"] * 3


def test_error_cells_at_the_edge_of_the_table_are_found(tmp_path):
    """A row or a column in which nothing but errors stands is not taken for blank."""
    sheet = sheet_of(tmp_path, [["id", "name", "tags"], [1, "Bello", "#N/A"], [None, "#REF!"]])
    assert found(sheet) == [("Pets!C2", "error-cell"), ("Pets!B3", "error-cell")]


def test_row_numbers_are_lines_where_records_begin(tmp_path):
    """Quoted line breaks and blank lines move the numbers as an editor shows them."""
    text = 'id,name,tags\r\n1,"a\r\nb",x\r\n\r\n,,\r\n2,c,y\r\n3,"[clear]",z'
    sheet = csv_of(tmp_path, text)
    assert sheet.frame.index.tolist() == [2, 6]
    assert sheet.frame["name"].tolist() == ["a\r\nb", "c"]
    assert found(sheet) == [("line 7, column 2", "clear-refused")]


def test_a_suggestion_is_made_for_a_number_with_separators(tmp_path):
    """1,234 is not read as 1234, but it is suggested."""
    sheet = csv_of(tmp_path, 'id,name\n"1,234",Bello\n')
    assert sheet.problems[0].rule == "id-not-a-number"
    assert "1234" in sheet.problems[0].suggestion


def test_the_repaired_text_is_suggested(tmp_path):
    """A name that was decoded wrongly comes with what it may have been."""
    sheet = csv_of(tmp_path, "id,name\n1,ZoÃ«\n")
    assert "'Zoë'" in sheet.problems[0].suggestion
