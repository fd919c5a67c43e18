"""The columns of numbers, `id` and `category_id`: exact, or a finding; nothing is rounded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Kind
from petsync.sheets.judge import broken, dates, numerals
from petsync.sheets.judge.column import NBSP, Column, positions
from petsync.sheets.rules import RULES
from petsync.table.cells import trim

__all__ = ["Numbers", "numbers", "pet_ids"]

Numbers = pd.arrays.IntegerArray
_PLAIN = r"^(?:0|-?[1-9][0-9]{0,17})$"
_IMPRECISE = 10**15
_RULES = {
    Kind.BOOLEAN: "id-not-a-cell",
    Kind.DATE: "id-not-a-cell",
    Kind.ERROR: "error-cell",
    Kind.UNCALCULATED: "formula-without-value",
    Kind.QUOTED: "quote-after-space",
    Kind.EMPTY: "formula-empty",
    Kind.DAMAGED: "nul-character",
}
_OTHERWISE = {"id-not-a-number": "Write the category's number, or leave the cell blank."}


def numbers(column: Column) -> Numbers:
    """The column as Int64, missing where it says nothing that can be used."""
    trimmed = column.cells.trimmed()
    plain = np.asarray(pc.match_substring_regex(trimmed, _PLAIN)) & column.says
    values = pc.cast(pc.if_else(pa.array(plain), trimmed, "0"), pa.int64())
    exact = np.array(values.to_numpy(zero_copy_only=False))
    known = plain & ~_imprecise(column, exact)
    for at in positions(known & (np.abs(exact) >= _IMPRECISE)):
        if numerals.is_rounded(int(exact[at])):
            _note(column, at, numerals.Reading(None, "id-rounded"))
    for at in positions(~plain & (column.says | _unusual(column))):
        number = _judge(column, at)
        if number is not None:
            exact[at], known[at] = number, True
    _note_spaces(column, trimmed)
    return Numbers(exact, ~known)


def pet_ids(column: Column, exported: Collection[int]) -> Numbers:
    """The column of the pets' ids, likewise. One below 1 is noted, unless it was exported."""
    found = numbers(column)
    values = found.to_numpy(dtype=np.int64, na_value=1)
    for at in positions(values < 1):
        if int(values[at]) not in exported:
            column.note(at, "id-below-one", is_sure=True)
    return found


def _unusual(column: Column) -> Bools:
    kinds = column.cells.kinds
    return np.zeros(len(column.says), dtype=bool) if kinds is None else kinds > Kind.NUMBER


def _imprecise(column: Column, exact: Any) -> Bools:
    """Where a number cell is too large to be sure of its last digits; these are noted."""
    nothing = np.zeros(len(exact), dtype=bool)
    if column.cells.kinds is None:
        return nothing
    large: Bools = (column.cells.kinds == Kind.NUMBER) & (np.abs(exact) >= _IMPRECISE)
    for at in positions(large & column.says):
        _note(column, at, numerals.Reading(None, "id-imprecise"))
    return large


def _judge(column: Column, at: int) -> int | None:
    text = trim(column.cells.text[at].as_py())
    kind = Kind.TEXT if column.cells.kinds is None else Kind(column.cells.kinds[at])
    if kind in _RULES:
        _note(column, at, _said(kind, text))
        return None
    reading = numerals.read(text, is_number=kind is Kind.NUMBER)
    if reading.rule:
        _note(column, at, reading)
    return reading.number


def _said(kind: Kind, text: str) -> numerals.Reading:
    problem, suggestion = broken.explained(text) if kind is Kind.ERROR else ("", "")
    number = dates.serial(text) if kind is Kind.DATE else None
    if number is None:
        return numerals.Reading(None, _RULES[kind], problem, suggestion)
    problem = f"The cell holds the date {text}, which is the number {number} in the workbook."
    suggestion = f"If {number} is meant, format the column as text and type it again."
    return numerals.Reading(None, _RULES[kind], problem, suggestion, str(number))


def _note(column: Column, at: int, reading: numerals.Reading) -> None:
    """Note it in the words of the column: a category's id is not a pet's."""
    number, rule, problem, suggestion, meant = reading
    if column.name == "category_id":
        problem = (problem or RULES[rule].meaning).replace("The id", "The category's id", 1)
        suggestion = suggestion or _OTHERWISE.get(rule, "")
    # A cell of a workbook that is a number is read as one, whatever it shows.
    column.note(at, rule, problem, suggestion, meant=meant, is_sure=number is not None)


def _note_spaces(column: Column, trimmed: Any) -> None:
    spaced = pc.not_equal(column.cells.text, trimmed)
    if pc.any(spaced).as_py():
        for at in positions(np.asarray(spaced) & column.says):
            if NBSP in column.cells.text[at].as_py():
                column.note(at, "no-break-space", meant=trimmed[at].as_py(), is_sure=True)
