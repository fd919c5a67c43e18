"""What may have been typed before a spreadsheet program made a date of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.judge.octets import beginning_with, octets

__all__ = ["converted", "serial", "typed"]

_FIRST = dt.date(1899, 12, 30)
"""Day 0 of the calendar that Excel counts days in, from March 1900 on."""
_ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_OTHERS = "Mrz|Mär|Mai|Okt|Dez|janv|févr|mars|avr|mai|juin|juil|août"
_MONTHS = f"{'|'.join(_ENGLISH)}|{_OTHERS}"
# For Arrow's expressions, in which nothing refers back.
_CONVERTED = (
    rf"^\s*(?:[0-9](?:[.,][0-9]+)?E\+[0-9]{{2,3}}"
    rf"|[0-9]{{1,2}}(?:-|\. )(?:{_MONTHS})\.?(?:[- ][0-9]{{2,4}})?"
    rf"|(?:{_MONTHS})\.?-[0-9]{{2}}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T]00:00(?::00(?:\.0+)?)?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)[0-9]{4})\s*$"
)


def converted(text: Any) -> Iterator[int]:
    """The positions in an Arrow array of text of what a program makes of dates and numbers."""
    seen = octets(text)
    hyphens = seen.places(lambda data: data == ord("-"))
    hyphens = hyphens[seen.following(hyphens) - ord("0") < 10]
    rows = np.union1d(beginning_with(text, b"0123456789"), seen.rows(hyphens))
    found = pc.match_substring_regex(text.take(pa.array(rows)), _CONVERTED)
    yield from rows[np.flatnonzero(found)].tolist()


def typed(shown: str) -> str:
    """What may have been typed, for a date as a cell shows it: a suggestion, or ""."""
    day = _day(shown)
    if day is None:
        return ""
    month, number = _ENGLISH[day.month - 1], day.day
    forms = (f"{month} {number}", f"{day.month}/{number}", f"{number}/{day.month}")
    *firsts, last = (f'"{form}"' for form in dict.fromkeys(forms))
    return f"If {', '.join(firsts)} or {last} was typed, format the cell as text and type it again."


def serial(shown: str) -> int | None:
    """The number that a workbook has for a date; None where the text is no date after 1900."""
    day = _day(shown)
    number = (day - _FIRST).days if day else 0
    return number if number > 60 else None


def _day(shown: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(shown[:10])
    except ValueError:
        return None
