"""The catalogue form: browse pets, see photos, and edit one pet."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets
import numpy as np
import numpy.typing as npt

from petsync.errors import ApiError, NotFoundError, PetsyncError, SettingsError
from petsync.images.inspect import thumbnail
from petsync.models import Pet, Tag
from petsync.plan.change import FailedLookup, Snapshot
from petsync.plan.plan import Plan
from petsync.report import document
from petsync.report.document import Column, Document, Note, Snippets, error_alert
from petsync.report.views.images import format_pet
from petsync.report.views.sheet import snapshot_view
from petsync.report.words import capital, shorten
from petsync.store import Store, checked_store
from petsync.table.cells import format_photo_urls, format_tags, make_visible
from petsync.table.frame import pets_at, plain_values
from petsync.widgets import form as forms
from petsync.widgets.components import (
    FILTERS_FROM,
    Heading,
    Pages,
    Row,
    Table,
    button,
    fold_case,
    show,
    sort_key,
)
from petsync.widgets.form import Form, Work

if TYPE_CHECKING:
    from petsync.widgets.review import ReviewForm

__all__ = [
    "COLUMNS",
    "READING",
    "UNREADABLE",
    "BrowseForm",
    "Catalogue",
    "Editor",
    "Panel",
    "Photos",
    "Places",
    "browse",
    "look_up",
    "row_of",
    "tags_text",
]


# Catalogue: a snapshot to search by text, status and tags.


Places = npt.NDArray[np.int64]
COLUMNS: list[dict[str, Any]] = [
    {"key": "name", "title": "Name", "sorts": True},
    {"key": "id", "title": "Id", "sorts": True},
    {"key": "status", "title": "Status", "sorts": True},
    {"key": "category", "title": "Category", "sorts": True},
    {"key": "tags", "title": "Tags", "kind": "value"},
    {"key": "photos", "title": "Pictures", "kind": "number", "sorts": True},
]
"""The columns of a table of pets."""
_MAX_TAG = 60
"""The maximum width of a tag in a table."""


class Catalogue:
    """The pets of a snapshot. `Places` are positions in the snapshot, counted from 0."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._sort_keys: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.snapshot)

    def filter(self, statuses: Collection[str], tags: Collection[str]) -> Places:
        """Return the positions of the pets with one of the statuses and one of the tags. An empty
        collection filters nothing.
        """
        mask = np.ones(len(self), dtype=bool)
        if statuses:
            mask &= self.snapshot.rows["status"].isin(list(statuses)).to_numpy()
        if tags:
            selected_tags = frozenset(tags)
            mask &= np.array(
                [not selected_tags.isdisjoint(names) for names in self._tags], dtype=bool
            )
        return np.flatnonzero(mask)

    def find(
        self, text: str = "", *, among: Sequence[int] | None = None, names_only: bool = False
    ) -> Places:
        """Return the positions of the pets that match every word of the text: of all pets, or of
        those at the positions `among`. A word matches the id or part of the name; unless
        `names_only`, it also matches part of the category, tags or status. A pet whose id equals
        the text comes first.
        """
        texts = self._names if names_only else self._texts
        found = np.arange(len(self)) if among is None else np.array(among, dtype=np.int64)
        for word in fold_case(text).split():
            is_match = np.array([word in texts[place] for place in found.tolist()], dtype=bool)
            found = found[is_match | self._has_id(word)[found]]
        first = self._has_id(text.strip())[found]
        return np.concatenate([found[first], found[~first]])

    def row(self, place: int) -> Row:
        return row_of(self.pets(np.array([place]))[0])

    def sort_key(self, place: int, column: str) -> Any:
        """The key to sort the pet at this position by, in one of the `COLUMNS`."""
        if column not in self._sort_keys:
            frame = self.snapshot.rows
            if column == "photos":
                texts = [str(len(urls)) for urls in frame["photo_urls"].tolist()]
            else:
                values = plain_values(frame[column].array)
                texts = ["" if value is None else str(value) for value in values]
            self._sort_keys[column] = list(map(sort_key, texts))
        return self._sort_keys[column][place]

    def pets(self, places: Places) -> list[Pet]:
        return pets_at(self.snapshot.rows, places)

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
            frozenset(tag.name for tag in tags if tag.name) for tags in self.snapshot.rows["tags"]
        ]

    @cached_property
    def _names(self) -> list[str]:
        return [fold_case(name) for name in self._column("name")]

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
            fold_case("\n".join((name, category, status, *sorted(tags))))
            for name, category, status, tags in columns
        ]

    def _has_id(self, word: str) -> npt.NDArray[np.bool_]:
        ids = self.snapshot.rows["id"]
        digits = word.removeprefix("-")
        # A longer number is not an id, and cannot be compared with the column.
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            return np.zeros(len(self), dtype=bool)
        number = int(word)
        if not -(2**63) <= number < 2**63:
            return np.zeros(len(self), dtype=bool)
        return (ids == number).fillna(False).to_numpy(dtype=bool)

    def _column(self, name: str) -> list[str]:
        values: list[str] = self.snapshot.rows[name].fillna("").tolist()
        return values


async def look_up(store: Store, pet_id: int, problem: str, hint: str) -> Pet:
    """Return the pet with this id, whatever its status. Raises NotFoundError with this problem and
    hint if there is none, and ApiError if the lookup fails.
    """
    found = (await store.aio.look_up([pet_id]))[pet_id]
    if isinstance(found, FailedLookup):
        raise ApiError(f"pet {pet_id} could not be looked up: {found.problem}")
    if found is None:
        raise NotFoundError(problem, pet_id=pet_id, hint=hint)
    return found


def row_of(pet: Pet) -> Row:
    cells = {
        "name": pet.name or "",
        "id": str(pet.id),
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": [[shorten(format_tags((tag,)), _MAX_TAG) for tag in _short_tags(pet)]],
        "photos": str(len(pet.photo_urls)),
    }
    return {"key": str(pet.id), "label": f"{pet.name or 'pet'} ({pet.id})", "cells": cells}


def tags_text(pet: Pet) -> str:
    """Return the pet's tags as the text of a cell."""
    return format_tags(_short_tags(pet))


def _short_tags(pet: Pet) -> Sequence[Tag]:
    """Return the pet's tags, without ids if their names are unique: tags that are edited by name
    keep their ids.
    """
    names = [tag.name for tag in pet.tags]
    if all(names) and len(set(map(_fold_case, filter(None, names)))) == len(names):
        return [Tag(None, name) for name in names]
    return pet.tags


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


# Editor: one pet's fields, and the user's changes.


_NONE = "(none)"


class Editor:
    """The input fields for one pet, in `box`. `changed` has the fields that differ from the pet."""

    def __init__(self) -> None:
        self.name = ipywidgets.Text(description="Name")
        self.status = ipywidgets.Dropdown(description="Status")
        self.category = ipywidgets.Combobox(
            description="Category",
            placeholder="an existing or a new one",
        )
        self.tags = ipywidgets.Text(description="Tags", placeholder="calm; old")
        self.photo_urls = ipywidgets.Textarea(
            description="Picture addresses",
            placeholder="one per line",
            rows=3,
        )
        self.check, self.reset = button("Show what would change", primary=True), button("Reset")
        self.box = ipywidgets.VBox(
            [
                self.name,
                self.status,
                self.category,
                self.tags,
                self.photo_urls,
                ipywidgets.HBox([self.check, self.reset]),
            ],
            layout={"flex": "1 1 24rem"},
        )
        self._shown: dict[str, str] = {}

    def show(self, pet: Pet, statuses: Sequence[str], categories: Sequence[str]) -> None:
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


# Photos: the pictures of a pet. Only pictures that the service itself provides are fetched. Other
# pictures are shown only as a URL, because anybody may have entered it.


_PHOTOS_A_PAGE = 6
_AT_A_TIME = 3
_LARGE_SIDE = 240
"""The maximum width and height of the picture next to the fields, in pixels."""
_LONGEST = 200
_PHOTO_COLUMNS = [
    {"key": "picture", "title": "Picture", "kind": "image"},
    {"key": "address", "title": "Address", "kind": "link"},
]


class _Source(NamedTuple):
    """A photo as two `data:` URLs. If there is none, `small` is the reason."""

    small: str
    large: str = ""

    @property
    def is_picture(self) -> bool:
        return self.small.startswith("data:")


class Photos:
    """A pet's photos in a table, `table`, which is filled page by page. `first`, if given, shows
    the first photo that the service itself provides, larger than in the table.
    """

    def __init__(self, store: Store, work: Work, first: ipywidgets.HTML | None = None) -> None:
        self._store, self._work = store, work
        self._sources: dict[str, _Source] = {}
        self._turn = 0
        self._whom = ""
        self.first = first
        self.table = Table(columns=_PHOTO_COLUMNS, empty="This pet has no pictures.")
        self._pages = Pages(
            self.table, self._row, work.wrap_callback, size=_PHOTOS_A_PAGE, on_found=self._fetch
        )

    def show(self, pet: Pet | None) -> None:
        """Show the pet's photos, or none."""
        urls = () if pet is None else pet.photo_urls
        self._sources = {url: each for url, each in self._sources.items() if each.is_picture}
        self._whom = "" if pet is None else shorten(format_pet(pet.id, pet.name or ""), 100)
        self.table.caption = f"Pictures of {self._whom}" if self._whom else ""
        self._pages.show(list(enumerate(urls, 1)))
        self._show_first()

    def _row(self, photo: tuple[int, str]) -> Row:
        place, url = photo
        source = self._sources.get(url)
        picture: dict[str, str] | str = "not from this service, not fetched"
        if source is not None and source.is_picture:
            picture = {"src": source.small, "alt": f"Picture {place}"}
        elif self._store.serves(url):
            picture = "fetching …" if source is None else source.small
        address = {"href": url, "text": shorten(url, _LONGEST)}
        return {
            "key": str(place),
            "label": f"picture {place}",
            "cells": {"picture": picture, "address": address},
        }

    def _fetch(self) -> None:
        """Fetch the photos on the visible page that are not known yet."""
        served = [url for _, url in self._pages.shown if self._store.serves(url)]
        usable = (url for _, url in self._pages.found if self._is_usable(url))
        large = "" if self.first is None else next(usable, "")
        unknown = [url for url in served if self._must_fetch(url, large)]
        if unknown:
            self._turn += 1
            turn = self._turn
            work = self._fetch_all(unknown, large)
            self._work.start(work, lambda sources: self._take(turn, sources))

    def _is_usable(self, url: str) -> bool:
        """Return true if the service itself provides the photo, and it may be a picture."""
        source = self._sources.get(url)
        return self._store.serves(url) and (source is None or source.is_picture)

    def _must_fetch(self, url: str, large: str) -> bool:
        source = self._sources.get(url)
        return source is None or (url == large and source.is_picture and not source.large)

    async def _fetch_all(self, urls: list[str], large: str) -> dict[str, _Source]:
        """Return the photos; the photo at the URL `large` in both sizes."""
        gate = asyncio.Semaphore(_AT_A_TIME)

        async def one(url: str) -> _Source:
            async with gate:
                try:
                    content = await self._store.aio.photo(url)
                except PetsyncError as error:
                    return _Source(f"cannot be shown: {error.problem}")
                small = await asyncio.to_thread(thumbnail, content)
                if not small:
                    return _Source("cannot be shown: it is not a complete picture")
                if url != large:
                    return _Source(small)
                large_one = await asyncio.to_thread(thumbnail, content, _LARGE_SIDE)
                return _Source(small, large_one or small)

        return dict(zip(urls, await asyncio.gather(*map(one, urls)), strict=True))

    def _take(self, turn: int, sources: dict[str, _Source]) -> None:
        self._sources |= sources
        if turn == self._turn:
            self._pages.redraw()
            self._show_first()
            # If the first photo is no picture, the next one becomes the large one.
            self._fetch()

    def _show_first(self) -> None:
        """Show the first known picture, or hide the widget if there is none."""
        if self.first is None:
            return
        known = (self._sources.get(url) for _, url in self._pages.found)
        first = next((each for each in known if each is not None and each.is_picture), None)
        alt = escape(make_visible(f"Photo of {self._whom}"))
        source = "" if first is None else first.large or first.small
        self.first.value = f'<img class="ps-photo" src="{source}" alt="{alt}">' if source else ""
        show(self.first, bool(source))


# Panel: the widgets of a catalogue.


_NO_PETS = "No pets were found."
_NONE_MATCHES = "No pet matches. Press Show all to start again."
_MAX_TAGS = 500
READING, UNREADABLE = "Reading the store …", "The store could not be read."
_PANEL_STYLE = {"description_width": "initial"}


class Panel:
    """The filters, the list, and the open pet with its pictures, its fields and the review of its
    change; `box` contains all of them.
    """

    def __init__(self, store: Store, work: Work) -> None:
        self.status = _make_multi_select("Status")
        self.tags = _make_multi_select("Tags")
        self.clear, self.again = button("Show all"), button("Read again")
        self.table = Table(columns=COLUMNS, caption="Pets", empty=READING, pick="Open")
        first = ipywidgets.HTML(layout={"width": "max-content"})
        self.photos, self.editor = Photos(store, work, first), Editor()
        self.whom = Heading(level=4)
        fields = ipywidgets.HBox([first, self.editor.box], layout={"grid_gap": "1rem"})
        self.pet = ipywidgets.VBox([self.whom, fields, self.photos.table])
        # The open pet is a separate region, named by its heading.
        self.pet.add_class("petsync-form")
        show(self.pet, False)
        self.review = ipywidgets.VBox([])
        self.filters = ipywidgets.HBox([self.status, self.tags])
        self.box = ipywidgets.VBox(
            [
                self.filters,
                ipywidgets.HBox([self.clear, self.again]),
                self.table,
                self.pet,
                self.review,
            ]
        )

    def show_loading(self) -> None:
        self.again.disabled = True
        self.table.empty = READING

    def show_failure(self) -> None:
        self.again.disabled = False
        self.table.empty = UNREADABLE

    def offer(self, catalogue: Catalogue) -> None:
        """Offer the existing statuses and tags; the selection stays."""
        self.again.disabled = False
        self.table.empty = _NONE_MATCHES if len(catalogue) else _NO_PETS
        for field, names in ((self.status, catalogue.statuses), (self.tags, catalogue.tags)):
            offered = list(names[:_MAX_TAGS])
            chosen = [name for name in field.value if name in offered]
            field.options = offered
            field.value = chosen
        is_filtered = bool(self.table.search or self.status.value or self.tags.value)
        for part in (self.filters, self.clear):
            show(part, is_filtered or len(catalogue) >= FILTERS_FROM)

    def open(self, pet: Pet, statuses: Sequence[str], categories: Sequence[str]) -> None:
        show(self.pet, True)
        self.whom.text = capital(shorten(format_pet(pet.id, pet.name or ""), 100))
        self.photos.show(pet)
        self.editor.show(pet, statuses, categories)

    def show_planning(self, *, is_under_way: bool) -> None:
        self.editor.check.disabled = is_under_way

    def show_review(self, form: Form | None) -> None:
        self.review.children = () if form is None else (form.widget,)


def _make_multi_select(label: str) -> ipywidgets.SelectMultiple:
    return ipywidgets.SelectMultiple(
        description=label, rows=4, layout={"width": "min(18rem, 100%)"}, style=_PANEL_STYLE
    )


# The static view of a catalogue: its summary and the first pets.


_MAX_PETS = 10
_CODE = 'store.snapshot().frame; plan = store.edit(7, status="sold"); store.apply(plan)'
_HOW = "In a live notebook this is a form. In plain Python:"
_UNREAD = "The store has not been read yet."
_COLUMNS = (
    Column("Id", "id"),
    Column("Name", "name"),
    Column("Status", "value"),
    Column("Category", "value"),
    Column("Tags"),
)


def _first_pets(catalogue: Catalogue, places: Places) -> document.Table:
    rows = list(map(_row, catalogue.pets(places[:_MAX_PETS])))
    more = document.format_more(len(places) - len(rows))
    return document.Table(_COLUMNS, rows, "grid", has_titles=True, more=more)


def _row(pet: Pet) -> document.Row:
    cells = row_of(pet)["cells"]
    names = ("id", "name", "status", "category")
    return document.Row((*(cells[name] for name in names), tags_text(pet)))


# BrowseForm: the form for the catalogue.


_PETS_A_PAGE = 12


def browse(store: Store) -> BrowseForm:
    """Return a form that finds the store's pets by status, tags and text, shows their pictures,
    and edits one pet.

    Without the form, `store.snapshot().frame` has the pets. To edit one, call
    `plan = store.edit(7, status="sold")`, which shows what would change, and then
    `store.apply(plan)`.
    """
    return BrowseForm(checked_store(store, "ps.widgets.browse(store)"))


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
        self._panel: Panel | None = None
        self._is_clearing = False

    def _iter_views(self) -> Iterator[Document]:
        """Yield the catalogue's summary and its first pets, or why there are none."""
        catalogue, how = self._catalogue_now(), Snippets(_HOW, [("", _CODE)])
        if isinstance(catalogue, Catalogue):
            yield snapshot_view(catalogue.snapshot)
            yield Document("", [_first_pets(catalogue, self._places), how])
        else:
            yield Document("", [error_alert(catalogue) if catalogue else Note(_UNREAD), how])

    def reload(self) -> None:
        """Read the store again; returns at once."""
        if self._panel is not None:
            self._panel.show_loading()
        self.work.start(self.store.aio.snapshot(), self._show_snapshot, self._show_read_error)

    def open(self, pet_id: int) -> None:
        """Read a pet and open it; returns at once. Raises SettingsError while a change is being
        sent.
        """
        self._require_idle()
        self.work.start(self._look_up(pet_id), self._open)

    def close(self) -> None:
        """Stop the work, and remove the widgets."""
        self._leave_review()
        super().close()
        self._panel = None

    # The widgets

    def _build_body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel(self.store, self.work)
        self.status, self.tags = panel.status, panel.tags
        self.again, self.clear, self.table = panel.again, panel.clear, panel.table
        self.photos, self.editor = panel.photos.table, panel.editor
        guarded = self.work.wrap_callback
        self._pages: Pages[int] = Pages(
            panel.table,
            lambda place: self._now.row(place),
            guarded,
            size=_PETS_A_PAGE,
            key=lambda place, column: self._now.sort_key(place, column),
            find=lambda places, text: self._now.find(text, among=places).tolist(),
        )
        for field in (panel.status, panel.tags):
            field.observe(guarded(lambda _: self._filter()), "value")
        panel.table.on_pick(guarded(lambda key: self.open(int(key))))
        self.work.on_clicks(
            {
                panel.again: self._read_again,
                panel.clear: self._clear,
                panel.editor.check: self._plan,
                panel.editor.reset: self._put_back,
            }
        )
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
        self._filter(keep=True)
        if failed := snapshot.coverage.failed:
            statuses = ", ".join(each.query for each in failed)
            self.notice.warn(
                f"The pets with the status {statuses} are missing: {failed[0].problem}",
                "Press Read again to try again.",
            )

    def _show_read_error(self, error: PetsyncError) -> None:
        if self._panel is not None:
            self._panel.show_failure()
        self.fail(error)

    @property
    def _places(self) -> Places:
        """The positions of the pets that match the filters."""
        if self.catalogue is None:
            return np.empty(0, dtype=np.int64)
        return self.catalogue.find() if self._panel is None else np.array(self._pages.found)

    @property
    def _now(self) -> Catalogue:
        assert self.catalogue is not None
        return self.catalogue

    def _filter(self, *, keep: bool = False, clear: bool = False) -> None:
        if self.catalogue is None or self._panel is None or self._is_clearing:
            return
        found = self.catalogue.filter(self._panel.status.value, self._panel.tags.value)
        total = len(self.catalogue)
        self._pages.show(found.tolist(), total=total, keep=keep, are_new=clear)

    def _clear(self) -> None:
        """Clear the filters and the search, and fill the list once."""
        assert self._panel is not None
        self._is_clearing = True
        self._panel.status.value = self._panel.tags.value = ()
        self._is_clearing = False
        self._filter(clear=True)

    # One pet

    def _look_up(self, pet_id: int) -> Coroutine[Any, Any, Pet]:
        problem = f"pet {pet_id} is no longer in the store"
        return look_up(self.store, pet_id, problem, "Press Read again to see the current pets.")

    def _open(self, pet: Pet) -> None:
        self._require_idle()
        self.notice.clear()
        self.plan = None
        self._leave_review()
        self._show_pet(pet)
        if self._panel is not None:
            self._panel.whom.focus()

    @property
    def is_running(self) -> bool:
        """Whether a change of the open pet is being sent."""
        return self.review is not None and self.review.is_running

    def _require_idle(self) -> None:
        """Raise SettingsError during a run: leaving its review would stop it."""
        if self.is_running:
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
            self.work.start(self._look_up(self.pet.id), self._show_pet)
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
        """Return the catalogue, or the error if it cannot be read. Without a live kernel, it is
        read now if necessary; otherwise return None if it has not been read.
        """
        if self.catalogue is not None or forms.is_live():
            return self.catalogue
        try:
            self.catalogue = Catalogue(self.store.snapshot())
        except PetsyncError as error:
            return error
        return self.catalogue
