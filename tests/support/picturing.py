"""Images for tests, made in memory: valid ones and hostile ones."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

from PIL import Image

__all__ = ["animation", "exif", "image", "png_of", "put", "turned_jpeg", "with_chunk"]


def image(
    form: str = "PNG",
    size: tuple[int, int] = (8, 6),
    colour: tuple[int, int, int] = (200, 30, 30),
    **how: Any,
) -> bytes:
    """Return an encoded image; its left half has the colour, its right half is black."""
    picture = Image.new("RGB", size)
    picture.paste(colour, (0, 0, size[0] // 2, size[1]))
    out = io.BytesIO()
    picture.save(out, form, **how)
    return out.getvalue()


def animation(form: str = "GIF", frames: int = 3, size: tuple[int, int] = (8, 6)) -> bytes:
    """Return an encoded animation."""
    pictures = [Image.new("RGB", size, (n * 20 % 256, 90, 10)) for n in range(frames)]
    out = io.BytesIO()
    pictures[0].save(out, form, save_all=True, append_images=pictures[1:], duration=50)
    return out.getvalue()


def exif(orientation: int = 1, note: str = "seen at 51.5 N") -> bytes:
    """Return a camera's EXIF data: the orientation and a private note."""
    data = Image.Exif()
    data[0x0112] = orientation
    data[0x010E] = note
    return data.tobytes()


def turned_jpeg(orientation: int, size: tuple[int, int] = (16, 8)) -> bytes:
    """Return a JPEG with this EXIF orientation."""
    return image("JPEG", size, exif=exif(orientation), quality=95)


def png_of(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes that claims this size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    row = zlib.compress(b"\0" * 100)
    chunks = _chunk(b"IHDR", head) + _chunk(b"IDAT", row) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def with_chunk(png: bytes, name: bytes, data: bytes) -> bytes:
    """Return the PNG with one more chunk after its header."""
    return png[:33] + _chunk(name, data) + png[33:]


def put(folder: Path, **files: bytes) -> Path:
    """Write these files into the folder and return it; `__` in a name stands for a dot."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        (folder / name.replace("__", ".").removeprefix("p")).write_bytes(content)
    return folder


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
