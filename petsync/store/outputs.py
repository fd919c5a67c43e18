"""Outputs: the files that a run leaves beside its sheet, and the ids that it writes into it."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from petsync import sheets
from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.errors import PetsyncError
from petsync.sheets.backup import kept
from petsync.sheets.locks import must_be_closed
from petsync.sheets.planned import sheet_of
from petsync.store.past import History
from petsync.table.sheet import Sheet

__all__ = ["IntoSheet", "Outputs", "Wanted", "default_results", "gives_ids"]

IntoSheet = Literal["", "ids", "results"]
"""What a run writes into the sheet itself: nothing, new ids, or all its results."""


_PATIENCE = 1.0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to write: `results` is the path of the results file, "" for the usual
    one. `digest` is the sheet's SHA-256 since the run wrote into it, "" before.
    """

    into_sheet: IntoSheet = ""
    results: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Writes what runs leave, and remembers it in the journal, so that a resume writes it again."""

    history: History

    def remember(self, plan: Plan, wanted: Wanted) -> None:
        """Keep what the plan's run is to write, on the disk when this returns."""
        if wanted != Wanted():
            text = msgspec.json.encode(wanted).decode()
            self.history.set_note(_of_run(plan), text)

    def wanted(self, plan: Plan) -> Wanted:
        """What the plan's run was asked to write."""
        text = self.history.note(_of_run(plan))
        return msgspec.json.decode(text, type=Wanted) if text else Wanted()

    def sheet(self, plan: Plan, statuses: tuple[str, ...]) -> Sheet | None:
        """The plan's sheet as it was then, or as its run left it; None where it is gone, or was
        changed by anybody else.
        """
        sheet = sheet_of(plan, statuses=statuses)
        digest = "" if sheet is not None else self.wanted(plan).digest
        return sheet_of(plan, statuses=statuses, digest=digest) if digest else sheet

    def write_into_sheet(self, sheet: Sheet, report: Report, into_sheet: IntoSheet) -> Path:
        """The path of the backup of the sheet, which has the run's ids now, or all its results.
        Raises SheetError where it cannot be written.
        """
        told = _of_sheet(report, sheet)
        backup = sheets.write_back(sheet, told, only_ids=into_sheet == "ids")
        digest = _digest(Path(sheet.source))
        wanted = msgspec.structs.replace(self.wanted(report.plan), digest=digest)
        self.remember(report.plan, wanted)
        return backup

    def write_results(
        self, sheet: Sheet, report: Report, path: Path, *, follow: bool = False
    ) -> Path | None:
        """Write the results file, always the latest under its name. The path of the backup of a
        file that was there; None where there was none, or petsync's own that nobody changed.
        Raises SheetError, also where the file is open in another program, or is a symbolic link
        that is not to be followed, as no person named it.
        """
        backup = None
        if path.is_file() and not path.is_symlink():
            must_be_closed(path)
            if self.history.note(_of_file(path)) != _digest(path):
                backup = kept(path.absolute(), path.read_bytes(), dt.datetime.now(dt.UTC))
        sheets.write_results(sheet, _of_sheet(report, sheet), path, follow=follow)
        # Without the note the next results keep this file as a backup, and nothing is lost.
        with suppress(PetsyncError):
            self.history.set_note(_of_file(path), _digest(path), patience=_PATIENCE)
        return backup


def default_results(sheet: Sheet) -> Path:
    """`catalogue.results.xlsx` beside the sheet, or here, if that folder is read-only."""
    source = Path(sheet.source)
    # Of a workbook with macros the copy has them too.
    keeps = sheet.tab == "" or source.suffix.casefold() == ".xlsm"
    suffix = source.suffix if keeps else ".xlsx"
    folder = source.parent if os.access(source.parent, os.W_OK) else Path()
    # A folder takes no name of more than 255 bytes, the sidecar's and a backup's counted.
    stem = source.stem.encode()[:200].decode(errors="ignore")
    return folder / f"{stem}.results{suffix}"


def gives_ids(plan: Plan) -> bool:
    """Whether rows of the sheet get ids by this plan."""
    return bool(plan.recognised) or any(change.pet_id is None for change in plan.adds)


def _of_sheet(report: Report, sheet: Sheet) -> Report:
    """The report of the sheet as its own run left it: with the same rows."""
    if report.plan.source_digest == sheet.digest:
        return report
    plan = msgspec.structs.replace(report.plan, source_digest=sheet.digest)
    return msgspec.structs.replace(report, plan=plan)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise PetsyncError(f"{path} cannot be read: {error.strerror}") from None


def _of_run(plan: Plan) -> str:
    return f"outputs of {plan.fingerprint}"


def _of_file(path: Path) -> str:
    return f"results in {os.path.realpath(path)}"
