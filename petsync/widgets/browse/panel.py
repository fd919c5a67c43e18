"""Panel: a catalogue's widgets, and how they show what is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ipywidgets

from petsync.model import Pet
from petsync.render.markup import capital
from petsync.render.pictures_words import of_pet
from petsync.render.visible import shorten
from petsync.render.words import count
from petsync.store import Store
from petsync.widgets.browse.editor import Editor
from petsync.widgets.catalogue import COLUMNS, Catalogue
from petsync.widgets.parts.heading import Heading
from petsync.widgets.parts.table import Table
from petsync.widgets.photos import Photos
from petsync.widgets.work import Work

if TYPE_CHECKING:
    from petsync.widgets.form import Form

__all__ = ["NONE", "SHOW_ALL", "Panel"]

NONE, SHOW_ALL = "No pet fits.", "Press Show all to begin anew."
_MOST_TAGS = 500
_READING = "The store is read …"
_STYLE = {"description_width": "initial"}


class Panel:
    """The filters, the list, and the pet that is open with its pictures, its fields and the review
    of its change; `box` has all.
    """

    def __init__(self, store: Store, work: Work) -> None:
        self.search = ipywidgets.Text(
            description="Search, then Enter",
            placeholder="name, id, category or tag",
            continuous_update=False,
            layout={"width": "min(30rem, 100%)"},
            style=_STYLE,
        )
        self.status = _several("Status")
        self.tags = _several("Tags")
        self.clear = ipywidgets.Button(description="Show all")
        self.again = ipywidgets.Button(description="Read again")
        self.table = Table(
            columns=COLUMNS, caption="Pets", empty="The store is read …", pick="Open"
        )
        self.photos, self.editor = Photos(store, work), Editor()
        self.whom = Heading(level=4)
        self.pet = ipywidgets.VBox([self.whom, self.photos.table, self.editor.box])
        # A region of its own, named by its heading.
        self.pet.add_class("petsync-form")
        self.pet.layout.display = "none"
        self.review = ipywidgets.VBox([])
        filters = [self.status, self.tags, ipywidgets.VBox([self.clear, self.again])]
        self.box = ipywidgets.VBox(
            [
                self.search,
                ipywidgets.HBox(filters, layout={"flex_flow": "row wrap"}),
                self.table,
                self.pet,
                self.review,
            ]
        )

    def loading(self) -> None:
        """Show that the store is being read."""
        self.again.disabled = True
        self.table.empty = _READING

    def unread(self) -> None:
        """Show that the store could not be read."""
        self.again.disabled = False
        self.table.empty = "The store could not be read."

    def offer(self, catalogue: Catalogue) -> None:
        """Offer the statuses and tags that there are; what is chosen of them stays so."""
        self.again.disabled = False
        for field, names in ((self.status, catalogue.statuses), (self.tags, catalogue.tags)):
            offered = list(names[:_MOST_TAGS])
            chosen = [name for name in field.value if name in offered]
            field.options = offered
            field.value = chosen

    def found(self, total: int, of: int, a_page: int) -> None:
        """Show how many pets fit, and the first page of them."""
        with self.table.hold_sync():
            self.table.empty = f"{NONE} {SHOW_ALL}"
            self.table.caption = (
                f"{count(total, 'pet')} of {of:,}" if total < of else (count(of, "pet"))
            )
            self.table.total, self.table.pages = total, max(1, -(-total // a_page))
            self.table.page = min(self.table.page, self.table.pages - 1)

    def clear_filters(self) -> None:
        """Choose nothing."""
        self.search.value, self.status.value, self.tags.value = "", (), ()

    def open(self, pet: Pet, statuses: Sequence[str], categories: Sequence[str]) -> None:
        """Show one pet."""
        self.pet.layout.display = None
        self.whom.text = capital(shorten(of_pet(pet.id, pet.name or ""), 100))
        self.photos.show(pet)
        self.editor.show(pet, statuses, categories)

    def planning(self, *, is_under_way: bool) -> None:
        """Show whether a change is being planned."""
        self.editor.check.disabled = is_under_way

    def show_review(self, form: Form | None) -> None:
        """Show the review of a change, or none."""
        self.review.children = () if form is None else (form.widget,)


def _several(label: str) -> ipywidgets.SelectMultiple:
    return ipywidgets.SelectMultiple(
        description=label, rows=4, layout={"width": "min(18rem, 100%)"}, style=_STYLE
    )
