"""Plan: changes, conflicts and blocked rows, its summary, selections, and its saved form."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import pandas as pd

from petsync._display import Where, as_file, as_html, as_text, from_file
from petsync.errors import GuardError, PlanError
from petsync.models import Category, Pet
from petsync.plan.change import Add, Blocked, Change, Clash, Conflict, Coverage, Delete, Update
from petsync.plan.fields import (
    UNITS,
    cell,
    changed_columns,
    differing,
    find_filled_columns,
    find_row_columns,
    with_fields,
)
from petsync.plan.guard import (
    CAPACITY_CURE,
    Guard,
    Limit,
    Refusal,
    Verdict,
    over_capacity,
    raise_limits,
)
from petsync.plan.lineage import Slot, VacantId
from petsync.plan.match import pets_of
from petsync.plan.notes import some
from petsync.plan.rounds import Counts, Difference, SheetChange
from petsync.table.base import Base
from petsync.table.columns import COLUMNS, Column
from petsync.table.sheet import Correction, cell_address

__all__ = [
    "Choices",
    "IdentifiedRow",
    "Inbound",
    "Lead",
    "Plan",
    "PlanOptions",
    "Removal",
    "Resolution",
    "RowEdit",
    "Side",
    "StaleRows",
    "Summary",
    "both_changed",
    "both_sides",
    "conflicts_of",
    "describe_drift",
    "frame_of",
    "hint_of",
    "is_selected",
    "iter_stale_rows",
    "notes_of",
    "refuse_changed_sentinels",
    "refuse_sentinels",
    "resolve_clashes",
    "select_changes",
    "summary_of",
    "unknown_ids",
]


# Two sides' texts beside each other, in a sentence.


_SHOWN = 60


def both_sides(clash: Clash) -> str:
    """`name (sheet: 'Rex', store: 'Max')`; long texts from where they begin to differ."""
    sheet, store = clash.sheet, clash.store
    if max(len(sheet), len(store)) <= _SHOWN:
        return f"{clash.column} (sheet: {_quote(sheet, 0)}, store: {_quote(store, 0)})"
    pairs = enumerate(zip(sheet, store, strict=False))
    alike = next((n for n, (a, b) in pairs if a != b), min(len(sheet), len(store)))
    return f"{clash.column} (sheet: {_quote(sheet, alike)}, store: {_quote(store, alike)})"


def _quote(text: str, alike: int) -> str:
    start = max(0, alike - _SHOWN // 4)
    part = " | ".join(text[start : start + _SHOWN].splitlines())
    cut = "…" if start else "", "…" if len(text) > start + _SHOWN else ""
    return f"'{cut[0]}{part}{cut[1]}'" if text else "nothing"


# Inbound: what a sheet is to take from the store, as one value that can be judged and saved.


INTAKE_FORMAT = 1
_FEW = 10
"""The number of rows that may always change, as `Guard` has it for the store."""

Lead = Literal["merge", "store"]


class RowEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A row that takes `fields` of its `pet`, as the store has it now. `before` are the texts that
    the row has there, "" where it says nothing; `source` is the address of the first field.
    """

    row: int
    source: str
    fields: tuple[Column, ...]
    before: Mapping[Column, str] = {}
    pet: Pet


class IdentifiedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row whose pet is known by now: it gets the id, where it lacks one, and its action `add`
    goes, if it `was_add`.
    """

    row: int
    source: str
    pet_id: int
    lacks_id: bool = True
    was_add: bool = False


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A row that goes, as its pet is gone from the store. `before` are its texts."""

    row: int
    source: str
    pet_id: int
    name: str = ""
    before: Mapping[Column, str] = {}


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """What a sheet is to take from the store: `edits` of rows, `identified` rows, pets that are
    `added` as rows, rows that are `removed`; and `notes`, the differences that stay.

    `created` is ISO 8601 in UTC; `store` the service's address; `source`, `tab`, `encoding`,
    `columns` (the mapping of headers), `places` (the columns' letters or numbers) and `digest` are
    those of the sheet; `rows` is how many rows it has. `verdict` is what the `guard` says.
    """

    format: int = INTAKE_FORMAT
    created: str
    store: str
    source: str
    tab: str = ""
    encoding: str = ""
    digest: str = ""
    columns: Mapping[str, str] = {}
    places: Mapping[str, str] = {}
    lead: Lead
    rows: int = 0
    edits: tuple[RowEdit, ...] = ()
    identified: tuple[IdentifiedRow, ...] = ()
    added: tuple[Pet, ...] = ()
    removed: tuple[Removal, ...] = ()
    notes: tuple[Difference, ...] = ()
    guard: Guard = Guard()
    verdict: Verdict = Verdict()

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.edits or self.identified or self.added or self.removed)

    @property
    def counts(self) -> Counts:
        """How many rows come, change and go. An id that a row gets is no change of its own."""
        return Counts(add=len(self.added), update=len(self.edits), delete=len(self.removed))

    @property
    def touched(self) -> Counts:
        """The same, rows that get no more than an id among those that change."""
        ids = {each.row for each in self.identified} - {each.row for each in self.edits}
        return msgspec.structs.replace(self.counts, update=len(self.edits) + len(ids))

    @property
    def pet_ids(self) -> tuple[int, ...]:
        """The pets that it is about."""
        pets = (*(edit.pet.id for edit in self.edits), *(pet.id for pet in self.added))
        return (*filter(None, pets), *(removal.pet_id for removal in self.removed))

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all but `created`: the same sheet is to take the same."""
        timeless = msgspec.structs.replace(self, created="")
        return hashlib.sha256(msgspec.json.encode(timeless)).hexdigest()

    @property
    def changes(self) -> tuple[SheetChange, ...]:
        """The same, a pet each, as a report tells it: rows that change or get their id, come, and
        go.
        """
        return tuple(self._changes())

    def judged(self, guard: Guard | None = None) -> Inbound:
        """The same under this guard (its own by default), with the verdict: the guard's limits
        as shares of the sheet's rows.
        """
        guard = self.guard if guard is None else guard
        verdict = Verdict(tuple(_refusals(guard, self.counts, self.rows)))
        return msgspec.structs.replace(self, guard=guard, verdict=verdict)

    def require_ok(self) -> None:
        """Raise GuardError unless the guard lets it through."""
        refusals = {*self.verdict.refusals, *self.judged().verdict.refusals}
        if refusals:
            raise GuardError(
                f"the guard refuses to write {self.source}: "
                + "; ".join(sorted(map(str, refusals))),
                hint="Nothing was written. Look at what is to be written; if it is right, "
                f"{raise_limits(refusals)}.",
            )

    def standing(self, pet_of: Callable[[int], Pet | None]) -> Inbound:
        """Only what still holds: rows and pets that the store has as they are here, rows whose pet
        is still gone. `pet_of` gives the pet that the store has by an id.
        """
        inbound = msgspec.structs.replace(
            self,
            edits=tuple(each for each in self.edits if _is_as(each.pet, pet_of(each.pet.id or 0))),
            added=tuple(pet for pet in self.added if _is_as(pet, pet_of(pet.id or 0))),
            removed=tuple(each for each in self.removed if pet_of(each.pet_id) is None),
        )
        return inbound.judged()

    def to_json(self) -> bytes:
        """All of it as a file holds it: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "sheet_plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the file") -> Inbound:
        """What `to_json` gave. Raises PlanError where it is something else, or was changed."""
        try:
            found = msgspec.json.decode(body, type=_NumberedRow).sheet_plan.format
            if found != INTAKE_FORMAT:
                raise PlanError(
                    f"{where} has format {found}; this petsync reads {INTAKE_FORMAT}",
                    hint="Let the next `petsync reconcile` make it again.",
                )
            saved = msgspec.json.decode(body, type=_SavedIntake)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"{where} is nothing that a sheet waits for: {error}") from None
        if saved.sheet_plan.fingerprint != saved.fingerprint or saved.sheet_plan.to_json() != body:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not fit",
                hint="Delete it; the next `petsync reconcile` makes it again.",
            )
        return saved.sheet_plan

    def _changes(self) -> Iterator[SheetChange]:
        for edit in self.edits:
            yield SheetChange(
                kind="update",
                pet_id=edit.pet.id,
                name=edit.pet.name or "",
                row=edit.row,
                address=edit.source,
                values={c: (edit.before.get(c, ""), cell(edit.pet, c)) for c in edit.fields},
            )
        edited = {edit.row for edit in self.edits}
        for known in self.identified:
            if known.lacks_id and known.row not in edited:
                yield SheetChange(
                    kind="update",
                    pet_id=known.pet_id,
                    row=known.row,
                    address=known.source,
                    values={"id": ("", str(known.pet_id))},
                )
        for pet in self.added:
            values = {c: ("", cell(pet, c)) for c in find_filled_columns(pet) if c in self.places}
            yield SheetChange(kind="add", pet_id=pet.id, name=pet.name or "", values=values)
        for removal in self.removed:
            yield SheetChange(
                kind="delete",
                pet_id=removal.pet_id,
                name=removal.name,
                row=removal.row,
                address=removal.source,
                values={c: (text, "") for c, text in removal.before.items()},
            )

    def address(self, row: int, column: str = "id") -> str:
        """Where a cell of the sheet stands."""
        return cell_address(self.tab, self.places.get(column, ""), row)

    def __hash__(self) -> int:
        return hash(self.fingerprint)


class _IntakeFormat(msgspec.Struct, frozen=True):
    format: int


class _NumberedRow(msgspec.Struct, frozen=True):
    sheet_plan: _IntakeFormat


class _SavedIntake(msgspec.Struct, frozen=True):
    fingerprint: str
    sheet_plan: Inbound


def _is_as(pet: Pet, current: Pet | None) -> bool:
    return current is not None and not differing(pet, current)


def places_of(columns: Mapping[str, str]) -> dict[str, str]:
    """Those of a sheet's columns that are the table's."""
    return {name: at for name, at in columns.items() if name in COLUMNS}


def _refusals(guard: Guard, counts: Counts, rows: int) -> Iterator[Refusal]:
    kinds: tuple[tuple[Any, str, int, Limit | None, int], ...] = (
        ("add", "added to the sheet", counts.add, guard.max_add, 0),
        ("update", "changed in the sheet", counts.update, guard.max_update, _FEW),
        ("delete", "taken out of the sheet", counts.delete, guard.max_delete, 1),
    )
    for kind, done, count, limit, least in kinds:
        is_free = limit is None or limit.is_free(rows)
        allowed = count if limit is None or is_free else limit.allows(rows, least)
        if count > allowed:
            share = f" ({allowed:,} of {rows:,} rows)" if limit and limit.is_share else ""
            problem = (
                f"{_row_count(count)} to be {done} {'is' if count == 1 else 'are'} more than "
                f"--max-{kind} {limit} lets through{share}"
            )
            yield Refusal(kind, problem, f"--max-{kind} {count}")
    if counts.delete and counts.delete >= rows and not guard.allow_empty:
        problem = f"every row ({rows:,}) would be taken out of the sheet"
        yield Refusal("everything", problem, "--allow-empty")


def _row_count(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


# Resolve: a person's say in conflicts of a plan, field by field.


Side = Literal["store", "sheet"]
Choices = Mapping[tuple[int, str], Side]
"""Whose value a field takes, by the pet's id and the column of the clash."""

_HINTS: Mapping[Side, str] = {
    "sheet": "The sheet's value is sent.",
    "store": "The store's value stays. Write it into the sheet to agree, or let the sheet win "
    '(--on-conflict sheet, in Python on_conflict="sheet").',
}
_REFUSED_HINT = "The store's value stays. Write it into the sheet to agree, or another one."


class Resolution(NamedTuple):
    """What choices make of a plan: `winner` is "sheet" where it wins all clashes."""

    changes: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]
    winner: Side


def resolve_clashes(
    changes: Sequence[Change],
    conflicts: Sequence[Conflict],
    notes: Sequence[str],
    choices: Choices,
    address: Callable[[int, Column], str],
) -> Resolution:
    """The parts of a plan in which the clashes that are named take these sides. `address` gives
    the place of a cell. Raises PlanError for a clash that is not there, or a side that cannot be.
    """
    wanted = dict(_check_choices(conflicts, choices))
    touched = {conflict.row for conflict in conflicts if _is_named(conflict, wanted)}
    edits = {c.row: c for c in changes if isinstance(c, Update) and c.row in touched}
    groups: defaultdict[int | None, list[Conflict]] = defaultdict(list)
    for conflict in conflicts:
        if conflict.clashes and conflict.row in touched:
            groups[conflict.row].append(conflict)
    parts = {row: list(_split_conflict(group, wanted)) for row, group in groups.items()}
    updates = [_update(parts[row], edits.get(row), address) for row in groups]
    rest = [c for c in changes if not (isinstance(c, Update) and c.row in groups)]
    after = tuple(_merge_conflicts(conflicts, parts))
    winners = {each.winner for each in after if each.clashes}
    own = {clash.note for conflict in conflicts for clash in conflict.clashes}
    return Resolution(
        changes=tuple(_insert_updates(rest, [update for update in updates if update is not None])),
        conflicts=after,
        notes=(*(note for note in notes if note not in own), *notes_of(after)),
        winner="sheet" if winners == {"sheet"} else "store",
    )


def both_changed(pet_id: int | None, clashes: Iterable[Clash]) -> str:
    """The problem of a row with these clashes."""
    clashes = list(clashes)
    both = "; ".join(map(both_sides, clashes))
    if clashes and all(clash.base == clash.store for clash in clashes):
        return f"and the store differ in pet {pet_id}, and the row may be the older one: {both}"
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


def _check_choices(
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


def _split_conflict(
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
    source = address(row, next(iter(find_row_columns(fields, conflict.says)), fields[0]))
    return Update(row=row, source=source, fields=fields, before=before, after=pet)


def _merge_conflicts(
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


def _insert_updates(changes: Sequence[Change], updates: Sequence[Update]) -> Iterator[Change]:
    """The changes with updates put among the others by their rows."""
    waiting = sorted(updates, key=lambda update: update.row or 0, reverse=True)
    for change in changes:
        while waiting and _is_behind(change, waiting[-1]):
            yield waiting.pop()
        yield change
    yield from reversed(waiting)


def _is_behind(change: Change, update: Update) -> bool:
    if isinstance(change, Add):
        return False
    return not isinstance(change, Update) or (change.row or 0) > (update.row or 0)


# Changes as a table, and the part of them that a person picks.


_NAMES = ["source", "kind", "id", "name", "column", "before", "after"]
_KINDS = ("add", "update", "delete")
_CATEGORY: frozenset[Column] = frozenset({"category", "category_id"})


Address = Callable[[Change, Column], str]


def frame_of(changes: Sequence[Change], address: Address) -> pd.DataFrame:
    """The changes: source, kind, id, name, column, before, after; a row a changed field."""
    # As objects first: beside a missing one, pandas would round an id to a float.
    rows = [row for change in changes for row in _selectable_rows(change, address)]
    frame = pd.DataFrame(rows, columns=_NAMES, dtype=object)
    return frame.astype({"id": "Int64"}).infer_objects()


def select_changes(
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
    kinds = frozenset(_check_known(actions, _KINDS, "actions"))
    columns = None if fields is None else frozenset(_check_known(fields, COLUMNS[1:], "fields"))
    picked = None if query is None else _query_columns(changes, address, query)
    places = None if numbers is None else frozenset(numbers)
    parts = (
        _select_part(change, columns, None if picked is None else picked.get(n))
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


def is_selected(each: Change | Conflict) -> bool:
    """Whether a report has a result for it."""
    return not isinstance(each, Conflict) or each.is_open


def _by_winner(
    conflict: Conflict, sent: Container[tuple[int | None, Column]]
) -> Iterator[Conflict]:
    if conflict.winner != "sheet":
        yield conflict
        return
    open_clashes = [
        c for c in conflict.clashes if any((conflict.row, f) in sent for f in _columns_of(c.column))
    ]
    resolved = [clash for clash in conflict.clashes if clash not in open_clashes]
    if open_clashes:
        yield msgspec.structs.replace(conflict, clashes=tuple(open_clashes))
    if resolved:
        hint = "The store's value stays, as the change was left out."
        yield msgspec.structs.replace(
            conflict, clashes=tuple(resolved), winner="store", suggestion=hint
        )


def _columns_of(column: Column) -> frozenset[Column]:
    return _CATEGORY if column in _CATEGORY else frozenset({column})


def _select_part(
    change: Change, fields: frozenset[str] | None, picked: frozenset[str] | None
) -> Change | None:
    if not isinstance(change, Update):
        return change if fields is None else None
    selections = [_whole(each) for each in (fields, picked) if each is not None]
    columns = tuple(
        column for column in change.fields if all(column in each for each in selections)
    )
    if columns == change.fields:
        return change
    if not columns:
        return None
    after = with_fields(change.before, change.after, columns)
    return msgspec.structs.replace(change, fields=columns, after=after)


def _whole(columns: frozenset[str]) -> frozenset[str]:
    """The columns, with both of a category's where there is one."""
    return columns | _CATEGORY if columns & _CATEGORY else columns


def _query_columns(
    changes: Sequence[Change], address: Address, query: str
) -> dict[int, frozenset[str]]:
    """The columns that the query picks, by the change's place."""
    frame = frame_of(changes, address)
    frame["place"] = [
        n for n, change in enumerate(changes) for _ in _selectable_rows(change, address)
    ]
    try:
        selected = frame.query(query, engine="python")
        pairs = list(zip(selected["place"].tolist(), selected["column"].tolist(), strict=True))
    except Exception as error:  # noqa: BLE001 - pandas raises what the expression makes it raise
        raise PlanError(
            f"the query {query!r} cannot be answered: {error}",
            hint=f"Its names are: {', '.join(_NAMES)}; such as \"kind == 'update'\".",
        ) from None
    picked: dict[int, frozenset[str]] = {}
    for place, column in pairs:
        picked[place] = picked.get(place, frozenset()) | {column}
    return picked


def _ids(ids: Iterable[int] | int) -> list[int]:
    try:
        values = [ids] if isinstance(ids, int | str) else list(ids)
        if any(isinstance(value, bool) for value in values):
            raise TypeError
        return [index(value) for value in values]
    except TypeError:
        raise PlanError(
            f"ids: {ids!r} are no pets' ids", hint="Give whole numbers, such as ids=[1, 7]."
        ) from None


def _check_known(names: object, known: Sequence[str], name: str) -> tuple[str, ...]:
    many = isinstance(names, Iterable) and not isinstance(names, str)
    values = tuple(names) if many and isinstance(names, Iterable) else (names,)
    for value in () if names is None else values:
        if value not in known:
            raise PlanError(
                f"{name}: {value!r} cannot be selected by", hint=f"These can: {', '.join(known)}."
            )
    return values


def unknown_ids(changes: Iterable[Change], ids: Iterable[int] | int | None) -> Iterator[str]:
    """A note on the ids that were asked for and of which no change is."""
    there = {change.pet_id for change in changes}
    unknown = [str(each) for each in (() if ids is None else _ids(ids)) if each not in there]
    if unknown:
        yield f"Selected, and in no change of the plan: {some(unknown)}."


def _selectable_rows(change: Change, address: Address) -> Iterator[list[object]]:
    """As people know the pet: as it is now, or, if it is not there yet, as it will be."""
    pet = change.after if change.before is None else change.before
    head = [change.kind, change.pet_id, pet.name]
    if isinstance(change, Delete):
        yield [change.source, *head, "", "", ""]
    for column in () if isinstance(change, Delete) else change.fields:
        values = cell(change.before, column), cell(change.after, column)
        yield [address(change, column), *head, column, *values]


# Sentinels: pets that must be there and as they were, or nothing runs.


def refuse_changed_sentinels(sentinels: Sequence[Pet], base: Base | None) -> Iterator[Refusal]:
    """The sentinels that the store changed since the export."""
    exported = pets_of([pet.id or 0 for pet in sentinels], base.frame) if base is not None else ()
    old = {pet.id: pet for pet in exported}
    for pet in sentinels:
        if moved := differing(old.get(pet.id, pet), pet):
            fields = ", ".join(moved)
            problem = f"the store changed {fields} of sentinel {pet.id} since the export"
            yield Refusal("sentinel", problem, of_store=True)


def refuse_sentinels(
    ids: Sequence[int], sentinels: Sequence[Pet], changes: Iterable[Change]
) -> Iterator[Refusal]:
    """The ids of sentinels that are not there, and the changes that would touch one."""
    there = {pet.id for pet in sentinels}
    for each in dict.fromkeys(ids):
        if each not in there:
            problem = f"sentinel {each} is not in the store's snapshot"
            yield Refusal("sentinel", problem, of_store=True)
    watched = frozenset(ids)
    for change in changes if watched else ():
        if change.pet_id in watched:
            problem = f"the plan would {change.kind} sentinel {change.pet_id}"
            yield Refusal("sentinel", problem)


def describe_drift(sentinel: Pet, current: Pet | None) -> str:
    """How a plan's sentinel is not as it was, "" where it is."""
    if current is None:
        return f"sentinel {sentinel.id} is gone from the store since the plan"
    moved = differing(sentinel, current)
    if not moved:
        return ""
    return f"the store changed {', '.join(moved)} of sentinel {sentinel.id} since the plan"


# Summary: a plan in numbers.


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what a plan holds.

    `adds`, `updates`, `deletes`: changes. `fields`: of how many updates each column is a part.
    `conflicts` are all, `open_conflicts` those in which the sheet does not win. Rows: `blocked`;
    `unchanged`, of which `older` say what was exported while the store has something newer, and
    the pets of `gone` are not there any more; of the pets of these, undos set back those of
    `set_back` and took away those of `taken_away`; `ignored`; `left_out`; and `rows`, all of the
    sheet. `pets` is the store's size. `ok`: whether the guard lets the plan through. `undoes` is
    the run that the plan takes back, "" for one from a sheet: the rows of an undo are that run's
    pets.
    """

    adds: int
    updates: int
    deletes: int
    fields: Mapping[str, int]
    conflicts: int
    open_conflicts: int
    blocked: int
    unchanged: int
    older: int
    gone: int
    set_back: int = 0
    taken_away: int = 0
    ignored: int
    left_out: int
    rows: int
    pets: int
    ok: bool
    undoes: str = ""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class StaleRows(NamedTuple):
    """Rows that say what was exported, and the store does not: why in a few words, and as each of
    the rows is told it.
    """

    rows: tuple[int, ...]
    words: str
    message: str


class _StaleRowIndex(Protocol):
    """The rows of a plan that say what was exported, and the store does not."""

    @property
    def older(self) -> tuple[int, ...]: ...
    @property
    def gone(self) -> tuple[int, ...]: ...
    @property
    def undone(self) -> Mapping[int, str]: ...


class _SavedCounts(_StaleRowIndex, Protocol):
    """The counts that a plan carries as such."""

    @property
    def blocked(self) -> tuple[Blocked, ...]: ...
    @property
    def unchanged(self) -> int: ...
    @property
    def ignored(self) -> int: ...
    @property
    def left_out(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def pets(self) -> int: ...
    @property
    def undoes(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


def iter_stale_rows(plan: _StaleRowIndex) -> Iterator[StaleRows]:
    """The rows that nobody edited and whose pets are otherwise in the store, by what became of the
    pets. An undo is named: nobody else changed these pets.
    """
    for rows, words, message, by_undo in (
        (
            plan.older,
            "older than the store",
            "as exported; the store has something newer, which stays",
            ("set back by an undo", "set the pet back, which stays"),
        ),
        (
            plan.gone,
            "gone from the store",
            "as exported; the pet is gone from the store since then",
            ("taken away by an undo", "took the pet away"),
        ),
    ):
        runs = {row: plan.undone.get(row, "") for row in rows}
        for run in sorted({*runs.values()}):
            own = tuple(row for row, each in runs.items() if each == run)
            if run:
                yield StaleRows(own, by_undo[0], f"as exported; the undo of run {run} {by_undo[1]}")
            else:
                yield StaleRows(own, words, message)


def summary_of(
    changes: Iterable[Change], conflicts: Iterable[Conflict], plan: _SavedCounts
) -> Summary:
    """The numbers of a plan of these changes and conflicts."""
    kinds: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    for change in changes:
        kinds[change.kind] += 1
        if change.kind == "update":
            fields.update(change.fields)
    states = Counter(conflict.is_open for conflict in conflicts)
    return Summary(
        adds=kinds["add"],
        updates=kinds["update"],
        deletes=kinds["delete"],
        fields={column: fields[column] for column in COLUMNS if fields[column]},
        conflicts=states.total(),
        open_conflicts=states[True],
        blocked=len(plan.blocked),
        unchanged=plan.unchanged,
        older=len(plan.older),
        gone=len(plan.gone),
        set_back=sum(row in plan.undone for row in plan.older),
        taken_away=sum(row in plan.undone for row in plan.gone),
        ignored=plan.ignored,
        left_out=plan.left_out,
        rows=plan.rows,
        pets=plan.pets,
        ok=plan.verdict.ok,
        undoes=plan.undoes,
    )


# Plan: everything that a run would do, as one frozen value with a fingerprint.


PLAN_FORMAT = 6
_PIECE = 500
_OF_REFUSED = (
    "This is a part of a plan that the guard refuses as a whole. The guard judges a part by "
    "itself: several parts together may be more than its limits let through."
)


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sheet and store are compared."""

    delete_missing: bool = False
    """Whether pets that no row names are to be deleted."""
    match_on: tuple[Column, ...] = ()
    """The columns on which a row without an id finds its pet."""
    two_way: bool = False
    """Whether the base that the sheet carries is left out."""
    on_conflict: Literal["store", "sheet"] = "store"
    """Whose value a field takes that both changed apart since the export."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Ordered changes, and everything that is not one, by what a person wants to know.

    `changes`: adds, then updates, then deletes, each in the sheet's order, but that adds with an id
    come before those without. `conflicts`: rows that the store contradicts. `blocked`: rows that
    an error in the sheet keeps out. `unchanged` and `ignored`: for how many rows nothing is to be
    done, and how many have the action `ignore`. Of the unchanged rows, by number: `older` say what
    was exported while the store says something newer, and the pets of `gone` are not there any
    more; `undone` gives those of both whose pets are so by an undo, with the run that was undone.
    `recognised`: the pet of each row without an id that means one; `slots`: where the
    rows without an id stand, and what is known of them. `vacant`: the rows that name the id of no
    pet, if the service is to assign ids. `categories`: the category's cells, as the row says them,
    of each row whose change sends another one; None for a blank cell. `rows`: all rows of the
    sheet; `pets`: the store's size; `capacity`: how many pets the service keeps before an add
    drops the oldest, None where no limit is known. `notes`: what a person should look at.
    `verdict`: what the guard says. `created` is ISO 8601 in UTC, and so is `base`: when the sheet
    was exported, "" if it is compared with the store alone. `tab` is the worksheet, "" for CSV;
    `places` are the letters or numbers of its columns; `columns` is the mapping of headers that
    the sheet was read by, `encoding` that of a CSV file that is not UTF-8. `coverage`: what the
    store was asked for, and what of it failed. `sentinels`: the guard's, as they were.
    `left_out`: how many changes `select` has taken out whole, but for those of rows in conflict.
    `undoes`: the run that it takes back, "" if it is no undo. `corrections`: the cells that were
    read as somebody said, and not as the sheet's file says. `shifted`: the columns
    that seem to be sorted or shifted without their rows.
    """

    format: int = PLAN_FORMAT
    created: str
    store: str
    profile: str
    source: str
    tab: str = ""
    places: Mapping[str, str] = {}
    source_digest: str = ""
    columns: Mapping[str, str] = {}
    encoding: str = ""
    base: str = ""
    undoes: str = ""
    options: PlanOptions = PlanOptions()
    guard: Guard = Guard()
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    unchanged: int = 0
    recognised: Mapping[int, int] = {}
    slots: Mapping[int, Slot] = {}
    vacant: tuple[VacantId, ...] = ()
    categories: Mapping[int, Category] = {}
    older: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    undone: Mapping[int, str] = {}
    ignored: int = 0
    rows: int = 0
    pets: int = 0
    capacity: int | None = None
    notes: tuple[str, ...] = ()
    coverage: Coverage = Coverage()
    sentinels: tuple[Pet, ...] = ()
    left_out: int = 0
    verdict: Verdict = Verdict()
    corrections: tuple[Correction, ...] = ()
    shifted: tuple[Column, ...] = ()

    @property
    def adds(self) -> tuple[Add, ...]:
        """The pets that are to be added."""
        return tuple(change for change in self.changes if isinstance(change, Add))

    @property
    def updates(self) -> tuple[Update, ...]:
        """The pets that are to change."""
        return tuple(change for change in self.changes if isinstance(change, Update))

    @property
    def deletes(self) -> tuple[Delete, ...]:
        """The pets that are to go."""
        return tuple(change for change in self.changes if isinstance(change, Delete))

    @property
    def in_sync(self) -> bool:
        """Whether there is nothing to send and nothing to decide."""
        return not (self.changes or self.open_conflicts or self.blocked or self.left_out)

    @property
    def open_conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts that a person has to look at: those in which the sheet does not win."""
        return tuple(conflict for conflict in self.conflicts if conflict.is_open)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the whole plan: two plans that would do the same differ in `created`."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """The plan's JSON in pieces: as a whole it may be as large as the plan itself."""
        # Quotes in a text are escaped, so that no text can look like this key.
        around = msgspec.json.encode(msgspec.structs.replace(self, changes=()))
        head, key, tail = around.partition(b'"changes":[')
        yield head + key
        for first in range(0, len(self.changes), _PIECE):
            piece = msgspec.json.encode(self.changes[first : first + _PIECE])[1:-1]
            yield b"," + piece if first else piece
        yield tail

    @property
    def needs_count(self) -> bool:
        """Whether the guard's verdict depends on how many pets the store has."""
        kinds = Counter(change.kind for change in self.changes)
        return self.guard.needs_count(
            adds=kinds["add"], updates=kinds["update"], deletes=kinds["delete"]
        )

    def require_ok(self, pets: int | None = None) -> None:
        """Raise GuardError unless the guard lets the plan through, also for a store of
        `pets`, if that is given.
        """
        # Judged again, so that no file's own word is taken for it.
        refusals = {*self.verdict.refusals, *self.judged().verdict.refusals}
        if pets is not None:
            refusals |= {*msgspec.structs.replace(self, pets=pets).judged().verdict.refusals}
        if refusals:
            cure = f"Look at the plan; if it is right, {raise_limits(refusals)}."
            if any(refusal.limit == "sentinel" for refusal in refusals):
                cure = "Find out what becomes of the sentinels: nothing overrides them."
            elif any(refusal.limit == "capacity" for refusal in refusals):
                cure = CAPACITY_CURE
            raise GuardError(
                "the guard refuses this plan: " + "; ".join(sorted(map(str, refusals))),
                hint=f"Nothing was sent. {cure}",
            )

    def judged(self) -> Plan:
        """The plan with the guard's verdict on what it holds now."""
        kinds = Counter(change.kind for change in self.changes)
        watched = [
            *refuse_sentinels(self.guard.sentinels, self.sentinels, self.changes),
            *(each for each in self.verdict.refusals if each.of_store),
            *over_capacity(kinds["add"], self.pets, self.capacity),
        ]
        verdict = self.guard.judge(
            pets=self.pets,
            # A run may have changed nothing; a sheet without a row is a mistake.
            rows=self.rows or bool(self.undoes),
            adds=kinds["add"],
            updates=kinds["update"],
            deletes=kinds["delete"],
            namesakes=sum(add.namesake is not None for add in self.adds),
            shifted=[c for c in self.shifted if any(c in each.fields for each in self.updates)],
            sentinels=dict.fromkeys(watched),
        )
        return msgspec.structs.replace(self, verdict=verdict)

    def save(self, path: Where) -> Where:
        """Write the plan to a file of mode 0600, whole or not at all; the path itself.

        Raises PlanError where it cannot be written.
        """
        return as_file(self, path)

    @classmethod
    def load(cls, path: Where) -> Plan:
        """The plan in a file. Raises PlanError where there is none, or it was changed by hand."""
        plan: Plan = from_file(path)
        return plan

    def summary(self) -> Summary:
        """How many of what: of changes, of changed fields, and of rows that are none."""
        return summary_of(self.changes, self.conflicts, self)

    def select(
        self,
        *,
        ids: Iterable[int] | int | None = None,
        actions: Iterable[str] | str | None = None,
        fields: Iterable[str] | str | None = None,
        query: str | None = None,
        numbers: Iterable[int] | None = None,
    ) -> Plan:
        """A plan of a part of the changes: of those pets, of those kinds (add, update, delete), of
        those columns, of those rows of `to_frame()` that a pandas query picks, and of those places
        in `changes`; all that are given must hold.

        By `fields`, and by a query on updates, an update keeps these fields alone; a category's
        name and id stay together. An add or a delete is whole or not there, and no change of a
        field. Conflicts and blocked rows stay; where the sheet was to win and its value is left
        out, the store wins. The guard judges the new plan, which has a
        fingerprint of its own. Raises PlanError for what cannot be selected by.
        """
        changes = select_changes(
            self.changes,
            self.address,
            ids=ids,
            actions=actions,
            fields=fields,
            query=query,
            numbers=numbers,
        )
        notes = [*self.notes, *unknown_ids(self.changes, ids)]
        if not self.verdict.ok:
            notes.append(_OF_REFUSED)
        conflicts = conflicts_of(changes, self.conflicts)
        selected = {_place(each) for each in (*changes, *conflicts) if is_selected(each)}
        left_out = self.left_out + sum(_place(change) not in selected for change in self.changes)
        part = msgspec.structs.replace(
            self,
            changes=changes,
            conflicts=conflicts,
            left_out=left_out,
            notes=tuple(dict.fromkeys(notes)),
        )
        return part.judged()

    def resolve(self, choices: Choices) -> Plan:
        """The plan in which clashes have the winner that a person gives them:
        `{(7, "name"): "sheet"}` sends the sheet's name of pet 7, and "store" keeps the store's.

        Conflicts stay listed. With every clash given to "sheet", it is the plan that
        `on_conflict="sheet"` makes. The guard judges the new plan, which has a fingerprint of its
        own. Raises PlanError for a clash that the plan has not, and for a value that cannot be
        sent.
        """
        if not choices:
            return self
        resolution = resolve_clashes(self.changes, self.conflicts, self.notes, choices, self._cell)
        new = msgspec.structs.replace(
            self,
            changes=resolution.changes,
            conflicts=resolution.conflicts,
            notes=resolution.notes,
            options=msgspec.structs.replace(self.options, on_conflict=resolution.winner),
        )
        return new.judged()

    def guarded(self, guard: Guard) -> Plan:
        """The plan under another guard, judged by it. Its sentinels stay as they were."""
        with_sentinels = msgspec.structs.replace(guard, sentinels=self.guard.sentinels)
        return msgspec.structs.replace(self, guard=with_sentinels).judged()

    def to_frame(self) -> pd.DataFrame:
        """The changes: source, kind, id, name, column, before, after; a row a changed field."""
        return frame_of(self.changes, self.address)

    def address(self, change: Change, column: Column) -> str:
        """Where the sheet says what a change does to a column; "" for a pet that is in no row."""
        place = self.places.get(column)
        if change.row is None or place is None:
            return change.source
        return cell_address(self.tab, place, change.row)

    def _cell(self, row: int, column: Column) -> str:
        return cell_address(self.tab, self.places.get(column, ""), row)

    def to_json(self) -> bytes:
        """The plan as a file holds it: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the plan") -> Plan:
        """The plan of `to_json`. Raises PlanError where it is none, or was changed since."""
        try:
            # First the format alone: of another one, the rest need not be as this one has it.
            found = msgspec.json.decode(body, type=_FormatOnly).plan.format
            if found != PLAN_FORMAT:
                raise _of_another(found, where)
            saved = msgspec.json.decode(body, type=_SavedPlan)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"{where} is no plan of petsync: {error}") from None
        if saved.plan.fingerprint != saved.fingerprint or saved.plan.to_json() != body:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not fit",
                hint="Make the plan again from the sheet, and apply it as it is.",
            )
        return saved.plan

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class _Format(msgspec.Struct, frozen=True):
    format: int


class _FormatOnly(msgspec.Struct, frozen=True):
    plan: _Format


def _of_another(found: int, where: str) -> PlanError:
    older = found < PLAN_FORMAT
    return PlanError(
        f"{where} has format {found}, of {'an older' if older else 'a newer'} petsync; this one "
        f"reads {PLAN_FORMAT}",
        hint="Make the plan again from its sheet"
        + ("." if older else ", or apply it with the petsync that made it."),
    )


class _SavedPlan(msgspec.Struct, frozen=True):
    fingerprint: str
    plan: Plan


def _place(each: Change | Conflict) -> tuple[int | None, int | None]:
    return each.row, each.pet_id
