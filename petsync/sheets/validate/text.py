"""Find suspicious texts: errors, dates, invisible characters, encodings, placeholders."""

from __future__ import annotations

import datetime as dt
import difflib
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import (
    Bools,
    CellKind,
    Cells,
    Rows,
    merge_rows,
)
from petsync.table.cells import BLANKS, trim

__all__ = [
    "MAX_PLACEHOLDER",
    "are_missing_values",
    "are_placeholders",
    "cells",
    "date_serial",
    "errors",
    "explain_error",
    "find_converted",
    "find_invisible",
    "is_placeholder",
    "kinds",
    "name_characters",
    "nearest_choice",
    "repair_misread",
    "suggest_typed",
]


# The errors that spreadsheet programs show instead of a value, with their meaning.


_MISSING_CELLS = "its formula points to cells that no longer exist"
_NOT_FOUND = "a look-up found nothing"
_UNKNOWN = "its formula has a name that the program does not recognise"
_WRONG = "its formula was given a value of the wrong kind"
_ZERO = "its formula divides by zero"
_NUMBER = "its formula has a result that is not a valid number"
_NO_OVERLAP = "its formula refers to the intersection of ranges that do not intersect"
_NARROW = "the column was too narrow to show the value when the file was saved"
_ERROR_TEXTS: Mapping[str, str] = {
    _NOT_FOUND: "#N/A #NV #N/D",
    _MISSING_CELLS: "#REF! #BEZUG! #RIF! #¡REF!",
    _UNKNOWN: "#NAME? #NOM? #NOME? #¿NOMBRE?",
    _WRONG: "#VALUE! #WERT! #VALEUR! #VALORE! #¡VALOR!",
    _ZERO: "#DIV/0! #¡DIV/0!",
    _NUMBER: "#NUM! #ZAHL! #NOMBRE! #¡NUM!",
    _NO_OVERLAP: "#NULL! #NUL! #NULLO! #¡NULO!",
    "": "#GETTING_DATA #SPILL! #CALC! #FIELD! #BLOCKED! #CONNECT! #UNKNOWN! #BUSY! #EXTERNAL! "
    "#PYTHON! #ERROR!",
}
_ERRORS = {value: why for why, values in _ERROR_TEXTS.items() for value in values.split()}
_LIBRE = re.compile(r"Err:5[0-9]{2}")
_HASHES = re.compile(r"#{3,}")
# A cell without quotes has no line break in it.
_BLANKS = BLANKS.replace("\r", "").replace("\n", "")
_SPACES = bytes({char.encode()[0] for char in _BLANKS})
_BEFORE_QUOTE = f'^[{re.escape(_BLANKS)}]+"'


def errors(cells: Cells) -> Iterator[int]:
    """Yield the positions of texts that are errors of a spreadsheet program."""
    rows = cells.utf8.rows_starting_with(b"#E")
    for at, value in _matching_texts(cells.text, rows, r"^(?:#|Err:5)"):
        if _error_cause(value) is not None:
            yield at


def kinds(raw: Cells) -> Iterator[tuple[int, CellKind]]:
    """Yield the position and the kind of each special cell in a column of a CSV file: an error, or
    a text that begins like a formula or with spaces and a quote, or contains a NUL.

    An apostrophe before a text means that the text is intended; `raw` must still have the
    apostrophe.
    """
    text, cell_bytes = raw.text, raw.utf8
    # Search for all of these first bytes together, because most columns have none of them.
    if len(cell_bytes.rows_starting_with(b"#E=" + _SPACES)):
        yield from ((at, CellKind.ERROR) for at in errors(raw))
        for at, _ in _matching_texts(text, cell_bytes.rows_starting_with(b"="), "^=[^=]"):
            yield at, CellKind.FORMULA
        for at, _ in _matching_texts(text, cell_bytes.rows_starting_with(_SPACES), _BEFORE_QUOTE):
            yield at, CellKind.QUOTED
    for at in cell_bytes.rows(cell_bytes.find(b"\0")).tolist():
        if not text[at].as_py().startswith("'"):
            yield at, CellKind.DAMAGED


def cells(text: Any, special_kinds: Mapping[int, CellKind]) -> Cells:
    """Return the cells of a CSV file's column, with the kinds that `kinds` found."""
    if not special_kinds:
        return Cells(text)
    marks = np.full(len(text), CellKind.TEXT, dtype=np.int8)
    marks[list(special_kinds)] = list(special_kinds.values())
    return Cells(text, marks)


def explain_error(value: str) -> tuple[str, str]:
    """Return the problem of a cell with this error, and a suggestion; each is "" if the rule's text
    is specific enough.
    """
    cause = _error_cause(value)
    if not cause:
        return "", ""
    shown = "###" if cause == _NARROW else value
    problem = f"The cell shows {shown}: {cause}."
    if cause == _NARROW:
        return problem, "Make the column wider in the workbook and save the CSV file again."
    if cause == _NOT_FOUND:
        return problem, "Type the value in, or leave the cell blank to change nothing."
    return problem, ""


def _matching_texts(text: Any, rows: Rows, pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the rows whose text matches the pattern, and their texts."""
    if not len(rows):
        return
    taken = text.take(pa.array(rows))
    for at in np.flatnonzero(pc.match_substring_regex(taken, pattern)).tolist():
        yield int(rows[at]), taken[at].as_py()


def _error_cause(text: str) -> str | None:
    """Return the cause of the error, "" if it is not known; None if the text is not an error."""
    if _HASHES.fullmatch(text):
        return _NARROW
    return "" if _LIBRE.fullmatch(text) else _ERRORS.get(text)


# Texts that a spreadsheet program converted to dates.


_DAY_ZERO = dt.date(1899, 12, 30)
"""The date of Excel's day number 0, for dates from March 1900 on."""
_DAY_ZERO_1904 = dt.date(1904, 1, 1)
"""The date of day number 0 in a workbook with the 1904 date system."""
_ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_OTHER_MONTHS = "Mrz|Mär|Mai|Okt|Dez|janv|févr|mars|avr|mai|juin|juil|août"
_MONTHS = f"{'|'.join(_ENGLISH)}|{_OTHER_MONTHS}"
# The pattern has no backreferences, because Arrow's regular expressions do not support them.
_CONVERTED = (
    rf"^\s*(?:[0-9](?:[.,][0-9]+)?E\+[0-9]{{2,3}}"
    rf"|[0-9]{{1,2}}(?:-|\. )(?:{_MONTHS})\.?(?:[- ][0-9]{{2,4}})?"
    rf"|(?:{_MONTHS})\.?-[0-9]{{2}}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T]00:00(?::00(?:\.0+)?)?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)[0-9]{4})\s*$"
)


def find_converted(cells: Cells) -> Iterator[int]:
    """Yield the positions of the cells whose text looks like a date or a number that a program made
    from a typed text.
    """
    cell_bytes = cells.utf8
    hyphens = cell_bytes.find(b"-")
    hyphens = hyphens[cell_bytes.bytes_after(hyphens) - ord("0") < 10]
    rows = merge_rows(cell_bytes.rows_starting_with(b"0123456789"), cell_bytes.rows(hyphens))
    if not len(rows):
        return
    matches = pc.match_substring_regex(cells.text.take(pa.array(rows)), _CONVERTED)
    yield from rows[np.flatnonzero(matches)].tolist()


def suggest_typed(shown: str) -> str:
    """Return a suggestion with the texts that a program may have converted to this date; "" if
    `shown` is not a date.
    """
    day = _day(shown)
    if day is None:
        return ""
    month, number = _ENGLISH[day.month - 1], day.day
    forms = (f"{month} {number}", f"{day.month}/{number}", f"{number}/{day.month}")
    *others, last = (f'"{form}"' for form in dict.fromkeys(forms))
    return f"If {', '.join(others)} or {last} was typed, format the cell as text and type it again."


def date_serial(shown: str, *, since_1904: bool = False) -> int | None:
    """Return the serial number of a date in a workbook, which uses the 1904 date system if
    `since_1904`. None if the text has a time, is not a date, or is a date before March 1900 (before
    January 2, 1904 in the 1904 date system).
    """
    day = _day(shown) if len(shown) == len("2026-05-01") else None
    first, zero = (1, _DAY_ZERO_1904) if since_1904 else (61, _DAY_ZERO)
    number = (day - zero).days if day else 0
    return number if number >= first else None


def _day(shown: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(shown[:10])
    except ValueError:
        return None


# Invisible characters, which can make texts that look equal differ.


# Control characters, soft hyphen, direction marks, zero-width characters, fillers and tag
# characters.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0001\U000e0020-\U000e007f]"
)
_LEADS = {
    chr(n).encode()[:2]
    for span in (
        (0x80, 0xA0),
        (0xAD, 0xAE),
        (0x61C, 0x61D),
        (0x115F, 0x1161),
        (0x17B4, 0x17B6),
        (0x180E, 0x180F),
        (0x200B, 0x2010),
        (0x202A, 0x202F),
        (0x2060, 0x2070),
        (0x3164, 0x3165),
        (0xFEFF, 0xFF00),
        (0xFFA0, 0xFFA1),
        (0xFFF9, 0xFFFC),
        (0xE0001, 0xE0080),
    )
    for n in range(*span)
}
_PAIRS = np.zeros((256, 256), dtype=bool)
"""A mask of the first two bytes of invisible characters in UTF-8; for a one-byte character, any
second byte matches.
"""
_PAIRS[[*range(9), 11, 12, *range(14, 32), 127]] = True
_PAIRS[tuple(zip(*_LEADS, strict=True))] = True
_UNSEEN_LEADS = bytes(np.flatnonzero(_PAIRS.any(axis=1)).tolist())
_GENERAL = np.zeros(256, dtype=bool)
_GENERAL[[*range(0x8B, 0x90), *range(0xAA, 0xAF)]] = True
_JOINERS = "\u200c\u200d"
_MARKS = "\u061c\u200e\u200f"
_FLAG = "\U0001f3f4"


def find_invisible(cells: Cells) -> Iterator[tuple[int, str]]:
    """Yield the cells with invisible characters: `(position, characters)`."""
    cell_bytes = cells.utf8
    places = cell_bytes.find(_UNSEEN_LEADS)
    places = places[_PAIRS[cell_bytes.data[places], cell_bytes.bytes_after(places)]]
    # Quotation marks and dashes, which are frequent, begin with the same two bytes as some of the
    # invisible characters.
    is_general = (cell_bytes.data[places] == 0xE2) & (cell_bytes.bytes_after(places) == 0x80)
    places = places[~is_general | _GENERAL[cell_bytes.bytes_after(places, by=2)]]
    for at in cell_bytes.rows(places).tolist():
        characters = "".join(dict.fromkeys(_hidden_characters(cells.text[at].as_py())))
        if characters:
            yield at, characters


def name_characters(characters: str) -> str:
    """Return the characters by code and name: `U+200B (zero width space), U+00AD (soft hyphen)`."""
    return ", ".join(map(_name, characters))


def _name(character: str) -> str:
    name = unicodedata.name(character, "control character").lower()
    return f"U+{ord(character):04X} ({name})"


def _hidden_characters(text: str) -> Iterator[str]:
    """Yield the invisible characters that are not part of the spelling."""
    is_right_to_left = any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)
    for match in _UNSEEN.finditer(text):
        char, position = match[0], match.start()
        if char in _JOINERS and _is_joined(text, position):
            continue
        if char in _MARKS and is_right_to_left:
            continue
        if char >= "\U000e0020" and _FLAG in text[:position]:
            continue
        yield char


def _is_joined(text: str, at: int) -> bool:
    """Return true if the joiner may be between parts of an emoji, or letters of a script that uses
    joiners.
    """
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return before >= "\u0600" and after >= "\u0600"


# Texts whose UTF-8 was decoded as Windows-1252: `ZoÃ«` instead of `Zoë`.


_BYTES = {bytes([n]).decode("cp1252", "ignore") or chr(n): n for n in range(0x80, 0x100)}
"""The byte (0x80 to 0xFF) of each Windows-1252 character; the five undefined bytes belong to the
control characters with the same numbers.
"""
_MISREAD_RUN = re.compile(f"([^\\x00-\\x7f{re.escape(''.join(_BYTES))}]+)")


def repair_misread(text: str) -> str:
    """Return the text in the right encoding; "" if it does not look wrong.

    Each part between characters that Windows-1252 does not have is repaired separately.
    """
    repaired = "".join(_decode_part(part) for part in _MISREAD_RUN.split(text))
    return repaired if repaired != text else ""


def _decode_part(part: str) -> str:
    try:
        return bytes(_BYTES.get(char, ord(char)) for char in part).decode()
    except ValueError:
        return part


# Placeholders: texts that people or programs write instead of leaving a cell blank.


_SIGNS = ("-", "--", "---", "–", "—", ".", "..", "...", "…", "_", "?", "??", "???")
_PROGRAMS = ("none", "null", "nil", "nan", "nat", "<na>", "undefined", "\\n", "#na")
_WORDS = ("n/a", "n.a.", "k.a.", "tbd", "tba", "todo", "empty", "blank", "leer", "keine", "vide")
_PLACEHOLDERS = frozenset(
    (*_SIGNS, *_PROGRAMS, *_WORDS, *(f"({word})" for word in (*_PROGRAMS, *_WORDS)))
)
_MISSING_VALUES = pa.array(
    ["nan", "NaN", "None", "NULL", "<NA>", "NaT", "(null)", "undefined", "\\N"], pa.large_string()
)
"""The texts that programs write for a missing value. The spelling must be exact: a pet may be
called Null or N/A.
"""
_PLACEHOLDER_SET = pa.array(sorted(_PLACEHOLDERS), pa.large_string())


def is_placeholder(text: str) -> bool:
    """Return true if people or programs write this text for "nothing" or "not known"."""
    return trim(text).casefold() in _PLACEHOLDERS


MAX_PLACEHOLDER = max(len(text.encode()) for text in _PLACEHOLDER_SET.to_pylist())
"""The maximum number of bytes of a placeholder."""


def are_placeholders(trimmed: Any) -> Bools:
    """Return a mask of the placeholders in an Arrow array of text."""
    result: Bools = np.asarray(pc.is_in(pc.utf8_lower(trimmed), value_set=_PLACEHOLDER_SET))
    return result


def are_missing_values(trimmed: Any) -> Bools:
    """Return a mask of the texts in an Arrow array that programs write for a missing value."""
    result: Bools = np.asarray(pc.is_in(trimmed, value_set=_MISSING_VALUES))
    return result


# The known word that a similar word probably means.


# Small letters of the Cyrillic and Greek alphabets that look like Latin ones.
_LATIN_LOOKALIKES = dict(
    zip(
        "аеорсухіјѕԁһԛԝьӏгкмнтвαβεικνορτυχγωѵ",
        "aeopcyxijsdhqwblrkmhtbabeiknoptuxywv",
        strict=True,
    )
)


def nearest_choice(word: str, choices: Collection[str]) -> tuple[str, str]:
    """Return the choice that a case-folded word may mean; and, if the word only looks the same, the
    difference in words. Return two empty texts if no choice is similar.
    """
    plain = _fold_lookalikes(word)
    if plain in choices:
        return plain, _reason(word)
    near = difflib.get_close_matches(plain, choices, n=1)
    return (near[0], "") if near else ("", "")


def _fold_lookalikes(word: str) -> str:
    """Return the word with Latin letters instead of letters of other scripts that look like them,
    and without invisible characters.
    """
    folded = unicodedata.normalize("NFKC", word)
    return "".join(_LATIN_LOOKALIKES.get(char, char) for char in folded if char.isprintable())


def _reason(word: str) -> str:
    strange = next((char for char in word if char in _LATIN_LOOKALIKES), "")
    if strange:
        name = unicodedata.name(strange).lower()
        return f"the '{strange}' in the cell is U+{ord(strange):04X}, {name}"
    return "the cell has characters that look like other characters or cannot be seen"
