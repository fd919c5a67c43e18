"""A ZIP file in memory, of parts that are stored as they are."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping

__all__ = ["stored"]

_VERSION = 20
_UTF8 = 0x800
_DAY = 0x21
"""The first day that such a file can name: 1 January 1980."""


def stored(parts: Mapping[str, bytes]) -> io.BytesIO:
    """The file, with these parts by their names, together less than 4 GB.

    `zipfile` would copy each part several times, and a worksheet may have a hundred megabytes.
    """
    pieces: list[bytes] = []
    directory: list[bytes] = []
    at = 0
    for name, data in parts.items():
        raw = name.encode()
        entry = struct.pack(
            "<5H3I2H",
            *(_VERSION, _UTF8, 0, 0, _DAY),
            *(zlib.crc32(data), len(data), len(data)),
            *(len(raw), 0),
        )
        head = b"PK\x03\x04" + entry + raw
        place = struct.pack("<3H2I", 0, 0, 0, 0, at)
        directory.append(b"PK\x01\x02" + struct.pack("<H", _VERSION) + entry + place + raw)
        pieces += (head, data)
        at += len(head) + len(data)
    listed = b"".join(directory)
    end = struct.pack("<4H2IH", 0, 0, len(parts), len(parts), len(listed), at, 0)
    return io.BytesIO(b"".join((*pieces, listed, b"PK\x05\x06", end)))
