"""Choosing: a file dropped or picked in the browser, or one that is on the notebook's machine."""

from __future__ import annotations

from pathlib import Path

import ipywidgets

from petsync.widgets.parts.files import Files

__all__ = ["SUFFIXES", "Choosing"]

SUFFIXES = (".xlsx", ".xlsm", ".csv", ".tsv", ".txt")
_MOST = 1 << 30
_LISTED = 200
_NONE = "(choose one)"


class Choosing:
    """The ways to name a file, and `box`, which has them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = Files(
            label="Drop a spreadsheet here, or pick one",
            hint=(
                "Excel (.xlsx, .xlsm) or CSV. A CSV that petsync exported has a second file beside "
                "it: open such a one by its path."
            ),
            accept=",".join(SUFFIXES),
            most_bytes=_MOST,
            way_out="Copy it to the machine that petsync runs on, and open it by its path.",
        )
        self.listed = ipywidgets.Dropdown(description="In this folder")
        self.path = ipywidgets.Text(
            description="Or its path", placeholder="catalogue.xlsx", continuous_update=False
        )
        self.open = ipywidgets.Button(
            description="Open", button_style="primary", layout={"width": "max-content"}
        )
        self.list()
        self.box = ipywidgets.VBox([self.files, self.listed, self.path, self.open])

    def list(self) -> None:
        """Show the sheets that the folder has now, the newest first."""
        self.listed.options = [(_NONE, ""), *((name, name) for name in _sheets(self.folder))]
        self.listed.value = ""

    @property
    def named(self) -> Path | None:
        """The file that the path names, None where it is empty."""
        text = self.path.value.strip()
        return self.folder / Path(text).expanduser() if text else None


def _sheets(folder: Path) -> list[str]:
    try:
        found = [each for each in folder.iterdir() if _is_sheet(each)]
        newest = sorted(found, key=lambda each: -each.stat().st_mtime)
    except OSError:
        return []
    return [each.name for each in newest[:_LISTED]]


def _is_sheet(path: Path) -> bool:
    is_lock = path.name.startswith(("~$", "."))
    return path.suffix.casefold() in SUFFIXES and not is_lock and path.is_file()
