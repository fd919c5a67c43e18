"""History: every round that ever was, one a line of a file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from petsync._file import make_private_folder, open_private
from petsync.diff.round import Round
from petsync.errors import PetsyncError
from petsync.reconcile.kept import Kept

__all__ = ["History"]

_LOG = logging.getLogger(__name__)


class History:
    """The rounds of the jobs that share a state folder."""

    def __init__(self, state: str | Path) -> None:
        self.path = Kept(Path(state)).history

    def append(self, told: Round) -> None:
        """Add a round; it is on the disk when this returns. Raises PetsyncError."""
        line = msgspec.json.encode(told) + b"\n"
        try:
            make_private_folder(self.path.parent)
            with open(self.path, "ab+", opener=open_private) as file:
                file.write(line if _ends_well(file) else b"\n" + line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise PetsyncError(
                f"{self.path} cannot be written: {error.strerror}",
                hint="Check free space and permission there; the round itself is done.",
            ) from None

    def rounds(self, job: str = "", limit: int | None = None) -> list[Round]:
        """The rounds, or those of a job, the oldest first; with `limit` that many of the newest.

        Lines that a crash or another program left are passed over. Raises PetsyncError where the
        file cannot be read.
        """
        found = [told for told in self._all() if not job or told.job == job]
        return found if limit is None else found[max(0, len(found) - limit) :]

    def _all(self) -> Iterator[Round]:
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise PetsyncError(f"{self.path} cannot be read: {error.strerror}") from None
        torn = 0
        for line in filter(None, lines):
            try:
                yield msgspec.json.decode(line, type=Round)
            except (msgspec.DecodeError, UnicodeDecodeError):
                torn += 1
        if torn:
            _LOG.warning("%s: %d lines are no rounds, and are passed over", self.path, torn)


def _ends_well(file: BinaryIO) -> bool:
    """Whether a crash left no half line at the end."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
