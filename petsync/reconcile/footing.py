"""Footing: what a round starts from."""

from __future__ import annotations

import json
import os.path
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from petsync.diff.agreed import as_exported, named_ids
from petsync.diff.fields import normal, with_fields
from petsync.diff.history import Past as PastRun
from petsync.diff.intake import Identified, Inbound
from petsync.diff.known import pet_of, pets_of
from petsync.diff.report import Report
from petsync.diff.round import Open
from petsync.diff.settled import categories_now, with_inbound, with_report
from petsync.diff.standing import undone_by
from petsync.diff.units import COLUMNS_OF, UNITS
from petsync.errors import GuardError, SheetError
from petsync.model import Pet
from petsync.reconcile.base import BaseFile, Remembered, digest_of
from petsync.reconcile.begun import Begun, Past, told_of
from petsync.reconcile.course import Course
from petsync.reconcile.kept import Kept
from petsync.reconcile.look import Look
from petsync.reconcile.place import place_of
from petsync.reconcile.versions import (
    Version,
    Versions,
    arrived,
    came_since,
    doubtful,
    may_lack_again,
    moved_units,
    numbered_by,
    still_back,
    traces,
    undone,
    written_since,
)
from petsync.reconcile.waiting import SheetWaiting, Waiting
from petsync.store import Store
from petsync.store.outputs import Outputs
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = [
    "Files",
    "Footing",
    "footing_of",
    "must_have_ids",
    "remember_backups",
    "resumed",
    "same_place",
    "with_older_rows",
]


@dataclass(frozen=True, slots=True)
class Files:
    """What is kept of one sheet of a job."""

    base: BaseFile
    begun: Begun
    waiting: Waiting
    sheet: SheetWaiting
    versions: Versions

    @classmethod
    def of(cls, course: Course) -> Files:
        """Those of the sheet that a round is about."""
        return cls.named(course.owner.kept, course.job.name, course.told.part)

    @classmethod
    def named(cls, kept: Kept, job: str, part: str) -> Files:
        """Those of a job's sheet."""
        name = (job, part)
        return cls(
            BaseFile(kept.base(*name)),
            Begun(kept.begun(*name)),
            Waiting(kept.waiting(*name), job),
            SheetWaiting(kept.waiting(*name, side="sheet")),
            Versions(kept.versions(*name)),
        )


@dataclass(frozen=True, slots=True)
class Footing:
    """The base, the digest of the one that the sheet carries, and what is to be said of them.
    Nothing is deleted by a base of which it is not sure that it is the last one. `undone` are the
    versions that the sheet does not have any more: it is a backup that was put back; of `doubts`
    that is not sure. `own` are the pets of the sheet's own base; those that are `claimed` are in no
    row, and not missing either. `runs` are the marks of the runs that the base has. `by_hand` are
    versions that runs by hand wrote, and that are to be kept; `has_ids_by_hand`: such runs may have
    written ids into rows since a version whose round was killed.
    """

    base: Base | None
    carried: str = ""
    notes: tuple[Open, ...] = ()
    may_delete: bool = True
    undone: tuple[Version, ...] = ()
    doubts: tuple[Version, ...] = ()
    own: frozenset[int] = frozenset()
    runs: frozenset[str] = frozenset()
    claimed: frozenset[int] = frozenset()
    by_hand: tuple[Version, ...] = ()
    has_ids_by_hand: bool = False


def resumed(course: Course, store: Store) -> tuple[Past, ...]:
    """What became of the runs that earlier rounds of this job, or whoever released their plans,
    began, and of which its base does not know yet, oldest first; the job's own is finished first,
    if it was stopped.
    """
    if course.job.mode in ("pull", "check"):
        return ()
    files, is_dry = Files.of(course), course.owner.dry_run
    released = files.waiting.released(store)
    if released and not is_dry:
        files.begun.remember(released, {}, is_own=False)
        files.waiting.clear()
    past: list[Past] = []
    for run in files.begun.runs(store):
        if run.is_stopped and not is_dry:
            course.note(runs=(*course.told.runs, run.id), resumed=course.told.resumed + 1)
            report: Report | None = store.resume(run.id, progress=False)
        else:
            report = told_of(run.id, store)
        if report is not None:
            past.append(Past(report, run.categories))
    return tuple(sorted(past, key=lambda each: each.report.started))


def footing_of(
    course: Course,
    sheet: Sheet,
    service: Store,
    past: Sequence[Past],
    elsewhere: Collection[int] = (),
) -> Footing:
    """The base that a round compares by: the kept one, with what runs brought about since; or the
    one of then, where the sheet is a backup that was put back; or the sheet's own, if it carries
    one that was not there at the last round: then somebody exported it afresh. That a backup was
    put back is remembered until a round has finished with the sheet. A folder's other sheets have
    the pets that are `elsewhere`.

    Raises SheetError where the base is of another store, unless that is the same one, moved.
    """
    store = service.url
    own_base = None if sheet.base is None else as_exported(sheet.base)
    if course.job.mode == "check":
        return Footing(own_base)
    memory = Files.of(course).base.load(set_aside=not course.owner.dry_run)
    carried = digest_of(sheet.base)
    # The last round saw another base in the sheet: it was exported afresh, or is an older file.
    other = carried if carried != memory.carried else ""
    if own_base is not None and other and not _is_backup(course, sheet, memory, other):
        return _of_export(course, sheet, own_base, service, memory, past)
    if memory.base is None:
        refused = sheet.base_refused and f"{sheet.base_refused}; this round is as the first one"
        first = _with_runs(None, past)
        return Footing(first, carried, _notes(memory.problem, refused), not memory.is_older)
    base, moved = _of_store(course, memory.base, store, f"the base of job {course.job.name} is of")
    taken = Files.of(course).sheet.released()
    every = _versions(course, base, taken)
    versions = [each for each in every if not each.is_undone]
    lost, mixed = _lost(course, sheet, every, base, other)
    if lost:
        then = replace(Base.from_lines(lost[0].base), store=store)
        if sheet.digest != lost[0].before:
            then = then.without(came_since(sheet, every))
        then = _with_numbered(then, numbered_by(every))
        notes = (*_notes(memory.problem, moved), _put_back(lost))
        return Footing(then, carried, notes, undone=lost)
    cut_off = next((each for each in versions[-1:] if not each.is_agreed), None)
    runs = memory.runs
    if cut_off is not None:
        base, runs = replace(Base.from_lines(cut_off.base), store=store), frozenset(cut_off.runs)
    own = {*(each.report.run_id for each in past), *(mark.partition(":")[0] for mark in runs)}
    by_hand, told = _by_hand(course, sheet, base.taken_at, service, own)
    has_ids_by_hand = _has_ids_by_hand(course, sheet, every, service, own)
    if taken is None and cut_off is not None:
        has_it = arrived(sheet, cut_off, has_ids_by_hand=has_ids_by_hand)
        taken = cut_off.inbound if has_it else None
    past = sorted([*past, *by_hand], key=lambda each: each.report.started)
    new = [each for each in past if each.mark not in runs or each.is_by_hand]
    written = [*_written_by_hand(sheet, base, new, taken, service, every)]
    base = _with_runs(base, new) or base
    if taken is not None:
        base = with_inbound(base, taken)
    notes = (*_notes(memory.problem, moved), *told)
    doubts = doubtful(sheet, versions) if course.job.mode == "two-way" else ()
    if mixed or doubts:
        tell = _in_doubt if not mixed else partial(_mixed, sheet=sheet, elsewhere=elsewhere)
        base, in_doubt = tell(base, mixed or doubts)
        notes = (*notes, *in_doubt)
    base = _with_earlier(_with_numbered(base, may_lack_again(sheet, every)), sheet, every)
    return Footing(
        base,
        carried,
        notes,
        not memory.is_older,
        doubts=mixed or doubts,
        by_hand=tuple(msgspec.structs.replace(each, runs=tuple(sorted(runs))) for each in written),
        has_ids_by_hand=has_ids_by_hand,
    )


def _lost(
    course: Course, sheet: Sheet, versions: Sequence[Version], base: Base, carried: str
) -> tuple[tuple[Version, ...], tuple[Version, ...]]:
    """The versions that the sheet does not have any more, which is remembered until a round has
    finished with it; or else those of which it may have some, though a round has seen it before.
    """
    lost, mixed = undone(sheet, versions, base, carried), tuple[Version, ...]()
    back = () if lost else still_back(sheet, versions)
    if back:
        found = traces(sheet, Base.from_lines(back[0].base), base)
        lost, mixed = ((), back) if found.now else (back, ())
        mixed = () if found.is_newer else mixed
    if lost and not course.owner.dry_run:
        Files.of(course).versions.back(lost)
    return lost, mixed


def _is_backup(course: Course, sheet: Sheet, memory: Remembered, carried: str) -> bool:
    """Whether the sheet, which carries another base than at the last round, is a backup of this
    job's that was put back.
    """
    base = memory.base
    if base is None or sheet.base is None or not same_place(base.store, sheet.base.store):
        return False
    return bool(undone(sheet, Files.of(course).versions.all(), base, carried))


def _of_export(
    course: Course,
    sheet: Sheet,
    base: Base,
    service: Store,
    memory: Remembered,
    past: Sequence[Past],
) -> Footing:
    """The footing by the base that the sheet carries, with what somebody sent of this very file.
    Where that base is older than the last round, what was sent before that round may be of another
    file. Raises SheetError where it is of another store.
    """
    base, moved = _of_store(course, base, service.url, f"{sheet.source} was exported from")
    last = "" if memory.base is None else memory.base.taken_at
    is_older = bool(last) and _is_before(base.taken_at, last)
    since = last if is_older else base.taken_at
    bases = (base.taken_at,) if is_older else (base.taken_at, "")
    by_hand, told = _by_hand(course, sheet, since, service, (), past, bases)
    # An export is dated in whole seconds: one of this very second is no older file.
    older = base.taken_at[:19] < last[:19] and (
        f"the sheet carries the base of {base.taken_at[:19]} UTC, which is older than the last "
        "round: an older file was put in its place? It is compared by that base"
    )
    notes = _notes(memory.problem, moved, older or "")
    return Footing(_with_runs(base, by_hand) or base, digest_of(sheet.base), (*notes, *told))


def _is_before(one: str, other: str) -> bool:
    return datetime.fromisoformat(one) < datetime.fromisoformat(other)


def _with_numbered(base: Base, numbered: Collection[int]) -> Base:
    """The base that has the pets whose id was written into a row: in a backup it lacks it again."""
    return replace(base, unnumbered=base.unnumbered.union(numbered)) if numbered else base


def _with_earlier(base: Base, sheet: Sheet, versions: Sequence[Version]) -> Base:
    """The base that has the pets whose row lacks its id again as both sides agreed on them when it
    got the id: that row is from a backup, whatever else is in the sheet.
    """
    frame = sheet.frame
    if "name" not in frame:
        return base
    rows = frame[frame["id"].isna()] if "id" in frame else frame
    names = {normal(name) for name in rows["name"].dropna()} - {""}
    left = base.ids - named_ids(sheet)
    for version in reversed(versions) if names else ():
        ids = {each.pet_id for each in version.inbound.identified if each.lacks_id} & left
        then = Base.from_lines(version.base) if ids else base
        pets = [pet for pet in pets_of(ids, then.frame) if normal(pet.name) in names]
        said = {pet.id or 0: then.said[pet.id or 0] for pet in pets if pet.id in then.said}
        base = replace(base.with_pets(pets), said={**base.said, **said}) if pets else base
        left -= ids
    return base


def _in_doubt(base: Base, doubts: Sequence[Version]) -> tuple[Base, tuple[Open, ...]]:
    """The base that is unsure of the one pet of which all that was written is undone, or without
    it; and what has to be said of that.
    """
    touches = written_since(doubts)
    pet_id = next(pet_id for pet_id, _ in touches)
    rows = [text for (_, column), text in touches.items() if column is None]
    if rows and rows[0] is None:
        problem = (
            f"its row, which round {doubts[-1].round} wrote, is not in the sheet: it was taken "
            "out, or a backup was put back. It is written once more"
        )
        hint = "If the pet is to go: take the row out again, or delete it in the store."
        told = Open(kind="conflict", problem=problem, pet_id=pet_id, hint=hint)
        return base.without({pet_id}), (told,)
    then = Base.from_lines(doubts[0].base)
    pet = pet_of(pet_id, then.frame if rows else base.frame)
    if pet is None:
        return base, ()
    if rows:
        # A row that is back counts as edited, so that its pet neither comes back nor takes the row.
        edited = with_fields(pet, Pet(id=pet_id), ["name"])
        return base.without({pet_id}).with_pets([edited]), ()
    columns = {column for (_, column), text in touches.items() if text}
    units: set[str] = {unit for unit in UNITS if columns.intersection(COLUMNS_OF[unit])}
    units |= {*base.unsure.get(pet_id, ())}
    return replace(base, unsure={**base.unsure, pet_id: tuple(units)}), ()


def _mixed(
    base: Base, versions: Sequence[Version], *, sheet: Sheet, elsewhere: Collection[int]
) -> tuple[Base, tuple[Open, ...]]:
    """The base of a sheet that an earlier round saw to be from before the versions, and in which
    some of what came since stands: unsure of all that differs, without the pets whose rows may have
    been taken out; and what has to be said of these.
    """
    then = Base.from_lines(versions[0].base)
    older = traces(sheet, then, base).then
    units = moved_units(then, base)
    lacking = older & (base.ids - then.ids)
    rows = older & (then.ids - base.ids)
    pets = [with_fields(pet, Pet(id=pet.id), ["name"]) for pet in pets_of(rows, then.frame)]
    told = tuple(
        Open(
            kind="conflict",
            problem=f"its row, which came after round {versions[0].round}, is not in the sheet: it "
            "was taken out, or a backup was put back. It is not taken for missing",
            pet_id=pet_id,
            hint="If the pet is to go: delete it in the store, or write delete into the action "
            "column of its row.",
        )
        for pet_id in sorted(lacking - {*elsewhere})
    )
    unsure = {i: tuple({*some, *base.unsure.get(i, ())}) for i, some in units.items()}
    base = base.without(lacking).with_pets(pets)
    return replace(base, unsure={**base.unsure, **unsure}), told


def with_older_rows(footing: Footing, look: Look) -> Footing:
    """The footing of a backup with the pets that its base lacks, since runs added them later: each
    as its row said it then. The row of the backup may say what it said even before, so that nobody
    knows whether it was edited where it says something else.
    """
    base = footing.base
    if base is None or not footing.undone:
        return footing
    later = {i: each.said for i, each in look.records.items() if i not in base.ids}
    if not later:
        return footing
    pets = [msgspec.structs.replace(pet, id=pet_id) for pet_id, pet in later.items()]
    unsure = {**base.unsure, **dict.fromkeys(later, UNITS)}
    return replace(footing, base=replace(base.with_pets(pets), unsure=unsure))


def _with_runs(base: Base | None, past: Sequence[Past]) -> Base | None:
    for each in past:
        base = with_report(base, each.report, each.categories)
    return base


def _by_hand(
    course: Course,
    sheet: Sheet,
    taken_at: str,
    store: Store,
    own: Collection[str],
    known: Sequence[Past] = (),
    bases: Collection[str] = (),
) -> tuple[list[Past], list[Open]]:
    """The runs by which somebody has applied the sheet since a moment, but for the job's `own`, and
    what has to be said of those that were undone. Of the `known` runs the cells of categories are
    known as they were. Where `bases` are given, only runs that compared by one of these: moments,
    "" for a run that compared with the store alone.
    """
    categories = {each.report.run_id: each.categories for each in known}
    past, notes = list[Past](), list[Open]()
    if course.job.mode != "two-way" or not sheet.digest:
        return past, notes
    undoing = undone_by(store.aio.history.runs(store.url))
    since = datetime.fromisoformat(taken_at)
    for report in _hand_made(course, sheet, store, own, taken_at):
        if bases and report.plan.base not in bases:
            continue
        later = {
            entry.number
            for entry in store.aio.history.entries(report.run_id)
            if entry.intended and datetime.fromisoformat(entry.intended) > since
        }
        named = named_ids(sheet)
        results = tuple(
            each
            for each in report.results
            if each.number in later and (each.assigned_id is None or each.assigned_id in named)
        )
        report = msgspec.structs.replace(report, results=results)
        cells = categories.get(report.run_id)
        if cells is None:
            cells = categories_now(report, sheet)
        past.append(Past(report, cells, is_by_hand=True))
        by = undoing.get(report.run_id)
        if by is not None and results:
            problem = (
                f"run {report.run_id}, by which somebody applied this sheet, was undone by run "
                f"{by.run_id}: the sheet takes what the store has now"
            )
            hint = f"If the store is to have it after all: `petsync undo {by.run_id}`."
            notes.append(Open(kind="note", problem=problem, hint=hint))
    return past, notes


def _hand_made(
    course: Course, sheet: Sheet, store: Store, own: Collection[str], since: str
) -> Iterator[Report]:
    """What became of the runs by which somebody has applied the sheet after a moment, oldest first,
    but for the job's `own`.
    """
    if course.job.mode != "two-way" or not sheet.digest:
        return
    for run in _later(store.aio.history.runs(store.url), datetime.fromisoformat(since)):
        report = None if run.run_id in own else told_of(run.run_id, store)
        if report is not None and _is_of(report, sheet):
            yield report


def _has_ids_by_hand(
    course: Course,
    sheet: Sheet,
    versions: Sequence[Version],
    store: Store,
    own: Collection[str],
) -> bool:
    """Whether somebody has applied the sheet by hand since a version whose round was killed."""
    since = [Base.from_lines(each.base).taken_at for each in versions if not each.is_agreed]
    return bool(since) and any(True for _ in _hand_made(course, sheet, store, own, min(since)))


def _written_by_hand(
    sheet: Sheet,
    base: Base,
    past: Sequence[Past],
    taken: Inbound | None,
    store: Store,
    versions: Sequence[Version],
) -> Iterator[Version]:
    """The versions that runs by hand wrote into the sheet, ids or all results, where the sheet
    still follows from them. `base` is that of before the `past`, and `taken` what the sheet has
    taken since.
    """
    known = {each.round for each in versions}
    for run in past:
        report, plan = run.report, run.report.plan
        base = with_report(base, report, run.categories)
        is_new = run.is_by_hand and report.run_id not in known
        after = Outputs(store.aio.history).wanted(plan).digest if is_new else ""
        if not after or plan.source_digest in ("", sheet.digest):
            continue
        ids = tuple(
            Identified(row=each.row, source=each.source, pet_id=each.assigned_id)
            for each in report.results
            if each.row is not None and each.assigned_id is not None
        )
        yield Version(
            round=report.run_id,
            before=plan.source_digest,
            after=after,
            base=tuple((base if taken is None else with_inbound(base, taken)).to_lines()),
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


def _later(runs: Sequence[PastRun], since: datetime) -> Iterator[PastRun]:
    """Those of the runs that applied something and were at work after a moment, oldest first."""
    for run in reversed(runs):
        if run.kind == "apply" and (not run.ended or datetime.fromisoformat(run.ended) > since):
            yield run


def _is_of(report: Report, sheet: Sheet) -> bool:
    """Whether the run applied this sheet: its path, as the run was given it, or its very bytes."""
    plan = report.plan
    is_same = os.path.realpath(plan.source) == os.path.realpath(sheet.source)
    return plan.tab == sheet.tab and (is_same or plan.source_digest == sheet.digest)


def remember_backups(kept: Kept, job: str, read: Mapping[str, Sheet]) -> None:
    """Remember which of a job's sheets are backups that were put back, as `footing_of` does: the
    job ends before a round of any of them begins.
    """
    for part, sheet in read.items():
        files = Files.named(kept, job, part)
        memory, carried = files.base.load(set_aside=False), digest_of(sheet.base)
        other = "" if carried == memory.carried else carried
        base, versions = memory.base, files.versions.all()
        if base is not None and (lost := undone(sheet, versions, base, other)):
            files.versions.back(lost)


def must_have_ids(course: Course, sheet: Sheet, footing: Footing) -> None:
    """Raise GuardError where the sheet had ids at the last round, and none of its rows has one now:
    each row that was edited since would become a new pet, and its old one would be missing.
    """
    base = footing.base
    if course.job.mode == "check" or base is None or not len(base) or named_ids(sheet):
        return
    if sheet.frame.empty or not _had_ids(course, sheet, base):
        return
    new = [str(header) for header in sheet.others.columns if str(header) not in base.headers]
    unused = ", ".join(map(repr, new))
    if "id" in sheet.columns:
        problem = f"the column id of {sheet.source} is empty, and had the ids of {len(base):,} pets"
        cure = "Put the ids back beside their rows"
    else:
        problem = f"{sheet.source} has no column id any more, in which it had the ids of its pets"
        problem += f"; it has not seen these headers before: {unused}" if new else ""
        cure = 'Name the header of the column "id" again'
        if new:
            cure += f', or map it in the configuration ([columns] {_quoted(new[0])} = "id")'
    raise GuardError(
        problem,
        hint=f"Nothing was changed, on either side: rows without their ids would become new pets. "
        f"{cure}; or put one of the sheet's backups back.",
    )


def _had_ids(course: Course, sheet: Sheet, base: Base) -> bool:
    """Whether rows had ids when the base was kept; an export always has them."""
    if base.columns is None:
        return sheet.base is not None or course.job.mode in ("pull", "two-way")
    return "id" in base.columns


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _of_store(course: Course, base: Base, store: str, what: str) -> tuple[Base, str]:
    """The base, if it is of this store, or of the same one before it moved, and what is to be said
    of that. Raises SheetError.
    """
    if same_place(base.store, store):
        return base, ""
    if course.owner.moved:
        return replace(base, store=store), f"What was agreed on with {base.store} is taken over"
    raise SheetError(
        f"{what} {base.store}, and the job's store is {store}",
        hint="Nothing was changed: what differs between two stores is nobody's edit. Name the "
        "store that it is of in the job. If it is the same store at a new address: `petsync "
        f"reconcile --job {course.job.name} --moved`. If it is another one: export the sheet from "
        "it.",
    )


def same_place(one: str, other: str) -> bool:
    """Whether two addresses are one, however they are spelled."""
    return place_of(one) == place_of(other)


def _versions(course: Course, base: Base, taken: Inbound | None) -> Sequence[Version]:
    """What was written into the sheet; what a person has released since comes last."""
    versions = Files.of(course).versions
    known = versions.all()
    if taken is None or any(each.inbound == taken for each in known):
        return known
    released = Version(
        round=f"of {taken.created}",
        before=taken.digest,
        is_agreed=True,
        base=tuple(base.to_lines()),
        inbound=taken,
    )
    return (*known, released if course.owner.dry_run else versions.keep(released))


def _put_back(lost: Sequence[Version]) -> Open:
    writer = "run" if lost[0].is_by_hand else "round"
    problem = (
        f"the sheet is as it was before {writer} {lost[0].round}: a backup was put back? It is "
        "compared by what was agreed on then"
    )
    hint = (
        "The sheet takes what came since once more. If all of that is to go: change it in the "
        "store, or write delete into the rows' action column."
    )
    return Open(kind="note", problem=problem, hint=hint)


def _notes(*texts: str) -> tuple[Open, ...]:
    return tuple(Open(kind="note", problem=text) for text in texts if text)
