"""Match rows with pets, merge a row's values into its pet, and align a sheet with the store and the
base.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.models import Category, Pet
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    Vocabulary,
    differing_columns,
    fold_status,
    has_value,
    key,
    known_id,
    normalize,
    pair_rows,
    resolve_photos,
    resolve_tags,
    same_photos,
    same_tags,
    tag_names,
    unit_key,
    with_unknown_fields,
)
from petsync.table.base import Base
from petsync.table.columns import ADDING, CLEARED, COLUMNS, LISTS, Column
from petsync.table.frame import (
    FEW,
    Mask,
    has_action,
    lacks_id,
    pets_at,
    plain_values,
    select,
    unique_texts,
    values_at,
)
from petsync.table.lists import (
    Items,
    ListArray,
    TextSet,
    blocks,
    count_items,
    pick,
    without_names,
)
from petsync.table.sheet import Sheet

__all__ = [
    "Alignment",
    "Candidates",
    "Mask",
    "Positions",
    "Row",
    "RowValues",
    "any_unit",
    "apply_unit",
    "build_pet",
    "clears",
    "differences",
    "edited_units",
    "find_absent_ids",
    "find_different_units",
    "find_kinds",
    "find_positions",
    "find_unproved_ids",
    "folded_among",
    "folded_forms",
    "has_contradiction",
    "has_unknown_names",
    "is_nameless_category",
    "iter_rows",
    "key_of",
    "mask_named",
    "merge_row",
    "names_among",
    "pet_of",
    "pets_of",
    "positions",
    "positions_of",
    "without_units",
]


# Match rows with the pets of the snapshot, and find the units in which they may differ.
#
# In large frames, both are operations on whole columns, and only cells that are not obviously equal
# are compared one by one.


Positions = npt.NDArray[np.intp]
_Array = pd.api.extensions.ExtensionArray

_SPARSE = 4
"""The average distance between ids above which no table of all numbers between them is made."""


def positions(ids: _Array, pets: pd.DataFrame) -> Positions:
    """Return the position in `pets` of each id, -1 if the id is missing or no pet has it."""
    if len(ids) <= FEW and len(pets) <= FEW:
        at = {each: n for n, each in enumerate(plain_values(pets["id"].array))}
        return np.array(
            [-1 if each is None else at.get(each, -1) for each in plain_values(ids)], np.intp
        )
    known = pets["id"].array.to_numpy(dtype=np.int64)
    has_id = ~ids.isna()
    if has_id.all():
        return find_positions(ids.to_numpy(dtype=np.int64), known)
    found = np.full(len(ids), -1, dtype=np.intp)
    found[has_id] = find_positions(ids[has_id].to_numpy(dtype=np.int64), known)
    return found


def find_unproved_ids(rows: pd.DataFrame, pets: pd.DataFrame) -> list[int]:
    """Return the ids in the rows that the snapshot lacks: only getPetById shows if their pets
    exist. Rows with the action `ignore` are left out.
    """
    if "id" not in rows:
        return []
    ids = rows["id"].array
    lacking = (positions(ids, pets) < 0) & ~lacks_id(rows)
    if not lacking.any():
        return []
    lacking[lacking] = ~has_action(rows, "ignore", at=lacking)
    return [*dict.fromkeys(plain_values(ids[lacking]))]


def positions_of(ids: Collection[int], pets: pd.DataFrame) -> Positions:
    """Return the position in `pets` of each id, -1 if no pet has it."""
    if not ids:
        return np.empty(0, dtype=np.intp)
    known = pets["id"].array.to_numpy(dtype=np.int64)
    return find_positions(np.fromiter(ids, np.int64, len(ids)), known)


def mask_named(places: Positions, ids: Collection[int], pets: pd.DataFrame) -> Mask:
    """Return a mask of the pets at these places or with these ids."""
    named = np.zeros(len(pets), dtype=bool)
    for some in (places, positions_of(ids, pets)):
        named[some[some >= 0]] = True
    return named


def find_absent_ids(ids: Iterable[int], pets: pd.DataFrame) -> list[int]:
    """Return the ids that no pet has, without duplicates."""
    unique = list(dict.fromkeys(ids))
    places = positions_of(unique, pets).tolist()
    return [identity for identity, place in zip(unique, places, strict=True) if place < 0]


def differences(
    rows: pd.DataFrame, at: Positions, pets: pd.DataFrame, places: Positions
) -> dict[Unit, Mask]:
    """Return, by unit, a mask of the rows `at` that differ from the pets at the `places`.

    The two arrays have the same length. The result is exact for all units except the category,
    whose name and id may contradict each other.
    """
    if not len(at):
        return {unit: np.zeros(0, dtype=bool) for unit in UNITS}
    is_few = len(rows) <= FEW and len(pets) <= FEW
    result: dict[Unit, Mask] = {}
    for unit in UNITS:
        masks = [
            (_COMPARE[column].mask_few if is_few else _COMPARE[column].mask)(
                rows[column].array, at, pets[column].array, places
            )
            for column in COLUMNS_OF[unit]
            if column in rows
        ]
        result[unit] = np.logical_or.reduce(masks) if masks else np.zeros(len(at), dtype=bool)
    return result


def find_different_units(
    one: pd.DataFrame, at: Positions, other: pd.DataFrame, places: Positions
) -> dict[Unit, Mask]:
    """Return, by unit, a mask of the pets that differ; a value also differs from a missing
    value.
    """
    masks = differences(one, at, other, places)
    back = differences(other, places, one, at)
    return {unit: masks[unit] | back[unit] for unit in UNITS}


def find_kinds(
    one: pd.DataFrame, at: Positions, other: pd.DataFrame, places: Positions, unit: Unit
) -> tuple[Positions, Positions]:
    """Return a number for each pair of pets, the same for pairs that have the same values in the
    unit; and the position of the first pair with each number.
    """
    sides = (one, at), (other, places)
    return _number_rows(
        _encode(frame[column].array, rows, column)
        for frame, rows in sides
        for column in COLUMNS_OF[unit]
        if column in frame
    )


def edited_units(rows: pd.DataFrame, at: Positions, base: Base) -> dict[Unit, Mask]:
    """Return, by unit, a mask of the rows `at` that differ from the sheet's last values in the
    base. A row whose pet the base lacks differs in every unit.
    """
    frame = base.sheet_rows
    places = positions(rows["id"].array.take(at), frame)
    there = places >= 0
    result = dict[Unit, Mask]()
    for unit, mask in differences(rows, at[there], frame, places[there]).items():
        result[unit] = ~there
        result[unit][there] = mask
    return result


def any_unit(masks: Mapping[Unit, Mask]) -> Mask:
    """Return a mask of the rows that are in the mask of at least one unit."""
    mask: Mask = np.logical_or.reduce([*masks.values()])
    return mask


def find_positions(ids: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> Positions:
    """Return the position in `known`, whose ids are unique, of each id; -1 if it is not there."""
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if high - low > _SPARSE * len(known):
        if not all((each[1:] > each[:-1]).all() for each in (ids, known)):
            return pd.Index(known).get_indexer(pd.Index(ids))
        found = np.searchsorted(known, ids)
        found[found == len(known)] = 0
        return np.where(known[found] == ids, found, -1)
    # A service assigns ids close together. The table covers the lowest to the highest id, and its
    # last place is for all other ids.
    places = np.full(high - low + 2, -1, dtype=np.intp)
    for part in blocks(len(known)):
        places[known[part] - low] = np.arange(part.start, min(part.stop, len(known)))
    found = np.empty(len(ids), dtype=np.intp)
    for part in blocks(len(ids)):
        # Without a sign, an id below the lowest is above the highest, too.
        at = np.minimum((ids[part] - low).view(np.uint64), np.uint64(high - low + 1))
        found[part] = places[at.view(np.int64)]
    return found


class _Comparison(NamedTuple):
    """How the cells of a column are compared with the pets' values."""

    differs: Callable[[Any, Any], bool]
    """Compares a cell with a value; None for a blank cell and for no value."""
    mask: Callable[[_Array, Positions, _Array, Positions], Mask]
    """Compares the cells at these positions with the values at these places."""

    def mask_few(self, cells: _Array, at: Positions, old: _Array, places: Positions) -> Mask:
        """Return what `mask` returns, from single comparisons."""
        new, before = plain_values(cells), plain_values(old)
        pairs = zip(at.tolist(), places.tolist(), strict=True)
        return np.array([self.differs(new[row], before[place]) for row, place in pairs], dtype=bool)


def _compare_texts(meaning: Callable[[str | None], str], *, clears: bool = False) -> _Comparison:
    def differs(one: str | None, other: str | None) -> bool:
        if one is None or one == other:
            return False
        return meaning(one) != meaning(other) or (clears and not meaning(one))

    def mask(cells: _Array, at: Positions, old: _Array, places: Positions) -> Mask:
        left, right = _arrow(cells), _arrow(old)
        result = np.zeros(len(at), dtype=bool)
        for part in blocks(len(at)):
            mine = pick(left, at[part])
            unequal = pc.not_equal(mine, pick(right, places[part]))
            if unequal.null_count:
                unequal = pc.and_(mine.is_valid(), pc.fill_null(unequal, fill_value=True))
            result[part] = unequal.to_numpy(zero_copy_only=False)
        where = np.flatnonzero(result)
        if not len(where):
            return result
        pairs = zip(
            left.take(pa.array(at[where])).to_pylist(),
            right.take(pa.array(places[where])).to_pylist(),
            strict=True,
        )
        result[where] = [differs(one, other) for one, other in pairs]
        return result

    return _Comparison(differs, mask)


def _compare_numbers() -> _Comparison:
    # The category id 0 means no id. A row without this id does not change the pet's.
    def differs(one: int | None, other: int | None) -> bool:
        return bool(one) and one != other

    def mask(cells: _Array, at: Positions, old: _Array, places: Positions) -> Mask:
        left = cells.to_numpy(dtype=np.int64, na_value=0)
        right = old.to_numpy(dtype=np.int64, na_value=0)
        result = np.zeros(len(at), dtype=bool)
        for part in blocks(len(at)):
            mine = left[at[part]]
            result[part] = (mine != 0) & (mine != right[places[part]])
        return result

    return _Comparison(differs, mask)


def _compare_lists(same: Callable[[Any, Any], bool], *, has_ids: bool) -> _Comparison:
    def differs(one: Any, other: Any) -> bool:
        return isinstance(one, list) and one != other and not same(one, other or ())

    def mask(cells: _Array, at: Positions, old: _Array, places: Positions) -> Mask:
        left, at = _items_at(cells, at, has_ids)
        right, places = _items_at(old, places, has_ids)
        result = left.differ_at(at, right, places, is_any_id=True)
        some = np.flatnonzero(result)
        mine, theirs = left.take(at[some]), right.take(places[some])
        # Many pets have the same tags, so each pair of lists is compared only once.
        pairs, first = _number_rows([2 * mine.encode() + mine.are_missing(), theirs.encode()])
        lists = zip(mine.take(first).to_lists(), theirs.take(first).to_lists(), strict=True)
        differ = [one is not None and not same(one, other or ()) for one, other in lists]
        result[some] = np.array(differ, dtype=bool)[pairs]
        return result

    return _Comparison(differs, mask)


def _number_rows(columns: Iterable[npt.NDArray[np.int64]]) -> tuple[Positions, Positions]:
    """Return a number for each row of these columns, the same for equal rows; and the position of
    the first row with each number.
    """
    kinds: Positions = np.zeros(0, dtype=np.intp)
    for n, codes in enumerate(columns):
        joined = kinds * (int(codes.max(initial=0)) + 1) + codes if n else codes
        kinds, _ = pd.factorize(joined)
    first = np.zeros(int(kinds.max(initial=-1)) + 1, dtype=np.intp)
    first[kinds[::-1]] = np.arange(len(kinds))[::-1]
    return kinds, first


def _items_at(column: _Array, at: Positions, has_ids: bool) -> tuple[Items, Positions]:
    """Return the items of a column of lists, at least those `at` these positions; and the positions
    of these lists in the result.
    """
    if isinstance(column, ListArray):
        return column.items, at
    lists = _list_values(column.take(at))
    return Items.of(lists, has_ids=has_ids), np.arange(len(at))


def _encode(values: _Array, at: Positions, column: Column) -> npt.NDArray[np.int64]:
    """Return a number for each value of a column at these positions, the same for equal values."""
    if column in LISTS:
        items, places = _items_at(values, at, has_ids=column == "tags")
        return items.take(places).encode()
    codes: Positions = pd.factorize(np.asarray(values.take(at)))[0]
    return codes + 1


def _arrow(texts: _Array) -> Any:
    array = pa.array(texts, from_pandas=True)
    return array.cast(pa.large_string()) if array.type != pa.large_string() else array


_COMPARE: Mapping[Column, _Comparison] = {
    "name": _compare_texts(normalize),
    "status": _compare_texts(fold_status),
    "category": _compare_texts(normalize, clears=True),
    "category_id": _compare_numbers(),
    "tags": _compare_lists(same_tags, has_ids=True),
    "photo_urls": _compare_lists(same_photos, has_ids=False),
}


# Pets of a frame, by id.


def pets_of(ids: Iterable[int], frame: pd.DataFrame) -> tuple[Pet, ...]:
    """Return the pets with these ids in the frame, each once."""
    unique = dict.fromkeys(ids)
    if not unique:
        return ()
    places = positions_of(unique, frame)
    return tuple(pets_at(frame, places[places >= 0]))


def pet_of(pet_id: int, frame: pd.DataFrame) -> Pet | None:
    """Return the pet with this id, or None if the frame lacks it."""
    return next(iter(pets_of((pet_id,), frame)), None)


# Merge a row's values into a pet. Fields that the row does not name keep their value.


RowValues = Mapping[Column, Any]


def merge_row(pet: Pet, values: RowValues, vocabulary: Vocabulary) -> Pet:
    """Return the pet with the row's values.

    A value of the pet is kept if the row's value is equivalent to it.
    """
    new = {
        unit: _MERGE[unit](getattr(pet, unit), values, vocabulary)
        for unit in UNITS
        if has_value(values, unit)
    }
    return msgspec.structs.replace(pet, **new) if new else pet


def build_pet(values: RowValues) -> Pet:
    """Return a pet with only the row's values."""
    name = values.get("category")
    return Pet(
        name=values.get("name"),
        status=values.get("status"),
        category=Category(values.get("category_id"), "" if name == CLEARED else name),
        tags=tuple(values.get("tags") or ()),
        photo_urls=tuple(values.get("photo_urls") or ()),
    )


def apply_unit(pet: Pet, unit: Unit, values: RowValues, vocabulary: Vocabulary) -> Pet:
    """Return the pet with the row's values of one unit."""
    old = getattr(pet, unit)
    new = _MERGE[unit](old, values, vocabulary)
    return pet if new is old else msgspec.structs.replace(pet, **{unit: new})


def clears(values: RowValues, old: Category | None) -> bool:
    """Return true if a row removes the category.

    CLEARED removes it. An empty name removes it too, unless the old category has exactly this name
    and the row gives no other id.
    """
    name = values.get("category")
    if name is None or normalize(name):
        return False
    if name == CLEARED or old is None or old.name != name:
        return True
    return known_id(values.get("category_id")) not in (None, known_id(old.id))


def has_contradiction(values: RowValues, vocabulary: Vocabulary) -> bool:
    """Return true if a row's category name and id contradict each other: the store has a category
    with this name or this id, but none with both.

    Users often change a category's name and leave the id beside it, so the name counts.
    """
    name, number = values.get("category") or "", known_id(values.get("category_id"))
    if number is None or name in ("", CLEARED):
        return False
    named = vocabulary.category_named(name)
    if (named is not None and named.id == number) or not normalize(name):
        return False
    if vocabulary.knows(Category(number, name)):
        return False
    return bool(named or vocabulary.category_numbered(number))


def is_nameless_category(old: Category | None, values: RowValues, vocabulary: Vocabulary) -> bool:
    """Return true if a row gives only the id of a category, and no pet has a category with this
    id.
    """
    number = known_id(values.get("category_id"))
    if number is None or "category" in values or (old is not None and old.id == number):
        return False
    return vocabulary.category_numbered(number) is None


def has_unknown_names(sheet: Sheet, vocabulary: Vocabulary) -> bool:
    """Return true if a row names a category or a tag that the vocabulary lacks."""
    frame = sheet.rows
    frame = select(frame, ~has_action(frame, "ignore"))
    if "category" in frame:
        names = {normalize(name) for name in unique_texts(frame, "category") if name != CLEARED}
        if any(vocabulary.category_named(name) is None for name in names - {""}):
            return True
    if "category_id" in frame:
        numbers = map(known_id, frame["category_id"].dropna().unique().tolist())
        if any(n is not None and vocabulary.category_numbered(n) is None for n in numbers):
            return True
    if "tags" not in frame:
        return False
    return any(
        vocabulary.tag_numbered(tag.id or 0) is None
        if not tag.name
        else tag.id is None and vocabulary.tag_named(tag.name) is None
        for tag in count_items(frame["tags"].array)
    )


def _name(old: str | None, values: RowValues, _: Vocabulary) -> Any:
    name = values["name"]
    return old if name == old or normalize(name) == normalize(old) else name


def _status(old: str | None, values: RowValues, _: Vocabulary) -> Any:
    return old if fold_status(values["status"]) == fold_status(old) else values["status"] or None


def _tags(old: Any, values: RowValues, vocabulary: Vocabulary) -> Any:
    return resolve_tags(old, values["tags"], vocabulary)


def _photos(old: Any, values: RowValues, _: Vocabulary) -> Any:
    return resolve_photos(old, values["photo_urls"])


def _category(old: Category | None, values: RowValues, vocabulary: Vocabulary) -> Category | None:
    new = _resolve_category(old, values, vocabulary)
    return new if new is None or old is None else with_unknown_fields(new, old)


def _resolve_category(
    old: Category | None, values: RowValues, vocabulary: Vocabulary
) -> Category | None:
    name, number = values.get("category"), known_id(values.get("category_id"))
    if clears(values, old):
        return None
    if name is None or not normalize(name):
        return _resolve_category_id(old, number, vocabulary)
    if old is not None and (known_id(old.id), normalize(old.name)) == (number, normalize(name)):
        return old
    if number is None or has_contradiction(values, vocabulary):
        return _resolve_category_name(old, name, vocabulary)
    return Category(number, name)


def _resolve_category_id(
    old: Category | None, number: int | None, vocabulary: Vocabulary
) -> Category | None:
    if number is None or (old is not None and old.id == number):
        return old
    return vocabulary.category_numbered(number) or Category(number)


def _resolve_category_name(old: Category | None, name: str, vocabulary: Vocabulary) -> Category:
    if old is not None and normalize(old.name) == normalize(name):
        return old
    return vocabulary.category_named(name) or Category(None, name)


_MERGE: Mapping[Unit, Callable[[Any, RowValues, Vocabulary], Any]] = {
    "name": _name,
    "status": _status,
    "category": _category,
    "tags": _tags,
    "photo_urls": _photos,
}


# The rows of a sheet, one by one, for a detailed comparison.


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row of a sheet."""

    number: int
    """The row's number in the sheet."""
    action: str
    """The action in the row's action column."""
    pet_id: int | None
    """The id in the row, None if it has none."""
    values: RowValues
    """The row's values by column, without blank cells."""
    place: int
    """The position of the row's pet in the snapshot, -1 for none."""
    units: tuple[Unit, ...] = UNITS
    """The units in which the row may differ from its pet."""


def iter_rows(
    frame: pd.DataFrame,
    at: Positions | Mask | None = None,
    places: Positions | None = None,
    units: Sequence[tuple[Unit, ...]] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a sheet's frame, or only those `at` these positions or in this mask, each
    with the position of its pet.
    """
    some: Positions | None = None if at is None else np.asarray(at, dtype=np.intp)
    if at is not None and at.dtype == np.bool_:
        some = np.flatnonzero(at)
    count = len(frame) if some is None else len(some)
    if not count:
        return

    def values_of(column: str) -> list[Any]:
        array = frame[column].array
        return _list_values(array) if some is None else values_at(array, some, _list_values)

    names: list[Column] = [c for c in COLUMNS if c in frame and c != "id"]
    cells = zip(*map(values_of, names), strict=True) if names else iter([()] * count)
    ids = values_of("id") if "id" in frame else [None] * count
    numbers = (frame.index if some is None else frame.index[some]).tolist()
    heads = zip(numbers, values_of("action"), ids, strict=True)
    for head, values, place, may_differ in zip(
        heads,
        cells,
        [-1] * count if places is None else places.tolist(),
        [UNITS] * count if units is None else units,
        strict=True,
    ):
        pairs = zip(names, values, strict=True)
        row_values: dict[Column, Any] = {name: value for name, value in pairs if value is not None}
        yield Row(*head, row_values, place, may_differ)


def _list_values(column: _Array) -> list[Any]:
    """Return the values, with None for blank cells."""
    if isinstance(column, ListArray | pd.arrays.NumpyExtensionArray):
        return [without_names(each) if isinstance(each, list) else None for each in column.tolist()]
    return plain_values(column)


# Rows without an id: find the pet, if any, that each of them matches.
#
# With `match_on`, a row matches the only pet that agrees with it in these columns. Without it, a
# row matches a pet only if the pet already has all values of the row and no other row claims it.
# Applying a sheet again therefore adds no pet twice.


_TRIMMED = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"
"""White space below U+0300, as `str.strip` removes it."""
_UNUSUAL = r"[^\x00-\x{2ff}]"
"""Matches the characters that NFC may change. NFC keeps all characters below U+0300."""
_UNUSUAL_CASE = r"[^\x00-\x{2ff}]|[\x{b5}\x{df}\x{130}\x{149}\x{17f}\x{1f0}]"
"""Matches the characters of `_UNUSUAL`, and those below U+0300 for which `str.casefold` and Arrow's
lower case differ.
"""


class Candidates:
    """The `free` pets, which rows without an id may match, indexed by name or by the columns of
    `match_on`.
    """

    def __init__(
        self, pets: pd.DataFrame, free: Mask, names: Collection[str], on: Sequence[Column]
    ) -> None:
        self._on = tuple(on) or ("name",)
        self._places: dict[tuple[object, ...], list[tuple[int, Pet]]] = defaultdict(list)
        wanted = free & names_among(pets["name"], names) if "name" in self._on else free
        places = np.flatnonzero(wanted)
        for place, pet in zip(places.tolist(), pets_at(pets, places), strict=True):
            self._places[_pet_key(pet, self._on)].append((place, pet))

    def find_agreeing(self, values: RowValues) -> list[tuple[int, Pet]]:
        """Return the pets that agree with the row in the columns to match on, with their
        positions.
        """
        key = key_of(values, self._on)
        return [] if key is None else self._places.get(key, [])

    def find_identical(
        self, rows: Sequence[Row], vocabulary: Vocabulary, unsent: Collection[Unit] = ()
    ) -> dict[int, tuple[int, Pet]]:
        """Return, by row number, a pet that has all values of the row except those of the `unsent`
        units, and its position.

        No pet is assigned twice, and as many rows as possible get a pet. Rows with more values to
        compare go first, whatever their order in the sheet. As many of these rows as possible get a
        pet that has their unsent values, too.
        """
        groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        sent = {row.number: without_units(row.values, unsent) for row in rows}
        for row in sorted(
            rows, key=lambda row: (-len(sent[row.number]), -len(row.values), _content(row))
        ):
            key = key_of(row.values, self._on)
            if key is not None and key in self._places:
                groups[key].append(row)
        found: dict[int, tuple[int, Pet]] = {}
        for key, group in groups.items():
            pets = self._places[key]
            compared = [sent[row.number] for row in group]
            kinds = [
                (*(unit_key(pet, unit) for unit in UNITS), tag_names(pet.tags)) for _, pet in pets
            ]
            places = pair_rows(
                [_content(row) for row in group],
                kinds,
                _compare_with(compared, pets, vocabulary),
                prefers=_compare_with([row.values for row in group], pets, vocabulary)
                if unsent
                else None,
                needs=_make_needs_finder(compared),
            )
            pairs = zip(group, places, strict=True)
            found |= {row.number: pets[place] for row, place in pairs if place is not None}
        return found


_PLACES: Mapping[Unit, int] = {
    "status": UNITS.index("status"),
    "photo_urls": UNITS.index("photo_urls"),
    "tags": len(UNITS),
}
"""The place of a unit's key in the kind of a pet. The names of the tags follow the keys of all
units.
"""


def _make_needs_finder(rows: Sequence[RowValues]) -> Callable[[int], Mapping[int, Hashable]]:
    """Return a function that takes a row's position and returns the keys that a pet must have to
    fit the row, by their places in the pet's kind.
    """

    def find_needs(row: int) -> Mapping[int, Hashable]:
        values = rows[row]
        pet = build_pet(values)
        return {
            place: tag_names(pet.tags) if unit == "tags" else unit_key(pet, unit)
            for unit, place in _PLACES.items()
            if unit in values and (unit != "tags" or all(normalize(tag.name) for tag in pet.tags))
        }

    return find_needs


def _compare_with(
    rows: Sequence[RowValues], pets: Sequence[tuple[int, Pet]], vocabulary: Vocabulary
) -> Callable[[int, int], bool]:
    """Return a function that returns true if a row's values are those of a pet, by positions."""

    def fits(row: int, place: int) -> bool:
        pet = pets[place][1]
        return not differing_columns(merge_row(pet, rows[row], vocabulary), pet)

    return fits


def names_among(
    names: pd.Series[Any], wanted: Collection[str] | TextSet, at: Positions | None = None
) -> Mask:
    """Return a mask of the names, or only of those `at` these positions, whose normal form is among
    the wanted names.
    """
    return _mask_among(_arrow(names.array), at, wanted, lambda name: (normalize(name),))


def folded_among(texts: pd.Series[Any], wanted: Collection[str]) -> Mask:
    """Return a mask of the texts that have one of their `folded_forms` among the wanted ones."""
    return _mask_among(_arrow(texts.array), None, wanted, folded_forms, is_folded=True)


def folded_forms(text: str) -> tuple[str, str]:
    """Return two forms of a text. Texts that count as equal have at least one form in common."""
    return normalize(text).casefold(), text.casefold()


def _mask_among(
    array: Any,
    at: Positions | None,
    wanted: Collection[str] | TextSet,
    forms: Callable[[str], tuple[str, ...]],
    *,
    is_folded: bool = False,
) -> Mask:
    """Return a mask of the texts that have one of their `forms` among the wanted ones."""
    among = wanted if isinstance(wanted, TextSet) else TextSet(wanted)
    mask: Mask = np.zeros(len(array) if at is None else len(at), dtype=bool)
    if not among:
        return mask
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    some = among.find_similar(whole, at)
    texts = whole.take(pa.array(some if at is None else at[some]))
    plain, unusual = (pc.utf8_lower(texts), _UNUSUAL_CASE) if is_folded else (texts, _UNUSUAL)
    found: Mask = np.array(pc.is_in(plain, value_set=among.array))
    # The form of a text with unusual characters or outer white space may still be a wanted one.
    is_trimmed = pc.equal(pc.utf8_trim(texts, _TRIMMED), texts)
    is_plain = pc.and_not(is_trimmed, pc.match_substring_regex(texts, unusual))
    odd = np.flatnonzero(~np.array(pc.fill_null(is_plain, fill_value=True)))
    found[odd] = [
        not among.texts.isdisjoint(forms(text)) for text in texts.take(pa.array(odd)).to_pylist()
    ]
    mask[some] = found
    return mask


def _content(row: Row) -> str:
    """Return the row's values as text, to sort rows and to find rows with the same values."""
    return repr(sorted(row.values.items()))


def without_units(values: RowValues, units: Collection[Unit]) -> RowValues:
    """Return a row's values without those of these units."""
    if not units:
        return values
    columns = {column for unit in units for column in COLUMNS_OF[unit]}
    return {column: each for column, each in values.items() if column not in columns}


def key_of(values: RowValues, on: Sequence[Column]) -> tuple[object, ...] | None:
    """Return the row's key in the columns to match on, or None if one of them is blank."""
    if any(values.get(column) in (None, "", CLEARED) for column in on):
        return None
    return _pet_key(build_pet(values), on)


def _pet_key(pet: Pet, on: Sequence[Column]) -> tuple[object, ...]:
    return tuple(key(pet, column) for column in on)


# Align the rows of a sheet with their pets in the store and in the base.
#
# Rows in agreement are found by operations on whole columns. The other rows are returned one by
# one, with the units in which they may differ.


_UNITS_OF = tuple(
    tuple(unit for n, unit in enumerate(UNITS) if bits >> n & 1) for bits in range(1 << len(UNITS))
)
Bits = npt.NDArray[np.uint8]
_CATEGORY_BIT = 1 << UNITS.index("category")


class Alignment:
    """A sheet aligned with a snapshot's `pets` and with its base.

    `named` is a mask of the pets that rows name. `ignored` and `unchanged` are numbers of rows.
    Units in `unsent` are not compared further: `differing` has, by unit, the rows that differ from
    their pets in them, in a category perhaps only in its spelling. A row that differs in a unit of
    `always` counts as edited.
    `older` has the numbers of the rows that have the exported values while the store has newer
    ones. `suspect` rows that differ from their pet are compared in detail even if they are
    unedited.
    """

    def __init__(
        self,
        sheet: Sheet,
        pets: pd.DataFrame,
        base: Base | None,
        suspect: Collection[int] = frozenset(),
        *,
        unsent: Collection[Unit] = (),
        always: Collection[Unit] = (),
    ) -> None:
        self.pets, self._frame, self._base = pets, sheet.rows, base
        self._unsent, self._always = _bits_of(unsent), _bits_of(always)
        self.differing: dict[Unit, list[int]] = {}
        self._suspect = list(suspect)
        is_other = ~has_action(sheet.rows, "merge")
        self.active, self._deletes, self._adds = ~is_other, is_other.copy(), is_other.copy()
        if is_other.any():
            self.active[is_other] = ~has_action(sheet.rows, "ignore", at=is_other)
            self._deletes[is_other] = has_action(sheet.rows, "delete", at=is_other)
            self._adds[is_other] = has_action(sheet.rows, *ADDING, at=is_other)
        self._places = _places(self._frame, pets)
        self.named = mask_named(self._places, sheet.blocked_ids, pets)
        self.ignored = int((~self.active).sum())
        self.older: list[int] = []
        self._claimed: list[int] = []
        at, bits = self._find_leftover_rows()
        self.unchanged = int(self.active.sum()) - len(at)
        self._at, self._bits = at, bits

    def rows(self) -> Iterator[Row]:
        """Yield the rows that may differ from their pet, in the sheet's order."""
        units = [_UNITS_OF[bits] for bits in self._bits.tolist()]
        return iter_rows(self._frame, self._at, self._places[self._at], units)

    def places_of(self, at: Positions) -> Positions:
        """Return the positions of the pets of the rows `at` these positions, -1 for none."""
        return self._places[at]

    def claim(self, ids: Iterable[int]) -> list[int]:
        """Mark these pets of rows without an id as named. Return their positions, -1 for a pet that
        the snapshot lacks.
        """
        self._claimed = [*ids]
        places = positions_of(self._claimed, self.pets)
        self.named[places[places >= 0]] = True
        found: list[int] = places.tolist()
        return found

    def pet(self, place: int) -> Pet:
        """Return the pet at a position in the snapshot."""
        known = self._near.get(place)
        return pets_at(self.pets, [place])[0] if known is None else known

    def find_exported(self, pet_id: int | None) -> Pet | None:
        """Return the exported pet, or None if the base lacks it."""
        if pet_id is None or self._base is None:
            return None
        if pet_id in self._of_base:
            return self._of_base[pet_id]
        return pet_of(pet_id, self._base.rows)

    def names(self, ids: Iterable[int]) -> dict[int, str]:
        """Return, by id, the names of these pets, except pets that the snapshot lacks."""
        places = positions_of(dict.fromkeys(ids), self.pets)
        some = places[places >= 0]
        numbers, names = (values_at(self.pets[c].array, some) for c in ("id", "name"))
        return {i: name for i, name in zip(numbers, names, strict=True) if name is not None}

    def _find_leftover_rows(self) -> tuple[Positions, Bits]:
        compared = self.active & ~self._deletes & (self._places >= 0)
        others = np.flatnonzero(self.active & ~compared)
        at, bits = self._find_differing_rows(np.flatnonzero(compared))
        everywhere = np.concatenate([at, others])
        all_bits = np.concatenate([bits, np.full(len(others), len(_UNITS_OF) - 1, np.uint8)])
        order = np.argsort(everywhere, kind="stable")
        return everywhere[order], all_bits[order]

    def _find_differing_rows(self, at: Positions) -> tuple[Positions, Bits]:
        """Return the rows among `at` that differ from their pet in a unit that may be edited, with
        these units. Set `older` to the other rows that differ.
        """
        bits = _bits(differences(self._frame, at, self.pets, self._places[at]))
        if self._unsent:
            for n, unit in enumerate(UNITS):
                if self._unsent >> n & 1:
                    found = at[(bits >> n & 1) > 0]
                    self.differing[unit] = self._frame.index[found].tolist()
            bits &= ~self._unsent
        at, bits = at[bits > 0], bits[bits > 0]
        edited = (bits & (self._find_edited_units(at) | self._always)) > 0
        if self._suspect:
            edited |= self._frame.index[at].isin(self._suspect)
        if self._base is not None and self._base.sheet_pets and len(at):
            # Only a detailed comparison shows if a category is older, or only spelled differently.
            is_spelled = self._frame["id"].iloc[at].isin([*self._base.sheet_pets])
            edited |= (bits == _CATEGORY_BIT) & is_spelled.to_numpy(dtype=bool)
        self.older = self._frame.index[at[~edited]].tolist()
        return at[edited], bits[edited]

    def _find_edited_units(self, at: Positions) -> Bits:
        """Return the units in which the rows differ from the base; all units if the base lacks the
        pet.
        """
        if self._base is None or not len(at):
            return np.full(len(at), len(_UNITS_OF) - 1, np.uint8)
        result = _bits(edited_units(self._frame, at, self._base))
        # All values of a row with an add action count, whatever was exported.
        result[self._adds[at]] = len(_UNITS_OF) - 1
        return result

    @cached_property
    def _near(self) -> Mapping[int, Pet]:
        """The pets of all rows in the detailed comparison, and the claimed ones, built in one
        call.
        """
        claimed = positions_of(self._claimed, self.pets)
        places = np.union1d(self._places[self._at], claimed)
        places = places[places >= 0]
        pets = pets_at(self.pets, places)
        return dict(zip(places.tolist(), pets, strict=True))

    @cached_property
    def _of_base(self) -> Mapping[int, Pet | None]:
        """The base's pets of all rows in the detailed comparison, and the claimed ones, None for
        pets that it lacks.
        """
        if self._base is None:
            return {}
        has_ids = "id" in self._frame
        taken = values_at(self._frame["id"].array, self._at) if has_ids else []
        ids = [*(each for each in taken if each is not None), *self._claimed]
        places = positions_of(ids, self._base.rows)
        pets = pets_at(self._base.rows, places[places >= 0])
        return {**dict.fromkeys(ids), **{int(pet.id or 0): pet for pet in pets}}


def _places(frame: pd.DataFrame, pets: pd.DataFrame) -> Positions:
    if "id" not in frame:
        return np.full(len(frame), -1, dtype=np.intp)
    return positions(frame["id"].array, pets)


def _bits_of(units: Collection[Unit]) -> np.uint8:
    """Return the bits of these units."""
    return np.uint8(sum(1 << n for n, unit in enumerate(UNITS) if unit in units))


def _bits(masks: Mapping[Unit, Mask]) -> Bits:
    """Return a number for each row, with the bits of the units whose masks include the row."""
    result = np.zeros(len(masks["name"]), dtype=np.uint8)
    for n, unit in enumerate(UNITS):
        result |= masks[unit].astype(np.uint8) << n
    return result
