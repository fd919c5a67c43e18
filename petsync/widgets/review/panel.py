"""Panel: the review form's widgets, of which those are shown that can be used now."""

from __future__ import annotations

from collections.abc import Iterable

import ipywidgets

from petsync.diff.guard import Refusal
from petsync.render import markup
from petsync.widgets.parts.meter import Meter
from petsync.widgets.parts.table import Table
from petsync.widgets.review import said
from petsync.widgets.review.find import ANY
from petsync.widgets.review.rows import TITLES, clash_columns, held_columns, result_columns

__all__ = ["Panel", "show"]

_ACTIONS = [("Every change", ANY), ("Add", "add"), ("Change", "update"), ("Delete", "delete")]
_SENT = [("Sent or left out", ANY), ("Will be sent", "in"), ("Left out", "out")]
_HALF = {"width": "30rem"}
LIMITS = ("add", "update", "delete", "everything", "empty")


class Panel:
    """All that can be seen and pressed. Which parts are shown, the form decides."""

    def __init__(self) -> None:
        self.overview, self.finish = ipywidgets.HTML(), _button("")
        self._clashes()
        self._changes()
        self._guard()
        self._sending()
        self._results()
        self.box = ipywidgets.VBox(
            [
                self.overview,
                self.finish,
                self.both,
                self.look,
                self.held,
                self.limits,
                self.count,
                self.apply,
                self.ask,
                self.meter,
                self.stop,
                self.done,
            ]
        )

    def _clashes(self) -> None:
        self.clashes = Table(caption="Both sides changed these fields: whose value is it to be?")
        self.clashes.columns = clash_columns()
        self.to_sheet = _button("Send the sheet's everywhere")
        self.to_store = _button("Keep the store's everywhere")
        self.sides = ipywidgets.HBox([self.to_store, self.to_sheet])
        self.both = ipywidgets.VBox([self.clashes, self.sides])
        self.held = Table(caption="Nothing is sent for these")
        self.held.columns = held_columns()

    def _changes(self) -> None:
        fields = [("Any field", ANY), *((title, unit) for unit, title in TITLES.items())]
        self.action = ipywidgets.Dropdown(description="Action", options=_ACTIONS, layout=_HALF)
        self.field = ipywidgets.Dropdown(description="Field", options=fields, layout=_HALF)
        self.sent = ipywidgets.Dropdown(description="Ticks", options=_SENT, layout=_HALF)
        self.search = ipywidgets.Text(
            description="Find",
            placeholder="a name, an id, a value",
            continuous_update=False,
            layout=_HALF,
        )
        self.tick_all, self.untick_all = _button(""), _button("")
        self.ticks = ipywidgets.HBox([self.tick_all, self.untick_all])
        self.changes = Table(tickable=True, empty="No change is like that.")
        self.look = ipywidgets.VBox(
            [
                ipywidgets.HBox([self.action, self.field], layout={"flex_flow": "row wrap"}),
                ipywidgets.HBox([self.sent, self.search], layout={"flex_flow": "row wrap"}),
                self.ticks,
                self.changes,
            ]
        )

    def _guard(self) -> None:
        self.verdict = ipywidgets.HTML()
        # Without `indent` a tick box stands at the left, and its label has all the room it needs.
        self.overrides = {
            limit: ipywidgets.Checkbox(indent=False, layout={"width": "auto"}) for limit in LIMITS
        }
        self.limits = ipywidgets.VBox([self.verdict, *self.overrides.values()])

    def _sending(self) -> None:
        self.count = ipywidgets.HTML()
        self.apply = _button("Apply...", primary=True)
        self.question = ipywidgets.HTML()
        self.sure = ipywidgets.Checkbox(indent=False, layout={"width": "auto"})
        self.send, self.back = _button("", primary=True), _button("Back to the plan")
        self.write_ids = ipywidgets.Checkbox(indent=False, layout={"width": "auto"})
        self.ask = ipywidgets.VBox(
            [self.question, self.write_ids, self.sure, ipywidgets.HBox([self.send, self.back])]
        )
        self.meter = Meter(label="Sending changes")
        self.stop = _button("Stop")

    def _results(self) -> None:
        self.report, self.causes = ipywidgets.HTML(), ipywidgets.HTML()
        self.outcome = ipywidgets.Dropdown(description="Show", options=[("", -1)])
        self.results = Table(caption="What became of each row")
        self.results.columns = result_columns()
        self.resume, self.undo = _button("", primary=True), _button("Take it back...")
        self.gentle = ipywidgets.Checkbox(
            description="Go easy on the service (5 requests a second)",
            indent=False,
            layout={"width": "auto"},
        )
        row = ipywidgets.HBox([self.resume, self.undo])
        self.files = ipywidgets.HTML()
        self.done = ipywidgets.VBox(
            [
                self.report,
                self.files,
                self.causes,
                self.gentle,
                row,
                self.outcome,
                self.results,
            ]
        )

    def boxes(self, refusals: Iterable[tuple[Refusal, str, bool]]) -> None:
        """Show a tick box for each refusal that can be let pass, with its label and its tick."""
        wanted: dict[str, tuple[str, bool]] = {}
        wanted |= {each.limit: (label, on) for each, label, on in refusals if each.override}
        for limit, box in self.overrides.items():
            label, on = wanted.get(limit, ("", False))
            box.description, box.value = label, on
            show(box, limit in wanted)

    def say(self, text: str) -> None:
        """How much is sent."""
        self.count.value = said.piece(markup.summary(text))


def _button(words: str, *, primary: bool = False) -> ipywidgets.Button:
    style = "primary" if primary else ""
    return ipywidgets.Button(description=words, button_style=style, layout={"width": "max-content"})


def show(widget: ipywidgets.DOMWidget, wanted: bool) -> None:
    """Show the widget, or have it take no room."""
    display = None if wanted else "none"
    if widget.layout.display != display:
        widget.layout.display = display
