"""Drift: pets in the store that break the user's own rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from petsync._display import count
from petsync.plan.change import Change
from petsync.table.arrow import rows_from_pets
from petsync.table.frame import has_id_in, ids_of, join_rows, select
from petsync.table.rules import SheetRule, describe
from petsync.table.violations import columns_of_frame, evaluate

__all__ = ["Drift", "find_drift", "iter_drift_notes"]


_NAMED = 100
"""The maximum number of pets that a note names."""


class Drift(NamedTuple):
    """The pets that break a rule, by id: those that break it after the changes too, and those that
    the changes correct or delete.
    """

    rule: SheetRule
    ids: tuple[int, ...]
    corrected: tuple[int, ...]

    @property
    def problem(self) -> str:
        """What is wrong with the pets, in one sentence."""
        return f"rule {self.rule.name}: {describe(self.rule)}"


def find_drift(
    rules: Iterable[SheetRule], pets: pd.DataFrame, changes: Collection[Change] = ()
) -> Iterator[Drift]:
    """Yield each rule that pets of the store break, with their ids in the order of `pets`."""
    broken_rules = [(rule, ids) for rule in rules if (ids := _find_broken(rule, pets))]
    later = _apply(pets, changes) if broken_rules and changes else pets
    for rule, broken in broken_rules:
        after = {*(broken if later is pets else _find_broken(rule, later))}
        left = tuple(each for each in broken if each in after)
        yield Drift(rule, left, tuple(each for each in broken if each not in after))


def _find_broken(rule: SheetRule, pets: pd.DataFrame) -> list[int]:
    found = evaluate(rule, columns_of_frame(pets), np.ones(len(pets), dtype=bool))
    return ids_of(select(pets, found.rows))


def _apply(pets: pd.DataFrame, changes: Collection[Change]) -> pd.DataFrame:
    """Return the pets after these changes."""
    changed = {each.pet_id for each in changes if each.before is not None}
    new = [each.after for each in changes if each.after is not None]
    kept = select(pets, ~has_id_in(pets, changed))
    return join_rows([kept, rows_from_pets(new)])


def iter_drift_notes(
    rules: Sequence[SheetRule],
    pets: pd.DataFrame,
    changes: Collection[Change],
    *,
    is_partial: bool = False,
) -> Iterator[str]:
    """Yield a note on each rule that pets of the store break. If the snapshot `is_partial`, because
    the sheet is compared in parts or only single pets were read, no rule can be applied.
    """
    if is_partial:
        for rule in rules:
            yield (
                f"The rule {rule.name} was not applied to the store, because this comparison does "
                "not have all of its pets."
            )
        return
    for rule, ids, corrected in find_drift(rules, pets, changes):
        text = f"The rule {rule.name} ({describe(rule).rstrip('.')})"
        if ids:
            yield f"{text} is broken in the store by {_name_pets(ids)}."
        if corrected:
            pets_corrected = _name_pets(corrected)
            yield f"{text} is broken in the store by {pets_corrected}; the plan corrects this."


def _name_pets(ids: Sequence[int]) -> str:
    more = len(ids) - _NAMED
    shown = ", ".join(map(str, ids[:_NAMED]))
    return f"{count(len(ids), 'pet')}: {shown}" + (f" and {more:,} more" if more > 0 else "")
