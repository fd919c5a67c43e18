"""Panel: an upload form's widgets, and how they show what is."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from petsync.apply.pictures.found import LARGEST
from petsync.diff.pictures import Pictures
from petsync.diff.uploaded import FileProgress, Uploading
from petsync.model import Pet
from petsync.render.pictures_words import of_pet, size
from petsync.render.visible import shorten
from petsync.render.words import count
from petsync.store import Store
from petsync.widgets.parts.files import Files
from petsync.widgets.parts.meter import Meter
from petsync.widgets.parts.table import Table
from petsync.widgets.photos import Photos
from petsync.widgets.upload.finder import Finder
from petsync.widgets.upload.item import Item, columns_for
from petsync.widgets.work import Work

__all__ = ["Panel"]

_A_PAGE = 10
_NO_PET = "No pet is chosen yet: find the one that these pictures show."
_KINDS = "JPEG, PNG, GIF or WebP. Drop several at once, or choose them."
_WIDE = {"width": "min(36rem, 100%)"}
_STYLE = {"description_width": "initial"}


class Panel:
    """The widgets, top to bottom: the pet and its pictures, the files, how they are sent, and how
    far that is; `box` has all.
    """

    def __init__(self, finder: Finder, store: Store, work: Work) -> None:
        self.nobody = ipywidgets.HTML(f"<p>{_NO_PET}</p>")
        self.photos = Photos(store, work)
        self.files = Files(
            label="Pictures",
            hint=_KINDS,
            way_out="Make a smaller copy of it.",
            multiple=True,
            most_bytes=LARGEST,
            listed=False,
        )
        self.path = _text("Or a path on the machine petsync runs on", "photos/bella.jpg")
        self.add = ipywidgets.Button(description="Add", tooltip="Add the file, or the whole folder")
        self.metadata = _text("Additional metadata", "goes with each of these pictures")
        self.smaller = _tick("Make large pictures smaller (at most 2,000 pixels wide or high)")
        self.strip = _tick("Leave out what the camera wrote (place, time, device)")
        self.listed = Table(
            columns=columns_for(()), caption="Files", empty="No file yet.", pick="Remove"
        )
        self.go = ipywidgets.Button(
            description="Upload", button_style="primary", layout={"width": "auto"}
        )
        self.stop = ipywidgets.Button(description="Stop", disabled=True)
        self.one, self.all = Meter(label="This picture"), Meter(label="All pictures")
        self.photos.table.layout.display = "none"
        self.box = ipywidgets.VBox(
            [
                finder.box,
                self.nobody,
                self.photos.table,
                self.files,
                ipywidgets.HBox([self.path, self.add], layout={"flex_flow": "row wrap"}),
                self.listed,
                self.metadata,
                self.smaller,
                self.strip,
                ipywidgets.HBox([self.go, self.stop]),
                self.one,
                self.all,
            ]
        )

    def choose(self, pet: Pet) -> None:
        """Show the pet and its pictures."""
        self.nobody.layout.display = "none"
        self.photos.table.layout.display = None
        self.photos.show(pet)

    def takes(self, limit: int | None) -> None:
        """Say how large a picture the service takes, where it told that."""
        most = f" The service takes at most {size(limit)} each." if limit else ""
        self.files.hint = _KINDS + most

    def draw(
        self, items: Sequence[Item], pet: Pet | None, looked: Pictures | None, *, is_sending: bool
    ) -> None:
        """Show the files as they are, and what can be pressed."""
        self.listed.pages = max(1, -(-len(items) // _A_PAGE))
        first = min(self.listed.page, self.listed.pages - 1) * _A_PAGE
        with self.listed.hold_sync():
            self.listed.total = len(items)
            self.listed.pick = "Cancel" if is_sending else "Remove"
            self.listed.columns = columns_for(items)
            self.listed.rows = [item.row for item in items[first : first + _A_PAGE]]
        ready = looked is not None and bool(looked.items)
        self.go.description = _to_do(looked, pet)
        self.go.disabled = is_sending or not ready
        self.stop.disabled = not is_sending
        for field in (self.metadata, self.smaller, self.strip, self.add, self.path, self.files):
            field.disabled = is_sending

    def follow(self, name: str, step: FileProgress) -> None:
        """Show how far one picture is."""
        with self.one.hold_sync():
            self.one.shown, self.one.label = True, shorten(name, 60)
            self.one.done, self.one.total = float(step.sent), float(step.total)
            self.one.text = f"{size(step.sent)} of {size(step.total)}"

    def progress(self, so_far: Uploading) -> None:
        """Show how far all of them are."""
        with self.all.hold_sync():
            self.all.shown = True
            self.all.done, self.all.total = float(so_far.sent), float(so_far.total)
            self.all.text = (
                f"{so_far.done} of {count(so_far.files, 'picture')}, "
                f"{size(so_far.sent)} of {size(so_far.total)}"
            )

    def stopping(self) -> None:
        """Show that it is about to stop."""
        self.stop.description = "Stopping …"

    def over(self) -> None:
        """Show that nothing is under way any more."""
        self.stop.description, self.stop.disabled = "Stop", True
        self.one.shown = self.all.shown = False


def _to_do(looked: Pictures | None, pet: Pet | None) -> str:
    if looked is None or pet is None or not looked.items:
        return "Upload"
    whom = shorten(of_pet(pet.id, pet.name or ""), 60)
    what = count(len(looked.items), "picture")
    return f"Upload {what} ({size(looked.total_bytes)}) to {whom}"


def _text(label: str, example: str) -> ipywidgets.Text:
    return ipywidgets.Text(description=label, placeholder=example, layout=_WIDE, style=_STYLE)


def _tick(label: str) -> ipywidgets.Checkbox:
    return ipywidgets.Checkbox(
        description=label, indent=False, layout={"width": "auto"}, style=_STYLE
    )
