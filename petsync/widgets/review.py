"""The review form: review a plan, decide, apply, stop, resume, and undo."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets

from petsync._sync import Task
from petsync.client.session import Session
from petsync.errors import InterruptedRunError, PetsyncError, StalePlanError
from petsync.plan import arguments
from petsync.plan.plan import Plan
from petsync.plan.report import PastRun, Progress, Report
from petsync.report import words
from petsync.report.document import Document, Summary
from petsync.report.meter import Meter as Reading
from petsync.report.views.plan import plan_view
from petsync.report.views.run import report_view
from petsync.sheets.results import as_sheet
from petsync.store import Store, checked_store
from petsync.store.runs import IntoSheet, OutputRequest, RunHistory
from petsync.table.sheet import Finding, Sheet
from petsync.widgets import review_view
from petsync.widgets.components import Meter, show
from petsync.widgets.form import Form
from petsync.widgets.review_view import Draft, LeftFiles, Panel, ReportView, ReviewTable

__all__ = ["ActiveRun", "ReviewForm", "await_run_end", "review", "watch_run"]


# ActiveRun: an active run, which the user can stop at any time.


class ActiveRun:
    """A run that the user can stop; `task` executes it, and is None before the start."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, Report | None]]) -> None:
        self.task: Task[ReportView | None] | None = None
        self._run = run
        self._lock = threading.Lock()
        self._is_started = self._is_stopped = False

    def stop(self) -> None:
        """Stop the run between two changes. Returns at once."""
        with self._lock:
            self._is_stopped = True
            # A task that is cancelled before its first step ends without a report.
            if self._is_started and self.task is not None:
                self.task.cancel()

    async def execute(self) -> ReportView | None:
        """Execute the run, and return its report, even if the run is stopped; None if it is stopped
        before it begins.
        """
        with self._lock:
            self._is_started = True
            if self._is_stopped:
                return None
        try:
            report = await self._run()
        except InterruptedRunError as error:
            if not isinstance(error.report, Report):
                raise
            report = error.report
        return None if report is None else await asyncio.to_thread(ReportView, report)


# The run of a plan that was already applied, by this form or another program.


_POLL_INTERVAL_S = 0.5


async def await_run_end(
    history: RunHistory, plans: Sequence[Plan], at_work: Callable[[PastRun], object]
) -> ReportView | None:
    """Wait for the end of the run that uses one of the plans, and return its report; None if there
    is no such run. While the run is active, `at_work` is called with it repeatedly.
    """
    while (run := await asyncio.to_thread(_find_run, history, plans)) is not None:
        if run.state != "running":
            return await asyncio.to_thread(_report, history, run.run_id)
        at_work(run)
        await asyncio.sleep(_POLL_INTERVAL_S)
    return None


def _find_run(history: RunHistory, plans: Sequence[Plan]) -> PastRun | None:
    journal = history.journal
    runs = (journal.find_run_of_plan(plan.fingerprint) for plan in plans)
    run = next((each for each in runs if each is not None), None)
    return None if run is None else journal.find(run)


def _report(history: RunHistory, run_id: str) -> ReportView:
    return ReportView(history.report(run_id))


# Watching a run: a meter shows its progress.


_DRAW_INTERVAL_S = 0.2
Run = Callable[[Callable[[Progress], None]], Coroutine[object, object, Report]]


async def watch_run(run: Run, meter: Meter, session: Session) -> Report | None:
    """Execute the run, show its progress, and return its report; None if it is cancelled before the
    start.
    """
    state = _State(meter, session)
    drawing = asyncio.ensure_future(state.draw())
    try:
        return await run(state.tell)
    except asyncio.CancelledError:
        return None
    finally:
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        state.show()


class _State:
    def __init__(self, meter: Meter, session: Session) -> None:
        self._meter, self._session = meter, session
        self._newest: Progress | None = None
        self._first: tuple[float, int] | None = None

    def tell(self, progress: Progress) -> None:
        """Only store the progress, so that the run is not delayed."""
        if self._first is None:
            self._first = time.monotonic(), progress.done
        self._newest = progress

    async def draw(self) -> None:
        """Update the progress regularly, so that a wait for the service is visible."""
        while True:
            self.show()
            await asyncio.sleep(_DRAW_INTERVAL_S)

    def show(self) -> None:
        newest, first = self._newest, self._first
        if newest is None or first is None:
            return
        began, before = first
        spent = time.monotonic() - began
        reading = Reading(
            text="",
            unit="changes",
            done=newest.done,
            total=newest.total,
            rate=(newest.done - before) / spent if spent > 1 else 0.0,
            problems=newest.problems,
            retries=newest.traffic.retries,
            waiting=self._session.traffic().waiting,
        )
        with self._meter.hold_sync():
            self._meter.done, self._meter.total = float(newest.done), float(newest.total)
            self._meter.text = reading.line()


# ReviewForm: review, change, apply and undo a plan.


_GENTLE_RATE = 5.0
"""The maximum number of requests per second if the user chooses to send slowly."""


class ReviewForm(Form):
    """Shows a plan; the user leaves out changes, resolves conflicts and overrides the guard. The
    form applies exactly the plan that the user confirmed. `plan` is the plan under review, `report`
    the report of the last run, None before the first. With `past`, the form begins with the report
    of an earlier run of the plan.
    """

    title = "Review the plan"
    terms = (*Form.terms, *review_view.TERMS)

    def __init__(
        self,
        plan: Plan,
        store: Store,
        *,
        sheet: Sheet | None = None,
        findings: Iterable[Finding] = (),
        past: ReportView | None = None,
    ) -> None:
        super().__init__()
        self.heading.text = review_view.title_of(plan, past)
        self._past = past
        self.store = store
        self.plan = plan
        self._left_files = LeftFiles(store, sheet)
        self._warnings = review_view.warnings_of(findings)
        self.report: Report | None = None
        self.ready: Plan | None = None
        self._draft = Draft(plan)
        self._panel: Panel | None = None
        self._table: ReviewTable | None = None
        self._going: ActiveRun | None = None
        self._unfinished: PastRun | None = None
        self._turn, self._phase_name = 0, "plan"
        self._report_callbacks: list[Callable[[Report], object]] = []

    @property
    def draft(self) -> Draft:
        """The plan with the user's choices so far."""
        return self._draft

    @property
    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._going is not None

    def on_report(self, act: Callable[[Report], object]) -> None:
        """Call the function with each report, including that of a stopped run."""
        self._report_callbacks.append(act)

    def _iter_views(self) -> Iterator[Document]:
        """Yield the plan as it would be sent now, or its report."""
        if self.report is not None:
            yield report_view(self.report)
        else:
            yield plan_view(self._draft.build_plan())
            yield Document("", [Summary(self._describe_tally())])

    def review(self, plan: Plan) -> None:
        """Review another plan."""
        self.plan, self.report, self.ready = plan, None, None
        self._warnings = {}
        self._draft = Draft(plan)
        self._turn += 1
        self.heading.text = review_view.title_of(plan)
        if self._panel is not None:
            self._open(self._panel)

    def close(self) -> None:
        """Stop the work, and remove the widgets. A run that is stopped can be resumed."""
        super().close()
        self._panel = self._table = None

    def _describe_tally(self) -> str:
        return review_view.describe_tally(self._draft.tally(), is_ok=self._draft.is_ok)

    def _build_body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel()
        self.changes, self.clashes, self.held = panel.changes, panel.clashes, panel.held
        self.action, self.field = panel.action, panel.field
        self.sent, self.tick_all, self.untick_all = panel.sent, panel.tick_all, panel.untick_all
        self.to_sheet, self.to_store = panel.to_sheet, panel.to_store
        self.overrides = panel.overrides
        self.apply, self.send, self.back, self.sure = (
            panel.apply,
            panel.send,
            panel.back,
            panel.sure,
        )
        self.stop, self.meter = panel.stop, panel.meter
        self.resume, self.gentle, self.undo = panel.resume, panel.gentle, panel.undo
        self.outcome, self.results = panel.outcome, panel.results
        self.write_ids, self.files, self.facts = panel.write_ids, panel.files, panel.facts
        self.overview, self.count, self.verdict = panel.overview, panel.count, panel.verdict
        self.finish = panel.finish
        self.question, self.question_box = panel.question, panel.ask
        self.clashes_box, self.changed, self.problems = panel.both, panel.changed, panel.problems
        self._table = ReviewTable(panel, self.work.wrap_callback, self._refresh_tally)
        self._connect_controls(panel)
        if self._past is None:
            self._open(panel)
        else:
            self._open_past(panel, self._past)
        return panel.box

    def _connect_controls(self, panel: Panel) -> None:
        presses = {
            panel.apply: self._prepare,
            panel.back: self._leave_question,
            panel.send: self._send,
            panel.stop: self._stop,
            panel.resume: self._resume,
            panel.finish: self._finish,
            panel.undo: self._undo,
        }
        self.work.on_clicks({button: partial(act, panel) for button, act in presses.items()})
        panel.sure.observe(self.work.wrap_callback(lambda _: self._may_send(panel)), "value")

    # Review ------------------------------------------------------------------------------------

    def _open(self, panel: Panel) -> None:
        """Show the plan, and check whether it can be applied."""
        self._unfinished = None
        panel.overview.value = review_view.overview(self.plan)
        if self._table is not None:
            self._table.open(self._draft, self._warnings)
        self._show_phase(panel, "plan")
        self._refresh_tally()
        plan = self.plan
        self.work.start(
            asyncio.to_thread(self.store.check, plan),
            lambda _: None,
            lambda error: self._refuse_plan(plan, error),
        )
        if plan.source_digest:
            search = asyncio.to_thread(self.store.aio.find_unfinished, plan.source)
            self.work.start(search, lambda past: self._offer(panel, plan, past), lambda _: None)

    def _open_past(self, panel: Panel, past: ReportView) -> None:
        """Show the report of an earlier run, and offer its results."""
        self._show_report(panel, past)
        files, report = self._left_files, past.report

        def show_files(_: None) -> None:
            if self.report is report:
                panel.files.value = files.html

        self.work.start(asyncio.to_thread(files.offer, report), show_files)

    def _offer(self, panel: Panel, plan: Plan, run: PastRun | None) -> None:
        """Offer to finish the stopped run of the same sheet."""
        if run is None or plan is not self.plan or self._phase_name != "plan":
            return
        self._unfinished = run
        panel.finish.description = review_view.finish_label(run)
        panel.overview.value = review_view.overview(plan, run)
        show(panel.finish, True)

    def _refuse_plan(self, plan: Plan, error: PetsyncError) -> None:
        if plan is not self.plan or self._panel is None:
            return
        self._show_phase(self._panel, "over")
        self.fail(error)
        if isinstance(error, StalePlanError):
            self.work.start(self._find_unfinished(), self._show_past)

    async def _find_unfinished(self) -> ReportView | None:
        """Wait for the end of the run that uses this plan or the plan built from the draft, and
        return its report; None if there is no such run.
        """
        made = await asyncio.to_thread(self._draft.build_plan)
        return await await_run_end(self.store.aio.history, (made, self.plan), self._show_wait)

    def _show_wait(self, run: PastRun) -> None:
        """Show that the form waits for another run of the plan, unless this is already shown."""
        if self.notice.hint != review_view.WAIT:
            self.notice.warn(review_view.describe_other_run(run), review_view.WAIT)

    def _show_past(self, ended: ReportView | None) -> None:
        if ended is not None and self._panel is not None:
            self._show_report(self._panel, ended)
            if self.notice.hint == review_view.WAIT:
                self.notice.say("The run has ended. This is its report.")

    def _refresh_tally(self) -> None:
        """Update the counts of the draft; an earlier confirmation no longer applies."""
        panel, draft = self._panel, self._draft
        if panel is None or self._phase_name != "plan":
            return
        self.ready = None
        self._turn += 1
        tally = draft.tally()
        panel.say(self._describe_tally())
        panel.verdict.value = review_view.guard(draft)
        panel.apply.disabled = not (draft.is_ok and tally.sent)

    # Apply --------------------------------------------------------------------------------------

    def _prepare(self, panel: Panel) -> None:
        panel.apply.disabled = True
        turn = self._turn
        made = asyncio.to_thread(self._build_plan)
        self.work.start(made, lambda plan: self._ask(panel, turn, plan), self._show_error)

    def _build_plan(self) -> Plan:
        plan = self._draft.build_plan()
        plan.require_ok()
        self.store.check(plan)
        return plan

    def _ask(self, panel: Panel, turn: int, plan: Plan) -> None:
        """Ask the user to confirm exactly this plan."""
        if turn != self._turn:
            return
        self.ready = plan
        deletes = len(plan.deletes)
        panel.question.value = review_view.render_question(self._draft, plan)
        changes = "this pet" if deletes == 1 else f"these {words.count(deletes, 'pet')}"
        panel.sure.value, panel.sure.description = False, f"Yes, delete {changes}"
        panel.send.description = f"Send {words.count(len(plan.changes), 'change')}"
        show(panel.sure, bool(deletes))
        self._ask_for_ids(panel, plan)
        self._may_send(panel)
        self._show_phase(panel, "question")
        self.notice.clear()
        self.heading.focus()

    def _may_send(self, panel: Panel) -> None:
        plan = self.ready
        panel.send.disabled = plan is None or bool(plan.deletes and not panel.sure.value)

    def _leave_question(self, panel: Panel) -> None:
        self._show_phase(panel, "plan")
        self._refresh_tally()
        self.heading.focus()

    def _send(self, panel: Panel) -> None:
        plan = self.ready
        if plan is None or (plan.deletes and not panel.sure.value):
            return
        self.ready = None
        into_sheet: IntoSheet = "ids" if panel.write_ids.value else ""

        async def run(tell: Callable[[Progress], None]) -> Report:
            request = OutputRequest(into_sheet=into_sheet)
            # Check first: the request of a run that has started meanwhile must not be replaced.
            await asyncio.to_thread(self.store.aio.check, plan)
            await asyncio.to_thread(self._left_files.outputs.remember, plan, request)
            return await self.store.aio.apply(plan, on_progress=tell)

        self._begin(panel, run)

    def _ask_for_ids(self, panel: Panel, plan: Plan) -> None:
        """Offer to write the new ids into the sheet, if there are any and the sheet can be
        written.
        """
        can = self._left_files.can_write(plan)
        panel.write_ids.value = can
        name = Path(plan.source).name
        panel.write_ids.description = f"Write the new ids into {name}, and keep a backup"
        show(panel.write_ids, can)

    def _resume(self, panel: Panel) -> None:
        if self.report is not None:
            run_id, rate = self.report.run_id, _GENTLE_RATE if panel.gentle.value else None
            resume = self.store.aio.resume
            self._begin(panel, lambda tell: resume(run_id, rate=rate, on_progress=tell))

    def _finish(self, panel: Panel) -> None:
        """Finish the earlier run; a new plan then shows the remaining changes of the sheet."""
        past = self._unfinished
        if past is not None and self._phase_name == "plan":
            resume, run_id = self.store.aio.resume, past.run_id
            self._begin(panel, lambda tell: resume(run_id, on_progress=tell))

    def _begin(self, panel: Panel, run: Callable[..., Coroutine[Any, Any, Report]]) -> None:
        self.notice.clear()
        with panel.meter.hold_sync():
            panel.meter.done, panel.meter.total, panel.meter.text = 0.0, 0.0, "Starting..."
        panel.stop.description, panel.stop.disabled = "Stop", False
        self._show_phase(panel, "run")
        self.heading.focus()
        meter, session = panel.meter, self.store.aio.api.session
        self._going = going = ActiveRun(lambda: watch_run(run, meter, session))
        going.task = self.work.start(
            self._run_with_files(going),
            lambda ended: self._finish_run(panel, ended),
            lambda error: self._show_plan_again(panel, error),
        )

    async def _run_with_files(self, going: ActiveRun) -> ReportView | None:
        """Execute the run, write its files, and return its report."""
        ended = await going.execute()
        if ended is not None:
            await asyncio.to_thread(self._left_files.write, ended.report)
        return ended

    def _stop(self, panel: Panel) -> None:
        panel.stop.disabled, panel.stop.description = True, "Stopping..."
        if self._going is not None:
            self._going.stop()

    def _finish_run(self, panel: Panel, ended: ReportView | None) -> None:
        self._going = None
        if ended is None:
            self._show_stopped(panel)
            return
        self._show_report(panel, ended)
        self._say_end(ended.report)
        self.heading.focus()
        for act in self._report_callbacks:
            act(ended.report)

    def _show_stopped(self, panel: Panel) -> None:
        if self.report is None:
            self._show_phase(panel, "plan")
            self._refresh_tally()
            self.tell("Stopped before anything was sent.")
        else:
            self._show_phase(panel, "done")
            self.tell("Stopped before anything more was sent.")

    def _say_end(self, report: Report) -> None:
        sentence = review_view.as_button_text(words.report_summary(report))
        past = self._unfinished
        hint = review_view.PLAN_AGAIN if past is not None and past.run_id == report.run_id else ""
        if report.exit_code:
            self.notice.warn(sentence, hint)
        else:
            self.notice.say(sentence, hint, done=True)

    def _show_plan_again(self, panel: Panel, error: PetsyncError) -> None:
        """Return to the plan, or to the last report."""
        self._going = None
        self._show_phase(panel, "plan" if self.report is None else "done")
        if self.report is None:
            self._refresh_tally()
        self._show_error(error)

    def _show_error(self, error: PetsyncError) -> None:
        if isinstance(error, StalePlanError):
            self._refuse_plan(self.plan, error)
        else:
            self.fail(error)
            if self._panel is not None and self.report is None:
                self._panel.apply.disabled = not self._draft.is_ok

    # Report -------------------------------------------------------------------------------------

    def _show_report(self, panel: Panel, ended: ReportView) -> None:
        self.report = report = ended.report
        panel.changed.value = review_view.changed(ended)
        panel.problems.value = review_view.problems(ended)
        panel.files.value = self._left_files.html
        panel.facts.value = review_view.facts(report)
        panel.resume.description = review_view.continue_label(report)
        panel.gentle.value = ended.is_pressed
        show(panel.resume, ended.can_resume)
        show(panel.gentle, ended.can_resume)
        show(panel.undo, ended.can_undo)
        if self._table is not None:
            self._table.open_report(ended)
        self._show_phase(panel, "done")

    def _undo(self, panel: Panel) -> None:
        if self.report is not None:
            panel.undo.disabled = True
            self.tell("Reading the current pets...")
            undo = self.store.aio.undo(self.report.run_id)
            self.work.start(
                undo, self._show_undo_plan, lambda error: self._show_no_undo(panel, error)
            )

    def _show_undo_plan(self, plan: Plan) -> None:
        if self._panel is not None:
            self._panel.undo.disabled = False
        self.notice.clear()
        self.review(plan)
        self.heading.focus()

    def _show_no_undo(self, panel: Panel, error: PetsyncError) -> None:
        panel.undo.disabled = False
        self.fail(error)

    def _show_phase(self, panel: Panel, phase: str) -> None:
        """Show the widgets of the phase: `plan`, `question` (the confirmation), `run`, `done` (the
        report), or `over` (a plan that can no longer be applied).
        """
        self._phase_name = phase
        can_change = phase == "plan"
        is_seen = phase in ("plan", "over")
        show(panel.both, is_seen and any(each.clashes for each in self.plan.conflicts))
        show(panel.review_box, is_seen)
        stuck = self.plan.blocked or any(not each.clashes for each in self.plan.conflicts)
        show(panel.held, is_seen and bool(stuck))
        show(panel.finish, can_change and self._unfinished is not None)
        for part in (panel.limits, panel.count, panel.apply, panel.ticks, panel.sides):
            show(part, can_change)
        show(panel.overview, phase != "done")
        show(panel.ask, phase == "question")
        show(panel.stop, phase == "run")
        show(panel.done, phase == "done")
        panel.meter.shown = phase == "run"
        panel.changes.disabled = panel.clashes.disabled = not can_change


# review: the public function for the review form.


def review(
    plan: Plan, store: Store, *, sheet: Sheet | None = None, findings: Iterable[Finding] = ()
) -> ReviewForm:
    """Return a form in which a user reviews a plan, leaves out changes, decides conflicts, and
    applies it. `store.apply(plan)` applies a plan without the form. Raises PlanError if `plan` is
    not a plan.

    After a run, the form writes new ids into the plan's sheet if possible, unless the user clears
    the checkbox, and offers a file with the results. `sheet` is the plan's sheet if it is an
    uploaded copy, into which nothing is written. `findings` are the sheet's; a warning is
    shown next to its cell's change.
    """
    plan = arguments.checked_plan(plan)
    store = checked_store(store, "ps.widgets.review(plan, store)")
    given = None if sheet is None else as_sheet(sheet)
    return ReviewForm(plan, store, sheet=given, findings=findings)
