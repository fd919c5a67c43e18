"""Seal: a checksum of what a row says, so that a disk's mistake is not taken for the truth."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

__all__ = ["seal"]

_encoder = msgspec.json.Encoder()


def seal(values: tuple[Any, ...]) -> int:
    """CRC-32 of the values as a JSON array, bytes in base64."""
    return zlib.crc32(_encoder.encode(values))
