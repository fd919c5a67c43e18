"""Editor: one pet's fields, and what a person changed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets

from petsync.model import Pet
from petsync.table.cells import format_photo_urls
from petsync.widgets.catalogue import tags_text

__all__ = ["Editor"]

_WIDE = {"width": "min(36rem, 100%)"}
_STYLE = {"description_width": "9rem"}
_NONE = "(none)"


class Editor:
    """A field for each column; `box` has them all. `changed` is what differs from the pet."""

    def __init__(self) -> None:
        self.name = ipywidgets.Text(description="Name", layout=_WIDE, style=_STYLE)
        self.status = ipywidgets.Dropdown(description="Status", layout=_WIDE, style=_STYLE)
        self.category = ipywidgets.Combobox(
            description="Category",
            placeholder="one that there is, or a new one",
            layout=_WIDE,
            style=_STYLE,
        )
        self.tags = ipywidgets.Text(
            description="Tags", placeholder="calm; old", layout=_WIDE, style=_STYLE
        )
        self.photo_urls = ipywidgets.Textarea(
            description="Picture addresses",
            placeholder="one a line",
            rows=3,
            layout=_WIDE,
            style=_STYLE,
        )
        self.check = ipywidgets.Button(
            description="Show what would change", button_style="primary", layout={"width": "auto"}
        )
        self.reset = ipywidgets.Button(description="As it was")
        self.box = ipywidgets.VBox(
            [
                self.name,
                self.status,
                self.category,
                self.tags,
                self.photo_urls,
                ipywidgets.HBox([self.check, self.reset]),
            ]
        )
        self._shown: dict[str, str] = {}

    def show(self, pet: Pet, statuses: Sequence[str], categories: Sequence[str]) -> None:
        """Show the pet as it is."""
        self._shown = _texts(pet)
        own = self._shown["status"]
        options = [name for name in dict.fromkeys((*statuses, own)) if name]
        self.status.options = [
            *(() if own else ((_NONE, ""),)),
            *((each, each) for each in options),
        ]
        self.category.options = list(categories)
        self.put_back()

    def put_back(self) -> None:
        """Show what the pet says, and forget what was typed."""
        for name, text in self._shown.items():
            getattr(self, name).value = text

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that a person changed, as AsyncStore.edit takes them."""
        now = {name: getattr(self, name).value for name in self._shown}
        return {name: text for name, text in now.items() if text != self._shown[name]}


def _texts(pet: Pet) -> dict[str, str]:
    """Each field as a cell has it."""
    return {
        "name": pet.name or "",
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": tags_text(pet),
        "photo_urls": format_photo_urls(pet.photo_urls),
    }
