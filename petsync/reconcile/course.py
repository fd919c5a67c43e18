"""Course: one round on its way, and how it is told, whatever becomes of it."""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from petsync.diff.intake import Inbound
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.diff.round import Counts, Open, Round, SheetChange, Status, exit_code_of
from petsync.diff.round_report import RoundReport
from petsync.errors import (
    ApiError,
    FindingsError,
    GuardError,
    InterruptedRunError,
    LockedError,
    PetsyncError,
    SettingsError,
)
from petsync.reconcile import reports
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.history import History
from petsync.reconcile.kept import Kept
from petsync.reconcile.telling import Telling
from petsync.reconcile.watcher import Step
from petsync.redact import Redactor

__all__ = ["CODES", "Course", "Pass"]

_LOG = logging.getLogger(__name__)

CODES: dict[Status, int] = {
    "in-sync": 0,
    "done": 0,
    "drift": 2,
    "findings": 3,
    "failed-rows": 3,
    "waiting": 4,
    "refused": 4,
    "conflicts": 5,
    "locked": 6,
    "interrupted": 7,
    "error": 1,
}
"""The exit code of each status."""
_SERVICE = (
    "The next round tries again. If it stays so, `petsync doctor` says what the service answers."
)
_FAULT = "This is a fault in petsync. Please report it; the log has its traceback."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What all rounds of one reconciliation share. `moved`: the job's store is the same one, at
    another address.
    """

    config: Configuration
    telling: Telling
    dry_run: bool = False
    moved: bool = False

    @property
    def kept(self) -> Kept:
        """Where things are kept."""
        return Kept(self.config.state)

    def scrubbed(self, text: str) -> str:
        """The text without any secret of the configuration."""
        return Redactor(self.config.secrets)(text)


@dataclass(slots=True)
class Course:
    """One round; `told` says of it what is known so far. `is_ended` where a person ended it, and
    with it all that was to follow.
    """

    owner: Pass
    job: Job
    told: Round
    plan: Plan | None = None
    report: Report | None = None
    opens: tuple[Open, ...] = ()
    sheet: tuple[SheetChange, ...] = ()
    is_ended: bool = False
    _is_said: bool = False
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def begun(cls, owner: Pass, job: Job, *, part: str = "", source: str = "") -> Course:
        """A round that begins now."""
        now = datetime.now(UTC)
        told = Round(
            id=f"{now:%Y%m%d-%H%M%S-%f}-{secrets.token_hex(2)}",
            job=job.name,
            part=part,
            mode=job.mode,
            dry_run=owner.dry_run,
            store=job.url,
            source=source,
            started=now.isoformat(timespec="microseconds"),
        )
        return cls(owner, job, told)

    def note(self, **facts: Any) -> None:
        """Fill in what is known of the round now."""
        self.told = msgspec.structs.replace(self.told, **facts)

    def ends(self, status: Status, problem: str = "", hint: str = "") -> None:
        """Say how it ends, whatever else stands."""
        self._is_said = True
        self._say(status, problem, hint)

    @contextmanager
    def step(self, name: Step) -> Iterator[None]:
        """Around a step, which the watchers are told of."""
        with self.owner.telling.step(self.told, name):
            yield

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Whatever ends the work inside becomes how the round ends."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, not swallowed
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End with an error, or as interrupted."""
        if isinstance(error, KeyboardInterrupt):
            self.is_ended = True
            self.ends("interrupted", "the round was stopped", "The next round goes on.")
            return
        if isinstance(error, InterruptedRunError):
            self._stopped(error)
            return
        if isinstance(error, PetsyncError):
            cure = _SERVICE if isinstance(error, ApiError) else ""
            self.ends(_status_of(error), error.message, error.hint or cure)
            if isinstance(error, SettingsError):
                self.note(exit_code=SettingsError.exit_code)
            return
        trace = "".join(traceback.format_exception(error))
        _LOG.error("round %s failed:\n%s", self.told.id, self.owner.scrubbed(trace))
        reason = " ".join(str(error).split())[:300]
        self.ends("error", f"unexpected: {type(error).__name__}: {reason}", _FAULT)

    def _stopped(self, error: InterruptedRunError) -> None:
        if isinstance(error.report, Report):
            self.ran(error.report)
            self.is_ended = error.report.stopped.startswith("interrupted")
        self.ends("interrupted", error.message, f"The next round resumes it. {error.hint}".strip())

    def planned(self, plan: Plan | None, inbound: Inbound | None) -> None:
        """What the store, and what the sheet is to take."""
        self.plan = plan
        if plan is not None:
            counts = Counts(add=len(plan.adds), update=len(plan.updates), delete=len(plan.deletes))
            self.note(to_store=counts)
        if inbound is not None:
            self.sheet = inbound.changes
            self.note(to_sheet=inbound.touched)

    def ran(self, report: Report) -> None:
        """What became of it there."""
        self.report = report
        applied = sum(each.outcome == "applied" for each in report.results)
        runs = dict.fromkeys([*self.told.runs, report.run_id])
        self.note(runs=tuple(runs), applied=self.told.applied + applied)

    def stands(self, opens: tuple[Open, ...]) -> None:
        """What is open at the end, and how the round ends by that."""
        self.opens = opens
        kinds: Counter[str] = Counter(each.kind for each in opens)
        self.note(
            conflicts=kinds["conflict"],
            findings=kinds["finding"],
            failed=kinds["failed"],
            notes=kinds["note"],
            left=kinds["drift"],
        )
        if not self._is_said:
            self._say(self._end(kinds))

    def _say(self, status: Status, problem: str = "", hint: str = "") -> None:
        scrubbed = self.owner.scrubbed
        self.note(
            status=status, exit_code=CODES[status], problem=scrubbed(problem), hint=scrubbed(hint)
        )

    def _end(self, kinds: Mapping[str, int]) -> Status:
        for kind, status in _ENDS:
            if kinds.get(kind):
                return status
        # Ids that rows got are no changes, and a run that was resumed was an earlier round's.
        did = self.told.applied or self.told.backup or self.told.resumed
        return "done" if did else "in-sync"

    def close(self) -> RoundReport:
        """Write down how it went, tell the watchers, and give what is to be told."""
        self.note(seconds=round(time.monotonic() - self._since, 3))
        if not self.owner.dry_run:
            self._written()
        told = self._all()
        self.owner.telling.ended(told)
        return told

    def _written(self) -> None:
        settings = self.owner.config.report
        page = reports.path_of(settings, self.job.name, self.told.id)
        self.note(report=str(page))
        try:
            with self.step("report"):
                reports.save(settings, self._all())
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, not swallowed
            self.note(report="")
            self._unwritten(error)
        try:
            History(self.owner.config.state).append(self.told)
        except Exception as error:  # noqa: BLE001 - told, not swallowed
            self._unwritten(error)

    def _unwritten(self, error: BaseException) -> None:
        """A round that went well, and of which nothing can be kept, did not go well."""
        before = self.told.exit_code, self.told.status, self.told.problem, self.told.hint
        self.fail(error)
        if exit_code_of((before[0], self.told.exit_code)) == before[0]:
            code, status, problem, hint = before
            self.note(exit_code=code, status=status, problem=problem, hint=hint)
            _LOG.error("round %s: %s", self.told.id, self.owner.scrubbed(str(error)))

    def _all(self) -> RoundReport:
        return RoundReport(
            round=self.told, open=self.opens, plan=self.plan, report=self.report, sheet=self.sheet
        )


_ENDS: tuple[tuple[str, Status], ...] = (
    ("failed", "failed-rows"),
    ("finding", "findings"),
    ("conflict", "conflicts"),
    ("drift", "drift"),
)
"""What of that which stands is told first."""


def _status_of(error: PetsyncError) -> Status:
    kinds: tuple[tuple[type[PetsyncError], Status], ...] = (
        (LockedError, "locked"),
        (FindingsError, "findings"),
        (GuardError, "refused"),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), "error")
