"""Saving: a corrected copy of the file, and one in which the findings are marked."""

from __future__ import annotations

from os.path import lexists
from pathlib import Path

import ipywidgets

from petsync.errors import SheetError
from petsync.sheets import annotate_sheet, write_corrected
from petsync.table.sheet import Sheet

__all__ = ["Saving", "save_corrected", "save_marked"]


class Saving:
    """Where the copies go, and `box`, which has the fields and the buttons."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corrected_as = ipywidgets.Text(description="Corrected copy")
        self.corrected = ipywidgets.Button(description="Save it")
        self.marked_as = ipywidgets.Text(description="Copy with the findings marked")
        self.marked = ipywidgets.Button(description="Save it marked")
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HBox([self.corrected_as, self.corrected]),
                ipywidgets.HBox([self.marked_as, self.marked]),
            ]
        )

    def show(self, sheet: Sheet, beside: Path) -> None:
        """Offer what there is to save of the sheet, under names beside its file."""
        self.corrected.disabled = not sheet.corrections
        self.marked.disabled = not sheet.problems
        if not self.corrected_as.value:
            self.offer(beside)

    def offer(self, beside: Path) -> None:
        """Offer names like the file's."""
        # A name in this folder is read more easily than the whole way to it.
        if beside.is_relative_to(self.folder):
            beside = beside.relative_to(self.folder)
        suffix = beside.suffix if beside.suffix.casefold() in (".xlsx", ".xlsm") else ".xlsx"
        self.corrected_as.value = str(beside.with_name(f"{beside.stem}.corrected{beside.suffix}"))
        self.marked_as.value = str(beside.with_name(f"{beside.stem}.marked{suffix}"))

    def path(self, field: ipywidgets.Text) -> Path:
        """The file that a field names. Raises SheetError where it is empty."""
        text = field.value.strip()
        if not text:
            raise SheetError("the copy has no name", hint="Write one into the field.")
        return self.folder / Path(text).expanduser()


def save_corrected(sheet: Sheet, path: Path) -> tuple[str, str]:
    """Save the corrected copy; what is to be said of that. Raises SheetError."""
    backup = write_corrected(sheet, path)
    kept = f"The file of that name is kept as {backup.name}." if backup else ""
    return f"The corrected copy is saved: {path}", kept


def save_marked(sheet: Sheet, path: Path) -> tuple[str, str]:
    """Save the marked copy; what is to be said of that. Raises SheetError."""
    if lexists(path):
        raise SheetError(f"{path}: there is a file of that name", hint="Give the copy another one.")
    done = annotate_sheet(sheet, path)
    return f"The copy with {done.cells:,} marked cells is saved: {path}", " ".join(done.lost)
