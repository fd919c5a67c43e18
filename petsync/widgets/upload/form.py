"""UploadForm: what happens when pictures are given to a pet by hand."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import ipywidgets

from petsync._loop import Task
from petsync.apply.pictures.cancelling import Cancelling
from petsync.apply.pictures.found import LARGEST
from petsync.diff.pictures import Picture, PictureOptions, PictureProblem, Pictures
from petsync.diff.uploaded import FileProgress, Uploaded, UploadedFile, Uploading
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.model import Pet
from petsync.render.markup import capital
from petsync.render.pictures_words import of_pet, size
from petsync.render.visible import shorten
from petsync.render.words import count
from petsync.store import Store
from petsync.widgets.entering import on_enter
from petsync.widgets.form import Form
from petsync.widgets.parts.files import Received
from petsync.widgets.upload import still
from petsync.widgets.upload.finder import Finder
from petsync.widgets.upload.item import Item, limit_in
from petsync.widgets.upload.local import files_at, judged, make_small
from petsync.widgets.upload.panel import Panel

__all__ = ["UploadForm", "upload_images"]

_SIDE = 2000
_EVERY = 0.1
_LIMITS: WeakKeyDictionary[Store, int] = WeakKeyDictionary()
"""How many bytes a picture may have, where a service said so to one of its forms."""


def upload_images(store: Store, pet_id: int | None = None) -> UploadForm:
    """A form that uploads pictures to one pet: to this one, or one that is looked for in it.

    As plain functions: `pictures = store.pictures_of(7, ["a.jpg", "b.png"])`, which shows what
    would be sent, then `store.upload(pictures)`.
    """
    return UploadForm(store, pet_id)


class UploadForm(Form):
    """Chooses a pet, takes files, shows each, and sends them. `pet` is the chosen one, `items` the
    files, `report` what became of the last upload.
    """

    title = "Upload pictures"

    def __init__(self, store: Store, pet_id: int | None = None) -> None:
        super().__init__()
        self.store, self._pet_id = store, pet_id
        self.limit = _LIMITS.get(store)
        self.pet: Pet | None = None
        self.items: list[Item] = []
        self.report: Uploaded | None = None
        self._looked: Pictures | None = None
        self._is_looking = self._look_again = False
        self._task: Task[Uploaded] | None = None
        self._cancelling = Cancelling()
        self._sent: tuple[Item, ...] = ()
        self._panel: Panel | None = None
        self._count = 0
        self._drawn_at = 0.0

    def html(self) -> str:
        """The pet with its pictures' addresses, and what became of each file."""
        return still.html(self.title, self._pet_now(), self.report, self._pet_id)

    def text(self) -> str:
        """The same as plain text of at most 80 columns."""
        return still.text(self.title, self._pet_now(), self.report, self._pet_id)

    def choose(self, pet: Pet) -> None:
        """Make this the pet that gets the pictures."""
        if self._task is not None:
            raise SettingsError("an upload is under way", hint="Wait for its end, or stop it.")
        self.pet = pet
        if self._panel is not None:
            self._panel.choose(pet)
            if pet.id != self._pet_id:
                self.tell(f"{capital(of_pet(pet.id, shorten(pet.name or '', 60)))} is chosen.")
        self._look(anew=True)

    def add_file(self, path: Path, name: str = "", received: Received | None = None) -> None:
        """Take one more file, which is looked at at once."""
        self._take(path, name, received)
        self._look()

    def add_path(self, given: str) -> None:
        """Take the file of this path on the kernel's machine, or every file of this folder."""
        if not given.strip():
            raise SettingsError("no path is given", hint="Write, say, photos/bella.jpg.")
        for each in files_at(given):
            self._take(each)
        self._look()

    def _take(self, path: Path, name: str = "", received: Received | None = None) -> None:
        self._count += 1
        self.items.append(Item(str(self._count), name or path.name, path, received))

    def remove(self, key: str) -> None:
        """Take a file out of the list, or, while it is on its way, cancel it."""
        item = next((each for each in self.items if each.key == key), None)
        if item is None:
            return
        if self._task is not None and item.number is not None:
            self._cancelling.cancel(item.number)
            item.state, item.said = "cancelled", ""
        elif self._task is None:
            self.items.remove(item)
            if item.received is not None and self._panel is not None:
                self._panel.files.forget(item.received)
            self._look()
        self._draw()

    def close(self) -> None:
        """Stop what is under way, and take the widgets away."""
        super().close()
        self._panel = None

    # The widgets

    def _body(self) -> ipywidgets.Widget:
        finder = Finder(self.store, self.work, self.choose, self.notice)
        self._panel = panel = Panel(finder, self.store, self.work)
        self.search, self.find, self.pets = finder.search, finder.find, finder.table
        self.photos, self.files, self.listed = panel.photos.table, panel.files, panel.listed
        self.path, self.add, self.metadata = panel.path, panel.add, panel.metadata
        self.smaller, self.strip = panel.smaller, panel.strip
        self.go, self.stop, self.all, self.one = panel.go, panel.stop, panel.all, panel.one
        self._wire(panel)
        panel.takes(self.limit)
        if self.pet is not None:
            panel.choose(self.pet)
        elif self._pet_id is not None:
            finder.by_id(self._pet_id)
        self._draw()
        return panel.box

    def _wire(self, panel: Panel) -> None:
        guarded = self.work.guarded
        panel.files.on_file(guarded(lambda file: self.add_file(file.path, file.name, file)))
        panel.add.on_click(guarded(lambda _: self._add()))
        on_enter(panel.path, self.work, self._add)
        panel.listed.on_pick(guarded(self.remove))
        panel.listed.observe(guarded(lambda _: self._draw()), "page")
        panel.go.on_click(guarded(lambda _: self._send()))
        panel.stop.on_click(guarded(lambda _: self._stop()))
        for field in (panel.metadata, panel.smaller, panel.strip):
            field.observe(guarded(lambda _: self._look(anew=True)), "value")

    def _add(self) -> None:
        assert self._panel is not None
        self.add_path(self._panel.path.value)
        self._panel.path.value = ""

    def _draw(self) -> None:
        if self._panel is not None:
            self._panel.draw(self.items, self.pet, self._looked, is_sending=self._task is not None)

    # What the files are

    def _options(self) -> dict[str, Any]:
        panel = self._panel
        most = min(self.limit or LARGEST, LARGEST)
        if panel is None:
            return {"max_bytes": most}
        return {
            "metadata": panel.metadata.value.strip() or None,
            "max_side": _SIDE if panel.smaller.value else None,
            "strip_exif": panel.strip.value,
            "max_bytes": most,
        }

    def _look(self, *, anew: bool = False) -> None:
        """Look at the files that are not done, `anew` also at how those are that failed; returns at
        once. While that is under way, once more after it.
        """
        self._looked = None
        if self._task is not None:
            return
        for item in self.items:
            if anew and item.is_open:
                item.state, item.said = "looking", ""
        if self._is_looking:
            self._look_again = True
        elif items := [item for item in self.items if item.is_open]:
            self._is_looking = True
            self.work.start(
                self._look_at(items, self.pet),
                lambda found: self._seen(items, *found),
                self._unseen,
            )
        self._draw()

    async def _look_at(
        self, items: list[Item], pet: Pet | None
    ) -> tuple[Pictures | None, list[Picture | PictureProblem]]:
        await asyncio.to_thread(make_small, items)
        options = self._options()
        if pet is None or pet.id is None:
            options.pop("metadata", None)
            return None, await judged(items, PictureOptions(**options))
        paths = [item.path for item in items]
        found = await self.store.aio.pictures_of(pet.id, paths, **options)
        by_place: dict[int | None, Picture | PictureProblem] = {
            **{each.row: each for each in found.pictures},
            **{each.row: each for each in found.problems},
        }
        return found, [by_place[place] for place in range(len(items))]

    def _seen(
        self, items: list[Item], found: Pictures | None, each: list[Picture | PictureProblem]
    ) -> None:
        self._is_looking = False
        if self._look_again:
            self._look_again = False
            self._look()
            return
        for item, what in zip(items, each, strict=True):
            item.look(what)
        self._looked = found if items == [item for item in self.items if item.is_open] else None
        self._draw()

    def _unseen(self, error: PetsyncError) -> None:
        self._is_looking = self._look_again = False
        for item in self.items:
            item.not_looked(error.message)
        self._draw()
        self.fail(error)

    # The upload

    def _send(self) -> None:
        if self._task is not None:
            return
        if self._looked is None:
            if self.pet is None:
                raise SettingsError("no pet is chosen", hint="Find one by its name or id first.")
            raise SettingsError(
                "the files are still being looked at", hint="Press Upload once that is done."
            )
        pictures = self._looked
        if not pictures.items:
            raise SettingsError("there is nothing to upload", hint="Add pictures first.")
        self._begin(pictures)

    def _begin(self, pictures: Pictures) -> None:
        self.notice.clear()
        self.report, self._cancelling = None, Cancelling()
        looked_at = [item for item in self.items if item.is_open]
        self._sent = tuple(looked_at[picture.row or 0] for picture in pictures.items)
        for number, item in enumerate(self._sent):
            item.state, item.said, item.number = "waiting", "", number
        guarded = self.work.guarded
        self._task = self.work.start(
            self.store.aio.upload(
                pictures,
                on_file=guarded(self._step),
                on_progress=guarded(self._progress),
                cancelling=self._cancelling,
            ),
            self._ended,
            self._broken,
        )
        self._draw()
        # The button that was pressed can be pressed no more.
        self.heading.focus()

    def _step(self, step: FileProgress) -> None:
        item = self._sent[step.number]
        before = (item.state, item.said)
        item.follow(step)
        if step.result is not None:
            self._learn(item, step.result)
        if self._panel is None:
            return
        now = time.monotonic()
        is_new = before != (item.state, item.said)
        if is_new or now - self._drawn_at >= _EVERY:
            self._drawn_at = now
            self._panel.follow(item.name, step)
        if is_new:
            self._draw()

    def _progress(self, so_far: Uploading) -> None:
        if self._panel is not None:
            self._panel.progress(so_far)

    def _learn(self, item: Item, result: UploadedFile) -> None:
        """What the service says where something is too large for it, and the way out."""
        _, refused, said = result.message.partition(": 413")
        if not refused:
            return
        if limit := limit_in(said):
            self.limit = _LIMITS[self.store] = limit
            if self._panel is not None:
                self._panel.takes(limit)
        most = f" It takes at most {size(self.limit)}." if self.limit else ""
        item.state = "too large"
        item.said = (
            f"It is too large for the service, which said:{said}.{most} Tick “Make large pictures "
            "smaller”, or choose a smaller copy."
        )

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            if self._panel is not None:
                self._panel.stopping()
            self.heading.focus()

    def _ended(self, report: Uploaded) -> None:
        self._over(report)
        counts = report.counts
        left = sum(counts[each] for each in ("failed", "unknown", "conflict", "skipped"))
        done = f"{count(counts['applied'], 'picture')} uploaded"
        rest = f", {left:,} not: the list says why" if left else ""
        if any(_is_bad(each) for each in report.results):
            self.notice.warn(f"{done}{rest}.")
        else:
            self.notice.say(f"{done}{rest}.", done=not left)

    def _broken(self, error: PetsyncError) -> None:
        report = error.report if isinstance(error, InterruptedRunError) else None
        if isinstance(report, Uploaded):
            self._over(report)
            done = count(report.counts["applied"], "picture")
            why, rest = report.stopped.partition("\n")[0], "Upload does the rest, nothing twice."
            if why == "interrupted":
                self.tell(f"Stopped: {done} uploaded.", rest)
            else:
                self.notice.warn(f"Stopped: {why}", f"{done} uploaded. {rest}")
            return
        for item in self._sent:
            item.state, item.number = "looking", None
        self._over(None)
        self.fail(error)

    def _over(self, report: Uploaded | None) -> None:
        self._task, self.report, self._looked = None, report, None
        for picture, result in _pairs(self._sent, report):
            if picture.number is not None:
                picture.end(result)
                self._learn(picture, result)
        self._sent = ()
        if self._panel is not None:
            self._panel.over()
        self._look()
        if self.pet is not None and self.pet.id is not None:
            self.work.start(self.store.aio.look_up([self.pet.id]), self._again)
        self._draw()

    def _again(self, found: dict[int, Any]) -> None:
        """The pet with its new pictures."""
        for pet in found.values():
            if isinstance(pet, Pet) and self.pet is not None and pet.id == self.pet.id:
                self.pet = pet
                if self._panel is not None:
                    self._panel.choose(pet)
        self._draw()

    def _pet_now(self) -> Pet | PetsyncError | None:
        return still.pet_now(self.store, self.pet, self._pet_id)


def _is_bad(result: UploadedFile) -> bool:
    """Whether a person has to do something about it, who did not leave it out of their own will."""
    return result.outcome in ("failed", "unknown", "conflict") or result.cause in (
        "blocked",
        "held-back",
    )


def _pairs(items: tuple[Item, ...], report: Uploaded | None) -> list[tuple[Item, UploadedFile]]:
    if report is None:
        return []
    results = {result.row: result for result in report.results}
    return [
        (item, results[item.picture.row])
        for item in items
        if item.picture is not None and item.picture.row in results
    ]
