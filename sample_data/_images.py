"""The pictures of images/: each featured pet once, its file name beginning with the pet's id."""

from __future__ import annotations

import io
from collections.abc import Callable

import _animals as animals
import _mammals as mammals
from _brush import Brush
from PIL import Image

__all__ = ["pictures"]

PICTURES: dict[str, Callable[[], Brush]] = {
    "1001-bella.png": mammals.dog,
    "1002-zoe.jpg": mammals.cat,
    "1003-flopsy.png": mammals.rabbit,
    "1004-loro.webp": animals.parrot,
    "1005-goldie.png": animals.goldfish,
    "1006-bjorn.jpg": animals.turtle,
    "1007-krumel.png": mammals.hamster,
    "1008-kaa.gif": animals.snake,
    "1009-zabka.jpg": animals.frog,
    "1010-kiwi.png": animals.canary,
    "1011-zaczek.webp": mammals.guinea_pig,
    "1012-nemo.jpg": animals.clownfish,
    "1013-nandu.png": animals.duck,
    "1014-henrietta.jpg": animals.hen,
    "1015-pascal.png": animals.chameleon,
    "1016-axel.webp": animals.axolotl,
    "1017-pip.png": mammals.mouse,
    "1018-slinky.gif": mammals.ferret,
    "1019-xiaoxue.jpg": mammals.white_cat,
    "9007199254740993-omalley.png": mammals.dachshund,
}
FORMATS = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP", "gif": "GIF"}


def pictures() -> dict[str, bytes]:
    """The encoded pictures by file name, each 320 × 240."""
    return {name: _encoded(draw().finished(), name) for name, draw in PICTURES.items()}


def _encoded(image: Image.Image, name: str) -> bytes:
    kind = FORMATS[name.rpartition(".")[2]]
    if kind == "GIF":
        image = image.quantize(96, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    content = io.BytesIO()
    image.save(content, kind, optimize=True, quality=88)
    return content.getvalue()
