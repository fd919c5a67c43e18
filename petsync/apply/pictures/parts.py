"""The parts of an image file, walked from its first byte to its last, without decoding a pixel.

So it is known where an image ends, how many frames it has, and which parts are not of the picture:
those can be left out while the pixels stay byte for byte.

Sources: ITU-T T.81 (JPEG), the PNG specification (third edition), GIF89a, the WebP container.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from petsync.apply.pictures.kinds import Format

__all__ = ["BrokenError", "Part", "exif_of", "frames_of", "parts", "without_extras"]

Kind = Literal["picture", "frame", "extra", "exif"]
"""`frame` begins a picture of an animation; `extra` and `exif` tell about it and are not of it."""


class BrokenError(Exception):
    """The file is not whole, or not made as its format demands; the message says how."""


class Part(NamedTuple):
    """Bytes from `start` to before `end`; `body` is where the content begins behind its head."""

    kind: Kind
    start: int
    end: int
    body: int = 0


def parts(content: bytes, form: Format) -> list[Part]:
    """The parts, one behind the other, up to the image's end. Raises BrokenError."""
    try:
        return list(_WALK[form](content))
    except IndexError:
        raise BrokenError("it is cut off") from None


def frames_of(found: list[Part]) -> int:
    """How many pictures the file holds."""
    return max(1, sum(part.kind == "frame" for part in found))


def exif_of(found: list[Part]) -> tuple[int, int] | None:
    """Where the camera's data (a TIFF structure) stand, None where there are none."""
    return next(((part.body, part.end) for part in found if part.kind == "exif"), None)


def without_extras(content: bytes, form: Format, found: list[Part]) -> bytes:
    """The same picture without what only tells about it, and without what follows it."""
    kept = b"".join(content[p.start : p.end] for p in found if p.kind in ("picture", "frame"))
    return _resealed(kept) if form == "WEBP" else kept


_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


def _jpeg(content: bytes) -> Iterator[Part]:
    yield Part("picture", 0, 2)
    at = 2
    while True:
        start = at
        if content[at] != 0xFF:
            raise BrokenError(f"it is damaged at byte {at:,}")
        while content[at] == 0xFF:
            at += 1
        marker = content[at]
        at += 1
        if marker == 0xD9:
            yield Part("picture", start, at)
            return
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            yield Part("picture", start, at)
            continue
        end = at + _number(content, at, 2, "big")
        if end > len(content) or end < at + 2:
            raise BrokenError("it is cut off")
        if marker == 0xDA:
            after = _MARKER.search(content, end)
            if after is None:
                raise BrokenError("it is cut off")
            end = after.start()
        yield Part(_jpeg_kind(marker, content[at + 2 : at + 16]), start, end, at + 8)
        at = end


def _jpeg_kind(marker: int, head: bytes) -> Kind:
    if marker == 0xE1 and head.startswith(b"Exif\0\0"):
        return "exif"
    needed = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}.get(marker)
    is_told = 0xE0 <= marker <= 0xEF or marker == 0xFE
    return "extra" if is_told and not (needed and head.startswith(needed)) else "picture"


_PNG_EXTRAS = frozenset((b"tEXt", b"zTXt", b"iTXt", b"tIME"))


def _png(content: bytes) -> Iterator[Part]:
    yield Part("picture", 0, 8)
    at, name = 8, b""
    while name != b"IEND":
        length, name = _number(content, at, 4, "big"), content[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(content):
            raise BrokenError("it is cut off")
        if zlib.crc32(content[at + 4 : end - 4]) != _number(content, end - 4, 4, "big"):
            raise BrokenError(f"it is damaged in its part {name.decode('ascii', 'replace')!r}")
        kind: Kind = "exif" if name == b"eXIf" else "extra" if name in _PNG_EXTRAS else "picture"
        yield Part("frame" if name == b"fcTL" else kind, at, end, at + 8)
        at = end


_GIF_NEEDED = frozenset((b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012"))


def _gif(content: bytes) -> Iterator[Part]:
    at = 13 + _colours(content[10])
    yield Part("picture", 0, at)
    while content[at] != 0x3B:
        start = at
        if content[at] == 0x2C:
            at += 10 + _colours(content[at + 9]) + 1
            kind: Kind = "frame"
        elif content[at] == 0x21:
            is_known = content[at + 1] != 0xFF or content[at + 3 : at + 14] in _GIF_NEEDED
            kind = "picture" if is_known and content[at + 1] != 0xFE else "extra"
            at += 2
        else:
            raise BrokenError(f"it is damaged at byte {at:,}")
        while length := content[at]:
            at += 1 + length
        at += 1
        yield Part(kind, start, at)
    yield Part("picture", at, at + 1)


def _colours(flags: int) -> int:
    """How many bytes a colour table has."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(content: bytes) -> Iterator[Part]:
    whole = 8 + _number(content, 4, 4, "little")
    if whole > len(content):
        raise BrokenError("it is cut off")
    yield Part("picture", 0, 12)
    at = 12
    while at + 8 <= whole:
        name, length = content[at : at + 4], _number(content, at + 4, 4, "little")
        if at + 8 + length > whole:
            raise BrokenError("it is cut off")
        end = min(at + 8 + length + length % 2, whole)
        kind: Kind = "exif" if name == b"EXIF" else "extra" if name == b"XMP " else "picture"
        body = at + 8
        if content[body : body + 6] == b"Exif\0\0" and kind == "exif":
            body += 6
        yield Part("frame" if name == b"ANMF" else kind, at, end, body)
        at = end


_EXIF_AND_XMP = 0x08 | 0x04


def _resealed(content: bytes) -> bytes:
    """A WebP file whose head agrees with what is left of it."""
    whole = bytearray(content)
    whole[4:8] = (len(content) - 8).to_bytes(4, "little")
    if whole[12:16] == b"VP8X":
        whole[20] &= ~_EXIF_AND_XMP
    return bytes(whole)


def _number(content: bytes, at: int, size: int, order: Literal["big", "little"]) -> int:
    digits = content[at : at + size]
    if len(digits) < size:
        raise BrokenError("it is cut off")
    return int.from_bytes(digits, order)


_WALK: dict[Format, Callable[[bytes], Iterator[Part]]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "GIF": _gif,
    "WEBP": _webp,
}
