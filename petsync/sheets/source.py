"""A spreadsheet's bytes, and whether they are a workbook or text, whatever the file is called."""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from petsync.errors import SheetError
from petsync.settings import checked_encoding
from petsync.sheets.kinds import RESAVE, foreign, is_workbook, unreadable_text

__all__ = ["EncodingError", "Source", "encoding_of", "load"]

MAX_SIZE = 1 << 30
"""The most bytes of a file: it is held whole."""
MAX_LINE = 1 << 24
"""The most bytes between two line breaks of a text file: those of a record of 16,384 cells."""

_WORKBOOKS = (".xlsx", ".xlsm")
_TEXTS = (".csv", ".tsv", ".txt")
_UTF8 = "UTF-8"
_MARKS = {
    codecs.BOM_UTF8: (_UTF8, ("utf-8", "utf-8-sig")),
    codecs.BOM_UTF32_LE: ("UTF-32", ("utf-32", "utf-32-le")),
    codecs.BOM_UTF32_BE: ("UTF-32", ("utf-32", "utf-32-be")),
    codecs.BOM_UTF16_LE: ("UTF-16", ("utf-16", "utf-16-le")),
    codecs.BOM_UTF16_BE: ("UTF-16", ("utf-16", "utf-16-be")),
}


class EncodingError(SheetError):
    """A text file is in another encoding than it was to be read in; `offered` is one that it may
    be in, "" where none is likely.
    """

    def __init__(self, message: str, *, hint: str, offered: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offered = offered


@dataclass(frozen=True, slots=True)
class Source:
    """One file, read whole, so that all that is said of it is of the same moment.

    `data` are its bytes, of a text file in another `encoding` its text as UTF-8; `original` are
    then the file's own bytes, else b"".
    """

    path: Path
    kind: Literal["workbook", "text"]
    data: bytes = field(repr=False)
    encoding: str = ""
    original: bytes = field(default=b"", repr=False)

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self.original or self.data

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's bytes, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def encoded(self, data: bytes) -> bytes:
        """A text file's UTF-8 in the file's own encoding; in UTF-8 with a byte order mark, which is
        read whatever encoding is named, where that lacks a character.
        """
        if not self.encoding:
            return data
        text = data.decode()
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return codecs.BOM_UTF8 + text.removeprefix("\ufeff").encode()


def _check_name(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(path).encode(errors="surrogateescape").decode(errors="replace")
        raise SheetError(
            f"{shown}: the file's name is not UTF-8, so no plan or journal could hold it",
            hint="Rename it.",
        ) from None


def load(path: Path, encoding: str | None = None) -> Source:
    """The file at `path`, a text file in that encoding, by default UTF-8. Raises SheetError where
    it is no spreadsheet that can be read, and SettingsError where there is no such encoding.
    """
    if encoding is not None:
        encoding = checked_encoding(encoding)
    _check_name(path)
    data = _bytes(path)
    kind = foreign(path.name, data)
    if kind is not None:
        raise SheetError(f"{path}: the file is {kind.what}", hint=kind.hint)
    if is_workbook(data):
        if encoding is not None:
            raise SheetError(
                f"{path}: this is a workbook, which says its encoding itself",
                hint="Leave out the encoding: it is for CSV files.",
            )
        return Source(path, "workbook", data)
    suffix = path.suffix.casefold()
    if suffix in _WORKBOOKS:
        raise _no_workbook(path, data)
    if suffix not in _TEXTS:
        raise SheetError(
            f"{path}: {suffix or 'a file without a suffix'} is not a kind of sheet that is read",
            hint=f"These are: {', '.join(_WORKBOOKS + _TEXTS)}. {RESAVE}",
        )
    source = _text(path, data, encoding)
    kind = unreadable_text(source.data)
    if kind is not None:
        what = f"{path}: the file is {kind.what}"
        if kind.encoding:
            raise EncodingError(what, hint=kind.hint, offered=kind.encoding)
        raise SheetError(what, hint=kind.hint)
    _check_lines(path, source.data)
    return source


def _text(path: Path, data: bytes, encoding: str | None) -> Source:
    """The text file of these bytes. Raises EncodingError where it is not in that encoding, or
    begins with the byte order mark of another one.
    """
    if encoding is None:
        return Source(path, "text", data)
    name, fitting = _marked(data)
    if name and encoding not in fitting:
        raise EncodingError(
            f"{path}: the file begins with the byte order mark of {name}, so it is not {encoding}",
            hint="Leave out the encoding." if name == _UTF8 else f"Name {fitting[0]} instead.",
            offered="" if name == _UTF8 else fitting[0],
        )
    if name == _UTF8:
        return Source(path, "text", data)
    try:
        text = data.decode(encoding)
    except ValueError as error:
        at = f", byte {error.start + 1} of the file" if hasattr(error, "start") else ""
        raise EncodingError(
            f"{path}: the file is not {encoding}{at}: {error}", hint="Name another encoding."
        ) from None
    return Source(path, "text", text.encode("utf-8", "surrogatepass"), encoding, data)


def _marked(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Of which encoding the byte order mark is with which the file begins, and the names of those
    that it fits; "" where there is none.
    """
    # The mark of UTF-32 begins with that of UTF-16.
    for mark, (name, fitting) in _MARKS.items():
        if data.startswith(mark):
            return name, fitting
    return "", ()


def encoding_of(path: Path, usual: str) -> str | None:
    """The encoding to read a file with that is in the `usual` one unless it says otherwise, as a
    workbook does and a byte order mark. Raises SheetError where the file cannot be read.
    """
    data = _bytes(path)
    if is_workbook(data):
        return None
    name, fitting = _marked(data)
    return (None if name == _UTF8 else fitting[0]) if name else usual


def _bytes(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SheetError(
                f"{path}: this is a device or a pipe, no file", hint="Save the sheet as a file."
            )
        with path.open("rb") as file:
            return _whole(path, file)
    except FileNotFoundError:
        raise SheetError(f"{path}: there is no such file", hint=_found(path.parent)) from None
    except IsADirectoryError:
        raise SheetError(f"{path}: this is a folder", hint=_found(path)) from None
    except PermissionError:
        raise SheetError(
            f"{path}: you may not read this file",
            hint="Ask its owner for permission, and close it where another program holds it.",
        ) from None
    except SheetError:
        raise
    except (OSError, ValueError) as error:
        raise SheetError(
            f"{path}: the file cannot be read: {error}",
            hint="See whether the path is right and the disk is there, and try again.",
        ) from None


def _whole(path: Path, file: BinaryIO) -> bytes:
    before = os.fstat(file.fileno())
    if before.st_size > MAX_SIZE:
        raise SheetError(
            f"{path}: the file has {before.st_size / 1e9:,.1f} GB, and a sheet may have "
            f"{MAX_SIZE / 1e9:,.1f} GB",
            hint="Split it into several sheets, or leave out the columns that are not needed.",
        )
    # One byte more than there was tells a file that grows, and no such file is read for ever.
    data = file.read(before.st_size + 1)
    after = os.fstat(file.fileno())
    if len(data) != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
        raise SheetError(
            f"{path}: the file changed while it was read",
            hint="Wait until the program that writes it is done, and try again.",
        )
    return data


def _found(folder: Path) -> str:
    """A hint at the sheets of a folder."""
    if not folder.is_dir():
        return f"There is no folder {folder} either: see whether the path is right."
    suffixes = _WORKBOOKS + _TEXTS
    try:
        names = sorted(each.name for each in folder.iterdir() if each.suffix in suffixes)
    except OSError:
        return "See whether the path is right."
    return f"In {folder} there {_listed(names)}."


def _listed(names: list[str]) -> str:
    if not names:
        return "is no sheet"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{'are' if len(names) > 1 else 'is'} {', '.join(names[:8])}{more}"


def _no_workbook(path: Path, data: bytes) -> SheetError:
    text = all(byte >= 32 or byte in b"\t\r\n" for byte in data[:1024])
    hint = "If it is CSV, give it a name that ends with .csv. " if text else ""
    begins = f"the text “{_first_line(data)}”" if text else f"the bytes {data[:8].hex(' ').upper()}"
    return SheetError(
        f"{path}: this is not an Excel workbook, whatever its name says; it begins with {begins}",
        hint=f"{hint}{RESAVE}" if text else "It is damaged, or not a sheet at all: fetch it anew.",
    )


def _first_line(data: bytes) -> str:
    """The beginning of the first line that says anything."""
    text = data[:1024].decode("utf-8-sig", "replace")
    return next((line.strip()[:40] for line in text.splitlines() if line.strip()), "")


def _check_lines(path: Path, data: bytes) -> None:
    at = 0
    while len(data) - at > MAX_LINE:
        # Backwards from the longest allowed line's end: few bytes are looked at.
        stop = at + MAX_LINE
        end = data.rfind(b"\n", at, stop) + 1 or data.rfind(b"\r", at, stop) + 1
        if not end:
            line = max(data.count(b"\n", 0, at), data.count(b"\r", 0, at)) + 1
            raise SheetError(
                f"{path}: line {line} has more than {MAX_LINE / 1e6:,.0f} MB without a line break, "
                "more than any row of a sheet",
                hint="See in a text editor whether this is a table at all, and save it anew.",
            )
        at = end
