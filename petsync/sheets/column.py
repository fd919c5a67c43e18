"""One column under judgement: what its cells say, and the checks that every text has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets import clear
from petsync.sheets.grid import Bools, Cells, Kind
from petsync.sheets.notes import Note, Notes

__all__ = [
    "NBSP",
    "Column",
    "Verdict",
    "judge_each",
    "note_damage",
    "nulled",
    "open_column",
    "positions",
]

NBSP = "\u00a0"
_SPECIAL = {
    Kind.BOOLEAN: "boolean-instead-of-text",
    Kind.DATE: "date-instead-of-text",
    Kind.ERROR: "error-cell",
    Kind.UNCALCULATED: "formula-without-value",
}
_IMPRECISE = 10**15
# What the bytes 80 to BF, which follow the first in UTF-8, look like in Windows-1252.
_FOLLOWERS = "".join(
    {bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(0x80, 0xC0)} - {"-", "^"}
)
_SUSPECT = f"[\\x00\\x{{FFFD}}\\x{{300}}-\\x{{36F}}]|[\u00c2-\u00f4][{re.escape(_FOLLOWERS)}]"


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

    def note(self, at: int, rule: str, problem: str = "", suggestion: str = "") -> None:
        """Note a problem of the cell at one position."""
        value = self.cells.text[at].as_py()
        self.notes.add(at, self.name, Note(rule, value, problem, suggestion))


class Verdict(NamedTuple):
    """What a text stands for (None: nothing that can be used), and what is wrong with it."""

    value: Any
    notes: Sequence[Note] = ()


_SILENT = Verdict(None)


def positions(mask: Any) -> list[int]:
    """The positions at which a mask, NumPy's or Arrow's, is true."""
    found: list[int] = np.flatnonzero(np.asarray(mask)).tolist()
    return found


def open_column(
    name: str, cells: Cells, marker: str, notes: Notes, *, special: bool = True
) -> Column:
    """The column, with cells that hold no text noted; `special` is off for numbers, whose
    columns have rules of their own for these.
    """
    blank = cells.blank()
    cleared, cells = clear.find(cells, marker)
    column = Column(name, cells, ~blank & ~cleared, cleared, notes)
    if special and cells.kinds is not None:
        for at in positions(cells.kinds != Kind.TEXT):
            _note_special(column, at, Kind(cells.kinds[at]))
    return column


def judge_each(column: Column, judge: Callable[[str], Verdict]) -> list[Any]:
    """The value of each row's cell, None where it says nothing; each text is judged once."""
    coded = pc.dictionary_encode(column.cells.text)
    codes = coded.indices.to_numpy(zero_copy_only=False)
    texts = coded.dictionary.to_pylist()
    verdicts: list[Verdict] = [_SILENT] * len(texts)
    for code in np.unique(codes[column.says]).tolist():
        verdicts[code] = judge(texts[code])
    faulty = np.array([bool(verdict.notes) for verdict in verdicts], dtype=bool)
    for at in positions(faulty[codes] & column.says) if len(texts) else ():
        column.notes.add(at, column.name, *verdicts[codes[at]].notes)
    return [
        verdicts[code].value if says else None
        for code, says in zip(codes.tolist(), column.says.tolist(), strict=True)
    ]


def note_damage(column: Column) -> None:
    """Note texts with NUL characters, wrongly decoded ones, and accents that stand alone."""
    suspect = pc.match_substring_regex(column.cells.text, _SUSPECT)
    for at in positions(suspect):
        for rule, problem, suggestion in _damage(column.cells.text[at].as_py()):
            column.note(at, rule, problem, suggestion)


def _damage(text: str) -> Iterable[tuple[str, str, str]]:
    if "\0" in text:
        yield "nul-character", "", ""
    repaired = _repaired(text)
    if repaired or "\ufffd" in text:
        meant = f"It may be {repaired!r}; type it again." if repaired else ""
        yield "damaged-characters", "", meant
    if not unicodedata.is_normalized("NFC", text):
        yield "decomposed-characters", "", ""


def _repaired(text: str) -> str:
    """What the text was before its UTF-8 was taken for Windows-1252; "" if it was not."""
    try:
        repaired = text.encode("cp1252").decode()
    except UnicodeError:
        return ""
    return repaired if repaired != text else ""


def _note_special(column: Column, at: int, kind: Kind) -> None:
    text = column.cells.text[at].as_py()
    if kind is not Kind.NUMBER:
        shown = f"The cell holds {text}." if text and kind is not Kind.ERROR else ""
        column.note(at, _SPECIAL[kind], shown)
        column.says[at] = False
    elif abs(float(text)) >= _IMPRECISE:
        column.note(at, "number-imprecise")
        column.says[at] = False
    else:
        column.note(at, "number-instead-of-text")


def nulled(text: Any, keep: Bools) -> Any:
    """The texts, null where `keep` is false."""
    return pc.if_else(pa.array(keep), text, pa.scalar(None, pa.large_string()))
