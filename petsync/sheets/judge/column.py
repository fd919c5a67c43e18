"""One column under judgement: what its cells say, and the checks that every text has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Bools, Cells, Kind
from petsync.sheets.judge import clear
from petsync.sheets.judge.misread import repaired
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.judge.special import said

__all__ = [
    "NBSP",
    "Column",
    "Verdict",
    "judge_each",
    "judge_texts",
    "note_damage",
    "nulled",
    "open_column",
    "positions",
]

NBSP = "\u00a0"
# What the bytes 80 to BF, which follow the first in UTF-8, look like in Windows-1252.
_FOLLOWERS = "".join(
    {bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(0x80, 0xC0)} - {"-", "^"}
)
_MARKED = "Write {} to empty the field; put an apostrophe before the text if it is meant."
_SUSPECT = f"[\\x{{FFFD}}\\x{{300}}-\\x{{36F}}]|[\u00c2-\u00f4][{re.escape(_FOLLOWERS)}]"


@dataclass(frozen=True, slots=True)
class Column:
    """The cells of one of our columns; `says` is where there is a value that can be judged,
    `clear` where the cell is the clear marker.
    """

    name: str
    cells: Cells
    says: Bools
    clear: Bools
    notes: Notes

    def note(
        self,
        at: int,
        rule: str,
        problem: str = "",
        suggestion: str = "",
        *,
        meant: str | None = None,
        is_sure: bool = False,
    ) -> None:
        """Note a problem of the cell at one position."""
        value = self.cells.text[at].as_py()
        self.notes.add(at, self.name, Note(rule, value, problem, suggestion, meant, is_sure))


class Verdict(NamedTuple):
    """What a text stands for (None: nothing that can be used), and what is wrong with it."""

    value: Any
    notes: Sequence[Note] = ()


def positions(mask: Any) -> list[int]:
    """The positions at which a mask, NumPy's or Arrow's, is true."""
    found: list[int] = np.flatnonzero(np.asarray(mask)).tolist()
    return found


def open_column(
    name: str, cells: Cells, blank: Bools, marker: str, notes: Notes, *, special: bool = True
) -> Column:
    """The column, some of whose cells are `blank`, with cells that hold no text noted; `special`
    is off for numbers, whose columns have rules of their own for these.
    """
    cleared, alike, cells = clear.find(cells, marker)
    column = Column(name, cells, ~blank & ~cleared & ~alike, cleared, notes)
    for at in positions(alike):
        column.note(at, "clear-spelling", suggestion=_MARKED.format(marker))
    if special and cells.kinds is not None:
        for at in positions(cells.kinds != Kind.TEXT):
            _note_special(column, at, Kind(cells.kinds[at]))
    return column


def judge_each(column: Column, judge: Callable[[str], Verdict]) -> list[Any]:
    """The value of each row's cell, None where it says nothing; each text is judged once."""
    values, codes = _judged(column, judge)
    found: list[Any] = np.fromiter(values, dtype=object, count=len(values))[codes].tolist()
    return found


def judge_texts(
    column: Column, judge: Callable[[str], Verdict], *, otherwise: str | None = None
) -> Any:
    """The same as a `str` array, `otherwise` where the cell says nothing."""
    values, codes = _judged(column, judge)
    chosen = pa.array([*values[:-1], otherwise], pa.large_string()).take(pa.array(codes))
    return pd.array(chosen, dtype=pd.StringDtype(na_value=np.nan))


def _judged(
    column: Column, judge: Callable[[str], Verdict]
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.intp]]]:
    """The values of the different texts, None behind them, and which is each row's."""
    rows = np.flatnonzero(column.says)
    coded = pc.dictionary_encode(_taken(column.cells.text, rows))
    verdicts = [judge(text) for text in coded.dictionary.to_pylist()]
    codes = np.full(len(column.says), len(verdicts), dtype=np.intp)
    codes[rows] = coded.indices.to_numpy(zero_copy_only=False)
    faulty = np.array([*(bool(verdict.notes) for verdict in verdicts), False])
    for at in positions(faulty[codes]):
        column.notes.add(at, column.name, *verdicts[codes[at]].notes)
    return [*(verdict.value for verdict in verdicts), None], codes


def note_damage(column: Column) -> None:
    """Note texts that were decoded wrongly, and accents that stand alone."""
    text = column.cells.text
    # Most cells are plain ASCII, and the pattern is slow.
    rows = np.flatnonzero(~np.asarray(pc.string_is_ascii(text)))
    suspect = pc.match_substring_regex(_taken(text, rows), _SUSPECT)
    for at in rows[positions(suspect)].tolist():
        for rule, suggestion, meant in _damage(text[at].as_py()):
            column.note(at, rule, "", suggestion, meant=meant)


def _taken(text: Any, rows: np.ndarray[Any, Any]) -> Any:
    return text if len(rows) == len(text) else text.take(pa.array(rows))


def _damage(text: str) -> Iterable[tuple[str, str, str | None]]:
    before = repaired(text)
    if before or "\ufffd" in text:
        meant = f"It may be '{before}'; type it again." if before else ""
        yield "damaged-characters", meant, before or None
    if not unicodedata.is_normalized("NFC", text):
        yield "decomposed-characters", "", None


def _note_special(column: Column, at: int, kind: Kind) -> None:
    told = said(kind, column.cells.text[at].as_py(), column.name)
    column.note(at, told.rule, told.problem, told.suggestion, meant=told.meant)
    column.says[at] = told.is_value


def nulled(text: Any, keep: Bools) -> Any:
    """The texts, null where `keep` is false."""
    return pc.if_else(pa.array(keep), text, pa.scalar(None, pa.large_string()))
