"""Worksheets of a workbook, streamed into a file that is there whole or not at all.

Rows are coloured by rules of the worksheet rather than cell by cell, so that a million stay
cheap. Text is text: a name that looks like a formula or an error is none.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from openpyxl import Workbook

from petsync._file import replacing
from petsync.errors import SheetError
from petsync.render import look
from petsync.render.rowxml import Marked, Value, row_xml

__all__ = ["Marked", "Tab", "Value", "write"]

_ROWS = 1_048_575
"""So many rows fit below a worksheet's header; more go on in another worksheet."""
_IN_MEMORY, _CHUNK = 4_000_000, 1_000_000
_SHEET = re.compile(r"xl/worksheets/sheet([0-9]+)\.xml")
_DIMENSION = re.compile(rb'<dimension ref="[^"]*"')
_END, _FOOTER = b"</sheetData>", b"</headerFooter>"


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


class _End(NamedTuple):
    place: int
    area: str
    """The cells that the worksheet has, as one range."""


def write(path: Path, tabs: Iterable[Tab], *, like: str | None = None) -> None:
    """Write the tabs into an .xlsx file, in place of one that is there; nobody may read it who may
    not read the sheet `like`, which they tell of.

    Raises SheetError if it cannot be written; what was there is then as it was.
    """
    with (
        _in_place_of(path, like) as file,
        tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as rows,
    ):
        book = Workbook()
        book.remove(book.worksheets[0])
        ends = [end for tab in tabs for end in _pages(book, tab, rows)]
        _fill(book, rows, ends, file)


def _pages(book: Workbook, tab: Tab, body: IO[bytes]) -> Iterator[_End]:
    """Add the tab's worksheets without their rows, and these to the body; where each one's end."""
    rows = iter(tab.rows)
    row = next(rows, None)
    page = 0
    while page == 0 or row is not None:
        page += 1
        sheet = book.create_sheet(tab.title if page == 1 else f"{tab.title} {page}")
        look.lay_out(sheet, tab.columns)
        styles, widths = look.styles_of(sheet), list(tab.columns.values())
        written = 0
        while row is not None and written < _ROWS:
            written += 1
            body.write(row_xml(written + 1, row, widths, styles).encode())
            row = next(rows, None)
        look.colour(sheet, tab.columns, tab.colours, tab.repeats, written)
        yield _End(body.tell(), f"A1:{look.letters(tab.columns)[-1]}{written + 1}")


def _fill(book: Workbook, rows: IO[bytes], ends: Sequence[_End], file: IO[bytes]) -> None:
    """Write the workbook with the rows in its worksheets."""
    empty = BytesIO()
    book.save(empty)
    with (
        zipfile.ZipFile(empty) as source,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for info in source.infolist():
            data, sheet = source.read(info), _SHEET.fullmatch(info.filename)
            with target.open(info.filename, "w") as part:
                if sheet is None:
                    part.write(data)
                    continue
                number = int(sheet[1]) - 1
                start, end = ends[number - 1].place if number else 0, ends[number]
                head, _, tail = data.partition(_END)
                part.write(_DIMENSION.sub(f'<dimension ref="{end.area}"'.encode(), head))
                rows.seek(start)
                for size in _chunks(end.place - start):
                    part.write(rows.read(size))
                part.write(_END + tail.replace(_FOOTER, _FOOTER + _IDS_ARE_TEXT, 1))


def _chunks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, _CHUNK)
        size -= _CHUNK


# Excel would put a green triangle at each of them.
_IDS_ARE_TEXT = (
    b'<ignoredErrors><ignoredError sqref="A2:Z1048576" numberStoredAsText="1"/></ignoredErrors>'
)


@contextmanager
def _in_place_of(path: Path, like: str | None) -> Iterator[IO[bytes]]:
    """A new file, moved to `path` once it is written and on the disk."""
    try:
        with replacing(path, like=None if like is None else Path(like)) as file:
            yield file
    except OSError as error:
        raise SheetError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="Is the folder there, and is the file open in another program?",
        ) from error
