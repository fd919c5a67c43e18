"""The catalogue form: browse pets, see photos, and edit one pet."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ipywidgets
import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from petsync import _display
from petsync.errors import ApiError, NotFoundError, PetsyncError, SettingsError
from petsync.images.inspect import thumbnail
from petsync.models import Pet, Tag
from petsync.plan.change import FailedLookup, Snapshot
from petsync.plan.plan import Plan
from petsync.report import html as markup
from petsync.report.html import capital
from petsync.report.images import format_pet
from petsync.report.words import count, number, shorten, wrap
from petsync.store import Store
from petsync.table.cells import format_photo_urls, format_tags, make_visible
from petsync.table.frame import pets_at
from petsync.widgets import form as forms
from petsync.widgets.components import Heading, Table
from petsync.widgets.form import Form, Work

if TYPE_CHECKING:
    from petsync.widgets.review import ReviewForm

__all__ = [
    "COLUMNS",
    "NONE",
    "SHOW_ALL",
    "BrowseForm",
    "Catalogue",
    "Editor",
    "Panel",
    "Photos",
    "Places",
    "browse",
    "html",
    "row_of",
    "tags_text",
    "text",
]


# Catalogue: a snapshot to search by text, status and tags.


Places = npt.NDArray[np.int64]
COLUMNS: list[dict[str, Any]] = [
    {"key": "name", "title": "Name"},
    {"key": "id", "title": "Id"},
    {"key": "status", "title": "Status"},
    {"key": "category", "title": "Category"},
    {"key": "tags", "title": "Tags"},
    {"key": "photos", "title": "Pictures", "kind": "number"},
]
"""The columns of a table of pets."""


class Catalogue:
    """The pets of a snapshot. `Places` are positions of pets in it, counted from 0."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __len__(self) -> int:
        return len(self.snapshot)

    def find(
        self,
        text: str = "",
        *,
        statuses: Collection[str] = (),
        tags: Collection[str] = (),
        names_only: bool = False,
    ) -> Places:
        """Return the positions of the pets with one of the statuses, one of the tags, and every
        word of the text. A word matches the id or part of the name; unless `names_only`, it also
        matches part of the category, tags or status. A pet whose id equals the text comes first.
        """
        mask = np.ones(len(self), dtype=bool)
        if statuses:
            mask &= self.snapshot.frame["status"].isin(list(statuses)).to_numpy()
        if tags:
            selected_tags = frozenset(tags)
            mask &= np.array(
                [not selected_tags.isdisjoint(names) for names in self._tags], dtype=bool
            )
        texts = self._names if names_only else self._texts
        for word in _fold_case(text).split():
            mask &= np.array([word in each for each in texts], dtype=bool) | self._has_id(word)
        found = np.flatnonzero(mask)
        first = self._has_id(text.strip())[found]
        return np.concatenate([found[first], found[~first]])

    def pets(self, places: Places) -> list[Pet]:
        """The pets at these positions."""
        return pets_at(self.snapshot.frame, places)

    def pet(self, pet_id: int) -> Pet | None:
        """The pet with this id, None if the snapshot has none."""
        found = self.pets(np.flatnonzero(self._has_id(str(pet_id))))
        return found[0] if found else None

    @cached_property
    def statuses(self) -> Sequence[str]:
        """The statuses of the pets, the most frequent first."""
        return [name for name, _ in Counter(self._column("status")).most_common() if name]

    @cached_property
    def tags(self) -> Sequence[str]:
        """The tags of the pets, the most frequent first."""
        counts = Counter(name for names in self._tags for name in names)
        return [name for name, _ in counts.most_common() if name]

    @cached_property
    def categories(self) -> Sequence[str]:
        """The categories of the pets, the most frequent first."""
        return [name for name, _ in Counter(self._column("category")).most_common() if name]

    @cached_property
    def _tags(self) -> list[frozenset[str]]:
        return [
            frozenset(tag.name for tag in tags if tag.name) for tags in self.snapshot.frame["tags"]
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [_fold_case(name) for name in self._column("name")]

    @cached_property
    def _texts(self) -> list[str]:
        columns = zip(
            self._names,
            self._column("category"),
            self._column("status"),
            self._tags,
            strict=True,
        )
        return [
            _fold_case("\n".join((name, category, status, *sorted(tags))))
            for name, category, status, tags in columns
        ]

    def _has_id(self, word: str) -> npt.NDArray[np.bool_]:
        ids = self.snapshot.frame["id"]
        digits = word.removeprefix("-")
        # A longer number is not an id, and cannot be compared with the column.
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            return np.zeros(len(self), dtype=bool)
        number = int(word)
        if not -(2**63) <= number < 2**63:
            return np.zeros(len(self), dtype=bool)
        return (ids == number).fillna(False).to_numpy(dtype=bool)

    def _column(self, name: str) -> list[str]:
        values: list[str] = self.snapshot.frame[name].fillna("").tolist()
        return values


def row_of(pet: Pet) -> dict[str, Any]:
    """Return the pet as a row of a table."""
    cells = {
        "name": pet.name or "",
        "id": str(pet.id),
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": tags_text(pet),
        "photos": len(pet.photo_urls),
    }
    return {"key": str(pet.id), "label": f"{pet.name or 'pet'} ({pet.id})", "cells": cells}


def tags_text(pet: Pet) -> str:
    """Return the pet's tags as the text of a cell, without ids if the names are unique: a tag that
    is edited by its name keeps its id.
    """
    names = [tag.name for tag in pet.tags]
    if all(names) and len(set(map(_fold_case, filter(None, names)))) == len(names):
        return format_tags(Tag(None, name) for name in names)
    return format_tags(pet.tags)


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


# Editor: one pet's fields, and the user's changes.


_WIDE = {"width": "min(36rem, 100%)"}
_EDITOR_STYLE = {"description_width": "9rem"}
_NONE = "(none)"


class Editor:
    """A field for each column, in `box`. `changed` has the fields that differ from the pet."""

    def __init__(self) -> None:
        self.name = ipywidgets.Text(description="Name", layout=_WIDE, style=_EDITOR_STYLE)
        self.status = ipywidgets.Dropdown(description="Status", layout=_WIDE, style=_EDITOR_STYLE)
        self.category = ipywidgets.Combobox(
            description="Category",
            placeholder="an existing or a new one",
            layout=_WIDE,
            style=_EDITOR_STYLE,
        )
        self.tags = ipywidgets.Text(
            description="Tags", placeholder="calm; old", layout=_WIDE, style=_EDITOR_STYLE
        )
        self.photo_urls = ipywidgets.Textarea(
            description="Picture addresses",
            placeholder="one per line",
            rows=3,
            layout=_WIDE,
            style=_EDITOR_STYLE,
        )
        self.check = ipywidgets.Button(
            description="Show what would change", button_style="primary", layout={"width": "auto"}
        )
        self.reset = ipywidgets.Button(description="Reset")
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
        """Show the pet."""
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
        """Discard the input, and show the pet's values."""
        for name, text in self._shown.items():
            getattr(self, name).value = text

    @property
    def changed(self) -> dict[str, Any]:
        """The changed fields, as arguments of AsyncStore.edit."""
        now = {name: getattr(self, name).value for name in self._shown}
        return {name: text for name, text in now.items() if text != self._shown[name]}


def _texts(pet: Pet) -> dict[str, str]:
    """Return the text of each of the pet's fields, as in a cell."""
    return {
        "name": pet.name or "",
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": tags_text(pet),
        "photo_urls": format_photo_urls(pet.photo_urls),
    }


# Photos: the pictures of a pet. Only the service's own pictures are fetched. Of others, only the
# address is shown, because anybody may have written it.


_PHOTOS_A_PAGE = 6
_AT_A_TIME = 3
_LONGEST = 200
_PHOTO_COLUMNS = [
    {"key": "picture", "title": "Picture", "kind": "image"},
    {"key": "address", "title": "Address", "kind": "link"},
]


class Photos:
    """A pet's photos in a table, `table`, which is filled page by page."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store, self._work = store, work
        self._urls: tuple[str, ...] = ()
        self._sources: dict[str, str] = {}
        self._turn = 0
        self.table = Table(columns=_PHOTO_COLUMNS, empty="This pet has no pictures.")
        self.table.observe(work.wrap_callback(lambda _: self._show()), "page")

    def show(self, pet: Pet | None) -> None:
        """Show the pet's photos, or none."""
        self._urls = () if pet is None else pet.photo_urls
        self._sources = {
            url: source for url, source in self._sources.items() if source.startswith("data:")
        }
        name = "" if pet is None else shorten(format_pet(pet.id, pet.name or ""), 100)
        with self.table.hold_sync():
            self.table.caption = f"Pictures of {name}" if name else ""
            self.table.total = len(self._urls)
            self.table.pages = max(1, -(-len(self._urls) // _PHOTOS_A_PAGE))
            self.table.page = 0
        self._show()

    def _show(self) -> None:
        self._turn += 1
        turn, urls = self._turn, self._page()
        self._draw()
        unknown = [url for url in urls if url not in self._sources and self._store.serves(url)]
        if unknown:
            self._work.start(self._fetch(unknown), lambda sources: self._take(turn, sources))

    def _page(self) -> list[str]:
        first = self.table.page * _PHOTOS_A_PAGE
        return list(self._urls[first : first + _PHOTOS_A_PAGE])

    def _draw(self) -> None:
        self.table.rows = [self._row(n, url) for n, url in enumerate(self._page())]

    def _row(self, number: int, url: str) -> dict[str, Any]:
        place = self.table.page * _PHOTOS_A_PAGE + number + 1
        source = self._sources.get(url)
        picture: dict[str, str] | str = "on another server, not fetched"
        if source is not None and source.startswith("data:"):
            picture = {"src": source, "alt": f"Picture {place}"}
        elif self._store.serves(url):
            picture = "fetching …" if source is None else source
        address = {"href": url, "text": shorten(url, _LONGEST)}
        return {
            "key": str(place),
            "label": f"picture {place}",
            "cells": {"picture": picture, "address": address},
        }

    async def _fetch(self, urls: list[str]) -> dict[str, str]:
        gate = asyncio.Semaphore(_AT_A_TIME)

        async def one(url: str) -> str:
            async with gate:
                try:
                    content = await self._store.aio.photo(url)
                except PetsyncError as error:
                    return f"cannot be shown: {error.message}"
                small = await asyncio.to_thread(thumbnail, content)
                return small or "cannot be shown: it is not a complete picture"

        return dict(zip(urls, await asyncio.gather(*map(one, urls)), strict=True))

    def _take(self, turn: int, sources: dict[str, str]) -> None:
        self._sources |= sources
        if turn == self._turn:
            self._draw()


# Panel: the widgets of a catalogue.


NONE, SHOW_ALL = "No pet matches.", "Press Show all to start again."
_MAX_TAGS = 500
_READING = "Reading the store …"
_PANEL_STYLE = {"description_width": "initial"}


class Panel:
    """The filters, the list, and the open pet with its pictures, its fields and the review of its
    change; `box` contains all of them.
    """

    def __init__(self, store: Store, work: Work) -> None:
        self.search = ipywidgets.Text(
            description="Search, then Enter",
            placeholder="name, id, category or tag",
            continuous_update=False,
            layout={"width": "min(30rem, 100%)"},
            style=_PANEL_STYLE,
        )
        self.status = _several("Status")
        self.tags = _several("Tags")
        self.clear = ipywidgets.Button(description="Show all")
        self.again = ipywidgets.Button(description="Read again")
        self.table = Table(columns=COLUMNS, caption="Pets", empty=_READING, pick="Open")
        self.photos, self.editor = Photos(store, work), Editor()
        self.whom = Heading(level=4)
        self.pet = ipywidgets.VBox([self.whom, self.photos.table, self.editor.box])
        # The open pet is a separate region, named by its heading.
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

    def show_failure(self) -> None:
        """Show that the store could not be read."""
        self.again.disabled = False
        self.table.empty = "The store could not be read."

    def offer(self, catalogue: Catalogue) -> None:
        """Offer the existing statuses and tags; the selection stays."""
        self.again.disabled = False
        for field, names in ((self.status, catalogue.statuses), (self.tags, catalogue.tags)):
            offered = list(names[:_MAX_TAGS])
            chosen = [name for name in field.value if name in offered]
            field.options = offered
            field.value = chosen

    def show_matches(self, total: int, of: int, a_page: int) -> None:
        """Show how many pets match, and their first page."""
        with self.table.hold_sync():
            self.table.empty = f"{NONE} {SHOW_ALL}"
            self.table.caption = (
                f"{count(total, 'pet')} of {of:,}" if total < of else (count(of, "pet"))
            )
            self.table.total, self.table.pages = total, max(1, -(-total // a_page))
            self.table.page = min(self.table.page, self.table.pages - 1)

    def clear_filters(self) -> None:
        """Clear all filters."""
        self.search.value, self.status.value, self.tags.value = "", (), ()

    def open(self, pet: Pet, statuses: Sequence[str], categories: Sequence[str]) -> None:
        """Show one pet."""
        self.pet.layout.display = None
        self.whom.text = capital(shorten(format_pet(pet.id, pet.name or ""), 100))
        self.photos.show(pet)
        self.editor.show(pet, statuses, categories)

    def show_planning(self, *, is_under_way: bool) -> None:
        """Show whether a change is being planned."""
        self.editor.check.disabled = is_under_way

    def show_review(self, form: Form | None) -> None:
        """Show the review of a change, or none."""
        self.review.children = () if form is None else (form.widget,)


def _several(label: str) -> ipywidgets.SelectMultiple:
    return ipywidgets.SelectMultiple(
        description=label, rows=4, layout={"width": "min(18rem, 100%)"}, style=_PANEL_STYLE
    )


# The static view of a catalogue: its numbers, and the first pets.


_MAX_PETS = 10
_CODE = 'store.snapshot().frame; plan = store.edit(7, status="sold"); store.apply(plan)'
_HOW = "In a live notebook this is a form. In plain Python:"
_UNREAD = "The store has not been read yet."
_PET_COLUMNS = {
    "Id": "id",
    "Name": "name",
    "Status": "status",
    "Category": "category",
    "Tags": "tags",
}
_WIDTHS = {"id": 8, "name": 22, "status": 10, "category": 12, "tags": 20}


def html(title: str, catalogue: Catalogue | PetsyncError | None, places: Places) -> str:
    """The form as an HTML fragment."""
    parts = [markup.element("h3", markup.text(title))]
    if not isinstance(catalogue, Catalogue):
        parts += [markup.element("p", markup.text(line)) for line in _iter_reasons(catalogue)]
    else:
        pets = catalogue.pets(places[:_MAX_PETS])
        table = markup.table(list(_PET_COLUMNS), map(_row, pets)) + _more(len(places) - len(pets))
        parts += [_display.as_html(catalogue.snapshot), markup.fragment([table])]
    code = markup.element("code", markup.text(_CODE))
    return "\n".join([*parts, markup.element("p", f"{markup.text(_HOW)} {code}")])


def text(title: str, catalogue: Catalogue | PetsyncError | None, places: Places) -> str:
    """The form as plain text of at most 80 columns."""
    lines = [title]
    if not isinstance(catalogue, Catalogue):
        lines += [line for reason in _iter_reasons(catalogue) for line in wrap(reason, 80)]
    else:
        pets = catalogue.pets(places[:_MAX_PETS])
        lines += [
            _display.as_text(catalogue.snapshot),
            "",
            _line({v: k for k, v in _PET_COLUMNS.items()}),
        ]
        lines += [_line(row_of(pet)["cells"]) for pet in pets]
        lines += [f"... and {number(more)} more"] if (more := len(places) - len(pets)) else []
    return "\n".join([*lines, "", _HOW, f"  {_CODE}"])


def _iter_reasons(problem: PetsyncError | None) -> list[str]:
    if problem is None:
        return [_UNREAD]
    return [line for line in (problem.message, problem.hint) if line]


def _row(pet: Pet) -> str:
    cells = row_of(pet)["cells"]
    return markup.element(
        "tr", "".join(markup.table_cell(cells[key]) for key in _PET_COLUMNS.values())
    )


def _line(cells: dict[str, str]) -> str:
    parts = (shorten(make_visible(cells[key]), width) for key, width in _WIDTHS.items())
    return "  ".join(
        part + " " * (width - cell_len(part))
        for part, width in zip(parts, _WIDTHS.values(), strict=True)
    ).rstrip()


def _more(total: int) -> str:
    return markup.element("p", f"... and {number(total)} more") if total else ""


# BrowseForm: the form for the catalogue.


_PETS_A_PAGE = 12


def browse(store: Store) -> BrowseForm:
    """Return a form that finds the store's pets by status, tags and text, shows their pictures,
    and edits one pet.

    Without the form, `store.snapshot().frame` has the pets. To edit one, call
    `plan = store.edit(7, status="sold")`, which shows what would change, and then
    `store.apply(plan)`.
    """
    return BrowseForm(store)


class BrowseForm(Form):
    """Lists pets, shows one, and plans an edit of it, which the review form applies. `catalogue` is
    the snapshot, `pet` the open pet, and `plan` and `review` belong to its edit.
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
        """The catalogue's summary and its first pets, as HTML."""
        return html(self.title, self._catalogue_now(), self._places)

    def text(self) -> str:
        """The catalogue as plain text of at most 80 columns."""
        return text(self.title, self._catalogue_now(), self._places)

    def reload(self) -> None:
        """Read the store again; returns at once."""
        if self._panel is not None:
            self._panel.loading()
        self.work.start(self.store.aio.snapshot(), self._show_snapshot, self._show_read_error)

    def open(self, pet_id: int) -> None:
        """Read a pet and open it; returns at once."""
        self._require_idle()
        self.work.start(self._pet(pet_id), self._open)

    def close(self) -> None:
        """Stop the work, and remove the widgets."""
        self._leave_review()
        super().close()
        self._panel = None

    # The widgets

    def _body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel(self.store, self.work)
        self.search, self.status, self.tags = panel.search, panel.status, panel.tags
        self.again, self.clear, self.table = panel.again, panel.clear, panel.table
        self.photos, self.editor = panel.photos.table, panel.editor
        guarded = self.work.wrap_callback
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
        # The button is disabled meanwhile, and a disabled button loses the focus.
        self.heading.focus()

    def _show_snapshot(self, snapshot: Snapshot) -> None:
        self.catalogue = Catalogue(snapshot)
        if self._panel is not None:
            self._panel.offer(self.catalogue)
        self._filter()
        if failed := snapshot.coverage.failed:
            statuses = ", ".join(each.query for each in failed)
            self.notice.warn(
                f"The pets with the status {statuses} are missing: {failed[0].problem}",
                "Press Read again once the service answers.",
            )

    def _show_read_error(self, error: PetsyncError) -> None:
        if self._panel is not None:
            self._panel.show_failure()
        self.fail(error)

    def _filter(self) -> None:
        if self.catalogue is None or self._panel is None:
            return
        self._places = self.catalogue.find(
            self._panel.search.value,
            statuses=self._panel.status.value,
            tags=self._panel.tags.value,
        )
        self._panel.show_matches(len(self._places), len(self.catalogue), _PETS_A_PAGE)
        # The table announces how many pets match; the notice announces that none does.
        if not len(self._places):
            self.tell(NONE, SHOW_ALL)
        elif self.notice.text == NONE:
            self.notice.clear()
        self._draw()

    def _draw(self) -> None:
        if self.catalogue is None or self._panel is None:
            return
        first = self._panel.table.page * _PETS_A_PAGE
        pets = self.catalogue.pets(self._places[first : first + _PETS_A_PAGE])
        self._panel.table.rows = [row_of(pet) for pet in pets]

    def _clear(self) -> None:
        assert self._panel is not None
        self._panel.clear_filters()
        self._filter()

    # One pet

    async def _pet(self, pet_id: int) -> Pet:
        found = (await self.store.aio.look_up([pet_id]))[pet_id]
        if isinstance(found, FailedLookup):
            raise ApiError(f"pet {pet_id} could not be looked up: {found.problem}")
        if found is None:
            raise NotFoundError(
                f"pet {pet_id} is no longer in the store",
                pet_id=pet_id,
                hint="Press Read again to see the current pets.",
            )
        return found

    def _open(self, pet: Pet) -> None:
        self._require_idle()
        self.notice.clear()
        self.plan = None
        self._leave_review()
        self._show_pet(pet)
        if self._panel is not None:
            self._panel.whom.focus()

    def _require_idle(self) -> None:
        """Raise SettingsError during a run: leaving its review would stop it."""
        if self.review is not None and self.review.is_running:
            raise SettingsError(
                "the last change is still being sent", hint="Wait for it to end, or stop it."
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
            self.tell("No field has been changed yet.", "Change a field above.")
            return
        self._panel.show_planning(is_under_way=True)
        snapshot = None if self.catalogue is None else self.catalogue.snapshot
        work = self.store.aio.edit(self.pet.id, seen=self.pet, snapshot=snapshot, **changed)
        self.work.start(work, self._review, self._show_plan_error)

    def _show_plan_error(self, error: PetsyncError) -> None:
        if self._panel is not None:
            self._panel.show_planning(is_under_way=False)
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
        self._panel.show_planning(is_under_way=False)
        if plan.in_sync:
            self.tell("The store already has these values: there is nothing to change.")
            self._panel.whom.focus()
            return
        self.review = review(plan, self.store)
        self.review.on_report(self.work.wrap_callback(self._reload_pet))
        self._panel.show_review(self.review)
        self.review.heading.focus()

    def _reload_pet(self, _: Any) -> None:
        """Read the pet and the list again after a run or an undo."""
        if self.pet is not None and self.pet.id is not None:
            self.work.start(self._pet(self.pet.id), self._show_pet)
        self.reload()

    def _show_pet(self, pet: Pet) -> None:
        self.pet = pet
        if self._panel is not None:
            profile_statuses = self.store.aio.api.session.profile.statuses
            statuses = () if self.catalogue is None else self.catalogue.statuses
            categories = () if self.catalogue is None else self.catalogue.categories
            self._panel.open(pet, (*profile_statuses, *statuses), categories)

    def _leave_review(self) -> None:
        review, self.review = self.review, None
        if self._panel is not None:
            self._panel.show_review(None)
        if review is not None:
            review.close()

    def _catalogue_now(self) -> Catalogue | PetsyncError | None:
        """Return the catalogue, or the error if it cannot be read. Read it first if necessary,
        unless a kernel is live: then return None if it has not been read.
        """
        if self.catalogue is not None or forms.is_live():
            return self.catalogue
        try:
            self.catalogue = Catalogue(self.store.snapshot())
        except PetsyncError as error:
            return error
        self._places = self.catalogue.find()
        return self.catalogue
