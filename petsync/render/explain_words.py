"""What is said of why a plan does with a pet what it does, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping

from petsync.diff.explain import Explanation, Reason
from petsync.render.sides import Cell, items
from petsync.render.visible import visible
from petsync.render.words import Mark

__all__ = ["FATE_MARK", "SIDES", "agreed", "changes", "headline", "sides", "why"]

SIDES = ("exported", "sheet", "store", "then")
"""The titles of a field's values: in the base, the sheet, the store, and the store afterwards."""
_NOTHING = "-"
_FATE: Mapping[str, str] = {
    "add": "it will be added",
    "update": "it will be changed",
    "delete": "it will be deleted",
    "conflict": "it is in conflict",
    "blocked": "nothing is sent, as its row is blocked",
    "ignored": "nothing is sent, as its row is ignored",
    "unchanged": "nothing changes",
    "absent": "there is none",
}
FATE_MARK: Mapping[str, Mark] = {
    "add": "add",
    "update": "update",
    "delete": "delete",
    "conflict": "conflict",
    "blocked": "blocked",
}
"""The sign of a fate; of one that changes nothing, it is that of a note."""


def headline(explanation: Explanation) -> str:
    """Which pet, its row, and what becomes of it: `Pet 17, Bella (Pets!B18): nothing changes.`."""
    pet = "A new pet" if explanation.pet_id is None else f"Pet {explanation.pet_id}"
    name = f", {visible(explanation.name)}" if explanation.name else ""
    where = f" ({visible(explanation.source)})" if explanation.source else ""
    return f"{pet}{name}{where}: {_FATE[explanation.fate]}."


def why(rule: str, said: str) -> str:
    """The sentence, and the rule's code: `The sheet changed it, the store did not. [edited]`."""
    return " ".join(part for part in (visible(said), f"[{visible(rule)}]" if rule else "") if part)


def sides(reason: Reason) -> list[Cell]:
    """The field's values under `SIDES`, visible, of a list its items; `-` where there is none."""
    texts = (reason.base, reason.sheet, reason.store, reason.after)
    return [_side(reason, text) for text in texts]


def changes(reason: Reason) -> bool:
    """Whether the store would have another value then."""
    return (reason.store or "") != (reason.after or "")


def agreed(reason: Reason) -> Cell | None:
    """The value, visible, of a list its items, where all that say anything say the same and it
    stays; else None.
    """
    sides = {reason.base, reason.sheet, reason.store, reason.after} - {None}
    if changes(reason) or len(sides) > 1:
        return None
    return _side(reason, sides.pop() if sides else None)


def _side(reason: Reason, text: str | None) -> Cell:
    return [_NOTHING] if text is None else items(reason.column, text)
