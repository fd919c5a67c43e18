"""Contents of an exported workbook, before it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SheetError
from petsync.models import Tag, as_tag
from petsync.plan.fields import ids_by_name, normalize
from petsync.sheets.headers import ACTION
from petsync.sheets.validate.findings import escaped_list
from petsync.table.arrow import TAG_IDS, frame_from_table
from petsync.table.base import Base
from petsync.table.cells import (
    escape_marker,
    format_photo_urls,
    format_tags,
    marker_core,
    marker_word,
)
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import plain_values
from petsync.table.lists import Items, as_items, encode_pairs, find_bounds, flatten, join_items

__all__ = [
    "GUIDE",
    "OUT",
    "Contents",
    "cell_columns",
    "cell_texts",
    "drop_clear_ids",
    "find_plain",
    "replace_texts",
]


# A table's rows as the texts of cells.


OUT = (*COLUMNS, ACTION)
"""The columns of a sheet that is written, in their order."""


def cell_texts(
    frame: pd.DataFrame,
    *,
    marker: str,
    empty: str = "",
    separator: Literal["\n", " | "] = "\n",
) -> list[list[str]]:
    """Return the columns of OUT, each a list with a text for each row, "" for a missing value.

    An empty text or list is written as `empty`. Raises SheetError if an id is not an integer.
    """
    return [_format_values(name, _values(frame, name), marker, empty, separator) for name in OUT]


def _format_values(
    name: str, values: Iterable[Any], marker: str, empty: str, separator: Literal["\n", " | "]
) -> list[str]:
    """Return the texts of a column's values, which are None where a value is missing."""
    addresses = partial(format_photo_urls, separator=separator)
    forms: dict[str, Callable[[Any], str]] = {
        "id": _number,
        "category": lambda value: marker if value == CLEARED else escape_marker(str(value), marker),
        "category_id": _number,
        "tags": _unless_text(lambda value: escaped_list(_tags, value, "; ", marker)),
        "photo_urls": _unless_text(lambda value: escaped_list(addresses, value, separator, marker)),
        ACTION: lambda value: "" if value == "merge" else str(value),
    }
    form = forms.get(name, lambda value: escape_marker(str(value), marker))
    return [
        "" if value is None else form(value) if value == 0 or value else empty for value in values
    ]


def _unless_text(form: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that returns a text unchanged: in a DataFrame, it stands for a list."""
    return lambda value: value if isinstance(value, str) else form(value)


def cell_columns(
    table: pa.Table, *, marker: str, separator: Literal["\n", " | "] = "\n"
) -> list[pa.LargeStringArray]:
    """Return the texts that `cell_texts` returns for the table's DataFrame. Only the cells that may
    need quotes or an escape become Python objects.
    """
    return [*_iter_columns(table.combine_chunks(), marker, separator)]


def drop_clear_ids(table: pa.Table) -> pa.Table:
    """Return the table without the ids of tags that their names identify: no other tag in the table
    has the name and another id, and no other tag of the pet has the name.
    """
    tags = Items(*(table[name].combine_chunks() for name in ("tags", TAG_IDS)))
    codes, pairs = encode_pairs(flatten(tags.names), flatten(tags.ids))
    forms = [normalize(name) for name, _ in pairs]
    numbers = ids_by_name(pairs)
    is_named = [bool(form) and len(numbers[form]) < 2 for form in forms]
    is_clear = np.array(is_named, dtype=bool)[codes]
    # Several pairs of a name, of which one at most has an id, may be in one pet.
    distinct = {(form, number) for form, (_, number) in zip(forms, pairs, strict=True)}
    uses = Counter(form for form, _ in distinct)
    is_shared = [named and uses[form] > 1 for form, named in zip(forms, is_named, strict=True)]
    if any(is_shared):
        owners = np.repeat(np.arange(len(tags)), np.diff(tags.bounds()))
        form_codes = pd.factorize(np.array(forms, dtype=object))[0][codes]
        keys = pd.Series(owners * len(forms) + form_codes)
        is_clear &= ~(keys.duplicated(keep=False).to_numpy() & np.array(is_shared)[codes])
    ids = pc.if_else(pa.array(is_clear), pa.scalar(None, pa.int64()), flatten(tags.ids))
    lists = pa.LargeListArray.from_arrays(
        pa.array(tags.bounds()), ids, mask=pa.array(tags.are_missing())
    )
    return table.set_column(table.schema.get_field_index(TAG_IDS), TAG_IDS, lists)


def _iter_columns(
    table: pa.Table, marker: str, separator: Literal["\n", " | "]
) -> Iterator[pa.LargeStringArray]:
    def careful(name: str, rows: Positions) -> list[str]:
        if name == "tags":
            values = _values(frame_from_table(table.take(rows)), name)
        else:
            values = table[name].take(rows).to_pylist()
        return _format_values(name, values, marker, "", separator)

    # `_are_plain` finds only the default marker.
    is_known = marker in ("", CLEAR)
    for name in OUT:
        if name == ACTION:
            yield pa.array([""] * len(table), _TEXT)
            continue
        column = table[name].combine_chunks()
        if pa.types.is_integer(column.type):
            yield column.cast(_TEXT).fill_null("")
            continue
        if name == "tags":
            texts, is_plain = find_plain(column, table[TAG_IDS].combine_chunks())
        else:
            texts, is_plain = find_plain(column, separator=separator)
        rows = np.flatnonzero(~is_plain if is_known else np.ones(len(table), dtype=bool))
        texts = texts.fill_null("")
        if len(rows):
            texts = replace_texts(texts, rows, careful(name, rows))
        yield texts


def replace_texts(
    texts: pa.LargeStringArray, rows: Positions, others: Sequence[str]
) -> pa.LargeStringArray:
    """Return the texts, with `others` at the positions `rows`."""
    mask = np.zeros(len(texts), dtype=bool)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(others, _TEXT))


# A cell is plain if it needs no quotes and no escape, and is not the marker. These patterns match
# only the usual plain cells.
_LETTERS = (
    r"A-Za-z0-9\x{c0}-\x{24f}\x{370}-\x{3ff}\x{400}-\x{52f}\x{3041}-\x{30ff}"
    r"\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}"
)
_CLEAR_WORD = marker_word(marker_core(CLEAR))
_PLAIN_TEXT = rf"^[{_LETTERS}]"
_PLAIN_TAG = rf"^[{_LETTERS}](?:[{_LETTERS} _.!?%+/*'-]*[{_LETTERS}_.!?%+/*-])?$"
_PLAIN_URL = (
    r"^https?://[A-Za-z0-9.-]+(?::[0-9]+)?"
    r"(?:/(?:[A-Za-z0-9._~%?=&+@!$*()/-]*[A-Za-z0-9.~%?=&+@!$*()/-])?)?$"
)
_TEXTS = ("name", "status", "category")
_TEXT = pa.large_string()
Positions = npt.NDArray[np.intp]


def _are_plain(texts: pa.LargeStringArray, pattern: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts that match the pattern and contain neither the marker's word nor
    part of an escaped line break. A missing text is plain in a column, but not in a list.
    """
    is_special = pc.match_substring_regex(texts, rf"{_CLEAR_WORD}|_x000", ignore_case=True)
    is_plain = pc.and_not(pc.match_substring_regex(texts, pattern), is_special)
    return np.array(is_plain.fill_null(pattern == _PLAIN_TEXT), dtype=bool)


def _are_all(column: pa.LargeListArray, is_plain: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a mask of the lists all of whose items are plain."""
    odd = np.concatenate([[0], np.cumsum(~is_plain)])
    is_all: npt.NDArray[np.bool_] = np.diff(odd[find_bounds(column)]) == 0
    return is_all


def find_plain(
    values: pa.LargeStringArray | pa.LargeListArray,
    ids: pa.LargeListArray | None = None,
    separator: str = "; ",
) -> tuple[pa.LargeStringArray, npt.NDArray[np.bool_]]:
    """Return the text of the cell of each value, and a mask of the values for which it is certain.
    The values are texts, or lists: of names of tags, which may have `ids`, or of photo URLs.
    """
    if not pa.types.is_large_list(values.type):
        return values, _are_plain(values, _PLAIN_TEXT)
    items = pc.list_flatten(values)
    is_plain = _are_plain(items, _PLAIN_TAG if separator == "; " else _PLAIN_URL)
    if ids is not None:
        numbers = pc.list_flatten(ids).cast(_TEXT)
        items = pc.coalesce(
            pc.binary_join_element_wise(numbers, items, pa.scalar(":", _TEXT)), items
        )
    return join_items(values, items.fill_null(""), separator), _are_all(values, is_plain)


def _values(frame: pd.DataFrame, name: str) -> Sequence[Any]:
    if name not in frame:
        return [None] * len(frame)
    values = plain_values(frame[name].array)
    return [as_items(each) if isinstance(each, np.ndarray) else each for each in values]


def _number(value: Any) -> str:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value:
        raise SheetError(
            f"the table has the id {value!r}, which is not a whole number",
            hint="Correct it. If ids are texts, convert their column, such as "
            "frame['id'] = frame['id'].astype('Int64').",
        )
    return str(number)


def _tags(tags: Iterable[Tag | str]) -> str:
    return format_tags(map(as_tag, tags))


# Contents: the values of a workbook, before it is formatted.


GUIDE = "How to use this sheet"
"""The name of the worksheet with instructions that an export adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The values of a workbook."""

    columns: Sequence[Sequence[str]]
    """The texts of the columns of OUT, all of the same length."""
    tab: str
    """The worksheet's name."""
    file: str
    """The workbook's file name."""
    statuses: Sequence[str] = ()
    """The usual statuses."""
    clear: str = ""
    """The marker that empties a field."""
    base: Base | None = None
    """The base that is written into the workbook; None for no base."""
    exact: bool = True
    """Whether the workbook also has the exact texts of cells that LibreOffice would change."""

    @property
    def rows(self) -> int:
        """The number of rows below the header."""
        return len(self.columns[0])

    @property
    def by_name(self) -> Mapping[str, Sequence[str]]:
        """The texts by their column's name."""
        return dict(zip(OUT, self.columns, strict=True))
