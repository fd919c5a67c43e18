"""The uploads of earlier runs, as a journal has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petsync.apply.journal import Journal
from petsync.diff.pictures import Pictures
from petsync.diff.uploads import Attempt, Uploads
from petsync.errors import PlanError

__all__ = ["uploads_to"]


def uploads_to(journal: Journal, store: str) -> Uploads:
    """What the journal knows of uploads to a store. Raises PetsyncError for one that is damaged."""
    runs = [run.run_id for run in journal.runs(store) if run.kind == "upload"]
    return Uploads.of(each for run_id in reversed(runs) for each in _attempts(journal, run_id))


def _attempts(journal: Journal, run_id: str) -> Iterator[Attempt]:
    files = _files(journal.payload(run_id))
    for entry in journal.entries(run_id):
        file = files[entry.number] if entry.number < len(files) else ""
        yield Attempt(run_id, entry, (entry.digest, file))


def _files(payload: bytes) -> Sequence[str]:
    """The digests of the files that a run was begun with, by number."""
    try:
        return [picture.digest for picture in Pictures.from_json(payload).pictures]
    except PlanError:
        # Another version's: what was sent is known all the same.
        return ()
