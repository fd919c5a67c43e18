"""The upload form: choose a pet, add images, and follow each upload."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import ipywidgets

from petsync._sync import Task
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.images.find import MAX_FILE_BYTES, Candidate, content_of
from petsync.images.inspect import SIDE, can_shrink, inspect_files, thumbnail
from petsync.images.upload import UploadCanceller
from petsync.models import Pet
from petsync.plan import arguments
from petsync.plan.change import FailedLookup, Snapshot
from petsync.plan.options import PictureOptions
from petsync.plan.uploads import (
    FileProgress,
    Picture,
    PictureProblem,
    Pictures,
    UploadedFile,
    UploadProgress,
    UploadReport,
)
from petsync.report.document import Block, Document, Note, Snippets, error_alert, format_more
from petsync.report.views.images import format_pet, size, uploaded_view
from petsync.report.words import capital, count, first, sentences, shorten
from petsync.store import Store, checked_store
from petsync.table.cells import CellError, parse_id
from petsync.widgets import form as forms
from petsync.widgets.browse import (
    COLUMNS,
    READING,
    UNREADABLE,
    Catalogue,
    Photos,
    look_up,
    row_of,
)
from petsync.widgets.components import (
    Files,
    Fold,
    Meter,
    Notice,
    Pages,
    ReceivedFile,
    Row,
    Table,
    button,
    show,
    tick,
)
from petsync.widgets.form import Form, Work, on_enter

__all__ = [
    "Finder",
    "Item",
    "Panel",
    "State",
    "UploadForm",
    "columns_for",
    "files_at",
    "inspect_items",
    "limit_in",
    "make_small",
    "pet_now",
    "replace_options",
    "upload_images",
]


# Finder: picks one pet, by its name or its id.


_PETS_A_PAGE = 6
_CAPTION = "Matching pets"
_NONE = "No pet has a matching name or id."


class Finder:
    """A search field and the matching pets, in `box`. `chosen` is called with the pet that the user
    picks. The first search reads the store.
    """

    def __init__(
        self, store: Store, work: Work, chosen: Callable[[Pet], object], notice: Notice
    ) -> None:
        self._store, self._work, self._chosen, self._notice = store, work, chosen, notice
        self._catalogue: Catalogue | None = None
        self.search = ipywidgets.Text(
            description="Pet, by name or id",
            placeholder="Bella, or 1001",
            continuous_update=False,
        )
        self.find = button("Find")
        columns = [column for column in COLUMNS if column["key"] != "tags"]
        self.table = Table(columns=columns, caption=_CAPTION, pick="Choose")
        # A pet that the catalogue lacks, or a position in it.
        self._pages: Pages[Pet | int] = Pages(
            self.table, self._row, work.wrap_callback, size=_PETS_A_PAGE
        )
        show(self.table, False)
        self.box = ipywidgets.VBox([ipywidgets.HBox([self.search, self.find]), self.table])
        self.search.observe(work.wrap_callback(lambda _: self.show_matches()), "value")
        self.find.on_click(work.wrap_callback(lambda _: self.show_matches()))
        self.table.on_pick(work.wrap_callback(lambda key: self.by_id(int(key))))

    def show_matches(self) -> None:
        """Show the pets that match the input; returns at once."""
        text = self.search.value.strip()
        show(self.table, bool(text))
        if not text:
            self._show(())
        elif self._catalogue is None:
            self.table.empty = READING
            self._work.start(self._store.aio.snapshot(), self._show_snapshot, self._show_read_error)
        else:
            self._search(text)

    def by_id(self, pet_id: int) -> None:
        """Choose the pet with this id, whatever its status; returns at once."""
        problem = f"the store has no pet {pet_id}"
        found = look_up(self._store, pet_id, problem, "Check the number.")
        self._work.start(found, self._chosen)

    def forget(self) -> None:
        """Read the store again before the next search."""
        self._catalogue = None

    def _show_snapshot(self, snapshot: Snapshot) -> None:
        self._catalogue = Catalogue(snapshot)
        self.show_matches()

    def _show_read_error(self, error: Exception) -> None:
        self.table.empty = UNREADABLE
        raise error

    def _search(self, text: str) -> None:
        assert self._catalogue is not None
        self._show(self._catalogue.find(text, names_only=True).tolist())
        number = _number(text)
        if number is not None and self._catalogue.pet(number) is None:
            # A pet with a status that no query includes can be found only by its id.
            self._work.start(self._store.aio.look_up([number]), self._found_by_id)
        else:
            self._say()

    def _found_by_id(self, found: dict[int, Pet | FailedLookup | None]) -> None:
        number = _number(self.search.value)
        unlisted = [pet for pet in found.values() if isinstance(pet, Pet) and pet.id == number]
        if unlisted:
            self._show([*unlisted, *(each for each in self._found if isinstance(each, int))])
        self._say()

    def _say(self) -> None:
        """Announce that no pet matches, or clear that notice if pets match; the table itself
        announces the number of matches.
        """
        if not self._found:
            self._notice.say(_NONE)
        elif self._notice.text == _NONE:
            self._notice.clear()

    def _show(self, found: Sequence[Pet | int]) -> None:
        self.table.empty = _NONE
        self._found = found
        self._pages.show(found)

    def _row(self, found: Pet | int) -> Row:
        if isinstance(found, Pet):
            return row_of(found)
        assert self._catalogue is not None
        return self._catalogue.row(found)


def _number(text: str) -> int | None:
    try:
        return parse_id(text)
    except CellError:
        return None


# Item: one file of an upload form, and its message.


State = Literal[
    "checking",
    "ready",
    "left out",
    "cannot be sent",
    "too large",
    "waiting",
    "sending",
    "cancelled",
    "done",
    "failed",
    "unknown",
]

_COLUMNS: list[dict[str, Any]] = [
    {"key": "picture", "title": "Picture", "kind": "image"},
    {"key": "name", "title": "File", "sorts": True},
    {"key": "size", "title": "Size"},
    {"key": "state", "title": "State", "kind": "mark", "sorts": True},
    {"key": "message", "title": "Message", "kind": "advice"},
    {"key": "address", "title": "Link", "kind": "link"},
]
_OPTIONAL = ("message", "address")
_MARKS: dict[State, tuple[str, str]] = {
    "checking": ("…", ""),
    "ready": ("+", "add"),
    "left out": ("=", "muted"),
    "cannot be sent": ("x", "problem"),
    "too large": ("x", "problem"),
    "waiting": ("…", ""),
    "sending": ("↑", "update"),
    "cancelled": ("-", "muted"),
    "done": ("✓", "done"),
    "failed": ("x", "problem"),
    "unknown": ("?", "conflict"),
}
_LEFT_OUT = {
    "uploaded": "It was uploaded to this pet before.",
    "duplicate": "The same picture is in this list twice.",
    "unknown": "It was sent before but got no response, and the service does not show whether it "
    "was stored. Check the pet's pictures in the store.",
}
_NO_PET_CHOSEN = "Choose the pet first: find it above."
_CHECK_AGAIN = "Choose the pet again to check all files again."
_EARLIER = {
    "retry": "An earlier upload of this file has not arrived.",
    "confirm": "An earlier upload of this file arrived: it is only recorded, not sent again.",
}
_WAITS = "Waiting while the earlier upload may still arrive."
_NOWHERE = "The service stored it, but returned no address."
_CUT = "cut-off"


@dataclass(slots=True, eq=False)
class Item:
    """A file for a pet. `number` is its index in the active upload."""

    key: str
    name: str
    path: Path
    received: ReceivedFile | None = None
    small: str = ""
    bytes: int = 0
    picture: Picture | None = None
    state: State = "checking"
    message: str = ""
    urls: tuple[str, ...] = ()
    number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether an upload may still include the file."""
        return self.state not in ("done", "cancelled")

    def note_inspection(self, found: Picture | PictureProblem) -> None:
        """Set the state and the message after the inspection; those of a failed upload stay."""
        if self.state in ("failed", "unknown", "too large"):
            self.picture = found if isinstance(found, Picture) else None
            return
        if isinstance(found, PictureProblem):
            self.picture, self.state = None, "cannot be sent"
            self.message = sentences(capital(found.problem), replace_options(found.cure))
            return
        self.picture, self.bytes, self.message = found, found.size, ""
        self.state = "ready" if found.is_item else "left out"
        if not found.is_item:
            self.message = _LEFT_OUT.get(found.decision, "")
        elif found.decision in _EARLIER:
            self.message = _EARLIER[found.decision]
        elif not found.pet_id:
            self.message = _NO_PET_CHOSEN
        elif found.done and found.sent_size != found.size:
            self.message = f"Will be sent as {found.sent_width:,} × {found.sent_height:,}, " + size(
                found.sent_size
            )

    def mark_uninspected(self, reason: str) -> None:
        """Mark a file that could not be checked; the next check may succeed."""
        if self.state == "checking":
            self.state = "cannot be sent"
            self.message = sentences(f"It was not checked: {reason}", _CHECK_AGAIN)

    def follow(self, step: FileProgress) -> None:
        """Set the state from the upload's progress."""
        if step.result is not None:
            self.end(step.result)
            return
        if self.state not in ("cancelled",):
            self.state = "sending"
        if self.picture is not None and self.picture.decision == "retry":
            self.message = "" if step.sent else _WAITS
        if step.why:
            self.message = (
                f"Attempt {step.attempt}; the previous one failed: {replace_options(step.why)}"
            )

    def end(self, result: UploadedFile) -> None:
        """Set the state, the addresses and the message from the result."""
        self.urls = result.urls
        self.state = _state_of(result, is_cancelled=self.state == "cancelled")
        cure = "" if self.state == "cancelled" else replace_options(result.cure)
        self.message = sentences(capital(replace_options(result.message)), cure)
        if self.state == "done" and not self.urls and not self.message:
            self.message = _NOWHERE
        self.number = None

    @property
    def row(self) -> Row:
        symbol, tone = _MARKS[self.state]
        alt = f"Small copy of {self.name}" if self.small else "no picture"
        cells = {
            "picture": {"src": self.small, "alt": alt} if self.small else "",
            "name": self.name,
            "size": ", ".join(filter(None, (size(self.bytes), _pixels(self.picture)))),
            "state": {"symbol": symbol, "text": self.state},
            "message": self.message,
            "address": {"href": self.urls[0], "text": f"See {self.name}"} if self.urls else "",
        }
        return {"key": self.key, "label": self.name, "cells": cells, "tone": tone}


def columns_for(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The columns for these files; the message and link columns are left out if they are empty."""
    rows = [item.row["cells"] for item in items]
    empty = {key for key in _OPTIONAL if not any(cells[key] for cells in rows)}
    return [column for column in _COLUMNS if column["key"] not in empty]


def _pixels(picture: Picture | None) -> str:
    if picture is None:
        return ""
    frames = f", {picture.frames:,} frames" if picture.frames > 1 else ""
    return f"{picture.width:,} × {picture.height:,}{frames}"


def _state_of(result: UploadedFile, *, is_cancelled: bool) -> State:
    if result.outcome == "applied":
        return "done"
    if result.cause == "already-so":
        return "left out"
    if is_cancelled:
        return "cancelled"
    if result.cause == _CUT:
        return "unknown"
    if result.outcome == "not sent":
        return "ready"
    return "unknown" if result.outcome in ("conflict", "unknown") else "failed"


_OF_COMMANDS = re.compile(r"[^.;]*(?:--[a-z]|the same command)[^.;]*[.;]?")
_CURES = {
    f"--max-side {SIDE}": "Tick “Make large pictures smaller”.",
    "without --max-side": "Make it smaller in an image program, or untick “Make large pictures "
    "smaller”.",
    "the same command again": "Press Upload again: it uploads only the remaining pictures.",
}


def replace_options(text: str) -> str:
    """The text with options of the command line replaced by the form's controls."""
    cures = [cure for name, cure in _CURES.items() if name in text]
    return " ".join(filter(None, [_OF_COMMANDS.sub("", text).rstrip(" ;").lstrip(), *cures]))


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_LIMIT = re.compile(r"(\d[\d,_ ]*(?:\.\d+)?)\s*([kmg])?i?(?:b\b|bytes?\b)", re.IGNORECASE)


def limit_in(text: str) -> int | None:
    """The size limit that a service's refusal states, in bytes; None if it states none."""
    found = _LIMIT.search(text)
    if found is None:
        return None
    number = float(re.sub(r"[,_ ]", "", found[1]))
    return int(number * _UNITS[(found[2] or "").lower()]) or None


# Files on the kernel's machine: the files at a path, and their thumbnails.


_HERE = "The path must be on the machine that petsync runs on."


def files_at(text: str) -> list[Path]:
    """Return the file at this path, or the visible files in this folder, sorted by name. Raises
    SettingsError if there is no file, or if the path cannot be read.
    """
    try:
        path = Path(text.strip().strip("\"'")).expanduser()
        found = sorted(filter(_is_plain, path.iterdir())) if path.is_dir() else [path]
        is_there = path.is_dir() or path.is_file()
    except OSError as error:
        raise SettingsError(f"{text} cannot be read: {error.strerror}", hint=_HERE) from None
    except (RuntimeError, ValueError):
        raise SettingsError(f"{text} is not a path", hint=_HERE) from None
    if not is_there or not found:
        where = "in " if is_there else ""
        raise SettingsError(f"there is no file {where}{text}", hint=_HERE)
    return found


def make_small(items: Iterable[Item]) -> None:
    """Set the size and the thumbnail of each readable file that has neither."""
    for item in items:
        if item.small or item.bytes:
            continue
        try:
            content = content_of(item.path)
        except OSError:
            continue
        item.bytes, item.small = len(content), thumbnail(content)


async def inspect_items(
    items: Sequence[Item], options: PictureOptions
) -> list[Picture | PictureProblem]:
    """Inspect the files, without a pet and without requests."""
    no_pet = Pet(id=0)
    candidates = [
        Candidate(path=each.path, file=each.path.name, pet_id=0, place=place, row=place)
        for place, each in enumerate(items)
    ]
    return await inspect_files([(each, no_pet) for each in candidates], options)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


# Panel: the widgets of an upload form.


_FILES_A_PAGE = 10
_OPTIONS = "Options: metadata, size"
_NO_PET = "No pet is chosen yet: find the pet that these pictures show."
_KINDS = "JPEG, PNG, GIF or WebP. Drop one or several, or choose them."


class Panel:
    """The widgets from top to bottom: the pet and its pictures, the files, the options, and the
    progress, in `box`.
    """

    def __init__(self, finder: Finder, store: Store, work: Work) -> None:
        self.no_pet = ipywidgets.HTML(f"<p>{_NO_PET}</p>")
        self.photos = Photos(store, work)
        self.files = Files(
            label="Pictures",
            hint=_KINDS,
            way_out="Make a smaller copy of it.",
            multiple=True,
            max_bytes=MAX_FILE_BYTES,
            listed=False,
        )
        self.path = ipywidgets.Text(
            description="Or a path on the machine petsync runs on", placeholder="photos/bella.jpg"
        )
        self.add = button("Add")
        self.add.tooltip = "Add the file, or the whole folder"
        self.metadata = ipywidgets.Text(
            description="Additional metadata", placeholder="sent with each of these pictures"
        )
        self.smaller = tick(f"Make large pictures smaller (at most {SIDE:,} pixels wide or high)")
        self.keep = tick("Keep the camera's metadata (place, time, device)")
        self.options = Fold(_OPTIONS, [self.metadata, self.smaller, self.keep])
        self.listed = Table(
            columns=columns_for(()), caption="Files", empty="No file yet.", pick="Remove"
        )
        self._pages: Pages[Item] = Pages(
            self.listed, lambda item: item.row, work.wrap_callback, size=_FILES_A_PAGE
        )
        self.go, self.stop = button("Upload", primary=True), button("Stop")
        self.one, self.all = Meter(label="This picture"), Meter(label="All pictures")
        show(self.photos.table, False)
        self.box = ipywidgets.VBox(
            [
                finder.box,
                self.no_pet,
                self.photos.table,
                self.files,
                ipywidgets.HBox([self.path, self.add]),
                self.listed,
                self.options,
                ipywidgets.HBox([self.go, self.stop]),
                self.one,
                self.all,
            ]
        )

    def choose(self, pet: Pet) -> None:
        show(self.no_pet, False)
        show(self.photos.table, True)
        self.photos.show(pet)

    def show_limit(self, limit: int | None) -> None:
        """Show the service's size limit for pictures."""
        most = f" The service accepts at most {size(limit)} each." if limit else ""
        self.files.hint = _KINDS + most

    def draw(
        self, items: Sequence[Item], pet: Pet | None, pictures: Pictures | None, *, is_sending: bool
    ) -> None:
        """Show the files, and enable the controls that can be used."""
        with self.listed.hold_sync():
            self.listed.pick = "Cancel" if is_sending else "Remove"
            self.listed.columns = columns_for(items)
            self._pages.show(items, keep=True)
        if any(item.state == "too large" for item in items):
            self.options.unfold()
        ready = pictures is not None and bool(pictures.items)
        self.go.description = _to_do(pictures, pet)
        self.go.disabled = is_sending or not ready
        self.stop.disabled = not is_sending
        for field in (self.metadata, self.smaller, self.keep, self.add, self.path, self.files):
            field.disabled = is_sending

    def follow(self, name: str, step: FileProgress) -> None:
        with self.one.hold_sync():
            self.one.shown, self.one.label = True, shorten(name, 60)
            self.one.done, self.one.total = float(step.sent), float(step.total)
            self.one.text = f"{size(step.sent)} of {size(step.total)}"

    def progress(self, so_far: UploadProgress) -> None:
        with self.all.hold_sync():
            self.all.shown = True
            self.all.done, self.all.total = float(so_far.sent), float(so_far.total)
            self.all.text = (
                f"{so_far.done} of {count(so_far.files, 'picture')}, "
                f"{size(so_far.sent)} of {size(so_far.total)}"
            )

    def show_stopping(self) -> None:
        self.stop.description = "Stopping …"

    def show_end(self) -> None:
        self.stop.description, self.stop.disabled = "Stop", True
        self.one.shown = self.all.shown = False


def _to_do(pictures: Pictures | None, pet: Pet | None) -> str:
    if pictures is None or pet is None or not pictures.items:
        return "Upload"
    whom = shorten(format_pet(pet.id, pet.name or ""), 60)
    picture_count = count(len(pictures.items), "picture")
    return f"Upload {picture_count} ({size(pictures.total_bytes)}) to {whom}"


# The static view of an upload form: the pet, its pictures, and the uploaded files.


_MAX_URLS = 10
_HOW = "In a live notebook this is a form. In plain Python:"


def pet_now(store: Store, pet: Pet | None, pet_id: int | None) -> Pet | PetsyncError | None:
    """Return the pet, or the error if it cannot be read. Without a live kernel, it is read now if
    necessary. Return None if no pet is chosen or read.
    """
    if pet is not None or pet_id is None or forms.is_live():
        return pet
    try:
        return store.api.get_pet_by_id(pet_id)
    except PetsyncError as error:
        return error


def _about(pet: Pet | PetsyncError | None, pet_id: int | None) -> Block:
    if isinstance(pet, PetsyncError):
        return error_alert(pet)
    if pet is None:
        text = "No pet is chosen yet." if pet_id is None else f"The pictures are for pet {pet_id}."
        return Note(text)
    whom = capital(format_pet(pet.id, shorten(pet.name or "", 60)))
    if not pet.photo_urls:
        return Note(f"{whom} has no picture yet.")
    urls = first(pet.photo_urls, _MAX_URLS)
    title = f"{whom} has {count(urls.total, 'picture')}:"
    return Snippets(title, [("", url) for url in urls.shown], format_more(urls.more))


def _code(pet: Pet | PetsyncError | None, pet_id: int | None) -> str:
    number = pet.id if isinstance(pet, Pet) else 7 if pet_id is None else pet_id
    return f'store.upload(store.pictures_of({number}, ["a.jpg", "b.png"]))'


# UploadForm: the form for uploads.


_DRAW_INTERVAL_S = 0.1
_LIMITS: WeakKeyDictionary[Store, int] = WeakKeyDictionary()
"""The size limits of services in bytes, as stated in their refusals."""


def upload_images(store: Store, pet_id: int | None = None) -> UploadForm:
    """Return a form that uploads pictures to one pet: the one with this id, or one that the user
    finds.

    To upload without the form, call `pictures = store.pictures_of(7, ["a.jpg", "b.png"])`, which
    shows what would be sent, and then `store.upload(pictures)`.
    """
    number = None if pet_id is None else arguments.pet_id(pet_id)
    return UploadForm(checked_store(store, "ps.widgets.upload_images(store)"), number)


class UploadForm(Form):
    """Asks for a pet and files, shows the files, and uploads them. `pet` is the chosen pet, `items`
    are the files, and `report` is the report of the last upload.
    """

    title = "Upload pictures"

    def in_form(self, text: str) -> str:
        """Return the text with the form's controls in place of commands and options."""
        return replace_options(super().in_form(text))

    def __init__(self, store: Store, pet_id: int | None = None) -> None:
        super().__init__()
        self.store, self._pet_id = store, pet_id
        self.limit = _LIMITS.get(store)
        self.pet: Pet | None = None
        self.items: list[Item] = []
        self.report: UploadReport | None = None
        self._inspected: Pictures | None = None
        self._is_looking = self._look_again = False
        self._task: Task[UploadReport] | None = None
        self._cancelling = UploadCanceller()
        self._sent: tuple[Item, ...] = ()
        self._panel: Panel | None = None
        self._count = 0
        self._drawn_at = 0.0

    def _iter_views(self) -> Iterator[Document]:
        """Yield the pet with its pictures' addresses, and the outcome of each file."""
        pet = self._pet_now()
        about = _about(pet, self._pet_id)
        if self.report is not None:
            yield Document("", [about])
            yield uploaded_view(self.report)
        else:
            yield Document("", [about, Snippets(_HOW, [("", _code(pet, self._pet_id))])])

    @property
    def is_running(self) -> bool:
        """Whether an upload is active."""
        return self._task is not None

    def choose(self, pet: Pet) -> None:
        """Make this the pet that gets the pictures. Raises SettingsError while an upload is
        active.
        """
        if self._task is not None:
            raise SettingsError("an upload is active", hint="Wait for it to end, or stop it.")
        self.pet = pet
        if self._panel is not None:
            self._panel.choose(pet)
            if pet.id != self._pet_id:
                self.tell(f"{capital(format_pet(pet.id, shorten(pet.name or '', 60)))} is chosen.")
        self._check_files(reset=True)

    def add_file(self, path: Path, name: str = "", received: ReceivedFile | None = None) -> None:
        """Add a file, and start checking it."""
        self._take(path, name, received)
        self._check_files()

    def add_path(self, path: str) -> None:
        """Add the file at this path on the kernel's machine, or every visible file in this folder.
        Raises SettingsError if there is no file, or if the path cannot be read.
        """
        if not path.strip():
            raise SettingsError("no path is given", hint="Enter one, such as photos/bella.jpg.")
        for each in files_at(path):
            self._take(each)
        self._check_files()

    def _take(self, path: Path, name: str = "", received: ReceivedFile | None = None) -> None:
        self._count += 1
        self.items.append(Item(str(self._count), name or path.name, path, received))

    def remove(self, key: str) -> None:
        """Remove a file from the list, or cancel its upload."""
        item = next((each for each in self.items if each.key == key), None)
        if item is None:
            return
        if self._task is not None and item.number is not None:
            self._cancelling.cancel(item.number)
            item.state, item.message = "cancelled", ""
        elif self._task is None:
            self.items.remove(item)
            if item.received is not None and self._panel is not None:
                self._panel.files.forget(item.received)
            self._check_files()
        self._draw()

    def close(self) -> None:
        """Stop the work, and remove the widgets."""
        super().close()
        self._panel = None

    # The widgets

    def _build_body(self) -> ipywidgets.Widget:
        finder = Finder(self.store, self.work, self.choose, self.notice)
        self._panel = panel = Panel(finder, self.store, self.work)
        self.search, self.find, self.pets = finder.search, finder.find, finder.table
        self.photos, self.files, self.listed = panel.photos.table, panel.files, panel.listed
        self.path, self.add, self.metadata = panel.path, panel.add, panel.metadata
        self.smaller, self.keep = panel.smaller, panel.keep
        self.go, self.stop, self.all, self.one = panel.go, panel.stop, panel.all, panel.one
        self._connect_controls(panel)
        panel.show_limit(self.limit)
        if self.pet is not None:
            panel.choose(self.pet)
        elif self._pet_id is not None:
            finder.by_id(self._pet_id)
        self._draw()
        return panel.box

    def _connect_controls(self, panel: Panel) -> None:
        guarded = self.work.wrap_callback
        panel.files.on_file(guarded(lambda file: self.add_file(file.path, file.name, file)))
        self.work.on_clicks({panel.add: self._add, panel.go: self._send, panel.stop: self._stop})
        on_enter(panel.path, self.work, self._add)
        panel.listed.on_pick(guarded(self.remove))
        for field in (panel.metadata, panel.smaller, panel.keep):
            field.observe(guarded(lambda _: self._check_files(reset=True)), "value")

    def _add(self) -> None:
        assert self._panel is not None
        self.add_path(self._panel.path.value)
        self._panel.path.value = ""

    def _draw(self) -> None:
        if self._panel is not None:
            self._panel.draw(
                self.items, self.pet, self._inspected, is_sending=self._task is not None
            )

    # Files

    def _options(self) -> dict[str, Any]:
        panel = self._panel
        most = min(self.limit or MAX_FILE_BYTES, MAX_FILE_BYTES)
        if panel is None:
            return {"max_bytes": most}
        return {
            "metadata": panel.metadata.value.strip() or None,
            "max_side": SIDE if panel.smaller.value else None,
            "keep_metadata": panel.keep.value,
            "max_bytes": most,
        }

    def _check_files(self, *, reset: bool = False) -> None:
        """Check the files that can still be uploaded; `reset` clears their states and messages
        first. Returns at once. If a check is active, another check follows it.
        """
        self._inspected = None
        if self._task is not None:
            return
        for item in self.items:
            if reset and item.is_open:
                item.state, item.message = "checking", ""
        if self._is_looking:
            self._look_again = True
        elif items := [item for item in self.items if item.is_open]:
            self._is_looking = True
            self.work.start(
                self._look_at(items, self.pet),
                lambda found: self._update_items(items, *found),
                self._show_check_error,
            )
        self._draw()

    async def _look_at(
        self, items: list[Item], pet: Pet | None
    ) -> tuple[Pictures | None, list[Picture | PictureProblem]]:
        await asyncio.to_thread(make_small, items)
        options = self._options()
        if pet is None or pet.id is None:
            options.pop("metadata", None)
            return None, await inspect_items(items, PictureOptions(**options))
        paths = [item.path for item in items]
        found = await self.store.aio.pictures_of(pet.id, paths, **options)
        by_place: dict[int | None, Picture | PictureProblem] = {
            **{each.row: each for each in found.pictures},
            **{each.row: each for each in found.problems},
        }
        return found, [by_place[place] for place in range(len(items))]

    def _update_items(
        self, items: list[Item], found: Pictures | None, each: list[Picture | PictureProblem]
    ) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self._check_files()
            return
        for item, result in zip(items, each, strict=True):
            item.note_inspection(result)
        self._inspected = found if items == [item for item in self.items if item.is_open] else None
        self._draw()

    def _show_check_error(self, error: PetsyncError) -> None:
        self._is_looking = self._look_again = False
        for item in self.items:
            item.mark_uninspected(error.problem)
        self._draw()
        self.fail(error)

    # The upload

    def _send(self) -> None:
        if self._task is not None:
            return
        if self._inspected is None:
            if self.pet is None:
                raise SettingsError("no pet is chosen", hint="Find one by its name or id first.")
            raise SettingsError(
                "the files are still being checked", hint="Press Upload after the check."
            )
        pictures = self._inspected
        if not pictures.items:
            raise SettingsError("there is nothing to upload", hint="Add pictures first.")
        self._begin(pictures)

    def _begin(self, pictures: Pictures) -> None:
        self.notice.clear()
        self.report, self._cancelling = None, UploadCanceller()
        looked_at = [item for item in self.items if item.is_open]
        self._sent = tuple(looked_at[picture.row or 0] for picture in pictures.items)
        for number, item in enumerate(self._sent):
            item.state, item.message, item.number = "waiting", "", number
        guarded = self.work.wrap_callback
        self._task = self.work.start(
            self.store.aio.upload(
                pictures,
                on_file=guarded(self._step),
                on_progress=guarded(self._progress),
                cancelling=self._cancelling,
            ),
            self._show_report,
            self._show_upload_error,
        )
        self._draw()
        # The pressed button is disabled now.
        self.heading.focus()

    def _step(self, step: FileProgress) -> None:
        item = self._sent[step.number]
        before = (item.state, item.message)
        item.follow(step)
        if step.result is not None:
            self._note_refused_size(item, step.result)
        if self._panel is None:
            return
        now = time.monotonic()
        is_new = before != (item.state, item.message)
        if is_new or now - self._drawn_at >= _DRAW_INTERVAL_S:
            self._drawn_at = now
            self._panel.follow(item.name, step)
        if is_new:
            self._draw()

    def _progress(self, so_far: UploadProgress) -> None:
        if self._panel is not None:
            self._panel.progress(so_far)

    def _note_refused_size(self, item: Item, result: UploadedFile) -> None:
        """If the service refused the file as too large, set its state and message, and store the
        limit that the service states.
        """
        _, refused, response = result.message.partition(": 413")
        if not refused:
            return
        if limit := limit_in(response):
            self.limit = _LIMITS[self.store] = limit
            if self._panel is not None:
                self._panel.show_limit(limit)
        most = f" The limit is {size(self.limit)}." if self.limit else ""
        cure = "Choose a smaller copy."
        if item.picture is not None and can_shrink(item.picture):
            cure = "Tick “Make large pictures smaller”, or choose a smaller copy."
        item.state = "too large"
        item.message = f"It is too large for the service, which answered:{response}.{most} {cure}"

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if self._panel is not None:
                self._panel.show_stopping()
            self.heading.focus()

    def _show_report(self, report: UploadReport) -> None:
        self._over(report)
        counts = report.counts
        remaining = sum(counts.values()) - counts["applied"]
        done = f"{count(counts['applied'], 'picture')} uploaded"
        rest = f", {remaining:,} not uploaded: see the list for the reasons" if remaining else ""
        if any(_is_bad(each) for each in report.results):
            self.notice.warn(f"{done}{rest}.")
        else:
            self.notice.say(f"{done}{rest}.", done=not remaining)

    def _show_upload_error(self, error: PetsyncError) -> None:
        report = error.report if isinstance(error, InterruptedRunError) else None
        if isinstance(report, UploadReport):
            self._over(report)
            done = count(report.counts["applied"], "picture")
            reason, rest = (
                report.stopped.partition("\n")[0],
                "Press Upload again to send only the remaining pictures.",
            )
            if reason == "interrupted":
                self.tell(f"Stopped: {done} uploaded.", rest)
            else:
                self.notice.warn(f"Stopped: {reason}", f"{done} uploaded. {rest}")
            return
        for item in self._sent:
            item.state, item.number = "checking", None
        self._over(None)
        self.fail(error)

    def _over(self, report: UploadReport | None) -> None:
        self._task, self.report, self._inspected = None, report, None
        for picture, result in _pairs(self._sent, report):
            if picture.number is not None:
                picture.end(result)
                self._note_refused_size(picture, result)
        self._sent = ()
        if self._panel is not None:
            self._panel.show_end()
        self._check_files()
        if self.pet is not None and self.pet.id is not None:
            self.work.start(self.store.aio.look_up([self.pet.id]), self._show_again)
        self._draw()

    def _show_again(self, found: dict[int, Any]) -> None:
        """Show the pet with its new pictures."""
        for pet in found.values():
            if isinstance(pet, Pet) and self.pet is not None and pet.id == self.pet.id:
                self.pet = pet
                if self._panel is not None:
                    self._panel.choose(pet)
        self._draw()

    def _pet_now(self) -> Pet | PetsyncError | None:
        return pet_now(self.store, self.pet, self._pet_id)


def _is_bad(result: UploadedFile) -> bool:
    """Whether the user must act on the result. A file whose upload did not begin needs no
    action.
    """
    return result.outcome not in ("applied", "unchanged") and result.cause != "not-begun"


def _pairs(items: tuple[Item, ...], report: UploadReport | None) -> list[tuple[Item, UploadedFile]]:
    if report is None:
        return []
    results = {result.row: result for result in report.results}
    return [
        (item, results[item.picture.row])
        for item in items
        if item.picture is not None and item.picture.row in results
    ]
