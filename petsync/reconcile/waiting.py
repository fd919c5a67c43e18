"""Waiting: a plan over its guard, kept until a person releases it or its reason is gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync._file import make_private_folder
from petsync.apply.planfile import load_plan, save_plan
from petsync.diff.guard import Guard, Limit, Refusal
from petsync.diff.intake import Inbound
from petsync.diff.plan import Plan
from petsync.diff.released import broken, released_note
from petsync.diff.round import Open
from petsync.diff.snapshot import Coverage
from petsync.errors import PetsyncError, PlanError
from petsync.sheets import load_edits, save_edits
from petsync.store import Store

__all__ = ["SheetWaiting", "Waiting", "is_final", "with_room"]

_LOG = logging.getLogger(__name__)
_RELEASABLE = frozenset({"add", "update", "delete"})


def is_final(refusals: Sequence[Refusal]) -> bool:
    """Whether nobody may release what is refused so: an empty sheet, a sentinel, everything."""
    return any(refusal.limit not in _RELEASABLE for refusal in refusals)


def with_room(guard: Guard, refusals: Sequence[Refusal], counts: Mapping[str, int]) -> Guard:
    """The guard with those limits raised that are broken, just as far as `counts` need it."""
    raised = {
        f"max_{each.limit}": Limit(counts[each.limit], is_share=False)
        for each in refusals
        if each.limit in _RELEASABLE
    }
    return msgspec.structs.replace(guard, **raised) if raised else guard


@dataclass(frozen=True, slots=True)
class Waiting:
    """The file of a plan for the store that waits."""

    path: Path
    job: str

    def hold(self, plan: Plan, store: Store) -> str:
        """Keep the plan, with the limits that it needs and a note that says so, and return its
        fingerprint. One that would do the same stays as it is, unless it was applied already.
        Raises PetsyncError.
        """
        released = self._with_room(plan)
        there = self._there()
        if there is not None and _same(there, released) and not _is_used(there, store):
            return there.fingerprint
        _make_folder(self.path)
        save_plan(released, self.path)
        return released.fingerprint

    def released(self, store: Store) -> str:
        """The fingerprint of the plan that waited, if somebody has applied it; else ""."""
        there = self._there()
        return there.fingerprint if there is not None and _is_used(there, store) else ""

    def clear(self) -> None:
        """Nothing waits any more."""
        _remove(self.path)

    def _with_room(self, plan: Plan) -> Plan:
        refusals = plan.verdict.refusals
        counts = {"add": len(plan.adds), "update": len(plan.updates), "delete": len(plan.deletes)}
        note = released_note(self.job, broken(refusals))
        noted = msgspec.structs.replace(plan, notes=(note, *plan.notes))
        return noted.guarded(with_room(plan.guard, refusals, counts))

    def _there(self) -> Plan | None:
        if not self.path.exists():
            return None
        try:
            return load_plan(self.path)
        except PlanError as error:
            _LOG.warning("%s; it is made anew", error.message)
            return None


@dataclass(frozen=True, slots=True)
class SheetWaiting:
    """The file of what a sheet is to take, and that waits; beside it, once somebody has written it,
    what the sheet took, until the base has it.
    """

    path: Path

    def hold(self, inbound: Inbound, job: str) -> None:
        """Keep it, with the limits that it needs. What would do the same stays as it is. Raises
        PetsyncError.
        """
        counts = msgspec.structs.asdict(inbound.counts)
        refusals = inbound.verdict.refusals
        note = Open(kind="note", problem=released_note(job, broken(refusals)))
        noted = msgspec.structs.replace(inbound, notes=(note, *inbound.notes))
        released = noted.judged(with_room(inbound.guard, refusals, counts))
        if self._fingerprint() == released.fingerprint:
            return
        _make_folder(self.path)
        save_edits(released, self.path)

    def take(self, inbound: Inbound) -> None:
        """What waited was written into the sheet, as far as this says."""
        save_edits(inbound, self._released)
        self.clear()

    def released(self) -> Inbound | None:
        """What the sheet took so; None where the base has it already."""
        try:
            return load_edits(self._released) if self._released.exists() else None
        except PlanError as error:
            _LOG.warning("%s", error.message)
            return None

    def forget(self) -> None:
        """The base has it."""
        _remove(self._released)

    @property
    def _released(self) -> Path:
        return self.path.with_suffix(".released")

    def clear(self) -> None:
        """Nothing waits any more."""
        _remove(self.path)

    def _fingerprint(self) -> str:
        if not self.path.exists():
            return ""
        try:
            return load_edits(self.path).fingerprint
        except PlanError as error:
            _LOG.warning("%s; it is made anew", error.message)
            return ""


def _make_folder(path: Path) -> None:
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise PetsyncError(f"{path.parent} cannot be made: {error.strerror}") from None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PetsyncError(f"{path} cannot be removed: {error.strerror}") from None


def _same(one: Plan, other: Plan) -> bool:
    """Whether two plans would do the same for the same reason."""
    return _timeless(one) == _timeless(other)


def _timeless(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, created="", base="", coverage=Coverage())


def _is_used(plan: Plan, store: Store) -> bool:
    with store.aio.history.opened() as journal:
        return journal.used_by(plan.fingerprint) is not None
