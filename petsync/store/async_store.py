"""The class AsyncStore, which represents one service with asynchronous methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

import msgspec
import pandas as pd

from petsync import sheets
from petsync._display import type_name
from petsync._files import is_address, is_in_parts, real_path
from petsync._options import reject_unknown, show_keywords
from petsync._sync import delegate
from petsync.apply.options import ApplyKeywords, ApplyOptions, check_keywords
from petsync.client import loaders
from petsync.client.api import AsyncApi, as_list
from petsync.client.loaders import Found, Lookups, look_up
from petsync.client.session import Session
from petsync.errors import PlanError, SettingsError, SheetError, StalePlanError
from petsync.plan import arguments
from petsync.plan.change import Snapshot
from petsync.plan.guard import NO_GUARD, Guard, UndoKeywords, guard_from
from petsync.plan.notes import first_items
from petsync.plan.plan import Plan
from petsync.plan.report import PastRun, Progress, Report
from petsync.settings import Settings, checked_address
from petsync.sheets.failed import FailedRows
from petsync.sheets.files import must_not_be_address
from petsync.sheets.records import suggest_collect
from petsync.store.comparison import SheetComparer
from petsync.store.edits import PetEditor
from petsync.store.failed import save_failed_rows
from petsync.store.images import StoreImages
from petsync.store.runs import OnProgress, Outputs, RunHistory, Runs, UndoPlanner, runs_frame
from petsync.store.signin import SignIn
from petsync.table.arrow import ArrowTable
from petsync.table.base import base_of_frame, frame_with_base
from petsync.table.options import ReadKeywords, ReadOptions
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.scale.parts import PartFolder

__all__ = ["AsyncStore"]


class AsyncStore:
    """One service, with asynchronous methods: an AsyncStore loads pets, and makes and applies
    plans. `api` has the service's eight operations.
    """

    def __init__(self, session: Session, settings: Settings) -> None:
        self.api = AsyncApi(session)
        self.settings = settings
        self._session = session
        self._runs = Runs(self.api, settings.state)
        self._sign_in = SignIn.of(session, settings)
        self._images = StoreImages(self.api, settings, self.read, self.snapshot)
        self._comparer = SheetComparer(
            self.api,
            self.history,
            self.read,
            self.snapshot,
            self._images.load_uploads,
            self._read_parts,
        )
        self._editor = PetEditor(self.api, self.snapshot, self.plan, self.read, self.settings.rules)

    compare = delegate("_comparer", SheetComparer.compare)
    read_with_snapshot = delegate("_comparer", SheetComparer.read_with_snapshot)
    plan = delegate("_comparer", SheetComparer.plan)
    why = delegate("_comparer", SheetComparer.why)
    edit = delegate("_editor", PetEditor.edit)
    pictures = delegate("_images", StoreImages.pictures)
    pictures_of = delegate("_images", StoreImages.pictures_of)
    photo = delegate("_images", StoreImages.photo)
    serves = delegate("_images", StoreImages.serves)
    upload = delegate("_images", StoreImages.upload)
    sign_in = delegate("_sign_in", SignIn.sign_in)
    begin_sign_in = delegate("_sign_in", SignIn.begin_sign_in)
    who = delegate("_sign_in", SignIn.who)
    sign_out = delegate("_sign_in", SignIn.sign_out)

    async def pets(self, *, index: Literal["id"] | None = None) -> pd.DataFrame:
        """Return all pets, of every status of the profile, sorted by id. `index="id"` makes the ids
        the index; `plan` and `read` take such a DataFrame too.

        Raises the errors of `snapshot`, and SheetError if the query for a status fails.
        """
        if not (index is None or (isinstance(index, str) and index == "id")):
            raise SettingsError(
                f"index must be 'id' or None, not {index!r}",
                hint="Use set_index on the DataFrame.",
            )
        frame = frame_with_base((await self.snapshot()).as_base())
        return frame if index is None else frame.set_index(index)

    async def find_by_status(self, *statuses: str | Iterable[str]) -> pd.DataFrame:
        """Return the pets with one of the statuses, by default those of the profile. Statuses are
        given one by one or as lists.
        """
        queried = _flatten(statuses) if statuses else self._statuses(())
        return await loaders.find_by_status(self.api, queried)

    async def find_by_tags(self, *tags: str | Iterable[str]) -> pd.DataFrame:
        """Return the pets with at least one of the tags, each once. Tags are given one by one or as
        lists.
        """
        return await loaders.find_by_tags(self.api, _flatten(tags))

    async def snapshot(self, *, statuses: Sequence[str] = ()) -> Snapshot:
        """Return the store's current pets with one of the statuses, by default those of the
        profile, sorted by id.

        If the query for a status fails, the status is in `coverage.failed`, and its pets are
        missing. Raises ApiError if all queries fail, or for an error that concerns all of them.
        """
        return await loaders.snapshot(self.api, self._queried(statuses))

    async def snapshot_to(
        self, folder: str | Path, *, statuses: Sequence[str] = (), partitions: int = 64
    ) -> None:
        """Write the pets that `snapshot` returns into a new or empty folder: Parquet files, and the
        manifest petsync.json, which is written last. The pets are never in memory as a whole.

        A pet is in the file whose number is a hash of its id modulo `partitions`. Raises the errors
        of `snapshot`, and SheetError if the folder is not empty or cannot be written. `folder` may
        be an address, such as s3://bucket/pets (`petsync[remote]`).
        """
        from petsync.scale.snapshot import snapshot_to

        queried = self._queried(statuses)
        await _write_to(folder, lambda path: snapshot_to(self.api, queried, path, partitions))

    async def export_to(
        self,
        folder: str | Path,
        *,
        statuses: Sequence[str] = (),
        partitions: int = 64,
        base: bool = True,
    ) -> int:
        """Write the pets that `snapshot` returns into a new or empty folder of Parquet files, as a
        sheet to edit, and return their number. `plan` takes the folder as a sheet.

        With a `base`, a plan distinguishes the sheet's changes from the store's. `folder` may be an
        address. Raises the errors of `snapshot_to`, and SheetError if the query for a status fails.
        """
        from petsync.scale.snapshot import export_to

        queried = self._queried(statuses)
        written = await _write_to(
            folder, lambda path: export_to(self.api, queried, path, partitions, with_base=base)
        )
        return written.manifest.pets

    async def look_up(
        self, ids: Iterable[int], *, on_progress: Callable[[Lookups], None] | None = None
    ) -> dict[int, Found]:
        """Return what getPetById returns for each id, for pets of any status.

        The value is the pet, None if the store has no such pet, or a FailedLookup. Raises
        SettingsError for an invalid id, and ApiError for an error that concerns all look-ups.
        """
        return await look_up(self.api, arguments.pet_ids(ids), on_progress=on_progress)

    @show_keywords(ApplyKeywords, ApplyOptions, settle=None)
    async def apply(
        self,
        plan: Plan,
        *,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[ApplyKeywords],
    ) -> Report:
        """Apply the plan, and return the outcome of every row.

        The journal in the state folder records each request before it is sent, and its outcome. A
        terminal and a notebook show a progress bar if `on_progress` is not set. `progress=False`
        shows nothing; `progress=True` also writes a line every five seconds where no bar is
        possible.

        Raises PlanError for a plan for another store, GuardError, StalePlanError or LockedError
        before it changes anything; also AuthError if the service refuses access before the first
        change: the plan can then be applied later. Raises InterruptedRunError, whose `report` has
        the results so far, if the run was stopped; `resume` continues the run.
        """
        check_keywords(options, "apply")
        chosen = ApplyOptions.of({"settle": self.settings.timeout}, options)
        arguments.checked_plan(plan).require_ok()
        self.check(plan)
        if plan.needs_count:
            # The size of the store is never taken from a plan file.
            plan.require_ok(await self._count_pets(plan))
        with self._bar(len(plan.changes), "Applying", progress, on_progress) as step:
            return await self._runs.apply(plan, chosen, step)

    async def _count_pets(self, plan: Plan) -> int:
        """Return the number of pets in the store; of a narrow plan, at most the number that the
        plan has, so that a long list is not read.
        """
        statuses = plan.coverage.statuses or self._statuses(())
        if not plan.coverage.is_narrow:
            return len(await self.snapshot(statuses=statuses))
        found = await loaders.short_snapshot(self.api, statuses, plan.pets)
        return len(found) if isinstance(found, Snapshot) else min(found, plan.pets)

    @show_keywords(ApplyKeywords, has_defaults=False)
    async def resume(
        self,
        run_id: str = "",
        *,
        progress: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[ApplyKeywords],
    ) -> Report:
        """Finish a run that was stopped or killed, or that has failures; return the report of the
        whole run.

        petsync determines the outcome of requests that got no response, and sends the remaining
        changes; no change is made twice. `run_id` is the id of a run or the unique beginning of an
        id; "" is this store's newest run that is not complete. An option that is not given has the
        value that it had in the run. Raises PlanError if there is no such run, LockedError while a
        run is working on the store, and the same errors as `apply`.
        """
        check_keywords(options, "resume")
        past, plan = self.to_resume(arguments.run_name(run_id))
        with self._bar(len(plan.changes), "Resuming", progress, on_progress) as step:
            return await self._runs.resume(past, plan, options, step)

    async def settle(self, run_id: str) -> Report:
        """Determine the outcomes of all changes that a stopped run started, and give up the others.

        Sends only GET requests; a new plan can make the remaining changes. Returns the report of
        the whole run. Raises the same errors as `resume`.
        """
        past, plan = self.to_resume(arguments.run_name(run_id))
        return await self._runs.resume(past, plan, {}, None, gives_up=True)

    def to_resume(self, run_id: str = "", *, startable: bool = False) -> tuple[PastRun, Plan]:
        """Return the run that `resume` would finish, and its plan.

        Raises PlanError if there is none. With `startable`, also raises PlanError if the run was
        undone and has no unknown outcomes, and LockedError while a run is working.
        """
        return self._runs.to_resume(run_id, startable=startable)

    def find_unfinished(self, sheet: str | Path) -> PastRun | None:
        """Return the newest run of this sheet on this store if it was stopped, can be resumed and
        is not undone; else None.
        """
        return self._runs.find_unfinished(real_path(sheet))

    @show_keywords(UndoKeywords)
    async def undo(
        self,
        run_id: str = "",
        *,
        guard: Guard = NO_GUARD,
        on_progress: Callable[[Lookups], None] | None = None,
        **limits: Unpack[UndoKeywords],
    ) -> Plan:
        """Return the plan that restores what a run changed, for `apply`. Sends only GET requests.

        A pet that was changed since the run stays unchanged, and is listed as a conflict. `run_id`
        is the id of a run or the unique beginning of an id; "" is this store's newest run that
        changed something and is not completely undone. Raises PlanError if there is no such run,
        and LockedError while this run is working. `on_progress` reports the look-ups of pets that
        no query lists. Without limits, an undo may take back as much as the run was permitted to
        do.
        """
        name = arguments.run_name(run_id)
        given = {each for each, value in limits.items() if value is not None}
        of_user = given if guard is NO_GUARD else None
        guard = guard_from(limits, guard, known=UndoKeywords, function="undo")
        return await UndoPlanner(self.api, self.history).plan(name, guard, of_user, on_progress)

    async def runs(self) -> pd.DataFrame:
        """Return the runs on this store, the newest first.

        The columns are id, kind, state, started (UTC), seconds, source, total, applied, unchanged,
        not sent, conflict, needs fixing, failed, unknown, undoes.
        """
        return runs_frame(await asyncio.to_thread(self.history.runs, self._session.base_url))

    async def run(self, run_id: str) -> Report:
        """Return the report of a run, with the outcomes so far.

        Raises PlanError if this store has no such run, and for uploads.
        """
        return await asyncio.to_thread(
            self.history.report, arguments.run_name(run_id), self._session.base_url
        )

    async def failed_rows(self, run_id: str, path: str | Path) -> FailedRows:
        """Write the rows of a run that failed, that conflict or that need fixing into a workbook
        (`.xlsx`), to fix and send again.

        A comment on the cell says what is wrong, and what to do. The workbook has the sheet's own
        columns and a base, so it can be planned and applied as it is once it is fixed; no row is
        added twice, even if the sheet itself is applied again. Rows that the run has not sent, and
        rows with an unknown outcome, are left to `resume`. An existing file gets a backup.

        Raises PlanError if this store has no such run, for an upload or an undo, and if the sheet
        is missing or was changed since the run; SheetError if the sheet is a DataFrame or a folder,
        or if the workbook cannot be written.
        """
        report = await self.run(run_id)
        statuses = self._session.profile.statuses
        return await asyncio.to_thread(
            save_failed_rows, Outputs(self.history), report, path, statuses
        )

    @property
    def history(self) -> RunHistory:
        """The history of runs in the journal."""
        return RunHistory(self.settings.state)

    def check(self, plan: Plan) -> None:
        """Raise PlanError if the plan is for another store. Raise StalePlanError if a run of it has
        started, or if its sheet was changed since then and names a pet again that the plan deletes
        because no row named it. `apply` makes the same check.
        """
        if arguments.checked_plan(plan).store != self._session.base_url:
            raise PlanError(
                f"the plan is for {plan.store}, and this store is {self._session.base_url}",
                hint="Apply it there, or make a plan for this store.",
            )
        self._runs.check_unused(plan)
        statuses = self._session.profile.statuses
        if again := sheets.find_named_again(plan, statuses=statuses):
            named = first_items([f"pet {pet.id} ({pet.name or 'no name'})" for pet in again])
            raise StalePlanError(
                f"{plan.source} was changed after this plan was made: the plan deletes {named}, "
                f"which {'has a row' if len(again) == 1 else 'have rows'} again",
                hint="Nothing was sent. Make a new plan; the plan of a job is replaced by its next "
                "round: `petsync reconcile`.",
            )

    @show_keywords(ReadKeywords)
    def read(
        self,
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        **options: Unpack[ReadKeywords],
    ) -> Sheet:
        """Return the sheet as this store reads it.

        The statuses of the store's profile and `known_statuses` count as known. `mapping`, or else
        petsync.toml, maps headers to columns. `encoding` and `corrections` (texts by cell address)
        are as in `read_sheet`. `rules`, or else petsync.toml, has rules of your own; a Sheet keeps
        the rules with which it was read. With corrections, a Sheet is read again from its file,
        with the corrections that it already has. Raises SheetError if the sheet cannot be read, if
        the file has changed, and for corrections of a DataFrame; SettingsError for an option that
        cannot apply: `tab` and `encoding` of a DataFrame or a Sheet, `mapping` and `rules` of a
        Sheet.
        """
        reject_unknown(options, "read", ReadKeywords)
        _check_effect(sheet, options)
        if isinstance(sheet, str | Path) and is_in_parts(sheet):
            must_not_be_address(sheet)
            raise SheetError(
                f"{sheet} is a folder, a pattern or a large Parquet file: it can only be compared",
                hint="Check it: ps.check_sheet(path). Plan it: plan(path). Or read the files with "
                "pandas, and use the DataFrame.",
            )
        read = _read(sheet, self._read_options(options))
        base = base_of_frame(sheet) if isinstance(sheet, pd.DataFrame) else None
        # The values of another store say nothing about what was edited since, and without the ids
        # the rows are no longer those that were read.
        is_own = base is not None and base.store == self._session.base_url
        return replace(read, base=base) if is_own and "id" in read.rows else read

    def _read_options(self, options: ReadKeywords) -> ReadOptions:
        own = {"statuses": self._session.profile.statuses, "defaults": self.settings.columns}
        return ReadOptions.of({"rules": self.settings.rules, **_given(options), **own})

    async def _read_parts(
        self,
        path: str | Path,
        options: ReadKeywords,
        snapshot: str | Path | None,
        keep: Iterable[int],
        with_unnamed: bool,
        executor: Executor | None,
    ) -> tuple[Snapshot, Sheet]:
        read = partial(self._read_folders, options=options, keep=keep, with_unnamed=with_unnamed)
        if not (is_address(path) or is_address(snapshot)):
            return await read(path, snapshot=snapshot, executor=executor)
        from petsync.scale.remote import make_copies

        source = checked_address(path) if is_address(path) else str(path)
        with make_copies(executor) as copies:
            if is_address(snapshot):
                address = checked_address(snapshot)
                snapshot = await asyncio.to_thread(copies.copy_snapshot, address)
            if is_address(path):
                path = await asyncio.to_thread(copies.copy_sheet, source)
            now, sheet = await read(path, snapshot=snapshot, executor=executor)
        refused = copies.with_addresses(sheet.base_refused)
        return now, replace(sheet, source=source, base_refused=refused)

    async def _read_folders(
        self,
        path: str | Path,
        *,
        options: ReadKeywords,
        snapshot: str | Path | None,
        keep: Iterable[int],
        with_unnamed: bool,
        executor: Executor | None,
    ) -> tuple[Snapshot, Sheet]:
        # Most sheets are in one file.
        from petsync.scale.parts import PartFolder
        from petsync.store.folders import FolderComparer

        words = {
            "tab": "--sheet (in Python tab)",
            "corrections": "--correct (in Python corrections)",
        }
        given = [words[name] for name in _OF_FILES if options.get(name)]
        if given:
            raise SettingsError(
                f"{' and '.join(given)} cannot apply to {path}, which is compared in parts",
                hint="Leave the option out, and correct the files themselves.",
            )
        comparer = FolderComparer(self.api, self.history)
        chosen = self._read_options(options)
        rules = tuple(each for each in chosen.rules if each.enabled)
        for each in rules:
            if each.applies_to == "sheet" and each.problem_in_parts:
                raise SettingsError(
                    f"the rule {each.name!r} ({each.kind}) {each.problem_in_parts}, and {path} is "
                    "compared in parts",
                    hint="Switch the rule off for it (enabled = false), or read the files with "
                    "pandas, and plan the DataFrame.",
                )
        chosen = msgspec.structs.replace(chosen, rules=rules)
        store = (
            None if snapshot is None else PartFolder.open(Path(snapshot), self._session.base_url)
        )
        statuses = self._statuses(())
        return await comparer.read(
            path,
            chosen,
            statuses,
            store=store,
            keep=keep,
            with_unnamed=with_unnamed,
            executor=executor,
        )

    async def close(self, *, for_good: bool = False) -> None:
        """Close the connections, and end the sign-ins that wait for the user.

        The next request opens new connections or, with `for_good`, raises an error.
        """
        await self._sign_in.service.close()
        await self._session.close(for_good=for_good)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _bar(
        self, total: int, text: str, progress: bool | None, on_progress: OnProgress
    ) -> AbstractContextManager[OnProgress]:
        # Import the bar only to show it.
        from petsync.report.progress import run_bar

        traffic = self._session.traffic
        return run_bar(total, text=text, show=progress, traffic=traffic, on_step=on_progress)

    def _queried(self, statuses: str | Sequence[str]) -> tuple[str, ...]:
        return self._statuses(as_list(statuses))

    def _statuses(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given) or self._session.profile.statuses


def _flatten(given: Iterable[str | Iterable[str]]) -> list[str]:
    return [value for each in given for value in as_list(each)]


async def _write_to(
    folder: str | Path, make: Callable[[Path], Awaitable[PartFolder]]
) -> PartFolder:
    """Return the result of `make` for the path of the folder, which may be an address."""
    if not isinstance(folder, str | PathLike):
        raise SheetError(
            f"{type_name(folder)} is not a path", hint='Pass the name of a folder, such as "pets".'
        )
    if not is_address(folder):
        return await make(Path(folder))
    from petsync.scale.remote import write_to

    return await write_to(checked_address(folder), make)


_OF_FILES: Final = ("tab", "corrections")


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_effect(sheet: object, options: ReadKeywords) -> None:
    """Raise SettingsError for an option that does not apply to a Sheet or a DataFrame."""
    if not isinstance(sheet, Sheet | pd.DataFrame | ArrowTable):
        return
    is_read = isinstance(sheet, Sheet)
    given = [name for name in ("tab", "encoding") if options.get(name) is not None]
    if is_read and options.get("mapping"):
        given.append("mapping")
    # No rules are a choice, too.
    if is_read and options.get("rules") is not None:
        given.append("rules")
    if given:
        what = "a Sheet, which is already read" if is_read else "a DataFrame, which has no file"
        raise SettingsError(
            f"{' and '.join(given)} cannot apply to {what}",
            hint="Leave the option out, or give the path of the file.",
        )


def _read(sheet: Sheet | pd.DataFrame | ArrowTable | str | Path, options: ReadOptions) -> Sheet:
    if isinstance(sheet, Sheet):
        sheet = sheets.as_edited(sheet)
        if options.corrections:
            return _read_again(sheet, options)
        known = options.known_statuses
        return sheet.with_statuses(known) if known else sheet
    # Since pandas 3, a Series has the interface of an ArrowTable; `read_file` refuses it.
    if not isinstance(sheet, str | Path | pd.DataFrame | pd.Series | ArrowTable):
        raise SheetError(
            f"{type_name(sheet)} is not a sheet",
            hint=suggest_collect(sheet)
            or "Give the path of a file, a DataFrame, an Arrow table, or the result of read_sheet.",
        )
    return sheets.read_file(sheet, options)


def _read_again(sheet: Sheet, options: ReadOptions) -> Sheet:
    """Return the sheet, read again from its file with its corrections and those in `options`.

    Raises SheetError if the file has changed.
    """
    if sheet.is_frame:
        raise SheetError(
            "a DataFrame has no file, so corrections do not apply to it",
            hint="Change sheet.frame instead.",
        )
    earlier = {each.address: each.after for each in sheet.corrections}
    new = sheets.read_file(
        sheet.source,
        msgspec.structs.replace(
            options,
            tab=sheet.tab or None,
            mapping={},
            defaults=sheet.mapping,
            corrections={**earlier, **options.corrections},
            rules=sheet.given_rules,
            encoding=sheet.encoding or None,
        ),
    )
    if new.digest != sheet.digest:
        raise SheetError(
            f"{sheet.source}: the file has changed since it was read", hint="Read it again."
        )
    if sheet.read_again is None:
        return new
    # Only the sheet knows its marker of cleared cells, and the rows that the user has removed.
    again = sheets.with_edits(replace(sheet, corrections=new.corrections), {})
    return again.with_statuses({*options.statuses, *options.known_statuses})
