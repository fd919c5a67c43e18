"""Validate columns: ids and numbers, texts, tags and photo URLs."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.models import Tag
from petsync.sheets.grid import Bools, CellKind, Cells, Grid, Rows, rows_starting_with, text_bytes
from petsync.sheets.headers import ACTION, Headers, own_results
from petsync.sheets.validate import findings
from petsync.sheets.validate import text as dates
from petsync.sheets.validate.findings import Note, Notes, bare, beside_others, has
from petsync.sheets.validate.rules import RULES
from petsync.sheets.validate.text import (
    are_missing_values,
    are_placeholders,
    explain_error,
    is_placeholder,
    nearest_column,
    repair_misread,
)
from petsync.table.base import Base
from petsync.table.cells import (
    BLANKS,
    LISTED,
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
from petsync.table.frame import shared_tag

__all__ = [
    "NBSP",
    "Column",
    "Numbers",
    "Reading",
    "SuspectText",
    "Verdict",
    "actions",
    "categories",
    "describe_kind",
    "is_rounded",
    "judge_each",
    "judge_photos",
    "judge_tags",
    "judge_texts",
    "meant_address",
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
    "strange",
    "tags",
    "words",
]


# What does not look like a photo's address, and what may be meant by it.


_LIKE = ("http://", "https://", "data:", "/")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):/{1,3}(.*)", re.IGNORECASE | re.DOTALL)
_WEB = ("http", "https")
_SITE = re.compile(r"(?:www\.|(?:[a-z0-9-]+\.)+[a-z]{2,}/)\S+", re.IGNORECASE)
_WRAPPED = re.compile(r"!?(?:\[[^\]]*\])?[<(](https?://[^\s<>()]+)[>)]", re.IGNORECASE)
_LOCAL = re.compile(r"[a-z]:[\\/]|\\\\|file:", re.IGNORECASE)

_OF_COMPUTER = (
    "This is a file on somebody's computer: upload the photo and write its address, which begins "
    "with https://."
)


def strange(urls: Iterable[str]) -> list[str]:
    """Those of the addresses that a store can hardly show: files of a computer, words, typing
    errors; other schemes, and paths of the store's own, are left alone.
    """
    return [url for url in urls if not url.casefold().startswith(_LIKE) and _is_strange(url)]


def meant_address(url: str) -> tuple[str, str]:
    """A suggestion for a strange address, "" if there is none beyond the rule's own; and the
    address that may be meant, "" if there is none.
    """
    if _LOCAL.match(url):
        return _OF_COMPUTER, ""
    wrapped = _WRAPPED.fullmatch(url)
    if wrapped:
        return _offer_address(wrapped[1])
    scheme = _SCHEME.fullmatch(url)
    if scheme:
        return _offer_address(f"{_near(scheme[1]) or 'https'}://{scheme[2]}")
    return _offer_address(f"https://{url}") if _SITE.fullmatch(url) else ("", "")


def _offer_address(address: str) -> tuple[str, str]:
    return f"It may be {address}.", address


def _is_strange(url: str) -> bool:
    scheme = _SCHEME.fullmatch(url)
    return scheme is None or "://" not in url or bool(_LOCAL.match(url) or _near(scheme[1]))


def _near(scheme: str) -> str:
    """The web's scheme that this one is, or that it is a typing error for; "" if neither."""
    plain = scheme.casefold()
    return next(iter(difflib.get_close_matches(plain, _WEB, n=1, cutoff=0.7)), "")


# Cells of a column of text that hold something else: numbers, dates, errors, formulas.


_IMPRECISE_NUMBER = 10**15
_TYPED = ("name", "category", "tags")
"""Where a date is what became of a text; elsewhere it was never meant to be there."""
_QUOTED = re.compile(r'="([^"]*)"')
_INEXACT = "{} may be rounded: its float type does not hold all whole numbers of this size."
_INT64 = "Make the column from the source again, as Int64 or as text."


class SuspectText(NamedTuple):
    """What is said of such a cell, and whether its text is the value all the same."""

    rule: str
    problem: str = ""
    suggestion: str = ""
    is_value: bool = False
    meant: str | None = None


def describe_kind(kind: CellKind, text: str, column: str) -> SuspectText:
    """What is wrong with a cell that holds no text; `text` is what it shows."""
    if kind is CellKind.ERROR:
        return SuspectText("error-cell", *explain_error(text))
    if kind is CellKind.DATE:
        meant = dates.suggest_typed(text) if column in _TYPED else ""
        return SuspectText("date-instead-of-text", f"The cell holds the date {text}.", meant)
    if kind is CellKind.BOOLEAN:
        return SuspectText(
            "boolean-instead-of-text", f"The cell holds the value {text} and no text."
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
        f"The cell holds the number {text}, not text; zeros before it may be lost, even where the "
        "cell shows some."
    )
    meant = f"If it is not {text} that is meant, format the cell as text and type it again."
    return SuspectText("number-instead-of-text", problem, meant, is_value=True, meant=text)


def _formula(text: str) -> SuspectText:
    inner = _QUOTED.fullmatch(text)
    if inner is None:
        return SuspectText("formula-text", is_value=True)
    hint = f"Write {inner[1]} without the equals sign and the quotes."
    return SuspectText("formula-text", "", hint, is_value=True, meant=inner[1])


# One column under judgement: what its cells say, and the checks that every text has.


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
    cleared, alike, cells = findings.find(cells, marker)
    column = Column(name, cells, ~blank & ~cleared & ~alike, cleared, notes)
    for at in positions(alike):
        column.note(at, "clear-spelling", suggestion=_MARKED.format(marker))
    if special and cells.kinds is not None:
        for at in positions(cells.kinds != CellKind.TEXT):
            _note_special(column, at, CellKind(cells.kinds[at]))
    return column


def judge_each(column: Column, judge: Callable[[str], Verdict]) -> list[Any]:
    """The value of each row's cell, None if it says nothing; each text is judged once."""
    values, codes = _judge_texts(column, judge)
    found: list[Any] = np.fromiter(values, dtype=object, count=len(values))[codes].tolist()
    return found


def judge_texts(
    column: Column, judge: Callable[[str], Verdict], *, otherwise: str | None = None
) -> Any:
    """The same as a `str` array, `otherwise` where the cell says nothing."""
    values, codes = _judge_texts(column, judge)
    chosen = pa.array([*values[:-1], otherwise], pa.large_string()).take(pa.array(codes))
    return pd.array(chosen, dtype=pd.StringDtype(na_value=np.nan))


def _judge_texts(
    column: Column, judge: Callable[[str], Verdict]
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.intp]]]:
    """The values of the different texts, None behind them, and which is each row's."""
    rows = np.flatnonzero(column.says)
    coded = pc.dictionary_encode(_take_rows(column.cells.text, rows))
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
    suspect = pc.match_substring_regex(_take_rows(text, rows), _SUSPECT)
    for at in rows[positions(suspect)].tolist():
        for rule, suggestion, meant in _damage(text[at].as_py()):
            column.note(at, rule, "", suggestion, meant=meant)


def _take_rows(text: Any, rows: np.ndarray[Any, Any]) -> Any:
    return text if len(rows) == len(text) else text.take(pa.array(rows))


def _damage(text: str) -> Iterable[tuple[str, str, str | None]]:
    before = repair_misread(text)
    if before or "\ufffd" in text:
        meant = f"It may be '{before}'; type it again." if before else ""
        yield "damaged-characters", meant, before or None
    if not unicodedata.is_normalized("NFC", text):
        yield "decomposed-characters", "", None


def _note_special(column: Column, at: int, kind: CellKind) -> None:
    told = describe_kind(kind, column.cells.text[at].as_py(), column.name)
    column.note(at, told.rule, told.problem, told.suggestion, meant=told.meant)
    column.says[at] = told.is_value


def null_unless(text: Any, keep: Bools) -> Any:
    """The texts, null where `keep` is false."""
    return pc.if_else(pa.array(keep), text, pa.scalar(None, pa.large_string()))


# What a text in a column of numbers means, or may mean.


_AMBIGUOUS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.0{3})+")
_COMMA = re.compile(r"([+-]?[0-9]+),([0-9]+)")
_GROUPS = re.compile(r"[1-9][0-9]{0,2}(?:([.,'’_ \u00a0\u2009\u202f])[0-9]{3})(?:\1[0-9]{3})*")
_SEVERAL = re.compile(r"[0-9]+(?:\s*[,;/&|+]\s*[0-9]+)+")
_LABELLED = re.compile(
    r"(?:(?:pet|animal|id|no|nr|num|number|nummer|n°|№)[\s.:#°_-]*|#\s*|\W*)"
    r"([0-9]+)\W*(?:eur|usd|gbp|chf)?",
    re.IGNORECASE,
)
_ALIKE = str.maketrans("OoOlI|", "000111")
_IMPRECISE, _ROUNDED = 10**15, 10**17
_LONGEST = 60


class Reading(NamedTuple):
    """The number that is meant (None: none that is certain), the rule that the text breaks ("":
    none), what to say beyond that rule, and the number that may be meant, as a text.
    """

    number: int | None
    rule: str = ""
    problem: str = ""
    suggestion: str = ""
    meant: str | None = None


def read_id(text: str, *, is_number: bool = False) -> Reading:
    """The reading of a trimmed text, or of a cell that is a number (`is_number`)."""
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
    # A decimal point is the mark of a program that has no exact integers.
    if (is_number or "." in text) and abs(number) >= _IMPRECISE:
        return Reading(None, "id-imprecise")
    if is_rounded(number):
        return Reading(number, "id-rounded")
    if text != str(number):
        return _respelled_id(number, "id-decimal" if "." in text else "id-respelled")
    return Reading(number)


def is_rounded(number: int) -> bool:
    """Whether all digits behind the fifteenth are zeros, and there are three of them or more."""
    return abs(number) >= _ROUNDED and not number % 10 ** (len(str(abs(number))) - 15)


def _respelled_id(number: int, rule: str) -> Reading:
    why = {
        "id-decimal": "The id went through a program that made it a decimal",
        "id-respelled": "The id has leading zeros or a plus sign, which do not count",
    }[rule]
    problem = f"{why}; it is read as {number}."
    return Reading(number, rule, problem, f"Write {number}.", str(number))


def _reject_id(text: str, rule: str, *, is_number: bool) -> Reading:
    if is_number and text.lstrip("-").isdigit():
        return Reading(None, "id-imprecise")
    if rule == "id-scientific":
        return Reading(None, rule, "", _about(text))
    if rule == "id-out-of-range":
        return Reading(None, rule)
    if rule == "id-fraction" and not _GROUPS.fullmatch(text):
        return Reading(None, rule)
    if rule == "id-not-a-number" and _COMMA.fullmatch(text) and not _GROUPS.fullmatch(text):
        return Reading(None, "id-fraction")
    if is_number or len(text) > _LONGEST:
        return Reading(None, rule)
    return Reading(None, rule, "", *_guess_id(text))


def _about(text: str) -> str:
    try:
        exact = Decimal(text.replace(",", "."))
    except ArithmeticError:
        return ""
    if not 0 <= exact.adjusted() <= 19:
        return ""
    return (
        f"It was about {exact:.0f}; look the number up, format the column as text and type the "
        "whole number."
    )


def _guess_id(text: str) -> tuple[str, str | None]:
    """What a text may be that is no number: a suggestion or "", and that number or None."""
    if _GROUPS.fullmatch(text):
        digits = re.sub("[^0-9]", "", text)
        return f"It may be {digits}; write the number without separators.", digits
    if _SEVERAL.fullmatch(text):
        return "Several numbers stand here; give each pet a row of its own.", None
    if text.isdecimal():
        return f"Write {int(text)}, with the digits 0 to 9.", str(int(text))
    plain = "".join(char for char in text if char.isprintable())
    labelled = _LABELLED.fullmatch(trim(plain))
    if labelled:
        digits = str(int(labelled[1]))
        return f"It may be {digits}; write the number alone.", digits
    alike = text.translate(_ALIKE)
    if alike.isdecimal() and any(char.isdecimal() for char in text):
        hint = f"It may be {alike}: there is a letter in it that looks like a digit."
        return hint, str(int(alike))
    return "", None


# The columns of numbers, `id` and `category_id`: exact, or a finding; nothing is rounded.


Numbers = pd.arrays.IntegerArray
_PLAIN = r"^(?:0|-?[1-9][0-9]{0,17})$"
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
_OTHERWISE = {"id-not-a-number": "Write the category's number, or leave the cell blank."}


def numbers(column: Column) -> Numbers:
    """The column as Int64, missing where it says nothing that can be used."""
    trimmed = column.cells.trim()
    plain = np.asarray(pc.match_substring_regex(trimmed, _PLAIN)) & column.says
    values = pc.cast(pc.if_else(pa.array(plain), trimmed, "0"), pa.int64())
    exact = np.array(values.to_numpy(zero_copy_only=False))
    known = plain & ~_imprecise(column, exact)
    for at in positions(known & (np.abs(exact) >= _IMPRECISE_ID)):
        if is_rounded(int(exact[at])):
            _note(column, at, Reading(None, "id-rounded"))
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
    return np.zeros(len(column.says), dtype=bool) if kinds is None else kinds > CellKind.NUMBER


def _imprecise(column: Column, exact: Any) -> Bools:
    """Where a number cell is too large to be sure of its last digits; these are noted."""
    nothing = np.zeros(len(exact), dtype=bool)
    if column.cells.kinds is None:
        return nothing
    large: Bools = (column.cells.kinds == CellKind.NUMBER) & (np.abs(exact) >= _IMPRECISE_ID)
    for at in positions(large & column.says):
        _note(column, at, Reading(None, "id-imprecise"))
    return large


def _judge(column: Column, at: int) -> int | None:
    text = trim(column.cells.text[at].as_py())
    kind = CellKind.TEXT if column.cells.kinds is None else CellKind(column.cells.kinds[at])
    if kind in _RULES:
        _note(column, at, _read_kind(kind, text))
        return None
    reading = read_id(text, is_number=kind is CellKind.NUMBER)
    if reading.rule:
        _note(column, at, reading)
    return reading.number


def _read_kind(kind: CellKind, text: str) -> Reading:
    if kind is CellKind.ROUNDED:
        return Reading(None, _RULES[kind], _INEXACT.format("The id"), _INT64)
    problem, suggestion = explain_error(text) if kind is CellKind.ERROR else ("", "")
    number = dates.serial(text) if kind is CellKind.DATE else None
    if number is None:
        return Reading(None, _RULES[kind], problem, suggestion)
    problem = f"The cell holds the date {text}, which is the number {number} in the workbook."
    suggestion = f"If {number} is meant, format the column as text and type it again."
    return Reading(None, _RULES[kind], problem, suggestion, str(number))


def _note(column: Column, at: int, reading: Reading) -> None:
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


# The columns of lists: `tags` and `photo_urls`.


T = TypeVar("T")
_Lists = np.ndarray[Any, np.dtype[np.object_]]
_TOGETHER = 1 << 16
_MANY = 20
_LIST_BEGINS = bytes({char.encode()[0] for char in BLANKS + "[({<"})
_LISTED = f"^[{re.escape(BLANKS)}]*(?:{LISTED.pattern})"
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
_NO_ITEMS = "Leave the cell blank to say nothing, or write [clear] to empty the field."


def tags(column: Column) -> _Lists:
    """An object array with a list of `Tag` for each row, each tag once; None if the cell says
    nothing.
    """
    note_damage(column)
    return _lists(column, _plain_tags, judge_tags)


def photos(column: Column) -> _Lists:
    """An object array with a list of text for each row, each address once; None if the cell
    says nothing.
    """
    return _lists(column, _plain_photos, judge_photos)


def _lists(
    column: Column,
    plain: Callable[[Cells, Bools], tuple[_Lists, Bools]],
    judge: Callable[[str], Verdict],
) -> _Lists:
    """The lists of all rows: of many at once where they are `plain`, and then without a note; of
    the other ones as the texts are judged.
    """
    found: _Lists = np.full(len(column.says), None, dtype=object)
    for start, cells in column.cells.slices(_TOGETHER):
        says = column.says[start : start + len(cells)]
        found[start : start + len(cells)], done = plain(cells, says & ~_are_listed(cells.text))
        says[done] = False
    pa.default_memory_pool().release_unused()
    rows = positions(column.says)
    values = judge_each(column, judge) if rows else []
    for at in rows:
        found[at] = None if values[at] is None else list(values[at])
    for at in positions(column.clear):
        found[at] = []
    return found


def _plain_tags(cells: Cells, says: Bools) -> tuple[_Lists, Bools]:
    """The tags of cells without quotes, blank items and repeated tags, and which cells these are.

    The items of a cell without quotes are judged alone; each that there is, once.
    """
    split = pc.split_pattern(cells.text, ";")
    coded = pc.dictionary_encode(split.flatten())
    known = [_plain_tag(item) for item in coded.dictionary.to_pylist()]
    numbers: dict[Tag | None, int] = {}
    number = np.array([numbers.setdefault(tag, len(numbers)) for tag in known], dtype=np.int64)
    codes = number[coded.indices.to_numpy()]
    plain = says & ~_any_of(codes == numbers.get(None, -1), split)
    plain &= ~_repeating(pa.array(codes), split)
    objects = np.fromiter(numbers, dtype=object, count=len(numbers))
    return _slice_items(objects[codes].tolist(), split, plain), plain


def _plain_tag(item: str) -> Tag | None:
    """The tag of an item that nothing is to be said of."""
    if '"' in item or NBSP in item:
        return None
    try:
        tags_ = parse_tags(item)
    except CellError:
        return None
    return None if not tags_ or _placeholders(tags_) else shared_tag(tags_[0])


def _plain_photos(cells: Cells, says: Bools) -> tuple[_Lists, Bools]:
    """The addresses of cells in which nothing is but web addresses, each once, and which these
    cells are.
    """
    text = cells.trim()
    for mark, separator in (("\r", "\r\n"), ("|", " | ")):
        if (text_bytes(text).data == ord(mark)).any():
            text = pc.replace_substring(text, separator, "\n")
    split = pc.split_pattern(text, "\n")
    items = split.flatten()
    plain = says & ~_any_of(~_plain_addresses(items), split)
    plain &= ~_repeating(items, split)
    return _slice_items(items.to_numpy(zero_copy_only=False).tolist(), split, plain), plain


def _plain_addresses(items: Any) -> Bools:
    """Which begin like a web address, and have no quote, no bar and no whitespace in them."""
    plain = np.asarray(pc.or_(pc.starts_with(items, "https://"), pc.starts_with(items, "http://")))
    seen = text_bytes(items)
    strange = (seen.data <= ord(" ")) | (seen.data == ord('"')) | (seen.data == ord("|"))
    # The last character may be whitespace that is not ASCII.
    strange[seen.offsets[1:][plain] - 1] |= seen.data[seen.offsets[1:][plain] - 1] > ord("~")
    plain[seen.rows(np.flatnonzero(strange))] = False
    return plain


def _ends(split: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each row's items begin, and where the last one's end."""
    ends: np.ndarray[Any, np.dtype[np.int64]] = np.array(split.offsets, dtype=np.int64)
    ends -= ends[0]
    return ends


def _any_of(items: Bools, split: Any) -> Bools:
    """The rows of which one item or more is true."""
    found = np.zeros(len(split), dtype=bool)
    found[np.searchsorted(_ends(split), np.flatnonzero(items), side="right") - 1] = True
    return found


def _repeating(items: Any, split: Any) -> Bools:
    """The rows in which an item stands twice, and those with very many."""
    counts = np.diff(_ends(split))
    rows = np.repeat(np.arange(len(counts)), counts)
    repeating: Bools = counts > _MANY
    for apart in range(1, min(_MANY, int(counts.max(initial=0)))):
        first, second = items.slice(0, len(items) - apart), items.slice(apart)
        same = np.asarray(pc.equal(first, second)) & (rows[apart:] == rows[:-apart])
        repeating[rows[:-apart][same]] = True
    return repeating


def _slice_items(items: list[Any], split: Any, rows: Bools) -> _Lists:
    ends = _ends(split).tolist()
    found = [items[start:end] for start, end in itertools.pairwise(ends)]
    lists: _Lists = np.fromiter(found, dtype=object, count=len(found))
    lists[~rows] = None
    return lists


def judge_tags(text: str) -> Verdict:
    """What one cell's text means as tags."""
    if LISTED.match(trim(text)):
        return Verdict(None, [note_list(text, program_tags(trim(text)), format_tags)])
    found, notes = _parse(text, parse_tags, format_tags, "tags-unreadable", "tag-repeated")
    # No items empty the field, and a blank cell would say nothing.
    meant = format_tags(found) if found else None
    if NBSP in text and text.count(NBSP) > sum((tag.name or "").count(NBSP) for tag in found or ()):
        notes.append(Note("no-break-space", text, "", "", meant, True))
    if '"' not in text and any(not trim(part) for part in text.split(";")):
        notes.append(Note("tags-separators", text, "", "", meant, True))
    if unknown := _placeholders(found or ()):
        others = format_tags(tag for tag in found or () if tag.name not in unknown)
        problem = f'"{unknown[0]}" is taken as a tag.'
        notes.append(Note("placeholder-text", text, problem, "", others))
    return Verdict(found, notes)


def _placeholders(tags_: Iterable[Tag]) -> list[str]:
    """The names that are none; one that comes with an id is the store's own."""
    return [tag.name for tag in tags_ if tag.id is None and tag.name and is_placeholder(tag.name)]


def judge_photos(text: str) -> Verdict:
    """What one cell's text means as addresses of photos."""
    if LISTED.match(trim(text)):
        tags_ = program_tags(trim(text))
        is_text = tags_ is not None and all(tag.id is None for tag in tags_)
        urls = [tag.name or "" for tag in tags_ or ()] if is_text else None
        return Verdict(None, [note_list(text, urls, format_photo_urls)])
    inner = strip_brackets(trim(text))
    if inner is not None and "://" in inner:
        parts = [URL_SEPARATOR.split(url) for url in parse_photo_urls(inner.replace('"', ""))]
        urls = [url for some in parts for part in some if (url := trim(part).strip("'"))]
        return Verdict(None, [note_list(text, urls, format_photo_urls)])
    found, notes = _parse(
        text, parse_photo_urls, format_photo_urls, "photos-unreadable", "photo-repeated"
    )
    nothing = next((url for url in found or () if is_placeholder(url)), "")
    if nothing:
        others = format_photo_urls(url for url in found or () if not is_placeholder(url))
        problem = f'"{nothing}" is taken as an address.'
        notes.append(Note("placeholder-text", text, problem, "", others))
    for url in strange(found or ())[: 0 if nothing else 1]:
        hint, other = meant_address(url)
        put = [other if each == url else each for each in found or ()] if other else []
        meant = format_photo_urls(put) if put else None
        notes.append(Note("photo-not-an-address", text, "", hint, meant))
    return Verdict(found, notes)


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
        return None, [Note(unreadable, text, f"In this cell {error}.")]
    once = list(dict.fromkeys(items))
    if len(once) == len(items):
        return once, []
    twice = sorted({str(item) for item in items if list(items).count(item) > 1})
    problem = f"Twice in this cell: {', '.join(twice)}."
    return once, [Note(repeated, text, problem, "", form(once), True)]


def _are_listed(text: Any) -> Bools:
    """Which cells begin like the list of a program."""
    listed = np.zeros(len(text), dtype=bool)
    rows = _with_brackets(text)
    if len(rows):
        found = pc.match_substring_regex(text.take(pa.array(rows)), _LISTED)
        listed[rows[np.asarray(found)]] = True
    return listed


def _with_brackets(text: Any) -> Rows:
    """The rows of cells that begin with a bracket or have a round one anywhere: `set()`."""
    seen = text_bytes(text)
    calls = seen.rows(seen.places(lambda data: data == ord("(")))
    return np.union1d(rows_starting_with(text, _LIST_BEGINS), calls)


def note_list(text: str, items: list[T] | None, form: Callable[[Iterable[T]], str]) -> Note:
    """The error of a cell that holds the list of a program, with what is meant."""
    if items is None:
        return Note("list-text", text)
    if not items:
        return Note("list-text", text, "", _NO_ITEMS)
    meant = form(items)
    shown = meant.replace("\n", " | ")
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return Note("list-text", text, "", f"Write {shown}", meant)


def program_tags(text: str) -> list[Tag] | None:
    """The tags, or texts as tags without an id, of a list or of one item as Python, pandas or JSON
    writes it; None if it is none.
    """
    call = _CALL.fullmatch(text)
    text = call[1] if call else text
    found = _json_tags(text)
    return found if found is not None else _json_tags(f"[{text}]")


def _json_tags(text: str) -> list[Tag] | None:
    try:
        found = msgspec.json.decode(text, type=list[str | _Label])
    except (msgspec.DecodeError, RecursionError):
        return _python_tags(text)
    return [Tag(None, each) if isinstance(each, str) else Tag(each.id, each.name) for each in found]


class _Label(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    name: str | None = None


def _python_tags(text: str) -> list[Tag] | None:
    if text[:1] + text[-1:] not in _BRACKETS:
        return None
    found: list[Tag] = []
    at, end = _skip(text, 1), len(text) - 1
    while at < end:
        match = _PYTHON.match(text, at, end)
        if match is None:
            return None
        number, name = match[1] or match[3], match[2] or match[4] or match[5]
        tag_id = None if number in (None, "None") else int(number)
        try:
            found.append(Tag(tag_id, None if name == "None" else str(ast.literal_eval(name))))
        except (ValueError, SyntaxError):
            return None
        at = _skip(text, match.end())
    return found


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


# Columns of an export that have another header now: what they say would not be read.


_LEAST = 0.5
"""So large a part of what a renamed column says was in the export."""


def note_renamed(grid: Grid, headers: Headers, base: Base, notes: Notes) -> frozenset[int]:
    """Note the unused columns that hold what the export had in a column that is missing now, and
    an id column that is missing at all; the positions of these columns.
    """
    found: dict[int, str] = {}
    for name, split in _ITEMS.items():
        if name in headers.ours:
            continue
        said = ACTIONS if name == ACTION else base.frame[name]
        before = {item.casefold() for each in said for item in _items(each)} - {""}
        position = None
        if before and name == "category_id":
            position = _category_position(grid, headers, found, base)
        elif before:
            position = _position(grid, headers, found, name, split, before)
        if position is not None:
            found[position] = name
            text = grid.header[position]
            problem = f"The column '{text}' is not used: the export had it as {name}."
            hint = (
                f"Write {name} as the header again, or map it (--column '{text}={name}', in Python "
                f"mapping={{'{text}': '{name}'}}). If it is another column, insert an empty column "
                f"{name}."
            )
            notes.add(-1, text, Note("header-renamed", text, problem, hint, name))
        elif before and name == "id":
            problem = "The column id, which the export had, is missing."
            hint = (
                "Put it back, with the ids beside their rows. If all rows are new pets, insert an "
                "empty column id."
            )
            notes.add(-1, "", Note("header-renamed", "", problem, hint))
    return frozenset(found)


def _position(
    grid: Grid,
    headers: Headers,
    taken: Mapping[int, str],
    name: str,
    split: Callable[[str], Iterable[str]],
    before: set[str],
) -> int | None:
    """Where the unused column is that has most of what was in the column `name`; one whose header
    is nearly that name counts, whatever it says.
    """
    shares = {}
    written = own_results(headers.others)
    for header, position in headers.others.items():
        if position in taken or header in written:
            continue
        texts = {*grid.columns[position].text.to_pylist()}
        said = [item.casefold() for text in texts for item in split(text) if item]
        if said:
            share = sum(item in before for item in said) / len(said)
            shares[position] = 1 + share if headers.near.get(position) == name else share
    best = max(shares, key=lambda position: shares[position], default=None)
    return best if best is not None and shares[best] >= _LEAST else None


def _category_position(
    grid: Grid, headers: Headers, taken: Container[int], base: Base
) -> int | None:
    """Where the unused column is that has the numbers of the rows' own categories, in more rows
    than other numbers meet them by chance, or beside the category; one whose header is nearly that
    of the column counts, whatever it says.
    """
    written = own_results(headers.others)
    numbers = zip(base.frame["id"].tolist(), base.frame["category_id"].tolist(), strict=True)
    had = {str(pet_id): "" if pd.isna(number) else str(number) for pet_id, number in numbers}
    ids = grid.columns[headers.ours["id"]].text.to_pylist() if "id" in headers.ours else []
    own = [had.get(trim(text).removesuffix(".0"), "") for text in ids]
    met = {}
    for header, position in headers.others.items():
        if position in taken or header in written:
            continue
        texts = [trim(text).removesuffix(".0") for text in grid.columns[position].text.to_pylist()]
        if headers.near.get(position) == "category_id" and any(texts):
            return position
        pairs = [pair for pair in zip(own, texts, strict=False) if all(pair)]
        share = sum(a == b for a, b in pairs) / max(1, sum(map(bool, texts)))
        if pairs and share >= _LEAST:
            before, now = (Counter(side) for side in zip(*pairs, strict=True))
            chance = sum(before[text] * now[text] for text in now) / len(pairs) ** 2
            is_beside = position - 1 == headers.ours.get("category")
            if is_beside or share - chance >= _LEAST * (1 - chance) > 0:
                met[position] = share
    return max(met, key=lambda position: met[position], default=None)


def _items(value: Any) -> Iterable[str]:
    """What a value of the base says, each text by itself."""
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
"""How a cell of each column is split into what was in the export."""


# Lists whose items are not separated as the grammar has it, and would be read as one item.


_ASCII = b",\n\r\t\v\f|"
_MARKUP_SIGNS = b"<#\\_"
_WIDE = "[\uff5c\u00a6\uff1b\uff0c\u3001\u060c\u061b\x85\u2028\u2029]"
_WIDE_LEADS = b"\xef\xe3\xd8\xc2\xe2"
_WIDE_PAIRS = np.zeros((256, 256), dtype=bool)
"""The two bytes with which a separator of other scripts begins."""
_WIDE_PAIRS[tuple(zip(*{char.encode()[:2] for char in _WIDE[1:-1]}, strict=True))] = True
_MARKUP = r"(?i)<br|&#|_x000|\\[rn]"
_OPENING = bytes({char.encode()[0] for char in BLANKS + "[({"})
_LETTERS = np.zeros(256, dtype=bool)
"""The bytes before an address that leave no doubt that it does not begin there by itself."""
_LETTERS[[*b" \t\x0b\x0c,;|_&", *range(48, 58), *range(65, 91), *range(97, 123)]] = True
_LETTERS[128:] = True

_AT_END = "A separator seems to stand beside the address."
_CUT = "Write {}; if all of it is the address, put it in double quotes."

Known = Callable[[], Collection[str]]


def note_separators(
    tags: Cells | None, photos: Cells | None, marker: str, base: Base | None, notes: Notes
) -> None:
    """Note tags between which there is a comma, a line break or a bar, addresses between which
    there is a comma, a semicolon, a space, a bar or nothing, and the marker beside either.

    A tag or an address that the `base` has is one, as it was exported.
    """
    for name, cells in (("tags", tags), ("photo_urls", photos)):
        for at, text in beside_others(cells, marker) if cells is not None else ():
            notes.add(at, name, Note("clear-beside-others", text))
        for at, text in bare(cells, marker) if cells is not None else ():
            if trim(text) not in _known_tags(base)():
                hint = f"Write {marker} to empty the field."
                notes.add(at, name, Note("placeholder-text", text, "", hint))
    for at, text, names in _in_brackets(tags.text, base) if tags is not None else ():
        if not has(text, marker):
            notes.add(at, "tags", note_list(text, names, format_tags))
    for at, text, count, meant in _tag_separators(tags.text, base) if tags is not None else ():
        these = f"these are {count} tags" if count > 1 else "that is meant"
        # With quotes around it, the suggestion would be one tag.
        plain = "" if '"' in meant else " (without quotes)"
        hint = (
            f"Write {_short(meant)}{plain} if {these}. Put double quotes only around what is one "
            "tag."
        )
        notes.add(at, "tags", Note("tags-commas", text, "", hint, meant))
    for at, text, meant in _photo_separators(photos.text, base) if photos is not None else ():
        told = ("", "") if "\n" in meant else (_AT_END, _CUT.format(_short(meant)))
        notes.add(at, "photo_urls", Note("photos-separators", text, *told, meant))


def _tag_separators(text: Any, base: Base | None) -> Iterator[tuple[int, str, int, str]]:
    """The rows of such cells, their texts, and the tags that may be meant: how many, as a cell."""
    known = _known_tags(base)
    for at in _doubtful_tags(text).tolist():
        cell = text[at].as_py()
        if LISTED.match(trim(cell)) or _bracketed_tags(cell) is not None:
            continue
        try:
            parts = [part for tag in tag_items(cell) for part in _parts(*tag, known)]
        except CellError:
            continue
        if any(is_split for _, is_split in parts):
            names = [name for name, _ in parts]
            yield at, cell, len(names), "; ".join(names)


def _in_brackets(text: Any, base: Base | None) -> Iterator[tuple[int, str, list[Tag]]]:
    """The rows of cells that brackets enclose, their texts, and the tags that may be meant."""
    known = _known_tags(base)
    for at in rows_starting_with(text, _OPENING).tolist():
        cell = text[at].as_py()
        inner = _bracketed_tags(cell)
        if inner is None or LISTED.match(trim(cell)):
            continue
        try:
            if not all(tag.name in known() for tag in parse_tags(cell)):
                yield at, cell, list(parse_tags(TAG_SEPARATOR.sub(";", inner)))
        except CellError:
            continue


def _bracketed_tags(cell: str) -> str | None:
    """What stands in the brackets around a cell. One tag in round brackets may be meant so."""
    text = trim(cell)
    inner = strip_brackets(text)
    if inner is None or (text[0] == "(" and ";" not in inner and not TAG_SEPARATOR.search(inner)):
        return None
    return inner


def _parts(tag: Any, item: str, known: Known) -> list[tuple[str, bool]]:
    """The tags that may be meant by one, as texts, and whether it is these that are noted."""
    found = [part for text in TAG_SEPARATOR.split(item) if (part := trim(text))]
    is_one = not TAG_SEPARATOR.search(item) or (tag.name or "") in known()
    if is_one:
        return [(format_tags([tag]), False)]
    try:
        return [(format_tags(parse_tags(part)), True) for part in found or [item]]
    except CellError:
        return [(part, True) for part in found]


def _known_tags(base: Base | None) -> Known:
    @cache
    def list_names() -> Collection[str]:
        if base is None:
            return ()
        return {tag.name or "" for tags in base.frame["tags"] for tag in tags or ()}

    return list_names


def _doubtful_tags(text: Any) -> Rows:
    seen = text_bytes(text)
    rows = seen.rows(seen.places(lambda data: np.isin(data, tuple(_ASCII))))
    for signs, pattern in ((_WIDE_LEADS, _WIDE), (_MARKUP_SIGNS, _MARKUP)):
        some = seen.rows(seen.places(partial(np.isin, test_elements=tuple(signs))))
        if len(some):
            some = some[np.asarray(pc.match_substring_regex(text.take(pa.array(some)), pattern))]
        rows = np.union1d(rows, some)
    return rows


def _photo_separators(text: Any, base: Base | None) -> Iterator[tuple[int, str, str]]:
    """The rows of such cells, their texts, and the addresses that may be meant, as a cell."""
    known: Collection[str] | None = None
    for at in _doubtful_photos(text).tolist():
        cell = text[at].as_py()
        if LISTED.match(trim(cell)) or strip_brackets(trim(cell)) is not None:
            continue
        try:
            items = list(photo_items(cell))
        except CellError:
            continue
        several = {url for url, is_quoted in items if not is_quoted and has_separator(url)}
        if several and known is None:
            known = _known_photos(base)
        several.difference_update(known or ())
        if several:
            parts = [URL_SEPARATOR.split(url) if url in several else [url] for url, _ in items]
            urls = [part for some in parts for url in some if (part := trim(url))]
            yield at, cell, format_photo_urls(urls)


def _known_photos(base: Base | None) -> Collection[str]:
    return set() if base is None else {u for urls in base.frame["photo_urls"] for u in urls or ()}


def _doubtful_photos(text: Any) -> Rows:
    """The rows with a bar that is no separator, a comma or semicolon before a space or at the end,
    and those in which an address begins where none should.
    """
    seen = text_bytes(text)
    if not len(seen.data):
        return np.zeros(0, dtype=np.intp)
    bars = seen.places(lambda data: data == ord("|"))
    if len(bars):
        bars = bars[~(_is_space(seen.data[bars - 1]) & _is_space(seen.following(bars)))]
    marks = seen.places(lambda data: np.isin(data, tuple(b",;_")))
    behind = seen.following(marks)
    is_last = seen.offsets[np.searchsorted(seen.offsets, marks + 1)] == marks + 1
    marks = marks[(behind <= ord(" ")) | (behind > ord("~")) | is_last]
    wide = seen.places(lambda data: data >= min(_WIDE_LEADS))
    marks = np.union1d(marks, wide[_WIDE_PAIRS[seen.data[wide], seen.following(wide)]])
    marks = np.union1d(marks, seen.places(lambda data: data == ord("<")))
    return seen.rows(np.union1d(np.union1d(bars, marks), _find_starts(seen)))


def _find_starts(seen: Any) -> Rows:
    """Where an address begins behind something that is no separator."""
    colons = seen.places(lambda data: data == ord(":"))
    colons = colons[(seen.following(colons) == 0x2F) & (seen.following(colons, by=2) == 0x2F)]
    starts = colons - 4 - (seen.data[colons - 1] | 0x20 == ord("s"))
    starts = starts[starts > 0]
    cells = seen.offsets[np.searchsorted(seen.offsets, starts, side="right") - 1]
    starts = starts[(starts != cells) & _LETTERS[seen.data[starts - 1]]]
    is_bar = (seen.data[starts - 1] == ord(" ")) & (seen.data[starts - 2] == ord("|"))
    begun: Rows = starts[~is_bar]
    return begun


def _is_space(data: Any) -> Any:
    return (data <= ord(" ")) & (data > 0)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


# The columns of text: `name`, `status`, `category` and `action`.


_LONG = 255
_RECORD = f"{_LISTED}|^[{re.escape(BLANKS)}]*Category\\("
_NUMBERED = r"^\s*-?[0-9]+:\s*\S"
_NUMBER_BEGINS = b"-0123456789 \t\r\n"
_IF_IT_IS_ONE = "If the store has this one too, name it in petsync.toml ([service], statuses)."
_MEANT = {
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


def words(column: Column) -> Any:
    """A column of free text as typed, as a `str` array; CLEARED where the cell empties it."""
    note_damage(column)
    kept = column.cells.text
    if not column.says.all():
        kept = null_unless(kept, column.says)
    if column.clear.any():
        kept = pc.if_else(pa.array(column.clear), pa.scalar(CLEARED, pa.large_string()), kept)
    return pd.array(kept, dtype=pd.StringDtype(na_value=np.nan))


def categories(column: Column, exported: Collection[str], marker: str) -> Any:
    """The categories' names as typed; those that were `exported` are meant so."""
    _note_placeholders(column, are_placeholders(column.cells.trim()), exported)
    _note_records(column, "category-text", exported, _NO_ITEMS)
    _note_numbered(column, exported)
    for at, text in findings.bare(column.cells, marker):
        if text not in exported:
            column.note(at, "placeholder-text", suggestion=f"Write {marker} to empty the field.")
    return words(column)


def names(column: Column, exported: Collection[str]) -> Any:
    """The names as typed; those that were `exported` are meant so. The clear marker is refused."""
    hint = "Leave the cell blank to say nothing, or write the name."
    _note_placeholders(column, are_missing_values(column.cells.trim()), exported, hint)
    _note_records(column, "name-text", exported, hint)
    for at in positions(column.clear):
        column.note(at, "clear-refused", "A name cannot be emptied.")
    for at in positions(pc.greater(pc.utf8_length(column.cells.text), _LONG)):
        column.note(at, "name-long")
    column.clear[:] = False
    return words(column)


def statuses(column: Column, usual: Sequence[str], known: Collection[str]) -> Any:
    """The statuses, trimmed and in small letters; one that the store has is kept as typed."""
    offered = [*usual, *sorted(set(known) - set(usual))]

    def judge(text: str) -> Verdict:
        if text in known:
            return Verdict(text)
        typed, normal = trim(text), normal_status(text)
        same = (each for each in offered if normal_status(each) == normal)
        meant = typed if typed in known or typed in usual else next(same, None)
        has_spaces = NBSP in text.replace(typed, "")
        spaces = [Note("no-break-space", text, "", "", meant, True)] if has_spaces else []
        if meant is None:
            return Verdict(None, [*spaces, _note_unknown_status(text, normal, offered)])
        return Verdict(meant, [*spaces, *_respelled_status(typed if spaces else text, meant)])

    said = judge_texts(column, judge)
    said[column.clear] = ""
    return said


def actions(column: Column) -> Any:
    """What each row asks for: one of ACTIONS, `merge` where the cell is blank."""
    for at in positions(column.clear):
        column.note(at, "unknown-action")

    def judge(text: str) -> Verdict:
        action = normal_status(text)
        if action in ACTIONS:
            return Verdict(action)
        near = difflib.get_close_matches(action, ACTIONS, n=1)
        meant = _MEANT.get(action) or "".join(near)
        hint = f"Write {meant} if that is meant." if meant else ""
        return Verdict("merge", [Note("unknown-action", text, "", hint, meant or None)])

    return judge_texts(column, judge, otherwise="merge")


def _note_placeholders(
    column: Column, found: Bools, exported: Collection[str], hint: str = ""
) -> None:
    for at in positions(found & column.says):
        if column.cells.text[at].as_py() not in exported:
            column.note(at, "placeholder-text", suggestion=hint, meant="")


def _note_records(column: Column, rule: str, exported: Collection[str], empty: str) -> None:
    """Note texts as a program writes them for a category or a list; `empty` is what to do with a
    list that has no items.
    """
    rows = _with_brackets(column.cells.text)
    for at, text in _matching(column, rows, _RECORD, exported):
        found = program_tags(text)
        meant = (found[0].name or None) if found and len(found) == 1 else None
        hint = empty if found == [] else f"Write {meant}." if meant else ""
        column.note(at, rule, suggestion=hint, meant=meant)


def _note_numbered(column: Column, exported: Collection[str]) -> None:
    """Note numbers before the names of categories."""
    rows = rows_starting_with(column.cells.text, _NUMBER_BEGINS)
    for at, text in _matching(column, rows, _NUMBERED, exported):
        found = parse_tags(text)
        meant = (found[0].name or None) if len(found) == 1 else None
        hint = f"Write {meant}." if meant else ""
        column.note(at, "category-numbered", suggestion=hint, meant=meant)


def _matching(
    column: Column, rows: Rows, pattern: str, exported: Collection[str]
) -> Iterator[tuple[int, str]]:
    """Those of the rows that have the pattern, and their trimmed texts."""
    rows = rows[column.says[rows]]
    texts = column.cells.text.take(pa.array(rows))
    for at in rows[positions(pc.match_substring_regex(texts, pattern))].tolist():
        text = trim(column.cells.text[at].as_py())
        if text not in exported:
            yield at, text


def _respelled_status(text: str, status: str) -> list[Note]:
    if text == status:
        return []
    problem = f"The status has capital letters or spaces around it; it is read as {status}."
    return [Note("status-spelling", text, problem, f"Write {status}.", status, True)]


def _note_unknown_status(text: str, normal: str, offered: Sequence[str]) -> Note:
    folded = {normal_status(each): each for each in offered}
    near, why = nearest_column(normal, folded)
    listed = f"The statuses are {', '.join(offered)}."
    if not near:
        return Note("unknown-status", text, suggestion=f"{listed} {_IF_IT_IS_ONE}")
    meant = f"Write {folded[near]} if that is meant{f': {why}' if why else ''}."
    return Note("unknown-status", text, "", f"{meant} {listed}", folded[near])
