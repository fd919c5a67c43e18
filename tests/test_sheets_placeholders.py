"""The clear marker beside other items, and texts that stand for a missing value."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from sheetmaking import csv_of, list_findings, sheet_of, with_whole_tags
from shop import snapshot_of

from petsync.models import Category, Pet, Tag
from petsync.sheets import read_sheet, sheet_from_frame, write_sheet
from petsync.table.frame import frame_from_pets

URL = "https://example.org/1.jpg"


@pytest.mark.parametrize(
    "text",
    ["[clear];", "[clear]; shy", "a;[CLEAR]", "7:a; [clear]; b", "a\n[clear]", '"a"; [clear]'],
)
def test_a_marker_beside_tags_blocks_its_row(tmp_path: Path, text: str) -> None:
    """A clear marker beside tags is ambiguous, so its row is blocked."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text], [2, "[clear]"]])
    assert ("Pets!B2", "clear-beside-others") in list_findings(sheet)
    assert sheet.blocked == (2,)
    assert sheet.frame["tags"].tolist() == [[]]


def test_a_marker_beside_photos_blocks_its_row(tmp_path: Path) -> None:
    """A clear marker beside photo addresses is ambiguous, so its row is blocked."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, f"[clear]\n{URL}"], [2, URL]])
    assert ("Pets!B2", "clear-beside-others") in list_findings(sheet)
    assert sheet.blocked == (2,)


@pytest.mark.parametrize(
    "text", ['"[clear]"; shy', "see [clear]; shy", '"a; [clear]; b"', "7:[clear]; shy"]
)
def test_what_is_no_marker_is_a_tag(tmp_path: Path, text: str) -> None:
    """A tag in quotes, with an id or with more words may contain the marker's text."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text]])
    assert not sheet.problems
    assert any("[clear]" in tag.name for tag in sheet.frame["tags"].iloc[0])


def test_another_marker_is_refused_beside_tags(tmp_path: Path) -> None:
    """A configured marker must be alone in its cell; [clear] is then a tag."""
    text = "id,tags\n1,Leeren; shy\n2,[clear]; shy\n3,leeren\n"
    sheet = csv_of(tmp_path, text, clear="LEEREN")
    assert list_findings(sheet) == [("line 2, column 2", "clear-beside-others")]
    assert sheet.problems[0].suggestion.startswith("Write only LEEREN to empty the field")
    assert with_whole_tags(sheet.frame["tags"]) == [[Tag(None, "[clear]"), Tag(None, "shy")], []]


TAGS = [
    ["[clear]", "shy"],
    ["shy", "[CLEAR]"],
    ["[clear]", "'[clear]"],
    ["[clear]\nx", "a;b"],
    ["x | [Clear]", "y"],
    ["[clear]"],
    ["", "[clear]"],
]


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_tags_called_like_the_marker_come_back(tmp_path: Path, suffix: str) -> None:
    """Tags and addresses with the marker's text come back from an export, alone or in a list."""
    pets = [
        Pet(id=n, name="x", tags=tuple(Tag(None, name) for name in names), photo_urls=tuple(names))
        for n, names in enumerate(TAGS)
    ]
    write_sheet(frame_from_pets(pets), tmp_path / f"pets{suffix}")
    sheet = read_sheet(tmp_path / f"pets{suffix}")
    assert not sheet.errors
    assert [[tag.name for tag in tags] for tags in sheet.frame["tags"]] == TAGS
    assert sheet.frame["photo_urls"].tolist() == TAGS


def test_a_dataframe_says_such_tags_too() -> None:
    """A list in a DataFrame holds texts and never the marker."""
    frame = pd.DataFrame({"id": range(len(TAGS)), "tags": TAGS, "photo_urls": TAGS})
    sheet = sheet_from_frame(frame)
    assert not sheet.errors
    assert [[tag.name for tag in tags] for tags in sheet.frame["tags"]] == TAGS
    assert sheet.frame["photo_urls"].tolist() == TAGS


@pytest.mark.parametrize("text", ["-", " -- ", "N/A", "null", "?", "TBD", "none", "\u2014"])
def test_a_placeholder_is_pointed_out(tmp_path: Path, text: str) -> None:
    """A placeholder as category or tag is used unchanged with a warning; as a name it is no
    finding.
    """
    rows = [["id", "name", "category", "tags"], [1, text, text, f"shy; {text}"]]
    sheet = sheet_of(tmp_path, rows)
    assert list_findings(sheet) == [
        ("Pets!C2", "placeholder-text"),
        ("Pets!D2", "placeholder-text"),
    ]
    assert f'"{text.strip()}" is read as a tag' in sheet.problems[1].problem
    assert sheet.problems[1].suggestion == f'Delete "{text.strip()}" if it is not a tag.'
    assert sheet.frame["category"].tolist() == [text]


def test_what_only_looks_like_a_placeholder_is_none(tmp_path: Path) -> None:
    """A category NA, and tags with an id or more letters, are not placeholders."""
    sheet = sheet_of(tmp_path, [["id", "category", "tags"], [1, "NA", "7:?; nonesuch; -shy"]])
    assert not sheet.problems


TAGS_IN_BRACKETS = {
    "[calm]": "calm",
    "[calm; friendly]": "calm; friendly",
    "[calm, friendly]": "calm; friendly",
    " {calm,friendly} ": "calm; friendly",
    "(calm; friendly)": "calm; friendly",
    "Tag(1, 'calm')": "1:calm",
    "[Tag(id=1, name='calm')]": "1:calm",
    "array(['calm', 'shy'], dtype=object)": "calm; shy",
    "{'id': 1, 'name': 'calm'}": "1:calm",
}


@pytest.mark.parametrize(("text", "meant"), TAGS_IN_BRACKETS.items())
def test_tags_in_brackets_are_a_list(tmp_path: Path, text: str, meant: str) -> None:
    """Brackets around all tags block the row, and the tags without them are suggested."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text], [2, "shy"]])
    assert list_findings(sheet) == [("Pets!B2", "list-text")]
    assert sheet.suggested_corrections(guesses=True) == {"Pets!B2": meant}
    assert sheet.blocked == (2,)


@pytest.mark.parametrize("text", ["(calm)", "[a] b", "calm [a]", '"[calm]"', "[a]; [b]"])
def test_brackets_of_a_tag_are_its_own(tmp_path: Path, text: str) -> None:
    """Brackets around a part of a cell, round brackets around one tag, and quoted brackets are part
    of the tags.
    """
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text]])
    assert not sheet.problems


BROKEN_TAGS = [
    "calm<br>shy",
    "calm<BR />shy",
    r"calm\nshy",
    "calm\u2028shy",
    "calm\vshy",
    "calm&#10;shy",
]


@pytest.mark.parametrize("text", BROKEN_TAGS)
def test_line_breaks_of_other_formats_separate_no_tags(tmp_path: Path, text: str) -> None:
    """Tags with a line break of another format block the row, and two tags are suggested."""
    sheet = csv_of(tmp_path, f"id,tags\n1,{text}\n")
    assert ("line 2, column 2", "tags-commas") in list_findings(sheet)
    assert sheet.suggested_corrections(guesses=True) == {"line 2, column 2": "calm; shy"}


BROKEN_PHOTOS = {
    f"{URL}<br>{URL}?2": f"{URL}\n{URL}?2",
    f"{URL}<br/> {URL}?2": f"{URL}\n{URL}?2",
    f"{URL}<br>\n{URL}?2": f"{URL}\n{URL}?2",
    f"{URL}<br />": URL,
    f"{URL}\\n{URL}?2": f"{URL}\n{URL}?2",
    f"{URL}&#10;{URL}?2": f"{URL}\n{URL}?2",
    f"{URL}_x000D_\n{URL}?2": f"{URL}\n{URL}?2",
    f"{URL}\u2028{URL}?2": f"{URL}\n{URL}?2",
}


@pytest.mark.parametrize(("text", "meant"), BROKEN_PHOTOS.items())
def test_line_breaks_of_other_formats_separate_no_photos(
    tmp_path: Path, text: str, meant: str
) -> None:
    """Addresses with a line break of another format block the row and are suggested separately."""
    sheet = csv_of(tmp_path, f'id,photo_urls\n1,"{text}"\n')
    assert list_findings(sheet) == [("line 2, column 2", "photos-separators")]
    assert sheet.suggested_corrections(guesses=True) == {"line 2, column 2": meant}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"[{URL}]", URL),
        (f"['{URL}']", URL),
        (f"[{URL}, {URL}?2]", f"{URL}\n{URL}?2"),
        (f"{{{URL},{URL}?2}}", f"{URL}\n{URL}?2"),
    ],
)
def test_photos_in_brackets_are_a_list(tmp_path: Path, text: str, meant: str) -> None:
    """Brackets around photo addresses are an error, and the addresses are suggested."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, text]])
    assert list_findings(sheet) == [("Pets!B2", "list-text")]
    assert sheet.suggested_corrections(guesses=True) == {"Pets!B2": meant}


@pytest.mark.parametrize("text", [f"<{URL}>", f"[photo]({URL})"])
def test_the_address_of_a_link_is_suggested(tmp_path: Path, text: str) -> None:
    """The address in a link of Markdown or of a mail program is suggested."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, text]])
    assert list_findings(sheet) == [("Pets!B2", "photo-not-an-address")]
    assert sheet.suggested_corrections(guesses=True) == {"Pets!B2": URL}


RECORDS = {
    "{'id': 1, 'name': 'Dogs'}": "Dogs",
    '{"id": 1, "name": "Dogs"}': "Dogs",
    'Category(id=1, name="Dogs")': "Dogs",
    "Category(id=1, name='Dogs', extra=None)": "Dogs",
    "['Dogs']": "Dogs",
}


@pytest.mark.parametrize(("text", "meant"), RECORDS.items())
def test_a_category_as_a_program_writes_it_is_an_error(
    tmp_path: Path, text: str, meant: str
) -> None:
    """A category in a program's notation is an error, and its name is suggested."""
    sheet = sheet_of(tmp_path, [["id", "category"], [1, text], [2, "Dogs (small)"]])
    assert list_findings(sheet) == [("Pets!B2", "category-text")]
    assert sheet.suggested_corrections(guesses=True) == {"Pets!B2": meant}
    assert sheet.blocked == (2,)


def test_a_category_with_its_number_is_pointed_out(tmp_path: Path) -> None:
    """A category in the tag grammar `1:Dogs` is used as a name, with a warning."""
    sheet = sheet_of(tmp_path, [["id", "category"], [1, "1:Dogs"], [2, "24: The Cats"], [3, "7up"]])
    assert list_findings(sheet) == [(f"Pets!B{row}", "category-numbered") for row in (2, 3)]
    assert sheet.suggested_corrections(guesses=True) == {"Pets!B2": "Dogs", "Pets!B3": "The Cats"}
    assert sheet.frame["category"].tolist() == ["1:Dogs", "24: The Cats", "7up"]


def test_the_word_of_the_marker_is_pointed_out(tmp_path: Path) -> None:
    """The marker's word without brackets is used as text, with a warning."""
    rows = [["id", "name", "category", "tags"], [1, "Clear", "clear", "Clear "]]
    sheet = sheet_of(tmp_path, rows)
    assert list_findings(sheet) == [(f"Pets!{column}2", "placeholder-text") for column in "CD"]
    assert {each.suggestion for each in sheet.problems} == {"Write [clear] to empty the field."}
    assert not csv_of(tmp_path, "id,tags\n1,clear\n", clear="<none>").problems


def test_an_empty_item_is_pointed_out(tmp_path: Path) -> None:
    """An empty tag or address is used as it is, with a warning, in a DataFrame as in a cell; a tag
    with an id is the store's.
    """
    photos = ["", None, URL]
    frame = pd.DataFrame({"id": [1], "tags": [["", None, " ", "x"]], "photo_urls": [photos]})
    sheets = [
        sheet_of(tmp_path, [["id", "tags", "photo_urls"], [1, '""; " "; x', f'"" | {URL}']]),
        read_sheet(frame),
    ]
    for sheet in sheets:
        found = [(each.rule, each.column, each.problem) for each in sheet.problems]
        assert found == [
            ("placeholder-text", "tags", "An empty text is read as a tag."),
            ("placeholder-text", "photo_urls", "An empty text is read as an address."),
        ]
        assert sheet.frame["tags"].tolist() == [["", " ", "x"]]
    assert sheets[0].suggested_corrections(guesses=True) == {"Pets!B2": "x", "Pets!C2": URL}
    assert not read_sheet(pd.DataFrame({"id": [1], "tags": [[Tag(3, "")]]})).problems


def test_the_word_of_the_marker_is_compared_with_its_own_column(tmp_path: Path) -> None:
    """The marker's word gets no warning if the export has it in the same column."""
    path = tmp_path / "pets.csv"
    tagged = Pet(id=1, name="x", status="sold", tags=(Tag(None, "clear"),), photo_urls=(URL,))
    shown = Pet(id=2, name="y", status="sold", tags=(Tag(None, "calm"),), photo_urls=("CLEAR",))
    write_sheet(snapshot_of([tagged, shown]), path)
    assert "placeholder-text" not in {each.rule for each in read_sheet(path).problems}
    path.write_text(path.read_text().replace(URL, "clear").replace("calm", "CLEAR"))
    found = [each for each in read_sheet(path).problems if each.rule == "placeholder-text"]
    assert [(each.row, each.column) for each in found] == [(2, "photo_urls"), (3, "tags")]


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_what_an_export_has_is_meant(tmp_path: Path, suffix: str) -> None:
    """Unusual names, categories and tags of the store are exported and read without a finding."""
    pet = Pet(
        id=1,
        name="None",
        status="sold",
        category=Category(4, "1:Dogs"),
        tags=(Tag(None, "[calm"), Tag(None, "shy]"), Tag(None, "a<br>b"), Tag(None, "clear")),
        photo_urls=(f"[{URL}]", f"{URL}<br>"),
    )
    other = Pet(
        id=2, name="nan", status="sold", category=Category(5, "{'id': 1}"), tags=(Tag(None, "{x}"),)
    )
    tags = (Tag(None, "clear"),)
    third = Pet(id=3, name="x", status="sold", category=Category(6, "clear"), tags=tags)
    write_sheet(snapshot_of([pet, other, third]), tmp_path / f"pets{suffix}")
    sheet = read_sheet(tmp_path / f"pets{suffix}")
    assert [each for each in sheet.problems if each.rule != "photo-not-an-address"] == []
    assert [[tag.name for tag in tags] for tags in sheet.frame["tags"]] == [
        [tag.name for tag in each.tags] for each in (pet, other, third)
    ]
    assert sheet.frame["photo_urls"].iloc[0] == list(pet.photo_urls)
