"""A plan's changes, conflicts and blocked rows, and a report's results, as rows of a Table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from petsync.diff.change import Blocked, Change, Clash, Conflict
from petsync.diff.fields import cell
from petsync.diff.report import Result
from petsync.diff.units import COLUMNS_OF, Unit, unit_text
from petsync.model import Pet
from petsync.render import words
from petsync.render.marked import around
from petsync.render.markup import capital

__all__ = [
    "TITLES",
    "Row",
    "blocked_row",
    "change_columns",
    "change_row",
    "clash_columns",
    "clash_row",
    "held_columns",
    "held_row",
    "result_columns",
    "result_row",
]

Row = dict[str, Any]
TITLES = {
    "name": "Name",
    "status": "Status",
    "category": "Category",
    "tags": "Tags",
    "photo_urls": "Photos",
}
_LONGEST = 2_000
"""So many characters of a value go to the browser; what differs is always among them."""
_TONES = {
    "applied": "done",
    "skipped": "muted",
    "conflict": "conflict",
    "failed": "problem",
    "unknown": "problem",
}


def change_columns(units: Iterable[Unit]) -> list[Row]:
    """The columns of changes, with one for each of the units."""
    return [
        {"key": "kind", "title": "What", "kind": "mark"},
        {"key": "id", "title": "Id", "kind": "number"},
        {"key": "pet", "title": "Pet"},
        *({"key": unit, "title": TITLES[unit], "kind": "change"} for unit in units),
        {"key": "where", "title": "Where"},
    ]


def change_row(number: int, change: Change, units: Sequence[Unit]) -> Row:
    """A change; of an update what changes, of other pets all they are."""
    pet = words.pet_of(change)
    cells: Row = {
        "kind": {"symbol": words.SYMBOL[change.kind], "text": words.HEADING[change.kind]},
        "id": "new" if change.pet_id is None else str(change.pet_id),
        "pet": _short(pet.name or "(no name)"),
        "where": words.source_of(change),
    }
    for unit in units:
        if change.kind == "delete" or any(c in change.fields for c in COLUMNS_OF[unit]):
            cells[unit] = _sides(change.before, change.after, unit)
    label = f"{words.HEADING[change.kind].lower()} {_name(change.pet_id, pet.name or '')}"
    return {"key": str(number), "label": label, "cells": cells, "tone": change.kind}


def clash_columns() -> list[Row]:
    """The columns of fields that sheet and store both changed."""
    return [
        {"key": "pet", "title": "Pet"},
        {"key": "field", "title": "Field"},
        {"key": "base", "title": "As exported"},
        {"key": "sheet", "title": "Sheet"},
        {"key": "store", "title": "Store"},
        {"key": "winner", "title": "Your choice", "kind": "choice"},
        {"key": "where", "title": "Where"},
    ]


def clash_row(key: str, conflict: Conflict, clash: Clash, winner: str) -> Row:
    """A field that both changed, what each side says of it, and the choice between them."""
    name = _name(conflict.pet_id, conflict.name)
    options = [["store", "Keep the store's"], ["sheet", "Send the sheet's"]]
    cells: Row = {
        "pet": name,
        "field": TITLES[clash.column],
        "base": _value(clash.base),
        "sheet": _value(clash.sheet),
        "store": _value(clash.store),
        "where": conflict.source,
    }
    if clash.refused:
        cells["winner"] = f"The store's stays: {clash.refused}."
    else:
        label = f"Which {TITLES[clash.column].lower()} {name} gets"
        cells["winner"] = {"options": options, "value": winner, "label": label}
    return {"key": key, "label": f"{clash.column} of {name}", "cells": cells, "tone": "conflict"}


def held_columns() -> list[Row]:
    """The columns of rows for which nothing is sent."""
    return [
        {"key": "kind", "title": "What", "kind": "mark"},
        {"key": "where", "title": "Where"},
        {"key": "pet", "title": "Pet"},
        {"key": "problem", "title": "Why"},
        {"key": "cure", "title": "What to do"},
    ]


def held_row(key: str, conflict: Conflict) -> Row:
    """A conflict that holds its row, or a pet that is in none."""
    name = _name(conflict.pet_id, conflict.name)
    cells = {
        "kind": {"symbol": words.SYMBOL["conflict"], "text": "Conflict"},
        "where": conflict.source or "in no row",
        "pet": name,
        "problem": _short(capital(words.sentences(f"{conflict.subject} {conflict.problem}"))),
        "cure": _short(conflict.suggestion),
    }
    return {"key": key, "label": name, "cells": cells, "tone": "conflict"}


def blocked_row(key: str, row: Blocked) -> Row:
    """A row that an error in the sheet keeps out."""
    cells = {
        "kind": {"symbol": words.SYMBOL["blocked"], "text": "Blocked"},
        "where": row.source,
        "pet": _name(row.pet_id, row.name),
        "problem": _short(capital(words.sentences(row.problem))),
        "cure": "Correct the cell, and open the sheet again.",
    }
    return {"key": key, "label": row.source, "cells": cells, "tone": "problem"}


def result_columns() -> list[Row]:
    """The columns of a run's results."""
    return [
        {"key": "outcome", "title": "Outcome", "kind": "mark"},
        {"key": "where", "title": "Where"},
        {"key": "kind", "title": "Change"},
        {"key": "id", "title": "Id", "kind": "number"},
        {"key": "pet", "title": "Pet"},
        {"key": "message", "title": "What happened"},
    ]


def result_row(key: str, result: Result, name: str) -> Row:
    """What became of one change or row."""
    mark = words.OUTCOME_MARK[result.outcome]
    pet_id = result.pet_id if result.assigned_id is None else result.assigned_id
    cells = {
        "outcome": {"symbol": words.SYMBOL[mark], "text": result.outcome},
        "where": result.source,
        "kind": "" if result.kind == "none" else words.HEADING[result.kind],
        "id": "" if pet_id is None else str(pet_id),
        "pet": _short(name),
        "message": _short(result.message),
    }
    label = _name(pet_id, name)
    return {"key": key, "label": label, "cells": cells, "tone": _TONES[result.outcome]}


def _sides(before: Pet | None, after: Pet | None, unit: Unit) -> Row:
    """Both sides of a change; None for a pet that is not there."""
    old, new = (None if p is None else unit_text(p, unit, cell) for p in (before, after))
    if old is not None and new is not None:
        old, new = around(old, new, _LONGEST)
    return {
        "before": None if old is None else _short(old),
        "after": None if new is None else _short(new),
    }


def _name(pet_id: int | None, name: str) -> str:
    """`7 Rex`."""
    number = "" if pet_id is None else str(pet_id)
    return _short(" ".join(part for part in (number, name) if part) or "(no name)", 200)


def _value(text: str) -> str:
    return _short(text) if text else "(empty)"


def _short(text: str, longest: int = _LONGEST) -> str:
    """The text without its middle where it is too long to be read in a form."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"
