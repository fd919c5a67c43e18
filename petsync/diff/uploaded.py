"""Uploaded: what became of every file of an upload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.pictures import Picture, PictureProblem
from petsync.diff.report import OUTCOMES, Cause, Outcome
from petsync.errors import InterruptedRunError
from petsync.wire.traffic import Traffic

__all__ = ["FileProgress", "Uploaded", "UploadedFile", "Uploading"]


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file. `urls` are the addresses that the service added to the pet,
    `bytes` how many of the image were sent; `cure` says what to do where anything is left to do.
    """

    file: str
    pet_id: int | None = None
    pet: str = ""
    source: str = ""
    row: int | None = None
    outcome: Outcome
    cause: Cause = ""
    message: str = ""
    cure: str = ""
    urls: tuple[str, ...] = ()
    bytes: int = 0


class Uploading(msgspec.Struct, frozen=True, kw_only=True):
    """How far an upload is: `sent` of `total` bytes of images, `done` of `files` pictures have a
    result, `problems` of them one that a person has to look at.
    """

    sent: int
    total: int
    done: int
    files: int
    problems: int = 0
    traffic: Traffic = Traffic()


class FileProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one picture of an upload is, by its `number` in `items`: `sent` of `total` bytes in
    the present attempt. `attempt` counts from 1, and `why` says how the one before it ended.
    `result` is there once it has one.
    """

    number: int
    sent: int = 0
    total: int = 0
    attempt: int = 1
    why: str = ""
    result: UploadedFile | None = None


class Uploaded(msgspec.Struct, frozen=True, kw_only=True):
    """A result for each file that was looked at; files = applied + skipped + conflict + failed +
    unknown. `run_id` is "" where there was nothing to send. `stopped` says why it ended early.
    """

    run_id: str
    store: str
    source: str
    started: str
    seconds: float
    results: tuple[UploadedFile, ...]
    ignored: int = 0
    stopped: str = ""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many files had each outcome."""
        counts = Counter(result.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @property
    def total_bytes(self) -> int:
        """How many bytes of images were uploaded."""
        return sum(result.bytes for result in self.results if result.outcome == "applied")

    @property
    def exit_code(self) -> int:
        """0 done, 3 some files were not uploaded that should be, 7 stopped early."""
        if self.stopped:
            return InterruptedRunError.exit_code
        counts = self.counts
        return 3 if counts["failed"] or counts["unknown"] or counts["conflict"] else 0

    def to_frame(self) -> pd.DataFrame:
        """The results: file, source, row, id, pet, outcome, cause, message, cure, url, bytes; one
        a file. `url` is the first of those that the service added.
        """
        rows = [
            {
                "file": r.file,
                "source": r.source,
                "row": r.row,
                "id": r.pet_id,
                "pet": r.pet,
                "outcome": r.outcome,
                "cause": r.cause,
                "message": r.message,
                "cure": r.cure,
                "url": r.urls[0] if r.urls else "",
                "bytes": r.bytes,
            }
            for r in self.results
        ]
        frame = pd.DataFrame(rows, columns=_COLUMNS, dtype=object)
        return frame.astype(dict.fromkeys(("row", "id", "bytes"), "Int64")).infer_objects()

    def to_json(self) -> bytes:
        """One JSON object: the fields, `counts`, `bytes` and `exit_code`."""
        told = {
            "run_id": self.run_id,
            "store": self.store,
            "source": self.source,
            "started": self.started,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "exit_code": self.exit_code,
            "counts": self.counts,
            "bytes": self.total_bytes,
            "ignored": self.ignored,
            "results": self.results,
        }
        return msgspec.json.format(msgspec.json.encode(told), indent=1)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


_COLUMNS = [
    "file",
    "source",
    "row",
    "id",
    "pet",
    "outcome",
    "cause",
    "message",
    "cure",
    "url",
    "bytes",
]


def result_of(
    picture: Picture,
    outcome: Outcome,
    cause: Cause = "",
    message: str = "",
    *,
    cure: str = "",
    urls: tuple[str, ...] = (),
    sent: int = 0,
) -> UploadedFile:
    """The result of a picture."""
    return UploadedFile(
        file=picture.file,
        pet_id=picture.pet_id,
        pet=picture.pet,
        source=picture.source,
        row=picture.row,
        outcome=outcome,
        cause=cause,
        message=message,
        cure=cure,
        urls=urls,
        bytes=sent,
    )


def result_of_problem(problem: PictureProblem) -> UploadedFile:
    """The result of a file that was never to be sent."""
    return UploadedFile(
        file=problem.file,
        pet_id=problem.pet_id,
        source=problem.source,
        row=problem.row,
        outcome="failed" if problem.blocks else "skipped",
        cause="blocked",
        message=problem.problem,
        cure=problem.cure,
    )
