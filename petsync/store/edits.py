"""Edits of one pet, with all checks of a plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Unpack

import msgspec
import pandas as pd

from petsync._options import show_keywords
from petsync.client.api import AsyncApi
from petsync.errors import FindingsError, SettingsError
from petsync.models import Category, Pet, Tag
from petsync.plan import arguments
from petsync.plan.change import Snapshot
from petsync.plan.drift import find_drift
from petsync.plan.guard import NO_GUARD, Guard, UpdateKeywords, guard_from
from petsync.plan.plan import Plan
from petsync.table.arrow import PetTable, rows_from_pets
from petsync.table.base import Base
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import frame_from_pets, join_rows, unique_texts
from petsync.table.lists import as_items
from petsync.table.rules import SheetRule, describe
from petsync.table.sheet import Sheet

__all__ = ["PetEditor"]


_EDIT_SOURCE = "edit"
_OTHERS_NOTE = "nothing happens to"
"""An edit omits notes that contain this text: they are about the store's other pets."""


@dataclass(frozen=True, slots=True)
class PetEditor:
    """Makes plans that edit one pet; `snapshot`, `plan` and `read` are the store's methods. The
    `rules` are those of petsync.toml.
    """

    api: AsyncApi
    snapshot: Callable[[], Awaitable[Snapshot]]
    plan: Callable[..., Awaitable[Plan]]
    read: Callable[..., Sheet]
    rules: Sequence[SheetRule]

    @show_keywords(UpdateKeywords)
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
        guard: Guard = NO_GUARD,
        snapshot: Snapshot | None = None,
        **limits: Unpack[UpdateKeywords],
    ) -> Plan:
        """Return a plan that changes only this pet, for `apply`. Sends only GET requests.

        A field that is None stays unchanged. An empty `category`, `tags` or `photo_urls` empties
        the field; an empty status is a conflict, because no query would find the pet. `tags` and
        `photo_urls` are lists, or text as in a cell of a sheet. `seen` is the pet on which you
        based the change: later changes by other users stay, and a field that another user has
        changed too is a conflict. A `snapshot` saves a request for all pets; petsync always reads
        the pet itself again.

        Raises NotFoundError if the pet does not exist, and FindingsError for a value that is also
        an error in a sheet, such as an empty name, and if the changed pet breaks a rule of
        petsync.toml about a changed field.
        """
        number = arguments.pet_id(pet_id)
        guard = guard_from(limits, guard, known=UpdateKeywords, function="edit")
        values = _collect_fields(name, status, category, tags, photo_urls)
        base = _base(number, seen, self.api.session.base_url)
        url = self.api.session.base_url
        given = None if snapshot is None else arguments.checked_snapshot(snapshot, url)
        current = await self.api.get_pet_by_id(number)
        known = _with_pet(await self.snapshot() if given is None else given, current)
        known_statuses = unique_texts(known.rows, "status")
        # The row has only the given values, so the rules look at the changed pet instead.
        sheet = self.read(_frame(number, values), known_statuses=known_statuses, rules=())
        _check_values(sheet, number)
        sheet = replace(sheet, source=f"edit of pet {number}", base=base)
        plan = _strip_addresses(await self.plan(sheet, guard=guard, snapshot=known))
        return _apply_rules(self.rules, plan)


def _collect_fields(
    name: str | None,
    status: str | None,
    category: str | Category | None,
    tags: str | Iterable[str | Tag] | None,
    photo_urls: str | Iterable[str] | None,
) -> dict[str, Any]:
    values = {
        "name": _check_text("name", name),
        "status": _check_text("status", status),
        "tags": _items("tags", tags),
        "photo_urls": _items("photo_urls", photo_urls),
    }
    if isinstance(category, Category):
        return {**values, "category": category.name, "category_id": category.id}
    text = _check_text("category", category)
    return {**values, "category": CLEARED if text == "" else text}


def _check_text(column: str, value: object) -> str | None:
    if isinstance(value, str):
        # A blank text is an empty one: it does not mean "no change", as a blank cell does.
        return value if value.strip() else ""
    if value is None:
        return value
    raise SettingsError(f"{column} is {value!r}; it must be text")


def _items(column: str, value: object) -> object:
    if value is None or isinstance(value, str):
        return _check_text(column, value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        items = as_items(value)
        items = [*value] if items is None else items
        kinds = (str, Tag) if column == "tags" else (str,)
        for item in items:
            if not isinstance(item, kinds):
                raise SettingsError(
                    f"{column} has the item {repr(item)[:60]}",
                    hint="Write texts" + (", or ps.Tag." if Tag in kinds else "."),
                )
        return items
    item = repr(value)[:60] if isinstance(value, Tag) else "…"
    raise SettingsError(
        f"{column} is {repr(value)[:60]}; it must be a list, or a text as in a cell of a sheet",
        hint=f"Write a list, such as {column}=[{item}].",
    )


def _frame(pet_id: int, values: Mapping[str, Any]) -> pd.DataFrame:
    """Return a DataFrame of one row with every column: a missing column would count as lost."""
    row = {column: values.get(column) for column in COLUMNS} | {"id": pet_id, "action": "update"}
    return pd.DataFrame([row], dtype=object)


def _base(pet_id: int, seen: Pet | None, store: str) -> Base | None:
    if seen is None:
        return None
    if not isinstance(seen, Pet) or seen.id != pet_id:
        raise SettingsError(
            f"the argument `seen` is not pet {pet_id}",
            hint="Give the pet as store.api.get_pet_by_id returns it.",
        )
    taken_at = datetime.now(UTC).isoformat(timespec="microseconds")
    return Base(pets=PetTable(frame=frame_from_pets([seen])), store=store, taken_at=taken_at)


def _with_pet(snapshot: Snapshot, pet: Pet) -> Snapshot:
    """Return the snapshot with this current pet instead of its earlier state."""
    others = snapshot.rows[snapshot.rows["id"] != pet.id]
    frame = join_rows([others, rows_from_pets([pet])])
    frame = frame.sort_values("id", kind="stable", ignore_index=True)
    return replace(snapshot, pets=PetTable(frame=frame))


def _check_values(sheet: Sheet, pet_id: int) -> None:
    """Raise FindingsError for the first value that would also be an error in a sheet."""
    for each in sheet.problems:
        if each.severity == "error":
            value = "" if each.value in ("", CLEAR) else f"{each.value[:60]!r}: "
            raise FindingsError(
                f"pet {pet_id}, {each.column}: {value}{each.problem}",
                hint=each.suggestion.replace("leave the value out", f"leave {each.column} out"),
            )


def _apply_rules(rules: Iterable[SheetRule], plan: Plan) -> Plan:
    """Return the plan with a note on each rule about a changed field that its pet then breaks.
    Raises FindingsError if the severity of such a rule is `error`.
    """
    notes: list[str] = []
    for change in plan.changes:
        pet = change.after
        if pet is None:
            continue
        changed = {*change.fields}
        concerned = [
            each
            for each in rules
            if each.enabled and each.applies_to == "sheet" and _is_about(each, changed)
        ]
        drifts = [*find_drift(concerned, rows_from_pets([pet]))]
        for rule in (each.rule for each in drifts):
            text = f"pet {pet.id}, {rule.marked_columns[0]}: {describe(rule)}"
            where = f"The rule {rule.name} in petsync.toml says so."
            if rule.severity == "error":
                raise FindingsError(text, hint=where)
            notes.append(f"{text.rstrip('.')}. {where}")
    return msgspec.structs.replace(plan, raw_notes=(*plan.raw_notes, *notes)) if notes else plan


def _is_about(rule: SheetRule, changed: Collection[str]) -> bool:
    """Return whether the rule needs only columns of pets, and one of those that are changed."""
    used = {*rule.used_columns}
    return used.issubset(COLUMNS) and not used.isdisjoint(changed)


def _strip_addresses(plan: Plan) -> Plan:
    """Return the plan without cell addresses, which only apply to a sheet, and without notes about
    other pets.
    """

    def replace_source(each: Any, **more: Any) -> Any:
        return msgspec.structs.replace(each, source=_EDIT_SOURCE, **more)

    return msgspec.structs.replace(
        plan,
        places={},
        raw_notes=tuple(note for note in plan.raw_notes if _OTHERS_NOTE not in note),
        changes=tuple(map(replace_source, plan.changes)),
        conflicts=tuple(
            replace_source(
                each, problem=each.problem.replace("since the export", "since it was read")
            )
            for each in plan.conflicts
        ),
    )
