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
    "CAPTIONS_FILE",
    "DEFAULT_PATTERNS",
    "ENDINGS",
    "IMAGE_ENDINGS",
    "Candidate",
    "Captions",
    "Format",
    "ImageMatches",
    "NameMatch",
    "Patterns",
    "content_of",
    "describe_content",
    "find_in_folder",
    "find_in_sheet",
    "format_of",
    "hidden_kind",
    "is_within",
]


# Captions: `metadata.csv` beside the pictures, with a caption for some of them.


CAPTIONS_FILE = "metadata.csv"
_MAX_CAPTION_BYTES = 64 * 1024 * 1024
_CAPTIONS_HINT = (
    f"{CAPTIONS_FILE} must be a CSV file in UTF-8 with the columns file and metadata. If it is "
    "something else, remove it from the folder."
)


@dataclass(slots=True)
class Captions:
    """The captions in metadata.csv."""

    entries: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The line and the caption of each file that metadata.csv names, by its path in the folder."""
    is_there: bool = False
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: Path) -> Captions:
        """Return the captions in the file at `path`; empty if there is no file. Raises SheetError
        if the file cannot be used.
        """
        try:
            with path.open("rb") as file:
                # One more byte shows that the file is too large, even if it grows meanwhile.
                data = file.read(_MAX_CAPTION_BYTES + 1)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise SheetError(
                f"{path} cannot be read: {error.strerror}",
                hint="Make it a file that can be read, or remove it from the folder.",
            ) from None
        if len(data) > _MAX_CAPTION_BYTES:
            raise SheetError(
                f"{path} is larger than {_MAX_CAPTION_BYTES // 2**20} MiB",
                hint="Remove the rows of other folders' pictures, or upload the pictures from "
                f"several folders, each with a {CAPTIONS_FILE}.",
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            why = f"byte {error.start + 1:,} is not UTF-8"
            raise SheetError(f"{path} cannot be read: {why}", hint=_CAPTIONS_HINT) from None
        return cls(_read_captions(text, path), is_there=True)

    def caption_of(self, file: str, otherwise: str | None) -> str | None:
        """Return the caption of a file, and record it as used; return `otherwise` if the file has
        none.
        """
        key = _key(file)
        if key not in self.entries:
            return otherwise
        self.used.add(key)
        return self.entries[key][1]

    def iter_unused(self) -> Iterator[PictureProblem]:
        """Yield a problem for each caption that `caption_of` has not returned."""
        for key, (line, _) in self.entries.items():
            if key not in self.used:
                yield PictureProblem(
                    file=key,
                    problem="no picture with this name is uploaded from the folder",
                    cure="Correct the file name in this row, or remove the row.",
                    source=f"{CAPTIONS_FILE}, line {line}",
                    blocks=False,
                )


def _read_captions(text: str, path: Path) -> dict[str, tuple[int, str]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().casefold() for name in next(rows, [])]
        if "file" not in header or "metadata" not in header:
            raise SheetError(
                f"{path} lacks the column file or the column metadata", hint=_CAPTIONS_HINT
            )
        file_column, text_column = header.index("file"), header.index("metadata")
        captions: dict[str, tuple[int, str]] = {}
        for row in rows:
            if len(row) <= max(file_column, text_column) or not row[file_column].strip():
                continue
            key = _key(row[file_column].strip())
            if key in captions and captions[key][1] != row[text_column]:
                where = f"lines {captions[key][0]} and {rows.line_num}"
                raise SheetError(
                    f"{path}: {where} have different captions for {key}",
                    hint="Remove one of these lines.",
                )
            captions[key] = rows.line_num, row[text_column]
    except csv.Error as error:
        raise SheetError(f"{path}, line {rows.line_num}: {error}", hint=_CAPTIONS_HINT) from None
    return captions


def _key(file: str) -> str:
    return unicodedata.normalize("NFC", file.replace("\\", "/"))


# ImageMatches: the files to inspect and the files to leave out, before any file is opened.


MAX_FILE_BYTES = 256 * 1024 * 1024
"""The maximum size of a file that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be a picture of this pet; its content is not read yet."""

    path: Path
    file: str
    pet_id: int
    place: int = 0
    source: str = ""
    row: int | None = None
    metadata: str | None = None

    def problem(self, why: str, cure: str = "") -> PictureProblem:
        """Return the problem that keeps this file from being uploaded."""
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
    """The pictures in a folder or a sheet. `ignored` counts the hidden files and system files of a
    folder, or the rows of a sheet with pictures and the action `ignore` or `delete`.
    """

    candidates: list[Candidate] = field(default_factory=list)
    problems: list[PictureProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: int = 0


def is_within(path: Path, folder: Path) -> bool:
    """Return true if the file, after following links, is in the folder, which must be resolved.

    Raises OSError if the file cannot be resolved.
    """
    # Path.resolve can raise RuntimeError for a link to itself.
    return Path(os.path.realpath(path, strict=True)).is_relative_to(folder)


def content_of(path: Path) -> bytes:
    """Return the file's bytes. Raises OSError if it cannot be read, is not a regular file, or is
    larger than 256 MiB. Does not wait for a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except ValueError:
        raise OSError(0, "no file can have this name") from None
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is not a regular file")
        if state.st_size > MAX_FILE_BYTES:
            raise OSError(
                0,
                f"it is {state.st_size / 2**20:,.0f} MiB; only files up to "
                f"{MAX_FILE_BYTES // 2**20} MiB are read",
            )
        # A file that grows in the meantime is not read beyond the limit.
        return file.read(MAX_FILE_BYTES)


_BINARY: int = getattr(os, "O_BINARY", 0)


# The type of a file by its content, whatever its name says.


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
"""The formats that are uploaded, by file name ending."""

IMAGE_ENDINGS = frozenset(
    (*ENDINGS, ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".svg", ".ico", ".psd", ".jp2")
) | {".apng", ".dng", ".cr2", ".nef", ".arw", ".raw"}
"""Endings of files that users regard as pictures."""

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
    """Return the format that the first bytes show; None if it is not one of the four formats."""
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
    """Describe a file that has none of the four formats, for example as `a PDF document`."""
    if content[4:8] == b"ftyp":
        brand = content[8:12]
        if brand in _HEIF:
            return "a HEIC image, as phones take them"
        return "an AVIF image" if brand in (b"avif", b"avis") else "a video file"
    for magic, name in _MAGIC:
        if content.startswith(magic):
            return name
    return _describe_text(content[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower())


def hidden_kind(content: bytes) -> str | None:
    """Return what other programs may read an image as, such as `a ZIP archive` or `a web page`;
    None if it is only an image.
    """
    if b"%PDF-" in content[:1024]:
        return "a PDF document"
    # An archive's directory is at its end, before a comment of at most 64 KiB.
    if b"PK\5\6" in content[-66_000:]:
        return "a ZIP archive"
    lower = content.lower()
    if b"<script" in lower or b"<html" in lower or b"<!doctype html" in lower:
        return "a web page"
    return "a script" if b"<?php" in lower else None


def _describe_text(start: bytes) -> str:
    if b"<svg" in start:
        return "an SVG drawing"
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page (perhaps a login page instead of the picture)"
    if not start:
        return "only whitespace"
    if b"\0" in start:
        return "a file of an unknown format"
    try:
        start[:512].decode()
    except UnicodeDecodeError as error:
        # A character may be cut off at the end.
        return "text" if error.start > 500 else "a file of an unknown format"
    return "text"


# Patterns: templates for file names that contain the id of the picture's pet.


DEFAULT_PATTERNS = ("{id}", "{id}_{n}")
"""The default patterns. Examples: `7.jpg`, `7_2.png`."""

_PART = re.compile(r"(\{id\}|\{n\}|\*)")
_DIGITS = r"(?<![0-9])(?P<%s>[0-9]{1,%d})(?![0-9])"
# Only a complete sequence of digits matches, and there is at most one `*`, so matching is fast for
# every name.
_REGEX = {"{id}": _DIGITS % ("id", 19), "{n}": _DIGITS % ("n", 9), "*": ".*?"}
_PATTERN_HINT = (
    "A pattern is for the file name without its ending: {id} is the pet's id, {n} the picture's "
    "number, and * is any text, at most once. For example {id}-{n}, or {id}-*."
)


class NameMatch(NamedTuple):
    """The pet's id in a file name, and the picture's place among the pet's pictures; 0 if the name
    does not contain a place.
    """

    pet_id: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class Patterns:
    """Templates for file names; the first that matches a name is used."""

    templates: tuple[str, ...]
    regexes: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, templates: str | Iterable[str]) -> Patterns:
        """Return the compiled templates. Raises SettingsError for a template that cannot be used,
        and if there is none.
        """
        given: Any = templates
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        texts = tuple(given) if is_list else (given,)
        if wrong := [each for each in texts if not isinstance(each, str)]:
            raise SettingsError(f"pattern is {wrong[0]!r}, not text", hint=_PATTERN_HINT)
        if not texts:
            raise SettingsError("there is no pattern for the files' names", hint=_PATTERN_HINT)
        return cls(texts, tuple(map(_regex, texts)))

    def parse_name(self, stem: str) -> NameMatch | None:
        """Return the pet and the place in a name without its ending; None if no template
        matches.
        """
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
        raise SettingsError(f"the pattern {template!r} is not text", hint=_PATTERN_HINT)
    parts = [part for part in _PART.split(template) if part]
    placeholders = [part for part in parts if part in _REGEX]
    problem = None
    if placeholders.count("{id}") != 1:
        problem = "it needs {id} exactly once"
    elif len(placeholders) > len(set(placeholders)):
        problem = "one of its placeholders occurs twice"
    elif any({one, two} == {"{id}", "{n}"} for one, two in pairwise(parts)):
        problem = "there must be a character between {id} and {n}"
    elif any("{" in part or "}" in part for part in parts if part not in _REGEX):
        problem = "it has a brace that does not belong to {id} or {n}"
    elif "/" in template or "\\" in template:
        problem = "it has a / or \\, which a file name cannot have"
    if problem:
        raise SettingsError(
            f"the pattern {template!r} cannot be used: {problem}", hint=_PATTERN_HINT
        )
    return re.compile("".join(_REGEX.get(p, re.escape(p)) for p in parts), re.DOTALL)


# A folder of pictures, found by file name.


_SYSTEM_FILES = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"))
"""Files that operating systems leave in folders, besides hidden ones."""


def find_in_folder(
    folder: Path, patterns: Patterns, *, recursive: bool = False, metadata: str | None = None
) -> ImageMatches:
    """Return the pictures in the folder whose names identify a pet, and problems for other files,
    except hidden and system files.

    `metadata` is the caption of pictures that metadata.csv in the folder does not name. Raises
    SheetError if the folder or metadata.csv cannot be read.
    """
    try:
        root = folder.resolve(strict=True)
        walk = _FolderWalk(root, patterns, recursive, Captions.of(root / CAPTIONS_FILE), metadata)
        walk.visit_folder(root)
    except OSError as error:
        raise SheetError(
            f"the folder {folder} cannot be read: {error.strerror}",
            hint="Check its name and its permissions.",
        ) from None
    walk.matches.problems += walk.captions.iter_unused()
    return walk.matches


@dataclass(slots=True)
class _FolderWalk:
    root: Path
    patterns: Patterns
    recursive: bool
    captions: Captions
    metadata: str | None
    matches: ImageMatches = field(default_factory=ImageMatches)

    def visit_folder(self, folder: Path) -> None:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
        for entry in sorted_entries:
            self._visit(entry)

    def _visit(self, entry: os.DirEntry[str]) -> None:
        name = entry.name
        if name.startswith(".") or name.casefold() in _SYSTEM_FILES:
            self.matches.ignored += 1
            return
        if entry.path == str(self.root / CAPTIONS_FILE) and self.captions.is_there:
            return
        if not _is_text(name):
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self._add_problem(shown, "its name is not valid UTF-8", "Rename it.", blocks=True)
        elif entry.is_dir(follow_symlinks=False):
            self._folder(entry)
        else:
            self.matches.problems += self._file(entry)

    def _folder(self, entry: os.DirEntry[str]) -> None:
        file = self._file_name(entry)
        if not self.recursive:
            cure = "To include folders, use --recursive, in Python recursive=True."
            self._add_problem(file, "it is a folder", cure, blocks=_ending(entry.name) in ENDINGS)
            return
        try:
            self.visit_folder(Path(entry.path))
        except OSError as error:
            self._add_problem(file, f"it cannot be read: {error.strerror}", "", blocks=True)

    def _file(self, entry: os.DirEntry[str]) -> Iterator[PictureProblem]:
        file, ending = self._file_name(entry), _ending(entry.name)
        match = self.patterns.parse_name(entry.name[: len(entry.name) - len(ending)])
        if ending not in IMAGE_ENDINGS:
            yield PictureProblem(
                file=file, problem="its name does not have the ending of a picture", blocks=False
            )
            return
        if match is None:
            why = f"its name does not match {self.patterns}"
            cure = (
                "Name it after its pet's id, or specify a pattern for the names (--pattern, in "
                "Python pattern)."
            )
            yield PictureProblem(file=file, problem=why, cure=cure)
            return
        candidate = Candidate(
            path=Path(entry.path),
            file=file,
            pet_id=match.pet_id,
            place=match.place,
            metadata=self.captions.caption_of(file, self.metadata),
        )
        yield from self._check_candidate(candidate, entry)

    def _check_candidate(
        self, candidate: Candidate, entry: os.DirEntry[str]
    ) -> Iterator[PictureProblem]:
        try:
            if entry.is_symlink() and not is_within(candidate.path, self.root):
                yield candidate.problem(
                    "it is a link to a file outside the folder", "Copy the file into the folder."
                )
            elif not entry.is_file():
                what = "a link to a folder" if entry.is_dir() else "not a regular file"
                yield candidate.problem(f"it is {what}", "Copy the picture into the folder.")
            else:
                self.matches.candidates.append(candidate)
        except OSError as error:
            yield candidate.problem(
                f"it is a link without a usable target ({error.strerror})",
                "Copy the picture into the folder.",
            )

    def _add_problem(self, file: str, problem: str, cure: str, *, blocks: bool) -> None:
        self.matches.problems.append(
            PictureProblem(file=file, problem=problem, cure=cure, blocks=blocks)
        )

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


# Pictures that a column of a sheet names.


_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]+://|data:|www\.)", re.IGNORECASE)
_SKIPPED_ACTIONS = ("ignore", "delete")


def find_in_sheet(
    sheet: Sheet,
    column: str,
    *,
    folder: Path,
    metadata_column: str | None = None,
    metadata: str | None = None,
) -> ImageMatches:
    """Return the pictures that the cells of the column name, each with the pet of its row.

    A cell contains one or more paths, separated like the URLs in a cell of photo_urls. Paths are
    relative to `folder` and must not lead out of it. Raises SheetError if the folder cannot be
    read, or if a column is missing or ambiguous.
    """
    try:
        root = folder.resolve(strict=True)
    except OSError as error:
        raise SheetError(f"the folder {folder} cannot be read: {error.strerror}") from None
    paths = _column(sheet, column)
    captions = None if metadata_column is None else _column(sheet, metadata_column)
    reading = _SheetReader(sheet, paths, captions, metadata, root)
    found = ImageMatches(problems=[*_iter_blocked(sheet), *_iter_repeated(sheet)])
    for position, row in enumerate(sheet.rows.index.tolist()):
        reading.row(position, row, found)
    return found


def _column(sheet: Sheet, name: str) -> pd.Series[Any]:
    key = _fold_header(name)
    headers = [header for header in sheet.others.columns if _fold_header(str(header)) == key]
    if len(headers) == 1:
        return sheet.others[headers[0]]
    known = ", ".join(repr(str(header)) for header in sheet.others.columns) or "none"
    if headers:
        raise SheetError(f"{sheet.source} has several columns {name!r}", hint="Rename one.")
    raise SheetError(
        f"{sheet.source} has no column {name!r} besides petsync's columns",
        hint=f"Its other columns: {known}.",
    )


def _fold_header(name: str) -> str:
    return re.sub(r"[\s_]", "", unicodedata.normalize("NFC", name)).casefold()


def _iter_blocked(sheet: Sheet) -> Iterator[PictureProblem]:
    errors: dict[int, list[Finding]] = defaultdict(list)
    for finding in sheet.problems:
        if finding.severity == "error":
            errors[finding.row].append(finding)
    for row in sheet.blocked:
        first_error = errors[row][0] if errors[row] else None
        yield PictureProblem(
            file="",
            problem="the row has an error"
            + (
                ""
                if first_error is None
                else f": {first_error.value[:60]!r}: {first_error.problem}"
            ),
            cure="`petsync check` shows more." if first_error is None else first_error.suggestion,
            pet_id=sheet.blocked_pets.get(row),
            source=sheet.address(row) if first_error is None else first_error.address,
            row=row,
        )


def _iter_repeated(sheet: Sheet) -> Iterator[PictureProblem]:
    """Yield a problem for each row that repeats another row. The sheet has only the first of these
    rows, but the others may name other pictures.
    """
    for finding in sheet.problems:
        if finding.rule == "duplicate-row":
            yield PictureProblem(
                file="",
                problem="this row repeats another one, so its picture is not used. "
                f"{finding.problem}",
                cure="Name all pictures of the pet in one cell, or remove the row if it names "
                "the same ones.",
                pet_id=int(finding.value),
                source=finding.address,
                row=finding.row,
            )


@dataclass(frozen=True, slots=True)
class _SheetReader:
    sheet: Sheet
    paths: pd.Series[Any]
    captions: pd.Series[Any] | None
    metadata: str | None
    root: Path

    def row(self, position: int, row: int, found: ImageMatches) -> None:
        """Add the pictures that one row names to the matches."""
        text = self.paths.iloc[position]
        if not isinstance(text, str) or not text.strip():
            return
        if self.sheet.rows["action"].iloc[position] in _SKIPPED_ACTIONS:
            found.ignored += 1
            return
        build_problem = self._build_reporter(row, text)
        pet_id = self.sheet.rows["id"].iloc[position] if "id" in self.sheet.rows else pd.NA
        if pd.isna(pet_id):
            found.problems.append(
                build_problem(
                    "the row has no id, so the picture's pet is unknown",
                    "Apply the sheet first: its results file has the new pets' ids.",
                )
            )
            return
        try:
            files = parse_photo_urls(text)
        except CellError as error:
            found.problems.append(build_problem(f"the cell cannot be read: {error.problem}", ""))
            return
        for place, file in enumerate(dict.fromkeys(files)):
            candidate = self._candidate(file, int(pet_id), place, row, position)
            problem = self._problem(candidate)
            if problem is None:
                found.candidates.append(candidate)
            else:
                found.problems.append(problem)

    def _candidate(self, file: str, pet_id: int, place: int, row: int, position: int) -> Candidate:
        caption = None if self.captions is None else self.captions.iloc[position]
        metadata = caption if isinstance(caption, str) and caption.strip() else self.metadata
        return Candidate(
            path=self._path(file),
            file=file,
            pet_id=pet_id,
            place=place,
            source=self.sheet.address(row, str(self.paths.name)),
            row=row,
            metadata=metadata,
        )

    def _path(self, file: str) -> Path:
        """Return the file's path; backslashes separate folders if no file has the exact name."""
        path = self.root / file
        if "\\" in file and not path.exists():
            return self.root / file.replace("\\", "/")
        return path

    def _problem(self, candidate: Candidate) -> PictureProblem | None:
        if _ADDRESS.match(candidate.file):
            return candidate.problem(
                "it is a URL, and petsync does not download pictures",
                "Save the picture as a file and name the file, or put the URL into photo_urls.",
            )
        try:
            if not is_within(candidate.path, self.root):
                cure = (
                    "Copy it into the folder, or specify the folder that contains all pictures "
                    "(--folder, in Python folder)."
                )
                return candidate.problem(f"it is outside the folder {self.root}", cure)
            if not candidate.path.is_file():
                return candidate.problem("it is not a regular file", "Name the picture itself.")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no file can have this name"
            cure = "Paths are relative to the sheet's folder, or to --folder (in Python folder)."
            return candidate.problem(f"no such file can be found in {self.root} ({why})", cure)
        return None

    def _build_reporter(self, row: int, text: str) -> Any:
        def build_problem(problem: str, cure: str) -> PictureProblem:
            source = self.sheet.address(row, str(self.paths.name))
            return PictureProblem(file=text, problem=problem, cure=cure, source=source, row=row)

        return build_problem
