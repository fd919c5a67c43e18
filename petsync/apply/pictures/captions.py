"""Captions: `metadata.csv` beside the pictures, which says something of some of them."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from petsync.diff.pictures import PictureProblem
from petsync.errors import SheetError

__all__ = ["NAME", "Captions"]

NAME = "metadata.csv"
_LARGEST = 64 * 1024 * 1024
_HINT = f"{NAME} has the columns file and metadata, in UTF-8; or take it out of the folder."


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
            raise SheetError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from None
        except UnicodeDecodeError as error:
            why = f"byte {error.start + 1:,} is not UTF-8"
            raise SheetError(f"{path} cannot be read: {why}", hint=_HINT) from None
        return cls(_read(text, path), is_there=True)

    def of_file(self, file: str, otherwise: str | None) -> str | None:
        """What is said of a file."""
        key = _key(file)
        if key not in self.said:
            return otherwise
        self.used.add(key)
        return self.said[key][1]

    def unused(self) -> Iterator[PictureProblem]:
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


def _read(text: str, path: Path) -> dict[str, tuple[int, str]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().casefold() for name in next(rows, [])]
        if "file" not in header or "metadata" not in header:
            raise SheetError(f"{path} has no columns file and metadata", hint=_HINT)
        at, said = header.index("file"), header.index("metadata")
        found: dict[str, tuple[int, str]] = {}
        for row in rows:
            if len(row) <= max(at, said) or not row[at].strip():
                continue
            key = _key(row[at].strip())
            if key in found and found[key][1] != row[said]:
                where = f"lines {found[key][0]} and {rows.line_num}"
                raise SheetError(f"{path}: {where} say different things of {key}", hint=_HINT)
            found[key] = rows.line_num, row[said]
    except csv.Error as error:
        raise SheetError(f"{path}, line {rows.line_num}: {error}", hint=_HINT) from None
    return found


def _key(file: str) -> str:
    return unicodedata.normalize("NFC", file.replace("\\", "/"))
