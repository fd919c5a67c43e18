"""Suspicious text: damaged encodings, invisible characters, dates, placeholders, spelling."""

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

from petsync.sheets.grid import Bools, CellKind, Cells, Rows, rows_starting_with, text_bytes
from petsync.table.cells import BLANKS, trim

__all__ = [
    "are_missing_values",
    "are_placeholders",
    "cells",
    "errors",
    "explain_error",
    "find_converted",
    "find_invisible",
    "is_placeholder",
    "kinds",
    "name_characters",
    "nearest_column",
    "repair_misread",
    "serial",
    "suggest_typed",
]


# The errors that spreadsheet programs show in place of a value, and what each of them means.


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
    "": "#GETTING_DATA #SPILL! #CALC! #FIELD! #BLOCKED! #CONNECT! #UNKNOWN! #BUSY! #EXTERNAL! "
    "#PYTHON! #ERROR!",
}
_ERRORS = {value: why for why, values in _SHOWN.items() for value in values.split()}
_LIBRE = re.compile(r"Err:5[0-9]{2}")
_HASHES = re.compile(r"#{3,}")
# A cell without quotes has no line break in it.
_BLANKS = BLANKS.replace("\r", "").replace("\n", "")
_SPACES = bytes({char.encode()[0] for char in _BLANKS})
_BEFORE_QUOTE = f'^[{re.escape(_BLANKS)}]+"'


def errors(text: Any) -> Iterator[int]:
    """The positions in an Arrow array of text of which the whole is such an error."""
    rows = rows_starting_with(text, b"#E")
    for at, value in _texts(text, rows, r"^(?:#|Err:5)"):
        if _why(value) is not None:
            yield at


def kinds(raw: Any) -> Iterator[tuple[int, CellKind]]:
    """Which cells of a column of a CSV file are errors, begin like a formula or with a quote behind
    spaces, or hold a NUL.

    An apostrophe before a text says that it is meant so; `raw` must still have it.
    """
    # One look for all of them: most columns have none.
    if len(rows_starting_with(raw, b"#E=" + _SPACES)):
        yield from ((at, CellKind.ERROR) for at in errors(raw))
        for at, _ in _texts(raw, rows_starting_with(raw, b"="), "^=[^=]"):
            yield at, CellKind.FORMULA
        for at, _ in _texts(raw, rows_starting_with(raw, _SPACES), _BEFORE_QUOTE):
            yield at, CellKind.QUOTED
    seen = text_bytes(raw)
    for at in seen.rows(seen.places(lambda data: data == 0)).tolist():
        if not raw[at].as_py().startswith("'"):
            yield at, CellKind.DAMAGED


def cells(text: Any, found: Mapping[int, CellKind]) -> Cells:
    """The cells of a column of a CSV file, with what `kinds` found in it."""
    if not found:
        return Cells(text)
    marks = np.full(len(text), CellKind.TEXT, dtype=np.int8)
    marks[list(found)] = list(found.values())
    return Cells(text, marks)


def explain_error(value: str) -> tuple[str, str]:
    """The problem of a cell with this error, and a suggestion; "" if the rule's own will do."""
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
    """What the error means, "" if that is not known; None if the text is no error."""
    if _HASHES.fullmatch(text):
        return _NARROW
    return "" if _LIBRE.fullmatch(text) else _ERRORS.get(text)


# What may have been typed before a spreadsheet program made a date of it.


_FIRST = dt.date(1899, 12, 30)
"""Day 0 of the calendar that Excel counts days in, from March 1900 on."""
_ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_OTHER_MONTHS = "Mrz|Mär|Mai|Okt|Dez|janv|févr|mars|avr|mai|juin|juil|août"
_MONTHS = f"{'|'.join(_ENGLISH)}|{_OTHER_MONTHS}"
# For Arrow's expressions, in which nothing refers back.
_CONVERTED = (
    rf"^\s*(?:[0-9](?:[.,][0-9]+)?E\+[0-9]{{2,3}}"
    rf"|[0-9]{{1,2}}(?:-|\. )(?:{_MONTHS})\.?(?:[- ][0-9]{{2,4}})?"
    rf"|(?:{_MONTHS})\.?-[0-9]{{2}}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T]00:00(?::00(?:\.0+)?)?)?"
    r"|[0-9]{1,2}(?:\.[0-9]{1,2}\.|/[0-9]{1,2}/)[0-9]{4})\s*$"
)


def find_converted(text: Any) -> Iterator[int]:
    """The positions in an Arrow array of text of what a program makes of dates and numbers."""
    seen = text_bytes(text)
    hyphens = seen.places(lambda data: data == ord("-"))
    hyphens = hyphens[seen.following(hyphens) - ord("0") < 10]
    rows = np.union1d(rows_starting_with(text, b"0123456789"), seen.rows(hyphens))
    found = pc.match_substring_regex(text.take(pa.array(rows)), _CONVERTED)
    yield from rows[np.flatnonzero(found)].tolist()


def suggest_typed(shown: str) -> str:
    """What may have been typed, for a date as a cell shows it: a suggestion, or ""."""
    day = _day(shown)
    if day is None:
        return ""
    month, number = _ENGLISH[day.month - 1], day.day
    forms = (f"{month} {number}", f"{day.month}/{number}", f"{number}/{day.month}")
    *firsts, last = (f'"{form}"' for form in dict.fromkeys(forms))
    return f"If {', '.join(firsts)} or {last} was typed, format the cell as text and type it again."


def serial(shown: str) -> int | None:
    """The number that a workbook has for a date; None if the text is no date after 1900."""
    day = _day(shown)
    number = (day - _FIRST).days if day else 0
    return number if number > 60 else None


def _day(shown: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(shown[:10])
    except ValueError:
        return None


# Characters that cannot be seen and that make texts different which look the same.


# Control characters, soft hyphen, direction marks, zero-width ones, fillers and tag characters.
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
"""The bytes with which such characters begin in UTF-8; of one byte, whatever follows it."""
_PAIRS[[*range(9), 11, 12, *range(14, 32), 127]] = True
_PAIRS[tuple(zip(*_LEADS, strict=True))] = True
_GENERAL = np.zeros(256, dtype=bool)
_GENERAL[[*range(0x8B, 0x90), *range(0xAA, 0xAF)]] = True
_JOINERS = "\u200c\u200d"
_MARKS = "\u061c\u200e\u200f"
_FLAG = "\U0001f3f4"


def find_invisible(text: Any) -> Iterator[tuple[int, str]]:
    """Which cells of an Arrow array have such characters, and which: `(position, characters)`."""
    seen = text_bytes(text)
    places = seen.places(lambda data: (data < ord(" ")) | (data > ord("~")))
    places = places[_PAIRS[seen.data[places], seen.following(places)]]
    # Quotation marks and dashes, which are frequent, share their first two bytes with these.
    is_general = (seen.data[places] == 0xE2) & (seen.following(places) == 0x80)
    places = places[~is_general | _GENERAL[seen.following(places, by=2)]]
    for at in seen.rows(places).tolist():
        found = "".join(dict.fromkeys(_unspelt(text[at].as_py())))
        if found:
            yield at, found


def name_characters(characters: str) -> str:
    """`U+200B (zero width space), U+00AD (soft hyphen)`."""
    return ", ".join(map(_name, characters))


def _name(character: str) -> str:
    name = unicodedata.name(character, "control character").lower()
    return f"U+{ord(character):04X} ({name})"


def _unspelt(text: str) -> Iterator[str]:
    """The unseen characters that are no part of the spelling."""
    from_right = any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)
    for found in _UNSEEN.finditer(text):
        char, at = found[0], found.start()
        if char in _JOINERS and _is_joined(text, at):
            continue
        if char in _MARKS and from_right:
            continue
        if char >= "\U000e0020" and _FLAG in text[:at]:
            continue
        yield char


def _is_joined(text: str, at: int) -> bool:
    """Whether a joiner stands between characters of emoji, or of a script that has joiners."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return before >= "\u0600" and after >= "\u0600"


# Texts whose UTF-8 was taken for Windows-1252, which is how `Zoë` becomes `ZoÃ«`.


_BYTES = {bytes([n]).decode("cp1252", "ignore") or chr(n): n for n in range(0x80, 0x100)}
"""What the bytes from 80 on are taken for; the five that mean nothing, for control characters."""
_MISREAD_RUN = re.compile(f"([^\\x00-\\x7f{re.escape(''.join(_BYTES))}]+)")


def repair_misread(text: str) -> str:
    """What the text was before; "" if it was not misread.

    Each part between characters that Windows-1252 does not have is judged alone.
    """
    before = "".join(_decode_part(part) for part in _MISREAD_RUN.split(text))
    return before if before != text else ""


def _decode_part(part: str) -> str:
    try:
        return bytes(_BYTES.get(char, ord(char)) for char in part).decode()
    except ValueError:
        return part


# Texts that people write where they have nothing to say.


_SIGNS = ("-", "--", "---", "–", "—", ".", "..", "...", "…", "_", "?", "??", "???")
_PROGRAMS = ("none", "null", "nil", "nan", "nat", "<na>", "undefined", "\\n", "#na")
_WORDS = ("n/a", "n.a.", "k.a.", "tbd", "tba", "todo", "empty", "blank", "leer", "keine", "vide")
_PLACEHOLDERS = frozenset(
    (*_SIGNS, *_PROGRAMS, *_WORDS, *(f"({word})" for word in (*_PROGRAMS, *_WORDS)))
)
_WRITTEN = pa.array(
    ["nan", "NaN", "None", "NULL", "<NA>", "NaT", "(null)", "undefined", "\\N"], pa.large_string()
)
"""What programs write for a missing value, to the letter: a pet may well be called Null or N/A."""
_SET = pa.array(sorted(_PLACEHOLDERS), pa.large_string())


def is_placeholder(text: str) -> bool:
    """Whether the text stands for "nothing" or "not known", as far as people go."""
    return trim(text).casefold() in _PLACEHOLDERS


def are_placeholders(trimmed: Any) -> Bools:
    """Which texts of an Arrow array do."""
    found: Bools = np.asarray(pc.is_in(pc.utf8_lower(trimmed), value_set=_SET))
    return found


def are_missing_values(trimmed: Any) -> Bools:
    """Which texts of an Arrow array are what a program writes for a missing value."""
    found: Bools = np.asarray(pc.is_in(trimmed, value_set=_WRITTEN))
    return found


# The word that is meant by one that is nearly it.


# Letters of the Cyrillic and Greek alphabets, in small, that look like Latin ones.
_ALIKE = dict(
    zip(
        "аеорсухіјѕԁһԛԝьӏгкмнтвαβεικνορτυχγωѵ",
        "aeopcyxijsdhqwblrkmhtbabeiknoptuxywv",
        strict=True,
    )
)


def nearest_column(word: str, choices: Collection[str]) -> tuple[str, str]:
    """Which of the choices a case-folded word may mean, and the reason where it looks the same;
    "" twice where it is near none of them.
    """
    plain = _plain(word)
    if plain in choices:
        return plain, _reason(word)
    near = difflib.get_close_matches(plain, choices, n=1)
    return (near[0], "") if near else ("", "")


def _plain(word: str) -> str:
    """The word with Latin letters in place of those that look like them, nothing unseen in it."""
    folded = unicodedata.normalize("NFKC", word)
    return "".join(_ALIKE.get(char, char) for char in folded if char.isprintable())


def _reason(word: str) -> str:
    strange = next((char for char in word if char in _ALIKE), "")
    if strange:
        name = unicodedata.name(strange).lower()
        return f"the '{strange}' in it is U+{ord(strange):04X}, {name}"
    return "there are characters in it that look the same or cannot be seen"
