"""Which state folders hold runs on a store: a note for each, in the user's own state folder.

The journal of a state folder knows which row of which sheet became which pet. The same sheet may be
applied from another current folder, which has another journal: by these notes each journal finds
the others.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from petsync._file import check_state_folder, make_private_folder, read_ordinary, write_private
from petsync.apply.journal.schema import NAME

__all__ = ["note_journal", "other_journals"]

_LOG = logging.getLogger(__name__)
_KEPT_S = 90 * 86_400
"""How long the note on a journal is kept that is not there, as its drive may come back."""


class _Note(msgspec.Struct, frozen=True):
    """That a state folder has runs on a store which added pets without an id."""

    store: str
    state: str


def note_journal(store: str, state: Path) -> None:
    """Note that the state folder has runs on the store. Where nothing can be written, nothing is:
    the journal itself is what counts.
    """
    note = _Note(store, os.path.realpath(state))
    folder = _folder()
    if folder is None:
        return
    try:
        make_private_folder(folder)
        name = f"{_digest(store)}-{_digest(note.state)}.json"
        write_private(folder / name, msgspec.json.encode(note), follow=False)
        _remove_old(folder)
    except (OSError, UnicodeEncodeError) as error:
        _LOG.info("%s cannot be written: %s", folder, error)


def other_journals(store: str, state: Path) -> Iterator[Path]:
    """The journals of the user's other state folders that have runs on the store."""
    own, folder = os.path.realpath(state), _folder()
    for _, note in () if folder is None else _notes(folder, f"{_digest(store)}-*.json"):
        other = Path(note.state)
        if note.store != store or note.state == own or not (other / NAME).exists():
            continue
        try:
            check_state_folder(other)
        except OSError as error:
            _LOG.warning("The runs in %s are not looked at: %s", other, error.strerror)
        else:
            yield other / NAME


def _folder() -> Path | None:
    """The folder of the notes, in the user's own state folder; None without a home."""
    given = Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", ""))
    # A relative one does not count, as the XDG specification says.
    try:
        base = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "petsync" / "journals"


def _notes(folder: Path, pattern: str) -> Iterator[tuple[Path, _Note]]:
    for path in sorted(folder.glob(pattern)):
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            yield path, msgspec.json.decode(read_ordinary(path), type=_Note)


def _remove_old(folder: Path) -> None:
    """Remove the notes on journals that have been gone for a while."""
    oldest = time.time() - _KEPT_S
    for path, note in _notes(folder, "*.json"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest and not Path(note.state, NAME).exists():
                path.unlink()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
