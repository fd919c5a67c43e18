"""The clear marker beside other items, and texts that stand for nothing."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from sheetmaking import csv_of, found, sheet_of

from petsync.model import Pet, Tag
from petsync.sheets import read_sheet, sheet_from_frame, write_sheet
from petsync.table.frame import frame_from_pets

URL = "https://example.org/1.jpg"


@pytest.mark.parametrize(
    "text",
    ["[clear];", "[clear]; shy", "a;[CLEAR]", "7:a; [clear]; b", "a\n[clear]", '"a"; [clear]'],
)
def test_a_marker_beside_tags_blocks_its_row(tmp_path: Path, text: str) -> None:
    """Nobody knows whether all tags are to go or one was forgotten, so nothing is sent."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text], [2, "[clear]"]])
    assert ("Pets!B2", "clear-beside-others") in found(sheet)
    assert sheet.blocked == (2,)
    assert sheet.frame["tags"].tolist() == [[]]


def test_a_marker_beside_photos_blocks_its_row(tmp_path: Path) -> None:
    """Likewise for the addresses of photos."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, f"[clear]\n{URL}"], [2, URL]])
    assert ("Pets!B2", "clear-beside-others") in found(sheet)
    assert sheet.blocked == (2,)


@pytest.mark.parametrize(
    "text", ['"[clear]"; shy', "see [clear]; shy", '"a; [clear]; b"', "7:[clear]; shy"]
)
def test_what_is_no_marker_is_a_tag(tmp_path: Path, text: str) -> None:
    """A tag in quotes, with an id or with more words may have the marker in it."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text]])
    assert not sheet.problems
    assert any("[clear]" in tag.name for tag in sheet.frame["tags"].iloc[0])


def test_another_marker_is_refused_beside_tags(tmp_path: Path) -> None:
    """Whatever the marker is, it stands alone; the usual one is then a tag."""
    text = "id,tags\n1,Leeren; shy\n2,[clear]; shy\n3,leeren\n"
    sheet = csv_of(tmp_path, text, clear="LEEREN")
    assert found(sheet) == [("line 2, column 2", "clear-beside-others")]
    assert sheet.frame["tags"].tolist() == [[Tag(None, "[clear]"), Tag(None, "shy")], []]


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
    """An export writes them so that they are what they are, alone and beside others."""
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
    """A list in a DataFrame holds texts, and no marker."""
    frame = pd.DataFrame({"id": range(len(TAGS)), "tags": TAGS, "photo_urls": TAGS})
    sheet = sheet_from_frame(frame)
    assert not sheet.errors
    assert [[tag.name for tag in tags] for tags in sheet.frame["tags"]] == TAGS
    assert sheet.frame["photo_urls"].tolist() == TAGS


@pytest.mark.parametrize("text", ["-", " -- ", "N/A", "null", "?", "TBD", "none", "\u2014"])
def test_a_placeholder_is_pointed_out(tmp_path: Path, text: str) -> None:
    """It is used as it stands, with a warning; a pet may be called so."""
    rows = [["id", "name", "category", "tags"], [1, text, text, f"shy; {text}"]]
    sheet = sheet_of(tmp_path, rows)
    assert found(sheet) == [("Pets!C2", "placeholder-text"), ("Pets!D2", "placeholder-text")]
    assert f'"{text.strip()}" is taken as a tag' in sheet.problems[1].problem
    assert sheet.frame["category"].tolist() == [text]


def test_what_only_looks_like_a_placeholder_is_none(tmp_path: Path) -> None:
    """Real words are not, nor are tags that the store gave an id."""
    sheet = sheet_of(tmp_path, [["id", "category", "tags"], [1, "NA", "7:?; nonesuch; -shy"]])
    assert not sheet.problems
