"""Units: the parts of a pet that change as one. A category's name and id are one unit."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Any, Literal, get_args

from petsync.diff.fields import key, same
from petsync.model import Pet
from petsync.table.columns import Column

__all__ = [
    "COLUMNS_OF",
    "UNITS",
    "Unit",
    "changed_columns",
    "said_columns",
    "says",
    "unit_key",
    "unit_text",
]

Unit = Literal["name", "status", "category", "tags", "photo_urls"]
UNITS: tuple[Unit, ...] = get_args(Unit)

COLUMNS_OF: Mapping[Unit, tuple[Column, ...]] = {
    "name": ("name",),
    "status": ("status",),
    "category": ("category", "category_id"),
    "tags": ("tags",),
    "photo_urls": ("photo_urls",),
}


def says(said: Mapping[Column, Any], unit: Unit) -> bool:
    """Whether a row says anything of the unit."""
    return unit in said or (unit == "category" and "category_id" in said)


def said_columns(fields: Iterable[Column], said: Container[Column]) -> tuple[Column, ...]:
    """The columns in which a row says what changes: of a category that changes in one column
    alone, it may be the other one.
    """
    units = {unit: of for unit, of in COLUMNS_OF.items() if any(c in of for c in fields)}
    own = [column for column in fields if column in said]
    others = [column for of in units.values() for column in of if column in said]
    return tuple(dict.fromkeys([*own, *others]))


def unit_key(pet: Pet, unit: Unit) -> Hashable:
    """What two pets must share to be equal in a unit."""
    if unit == "category":
        return key(pet, "category"), key(pet, "category_id")
    return key(pet, unit)


def changed_columns(expected: Pet, found: Pet, unit: Unit) -> tuple[Column, ...]:
    """The columns of a unit in which a pet is not the same as expected."""
    if getattr(expected, unit) is getattr(found, unit):
        return ()
    return tuple(c for c in COLUMNS_OF[unit] if not same(expected, found, c))


def unit_text(pet: Pet | None, unit: Unit, cell: Callable[[Pet | None, Column], str]) -> str:
    """A unit as a cell shows it; a category as `Dogs (1)`."""
    if unit != "category":
        return cell(pet, unit)
    name, number = cell(pet, "category"), cell(pet, "category_id")
    return f"{name} ({number})".strip() if number else name
