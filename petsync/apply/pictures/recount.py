"""An upload's report made anew, from what its run was begun with and what its journal knows."""

from __future__ import annotations

from collections.abc import Iterable

from petsync.apply.pictures.sending import AGAIN, NEXT
from petsync.diff.history import Entry, Past
from petsync.diff.pictures import Picture, Pictures
from petsync.diff.uploaded import Uploaded, UploadedFile, result_of
from petsync.diff.uploads import added_urls

__all__ = ["recounted"]


def recounted(past: Past, pictures: Pictures, entries: Iterable[Entry]) -> Uploaded:
    """What became of each file that the run was to upload. What was left alone from the start, as
    it was uploaded before or had a problem, is not in the journal, and not in this report.
    """
    known = {entry.number: entry for entry in entries}
    told = (_result(one, known.get(number)) for number, one in enumerate(pictures.pictures))
    return Uploaded(
        run_id=past.run_id,
        store=past.store,
        source=past.source,
        started=past.started,
        seconds=past.seconds,
        results=tuple(told),
        stopped=past.stopped if past.state == "stopped" else "",
    )


def _result(picture: Picture, entry: Entry | None) -> UploadedFile:
    if entry is None:
        why = "nothing was sent for it in this run"
        return result_of(picture, "skipped", "not-begun", why, cure=NEXT)
    if entry.outcome is None:
        why = "begun, and nobody knows yet whether it was done"
        return result_of(picture, "unknown", "cut-off", why, cure=AGAIN)
    done = entry.outcome == "applied"
    return result_of(
        picture,
        entry.outcome,
        entry.cause,
        entry.message,
        cure="" if done else NEXT if entry.outcome == "skipped" else AGAIN,
        urls=_urls(entry) if done else (),
        sent=picture.sent_size if done and entry.cause != "confirmed" else 0,
    )


def _urls(entry: Entry) -> tuple[str, ...]:
    if entry.before is None or entry.after is None:
        return ()
    return added_urls(entry.before, entry.after)
