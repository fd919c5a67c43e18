"""The errors that spreadsheet programs show in place of a value, and what each of them means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Cells, Kind
from petsync.sheets.judge.octets import Rows, beginning_with, octets

__all__ = ["cells", "errors", "explained", "kinds"]

_LOST = "its formula points to cells that are gone"
_NOTHING = "a look-up found nothing"
_UNKNOWN = "its formula has a name that the program does not know"
_WRONG = "its formula was given a value of the wrong kind"
_ZERO = "its formula divides by zero"
_NUMBER = "its formula has a result that is no possible number"
_APART = "its formula asks for the overlap of ranges that do not overlap"
_NARROW = "the column was too narrow to show the value when the file was saved"
_SHOWN: Mapping[str, str] = {
    _NOTHING: "#N/A #NV #N/D",
    _LOST: "#REF! #BEZUG! #RIF! #¡REF!",
    _UNKNOWN: "#NAME? #NOM? #NOME? #¿NOMBRE?",
    _WRONG: "#VALUE! #WERT! #VALEUR! #VALORE! #¡VALOR!",
    _ZERO: "#DIV/0! #¡DIV/0!",
    _NUMBER: "#NUM! #ZAHL! #NOMBRE! #¡NUM!",
    _APART: "#NULL! #NUL! #NULLO! #¡NULO!",
    "": "#GETTING_DATA #SPILL! #CALC! #FIELD! #BLOCKED! #CONNECT! #UNKNOWN! #BUSY! #EXTERNAL!",
}
_ERRORS = {value: why for why, values in _SHOWN.items() for value in values.split()}
_LIBRE = re.compile(r"Err:5[0-9]{2}")
_HASHES = re.compile(r"#{3,}")


def errors(text: Any) -> Iterator[int]:
    """The positions in an Arrow array of text of which the whole is such an error."""
    rows = beginning_with(text, b"#E")
    for at, value in _texts(text, rows, r"^(?:#|Err:5)"):
        if _why(value) is not None:
            yield at


def kinds(raw: Any) -> Iterator[tuple[int, Kind]]:
    """Which cells of a column of a CSV file are errors, begin like a formula or with a quote behind
    spaces, or hold a NUL.

    An apostrophe before a text says that it is meant so; `raw` must still have it.
    """
    # One look for all of them: most columns have none.
    if len(beginning_with(raw, b"#E= \xc2")):
        yield from ((at, Kind.ERROR) for at in errors(raw))
        for at, _ in _texts(raw, beginning_with(raw, b"="), "^=[^=]"):
            yield at, Kind.FORMULA
        for at, _ in _texts(raw, beginning_with(raw, b" \xc2"), '^[ \u00a0]+"'):
            yield at, Kind.QUOTED
    seen = octets(raw)
    for at in seen.rows(seen.places(lambda data: data == 0)).tolist():
        if not raw[at].as_py().startswith("'"):
            yield at, Kind.DAMAGED


def cells(text: Any, found: Mapping[int, Kind]) -> Cells:
    """The cells of a column of a CSV file, with what `kinds` found in it."""
    if not found:
        return Cells(text)
    marks = np.full(len(text), Kind.TEXT, dtype=np.int8)
    marks[list(found)] = list(found.values())
    return Cells(text, marks)


def explained(value: str) -> tuple[str, str]:
    """The problem of a cell with this error, and a suggestion; "" where the rule's own will do."""
    why = _why(value)
    if not why:
        return "", ""
    problem = f"The cell shows {value[:8]}: {why}."
    if why == _NARROW:
        return problem, "Make the column wider in the workbook and save the CSV file again."
    if why == _NOTHING:
        return problem, "Type the value in, or leave the cell blank to say nothing."
    return problem, ""


def _texts(text: Any, rows: Rows, pattern: str) -> Iterator[tuple[int, str]]:
    """Those of the rows whose text has the pattern, and these texts."""
    if not len(rows):
        return
    taken = text.take(pa.array(rows))
    for at in np.flatnonzero(pc.match_substring_regex(taken, pattern)).tolist():
        yield int(rows[at]), taken[at].as_py()


def _why(text: str) -> str | None:
    """What the error means, "" where that is not known; None where the text is no error."""
    if _HASHES.fullmatch(text):
        return _NARROW
    return "" if _LIBRE.fullmatch(text) else _ERRORS.get(text)
