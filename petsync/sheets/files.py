"""Sheet files: their kinds, their encodings, and the locks of other programs."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import BufferedReader
from os.path import lexists
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, ParamSpec, TypeVar

from petsync._display import quote
from petsync._files import PACKED, READABLE, ending_of, has_wildcards, is_address, is_folder
from petsync.errors import SheetError
from petsync.settings import checked_address, checked_encoding

__all__ = [
    "AS_ENCODED",
    "AS_UTF8",
    "AS_WORKBOOK",
    "KIND_OF_PART",
    "RESAVE",
    "EncodingError",
    "FileKind",
    "Source",
    "changed_error",
    "check_lines",
    "describe_byte",
    "identify_foreign",
    "identify_zip",
    "is_workbook",
    "make_executor",
    "must_be_closed",
    "must_not_be_address",
    "open_regular",
    "read_blocks",
    "unreadable_text",
]


# Sheets in several files, which are compared in parts.


KIND_OF_PART: Mapping[str, Literal["Parquet", "CSV", "JSON Lines"]] = {
    ".parquet": "Parquet",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
}
"""The kind of the files of a sheet in several files, by their suffix."""


def must_not_be_address(path: str | Path) -> None:
    """Raise SheetError for an address, and SettingsError for one that may contain a secret."""
    if is_address(path):
        raise SheetError(
            f"{checked_address(path)} is an address, where petsync only compares and exports "
            "sheets in parts",
            hint="Use plan() or export_to(), or a copy of the file on this machine.",
        )


# Kinds of files that petsync does not read as sheets, identified by their bytes or names, and what
# to do instead.


RESAVE = "Open it in Excel or LibreOffice and save it as .xlsx or as CSV (UTF-8)."
AS_WORKBOOK = (
    "Open it in Excel or LibreOffice, and save it as an Excel workbook (.xlsx): File, Save As."
)
AS_UTF8 = (
    "Save it again: in Excel as “CSV UTF-8”, in LibreOffice with the character set “Unicode "
    "(UTF-8)”. Or use an Excel workbook (.xlsx)."
)
AS_ENCODED = (
    'Specify its encoding: --encoding {0}, in Python encoding="{0}". Or save it again: in Excel as '
    "“CSV UTF-8”, in LibreOffice with the character set “Unicode (UTF-8)”."
)
_FETCH = "Get it again from its source, or restore it from a backup."
_SIGN_IN = (
    "It may be a sign-in or an error page: open it in a browser, and download the sheet "
    "itself. If it does contain the table: " + RESAVE[0].lower() + RESAVE[1:]
)
UNLOCK = (
    "Save a copy without a password. Excel: File, Info, Protect Workbook, Encrypt with Password, "
    "and empty the box. LibreOffice: File, Save As, without “Save with password”."
)
_NUMBERS = "In Numbers: File, Export To, Excel."
_GOOGLE = "In Google Sheets: File, Download, Microsoft Excel (.xlsx)."
_UNPACK = "Unpack it, and use the sheet in it."
_NO_SHEET = "Use the sheet that it was made from, or export one with petsync."

PARQUET = b"PAR1"
"""The first bytes of a Parquet file."""
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
OLE = bytes.fromhex("D0CF11E0A1B11AE1")
"""The first bytes of an old or encrypted Office file."""
_OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HEAD_SIZE = 1 << 16


class FileKind(NamedTuple):
    """The kind of a file: `what` completes “the file is …”, `hint` says what to do instead, and
    `encoding` is the likely encoding of a text file.
    """

    what: str
    hint: str
    encoding: str = ""


_OLD = FileKind("a very old Excel file, of Excel 4 or before", AS_WORKBOOK)
_FLAT_DOCUMENT = FileKind("a flat OpenDocument sheet (.fods)", AS_WORKBOOK)
_XML = FileKind("an XML spreadsheet of Excel 2003", AS_WORKBOOK)
_TEXT_DOCUMENT = FileKind("an OpenDocument file, but not a sheet", _NO_SHEET)
_PAGE = FileKind("a web page", _SIGN_IN)
_SHORTCUT = FileKind("a shortcut to a Google sheet, not the sheet itself", _GOOGLE)
_LINK = FileKind("a shortcut to a file, not the file itself", "Use the file that it points to.")
_JSON = FileKind(
    "JSON, perhaps a service's response",
    f"{_NO_SHEET} If it is a list of pets, give it a name that ends in .json or .jsonl.",
)

_KIND_OF_SUFFIX = {
    ".fods": _FLAT_DOCUMENT,
    ".numbers": FileKind("a Numbers document", _NUMBERS),
    ".gsheet": _SHORTCUT,
}
_CONTENT = re.compile(rb"[^ \t\r\n\0]")
_DOWNLOAD_SUFFIXES = (".crdownload", ".part", ".partial", ".download", ".opdownload")
_KIND_OF_SIGNATURE: dict[bytes, FileKind] = {
    b"version https://git-lfs": FileKind(
        "a pointer that Git LFS left in the file's place", "Fetch the file itself: git lfs pull."
    ),
    b"%PDF-": FileKind("a PDF document", _NO_SHEET),
    b"\x89PNG": FileKind("a picture", _NO_SHEET),
    b"\xff\xd8\xff": FileKind("a picture", _NO_SHEET),
    b"{\\rtf": FileKind("a text document (RTF)", _NO_SHEET),
    b"\x1f\x8b": FileKind("compressed with gzip", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": FileKind("a 7-Zip archive", _UNPACK),
    b"Rar!": FileKind("a RAR archive", _UNPACK),
    b"BZh": FileKind("compressed with bzip2", _UNPACK),
    b"\x28\xb5\x2f\xfd": FileKind("compressed with Zstandard", _UNPACK),
    b"PARE": FileKind(
        "an encrypted Parquet file", "Write it again without encryption, and use that."
    ),
    b"SQLite format 3\0": FileKind("an SQLite database", _NO_SHEET),
    b"L\0\0\0\x01\x14\x02\0": _LINK,
    b"[InternetShortcut]": _LINK,
    b"\x09\x08\x10\0": _OLD,
    b"\x09\x04\x06\0": _OLD,
    b"\x09\x02\x06\0": _OLD,
}
_KIND_OF_MEMBER = {
    "index/document.iwa": FileKind("a Numbers document", _NUMBERS),
    "word/document.xml": FileKind("a Word document", _NO_SHEET),
    "ppt/presentation.xml": FileKind("a presentation", _NO_SHEET),
}
_KIND_OF_MARKUP = {
    re.compile(rb"<!DOCTYPE html|<html|<head|<body|<table|<script", re.IGNORECASE): _PAGE,
    re.compile(rb"<(?:\w+:)?Workbook\s|progid=\"Excel\.Sheet\""): _XML,
    re.compile(rb"<office:document"): _FLAT_DOCUMENT,
}
_KIND_OF_STREAM = {
    "EncryptedPackage": FileKind("protected by a password", UNLOCK),
    "WordDocument": FileKind("an old Word document", _NO_SHEET),
    "PowerPoint Document": FileKind("an old presentation", _NO_SHEET),
}


def identify_foreign(name: str, data: bytes, *, json: bool = False) -> FileKind | None:
    """Return the kind of a file that petsync does not read; None if the file may be a sheet. With
    `json`, it may be JSON.
    """
    if name.startswith("~$") or (name.startswith(".~lock.") and name.endswith("#")):
        sheet = name[2:] if name.startswith("~$") else name[7:-1]
        return FileKind(
            f"the lock file of a program that has {sheet} open, not the sheet itself",
            f"Save {sheet} in that program, and use {sheet} itself.",
        )
    if not _CONTENT.search(data):
        what = "only NUL bytes: its content was never written" if data.strip() else "empty"
        return FileKind(what, _FETCH)
    if name.casefold().endswith(_DOWNLOAD_SUFFIXES):
        return FileKind(
            "still being downloaded", "Wait until the download is done, and use the complete file."
        )
    beginnings = (kind for mark, kind in _KIND_OF_SIGNATURE.items() if data.startswith(mark))
    return (
        next(beginnings, None)
        or _identify_container(data)
        or _identify_by_name(name)
        or _identify_markup(data, json=json)
    )


def is_workbook(data: bytes) -> bool:
    """Return true if these are the bytes of a ZIP file; every workbook is a ZIP file."""
    return data.startswith(_ZIP)


def unreadable_text(data: bytes) -> FileKind | None:
    """Return a reason why a text file cannot be read, as a `FileKind`: it is UTF-16 or UTF-32, or
    ends in NUL bytes. Return None if there is no such reason.
    """
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return FileKind("UTF-32, not UTF-8", AS_ENCODED.format("utf-32"), "utf-32")
    text = data.rstrip(b"\0")
    head = text[:_HEAD_SIZE]
    # In UTF-16, every other byte of ASCII text is NUL.
    even, odd = head[::2].count(0), head[1::2].count(0)
    if data.startswith(_BYTE_ORDER_MARKS[1:]):
        return FileKind("UTF-16, not UTF-8", AS_ENCODED.format("utf-16"), "utf-16")
    if max(even, odd) > len(head) // 4:
        order = "utf-16-le" if odd > even else "utf-16-be"
        return FileKind("UTF-16, not UTF-8", AS_ENCODED.format(order), order)
    padding = len(data) - len(text)
    if padding:
        return FileKind(f"not complete: it ends in {padding:,} NUL bytes", _FETCH)
    return None


def identify_zip(names: Collection[str]) -> FileKind | None:
    """Return the kind of a ZIP file with members of these names (in lower case); None if it may be
    an Excel workbook.
    """
    kind = next((kind for name, kind in _KIND_OF_MEMBER.items() if name in names), None)
    # The content types of an Office package specify which of its parts is the workbook.
    if kind is not None or {"[content_types].xml", "_rels/.rels"} <= set(names):
        return kind
    if any(name.startswith("xl/") for name in names):
        return None
    sheets = [name for name in names if name.endswith((".xlsx", ".xlsm", ".csv"))]
    hint = (
        f"It contains {', '.join(sheets[:5])}. {_UNPACK}"
        if sheets
        else "It contains no sheet. If a spreadsheet program can open it, save it there as .xlsx."
    )
    return FileKind("a ZIP file, not an Excel workbook", hint)


def _identify_container(data: bytes) -> FileKind | None:
    if data.startswith(OLE):
        kinds = (kind for name, kind in _KIND_OF_STREAM.items() if name.encode("utf-16-le") in data)
        return next(kinds, None)
    is_document = is_workbook(data) and _OPEN_DOCUMENT in data[:128]
    return _TEXT_DOCUMENT if is_document and not is_open_sheet(data) else None


def is_open_sheet(data: bytes) -> bool:
    """Return true if a ZIP file begins as an OpenDocument sheet does."""
    return _OPEN_DOCUMENT + b".spreadsheet" in data[:128]


def _identify_by_name(name: str) -> FileKind | None:
    return _KIND_OF_SUFFIX.get(name[name.rfind(".") :].casefold()) if "." in name else None


def _identify_markup(data: bytes, *, json: bool) -> FileKind | None:
    head = data[:4096]
    for mark in _BYTE_ORDER_MARKS:
        head = head.removeprefix(mark)
    head = head.replace(b"\0", b"").lstrip()
    if head.startswith(b"<"):
        return next((kind for what, kind in _KIND_OF_MARKUP.items() if what.search(head)), None)
    if head.startswith(b"{") and b"docs.google.com" in head:
        return _SHORTCUT
    return _JSON if not json and re.match(rb"[\[{]\s*[\[{\"]", head) else None


# Lock files that spreadsheet programs put beside an open file.


_MAX_USER_LENGTH = 54


def must_be_closed(path: Path) -> None:
    """Raise SheetError if Excel or LibreOffice has the file open: a lock file is beside it."""
    for program, lock, owner in _locks(path):
        user = f" ({owner})" if owner else ""
        raise SheetError(
            f"{path}: {program} has the file open{user}",
            hint=f"Close it there. If it is not open, a crash left {lock}: delete it.",
        )


def _locks(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each existing lock: the program, the lock file, and the user who made it."""
    for file in dict.fromkeys((path.absolute(), path.resolve())):
        excel = file.with_name(f"~${file.name}")
        office = file.with_name(f".~lock.{file.name}#")
        if lexists(excel):
            yield "Excel", excel, _excel_user(_read_lock(excel))
        if lexists(office):
            yield "LibreOffice", office, _office_user(_read_lock(office))


def _read_lock(lock: Path) -> bytes:
    """Return the first bytes of the lock file; b"" if it cannot be read, or is not a regular file:
    a pipe would block.
    """
    try:
        if not stat.S_ISREG(lock.lstat().st_mode):
            return b""
        with open(lock, "rb", opener=_open_without_waiting) as file:
            return file.read(1024)
    except OSError:
        return b""


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file in non-blocking mode if the system supports it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _excel_user(data: bytes) -> str:
    """Return the user's name from Excel's lock file, which begins with the length of the name."""
    length = data[0] if data else 0
    return _printable_name(data[1 : 1 + min(length, _MAX_USER_LENGTH)])


def _office_user(data: bytes) -> str:
    """Return the user's name from LibreOffice's lock file: its first comma-separated field."""
    return _printable_name(data.partition(b",")[0])


def _printable_name(name: bytes) -> str:
    text = name.decode("utf-8", "replace").strip()
    return text[:_MAX_USER_LENGTH] if text.isprintable() else ""


# Source: a spreadsheet's bytes, and whether they are a workbook, text or records.


MAX_SIZE = 1 << 30
"""The maximum number of bytes of a file: the whole file is kept in memory."""
MAX_LINE = 1 << 24
"""The maximum number of bytes between two line breaks of a text file."""

WORKBOOK_SUFFIXES = (".xlsx", ".xlsm")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_UTF8 = "UTF-8"
_ENCODING_OF_MARK = {
    codecs.BOM_UTF8: (_UTF8, ("utf-8", "utf-8-sig")),
    codecs.BOM_UTF32_LE: ("UTF-32", ("utf-32", "utf-32-le")),
    codecs.BOM_UTF32_BE: ("UTF-32", ("utf-32", "utf-32-be")),
    codecs.BOM_UTF16_LE: ("UTF-16", ("utf-16", "utf-16-le")),
    codecs.BOM_UTF16_BE: ("UTF-16", ("utf-16", "utf-16-be")),
}


class EncodingError(SheetError):
    """A text file is not in the encoding in which it is read. `offered` is an encoding that it may
    have; "" if none is likely.
    """

    # A worker process sends the error to its caller with the message as the only argument.
    def __init__(self, message: str, *, hint: str = "", offered: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offered = offered


@dataclass(frozen=True, slots=True)
class Source:
    """One file, read once, so that all of its data belongs to the same version of the file."""

    path: Path
    kind: Literal["workbook", "text", "records"]
    """`records` are JSON, JSON Lines or Parquet."""
    data: bytes = field(repr=False)
    """The file's bytes, without compression; for a text file that was decoded with an `encoding`,
    its text as UTF-8; for a workbook of another format, an `.xlsx` with the same cells.
    """
    encoding: str = ""
    """The encoding that the caller gave; "" if none was given or needed: for a workbook, or a text
    file with the byte order mark of UTF-8.
    """
    original: bytes = field(default=b"", repr=False)
    """The file's bytes if they are not `data`; otherwise b""."""
    form: str = ""
    """The format if petsync cannot write into the file, such as "a Parquet file"; otherwise ""."""

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return self.original or self.data

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's bytes, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def encode(self, data: bytes) -> bytes:
        """Return the UTF-8 `data` in the file's encoding. If this encoding lacks a character, or
        would replace it with a similar one, return UTF-8 with a byte order mark; such a file must
        be read without an encoding.
        """
        if not self.encoding:
            return data
        text = data.decode()
        with suppress(UnicodeError):
            encoded = text.encode(self.encoding)
            # The Japanese encodings turn a yen sign into a backslash, or one dash into another.
            if encoded.decode(self.encoding) == text:
                return encoded
        return codecs.BOM_UTF8 + text.removeprefix("\ufeff").encode()


def check_path(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(path).encode(errors="surrogateescape").decode(errors="replace")
        raise SheetError(
            f"{shown}: the path is not UTF-8, so no plan or journal can store it",
            hint="Rename the file or its folder.",
        ) from None


def read_blocks(path: Path, encoding: str | None, size: int) -> Iterator[bytes]:
    """Yield the text of a file as UTF-8, from `size` bytes at a time, without an upper limit for
    the file. The blocks end between characters; there is at least one. Raises the errors of `load`,
    but does not check the lengths of lines.
    """
    if encoding is not None:
        encoding = checked_encoding(encoding)
    with open_regular(path) as file:
        before = os.fstat(file.fileno())
        data = file.read(size)
        _must_be_text(path, data)
        encoding = choose_encoding(path, data, encoding)
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
        if encoding is None:
            must_be_readable(path, data.rstrip(b"\0"))
        start, is_first = 0, True
        while True:
            following = file.read(size)
            waiting = len(decoder.getstate()[0])
            try:
                text = decoder.decode(data, final=not following)
            except ValueError as error:
                raise undecodable_error(path, encoding, error, start - waiting) from None
            block = text.encode("utf-8", "surrogatepass")
            if is_first or not following:
                must_be_readable(path, block.rstrip(b"\0") if following else block)
            yield block
            if not following:
                break
            start, data, is_first = start + len(data), following, False
        if os.fstat(file.fileno()).st_mtime_ns != before.st_mtime_ns:
            raise changed_error(path)


def _must_be_text(path: Path, data: bytes) -> None:
    """Raise SheetError if a file that begins with `data` cannot be a CSV file."""
    kind = identify_foreign(path.name, data)
    if kind is not None:
        raise SheetError(f"{path}: the file is {kind.what}", hint=kind.hint)
    if is_workbook(data) or data.startswith((OLE, PARQUET)):
        raise SheetError(
            f"{path}: this is {'a Parquet file' if data.startswith(PARQUET) else 'a workbook'}, "
            "not a CSV file",
            hint="Save it as CSV (UTF-8).",
        )
    if path.suffix.casefold() not in TEXT_SUFFIXES:
        raise unknown_kind_error(path)


def unknown_kind_error(path: Path) -> SheetError:
    """Return the error for a file whose ending is not that of a sheet."""
    ending = ending_of(path)
    plain = [each for each in READABLE if not each.endswith(PACKED)]
    return SheetError(
        f"{path}: {ending or 'a file without a suffix'} is not a kind of sheet that petsync reads",
        hint=f"petsync reads {', '.join(plain)}; the text files also compressed, as .csv.gz or "
        f".csv.zst. {RESAVE}",
    )


def choose_encoding(path: Path, data: bytes, encoding: str | None) -> str | None:
    """Return the encoding of a text file that begins with `data`; None for UTF-8. Raises
    EncodingError if it begins with the byte order mark of an encoding other than the given one.
    """
    if encoding is None:
        return None
    name, fitting = detect_mark(data)
    if name and encoding not in fitting:
        raise EncodingError(
            f"{path}: the file begins with the byte order mark of {name}, so it is not {encoding}",
            hint="Leave out the encoding." if name == _UTF8 else f"Specify {fitting[0]} instead.",
            offered="" if name == _UTF8 else fitting[0],
        )
    return None if name == _UTF8 else encoding


def undecodable_error(
    path: Path, encoding: str | None, error: ValueError, start: int = 0
) -> EncodingError:
    """Return the error for bytes from `start` on that are not in the encoding, None for UTF-8."""
    why = f"the file is not {encoding or _UTF8}: {error}"
    if isinstance(error, UnicodeDecodeError):
        place = f"byte {start + error.start + 1} of the file"
        why = f"{place} {describe_byte(error.object, error.start)}"
        if encoding:
            why = f"the file is not {encoding}: {place} is invalid ({error.reason})"
    return EncodingError(
        f"{path}: {why}",
        hint="Specify another encoding." if encoding else AS_ENCODED.format("cp1252"),
        offered="" if encoding else "cp1252",
    )


def describe_byte(data: bytes, at: int) -> str:
    """Return what a byte that is not UTF-8 is, with the text around it in its line."""
    before, after = data[max(0, at - 20) : at], data[at : at + 20]
    line = before.rpartition(b"\n")[2] + after.partition(b"\n")[0]
    text = line.decode("cp1252", "replace").strip()
    return f"(0x{data[at]:02X}) is not {_UTF8}; as Windows-1252 it reads {text!r}"


def must_be_readable(path: Path, data: bytes) -> None:
    """Raise SheetError if the text is UTF-16 or UTF-32, or ends in NUL bytes."""
    kind = unreadable_text(data)
    if kind is not None:
        what = f"{path}: the file is {kind.what}"
        if kind.encoding:
            raise EncodingError(what, hint=kind.hint, offered=kind.encoding)
        raise SheetError(what, hint=kind.hint)


def detect_mark(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the encoding of the byte order mark at the start of the file, "" if there is none; and
    the names of the encodings that have this mark.
    """
    # The mark of UTF-32 begins with that of UTF-16.
    for mark, (name, fitting) in _ENCODING_OF_MARK.items():
        if data.startswith(mark):
            return name, fitting
    return "", ()


@contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """Open a file for reading. Raises SheetError if it cannot be read, or is a device or a pipe, or
    if its path is not UTF-8.
    """
    check_path(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SheetError(
                f"{path}: this is a device or a pipe, not a file", hint="Save the sheet as a file."
            )
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        if has_wildcards(path):
            raise SheetError(
                f"{path}: this is a pattern of several files",
                hint=f"{_describe_folder(path.parent)} {_suggest_all_files(path)}",
            ) from None
        what = "file" if path.suffix else "file or folder"
        raise SheetError(
            f"{path}: there is no such {what}", hint=_describe_folder(path.parent)
        ) from None
    except IsADirectoryError:
        raise SheetError(
            f"{path}: this is a folder",
            hint=f"{_describe_folder(path)} {_suggest_all_files(path)}",
        ) from None
    except PermissionError:
        raise SheetError(
            f"{path}: you do not have permission to read this file",
            hint="Ask its owner for permission, and close it if another program has it open.",
        ) from None
    except SheetError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SheetError(
            f"{path}: the file cannot be read: {reason or error}",
            hint="Check the path and the disk, and try again.",
        ) from None


def _suggest_all_files(path: Path) -> str:
    return (
        f"To check all files: `petsync check {quote(path)}`, in Python ps.check_sheet(path). To "
        f"compare them as one sheet: `petsync plan {quote(path)}`, in Python store.plan(path)."
    )


def read_unchanged(path: Path, file: BinaryIO) -> bytes:
    """Return the bytes of a file. Raises SheetError if it is too large, or changes meanwhile."""
    status = os.fstat(file.fileno())
    if status.st_size > MAX_SIZE:
        raise SheetError(
            f"{path}: the file is {status.st_size / 1e9:,.1f} GB, and the limit for a sheet is "
            f"{MAX_SIZE / 1e9:,.1f} GB",
            hint="Split it into several sheets, or leave out the columns that are not needed.",
        )
    # Reading one byte more detects a file that grows, without reading it forever.
    data = file.read(status.st_size + 1)
    status_after = os.fstat(file.fileno())
    if len(data) != status.st_size or status_after.st_mtime_ns != status.st_mtime_ns:
        raise changed_error(path)
    return data


P = ParamSpec("P")
T = TypeVar("T")
_LITTLE = 200_000
"""The size of work up to which threads take longer than they save."""


class _AtOnce(Executor):
    """Runs each call in `submit`, which also raises its error."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done = Future[T]()
        done.set_result(call(*args, **kwargs))
        return done


def make_executor(threads: int, size: int) -> Executor:
    """Return an executor with this number of threads, or one without threads if there is little
    work: `size` is the number of the bytes or cells.
    """
    return ThreadPoolExecutor(threads) if size > _LITTLE else _AtOnce()


_held: ContextVar[tuple[Path, bytes] | None] = ContextVar("_held", default=None)


@contextmanager
def reading_once(path: Path) -> Iterator[None]:
    """Read the file into memory: each `read_bytes` of it in the block returns the same bytes.
    Raises SheetError as `read_bytes` does.
    """
    token = _held.set((path, read_bytes(path)))
    try:
        yield
    finally:
        _held.reset(token)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises SheetError if it cannot be read, is too large, or changes
    meanwhile.
    """
    held = _held.get()
    if held is not None and held[0] == path:
        return held[1]
    with open_regular(path) as file:
        return read_unchanged(path, file)


def changed_error(path: str | Path) -> SheetError:
    """Return the error for a file that another program has changed meanwhile."""
    return SheetError(
        f"{path}: the file changed while it was read",
        hint="Wait until the program that writes it is done, and try again.",
    )


def _describe_folder(folder: Path) -> str:
    """Return a hint that lists the sheets in a folder."""
    if not is_folder(folder):
        return f"There is no folder {folder} either: check the path."
    try:
        names = sorted(each.name for each in folder.iterdir() if ending_of(each) in READABLE)
    except OSError:
        return "Check the path."
    where = "this folder" if folder == Path() else folder
    return f"In {where} there {_list_names(names)}."


def _list_names(names: list[str]) -> str:
    if not names:
        return "is no sheet"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{'are' if len(names) > 1 else 'is'} {', '.join(names[:8])}{more}"


def wrong_content_error(path: Path, what: str, data: bytes) -> SheetError:
    """Return the error for a file that is not `what` its name says."""
    text = all(byte >= 32 or byte in b"\t\r\n" for byte in data[:1024])
    begins = f"the text “{_first_line(data)}”" if text else f"the bytes {data[:8].hex(' ').upper()}"
    return SheetError(
        f"{path}: this is not {what}; it begins with {begins}",
        hint="If it is CSV, give it a name that ends with .csv. Otherwise: "
        f"{RESAVE[0].lower()}{RESAVE[1:]}"
        if text
        else "It is damaged or is not a sheet: get it again from its source.",
    )


def _first_line(data: bytes) -> str:
    """Return the start of the first line that is not blank."""
    text = data[:1024].decode("utf-8-sig", "replace")
    return next((line.strip()[:40] for line in text.splitlines() if line.strip()), "")


def check_lines(path: Path, data: bytes, first: int = 1) -> None:
    """Raise SheetError if a line is too long. `data` begins in line `first` of the file."""
    offset = 0
    while len(data) - offset > MAX_LINE:
        # Searching backwards from the end of the longest allowed line reads few bytes.
        stop = offset + MAX_LINE
        end = data.rfind(b"\n", offset, stop) + 1 or data.rfind(b"\r", offset, stop) + 1
        if not end:
            line = max(data.count(b"\n", 0, offset), data.count(b"\r", 0, offset)) + first
            raise SheetError(
                f"{path}: line {line} has more than {MAX_LINE >> 20} MiB without a line break, "
                "more than any row of a sheet",
                hint="Check in a text editor whether this is a table, and save it again.",
            )
        offset = end
