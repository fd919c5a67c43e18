"""Changes as a table, and the part of them that a person picks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import index

import msgspec
import pandas as pd

from petsync.diff.change import Change, Conflict, Delete, Update
from petsync.diff.fields import cell, with_fields
from petsync.diff.remarks import some
from petsync.errors import PlanError
from petsync.table.columns import COLUMNS, Column

__all__ = ["conflicts_of", "frame_of", "is_told", "selected", "unknown_ids"]

_NAMES = ["source", "kind", "id", "name", "column", "before", "after"]
_KINDS = ("add", "update", "delete")
_CATEGORY: frozenset[Column] = frozenset({"category", "category_id"})


Address = Callable[[Change, Column], str]


def frame_of(changes: Sequence[Change], address: Address) -> pd.DataFrame:
    """The changes: source, kind, id, name, column, before, after; a row a changed field."""
    # As objects first: beside a missing one, pandas would round an id to a float.
    rows = [row for change in changes for row in _rows(change, address)]
    frame = pd.DataFrame(rows, columns=_NAMES, dtype=object)
    return frame.astype({"id": "Int64"}).infer_objects()


def selected(
    changes: Sequence[Change],
    address: Address,
    *,
    ids: Iterable[int] | int | None,
    actions: Iterable[str] | str | None,
    fields: Iterable[str] | str | None,
    query: str | None,
    numbers: Iterable[int] | None,
) -> tuple[Change, ...]:
    """The changes for which all that is given holds; updates with the fields that it holds for.

    Raises PlanError for what cannot be selected by.
    """
    wanted = None if ids is None else frozenset(_ids(ids))
    kinds = frozenset(_known(actions, _KINDS, "actions"))
    columns = None if fields is None else frozenset(_known(fields, COLUMNS[1:], "fields"))
    picked = None if query is None else _picked(changes, address, query)
    places = None if numbers is None else frozenset(numbers)
    parts = (
        _part(change, columns, None if picked is None else picked.get(n))
        for n, change in enumerate(changes)
        if (wanted is None or change.pet_id in wanted)
        and (actions is None or change.kind in kinds)
        and (picked is None or n in picked)
        and (places is None or n in places)
    )
    return tuple(part for part in parts if part is not None)


def conflicts_of(changes: Iterable[Change], conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """The conflicts of a plan of these changes: a field that is in none of them any more stays as
    the store has it, though the sheet was to win.
    """
    sent = {(change.row, column) for change in changes for column in change.fields}
    return tuple(part for conflict in conflicts for part in _by_winner(conflict, sent))


def is_told(each: Change | Conflict) -> bool:
    """Whether a report has a result for it."""
    return not isinstance(each, Conflict) or each.is_open


def _by_winner(
    conflict: Conflict, sent: Container[tuple[int | None, Column]]
) -> Iterator[Conflict]:
    if conflict.winner != "sheet":
        yield conflict
        return
    kept = [c for c in conflict.clashes if any((conflict.row, f) in sent for f in _both(c.column))]
    lost = [clash for clash in conflict.clashes if clash not in kept]
    if kept:
        yield msgspec.structs.replace(conflict, clashes=tuple(kept))
    if lost:
        hint = "The store's value stays, as the change was left out."
        yield msgspec.structs.replace(
            conflict, clashes=tuple(lost), winner="store", suggestion=hint
        )


def _both(column: Column) -> frozenset[Column]:
    return _CATEGORY if column in _CATEGORY else frozenset({column})


def _part(
    change: Change, fields: frozenset[str] | None, picked: frozenset[str] | None
) -> Change | None:
    if not isinstance(change, Update):
        return change if fields is None else None
    asked = [_whole(each) for each in (fields, picked) if each is not None]
    kept = tuple(column for column in change.fields if all(column in each for each in asked))
    if kept == change.fields:
        return change
    if not kept:
        return None
    after = with_fields(change.before, change.after, kept)
    return msgspec.structs.replace(change, fields=kept, after=after)


def _whole(columns: frozenset[str]) -> frozenset[str]:
    """The columns, with both of a category's where there is one."""
    return columns | _CATEGORY if columns & _CATEGORY else columns


def _picked(changes: Sequence[Change], address: Address, query: str) -> dict[int, frozenset[str]]:
    """The columns that the query picks, by the change's place."""
    frame = frame_of(changes, address)
    frame["place"] = [n for n, change in enumerate(changes) for _ in _rows(change, address)]
    try:
        kept = frame.query(query, engine="python")
        pairs = list(zip(kept["place"].tolist(), kept["column"].tolist(), strict=True))
    except Exception as error:  # noqa: BLE001 - pandas raises what the expression makes it raise
        raise PlanError(
            f"the query {query!r} cannot be answered: {error}",
            hint=f"Its names are: {', '.join(_NAMES)}; such as \"kind == 'update'\".",
        ) from None
    picked: dict[int, frozenset[str]] = {}
    for place, column in pairs:
        picked[place] = picked.get(place, frozenset()) | {column}
    return picked


def _ids(given: Iterable[int] | int) -> list[int]:
    try:
        values = [given] if isinstance(given, int | str) else list(given)
        if any(isinstance(value, bool) for value in values):
            raise TypeError
        return [index(value) for value in values]
    except TypeError:
        raise PlanError(
            f"ids: {given!r} are no pets' ids", hint="Give whole numbers, such as ids=[1, 7]."
        ) from None


def _known(given: object, known: Sequence[str], name: str) -> tuple[str, ...]:
    many = isinstance(given, Iterable) and not isinstance(given, str)
    values = tuple(given) if many and isinstance(given, Iterable) else (given,)
    for value in () if given is None else values:
        if value not in known:
            raise PlanError(
                f"{name}: {value!r} cannot be selected by", hint=f"These can: {', '.join(known)}."
            )
    return values


def unknown_ids(changes: Iterable[Change], ids: Iterable[int] | int | None) -> Iterator[str]:
    """A note on the ids that were asked for and of which no change is."""
    there = {change.pet_id for change in changes}
    lost = [str(each) for each in (() if ids is None else _ids(ids)) if each not in there]
    if lost:
        yield f"Selected, and in no change of the plan: {some(lost)}."


def _rows(change: Change, address: Address) -> Iterator[list[object]]:
    """As people know the pet: as it is now, or, if it is not there yet, as it will be."""
    pet = change.after if change.before is None else change.before
    head = [change.kind, change.pet_id, pet.name]
    if isinstance(change, Delete):
        yield [change.source, *head, "", "", ""]
    for column in () if isinstance(change, Delete) else change.fields:
        values = cell(change.before, column), cell(change.after, column)
        yield [address(change, column), *head, column, *values]
