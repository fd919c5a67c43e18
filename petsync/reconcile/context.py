"""The context of one round: its job, its watchers, its results and its status."""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol

import msgspec

from petsync._display import in_terms_of_job
from petsync._terms import replace_terms
from petsync.config.model import Configuration, Job
from petsync.errors import (
    ApiError,
    FindingsError,
    GuardError,
    InterruptedRunError,
    LockedError,
    PetsyncError,
    SettingsError,
)
from petsync.plan.plan import Inbound, Plan
from petsync.plan.report import Report, RoundReport
from petsync.plan.rounds import Counts, Difference, Round, SheetChange, Status, exit_code_of
from petsync.reconcile import state
from petsync.reconcile.state import History, StatePaths
from petsync.redact import Redactor
from petsync.report.round import complete

__all__ = [
    "CODES",
    "Reconciliation",
    "RoundContext",
    "Step",
    "Watcher",
    "Watchers",
    "in_terms_of_jobs",
]


# Watcher: gets the events of a reconciliation while it runs.


Step = Literal[
    "resume", "read", "snapshot", "plan", "guard", "apply", "write", "verify", "report", "notify"
]


class Watcher(Protocol):
    """An observer of rounds, for logs, metrics or spans. Errors of a watcher are logged and never
    end a round.
    """

    def on_begin(self, round_: Round) -> None:
        """A round starts; only its identifying fields are set. Not called for a job that fails
        before its first round starts, for example because it is locked.
        """

    def step(self, round_: Round, name: Step) -> AbstractContextManager[object]:
        """Return a context manager for one step; an error of the step passes through it."""

    def on_end(self, report: RoundReport) -> None:
        """The round has ended. Its report is already written, unless that failed or this is a dry
        run. Also called for a round without `on_begin`.
        """


# The watchers of a round. An error in one cannot end the round.


_LOG = logging.getLogger(__name__)


class Watchers:
    """Calls each watcher. An error of one is logged, and the others are still called.

    An interrupt is not caught.
    """

    def __init__(self, watchers: Iterable[Watcher] = ()) -> None:
        self._watchers = tuple(watchers)

    def on_begin(self, round_: Round) -> None:
        """Notify the watchers that a round starts."""
        for watcher in self._watchers:
            _run_safely(watcher, partial(watcher.on_begin, round_))

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Run a step in the watchers' context managers; an error of the step is not suppressed."""
        with ExitStack() as stack:
            for watcher in self._watchers:
                stack.enter_context(_Step(watcher, round_, name))
            yield

    def on_end(self, report: RoundReport) -> None:
        """Notify the watchers that a round has ended."""
        for watcher in self._watchers:
            _run_safely(watcher, partial(watcher.on_end, report))


class _Step(AbstractContextManager[None]):
    """A watcher's context manager for a step; it suppresses errors of the watcher."""

    def __init__(self, watcher: Watcher, round_: Round, name: Step) -> None:
        self._watcher, self._round, self._name = watcher, round_, name
        self._inner: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        def enter() -> None:
            inner = self._watcher.step(self._round, self._name)
            inner.__enter__()
            self._inner = inner

        _run_safely(self._watcher, enter)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        inner = self._inner
        if inner is None:
            return
        try:
            inner.__exit__(kind, error, trace)
        except Exception as raised:  # noqa: BLE001 - whatever a watcher does, the round goes on
            if raised is not error:
                _log_watcher_error(self._watcher)


def _run_safely(watcher: Watcher, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - whatever a watcher does, the round goes on
        _log_watcher_error(watcher)


def _log_watcher_error(watcher: Watcher) -> None:
    _LOG.exception("%s failed; the round continues", type(watcher).__name__)


# RoundContext: one round while it runs, and its end.


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
    "The next round tries again. If the problem persists, `petsync doctor` tests the service."
)
_KEYS = (
    (r'--encoding (\S+), in Python encoding="[^"]+"', r'encoding = "\1" in the job'),
    (r'--sheet NAME, in Python tab="NAME"', 'tab = "NAME" in the job'),
    (r"--allow-http (\S+), in Python allow_http=\['\1'\]", r'allow_http = ["\1"] in the job'),
    (
        r"If these guesses are right[^\n]*\n[^\n]*\n[^\n]*\nOtherwise map",
        "In petsync.toml, [columns], map",
    ),
    (r"--max-failures, in Python ", ""),
    (
        r"\(--column (?:HEADER=COLUMN|'[^']*'|\S+), in Python mapping=\{[^}]*\}\)",
        "([columns] in petsync.toml)",
    ),
    (r"--sheet .+?, in Python tab=(['\"])(.*?)\1", r"tab = \1\2\1 in the job"),
)
"""Patterns of command-line options in messages, and the configuration's text for each."""
_JOURNAL = "the journal "
"""The start of the reason of a run that stopped because its journal cannot be written."""
_FAULT = "This is probably a bug in petsync. Please report it; the log has the traceback."


def in_terms_of_jobs(text: str, job: str) -> str:
    """Return the text with the configuration's options instead of those of commands and Python, and
    with the command that runs the job instead of the advice to plan again.
    """
    return in_terms_of_job(replace_terms(text, _KEYS), job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The values that all rounds of one reconciliation share.

    `moved`: the user confirms that the job's store is the same store at a new address. `formers`:
    the former names of jobs that were renamed since their last round, by current name.
    """

    config: Configuration
    watchers: Watchers
    dry_run: bool = False
    moved: bool = False
    formers: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> StatePaths:
        """The paths of the state folder. A dry run renames no files, so it uses those with former
        job names.
        """
        return StatePaths(self.config.state, self.formers if self.dry_run else {})

    def scrub(self, text: str) -> str:
        """Return the text without the configuration's secrets."""
        return Redactor(self.config.secrets)(text)


@dataclass(slots=True)
class RoundContext:
    """A round while it runs.

    `round` has the facts known so far. `is_ended`: after an interrupt, no further rounds are run.
    """

    owner: Reconciliation
    job: Job
    round: Round
    read_at: str = ""
    plan: Plan | None = None
    report: Report | None = None
    opens: tuple[Difference, ...] = ()
    sheet: tuple[SheetChange, ...] = ()
    is_ended: bool = False
    _has_status: bool = False
    _since: float = field(default_factory=time.monotonic)

    @classmethod
    def begin(
        cls, owner: Reconciliation, job: Job, *, part: str = "", source: str = ""
    ) -> RoundContext:
        """Return the context of a new round that starts now."""
        now = datetime.now(UTC)
        round_ = Round(
            id=f"{now:%Y%m%d-%H%M%S-%f}-{secrets.token_hex(2)}",
            job=job.name,
            part=part,
            mode=job.mode,
            dry_run=owner.dry_run,
            store=job.url,
            replaced_url=owner.config.replaced_url_of(job),
            source=source,
            started=now.isoformat(timespec="microseconds"),
            again=owner.config.again(job),
            common=owner.config.common_options(job, job.url),
        )
        return cls(owner, job, round_)

    def note(self, **facts: Any) -> None:
        """Set fields of the round."""
        self.round = msgspec.structs.replace(self.round, **facts)

    def set_status(self, status: Status, problem: str = "", hint: str = "") -> None:
        """Set the status of the round, regardless of its open differences."""
        self._has_status = True
        self._say(status, problem, hint)

    @contextmanager
    def step(self, name: Step) -> Iterator[None]:
        with self.owner.watchers.step(self.round, name):
            yield

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn an error or interrupt inside the context into the round's status."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported, not swallowed
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the round with an error, or as interrupted."""
        if isinstance(error, KeyboardInterrupt):
            self.is_ended = True
            self.set_status("interrupted", "the round was stopped", "The next round continues.")
            return
        if isinstance(error, InterruptedRunError):
            self._stop(error)
            return
        if isinstance(error, PetsyncError):
            cure = _SERVICE if isinstance(error, ApiError) else ""
            self.set_status(_status_of(error), error.problem, error.cure or cure)
            if isinstance(error, SettingsError):
                self.note(exit_code=SettingsError.exit_code)
            return
        trace = "".join(traceback.format_exception(error))
        _LOG.error("round %s failed:\n%s", self.round.id, self.owner.scrub(trace))
        reason = " ".join(str(error).split())[:300]
        self.set_status("error", f"unexpected: {type(error).__name__}: {reason}", _FAULT)

    def _stop(self, error: InterruptedRunError) -> None:
        status: Status = "interrupted"
        if isinstance(error.report, Report):
            self.note_report(error.report)
            self.is_ended = error.report.stopped.startswith("interrupted")
            # Until the disk has room, another round stops there too.
            status = "error" if error.report.stopped.startswith(_JOURNAL) else status
        hint = f"The next round continues. {error.cure}".strip()
        self.set_status(status, error.problem, hint)

    def note_plan(self, plan: Plan | None, inbound: Inbound | None) -> None:
        """Note the changes planned for the store and for the sheet."""
        self.plan = plan
        if plan is not None:
            counts = Counts(add=len(plan.adds), update=len(plan.updates), delete=len(plan.deletes))
            self.note(to_store=counts)
        if inbound is not None:
            self.sheet = inbound.changes
            self.note(to_sheet=inbound.touched)

    def note_report(self, report: Report) -> None:
        """Note the results of the run."""
        self.report = report
        applied = sum(each.outcome == "applied" for each in report.results)
        runs = dict.fromkeys([*self.round.runs, report.run_id])
        self.note(runs=tuple(runs), applied=self.round.applied + applied)

    def note_open(self, opens: tuple[Difference, ...]) -> None:
        """Note the open differences, and set the status that follows from them, unless `set_status`
        was called before.
        """
        self.opens = tuple(
            msgspec.structs.replace(
                each,
                problem=self._complete(each.problem),
                hint=self._complete(each.hint),
            )
            for each in opens
        )
        kinds: Counter[str] = Counter(each.kind for each in opens)
        self.note(
            conflicts=kinds["conflict"],
            findings=kinds["finding"],
            failed=kinds["failed"],
            notes=kinds["note"],
            unexplained=kinds["drift"],
        )
        if not self._has_status:
            self._say(self._end(kinds))

    def _say(self, status: Status, problem: str = "", hint: str = "") -> None:
        problem, hint = (self.owner.scrub(self._complete(each)) for each in (problem, hint))
        self.note(status=status, exit_code=CODES[status], problem=problem, hint=hint)

    def _complete(self, text: str) -> str:
        return complete(self.round, in_terms_of_jobs(text, self.job.name))

    def _end(self, kinds: Mapping[str, int]) -> Status:
        for kind, status in _ENDS:
            if kinds.get(kind):
                return status
        # `applied` counts neither rows that were only partly written nor changes of resumed runs.
        did = self.round.applied or self.round.backup or self.round.resumed
        return "done" if did else "in-sync"

    def close(self) -> RoundReport:
        """Store the round, except in a dry run; notify the watchers; return the report."""
        self.note(seconds=round(time.monotonic() - self._since, 3))
        if not self.owner.dry_run:
            self._write()
        report = self._all()
        self.owner.watchers.on_end(report)
        return report

    def _write(self) -> None:
        settings = self.owner.config.report
        page = state.path_of(settings, self.job.name, self.round.id)
        self.note(report=str(page))
        try:
            with self.step("report"):
                state.save(settings, self._all())
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported, not swallowed
            self.note(report="")
            self._note_error(error)
        try:
            History(self.owner.config.state).append(self.round)
        except Exception as error:  # noqa: BLE001 - reported, not swallowed
            self._note_error(error)

    def _note_error(self, error: BaseException) -> None:
        """Set the status of a round that could not be stored, unless it has a worse one already."""
        before = self.round.exit_code, self.round.status, self.round.problem, self.round.hint
        self.fail(error)
        if exit_code_of((before[0], self.round.exit_code)) == before[0]:
            code, status, problem, hint = before
            self.note(exit_code=code, status=status, problem=problem, hint=hint)
            _LOG.error("round %s: %s", self.round.id, self.owner.scrub(str(error)))

    def _all(self) -> RoundReport:
        return RoundReport(
            round=self.round, open=self.opens, plan=self.plan, report=self.report, sheet=self.sheet
        )


_ENDS: tuple[tuple[str, Status], ...] = (
    ("failed", "failed-rows"),
    ("finding", "findings"),
    ("conflict", "conflicts"),
    ("drift", "drift"),
)
"""The status that follows from each kind of open difference, in order of precedence."""


def _status_of(error: PetsyncError) -> Status:
    kinds: tuple[tuple[type[PetsyncError], Status], ...] = (
        (LockedError, "locked"),
        (FindingsError, "findings"),
        (GuardError, "refused"),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), "error")
