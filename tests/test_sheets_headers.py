"""Headers: found below titles, matched loosely, near misses suggested, duplicates reported."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest
from effort import growth
from sheetmaking import csv_of, list_findings, sheet_of

from petsync._terms import in_shell
from petsync.errors import SheetError
from petsync.sheets import sheet_from_frame
from petsync.table.sheet import Sheet


def test_headers_match_without_regard_to_case_spaces_and_underscores(tmp_path: Path) -> None:
    """Headers match without regard to case, spaces, underscores and hyphens."""
    sheet = csv_of(tmp_path, "ID,Photo URLs,category-ID,STATUS \n1,,2,sold\n")
    assert list(sheet.frame.columns) == ["id", "status", "category_id", "photo_urls", "action"]
    assert sheet.columns == {"id": "1", "photo_urls": "2", "category_id": "3", "status": "4"}
    assert not sheet.problems


@pytest.mark.parametrize("header", ["photoUrls", "photo_urls", "Photo\u00a0URLs", "PHOTO-URLS"])
def test_photo_urls_has_many_spellings(tmp_path: Path, header: str) -> None:
    """All spellings of the header photo_urls give one column."""
    assert "photo_urls" in csv_of(tmp_path, f"id,{header}\n1,\n").frame


def test_other_headers_by_a_mapping(tmp_path: Path) -> None:
    """A mapping assigns a known column to a header of the file, in any spelling."""
    sheet = csv_of(tmp_path, "Nr.,Tiername\n1,Bello\n", mapping={"nr.": "ID", "tiername": "name"})
    assert sheet.frame.iloc[0].tolist()[:2] == [1, "Bello"]


def test_a_mapping_to_no_column_is_refused(tmp_path: Path) -> None:
    """The error of a mapping to an unknown column names the header, the target and the columns."""
    with pytest.raises(SheetError, match="'Nr' names 'number', which is not a column") as caught:
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
        *(
            (name, "id")
            for name in ("Nummer", "No.", "#", "SKU", "identifier", "N\u00b0", "\u2116")
        ),
        *(
            (name, "id")
            for name in ("\u00ef\u00bb\u00bfid", "n\u00famero", "\uff29\uff24", "Code:")
        ),
        # The byte order mark of UTF-8 in cp1251, cp437 and Mac Roman, and that of UTF-16.
        *(
            (f"{mark}id", "id")
            for mark in ("\u043f\u00bb\u0457", "\u2229\u2557\u2510", "\u00d4\u00aa\u00f8")
        ),
        *((f"{mark}name", "name") for mark in ("\u00ff\u00fe", "\u00fe\u00ff")),
        ("Zustand", "status"),
        ("Cat\u00e9gorie", "category"),
        ("Cat\u00c3\u00a9gorie", "category"),
        ("Schlagw\u00f6rter", "tags"),
        ("Im\u00e1genes", "photo_urls"),
        ("\u0418\u043c\u044f", "name"),
        ("Aktion", "action"),
    ],
)
def test_near_misses_are_suggested_and_never_guessed(
    tmp_path: Path, header: str, ours: str
) -> None:
    """A column with a nearly right header keeps its name, and the finding suggests the known
    header.
    """
    first, second = [name for name in ("id", "status", "tags") if name != ours][:2]
    sheet = csv_of(tmp_path, f"{first},{second},{header}\n,,x\n")
    finding = next(each for each in sheet.problems if each.rule == "header-near-miss")
    assert finding.address == "line 1, column 3"
    assert finding.value == header
    hint = finding.suggestion
    assert hint.startswith(f"Rename it to {ours} if it is that column, or map it (--column ")
    assert hint.endswith(f": {ours!r}}}).")
    assert ours not in sheet.columns
    assert header in sheet.others


@pytest.mark.parametrize("header", ["Shelf", "Price", "Preis", "Notes", "Owner", "Breed", "Age"])
def test_columns_of_the_shop_are_no_near_misses(tmp_path: Path, header: str) -> None:
    """A column for other data of the shop is not a near miss."""
    assert not csv_of(tmp_path, f"id,{header}\n1,x\n").problems


@pytest.mark.parametrize(
    ("header", "ours"),
    [
        ("staus", "status"),
        ("Zustand", "status"),
        ("old status", "status"),
        ("Pet name", "name"),
        ("Tag", "tags"),
    ],
)
def test_a_near_miss_is_reported_beside_the_column_that_it_is_like(
    tmp_path: Path, header: str, ours: str
) -> None:
    """A column like a known column that is present is reported as not used."""
    sheet = csv_of(tmp_path, f"id,name,status,tags,{header}\n1,Bello,sold,calm,x\n")
    (finding,) = sheet.problems
    assert (finding.rule, finding.severity) == ("header-near-miss", "warning")
    assert finding.address == "line 1, column 5"
    assert (
        finding.problem == f"The column '{header}' is not used: the column {ours} is used instead."
    )
    assert finding.suggestion == f"To use its values, move them into the column {ours}."
    assert finding.meant is None
    assert header in sheet.others


@pytest.mark.parametrize("header", ["SKU", "No.", "outcome", "assigned_id", "petsync row"])
def test_other_numbers_and_results_beside_the_ids_are_none(tmp_path: Path, header: str) -> None:
    """Other numbers and results beside an id column are not findings."""
    assert not csv_of(tmp_path, f"id,name,{header}\n1,Bello,2\n").problems


def test_the_header_is_found_under_title_lines(tmp_path: Path) -> None:
    """The header is the row with most of the known headers; addresses count the file's rows."""
    rows = [["Pets of the month", "status: draft"], [], ["Name", "by Petra"], ["id", "name"]]
    sheet = sheet_of(tmp_path, [*rows, [1, "Bello"], [2, "[clear]"]])
    assert sheet.header_row == 4
    assert list_findings(sheet) == [("Pets!B6", "clear-refused")]
    assert sheet.frame.index.tolist() == [5]
    text = "Pets of the month;\n\n;\nid;name\n1;Bello\n2;[clear]\n"
    assert list_findings(csv_of(tmp_path, text)) == [("line 6, column 2", "clear-refused")]


def test_an_unknown_header_row_gets_options_that_read_the_sheet(tmp_path: Path) -> None:
    """The proposed mapping comes from the headers' words, else from the values, and works."""
    text = (
        "Nummer;Rufname;Lage;Bild Adresse;Preis;Notiz\n"
        "1201;Rex;sold;https://x.example/a.jpg;12;a\n"
        "1202;Tom;Available;https://x.example/b.jpg;9;b\n"
    )
    with pytest.raises(SheetError) as caught:
        csv_of(tmp_path, text)
    _, options, argument, *_ = caught.value.cure.splitlines()[-4:]
    assert options == (
        "--column Nummer=id --column Rufname=name --column Lage=status "
        "--column 'Bild Adresse=photo_urls'"
    )
    mapping = ast.literal_eval(argument.removeprefix("mapping="))
    sheet = csv_of(tmp_path, text, mapping=mapping)
    assert list(sheet.frame.columns) == ["id", "name", "status", "photo_urls", "action"]
    assert not sheet.errors


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Nummer,Regal\nA-1,x\nA-2,x\n", ""),  # No ids, and no names: they repeat.
        ("Preis,Tiername\n12,Rex\n12,Tom\n", "--column Tiername=name"),
        ("Wo,Wer,Wie\nhttps://x/1.jpg,Rex,lieb\n", "--column Wo=photo_urls"),  # Two may be names.
        ("Wer,Lage\nRex,sold\nTom,sold\n", "--column Wer=name --column Lage=status"),
        ("Foto,Bild\nhttps://x/1,https://x/2\n", "--column Foto=photo_urls"),
    ],
)
def test_a_mapping_is_proposed_only_where_it_is_clear(
    tmp_path: Path, text: str, options: str
) -> None:
    """A column that may mean several things, or that another one already is, is not proposed."""
    with pytest.raises(SheetError) as caught:
        csv_of(tmp_path, text)
    assert [line for line in caught.value.cure.splitlines() if line.startswith("--")] == (
        [options] if options else []
    )


def test_a_sheet_without_a_known_header_is_refused_with_what_may_be_meant(tmp_path: Path) -> None:
    """The error of a sheet without a known header shows the row most like one, and suggestions."""
    with pytest.raises(
        SheetError, match="no column has a header that petsync recognises"
    ) as caught:
        csv_of(tmp_path, "Our pets\n\nNmae,Staus,Preis\nBello,sold,3\n")
    assert "line 3 has 'Nmae', 'Staus', 'Preis'" in caught.value.message
    options, argument = "--column Nmae=name --column Staus=status", "mapping={'Nmae': 'name', "
    assert f":\n{options}\nOtherwise" in in_shell(caught.value.cure)
    assert f"right, pass them:\n{argument}" in caught.value.hint
    assert "--column" not in caught.value.hint
    with pytest.raises(SheetError, match="row 2 has 'a', 'b'"):
        sheet_of(tmp_path, [[], ["a", "b"], [1, 2]])
    with pytest.raises(SheetError, match="row 6 has 'Naame', 'b'"):
        sheet_of(tmp_path, [[], [], [], ["Our pets"], [], ["Naame", "b"], [1, 2]])
    with pytest.raises(SheetError, match="line 3 has 'foo', 'bar'"):
        csv_of(tmp_path, "\n\nfoo,bar\n1,2\n")
    with pytest.raises(SheetError, match="its first rows are empty"):
        sheet_of(tmp_path, [[]])
    with pytest.raises(SheetError, match="its columns are 'a', 'b'"):
        sheet_from_frame(pd.DataFrame({"a": [1], "b": [2]}))


def test_two_headers_that_mean_the_same_are_named(tmp_path: Path) -> None:
    """All headers for the same column are named with their columns, and none is chosen."""
    with pytest.raises(SheetError) as caught:
        sheet_of(tmp_path, [["Name", "id", "NAME ", "Id", "name"], ["a", 1, "b", 2, "c"]])
    assert caught.value.message.endswith(
        "three columns mean name: 'Name' in column A, 'NAME' in column C and 'name' in column E; "
        "two columns mean id: 'id' in column B and 'Id' in column D"
    )
    assert "Keep one of them" in caught.value.hint


def test_other_headers_that_are_there_twice_are_numbered(tmp_path: Path) -> None:
    """Unknown columns with the same header are all kept, with numbers."""
    sheet = csv_of(tmp_path, "id,Note,Note,Note (2),Note\n1,a,b,c,d\n")
    assert sheet.others.iloc[0].to_dict() == {
        "Note": "a",
        "Note (3)": "b",
        "Note (4)": "d",
        "Note (2)": "c",
    }


@pytest.mark.slow
def test_very_many_headers_are_read_in_time(tmp_path: Path) -> None:
    """The time to read headers grows linearly, for equal and for different headers."""
    for name in ("x", "column {}"):

        def read(count: int, name: str = name) -> Sheet:
            names = ",".join(name.format(n) for n in range(count))
            return csv_of(tmp_path, f"id,{names}\n1" + "," * count)

        assert growth(read, 500) < 5
        assert len(read(16_000)) == 1


IDS = "Nr,name,status\n1001,Bello,sold\n1002,Mia,sold\n"


def test_a_column_of_numbers_is_pointed_out_where_no_column_has_ids(tmp_path: Path) -> None:
    """A column of numbers in a sheet without ids is reported, as each row would be a new pet."""
    sheet = csv_of(tmp_path, IDS.replace("Nr", "Regal"))
    assert list_findings(sheet) == [("line 1, column 1", "header-numbers")]
    assert "Rename 'Regal' to id" in sheet.problems[0].suggestion
    assert "unused column 1 ('Regal')" in sheet.problems[0].problem


@pytest.mark.parametrize(
    "text",
    [
        IDS.replace("Nr", "id"),
        "Regal,name,status\n3,Bello,sold\n3,Mia,sold\n",
        "Regal,name,status\nA1,Bello,sold\n2,Mia,sold\n",
        "Regal,name,status\n1.5,Bello,sold\n2,Mia,sold\n",
        "name,outcome,message,assigned_id,row\nBello,,,,2\nMia,,,,3\n",
    ],
)
def test_other_columns_of_numbers_are_the_shops_own(tmp_path: Path, text: str) -> None:
    """Numbers beside ids, with repeats, with other texts or of results are not findings."""
    assert "header-numbers" not in {rule for _, rule in list_findings(csv_of(tmp_path, text))}


@pytest.mark.parametrize(
    "text",
    [
        IDS.replace("Nr", "assigned_id"),
        IDS.replace("Nr", "row"),
        IDS.replace("Nr", "petsync row"),
        "name,status,outcome,message,assigned_id,row\nBello,sold,,,1001,2\nMia,sold,,,1002,3\n",
        "name,status,{0}outcome,{0}message,{0}assigned_id,{0}row\nMia,sold,,,1001,2\n".format(
            "petsync "
        ),
    ],
)
def test_ids_under_the_header_of_a_result_are_pointed_out(tmp_path: Path, text: str) -> None:
    """Numbers under a header of results are reported, unless all results are present; assigned ids
    are then reported, and the row numbers never.
    """
    ((_, rule),) = list_findings(csv_of(tmp_path, text))
    assert rule == "header-numbers"


def test_a_mapping_of_a_header_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A mapping of a missing header is refused, even where its target column exists; `defaults` may
    name missing headers.
    """
    with pytest.raises(SheetError, match="no column has the header 'Foo'") as caught:
        csv_of(tmp_path, IDS, mapping={"nr": "id", "Foo": "name"})
    assert "'Nr', 'name', 'status'" in caught.value.hint
    assert csv_of(tmp_path, IDS, defaults={"nr": "id", "Foo": "name"}).mapping == {"nr": "id"}
