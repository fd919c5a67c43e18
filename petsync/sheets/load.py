"""Load a sheet: its format, its text without compression, and workbooks of other formats."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import pyarrow as pa

from petsync._files import PACKED, ending_of
from petsync.errors import SheetError
from petsync.settings import checked_encoding
from petsync.sheets.files import (
    JSON_SUFFIXES,
    MAX_SIZE,
    OLE,
    PARQUET,
    TEXT_SUFFIXES,
    Source,
    check_lines,
    choose_encoding,
    detect_mark,
    identify_foreign,
    is_open_sheet,
    is_workbook,
    must_be_readable,
    must_not_be_address,
    read_bytes,
    undecodable_error,
    unknown_kind_error,
    wrong_content_error,
)
from petsync.sheets.grid import CellKind
from petsync.sheets.sidecar import BASE_NAME, BASE_TAB, read_unchecked_lines

if TYPE_CHECKING:
    from petsync.sheets.xlsx.plain import PlainTab
    from petsync.table.sheet import Sheet

__all__ = [
    "STDIN",
    "base_tab",
    "digest_of",
    "encoding_of",
    "has_worksheets",
    "load",
    "load_among",
    "load_content",
    "load_unchanged",
]


STDIN = "-"
"""The path that stands for standard input."""

_Format = Literal["workbook", "text", "ods", "xls", "xlsb", "parquet", "json", "jsonl"]
_FORMS: dict[_Format, str] = {
    "ods": "an OpenDocument sheet (.ods)",
    "xls": "an old Excel file (.xls)",
    "xlsb": "a binary workbook (.xlsb)",
    "parquet": "a Parquet file",
    "json": "a JSON file",
    "jsonl": "a JSON Lines file",
}
_WHAT = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".xlsb"), "an Excel workbook"),
    ".ods": "an OpenDocument sheet",
    ".parquet": "a Parquet file",
}
"""What a file with this ending should be."""
_RECORDS = ("parquet", "json", "jsonl")
_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
_PIECE_SIZE = 1 << 20
_BINARY_BOOK = "xl/workbook.bin"


def load(path: Path, encoding: str | None = None) -> Source:
    """Return the file at `path`, or standard input for "-"; a text file is read in `encoding`, by
    default UTF-8. Raises SheetError if it is not a readable spreadsheet, and SettingsError for an
    unknown encoding.
    """
    if encoding is not None:
        encoding = checked_encoding(encoding)
    return load_content(path, _read_bytes(path), encoding)


def load_among(path: Path, encoding: str) -> Source:
    """Return the file at `path`, as `load` does, among files of which only some are in the
    `encoding`: without it, if this file has no text or is UTF-8, and by its byte order mark, if it
    has one. Text in ASCII is not UTF-8 here, unless it cannot be in the encoding.
    """
    content, other = _read_bytes(path), checked_encoding(encoding)
    data, ending = _unpack(path, content)
    name, fitting = detect_mark(data)
    used: str | None = None
    if _find_format(path, ending, data) == "text":
        if name:
            used = None if name == "UTF-8" else fitting[0]
        else:
            used = None if _is_only_utf8(data, other) else other
    return load_content(path, content, used)


def _is_only_utf8(data: bytes, other: str) -> bool:
    """Return true if the text is UTF-8, and not in the other encoding. No text has NUL characters,
    but ASCII in UTF-16 does.
    """
    if b"\0" in data:
        return False
    if data.isascii():
        return other.startswith(("utf-16", "utf-32"))
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def load_content(path: Path, content: bytes, encoding: str | None = None) -> Source:
    """Return a file of these bytes, as `load` does; the path is only for messages and endings."""
    data, ending = _unpack(path, content)
    format_ = _find_format(path, ending, data)
    form = _describe_form(path, format_, is_packed=data is not content)
    if format_ != "text" and encoding is not None:
        what = "a workbook" if format_ == "workbook" else form
        raise SheetError(
            f"{path}: this is {what}, which needs no encoding",
            hint="Leave out the encoding: it is for CSV files.",
        )
    if format_ in _RECORDS:
        return Source(path, "records", data, original=_if_other(content, data), form=form)
    if format_ != "text":
        data = data if format_ == "workbook" else _as_workbook(path, format_, data)
        return Source(path, "workbook", data, original=_if_other(content, data), form=form)
    encoding = choose_encoding(path, data, encoding)
    text = data
    if encoding is not None:
        try:
            text = data.decode(encoding).encode("utf-8", "surrogatepass")
        except ValueError as error:
            raise undecodable_error(path, encoding, error) from None
    must_be_readable(path, text)
    check_lines(path, text)
    return Source(path, "text", text, encoding or "", _if_other(content, text), form)


def load_unchanged(sheet: Sheet, hint: str) -> Source:
    """Return the sheet's file. Raises SheetError if it has changed since it was read, and for a
    DataFrame.
    """
    if sheet.is_frame:
        raise SheetError(
            "the sheet is a DataFrame, which has no file to write into or to copy",
            hint="The findings of the sheet and to_frame() of a report name its rows. Or write the "
            "DataFrame into a file (ps.write_sheet), and read and plan that file.",
        )
    must_not_be_address(sheet.source)
    source = load(Path(sheet.source), sheet.encoding or None)
    if source.digest != sheet.digest:
        raise SheetError(f"{source.path}: the file has changed since it was read", hint=hint)
    return source


def _if_other(content: bytes, data: bytes) -> bytes:
    return b"" if data is content else content


def _describe_form(path: Path, format_: _Format, *, is_packed: bool) -> str:
    """Return the format if petsync cannot write into such a file, otherwise ""."""
    if str(path) == STDIN:
        return "standard input"
    return "a compressed file" if is_packed else _FORMS.get(format_, "")


def _find_format(path: Path, ending: str, data: bytes) -> _Format:
    """Return the format of a file with this ending, and with these bytes. Raises SheetError if it
    is not a sheet.
    """
    is_json = ending in JSON_SUFFIXES or str(path) == STDIN
    kind = identify_foreign(path.name, data, json=is_json)
    if kind is not None:
        raise SheetError(f"{path}: the file is {kind.what}", hint=kind.hint)
    found = _find_binary_format(ending, data)
    if found is not None:
        if ending_of(path).endswith(PACKED):
            raise SheetError(
                f"{path}: the compressed file is not a text file", hint="Unpack it, and use that."
            )
        return found
    if str(path) == STDIN:
        start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        return "json" if start == b"[" else "jsonl" if start == b"{" else "text"
    if ending in JSON_SUFFIXES:
        return "json" if ending == ".json" else "jsonl"
    if ending in TEXT_SUFFIXES:
        return "text"
    if ending in _WHAT:
        raise wrong_content_error(path, _WHAT[ending], data)
    raise unknown_kind_error(path)


def _find_binary_format(ending: str, data: bytes) -> _Format | None:
    """Return the format that the bytes have, whatever the file's name is; None for text."""
    if data.startswith(PARQUET):
        return "parquet"
    if data.startswith(OLE):
        return "xls"
    if not is_workbook(data):
        return None
    if ending == ".ods" or is_open_sheet(data):
        return "ods"
    if _BINARY_BOOK.encode() in data:
        with suppress(zipfile.BadZipFile, ValueError, OSError):
            names = zipfile.ZipFile(io.BytesIO(data)).namelist()
            return "xlsb" if _BINARY_BOOK in names else "workbook"
    return "workbook"


def _as_workbook(path: Path, format_: _Format, data: bytes) -> bytes:
    """Return an .xlsx with the worksheets of a workbook of another format, and with the lines of
    the file's sidecar, if it has one.
    """
    # Few users have such workbooks.
    from petsync.sheets.xlsx.plain import plain_workbook

    if format_ == "ods":
        from petsync.sheets.ods import read_ods

        tabs, names = read_ods(path, data)
        has_name = BASE_NAME in names
    else:
        from petsync.sheets.biff import read_xls, read_xlsb

        tabs, book = (read_xls if format_ == "xls" else read_xlsb)(path, data)
        has_name = any(BASE_NAME.encode(each) in book for each in ("ascii", "utf-16-le"))
    if (
        all(tab.name != BASE_TAB for tab in tabs)
        and (lines := read_unchecked_lines(path)) is not None
    ):
        tabs.append(base_tab(lines))
    return plain_workbook(tabs, name=BASE_NAME if has_name else "", of=BASE_TAB)


def base_tab(lines: Sequence[str]) -> PlainTab:
    """Return the hidden worksheet with the lines of a base."""
    from petsync.sheets.xlsx.plain import PlainCell, PlainTab

    tab = PlainTab(BASE_TAB, BASE_TAB, visible=False)
    for number, line in enumerate(lines, 1):
        tab.add_row(number, [PlainCell(0, CellKind.TEXT, line)])
    return tab


@lru_cache(maxsize=1)
def _read_stdin(stream: BinaryIO | None) -> bytes:
    """Return all bytes of a stream, which can be read only once."""
    if stream is None:
        raise SheetError(
            "this program has no standard input", hint="Save the sheet as a file, and name that."
        )
    data = stream.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise SheetError(
            f"standard input has more than {MAX_SIZE / 1e9:,.1f} GB, the limit for a sheet",
            hint="Save it as several files, and name their folder.",
        )
    return data


def _read_bytes(path: Path) -> bytes:
    if str(path) == STDIN:
        return _read_stdin(getattr(sys.stdin, "buffer", None))
    return read_bytes(path)


def _unpack(path: Path, data: bytes) -> tuple[bytes, str]:
    """Return the bytes without compression, and the ending of the unpacked file. A file is unpacked
    if its name ends as that of a compressed file does; the bytes decide in which way. Raises
    SheetError if the bytes are not compressed or damaged, or become too large.
    """
    ending = ending_of(path)
    named = next((each for each in PACKED if ending.endswith(each)), None)
    packing = next((each for each, mark in _MAGIC.items() if data.startswith(mark)), None)
    if packing is None and named is not None and data:
        raise SheetError(
            f"{path}: the file is not compressed, although its name ends in {named}",
            hint=f"Rename it to {path.name.removesuffix(path.suffix)}.",
        )
    if packing is None or (named is None and str(path) != STDIN):
        return data, ending
    unpacked = io.BytesIO()
    try:
        with pa.input_stream(pa.py_buffer(data), compression=_COMPRESSION[packing]) as stream:
            while piece := stream.read(_PIECE_SIZE):
                unpacked.write(piece)
                if unpacked.tell() > MAX_SIZE:
                    raise SheetError(
                        f"{path}: the unpacked file has more than {MAX_SIZE / 1e9:,.1f} GB, the "
                        "limit for a sheet",
                        hint="If it is genuine, split it into several files, and name their "
                        "folder.",
                    )
    except (OSError, pa.ArrowException) as error:
        raise SheetError(
            f"{path}: the compressed file is damaged: {str(error).splitlines()[0]}",
            hint="If it is still being copied or downloaded, wait until that is done; otherwise "
            "get it again.",
        ) from None
    return unpacked.getvalue(), ending.removesuffix(named or packing)


def encoding_of(path: Path, usual: str) -> str | None:
    """Return the encoding with which the file is read: that of its byte order mark, else the
    `usual` one. None if the file is not a text file, or has the byte order mark of UTF-8. Raises
    SheetError if the file cannot be read.
    """
    data, ending = _unpack(path, _read_bytes(path))
    if ending in JSON_SUFFIXES or _find_binary_format(ending, data) is not None:
        return None
    name, fitting = detect_mark(data)
    return (None if name == "UTF-8" else fitting[0]) if name else usual


def has_worksheets(path: Path) -> bool:
    """Return true if the file is a workbook. Raises SheetError if it cannot be read."""
    data, ending = _unpack(path, _read_bytes(path))
    return _find_binary_format(ending, data) not in (None, "parquet")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of the file's bytes, in hexadecimal: the `digest` of its sheet.

    Raises SheetError if the file cannot be read.
    """
    return hashlib.sha256(_read_bytes(path)).hexdigest()
