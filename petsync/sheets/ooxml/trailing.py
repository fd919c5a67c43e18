"""The rows at a worksheet's end that are only formatted: programs leave hundreds of thousands."""

from __future__ import annotations

__all__ = ["without_trailing"]

_FEW = 4096


def without_trailing(data: bytes) -> bytes:
    """A worksheet's part without the rows behind the last cell that has content.

    Nobody who reads the sheet has to walk past them then. A part in which anything else than
    formatted cells stands there, or that is written in an unusual way, is returned as it is.
    """
    # A cell without content is its own end (`<c/>`), so that this is where the last other one ends.
    last = data.rfind(b"</c>")
    end = data.find(b"</sheetData>", last)
    cut = data.find(b"</row>", last, end) + len(b"</row>")
    if last < 0 or end - cut < _FEW or cut < last:
        return data
    blank = sum(data.count(tag, cut, end) for tag in (b"<c ", b"<row ", b"</row>"))
    return data[:cut] + data[end:] if data.count(b"<", cut, end) == blank else data
