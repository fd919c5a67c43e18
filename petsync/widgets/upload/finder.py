"""Finder: picks one pet, by its name or its id."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import numpy as np

from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.errors import ApiError, NotFoundError
from petsync.model import Pet
from petsync.store import Store
from petsync.table.cells import CellError, parse_id
from petsync.widgets.catalogue import COLUMNS, Catalogue, Places, row_of
from petsync.widgets.parts.notice import Notice
from petsync.widgets.parts.table import Table
from petsync.widgets.work import Work

__all__ = ["Finder"]

_A_PAGE = 6
_CAPTION = "Pets that fit"
_NONE = "No pet has this in its name, or as its id."


class Finder:
    """A field, and below it the pets that fit; `box` has both. `chosen` is called with the pet that
    a person picks. The store is read when something is looked for first.
    """

    def __init__(
        self, store: Store, work: Work, chosen: Callable[[Pet], object], notice: Notice
    ) -> None:
        self._store, self._work, self._chosen, self._notice = store, work, chosen, notice
        self._catalogue: Catalogue | None = None
        self._places: Places = np.empty(0, dtype=np.int64)
        wide = ipywidgets.Layout(width="min(30rem, 100%)")
        given = {"description_width": "initial"}
        self.search = ipywidgets.Text(
            description="Pet, by name or id",
            placeholder="Bella, or 1001",
            continuous_update=False,
            layout=wide,
            style=given,
        )
        self.find = ipywidgets.Button(description="Find")
        columns = [column for column in COLUMNS if column["key"] != "tags"]
        self.table = Table(columns=columns, caption=_CAPTION, pick="Choose")
        self.table.layout.display = "none"
        self.box = ipywidgets.VBox([ipywidgets.HBox([self.search, self.find]), self.table])
        self.search.observe(work.guarded(lambda _: self.look()), "value")
        self.find.on_click(work.guarded(lambda _: self.look()))
        self.table.observe(work.guarded(lambda _: self._draw()), "page")
        self.table.on_pick(work.guarded(self._pick))

    def look(self) -> None:
        """Show the pets that fit what is typed; returns at once."""
        text = self.search.value.strip()
        self.table.layout.display = None if text else "none"
        if not text:
            self._show(np.empty(0, dtype=np.int64))
        elif self._catalogue is None:
            self.table.empty = "The store is read …"
            self._work.start(self._store.aio.snapshot(), self._read, self._unread)
        else:
            self._found(text)

    def by_id(self, pet_id: int) -> None:
        """Choose the pet of this id, whatever its status; returns at once."""
        self._work.start(self._pet(pet_id), self._chosen)

    def forget(self) -> None:
        """Read the store anew before anything is looked for again."""
        self._catalogue = None

    async def _pet(self, pet_id: int) -> Pet:
        found = (await self._store.aio.look_up([pet_id]))[pet_id]
        if isinstance(found, Unanswered):
            raise ApiError(f"pet {pet_id} could not be looked up: {found.problem}")
        if found is None:
            raise NotFoundError(
                f"the store has no pet {pet_id}", pet_id=pet_id, hint="Is the number right?"
            )
        return found

    def _read(self, snapshot: Snapshot) -> None:
        self._catalogue = Catalogue(snapshot)
        self.look()

    def _unread(self, error: Exception) -> None:
        self.table.empty = "The store could not be read."
        raise error

    def _found(self, text: str) -> None:
        assert self._catalogue is not None
        places = self._catalogue.find(text, names_only=True)
        self._show(places)
        number = _number(text)
        if number is not None and self._catalogue.pet(number) is None:
            # A pet whose status no query asks for is found by its id alone.
            self._work.start(self._store.aio.look_up([number]), self._found_by_id)
        else:
            self._say(len(places))

    def _found_by_id(self, found: dict[int, Pet | Unanswered | None]) -> None:
        for pet in found.values():
            if isinstance(pet, Pet) and _number(self.search.value) == pet.id:
                self.table.rows = [row_of(pet), *self.table.rows]
                self.table.total += 1
        self._say(self.table.total)

    def _say(self, found: int) -> None:
        """Have it heard that nothing fits; the table tells how many do."""
        if not found:
            self._notice.say(_NONE)
        elif self._notice.text == _NONE:
            self._notice.clear()

    def _show(self, places: Places) -> None:
        self._places = places
        with self.table.hold_sync():
            self.table.empty = _NONE
            self.table.total = len(places)
            self.table.pages = max(1, -(-len(places) // _A_PAGE))
            self.table.page = 0
            self._draw()

    def _draw(self) -> None:
        if self._catalogue is None:
            self.table.rows = []
            return
        first = self.table.page * _A_PAGE
        pets = self._catalogue.pets(self._places[first : first + _A_PAGE])
        self.table.rows = [row_of(pet) for pet in pets]

    def _pick(self, key: str) -> None:
        self.by_id(int(key))


def _number(text: str) -> int | None:
    try:
        return parse_id(text)
    except CellError:
        return None
