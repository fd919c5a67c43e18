"""Reads a sheet and a store without petsync: with openpyxl, csv and the service's JSON.

Both sides become the same plain values, so that they can be compared: names and words composed and
trimmed, tags as a set of names, photo addresses in their order. BLANK is an empty cell.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import openpyxl

__all__ = ["BLANK", "FIELDS", "Line", "Pet", "agree", "lines_of", "pet_of", "pets_at"]

FIELDS = ("name", "status", "category", "tags", "photo_urls")
STATUSES = "available,pending,sold"


class _Blank:
    def __repr__(self) -> str:
        return "BLANK"


BLANK: Any = _Blank()

Pet = dict[str, Any]


@dataclass
class Line:
    """One row of a sheet: its number, the texts of its cells, and their values."""

    number: int
    texts: Mapping[str, str]
    values: Pet = field(default_factory=dict)

    @property
    def id(self) -> int | None:
        """The pet's id; None if the cell is empty or is not a whole number."""
        text = self.texts.get("id", "").strip()
        return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None

    @property
    def action(self) -> str:
        """The row's action."""
        return self.texts.get("action", "").strip().casefold()


def pets_at(url: str, token: str) -> dict[int, Pet]:
    """Return every pet that the service lists, by id, over plain HTTP."""
    asked = Request(
        f"{url}/pet/findByStatus?status={STATUSES}",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
    )
    with urlopen(asked, timeout=120) as answer:
        return {pet["id"]: pet_of(pet) for pet in json.load(answer)}


def pet_of(body: Mapping[str, Any]) -> Pet:
    """Return a pet's values from the service's JSON."""
    category = body.get("category") or {}
    return {
        "name": _text(body.get("name") or ""),
        "status": _text(body.get("status") or "").casefold(),
        "category": _text(category.get("name") or "") or None,
        "tags": frozenset(_text(tag.get("name") or "") for tag in body.get("tags") or ()),
        "photo_urls": tuple(dict.fromkeys(body.get("photoUrls") or ())),
    }


def lines_of(path: Path) -> list[Line]:
    """Return the non-empty rows of a workbook's first visible worksheet, or of a CSV file."""
    cells = _workbook(path) if path.suffix == ".xlsx" else _csv(path)
    head = [re.sub(r"[\s_-]+", "_", text.strip().casefold()) for text in cells[0][1]]
    found = []
    for number, texts in cells[1:]:
        given = dict(zip(head, texts, strict=False))
        if any(text.strip() for text in texts):
            found.append(Line(number, given, _parse_values(given)))
    return found


def agree(cell: Any, has: Any) -> bool:
    """Return whether a cell is blank or has the store's value."""
    return cell is BLANK or cell == has


def _workbook(path: Path) -> list[tuple[int, list[str]]]:
    book = openpyxl.load_workbook(path, data_only=True)
    tab = next(each for each in book.worksheets if each.sheet_state == "visible")
    return [
        (number, ["" if value is None else str(value) for value in row])
        for number, row in enumerate(tab.iter_rows(values_only=True), 1)
    ]


def _csv(path: Path) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    found, begins = [], 1
    for row in reader:
        found.append((begins, [_unguarded(text) for text in row]))
        begins = reader.line_num + 1
    return found


def _unguarded(text: str) -> str:
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@\t\r") else text


def _parse_values(texts: Mapping[str, str]) -> Pet:
    return {name: _cell(name, texts[name]) if texts.get(name) else BLANK for name in FIELDS}


def _cell(name: str, text: str) -> Any:
    if not text.strip():
        return BLANK
    if text.strip() == "[clear]":
        return {"tags": frozenset(), "photo_urls": (), "category": None}.get(name, "")
    if text.startswith("'[clear]"):
        text = text[1:]
    if name == "tags":
        return frozenset(filter(None, map(_tag, _items(text, ";"))))
    if name == "photo_urls":
        return tuple(dict.fromkeys(_items(text, r"\r\n|\r|\n|(?<!\S)\|(?!\S)")))
    return _text(text).casefold() if name == "status" else _text(text)


def _tag(item: str) -> str:
    numbered = re.match(r"-?\d*:", item)
    return _text(item[numbered.end() :] if numbered else item)


def _items(text: str, end: str) -> Iterable[str]:
    """Yield the items of a list in a cell; an item in quotes may contain the separator."""
    pattern = re.compile(rf'\s*((?:-?\d*:)?"(?:[^"]|"")*"|(?:(?!{end})[\s\S])*?)\s*(?:{end}|\Z)')
    place = 0
    while place < len(text):
        match = pattern.match(text, place)
        assert match is not None, f"{text!r} at {place}"
        item = match[1]
        if '"' in item:
            head, _, quoted = item.partition('"')
            item = head + quoted[:-1].replace('""', '"')
        if item.strip():
            yield item
        place = max(match.end(), place + 1)


def _text(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
