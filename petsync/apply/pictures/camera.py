"""What a camera wrote into an image about how it was held, read without trusting any of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Orientation", "orientation"]

_TAG, _SHORT = 0x0112, 3
_MOST = 1_000


class Orientation(NamedTuple):
    """`value` from 1 (upright) to 8, and where it stands in the data."""

    value: int
    at: int
    order: Literal["big", "little"]

    def upright(self, exif: bytes) -> bytes:
        """The data with the value 1."""
        return exif[: self.at] + (1).to_bytes(2, self.order) + exif[self.at + 2 :]


def orientation(exif: bytes) -> Orientation | None:
    """How the camera was held, by the first directory of a TIFF structure; None where that does
    not say it, or cannot be read.
    """
    order: Literal["big", "little"] = "little" if exif[:2] == b"II" else "big"
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return None

    def number(at: int, size: int) -> int:
        return int.from_bytes(exif[at : at + size], order)

    start = number(4, 4)
    for entry in range(min(number(start, 2), _MOST)):
        at = start + 2 + 12 * entry
        if at + 12 > len(exif):
            return None
        if number(at, 2) == _TAG:
            value = number(at + 8, 2)
            is_said = number(at + 2, 2) == _SHORT and number(at + 4, 4) == 1 and 1 <= value <= 8
            return Orientation(value, at + 8, order) if is_said else None
    return None
