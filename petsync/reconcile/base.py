"""The base of a job: what both sides last agreed on, kept from round to round."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from petsync.errors import PetsyncError
from petsync.reconcile.kept import write
from petsync.table.base import Base
from petsync.table.parcel import ParcelError, unpack

__all__ = ["BaseFile", "Remembered", "digest_of"]

_LOG = logging.getLogger(__name__)
_CARRIED = re.compile(r"# carried ([0-9a-f]{64})")
_RUNS = re.compile(r"# runs (.+)")


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last round left: the base, None before the first one, and the digest of the base
    that the sheet itself carried then. `problem` says what became of a damaged one, "" if none
    was; `is_older`: it is the one before it. `runs` are the marks of the runs that the base has.
    """

    base: Base | None = None
    carried: str = ""
    problem: str = ""
    is_older: bool = False
    runs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The file of a base, and beside it the one before, `….previous`."""

    path: Path

    def load(self, *, set_aside: bool) -> Remembered:
        """What is remembered. A damaged file is moved out of the way if `set_aside`, and the one
        before it counts, where that is whole. Raises PetsyncError where it cannot be read at all.
        """
        try:
            return _read(self.path)
        except ParcelError as error:
            problem = f"the base {self.path} is damaged: {error}"
        if set_aside:
            problem += f"; it is kept as {self._set_aside()}"
        _LOG.warning("%s", problem)
        try:
            older = _read(self._previous)
        except ParcelError:
            older = Remembered()
        if older.base is None:
            return Remembered(problem=f"{problem}. This round is as the first one")
        told = f"{problem}. The one of the round before is used, and nothing is deleted by it"
        return Remembered(older.base, older.carried, told, is_older=True)

    def keep(self, base: Base, carried: str, runs: Collection[str] = ()) -> None:
        """Write a base in place of the last one, which stays as the previous one; `runs` are the
        marks of the runs that it has. Raises PetsyncError; then the last one is still there.
        """
        head = [f"# carried {carried}"] if carried else []
        head += [f"# runs {' '.join(sorted(runs))}"] if runs else []
        lines = [*head, *base.to_lines()]
        data = "\n".join(lines).encode("ascii") + b"\n"
        try:
            before = self.path.read_bytes()
        except FileNotFoundError:
            before = b""
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if before:
            write(self._previous, before)
        write(self.path, data)

    @property
    def _previous(self) -> Path:
        return self.path.with_name(f"{self.path.name}.previous")

    def _set_aside(self) -> Path:
        now = datetime.now(UTC)
        aside = self.path.with_name(f"{self.path.name}.damaged-{now:%Y%m%d-%H%M%S-%f}")
        try:
            return self.path.replace(aside)
        except OSError as error:
            raise PetsyncError(
                f"{self.path} is damaged, and cannot be moved: {error.strerror}",
                hint="Move it out of the state folder; the next round is then as the first one.",
            ) from None


def digest_of(base: Base | None) -> str:
    """What tells a base that a sheet carries from every other; "" for none."""
    return "" if base is None else hashlib.sha256(unpack(base.to_lines())).hexdigest()


def _read(path: Path) -> Remembered:
    try:
        lines = path.read_text("ascii").splitlines()
    except FileNotFoundError:
        return Remembered()
    except UnicodeDecodeError:
        raise ParcelError("they were changed") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    carried = next((match[1] for line in lines[:1] if (match := _CARRIED.fullmatch(line))), "")
    runs = next((match[1] for line in lines[:2] if (match := _RUNS.fullmatch(line))), "")
    return Remembered(Base.from_lines(lines), carried, runs=frozenset(runs.split()))


def _unreadable(path: Path, error: OSError) -> PetsyncError:
    return PetsyncError(
        f"{path} cannot be read: {error.strerror}",
        hint="It holds what the last round left. Nothing is done without it.",
    )
