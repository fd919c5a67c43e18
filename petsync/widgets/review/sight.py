"""Sight: what of a plan, and of a report, a person sees at the moment, and what is ticked there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from petsync.diff.change import Blocked, Clash, Conflict
from petsync.diff.report import Result
from petsync.diff.units import COLUMNS_OF, UNITS, Unit
from petsync.render import words
from petsync.widgets.review import rows, said
from petsync.widgets.review.draft import Draft
from petsync.widgets.review.ended import Ended
from petsync.widgets.review.find import ANY, Finder
from petsync.widgets.review.pages import Pages
from petsync.widgets.review.panel import Panel

__all__ = ["Sight"]

_FEW = 10
"""So many rows has a page of what stands above or below the changes."""
Guarded = Callable[[Callable[..., object]], Callable[..., None]]


class Sight:
    """Fills the panel's tables from a draft or a report, and takes what a person does in them into
    the draft; `changed` is called then.
    """

    def __init__(self, panel: Panel, guarded: Guarded, changed: Callable[[], object]) -> None:
        self._panel, self._tell = panel, changed
        self._filling = False
        self._changes = Pages(
            panel.changes, self._change, guarded, ticked=self._is_ticked, on_tick=self._tick
        )
        self._clashes = Pages(panel.clashes, self._clash, guarded, size=_FEW)
        self._held = Pages(panel.held, self._held_row, guarded, size=_FEW)
        self._results = Pages(panel.results, self._result, guarded)
        for control in (panel.action, panel.field, panel.sent, panel.search):
            control.observe(guarded(lambda _: self._filter()), "value")
        panel.tick_all.on_click(guarded(lambda _: self._tick_all(True)))
        panel.untick_all.on_click(guarded(lambda _: self._tick_all(False)))
        panel.clashes.observe(guarded(lambda _: self._choose()), "chosen")
        panel.to_sheet.on_click(guarded(lambda _: self._choose_all("sheet")))
        panel.to_store.on_click(guarded(lambda _: self._choose_all("store")))
        panel.outcome.observe(guarded(lambda _: self._view()), "value")
        for limit, box in panel.overrides.items():
            box.observe(guarded(lambda _, limit=limit: self._override(limit)), "value")

    def open(self, draft: Draft) -> None:
        """Show this draft, unfiltered."""
        self._draft, self._finder = draft, Finder(draft)
        plan = draft.plan
        self._pairs: list[tuple[Conflict, Clash]] = [
            (conflict, clash) for conflict in plan.conflicts for clash in conflict.clashes
        ]
        self._stuck: list[Conflict | Blocked] = [
            *(c for c in plan.conflicts if not c.clashes),
            *plan.blocked,
        ]
        self._units = _units(draft)
        panel = self._panel
        panel.changes.columns = rows.change_columns(self._units)
        self._filling = True
        for control in (panel.action, panel.field, panel.sent):
            control.value = ANY
        panel.search.value = ""
        self._filling = False
        self._clashes.show(range(len(self._pairs)))
        self._held.show(range(len(self._stuck)))
        self._filter()
        self._judge()

    def open_report(self, ended: Ended) -> None:
        """Show a run's results, those first that need a person."""
        self._ended = ended
        self._filling = True
        self._panel.outcome.options = ended.views
        self._panel.outcome.value = ended.first
        self._filling = False
        self._view()

    # Changes ------------------------------------------------------------------------------------

    def _change(self, number: int) -> rows.Row:
        return rows.change_row(number, self._draft.plan.changes[number], self._units)

    def _is_ticked(self, number: int) -> bool:
        return bool(self._draft.ticked[number])

    def _tick(self, numbers: list[int], on: bool) -> None:
        self._draft.tick(numbers, on)
        self._moved()

    def _filter(self) -> None:
        if self._filling:
            return
        panel = self._panel
        self._shown = self._finder.numbers(
            action=panel.action.value,
            field=panel.field.value,
            sent=panel.sent.value,
            text=panel.search.value,
        )
        total, shown = len(self._draft.ticked), len(self._shown)
        of = f"{words.number(shown)} of {words.count(total, 'change')}"
        is_all = shown == total
        panel.changes.caption = f"All {words.count(total, 'change')}" if is_all else of
        panel.changes.empty = "No change is like that." if total else "There is no change."
        self._name_buttons(shown)
        self._changes.show(self._shown)

    def _name_buttons(self, shown: int) -> None:
        these = f"all {words.number(shown)}" if shown != 1 else "the one"
        for button, verb in ((self._panel.tick_all, "Tick"), (self._panel.untick_all, "Untick")):
            button.description = f"{verb} {these} shown"
            button.disabled = not shown

    def _tick_all(self, on: bool) -> None:
        self._draft.tick(self._shown, on)
        self._changes.show(self._shown, keep=True)
        self._moved()

    # Conflicts ----------------------------------------------------------------------------------

    def _clash(self, number: int) -> rows.Row:
        conflict, clash = self._pairs[number]
        winner = self._draft.winner(conflict, clash)
        return rows.clash_row(str(number), conflict, clash, winner)

    def _held_row(self, number: int) -> rows.Row:
        stuck = self._stuck[number]
        if isinstance(stuck, Conflict):
            return rows.held_row(str(number), stuck)
        return rows.blocked_row(str(number), stuck)

    def _choose(self) -> None:
        chosen: dict[str, Any] = self._panel.clashes.chosen
        moved = False
        for key, cells in chosen.items():
            number, side = _number(key, len(self._pairs)), cells.get("winner")
            if number is None or side not in ("store", "sheet"):
                continue
            conflict, clash = self._pairs[number]
            if self._draft.winner(conflict, clash) != side:
                self._draft.choose(conflict, clash, side)
                moved = True
        if moved:
            self._moved()

    def _choose_all(self, side: Any) -> None:
        for conflict, clash in self._pairs:
            self._draft.choose(conflict, clash, side)
        self._clashes.show(range(len(self._pairs)), keep=True)
        self._moved()

    # The guard ----------------------------------------------------------------------------------

    def _moved(self) -> None:
        self._judge()
        self._tell()

    def _judge(self) -> None:
        draft, tally = self._draft, self._draft.tally()
        self._filling = True
        self._panel.boxes(
            (each, said.box_label(each, tally), draft.allows(each)) for each in draft.refusals()
        )
        self._filling = False

    def _override(self, limit: str) -> None:
        if self._filling:
            return
        for refusal in self._draft.refusals():
            if refusal.limit == limit:
                self._draft.allow(refusal, self._panel.overrides[limit].value)
        self._tell()

    # The report ---------------------------------------------------------------------------------

    def _view(self) -> None:
        if not self._filling:
            self._seen = self._ended.results(self._panel.outcome.value)
            self._results.show(range(len(self._seen)))

    def _result(self, number: int) -> rows.Row:
        result: Result = self._seen[number]
        return self._ended.row(result)


def _units(draft: Draft) -> list[Unit]:
    """What has a column: what any change changes."""
    fields = {field for change in draft.plan.changes for field in change.fields}
    if any(change.kind == "delete" for change in draft.plan.changes):
        fields |= {"status", "category"}
    return [unit for unit in UNITS if fields.intersection(COLUMNS_OF[unit])]


def _number(key: str, end: int) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and int(key) < end else None
