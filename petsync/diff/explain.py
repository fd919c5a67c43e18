"""Explanation: which values of base, sheet and store led to what a plan does with one pet."""

from __future__ import annotations

from typing import Literal

import msgspec

from petsync._show import as_html, as_text
from petsync.table.columns import Column

__all__ = ["Explanation", "Explanations", "Reason"]

Fate = Literal["add", "update", "delete", "conflict", "blocked", "ignored", "unchanged", "absent"]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a field ends as it does. Texts are as a cell shows them; None where there is none: no
    base, a cell that says nothing, no pet. `after` is what the store would have then.

    `rule` is a stable code of docs/plan.md, `said` the same in a sentence.
    """

    column: Column
    base: str | None
    sheet: str | None
    store: str | None
    after: str | None
    rule: str
    said: str


class Explanations(tuple["Explanation", ...]):
    """Explanations, which show themselves together."""

    __slots__ = ()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan does about one pet, and why.

    `fate` is what becomes of it; "absent" where neither sheet nor store has it. `row` and `source`
    are its row's, None and "" where it has none. `rule` and `said` tell of the pet as a whole,
    `fields` of each of its columns.
    """

    pet_id: int | None
    name: str
    fate: Fate
    row: int | None
    source: str
    rule: str
    said: str
    fields: tuple[Reason, ...] = ()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
