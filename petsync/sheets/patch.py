"""Cells of one worksheet set anew in the bytes of its workbook; everything else stays.

Formats, widths, formulas with their values, charts and other sheets are copied as they are,
which a library that loads and saves the workbook would not do.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence

from petsync.errors import SheetError
from petsync.sheets.archive import Package
from petsync.sheets.grid import letter
from petsync.sheets.markup import CellMark, MarkupError, RowMark, Walk, column_number
from petsync.sheets.source import Source
from petsync.sheets.survey import Survey
from petsync.sheets.workbook import inline
from petsync.table.sheet import Sheet

__all__ = ["patched"]


def patched(
    source: Source, sheet: Sheet, edits: Mapping[int, Mapping[str, str]], new: Sequence[str]
) -> bytes:
    """The workbook with `edits` (texts by row and column name) in the sheet's tab.

    The columns `new` are added behind the last one that has a value, with a header. A formula
    is never replaced, nor an id that is there.
    """
    package = Package(source)
    part = package.tab(sheet.tab).part
    data = package.part(part)
    try:
        survey = Survey()
        walk = Walk(survey.take)
        walk.run(data)
        free = {name: survey.last_column + n for n, name in enumerate(new, 1)}
        splicer = _Splicer(sheet, edits, free, walk.prefix)
        Walk(splicer.take).run(data)
    except MarkupError as error:
        raise SheetError(f"{source.path}: the worksheet is damaged: {error}") from None
    return _replaced(source, part, splicer.spliced(data))


class _Splicer:
    """Gathers, row by row, which bytes of the worksheet are replaced by which."""

    def __init__(
        self,
        sheet: Sheet,
        edits: Mapping[int, Mapping[str, str]],
        new: Mapping[str, int],
        prefix: str,
    ) -> None:
        self._places = {name: column_number(place) for name, place in sheet.columns.items()}
        self._places |= new
        self._headers = {name: name for name in new}
        self._header_row = sheet.header_row
        self._edits = edits
        self._prefix = prefix
        self._splices: list[tuple[int, int, str]] = []

    def take(self, row: RowMark) -> None:
        edit = self._headers if row.number == self._header_row else self._edits.get(row.number, {})
        if not edit or not row.closed:
            return
        texts = {self._places[name]: text for name, text in edit.items() if name in self._places}
        there = {cell.column: cell for cell in row.cells}
        style = row.cells[-1].style if row.number == self._header_row and row.cells else ""
        for column in sorted(texts):
            cell = there.get(column)
            if cell is None and texts[column]:
                at = next((each.start for each in row.cells if each.column > column), row.close)
                self._splices.append((at, at, self._cell(row, column, style, texts[column])))
            elif cell is not None and not self._is_kept(cell):
                new = self._cell(row, column, cell.style, texts[column])
                self._splices.append((cell.start, cell.end, new))

    def spliced(self, data: bytes) -> bytes:
        """The worksheet with all of it."""
        return b"".join(self._pieces(data))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        done = 0
        for start, end, text in self._splices:
            yield data[done:start]
            yield text.encode()
            done = end
        yield data[done:]

    def _is_kept(self, cell: CellMark) -> bool:
        return cell.formula or (cell.column == self._places.get("id") and bool(cell.value.strip()))

    def _cell(self, row: RowMark, column: int, style: str, text: str) -> str:
        styled = f' s="{style}"' if style.isdecimal() else ""
        head = f'<{self._prefix}c r="{letter(column)}{row.number}"{styled}'
        if not text:
            return f"{head}/>"
        return f'{head} t="inlineStr">{inline(text, self._prefix)}</{self._prefix}c>'


def _replaced(source: Source, part: str, data: bytes) -> bytes:
    copy = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(source.data)) as old,
        zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for info in old.infolist():
            is_part = info.filename.lstrip("/").casefold() == part.casefold()
            new.writestr(info, data if is_part else old.read(info), zipfile.ZIP_DEFLATED)
    return copy.getvalue()
