"""Runs on a store: apply, resume, undo, their history, and the files that they write."""

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
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec
import pandas as pd

from petsync import sheets
from petsync._display import count, quote
from petsync._files import PACKED, has_wildcards, is_address, is_in_parts, list_files, real_path
from petsync._json import decoder_of
from petsync._sync import in_thread
from petsync.apply import engine
from petsync.apply.engine import (
    NO_EARLIER_RESULTS,
    EarlierResults,
    build_earlier_results,
    check_sentinels,
    give_up,
    has_unknown,
    is_of_file,
    settle_overruled,
    settle_overtaken,
    settle_superseded,
)
from petsync.apply.journal import Journal, RunSession, build_row_payload, find_runs_named
from petsync.apply.options import ApplyKeywords, ApplyOptions
from petsync.apply.planfile import copy_long_plan
from petsync.apply.undo import (
    CurrentPet,
    Effect,
    LaterAdd,
    LaterEffect,
    build_undo_guard,
    build_undo_plan,
    find_effects,
)
from petsync.client import loaders
from petsync.client.api import AsyncApi
from petsync.client.loaders import Lookups, look_up
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.errors import (
    AuthError,
    InterruptedRunError,
    LockedError,
    PetsyncError,
    PlanError,
    SheetError,
)
from petsync.images.upload import rebuild_upload_report
from petsync.models import Category
from petsync.plan.base import SentRun, continue_base, is_from_runs
from petsync.plan.change import Add, Coverage, LongChanges, Snapshot, Tally
from petsync.plan.fields import Vocabulary, content
from petsync.plan.guard import Guard
from petsync.plan.lineage import (
    RestoredPet,
    RowRecord,
    find_added_pets,
)
from petsync.plan.match import find_absent_ids, find_unproved_ids, pets_of
from petsync.plan.plan import Plan
from petsync.plan.report import (
    OUTCOMES,
    Entry,
    PastRun,
    Progress,
    Report,
    find_undoing_runs,
    is_resumable,
)
from petsync.plan.scope import longest_list
from petsync.plan.uploads import Pictures, UploadReport
from petsync.sheets.files import must_be_closed
from petsync.sheets.read import sheet_of
from petsync.sheets.results import (
    build_results,
    create_backup,
    find_written_digest,
    has_backup,
    write_back_noting_digest,
)
from petsync.table.base import Base
from petsync.table.dtypes import TEXT, time_column
from petsync.table.sheet import FRAME_NAME, Sheet

__all__ = [
    "IntoSheet",
    "OnProgress",
    "OutputRequest",
    "Outputs",
    "RunHistory",
    "Runs",
    "UndoPlanner",
    "assigns_ids",
    "default_results_path",
    "is_same_file",
    "runs_frame",
]


# History: the runs of a state folder, as tables, reports, and journal entries of one pet.


_COLUMNS = ["id", "kind", "state", "started", "seconds", "source", "total", *OUTCOMES, "undoes"]
_MAX_LISTED = 5


_UNSEEN = frozenset({"not-looked-up", "not-settled"})
"""Rules of conflicts that a later check may resolve."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Reads the journal of a state folder, and writes notes to it.

    The methods raise PetsyncError if the journal cannot be read.
    """

    state: Path

    @property
    def journal(self) -> Journal:
        """The journal, empty if there is none yet."""
        return Journal.open(self.state, create=False)

    def set_note(self, name: str, text: str, *, timeout: float = 30.0) -> None:
        """Store a note in the journal.

        Waits up to `timeout` seconds for another process that writes.
        """
        Journal.open(self.state, create=True).set_note(name, text, timeout=timeout)

    def runs(self, store: str | None = None) -> list[PastRun]:
        """Return all runs, or those on a store, the newest first."""
        return self.journal.runs(store)

    def find(self, name: str, store: str | None = None) -> PastRun:
        """Return the run whose id is `name` or begins with it; for "last", the newest run.

        Raises PlanError if there is none or several, or if it was on another store; the error names
        the matching runs, or else the newest ones.
        """
        runs = self.runs()
        found = find_runs_named(runs, name, store)
        matches = [run for run in found if store in (None, run.store)]
        if len(matches) == 1:
            return matches[0]
        if not (found or [run for run in runs if store in (None, run.store)]):
            raise PlanError(f"there is no run {name!r}", hint=self.explain_lack(store))
        raise _build_not_found_error(name, found, matches, runs, store)

    def explain_lack(self, store: str | None = None) -> str:
        """Return a hint that says where no run, or none on a store, is recorded, and what to do."""
        on_store = "" if store is None else " on this store"
        path = self.journal.path.absolute()
        return (
            f"{path} has no run{on_store}. A run is recorded where it was applied: go to that "
            "folder, or name its state folder (--state, in Python ps.connect(url, state=…))."
        )

    def report(self, run_id: str, store: str | None = None) -> Report:
        """Return the outcome of every row of a run. Raises PlanError as `find` does, and for an
        upload.
        """
        past = self.find(run_id, store)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images, and has no plan to report on",
                hint=f"`petsync runs {past.run_id}` shows the outcome of each image.",
            )
        return self.journal.report(past.run_id)

    def upload(self, run_id: str) -> UploadReport:
        """Return the outcome of every file of an upload.

        Raises PlanError if there is no such run, or if the journal has no list of files that this
        petsync can read.
        """
        past = self.find(run_id)
        journal = self.journal
        pictures = Pictures.from_json(journal.payload(past.run_id))
        return rebuild_upload_report(past, pictures, journal.entries(past.run_id))

    def entries(self, run_id: str) -> list[Entry]:
        """Return the entries of the run, in the order of their numbers."""
        return list(self.journal.entries(run_id))

    def is_part(self, run_id: str) -> bool:
        """Return true if the run's plan is incomplete: it is a part of a plan, or look-ups for it
        failed.

        Returns false for a plan that cannot be read.
        """
        try:
            plan = self.journal.plan(run_id)
        except PlanError:
            return False
        return plan.left_out > 0 or any(c.rule in _UNSEEN for c in plan.conflicts)

    def read_row_records(
        self, store: str, sheet: Sheet, *, with_undone: bool = False
    ) -> list[RowRecord]:
        """Return the records that runs on the store made of rows without an id, the newest first.
        Records of this sheet get its `source`, even if the run used another path to the same file.
        Rows whose pets an undo removed are included only with `with_undone`.
        """
        records = self.journal.read_row_records(store, with_undone=with_undone)
        if not sheet.digest:
            return records
        sources = {each.source for each in records}
        is_same = {source: _is_same(source, sheet) for source in sources}
        own = sheet.source
        return [
            msgspec.structs.replace(each, source=own) if is_same[each.source] else each
            for each in records
        ]

    def find_readded(self, run_id: str) -> dict[int, tuple[str, int]]:
        """Return the pets that the run added and that a later run of the same sheet added again for
        the same row, which has no id, or for a row with the same name. The result maps the id of
        each of these pets to the later run and the new id. It is empty if the run's plan cannot be
        read.
        """
        journal = self.journal
        try:
            plan = journal.plan(run_id)
        except PlanError:
            return {}
        later = journal.find_later_run(run_id)
        if later is None:
            return {}
        made = {each.number: each.assigned_id for each in journal.entries(run_id)}
        started = datetime.fromisoformat(self.find(run_id).started)
        records = [r for r in later.added if datetime.fromisoformat(r.run_started) > started]
        runs = {record.pet_id: record.run_id for record in records}
        pets = find_added_pets(plan.changes, plan.tab, records, by_name=True)
        return {
            old: (runs[new], new)
            for number, new in pets.items()
            if (old := made.get(number)) is not None
        }

    def continue_base(
        self,
        sheet: Sheet,
        now: pd.DataFrame | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> Sheet:
        """Return the sheet, with its base updated by the changes that the sheet's runs sent. `now`
        has the store's current pets; `vocabulary` is that of the whole store, if `now` has only a
        part of it. See `petsync.plan.base.continue_base`. Runs of a file that no longer exists
        count too if the sheet results from them: the file was then renamed, or the sheet is a
        DataFrame.
        """
        is_file = bool(sheet.digest or is_in_parts(sheet.source))
        is_frame = not is_file and sheet.source == FRAME_NAME
        if sheet.base is None or not (is_file or is_frame):
            return sheet
        runs = self.journal.read_sent_runs(sheet.base.store, sheet.base.taken_at)
        if find_unproved_ids(sheet.rows, sheet.base.rows):
            runs = [*self._iter_recognised(sheet.base), *runs]
        by_source = defaultdict[str, list[SentRun]](list)
        for run in runs:
            by_source[run.source if run.tab == sheet.tab else ""].append(run)
        names = {
            source
            for source, sent in by_source.items()
            if source
            and (
                (is_file and _is_same(source, sheet))
                or (
                    _is_missing_file(source)
                    and is_from_runs(sheet, sheet.base, sent, now, vocabulary)
                )
            )
        }
        same = [run.source in names and run.tab == sheet.tab for run in runs]
        own = [run for run, is_own in zip(runs, same, strict=True) if is_own]
        copies = [run for run, is_own in zip(runs, same, strict=True) if not is_own]
        base = continue_base(sheet, sheet.base, own, copies, now, vocabulary)
        return dataclasses.replace(sheet, base=base)

    def _iter_recognised(self, base: Base) -> Iterator[SentRun]:
        """Yield the runs of sheets with this base that recognised pets of rows without an id, each
        with these pets as adds that the store had already; the oldest first.
        """
        adds = defaultdict[tuple[str, str, str], list[Add]](list)
        cells = defaultdict[tuple[str, str, str], dict[int, Category]](dict)
        for record in reversed(self.journal.read_row_records(base.store)):
            is_known = record.state == "added" and not record.is_added
            if is_known and record.base == base.taken_at and record.pet_id is not None:
                key = record.run_id, record.source, record.tab
                pet = msgspec.structs.replace(record.last_agreed, id=record.pet_id)
                adds[key].append(Add(row=record.row, source="", fields=(), after=pet))
                if record.category is not None:
                    cells[key][record.row] = record.category
        for key, sent in adds.items():
            yield SentRun(*key, sent=tuple(sent), categories=cells[key])

    def find_undone_runs(self, restored: Iterable[RestoredPet], sheet: Sheet) -> frozenset[str]:
        """Return the undone runs whose sheet is this one or comes from the same export."""
        base = "" if sheet.base is None else sheet.base.taken_at
        origins = set[tuple[str, str, str]]()
        for newest in restored:
            each: RestoredPet | None = newest
            while each is not None:
                origins.add((each.run, each.source, each.base))
                each = each.earlier
        is_same = {s: bool(sheet.digest) and _is_same(s, sheet) for _, s, _ in origins if s}
        return frozenset(
            run
            for run, source, of_base in origins
            if is_same.get(source) or (of_base and of_base == base)
        )

    def find_id_writers(self, records: Iterable[RowRecord]) -> set[str]:
        """Return the runs of these records that wrote, or may have written, ids into their sheet.
        A round, and `write_back`, leave a backup of what the sheet was before. The notes of runs in
        other state folders are not read.
        """
        newest = {each.run_id: each for each in records}
        return {
            run
            for run, record in newest.items()
            if self._has_written_ids(run) or _has_backup_since(record)
        }

    def _has_written_ids(self, run: str) -> bool:
        """Return true if the note of a run says that it wrote, or meant to write, ids."""
        try:
            fingerprint = self.journal.find(run).fingerprint
        except PlanError:
            return False  # The run is in another state folder.
        text = self.journal.note(_outputs_note_name(fingerprint))
        request = decoder_of(OutputRequest).decode(text) if text else OutputRequest()
        return bool(request.digest or request.intended)

    def find_entries(self, pet_id: int, store: str | None = None) -> list[tuple[PastRun, Entry]]:
        """Return the journal entries about a pet, each with its run, the newest first."""
        journal = self.journal
        return [
            (past, entry)
            for past in journal.runs(store)
            for entry in reversed(list(journal.entries(past.run_id)))
            if pet_id in (entry.pet_id, entry.assigned_id)
        ]


def _has_backup_since(record: RowRecord) -> bool:
    """Return true if petsync has written into the sheet of a run after this run."""
    if not record.digest or not record.run_started or is_address(record.source):
        return False
    started = datetime.fromisoformat(record.run_started)
    return has_backup(Path(record.source), record.digest, started)


def _is_missing_file(source: str) -> bool:
    """Return true if a sheet no longer exists; for an address, this is not known."""
    return not is_address(source) and not os.path.lexists(source)


def _is_same(one: str, sheet: Sheet) -> bool:
    """Return true if an earlier sheet is the same file as this one, or has a file in common."""
    other = sheet.source
    if real_path(one) == real_path(other):
        return True
    if is_address(one) or is_address(other):
        return is_address(one) and is_address(other) and _have_name_in_common(one, sheet)
    if not is_in_parts(one) and not is_in_parts(other):
        return False
    return not _find_files(one).isdisjoint(_find_files(other))


def is_same_file(one: str, other: str) -> bool:
    """Return true if two sources are the same file on this machine, or the same address."""
    return one == other or real_path(one) == real_path(other)


def _have_name_in_common(one: str, sheet: Sheet) -> bool:
    """Return true if an earlier sheet at an address has a file name in common with this one."""
    folder, _, name = sheet.source.rpartition("/")
    if sheet.files and not has_wildcards(sheet.source):
        folder = sheet.source
    earlier, _, pattern = one.rpartition("/")
    is_there = any(fnmatchcase(each, pattern) for each in sheet.files or (name,))
    return one == folder or (earlier == folder and is_there)


def _find_files(source: str) -> frozenset[str]:
    """Return the real paths of the files of a sheet."""
    with suppress(OSError):
        return frozenset(os.path.realpath(each) for each in list_files(Path(source)))
    return frozenset()


def runs_frame(runs: Iterable[PastRun]) -> pd.DataFrame:
    """Return a table of the runs, in the given order.

    The columns are id, kind, state, started (UTC), seconds, source, total, applied, unchanged, not
    sent, conflict, needs fixing, failed, unknown, undoes. A started change without an outcome
    counts as unknown.
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
    texts = dict.fromkeys(("id", "kind", "state", "source", "undoes"), TEXT)
    integers = dict.fromkeys(("total", *OUTCOMES), "int64")
    frame = frame.astype({**texts, **integers, "seconds": "float64"})
    return frame.assign(started=time_column(frame["started"]))


def _open(run: PastRun, outcome: str) -> int:
    return run.open if outcome == "unknown" else 0


def _build_not_found_error(
    name: str, found: list[PastRun], matches: list[PastRun], runs: list[PastRun], store: str | None
) -> PlanError:
    if len(matches) > 1:
        return PlanError(
            f"{len(matches)} runs begin with {name!r}: {_list_ids(matches)}",
            hint="Give more characters of the id.",
        )
    if found:
        other = found[0]
        return PlanError(
            f"run {other.run_id} was on {other.store}, and this store is {store}",
            hint=f"Name that store: --url {quote(other.store)}, in Python "
            f"ps.connect({other.store!r})",
        )
    known = [run for run in runs if store in (None, run.store)]
    hint = f"The newest are {_list_ids(known)}. `petsync runs` lists all."
    return PlanError(f"there is no run {name!r}", hint=hint)


def _list_ids(runs: list[PastRun]) -> str:
    return ", ".join(run.run_id for run in runs[:_MAX_LISTED])


# Outputs: the files that a run writes beside its sheet, and what it writes into the sheet.


IntoSheet = Literal["", "ids", "results"]
"""What a run writes into the sheet itself: nothing, new ids, or all its results."""


_NOTE_TIMEOUT_S = 1.0


class OutputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run must write into its results file and its sheet."""

    into_sheet: IntoSheet = ""
    results: str = ""
    """The path of the results file, "" for the default one."""
    digest: str = ""
    """The sheet's SHA-256 after the run wrote into it, "" before."""
    intended: str = ""
    """The SHA-256 of the sheet after an intended write, which may not have happened."""
    in_sheet: str = ""
    """The SHA-256 of the outcomes that were written into the sheet, "" before."""
    in_results: str = ""
    """The SHA-256 of the outcomes in the results file, "" before."""
    written: str = ""
    """The path of the results file that was written last."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Writes the files of runs, and records them in the journal, so that a resume writes them
    too.
    """

    history: RunHistory

    def remember(self, plan: Plan, request: OutputRequest, *, timeout: float = 30.0) -> None:
        """Record what the plan's run must write, in place of an earlier record; the record is on
        disk when this returns.

        Before a run starts, the caller must check that no other run has started with the plan.
        """
        if request != self.read_request(plan):
            text = msgspec.json.encode(request).decode()
            self.history.set_note(_plan_note_name(plan), text, timeout=timeout)

    def read_request(self, plan: Plan) -> OutputRequest:
        """Return what was recorded with `remember`, by default an empty request."""
        text = self.history.journal.note(_plan_note_name(plan))
        return decoder_of(OutputRequest).decode(text) if text else OutputRequest()

    def are_in_sheet(self, report: Report) -> bool:
        """Return true if the outcomes were written into the sheet, which may have been edited
        since.
        """
        return self.read_request(report.plan).in_sheet == _digest_outcomes(report)

    def are_in_results(self, report: Report) -> bool:
        """Return true if a results file has the outcomes."""
        request = self.read_request(report.plan)
        return request.in_results == _digest_outcomes(report) and Path(request.written).is_file()

    def sheet(self, plan: Plan, statuses: tuple[str, ...]) -> Sheet | None:
        """Return the plan's sheet if nothing but the plan's run has changed it; else None."""
        sheet, request = sheet_of(plan, statuses=statuses), self.read_request(plan)
        for digest in filter(None, (request.digest, request.intended)):
            sheet = sheet or sheet_of(plan, statuses=statuses, digest=digest)
        return sheet

    def sheet_of_run(
        self, report: Report, statuses: tuple[str, ...]
    ) -> tuple[Sheet, Report] | None:
        """Return the sheet of the report's plan, with its base updated by the runs, and the report
        for this sheet; None if the sheet is missing, or something other than the run, or
        `write_back` of its report, has changed it.
        """
        sheet = self.sheet(report.plan, statuses)
        if sheet is None and (digest := find_written_digest(report, statuses)) is not None:
            sheet = sheet_of(report.plan, statuses=statuses, digest=digest)
        if sheet is None:
            return None
        return self.history.continue_base(sheet), _report_for_sheet(report, sheet)

    def write_into_sheet(self, sheet: Sheet, report: Report, into_sheet: IntoSheet) -> Path:
        """Write the run's ids, or all its results, into the sheet; return the path of the backup.

        Raises SheetError, which says what was not written, if the sheet or the journal cannot be
        written.
        """
        plan, sheet_report = report.plan, _report_for_sheet(report, sheet)
        only_ids = into_sheet == "ids"
        try:
            request = self.read_request(plan)

            def note(digest: str) -> None:
                self.remember(plan, msgspec.structs.replace(request, intended=digest))

            sheet_with_base = self.history.continue_base(sheet)
            backup = write_back_noting_digest(
                sheet_with_base, sheet_report, only_ids=only_ids, note=note
            )
        except PetsyncError as error:
            what = "the new ids were" if only_ids else "the outcome of each row was"
            message = f"{what} not written into {sheet.source}: {error.problem}"
            raise SheetError(message, hint=error.cure) from error
        # The sheet is written: without this record, `intended` has the same digest.
        with suppress(PetsyncError):
            digest = _compute_digest(Path(sheet.source))
            request = msgspec.structs.replace(
                request, digest=digest, intended="", in_sheet=_digest_outcomes(report)
            )
            self.remember(plan, request)
        return backup

    def write_results(
        self, sheet: Sheet, report: Report, path: Path, *, follow: bool = False
    ) -> Path | None:
        """Write the results file, and return the path of the backup of an existing file.

        Returns None if no file existed, or if petsync wrote the existing file and it has not been
        changed since. Raises SheetError if the file cannot be written, is open in another program,
        or is a symbolic link and `follow` is false.
        """
        backup = None
        if path.is_file() and (follow or not path.is_symlink()):
            must_be_closed(path)
            if self.history.journal.note(_results_note_name(path)) != _compute_digest(path):
                backup = create_backup(path.absolute(), path.read_bytes(), dt.datetime.now(dt.UTC))
        sheet_with_base = self.history.continue_base(sheet)
        copy = build_results(sheet_with_base, _report_for_sheet(report, sheet), path)
        copy.write(follow=follow)
        # Without the note the next run makes a backup of this file, so nothing is lost.
        with suppress(PetsyncError):
            self.history.set_note(
                _results_note_name(path), _compute_digest(path), timeout=_NOTE_TIMEOUT_S
            )
            request = msgspec.structs.replace(
                self.read_request(report.plan),
                in_results=_digest_outcomes(report),
                written=str(path.absolute()),
            )
            self.remember(report.plan, request, timeout=_NOTE_TIMEOUT_S)
        return backup


def default_results_path(sheet: Sheet) -> Path:
    """Return the default path of the results file, such as `catalogue.results.xlsx` beside the
    sheet.

    It is in the current folder if the sheet's folder is read-only.
    """
    source = Path(sheet.source)
    if sheet.form:
        source = _unpacked_path(source)
    # The results file of a workbook with macros has the macros too.
    suffix = source.suffix if source.suffix.casefold() in results_endings(sheet) else ""
    folder = source.parent if os.access(source.parent, os.W_OK) else Path()
    # A file name has at most 255 bytes, including the suffixes of a sidecar and a backup.
    stem = source.stem.encode()[:200].decode(errors="ignore")
    return folder / f"{stem}.results{suffix or results_endings(sheet)[0]}"


def results_endings(sheet: Sheet) -> tuple[str, ...]:
    """Return the endings that the name of the sheet's results file can have."""
    is_text = sheet.tab == "" and not sheet.is_table
    endings = sheets.results_endings("text" if is_text else "workbook", sheet.form)
    has_macros = Path(sheet.source).suffix.casefold() == ".xlsm"
    return endings if is_text or has_macros else endings[:1]


def _unpacked_path(path: Path) -> Path:
    """Return the path without the ending of a compressed file; `stdin` for standard input."""
    if str(path) == sheets.STDIN:
        return Path("stdin")
    return path.with_suffix("") if path.suffix.casefold() in PACKED else path


def assigns_ids(plan: Plan) -> bool:
    """Return true if the plan gives ids to rows of the sheet."""
    return bool(plan.recognised) or Tally.of(plan.changes).unassigned > 0


def _report_for_sheet(report: Report, sheet: Sheet) -> Report:
    """Return the report with the sheet's current digest, because the report's run may have changed
    the sheet.
    """
    if report.plan.source_digest == sheet.digest:
        return report
    plan = msgspec.structs.replace(report.plan, source_digest=sheet.digest)
    return msgspec.structs.replace(report, plan=plan)


def _digest_outcomes(report: Report) -> str:
    outcomes = sorted((each.number, each.outcome, each.assigned_id or 0) for each in report.results)
    return hashlib.sha256(msgspec.json.encode(outcomes)).hexdigest()


def _compute_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise PetsyncError(f"{path} cannot be read: {error.strerror}") from None


def _plan_note_name(plan: Plan) -> str:
    return _outputs_note_name(plan.fingerprint)


def _outputs_note_name(fingerprint: str) -> str:
    return f"outputs of {fingerprint}"


def _results_note_name(path: Path) -> str:
    return f"results in {os.path.realpath(path)}"


# Runs: apply a plan or resume a run, under the store's lock in the journal.


OnProgress = Callable[[Progress], None] | None


@dataclass(frozen=True, slots=True)
class Runs:
    """Applies and resumes plans on one store."""

    api: AsyncApi
    state: Path
    """The folder of the journal."""

    @property
    def session(self) -> Session:
        """The connections to the store."""
        return self.api.session

    def check_unused(self, plan: Plan) -> None:
        """Raise StalePlanError if a run has already started with this plan."""
        Journal.open(self.state, create=False).check_unused(plan.fingerprint)

    async def apply(self, plan: Plan, options: ApplyOptions, on_progress: OnProgress) -> Report:
        """Apply the plan, and return the report. Raises the same errors as AsyncStore.apply."""
        if plan.changes:
            self.api.session.require_write()
            await self._require_token(_PLAN_IS_UNUSED)
        target = ServiceTarget(self.api)
        await check_sentinels(plan, target)
        if isinstance(plan.changes, LongChanges):
            # The file may be changed while its plan is applied.
            plan = await in_thread(partial(copy_long_plan, plan))
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        journal = await in_thread(partial(Journal.open, self.state, create=True))
        await asyncio.sleep(0)  # if cancelled before this point, no run starts
        begin = partial(
            journal.begin,
            run_id,
            kind="undo" if plan.undoes else "apply",
            store=plan.store,
            source=plan.source,
            started=now.isoformat(timespec="microseconds"),
            total=len(plan.changes),
            plan=plan,
            payload=build_row_payload(plan),
            fingerprint=plan.fingerprint,
            undoes=plan.undoes,
            options=msgspec.to_builtins(options),
        )
        async with await in_thread(begin) as run_session:
            started = now.isoformat(timespec="microseconds")
            settle = partial(_settle_overtaken, plan, NO_EARLIER_RESULTS, journal, run_session)
            earlier = await in_thread(settle)
            return await self._execute(
                plan, target, run_session, started, options, earlier, on_progress
            )

    async def _require_token(self, then: str) -> None:
        """Get a missing token. Raises AuthError, with `then` as what to do afterwards."""
        try:
            await self.session.ensure_fresh()
        except AuthError as error:
            raise _add_nothing_sent(error, then) from None

    async def resume(
        self,
        past: PastRun,
        plan: Plan,
        given: ApplyKeywords,
        on_progress: OnProgress,
        *,
        gives_up: bool = False,
    ) -> Report:
        """Resume the run, and return its report.

        `past` and `plan` are the result of `to_resume`; options in `given` that are not None
        replace those of the run. With `gives_up`, only GET requests are sent. Raises the same
        errors as AsyncStore.resume.
        """
        journal = await in_thread(partial(Journal.open, self.state, create=False))
        _check_startable(past, journal)
        if not is_resumable(past):
            return await in_thread(partial(journal.report, past.run_id))
        await self._require_token(_RUN_IS_LEFT.format(past.run_id))
        target = ServiceTarget(self.api)
        if not gives_up:
            if past.run_id not in find_undoing_runs(journal.runs(past.store)):
                self.api.session.require_write()
            await check_sentinels(plan, target)
        options = ApplyOptions.of(journal.options(past.run_id), given)
        async with await in_thread(partial(journal.resume, past.run_id)) as run_session:
            # Read the entries only now: under the lock no other process writes any.
            read_entries = partial(journal.entries, past.run_id)
            earlier = build_earlier_results(plan, read_entries, past.seconds)
            earlier = _update_earlier(plan, past, earlier, journal, run_session, gives_up=gives_up)
            return await self._execute(
                plan, target, run_session, past.started, options, earlier, on_progress
            )

    def to_resume(self, run_id: str, *, startable: bool = False) -> tuple[PastRun, Plan]:
        """Return the run that `resume` would finish, and its plan.

        If `run_id` is "", this is the newest run that is not complete. Raises PlanError if there is
        none. With `startable`, also raises PlanError if the run was undone and has no unknown
        outcomes, and LockedError while a run is working on the store.
        """
        journal = Journal.open(self.state, create=False)
        past = self._find_resumable(journal, run_id)
        if startable:
            _check_startable(past, journal)
        return past, journal.plan(past.run_id)

    def find_unfinished(self, sheet: str) -> PastRun | None:
        """Return the newest run of the sheet, if it was stopped, can be resumed and is not undone;
        else None.

        `sheet` is the sheet's real path.
        """
        journal = Journal.open(self.state, create=False)
        runs = journal.runs(self.session.base_url)
        own = (p for p in runs if p.kind == "apply" and real_path(p.source) == sheet)
        past = next(own, None)
        if past is None or past.state != "stopped" or not is_resumable(past):
            return None
        return None if past.run_id in find_undoing_runs(runs) else past

    def _find_resumable(self, journal: Journal, run_id: str) -> PastRun:
        """Return the run to resume: the named one, or the newest one that has something left.

        Raises PlanError if there is none.
        """
        store = self.session.base_url
        if not run_id:
            runs = journal.runs(store)
            past = next(engine.find_unfinished(runs, with_running=True), None)
            if past is None:
                known = f"`petsync runs` lists the runs of {journal.path}."
                raise PlanError(
                    f"no run on {store} can be resumed",
                    hint=_build_undone_hint(runs, find_undoing_runs(runs))
                    or (known if runs else RunHistory(self.state).explain_lack(store)),
                )
            return past
        past = RunHistory(self.state).find(run_id, store)
        if past.kind == "upload":
            raise PlanError(
                f"run {past.run_id} uploaded images",
                hint="`petsync upload` with the same folder or sheet completes it.",
            )
        return past

    async def _execute(
        self,
        plan: Plan,
        target: ServiceTarget,
        run_session: RunSession,
        started: str,
        options: ApplyOptions,
        earlier: EarlierResults,
        on_progress: OnProgress,
    ) -> Report:
        session = self.session
        max_concurrent = session.gate.most
        target.before_send = run_session.confirm_lock
        session.pace.rate, session.gate.most = options.rate, options.max_concurrent
        try:
            report = await engine.run(
                plan,
                target,
                run_session,
                run_id=run_session.run_id,
                started=started,
                options=options,
                earlier=earlier,
                on_progress=on_progress,
            )
            report = await run_session.finish_report(report)
        except AuthError as error:
            what = _RUN_IS_LEFT.format(run_session.run_id)
            with suppress(PetsyncError):
                if run_session.is_first:
                    await run_session.withdraw()
                    what = _PLAN_IS_UNUSED
                else:
                    await run_session.finish(stopped=error.text)
            raise _add_nothing_sent(error, what) from None
        finally:
            session.pace.rate, session.gate.most = None, max_concurrent
        if report.stopped:
            raise _build_stopped_error(report)
        return report


_PLAN_IS_UNUSED = "Once access is granted, the same plan can be applied."
_RUN_IS_LEFT = "Once access is granted, `petsync resume {}` continues the run."


def _add_nothing_sent(error: AuthError, then: str) -> AuthError:
    """Return the error with the addition that nothing was sent, and what to do then."""
    error.problem = f"{error.problem}; nothing was sent"
    error.cure = f"{error.cure} {then}".lstrip()
    return error


def _check_startable(past: PastRun, journal: Journal) -> None:
    """Raise PlanError or LockedError if a resume could not start now."""
    _check_not_undone(past, find_undoing_runs(journal.runs(past.store)))
    if is_resumable(past):
        journal.check_free(past.store)


def _check_not_undone(past: PastRun, undoing_runs: Mapping[str, PastRun]) -> None:
    """Raise PlanError for an undone run, unless it has unknown outcomes."""
    undo_run = undoing_runs.get(past.run_id)
    if undo_run is not None and not has_unknown(past):
        raise PlanError(
            f"run {past.run_id} was undone by run {undo_run.run_id}, so its remaining changes are "
            "not sent",
            hint="Make a new plan if you want these changes.",
        )


def _settle_overtaken(
    plan: Plan, earlier: EarlierResults, journal: Journal, run_session: RunSession
) -> EarlierResults:
    """Return the earlier results of a run, and results for rows without an id that another run of
    the sheet added, or may have added, since the plan was made: this run does not add these rows
    again. Record the new ones in the journal.
    """
    if plan.undoes or not Tally.of(plan.changes).unassigned:
        return earlier
    planned_at, now = datetime.fromisoformat(plan.created), datetime.now(UTC)
    recognised = set(plan.recognised.values())
    records = [
        record
        for record in _iter_at_plan(plan, journal.read_row_records(plan.store))
        if record.state == "unknown" or (record.state == "added" and record.pet_id is not None)
        if record.pet_id not in recognised
        if record.is_added and record.run_id != run_session.run_id
        # The run may have been working when the plan was made. A time in the future was before the
        # clock was set back.
        if planned_at <= datetime.fromisoformat(record.at or record.run_started) <= now
        if is_of_file(plan, record)
        or (record.base == plan.base if plan.base else _is_of_table(plan, record))
    ]
    if not records:
        return earlier
    earlier, decided = settle_overtaken(plan, earlier, records)
    for result in decided:
        run_session.record_result(result)
    return earlier


def _iter_at_plan(plan: Plan, records: Iterable[RowRecord]) -> Iterator[RowRecord]:
    """Yield the records. If the plan is of a workbook of failed rows, the records of the sheet from
    which its rows were copied become records of the workbook: a row that was not copied gets the
    number -1.
    """
    origins = plan.source_rows or {}
    files = {(origin.source, origin.tab) for origin in origins.values()}
    rows = {(origin.source, origin.tab, origin.row): row for row, origin in origins.items()}
    for record in records:
        for source, tab in files:
            if record.tab == tab and is_same_file(record.source, source):
                row = rows.get((source, tab, record.row), -1)
                record = msgspec.structs.replace(
                    record, source=plan.source, tab=plan.tab, digest=record.digest or "-", row=row
                )
                break
        yield record


def _is_of_table(plan: Plan, record: RowRecord) -> bool:
    """Return true if the plan and the record are of a DataFrame, which has no digest, and belong to
    this state folder.
    """
    return record.source == plan.source and not (record.digest or record.folder)


def _update_earlier(
    plan: Plan,
    past: PastRun,
    earlier: EarlierResults,
    journal: Journal,
    run_session: RunSession,
    *,
    gives_up: bool,
) -> EarlierResults:
    """Return the earlier results of a resumed run, and results for changes that are no longer sent
    because of its undo or of other runs on the store. Record the new ones in the journal.
    """
    undo_run = find_undoing_runs(journal.runs(past.store)).get(past.run_id)
    if undo_run is not None:
        earlier, decided = give_up(plan, earlier, undo_run.run_id)
    else:
        earlier, decided = settle_overruled(plan, earlier, _iter_later_entries(past, journal))
        if (later := journal.find_later_run(past.run_id)) is not None:
            added = find_added_pets(plan.changes, plan.tab, later.added, skip=earlier.results)
            earlier, more = settle_superseded(plan, earlier, later.run_id, added)
            decided += more
        # The process that started the run may have been killed before it recorded these results.
        earlier = _settle_overtaken(plan, earlier, journal, run_session)
        if gives_up:
            earlier, more = give_up(plan, earlier)
            decided += more
    for result in decided:
        run_session.record_result(result)
    return earlier


def _iter_later_entries(past: PastRun, journal: Journal) -> Iterator[tuple[str, Entry]]:
    """Yield the changes that later runs made or may have made, the newest first."""
    for run in journal.runs(past.store):
        if run.run_id == past.run_id:
            return
        for entry in journal.entries(run.run_id):
            if entry.intended and entry.outcome in ("applied", "unknown", None):
                yield run.run_id, entry


def _build_undone_hint(runs: Sequence[PastRun], undone: Mapping[str, PastRun]) -> str:
    """Return a hint that says how to determine the unknown outcomes of an undone run, "" if there
    are none.
    """
    past = next((run for run in runs if run.run_id in undone and has_unknown(run)), None)
    if past is None or past.kind == "upload":
        return ""
    changes = count(past.open + past.counts.get("unknown", 0), "change")
    return (
        f"Run {past.run_id} was undone, and the outcome of {changes} is unknown: `petsync resume "
        f"{past.run_id}` determines it, and sends nothing."
    )


def _build_stopped_error(report: Report) -> InterruptedRunError:
    done = sum(result.outcome == "applied" for result in report.results)
    error = InterruptedRunError(
        f"run {report.run_id} was stopped: {report.stopped.splitlines()[0]}",
        hint=f"{done:,} of {len(report.plan.changes):,} changes were applied. `petsync resume "
        f"{report.run_id}` sends the remaining changes, and determines the outcome of requests "
        "that were under way.",
    )
    error.report = report
    return error


# UndoPlanner: choose the run to undo, and make the plan.


def _without_look_ups(coverage: Coverage) -> Coverage:
    """Return the coverage without failed look-ups, because their pets are in conflict."""
    return msgspec.structs.replace(coverage, failed=()) if coverage.is_narrow else coverage


_LATER_CHANGE_RULES = frozenset({"changed-since-run", "came-since-run", "gone-since-run"})


@dataclass(frozen=True, slots=True)
class UndoPlanner:
    """Makes the plans that undo runs of one store."""

    api: AsyncApi
    history: RunHistory

    async def plan(
        self,
        run_id: str,
        guard: Guard,
        given: Collection[str] | None,
        on_progress: Callable[[Lookups], None] | None,
    ) -> Plan:
        """Return the plan of an undo. `given` are the names of the limits in the guard that the
        user has chosen, None for all. Raises the same errors as AsyncStore.undo.
        """
        past, entries = await asyncio.to_thread(self._choose_run, run_id)
        effects = list(find_effects(entries))
        now = await self._take_snapshot(effects, guard, on_progress)
        found = await self._find_present(effects, now, on_progress)
        if given is not None:
            adds_all = sum(effect.kind == "add" for effect in effects) >= len(now)
            is_from_empty = adds_all and await asyncio.to_thread(self._began_empty, past)
            guard = build_undo_guard(guard, given, effects, is_from_empty=is_from_empty)
        journal = await asyncio.to_thread(lambda: self.history.journal)
        make = partial(
            build_undo_plan,
            past,
            entries,
            found,
            known_ids=await asyncio.to_thread(journal.find_known_ids, past.run_id),
            store=now.source,
            profile=self.api.session.profile.name,
            pets=len(now),
            capacity=self.api.session.profile.capacity,
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
            guard=guard,
            coverage=_without_look_ups(now.coverage),
            sentinels=pets_of(guard.sentinels, now.rows),
            owners=(await asyncio.to_thread(journal.read_options, past.run_id)).owners,
        )
        plan = make()
        if plan.adds:
            make = partial(make, readded=await self._find_readded(past, plan.adds, now))
            plan = make()
        changed_ids = {each.pet_id for each in plan.conflicts if each.rule in _LATER_CHANGE_RULES}
        return (
            make(
                later_effects=await asyncio.to_thread(self._group_later_effects, past, changed_ids)
            )
            if changed_ids
            else plan
        )

    async def _take_snapshot(
        self,
        effects: Iterable[Effect],
        guard: Guard,
        on_progress: Callable[[Lookups], None] | None,
    ) -> Snapshot:
        """Return a snapshot of the store or, if its list is long and the effects are few, of their
        pets and the sentinels.
        """
        profile = self.api.session.profile
        pets = (each.pet_id for each in effects if each.pet_id is not None and each.is_settled)
        ids = [*dict.fromkeys([*pets, *guard.sentinels])]
        most = None if profile.capacity is not None else longest_list(len(ids))
        if most is None:
            return await loaders.snapshot(self.api, profile.statuses)
        now = await loaders.short_snapshot(self.api, profile.statuses, most)
        if isinstance(now, Snapshot):
            return now
        return await loaders.snapshot_of(self.api, ids, least=now, on_progress=on_progress)

    def _choose_run(self, run_id: str) -> tuple[PastRun, list[Entry]]:
        store = self.api.session.base_url
        past = self.history.find(run_id, store) if run_id else self._find_newest(store)
        if past is None:
            raise PlanError(
                f"no run on {store} has any changes left to undo",
                hint="`petsync runs` lists the runs."
                if self.history.runs(store)
                else self.history.explain_lack(store),
            )
        if past.state == "running":
            raise LockedError(
                f"run {past.run_id} is still running",
                hint="Wait for it to end, or stop it with Ctrl-C where it runs; then undo it.",
            )
        return past, self.history.entries(past.run_id)

    def _began_empty(self, past: PastRun) -> bool:
        """Return true if the plan of the run was made for an empty store."""
        try:
            return past.kind != "upload" and not self.history.journal.plan(past.run_id).pets
        except PlanError:
            return False

    def _find_newest(self, store: str) -> PastRun | None:
        """Return the newest run that changed something, is not completely undone, and is not an
        undo.

        A run whose undo was stopped or partial is not completely undone.
        """
        runs = self.history.runs(store)
        undone = find_undoing_runs(runs)
        for run in runs:
            if run.kind != "undo" and self._has_changed(run):
                by = undone.get(run.run_id)
                if by is None or by.state != "done" or self.history.is_part(by.run_id):
                    return run
        return None

    def _has_changed(self, run: PastRun) -> bool:
        """Return true if the run changed any pet.

        A change that failed may also have changed a pet, for example if the service stored other
        values.
        """
        if run.counts.get("applied"):
            return True
        if not any(run.counts.get(each) for each in ("failed", "conflict", "unknown")):
            return False
        return any(effect.is_settled for effect in find_effects(self.history.entries(run.run_id)))

    async def _find_present(
        self, effects: list[Effect], now: Snapshot, on_progress: Callable[[Lookups], None] | None
    ) -> dict[int, CurrentPet]:
        """Return the current pets by id; those that no query lists are looked up one by one."""
        ids = [
            effect.pet_id for effect in effects if effect.pet_id is not None and effect.is_settled
        ]
        listed = {pet.id: pet for pet in pets_of(ids, now.rows) if pet.id is not None}
        known = now.not_found
        absent = [each for each in find_absent_ids(ids, now.rows) if each not in known]
        others = await look_up(self.api, absent, on_progress=on_progress)
        return {**listed, **known, **others}

    async def _find_readded(
        self, past: PastRun, adds: Collection[Add], now: Snapshot
    ) -> dict[int, LaterAdd]:
        """Return, by the id of a pet that the undo would add, a later run that added the same pet
        under another id, and this id. The run added it for the same row, or with the same values,
        and the store still has it.
        """
        of_rows = await asyncio.to_thread(self._find_readded_rows, past)
        same = await asyncio.to_thread(self._find_same_adds, past, adds)
        ids = {pet_id for _, pet_id in (*of_rows.values(), *chain(*same.values()))}
        existing = {pet.id for pet in pets_of(ids, now.rows)}
        others = await look_up(self.api, find_absent_ids(sorted(ids), now.rows))
        existing |= {pet_id for pet_id, pet in others.items() if pet is not None}
        found: dict[int, LaterAdd] = {}
        for add in adds:
            row = [of_rows[add.pet_id]] if add.pet_id in of_rows else []
            used_ids = {pet_id for _, pet_id in found.values()}
            candidates = [
                each for each in (*row, *same[content(add.after)]) if each[1] in existing - used_ids
            ]
            if candidates and add.pet_id is not None:
                found[add.pet_id] = candidates[0]
        return found

    def _find_readded_rows(self, past: PastRun) -> dict[int, LaterAdd]:
        """Return the pets that later runs added for rows of the first run that `past` undoes,
        possibly through other undos. The result is empty if `past` is not an undo.
        """
        first = past
        while first.undoes:
            first = self.history.find(first.undoes)
        return {} if first is past else self.history.find_readded(first.run_id)

    def _find_same_adds(
        self, past: PastRun, adds: Iterable[Add]
    ) -> Mapping[Hashable, list[LaterAdd]]:
        """Return the pets that later runs added with the values of these adds, the newest first."""
        found: dict[Hashable, list[LaterAdd]] = {content(add.after): [] for add in adds}
        for run, effect in self._iter_later_effects(past):
            if effect.kind == "add" and effect.pet_id is not None and content(effect.new) in found:
                found[content(effect.new)].append((run, effect.pet_id))
        return found

    def _iter_later_effects(self, past: PastRun) -> Iterator[LaterEffect]:
        """Yield the effects of later runs, the newest first."""
        for run in self.history.runs(past.store):
            if run.run_id == past.run_id:
                return
            for effect in find_effects(self.history.entries(run.run_id)):
                if effect.is_settled:
                    yield run.run_id, effect

    def _group_later_effects(
        self, past: PastRun, ids: set[int | None]
    ) -> dict[int, list[LaterEffect]]:
        """Return the effects of later runs on each of these pets, the newest first."""
        found: defaultdict[int, list[LaterEffect]] = defaultdict(list)
        for run, effect in self._iter_later_effects(past):
            if effect.pet_id is not None and effect.pet_id in ids:
                found[effect.pet_id].append((run, effect))
        return found
