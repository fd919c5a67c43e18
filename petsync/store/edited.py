"""Edited: the part of AsyncStore that changes one pet by hand, through the gates of every plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pandas as pd

from petsync.client.api import AsyncApi
from petsync.diff import arguments
from petsync.diff.guard import Guard
from petsync.diff.plan import Plan
from petsync.diff.snapshot import Snapshot
from petsync.errors import FindingsError, SettingsError
from petsync.model import Category, Pet, Tag
from petsync.table.base import Base
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = ["Edited"]

_HERE = "edit"
_OF_OTHERS = "nothing happens to"
"""In a note on the store's other pets, of which an edit never says anything."""
_NO_GUARD = Guard()


class Edited(ABC):
    """Edits of one pet."""

    api: AsyncApi

    @abstractmethod
    async def snapshot(self, *, statuses: Sequence[str] = ()) -> Snapshot: ...

    @abstractmethod
    async def plan(
        self, sheet: Sheet, *, guard: Guard = _NO_GUARD, snapshot: Snapshot | None = None
    ) -> Plan: ...

    @abstractmethod
    def read(self, sheet: pd.DataFrame, *, known_statuses: Collection[str] = ()) -> Sheet: ...

    async def edit(
        self,
        pet_id: int,
        *,
        name: str | None = None,
        status: str | None = None,
        category: str | Category | None = None,
        tags: str | Iterable[str | Tag] | None = None,
        photo_urls: str | Iterable[str] | None = None,
        seen: Pet | None = None,
        guard: Guard = _NO_GUARD,
        snapshot: Snapshot | None = None,
    ) -> Plan:
        """The plan that changes this one pet, to be applied as every plan; sends nothing that
        changes anything. What is None says nothing; an empty text or list empties a field.

        `tags` and `photo_urls` are lists, or text as a sheet's cell has it. `seen` is the pet as
        it was when it was decided what to change: what somebody else changed since then stays, and
        is a conflict where both changed the same. `snapshot` saves reading the whole store
        once more; the pet itself is read anew in any case.

        Raises NotFoundError where there is no such pet, and FindingsError for a value that a sheet
        could not have either.
        """
        (number,) = arguments.pet_ids(pet_id)
        said = _said(name, status, category, tags, photo_urls)
        base = _base(number, seen, self.api.session.base_url)
        url = self.api.session.base_url
        taken = None if snapshot is None else arguments.checked_snapshot(snapshot, url)
        now = await self.api.get_pet_by_id(number)
        known = _with(await self.snapshot() if taken is None else taken, now)
        sheet = self.read(_frame(number, said), known_statuses=_statuses(known))
        _check(sheet)
        sheet = replace(sheet, source=f"edit of pet {number}", base=base)
        return _told(await self.plan(sheet, guard=guard, snapshot=known))


def _said(
    name: str | None,
    status: str | None,
    category: str | Category | None,
    tags: str | Iterable[str | Tag] | None,
    photo_urls: str | Iterable[str] | None,
) -> dict[str, Any]:
    """What is to be, by column."""
    said = {
        "name": _text("name", name),
        "status": _text("status", status),
        "tags": _items(tags),
        "photo_urls": _items(photo_urls),
    }
    if isinstance(category, Category):
        return {**said, "category": category.name, "category_id": category.id}
    text = _text("category", category)
    return {**said, "category": CLEARED if text == "" else text}


def _text(column: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise SettingsError(f"{column} is {value!r}, which is no text")


def _items(value: str | Iterable[Any] | None) -> str | list[Any] | None:
    return value if value is None or isinstance(value, str) else list(value)


def _frame(pet_id: int, said: Mapping[str, Any]) -> pd.DataFrame:
    """A sheet of one row with every column: one that were not there would be taken for lost."""
    row = {column: said.get(column) for column in COLUMNS} | {"id": pet_id, "action": "update"}
    return pd.DataFrame([row], dtype=object)


def _base(pet_id: int, seen: Pet | None, store: str) -> Base | None:
    if seen is None:
        return None
    if not isinstance(seen, Pet) or seen.id != pet_id:
        raise SettingsError(
            f"seen is not pet {pet_id}", hint="Give the pet as store.api.get_pet_by_id has it."
        )
    taken_at = datetime.now(UTC).isoformat(timespec="microseconds")
    return Base(frame=frame_from_pets([seen]), store=store, taken_at=taken_at)


def _with(snapshot: Snapshot, pet: Pet) -> Snapshot:
    """The snapshot with the pet as it is now: what was read of it before may be old."""
    others = snapshot.frame[snapshot.frame["id"] != pet.id]
    frame = pd.concat([others, frame_from_pets([pet])], ignore_index=True)
    return replace(snapshot, frame=frame.sort_values("id", kind="stable", ignore_index=True))


def _statuses(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.frame["status"].dropna().unique())


def _check(sheet: Sheet) -> None:
    """Raise FindingsError where a value cannot be meant."""
    for each in sheet.problems:
        if each.severity == "error":
            value = "" if each.value in ("", CLEAR) else f"{each.value[:60]!r}: "
            raise FindingsError(f"{each.column}: {value}{each.problem}", hint=each.suggestion)


def _told(plan: Plan) -> Plan:
    """The plan without what is only true of a sheet: addresses of cells, and its other pets."""

    def here(each: Any, **more: Any) -> Any:
        return msgspec.structs.replace(each, source=_HERE, **more)

    return msgspec.structs.replace(
        plan,
        places={},
        notes=tuple(note for note in plan.notes if _OF_OTHERS not in note),
        changes=tuple(map(here, plan.changes)),
        conflicts=tuple(
            here(each, problem=each.problem.replace("since the export", "since it was read"))
            for each in plan.conflicts
        ),
    )
