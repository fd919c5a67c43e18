"""Columns of lists: the tags and the photo URLs of many pets, as Arrow arrays until a single list
is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from petsync.models import Tag, TagName, as_tag
from petsync.table.columns import LISTS
from petsync.table.dtypes import text_column

__all__ = [
    "Items",
    "ListArray",
    "ListDtype",
    "TextSet",
    "as_items",
    "as_lists",
    "blocks",
    "count_items",
    "encode",
    "encode_pairs",
    "find_bounds",
    "flatten",
    "have_items",
    "join_items",
    "lists_of",
    "names_of_tags",
    "pick",
    "shared_tag",
    "with_python_lists",
    "without_names",
]

_TEXT = pa.large_string()
_FEW_ITEMS = 8
"""The size of a list up to which all pairs of its items are compared."""
_Objects = npt.NDArray[np.object_]
_Codes = npt.NDArray[np.int64]
_Places = npt.NDArray[np.integer[Any]]

_BLOCK = 16_384
"""The number of rows to compare together."""


# Equal tags as one object: a catalogue has few different tags on many pets.
#
# Sharing equal tags saves most of their memory. A Tag is immutable, so sharing it is safe.


_MAX_SHARED = 50_000
_shared_names: dict[tuple[int | None, str | None], TagName] = {}


def names_of_tags(tags: Iterable[Tag]) -> list[Any]:
    """Return the tags as items of a DataFrame's list, see `TagName`. Equal tags are one object, up
    to a maximum number of different tags, unless they have unknown fields.
    """
    find, names = _shared_names.get, []
    for tag in tags:
        name = find((tag.id, tag.name)) if tag.extra is None else None
        if name is None:
            name = TagName(tag)
            if tag.extra is None and len(_shared_names) < _MAX_SHARED:
                _shared_names[tag.id, tag.name] = name
        names.append(name)
    return names


def shared_tag(tag: Tag) -> Tag:
    """Return the shared tag that equals this one, or the tag itself if it cannot be shared."""
    shared: Tag = names_of_tags([tag])[0].tag
    return shared


# The items of the lists as Arrow arrays.


class Items:
    """A column of lists as Arrow arrays. `names` has a list of tag names or URLs for each pet, null
    if the list is missing; for tags, `ids` has lists of the same lengths with the tags' ids.
    """

    __slots__ = ("ids", "names")

    def __init__(self, names: pa.LargeListArray, ids: pa.LargeListArray | None = None) -> None:
        self.names, self.ids = names, ids

    def __len__(self) -> int:
        return len(self.names)

    def _map(self, change: Callable[[pa.LargeListArray], Any]) -> Items:
        return Items(change(self.names), None if self.ids is None else change(self.ids))

    def slice(self, start: int, size: int) -> Items:
        """Return `size` lists from position `start` on, without copying them."""
        return self._map(lambda lists: lists.slice(start, size))

    def take(self, places: npt.NDArray[np.integer[Any]]) -> Items:
        """Return the lists at these positions, a missing list for -1."""
        indices = pa.array(places, mask=places < 0)
        return self._map(lambda lists: lists.take(indices))

    @classmethod
    def join(cls, parts: Sequence[Items]) -> Items:
        """Return the lists of all parts, in order. Either all parts must have ids, or none."""
        names = pa.concat_arrays([part.names for part in parts])
        ids = [part.ids for part in parts if part.ids is not None]
        return cls(names, pa.concat_arrays(ids) if ids else None)

    def replace(self, others: Mapping[int, Sequence[Any] | None]) -> Items:
        """Return the lists after replacing those at the positions in `others`."""
        places = np.arange(len(self))
        places[[*others]] = np.arange(len(self), len(self) + len(others))
        added = Items.of([*others.values()], has_ids=self.ids is not None)
        return Items.join([self, added]).take(places)

    @property
    def texts(self) -> Any:
        """The names or URLs of all lists, one after the other."""
        return text_column(flatten(self.names))

    def are_missing(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the missing lists."""
        return np.array(self.names.is_null(), dtype=bool)

    def bounds(self) -> _Codes:
        """Return the bounds of the lists, see `find_bounds`."""
        return find_bounds(self.names)

    @classmethod
    def of(cls, values: Sequence[Sequence[Any] | None], *, has_ids: bool = False) -> Items:
        """Return Items with these lists. Each is None or a list of tags, tag names or URLs. With
        `has_ids`, the result has ids: None for tag names.
        """
        flat = [as_tag(item) if has_ids else item for each in values if each for item in each]
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(each or ()) for each in values], out=offsets[1:])
        is_missing = pa.array([each is None for each in values]) if None in values else None

        def build(items: list[Any], kind: pa.DataType) -> pa.LargeListArray:
            array = pa.array(items, kind)
            return pa.LargeListArray.from_arrays(pa.array(offsets), array, mask=is_missing)

        if not has_ids:
            return cls(build(flat, _TEXT))
        names = build([tag.name for tag in flat], _TEXT)
        return cls(names, build([tag.id for tag in flat], pa.int64()))

    def to_lists(self, *, are_named: bool = False) -> _Objects:
        """Return the lists as Python lists, None for a missing one. Equal tags are one object. With
        `are_named`, a tag is a `TagName`.
        """
        if self.ids is None:
            flat: list[Any] = flatten(self.names).to_pylist()
        else:
            codes, kinds = self._find_kinds()
            kinds = lists_of(names_of_tags(kinds)) if are_named else kinds
            flat = kinds[codes].tolist()
        lists: list[list[Any] | None] = [
            flat[start:end] for start, end in pairwise(self.bounds().tolist())
        ]
        for place in np.flatnonzero(self.are_missing()).tolist():
            lists[place] = None
        return lists_of(lists)

    def count(self) -> Counter[Any]:
        """Return the number of occurrences of each tag or URL, in order of first occurrence."""
        codes, kinds = self._find_kinds()
        counts = np.bincount(codes, minlength=len(kinds)).tolist()
        return Counter(dict(zip(kinds.tolist(), counts, strict=True)))

    def are_blank(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists in which no item has a text other than white space, or an id
        other than 0.
        """
        texts = pc.utf8_trim_whitespace(flatten(self.names)).fill_null("")
        has_text = np.array(pc.not_equal(texts, ""), dtype=bool)
        if self.ids is not None:
            has_text |= np.array(flatten(self.ids).fill_null(0)) != 0
        return ~self.have_any(has_text)

    def encode(self) -> _Codes:
        """Return a number for each list, which is equal for lists with the same items in the same
        order. A missing list has the number of an empty one.
        """
        codes, _ = self._find_kinds()
        texts = join_items(self.names, pa.array(codes).cast(_TEXT), ",")
        return np.asarray(texts.dictionary_encode().indices, dtype=np.int64)

    def differ(self, other: Items) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists that differ from the list of `other` at the same position. A
        missing list equals an empty one.
        """
        places = np.arange(len(self))
        return self.differ_at(places, other, places)

    def differ_at(
        self, at: _Places, other: Items, places: _Places, *, is_any_id: bool = False
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists `at` these positions that differ from the list of `other` at
        the `places`. A missing list equals an empty one. With `is_any_id`, a tag of these lists
        that has a name but no id equals a tag of the name with any id, unless its list repeats a
        name.
        """
        result = np.zeros(len(at), dtype=bool)
        mine, theirs = self.bounds(), other.bounds()
        columns = [(flatten(self.names), flatten(other.names))]
        if self.ids is not None and other.ids is not None:
            columns.append((flatten(self.ids), flatten(other.ids)))
        is_free = self._find_free_ids() if is_any_id and len(columns) > 1 else None
        for part in blocks(len(at)):
            starts, sizes = _spans(mine, at[part])
            others, other_sizes = _spans(theirs, places[part])
            mask = result[part]
            np.not_equal(sizes, other_sizes, out=mask)
            if not sizes.any() or not other_sizes.any():
                continue
            left, right = _places_in(starts, sizes), _places_in(others, sizes, mask)
            ends = np.cumsum(sizes)
            for number, (one, another) in enumerate(columns):
                is_other = _differ(pick(one, left), pick(another, right))
                if number and is_free is not None:
                    is_other &= ~is_free[left]
                mask[np.searchsorted(ends, np.flatnonzero(is_other), side="right")] = True
        return result

    def _find_free_ids(self) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the tags, of all lists in order, that have a name, no id, and a name
        that is not repeated in their list; None if there are none.
        """
        is_free = np.array(flatten(self.ids).is_null(), dtype=bool)
        if not is_free.any():
            return None
        names = flatten(self.names)
        is_free &= np.array(pc.not_equal(names, "").fill_null(False), dtype=bool)
        repeated = self.have_repeated()
        if repeated.any():
            is_free &= ~np.repeat(repeated, np.diff(self.bounds()))
        return is_free

    def have(self, is_wanted: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists with at least one wanted tag or URL. `is_wanted` is called
        once for each distinct tag or URL.
        """
        codes, kinds = self._find_kinds()
        wanted = np.array([is_wanted(kind) for kind in kinds.tolist()], dtype=bool)
        return self.have_any(wanted[codes])

    def have_any(self, items: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists with at least one item for which `items` is true. `items` is a
        mask of the items of all lists, in order.
        """
        result = np.zeros(len(self), dtype=bool)
        result[np.searchsorted(self.bounds()[1:], np.flatnonzero(items), side="right")] = True
        return result

    def have_repeated(self, *, is_folded: bool = False) -> npt.NDArray[np.bool_]:
        """Return a mask of the lists that contain the same name or URL more than once; with
        `is_folded`, in any case.
        """
        several = np.flatnonzero(np.diff(self.bounds()) > 1)
        result = np.zeros(len(self), dtype=bool)
        if len(several):
            lists = Items(pick(self.names, several))
            codes, words = encode(flatten(lists.names))
            if is_folded:
                lower = pc.utf8_lower(words).dictionary_encode(null_encoding="encode").indices
                codes = lower.to_numpy()[codes]
            sizes = np.diff(lists.bounds())
            owners = np.repeat(np.arange(len(several)), sizes)
            if (longest := int(sizes.max())) > _FEW_ITEMS:
                is_repeated = pd.Series(owners * len(words) + codes).duplicated().to_numpy()
            else:
                is_repeated = np.zeros(len(codes), dtype=bool)
                for by in range(1, longest):
                    is_repeated[by:] |= (codes[by:] == codes[:-by]) & (owners[by:] == owners[:-by])
            result[several] = lists.have_any(is_repeated)
        return result

    def _find_kinds(self) -> tuple[_Codes, _Objects]:
        """Return the position of each item among the distinct tags or URLs; and the distinct tags
        or URLs.
        """
        flat = flatten(self.names)
        if self.ids is None:
            codes, urls = _encode(flat)
            return codes, lists_of(urls)
        codes, pairs = encode_pairs(flat, flatten(self.ids))
        return codes, lists_of([shared_tag(Tag(number, name)) for name, number in pairs])


def encode_pairs(
    names: pa.Array, numbers: pa.Array
) -> tuple[_Codes, list[tuple[str | None, int | None]]]:
    """Return the position of each pair of a name and a number among the distinct pairs; and the
    distinct pairs, in order of first occurrence.
    """
    codes, texts = _encode(names)
    if not numbers.null_count:
        # In most tables, each name has one number.
        known = numbers.to_numpy()
        number_of = np.zeros(len(texts), np.int64)
        number_of[codes] = known
        if (number_of[codes] == known).all():
            return codes, [*zip(texts, number_of.tolist(), strict=True)]
    more, ids = _encode(numbers)
    places, pairs = pd.factorize(codes * len(ids) + more)
    parts = (divmod(pair, len(ids)) for pair in pairs.tolist())
    return places, [(texts[text], ids[number]) for text, number in parts]


def _encode(values: pa.Array) -> tuple[_Codes, list[Any]]:
    codes, distinct = encode(values)
    return codes.astype(np.int64), distinct.to_pylist()


def encode(values: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Return the position of each value among the distinct values; and these, in order of first
    occurrence or, if the values are encoded, in the order of their dictionary. Missing values count
    as one value.
    """
    if not types.is_dictionary(values.type):
        encoded = values.dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy(), encoded.dictionary
    codes, distinct = values.indices, values.dictionary
    if codes.null_count:
        codes = codes.fill_null(len(distinct))
        distinct = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
    return codes.to_numpy(), distinct


def _differ(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the items that differ."""
    unequal = pc.not_equal(left, right)
    if unequal.null_count:
        is_other = pc.xor(left.is_null(), right.is_null())
        unequal = pc.or_(pc.fill_null(unequal, fill_value=False), is_other)
    result: npt.NDArray[np.bool_] = unequal.to_numpy(zero_copy_only=False)
    return result


def blocks(size: int) -> Iterator[slice]:
    """Yield the positions of `size` rows in blocks: what is computed from a block stays in the
    processor's cache, and needs little memory.
    """
    return (slice(start, start + _BLOCK) for start in range(0, size, _BLOCK))


def pick(values: pa.Array, places: _Places | slice) -> pa.Array:
    """Return the values at these positions; without a copy if the positions are consecutive."""
    if isinstance(places, slice):
        return values[places]
    if _are_consecutive(places):
        return values.slice(int(places[0]), len(places))
    return values.take(pa.array(places))


def _are_consecutive(places: _Places) -> bool:
    if not len(places) or places[-1] - places[0] + 1 != len(places):
        return False
    return bool((places[1:] - places[:-1] == 1).all())


def _spans(bounds: _Codes, places: _Places) -> tuple[_Codes, _Codes]:
    """Return where the lists at these positions begin among the items, and their lengths."""
    if _are_consecutive(places):
        part = bounds[places[0] : places[-1] + 2]
        return part[:-1], part[1:] - part[:-1]
    starts = bounds[places]
    return starts, bounds[places + 1] - starts


def _places_in(
    starts: _Codes, sizes: _Codes, any_items: npt.NDArray[np.bool_] | None = None
) -> _Codes | slice:
    """Return the positions of the items of the lists that begin at `starts`, one list after the
    other. The lists in the mask `any_items` may be shorter: the positions of their items are 0.
    """
    is_any = None if any_items is None or not any_items.any() else any_items
    if is_any is None and (starts[:-1] + sizes[:-1] == starts[1:]).all():
        return slice(int(starts[0]), int(starts[-1] + sizes[-1]))
    ends = np.cumsum(sizes)
    places: _Codes = np.repeat(starts - ends + sizes, sizes)
    places += np.arange(len(places))
    if is_any is not None:
        places[np.repeat(is_any, sizes)] = 0
    return places


def flatten(lists: Any) -> Any:
    """Return the items of all lists, one after the other; without a copy if possible."""
    if not _are_missing_empty(lists):
        return pc.list_flatten(lists)
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values.slice(first, last - first)


def _are_missing_empty(lists: Any) -> bool:
    """Return true if no missing list has items, which then must be skipped."""
    if not isinstance(lists, pa.LargeListArray):
        return False
    if not lists.null_count:
        return True
    size = lists.offsets[-1].as_py() - lists.offsets[0].as_py()
    return bool(size == (pc.sum(pc.list_value_length(lists)).as_py() or 0))


def find_bounds(lists: Any) -> _Codes:
    """Return where each list begins among the items of all lists, and where the last list ends. A
    missing list has no items.
    """
    if _are_missing_empty(lists):
        offsets: _Codes = lists.offsets.to_numpy()
        return offsets - offsets[0] if offsets[0] else offsets
    lengths = np.array(pc.list_value_length(lists).fill_null(0), dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def join_items(lists: Any, texts: Any, separator: str) -> pa.LargeStringArray:
    """Return one text for each list, joined from its items. `texts` has the items of all lists."""
    flat = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    joined = pa.LargeListArray.from_arrays(pa.array(find_bounds(lists)), flat)
    return pc.binary_join(joined, pa.scalar(separator, _TEXT))


def lists_of(values: Sequence[Any]) -> _Objects:
    """Return the values, each a list or None, as an array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# Texts that end like others: a cheap test, which excludes most texts of a column.


_WORD = 8
_TAIL = 2 * _WORD
"""The number of bytes at the end of a text that are compared, as two numbers of 64 bits. The
highest byte of a number is its last one.
"""
_HIGH_BITS, _CASE_BITS = np.uint64(0x8080808080808080), np.uint64(0x2020202020202020)
_LAST_BYTES = np.array([(1 << 64) - (1 << 64 - 8 * n) for n in range(_WORD + 1)], np.uint64)
"""By number of bytes, a mask of the last bytes."""
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_SHIFT, _SLOTS = np.uint64(44), 1 << 20
_Words = npt.NDArray[np.uint64]


class TextSet:
    """A set of texts that are looked for in large columns. What the search needs is prepared once,
    and is not pickled.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = frozenset(texts)
        """The texts."""

    def __len__(self) -> int:
        return len(self.texts)

    def __reduce__(self) -> tuple[type[TextSet], tuple[frozenset[str]]]:
        return TextSet, (self.texts,)

    @cached_property
    def array(self) -> pa.LargeStringArray:
        """The texts as an Arrow array, in any order."""
        return pa.array([*self.texts], _TEXT)

    @cached_property
    def _known_slots(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Masks of the slots of the last letters of the texts, up to 8 and up to 16."""
        known = _Ends(pa.concat_arrays([pa.array([" " * _TAIL], _TEXT), self.array]))
        bounds = known.bounds[1:]
        last = known.letters(bounds[:-1], bounds[1:])
        before = known.letters_before(bounds[:-1], bounds[1:], last)
        is_end, is_wanted = np.zeros((2, _SLOTS), dtype=bool)
        for mask in _LAST_BYTES:
            is_end[_slots(last & mask)] = is_wanted[_slots(last & mask)] = True
            is_wanted[_slots(last, before & mask)] = True
        return is_end, is_wanted

    def find_similar(self, texts: pa.LargeStringArray, at: _Places | None = None) -> _Places:
        """Return the positions of the `texts`, or of those `at` these positions, that may equal a
        text of the set except for case, outer white space and Unicode's normal form; and of a few
        others.

        None of this changes which ASCII letters are at the end of a text. So a text is excluded if
        no text of the set ends in its last ASCII letters, up to 16, ignoring case.
        """
        count = len(texts) if at is None else len(at)
        if count < _BLOCK:
            return np.arange(count)
        is_end, is_wanted = self._known_slots
        found, result = _Ends(texts), np.zeros(count, dtype=bool)
        for part in blocks(count):
            places = np.arange(part.start, min(part.stop, count)) if at is None else at[part]
            starts, ends = found.bounds[places], found.bounds[places + 1]
            last, mask = found.letters(starts, ends), found.may_have_spaces(starts, ends)
            some = np.flatnonzero(is_end[_slots(last)] & ~mask)
            before = found.letters_before(starts[some], ends[some], last[some])
            mask[some] = is_wanted[_slots(last[some], before)]
            result[part] = mask
        return np.flatnonzero(result)


class _Ends:
    """The ends of texts, which are given by their bounds in the bytes of all texts."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        _, bounds, data = texts.buffers()
        first = texts.offset
        self.bounds: _Codes = np.frombuffer(bounds, np.int64)[first : first + len(texts) + 1]
        padding = b"\0" * _WORD
        self._bytes = np.frombuffer(
            padding if data is None or data.size < _WORD else data, np.uint8
        )
        # For each byte, a number that consists of it and the next 7 bytes.
        size = len(self._bytes) - _WORD + 1
        self._words = np.ndarray((size,), "<u8", self._bytes, strides=(1,))

    def letters(self, starts: _Codes, ends: _Codes) -> _Words:
        """Return the last ASCII letters of each text, up to 8, in lower case."""
        words = self._words[np.maximum(ends - _WORD, 0)]
        keep = _LAST_BYTES[np.minimum(ends - starts, _WORD)]
        others = words & _HIGH_BITS
        if others.any():
            # Exclude all bytes up to the last one that is not ASCII.
            for bits in (8, 16, 32):
                others |= others >> np.uint64(bits)
            keep &= ~((others >> np.uint64(7)) * np.uint64(255))
        letters: _Words = (words | _CASE_BITS) & keep
        return letters

    def letters_before(self, starts: _Codes, ends: _Codes, last: _Words) -> _Words:
        """Return the ASCII letters before the `last` ones, up to 8, if these are 8 letters."""
        letters = self.letters(starts, np.maximum(ends - _WORD, starts))
        letters[(last & _CASE_BITS) != _CASE_BITS] = 0
        return letters

    def may_have_spaces(self, starts: _Codes, ends: _Codes) -> npt.NDArray[np.bool_]:
        """Return a mask of the texts that begin or end with white space; and of others, such as
        those whose end cannot be read as numbers.
        """
        last_place = len(self._bytes) - 1
        first = self._bytes[np.minimum(starts, last_place)]
        last = self._bytes[np.minimum(ends, last_place + 1) - 1]
        blank: npt.NDArray[np.bool_] = (first <= ord(" ")) | (last <= ord(" ")) | (ends < _TAIL)
        return blank


def _slots(last: _Words, before: _Words | None = None) -> _Words:
    """Return a hash of each number, or pair of numbers: the highest bits of a product."""
    product = last * _FACTORS[0]
    slots: _Words = (product if before is None else product ^ before * _FACTORS[1]) >> _SHIFT
    return slots


# The lists as a column of a DataFrame, for comparisons.


class ListDtype(pd.api.extensions.ExtensionDtype):
    """The dtype of a `ListArray`."""

    type = list
    name = "petsync lists"

    @classmethod
    def construct_array_type(cls) -> _ArrayType:
        return ListArray


class ListArray(pd.api.extensions.ExtensionArray):
    """An immutable column of lists of `Tag`, or of URLs. A value is a Python list, or None if
    it is missing. The Python lists are built when one of them is first used.
    """

    def __init__(self, items: Items) -> None:
        self.items = items
        self._cached: list[_Objects] = []

    @property
    def objects(self) -> _Objects:
        """The lists as Python lists, None for a missing list."""
        if not self._cached:
            self._cached.append(self.items.to_lists())
        return self._cached[0]

    @property
    def dtype(self) -> ListDtype:
        return _DTYPE

    @property
    def nbytes(self) -> int:
        """The size of the Arrow arrays, without the Python lists."""
        arrays = (self.items.names, self.items.ids)
        return sum(int(each.nbytes) for each in arrays if each is not None)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.objects.tolist())

    def __getitem__(self, item: Any) -> Any:
        key = pd.api.indexers.check_array_indexer(self, item)
        if isinstance(key, int | np.integer):
            return self.objects[key]
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                size = max(stop - start, 0)
                return self if size == len(self) else type(self)(self.items.slice(start, size))
            key = np.arange(start, stop, step)
        return self.take(np.flatnonzero(key) if key.dtype == np.bool_ else key)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, pd.Series | pd.DataFrame | pd.Index):
            return NotImplemented
        return self.objects == (other.objects if isinstance(other, ListArray) else other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.objects, dtype=dtype, copy=copy)

    def view(self, dtype: Any = None) -> Any:
        """Return the column itself."""
        if dtype is not None and dtype != self.dtype:
            raise NotImplementedError(dtype)
        return self

    def copy(self) -> Self:
        """Return the column itself."""
        return self

    def map(self, mapper: Any, na_action: Any = None) -> Any:
        return pd.Series(self.objects, dtype=object).map(mapper, na_action).array

    def isna(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the missing lists."""
        return self.items.are_missing()

    def take(self, indexer: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Self:
        """Return the lists at these positions. A negative position counts from the end; with
        `allow_fill`, -1 instead means a missing list.
        """
        if allow_fill and not pd.isna(fill_value):
            raise ValueError("fill_value must be a missing value")
        places, size = np.asarray(indexer, dtype=np.int64), len(self)
        lowest = -1 if allow_fill else -size
        if len(places) and (places.max() >= size or places.min() < lowest):
            raise IndexError("a position is out of bounds")
        if not allow_fill:
            places = np.where(places < 0, places + size, places)
        return type(self)(self.items.take(places))

    @classmethod
    def _from_sequence(cls, scalars: Any, **_: Any) -> Self:
        if isinstance(scalars, ListArray):
            return cls(scalars.items)
        raise TypeError("a ListArray can be built only from Items or a ListArray")

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[ListArray]) -> Self:
        return cls(Items.join([part.items for part in to_concat]))


_ArrayType = type[ListArray]
_DTYPE = ListDtype()


def as_items(value: Any) -> list[Any] | None:
    """Return the items of a list, a tuple or an array; None for another value. pandas makes an
    array without dimensions of one with a single item, if it is assigned to a cell.
    """
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist() if value.ndim == 0 else value.tolist()
    return [*value] if isinstance(value, list | tuple) else None


def as_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of the frame in which tags and photo URLs are lists instead of tuples or
    arrays, and each tag is a `TagName`.
    """

    def as_list(value: Any) -> Any:
        items = as_items(value)
        if items is None:
            return value
        if not is_tags:
            return items
        return [TagName(as_tag(each)) if isinstance(each, Tag | str) else each for each in items]

    columns: dict[str, Any] = {}
    for name in LISTS:
        is_tags = name == "tags"
        if name in frame and not isinstance(frame[name].array, ListArray):
            columns[name] = pd.Series(
                lists_of([as_list(each) for each in frame[name]]), frame.index, dtype=object
            )
    return frame.assign(**columns)


def with_python_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame for a user, who may change it: with Python lists instead of each ListArray,
    with copies of other lists, and with a `TagName` instead of each Tag. Without lists, return the
    frame itself.
    """
    columns: dict[Any, Any] = {name: column.array for name, column in frame.items()}
    lists: dict[Any, Any] = {
        name: each.items.to_lists(are_named=True)
        for name, each in columns.items()
        if isinstance(each, ListArray)
    }
    for name in LISTS:
        values = columns.get(name)
        if isinstance(values, pd.arrays.NumpyExtensionArray) and any(map(_is_list, values)):
            lists[name] = lists_of([_copy_list(each) for each in values])
    if not lists:
        return frame
    # The numbers may be those of an immutable Arrow array.
    numbers = {n: e.copy() for n, e in columns.items() if isinstance(e, pd.arrays.IntegerArray)}
    return pd.DataFrame(columns | numbers | lists, index=frame.index, copy=False)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _copy_list(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    has_tag = any(isinstance(item, Tag) for item in value)
    return names_of_tags(map(as_tag, value)) if has_tag else [*value]


def without_names(value: Any) -> Any:
    """Return a value of a user's column, with a Tag instead of each `TagName` in a list."""
    if not isinstance(value, list):
        return value
    return [item.tag if isinstance(item, TagName) else item for item in value]


def count_items(column: pd.api.extensions.ExtensionArray) -> Counter[Any]:
    """Return the number of occurrences of each tag or URL in a column of lists."""
    if isinstance(column, ListArray):
        return column.items.count()
    return Counter(item for each in _values_of(column) for item in each)


def have_items(
    column: pd.api.extensions.ExtensionArray, is_wanted: Callable[[Any], bool]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the lists with at least one wanted tag or URL."""
    if isinstance(column, ListArray):
        return column.items.have(is_wanted)
    return np.array([any(map(is_wanted, each)) for each in _values_of(column)], dtype=bool)


def _values_of(column: pd.api.extensions.ExtensionArray) -> Iterator[list[Any]]:
    """Yield the tags or URLs of each list in a column of Python lists; none for a missing list."""
    for each in column.to_numpy(dtype=object).tolist():
        yield without_names([*each]) if isinstance(each, list | tuple) else []
