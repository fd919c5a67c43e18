"""Made: the corrections that a sheet is read with, each of which can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from petsync.table.correction import Correction
from petsync.widgets.parts.table import Table
from petsync.widgets.sheet.findings import PAGE, Guarded

__all__ = ["Made"]

_COLUMNS = [
    {"key": "where", "title": "Where"},
    {"key": "change", "title": "In the file, and as it is read", "kind": "change"},
]


class Made:
    """A table of corrections; `on_back` is told the address of one that is taken back."""

    def __init__(self, guarded: Guarded, on_back: Callable[[str], object]) -> None:
        self._made: tuple[Correction, ...] = ()
        self._on_back = on_back
        self.table = Table(
            caption="Corrected: read so, while the file stays as it is",
            columns=_COLUMNS,
            pick="Take back",
        )
        self.table.observe(guarded(lambda _: self._draw()), "page")
        self.table.on_pick(guarded(self._back))
        self.box = ipywidgets.VBox([self.table])
        self.show(())

    def show(self, made: tuple[Correction, ...]) -> None:
        """Show these corrections."""
        self._made = made
        self.table.page = 0
        self.box.layout.display = None if made else "none"
        self._draw()

    def _draw(self) -> None:
        first = self.table.page * PAGE
        with self.table.hold_sync():
            self.table.total = len(self._made)
            self.table.pages = max(1, -(-len(self._made) // PAGE))
            self.table.rows = [_row(each) for each in self._made[first : first + PAGE]]

    def _back(self, address: str) -> None:
        if any(each.address == address for each in self._made):
            self._on_back(address)


def _row(made: Correction) -> dict[str, Any]:
    change = {"before": made.before, "after": made.after}
    return {
        "key": made.address,
        "label": made.address,
        "cells": {"where": made.address, "change": change},
    }
