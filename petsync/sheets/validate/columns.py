"""Validate columns: ids and numbers, texts, tags and photo URLs."""

from __future__ import annotations

import ast
import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._json import decoder_of
from petsync.models import Tag
from petsync.sheets.grid import (
    Bools,
    CellKind,
    Cells,
    Grid,
    Rows,
    TextBytes,
    merge_rows,
)
from petsync.sheets.headers import ACTION, Headers, mapping_hint, own_results
from petsync.sheets.validate import findings
from petsync.sheets.validate import text as dates
from petsync.sheets.validate.findings import (
    Note,
    Notes,
    bare_words,
    has_marker,
    markers_among_items,
)
from petsync.sheets.validate.rules import RULES
from petsync.sheets.validate.text import (
    are_missing_values,
    are_placeholders,
    explain_error,
    is_placeholder,
    nearest_choice,
    repair_misread,
)
from petsync.table.base import Base
from petsync.table.cells import (
    BLANKS,
    LIST_LITERAL,
    TAG_SEPARATOR,
    URL_SEPARATOR,
    CellError,
    format_photo_urls,
    format_tags,
    has_separator,
    normal_status,
    parse_id,
    parse_photo_urls,
    parse_tags,
    photo_items,
    strip_brackets,
    tag_items,
    trim,
)
from petsync.table.columns import ACTIONS, CLEARED
from petsync.table.dtypes import text_column
from petsync.table.lists import Items, ListArray, shared_tag

__all__ = [
    "NBSP",
    "Column",
    "Numbers",
    "Reading",
    "SuspectText",
    "TextResult",
    "actions",
    "categories",
    "describe_kind",
    "free_text",
    "is_rounded",
    "names",
    "note_damage",
    "note_list",
    "note_renamed",
    "note_separators",
    "null_unless",
    "numbers",
    "open_column",
    "pet_ids",
    "photos",
    "positions",
    "program_tags",
    "read_id",
    "statuses",
    "strange_urls",
    "suggest_url",
    "tags",
    "validate_each",
    "validate_photos",
    "validate_tags",
    "validate_texts",
]


# Texts that do not look like photo URLs, and the URLs that may be meant.


_URL_STARTS = ("http://", "https://", "data:", "/")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):/{1,3}(.*)", re.IGNORECASE | re.DOTALL)
_WEB_SCHEMES = ("http", "https")
_SITE = re.compile(r"(?:www\.|(?:[a-z0-9-]+\.)+[a-z]{2,}/)\S+", re.IGNORECASE)
_WRAPPED = re.compile(r"!?(?:\[[^\]]*\])?[<(](https?://[^\s<>()]+)[>)]", re.IGNORECASE)
_LOCAL = re.compile(r"[a-z]:[\\/]|\\\\|file:", re.IGNORECASE)

_LOCAL_FILE_HINT = (
    "This is a file on a computer: upload the photo and write its address, which begins "
    "with https://."
)


def strange_urls(urls: Iterable[str]) -> list[str]:
    """Return the URLs that a store probably cannot show: local files, words, typing errors. Other
    schemes and paths of the store are accepted.
    """
    return [url for url in urls if not url.casefold().startswith(_URL_STARTS) and _is_strange(url)]


def suggest_url(url: str) -> tuple[str, str]:
    """Return a suggestion for a strange URL, "" if the rule's suggestion is specific enough; and
    the URL that may be meant, "" if there is none.
    """
    if _LOCAL.match(url):
        return _LOCAL_FILE_HINT, ""
    markup = _WRAPPED.fullmatch(url)
    if markup:
        return _offer_address(markup[1])
    scheme = _SCHEME.fullmatch(url)
    if scheme:
        return _offer_address(f"{_nearest_web_scheme(scheme[1]) or 'https'}://{scheme[2]}")
    return _offer_address(f"https://{url}") if _SITE.fullmatch(url) else ("", "")


def _offer_address(address: str) -> tuple[str, str]:
    return f"It may be {address}.", address


def _is_strange(url: str) -> bool:
    scheme = _SCHEME.fullmatch(url)
    return (
        scheme is None
        or "://" not in url
        or bool(_LOCAL.match(url) or _nearest_web_scheme(scheme[1]))
    )


def _nearest_web_scheme(scheme: str) -> str:
    """Return the web scheme that this one is or resembles; "" if there is none."""
    folded = scheme.casefold()
    return next(iter(difflib.get_close_matches(folded, _WEB_SCHEMES, n=1, cutoff=0.7)), "")


# Cells in a column of text with other content: numbers, dates, errors, formulas.


_IMPRECISE_NUMBER = 10**15
_TEXT_COLUMNS = ("name", "category", "tags")
"""Columns in which a date is probably a converted text."""
_QUOTED = re.compile(r'="([^"]*)"')
_INEXACT = "{} may be rounded: its float type cannot represent all whole numbers of this size."
_INT64 = "Create the column again from its source, as Int64 or as text."


class SuspectText(NamedTuple):
    """The finding for a cell whose content is not text. If `is_value`, the cell's text is still
    used as its value.
    """

    rule: str
    problem: str = ""
    suggestion: str = ""
    is_value: bool = False
    meant: str | None = None


def describe_kind(kind: CellKind, text: str, column: str) -> SuspectText:
    """Return the finding for a cell that is not text; `text` is its value as a text."""
    if kind is CellKind.ERROR:
        return SuspectText("error-cell", *explain_error(text))
    if kind is CellKind.DATE:
        suggestion = dates.suggest_typed(text) if column in _TEXT_COLUMNS else ""
        problem = f"The cell contains the date {text}."
        return SuspectText("date-instead-of-text", problem, suggestion)
    if kind is CellKind.BOOLEAN:
        return SuspectText(
            "boolean-instead-of-text", f"The cell contains the value {text} and not text."
        )
    if kind is CellKind.DAMAGED:
        return SuspectText("nul-character")
    if kind is CellKind.EMPTY:
        return SuspectText("formula-empty")
    if kind is CellKind.QUOTED:
        return SuspectText("quote-after-space")
    if kind is CellKind.ROUNDED:
        return SuspectText("number-imprecise", _INEXACT.format("The number"), _INT64)
    if kind is CellKind.FORMULA:
        return _formula(text)
    return (
        _special_number(text) if kind is CellKind.NUMBER else SuspectText("formula-without-value")
    )


def _special_number(text: str) -> SuspectText:
    if abs(float(text)) >= _IMPRECISE_NUMBER:
        return SuspectText("number-imprecise")
    problem = (
        f"The cell contains the number {text}, not text; leading zeros may be lost, even if the "
        "cell shows them."
    )
    suggestion = (
        f"If {text} is not the intended value, format the cell as text and type the intended value."
    )
    return SuspectText("number-instead-of-text", problem, suggestion, is_value=True, meant=text)


def _formula(text: str) -> SuspectText:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return SuspectText("formula-text", is_value=True)
    hint = f"Write {quoted[1]} without the equals sign and the quotes."
    return SuspectText("formula-text", "", hint, is_value=True, meant=quoted[1])


# Column: a column during validation, and the checks of every text.


NBSP = "\u00a0"
# The characters that Windows-1252 has for the bytes 80 to BF, the continuation bytes of UTF-8.
_FOLLOWERS = "".join(
    {bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(0x80, 0xC0)} - {"-", "^"}
)
_MARKER_CURE = "Write {} to empty the field; put an apostrophe before the text if it is intended."
_SUSPECT = f"[\\x{{FFFD}}\\x{{300}}-\\x{{36F}}]|[\u00c2-\u00f4][{re.escape(_FOLLOWERS)}]"

_LETTER_LEAD = 0xC3
"""The first byte, in UTF-8, of the letters from U+00C0 to U+00FF."""
_SUSPECT_LEADS = bytes({char.encode()[0] for char in "\ufffd\u0300\u036f"} | {_LETTER_LEAD})


@dataclass(frozen=True, slots=True)
class Column:
    """The cells of one of petsync's columns."""

    name: str
    cells: Cells
    has_value: Bools
    """A mask of the cells with a value to validate."""
    clear: Bools
    """A mask of the cells with the marker that empties a field."""
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


class TextResult(NamedTuple):
    """The value of a text (None: no usable value), and the notes on it."""

    value: Any
    notes: Sequence[Note] = ()


def positions(mask: Any) -> list[int]:
    """Return the positions at which a mask, NumPy's or Arrow's, is true."""
    result: list[int] = np.flatnonzero(np.asarray(mask)).tolist()
    return result


def open_column(
    name: str, cells: Cells, blank: Bools, marker: str, notes: Notes, *, special: bool = True
) -> Column:
    """Return the column, with notes on cells that are not text or only resemble the `marker`.
    `blank` marks the blank cells; `special` is false for columns of numbers, which have other rules
    for cells that are not text.
    """
    cleared, like_marker, cells = findings.find_markers(cells, marker)
    column = Column(name, cells, ~blank & ~cleared & ~like_marker, cleared, notes)
    for at in positions(like_marker):
        column.note(at, "clear-spelling", suggestion=_MARKER_CURE.format(marker))
    if special and cells.kinds is not None:
        for at in positions(cells.kinds != CellKind.TEXT):
            _note_special(column, at, CellKind(cells.kinds[at]))
    return column


def validate_each(column: Column, validate: Callable[[str], TextResult]) -> list[Any]:
    """Return the value of each row's cell, None if it has none; each distinct text is validated
    once.
    """
    values, codes = _validate_distinct(column, validate)
    result: list[Any] = np.fromiter(values, dtype=object, count=len(values))[codes].tolist()
    return result


def validate_texts(
    column: Column, validate: Callable[[str], TextResult], *, otherwise: str | None = None
) -> Any:
    """Return the value of each row's cell as a `str` array, with `otherwise` for cells without a
    value.
    """
    values, codes = _validate_distinct(column, validate)
    texts = pa.array([*values[:-1], otherwise], pa.large_string()).take(pa.array(codes))
    return text_column(texts)


def _validate_distinct(
    column: Column, validate: Callable[[str], TextResult]
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.intp]]]:
    """Return the values of the distinct texts, followed by None, and the index of each row's
    value.
    """
    rows = np.flatnonzero(column.has_value)
    coded = pc.dictionary_encode(_take_rows(column.cells.text, rows))
    verdicts = [validate(text) for text in coded.dictionary.to_pylist()]
    codes = np.full(len(column.has_value), len(verdicts), dtype=np.intp)
    codes[rows] = coded.indices.to_numpy(zero_copy_only=False)
    faulty = np.array([*(bool(verdict.notes) for verdict in verdicts), False])
    for at in positions(faulty[codes]):
        column.notes.add(at, column.name, *verdicts[codes[at]].notes)
    return [*(verdict.value for verdict in verdicts), None], codes


def note_damage(column: Column) -> None:
    """Note texts that were decoded with a wrong encoding, and decomposed accents."""
    text, cell_bytes = column.cells.text, column.cells.utf8
    # The pattern is slow, and most letters with an accent are before an ASCII character.
    leads = cell_bytes.find(_SUSPECT_LEADS)
    is_letter = cell_bytes.data[leads] == _LETTER_LEAD
    leads = leads[~is_letter | (cell_bytes.bytes_after(leads, by=2) >= 0x80)]
    rows = cell_bytes.rows(leads)
    suspect = pc.match_substring_regex(text.take(pa.array(rows)), _SUSPECT)
    for at in rows[positions(suspect)].tolist():
        for rule, suggestion, meant in _damage(text[at].as_py()):
            column.note(at, rule, "", suggestion, meant=meant)


def _take_rows(text: Any, rows: np.ndarray[Any, Any]) -> Any:
    return text if len(rows) == len(text) else text.take(pa.array(rows))


def _damage(text: str) -> Iterable[tuple[str, str, str | None]]:
    repaired = repair_misread(text)
    if repaired or "\ufffd" in text:
        suggestion = f"It may be '{repaired}'; type it again." if repaired else ""
        yield "damaged-characters", suggestion, repaired or None
    if not unicodedata.is_normalized("NFC", text):
        yield "decomposed-characters", "", None


def _note_special(column: Column, at: int, kind: CellKind) -> None:
    suspect = describe_kind(kind, column.cells.text[at].as_py(), column.name)
    column.note(at, suspect.rule, suspect.problem, suspect.suggestion, meant=suspect.meant)
    column.has_value[at] = suspect.is_value


def null_unless(text: Any, keep: Bools) -> Any:
    """Return the texts, null where `keep` is false."""
    return pc.if_else(pa.array(keep), text, pa.scalar(None, pa.large_string()))


# The meaning, or the possible meaning, of text in a numeric column.


_AMBIGUOUS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.0{3})+")
_COMMA = re.compile(r"([+-]?[0-9]+),([0-9]+)")
_GROUPS = re.compile(r"[1-9][0-9]{0,2}(?:([.,'’_ \u00a0\u2009\u202f])[0-9]{3})(?:\1[0-9]{3})*")
_SEVERAL = re.compile(r"[0-9]+(?:\s*[,;/&|+]\s*[0-9]+)+")
_LABELLED = re.compile(
    r"(?:(?:pet|animal|id|no|nr|num|number|nummer|n°|№)[\s.:#°_-]*|#\s*|\W*)"
    r"([0-9]+)\W*(?:eur|usd|gbp|chf)?",
    re.IGNORECASE,
)
_DIGIT_LOOKALIKES = str.maketrans("OoOlI|", "000111")
_IMPRECISE, _ROUNDED = 10**15, 10**17
_MAX_GUESS_LENGTH = 60


class Reading(NamedTuple):
    """The meaning of a text in a column of numbers."""

    number: int | None
    """The number; None if it is not certain."""
    rule: str = ""
    """The rule that the text breaks; "" if it breaks none."""
    problem: str = ""
    """A more specific problem than the rule's."""
    suggestion: str = ""
    """A more specific suggestion than the rule's."""
    meant: str | None = None
    """The number that may be meant, as a text."""


def read_id(text: str, *, is_number: bool = False) -> Reading:
    """Return the `Reading` of a trimmed text, or of a cell that is a number (`is_number`)."""
    if not is_number and _AMBIGUOUS.fullmatch(text):
        small, large = text.partition(".")[0], text.replace(".", "")
        return Reading(None, "id-ambiguous", f"{text} may be {small} or {large}.")
    comma = None if is_number else _COMMA.fullmatch(text)
    if comma and not comma[2].strip("0") and len(comma[2]) != 3:
        text = f"{comma[1]}.0"
    try:
        number = parse_id(text)
    except CellError as error:
        return _reject_id(text, error.rule, is_number=is_number)
    # A decimal point shows that a program without exact integers wrote the number.
    if (is_number or "." in text) and abs(number) >= _IMPRECISE:
        return Reading(None, "id-imprecise")
    if is_rounded(number):
        return Reading(number, "id-rounded")
    if text != str(number):
        return _respelled_id(number, "id-decimal" if "." in text else "id-respelled")
    return Reading(number)


def is_rounded(number: int) -> bool:
    """Return true if all digits after the fifteenth are zeros, and there are at least three of
    them.
    """
    return abs(number) >= _ROUNDED and not number % 10 ** (len(str(abs(number))) - 15)


def _respelled_id(number: int, rule: str) -> Reading:
    cause = {
        "id-decimal": "The id went through a program that made it a decimal",
        "id-respelled": "The id has leading zeros or a plus sign, which petsync ignores",
    }[rule]
    problem = f"{cause}; it is read as {number}."
    return Reading(number, rule, problem, f"Write {number}.", str(number))


def _reject_id(text: str, rule: str, *, is_number: bool) -> Reading:
    if is_number and text.lstrip("-").isdigit():
        return Reading(None, "id-imprecise")
    if rule == "id-scientific":
        return Reading(None, rule, "", _scientific_hint(text))
    if rule == "id-out-of-range":
        return Reading(None, rule)
    if rule == "id-fraction" and not _GROUPS.fullmatch(text):
        return Reading(None, rule)
    if rule == "id-not-a-number" and _COMMA.fullmatch(text) and not _GROUPS.fullmatch(text):
        return Reading(None, "id-fraction")
    if is_number or len(text) > _MAX_GUESS_LENGTH:
        return Reading(None, rule)
    return Reading(None, rule, "", *_guess_id(text))


def _scientific_hint(text: str) -> str:
    try:
        exact = Decimal(text.replace(",", "."))
    except ArithmeticError:
        return ""
    if not 0 <= exact.adjusted() <= 19:
        return ""
    return (
        f"It was about {exact:.0f}; look the number up, then format the column as text and type "
        "the whole number."
    )


def _guess_id(text: str) -> tuple[str, str | None]:
    """Return a suggestion for a text that is not a number, or "", and the suggested number, or
    None.
    """
    if _GROUPS.fullmatch(text):
        digits = re.sub("[^0-9]", "", text)
        return f"It may be {digits}; write the number without separators.", digits
    if _SEVERAL.fullmatch(text):
        return "The cell has several numbers; write one number in each row.", None
    if text.isdecimal():
        return f"Write {int(text)}, with the digits 0 to 9.", str(int(text))
    printable = "".join(char for char in text if char.isprintable())
    label_match = _LABELLED.fullmatch(trim(printable))
    if label_match:
        digits = str(int(label_match[1]))
        return f"It may be {digits}; write only the number.", digits
    lookalike = text.translate(_DIGIT_LOOKALIKES)
    if lookalike.isdecimal() and any(char.isdecimal() for char in text):
        number = str(int(lookalike))
        return f"It may be {number}: the cell has a letter that looks like a digit.", number
    return "", None


# The columns of numbers, `id` and `category_id`: a value is exact or reported as a finding, never
# rounded.


Numbers = pd.arrays.IntegerArray
_PLAIN = r"^(?:0|-?[1-9][0-9]{0,17})$"
_PLAIN_DIGITS = 18
_IMPRECISE_ID = 10**15
_RULES = {
    CellKind.BOOLEAN: "id-not-a-cell",
    CellKind.DATE: "id-not-a-cell",
    CellKind.ERROR: "error-cell",
    CellKind.UNCALCULATED: "formula-without-value",
    CellKind.QUOTED: "quote-after-space",
    CellKind.EMPTY: "formula-empty",
    CellKind.DAMAGED: "nul-character",
    CellKind.ROUNDED: "id-imprecise",
}
_CATEGORY_ID_CURES = {"id-not-a-number": "Write the category's number, or leave the cell blank."}


def numbers(column: Column) -> Numbers:
    """Return the column as Int64, with missing values for cells without a usable number."""
    trimmed = column.cells.trim()
    is_plain = _are_plain(column.cells, trimmed) & column.has_value
    values = pc.cast(pc.if_else(pa.array(is_plain), trimmed, "0"), pa.int64())
    exact = np.array(values.to_numpy(zero_copy_only=False))
    is_known = is_plain & ~_note_imprecise(column, exact)
    for at in positions(is_known & (np.abs(exact) >= _IMPRECISE_ID)):
        if is_rounded(int(exact[at])):
            _note(column, at, Reading(None, "id-rounded"))
    for at in positions(~is_plain & (column.has_value | _has_special_kind(column))):
        number = _validate_number(column, at)
        if number is not None:
            exact[at], is_known[at] = number, True
    _note_spaces(column, trimmed)
    return Numbers(exact, ~is_known)


def _are_plain(cells: Cells, trimmed: Any) -> Bools:
    """Return a mask of the cells with a whole number as petsync writes it; `trimmed` has the texts
    without spaces.
    """
    if not cells.utf8.has_only(b"0123456789"):
        return np.asarray(pc.match_substring_regex(trimmed, _PLAIN))
    lengths = np.diff(cells.utf8.offsets)
    is_padded: Bools = (cells.utf8.first == ord("0")) & (lengths > 1)
    return (lengths >= 1) & (lengths <= _PLAIN_DIGITS) & ~is_padded


def pet_ids(column: Column, base: Base | None) -> Numbers:
    """Return the column of the pets' ids as Int64. Ids below 1 are noted, unless they were
    exported.
    """
    ids = numbers(column)
    values = ids.to_numpy(dtype=np.int64, na_value=1)
    below = positions(values < 1)
    exported = base.ids if base is not None and below else ()
    for at in below:
        if int(values[at]) not in exported:
            column.note(at, "id-below-one", is_sure=True)
    return ids


def _has_special_kind(column: Column) -> Bools:
    kinds = column.cells.kinds
    return np.zeros(len(column.has_value), dtype=bool) if kinds is None else kinds > CellKind.NUMBER


def _note_imprecise(column: Column, exact: Any) -> Bools:
    """Note the cells with numbers whose last digits may be wrong, and return a mask of them."""
    none_imprecise = np.zeros(len(exact), dtype=bool)
    if column.cells.kinds is None:
        return none_imprecise
    is_large: Bools = (column.cells.kinds == CellKind.NUMBER) & (np.abs(exact) >= _IMPRECISE_ID)
    for at in positions(is_large & column.has_value):
        _note(column, at, Reading(None, "id-imprecise"))
    return is_large


def _validate_number(column: Column, at: int) -> int | None:
    text = trim(column.cells.text[at].as_py())
    kind = CellKind.TEXT if column.cells.kinds is None else CellKind(column.cells.kinds[at])
    if kind in _RULES:
        _note(column, at, _read_kind(kind, text, since_1904=column.notes.since_1904))
        return None
    reading = read_id(text, is_number=kind is CellKind.NUMBER)
    if reading.rule:
        _note(column, at, reading)
    return reading.number


def _read_kind(kind: CellKind, text: str, *, since_1904: bool) -> Reading:
    if kind is CellKind.ROUNDED:
        return Reading(None, _RULES[kind], _INEXACT.format("The id"), _INT64)
    problem, suggestion = explain_error(text) if kind is CellKind.ERROR else ("", "")
    number = dates.date_serial(text, since_1904=since_1904) if kind is CellKind.DATE else None
    if number is None:
        return Reading(None, _RULES[kind], problem, suggestion)
    problem = f"The cell contains the date {text}; as a number, this is {number}."
    suggestion = f"If {number} is intended, format the column as text and type it again."
    return Reading(None, _RULES[kind], problem, suggestion, str(number))


def _note(column: Column, at: int, reading: Reading) -> None:
    """Note the problem in a reading. The wording depends on the column, because a category's id is
    not a pet's id.
    """
    number, rule, problem, suggestion, meant = reading
    if column.name == "category_id":
        problem = (problem or RULES[rule].meaning).replace("The id", "The category's id", 1)
        suggestion = suggestion or _CATEGORY_ID_CURES.get(rule, "")
    # If the reading has a number, the cell is read as this number: only its spelling is wrong.
    column.note(at, rule, problem, suggestion, meant=meant, is_sure=number is not None)


def _note_spaces(column: Column, trimmed: Any) -> None:
    spaced = pc.not_equal(column.cells.text, trimmed)
    if pc.any(spaced).as_py():
        for at in positions(np.asarray(spaced) & column.has_value):
            if NBSP in column.cells.text[at].as_py():
                column.note(at, "no-break-space", meant=trimmed[at].as_py(), is_sure=True)


# The columns of lists: `tags` and `photo_urls`.


T = TypeVar("T")
_MAX_ITEMS = 20
_NOT_IN_ADDRESSES = bytes(range(ord(" ") + 1)) + b'"|'
_LIST_BEGINS = bytes({char.encode()[0] for char in BLANKS + "[({<"})
_LISTED = f"^[{re.escape(BLANKS)}]*(?:{LIST_LITERAL.pattern})"
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"None|-?[0-9]{1,19}"
_PYTHON = re.compile(
    rf"(?:Tag|Category)?\((?:id=)?({_NUMBER}), (?:name=)?(None|{_TEXT})(?:, extra=None)?\)"
    rf"|\{{'id': ({_NUMBER}), 'name': (None|{_TEXT})\}}"
    rf"|({_TEXT})"
)
_CALL = re.compile(
    r"(?!(?:Tag|Category)\()[A-Za-z_][\w.]*\((.*?)(?:, \w+[=:] ?\S+){0,2}\)", re.DOTALL
)
_BETWEEN = re.compile(r"[\s,]*")
_SHOWN = 80
_BRACKETS = ("[]", "()", "{}")
_NO_ITEMS = f"Leave the cell blank to change nothing, or write {CLEARED} to empty the field."
"""`Notes.findings` replaces CLEARED with the marker."""
_TAG_ID_CURE = (
    "Correct the number before the tag's name; if it is part of the name, put a colon before the "
    "number."
)


def tags(column: Column) -> ListArray:
    """Return a list of distinct `Tag` values for each row: an empty list for a cleared cell, None
    for a cell without a usable value.
    """
    note_damage(column)
    return _lists(column, _plain_tags, validate_tags)


def photos(column: Column) -> ListArray:
    """Return a list of distinct URLs for each row: an empty list for a cleared cell, None for a
    cell without a usable value.
    """
    return _lists(column, _plain_photos, validate_photos)


def _lists(
    column: Column,
    plain: Callable[[Cells, Bools], tuple[Items, Bools]],
    validate: Callable[[str], TextResult],
) -> ListArray:
    """Return the lists of all rows. Cells that `plain` accepts are read together and need no note;
    the others are validated one by one.
    """
    items, is_read = plain(column.cells, column.has_value & ~_are_program_lists(column.cells))
    column.has_value[is_read] = False
    rows = positions(column.has_value)
    values = validate_each(column, validate) if rows else []
    others = {at: None if values[at] is None else [*values[at]] for at in rows}
    others |= {at: [] for at in positions(column.clear)}
    pa.default_memory_pool().release_unused()
    return ListArray(items.replace(others) if others else items)


def _plain_tags(cells: Cells, has_value: Bools) -> tuple[Items, Bools]:
    """Return the tags of cells that certainly need no note (no quotes, no-break spaces, blank
    items, placeholders or repeated tags), and a mask of these cells.

    Each distinct item of these cells is parsed once.
    """
    split = _split_before_semicolons(cells.utf8)
    coded = pc.dictionary_encode(split.items)
    item_tags = [_plain_tag(item.removeprefix(";")) for item in coded.dictionary.to_pylist()]
    numbers: dict[Tag | None, int] = {}
    number = np.array([numbers.setdefault(tag, len(numbers)) for tag in item_tags], dtype=np.int32)
    codes = number[coded.indices.to_numpy()]
    is_plain = has_value & ~split.rows_with(codes == numbers.get(None, -1))
    is_plain &= ~split.rows_with_repeats(lambda distance: codes[:-distance] == codes[distance:])
    names = pa.array([tag and tag.name for tag in numbers], pa.large_string())
    ids = pa.array([tag and tag.id for tag in numbers], pa.int64())
    places = pa.array(codes)
    return Items(
        split.lists_of(names.take(places), is_plain), split.lists_of(ids.take(places), is_plain)
    ), is_plain


class _Split(NamedTuple):
    """The items of all cells, one after the other, and the bounds of each cell's items."""

    items: Any
    bounds: np.ndarray[Any, np.dtype[np.int64]]

    def rows_with(self, items: Bools) -> Bools:
        """Return a mask of the rows with at least one item in the mask `items`."""
        result = np.zeros(len(self.bounds) - 1, dtype=bool)
        result[np.searchsorted(self.bounds, np.flatnonzero(items), side="right") - 1] = True
        return result

    def rows_with_repeats(self, are_equal: Callable[[int], Bools]) -> Bools:
        """Return a mask of the rows with a repeated item, or with very many items. `are_equal`
        returns which items equal the item at this distance behind them.
        """
        counts = np.diff(self.bounds)
        rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        repeating: Bools = counts > _MAX_ITEMS
        for distance in range(1, min(_MAX_ITEMS, int(counts.max(initial=0)))):
            is_same = are_equal(distance) & (rows[distance:] == rows[:-distance])
            repeating[rows[:-distance][is_same]] = True
        return repeating

    def lists_of(self, items: pa.Array, rows: Bools) -> pa.LargeListArray:
        """Return these values of the items as lists, null for rows that are not in the mask."""
        counts = np.diff(self.bounds)
        # Lists whose missing rows have no items are compared faster, and in less memory.
        kept = items if rows.all() else _keep(items, np.repeat(rows, counts))
        ends = np.cumsum(np.append(0, np.where(rows, counts, 0)))
        return pa.LargeListArray.from_arrays(pa.array(ends), kept, mask=pa.array(~rows))


def _keep(items: pa.Array, mask: Bools) -> pa.Array:
    """Return the items in the mask; without copying texts if all others are empty."""
    if pa.types.is_large_string(items.type) and not items.null_count:
        _, offsets, data = items.buffers()
        ends = np.frombuffer(offsets, np.int64)[items.offset : items.offset + len(items) + 1]
        if not (np.diff(ends)[~mask]).any():
            places = np.append(ends[:-1][mask], ends[-1])
            return pa.LargeStringArray.from_buffers(len(places) - 1, pa.py_buffer(places), data)
    return items.filter(pa.array(mask))


def _split_before_semicolons(cell_bytes: TextBytes) -> _Split:
    """Return the items of the cells, each with the semicolon before it, without copying them."""
    marks = cell_bytes.find(b";")
    places = _merge_places(cell_bytes.offsets, marks)
    items = pa.LargeStringArray.from_buffers(
        len(places) - 1, pa.py_buffer(places), pa.py_buffer(cell_bytes.data)
    )
    bounds = np.searchsorted(marks, cell_bytes.offsets) + np.arange(len(cell_bytes.offsets))
    return _Split(items, bounds)


def _plain_tag(item: str) -> Tag | None:
    """Return the tag of an item; None if the item may need a note."""
    if '"' in item or NBSP in item:
        return None
    try:
        tags_ = parse_tags(item)
    except CellError:
        return None
    return None if not tags_ or _placeholders(tags_) else shared_tag(tags_[0])


def _plain_photos(cells: Cells, has_value: Bools) -> tuple[Items, Bools]:
    """Return the URLs of cells that contain only distinct web URLs, and a mask of these cells."""
    text = cells.trim()
    text_bytes = cells.utf8 if text is cells.text else TextBytes.of(text)
    if len(text_bytes.find(b"\r|")):
        split = _split_urls(text_bytes)
    else:  # Arrow needs less memory.
        lists = pc.split_pattern(text, "\n")
        offsets = np.array(lists.offsets, dtype=np.int64)
        split = _Split(lists.flatten(), offsets - offsets[0])
    items = split.items

    def are_equal(distance: int) -> Bools:
        first, second = items.slice(0, len(items) - distance), items.slice(distance)
        return np.asarray(pc.equal(first, second))

    is_plain = has_value & ~split.rows_with(~_plain_addresses(items))
    is_plain &= ~split.rows_with_repeats(are_equal)
    return Items(split.lists_of(items, is_plain)), is_plain


def _split_urls(cell_bytes: TextBytes) -> _Split:
    """Return the items of trimmed cells. Several bars in a row stay in the item, which is then not
    a web URL.
    """
    begins, ends = _find_breaks(cell_bytes)
    offsets = cell_bytes.offsets
    bounds = np.searchsorted(begins, offsets) + np.arange(len(offsets))
    # Each item is followed by the separator after it, which is empty at the end of a cell.
    places = np.empty(2 * int(bounds[-1]) + 1, dtype=np.int64)
    places[:-1:2] = _merge_places(offsets[:-1], ends)
    places[1::2] = _merge_places(begins, offsets[1:])
    places[-1] = offsets[-1]
    del begins, ends
    pieces = pa.LargeStringArray.from_buffers(
        len(places) - 1, pa.py_buffer(places), pa.py_buffer(cell_bytes.data)
    )
    return _Split(pieces.take(pa.array(np.arange(0, len(pieces), 2, dtype=np.uint32))), bounds)


def _find_breaks(cell_bytes: TextBytes) -> tuple[Rows, Rows]:
    """Return where the separators between the URLs of trimmed cells begin and end."""
    data, breaks, bars = cell_bytes.data, cell_bytes.find(b"\n"), cell_bytes.find(b"|")
    one, two = np.maximum(bars - 1, 0), np.maximum(bars - 2, 0)
    is_spaced = (data[one] == ord(" ")) & (cell_bytes.bytes_after(bars) == ord(" "))
    bars = bars[is_spaced & (data[two] != ord("|"))]
    begins, ends = breaks - (data[np.maximum(breaks - 1, 0)] == ord("\r")), breaks + 1
    if not len(bars):
        return begins, ends
    return _merge_places(begins, bars - 1), _merge_places(ends, bars + 2)


def _merge_places(first: Rows, second: Rows) -> Rows:
    """Return the positions of both arrays, which are in order, in order."""
    places = np.concatenate([first, second])
    places.sort(kind="stable")
    return places


def _plain_addresses(items: Any) -> Bools:
    """Return a mask of the items that begin like a web URL, without a quote, a bar or
    whitespace.
    """
    begins = pc.starts_with(items, "https://")
    if begins.false_count:
        begins = pc.or_(begins, pc.starts_with(items, "http://"))
    item_bytes = TextBytes.of(items)
    is_plain = np.array(begins)
    is_plain[item_bytes.rows(item_bytes.find(_NOT_IN_ADDRESSES))] = False
    # The last character may be whitespace that is not ASCII.
    return is_plain & (item_bytes.last <= ord("~"))


def validate_tags(text: str) -> TextResult:
    """Return the tags in one cell's text, with notes."""
    if LIST_LITERAL.match(trim(text)):
        return TextResult(None, [note_list(text, program_tags(trim(text)), format_tags)])
    parsed, notes = _parse(text, parse_tags, format_tags, "tags-unreadable", "tag-repeated")
    # An empty list would empty the field, but only the marker may do this, so no text is suggested.
    meant = format_tags(parsed) if parsed else None
    if NBSP in text and text.count(NBSP) > sum(
        (tag.name or "").count(NBSP) for tag in parsed or ()
    ):
        notes.append(Note("no-break-space", text, "", "", meant, True))
    if '"' not in text and any(not trim(part) for part in text.split(";")):
        notes.append(Note("tags-separators", text, "", "", meant, True))
    if unknown := _placeholders(parsed or ()):
        others = format_tags(tag for tag in parsed or () if tag.name not in unknown)
        notes.append(_placeholder_note(text, unknown[0], "a tag", others))
    return TextResult(parsed, notes)


def _placeholders(tags_: Iterable[Tag]) -> list[str]:
    """Return the names that are empty or placeholders. A tag with an id comes from the store, so
    its name is not one.
    """
    names = (tag.name for tag in tags_ if tag.id is None)
    return [name for name in names if name is not None and _is_no_item(name)]


def _is_no_item(item: str) -> bool:
    return not trim(item) or is_placeholder(item)


def _placeholder_note(text: str, item: str, what: str, others: str) -> Note:
    """Return the note on an item that is probably a placeholder; `others` has the other items."""
    shown = f'"{item}"' if trim(item) else "An empty text"
    cure = f"Delete {shown if trim(item) else 'it'} if it is not {what}." if others else ""
    return Note("placeholder-text", text, f"{shown} is read as {what}.", cure, others)


def validate_photos(text: str) -> TextResult:
    """Return the photo URLs in one cell's text, with notes."""
    if LIST_LITERAL.match(trim(text)):
        tags_ = program_tags(trim(text))
        is_text = tags_ is not None and all(tag.id is None for tag in tags_)
        urls = [tag.name or "" for tag in tags_ or ()] if is_text else None
        return TextResult(None, [note_list(text, urls, format_photo_urls)])
    inner_text = strip_brackets(trim(text))
    if inner_text is not None and "://" in inner_text:
        parts = [URL_SEPARATOR.split(url) for url in parse_photo_urls(inner_text.replace('"', ""))]
        urls = [url for part_list in parts for part in part_list if (url := trim(part).strip("'"))]
        return TextResult(None, [note_list(text, urls, format_photo_urls)])
    parsed, notes = _parse(
        text, parse_photo_urls, format_photo_urls, "photos-unreadable", "photo-repeated"
    )
    placeholder = next(filter(_is_no_item, parsed or ()), None)
    if placeholder is not None:
        others = format_photo_urls(url for url in parsed or () if not _is_no_item(url))
        notes.append(_placeholder_note(text, placeholder, "an address", others))
    for url in strange_urls(parsed or ())[: 0 if placeholder is not None else 1]:
        hint, other = suggest_url(url)
        corrected = [other if each == url else each for each in parsed or ()] if other else []
        meant = format_photo_urls(corrected) if corrected else None
        notes.append(Note("photo-not-an-address", text, "", hint, meant))
    return TextResult(parsed, notes)


def _parse(
    text: str,
    parse: Callable[[str], Sequence[T]],
    form: Callable[[Iterable[T]], str],
    unreadable: str,
    repeated: str,
) -> tuple[list[T] | None, list[Note]]:
    try:
        items = parse(text)
    except CellError as error:
        cure = _TAG_ID_CURE if error.rule == "id-out-of-range" else ""
        return None, [Note(unreadable, text, f"In this cell {error}.", cure)]
    distinct = list(dict.fromkeys(items))
    if len(distinct) == len(items):
        return distinct, []
    repeated_items = sorted({str(item) for item in items if list(items).count(item) > 1})
    problem = f"More than once in this cell: {', '.join(repeated_items)}."
    return distinct, [Note(repeated, text, problem, "", form(distinct), True)]


def _are_program_lists(cells: Cells) -> Bools:
    """Return a mask of the cells that begin like a list written by a program."""
    is_list = np.zeros(len(cells), dtype=bool)
    rows = _with_brackets(cells)
    if len(rows):
        matches = pc.match_substring_regex(cells.text.take(pa.array(rows)), _LISTED)
        is_list[rows[np.asarray(matches)]] = True
    return is_list


def _with_brackets(cells: Cells) -> Rows:
    """Return the rows of cells that begin with a bracket or whitespace, or contain a round bracket,
    as in `set()`.
    """
    calls = cells.utf8.rows(cells.utf8.find(b"("))
    return merge_rows(cells.utf8.rows_starting_with(_LIST_BEGINS), calls)


def note_list(text: str, items: list[T] | None, form: Callable[[Iterable[T]], str]) -> Note:
    """Return the note on a cell with a list written by a program, with the suggested text."""
    if items is None:
        return Note("list-text", text)
    if not items:
        return Note("list-text", text, "", _NO_ITEMS)
    meant = form(items)
    shown_text = meant.replace("\n", " | ")
    shown_text = shown_text if len(shown_text) <= _SHOWN else f"{shown_text[: _SHOWN - 3]}..."
    return Note("list-text", text, "", f"Write {shown_text}", meant)


def program_tags(text: str) -> list[Tag] | None:
    """Return the tags in a list or an item as Python, pandas or JSON writes it; a string in it is a
    tag without an id. Return None for any other text.
    """
    call = _CALL.fullmatch(text)
    text = call[1] if call else text
    parsed = _json_tags(text)
    return parsed if parsed is not None else _json_tags(f"[{text}]")


def _json_tags(text: str) -> list[Tag] | None:
    try:
        parsed = decoder_of(list[str | _Label]).decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _python_tags(text)
    return [
        Tag(None, each) if isinstance(each, str) else Tag(each.id, each.name) for each in parsed
    ]


class _Label(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    name: str | None = None


def _python_tags(text: str) -> list[Tag] | None:
    if text[:1] + text[-1:] not in _BRACKETS:
        return None
    result: list[Tag] = []
    position, end = _skip(text, 1), len(text) - 1
    while position < end:
        match = _PYTHON.match(text, position, end)
        if match is None:
            return None
        number, name = match[1] or match[3], match[2] or match[4] or match[5]
        tag_id = None if number in (None, "None") else int(number)
        try:
            result.append(Tag(tag_id, None if name == "None" else str(ast.literal_eval(name))))
        except (ValueError, SyntaxError):
            return None
        position = _skip(text, match.end())
    return result


def _skip(text: str, position: int) -> int:
    match = _BETWEEN.match(text, position)
    return match.end() if match else position


# Columns of an export that have a different header now: their values would not be read.


_MIN_SHARE = 0.5
"""The minimum share of a renamed column's values that were in the export."""


def note_renamed(grid: Grid, headers: Headers, base: Base, notes: Notes) -> frozenset[int]:
    """Note unused columns that probably are exported columns with a new header, and a missing id
    column. Return the positions of the renamed columns.
    """
    renamed: dict[int, str] = {}
    for name, split in _ITEMS.items():
        if name in headers.columns:
            continue
        values = ACTIONS if name == ACTION else base.rows[name]
        exported = {item.casefold() for each in values for item in _items(each)} - {""}
        position = None
        if exported and name == "category_id":
            position = _category_position(grid, headers, renamed, base)
        elif exported:
            position = _position(grid, headers, renamed, name, split, exported)
        if position is not None:
            renamed[position] = name
            text = grid.header[position]
            problem = f"The column '{text}' is not used: in the export it was named {name}."
            hint = (
                f"Write {name} as the header again, or map it {mapping_hint(text, name)}. If it is "
                f"another column, insert an empty column {name}."
            )
            notes.add(-1, text, Note("header-renamed", text, problem, hint, name))
        elif exported and name == "id":
            problem = "The column id, which the export had, is missing."
            hint = (
                "Restore it, with the ids in their rows. If all rows are new pets, insert an "
                "empty column id."
            )
            notes.add(-1, "", Note("header-renamed", "", problem, hint))
    return frozenset(renamed)


def _position(
    grid: Grid,
    headers: Headers,
    renamed: Mapping[int, str],
    name: str,
    split: Callable[[str], Iterable[str]],
    exported: set[str],
) -> int | None:
    """Return the position of the unused column that is probably `name` under another header: the
    one with the largest share of values that the export had in `name`, at least `_MIN_SHARE`. A
    column with a similar header takes precedence, whatever its share. Return None if there is no
    such column.
    """
    shares = {}
    result_headers = own_results(headers.others)
    for header, position in headers.others.items():
        if position in renamed or header in result_headers:
            continue
        texts = {*grid.columns[position].text.to_pylist()}
        items = [item.casefold() for text in texts for item in split(text) if item]
        if items:
            share = sum(item in exported for item in items) / len(items)
            shares[position] = 1 + share if headers.near.get(position) == name else share
    best_position = max(shares, key=lambda position: shares[position], default=None)
    return (
        best_position if best_position is not None and shares[best_position] >= _MIN_SHARE else None
    )


def _category_position(
    grid: Grid, headers: Headers, renamed: Container[int], base: Base
) -> int | None:
    """Return the position of the unused column that probably has the category ids; None if there
    is none. Enough of its values must be the exported category ids of their rows, and the column
    must be directly after the category, or the matches must be unlikely to be chance. A column with
    a similar header takes precedence.
    """
    result_headers = own_results(headers.others)
    numbers = zip(base.rows["id"].tolist(), base.rows["category_id"].tolist(), strict=True)
    exported_numbers = {
        str(pet_id): "" if pd.isna(number) else str(number) for pet_id, number in numbers
    }
    ids = grid.columns[headers.columns["id"]].text.to_pylist() if "id" in headers.columns else []
    row_numbers = [exported_numbers.get(trim(text).removesuffix(".0"), "") for text in ids]
    shares = {}
    for header, position in headers.others.items():
        if position in renamed or header in result_headers:
            continue
        texts = [trim(text).removesuffix(".0") for text in grid.columns[position].text.to_pylist()]
        if headers.near.get(position) == "category_id" and any(texts):
            return position
        pairs = [pair for pair in zip(row_numbers, texts, strict=False) if all(pair)]
        share = sum(a == b for a, b in pairs) / max(1, sum(map(bool, texts)))
        if pairs and share >= _MIN_SHARE:
            exported_counts, current_counts = (Counter(side) for side in zip(*pairs, strict=True))
            chance = (
                sum(exported_counts[text] * current_counts[text] for text in current_counts)
                / len(pairs) ** 2
            )
            is_beside = position - 1 == headers.columns.get("category")
            if is_beside or share - chance >= _MIN_SHARE * (1 - chance) > 0:
                shares[position] = share
    return max(shares, key=lambda position: shares[position], default=None)


def _items(value: Any) -> Iterable[str]:
    """Return the texts in a value of the base."""
    if isinstance(value, list):
        return [trim(str(getattr(item, "name", item) or "")) for item in value]
    return [] if pd.isna(value) else [trim(str(value))]


def _text(text: str) -> Iterable[str]:
    return [trim(text)]


def _number_items(text: str) -> Iterable[str]:
    return [trim(text).removesuffix(".0")]


def _tag_items(text: str) -> Iterable[str]:
    try:
        return [tag.name or "" for tag in parse_tags(text)]
    except CellError:
        return [trim(text)]


def _photo_items(text: str) -> Iterable[str]:
    try:
        return parse_photo_urls(text)
    except CellError:
        return [trim(text)]


_ITEMS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "id": _number_items,
    "name": _text,
    "status": _text,
    "category": _text,
    "category_id": _number_items,
    "tags": _tag_items,
    "photo_urls": _photo_items,
    ACTION: _text,
}
"""For each column, the function that splits the text of a cell into values to compare with the
exported ones.
"""


# Lists with separators that petsync does not accept; they would be read as one item.


_ASCII = b",\n\r\t\v\f|"
_MARKUP_SIGNS = b"<#\\_"
_WIDE = "[\uff5c\u00a6\uff1b\uff0c\u3001\u060c\u061b\x85\u2028\u2029]"
_WIDE_LEADS = b"\xef\xe3\xd8\xc2\xe2"
_WIDE_PAIRS = np.zeros((256, 256), dtype=bool)
"""A mask of the first two bytes, in UTF-8, of the separators of other scripts."""
_WIDE_PAIRS[tuple(zip(*{char.encode()[:2] for char in _WIDE[1:-1]}, strict=True))] = True
_MARKUP = r"(?i)<br|&#|_x000|\\[rn]"
_OPENING = bytes({char.encode()[0] for char in BLANKS + "[({"})
_LETTERS = np.zeros(256, dtype=bool)
"""A mask of the bytes after which a URL does not start a new item."""
_LETTERS[[*b" \t\x0b\x0c,;|_&", *range(48, 58), *range(65, 91), *range(97, 123)]] = True
_LETTERS[128:] = True

_AT_END_PROBLEM = "There seems to be a separator before or after the address."
_AT_END_CURE = "Write {} instead. If all of it is the address, put it in double quotes."

Known = Callable[[], Collection[str]]


def _known(base: Base | None, texts: Callable[[Base], Collection[str]]) -> Known:
    """Return a function that returns the texts of the base, which it collects only once."""
    return cache(lambda: () if base is None else texts(base))


def _base_items(base: Base, column: str) -> Iterator[Any]:
    return (item for items in base.rows[column] for item in items or ())


def note_separators(
    tags: Cells | None, photos: Cells | None, marker: str, base: Base | None, notes: Notes
) -> None:
    """Note tags and URLs with wrong separators between them, tags in brackets, the marker among
    other items, and the marker's word without brackets.

    A tag or URL in the `base` was exported as one item, so it is not split.
    """
    known_tags = _known(base, lambda each: {tag.name or "" for tag in _base_items(each, "tags")})
    known_urls = _known(base, lambda each: {*_base_items(each, "photo_urls")})
    for name, cells, known in (("tags", tags, known_tags), ("photo_urls", photos, known_urls)):
        for at, text in markers_among_items(cells, marker) if cells is not None else ():
            notes.add(at, name, Note("clear-beside-others", text))
        for at, text in bare_words(cells, marker) if cells is not None else ():
            if trim(text) not in known():
                hint = f"Write {marker} to empty the field."
                notes.add(at, name, Note("placeholder-text", text, "", hint))
    for at, text, names in _in_brackets(tags, known_tags) if tags is not None else ():
        if not has_marker(text, marker):
            notes.add(at, "tags", note_list(text, names, format_tags))
    for at, text, count, meant in _tag_separators(tags, known_tags) if tags is not None else ():
        condition = f"these are {count} tags" if count > 1 else "that is intended"
        # With quotes around it, the suggestion would be one tag.
        quote_note = "" if '"' in meant else " (without quotes)"
        hint = (
            f"Write {_short(meant)}{quote_note} if {condition}. Put double quotes only around a "
            "single tag."
        )
        notes.add(at, "tags", Note("tags-commas", text, "", hint, meant))
    for at, text, meant in _photo_separators(photos, known_urls) if photos is not None else ():
        problem_and_hint = (
            ("", "") if "\n" in meant else (_AT_END_PROBLEM, _AT_END_CURE.format(_short(meant)))
        )
        notes.add(at, "photo_urls", Note("photos-separators", text, *problem_and_hint, meant))


def _tag_separators(cells: Cells, known_tags: Known) -> Iterator[tuple[int, str, int, str]]:
    """Yield the cells whose tags seem to be separated by something other than a semicolon: the row,
    the text, the number of tags that may be meant, and these tags as a cell's text.
    """
    for at in _doubtful_tags(cells).tolist():
        cell = cells.text[at].as_py()
        if LIST_LITERAL.match(trim(cell)) or _bracketed_tags(cell) is not None:
            continue
        try:
            parts = [part for tag in tag_items(cell) for part in _parts(*tag, known_tags)]
        except CellError:
            continue
        if any(is_split for _, is_split in parts):
            names = [name for name, _ in parts]
            yield at, cell, len(names), "; ".join(names)


def _in_brackets(cells: Cells, known_tags: Known) -> Iterator[tuple[int, str, list[Tag]]]:
    """Yield the cells in brackets: the row, the text, and the tags that may be meant."""
    for at in cells.utf8.rows_starting_with(_OPENING).tolist():
        cell = cells.text[at].as_py()
        inner_text = _bracketed_tags(cell)
        if inner_text is None or LIST_LITERAL.match(trim(cell)):
            continue
        try:
            if not all(tag.name in known_tags() for tag in parse_tags(cell)):
                yield at, cell, list(parse_tags(TAG_SEPARATOR.sub(";", inner_text)))
        except CellError:
            continue


def _bracketed_tags(cell: str) -> str | None:
    """Return the text in the brackets around a cell. Return None if there are none, and for a
    single tag in round brackets, because they may be part of its name.
    """
    text = trim(cell)
    inner_text = strip_brackets(text)
    if inner_text is None or (
        text[0] == "(" and ";" not in inner_text and not TAG_SEPARATOR.search(inner_text)
    ):
        return None
    return inner_text


def _parts(tag: Any, item: str, known_tags: Known) -> list[tuple[str, bool]]:
    """Return the tags that one item may mean, as texts, each with a flag that is true if the item
    was split.
    """
    parts = [part for text in TAG_SEPARATOR.split(item) if (part := trim(text))]
    is_one = not TAG_SEPARATOR.search(item) or (tag.name or "") in known_tags()
    if is_one:
        return [(format_tags([tag]), False)]
    try:
        return [(format_tags(parse_tags(part)), True) for part in parts or [item]]
    except CellError:
        return [(part, True) for part in parts]


def _doubtful_tags(cells: Cells) -> Rows:
    text, cell_bytes = cells.text, cells.utf8
    rows = cell_bytes.rows(cell_bytes.find(_ASCII))
    for signs, pattern in ((_WIDE_LEADS, _WIDE), (_MARKUP_SIGNS, _MARKUP)):
        matching = cell_bytes.rows(cell_bytes.find(signs))
        if len(matching):
            matching = matching[
                np.asarray(pc.match_substring_regex(text.take(pa.array(matching)), pattern))
            ]
        rows = merge_rows(rows, matching)
    return rows


def _photo_separators(cells: Cells, known_urls: Known) -> Iterator[tuple[int, str, str]]:
    """Yield the cells whose URLs seem to be separated by something other than a line break or ` |
    `: the row, the text, and the URLs that may be meant, as a cell's text.
    """
    for at in _doubtful_photos(cells).tolist():
        cell = cells.text[at].as_py()
        if LIST_LITERAL.match(trim(cell)) or strip_brackets(trim(cell)) is not None:
            continue
        try:
            items = list(photo_items(cell))
        except CellError:
            continue
        joined_urls = {url for url, is_quoted in items if not is_quoted and has_separator(url)}
        if joined_urls:
            joined_urls.difference_update(known_urls())
        if joined_urls:
            parts = [URL_SEPARATOR.split(url) if url in joined_urls else [url] for url, _ in items]
            urls = [part for split in parts for url in split if (part := trim(url))]
            yield at, cell, format_photo_urls(urls)


def _doubtful_photos(cells: Cells) -> Rows:
    """Return the rows whose URLs may have wrong separators, such as a bar without spaces, a comma
    at the end, `<`, or a URL directly after another one.
    """
    cell_bytes = cells.utf8
    if not len(cell_bytes.data):
        return np.zeros(0, dtype=np.intp)
    bars = cell_bytes.find(b"|")
    if len(bars):
        bars = bars[
            ~(_is_space(cell_bytes.data[bars - 1]) & _is_space(cell_bytes.bytes_after(bars)))
        ]
    marks = cell_bytes.find(b",;_")
    following = cell_bytes.bytes_after(marks)
    is_last = cell_bytes.offsets[np.searchsorted(cell_bytes.offsets, marks + 1)] == marks + 1
    marks = marks[(following <= ord(" ")) | (following > ord("~")) | is_last]
    wide = cell_bytes.find(_WIDE_LEADS)
    wide = wide[_WIDE_PAIRS[cell_bytes.data[wide], cell_bytes.bytes_after(wide)]]
    markup = cell_bytes.find(b"<")
    return cell_bytes.rows(merge_rows(bars, marks, wide, markup, _find_starts(cell_bytes)))


def _find_starts(cell_bytes: Any) -> Rows:
    """Return the positions of URLs that start inside an item."""
    colons = cell_bytes.find(b":")
    colons = colons[
        (cell_bytes.bytes_after(colons) == 0x2F) & (cell_bytes.bytes_after(colons, by=2) == 0x2F)
    ]
    starts = colons - 4 - (cell_bytes.data[colons - 1] | 0x20 == ord("s"))
    starts = starts[starts > 0]
    starts = starts[_LETTERS[cell_bytes.data[starts - 1]]]
    cells = cell_bytes.offsets[np.searchsorted(cell_bytes.offsets, starts, side="right") - 1]
    starts = starts[starts != cells]
    is_bar = (cell_bytes.data[starts - 1] == ord(" ")) & (cell_bytes.data[starts - 2] == ord("|"))
    result: Rows = starts[~is_bar]
    return result


def _is_space(data: Any) -> Any:
    return (data <= ord(" ")) & (data > 0)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


# The columns of text: `name`, `status`, `category` and `action`.


_MAX_NAME_LENGTH = 255
_RECORD = f"{_LISTED}|^[{re.escape(BLANKS)}]*Category\\("
_NUMBERED = r"^\s*-?[0-9]+:\s*\S"
_NUMBER_BEGINS = b"-0123456789 \t\r\n"
_STATUS_SYNONYMS = {
    word: status
    for status, words in {
        "available": "free forsale onsale instock verfügbar verfuegbar frei disponible disponibile "
        "disponivel beschikbaar",
        "pending": "reserved onhold hold reserviert vorgemerkt réservé reserve reservado riservato "
        "gereserveerd ausstehend",
        "sold": "soldout verkauft vergeben vendu vendido venduto verkocht",
    }.items()
    for word in words.split()
}
"""Common words for the usual statuses, for hints only."""
_ADD_STATUS_HINT = (
    "If you need this status, ask the people who run the store whether it accepts it, and then add "
    "it to petsync.toml ([service], statuses)."
)
_ACTION_SYNONYMS = {
    "remove": "delete",
    "del": "delete",
    "new": "add",
    "create": "add",
    "insert": "add",
    "change": "update",
    "edit": "update",
    "modify": "update",
    "upsert": "merge",
    "skip": "ignore",
    "none": "ignore",
}


def free_text(column: Column) -> Any:
    """Return a column of free text as typed, as a `str` array, with CLEARED for cleared cells."""
    note_damage(column)
    texts = column.cells.text
    if not column.has_value.all():
        texts = null_unless(texts, column.has_value)
    if column.clear.any():
        texts = pc.if_else(pa.array(column.clear), pa.scalar(CLEARED, pa.large_string()), texts)
    return text_column(texts)


def categories(column: Column, exported: Container[str], marker: str) -> Any:
    """Return the names of the categories as typed. Names in `exported` are not reported as
    suspicious.
    """
    _note_placeholders(column, are_placeholders(column.cells.trim()), exported)
    _note_records(column, "category-text", exported, _NO_ITEMS)
    _note_numbered(column, exported)
    for at, text in findings.bare_words(column.cells, marker):
        if text not in exported:
            column.note(at, "placeholder-text", suggestion=f"Write {marker} to empty the field.")
    return free_text(column)


def names(column: Column, exported: Container[str]) -> Any:
    """Return the names as typed. Names in `exported` are not reported as suspicious. The marker
    that empties a field is an error.
    """
    hint = "Leave the cell blank to change nothing, or write the name."
    _note_placeholders(column, are_missing_values(column.cells.trim()), exported, hint)
    _note_records(column, "name-text", exported, hint)
    for at in positions(column.clear):
        column.note(at, "clear-refused", "A name cannot be emptied.")
    for at in positions(pc.greater(pc.utf8_length(column.cells.text), _MAX_NAME_LENGTH)):
        column.note(at, "name-long")
    column.clear[:] = False
    return free_text(column)


def statuses(
    column: Column, usual: Sequence[str], known: Collection[str], *, is_any_valid: bool = False
) -> Any:
    """Return the statuses, spelled like those in `usual` and `known`. A cleared cell becomes "", an
    unknown status a missing value, unless any is valid.
    """
    offered = [*usual, *sorted(set(known) - set(usual))]

    def validate(text: str) -> TextResult:
        if text in known:
            return TextResult(text)
        typed, normal = trim(text), normal_status(text)
        matches = (each for each in offered if normal_status(each) == normal)
        is_known = typed in known or typed in usual
        status = typed if is_known else next(matches, typed if is_any_valid else None)
        has_spaces = NBSP in text.replace(typed, "")
        spaces = [Note("no-break-space", text, "", "", status, True)] if has_spaces else []
        if status is None:
            return TextResult(None, [*spaces, _note_unknown_status(text, normal, offered)])
        return TextResult(status, [*spaces, *_respelled_status(typed if spaces else text, status)])

    result = validate_texts(column, validate)
    if column.clear.any():
        result[column.clear] = ""
    return result


def actions(column: Column) -> Any:
    """Return the action of each row, one of ACTIONS: `merge` if the cell is blank, cleared or
    unknown.
    """
    for at in positions(column.clear):
        column.note(at, "unknown-action")

    def validate(text: str) -> TextResult:
        action = normal_status(text)
        if action in ACTIONS:
            return TextResult(action)
        similar = difflib.get_close_matches(action, ACTIONS, n=1)
        action_name = _ACTION_SYNONYMS.get(action) or "".join(similar)
        hint = f"Write {action_name} if you mean that." if action_name else ""
        return TextResult("merge", [Note("unknown-action", text, "", hint, action_name or None)])

    return validate_texts(column, validate, otherwise="merge")


def _note_placeholders(
    column: Column, is_placeholder_text: Bools, exported: Container[str], hint: str = ""
) -> None:
    for at in positions(is_placeholder_text & column.has_value):
        if column.cells.text[at].as_py() not in exported:
            column.note(at, "placeholder-text", suggestion=hint, meant="")


def _note_records(column: Column, rule: str, exported: Container[str], empty: str) -> None:
    """Note texts that a program writes for a category or a list. `empty` is the suggestion if the
    list is empty.
    """
    rows = _with_brackets(column.cells)
    for at, text in _matching_cells(column, rows, _RECORD, exported):
        parsed = program_tags(text)
        name = (parsed[0].name or None) if parsed and len(parsed) == 1 else None
        hint = empty if parsed == [] else f"Write {name}." if name else ""
        column.note(at, rule, suggestion=hint, meant=name)


def _note_numbered(column: Column, exported: Container[str]) -> None:
    """Note numbers before the names of categories."""
    rows = column.cells.utf8.rows_starting_with(_NUMBER_BEGINS)
    for at, text in _matching_cells(column, rows, _NUMBERED, exported):
        try:
            parsed = parse_tags(text)
        except CellError:  # The number is too large, or a quote is not closed.
            parsed = ()
        name = (parsed[0].name or None) if len(parsed) == 1 else None
        hint = f"Write {name}." if name else ""
        column.note(at, "category-numbered", suggestion=hint, meant=name)


def _matching_cells(
    column: Column, rows: Rows, pattern: str, exported: Container[str]
) -> Iterator[tuple[int, str]]:
    """Yield the rows that match the pattern, with their trimmed texts, except the `exported`
    texts.
    """
    rows = rows[column.has_value[rows]]
    texts = column.cells.text.take(pa.array(rows))
    for at in rows[positions(pc.match_substring_regex(texts, pattern))].tolist():
        text = trim(column.cells.text[at].as_py())
        if text not in exported:
            yield at, text


def _respelled_status(text: str, status: str) -> list[Note]:
    if text == status:
        return []
    problem = f"The status differs from {status} only in case or spaces; it is read as {status}."
    return [Note("status-spelling", text, problem, f"Write {status}.", status, True)]


def _note_unknown_status(text: str, normal: str, offered: Sequence[str]) -> Note:
    folded = {normal_status(each): each for each in offered}
    similar, cause = nearest_choice(normal, folded)
    synonym = _STATUS_SYNONYMS.get(re.sub(r"[\W_]+", "", normal), "")
    choices = f"The store's statuses are {', '.join(offered)}"
    if similar:
        suggestion = f"Write {folded[similar]} if you mean that{f': {cause}' if cause else ''}."
        return Note("unknown-status", text, "", f"{suggestion} {choices}.", folded[similar])
    # Another word is not a typing error, so it is no suggested correction.
    near = f", perhaps {folded[synonym]}" if synonym in folded else ""
    return Note(
        "unknown-status",
        text,
        suggestion=f"{choices}: write one of them{near}. {_ADD_STATUS_HINT}",
    )
