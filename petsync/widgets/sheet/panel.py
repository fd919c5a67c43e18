"""Panel: the sheet form's widgets, of which those are shown that can be used now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import ipywidgets

from petsync.render.markup import element, facts, fragment, summary, text
from petsync.render.sheet_words import sheet_facts, sheet_summary
from petsync.table.sheet import Sheet
from petsync.widgets.parts.meter import Meter
from petsync.widgets.sheet.choosing import Choosing
from petsync.widgets.sheet.columns import Columns
from petsync.widgets.sheet.findings import Findings, Guarded
from petsync.widgets.sheet.look import Look, Shown
from petsync.widgets.sheet.made import Made
from petsync.widgets.sheet.options import Options
from petsync.widgets.sheet.saving import Saving

__all__ = ["Panel"]


class Panel:
    """Choosing a file; what it says, with its columns, findings and corrections; saving copies; and
    comparing it. `box` has all of it, `review` is where the plan's review goes.
    """

    def __init__(
        self,
        folder: Path,
        guarded: Guarded,
        on_choice: Callable[[], object],
        on_back: Callable[[str], object],
    ) -> None:
        self.choosing = Choosing(folder)
        self.columns = Columns()
        self.findings = Findings(guarded, on_choice)
        self.made = Made(guarded, on_back)
        self.saving = Saving(folder)
        self.options = Options()
        self.sure = _button("")
        self.again = _button("Check again")
        self.compare = _button("Compare with the store", primary=True)
        self.stop = _button("Stop")
        self.meter = Meter(label="Under way")
        self.review = ipywidgets.VBox()
        self._said = ipywidgets.HTML()
        self._rest = self._put_together()
        self.box = ipywidgets.VBox(
            [
                self.choosing.box,
                self._said,
                self.columns.box,
                self._rest,
                self.meter,
                self.stop,
                self.review,
            ]
        )
        self.forget()
        self.busy(False)

    def _put_together(self) -> ipywidgets.VBox:
        buttons = ipywidgets.HBox([self.sure, self.again])
        return ipywidgets.VBox(
            [
                self.findings.box,
                buttons,
                self.made.box,
                _heading("Copies of the sheet"),
                self.saving.box,
                _heading("How to compare it"),
                self.options.box,
                self.compare,
            ]
        )

    def show(self, look: Look, named: Sheet, mapping: Mapping[str, str], path: Path) -> None:
        """Show a sheet that was read; `named` is the same under the name that people know."""
        sheet = look.sheet
        self._said.value = fragment([summary(sheet_summary(sheet)), facts(sheet_facts(named))])
        self.columns.show(Shown.of_sheet(sheet), mapping)
        self.findings.show(look)
        self.made.show(sheet.corrections)
        self.saving.show(sheet, path)
        self.options.show(sheet)
        self.count(look)
        self._rest.layout.display = None

    def count(self, look: Look) -> None:
        """Say how many corrections are sure, and how many are chosen."""
        sure, chosen = len(look.sure), len(self.findings.chosen)
        self.sure.disabled = not sure
        self.sure.description = (
            f"Make the {sure:,} sure {'correction' if sure == 1 else 'corrections'}"
            if sure
            else "No sure corrections"
        )
        self.again.description = (
            f"Check again, with {chosen:,} {'correction' if chosen == 1 else 'corrections'}"
            if chosen
            else "Check again"
        )

    def forget(self) -> None:
        """Show nothing of a sheet."""
        self._said.value = ""
        self._rest.layout.display = "none"
        self.columns.show(Shown("", (), (), {}), {})

    def busy(self, is_busy: bool) -> None:
        """Show whether something is under way."""
        self.stop.layout.display = None if is_busy else "none"
        self.meter.shown = is_busy
        self.meter.text, self.meter.done, self.meter.total = "Reading", 0, 0

    def progress(self, said: str, done: int = 0, total: int = 0) -> None:
        """Say how far it is."""
        with self.meter.hold_sync():
            self.meter.text, self.meter.done, self.meter.total = said, done, total


def _heading(words: str) -> ipywidgets.HTML:
    return ipywidgets.HTML(element("h4", text(words)))


def _button(words: str, *, primary: bool = False) -> ipywidgets.Button:
    style = "primary" if primary else ""
    return ipywidgets.Button(description=words, button_style=style, layout={"width": "max-content"})
