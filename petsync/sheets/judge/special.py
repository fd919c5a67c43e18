"""Cells of a column of text that hold something else: numbers, dates, errors, formulas."""

from __future__ import annotations

import re
from typing import NamedTuple

from petsync.sheets.grid import Kind
from petsync.sheets.judge import broken, dates

__all__ = ["Said", "said"]

_IMPRECISE = 10**15
_TYPED = ("name", "category", "tags")
"""Where a date is what became of a text; elsewhere it was never meant to be there."""
_QUOTED = re.compile(r'="([^"]*)"')


class Said(NamedTuple):
    """What is said of such a cell, and whether its text is the value all the same."""

    rule: str
    problem: str = ""
    suggestion: str = ""
    is_value: bool = False
    meant: str | None = None


def said(kind: Kind, text: str, column: str) -> Said:
    """What is wrong with a cell that holds no text; `text` is what it shows."""
    if kind is Kind.ERROR:
        return Said("error-cell", *broken.explained(text))
    if kind is Kind.DATE:
        meant = dates.typed(text) if column in _TYPED else ""
        return Said("date-instead-of-text", f"The cell holds the date {text}.", meant)
    if kind is Kind.BOOLEAN:
        return Said("boolean-instead-of-text", f"The cell holds the value {text} and no text.")
    if kind is Kind.DAMAGED:
        return Said("nul-character")
    if kind is Kind.EMPTY:
        return Said("formula-empty")
    if kind is Kind.QUOTED:
        return Said("quote-after-space")
    if kind is Kind.FORMULA:
        return _formula(text)
    return _number(text) if kind is Kind.NUMBER else Said("formula-without-value")


def _number(text: str) -> Said:
    if abs(float(text)) >= _IMPRECISE:
        return Said("number-imprecise")
    problem = (
        f"The cell holds the number {text}, not text; zeros before it may be lost, even where the "
        "cell shows some."
    )
    meant = f"If it is not {text} that is meant, format the cell as text and type it again."
    return Said("number-instead-of-text", problem, meant, is_value=True, meant=text)


def _formula(text: str) -> Said:
    inner = _QUOTED.fullmatch(text)
    if inner is None:
        return Said("formula-text", is_value=True)
    hint = f"Write {inner[1]} without the equals sign and the quotes."
    return Said("formula-text", "", hint, is_value=True, meant=inner[1])
