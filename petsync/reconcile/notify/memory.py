"""What was told already: the notices' state, kept in the state folder between the rounds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from filelock import FileLock

from petsync._file import check_state_folder, make_private_folder, write_private
from petsync.reconcile.config.model import Event

__all__ = ["Memory", "Pending", "Standing", "Tally", "kept"]

log = logging.getLogger(__name__)

_PATIENCE = 180.0
"""Seconds to wait for another process that is just telling people something."""


class Tally(msgspec.Struct):
    """What a job did since the last digest."""

    rounds: int = 0
    well: int = 0
    applied: int = 0
    failed: int = 0


class Standing(msgspec.Struct):
    """How it stands with a job, or with a file of one, and since when; moments are in seconds.

    `failing` is a digest of the reason, `open` are digests of the differences that were told.
    `owed` is set as long as people were told of something that is not known to be over.
    """

    job: str
    status: str = ""
    exit_code: int = 0
    started: str = ""
    failing: str = ""
    failing_since: float = 0.0
    failing_told: float = 0.0
    is_violated: bool = False
    open: tuple[str, ...] = ()
    open_count: int = 0
    waiting: str = ""
    waiting_since: float = 0.0
    waiting_told: float = 0.0
    locked_since: float = 0.0
    locked_told: float = 0.0
    owed: bool = False
    owed_since: float = 0.0
    tally: Tally = msgspec.field(default_factory=Tally)


class Pending(msgspec.Struct):
    """A notice that has to be sent still, to the addresses that are marked in `to`."""

    event: Event
    title: str
    body: str
    made: float
    to: tuple[str, ...]
    tries: int = 0


class Memory(msgspec.Struct):
    """All that is kept. `digests` are the last days for which there was a digest."""

    version: int = 1
    standings: dict[str, Standing] = {}
    digests: tuple[str, ...] = ()
    digested: float = 0.0
    outbox: tuple[Pending, ...] = ()

    def not_after(self, now: float) -> None:
        """Take back to `now` what lies in the future: the clock was set back, and what it said
        before must not keep anything from being told.
        """
        self.digested = min(self.digested, now)
        for pending in self.outbox:
            pending.made = min(pending.made, now)
        for standing in self.standings.values():
            for name in standing.__struct_fields__:
                if name.endswith(("_since", "_told")):
                    setattr(standing, name, min(getattr(standing, name), now))


@contextmanager
def kept(state: Path, now: datetime) -> Iterator[tuple[Memory, Path]]:
    """The memory, and the file to save it in, while no other process has it.

    Raises OSError, and filelock.Timeout where another process does not let go of it.
    """
    folder = state / "reconcile"
    check_state_folder(state)
    make_private_folder(folder)
    path = folder / "notify.json"
    with FileLock(folder / "notify.lock", timeout=_PATIENCE, mode=0o600):
        memory = _read(path)
        memory.not_after(now.timestamp())
        yield memory, path


def save(memory: Memory, path: Path) -> None:
    """Write it whole or not at all. Raises OSError where it cannot be written."""
    write_private(path, msgspec.json.encode(memory), follow=False)


def _read(path: Path) -> Memory:
    """What is kept; a damaged file is set aside, and the memory begins anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except FileNotFoundError:
        return Memory()
    except msgspec.DecodeError:
        aside = path.with_suffix(".damaged")
        log.warning("%s was damaged and is now %s; people may be told things again", path, aside)
        with suppress(OSError):
            path.replace(aside)
        return Memory()
