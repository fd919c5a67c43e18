"""What a file is that is no sheet petsync reads, told by its bytes, and how it becomes one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

__all__ = [
    "AS_ENCODED",
    "AS_UTF8",
    "AS_WORKBOOK",
    "RESAVE",
    "Kind",
    "foreign",
    "is_workbook",
    "packed",
    "unreadable_text",
]

RESAVE = "Open it in Excel or LibreOffice and save it as .xlsx or as CSV (UTF-8)."
AS_WORKBOOK = (
    "Open it in Excel or LibreOffice; then File, Save As, and choose “Excel Workbook (.xlsx)”."
)
AS_UTF8 = (
    "Save it anew: in Excel as “CSV UTF-8”, in LibreOffice with the character set “Unicode "
    "(UTF-8)”. Or read the workbook (.xlsx) itself."
)
AS_ENCODED = (
    'Name its encoding: --encoding {0}, in Python encoding="{0}". Or save it anew: in Excel as '
    "“CSV UTF-8”, in LibreOffice with the character set “Unicode (UTF-8)”."
)
_FETCH = "Fetch it anew where it comes from, or take it from a backup."
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
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HEAD = 1 << 16


class Kind(NamedTuple):
    """What a file is, how a sheet is made of it, and for a text the encoding that may be named."""

    what: str
    hint: str
    encoding: str = ""


_OLD = Kind("an old Excel file (.xls)", AS_WORKBOOK)
_BINARY = Kind("a binary workbook (.xlsb)", AS_WORKBOOK)
_OPEN_DOCUMENT = Kind("an OpenDocument sheet (.ods)", AS_WORKBOOK)
_XML = Kind("an XML spreadsheet of Excel 2003", AS_WORKBOOK)
_PAGE = Kind("a web page", _SIGN_IN)
_SHORTCUT = Kind("a shortcut to a Google sheet, not the sheet itself", _GOOGLE)
_LINK = Kind("a shortcut to a file, not the file itself", "Use the file that it points to.")
_JSON = Kind("JSON, perhaps a service's answer", _NO_SHEET)

_PARQUET = Kind("a Parquet file", _EXPORTED)

_NAMES = {
    ".parquet": _PARQUET,
    ".json": Kind("JSON", _EXPORTED),
    ".jsonl": Kind("JSON Lines", _EXPORTED),
    ".ods": _OPEN_DOCUMENT,
    ".fods": _OPEN_DOCUMENT,
    ".xlsb": _BINARY,
    ".numbers": Kind("a Numbers document", _NUMBERS),
    ".gsheet": _SHORTCUT,
}
_CONTENT = re.compile(rb"[^ \t\r\n\0]")
_UNFINISHED = (".crdownload", ".part", ".partial", ".download", ".opdownload")
_BEGINNINGS: dict[bytes, Kind] = {
    b"version https://git-lfs": Kind(
        "a pointer that Git LFS left in the file's place", "Fetch the file itself: git lfs pull."
    ),
    b"%PDF-": Kind("a PDF document", _NO_SHEET),
    b"\x89PNG": Kind("a picture", _NO_SHEET),
    b"\xff\xd8\xff": Kind("a picture", _NO_SHEET),
    b"{\\rtf": Kind("a text document (RTF)", _NO_SHEET),
    b"\x1f\x8b": Kind("packed with gzip", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": Kind("a 7-Zip archive", _UNPACK),
    b"Rar!": Kind("a RAR archive", _UNPACK),
    b"BZh": Kind("packed with bzip2", _UNPACK),
    b"\x28\xb5\x2f\xfd": Kind("packed with Zstandard", _UNPACK),
    b"PAR1": _PARQUET,
    b"SQLite format 3\0": Kind("a SQLite database", _NO_SHEET),
    b"L\0\0\0\x01\x14\x02\0": _LINK,
    b"[InternetShortcut]": _LINK,
    b"\x09\x08\x10\0": _OLD,
    b"\x09\x04\x06\0": _OLD,
    b"\x09\x02\x06\0": _OLD,
}
_MEMBERS = {
    "xl/workbook.bin": _BINARY,
    "index/document.iwa": Kind("a Numbers document", _NUMBERS),
    "word/document.xml": Kind("a Word document", _NO_SHEET),
    "ppt/presentation.xml": Kind("a presentation", _NO_SHEET),
}
_MARKUP = {
    re.compile(rb"<!DOCTYPE html|<html|<head|<body|<table|<script", re.IGNORECASE): _PAGE,
    re.compile(rb"<(?:\w+:)?Workbook\s|progid=\"Excel\.Sheet\""): _XML,
    re.compile(rb"<office:document"): _OPEN_DOCUMENT,
}
_STREAMS = {
    "EncryptedPackage": Kind("protected by a password", _UNLOCK),
    "WordDocument": Kind("an old Word document", _NO_SHEET),
    "PowerPoint Document": Kind("an old presentation", _NO_SHEET),
}


def foreign(name: str, data: bytes) -> Kind | None:
    """What a file of that name and content is, None where it may be a sheet that is read."""
    if name.startswith("~$") or (name.startswith(".~lock.") and name.endswith("#")):
        sheet = name[2:] if name.startswith("~$") else name[7:-1]
        return Kind(
            f"the mark that {sheet} is open in a program, not the sheet itself",
            f"Save {sheet} there, and use that.",
        )
    if not _CONTENT.search(data):
        what = "nothing but NUL bytes: its content was never written" if data.strip() else "empty"
        return Kind(what, _FETCH)
    if name.casefold().endswith(_UNFINISHED):
        return Kind("still being downloaded", "Wait until that is done, and use the whole file.")
    beginnings = (kind for mark, kind in _BEGINNINGS.items() if data.startswith(mark))
    return next(beginnings, None) or _container(data) or _by_name(name) or _markup(data)


def is_workbook(data: bytes) -> bool:
    """Whether these are the bytes of a ZIP file, which every workbook is."""
    return data.startswith(_ZIP)


def unreadable_text(data: bytes) -> Kind | None:
    """Why a text file is not read: its encoding, or that it ends in NUL bytes; None otherwise."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return Kind("UTF-32, not UTF-8", AS_ENCODED.format("utf-32"), "utf-32")
    text = data.rstrip(b"\0")
    head = text[:_HEAD]
    # Of plain letters in UTF-16 every other byte is NUL.
    even, odd = head[::2].count(0), head[1::2].count(0)
    if data.startswith(_MARKS[1:]):
        return Kind("UTF-16, not UTF-8", AS_ENCODED.format("utf-16"), "utf-16")
    if max(even, odd) > len(head) // 4:
        order = "utf-16-le" if odd > even else "utf-16-be"
        return Kind("UTF-16, not UTF-8", AS_ENCODED.format(order), order)
    missing = len(data) - len(text)
    if missing:
        return Kind(f"not whole: where its end should be there are {missing:,} NUL bytes", _FETCH)
    return None


def packed(names: Collection[str]) -> Kind | None:
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
    return Kind("a ZIP file, not an Excel workbook", listed)


def _container(data: bytes) -> Kind | None:
    if data.startswith(_OLE):
        found = (kind for name, kind in _STREAMS.items() if name.encode("utf-16-le") in data)
        return next(found, _OLD)
    is_open_document = b"mimetypeapplication/vnd.oasis.opendocument" in data[:128]
    return _OPEN_DOCUMENT if is_workbook(data) and is_open_document else None


def _by_name(name: str) -> Kind | None:
    return _NAMES.get(name[name.rfind(".") :].casefold()) if "." in name else None


def _markup(data: bytes) -> Kind | None:
    head = data[:4096]
    for mark in _MARKS:
        head = head.removeprefix(mark)
    head = head.replace(b"\0", b"").lstrip()
    if head.startswith(b"<"):
        return next((kind for what, kind in _MARKUP.items() if what.search(head)), None)
    if head.startswith(b"{") and b"docs.google.com" in head:
        return _SHORTCUT
    return _JSON if re.match(rb"[\[{]\s*[\[{\"]", head) else None
