"""Part: what the widgets of petsync's own have in common."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import anywidget

__all__ = ["Part", "asset"]


def asset(name: str) -> str:
    """A file of the `assets` folder, as text."""
    return files("petsync.widgets").joinpath("assets", name).read_text("utf-8")


class Part(anywidget.AnyWidget):
    """A widget with JavaScript and a style sheet of its own. Its text is shown as text, always."""

    def __init_subclass__(cls, *, script: str = "", **given: Any) -> None:
        # traitlets makes another class of it for each widget, which names no script.
        if script:
            cls._esm, cls._css = asset("common.js") + asset(script), asset("parts.css")
        super().__init_subclass__(**given)
