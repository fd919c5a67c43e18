"""A small copy of an image, for a person to recognise it by."""

from __future__ import annotations

import base64
import io

from petsync.apply.pictures.kinds import ENDINGS, Format, format_of
from petsync.apply.pictures.opened import PLUGIN, UnfitError, opened
from petsync.diff.pictures import PictureOptions

__all__ = ["thumbnail"]

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
    asked = PictureOptions(strip_exif=True, max_side=side, max_bytes=_LARGEST)
    try:
        small = opened(content, _ENDING[form], asked)
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
