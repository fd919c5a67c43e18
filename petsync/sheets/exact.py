"""The exact texts of an export, carried in the workbook, and what another program saved over."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from petsync.errors import SheetError
from petsync.sheets.grid import Cells, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.xlsx.survey import lines_of
from petsync.table.base import ParcelError, pack, unpack

if TYPE_CHECKING:
    from petsync.sheets.xlsx.package import Package

__all__ = ["FRAGILE", "TAB", "exact_lines", "find_resaved_forms", "lines_without", "restore_texts"]


# What LibreOffice makes of a text when it opens a workbook and saves it.
#
# It takes every line end of a text of several lines for a line feed, takes `_x1_` for an escaped
# character as it does `_x0001_`, and escapes what looks like an escape only where no other one
# overlaps it. Nothing else changes a text. Found by saving many thousand texts with release 7.4;
# tests/test_sheets_libreoffice.py holds it to the release that is installed.


FRAGILE = re.compile(r"\r|_x[0-9A-Fa-f]{1,4}[_\x00-\x1f\ufffe\uffff]")
"""What every text has that does not stay as it is."""

_LINE_END = re.compile(r"\r\n|\n\r|\r|\n")
_SHORT = re.compile(r"_x([0-9A-Fa-f]{1,4})_")
_ALIKE = re.compile(r"(_x005F_x[0-9A-F]{4}_)|(_x[0-9A-F]{4}_)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NONCHARACTER = re.compile(r"_x(?:005F|FFF[EF])_", re.IGNORECASE)
_ESCAPE = re.compile(r"_x((?!D[89A-F]|FFF[EF])[0-9A-F]{4})_", re.IGNORECASE)


def find_resaved_forms(text: str, *, times: int = 4) -> list[str]:
    """The other texts that it becomes when it is saved so many times; none where it stays."""
    forms: list[str] = []
    form = text
    for _ in range(times):
        written = _encode(_lines(form))
        form = _decode(written)
        if form != text and form not in forms:
            forms.append(form)
        # The next time it is opened from the file as it is, not from what we would have written.
        form = _SHORT.sub(_decode_control, written)
    return forms


def _lines(text: str) -> str:
    return _LINE_END.sub("\n", text) if "\n" in text else text


def _encode(text: str) -> str:
    """As LibreOffice writes it, but for what XML itself escapes."""
    escaped = _ALIKE.sub(lambda match: match[1] or f"_x005F{match[0]}", text)
    return _CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", escaped)


def _decode_control(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code < 0x20 or code in (0x5F, 0xFFFE, 0xFFFF) else match[0]


def _decode(written: str) -> str:
    """As petsync reads what is written so."""

    def character(match: re.Match[str]) -> str:
        escape = match[0].upper()
        return match[0] if escape == "_X005F_" else chr(int(escape[2:6], 16))

    plain = _NONCHARACTER.sub(character, written)
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), plain)


# The exact texts of the cells that LibreOffice changes when it saves a workbook.
#
# Few workbooks have any: of these a hidden worksheet holds the texts, by column and id. A cell
# whose text is just what LibreOffice makes of its own reads as that: what a program mangled is no
# edit. Nothing else is ever read from there.


TAB = "petsync texts"
"""The worksheet that holds them."""

_Texts = dict[str, list[tuple[str, str]]]
"""By column: the id, as a text, and the cell's text."""


def exact_lines(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of the worksheet; [] where no text is in danger."""
    found = {name: _fragile(columns["id"], texts) for name, texts in columns.items()}
    kept = {name: texts for name, texts in found.items() if texts}
    return pack(msgspec.json.encode(kept)) if kept else []


def restore_texts(grid: Grid, package: Package, mapper: Mapper) -> Grid:
    """The grid with the exact texts, as far as the workbook has them."""
    kept = _load_texts(package)
    if not kept or not grid.columns:
        return grid
    ours = mapper.match(grid.header, grid.places).ours
    ids = _ids(grid, ours)
    columns = list(grid.columns)
    for name, texts in kept.items():
        if name in ours:
            columns[ours[name]] = _with_exact(columns[ours[name]], ids, texts)
    return replace(grid, columns=columns)


def lines_without(package: Package, edited: Collection[tuple[str, str]]) -> list[str] | None:
    """The worksheet's lines without the cells that were edited, by id and column: what was exact
    there is no more. None where none of them is in it.
    """
    kept = _load_texts(package)
    left = {
        name: [pair for pair in texts if (pair[0], name) not in edited]
        for name, texts in kept.items()
    }
    return None if left == kept else pack(msgspec.json.encode(left))


def _fragile(ids: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str]]:
    together = "\0".join(texts)
    if "\r" not in together and "_x" not in together:
        return []
    risky = [FRAGILE.search(text) is not None for text in texts]
    found = list(zip(compress(ids, risky), compress(texts, risky), strict=True))
    # Where a row says by itself what would become of another one's text, neither is touched.
    said = set(zip(ids, texts, strict=True))
    return [
        (number, text)
        for number, text in found
        if (forms := find_resaved_forms(text)) and not any((number, form) in said for form in forms)
    ]


def _load_texts(package: Package) -> _Texts:
    try:
        lines = lines_of(package, TAB)
        return msgspec.json.decode(unpack(lines), type=_Texts) if lines else {}
    except (ParcelError, SheetError, msgspec.DecodeError, UnicodeDecodeError):
        # The cells are then read as they stand, and a plan shows what differs.
        return {}


def _ids(grid: Grid, ours: Mapping[str, int]) -> list[str]:
    if "id" not in ours:
        return [""] * len(grid.rows)
    ids: list[str] = grid.columns[ours["id"]].trim().to_pylist()
    return ids


def _with_exact(cells: Cells, ids: Sequence[str], texts: Sequence[tuple[str, str]]) -> Cells:
    forms = {(number, form): text for number, text in texts for form in find_resaved_forms(text)}
    found: list[str] = cells.text.to_pylist()
    exact = [forms.get((number, text), text) for number, text in zip(ids, found, strict=True)]
    return Cells(pa.array(exact, pa.large_string()), cells.kinds)
