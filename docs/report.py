"""Draw docs/run.svg and docs/report.png, a run's report: `python docs/report.py`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from picture import sample_plan

from petsync.plan.change import Change
from petsync.plan.report import Cause, Outcome, Report, Result, result_of, without_request
from petsync.report.html import document_page
from petsync.report.text import show, terminal_svg
from petsync.report.views.run import report_page_view, report_view

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))

from chromium import open_chromium

__all__ = ["draw", "sample_report", "terminal"]

_HERE = Path(__file__).parent
_ADDED = 1101
_TROUBLE: Mapping[int, tuple[Outcome, Cause, str]] = {
    61: ("unknown", "no-answer", "addPet: no answer arrived within 30 seconds"),
    71: ("failed", "refused", "updatePet: the service answered 400: no such category"),
    86: ("failed", "service-error", "updatePet: the service answered 503"),
    88: ("failed", "service-error", "updatePetWithForm: the service answered 503"),
    83: ("conflict", "changed-since", "changed in the store since the plan: status"),
}
"""The changes with problems, by their positions in the plan."""


def sample_report() -> Report:
    """Return the report of a run of the sample data's plan with a few problems."""
    plan = sample_plan()
    results = (_result(number, change) for number, change in enumerate(plan.changes))
    return Report(
        run_id="20261120-093214-4f2a",
        plan=plan,
        started="2026-11-20T09:32:14+00:00",
        seconds=3.4,
        results=(*results, *without_request(plan)),
    )


def _result(number: int, change: Change) -> Result:
    outcome, cause, message = _TROUBLE.get(number, ("applied", "", ""))
    is_new = change.kind == "add" and change.pet_id is None and outcome == "applied"
    assigned = _ADDED + number if is_new else None
    return result_of(number, change, outcome, cause, message, assigned)


def terminal() -> str:
    """Return the report in a terminal of 80 columns as SVG."""
    report = sample_report()
    return terminal_svg(
        lambda console: show(report_view(report, limit=1), console), title="petsync apply"
    )


def draw(folder: Path) -> Iterator[Path]:
    """Draw the pictures into a folder."""
    svg, png, html = (folder / name for name in ("run.svg", "report.png", "report.html"))
    svg.write_text(terminal(), encoding="utf-8")
    yield svg
    title = "Report on catalogue.xlsx"
    html.write_text(document_page(report_page_view(sample_report()), title), encoding="utf-8")
    with open_chromium() as chromium:
        tab = chromium.new_page(color_scheme="light", viewport={"width": 1180, "height": 1010})
        tab.goto(html.as_uri())
        tab.screenshot(path=png)
    yield png


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drawn_here:
        for drawn in draw(Path(drawn_here)):
            (_HERE / drawn.name).write_bytes(drawn.read_bytes())
