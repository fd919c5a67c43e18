"""A file is written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from petsync._file import landing
from petsync.errors import SheetError

__all__ = ["replace"]


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, with the mode that the file had or a new one gets.

    Raises SheetError where it cannot be written; what was there is then untouched.
    """
    try:
        _replace(landing(path), data)
    except OSError as error:
        raise SheetError(
            f"{path}: the file cannot be written: {error.strerror}", hint=_way_out(path)
        ) from None


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _way_out(target: Path) -> str:
    if target.is_dir():
        return "This is a folder; name a file in it."
    if target.exists() and not target.is_file():
        return "Name a file, or a new one."
    if not target.parent.is_dir():
        return f"There is no folder {target.parent}; make it first."
    return "Close it where another program has it open, and check permission and free space."
