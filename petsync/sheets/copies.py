"""What every copy of a sheet's file keeps to: it is of the bytes that were read, and elsewhere.

What a caller gives is of another type more often than not by mistake, and is told so.
"""

from __future__ import annotations

from os import PathLike
from os.path import lexists
from pathlib import Path

import pandas as pd

from petsync.diff.report import Report
from petsync.errors import SheetError
from petsync.sheets.delimited.sidecar import beside, content
from petsync.sheets.source import Source, load
from petsync.table.sheet import Sheet

__all__ = [
    "Results",
    "apart",
    "as_path",
    "as_results",
    "as_sheet",
    "fitting",
    "of_one_sheet",
    "sidecar_lines",
    "unchanged",
]

Results = Report | pd.DataFrame

_UNREADABLE = "petsync-base could not be read"


def as_sheet(sheet: object) -> Sheet:
    """The sheet itself. Raises SheetError where it is none."""
    if not isinstance(sheet, Sheet):
        raise SheetError(
            f"a {type(sheet).__name__} is no sheet", hint="Give what read_sheet returns."
        )
    return sheet


def as_results(results: object) -> Results:
    """The results themselves. Raises SheetError where they are none, or not of rows."""
    if not isinstance(results, Report | pd.DataFrame):
        raise SheetError(
            f"a {type(results).__name__} holds no results of a run",
            hint="Give what apply returns, or a DataFrame indexed by row number.",
        )
    kinds = ("integer", "empty")
    if isinstance(results, pd.DataFrame) and results.index.inferred_type not in kinds:
        raise SheetError(
            "the results are not indexed by row number",
            hint='Where they have a column with it, use results.set_index("row").',
        )
    return results


def as_path(path: object) -> Path:
    """The path. Raises SheetError where it is none."""
    if not isinstance(path, str | PathLike):
        raise SheetError(
            f"a {type(path).__name__} is no path", hint='Give the file\'s name, as "pets.xlsx".'
        )
    return Path(path)


def of_one_sheet(sheet: Sheet, results: Results) -> None:
    """Raise SheetError where a report is of another sheet: its rows are not this one's."""
    if isinstance(results, Report) and results.plan.source_digest != sheet.digest:
        raise SheetError(
            f"{sheet.source}: the report is of another sheet, or of other content: "
            f"{results.plan.source}",
            hint="Give the sheet that the plan was made from, as it was read then.",
        )


def fitting(path: Path, source: Source) -> None:
    """Raise SheetError where the name says another kind of file than the copy is."""
    endings = (".csv", ".tsv", ".txt") if source.kind == "text" else (".xlsx", ".xlsm")
    if path.suffix.casefold() not in endings:
        raise SheetError(
            f"{path}: the copy of {source.path.name} is of the same kind as that",
            hint=f"Its name ends in {' or '.join(endings)}.",
        )


def unchanged(sheet: Sheet, hint: str) -> Source:
    """The sheet's file. Raises SheetError where it has changed since it was read."""
    source = load(Path(sheet.source), sheet.encoding or None)
    if source.digest != sheet.digest:
        raise SheetError(f"{source.path}: the file has changed since it was read", hint=hint)
    return source


def apart(path: Path, source: Source) -> None:
    """Raise SheetError where `path` is the sheet itself."""
    is_same = lexists(path) and path.exists() and path.samefile(source.path)
    if is_same or path.resolve() == source.path.resolve():
        raise SheetError(f"{path}: this is the sheet itself", hint="Give the copy another name.")


def sidecar_lines(source: Source) -> list[str] | None:
    """The lines of the file's sidecar, None where there is none. They are taken as they are: what
    is refused there is refused in a copy too.
    """
    if source.kind != "text":
        return None
    try:
        return content(beside(source.path)).decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return None
    except OSError:
        return [_UNREADABLE]
