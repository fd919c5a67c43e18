"""A large worksheet as two smaller ones, which two cores take apart at the same time."""

from __future__ import annotations

__all__ = ["halves"]

_TABLE, _ROW, _END = b"<sheetData", b"<row ", b"</sheetData>"


def halves(data: bytes, least: int) -> tuple[bytes, ...]:
    """The worksheet's part, or two with the first and the other half of its rows where it has
    `least` bytes and there is no doubt where a row begins.

    Each cell has to name its place, as `extent` makes sure, for the second half does not begin in
    the first row.
    """
    # What looks like a tag in a comment or in CDATA is none.
    if len(data) < least or (b"!" in data and b"<!" in data):
        return (data,)
    first, end = data.find(_ROW, data.find(_TABLE)), data.rfind(_END)
    middle = data.find(_ROW, (first + end) // 2, end)
    if not 0 < first < middle:
        return (data,)
    return data[:middle] + data[end:], data[:first] + data[middle:]
