"""Opened: an image file decoded whole, and made ready to be sent."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import Any, Literal

import PIL
from PIL import GifImagePlugin, Image, ImageFile, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from petsync.apply.pictures.camera import Orientation, orientation
from petsync.apply.pictures.kinds import ENDINGS, Format, described, format_of, hidden_kind
from petsync.apply.pictures.parts import (
    BrokenError,
    Part,
    exif_of,
    frames_of,
    parts,
    without_extras,
)
from petsync.diff.pictures import PictureOptions

__all__ = ["PLUGIN", "Opened", "UnfitError", "digest_of", "opened"]

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
Done = Literal["exif", "upright", "scaled"]


class UnfitError(Exception):
    """The file is not to be sent: why, and what to do about it."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem)
        self.problem, self.cure = problem, cure


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An image as it is, and `content` as it is sent; see petsync.diff.pictures.Picture."""

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


def opened(content: bytes, ending: str, options: PictureOptions) -> Opened:
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
        raise UnfitError(f"it is {described(content)}, and no JPEG, PNG, GIF or WebP", _SAVE_AGAIN)
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


def _check_size(ready: Opened, options: PictureOptions) -> None:
    size = len(ready.content)
    if size > options.max_bytes:
        raise UnfitError(
            f"it has {_megabytes(size)}, and {_megabytes(options.max_bytes)} are allowed",
            "Make it smaller (--max-side 2000), or allow more (--max-bytes) if the service does.",
        )


@dataclass(frozen=True, slots=True)
class _Image:
    content: bytes
    form: Format
    found: list[Part]
    options: PictureOptions

    def ready(self) -> Opened:
        """The image decoded, turned, scaled and stripped as far as is asked for."""
        frames = frames_of(self.found)
        with self._decoded(frames) as image:
            width, height = image.size
            is_large = self._is_large(image.size, frames)
            bare = self._bare()
            held = self._held() if is_large or self.options.strip_exif else None
            done = _done(exif=bare != self.content, upright=held is not None, scaled=is_large)
            new, saved, sent = bare, "", image.size
            if held is not None or is_large:
                new, saved, sent = self._saved(image, held, is_large=is_large)
        return Opened(
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

    def _decoded(self, frames: int) -> Image.Image:
        """The image, after every frame of it was decoded to its end."""
        try:
            image = PLUGIN[self.form](io.BytesIO(self._picture()))
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

    def _picture(self) -> bytes:
        """The file, of a JPEG without what the decoder would only stumble over: it reads the
        camera's data unasked, and warns of what is wrong in them.
        """
        if self.form != "JPEG":
            return self.content
        return without_extras(self.content, self.form, self.found)

    def _check_pixels(self, size: tuple[int, int], frames: int) -> None:
        if size[0] * size[1] * frames > self.options.max_pixels or max(size) > _LONGEST_SIDE:
            raise self._too_many(size, frames)

    def _too_many(self, size: tuple[int, int], frames: int) -> UnfitError:
        times = f", {frames:,} times" if frames > 1 else ""
        most = self.options.max_pixels
        return UnfitError(
            f"it has {size[0]:,} × {size[1]:,} pixels{times}, and {most:,} are allowed in all",
            "A picture that is really so large can be scaled in an image program; --max-pixels "
            "allows more.",
        )

    def _is_large(self, size: tuple[int, int], frames: int) -> bool:
        """Whether it is to be scaled. Raises UnfitError where it cannot be."""
        most = self.options.max_side
        if most is None or max(size) <= most:
            return False
        if frames > 1:
            raise UnfitError(
                f"it is an animation of {frames:,} pictures, which is not scaled",
                "Scale it elsewhere, or upload it without --max-side.",
            )
        return True

    def _held(self) -> Orientation | None:
        """How the camera was held, if not upright."""
        place = exif_of(self.found)
        held = None if place is None else orientation(self.content[place[0] : place[1]])
        return held if held is not None and held.value > 1 else None

    def _bare(self) -> bytes:
        """The file as it is, or without what a camera and programs wrote into it."""
        if not self.options.strip_exif:
            return self.content
        return without_extras(self.content, self.form, self.found)

    def _saved(
        self, image: Image.Image, held: Orientation | None, *, is_large: bool
    ) -> tuple[bytes, str, tuple[int, int]]:
        """The image encoded anew, how, and its size."""
        try:
            new = _turned(_smooth(image), held)
            if is_large and self.options.max_side is not None:
                new = _scaled(new, self.options.max_side)
            return self._encoded(new, image.info.get("icc_profile"), self._exif(held))
        except Exception as error:  # noqa: BLE001 - what an encoder does not take, it says anyhow
            raise UnfitError(f"it cannot be saved anew: {_reason(error)}", _SAVE_AGAIN) from None

    def _encoded(
        self, image: Image.Image, profile: bytes | None, exif: bytes | None
    ) -> tuple[bytes, str, tuple[int, int]]:
        how, words = self._how()
        given = {"icc_profile": profile, "exif": exif}
        how |= {name: value for name, value in given.items() if value}
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

    def _exif(self, held: Orientation | None) -> bytes | None:
        """What the camera wrote, if that is kept, with the picture upright."""
        place = exif_of(self.found)
        if place is None or self.options.strip_exif or self.form == "GIF":
            return None
        exif = self.content[place[0] : place[1]]
        kept = exif if held is None else held.upright(exif)
        return b"Exif\0\0" + kept if self.form == "JPEG" else kept


def _done(**done: bool) -> tuple[Done, ...]:
    names: tuple[Done, ...] = ("exif", "upright", "scaled")
    return tuple(name for name in names if done[name])


def _smooth(image: Image.Image) -> Image.Image:
    """The image in a mode in which colours can be mixed."""
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image.convert({"1": "L", "PA": "RGBA"}.get(image.mode, image.mode))


def _turned(image: Image.Image, held: Orientation | None) -> Image.Image:
    return image if held is None else image.transpose(_TURNS[held.value])


def _scaled(image: Image.Image, side: int) -> Image.Image:
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
