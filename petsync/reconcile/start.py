"""The start of a round: the base, older copies, and the runs since the last round."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import msgspec
import pandas as pd

from petsync._display import count, quote
from petsync._files import real_path
from petsync.errors import GuardError, SheetError
from petsync.models import Pet
from petsync.plan.base import (
    as_exported,
    find_changed_units,
    with_blank_columns,
    with_ids_by_name,
    with_inbound,
    with_newer_cells,
    with_report,
    with_unknown,
)
from petsync.plan.change import Change, Snapshot, Update
from petsync.plan.fields import COLUMNS_OF, UNITS, has_value, is_as_expected, normalize, with_fields
from petsync.plan.lineage import RowRecord
from petsync.plan.match import Row, build_pet, iter_rows, pets_of
from petsync.plan.options import JOB_WINNER
from petsync.plan.plan import IdentifiedRow, Inbound
from petsync.plan.report import PastRun, Report, Result, find_undoing_runs
from petsync.plan.rounds import Difference
from petsync.reconcile.compare import Comparer, Comparison
from petsync.reconcile.context import RoundContext
from petsync.reconcile.sources import Folder
from petsync.reconcile.state import (
    BaseFile,
    CellKey,
    OlderCopy,
    PendingRuns,
    RecentRun,
    SheetWaiting,
    StatePaths,
    StoredBase,
    Version,
    Versions,
    Waiting,
    digest_of,
    find_changed_pets,
    find_doubtful_versions,
    find_noted_backup,
    find_numbered_pets,
    find_older_copy,
    find_pets_added_since,
    find_pets_lacking_id,
    find_pets_lacking_id_again,
    find_reverted,
    find_traces,
    find_written_cells,
    has_arrived,
    judge_by_bytes,
    judge_by_sent_values,
    mark_of_release,
    report_of,
)
from petsync.settings import is_same_address
from petsync.store import Store
from petsync.store.runs import OutputRequest, Outputs
from petsync.table.base import Base
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import (
    find_rows,
    has_action,
    has_id_in,
    lacks_id,
    pets_from_frame,
    select,
    unique_texts,
)
from petsync.table.sheet import Sheet

__all__ = [
    "RoundStart",
    "SheetStateFiles",
    "assigned_ids",
    "build_state",
    "find_base_of_parts",
    "find_start",
    "is_before",
    "must_have_ids",
    "note_former_names",
    "note_worksheets",
    "settle_runs",
    "with_found_rows",
    "with_lost",
    "with_new_rows",
    "with_older_rows",
    "with_unnumbered",
    "with_unsure",
]


# RoundStart: the state from which a round starts.


@dataclass(frozen=True, slots=True)
class SheetStateFiles:
    """The stored files of one sheet of a job."""

    base: BaseFile
    pending: PendingRuns
    waiting: Waiting
    sheet: SheetWaiting
    versions: Versions

    @classmethod
    def of(cls, context: RoundContext) -> SheetStateFiles:
        """Return the files of the round's sheet."""
        return cls.for_sheet(context.owner.paths, context.job.name, context.round.part)

    @classmethod
    def for_sheet(cls, paths: StatePaths, job: str, part: str) -> SheetStateFiles:
        """Return the files of a job's sheet."""
        name = (job, part)
        return cls(
            BaseFile(paths.base(*name)),
            PendingRuns(paths.pending(*name)),
            Waiting(paths.waiting_path(*name), job),
            SheetWaiting(paths.waiting_path(*name, side="sheet")),
            Versions(paths.versions(*name)),
        )


@dataclass(frozen=True, slots=True)
class RoundStart:
    """The state of a round before it compares the two sides."""

    base: Base | None
    """The values that both sides last agreed on; None in a first round."""
    carried: str = ""
    """The digest of the base that the sheet carries; "" if it carries none."""
    notes: tuple[Difference, ...] = ()
    """What to report besides the differences between the two sides."""
    may_delete: bool = True
    """False if the base may not be the last one: then nothing is deleted."""
    undone: tuple[Version, ...] = ()
    """The versions that the sheet precedes, because it is a restored older copy."""
    doubts: tuple[Version, ...] = ()
    """The versions that the sheet may precede."""
    copy_notes: tuple[Difference, ...] = ()
    """The notes on the older copy, for `copied_ids`."""
    copied_ids: frozenset[int] = frozenset()
    """The pets that the older copy may have with older values. If both sides agree on them, for
    example because they were also undone in the store, the copy takes nothing back.
    """
    own: frozenset[int] | None = None
    """The pets of the sheet's stored base; None if they are the pets of `base`."""
    runs: frozenset[str] = frozenset()
    """The marks of what is in the base: of runs, see `mark_of`, and of the released changes of the
    sheet, see `mark_of_release`.
    """
    claimed: frozenset[int] = frozenset()
    """Pets that are in no row, but not missing: another sheet may have their rows."""
    found: tuple[Version, ...] = ()
    """Versions that are still to be stored: those of manual runs that wrote the sheet, or the
    export whose base the sheet carries.
    """
    has_ids_by_hand: bool = False
    """True if manual runs may have written ids since a version whose round was killed."""
    may_lack: frozenset[int] = frozenset()
    """Pets whose rows had an id and may lack it again."""
    added: tuple[RecentRun, ...] = ()
    """Manual runs, limited to the pets that they added and that no row names."""
    returning: frozenset[int] = frozenset()
    """Pets of the base whose rows the sheet lacks because it is a restored older copy; their rows
    are written again.
    """
    left: Mapping[int, Pet] = field(default_factory=dict)
    """Pets of the store's other sheets that no row names now, as those sheets last had them."""
    sibling_restored: str = ""
    """When a round last found an older copy in the store's other sheets, in ISO 8601; "" for
    never.
    """
    lost: frozenset[int] = frozenset()
    """Pets of the base whose rows are missing for an unknown reason."""
    lost_notes: tuple[Difference, ...] = ()
    """The notes on the pets in `lost`; a note is reported if no row of its pet is recognised
    later.
    """
    before_loss: Base | None = None
    """The base that still has the agreed values of the pets in `lost`."""
    restored_at: str = ""
    """When a round last found that the sheet is an older copy, in ISO 8601; "" for never."""
    checksum: str = ""
    """The checksum of the lines of the base that the sheet carries, "" if it is not known."""

    def with_carried(self, carried: Base | None) -> RoundStart:
        """Return the start with the digest of the base that the sheet carries now; if `carried` is
        None, the base is still the same.
        """
        if carried is None:
            return self
        return replace(self, carried=digest_of(carried), checksum=carried.checksum)

    def is_restored_since(self, record: RowRecord) -> bool:
        """Return true if the row may be older than the record's run: the sheet is an older copy, or
        was one since that run.
        """
        is_older = bool(self.restored_at) and is_before(record.run_started, self.restored_at)
        return bool(self.undone) or is_older


def compare_sides(
    comparer: Comparer, sheet: Sheet, snapshot: Snapshot, start: RoundStart
) -> Comparison:
    return comparer.compare(
        sheet,
        snapshot,
        start.base,
        may_delete=start.may_delete,
        claimed=start.claimed,
        may_lack=start.may_lack,
        returning=start.returning,
        sibling_restored=start.sibling_restored,
        left=start.left,
    )


def settle_runs(context: RoundContext, store: Store) -> tuple[RecentRun, ...]:
    """Return the runs that the job's base may not contain yet, the oldest first: runs of earlier
    rounds, and of users who released a waiting plan.

    If a run of the job was stopped, the outcomes of its changes are determined first, except in a
    dry run; no change is sent. Returns () in modes pull and check.
    """
    if context.job.mode in ("pull", "check"):
        return ()
    files, is_dry = SheetStateFiles.of(context), context.owner.dry_run
    released = files.waiting.released_plan(store)
    if released and not is_dry:
        files.pending.remember(released, is_own=False)
        files.waiting.clear()
    past: list[RecentRun] = []
    for run in files.pending.runs(store):
        if run.is_stopped and not is_dry:
            context.note(runs=(*context.round.runs, run.id), resumed=context.round.resumed + 1)
            report: Report | None = store.settle(run.id)
        else:
            report = report_of(run.id, store)
        if report is not None:
            past.append(RecentRun(report))
    return tuple(sorted(past, key=lambda each: each.report.started))


def find_start(
    context: RoundContext,
    sheet: Sheet,
    service: Store,
    past: Sequence[RecentRun],
    elsewhere: Collection[int] = (),
    folder: Folder | None = None,
) -> RoundStart:
    """Return the start, see `_find_base` and `find_base_of_parts`. In mode two-way, its base marks
    values as unsure if rows have older values again.
    """
    if context.job.is_in_parts:
        parts_base, moved = find_base_of_parts(context, sheet, service)
        return RoundStart(parts_base, notes=_build_notes(moved))
    start = _find_base(context, sheet, service, past, elsewhere, folder)
    start = replace(start, checksum="" if sheet.base is None else sheet.base.checksum)
    files = SheetStateFiles.of(context)
    base = start.base
    if base is None or context.job.mode != "two-way":
        return start
    is_older = bool(start.undone) or files.versions.has_backup_note
    columns = {*COLUMNS} if is_older else base.missing
    if not columns.intersection(sheet.rows):
        return start
    versions = files.versions.all()
    # A row that lacks its id in an older copy has older values, too.
    units = find_reverted(
        with_ids_by_name(sheet, base) if is_older else sheet, versions, base, columns
    )
    return replace(start, base=with_unsure(base, units)) if units else start


def _find_base(
    context: RoundContext,
    sheet: Sheet,
    service: Store,
    past: Sequence[RecentRun],
    elsewhere: Collection[int],
    folder: Folder | None,
) -> RoundStart:
    """Return the start with the base for this round.

    In mode check, this is the base that the sheet carries. Otherwise it is the stored base with the
    results of later runs, or an older base if the sheet is a restored backup, or the base that the
    sheet carries if the sheet was exported again. `elsewhere` has the pets in the folder's other
    sheets. Raises SheetError if the base belongs to another store, unless the user confirms that
    the store was moved.
    """
    store = service.url
    own_base = None if sheet.base is None else as_exported(sheet.base)
    if context.job.mode == "check":
        return RoundStart(own_base)
    memory = SheetStateFiles.of(context).base.load(set_aside=not context.owner.dry_run)
    carried = memory.digest_carried(sheet.base)
    # The last round saw another base in the sheet: this sheet was exported again, or is an older
    # file.
    other = carried if carried != memory.carried else ""
    if own_base is not None and other and not _is_backup(context, sheet, memory, other):
        return _start_from_export(context, sheet, own_base, service, memory)
    if memory.base is None:
        refused = (
            sheet.base_refused and f"{sheet.base_refused}; this round is treated as the first one"
        )
        first = _with_runs(None, past)
        return RoundStart(
            first, carried, _build_notes(memory.problem, refused), not memory.is_older
        )
    base, moved = _check_store_of_base(
        context, memory.base, service, f"the base of job {context.job.name} belongs to"
    )
    released = SheetStateFiles.of(context).sheet.released_edits(sheet)
    every = _load_versions(context, base, released)
    versions = [each for each in every if not each.is_undone]
    # A round may have been killed before the release.
    last = [each for each in versions if not each.is_state and each.inbound != released][-1:]
    cut_off = next((each for each in last if not each.is_agreed), None)
    runs, newest = memory.runs, base
    if cut_off is not None:
        base, runs = replace(Base.from_lines(cut_off.base), store=store), frozenset(cut_off.runs)
    own = {*(each.report.run_id for each in past), *(mark.partition(":")[0] for mark in runs)}
    has_ids_by_hand = _has_manual_ids(context, sheet, every, service, own)
    taken: list[Inbound] = []
    if (
        cut_off is not None
        and (released is None or released.digest != cut_off.before)
        and has_arrived(sheet, cut_off, has_ids_by_hand=has_ids_by_hand)
    ):
        taken.append(cut_off.inbound)
        # Compared with the stored base, what the killed round wrote would look like an older copy.
        newest = with_inbound(base, cut_off.inbound)
    marks = frozenset[str]() if released is None else frozenset([mark_of_release(released)])
    if released is not None and not marks <= runs:
        taken.append(released)
    whole, moved_pets = _with_moved_rows(sheet, newest, every, context.round.part, folder)
    copy = _find_older_copy(context, whole, every, newest.with_pets(moved_pets), other)
    by_hand, notes_by_hand = _find_manual_runs(
        context, sheet, base.taken_at, service, own, versions=every, last=base
    )
    by_hand, added = _split_added_pets(by_hand, sheet)
    base = base.without(_find_pets_added_again(base, sheet, service, own))
    past = sorted([*past, *by_hand], key=lambda each: each.report.started)
    new = [each for each in past if each.mark not in runs or each.is_by_hand]
    writes_by_hand = [*_iter_manual_versions(sheet, base, new, taken, service, every)]
    base = _with_events(base, new, taken)
    copy = _find_copy_older_than_runs(
        context, copy, whole, versions, base.with_pets(moved_pets), new
    )
    undone, mixed_versions = copy.undone, copy.doubts
    if undone:
        older = replace(Base.from_lines(undone[0].base), store=store)
        copied_ids = _find_copied_pets(undone, base, newest)
        if sheet.digest != undone[0].before:
            writes = [each for each in every if not each.is_state]
            older = older.without(find_pets_added_since(sheet, writes or every))
            older = with_newer_cells(older, base, with_ids_by_name(sheet, base))
        older = with_unnumbered(older, find_numbered_pets(every) | base.unnumbered)
        returning = base.ids - older.ids - sheet.named_ids - {*elsewhere}
        return RoundStart(
            older,
            carried,
            _build_notes(memory.problem, moved),
            undone=undone,
            copy_notes=(_note_backup(undone, context.job.mode),),
            copied_ids=copied_ids,
            returning=returning,
            runs=marks,
        )
    notes = (*_build_notes(memory.problem, moved), *notes_by_hand)
    before_loss, in_doubt, copy_notes = base, tuple[Difference, ...](), tuple[Difference, ...]()
    copied_ids = _find_copied_pets(mixed_versions, base, newest)
    leads = context.job.mode in ("two-way", "push")
    doubts = find_doubtful_versions(sheet, versions, base) if leads else ()
    if mixed_versions or doubts:
        copy_notes = _note_doubts(mixed_versions) if context.job.mode == "two-way" else ()
        base, in_doubt = _with_doubts(
            base, mixed_versions or doubts, sheet, elsewhere=elsewhere, is_seen=bool(mixed_versions)
        )
    may_lack = find_pets_lacking_id_again(sheet, every, base)
    base = _with_earlier(with_unnumbered(base, may_lack), sheet, every)
    return RoundStart(
        base,
        carried,
        notes,
        not (memory.is_older or context.owner.formers),
        doubts=mixed_versions or doubts,
        copy_notes=copy_notes,
        copied_ids=copied_ids,
        found=tuple(
            msgspec.structs.replace(each, runs=tuple(sorted(runs))) for each in writes_by_hand
        ),
        runs=marks,
        has_ids_by_hand=has_ids_by_hand,
        may_lack=frozenset(may_lack),
        added=added,
        lost=frozenset(each.pet_id for each in in_doubt if each.pet_id is not None),
        lost_notes=in_doubt,
        before_loss=before_loss,
        restored_at=max((each.undone_at for each in every), default=""),
        # The base of a killed round may have rows that must still be removed from other bases.
        own=None if cut_off is None else memory.base.ids,
    )


def find_base_of_parts(
    context: RoundContext, sheet: Sheet, service: Store
) -> tuple[Base | None, str]:
    """Return the base of a folder's export after the runs since then, and a note if its store was
    moved.

    A pet that a run deleted and that is in the store again was restored: it is not in the base, and
    no round deletes it again. Raises SheetError as `_find_base` does.
    """
    if sheet.base_refused:
        raise SheetError(
            f"{sheet.source}: {sheet.base_refused}",
            hint="Nothing was sent. Export again, and move your edits there.",
        )
    if sheet.base is None:
        return None, ""
    base, moved = _check_store_of_base(
        context, sheet.base, service, f"the base of {sheet.source} belongs to"
    )
    history = service.aio.history
    deleted = history.journal.read_deleted_ids(service.url, base.taken_at)
    continued = history.continue_base(replace(sheet, base=base)).base or base
    return continued.without(deleted), moved


def _with_moved_rows(
    sheet: Sheet, base: Base, versions: Sequence[Version], part: str, folder: Folder | None
) -> tuple[Sheet, tuple[Pet, ...]]:
    """Return the sheet, extended by the rows that moved to other files of the folder since its last
    round: an older copy contains these rows, too.

    Also returns the pets of these rows that moved from the sheet's base to another file's base,
    with the values of the last version. The move of a row is no evidence of an older copy.
    """
    if folder is None:
        return sheet, ()
    last = Base.from_lines(versions[-1].base) if versions else base
    whole = folder.with_moved_rows(part, sheet, base.ids | last.ids)
    moved_ids = (whole.named_ids - sheet.named_ids) & last.ids - base.ids
    return whole, pets_of(moved_ids, last.sheet_rows)


def _find_older_copy(
    context: RoundContext, sheet: Sheet, versions: Sequence[Version], base: Base, carried: str
) -> OlderCopy:
    """Return the older copy that the sheet is or may be; empty if it is none.

    A certain older copy is noted until a round has finished with the sheet, except in a dry run.
    """
    copy = find_older_copy(sheet, versions, base, carried)
    back = find_noted_backup(sheet, versions)
    # If rows were removed or edited since, the sheet may look like a newer copy.
    if back and not (copy.versions and copy.versions[0].number <= back[0].number):
        found = find_traces(sheet, Base.from_lines(back[0].base), base)
        if not found.is_newer:
            copy = OlderCopy(back, is_sure=not found.current_ids)
    return _remember_copy(context, copy)


def _find_copied_pets(versions: Sequence[Version], *bases: Base) -> frozenset[int]:
    """Return the pets that differ between the first of the versions and one of the bases."""
    return frozenset[int]().union(
        *(
            find_changed_pets(Base.from_lines(first.base), base)
            for first in versions[:1]
            for base in bases
        )
    )


def _find_copy_older_than_runs(
    context: RoundContext,
    copy: OlderCopy,
    sheet: Sheet,
    versions: Sequence[Version],
    base: Base,
    past: Sequence[RecentRun],
) -> OlderCopy:
    """Return the given older copy; if it is empty, use the runs to find one.

    The sheet may be the file that the last round left, restored after runs sent later edits. `base`
    contains these runs.
    """
    last = [each for each in versions[-1:] if (each.after or each.before) == sheet.digest]
    is_sent = any(
        plan.source_digest not in ("", sheet.digest)
        and plan.tab == sheet.tab
        and is_before(each.inbound.created, plan.created)
        for plan in (each.report.plan for each in past)
        for each in last
    )
    if copy.versions:
        return copy
    if is_sent:
        copy = judge_by_bytes(sheet, last, base)
    added = {pet_id for each in past for pet_id in assigned_ids(each.report).values()}
    if not copy.versions and added & (base.ids - sheet.named_ids):
        # A person may have removed the rows and reset another value.
        copy = replace(find_older_copy(sheet, versions, base), is_sure=False)
    if not copy.versions and versions and (updated := _find_updated_pets(past)):
        copy = judge_by_sent_values(sheet, versions[-1], base, updated)
    return _remember_copy(context, copy) if copy.versions else copy


def _find_updated_pets(past: Iterable[RecentRun]) -> frozenset[int]:
    return frozenset(
        change.before.id
        for each in past
        for change in each.report.plan.changes
        if isinstance(change, Update) and change.before.id is not None
    )


def _remember_copy(context: RoundContext, copy: OlderCopy) -> OlderCopy:
    job = context.job
    if copy.doubts and not (job.mode == "two-way" or (job.mode == "push" and job.delete_missing)):
        return OlderCopy()  # in this mode the base has no effect on such a sheet
    if copy.undone and not context.owner.dry_run:
        SheetStateFiles.of(context).versions.note_backup(copy.undone)
    return copy


def _is_backup(context: RoundContext, sheet: Sheet, memory: StoredBase, carried: str) -> bool:
    """Return true if the sheet, whose base is not the one that it had in the last round, is or may
    be an older copy of this job's sheet.
    """
    base = memory.base
    if base is None or sheet.base is None or not is_same_address(base.store, sheet.base.store):
        return False
    return bool(
        find_older_copy(sheet, SheetStateFiles.of(context).versions.all(), base, carried).versions
    )


def _start_from_export(
    context: RoundContext,
    sheet: Sheet,
    base: Base,
    service: Store,
    memory: StoredBase,
) -> RoundStart:
    """Return the start with the base that the sheet carries and the results of manual runs.

    If that base is older than the last round, earlier runs are ignored: they may be of another
    file. Raises SheetError if the base belongs to another store.
    """
    base, moved = _check_store_of_base(context, base, service, f"{sheet.source} was exported from")
    last = "" if memory.base is None else memory.base.taken_at
    is_older = bool(last) and is_before(base.taken_at, last)
    since = last if is_older else base.taken_at
    bases = (base.taken_at,) if is_older else (base.taken_at, "")
    by_hand, notes_by_hand = _find_manual_runs(context, sheet, since, service, (), bases)
    by_hand, added = _split_added_pets(by_hand, sheet)
    older = is_older and (
        f"the sheet carries the base of {base.taken_at[:19]} UTC, which is older than the last "
        "round: the file may have been replaced by an older one. The sheet is compared using that "
        "base"
    )
    notes = _build_notes(memory.problem, moved, older or "")
    carried = digest_of(sheet.base)
    return RoundStart(
        _with_runs(base, by_hand) or base,
        carried,
        (*notes, *notes_by_hand),
        found=(build_state("", base.to_lines(), base, sheet, carried=carried),),
        added=added,
    )


def is_before(one: str, other: str) -> bool:
    return datetime.fromisoformat(one) < datetime.fromisoformat(other)


def with_unnumbered(base: Base, pets: Collection[int]) -> Base:
    """Return the base; it records that the rows of these pets lack their ids, as in a backup."""
    return replace(base, unnumbered=base.unnumbered.union(pets)) if pets else base


def _with_earlier(base: Base, sheet: Sheet, versions: Sequence[Version]) -> Base:
    """Return the base, with older values for pets whose rows lack their ids again: the values that
    were agreed on when the row got the id.

    Such a row may come from a backup, even if the other rows do not.
    """
    frame = sheet.rows
    if "name" not in frame:
        return base
    rows = select(frame, lacks_id(frame))
    names = {normalize(name) for name in unique_texts(rows, "name")} - {""}
    unnamed_ids = base.ids - sheet.named_ids
    for version in reversed(versions) if names else ():
        ids = {each.pet_id for each in version.inbound.identified if each.lacks_id} & unnamed_ids
        older = Base.from_lines(version.base) if ids else base
        pets = [pet for pet in pets_of(ids, older.rows) if normalize(pet.name) in names]
        sheet_pets = {
            pet.id or 0: older.sheet_pets[pet.id or 0] for pet in pets if pet.id in older.sheet_pets
        }
        base = (
            replace(base.with_pets(pets), sheet_pets={**base.sheet_pets, **sheet_pets})
            if pets
            else base
        )
        unnamed_ids -= ids
    return base


def _with_doubts(
    base: Base,
    versions: Sequence[Version],
    sheet: Sheet,
    *,
    elsewhere: Collection[int],
    is_seen: bool,
) -> tuple[Base, tuple[Difference, ...]]:
    """Return the base for a sheet that may be from before the versions, and a note on each lost
    pet.

    Values that changed since the versions are marked unsure: for all pets if `is_seen`, else only
    for pets that the versions wrote or that have their old values. The base has no agreed values
    for pets whose rows may have been removed.
    """
    then = Base.from_lines(versions[0].base)
    older, written = (
        find_traces(sheet, then, base).older_ids,
        {pet_id for pet_id, _ in find_written_cells(versions)},
    )
    units = {
        pet_id: some
        for pet_id, some in find_changed_units(then, base).items()
        if is_seen or pet_id in older or pet_id in written
    }
    lacking = older & (base.ids - then.ids)
    lacking -= find_pets_lacking_id(sheet, lacking, base)
    rows = older & (then.ids - base.ids)
    pets = [with_fields(pet, Pet(id=pet.id), ["name"]) for pet in pets_of(rows, then.rows)]
    # A missing row may have been removed from a backup: its pet has changed since.
    pets += pets_of({*units} - sheet.named_ids, then.rows)
    notes = tuple(
        Difference(
            kind="note",
            problem=f"its row, which the sheet did not have {_format_time_of(versions[0])}, is not "
            "in the sheet now: it was removed, or a backup was restored. The pet is not deleted",
            pet_id=pet_id,
            hint="To restore the row, enter a row with the pet's id. To remove the pet, delete it "
            "in the store.",
        )
        for pet_id in sorted(lacking - {*elsewhere})
    )
    base = with_lost(base, lacking - {*elsewhere}).without(lacking & {*elsewhere})
    return with_unsure(base.with_pets(pets), units), notes


def with_found_rows(start: RoundStart, comparison: Comparison) -> RoundStart:
    """Return the start after rows without an id were recognised: their pets are neither lost nor
    claimed. Its notes include those on pets that remain lost.
    """
    base, before, known = start.base, start.before_loss, {*comparison.pet_ids.values()}
    if start.claimed & known:
        start = replace(start, claimed=start.claimed - known)
    if not start.lost or base is None or before is None:
        return start
    found = start.lost & known
    notes = [note for note in start.lost_notes if note.pet_id not in found]
    base = base.without(found).with_pets(pets_of(sorted(found), before.rows))
    pets = {i: pet for i, pet in before.sheet_pets.items() if i in found}
    units = {i: units for i, units in before.unsure_units.items() if i in found}
    base = replace(
        base,
        sheet_pets={**base.sheet_pets, **pets},
        unsure_units={**base.unsure_units, **units},
    )
    start = replace(start, base=base, lost=frozenset(), lost_notes=())
    return replace(start, notes=(*start.notes, *notes))


def with_older_rows(start: RoundStart, comparison: Comparison) -> RoundStart:
    """Return the start; its base also gets the pets that manual runs added and whose rows without
    an id were recognised.

    If the sheet is a backup, or was one since the run, pets that any run added are included. Each
    pet has the values that its row had in that run. A row of the backup may have even older values,
    so it is unknown whether a different value was edited.
    """
    base = start.base
    if base is None:
        return start
    if not start.undone:
        runs = [_limit_to(run, comparison.records.keys() - base.ids) for run in start.added]
        runs = [run for run in runs if run.report.results]
        base = _with_runs(base, runs) or base
    later = {
        pet_id: each.row_pet
        for pet_id, each in comparison.records.items()
        if pet_id not in base.ids
        if start.is_restored_since(each)
    }
    if not later:
        return start if base is start.base else replace(start, base=base)
    pets = [msgspec.structs.replace(pet, id=pet_id) for pet_id, pet in later.items()]
    unsure = {**base.unsure_units, **dict.fromkeys(later, UNITS)}
    return replace(start, base=replace(base.with_pets(pets), unsure_units=unsure))


def with_new_rows(
    context: RoundContext, start: RoundStart, comparison: Comparison, comparer: Comparer
) -> RoundStart:
    """Return the start; its base also gets pets to which rows refer and that it lacked.

    A blank cell of such a row was never cleared, so it takes the store's value. If a row without an
    id agrees with the pet that was found for it, the base gets the row's values. For a row with an
    id, the base gets the values that a run sent when it added the pet from a row; they are unsure
    if an older copy was restored since.
    """
    base = start.base
    if base is None:
        return start
    differing = comparison.row_comparison.differing
    pets = {
        row: pet_id
        for row, pet_id in comparison.pet_ids.items()
        if pet_id not in base.ids and not differing.get(row)
    }
    rows = comparison.sheet.rows
    added = [
        msgspec.structs.replace(build_pet(row.values), id=pets[row.number])
        for row in iter_rows(rows, find_rows(rows, pets))
    ]
    named = comparison.sheet.named_ids - base.ids - {*context.job.guard.sentinels}
    if context.job.mode == "two-way" and named:
        records = comparer.find_added(comparison.sheet, named)
        added += [msgspec.structs.replace(each.row_pet, id=i) for i, each in records.items()]
        older = [pet_id for pet_id, each in records.items() if start.is_restored_since(each)]
        base = with_unsure(base, dict.fromkeys(older, UNITS)) if older else base
        named -= records.keys()
        merged = rows[has_action(rows, "merge", "update") & has_id_in(rows, named)]
        whole = with_unknown(base, comparison.sheet, comparison.seen, {})
        known = {pet.id: pet for pet in pets_of(named, whole.rows)}
        added += [
            with_fields(known[row.pet_id], Pet(id=row.pet_id), _find_blank_columns(row, merged))
            for row in iter_rows(merged)
            if row.pet_id in known
        ]
        named_pets = [pet for pet in added if pet.id in named]
        base = with_blank_columns(base, named_pets)
    return replace(start, base=base.with_pets(added)) if added else start


def _find_blank_columns(row: Row, rows: pd.DataFrame) -> list[Column]:
    """Return the sheet's columns that belong to units without a value in the row."""
    units = (unit for unit in UNITS if not has_value(row.values, unit))
    return [column for unit in units for column in COLUMNS_OF[unit] if column in rows]


def _with_runs(base: Base | None, past: Sequence[RecentRun]) -> Base | None:
    for each in past:
        base = _with_run(base, each)
    return base


def _with_events(base: Base, past: Iterable[RecentRun], taken: Iterable[Inbound]) -> Base:
    """Return the base with the results of runs and with the changes that the sheet took from the
    store, in the order of their times: of two that have the same cell, the later one counts.
    """
    events: list[tuple[str, Callable[[Base], Base]]] = [
        *((each.report.started, partial(_with_run, past=each)) for each in past),
        *((each.created, partial(with_inbound, inbound=each)) for each in taken),
    ]
    for _, with_event in sorted(events, key=lambda each: datetime.fromisoformat(each[0])):
        base = with_event(base)
    return base


def _find_manual_runs(
    context: RoundContext,
    sheet: Sheet,
    taken_at: str,
    store: Store,
    own: Collection[str],
    bases: Collection[str] = (),
    versions: Sequence[Version] = (),
    last: Base | None = None,
) -> tuple[list[RecentRun], list[Difference]]:
    """Return the manual runs of the sheet since `taken_at`, except the job's `own`, and notes on
    the runs that were undone.

    If `bases` are given, only runs that compared with one of these bases count. A base is given by
    its time; "" stands for a run that compared only with the store. The `versions` and the base
    `last` of a later round show which cells no longer have the values that a run sent.
    """
    past, notes = list[RecentRun](), list[Difference]()
    if context.job.mode != "two-way" or not sheet.digest:
        return past, notes
    reports = [*_iter_manual_reports(context, sheet, store, own, taken_at)]
    undoing = find_undoing_runs(store.aio.history.runs(store.url)) if reports else {}
    since = datetime.fromisoformat(taken_at)
    for report in reports:
        if bases and report.plan.base not in bases:
            continue
        later = {
            entry.number
            for entry in store.aio.history.entries(report.run_id)
            if entry.intended and datetime.fromisoformat(entry.intended) > since
        }
        results = tuple(each for each in report.results if each.number in later)
        report = msgspec.structs.replace(report, results=results)
        other_cells = _find_cells_written_later(report, versions) | _find_cells_set_back(
            report, last
        )
        other_cells |= _find_corrected_cells(report)
        past.append(RecentRun(report, is_by_hand=True, other_cells=other_cells))
        by = undoing.get(report.run_id)
        if by is not None and results:
            problem = (
                f"run {report.run_id}, a manual run of this sheet, was undone by run {by.run_id}: "
                "the sheet gets the store's values"
            )
            hint = f"To make the undone changes again: `petsync undo {by.run_id}`."
            notes.append(Difference(kind="note", problem=problem, hint=hint))
    return past, notes


def _find_pets_added_again(
    base: Base, sheet: Sheet, store: Store, own: Collection[str]
) -> set[int]:
    """Return the pets of the base that are in no row and that other runs have added again since.

    They are new in the store, and not missing in the sheet.
    """
    since, unnamed_ids = datetime.fromisoformat(base.taken_at), base.ids - sheet.named_ids
    if not unnamed_ids:
        return set()
    runs = [
        run
        for run in store.aio.history.runs(store.url)
        if run.run_id not in own and (not run.ended or datetime.fromisoformat(run.ended) > since)
    ]
    return {
        entry.pet_id
        for run in runs
        for entry in store.aio.history.entries(run.run_id)
        if entry.kind == "add"
        and entry.outcome == "applied"
        and entry.pet_id in unnamed_ids
        and entry.intended
        and datetime.fromisoformat(entry.intended) > since
    }


def _split_added_pets(
    past: Sequence[RecentRun], sheet: Sheet
) -> tuple[list[RecentRun], tuple[RecentRun, ...]]:
    """Return two lists of runs: without their results for pets that they added and that no row
    names, and with only these results.

    Which of these pets a row without an id refers to is known only after both sides have been
    compared.
    """
    added = {each.assigned_id for run in past for each in run.report.results} - {None}
    lacking = {pet_id for pet_id in added if pet_id is not None} - sheet.named_ids
    alone = [_limit_to(run, lacking) for run in past]
    rest = [_limit_to(run, lacking, is_rest=True) for run in past]
    return rest, tuple(run for run in alone if run.report.results)


def _limit_to(past: RecentRun, pets: Collection[int], *, is_rest: bool = False) -> RecentRun:
    """Return the run with only its results for these pets; with `is_rest`, only its other
    results.
    """
    changes = past.report.plan.changes
    results = tuple(
        each for each in past.report.results if is_rest is not (_pet_of(each, changes) in pets)
    )
    return replace(past, report=msgspec.structs.replace(past.report, results=results))


def _pet_of(result: Result, changes: Sequence[Change]) -> int | None:
    return changes[result.number].pet_id if result.assigned_id is None else result.assigned_id


def _find_cells_written_later(report: Report, versions: Sequence[Version]) -> frozenset[CellKey]:
    """Return the cells and rows that rounds wrote after a run was planned."""
    planned = report.plan.created
    return find_written_cells(
        each
        for each in versions
        if each.is_agreed
        and each.is_written
        and not each.is_undone
        and is_before(planned, each.inbound.created)
    )


def _find_cells_set_back(report: Report, last: Base | None) -> frozenset[CellKey]:
    """Return the cells whose value in the base `last` is not the sent value. This can
    happen if a round stored `last` after the run was planned.
    """
    if last is None or not is_before(report.plan.created, last.taken_at):
        return frozenset()
    row_pets = {pet.id: pet for pet in pets_of(last.ids, last.sheet_rows)}
    return frozenset(
        (pet_id, column)
        for change in report.plan.updates
        if (pet_id := change.pet_id or 0) in row_pets
        for column in change.fields
        if not is_as_expected(row_pets[pet_id], change.after, column)
    )


def _find_corrected_cells(report: Report) -> frozenset[CellKey]:
    """Return the cells that a run read with corrections."""
    pets = {change.row: change.pet_id for change in report.plan.changes}
    columns: dict[str, Column] = {column: column for column in COLUMNS}
    cells = [(pets.get(each.row), columns.get(each.column)) for each in report.plan.corrections]
    return frozenset((i, column) for i, column in cells if i is not None and column is not None)


def _with_run(base: Base | None, past: RecentRun) -> Base:
    """Return the base with a run's results, except those for cells in `other_cells`."""
    report, cells = past.report, past.other_cells
    if not cells:
        return with_report(base, report)
    changes = {n: _without_cells(each, cells) for n, each in enumerate(report.plan.changes)}
    plan = msgspec.structs.replace(
        report.plan,
        changes=tuple(changes[n] or each for n, each in enumerate(report.plan.changes)),
    )
    results = tuple(each for each in report.results if changes[each.number] is not None)
    return with_report(base, msgspec.structs.replace(report, plan=plan, results=results))


def with_unsure(base: Base, units: Mapping[int, Collection[str]]) -> Base:
    """Return the base with these units marked unsure."""
    more = {i: tuple({*some, *base.unsure_units.get(i, ())}) for i, some in units.items()}
    return replace(base, unsure_units={**base.unsure_units, **more})


def _without_cells(change: Change, cells: Collection[CellKey]) -> Change | None:
    """Return the change without the units of these cells; None if nothing is left."""
    if not isinstance(change, Update):
        return None if (change.pet_id, None) in cells else change
    units = [u for u in UNITS if any((change.pet_id, c) in cells for c in COLUMNS_OF[u])]
    columns = {column for unit in units for column in COLUMNS_OF[unit]}
    fields = tuple(column for column in change.fields if column not in columns)
    return msgspec.structs.replace(change, fields=fields) if fields else None


def _iter_manual_reports(
    context: RoundContext, sheet: Sheet, store: Store, own: Collection[str], since: str
) -> Iterator[Report]:
    """Yield the reports of manual runs of the sheet after the time `since`, the oldest first,
    except the job's `own`.
    """
    if context.job.mode != "two-way" or not sheet.digest:
        return
    for run in _iter_later_runs(store.aio.history.runs(store.url), datetime.fromisoformat(since)):
        report = None if run.run_id in own else report_of(run.run_id, store)
        if report is not None and _is_of_sheet(report, sheet):
            yield report


def _has_manual_ids(
    context: RoundContext,
    sheet: Sheet,
    versions: Sequence[Version],
    store: Store,
    own: Collection[str],
) -> bool:
    """Return true if the sheet was applied by hand since a version whose round was killed."""
    since = [Base.from_lines(each.base).taken_at for each in versions if not each.is_agreed]
    return bool(since) and any(
        True for _ in _iter_manual_reports(context, sheet, store, own, min(since))
    )


def _iter_manual_versions(
    sheet: Sheet,
    base: Base,
    past: Sequence[RecentRun],
    taken: Sequence[Inbound],
    store: Store,
    versions: Sequence[Version],
) -> Iterator[Version]:
    """Yield a version for each manual run that wrote ids or all results into the sheet; skip a run
    if the sheet is still the file that it read.

    `base` is from before the `past` runs; `taken` has the changes that the sheet took since.
    """
    known = {each.round for each in versions}
    for n, run in enumerate(past, 1):
        report, plan = run.report, run.report.plan
        is_new = run.is_by_hand and report.run_id not in known
        wanted = Outputs(store.aio.history).read_request(plan) if is_new else OutputRequest()
        after = wanted.digest or wanted.intended
        if not after or plan.source_digest in ("", sheet.digest):
            continue
        ids = tuple(
            IdentifiedRow(row=each.row, source=each.source, pet_id=each.assigned_id)
            for each in report.results
            if each.row is not None and each.assigned_id is not None
        )
        has_it = bool(wanted.digest) or sheet.digest == after
        has_it = has_it or any(each.pet_id in sheet.named_ids for each in ids)
        yield Version(
            round=report.run_id,
            before=plan.source_digest,
            after=after if has_it else "",
            # It is unknown whether the run wrote the sheet before it was killed; its backup is
            # known.
            is_agreed=not has_it,
            is_lost=not has_it,
            is_left=not has_it,
            base=tuple(_with_events(base, past[:n], taken).to_lines()),
            inbound=Inbound(
                created=base.taken_at,
                store=base.store,
                source=sheet.source,
                tab=sheet.tab,
                digest=plan.source_digest,
                lead="merge",
                identified=ids,
            ),
            is_by_hand=True,
        )


def _iter_later_runs(runs: Sequence[PastRun], since: datetime) -> Iterator[PastRun]:
    """Yield the runs of the kind `apply` that were active after the time `since`, the oldest
    first.
    """
    for run in reversed(runs):
        if run.kind == "apply" and (not run.ended or datetime.fromisoformat(run.ended) > since):
            yield run


def _is_of_sheet(report: Report, sheet: Sheet) -> bool:
    """Return true if the run applied this sheet: the same worksheet, and the same path or the same
    bytes.
    """
    plan = report.plan
    is_same = real_path(plan.source) == real_path(sheet.source)
    return plan.tab == sheet.tab and (is_same or plan.source_digest == sheet.digest)


def must_have_ids(context: RoundContext, sheet: Sheet, start: RoundStart) -> None:
    """Raise GuardError if the sheet had ids in the last round and no row has one now.

    Each row edited since would become a new pet, and its old pet would be missing.
    """
    base = start.base
    if context.job.mode == "check" or base is None or not len(base):
        return
    if sheet.named_ids or sheet.agreeing:
        return
    if sheet.rows.empty or not _had_ids(context, sheet, base):
        return
    new = [str(header) for header in sheet.others.columns if str(header) not in base.headers]
    unused = ", ".join(map(repr, new))
    where = f"the worksheet {sheet.tab!r} of {sheet.source}" if sheet.tabs else sheet.source
    if "id" in sheet.columns:
        pets = count(len(base), "pet")
        problem = f"the column id of {where} is empty, but had the ids of {pets} before"
        cure = "Restore the ids in their rows"
    else:
        problem = f"{where} no longer has the column id, which had the ids of its pets"
        problem += f"; these headers are new: {unused}" if new else ""
        cure = 'If the column is still there, give it the header "id" again'
        if new:
            cure += f', or write {_quote(new[0])} = "id" under [columns] in the configuration'
    cure += "; or restore one of the sheet's backups."
    if context.job.query:
        cure = 'Let the query return the ids, in a column with the name "id".'
    raise GuardError(
        problem,
        hint=f"Nothing was changed, on either side: rows without their ids would become new pets. "
        f"{cure}",
    )


def _had_ids(context: RoundContext, sheet: Sheet, base: Base) -> bool:
    """Return true if rows had ids when the base was stored; an export always has them."""
    if base.columns is None:
        return sheet.base is not None or context.job.mode in ("pull", "two-way")
    return "id" in base.columns


def note_former_names(context: RoundContext) -> tuple[Difference, ...]:
    return _build_notes(
        *(
            f"the job was called {former} in its last round, and continues from there"
            for former in context.owner.formers.values()
        )
    )


_LISTED_IDS = 3
_SAMPLED_PETS = 20


def note_worksheets(context: RoundContext, sheet: Sheet) -> tuple[Difference, ...]:
    """Return a note on other worksheets that may have rows of pets, if the job names no
    worksheet.
    """
    if context.job.tab is not None or not sheet.ids_elsewhere:
        return ()
    some = ", ".join(map(repr, [*sheet.ids_elsewhere][:_LISTED_IDS]))
    more = (
        f" and {len(sheet.ids_elsewhere) - _LISTED_IDS} more"
        if len(sheet.ids_elsewhere) > _LISTED_IDS
        else ""
    )
    problem = (
        f"the worksheet {sheet.tab!r} is read; others also have a column for ids, but are not "
        f"read: {some}{more}"
    )
    return (
        Difference(
            kind="note", problem=problem, hint='To read another one, set tab = "NAME" in the job.'
        ),
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _check_store_of_base(
    context: RoundContext, base: Base, service: Store, what: str
) -> tuple[Base, str]:
    """Return the base, and a note if it belongs to the store's former URL. Raises SheetError if it
    belongs to another store.
    """
    store = service.url
    if is_same_address(base.store, store):
        return base, ""
    if context.owner.moved:
        _require_pets(base, service)
        return replace(
            base, store=store
        ), f"the values agreed on with {base.store} are used for this address"
    again = f"petsync reconcile --job {quote(context.job.name)} --moved"
    raise SheetError(
        f"{what} {base.store}, but the job's store is {store}",
        hint="Nothing was changed: a difference between two stores is not an edit. Set the sheet's "
        f"store in the job. If the same store has a new address: `{again}`. To use another store: "
        "export a sheet from it, or give another job a copy of the sheet from before its first "
        "round.",
    )


def _require_pets(base: Base, service: Store) -> None:
    """Raise SheetError if the store lacks most pets of the base, or has others under their ids: it
    is another store, and not the same one at a new address. Looks up a sample of the pets.
    """
    pets = pets_from_frame(base.rows.iloc[:: max(1, len(base) // _SAMPLED_PETS)])
    there = service.look_up([pet.id or 0 for pet in pets])
    other, found = "", 0
    for pet in pets:
        now = there[pet.id or 0]
        if isinstance(now, Pet) and normalize(now.name) == normalize(pet.name):
            found += 1
        elif not other:
            is_now = now.name if isinstance(now, Pet) else None
            other = f"; pet {pet.id} is {is_now!r}, and was {pet.name!r}"
    if 2 * found < len(pets):
        raise SheetError(
            f"the store {service.url} is not {base.store} at a new address: {found} of "
            f"{len(pets)} pets that were read have their names there{other}",
            hint="Nothing was changed. Set the job's store to the one of the sheet. To use another "
            "store, give it a sheet and a job of its own.",
        )


def _load_versions(context: RoundContext, base: Base, inbound: Inbound | None) -> Sequence[Version]:
    """Return the sheet's versions; if there are released changes, a version with them comes last.
    It is stored, except in a dry run.
    """
    versions = SheetStateFiles.of(context).versions
    known = versions.all()
    if inbound is None or any(each.inbound == inbound for each in known):
        return known
    released = Version(
        round=f"of {inbound.created}",
        before=inbound.digest,
        is_agreed=True,
        base=tuple(base.to_lines()),
        inbound=inbound,
    )
    return (*known, released if context.owner.dry_run else versions.keep(released))


def _note_backup(versions: Sequence[Version], mode: str) -> Difference:
    what = "an older copy or a backup" if versions[0].is_state else "a backup"
    problem = (
        f"the sheet looks as it did {_format_time_of(versions[0])}: {what} may have been "
        "restored. The sheet is compared using the values agreed on at that time"
    )
    hint = (
        "The changes since then are written into the sheet again. To reverse them: change the "
        "store, or write delete into the rows' action column."
    )
    if mode == "pull":  # which ignores actions
        hint = "The changes since then are written into the sheet again."
    if mode == "push":
        hint = (
            "The sheet's values are sent nevertheless; pets whose rows were added since are not "
            "deleted."
        )
    return Difference(kind="note", problem=problem, hint=hint)


def _format_time_of(version: Version) -> str:
    """Return a phrase that says when the sheet had the content from which the version starts."""
    at = f"{version.inbound.created[:16].replace('T', ' ')} UTC"
    if version.round.startswith("of "):
        return f"before the released changes of {at}"
    if not version.is_state:
        return f"before {'run' if version.is_by_hand else 'round'} {version.round}"
    return f"after round {version.round} of {at}" if version.round else f"at its export of {at}"


def _note_doubts(mixed: Sequence[Version]) -> tuple[Difference, ...]:
    return tuple(
        Difference(
            kind="note",
            problem=f"some pets have the values that the sheet had {_format_time_of(first)}: an "
            "older copy was restored, or later edits were undone. Neither side is changed for "
            "these pets",
            hint="To keep the store's values, write them into the sheet. If the sheet is right, "
            f'change the store, or set {JOB_WINNER} = "sheet" for one round.',
        )
        for first in mixed[:1]
        if first.is_state
    )


def _build_notes(*texts: str) -> tuple[Difference, ...]:
    return tuple(Difference(kind="note", problem=text) for text in texts if text)


def with_lost(base: Base, ids: Collection[int]) -> Base:
    """Return the base without agreed values for the pets with these ids.

    The pets then stay in conflict until a row names them again or somebody deletes them. Their rows
    are not written again: a user may have removed them.
    """
    return base.without(ids).with_pets([Pet(id=i) for i in sorted(ids)])


def assigned_ids(report: Report | None) -> dict[int, int]:
    """Return, by row, the ids that the store assigned to the pets of rows without an id."""
    results = () if report is None else report.results
    return {
        each.row: each.assigned_id
        for each in results
        if each.row is not None and each.assigned_id is not None and each.is_in_store
    }


def build_state(
    round_id: str,
    lines: Sequence[str],
    base: Base,
    sheet: Sheet,
    *,
    digest: str = "",
    carried: str,
) -> Version:
    """Return the version for the state in which a round leaves the sheet, with the file's digest
    and the lines of the agreed base. Without a round id, it is the state of an export.
    """
    return Version(
        round=round_id,
        before=digest,
        after=digest,
        is_agreed=True,
        base=tuple(lines),
        inbound=Inbound(
            created=base.taken_at,
            store=base.store,
            source=sheet.source,
            tab=sheet.tab,
            digest=digest,
            lead="merge",
        ),
        carried=carried,
    )
