"""One round of a job: read both sides, plan, check the plan, send, write the sheet, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from petsync import sheets
from petsync._display import count, quote
from petsync.config.model import Configuration, Job
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError, SheetError
from petsync.plan import arguments
from petsync.plan.base import with_inbound, with_missing, with_report, with_sent_changes
from petsync.plan.change import Snapshot, describe_limits
from petsync.plan.compare import IdExchange, find_exchanged
from petsync.plan.fields import known_id, normalize
from petsync.plan.guard import CAPACITY_CURE, Refusal
from petsync.plan.notes import first_items
from petsync.plan.plan import Inbound
from petsync.plan.report import (
    Report,
    RoundReport,
    Rounds,
    expect_report,
    find_undoing_runs,
)
from petsync.plan.rounds import Counts, Difference
from petsync.reconcile.compare import (
    Comparer,
    Comparison,
    RemainingDifferences,
    compare_planned_rows,
    note_copies,
    note_twins,
    note_undos,
    split_changes,
)
from petsync.reconcile.context import Reconciliation, RoundContext, Watcher, Watchers
from petsync.reconcile.locks import lock_job, lock_store
from petsync.reconcile.siblings import (
    find_last_restore,
    find_left_pets,
    find_rows_elsewhere,
    note_second_rows,
    remove_moved_pets,
    sources_of_other_jobs,
    with_claims,
    with_last_bases,
    with_siblings,
)
from petsync.reconcile.sources import Folder, Source, connect_store, sources_of
from petsync.reconcile.start import (
    RoundStart,
    SheetStateFiles,
    assigned_ids,
    build_state,
    compare_sides,
    find_base_of_parts,
    find_start,
    must_have_ids,
    note_former_names,
    note_worksheets,
    settle_runs,
    with_found_rows,
    with_new_rows,
    with_older_rows,
    with_unnumbered,
)
from petsync.reconcile.state import (
    BaseFile,
    History,
    StatePaths,
    Version,
    digest_of,
    is_final,
    mark_of,
)
from petsync.settings import is_same_address
from petsync.sheets import Obstacle
from petsync.store import Store
from petsync.table.base import Base
from petsync.table.frame import ids_of, unique_texts

__all__ = [
    "WriteResult",
    "check",
    "hold_if_needed",
    "is_to_be_made",
    "make_sheet",
    "reconcile_jobs",
    "select_writable",
    "work",
    "write",
]


# The guard: a plan that exceeds a limit waits until a user releases it, or is refused.


_CURES = {
    "empty": "Correct the errors in the sheet's rows, or restore the sheet from one of its backups "
    "or with `petsync export`. If the sheet is meant to be empty, set allow_empty in the job's "
    "guard.",
    "everything": "If everything is to be deleted, set allow_empty in the job's guard.",
    "shifted": "Move the cells back to their rows, and sort whole rows only. If the cells are "
    "in the right rows, run `petsync plan SHEET` and then `petsync apply SHEET --allow-shifted`.",
    "sentinel": "Find out what happened to the sentinels. This check cannot be overridden.",
    "capacity": CAPACITY_CURE,
}
_FIX_QUERY = "Fix the data that the query reads, so that each id is in the row of its pet."
_QUERY_CURES = {
    "empty": "Check the query, the values that it returns, and its database. If the query is meant "
    "to return no rows, set allow_empty in the job's guard.",
    "shifted": _FIX_QUERY,
}
"""The advice for a job with a query, if it differs from `_CURES`."""

_MIXED = (
    "Move the ids back to their rows, and sort whole rows only. If pets are to exchange their "
    "values, run `petsync plan SHEET` and then `petsync apply SHEET`."
)
_UNCHANGED = "Nothing was changed, on either side."
_NAMED = 5


def hold_if_needed(
    context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
) -> bool:
    """Note all differences, and return true if the guard refuses the changes or holds them for a
    confirmation. Raises FindingsError if the job is strict and the sheet has errors.
    """
    first = RemainingDifferences(context.job, comparison, is_first=comparer.is_first).all()
    context.note_plan(None if context.job.mode == "pull" else comparison.plan, comparison.inbound)
    ids = _note_new_ids(context, comparer, comparison)
    context.note(drift=sum(each.kind != "note" for each in first))
    context.note_open((*start.notes, *ids, *first))
    if context.job.strict and comparison.sheet.errors:
        arguments.must_have_no_findings(comparison.sheet)
    mixed = _find_exchanged_ids(context.job, comparison)
    to_store, to_sheet = _refusals_to_store(context.job, comparison), _refusals_to_sheet(comparison)
    refusals = (*to_store, *to_sheet)
    is_dry = context.owner.dry_run
    if not is_dry and context.job.mode != "check":
        keep_store, keep_sheet = (_can_wait(each) and not mixed for each in (to_store, to_sheet))
        _clear_waiting(context, keep_store=keep_store, keep_sheet=keep_sheet)
    if mixed:
        context.note_open((*start.notes, *_refused_differences(context, comparer, comparison)))
        _refuse_exchanged_ids(context, comparison, mixed)
        return True
    if not refusals:
        return False
    if not _can_wait(refusals) or context.job.mode == "check":
        context.note_open((*start.notes, *_refused_differences(context, comparer, comparison)))
        _refuse(context, comparer, comparison, refusals)
    elif is_dry:
        _preview_wait(context, comparer, comparison, start, refusals)
    elif to_store:
        files = SheetStateFiles.of(context)
        waits = files.waiting.hold(comparison.plan, comparer.store)
        files.pending.remember(waits, is_own=False)
        _wait(context, comparer, comparison, start, refusals, str(files.waiting.path))
    elif comparison.inbound is not None:
        files = SheetStateFiles.of(context)
        files.sheet.hold(comparison.inbound, context.job.name)
        _wait(context, comparer, comparison, start, refusals, str(files.sheet.path))
    return True


def _note_new_ids(
    context: RoundContext, comparer: Comparer, comparison: Comparison
) -> tuple[Difference, ...]:
    """Note the planned changes of the sheet in the round. Return a note on the rows that will get
    an id, apart from those that are reported one by one.
    """
    before, planned = context.round.to_sheet.update, comparer.to_sheet(comparison)
    context.note(to_sheet=planned)
    others = planned.update - before
    if not others:
        return ()
    problem = (
        "1 row without an id is to get the id of its pet"
        if others == 1
        else f"{others:,} rows without an id are to get the ids of their pets"
    )
    return (Difference(kind="note", problem=problem, hint="Ids are written into the sheet."),)


def _refusals_to_store(job: Job, comparison: Comparison) -> tuple[Refusal, ...]:
    refusals = comparison.plan.verdict.refusals
    if job.mode in ("pull", "check"):
        # None of the plan is sent, so only refusals about the store itself count; in a check, also
        # the refusal of an empty sheet.
        own = "empty" if job.mode == "check" else ""
        return tuple(each for each in refusals if each.of_store or each.limit == own)
    return refusals


def _refusals_to_sheet(comparison: Comparison) -> tuple[Refusal, ...]:
    return () if comparison.inbound is None else comparison.inbound.verdict.refusals


def _find_exchanged_ids(job: Job, comparison: Comparison) -> tuple[IdExchange, ...]:
    """Return the rows whose ids were exchanged; () in modes that send nothing to the store."""
    if job.mode not in ("push", "two-way"):
        return ()
    before = None if comparison.base is None else comparison.base.sheet_rows
    return find_exchanged(comparison.sheet, before, comparison.row_comparison.differing)


def _refuse_exchanged_ids(
    context: RoundContext, comparison: Comparison, mixed: Sequence[IdExchange]
) -> None:
    first = [
        f"{comparison.sheet.address(each.row)} has the id {each.pet_id}, whose pet was "
        f"{each.was!r}, and the name {each.name!r}, which pet {each.other} had"
        for each in mixed[:_NAMED]
    ]
    more = f"; and {len(mixed) - _NAMED:,} more" if len(mixed) > _NAMED else ""
    problem = (
        f"{len(mixed):,} rows have the earlier values of other pets, as if the ids had been sorted "
        f"or moved without their rows: {'; '.join(first)}{more}"
    )
    cure = _FIX_QUERY if context.job.query else _name_sheet(_MIXED, comparison)
    context.set_status("refused", problem, f"{_UNCHANGED} {cure}")


def _can_wait(refusals: Sequence[Refusal]) -> bool:
    return bool(refusals) and not is_final(refusals)


def _clear_waiting(context: RoundContext, *, keep_store: bool, keep_sheet: bool) -> None:
    if not keep_store:
        SheetStateFiles.of(context).waiting.clear()
    if not keep_sheet:
        SheetStateFiles.of(context).sheet.clear()


def _refused_differences(
    context: RoundContext, comparer: Comparer, comparison: Comparison
) -> tuple[Difference, ...]:
    return RemainingDifferences(
        context.job, comparison, is_refused=True, is_first=comparer.is_first
    ).all()


def _refuse(
    context: RoundContext, comparer: Comparer, comparison: Comparison, refusals: Sequence[Refusal]
) -> None:
    limits = {each.limit for each in refusals}
    # An empty sheet implies that everything would be deleted: one remedy is enough.
    limits -= {"everything"} if "empty" in limits else set()
    known = _CURES | (_QUERY_CURES if context.job.query else {})
    cures = dict.fromkeys(known.get(each.limit, "") for each in refusals if each.limit in limits)
    if "everything" in limits and any(
        each.limit == "everything" for each in _refusals_to_sheet(comparison)
    ):
        cures = {_undo_of(comparer, comparison): None} | cures
    hint = _name_sheet(" ".join(filter(None, (_UNCHANGED, *cures))), comparison)
    context.set_status("refused", describe_limits(refusals), hint)


def _name_sheet(cure: str, comparison: Comparison) -> str:
    """Return the advice with the sheet in place of SHEET: only a plan that the user applies can
    send what a job never sends.
    """
    sheet = comparison.sheet
    words = [quote(sheet.source), *(["--sheet", quote(sheet.tab)] if sheet.tab else [])]
    return cure.replace(" SHEET", f" {' '.join(words)}")


def _undo_of(comparer: Comparer, comparison: Comparison) -> str:
    """Return advice on how to restore the pets whose rows would be removed: undo the runs that
    deleted them, or add the pets again from their rows.
    """
    removed_ids = (
        set[int]()
        if comparison.inbound is None
        else {each.pet_id for each in comparison.inbound.removed}
    )
    history, runs = comparer.store.aio.history, list[str]()
    past = history.runs(comparer.store.url)
    undone = find_undoing_runs(past)
    for run in past if removed_ids else ():
        if run.run_id in undone:
            continue
        deleted = {
            entry.pet_id
            for entry in history.entries(run.run_id)
            if entry.kind == "delete" and entry.outcome == "applied"
        }
        runs += [run.run_id] if removed_ids & deleted else []
        removed_ids = {pet_id for pet_id in removed_ids if pet_id not in deleted}
        if not removed_ids:
            break
    undo = " and ".join(f"`petsync undo {run}`" for run in runs)
    if undo and not removed_ids:
        return f"petsync deleted these pets in the store. To bring them back: {undo}."
    if undo:
        undo = f" petsync deleted some of them. To bring these back: {undo}."
    then = ""
    if comparer.job.mode == "pull":
        then = f", and run `petsync apply {quote(comparer.source.name)}`"
    return (
        f"The store no longer has any of these pets.{undo} To add pets again, write `add` in the "
        f"action column of their rows{then}."
    )


def _wait(
    context: RoundContext,
    comparer: Comparer,
    comparison: Comparison,
    start: RoundStart,
    refusals: Sequence[Refusal],
    file: str,
) -> None:
    _hold(context, comparer, comparison, start)
    context.note(waiting=file)
    hint = (
        f"`petsync apply {quote(file)}` shows the waiting plan, and releases it after a "
        f"confirmation; `--limit 0` shows all rows.{_explain_sign_in(context)}"
    )
    context.set_status("waiting", describe_limits(refusals), hint)


def _explain_sign_in(context: RoundContext) -> str:
    """Return how a command of the user can sign in as the job does; "" if the job needs no secret
    of its own and no file of variables.
    """
    config, sign_in = context.owner.config, context.job.sign_in
    file = "" if config.env_file is None else quote(str(config.env_file.absolute()))
    load = f" (`set -a; . {file}; set +a`)" if file else ""
    if not sign_in:
        return f" It needs the job's variables: set them first{load}." if file else ""
    return (
        f" It signs in with the job's {sign_in}, once you confirm the file "
        f"(`petsync trust {quote(str(config.path))}`) and set the variable{load}."
    )


def _preview_wait(
    context: RoundContext,
    comparer: Comparer,
    comparison: Comparison,
    start: RoundStart,
    refusals: Sequence[Refusal],
) -> None:
    _hold(context, comparer, comparison, start)
    context.set_status(
        "waiting", describe_limits(refusals), "Fix the sheet, if this is not intended."
    )


def _hold(
    context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
) -> None:
    opens = RemainingDifferences(
        context.job, comparison, pending="waiting", is_first=comparer.is_first
    ).all()
    context.note_open((*start.notes, *opens))


# The sheet's side of a round: changes are written into the sheet, or a missing sheet is created.


def check(comparison: Comparison) -> None:
    """Raise SheetError, before anything is sent, if the sheet could not be written afterwards.

    A run may lead to changes of the sheet, such as new ids, even if none are planned yet.
    """
    inbound = comparison.inbound
    if inbound is None:
        return
    if inbound or (inbound.lead == "merge" and comparison.plan.changes):
        sheets.must_take_edits(comparison.sheet)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing a sheet: the changes that could be written, the cells that could not,
    and the base that was written into the sheet, if any. `digest` is the new file's, "" if nothing
    was written.
    """

    inbound: Inbound
    unwritable: tuple[Obstacle, ...] = ()
    carried: Base | None = None
    digest: str = ""


def write(
    context: RoundContext,
    comparer: Comparer,
    comparison: Comparison,
    inbound: Inbound,
    start: RoundStart,
) -> WriteResult:
    """Write the inbound changes into the sheet, after storing a version of it.

    A base that the sheet carries is updated, too. Raises SheetError.
    """
    sheet, base = comparison.sheet, start.base
    edits = sheets.edits_of(inbound, sheet)
    unwritable = tuple(sheets.obstacles(sheet, edits))
    done = select_writable(inbound, unwritable)
    context.note_plan(context.plan, inbound)
    rest = edits.without(unwritable)
    if not rest:
        return WriteResult(done, unwritable)
    carried = with_inbound(base, done) if base is not None and sheet.base is not None else None
    versions = SheetStateFiles.of(context).versions
    # A backup may exist even if the sheet is not written, so store the version first.
    version = versions.keep(_build_version(context, comparison, done, start))
    backup = sheets.write_synced(sheet, rest, base=carried)
    context.note(backup=str(backup), applied=context.round.applied + done.touched.total)
    digest = comparer.read().digest
    versions.put(msgspec.structs.replace(version, after=digest))
    return WriteResult(done, unwritable, carried, digest)


def _build_version(
    context: RoundContext, comparison: Comparison, inbound: Inbound, start: RoundStart
) -> Version:
    """Return the version of the current sheet, with the values that both sides agree on."""
    agreed = comparison.find_agreed(start.base)
    return Version(
        round=context.round.id,
        before=comparison.sheet.digest,
        base=tuple(agreed.to_lines()),
        inbound=inbound,
        is_again=bool(start.undone or start.doubts),
        runs=tuple(sorted(start.runs)),
        carried=digest_of(comparison.sheet.base),
    )


def select_writable(inbound: Inbound, unwritable: Sequence[Obstacle]) -> Inbound:
    """Return only the changes that can be written completely."""
    rows = {each.row for each in unwritable}
    if not rows:
        return inbound
    new = enumerate(inbound.added, 1)
    added = () if None in rows else tuple(pet for n, pet in new if -n not in rows)
    without_id = {each.row for each in unwritable if each.column == "id"}
    return msgspec.structs.replace(
        inbound,
        edits=tuple(each for each in inbound.edits if each.row not in rows),
        added=added,
        removed=tuple(each for each in inbound.removed if each.row not in rows),
        identified=tuple(each for each in inbound.identified if each.row not in without_id),
    )


def is_to_be_made(comparer: Comparer) -> bool:
    """Return true if the sheet of a pull job does not exist, but its folder does. If the folder
    does not exist either, a drive is probably not connected.
    """
    path = comparer.source.path
    return comparer.job.mode == "pull" and path is not None and _is_missing(path)


def make_sheet(comparer: Comparer, snapshot: Snapshot) -> None:
    """Write the pets of the snapshot into a new sheet that carries the snapshot as its base. Raises
    SheetError.
    """
    path = comparer.source.path
    if path is None:
        raise SheetError("a job with a query has no sheet that can be created")
    sheets.write_sheet(snapshot, path, tab=comparer.job.tab or "Pets")


def _is_missing(path: Path) -> bool:
    return path.parent.is_dir() and not path.exists() and not path.is_symlink()


# The work of a round: compare both sides, check the plan with the guard, and carry it out.


_EXCEEDED = (
    "after its requests, the round does not write the sheet, because the changes for it exceed a "
    "limit"
)
_HELD_NEXT = "The next round plans these changes again, and they wait until you release them."
_UNNUMBERED = (
    "The next round tries again. A row that is edited before then may become a new pet: close the "
    "file, or write the ids into it."
)


def work(context: RoundContext, comparer: Comparer) -> None:
    """Run the round. Raises the error that ends it early."""
    with context.step("resume"):
        past = settle_runs(context, comparer.store)
    if is_to_be_made(comparer):
        _make(context, comparer)
        return
    snapshot: Snapshot | None = None
    with comparer.list_in_background() as list_pets:
        with context.step("read"):
            if context.job.is_in_parts:
                sheet, snapshot = comparer.read_parts()
            else:
                sheet = comparer.read()
            context.read_at = comparer.read_at or context.round.started
            context.note(rows=len(sheet) + len(sheet.blocked) + sheet.agreeing)
            # From here on, a restored backup is recorded even if the round ends early.
            start = find_start(
                context, sheet, comparer.store, past, comparer.elsewhere, comparer.folder
            )
        with context.step("snapshot"):
            snapshot = comparer.snapshot(list_pets()) if snapshot is None else snapshot
    context.note(pets=len(snapshot))
    with context.step("plan"):
        must_have_ids(context, sheet, start)
        runs = start.runs.union(each.mark for each in past)
        start = replace(start, base=with_missing(start.base, sheet), runs=runs)
        start = with_claims(context, sheet, snapshot, start, comparer)
        if start.base is not None:
            stray_pets = comparer.find_stray_pets(sheet, start.base.taken_at)
            start = replace(start, base=with_unnumbered(start.base, stray_pets))
        restored = find_last_restore(context, sheet, start, comparer)
        left = find_left_pets(context, sheet, start, comparer)
        start = replace(start, sibling_restored=restored, left=left)
        notes = (*note_former_names(context), *start.notes, *note_worksheets(context, sheet))
        start = replace(start, notes=notes)
        comparison = compare_sides(comparer, sheet, snapshot, start)
        known = with_found_rows(start, comparison)
        known = with_siblings(context, comparison, known, comparer)
        known = with_older_rows(known, comparison)
        known = with_new_rows(context, known, comparison, comparer)
        if known is not start:
            start = known
            comparison = compare_sides(comparer, sheet, snapshot, start)
        comparison.must_have_answers()
        if not comparison.agrees_on(start.copied_ids):
            start = replace(start, notes=(*start.copy_notes, *start.notes))
        if context.job.mode in ("push", "two-way"):
            notes = (*note_copies(comparison.plan), *note_undos(comparison, start.notes))
            notes = (*notes, *note_second_rows(context, comparison))
            notes = (*(each.note() for each in comparison.overwrites), *notes)
            start = replace(start, notes=(*start.notes, *notes))
    with context.step("guard"):
        if hold_if_needed(context, comparer, comparison, start):
            return
        if context.owner.dry_run:
            _preview(context, comparer, comparison, start)
            return
        check(comparison)
    if context.job.mode != "check":
        _Execution(context, comparer, comparison, start).run()


def _find_base_after(
    comparer: Comparer, comparison: Comparison, base: Base | None, report: Report
) -> Base:
    """Return the base after a run. In a first round of mode two-way, it also has the values on
    which the two sides agreed before the run; the others are unknown.
    """
    return with_report(comparer.complete_base(comparison, {}) if base is None else base, report)


def _plan_inbound_after(
    comparer: Comparer,
    comparison: Comparison,
    now: Comparison,
    start: RoundStart,
    report: Report | None,
) -> tuple[Inbound, Comparison]:
    """Return the changes for the sheet after a run, and the comparison on which they are based.

    `comparison` is from before the run, and `now` from after it; `start` has the base after it.
    """
    # Both sides agree on what the run sent. Unedited cells get the store's value.
    now = replace(now, base=start.base, pet_ids={**now.pet_ids, **comparison.pet_ids})
    # Without a base, no row can have been removed.
    may_delete = start.may_delete and comparison.base is not None
    inbound = comparer.plan_inbound(
        now, comparison.decided, assigned_ids(report), may_delete=may_delete
    )
    return inbound, now


def _plan_ids_after(
    comparer: Comparer, comparison: Comparison, now: Comparison, report: Report | None
) -> Inbound:
    """Return the ids for the sheet of a push job after a run. `comparison` is from before the run,
    and `now` from after it.
    """
    known = {**now.pet_ids, **comparison.pet_ids, **assigned_ids(report)}
    return comparer.plan_ids(now, known)


def _preview(
    context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
) -> None:
    """Note the changes of a dry run, with the cells of the sheet that a round completes after its
    requests. The store is expected to make every change of the plan as it is sent.
    """
    job, plan, sheet = context.job, comparison.plan, comparison.sheet
    if comparison.inbound is None and not comparer.takes_ids(sheet):
        return
    report: Report | None = None
    now, notes = comparison, start.notes
    if plan.changes and job.mode != "pull":
        agreed = () if start.base is None else start.base.ids
        known_ids = {*ids_of(comparison.seen.known_pets), *sheet.named_ids, *agreed}
        report = expect_report(plan, known_ids)
        now = replace(comparison, seen=with_sent_changes(comparison.seen, report))
        start = replace(start, base=_find_base_after(comparer, comparison, start.base, report))
    if comparison.inbound is not None:
        planned = comparison.inbound
        inbound, _ = _plan_inbound_after(comparer, comparison, now, start, report)
    else:
        planned = _plan_ids_after(comparer, comparison, comparison, None)
        inbound = _plan_ids_after(comparer, comparison, now, report)
    if job.mode == "two-way":
        notes = (*notes, *_note_new_categories(comparison))
    changes = tuple(inbound.preview(planned, {*assigned_ids(report).values()}))
    unwritable = sheets.obstacles(sheet, sheets.edits_of(inbound, sheet)) if inbound else ()
    parts = split_changes(changes, unwritable, sheet)
    context.sheet = tuple(rest for _, rest, _ in parts if rest is not None)
    context.note(to_sheet=inbound.touched)
    if not inbound.verdict.ok:
        limits = describe_limits(inbound.verdict.refusals)
        note = Difference(kind="note", problem=f"{_EXCEEDED}: {limits}", hint=_HELD_NEXT)
        notes, context.sheet = (*notes, note), ()
        context.note(to_sheet=Counts())
    if comparison.inbound is not None:
        opens = RemainingDifferences(
            job, comparison, changes=changes, unwritable=unwritable, is_first=comparer.is_first
        ).all()
        context.note_open((*notes, *opens))


def _note_new_categories(comparison: Comparison) -> Iterator[Difference]:
    """Yield a note on the cells into which the round writes the numbers of new categories, if the
    store gives them numbers.
    """
    sheet = comparison.sheet
    if "category_id" not in sheet.columns or "category" in comparison.unwritten_units:
        return
    new = [
        (change.row, normalize(change.after.category.name))
        for change in comparison.plan.changes
        if change.row is not None and change.after is not None and "category" in change.fields
        if change.after.category is not None and known_id(change.after.category.id) is None
    ]
    known = {*map(normalize, unique_texts(comparison.seen.known_pets, "category")), ""}
    cells = [sheet.address(row, "category_id") for row, name in new if name not in known]
    if cells:
        yield Difference(
            kind="note",
            problem="the store may give numbers to new categories, which the round then writes "
            f"into the sheet: {first_items(cells)}",
            hint="A dry run cannot know these numbers.",
        )


class _Execution:
    """The remaining steps of a round after the guard accepts its plan."""

    def __init__(
        self, context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
    ) -> None:
        self.context, self.comparer, self.comparison, self.start = (
            context,
            comparer,
            comparison,
            start,
        )
        self.files = SheetStateFiles.of(context)
        self.base = start.base
        self.sheet = comparison.sheet
        self.overwrites = {each.note(): each for each in comparison.overwrites}
        """The changes that overwrite changes of the store, by their notes."""
        self.unwritable: tuple[Obstacle, ...] = ()
        self.notes: tuple[Difference, ...] = ()

    def run(self) -> None:
        """Send, write, compare again, and store what both sides agree on now."""
        context, changed = self.context, False
        for version in self.start.found:
            self.files.versions.keep(version)
        if self.comparison.plan.changes and context.job.mode != "pull":
            with context.step("apply"):
                self._do_step(self._apply)
            changed = True
        inbound = self.comparison.inbound
        if inbound is not None and (inbound or context.report is not None):
            with context.step("write"):
                self._do_step(self._write)
            changed = True
        if self.comparer.takes_ids(self.comparison.sheet):
            changed = self._write_ids() or changed
        if changed:
            with context.step("verify"):
                self._compare_again()
        self._keep()
        self._note_open(self.comparison, report=context.report, unwritable=self.unwritable)

    def _do_step(self, do: Callable[[], None]) -> None:
        """Do a step; if it ends the round, report the differences that remain."""
        try:
            do()
        except InterruptedRunError as error:
            if isinstance(error.report, Report):
                self._note_open(self.comparison, report=error.report, is_before=True)
            raise
        except (PetsyncError, KeyboardInterrupt) as error:
            why = error.problem if isinstance(error, PetsyncError) else "the round was stopped"
            self._note_open(
                self.comparison, report=self.context.report, is_before=True, unwritten=why
            )
            raise

    def _apply(self) -> None:
        job, plan = self.context.job, self.comparison.plan
        self.files.pending.remember(plan.fingerprint)
        report = self.comparer.store.apply(
            plan,
            concurrency=job.concurrency,
            rate=job.rate,
            verify=job.verify,
            max_failures=job.max_failures,
            progress=False,
        )
        self.context.note_report(report)
        self.base = _find_base_after(self.comparer, self.comparison, self.base, report)
        self.start = replace(self.start, runs=self.start.runs | {mark_of(report)})

    def _write(self) -> None:
        """Write changes into the sheet, based on the state of the store after the run."""
        sheet, start, now = self.comparison.sheet, self.start, self.comparison
        if self.context.report is not None:
            now = self.comparer.compare(
                sheet,
                self.comparer.snapshot(),
                start.base,
                may_lack=start.may_lack,
                returning=start.returning,
                sibling_restored=start.sibling_restored,
                left=start.left,
                has_inbound=False,
            )
        report, current_start = self.context.report, replace(start, base=self.base)
        inbound, now = _plan_inbound_after(
            self.comparer, self.comparison, now, current_start, report
        )
        if not inbound.verdict.ok:
            # The run, or somebody else, has changed a lot: the next round holds these changes.
            return
        pet_ids = {**now.pet_ids, **assigned_ids(report)}
        sight = compare_planned_rows(now.plan, sheet, now.seen, pet_ids, now.base)
        beside = replace(now, row_comparison=sight, inbound=inbound)
        result = write(self.context, self.comparer, beside, inbound, current_start)
        self.unwritable = result.unwritable
        if self.base is not None:
            self.base = with_inbound(self.base, result.inbound)
            self.start = start.with_carried(result.carried)
            self._keep_base(self.base, result.digest or sheet.digest)

    def _write_ids(self) -> bool:
        """Write the ids of pets into rows without an id; a SheetError becomes a note. Return true
        if there were ids to write.
        """
        added = assigned_ids(self.context.report)
        if not (added or self.comparison.pet_ids):
            return False
        comparison = self.comparison
        if self.context.report is not None:
            comparison = self.comparer.compare(
                comparison.sheet, self.comparer.snapshot(), self.base
            )
        ids = _plan_ids_after(self.comparer, self.comparison, comparison, self.context.report)
        if not ids:
            return False
        current_start = replace(self.start, base=self.base)
        try:
            with self.context.step("write"):
                result = write(self.context, self.comparer, comparison, ids, current_start)
            self.start = self.start.with_carried(result.carried)
            why = "; ".join(each.problem for each in result.unwritable[:1])
        except SheetError as error:
            why = error.problem
        if why:
            problem = f"ids of pets could not be written into the sheet: {why}"
            self.notes = (Difference(kind="note", problem=problem, hint=_UNNUMBERED),)
        return True

    def _compare_again(self) -> None:
        before, job = self.comparison.seen, self.context.job
        if job.is_in_parts:
            sheet, snapshot = self.comparer.read_parts()
            base, _ = find_base_of_parts(self.context, sheet, self.comparer.store)
        else:
            sheet, snapshot, base = self.comparer.read(), self.comparer.snapshot(), self.base
        self.comparison = compare_sides(
            self.comparer, sheet, snapshot, replace(self.start, base=base)
        )
        if job.mode == "push":
            self.notes = (*self.notes, *note_twins(self.context.report, before, snapshot))

    def _keep_base(self, base: Base, digest: str) -> None:
        """Store what both sides agree on, with the digest of the sheet.

        Before that, the rows that moved here are removed from the folder's other bases. If the
        process is killed in between, the next round finds these rows in the previous bases. In the
        reverse order, a pet could stay in two bases.
        """
        lines, start = base.to_lines(), self.start
        remove_moved_pets(
            self.context, base, start.own or frozenset(), self.comparison.sheet.named_ids
        )
        self.files.base.keep(lines, start.carried, start.runs, start.checksum)
        self.start = replace(start, own=base.ids)
        if digest:
            round_ = self.context.round.id
            state = build_state(
                round_, lines, base, self.sheet, digest=digest, carried=start.carried
            )
            self.files.versions.store_state(state)
        self.files.versions.mark_agreed(self.sheet, has_ids_by_hand=start.has_ids_by_hand)

    def _keep(self) -> None:
        if self.context.job.is_in_parts:
            # The base of the sheet is in its folder, from the export.
            self.files.pending.forget()
            return
        base = self.comparison.next_base()
        self._keep_base(base, self.comparison.sheet.digest)
        self.files.pending.forget()
        self.files.sheet.forget()
        undone, digest = self.start.undone, self.comparison.sheet.digest
        self.files.versions.undo(undone, digest, self.context.read_at)

    def _note_open(self, comparison: Comparison, *, report: Report | None, **more: Any) -> None:
        opens = RemainingDifferences(
            self.context.job, comparison, is_first=self.comparer.is_first, report=report, **more
        ).all()
        notes = (
            self.overwrites[each].note(report, is_planned=False)
            if each in self.overwrites
            else each
            for each in self.start.notes
        )
        self.context.note_open((*notes, *self.notes, *opens))


def _make(context: RoundContext, comparer: Comparer) -> None:
    """Write the missing sheet of a pull job; in a dry run, only report that it is missing."""
    with context.step("snapshot"):
        snapshot = comparer.snapshot()
    context.note(pets=len(snapshot), drift=len(snapshot), to_sheet=Counts(add=len(snapshot)))
    if context.owner.dry_run:
        pets = count(len(snapshot), "pet")
        problem = f"the sheet does not exist, and is to be created with {pets}"
        context.note_open((Difference(kind="drift", problem=problem),))
        return
    with context.step("write"):
        make_sheet(comparer, snapshot)
        context.note(applied=len(snapshot))
    with context.step("verify"):
        sheet = comparer.read()
        context.note(rows=len(sheet))
        comparison = comparer.compare(sheet, comparer.snapshot(), sheet.base)
    files, base, carried = (
        SheetStateFiles.of(context),
        comparison.next_base(),
        digest_of(sheet.base),
    )
    lines = base.to_lines()
    state = build_state(context.round.id, lines, base, sheet, digest=sheet.digest, carried=carried)
    files.base.keep(lines, carried)
    files.versions.store_state(state)
    context.note_open(
        RemainingDifferences(context.job, comparison, is_first=comparer.is_first).all()
    )


# Rounds: all jobs of a configuration, one after the other. A failed job does not stop the others.


def reconcile_jobs(
    config: Configuration,
    *,
    job: str = "",
    dry_run: bool = False,
    moved: bool = False,
    watchers: Iterable[Watcher] = (),
) -> Rounds:
    """Run the rounds of all enabled jobs, or of the one named `job`, enabled or not.

    With `moved`, a base is used although it has another URL of the store. Errors of a round are in
    its report; after an interrupt, no further rounds are run. Raises SettingsError if no job has
    the name.
    """
    owner = Reconciliation(config=config, watchers=Watchers(watchers), dry_run=dry_run, moved=moved)
    reports: list[RoundReport] = []
    for each in _choose_jobs(config, job):
        for context in _run_rounds(owner, each):
            reports.append(context.close())
            if context.is_ended:
                return Rounds(reports)
    return Rounds(reports)


def _choose_jobs(config: Configuration, name: str) -> list[Job]:
    if not name:
        return [job for job in config.jobs if job.enabled]
    chosen = [job for job in config.jobs if job.name == name]
    if chosen:
        return chosen
    names = [job.name for job in config.jobs]
    near = get_close_matches(name, names, 1)
    raise SettingsError(
        f"{config.path} has no job {name!r}",
        hint=f"Did you mean {near[0]}?" if near else f"Its jobs are: {', '.join(names) or 'none'}.",
    )


def _run_rounds(owner: Reconciliation, job: Job) -> Iterator[RoundContext]:
    """Yield the job's rounds, each after it ends: one for each sheet, or a single one with the
    error if the job cannot start.
    """
    context = RoundContext.begin(owner, job)
    with ExitStack() as stack:
        ready: list[Comparer] = []
        with context.guard():
            owner = replace(owner, formers=_find_former_names(owner, job))
            ready = _prepare(owner, job, stack)
        if not ready:
            yield context
            return
        for comparer in ready:
            yield _run_round(owner, job, comparer)


def _prepare(owner: Reconciliation, job: Job, stack: ExitStack) -> list[Comparer]:
    """Lock the job and, if it sends, its store; rename the files stored under the job's former
    name; and connect to the store. Locks and connection last until `stack` is closed. A dry run
    neither locks nor renames. Return a comparer for each sheet.
    """
    if not owner.dry_run:
        stack.enter_context(lock_job(owner.paths, job.name))
        for former in owner.formers.values():
            stack.enter_context(lock_job(owner.paths, former))
            owner.paths.rename(former, job.name, [each.part for each in sources_of(job)])
    store = stack.enter_context(connect_store(job, owner.config.state))
    sources = [*with_last_bases(owner.paths, sources_of(job))]
    if job.mode in ("push", "two-way") and not owner.dry_run:
        stack.enter_context(lock_store(owner.paths, store.url))
    others = tuple(sources_of_other_jobs(owner, job))
    find = partial(find_rows_elsewhere, others, store)
    comparers = _build_comparers(job, store, sources, owner.paths)
    return [replace(each, find_elsewhere=find) for each in comparers]


def _find_former_names(owner: Reconciliation, job: Job) -> dict[str, str]:
    """Return the job's former name, by its current name; {} if it was not renamed.

    A job counts as renamed if one of its files has no base under the job's name, but has one under
    the name of a job that is no longer configured, from its last round with the same store. Raises
    PetsyncError.
    """
    paths = owner.paths
    parts = {each.name: each.part for each in sources_of(job) if each.path is not None}
    if all(paths.base(job.name, part).exists() for part in parts.values()):
        return {}
    names = {each.name for each in owner.config.jobs}
    last = {
        round_.source: round_ for round_ in History(paths.state).rounds() if round_.mode != "check"
    }
    for source, part in parts.items():
        round_ = last.get(source)
        if round_ is None or round_.job in names or not is_same_address(round_.store, job.url):
            continue
        is_new = not paths.base(job.name, part).exists()
        if is_new and round_.part == part and paths.base(round_.job, part).exists():
            return {job.name: round_.job}
    return {}


def _build_comparers(
    job: Job, store: Store, sources: Iterable[Source], paths: StatePaths
) -> Iterator[Comparer]:
    sources = tuple(sources)
    if job.folder is None:
        yield from (Comparer(job, source, store) for source in sources)
        return
    folder = Folder(job.match_on)
    for source in sources:
        folder.note(source.part, source.read(store))
    if folder.has_new_rows:
        bases = (BaseFile(path).load(set_aside=False).base for path in paths.bases(job.name))
        pets = (
            each.unnumbered for each in bases if each and is_same_address(each.store, store.url)
        )
        folder.unnumbered = frozenset[int]().union(*pets)
    yield from (Comparer(job, each, store, folder, not n) for n, each in enumerate(sources))


def _run_round(owner: Reconciliation, job: Job, comparer: Comparer) -> RoundContext:
    context = RoundContext.begin(owner, job, part=comparer.source.part, source=comparer.source.name)
    context.note(store=comparer.store.url)
    owner.watchers.on_begin(context.round)
    with context.guard():
        work(context, comparer)
    return context
