"""A CSV file's records with the bytes they stand in, so that what is not changed stays as it is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

from petsync.sheets.delimited import csv
from petsync.sheets.headers import Mapper
from petsync.sheets.source import Source
from petsync.table.sheet import Sheet

__all__ = ["Line", "bare", "dialect_of", "lines", "start"]

_END = re.compile(rb"(?:\r\n|\n|\r)?\Z")


class Line(NamedTuple):
    """One record: its line number, its cells (None where it cannot be taken apart), its bytes
    without the line's end, and that end.
    """

    number: int
    cells: list[str] | None
    body: bytes
    end: bytes


def dialect_of(source: Source, sheet: Sheet) -> csv.Dialect:
    """The dialect in which the sheet was read."""
    return csv.sniff(source, Mapper.of(str(source.path), sheet.mapping))


def lines(source: Source, dialect: csv.Dialect) -> Iterator[Line]:
    """All records in order; what stands before them is not among them."""
    at = start(source, dialect)
    for record in csv.records(source, dialect):
        raw = source.data[at : record.after.byte]
        at = record.after.byte
        end = _END.search(raw)
        stop = end.start() if end else len(raw)
        yield Line(record.line, record.cells, raw[:stop], raw[stop:])


def start(source: Source, dialect: csv.Dialect) -> int:
    """The byte at which the first record begins: behind the mark and the `sep=` line."""
    if dialect.skipped:
        return source.data.index(b"\n") + 1
    mark = codecs.BOM_UTF8
    return len(mark) if source.data.startswith(mark) else 0


def bare(text: str) -> str:
    """The text without the apostrophe that `csv.guarded` puts before it."""
    rest = text.removeprefix("'")
    return rest if rest != text and csv.guarded(rest) == text else text
