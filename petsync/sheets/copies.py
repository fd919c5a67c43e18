"""What every copy of a sheet's file keeps to: it is of the bytes that were read, and elsewhere."""

from __future__ import annotations

from pathlib import Path

from petsync.errors import SheetError
from petsync.sheets.sidecar import beside
from petsync.sheets.source import Source, load
from petsync.table.sheet import Sheet

__all__ = ["apart", "sidecar_lines", "unchanged"]

_UNREADABLE = "petsync-base could not be read"


def unchanged(sheet: Sheet, hint: str) -> Source:
    """The sheet's file. Raises SheetError where it has changed since it was read."""
    source = load(Path(sheet.source))
    if source.digest != sheet.digest:
        raise SheetError(f"{source.path}: the file has changed since it was read", hint=hint)
    return source


def apart(path: Path, source: Source) -> None:
    """Raise SheetError where `path` is the sheet itself."""
    is_same = path.exists() and path.samefile(source.path)
    if is_same or path.resolve() == source.path.resolve():
        raise SheetError(f"{path}: this is the sheet itself", hint="Give the copy another name.")


def sidecar_lines(source: Source) -> list[str] | None:
    """The lines of the file's sidecar, None where there is none. They are taken as they are: what
    is refused there is refused in a copy too.
    """
    if source.kind != "text":
        return None
    try:
        return beside(source.path).read_bytes().decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError:
        return [_UNREADABLE]
