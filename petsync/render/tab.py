"""Worksheets of a workbook, streamed into a file that is there whole or not at all.

Rows are coloured by rules of the worksheet rather than cell by cell, so that a million stay
cheap. Text is text: a name that looks like a formula or an error is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from petsync._file import landing
from petsync.errors import SheetError
from petsync.render.visible import visible

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

__all__ = ["Tab", "Value", "write"]

Value = str | int

_ROWS = 1_048_575
"""So many rows fit below a worksheet's header; more go on in another worksheet."""
_LENGTH = 16_000
"""A cell holds 32,767 UTF-16 units, and a character may be two."""
_NOT_TEXT = ("=", "+", "-", "@", "#")


@dataclass(frozen=True, slots=True)
class Tab:
    """One worksheet: `columns` are titles and widths (in characters), `colours` (RGB) belong to
    the values of the first column.
    """

    title: str
    columns: Mapping[str, int]
    rows: Iterable[Sequence[Value]]
    colours: Mapping[str, str] = field(default_factory=dict)


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
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    try:
        yield book
    finally:
        sheets: list[Any] = list(book.worksheets)
        for sheet in sheets:
            if not sheet.closed:
                sheet.close()


def _add(book: Workbook, tab: Tab) -> None:
    sheet = _sheet(book, tab, tab.title)
    for n, row in enumerate(tab.rows):
        if n and n % _ROWS == 0:
            sheet = _sheet(book, tab, f"{tab.title} {n // _ROWS + 1}")
        sheet.append([_cell(sheet, value) for value in row])


def _sheet(book: Workbook, tab: Tab, title: str) -> Any:
    """An empty worksheet with its header; what concerns the columns must come before any row."""
    sheet = book.create_sheet(title)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(tab.columns)]
    for letter, width in zip(letters, tab.columns.values(), strict=True):
        sheet.column_dimensions[letter].width = width
    sheet.freeze_panes = "A2"
    everything = f"A2:{letters[-1]}{_ROWS + 1}"
    sheet.auto_filter.ref = f"A1:{letters[-1]}{_ROWS + 1}"
    for value, colour in tab.colours.items():
        sheet.conditional_formatting.add(everything, _rule(value, colour))
    sheet.append([_header(sheet, name) for name in tab.columns])
    return sheet


def _rule(value: str, colour: str) -> Any:
    from openpyxl.formatting.rule import Rule
    from openpyxl.styles import PatternFill
    from openpyxl.styles.differential import DifferentialStyle

    style = DifferentialStyle(fill=PatternFill(bgColor=colour, fill_type="solid"))
    return Rule(type="expression", formula=[f'$A2="{value}"'], dxf=style)


def _header(sheet: Worksheet, name: str) -> Any:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font, PatternFill

    cell = WriteOnlyCell(sheet, value=name)
    cell.font = Font(bold=True)
    cell.fill = PatternFill(fgColor="E8ECEF", fill_type="solid")
    return cell


def _cell(sheet: Worksheet, value: Value) -> Any:
    """What to append for a value: text that could be taken for something else as a marked cell."""
    if isinstance(value, int) or not value:
        return value if isinstance(value, int) else None
    text = visible(value, keep="\n")
    text = text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
    return _literal(sheet, text) if text.startswith(_NOT_TEXT) else text


def _literal(sheet: Worksheet, text: str) -> Any:
    """A cell that stays text even if somebody edits it in place."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value=text)
    cell.data_type = "s"
    cell.quotePrefix = True
    return cell


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
