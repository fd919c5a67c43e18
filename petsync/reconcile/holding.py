"""Holding back: what is over its guard waits for a person, or is refused."""

from __future__ import annotations

from collections.abc import Sequence

from petsync.diff import arguments
from petsync.diff.alike import Exchanged, exchanged
from petsync.diff.guard import CAPACITY_CURE, Refusal
from petsync.diff.released import broken
from petsync.diff.round import Open
from petsync.diff.settled import categories_of
from petsync.diff.standing import undone_by
from petsync.reconcile.config.model import Job
from petsync.reconcile.course import Course
from petsync.reconcile.footing import Files, Footing
from petsync.reconcile.look import Look, Looker
from petsync.reconcile.opens import Opens
from petsync.reconcile.waiting import is_final

__all__ = ["is_held"]

_CURES = {
    "empty": "Put the sheet back as it was, from one of its backups or with `petsync export`; or "
    "set allow_empty in the guard of the job, if nothing is meant to be in it.",
    "everything": "Set allow_empty in the guard of the job, if everything is meant to go.",
    "shifted": "Put the column back beside its rows, and sort whole rows only. If it is meant: "
    "`petsync plan SHEET`, and `petsync apply SHEET --allow-shifted`.",
    "sentinel": "Find out what became of the sentinels: nothing overrides them.",
    "capacity": CAPACITY_CURE,
}

_MIXED = (
    "Nothing was changed, on either side. Put the ids back beside their rows, and sort whole rows "
    "only. If pets are meant to exchange what they are: `petsync plan SHEET`, and `petsync apply`."
)
_NAMED = 5


def is_held(course: Course, looker: Looker, look: Look, footing: Footing) -> bool:
    """Whether the round ends before anything is changed, once all that stands was told. Raises
    FindingsError where the job is strict and the sheet has errors.
    """
    first = Opens(course.job, look, is_first=looker.is_first).all()
    course.planned(None if course.job.mode == "pull" else look.plan, look.inbound)
    ids = _numbered(course, looker, look)
    course.note(drift=sum(each.kind != "note" for each in first))
    course.stands((*footing.notes, *ids, *first))
    if course.job.strict and look.sheet.errors:
        arguments.no_findings(look.sheet)
    mixed = _mixed_up(course.job, look)
    to_store, to_sheet = _of_store(course.job, look), _of_sheet(look)
    refusals = (*to_store, *to_sheet)
    is_dry = course.owner.dry_run
    if not is_dry and course.job.mode != "check":
        keep_store, keep_sheet = (_waits(each) and not mixed for each in (to_store, to_sheet))
        _clear(course, keep_store=keep_store, keep_sheet=keep_sheet)
    if mixed:
        course.stands((*footing.notes, *_never(course, looker, look)))
        _refuse_mixed(course, look, mixed)
        return True
    if not refusals:
        return False
    if not _waits(refusals) or course.job.mode == "check":
        course.stands((*footing.notes, *_never(course, looker, look)))
        _refuse(course, looker, look, refusals)
    elif is_dry:
        _would_wait(course, looker, look, footing, refusals)
    elif to_store:
        files = Files.of(course)
        held = files.waiting.hold(look.plan, looker.store)
        files.begun.remember(held, categories_of(look.plan, look.sheet), is_own=False)
        _wait(course, looker, look, footing, refusals, str(files.waiting.path))
    elif look.inbound is not None:
        files = Files.of(course)
        files.sheet.hold(look.inbound, course.job.name)
        _wait(course, looker, look, footing, refusals, str(files.sheet.path))
    return True


def _numbered(course: Course, looker: Looker, look: Look) -> tuple[Open, ...]:
    """Say beforehand how many rows are to get an id, beside those that are told one by one."""
    told, planned = course.told.to_sheet.update, looker.to_sheet(look)
    course.note(to_sheet=planned)
    count = planned.update - told
    if not count:
        return ()
    rows = "1 row without an id is" if count == 1 else f"{count:,} rows without an id are"
    problem = f"{rows} to get that of the pet"
    return (Open(kind="note", problem=problem, hint="It is written into the sheet."),)


def _of_store(job: Job, look: Look) -> tuple[Refusal, ...]:
    refusals = look.plan.verdict.refusals
    if job.mode in ("pull", "check"):
        # Nothing of the plan is sent, so only what it says of the sides themselves counts.
        own = "empty" if job.mode == "check" else ""
        return tuple(each for each in refusals if each.of_store or each.limit == own)
    return refusals


def _of_sheet(look: Look) -> tuple[Refusal, ...]:
    return () if look.inbound is None else look.inbound.verdict.refusals


def _mixed_up(job: Job, look: Look) -> tuple[Exchanged, ...]:
    """Rows whose ids went astray, if the store is to take what they say."""
    if job.mode not in ("push", "two-way"):
        return ()
    before = None if look.base is None else look.base.said_frame
    return exchanged(look.sheet, before, look.sight.differing)


def _refuse_mixed(course: Course, look: Look, mixed: Sequence[Exchanged]) -> None:
    first = [
        f"{look.sheet.address(each.row)} gives {each.name!r}, which was pet {each.other}, the id "
        f"{each.pet_id}, which was {each.was!r}"
        for each in mixed[:_NAMED]
    ]
    more = f"; and {len(mixed) - _NAMED:,} more" if len(mixed) > _NAMED else ""
    problem = (
        f"{len(mixed):,} rows say what other pets were, as if the ids had been sorted or moved "
        f"without their rows: {'; '.join(first)}{more}"
    )
    course.ends("refused", problem, _MIXED)


def _waits(refusals: Sequence[Refusal]) -> bool:
    return bool(refusals) and not is_final(refusals)


def _clear(course: Course, *, keep_store: bool, keep_sheet: bool) -> None:
    """Take away what waits for a reason that is gone."""
    if not keep_store:
        Files.of(course).waiting.clear()
    if not keep_sheet:
        Files.of(course).sheet.clear()


def _never(course: Course, looker: Looker, look: Look) -> tuple[Open, ...]:
    return Opens(course.job, look, is_refused=True, is_first=looker.is_first).all()


def _refuse(course: Course, looker: Looker, look: Look, refusals: Sequence[Refusal]) -> None:
    limits = {each.limit for each in refusals}
    # An empty sheet is why everything would go: one way out is enough.
    limits -= {"everything"} if "empty" in limits else set()
    cures = dict.fromkeys(_CURES.get(each.limit, "") for each in refusals if each.limit in limits)
    if "everything" in limits and any(each.limit == "everything" for each in _of_sheet(look)):
        cures = {_undo_of(looker, look): None} | cures
    hint = f"Nothing was changed, on either side. {' '.join(filter(None, cures))}".strip()
    course.ends("refused", broken(refusals), hint)


def _undo_of(looker: Looker, look: Look) -> str:
    """How the pets come back whose rows would go from the sheet: by an undo of the runs that have
    deleted them, or by their rows.
    """
    left = set[int]() if look.inbound is None else {each.pet_id for each in look.inbound.removed}
    history, runs = looker.store.aio.history, list[str]()
    past = history.runs(looker.store.url)
    undone = undone_by(past)
    for run in past if left else ():
        if run.run_id in undone:
            continue
        deleted = {
            entry.pet_id
            for entry in history.entries(run.run_id)
            if entry.kind == "delete" and entry.outcome == "applied"
        }
        runs += [run.run_id] if left & deleted else []
        left = {pet_id for pet_id in left if pet_id not in deleted}
        if not left:
            break
    undo = " and ".join(f"`petsync undo {run}`" for run in runs)
    if undo and not left:
        return f"petsync deleted these pets in the store: {undo} brings them back."
    if undo:
        undo = f" petsync deleted some of them: {undo} brings these back."
    return (
        f"The store has none of these pets any more.{undo} To bring pets back, write add into the "
        "action column of their rows."
    )


def _wait(
    course: Course,
    looker: Looker,
    look: Look,
    footing: Footing,
    refusals: Sequence[Refusal],
    file: str,
) -> None:
    _hold(course, looker, look, footing)
    course.note(waiting=file)
    hint = (
        f"`petsync apply {file}` shows what waits, asks, and so releases it; `--limit 0` shows all."
    )
    course.ends("waiting", broken(refusals), hint)


def _would_wait(
    course: Course,
    looker: Looker,
    look: Look,
    footing: Footing,
    refusals: Sequence[Refusal],
) -> None:
    _hold(course, looker, look, footing)
    course.ends("waiting", broken(refusals), "Mend the sheet, if that is not what is meant.")


def _hold(course: Course, looker: Looker, look: Look, footing: Footing) -> None:
    opens = Opens(course.job, look, pending="waiting", is_first=looker.is_first).all()
    course.stands((*footing.notes, *opens))
