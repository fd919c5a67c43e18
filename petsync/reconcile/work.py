"""The work of a round: look at both sides, hold back what is over its guard, and do the rest."""

from __future__ import annotations

from dataclasses import dataclass

from petsync.diff import arguments
from petsync.diff.guard import Refusal
from petsync.diff.report import Report
from petsync.diff.round import Open
from petsync.errors import InterruptedRunError
from petsync.reconcile.base import BaseFile, digest_of
from petsync.reconcile.begun import Begun
from petsync.reconcile.config.model import Job
from petsync.reconcile.course import Course
from petsync.reconcile.look import Look, Looker
from petsync.reconcile.opens import Opens
from petsync.reconcile.waiting import Waiting, is_final
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["work"]

_CURES = {
    "empty": "Put the sheet back as it was, from one of its backups or with `petsync export`; or "
    "set allow_empty in the guard of the job, if nothing is meant to be in it.",
    "everything": "Set allow_empty in the guard of the job, if everything is meant to go.",
    "sentinel": "Find out what became of the sentinels: nothing overrides them.",
}


@dataclass(frozen=True, slots=True)
class _Footing:
    """What a round starts from: the base, and the digest of the one that the sheet carries."""

    base: Base | None
    carried: str
    notes: tuple[Open, ...] = ()
    may_delete: bool = True


def work(course: Course, looker: Looker) -> None:
    """Do the round; raises what ends it early."""
    with course.step("resume"):
        _resume(course, looker)
    with course.step("read"):
        sheet = looker.read()
    course.note(rows=len(sheet) + len(sheet.blocked))
    with course.step("snapshot"):
        snapshot = looker.snapshot()
    course.note(pets=len(snapshot))
    with course.step("plan"):
        footing = _footing(course, sheet, looker.store.url)
        look = looker.look(sheet, snapshot, footing.base, may_delete=footing.may_delete)
    with course.step("guard"):
        if _is_held(course, looker, look, footing) or course.owner.dry_run:
            return
    if course.job.mode == "check":
        return
    if _carried_out(course, looker, look, footing):
        with course.step("verify"):
            sheet, snapshot = looker.read(), looker.snapshot()
            look = looker.look(sheet, snapshot, footing.base, may_delete=footing.may_delete)
    kept = course.owner.kept.base(course.job.name, course.told.part)
    BaseFile(kept).keep(look.next_base(), footing.carried)
    course.stands((*footing.notes, *Opens(course.job, look, report=course.report).all()))


def _resume(course: Course, looker: Looker) -> None:
    """Finish what this job's own earlier round began, if it was stopped."""
    if course.owner.dry_run or course.job.mode in ("pull", "check"):
        return
    begun = Begun(course.owner.kept.begun(course.job.name, course.told.part))
    run = begun.run(looker.store)
    if run:
        course.note(runs=(run,), resumed=1)
        looker.store.resume(run, progress=False)
    begun.forget()


def _footing(course: Course, sheet: Sheet, store: str) -> _Footing:
    """The base that this round compares by: the kept one; or the sheet's own, if it carries one
    that was not there at the last round: then somebody exported it afresh.
    """
    job, owner = course.job, course.owner
    if job.mode == "check":
        return _Footing(sheet.base, "")
    file = BaseFile(owner.kept.base(job.name, course.told.part))
    memory = file.load(set_aside=not owner.dry_run)
    carried, base, notes = digest_of(sheet.base), memory.base, [memory.problem]
    is_new = sheet.base is not None and carried != memory.carried
    if is_new:
        base = sheet.base
    elif base is not None and base.store != store:
        notes.append(f"The base is of {base.store}, and not used: this round is as the first one")
        base = None
    if sheet.base_refused and base is None:
        notes.append(f"{sheet.base_refused}; this round is as the first one")
    opens = tuple(Open(kind="note", problem=text) for text in notes if text)
    return _Footing(base, carried, opens, may_delete=is_new or not memory.is_older)


def _is_held(course: Course, looker: Looker, look: Look, footing: _Footing) -> bool:
    """Whether the round ends before anything is changed, once all that stands was told."""
    first = Opens(course.job, look).all()
    course.planned(look.plan)
    course.note(drift=len(first))
    course.stands((*footing.notes, *first))
    if course.job.strict and look.sheet.errors:
        arguments.no_findings(look.sheet)
    refusals = _refusals(course.job, look)
    may_write = not course.owner.dry_run and course.job.mode != "check"
    waiting = Waiting(course.owner.kept.waiting(course.job.name, course.told.part), course.job.name)
    if may_write and (not refusals or is_final(refusals)):
        waiting.clear()
    if not refusals:
        return False
    problem = "; ".join(refusal.problem for refusal in refusals)
    if is_final(refusals) or not may_write:
        cures = dict.fromkeys(_CURES.get(each.limit, "") for each in refusals)
        hint = f"Nothing was changed, on either side. {' '.join(filter(None, cures))}".strip()
        course.ends("refused", problem, hint)
        return True
    waiting.hold(look.plan, looker.store)
    opens = Opens(course.job, look, pending="waiting").all()
    course.stands((*footing.notes, *opens))
    course.note(waiting=str(waiting.path))
    hint = f"Look at it: `petsync apply {waiting.path}` shows it, asks, and so releases it."
    course.ends("waiting", problem, hint)
    return True


def _refusals(job: Job, look: Look) -> tuple[Refusal, ...]:
    refusals = look.plan.verdict.refusals
    if job.mode in ("pull", "check"):
        # Nothing of the plan is sent, so only what it says of the sides themselves counts.
        own = "empty" if job.mode == "check" else ""
        return tuple(each for each in refusals if each.of_store or each.limit == own)
    return refusals


def _carried_out(course: Course, looker: Looker, look: Look, footing: _Footing) -> bool:
    """Whether anything was sent or written."""
    if not look.plan.changes or course.job.mode == "pull":
        return False
    with course.step("apply"):
        _apply(course, looker, look, footing)
    return True


def _apply(course: Course, looker: Looker, look: Look, footing: _Footing) -> None:
    job = course.job
    begun = Begun(course.owner.kept.begun(job.name, course.told.part))
    begun.remember(look.plan.fingerprint)
    try:
        report = looker.store.apply(
            look.plan,
            concurrency=job.concurrency,
            rate=job.rate,
            verify=job.verify,
            max_failures=job.max_failures,
            progress=False,
        )
    except InterruptedRunError as error:
        if isinstance(error.report, Report):
            opens = Opens(job, look, report=error.report, is_before=True).all()
            course.stands((*footing.notes, *opens))
        raise
    course.ran(report)
    begun.forget()
