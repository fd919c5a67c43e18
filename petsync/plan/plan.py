"""Plans: changes, conflicts and blocked rows, their summary and selection, and the file format."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import pandas as pd

from petsync._display import Where, as_file, as_html, as_text, count, from_file
from petsync._json import decoder_of
from petsync._terms import in_python
from petsync.errors import GuardError, PlanError
from petsync.models import Category, Pet
from petsync.plan.change import (
    Add,
    Blocked,
    Change,
    Clash,
    Conflict,
    Coverage,
    Delete,
    LongChanges,
    Tally,
    Update,
)
from petsync.plan.fields import (
    UNITS,
    cell,
    changed_columns,
    differing_columns,
    drop_clear_ids,
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
    raise_limits,
    refuse_over_capacity,
)
from petsync.plan.lineage import Slot, VacantId
from petsync.plan.match import pets_of
from petsync.plan.notes import first_items
from petsync.plan.options import SEND_SHEET, PlanOptions, Side
from petsync.plan.rounds import NEW_ID, Counts, Difference, SheetChange
from petsync.table.base import Base, SourceRow
from petsync.table.columns import COLUMNS, Column
from petsync.table.dtypes import typed_frame
from petsync.table.sheet import Correction, cell_address

__all__ = [
    "Choices",
    "IdentifiedRow",
    "Inbound",
    "Lead",
    "Plan",
    "Removal",
    "Resolution",
    "RowEdit",
    "StaleRows",
    "Summary",
    "both_sides",
    "build_changed_error",
    "conflicts_of",
    "decode_saved_plan",
    "decode_store",
    "describe_clashes",
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


# Both sides' texts of a clash, in a sentence.


_SHOWN = 60


def both_sides(clash: Clash) -> str:
    """Return text such as `name (sheet: 'Rex', store: 'Max')`. Long texts are cut to show where
    they begin to differ.
    """
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


# Inbound: the changes from the store that a sheet needs, as a value to judge and save.


INTAKE_FORMAT = 4
_FEW = 10
"""The number of changed rows that a share always allows, as in `Guard` for the store."""

Lead = Literal["merge", "store"]
Texts = Mapping[str, tuple[str, str]]
"""The texts of cells before and after a change, by column."""


class RowEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A row that takes the values of `fields` from its pet in the store."""

    row: int
    """The row's number."""
    source: str
    """The address of the first field's cell."""
    fields: tuple[Column, ...]
    """The columns to update."""
    before: Mapping[Column, str] = {}
    """The row's texts in these columns, "" for a blank cell."""
    pet: Pet
    """The pet as the store has it now."""


class IdentifiedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row whose pet is now known.

    The row gets the pet's id if it lacks this id, and its action `add` or `add-another` becomes
    `merge`.
    """

    row: int
    """The row's number."""
    source: str
    """The address of the row's id cell, or of its action cell if it has the id."""
    pet_id: int
    """The id of the row's pet."""
    lacks_id: bool = True
    """True if the row does not have this id yet."""
    was_add: bool = False
    """True if the row has the action `add` or `add-another`, which becomes `merge`."""
    name: str = ""
    """The name in the row."""
    before: Mapping[str, str] = {}
    """The row's texts in the cells that change, "" for a blank cell."""

    @property
    def values(self) -> Texts:
        """The texts of the cells that change, before and after, by column."""
        after = {"id": str(self.pet_id)} if self.lacks_id else {}
        after |= {"action": "merge"} if self.was_add else {}
        return {name: (self.before.get(name, ""), text) for name, text in after.items()}


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A row to remove, because its pet is deleted from the store."""

    row: int
    """The row's number."""
    source: str
    """The address of the row's id cell."""
    pet_id: int
    """The id of the deleted pet."""
    name: str = ""
    """The name in the row."""
    before: Mapping[Column, str] = {}
    """The row's texts by column."""


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """The changes from the store that a sheet needs, and the differences that remain."""

    format: int = INTAKE_FORMAT
    """The version of the file format."""
    created: str
    """The time of creation, ISO 8601 in UTC."""
    store: str
    """The service's address."""
    source: str
    """The sheet's file."""
    tab: str = ""
    """The worksheet, "" for CSV."""
    encoding: str = ""
    """The encoding that was named for a CSV file, "" for the default (UTF-8)."""
    digest: str = ""
    """The checksum of the sheet's file."""
    columns: Mapping[str, str] = {}
    """The caller's mapping from headers to columns."""
    places: Mapping[str, str] = {}
    """The letters or numbers of the sheet's columns, by name."""
    lead: Lead
    """The side that wins: "store", or "merge" for a merge of both."""
    rows: int = 0
    """The number of the sheet's rows."""
    edits: tuple[RowEdit, ...] = ()
    """The rows to update."""
    identified: tuple[IdentifiedRow, ...] = ()
    """The rows that get their pet's id or another action."""
    added: tuple[Pet, ...] = ()
    """The pets to add as rows."""
    blank: tuple[Column, ...] = ()
    """The columns that stay blank in added rows, because the store's values are not written."""
    shared_tags: tuple[str, ...] = ()
    """The names of tags, in their form for comparisons, that the store has with several ids: these
    tags are written with their ids.
    """
    removed: tuple[Removal, ...] = ()
    """The rows to remove."""
    notes: tuple[Difference, ...] = ()
    """The differences that remain."""
    guard: Guard = Guard()
    """The guard for the sheet."""
    verdict: Verdict = Verdict()
    """The guard's verdict."""

    def __bool__(self) -> bool:
        """Return true if there is anything to write."""
        return bool(self.edits or self.identified or self.added or self.removed)

    @property
    def counts(self) -> Counts:
        """The numbers of added, updated and deleted rows.

        A row that only gets its id or another action is not counted.
        """
        return Counts(add=len(self.added), update=len(self.edits), delete=len(self.removed))

    @property
    def touched(self) -> Counts:
        """Like `counts`, but rows that only get their id or another action count as updated."""
        ids = {each.row for each in self.identified} - {each.row for each in self.edits}
        return msgspec.structs.replace(self.counts, update=len(self.edits) + len(ids))

    @property
    def pet_ids(self) -> tuple[int, ...]:
        """The ids of the pets to update, to add and to delete."""
        pets = (*(edit.pet.id for edit in self.edits), *(pet.id for pet in self.added))
        return (*filter(None, pets), *(removal.pet_id for removal in self.removed))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything but `created`, so that equal contents have equal fingerprints."""
        timeless = msgspec.structs.replace(self, created="")
        return hashlib.sha256(msgspec.json.encode(timeless)).hexdigest()

    @property
    def changes(self) -> tuple[SheetChange, ...]:
        """The changes for a report, one per pet: first updates, including rows that get their id,
        then adds, then deletes.
        """
        return tuple(self._changes())

    def preview(self, planned: Inbound | None, new_ids: Collection[int]) -> Iterator[SheetChange]:
        """Yield the changes as a dry run shows them before its requests. The cells that `planned`,
        the changes without these requests, does not have are marked. `new_ids` stand for ids that
        the store is still to assign.
        """
        known = () if planned is None else planned._changes()
        known_values = {(each.kind, each.row, each.pet_id): each.values for each in known}
        for change in self._changes():
            before = known_values.get((change.kind, change.row, change.pet_id))
            if change.pet_id in new_ids:
                values = {**change.values, "id": ("", NEW_ID)}
                change = msgspec.structs.replace(change, pet_id=None, values=values)
            if change.kind != "update" or not before:
                yield msgspec.structs.replace(change, after_requests=change.values != before)
                continue
            same = {c: texts for c, texts in change.values.items() if before.get(c) == texts}
            rest = {c: texts for c, texts in change.values.items() if c not in same}
            if same:
                yield self._with_values(change, same)
            if rest:
                yield self._with_values(change, rest, after_requests=True)

    def with_verdict(self, guard: Guard | None = None) -> Inbound:
        """Return this value with the guard's verdict.

        `guard`, if given, replaces the current guard. A limit that is a share is a share of the
        sheet's rows.
        """
        guard = self.guard if guard is None else guard
        verdict = Verdict(tuple(_refusals(guard, self.counts, self.rows)))
        return msgspec.structs.replace(self, guard=guard, verdict=verdict)

    def require_ok(self) -> None:
        """Raise GuardError if the guard refuses these changes."""
        refusals = {*self.verdict.refusals, *self.with_verdict().verdict.refusals}
        if refusals:
            raise GuardError(
                f"the guard refuses to write {self.source}: "
                + "; ".join(sorted(each.text for each in refusals)),
                hint="Nothing was written. Check the changes to write; if they are correct, raise "
                "the limits in the job's guard settings and run the job again.",
            )

    def keep_valid(self, pet_of: Callable[[int], Pet | None]) -> Inbound:
        """Return only the parts that still apply.

        These are updates and adds whose pets are unchanged in the store, and removals whose pets
        are still missing there. Rows that get their pet's id are all kept. `pet_of` returns the
        store's pet with an id.
        """
        inbound = msgspec.structs.replace(
            self,
            edits=tuple(each for each in self.edits if _is_as(each.pet, pet_of(each.pet.id or 0))),
            added=tuple(pet for pet in self.added if _is_as(pet, pet_of(pet.id or 0))),
            removed=tuple(each for each in self.removed if pet_of(each.pet_id) is None),
        )
        return inbound.with_verdict()

    def to_json(self) -> bytes:
        """Return everything as the content of a file: one JSON object with its fingerprint."""
        body = msgspec.json.encode({"fingerprint": self.fingerprint, "sheet_plan": self})
        return msgspec.json.format(body, indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the file") -> Inbound:
        """Return the value that `to_json` wrote.

        Raises PlanError if the content is invalid, was changed, or has another format.
        """
        try:
            found = decoder_of(_NumberedRow).decode(body).sheet_plan.format
            if found != INTAKE_FORMAT:
                raise PlanError(
                    f"{where} has format {found}; this petsync reads {INTAKE_FORMAT}",
                    hint="Let the next `petsync reconcile` make it again.",
                )
            saved = decoder_of(_SavedIntake).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"{where} is not a file of waiting sheet changes: {error}") from None
        if saved.sheet_plan.fingerprint != saved.fingerprint or saved.sheet_plan.to_json() != body:
            raise PlanError(
                f"{where} was changed after it was made: its fingerprint does not match",
                hint="Delete it; the next `petsync reconcile` makes it again.",
            )
        return saved.sheet_plan

    def as_written(self, pet: Pet) -> Pet:
        """Return the pet as its cells have it: a tag that its name identifies is without its id."""
        return drop_clear_ids(pet, self.shared_tags)

    def _changes(self) -> Iterator[SheetChange]:
        edited = {edit.row for edit in self.edits}
        known_rows = {known.row: known.values for known in self.identified}
        for edit in self.edits:
            pet = self.as_written(edit.pet)
            texts = dict[str, tuple[str, str]](known_rows.get(edit.row, {}))
            texts |= {c: (edit.before.get(c, ""), cell(pet, c)) for c in edit.fields}
            yield SheetChange(
                kind="update",
                pet_id=edit.pet.id,
                name=edit.pet.name or "",
                row=edit.row,
                address=edit.source,
                values=texts,
            )
        for known in self.identified:
            if known.row not in edited:
                yield SheetChange(
                    kind="update",
                    pet_id=known.pet_id,
                    name=known.name,
                    row=known.row,
                    address=known.source,
                    values=known.values,
                )
        for pet in map(self.as_written, self.added):
            columns = [c for c in find_filled_columns(pet) if c in self.places]
            values: Texts = {c: ("", cell(pet, c)) for c in columns if c not in self.blank}
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

    def _with_values(self, change: SheetChange, values: Texts, **more: bool) -> SheetChange:
        """Return the change, limited to these cells, at the address of the first of them."""
        at = next((column for column in values if column in self.places), "")
        address = change.address if change.row is None or not at else self.address(change.row, at)
        return msgspec.structs.replace(change, values=values, address=address, **more)

    def address(self, row: int, column: str = "id") -> str:
        """Return the address of a cell of the sheet."""
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
    return current is not None and not differing_columns(pet, current)


def places_of(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the letters or numbers of the sheet's columns that are columns of the table, by
    name.
    """
    return {name: at for name, at in columns.items() if name in COLUMNS}


def _refusals(guard: Guard, counts: Counts, rows: int) -> Iterator[Refusal]:
    kinds: tuple[tuple[Any, str, int, Limit | None, int], ...] = (
        ("add", "added to the sheet", counts.add, guard.max_add, 0),
        ("update", "changed in the sheet", counts.update, guard.max_update, _FEW),
        ("delete", "removed from the sheet", counts.delete, guard.max_delete, 1),
    )
    for kind, done, number, limit, least in kinds:
        is_free = limit is None or limit.is_free(rows)
        allowed = number if limit is None or is_free else limit.allows(rows, least)
        if number > allowed:
            share = f" ({allowed:,} of {count(rows, 'row')})" if limit and limit.is_share else ""
            problem = (
                f"{count(number, 'row')} to be {done} {'is' if number == 1 else 'are'} more than "
                f"--max-{kind} {limit} allows{share}"
            )
            yield Refusal(kind, problem, f"--max-{kind} {number}")
    if counts.delete and counts.delete >= rows and not guard.allow_empty:
        problem = f"every row ({rows:,}) would be removed from the sheet"
        yield Refusal("everything", problem, "--allow-empty")


# Resolve: a user's decisions on the conflicts of a plan, by field.


Choices = Mapping[tuple[int, str], Side]
"""The winning side, by the pet's id and the column of the clash."""

_HINTS: Mapping[Side, str] = {
    "sheet": "The sheet's value is sent.",
    "store": "The store's value stays. Write it into the sheet to agree, or let the sheet win "
    f"({SEND_SHEET}).",
}
_REFUSED_HINT = "The store's value stays. Write it, or another value, into the sheet."


class Resolution(NamedTuple):
    """The parts of a plan after a user's choices. `winner` is "sheet" if the sheet wins all
    clashes.
    """

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
    """Return the parts of a plan in which the named clashes have the chosen winners.

    `address` returns the address of a cell. Raises PlanError for a clash that is not in the plan,
    or a side that cannot win.
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


def describe_clashes(pet_id: int | None, clashes: Iterable[Clash]) -> str:
    """Return the problem text of a row with these clashes."""
    clashes = list(clashes)
    both = "; ".join(map(both_sides, clashes))
    if clashes and all(clash.base == clash.store for clash in clashes):
        return f"and the store differ in pet {pet_id}, and the row may be the older one: {both}"
    return f"and the store both changed pet {pet_id} since the export: {both}"


def hint_of(side: Side, clashes: Iterable[Clash]) -> str:
    """Return the advice on clashes that this side wins."""
    is_refused = side == "store" and all(clash.refused for clash in clashes)
    return _REFUSED_HINT if is_refused else _HINTS[side]


def notes_of(conflicts: Iterable[Conflict]) -> Iterator[str]:
    """Yield the notes on the clashes that the sheet wins."""
    for conflict in conflicts:
        if conflict.winner == "sheet":
            yield from (clash.note for clash in conflict.clashes if clash.note)


def _check_choices(
    conflicts: Iterable[Conflict], choices: Choices
) -> Iterator[tuple[tuple[int, str], Side]]:
    """Yield the choices. A choice for a category's id becomes one for `category`."""
    if not isinstance(choices, Mapping) or any(
        not isinstance(key, tuple) or len(key) != 2 for key in choices
    ):
        raise PlanError(
            f"the choices are {choices!r}, not a dict of fields and sides",
            hint='Write {(7, "name"): "sheet"}. For one side in all conflicts, plan with '
            'on_conflict="sheet".',
        )
    there: dict[tuple[int | None, str], Clash] = {
        (each.pet_id, clash.column): clash for each in conflicts for clash in each.clashes
    }
    for (pet_id, column), side in choices.items():
        key = pet_id, "category" if column == "category_id" else column
        clash = there.get(key)
        if clash is None:
            known = [f"({pet}, {name!r})" for pet, name in there][:5]
            raise PlanError(
                f"pet {pet_id} has no conflict in {column!r} in this plan",
                hint=f"Some of the plan's conflicts: {', '.join(known)}."
                if known
                else "No field is in conflict in this plan.",
            )
        if side not in ("store", "sheet"):
            raise PlanError(
                f"{side!r} cannot win the conflict of pet {pet_id}",
                hint="Choose 'store' or 'sheet'.",
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
    """Yield a row's conflict after the choices: one, or one per side if each side wins a field."""
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
                problem=describe_clashes(group[0].pet_id, own),
                suggestion=hint_of(side, own),
            )


def _update(
    parts: Sequence[Conflict], edit: Update | None, address: Callable[[int, Column], str]
) -> Update | None:
    """Return the update of a row with the winners' values in the clashing fields, or None if it
    changes nothing.

    Other fields of `edit` stay unchanged.
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
    """Yield the conflicts in their order, with the decided ones in place of the originals."""
    done: set[int | None] = set()
    for conflict in conflicts:
        if not conflict.clashes or conflict.row not in parts:
            yield conflict
        elif conflict.row not in done:
            done.add(conflict.row)
            yield from parts[conflict.row]


def _insert_updates(changes: Sequence[Change], updates: Sequence[Update]) -> Iterator[Change]:
    """Yield the changes with the updates inserted in the order of their rows."""
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


# Changes as a table, and a selection of them.


_NAMES = ["source", "kind", "id", "name", "column", "before", "after"]
_KINDS = ("add", "update", "delete")
_CATEGORY: frozenset[Column] = frozenset({"category", "category_id"})
_CALLS = (
    *("isna", "notna", "isin", "between"),
    *("str.contains", "str.startswith", "str.endswith", "str.match", "str.fullmatch"),
    *("str.lower", "str.upper", "str.strip", "str.len"),
)
"""The methods of columns that a query may call."""
_METHODS = frozenset(part for call in _CALLS for part in call.split("."))
_NA_POSITIONS = {"contains": 3, "startswith": 1, "endswith": 1, "match": 3, "fullmatch": 3}
"""The position of the argument `na`, by the name of the method."""
_NODES = (
    *(ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.expr_context, ast.keyword),
    *(ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop),
    *(ast.UnaryOp, ast.Not, ast.Invert, ast.USub, ast.BinOp, ast.BitAnd, ast.BitOr),
)
"""The syntax of a query besides names and calls."""


Address = Callable[[Change, Column], str]


def frame_of(changes: Sequence[Change], address: Address) -> pd.DataFrame:
    """Return the changes as a frame with one row per changed field, and one per delete.

    Its columns are source, kind, id, name, column, before and after.
    """
    rows = [row for change in changes for row in _selectable_rows(change, address)]
    return typed_frame(rows, _NAMES)


def select_changes(
    changes: Sequence[Change],
    address: Address,
    *,
    ids: Iterable[int] | int | None,
    actions: Iterable[str] | str | None,
    fields: Iterable[str] | str | None,
    query: str | None,
    numbers: Iterable[int] | int | None,
) -> tuple[Change, ...]:
    """Return the changes that match all given criteria. An update keeps only the fields that match.

    Raises PlanError for an unknown criterion or a query that fails.
    """
    wanted = None if ids is None else frozenset(_whole_numbers(ids, "ids"))
    kinds = frozenset(_check_known(actions, _KINDS, "actions"))
    columns = None if fields is None else frozenset(_check_known(fields, COLUMNS[1:], "fields"))
    picked = None if query is None else _query_columns(changes, address, query)
    places = None if numbers is None else frozenset(_whole_numbers(numbers, "numbers"))
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
    """Return the conflicts of a plan with these changes.

    If the sheet was to win a field that no change has any more, the store wins it.
    """
    sent = {(change.row, column) for change in changes for column in change.fields}
    return tuple(part for conflict in conflicts for part in _by_winner(conflict, sent))


def is_selected(each: Change | Conflict) -> bool:
    """Return true if a report has a result for the item. A report has one for each change and each
    open conflict.
    """
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
        hint = "The store's value stays, because the change was left out."
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
    selections = [_complete_category(each) for each in (fields, picked) if each is not None]
    columns = tuple(
        column for column in change.fields if all(column in each for each in selections)
    )
    if columns == change.fields:
        return change
    if not columns:
        return None
    after = with_fields(change.before, change.after, columns)
    return msgspec.structs.replace(change, fields=columns, after=after)


def _complete_category(columns: frozenset[str]) -> frozenset[str]:
    """Return the columns. If one of a category's columns is among them, add the other."""
    return columns | _CATEGORY if columns & _CATEGORY else columns


def _query_columns(
    changes: Sequence[Change], address: Address, query: str
) -> dict[int, frozenset[str]]:
    """Return the columns that the query selects, by the position of the change in `changes`."""
    frame = frame_of(changes, address)
    frame["place"] = [
        n for n, change in enumerate(changes) for _ in _selectable_rows(change, address)
    ]
    try:
        text = _check_query(query)
        selected = frame.query(text, engine="python", local_dict={}, global_dict={})
        pairs = list(zip(selected["place"].tolist(), selected["column"].tolist(), strict=True))
    except Exception as error:  # noqa: BLE001 - the expression can raise any exception
        raise PlanError(
            f"the query {query!r} cannot be evaluated: {error}",
            hint=f"Available names: {', '.join(_NAMES)}. Available methods: {', '.join(_CALLS)}. "
            "Example: \"kind == 'update'\".",
        ) from None
    picked: dict[int, frozenset[str]] = {}
    for place, column in pairs:
        picked[place] = picked.get(place, frozenset()) | {column}
    return picked


def _check_query(query: str) -> str:
    """Return the query in Python's own spelling. Raises ValueError if it uses anything but the
    columns, constants, comparisons and `_CALLS`: pandas would also read the variables of this
    module, and call functions that write files.
    """
    if not isinstance(query, str):
        raise ValueError("it is not text")
    try:
        tree = ast.parse(query.strip(), mode="eval")
    except SyntaxError as error:
        no_variables = "; a query reads no variables (@)" if "@" in query else ""
        raise ValueError(f"{error.msg}{no_variables}") from None
    for node in ast.walk(tree):
        _unify_match(node)
        match node:
            case ast.Name(name):
                is_known = name in _NAMES
            case ast.Attribute(attr=name):
                is_known = name in _METHODS
            case ast.Call(func=function):
                is_known = isinstance(function, ast.Attribute)
            case _:
                is_known = isinstance(node, _NODES)
        if not is_known:
            raise ValueError(f"it uses `{ast.unparse(node)}`")
    return ast.unparse(tree)


def _unify_match(node: ast.AST) -> None:
    """Change a call that searches texts so that no version of pandas reads it otherwise: a missing
    text never matches, and a pattern of alternatives is matched as a whole.
    """
    match node:
        case ast.Call(ast.Attribute(attr=name), args, keywords) if name in _NA_POSITIONS:
            if len(args) <= _NA_POSITIONS[name] and all(each.arg != "na" for each in keywords):
                keywords.append(ast.keyword("na", ast.Constant(value=False)))
            patterns = [*args[:1], *(each.value for each in keywords if each.arg == "pat")]
            for pattern in patterns if name in ("match", "fullmatch") else ():
                match pattern:
                    case ast.Constant(str(text)) if "|" in text:
                        pattern.value = f"(?:{text})"


def _whole_numbers(given: Iterable[int] | int, name: str) -> list[int]:
    try:
        values = [given] if isinstance(given, int | str) else list(given)
        if any(isinstance(value, bool) for value in values):
            raise TypeError
        return [index(value) for value in values]
    except TypeError:
        what = "pets' ids" if name == "ids" else "positions in changes"
        raise PlanError(
            f"{name}: {given!r} are not {what}", hint=f"Give whole numbers, such as {name}=[1, 7]."
        ) from None


def _check_known(names: object, known: Sequence[str], name: str) -> tuple[str, ...]:
    many = isinstance(names, Iterable) and not isinstance(names, str)
    values = tuple(names) if many and isinstance(names, Iterable) else (names,)
    for value in () if names is None else values:
        if value not in known:
            raise PlanError(
                f"{name}: {value!r} is not a valid value",
                hint=f"Valid values: {', '.join(known)}.",
            )
    return values


def unknown_ids(changes: Iterable[Change], ids: Iterable[int] | int | None) -> Iterator[str]:
    """Yield a note on the requested ids that no change has."""
    given = () if ids is None else _whole_numbers(ids, "ids")
    there = {change.pet_id for change in changes} if given else set()
    yield from _iter_unknown("ids", given, there)


def _iter_unknown(what: str, given: Iterable[int], there: Container[object]) -> Iterator[str]:
    if unknown := [str(each) for each in given if each not in there]:
        yield f"Selected {what} without a change in the plan: {first_items(unknown)}."


def _selectable_rows(change: Change, address: Address) -> Iterator[list[object]]:
    """Yield the frame's rows for a change. The name is the pet's current one, or its future one if
    the pet does not exist yet.
    """
    pet = change.after if change.before is None else change.before
    head = [change.kind, change.pet_id, pet.name]
    if isinstance(change, Delete):
        yield [change.source, *head, "", "", ""]
    for column in () if isinstance(change, Delete) else change.fields:
        values = cell(change.before, column), cell(change.after, column)
        yield [address(change, column), *head, column, *values]


# Sentinels: pets that must exist unchanged, or nothing runs.


def refuse_changed_sentinels(sentinels: Sequence[Pet], base: Base | None) -> Iterator[Refusal]:
    """Yield a refusal for each sentinel that the store changed since the export."""
    exported = pets_of([pet.id or 0 for pet in sentinels], base.rows) if base is not None else ()
    old = {pet.id: pet for pet in exported}
    for pet in sentinels:
        if moved := differing_columns(old.get(pet.id, pet), pet):
            fields = ", ".join(moved)
            problem = f"the store changed {fields} of sentinel {pet.id} since the export"
            yield Refusal("sentinel", problem, of_store=True)


def refuse_sentinels(
    ids: Sequence[int], sentinels: Sequence[Pet], changes: Iterable[Change]
) -> Iterator[Refusal]:
    """Yield a refusal for each missing sentinel, and for each change to a sentinel."""
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
    """Return a description of a sentinel's changes since the plan, "" if it is unchanged."""
    if current is None:
        return f"sentinel {sentinel.id} has been deleted from the store since the plan was made"
    moved = differing_columns(sentinel, current)
    if not moved:
        return ""
    return f"the store changed {', '.join(moved)} of sentinel {sentinel.id} since the plan was made"


# Summary: the counts of a plan.


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a plan."""

    adds: int
    """The number of adds."""
    updates: int
    """The number of updates."""
    deletes: int
    """The number of deletes."""
    fields: Mapping[str, int]
    """The number of updates that change each column."""
    conflicts: int
    """The number of all conflicts."""
    open_conflicts: int
    """The number of conflicts in which the sheet does not win."""
    blocked: int
    """The number of blocked rows."""
    unchanged: int
    """The number of unchanged rows, including `older` and `deleted_in_store`."""
    older: int
    """The number of rows with the exported values, while the store has newer ones."""
    deleted_in_store: int
    """The number of rows with the exported values, while the store has deleted their pets."""
    reset_by_undo: int = 0
    """The number of `older` rows whose pets an undo restored."""
    deleted_by_undo: int = 0
    """The number of `deleted_in_store` rows whose pets an undo deleted."""
    ignored: int
    """The number of rows with the action `ignore`."""
    left_out: int
    """The number of changes that `Plan.select` left out."""
    rows: int
    """The number of all rows of the sheet. For an undo, the pets of the run count as its rows."""
    pets: int
    """The number of pets in the store; the least possible number if `is_narrow` is true."""
    is_narrow: bool = False
    """True if only single pets were read."""
    ok: bool
    """True if the guard accepts the plan."""
    undoes: str = ""
    """The run that the plan undoes, "" for a plan from a sheet."""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class StaleRows(NamedTuple):
    """Unedited rows that differ from the store, all for the same reason."""

    rows: tuple[int, ...]
    """The numbers of the rows."""
    words: str
    """The reason in a few words."""
    message: str
    """The reason as a message for each row."""


class _StaleRowIndex(Protocol):
    """The fields of a plan that list the unedited rows that differ from the store."""

    @property
    def older(self) -> tuple[int, ...]: ...
    @property
    def deleted_in_store(self) -> tuple[int, ...]: ...
    @property
    def undone(self) -> Mapping[int, str]: ...


class _SavedCounts(_StaleRowIndex, Protocol):
    """The fields of a plan that its summary uses, besides its changes and conflicts."""

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
    def coverage(self) -> Coverage: ...
    @property
    def undoes(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


def iter_stale_rows(plan: _StaleRowIndex) -> Iterator[StaleRows]:
    """Yield the unedited rows that differ from the store, grouped by the kind of change to their
    pets.

    The texts name an undo that made the change, because no other user changed these pets.
    """
    for rows, words, message, by_undo in (
        (
            plan.older,
            "older than the store",
            "as exported; the store has a newer value, which stays",
            ("restored by an undo", "restored the pet, which stays"),
        ),
        (
            plan.deleted_in_store,
            "no longer in the store",
            "as exported; the pet has been deleted from the store since then",
            ("removed by an undo", "removed the pet"),
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
    changes: Sequence[Change], conflicts: Iterable[Conflict], plan: _SavedCounts
) -> Summary:
    """Return the summary of a plan with these changes and conflicts."""
    tally = Tally.of(changes)
    kinds, fields = tally.kinds, tally.fields
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
        deleted_in_store=len(plan.deleted_in_store),
        reset_by_undo=sum(row in plan.undone for row in plan.older),
        deleted_by_undo=sum(row in plan.undone for row in plan.deleted_in_store),
        ignored=plan.ignored,
        left_out=plan.left_out,
        rows=plan.rows,
        pets=plan.pets,
        is_narrow=plan.coverage.is_narrow,
        ok=plan.verdict.ok,
        undoes=plan.undoes,
    )


# Plan: all changes that a run makes, as one frozen value with a fingerprint.


PLAN_FORMAT = 6
_PIECE = 500
_OF_REFUSED = (
    "This is a part of a plan that the guard refuses as a whole. The guard judges only "
    "this part: several parts together may be more than its limits allow."
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The ordered changes of a run, and the rows and pets that it leaves unchanged."""

    format: int = PLAN_FORMAT
    """The version of the file format."""
    created: str
    """The time of creation, ISO 8601 in UTC."""
    store: str
    """The service's address."""
    profile: str
    """The name of the service's profile."""
    source: str
    """The sheet's file; for an undo, `run` and the id of the undone run."""
    tab: str = ""
    """The worksheet, "" for CSV."""
    places: Mapping[str, str] = {}
    """The letters or numbers of the sheet's columns, by name."""
    files: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """The names of the files of a sheet in several files, unset for any other sheet."""
    labels: Mapping[int, str] | msgspec.UnsetType = msgspec.UNSET
    """The labels of a DataFrame's rows with changes or conflicts, such as `id 1006`, by row number;
    unset if the labels are the numbers, and for any other sheet.
    """
    source_digest: str = ""
    """The SHA-256 of the sheet's file, "" without a file."""
    columns: Mapping[str, str] = {}
    """The caller's mapping from headers to columns."""
    encoding: str = ""
    """The encoding that was named for a CSV file, "" for the default (UTF-8)."""
    base: str = ""
    """The time of the sheet's export, ISO 8601 in UTC; "" for a comparison only with the store."""
    undoes: str = ""
    """The run that the plan undoes, "" if it is not an undo."""
    options: PlanOptions = PlanOptions()
    """The options of the comparison."""
    guard: Guard = Guard()
    """The guard of the plan."""
    changes: Sequence[Change] = ()
    """The changes: adds with an id, adds without one, updates, deletes. They are a tuple or, in a
    long plan from a file, a `LongChanges`.
    """
    conflicts: tuple[Conflict, ...] = ()
    """The conflicts, including those in which the sheet wins."""
    blocked: tuple[Blocked, ...] = ()
    """The rows that are excluded because of an error in the sheet."""
    unchanged: int = 0
    """The number of rows without a change, including `older` and `deleted_in_store`."""
    recognised: Mapping[int, int] = {}
    """By row number, the ids of the pets that rows without an id match."""
    slots: Mapping[int, Slot] = {}
    """The neighbours of rows without an id, and what is known about these rows, by row number."""
    vacant: tuple[VacantId, ...] = ()
    """The rows whose id no pet has, if the service is to assign ids."""
    categories: Mapping[int, Category] = {}
    """By row number, the row's two category cells, if they differ from the pet's category after the
    change or, for a row with clashes, after the change in which the sheet wins. A blank cell is
    None.
    """
    older: tuple[int, ...] = ()
    """The numbers of unchanged rows with the exported values, while the store has newer ones."""
    deleted_in_store: tuple[int, ...] = ()
    """The numbers of unchanged rows whose pets are deleted from the store."""
    undone: Mapping[int, str] = {}
    """For rows in `older` or `deleted_in_store` whose pets an undo changed: the undone run, by row
    number.
    """
    ignored: int = 0
    """The number of rows with the action `ignore`."""
    rows: int = 0
    """The number of all rows of the sheet. For an undo, the pets of the run count as its rows."""
    pets: int = 0
    """The number of pets in the store; the least possible number if `coverage.ids` is set."""
    capacity: int | None = None
    """The number of pets above which an add removes the oldest pet, None if no limit is known."""
    raw_notes: tuple[str, ...] = msgspec.field(default=(), name="notes")
    """The notes for every front end, with options of commands and arguments of Python."""
    coverage: Coverage = Coverage()
    """The queries of the snapshot, and those that failed."""
    uncovered: tuple[str, ...] = ()
    """Sentences on what this plan does not cover, because only single pets were read; empty if the
    store's lists were read.
    """
    sentinels: tuple[Pet, ...] = ()
    """The guard's sentinels, as the snapshot had them."""
    left_out: int = 0
    """The number of changes that `select` left out as a whole, except changes of rows in
    conflict.
    """
    verdict: Verdict = Verdict()
    """The guard's verdict."""
    corrections: tuple[Correction, ...] = ()
    """The cells that were read with a user's correction instead of the file's value."""
    shifted: tuple[Column, ...] = ()
    """The columns that seem to be sorted or shifted without the other columns."""
    moved_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """The numbers of the rows whose ids seem to be exchanged or moved, if `id` is in `shifted`;
    otherwise unset.
    """
    warnings: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Those of the notes that warn of columns whose misspelt header keeps them from being used;
    unset if there are none.
    """
    source_rows: Mapping[int, SourceRow] | msgspec.UnsetType = msgspec.UNSET
    """Where the rows of a workbook of failed rows are from, by row number; unset for any other
    sheet.
    """
    namesakes: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """The ids of the store's pets with the name of an add without an id, unset if there are none.
    Any other pet with such a name was added since.
    """
    selected_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """The ids for which `select` made this part of a plan, in order; unset without such a
    selection.
    """

    def __post_init__(self) -> None:
        if isinstance(self.changes, list):  # msgspec decodes a sequence as a list.
            msgspec.structs.force_setattr(self, "changes", tuple(self.changes))

    @property
    def adds(self) -> tuple[Add, ...]:
        """The pets to add."""
        return tuple(change for change in self.changes if isinstance(change, Add))

    @property
    def updates(self) -> tuple[Update, ...]:
        """The pets to update."""
        return tuple(change for change in self.changes if isinstance(change, Update))

    @property
    def deletes(self) -> tuple[Delete, ...]:
        """The pets to delete."""
        return tuple(change for change in self.changes if isinstance(change, Delete))

    @property
    def in_sync(self) -> bool:
        """True if there is nothing to send or to decide, no row is blocked, and `select` left
        nothing out.
        """
        return not (self.changes or self.open_conflicts or self.blocked or self.left_out)

    @property
    def open_conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts that need a decision: those in which the sheet does not win."""
        return tuple(conflict for conflict in self.conflicts if conflict.is_open)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole plan. Plans with equal changes still differ in `created`."""
        if not isinstance(self.changes, LongChanges):
            return self._compute_fingerprint()
        known, rest = self.changes.fingerprints, hashlib.sha256(self._encode_rest()).digest()
        return known.get(rest) or known.setdefault(rest, self._compute_fingerprint())

    def pieces(self) -> Iterator[bytes]:
        """Yield the plan's JSON in pieces, because the whole may need as much memory as the
        plan.
        """
        # JSON escapes quotes in texts, so this key occurs only once.
        head, key, tail = self._encode_rest().partition(b'"changes":[')
        yield head + key
        for number, piece in enumerate(self._encode_changes()):
            yield b"," + piece if number else piece
        yield tail

    def _encode_rest(self) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(self, changes=()))

    def _encode_changes(self) -> Iterator[bytes]:
        """Yield the JSON of consecutive changes, with commas between them."""
        if isinstance(self.changes, LongChanges):
            yield from self.changes.pieces()
            return
        for first in range(0, len(self.changes), _PIECE):
            yield msgspec.json.encode(self.changes[first : first + _PIECE])[1:-1]

    def _compute_fingerprint(self) -> str:
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    @property
    def needs_count(self) -> bool:
        """True if the guard's verdict depends on the number of pets in the store."""
        kinds = Tally.of(self.changes).kinds
        return self.guard.needs_count(
            adds=kinds["add"], updates=kinds["update"], deletes=kinds["delete"]
        )

    def require_ok(self, pets: int | None = None) -> None:
        """Raise GuardError if the guard refuses the plan, or would refuse it for a store with
        `pets` pets.
        """
        # Judge again: the verdict in a file is not trusted.
        refusals = {*self.verdict.refusals, *self.with_verdict().verdict.refusals}
        if pets is not None:
            refusals |= {*msgspec.structs.replace(self, pets=pets).with_verdict().verdict.refusals}
        if refusals:
            cure = f"Check the plan; if it is correct, {raise_limits(refusals)}."
            if any(refusal.limit == "sentinel" for refusal in refusals):
                cure = "Find out why the sentinels are affected: no option overrides this refusal."
            elif any(refusal.limit == "capacity" for refusal in refusals):
                cure = CAPACITY_CURE
            raise GuardError(
                "the guard refuses this plan: " + "; ".join(sorted(each.text for each in refusals)),
                hint=f"Nothing was sent. {cure}",
            )

    def count_rows_for_guard(self, deletes: int) -> int:
        """Return the number of rows by which the guard detects an empty sheet: with deletes, only
        rows without errors, because with errors in all rows a plan can only delete missing pets.
        """
        rows = self.rows - len(self.blocked) if deletes else self.rows
        # The undone run may have changed nothing, but a sheet without rows is a mistake.
        return rows or bool(self.undoes)

    def with_verdict(self) -> Plan:
        """Return the plan with the guard's verdict on its current contents."""
        tally = Tally.of(self.changes)
        kinds = tally.kinds
        moved_ids = [self._cell(row, "id") for row in self.moved_ids or ()]
        watched = [
            *refuse_sentinels(self.guard.sentinels, self.sentinels, self.changes),
            *(each for each in self.verdict.refusals if each.of_store),
            *refuse_over_capacity(kinds["add"], self.pets, self.capacity),
        ]
        verdict = self.guard.judge(
            pets=self.pets,
            rows=self.count_rows_for_guard(kinds["delete"]),
            adds=kinds["add"],
            updates=kinds["update"],
            deletes=kinds["delete"],
            namesakes=tally.namesakes,
            shifted=[
                column
                for column in self.shifted
                if (any(kinds.values()) if column == "id" else tally.fields[column])
            ],
            moved_ids=f"{count(len(moved_ids), 'row')} ({first_items(moved_ids)})",
            is_least=self.coverage.is_narrow,
            sentinels=dict.fromkeys(watched),
        )
        return msgspec.structs.replace(self, verdict=verdict)

    def save(self, path: Where) -> Where:
        """Write the plan atomically to a file of mode 0600, and return the path.

        Raises PlanError if the file cannot be written, or would replace another file than a plan.
        """
        return as_file(self, path)

    @classmethod
    def load(cls, path: Where) -> Plan:
        """Return the plan in a file. Raises PlanError if the file cannot be read, is not a plan of
        this format, or was changed.
        """
        plan: Plan = from_file(path)
        return plan

    def summary(self) -> Summary:
        """Return the numbers of changes, of changed fields, and of rows without a change."""
        return summary_of(self.changes, self.conflicts, self)

    def select(
        self,
        *,
        ids: Iterable[int] | int | None = None,
        actions: Iterable[str] | str | None = None,
        fields: Iterable[str] | str | None = None,
        query: str | None = None,
        numbers: Iterable[int] | int | None = None,
    ) -> Plan:
        """Return a plan with a part of the changes: those that match all given criteria.

        The criteria are pets' ids, kinds (add, update, delete), columns, a query on the rows of
        `to_frame()`, and positions in `changes`. A query compares the frame's columns with
        constants, in the syntax of pandas. With `fields`, or a query on updates, an update keeps
        only the selected fields; a category's name and id stay together. An add or a delete is kept
        whole or left out, and `fields` leaves it out.

        Conflicts and blocked rows stay. If the sheet's winning value is left out, the store wins.
        The guard judges the new plan, which has a new fingerprint. Raises PlanError for an invalid
        criterion.
        """
        if isinstance(ids, Iterator):
            ids = [*ids]
        if isinstance(numbers, Iterator):
            numbers = [*numbers]
        selected_ids = self.selected_ids
        if ids is not None:
            wanted = {*_whole_numbers(ids, "ids")}
            known = wanted if selected_ids is msgspec.UNSET else wanted.intersection(selected_ids)
            selected_ids = tuple(sorted(known))
        changes = select_changes(
            self.changes,
            self.address,
            ids=ids,
            actions=actions,
            fields=fields,
            query=query,
            numbers=numbers,
        )
        notes = [*self.raw_notes, *unknown_ids(self.changes, ids)]
        if not (numbers is None or isinstance(numbers, range)):
            places = range(len(self.changes))
            notes += _iter_unknown("positions", _whole_numbers(numbers, "numbers"), places)
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
            raw_notes=tuple(dict.fromkeys(notes)),
            selected_ids=selected_ids,
        )
        return part.with_verdict()

    def resolve(self, choices: Choices) -> Plan:
        """Return the plan in which the given sides win the clashes.

        `{(7, "name"): "sheet"}` sends the sheet's name of pet 7; "store" keeps the store's name.
        The conflicts stay listed. If the sheet wins every clash, the plan equals the one that
        `on_conflict="sheet"` makes. The guard judges the new plan, which has a new fingerprint.
        Raises PlanError for a clash that the plan does not have, and for a value that cannot be
        sent.
        """
        if isinstance(choices, Mapping) and not choices:
            return self
        resolution = resolve_clashes(
            self.changes, self.conflicts, self.raw_notes, choices, self._cell
        )
        new = msgspec.structs.replace(
            self,
            changes=resolution.changes,
            conflicts=resolution.conflicts,
            raw_notes=resolution.notes,
            options=self.options.with_winner(resolution.winner),
        )
        return new.with_verdict()

    def with_guard(self, guard: Guard) -> Plan:
        """Return the plan with another guard and its verdict. The sentinels stay the same."""
        with_sentinels = msgspec.structs.replace(guard, sentinels=self.guard.sentinels)
        return msgspec.structs.replace(self, guard=with_sentinels).with_verdict()

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for the user, with the arguments and calls of Python."""
        return tuple(map(in_python, self.raw_notes))

    def to_frame(self, *, with_held: bool = False) -> pd.DataFrame:
        """Return the changes as a frame with one row per changed field, and one per delete.

        Its columns are source, kind, id, name, column, before and after: texts, except id (Int64).
        With `with_held`, the frame also has what the plan does not send, and two more columns:
        outcome is `planned`, `conflict` or `needs fixing`, as in a report, and message is what to
        do about it. A field in conflict is a row with the values of the store and of the sheet; a
        conflict or an error that keeps a whole row back is one row with a blank column.
        """
        if not with_held:
            return frame_of(self.changes, self.address)
        planned = (
            (*row, "planned", "")
            for change in self.changes
            for row in _selectable_rows(change, self.address)
        )
        return typed_frame([*planned, *self._held_rows()], [*_NAMES, "outcome", "message"])

    def _held_rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of `to_frame` for what the plan does not send."""
        for each in self.conflicts:
            pet = each.source, "", each.pet_id, each.name
            message = in_python(f"{each.subject} {each.problem}. {each.suggestion}")
            if not each.clashes:
                yield *pet, "", "", "", "conflict", message
            for clash in each.clashes if each.winner == "store" else ():
                source = each.source if each.row is None else self._cell(each.row, clash.column)
                values = clash.column, clash.store, clash.sheet
                yield source, "update", *pet[2:], *values, "conflict", message
        for row in self.blocked:
            yield row.source, "", row.pet_id, row.name, "", "", "", "needs fixing", row.problem

    def address(self, change: Change, column: Column) -> str:
        """Return the address of the change's cell in a column, the row's address if the sheet lacks
        the column, "" for a pet that is in no row.
        """
        place = self.places.get(column)
        if change.row is None or place is None:
            return change.source
        return self._cell(change.row, column)

    def _cell(self, row: int, column: Column) -> str:
        place, labels = self.places.get(column, ""), self.labels or None
        return cell_address(self.tab, place, row, self.files or (), labels)

    def to_json(self) -> bytes:
        """Return the plan as the content of a file: one JSON object with its fingerprint."""
        body = b"".join(
            (b'{"fingerprint":"', self.fingerprint.encode(), b'","plan":', *self.pieces())
        )
        return msgspec.json.format(body + b"}", indent=1)

    @classmethod
    def from_json(cls, body: bytes, where: str = "the plan") -> Plan:
        """Return the plan that `to_json` wrote.

        Raises PlanError if it is invalid, was changed, or has another format.
        """
        fingerprint, plan = decode_saved_plan(body, where)
        if plan.fingerprint != fingerprint or plan.to_json() != body:
            raise build_changed_error(where)
        return plan

    def remember_fingerprint(self, fingerprint: str) -> None:
        """Use this fingerprint of a plan with `LongChanges`, instead of computing it."""
        if isinstance(self.changes, LongChanges):
            rest = hashlib.sha256(self._encode_rest()).digest()
            self.changes.fingerprints[rest] = fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def decode_saved_plan(body: bytes, where: str) -> tuple[str, Plan]:
    """Return the fingerprint and the plan in `{"fingerprint": …, "plan": …}`, without a check that
    they match.

    Raises PlanError if the JSON is invalid or has another format.
    """
    try:
        # Read only the format first: in another format, the other fields may be different.
        found = decoder_of(_SavedHead).decode(body).plan.format
        if found != PLAN_FORMAT:
            raise _of_another(found, where)
        saved = decoder_of(_SavedPlan).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(
            f"{where} is not a plan of petsync: {error}",
            hint="Make a plan with `petsync plan SHEET -o PLAN.json`.",
        ) from None
    return saved.fingerprint, saved.plan


def build_changed_error(where: str) -> PlanError:
    """Return the error for a plan that does not match its fingerprint."""
    return PlanError(
        f"{where} was changed after it was made: its fingerprint does not match",
        hint="Make the plan again, and apply it unchanged.",
    )


def decode_store(body: bytes) -> str:
    """Return the address of the store in a saved plan, without a check of the plan. Raises
    ValueError if the JSON is invalid.
    """
    return decoder_of(_SavedHead).decode(body).plan.store


class _Head(msgspec.Struct, frozen=True):
    format: int
    store: str = ""


class _SavedHead(msgspec.Struct, frozen=True):
    plan: _Head


def _of_another(found: int, where: str) -> PlanError:
    older = found < PLAN_FORMAT
    return PlanError(
        f"{where} has format {found}, of {'an older' if older else 'a newer'} petsync; this "
        f"petsync reads {PLAN_FORMAT}",
        hint="Make the plan again"
        + ("." if older else ", or apply it with the version of petsync that made it."),
    )


class _SavedPlan(msgspec.Struct, frozen=True):
    fingerprint: str
    plan: Plan


def _place(each: Change | Conflict) -> tuple[int | None, int | None]:
    return each.row, each.pet_id
