"""Rows without an id that an earlier run recorded, and their pets. A run records the place of each
row without an id, its values, and its pet. The rows of a sheet are matched with these records like
the lines of two versions of a file: first rows with the same values, then rows with the same name,
then rows in the same place.

A match that stays uncertain is a doubt, and the user decides. A record without a row in the sheet
is "lost": a row without a record may be its row, unless it is clearly another one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from difflib import SequenceMatcher
from functools import lru_cache, partial
from itertools import product
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from petsync._display import quote
from petsync.models import Category, Pet
from petsync.plan.change import Add, Change
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    Vocabulary,
    category_cells,
    content,
    normalize,
    photo_keys,
    tag_names,
    unit_content,
)
from petsync.plan.match import iter_rows, merge_row
from petsync.table.base import SourceRow
from petsync.table.columns import LISTS, ORIGINAL_ROW
from petsync.table.frame import (
    find_rows,
    has_action,
    has_id_in,
    ids_of,
    lacks_id,
    plain_values,
    values_at,
)
from petsync.table.sheet import FRAME_NAME, Sheet

__all__ = [
    "MAX_LOST_PAIRS",
    "Identity",
    "Match",
    "RemovedPet",
    "RestoredPet",
    "ReusedId",
    "RowRecord",
    "Slot",
    "Suspect",
    "VacantId",
    "actions_of",
    "choose_records",
    "find_added_pets",
    "find_added_twins",
    "find_alike",
    "find_lost_rows",
    "find_missing_rows",
    "find_rows_of_removed_pets",
    "find_source_rows",
    "find_suspects",
    "identify",
    "is_free",
    "is_renamed",
    "mark_doubts",
    "match_source_rows",
    "read_row_categories",
    "read_row_pets",
    "select_undos",
    "slots_of",
    "without_base",
]


Identity = int | tuple[str, int]
"""A pet by its id; if the id is unknown, by the run that began to add it and by its row."""
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

SIMILAR = 0.7
"""The minimum ratio (difflib) of two names that may differ only by a typing error."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A row without an id: the nearest ids above and below it, and what is known about its pet."""

    above: int | None = None
    """The nearest id in a row above, None if there is none."""
    below: int | None = None
    """The nearest id in a row below, None if there is none."""
    row_pet: Pet | None = None
    """The row's values, if it belongs or may belong to a pet, and no earlier run recorded them."""
    run: str = ""
    """The run that recorded the row's pet, "" for none."""
    on: str = ""
    """The local date of that run, "" for none."""
    action: str = ""
    """The row's action; "" for `merge`."""
    may_be: tuple[Identity, ...] = ()
    """The pets to which a row in conflict may belong."""
    fixed_in: str | msgspec.UnsetType = msgspec.UNSET
    """The workbook of failed rows from which a run sent the row, unset for none."""


class RestoredPet(NamedTuple):
    """A pet after an undo."""

    run: str
    """The id of the undone run."""
    undo: str
    """The id of the undo's run."""
    pet: Pet
    """The pet after the undo."""
    at: str = ""
    """The start of the undo, ISO 8601."""
    source: str = ""
    """The sheet of the undone run."""
    kind: str = ""
    """The kind of the undone change: "update" or "delete"."""
    sent: Pet | None = None
    """The pet after the undone change, None for a delete."""
    fields: tuple[str, ...] = ()
    """The columns that the undo restored; () for a delete."""
    base: str = ""
    """The time of the sheet's export, which identifies its base; "" for none."""
    earlier: RestoredPet | None = None
    """The pet after the undo before, None if there was none."""


def select_undos(
    restored: Mapping[int, RestoredPet], runs: Container[str]
) -> dict[int, RestoredPet]:
    """Return the pets after the undos of these runs only, by id."""
    found: dict[int, RestoredPet] = {}
    for pet_id, newest in restored.items():
        chain = list[RestoredPet]()
        each: RestoredPet | None = newest
        while each is not None:
            chain += [each] if each.run in runs else []
            each = each.earlier
        for undo in reversed(chain):
            found[pet_id] = undo._replace(earlier=found.get(pet_id))
    return found


class RenumberedPet(NamedTuple):
    """A pet that was added with an id, and that the service created under another id."""

    pet_id: int
    """The id in the store."""
    on: str
    """The local date of the run."""
    source: str
    """The run's sheet."""
    name: str
    """The pet's name at the time of the run."""


class VacantId(msgspec.Struct, frozen=True, kw_only=True):
    """A row with an id that no pet of the store has. A service may assign this id to a new pet."""

    pet_id: int
    """The id in the row."""
    row: int
    """The row's number."""
    source: str
    """The row's address."""
    row_pet: Pet | None = None
    """The row's values, None if they are unknown."""
    action: str = ""
    """The row's action; "" for `merge`."""


class ReusedId(NamedTuple):
    """A pet that a run added from a row without an id, under an id that other rows named."""

    on: str
    """The local date of the run."""
    source: str
    """The address of the row from which the pet was added."""
    pet: Pet
    """The pet that was added."""
    rows: tuple[VacantId, ...]
    """The rows that named the id."""


class RemovedPet(NamedTuple):
    """A pet that a run removed by a delete, or by the undo of an add."""

    run: str
    """The run's id."""
    on: str
    """The local date of the run."""
    pet: Pet
    """The removed pet."""
    undoes: str = ""
    """The run that the run undid, "" if it was not an undo."""


class Suspect(NamedTuple):
    """A row that names a reused id or the id of a removed pet, and seems to belong to an earlier
    pet with this id.
    """

    reused: ReusedId | RemovedPet
    """The pet that got the reused id, or the removed pet."""
    is_sure: bool
    """True if the row certainly belongs to an earlier pet."""


class RowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row without an id, as a run recorded it."""

    run_id: str
    """The run's id."""
    on: str
    """The local date of the run."""
    source: str
    """The sheet's file."""
    tab: str = ""
    """The worksheet, "" for CSV."""
    digest: str = ""
    """The checksum of the sheet's file."""
    base: str = ""
    """The time of the sheet's export, which identifies its base; "" for none."""
    row: int
    """The row's number."""
    above: int | None = None
    """The nearest id in a row above."""
    below: int | None = None
    """The nearest id in a row below."""
    row_pet: Pet
    """The row's values."""
    agreed: Pet | None = None
    """The last values on which sheet and store agreed; None if these are the row's values.

    They differ if the run left the row in conflict, or if its change did not reach the store.
    """
    category: Category | None = None
    """The row's category cells, if they differ from the sent category."""
    pet_id: int | None = None
    """The id of the row's pet, None if it is unknown."""
    state: Literal["added", "unknown", "unsent", "held"] = "added"
    """The state of the row.

    "added": the run added or recognised its pet. "unknown": the run began to add a pet, and the
    result is unknown. "unsent": the run stopped before it began to add a pet. "held": the run left
    the row in conflict, because it may belong to any of the pets in `may_be`.
    """
    at: str = ""
    """The time at which the run's add ended, or began if it has no end; "" if the run only
    recognised the pet.
    """
    run_started: str = ""
    """The start of the run that wrote the record, ISO 8601 in UTC."""
    folder: str = ""
    """The state folder with the record, "" for the one in use."""
    is_added: bool = True
    """True if the run added the pet, false if it recognised an existing one."""
    seen: str = ""
    """The creation time of the run's plan, if the plan identified the pet of each row without an
    id; else "".
    """
    action: str = ""
    """The row's action; "" for `merge`, and if the run did not record it."""
    may_be: tuple[Identity, ...] = ()
    """The pets to which a row in conflict may belong."""
    is_undone: bool = False
    """True if an undo removed the pet."""
    is_sure: bool = True
    """False for an "unknown" record whose `pet_id` belongs only to a possible pet, edited since.
    """
    fixed_in: str = ""
    """The workbook of failed rows from which the run sent the row of this sheet, "" for none."""

    @property
    def identity(self) -> Identity:
        """The row's pet: its id or, if the id is unknown, the run and the row."""
        return (self.run_id, self.row) if self.pet_id is None else self.pet_id

    @property
    def last_agreed(self) -> Pet:
        """The last values on which sheet and store agreed."""
        return self.row_pet if self.agreed is None else self.agreed

    @property
    def how(self) -> str:
        """How the run found the row's pet: "added" or "recognised"."""
        return "added" if self.is_added else "recognised"

    @property
    def resume(self) -> str:
        """The command that finishes the run."""
        folder = f" --state {quote(self.folder)}" if self.folder else ""
        return f"petsync resume {self.run_id}{folder}"


_Kind = Literal["certain", "doubt", "lost", "other"]


class Match(NamedTuple):
    """The result of matching a row with the records."""

    kind: _Kind
    """The kind of the match.

    "certain": the row belongs to the record. "doubt": it may belong to the record, or to one of
    several records. "lost": it may belong to any of the records, whose rows are missing from the
    sheet. "other": it is another row in the place of the recorded row.
    """
    records: tuple[RowRecord, ...]
    """The records that the row matches."""
    is_edited: bool
    """True if the row's values differ from the record's."""
    was_conflict: bool = False
    """True if an earlier run left this row in conflict for the same reason, or if its pet's row had
    no id in the last round.
    """
    is_shared: bool = False
    """True if each record is also the first one of another row, which is more similar."""
    is_contested: bool = False
    """True if the row has the record's name or values, and another row may be the recorded one."""

    @property
    def record(self) -> RowRecord:
        """The first record; the only one of a certain match. Of several, the most likely one."""
        return self.records[0]


def _ids(sheet: Sheet) -> Iterable[int]:
    return ids_of(sheet.rows)


def slots_of(sheet: Sheet) -> dict[int, _Gap]:
    """Return, for each row without an id, the nearest ids above and below it. Rows with the action
    `ignore` are left out.
    """
    frame = sheet.rows
    lacking = lacks_id(frame)
    if lacking.any():
        lacking[lacking] = ~has_action(frame, "ignore", at=lacking)
    if "id" not in frame:
        return dict.fromkeys(frame.index[lacking].tolist(), (None, None))
    if not lacking.any():
        return {}
    pairs = (_values(ids[lacking]) for ids in (frame["id"].ffill(), frame["id"].bfill()))
    return dict(zip(frame.index[lacking].tolist(), zip(*pairs, strict=True), strict=True))


def actions_of(sheet: Sheet, rows: Iterable[int]) -> dict[int, str]:
    """Return the actions of these rows, by row number; "" for `merge`."""
    frame = sheet.rows
    some = find_rows(frame, rows)
    if not len(some):
        return {}
    actions = values_at(frame["action"].array, some)
    pairs = zip(frame.index[some].tolist(), actions, strict=True)
    return {row: "" if action == "merge" else action for row, action in pairs}


def read_row_pets(sheet: Sheet, rows: Iterable[int], vocabulary: Vocabulary) -> dict[int, Pet]:
    """Return these rows' values, each as a pet, by row number."""
    wanted = [*rows]
    if not wanted:
        return {}
    lines = iter_rows(sheet.rows, find_rows(sheet.rows, wanted))
    return {row.number: merge_row(Pet(), row.values, vocabulary) for row in lines}


def read_row_categories(sheet: Sheet, row_pets: Mapping[int, Pet]) -> dict[int, Category]:
    """Return these rows' category cells by row number, if they differ from the category of the
    row's pet: a name beside the number of another category, for example.
    """
    lines = iter_rows(sheet.rows, find_rows(sheet.rows, row_pets))
    cells = {
        line.number: Category(line.values.get("category_id"), line.values.get("category"))
        for line in lines
    }
    return {row: each for row, each in cells.items() if each != category_cells(row_pets[row])}


def find_suspects(
    sheet: Sheet,
    reused: Mapping[int, ReusedId],
    pets: pd.DataFrame,
    vocabulary: Vocabulary,
) -> dict[int, Suspect]:
    """Return the rows that name a reused id and may belong to an earlier pet, by row number. A row
    with the new pet's name belongs to that pet, unless the row is older than the pet's id, has not
    changed since, and would change or delete the pet.
    """
    frame = sheet.rows
    if not reused or "id" not in frame:
        return {}
    ids = frame["id"][has_id_in(frame, reused)]
    numbers: dict[int, int] = dict(zip(ids.index.tolist(), ids.tolist(), strict=True))
    there = pets[has_id_in(pets, reused)]
    names = _names_of(there)
    actions = actions_of(sheet, numbers)
    found = {}
    for row, row_pet in read_row_pets(sheet, numbers, vocabulary).items():
        each, name = reused[numbers[row]], normalize(row_pet.name)
        name_now = names.get(numbers[row])
        if name and name_now == name != normalize(each.pet.name):
            continue  # The store has the row's pet again.
        is_named = bool(name) and name == normalize(each.pet.name)
        harms = actions[row] == "delete" or content(row_pet) != content(each.pet)
        is_same = any(_is_unchanged(old, row_pet, actions[row]) for old in each.rows)
        had_name = any(
            name and old.row_pet and normalize(old.row_pet.name) == name for old in each.rows
        )
        is_sure = (is_same and harms) or (had_name and not is_named)
        if is_sure or not is_named:
            found[row] = Suspect(each, is_sure)
    return found


def find_rows_of_removed_pets(
    sheet: Sheet,
    removed: Mapping[int, RemovedPet],
    pets: pd.DataFrame,
    vocabulary: Vocabulary,
) -> dict[int, Suspect]:
    """Return, by row number, the rows with the id of a removed pet, if the store now has another
    pet under this id. Rows that have, or had at the export, the other pet's name are omitted. In a
    sheet without a base, only rows with the old name count.
    """
    frame = sheet.rows
    if not removed or "id" not in frame:
        return {}
    ids = frame["id"][has_id_in(frame, removed)]
    numbers: dict[int, int] = dict(zip(ids.index.tolist(), ids.tolist(), strict=True))
    names = _names_of(pets[has_id_in(pets, removed)])
    exported = {} if sheet.base is None else _names_of(sheet.base.rows)
    found = {}
    for row, row_pet in read_row_pets(sheet, numbers, vocabulary).items():
        pet_id, name = numbers[row], normalize(row_pet.name)
        old, name_now = normalize(removed[pet_id].pet.name), names.get(pet_id)
        if name_now is None or name_now in (old, name, exported.get(pet_id)):
            continue  # The pet is back, or the row or its export has the other pet's name.
        if name == old or sheet.base is not None:
            found[row] = Suspect(removed[pet_id], is_sure=True)
    return found


def _names_of(pets: pd.DataFrame) -> dict[int, str]:
    return dict(zip(pets["id"].tolist(), map(normalize, pets["name"].fillna("")), strict=True))


def _is_unchanged(old: VacantId, row_pet: Pet, action: str) -> bool:
    return (
        old.row_pet is not None
        and content(old.row_pet) == content(row_pet)
        and old.action == action
    )


def identify(
    sheet: Sheet,
    records: Sequence[RowRecord],
    vocabulary: Vocabulary,
    suspect_ids: Collection[int] = frozenset(),
) -> dict[int, Match]:
    """Match the sheet's rows without an id with the records; return the matches by row number.

    `records` are from one store, the newest first; `vocabulary` is the store's. A row that
    names one of the `suspect_ids` may belong to a pet other than that of the record with that id.
    """
    if not records:
        return {}
    lines = _read_lines(sheet, vocabulary)
    units = tuple(unit for unit in UNITS if any(c in sheet.rows for c in COLUMNS_OF[unit]))
    claimed = {*sheet.blocked_ids, *_ids(sheet)} - {*suspect_ids} if lines else set()
    files = _group_by_file(sheet, lines, records, units, claimed)
    last_seen = max((r.seen for f in files if f.trust == "file" for r in f.records), default="")
    order = _order_of(sheet, records, claimed)
    found: dict[int, Match] = {}
    for trust in _TRUSTS:
        group = [record for file in files if file.trust == trust for record in file.records]
        for state in ("added", "unknown", "unsent"):
            used = {m.record.pet_id for m in found.values() if m.kind == "certain"} - {None}
            old = _drop_repeated_records(
                r for r in group if r.state == state and r.pet_id not in used
            )
            new = [line for line in lines if line.row not in found]
            if old and new:
                found |= _Matching(trust, units, old, new, order, last_seen).matches()
                found = _drop_taken(found)
    ignored = _ignored_names(sheet, vocabulary)
    found |= _add_possible_records(lines, files, found, order, ignored, last_seen)
    found |= _match_lost_rows(lines, files, found, order, ignored, units, last_seen)
    numbered = _find_contents(sheet, _find_possible_pets(files) & claimed, vocabulary)
    found |= _match_conflict_rows(lines, files, found, order, units, last_seen, numbered)
    unedited = {
        m.record.identity for m in found.values() if m.kind == "certain" and not m.is_edited
    }
    for file in files:
        added = [record for record in file.records if record.state == "added"]
        own = [record for record in added if record.pet_id in claimed]
        if not any(record.identity in unedited for record in own):
            own = [record for record in own if _may_be_pasted(record, file, sheet)]
        others = [record for record in added if record.pet_id not in claimed]
        found |= _match_pasted_rows(lines, own, found, "certain")
        if file.trust == "any":
            found |= _match_pasted_rows(lines, others, found, "doubt")
    # Nothing shows whether the rows of a DataFrame are in the order of an earlier one.
    pets = {line.row: line.row_pet for line in lines} if sheet.is_frame else {}
    return {
        row: match
        if match.record.is_sure and not _is_in_place_only(match, pets.get(row), claimed)
        else match._replace(kind="doubt")
        for row, match in found.items()
    }


def find_missing_rows(
    sheet: Sheet, records: Iterable[RowRecord], matches: Mapping[int, Match]
) -> tuple[RowRecord, ...]:
    """Return the records of the newest run of this file whose pets no row names, matches or may
    be. `records` and `matches` are those of `identify`.
    """
    own = [each for each in records if (each.source, each.tab) == (sheet.source, sheet.tab)]
    newest = max((each.run_started for each in own), default="")
    there = {each.pet_id for match in matches.values() for each in match.records}
    there |= sheet.named_ids
    return tuple(
        each
        for each in own
        if each.run_started == newest and each.pet_id is not None and each.pet_id not in there
    )


def _may_be_pasted(record: RowRecord, file: _File, sheet: Sheet) -> bool:
    """Return true if a row with the name of the recorded one may be that row although another row
    has its pet's id. In the file in which the run added it, it may be if the file was exported
    again.
    """
    if file.trust not in ("file", "kin"):
        return True
    return sheet.base is not None and sheet.base.taken_at > max(record.run_started, record.at)


def _is_in_place_only(match: Match, row_pet: Pet | None, claimed: Container[int | None]) -> bool:
    """Return true if only the place of a row with another name shows that it is the record's."""
    return (
        row_pet is not None
        and match.kind == "certain"
        and match.is_edited
        and match.record.pet_id not in claimed
        and bool(normalize(row_pet.name))
        and _is_named_otherwise(match.record, row_pet)
    )


def _match_pasted_rows(
    lines: Sequence[_Line], listed: Sequence[RowRecord], found: Mapping[int, Match], kind: _Kind
) -> dict[int, Match]:
    """Return matches of this kind of edited rows that were pasted from a list.

    Rows with a name of the list are pasted if they, and the rows `found` before, are half of the
    list. If the matches are certain, because other rows name the pets, a row is also pasted if a
    row next to it is next to it in the list, too; and the only row of a list, if it has all its
    other values, except the status. A row with another name that is next to a pasted row, in the
    place of a row of the list, was perhaps renamed.
    """
    if not listed:
        return {}
    listed = sorted(listed, key=lambda record: record.row)
    places = {each.identity: place for place, each in enumerate(listed)}
    at, free = dict[int, int](), dict[int, _Line]()
    for number, line in enumerate(lines):
        match = found.get(line.row)
        if match is None and not line.action:
            free[number] = line
        elif match is not None and len(match.records) == 1 and match.record.identity in places:
            at[number] = places[match.record.identity]
    used = {*at.values()}
    rest = _group_by(
        lambda place: _name(listed[place]), (n for n in range(len(listed)) if n not in used)
    )
    named = dict[int, int]()
    for name, numbers in _group_by(lambda number: _name(free[number]), free).items():
        if name:
            named.update(zip(numbers, rest.get(name, ()), strict=False))
    both = at | named
    is_half = 2 * len(both) >= len(listed) and (len(both) > 1 or bool(at))
    if not is_half:
        named = {
            number: place
            for number, place in named.items()
            if kind == "certain"
            and (
                any(both.get(number + by) == place + by for by in (-1, 1))
                or (len(listed) == 1 and _is_all_support(listed[place], free[number]))
            )
        }
        both = at | named
    if is_half or kind == "certain":
        rows = sorted(free.keys() - named.keys())
        named |= _find_places_beside(rows, both, {*range(len(listed))} - {*both.values()})
    return {
        free[number].row: Match(kind, (listed[place],), is_edited=True)
        for number, place in named.items()
    }


def _find_places_beside(
    rows: Iterable[int], known: Mapping[int, int], free: set[int]
) -> dict[int, int]:
    """Return the `free` places of the rows next to one whose place is `known`."""
    found = dict[int, int]()
    for row in rows:
        for by in (-1, 1):
            place = known.get(row + by, -2) - by
            if place in free:
                free.discard(place)
                found[row] = place
                break
    return found


def find_source_rows(sheet: Sheet) -> dict[int, SourceRow]:
    """Return, by row number, where the rows of a workbook of failed rows are from; nothing for any
    other sheet, and for rows that were added to the workbook.
    """
    if sheet.base is None or not sheet.base.source_rows or ORIGINAL_ROW not in sheet.others:
        return {}
    origins, cells = sheet.base.source_rows, sheet.others[ORIGINAL_ROW]
    pairs = zip(cells.index.tolist(), plain_values(cells.array), strict=True)
    return {row: origins[key] for row, text in pairs if (key := str(text or "").strip()) in origins}


def match_source_rows(
    sheet: Sheet,
    records: Sequence[RowRecord],
    found: Mapping[int, Match],
    vocabulary: Vocabulary,
    is_same_file: Callable[[str, str], bool],
) -> dict[int, Match]:
    """Return the matches of the rows of a workbook of failed rows, `found` by `identify`, with
    those of the rows from which they were copied.

    A run that began after the failed run may have added the pet of such a row, from the sheet or
    from another workbook of its failed rows. Its record is certain if the row has the same values,
    else a doubt. A row that may belong to a pet since the failed run stays in doubt.
    """
    origins = find_source_rows(sheet)
    if not origins:
        return dict(found)
    lines = [line for line in _read_lines(sheet, vocabulary) if line.row in origins]
    if not lines:
        return dict(found)
    known = {record.identity: record for record in reversed(records)}
    claimed = {*sheet.named_ids}
    matches = dict(found)
    for line in lines:
        origin, match = origins[line.row], found.get(line.row)
        if match is not None and match.kind == "certain" and match.record.base == _base_of(sheet):
            continue
        later = [
            record
            for record in records
            if record.state in ("added", "unknown")
            and record.tab == origin.tab
            and record.run_started > origin.started
            and record.identity not in claimed
            and is_same_file(record.source, origin.source)
        ]
        same = [each for each in later if _content(each) == _content(line)]
        near = [each for each in later if _is_from(each, origin, line)]
        if same and not same[0].fixed_in:
            matches[line.row] = Match("certain", (same[0],), is_edited=False)
        elif same or near:
            matches[line.row] = Match("doubt", (*(same or near),), is_edited=not same)
        elif may_be := [each for each in origin.may_be if each not in claimed]:
            # A pet that no run recorded has only its id.
            pets = (known.get(each) or _record_of(each, line) for each in may_be)
            matches[line.row] = Match("doubt", tuple(pets), is_edited=True)
    return matches


def _is_from(record: RowRecord, origin: SourceRow, line: _Line) -> bool:
    """Return true if the record may be of the row from which a row was copied: it is in its place,
    or it has its name, a similar one, or one of its other values.
    """
    if record.row == origin.row and _gap(record) == (origin.above, origin.below):
        return True
    rows = [line] + ([line._replace(row_pet=origin.row_pet)] if origin.row_pet else [])
    return any(any(_compare_names(record, each)) or _find_support(record, each) for each in rows)


def _record_of(identity: Identity, line: _Line) -> RowRecord:
    pet_id = identity if isinstance(identity, int) else None
    run = "" if isinstance(identity, int) else identity[0]
    return RowRecord(
        run_id=run,
        on="",
        source="",
        row=line.row,
        row_pet=line.row_pet,
        pet_id=pet_id,
        state="unknown" if pet_id is None else "added",
        is_added=False,
    )


def mark_doubts(
    matches: Mapping[int, Match],
    sheet: Sheet,
    vocabulary: Vocabulary,
    numbered: Collection[int] = frozenset(),
    may_lack: Collection[int] = frozenset(),
) -> dict[int, Match]:
    """Return the matches; some certain ones become doubts.

    A certain match is a doubt if its row has neither a similar name nor the record's tags or
    photos. In a sheet that gets ids, such a row is usually a new one in the place of a removed row.
    For pets whose rows had their id (`numbered`), a row with a dissimilar name is not a match; for
    pets whose rows `may_lack` the id again, such a match is a doubt.
    """
    rows = [
        row
        for row, match in matches.items()
        if match.is_edited
        and (match.kind == "certain" or match.record.pet_id in numbered)
        and len(match.records) == 1
    ]
    doubts = {}
    for row, row_pet in read_row_pets(sheet, rows, vocabulary).items():
        record = matches[row].record
        had_id = record.pet_id in numbered or record.pet_id in may_lack
        if _is_named_otherwise(record, row_pet) if had_id else is_renamed(record, row_pet):
            kind: Literal["other", "doubt"] = "other" if record.pet_id in numbered else "doubt"
            doubts[row] = matches[row]._replace(kind=kind)
    return {**matches, **doubts}


def find_added_twins(matches: Mapping[int, Match], sheet: Sheet) -> dict[int, RowRecord]:
    """Return rows with the action `add-another`, each with the record of an equal row. A run added
    the pet of that row with the same action, and another row names this pet by its id.
    """
    named = {
        row: match.record
        for row, match in matches.items()
        if match.kind == "certain"
        and _adds_another(match.record)
        and match.record.pet_id in sheet.named_ids
    }
    return {
        row: named[row] for row, each in actions_of(sheet, named).items() if each == "add-another"
    }


def _is_named_otherwise(record: RowRecord, row_pet: Pet) -> bool:
    names = normalize(record.row_pet.name), normalize(row_pet.name)
    line = _Line(record.row, None, None, row_pet)
    return not (any(_compare_names(record, line)) or _share_a_word(*names))


def find_added_pets(
    changes: Sequence[Change],
    tab: str,
    records: Iterable[RowRecord],
    *,
    skip: Container[int] = (),
    by_name: bool = False,
) -> dict[int, int]:
    """Return the ids of the pets that later runs created for an earlier plan's adds without an id.
    The keys are the numbers of these adds. Adds in `skip` are omitted.

    A row in the same place counts, even if it was edited, and so does a row elsewhere with the
    same values or, `by_name`, with the same name.
    """
    lines = {
        number: _Line(change.row, None, None, change.after)
        for number, change in enumerate(changes)
        if isinstance(change, Add) and change.pet_id is None and number not in skip
        if change.row is not None
    }
    known = (record for record in records if record.is_sure and record.pet_id is not None)
    of_tab = [record for record in known if record.tab == tab]
    places, contents = _group_by(_row, of_tab), _group_by(_content, of_tab)
    found: dict[int, int] = {}
    used: set[int | None] = set()

    def match(number: int, near: Iterable[RowRecord]) -> None:
        record = next((each for each in near if each.pet_id not in used), None)
        if number not in found and record is not None and record.pet_id is not None:
            found[number] = record.pet_id
            used.add(record.pet_id)

    for number, line in lines.items():
        same = (each for each in places.get(line.row, ()) if _content(each) == _content(line))
        match(number, same)
    for number, line in lines.items():
        match(number, contents.get(_content(line), ()))
    for number, line in lines.items():
        match(number, (each for each in places.get(line.row, ()) if _is_close(each, line)))
    names = _group_by(_name, of_tab) if by_name else {}
    for number, line in lines.items():
        match(number, names.get(_name(line), ()) if _name(line) else ())
    return found


def is_renamed(record: RowRecord, row_pet: Pet) -> bool:
    """Return true if the row, which is in the record's place, has neither a similar name nor the
    record's tags or photos.
    """
    return not _is_close(record, _Line(record.row, None, None, row_pet))


def find_alike(adds: Mapping[int, Pet], pets: Iterable[Pet]) -> dict[int, Pet]:
    """Return, by the add's number, a pet that the add may have created and that was edited since.

    The pet has the same name, the same photos, or the same values except the name. A pet of a
    series, such as `Pet 1` and `Pet 2`, does not count.
    """
    by_look = defaultdict[Hashable, list[Pet]](list)
    for pet in pets:
        for look in _iter_partial_keys(pet):
            by_look[look].append(pet)
    found: dict[int, Pet] = {}
    for number, added in adds.items():
        near = (pet for look in _iter_partial_keys(added) for pet in by_look.get(look, ()))
        alike = next((pet for pet in near if not _is_of_series(added, pet)), None)
        if alike is not None:
            found[number] = alike
    return found


def _iter_partial_keys(pet: Pet) -> Iterator[Hashable]:
    """Yield the keys of a pet that remain if one value is edited, the most reliable first."""
    if name := normalize(pet.name):
        yield "name", name
    if pet.photo_urls:
        yield "photo_urls", photo_keys(pet.photo_urls)
    if pet.tags or pet.photo_urls:
        yield "all but the name", content(pet, _BUT_NAME)


def _is_of_series(one: Pet, other: Pet) -> bool:
    """Return true if the names differ only in their numbers, and the photos do not show that it is
    the same pet.
    """
    names = normalize(one.name), normalize(other.name)
    letters = normalize(_letters(names[0])), normalize(_letters(names[1]))
    is_series = names[0] != names[1] and letters[0] == letters[1]
    photos = photo_keys(one.photo_urls), photo_keys(other.photo_urls)
    return is_series and not (photos[0] and photos[0] == photos[1])


def _content(item: _Item) -> Hashable:
    return content(item.row_pet)


def _is_close(record: RowRecord, line: _Line) -> bool:
    has_support = bool(_find_support(record, line) - {"category"}) and _is_backed(record, line)
    return has_support or any(_compare_names(record, line))


def find_lost_rows(
    sheet: Sheet,
    adds: Mapping[int, Pet],
    missing_pets: Mapping[int, Pet],
    ids: Sequence[int],
    *,
    is_deleted: bool,
) -> list[tuple[int, int]]:
    """Return pairs of a missing pet's id and a row without an id that may be its row, with an
    edited name.

    The name is similar, all other values of the row are the pet's, and at least one of them is not
    a status. Or the row is at the pet's place among `ids`, the ids of the export in their order:
    then the name does not count, and half of the other values are enough, except at the end of the
    sheet, where new rows are typed. Without `ids` the place does not count. `missing_pets` are pets
    that no row names. `adds` are the pets that rows would add.
    """
    if not adds or not missing_pets or len(adds) * len(missing_pets) > MAX_LOST_PAIRS:
        return []
    places = dict(_places({*_ids(sheet)}, ids))
    slots = slots_of(sheet)
    found = []
    for pet_id, pet in missing_pets.items():
        record = RowRecord(run_id="", on="", source="", row=0, row_pet=pet, pet_id=pet_id)
        for row, added in adds.items():
            line = _Line(row, *slots.get(row, _NOWHERE), added)
            is_there = places.get(pet_id) == _gap(line) != _NOWHERE
            # New rows are typed at the end: this place counts only if the pet would be deleted.
            is_there &= is_deleted or line.below is not None
            if _is_lost_row(record, line, is_there=is_there):
                found.append((pet_id, row))
    return found


def _is_lost_row(record: RowRecord, line: _Line, *, is_there: bool) -> bool:
    """Return true if the row may be that of the record's pet. `is_there` is true if the row is at
    the record's place.
    """
    stated = [unit for unit in _BUT_NAME if unit_content(line.row_pet, unit)]
    support = _find_support(record, line)
    if is_there and line.below is not None:
        agreeing = _find_agreeing_units(record, line)
        is_plain = not any(unit_content(line.row_pet, unit) for unit in _TELLING)
        return 2 * len(agreeing) >= len(stated) and bool(support or (agreeing and is_plain))
    if not support or content(record.row_pet, stated) != content(line.row_pet, stated):
        return False
    return (
        is_there or any(_compare_names(record, line)) or _share_a_word(_name(record), _name(line))
    )


def _places(there: Collection[int], ids: Sequence[int]) -> Iterator[tuple[int, _Gap]]:
    """Yield the place of each missing id: the nearest present ids above and below."""
    above: int | None = None
    waiting: list[int] = []
    for each in (*ids, None):
        if each is not None and each not in there:
            waiting.append(each)
            continue
        yield from ((place, (above, each)) for place in waiting)
        waiting, above = [], each


def without_base(matches: Mapping[int, Match]) -> dict[int, Match]:
    """Return the matches, with records that are not linked to an export."""

    def strip_base(match: Match) -> Match:
        records = (msgspec.structs.replace(each, base="") for each in match.records)
        return match._replace(records=tuple(records))

    return {row: strip_base(match) for row, match in matches.items()}


class _Line(NamedTuple):
    """A row of the sheet: its place and its values."""

    row: int
    above: int | None
    below: int | None
    row_pet: Pet
    action: str = ""


_Item = RowRecord | _Line
_Gap = tuple[int | None, int | None]
_MAX_PAIRS = 10_000
"""The maximum number of pairs of rows to compare for similarity."""
_CACHED = 1 << 16
"""The maximum number of cached results of comparisons of names."""
_FEW = 100
_SEVERAL = 2
"""The minimum number of equal values for a row to count as a possible edit of the recorded row in
the same place.
"""
_Trust = Literal["file", "kin", "left", "any"]
"""The origin of a record: this file, a copy or the original of this file, or any other file."""
_TRUSTS: tuple[_Trust, ...] = ("file", "kin", "left", "any")
_Link = Literal["ids", "rows", "name", ""]
"""What links a sheet to records: its export or ids, rows that both have, its name, or nothing."""
MAX_LOST_PAIRS = 100_000
"""The maximum number of pairs of missing pets and rows to compare."""
_Pair = tuple[RowRecord, _Line]


class _Order(NamedTuple):
    """The order of the sheet's rows.

    In a sheet that was sorted, the place of a row shows little about its identity.
    """

    ids: Collection[int]
    """The ids in the sheet."""
    later: Collection[int]
    """The ids of pets that were not in the sheet's export."""
    is_shuffled: bool
    """True if the ids are not in the order of an export."""
    is_by_name: bool
    """True if the sheet may be sorted by name."""
    table: str = ""
    """The source of a DataFrame; "" for a file's sheet."""

    @property
    def is_unsorted(self) -> bool:
        """True if there is no sign that the rows were sorted."""
        return not (self.is_shuffled or self.is_by_name)

    def is_place(self, old: _Gap, new: _Gap) -> bool:
        """Return true if both gaps are the same place.

        At least one neighbour is the same. The other one is the same too, or the old neighbour was
        removed, or the new neighbour was added later.
        """
        same = [old_id == new_id for old_id, new_id in zip(old, new, strict=True)]
        return any(same) and all(
            old_id == new_id
            or (old_id is not None and old_id not in self.ids)
            or (new_id is not None and new_id in self.later)
            for old_id, new_id in zip(old, new, strict=True)
        )


class _File(NamedTuple):
    """The records of a file."""

    trust: _Trust
    """The origin of the records."""
    link: _Link
    """The link with the sheet."""
    records: list[RowRecord]
    """The newest record of each pet."""
    expected: list[RowRecord]
    """The records whose rows should be in the sheet, because it is this file or a copy of it."""
    conflicts: list[RowRecord]
    """The records of rows that runs left in conflict."""


def _order_of(sheet: Sheet, records: Iterable[RowRecord], ids: Collection[int]) -> _Order:
    frame, order = sheet.rows, [*_ids(sheet)]
    later = {record.pet_id for record in records} - {None}
    if sheet.base is not None:
        later |= {*ids} - sheet.base.ids
    names = (
        [normalize(name).casefold() for name in frame["name"].dropna()] if "name" in frame else []
    )
    return _Order(
        ids=ids,
        later={each for each in later if each is not None},
        is_shuffled=order != sorted(order),
        is_by_name=names in (sorted(names), sorted(names, reverse=True)),
        table=sheet.source if sheet.is_table else "",
    )


def _read_lines(sheet: Sheet, vocabulary: Vocabulary) -> list[_Line]:
    slots = slots_of(sheet)
    row_pets = read_row_pets(sheet, slots, vocabulary)
    actions = actions_of(sheet, slots)
    return [_Line(row, *slots[row], pet, actions[row]) for row, pet in row_pets.items()]


def _ignored_names(sheet: Sheet, vocabulary: Vocabulary) -> set[str]:
    """Return the names in ignored rows without an id."""
    frame = sheet.rows
    rows = frame.index[lacks_id(frame) & has_action(frame, "ignore")].tolist()
    return {normalize(pet.name) for pet in read_row_pets(sheet, rows, vocabulary).values()} - {""}


def _group_by_file(
    sheet: Sheet,
    lines: Sequence[_Line],
    records: Iterable[RowRecord],
    units: Sequence[Unit],
    ids: Collection[int],
) -> list[_File]:
    """Return the records by their files. `ids` are the ids in the sheet."""
    if not lines:
        return []
    groups: defaultdict[tuple[str, str, str, bool], list[RowRecord]] = defaultdict(list)
    for record in records:
        # All DataFrames have one name, but each run may have had another one.
        run = record.run_started if record.source == FRAME_NAME else ""
        is_left_out = _is_left_out(record, sheet)
        groups[record.source, record.tab, run, is_left_out].append(record)
    base = _base_of(sheet)
    files = []
    for (*_, is_left_out), of_file in groups.items():
        conflicts, known = _split_conflicts(of_file)
        newest = _select_newest(known)
        trust = _judge_trust(sheet, lines, newest or conflicts, of_file, units)
        if is_left_out and trust != "any":
            trust = "left"
        # A new export does not have the rows that were added to the older export that it replaced.
        expected = _select_newest(r for r in known if not base or r.base in ("", base))
        link = _judge_link(sheet, expected, trust, ids)
        files.append(_File(trust, link, newest, expected if link else [], conflicts))
    return files


def _is_left_out(record: RowRecord, sheet: Sheet) -> bool:
    """Return true if the sheet is a newer export than the record, without the record's pet: a row
    in the place of the record's row is then another one.
    """
    base = sheet.base
    return (
        base is not None
        and record.pet_id is not None
        and record.base not in ("", base.taken_at)
        and max(record.run_started, record.at) < base.taken_at
        and record.pet_id not in base.ids
    )


def _drop_repeated_records(records: Iterable[RowRecord]) -> list[RowRecord]:
    """Return the records without repetitions: of those with the same pet and the same values, only
    the first is kept. One with the action `add-another` does not repeat one without it.

    A copy of a copy has a record for each file.
    """
    first: dict[Hashable, RowRecord] = {}
    for n, each in enumerate(records):
        is_another = each.action == "add-another"
        first.setdefault((each.identity if each.pet_id else n, _content(each), is_another), each)
    return [*first.values()]


def _split_conflicts(records: Iterable[RowRecord]) -> tuple[list[RowRecord], list[RowRecord]]:
    """Return the records of rows that were left in conflict, and all other records. Of the records
    in conflict with the same values, only those of the newest run count.
    """
    conflicts, known = list[RowRecord](), list[RowRecord]()
    contents: dict[Hashable, str] = {}
    for record in records:
        if record.state != "held":
            known.append(record)
        elif contents.setdefault(_content(record), record.run_started) == record.run_started:
            conflicts.append(record)
    return conflicts, known


def _judge_link(
    sheet: Sheet, records: Sequence[RowRecord], trust: _Trust, ids: Collection[int]
) -> _Link:
    base = _base_of(sheet)
    tabs = {record.tab for record in records if base and record.base == base}
    near = {each for record in records for each in _gap(record)} - {None}
    if (ids and tabs) or sheet.tab in tabs:
        return "ids"
    if near and 2 * len(near.intersection(ids)) >= len(near):
        return "ids"
    if trust == "any":
        return ""
    # A new list under an old name has none of the ids of pets that the old list added.
    return "name" if {record.pet_id for record in records}.isdisjoint(ids) else "rows"


def _match_lost_rows(
    lines: Iterable[_Line],
    files: Iterable[_File],
    found: Mapping[int, Match],
    order: _Order,
    ignored: Collection[str],
    units: Collection[Unit],
    last_seen: str,
) -> dict[int, Match]:
    """Match the remaining rows with the remaining records."""
    by_row = {line.row: line for line in lines}
    free_lines = [line for line in lines if is_free(found.get(line.row))]
    # A row in doubt may match only one record, with a similar name or with the same action
    # `add-another`. Another row then matches this record only if its name is similar, too.
    alone = [(m.record, by_row[row]) for row, m in found.items() if m.kind == "doubt"]
    has_row = {
        record.identity: line
        for record, line in alone
        if len(found[line.row].records) == 1
        if any(_compare_names(record, line)) or _are_both_another(record, line)
    }
    in_doubt = {record.identity for record, _ in alone} - has_row.keys()

    def is_like(record: RowRecord, line: _Line, link: _Link) -> bool:
        is_away = record.run_started < last_seen or link == "name"
        compared_units = [] if is_away else [u for u in _BUT_NAME if u in units]
        is_another = _are_both_another(record, line) and not is_away
        if record.is_undone and is_away:
            is_like = any(_compare_names(record, line))
        else:
            is_like = is_another or _may_be(record, line, compared_units, is_named=link == "ids")
        if not (is_away or record.is_undone):
            is_moved = not order.is_place(_gap(record), _gap(line)) or not order.is_unsorted
            is_like = is_like or _is_in_common(
                record,
                line,
                is_moved=is_moved or record.identity in in_doubt,
                is_open=order.is_shuffled or record.identity in in_doubt,
            )
        if record.identity in has_row and not is_another:
            is_like &= any(_compare_names(record, line)) or _is_only_renamed(
                record, line, has_row[record.identity]
            )
        return is_like

    may_be: defaultdict[int, dict[Hashable, RowRecord]] = defaultdict(dict)
    for link, rows_lost in _iter_lost_rows(files, found, order, ignored):
        is_much = len(rows_lost) * len(free_lines) > MAX_LOST_PAIRS
        if is_much and link == "name":
            continue
        for record, line in product(rows_lost, free_lines):
            if not _were_both_known(found.get(line.row), record) and (
                is_much or is_like(record, line, link)
            ):
                may_be[line.row].setdefault(record.identity, record)
    return {
        row: Match("lost", tuple(sorted(records.values(), key=_row)), is_edited=True)
        for row, records in may_be.items()
    }


def _is_only_renamed(record: RowRecord, line: _Line, other: _Line) -> bool:
    """Return true if the row has all values of the record but the name, and the names have a word
    in common. If the `other` row, which counts as the record's row, has only a similar name, the
    tags or photos are enough; if it has less than half of the other values, so is a category.
    """
    if content(record.row_pet, _BUT_NAME) != content(line.row_pet, _BUT_NAME):
        return False
    support = _find_support(record, line)
    if _compare_names(record, other)[1] and support & {*LISTS}:
        return True
    return (bool(support) and not _is_backed(record, other)) or _is_nearly(record, line)


def _iter_lost_rows(
    files: Iterable[_File],
    found: Mapping[int, Match],
    order: _Order,
    ignored: Collection[str],
) -> Iterator[tuple[_Link, list[RowRecord]]]:
    """Yield, for each file, its link with the sheet and the records whose rows are missing."""
    certain = [match.record for match in found.values() if match.kind == "certain"]
    there = {*order.ids, *(each.identity for each in certain)}
    matched = {id(record) for record in certain}
    for file in files:
        shares = any(id(record) in matched for record in file.records)
        link: _Link = "rows" if file.link == "name" and shares else file.link
        yield (
            link,
            [
                record
                for record in file.expected
                if record.state != "unsent"
                and record.identity not in there
                and _name(record) not in ignored
            ],
        )


def _drop_taken(found: Mapping[int, Match]) -> dict[int, Match]:
    """Return the matches, without the doubts about records that certainly belong to other rows."""
    owners = {m.record.identity: row for row, m in found.items() if m.kind == "certain"}
    remaining = {}
    for row, match in found.items():
        records = tuple(r for r in match.records if owners.get(r.identity, row) == row)
        if match.kind != "doubt" or records == match.records:
            remaining[row] = match
        elif records:
            remaining[row] = match._replace(records=records)
    return remaining


def _add_possible_records(
    lines: Iterable[_Line],
    files: Iterable[_File],
    found: Mapping[int, Match],
    order: _Order,
    ignored: Collection[str],
    last_seen: str,
) -> dict[int, Match]:
    """Return the rows in doubt that may also belong to other records, with these records.

    A row in doubt because of its place may belong to any record that is as similar or more.
    """
    doubts = [line for line in lines if _is_in_doubt(found.get(line.row))]
    if sum(len(found[line.row].records) for line in doubts) > MAX_LOST_PAIRS:
        return {}
    more: defaultdict[int, dict[Identity, RowRecord]] = defaultdict(dict)
    for _, rows_lost in _iter_lost_rows(files, found, order, ignored):
        there = [record for record in rows_lost if record.run_started >= last_seen]
        if len(there) * len(doubts) > MAX_LOST_PAIRS:
            continue
        for line in doubts:
            own = {record.identity: record for record in found[line.row].records}
            least = min(_rank(record, line) for record in own.values())
            for record in there:
                if (
                    record.identity not in own
                    and not _wants_another(record, line)
                    and _is_in_common(record, line, is_moved=False, is_open=False)
                    and _rank(record, line) >= least
                ):
                    more[line.row].setdefault(record.identity, record)
    return {
        row: found[row]._replace(records=(*found[row].records, *records.values()))
        for row, records in more.items()
    }


def choose_records(
    doubts: Mapping[int, Match],
    sheet: Sheet,
    vocabulary: Vocabulary,
    taken: Collection[Identity] = frozenset(),
) -> dict[int, Match]:
    """Return these matches in doubt, with the most likely record of each row first.

    The row and the record that are most similar choose each other first. A row gets a record that
    is `taken`, or the first one of another row, only if it may belong to no other record.
    """
    slots, row_pets = slots_of(sheet), read_row_pets(sheet, doubts, vocabulary)
    lines = [_Line(row, *slots.get(row, _NOWHERE), pet) for row, pet in row_pets.items()]
    pairs = _DoubtfulPairs(lines, [doubts[line.row].records for line in lines])
    first: dict[int, RowRecord] = {}
    used = {*taken}
    for row, record in pairs.ordered():
        if row not in first and record.identity not in used:
            first[row] = record
            used.add(record.identity)
            if len(first) == len(lines):
                break
    return {
        row: doubts[row]._replace(
            records=tuple(_with_first(records, first.get(row))), is_shared=row not in first
        )
        for row, records in pairs.by_row()
    }


def _with_first(records: Sequence[RowRecord], first: RowRecord | None) -> Iterator[RowRecord]:
    if first is not None:
        yield first
    yield from (record for record in records if record is not first)


class _DoubtfulPairs:
    """The pairs of rows in doubt and their possible records, the most likely ones first."""

    def __init__(self, lines: Sequence[_Line], records: Sequence[Sequence[RowRecord]]) -> None:
        # Many rows may have the same records.
        unique = {id(each): {r.identity: r for r in reversed(each)} for each in records}
        self._records = [r for each in records for r in unique[id(each)].values()]
        sizes = [len(unique[id(each)]) for each in records]
        self._rows = np.repeat([line.row for line in lines], sizes)
        known = {id(record): record for record in self._records}
        places = dict(zip(known, range(len(known)), strict=True))
        at = np.fromiter((places[id(r)] for r in self._records), np.intp, len(self._records))
        rows = np.array([record.row for record in known.values()], np.int64)[at]
        pets, gaps = dict[Identity, int](), dict[_Gap, int]()
        of_pets = [pets.setdefault(record.identity, len(pets)) for record in known.values()]
        of_gaps = [gaps.setdefault(_gap(record), len(gaps)) for record in known.values()]
        new_gaps = np.repeat([gaps.get(_gap(line), -1) for line in lines], sizes)
        ranks = np.zeros((len(at), 2), np.int64)
        if len(at) <= MAX_LOST_PAIRS:
            pairs = zip(
                self._records,
                (line for n, line in zip(sizes, lines, strict=True) for _ in range(n)),
                strict=True,
            )
            ranks = np.array([_rank(*pair) for pair in pairs], np.int64).reshape(-1, 2)
        # Of equally similar pairs, one without an alternative comes first.
        ties = _count_equal(self._rows, *ranks.T) + _count_equal(np.array(of_pets)[at], *ranks.T)
        is_moved = np.array(of_gaps)[at] != new_gaps
        keys = (rows, self._rows, abs(rows - self._rows), is_moved, ties, *-ranks.T[::-1])
        self._order = np.lexsort(keys)

    def ordered(self) -> Iterator[tuple[int, RowRecord]]:
        """Yield the pairs, each as the row's number and the record."""
        for row, n in zip(self._rows[self._order].tolist(), self._order.tolist(), strict=True):
            yield row, self._records[n]

    def by_row(self) -> Iterator[tuple[int, list[RowRecord]]]:
        """Yield each row's number and records."""
        order = self._order[np.argsort(self._rows[self._order], kind="stable")]
        rows, starts = np.unique(self._rows[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(rows) else []
        for row, part in zip(rows.tolist(), parts, strict=True):
            yield row, [self._records[n] for n in part.tolist()]


def _count_equal(*columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return, for each position, the number of positions with the same values in all columns."""
    at = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        if len(values) > 1:
            _, at = np.unique(at * len(values) + codes, return_inverse=True)
    return np.bincount(at)[at]


def _rank(record: RowRecord, line: _Line) -> tuple[int, int]:
    """Return how similar the row and the record are: a score, and the number of equal tags and
    photos, which decides between equal scores.
    """
    return _score_agreement(record, line), _count_in_common(record, line)


def _count_in_common(record: RowRecord, line: _Line) -> int:
    """Return the number of tags and photos that both have."""
    photos = photo_keys(record.row_pet.photo_urls), photo_keys(line.row_pet.photo_urls)
    tags = tag_names(record.row_pet.tags) & tag_names(line.row_pet.tags)
    return len(tags) + len({*photos[0]} & {*photos[1]})


def _match_conflict_rows(
    lines: Sequence[_Line],
    files: Iterable[_File],
    found: Mapping[int, Match],
    order: _Order,
    units: Sequence[Unit],
    last_seen: str,
    numbered: Collection[Hashable],
) -> dict[int, Match]:
    """Match the rows that a run left in conflict and that the user has not resolved.

    Each of them may still belong to any of its possible pets, whatever was edited. A match by
    place, without the name, becomes a doubt in two cases: the row may be one of these rows, or one
    of these rows may belong to the same pet. So does a match of an edited row by its name, if a row
    in conflict about this pet still has its own name. The conflict is resolved if a row with the id
    of one of the possible pets has the record's values: `numbered` has the contents of these rows.
    """
    certain = {
        match.record.identity: row for row, match in found.items() if match.kind == "certain"
    }
    lines_of = {line.row: line for line in lines}
    own_files = [file for file in files if file.trust != "any"]
    untouched = _find_untouched(lines, own_files, found)
    contested = _find_contested(lines, own_files)
    contested |= {identity for identity, row in certain.items() if row in untouched}
    claimed = _find_claimed(lines, own_files, found)
    placed = {
        identity: row
        for identity, row in certain.items()
        if found[row].is_edited
        and (identity in claimed or not any(_compare_names(found[row].record, lines_of[row])))
    }
    there = {*order.ids, *(certain.keys() - placed.keys() - contested)}
    known = {each.identity: each for file in reversed([*files]) for each in file.records}
    may_be: defaultdict[int, dict[Identity, RowRecord]] = defaultdict(dict)
    unsure = {*untouched}
    still = [
        file._replace(
            conflicts=[
                record
                for record in file.conflicts
                if any(each not in there for each in record.may_be)
                and _content(record) not in numbered
            ]
        )
        for file in own_files
    ]
    pairs = [*_iter_conflict_rows(lines, still, found, order, units, last_seen)]
    # A column may be missing now, so the name is enough.
    same = {row for row, record in pairs if _compare_names(record, lines_of[row])[0]}
    for row, record in pairs:
        for identity in record.may_be:
            if identity in there:
                continue
            if certain.get(identity) == row:
                unsure.add(row)
            elif identity in known:
                may_be[row][identity] = known[identity]
            elif isinstance(identity, int):
                may_be[row][identity] = msgspec.structs.replace(
                    record, pet_id=identity, is_added=False
                )
    matches = {}
    for row, records in may_be.items():
        match = found.get(row)
        if match is not None and match.kind == "lost":
            records |= {each.identity: each for each in match.records}
        elif not is_free(match):
            continue
        ordered = tuple(sorted(records.values(), key=_row))
        matches[row] = Match("lost", ordered, is_edited=True, was_conflict=row in same)
    identities = {identity for row in matches for identity in may_be[row]}
    unsure |= {row for identity, row in placed.items() if identity in identities}
    return matches | {row: found[row]._replace(kind="doubt") for row in unsure}


def _find_untouched(
    lines: Sequence[_Line], files: Iterable[_File], found: Mapping[int, Match]
) -> set[int]:
    """Return the rows with a certain match that the newest run left in conflict. A file has none if
    one of its rows in conflict was edited or removed since. A row whose pet another run has
    recorded since is omitted.
    """
    rows_of = _group_by(_content, (line for line in lines if line.action != "add-another"))
    untouched = set[int]()
    for file in files:
        newest = max((record.run_started for record in file.conflicts), default="")
        held = [record for record in file.conflicts if record.run_started == newest]
        if all(_content(record) in rows_of for record in held):
            untouched |= {
                line.row
                for record in held
                for line in rows_of[_content(record)]
                if (match := found.get(line.row)) is not None
                and match.kind == "certain"
                and max(match.record.run_started, match.record.at) < newest
            }
    return untouched


def _find_claimed(
    lines: Iterable[_Line], files: Iterable[_File], found: Mapping[int, Match]
) -> set[Identity]:
    """Return the pets to which rows in conflict may belong, if a row without a certain match still
    has the name of such a row.
    """
    matched = {row for row, each in found.items() if each.kind == "certain" and not is_free(each)}
    names = {
        _name(line) for line in lines if line.action != "add-another" and line.row not in matched
    } - {""}
    return {
        identity
        for file in files
        for record in file.conflicts
        if _name(record) in names
        for identity in record.may_be
    }


def _find_contested(lines: Iterable[_Line], files: Iterable[_File]) -> set[Identity]:
    """Return the pets for which a run left several rows in conflict that are still there, unless a
    later run identified the pet's row.
    """
    there = {_name(line) or _content(line) for line in lines if line.action != "add-another"}
    rows_of = defaultdict[Identity, set[Hashable]](set)
    for file in files:
        known = {each.identity: each.run_started for each in file.records}
        for record in file.conflicts:
            row = _name(record) or _content(record)
            for identity in record.may_be if row in there else ():
                if known.get(identity, "") < record.run_started:
                    rows_of[identity].add(row)
    return {identity for identity, rows in rows_of.items() if len(rows) > 1}


def _iter_conflict_rows(
    lines: Sequence[_Line],
    files: Iterable[_File],
    found: Mapping[int, Match],
    order: _Order,
    units: Sequence[Unit],
    last_seen: str,
) -> Iterator[tuple[int, RowRecord]]:
    """Yield each row that may be a recorded row in conflict, with that record.

    If a later run left other rows in conflict, or identified the pets of all rows, only rows with
    the same values count.
    """
    possible = _find_possible_pets(files)
    for file in files:
        if not file.conflicts:
            continue
        free_lines = [
            line
            for line in lines
            if _is_open(found.get(line.row), possible)
            and not any(_were_both_known(found.get(line.row), record) for record in file.conflicts)
        ]
        newest = max(last_seen, *(record.run_started for record in file.conflicts))
        matches = _Matching(file.trust, units, file.conflicts, free_lines, order, newest).matches()
        certain = {id(m.record) for m in matches.values() if m.kind == "certain"}
        for row, match in matches.items():
            if match.kind != "other":
                yield from ((row, record) for record in match.records)
        edited = [
            record
            for record in file.conflicts
            if id(record) not in certain and record.run_started >= newest
        ]
        rest = [
            line
            for line in free_lines
            if line.row not in matches or matches[line.row].kind != "certain"
        ]
        is_much = len(edited) * len(rest) > MAX_LOST_PAIRS
        for record in edited:
            for line in rest:
                if is_much or _is_in_common(
                    record, line, is_moved=True, is_open=not order.is_unsorted
                ):
                    yield line.row, record


def _is_open(match: Match | None, possible: Container[Identity]) -> bool:
    """Return true if the row has no certain match with a pet, or it is matched with one of the
    `possible` pets of rows in conflict.
    """
    return (
        match is None
        or match.kind != "certain"
        or match.record.identity in possible
        or is_free(match)
    )


def _find_possible_pets(files: Iterable[_File]) -> set[Identity]:
    """Return the pets to which rows in conflict may belong."""
    return {each for file in files for record in file.conflicts for each in record.may_be}


def _find_contents(
    sheet: Sheet, ids: Collection[Identity], vocabulary: Vocabulary
) -> set[Hashable]:
    """Return the contents of the rows with these ids."""
    rows = sheet.rows.index[sheet.rows["id"].isin(ids)].tolist() if ids else []
    return {content(pet) for pet in read_row_pets(sheet, rows, vocabulary).values()}


def _is_in_doubt(match: Match | None) -> bool:
    """Return true if the row may belong to pets whose rows are in the sheet."""
    return match is not None and match.kind == "doubt" and not is_free(match)


def is_free(match: Match | None) -> bool:
    """Return true if the row is not matched with a pet: it has no match, is another row in the
    place of the recorded row, or was not reached by a stopped run.
    """
    return match is None or match.kind == "other" or match.record.state == "unsent"


def _were_both_known(match: Match | None, record: RowRecord) -> bool:
    """Return true if a stopped run recorded both the record's row and this one, which is
    unchanged.
    """
    is_unsent = match is not None and match.kind == "certain" and not match.is_edited
    return is_unsent and match is not None and match.record.run_started == record.run_started


def _may_be(
    record: RowRecord, line: _Line, compared_units: Collection[Unit], *, is_named: bool
) -> bool:
    """Return true if the row, in any place, may be the recorded row.

    It has the record's name (which is enough if `is_named`), its tags or photos, or its values of
    all units in `compared_units`. The same category is not enough, because many pets have it.
    """
    has_name, is_similar = _compare_names(record, line)
    if (has_name and is_named) or ((has_name or is_similar) and _is_backed(record, line)):
        return True
    if _find_support(record, line) & {*LISTS}:
        return True
    return bool(compared_units) and content(record.row_pet, compared_units) == content(
        line.row_pet, compared_units
    )


def _is_in_common(record: RowRecord, line: _Line, *, is_moved: bool, is_open: bool) -> bool:
    """Return true if the row and the record, whose row should be in the sheet, have anything in
    common.

    A similar name, a tag or a photo counts. If the rows were moved, category and status together
    count too. If `is_open`, because the rows were sorted or others are in doubt, the category
    counts too, or the status of a record without other values.
    """
    if (
        any(_compare_names(record, line))
        or _have_in_common(record, line, "tags")
        or _have_in_common(record, line, "photo_urls")
    ):
        return True
    has_status = "status" in _find_agreeing_units(record, line)
    if "category" in _find_support(record, line):
        return is_open or (is_moved and has_status)
    return is_open and has_status and not any(content(record.row_pet, _TELLING))


def _have_in_common(record: RowRecord, line: _Line, unit: Literal["tags", "photo_urls"]) -> bool:
    """Return true if both have a tag, or a photo, in common."""
    if unit == "photo_urls":
        photos = photo_keys(record.row_pet.photo_urls), photo_keys(line.row_pet.photo_urls)
        return not set.isdisjoint(*map(set, photos))
    return not tag_names(record.row_pet.tags).isdisjoint(tag_names(line.row_pet.tags))


def _row(record: RowRecord) -> int:
    return record.row


def _base_of(sheet: Sheet) -> str:
    return "" if sheet.base is None else sheet.base.taken_at


def _select_newest(records: Iterable[RowRecord]) -> list[RowRecord]:
    """Return the newest record of each pet; of the rows that a run did not reach, only those that
    no later run reached.
    """
    found: dict[Hashable, RowRecord] = {}
    rows: dict[int, str] = {}
    contents: dict[Hashable, str] = {}
    for record in records:
        content = _content(record)
        # A run did not reach this row, but a later run did.
        is_done = max(rows.get(record.row, ""), contents.get(content, "")) > record.run_started
        if record.state != "unsent":
            rows.setdefault(record.row, record.run_started)
            contents.setdefault(content, record.run_started)
        elif is_done:
            continue
        found.setdefault(record.identity, record)
    return list(found.values())


def _judge_trust(
    sheet: Sheet,
    lines: Sequence[_Line],
    newest: Sequence[RowRecord],
    records: Iterable[RowRecord],
    units: Sequence[Unit],
) -> _Trust:
    first = newest[0]
    if first.tab in sheet.tabs:
        return "any"  # Its rows are in another worksheet, which still exists.
    if sheet.digest and any(record.digest == sheet.digest for record in records):
        return "file"
    # All DataFrames have the same name.
    if sheet.digest and (first.source, first.tab) == (sheet.source, sheet.tab):
        return "file"
    base = _base_of(sheet)
    if base and any(record.base == base for record in records):
        return "kin"
    keys = {content(line.row_pet, units) for line in lines}
    same = sum(content(record.row_pet, units) in keys for record in newest)
    least = 1 if first.source == sheet.source else 2
    return "kin" if same >= least and 2 * same >= len(newest) else "any"


class _Matching:
    """Matches records of one kind with the remaining rows."""

    def __init__(
        self,
        trust: _Trust,
        units: Sequence[Unit],
        old: Sequence[RowRecord],
        new: Sequence[_Line],
        order: _Order,
        last_seen: str,
    ) -> None:
        self._trust, self._units, self._order = trust, units, order
        self._last_seen = last_seen
        self._old = sorted(old, key=lambda record: record.row)
        self._new = sorted(new, key=lambda line: line.row)
        self._records, self._lines = self._old, self._new
        self._pairs: list[_Pair] = []
        self._found: dict[int, Match] = {}
        self._contents: set[Hashable] = set()
        """The values of the rows that are matched before the rows in place."""
        self._total = len(old)

    def matches(self) -> dict[int, Match]:
        """Return the matches by row number."""
        self._match_same_values()
        if self._trust != "any":
            self._match_sole_names()
        placed = list(self._iter_pairs_in_place())
        rivals = self._find_rivals([pair for pair, _, _ in placed])
        named_rivals = self._find_named_rivals([pair for pair, _, _ in placed])
        self._contents = {self._key(line) for _, line in self._pairs}
        runs = {record.run_id for record, _ in self._pairs}
        for pair, is_anchored, is_loose in placed:
            is_shared = pair[0].run_id in runs
            row = pair[1].row
            self._judge(
                pair,
                _Place(is_anchored, is_loose, row in rivals, row in named_rivals, is_shared),
            )
        if self._trust in ("file", "kin"):
            self._contest_pairs()
        if self._trust != "any":
            self._match_namesakes()
        self._match_positions()
        return self._found

    def _match_same_values(self) -> None:
        """Match rows with the same values; first those with the action `add-another`, which match
        fewer records. Records whose pets no other row names come first; among these, records with
        the row's action.
        """
        for is_another, is_claimed, is_same in product((True, False), (False, True), (True, False)):
            was_another = is_another is is_same
            new = [line for line in self._new if _adds_another(line) is is_another]
            old = [
                record
                for record in self._old
                if (record.pet_id in self._order.ids) is is_claimed
                and _adds_another(record) is was_another
            ]
            if not (old and new):
                continue
            olds = _group_by(self._key, old)
            for key, lines in _group_by(self._key, new).items():
                records = [r for r in olds.get(key, []) if not _wants_another(r, lines[0])]
                self._match_equal(records, lines, is_claimed=is_claimed)
            self._drop_matched()
        self._old = [r for r in self._old if r.pet_id not in self._order.ids]

    def _match_equal(
        self, records: Sequence[RowRecord], lines: Sequence[_Line], *, is_claimed: bool
    ) -> None:
        """Match these rows with these records, which have the same values. If other rows name the
        records' pets, the records show only that each row has a pet.
        """
        there = {line.row: line for line in lines}
        places: dict[int, _Pair] = {}
        for record in records:
            if _is_there(record, line := there.get(record.row)) and line is not None:
                places.setdefault(record.row, (record, line))
        exact = [*places.values()]
        used = {id(record) for record, _ in exact}
        rest = [record for record in records if id(record) not in used]
        free = [line for line in lines if line.row not in places]
        if self._trust == "any":
            self._add_doubts(exact, is_edited=False)
            self._match_pasted(rest, free)
            return
        self._add_certain(exact, is_edited=False)
        if is_claimed or len(rest) <= len(free):
            self._add_certain(zip(rest, free, strict=False), is_edited=False)
        else:
            for line in free:
                self._found[line.row] = Match("doubt", tuple(rest), is_edited=False)

    def _match_pasted(self, records: Sequence[RowRecord], lines: Sequence[_Line]) -> None:
        """Match rows that have all values of rows of another file: they may have been copied. The
        match is certain if another row names the pet. A row that is to add another pet is left out.
        """
        if not records or records[0].state == "unsent":
            return
        for line in lines:
            if line.action == "add-another":
                continue
            same = [record for record in records if _content(record) == _content(line)]
            free = [record for record in same if record.pet_id not in self._order.ids]
            if free:
                self._found[line.row] = Match("lost", tuple(free), is_edited=False)
            elif same:
                self._add_certain([(same[0], line)], is_edited=False)

    def _match_sole_names(self) -> None:
        """Match rows with a name that only one record and one row have, if nothing contradicts it.
        A row elsewhere in an unsorted sheet is not a match if any other value but the status
        differs.

        In a copy, other rows must already have a certain match, and all values that both have,
        except the status, must agree.
        """
        olds, news = _group_by(_name, self._old), _group_by(_name, self._new)
        pairs = [
            (records[0], news[name][0])
            for name, records in olds.items()
            if name and len(records) == 1 and len(news.get(name, ())) == 1
        ]
        if self._trust == "file":
            # A row in the record's place that was only renamed may be its row, too.
            there = {line.row: line for line in self._new if _name(line) not in olds}
            near = []
            for record, line in pairs:
                other = there.get(record.row)
                if not _is_backed(record, line) or self._is_elsewhere(record, line):
                    continue
                if (
                    other is not None
                    and _is_there(record, other)
                    and _is_nearly(record, other)
                    and not (_wants_another(record, line) or _wants_another(record, other))
                ):
                    self._add_doubts([(record, line), (record, other)], is_edited=True)
                else:
                    near.append((record, line))
        else:
            near = [pair for pair in pairs if self._pairs and _is_all_support(*pair)]
        self._add_certain((pair for pair in near if not _wants_another(*pair)), is_edited=True)
        self._drop_matched()

    def _is_elsewhere(self, record: RowRecord, line: _Line) -> bool:
        """Return true if the row is not in the record's place although the sheet was not sorted,
        and has another category, other tags or other photos: it is probably new.
        """
        is_there = self._order.is_place(_gap(record), _gap(line)) or _gap(record) == _gap(line)
        has_other = len(_find_support(record, line)) < len(_find_stated_units(record, line))
        return has_other and self._order.is_unsorted and not is_there

    def _iter_pairs_in_place(self) -> Iterator[tuple[_Pair, bool, bool]]:
        """Yield the pairs of records and rows in the same place, with two flags.

        The first is true if the rows around the pair are in place. The second is true if another
        row in this place may be the recorded row.
        """
        gaps = self._collect_gaps([*self._old, *(record for record, _ in self._pairs)])
        # A row that was missing before has no place. The row there now is another one.
        olds = _group_by(_gap, (each for each in self._old if each.run_started >= self._last_seen))
        news = _group_by(lambda n: _find_gap(n, gaps, self._order), self._new)
        certain = _group_by(lambda pair: _gap(pair[0]), self._pairs)
        is_mostly_there = 2 * len(self._pairs) >= self._total
        for gap, lines in news.items():
            if gap is None:
                continue
            pairs = sorted(certain.get(gap, []), key=lambda pair: pair[0].row)
            after = [line.row for _, line in pairs]
            if after != sorted(after):
                continue
            is_anchored = gap != _NOWHERE or (bool(pairs) and is_mostly_there)
            before = [record.row for record, _ in pairs]
            parts = _group_by(partial(_count_above, before), olds.get(gap, []))
            others = _group_by(partial(_count_above, after), lines)
            for number, records in parts.items():
                own = others.get(number, [])
                for pair in _align_rows(records, own):
                    is_loose = len(own) != len(records) and not _stands_out(pair, records, own)
                    yield pair, is_anchored, is_loose

    def _collect_gaps(self, records: Iterable[RowRecord]) -> Mapping[_Gap, Collection[_Gap]]:
        """Return the gaps of the records, keyed by both neighbours and by a single one."""
        gaps: defaultdict[_Gap, set[_Gap]] = defaultdict(set)
        for known in map(_gap, records):
            for one in (known, *_sides(known)):
                gaps[one].add(known)
        return gaps

    def _find_rivals(self, placed: Sequence[_Pair]) -> set[int]:
        """Return the rows of the `placed` pairs whose record fits another row as well, or whose row
        fits another record. If the rows were not sorted, the other pair must agree in more values,
        and rows below all others are new, unless their names are similar. If the rows were sorted,
        equal agreement is enough, and any agreement if the names of the placed pair are not
        similar.
        """
        is_unsorted = self._order.is_unsorted and _is_in_order(self._pairs)
        if len(placed) * (len(self._new) + len(self._old)) > MAX_LOST_PAIRS:
            return set() if is_unsorted else {line.row for _, line in placed}
        last = max((line.row for _, line in [*self._pairs, *placed]), default=0)
        by_row = {line.row: (record, line) for record, line in placed}
        by_record = {id(record): (record, line) for record, line in placed}
        found = set()
        for record, line in placed:
            own, is_named = _score_agreement(record, line), any(_compare_names(record, line))
            others = [
                *((record, each, by_row.get(each.row)) for each in self._new if each is not line),
                *(
                    (each, line, by_record.get(id(each)))
                    for each in self._old
                    if each is not record
                ),
            ]
            for one, other, place in others:
                if not _is_in_common(one, other, is_moved=True, is_open=False):
                    continue
                if (
                    is_unsorted
                    and one is record
                    and other.row > last
                    and not any(_compare_names(one, other))
                ):
                    continue
                agreement = _score_agreement(one, other)
                is_better = agreement > own
                if is_unsorted:
                    is_rival = is_better and (place is None or _score_agreement(*place) < agreement)
                else:
                    is_rival = is_better or agreement == own or not is_named
                if is_rival:
                    found.add(line.row)
                    break
        return found

    def _find_named_rivals(self, placed: Sequence[_Pair]) -> set[int]:
        """Return the rows of those `placed` pairs with equal names whose record or row fits another
        row or record of this name better. The other one must not fit its own pair better. If most
        other values of the pair differ, a row that was only renamed fits the record better, too. If
        the rows were sorted, another row with other values that fits the record as well is enough.
        """
        pairs = [pair for pair in placed if _compare_names(*pair)[0]]
        if len(pairs) * (len(self._new) + len(self._old)) > MAX_LOST_PAIRS:
            return set()
        named = {line.row for _, line in pairs}
        rows, records = _group_by(_name, self._new), _group_by(_name, self._old)
        of_row = {line.row: _rank(record, line) for record, line in placed}
        of_record = {id(record): _rank(record, line) for record, line in placed}
        return {
            line.row
            for record, line in pairs
            if any(
                max(_rank(record, line), of_row.get(other.row, (0, 0))) < _rank(record, other)
                for other in rows[_name(line)]
            )
            or any(
                max(_rank(record, line), of_record.get(id(other), (0, 0))) < _rank(other, line)
                for other in records[_name(line)]
            )
            or (
                not self._order.is_unsorted
                and any(
                    _rank(record, other) == _rank(record, line) > of_row.get(other.row, (0, 0))
                    and _content(other) != _content(line)
                    for other in rows[_name(line)]
                )
            )
            or any(
                # Only the tags or photos speak against a row that is nearer to the record's place.
                other.row not in named
                and _gap(other) == _gap(line)
                and abs(other.row - record.row) < abs(line.row - record.row)
                and _score_likeness(record, other) >= _score_likeness(record, line)
                for other in rows[_name(line)]
            )
            or (
                not _is_backed(record, line)
                and any(_is_nearly(record, other) for other in self._new if other is not line)
            )
        }

    def _judge(self, pair: _Pair, place: _Place) -> None:
        evidence = _collect_evidence(pair, place)
        verdict = next((rule.verdict for rule in _RULES[self._trust] if rule.holds(evidence)), "")
        if _wants_another(*pair):
            return
        is_copy = not any(_compare_names(*pair)) and self._key(pair[1]) in self._contents
        if verdict == "certain" and is_copy:
            verdict = "doubt"  # It may be a copy of another row.
        if verdict == "certain":
            self._add_certain([pair], is_edited=True)
        elif verdict == "doubt":
            self._add_doubts([pair], is_edited=True)
        elif verdict == "other":
            self._found[pair[1].row] = Match("other", (pair[0],), is_edited=True)

    def _contest_pairs(self) -> None:
        """Make doubts of the pairs whose record may belong to another row, and of that other row.
        Either only the other row is in the record's place. Or only the other row has all values of
        the record except the name, and the row of the pair has neither the record's tags nor its
        photos.
        """
        free = {line.row: line for line in self._lines if not self._is_certain(line.row)}
        if not free:
            return
        by_content = _group_by(_content_but_name, free.values())
        places = self._find_places()
        contested = dict[int, _Pair]()
        for record, line in self._pairs:
            there = places[line.row]
            others = [free[row] for row in there.find_others(line.row) if row in free]
            near = [each for each in others if self._is_contender(each, record, line, there)]
            # Two places show less than the values of a row that was not edited.
            is_clear = len(near) == len(others) or self._found[line.row].is_edited
            others = near if is_clear else []
            if _has_own(record) and not _find_support(record, line) & _OWN:
                alike = by_content.get(_content_but_name(record), [])
                others += alike if len(alike) == 1 and alike[0] not in others else []
            others = [each for each in others if not _wants_another(record, each)]
            if others:
                contested[line.row] = record, line
            for each in others:
                match = self._found.get(each.row)
                if match is None or match.kind != "doubt":
                    match = Match("doubt", (), is_edited=True)
                rest = (other for other in match.records if other is not record)
                self._found[each.row] = match._replace(records=(record, *rest))
        for row, (record, _) in contested.items():
            is_edited = self._found[row].is_edited
            self._found[row] = Match("doubt", (record,), is_edited, is_contested=True)
        self._pairs = [pair for pair in self._pairs if pair[1].row not in contested]

    def _is_contender(
        self, other: _Line, record: RowRecord, line: _Line, there: _RowsInPlace
    ) -> bool:
        """Return true if the `other` row, in the record's place, may be the recorded row although
        `line`, which is matched, has its name or values.

        It differs from the record in no more values than `line`, or in fewer if `line` may be in
        place, too. If `line` was not edited, it differs in one value, and has a similar name or, if
        `line` is not in place, the record's tags or photos.
        """
        differing, others = (_count_differing(record, each, self._units) for each in (line, other))
        if differing:
            return 0 < others <= differing - (there.above == line.row)
        if others != 1 or there.above == line.row:
            return False
        if any(_compare_names(record, other)) or _share_a_word(_name(record), _name(other)):
            return True
        return there.below != line.row and bool(_find_support(record, other) & _OWN)

    def _is_certain(self, row: int) -> bool:
        match = self._found.get(row)
        return match is not None and match.kind == "certain"

    def _find_places(self) -> Mapping[int, _RowsInPlace]:
        """Return the rows in the places of the matched records, by the record's matched row."""
        gaps = self._collect_gaps(self._records)
        lines_of = _group_by(lambda line: _find_gap(line, gaps, self._order), self._lines)
        matched = {id(record): line.row for record, line in self._pairs}
        found = defaultdict[int, _RowsInPlace](_RowsInPlace)
        for gap, records in _group_by(_gap, self._records).items():
            rows = [line.row for line in lines_of.get(gap, ())]
            found |= _find_places(
                [matched.get(id(record)) for record in records], rows, is_open=gap[1] is None
            )
        return found

    def _match_namesakes(self) -> None:
        """Match rows in any place, as doubts, with the remaining records of the same name."""
        self._drop_matched()
        olds = _group_by(_name, self._old)
        for line in self._new:
            name = _name(line)
            records = [r for r in olds.get(name, ()) if not _wants_another(r, line)] if name else []
            if records:
                self._found[line.row] = Match("doubt", tuple(records), is_edited=True)

    def _match_positions(self) -> None:
        """Match rows at the position of a record, between the same rows, as doubts.

        In a DataFrame, any common value counts, because no file shows if it is the DataFrame of
        that run. In a file with another name, only names may differ.
        """
        self._drop_matched()
        is_mostly_there = bool(self._pairs) and 2 * len(self._pairs) >= self._total
        lines = {line.row: line for line in self._new}
        renamed = self._find_renamed_runs(lines)
        for record in self._old:
            line = lines.get(record.row)
            if line is None or _gap(record) != _gap(line) or _wants_another(record, line):
                continue
            is_renamed = record.run_id in renamed
            if record.source != self._order.table and not (is_renamed and _is_nearly(record, line)):
                continue
            is_anchored = _gap(line) != _NOWHERE or is_mostly_there or is_renamed
            if is_anchored and (
                _find_agreeing_units(record, line) or any(_compare_names(record, line))
            ):
                self._add_doubts([(record, line)], is_edited=True)

    def _find_renamed_runs(self, lines: Mapping[int, _Line]) -> set[str]:
        """Return the runs whose sheet may be this one, with only names edited.

        For at least half of the rows that the run added, the row in the same position has a similar
        name, or a common word in the name, and the same other values.
        """
        return {
            run
            for run, records in _group_by(lambda record: record.run_id, self._old).items()
            if 2 * sum(_is_nearly(r, lines.get(r.row)) for r in records) >= len(records)
        }

    def _add_certain(self, pairs: Iterable[_Pair], *, is_edited: bool) -> None:
        for record, line in pairs:
            self._pairs.append((record, line))
            self._found[line.row] = Match("certain", (record,), is_edited)

    def _add_doubts(self, pairs: Iterable[_Pair], *, is_edited: bool) -> None:
        for record, line in pairs:
            self._found[line.row] = Match("doubt", (record,), is_edited)

    def _drop_matched(self) -> None:
        used = {id(r) for match in self._found.values() for r in match.records}
        used |= {id(record) for record, _ in self._pairs}
        self._old = [record for record in self._old if id(record) not in used]
        self._new = [line for line in self._new if line.row not in self._found]

    def _key(self, item: _Item) -> Hashable:
        return content(item.row_pet, self._units)


class _Place(NamedTuple):
    """The evidence from the place of a pair."""

    is_anchored: bool
    """True if the rows around the pair are in place."""
    is_loose: bool
    """True if another row in this place may be the recorded row."""
    has_rival: bool
    """True if another row of the sheet may be the recorded row, or the row fits another record."""
    has_named_rival: bool
    """True if another row or record of this name, or a row that was only renamed, fits better."""
    is_shared: bool
    """True if the sheet has another row of the record's run. Otherwise the sheet may be an earlier
    copy.
    """


class _RowsInPlace(NamedTuple):
    """The rows in the place of a record; each may be the record's matched row, or None if there is
    none.

    The place is counted from the nearest matched rows that are still in order. A matched row counts
    as in place with or without the records beside it that have no row.
    """

    above: int | None = None
    """The row in the place, counted from the matched row or id above, or from the top."""
    below: int | None = None
    """The row in the place, counted from the matched row or id below."""

    def find_others(self, row: int) -> set[int]:
        """Return the rows other than the record's matched `row`."""
        return {each for each in self if each is not None and each != row}


class _Evidence(NamedTuple):
    """The evidence for and against a record and a row in its place."""

    place: _Place
    is_named: bool
    is_similar: bool
    is_backed: bool
    """True if at least half of the values that both have, except name and status, are equal."""
    support: frozenset[Unit]
    """The units with equal values, except name and status."""
    agreeing: int
    """The number of units with equal values, except the name."""
    differing: int
    """The number of units with other values, with the name."""
    is_renamed: bool
    """True if all values except the name are equal."""
    has_values: bool
    """True if both have values other than name and status."""

    @property
    def is_fixed(self) -> bool:
        """True if the place identifies the row."""
        return self.place.is_anchored and not self.place.is_loose

    @property
    def has_own_values(self) -> bool:
        """True if the row has the tags or photos of the record."""
        return bool(self.support & {*LISTS})


def _collect_evidence(pair: _Pair, place: _Place) -> _Evidence:
    is_named, is_similar = _compare_names(*pair)
    record, line = pair
    return _Evidence(
        place,
        is_named,
        is_similar,
        _is_backed(record, line),
        _find_support(record, line),
        len(_find_agreeing_units(record, line)),
        _count_differing(record, line, UNITS),
        content(record.row_pet, _BUT_NAME) == content(line.row_pet, _BUT_NAME),
        bool(_find_stated_units(record, line)),
    )


class _Rule(NamedTuple):
    verdict: Literal["certain", "doubt", "other"]
    holds: Callable[[_Evidence], bool]


_RULES: Mapping[_Trust, Sequence[_Rule]] = {
    "file": (
        _Rule("doubt", lambda e: e.place.has_named_rival),
        _Rule("certain", lambda e: e.place.is_anchored and e.is_named),
        _Rule("certain", lambda e: e.is_named and e.is_backed),
        _Rule("certain", lambda e: e.is_fixed and e.is_similar and not e.place.has_rival),
        _Rule(
            "certain",
            lambda e: (
                e.is_fixed
                and bool(e.support)
                and (e.differing <= _SEVERAL or e.has_own_values)
                and not e.place.has_rival
            ),
        ),
        _Rule(
            "certain",
            lambda e: (
                e.is_similar
                and e.is_backed
                and not e.place.is_anchored
                and not e.place.is_loose
                and not e.place.has_rival
            ),
        ),
        _Rule("doubt", lambda e: e.place.is_anchored),
        _Rule("doubt", lambda e: e.is_named or e.is_similar or bool(e.support)),
        _Rule("other", lambda _: True),
    ),
    "kin": (
        _Rule("doubt", lambda e: e.place.has_named_rival),
        _Rule("certain", lambda e: e.is_named and e.is_backed),
        _Rule(
            "certain",
            lambda e: (
                e.is_fixed
                and e.is_renamed
                and e.agreeing >= _SEVERAL
                and e.place.is_shared
                and not e.place.has_rival
            ),
        ),
        _Rule("doubt", lambda e: e.is_named or e.has_own_values),
        _Rule("doubt", lambda e: e.is_fixed and e.agreeing >= _SEVERAL),
    ),
    "left": (_Rule("doubt", lambda e: e.is_named or e.is_similar or e.has_own_values),),
    "any": (
        _Rule(
            "doubt", lambda e: e.is_named and e.is_backed and (bool(e.support) or not e.has_values)
        ),
    ),
}
"""The rules for a row in the place of a record, by the record's origin.

The first rule that applies decides.
"""


def _is_in_order(pairs: Iterable[_Pair]) -> bool:
    """Return true if the rows are in the order of their records."""
    rows = [line.row for record, line in sorted(pairs, key=lambda pair: pair[0].row)]
    return rows == sorted(rows)


def _score_agreement(record: RowRecord, line: _Line) -> int:
    """Return a score for the values that a row and a record have in common, in any place."""
    has_name, is_similar = _compare_names(record, line)
    shared = _have_in_common(record, line, "tags") + _have_in_common(record, line, "photo_urls")
    return 4 * has_name + 3 * is_similar + len(_find_agreeing_units(record, line)) + shared


def _align_rows(records: Sequence[RowRecord], lines: Sequence[_Line]) -> list[_Pair]:
    """Return pairs of records and rows in the same place.

    If there are as many rows as records, pair them in order. Otherwise, pair each record with the
    most similar row.
    """
    if len(records) == len(lines) or len(records) * len(lines) > _MAX_PAIRS:
        return list(zip(records, lines, strict=False))
    scored = sorted(
        (-_score_likeness(record, line), -_count_in_common(record, line), abs(i - k), i, k)
        for i, record in enumerate(records)
        for k, line in enumerate(lines)
    )
    return _drop_repeated_pairs([(records[i], lines[k]) for *_, i, k in scored])


def _stands_out(pair: _Pair, records: Sequence[RowRecord], lines: Sequence[_Line]) -> bool:
    """Return true if the row and the record have the same position among `lines` and `records`, and
    no other row or record there is as similar.
    """
    record, line = pair
    likeness = _score_likeness(record, line)
    if len(lines) < len(records) or len(lines) > _FEW or lines[records.index(record)] is not line:
        return False
    others = [
        *((record, other) for other in lines if other is not line),
        *((other, line) for other in records if other is not record),
    ]
    return all(_score_likeness(*each) < likeness for each in others)


def _score_likeness(record: RowRecord, line: _Line) -> int:
    has_name, is_similar = _compare_names(record, line)
    likeness = 4 * has_name + 2 * is_similar + len(_find_support(record, line))
    return likeness + 3 * _are_both_another(record, line)


def _adds_another(item: _Item) -> bool:
    return item.action == "add-another"


def _are_both_another(record: RowRecord, line: _Line) -> bool:
    """Return true if both rows have the action `add-another`."""
    return _adds_another(record) and _adds_another(line)


def _wants_another(record: RowRecord, line: _Line) -> bool:
    """Return true if the row is to add a pet other than the record's: its action `add-another` was
    written after that run.
    """
    return record.state == "added" and line.action == "add-another" != record.action


def _drop_repeated_pairs(pairs: Iterable[_Pair]) -> list[_Pair]:
    """Return the pairs with a record and a row that no earlier pair has."""
    records, lines, found = set[int](), set[int](), list[_Pair]()
    for record, line in pairs:
        if id(record) not in records and line.row not in lines:
            records.add(id(record))
            lines.add(line.row)
            found.append((record, line))
    return found


def _count_above(rows: Sequence[int], item: _Item) -> int:
    """Return the number of rows above this one."""
    return bisect_left(rows, item.row)


def _is_there(record: RowRecord, line: _Line | None) -> bool:
    return line is not None and _gap(record) == _gap(line)


def _is_nearly(record: RowRecord, line: _Line | None) -> bool:
    if line is None or content(record.row_pet, _BUT_NAME) != content(line.row_pet, _BUT_NAME):
        return False
    return any(_compare_names(record, line)) or _share_a_word(_name(record), _name(line))


def _share_a_word(one: str, other: str) -> bool:
    """Return true if names have a word in common and are not a series such as `Pet 1` and `Pet
    2`.
    """
    words = (set(_letters(name).casefold().split()) for name in (one, other))
    return _letters(one) != _letters(other) and not set.isdisjoint(*words)


def _gap(item: _Item) -> _Gap:
    return item.above, item.below


def _find_gap(line: _Line, gaps: Mapping[_Gap, Collection[_Gap]], order: _Order) -> _Gap | None:
    """Return the records' gap in which the row is now, None if there is no such gap or more than
    one. One of its two neighbours may have been removed.

    `gaps` has the records' gaps, keyed by both neighbours and by a single one.
    """
    own = _gap(line)
    if own in gaps or own == _NOWHERE:
        return own
    near = {g for one in _sides(own) for g in gaps.get(one, ()) if order.is_place(g, own)}
    return near.pop() if len(near) == 1 else None


def _sides(gap: _Gap) -> Iterator[_Gap]:
    """Yield the gap's keys by a single neighbour. No gap is equal to such a key."""
    above, below = gap
    if above is not None:
        yield above, _ANY
    if below is not None:
        yield _ANY, below


_NOWHERE: _Gap = (None, None)
_ANY = -1


def _find_support(record: RowRecord, line: _Line) -> frozenset[Unit]:
    """Return the units that distinguish pets and in which both have the same value."""
    return frozenset(
        u
        for u in _find_stated_units(record, line)
        if unit_content(record.row_pet, u) == unit_content(line.row_pet, u)
    )


def _find_agreeing_units(record: RowRecord, line: _Line) -> list[Unit]:
    """Return the units, except the name, in which both have the same value."""
    same = (
        u for u in _BUT_NAME if unit_content(record.row_pet, u) == unit_content(line.row_pet, u)
    )
    return [unit for unit in same if unit_content(line.row_pet, unit)]


def _find_stated_units(record: RowRecord, line: _Line) -> list[Unit]:
    pets = record.row_pet, line.row_pet
    return [unit for unit in _TELLING if all(unit_content(pet, unit) for pet in pets)]


def _is_backed(record: RowRecord, line: _Line) -> bool:
    """Return true if at least half of the values that both have, except name and status, are
    equal.
    """
    return 2 * len(_find_support(record, line)) >= len(_find_stated_units(record, line))


def _find_places(
    matched: Sequence[int | None], rows: Sequence[int], *, is_open: bool
) -> dict[int, _RowsInPlace]:
    """Return the rows in the places of records between two ids, by the record's matched row.

    `matched` has the matched rows in the order of their records, and None for a record without a
    row, which may have been removed; `rows` are the rows there now. If `is_open`, no id is below.
    """
    here = {*rows}
    ordered = {*_find_longest_rise([row for row in matched if row is not None and row in here])}
    moved = {row for row in matched if row is not None} - ordered
    still = [row for row in rows if row not in moved]
    above = _iter_places(matched, still, ordered, is_open=False)
    below = _iter_places(
        [None if row is None else -row for row in reversed(matched)],
        [-row for row in reversed(still)],
        {-row for row in ordered},
        is_open=is_open,
    )
    found = {row: _RowsInPlace(above=there) for row, there in above}
    for row, there in below:
        found[-row] = found.get(-row, _RowsInPlace())._replace(below=there and -there)
    return found


def _iter_places(
    matched: Iterable[int | None], still: Sequence[int], ordered: Container[int], *, is_open: bool
) -> Iterator[tuple[int, int | None]]:
    """Yield each matched row and the row in its record's place, which is the same one if it is in
    place, None if there is none. The place is counted from the nearest of the `ordered` rows
    before, and from the first of the `still` rows unless `is_open`. `still` lacks the rows that
    were moved.
    """
    start, lost = (None if is_open else 0), 0
    for row in matched:
        if row is None:
            lost += 1
            continue
        at = bisect_left(still, row)
        if start is not None:
            last = start + lost
            there = still[last] if last < len(still) else None
            yield row, row if start <= at <= last else there
        if row in ordered:
            start, lost = at + 1, 0


def _find_longest_rise(rows: Sequence[int]) -> list[int]:
    """Return the longest part of the rows in ascending order."""
    ends: list[int] = []
    lengths = []
    for row in rows:
        at = bisect_left(ends, row)
        ends[at : at + 1] = [row]
        lengths.append(at + 1)
    rise: list[int] = []
    length = len(ends)
    for row, each in zip(reversed(rows), reversed(lengths), strict=True):
        if each == length and (not rise or row < rise[-1]):
            rise.append(row)
            length -= 1
    return rise[::-1]


def _count_differing(record: RowRecord, line: _Line, units: Iterable[Unit]) -> int:
    pets = record.row_pet, line.row_pet
    return sum(unit_content(pets[0], unit) != unit_content(pets[1], unit) for unit in units)


def _has_own(record: RowRecord) -> bool:
    """Return true if the record has tags or photos."""
    return any(unit_content(record.row_pet, unit) for unit in _OWN)


def _content_but_name(item: _Item) -> Hashable:
    return content(item.row_pet, _BUT_NAME)


def _is_all_support(record: RowRecord, line: _Line) -> bool:
    """Return true if both have values other than name and status, and all of these are equal."""
    support = _find_support(record, line)
    return bool(support) and len(support) == len(_find_stated_units(record, line))


def _compare_names(record: RowRecord, line: _Line) -> tuple[bool, bool]:
    """Return whether the names are equal, and whether they may differ only by a typing error.

    Names that differ only in their numbers are a series and do not count.
    """
    one, other = _name(record), _name(line)
    if not one or not other:
        return False, False
    if one == other:
        return True, False
    return False, _letters(one) != _letters(other) and _are_similar(one, other)


@lru_cache(_CACHED)
def _are_similar(one: str, other: str) -> bool:
    """Return true if the names may differ only by a typing error."""
    matcher = SequenceMatcher(None, one.casefold(), other.casefold())
    # The first two are quick upper bounds.
    ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    return all(ratio() >= SIMILAR for ratio in ratios)


@lru_cache(_CACHED)
def _letters(name: str) -> str:
    return "".join(sign for sign in name if not sign.isdecimal())


def _name(item: _Item) -> str:
    return normalize(item.row_pet.name)


_TELLING: tuple[Unit, ...] = ("category", "tags", "photo_urls")
_BUT_NAME: tuple[Unit, ...] = ("status", *_TELLING)
"""The units of a row except the name."""
_OWN: frozenset[Unit] = frozenset({"tags", "photo_urls"})


def _group_by(key: Callable[[T], K], items: Iterable[T]) -> dict[K, list[T]]:
    """Return the items by their keys."""
    found: defaultdict[K, list[T]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _values(column: pd.Series[Any]) -> list[int | None]:
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if missing else int(value) for value, missing in pairs]
