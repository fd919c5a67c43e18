"""Components of the forms: tables, notices, steps, buttons, and fields for files and secrets."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import threading
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Generic, TypeVar

import anywidget
import ipywidgets
import traitlets as t

from petsync._terms import replace_terms
from petsync.report import html
from petsync.settings import Secret

__all__ = [
    "FILTERS_FROM",
    "Files",
    "Fold",
    "Guarded",
    "Heading",
    "IncomingFile",
    "Link",
    "Meter",
    "Notice",
    "Pages",
    "Part",
    "ReceivedFile",
    "Row",
    "SecretField",
    "Steps",
    "Table",
    "asset",
    "button",
    "fold_case",
    "in_form",
    "matches",
    "safe_name",
    "show",
    "sort_key",
    "tick",
]


# Part: the base of petsync's widgets.


def asset(name: str) -> str:
    """Return a file of the `assets` folder as text."""
    return files("petsync.widgets").joinpath("assets", name).read_text("utf-8")


class Part(anywidget.AnyWidget):
    """A widget with JavaScript and a style sheet. It shows text as text, never as HTML.

    Any thread may change it. A front end that opens asks the kernel for the state of all widgets.
    Because the answer may arrive after newer updates, a part then sends again every trait that
    differs from the answer. It does not send the other traits, because the user may already have
    changed them.
    """

    _sending: ClassVar[threading.RLock] = threading.RLock()
    """Held while a state is read and sent, so that the newest state is sent last."""

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the state of these traits, by default of all."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        if key is None and self.comm is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(self._send_newer, {**state})
        return state

    def send_state(self, key: Any = None) -> None:
        """Send the state of these traits, by default of all, to the front end."""
        with self._sending:
            super().send_state([*self.keys] if key is None else key)

    def _send_newer(self, answer: Mapping[str, Any]) -> None:
        """Send the traits that have changed since the answer to a front end."""
        state = self.get_state([*answer])
        newer = [name for name, value in answer.items() if state[name] != value]
        if newer:
            self.send_state(newer)

    def __init_subclass__(
        cls,
        *,
        script: str = "",
        shared: Sequence[str] = (),
        styles: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Read the `script`, and the scripts and styles that it shares with petsync's pages."""
        # traitlets creates a subclass for each widget and does not pass `script`.
        if script:
            pages = map(html.asset, ("dom.js", *shared))
            cls._esm = "".join((*pages, asset("common.js"), asset(script)))
            cls._css = "".join((*map(_page_style, styles), asset("parts.css")))
        super().__init_subclass__(**options)


def _page_style(name: str) -> str:
    """Return a style sheet of petsync's pages that applies only to forms, and whose media queries
    test the width of the form instead of the window's.
    """
    style = html.asset(name).replace("@media (m", "@container (m")
    return f".petsync-form {{{style}}}\n"


# Messages in the language of a form.


_WAYS = ((r" \((?:--[a-z](?:[^()]|\([^()]*\))*?, )?in Python (?:[^()]|\([^()]*\))*\)", ""),)
"""How to do something in a shell and in Python, in parentheses, without an equivalent in a form."""


def in_form(text: str, terms: Iterable[tuple[str, str]]) -> str:
    """Return the text with a form's controls in place of commands, options and arguments. `terms`
    are the form's: regular expressions with their replacements.
    """
    return replace_terms(text, (*terms, *_WAYS))


# Buttons, checkboxes, and options that are hidden at first.


def button(text: str, *, primary: bool = False) -> ipywidgets.Button:
    """Return a button as wide as its text."""
    style = "primary" if primary else ""
    return ipywidgets.Button(description=text, button_style=style, layout={"width": "max-content"})


def tick(text: str = "", *, value: bool = False) -> ipywidgets.Checkbox:
    # Without `indent`, the checkbox is at the left, and its label has enough room.
    return ipywidgets.Checkbox(
        description=text, value=value, indent=False, layout={"width": "auto"}
    )


def show(widget: ipywidgets.DOMWidget, is_visible: bool) -> None:
    display = None if is_visible else "none"
    if widget.layout.display != display:
        widget.layout.display = display


class _FoldButton(Part, script="fold.js"):
    label = t.Unicode("").tag(sync=True)
    is_open = t.Bool(False).tag(sync=True)


class Fold(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A button with this title, and widgets that it shows and hides. They are hidden at first."""

    def __init__(self, title: str, children: Sequence[ipywidgets.Widget]) -> None:
        self._button, self._inner = _FoldButton(label=title), ipywidgets.VBox(children)
        show(self._inner, False)
        self._button.observe(lambda change: show(self._inner, change["new"]), "is_open")
        super().__init__([self._button, self._inner])

    @property
    def is_open(self) -> bool:
        return bool(self._button.is_open)

    def unfold(self) -> None:
        self._button.is_open = True


# Received files: a browser sends each file in pieces. Each file has its own folder and a safe name.


_MAX_BYTES = 120
"""The maximum length of a stored name, in bytes. File systems allow 255, but copies get longer
names.
"""
_MAX_SUFFIX = 12
_UNSAFE = re.compile(r"[^\w .()\-]")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A complete file. `name` is the sender's name for it, never to be used as a path; `path` is
    its content until the file is removed or its form is closed; `size` is in bytes.
    """

    name: str
    path: Path
    size: int


class IncomingFile:
    """A file that arrives in pieces; each piece is written immediately. No other user can read
    it. Raises OSError if it cannot be created, or if its name contains a NUL.
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
    characters, not hidden, and not too long. An extension of at most 12 characters, with its dot,
    is kept.
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

    A file is in a private folder on this machine until it is removed, the widget is closed, or the
    kernel ends.
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
        received = None
        with self._lock:
            if do == "begin":
                self._begin(key, content)
            elif do == "piece" and buffers:
                self._piece(key, content.get("at"), bytes(buffers[0]))
            elif do == "end":
                received = self._end(key)
            elif do == "cancel":
                self._cancel(key)
        # Without the lock: a callback may wait for a form that closes this widget.
        _tell(self._on_file, received)

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

    def _cancel(self, key: str) -> None:
        self._drop(key)
        self.send({"gone": key})

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
    shown: ClassVar[Future[None]] = Future()
    """It is done when a browser has shown a heading: the browser then knows all widgets of its
    page.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.on_msg(self._handle_message)

    def _handle_message(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("shown") and not self.shown.done():
            self.shown.set_result(None)

    def focus(self) -> None:
        """Move the focus here, for example when the focused element is removed or disabled."""
        self.send({"focus": True})


# Link: a URL to open in another tab or to copy, which must not be saved.


class Link(Part, script="link.js"):
    """A link with the text `label`, and a field from which the user can copy its URL. The URL (http
    or https) is sent as a message and is not stored in any widget's state, because it may contain a
    secret. Without a URL, the widget is hidden.
    """

    label = t.Unicode("").tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.url = ""
        self.on_msg(self._handle_message)

    def show(self, url: str) -> None:
        """Show the URL, and move the focus to the link."""
        self.url = url
        self.send({"url": url, "focus": True})

    def clear(self) -> None:
        """Remove the URL."""
        self.url = ""
        self.send({"url": ""})

    def _handle_message(self, _: object, content: dict[str, Any], __: object) -> None:
        # A reloaded page does not have the URL.
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
    """A message that screen readers announce. `tone` is "", "done", or "problem" (announced
    immediately); `text` is the message, and `hint` says what to do. The widget is hidden if `text`
    is empty.
    """

    text = t.Unicode("").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    tone = t.Enum(("", "done", "problem"), "").tag(sync=True)

    def say(self, text: str, hint: str = "", *, done: bool = False) -> None:
        self._show(text, hint, "done" if done else "")

    def warn(self, text: str, hint: str = "") -> None:
        self._show(text, hint, "problem")

    def clear(self) -> None:
        self._show("", "", "")

    def _show(self, text: str, hint: str, tone: str) -> None:
        with self.hold_sync():
            self.text, self.hint, self.tone = text, hint, tone


# SecretField: a field for a secret, which must not be saved.
#
# ipywidgets' Password keeps its text in the widget's state, which a notebook may save. Here, the
# text is sent as a message, is not stored in any state, and is cleared by `take`.


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


# Table: one page of rows, as in the table of a plan's page, with checkboxes, choices and buttons.


Row = dict[str, Any]


class Table(
    Part,
    script="table.js",
    shared=("table.js",),
    styles=("blocks.css", "page.css"),
):
    """One page of a table, with column titles that sort, a search field, and a pager. The owner
    fills `rows` when `page`, `search`, `sort` or `down` changes; see `Pages`.

    `columns` are dicts of `key`, `title`, `sorts` (whether the user can sort by it) and, except for
    text columns, `kind`: "advice" (a message, which is not folded when it is as long as petsync's
    messages are), "number", "value", "fields", "image", "link", "mark" or "choice". `rows`
    are dicts of `key` (unique text), `label` (the row's name for screen readers), `cells` (by the
    column's key), and optionally `tone` ("add", "update", "delete", "conflict", "problem", "done",
    "muted") and `fixed` (cannot be ticked).

    A cell is text, even for an id (a browser rounds large numbers). For a "value" it is a list of
    one value, or of the values before and after; instead of values it may have lists of items, such
    as tags: all items, or those added and those removed. For "fields" it is a list of dicts: only
    `text`, or `name`, `values` (as for a "value") and optionally `warning`. For an "image" it is
    `{"src", "alt"}` with a data: URL; for a "link" `{"href", "text"}` (http and https only); for a
    "mark" `{"symbol", "text"}`; for a "choice" `{"options": [[value, title], …], "value",
    "label"}`. All content is shown as text, never as HTML.

    The user changes `ticked` (keys of this page's rows), `page`, `search`, `sort` (a column's key),
    `down` (descending order), and `chosen` (row key → column key → value). A row's button, whose
    text is `pick`, sends `picked`. `total` is the number of rows that match, and `all` the number
    of rows without filters.
    """

    caption = t.Unicode("").tag(sync=True)
    empty = t.Unicode("There is nothing to show.").tag(sync=True)
    columns = t.List(t.Dict()).tag(sync=True)
    rows = t.List(t.Dict()).tag(sync=True)
    page = t.Int(0).tag(sync=True)
    pages = t.Int(1).tag(sync=True)
    total = t.Int(0).tag(sync=True)
    all = t.Int(0).tag(sync=True)
    searchable = t.Bool(False).tag(sync=True)
    search = t.Unicode("").tag(sync=True)
    sort = t.Unicode("").tag(sync=True)
    down = t.Bool(False).tag(sync=True)
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


# Pages: a Table filled page by page from a long list, sorted and searched as the user asks. Only
# the page is sent to the browser.


T = TypeVar("T")
Guarded = Callable[[Callable[..., object]], Callable[..., None]]
FILTERS_FROM = 10
"""The number of rows from which a table has a search field, and a form has filters."""
_NUMBER = re.compile(r"-?\d{1,20}")
_ADDRESS = re.compile(r"(.*!)?([A-Z]{1,3})(\d{1,7})", re.DOTALL)


class Pages(Generic[T]):
    """Fills the table's pages of `size` rows from items. `row` returns an item's row, `key` an
    item's sort key in a column, and `find` the items that match a text. Without `key` and `find`,
    the items' rows are sorted and searched, which is slow for long lists. `found` are all items
    that match, in the order shown. `on_found` is called each time the table has been filled.

    `ticked` returns whether an item's row is ticked; `on_tick` gets the items that the user ticks
    or unticks, and true if they are now ticked.
    """

    def __init__(
        self,
        table: Table,
        row: Callable[[T], Row],
        guarded: Guarded,
        *,
        size: int = 25,
        key: Callable[[T, str], Any] | None = None,
        find: Callable[[Sequence[T], str], Sequence[T]] | None = None,
        on_found: Callable[[], object] = lambda: None,
        ticked: Callable[[T], bool] | None = None,
        on_tick: Callable[[list[T], bool], object] | None = None,
    ) -> None:
        self.table, self._row, self._size = table, row, size
        self._key, self._find, self._on_found = key, find, on_found
        self._ticked, self._on_tick = ticked, on_tick
        self.found: Sequence[T] = ()
        self._items: Sequence[T] = ()
        self._filling = False
        self._page, self._order = 0, ("", "", False)
        table.observe(guarded(self._follow), ["page", "search", "sort", "down"])
        table.observe(guarded(self._take_ticks), "ticked")

    @property
    def shown(self) -> list[T]:
        """The items on the visible page."""
        start = self.table.page * self._size
        return list(self.found[start : start + self._size])

    def show(
        self,
        items: Sequence[T],
        *,
        total: int | None = None,
        keep: bool = False,
        are_new: bool = False,
    ) -> None:
        """Show the first page of these items, or the current page if `keep`. `total` is the
        number of items before the form's filters. With `are_new`, the search is cleared.
        """
        self._items = items
        if are_new:
            self._filling = True
            self.table.search = ""
            self._filling = False
        self._total = len(items) if total is None else total
        self._arrange()
        self._fill(self.table.page if keep else 0)

    def redraw(self) -> None:
        """Show the visible page again: its rows have changed."""
        self._fill(self.table.page)

    def _arrange(self) -> None:
        table, found = self.table, self._items
        self._order = table.search, table.sort, table.down
        if words := table.search.strip():
            found = self._find(found, words) if self._find else self._find_in_rows(found, words)
        if any(each["key"] == table.sort for each in table.columns):
            keys = self._keys(found, table.sort)
            order = sorted(range(len(found)), key=keys.__getitem__, reverse=table.down)
            found = [found[place] for place in order]
        self.found = found

    def _keys(self, items: Sequence[T], column: str) -> list[Any]:
        if self._key is not None:
            return [self._key(item, column) for item in items]
        return [sort_key(_text_of(self._row(item)["cells"].get(column)), column) for item in items]

    def _find_in_rows(self, items: Sequence[T], text: str) -> list[T]:
        return [
            item
            for item in items
            if matches("\n".join(map(_text_of, self._row(item)["cells"].values())), text)
        ]

    def _follow(self, _: object) -> None:
        """Show what the user asked for, only once if a click changes several traits."""
        if self._filling:
            return
        table = self.table
        if (table.search, table.sort, table.down) != self._order:
            self._arrange()
            self._fill(0)
        elif table.page != self._page:
            self._fill(table.page)

    def _fill(self, page: int) -> None:
        pages = max(-(-len(self.found) // self._size), 1)
        self._filling = True
        try:
            with self.table.hold_sync():
                self._page = self.table.page = min(max(page, 0), pages - 1)
                self.table.pages = pages
                self.table.total, self.table.all = len(self.found), self._total
                self.table.searchable = self._total >= FILTERS_FROM or bool(self.table.search)
                self.table.chosen = {}
                self.table.rows = [self._row(item) for item in self.shown]
                self._put_ticks()
        finally:
            self._filling = False
        self._on_found()

    def _put_ticks(self) -> None:
        ticked = self._ticked
        keys = ((row["key"], item) for row, item in zip(self.table.rows, self.shown, strict=True))
        self.table.ticked = [key for key, item in keys if ticked(item)] if ticked else []

    def _take_ticks(self, _: object) -> None:
        if self._filling or self._on_tick is None or self._ticked is None:
            return
        shown = {row["key"]: item for row, item in zip(self.table.rows, self.shown, strict=True)}
        ticked = set(self.table.ticked)
        if not ticked <= shown.keys():
            # The ticks include rows of an earlier page; they must not apply to this page.
            self._refill()
            return
        for on in (True, False):
            changed = [
                item
                for key, item in shown.items()
                if (key in ticked) is on and self._ticked(item) is not on
            ]
            if changed:
                self._on_tick(changed, on)

    def _refill(self) -> None:
        self._filling = True
        try:
            self._put_ticks()
        finally:
            self._filling = False


def sort_key(text: str, column: str = "") -> tuple[int, int, tuple[str | int, ...]]:
    """Return the sort key for a cell's text. Numbers are sorted by value, addresses in a sheet
    (column `where`) by row, and other texts by their letters and the numbers in them; empty texts
    come last.
    """
    if _NUMBER.fullmatch(text):
        return 0, int(text), ()
    if column == "where" and (found := _ADDRESS.fullmatch(text)):
        tab, column, row = found.groups()
        return 1, int(row), (tab or "", len(column), column)
    parts = re.split(r"(\d{1,18})", fold_case(text))
    return (
        2 if text else 3,
        0,
        tuple(int(part) if n % 2 else part for n, part in enumerate(parts)),
    )


def matches(text: str, words: str) -> bool:
    """Whether the text contains each of the words, whatever their case and accents."""
    text = fold_case(text)
    return all(word in text for word in fold_case(words).split())


def fold_case(text: str) -> str:
    """Return the text in lower case and without accents, for comparisons."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text)
    return "".join(char for char in plain if not unicodedata.combining(char)).casefold()


def _text_of(cell: Any) -> str:
    """The text by which a cell of any kind is searched and sorted."""
    return "\n".join(_iter_texts(cell))


def _iter_texts(cell: Any) -> Iterator[str]:
    if isinstance(cell, dict):
        for key, value in cell.items():
            if key not in ("src", "options", "label", "symbol"):
                yield from _iter_texts(value)
    elif isinstance(cell, list | tuple):
        for each in cell:
            yield from _iter_texts(each)
    elif cell is not None:
        yield str(cell)
