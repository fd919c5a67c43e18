"""The pictures that a column of a sheet names, row by row."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from petsync.apply.pictures.found import Candidate, Found, is_within
from petsync.diff.pictures import PictureProblem
from petsync.errors import SheetError
from petsync.table.cells import CellError, parse_photo_urls
from petsync.table.sheet import Finding, Sheet

__all__ = ["in_sheet"]

_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]+://|data:|www\.)", re.IGNORECASE)
_PASSED_OVER = ("ignore", "delete")


def in_sheet(
    sheet: Sheet,
    column: str,
    *,
    folder: Path,
    metadata_column: str | None = None,
    metadata: str | None = None,
) -> Found:
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
    found = Found(problems=[*_blocked(sheet), *_repeated(sheet)])
    for at, row in enumerate(sheet.frame.index.tolist()):
        reading.row(at, row, found)
    return found


def _column(sheet: Sheet, name: str) -> pd.Series[Any]:
    wanted = _folded(name)
    fitting = [header for header in sheet.others.columns if _folded(str(header)) == wanted]
    if len(fitting) == 1:
        return sheet.others[fitting[0]]
    own = ", ".join(repr(str(header)) for header in sheet.others.columns) or "none"
    if fitting:
        raise SheetError(f"{sheet.source} has several columns {name!r}", hint="Rename one.")
    raise SheetError(
        f"{sheet.source} has no column {name!r} that names files",
        hint=f"Columns that petsync does not know by itself: {own}.",
    )


def _folded(name: str) -> str:
    return re.sub(r"[\s_]", "", unicodedata.normalize("NFC", name)).casefold()


def _blocked(sheet: Sheet) -> Iterator[PictureProblem]:
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
            cure="`petsync check` tells more of it." if first is None else first.suggestion,
            pet_id=sheet.blocked_pets.get(row),
            source=sheet.address(row) if first is None else first.address,
            row=row,
        )


def _repeated(sheet: Sheet) -> Iterator[PictureProblem]:
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

    def row(self, at: int, row: int, found: Found) -> None:
        """Take in what one row names."""
        text = self.paths.iloc[at]
        if not isinstance(text, str) or not text.strip():
            return
        if self.sheet.frame["action"].iloc[at] in _PASSED_OVER:
            found.ignored += 1
            return
        where = self._told(row, text)
        pet_id = self.sheet.frame["id"].iloc[at] if "id" in self.sheet.frame else pd.NA
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

    def _told(self, row: int, text: str) -> Any:
        def told(problem: str, cure: str) -> PictureProblem:
            source = self.sheet.address(row, str(self.paths.name))
            return PictureProblem(file=text, problem=problem, cure=cure, source=source, row=row)

        return told
