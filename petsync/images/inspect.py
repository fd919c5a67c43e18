"""Inspect images: format, metadata, decoding limits, and thumbnails."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import PIL
from PIL import GifImagePlugin, Image, ImageFile, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from petsync.images.find import (
    ENDINGS,
    Candidate,
    Format,
    content_of,
    describe_content,
    format_of,
    hidden_kind,
)
from petsync.models import Pet
from petsync.plan.change import FailedLookup
from petsync.plan.uploads import (
    Attempt,
    Fate,
    Picture,
    PictureOptions,
    PictureProblem,
    ScanProgress,
    Uploads,
)

__all__ = [
    "AT_A_TIME",
    "PLUGIN",
    "BrokenError",
    "DecodedImage",
    "Orientation",
    "Part",
    "UnfitError",
    "decide_fates",
    "digest_of",
    "exif_of",
    "frames_of",
    "inspect_files",
    "orientation",
    "parts",
    "prepare_image",
    "ready",
    "thumbnail",
    "with_pet",
    "without_metadata",
]


# The rotation that a camera notes in a file. It is read without trust in the other data: Pillow
# reads all of it, and warns of what is damaged.


_TAG, _SHORT = 0x0112, 3
_MAX_ENTRIES = 1_000


class Orientation(NamedTuple):
    """`value` from 1 (upright) to 8, and its offset in the data."""

    value: int
    at: int
    order: Literal["big", "little"]

    def upright(self, exif: bytes) -> bytes:
        """The data with the value 1."""
        return exif[: self.at] + (1).to_bytes(2, self.order) + exif[self.at + 2 :]

    def alone(self) -> bytes:
        """A TIFF structure that has this value and nothing else."""
        entry = struct.pack(">HHIHH", _TAG, _SHORT, 1, self.value, 0)
        return b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)


def orientation(exif: bytes) -> Orientation | None:
    """The rotation in the first directory of a TIFF structure; None without a valid one."""
    order: Literal["big", "little"] = "little" if exif[:2] == b"II" else "big"
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return None

    def number(at: int, size: int) -> int:
        return int.from_bytes(exif[at : at + size], order)

    start = number(4, 4)
    for entry in range(min(number(start, 2), _MAX_ENTRIES)):
        at = start + 2 + 12 * entry
        if at + 12 > len(exif):
            return None
        if number(at, 2) == _TAG:
            value = number(at + 8, 2)
            is_valid = number(at + 2, 2) == _SHORT and number(at + 4, 4) == 1 and 1 <= value <= 8
            return Orientation(value, at + 8, order) if is_valid else None
    return None


# The parts of an image file, from its first byte to its last, without decoding a pixel.
#
# They show where the image ends, how many frames it has, and which parts are metadata: petsync
# removes those and keeps the pixels byte for byte. Pillow would encode them again, with a loss.
#
# Sources: ITU-T T.81 (JPEG), the PNG specification (third edition), GIF89a, the WebP container.


Kind = Literal["picture", "frame", "extra", "exif"]
"""`frame` begins a picture of an animation; `extra` and `exif` are metadata."""


class BrokenError(Exception):
    """The file is not whole, or not made as its format demands; the message says how."""


class Part(NamedTuple):
    """Bytes from `start` to before `end`; `body` is where the content begins behind its head."""

    kind: Kind
    start: int
    end: int
    body: int = 0


def parts(content: bytes, form: Format) -> list[Part]:
    """The parts, one behind the other, up to the image's end. Raises BrokenError."""
    try:
        return list(_WALK[form](content))
    except IndexError:
        raise BrokenError("it is cut off") from None


def frames_of(found: list[Part]) -> int:
    """How many pictures the file holds."""
    return max(1, sum(part.kind == "frame" for part in found))


def exif_of(found: list[Part]) -> tuple[int, int] | None:
    """Where the camera's data (a TIFF structure) stand, None where there are none."""
    return next(((part.body, part.end) for part in found if part.kind == "exif"), None)


def without_metadata(content: bytes, form: Format, found: list[Part]) -> bytes:
    """The same picture without metadata, and without what follows its end.

    The colour profile stays, and the rotation too unless it is upright: it alone stays of the EXIF
    data, so that no pixel has to be encoded again.
    """
    place = exif_of(found)
    held = None if place is None else orientation(content[place[0] : place[1]])
    rest: list[bytes] = []
    for part in found:
        if part.kind in ("picture", "frame"):
            rest.append(content[part.start : part.end])
        elif place is not None and part.body == place[0] and held is not None and held.value > 1:
            rest.append(_exif_part(held.alone(), form))
    new = b"".join(rest)
    return _fix_webp_header(new) if form == "WEBP" else new


def _exif_part(exif: bytes, form: Format) -> bytes:
    """EXIF data as a part of a file of this format; b"" for GIF, which has none."""
    if form == "JPEG":
        return b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif
    if form == "PNG":
        body = b"eXIf" + exif
        return struct.pack(">I", len(exif)) + body + struct.pack(">I", zlib.crc32(body))
    return b"EXIF" + struct.pack("<I", len(exif)) + exif if form == "WEBP" else b""


_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


def _jpeg(content: bytes) -> Iterator[Part]:
    yield Part("picture", 0, 2)
    at = 2
    while True:
        start = at
        if content[at] != 0xFF:
            raise BrokenError(f"it is damaged at byte {at:,}")
        while content[at] == 0xFF:
            at += 1
        marker = content[at]
        at += 1
        if marker == 0xD9:
            yield Part("picture", start, at)
            return
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            yield Part("picture", start, at)
            continue
        end = at + _number(content, at, 2, "big")
        if end > len(content) or end < at + 2:
            raise BrokenError("it is cut off")
        if marker == 0xDA:
            after = _MARKER.search(content, end)
            if after is None:
                raise BrokenError("it is cut off")
            end = after.start()
        yield Part(_jpeg_kind(marker, content[at + 2 : at + 16]), start, end, at + 8)
        at = end


def _jpeg_kind(marker: int, head: bytes) -> Kind:
    if marker == 0xE1 and head.startswith(b"Exif\0\0"):
        return "exif"
    needed = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}.get(marker)
    is_metadata = 0xE0 <= marker <= 0xEF or marker == 0xFE
    return "extra" if is_metadata and not (needed and head.startswith(needed)) else "picture"


_PNG_EXTRAS = frozenset((b"tEXt", b"zTXt", b"iTXt", b"tIME"))


def _png(content: bytes) -> Iterator[Part]:
    yield Part("picture", 0, 8)
    at, name = 8, b""
    while name != b"IEND":
        length, name = _number(content, at, 4, "big"), content[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(content):
            raise BrokenError("it is cut off")
        if zlib.crc32(content[at + 4 : end - 4]) != _number(content, end - 4, 4, "big"):
            raise BrokenError(f"it is damaged in its part {name.decode('ascii', 'replace')!r}")
        kind: Kind = "exif" if name == b"eXIf" else "extra" if name in _PNG_EXTRAS else "picture"
        yield Part("frame" if name == b"fcTL" else kind, at, end, at + 8)
        at = end


_GIF_NEEDED = frozenset((b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012"))


def _gif(content: bytes) -> Iterator[Part]:
    at = 13 + _colours(content[10])
    yield Part("picture", 0, at)
    while content[at] != 0x3B:
        start = at
        if content[at] == 0x2C:
            at += 10 + _colours(content[at + 9]) + 1
            kind: Kind = "frame"
        elif content[at] == 0x21:
            is_known = content[at + 1] != 0xFF or content[at + 3 : at + 14] in _GIF_NEEDED
            kind = "picture" if is_known and content[at + 1] != 0xFE else "extra"
            at += 2
        else:
            raise BrokenError(f"it is damaged at byte {at:,}")
        while length := content[at]:
            at += 1 + length
        at += 1
        yield Part(kind, start, at)
    yield Part("picture", at, at + 1)


def _colours(flags: int) -> int:
    """How many bytes a colour table has."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(content: bytes) -> Iterator[Part]:
    whole = 8 + _number(content, 4, 4, "little")
    if whole > len(content):
        raise BrokenError("it is cut off")
    yield Part("picture", 0, 12)
    at = 12
    while at + 8 <= whole:
        name, length = content[at : at + 4], _number(content, at + 4, 4, "little")
        if at + 8 + length > whole:
            raise BrokenError("it is cut off")
        end = min(at + 8 + length + length % 2, whole)
        kind: Kind = "exif" if name == b"EXIF" else "extra" if name == b"XMP " else "picture"
        body = at + 8
        if content[body : body + 6] == b"Exif\0\0" and kind == "exif":
            body += 6
        yield Part("frame" if name == b"ANMF" else kind, at, end, body)
        at = end


_EXIF_FLAG, _XMP_FLAG = 0x08, 0x04


def _fix_webp_header(content: bytes) -> bytes:
    """A WebP file whose head agrees with what is left of it."""
    whole = bytearray(content)
    whole[4:8] = (len(content) - 8).to_bytes(4, "little")
    if whole[12:16] == b"VP8X":
        whole[20] &= ~_XMP_FLAG
        if not any(part.kind == "exif" for part in _webp(bytes(whole))):
            whole[20] &= ~_EXIF_FLAG
    return bytes(whole)


def _number(content: bytes, at: int, size: int, order: Literal["big", "little"]) -> int:
    digits = content[at : at + size]
    if len(digits) < size:
        raise BrokenError("it is cut off")
    return int.from_bytes(digits, order)


_WALK: dict[Format, Callable[[bytes], Iterator[Part]]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "GIF": _gif,
    "WEBP": _webp,
}


# DecodedImage: an image file decoded whole, and made ready to be sent.


PLUGIN: dict[Format, type[ImageFile.ImageFile]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,
    "PNG": PngImagePlugin.PngImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
}
"""One decoder, chosen by the content: Image.open would ask several, and make an MPO of a JPEG."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUALITY = 90
_LONGEST_SIDE = 65_535
_COPY_AGAIN = "Copy it once more from where it came from."
_SAVE_AGAIN = "Open it in an image program and save it as JPEG or PNG."
Done = Literal["metadata", "scaled"]


class UnfitError(Exception):
    """The file is not to be sent: why, and what to do about it."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem)
        self.problem, self.cure = problem, cure


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedImage:
    """An image as it is, and `content` as it is sent; see petsync.plan.uploads.Picture."""

    format: Format
    width: int
    height: int
    frames: int
    digest: str
    content: bytes
    done: tuple[Done, ...] = ()
    saved: str = ""
    sent_width: int
    sent_height: int

    @property
    def sent_digest(self) -> str:
        """The SHA-256 of what is sent."""
        return digest_of(self.content)


def digest_of(content: bytes) -> str:
    """The SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def prepare_image(content: bytes, ending: str, options: PictureOptions) -> DecodedImage:
    """The image, decoded from the first pixel to the last, and made ready as the options say.

    Raises UnfitError for everything that is no whole image of one of the four formats with the
    ending that belongs to it, or is over a limit.
    """
    form = _form(content, ending)
    try:
        found = parts(content, form)
    except BrokenError as error:
        raise UnfitError(f"it is no whole {form} image: {error}", _COPY_AGAIN) from None
    _check_alone(content, form)
    file = _Image(content, form, found, options)
    ready = file.ready()
    _check_size(ready, options)
    return ready


def _form(content: bytes, ending: str) -> Format:
    if not content:
        raise UnfitError("it is empty (0 bytes)", _COPY_AGAIN)
    form = format_of(content)
    if form is None:
        raise UnfitError(
            f"it is {describe_content(content)}, and no JPEG, PNG, GIF or WebP", _SAVE_AGAIN
        )
    named = ENDINGS.get(ending.lower())
    if named != form:
        fitting = next(key for key, value in ENDINGS.items() if value == form)
        what = f"its name ends in {ending}" if ending else "its name has no ending"
        raise UnfitError(f"it is a {form} image, and {what}", f"Let its name end in {fitting}.")
    return form


def _check_alone(content: bytes, form: Format) -> None:
    other = hidden_kind(content)
    if other is not None:
        problem = f"it is a {form} image and {other} in one file, and not sent"
        raise UnfitError(problem, _SAVE_AGAIN + " That keeps the picture and nothing else.")


def _check_size(ready: DecodedImage, options: PictureOptions) -> None:
    size = len(ready.content)
    if size > options.max_bytes:
        raise UnfitError(
            f"it has {_megabytes(size)}, and {_megabytes(options.max_bytes)} are allowed",
            "Make it smaller (--max-side 2000, in Python max_side=2000), or allow more "
            "(--max-bytes, in Python max_bytes) if the service does.",
        )


@dataclass(frozen=True, slots=True)
class _Image:
    content: bytes
    form: Format
    found: list[Part]
    options: PictureOptions

    def ready(self) -> DecodedImage:
        """The image, decoded, and as far as the options say without metadata and scaled."""
        frames = frames_of(self.found)
        bare = without_metadata(self.content, self.form, self.found)
        with self._decode_frames(bare, frames) as image:
            width, height = image.size
            new = self.content if self.options.keep_metadata else bare
            done: tuple[Done, ...] = () if new == self.content else ("metadata",)
            saved, sent = "", image.size
            if self._is_large(image.size, frames):
                new, saved, sent = self._reencode(image)
                done += ("scaled",)
        return DecodedImage(
            format=self.form,
            width=width,
            height=height,
            frames=frames,
            digest=digest_of(self.content),
            content=new,
            done=done,
            saved=saved,
            sent_width=sent[0],
            sent_height=sent[1],
        )

    def _decode_frames(self, bare: bytes, frames: int) -> Image.Image:
        """The image, after every frame of it was decoded to its end.

        A JPEG is decoded without its metadata: Pillow reads them unasked, and warns of what is
        wrong in them.
        """
        try:
            image = PLUGIN[self.form](io.BytesIO(bare if self.form == "JPEG" else self.content))
            self._check_pixels(image.size, frames)
            for frame in range(getattr(image, "n_frames", 1)):
                image.seek(frame)
                image.load()
        except UnfitError:
            raise
        except Exception as error:  # noqa: BLE001 - a damaged image can raise anything in a decoder
            raise UnfitError(
                f"it is no whole {self.form} image: {_reason(error)}", _COPY_AGAIN
            ) from None
        return image

    def _check_pixels(self, size: tuple[int, int], frames: int) -> None:
        if size[0] * size[1] * frames > self.options.max_pixels or max(size) > _LONGEST_SIDE:
            raise self._too_many(size, frames)

    def _too_many(self, size: tuple[int, int], frames: int) -> UnfitError:
        times = f", {frames:,} times" if frames > 1 else ""
        most = self.options.max_pixels
        return UnfitError(
            f"it has {size[0]:,} × {size[1]:,} pixels{times}, and {most:,} are allowed in all",
            "A picture that is really so large can be scaled in an image program; --max-pixels, "
            "in Python max_pixels, allows more.",
        )

    def _is_large(self, size: tuple[int, int], frames: int) -> bool:
        """Whether it is to be scaled. Raises UnfitError where it cannot be."""
        most = self.options.max_side
        if most is None or max(size) <= most:
            return False
        if frames > 1:
            raise UnfitError(
                f"it is an animation of {frames:,} pictures, which is not scaled",
                "Scale it elsewhere, or upload it without --max-side (in Python max_side).",
            )
        return True

    def _reencode(self, image: Image.Image) -> tuple[bytes, str, tuple[int, int]]:
        """The image upright, scaled and encoded again; how, and its size."""
        exif = b""
        try:
            new = _smooth(image)
            if (place := exif_of(self.found)) is not None:
                exif = self.content[place[0] : place[1]]
                held = orientation(exif)
                if held is not None and held.value in _TURNS:
                    new, exif = new.transpose(_TURNS[held.value]), held.upright(exif)
            new = _scale(new, self.options.max_side or max(new.size))
            return self._encode(new, image.info.get("icc_profile"), exif)
        except Exception as error:  # noqa: BLE001 - an encoder's reason is for the person
            raise UnfitError(f"it cannot be saved again: {_reason(error)}", _SAVE_AGAIN) from None

    def _encode(
        self, image: Image.Image, profile: bytes | None, exif: bytes
    ) -> tuple[bytes, str, tuple[int, int]]:
        how, words = self._how()
        if profile:
            how["icc_profile"] = profile
        if exif and self.options.keep_metadata and self.form != "GIF":
            how["exif"] = b"Exif\0\0" + exif if self.form == "JPEG" else exif
        new = _with_palette(image) if self.form == "GIF" else image
        new.info.clear()
        out = io.BytesIO()
        new.save(out, self.form, **how)
        return out.getvalue(), words, new.size

    def _how(self) -> tuple[dict[str, Any], str]:
        """How the format is encoded, for the encoder and for people."""
        if self.form == "JPEG":
            return {"quality": _QUALITY, "optimize": True}, f"JPEG, quality {_QUALITY}"
        if self.form == "WEBP":
            if any(self.content[p.start : p.start + 4] == b"VP8L" for p in self.found):
                return {"lossless": True}, "WebP, without loss"
            return {"quality": _QUALITY}, f"WebP, quality {_QUALITY}"
        if self.form == "PNG":
            return {"optimize": True}, "PNG, without loss"
        return {}, "GIF, 256 colours"


def _smooth(image: Image.Image) -> Image.Image:
    """The image in a mode in which colours can be mixed."""
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image.convert({"1": "L", "PA": "RGBA"}.get(image.mode, image.mode))


def _scale(image: Image.Image, side: int) -> Image.Image:
    factor = side / max(image.size)
    width, height = (max(1, min(side, round(each * factor))) for each in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _with_palette(image: Image.Image) -> Image.Image:
    method = Image.Quantize.FASTOCTREE if image.mode == "RGBA" else Image.Quantize.MEDIANCUT
    return image.quantize(256, method)


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "truncated" in text:
        return "it is cut off"
    return f"{text[:100]} (Pillow {PIL.__version__})"


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size:,} bytes"


# Every file looked at: two at a time, so that only these are in memory.


AT_A_TIME = 2
"""So many images are decoded at a time."""

Asked = Mapping[int, Pet | FailedLookup | None]


def with_pet(
    candidates: Iterable[Candidate], pets: Asked
) -> Iterator[tuple[Candidate, Pet] | PictureProblem]:
    """Each candidate with its pet, or that there is none."""
    for one in candidates:
        pet = pets.get(one.pet_id)
        if isinstance(pet, Pet):
            yield one, pet
        elif pet is None:
            cure = "Correct the id, or add the pet first."
            yield one.problem(f"the store has no pet {one.pet_id}", cure)
        else:
            why = f"pet {one.pet_id} could not be looked up: {pet.problem}"
            yield one.problem(why, "Try again once the service answers.")


async def inspect_files(
    members: list[tuple[Candidate, Pet]],
    options: PictureOptions,
    on_progress: Callable[[ScanProgress], None] | None = None,
) -> list[Picture | PictureProblem]:
    """Each file decoded whole, as a picture or as the problem that it is, in their order."""
    results: dict[int, Picture | PictureProblem] = {}
    left = iter(enumerate(members))

    async def work() -> None:
        for number, (one, pet) in left:
            results[number] = await asyncio.to_thread(_inspect_file, one, pet, options)
            if on_progress is not None:
                on_progress(ScanProgress(len(results), len(members)))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(work())
    return [results[number] for number in range(len(members))]


def ready(picture: Picture, options: PictureOptions) -> bytes:
    """What is sent of a picture that was looked at before.

    Raises UnfitError where the file is another one now, OSError where it cannot be read.
    """
    path = Path(picture.path)
    content = content_of(path)
    if digest_of(content) != picture.digest:
        raise UnfitError("the file was changed since it was looked at", "Look once more.")
    if not picture.done:
        return content
    return prepare_image(content, path.suffix, options).content


def decide_fates(
    pictures: Iterable[Picture],
    pets: Mapping[int, Pet],
    uploads: Uploads,
    *,
    adds: bool,
    again: Uploads | None = None,
) -> list[Picture]:
    """The pictures, sorted by pet and place, with what becomes of each. `again`, where what was
    uploaded before is to be uploaded once more: what was already, by runs that were to do so and
    did not come to their end; where they have nothing left to do, all is begun anew.
    """
    members = sorted(pictures, key=lambda one: (one.pet_id, one.place, one.file))
    repeated = set(_find_repeated(members))
    if again is not None and all(again.attempt(_about(one)) for one in members):
        again = Uploads()
    judge = _UploadJudge(pets, uploads, adds, again)
    return [
        msgspec.structs.replace(one, fate="twice") if at in repeated else judge.decide_fate(one)
        for at, one in enumerate(members)
    ]


@dataclass(frozen=True, slots=True)
class _UploadJudge:
    pets: Mapping[int, Pet]
    uploads: Uploads
    adds: bool
    again: Uploads | None

    def decide_fate(self, picture: Picture) -> Picture:
        """The picture with its fate, and the run that decides it."""
        about = _about(picture)
        if self.again is None:
            return self._as(picture, self._fate(self.uploads, picture), self.uploads.last(about))
        fate = self._fate(self.again, picture)
        if fate in ("already", "confirm", "retry"):
            return self._as(picture, fate, self.again.last(about))
        earlier = self.uploads.last(about)
        return self._as(picture, "again" if earlier else "new", earlier)

    def _fate(self, uploads: Uploads, picture: Picture) -> Fate:
        return uploads.fate(_about(picture), self.pets[picture.pet_id], adds=self.adds)

    def _as(self, picture: Picture, fate: Fate, earlier: Attempt | None) -> Picture:
        run = "" if earlier is None else earlier.run_id
        return msgspec.structs.replace(picture, fate=fate, run=run)


def _about(picture: Picture) -> tuple[int, tuple[str, str]]:
    return picture.pet_id, (picture.digest, picture.sent_digest)


def _find_repeated(members: Iterable[Picture]) -> Iterator[int]:
    """The places of those that are the same as one before them, for the same pet."""
    seen: set[tuple[int, str]] = set()
    for at, one in enumerate(members):
        keys = {(one.pet_id, one.digest), (one.pet_id, one.sent_digest)}
        if seen & keys:
            yield at
        else:
            seen |= keys


def _inspect_file(one: Candidate, pet: Pet, options: PictureOptions) -> Picture | PictureProblem:
    try:
        content = content_of(one.path)
        found = prepare_image(content, one.path.suffix, options)
    except UnfitError as error:
        return one.problem(error.problem, error.cure)
    except OSError as error:
        return one.problem(f"it cannot be read: {error.strerror}")
    except MemoryError:
        return one.problem("there is not enough memory for it", "Scale it in an image program.")
    return Picture(
        pet_id=one.pet_id,
        pet=pet.name or "",
        file=one.file,
        path=str(one.path),
        source=one.source,
        row=one.row,
        place=one.place,
        size=len(content),
        format=found.format,
        width=found.width,
        height=found.height,
        frames=found.frames,
        digest=found.digest,
        metadata=one.metadata,
        done=found.done,
        saved=found.saved,
        sent_size=len(found.content),
        sent_digest=found.sent_digest,
        sent_width=found.sent_width,
        sent_height=found.sent_height,
    )


# A small copy of an image, for a person to recognise it by.


_SIDE = 96
_LARGEST = 48 * 1024
_PIXELS = PictureOptions().max_pixels
_ENDING: dict[Format, str] = {form: ending for ending, form in reversed(ENDINGS.items())}


def thumbnail(content: bytes, side: int = _SIDE) -> str:
    """The image, upright and at most so many pixels wide and high, as a `data:` address of less
    than 64 KiB; of an animation its first picture. "" for what is no whole image.
    """
    form = format_of(content)
    if form is None:
        return ""
    asked = PictureOptions(max_side=side, max_bytes=_LARGEST)
    try:
        small = prepare_image(content, _ENDING[form], asked)
    except UnfitError:
        return _first(content, form, side)
    # Nothing in a form moves by itself.
    return _address(small.content, form) if small.frames == 1 else _first(content, form, side)


def _first(content: bytes, form: Format, side: int) -> str:
    try:
        image = PLUGIN[form](io.BytesIO(content))
        if image.size[0] * image.size[1] > _PIXELS or getattr(image, "n_frames", 1) == 1:
            return ""
        image.load()
        small = image.convert("RGBA")
        small.thumbnail((side, side))
        out = io.BytesIO()
        small.save(out, "PNG")
    except Exception:  # noqa: BLE001 - a damaged image can raise anything in a decoder
        return ""
    return _address(out.getvalue(), "PNG")


def _address(content: bytes, form: Format) -> str:
    return f"data:image/{form.lower()};base64,{base64.b64encode(content).decode()}"
