"""Reduce a comparison: leave out the rows that agree with their pets, part by part.

The remaining rows are few enough to be compared as a whole, with everything that a plan checks:
rows of the same pet, rows without an id, similar names, and pets in no row. A row that agrees with
its pet changes nothing, whatever the other rows are, unless one of them has its name or its photos.

A part is a pure function of its files, so it can be computed anywhere, and more than once.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from petsync.models import Category, Tag
from petsync.plan.fields import count_categories
from petsync.plan.match import names_among
from petsync.scale.parts import PartReader, read_part, read_rows
from petsync.sheets.grid import TextBytes
from petsync.sheets.headers import ACTION
from petsync.sheets.validate.text import MAX_PLACEHOLDER, are_placeholders
from petsync.table.arrow import SCHEMA, rows_from_table
from petsync.table.columns import LISTS
from petsync.table.dtypes import text_column
from petsync.table.lists import Items, TextSet, count_items, encode, flatten, pick
from petsync.table.sheet import FILE_ROWS, Sheet

__all__ = [
    "KEY",
    "ORDER",
    "ROW",
    "PartFiles",
    "Reduced",
    "Wanted",
    "are_equal",
    "are_wanted",
    "find_named",
    "reduce_part",
]

ROW = "petsync row"
"""The sheet's column with the number of the row, see FILE_ROWS."""
ORDER = "petsync order"
"""The sheet's column with the position of the row in its file, plus FILE_ROWS for each file before
it. Unlike ROW, it has no gaps within a file.
"""
KEY = "petsync id"
"""The sheet's column with the id as int64."""
_NO_NAMES = SCHEMA.empty_table().select(["id", "name", "photo_urls"])
"""An empty table with the columns by which `Wanted` finds a pet."""
_MAX_EXACT = 1 << 24
"""The number below which every float type represents all whole numbers."""
_KEPT_ACTIONS = ("", "merge", "update")
_PLAIN = {
    "name": r"^\pL[\pL -~]*$",
    "status": r"^\pL[\pL -~]*$",
    "category": r"^\pL[\pL -~]*$",
    "tags": r"^\pL+(?:[ .'-]?\pL+| [0-9]{1,9})*$",
    "photo_urls": r"^https?://[A-Za-z0-9._~/-]+$",
}
"""For each column the texts that have no finding, except those of `_NOT_PLAIN`."""
_NOT_PLAIN = (
    r"(?i:^(?:clear\PL*$|category\(|err:))|[\x{115F}\x{1160}\x{3164}\x{FFA0}]"
    r"|[À-ô][^\x00-\x7FÀ-ÿ]| $"
)
"""Markers, errors, invisible letters, and texts that may have been read in a wrong encoding."""
_PLAIN_LENGTH, _PLAIN_NUMBER = 255, 10**15
_SIMPLE_FIRST = string.ascii_letters.encode() + b"\xc3"
_NOT_SIMPLE = np.ones(256, dtype=bool)
"""All bytes except those of spaces, digits, letters up to U+00FF, and punctuation other than `(:`.
"""
_NOT_SIMPLE[[byte for byte in range(0x20, 0xC0) if byte not in b"(:\x7f\x97\xb7"]] = False
_NOT_SIMPLE[0xC3] = False
_HTTPS = "https://"
_URL_BYTES = (string.ascii_letters + string.digits + "._~/-").encode()
_SAMPLE = 1_000
"""The number of texts that show whether most texts of a column are repeated."""
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """The files of one part."""

    sheet: tuple[Path, ...]
    """The sheet's rows, in temporary files of `PartWriter`s."""
    in_place: tuple[tuple[int, Callable[[], pa.Table]], ...] = ()
    """The files of the sheet which have only rows of this part: ORDER before the first row, and a
    function that reads the file.
    """
    schema: pa.Schema
    """The columns of the sheet's rows."""
    columns: Mapping[str, str]
    """The sheet's column for each canonical column that it has."""
    store: tuple[Path, str]
    """The store's pets, with the SHA-256 of the file."""
    base: tuple[Path, str] | None = None
    """The pets at the export, None without a base."""
    validate: Callable[[pa.Table, frozenset[str]], Sheet] | None
    """Validates rows, given the known statuses, and returns them as a sheet with its findings.
    None if the rows were validated before.
    """
    has_rules: bool = False
    """Whether each row must be validated with all its columns, for the user's own rules."""
    most: int
    """The maximum number of rows that agree and have warnings, but are compared as a whole."""
    most_unnamed: int
    """The maximum number of pets in no row that are compared as a whole. If there are more, only
    those with something in common with a row are compared.
    """

    def read_sheet(self) -> pa.Table:
        """Return the sheet's rows. Raises SheetError if a file cannot be read, or was changed."""
        return pa.concat_tables([read_rows(self.sheet), *(read() for _, read in self.in_place)])

    def read_base(self, store: PartReader, pets: pa.Table) -> pa.Table:
        """Return the pets at the export, given those of the store. Raises SheetError if the file
        cannot be read, or was changed.
        """
        if self.base is None:
            return SCHEMA.empty_table()
        return PartReader(*self.base).read_beside(store, pets)

    def find_ids(self, rows: Collection[int]) -> pa.Array:
        """Return the ids of the rows with these values of ORDER. Raises SheetError as `read_sheet`
        does.
        """
        files = {row // FILE_ROWS for row in rows}
        near = [read() for first, read in self.in_place if first // FILE_ROWS in files]
        table = pa.concat_tables([read_rows(self.sheet), *near])
        return _combine(_select(table, ORDER, pa.array([*rows], pa.int64()))[KEY])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The pets that are compared as a whole, even if their rows agree with them."""

    names: TextSet = field(default_factory=TextSet)
    """Their names, as `normalize` returns them."""
    photos: TextSet = field(default_factory=TextSet)
    """Their photos."""
    ids: frozenset[int] = frozenset()
    """Their ids."""
    rows: frozenset[int] = frozenset()
    """Their rows, by ORDER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """What a part adds to the comparison as a whole."""

    rows: pa.Table
    """The sheet's rows."""
    pets: pa.Table
    """The store's pets."""
    base: pa.Table
    """The pets at the export."""
    renamed: pa.Table = field(default_factory=lambda: _NO_NAMES)
    """The other pets at the export that have another name or other photos in the store, with the
    columns of _NO_NAMES.
    """
    unnamed: int = 0
    """The number of the store's other pets that are in no row."""
    unexported: int = 0
    """How many of these the base lacks."""
    statuses: frozenset[str] = frozenset()
    """The statuses of the pets in the store and at the export."""
    categories: Counter[Category] = field(default_factory=Counter)
    """The categories with the number of the store's pets that have each."""
    tags: Counter[Tag] = field(default_factory=Counter)
    """The tags with the number of the store's pets that have each."""
    unlisted: int = 0
    """The number of rows that are left out although they have warnings."""


def reduce_part(files: PartFiles) -> Reduced:
    """Return the rows that do not agree with their pets or that have findings, and the pets of
    these rows. Also return the pets in no row, unless they are more than `files.most_unnamed`.

    Raises SheetError if a file cannot be read, or was changed.
    """
    rows = files.read_sheet()
    store = PartReader(*files.store)
    encoded = store.read_encoded()
    pets = encoded.cast(SCHEMA)
    base = files.read_base(store, pets)
    if not (len(rows) or len(pets) or len(base)):
        return Reduced(rows=rows, pets=pets, base=base)
    places = _positions(rows[KEY].to_numpy(), pets["id"].to_numpy())
    agrees = _find_agreeing(rows, pets, places, files)
    found, unlisted = _find_faulty(rows, encoded, places, agrees, files)
    agrees[found] = False
    is_named = _mark(places, len(pets))
    is_left = _mark(places[agrees], len(pets))
    if np.count_nonzero(~is_named) > files.most_unnamed:
        has_name = pc.not_equal(pc.utf8_trim_whitespace(_combine(pets["name"])), "")
        is_left |= ~is_named & np.array(has_name.fill_null(fill_value=False))
    exported = _positions(base["id"].to_numpy(), pets["id"].to_numpy())
    is_left_there = np.append(is_left, False)[exported]
    is_unnamed = is_left & ~is_named
    with_codes = pets.set_column(pets.column_names.index("tags"), "tags", encoded["tags"])
    return Reduced(
        rows=rows.filter(pa.array(~agrees)),
        pets=pets.filter(pa.array(~is_left)),
        base=base.filter(pa.array(~is_left_there)),
        renamed=_find_renamed(base, pets, exported, np.flatnonzero(is_left_there)),
        unnamed=int(is_unnamed.sum()),
        unexported=int((is_unnamed & ~_mark(exported, len(pets))).sum()),
        statuses=_find_statuses(encoded) | _find_statuses(base),
        categories=count_categories(*(_combine(encoded[n]) for n in ("category", "category_id"))),
        tags=count_items(rows_from_table(with_codes)["tags"].array),
        unlisted=unlisted,
    )


def _mark(places: npt.NDArray[np.intp], size: int) -> _Mask:
    """Return a mask of this size that is true at the places, except -1."""
    mask = np.zeros(size + 1, dtype=bool)
    mask[places] = True
    return mask[:-1]


def _find_statuses(pets: pa.Table) -> frozenset[str]:
    return frozenset(pc.unique(pets["status"]).drop_null().to_pylist())


def find_named(files: PartFiles, wanted: Wanted) -> Reduced:
    """Return the store's pets with a wanted id, name, photo or row, with their rows. Some of them
    may also be in the result of `reduce_part`.
    """
    ids = _find_wanted(files.store, wanted)
    if wanted.rows:
        ids = pa.concat_arrays([files.find_ids(wanted.rows), ids])
    rows, pets, base = files.schema.empty_table(), SCHEMA.empty_table(), SCHEMA.empty_table()
    if len(ids):
        rows = _select(files.read_sheet(), KEY, ids)
        store = PartReader(*files.store)
        now = store.read()
        pets, base = (_select(each, "id", ids) for each in (now, files.read_base(store, now)))
    return Reduced(rows=rows, pets=pets, base=base)


def _find_wanted(part: tuple[Path, str], wanted: Wanted) -> pa.Array:
    """Return the ids of the wanted pets in a file."""
    if not (wanted.names or wanted.photos or wanted.ids):
        return pa.array([], pa.int64())
    columns = _NO_NAMES.column_names if wanted.photos else _NO_NAMES.column_names[:2]
    pets = read_part(*part, columns=columns)
    return _combine(pets["id"].filter(pa.array(are_wanted(pets, wanted))))


def _select(table: pa.Table, column: str, ids: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table[column], value_set=ids))


def are_wanted(pets: pa.Table, wanted: Wanted) -> _Mask:
    """Return a mask of the pets with a wanted id, name or photo."""
    names = pd.Series(text_column(pets["name"]))
    mask = np.array(names_among(names, wanted.names))
    mask |= np.isin(pets["id"].to_numpy(), np.array([*wanted.ids], np.int64))
    if wanted.photos and len(pets):
        photos = Items(_combine(pets["photo_urls"]))
        mask |= photos.have_any(names_among(pd.Series(photos.texts), wanted.photos))
    return mask


def _find_renamed(
    base: pa.Table, pets: pa.Table, exported: npt.NDArray[np.intp], at: npt.NDArray[np.intp]
) -> pa.Table:
    """Return the pets at these positions of the base that have another name or photo in the store.
    `exported` has the position in the store of each pet of the base.
    """
    some = base.select(_NO_NAMES.column_names)
    if all(some[name].equals(pets[name]) for name in some.column_names):
        return _NO_NAMES
    near = exported[at]
    names, others = (_combine(each["name"]) for each in (some, pets))
    is_other = pc.not_equal(pick(names, at), pick(others, near)).fill_null(fill_value=True)
    photos, urls = (Items(_combine(each["photo_urls"])) for each in (some, pets))
    at = at[np.array(is_other) | photos.differ_at(at, urls, near)]
    return some.take(pa.array(at))


def _combine(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _find_agreeing(
    rows: pa.Table, pets: pa.Table, places: npt.NDArray[np.intp], files: PartFiles
) -> _Mask:
    """Return a mask of the rows in which each value is missing, or exactly the pet's. `places` has
    the position of each row's pet.
    """
    ids = rows[KEY].to_numpy()
    mask = places >= 0
    if (np.diff(ids) <= 0).any():
        mask &= ~pd.Series(ids).duplicated(keep=False).to_numpy()
    if (action := files.columns.get(ACTION)) is not None:
        mask &= _have_any(_combine(rows[action]), _KEPT_ACTIONS)
    at = np.flatnonzero(mask)
    near = places[at]
    for column, header in files.columns.items():
        if column not in ("id", ACTION) and len(at):
            cells, values = pick(_combine(rows[header]), at), pick(_combine(pets[column]), near)
            mask[at] &= are_equal(cells, values)
    return mask


def _find_faulty(
    rows: pa.Table,
    pets: pa.Table,
    places: npt.NDArray[np.intp],
    agrees: _Mask,
    files: PartFiles,
) -> tuple[npt.NDArray[np.intp], int]:
    """Return the positions of the rows that agree and have errors, and of the first ones that have
    warnings; and the number of the other rows with warnings. `places` has the position of each
    row's pet.
    """
    at = np.flatnonzero(agrees)
    if files.validate is None:
        return at[:0], 0
    headers = {*rows.column_names} - {ROW, ORDER, KEY}
    if not files.has_rules:
        near = places[at]
        odd = {column: _are_odd(pets, column)[near] for column in files.columns if column != ACTION}
        at = at[np.logical_or.reduce([*odd.values()])]
        headers = {files.columns[c] for c, mask in odd.items() if c == "id" or mask.any()}
    if not len(at):
        return at, 0
    cells = rows.select([*sorted(headers), ROW, ORDER, KEY]).take(pa.array(at))
    sheet = files.validate(cells, _find_statuses(pets))
    blocked = {*sheet.blocked}
    warned = {each.row for each in sheet.problems if each.row not in (sheet.header_row, *blocked)}
    kept = sorted(warned)[: files.most]
    is_kept = np.isin(rows[ROW].to_numpy()[at], [*blocked, *kept])
    return at[is_kept], len(warned) - len(kept)


def _are_odd(pets: pa.Table, column: str) -> _Mask:
    """Return a mask of the pets whose value may have a finding in a row. It must be validated,
    which takes longer.
    """
    cells = _combine(pets[column])
    if types.is_integer(cells.type):
        numbers = cells.fill_null(1).to_numpy()
        odd: _Mask = (numbers < (column == "id")) | (numbers >= _PLAIN_NUMBER)
        return odd
    if column in LISTS:
        lists = Items(cells)
        check = _are_odd_texts if column == "tags" else _are_odd_cells
        odd = lists.have_any(_check_distinct(flatten(cells), lambda texts: check(texts, column)))
        return odd | lists.have_repeated(is_folded=True)
    return _check_distinct(cells, lambda texts: _are_odd_cells(texts, column))


def _check_distinct(texts: pa.Array, are_odd: Callable[[pa.Array], _Mask]) -> _Mask:
    """Return a mask of the odd texts. If they are encoded, or most of them are repeated, each
    distinct text is checked once.
    """
    if not types.is_dictionary(texts.type):
        first = texts.slice(0, _SAMPLE)
        if 2 * pc.count_distinct(first).as_py() > len(first):
            return are_odd(texts)
    codes, words = encode(texts)
    found: _Mask = are_odd(words)[codes]
    return found


def _are_odd_cells(texts: pa.Array, column: str) -> _Mask:
    odd: _Mask = ~(_are_simple_urls(texts) if column == "photo_urls" else _are_simple(texts))
    odd[odd] = _are_odd_texts(texts.filter(pa.array(odd)), column)
    return odd


def _are_odd_texts(texts: pa.Array, column: str) -> _Mask:
    is_plain = pc.match_substring_regex(texts, _PLAIN[column])
    is_plain = pc.and_(is_plain, pc.less_equal(pc.utf8_length(texts), _PLAIN_LENGTH))
    # An address without special characters is none of the other texts.
    if column != "photo_urls":
        is_plain = pc.and_not(is_plain, pc.match_substring_regex(texts, _NOT_PLAIN))
        is_plain = pc.and_not(is_plain, pa.array(are_placeholders(texts), pa.bool_()))
    return ~np.array(pc.fill_null(is_plain, fill_value=True))


def _are_simple(texts: pa.Array) -> _Mask:
    """Return a mask of the names that have no finding, according to a quick check of their bytes:
    most names have only letters of western languages, digits and punctuation.
    """
    utf8 = TextBytes.of(texts)
    sizes = np.diff(utf8.offsets)
    mask: _Mask = utf8.start_with(_SIMPLE_FIRST) & ~utf8.end_with(b" ") & (sizes <= _PLAIN_LENGTH)
    mask[utf8.rows(utf8.places(lambda data: _NOT_SIMPLE[data]))] = False
    second = utf8.bytes_after(utf8.offsets[:-1])
    mask &= ~(utf8.start_with(b"cC") & ((second == ord("l")) | (second == ord("L"))))
    short = np.flatnonzero(mask & (sizes <= MAX_PLACEHOLDER))
    mask[short] = ~are_placeholders(texts.take(pa.array(short)))
    return mask


def _are_simple_urls(texts: pa.Array) -> _Mask:
    """Return a mask of the addresses that have no finding, according to a quick check of their
    bytes.
    """
    utf8 = TextBytes.of(texts)
    sizes = np.diff(utf8.offsets)
    is_https = np.array(pc.starts_with(texts, _HTTPS).fill_null(False))
    mask: _Mask = is_https | np.array(pc.starts_with(texts, "http://").fill_null(False))
    mask &= (sizes > len(_HTTPS)) & (sizes <= _PLAIN_LENGTH)
    others = utf8.find_others(_URL_BYTES)
    colons = utf8.offsets[:-1] + np.where(is_https, _HTTPS.index(":"), _HTTPS.index(":") - 1)
    if not np.array_equal(others, colons):
        mask[utf8.rows(np.setdiff1d(others, colons))] = False
    return mask


def _have_any(cells: pa.Array, texts: Sequence[str]) -> _Mask:
    """Return a mask of the cells that are missing or have one of the texts."""
    is_missing = np.array(cells.is_null())
    if not _is_text(cells.type):
        return is_missing
    values = cells.cast(pa.large_string())
    mask: _Mask = is_missing | np.array(pc.is_in(values, value_set=pa.array(texts, values.type)))
    return mask


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _positions(ids: npt.NDArray[np.int64], there: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the position of each id among ascending ids, -1 if it is not there."""
    if np.array_equal(ids, there):
        return np.arange(len(ids))
    places = np.searchsorted(there, ids)
    places[places == len(there)] = 0
    is_there = there[places] == ids if len(there) else np.zeros(len(ids), bool)
    found: npt.NDArray[np.intp] = np.where(is_there, places, -1)
    return found


def are_equal(cells: pa.Array, values: pa.Array) -> _Mask:
    """Return a mask of the cells that are missing, or have exactly the value and mean nothing
    else.
    """
    is_missing = np.array(cells.is_null())
    if types.is_null(cells.type):
        return is_missing
    if types.is_list(values.type) or types.is_large_list(values.type):
        if not (types.is_list(cells.type) or types.is_large_list(cells.type)):
            return is_missing
        item = cells.type.value_type
        if not (types.is_string(item) or types.is_large_string(item)) or cells.values.null_count:
            return is_missing
        lists = Items(cells.cast(pa.large_list(pa.large_string())))
        texts = flatten(lists.names)
        is_blank = np.array(pc.or_(pc.utf8_is_space(texts), pc.equal(texts, "")))
        differ = lists.differ(Items(values.cast(lists.names.type))) | lists.have_any(is_blank)
        return is_missing | ~differ
    if types.is_floating(cells.type) and types.is_integer(values.type):
        # pandas writes whole numbers as floats if one of them is missing.
        exact = pc.less(pc.abs(cells), _MAX_EXACT)
        same = pc.and_(exact, pc.equal(cells, values.cast(cells.type, safe=False)))
        are_same: _Mask = is_missing | np.array(pc.fill_null(same, fill_value=False))
        return are_same
    if types.is_integer(cells.type) != types.is_integer(values.type):
        return is_missing
    if types.is_large_string(values.type) and not _is_text(cells.type):
        return is_missing
    try:
        same = pc.equal(cells.cast(values.type), values)
    except pa.ArrowInvalid:
        return is_missing
    if types.is_large_string(values.type):
        # A text such as one that empties a field may mean something else in a sheet.
        utf8 = TextBytes.of(values)
        same = pc.and_(same, pa.array(~utf8.start_with(b"[{") & ~utf8.is_empty))
    mask: _Mask = is_missing | np.array(pc.fill_null(same, fill_value=False))
    return mask
