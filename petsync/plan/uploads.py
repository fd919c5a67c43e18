"""Images to upload, and the result of each."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
import pandas as pd

from petsync._display import as_html, as_text
from petsync._json import decoder_of
from petsync.errors import InterruptedRunError, PlanError
from petsync.models import Pet
from petsync.plan.options import PictureOptions
from petsync.plan.report import OUTCOMES, Cause, Entry, Outcome
from petsync.protocol.operations import Traffic
from petsync.table.dtypes import typed_frame

__all__ = [
    "UPLOAD_DECISIONS",
    "Attempt",
    "FileProgress",
    "Picture",
    "PictureProblem",
    "Pictures",
    "ScanProgress",
    "UploadDecision",
    "UploadProgress",
    "UploadReport",
    "UploadedFile",
    "Uploads",
    "added_urls",
    "treatment",
]


# Pictures: the images to upload, each with its pet, as one frozen value.


FORMAT = 2

UploadDecision = Literal["new", "again", "retry", "confirm", "uploaded", "duplicate", "unknown"]
UPLOAD_DECISIONS: Mapping[UploadDecision, str] = {
    "new": "is uploaded",
    "again": "was uploaded before, and is uploaded again",
    "retry": "an earlier upload has not arrived: sent again",
    "confirm": "an earlier upload arrived: only recorded",
    "uploaded": "was uploaded before: not sent again",
    "duplicate": "the same picture is listed twice for this pet: sent once",
    "unknown": "an earlier upload got no answer, and its result is unknown: not sent again",
}
"""The decisions about pictures, made before anything is sent, and what each one means."""

_SENT: frozenset[UploadDecision] = frozenset({"new", "again", "retry"})
_MEMBER: frozenset[UploadDecision] = _SENT | {"confirm"}


class ScanProgress(msgspec.Struct, frozen=True):
    """The progress of the file scan."""

    done: int
    """The number of scanned files."""
    total: int
    """The number of all files."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """An image file of a pet."""

    pet_id: int
    """The pet's id."""
    pet: str = ""
    """The pet's name."""
    file: str
    """The file's path as shown to users, relative to the folder."""
    path: str
    """The file's real path."""
    source: str = ""
    """The address of the cell that names the file, "" for a folder."""
    row: int | None = None
    """The sheet's row, or the index of a file of `pictures_of`; None for a folder."""
    place: int = 0
    """The picture's position among the pet's pictures."""
    size: int
    """The file's size in bytes."""
    format: str
    """The image format."""
    width: int
    """The width in pixels."""
    height: int
    """The height in pixels."""
    frames: int = 1
    """The number of frames."""
    digest: str
    """The SHA-256 of the file."""
    metadata: str | None = None
    """The caption, sent as `additionalMetadata`; None if there is none."""
    done: tuple[Literal["metadata", "scaled", "exif", "upright"], ...] = ()
    """The steps before the upload: `metadata` (removed), `scaled`. In journals of version 0.2 also
    `exif` (metadata removed) and `upright` (rotated).
    """
    saved: str = ""
    """The format in which the image is encoded again, "" if its pixel data is sent unchanged."""
    sent_size: int
    """The size in bytes of the uploaded image."""
    sent_digest: str
    """The SHA-256 of the uploaded image."""
    sent_width: int
    """The width in pixels of the uploaded image."""
    sent_height: int
    """The height in pixels of the uploaded image."""
    decision: UploadDecision = "new"
    """The decision about the picture."""
    run: str = ""
    """The run that uploaded the picture, or tried to."""

    @property
    def is_item(self) -> bool:
        """True if an upload processes the picture."""
        return self.decision in _MEMBER


class PictureProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not uploaded."""

    file: str
    """The file's path."""
    problem: str
    """The reason."""
    cure: str = ""
    """The advice to the user, "" for none."""
    pet_id: int | None = None
    """The pet's id, None if it is unknown."""
    source: str = ""
    """The address of the cell that names the file, "" for a folder."""
    row: int | None = None
    """The sheet's row, or the index of a file of `pictures_of`; None for a folder."""
    blocks: bool = True
    """True for a picture that the user wants to upload, false for any other file."""


class Pictures(msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of an upload, and the files that it leaves out."""

    format: int = FORMAT
    """The version of the format."""
    created: str
    """The time of creation, ISO 8601 in UTC."""
    store: str
    """The service's base URL."""
    source: str
    """The folder or the sheet."""
    options: PictureOptions = PictureOptions()
    """The options for the processing of the pictures."""
    pictures: tuple[Picture, ...] = ()
    """The pictures, sorted by pet and place."""
    problems: tuple[PictureProblem, ...] = ()
    """The files that are not uploaded."""
    ignored: int = 0
    """The number of hidden files and of files that operating systems create."""
    notes: tuple[str, ...] = ()
    """The notes for the user."""

    @property
    def items(self) -> tuple[Picture, ...]:
        """The pictures that an upload processes."""
        return tuple(picture for picture in self.pictures if picture.is_item)

    @property
    def to_send(self) -> tuple[Picture, ...]:
        """The pictures that are sent."""
        return tuple(picture for picture in self.pictures if picture.decision in _SENT)

    @property
    def uploaded(self) -> tuple[Picture, ...]:
        """The pictures that were uploaded to the same pet before, and are not sent again."""
        return tuple(picture for picture in self.pictures if picture.decision == "uploaded")

    @property
    def unknown(self) -> tuple[Picture, ...]:
        """The pictures for which it is unknown if an earlier run uploaded them."""
        return tuple(picture for picture in self.pictures if picture.decision == "unknown")

    @property
    def blocked(self) -> tuple[PictureProblem, ...]:
        """The problems with pictures that the user wants to upload."""
        return tuple(problem for problem in self.problems if problem.blocks)

    @property
    def total_bytes(self) -> int:
        """The number of image bytes to send."""
        return sum(picture.sent_size for picture in self.to_send)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything, as JSON."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def __len__(self) -> int:
        return len(self.pictures)

    def to_frame(self) -> pd.DataFrame:
        """Return the pictures and the problems as a frame with one row for each.

        Its columns are file, source, id, pet, decision, format, width, height, size (bytes), done,
        sent_width, sent_height, sent_size, metadata, digest, problem and cure. For problems,
        `decision` is "problem" or "left out".
        """
        rows = [_row(picture) for picture in self.pictures]
        rows += [_problem_row(problem) for problem in self.problems]
        return typed_frame(rows, _PICTURE_COLUMNS, integers=_INTEGERS)

    def to_json(self) -> bytes:
        """Return everything as one JSON object, as in a journal."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, body: bytes) -> Pictures:
        """Return the value that `to_json` wrote, in this format or that of petsync 0.2.

        Raises PlanError if the content is invalid or has another format.
        """
        try:
            found = decoder_of(_FormatOnly).decode(body).format
            if found not in (1, FORMAT):
                raise PlanError(
                    f"this list of pictures has format {found}; this petsync reads 1 and {FORMAT}"
                )
            return _read_format_1(body) if found == 1 else decoder_of(cls).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"this is not a list of pictures: {error}") from None

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class _FormatOnly(msgspec.Struct):
    format: int = FORMAT


class _Format1(msgspec.Struct):
    pictures: list[dict[str, Any]] = []


_FORMAT_1_DECISIONS = {"already": "uploaded", "twice": "duplicate", "doubtful": "unknown"}
"""The names of some decisions in format 1 (key `fate`), each with its current name."""


def _read_format_1(body: bytes) -> Pictures:
    """Return the pictures in a JSON body in format 1, which petsync 0.2 wrote. Raises DecodeError
    if it is invalid.
    """
    pictures = decoder_of(_Format1).decode(body).pictures
    for picture in pictures:
        fate = picture.pop("fate", "new")
        picture["decision"] = _FORMAT_1_DECISIONS.get(str(fate), fate)
    content = {**msgspec.json.decode(body), "format": FORMAT, "pictures": pictures}
    return decoder_of(Pictures).decode(msgspec.json.encode(content))


def treatment(picture: Picture) -> str:
    """Return a description of the processing of a picture.

    Examples: `unchanged`, or `metadata removed, scaled to 800 × 600, saved again as JPEG, quality
    90`.
    """
    steps = [_DONE[each] for each in picture.done]
    if "scaled" in picture.done:
        steps.append(f"scaled to {picture.sent_width} × {picture.sent_height}")
    if picture.saved:
        steps.append(f"saved again as {picture.saved}")
    return ", ".join(filter(None, steps)) or "unchanged"


_DONE = {
    "metadata": "metadata removed",
    "scaled": "",
    "exif": "metadata removed",
    "upright": "turned upright",
}
_PICTURE_COLUMNS = [
    "file",
    "source",
    "id",
    "pet",
    "decision",
    "format",
    "width",
    "height",
    "size",
    "done",
    "sent_width",
    "sent_height",
    "sent_size",
    "metadata",
    "digest",
    "problem",
    "cure",
]
_INTEGERS = ("id", "width", "height", "size", "sent_width", "sent_height", "sent_size")


def _row(one: Picture) -> dict[str, object]:
    return {
        "file": one.file,
        "source": one.source,
        "id": one.pet_id,
        "pet": one.pet,
        "decision": one.decision,
        "format": one.format,
        "width": one.width,
        "height": one.height,
        "size": one.size,
        "done": treatment(one),
        "sent_width": one.sent_width,
        "sent_height": one.sent_height,
        "sent_size": one.sent_size,
        "metadata": one.metadata,
        "digest": one.digest,
        "problem": "",
        "cure": "",
    }


def _problem_row(one: PictureProblem) -> dict[str, object]:
    return {
        "file": one.file,
        "source": one.source,
        "id": one.pet_id,
        "decision": "problem" if one.blocks else "left out",
        "problem": one.problem,
        "cure": one.cure,
    }


# UploadReport: the result of each file of an upload.


class UploadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a file."""

    file: str
    """The file's path."""
    pet_id: int | None = None
    """The pet's id, None if it is unknown."""
    pet: str = ""
    """The pet's name."""
    source: str = ""
    """The address of the cell that names the file, "" for a folder."""
    row: int | None = None
    """The sheet's row, or the index of a file of `pictures_of`; None for a folder."""
    outcome: Outcome
    """The outcome."""
    cause: Cause = ""
    """The stable code of the reason."""
    message: str = ""
    """The outcome's explanation."""
    cure: str = ""
    """The advice, if there is anything left to do."""
    urls: tuple[str, ...] = ()
    """The addresses that the service added to the pet."""
    bytes: int = 0
    """The number of image bytes that were sent."""


class UploadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an upload."""

    sent: int
    """The number of image bytes that were sent."""
    total: int
    """The number of image bytes to send."""
    done: int
    """The number of pictures with a result."""
    files: int
    """The number of all pictures."""
    problems: int = 0
    """The number of results that need the user's attention."""
    traffic: Traffic = Traffic()
    """The statistics of the requests."""


class FileProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of the upload of one picture."""

    number: int
    """The picture's position in `Pictures.items`, from 0."""
    sent: int = 0
    """The number of bytes sent in the current attempt."""
    total: int = 0
    """The number of bytes to send in the current attempt."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    why: str = ""
    """The reason why the previous attempt failed."""
    result: UploadedFile | None = None
    """The result, None before the end."""


class UploadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of an upload: one for each file that was examined.

    files = applied + unchanged + not sent + conflict + needs fixing + failed + unknown.
    """

    run_id: str
    """The run's id, "" if there was nothing to send."""
    store: str
    """The service's base URL."""
    source: str
    """The folder or the sheet."""
    started: str
    """The start, ISO 8601 in UTC."""
    seconds: float
    """The duration in seconds."""
    results: tuple[UploadedFile, ...]
    """The results of the files."""
    ignored: int = 0
    """The number of hidden files and of files that operating systems create."""
    stopped: str = ""
    """The reason why the upload ended early, "" if it did not."""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """The number of files with each outcome."""
        counts = Counter(result.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @property
    def total_bytes(self) -> int:
        """The number of uploaded image bytes."""
        return sum(result.bytes for result in self.results if result.outcome == "applied")

    @property
    def exit_code(self) -> int:
        """The exit code: 0 done, 3 some files could not be uploaded or have an unknown outcome, 7
        stopped early.
        """
        if self.stopped:
            return InterruptedRunError.exit_code
        counts = self.counts
        bad: tuple[Outcome, ...] = ("conflict", "needs fixing", "failed", "unknown")
        return 3 if any(counts[outcome] for outcome in bad) else 0

    def to_frame(self) -> pd.DataFrame:
        """Return the results as a frame, one file per row.

        Its columns are file, source, row, id, pet, outcome, cause, message, cure, url and bytes.
        `url` is the first address that the service added.
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
        return typed_frame(rows, _UPLOAD_COLUMNS, integers=("row", "id", "bytes"))

    def to_json(self, *, exit_code: int | None = None) -> bytes:
        """Return one JSON object with the fields, `counts`, `bytes`, and `exit_code`, by default
        the report's.
        """
        data = {
            "run_id": self.run_id,
            "store": self.store,
            "source": self.source,
            "started": self.started,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "exit_code": self.exit_code if exit_code is None else exit_code,
            "counts": self.counts,
            "bytes": self.total_bytes,
            "ignored": self.ignored,
            "results": self.results,
        }
        return msgspec.json.format(msgspec.json.encode(data), indent=1)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


_UPLOAD_COLUMNS = [
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
    """Return the result of a picture."""
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
    """Return the result of a file that is not uploaded."""
    return UploadedFile(
        file=problem.file,
        pet_id=problem.pet_id,
        source=problem.source,
        row=problem.row,
        outcome="needs fixing" if problem.blocks else "not sent",
        cause="blocked",
        message=problem.problem,
        cure=problem.cure,
    )


# A journal's records of uploaded images, and the photos that they added to pets.


Key = tuple[int, str]


class Attempt(NamedTuple):
    """An upload of an earlier run."""

    run_id: str
    """The run's id."""
    entry: Entry
    """The journal's entry."""
    digests: tuple[str, ...]
    """The SHA-256 of the file and of the sent image."""
    undone: bool = False
    """True if an undo removed the photo from the pet and was not undone itself."""

    @property
    def is_doubtful(self) -> bool:
        """True if the service may have stored the image although no answer confirmed it."""
        entry = self.entry
        if entry.before is None:
            return False
        # If `after` is set, the pet was read again after the request got no answer.
        is_lost = entry.outcome == "failed" and entry.after is not None
        return entry.outcome in (None, "unknown") or is_lost


@dataclass(slots=True)
class Uploads:
    """The uploads to one store, collected from the oldest attempt to the newest."""

    applied: dict[Key, Attempt] = field(default_factory=dict)
    """The successful uploads that were not undone, by pet id and digest."""
    doubts: dict[Key, Attempt] = field(default_factory=dict)
    """The uploads with an unknown result, by pet id and digest."""
    _added: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unseen: defaultdict[int, list[frozenset[str]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Uploads:
        """Return the uploads that result from these attempts."""
        uploads = cls()
        for attempt in attempts:
            uploads.take(attempt)
        return uploads

    def take(self, attempt: Attempt) -> None:
        entry = attempt.entry
        if entry.pet_id is None:
            return
        keys = [(entry.pet_id, digest) for digest in attempt.digests if digest]
        if entry.outcome == "applied":
            self._settle(keys, attempt)
        elif attempt.is_doubtful:
            self.doubts.update(dict.fromkeys(keys, attempt))
        self._remember(entry.pet_id, attempt)

    def decide(
        self, picture: tuple[int, Sequence[str]], current: Pet, *, adds: bool
    ) -> UploadDecision:
        """Return the decision about a picture, which is given by its pet's id and its digests.

        `current` is the pet as the store has it now. `adds` is true if the service adds an address
        to a pet for each upload.
        """
        if self.attempt(picture) is not None:
            return "uploaded"
        doubt = self.doubt(picture)
        if doubt is None:
            return "new"
        if self.find_arrived_urls(doubt, current):
            return "confirm"
        return "retry" if adds else "unknown"

    def attempt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """Return the successful upload of this picture to this pet."""
        pet_id, digests = picture
        found = (self.applied.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def last(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """Return the successful upload of this picture to this pet, else the one with an unknown
        result.
        """
        return self.attempt(picture) or self.doubt(picture)

    def doubt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """Return the upload of this picture to this pet with an unknown result."""
        pet_id, digests = picture
        found = (self.doubts.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def find_arrived_urls(self, doubt: Attempt, current: Pet) -> tuple[str, ...]:
        """Return the first address that the pet got since the upload began, as a tuple; () for
        none.

        Addresses that other uploads added do not count.
        """
        if doubt.entry.before is None or doubt.entry.pet_id is None:
            return ()
        known = self._added[doubt.entry.pet_id]
        new = (url for url in added_urls(doubt.entry.before, current) if url not in known)
        return tuple(new)[:1]

    def photos(self, pet: Pet) -> frozenset[str]:
        """Return the pet's photos that uploads added, or may have added."""
        if pet.id is None or pet.id not in self.pets():
            return frozenset()
        sure = self._added.get(pet.id, set())
        unseen = self._unseen.get(pet.id, [])
        return frozenset(
            url for url in pet.photo_urls if url in sure or any(url not in old for old in unseen)
        )

    def pets(self) -> frozenset[int]:
        """Return the ids of the pets to which anything was, or may have been, uploaded."""
        return frozenset((*self._added, *self._unseen))

    def _settle(self, keys: list[Key], attempt: Attempt) -> None:
        for key in keys:
            self.doubts.pop(key, None)
            if not attempt.undone:
                self.applied[key] = attempt

    def _remember(self, pet_id: int, attempt: Attempt) -> None:
        before, after = attempt.entry.before, attempt.entry.after
        if before is None:
            return
        if attempt.entry.outcome == "applied" and after is not None:
            self._added[pet_id].update(added_urls(before, after))
        elif attempt.entry.outcome == "applied" or attempt.is_doubtful:
            self._unseen[pet_id].append(frozenset(before.photo_urls))


def added_urls(before: Pet, after: Pet) -> tuple[str, ...]:
    """Return the addresses that `after` has more often than `before`, in the order of `after`."""
    more = Counter(after.photo_urls)
    more.subtract(before.photo_urls)
    return tuple(url for url in dict.fromkeys(after.photo_urls) if more[url] > 0)
