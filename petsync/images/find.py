"""Find images to upload: in a folder by file name, or in a column of a sheet."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from petsync.errors import SettingsError, SheetError
from petsync.models import MAX_ID
from petsync.plan.uploads import PictureProblem
from petsync.table.cells import CellError, parse_photo_urls
from petsync.table.sheet import Finding, Sheet

__all__ = [
    "ENDINGS",
    "IMAGE_ENDINGS",
    "NAME",
    "USUAL",
    "Candidate",
    "Captions",
    "Format",
    "ImageMatches",
    "NameMatch",
    "Patterns",
    "content_of",
    "describe_content",
    "format_of",
    "hidden_kind",
    "in_folder",
    "in_sheet",
    "is_within",
]


# Captions: `metadata.csv` beside the pictures, which says something of some of them.


NAME = "metadata.csv"
_LARGEST = 64 * 1024 * 1024
_CAPTIONS_HINT = (
    f"{NAME} has the columns file and metadata, in UTF-8; or take it out of the folder."
)


@dataclass(slots=True)
class Captions:
    """What is said of the files, by their names below the folder."""

    said: dict[str, tuple[int, str]] = field(default_factory=dict)
    is_there: bool = False
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: Path) -> Captions:
        """The file's, or none where there is no such file. Raises SheetError."""
        try:
            with path.open("rb") as file:
                text = file.read(_LARGEST).decode("utf-8-sig")
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise SheetError(
                f"{path} cannot be read: {error.strerror}", hint=_CAPTIONS_HINT
            ) from None
        except UnicodeDecodeError as error:
            why = f"byte {error.start + 1:,} is not UTF-8"
            raise SheetError(f"{path} cannot be read: {why}", hint=_CAPTIONS_HINT) from None
        return cls(_read_captions(text, path), is_there=True)

    def of_file(self, file: str, otherwise: str | None) -> str | None:
        """What is said of a file."""
        key = _key(file)
        if key not in self.said:
            return otherwise
        self.used.add(key)
        return self.said[key][1]

    def iter_unused(self) -> Iterator[PictureProblem]:
        """The rows about files that are not there."""
        for key, (line, _) in self.said.items():
            if key not in self.used:
                yield PictureProblem(
                    file=key,
                    problem="no such picture is uploaded from the folder",
                    cure="Correct the file's name, or take the row out.",
                    source=f"{NAME}, line {line}",
                    blocks=False,
                )


def _read_captions(text: str, path: Path) -> dict[str, tuple[int, str]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().casefold() for name in next(rows, [])]
        if "file" not in header or "metadata" not in header:
            raise SheetError(f"{path} has no columns file and metadata", hint=_CAPTIONS_HINT)
        at, said = header.index("file"), header.index("metadata")
        found: dict[str, tuple[int, str]] = {}
        for row in rows:
            if len(row) <= max(at, said) or not row[at].strip():
                continue
            key = _key(row[at].strip())
            if key in found and found[key][1] != row[said]:
                where = f"lines {found[key][0]} and {rows.line_num}"
                raise SheetError(
                    f"{path}: {where} say different things of {key}", hint=_CAPTIONS_HINT
                )
            found[key] = rows.line_num, row[said]
    except csv.Error as error:
        raise SheetError(f"{path}, line {rows.line_num}: {error}", hint=_CAPTIONS_HINT) from None
    return found


def _key(file: str) -> str:
    return unicodedata.normalize("NFC", file.replace("\\", "/"))


# ImageMatches: the files that are to be looked at, and those that are not, before any is opened.


LARGEST = 256 * 1024 * 1024
"""No file is read that is larger, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that is a picture of this pet, as somebody says."""

    path: Path
    file: str
    pet_id: int
    place: int = 0
    source: str = ""
    row: int | None = None
    metadata: str | None = None

    def problem(self, why: str, cure: str = "") -> PictureProblem:
        """That this file is not uploaded."""
        return PictureProblem(
            file=self.file,
            problem=why,
            cure=cure,
            pet_id=self.pet_id,
            source=self.source,
            row=self.row,
        )


@dataclass(slots=True)
class ImageMatches:
    """What a folder or a sheet names. `ignored` counts what is passed over without a word."""

    candidates: list[Candidate] = field(default_factory=list)
    problems: list[PictureProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: int = 0


def is_within(path: Path, folder: Path) -> bool:
    """Whether the file really lies in the folder (resolved), its links followed.

    Raises OSError where that cannot be told.
    """
    # Path.resolve raises something else for a link that leads to itself.
    return Path(os.path.realpath(path, strict=True)).is_relative_to(folder)


def content_of(path: Path) -> bytes:
    """The file's bytes. Raises OSError, also for what is no ordinary file or larger than 256 MiB;
    never waits for a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except ValueError:
        raise OSError(0, "its name is none that a file can have") from None
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is no ordinary file")
        if state.st_size > LARGEST:
            raise OSError(0, f"it has {state.st_size / 2**20:,.0f} MiB, which is never read")
        # What it has grown by meanwhile is another picture's affair.
        return file.read(LARGEST)


_BINARY: int = getattr(os, "O_BINARY", 0)


# What a file is by its content, whatever its name says.


Format = Literal["JPEG", "PNG", "GIF", "WEBP"]

ENDINGS: dict[str, Format] = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".jpe": "JPEG",
    ".jfif": "JPEG",
    ".png": "PNG",
    ".gif": "GIF",
    ".webp": "WEBP",
}
"""The endings of the formats that are uploaded."""

IMAGE_ENDINGS = frozenset(
    (*ENDINGS, ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".svg", ".ico", ".psd", ".jp2")
) | {".apng", ".dng", ".cr2", ".nef", ".arw", ".raw"}
"""Endings of files that somebody takes for pictures."""

_MAGIC = (
    (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\1\0", "an icon file (ICO)"),
    (b"\0\0\0\x0cjP", "a JPEG 2000 image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\3\4", "a ZIP archive (or a document that is one, such as .docx or .xlsx)"),
    (b"PK\5\6", "an empty ZIP archive"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an audio file"),
    (b"\x1aE\xdf\xa3", "a video file"),
)
_HEIF = (b"heic", b"heix", b"hevc", b"heim", b"mif1", b"msf1")


def format_of(content: bytes) -> Format | None:
    """The format by the content's beginning, None for all but the four."""
    if content.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WEBP"
    return None


def describe_content(content: bytes) -> str:
    """What a file that is none of the four formats really is, as a person would say it."""
    if content[4:8] == b"ftyp":
        brand = content[8:12]
        if brand in _HEIF:
            return "a HEIC image, as phones make them"
        return "an AVIF image" if brand in (b"avif", b"avis") else "a video file"
    for magic, name in _MAGIC:
        if content.startswith(magic):
            return name
    return _of_text(content[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower())


def hidden_kind(content: bytes) -> str | None:
    """What an image file is besides, for a program that does not begin at its first byte: an
    archive, a document, a page or a script; None where it is nothing else.
    """
    if b"%PDF-" in content[:1024]:
        return "a PDF document"
    # An archive's directory stands at its end, before a comment of at most 64 KiB.
    if b"PK\5\6" in content[-66_000:]:
        return "a ZIP archive"
    lower = content.lower()
    if b"<script" in lower or b"<html" in lower or b"<!doctype html" in lower:
        return "a web page"
    return "a script" if b"<?php" in lower else None


def _of_text(start: bytes) -> str:
    if b"<svg" in start:
        return "an SVG drawing"
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page (perhaps a download that asked for a login)"
    if not start:
        return "nothing but blanks"
    if b"\0" in start:
        return "no image that is known here"
    try:
        start[:512].decode()
    except UnicodeDecodeError as error:
        # A character may be cut off at the end.
        return "text" if error.start > 500 else "no image that is known here"
    return "text"


# Pattern: how a file's name tells which pet it shows, as a template that anybody can write.


USUAL = ("{id}", "{id}_{n}")
"""`7.jpg`, `7_2.png`."""

_PART = re.compile(r"(\{id\}|\{n\}|\*)")
_DIGITS = r"(?<![0-9])(?P<%s>[0-9]{1,%d})(?![0-9])"
# Digits end where no digit follows, and there is one star: no name takes long.
_REGEX = {"{id}": _DIGITS % ("id", 19), "{n}": _DIGITS % ("n", 9), "*": ".*?"}
_PATTERN_HINT = (
    "It is the name without its ending: {id} is the pet's id, {n} the picture's number, and * "
    "anything, once at most. For example {id}-{n}, or {id}-*."
)


class NameMatch(NamedTuple):
    """What a name tells: the pet, and which of its pictures it is, 0 where it does not say."""

    pet_id: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class Patterns:
    """Templates; the first that fits a name counts."""

    templates: tuple[str, ...]
    regexes: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, templates: str | Iterable[str]) -> Patterns:
        """The templates, read. Raises SettingsError for one that cannot be used."""
        given = (templates,) if isinstance(templates, str) else tuple(templates)
        if not given:
            raise SettingsError("there is no pattern for the files' names", hint=_PATTERN_HINT)
        return cls(given, tuple(map(_regex, given)))

    def parse_name(self, stem: str) -> NameMatch | None:
        """What a name without its ending tells; None where no template fits."""
        for regex in self.regexes:
            match = regex.fullmatch(stem)
            if match is not None and int(match["id"]) <= MAX_ID:
                place = match.groupdict().get("n")
                return NameMatch(int(match["id"]), int(place or 0))
        return None

    def __str__(self) -> str:
        return " or ".join(self.templates)


def _regex(template: object) -> re.Pattern[str]:
    if not isinstance(template, str):
        raise SettingsError(f"the pattern {template!r} is no text", hint=_PATTERN_HINT)
    parts = [part for part in _PART.split(template) if part]
    holes = [part for part in parts if part in _REGEX]
    wrong = None
    if holes.count("{id}") != 1:
        wrong = "it needs {id}, once"
    elif len(holes) > len(set(holes)):
        wrong = "a part of it is there twice"
    elif any({one, two} == {"{id}", "{n}"} for one, two in pairwise(parts)):
        wrong = "something must stand between {id} and {n}"
    elif any("{" in part or "}" in part for part in parts if part not in _REGEX):
        wrong = "it has a brace that is neither {id} nor {n}"
    elif "/" in template or "\\" in template:
        wrong = "it is of a file's name, and folders are none of it"
    if wrong:
        raise SettingsError(f"the pattern {template!r} cannot be used: {wrong}", hint=_PATTERN_HINT)
    return re.compile("".join(_REGEX.get(p, re.escape(p)) for p in parts), re.DOTALL)


# A folder of pictures whose names tell which pet they show.


_LEFT_BEHIND = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"))
"""What systems leave in folders, besides what is hidden."""


def in_folder(
    folder: Path, patterns: Patterns, *, recursive: bool = False, metadata: str | None = None
) -> ImageMatches:
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
    walk.found.problems += walk.captions.iter_unused()
    return walk.found


@dataclass(slots=True)
class _Walk:
    root: Path
    patterns: Patterns
    recursive: bool
    captions: Captions
    metadata: str | None
    found: ImageMatches = field(default_factory=ImageMatches)

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
        named = self.patterns.parse_name(entry.name[: len(entry.name) - len(ending)])
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
        yield from self._check_candidate(candidate, entry)

    def _check_candidate(self, one: Candidate, entry: os.DirEntry[str]) -> Iterator[PictureProblem]:
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


# The pictures that a column of a sheet names, row by row.


_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]+://|data:|www\.)", re.IGNORECASE)
_PASSED_OVER = ("ignore", "delete")


def in_sheet(
    sheet: Sheet,
    column: str,
    *,
    folder: Path,
    metadata_column: str | None = None,
    metadata: str | None = None,
) -> ImageMatches:
    """The pictures that the column's cells name, each of its row's pet.

    A cell holds a path, or several, as a cell of photo_urls holds addresses. Paths are relative to
    `folder`, and lead nowhere outside it. Raises SheetError where there is no such column, or no
    such folder.
    """
    try:
        root = folder.resolve(strict=True)
    except OSError as error:
        raise SheetError(f"the folder {folder} cannot be read: {error.strerror}") from None
    paths = _column(sheet, column)
    said = None if metadata_column is None else _column(sheet, metadata_column)
    reading = _Reading(sheet, paths, said, metadata, root)
    found = ImageMatches(problems=[*_iter_blocked(sheet), *_iter_repeated(sheet)])
    for at, row in enumerate(sheet.rows.index.tolist()):
        reading.row(at, row, found)
    return found


def _column(sheet: Sheet, name: str) -> pd.Series[Any]:
    wanted = _fold_header(name)
    fitting = [header for header in sheet.others.columns if _fold_header(str(header)) == wanted]
    if len(fitting) == 1:
        return sheet.others[fitting[0]]
    own = ", ".join(repr(str(header)) for header in sheet.others.columns) or "none"
    if fitting:
        raise SheetError(f"{sheet.source} has several columns {name!r}", hint="Rename one.")
    raise SheetError(
        f"{sheet.source} has no column {name!r} that names files",
        hint=f"Columns that petsync does not know by itself: {own}.",
    )


def _fold_header(name: str) -> str:
    return re.sub(r"[\s_]", "", unicodedata.normalize("NFC", name)).casefold()


def _iter_blocked(sheet: Sheet) -> Iterator[PictureProblem]:
    errors: dict[int, list[Finding]] = defaultdict(list)
    for finding in sheet.problems:
        if finding.severity == "error":
            errors[finding.row].append(finding)
    for row in sheet.blocked:
        first = errors[row][0] if errors[row] else None
        yield PictureProblem(
            file="",
            problem="an error keeps the row out"
            + ("" if first is None else f": {first.value[:60]!r}: {first.problem}"),
            cure="`petsync check` shows more." if first is None else first.suggestion,
            pet_id=sheet.blocked_pets.get(row),
            source=sheet.address(row) if first is None else first.address,
            row=row,
        )


def _iter_repeated(sheet: Sheet) -> Iterator[PictureProblem]:
    """The rows that say of their pet what another says: the reader keeps the first of them alone,
    while in the columns that are read here they may name another picture.
    """
    for finding in sheet.problems:
        if finding.rule == "duplicate-row":
            yield PictureProblem(
                file="",
                problem="another row says the same of this pet, and the picture of this row is "
                f"not used: {finding.problem}",
                cure="Name all pictures of the pet in one cell, or take the row out if it names "
                "the same ones.",
                pet_id=int(finding.value),
                source=finding.address,
                row=finding.row,
            )


@dataclass(frozen=True, slots=True)
class _Reading:
    sheet: Sheet
    paths: pd.Series[Any]
    said: pd.Series[Any] | None
    metadata: str | None
    root: Path

    def row(self, at: int, row: int, found: ImageMatches) -> None:
        """Take in what one row names."""
        text = self.paths.iloc[at]
        if not isinstance(text, str) or not text.strip():
            return
        if self.sheet.rows["action"].iloc[at] in _PASSED_OVER:
            found.ignored += 1
            return
        where = self._build_reporter(row, text)
        pet_id = self.sheet.rows["id"].iloc[at] if "id" in self.sheet.rows else pd.NA
        if pd.isna(pet_id):
            found.problems.append(
                where(
                    "the row has no id, so there is no pet to show it with",
                    "Apply the sheet first: its result sheet has the new pets' ids.",
                )
            )
            return
        try:
            files = parse_photo_urls(text)
        except CellError as error:
            found.problems.append(where(f"the cell cannot be read: {error.problem}", ""))
            return
        for place, file in enumerate(dict.fromkeys(files)):
            one = self._candidate(file, int(pet_id), place, row, at)
            problem = self._problem(one)
            if problem is None:
                found.candidates.append(one)
            else:
                found.problems.append(problem)

    def _candidate(self, file: str, pet_id: int, place: int, row: int, at: int) -> Candidate:
        caption = None if self.said is None else self.said.iloc[at]
        said = caption if isinstance(caption, str) and caption.strip() else self.metadata
        return Candidate(
            path=self._path(file),
            file=file,
            pet_id=pet_id,
            place=place,
            source=self.sheet.address(row, str(self.paths.name)),
            row=row,
            metadata=said,
        )

    def _path(self, file: str) -> Path:
        """Where the file is; one that was written on Windows too."""
        path = self.root / file
        if "\\" in file and not path.exists():
            return self.root / file.replace("\\", "/")
        return path

    def _problem(self, one: Candidate) -> PictureProblem | None:
        if _ADDRESS.match(one.file):
            return one.problem(
                "it is an address, and nothing is fetched from one",
                "Save the picture as a file and name that, or put the address into photo_urls.",
            )
        try:
            if not is_within(one.path, self.root):
                cure = "Copy it into the folder, or name the folder that all are in (--folder)."
                return one.problem(f"it lies outside the folder {self.root}", cure)
            if not one.path.is_file():
                return one.problem("it is no ordinary file", "Name the picture itself.")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no file can have this name"
            cure = "Paths are relative to the sheet's folder, or to --folder."
            return one.problem(f"there is no such file in {self.root} ({why})", cure)
        return None

    def _build_reporter(self, row: int, text: str) -> Any:
        def build_problem(problem: str, cure: str) -> PictureProblem:
            source = self.sheet.address(row, str(self.paths.name))
            return PictureProblem(file=text, problem=problem, cure=cure, source=source, row=row)

        return build_problem
