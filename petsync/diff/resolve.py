"""Resolve: a person's say in conflicts of a plan, field by field."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from petsync.diff.change import Add, Change, Clash, Conflict, Update
from petsync.diff.contrast import both_sides
from petsync.diff.units import UNITS, changed_columns, said_columns
from petsync.errors import PlanError
from petsync.table.columns import Column

__all__ = ["Choices", "Resolved", "Side", "both_changed", "hint_of", "notes_of", "resolved"]

Side = Literal["store", "sheet"]
Choices = Mapping[tuple[int, str], Side]
"""Whose value a field takes, by the pet's id and the column of the clash."""

_HINTS: Mapping[Side, str] = {
    "sheet": "The sheet's value is sent.",
    "store": "The store's value stays. Write it into the sheet to agree, or let the sheet win "
    "(--on-conflict sheet).",
}
_REFUSED_HINT = "The store's value stays. Write it into the sheet to agree, or another one."


class Resolved(NamedTuple):
    """What choices make of a plan: `winner` is "sheet" where it wins all clashes."""

    changes: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]
    winner: Side


def resolved(
    changes: Sequence[Change],
    conflicts: Sequence[Conflict],
    notes: Sequence[str],
    choices: Choices,
    address: Callable[[int, Column], str],
) -> Resolved:
    """The parts of a plan in which the clashes that are named take these sides. `address` gives
    the place of a cell. Raises PlanError for a clash that is not there, or a side that cannot be.
    """
    wanted = dict(_checked(conflicts, choices))
    touched = {conflict.row for conflict in conflicts if _is_named(conflict, wanted)}
    edits = {c.row: c for c in changes if isinstance(c, Update) and c.row in touched}
    groups: defaultdict[int | None, list[Conflict]] = defaultdict(list)
    for conflict in conflicts:
        if conflict.clashes and conflict.row in touched:
            groups[conflict.row].append(conflict)
    parts = {row: list(_decided(group, wanted)) for row, group in groups.items()}
    made = [_update(parts[row], edits.get(row), address) for row in groups]
    kept = [c for c in changes if not (isinstance(c, Update) and c.row in groups)]
    after = tuple(_laid(conflicts, parts))
    winners = {each.winner for each in after if each.clashes}
    own = {clash.note for conflict in conflicts for clash in conflict.clashes}
    return Resolved(
        changes=tuple(_placed(kept, [update for update in made if update is not None])),
        conflicts=after,
        notes=(*(note for note in notes if note not in own), *notes_of(after)),
        winner="sheet" if winners == {"sheet"} else "store",
    )


def both_changed(pet_id: int | None, clashes: Iterable[Clash]) -> str:
    """The problem of a row with these clashes."""
    both = "; ".join(map(both_sides, clashes))
    return f"and the store both changed pet {pet_id} since the export: {both}"


def hint_of(side: Side, clashes: Iterable[Clash]) -> str:
    """What a person can do about clashes that this side wins."""
    is_refused = side == "store" and all(clash.refused for clash in clashes)
    return _REFUSED_HINT if is_refused else _HINTS[side]


def notes_of(conflicts: Iterable[Conflict]) -> Iterator[str]:
    """What a person should look at in the values of the sheet that are sent."""
    for conflict in conflicts:
        if conflict.winner == "sheet":
            yield from (clash.note for clash in conflict.clashes if clash.note)


def _checked(
    conflicts: Iterable[Conflict], choices: Choices
) -> Iterator[tuple[tuple[int, str], Side]]:
    """The choices, with `category` for a category's id too."""
    there: dict[tuple[int | None, str], Clash] = {
        (each.pet_id, clash.column): clash for each in conflicts for clash in each.clashes
    }
    for (pet_id, column), side in choices.items():
        key = pet_id, "category" if column == "category_id" else column
        clash = there.get(key)
        if clash is None:
            known = [f"({pet}, {name!r})" for pet, name in there][:5]
            raise PlanError(
                f"pet {pet_id} has no conflict of {column!r} in this plan",
                hint=f"Some that are: {', '.join(known)}." if known else "It has none of a field.",
            )
        if side not in ("store", "sheet"):
            raise PlanError(
                f"{side!r} cannot win the conflict of pet {pet_id}", hint="'store' or 'sheet' can."
            )
        if side == "sheet" and clash.refused:
            raise PlanError(
                f"the sheet cannot win the {column} of pet {pet_id}: {clash.refused}",
                hint="Keep the store's value here, or correct the sheet and plan again.",
            )
        yield key, side


def _is_named(conflict: Conflict, wanted: Mapping[tuple[int, str], Side]) -> bool:
    return any((conflict.pet_id, clash.column) in wanted for clash in conflict.clashes)


def _decided(
    group: Sequence[Conflict], wanted: Mapping[tuple[int, str], Side]
) -> Iterator[Conflict]:
    """A row's conflict as it is now: one, or one for each side where both win something."""
    sides: dict[Column, Side] = {}
    clashes = {clash.column: clash for each in group for clash in each.clashes}
    for each in group:
        for clash in each.clashes:
            before: Side = "sheet" if each.winner == "sheet" else "store"
            sides[clash.column] = wanted.get((each.pet_id or 0, clash.column), before)
    for side in ("sheet", "store"):
        own = tuple(clashes[unit] for unit in UNITS if sides.get(unit) == side)
        if own:
            yield msgspec.structs.replace(
                group[0],
                clashes=own,
                winner=side,
                problem=both_changed(group[0].pet_id, own),
                suggestion=hint_of(side, own),
            )


def _update(
    parts: Sequence[Conflict], edit: Update | None, address: Callable[[int, Column], str]
) -> Update | None:
    """The change of a row, with each clash's field as its winner has it; None if nothing is left.
    What else is in `edit` stays as it is.
    """
    conflict = parts[0]
    row, before, after = conflict.row, conflict.before, conflict.after
    if row is None or before is None or after is None:
        return edit
    pet = before if edit is None else edit.after
    for part in parts:
        donor = after if part.winner == "sheet" else before
        units = {clash.column: getattr(donor, clash.column) for clash in part.clashes}
        pet = msgspec.structs.replace(pet, **units)
    fields = tuple(c for unit in UNITS for c in changed_columns(pet, before, unit))
    if not fields:
        return None
    source = address(row, next(iter(said_columns(fields, conflict.says)), fields[0]))
    return Update(row=row, source=source, fields=fields, before=before, after=pet)


def _laid(
    conflicts: Iterable[Conflict], parts: Mapping[int | None, list[Conflict]]
) -> Iterator[Conflict]:
    """The conflicts in their order, with those that were decided in place of what they were."""
    done: set[int | None] = set()
    for conflict in conflicts:
        if not conflict.clashes or conflict.row not in parts:
            yield conflict
        elif conflict.row not in done:
            done.add(conflict.row)
            yield from parts[conflict.row]


def _placed(changes: Sequence[Change], made: Sequence[Update]) -> Iterator[Change]:
    """The changes with updates put among the others by their rows."""
    waiting = sorted(made, key=lambda update: update.row or 0, reverse=True)
    for change in changes:
        while waiting and _is_behind(change, waiting[-1]):
            yield waiting.pop()
        yield change
    yield from reversed(waiting)


def _is_behind(change: Change, update: Update) -> bool:
    if isinstance(change, Add):
        return False
    return not isinstance(change, Update) or (change.row or 0) > (update.row or 0)
