"""Elsewhere: a pet whose row went to another sheet is not missing, and that one's base has it then.

What the other sheets of a store have to do with one of them, as rows move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from petsync.diff.agreed import named_ids
from petsync.diff.fields import normal
from petsync.diff.round import Open
from petsync.diff.snapshot import Snapshot
from petsync.errors import PetsyncError
from petsync.reconcile.base import BaseFile, Remembered
from petsync.reconcile.config.model import Job
from petsync.reconcile.course import Course
from petsync.reconcile.footing import Footing, same_place
from petsync.reconcile.look import Looker
from petsync.reconcile.sources import Source, sources_of
from petsync.table.base import Base
from petsync.table.sheet import Sheet

__all__ = ["give_up", "with_claims"]

_LISTED = 3


def with_claims(
    course: Course, sheet: Sheet, snapshot: Snapshot, footing: Footing, looker: Looker
) -> Footing:
    """The footing with the pets of its base that are in no row any more, and that a row of another
    sheet of the store names, or may: all of them, where that cannot be told, and those of a
    folder's file that is not there any more.
    """
    base, job = footing.base, course.job
    own = frozenset[int]() if base is None else base.ids
    footing = replace(footing, own=own)
    if base is None or not (job.mode == "two-way" or (job.mode == "push" and job.delete_missing)):
        return footing
    gone = base.without(named_ids(sheet) | looker.elsewhere).frame
    names = dict(zip(gone["id"].tolist(), map(normal, gone["name"].fillna("")), strict=True))
    problem, found, away = "", dict[int, str](), dict[int, Path]()
    try:
        for source in _sources(course, looker.store.url) if names else ():
            found |= dict.fromkeys(_meant(source.read(looker.store), names), source.name)
        away = _away(course, looker.store.url, names.keys() - found.keys()) if names else {}
        problem = _said({i: found[i] for i in sorted(found.keys() & {*snapshot.frame["id"]})})
    except PetsyncError as error:
        found = dict.fromkeys(names, "")
        problem = f"no pet is deleted as missing: another sheet may have it. {error.message}"
    told = [Open(kind="note", problem=problem)] if problem else []
    told += _told_away({i: away[i] for i in sorted(away.keys() & {*snapshot.frame["id"]})})
    notes = (*footing.notes, *(told if job.delete_missing else ()))
    return replace(footing, claimed=frozenset({*found, *away}), notes=notes)


def give_up(course: Course, base: Base, own: frozenset[int], named: frozenset[int]) -> None:
    """Take pets that are new in this sheet's `base`, beside its `own`, out of those of the folder's
    other sheets; and those that it has `named` out of those of files that are not there any more.
    Raises PetsyncError where the folder cannot be read, or a base cannot be read or written.
    """
    job = course.job
    if job.folder is None:
        return
    new, named = base.ids - own, base.ids & named
    away = {*_bases_away(course, job)}
    path_of_own = course.owner.kept.base(job.name, course.told.part)
    for path in (*away, *_bases(course, job)) if new else away:
        ids = new | named if path in away else new
        file = BaseFile(path)
        memory = file.load(set_aside=False) if path != path_of_own else Remembered()
        if memory.base is not None and not memory.is_older and ids & memory.base.ids:
            file.keep(memory.base.without(ids), memory.carried, memory.runs)


def _bases(course: Course, job: Job) -> list[Path]:
    """The files of the bases of a folder's sheets, also of those that are not there any more."""
    kept = course.owner.kept
    there = sorted(kept.base(job.name).parent.glob("*.base"))
    return [path for path in there if kept.is_part(path, job.name)]


def _bases_away(course: Course, job: Job) -> list[Path]:
    """Those whose sheet is not in the folder any more. Raises SheetError."""
    there = {course.owner.kept.base(job.name, each.part) for each in sources_of(job)}
    return [path for path in _bases(course, job) if path not in there]


def _away(course: Course, store: str, ids: Iterable[int]) -> dict[int, Path]:
    """Those of the pets that a file of a folder had which is not there any more, with its base.
    Raises PetsyncError.
    """
    wanted, found = {*ids}, dict[int, Path]()
    for job in _heard(course, store):
        for path in _bases_away(course, job) if wanted and job.folder is not None else ():
            base = BaseFile(path).load(set_aside=False).base
            if base is not None and same_place(base.store, store):
                found |= dict.fromkeys(wanted & base.ids, path)
    return found


def _told_away(away: Mapping[int, Path]) -> Iterator[Open]:
    for path in dict.fromkeys(away.values()):
        ids = [pet_id for pet_id, each in away.items() if each == path]
        some = ", ".join(map(str, ids[:_LISTED]))
        more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
        _, _, name = unquote(path.name.removesuffix(".base")).partition("--")
        pets = "pet" if len(ids) == 1 else "pets"
        yield Open(
            kind="conflict",
            problem=f"the file {name} was in the folder and is not there any more: no pet is "
            f"deleted that it had and that no row names now ({pets} {some}{more})",
            hint=f"Put the file back. If these pets are meant to go, remove {path}, which says "
            "what the file had: the next round deletes them.",
        )


def _sources(course: Course, store: str) -> Iterator[Source]:
    """The sheets that say what the store is to have, but for this one."""
    own = (course.job.name, course.told.part)
    for job in _heard(course, store):
        yield from (each for each in sources_of(job) if (job.name, each.part) != own)


def _heard(course: Course, store: str) -> Iterator[Job]:
    """The jobs whose sheets say what the store is to have."""
    for job in course.owner.config.jobs:
        is_heard = job.enabled or job.name == course.job.name
        if is_heard and job.mode in ("push", "two-way") and same_place(job.url, store):
            yield job


def _meant(sheet: Sheet, names: Mapping[int, str]) -> Iterator[int]:
    """Those of the pets that a row names; one without an id by its name."""
    yield from named_ids(sheet) & names.keys()
    frame = sheet.frame
    if "name" in frame:
        rows = frame[frame["id"].isna()] if "id" in frame else frame
        said = {normal(name) for name in rows["name"].dropna()} - {""}
        yield from (pet_id for pet_id, name in names.items() if name in said)


def _said(found: Mapping[int, str]) -> str:
    if not found:
        return ""
    some = ", ".join(f"pet {pet_id} ({name})" for pet_id, name in [*found.items()][:_LISTED])
    more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return f"not missing, as another sheet has a row of it: {some}{more}"
