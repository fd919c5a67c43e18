"""Fields of a pet: normal forms, equality, and the values of cells."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from petsync.models import Category, Pet, Tag
from petsync.table.cells import format_photo_urls, format_tags
from petsync.table.columns import CLEARED, COLUMNS, COLUMNS_OF, UNITS, Column, Unit
from petsync.table.lists import count_items, encode_pairs

__all__ = [
    "COLUMNS_OF",
    "UNITS",
    "Unit",
    "UnreadVocabulary",
    "Usage",
    "Vocabulary",
    "category_cells",
    "cell",
    "changed_columns",
    "content",
    "count_categories",
    "differing_columns",
    "drop_clear_ids",
    "equal",
    "find_filled_columns",
    "find_row_columns",
    "fold_status",
    "has_value",
    "ids_by_name",
    "is_another",
    "is_as_expected",
    "key",
    "known_id",
    "matches",
    "merge_photos",
    "merge_tags",
    "normalize",
    "pair_rows",
    "photo_keys",
    "resolve_photos",
    "resolve_tags",
    "same_photos",
    "same_tags",
    "spelling",
    "tag_key",
    "tag_names",
    "unit_content",
    "unit_key",
    "unit_text",
    "update_fields",
    "with_category",
    "with_columns",
    "with_fields",
    "with_kept_photos",
    "with_unknown_fields",
]


# Pairing: assign a different pet to as many rows as possible, whatever their order.


def pair_rows(
    rows: Sequence[Hashable],
    pets: Sequence[Hashable],
    fits: Callable[[int, int], bool],
    *,
    prefers: Callable[[int, int], bool] | None = None,
    needs: Callable[[int], Mapping[int, Hashable]] | None = None,
) -> list[int | None]:
    """Return, for each row, the position of the pet that is assigned to it, or None. No pet is
    assigned twice.

    Equal rows fit the same pets, and equal pets fit the same rows: `fits` is called with the
    positions of one row and one pet of each kind. As many rows as possible get a pet, and earlier
    rows get one first. The rows that get one get a pet that they `prefer` where possible; such a
    pet must fit, too.

    If pets are tuples, `needs` may return, by place in the tuple, what each pet that fits a row
    has: then not all pairs are compared.
    """
    pairing = _Pairing(rows, pets, fits, needs)
    pairing.add_all(range(len(rows)))
    if prefers is None:
        return pairing.result()
    # Which pets are assigned does not change which rows can get one.
    paired = [row for row, place in enumerate(pairing.result()) if place is not None]
    pairing = _Pairing(rows, pets, prefers, needs)
    pairing.add_all(paired)
    preferred = pairing.result()
    pairing.widen(fits)
    pairing.add_all(row for row in paired if preferred[row] is None)
    return pairing.result()


class _Pairing:
    def __init__(
        self,
        rows: Sequence[Hashable],
        pets: Sequence[Hashable],
        fits: Callable[[int, int], bool],
        needs: Callable[[int], Mapping[int, Hashable]] | None,
    ) -> None:
        self._rows, self._fits, self._needs = rows, fits, needs
        self._having: dict[tuple[int, ...], dict[Hashable, list[Any]]] = {}
        self._row_of = {value: row for row, value in enumerate(rows)}
        self._places: dict[Hashable, list[int]] = defaultdict(list)
        for place, pet in enumerate(pets):
            self._places[pet].append(place)
        self._rows_of: dict[Hashable, dict[Hashable, list[int]]] = {
            kind: defaultdict(list) for kind in self._places
        }
        self._room = {kind: len(places) for kind, places in self._places.items()}
        self._choices: dict[Hashable, list[Hashable]] = {}
        self._lost_kinds: set[Hashable] = set()

    def add_all(self, rows: Iterable[int]) -> None:
        """Try to assign a pet to each row, in this order."""
        for row in rows:
            self._add(row)

    def widen(self, fits: Callable[[int, int], bool]) -> None:
        """Use this function from now on to decide which pets fit a row. Rows that already have a
        pet keep it unless they are moved.
        """
        self._fits = fits
        self._choices.clear()
        self._lost_kinds.clear()

    def _add(self, row: int) -> None:
        """Try to assign a pet to the row, if necessary by moving other rows to other pets.

        A kind is a set of pets that are equal for all rows. Kinds that a failed search visited are
        not searched again, because none of their pets can become free.
        """
        paths: dict[Hashable, tuple[Hashable, Hashable | None]] = {}
        waiting: list[tuple[Hashable, Hashable | None]] = [(self._rows[row], None)]
        for value, through in waiting:
            for kind in self._choices_of(value):
                if kind in paths or kind in self._lost_kinds:
                    continue
                paths[kind] = (value, through)
                if self._room[kind]:
                    self._take(row, kind, paths)
                    return
                waiting += [(holder, kind) for holder, rows in self._rows_of[kind].items() if rows]
        self._lost_kinds.update(paths)

    def result(self) -> list[int | None]:
        """Return, for each row, the position of the pet that is assigned to it, or None. Equal pets
        are assigned in the order of their rows.
        """
        result: list[int | None] = [None] * len(self._rows)
        for kind, held in self._rows_of.items():
            takers = sorted(row for rows in held.values() for row in rows)
            for row, place in zip(takers, self._places[kind], strict=False):
                result[row] = place
        return result

    def _choices_of(self, value: Hashable) -> list[Hashable]:
        if value not in self._choices:
            row = self._row_of[value]
            self._choices[value] = [
                kind
                for kind in self._find_kinds({} if self._needs is None else self._needs(row))
                if self._fits(row, self._places[kind][0])
            ]
        return self._choices[value]

    def _find_kinds(self, needed: Mapping[int, Hashable]) -> Iterable[Any]:
        """Return the kinds of pets that have the needed items at these places."""
        if not needed:
            return self._places
        places = tuple(needed)
        if places not in self._having:
            found: dict[Hashable, list[Any]] = defaultdict(list)
            kinds: Iterable[Any] = self._places
            for kind in kinds:
                found[tuple(kind[place] for place in places)].append(kind)
            self._having[places] = found
        return self._having[places].get(tuple(needed.values()), ())

    def _take(
        self, row: int, kind: Hashable, paths: dict[Hashable, tuple[Hashable, Hashable | None]]
    ) -> None:
        """Move each row on the path to its next kind of pet, and give the freed pet to the new
        row.
        """
        self._room[kind] -= 1
        value, through = paths[kind]
        while through is not None:
            self._rows_of[kind][value].append(self._rows_of[through][value].pop())
            kind = through
            value, through = paths[kind]
        self._rows_of[kind][value].append(row)


# One field of a pet: its value, its text in a cell, and its equality.
#
# This module has the only definition of "the same"; plan, precheck, verify, resume, undo and
# reconcile use it. Text is compared trimmed and in NFC. Status ignores case. Tags are compared as a
# set, and photo addresses as an ordered list without duplicates. The id 0 of a tag or category
# means no id: services return it if none was sent. If the expected value omits an id, the service
# may have assigned any. `is_as_expected` therefore has a direction, from the expected to the found
# pet.


def normalize(text: str | None) -> str:
    """Return text in its form for comparisons: NFC, trimmed, and empty if missing."""
    if not text:
        return ""
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).strip()


def fold_status(text: str | None) -> str:
    """Return a status in its form for comparisons: normalized and case-folded."""
    return normalize(text).casefold()


def spelling(text: str) -> str:
    """Return the common form of all spellings of a text: NFKC, case-folded, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has_lost_letters(text: str | None, original: str | None) -> bool:
    """Return true if the text is the original after a program could not write some of its letters
    and put a question mark, or U+FFFD, in the place of each: `?enda` for `Čenda`. Other letters may
    have lost their accents: `Labu?` for `Lăbuș`.
    """
    found, whole = normalize(text), normalize(original)
    if whole.isascii() or len(found) != len(whole) or not _LOST.search(found):
        return False
    return found != whole and all(
        one == letter
        or (not letter.isascii() and (_LOST.match(one) or one == _plain_letter(letter)))
        for one, letter in zip(found, whole, strict=True)
    )


def has_lost_accents(text: str | None, original: str | None) -> bool:
    """Return true if the text is the original without the accents of its letters: `Zabka` for
    `Żabka`, as some programs write it in an encoding that lacks a letter.
    """
    found, whole = normalize(text), normalize(original)
    if found == whole or len(found) != len(whole):
        return False
    return found == "".join(map(_plain_letter, whole))


def _plain_letter(letter: str) -> str:
    """Return the letter without its accents, itself if it has none."""
    plain = unicodedata.normalize("NFKD", letter)[0]
    return plain if plain.isascii() and plain.isalpha() else _STROKES.get(letter, letter)


_LOST = re.compile("[?\ufffd]")
"""What programs write for a letter that their encoding lacks."""
_STROKES = dict(zip("ŁłĐđĦħŦŧ", "LlDdHhTt", strict=True))
"""The letters with a stroke, which Unicode does not decompose, and those without it."""


def known_id(number: int | None) -> int | None:
    """Return the id of a tag or category; None for 0, which services return if none was sent."""
    return number or None


def cell(pet: Pet | None, column: Column) -> str:
    """Return the field's text in a cell, empty if there is no pet or no value."""
    return "" if pet is None else _CELLS[column](pet)


def differing_columns(expected: Pet, found: Pet) -> tuple[Column, ...]:
    """Return the columns in which a pet is not the same as expected, in the table's order.

    `id` is not compared.
    """
    if expected == found:
        return ()
    return tuple(c for c in COLUMNS if c != "id" and not is_as_expected(expected, found, c))


def find_filled_columns(pet: Pet) -> tuple[Column, ...]:
    """Return the columns in which the pet has a value, in the table's order, without `id`."""
    return tuple([column for column, has in _HAS.items() if has(pet)])


def with_fields(pet: Pet, other: Pet, fields: Iterable[Column]) -> Pet:
    """Return the pet with the other pet's values in these fields. A category's name and id change
    together.
    """
    names = {"category" if field == "category_id" else field for field in fields}
    return msgspec.structs.replace(pet, **{name: getattr(other, name) for name in names})


def update_fields(current: Pet, before: Pet, after: Pet, fields: Iterable[Column]) -> Pet:
    """Return the current pet with the changes from `before` to `after` in these fields. A tag that
    does not change stays as the current pet has it, and so do the unknown fields of a category or
    tag, unless the change gives a tag other ones.
    """
    pet = with_fields(current, after, fields)
    if pet.tags is not current.tags:
        known_tags, earlier = (_find_tags(pet.tags, each.tags) for each in (current, before))
        tags = starmap(_update_tag, zip(pet.tags, known_tags, earlier, strict=True))
        pet = msgspec.structs.replace(pet, tags=tuple(tags))
    if pet.category is not None and current.category is not None:
        category = with_unknown_fields(pet.category, current.category)
        pet = msgspec.structs.replace(pet, category=category)
    return pet


def _update_tag(tag: Tag, known: Tag | None, was: Tag | None) -> Tag:
    """Return the tag that replaces `was`; `known` is the current one. None stands for no tag."""
    if known is None:
        return tag
    if was is not None and tag_key(tag) == tag_key(was):
        return known
    if was is not None and tag.extra != was.extra:
        return tag
    return msgspec.structs.replace(tag, extra=known.extra)


def with_unknown_fields(category: Category, known: Category) -> Category:
    """Return the category, with the unknown fields of the known one if they are the same category:
    their ids are equal or, if one has no id, their names.
    """
    number, other = known_id(category.id), known_id(known.id)
    is_same = number == other
    if number is None or other is None:
        is_same = normalize(category.name) == normalize(known.name)
    if not is_same or category.extra == known.extra:
        return category
    return msgspec.structs.replace(category, extra=known.extra)


def category_cells(pet: Pet) -> Category:
    """Return a pet's category, or an empty one if it has none."""
    return pet.category or Category()


def with_category(pet: Pet, cells: Category) -> Pet:
    """Return the pet with this category. A part that is None keeps the pet's value.

    With a cleared name, the number is ignored and the category is removed. An empty name without a
    number removes it too; an empty name with a number is a valid category.
    """
    is_nameless = cells.name is not None and not normalize(cells.name)
    if cells.name == CLEARED or (is_nameless and known_id(cells.id) is None):
        return msgspec.structs.replace(pet, category=None)
    old = category_cells(pet)
    number = old.id if cells.id is None else cells.id
    name = old.name if cells.name is None else cells.name
    if (number, name) == (old.id, old.name):
        return pet
    return msgspec.structs.replace(pet, category=Category(number, name))


def with_columns(pet: Pet, other: Pet, columns: Collection[str]) -> Pet:
    """Return the pet with the other pet's values in these columns.

    A category's two columns are independent. A part of the other pet's category that is None keeps
    the pet's value.
    """
    plain = [c for c in COLUMNS if c in columns and c not in COLUMNS_OF["category"]]
    cells = category_cells(other)
    name = cells.name if "category" in columns else None
    number = cells.id if "category_id" in columns else None
    return with_category(with_fields(pet, other, plain), Category(number, name))


def is_as_expected(expected: Pet, found: Pet, column: Column) -> bool:
    """Return true if a pet is as expected in a column.

    If the expected pet omits the id of a tag or category with a name, any id is accepted: the
    service assigns it. If it omits the name of a tag with an id, any name is accepted.
    """
    if equal(expected, found, column):
        return True
    if column == "tags":
        return same_tags(expected.tags, found.tags)
    return column == "category_id" and _is_assigned(expected.category, found.category)


def equal(one: Pet, other: Pet, column: Column) -> bool:
    """Return true if two pets are the same in a column, ids included.

    Use it for pets that a service returned: these omit no id. Equality is symmetric.
    """
    return key(one, column) == key(other, column)


def key(pet: Pet, column: Column) -> Hashable:
    """Return the key that equal pets share in a column."""
    return _KEYS[column](pet)


def is_another(old: Pet, current: Pet) -> bool:
    """Return true if the old and the current pet of an id look like two different pets.

    Their names differ. Their categories, tags and photos have nothing in common, and at least one
    of these three parts is in both pets. If only one part is in both, the status must differ as
    well, or the current pet must lack a part that the old one had.
    """
    if normalize(old.name) == normalize(current.name):
        return False
    sides = [
        (
            frozenset({normalize(pet.category.name if pet.category else None)} - {""}),
            tag_names(pet.tags),
            frozenset(photo_keys(pet.photo_urls)),
        )
        for pet in (old, current)
    ]
    both = [(one, other) for one, other in zip(*sides, strict=True) if one and other]
    lacks = any(one and not other for one, other in zip(*sides, strict=True))
    is_otherwise = len(both) > 1 or (
        both and (lacks or fold_status(old.status) != fold_status(current.status))
    )
    return bool(is_otherwise) and not any(one & other for one, other in both)


def same_tags(expected: Iterable[Tag], found: Iterable[Tag]) -> bool:
    """Return true if the tags, compared as sets, are as expected.

    Each expected tag is found. Each additional found tag corresponds to an expected tag that omits
    the id or the name.
    """
    wanted, there = _tag_keys(expected), _tag_keys(found)
    if wanted == there:
        return True
    loose, rest = [*(wanted - there)], [*(there - wanted)]
    if not all(any(_fits(one, other) for other in there) for one in loose):
        return False
    return None not in pair_rows(rest, loose, lambda n, place: _fits(loose[place], rest[n]))


def same_photos(expected: Iterable[str], found: Iterable[str]) -> bool:
    """Return true if the photo addresses are the same in the same order. Duplicates are ignored."""
    return photo_keys(expected) == photo_keys(found)


def tag_key(tag: Tag) -> tuple[int | None, str]:
    """Return the key that equal tags share."""
    return tag.id or None, normalize(tag.name)


def tag_names(tags: Iterable[Tag]) -> frozenset[str]:
    """Return the names of the tags in their form for comparisons, without empty ones."""
    return frozenset(normalize(tag.name) for tag in tags) - {""}


def ids_by_name(tags: Iterable[tuple[str | None, int | None]]) -> dict[str, set[int]]:
    """Return the ids that tags of each name have, by the name in its form for comparisons."""
    ids = defaultdict[str, set[int]](set)
    for name, number in tags:
        ids[normalize(name)].update([number] if number else ())
    return ids


def drop_clear_ids(pet: Pet, shared_names: Container[str]) -> Pet:
    """Return the pet without the ids of the tags that their names identify: the name is not empty,
    not in `shared_names`, and no other tag of the pet has it.
    """
    uses = Counter(name for _, name in set(map(tag_key, pet.tags)))
    tags = (
        Tag(None, tag.name)
        if (name := normalize(tag.name)) and name not in shared_names and uses[name] == 1
        else tag
        for tag in pet.tags
    )
    return msgspec.structs.replace(pet, tags=tuple(tags)) if pet.tags else pet


def matches(expected: Tag, found: Tag) -> bool:
    """Return true if a tag is the expected one. A part that the expected tag omits may have any
    value.
    """
    one = tag_key(expected)
    return one != _NO_TAG and _fits(one, tag_key(found))


_TagKey = tuple[int | None, str]
_NO_TAG: _TagKey = (None, "")
"""The key of a tag without id and name."""


def _tag_keys(tags: Iterable[Tag]) -> frozenset[_TagKey]:
    return frozenset(map(tag_key, tags)) - {_NO_TAG}


def _fits(expected: _TagKey, found: _TagKey) -> bool:
    return expected[0] in (None, found[0]) and expected[1] in ("", found[1])


def photo_keys(urls: Iterable[str]) -> tuple[str, ...]:
    """Return photo addresses in their form for comparisons: normalized, without duplicates, in
    order.
    """
    return tuple(dict.fromkeys(map(normalize, urls)))


def _is_assigned(expected: Category | None, found: Category | None) -> bool:
    """Return true if the names are equal and the expected category omits the id."""
    if expected is None or found is None or known_id(expected.id) is not None:
        return False
    return bool(normalize(expected.name)) and normalize(expected.name) == normalize(found.name)


def _category_id(pet: Pet) -> int | None:
    return pet.category.id if pet.category else None


def _category(pet: Pet) -> str | None:
    return pet.category.name if pet.category else None


_KEYS: Mapping[Column, Callable[[Pet], Hashable]] = {
    "id": lambda pet: pet.id,
    "name": lambda pet: normalize(pet.name),
    "status": lambda pet: fold_status(pet.status),
    "category": lambda pet: normalize(_category(pet)),
    "category_id": lambda pet: known_id(_category_id(pet)),
    "tags": lambda pet: _tag_keys(pet.tags),
    "photo_urls": lambda pet: photo_keys(pet.photo_urls),
}

_CELLS: Mapping[Column, Callable[[Pet], str]] = {
    "id": lambda pet: "" if pet.id is None else str(pet.id),
    "name": lambda pet: pet.name or "",
    "status": lambda pet: pet.status or "",
    "category": lambda pet: "" if (name := _category(pet)) == CLEARED else name or "",
    "category_id": lambda pet: "" if (number := _category_id(pet)) is None else str(number),
    "tags": lambda pet: format_tags(pet.tags),
    "photo_urls": lambda pet: format_photo_urls(pet.photo_urls),
}

_HAS: Mapping[Column, Callable[[Pet], object]] = {
    "name": lambda pet: normalize(pet.name),
    "status": lambda pet: normalize(pet.status),
    "category": lambda pet: normalize(_category(pet)),
    "category_id": lambda pet: known_id(_category_id(pet)) is not None,
    "tags": lambda pet: any(tag_key(tag) != _NO_TAG for tag in pet.tags),
    "photo_urls": lambda pet: pet.photo_urls,
}


# Photo URLs: merge the edits of two sides of one ordered list, compared trimmed and in NFC.


Urls = tuple[str, ...]


def resolve_photos(old: Urls, urls: Iterable[str]) -> Urls:
    """Return the given list, with the pet's spelling of each address that the pet has."""
    urls = tuple(urls)
    keys = photo_keys(urls)
    return old if photo_keys(old) == keys else _restore_spelling(keys, old, urls)


def merge_photos(base: Iterable[str], sheet: Iterable[str], store: Iterable[str]) -> Urls | None:
    """Return the list with both sides' removals, additions and moves, or None if both sides moved
    the same items differently.

    The order is the store's, unless only the sheet moved items. An item added by the side whose
    order is not kept comes after its predecessor on that side, and after items that the other side
    added at the same position.
    """
    sides = tuple(base), tuple(sheet), tuple(store)
    old, mine, theirs = map(photo_keys, sides)
    common = set(old) & set(mine) & set(theirs)
    was, here, there = ([u for u in side if u in common] for side in (old, mine, theirs))
    if here in (was, there):
        merged = _merge_urls(old, theirs, mine)
    elif there == was:
        merged = _merge_urls(old, mine, theirs)
    else:
        return None
    return _restore_spelling(merged, sides[2], sides[1])


def with_kept_photos(
    sheet: Iterable[str], store: Iterable[str], kept_urls: Collection[str]
) -> Urls:
    """Return the sheet's list with the store's items that are in `kept_urls`. Each of these items
    follows its predecessor in the store's list.
    """
    sides = tuple(store), tuple(sheet)
    theirs, mine = map(photo_keys, sides)
    held = frozenset(map(normalize, kept_urls))
    old = tuple(url for url in theirs if url in mine or url not in held)
    return _restore_spelling(_merge_urls(old, mine, theirs), *sides)


def _restore_spelling(keys: Iterable[str], first: Iterable[str], other: Iterable[str]) -> Urls:
    """Return the addresses in the first list's spelling, else in the other list's."""
    spelling: dict[str, str] = {}
    for url in (*first, *other):
        spelling.setdefault(normalize(url), url)
    return tuple(spelling[key] for key in keys)


def _merge_urls(old: Urls, first: Urls, other: Urls) -> Urls:
    """Return `first` without the items of `old` that `other` removed, and with the items that
    `other` added.
    """
    had, left = set(old), set(other)
    result = [url for url in first if url in left or url not in had]
    there = set(result)
    for n, url in enumerate(other):
        if url in had or url in there:
            continue
        result.insert(_place(result, other[:n], had | left, there), url)
        there.add(url)
    return tuple(result)


def _place(result: Sequence[str], before: Sequence[str], known: set[str], there: set[str]) -> int:
    """Return the position for the item that follows `before`.

    It comes after the last item of `before` that the result has, and after any directly following
    items that are not `known` to the other side.
    """
    leader = next((url for url in reversed(before) if url in there), None)
    place = 0 if leader is None else result.index(leader) + 1
    while place < len(result) and result[place] not in known:
        place += 1
    return place


# Vocabulary: the store's categories and tags, to complete a category or tag that has only a name or
# only an id in a sheet.


T = TypeVar("T", Category, Tag)


class Usage(NamedTuple):
    """How often a store uses its categories and tags."""

    categories: Counter[Category]
    """The categories, with the number of pets that have each."""
    tags: Counter[Tag]
    """The tags, with the number of pets that have each."""


@dataclass(frozen=True)
class Vocabulary:
    """The categories and tags of the pets in `frame`, counted at the first use.

    If a name has several ids (or an id several names), the most frequent one counts; of equally
    frequent ones, the lowest.
    """

    frame: pd.DataFrame
    usage: Usage | None = None
    """The use of the categories and tags, if `frame` has only a part of the pets."""

    def tag_named(self, name: str) -> Tag | None:
        """Return the store's tag with this name."""
        return _find_named(self._tags[0], name)

    def tag_numbered(self, identity: int) -> Tag | None:
        """Return the store's tag with this id."""
        return self._tags[1].get(identity)

    def category_named(self, name: str) -> Category | None:
        """Return the store's category with this name."""
        return _find_named(self._categories[0], name)

    def category_numbered(self, identity: int) -> Category | None:
        """Return the store's category with this id."""
        return self._categories[1].get(identity)

    def category_spelled(self, name: str) -> Category | None:
        """Return the store's category whose name is another spelling of this name.

        Case, the width of letters, and spaces between words are ignored.
        """
        return self._spellings.get(spelling(name))

    def tag_spelled(self, name: str) -> Tag | None:
        """Return the store's tag whose name is another spelling of this name, as for categories."""
        return self._tag_spellings.get(spelling(name))

    @property
    def categories(self) -> list[str]:
        """The names of the categories that the store uses."""
        return sorted({c.name for c in self.used_categories if c.name})

    def knows(self, category: Category) -> bool:
        """Return true if the store uses exactly this pair of name and id."""
        return (normalize(category.name), known_id(category.id)) in self._pairs

    @cached_property
    def _tags(self) -> tuple[Mapping[str, Tag], Mapping[int, Tag]]:
        return _by_use(self.used_tags)

    @cached_property
    def _categories(self) -> tuple[Mapping[str, Category], Mapping[int, Category]]:
        return _by_use(self.used_categories)

    @cached_property
    def _spellings(self) -> Mapping[str, Category]:
        return _by_spelling(self._categories[0])

    @cached_property
    def _tag_spellings(self) -> Mapping[str, Tag]:
        return _by_spelling(self._tags[0])

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, int | None]]:
        return frozenset((normalize(c.name), known_id(c.id)) for c in self.used_categories)

    @cached_property
    def used_tags(self) -> Counter[Tag]:
        """The tags, with the number of pets that have each."""
        return count_items(self.frame["tags"].array) if self.usage is None else self.usage.tags

    @cached_property
    def used_categories(self) -> Counter[Category]:
        """The categories, with the number of pets that have each."""
        if self.usage is not None:
            return self.usage.categories
        names = pa.array(self.frame["category"], pa.large_string(), from_pandas=True)
        whole = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        ids = self.frame["category_id"]
        numbers = pa.array(ids.to_numpy(np.int64, na_value=0), mask=ids.isna().to_numpy())
        return count_categories(whole, numbers)


class UnreadVocabulary(Vocabulary):
    """The vocabulary of a store that was not read as a whole: it knows no category and no tag.
    `questions` has the names and ids that were looked for, because the answers may be wrong.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__(frame[:0])
        object.__setattr__(self, "questions", {})

    questions: dict[str, None]
    """For example `tag 'friendly'` and `category 7`, in the order in which they were asked."""

    def tag_named(self, name: str) -> None:
        """Return None."""
        self.questions[f"tag {name!r}"] = None

    def tag_numbered(self, identity: int) -> None:
        """Return None."""
        self.questions[f"tag {identity}"] = None

    def category_named(self, name: str) -> None:
        """Return None."""
        self.questions[f"category {name!r}"] = None

    def category_numbered(self, identity: int) -> None:
        """Return None."""
        self.questions[f"category {identity}"] = None

    def category_spelled(self, name: str) -> None:
        """Return None."""
        self.category_named(name)

    def tag_spelled(self, name: str) -> None:
        """Return None."""
        self.tag_named(name)

    def knows(self, category: Category) -> bool:
        """Return false."""
        self.category_named(category.name or "")
        return False


def _find_named(named: Mapping[str, T], name: str) -> T | None:
    # Most names are normalized already.
    found = named.get(name)
    return named.get(normalize(name)) if found is None else found


def _by_spelling(named: Mapping[str, T]) -> dict[str, T]:
    """Return the categories or tags by the common form of their spellings, the most used one of
    each.
    """
    found: dict[str, T] = {}
    for name, thing in named.items():
        found.setdefault(spelling(name), thing)
    return found


def count_categories(names: pa.Array, numbers: pa.Array) -> Counter[Category]:
    """Return the categories with these names and ids, with the number of pets that have each."""
    codes, pairs = encode_pairs(names, numbers)
    counts = np.bincount(codes, minlength=len(pairs)).tolist()
    return Counter(
        {
            Category(number, name): count
            for (name, number), count in zip(pairs, counts, strict=True)
            if number is not None or name is not None
        }
    )


def _by_use(counts: Counter[T]) -> tuple[dict[str, T], dict[int, T]]:
    """Return the categories or tags by name and by id. If several have the same name or id, the
    most used one is returned.
    """
    named: dict[str, T] = {}
    numbered: dict[int, T] = {}
    for thing in sorted(counts, key=lambda t: (-counts[t], not t.id, t.id or 0, t.name or "")):
        if thing.name:
            named.setdefault(normalize(thing.name), thing)
        if known_id(thing.id) is not None and thing.id is not None:
            numbered.setdefault(thing.id, thing)
    return named, numbered


# Tags: find the pet's tag for each tag of a sheet, and merge two sides' edits of a set of tags.


Tags = tuple[Tag, ...]


def resolve_tags(old: Tags, tags: Iterable[Tag], vocabulary: Vocabulary) -> Tags:
    """Return the sheet's tags, replaced by the matching tags of the pet or the store. The pet's
    tags come first, in the pet's order.

    A tag that stays therefore keeps its id and its unknown fields.
    """
    resolved = _resolve_tags(tags, old, vocabulary)
    if not old:
        return tuple(dict.fromkeys(resolved))
    rest = [tag for tag in old if tag in resolved]
    fresh = dict.fromkeys(tag for tag in resolved if tag not in rest)
    return (*rest, *fresh)


def merge_tags(base: Tags, tags: Sequence[Tag], store: Tags, vocabulary: Vocabulary) -> Tags:
    """Return the store's tags without the tags that the sheet removed from the base, and with the
    tags that it added.
    """
    resolved = _resolve_tags(tags, base, vocabulary)
    had, has = set(map(tag_key, base)), set(map(tag_key, resolved))
    removed = [tag for tag in base if tag_key(tag) not in has]
    renumbered = _find_renumbered(removed, base, store, has)
    rest = [
        tag
        for tag in store
        if tag_key(tag) in has
        or not (tag_key(tag) in renumbered or any(matches(each, tag) for each in removed))
    ]
    added = [
        _tag(tag, store, vocabulary)
        for tag, known in zip(tags, resolved, strict=True)
        if tag_key(known) not in had and _find_match(tag, rest) is None
    ]
    return (*rest, *dict.fromkeys(added))


def _find_renumbered(
    removed: Iterable[Tag], base: Tags, store: Tags, has: Collection[_TagKey]
) -> set[_TagKey]:
    """Return the keys of the store's tags that are `removed` tags of the base whose id the store
    changed: the name identifies them, unless the sheet added a tag of this name. `has` has the keys
    of the sheet's tags.
    """
    had, there = set(map(tag_key, base)), set(map(tag_key, store))
    lost = Counter(tag_key(tag)[1] for tag in removed if tag_key(tag) not in there)
    for name in {"", *(name for number, name in has if (number, name) not in had)}:
        del lost[name]
    # Tags that the sheet keeps are found first.
    kept = Counter(name for number, name in (had & {*has}) - there)
    found = set()
    for key in map(tag_key, store):
        if key in had or key in has or not lost[key[1]]:
            continue
        counts = kept if kept[key[1]] else lost
        counts[key[1]] -= 1
        if counts is lost:
            found.add(key)
    return found


def _resolve_tags(
    sheet_tags: Iterable[Tag], old: Sequence[Tag], vocabulary: Vocabulary
) -> list[Tag]:
    """Return the matching tag of the pet or the store for each of the sheet's tags, or the sheet's
    tag if none matches.

    Tags with both id and name go first. A tag without an id is then matched with a tag of its name
    that no other tag of the sheet matches, if there is one.
    """
    tags = list(sheet_tags)
    found = _find_tags(tags, old)
    return [known or _tag(tag, old, vocabulary) for known, tag in zip(found, tags, strict=True)]


def _find_tags(tags: Sequence[Tag], old: Sequence[Tag]) -> list[Tag | None]:
    """Return the matching tag in `old` for each tag, None if none matches; each at most once."""
    found: list[Tag | None] = [None] * len(tags)
    free = list(old)
    places = range(len(tags)) if free else ()
    for place in sorted(places, key=lambda place: None in _parts(tags[place])):
        known = found[place] = _find_match(tags[place], free)
        if known is not None:
            free.remove(known)
    return found


def _parts(tag: Tag) -> tuple[int | None, str | None]:
    number, name = tag_key(tag)
    return number, name or None


def _tag(tag: Tag, old: Sequence[Tag], vocabulary: Vocabulary) -> Tag:
    known = _find_match(tag, old)
    if known is not None:
        return known
    number, name = tag_key(tag)
    if number is None and name:
        return vocabulary.tag_named(name) or tag
    if number is not None and not name:
        return vocabulary.tag_numbered(number) or tag
    return tag


def _find_match(sheet_tag: Tag, old: Sequence[Tag]) -> Tag | None:
    """Return the tag that matches the sheet's tag.

    An equal tag has priority over one with more parts.
    """
    key = tag_key(sheet_tag)
    if key == _NO_TAG:
        return None
    candidates = []
    for tag in old:
        other = tag_key(tag)
        if other == key:
            return tag
        if _fits(key, other):
            candidates.append(tag)
    return candidates[0] if candidates else None


# Units: the parts of a pet that change as one. A category's name and id are one unit.


def has_value(values: Mapping[Column, Any], unit: Unit) -> bool:
    """Return true if a row has a value of the unit."""
    return unit in values or (unit == "category" and "category_id" in values)


def find_row_columns(fields: Iterable[Column], values: Container[Column]) -> tuple[Column, ...]:
    """Return the row's columns that cause the changes in these fields.

    If only one column of a category changes, the row may have a value only in the other column.
    """
    fields = tuple(fields)
    if fields and "category" not in fields and "category_id" not in fields:
        return tuple(field for field in fields if field in values)
    units = {unit: of for unit, of in COLUMNS_OF.items() if any(c in of for c in fields)}
    own = [column for column in fields if column in values]
    others = [column for of in units.values() for column in of if column in values]
    return tuple(dict.fromkeys([*own, *others]))


def unit_key(pet: Pet, unit: Unit) -> Hashable:
    """Return the key that equal pets share in a unit."""
    if unit == "category":
        return key(pet, "category"), key(pet, "category_id")
    return key(pet, unit)


def content(pet: Pet, units: Iterable[Unit] = UNITS) -> tuple[Hashable, ...]:
    """Return the content of these units: a key that two pets share if they are the same in them.

    It is everything except the ids of tags and category, which a service may assign. The id of a
    category without a name is part of it.
    """
    return tuple([_CONTENTS[unit](pet) for unit in units])


def unit_content(pet: Pet, unit: Unit) -> Hashable:
    """Return the content of one unit; it is empty if the pet has no value."""
    return _CONTENTS[unit](pet)


_CONTENTS: Mapping[Unit, Callable[[Pet], Hashable]] = {
    "name": _KEYS["name"],
    "status": _KEYS["status"],
    "category": lambda pet: key(pet, "category") or key(pet, "category_id") or "",
    "tags": lambda pet: tag_names(pet.tags),
    "photo_urls": _KEYS["photo_urls"],
}


def changed_columns(expected: Pet, found: Pet, unit: Unit) -> tuple[Column, ...]:
    """Return the columns of a unit in which a pet is not the same as expected."""
    one, other = getattr(expected, unit), getattr(found, unit)
    if one is other or one == other:
        return ()
    return tuple(c for c in COLUMNS_OF[unit] if not is_as_expected(expected, found, c))


def unit_text(pet: Pet | None, unit: Unit, cell: Callable[[Pet | None, Column], str]) -> str:
    """Return a unit's text in a cell. A category is shown as `Dogs (1)`."""
    if unit != "category":
        return cell(pet, unit)
    name, number = cell(pet, "category"), cell(pet, "category_id")
    return f"{name} ({number})".strip() if number else name
