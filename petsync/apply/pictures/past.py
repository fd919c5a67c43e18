"""The uploads of earlier runs, as a journal has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petsync.apply.journal import Journal
from petsync.diff.history import Entry, Past
from petsync.diff.pictures import Pictures
from petsync.diff.standing import has_left, taken_back
from petsync.diff.uploads import Attempt, Uploads
from petsync.errors import PlanError

__all__ = ["begun_again", "uploads_to"]


def uploads_to(journal: Journal, store: str) -> Uploads:
    """What the journal knows of uploads to a store; what an undo took back is not there any more.
    Raises PetsyncError for one that is damaged.
    """
    runs = journal.runs(store)
    return _of(journal, runs, [run for run in runs if run.kind == "upload"])


def begun_again(journal: Journal, store: str, source: str) -> Uploads:
    """What was done so far of the pictures of this source that somebody asked to be uploaded
    `again`: by the newest runs of it, as far back as none of them came to its end.
    """
    runs = journal.runs(store)
    return _of(journal, runs, list(_unfinished(journal, runs, source)))


def _of(journal: Journal, runs: Sequence[Past], chosen: Sequence[Past]) -> Uploads:
    back = taken_back(runs, journal.entries)
    attempts = (
        Attempt(*told, undone=told[1].pet_id in back.get(run.run_id, ()))
        for run in reversed(chosen)
        for told in _told(journal, run.run_id)
    )
    return Uploads.of(attempts)


def _unfinished(journal: Journal, runs: Sequence[Past], source: str) -> Iterator[Past]:
    for run in runs:
        if run.kind != "upload" or run.source != source:
            continue
        if not (has_left(run) and _is_again(journal.payload(run.run_id))):
            return
        yield run


def _is_again(payload: bytes) -> bool:
    try:
        return Pictures.from_json(payload).options.again
    except PlanError:
        return False


def _told(journal: Journal, run_id: str) -> Iterator[tuple[str, Entry, tuple[str, ...]]]:
    files = _files(journal.payload(run_id))
    for entry in journal.entries(run_id):
        file = files[entry.number] if entry.number < len(files) else ""
        yield run_id, entry, (entry.digest, file)


def _files(payload: bytes) -> Sequence[str]:
    """The digests of the files that a run was begun with, by number."""
    try:
        return [picture.digest for picture in Pictures.from_json(payload).pictures]
    except PlanError:
        # Another version's: what was sent is known all the same.
        return ()
