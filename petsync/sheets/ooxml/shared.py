"""A workbook's shared texts, measured before they are handed out to the cells that refer to them.

A cell takes 30 bytes in the file, whatever the size of the text that it refers to: 100,000 cells
with one text of 30 MB would need three terabytes.
"""

from __future__ import annotations

import re

import numpy as np

__all__ = ["shared_size", "uncounted"]

_COUNT = b"uniqueCount"
# Up to the next element: nothing but blanks stands between the two.
_TABLE = re.compile(rb"<(?:[^\s<>/]+:)?sst\s[^<]*")
_INDEX = re.compile(rb">([0-9]{1,9})<")
_END = b"</si>"
_WORTH = 64
_LEAST = 16
"""Fewer bytes than the shortest cell with a reference has."""


def uncounted(strings: bytes) -> bytes:
    """The part without its claim of how many texts it has, for which calamine makes room."""
    return _TABLE.sub(lambda tag: tag[0].replace(_COUNT, b"was"), strings)


def shared_size(sheet: bytes, strings: bytes, most: int) -> int:
    """An upper bound of the bytes of text that a worksheet's cells take from the shared ones.

    It is exact enough where it is over `most`; below that it is a coarse one, which costs little.
    """
    fits = len(sheet) // _LEAST + 1
    size = most // fits
    if size >= _WORTH and _is_cut(strings, size):
        return fits * size
    # Whatever stands around it, a reference has the type `s` in quotes.
    references = sheet.count(b'"s"') + (sheet.count(b"'s'") if b"'" in sheet else 0)
    sizes = [len(text) for text in strings.split(_END)]
    if references * max(sizes) <= most:
        return references * max(sizes)
    indexes = np.array(_INDEX.findall(sheet), dtype=np.int64)
    known = indexes[indexes < len(sizes)]
    # What is no index is taken for the first one.
    others = max(0, references - len(known))
    return int(np.array(sizes)[known].sum()) + others * sizes[0]


def _is_cut(strings: bytes, size: int) -> bool:
    """Whether the part has an end of a text in every `size` bytes, so that none is longer."""
    at = 0
    while len(strings) - at > size:
        end = strings.rfind(_END, at, at + size)
        if end < 0:
            return False
        at = end + len(_END)
    return True
