"""Footing: what a round starts from."""

from __future__ import annotations

from dataclasses import dataclass

from petsync.diff.report import Report
from petsync.diff.round import Open
from petsync.diff.settled import with_inbound, with_report
from petsync.errors import SheetError
from petsync.reconcile.base import BaseFile, digest_of
from petsync.reconcile.begun import Begun, told_of
from petsync.reconcile.course import Course
from petsync.reconcile.waiting import SheetWaiting, Waiting
from petsync.store import Store
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["Files", "Footing", "footing_of", "resumed"]


@dataclass(frozen=True, slots=True)
class Files:
    """What is kept of one sheet of a job."""

    base: BaseFile
    begun: Begun
    waiting: Waiting
    sheet: SheetWaiting

    @classmethod
    def of(cls, course: Course) -> Files:
        """Those of the sheet that a round is about."""
        kept, name = course.owner.kept, (course.job.name, course.told.part)
        return cls(
            BaseFile(kept.base(*name)),
            Begun(kept.begun(*name)),
            Waiting(kept.waiting(*name), course.job.name),
            SheetWaiting(kept.waiting(*name, side="sheet")),
        )


@dataclass(frozen=True, slots=True)
class Footing:
    """The base, the digest of the one that the sheet carries, and what is to be said of them.
    Nothing is deleted by a base of which it is not sure that it is the last one.
    """

    base: Base | None
    carried: str = ""
    notes: tuple[Open, ...] = ()
    may_delete: bool = True


def resumed(course: Course, store: Store) -> Report | None:
    """What became of the run that this job's last round, or whoever released its plan, began, and
    of which its base does not know yet; the job's own is finished first, if it was stopped.
    """
    if course.job.mode in ("pull", "check"):
        return None
    files, is_dry = Files.of(course), course.owner.dry_run
    released = files.waiting.released(store)
    if released and not is_dry:
        files.begun.remember(released, is_own=False)
        files.waiting.clear()
    run = files.begun.run(store)
    if run is None:
        return None
    if run.is_stopped and not is_dry:
        course.note(runs=(run.id,), resumed=1)
        return store.resume(run.id, progress=False)
    return told_of(run, store)


def footing_of(course: Course, sheet: Sheet, store: str, run: Report | None) -> Footing:
    """The base that a round compares by: the kept one, with what a run brought about since; or the
    sheet's own, if it carries one that was not there at the last round: then somebody exported it
    afresh.
    """
    if course.job.mode == "check":
        return Footing(sheet.base)
    files = Files.of(course)
    memory = files.base.load(set_aside=not course.owner.dry_run)
    carried, base, notes = digest_of(sheet.base), memory.base, [memory.problem]
    is_new = sheet.base is not None and carried != memory.carried
    if sheet.base is not None and is_new:
        base = _own(sheet, sheet.base, store)
    elif base is not None and base.store != store:
        notes.append(f"The base is of {base.store}, and not used: this round is as the first one")
        base = None
    if sheet.base_refused and base is None:
        notes.append(f"{sheet.base_refused}; this round is as the first one")
    if run is not None and not is_new:
        base = with_report(base, run)
    taken = files.sheet.released()
    if taken is not None and base is not None and not is_new:
        base = with_inbound(base, taken)
    opens = tuple(Open(kind="note", problem=text) for text in notes if text)
    return Footing(base, carried, opens, may_delete=is_new or not memory.is_older)


def _own(sheet: Sheet, base: Base, store: str) -> Base:
    """The base that the sheet carries. Raises SheetError where it is of another store."""
    if base.store == store:
        return base
    raise SheetError(
        f"{sheet.source} was exported from {base.store}, and the job's store is {store}",
        hint="Nothing was changed: what differs between two stores is nobody's edit. Export it "
        "from the job's store, or name the other one in the job.",
    )
