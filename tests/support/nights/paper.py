"""A sheet as a person edits it: change cells, add and remove rows, save the file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Protocol

import openpyxl

__all__ = ["HEAD", "Paper", "open_paper", "written"]

HEAD = ("id", "name", "status", "category", "tags", "photo_urls", "action")


class Paper(Protocol):
    """An open file. Rows keep the numbers from when the file was opened; a removed row moves the
    others only when the file is saved.
    """

    def type(self, row: int, column: str, text: str) -> None:
        """Change a cell."""

    def add(self, texts: dict[str, str]) -> None:
        """Add a row at the end."""

    def remove(self, rows: set[int]) -> None:
        """Remove rows."""

    def save(self) -> None:
        """Write the whole file in its place, as spreadsheet programs do."""


def written(path: Path, rows: list[dict[str, str]]) -> None:
    """Write a new file with these rows, as a person makes one."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        tab: Any = book.active
        tab.title = "Pets"
        for row in (dict(zip(HEAD, HEAD, strict=True)), *rows):
            tab.append([row.get(name) or None for name in HEAD])
        for cell in tab["A"]:
            cell.number_format = "@"
        book.save(path)
    else:
        _put(path, [list(HEAD), *([row.get(name, "") for name in HEAD] for row in rows)])


def open_paper(path: Path) -> Paper:
    """Return the open file."""
    return _Book(path) if path.suffix == ".xlsx" else _Csv(path)


class _Book:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._book = openpyxl.load_workbook(path)
        self._tab: Any = next(t for t in self._book.worksheets if t.sheet_state == "visible")
        self._places = {
            str(cell.value).strip(): cell.column for cell in self._tab[1] if cell.value is not None
        }

    def type(self, row: int, column: str, text: str) -> None:
        cell = self._tab.cell(row, self._places[column])
        cell.value = text or None
        if text:
            cell.data_type = "s"

    def add(self, texts: dict[str, str]) -> None:
        row = 1 + max(
            row[0].row for row in self._tab.iter_rows() if any(cell.value for cell in row)
        )
        for column, text in texts.items():
            self.type(row, column, text)

    def remove(self, rows: set[int]) -> None:
        for row in sorted(rows, reverse=True):
            self._tab.delete_rows(row)

    def save(self) -> None:
        self._book.save(self._path)


class _Csv:
    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_bytes().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        self._rows: dict[int, list[str]] = {}
        begins = 1
        for row in reader:
            self._rows[begins] = row
            begins = reader.line_num + 1
        self._places = {name.strip(): place for place, name in enumerate(self._rows[1])}

    def type(self, row: int, column: str, text: str) -> None:
        cells = self._rows[row]
        cells += [""] * (len(self._rows[1]) - len(cells))
        cells[self._places[column]] = text

    def add(self, texts: dict[str, str]) -> None:
        self._rows[max(self._rows) + 1] = row = [""] * len(self._rows[1])
        for column, text in texts.items():
            row[self._places[column]] = text

    def remove(self, rows: set[int]) -> None:
        for row in rows:
            del self._rows[row]

    def save(self) -> None:
        _put(self._path, list(self._rows.values()))


def _put(path: Path, rows: list[list[str]]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows(rows)
    path.write_bytes(stream.getvalue().encode("utf-8-sig"))
