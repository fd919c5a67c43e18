"""Sheets and stores as their owners see them: read and written without petsync."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import openpyxl

__all__ = [
    "BLANK",
    "COLUMNS",
    "Grid",
    "Service",
    "Unit",
    "key_of",
    "read_grid",
    "values_of_pet",
    "values_of_row",
]

COLUMNS = ("id", "name", "status", "category", "category_id", "tags", "photo_urls")
_KEY = re.compile(r"\bk\d+$")


class _Blank:
    def __repr__(self) -> str:
        return "BLANK"


BLANK: Any = _Blank()
"""The value of an empty cell or of a missing column."""

Unit = tuple[str, str]
"""A field, and the item for tags and photos; "" for the other fields."""


@dataclass
class Grid:
    """A worksheet as texts: `head`, and `rows` with the same number of cells."""

    path: Path
    head: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> int | None:
        """Return the place of the column with this header; None if no column has it."""
        return self.head.index(name) if name in self.head else None

    def text(self, row: list[str], name: str) -> str:
        """Return the text of the row's cell in this column; "" if there is none."""
        place = self.column(name)
        return "" if place is None else row[place]

    def row_of(self, key: str) -> list[str] | None:
        """Return the row whose name ends with the key."""
        return next((row for row in self.rows if key_of(self.text(row, "name")) == key), None)

    def save(self) -> None:
        """Write the file in its place, as a spreadsheet program does."""
        if self.path.suffix == ".xlsx":
            self._save_workbook()
        else:
            stream = io.StringIO(newline="")
            csv.writer(stream, lineterminator="\r\n").writerows([self.head, *self.rows])
            self.path.write_bytes(stream.getvalue().encode("utf-8-sig"))

    def _save_workbook(self) -> None:
        book = openpyxl.load_workbook(self.path) if self.path.exists() else openpyxl.Workbook()
        tab: Any = next(each for each in book.worksheets if each.sheet_state == "visible")
        height, width = max(tab.max_row, 1), max(tab.max_column, 1)
        lines = [self.head, *self.rows]
        for row in range(1, max(height, len(lines)) + 1):
            cells = lines[row - 1] if row <= len(lines) else []
            for column in range(1, max(width, len(self.head)) + 1):
                text = cells[column - 1] if column <= len(cells) else ""
                cell = tab.cell(row, column)
                cell.value = text or None
                if text:
                    cell.data_type = "s"
        book.save(self.path)


def read_grid(path: Path) -> Grid:
    """Return the non-empty rows of a CSV file, or of a workbook's first visible worksheet."""
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path, data_only=True)
        tab = next(each for each in book.worksheets if each.sheet_state == "visible")
        lines = [
            ["" if value is None else str(value) for value in row]
            for row in tab.iter_rows(values_only=True)
        ]
    else:
        text = path.read_bytes().decode("utf-8-sig")
        lines = [[_unquoted(cell) for cell in row] for row in csv.reader(io.StringIO(text))]
    width = len(lines[0])
    rows = [(row + [""] * width)[:width] for row in lines[1:] if any(map(str.strip, row))]
    return Grid(path, lines[0], rows)


def key_of(name: str) -> str | None:
    """Return the key at the end of a pet's name, which no edit changes."""
    match = _KEY.search(name.strip())
    return match[0] if match else None


def values_of_row(grid: Grid, row: list[str]) -> dict[str, Any]:
    """Return the row's values by field; BLANK for an empty cell or a missing column."""
    found: dict[str, Any] = {}
    for field in COLUMNS:
        text = grid.text(row, field).strip()
        if not text:
            found[field] = BLANK
        elif text == "[clear]":
            found[field] = frozenset() if field in ("tags", "photo_urls") else None
        elif field == "tags":
            items = (_text(item) for item in text.split(";"))
            found[field] = frozenset(re.sub(r"^-?\d*:", "", item) for item in items if item)
        elif field == "photo_urls":
            found[field] = frozenset(filter(None, map(_text, re.split(r"\r?\n| \| ", text))))
        else:
            found[field] = _text(text)
    return found


class Service:
    """The store, over plain HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    def pets(self) -> list[dict[str, Any]]:
        """Return every pet of the store as JSON."""
        url = f"{self._url}/pet/findByStatus?status=available,pending,sold"
        with urlopen(Request(url, headers={"Accept": "application/json"}), timeout=120) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def send(self, method: str, body: Mapping[str, Any]) -> None:
        """Add (POST) or replace (PUT) a pet."""
        data = json.dumps(body).encode()
        head = {"Content-Type": "application/json", "Accept": "application/json"}
        urlopen(Request(f"{self._url}/pet", data, head, method=method), timeout=120).close()

    def delete(self, number: int) -> None:
        """Delete a pet."""
        urlopen(Request(f"{self._url}/pet/{number}", method="DELETE"), timeout=120).close()


def values_of_pet(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pet's fields in the form of `values_of_row`."""
    category = body.get("category") or {}
    number = category.get("id")
    return {
        "id": str(body["id"]),
        "name": _text(body.get("name") or ""),
        "status": body.get("status") or None,
        "category": _text(category.get("name") or "") or None,
        "category_id": None if number is None else str(number),
        "tags": _names(tag.get("name") or "" for tag in body.get("tags") or ()),
        "photo_urls": _names(body.get("photoUrls") or ()),
    }


def _names(items: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_text, items))


def _text(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _unquoted(text: str) -> str:
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@\t\r") else text
