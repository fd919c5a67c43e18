"""The differences between two tables of pets, or between two tables and the base of both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import pandas as pd

from petsync._display import as_html, as_text, count
from petsync.models import Category, Pet, Tag
from petsync.plan import match
from petsync.plan.change import Blocked, LongSequence
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    cell,
    content,
    normalize,
    tag_key,
    unit_text,
)
from petsync.plan.notes import first_items
from petsync.table.cells import format_tags
from petsync.table.columns import COLUMNS, Column
from petsync.table.dtypes import typed_frame
from petsync.table.frame import lacks_id, pets_at, plain_values

__all__ = [
    "DifferenceKind",
    "Differences",
    "RepeatedRow",
    "RowDifference",
    "Side",
    "find_differences",
]


DifferenceKind = Literal["conflict", "differs", "only-a", "only-b", "a", "b"]
_ORDER = {kind: n for n, kind in enumerate(get_args(DifferenceKind))}
DIFFERENCES_FORMAT = 1


class RowDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is different in A and B."""

    kind: DifferenceKind
    """The kind. Without a base: "differs", "only-a", "only-b". With a base: "a" if only A differs
    from the base in these columns, "b" if only B does, "conflict" if both do in different ways.
    """
    pet_id: int | None
    """The pet's id, None if the row has none."""
    name: str
    """The pet's name, in A if it has one there."""
    where_a: str = ""
    """The row's address in A, "" if A does not have it."""
    where_b: str = ""
    """The row's address in B, "" if B does not have it."""
    values: Mapping[str, tuple[str, str]] = {}
    """By column, the texts of the different cells in A and B; with kind "a" or "b", in the base and
    in that side. A category is written with its id, such as `Dogs (1)`.
    """
    base: Mapping[str, str] = {}
    """For a conflict: the texts in the base, by column."""
    missing: Literal["", "a", "b", "base"] = ""
    """With a base: the table without the row. "a" or "b" for a row that this side removed, "base"
    for one that a side added, "" for any other row.
    """

    @property
    def listed_as(self) -> str:
        """The kind; for a row that one side added or removed, such as "a-added" or "b-removed"."""
        if self.kind not in ("a", "b") or not self.missing:
            return self.kind
        return f"{self.kind}-{'added' if self.missing == 'base' else 'removed'}"

    def cells(self) -> Iterator[tuple[str, tuple[str, str, str]]]:
        """Yield the different columns with their texts in A, in B and in the base."""
        for column, (one, other) in self.values.items():
            if self.kind == "a":
                yield column, (other, one, one)
            elif self.kind == "b":
                yield column, (one, other, one)
            else:
                yield column, (one, other, self.base.get(column, ""))


class RepeatedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is the same as another row with its id, so that both count once."""

    pet_id: int
    """The pet's id."""
    where: str
    """The row's address."""


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between A and B. It is true if there are any, or if `has_other_repeats`."""

    format: int = DIFFERENCES_FORMAT
    """The version of the format in JSON."""
    a: str
    """The name of A, such as its path."""
    b: str
    """The name of B."""
    base: str = ""
    """The name of the base, "" without one."""
    rows_a: int
    """The number of rows of A."""
    rows_b: int
    """The number of rows of B."""
    equal: int
    """The number of rows that are equal in A and B; with a base, of those in which neither differs
    from it.
    """
    same: int = 0
    """With a base: the number of rows that A and B changed in the same way."""
    rows: Sequence[RowDifference] = ()
    """The differences: the kinds in their order, and each kind in the order of the rows."""
    blocked_a: tuple[Blocked, ...] = ()
    """The rows of A that could not be compared because of an error, in them or in another row of
    their pet, on any side.
    """
    blocked_b: tuple[Blocked, ...] = ()
    """The rows of B that could not be compared, for the same reasons."""
    repeated_a: tuple[RepeatedRow, ...] = ()
    """The rows of A that repeat another row."""
    repeated_b: tuple[RepeatedRow, ...] = ()
    """The rows of B that repeat another row."""
    notes: tuple[str, ...] = ()
    """What was not compared, and repeated rows, in sentences."""

    def __bool__(self) -> bool:
        return bool(self.rows) or self.has_other_repeats

    @property
    def has_other_repeats(self) -> bool:
        """True if A and B repeat the rows of a compared pet a different number of times."""
        blocked = {row.pet_id for row in (*self.blocked_a, *self.blocked_b)}
        one, other = (
            Counter(row.pet_id for row in rows if row.pet_id not in blocked)
            for rows in (self.repeated_a, self.repeated_b)
        )
        return one != other

    @property
    def counts(self) -> Mapping[DifferenceKind, int]:
        """The number of differences of each kind."""
        if isinstance(self.rows, LongRows):
            return Counter(self.rows.kinds)
        return Counter(row.kind for row in self.rows)

    @property
    def exit_code(self) -> int:
        """2 if there are differences, else 3 if rows could not be compared, else 0."""
        return 2 if self else 3 if self.blocked_a or self.blocked_b else 0

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with one row for each different cell.

        Its columns are kind, id (Int64), name, column, a, b, base, where_a and where_b.
        """
        names = ["kind", "id", "name", "column", "a", "b", "base", "where_a", "where_b"]
        rows = [
            [row.kind, row.pet_id, row.name, column, *sides, row.where_a, row.where_b]
            for row in self.rows
            for column, sides in row.cells()
        ]
        return typed_frame(rows, names)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """A table of pets, as one side of a comparison."""

    name: str
    """The name for the user."""
    frame: pd.DataFrame
    """The pets in canonical columns, or some of these, and in any order; a blank is missing."""
    others: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The other columns as texts, with the index of `frame`."""
    address: Callable[[Any], str] = lambda _: ""
    """Returns the address of the row with this index."""
    blocked: tuple[Blocked, ...] = ()
    """The rows that are not in `frame` because of an error."""
    repeated: tuple[RepeatedRow, ...] = ()
    """The rows that are not in `frame` because another row with their id is the same."""
    agreeing: int = 0
    """The number of rows that are not in `frame` because the other side has the same rows."""
    scope: frozenset[int] | None = None
    """If the table is only about some pets: their ids. Other pets of the other side are left
    out."""
    notes: tuple[str, ...] = ()


class _Pair(NamedTuple):
    """The positions of a row in A and in B, -1 if the row is missing there."""

    a: int
    b: int

    @property
    def kind(self) -> DifferenceKind:
        """The kind of the pair's difference."""
        return "only-b" if self.a < 0 else "only-a" if self.b < 0 else "differs"


def find_differences(
    a: Side, b: Side, base: Side | None = None, *, match_on: Sequence[Column] = ()
) -> Differences:
    """Return the differences between A and B or, with a base, between each of them and the base.

    Only columns that all sides have are compared; `notes` names the others. Rows are paired by
    their ids. A row without an id is paired with a row that has the same values, else with the only
    row of the same name or, with `match_on`, of the same values in these columns. Texts, statuses,
    tags and photos are the same as in a plan, but a blank cell is a value: it differs from a filled
    one. A pet with a blocked row on any side is not compared: its other rows are blocked, too.
    """
    sides = _block_pets([a, b] if base is None else [base, a, b])
    a, b = sides[-2:]
    columns = [c for c in COLUMNS if all(c in side.frame for side in sides)]
    own = [c for c in a.others.columns if all(c in side.others for side in sides)]
    tables = [_Table(side, columns, own) for side in sides]
    notes = [*_iter_notes(sides, columns, own), *(note for side in sides for note in side.notes)]
    if base is None:
        compared = _Comparison(tables[0], tables[1], match_on)
        equal, same = compared.equal, 0
        rows: Sequence[RowDifference] = LongRows(compared)
        if compared.left_out:
            pets = count(compared.left_out, "pet")
            notes.append(f"{pets} that the plan is not about: left out.")
    else:
        merged = _Merge(tables[0], tables[1], tables[2], match_on)
        rows = sorted(merged.rows(), key=lambda row: _ORDER[row.kind])
        equal, same = merged.equal, merged.same
    return Differences(
        a=a.name,
        b=b.name,
        base="" if base is None else base.name,
        rows_a=len(a.frame) + len(a.blocked) + len(a.repeated) + a.agreeing,
        rows_b=len(b.frame) + len(b.blocked) + len(b.repeated) + b.agreeing,
        equal=equal + a.agreeing,
        same=same,
        rows=rows,
        blocked_a=a.blocked,
        blocked_b=b.blocked,
        repeated_a=a.repeated,
        repeated_b=b.repeated,
        notes=tuple(dict.fromkeys(notes)),
    )


def _block_pets(sides: list[Side]) -> list[Side]:
    """Return the sides without the rows of pets that have a blocked row on any side. These rows are
    blocked, too.
    """
    problems: dict[int, str] = {}
    for side in sides:
        for row in side.blocked:
            if row.pet_id is not None:
                text = f"Another row with this id has an error: {side.name}, {row.source}: "
                problems.setdefault(row.pet_id, text + row.problem)
    return [_block_rows(side, problems) for side in sides] if problems else sides


def _block_rows(side: Side, problems: Mapping[int, str]) -> Side:
    """Return the side without the rows of these pets, which are blocked with their problems."""
    if "id" not in side.frame:
        return side
    is_blocked = side.frame["id"].isin([*problems]).to_numpy(bool)
    if not is_blocked.any():
        return side
    ids = plain_values(side.frame["id"].array[is_blocked])
    rows = tuple(
        Blocked(row=row, source=side.address(row), problem=problems[pet_id], pet_id=pet_id)
        for row, pet_id in zip(side.frame.index[is_blocked].tolist(), ids, strict=True)
    )
    others = side.others[~is_blocked] if len(side.others.columns) else side.others
    blocked = (*side.blocked, *rows)
    return replace(side, frame=side.frame[~is_blocked], others=others, blocked=blocked)


def _iter_notes(sides: Sequence[Side], columns: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on the columns that only some sides have, unless all their cells are blank,
    as those of an export's `action`.
    """
    for side in sides:
        missing = [str(c) for c in COLUMNS if c not in columns and c in side.frame]
        missing += [str(c) for c in side.others.columns if c not in own and _has_text(side, c)]
        if missing:
            others = [
                each.name
                for each in sides
                if any(c not in each.frame and c not in each.others for c in missing)
            ]
            lack = f"{' and '.join(others)} {'lacks' if len(others) == 1 else 'lack'}"
            yield f"Not compared: {', '.join(missing)} of {side.name}, which {lack}."
        if side.blocked and side is sides[0] and len(sides) > 2:
            yield f"{count(len(side.blocked), 'row')} of {side.name} could not be compared."
        if side.repeated:
            places = first_items([each.where for each in side.repeated])
            rows = count(len(side.repeated), "row")
            yield f"{side.name} repeats {rows}: {places}; each counts once."


def _has_text(side: Side, column: str) -> bool:
    """Return true if the side has a filled cell in one of its own columns."""
    return any(map(str.strip, map(str, side.others[column].fillna("").unique())))


class _Table:
    """The columns of a side that are compared."""

    def __init__(self, side: Side, columns: Sequence[Column], own: Sequence[str]) -> None:
        self.side, self.own = side, list(own)
        self.columns = columns
        self.frame = side.frame[[*columns]]
        self.units = [unit for unit in UNITS if any(c in columns for c in COLUMNS_OF[unit])]
        self._index = side.frame.index
        self._texts = [side.others[name].fillna("").astype(object).to_numpy() for name in self.own]

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def lacking(self) -> match.Mask:
        """A mask of the rows without an id."""
        return lacks_id(self.frame)

    def part(self, at: match.Positions) -> _Table:
        """Return the table of the rows at these positions."""
        side = self.side
        others = side.others.iloc[at] if len(side.others.columns) else side.others
        part = replace(side, frame=side.frame.iloc[at], others=others)
        return _Table(part, self.columns, self.own)

    def pets(self, at: Sequence[int] | match.Positions, unit: Unit | None = None) -> list[Pet]:
        """Return the pets at these positions; with a `unit`, only its values."""
        if unit is None:
            return pets_at(self.frame, at)
        return pets_at(self.frame[[name for name in COLUMNS_OF[unit] if name in self.columns]], at)

    def where(self, at: int) -> str:
        """Return the address of the row at this position, "" for -1."""
        return "" if at < 0 else self.side.address(self._index[at])

    def own_texts(self, at: int) -> list[str]:
        """Return the texts of the own columns of the row at this position; "" for -1."""
        return [str(texts[at]).strip() if at >= 0 else "" for texts in self._texts]

    def differ_in_own(self, at: match.Positions, other: _Table, places: match.Positions) -> Any:
        """Return a mask of the rows `at` that differ from those of another table at the `places` in
        an own column.
        """
        mask = np.zeros(len(at), dtype=bool)
        for mine, theirs in zip(self._texts, other._texts, strict=True):
            unequal = np.flatnonzero(mine[at] != theirs[places])
            pairs = zip(mine[at[unequal]], theirs[places[unequal]], strict=True)
            differ = (str(one).strip() != str(two).strip() for one, two in pairs)
            mask[unequal] |= np.fromiter(differ, bool, len(unequal))
        return mask


class _Comparison:
    """The rows of two tables in pairs, and their differences."""

    def __init__(self, a: _Table, b: _Table, match_on: Sequence[Column] = ()) -> None:
        self._a, self._b, self._on = a, b, match_on
        self._units: dict[_Pair, list[Unit]] = {}
        at_a, at_b = self._pair_by_id()
        rest_a, rest_b = _rest(len(a), at_a), _rest(len(b), at_b)
        others = self._pair_others(rest_a.tolist(), rest_b.tolist())
        self.at_a = np.concatenate([at_a, np.array([pair.a for pair in others], np.intp)])
        """The positions in A of the rows that both tables have."""
        self.at_b = np.concatenate([at_b, np.array([pair.b for pair in others], np.intp)])
        """The positions of these rows in B."""
        different = self._select_different()
        self.equal = len(self.at_a) - len(different)
        """The number of rows that are equal."""
        only_b = [_Pair(-1, n) for n in _rest(len(b), self.at_b).tolist()]
        only_a = [_Pair(n, -1) for n in _rest(len(a), self.at_a).tolist()]
        in_scope = [*_in_scope(only_b, b, a), *_in_scope(only_a, a, b)]
        self.left_out = len(only_a) + len(only_b) - len(in_scope)
        """The number of rows of one table that the other one is not about."""
        self.pairs = [*sorted(different, key=lambda pair: pair.b), *in_scope]
        """The rows that differ, in the order of B; then those that only A has."""

    def rows(self, pairs: Sequence[_Pair]) -> Iterator[RowDifference]:
        """Yield the difference of each of these `pairs`."""
        pets_a = _pets_of(self._a, [pair.a for pair in pairs])
        pets_b = _pets_of(self._b, [pair.b for pair in pairs])
        for pair, one, two in zip(pairs, pets_a, pets_b, strict=True):
            pets = [pet for pet in (one, two) if pet is not None]
            yield RowDifference(
                kind=pair.kind,
                pet_id=next((pet.id for pet in pets if pet.id is not None), None),
                name=next((pet.name for pet in pets if pet.name), ""),
                where_a=self._a.where(pair.a),
                where_b=self._b.where(pair.b),
                values=self._values(pair, one, two),
            )

    def _values(self, pair: _Pair, one: Pet | None, two: Pet | None) -> dict[str, tuple[str, str]]:
        """Return the texts of the different cells of a pair, by column."""
        units = self._units.get(pair, self._a.units)
        texts: dict[str, tuple[str, str]] = {
            unit: _tag_texts(one, two)
            if unit == "tags"
            else (unit_text(one, unit, cell), unit_text(two, unit, cell))
            for unit in units
        }
        own = zip(self._a.own, self._a.own_texts(pair.a), self._b.own_texts(pair.b), strict=True)
        texts |= {name: (mine, theirs) for name, mine, theirs in own if mine != theirs}
        is_both = one is not None and two is not None
        return {name: sides for name, sides in texts.items() if is_both or any(sides)}

    def _pair_by_id(self) -> tuple[match.Positions, match.Positions]:
        """Return the positions in A and B of the rows with the same id."""
        if "id" not in self._a.columns:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        at_a, at_b = (np.flatnonzero(~table.lacking) for table in (self._a, self._b))
        known = self._a.frame if len(at_a) == len(self._a) else self._a.frame.iloc[at_a]
        places = match.positions(self._b.frame["id"].array.take(at_b), known)
        there = places >= 0
        return at_a[places[there]], at_b[there]

    def _pair_others(self, rest_a: list[int], rest_b: list[int]) -> list[_Pair]:
        """Pair rows of which at least one has no id: by all values, then by the name."""
        lacking_a, lacking_b = self._a.lacking, self._b.lacking
        if not (rest_a and rest_b and (lacking_a[rest_a].any() or lacking_b[rest_b].any())):
            return []
        pets_a = dict(zip(rest_a, self._a.pets(rest_a), strict=True))
        pets_b = dict(zip(rest_b, self._b.pets(rest_b), strict=True))
        found: list[_Pair] = []
        for key, is_unique in self._keys():
            groups_a, groups_b = _group(self._a, pets_a, key), _group(self._b, pets_b, key)
            for each, ones in groups_a.items():
                twos = groups_b.get(each, [])
                if is_unique and (len(ones), len(twos)) != (1, 1):
                    continue
                for one, two in zip(ones, twos, strict=False):
                    if lacking_a[one] or lacking_b[two]:
                        found.append(_Pair(one, two))
                        del pets_a[one], pets_b[two]
        return found

    def _keys(self) -> Iterator[tuple[_RowKey, bool]]:
        """Yield the keys by which rows are paired, each with whether it must be unique."""
        if self._on:
            columns = self._on
            yield lambda _, pet: tuple(normalize(cell(pet, column)) for column in columns), True
            return
        units = self._a.units
        yield lambda own, pet: (*own, *content(pet, units)), False
        yield lambda _, pet: content(pet, units), False
        if "name" in units:
            yield lambda _, pet: normalize(pet.name) or id(pet), True

    def _select_different(self) -> list[_Pair]:
        """Return the pairs whose values differ, and remember in which units."""
        masks = match.find_different_units(self._b.frame, self.at_b, self._a.frame, self.at_a)
        for unit, is_same in _SAME.items():
            at = np.flatnonzero(masks[unit])
            at_a, at_b = self.at_a[at], self.at_b[at]
            kinds, firsts = match.find_kinds(self._a.frame, at_a, self._b.frame, at_b, unit)
            pets_a, pets_b = self._a.pets(at_a[firsts], unit), self._b.pets(at_b[firsts], unit)
            differ = [not is_same(*both) for both in zip(pets_a, pets_b, strict=True)]
            masks[unit][at] = np.array(differ, dtype=bool)[kinds]
        own = self._a.differ_in_own(self.at_a, self._b, self.at_b)
        at = np.flatnonzero(match.any_unit(masks) | own)
        pairs = map(_Pair, self.at_a[at].tolist(), self.at_b[at].tolist())
        differ_in = (masks[unit][at].tolist() for unit in self._a.units)
        for pair, *are_different in zip(pairs, *differ_in, strict=True):
            self._units[pair] = [*compress(self._a.units, are_different)]
        return [*self._units]


class LongRows(LongSequence[RowDifference]):
    """The differences of two tables. Each is made only when it is read."""

    def __init__(self, compared: _Comparison) -> None:
        self._compared = compared
        self._pairs = sorted(compared.pairs, key=lambda pair: _ORDER[pair.kind])
        self.kinds: Sequence[DifferenceKind] = [pair.kind for pair in self._pairs]
        """The kind of each difference."""

    def __len__(self) -> int:
        return len(self._pairs)

    def make(self, number: int) -> RowDifference:
        """Return the difference at this position."""
        return self.make_all(range(number, number + 1))[0]

    def make_all(self, numbers: range) -> tuple[RowDifference, ...]:
        """Return the differences at these positions."""
        return tuple(self._compared.rows([self._pairs[n] for n in numbers]))

    def __iter__(self) -> Iterator[RowDifference]:
        return self._compared.rows(self._pairs)

    def __reduce__(self) -> tuple[type[list[RowDifference]], tuple[list[RowDifference]]]:
        return list, ([*self],)


def _have_same_tags(one: Pet, other: Pet) -> bool:
    """Return true if the tags have the same names, and the same ids where both have one."""
    tags = [sorted(map(tag_key, p.tags), key=lambda k: (k[1], k[0] or 0)) for p in (one, other)]
    return len(tags[0]) == len(tags[1]) and all(
        mine[1] == theirs[1] and _fit(mine[0], theirs[0])
        for mine, theirs in zip(*tags, strict=True)
    )


def _have_same_category(one: Pet, other: Pet) -> bool:
    """Return true if the categories have the same name, and the same id if both have one."""
    mine, theirs = one.category or Category(), other.category or Category()
    return normalize(mine.name) == normalize(theirs.name) and _fit(mine.id, theirs.id)


def _fit(one: int | None, other: int | None) -> bool:
    return not one or not other or one == other


_SAME: Mapping[Unit, Callable[[Pet, Pet], bool]] = {
    "tags": _have_same_tags,
    "category": _have_same_category,
}
"""Units in which an id counts only if both sides have one."""


def _rest(size: int, used: match.Positions) -> match.Positions:
    """Return the positions that are not used."""
    is_free = np.ones(size, dtype=bool)
    is_free[used] = False
    return np.flatnonzero(is_free)


def _in_scope(pairs: list[_Pair], own: _Table, other: _Table) -> list[_Pair]:
    """Return the rows of one table that the other one is about."""
    scope = other.side.scope
    if scope is None or "id" not in own.frame:
        return pairs
    ids = plain_values(own.frame["id"].array)
    return [pair for pair in pairs if ids[max(pair)] in scope]


def _pets_of(table: _Table, at: Sequence[int]) -> Iterator[Pet | None]:
    pets = iter(table.pets([n for n in at if n >= 0]))
    return (next(pets) if n >= 0 else None for n in at)


_RowKey = Callable[[Sequence[str], Pet], Hashable]
"""Returns the key of a row with these texts in its own columns."""


def _group(table: _Table, pets: Mapping[int, Pet], key: _RowKey) -> dict[Hashable, list[int]]:
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for at, pet in pets.items():
        groups[key(table.own_texts(at), pet)].append(at)
    return groups


def _tag_texts(one: Pet | None, two: Pet | None) -> tuple[str, str]:
    """Return the texts of the cells with the tags of both sides. A tag has its id only if its name
    is missing or repeated, or if the other side has the name with another id.
    """
    sides = [() if pet is None else pet.tags for pet in (one, two)]
    mine, theirs = (_ids_by_name(tags) for tags in sides)
    shown = {""}
    for name in {*mine, *theirs}:
        ids, others = mine[name], theirs[name]
        if max(len(ids), len(others)) > 1 or not all(map(_fit, ids, others)):
            shown.add(name)
    first, second = (
        format_tags(tag if tag_key(tag)[1] in shown else Tag(None, tag.name) for tag in tags)
        for tags in sides
    )
    return first, second


def _ids_by_name(tags: Iterable[Tag]) -> defaultdict[str, list[int | None]]:
    ids: defaultdict[str, list[int | None]] = defaultdict(list)
    for number, name in map(tag_key, tags):
        ids[name].append(number)
    return ids


class _Merge:
    """The changes of two tables against the base of both."""

    def __init__(self, base: _Table, a: _Table, b: _Table, match_on: Sequence[Column] = ()) -> None:
        self._a, self._b, self._on = a, b, match_on
        self._to_a = _Comparison(base, a, match_on)
        self._to_b = _Comparison(base, b, match_on)
        touched = {pair.a for each in (self._to_a, self._to_b) for pair in each.pairs}
        self.equal = len(base) - len(touched - {-1})
        """The number of rows of the base that neither table changed."""
        self.same = 0
        """The number of rows that both changed in the same way."""

    def rows(self) -> list[RowDifference]:
        """Return the changes of A and B, and their conflicts."""
        changes_a = {_key(pair): (pair, row) for pair, row in _changes(self._to_a)}
        changes_b = {_key(pair): (pair, row) for pair, row in _changes(self._to_b)}
        partners = self._pair_added(changes_a, changes_b)
        found: list[RowDifference] = []
        for key, (pair, row) in changes_a.items():
            pair_b, other = changes_b.pop(partners.get(key, key), (None, None))
            where_b = "" if pair_b is None else self._b.where(pair_b.b)
            found += self._judge(row, other, self._a.where(pair.b), where_b)
        for pair, row in changes_b.values():
            found.append(_as_side(row, "b", "", self._b.where(pair.b)))
        return found

    def _pair_added(self, changes_a: _Changes, changes_b: _Changes) -> dict[_Key, _Key]:
        """Return the keys of rows that A added, with those of the same rows in B."""
        added = [
            np.array([at for origin, at in changes if origin == "new"], np.intp)
            for changes in (changes_a, changes_b)
        ]
        both = _Comparison(self._a.part(added[0]), self._b.part(added[1]), self._on)
        pairs = zip(added[0][both.at_a].tolist(), added[1][both.at_b].tolist(), strict=True)
        known: dict[_Key, _Key] = {("new", at): ("new", -1) for at in added[0].tolist()}
        return known | {("new", one): ("new", two) for one, two in pairs}

    def _judge(
        self, row: RowDifference, other: RowDifference | None, where_a: str, where_b: str
    ) -> Iterator[RowDifference]:
        """Yield the changes of a row that A changed, and B too if `other` is given."""
        if other is None:
            yield _as_side(row, "a", where_a, where_b)
            return
        kinds = {row.kind, other.kind}
        mine, theirs = dict(row.values), dict(other.values)
        agreed = [c for c in mine if c in theirs and mine[c] == theirs[c]]
        for column in agreed:
            del mine[column], theirs[column]
        if len(kinds) == 1 and not mine and not theirs:
            self.same += 1
            return
        both = [*mine] + [c for c in theirs if c not in mine]
        if kinds == {"differs"}:
            both = [c for c in mine if c in theirs]
        if own := {c: pair for c, pair in mine.items() if c not in both}:
            yield _as_side(msgspec.structs.replace(row, values=own), "a", where_a, where_b)
        if own := {c: pair for c, pair in theirs.items() if c not in both}:
            yield _as_side(msgspec.structs.replace(other, values=own), "b", where_a, where_b)
        if both:
            yield RowDifference(
                kind="conflict",
                pet_id=row.pet_id if row.pet_id is not None else other.pet_id,
                name=row.name or other.name,
                where_a=where_a,
                where_b=where_b,
                values={c: (_after(row, other, c), _after(other, row, c)) for c in both},
                base={c: (row.values.get(c) or other.values[c])[0] for c in both},
                missing="a" if row.kind == "only-a" else "b" if other.kind == "only-a" else "",
            )


def _after(row: RowDifference, other: RowDifference, column: str) -> str:
    """Return the text of a side: its own, or that of the base if only the other side changed it."""
    return row.values[column][1] if column in row.values else other.values[column][0]


def _as_side(
    row: RowDifference, side: Literal["a", "b"], where_a: str, where_b: str
) -> RowDifference:
    """Return the difference of the base and a side as a change of this side."""
    missing = {"only-a": side, "only-b": "base"}.get(row.kind, "")
    return msgspec.structs.replace(
        row, kind=side, where_a=where_a, where_b=where_b, missing=missing
    )


def _changes(compared: _Comparison) -> Iterable[tuple[_Pair, RowDifference]]:
    return zip(compared.pairs, compared.rows(compared.pairs), strict=True)


_Key = tuple[str, int]
"""A row of the base by its position there, or a new row by its position in A or B."""
_Changes = Mapping[_Key, tuple[_Pair, RowDifference]]


def _key(pair: _Pair) -> _Key:
    return ("base", pair.a) if pair.a >= 0 else ("new", pair.b)
