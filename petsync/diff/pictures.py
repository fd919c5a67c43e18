"""Pictures: the images that an upload would send, each with its pet, as one frozen value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.errors import PlanError, SettingsError

__all__ = [
    "FATES",
    "Fate",
    "Looked",
    "Picture",
    "PictureOptions",
    "PictureProblem",
    "Pictures",
    "treatment",
]

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


class Looked(msgspec.Struct, frozen=True):
    """How far the look at the files is: `done` of `total`."""

    done: int
    total: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One image file of one pet.

    `file` is its path as people know it, below the folder; `path` where it really is; `source` the
    cell that names it, "" in a folder. `place` orders the pictures of a pet. `size` is in bytes,
    `digest` the SHA-256 of the file; `sent_size`, `sent_digest`, `sent_width` and `sent_height`
    are those of what is uploaded, and `done` says what is done to it first: `exif` (what the
    camera wrote is left out), `upright` (turned as the camera says), `scaled`. `saved` is how it
    is encoded anew, "" where its pixels stay as they are, byte for byte.
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
    done: tuple[Literal["exif", "upright", "scaled"], ...] = ()
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
    of all its frames together; `max_side` is in pixels, None for as they are. With `again` what
    was uploaded before is uploaded once more. Raises SettingsError for what makes no sense.
    """

    strip_exif: bool = False
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
        frame = pd.DataFrame(rows, columns=_COLUMNS, dtype=object)
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
    """What is done to a picture before it is sent: `as it is`, or `EXIF removed, scaled to
    800 × 600, saved anew as JPEG, quality 90`.
    """
    said = [_DONE[each] for each in picture.done]
    if "scaled" in picture.done:
        said.append(f"scaled to {picture.sent_width} × {picture.sent_height}")
    if picture.saved:
        said.append(f"saved anew as {picture.saved}")
    return ", ".join(filter(None, said)) or "as it is"


_DONE = {"exif": "EXIF removed", "upright": "turned upright", "scaled": ""}
_COLUMNS = [
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
