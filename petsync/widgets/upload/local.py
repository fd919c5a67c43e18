"""Files on the kernel's own machine: those that a path names, and small copies of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from petsync.apply.pictures.found import content_of
from petsync.apply.pictures.thumbnail import thumbnail
from petsync.errors import SettingsError
from petsync.widgets.upload.item import Item

__all__ = ["files_at", "make_small"]

_HERE = "The path is one on the machine that the notebook runs on."


def files_at(given: str) -> list[Path]:
    """The file of this path, or the files of this folder that are not hidden, by their names.
    Raises SettingsError where there is none.
    """
    try:
        path = Path(given.strip().strip("\"'")).expanduser()
        found = sorted(filter(_is_plain, path.iterdir())) if path.is_dir() else [path]
        is_there = path.is_dir() or path.is_file()
    except OSError as error:
        raise SettingsError(f"{given} cannot be read: {error.strerror}", hint=_HERE) from None
    except (RuntimeError, ValueError):
        raise SettingsError(f"{given} is no path", hint=_HERE) from None
    if not is_there or not found:
        raise SettingsError(f"there is no file {'in ' * is_there}{path}", hint=_HERE)
    return found


def make_small(items: Iterable[Item]) -> None:
    """Give each file its size and its small copy, unless it has them."""
    for item in items:
        if item.small or item.bytes:
            continue
        try:
            content = content_of(item.path)
        except OSError:
            continue
        item.bytes, item.small = len(content), thumbnail(content)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")
