"""The base once something has arrived: what a run sent, and what a sheet took, is agreed on.

Else whoever takes an edit back, before both sides were looked at again, would seem to have changed
nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec
import numpy as np
import pandas as pd

from petsync.diff.advance import identified
from petsync.diff.agreed import (
    category_cells,
    is_other,
    named_ids,
    said_category,
    with_category,
    with_columns,
)
from petsync.diff.change import Add, Change, Delete, Update
from petsync.diff.fields import normal, same, with_fields
from petsync.diff.intake import Inbound, RowEdit
from petsync.diff.known import pets_of
from petsync.diff.match import Candidates
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.rows import said_rows
from petsync.diff.vocabulary import Vocabulary
from petsync.model import Category, Pet
from petsync.table.base import Base
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = [
    "SETTLED",
    "categories_now",
    "categories_of",
    "remembered",
    "with_inbound",
    "with_report",
]

SETTLED = frozenset({"already-so", "already-gone"})
"""Causes of results whose change was there before it was sent."""
_NONE: Mapping[int, Category] = {}
_MERGING = ("tags", "photo_urls")
_T = TypeVar("_T")
Moves = Mapping[int, Pet | None]
"""Pets by their ids as they are now; None for one that is gone."""


def categories_of(plan: Plan, sheet: Sheet) -> dict[int, Category]:
    """By the number of each change of the plan that touches a category, its cells as the row of the
    sheet says them; None for one that says nothing.
    """
    rows = {c.row: n for n, c in enumerate(plan.changes) if c.row is not None and _regroups(c)}
    frame = sheet.frame[sheet.frame.index.isin(list(rows))]
    return {
        rows[line.number]: said_category(line.said)
        for line in said_rows(frame, np.full(len(frame), -1, dtype=np.intp))
    }


def categories_now(report: Report, sheet: Sheet) -> dict[int, Category]:
    """As `categories_of`, by the sheet as it is after a run of which the sheet is not there any
    more: a cell that says what was sent, or that is in a row which the run added, said it then; any
    other cell is None, and counts as what it said before the run. So do both cells of a row that
    is not found.
    """
    changes = report.plan.changes
    sent = {
        each.pet_id if each.assigned_id is None else each.assigned_id: each.number
        for each in report.results
        if each.kind != "none" and _regroups(changes[each.number])
    }
    names = {
        pet_id: pet.name
        for pet_id, number in sent.items()
        if pet_id is not None and (pet := changes[number].after) is not None
    }
    frame = identified(sheet.frame, _rows_without_id(sheet, names))
    frame = frame[frame["id"].isin([pet_id for pet_id in sent if pet_id is not None])]
    found = dict.fromkeys(sent.values(), Category())
    for line in said_rows(frame, np.full(len(frame), -1, dtype=np.intp)):
        number = sent[line.pet_id]
        change, cells = changes[number], said_category(line.said)
        if isinstance(change, Update):
            after = category_cells(change.after)
            cells = Category(
                cells.id if cells.id == after.id else None,
                cells.name if normal(cells.name) == normal(after.name) else None,
            )
        found[number] = cells
    return found


def _rows_without_id(sheet: Sheet, names: Mapping[int, str | None]) -> dict[int, int]:
    """The pets of rows without an id, by row: of each pet that no row names, the one row that has
    its name, where no other of these pets has it. `names` are those of the pets, by id.
    """
    frame, named = sheet.frame, named_ids(sheet)
    if "name" not in frame:
        return {}
    rows = frame[frame["id"].isna()] if "id" in frame else frame
    by_name: dict[str, list[int]] = defaultdict(list)
    for row, name in rows["name"].dropna().items():
        by_name[normal(name)].append(int(str(row)))
    wanted = {pet_id: normal(name) for pet_id, name in names.items() if pet_id not in named}
    counts = Counter(wanted.values())
    return {
        by_name[name][0]: pet_id
        for pet_id, name in wanted.items()
        if counts[name] == len(by_name.get(name, ())) == 1
    }


def with_report(
    base: Base | None, report: Report, categories: Mapping[int, Category] = _NONE
) -> Base:
    """The base with all that a run of the job's own plan brought about. `categories`: see
    `categories_of`; the row says them until the sheet is written.
    """
    start = base or _empty(report.plan.store, report.started)
    ids = [change.pet_id for change in report.plan.changes if change.pet_id is not None]
    old = {pet.id: pet for pet in pets_of(ids, start.frame)}
    moves, said = {}, {}
    for number, pet_id, pet in _sent(report, old):
        moves[pet_id] = pet
        if pet is not None and number in categories:
            said[pet_id] = categories[number]
    added = [each.assigned_id for each in report.results if each.outcome == "applied"]
    return replace(
        _moved(start, moves, said),
        unnumbered=start.unnumbered.union(filter(None, added)),
        gone={**start.gone, **{i: report.started for i, pet in moves.items() if pet is None}},
    )


def with_inbound(base: Base, inbound: Inbound) -> Base:
    """The base with all that a sheet took. A pet that the base lacks is not known as a whole."""
    old = {pet.id: pet for pet in pets_of([e.pet.id or 0 for e in inbound.edits], base.frame)}
    moves: dict[int, Pet | None] = {
        edit.pet.id: with_fields(old[edit.pet.id], edit.pet, edit.fields)
        for edit in inbound.edits
        if edit.pet.id is not None and edit.pet.id in old
    }
    moves |= {pet.id: pet for pet in inbound.added if pet.id is not None}
    moves |= {gone.pet_id: None for gone in inbound.removed}
    cells = {
        pet_id: _written(base.said.get(pet_id, old[pet_id]), edit)
        for edit in inbound.edits
        if (pet_id := edit.pet.id or 0) in old and {"category", "category_id"} & {*edit.fields}
    }
    numbered = {each.pet_id for each in inbound.identified if each.lacks_id}
    return replace(
        _moved(base, moves, cells),
        taken_at=inbound.created,
        unnumbered=base.unnumbered - numbered,
        gone={**base.gone, **{each.pet_id: inbound.created for each in inbound.removed}},
    )


def remembered(sheet: Sheet, base: Base, pets: pd.DataFrame) -> dict[int, int]:
    """The pets of rows without an id, by row: of those that say what a pet of the base was that no
    other row names. They meant it at the last round, whatever the store has made of it since.
    """
    frame = sheet.frame
    lacking = frame["id"].isna() if "id" in frame else pd.Series(True, frame.index)
    rows = frame[lacking & (frame["action"] == "merge")]
    if rows.empty or "name" not in rows:
        return {}
    free = ~base.frame["id"].isin(named_ids(sheet)).to_numpy(dtype=bool)
    names = {normal(name) for name in rows["name"].dropna()}
    lines = list(said_rows(rows, np.full(len(rows), -1, dtype=np.intp)))
    vocabulary = Vocabulary(pets)
    found: dict[int, int] = {}
    # A row may say what it last said, or what both sides agreed on.
    for before in (base.said_frame, base.frame):
        free = ~before["id"].isin([*named_ids(sheet), *found.values()]).to_numpy(dtype=bool)
        left = [line for line in lines if line.number not in found]
        known = Candidates(before, free, names, ()).identical(left, vocabulary)
        found |= {row: pet.id for row, (_, pet) in known.items() if pet.id is not None}
    return found


def _regroups(change: Change) -> bool:
    return isinstance(change, Add) or (
        isinstance(change, Update) and bool({"category", "category_id"} & {*change.fields})
    )


def _written(before: Pet, edit: RowEdit) -> Category:
    """The category's cells of a row once it has taken what it takes."""
    old, new = category_cells(before), category_cells(edit.pet)
    number = new.id if "category_id" in edit.fields else old.id
    return Category(number, new.name if "category" in edit.fields else old.name)


def _sent(report: Report, old: Mapping[int | None, Pet]) -> Iterator[tuple[int, int, Pet | None]]:
    """The number of each change that arrived, its pet's id, and what both sides agree on of it."""
    for result in report.results:
        if result.kind == "none" or not (result.outcome == "applied" or result.cause in SETTLED):
            continue
        change = report.plan.changes[result.number]
        pet_id = change.pet_id if result.assigned_id is None else result.assigned_id
        if pet_id is None:
            continue
        if isinstance(change, Delete):
            yield result.number, pet_id, None
        elif isinstance(change, Add) or pet_id not in old:
            yield result.number, pet_id, msgspec.structs.replace(change.after, id=pet_id)
        else:
            yield result.number, pet_id, _told(change, old[pet_id])


def _told(change: Update, old: Pet) -> Pet:
    """A pet of the base with what the row said of it in a change. Tags and photos that both sides
    had changed were merged, and the sheet says that only once it was written: of these the base
    gets what the change itself added and took away.
    """
    merged = [c for c in change.fields if c in _MERGING and not same(old, change.before, c)]
    sent = with_fields(old, change.after, [c for c in change.fields if c not in merged])
    before, after = change.before, change.after
    if "tags" in merged:
        tags = _changed(old.tags, before.tags, after.tags, lambda tag: normal(tag.name))
        sent = msgspec.structs.replace(sent, tags=tags)
    if "photo_urls" in merged:
        urls = _changed(old.photo_urls, before.photo_urls, after.photo_urls, normal)
        sent = msgspec.structs.replace(sent, photo_urls=urls)
    return sent


def _changed(
    items: Sequence[_T], before: Sequence[_T], after: Sequence[_T], key: Callable[[_T], str]
) -> tuple[_T, ...]:
    """The items, without those that are in `before` and not `after`, and with those that came."""
    were, are, there = ({key(each) for each in some} for some in (before, after, items))
    stay = (each for each in items if key(each) not in were - are)
    return (*stay, *(each for each in after if key(each) not in were | there))


def _moved(base: Base, moves: Moves, categories: Mapping[int, Category] = _NONE) -> Base:
    """The base with the pets as they are now, and the cells of their categories in the sheet."""
    if not moves:
        return base
    gone = [pet_id for pet_id, pet in moves.items() if pet is None]
    pets = {pet_id: pet for pet_id, pet in moves.items() if pet is not None}
    said = {pet_id: pet for pet_id, pet in base.said.items() if pet_id not in moves}
    old = {pet.id or 0: pet for pet in pets_of(pets, base.frame)}
    before = {**old, **base.said}
    for pet_id, pet in pets.items():
        then = _unseen(pet, before.get(pet_id), base.missing)
        if pet_id in categories:
            cells = _complete(categories[pet_id], before.get(pet_id))
            then = with_category(then, cells)
            if pet_id in before and cells.id is None and then.category is not None:
                # The number's cell is blank, as it was, and still to be filled.
                blank = msgspec.structs.replace(then.category, id=None)
                then = msgspec.structs.replace(then, category=blank)
        elif pet_id in base.said and same(pet, old[pet_id], "category"):
            then = with_fields(then, base.said[pet_id], ["category"])
        if is_other(pet, then):
            said[pet_id] = then
    return replace(base.without(gone).with_pets([*pets.values()]), said=said)


def _unseen(pet: Pet, said: Pet | None, missing: Collection[str]) -> Pet:
    """The pet, in the columns that are missing as the sheet last said it."""
    return pet if said is None else with_columns(pet, said, missing)


def _complete(cells: Category, before: Pet | None) -> Category:
    """The cells of a category; one that says nothing now counts as what it said before."""
    if before is None:
        return cells
    old = category_cells(before)
    number = old.id if cells.id is None else cells.id
    return Category(number, old.name if cells.name is None else cells.name)


def _empty(store: str, moment: str) -> Base:
    none = frozenset[str]()
    return Base(frame=frame_from_pets([]), store=store, taken_at=moment, columns=none)
