"""What is said of past runs, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from petsync.diff.change import Add, Change, Delete, Update
from petsync.diff.fields import stated
from petsync.diff.history import Entry, Past
from petsync.diff.report import OUTCOMES
from petsync.diff.uploaded import UploadedFile
from petsync.render.visible import visible
from petsync.render.words import count, moment, number

__all__ = ["DID", "as_change", "became", "comes_to", "of_file", "run_line", "taken_back", "what"]

DID: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "upload": "image uploaded",
}
_OPEN = "begun, and nobody knows yet whether it was done"


def what(past: Past) -> str:
    """What the run was made from: a sheet, a folder, or the run that it took back."""
    return f"undo of run {past.undoes}" if past.undoes else visible(past.source)


def comes_to(past: Past) -> str:
    """`12 of 14 changes applied, 1 conflict, 1 not begun`."""
    things = "image" if past.kind == "upload" else "change"
    applied = past.counts.get("applied", 0)
    others = [
        *((outcome, past.counts.get(outcome, 0)) for outcome in OUTCOMES if outcome != "applied"),
        ("open", past.open),
        ("not begun", past.total - sum(past.counts.values()) - past.open),
    ]
    rest = "".join(f", {number(total)} {name}" for name, total in others if total > 0)
    return f"{number(applied)} of {count(past.total, things)} applied{rest}"


def run_line(past: Past) -> str:
    """`catalogue.xlsx, begun 2026-11-21 09:24:56 UTC: 12 of 14 changes applied`."""
    return f"{what(past)}, begun {moment(past.started)}: {comes_to(past)}"


def taken_back(past: Past, by: Past | None) -> str:
    """`undone by run 20261121-093017-6038`, or in part; "" for a run that stands."""
    if by is None:
        return ""
    # All images of a pet are taken back by one change.
    done = past.pets if past.kind == "upload" else past.counts.get("applied", 0)
    part = "" if by.counts.get("applied", 0) >= done else " in part"
    return f"undone{part} by run {by.run_id}"


def became(entry: Entry) -> str:
    """What became of a change: `changed`, or why not: `update, conflict: the pet is gone`."""
    if entry.outcome == "applied":
        said = DID[entry.kind]
    else:
        said = f"{entry.kind}, {entry.outcome or _OPEN}"
    return f"{said}: {visible(entry.message)}" if entry.message else said


def of_file(file: UploadedFile) -> str:
    """`7_2.png: image uploaded`, or why not: `7_2.png: failed: the pet is gone`."""
    name = visible(f"{file.source}, {file.file}" if file.source else file.file)
    outcome = DID["upload"] if file.outcome == "applied" else file.outcome
    return ": ".join(filter(None, (name, outcome, visible(file.message))))


def as_change(entry: Entry) -> Change | None:
    """What the run did, or meant to do, to the pet; None where the journal does not say it."""
    before, after = entry.before, entry.after
    pet_id = entry.pet_id if entry.assigned_id is None else entry.assigned_id
    if entry.kind == "add" and after is not None:
        pet = msgspec.structs.replace(after, id=pet_id)
        return Add(row=entry.row, source=entry.source, fields=stated(pet), after=pet)
    if entry.kind == "delete" and before is not None:
        return Delete(row=entry.row, source=entry.source, before=before)
    if before is None or after is None or entry.kind in ("add", "delete"):
        return None
    fields = entry.fields or ("photo_urls",)
    return Update(row=entry.row, source=entry.source, fields=fields, before=before, after=after)
