"""Runs of a store: apply, resume, undo, their history, and the files that they leave."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import hashlib
import os
import os.path
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd

from petsync import sheets
from petsync._sync import in_thread
from petsync.apply import engine
from petsync.apply.engine import (
    FRESH,
    ApplyOptions,
    EarlierResults,
    check_sentinels,
    earlier,
    given_up,
    has_more,
    has_unknown,
    is_of_file,
    is_unassigned,
    settle_overruled,
    settle_overtaken,
    settle_superseded,
)
from petsync.apply.journal import Journal, RunSession, row_payload
from petsync.apply.undo import AddedAgain, Effect, LaterDeed, Present, deeds_of, undo_plan
from petsync.client import loaders
from petsync.client.api import AsyncApi
from petsync.client.loaders import Lookups, look_up
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.errors import InterruptedRunError, LockedError, PetsyncError, PlanError, StalePlanError
from petsync.images.upload import rebuild_upload_report
from petsync.plan import arguments
from petsync.plan.base import SentRun, continue_base, follows
from petsync.plan.change import Add, Snapshot
from petsync.plan.fields import content
from petsync.plan.guard import Guard
from petsync.plan.lineage import (
    RemovedPet,
    RenumberedPet,
    RestoredPet,
    ReusedId,
    RowRecord,
    added_for,
)
from petsync.plan.match import find_absent_ids, pets_of
from petsync.plan.plan import Plan
from petsync.plan.report import OUTCOMES, Entry, PastRun, Progress, Report, undone_by
from petsync.plan.uploads import Pictures, UploadReport
from petsync.sheets.files import must_be_closed
from petsync.sheets.read import sheet_of
from petsync.sheets.results import create_backup, write_back_noting_digest
from petsync.table.sheet import Sheet

__all__ = [
    "History",
    "IntoSheet",
    "OnProgress",
    "OutputRequest",
    "Outputs",
    "Runs",
    "UndoPlanner",
    "default_results",
    "gives_ids",
    "runs_frame",
]


# History: the runs of a state folder, as tables, reports, and what they did to one pet.


_COLUMNS = ["id", "kind", "state", "started", "seconds", "source", "total", *OUTCOMES, "undoes"]
_LISTED = 5


_UNSEEN = frozenset({"not-looked-up", "not-settled"})
"""Rules of conflicts that another look may resolve."""


@dataclass(frozen=True, slots=True)
class History:
    """The journal below a state folder; only notes are written. Everything raises PetsyncError
    where the journal cannot be read.
    """

    state: Path

    @contextmanager
    def open_journal(self) -> Iterator[Journal]:
        """The journal itself; empty where there is none yet."""
        with closing(Journal.open(self.state, create=False)) as journal:
            yield journal

    def note(self, name: str) -> str:
        """What the journal keeps under the name, "" where there is nothing."""
        with self.open_journal() as journal:
            return journal.note(name)

    def set_note(self, name: str, text: str, *, patience: float = 30.0) -> None:
        """Have the journal keep a text under the name; another process that writes is waited for
        so many seconds.
        """
        with closing(Journal.open(self.state, create=True)) as journal:
            journal.set_note(name, text, patience=patience)

    def runs(self, store: str | None = None) -> list[PastRun]:
        """All runs, or those on a store, the newest first."""
        with self.open_journal() as journal:
            return journal.runs(store)

    def find(self, name: str, store: str | None = None) -> PastRun:
        """The run of that id, or whose id alone begins so. Raises PlanError that names the newest
        runs where there is none, or several, or it was on another store.
        """
        runs = self.runs()
        found = [run for run in runs if run.run_id == name]
        found = found or [run for run in runs if name and run.run_id.startswith(name)]
        here = [run for run in found if store in (None, run.store)]
        if len(here) == 1:
            return here[0]
        raise _not_found(name, found, here, runs, store)

    def report(self, run_id: str, store: str | None = None) -> Report:
        """What became of every row of a run. Raises PlanError for an upload, too."""
        past = self.find(run_id, store)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images, and has no plan to report on",
                hint=f"`petsync runs {past.run_id}` shows what became of each image.",
            )
        with self.open_journal() as journal:
            return journal.report(past.run_id)

    def upload(self, run_id: str) -> UploadReport:
        """What became of every file that an upload was to send. Raises PlanError where the journal
        has no list of them that this petsync can read.
        """
        past = self.find(run_id)
        with self.open_journal() as journal:
            pictures = Pictures.from_json(journal.payload(past.run_id))
            return rebuild_upload_report(past, pictures, journal.entries(past.run_id))

    def entries(self, run_id: str) -> list[Entry]:
        """What the run did to each pet, by number."""
        with self.open_journal() as journal:
            return list(journal.entries(run_id))

    def find_known_ids(self, run_id: str) -> frozenset[int]:
        """The ids of the pets that there were before the run added some without an id."""
        with self.open_journal() as journal:
            return journal.find_known_ids(run_id)

    def is_part(self, run_id: str) -> bool:
        """Whether the run's plan was a part of one, or knew too little of some pets to be whole. A
        plan that cannot be read any more was neither.
        """
        with self.open_journal() as journal:
            try:
                plan = journal.plan(run_id)
            except PlanError:
                return False
        return plan.left_out > 0 or any(c.rule in _UNSEEN for c in plan.conflicts)

    def row_records(
        self, store: str, sheet: Sheet, *, with_undone: bool = False
    ) -> list[RowRecord]:
        """What runs on the store knew of rows without an id, the newest first; the sheet's own
        records have its `source`, however its path was written. Rows whose pets an undo took away
        are there only `with_undone`.
        """
        with self.open_journal() as journal:
            records = journal.row_records(store, with_undone=with_undone)
        if not sheet.digest:
            return records
        same = {each.source: _is_same(each.source, sheet.source) for each in records}
        own = sheet.source
        return [
            msgspec.structs.replace(each, source=own) if same[each.source] else each
            for each in records
        ]

    def added_again(self, run_id: str) -> dict[int, tuple[str, int]]:
        """The pets that the run made of rows without an id, by their ids, where a later run of the
        same sheet made another pet of the same row: that run, and the other pet's id. A plan that
        cannot be read any more has none.
        """
        with self.open_journal() as journal:
            try:
                plan = journal.plan(run_id)
            except PlanError:
                return {}
            later = journal.later_run(run_id)
            if later is None:
                return {}
            made = {each.number: each.assigned_id for each in journal.entries(run_id)}
        started = datetime.fromisoformat(self.find(run_id).started)
        records = [r for r in later.added if datetime.fromisoformat(r.written) > started]
        runs = {record.pet_id: record.run_id for record in records}
        return {
            old: (runs[new], new)
            for number, new in added_for(plan.changes, plan.tab, records, skip=()).items()
            if (old := made.get(number)) is not None
        }

    def undone_adds(self, store: str) -> dict[int, str]:
        """The pets that undos took away and that are not back: by id, the run that was undone."""
        with self.open_journal() as journal:
            return journal.undone_adds(store)

    def read_restored(self, store: str) -> dict[int, RestoredPet]:
        """The pets that undos changed or added again, as the newest undo left each."""
        with self.open_journal() as journal:
            return journal.read_restored(store)

    def continue_base(self, sheet: Sheet, now: pd.DataFrame | None = None) -> Sheet:
        """The sheet with the base that it has by what its earlier runs sent; `now` are the store's
        pets. See `petsync.plan.base.continue_base`. Runs of a file that is not there any more are
        the sheet's own if it follows from them: then the file was renamed.
        """
        if sheet.base is None or not sheet.digest:
            return sheet
        with self.open_journal() as journal:
            runs = journal.sent_runs(sheet.base.store, sheet.base.taken_at)
        by_source = defaultdict[str, list[SentRun]](list)
        for run in runs:
            by_source[run.source if run.tab == sheet.tab else ""].append(run)
        names = {
            source
            for source, sent in by_source.items()
            if source
            and (
                _is_same(source, sheet.source)
                or (not os.path.lexists(source) and follows(sheet, sheet.base, sent, now))
            )
        }
        same = [run.source in names and run.tab == sheet.tab for run in runs]
        own = [run for run, is_own in zip(runs, same, strict=True) if is_own]
        copies = [run for run, is_own in zip(runs, same, strict=True) if not is_own]
        return dataclasses.replace(sheet, base=continue_base(sheet, sheet.base, own, copies, now))

    def read_renumbered(self, store: str) -> dict[int, RenumberedPet]:
        """The pets to which the store gave another id than they were added with, by that one."""
        with self.open_journal() as journal:
            return journal.read_renumbered(store)

    def read_reused(self, store: str) -> dict[int, ReusedId]:
        """The pets that runs added under an id that another row of their sheet named, by id."""
        with self.open_journal() as journal:
            return journal.read_reused(store)

    def taken_away(self, store: str) -> dict[int, RemovedPet]:
        """The pets that runs took away and no run has added again, by id."""
        with self.open_journal() as journal:
            return journal.taken_away(store)

    def wrote_ids(self, runs: Iterable[str]) -> set[str]:
        """Those of the runs, here and not in another state folder, that wrote ids into a sheet."""
        found = set[str]()
        with self.open_journal() as journal:
            for run in runs:
                try:
                    fingerprint = journal.find(run).fingerprint
                except PlanError:
                    continue  # It is in another state folder.
                text = journal.note(_outputs_of(fingerprint))
                wanted = msgspec.json.decode(text, type=OutputRequest) if text else OutputRequest()
                if wanted.digest or wanted.intended:
                    found.add(run)
        return found

    def of_pet(self, pet_id: int, store: str | None = None) -> list[tuple[PastRun, Entry]]:
        """All that any run did, or meant to do, to a pet, the newest first."""
        with self.open_journal() as journal:
            return [
                (past, entry)
                for past in journal.runs(store)
                for entry in reversed(list(journal.entries(past.run_id)))
                if pet_id in (entry.pet_id, entry.assigned_id)
            ]


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def runs_frame(runs: Iterable[PastRun]) -> pd.DataFrame:
    """The runs in their order: id, kind, state, started (UTC), seconds, source, total, applied,
    unchanged, not sent, conflict, needs fixing, failed, unknown, undoes. A change that was begun,
    and of which nobody knows the outcome yet, is unknown.
    """
    rows = [
        [
            run.run_id,
            run.kind,
            run.state,
            run.started,
            run.seconds,
            run.source,
            run.total,
            *(run.counts.get(outcome, 0) + _open(run, outcome) for outcome in OUTCOMES),
            run.undoes,
        ]
        for run in runs
    ]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    texts = dict.fromkeys(("id", "kind", "state", "source", "undoes"), "str")
    integers = dict.fromkeys(("total", *OUTCOMES), "int64")
    frame = frame.astype({**texts, **integers, "seconds": "float64"})
    frame["started"] = pd.to_datetime(frame["started"], utc=True, format="ISO8601")
    return frame


def _open(run: PastRun, outcome: str) -> int:
    return run.open if outcome == "unknown" else 0


def _not_found(
    name: str, found: list[PastRun], here: list[PastRun], runs: list[PastRun], store: str | None
) -> PlanError:
    if len(here) > 1:
        return PlanError(f"{len(here)} runs begin with {name!r}: {_some(here)}", hint="Say more.")
    if found:
        other = found[0]
        return PlanError(
            f"run {other.run_id} was on {other.store}, and this store is {store}",
            hint=f"Name that store: --url {other.store}, in Python ps.connect({other.store!r})",
        )
    known = [run for run in runs if store in (None, run.store)]
    latest = f"The newest are {_some(known)}. " if known else "No run is known yet. "
    return PlanError(f"there is no run {name!r}", hint=f"{latest}`petsync runs` lists them.")


def _some(runs: list[PastRun]) -> str:
    return ", ".join(run.run_id for run in runs[:_LISTED])


# Outputs: the files that a run leaves beside its sheet, and the ids that it writes into it.


IntoSheet = Literal["", "ids", "results"]
"""What a run writes into the sheet itself: nothing, new ids, or all its results."""


_PATIENCE = 1.0


class OutputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to write: `results` is the path of the results file, "" for the usual
    one. `digest` is the sheet's SHA-256 since the run wrote into it, "" before. `intended`: the one
    that it is about to have, where it is not known whether it was written.
    """

    into_sheet: IntoSheet = ""
    results: str = ""
    digest: str = ""
    intended: str = ""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Writes what runs leave, and remembers it in the journal, so that a resume writes it again."""

    history: History

    def remember(self, plan: Plan, wanted: OutputRequest) -> None:
        """Keep what the plan's run is to write, on the disk when this returns."""
        if wanted != OutputRequest():
            text = msgspec.json.encode(wanted).decode()
            self.history.set_note(_of_run(plan), text)

    def read_wanted(self, plan: Plan) -> OutputRequest:
        """What the plan's run was asked to write."""
        text = self.history.note(_of_run(plan))
        return msgspec.json.decode(text, type=OutputRequest) if text else OutputRequest()

    def sheet(self, plan: Plan, statuses: tuple[str, ...]) -> Sheet | None:
        """The plan's sheet as it was then, or as its run left it; None where it is gone, or was
        changed by anybody else.
        """
        sheet, wanted = sheet_of(plan, statuses=statuses), self.read_wanted(plan)
        for digest in filter(None, (wanted.digest, wanted.intended)):
            sheet = sheet or sheet_of(plan, statuses=statuses, digest=digest)
        return sheet

    def write_into_sheet(self, sheet: Sheet, report: Report, into_sheet: IntoSheet) -> Path:
        """The path of the backup of the sheet, which has the run's ids now, or all its results.
        Raises SheetError where it cannot be written.
        """
        plan, told = report.plan, _of_sheet(report, sheet)
        wanted = self.read_wanted(plan)

        def note(digest: str) -> None:
            self.remember(plan, msgspec.structs.replace(wanted, intended=digest))

        known = self.history.continue_base(sheet)
        backup = write_back_noting_digest(known, told, only_ids=into_sheet == "ids", note=note)
        digest = _digest(Path(sheet.source))
        self.remember(plan, msgspec.structs.replace(wanted, digest=digest, intended=""))
        return backup

    def write_results(
        self, sheet: Sheet, report: Report, path: Path, *, follow: bool = False
    ) -> Path | None:
        """Write the results file, always the latest under its name. The path of the backup of a
        file that was there; None where there was none, or petsync's own that nobody changed.
        Raises SheetError, also where the file is open in another program, or is a symbolic link
        that is not to be followed, as no person named it.
        """
        backup = None
        if path.is_file() and not path.is_symlink():
            must_be_closed(path)
            if self.history.note(_of_file(path)) != _digest(path):
                backup = create_backup(path.absolute(), path.read_bytes(), dt.datetime.now(dt.UTC))
        known = self.history.continue_base(sheet)
        sheets.write_results(known, _of_sheet(report, sheet), path, follow=follow)
        # Without the note the next results keep this file as a backup, and nothing is lost.
        with suppress(PetsyncError):
            self.history.set_note(_of_file(path), _digest(path), patience=_PATIENCE)
        return backup


def default_results(sheet: Sheet) -> Path:
    """`catalogue.results.xlsx` beside the sheet, or here, if that folder is read-only."""
    source = Path(sheet.source)
    # Of a workbook with macros the copy has them too.
    keeps = sheet.tab == "" or source.suffix.casefold() == ".xlsm"
    suffix = source.suffix if keeps else ".xlsx"
    folder = source.parent if os.access(source.parent, os.W_OK) else Path()
    # A folder takes no name of more than 255 bytes, the sidecar's and a backup's counted.
    stem = source.stem.encode()[:200].decode(errors="ignore")
    return folder / f"{stem}.results{suffix}"


def gives_ids(plan: Plan) -> bool:
    """Whether rows of the sheet get ids by this plan."""
    return bool(plan.recognised) or any(change.pet_id is None for change in plan.adds)


def _of_sheet(report: Report, sheet: Sheet) -> Report:
    """The report of the sheet as its own run left it: with the same rows."""
    if report.plan.source_digest == sheet.digest:
        return report
    plan = msgspec.structs.replace(report.plan, source_digest=sheet.digest)
    return msgspec.structs.replace(report, plan=plan)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise PetsyncError(f"{path} cannot be read: {error.strerror}") from None


def _of_run(plan: Plan) -> str:
    return _outputs_of(plan.fingerprint)


def _outputs_of(fingerprint: str) -> str:
    return f"outputs of {fingerprint}"


def _of_file(path: Path) -> str:
    return f"results in {os.path.realpath(path)}"


# Runs: a plan applied, or an earlier run resumed, under a journal that holds the store's lock.


OnProgress = Callable[[Progress], None] | None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one store; `state` is the folder that their journal is in."""

    api: AsyncApi
    state: Path

    @property
    def session(self) -> Session:
        """The connections to the store."""
        return self.api.session

    def check_unused(self, plan: Plan) -> None:
        """Raise StalePlanError where a run has begun with this very plan."""
        with closing(Journal.open(self.state, create=False)) as journal:
            used = journal.used_by(plan.fingerprint)
        if used is not None:
            again = "make a new plan from the sheet: it holds what is still to be done"
            if plan.undoes:
                again = f"`petsync undo {plan.undoes}` again shows what is left"
            raise StalePlanError(
                f"this plan was applied already, in run {used}",
                hint=f"`petsync resume {used}` finishes that run, if it was stopped. Else {again}.",
            )

    async def apply(self, plan: Plan, options: ApplyOptions, on_progress: OnProgress) -> Report:
        """The report of a plan's first sitting. Raises as AsyncStore.apply."""
        target = ServiceTarget(self.api)
        await check_sentinels(plan, target)
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        with closing(await in_thread(partial(Journal.open, self.state, create=True))) as journal:
            await asyncio.sleep(0)  # cancelled until now, no run is begun
            begin = partial(
                journal.begin,
                run_id,
                kind="undo" if plan.undoes else "apply",
                store=plan.store,
                source=plan.source,
                started=now.isoformat(timespec="microseconds"),
                total=len(plan.changes),
                plan=plan,
                payload=row_payload(plan),
                fingerprint=plan.fingerprint,
                undoes=plan.undoes,
                options=msgspec.to_builtins(options),
            )
            sitting = await in_thread(begin)
            started = now.isoformat(timespec="microseconds")
            before = await in_thread(partial(_since_planned, plan, journal, sitting))
            return await self._sit(plan, target, sitting, started, options, before, on_progress)

    async def resume(
        self,
        past: PastRun,
        plan: Plan,
        given: Mapping[str, Any],
        on_progress: OnProgress,
        *,
        gives_up: bool = False,
    ) -> Report:
        """The report of a run after one more sitting; if nothing was left, as it is. Run and plan
        are those of `to_resume`; options that are given (not None) hold in place of what they were.
        With `gives_up` nothing is sent. Raises as AsyncStore.resume.
        """
        with closing(await in_thread(partial(Journal.open, self.state, create=False))) as journal:
            _check_startable(past, journal)
            if not has_more(past):
                return await in_thread(partial(journal.report, past.run_id))
            target = ServiceTarget(self.api)
            if not gives_up:
                await check_sentinels(plan, target)
            sitting = await in_thread(partial(journal.resume, past.run_id))
            # Only now, under the lock, nobody else writes to it any more.
            before = earlier(plan, journal.entries(past.run_id), past.seconds)
            before = _taken_up(plan, past, before, journal, sitting, gives_up=gives_up)
            asked = ApplyOptions.of(journal.options(past.run_id), **given)
            return await self._sit(plan, target, sitting, past.started, asked, before, on_progress)

    def to_resume(self, run_id: str, *, startable: bool = False) -> tuple[PastRun, Plan]:
        """The run that `resume` would finish, and its plan; `run_id` may be "" for the newest run
        that has anything left. Raises PlanError where there is none; with `startable` also where
        it was undone, and LockedError while a run is at work on the store.
        """
        with closing(Journal.open(self.state, create=False)) as journal:
            past = self.past(journal, run_id)
            if startable:
                _check_startable(past, journal)
            return past, journal.plan(past.run_id)

    def find_unfinished(self, sheet: str) -> PastRun | None:
        """The newest run of the sheet (its real path), if it was stopped with something left."""
        with closing(Journal.open(self.state, create=False)) as journal:
            runs = journal.runs(self.session.base_url)
        own = (p for p in runs if p.kind == "apply" and os.path.realpath(p.source) == sheet)
        past = next(own, None)
        if past is None or past.state != "stopped" or not has_more(past):
            return None
        return None if past.run_id in undone_by(runs) else past

    def past(self, journal: Journal, run_id: str) -> PastRun:
        """The run that is to be resumed; unless it is named, none that was undone. Raises PlanError
        where there is none.
        """
        store = self.session.base_url
        if not run_id:
            runs = journal.runs(store)
            undone = undone_by(runs)
            left = (
                run
                for run in runs
                if run.kind != "upload" and has_more(run) and run.run_id not in undone
            )
            past = next(left, None)
            if past is None:
                raise PlanError(
                    f"no run on {store} is to be resumed",
                    hint=_open_in_undone(runs, undone)
                    or f"`petsync runs` lists the runs of {journal.path}.",
                )
            return past
        past = journal.find(run_id)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images",
                hint="`petsync upload` with the same folder or sheet does what is left of it.",
            )
        if past.store != store:
            raise PlanError(
                f"run {past.run_id} was on {past.store}, and this store is {store}",
                hint=f"Resume it there: --url {past.store}, in Python ps.connect({past.store!r})",
            )
        return past

    async def _sit(
        self,
        plan: Plan,
        target: ServiceTarget,
        sitting: RunSession,
        started: str,
        options: ApplyOptions,
        before: EarlierResults,
        on_progress: OnProgress,
    ) -> Report:
        session = self.session
        most = session.gate.most
        target.hold = sitting.hold
        session.pace.rate, session.gate.most = options.rate, options.at_a_time
        try:
            report = await engine.run(
                plan,
                target,
                sitting,
                run_id=sitting.run_id,
                started=started,
                options=options,
                earlier=before,
                on_progress=on_progress,
            )
            report = await _finish_run(sitting, report)
        finally:
            session.pace.rate, session.gate.most = None, most
            with suppress(PetsyncError):
                await sitting.close()
        if report.stopped:
            raise _build_stopped_error(report)
        return report


def _check_startable(past: PastRun, journal: Journal) -> None:
    """Raise PlanError or LockedError where a resume could not begin at this moment."""
    _check_not_undone(past, undone_by(journal.runs(past.store)))
    if has_more(past):
        journal.check_free(past.store)


def _check_not_undone(past: PastRun, undone_by: Mapping[str, PastRun]) -> None:
    """Raise PlanError for a run that was undone, unless something of it is to be found out."""
    by = undone_by.get(past.run_id)
    if by is not None and not has_unknown(past):
        raise PlanError(
            f"run {past.run_id} was undone by run {by.run_id}, and nothing of it is sent any more",
            hint="Plan again from its sheet to make its changes after all.",
        )


def _since_planned(plan: Plan, journal: Journal, sitting: RunSession) -> EarlierResults:
    """What a plan's first sitting begins with: rows without an id that another run of their sheet
    has added since the plan was made are not added again. The journal has the results.
    """
    if plan.undoes or not any(map(is_unassigned, plan.changes)):
        return FRESH
    since, now = datetime.fromisoformat(plan.created), datetime.now(UTC)
    own = set(plan.recognised.values())
    records = [
        record
        for record in journal.row_records(plan.store)
        if record.state == "added" and record.pet_id is not None and record.pet_id not in own
        if record.is_added and record.run_id != sitting.run_id
        # A run of the future is one from before the clock was set back.
        if since <= datetime.fromisoformat(record.written) <= now
        if is_of_file(plan, record)
        or (record.base == plan.base if plan.base else _is_of_table(plan, record))
    ]
    if not records:
        return FRESH
    before, known = settle_overtaken(plan, records)
    for result in known:
        sitting.done(result)
    return before


def _is_of_table(plan: Plan, record: RowRecord) -> bool:
    """Whether both are of a DataFrame, which has no bytes, and of this state folder."""
    return record.source == plan.source and not (record.digest or record.folder)


def _taken_up(
    plan: Plan,
    past: PastRun,
    before: EarlierResults,
    journal: Journal,
    sitting: RunSession,
    *,
    gives_up: bool,
) -> EarlierResults:
    """What a resumed run begins with once it is known what else was done since: its undo, or
    another run of its sheet. The journal has the results that this alone decides.
    """
    by = undone_by(journal.runs(past.store)).get(past.run_id)
    if by is not None:
        before, known = given_up(plan, before, by.run_id)
    else:
        before, known = settle_overruled(plan, before, _since(past, journal))
        if (later := journal.later_run(past.run_id)) is not None:
            added = added_for(plan.changes, plan.tab, later.added, skip=before.results)
            before, left = settle_superseded(plan, before, later.run_id, added)
            known += left
        if gives_up:
            before, left = given_up(plan, before)
            known += left
    for result in known:
        sitting.done(result)
    return before


def _since(past: PastRun, journal: Journal) -> Iterator[tuple[str, Entry]]:
    """What later runs have changed, or may have, the newest first."""
    for run in journal.runs(past.store):
        if run.run_id == past.run_id:
            return
        for entry in journal.entries(run.run_id):
            if entry.intended and entry.outcome in ("applied", "unknown", None):
                yield run.run_id, entry


def _open_in_undone(runs: Sequence[PastRun], undone: Mapping[str, PastRun]) -> str:
    """How to find out what became of changes of a run that was undone, "" where all is known."""
    past = next((run for run in runs if run.run_id in undone and has_unknown(run)), None)
    if past is None or past.kind == "upload":
        return ""
    number = past.open + past.counts.get("unknown", 0)
    changes = "1 change" if number == 1 else f"{number:,} changes"
    return (
        f"Run {past.run_id} was undone, and nobody knows what became of {changes} of it: `petsync "
        f"resume {past.run_id}` finds that out, and sends nothing."
    )


async def _finish_run(sitting: RunSession, report: Report) -> Report:
    """The report, once the journal has the run's end; stopped, where it cannot take it."""
    try:
        await sitting.finish(stopped=report.stopped)
    except PetsyncError as error:
        return msgspec.structs.replace(report, stopped=report.stopped or str(error))
    return report


def _build_stopped_error(report: Report) -> InterruptedRunError:
    done = sum(result.outcome == "applied" for result in report.results)
    error = InterruptedRunError(
        f"run {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done:,} of {len(report.plan.changes):,} changes were applied. "
        f"`petsync resume {report.run_id}`, or store.resume() in Python, does the rest, and finds "
        "out what became of requests that were on their way.",
    )
    error.report = report
    return error


# Undone: which run is to be taken back, and the plan that does it.


_MOVED = frozenset({"changed-since-run", "came-since-run", "gone-since-run"})


@dataclass(frozen=True, slots=True)
class UndoPlanner:
    """Makes the plans that take runs of one store back."""

    api: AsyncApi
    history: History

    async def plan(
        self,
        run_id: str,
        guard: Guard,
        on_progress: Callable[[Lookups], None] | None,
    ) -> Plan:
        """The plan of an undo. Raises as AsyncStore.undo."""
        limits = arguments.guard_of(guard)
        past, entries = await asyncio.to_thread(self._choose_run, run_id)
        now = await loaders.snapshot(self.api, self.api.session.profile.statuses)
        found = await self._find_present(list(deeds_of(entries)), now, on_progress)
        make = partial(
            undo_plan,
            past,
            entries,
            found,
            known=await asyncio.to_thread(self.history.find_known_ids, past.run_id),
            store=now.source,
            profile=self.api.session.profile.name,
            pets=len(now),
            capacity=self.api.session.profile.capacity,
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
            guard=limits,
            coverage=now.coverage,
            sentinels=pets_of(limits.sentinels, now.frame),
        )
        plan = make()
        if plan.adds:
            make = partial(make, again=await self._again(past, plan.adds, now))
            plan = make()
        moved = {each.pet_id for each in plan.conflicts if each.rule in _MOVED}
        return make(later=await asyncio.to_thread(self._later, past, moved)) if moved else plan

    def _choose_run(self, run_id: str) -> tuple[PastRun, list[Entry]]:
        store = self.api.session.base_url
        past = self.history.find(run_id, store) if run_id else self._newest(store)
        if past is None:
            raise PlanError(
                f"no run on {store} has changed anything that is not undone already",
                hint="`petsync runs` lists the runs.",
            )
        if past.state == "running":
            raise LockedError(
                f"run {past.run_id} is still at work",
                hint="Wait for its end, or stop it with Ctrl-C where it runs; then undo it.",
            )
        return past, self.history.entries(past.run_id)

    def _newest(self, store: str) -> PastRun | None:
        """The newest run that changed something and is not undone. An undo is taken back only
        where it is named, and one that was stopped, or of a part, leaves its run to be undone.
        """
        runs = self.history.runs(store)
        undone = undone_by(runs)
        for run in runs:
            if run.kind != "undo" and self._has_changed(run):
                by = undone.get(run.run_id)
                if by is None or by.state != "done" or self.history.is_part(by.run_id):
                    return run
        return None

    def _has_changed(self, run: PastRun) -> bool:
        """Whether the run changed any pet. What it reports as failed may have: an add that took the
        place of a pet, or a change that the service stored otherwise.
        """
        if run.counts.get("applied"):
            return True
        if not any(run.counts.get(each) for each in ("failed", "conflict", "unknown")):
            return False
        return any(deed.is_settled for deed in deeds_of(self.history.entries(run.run_id)))

    async def _find_present(
        self, deeds: list[Effect], now: Snapshot, on_progress: Callable[[Lookups], None] | None
    ) -> dict[int, Present]:
        """The pets as they are now; those that no query lists are looked up one by one."""
        ids = [deed.pet_id for deed in deeds if deed.pet_id is not None and deed.is_settled]
        listed = {pet.id: pet for pet in pets_of(ids, now.frame) if pet.id is not None}
        others = await look_up(self.api, find_absent_ids(ids, now.frame), on_progress=on_progress)
        return {**listed, **others}

    async def _again(
        self, past: PastRun, adds: Collection[Add], now: Snapshot
    ) -> dict[int, AddedAgain]:
        """The pets that the undo is to add and that the store has again under other ids: later runs
        added them, of the same rows or saying the same.
        """
        of_rows = await asyncio.to_thread(self._of_rows, past)
        same = await asyncio.to_thread(self._same, past, adds)
        ids = {pet_id for _, pet_id in (*of_rows.values(), *chain(*same.values()))}
        there = {pet.id for pet in pets_of(ids, now.frame)}
        others = await look_up(self.api, find_absent_ids(sorted(ids), now.frame))
        there |= {pet_id for pet_id, pet in others.items() if pet is not None}
        found: dict[int, AddedAgain] = {}
        for add in adds:
            row = [of_rows[add.pet_id]] if add.pet_id in of_rows else []
            used = {pet_id for _, pet_id in found.values()}
            left = [each for each in (*row, *same[content(add.after)]) if each[1] in there - used]
            if left and add.pet_id is not None:
                found[add.pet_id] = left[0]
        return found

    def _of_rows(self, past: PastRun) -> dict[int, AddedAgain]:
        """What later runs made of the rows of the run that is to be done again; nothing, where the
        run to be taken back is no undo.
        """
        first = past
        while first.undoes:
            first = self.history.find(first.undoes)
        return {} if first is past else self.history.added_again(first.run_id)

    def _same(self, past: PastRun, adds: Iterable[Add]) -> Mapping[Hashable, list[AddedAgain]]:
        """What later runs added that says the same as these, the newest first."""
        found: dict[Hashable, list[AddedAgain]] = {content(add.after): [] for add in adds}
        for run, deed in self._since(past):
            if deed.kind == "add" and deed.pet_id is not None and content(deed.left) in found:
                found[content(deed.left)].append((run, deed.pet_id))
        return found

    def _since(self, past: PastRun) -> Iterator[LaterDeed]:
        """What later runs did, the newest first."""
        for run in self.history.runs(past.store):
            if run.run_id == past.run_id:
                return
            for deed in deeds_of(self.history.entries(run.run_id)):
                if deed.is_settled:
                    yield run.run_id, deed

    def _later(self, past: PastRun, ids: set[int | None]) -> dict[int, list[LaterDeed]]:
        """What later runs did to each of these pets, the newest first."""
        found: defaultdict[int, list[LaterDeed]] = defaultdict(list)
        for run, deed in self._since(past):
            if deed.pet_id is not None and deed.pet_id in ids:
                found[deed.pet_id].append((run, deed))
        return found
