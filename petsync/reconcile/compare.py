"""Compare the sheets of a job with the store, and list the remaining differences."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec

from petsync._files import real_path
from petsync._sync import start
from petsync.client.loaders import Found
from petsync.config.model import Job
from petsync.errors import ServiceError
from petsync.models import Pet
from petsync.plan.base import (
    RowComparison,
    compare_rows,
    find_remembered,
    missing_columns,
    with_pet_ids,
    with_unknown,
    with_values_of,
)
from petsync.plan.change import Add, Change, Conflict, FailedLookup, Snapshot, Update
from petsync.plan.compare import Decided, compare
from petsync.plan.drift import find_drift, iter_drift_notes
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    cell,
    changed_columns,
    content,
    differing_columns,
    normalize,
    unit_text,
)
from petsync.plan.guard import Verdict
from petsync.plan.intake import build_inbound, explain_stay, mask_in_scope
from petsync.plan.lineage import (
    Match,
    RowRecord,
    actions_of,
    find_alike,
    is_free,
    mark_doubts,
    read_row_pets,
    slots_of,
    without_base,
)
from petsync.plan.match import build_pet, iter_rows, names_among, pets_of
from petsync.plan.merge import FieldRule
from petsync.plan.notes import first_items
from petsync.plan.options import MergeOptions, PlanOptions
from petsync.plan.plan import Inbound, Plan
from petsync.plan.report import Report, Result
from petsync.plan.rounds import NEW_ID, Counts, Difference, SheetChange
from petsync.reconcile.sources import Folder, Source
from petsync.sheets import Obstacle
from petsync.store import Store
from petsync.table.arrow import PetTable, rows_from_pets
from petsync.table.base import Base
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import (
    find_rows,
    has_action,
    has_id_in,
    ids_of,
    join_rows,
    lacks_id,
    pets_at,
    pets_from_frame,
    unique_texts,
)
from petsync.table.rules import RULE_PREFIX
from petsync.table.sheet import Sheet

__all__ = [
    "Comparer",
    "Comparison",
    "RemainingDifferences",
    "compare_planned_rows",
    "note_copies",
    "note_twins",
    "note_undos",
    "split_changes",
]


# Duplicates: pets with equal content that are in the store twice, or will be.


def note_copies(plan: Plan) -> Iterator[Difference]:
    """Yield a note on each row without an id that adds a copy of a pet in the store."""
    for change in plan.adds:
        if change.alike:
            yield Difference(
                kind="note",
                problem=(
                    "has no id, and the same values as a pet that is already in the store: it is "
                    "added as another pet"
                ),
                name=change.after.name or "",
                row=change.row,
                address=change.source,
                hint="If the copy is not intended, remove the row; if the new pet is already in "
                "the store, delete it there.",
            )


def note_twins(report: Report | None, before: Snapshot, after: Snapshot) -> Iterator[Difference]:
    """Yield a difference for each pet that appeared during the run, but was not added by it, and
    has the same values as a pet that the run added. `before` may have pets outside of the job's
    scope: they existed before, and may be in it now.
    """
    added = {} if report is None else _find_added_contents(report)
    if report is None or not added:
        return
    own = [each.assigned_id for each in report.results if each.assigned_id is not None]
    new = after.rows[~has_id_in(after.rows, {*ids_of(before.known_pets), *own})]
    for pet in pets_from_frame(new):
        if content(pet) in added:
            yield Difference(
                kind="drift",
                problem="appeared in the store during this round, and has the same values as pet "
                f"{added[content(pet)]}, which the round added",
                pet_id=pet.id,
                name=pet.name or "",
                hint="Delete one of the two in the store. Jobs that send to the same store take "
                "turns if they run on one machine, and share a state folder or run as the same "
                "user.",
            )


def _find_added_contents(report: Report) -> dict[Hashable, int]:
    """Return the ids of the pets that the run added, by content."""
    return {
        content(change.after): result.assigned_id
        for result in report.results
        if result.kind == "add"
        and result.assigned_id is not None
        and isinstance(change := report.plan.changes[result.number], Add)
    }


# Notes: the store's changes that a plan overwrites, and the undos that concern rows.


_OVERWRITING: frozenset[FieldRule] = frozenset({"differs", "clash-sheet", "owner-sheet"})
"""The rules of a field in which the sheet's value replaces a change of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """A change of a plan that overwrites a change in the store.

    `number` is its position in the plan, `old` the pet on which both sides last agreed. `sides` are
    the fields that are overwritten, each with the texts of the store, of the sheet, and of `old`.
    """

    number: int
    change: Add | Update
    old: Pet
    sides: tuple[tuple[Unit, str, str, str], ...] = ()

    def note(self, report: Report | None = None, *, is_planned: bool = True) -> Difference:
        """Return the note on this change: as planned or, unless `is_planned`, with its result in
        the report, which is None without a run.
        """
        results = () if report is None else report.results
        result = next((each for each in results if each.number == self.number), None)
        is_done = result is not None and result.is_in_store
        is_unknown = result is not None and result.outcome == "unknown"
        be = "is" if is_planned else "was" if is_done else "was not"
        be = "may have been" if is_unknown and not is_planned else be
        if isinstance(self.change, Add):
            problem = f"was deleted in the store since both sides last agreed, and {be} added again"
            hint = "To delete the pet, remove its row too."
        else:
            problem = "; ".join(
                f"{unit}: the store's {store!r} {be} replaced with the sheet's {sheet!r} "
                f"({before!r} in both before)"
                for unit, store, sheet, before in self.sides
            )
            hint = "To keep the store's value, write it into the sheet."
        units = [unit for unit, *_ in self.sides]
        return Difference(
            kind="note",
            problem=problem,
            pet_id=self.change.pet_id,
            name=self.old.name or "",
            row=self.change.row,
            address=self.change.source,
            fields=tuple(c for u in units for c in COLUMNS_OF[u] if c in self.change.fields),
            hint=hint,
        )


def find_overwrites(decided: Decided, base: Base | None) -> Iterator[Overwrite]:
    """Yield the updates of the plan that overwrite changes made in the store since `base`, and the
    adds of pets that were deleted there. An undo does not count as a change.
    """
    changes = [each for each in decided.plan.changes if each.pet_id is not None]
    agreed = {} if base is None else {pet.id: pet for pet in pets_of(_ids(changes), base.rows)}
    rows = decided.rows
    for number, change in enumerate(decided.plan.changes):
        old = agreed.get(change.pet_id)
        if old is None or old == Pet(id=change.pet_id) or change.row in rows.remarks.repeated:
            continue
        if isinstance(change, Add):
            yield Overwrite(number=number, change=change, old=old)
        elif isinstance(change, Update):
            rules = rows.find_unit_rules(change.row or 0)
            units = [
                unit
                for unit in UNITS
                if rules.get(unit) in _OVERWRITING
                and changed_columns(old, change.before, unit)
                and rows.judge.find_undo(unit, change.before, old) is None
            ]
            sides = tuple(
                (
                    unit,
                    unit_text(change.before, unit, cell),
                    unit_text(change.after, unit, cell),
                    unit_text(old, unit, cell),
                )
                for unit in units
            )
            if any(c in change.fields for u in units for c in COLUMNS_OF[u]):
                yield Overwrite(number=number, change=change, old=old, sides=sides)


def _ids(changes: Sequence[Change]) -> list[int]:
    return [each.pet_id for each in changes if each.pet_id is not None]


def _with_overwrites(decided: Decided, overwrites: Sequence[Overwrite]) -> Decided:
    """Return the decisions, with the notes on overwrites in their plan: a user may release it
    later.
    """
    if not overwrites:
        return decided
    notes = [each.note() for each in overwrites]
    texts = [f"pet {each.pet_id} ({each.address}): {each.problem}" for each in notes]
    note = f"Changes in the store are overwritten: {first_items(texts)}."
    plan = msgspec.structs.replace(decided.plan, raw_notes=(*decided.plan.raw_notes, note))
    return replace(decided, plan=plan)


def note_undos(comparison: Comparison, known: Collection[Difference]) -> Iterator[Difference]:
    """Yield a note on each row whose pet an undo restored or removed, unless one of the `known`
    notes names the undo that restored it.
    """
    remarks = comparison.decided.rows.remarks
    known_text = " ".join(each.problem for each in known)
    notes = [
        *(
            (
                row,
                f"the undo of run {each.run} restored the pet",
                f"`petsync undo {each.undo}` reverses the undo.",
            )
            for row, each in remarks.restored.items()
            if each.undo not in known_text
        ),
        *(
            (
                row,
                f"makes a change of run {run} again, which the undo {undo} reversed",
                "If it is to stay undone, change the row.",
            )
            for row, (run, undo) in remarks.repeated.items()
        ),
        *(
            (row, f"the undo of run {run} removed the pet", "")
            for row, run in remarks.undone.items()
        ),
    ]
    rows = {row for row, *_ in notes}
    frame = with_pet_ids(comparison.sheet.content.rows, comparison.pet_ids)
    lines = {line.number: line for line in iter_rows(frame, find_rows(frame, rows))}
    for row, problem, way in sorted(notes):
        yield Difference(
            kind="note",
            problem=problem,
            pet_id=lines[row].pet_id,
            name=lines[row].values.get("name") or "",
            row=row,
            address=comparison.sheet.address(row),
            hint=way,
        )


# Comparison: both sides of a job at one point in time, and the changes for each side.


FindSheets = Callable[[Collection[int]], Mapping[int, str]]


def _find_none(_ids: Collection[int]) -> Mapping[int, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a sheet with the store, and the changes for both sides."""

    sheet: Sheet
    snapshot: Snapshot
    """The pets of the job's scope."""
    seen: Snapshot
    """`snapshot`, extended by the pets outside of the scope that the comparison needs."""
    base: Base | None
    decided: Decided
    """The plan for the store, and the decisions that led to it."""
    pet_ids: Mapping[int, int]
    """For rows without an id whose pet was recognised: the pet's id, by row."""
    row_comparison: RowComparison
    inbound: Inbound | None = None
    """The changes for the sheet; None if they were not planned."""
    elsewhere: frozenset[int] = frozenset()
    """Pets whose agreed values stay in the base, for example because the store gave no answer."""
    named_elsewhere: frozenset[int] = frozenset()
    """Pets whose ids are in the folder's other sheets."""
    claimed: frozenset[int] = frozenset()
    """Pets that are in no row of this sheet but do not count as missing."""
    returning: frozenset[int] = frozenset()
    """In a job with a folder: the only pets for which new rows are written into this sheet."""
    outage: str = ""
    """Why all look-ups failed; "" if one succeeded, or nothing was looked up."""
    outside: Mapping[int, Found] = field(default_factory=dict)
    """Pets outside of the scope whose rows were removed, by id; a FailedLookup for a pet that could
    not be looked up.
    """
    records: Mapping[int, RowRecord] = field(default_factory=dict)
    """By pet id: the runs' records of rows without an id whose pet is certain."""
    unwritten_units: frozenset[Unit] = frozenset()
    """The fields that are not written into the sheet, because of their owner."""
    overwrites: tuple[Overwrite, ...] = ()
    """The changes of the plan that overwrite changes of the store."""
    unclear_names: Mapping[str, str] = field(default_factory=dict)
    """Addresses of rows for which it is unknown whether a run added the pet, by the normalized name
    that the pet had in the run.
    """
    find_elsewhere: FindSheets = _find_none
    """See `Comparer.find_elsewhere`."""

    @property
    def plan(self) -> Plan:
        """The changes for the store."""
        return self.decided.plan

    def must_have_answers(self) -> None:
        """Raise ServiceError if all look-ups of pets failed.

        This is an outage, not a conflict that a user could resolve.
        """
        if self.outage:
            raise ServiceError(
                f"all look-ups of pets in the store failed: {self.outage}",
                hint="Nothing was changed: pets that could not be looked up would seem to be "
                "missing. The next round tries again.",
            )

    def agrees_on(self, ids: Collection[int]) -> bool:
        """Return true if each of these pets is on both sides with the same values, or on neither
        side, and nothing is planned for it.
        """
        seen, inbound = self.row_comparison, self.inbound
        if not ids:
            return not seen.has_unknown
        changes = (*self.plan.changes, *(() if inbound is None else inbound.changes))
        differing = {
            pet_id for row, pet_id in zip(seen.rows, seen.ids, strict=True) if row in seen.differing
        }
        one_side = seen.named ^ {*ids_of(self.snapshot.rows)}
        others = differing | one_side | {each.pet_id for each in changes}
        return not seen.has_unknown and others.isdisjoint(ids)

    def find_agreed(self, old: Base | None) -> Base:
        """Return the values on which both sides agree, or else last agreed according to `old`."""
        # A blank cell of a field that the round does not write agrees with the store.
        fills = () if self.inbound is None else [u for u in UNITS if u not in self.unwritten_units]
        divergent = self.plan.options.unsent_units
        return self.row_comparison.base(
            self.seen, old, self.elsewhere, fills=fills, divergent=divergent
        )

    def next_base(self) -> Base:
        """Return the base after this comparison: the values on which both sides agree now, or else
        last agreed.
        """
        base = self.find_agreed(self.base)
        if self.base is None:
            return base
        claimed = (self.base.unnumbered & self.claimed) - self.row_comparison.named
        unnumbered = (base.unnumbered | claimed) - self.named_elsewhere
        # The base keeps what it has computed.
        return base if unnumbered == base.unnumbered else replace(base, unnumbered=unnumbered)


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares both sides of a job, or of one sheet of a folder."""

    job: Job
    source: Source
    store: Store
    folder: Folder | None = None
    is_first: bool = True
    """False for the other sheets of a folder. Pets in no sheet are reported with the first one."""
    find_elsewhere: FindSheets = _find_none
    """Returns the other jobs' sheets that have rows for pets, by the pet's id."""

    @property
    def elsewhere(self) -> frozenset[int]:
        """The ids in the folder's other sheets; their pets do not belong to this sheet."""
        return frozenset() if self.folder is None else self.folder.find_other_ids(self.source.part)

    @property
    def read_at(self) -> str:
        """When this file was first read with its current content; "" without a folder."""
        return "" if self.folder is None else self.folder.read_at(self.source.part)

    def read(self, known_statuses: Collection[str] = ()) -> Sheet:
        """Return the sheet; statuses in `known_statuses` are valid, too."""
        sheet = self.source.read(self.store, known_statuses)
        return sheet if self.folder is None else self.folder.block_twins(self.source.part, sheet)

    def read_parts(self) -> tuple[Sheet, Snapshot]:
        """Return a sheet of Parquet files and the store's pets, both without the rows that agree.
        Raises ServiceError if the list of the pets is incomplete.
        """
        snapshot, sheet = self.store.read_with_snapshot(
            self.source.name, keep=self.job.guard.sentinels
        )
        return sheet, _require_whole(snapshot)

    @contextmanager
    def list_in_background(self) -> Iterator[Callable[[], Snapshot]]:
        """List the pets of the job's statuses while the context does other work. Yield a function
        that returns them; at the end of the context, the list is not read any further.
        """
        if self.job.is_in_parts:
            yield lambda: self._list_pets(self.job.statuses)
            return
        task = start(self.store, self.store.aio.snapshot(statuses=self.job.statuses))
        try:
            yield lambda: _require_whole(task.done.wait())
        finally:
            task.cancel()

    def snapshot(self, listed: Snapshot | None = None) -> Snapshot:
        """Return the pets of the job's scope, without those in the folder's other sheets. They are
        taken from `listed`, or listed now. Raises ServiceError if the list is incomplete.
        """
        snapshot = self._list_pets(self.job.statuses) if listed is None else listed
        usual = {*self.store.api.aio.session.profile.statuses}
        if self.job.mode == "pull" or usual <= {*snapshot.coverage.statuses}:
            # Pets are removed from the frame below; `whole` keeps the categories and tags of all
            # pets.
            snapshot = replace(snapshot, whole=snapshot)
        keep = mask_in_scope(snapshot.rows, (), self.job.tags)
        keep &= ~has_id_in(snapshot.rows, self.elsewhere)
        if keep.all():
            return snapshot
        return replace(snapshot, pets=PetTable(frame=snapshot.rows[keep].reset_index(drop=True)))

    def _list_pets(self, statuses: Sequence[str]) -> Snapshot:
        return _require_whole(self.store.snapshot(statuses=statuses))

    def compare(
        self,
        sheet: Sheet,
        snapshot: Snapshot,
        base: Base | None,
        *,
        may_delete: bool = True,
        claimed: frozenset[int] = frozenset(),
        may_lack: frozenset[int] = frozenset(),
        returning: frozenset[int] = frozenset(),
        sibling_restored: str = "",
        left: Mapping[int, Pet] | None = None,
        has_inbound: bool = True,
    ) -> Comparison:
        """Return the comparison of both sides; it may look up pets outside of the scope.

        Pets in `claimed` are not missing: another sheet may have their rows. The rows of the pets
        in `may_lack` had an id before, and may lack it again. `left` has pets that other sheets had
        in their last round and that no row names now: a row without an id may belong to such a pet.
        `sibling_restored` is the time when a round last found an older copy of another sheet, ""
        for never. Without `has_inbound` the changes for the sheet are not planned.
        """
        # The time from which the plan does not know what other runs add.
        created = _now()
        sheet = self._with_known_statuses(sheet, snapshot, base)
        own = None if base is None else base.without(self.elsewhere)
        remembered = {} if own is None else find_remembered(sheet, own, snapshot.rows)
        rows = sheet
        if remembered:
            rows = sheet.with_rows(with_pet_ids(sheet.content.rows, remembered))
        missing = None if own is None else own.without(claimed - rows.named_ids)
        outside = self._find_outside(rows, snapshot, missing)
        near = self._with_namesakes(rows, snapshot)
        near = _with(near, [each for each in outside.values() if isinstance(each, Pet)])
        # In mode two-way, an undo counts as a change in the store; the rows must not reverse it.
        compared = self.store.compare(
            replace(rows, base=None, base_refused=""),
            near,
            with_undone=self.job.mode == "two-way",
        )
        near = replace(near, whole=compared.snapshot.whole)
        there = _with(near, [pet for pet in compared.found.values() if isinstance(pet, Pet)])
        # In a round, an undo is a change of the store: another user may have edited the sheet.
        compared = replace(compared, outside=frozenset(outside), own_undone=frozenset())
        plan_base = self._complete_base(self._plan_base(rows, missing, there), rows, there, {})
        if self.job.mode == "push":
            # Rows are compared with the store only.
            compared = replace(compared, matches=without_base(compared.matches))
        if self._writes_ids(sheet):
            numbered = frozenset[int]() if own is None else own.ids - own.unnumbered
            close = mark_doubts(compared.matches, rows, there.vocabulary, numbered, may_lack)
            lacking = frozenset[int]() if own is None else own.unnumbered
            compared = replace(compared, matches=_with_open_rows(close, lacking))
        doubts = self._find_doubts(rows, own, there, compared.matches)
        moved = self._find_doubts_of_moved_rows(rows, there, compared.matches, left or {})
        if sibling_restored:
            older = self._find_doubts_of_older_rows(
                rows, there, compared.matches, restored=sibling_restored
            )
            moved = {**moved, **older}
        compared = replace(compared, matches={**compared.matches, **moved, **doubts})
        decided = compare(
            replace(compared, sheet=replace(compared.sheet, base=plan_base)),
            options=self._plan_options(base, may_delete),
            guard=self.job.guard,
            profile=self.store.api.aio.session.profile,
            created=created,
        )
        overwrites: tuple[Overwrite, ...] = ()
        if self.job.mode in ("push", "two-way"):
            overwrites = (*find_overwrites(decided, own),)
            decided = _with_overwrites(decided, overwrites)
        plan = decided.plan
        pet_ids = {**remembered, **plan.recognised}
        named = sheet.named_ids | {*pet_ids.values()}
        outside = {i: each for i, each in outside.items() if i not in named}
        conflict_ids = {each.pet_id for each in plan.conflicts}
        agreed = {} if missing is None else {p.id or 0: p for p in pets_of(outside, missing.rows)}
        # These still have the agreed values and are out of scope: nothing to do.
        unchanged = {
            i
            for i, pet in outside.items()
            if i not in conflict_ids
            and isinstance(pet, Pet)
            and not differing_columns(agreed[i], pet)
        }
        unanswered = {i for i, each in outside.items() if isinstance(each, FailedLookup)}
        seen = _without(there, unchanged)
        others = self.elsewhere | claimed if self.job.mode == "two-way" else frozenset[int]()
        comparison = Comparison(
            sheet=sheet,
            snapshot=snapshot,
            seen=seen,
            base=base,
            decided=decided,
            pet_ids=pet_ids,
            row_comparison=compare_planned_rows(plan, sheet, seen, pet_ids, base),
            elsewhere=others | unanswered,
            named_elsewhere=self.elsewhere,
            claimed=claimed,
            returning=returning,
            outage=_find_outage([*compared.found.values(), *outside.values()]),
            unwritten_units=self.job.merging.unwritten_units,
            overwrites=overwrites,
            find_elsewhere=self.find_elsewhere,
            outside=outside,
            records={
                pet_id: compared.matches[row].record
                for row, pet_id in plan.recognised.items()
                if row in compared.matches and compared.matches[row].kind == "certain"
            },
            unclear_names={
                normalize(record.row_pet.name): sheet.address(row)
                for row, match in compared.matches.items()
                for record in match.records
                if record.state == "unknown"
            },
        )
        if not has_inbound or self.job.mode in ("push", "check"):
            return comparison
        return replace(
            comparison, inbound=self.plan_inbound(comparison, decided, {}, may_delete=may_delete)
        )

    def plan_inbound(
        self,
        comparison: Comparison,
        decided: Decided,
        added: Mapping[int, int],
        *,
        may_delete: bool,
    ) -> Inbound:
        """Return the changes for the sheet.

        `added` has, by row, the ids that the store assigned to new pets in a run of the plan.
        """
        job = self.job
        pet_ids = {**comparison.pet_ids, **added}
        return build_inbound(
            comparison.sheet,
            comparison.seen,
            self.complete_base(comparison, added),
            decided,
            lead="store" if job.mode == "pull" else "merge",
            created=_now(),
            pet_ids=pet_ids,
            options=self._options(comparison.base, may_delete),
            # In a folder it is unknown to which sheet a new pet belongs.
            adds=None if job.folder is None else comparison.returning,
            statuses=job.statuses,
            tags=job.tags,
            unclear_names=comparison.unclear_names,
            candidates=self._may_have_rows(comparison, pet_ids),
            guard=job.guard,
        )

    def complete_base(self, comparison: Comparison, added: Mapping[int, int]) -> Base | None:
        """Return the base of a comparison; in mode two-way, also with the pets that both sides have
        and for which no agreed values are known. `added` has, by row, the ids of new pets.
        """
        pet_ids = {**comparison.pet_ids, **added}
        return self._complete_base(comparison.base, comparison.sheet, comparison.seen, pet_ids)

    def _may_have_rows(self, comparison: Comparison, pet_ids: Mapping[int, int]) -> dict[int, str]:
        """Return the pets that runs added from this sheet and that no row names, by id.

        Each comes with the address of a row without an id, which may be the pet's edited row.
        """
        sheet = comparison.sheet
        conflict_rows = {each.row for each in comparison.plan.conflicts}
        unwritable = [row for row in slots_of(sheet) if row in conflict_rows and row not in pet_ids]
        rows = unwritable or [*sheet.unidentified]
        if not rows or self.job.mode != "two-way":
            return {}
        named = sheet.named_ids | {*pet_ids.values()} | self.elsewhere
        records = self.store.aio.history.read_row_records(self.store.url, sheet)
        return {
            each.pet_id: sheet.address(rows[0])
            for each in records
            if each.state == "added" and each.is_added and each.source == sheet.source
            if each.pet_id is not None and each.pet_id not in named
        }

    def plan_ids(self, comparison: Comparison, pet_ids: Mapping[int, int]) -> Inbound:
        """Return the changes for the sheet of a push job: only ids for rows without an id."""
        whole = self.plan_inbound(comparison, comparison.decided, pet_ids, may_delete=False)
        ids = tuple(each for each in whole.identified if each.lacks_id)
        return msgspec.structs.replace(
            whole, edits=(), added=(), removed=(), notes=(), identified=ids, verdict=Verdict()
        )

    def to_sheet(self, comparison: Comparison) -> Counts:
        """Return the counts of changes for the sheet.

        They include rows without an id that get the id of their pet, even if the pet is still to be
        added.
        """
        counts = Counts() if comparison.inbound is None else comparison.inbound.touched
        if comparison.inbound is None and not self.takes_ids(comparison.sheet):
            return counts
        adds = [
            each for each in comparison.plan.adds if each.pet_id is None and self.job.mode != "pull"
        ]
        known = comparison.pet_ids if comparison.inbound is None else {}
        return msgspec.structs.replace(counts, update=counts.update + len(adds) + len(known))

    def takes_ids(self, sheet: Sheet) -> bool:
        """Return true if the job is a push job, and its sheet is a file with a column for ids,
        into which petsync writes.
        """
        is_file = self.source.path is not None and not self.job.is_in_parts and not sheet.form
        return self.job.mode == "push" and is_file and "id" in sheet.columns

    def _find_doubts(
        self, sheet: Sheet, base: Base | None, seen: Snapshot, matches: Mapping[int, Match]
    ) -> dict[int, Match]:
        """Return a doubtful match for each row without an id that may belong to a pet whose row
        already lacked its id in the last round.

        If such a row were added, the pet could be in the store twice.
        """
        if base is None or not base.unnumbered:
            return {}
        if self.job.match_on or not self._writes_ids(sheet):
            return {}
        known = {each.record.pet_id for each in matches.values() if each.kind == "certain"}
        missing_ids = (
            base.unnumbered & {*ids_of(seen.rows)} - sheet.named_ids - known - self.elsewhere
        )
        if not missing_ids:
            return {}
        pets = pets_of(sorted(missing_ids), base.rows)
        pets += pets_of(sorted(missing_ids - base.ids), seen.rows)
        added = self.find_added(sheet, missing_ids)
        records = tuple(
            added.get(pet.id or 0) or _build_record(pet, sheet, base.taken_at) for pet in pets
        )
        frame = sheet.rows
        rows = frame.index[lacks_id(frame) & has_action(frame, "merge")].tolist()
        free = [row for row in rows if row not in matches or matches[row].kind == "other"]
        return {row: Match("doubt", records, is_edited=True) for row in free} if records else {}

    def find_stray_pets(self, sheet: Sheet, since: str) -> frozenset[int]:
        """Return the pets whose row may have moved from another file of the folder into this one
        without its id, and been edited.

        No row names these pets. Runs added them after `since`, or their rows lacked the id in the
        last round.
        """
        if self.folder is None or self.job.mode != "two-way" or not slots_of(sheet):
            return frozenset()
        named = sheet.named_ids | self.elsewhere
        waiting = self.folder.new_names(self.source.part)
        return (self.folder.unnumbered - named).union(
            record.pet_id
            for record in self.store.aio.history.read_row_records(self.store.url, sheet)
            if record.pet_id is not None and record.pet_id not in named
            if record.state == "added" and record.is_added
            if _is_beside(record.source, sheet.source) and _is_later(record.run_started, since)
            if normalize(record.row_pet.name) not in waiting
        )

    def find_added(self, sheet: Sheet, ids: Collection[int]) -> dict[int, RowRecord]:
        """Return, by id, the newest record of each of these pets that a run added from a row of
        this sheet or of the folder's other files.
        """
        return {
            record.pet_id: record
            for record in reversed(self.store.aio.history.read_row_records(self.store.url, sheet))
            if record.pet_id is not None and record.pet_id in ids
            if record.state == "added" and record.is_added
            if record.source == sheet.source
            or (self.folder is not None and _is_beside(record.source, sheet.source))
        }

    def _find_doubts_of_moved_rows(
        self, sheet: Sheet, seen: Snapshot, matches: Mapping[int, Match], left: Mapping[int, Pet]
    ) -> dict[int, Match]:
        """Return a match for each row that may have moved here from another sheet, and been edited.

        Such a row is similar to a pet that no row names and that is in `left`, or that a run added
        from another file of the folder.
        """
        if self.job.mode not in ("push", "two-way"):
            return {}
        actions = actions_of(sheet, slots_of(sheet))
        rows = [row for row, does in actions.items() if not does and is_free(matches.get(row))]
        if not rows:
            return {}
        known = {each.record.pet_id for each in matches.values() if each.kind == "certain"}
        named = sheet.named_ids | self.elsewhere | known
        records = {
            pet_id: _build_record(pet, sheet, seen.taken_at.isoformat())
            for pet_id, pet in left.items()
            if pet_id not in named
        }
        if self.folder is not None and self.job.mode == "two-way":
            records |= {
                record.pet_id: record
                for record in self.store.aio.history.read_row_records(self.store.url, sheet)
                if record.pet_id is not None and record.pet_id not in named
                if record.state == "added" and _is_beside(record.source, sheet.source)
            }
        stray_pets = pets_of(records, seen.rows)
        if not stray_pets:
            return {}
        before = [msgspec.structs.replace(records[p.id or 0].row_pet, id=p.id) for p in stray_pets]
        row_pets = read_row_pets(sheet, rows, seen.vocabulary)
        return {
            row: Match("lost", (records[pet.id or 0],), is_edited=True)
            for row, pet in find_alike(row_pets, [*stray_pets, *before]).items()
        }

    def _find_doubts_of_older_rows(
        self, sheet: Sheet, seen: Snapshot, matches: Mapping[int, Match], *, restored: str
    ) -> dict[int, Match]:
        """Return a match for each row without an id that may come from an older copy of another
        file, restored at the time `restored`.

        Before, a run had added a similar pet from that file, which has the pet's row again now.
        """
        actions = actions_of(sheet, slots_of(sheet))
        rows = [row for row, does in actions.items() if not does and is_free(matches.get(row))]
        records = {
            record.pet_id: record
            for record in reversed(self.store.aio.history.read_row_records(self.store.url, sheet))
            if record.pet_id in self.elsewhere and record.state == "added"
            if _is_beside(record.source, sheet.source) and _is_later(restored, record.run_started)
        }
        pets = [msgspec.structs.replace(each.row_pet, id=i) for i, each in records.items()]
        row_pets = read_row_pets(sheet, rows, seen.vocabulary) if rows and pets else {}
        names = {normalize(pet.name): pet for pet in pets}
        same = {
            row: names[name] for row, p in row_pets.items() if (name := normalize(p.name)) in names
        }
        found = {**find_alike(row_pets, pets), **same}
        return {
            row: Match("doubt", (records[pet.id or 0],), is_edited=True)
            for row, pet in found.items()
        }

    def _writes_ids(self, sheet: Sheet) -> bool:
        return self.job.mode == "two-way" or self.takes_ids(sheet)

    def _with_known_statuses(self, sheet: Sheet, snapshot: Snapshot, base: Base | None) -> Sheet:
        """Return the sheet, read again if statuses of the store or base may explain problems."""
        usual = self.store.api.aio.session.profile.statuses
        frames = [snapshot.rows] if base is None else [snapshot.rows, base.rows]
        used = frozenset[str]().union(*(unique_texts(each, "status") for each in frames))
        if used <= set(usual) or not sheet.problems or self.job.is_in_parts:
            return sheet
        again = self.read(used)
        return again if again.digest == sheet.digest else sheet

    def _with_namesakes(self, sheet: Sheet, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot, with pets outside of the scope to which rows without an id may
        refer.
        """
        if "name" not in sheet.rows or not (self.job.statuses or self.job.tags):
            return snapshot
        lacking = lacks_id(sheet.rows)
        if not lacking.any():
            return snapshot
        rows = sheet.rows[lacking]
        whole = self._list_pets(())
        known = {*ids_of(snapshot.rows), *self.elsewhere}
        frame = whole.rows[~has_id_in(whole.rows, known)]
        if not self.job.match_on or "name" in self.job.match_on:
            names = {normalize(name) for name in unique_texts(rows, "name")}
            frame = frame[names_among(frame["name"], names)]
        return replace(_with(snapshot, pets_from_frame(frame)), whole=whole)

    def _complete_base(
        self, base: Base | None, sheet: Sheet, seen: Snapshot, pet_ids: Mapping[int, int]
    ) -> Base | None:
        """Return the base; in mode two-way, also with pets for which no agreed values are known.

        Sentinels are not added: the guard checks them.
        """
        if self.job.mode != "two-way":
            return base
        return with_unknown(base, sheet, seen, pet_ids, self.job.guard.sentinels)

    def _find_outside(
        self, sheet: Sheet, snapshot: Snapshot, base: Base | None
    ) -> Mapping[int, Found]:
        """Return the pets outside of the job's scope whose rows were removed.

        They are in the base, and no row names them. A pet that could not be looked up is included
        as a FailedLookup.
        """
        if base is None or self.job.mode == "pull":
            return {}
        lacking = base.ids - sheet.named_ids
        lacking = lacking - {*ids_of(snapshot.rows)} if lacking else lacking
        found = self.store.look_up(sorted(lacking)) if lacking else {}
        return {pet_id: each for pet_id, each in found.items() if each is not None}

    def _plan_base(self, sheet: Sheet, base: Base | None, seen: Snapshot) -> Base | None:
        """Return the base for the plan.

        In push it has only pets that no row names, and the order of all rows, so rows are compared
        with the store only. A sheet that is not written does not follow the fields of the store:
        they do not show whether a pet changed. In pull there is no base.
        """
        if base is None or self.job.mode == "pull":
            return None
        if self.job.mode != "push":
            return base
        rest = with_values_of(base.without(sheet.named_ids), seen, self.job.merging.unsent_units)
        return replace(rest, whole_order=base.rows["id"])

    def _options(self, base: Base | None, may_delete: bool) -> MergeOptions:
        # Without a base no row can have been removed.
        merging = self.job.merging
        return merging if may_delete and base is not None else merging.without_deletes()

    def _plan_options(self, base: Base | None, may_delete: bool) -> PlanOptions:
        mode = self.job.mode
        options = self._options(base, may_delete and mode != "pull")
        return options.for_plan(two_way=mode == "pull" or (base is None and mode != "two-way"))


def _with_open_rows(matches: Mapping[int, Match], lacking: Collection[int]) -> dict[int, Match]:
    """Return the matches, with `was_conflict` set where a row may belong to a pet in `lacking`.

    The rows of these pets lacked the id in the last round. If such a pet was deleted in the store
    since, the row does not add it again.
    """
    return {
        row: match._replace(was_conflict=True)
        if match.kind == "lost" and any(each.pet_id in lacking for each in match.records)
        else match
        for row, match in matches.items()
    }


def compare_planned_rows(
    plan: Plan, sheet: Sheet, seen: Snapshot, pet_ids: Mapping[int, int], base: Base | None
) -> RowComparison:
    """Return the comparison of the rows with their pets in `seen`."""
    unclear = [each.row for each in plan.conflicts if each.rule == "no-category-name"]
    return compare_rows(sheet, seen, pet_ids, base, unclear)


def _build_record(pet: Pet, sheet: Sheet, now: str) -> RowRecord:
    """Return a record for a pet that has none from a run."""
    return RowRecord(
        run_id="",
        on=now[:10],
        source=sheet.source,
        row=0,
        row_pet=pet,
        pet_id=pet.id,
        is_added=False,
    )


def _is_beside(one: str, other: str) -> bool:
    """Return true if these are two different files in the same folder."""
    first, second = Path(real_path(one)), Path(real_path(other))
    return first != second and first.parent == second.parent


def _is_later(one: str, other: str) -> bool:
    return datetime.fromisoformat(one) > datetime.fromisoformat(other)


def _find_outage(found: Collection[Pet | FailedLookup | None]) -> str:
    """Return why all look-ups failed; "" if one succeeded, or nothing was looked up."""
    unanswered = [each for each in found if isinstance(each, FailedLookup)]
    if not unanswered or len(unanswered) < len(found):
        return ""
    return f"{unanswered[0].query}: {unanswered[0].problem}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _require_whole(snapshot: Snapshot) -> Snapshot:
    failed = snapshot.coverage.failed
    if failed:
        queries = ", ".join(each.query for each in failed)
        raise ServiceError(
            f"the store did not list its pets of status {queries}: {failed[0].problem}",
            hint="The round ended here: pets that are not listed would seem to be missing. The "
            "next round tries again.",
        )
    return snapshot


def _with(snapshot: Snapshot, pets: Sequence[Pet]) -> Snapshot:
    there = {*ids_of(snapshot.rows)} if pets else set()
    pets = [pet for pet in pets if pet.id not in there]
    if not pets:
        return snapshot
    frame = join_rows([snapshot.rows, rows_from_pets(pets)])
    frame = frame.sort_values("id", kind="stable", ignore_index=True)
    return replace(snapshot, pets=PetTable(frame=frame))


def _without(snapshot: Snapshot, ids: Collection[int]) -> Snapshot:
    if not ids:
        return snapshot
    frame = snapshot.rows[~has_id_in(snapshot.rows, ids)].reset_index(drop=True)
    return replace(snapshot, pets=PetTable(frame=frame))


# The changes for the sheet, and the cells that cannot be written.


def split_changes(
    changes: Iterable[SheetChange], unwritable: Sequence[Obstacle], sheet: Sheet
) -> Iterator[tuple[SheetChange, SheetChange | None, list[Obstacle]]]:
    """Yield each change with the part of it that can be written, None if there is none, and the
    obstacles to the rest.
    """
    by_row: defaultdict[int | None, list[Obstacle]] = defaultdict(list)
    for each in unwritable:
        by_row[each.row].append(each)
    new = itertools.count(-1, -1)
    for change in changes:
        is_add = change.kind == "add"
        found = [*by_row[next(new)], *by_row[None]] if is_add else by_row[change.row]
        found = [each for each in found if not each.column or each.column in change.values]
        blocked = {each.column for each in found}
        yield change, None if "" in blocked else _limit_change(change, blocked, sheet), found


def _limit_change(
    change: SheetChange, without: Collection[str], sheet: Sheet
) -> SheetChange | None:
    """Return the change without these columns; None if nothing is left."""
    values = {name: texts for name, texts in change.values.items() if name not in without}
    if len(values) == len(change.values):
        return change
    if change.row is None or not values:
        return msgspec.structs.replace(change, values=values) if values else None
    address = sheet.address(change.row, next(iter(values)))
    return msgspec.structs.replace(change, values=values, address=address)


# Every difference that a comparison finds, each with its reason.


Kind = Literal["conflict", "finding", "failed", "waiting", "drift", "note"]
Pending = Literal["drift", "waiting"]
_LISTED = 20
_NAMED = 5
_CURES = {
    "removed-changed": "To remove the pet, delete it in the store. To keep it, restore its row.",
    "delete-changed": "Empty the action cell: the next round of a two-way job writes the store's "
    "values into the row. Then write `delete` again if the pet is still to be deleted.",
    "not-looked-up": "The next round looks the pet up again.",
}
"""How to resolve a conflict in a job's sheet, if that differs from the advice for a manual plan."""

_LONGEST = 60
"""The maximum number of characters of a value in a message, if there are many changes."""
_SAME = 20
"""The maximum number of equal characters before the difference of two long values."""
_CHANGE_ORDER = {"update": 0, "delete": 1, "add": 2}
"""The order of the kinds of changes: adds come last, because there are often many."""
_TAKES = {
    "add": "is in the store, and is to get a row",
    "delete": "is no longer in the store, and its row is to be removed",
}
_VERBS = {"add": "added", "update": "changed", "delete": "deleted"}
_CHECKED = {
    "add": "is in the sheet, and the store does not have it",
    "delete": "is in the store, and in no row",
}
_IDENTITY = frozenset(
    {
        "id-below-one",
        "matches-several",
        "claimed-twice",
        "looks-alike",
        "lost-id",
        "misplaced-id",
        "not-looked-up",
    }
)
"""The rules of conflicts about a row's identity, which are reported in every mode."""


@dataclass(frozen=True, slots=True)
class RemainingDifferences:
    """The differences between sheet and store."""

    job: Job
    comparison: Comparison
    pending: Pending = "drift"
    """The kind of the changes that are still to be made."""
    report: Report | None = None
    """The report of the round's run."""
    is_before: bool = False
    """True if the comparison is from before the run: then applied changes are not differences."""
    is_refused: bool = False
    """True if the round refuses the changes, so they are not to be made."""
    is_first: bool = True
    unwritable: tuple[Obstacle, ...] = ()
    """Cells that cannot be written."""
    unwritten: str = ""
    """Why the sheet could not be written, "" if it could."""
    changes: Sequence[SheetChange] | None = None
    """The changes for the sheet that a dry run shows; None for those of the comparison."""
    results: dict[tuple[int | None, int | None], Result] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for result in () if self.report is None else self.report.results:
            if result.kind != "none":
                self.results[result.row, result.pet_id] = result

    def all(self) -> tuple[Difference, ...]:
        """Return all differences."""
        found = [*self._conflicts(), *self._blocked_rows(), *self._changes(), *self._sheet()]
        found += self._unnamed_pets(found)
        found += self._drift()
        columns = [*self._columns()]
        first = [each for each in columns if each.kind != "note"]
        rest = [*self._rest(found), *self._warnings()]
        return (*first, *found, *rest, *(columns if not first else ()))

    def _columns(self) -> Iterator[Difference]:
        """Yield a difference for the columns that have lost their values, if there are any.

        A new header may be the new name of such a column; edits in it are then ignored.
        """
        missing, new = missing_columns(self.comparison.sheet, self.comparison.base)
        if not missing:
            return
        names = ", ".join(column for column in (*COLUMNS, "action") if column in missing)
        there = missing <= {*self.comparison.sheet.columns}
        state = "empty" if there else "missing"
        problem = (
            f"columns that had values and are now {state}: {names}. Once they have values again, "
            "these are compared with the earlier ones"
        )
        if not new:
            yield Difference(kind="note", problem=problem)
            return
        headers = ", ".join(map(repr, new[:_NAMED]))
        yield Difference(
            kind="finding",
            problem=f"{problem}. New headers, which petsync does not use: {headers}",
            address=self.comparison.sheet.address(self.comparison.sheet.header_row, new[0]),
            hint="Give the column its header again, or map the new header in the configuration "
            "([columns]). To do without the column, keep it in the sheet with empty cells.",
        )

    def _conflicts(self) -> Iterator[Difference]:
        base = self.comparison.base
        agreed = frozenset() if base is None else base.ids
        unsure = frozenset() if base is None else frozenset(base.unsure_units)
        for conflict in self.comparison.plan.open_conflicts:
            if self.job.mode == "pull" and conflict.rule not in _IDENTITY:
                continue
            if conflict.clashes and self.job.merging.store_wins and self._is_merged:
                continue
            yield _of_conflict(conflict, is_known=conflict.pet_id in agreed - unsure)

    def _blocked_rows(self) -> Iterator[Difference]:
        for blocked in self.comparison.plan.blocked:
            yield Difference(
                kind="finding",
                problem=blocked.problem,
                pet_id=blocked.pet_id,
                name=blocked.name,
                row=blocked.row,
                address=blocked.source,
            )

    def _changes(self) -> Iterator[Difference]:
        changes = () if self.job.mode == "pull" else self.comparison.plan.changes
        for change in sorted(changes, key=lambda each: _CHANGE_ORDER[each.kind]):
            result = self.results.get((change.row, change.pet_id))
            if result is None:
                yield _of_change(change, self.pending, self._describe_change(change))
            elif result.outcome == "not sent":
                yield _of_change(
                    change, self.pending, result.message or self._describe_change(change)
                )
            elif result.outcome in ("applied", "unchanged"):
                # If a later comparison still finds the change, it has been reverted since.
                if not self.is_before:
                    yield _of_change(change, self.pending, self._describe_change(change))
            elif result.outcome == "conflict":
                yield _of_change(change, "drift", f"changed during the round: {result.message}")
            else:
                yield _of_change(change, "failed", result.message or "it was not applied")

    def _sheet(self) -> Iterator[Difference]:
        """Yield the changes for the sheet, and the notes on the differences that remain."""
        if self.comparison.inbound is None:
            return
        changes = self.comparison.inbound.changes if self.changes is None else self.changes
        sheet = self.comparison.sheet
        for change, rest, obstacles in split_changes(changes, self.unwritable, sheet):
            for obstacle in obstacles:
                yield Difference(
                    kind="finding",
                    problem=obstacle.problem,
                    pet_id=change.pet_id,
                    name=change.name,
                    row=change.row,
                    address=obstacle.address,
                    fields=tuple(c for c in COLUMNS if c == obstacle.column),
                    hint=obstacle.suggestion,
                )
            if rest is not None and (rest := self._without_new_id(rest)) is not None:
                is_update = rest.kind == "update"
                yield Difference(
                    kind="failed" if self.unwritten else self.pending,
                    problem=self.unwritten or self._describe_take(rest),
                    pet_id=rest.pet_id,
                    name=rest.name,
                    row=rest.row,
                    address=rest.address,
                    fields=tuple(c for c in COLUMNS if is_update and c in rest.values),
                )
        yield from self.comparison.inbound.notes

    def _without_new_id(self, change: SheetChange) -> SheetChange | None:
        """Return the change without the id of a pet that is still to be added, which the line about
        the add mentions; None if nothing is left.
        """
        if change.pet_id is not None or change.row is None:
            return change
        return _limit_change(change, {"id"}, self.comparison.sheet)

    def _drift(self) -> Iterator[Difference]:
        """Yield the pets of the store that break the user's own rules. A pet that no row names is
        reported with the first sheet of a folder.
        """
        rules, named = self.comparison.sheet.store_rules, self.comparison.row_comparison.named
        changes = self.comparison.plan.changes if self.job.mode in ("push", "two-way") else ()
        pets = self.comparison.snapshot.rows
        if self.comparison.snapshot.left_out:
            notes = iter_drift_notes(rules, pets, (), is_partial=True)
            yield from (Difference(kind="note", problem=note) for note in notes)
            return
        for drift in find_drift(rules, pets, changes):
            ids = [each for each in drift.ids if self.is_first or each in named]
            for pet in pets_of(ids, pets):
                yield Difference(
                    kind="note",
                    problem=drift.problem,
                    pet_id=pet.id,
                    name=pet.name or "",
                    hint="Correct the pet in the store, or the rule.",
                )

    def _warnings(self) -> Iterator[Difference]:
        """Yield a note on each cell that breaks a rule of the user's own with the severity
        `warning`, and on each such rule that did not run.
        """
        sheet = self.comparison.sheet
        of_rules = [
            each
            for each in sheet.problems
            if each.severity == "warning" and (each.is_own or each.rule == "header-unchecked")
        ]
        if not of_rules:
            return
        sight = self.comparison.row_comparison
        ids = {**dict(zip(sight.rows, sight.ids, strict=True)), **sheet.blocked_pets}
        named = [pet_id for each in of_rules if (pet_id := ids.get(each.row)) is not None]
        names = {pet.id: pet.name or "" for pet in pets_of(named, self.comparison.snapshot.rows)}
        for each in of_rules:
            pet_id = ids.get(each.row)
            rule = f"rule {each.rule.removeprefix(RULE_PREFIX)}: " if each.is_own else ""
            yield Difference(
                kind="note",
                problem=f"{rule}{each.problem}",
                pet_id=pet_id,
                name=names.get(pet_id, ""),
                row=None if each.row == sheet.header_row else each.row,
                address=each.address,
                hint=each.suggestion,
            )

    def _unnamed_pets(self, found: Sequence[Difference]) -> Iterator[Difference]:
        """Yield the pets of the store that no row names and that are not in `found`.

        If many of them were in no row before, only their number is given.
        """
        known_ids = {each.pet_id for each in found} | self.comparison.row_comparison.named
        unnamed = [each for each in ids_of(self.comparison.snapshot.rows) if each not in known_ids]
        base = self.comparison.base
        known = frozenset[int]() if base is None else base.ids
        never = [each for each in unnamed if each not in known] if self.is_first else []
        if len(never) > _LISTED:
            problem = f"{len(never):,} pets of the store are in no row of this job"
            yield Difference(kind="note", problem=problem, hint="They stay in the store.")
            never = []
        shown = sorted({*unnamed} & known) + never
        sheets = self.comparison.find_elsewhere(shown) if len(shown) <= _LISTED else {}
        for pet in pets_of(shown, self.comparison.snapshot.rows):
            problem = "is in the store, and in no row"
            if (sheet := sheets.get(pet.id or 0)) is not None:
                problem = f"is in no row of this job: its row is in {sheet}"
            elif pet.id in known:
                holds = self.job.delete_missing
                stays = explain_stay(self.comparison.decided, pet.id or 0, holds_deletes=holds)
                problem = f"is no longer in any row; {stays}"
            yield Difference(kind="note", problem=problem, pet_id=pet.id, name=pet.name or "")
        yield from (each for each in self._find_outside() if each.pet_id not in known_ids)

    def _find_outside(self) -> Iterator[Difference]:
        """Yield the pets outside of the job's scope whose rows were removed."""
        for pet_id, found in sorted(self.comparison.outside.items()):
            if isinstance(found, Pet):
                tags = f", its tags are {cell(found, 'tags')!r}" if self.job.tags else ""
                yield Difference(
                    kind="note",
                    problem="is no longer in any row, and is not among the pets that the job "
                    f"covers (its status is {found.status!r}{tags}): it stays in the store",
                    pet_id=pet_id,
                    name=found.name or "",
                )
            elif found is not None:
                yield Difference(
                    kind="conflict",
                    problem=f"is no longer in any row, and could not be looked up: {found.problem}",
                    pet_id=pet_id,
                    hint=_CURES["not-looked-up"],
                )

    def _rest(self, found: Sequence[Difference]) -> Iterator[Difference]:
        """Yield a difference for each row that differs from the store and is not in `found`."""
        rows = {each.row for each in found}
        sight, never = self.comparison.row_comparison, self.comparison.plan.options.never_units
        by_name = {*self.comparison.decided.rows.remarks.by_name}
        for row, pet_id, place in zip(sight.rows, sight.ids, sight.places, strict=True):
            if place >= 0 and row not in sight.differing:
                continue
            fields = sight.columns(row)
            if row in rows or (place >= 0 and not fields):
                continue
            problem, name, hint = "has the id of a pet that the store does not have", "", ""
            is_drift = self.job.mode == "check" and not (
                fields and never.issuperset(sight.differing[row])
            )
            if fields:
                pet = pets_at(self.comparison.seen.rows, [place])[0]
                name, problem = pet.name or "", self._describe_both(row, pet, fields)
            is_unsent = self.job.mode == "push" and row in by_name
            if is_unsent:
                problem = "has the number of a different category next to the old category's name"
                hint = "Write the name of the intended category, or restore the old number."
            yield Difference(
                kind="drift" if is_drift else "conflict" if is_unsent else "note",
                problem=problem,
                pet_id=pet_id,
                name=name,
                row=row,
                address=self.comparison.sheet.address(row),
                fields=fields,
                hint=hint,
            )

    def _describe_both(self, row: int, pet: Pet, fields: Sequence[Column]) -> str:
        """Return the values of a row and its pet in the fields that differ."""
        frame = self.comparison.row_comparison.frame
        (line,) = iter_rows(frame, frame.index == row)
        row_pet = build_pet(line.values)
        texts = [(c, cell(pet, c), cell(row_pet, c)) for c in fields if c in line.values]
        other = [each for each in texts if each[1] != each[2]]
        text = "; ".join(
            _describe_difference(column, *self._shorten(store, own))
            for column, store, own in other or texts
        )
        return text if self.job.mode == "check" else f"{text}; neither side is changed"

    def _describe_take(self, change: SheetChange) -> str:
        if change.kind != "update":
            return self._in_mode(_TAKES[change.kind])
        texts = {**change.values}
        (own, number), (action, merge) = texts.pop("id", ("", "")), texts.pop("action", ("", ""))
        after = " after the requests" if change.after_requests else ""
        parts = [self._describe_values(texts, after)] if texts else []
        if number:
            has = f"its row has the id {own}" if own else "its row has no id"
            parts.append(self._in_mode(f"{has}, and is to get the id of the pet{after}"))
        if merge:
            parts.append(self._in_mode(f"its action `{action}` is to become `{merge}`{after}"))
        return "; ".join(parts)

    def _describe_values(self, values: Mapping[str, tuple[str, str]], after: str) -> str:
        if self.job.mode != "pull":
            moves = (_find_moved(name, *self._shorten(*texts)) for name, texts in values.items())
            return f"{'; '.join(moves)} (as in the store{after})"
        shown = {name: (old, *self._shorten(old, new)) for name, (old, new) in values.items()}
        losses = (
            f"{name}: {before} is replaced by {after}"
            if old
            else f"{name}: the empty cell gets {after}"
            for name, (old, before, after) in shown.items()
        )
        return f"{'; '.join(losses)} (the store leads)"

    def _describe_change(self, change: Change) -> str:
        """Return a description of the change; in mode check, of how sheet and store differ."""
        is_check = self.job.mode == "check"
        if change.kind == "update" and change.before is not None and change.after is not None:
            pets = (change.before, change.after)
            texts = [
                (name, *self._shorten(*(cell(pet, name) for pet in pets))) for name in change.fields
            ]
            say = _describe_difference if is_check else _find_moved
            return "; ".join(say(*each) for each in texts)
        if is_check and change.kind in _CHECKED:
            return _CHECKED[change.kind]
        ids = change.kind == "add" and change.pet_id is None and self._is_merged
        action = f"is to be {_VERBS[change.kind]} in the store"
        return self._in_mode(f"{action}, and its row gets {NEW_ID}" if ids else action)

    def _shorten(self, one: str, other: str) -> tuple[str, str]:
        """Return both values in quotes; of long ones, the part with the difference, unless there
        are only a few changes.
        """
        texts = [text.replace("\n", " | ") for text in (one, other)]
        if max(map(len, texts)) <= _LONGEST or self._has_few:
            return repr(texts[0]), repr(texts[1])
        pairs = zip(*texts, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        start = max(0, same - _SAME)
        first, second = (repr(_cut(text, start)) for text in texts)
        return first, second

    @property
    def _has_few(self) -> bool:
        inbound = self.comparison.inbound
        total = len(self.comparison.plan.changes)
        return total + (0 if inbound is None else len(inbound.changes)) <= _LISTED

    def _in_mode(self, action: str) -> str:
        return action.replace("is to ", "would ") if self.is_refused else action

    @property
    def _is_merged(self) -> bool:
        return self.job.mode == "two-way"


def _of_conflict(conflict: Conflict, *, is_known: bool) -> Difference:
    problem = conflict.problem
    for words in ("since the sheet was exported", "since the export"):
        problem = problem.replace(words, "since both sides last agreed")
    return Difference(
        kind="conflict",
        problem=_clashes(conflict, is_known=is_known) or f"{conflict.subject} {problem}",
        pet_id=conflict.pet_id,
        name=conflict.name,
        row=conflict.row,
        address=conflict.source,
        fields=tuple(clash.column for clash in conflict.clashes),
        # The suggestions for clashes are about a plan that is reviewed by hand.
        hint="" if conflict.clashes else _CURES.get(conflict.rule, conflict.suggestion),
    )


def _clashes(conflict: Conflict, *, is_known: bool) -> str:
    return "; ".join(
        f"{clash.column}: {clash.sheet!r} in the sheet, {clash.store!r} in the store; "
        + (
            f"{clash.base!r} in both before"
            if is_known and clash.base
            else "it is unknown which is newer"
        )
        for clash in conflict.clashes
    )


def _of_change(
    change: Change, kind: Literal["drift", "waiting", "failed"], problem: str
) -> Difference:
    pet = change.after if change.before is None else change.before
    return Difference(
        kind=kind,
        problem=problem,
        pet_id=change.pet_id,
        name=(pet.name if pet is not None else "") or "",
        row=change.row,
        address=change.source,
        fields=change.fields if change.kind == "update" else (),
    )


def _find_moved(column: str, before: str, after: str) -> str:
    return f"{column}: {before} -> {after}"


def _describe_difference(column: str, store: str, sheet: str) -> str:
    return f"{column}: {sheet} in the sheet, {store} in the store"


def _cut(text: str, start: int) -> str:
    """Return the text from `start`, at most `_LONGEST` characters of it."""
    rest = f"...{text[start:]}" if start else text
    return rest if len(rest) <= _LONGEST else f"{rest[: _LONGEST - 3]}..."
