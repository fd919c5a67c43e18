"""Findings: what is wrong with a sheet, cell by cell, with a choice for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from petsync.errors import SheetError
from petsync.render.visible import shorten, visible
from petsync.table.sheet import Finding
from petsync.widgets.parts.table import Table
from petsync.widgets.sheet.look import Look

__all__ = ["PAGE", "Findings"]

PAGE = 20
_VALUE = 60
_COLUMNS = [
    {"key": "where", "title": "Where"},
    {"key": "severity", "title": "How bad", "kind": "mark"},
    {"key": "value", "title": "It says"},
    {"key": "problem", "title": "What is wrong"},
    {"key": "choice", "title": "Correction", "kind": "choice"},
]
_WHICH = (
    ("all", "all"),
    ("errors: their rows are left out", "error"),
    ("warnings: their rows are used", "warning"),
    ("those with a suggestion", "suggested"),
    ("those that I chose a correction for", "chosen"),
)
_MARKS = {
    "error": {"symbol": "x", "text": "error"},
    "warning": {"symbol": "!", "text": "warning"},
}
KEEP, SUGGESTED, OWN, CHOSEN = "keep", "suggested", "own", "chosen"

Guarded = Callable[[Callable[..., object]], Callable[..., None]]


class Findings:
    """The findings, page by page; `chosen` are the corrections that a person chose and that the
    sheet was not read with yet, by address. `box` has all of it.
    """

    def __init__(self, guarded: Guarded, on_choice: Callable[[], object]) -> None:
        self.chosen: dict[str, str] = {}
        self._look: Look | None = None
        self._rows: list[int] = []
        self._asked = self._offered = ""
        self._on_choice = on_choice
        self.which = ipywidgets.Dropdown(options=_WHICH, value="all", description="Show")
        self.table = Table(caption="Findings", columns=_COLUMNS, empty="No findings.")
        self.own = ipywidgets.Text(description="Text", continuous_update=False)
        self.use = ipywidgets.Button(description="Take this text")
        self.leave = ipywidgets.Button(description="Leave it")
        self._own = ipywidgets.VBox([self.own, ipywidgets.HBox([self.use, self.leave])])
        self._own.layout.display = "none"
        self.which.observe(guarded(lambda _: self._filter()), "value")
        self.table.observe(guarded(lambda _: self._draw()), "page")
        self.table.observe(guarded(lambda change: self._heard(change["new"])), "chosen")
        self.use.on_click(guarded(lambda _: self.take()))
        self.leave.on_click(guarded(lambda _: self._leave()))
        self.box = ipywidgets.VBox([self.which, self.table, self._own])

    def show(self, look: Look) -> None:
        """Show these findings; what was chosen before is in them already."""
        self._look, self.chosen = look, {}
        self._ask("")
        self._filter()

    def take(self) -> None:
        """Choose the text that a person wrote for the cell that was asked about."""
        address, text = self._asked, self.own.value
        if address:
            self._leave()
            self.set(address, text)

    def taken(self) -> dict[str, str]:
        """What was chosen, with what was typed and not taken yet: nothing typed is passed over."""
        if self._is_typed:
            address, text = self._asked, self.own.value
            self._ask("")
            self.set(address, text)
        return dict(self.chosen)

    def require_none_open(self) -> None:
        """Raise SheetError where something is typed or chosen that the sheet was not read with."""
        if self._is_typed:
            raise SheetError(
                f"a text for {self._asked} is typed, and not taken yet",
                hint="Press “Take this text” and then “Check again”, or press “Leave it”.",
            )
        if self.chosen:
            raise SheetError(
                "some corrections are chosen, and the sheet was not read with them yet",
                hint="Press “Check again” first, or choose to leave these cells as they are.",
            )

    @property
    def _is_typed(self) -> bool:
        return bool(self._asked) and self.own.value != self._offered

    def set(self, address: str, text: str) -> None:
        """Choose a text for a cell."""
        self.chosen[address] = text
        self._draw()
        self._on_choice()

    def _filter(self) -> None:
        self._rows = [n for n, each in enumerate(self._problems) if self._is_wanted(each)]
        self.table.page = 0
        self._draw()

    @property
    def _problems(self) -> tuple[Finding, ...]:
        return self._look.sheet.problems if self._look else ()

    def _is_wanted(self, finding: Finding) -> bool:
        which = self.which.value
        if which in ("error", "warning"):
            return bool(finding.severity == which)
        if which == "suggested":
            return self._look is not None and finding.address in self._look.suggestions
        return which == "all" or finding.address in self.chosen

    def _draw(self) -> None:
        first = self.table.page * PAGE
        shown = self._rows[first : first + PAGE]
        with self.table.hold_sync():
            self.table.chosen = {}
            self.table.total = len(self._rows)
            self.table.pages = max(1, -(-len(self._rows) // PAGE))
            self.table.rows = [self._row(n) for n in shown]

    def _row(self, number: int) -> dict[str, Any]:
        finding = self._problems[number]
        cells: dict[str, Any] = {
            "where": finding.address,
            "severity": _MARKS[finding.severity],
            "value": shorten(visible(finding.value), _VALUE),
            "problem": f"{finding.problem} {finding.suggestion}".strip(),
            "choice": self._choice(finding),
        }
        tone = "problem" if finding.severity == "error" else "conflict"
        return {"key": str(number), "label": finding.address, "cells": cells, "tone": tone}

    def _choice(self, finding: Finding) -> Any:
        look, at = self._look, finding.address
        if look is None or at not in look.mendable:
            return "To be mended in the file"
        options = [[KEEP, "Leave it as it is"]]
        suggestion = look.suggestions.get(at)
        if suggestion is not None:
            how = "sure" if suggestion.is_sure else "a guess"
            options.append([SUGGESTED, f"{_named(suggestion.after)} ({how})"])
        value = KEEP
        if at in self.chosen:
            value = SUGGESTED
            if suggestion is None or self.chosen[at] != suggestion.after:
                options.append([CHOSEN, _named(self.chosen[at])])
                value = CHOSEN
        options.append([OWN, "Another text …"])
        return {"options": options, "value": value, "label": f"Correction of {at}"}

    def _heard(self, chosen: dict[str, Any]) -> None:
        """Do what the person chose in the table."""
        if not chosen or self._look is None:
            return
        for key, said in chosen.items():
            if key.isdecimal() and int(key) < len(self._problems):
                self._choose(self._problems[int(key)].address, said.get("choice"))
        self._draw()
        self._on_choice()

    def _choose(self, address: str, how: object) -> None:
        look = self._look
        if look is None or address not in look.mendable:
            return
        if how == OWN:
            self.taken()
            self._ask(address)
            return
        if address == self._asked:
            self._ask("")
        if how == KEEP:
            self.chosen.pop(address, None)
        elif how == SUGGESTED and address in look.suggestions:
            self.chosen[address] = look.suggestions[address].after

    def _ask(self, address: str) -> None:
        """Ask for a person's own text for the cell; with "" for none."""
        self._asked = address
        self._own.layout.display = None if address else "none"
        if address:
            value = next((p.value for p in self._problems if p.address == address), "")
            self.own.description = f"Text for {address}"
            self._offered = self.own.value = self.chosen.get(address, value)
            self.own.focus()

    def _leave(self) -> None:
        """Ask no more; the keyboard goes back to the cell's row."""
        rows = (row["key"] for row in self.table.rows if row["label"] == self._asked)
        self.table.focus(next(rows, ""), "choice")
        self._ask("")


def _named(text: str) -> str:
    return f"“{shorten(visible(text), _VALUE)}”" if text else "a blank cell"
