"""Components of forms that ipywidgets lacks: tables, file drops, notices, secrets, steps."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import unicodedata
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import anywidget
import traitlets as t

from petsync.settings import Secret

__all__ = [
    "Files",
    "Heading",
    "IncomingFile",
    "Link",
    "Meter",
    "Notice",
    "Part",
    "ReceivedFile",
    "SecretField",
    "Steps",
    "Table",
    "asset",
    "safe_name",
]


# Part: the base of petsync's own widgets.


def asset(name: str) -> str:
    """Return a file of the `assets` folder as text."""
    return files("petsync.widgets").joinpath("assets", name).read_text("utf-8")


class Part(anywidget.AnyWidget):
    """A widget with its own JavaScript and style sheet. It shows text as text, never as HTML."""

    def __init_subclass__(cls, *, script: str = "", **options: Any) -> None:
        # traitlets creates a subclass for each widget and does not pass `script`.
        if script:
            cls._esm, cls._css = asset("common.js") + asset(script), asset("parts.css")
        super().__init_subclass__(**options)


# Received files: a browser sends each in pieces, into its own folder, under a safe name.


_MAX_BYTES = 120
"""The maximum length of a stored name, in bytes. File systems allow 255, and copies get longer
names.
"""
_MAX_SUFFIX = 12
_UNSAFE = re.compile(r"[^\w .()\-]")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A complete file. `name` is the sender's name for it, never to be used as a path; `path`
    holds the content until the file is removed or its form is closed; `size` is in bytes.
    """

    name: str
    path: Path
    size: int


class IncomingFile:
    """A file that arrives in pieces, each of which is written at once. No other user can read it.
    Raises OSError if it cannot be created, or if its name contains a NUL.
    """

    def __init__(self, folder: Path, name: str, size: int) -> None:
        if "\0" in name:
            raise OSError(0, "its name is not a valid file name")
        folder.mkdir(mode=0o700)
        self.name, self.size, self.so_far = name, size, 0
        self.path = folder / safe_name(name)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def take(self, offset: int, piece: bytes) -> None:
        """Write the next piece. Raises ValueError for any other piece, or for too many bytes, and
        OSError if it cannot be written.
        """
        if offset != self.so_far or offset + len(piece) > self.size:
            raise ValueError("a piece of the file is missing")
        view = memoryview(piece)
        while view:
            view = view[os.write(self._file, view) :]
        self.so_far += len(piece)

    def finish(self) -> ReceivedFile:
        """Close the file and return it. Raises ValueError if its end is missing."""
        self.drop()
        if self.so_far != self.size:
            raise ValueError("the file's end is missing")
        return ReceivedFile(self.name, self.path, self.size)

    def drop(self) -> None:
        """Close the file; the caller removes its folder."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def safe_name(name: str) -> str:
    """Return the name as a valid file name on any system: without separators, control or format
    characters, not hidden, and not too long. The extension is kept; a text of more than 12
    characters from the last dot on is none.
    """
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    cleaned = _UNSAFE.sub("_", last).strip(" .")
    if not cleaned or _DEVICES.fullmatch(cleaned):
        cleaned = f"file_{cleaned}".rstrip("_")
    suffix = PurePosixPath(cleaned).suffix
    ending = suffix if len(suffix) <= _MAX_SUFFIX else ""
    stem = cleaned.removesuffix(ending).encode()[: _MAX_BYTES - len(ending.encode())]
    return stem.decode(errors="ignore").rstrip(" .") + ending


# Files: a field for files of any size, dropped or picked, which arrive in pieces.
#
# ipywidgets' FileUpload sends a file as one message, which Jupyter drops without an error above
# 10 MiB.


class Files(Part, script="files.js"):
    """A labelled field for files. `accept` is as in HTML (".xlsx,.csv" or "image/*"). A file larger
    than `max_bytes` (0: no limit) is refused; the message ends with `way_out`. `received` has the
    complete files; if `listed`, the user sees them in a list and can remove them.

    Their content is in a private folder on this machine until the file is removed, the widget is
    closed, or the kernel ends.
    """

    label = t.Unicode("Files").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    accept = t.Unicode("").tag(sync=True)
    multiple = t.Bool(False).tag(sync=True)
    max_bytes = t.Int(0).tag(sync=True)
    way_out = t.Unicode("").tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)
    listed = t.Bool(True)
    present = t.List(t.Dict()).tag(sync=True)
    received = t.Tuple(())
    arriving = t.Int(0)

    def __init__(self, **given: Any) -> None:
        self._whole: dict[str, ReceivedFile] = {}
        super().__init__(**given)
        self._on_file: list[Callable[[ReceivedFile], object]] = []
        self._on_forgotten: list[Callable[[ReceivedFile], object]] = []
        self._folder: Path | None = None
        self._lock = threading.RLock()
        self._coming: dict[str, IncomingFile] = {}
        self._count = 0
        self.on_msg(self._handle_message)

    @t.observe("received", "listed")
    def _list(self, _: object) -> None:
        listed_files = self._whole.items() if self.listed else ()
        self.present = [{"key": k, "name": f.name, "size": f.size} for k, f in listed_files]

    def on_file(self, act: Callable[[ReceivedFile], object]) -> None:
        """Call the function with each complete file. Wrap it in `form.work.wrap_callback`."""
        self._on_file.append(act)

    def on_forgotten(self, act: Callable[[ReceivedFile], object]) -> None:
        """Call the function with each file that the user removes."""
        self._on_forgotten.append(act)

    def put(self, name: str, content: bytes) -> ReceivedFile | None:
        """Add a file as if the user had dropped it; return None if it is refused."""
        key = f"put-{self._count}"
        self._handle_message(
            self, {"do": "begin", "file": key, "name": name, "size": len(content)}, []
        )
        self._handle_message(self, {"do": "piece", "file": key, "at": 0}, [content])
        self._handle_message(self, {"do": "end", "file": key}, [])
        return self._whole.get(key)

    def forget(self, file: ReceivedFile) -> None:
        """Remove the file from this machine and from the list."""
        for key in [key for key, stored_file in self._whole.items() if stored_file == file]:
            self._drop(key)
            self.send({"gone": key})

    def close(self) -> None:
        """Remove the widget and all received files."""
        with self._lock:
            for key in list(self._coming):
                self._drop(key)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
            self._whole.clear()
        super().close()

    def _handle_message(self, _: object, content: dict[str, Any], buffers: list[Any]) -> None:
        key, do = content.get("file"), content.get("do")
        if not isinstance(key, str):
            return
        received = removed = None
        with self._lock:
            if do == "begin":
                self._begin(key, content)
            elif do == "piece" and buffers:
                self._piece(key, content.get("at"), bytes(buffers[0]))
            elif do == "end":
                received = self._end(key)
            elif do == "cancel":
                removed = self._cancel(key)
        # Without the lock: a callback may wait for a form that closes this widget.
        _tell(self._on_file, received)
        _tell(self._on_forgotten, removed)

    def _begin(self, key: str, metadata: dict[str, Any]) -> None:
        name, size = metadata.get("name"), metadata.get("size")
        if not isinstance(name, str) or not isinstance(size, int) or key in self._coming:
            return
        if refusal := self._refusal(name, str(metadata.get("type", "")), size):
            self.send({"refused": key, "why": refusal})
            return
        self._count += 1
        try:
            folder = self._private_folder() / f"{self._count:04d}"
            self._coming[key] = IncomingFile(folder, name, size)
        except OSError as error:
            self._refuse(key, error)
            return
        self.arriving = len(self._coming)
        self.send({"taken": key, "at": 0})

    def _piece(self, key: str, offset: object, piece: bytes) -> None:
        file = self._coming.get(key)
        if file is None or not isinstance(offset, int):
            return
        try:
            file.take(offset, piece)
        except (OSError, ValueError) as error:
            self._refuse(key, error)
        else:
            self.send({"taken": key, "at": file.so_far})

    def _end(self, key: str) -> ReceivedFile | None:
        coming = self._coming.get(key)
        if coming is None:
            return None
        try:
            file = coming.finish()
        except (OSError, ValueError) as error:
            self._refuse(key, error)
            return None
        del self._coming[key]
        self.arriving = len(self._coming)
        if not self.multiple:
            for earlier in self.received:
                self.forget(earlier)
        self._whole[key] = file
        self.received = (*self.received, file)
        self.send({"whole": key})
        return file

    def _cancel(self, key: str) -> ReceivedFile | None:
        file = self._whole.get(key)
        self._drop(key)
        self.send({"gone": key})
        return file

    def _drop(self, key: str) -> None:
        coming, whole = self._coming.pop(key, None), self._whole.pop(key, None)
        self.arriving = len(self._coming)
        if coming is not None:
            coming.drop()
        if whole is not None:
            self.received = tuple(file for file in self.received if file != whole)
        if file := coming or whole:
            shutil.rmtree(file.path.parent, ignore_errors=True)

    def _refuse(self, key: str, error: Exception) -> None:
        self._drop(key)
        reason = getattr(error, "strerror", None) or str(error)
        self.send({"refused": key, "why": f"It could not be stored: {reason}."})

    def _refusal(self, name: str, kind: str, size: int) -> str:
        """Return the reason why this file is refused, "" if it is accepted. The browser applies the
        same rules.
        """
        if self.disabled:
            return "No files are accepted at the moment."
        if not accepts(self.accept, name, kind):
            return f"Only these kinds are accepted: {self.accept.replace(',', ', ')}."
        if size < 0 or (self.max_bytes and size > self.max_bytes):
            return f"It is larger than {self.max_bytes:,} bytes. {self.way_out}".rstrip()
        return ""

    def _private_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="petsync-files-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def _tell(acts: list[Callable[[ReceivedFile], object]], file: ReceivedFile | None) -> None:
    if file is not None:
        for act in acts:
            act(file)


def accepts(accept: str, name: str, kind: str) -> bool:
    """Whether `accept` allows a file with this name and MIME type; an empty `accept` allows all. A
    file without a type passes every MIME pattern, because its content is checked later.
    """
    patterns = [each.strip().lower() for each in accept.split(",") if each.strip()]
    return not patterns or any(
        name.lower().endswith(each)
        if each.startswith(".")
        else not kind or fnmatchcase(kind.lower(), each)
        for each in patterns
    )


# Heading: the title of a form, also for screen readers.


class Heading(Part, script="heading.js"):
    """A heading of `level` 1 to 6, which labels the enclosing form as a region of the page."""

    text = t.Unicode("").tag(sync=True)
    level = t.Int(3).tag(sync=True)

    def focus(self) -> None:
        """Move the focus here, for example when the focused element is removed or disabled."""
        self.send({"focus": True})


# Link: an address to open in another tab or to copy, which must not be saved.


class Link(Part, script="link.js"):
    """A link with the text `label`, and a field to copy its address from. The address (http or
    https) is sent as a message and is not stored in any widget's state, because it may be a
    secret. Without an address, the widget is hidden.
    """

    label = t.Unicode("").tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.url = ""
        self.on_msg(self._handle_message)

    def show(self, url: str) -> None:
        """Show the address, and move the focus to the link."""
        self.url = url
        self.send({"url": url, "focus": True})

    def clear(self) -> None:
        """Remove the address."""
        self.url = ""
        self.send({"url": ""})

    def _handle_message(self, _: object, content: dict[str, Any], __: object) -> None:
        # A reloaded page does not have the address.
        if content.get("ready") is True:
            self.send({"url": self.url})


# Meter: a progress bar, also for screen readers.


class Meter(Part, script="meter.js"):
    """A labelled progress bar: `done` of `total` (0 if it is unknown), with `text` beside it. It is
    hidden unless `shown`.
    """

    label = t.Unicode("").tag(sync=True)
    text = t.Unicode("").tag(sync=True)
    done = t.Float(0.0).tag(sync=True)
    total = t.Float(0.0).tag(sync=True)
    shown = t.Bool(False).tag(sync=True)


# Notice: a form's messages, also for screen readers.


class Notice(Part, script="notice.js"):
    """A message that screen readers announce. `tone` is "", "done", or "problem" (announced at
    once); `text` is the message, and `hint` says what to do. The widget is hidden if `text` is
    empty.
    """

    text = t.Unicode("").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    tone = t.Enum(("", "done", "problem"), "").tag(sync=True)

    def say(self, text: str, hint: str = "", *, done: bool = False) -> None:
        """Show a message."""
        self._show(text, hint, "done" if done else "")

    def warn(self, text: str, hint: str = "") -> None:
        """Show an error."""
        self._show(text, hint, "problem")

    def clear(self) -> None:
        """Clear the message."""
        self._show("", "", "")

    def _show(self, text: str, hint: str, tone: str) -> None:
        with self.hold_sync():
            self.text, self.hint, self.tone = text, hint, tone


# SecretField: a field for a secret, which must not be saved.
#
# ipywidgets' Password keeps its text in the widget's state, which a notebook may save. Here, the
# text is sent as a message, is not stored in any state, and is cleared when it is read.


class SecretField(Part, script="secret.js"):
    """A labelled field for a secret. If `masked`, it shows dots instead of the input; `hint` is the
    placeholder. `value` is the current input; it is not a trait, so nothing saves it.
    """

    label = t.Unicode("").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    masked = t.Bool(True).tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._secret = Secret("")
        self._on_enter: list[Callable[[], object]] = []
        self.on_msg(self._handle_message)

    @property
    def value(self) -> str:
        """The current input."""
        return self._secret.reveal()

    @value.setter
    def value(self, text: str) -> None:
        self._secret = Secret(text)

    def take(self) -> Secret:
        """Return the input, and clear the field, in the browser too."""
        secret, self._secret = self._secret, Secret("")
        self.send({"clear": True})
        return secret

    def on_enter(self, act: Callable[[], object]) -> None:
        """Call the function when Enter is pressed in the field."""
        self._on_enter.append(act)

    def _handle_message(self, _: object, content: dict[str, Any], __: object) -> None:
        text = content.get("text")
        if isinstance(text, str):
            self._secret = Secret(text)
        if content.get("enter") is True:
            for act in self._on_enter:
                act()


# Steps: the navigation between the steps of a page.


class Steps(Part, script="steps.js"):
    """Numbered steps, of which one is visible.

    `steps` are dicts of `key`, `title`, and optionally `done`, `disabled`, or `aside` (beside the
    sequence, without a number). The user changes `current`, the key of the visible step.
    """

    label = t.Unicode("Steps").tag(sync=True)
    steps = t.List(t.Dict()).tag(sync=True)
    current = t.Unicode("").tag(sync=True)


# Table: one page of rows as a plain HTML table, with ticks, choices and buttons.


class Table(Part, script="table.js"):
    """One page of a table, with a pager. The owner fills `rows` when `page` changes.

    `columns` are dicts of `key`, `title` and, except for text columns, `kind`: "number", "change",
    "image", "link", "mark" or "choice". `rows` are dicts of `key` (unique text), `label` (the row's
    name for screen readers), `cells` (by the column's key), and optionally `tone` ("add", "update",
    "delete", "conflict", "problem", "done", "muted") and `fixed` (cannot be ticked).

    A cell is text, also for an id (a browser rounds large numbers); for a "change" it is
    `{"before", "after"}` (either may be None); for an "image" `{"src", "alt"}` with a data:
    address; for a "link" `{"href", "text"}` (http and https only); for a "mark" `{"symbol",
    "text"}`; for a "choice" `{"options": [[value, title], …], "value", "label"}`. All content is
    shown as text, never as HTML.

    The user changes `ticked` (keys of this page's rows), `page`, and `chosen` (row key → column
    key → value). A row's button, whose text is `pick`, sends `picked`.
    """

    caption = t.Unicode("").tag(sync=True)
    empty = t.Unicode("There is nothing to show.").tag(sync=True)
    columns = t.List(t.Dict()).tag(sync=True)
    rows = t.List(t.Dict()).tag(sync=True)
    page = t.Int(0).tag(sync=True)
    pages = t.Int(1).tag(sync=True)
    total = t.Int(0).tag(sync=True)
    tickable = t.Bool(False).tag(sync=True)
    ticked = t.List(t.Unicode()).tag(sync=True)
    chosen = t.Dict().tag(sync=True)
    pick = t.Unicode("").tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._on_pick: list[Callable[[str], object]] = []
        self.on_msg(self._handle_message)

    def on_pick(self, act: Callable[[str], object]) -> None:
        """Call the function with a row's key when its button is pressed."""
        self._on_pick.append(act)

    def focus(self, key: str, column: str) -> None:
        """Move the focus to the choice in this row and column, or else to the table."""
        self.send({"focus": f"choice {column} {key}"})

    def press(self, key: str) -> None:
        """Act as if the user had pressed the row's button."""
        for act in self._on_pick:
            act(key)

    def _handle_message(self, _: object, content: dict[str, Any], __: object) -> None:
        key = content.get("picked")
        if isinstance(key, str):
            self.press(key)
