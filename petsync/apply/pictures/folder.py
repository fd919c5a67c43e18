"""A folder of pictures whose names tell which pet they show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from petsync.apply.pictures.captions import NAME, Captions
from petsync.apply.pictures.found import Candidate, Found, is_within
from petsync.apply.pictures.kinds import ENDINGS, IMAGE_ENDINGS
from petsync.apply.pictures.pattern import Patterns
from petsync.diff.pictures import PictureProblem
from petsync.errors import SheetError

__all__ = ["in_folder"]

_LEFT_BEHIND = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"))
"""What systems leave in folders, besides what is hidden."""


def in_folder(
    folder: Path, patterns: Patterns, *, recursive: bool = False, metadata: str | None = None
) -> Found:
    """The pictures in the folder, in the order of its names, and all else that lies in it.

    `metadata` goes with every picture that metadata.csv in the folder says nothing of. Raises
    SheetError where the folder, or that file, cannot be read.
    """
    try:
        root = folder.resolve(strict=True)
        walk = _Walk(root, patterns, recursive, Captions.of(root / NAME), metadata)
        walk.into(root)
    except OSError as error:
        raise SheetError(
            f"the folder {folder} cannot be read: {error.strerror}", hint="Is its name right?"
        ) from None
    walk.found.problems += walk.captions.unused()
    return walk.found


@dataclass(slots=True)
class _Walk:
    root: Path
    patterns: Patterns
    recursive: bool
    captions: Captions
    metadata: str | None
    found: Found = field(default_factory=Found)

    def into(self, folder: Path) -> None:
        """Look at everything in the folder."""
        with os.scandir(folder) as entries:
            here = sorted(entries, key=lambda entry: entry.name)
        for entry in here:
            self._one(entry)

    def _one(self, entry: os.DirEntry[str]) -> None:
        name = entry.name
        if name.startswith(".") or name.casefold() in _LEFT_BEHIND:
            self.found.ignored += 1
            return
        if entry.path == str(self.root / NAME) and self.captions.is_there:
            return
        if not _is_text(name):
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self._leave(shown, "its name is not written in UTF-8", "Rename it.", blocks=True)
        elif entry.is_dir(follow_symlinks=False):
            self._folder(entry)
        else:
            self.found.problems += self._file(entry)

    def _folder(self, entry: os.DirEntry[str]) -> None:
        file = self._file_name(entry)
        if not self.recursive:
            cure = "--recursive looks into folders too."
            self._leave(file, "it is a folder", cure, blocks=_ending(entry.name) in ENDINGS)
            return
        try:
            self.into(Path(entry.path))
        except OSError as error:
            self._leave(file, f"it cannot be read: {error.strerror}", "", blocks=True)

    def _file(self, entry: os.DirEntry[str]) -> Iterator[PictureProblem]:
        file, ending = self._file_name(entry), _ending(entry.name)
        named = self.patterns.read(entry.name[: len(entry.name) - len(ending)])
        if ending not in IMAGE_ENDINGS:
            yield PictureProblem(file=file, problem="it is no picture by its name", blocks=False)
            return
        if named is None:
            why = f"its name does not fit {self.patterns}"
            cure = "Name it after its pet's id, or say how names are made (--pattern)."
            yield PictureProblem(file=file, problem=why, cure=cure)
            return
        candidate = Candidate(
            path=Path(entry.path),
            file=file,
            pet_id=named.pet_id,
            place=named.place,
            metadata=self.captions.of_file(file, self.metadata),
        )
        yield from self._checked(candidate, entry)

    def _checked(self, one: Candidate, entry: os.DirEntry[str]) -> Iterator[PictureProblem]:
        try:
            is_outside = entry.is_symlink() and not is_within(one.path, self.root)
            if is_outside:
                yield one.problem("it is a link to a file outside the folder", "Copy the file in.")
            elif not entry.is_file():
                what = "a link to a folder" if entry.is_dir() else "no ordinary file"
                yield one.problem(f"it is {what}", "Copy the picture in.")
            else:
                self.found.candidates.append(one)
        except OSError as error:
            yield one.problem(f"it is a link that leads nowhere ({error.strerror})")

    def _leave(self, file: str, problem: str, cure: str, *, blocks: bool) -> None:
        told = PictureProblem(file=file, problem=problem, cure=cure, blocks=blocks)
        self.found.problems.append(told)

    def _file_name(self, entry: os.DirEntry[str]) -> str:
        return Path(entry.path).relative_to(self.root).as_posix()


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - a Path of `.jpg` alone has no suffix


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
