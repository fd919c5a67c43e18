"""Worksheets of a workbook, streamed into a file that is there whole or not at all.

Rows are coloured by rules of the worksheet rather than cell by cell, so that a million stay
cheap. Text is text: a name that looks like a formula or an error is none.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from openpyxl import Workbook

from petsync._file import landing
from petsync.errors import SheetError
from petsync.render import look
from petsync.render.marked import Piece
from petsync.render.visible import visible

__all__ = ["Marked", "Tab", "Value", "write"]

_ROWS = 1_048_575
"""So many rows fit below a worksheet's header; more go on in another worksheet."""
_LENGTH = 16_000
"""A cell holds 32,767 UTF-16 units, and a character may be two."""
_NOT_TEXT = ("=", "+", "-", "@", "#")


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in pieces; what is marked is `gone` or has `come`."""

    pieces: Sequence[Piece]
    how: Literal["gone", "come"]


Value = str | int | Marked


@dataclass(frozen=True, slots=True)
class Tab:
    """One worksheet: `columns` are titles and widths (in characters), `colours` (RGB) belong to
    the values of the first column. In the columns of the letters `repeats` a value is pale where
    all of them say what the row above says.
    """

    title: str
    columns: Mapping[str, int]
    rows: Iterable[Sequence[Value]]
    colours: Mapping[str, str] = field(default_factory=dict)
    repeats: str = ""


def write(path: Path, tabs: Iterable[Tab]) -> None:
    """Write the tabs into an .xlsx file, in place of one that is there.

    Raises SheetError if it cannot be written; what was there is then as it was.
    """
    with _in_place_of(path) as file, _workbook() as book:
        for tab in tabs:
            _add(book, tab)
        book.save(file)


@contextmanager
def _workbook() -> Iterator[Workbook]:
    """A new workbook, whose temporary files are closed even if it is never saved."""
    book = Workbook(write_only=True)
    look.make_readable(book)
    try:
        yield book
    finally:
        sheets: list[Any] = list(book.worksheets)
        for sheet in sheets:
            if not sheet.closed:
                sheet.close()


def _add(book: Workbook, tab: Tab) -> None:
    rows = iter(tab.rows)
    for page in itertools.count(1):
        sheet: Any = book.create_sheet(tab.title if page == 1 else f"{tab.title} {page}")
        look.begin(sheet, tab.columns)
        written, widths = 0, list(tab.columns.values())
        for row in itertools.islice(rows, _ROWS):
            written += 1
            look.append(sheet, [_cell(sheet, value) for value in row], widths, written + 1)
        look.finish(sheet, tab.columns, tab.colours, tab.repeats, written)
        if written < _ROWS:
            return


def _cell(sheet: Any, value: Value) -> Any:
    """What to append for a value: text that could be taken for something else as a marked cell."""
    if isinstance(value, int):
        return value
    if isinstance(value, Marked):
        return _rich(sheet, value)
    text = _shown(value)
    return look.literal(sheet, text) if text.startswith(_NOT_TEXT) else text or None


def _rich(sheet: Any, value: Marked) -> Any:
    text = "".join(part for part, _ in value.pieces)
    if len(text) > _LENGTH or not any(is_marked for _, is_marked in value.pieces):
        return _cell(sheet, text)
    pieces = [(_shown(part), is_marked) for part, is_marked in value.pieces]
    if sum(len(part) for part, _ in pieces) > _LENGTH:
        return _cell(sheet, text)
    formatted = look.rich(pieces, look.GONE if value.how == "gone" else look.COME)
    return look.literal(sheet, formatted) if text.startswith(_NOT_TEXT) else formatted


def _shown(text: str) -> str:
    shown = visible(text, keep="\n")
    return shown if len(shown) <= _LENGTH else f"{shown[:_LENGTH]}..."


@contextmanager
def _in_place_of(path: Path) -> Iterator[IO[bytes]]:
    """A new file, moved to `path` once it is written and on the disk."""
    draft = None
    try:
        target = landing(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise SheetError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="Is the folder there, and is the file open in another program?",
        ) from error
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)
