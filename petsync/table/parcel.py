"""Parcel: data as lines of plain ASCII, which a spreadsheet's cells can carry unharmed.

The first line is `petsync-base`, the version, the number of the lines that follow and the SHA-256
of all that is carried; the others are that in base64, compressed with zlib. Lines that begin with
`#` speak to people and are passed over.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable

__all__ = ["LINE", "ParcelError", "pack", "unpack"]

LINE = 30_000
"""The longest line: a cell in Excel holds 32,767 characters."""

_VERSION = 1
_LABEL = re.compile(r"petsync-base ([0-9]{1,9}) ([0-9]{1,9}) ([0-9a-f]{64})")
_OURS = re.compile(r"petsync-base ")
# What may be unpacked without regard to the packed size, and how many times that size beyond it.
_FREE, _RATIO = 1 << 24, 64
_LEVEL = 4


class ParcelError(ValueError):
    """The lines are no whole, unchanged parcel; the message ends "it ..." or "they ..."."""


def pack(data: bytes) -> list[str]:
    """The lines that carry `data`; `unpack` gives it back."""
    packed = zlib.compress(data, _LEVEL)
    if len(data) > _bound(packed):
        packed = zlib.compress(data, 0)
    text = base64.b64encode(packed).decode()
    chunks = [text[at : at + LINE] for at in range(0, len(text), LINE)]
    return [f"petsync-base {_VERSION} {len(chunks)} {_digest(len(chunks), packed)}", *chunks]


def unpack(lines: Iterable[str]) -> bytes:
    """What the lines carry. Raises ParcelError that says what is wrong with them."""
    stripped = map(str.strip, lines)
    label, *chunks = [line for line in stripped if line and not line.startswith("#")] or [""]
    version, count, digest = _read_label(label)
    if version != _VERSION:
        raise ParcelError(f"they are in format {version}, which this petsync does not know")
    if len(chunks) < count:
        raise ParcelError(f"only {len(chunks)} of their {count} parts are there")
    try:
        packed = base64.b64decode("".join(chunks), validate=True)
    except ValueError:
        raise ParcelError("they were changed") from None
    if _digest(count, packed) != digest:
        raise ParcelError("they were changed")
    return _unpacked(packed)


def _read_label(label: str) -> tuple[int, int, str]:
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ParcelError("they were changed" if _OURS.match(label) else "their label is missing")
    return int(match[1]), int(match[2]), match[3]


def _digest(count: int, packed: bytes) -> str:
    return hashlib.sha256(f"petsync-base {_VERSION} {count}\n".encode() + packed).hexdigest()


def _unpacked(packed: bytes) -> bytes:
    bound = _bound(packed)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, bound)
    except zlib.error:
        raise ParcelError("they cannot be unpacked") from None
    if not inflater.eof:
        more = bool(inflater.unconsumed_tail)
        raise ParcelError("they are far too large unpacked" if more else "they are cut short")
    return data


def _bound(packed: bytes) -> int:
    return max(_FREE, len(packed) * _RATIO)
