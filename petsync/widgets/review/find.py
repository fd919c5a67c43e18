"""Finder: which of a draft's changes a person wants to see."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from petsync.diff.change import Change
from petsync.diff.fields import cell
from petsync.diff.units import UNITS
from petsync.widgets.review.draft import KINDS, Draft, Numbers

__all__ = ["ANY", "Finder"]

ANY = ""
"""What a filter is set to that lets everything through."""


class Finder:
    """Finds changes by what they do, what they change, whether they are sent, and by text."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def numbers(self, *, action: str, field: str, sent: str, text: str) -> Numbers:
        """The places of the changes for which all holds; `sent` is "in" or "out"."""
        draft = self._draft
        mask = np.ones(len(draft.ticked), dtype=bool)
        if action:
            mask &= draft.kinds == KINDS.index(action)
        if field:
            mask &= (draft.units & (1 << UNITS.index(field))) > 0
        if sent:
            mask &= draft.ticked == (sent == "in")
        numbers = np.flatnonzero(mask)
        wanted = text.casefold().strip()
        if not wanted:
            return numbers
        texts = self._texts
        return np.array([n for n in numbers.tolist() if wanted in texts[n]], dtype=np.intp)

    @cached_property
    def _texts(self) -> list[str]:
        return [_text(change).casefold() for change in self._draft.plan.changes]


def _text(change: Change) -> str:
    """All that a person may look for: id, name, address, and what is there before and after."""
    pets = [pet for pet in (change.before, change.after) if pet is not None]
    parts = ["" if change.pet_id is None else str(change.pet_id), change.source]
    parts += [pet.name or "" for pet in pets]
    fields = change.fields or ("status", "category", "tags", "photo_urls")
    parts += [cell(pet, field) for pet in pets for field in fields if field not in ("id", "name")]
    return "\n".join(parts)
