"""Named fakes and builders for several tests: sheets, snapshots, and a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from doubles import Double

from petsync.apply.engine import Target
from petsync.apply.planfile import write_long_plan
from petsync.errors import NotFoundError, TransportError
from petsync.models import ApiResponse, Pet
from petsync.plan.change import Coverage, Snapshot
from petsync.plan.compare import Decided, compare, find_unproved_ids
from petsync.plan.decide import SheetComparison
from petsync.plan.guard import Guard, Limit
from petsync.plan.match import find_absent_ids
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan
from petsync.profile import STANDARD
from petsync.protocol.operations import Traffic
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.frame import frame_from_pets, integers, texts
from petsync.table.sheet import Finding, Sheet

URL = "http://127.0.0.1:1/v2"
NO_LIMITS = Guard(
    max_delete=Limit(1.0),
    max_update=Limit(1.0),
    max_add=None,
    allow_empty=True,
    allow_shifted=True,
)


def snapshot_of(
    pets: Iterable[Pet], *, url: str = URL, coverage: Coverage | None = None
) -> Snapshot:
    """Return a snapshot of these pets, sorted by id; by default, it covers their statuses."""
    frame = frame_from_pets(sorted(pets, key=lambda pet: pet.id or 0))
    taken = datetime(2026, 11, 20, tzinfo=UTC)
    covered = coverage or Coverage((*STANDARD.statuses, *frame["status"].dropna().unique()))
    return Snapshot(pets=PetTable(frame=frame), coverage=covered, source=url, taken_at=taken)


def sheet_of(pets: Iterable[Pet], *, action: str | Sequence[str] = "merge", **more: Any) -> Sheet:
    """Return a sheet with every field of these pets, its rows numbered from 2. They have one action
    or one each.
    """
    frame = frame_from_pets(pets).drop(columns="extra", errors="ignore")
    frame["action"] = action
    frame.index = pd.RangeIndex(2, 2 + len(frame), name="row")
    return _sheet(frame, **more)


def sheet_saying(*rows: Mapping[str, Any], **more: Any) -> Sheet:
    """Return a sheet whose rows have values only for the given columns."""
    numbers = range(2, 2 + len(rows))
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(key for row in rows for key in row if key != "action"):
        values = [row.get(name) for row in rows]
        if name in ("id", "category_id"):
            columns[name] = integers(values)
        elif name in ("tags", "photo_urls"):
            columns[name] = pd.Series(values, dtype=object).to_numpy()
        else:
            columns[name] = texts(values)
    columns["action"] = texts([row.get("action", "merge") for row in rows])
    return _sheet(pd.DataFrame(columns, index=pd.Index(numbers, name="row")), **more)


def _sheet(frame: pd.DataFrame, **more: Any) -> Sheet:
    letters = dict(zip(frame.columns, "ABCDEFGH", strict=False))
    others = pd.DataFrame(index=frame.index)
    values = {"source": "test.xlsx", "tab": "Pets", "columns": letters, "others": others}
    return Sheet(content=PetTable(frame=frame), **{**values, **more})


def base_of(pets: Iterable[Pet], *, url: str = URL) -> Base:
    """Return the base of a sheet that was exported when the store had these pets."""
    taken = "2026-11-19T00:00:00+00:00"
    return Base(pets=snapshot_of(pets).pets, store=url, taken_at=taken)


def error_at(row: int, column: str = "status", rule: str = "status-unknown") -> Finding:
    """Return a finding that blocks its row."""
    return Finding(
        address=f"Pets!C{row}",
        row=row,
        column=column,
        severity="error",
        rule=rule,
        value="?",
        problem="it is wrong",
    )


def plan_of(pets: Iterable[Pet], sheet: Sheet, **more: Any) -> Plan:
    """Return the plan of `decided_of`."""
    return decided_of(pets, sheet, **more).plan


def long_plan(plan: Plan, path: Path) -> Plan:
    """Save the plan in Parquet, a few changes in each block, and return the plan in the file."""
    with path.open("wb") as file:
        write_long_plan(plan, file, 3)
    return Plan.load(path)


def decided_of(
    pets: Iterable[Pet],
    sheet: Sheet,
    *,
    elsewhere: Mapping[int, Pet] | None = None,
    delete_missing: bool = False,
    match_on: tuple[Any, ...] = (),
    two_way: bool = False,
    on_conflict: Any = "store",
    owners: Mapping[str, Any] | None = None,
    guard: Guard = NO_LIMITS,
    coverage: Coverage | None = None,
    ids: Collection[int] = (),
    **more: Any,
) -> Decided:
    """Return the plan, with its decisions, for a store of these pets; only getPetById knows those
    in `elsewhere`. The `ids` are looked up, too.
    """
    snapshot = snapshot_of(pets, coverage=coverage)
    unknown = (
        *find_unproved_ids(sheet.frame, snapshot.frame),
        *find_absent_ids(ids, snapshot.frame),
    )
    found = {i: (elsewhere or {}).get(i) for i in unknown}
    return compare(
        SheetComparison(snapshot, sheet, found),
        created="2026-11-20T00:00:00+00:00",
        options=PlanOptions(
            delete_missing=delete_missing,
            match_on=match_on,
            two_way=two_way,
            on_conflict=on_conflict,
            owners=owners or {},
        ),
        guard=guard,
        **more,
    )


class MemoryTarget(Double, of=Target):
    """A store in memory that keeps the service's rules, counts requests, and can fail on demand.

    `failures` maps an operation to the errors that its next calls raise; an error with
    `may_have_happened` is raised after the change is made if `commits` is set.
    """

    assigns_unique_ids = True

    def __init__(self, pets: Iterable[Pet] = ()) -> None:
        self.pets = {pet.id: pet for pet in pets}
        self.calls: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.commits = True
        self.delay = 0.0
        self.running = self.most = 0

    async def get(self, pet_id: int) -> Pet | None:
        """Return the pet or None."""
        await self._begin("get")
        return self.pets.get(pet_id)

    async def add(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        """Add a pet; assign the next id to a pet without one."""
        await self._begin("add")
        number = max((i for i in self.pets if i is not None), default=0) + 1
        stored = pet if pet.id is not None else msgspec.structs.replace(pet, id=number)
        self._commit("add", lambda: self.pets.__setitem__(stored.id, stored))
        return stored

    async def replace(self, pet: Pet, *, before_retry: Any = None) -> Pet:
        """Replace an existing pet."""
        await self._begin("replace")
        self._known(pet.id)
        self._commit("replace", lambda: self.pets.__setitem__(pet.id, pet))
        return pet

    async def update_with_form(
        self, pet_id: int, *, name: str | None, status: str | None, before_retry: Any = None
    ) -> None:
        """Set the given name and status."""
        await self._begin("update_with_form")
        given = {k: v for k, v in (("name", name), ("status", status)) if v is not None}
        new = msgspec.structs.replace(self._known(pet_id), **given)
        self._commit("update_with_form", lambda: self.pets.__setitem__(pet_id, new))

    async def delete(self, pet_id: int, *, before_retry: Any = None) -> None:
        """Delete an existing pet."""
        await self._begin("delete")
        self._known(pet_id)
        self._commit("delete", lambda: self.pets.pop(pet_id))

    async def upload(
        self, pet_id: int, content: bytes, *, filename: str, metadata: Any = None, **more: Any
    ) -> ApiResponse:
        """Add the photo's address to the pet."""
        await self._begin("upload")
        pet = self._known(pet_id)
        urls = (*pet.photo_urls, f"{URL}/images/{len(self.calls)}")
        new = msgspec.structs.replace(pet, photo_urls=urls)
        self._commit("upload", lambda: self.pets.__setitem__(pet_id, new))
        return ApiResponse(code=200, message=f"{len(content)} bytes")

    async def list_pets(self, statuses: Collection[str] = ()) -> list[Pet]:
        """Return every pet."""
        await self._begin("list_pets")
        return list(self.pets.values())

    @property
    def traffic(self) -> Traffic:
        """The counts of requests; every call is a request."""
        return Traffic(requests=len(self.calls), under_way=self.running)

    def _known(self, pet_id: int | None) -> Pet:
        if pet_id not in self.pets:
            raise NotFoundError("no such pet", pet_id=pet_id, status=404)
        return self.pets[pet_id]

    async def _begin(self, operation: str) -> None:
        self.calls.append(operation)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self.delay)
        self.running -= 1
        if operation in ("get", "list_pets") and self.failures.get(operation):
            raise self.failures[operation].pop(0)

    def _commit(self, operation: str, change: Any) -> None:
        waiting = self.failures.get(operation)
        error = waiting.pop(0) if waiting else None
        if error is None or (getattr(error, "may_have_happened", False) and self.commits):
            change()
        if error is not None:
            raise error


def lost() -> TransportError:
    """Return the error of a request whose answer never arrived."""
    return TransportError("no answer", may_have_happened=True)
