"""What a file is by its content, whatever its name says."""

from __future__ import annotations

from typing import Literal

__all__ = ["ENDINGS", "IMAGE_ENDINGS", "Format", "described", "format_of", "hidden_kind"]

Format = Literal["JPEG", "PNG", "GIF", "WEBP"]

ENDINGS: dict[str, Format] = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".jpe": "JPEG",
    ".jfif": "JPEG",
    ".png": "PNG",
    ".gif": "GIF",
    ".webp": "WEBP",
}
"""The endings of the formats that are uploaded."""

IMAGE_ENDINGS = frozenset(
    (*ENDINGS, ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".svg", ".ico", ".psd", ".jp2")
) | {".apng", ".dng", ".cr2", ".nef", ".arw", ".raw"}
"""Endings of files that somebody takes for pictures."""

_MAGIC = (
    (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\1\0", "an icon file (ICO)"),
    (b"\0\0\0\x0cjP", "a JPEG 2000 image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\3\4", "a ZIP archive (or a document that is one, such as .docx or .xlsx)"),
    (b"PK\5\6", "an empty ZIP archive"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an audio file"),
    (b"\x1aE\xdf\xa3", "a video file"),
)
_HEIF = (b"heic", b"heix", b"hevc", b"heim", b"mif1", b"msf1")


def format_of(content: bytes) -> Format | None:
    """The format by the content's beginning, None for all but the four."""
    if content.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WEBP"
    return None


def described(content: bytes) -> str:
    """What a file that is none of the four formats really is, as a person would say it."""
    if content[4:8] == b"ftyp":
        brand = content[8:12]
        if brand in _HEIF:
            return "a HEIC image, as phones make them"
        return "an AVIF image" if brand in (b"avif", b"avis") else "a video file"
    for magic, name in _MAGIC:
        if content.startswith(magic):
            return name
    return _of_text(content[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower())


def hidden_kind(content: bytes) -> str | None:
    """What an image file is besides, for a program that does not begin at its first byte: an
    archive, a document, a page or a script; None where it is nothing else.
    """
    if b"%PDF-" in content[:1024]:
        return "a PDF document"
    # An archive's directory stands at its end, before a comment of at most 64 KiB.
    if b"PK\5\6" in content[-66_000:]:
        return "a ZIP archive"
    lower = content.lower()
    if b"<script" in lower or b"<html" in lower or b"<!doctype html" in lower:
        return "a web page"
    return "a script" if b"<?php" in lower else None


def _of_text(start: bytes) -> str:
    if b"<svg" in start:
        return "an SVG drawing"
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page (perhaps a download that asked for a login)"
    if not start:
        return "nothing but blanks"
    if b"\0" in start:
        return "no image that is known here"
    try:
        start[:512].decode()
    except UnicodeDecodeError as error:
        # A character may be cut off at the end.
        return "text" if error.start > 500 else "no image that is known here"
    return "text"
