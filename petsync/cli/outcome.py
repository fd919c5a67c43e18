"""What a run leaves behind: the result workbook and the report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from petsync.cli.files import free

if TYPE_CHECKING:
    import pandas as pd

    from petsync.diff.report import Report
    from petsync.table.sheet import Sheet

__all__ = ["default_results", "save_report", "save_results"]


def default_results(sheet: Sheet) -> Path:
    """`catalogue.results.xlsx` beside the sheet (here, if that folder is read-only), or with a
    number where that is there already.
    """
    source = Path(sheet.source)
    suffix = source.suffix if sheet.tab == "" else ".xlsx"
    folder = source.parent if os.access(source.parent, os.W_OK) else Path()
    return free(folder / f"{source.stem}.results{suffix}")


def save_results(report: Report, sheet: Sheet | None, path: Path) -> None:
    """Write the sheet with what became of each row; without a sheet, the results alone.

    Raises SheetError.
    """
    if sheet is None:
        from petsync.render.workbook import report_workbook

        report_workbook(report, path)
    else:
        from petsync.sheets import write_results

        write_results(sheet, _by_row(report, sheet), path)


def save_report(report: Report, path: Path) -> None:
    """Write the report as an HTML page. Raises SheetError."""
    from petsync.render.html import report_html
    from petsync.render.page import page
    from petsync.sheets import atomic

    title = f"Report on {Path(report.plan.source).name}"
    atomic.replace(path, page(report_html(report, limit=None), title).encode())


def _by_row(report: Report, sheet: Sheet) -> pd.DataFrame:
    """outcome, message and assigned_id, indexed by row; rows that were no change are skipped, and
    blocked ones left out: their findings tell more.
    """
    results = report.to_frame().dropna(subset=["row"]).set_index("row")
    results = results.drop(index=list(sheet.blocked), errors="ignore")
    rows = sheet.frame.index.union(results.index)
    told = results[["outcome", "message", "assigned_id"]].reindex(rows)
    quiet = told["outcome"].isna()
    is_ignored = (sheet.frame["action"] == "ignore").reindex(rows, fill_value=False)
    told.loc[quiet, "outcome"] = "skipped"
    told.loc[quiet, "message"] = "the store agrees already"
    told.loc[quiet & is_ignored, "message"] = "ignored, as its action says"
    return told
