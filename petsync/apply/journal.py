"""Journal: what a run intended and what became of it, on disk before and after each request.

One JSON object a line: a `plan` line, then `intent` and `result` lines. An intent is on disk
(fsync) before its request is sent, so after a crash at any point every change is either not
begun, or known to have been begun. Writes of changes that run together share one fsync.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from petsync.diff.plan import Plan
from petsync.diff.report import Result
from petsync.errors import PetsyncError, StalePlanError
from petsync.model import Pet

__all__ = ["Header", "Intent", "Journal", "begin", "check_unused"]


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="plan"):
    """A journal's first line: the run and the whole plan."""

    run_id: str
    started: str
    fingerprint: str
    plan: Plan


class Intent(msgspec.Struct, frozen=True, kw_only=True, tag="intent"):
    """The change of this number is about to be sent; `before` is the pet as it was just then."""

    number: int
    before: Pet | None


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """The change of this number is done with."""

    result: Result


Line = Header | Intent | Done


class Journal:
    """An open journal file. `write` returns when the line is on disk."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._waiting: list[bytes] = []
        self._flush: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def write(self, line: Line) -> None:
        """Put the line on disk, together with the lines that others write meanwhile."""
        self._waiting.append(msgspec.json.encode(line) + b"\n")
        if self._flush is None:
            self._flush = asyncio.create_task(self._to_disk())
        await asyncio.shield(self._flush)

    async def _to_disk(self) -> None:
        async with self._lock:
            await asyncio.sleep(0)
            lines, self._waiting, self._flush = b"".join(self._waiting), [], None
            await asyncio.to_thread(_durably, self._descriptor, lines, self.path)

    async def close(self) -> None:
        """Close the file; every line that was written is on disk."""
        async with self._lock:
            os.close(self._descriptor)


def begin(state: Path, run_id: str, started: str, plan: Plan) -> Journal:
    """A new journal below `state`, with the plan in it.

    Raises StalePlanError where this very plan was begun before: a plan is used once.
    """
    check_unused(state, plan)
    runs, used = state / "runs", state / "used"
    header = Header(run_id=run_id, started=started, fingerprint=plan.fingerprint, plan=plan)
    path, claim = runs / f"{run_id}.jsonl", used / plan.fingerprint
    try:
        for folder in (state, runs, used):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _durably(descriptor, msgspec.json.encode(header) + b"\n", path)
        _claim(claim, run_id)
    except BaseException:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return Journal(path, descriptor)


def check_unused(state: Path, plan: Plan) -> None:
    """Raise StalePlanError where a run below `state` has begun with this very plan."""
    path = state / "used" / plan.fingerprint
    if path.exists():
        raise _used(path)


def _claim(path: Path, run_id: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise _used(path) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _durably(descriptor, run_id.encode(), path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _used(path: Path) -> StalePlanError:
    return StalePlanError(
        f"this plan was applied already, in run {path.read_text('utf-8') or '?'}",
        hint="Make a new plan from the sheet: it holds what is still to be done.",
    )


def _durably(descriptor: int, lines: bytes, path: Path) -> None:
    try:
        view = memoryview(lines)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> PetsyncError:
    return PetsyncError(
        f"the journal {path} cannot be written: {error.strerror}",
        hint="Nothing is sent without it. Make room, or choose another folder with --state.",
    )
