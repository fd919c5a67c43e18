"""One round of a job: read both sides, plan, hold or send, write the sheet, and report."""

from __future__ import annotations

import json
import logging
import os.path
import secrets
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol
from urllib.parse import unquote

import msgspec
import numpy as np
import pandas as pd

from petsync import sheets
from petsync.errors import (
    ApiError,
    FindingsError,
    GuardError,
    InterruptedRunError,
    LockedError,
    PetsyncError,
    SettingsError,
    SheetError,
)
from petsync.models import Pet
from petsync.plan import arguments
from petsync.plan.base import (
    SETTLED,
    as_exported,
    compare_rows,
    find_changed_units,
    named_ids,
    with_inbound,
    with_missing,
    with_newer_cells,
    with_report,
    with_unknown,
)
from petsync.plan.change import Change, Snapshot, Update, describe_limits
from petsync.plan.compare import IdExchange, find_exchanged
from petsync.plan.fields import COLUMNS_OF, UNITS, Unit, Vocabulary, normal, same, says, with_fields
from petsync.plan.guard import CAPACITY_CURE, Refusal
from petsync.plan.lineage import RowRecord, actions_of, find_alike, read_row_pets, slots_of
from petsync.plan.match import Row, build_pet, iter_rows, pets_of
from petsync.plan.plan import IdentifiedRow, Inbound, Plan
from petsync.plan.report import PastRun, Report, Result, RoundReport, Rounds, undone_by
from petsync.plan.rounds import Counts, Difference, Round, SheetChange, Status, exit_code_of
from petsync.reconcile import state
from petsync.reconcile.compare import (
    Comparer,
    Comparison,
    Differences,
    compare_planned_rows,
    note_copies,
    note_twins,
)
from petsync.reconcile.config.model import Configuration, Job
from petsync.reconcile.locks import lock_job, place_of, turn
from petsync.reconcile.sources import Folder, Source, connect_store, sources_of
from petsync.reconcile.state import (
    BaseFile,
    CellKey,
    History,
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
    is_final,
    judge_by_bytes,
    mark_of,
    report_of,
)
from petsync.redact import Redactor
from petsync.report.words import replace_terms
from petsync.sheets import Obstacle
from petsync.store import Store
from petsync.store.runs import OutputRequest, Outputs
from petsync.table.base import Base
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = [
    "CODES",
    "STEPS",
    "Reconciliation",
    "RoundContext",
    "RoundStart",
    "SheetFiles",
    "Step",
    "Watcher",
    "Watchers",
    "WriteResult",
    "assigned_ids",
    "check",
    "find_start",
    "give_up",
    "is_held",
    "is_same_address",
    "is_to_be_made",
    "make_sheet",
    "must_have_ids",
    "reconcile_jobs",
    "select_writable",
    "settle_runs",
    "with_claims",
    "with_found_rows",
    "with_older_rows",
    "with_siblings",
    "work",
    "write",
]


# Watcher: whoever is told, while it happens, what a reconciliation does.


Step = Literal[
    "resume", "read", "snapshot", "plan", "guard", "apply", "write", "verify", "report", "notify"
]
STEPS: tuple[Step, ...] = (
    "resume",
    "read",
    "snapshot",
    "plan",
    "guard",
    "apply",
    "write",
    "verify",
    "report",
    "notify",
)


class Watcher(Protocol):
    """Logs, metrics or spans. Errors of a watcher are logged and never end a round."""

    def began(self, round_: Round) -> None:
        """A round has the job's lock and starts; only its identifying fields are set."""

    def step(self, round_: Round, name: Step) -> AbstractContextManager[object]:
        """Return a context manager for one step; an error of the step passes through it."""

    def ended(self, report: RoundReport) -> None:
        """The round has ended, and its report is written."""


# Telling: the watchers of a round, none of whom can end it.


_LOG = logging.getLogger(__name__)


class Watchers:
    """Calls each watcher. An error of one is logged, and the others are still called.

    An interrupt is not a watcher's error and passes through.
    """

    def __init__(self, watchers: Iterable[Watcher] = ()) -> None:
        self._watchers = tuple(watchers)

    def began(self, round_: Round) -> None:
        """Tell the watchers that a round starts."""
        for watcher in self._watchers:
            _safely(watcher, partial(watcher.began, round_))

    @contextmanager
    def step(self, round_: Round, name: Step) -> Iterator[None]:
        """Wrap a step; its error reaches every watcher and then the caller."""
        with ExitStack() as stack:
            for watcher in self._watchers:
                stack.enter_context(_Step(watcher, round_, name))
            yield

    def ended(self, report: RoundReport) -> None:
        """Tell the watchers that a round has ended."""
        for watcher in self._watchers:
            _safely(watcher, partial(watcher.ended, report))


class _Step(AbstractContextManager[None]):
    """A watcher's context manager for a step, whose errors do not leave it."""

    def __init__(self, watcher: Watcher, round_: Round, name: Step) -> None:
        self._watcher, self._round, self._name = watcher, round_, name
        self._inner: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        def enter() -> None:
            inner = self._watcher.step(self._round, self._name)
            inner.__enter__()
            self._inner = inner

        _safely(self._watcher, enter)

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
                _complain(self._watcher)


def _safely(watcher: Watcher, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - whatever a watcher does, the round goes on
        _complain(watcher)


def _complain(watcher: Watcher) -> None:
    _LOG.exception("%s failed; the round goes on", type(watcher).__name__)


# RoundContext: one round while it runs, and how it ends.


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
    "The next round tries again. If it persists, `petsync doctor` shows the service's answers."
)
_KEYS = (
    (r'--encoding (\S+), in Python encoding="[^"]+"', r'encoding = "\1" in the job'),
    (r'--sheet NAME, in Python tab="NAME"', 'tab = "NAME" in the job'),
    (r"--allow-http (\S+), in Python allow_http=\['\1'\]", r'allow_http = ["\1"] in the job'),
    (r"--max-failures, in Python ", ""),
)
"""How the configuration writes options of the command line."""
_FAULT = "This is a fault in petsync. Please report it; the log has its traceback."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The values that all rounds of one reconciliation share.

    `moved`: the job's store is the same one at another address. `formers`: the former names of jobs
    that were renamed since their last round.
    """

    config: Configuration
    watchers: Watchers
    dry_run: bool = False
    moved: bool = False
    formers: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> StatePaths:
        """The paths of the state folder. A dry run renames no files."""
        return StatePaths(self.config.state, self.formers if self.dry_run else {})

    def scrub(self, text: str) -> str:
        """Return the text without the configuration's secrets."""
        return Redactor(self.config.secrets)(text)


@dataclass(slots=True)
class RoundContext:
    """A round while it runs.

    `round` has the facts known so far. `is_ended`: a person ended the round and all later ones.
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
        """Return a round that starts now."""
        now = datetime.now(UTC)
        round_ = Round(
            id=f"{now:%Y%m%d-%H%M%S-%f}-{secrets.token_hex(2)}",
            job=job.name,
            part=part,
            mode=job.mode,
            dry_run=owner.dry_run,
            store=job.url,
            source=source,
            started=now.isoformat(timespec="microseconds"),
        )
        return cls(owner, job, round_)

    def note(self, **facts: Any) -> None:
        """Set fields of the round."""
        self.round = msgspec.structs.replace(self.round, **facts)

    def ends(self, status: Status, problem: str = "", hint: str = "") -> None:
        """Set how the round ends, whatever differences are open."""
        self._has_status = True
        self._say(status, problem, hint)

    @contextmanager
    def step(self, name: Step) -> Iterator[None]:
        """Wrap a step, and tell the watchers."""
        with self.owner.watchers.step(self.round, name):
            yield

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn any error of the work inside into the round's status."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, not swallowed
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the round with an error, or as interrupted."""
        if isinstance(error, KeyboardInterrupt):
            self.is_ended = True
            self.ends("interrupted", "the round was stopped", "The next round goes on.")
            return
        if isinstance(error, InterruptedRunError):
            self._stop(error)
            return
        if isinstance(error, PetsyncError):
            cure = _SERVICE if isinstance(error, ApiError) else ""
            self.ends(_status_of(error), error.message, error.hint or cure)
            if isinstance(error, SettingsError):
                self.note(exit_code=SettingsError.exit_code)
            return
        trace = "".join(traceback.format_exception(error))
        _LOG.error("round %s failed:\n%s", self.round.id, self.owner.scrub(trace))
        reason = " ".join(str(error).split())[:300]
        self.ends("error", f"unexpected: {type(error).__name__}: {reason}", _FAULT)

    def _stop(self, error: InterruptedRunError) -> None:
        if isinstance(error.report, Report):
            self.note_report(error.report)
            self.is_ended = error.report.stopped.startswith("interrupted")
        hint = f"The next round does the rest. {error.hint}".strip()
        self.ends("interrupted", error.message, hint)

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
        """Note the open differences, and set the status that follows from them."""
        self.opens = tuple(
            msgspec.structs.replace(
                each,
                problem=replace_terms(each.problem, _KEYS),
                hint=replace_terms(each.hint, _KEYS),
            )
            for each in opens
        )
        kinds: Counter[str] = Counter(each.kind for each in opens)
        self.note(
            conflicts=kinds["conflict"],
            findings=kinds["finding"],
            failed=kinds["failed"],
            notes=kinds["note"],
            left=kinds["drift"],
        )
        if not self._has_status:
            self._say(self._end(kinds))

    def _say(self, status: Status, problem: str = "", hint: str = "") -> None:
        problem, hint = (self.owner.scrub(replace_terms(each, _KEYS)) for each in (problem, hint))
        self.note(status=status, exit_code=CODES[status], problem=problem, hint=hint)

    def _end(self, kinds: Mapping[str, int]) -> Status:
        for kind, status in _ENDS:
            if kinds.get(kind):
                return status
        # Ids that rows got are no changes, and a run that was resumed was an earlier round's.
        did = self.round.applied or self.round.backup or self.round.resumed
        return "done" if did else "in-sync"

    def close(self) -> RoundReport:
        """Store the round, tell the watchers, and return its report."""
        self.note(seconds=round(time.monotonic() - self._since, 3))
        if not self.owner.dry_run:
            self._write()
        report = self._all()
        self.owner.watchers.ended(report)
        return report

    def _write(self) -> None:
        settings = self.owner.config.report
        page = state.path_of(settings, self.job.name, self.round.id)
        self.note(report=str(page))
        try:
            with self.step("report"):
                state.save(settings, self._all())
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, not swallowed
            self.note(report="")
            self._note_error(error)
        try:
            History(self.owner.config.state).append(self.round)
        except Exception as error:  # noqa: BLE001 - told, not swallowed
            self._note_error(error)

    def _note_error(self, error: BaseException) -> None:
        """Set the status of a round that could not be stored, unless it is worse already."""
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
"""The statuses of open differences, in the order of precedence."""


def _status_of(error: PetsyncError) -> Status:
    kinds: tuple[tuple[type[PetsyncError], Status], ...] = (
        (LockedError, "locked"),
        (FindingsError, "findings"),
        (GuardError, "refused"),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), "error")


# RoundStart: what a round starts from.


@dataclass(frozen=True, slots=True)
class SheetFiles:
    """The stored files of one sheet of a job."""

    base: BaseFile
    pending: PendingRuns
    waiting: Waiting
    sheet: SheetWaiting
    versions: Versions

    @classmethod
    def of(cls, context: RoundContext) -> SheetFiles:
        """Return the files of the round's sheet."""
        return cls.for_sheet(context.owner.paths, context.job.name, context.round.part)

    @classmethod
    def for_sheet(cls, paths: StatePaths, job: str, part: str) -> SheetFiles:
        """Return the files of a job's sheet."""
        name = (job, part)
        return cls(
            BaseFile(paths.base(*name)),
            PendingRuns(paths.pending(*name)),
            Waiting(paths.waiting(*name), job),
            SheetWaiting(paths.waiting(*name, side="sheet")),
            Versions(paths.versions(*name)),
        )


@dataclass(frozen=True, slots=True)
class RoundStart:
    """What a round knows before it compares the two sides."""

    base: Base | None
    """The values that both sides last agreed on; None in a first round."""
    carried: str = ""
    """The digest of the base that the sheet carries; "" if it carries none."""
    notes: tuple[Difference, ...] = ()
    """What to report about the base."""
    may_delete: bool = True
    """False if the base may not be the last one: then nothing is deleted."""
    undone: tuple[Version, ...] = ()
    """The versions that the sheet no longer has, because it is a restored older copy."""
    doubts: tuple[Version, ...] = ()
    """The versions that the sheet may no longer have."""
    own: frozenset[int] = frozenset()
    """The pets of the sheet's own base."""
    runs: frozenset[str] = frozenset()
    """The marks of the runs whose results the base contains."""
    claimed: frozenset[int] = frozenset()
    """Pets that are in no row, but not missing: another sheet may have their rows."""
    found: tuple[Version, ...] = ()
    """Versions to store that runs by hand wrote or that the sheet carries."""
    has_ids_by_hand: bool = False
    """True if runs by hand may have written ids since a version whose round was killed."""
    may_lack: frozenset[int] = frozenset()
    """Pets whose rows had an id and may lack it again."""
    added: tuple[RecentRun, ...] = ()
    """Runs by hand, limited to the pets that they added, that no row names, and that the base
    lacks.
    """
    returning: frozenset[int] = frozenset()
    """Pets whose rows an older copy of the folder's file lost, and that get them again."""
    sibling_restored: str = ""
    """When a round last found an older copy in the folder's other files, ISO 8601, or ""."""
    lost: frozenset[int] = frozenset()
    """Pets whose rows are not found by an id or a name."""
    lost_notes: tuple[Difference, ...] = ()
    """The notes on `lost`, to report for those that stay lost."""
    before_loss: Base | None = None
    """The base that still contains `lost`."""
    put_back: str = ""
    """When a round last found that the sheet is an older copy, ISO 8601, or ""."""

    def carrying(self, carried: Base | None) -> RoundStart:
        """Return the start for a sheet that carries another base now; None: it still carries the
        same one.
        """
        return self if carried is None else replace(self, carried=digest_of(carried))

    def is_put_back_since(self, record: RowRecord) -> bool:
        """Return true if the row may be older than the record's run: the sheet is an older copy, or
        was one since that run.
        """
        is_older = bool(self.put_back) and _is_before(record.run_started, self.put_back)
        return bool(self.undone) or is_older


def compare_sides(
    comparer: Comparer, sheet: Sheet, snapshot: Snapshot, start: RoundStart
) -> Comparison:
    """Compare sheet and store, with what `start` knows of pets in no row."""
    return comparer.compare(
        sheet,
        snapshot,
        start.base,
        may_delete=start.may_delete,
        claimed=start.claimed,
        may_lack=start.may_lack,
        returning=start.returning,
        sibling_restored=start.sibling_restored,
    )


def settle_runs(context: RoundContext, store: Store) -> tuple[RecentRun, ...]:
    """Return the runs that earlier rounds, or persons who released their plans, started and that
    the job's base does not contain yet, the oldest first.

    The job's own run is resumed first if it was stopped.
    """
    if context.job.mode in ("pull", "check"):
        return ()
    files, is_dry = SheetFiles.of(context), context.owner.dry_run
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
    """Return the base for this round, see `_find_base`, marked unsure where rows have older values
    again.

    If an older copy was restored, this applies to every column, else to columns that were missing
    in the last round.
    """
    start = _find_base(context, sheet, service, past, elsewhere, folder)
    files = SheetFiles.of(context)
    base = start.base
    if base is None or context.job.mode != "two-way":
        return start
    is_older = bool(start.undone) or files.versions.has_backup_note
    columns = {*COLUMNS} if is_older else base.missing
    if not columns.intersection(sheet.rows):
        return start
    versions = files.versions.all()
    units = find_reverted(sheet, versions, base, columns)
    return replace(start, base=_with_unsure(base, units)) if units else start


def _find_base(
    context: RoundContext,
    sheet: Sheet,
    service: Store,
    past: Sequence[RecentRun],
    elsewhere: Collection[int],
    folder: Folder | None,
) -> RoundStart:
    """Return the base for this round.

    It is the stored base with the results of later runs; or the older base if the sheet is a
    restored backup; or the base that the sheet carries, if that is another one than in the last
    round, because somebody exported the sheet again. A restored backup is noted until a round has
    finished with the sheet. A folder's other sheets have the pets `elsewhere`. Raises SheetError if
    the base is of another store, unless that store was moved.
    """
    store = service.url
    own_base = None if sheet.base is None else as_exported(sheet.base)
    if context.job.mode == "check":
        return RoundStart(own_base)
    memory = SheetFiles.of(context).base.load(set_aside=not context.owner.dry_run)
    carried = digest_of(sheet.base)
    # The last round saw another base in the sheet: it was exported again, or is an older file.
    other = carried if carried != memory.carried else ""
    if own_base is not None and other and not _is_backup(context, sheet, memory, other):
        return _start_from_export(context, sheet, own_base, service, memory)
    if memory.base is None:
        refused = sheet.base_refused and f"{sheet.base_refused}; this round is as the first one"
        first = _with_runs(None, past)
        return RoundStart(
            first, carried, _build_notes(memory.problem, refused), not memory.is_older
        )
    base, moved = _check_store_of_base(
        context, memory.base, store, f"the base of job {context.job.name} is of"
    )
    inbound = SheetFiles.of(context).sheet.released_edits(sheet)
    every = _load_versions(context, base, inbound)
    versions = [each for each in every if not each.is_undone]
    last = [each for each in versions if not each.is_state][-1:]
    cut_off = next((each for each in last if not each.is_agreed), None)
    runs, newest = memory.runs, base
    if cut_off is not None:
        base, runs = replace(Base.from_lines(cut_off.base), store=store), frozenset(cut_off.runs)
    own = {*(each.report.run_id for each in past), *(mark.partition(":")[0] for mark in runs)}
    has_ids_by_hand = _has_ids_by_hand(context, sheet, every, service, own)
    if (
        inbound is None
        and cut_off is not None
        and has_arrived(sheet, cut_off, has_ids_by_hand=has_ids_by_hand)
    ):
        inbound = cut_off.inbound
        # Beside the kept base, what the killed round wrote would look like an older copy.
        newest = with_inbound(base, inbound)
    whole = _with_moved_rows(sheet, newest, every, context.round.part, folder)
    copy = _find_older_copy(context, whole, every, newest, other)
    by_hand, notes_by_hand = _find_runs_by_hand(
        context, sheet, base.taken_at, service, own, versions=every, last=base
    )
    by_hand, added = _split_added_pets(by_hand, sheet)
    base = base.without(_find_pets_added_again(base, sheet, service, own))
    past = sorted([*past, *by_hand], key=lambda each: each.report.started)
    new = [each for each in past if each.mark not in runs or each.is_by_hand]
    writes_by_hand = [*_iter_versions_by_hand(sheet, base, new, inbound, service, every)]
    base = _with_runs(base, new) or base
    if inbound is not None:
        base = with_inbound(base, inbound)
    copy = _find_copy_older_than_runs(context, copy, whole, versions, base, new)
    undone, mixed_versions = copy.undone, copy.doubts
    if undone:
        older = replace(Base.from_lines(undone[0].base), store=store)
        if sheet.digest != undone[0].before:
            writes = [each for each in every if not each.is_state]
            older = older.without(find_pets_added_since(sheet, writes or every))
            older = with_newer_cells(older, base, sheet)
        older = _with_unnumbered(older, find_numbered_pets(every) | base.unnumbered)
        notes = (*_build_notes(memory.problem, moved), _note_backup(undone, context.job.mode))
        returning = base.ids - older.ids - named_ids(sheet) - {*elsewhere}
        return RoundStart(older, carried, notes, undone=undone, returning=returning)
    notes = (*_build_notes(memory.problem, moved), *notes_by_hand)
    before_loss, in_doubt = base, tuple[Difference, ...]()
    doubts = find_doubtful_versions(sheet, versions, base) if context.job.mode == "two-way" else ()
    if mixed_versions or doubts:
        notes = (*notes, *(_note_doubts(mixed_versions) if context.job.mode == "two-way" else ()))
        base, in_doubt = _with_doubts(
            base, mixed_versions or doubts, sheet, elsewhere=elsewhere, is_seen=bool(mixed_versions)
        )
    may_lack = find_pets_lacking_id_again(sheet, every, base)
    base = _with_earlier(_with_unnumbered(base, may_lack), sheet, every)
    return RoundStart(
        base,
        carried,
        notes,
        not (memory.is_older or context.owner.formers),
        doubts=mixed_versions or doubts,
        found=tuple(
            msgspec.structs.replace(each, runs=tuple(sorted(runs))) for each in writes_by_hand
        ),
        has_ids_by_hand=has_ids_by_hand,
        may_lack=frozenset(may_lack),
        added=added,
        lost=frozenset(each.pet_id for each in in_doubt if each.pet_id is not None),
        lost_notes=in_doubt,
        before_loss=before_loss,
        put_back=max((each.undone_at for each in every), default=""),
    )


def _with_moved_rows(
    sheet: Sheet, base: Base, versions: Sequence[Version], part: str, folder: Folder | None
) -> Sheet:
    """Return the sheet with the rows that moved to other files of the folder since its last round:
    they are a part of an older copy, too.
    """
    if folder is None:
        return sheet
    last_ids = Base.from_lines(versions[-1].base).ids if versions else frozenset[int]()
    return folder.with_moved_rows(part, sheet, base.ids | last_ids)


def _find_older_copy(
    context: RoundContext, sheet: Sheet, versions: Sequence[Version], base: Base, carried: str
) -> OlderCopy:
    """Return which older copy the sheet is; a sure result is stored until a round has finished with
    the sheet.
    """
    copy = find_older_copy(sheet, versions, base, carried)
    back = find_noted_backup(sheet, versions)
    # Rows that were taken out or edited since may look like a newer copy.
    if back and not (copy.versions and copy.versions[0].number <= back[0].number):
        found = find_traces(sheet, Base.from_lines(back[0].base), base)
        if not found.is_newer:
            copy = OlderCopy(back, is_sure=not found.current_ids)
    return _remember_copy(context, copy)


def _find_copy_older_than_runs(
    context: RoundContext,
    copy: OlderCopy,
    sheet: Sheet,
    versions: Sequence[Version],
    base: Base,
    past: Sequence[RecentRun],
) -> OlderCopy:
    """Return the older copy.

    If there is none, the sheet may be the file that the last round left, restored after runs had
    sent its later edits; or, which is not sure, a copy without rows whose pets runs added since.
    `base` contains these runs.
    """
    last = [each for each in versions[-1:] if (each.after or each.before) == sheet.digest]
    is_sent = any(
        plan.source_digest not in ("", sheet.digest)
        and plan.tab == sheet.tab
        and _is_before(each.inbound.created, plan.created)
        for plan in (each.report.plan for each in past)
        for each in last
    )
    if copy.versions:
        return copy
    if is_sent:
        copy = judge_by_bytes(sheet, last, base)
    added = {pet_id for each in past for pet_id in assigned_ids(each.report).values()}
    if not copy.versions and added & (base.ids - named_ids(sheet)):
        # A person may have removed the rows and reset another value.
        copy = replace(find_older_copy(sheet, versions, base), is_sure=False)
    return _remember_copy(context, copy) if copy.versions else copy


def _remember_copy(context: RoundContext, copy: OlderCopy) -> OlderCopy:
    job = context.job
    if copy.doubts and not (job.mode == "two-way" or (job.mode == "push" and job.delete_missing)):
        return OlderCopy()  # nothing follows from what the base says of such a sheet
    if copy.undone and not context.owner.dry_run:
        SheetFiles.of(context).versions.note_backup(copy.undone)
    return copy


def _is_backup(context: RoundContext, sheet: Sheet, memory: StoredBase, carried: str) -> bool:
    """Return true if the sheet, which carries another base than in the last round, is a restored
    backup of this job's sheet.
    """
    base = memory.base
    if base is None or sheet.base is None or not is_same_address(base.store, sheet.base.store):
        return False
    return bool(
        find_older_copy(sheet, SheetFiles.of(context).versions.all(), base, carried).versions
    )


def _start_from_export(
    context: RoundContext,
    sheet: Sheet,
    base: Base,
    service: Store,
    memory: StoredBase,
) -> RoundStart:
    """Return the start with the base that the sheet carries and with the runs by hand of this very
    file.

    If that base is older than the last round, runs from before that round may be of another file.
    Raises SheetError if it is of another store.
    """
    base, moved = _check_store_of_base(
        context, base, service.url, f"{sheet.source} was exported from"
    )
    last = "" if memory.base is None else memory.base.taken_at
    is_older = bool(last) and _is_before(base.taken_at, last)
    since = last if is_older else base.taken_at
    bases = (base.taken_at,) if is_older else (base.taken_at, "")
    by_hand, notes_by_hand = _find_runs_by_hand(context, sheet, since, service, (), bases)
    by_hand, added = _split_added_pets(by_hand, sheet)
    # An export is dated in whole seconds: one of this very second is no older file.
    older = base.taken_at[:19] < last[:19] and (
        f"the sheet carries the base of {base.taken_at[:19]} UTC, which is older than the last "
        "round: the file may have been replaced by an older one. It is compared by that base"
    )
    notes = _build_notes(memory.problem, moved, older or "")
    carried = digest_of(sheet.base)
    return RoundStart(
        _with_runs(base, by_hand) or base,
        carried,
        (*notes, *notes_by_hand),
        found=(_build_state("", base.to_lines(), base, sheet, carried=carried),),
        added=added,
    )


def _is_before(one: str, other: str) -> bool:
    return datetime.fromisoformat(one) < datetime.fromisoformat(other)


def _with_unnumbered(base: Base, pets: Collection[int]) -> Base:
    """Return the base in which the rows of these pets lack their id, as in a backup."""
    return replace(base, unnumbered=base.unnumbered.union(pets)) if pets else base


def _with_earlier(base: Base, sheet: Sheet, versions: Sequence[Version]) -> Base:
    """Return the base in which pets whose row lacks its id again have the values agreed on when the
    row got the id.

    Such a row is from a backup, whatever else is in the sheet.
    """
    frame = sheet.rows
    if "name" not in frame:
        return base
    rows = frame[frame["id"].isna()] if "id" in frame else frame
    names = {normal(name) for name in rows["name"].dropna()} - {""}
    unnamed_ids = base.ids - named_ids(sheet)
    for version in reversed(versions) if names else ():
        ids = {each.pet_id for each in version.inbound.identified if each.lacks_id} & unnamed_ids
        older = Base.from_lines(version.base) if ids else base
        pets = [pet for pet in pets_of(ids, older.frame) if normal(pet.name) in names]
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
    """Return the base of a sheet that may be from before the versions, and a note on each lost pet.

    The base is unsure of values that differ, and lacks pets whose rows may have been taken out. If
    an earlier round saw that the sheet is a backup (`is_seen`), some later values are in it; else
    the base is unsure of all values that the versions wrote, and of other pets that are as they
    were.
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
    pets = [with_fields(pet, Pet(id=pet.id), ["name"]) for pet in pets_of(rows, then.frame)]
    # A row that is not there may have been taken out of a backup: its pet has changed since.
    pets += pets_of({*units} - named_ids(sheet), then.frame)
    notes = tuple(
        Difference(
            kind="note",
            problem=f"its row, which came after round {versions[0].round}, is not in the sheet: it "
            "was removed, or a backup was restored. The pet is not deleted",
            pet_id=pet_id,
            hint="To have the row again: enter a row with the pet's id. If the pet is to go: "
            "delete it in the store.",
        )
        for pet_id in sorted(lacking - {*elsewhere})
    )
    base = _with_lost(base, lacking - {*elsewhere}).without(lacking & {*elsewhere})
    return _with_unsure(base.with_pets(pets), units), notes


def with_found_rows(start: RoundStart, comparison: Comparison) -> RoundStart:
    """Return the start after rows without an id were recognised.

    It has again what was agreed on of lost pets with such a row, and the notes on pets that stay
    lost. Pets of recognised rows are not claimed by another sheet.
    """
    base, before, known = start.base, start.before_loss, {*comparison.pet_ids.values()}
    if start.claimed & known:
        start = replace(start, claimed=start.claimed - known)
    if not start.lost or base is None or before is None:
        return start
    found = start.lost & known
    notes = [note for note in start.lost_notes if note.pet_id not in found]
    base = base.without(found).with_pets(pets_of(sorted(found), before.frame))
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
    """Return the start with pets that its base lacks, that runs by hand added, and whose rows
    without an id are known.

    If the sheet is a backup, or was one since the run, pets that any run added are included. Each
    pet has the values that its row had then. A row of the backup may have even older values, so it
    is unknown whether a different value was edited.
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
        if start.is_put_back_since(each)
    }
    if not later:
        return start if base is start.base else replace(start, base=base)
    pets = [msgspec.structs.replace(pet, id=pet_id) for pet_id, pet in later.items()]
    unsure = {**base.unsure_units, **dict.fromkeys(later, UNITS)}
    return replace(start, base=replace(base.with_pets(pets), unsure_units=unsure))


def _with_new_rows(
    context: RoundContext, start: RoundStart, comparison: Comparison, comparer: Comparer
) -> RoundStart:
    """Return the start with pets that its base lacks and that rows mean.

    A blank cell of such a row was never cleared, and takes the store's value. A pet found for a row
    without an id, whose values agree with the store, has the row's values. A pet that a row names
    by its id has the values that a run sent when it added the pet from a row, unsure if an older
    copy was restored since; else nothing is agreed on where the two differ.
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
        for row in _iter_all_rows(rows[rows.index.isin(pets)])
    ]
    named = named_ids(comparison.sheet) - base.ids - {*context.job.guard.sentinels}
    if context.job.mode == "two-way" and named:
        records = comparer.find_added(comparison.sheet, named)
        added += [msgspec.structs.replace(each.row_pet, id=i) for i, each in records.items()]
        older = [pet_id for pet_id, each in records.items() if start.is_put_back_since(each)]
        base = _with_unsure(base, dict.fromkeys(older, UNITS)) if older else base
        named -= records.keys()
        merged = rows[rows["action"].isin(("merge", "update")) & rows["id"].isin(named)]
        whole = with_unknown(base, comparison.sheet, comparison.seen, {})
        known = {pet.id: pet for pet in pets_of(named, whole.frame)}
        added += [
            with_fields(known[row.pet_id], Pet(id=row.pet_id), _find_blank_columns(row, merged))
            for row in _iter_all_rows(merged)
            if row.pet_id in known
        ]
    return replace(start, base=base.with_pets(added)) if added else start


def _iter_all_rows(rows: pd.DataFrame) -> Iterable[Row]:
    return iter_rows(rows, np.full(len(rows), -1, dtype=np.intp)) if len(rows) else ()


def _find_blank_columns(row: Row, rows: pd.DataFrame) -> list[Column]:
    """Return the columns of the units without values in the row, among the sheet's columns."""
    units = (unit for unit in UNITS if not says(row.values, unit))
    return [column for unit in units for column in COLUMNS_OF[unit] if column in rows]


def _with_runs(base: Base | None, past: Sequence[RecentRun]) -> Base | None:
    for each in past:
        base = _with_run(base, each)
    return base


def _find_runs_by_hand(
    context: RoundContext,
    sheet: Sheet,
    taken_at: str,
    store: Store,
    own: Collection[str],
    bases: Collection[str] = (),
    versions: Sequence[Version] = (),
    last: Base | None = None,
) -> tuple[list[RecentRun], list[Difference]]:
    """Return the runs by hand of the sheet since a moment, except the job's `own`, and notes on
    undone ones.

    If `bases` are given, only runs that compared with one of these count: moments, "" for a run
    that compared with the store alone. Cells that the `versions` wrote after a run was planned, and
    cells with other values in the base that a later round left (`last`), do not have the values
    that the run sent.
    """
    past, notes = list[RecentRun](), list[Difference]()
    if context.job.mode != "two-way" or not sheet.digest:
        return past, notes
    undoing = undone_by(store.aio.history.runs(store.url))
    since = datetime.fromisoformat(taken_at)
    for report in _iter_reports_by_hand(context, sheet, store, own, taken_at):
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
                f"run {report.run_id}, which applied this sheet by hand, was undone by run "
                f"{by.run_id}: the sheet takes the store's values"
            )
            hint = f"If the store is to have its changes after all: `petsync undo {by.run_id}`."
            notes.append(Difference(kind="note", problem=problem, hint=hint))
    return past, notes


def _find_pets_added_again(
    base: Base, sheet: Sheet, store: Store, own: Collection[str]
) -> set[int]:
    """Return pets of the base in no row that runs by hand, or undos, have added since.

    They are new in the store, and not missing in the sheet.
    """
    since, unnamed_ids = datetime.fromisoformat(base.taken_at), base.ids - named_ids(sheet)
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
    """Return the runs without the pets that they added and that no row names, and the runs with
    these alone.

    Which of these pets a row without an id means is known after both sides were compared.
    """
    added = {each.assigned_id for run in past for each in run.report.results} - {None}
    lacking = {pet_id for pet_id in added if pet_id is not None} - named_ids(sheet)
    alone = [_limit_to(run, lacking) for run in past]
    rest = [_limit_to(run, lacking, is_rest=True) for run in past]
    return rest, tuple(run for run in alone if run.report.results)


def _limit_to(past: RecentRun, pets: Collection[int], *, is_rest: bool = False) -> RecentRun:
    """Return the run with its results of these pets alone, or with the rest of them."""
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
        and _is_before(planned, each.inbound.created)
    )


def _find_cells_set_back(report: Report, last: Base | None) -> frozenset[CellKey]:
    """Return the cells with another value than the run sent, in a round after that run was planned.

    The run was resumed since.
    """
    if last is None or not _is_before(report.plan.created, last.taken_at):
        return frozenset()
    row_pets = {pet.id: pet for pet in pets_of(last.ids, last.sheet_frame)}
    return frozenset(
        (pet_id, column)
        for change in report.plan.updates
        if (pet_id := change.pet_id or 0) in row_pets
        for column in change.fields
        if not same(row_pets[pet_id], change.after, column)
    )


def _find_corrected_cells(report: Report) -> frozenset[CellKey]:
    """Return the cells that a run read with corrections."""
    pets = {change.row: change.pet_id for change in report.plan.changes}
    columns: dict[str, Column] = {column: column for column in COLUMNS}
    cells = [(pets.get(each.row), columns.get(each.column)) for each in report.plan.corrections]
    return frozenset((i, column) for i, column in cells if i is not None and column is not None)


def _with_run(base: Base | None, past: RecentRun) -> Base:
    """Return the base with a run's results, except those from cells with other values."""
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


def _with_unsure(base: Base, units: Mapping[int, Collection[str]]) -> Base:
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


def _iter_reports_by_hand(
    context: RoundContext, sheet: Sheet, store: Store, own: Collection[str], since: str
) -> Iterator[Report]:
    """Yield the reports of runs by hand of the sheet after a moment, the oldest first, except the
    job's `own`.
    """
    if context.job.mode != "two-way" or not sheet.digest:
        return
    for run in _iter_later_runs(store.aio.history.runs(store.url), datetime.fromisoformat(since)):
        report = None if run.run_id in own else report_of(run.run_id, store)
        if report is not None and _is_of_sheet(report, sheet):
            yield report


def _has_ids_by_hand(
    context: RoundContext,
    sheet: Sheet,
    versions: Sequence[Version],
    store: Store,
    own: Collection[str],
) -> bool:
    """Return true if the sheet was applied by hand since a version whose round was killed."""
    since = [Base.from_lines(each.base).taken_at for each in versions if not each.is_agreed]
    return bool(since) and any(
        True for _ in _iter_reports_by_hand(context, sheet, store, own, min(since))
    )


def _iter_versions_by_hand(
    sheet: Sheet,
    base: Base,
    past: Sequence[RecentRun],
    inbound: Inbound | None,
    store: Store,
    versions: Sequence[Version],
) -> Iterator[Version]:
    """Yield the versions that runs by hand wrote into the sheet, ids or all results, if the sheet
    still follows from them.

    `base` is from before the `past` runs; `inbound` has the released changes of the sheet.
    """
    known = {each.round for each in versions}
    for run in past:
        report, plan = run.report, run.report.plan
        base = _with_run(base, run)
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
        has_it = has_it or any(each.pet_id in named_ids(sheet) for each in ids)
        yield Version(
            round=report.run_id,
            before=plan.source_digest,
            after=after if has_it else "",
            # Whether the run wrote it before it was killed is not known; its backup is.
            is_agreed=not has_it,
            is_lost=not has_it,
            is_left=not has_it,
            base=tuple((base if inbound is None else with_inbound(base, inbound)).to_lines()),
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
    """Yield the runs that applied something and were active after a moment, the oldest first."""
    for run in reversed(runs):
        if run.kind == "apply" and (not run.ended or datetime.fromisoformat(run.ended) > since):
            yield run


def _is_of_sheet(report: Report, sheet: Sheet) -> bool:
    """Return true if the run applied this sheet: the same path, or the same bytes."""
    plan = report.plan
    is_same = os.path.realpath(plan.source) == os.path.realpath(sheet.source)
    return plan.tab == sheet.tab and (is_same or plan.source_digest == sheet.digest)


def must_have_ids(context: RoundContext, sheet: Sheet, start: RoundStart) -> None:
    """Raise GuardError if the sheet had ids in the last round and no row has one now.

    Each row edited since would become a new pet, and its old pet would be missing.
    """
    base = start.base
    if context.job.mode == "check" or base is None or not len(base) or named_ids(sheet):
        return
    if sheet.rows.empty or not _had_ids(context, sheet, base):
        return
    new = [str(header) for header in sheet.others.columns if str(header) not in base.headers]
    unused = ", ".join(map(repr, new))
    where = f"the worksheet {sheet.tab!r} of {sheet.source}" if sheet.tabs else sheet.source
    if "id" in sheet.columns:
        problem = f"the column id of {where} is empty, and had the ids of {len(base):,} pets"
        cure = "Restore the ids beside their rows"
    else:
        problem = f"{where} has no column id any more, in which it had the ids of its pets"
        problem += f"; it has not seen these headers before: {unused}" if new else ""
        cure = 'Name the header of the column "id" again'
        if new:
            cure += f', or map it in the configuration ([columns] {_quote(new[0])} = "id")'
    raise GuardError(
        problem,
        hint=f"Nothing was changed, on either side: rows without their ids would become new pets. "
        f"{cure}; or restore one of the sheet's backups.",
    )


def _had_ids(context: RoundContext, sheet: Sheet, base: Base) -> bool:
    """Return true if rows had ids when the base was stored; an export always has them."""
    if base.columns is None:
        return sheet.base is not None or context.job.mode in ("pull", "two-way")
    return "id" in base.columns


def _note_former_names(context: RoundContext) -> tuple[Difference, ...]:
    """Return a note on the job's former name."""
    return _build_notes(
        *(
            f"the job was called {former} at its last round, and goes on from there"
            for former in context.owner.formers.values()
        )
    )


def _note_worksheets(context: RoundContext, sheet: Sheet) -> tuple[Difference, ...]:
    """Return a note on other worksheets that may have rows of pets, if the job names none."""
    if context.job.tab is not None or not sheet.ids_elsewhere:
        return ()
    some = ", ".join(map(repr, [*sheet.ids_elsewhere][:_LISTED]))
    more = (
        f" and {len(sheet.ids_elsewhere) - _LISTED} more"
        if len(sheet.ids_elsewhere) > _LISTED
        else ""
    )
    problem = (
        f"the worksheet {sheet.tab!r} is read; others have a column for ids, too, and are not: "
        f"{some}{more}"
    )
    return (
        Difference(
            kind="note", problem=problem, hint='To read another one: tab = "NAME" in the job.'
        ),
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _check_store_of_base(
    context: RoundContext, base: Base, store: str, what: str
) -> tuple[Base, str]:
    """Return the base if it is of this store, or of the same store before it moved, and a note on
    that. Raises SheetError.
    """
    if is_same_address(base.store, store):
        return base, ""
    if context.owner.moved:
        return replace(
            base, store=store
        ), f"The values agreed with {base.store} are used for this address"
    raise SheetError(
        f"{what} {base.store}, and the job's store is {store}",
        hint="Nothing was changed: a difference between two stores is not an edit. Name the "
        "sheet's store in the job. If it is the same store at a new address: `petsync reconcile "
        f"--job {context.job.name} --moved`. If it is another one: export the sheet from it.",
    )


def is_same_address(one: str, other: str) -> bool:
    """Return true if both addresses are the same, regardless of spelling."""
    return place_of(one) == place_of(other)


def _load_versions(context: RoundContext, base: Base, inbound: Inbound | None) -> Sequence[Version]:
    """Return the sheet's versions; released changes come last."""
    versions = SheetFiles.of(context).versions
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
        f"the sheet is as it was {_moment_of(versions[0])}: {what} may have been restored. It is "
        "compared by the values agreed at that time"
    )
    hint = (
        "The sheet takes the changes since then again. To reverse them: change the store, or write "
        "delete into the rows' action column."
    )
    if mode == "push":
        hint = "Its values are sent nevertheless; pets whose rows were added since are not deleted."
    return Difference(kind="note", problem=problem, hint=hint)


def _moment_of(version: Version) -> str:
    """Return in words when the sheet was as it is before the version."""
    if not version.is_state:
        return f"before {'run' if version.is_by_hand else 'round'} {version.round}"
    at = f"{version.inbound.created[:16].replace('T', ' ')} UTC"
    return f"after round {version.round} of {at}" if version.round else f"at its export of {at}"


def _note_doubts(mixed: Sequence[Version]) -> tuple[Difference, ...]:
    return tuple(
        Difference(
            kind="note",
            problem=f"some pets have the values that the sheet had {_moment_of(first)}: an older "
            "copy was restored, or these edits were undone. Neither side is changed in them",
            hint="To keep the store's values, write them into the sheet. If the sheet is right, "
            'change the store, or set on_conflict = "sheet" for one round.',
        )
        for first in mixed[:1]
        if first.is_state
    )


def _build_notes(*texts: str) -> tuple[Difference, ...]:
    return tuple(Difference(kind="note", problem=text) for text in texts if text)


# Elsewhere: a pet whose row went to another sheet is not missing, and that one's base has it
# then.
#
# What the other sheets of a store have to do with one of them, as rows move.


_LISTED = 3


def with_claims(
    context: RoundContext, sheet: Sheet, snapshot: Snapshot, start: RoundStart, comparer: Comparer
) -> RoundStart:
    """Return the start with pets of its base that are in no row but may have a row in another sheet
    of the store.

    These are pets that such a sheet names, or all if that is unknown, and those of a folder's file
    that no longer exists. Pets in no sheet are removed from the base if an older copy of another
    sheet, to which their rows may have moved, was restored.
    """
    base, job = start.base, context.job
    own = frozenset[int]() if base is None else base.ids
    start = replace(start, own=own)
    if job.mode not in ("two-way", "push"):
        return start
    files = _note_lost_files(context, sheet, snapshot, comparer)
    start = replace(start, notes=(*start.notes, *files))
    if base is None or not (job.mode == "two-way" or job.delete_missing):
        return start
    ids = base.ids - named_ids(sheet) - comparer.elsewhere
    missing_pets = {pet.id or 0: pet for pet in pets_of(sorted(ids), base.frame)}
    there = {*snapshot.frame["id"]}
    problem, found, elsewhere = "", dict[int, str](), dict[int, Path]()
    lost_ids, put_back = frozenset[int](), list[str]()
    try:
        for source in _iter_other_sources(context, comparer.store.url) if missing_pets else ():
            claims = _iter_named_ids(source.read(comparer.store), missing_pets, base.unnumbered)
            found |= dict.fromkeys(claims, source.name)
        elsewhere = (
            _find_orphaned_pets(context, comparer.store.url, missing_pets.keys() - found.keys())
            if missing_pets
            else {}
        )
        problem = _describe_moved({i: found[i] for i in sorted(found.keys() & there)})
        lost_ids = frozenset(missing_pets.keys() & there - found.keys() - elsewhere.keys())
        lost_ids -= find_pets_lacking_id(sheet, lost_ids, base)
        put_back = [*_iter_backups_since(context, comparer, base)] if lost_ids else []
    except PetsyncError as error:
        found = dict.fromkeys(missing_pets, "")
        problem = f"no pet is deleted as missing: another sheet may have it. {error.message}"
    lost_notes = [Difference(kind="note", problem=problem)] if problem else []
    if put_back:
        more = [_note_lost_row(job, pet_id, put_back[0]) for pet_id in sorted(lost_ids)]
        start = replace(
            start,
            base=_with_lost(base, lost_ids),
            lost=start.lost | lost_ids,
            lost_notes=(*start.lost_notes, *(more if job.delete_missing else ())),
            before_loss=start.before_loss or base,
        )
    notes = (*start.notes, *(lost_notes if job.delete_missing else ()))
    return replace(start, claimed=frozenset({*found, *elsewhere}), notes=notes)


def _with_lost(base: Base, ids: Collection[int]) -> Base:
    """Return the base for pets whose rows are lost.

    Nothing is agreed on for them, so they stay, in conflict, until a row names them again or
    somebody deletes them. They do not become rows again: a person may have taken their rows out.
    """
    return base.without(ids).with_pets([Pet(id=i) for i in sorted(ids)])


def give_up(
    context: RoundContext, base: Base, own: frozenset[int], named_ids: frozenset[int]
) -> None:
    """Remove pets that are new in this sheet's `base` from the bases of the folder's other sheets.

    Pets in `own` stay. Pets in `named_ids` are also removed from the bases of files that are no
    longer in the folder. Raises PetsyncError if the folder, or a base, cannot be read or written.
    """
    job = context.job
    if job.folder is None:
        return
    new, named_ids = base.ids - own, base.ids & named_ids
    away = {*_list_orphaned_bases(context, job)}
    path_of_own = context.owner.paths.base(job.name, context.round.part)
    for path in (*away, *_list_bases(context.owner.paths, job)) if new else away:
        ids = new | named_ids if path in away else new
        file = BaseFile(path)
        memory = file.load(set_aside=False) if path != path_of_own else StoredBase()
        if memory.base is not None and not memory.is_older and ids & memory.base.ids:
            file.keep(memory.base.without(ids), memory.carried, memory.runs)


def _list_bases(paths: StatePaths, job: Job) -> list[Path]:
    """Return the base files of a folder's sheets, including sheets that no longer exist."""
    there = sorted(paths.base(job.name).parent.glob("*.base"))
    return [path for path in there if paths.is_part(path, job.name)]


def _list_orphaned_bases(context: RoundContext, job: Job) -> list[Path]:
    """Return the base files whose sheet is no longer in the folder. Raises SheetError."""
    there = {context.owner.paths.base(job.name, each.part) for each in sources_of(job)}
    return [path for path in _list_bases(context.owner.paths, job) if path not in there]


def _find_orphaned_pets(context: RoundContext, store: str, ids: Iterable[int]) -> dict[int, Path]:
    """Return those of the pets that a file that is no longer in its folder had, with its base.
    Raises PetsyncError.
    """
    wanted, found = {*ids}, dict[int, Path]()
    for job in _iter_leading_jobs(context, store):
        for path in _list_orphaned_bases(context, job) if wanted and job.folder is not None else ():
            base = BaseFile(path).load(set_aside=False).base
            if base is not None and is_same_address(base.store, store):
                found |= dict.fromkeys(wanted & base.ids, path)
    return found


def _find_last_restore(
    context: RoundContext, sheet: Sheet, start: RoundStart, comparer: Comparer
) -> str:
    """Return when an older copy of another file of the folder was last restored, ISO 8601, if rows
    without an id may be from it; "" for never. A file that cannot be read may be one.
    """
    base, found = start.base, ""
    if comparer.folder is None or context.job.mode != "two-way" or base is None:
        return found
    if not slots_of(sheet):
        return found
    try:
        for source in _iter_other_sources(context, comparer.store.url):
            files = SheetFiles.for_sheet(context.owner.paths, source.job.name, source.part)
            found = max([found, *(each.undone_at for each in files.versions.all())])
        is_restored = any(_iter_backups_since(context, comparer, base))
    except PetsyncError:
        is_restored = True
    return context.round.started if is_restored else found


def _iter_backups_since(context: RoundContext, comparer: Comparer, base: Base) -> Iterator[str]:
    """Yield the store's other sheets in which an older copy was restored since a round stored this
    sheet's base. Raises PetsyncError.
    """
    for source in _iter_other_sources(context, comparer.store.url):
        if _is_put_back(context, source, comparer, base.taken_at):
            yield source.name


def _note_lost_row(job: Job, pet_id: int, sheet: str) -> Difference:
    return Difference(
        kind="note",
        problem="its row is not in the sheet any more, and the pet is not deleted: the row may "
        f"have moved to {sheet}, where an older copy was restored",
        pet_id=pet_id,
        hint="" if job.folder is not None else "If the pet is to go: delete it in the store.",
    )


def _is_put_back(context: RoundContext, source: Source, comparer: Comparer, since: str) -> bool:
    """Return true if the sheet is a restored older copy, or was one in a round since then."""
    files = SheetFiles.for_sheet(context.owner.paths, source.job.name, source.part)
    versions = files.versions.all()
    for each in versions:
        if each.is_back or (each.undone_at and _is_before(since, each.undone_at)):
            return True
    memory = files.base.load(set_aside=False)
    if memory.base is None or not versions:
        return False
    sheet = source.read(comparer.store)
    if comparer.folder is not None and source.job == context.job:
        sheet = comparer.folder.with_moved_rows(source.part, sheet, memory.base.ids)
    carried = digest_of(sheet.base)
    other = carried if carried != memory.carried else ""
    return bool(find_older_copy(sheet, versions, memory.base, other).versions)


def _note_lost_files(
    context: RoundContext, sheet: Sheet, snapshot: Snapshot, comparer: Comparer
) -> Iterator[Difference]:
    """Yield a conflict for each file that is no longer in the folder and had pets of the store that
    no row names now. Raises PetsyncError.
    """
    if context.job.folder is None or not comparer.is_first:
        return
    listed = {*snapshot.frame["id"]} - named_ids(sheet)
    for path in _list_orphaned_bases(context, context.job):
        base = BaseFile(path).load(set_aside=False).base
        if base is None or not is_same_address(base.store, comparer.store.url):
            continue
        missing_pets = {pet.id or 0: pet for pet in pets_of(sorted(base.ids & listed), base.frame)}
        if not missing_pets:
            continue
        sheets_now = [
            sheet,
            *(each.read(comparer.store) for each in _iter_other_sources(context, base.store)),
        ]
        named = {pet_id for each in sheets_now for pet_id in _iter_named_ids(each, missing_pets)}
        if ids := sorted(missing_pets.keys() - named):
            yield _note_lost_file(path, ids)


def _note_lost_file(path: Path, ids: Sequence[int]) -> Difference:
    some = ", ".join(map(str, ids[:_LISTED]))
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    _, _, name = unquote(path.name.removesuffix(".base")).partition("--")
    pets = "pet" if len(ids) == 1 else "pets"
    return Difference(
        kind="conflict",
        problem=f"the file {name} is not in the folder any more: its pets that are in no row now "
        f"are not deleted ({pets} {some}{more})",
        hint="Restore the file, or move its rows into another file. To delete these pets: remove "
        f"{path}, which records the file's rows, and delete the pets in the store.",
    )


def _iter_other_sources(context: RoundContext, store: str) -> Iterator[Source]:
    """Yield the other sheets that determine what the store has."""
    own = (context.job.name, context.round.part)
    for job in _iter_leading_jobs(context, store):
        others = [each for each in sources_of(job) if (job.name, each.part) != own]
        yield from _with_last_bases(context.owner.paths, others)


def _with_last_bases(paths: StatePaths, sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources, each with the base of its last round."""
    for source in sources:
        file = BaseFile(paths.base(source.job.name, source.part))
        yield replace(source, last=partial(_load_base, file))


def _load_base(file: BaseFile) -> Base | None:
    return file.load(set_aside=False).base


def _iter_leading_jobs(context: RoundContext, store: str) -> Iterator[Job]:
    """Yield the jobs whose sheets determine what the store has."""
    for job in context.owner.config.jobs:
        is_included = job.enabled or job.name == context.job.name
        if is_included and job.mode in ("push", "two-way") and is_same_address(job.url, store):
            yield job


def _iter_named_ids(
    sheet: Sheet, pets: Mapping[int, Pet], unnumbered: Collection[int] = frozenset()
) -> Iterator[int]:
    """Yield those of the pets that a row names, by its id or, without one, by its name or by
    similar values.

    Any row without an id may be that of a pet in `unnumbered`, whose row never had one.
    """
    yield from named_ids(sheet) & pets.keys()
    frame = sheet.rows
    rows = frame.index[frame["id"].isna()] if "id" in frame else frame.index
    row_pets = read_row_pets(sheet, rows, Vocabulary(frame_from_pets([*pets.values()])))
    names = {normal(each.name) for each in row_pets.values()} - {""}
    yield from (pet_id for pet_id, pet in pets.items() if normal(pet.name) in names)
    yield from (pet.id or 0 for pet in find_alike(row_pets, pets.values()).values())
    if "" in actions_of(sheet, row_pets).values():
        yield from pets.keys() & unnumbered


def _describe_moved(found: Mapping[int, str]) -> str:
    if not found:
        return ""
    some = ", ".join(f"pet {pet_id} ({name})" for pet_id, name in [*found.items()][:_LISTED])
    more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return f"not missing, as another sheet has a row of it: {some}{more}"


# Holding back: what is over its guard waits for a person, or is refused.


_CURES = {
    "empty": "Restore the sheet from one of its backups or with `petsync export`; or set "
    "allow_empty in the guard of the job, if the sheet is to be empty.",
    "everything": "Set allow_empty in the guard of the job, if everything is to go.",
    "shifted": "Move the cells back beside their rows, and sort whole rows only. If it is "
    "intended: `petsync plan SHEET`, and `petsync apply SHEET --allow-shifted`.",
    "sentinel": "Find out what happened to the sentinels: nothing overrides them.",
    "capacity": CAPACITY_CURE,
}

_MIXED = (
    "Nothing was changed, on either side. Move the ids back beside their rows, and sort whole rows "
    "only. If pets are to exchange their values: `petsync plan SHEET`, and `petsync apply`."
)
_NAMED = 5


def is_held(
    context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
) -> bool:
    """Return true if the round ends before any change, after it notes all differences. Raises
    FindingsError if the job is strict and the sheet has errors.
    """
    first = Differences(context.job, comparison, is_first=comparer.is_first).all()
    context.note_plan(None if context.job.mode == "pull" else comparison.plan, comparison.inbound)
    ids = _note_new_ids(context, comparer, comparison)
    context.note(drift=sum(each.kind != "note" for each in first))
    context.note_open((*start.notes, *ids, *first))
    if context.job.strict and comparison.sheet.errors:
        arguments.no_findings(comparison.sheet)
    mixed = _find_exchanged_ids(context.job, comparison)
    to_store, to_sheet = _refusals_to_store(context.job, comparison), _refusals_to_sheet(comparison)
    refusals = (*to_store, *to_sheet)
    is_dry = context.owner.dry_run
    if not is_dry and context.job.mode != "check":
        keep_store, keep_sheet = (_can_wait(each) and not mixed for each in (to_store, to_sheet))
        _clear_waiting(context, keep_store=keep_store, keep_sheet=keep_sheet)
    if mixed:
        context.note_open((*start.notes, *_never(context, comparer, comparison)))
        _refuse_exchanged_ids(context, comparison, mixed)
        return True
    if not refusals:
        return False
    if not _can_wait(refusals) or context.job.mode == "check":
        context.note_open((*start.notes, *_never(context, comparer, comparison)))
        _refuse(context, comparer, comparison, refusals)
    elif is_dry:
        _preview_wait(context, comparer, comparison, start, refusals)
    elif to_store:
        files = SheetFiles.of(context)
        waits = files.waiting.hold(comparison.plan, comparer.store)
        files.pending.remember(waits, is_own=False)
        _wait(context, comparer, comparison, start, refusals, str(files.waiting.path))
    elif comparison.inbound is not None:
        files = SheetFiles.of(context)
        files.sheet.hold(comparison.inbound, context.job.name)
        _wait(context, comparer, comparison, start, refusals, str(files.sheet.path))
    return True


def _note_new_ids(
    context: RoundContext, comparer: Comparer, comparison: Comparison
) -> tuple[Difference, ...]:
    """Return a note on how many rows will get an id, beside those reported one by one."""
    before, planned = context.round.to_sheet.update, comparer.to_sheet(comparison)
    context.note(to_sheet=planned)
    count = planned.update - before
    if not count:
        return ()
    rows = "1 row without an id is" if count == 1 else f"{count:,} rows without an id are"
    problem = f"{rows} to get that of the pet"
    return (Difference(kind="note", problem=problem, hint="It is written into the sheet."),)


def _refusals_to_store(job: Job, comparison: Comparison) -> tuple[Refusal, ...]:
    refusals = comparison.plan.verdict.refusals
    if job.mode in ("pull", "check"):
        # Nothing of the plan is sent, so only what it says of the sides themselves counts.
        own = "empty" if job.mode == "check" else ""
        return tuple(each for each in refusals if each.of_store or each.limit == own)
    return refusals


def _refusals_to_sheet(comparison: Comparison) -> tuple[Refusal, ...]:
    return () if comparison.inbound is None else comparison.inbound.verdict.refusals


def _find_exchanged_ids(job: Job, comparison: Comparison) -> tuple[IdExchange, ...]:
    """Return the rows whose ids were exchanged, if the store takes the rows' values."""
    if job.mode not in ("push", "two-way"):
        return ()
    before = None if comparison.base is None else comparison.base.sheet_frame
    return find_exchanged(comparison.sheet, before, comparison.row_comparison.differing)


def _refuse_exchanged_ids(
    context: RoundContext, comparison: Comparison, mixed: Sequence[IdExchange]
) -> None:
    first = [
        f"{comparison.sheet.address(each.row)} gives {each.name!r}, which was pet {each.other}, "
        f"the id {each.pet_id}, which was {each.was!r}"
        for each in mixed[:_NAMED]
    ]
    more = f"; and {len(mixed) - _NAMED:,} more" if len(mixed) > _NAMED else ""
    problem = (
        f"{len(mixed):,} rows have the earlier values of other pets, as if the ids had been sorted "
        f"or moved without their rows: {'; '.join(first)}{more}"
    )
    context.ends("refused", problem, _MIXED)


def _can_wait(refusals: Sequence[Refusal]) -> bool:
    return bool(refusals) and not is_final(refusals)


def _clear_waiting(context: RoundContext, *, keep_store: bool, keep_sheet: bool) -> None:
    """Remove waiting plans that are no longer needed."""
    if not keep_store:
        SheetFiles.of(context).waiting.clear()
    if not keep_sheet:
        SheetFiles.of(context).sheet.clear()


def _never(
    context: RoundContext, comparer: Comparer, comparison: Comparison
) -> tuple[Difference, ...]:
    return Differences(context.job, comparison, is_refused=True, is_first=comparer.is_first).all()


def _refuse(
    context: RoundContext, comparer: Comparer, comparison: Comparison, refusals: Sequence[Refusal]
) -> None:
    limits = {each.limit for each in refusals}
    # An empty sheet is why everything would go: one way out is enough.
    limits -= {"everything"} if "empty" in limits else set()
    cures = dict.fromkeys(_CURES.get(each.limit, "") for each in refusals if each.limit in limits)
    if "everything" in limits and any(
        each.limit == "everything" for each in _refusals_to_sheet(comparison)
    ):
        cures = {_undo_of(comparer, comparison): None} | cures
    hint = f"Nothing was changed, on either side. {' '.join(filter(None, cures))}".strip()
    context.ends("refused", describe_limits(refusals), hint)


def _undo_of(comparer: Comparer, comparison: Comparison) -> str:
    """Return how to restore the pets whose rows would be removed: by an undo of the runs that
    deleted them, or by their rows.
    """
    removed_ids = (
        set[int]()
        if comparison.inbound is None
        else {each.pet_id for each in comparison.inbound.removed}
    )
    history, runs = comparer.store.aio.history, list[str]()
    past = history.runs(comparer.store.url)
    undone = undone_by(past)
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
        return f"petsync deleted these pets in the store: {undo} brings them back."
    if undo:
        undo = f" petsync deleted some of them: {undo} brings these back."
    return (
        f"The store has none of these pets any more.{undo} To bring pets back, write add into the "
        "action column of their rows."
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
        f"`petsync apply {file}` shows what waits, asks, and so releases it; `--limit 0` shows all."
    )
    context.ends("waiting", describe_limits(refusals), hint)


def _preview_wait(
    context: RoundContext,
    comparer: Comparer,
    comparison: Comparison,
    start: RoundStart,
    refusals: Sequence[Refusal],
) -> None:
    _hold(context, comparer, comparison, start)
    context.ends("waiting", describe_limits(refusals), "Fix the sheet, if this is not intended.")


def _hold(
    context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
) -> None:
    opens = Differences(
        context.job, comparison, pending="waiting", is_first=comparer.is_first
    ).all()
    context.note_open((*start.notes, *opens))


# The sheet's side of a round: what it takes is written, or it is made where it is not there.


def check(comparison: Comparison) -> None:
    """Raise SheetError, before anything is sent, if the sheet could not be written afterwards.

    A run may lead to changes of the sheet: an id, a category's number, or a change of the store.
    """
    inbound = comparison.inbound
    if inbound is None:
        return
    if inbound or (inbound.lead == "merge" and comparison.plan.changes):
        sheets.must_take_edits(comparison.sheet)


def assigned_ids(report: Report | None) -> dict[int, int]:
    """Return the ids that the store assigned to pets of rows without one, by row."""
    results = () if report is None else report.results
    return {
        each.row: each.assigned_id
        for each in results
        if each.row is not None
        and each.assigned_id is not None
        and (each.outcome == "applied" or each.cause in SETTLED)
    }


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing a sheet: the cells that could not be written, and the base that the
    sheet carries now, if it got one.

    `digest` is that of the new file, "" if nothing was written.
    """

    inbound: Inbound
    stuck: tuple[Obstacle, ...] = ()
    carried: Base | None = None
    digest: str = ""


def write(
    context: RoundContext,
    comparer: Comparer,
    comparison: Comparison,
    inbound: Inbound,
    start: RoundStart,
) -> WriteResult:
    """Write the inbound changes into the sheet, and store what was agreed on before.

    A sheet that carries a base gets the new one. The base of `start` contains what a run sent.
    Raises SheetError.
    """
    sheet, base = comparison.sheet, start.base
    edits = sheets.edits_of(inbound, sheet)
    stuck = tuple(sheets.obstacles(sheet, edits))
    done = select_writable(inbound, stuck)
    context.note_plan(context.plan, inbound)
    rest = edits.without(stuck)
    if not rest:
        return WriteResult(done, stuck)
    carried = with_inbound(base, done) if base is not None and sheet.base is not None else None
    versions = SheetFiles.of(context).versions
    # Its backup may be there even where nothing is written, so that it stays.
    version = versions.keep(_build_version(context, comparison, done, start))
    backup = sheets.write_synced(sheet, rest, base=carried)
    context.note(backup=str(backup), applied=context.round.applied + done.touched.total)
    digest = comparer.read().digest
    versions.put(msgspec.structs.replace(version, after=digest))
    return WriteResult(done, stuck, carried, digest)


def _build_version(
    context: RoundContext, comparison: Comparison, inbound: Inbound, start: RoundStart
) -> Version:
    """Return the sheet as it is, with all that sheet and store agree on now."""
    agreed = comparison.row_comparison.base(
        comparison.seen, start.base, comparison.elsewhere, fills=comparison.inbound is not None
    )
    return Version(
        round=context.round.id,
        before=comparison.sheet.digest,
        base=tuple(agreed.to_lines()),
        inbound=inbound,
        is_again=bool(start.undone or start.doubts),
        runs=tuple(sorted(start.runs)),
        carried=digest_of(comparison.sheet.base),
    )


def _build_state(
    round_id: str,
    lines: Sequence[str],
    base: Base,
    sheet: Sheet,
    *,
    digest: str = "",
    carried: str,
) -> Version:
    """Return the state in which a round leaves the sheet: the file of this digest, and the lines of
    the agreed base; without a round, the export.
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


def select_writable(inbound: Inbound, stuck: Sequence[Obstacle]) -> Inbound:
    """Return only the changes that can be written completely."""
    rows = {each.row for each in stuck}
    if not rows:
        return inbound
    new = enumerate(inbound.added, 1)
    added = () if None in rows else tuple(pet for n, pet in new if -n not in rows)
    return msgspec.structs.replace(
        inbound,
        edits=tuple(each for each in inbound.edits if each.row not in rows),
        added=added,
        removed=tuple(each for each in inbound.removed if each.row not in rows),
    )


def is_to_be_made(comparer: Comparer) -> bool:
    """Return true if the sheet does not exist and the store leads.

    If even the folder does not exist, a drive is probably not connected.
    """
    path = comparer.source.path
    return comparer.job.mode == "pull" and path is not None and _is_missing(path)


def make_sheet(comparer: Comparer, snapshot: Snapshot) -> None:
    """Write the sheet with the snapshot as the base that it carries. Raises SheetError."""
    path = comparer.source.path
    if path is None:
        raise SheetError("a query is no sheet that could be made")
    sheets.write_sheet(snapshot, path, tab=comparer.job.tab or "Pets")


def _is_missing(path: Path) -> bool:
    return path.parent.is_dir() and not path.exists() and not path.is_symlink()


# Siblings: what was agreed on with another sheet, of rows that have come from there.
#
# A row that is moved to another file, a file that has another name, a job that has another name:
# to the base of its own, each is as new, and would count in every cell.


def with_siblings(
    context: RoundContext, comparison: Comparison, start: RoundStart, comparer: Comparer
) -> RoundStart:
    """Return the start with pets on which the store and another sheet have agreed.

    These are pets that the base lacks, and of which a row differs from the store or that are no
    longer in the store. The base is unsure of them where an older copy of another sheet was
    restored. A pet that is gone from both sides comes back by a row only if somebody says so.
    """
    if context.job.mode != "two-way":
        return start
    base, store = start.base, comparer.store.url
    own = frozenset() if base is None else frozenset(base.frame["id"])
    sight = comparison.row_comparison
    pairs = [*zip(sight.rows, sight.ids, sight.places, strict=True)]
    # A row whose pet is gone counts as one, too: to this sheet's base it would be a new pet.
    wanted = {i for row, i, at in pairs if at < 0 or sight.differing.get(row)} - own
    # Which of a category's cells was edited, only a base tells.
    wanted |= sight.cells.keys() - own
    others = [*_iter_other_bases(context, store)] if wanted else []
    parts = _select_bases(comparison, others, wanted)
    missing_since = {
        i: on
        for each in (*others, base)
        if each is not None
        for i, on in each.missing_since.items()
    }
    forgotten = missing_since.keys() & {i for _, i, at in pairs if at < 0} - own - {
        i for each in parts for i in each.ids
    }
    if forgotten and base is not None:
        # Nobody knows any more what was agreed on of it: in every field both sides have moved on.
        base = base.with_pets([Pet(id=i) for i in sorted(forgotten)])
        base = replace(
            base, missing_since={**base.missing_since, **{i: missing_since[i] for i in forgotten}}
        )
        start = replace(start, base=base)
    if not parts:
        return start
    count = sum(map(len, parts))
    first = base or replace(parts[0].without(parts[0].ids), taken_at=context.round.started)
    frames = [each.frame for each in (first, *parts) if len(each)]
    frame = pd.concat(frames, ignore_index=True).sort_values("id", kind="stable", ignore_index=True)
    sheet_pets = {
        pet_id: pet for each in (*parts, first) for pet_id, pet in each.sheet_pets.items()
    }
    unsure = {
        pet_id: units for each in (*parts, first) for pet_id, units in each.unsure_units.items()
    }
    merged = replace(first, frame=frame, sheet_pets=sheet_pets, unsure_units=unsure)
    moved_ids = frozenset(i for each in parts for i in each.ids)
    if comparer.folder is not None and any(_iter_backups_since(context, comparer, first)):
        merged = _with_unsure(merged, dict.fromkeys(moved_ids, UNITS))
    merged = _with_unsure(merged, _find_older_values(context, comparison.sheet, merged, moved_ids))
    rows = "1 row is new here, and is" if count == 1 else f"{count:,} rows are new here, and are"
    note = Difference(
        kind="note", problem=f"{rows} compared by what was agreed on with another sheet"
    )
    return replace(start, base=merged, notes=(*start.notes, note))


def _find_older_values(
    context: RoundContext, sheet: Sheet, base: Base, ids: Collection[int]
) -> dict[int, tuple[Unit, ...]]:
    """Return the units, by pet, in which a row that moved here has the value from before a round
    wrote into it in another file of the folder: it may be from an older copy of that file.
    """
    found: dict[int, tuple[Unit, ...]] = {}
    for source in sources_of(context.job) if ids and context.job.folder is not None else ():
        if source.part == context.round.part:
            continue
        name = (context.job.name, source.part)
        versions = SheetFiles.for_sheet(context.owner.paths, *name).versions.all()
        cells = {cell for cell in find_written_cells(versions) if cell[0] in ids}
        columns = {column for _, column in cells if column is not None}
        if not columns:
            continue
        moved = base.without(base.ids - {pet_id for pet_id, _ in cells})
        for pet_id, units in find_reverted(sheet, versions, moved, columns).items():
            written = [u for u in units if any((pet_id, c) in cells for c in COLUMNS_OF[u])]
            found[pet_id] = (*found.get(pet_id, ()), *written)
    return {pet_id: units for pet_id, units in found.items() if units}


def _select_bases(comparison: Comparison, others: Sequence[Base], wanted: set[int]) -> list[Base]:
    """Return what the other bases have of the wanted pets: for each pet the values that its row
    still has, else the newest.
    """
    parts: list[Base] = []
    # A pet without a status has lost its row there: that base does not know what was agreed on.
    known = [other.without(other.frame["id"][other.frame["status"].isna()]) for other in others]
    for is_any in (False, True):
        for other in known:
            found = other.without(other.ids - wanted)
            if not is_any:
                seen = replace(comparison.seen, frame=found.sheet_frame)
                sight = compare_rows(comparison.sheet, seen, comparison.pet_ids, found)
                pairs = zip(sight.rows, sight.ids, strict=True)
                found = found.without({i for row, i in pairs if sight.differing.get(row)})
            wanted = wanted - found.ids
            parts += [found] if len(found) else []
    return parts


def _iter_other_bases(context: RoundContext, store: str) -> Iterator[Base]:
    """Yield the bases of the store's other sheets, the newest first, then the previous bases with
    pets that no newer base has: their rows existed once.
    """
    own = context.owner.paths.base(context.job.name, context.round.part)
    there = [path for path in own.parent.glob("*.base") if path != own]
    before = [BaseFile(path).previous for path in there]
    known: set[int] = set()
    for paths in (there, before):
        found = []
        for path in paths:
            try:
                base = BaseFile(path).load(set_aside=False).base
            except PetsyncError:
                continue
            if base is not None and is_same_address(base.store, store):
                found.append(base)
        for base in sorted(found, key=lambda base: base.taken_at, reverse=True):
            yield base.without(known) if paths is before else base
            known |= base.ids


# The work of a round: look at both sides, hold back what is over its guard, and do the rest.


_UNNUMBERED = (
    "The next round tries again. A row that is edited until then is a new pet: close the file, or "
    "write the ids into it."
)


def work(context: RoundContext, comparer: Comparer) -> None:
    """Run the round. Raises the error that ends it early."""
    with context.step("resume"):
        past = settle_runs(context, comparer.store)
    if is_to_be_made(comparer):
        _make(context, comparer)
        return
    with context.step("read"):
        sheet = comparer.read()
        context.read_at = comparer.read_at or context.round.started
        context.note(rows=len(sheet) + len(sheet.blocked))
        # Whatever ends the round from here on, a backup that was put back is known as one.
        start = find_start(
            context, sheet, comparer.store, past, comparer.elsewhere, comparer.folder
        )
    with context.step("snapshot"):
        snapshot = comparer.snapshot()
    context.note(pets=len(snapshot))
    with context.step("plan"):
        must_have_ids(context, sheet, start)
        runs = frozenset(each.mark for each in past)
        start = replace(start, base=with_missing(start.base, sheet), runs=runs)
        start = with_claims(context, sheet, snapshot, start, comparer)
        if start.base is not None:
            stray_pets = comparer.find_stray_pets(sheet, start.base.taken_at)
            start = replace(start, base=_with_unnumbered(start.base, stray_pets))
        restored = _find_last_restore(context, sheet, start, comparer)
        start = replace(start, sibling_restored=restored)
        notes = (*_note_former_names(context), *start.notes, *_note_worksheets(context, sheet))
        start = replace(start, notes=notes)
        comparison = compare_sides(comparer, sheet, snapshot, start)
        known = with_found_rows(start, comparison)
        known = with_siblings(context, comparison, known, comparer)
        known = with_older_rows(known, comparison)
        known = _with_new_rows(context, known, comparison, comparer)
        if known is not start:
            start = known
            comparison = compare_sides(comparer, sheet, snapshot, start)
        comparison.must_have_answers()
        if context.job.mode in ("push", "two-way"):
            start = replace(start, notes=(*start.notes, *note_copies(comparison.plan)))
    with context.step("guard"):
        if is_held(context, comparer, comparison, start) or context.owner.dry_run:
            return
        check(comparison)
    if context.job.mode != "check":
        _Execution(context, comparer, comparison, start).all()


class _Execution:
    """The rest of a round that nothing holds back."""

    def __init__(
        self, context: RoundContext, comparer: Comparer, comparison: Comparison, start: RoundStart
    ) -> None:
        self.context, self.comparer, self.comparison, self.start = (
            context,
            comparer,
            comparison,
            start,
        )
        self.files = SheetFiles.of(context)
        self.base = start.base
        self.sheet = comparison.sheet
        self.stuck: tuple[Obstacle, ...] = ()
        self.notes: tuple[Difference, ...] = ()

    def all(self) -> None:
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
        self._note_open(self.comparison, report=context.report, stuck=self.stuck)

    def _do_step(self, do: Callable[[], None]) -> None:
        """Do a step; if it ends the round, report what had arrived by then."""
        try:
            do()
        except InterruptedRunError as error:
            if isinstance(error.report, Report):
                self._note_open(self.comparison, report=error.report, is_before=True)
            raise
        except (PetsyncError, KeyboardInterrupt) as error:
            why = error.message if isinstance(error, PetsyncError) else "the round was stopped"
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
        self.base = with_report(self.base, report)
        self.start = replace(self.start, runs=self.start.runs | {mark_of(report)})

    def _write(self) -> None:
        """Write the changes from the store, as it is after the run, into the sheet."""
        sheet, start = self.comparison.sheet, self.start
        now, inbound = self.comparison, self.comparison.inbound
        if self.context.report is not None:
            now = self.comparer.compare(
                sheet,
                self.comparer.snapshot(),
                start.base,
                may_lack=start.may_lack,
                returning=start.returning,
                sibling_restored=start.sibling_restored,
                has_inbound=False,
            )
            # What the run sent is agreed on: a cell beside it that nobody edited takes the store's.
            now = now if start.base is None else replace(now, base=self.base)
        added = assigned_ids(self.context.report)
        beside = replace(now, pet_ids={**now.pet_ids, **self.comparison.pet_ids})
        inbound = self.comparer.plan_inbound(
            beside, self.comparison.plan, added, may_delete=start.may_delete
        )
        if not inbound.verdict.ok:
            # The store moved meanwhile, and much: the next round holds it back.
            return
        pet_ids = {**beside.pet_ids, **added}
        sight = compare_planned_rows(now.plan, sheet, now.seen, pet_ids, now.base)
        beside = replace(beside, row_comparison=sight, inbound=inbound)
        current_start = replace(start, base=self.base)
        result = write(self.context, self.comparer, beside, inbound, current_start)
        self.stuck = result.stuck
        if self.base is not None:
            self.base = with_inbound(self.base, result.inbound)
            self.start = start.carrying(result.carried)
            self._keep_base(self.base, result.digest or sheet.digest)

    def _write_ids(self) -> bool:
        """Write the ids of pets into rows without one, whatever follows. Returns whether any was
        written.
        """
        added = assigned_ids(self.context.report)
        if not (added or self.comparison.pet_ids):
            return False
        comparison = self.comparison
        if self.context.report is not None:
            comparison = self.comparer.compare(
                comparison.sheet, self.comparer.snapshot(), self.base
            )
        known = {**comparison.pet_ids, **self.comparison.pet_ids, **added}
        ids = self.comparer.plan_ids(comparison, known)
        if not ids:
            return False
        current_start = replace(self.start, base=self.base)
        try:
            with self.context.step("write"):
                result = write(self.context, self.comparer, comparison, ids, current_start)
            self.start = self.start.carrying(result.carried)
            why = "; ".join(each.problem for each in result.stuck[:1])
        except SheetError as error:
            why = error.message
        if why:
            problem = f"rows could not be given the ids of their pets: {why}"
            self.notes = (Difference(kind="note", problem=problem, hint=_UNNUMBERED),)
        return True

    def _compare_again(self) -> None:
        sheet, snapshot = self.comparer.read(), self.comparer.snapshot()
        before, job = self.comparison.snapshot, self.context.job
        self.comparison = compare_sides(
            self.comparer, sheet, snapshot, replace(self.start, base=self.base)
        )
        if job.mode == "push":
            self.notes = (*self.notes, *note_twins(self.context.report, before, snapshot))

    def _keep_base(self, base: Base, digest: str) -> None:
        """Store what both sides agree on, with the digest of the sheet."""
        lines, start = base.to_lines(), self.start
        self.files.base.keep(lines, start.carried, start.runs)
        if digest:
            round_ = self.context.round.id
            state = _build_state(
                round_, lines, base, self.sheet, digest=digest, carried=start.carried
            )
            self.files.versions.settle(state)
        self.files.versions.agree(self.sheet, has_ids_by_hand=start.has_ids_by_hand)

    def _keep(self) -> None:
        base = self.comparison.next_base()
        self._keep_base(base, self.comparison.sheet.digest)
        give_up(self.context, base, self.start.own, named_ids(self.comparison.sheet))
        self.files.pending.forget()
        self.files.sheet.forget()
        undone, digest = self.start.undone, self.comparison.sheet.digest
        self.files.versions.undo(undone, digest, self.context.read_at)

    def _note_open(self, comparison: Comparison, **more: Any) -> None:
        opens = Differences(
            self.context.job, comparison, is_first=self.comparer.is_first, **more
        ).all()
        self.context.note_open((*self.start.notes, *self.notes, *opens))


def _make(context: RoundContext, comparer: Comparer) -> None:
    """Write the sheet of a pulling job that has none yet."""
    with context.step("snapshot"):
        snapshot = comparer.snapshot()
    context.note(pets=len(snapshot), drift=len(snapshot), to_sheet=Counts(add=len(snapshot)))
    if context.owner.dry_run:
        problem = f"the sheet is not there, and is to be made with {len(snapshot):,} pets"
        context.note_open((Difference(kind="drift", problem=problem),))
        return
    with context.step("write"):
        make_sheet(comparer, snapshot)
        context.note(applied=len(snapshot))
    with context.step("verify"):
        sheet = comparer.read()
        context.note(rows=len(sheet))
        comparison = comparer.compare(sheet, comparer.snapshot(), sheet.base)
    files, base, carried = SheetFiles.of(context), comparison.next_base(), digest_of(sheet.base)
    lines = base.to_lines()
    state = _build_state(context.round.id, lines, base, sheet, digest=sheet.digest, carried=carried)
    files.base.keep(lines, carried)
    files.versions.settle(state)
    context.note_open(Differences(context.job, comparison, is_first=comparer.is_first).all())


# Rounds: every job of a configuration, one after the other; none keeps the others from running.


def reconcile_jobs(
    config: Configuration,
    *,
    job: str = "",
    dry_run: bool = False,
    moved: bool = False,
    watchers: Iterable[Watcher] = (),
) -> Rounds:
    """Run the rounds of all enabled jobs, or of the named one, enabled or not.

    With `moved` a base with another address is accepted for this store. Errors of a round are in
    its report; an interrupt by a person ends it and all that follow. Raises SettingsError if no job
    has the name.
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
    """Yield the job's rounds, each after it ends: one for each sheet, or the one in which the job
    failed.
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
    """Lock the job and connect to its store, until the end; return a comparer for each sheet."""
    if not owner.dry_run:
        stack.enter_context(lock_job(owner.paths, job.name))
        for former in owner.formers.values():
            stack.enter_context(lock_job(owner.paths, former))
            owner.paths.rename(former, job.name, [each.part for each in sources_of(job)])
    store = stack.enter_context(connect_store(job, owner.config.state))
    sources = [*_with_last_bases(owner.paths, sources_of(job))]
    if job.mode in ("push", "two-way") and not owner.dry_run:
        stack.enter_context(turn(owner.paths, store.url))
    return [*_build_comparers(job, store, sources, owner.paths)]


def _find_former_names(owner: Reconciliation, job: Job) -> dict[str, str]:
    """Return the job's former name, by its name.

    It is the name of a job that no longer exists and that had the last round of one of this job's
    files, if this job has no base of that file yet. Raises PetsyncError.
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
        bases = (BaseFile(path).load(set_aside=False).base for path in _list_bases(paths, job))
        pets = (
            each.unnumbered for each in bases if each and is_same_address(each.store, store.url)
        )
        folder.unnumbered = frozenset[int]().union(*pets)
    yield from (Comparer(job, each, store, folder, not n) for n, each in enumerate(sources))


def _run_round(owner: Reconciliation, job: Job, comparer: Comparer) -> RoundContext:
    """Run one round and return it."""
    context = RoundContext.begin(owner, job, part=comparer.source.part, source=comparer.source.name)
    context.note(store=comparer.store.url)
    owner.watchers.began(context.round)
    with context.guard():
        work(context, comparer)
    return context
