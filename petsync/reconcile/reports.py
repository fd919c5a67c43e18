"""The reports of rounds as files: a page for people and JSON for machines, side by side."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import msgspec

from petsync.diff.round import Open, Round, SheetChange
from petsync.diff.round_report import RoundReport
from petsync.reconcile.config.model import Reports
from petsync.reconcile.kept import file_name, write
from petsync.render.round_html import round_page
from petsync.render.round_json import round_json

__all__ = ["path_of", "save", "saved"]

_LOG = logging.getLogger(__name__)
_ENDINGS = (".html", ".json")


def path_of(reports: Reports, job: str, round_id: str) -> Path:
    """Where the page of a round is, or is to be."""
    return reports.folder / file_name(job) / f"{round_id}.html"


def save(reports: Reports, told: RoundReport) -> None:
    """Write both files of a round; those of the oldest go, where more are there than are kept.

    Raises PetsyncError where they cannot be written.
    """
    page = path_of(reports, told.round.job, told.round.id)
    write(page.with_suffix(".json"), round_json(told), private=reports.is_private)
    write(page, round_page(told).encode(), private=reports.is_private)
    if reports.keep is not None:
        _prune(page.parent, reports.keep)


class _Saved(msgspec.Struct, frozen=True):
    open: tuple[Open, ...] = ()
    sheet: tuple[SheetChange, ...] = ()


def saved(round_: Round) -> RoundReport:
    """The round with what its report says of differences and of the sheet. Old reports are removed,
    and another petsync's may be otherwise: then it is the round alone.
    """
    found = _Saved()
    if round_.report:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            body = Path(round_.report).with_suffix(".json").read_bytes()
            found = msgspec.json.decode(body, type=_Saved)
    return RoundReport(round=round_, open=found.open, sheet=found.sheet)


def _prune(folder: Path, keep: int) -> None:
    """Reports that are too old; one that cannot go stays, as that harms nobody."""
    names = {path.stem for path in folder.iterdir() if path.suffix in _ENDINGS}
    ids = sorted(name for name in names if not name.startswith("."))
    for name in ids[: max(0, len(ids) - keep)]:
        for ending in _ENDINGS:
            with suppress(OSError):
                (folder / f"{name}{ending}").unlink(missing_ok=True)
