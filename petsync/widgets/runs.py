"""The form with the earlier runs on a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import ipywidgets

from petsync.apply.engine import find_unfinished
from petsync.plan.report import PastRun, count_remaining, find_undoing_runs
from petsync.report.document import Alert, Document
from petsync.report.html import blocks_html, document_html
from petsync.report.views.images import uploaded_view
from petsync.report.views.run import (
    describe_counts,
    describe_undo,
    run_line,
    runs_view,
    source_words,
    state_badge,
)
from petsync.report.words import count, format_timestamp
from petsync.store import Store
from petsync.widgets.components import Pages, Row, Table, button, show
from petsync.widgets.form import Form
from petsync.widgets.review_view import ReportView

__all__ = ["RunsForm"]


_COLUMNS: list[Row] = [
    {"key": "started", "title": "Started", "sorts": True},
    {"key": "what", "title": "What", "sorts": True},
    {"key": "result", "title": "Result"},
    {"key": "state", "title": "State", "kind": "mark", "sorts": True},
]
_STOPPED = "A run was stopped before its end"


class RunsForm(Form):
    """Lists the runs on a store that its journal has, the newest first. `runs` are the runs, and
    `unfinished` is the newest one that was stopped; the box `interrupted` offers to resume it.
    """

    title = "Earlier runs"

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.runs: list[PastRun] = []
        self.unfinished: PastRun | None = None
        self._undone: Mapping[str, PastRun] = {}
        self._on_open: list[Callable[[ReportView, bool], object]] = []

    def on_open(self, act: Callable[[ReportView, bool], object]) -> None:
        """Call the function with the report of each run that the user opens, and true if the run
        is to be resumed.
        """
        self._on_open.append(act)

    def reload(self) -> None:
        """Read the journal again; returns at once."""
        self.work.start(asyncio.to_thread(self._read), self._show)

    def open(self, run_id: str, *, resumes: bool = False) -> None:
        """Read the report of a run, and pass it on; show that of an upload. Returns at once."""
        run = next((each for each in self.runs if each.run_id == run_id), None)
        if run is None:
            return
        history = self.store.aio.history
        self.notice.clear()
        if run.kind == "upload":
            self.work.start(
                asyncio.to_thread(history.upload, run_id),
                lambda report: setattr(self.upload, "value", document_html(uploaded_view(report))),
            )
            return
        self.work.start(
            asyncio.to_thread(lambda: ReportView(history.report(run_id))),
            lambda report: self._pass_on(report, resumes),
        )

    def _iter_views(self) -> Iterator[Document]:
        yield runs_view(self._read())

    def _build_body(self) -> ipywidgets.Widget:
        guarded = self.work.wrap_callback
        self.message, self.resume = ipywidgets.HTML(), button("", primary=True)
        self.interrupted = ipywidgets.VBox([self.message, self.resume])
        show(self.interrupted, False)
        self.table = Table(
            columns=_COLUMNS, caption="Runs", empty="No run is recorded yet.", pick="Open"
        )
        self.upload = ipywidgets.HTML()
        self._pages: Pages[PastRun] = Pages(self.table, self._row, guarded, size=10)
        self.table.on_pick(guarded(self.open))
        self.work.on_clicks({self.resume: self._resume})
        self.reload()
        return ipywidgets.VBox([self.interrupted, self.table, self.upload])

    def _read(self) -> list[PastRun]:
        return self.store.aio.history.runs(self.store.url)

    def _show(self, runs: list[PastRun]) -> None:
        self.runs, self._undone = runs, find_undoing_runs(runs)
        self.unfinished = next(find_unfinished(runs), None)
        if run := self.unfinished:
            stopped = Alert(_STOPPED, [f"Run {run.run_id}: {run_line(run)}."])
            self.message.value = blocks_html(stopped)
            self.resume.description = f"Resume ({count(count_remaining(run), 'change')} left)"
        show(self.interrupted, self.unfinished is not None)
        self._pages.show(self.runs)

    def _row(self, run: PastRun) -> Row:
        badge = state_badge(run)
        undo = describe_undo(run, self._undone.get(run.run_id))
        cells: Row = {
            "started": format_timestamp(run.started),
            "what": source_words(run),
            "result": "; ".join(filter(None, (describe_counts(run), undo))),
            "state": {"symbol": badge.sign, "text": badge.title},
        }
        tone = "problem" if run.state == "stopped" else ""
        return {"key": run.run_id, "label": f"run {run.run_id}", "cells": cells, "tone": tone}

    def _resume(self) -> None:
        if self.unfinished is not None:
            self.open(self.unfinished.run_id, resumes=True)

    def _pass_on(self, report: ReportView, resumes: bool) -> None:
        for act in self._on_open:
            act(report, resumes)
