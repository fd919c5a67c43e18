"""What a worksheet's XML may be made of that calamine reads otherwise than everybody else."""

from __future__ import annotations

import re

__all__ = ["misreading"]

_TABLE = re.compile(rb"<(?:[^\s<>/]+:)?sheetData[\s/>]")
_REFERENCE = re.compile(rb"&#")
_HEAD = 1 << 16
# Formulas' texts (`t="str"`) are put together, so that only what begins like a number counts.
_PIECES = re.compile(rb"v>[0-9.eE+\-]*(?:<!|&#(?:4[3-9]|5[0-7]|x2[bBdDeE]|x3[0-9]);)")


def misreading(data: bytes) -> str:
    """What calamine would take something else for than is meant, "" where there is nothing.

    It reads the first of two tables of cells, and the first piece of a number that a comment, a
    CDATA section or a character reference divides; the rest would be lost.
    """
    if _tables(data) > 1:
        return "it has two tables of cells"
    # Both are rare characters, for which a search costs next to nothing.
    divided = (b"!" in data and (b"<!--" in data or b"<![CDATA[" in data)) or (
        b"&" in data and _REFERENCE.search(data)
    )
    return "a number in it is written in pieces" if divided and _PIECES.search(data) else ""


def _tables(data: bytes) -> int:
    if b":sheetData" in data[:_HEAD]:
        return len(_TABLE.findall(data))
    return data.count(b"<sheetData")
