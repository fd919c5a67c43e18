"""peek: the headers of a spreadsheet, also where petsync knows none of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from petsync.sheets.delimited import csv
from petsync.sheets.headers import Mapper
from petsync.sheets.source import Source, load
from petsync.table.cells import trim

__all__ = ["Peek", "peek"]

_SEARCHED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What a person has to know to say what the columns mean: the worksheet (`tab`, "" for CSV),
    all worksheets that are to be seen, the headers in their order, and for those that are nearly
    one of petsync's columns, or usual names of one, which that is.
    """

    tab: str
    tabs: tuple[str, ...]
    headers: tuple[str, ...]
    meant: Mapping[str, str] = field(default_factory=dict)


def peek(path: str | Path, *, tab: str | None = None, encoding: str | None = None) -> Peek:
    """The headers of the file, or of the worksheet `tab`, else of its first one: the row with the
    most of petsync's columns or of near misses of them, else the one with the most cells. Raises
    SheetError where the file cannot be read.
    """
    source = load(Path(path), encoding)
    mapper = Mapper.of(str(source.path), None)
    if source.kind == "text":
        return _seen(mapper, "", (), _records(source, mapper))
    # calamine is loaded when a workbook is read.
    from petsync.sheets.ooxml import xlsx

    name, tabs, rows = xlsx.top(source, tab)
    return _seen(mapper, name, tabs, rows)


def _records(source: Source, mapper: Mapper) -> list[list[str]]:
    found = csv.records(source, csv.sniff(source, mapper))
    return [record.cells or [] for record in itertools.islice(found, _SEARCHED)]


def _seen(mapper: Mapper, tab: str, tabs: Sequence[str], rows: Sequence[Sequence[str]]) -> Peek:
    filled = [[trim(text) for text in row if trim(text)] for row in rows[:_SEARCHED]]
    best = max(filled, key=lambda row: (_known(mapper, row), len(row)), default=[])
    headers = tuple(dict.fromkeys(best))
    near = {text: name for text in headers if (name := mapper.nearest(text))}
    return Peek(tab=tab, tabs=tuple(tabs), headers=headers, meant=near)


def _known(mapper: Mapper, row: Sequence[str]) -> int:
    return len({name for text in row if (name := mapper.nearest(text))})
