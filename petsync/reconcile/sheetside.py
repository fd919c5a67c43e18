"""The sheet's side of a round: what it takes is written, or it is made where it is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync import sheets
from petsync.diff.intake import Inbound
from petsync.diff.report import Report
from petsync.diff.settled import SETTLED, with_inbound
from petsync.diff.snapshot import Snapshot
from petsync.errors import SheetError
from petsync.reconcile.base import digest_of
from petsync.reconcile.course import Course
from petsync.reconcile.footing import Files, Footing
from petsync.reconcile.look import Look, Looker
from petsync.reconcile.versions import Version
from petsync.sheets import Obstacle
from petsync.table.base import Base

__all__ = ["Written", "assigned", "check", "is_to_be_made", "made", "writable", "write"]


def check(look: Look) -> None:
    """Raise SheetError, before anything is sent, where the sheet could not be written then. A run
    may bring about what it has to take: an id, a category's number, what came meanwhile.
    """
    inbound = look.inbound
    if inbound is None:
        return
    if inbound or (inbound.lead == "merge" and look.plan.changes):
        sheets.must_take_edits(look.sheet)


def assigned(report: Report | None) -> dict[int, int]:
    """The ids that the store gave to pets of rows without one, by row."""
    results = () if report is None else report.results
    return {
        each.row: each.assigned_id
        for each in results
        if each.row is not None
        and each.assigned_id is not None
        and (each.outcome == "applied" or each.cause in SETTLED)
    }


@dataclass(frozen=True, slots=True)
class Written:
    """What a sheet took, the cells that could not be written, and the base that it carries now, if
    it got one.
    """

    inbound: Inbound
    stuck: tuple[Obstacle, ...] = ()
    carried: Base | None = None


def write(
    course: Course, looker: Looker, look: Look, inbound: Inbound, footing: Footing
) -> Written:
    """Write what the sheet of a look takes, and remember what was agreed on before; a sheet that
    carries a base gets the new one. The base of the footing has what a run sent. Raises SheetError.
    """
    sheet, base = look.sheet, footing.base
    edits = sheets.edits_of(inbound, sheet)
    stuck = tuple(sheets.obstacles(sheet, edits))
    done = writable(inbound, stuck)
    course.planned(course.plan, inbound)
    rest = edits.without(stuck)
    if not rest:
        return Written(done, stuck)
    carried = with_inbound(base, done) if base is not None and sheet.base is not None else None
    versions = Files.of(course).versions
    # Its backup may be there even where nothing is written, so that it stays.
    version = versions.keep(_version(course, look, done, footing))
    backup = sheets.write_synced(sheet, rest, base=carried)
    course.note(backup=str(backup), applied=course.told.applied + done.touched.total)
    versions.put(msgspec.structs.replace(version, after=looker.read().digest))
    return Written(done, stuck, carried)


def _version(course: Course, look: Look, inbound: Inbound, footing: Footing) -> Version:
    """The sheet as it is, with all that it and the store agree on by now."""
    agreed = look.sight.base(
        look.seen, footing.base, look.elsewhere, fills=look.inbound is not None
    )
    return Version(
        round=course.told.id,
        before=look.sheet.digest,
        base=tuple(agreed.to_lines()),
        inbound=inbound,
        is_again=bool(footing.undone or footing.doubts),
        runs=tuple(sorted(footing.runs)),
        carried=digest_of(look.sheet.base),
    )


def writable(inbound: Inbound, stuck: Sequence[Obstacle]) -> Inbound:
    """Only what can be written as a whole."""
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


def is_to_be_made(looker: Looker) -> bool:
    """Whether the sheet is not there, and the store leads. A folder that is not there is rather a
    drive that is not connected.
    """
    path = looker.source.path
    return looker.job.mode == "pull" and path is not None and _is_missing(path)


def made(looker: Looker, snapshot: Snapshot) -> None:
    """Make the sheet, with the snapshot as the base that it carries. Raises SheetError."""
    path = looker.source.path
    if path is None:
        raise SheetError("a query is no sheet that could be made")
    sheets.write_sheet(snapshot, path, tab=looker.job.tab or "Pets")


def _is_missing(path: Path) -> bool:
    return path.parent.is_dir() and not path.exists() and not path.is_symlink()
