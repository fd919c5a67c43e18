"""Draw docs/plan.svg, a plan of the sample data: `python docs/picture.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

import petsync.report  # noqa: F401 - so that plans can show themselves
from petsync.plan.change import Coverage, Snapshot
from petsync.plan.compare import compare, find_unproved_ids
from petsync.plan.decide import SheetComparison
from petsync.plan.plan import Plan
from petsync.profile import STANDARD
from petsync.report.text import show, terminal_svg
from petsync.report.views.plan import plan_view
from petsync.samples import sample_data
from petsync.sheets import read_sheet
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.decode import frame_from_json

__all__ = ["PICTURE", "picture"]

PICTURE = Path(__file__).parent / "plan.svg"
_STORE = "https://shop.example/v2"
_EXPORTED = datetime(2026, 11, 19, 16, 5, tzinfo=UTC)
_PLANNED = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
_MEANWHILE = [(1037, "name", "Rosie-Bear"), (1022, "status", "available")]
"""Changes in the store after the export; the shop's users changed the same cells."""


def picture() -> str:
    """Return the plan of the sample data in a terminal as SVG."""
    plan = sample_plan()
    return terminal_svg(
        lambda console: show(plan_view(plan, limit=3), console), title="petsync plan"
    )


def sample_plan() -> Plan:
    """Return the plan for the workbook that the shop edited, and a store that changed since."""
    exported = frame_from_json((sample_data() / "store.json").read_bytes())
    snapshot = Snapshot(
        pets=PetTable(frame=_changed(exported)),
        coverage=Coverage(STANDARD.statuses),
        source=_STORE,
        taken_at=_PLANNED,
    )
    sheet = replace(
        read_sheet(sample_data() / "catalogue_edited.xlsx"),
        source="catalogue.xlsx",
        base=Base(pets=PetTable(frame=exported), store=_STORE, taken_at=_EXPORTED.isoformat()),
    )
    found = dict.fromkeys(find_unproved_ids(sheet.frame, snapshot.frame))
    return compare(SheetComparison(snapshot, sheet, found), created=_PLANNED.isoformat()).plan


def _changed(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.copy()
    for pet, column, value in _MEANWHILE:
        frame.loc[frame["id"] == pet, column] = value
    return frame


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
