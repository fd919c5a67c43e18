"""Draw docs/plan.svg, the plan that `petsync demo` shows: `python docs/picture.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

import petsync.render  # noqa: F401 - so that plans can show themselves
from petsync.diff.compare import compare, unproved
from petsync.diff.plan import Plan
from petsync.diff.snapshot import Coverage, Snapshot
from petsync.profile import STANDARD
from petsync.render.terminal import show_plan, terminal_svg
from petsync.samples import sample_data
from petsync.sheets import read_sheet
from petsync.table.frame import frame_from_json

__all__ = ["PICTURE", "picture"]

PICTURE = Path(__file__).parent / "plan.svg"
_MOMENT = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def picture() -> str:
    """The plan of the sample data on a terminal, as SVG."""
    plan = sample_plan()
    return terminal_svg(lambda console: show_plan(plan, console, limit=3), title="petsync plan")


def sample_plan() -> Plan:
    """The plan for the sample store and the workbook that the shop's people edited."""
    frame = frame_from_json((sample_data() / "store.json").read_bytes())
    snapshot = Snapshot(
        frame=frame,
        coverage=Coverage(STANDARD.statuses),
        source="https://shop.example/v2",
        taken_at=_MOMENT,
    )
    sheet = read_sheet(sample_data() / "catalogue_edited.xlsx")
    found = dict.fromkeys(unproved(sheet.frame, frame))
    plan = compare(snapshot, sheet, found=found, created=_MOMENT.isoformat())
    return msgspec.structs.replace(plan, source="catalogue.xlsx")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
