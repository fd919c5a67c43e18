"""A CSV file with the results behind its rows; every byte that need not change stays."""

from __future__ import annotations

import csv as stdlib
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from petsync.sheets.delimited import csv
from petsync.sheets.delimited.lines import Line, dialect_of, lines, start
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet

__all__ = ["extended"]

Edits = Mapping[int, Mapping[str, str]]
_END = "\r\n"
_IDS = ("id", "category_id")
_NUMBER = re.compile(r"-?[0-9]+")


def extended(
    source: Source,
    sheet: Sheet,
    edits: Edits,
    new: Sequence[str],
    *,
    added: Sequence[Mapping[str, str]] = (),
    removed: Collection[int] = (),
) -> bytes:
    """The file with `edits` (texts by line and column name) and the columns `new` behind its own,
    without the records that are `removed` (by line), and with those that are `added` at its end.

    Delimiter, quotes and line ends are kept, and so is each record that says nothing new. Lines are
    those of the file as it is: a text of several lines moves the ones below it.
    """
    dialect = dialect_of(source, sheet)
    records = list(lines(source, dialect))
    header = next(each for each in records if each.number == sheet.header_row)
    width = len(csv.without_tail(header.cells or []))
    places = {name: int(place) - 1 for name, place in sheet.columns.items()}
    hand = _hand(header, dialect.delimiter)
    pen = _Pen(hand, {**places, **{name: width + n for n, name in enumerate(new)}}, width, new)
    pieces = [source.data[: start(source, dialect)]]
    for line in records:
        if line.number in removed:
            continue
        is_header = line.number == sheet.header_row
        edit = dict(zip(new, new, strict=True)) if is_header else edits.get(line.number, {})
        touched = edit or (line.number > sheet.header_row and _says(line))
        pieces += [pen.written(line, edit) if touched else line.body, line.end]
    return b"".join([*pieces, *_behind(pieces, added, pen, header)])


def _behind(
    pieces: Sequence[bytes], added: Sequence[Mapping[str, str]], pen: _Pen, header: Line
) -> Iterator[bytes]:
    """The records that are added, each with the line's end that the header has."""
    end = header.end or _END.encode()
    is_open = next((piece for piece in reversed(pieces) if piece), b"")[-1:] not in (b"\r", b"\n")
    for at, texts in enumerate(added):
        yield from [end] if at or is_open else []
        yield pen.added(texts, len(header.cells or []))
    if added and not is_open:
        yield end


@dataclass(frozen=True, slots=True)
class _Hand:
    """How the file's records are written."""

    delimiter: str
    quotes_all: bool

    def record(self, cells: Sequence[str]) -> bytes:
        """The cells as a record, without the line's end."""
        stream = io.StringIO(newline="")
        form = stdlib.writer(
            stream,
            delimiter=self.delimiter,
            quoting=stdlib.QUOTE_ALL if self.quotes_all else stdlib.QUOTE_MINIMAL,
            # A cell with one of these in it is quoted, so this may not be left blank.
            lineterminator=_END,
        )
        form.writerow(cells)
        return stream.getvalue().removesuffix(_END).encode()


@dataclass(frozen=True, slots=True)
class _Pen:
    hand: _Hand
    places: Mapping[str, int]
    width: int
    new: Sequence[str]

    def written(self, line: Line, edit: Mapping[str, str]) -> bytes:
        """The record with the new texts."""
        added = [csv.guarded(edit.get(name, "")) for name in self.new]
        cells = line.cells
        if cells is None or csv.is_ragged(cells, self.width):
            # Still broken, so that no one takes the copy's cells for what they are not.
            return self._behind(line.body, added)
        # Blank cells behind the table stay where nothing comes there.
        changed = [*cells[: self.width], *added] if self.new else list(cells)
        for name, text in edit.items():
            if name in self.places:
                changed[self.places[name]] = _safe(name, text)
        if changed[: len(cells)] == cells:
            return self._behind(line.body, changed[len(cells) :])
        return self.hand.record(changed)

    def added(self, texts: Mapping[str, str], width: int) -> bytes:
        """A new record as wide as the header's."""
        cells = [""] * (self.width + len(self.new) if self.new else width)
        for name, text in texts.items():
            if name in self.places:
                cells[self.places[name]] = _safe(name, text)
        return self.hand.record(cells)

    def _behind(self, body: bytes, added: Sequence[str]) -> bytes:
        if not added:
            return body
        return body + self.hand.delimiter.encode() + self.hand.record(added)


def _safe(name: str, text: str) -> str:
    return text if name in _IDS and _NUMBER.fullmatch(text) else csv.guarded(text)


def _hand(header: Line, delimiter: str) -> _Hand:
    cells = header.cells or []
    quoting = _Hand(delimiter, quotes_all=True)
    return _Hand(delimiter, quotes_all=quoting.record(cells) == header.body)


def _says(line: Line) -> bool:
    return line.cells is None or any(cell.strip() for cell in line.cells)
