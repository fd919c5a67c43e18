"""What a text in a column of numbers means, or may mean."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from petsync.table.cells import CellError, parse_id, trim

__all__ = ["Reading", "is_rounded", "read"]

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


def read(text: str, *, is_number: bool = False) -> Reading:
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
        return _refused(text, error.rule, is_number=is_number)
    # A decimal point is the mark of a program that has no exact integers.
    if (is_number or "." in text) and abs(number) >= _IMPRECISE:
        return Reading(None, "id-imprecise")
    if is_rounded(number):
        return Reading(number, "id-rounded")
    if text != str(number):
        return _respelled(number, "id-decimal" if "." in text else "id-respelled")
    return Reading(number)


def is_rounded(number: int) -> bool:
    """Whether all digits behind the fifteenth are zeros, and there are three of them or more."""
    return abs(number) >= _ROUNDED and not number % 10 ** (len(str(abs(number))) - 15)


def _respelled(number: int, rule: str) -> Reading:
    why = {
        "id-decimal": "The id went through a program that made it a decimal",
        "id-respelled": "The id has leading zeros or a plus sign, which do not count",
    }[rule]
    problem = f"{why}; it is read as {number}."
    return Reading(number, rule, problem, f"Write {number}.", str(number))


def _refused(text: str, rule: str, *, is_number: bool) -> Reading:
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
    return Reading(None, rule, "", *_meant(text))


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


def _meant(text: str) -> tuple[str, str | None]:
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
