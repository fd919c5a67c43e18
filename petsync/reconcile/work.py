"""The work of a round: look at both sides, hold back what is over its guard, and do the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from petsync.diff.agreed import named_ids, with_missing
from petsync.diff.report import Report
from petsync.diff.round import Counts, Open
from petsync.diff.settled import categories_of, with_inbound, with_report
from petsync.errors import InterruptedRunError, PetsyncError, SheetError
from petsync.reconcile import sheetside
from petsync.reconcile.base import digest_of
from petsync.reconcile.begun import mark_of
from petsync.reconcile.course import Course
from petsync.reconcile.doubles import came, copies
from petsync.reconcile.elsewhere import give_up, with_claims
from petsync.reconcile.footing import (
    Files,
    Footing,
    footing_of,
    must_have_ids,
    resumed,
    with_older_rows,
)
from petsync.reconcile.holding import is_held
from petsync.reconcile.look import Look, Looker, sight_beside
from petsync.reconcile.opens import Opens
from petsync.reconcile.siblings import with_siblings
from petsync.sheets import Obstacle

__all__ = ["work"]

_UNNUMBERED = (
    "The next round tries again. A row that is edited until then is a new pet: close the file, or "
    "write the ids into it."
)


def work(course: Course, looker: Looker) -> None:
    """Do the round; raises what ends it early."""
    with course.step("resume"):
        past = resumed(course, looker.store)
    if sheetside.is_to_be_made(looker):
        _make(course, looker)
        return
    with course.step("read"):
        sheet = looker.read()
        course.note(rows=len(sheet) + len(sheet.blocked))
        # Whatever ends the round from here on, a backup that was put back is known as one.
        footing = footing_of(course, sheet, looker.store, past, looker.elsewhere)
    with course.step("snapshot"):
        snapshot = looker.snapshot()
    course.note(pets=len(snapshot))
    with course.step("plan"):
        must_have_ids(course, sheet, footing)
        runs = frozenset(each.mark for each in past)
        footing = replace(footing, base=with_missing(footing.base, sheet), runs=runs)
        footing = with_claims(course, sheet, snapshot, footing, looker)
        may_delete, claimed = footing.may_delete, footing.claimed
        look = looker.look(sheet, snapshot, footing.base, may_delete=may_delete, claimed=claimed)
        known = with_siblings(course, look, footing, looker.store.url)
        known = with_older_rows(known, look)
        if known is not footing:
            footing = known
            look = looker.look(
                sheet, snapshot, footing.base, may_delete=may_delete, claimed=claimed
            )
        look.must_have_answers()
        if course.job.mode in ("push", "two-way"):
            footing = replace(footing, notes=(*footing.notes, *copies(look.plan)))
    with course.step("guard"):
        if is_held(course, looker, look, footing) or course.owner.dry_run:
            return
        sheetside.check(look)
    if course.job.mode != "check":
        _Doing(course, looker, look, footing).all()


class _Doing:
    """What is left of a round once nothing holds it back."""

    def __init__(self, course: Course, looker: Looker, look: Look, footing: Footing) -> None:
        self.course, self.looker, self.look, self.footing = course, looker, look, footing
        self.files = Files.of(course)
        self.base = footing.base
        self.sheet = look.sheet
        self.stuck: tuple[Obstacle, ...] = ()
        self.notes: tuple[Open, ...] = ()

    def all(self) -> None:
        """Send, write, look again, and keep what both sides agree on now."""
        course, changed = self.course, False
        for version in self.footing.by_hand:
            self.files.versions.keep(version)
        if self.look.plan.changes and course.job.mode != "pull":
            with course.step("apply"):
                self._told(self._apply)
            changed = True
        inbound = self.look.inbound
        if inbound is not None and (inbound or course.report is not None):
            with course.step("write"):
                self._told(self._write)
            changed = True
        if self.looker.takes_ids(self.look.sheet):
            changed = self._number() or changed
        if changed:
            with course.step("verify"):
                self._look_again()
        self._keep()
        self._stands(self.look, report=course.report, stuck=self.stuck)

    def _told(self, do: Callable[[], None]) -> None:
        """Do it; where it ends the round, what had arrived by then is told."""
        try:
            do()
        except InterruptedRunError as error:
            if isinstance(error.report, Report):
                self._stands(self.look, report=error.report, is_before=True)
            raise
        except (PetsyncError, KeyboardInterrupt) as error:
            why = error.message if isinstance(error, PetsyncError) else "the round was stopped"
            self._stands(self.look, report=self.course.report, is_before=True, unwritten=why)
            raise

    def _apply(self) -> None:
        job, plan = self.course.job, self.look.plan
        categories = categories_of(plan, self.look.sheet)
        self.files.begun.remember(plan.fingerprint, categories)
        report = self.looker.store.apply(
            plan,
            concurrency=job.concurrency,
            rate=job.rate,
            verify=job.verify,
            max_failures=job.max_failures,
            progress=False,
        )
        self.course.ran(report)
        self.base = with_report(self.base, report, categories)
        self.footing = replace(self.footing, runs=self.footing.runs | {mark_of(report)})

    def _write(self) -> None:
        """Write what the sheet takes from the store as it is after the run."""
        sheet, footing = self.look.sheet, self.footing
        now, inbound = self.look, self.look.inbound
        if self.course.report is not None:
            now = self.looker.look(sheet, self.looker.snapshot(), footing.base)
            # What the run sent is agreed on: a cell beside it that nobody edited takes the store's.
            now = now if footing.base is None else replace(now, base=self.base)
        added = sheetside.assigned(self.course.report)
        beside = replace(now, settled={**now.settled, **self.look.settled})
        inbound = self.looker.inbound(beside, self.look.plan, added, may_delete=footing.may_delete)
        if not inbound.verdict.ok:
            # The store moved meanwhile, and much: the next round holds it back.
            return
        settled = {**beside.settled, **added}
        beside = replace(beside, sight=sight_beside(now.plan, sheet, now.seen, settled, now.base))
        standing = replace(footing, base=self.base)
        written = sheetside.write(self.course, self.looker, beside, inbound, standing)
        self.stuck = written.stuck
        if self.base is not None:
            self.base = with_inbound(self.base, written.inbound)
            carried = digest_of(written.carried) if written.carried else footing.carried
            self.footing = replace(footing, carried=carried)
            self.files.base.keep(self.base, carried, self.footing.runs)
            self._agree()

    def _number(self) -> bool:
        """Give rows without an id that of their pet, whatever comes between; whether any got it."""
        added = sheetside.assigned(self.course.report)
        if not (added or self.look.settled):
            return False
        look = self.look
        if self.course.report is not None:
            look = self.looker.look(look.sheet, self.looker.snapshot(), self.base)
        known = {**look.settled, **self.look.settled, **added}
        ids = self.looker.numbered(look, known)
        if not ids:
            return False
        standing = replace(self.footing, base=self.base)
        try:
            with self.course.step("write"):
                stuck = sheetside.write(self.course, self.looker, look, ids, standing).stuck
            why = "; ".join(each.problem for each in stuck[:1])
        except SheetError as error:
            stuck, why = (), error.message
        if why:
            problem = f"rows could not be given the ids of their pets: {why}"
            self.notes = (Open(kind="note", problem=problem, hint=_UNNUMBERED),)
        return True

    def _look_again(self) -> None:
        sheet, snapshot = self.looker.read(), self.looker.snapshot()
        may_delete, claimed = self.footing.may_delete, self.footing.claimed
        before, job = self.look.snapshot, self.course.job
        self.look = self.looker.look(
            sheet, snapshot, self.base, may_delete=may_delete, claimed=claimed
        )
        if job.mode == "push":
            self.notes = (*self.notes, *came(self.course.report, before, snapshot))

    def _agree(self) -> None:
        has_ids = self.footing.has_ids_by_hand
        self.files.versions.agree(self.sheet, has_ids_by_hand=has_ids)

    def _keep(self) -> None:
        base = self.look.next_base()
        self.files.base.keep(base, self.footing.carried, self.footing.runs)
        self._agree()
        give_up(self.course, base, self.footing.own, named_ids(self.look.sheet))
        self.files.begun.forget()
        self.files.sheet.forget()
        self.files.versions.undo(self.footing.undone, self.look.sheet.digest)

    def _stands(self, look: Look, **more: Any) -> None:
        opens = Opens(self.course.job, look, is_first=self.looker.is_first, **more).all()
        self.course.stands((*self.footing.notes, *self.notes, *opens))


def _make(course: Course, looker: Looker) -> None:
    """Make the sheet of a job that pulls, where there is none yet."""
    with course.step("snapshot"):
        snapshot = looker.snapshot()
    course.note(pets=len(snapshot), drift=len(snapshot), to_sheet=Counts(add=len(snapshot)))
    if course.owner.dry_run:
        problem = f"the sheet is not there, and is to be made with {len(snapshot):,} pets"
        course.stands((Open(kind="drift", problem=problem),))
        return
    with course.step("write"):
        sheetside.made(looker, snapshot)
        course.note(applied=len(snapshot))
    with course.step("verify"):
        sheet = looker.read()
        course.note(rows=len(sheet))
        look = looker.look(sheet, looker.snapshot(), sheet.base)
    Files.of(course).base.keep(look.next_base(), digest_of(sheet.base))
    course.stands(Opens(course.job, look, is_first=looker.is_first).all())
