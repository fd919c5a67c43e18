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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from petsync._extras import needs_extra
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
from petsync.plan.options import PictureOptions
from petsync.plan.uploads import (
    Attempt,
    Picture,
    PictureProblem,
    ScanProgress,
    UploadDecision,
    Uploads,
)

if TYPE_CHECKING:
    from PIL import Image, ImageFile

__all__ = [
    "DECODE_CONCURRENCY",
    "SIDE",
    "BrokenError",
    "DecodedImage",
    "Orientation",
    "Part",
    "UnusableImageError",
    "can_shrink",
    "decide_uploads",
    "decoders",
    "digest_of",
    "exif_of",
    "frames_of",
    "inspect_files",
    "orientation",
    "parts",
    "prepare_image",
    "read_prepared",
    "thumbnail",
    "with_pet",
    "without_metadata",
]


# The rotation that a camera records in a file. petsync reads it without Pillow, which reads all
# EXIF data and warns if any of it is damaged.


_TAG, _SHORT = 0x0112, 3
_MAX_ENTRIES = 1_000


class Orientation(NamedTuple):
    """The rotation in EXIF data."""

    value: int
    """From 1 (upright) to 8."""
    at: int
    """The offset of the value in the data."""
    order: Literal["big", "little"]

    def upright(self, exif: bytes) -> bytes:
        """Return the EXIF data with this value set to 1 (upright)."""
        return exif[: self.at] + (1).to_bytes(2, self.order) + exif[self.at + 2 :]

    def to_tiff(self) -> bytes:
        """Return a TIFF structure with only this value."""
        entry = struct.pack(">HHIHH", _TAG, _SHORT, 1, self.value, 0)
        return b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)


def orientation(exif: bytes) -> Orientation | None:
    """Return the rotation in the first directory of a TIFF structure; None if there is no valid
    rotation.
    """
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
# They show where the image ends, how many frames it has, and which parts are metadata. petsync
# removes the metadata and keeps the pixel data byte for byte; Pillow would encode the pixels again,
# with a loss.
#
# Sources: ITU-T T.81 (JPEG), the PNG specification (third edition), GIF89a, the WebP container.


Kind = Literal["picture", "frame", "extra", "exif"]
"""`frame` begins a frame; `extra` and `exif` are metadata; `picture` is everything else."""


class BrokenError(Exception):
    """The file is truncated or does not follow its format; the message is the problem."""


class Part(NamedTuple):
    """The bytes from `start` up to but not including `end`. In a part with EXIF data, `body` is the
    start of the data, after the headers.
    """

    kind: Kind
    start: int
    end: int
    body: int = 0


def parts(content: bytes, form: Format) -> list[Part]:
    """Return the parts in order, up to the end of the image. Raises BrokenError if the file is
    damaged.
    """
    try:
        return list(_PARSERS[form](content))
    except IndexError:
        raise BrokenError("it is cut off") from None


def frames_of(parts: list[Part]) -> int:
    """Return the number of frames in the image, at least 1."""
    return max(1, sum(part.kind == "frame" for part in parts))


def exif_of(parts: list[Part]) -> tuple[int, int] | None:
    """Return the start and end of the EXIF data (a TIFF structure); None if there is none."""
    return next(((part.body, part.end) for part in parts if part.kind == "exif"), None)


def without_metadata(content: bytes, form: Format, parts: list[Part]) -> bytes:
    """Return the same picture without metadata, and without data after its end.

    The colour profile is kept. The only EXIF data that is kept is a rotation other than upright, so
    that no pixel has to be encoded again.
    """
    place = exif_of(parts)
    rotation = None if place is None else orientation(content[place[0] : place[1]])
    pieces: list[bytes] = []
    for part in parts:
        if part.kind in ("picture", "frame"):
            pieces.append(content[part.start : part.end])
        elif (
            place is not None
            and part.body == place[0]
            and rotation is not None
            and rotation.value > 1
        ):
            pieces.append(_exif_part(rotation.to_tiff(), form))
    new = b"".join(pieces)
    return _fix_webp_header(new) if form == "WEBP" else new


def _exif_part(exif: bytes, form: Format) -> bytes:
    """Return EXIF data as a part of a file of this format; b"" for GIF, which has none."""
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
    needed_start = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}.get(marker)
    is_metadata = 0xE0 <= marker <= 0xEF or marker == 0xFE
    return (
        "extra"
        if is_metadata and not (needed_start and head.startswith(needed_start))
        else "picture"
    )


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
            raise BrokenError(f"it is damaged in its chunk {name.decode('ascii', 'replace')!r}")
        kind: Kind = "exif" if name == b"eXIf" else "extra" if name in _PNG_EXTRAS else "picture"
        yield Part("frame" if name == b"fcTL" else kind, at, end, at + 8)
        at = end


_GIF_NEEDED = frozenset((b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012"))


def _gif(content: bytes) -> Iterator[Part]:
    at = 13 + _colour_table_size(content[10])
    yield Part("picture", 0, at)
    while content[at] != 0x3B:
        start = at
        if content[at] == 0x2C:
            at += 10 + _colour_table_size(content[at + 9]) + 1
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


def _colour_table_size(flags: int) -> int:
    """Return the size in bytes of the colour table that these flags describe."""
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
    """Return the WebP file with a header that agrees with its remaining parts."""
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


_PARSERS: dict[Format, Callable[[bytes], Iterator[Part]]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "GIF": _gif,
    "WEBP": _webp,
}


# DecodedImage: an image file, decoded completely and prepared for the upload.


@cache
def decoders() -> Mapping[Format, type[ImageFile.ImageFile]]:
    """Return the decoder of each format. Image.open would try several decoders, and would read some
    JPEG files as MPO. Raises MissingExtraError if Pillow is not installed.
    """
    with needs_extra("images", "the check of pictures"):
        from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
    return {
        "JPEG": JpegImagePlugin.JpegImageFile,
        "PNG": PngImagePlugin.PngImageFile,
        "GIF": GifImagePlugin.GifImageFile,
        "WEBP": WebPImagePlugin.WebPImageFile,
    }


_TURNS: Mapping[int, str] = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""The transposition in Pillow that turns an image upright, by the rotation in its EXIF data."""
_QUALITY = 90
_LONGEST_SIDE = 65_535
_COPY_AGAIN = "Copy the file again from its source."
_SAVE_AGAIN = "Open it in an image program and save it as JPEG or PNG."
SIDE = 2000
"""The value of `max_side`, in pixels, that messages suggest."""
_TOO_LARGE_CURE = (
    f"Make it smaller (--max-side {SIDE}, in Python max_side={SIDE}), or allow more (--max-bytes, "
    "in Python max_bytes) if the service does."
)
_TOO_MANY_BYTES_CURE = (
    "Make it smaller in an image program. If the service accepts more, raise the limit with "
    "--max-bytes (in Python max_bytes)."
)
_PICTURES = ("image", "drawing", "icon", "Photoshop", "unknown format")
"""Words in the description of a file that an image program may open."""
Done = Literal["metadata", "scaled"]


class UnusableImageError(Exception):
    """The file cannot be uploaded: `problem` says why, and `cure` says what to do."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem)
        self.problem, self.cure = problem, cure


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedImage:
    """An image, and its `content` to send; see petsync.plan.uploads.Picture."""

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
        """The SHA-256 of the content to send."""
        return digest_of(self.content)


def digest_of(content: bytes) -> str:
    """Return the SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def prepare_image(content: bytes, ending: str, options: PictureOptions) -> DecodedImage:
    """Return the image, decoded completely and prepared according to the options. `ending` is that
    of the file name, with its dot.

    Raises UnusableImageError if the image cannot be uploaded, for example because it is damaged,
    `ending` belongs to another format, or the image exceeds a limit.
    """
    form = _form(content, ending)
    try:
        image_parts = parts(content, form)
    except BrokenError as error:
        raise UnusableImageError(
            f"it is not a complete {form} image: {error}", _COPY_AGAIN
        ) from None
    _check_alone(content, form)
    image = _Image(content, form, image_parts, options)
    decoded = image.decode()
    _check_size(decoded, options)
    return decoded


def _form(content: bytes, ending: str) -> Format:
    if not content:
        raise UnusableImageError("it is empty (0 bytes)", _COPY_AGAIN)
    form = format_of(content)
    if form is None:
        what = describe_content(content)
        is_picture = any(word in what for word in _PICTURES)
        raise UnusableImageError(
            f"it is {what}, not a JPEG, PNG, GIF or WebP image",
            _SAVE_AGAIN if is_picture else "Replace it with the picture itself.",
        )
    expected = ENDINGS.get(ending.lower())
    if expected != form:
        right_ending = next(key for key, value in ENDINGS.items() if value == form)
        what = f"its name ends in {ending}" if ending else "its name has no ending"
        raise UnusableImageError(
            f"it is a {form} image, and {what}", f"Give it a name that ends in {right_ending}."
        )
    return form


def _check_alone(content: bytes, form: Format) -> None:
    other = hidden_kind(content)
    if other is not None:
        problem = f"it is a {form} image and {other} in one file, so it is not sent"
        raise UnusableImageError(problem, f"{_SAVE_AGAIN} That keeps only the picture.")


def _check_size(image: DecodedImage, options: PictureOptions) -> None:
    size = len(image.content)
    if size > options.max_bytes:
        raise UnusableImageError(
            f"it is {_megabytes(size)}; at most {_megabytes(options.max_bytes)} is allowed",
            _TOO_LARGE_CURE if can_shrink(image) else _TOO_MANY_BYTES_CURE,
        )


def can_shrink(image: DecodedImage | Picture) -> bool:
    """Return true if `max_side=SIDE` would scale the image down."""
    return image.frames == 1 and max(image.sent_width, image.sent_height) > SIDE


@dataclass(frozen=True, slots=True)
class _Image:
    content: bytes
    form: Format
    parts: list[Part]
    options: PictureOptions

    def decode(self) -> DecodedImage:
        """Return the decoded image, without metadata and scaled if the options require it."""
        frames = frames_of(self.parts)
        bare = without_metadata(self.content, self.form, self.parts)
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
        """Return the image, after each of its frames was decoded completely.

        A JPEG is decoded without its metadata: Pillow would warn if the metadata is damaged.
        """
        decode = decoders()[self.form]
        try:
            image = decode(io.BytesIO(bare if self.form == "JPEG" else self.content))
            self._check_pixels(image.size, frames)
            for frame in range(getattr(image, "n_frames", 1)):
                image.seek(frame)
                image.load()
        except UnusableImageError:
            raise
        except Exception as error:  # noqa: BLE001 - a damaged image can raise anything in a decoder
            raise UnusableImageError(
                f"it is not a complete {self.form} image: {_reason(error)}", _COPY_AGAIN
            ) from None
        return image

    def _check_pixels(self, size: tuple[int, int], frames: int) -> None:
        if size[0] * size[1] * frames > self.options.max_pixels or max(size) > _LONGEST_SIDE:
            raise self._too_many_pixels_error(size, frames)

    def _too_many_pixels_error(self, size: tuple[int, int], frames: int) -> UnusableImageError:
        if max(size) > _LONGEST_SIDE:
            return UnusableImageError(
                f"it has {size[0]:,} × {size[1]:,} pixels; at most {_LONGEST_SIDE:,} are allowed "
                "on a side",
                "Scale the picture in an image program.",
            )
        times = f" in each of {frames:,} frames" if frames > 1 else ""
        most = self.options.max_pixels
        return UnusableImageError(
            f"it has {size[0]:,} × {size[1]:,} pixels{times}; at most {most:,} are allowed in "
            "total",
            "Scale the picture in an image program. Or allow more pixels with --max-pixels (in "
            "Python max_pixels).",
        )

    def _is_large(self, size: tuple[int, int], frames: int) -> bool:
        """Return true if the image must be scaled. Raises UnusableImageError if it must be scaled
        and is an animation.
        """
        most = self.options.max_side
        if most is None or max(size) <= most:
            return False
        if frames > 1:
            raise UnusableImageError(
                f"it is an animation of {frames:,} pictures, and petsync does not scale animations",
                "Scale it elsewhere, or upload it without --max-side (in Python max_side).",
            )
        return True

    def _reencode(self, image: Image.Image) -> tuple[bytes, str, tuple[int, int]]:
        """Return the encoded content of the upright, scaled image; the encoding in words; and the
        size.
        """
        from PIL import Image

        exif = b""
        try:
            new = _to_mixable_mode(image)
            if (place := exif_of(self.parts)) is not None:
                exif = self.content[place[0] : place[1]]
                rotation = orientation(exif)
                if rotation is not None and rotation.value in _TURNS:
                    new = new.transpose(Image.Transpose[_TURNS[rotation.value]])
                    exif = rotation.upright(exif)
            new = _scale(new, self.options.max_side or max(new.size))
            return self._encode(new, image.info.get("icc_profile"), exif)
        except Exception as error:  # noqa: BLE001 - the encoder's message is shown to the user
            raise UnusableImageError(
                f"it cannot be saved again: {_reason(error)}", _SAVE_AGAIN
            ) from None

    def _encode(
        self, image: Image.Image, profile: bytes | None, exif: bytes
    ) -> tuple[bytes, str, tuple[int, int]]:
        options, description = self._encoder_options()
        if profile:
            options["icc_profile"] = profile
        if exif and self.options.keep_metadata and self.form != "GIF":
            options["exif"] = b"Exif\0\0" + exif if self.form == "JPEG" else exif
        new = _with_palette(image) if self.form == "GIF" else image
        new.info.clear()
        out = io.BytesIO()
        new.save(out, self.form, **options)
        return out.getvalue(), description, new.size

    def _encoder_options(self) -> tuple[dict[str, Any], str]:
        """Return the encoder's options for the format, and the same in words."""
        if self.form == "JPEG":
            return {"quality": _QUALITY, "optimize": True}, f"JPEG, quality {_QUALITY}"
        if self.form == "WEBP":
            if any(self.content[p.start : p.start + 4] == b"VP8L" for p in self.parts):
                return {"lossless": True}, "WebP, lossless"
            return {"quality": _QUALITY}, f"WebP, quality {_QUALITY}"
        if self.form == "PNG":
            return {"optimize": True}, "PNG, lossless"
        return {}, "GIF, 256 colours"


def _to_mixable_mode(image: Image.Image) -> Image.Image:
    """Return the image in a mode in which colours can be mixed."""
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image.convert({"1": "L", "PA": "RGBA"}.get(image.mode, image.mode))


def _scale(image: Image.Image, side: int) -> Image.Image:
    from PIL import Image

    factor = side / max(image.size)
    width, height = (max(1, min(side, round(each * factor))) for each in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _with_palette(image: Image.Image) -> Image.Image:
    from PIL import Image

    method = Image.Quantize.FASTOCTREE if image.mode == "RGBA" else Image.Quantize.MEDIANCUT
    return image.quantize(256, method)


def _reason(error: Exception) -> str:
    import PIL

    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "truncated" in text:
        return "it is cut off"
    return f"{text[:100]} (Pillow {PIL.__version__})"


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size:,} bytes"


# Inspection of all files: two at a time, so that only these are in memory.


DECODE_CONCURRENCY = 2
"""The number of images that are decoded at a time."""

PetsById = Mapping[int, Pet | FailedLookup | None]


def with_pet(
    candidates: Iterable[Candidate], pets: PetsById
) -> Iterator[tuple[Candidate, Pet] | PictureProblem]:
    """Yield each candidate with its pet, or as a problem if the pet does not exist or could not be
    looked up.
    """
    for candidate in candidates:
        pet = pets.get(candidate.pet_id)
        if isinstance(pet, Pet):
            yield candidate, pet
        elif pet is None:
            cure = "Correct the id, or add the pet first."
            yield candidate.problem(f"the store has no pet {candidate.pet_id}", cure)
        else:
            why = f"pet {candidate.pet_id} could not be looked up: {pet.problem}"
            yield candidate.problem(why, "Try again once the service answers.")


async def inspect_files(
    members: list[tuple[Candidate, Pet]],
    options: PictureOptions,
    on_progress: Callable[[ScanProgress], None] | None = None,
) -> list[Picture | PictureProblem]:
    """Return a picture or a problem for each file, in order. The images are decoded completely."""
    results: dict[int, Picture | PictureProblem] = {}
    remaining = iter(enumerate(members))

    async def work() -> None:
        for number, (candidate, pet) in remaining:
            results[number] = await asyncio.to_thread(_inspect_file, candidate, pet, options)
            if on_progress is not None:
                on_progress(ScanProgress(len(results), len(members)))

    async with asyncio.TaskGroup() as group:
        for _ in range(DECODE_CONCURRENCY):
            group.create_task(work())
    return [results[number] for number in range(len(members))]


def read_prepared(picture: Picture, options: PictureOptions) -> bytes:
    """Return the bytes to send for a picture that was inspected before.

    Raises UnusableImageError if the file has changed since, OSError if it cannot be read.
    """
    path = Path(picture.path)
    content = content_of(path)
    if digest_of(content) != picture.digest:
        raise UnusableImageError(
            "the file has changed since it was inspected", "Select the pictures again."
        )
    if not picture.done:
        return content
    return prepare_image(content, path.suffix, options).content


def decide_uploads(
    pictures: Iterable[Picture],
    pets: Mapping[int, Pet],
    uploads: Uploads,
    *,
    adds: bool,
    again: Uploads | None = None,
) -> list[Picture]:
    """Return the pictures, sorted by pet and place, each with its decision.

    `again` is None if earlier uploads are not repeated. Otherwise it has the uploads that
    unfinished runs with the option `again` have repeated: these are not repeated once more, unless
    they include every picture.
    """
    members = sorted(pictures, key=lambda picture: (picture.pet_id, picture.place, picture.file))
    repeated = set(_find_repeated(members))
    if again is not None and all(again.attempt(_upload_key(picture)) for picture in members):
        again = Uploads()
    judge = _UploadJudge(pets, uploads, adds, again)
    return [
        msgspec.structs.replace(picture, decision="duplicate")
        if position in repeated
        else judge.decide(picture)
        for position, picture in enumerate(members)
    ]


@dataclass(frozen=True, slots=True)
class _UploadJudge:
    pets: Mapping[int, Pet]
    uploads: Uploads
    adds: bool
    again: Uploads | None

    def decide(self, picture: Picture) -> Picture:
        """Return the picture with its decision, and the earlier run that it depends on."""
        key = _upload_key(picture)
        if self.again is None:
            return self._with_decision(
                picture, self._decide(self.uploads, picture), self.uploads.last(key)
            )
        decision = self._decide(self.again, picture)
        if decision in ("uploaded", "confirm", "retry"):
            return self._with_decision(picture, decision, self.again.last(key))
        earlier = self.uploads.last(key)
        return self._with_decision(picture, "again" if earlier else "new", earlier)

    def _decide(self, uploads: Uploads, picture: Picture) -> UploadDecision:
        return uploads.decide(_upload_key(picture), self.pets[picture.pet_id], adds=self.adds)

    def _with_decision(
        self, picture: Picture, decision: UploadDecision, earlier: Attempt | None
    ) -> Picture:
        run = "" if earlier is None else earlier.run_id
        return msgspec.structs.replace(picture, decision=decision, run=run)


def _upload_key(picture: Picture) -> tuple[int, tuple[str, str]]:
    return picture.pet_id, (picture.digest, picture.sent_digest)


def _find_repeated(members: Iterable[Picture]) -> Iterator[int]:
    """Yield the positions of pictures that repeat an earlier one of the same pet."""
    seen: set[tuple[int, str]] = set()
    for position, picture in enumerate(members):
        keys = {(picture.pet_id, picture.digest), (picture.pet_id, picture.sent_digest)}
        if seen & keys:
            yield position
        else:
            seen |= keys


def _inspect_file(
    candidate: Candidate, pet: Pet, options: PictureOptions
) -> Picture | PictureProblem:
    try:
        content = content_of(candidate.path)
        image = prepare_image(content, candidate.path.suffix, options)
    except UnusableImageError as error:
        return candidate.problem(error.problem, error.cure)
    except OSError as error:
        return candidate.problem(f"it cannot be read: {error.strerror}")
    except MemoryError:
        return candidate.problem(
            "there is not enough memory for it", "Scale it in an image program."
        )
    return Picture(
        pet_id=candidate.pet_id,
        pet=pet.name or "",
        file=candidate.file,
        path=str(candidate.path),
        source=candidate.source,
        row=candidate.row,
        place=candidate.place,
        size=len(content),
        format=image.format,
        width=image.width,
        height=image.height,
        frames=image.frames,
        digest=image.digest,
        metadata=candidate.metadata,
        done=image.done,
        saved=image.saved,
        sent_size=len(image.content),
        sent_digest=image.sent_digest,
        sent_width=image.sent_width,
        sent_height=image.sent_height,
    )


# Thumbnails, which help the user recognise an image.


_SIDE = 96
_LARGEST = 48 * 1024
_PIXELS = PictureOptions().max_pixels
_ENDING: dict[Format, str] = {form: ending for ending, form in reversed(ENDINGS.items())}


def thumbnail(content: bytes, side: int = _SIDE) -> str:
    """Return the image, upright and at most `side` pixels wide and high, as a `data:` URL; for an
    animation, its first frame. "" if the image cannot be used, or its thumbnail would be too large.
    """
    form = format_of(content)
    if form is None:
        return ""
    options = PictureOptions(max_side=side, max_bytes=_LARGEST)
    try:
        small = prepare_image(content, _ENDING[form], options)
    except UnusableImageError:
        return _first_frame(content, form, side)
    # The upload form shows no animations.
    return (
        _data_url(small.content, form) if small.frames == 1 else _first_frame(content, form, side)
    )


def _first_frame(content: bytes, form: Format, side: int) -> str:
    decode = decoders()[form]
    try:
        image = decode(io.BytesIO(content))
        if image.size[0] * image.size[1] > _PIXELS or getattr(image, "n_frames", 1) == 1:
            return ""
        image.load()
        small = image.convert("RGBA")
        small.thumbnail((side, side))
        out = io.BytesIO()
        small.save(out, "PNG")
    except Exception:  # noqa: BLE001 - a damaged image can raise anything in a decoder
        return ""
    return _data_url(out.getvalue(), "PNG")


def _data_url(content: bytes, form: Format) -> str:
    return f"data:image/{form.lower()};base64,{base64.b64encode(content).decode()}"
