"""Draw docs/plan-light.png, plan-dark.png and plan-400px.png, a plan's page in Chromium:
`python docs/page.py`.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from playwright.sync_api import Browser

from petsync.plan.change import Coverage, Snapshot
from petsync.plan.compare import compare, find_unproved_ids
from petsync.plan.decide import SheetComparison
from petsync.plan.plan import Plan
from petsync.profile import STANDARD
from petsync.report.html import document_page
from petsync.report.views.plan import plan_page_view, plan_title
from petsync.samples import sample_data
from petsync.sheets import read_sheet
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.decode import frame_from_json

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))

from chromium import open_chromium

__all__ = ["draw", "sample_plan"]

_HERE = Path(__file__).parent
_STORE = "https://shop.example/v2"
_EXPORTED = datetime(2026, 11, 19, 16, 5, tzinfo=UTC)
_PLANNED = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
_MEANWHILE: dict[int, dict[str, Any]] = {
    1022: {"status": "available"},
    1037: {"name": "Rosie-Bear"},
    1050: {"status": "sold"},
}
"""Changes in the store after the export; the shop's users changed some of these cells, too."""
_PICTURES: dict[str, dict[str, Any]] = {
    "plan-light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 1330}},
    "plan-dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 1330}},
    "plan-400px": {"color_scheme": "light", "viewport": {"width": 400, "height": 1640}},
}


def sample_plan() -> Plan:
    """Return the plan for the workbook that the shop's users edited, and a store that changed since
    the export.
    """
    exported = frame_from_json((sample_data() / "store.json").read_bytes())
    base = Base(pets=PetTable(frame=exported), store=_STORE, taken_at=_EXPORTED.isoformat())
    sheet = read_sheet(sample_data() / "catalogue_edited.xlsx")
    sheet = dataclasses.replace(sheet, source="catalogue.xlsx", base=base)
    snapshot = Snapshot(
        pets=PetTable(frame=_changed(exported)),
        coverage=Coverage(STANDARD.statuses),
        source=_STORE,
        taken_at=_PLANNED,
    )
    found = dict.fromkeys(find_unproved_ids(sheet.frame, snapshot.frame))
    return compare(SheetComparison(snapshot, sheet, found), created=_PLANNED.isoformat()).plan


def _changed(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.copy()
    for number, values in _MEANWHILE.items():
        for column, value in values.items():
            frame.loc[frame["id"] == number, column] = value
    return frame


def draw(folder: Path) -> Iterator[Path]:
    """Draw the pictures of the conflicts and updates into a folder."""
    page = folder / "plan.html"
    plan = sample_plan()
    page.write_text(document_page(plan_page_view(plan), plan_title(plan)), encoding="utf-8")
    with open_chromium() as chromium:
        for name, look in _PICTURES.items():
            yield _drawn(chromium, page, folder / f"{name}.png", look)


def _drawn(chromium: Browser, page: Path, picture: Path, look: dict[str, Any]) -> Path:
    context = chromium.new_context(**look)
    tab = context.new_page()
    tab.goto(f"{page.as_uri()}#kind=conflict,update")
    tab.get_by_role("status").filter(has_text="Showing").wait_for()
    tab.screenshot(path=picture)
    context.close()
    return picture


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drawn_here:
        for drawn in draw(Path(drawn_here)):
            (_HERE / drawn.name).write_bytes(drawn.read_bytes())
