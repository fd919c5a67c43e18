"""The exact texts of exported cells, stored because LibreOffice may change the cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from petsync._json import decoder_of
from petsync.errors import SheetError
from petsync.sheets.grid import Cells, Grid
from petsync.sheets.headers import Mapper
from petsync.sheets.xlsx.survey import lines_of
from petsync.table.base import ParcelError, pack, unpack

if TYPE_CHECKING:
    from petsync.sheets.xlsx.package import Package

__all__ = [
    "FRAGILE_TEXT",
    "TEXTS_TAB",
    "exact_lines",
    "find_resaved_forms",
    "remaining_lines",
    "restore_texts",
]


# How LibreOffice changes a text when it opens a workbook and saves it.
#
# In a text with a line feed, it reads every line end as a line feed. It reads `_x1_` as an escaped
# character, like `_x0001_`. It escapes a text that looks like an escape only if no other escape
# overlaps it. Tests with many thousand texts and release 7.4 showed no other change;
# tests/test_sheets_libreoffice.py tests the installed release.


FRAGILE_TEXT = re.compile(r"\r|_x[0-9A-Fa-f]{1,4}[_\x00-\x1f\ufffe\uffff]")
"""Found in every text that LibreOffice changes, and in some others."""

_LINE_END = re.compile(r"\r\n|\n\r|\r|\n")
_SHORT_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{1,4})_")
_ESCAPE_LIKE = re.compile(r"(_x005F_x[0-9A-F]{4}_)|(_x[0-9A-F]{4}_)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NONCHARACTER = re.compile(r"_x(?:005F|FFF[EF])_", re.IGNORECASE)
_ESCAPE = re.compile(r"_x((?!D[89A-F]|FFF[EF])[0-9A-F]{4})_", re.IGNORECASE)


def find_resaved_forms(text: str, *, times: int = 4) -> list[str]:
    """Return the other texts that the text becomes if LibreOffice saves it up to `times` times."""
    forms: list[str] = []
    form = text
    for _ in range(times):
        written = _encode(_normalize_line_ends(form))
        form = _decode(written)
        if form != text and form not in forms:
            forms.append(form)
        # The next time, LibreOffice opens a file that it wrote itself.
        form = _SHORT_ESCAPE.sub(_decode_control, written)
    return forms


def _find_all_forms(text: str) -> list[str]:
    """Return the resaved forms of the text, and those of an .xls file, which has line feeds."""
    forms = find_resaved_forms(text)
    fed = [_LINE_END.sub("\n", form) for form in (text, *forms)]
    return [form for form in dict.fromkeys((*forms, *fed)) if form != text]


def _normalize_line_ends(text: str) -> str:
    return _LINE_END.sub("\n", text) if "\n" in text else text


def _encode(text: str) -> str:
    """Return the text as LibreOffice writes it, before XML escaping."""
    escaped = _ESCAPE_LIKE.sub(lambda match: match[1] or f"_x005F{match[0]}", text)
    return _CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", escaped)


def _decode_control(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code < 0x20 or code in (0x5F, 0xFFFE, 0xFFFF) else match[0]


def _decode(written: str) -> str:
    """Return the text that petsync reads from a cell that LibreOffice saves as `written`."""

    def character(match: re.Match[str]) -> str:
        escape = match[0].upper()
        return match[0] if escape == "_X005F_" else chr(int(escape[2:6], 16))

    plain = _NONCHARACTER.sub(character, written)
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), plain)


# The exact texts of cells that LibreOffice changes when it saves a workbook.
#
# Few workbooks have such cells. If there are any, a hidden worksheet has the exact texts, by column
# and id. A cell with LibreOffice's version of its exact text is read as the exact text, because a
# change by a program is not an edit.


TEXTS_TAB = "petsync texts"
"""The worksheet that contains the exact texts."""

_Texts = dict[str, list[tuple[str, str]]]
"""The id and the exact text of each cell, by column."""


def exact_lines(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of the worksheet with the exact texts; [] if it is not needed. `columns` has
    the column `id` too.
    """
    texts_by_column = {name: _find_fragile(columns["id"], texts) for name, texts in columns.items()}
    fragile_texts = {name: texts for name, texts in texts_by_column.items() if texts}
    return pack(msgspec.json.encode(fragile_texts)) if fragile_texts else []


def restore_texts(grid: Grid, package: Package, mapper: Mapper) -> Grid:
    """Return the grid with the exact texts from the workbook."""
    exact_texts = _load_texts(package)
    if not exact_texts or not grid.columns:
        return grid
    column_positions = mapper.match(grid.header, grid.places).columns
    ids = _ids(grid, column_positions)
    columns = list(grid.columns)
    for name, texts in exact_texts.items():
        if name in column_positions:
            columns[column_positions[name]] = _restore_column(
                columns[column_positions[name]], ids, texts
            )
    return replace(grid, columns=columns)


def remaining_lines(package: Package, edited: Collection[tuple[str, str]]) -> list[str] | None:
    """Return the worksheet's lines without the edited cells, given by id and column; None if the
    worksheet has none of them.
    """
    exact_texts = _load_texts(package)
    remaining = {
        name: [pair for pair in texts if (pair[0], name) not in edited]
        for name, texts in exact_texts.items()
    }
    return None if remaining == exact_texts else pack(msgspec.json.encode(remaining))


def _find_fragile(ids: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str]]:
    joined = "\0".join(texts)
    if "\r" not in joined and "_x" not in joined:
        return []
    is_fragile = [FRAGILE_TEXT.search(text) is not None for text in texts]
    candidates = list(zip(compress(ids, is_fragile), compress(texts, is_fragile), strict=True))
    # A text is left out if a row with the same id has the text that it would become: then nothing
    # shows which of them a saved cell had.
    pairs = set(zip(ids, texts, strict=True))
    return [
        (number, text)
        for number, text in candidates
        if (forms := _find_all_forms(text)) and not any((number, form) in pairs for form in forms)
    ]


def _load_texts(package: Package) -> _Texts:
    try:
        lines = lines_of(package, TEXTS_TAB)
        return decoder_of(_Texts).decode(unpack(lines)) if lines else {}
    except (ParcelError, SheetError, msgspec.DecodeError, UnicodeDecodeError):
        # The cells are then read unchanged, and a plan shows the differences.
        return {}


def _ids(grid: Grid, column_positions: Mapping[str, int]) -> list[str]:
    if "id" not in column_positions:
        return [""] * len(grid.rows)
    ids: list[str] = grid.columns[column_positions["id"]].trim().to_pylist()
    return ids


def _restore_column(cells: Cells, ids: Sequence[str], texts: Sequence[tuple[str, str]]) -> Cells:
    forms = {(number, form): text for number, text in texts for form in _find_all_forms(text)}
    cell_texts: list[str] = cells.text.to_pylist()
    exact = [forms.get((number, text), text) for number, text in zip(ids, cell_texts, strict=True)]
    return Cells(pa.array(exact, pa.large_string()), cells.kinds)
