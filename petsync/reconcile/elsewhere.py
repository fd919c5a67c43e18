"""Elsewhere: a pet whose row went to another sheet is not missing, and that one's base has it then.

What the other sheets of a store have to do with one of them, as rows move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from petsync.diff.agreed import named_ids
from petsync.diff.fields import normal
from petsync.diff.round import Open
from petsync.diff.snapshot import Snapshot
from petsync.errors import PetsyncError
from petsync.reconcile.base import BaseFile
from petsync.reconcile.course import Course
from petsync.reconcile.footing import Footing, same_place
from petsync.reconcile.look import Looker
from petsync.reconcile.sources import Source, sources_of
from petsync.table.sheet import Sheet

__all__ = ["give_up", "with_claims"]

_LISTED = 3


def with_claims(
    course: Course, sheet: Sheet, snapshot: Snapshot, footing: Footing, looker: Looker
) -> Footing:
    """The footing with the pets of its base that are in no row any more, and that a row of another
    sheet of the store names, or may: all of them, where that cannot be told.
    """
    base, job = footing.base, course.job
    own = frozenset[int]() if base is None else base.ids
    footing = replace(footing, own=own)
    if base is None or not (job.mode == "two-way" or (job.mode == "push" and job.delete_missing)):
        return footing
    gone = base.without(named_ids(sheet) | looker.elsewhere).frame
    names = dict(zip(gone["id"].tolist(), map(normal, gone["name"].fillna("")), strict=True))
    problem, found = "", dict[int, str]()
    try:
        for source in _sources(course, looker.store.url) if names else ():
            found |= dict.fromkeys(_meant(source.read(looker.store), names), source.name)
        problem = _said({i: found[i] for i in sorted(found.keys() & {*snapshot.frame["id"]})})
    except PetsyncError as error:
        found = dict.fromkeys(names, "")
        problem = f"no pet is deleted as missing: another sheet may have it. {error.message}"
    told = (Open(kind="note", problem=problem),) if problem and job.delete_missing else ()
    return replace(footing, claimed=frozenset(found), notes=(*footing.notes, *told))


def give_up(course: Course, ids: frozenset[int]) -> None:
    """Take pets that are new in this sheet's base out of those of the folder's other sheets. Raises
    PetsyncError where one of these cannot be read or written.
    """
    if course.job.folder is None or not ids:
        return
    kept, job = course.owner.kept, course.job.name
    own = kept.base(job, course.told.part)
    for path in sorted(own.parent.glob("*.base")):
        if path == own or not kept.is_part(path, job):
            continue
        file = BaseFile(path)
        memory = file.load(set_aside=False)
        if memory.base is not None and not memory.is_older and ids & memory.base.ids:
            file.keep(memory.base.without(ids), memory.carried)


def _sources(course: Course, store: str) -> Iterator[Source]:
    """The sheets that say what the store is to have, but for this one."""
    own = (course.job.name, course.told.part)
    for job in course.owner.config.jobs:
        is_heard = job.enabled or job.name == course.job.name
        if is_heard and job.mode in ("push", "two-way") and same_place(job.url, store):
            yield from (each for each in sources_of(job) if (job.name, each.part) != own)


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
