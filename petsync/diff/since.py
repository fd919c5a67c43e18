"""Since: what sheet and store each changed since the export that the sheet was made by.

A cell that says what the base says was not edited, so it says nothing; what the store changed
meanwhile then stays. Where both moved, apart, a person decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from petsync.diff import align
from petsync.diff.fields import cell, differing, normal, same, tag_key
from petsync.diff.merge import merged
from petsync.diff.vocabulary import Vocabulary
from petsync.errors import PlanError
from petsync.model import Pet, Tag
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import pets_from_frame
from petsync.table.sheet import Sheet

__all__ = ["Since", "base_of"]

Said = Mapping[Column, Any]
_SHOWN = 60
_CATEGORY: tuple[Column, Column] = ("category", "category_id")


def base_of(sheet: Sheet, store: str, *, two_way: bool) -> Base | None:
    """The base that the sheet is compared by. Raises PlanError where it carries one that cannot
    be trusted, or that is another store's, unless `two_way`, which does without.
    """
    if two_way:
        return None
    if sheet.base_refused:
        raise PlanError(
            f"{sheet.source}: {sheet.base_refused}",
            hint="Export afresh and move your edits there; or compare with the store alone "
            "(--two-way, two_way=True): every filled cell then overrules the store.",
        )
    if sheet.base is not None and sheet.base.store != store:
        raise PlanError(
            f"{sheet.source} was exported from {sheet.base.store}, and this store is {store}",
            hint="Name the other store, or compare with this one alone (--two-way, two_way=True): "
            "every filled cell then overrules the store.",
        )
    return sheet.base


@dataclass(frozen=True)
class Since:
    """Both sides against the base; without one nothing is known of any pet."""

    base: Base | None
    vocabulary: Vocabulary

    def edited(self, rows: pd.DataFrame) -> align.Mask:
        """Which rows may say anything that the base does not; rows that it lacks do."""
        result = np.ones(len(rows), dtype=bool)
        if self.base is None or "id" not in rows:
            return result
        places = align.positions(rows["id"], self.base.frame)
        there = places >= 0
        result[there] = align.may_differ(rows[there], self.base.frame.iloc[places[there]])
        return result

    def pet(self, pet_id: int | None) -> Pet | None:
        """The pet as it was exported."""
        place = self._places.get(pet_id) if pet_id is not None else None
        if place is None or self.base is None:
            return None
        return pets_from_frame(self.base.frame.iloc[[place]])[0]

    def edits(self, old: Pet, said: Said) -> dict[Column, Any]:
        """What the row says and did not say when it was exported, each cell taken by itself: of a
        category's name and number only the edited one is meant.
        """
        return {
            column: value for column, value in said.items() if self._is_edit(old, column, value)
        }

    def _is_edit(self, old: Pet, column: Column, value: Any) -> bool:
        if column == "category":
            return normal(value) != normal(cell(old, column))
        if column == "category_id":
            return str(value) != cell(old, column)
        return bool(differing(old, merged(old, {column: value}, self.vocabulary)))

    def merge_tags(self, old: Pet, now: Pet, said: list[Tag]) -> list[Tag]:
        """The pet's tags now, without those that the row took away and with those it added."""
        meant = merged(old, {"tags": said}, self.vocabulary).tags
        had, has = set(map(tag_key, old.tags)), set(map(tag_key, meant))
        kept = [tag for tag in now.tags if tag_key(tag) not in had - has]
        there = set(map(tag_key, kept))
        return [*kept, *(tag for tag in meant if tag_key(tag) not in had | there)]

    def clashes(self, old: Pet, now: Pet, after: Pet, edits: Said) -> list[str]:
        """The edited fields that the store changed too, otherwise: with both sides' values."""
        edited = {pair for column in edits for pair in _together(column)} - {"tags"}
        moved = {pair for column in differing(old, now) for pair in _together(column)}
        return [
            f"{column} ({_both(cell(after, column), cell(now, column))})"
            for column in differing(now, after)
            if column in edited & moved and not same(now, after, column)
        ]

    @cached_property
    def _places(self) -> dict[int, int]:
        if self.base is None:
            return {}
        return {int(pet_id): place for place, pet_id in enumerate(self.base.frame["id"])}


def _together(column: Column) -> tuple[Column, ...]:
    return _CATEGORY if column in _CATEGORY else (column,)


def _both(sheet: str, store: str) -> str:
    """Both texts, from where they begin to differ if they are long."""
    if max(len(sheet), len(store)) <= _SHOWN:
        return f"sheet: {_shown(sheet, 0)}, store: {_shown(store, 0)}"
    pairs = enumerate(zip(sheet, store, strict=False))
    alike = next((n for n, (a, b) in pairs if a != b), min(len(sheet), len(store)))
    return f"sheet: {_shown(sheet, alike)}, store: {_shown(store, alike)}"


def _shown(text: str, alike: int) -> str:
    start = max(0, alike - _SHOWN // 4)
    part = " | ".join(text[start : start + _SHOWN].splitlines())
    cut = "…" if start else "", "…" if len(text) > start + _SHOWN else ""
    return f"'{cut[0]}{part}{cut[1]}'" if text else "nothing"
