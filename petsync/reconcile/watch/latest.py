"""The latest round of every job, kept for the metrics, whichever process it was made by."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from filelock import FileLock

from petsync._file import make_private_folder, write_private
from petsync.diff.round import Round

__all__ = ["Latest", "kept_only", "noted", "read"]

log = logging.getLogger(__name__)

_PATIENCE = 30.0


class Latest(msgspec.Struct):
    """Of one job, or of a file of one: its last round, when one was well last (in seconds, 0 for
    never), and how many there were of each status.
    """

    round: Round
    succeeded: float = 0.0
    statuses: dict[str, int] = {}


def noted(state: Path, round_: Round) -> Mapping[str, Latest]:
    """Every job's latest, with this round among them. Raises OSError, filelock.Timeout.

    A locked round tells nothing of the job but that it was locked.
    """
    with _held(state) as every:
        before = every.get(round_.name, Latest(round_))
        statuses = {**before.statuses, round_.status: before.statuses.get(round_.status, 0) + 1}
        is_locked = round_.status == "locked" and round_.name in every
        every[round_.name] = Latest(
            before.round if is_locked else round_,
            _end(round_) if round_.is_well else before.succeeded,
            statuses,
        )
    return every


def kept_only(state: Path, job: str, names: Collection[str]) -> Mapping[str, Latest]:
    """Every job's latest, of this job only these; the others of its files are there no more."""
    with _held(state) as every:
        for name in [n for n, each in every.items() if each.round.job == job and n not in names]:
            del every[name]
    return every


@contextmanager
def _held(state: Path) -> Iterator[dict[str, Latest]]:
    """What is kept, to be changed, while no other process has it; written at the end."""
    path = _path(state)
    make_private_folder(path.parent)
    with FileLock(path.with_suffix(".lock"), timeout=_PATIENCE, mode=0o600):
        every = read(state)
        yield every
        write_private(path, msgspec.json.encode(every), follow=False)


def read(state: Path) -> dict[str, Latest]:
    """What is kept; {} where nothing is. A damaged file is set aside."""
    path = _path(state)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Latest])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError:
        log.warning("%s was damaged; the metrics begin anew", path)
        with suppress(OSError):
            path.replace(path.with_suffix(".damaged"))
        return {}


def _path(state: Path) -> Path:
    return state / "reconcile" / "latest.json"


def _end(round_: Round) -> float:
    return datetime.fromisoformat(round_.started).timestamp() + round_.seconds
