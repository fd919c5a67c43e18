"""Files on the kernel's own machine: those that a path names, and small copies of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from petsync.apply.pictures.found import Candidate, content_of
from petsync.apply.pictures.look import examined
from petsync.apply.pictures.thumbnail import thumbnail
from petsync.diff.pictures import Picture, PictureOptions, PictureProblem
from petsync.errors import SettingsError
from petsync.model import Pet
from petsync.widgets.upload.item import Item

__all__ = ["files_at", "judged", "make_small"]

_HERE = "The path is one on the machine that petsync runs on."


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


async def judged(items: Sequence[Item], options: PictureOptions) -> list[Picture | PictureProblem]:
    """What each file is as it lies here, whoever's picture it is; no store is asked."""
    nobody = Pet(id=0)
    candidates = [
        Candidate(path=each.path, file=each.path.name, pet_id=0, place=place, row=place)
        for place, each in enumerate(items)
    ]
    return await examined([(each, nobody) for each in candidates], options)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")
