"""Kept: what a reconciliation keeps below the state folder, and where."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from petsync._file import check_state_folder, make_folder, make_private_folder, no_link, replace
from petsync.errors import PetsyncError

__all__ = ["Kept", "file_name", "write"]

_LONGEST = 120
_SAFE = " -_."


@dataclass(frozen=True, slots=True)
class Kept:
    """The places below a state folder; nothing is made or read here."""

    state: Path

    def check(self) -> None:
        """Raise PetsyncError where a symbolic link leads out of the state folder."""
        try:
            check_state_folder(self.state)
        except OSError as error:
            raise PetsyncError(
                f"the state folder {self.state} cannot be used: {error.strerror}",
                hint="Remove the link, or name another folder: --state, or state in petsync.toml.",
            ) from None

    @property
    def folder(self) -> Path:
        """All of it."""
        return self.state / "reconcile"

    @property
    def history(self) -> Path:
        """Every round, one a line."""
        return self.folder / "history.jsonl"

    def lock(self, job: str) -> Path:
        """Held while a round of the job is at work."""
        return self.folder / "locks" / f"{file_name(job)}.lock"

    def turn(self, store: str) -> Path:
        """Held by the job that sends to a store, while others wait."""
        digest = hashlib.sha256(store.encode()).hexdigest()[:16]
        return self.folder / "locks" / f"store.{digest}.lock"

    def base(self, job: str, part: str = "") -> Path:
        """What both sides last agreed on."""
        return self.folder / "bases" / f"{file_name(job, part)}.base"

    def versions(self, job: str, part: str = "") -> Path:
        """The folder of what was last written into the sheet."""
        return self.folder / "versions" / file_name(job, part)

    def is_part(self, path: Path, job: str) -> bool:
        """Whether what is kept there is of a sheet of the job's folder."""
        return path.name.startswith(quote(f"{job}--", safe=_SAFE))

    def begun(self, job: str, part: str = "") -> Path:
        """Which plan the job is about to apply, or was when it was killed."""
        return self.folder / "begun" / f"{file_name(job, part)}.json"

    def waiting(self, job: str, part: str = "", *, side: str = "") -> Path:
        """The plan that waits for a person; that of the sheet's `side` is another file."""
        ending = f".{side}.json" if side else ".json"
        return self.folder / "waiting" / f"{file_name(job, part)}{ending}"


def file_name(job: str, part: str = "") -> str:
    """A name that any file system takes, and that no other job or part has."""
    name = quote(f"{job}--{part}" if part else job, safe=_SAFE)
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[:_LONGEST].rstrip('%. ')}-{digest}"


def write(path: Path, data: bytes, *, private: bool = True) -> None:
    """Put `data` at `path` in one step, folders made as needed; readable by its owner alone, unless
    it is not `private`. No link is followed: all these names are petsync's.

    Raises PetsyncError where it cannot be written; what was there is then untouched.
    """
    try:
        if private:
            make_private_folder(path.parent)
        else:
            make_folder(path.parent)
            no_link(path.parent)
        replace(path, data, follow=False, private=private)
    except OSError as error:
        raise _unwritten(path, error.strerror or str(error)) from None


def _unwritten(path: Path, why: str) -> PetsyncError:
    return PetsyncError(
        f"{path} cannot be written: {why}",
        hint="Check free space and permission there; the state folder has to be writable.",
    )
