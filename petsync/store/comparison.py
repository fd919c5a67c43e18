"""Comparisons of a sheet with the store: the plan of a sheet, and the reasons for its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import msgspec
import pandas as pd

from petsync._files import is_in_parts
from petsync._options import iter_keywords, show_keywords
from petsync.apply.journal import Journal
from petsync.client.api import AsyncApi
from petsync.client.loaders import Lookups, look_up, short_snapshot, snapshot_of
from petsync.errors import PlanError, SettingsError
from petsync.models import Pet
from petsync.plan import arguments
from petsync.plan.change import Snapshot
from petsync.plan.compare import (
    Decided,
    compare,
    find_refusal,
    find_unproved_ids,
    options_for,
)
from petsync.plan.decide import FoundPets, SheetComparison
from petsync.plan.explain import Explanations, explain
from petsync.plan.fields import UnreadVocabulary, Vocabulary
from petsync.plan.guard import NO_GUARD, Guard
from petsync.plan.lineage import (
    Match,
    RemovedPet,
    RestoredPet,
    ReusedId,
    RowRecord,
    find_added_twins,
    find_missing_rows,
    find_rows_of_removed_pets,
    find_suspects,
    identify,
    mark_doubts,
    match_source_rows,
    slots_of,
)
from petsync.plan.match import find_absent_ids, has_unknown_names, positions_of
from petsync.plan.notes import first_items
from petsync.plan.options import PlanKeywords, PlanOptions, plan_options_from
from petsync.plan.plan import Plan
from petsync.plan.scope import find_ids_to_read, has_unlisted_status, longest_list, needs_all
from petsync.plan.uploads import (
    Uploads,
)
from petsync.store.runs import RunHistory, is_same_file
from petsync.table.arrow import ArrowTable, rows_from_pets
from petsync.table.base import SourceRow
from petsync.table.frame import has_action, ids_of, join_rows, unique_texts
from petsync.table.options import ReadKeywords
from petsync.table.rules import SheetRule
from petsync.table.sheet import Sheet, blocked_rows_of

__all__ = ["SheetComparer"]


_SMALL_FILE = 1 << 20
"""The size in bytes of a file that is read before the store, because its rows decide which pets to
read; a larger one is read at the same time as all pets.
"""
_EVERY_PET = PlanOptions(scope="all")


_OF_READ = {
    each.name: f"it is for reading a file. Read the sheet first: store.read(path, {each.name}=…)"
    for each in iter_keywords(ReadKeywords)
    if each.name != "rules"
}
_OF_READ["tab"] += ". Only a workbook has worksheets; a DataFrame has none"


@dataclass(frozen=True, slots=True)
class SheetComparer:
    """Compares sheets with one store; `read` and `snapshot` are the store's methods, and
    `load_uploads` returns the uploads to consider for a sheet.
    """

    api: AsyncApi
    history: RunHistory
    read: Callable[..., Sheet]
    snapshot: Callable[[], Awaitable[Snapshot]]
    load_uploads: Callable[[Sheet, Journal], Uploads]
    read_parts: Callable[..., Awaitable[tuple[Snapshot, Sheet]]]
    """Reads a sheet in parts and the store, without the rows that agree with their pets."""

    @property
    def url(self) -> str:
        """The service's base URL."""
        return self.api.session.base_url

    @show_keywords(PlanKeywords, PlanOptions, misplaced=_OF_READ)
    async def plan(
        self,
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        *,
        strict: bool = False,
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | str | Path | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
        executor: Executor | None = None,
        memory: str = "",
        rules: Sequence[SheetRule] | None = None,
        **options: Unpack[PlanKeywords],
    ) -> Plan:
        """Return the plan that brings the store into agreement with the sheet.

        Sends only GET requests. `sheet` is a Sheet, the path of a file, or a DataFrame; a missing
        value in it changes nothing. A limit is a number of pets or a share, such as `max_delete=25`
        or `max_update="10%"`; `guard` has all limits as one value.

        An exported sheet contains a base, the store's values at the time of the export: a cell that
        has not been edited since then changes nothing. If a field was changed in both the sheet and
        the store, to different values, the plan lists a conflict, and the store's value stays
        unless `on_conflict="sheet"`. Raises SheetError if the sheet cannot be read, PlanError if
        the base cannot be used, GuardError if an export has lost its ids or the header of a column,
        and FindingsError if `strict` is set and the sheet has findings.

        `rules`, or else petsync.toml, has rules of your own for the rows, as in `read`; a Sheet
        keeps the rules with which it was read. For the other options of `read`, call `read` and
        plan its result.

        petsync looks up ids that the snapshot lacks; `on_progress` reports these look-ups.

        `scope="auto"` stops reading the store's list if it is long and the sheet names few pets,
        and looks up these instead. It reads the whole list if the plan could otherwise differ in a
        change or a note. `scope="rows"` never reads a list: rows that need more than their own pets
        are conflicts. `plan.uncovered` says what such a plan does not cover. With a `snapshot` of
        the store's lists, `scope` has no effect.

        A folder or a pattern of Parquet, CSV or JSON Lines files is compared in parts, on several
        processes or by the `executor`: neither the sheet nor the store must fit into memory.
        `memory`, such as "2GiB", is the limit of these processes together; fewer of them start
        then. The findings, changes and conflicts name the file and the row in it. For such a sheet,
        `snapshot` may be a folder of `snapshot_to`. Sheet and snapshot may be at addresses, such
        as "s3://bucket/pets/*.parquet" (`petsync[remote]`).
        """
        if memory and executor is None:
            # Most sheets are in one file.
            from petsync.scale.executors import LocalProcesses

            executor = LocalProcesses(memory)
        request = plan_options_from(options, guard)
        decided = await self._decide(
            request, sheet, snapshot, strict, on_progress, executor=executor, rules=rules
        )
        return decided.plan

    @show_keywords(PlanKeywords, PlanOptions, misplaced=_OF_READ)
    async def why(
        self,
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        pet_id: int | Iterable[int],
        *,
        strict: bool = False,
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | str | Path | None = None,
        on_progress: Callable[[Lookups], None] | None = None,
        rules: Sequence[SheetRule] | None = None,
        **options: Unpack[PlanKeywords],
    ) -> Explanations:
        """Explain what `plan` with these arguments decides about one pet or several pets.

        For each row about a pet, or once if no row is about it, the result has the values of
        export, sheet and store, the decision, and its rules. Raises the same errors as `plan`.
        """
        request = plan_options_from(options, guard, function="why")
        ids = arguments.pet_ids(pet_id)
        decided = await self._decide(
            request, sheet, snapshot, strict, on_progress, ids, rules=rules
        )
        return explain(decided, ids)

    @show_keywords(ReadKeywords)
    async def read_with_snapshot(
        self,
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        *,
        keep: Iterable[int] = (),
        with_unnamed: bool = True,
        executor: Executor | None = None,
        planning: PlanOptions = _EVERY_PET,
        on_progress: Callable[[Lookups], None] | None = None,
        **options: Unpack[ReadKeywords],
    ) -> tuple[Snapshot, Sheet]:
        """Return a snapshot of the store, and the sheet as `read` returns it with the statuses of
        the store's pets as `known_statuses`. Both are read at the same time, unless the scope in
        `planning`, the options of the plan, permits a snapshot of single pets: those that the rows
        name, and those in `keep`. `on_progress` reports their look-ups.

        For a folder or a pattern of files, both lack the rows and pets that agree, except the pets
        with the ids in `keep`. Without `with_unnamed`, the snapshot also lacks pets that are in no
        row and have nothing in common with a row. The `executor` compares their parts.

        Raises the errors of `snapshot` and `read`, whichever comes first.
        """
        if isinstance(sheet, str | Path) and is_in_parts(sheet):
            _refuse_rows(sheet, planning)
            return await self.read_parts(sheet, options, None, keep, with_unnamed, executor)
        if await asyncio.to_thread(_is_read_first, sheet, planning):
            read = await asyncio.to_thread(self.read, sheet, **options)
            now = await self._take_snapshot(read, keep, planning, on_progress)
            statuses = unique_texts(now.rows, "status")
            return now, await asyncio.to_thread(self.read, read, known_statuses=statuses)
        tasks = (
            asyncio.ensure_future(self.snapshot()),
            asyncio.ensure_future(asyncio.to_thread(self.read, sheet, **options)),
        )
        try:
            now, read = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        statuses = unique_texts(now.rows, "status")
        return now, await asyncio.to_thread(self.read, read, known_statuses=statuses)

    async def _take_snapshot(
        self,
        sheet: Sheet,
        keep: Iterable[int],
        planning: PlanOptions,
        on_progress: Callable[[Lookups], None] | None,
    ) -> Snapshot:
        """Return a snapshot of the store in the scope of the plan."""
        ids = await asyncio.to_thread(find_ids_to_read, sheet, keep)
        if planning.scope == "rows":
            return await snapshot_of(self.api, ids, on_progress=on_progress)
        most = longest_list(len(ids))
        if most is None or await asyncio.to_thread(needs_all, sheet, planning):
            return await self.snapshot()
        now = await short_snapshot(self.api, self.api.session.profile.statuses, most)
        if isinstance(now, Snapshot):
            return now
        return await snapshot_of(self.api, ids, least=now, on_progress=on_progress)

    async def compare(
        self,
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        snapshot: Snapshot | str | Path | None = None,
        *,
        strict: bool = False,
        on_progress: Callable[[Lookups], None] | None = None,
        ids: Iterable[int] = (),
        with_undone: bool = False,
        keep: Iterable[int] = (),
        with_unnamed: bool = True,
        executor: Executor | None = None,
        planning: PlanOptions = _EVERY_PET,
        rules: Sequence[SheetRule] | None = None,
    ) -> SheetComparison:
        """Return the snapshot and the sheet, with the results of all look-ups that a plan needs,
        and of `ids`.

        If an undo removed the pet of a row without an id, the row counts as new, unless
        `with_undone` is set. If the sheet is compared in parts by the `executor`, the pets with an
        id of `keep` are in the snapshot and, if `with_unnamed` is set, all pets in no row. Without
        a snapshot, the scope in `planning` decides which pets are read. Raises the same errors as
        `plan`.
        """
        needed = {*ids, *keep}
        if isinstance(snapshot, str | Path):
            if not (isinstance(sheet, str | Path) and is_in_parts(sheet)):
                raise PlanError(
                    "a snapshot in a folder needs a folder or a pattern of files as the sheet",
                    hint="For another sheet, use store.snapshot().",
                )
            _refuse_rows(sheet, planning)
            now, read = await self.read_parts(
                sheet, {"rules": rules}, snapshot, needed, with_unnamed, executor
            )
        elif snapshot is None:
            now, read = await self.read_with_snapshot(
                sheet,
                keep=needed,
                with_unnamed=with_unnamed,
                executor=executor,
                planning=planning,
                on_progress=on_progress,
                rules=rules,
            )
        else:
            now = arguments.checked_snapshot(snapshot, self.url)
            known = unique_texts(now.rows, "status")
            read = await asyncio.to_thread(self.read, sheet, known_statuses=known, rules=rules)
        if strict:
            arguments.must_have_no_findings(read)
        journal, reused_ids, removed = await asyncio.to_thread(self._open_journal, read)
        vocabulary = _vocabulary_of(now)
        suspect_rows = find_suspects(read, reused_ids, now.rows, vocabulary)
        if "id" in read.rows:
            suspect_rows = (
                find_rows_of_removed_pets(read, removed, now.rows, vocabulary) | suspect_rows
            )
        suspect_ids = {each.reused.pet.id or 0 for each in suspect_rows.values()}
        suspect_ids |= reused_ids.keys() & read.blocked_ids
        matches, missing_rows = await asyncio.to_thread(
            self._matches, read, vocabulary, suspect_ids, with_undone=with_undone
        )
        record_ids = {each.pet_id for match in matches.values() for each in match.records}
        ids_to_look_up = [*ids, *sorted(each for each in record_ids if each is not None)]
        unproved = find_unproved_ids(read.rows, now.rows)
        renumbered = await asyncio.to_thread(journal.read_renumbered, self.url) if unproved else {}
        ids_to_look_up += [renumbered[each].pet_id for each in unproved if each in renumbered]
        looked_up = now.not_found
        missing = [*unproved, *find_absent_ids(ids_to_look_up, now.rows)]
        missing = [each for each in missing if each not in looked_up]
        found = {**looked_up, **await look_up(self.api, missing, on_progress=on_progress)}
        now = _with_ids(now, missing)
        base = read.base
        gone = [each for each, pet in found.items() if pet is None]
        is_gone = base is not None and bool((positions_of(gone, base.rows) >= 0).any())
        uploads, undone, restored, fixed = await asyncio.to_thread(
            self._read_journal, read, with_undone_adds=is_gone
        )
        now = await self._with_vocabulary(now, read, found)
        return SheetComparison(
            now,
            read,
            found,
            uploads,
            matches,
            missing_rows,
            undone,
            restored,
            self.history.find_undone_runs(restored.values(), read),
            renumbered,
            removed=removed,
            fixed=fixed,
            suspects=suspect_rows,
            is_unsure=_has_questions(vocabulary),
        )

    async def _decide(
        self,
        request: tuple[PlanOptions, Guard],
        sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
        snapshot: Snapshot | str | Path | None,
        strict: bool,
        on_progress: Callable[[Lookups], None] | None,
        ids: Iterable[int] = (),
        executor: Executor | None = None,
        rules: Sequence[SheetRule] | None = None,
    ) -> Decided:
        options, guard = request
        if type(strict) is not bool:
            raise SettingsError(f"strict is {strict!r}; it must be True or False")
        # The time from which the plan does not know what other runs add.
        created = _now()
        compared = await self.compare(
            sheet,
            snapshot,
            strict=strict,
            on_progress=on_progress,
            ids=ids,
            keep=guard.sentinels,
            with_unnamed=options.delete_missing,
            executor=executor,
            planning=options,
            rules=rules,
        )
        options = options_for(compared.sheet, options)
        if compared.snapshot.left_out and options.match_on and "name" not in options.match_on:
            raise PlanError(
                "a sheet that is compared in parts cannot be matched without the name",
                hint="Also match on the name, or read the sheet as one table, for example with "
                "pandas.read_parquet, and plan that.",
            )
        if options.delete_missing and isinstance(sheet, pd.DataFrame):
            _must_have_all_rows(sheet, compared.sheet)
        compared = await self._continue_base(compared)
        if not options.two_way:
            refusal = find_refusal(compared.sheet, matches_rows=bool(options.match_on))
            if refusal is not None:
                raise refusal
        profile = self.api.session.profile
        decided = compare(compared, options=options, guard=guard, profile=profile, created=created)
        if compared.snapshot.coverage.is_narrow and (
            options.scope == "all"
            or (options.scope == "auto" and self._may_differ(decided, compared, ids))
        ):
            whole = await self.snapshot()
            return await self._decide(
                request, sheet, whole, strict, on_progress, ids, executor, rules
            )
        return decided

    def _may_differ(self, decided: Decided, compared: SheetComparison, ids: Iterable[int]) -> bool:
        """Return true if a plan of the whole store may have other changes, notes or refusals, or
        other reasons for the decisions on the pets with these ids.
        """
        return bool(
            decided.gaps
            or compared.is_unsure
            or not decided.plan.verdict.ok
            or not compared.sheet.named_ids.issuperset(ids)
            or has_unlisted_status(compared.snapshot.pets, self.api.session.profile.statuses)
        )

    async def _continue_base(self, compared: SheetComparison) -> SheetComparison:
        """Return the comparison, with the sheet's base updated by the changes that the sheet's runs
        sent.
        """
        base = compared.sheet.base
        if base is None or base.store != self.url:
            return compared
        vocabulary = _vocabulary_of(compared.snapshot)
        sheet = await asyncio.to_thread(
            self.history.continue_base, compared.sheet, compared.snapshot.rows, vocabulary
        )
        is_unsure = compared.is_unsure or _has_questions(vocabulary)
        return replace(compared, sheet=sheet, is_unsure=is_unsure)

    async def _with_vocabulary(self, now: Snapshot, sheet: Sheet, found: FoundPets) -> Snapshot:
        """Return the snapshot, with a snapshot of the whole store in `whole` if one is needed.

        One is needed if this snapshot covers only a part of the store, and the sheet names
        categories or tags that this part does not have.
        """
        failed = {each.query for each in now.coverage.failed}
        usual = {*self.api.session.profile.statuses}
        if now.whole is not None or now.coverage.is_narrow:
            return now
        if usual <= {*now.coverage.statuses, *failed}:
            return replace(now, whole=now) if usual & failed else now
        others = rows_from_pets([each for each in found.values() if isinstance(each, Pet)])
        vocabulary = Vocabulary(join_rows([now.rows, others]), now.usage)
        is_incomplete = await asyncio.to_thread(has_unknown_names, sheet, vocabulary)
        return replace(now, whole=await self.snapshot()) if is_incomplete else now

    def _open_journal(
        self, sheet: Sheet
    ) -> tuple[Journal, Mapping[int, ReusedId], Mapping[int, RemovedPet]]:
        """Return the journal; the pets to which the service assigned an id that another row has, if
        the sheet has ids; and the pets that runs removed.
        """
        journal = self.history.journal
        with journal.reading() as reading:
            reused = reading.read_reused(self.url) if sheet.has_ids else {}
            return journal, reused, reading.read_removed(self.url)

    def _read_journal(
        self, sheet: Sheet, *, with_undone_adds: bool
    ) -> tuple[Uploads, Mapping[int, str], Mapping[int, RestoredPet], Mapping[int, SourceRow]]:
        """Return the uploads to consider, the adds that were undone, the pets that runs restored,
        and the fixed pets.

        This is read after the snapshot and the look-ups, because an upload is in the journal before
        the store has its photo.
        """
        with self.history.journal.reading() as journal:
            return (
                self.load_uploads(sheet, journal),
                journal.read_undone_adds(self.url) if with_undone_adds else {},
                journal.read_restored(self.url),
                self._find_fixed_pets(sheet, journal),
            )

    def _find_fixed_pets(self, sheet: Sheet, journal: Journal) -> Mapping[int, SourceRow]:
        """Return, by id, the pets that runs of workbooks of this sheet's failed rows updated, with
        their rows at the failed run; nothing for a sheet with a base, which shows what was edited.
        """
        if sheet.base is not None or not sheet.digest:
            return {}
        return {
            pet_id: each
            for pet_id, origins in journal.read_fixed_rows(self.url).items()
            for each in reversed(origins)
            if each.tab == sheet.tab and is_same_file(each.source, sheet.source)
        }

    def _matches(
        self,
        sheet: Sheet,
        vocabulary: Vocabulary,
        suspect_ids: Collection[int],
        *,
        with_undone: bool,
    ) -> tuple[Mapping[int, Match], Sequence[RowRecord]]:
        """Return, by row, how the rows without an id match the records of earlier runs on this
        store; and the records of the last run of this file whose rows are gone.
        """
        if not slots_of(sheet):
            return {}, ()
        records = self.history.read_row_records(self.url, sheet, with_undone=with_undone)
        found = self._match_records(sheet, records, vocabulary, suspect_ids)
        return found, find_missing_rows(sheet, records, found)

    def _match_records(
        self,
        sheet: Sheet,
        records: Sequence[RowRecord],
        vocabulary: Vocabulary,
        suspect_ids: Collection[int],
    ) -> Mapping[int, Match]:
        url = self.url
        found = identify(sheet, records, vocabulary, suspect_ids)
        found = match_source_rows(sheet, records, found, vocabulary, is_same_file)
        found = self._without_new_twins(found, sheet)
        # A row that got an id and lacks it now is from a backup, or is another row at that
        # position.
        edited = {row: m for row, m in found.items() if m.kind == "certain" and m.is_edited}
        if not edited:
            return found
        id_writers = self.history.find_id_writers([each.record for each in edited.values()])
        base = sheet.base
        own = base.ids if base is not None and base.store == url else frozenset[int]()
        without_id = {
            row: m
            for row, m in edited.items()
            if m.record.run_id in id_writers or m.record.pet_id in own
        }
        if not without_id:
            return found
        assigned_ids = {m.record.pet_id for m in without_id.values() if m.record.pet_id is not None}
        # The sheet is no backup if other rows of the run have their ids.
        with_ids = {each.run_id for each in records if each.pet_id in sheet.named_ids}
        return {
            **found,
            **mark_doubts(without_id, sheet, vocabulary, may_lack=assigned_ids),
            **{
                row: match._replace(kind="doubt")
                for row, match in without_id.items()
                if match.record.run_id in with_ids and match.record.pet_id not in sheet.named_ids
            },
        }

    def _without_new_twins(self, found: Mapping[int, Match], sheet: Sheet) -> dict[int, Match]:
        """Return the matches without the rows that add one more pet with the values of pets that
        the sheet names: petsync wrote the ids of these pets into this sheet, or the action of their
        rows is `ignore`.
        """
        twins = find_added_twins(found, sheet)
        if not twins:
            return dict(found)
        writers = self.history.find_id_writers(twins.values())
        ignored = {*ids_of(sheet.rows[has_action(sheet.rows, "ignore")])}
        new = {
            row
            for row, record in twins.items()
            if record.pet_id in ignored
            or (
                record.run_id in writers
                and (record.source, record.tab) == (sheet.source, sheet.tab)
            )
        }
        return {row: each for row, each in found.items() if row not in new}


def _is_read_first(
    sheet: Sheet | pd.DataFrame | ArrowTable | str | Path, planning: PlanOptions
) -> bool:
    """Return true if the sheet is read before the store, because only single pets may be read."""
    if planning.scope == "rows":
        return True
    if planning.scope == "all" or planning.delete_missing or planning.match_on:
        return False
    if isinstance(sheet, Sheet):
        return longest_list(len(sheet.rows)) is not None
    if isinstance(sheet, pd.DataFrame):
        return longest_list(len(sheet)) is not None
    if not isinstance(sheet, str | Path):
        return False
    try:
        return Path(sheet).stat().st_size <= _SMALL_FILE
    except (OSError, ValueError):
        return False  # `read` raises the error.


def _must_have_all_rows(frame: pd.DataFrame, read: Sheet) -> None:
    """Raise PlanError for the `frame` of a sheet with blocked rows that are not in it: their pets
    would be deleted as missing.
    """
    named = {*ids_of(read.rows)} if "id" in read.rows else set[int]()
    lacking = [each for each in blocked_rows_of(frame) if each not in named]
    if lacking:
        rows = [f"of pet {each}" for each in lacking if each is not None]
        rows += ["without an id"] if None in lacking else []
        raise PlanError(
            f"delete_missing cannot apply to this DataFrame: rows {first_items(rows)} need fixing, "
            "and are not in the frame of their sheet",
            hint="Plan the sheet itself, which knows these rows, or fix them and read it again.",
        )


def _refuse_rows(sheet: str | Path, planning: PlanOptions) -> None:
    """Raise PlanError if the scope is `rows`."""
    if planning.scope == "rows":
        raise PlanError(
            f"{sheet} is compared in parts with every pet of the store, so scope 'rows' cannot "
            "apply to it",
            hint="Leave --scope (in Python scope) out, or name a workbook or a CSV file.",
        )


def _vocabulary_of(now: Snapshot) -> Vocabulary:
    """Return the categories and tags of the pets in the snapshot; those of a narrow one are
    unknown.
    """
    return now.vocabulary if now.coverage.is_narrow else Vocabulary(now.rows, now.usage)


def _has_questions(vocabulary: Vocabulary) -> bool:
    return isinstance(vocabulary, UnreadVocabulary) and bool(vocabulary.questions)


def _with_ids(now: Snapshot, ids: Iterable[int]) -> Snapshot:
    """Return the snapshot; if it is narrow, with these ids in its coverage."""
    coverage = now.coverage
    if coverage.ids is None:
        return now
    more = msgspec.structs.replace(coverage, ids=(*coverage.ids, *ids))
    return replace(now, coverage=more)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
