"""BrowseForm: what happens when a person looks through the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets
import numpy as np

from petsync.diff.plan import Plan
from petsync.diff.snapshot import Snapshot, Unanswered
from petsync.errors import ApiError, NotFoundError, PetsyncError, SettingsError
from petsync.model import Pet
from petsync.store import Store
from petsync.widgets import form as forms
from petsync.widgets.browse import still
from petsync.widgets.browse.panel import NONE, SHOW_ALL, Panel
from petsync.widgets.catalogue import Catalogue, Places, row_of
from petsync.widgets.form import Form

if TYPE_CHECKING:
    from petsync.widgets.review import ReviewForm

__all__ = ["BrowseForm", "browse"]

_A_PAGE = 12


def browse(store: Store) -> BrowseForm:
    """A form that lists the store's pets by status, tags and text, shows their pictures, and
    changes one.

    As plain functions: `store.snapshot().frame`, and `plan = store.edit(7, status="sold")`, which
    shows what would change, then `store.apply(plan)`.
    """
    return BrowseForm(store)


class BrowseForm(Form):
    """Lists, shows one pet, and plans an edit of it, which the review form then sends. `catalogue`
    is what was read, `pet` the one that is open, `plan` and `review` those of its edit.
    """

    title = "Catalogue"

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.catalogue: Catalogue | None = None
        self.pet: Pet | None = None
        self.plan: Plan | None = None
        self.review: ReviewForm | None = None
        self._places: Places = np.empty(0, dtype=np.int64)
        self._panel: Panel | None = None

    def html(self) -> str:
        """The catalogue's numbers and its first pets."""
        return still.html(self.title, self._catalogue_now(), self._places)

    def text(self) -> str:
        """The same as plain text of at most 80 columns."""
        return still.text(self.title, self._catalogue_now(), self._places)

    def reload(self) -> None:
        """Read the store anew; returns at once."""
        if self._panel is not None:
            self._panel.loading()
        self.work.start(self.store.aio.snapshot(), self._read, self._unread)

    def open(self, pet_id: int) -> None:
        """Open a pet as it is in the store now; returns at once."""
        self._require_idle()
        self.work.start(self._pet(pet_id), self._open)

    def close(self) -> None:
        """Stop what is under way, and take the widgets away."""
        self._leave_review()
        super().close()
        self._panel = None

    # The widgets

    def _body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel(self.store, self.work)
        self.search, self.status, self.tags = panel.search, panel.status, panel.tags
        self.again, self.clear, self.table = panel.again, panel.clear, panel.table
        self.photos, self.editor = panel.photos.table, panel.editor
        guarded = self.work.guarded
        for field in (panel.search, panel.status, panel.tags):
            field.observe(guarded(lambda _: self._filter()), "value")
        panel.table.observe(guarded(lambda _: self._draw()), "page")
        panel.table.on_pick(guarded(lambda key: self.open(int(key))))
        panel.again.on_click(guarded(lambda _: self._read_again()))
        panel.clear.on_click(guarded(lambda _: self._clear()))
        panel.editor.check.on_click(guarded(lambda _: self._plan()))
        panel.editor.reset.on_click(guarded(lambda _: self._put_back()))
        self.reload()
        return panel.box

    # The list

    def _read_again(self) -> None:
        self.reload()
        # The button waits until that is done, and a button that waits loses the keyboard.
        self.heading.focus()

    def _read(self, snapshot: Snapshot) -> None:
        self.catalogue = Catalogue(snapshot)
        if self._panel is not None:
            self._panel.offer(self.catalogue)
        self._filter()
        if failed := snapshot.coverage.failed:
            asked = ", ".join(each.asked for each in failed)
            self.notice.warn(
                f"The pets of the status {asked} are missing: {failed[0].problem}",
                "Press Read again once the service answers.",
            )

    def _unread(self, error: PetsyncError) -> None:
        if self._panel is not None:
            self._panel.unread()
        self.fail(error)

    def _filter(self) -> None:
        if self.catalogue is None or self._panel is None:
            return
        self._places = self.catalogue.find(
            self._panel.search.value,
            statuses=self._panel.status.value,
            tags=self._panel.tags.value,
        )
        self._panel.found(len(self._places), len(self.catalogue), _A_PAGE)
        # The table tells how many fit; that none does is heard from here.
        if not len(self._places):
            self.tell(NONE, SHOW_ALL)
        elif self.notice.text == NONE:
            self.notice.clear()
        self._draw()

    def _draw(self) -> None:
        if self.catalogue is None or self._panel is None:
            return
        first = self._panel.table.page * _A_PAGE
        pets = self.catalogue.pets(self._places[first : first + _A_PAGE])
        self._panel.table.rows = [row_of(pet) for pet in pets]

    def _clear(self) -> None:
        assert self._panel is not None
        self._panel.clear_filters()
        self._filter()

    # One pet

    async def _pet(self, pet_id: int) -> Pet:
        found = (await self.store.aio.look_up([pet_id]))[pet_id]
        if isinstance(found, Unanswered):
            raise ApiError(f"pet {pet_id} could not be looked up: {found.problem}")
        if found is None:
            raise NotFoundError(
                f"pet {pet_id} is gone from the store",
                pet_id=pet_id,
                hint="Press Read again to see what is there now.",
            )
        return found

    def _open(self, pet: Pet) -> None:
        self._require_idle()
        self.notice.clear()
        self.pet, self.plan = pet, None
        self._leave_review()
        if self._panel is not None:
            statuses = self.store.aio.api.session.profile.statuses
            known = self.catalogue.statuses if self.catalogue is not None else ()
            categories = self.catalogue.categories if self.catalogue is not None else ()
            self._panel.open(pet, (*statuses, *known), categories)
            self._panel.whom.focus()

    def _require_idle(self) -> None:
        """Raise SettingsError while a change is on its way: leaving its review would stop it."""
        if self.review is not None and self.review.is_running:
            raise SettingsError(
                "the last change is under way", hint="Wait for its end, or stop it."
            )

    def _put_back(self) -> None:
        assert self._panel is not None
        self._require_idle()
        self._panel.editor.put_back()
        self._leave_review()

    # The edit

    def _plan(self) -> None:
        assert self._panel is not None
        self._require_idle()
        changed = self._panel.editor.changed
        if self.pet is None or self.pet.id is None:
            raise SettingsError("no pet is open", hint="Open one from the list.")
        if not changed:
            self._leave_review()
            self.tell("Nothing is changed yet.", "Write into a field above what is to be.")
            return
        self._panel.planning(is_under_way=True)
        snapshot = None if self.catalogue is None else self.catalogue.snapshot
        work = self.store.aio.edit(self.pet.id, seen=self.pet, snapshot=snapshot, **changed)
        self.work.start(work, self._review, self._unplanned)

    def _unplanned(self, error: PetsyncError) -> None:
        if self._panel is not None:
            self._panel.planning(is_under_way=False)
            self._panel.whom.focus()
        self._leave_review()
        self.fail(error)

    def _review(self, plan: Plan) -> None:
        from petsync.widgets.review import review

        self.notice.clear()
        self._leave_review()
        self.plan = plan
        if self._panel is None:
            return
        self._panel.planning(is_under_way=False)
        if plan.in_sync:
            self.tell("The store says so already: there is nothing to change.")
            self._panel.whom.focus()
            return
        self.review = review(plan, self.store)
        self.review.on_report(self.work.guarded(self._applied))
        self._panel.show_review(self.review)
        self.review.heading.focus()

    def _applied(self, _: Any) -> None:
        """After a run, also one that takes it back, the pet and the list are read anew."""
        if self.pet is not None and self.pet.id is not None:
            self.work.start(self._pet(self.pet.id), self._reopened)
        self.reload()

    def _reopened(self, pet: Pet) -> None:
        self.pet = pet
        if self._panel is not None:
            known = () if self.catalogue is None else self.catalogue.categories
            statuses = self.store.aio.api.session.profile.statuses
            self._panel.open(pet, statuses, known)

    def _leave_review(self) -> None:
        review, self.review = self.review, None
        if self._panel is not None:
            self._panel.show_review(None)
        if review is not None:
            review.close()

    def _catalogue_now(self) -> Catalogue | PetsyncError | None:
        """What was read; read now where nobody has, and nobody waits for the cell."""
        if self.catalogue is not None or forms.is_live():
            return self.catalogue
        try:
            self.catalogue = Catalogue(self.store.snapshot())
        except PetsyncError as error:
            return error
        self._places = self.catalogue.find()
        return self.catalogue
