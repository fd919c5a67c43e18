"""Sheet files: kinds, encodings, locks of other programs, and the bytes of a source."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from os.path import lexists
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from petsync.errors import SheetError
from petsync.settings import checked_encoding

__all__ = [
    "AS_ENCODED",
    "AS_UTF8",
    "AS_WORKBOOK",
    "RESAVE",
    "EncodingError",
    "FileKind",
    "Source",
    "encoding_of",
    "foreign",
    "identify_zip",
    "is_workbook",
    "load",
    "must_be_closed",
    "unreadable_text",
]


# What a file is that is no sheet petsync reads, told by its bytes, and how it becomes one.


RESAVE = "Open it in Excel or LibreOffice and save it as .xlsx or as CSV (UTF-8)."
AS_WORKBOOK = (
    "Open it in Excel or LibreOffice; then File, Save As, and choose “Excel Workbook (.xlsx)”."
)
AS_UTF8 = (
    "Save it again: in Excel as “CSV UTF-8”, in LibreOffice with the character set “Unicode "
    "(UTF-8)”. Or read the workbook (.xlsx) itself."
)
AS_ENCODED = (
    'Name its encoding: --encoding {0}, in Python encoding="{0}". Or save it again: in Excel as '
    "“CSV UTF-8”, in LibreOffice with the character set “Unicode (UTF-8)”."
)
_FETCH = "Fetch it again where it comes from, or take it from a backup."
_SIGN_IN = (
    "It may be the page to sign in or an error: open it in a browser, and download the sheet "
    "itself. If it does hold the table: " + RESAVE[0].lower() + RESAVE[1:]
)
_UNLOCK = (
    "Save a copy without it. Excel: File, Info, Protect Workbook, Encrypt with Password, and empty "
    "the box. LibreOffice: File, Save As, without “Save with password”."
)
_NUMBERS = "In Numbers: File, Export To, Excel."
_GOOGLE = "In Google Sheets: File, Download, Microsoft Excel (.xlsx)."
_UNPACK = "Unpack it, and use the sheet that is in it."
_EXPORTED = (
    "petsync writes such files and does not read them as sheets: export the store as .xlsx or "
    ".csv, and edit that. In Python a DataFrame is a sheet, too."
)
_NO_SHEET = "Use the sheet that it was made from, or export one with petsync."

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OLE = bytes.fromhex("D0CF11E0A1B11AE1")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HEAD = 1 << 16


class FileKind(NamedTuple):
    """What a file is, how a sheet is made of it, and for a text the encoding that may be named."""

    what: str
    hint: str
    encoding: str = ""


_OLD = FileKind("an old Excel file (.xls)", AS_WORKBOOK)
_BINARY = FileKind("a binary workbook (.xlsb)", AS_WORKBOOK)
_OPEN_DOCUMENT = FileKind("an OpenDocument sheet (.ods)", AS_WORKBOOK)
_XML = FileKind("an XML spreadsheet of Excel 2003", AS_WORKBOOK)
_PAGE = FileKind("a web page", _SIGN_IN)
_SHORTCUT = FileKind("a shortcut to a Google sheet, not the sheet itself", _GOOGLE)
_LINK = FileKind("a shortcut to a file, not the file itself", "Use the file that it points to.")
_JSON = FileKind("JSON, perhaps a service's answer", _NO_SHEET)

_PARQUET = FileKind("a Parquet file", _EXPORTED)

_NAMES = {
    ".parquet": _PARQUET,
    ".json": FileKind("JSON", _EXPORTED),
    ".jsonl": FileKind("JSON Lines", _EXPORTED),
    ".ods": _OPEN_DOCUMENT,
    ".fods": _OPEN_DOCUMENT,
    ".xlsb": _BINARY,
    ".numbers": FileKind("a Numbers document", _NUMBERS),
    ".gsheet": _SHORTCUT,
}
_CONTENT = re.compile(rb"[^ \t\r\n\0]")
_UNFINISHED = (".crdownload", ".part", ".partial", ".download", ".opdownload")
_BEGINNINGS: dict[bytes, FileKind] = {
    b"version https://git-lfs": FileKind(
        "a pointer that Git LFS left in the file's place", "Fetch the file itself: git lfs pull."
    ),
    b"%PDF-": FileKind("a PDF document", _NO_SHEET),
    b"\x89PNG": FileKind("a picture", _NO_SHEET),
    b"\xff\xd8\xff": FileKind("a picture", _NO_SHEET),
    b"{\\rtf": FileKind("a text document (RTF)", _NO_SHEET),
    b"\x1f\x8b": FileKind("packed with gzip", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": FileKind("a 7-Zip archive", _UNPACK),
    b"Rar!": FileKind("a RAR archive", _UNPACK),
    b"BZh": FileKind("packed with bzip2", _UNPACK),
    b"\x28\xb5\x2f\xfd": FileKind("packed with Zstandard", _UNPACK),
    b"PAR1": _PARQUET,
    b"SQLite format 3\0": FileKind("a SQLite database", _NO_SHEET),
    b"L\0\0\0\x01\x14\x02\0": _LINK,
    b"[InternetShortcut]": _LINK,
    b"\x09\x08\x10\0": _OLD,
    b"\x09\x04\x06\0": _OLD,
    b"\x09\x02\x06\0": _OLD,
}
_MEMBERS = {
    "xl/workbook.bin": _BINARY,
    "index/document.iwa": FileKind("a Numbers document", _NUMBERS),
    "word/document.xml": FileKind("a Word document", _NO_SHEET),
    "ppt/presentation.xml": FileKind("a presentation", _NO_SHEET),
}
_MARKUP = {
    re.compile(rb"<!DOCTYPE html|<html|<head|<body|<table|<script", re.IGNORECASE): _PAGE,
    re.compile(rb"<(?:\w+:)?Workbook\s|progid=\"Excel\.Sheet\""): _XML,
    re.compile(rb"<office:document"): _OPEN_DOCUMENT,
}
_STREAMS = {
    "EncryptedPackage": FileKind("protected by a password", _UNLOCK),
    "WordDocument": FileKind("an old Word document", _NO_SHEET),
    "PowerPoint Document": FileKind("an old presentation", _NO_SHEET),
}


def foreign(name: str, data: bytes) -> FileKind | None:
    """What a file of that name and content is, None where it may be a sheet that is read."""
    if name.startswith("~$") or (name.startswith(".~lock.") and name.endswith("#")):
        sheet = name[2:] if name.startswith("~$") else name[7:-1]
        return FileKind(
            f"the mark that {sheet} is open in a program, not the sheet itself",
            f"Save {sheet} there, and use that.",
        )
    if not _CONTENT.search(data):
        what = "nothing but NUL bytes: its content was never written" if data.strip() else "empty"
        return FileKind(what, _FETCH)
    if name.casefold().endswith(_UNFINISHED):
        return FileKind(
            "still being downloaded", "Wait until that is done, and use the whole file."
        )
    beginnings = (kind for mark, kind in _BEGINNINGS.items() if data.startswith(mark))
    return next(beginnings, None) or _container(data) or _by_name(name) or _markup(data)


def is_workbook(data: bytes) -> bool:
    """Whether these are the bytes of a ZIP file, which every workbook is."""
    return data.startswith(_ZIP)


def unreadable_text(data: bytes) -> FileKind | None:
    """Why a text file is not read: its encoding, or that it ends in NUL bytes; None otherwise."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return FileKind("UTF-32, not UTF-8", AS_ENCODED.format("utf-32"), "utf-32")
    text = data.rstrip(b"\0")
    head = text[:_HEAD]
    # Of plain letters in UTF-16 every other byte is NUL.
    even, odd = head[::2].count(0), head[1::2].count(0)
    if data.startswith(_BYTE_ORDER_MARKS[1:]):
        return FileKind("UTF-16, not UTF-8", AS_ENCODED.format("utf-16"), "utf-16")
    if max(even, odd) > len(head) // 4:
        order = "utf-16-le" if odd > even else "utf-16-be"
        return FileKind("UTF-16, not UTF-8", AS_ENCODED.format(order), order)
    missing = len(data) - len(text)
    if missing:
        return FileKind(
            f"not whole: where its end should be there are {missing:,} NUL bytes", _FETCH
        )
    return None


def identify_zip(names: Collection[str]) -> FileKind | None:
    """What a ZIP file with members of these names (in lower case) is, None where perhaps a workbook
    of Excel.
    """
    known = next((kind for name, kind in _MEMBERS.items() if name in names), None)
    # A package of Office says itself which of its parts is the workbook.
    if known is not None or {"[content_types].xml", "_rels/.rels"} <= set(names):
        return known
    if any(name.startswith("xl/") for name in names):
        return None
    sheets = [name for name in names if name.endswith((".xlsx", ".xlsm", ".csv"))]
    listed = f"It holds {', '.join(sheets[:5])}. {_UNPACK}" if sheets else AS_WORKBOOK
    return FileKind("a ZIP file, not an Excel workbook", listed)


def _container(data: bytes) -> FileKind | None:
    if data.startswith(_OLE):
        found = (kind for name, kind in _STREAMS.items() if name.encode("utf-16-le") in data)
        return next(found, _OLD)
    is_open_document = b"mimetypeapplication/vnd.oasis.opendocument" in data[:128]
    return _OPEN_DOCUMENT if is_workbook(data) and is_open_document else None


def _by_name(name: str) -> FileKind | None:
    return _NAMES.get(name[name.rfind(".") :].casefold()) if "." in name else None


def _markup(data: bytes) -> FileKind | None:
    head = data[:4096]
    for mark in _BYTE_ORDER_MARKS:
        head = head.removeprefix(mark)
    head = head.replace(b"\0", b"").lstrip()
    if head.startswith(b"<"):
        return next((kind for what, kind in _MARKUP.items() if what.search(head)), None)
    if head.startswith(b"{") and b"docs.google.com" in head:
        return _SHORTCUT
    return _JSON if re.match(rb"[\[{]\s*[\[{\"]", head) else None


# Who has a spreadsheet open, by the lock files that spreadsheet programs put beside it.


_LONGEST = 54


def must_be_closed(path: Path) -> None:
    """Raise SheetError where Excel or LibreOffice has the file open."""
    for program, lock, owner in _locks(path):
        by = f" ({owner})" if owner else ""
        raise SheetError(
            f"{path}: {program} has the file open{by}",
            hint=f"Close it there. If it is not open, delete {lock}, which a crash left behind.",
        )


def _locks(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Each lock that is there: the program, the lock file, who made it."""
    for file in dict.fromkeys((path.absolute(), path.resolve())):
        excel = file.with_name(f"~${file.name}")
        office = file.with_name(f".~lock.{file.name}#")
        if lexists(excel):
            yield "Excel", excel, _excel_user(_read_lock(excel))
        if lexists(office):
            yield "LibreOffice", office, _office_user(_read_lock(office))


def _read_lock(lock: Path) -> bytes:
    """The beginning of the lock file. Nothing else that has its name is read: a pipe would wait for
    ever.
    """
    try:
        if not stat.S_ISREG(lock.lstat().st_mode):
            return b""
        with open(lock, "rb", opener=_at_once) as file:
            return file.read(1024)
    except OSError:
        return b""


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting, where the system can do that."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _excel_user(data: bytes) -> str:
    """The name behind its length, as Excel writes it at the start."""
    length = data[0] if data else 0
    return _printable_name(data[1 : 1 + min(length, _LONGEST)])


def _office_user(data: bytes) -> str:
    """The first of the lock's comma-separated words."""
    return _printable_name(data.partition(b",")[0])


def _printable_name(name: bytes) -> str:
    text = name.decode("utf-8", "replace").strip()
    return text[:_LONGEST] if text.isprintable() else ""


# A spreadsheet's bytes, and whether they are a workbook or text, whatever the file is called.


MAX_SIZE = 1 << 30
"""The most bytes of a file: it is held whole."""
MAX_LINE = 1 << 24
"""The most bytes between two line breaks of a text file: those of a record of 16,384 cells."""

_WORKBOOKS = (".xlsx", ".xlsm")
_TEXTS = (".csv", ".tsv", ".txt")
_UTF8 = "UTF-8"
_ENCODING_OF_MARK = {
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

    def encode(self, data: bytes) -> bytes:
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
    name, fitting = _detect_mark(data)
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


def _detect_mark(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Of which encoding the byte order mark is with which the file begins, and the names of those
    that it fits; "" where there is none.
    """
    # The mark of UTF-32 begins with that of UTF-16.
    for mark, (name, fitting) in _ENCODING_OF_MARK.items():
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
    name, fitting = _detect_mark(data)
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
        raise SheetError(
            f"{path}: there is no such file", hint=_describe_folder(path.parent)
        ) from None
    except IsADirectoryError:
        raise SheetError(f"{path}: this is a folder", hint=_describe_folder(path)) from None
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


def _describe_folder(folder: Path) -> str:
    """A hint at the sheets of a folder."""
    if not folder.is_dir():
        return f"There is no folder {folder} either: see whether the path is right."
    suffixes = _WORKBOOKS + _TEXTS
    try:
        names = sorted(each.name for each in folder.iterdir() if each.suffix in suffixes)
    except OSError:
        return "See whether the path is right."
    return f"In {folder} there {_list_names(names)}."


def _list_names(names: list[str]) -> str:
    if not names:
        return "is no sheet"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{'are' if len(names) > 1 else 'is'} {', '.join(names[:8])}{more}"


def _no_workbook(path: Path, data: bytes) -> SheetError:
    text = all(byte >= 32 or byte in b"\t\r\n" for byte in data[:1024])
    hint = "If it is CSV, give it a name that ends with .csv. " if text else ""
    begins = f"the text “{_first_line(data)}”" if text else f"the bytes {data[:8].hex(' ').upper()}"
    return SheetError(
        f"{path}: this is not an Excel workbook; it begins with {begins}",
        hint=f"{hint}{RESAVE}" if text else "It is damaged, or not a sheet at all: fetch it again.",
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
                hint="See in a text editor whether this is a table at all, and save it again.",
            )
        at = end
