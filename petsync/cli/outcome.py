"""What a run leaves behind: the result workbook and the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petsync.diff.report import Report
    from petsync.diff.uploaded import Uploaded
    from petsync.table.sheet import Sheet

__all__ = ["save_report", "save_results", "save_uploaded"]


def save_results(report: Report, sheet: Sheet | None, path: Path, *, is_named: bool = True) -> None:
    """Write the sheet with what became of each row; without a sheet, the results alone.

    A path that is not named by a person may be no link. Raises SheetError.
    """
    if sheet is None:
        from petsync.render.workbook import report_workbook

        report_workbook(report, path)
    else:
        from petsync.sheets import write_results

        write_results(sheet, report, path, follow=is_named)


def save_report(report: Report, path: Path) -> None:
    """Write the report as an HTML page. Raises SheetError."""
    from petsync.render.html import report_html
    from petsync.render.page import page
    from petsync.sheets import atomic

    title = f"Report on {Path(report.plan.source).name}"
    html = page(report_html(report, limit=None), title)
    atomic.replace(path, html.encode(), like=report.plan.source)


def save_uploaded(report: Uploaded, path: Path) -> None:
    """Write an upload's report as an HTML page. Raises SheetError."""
    from petsync.render.page import page
    from petsync.render.pictures_html import uploaded_html
    from petsync.sheets import atomic

    title = f"Pictures of {Path(report.source).name}"
    atomic.replace(path, page(uploaded_html(report, limit=None), title).encode())
