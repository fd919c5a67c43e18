"""Files: a place where files are dropped or picked; they come in pieces, however large they are.

ipywidgets' own FileUpload sends a file as one message, which Jupyter drops without a word above
10 MiB.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import traitlets as t

from petsync.widgets.parts.part import Part
from petsync.widgets.parts.received import Arriving, Received

__all__ = ["Files", "Received"]


class Files(Part, script="files.js"):
    """A labelled place for files. `accept` is as HTML has it (".xlsx,.csv" or "image/*"); a file
    larger than `most_bytes` (0: no limit) is not taken, and its sender told so, with the `way_out`.
    `received` are the files that came whole; with `listed` the person sees them in a list, and can
    remove them.

    Their content is in a private folder of this machine, until they are forgotten or the part is
    closed, or the kernel ends.
    """

    label = t.Unicode("Files").tag(sync=True)
    hint = t.Unicode("").tag(sync=True)
    accept = t.Unicode("").tag(sync=True)
    multiple = t.Bool(False).tag(sync=True)
    most_bytes = t.Int(0).tag(sync=True)
    way_out = t.Unicode("").tag(sync=True)
    disabled = t.Bool(False).tag(sync=True)
    listed = t.Bool(True)
    present = t.List(t.Dict()).tag(sync=True)
    received = t.Tuple(())
    arriving = t.Int(0)

    def __init__(self, **given: Any) -> None:
        self._whole: dict[str, Received] = {}
        super().__init__(**given)
        self._on_file: list[Callable[[Received], object]] = []
        self._on_forgotten: list[Callable[[Received], object]] = []
        self._folder: Path | None = None
        self._lock = threading.RLock()
        self._coming: dict[str, Arriving] = {}
        self._count = 0
        self.on_msg(self._heard)

    @t.observe("received", "listed")
    def _list(self, _: object) -> None:
        known = self._whole.items() if self.listed else ()
        self.present = [{"key": k, "name": f.name, "size": f.size} for k, f in known]

    def on_file(self, act: Callable[[Received], object]) -> None:
        """Call the function with each file that came whole (`form.work.guarded` around it)."""
        self._on_file.append(act)

    def on_forgotten(self, act: Callable[[Received], object]) -> None:
        """Call the function with each file that its sender takes back."""
        self._on_forgotten.append(act)

    def put(self, name: str, content: bytes) -> Received | None:
        """Do as if a person had dropped this file; None where it is refused."""
        key = f"put-{self._count}"
        self._heard(self, {"do": "begin", "file": key, "name": name, "size": len(content)}, [])
        self._heard(self, {"do": "piece", "file": key, "at": 0}, [content])
        self._heard(self, {"do": "end", "file": key}, [])
        return self._whole.get(key)

    def forget(self, file: Received) -> None:
        """Remove the file from this machine and from the list."""
        for key in [key for key, known in self._whole.items() if known == file]:
            self._drop(key)
            self.send({"gone": key})

    def close(self) -> None:
        """Take the part away, and everything that it received."""
        with self._lock:
            for key in list(self._coming):
                self._drop(key)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
            self._whole.clear()
        super().close()

    def _heard(self, _: object, content: dict[str, Any], buffers: list[Any]) -> None:
        key, do = content.get("file"), content.get("do")
        if not isinstance(key, str):
            return
        came = gone = None
        with self._lock:
            if do == "begin":
                self._begin(key, content)
            elif do == "piece" and buffers:
                self._piece(key, content.get("at"), bytes(buffers[0]))
            elif do == "end":
                came = self._end(key)
            elif do == "cancel":
                gone = self._cancel(key)
        # Not with the lock: what they call may wait for a form that closes this part.
        _tell(self._on_file, came)
        _tell(self._on_forgotten, gone)

    def _begin(self, key: str, said: dict[str, Any]) -> None:
        name, size = said.get("name"), said.get("size")
        if not isinstance(name, str) or not isinstance(size, int) or key in self._coming:
            return
        if why := self._refusal(name, str(said.get("type", "")), size):
            self.send({"refused": key, "why": why})
            return
        self._count += 1
        try:
            folder = self._private() / f"{self._count:04d}"
            self._coming[key] = Arriving(folder, name, size)
        except OSError as error:
            self._failed(key, error)
            return
        self.arriving = len(self._coming)
        self.send({"taken": key, "at": 0})

    def _piece(self, key: str, at: object, piece: bytes) -> None:
        file = self._coming.get(key)
        if file is None or not isinstance(at, int):
            return
        try:
            file.take(at, piece)
        except (OSError, ValueError) as error:
            self._failed(key, error)
        else:
            self.send({"taken": key, "at": file.so_far})

    def _end(self, key: str) -> Received | None:
        coming = self._coming.get(key)
        if coming is None:
            return None
        try:
            file = coming.whole()
        except (OSError, ValueError) as error:
            self._failed(key, error)
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

    def _cancel(self, key: str) -> Received | None:
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

    def _failed(self, key: str, error: Exception) -> None:
        self._drop(key)
        why = getattr(error, "strerror", None) or str(error)
        self.send({"refused": key, "why": f"It could not be taken: {why}."})

    def _refusal(self, name: str, kind: str, size: int) -> str:
        """Why this file is not taken, "" if it is; the browser judges by the same rules."""
        if self.disabled:
            return "Files are not taken at this moment."
        if not accepts(self.accept, name, kind):
            return f"It is of another kind than {self.accept.replace(',', ', ')}."
        if size < 0 or (self.most_bytes and size > self.most_bytes):
            return f"It is larger than {self.most_bytes:,} bytes. {self.way_out}".rstrip()
        return ""

    def _private(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="petsync-files-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


def _tell(acts: list[Callable[[Received], object]], file: Received | None) -> None:
    if file is not None:
        for act in acts:
            act(file)


def accepts(accept: str, name: str, kind: str) -> bool:
    """Whether a file of this name and MIME type is of a kind that is wanted (all, if none is
    named). What no type is known of is let through for a kind: its content is judged later.
    """
    wanted = [each.strip().lower() for each in accept.split(",") if each.strip()]
    return not wanted or any(
        name.lower().endswith(each)
        if each.startswith(".")
        else not kind or fnmatchcase(kind.lower(), each)
        for each in wanted
    )
