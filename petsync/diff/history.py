"""What a journal knows of the past: runs, and what each did to which pet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from petsync.diff.report import Cause, Outcome
from petsync.model import Pet
from petsync.table.columns import Column

__all__ = ["Entry", "Past", "RunKind"]

RunKind = Literal["apply", "undo", "upload"]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One run: `state` is `running` while a living process is at work on it, `stopped` where it
    ended before its last change (`stopped` says why, "killed" where nothing could be written any
    more), and `done`. Times are ISO 8601 in UTC, `ended` is "" while it runs; `seconds` are those
    of all sittings. `total` is the number of changes, `counts` how many had each outcome, and
    `open` how many were begun and have no outcome. `undoes` is the run that it takes back,
    `pets` how many pets what was applied is of.
    """

    run_id: str
    kind: RunKind = "apply"
    store: str
    source: str
    fingerprint: str = ""
    undoes: str = ""
    started: str
    ended: str = ""
    seconds: float = 0.0
    state: Literal["running", "stopped", "done"] = "running"
    stopped: str = ""
    total: int = 0
    counts: Mapping[Outcome, int] = {}
    open: int = 0
    pets: int = 0
    sittings: int = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a run intended with one pet, and what became of it.

    `before` is the pet as it was read just before the request, `after` as it was to be, or as the
    service said that it is then; None where there is no pet. `intended` is the moment (ISO 8601)
    at which the request was about to be sent, "" where none was; `seconds` how long it took.
    `outcome` is None where the run ended before it was known. `source` is the cell's address.
    `digest` is the SHA-256 of an image, "" for all but uploads.
    """

    number: int
    kind: Literal["add", "update", "delete", "upload"]
    row: int | None = None
    source: str = ""
    pet_id: int | None = None
    fields: tuple[Column, ...] = ()
    before: Pet | None = None
    after: Pet | None = None
    intended: str = ""
    seconds: float = 0.0
    attempts: int = 0
    outcome: Outcome | None = None
    cause: Cause = ""
    message: str = ""
    assigned_id: int | None = None
    digest: str = ""
