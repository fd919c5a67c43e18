"""Image files: complete ones are accepted, all others are refused with their actual type."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from picturing import animation, exif, image, png_of, turned_jpeg, with_chunk
from PIL import Image, ImageOps

from petsync.errors import SettingsError
from petsync.images.find import ENDINGS
from petsync.images.inspect import (
    DecodedImage,
    UnusableImageError,
    orientation,
    parts,
    prepare_image,
)
from petsync.plan.options import PictureOptions

PLAIN = PictureOptions()
FORMATS = {"JPEG": ".jpg", "PNG": ".png", "GIF": ".gif", "WEBP": ".webp"}


def look(content: bytes, ending: str = ".png", **options: object) -> DecodedImage:
    """Return the file as a decoded image."""
    return prepare_image(content, ending, PictureOptions(**options))  # type: ignore[arg-type]


def refused(content: bytes, ending: str = ".png", **options: object) -> str:
    """Return the reason why the file is refused."""
    with pytest.raises(UnusableImageError) as caught:
        look(content, ending, **options)
    assert caught.value.cure
    return caught.value.problem


def pixels(content: bytes) -> bytes:
    """Return the pixels of an encoded image."""
    with Image.open(io.BytesIO(content)) as picture:
        return picture.convert("RGBA").tobytes()


@pytest.mark.parametrize("form", FORMATS)
def test_whole_image_is_sent_as_it_is(form: str) -> None:
    """An image without metadata is sent byte for byte."""
    content = image(form)
    found = look(content, FORMATS[form])
    assert (found.format, found.width, found.height, found.frames) == (form, 8, 6, 1)
    assert (found.content, found.done, found.saved) == (content, (), "")
    assert found.digest == found.sent_digest


@pytest.mark.parametrize("form", FORMATS)
def test_cut_off_anywhere_is_refused(form: str) -> None:
    """A file that lacks its last part is refused, even if only the last byte is missing."""
    content = image(form, (40, 30))
    for length in {1, 3, 12, 20, 33, len(content) // 2, len(content) - 1}:
        assert refused(content[:length], FORMATS[form])


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_animation_is_decoded_whole(form: str) -> None:
    """Each frame of an animation is counted and decoded, and a broken frame is found."""
    content = animation(form)
    assert look(content, FORMATS[form]).frames == 3
    assert refused(content[: len(content) * 2 // 3], FORMATS[form])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"hello there", "text"),
        (b"   \n", "only whitespace"),
        (b"%PDF-1.7 ...", "PDF"),
        (b"PK\3\4....", "ZIP"),
        (b"<svg xmlns='x'/>", "SVG"),
        (b"<!doctype html><p>log in", "web page"),
        (b"MZ\x90\0", "program"),
        (b"BM1234", "BMP"),
        (b"II*\0....", "TIFF"),
        (b"\0\0\0\x18ftypheic....", "HEIC"),
        (b"\0\0\0\x18ftypavif....", "AVIF"),
        (b"\0\0\0\x18ftypisom....", "video"),
        (b"\0\1\2\3", "unknown format"),
        ("ä".encode("utf-16"), "unknown format"),
    ],
)
def test_other_files_are_named(content: bytes, message: str) -> None:
    """A file in none of the four formats is refused with its actual type."""
    assert message in refused(content)


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        (b"BM1234", "save it as JPEG or PNG"),
        (b"\0\0\0\x18ftypheic....", "save it as JPEG or PNG"),
        (b"\0\1\2\3", "save it as JPEG or PNG"),
        (b"%PDF-1.7 ...", "Replace it with the picture itself"),
        (b"hello there", "Replace it with the picture itself"),
    ],
)
def test_only_a_picture_is_to_be_saved_again(content: bytes, cure: str) -> None:
    """Only a file that an image program may open is to be saved in another format."""
    with pytest.raises(UnusableImageError) as caught:
        look(content)
    assert cure in caught.value.cure


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ending", ["", ".txt", *FORMATS.values()])
def test_wrong_ending_is_reported(form: str, ending: str) -> None:
    """A file whose ending belongs to another format is refused with the right ending."""
    if ENDINGS.get(ending) == form:
        assert look(image(form), ending.upper()).format == form
        return
    with pytest.raises(UnusableImageError) as caught:
        look(image(form), ending)
    assert form in caught.value.problem
    assert FORMATS[form] in caught.value.cure


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.class", b"x" * 50)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (image("GIF") + _zip(), "ZIP"),
        (image("PNG") + b"<html><script>alert(1)</script>", "web page"),
        (with_chunk(image("PNG"), b"tEXt", b"Comment\0<?php system($_GET[0]);"), "script"),
        (with_chunk(image("PNG"), b"tEXt", b"Comment\0%PDF-1.4"), "PDF"),
        (image("JPEG", comment=b"<SCRIPT>alert(1)</SCRIPT>"), "web page"),
    ],
)
def test_two_files_in_one_are_refused(content: bytes, message: str) -> None:
    """An image that another program takes for an archive, a web page or a script is refused."""
    ending = {b"G": ".gif", b"\xff": ".jpg"}.get(content[:1], ".png")
    assert message in refused(content, ending)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((50_000, 50_000), "50,000 × 50,000 pixels; at most "),
        ((2**31 - 1, 2**31 - 1), "pixels; at most 65,535 are allowed on a side"),
        ((70_000, 1), "70,000 × 1 pixels; at most 65,535 are allowed on a side"),
    ],
)
def test_bombs_are_refused_before_they_are_decoded(size: tuple[int, int], message: str) -> None:
    """A small file that claims a huge number of pixels, or a side that is too long, is refused
    before it is decoded.
    """
    assert message in refused(png_of(*size))


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
def test_frames_count_as_pixels(form: str) -> None:
    """The limit of pixels applies to all frames together."""
    content = animation(form, frames=10, size=(100, 100))
    assert look(content, FORMATS[form], max_pixels=100_000).frames == 10
    assert "in each of 10 frames" in refused(content, FORMATS[form], max_pixels=99_999)


def test_png_that_unpacks_without_end_is_refused() -> None:
    """A PNG text chunk that unpacks to many megabytes is refused."""
    import zlib

    bomb = b"Comment\0\0" + zlib.compress(b"\0" * (80 * 1024 * 1024))
    assert refused(with_chunk(image("PNG"), b"zTXt", bomb))


def test_large_file_is_refused_with_both_sizes() -> None:
    """A file over the limit of bytes is refused with the limit."""
    assert refused(image("PNG", (300, 300)), max_bytes=100).endswith("100 bytes is allowed")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation_", range(1, 9))
def test_rotation_stays_when_metadata_go(form: str, orientation_: int) -> None:
    """A rotated picture keeps its orientation and its pixels when its metadata are removed; a
    scaled picture is upright.
    """
    content = image(form, (16, 8), exif=exif(orientation_))
    found = look(content, FORMATS[form])
    assert (found.done, found.saved) == (("metadata",), "")
    assert b"51.5 N" not in found.content
    assert pixels(found.content) == pixels(content)
    assert look(found.content, FORMATS[form]).done == ()
    with Image.open(io.BytesIO(found.content)) as bare:
        assert dict(bare.getexif()) == ({} if orientation_ == 1 else {0x0112: orientation_})
        seen = ImageOps.exif_transpose(bare).convert("RGB")
    small = look(content, FORMATS[form], max_side=8)
    assert small.done == ("metadata", "scaled")
    with Image.open(io.BytesIO(small.content)) as scaled:
        assert not scaled.getexif()
        assert scaled.size == (small.sent_width, small.sent_height)
        assert scaled.size == (seen.width // 2, seen.height // 2)
        corner, there = scaled.convert("RGB").getpixel((0, 0)), seen.getpixel((1, 1))
    assert all(abs(a - b) < 40 for a, b in zip(corner, there, strict=True))


def _lossless(form: str) -> bytes:
    if form == "GIF":
        return image(form, comment=b"51.5 N")
    if form == "PNG":
        return with_chunk(image(form, exif=exif()), b"tEXt", b"Where\0secret 51.5 N")
    return image(form, exif=exif(), xmp=b"<x:xmpmeta>51.5 N</x:xmpmeta>")


@pytest.mark.parametrize("form", FORMATS)
def test_metadata_are_removed_without_a_loss(form: str) -> None:
    """EXIF, XMP, comments and texts are removed without a change to a pixel; they stay if
    keep_metadata is set.
    """
    content = _lossless(form)
    assert b"51.5 N" in content
    found = look(content, FORMATS[form])
    assert b"51.5 N" not in found.content
    assert (found.done, found.saved) == (("metadata",), "")
    assert pixels(found.content) == pixels(content)
    assert look(found.content, FORMATS[form]).done == ()
    assert look(content, FORMATS[form], keep_metadata=True).content == content


def test_what_follows_the_image_is_removed() -> None:
    """A second picture that a camera adds behind the first is removed, because it has its own EXIF
    data.
    """
    first = image("JPEG")
    found = look(first + turned_jpeg(1), ".jpg")
    assert found.content == first


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_colour_profile_stays(form: str) -> None:
    """A colour profile belongs to the picture: it stays when metadata are removed and when the
    picture is scaled.
    """
    profile = b"profile" * 20
    content = image(form, (60, 30), icc_profile=profile, exif=exif())
    for options in ({}, {"max_side": 20}):
        with Image.open(io.BytesIO(look(content, FORMATS[form], **options).content)) as picture:
            assert picture.info["icc_profile"] == profile


@pytest.mark.parametrize("form", FORMATS)
def test_scaled_down_and_never_up(form: str) -> None:
    """A picture is scaled to the given longer side with its shape and format; a smaller picture
    stays unchanged.
    """
    content = image(form, (90, 60))
    found = look(content, FORMATS[form], max_side=30)
    with Image.open(io.BytesIO(found.content)) as picture:
        assert (picture.format, picture.size) == (form, (30, 20))
    assert found.done == ("scaled",)
    assert found.saved
    assert look(content, FORMATS[form], max_side=90).content == content


def test_scaling_keeps_metadata_on_request_but_turns_the_picture() -> None:
    """EXIF data that are kept say "upright" once the picture is turned."""
    found = look(turned_jpeg(6, (80, 40)), ".jpg", max_side=20, keep_metadata=True)
    with Image.open(io.BytesIO(found.content)) as picture:
        assert picture.size == (10, 20)
        assert picture.getexif()[0x0112] == 1
        assert picture.getexif()[0x010E] == "seen at 51.5 N"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_mode_of_a_png_is_scaled(mode: str) -> None:
    """A PNG of any colour mode is scaled."""
    out = io.BytesIO()
    Image.new(mode, (64, 32)).save(out, "PNG")
    found = look(out.getvalue(), max_side=16)
    assert (found.sent_width, found.sent_height) == (16, 8)


def test_animation_is_not_scaled() -> None:
    """An animation is refused for scaling, because it would lose its frames."""
    assert "animation" in refused(animation(), ".gif", max_side=4)


@pytest.mark.parametrize(
    "garbage", [b"II*\0", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff"]
)
def test_broken_exif_is_no_orientation(garbage: bytes) -> None:
    """Broken EXIF data give no orientation, and the image is accepted."""
    assert orientation(garbage) is None
    assert look(image("JPEG", exif=b"Exif\0\0" + garbage), ".jpg").content


def test_huge_exif_is_accepted_and_removed() -> None:
    """A JPEG with as much EXIF data as fits is accepted without them."""
    content = image("JPEG", exif=b"Exif\0\0" + b"II*\0" + b"\0" * 60_000)
    assert len(look(content, ".jpg").content) < len(content) - 60_000


@pytest.mark.parametrize("form", FORMATS)
def test_parts_are_the_whole_file(form: str) -> None:
    """The parts of a file follow each other without a gap, from the first byte to the last."""
    content = _lossless(form)
    found = parts(content, form)  # type: ignore[arg-type]
    edges = [(part.start, part.end) for part in found]
    assert edges[0][0] == 0
    assert edges[-1][1] == len(content)
    assert all(one[1] == two[0] for one, two in pairwise(edges))


@pytest.mark.parametrize("form", FORMATS)
def test_damaged_anywhere_never_raises_anything_else(form: str) -> None:
    """With any one byte wrong, the file is accepted or refused with a reason."""
    content = bytearray(_lossless(form))
    for at in range(0, len(content), max(1, len(content) // 150)):
        wrong = bytes([*content[:at], content[at] ^ 0xFF, *content[at + 1 :]])
        with suppress(UnusableImageError):
            assert look(wrong, FORMATS[form], max_side=4).content


@pytest.mark.parametrize("name", ["max_side", "max_bytes", "max_pixels"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "10", True])
def test_limits_are_whole_numbers(name: str, value: object) -> None:
    """A limit that is not a positive whole number is refused by its name."""
    with pytest.raises(SettingsError, match=name):
        PictureOptions(**{name: value})  # type: ignore[arg-type]


def test_sample_pictures_are_whole() -> None:
    """Every picture of the sample data can be uploaded."""
    folder = Path(__file__).parent.parent / "sample_data" / "images"
    found = [prepare_image(path.read_bytes(), path.suffix, PLAIN) for path in folder.iterdir()]
    assert len(found) == 20
