"""A spreadsheet's bytes, and what kind of file they are, whatever the file is called."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from petsync.errors import SheetError

__all__ = ["Source", "load"]

_WORKBOOKS = (".xlsx", ".xlsm")
_TEXTS = (".csv", ".tsv", ".txt")
_ZIP = b"PK\x03\x04"
_OLE = bytes.fromhex("D0CF11E0A1B11AE1")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ODS = b"mimetypeapplication/vnd.oasis.opendocument"
_OPEN_DOCUMENT = (".ods", ".fods")
_RESAVE = "Open it in Excel or LibreOffice and save it as .xlsx or as CSV (UTF-8)."


@dataclass(frozen=True, slots=True)
class Source:
    """One file, read whole, so that all that is said of it is of the same moment."""

    path: Path
    kind: Literal["workbook", "text"]
    data: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


def load(path: Path) -> Source:
    """The file at `path`. Raises SheetError where it is no spreadsheet that can be read."""
    if path.suffix.casefold() in _OPEN_DOCUMENT:
        raise _open_document(path)
    data = _bytes(path)
    if not data.strip():
        raise SheetError(f"{path}: the file is empty", hint="Save the sheet again, or export one.")
    if data.startswith(_OLE):
        raise _ole(path, data)
    if data.startswith(_ZIP):
        if _ODS in data[:128]:
            raise _open_document(path)
        return Source(path, "workbook", data)
    suffix = path.suffix.casefold()
    if suffix in _WORKBOOKS:
        raise SheetError(
            f"{path}: this is not an Excel workbook, whatever its name says; it begins with "
            f"{data[:16]!r}",
            hint="It may be damaged, or a CSV or web page with a wrong name. " + _RESAVE,
        )
    if suffix not in _TEXTS:
        raise SheetError(
            f"{path}: {suffix or 'a file without a suffix'} is not a kind of sheet that is read",
            hint=f"These are: {', '.join(_WORKBOOKS + _TEXTS)}. {_RESAVE}",
        )
    return Source(path, "text", data)


def _bytes(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise SheetError(
                f"{path}: this is a device or a pipe, no file", hint="Save the sheet as a file."
            )
        return path.read_bytes()
    except FileNotFoundError:
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix in _WORKBOOKS + _TEXTS)
        found = f"In {path.parent} there are: {', '.join(near[:8])}." if near else ""
        raise SheetError(f"{path}: there is no such file", hint=found) from None
    except IsADirectoryError:
        raise SheetError(f"{path}: this is a folder", hint="Name a file in it.") from None
    except PermissionError:
        raise SheetError(
            f"{path}: you may not read this file",
            hint="Ask its owner for permission, and close it where another program holds it.",
        ) from None
    except SheetError:
        raise
    except (OSError, ValueError) as error:
        raise SheetError(f"{path}: the file cannot be read: {error}") from None


def _open_document(path: Path) -> SheetError:
    return SheetError(
        f"{path}: this is an OpenDocument sheet (.ods)", hint="Save it as .xlsx, and use that."
    )


def _ole(path: Path, data: bytes) -> SheetError:
    if _ENCRYPTED in data:
        return SheetError(
            f"{path}: the workbook is protected by a password",
            hint="Save a copy without the password: File, Info, Protect Workbook, Encrypt.",
        )
    return SheetError(f"{path}: this is an old Excel file (.xls)", hint=_RESAVE)
