"""A worksheet's `cols` with other widths for some columns; what it says of the others stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from petsync.sheets.ooxml.outline import Element, whole

__all__ = ["widened"]

_Columns = dict[str, str]


def widened(root: Element, widths: Mapping[int, float]) -> list[_Columns]:
    """The attributes of each `col`, in order, with these widths by column from 0.

    A range that covers some of the columns is taken apart; these are shown if they were hidden.
    """
    columns = [dict(each.attributes) for each in root.all("cols", "col")]
    for column, width in sorted(widths.items()):
        number = column + 1
        before = next((each for each in columns if _covers(each, number)), {})
        columns = [part for each in columns for part in _around(each, number)]
        kept = {key: value for key, value in before.items() if key not in ("hidden", "collapsed")}
        new = {"min": str(number), "max": str(number), "width": f"{width:g}", "customWidth": "1"}
        columns.append({**kept, **new})
    return sorted(columns, key=lambda each: _ends(each)[0])


def _around(columns: _Columns, number: int) -> Iterator[_Columns]:
    """What is left of a range without one of its columns."""
    if not _covers(columns, number):
        yield columns
        return
    first, last = _ends(columns)
    if first < number:
        yield {**columns, "max": str(number - 1)}
    if number < last:
        yield {**columns, "min": str(number + 1)}


def _covers(columns: Mapping[str, str], number: int) -> bool:
    first, last = _ends(columns)
    return first <= number <= last


def _ends(columns: Mapping[str, str]) -> tuple[int, int]:
    """The first column and the last one, from 1."""
    return whole(columns.get("min", "")) or 0, whole(columns.get("max", "")) or 0
