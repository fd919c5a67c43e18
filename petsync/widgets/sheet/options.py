"""Options: how sheet and store are compared, in plain words."""

from __future__ import annotations

from typing import Any

import ipywidgets

from petsync.render.markup import capital, element, text
from petsync.table.sheet import Sheet

__all__ = ["Options"]

_ROWS = (
    ("are new pets", ()),
    ("mean the one pet with that name", ("name",)),
    ("mean the one pet with that name and category", ("name", "category")),
)
_CONFLICT = (
    ("Keep the store's value, until I decide otherwise in the review", "store"),
    ("Send the sheet's value", "sheet"),
)
_MISSING = (
    "With a tick, every pet of the store that no row names is to be deleted. Without one, none is: "
    "a pet is deleted only where its row says so in the column action. The review shows each "
    "deletion before anything happens, and the guard refuses more than a tenth of the store."
)
_TWO_WAY = (
    "The sheet knows what was exported, so cells that nobody edited say nothing, and what others "
    "changed in the store stays. With a tick, every filled cell counts."
)
_NO_BASE = "This sheet does not know what was exported: every filled cell counts."


class Options:
    """The options of a plan, and `box`, which has them all."""

    def __init__(self) -> None:
        self.rows = ipywidgets.Dropdown(options=_ROWS, value=(), description="Rows without an id")
        self.missing = _tick("Delete the pets that no row of the sheet names")
        self.two_way = _tick("Compare with the store alone")
        self.conflict = ipywidgets.RadioButtons(
            options=_CONFLICT, value="store", description="Where both changed a field"
        )
        self._base = ipywidgets.HTML()
        self.box = ipywidgets.VBox(
            [
                self.rows,
                self.missing,
                ipywidgets.HTML(_small(_MISSING)),
                self.two_way,
                self._base,
                self.conflict,
            ]
        )

    def show(self, sheet: Sheet) -> None:
        """Offer what this sheet can be compared by."""
        carries = sheet.base is not None
        self.two_way.disabled = not carries and not sheet.base_refused
        self.conflict.disabled = not carries
        if not carries and not sheet.base_refused:
            self.two_way.value = False
        self._base.value = _small(_base(sheet))

    @property
    def chosen(self) -> dict[str, Any]:
        """The arguments of `store.plan`."""
        return {
            "delete_missing": self.missing.value,
            "match_on": self.rows.value,
            "two_way": self.two_way.value,
            "on_conflict": self.conflict.value,
        }


def _base(sheet: Sheet) -> str:
    if sheet.base_refused:
        return f"{capital(sheet.base_refused)}. With a tick, this sheet is compared all the same."
    return _TWO_WAY if sheet.base is not None else _NO_BASE


def _small(words: str) -> str:
    return element("p", text(words), class_="ps-hint")


def _tick(words: str) -> ipywidgets.Checkbox:
    # Without `indent` a tick box stands at the left, and its label has all the room it needs.
    return ipywidgets.Checkbox(
        value=False, description=words, indent=False, layout={"width": "auto"}
    )
