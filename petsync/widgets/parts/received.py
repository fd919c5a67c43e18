"""A file that a browser sends in pieces, taken into a folder of its own under a safe name."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Arriving", "Received", "safe_name"]

_MOST_BYTES = 120
"""So long may a stored name be; file systems take 255 bytes, and copies get longer names."""
_UNSAFE = re.compile(r"[^\w .()\-]")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Received:
    """A file that came whole: `name` as its sender calls it, never to be used as a path; `path`
    where its content is, until it is forgotten or its form is closed; `size` in bytes.
    """

    name: str
    path: Path
    size: int


class Arriving:
    """A file of which pieces come, written as they do; readable by nobody else. OSError where it
    cannot be, or where its name has a NUL, which whoever named it did not type.
    """

    def __init__(self, folder: Path, name: str, size: int) -> None:
        if "\0" in name:
            raise OSError(0, "its name is none that a file can have")
        folder.mkdir(mode=0o700)
        self.name, self.size, self.so_far = name, size, 0
        self.path = folder / safe_name(name)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def take(self, at: int, piece: bytes) -> None:
        """The next piece, written; ValueError if it is not the next one, or one too many."""
        if at != self.so_far or at + len(piece) > self.size:
            raise ValueError("a piece of the file is missing")
        view = memoryview(piece)
        while view:
            view = view[os.write(self._file, view) :]
        self.so_far += len(piece)

    def whole(self) -> Received:
        """The file, closed; ValueError if something of it is missing."""
        self.drop()
        if self.so_far != self.size:
            raise ValueError("the file's end is missing")
        return Received(self.name, self.path, self.size)

    def drop(self) -> None:
        """Close it as it is; whoever calls removes its folder."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def safe_name(name: str) -> str:
    """The name as that of a file in a folder, on any system: no separators, nothing hidden, no
    control or formatting marks, and not too long. Its ending stays.
    """
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    said = _UNSAFE.sub("_", last).strip(" .")
    if not said or _DEVICES.fullmatch(said):
        said = f"file_{said}".rstrip("_")
    ending = PurePosixPath(said).suffix[:12]
    stem = said.removesuffix(ending).encode()[: _MOST_BYTES - len(ending.encode())]
    return stem.decode(errors="ignore").rstrip(" .") + ending
