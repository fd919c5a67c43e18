"""The sheet loader: open a spreadsheet, see what is wrong with it and correct it, compare it."""

from __future__ import annotations

from pathlib import Path

from petsync.store import Store
from petsync.widgets.sheet.form import SheetForm

__all__ = ["SheetForm", "open_sheet"]


def open_sheet(store: Store, path: str | Path | None = None) -> SheetForm:
    """A form that opens a spreadsheet, the one at `path` if it is given, and leads to the review of
    its plan. `store.read(path, corrections=…)`, `store.plan(sheet, …)` and `ps.write_corrected` do
    the same.
    """
    return SheetForm(store, path)
