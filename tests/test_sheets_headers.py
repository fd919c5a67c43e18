"""Headers: found under titles, matched loosely, near misses suggested, doubles named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sheetmaking import csv_of, found, sheet_of

from petsync.errors import SheetError


def test_headers_match_without_regard_to_case_spaces_and_underscores(tmp_path: Path) -> None:
    """Case, spaces, underscores and hyphens in a header do not count."""
    sheet = csv_of(tmp_path, "ID,Photo URLs,category-ID,STATUS \n1,,2,sold\n")
    assert list(sheet.frame.columns) == ["id", "status", "category_id", "photo_urls", "action"]
    assert sheet.columns == {"id": "1", "photo_urls": "2", "category_id": "3", "status": "4"}
    assert not sheet.problems


@pytest.mark.parametrize("header", ["photoUrls", "photo_urls", "Photo\u00a0URLs", "PHOTO-URLS"])
def test_photo_urls_has_many_spellings(tmp_path: Path, header: str) -> None:
    """All spellings of one header are one column."""
    assert "photo_urls" in csv_of(tmp_path, f"id,{header}\n1,\n").frame


def test_other_headers_by_a_mapping(tmp_path: Path) -> None:
    """A mapping gives our column for a header of the file, however it is spelt."""
    sheet = csv_of(tmp_path, "Nr.,Tiername\n1,Bello\n", mapping={"nr.": "ID", "tiername": "name"})
    assert sheet.frame.iloc[0].tolist()[:2] == [1, "Bello"]


def test_a_mapping_to_no_column_is_refused(tmp_path: Path) -> None:
    """The error names the header, what it was mapped to, and the columns that there are."""
    with pytest.raises(SheetError, match="'Nr' names 'number', which is no column") as caught:
        csv_of(tmp_path, "Nr\n1\n", mapping={"Nr": "number"})
    assert "The columns are: id, name" in caught.value.hint


@pytest.mark.parametrize(
    ("header", "ours"),
    [
        ("nmae", "name"),
        ("Staus", "status"),
        ("photo url", "photo_urls"),
        ("Tag", "tags"),
        ("categorie", "category"),
        ("Pet ID", "id"),
        ("Pet name", "name"),
        ("Images", "photo_urls"),
        ("St\u0430tus", "status"),
    ],
)
def test_near_misses_are_suggested_and_never_guessed(
    tmp_path: Path, header: str, ours: str
) -> None:
    """The column is kept under its own name; the finding says what may be meant."""
    rest = "status" if ours == "id" else "id"
    sheet = csv_of(tmp_path, f"{rest},name,{header}\n,Bello,x\n".replace(f",{ours},", ",action,"))
    finding = next(each for each in sheet.problems if each.rule == "header-near-miss")
    assert finding.address == "line 1, column 3"
    assert finding.value == header
    assert finding.suggestion == f"Rename it to {ours} if that is meant, or map it."
    assert ours not in sheet.frame
    assert header in sheet.others


@pytest.mark.parametrize("header", ["Shelf", "Price", "Preis", "Notes", "Owner", "Breed", "Age"])
def test_columns_of_the_shop_are_no_near_misses(tmp_path: Path, header: str) -> None:
    """What people keep beside the catalogue is theirs."""
    assert not csv_of(tmp_path, f"id,{header}\n1,x\n").problems


def test_a_near_miss_of_a_column_that_is_there_is_none(tmp_path: Path) -> None:
    """Beside `name` a column `Pet name` is the shop's own."""
    assert not csv_of(tmp_path, "id,name,Pet name\n1,Bello,B.\n").problems


def test_the_header_is_found_under_title_lines(tmp_path: Path) -> None:
    """The header is the row that names most of our columns; addresses count from the file."""
    rows = [["Pets of the month", "status: draft"], [], ["Name", "by Petra"], ["id", "name"]]
    sheet = sheet_of(tmp_path, [*rows, [1, "Bello"], [2, "[clear]"]])
    assert sheet.header_row == 4
    assert found(sheet) == [("Pets!B6", "clear-refused")]
    assert sheet.frame.index.tolist() == [5]
    text = "Pets of the month;\n\n;\nid;name\n1;Bello\n2;[clear]\n"
    assert found(csv_of(tmp_path, text)) == [("line 6, column 2", "clear-refused")]


def test_a_sheet_without_a_known_header_is_refused_with_what_may_be_meant(tmp_path: Path) -> None:
    """The error shows the row that is most like a header, under whatever titles."""
    with pytest.raises(SheetError, match="no column has a header that petsync knows") as caught:
        csv_of(tmp_path, "Our pets\n\nNmae,Staus,Preis\nBello,sold,3\n")
    assert "row 3 of it holds 'Nmae', 'Staus', 'Preis'" in caught.value.message
    assert caught.value.hint.startswith("'Nmae' may mean name. 'Staus' may mean status. The colum")
    with pytest.raises(SheetError, match="the first row holds 'a', 'b'"):
        sheet_of(tmp_path, [[], ["a", "b"], [1, 2]])


def test_two_headers_that_mean_the_same_are_named(tmp_path: Path) -> None:
    """All of them at once, with their columns: which one counts is not guessed."""
    with pytest.raises(SheetError) as caught:
        sheet_of(tmp_path, [["Name", "id", "NAME ", "Id", "name"], ["a", 1, "b", 2, "c"]])
    assert caught.value.message.endswith(
        "three columns mean name: 'Name' in column A, 'NAME' in column C and 'name' in column E; "
        "two columns mean id: 'id' in column B and 'Id' in column D"
    )
    assert "Keep one of them" in caught.value.hint


def test_other_headers_that_are_there_twice_are_numbered(tmp_path: Path) -> None:
    """No column of the shop's is lost, whatever it is called."""
    sheet = csv_of(tmp_path, "id,Note,Note,Note (2),Note\n1,a,b,c,d\n")
    assert sheet.others.iloc[0].to_dict() == {
        "Note": "a",
        "Note (3)": "b",
        "Note (4)": "d",
        "Note (2)": "c",
    }


def test_very_many_headers_are_read_in_time(tmp_path: Path) -> None:
    """Neither equal nor different headers take longer the more there are."""
    for names in (["x"] * 16_000, [f"column {n}" for n in range(16_000)]):
        start = time.perf_counter()
        csv_of(tmp_path, f"id,{','.join(names)}\n1" + "," * 16_000)
        assert time.perf_counter() - start < 10
