"""Images to upload, and what became of each."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec
import pandas as pd

from petsync._display import as_html, as_text
from petsync.errors import InterruptedRunError, PlanError, SettingsError
from petsync.models import Pet
from petsync.plan.report import OUTCOMES, Cause, Entry, Outcome
from petsync.protocol.operations import Traffic

__all__ = [
    "FATES",
    "Attempt",
    "Fate",
    "FileProgress",
    "Picture",
    "PictureOptions",
    "PictureProblem",
    "Pictures",
    "ScanProgress",
    "UploadProgress",
    "UploadReport",
    "UploadedFile",
    "Uploads",
    "added_urls",
    "treatment",
]


# Pictures: the images that an upload would send, each with its pet, as one frozen value.


FORMAT = 1

Fate = Literal["new", "again", "retry", "confirm", "already", "twice", "doubtful"]
FATES: Mapping[Fate, str] = {
    "new": "is uploaded",
    "again": "was uploaded before, and is uploaded once more",
    "retry": "an earlier upload did not come through: is uploaded",
    "confirm": "an earlier upload came through: only noted",
    "already": "was uploaded before: left alone",
    "twice": "the same picture is there twice for this pet: left alone",
    "doubtful": "an earlier upload got no answer, and nothing tells whether it came through: "
    "left alone",
}
"""What becomes of a picture, by what is known of it before anything is sent."""

_SENT: frozenset[Fate] = frozenset({"new", "again", "retry"})
_MEMBER: frozenset[Fate] = _SENT | {"confirm"}


class ScanProgress(msgspec.Struct, frozen=True):
    """How far the look at the files is: `done` of `total`."""

    done: int
    total: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One image file of one pet.

    `file` is its path as people know it, below the folder; `path` where it really is; `source` the
    cell that names it, "" in a folder. `place` orders the pictures of a pet. `size` is in bytes,
    `digest` the SHA-256 of the file; `sent_size`, `sent_digest`, `sent_width` and `sent_height`
    are those of what is uploaded, and `done` says what is done to it first: `metadata` (removed),
    `scaled`; in journals of version 0.2 also `exif` (metadata removed) and `upright` (rotated).
    `saved` is how it is encoded again, "" where its pixels stay as they are, byte for byte.
    """

    pet_id: int
    pet: str = ""
    file: str
    path: str
    source: str = ""
    row: int | None = None
    place: int = 0
    size: int
    format: str
    width: int
    height: int
    frames: int = 1
    digest: str
    metadata: str | None = None
    done: tuple[Literal["metadata", "scaled", "exif", "upright"], ...] = ()
    saved: str = ""
    sent_size: int
    sent_digest: str
    sent_width: int
    sent_height: int
    fate: Fate = "new"
    run: str = ""
    """The run that uploaded it, or tried to."""

    @property
    def is_item(self) -> bool:
        """Whether an upload has something to do for it."""
        return self.fate in _MEMBER


class PictureProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not uploaded: why, and what to do about it.

    With `blocks` it is a picture that somebody wants to be there; otherwise something else that
    lies beside them. `source` is the cell that names it.
    """

    file: str
    problem: str
    cure: str = ""
    pet_id: int | None = None
    source: str = ""
    row: int | None = None
    blocks: bool = True


class PictureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to pictures, and their limits: `max_bytes` of a file that is sent, `max_pixels`
    of all its frames together; `max_side` is in pixels, None for as they are. Metadata are removed
    unless `keep_metadata` is set. With `again`, petsync uploads again what it uploaded before.
    Raises SettingsError for a limit that is no whole number from 1.
    """

    keep_metadata: bool = False
    max_side: int | None = None
    max_bytes: int = 10 * 1024 * 1024
    max_pixels: int = 50_000_000
    again: bool = False

    def __post_init__(self) -> None:
        for name in ("max_side", "max_bytes", "max_pixels"):
            value = getattr(self, name)
            if name == "max_side" and value is None:
                continue
            if type(value) is not int or value < 1:
                raise SettingsError(f"{name} is {value!r}; it must be a whole number from 1")


class Pictures(msgspec.Struct, frozen=True, kw_only=True):
    """What an upload would do: `pictures`, sorted by pet and place, and what is left out of it.

    `problems` are the files that are not uploaded, and why. `ignored` counts hidden files and
    those that systems leave behind. `store` is the service's base URL, `source` the folder or the
    sheet, `created` the moment (ISO 8601, UTC).
    """

    format: int = FORMAT
    created: str
    store: str
    source: str
    options: PictureOptions = PictureOptions()
    pictures: tuple[Picture, ...] = ()
    problems: tuple[PictureProblem, ...] = ()
    ignored: int = 0
    notes: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[Picture, ...]:
        """The pictures that an upload has something to do for."""
        return tuple(picture for picture in self.pictures if picture.is_item)

    @property
    def to_send(self) -> tuple[Picture, ...]:
        """The pictures that are sent."""
        return tuple(picture for picture in self.pictures if picture.fate in _SENT)

    @property
    def already(self) -> tuple[Picture, ...]:
        """The pictures that were uploaded before, to the same pet."""
        return tuple(picture for picture in self.pictures if picture.fate == "already")

    @property
    def doubtful(self) -> tuple[Picture, ...]:
        """The pictures of which nothing tells whether an earlier run uploaded them."""
        return tuple(picture for picture in self.pictures if picture.fate == "doubtful")

    @property
    def blocked(self) -> tuple[PictureProblem, ...]:
        """The problems that keep out a picture which somebody wants to be there."""
        return tuple(problem for problem in self.problems if problem.blocks)

    @property
    def total_bytes(self) -> int:
        """How many bytes of images are sent."""
        return sum(picture.sent_size for picture in self.to_send)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def __len__(self) -> int:
        return len(self.pictures)

    def to_frame(self) -> pd.DataFrame:
        """The pictures and the problems, one a row: file, source, id, pet, fate, format, width,
        height, size (bytes), done, sent_width, sent_height, sent_size, metadata, digest, problem,
        cure. `fate` is "problem" or "left out" for the latter.
        """
        rows = [_row(picture) for picture in self.pictures]
        rows += [_problem_row(problem) for problem in self.problems]
        frame = pd.DataFrame(rows, columns=_PICTURE_COLUMNS, dtype=object)
        return frame.astype(dict.fromkeys(_INTEGERS, "Int64")).infer_objects()

    def to_json(self) -> bytes:
        """All of it as one JSON object, as a journal keeps it."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, body: bytes) -> Pictures:
        """The value of `to_json`. Raises PlanError where it is none."""
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanError(f"this is no list of pictures: {error}") from None

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def treatment(picture: Picture) -> str:
    """What is done to a picture before it is sent: `as it is`, or `metadata removed, scaled to
    800 × 600, saved again as JPEG, quality 90`.
    """
    steps = [_DONE[each] for each in picture.done]
    if "scaled" in picture.done:
        steps.append(f"scaled to {picture.sent_width} × {picture.sent_height}")
    if picture.saved:
        steps.append(f"saved again as {picture.saved}")
    return ", ".join(filter(None, steps)) or "as it is"


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
    "fate",
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
        "fate": one.fate,
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
        "fate": "problem" if one.blocks else "left out",
        "problem": one.problem,
        "cure": one.cure,
    }


# UploadReport: what became of every file of an upload.


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


class UploadProgress(msgspec.Struct, frozen=True, kw_only=True):
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


class UploadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A result for each file that was looked at; files = applied + unchanged + not sent + conflict
    + needs fixing + failed + unknown. `run_id` is "" where there was nothing to send. `stopped`
    says why it ended early.
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
        bad: tuple[Outcome, ...] = ("conflict", "needs fixing", "failed", "unknown")
        return 3 if any(counts[outcome] for outcome in bad) else 0

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
        frame = pd.DataFrame(rows, columns=_UPLOAD_COLUMNS, dtype=object)
        return frame.astype(dict.fromkeys(("row", "id", "bytes"), "Int64")).infer_objects()

    def to_json(self) -> bytes:
        """One JSON object: the fields, `counts`, `bytes` and `exit_code`."""
        data = {
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
        outcome="needs fixing" if problem.blocks else "not sent",
        cause="blocked",
        message=problem.problem,
        cure=problem.cure,
    )


# What a journal knows of images that were uploaded, and the photos that they added to pets.


Key = tuple[int, str]


class Attempt(NamedTuple):
    """One upload of an earlier run; `digests` are those of the file and of what was sent. `undone`:
    the photo was taken out of the pet by an undo that stands.
    """

    run_id: str
    entry: Entry
    digests: tuple[str, ...]
    undone: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have come through although nobody saw it."""
        entry = self.entry
        if entry.before is None:
            return False
        # With `after`, the pet was read once more after a request that got no answer.
        is_lost = entry.outcome == "failed" and entry.after is not None
        return entry.outcome in (None, "unknown") or is_lost


@dataclass(slots=True)
class Uploads:
    """The uploads to one store, the older ones first."""

    applied: dict[Key, Attempt] = field(default_factory=dict)
    doubts: dict[Key, Attempt] = field(default_factory=dict)
    _added: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unseen: defaultdict[int, list[frozenset[str]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Uploads:
        """What these attempts come to."""
        uploads = cls()
        for attempt in attempts:
            uploads.take(attempt)
        return uploads

    def take(self, attempt: Attempt) -> None:
        """Take in one more attempt."""
        entry = attempt.entry
        if entry.pet_id is None:
            return
        keys = [(entry.pet_id, digest) for digest in attempt.digests if digest]
        if entry.outcome == "applied":
            self._settle(keys, attempt)
        elif attempt.is_doubtful:
            self.doubts.update(dict.fromkeys(keys, attempt))
        self._remember(entry.pet_id, attempt)

    def fate(self, picture: tuple[int, Sequence[str]], current: Pet, *, adds: bool) -> Fate:
        """What is to be done with a picture (its pet's id, its digests), the pet being as it is
        `current`. `adds` says whether the service adds an address to a pet for each upload.
        """
        if self.attempt(picture) is not None:
            return "already"
        doubt = self.doubt(picture)
        if doubt is None:
            return "new"
        if self.find_arrived_urls(doubt, current):
            return "confirm"
        return "retry" if adds else "doubtful"

    def attempt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet that came through."""
        pet_id, digests = picture
        found = (self.applied.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def last(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet that tells most of it."""
        return self.attempt(picture) or self.doubt(picture)

    def doubt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet of which nobody saw the end."""
        pet_id, digests = picture
        found = (self.doubts.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def find_arrived_urls(self, doubt: Attempt, current: Pet) -> tuple[str, ...]:
        """The address that the pet has since such an upload was begun, and that no other upload
        added; () if there is none.
        """
        if doubt.entry.before is None or doubt.entry.pet_id is None:
            return ()
        known = self._added[doubt.entry.pet_id]
        new = (url for url in added_urls(doubt.entry.before, current) if url not in known)
        return tuple(new)[:1]

    def photos(self, pet: Pet) -> frozenset[str]:
        """Which of the pet's photos uploads added, or may have added."""
        if pet.id is None or pet.id not in self.pets():
            return frozenset()
        sure = self._added.get(pet.id, set())
        unseen = self._unseen.get(pet.id, [])
        return frozenset(
            url for url in pet.photo_urls if url in sure or any(url not in old for old in unseen)
        )

    def pets(self) -> frozenset[int]:
        """The pets to which anything was uploaded."""
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
    """The addresses that a pet has more often than before, in its order."""
    more = Counter(after.photo_urls)
    more.subtract(before.photo_urls)
    return tuple(url for url in dict.fromkeys(after.photo_urls) if more[url] > 0)
