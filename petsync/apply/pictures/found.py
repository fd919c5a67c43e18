"""Found: the files that are to be looked at, and those that are not, before any is opened."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from petsync.diff.pictures import PictureProblem

__all__ = ["Candidate", "Found", "content_of", "is_within"]

LARGEST = 256 * 1024 * 1024
"""No file is read that is larger, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that is a picture of this pet, as somebody says."""

    path: Path
    file: str
    pet_id: int
    place: int = 0
    source: str = ""
    row: int | None = None
    metadata: str | None = None

    def problem(self, why: str, cure: str = "") -> PictureProblem:
        """That this file is not uploaded."""
        return PictureProblem(
            file=self.file,
            problem=why,
            cure=cure,
            pet_id=self.pet_id,
            source=self.source,
            row=self.row,
        )


@dataclass(slots=True)
class Found:
    """What a folder or a sheet names. `ignored` counts what is passed over without a word."""

    candidates: list[Candidate] = field(default_factory=list)
    problems: list[PictureProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: int = 0


def is_within(path: Path, folder: Path) -> bool:
    """Whether the file really lies in the folder (resolved), its links followed.

    Raises OSError where that cannot be told.
    """
    # Path.resolve raises something else for a link that leads to itself.
    return Path(os.path.realpath(path, strict=True)).is_relative_to(folder)


def content_of(path: Path) -> bytes:
    """The file's bytes. Raises OSError, also for what is no ordinary file or larger than 256 MiB;
    never waits for a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except ValueError:
        raise OSError(0, "its name is none that a file can have") from None
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is no ordinary file")
        if state.st_size > LARGEST:
            raise OSError(0, f"it has {state.st_size / 2**20:,.0f} MiB, which is never read")
        # What it has grown by meanwhile is another picture's affair.
        return file.read(LARGEST)


_BINARY: int = getattr(os, "O_BINARY", 0)
