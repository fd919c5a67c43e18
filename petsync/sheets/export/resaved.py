"""What LibreOffice makes of a text when it opens a workbook and saves it.

It takes every line end of a text of several lines for a line feed, takes `_x1_` for an escaped
character as it does `_x0001_`, and escapes what looks like an escape only where no other one
overlaps it. Nothing else changes a text. Found by saving many thousand texts with release 7.4;
tests/test_sheets_libreoffice.py holds it to the release that is installed.
"""

from __future__ import annotations

import re

__all__ = ["FRAGILE", "resaved"]

FRAGILE = re.compile(r"\r|_x[0-9A-Fa-f]{1,4}[_\x00-\x1f\ufffe\uffff]")
"""What every text has that does not stay as it is."""

_LINE_END = re.compile(r"\r\n|\n\r|\r|\n")
_SHORT = re.compile(r"_x([0-9A-Fa-f]{1,4})_")
_ALIKE = re.compile(r"(_x005F_x[0-9A-F]{4}_)|(_x[0-9A-F]{4}_)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NONCHARACTER = re.compile(r"_x(?:005F|FFF[EF])_", re.IGNORECASE)
_ESCAPE = re.compile(r"_x((?!D[89A-F]|FFF[EF])[0-9A-F]{4})_", re.IGNORECASE)


def resaved(text: str, *, times: int = 4) -> list[str]:
    """The other texts that it becomes when it is saved so many times; none where it stays."""
    forms: list[str] = []
    form = text
    for _ in range(times):
        written = _written(_lines(form))
        form = _read(written)
        if form != text and form not in forms:
            forms.append(form)
        # The next time it is opened from the file as it is, not from what we would have written.
        form = _SHORT.sub(_opened, written)
    return forms


def _lines(text: str) -> str:
    return _LINE_END.sub("\n", text) if "\n" in text else text


def _written(text: str) -> str:
    """As LibreOffice writes it, but for what XML itself escapes."""
    escaped = _ALIKE.sub(lambda match: match[1] or f"_x005F{match[0]}", text)
    return _CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", escaped)


def _opened(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code < 0x20 or code in (0x5F, 0xFFFE, 0xFFFF) else match[0]


def _read(written: str) -> str:
    """As petsync reads what is written so."""

    def character(match: re.Match[str]) -> str:
        escape = match[0].upper()
        return match[0] if escape == "_X005F_" else chr(int(escape[2:6], 16))

    plain = _NONCHARACTER.sub(character, written)
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), plain)
