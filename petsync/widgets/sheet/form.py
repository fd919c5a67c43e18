"""SheetForm: from a file to the review of its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ipywidgets

from petsync._loop import Task
from petsync.client.lookup import Lookups
from petsync.diff.plan import Plan
from petsync.errors import LockedError, PetsyncError, SheetError
from petsync.sheets import EncodingError, peek
from petsync.store import Store
from petsync.table.sheet import Sheet
from petsync.widgets.entering import on_enter
from petsync.widgets.form import Form
from petsync.widgets.sheet import still
from petsync.widgets.sheet.look import Look, Shown, looked
from petsync.widgets.sheet.panel import Panel
from petsync.widgets.sheet.saving import save_corrected, save_marked

if TYPE_CHECKING:
    from petsync.widgets.parts.files import Received
    from petsync.widgets.review import ReviewForm

__all__ = ["SheetForm"]

R = TypeVar("R")


class SheetForm(Form):
    """Opens a spreadsheet, shows what is wrong with it, takes corrections, and makes its plan.

    `sheet` is the sheet as it is read now, None before; `corrections` those that it was read with;
    `plan` the last plan, and `review` its form, unless somebody else wants the plan (`on_plan`).
    """

    title = "Open a sheet"

    def __init__(self, store: Store, path: str | Path | None = None) -> None:
        super().__init__()
        self.store = store
        self.folder = Path.cwd()
        self.path = None if path is None else self.folder / Path(path).expanduser()
        self.look: Look | None = None
        self.mapping: dict[str, str] = {}
        self.tab: str | None = None
        self.encoding: str | None = None
        self.problem: PetsyncError | None = None
        self.plan: Plan | None = None
        self.review: ReviewForm | None = None
        self._panel: Panel | None = None
        self._task: Task[Any] | None = None
        self._turn, self._called = 0, ""
        self._on_plan: list[Callable[[Plan], object]] = []

    @property
    def received(self) -> Sheet | None:
        """The sheet, where its file was sent to this machine, and a person has the original."""
        return self.sheet if self._called else None

    def on_plan(self, act: Callable[[Plan], object]) -> None:
        """Call the function with each plan; the form then shows no review itself."""
        self._on_plan.append(act)

    @property
    def sheet(self) -> Sheet | None:
        """The sheet as it is read now."""
        return None if self.look is None else self.look.sheet

    @property
    def corrections(self) -> dict[str, str]:
        """The corrections that the sheet is read with, by address."""
        made = () if self.sheet is None else self.sheet.corrections
        return {each.address: each.after for each in made}

    def html(self) -> str:
        """The sheet and its findings, or how to open one."""
        self._know()
        return still.html(self.title, self.sheet, self.problem, self.plan, self.review)

    def text(self) -> str:
        """The same as plain text of at most 80 columns."""
        self._know()
        return still.text(self.sheet, self.problem, self.plan, self.review)

    def open(self, path: str | Path) -> None:
        """Open another file; returns at once. Raises LockedError while a run is under way in the
        review of this one's plan.
        """
        self._leave_review()
        self.path, self._called = self.folder / Path(path).expanduser(), ""
        self.encoding = None
        self._forget()
        if self._panel is not None:
            self._panel.saving.corrected_as.value = ""
        self._read(self.path, None, {}, {})

    def close(self) -> None:
        """Stop what is under way, and take the widgets away."""
        self._drop_review()
        super().close()
        self._panel = None

    def _know(self) -> None:
        """Read the sheet now, where a notebook runs without anybody who could wait for it."""
        if self.path is None or self.look is not None or self.problem is not None:
            return
        try:
            # Named from here, as the person named it: the page is saved, and the machine's folders
            # are nobody's business.
            here = Path.cwd()
            path = self.path.relative_to(here) if self.path.is_relative_to(here) else self.path
            self.look = looked(self.store, path, self.tab, self.mapping, {})
        except PetsyncError as error:
            self.problem = error

    # What a person presses

    def _body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel(self.folder, self.work.guarded, self._chose, self._take_back)
        self.files, self.listed = panel.choosing.files, panel.choosing.listed
        self.path_field = panel.choosing.path
        self.columns, self.findings, self.made = panel.columns, panel.findings, panel.made
        self.options, self.saving = panel.options, panel.saving
        self.go, self.sure, self.again = panel.choosing.open, panel.sure, panel.again
        self.compare, self.stop = panel.compare, panel.stop
        self._wire(panel)
        if self.look is not None:
            self._show(self.look)
        elif self.problem is not None:
            self.fail(self.problem)
        elif self.path is not None:
            self._read(self.path, self.tab, self.mapping, {})
        return panel.box

    def _wire(self, panel: Panel) -> None:
        guarded, choosing = self.work.guarded, panel.choosing
        choosing.files.on_file(guarded(self._came))
        on_enter(choosing.path, self.work, self._open_named)
        on_enter(panel.findings.own, self.work, panel.findings.take)
        choosing.listed.observe(guarded(lambda change: self._picked(change["new"])), "value")
        panel.columns.encoding.observe(
            guarded(lambda change: self._decoded(change["new"])), "value"
        )
        panel.columns.tab.observe(guarded(lambda change: self._turned(change["new"])), "value")
        for button, act in (
            (choosing.open, self._open_named),
            (panel.columns.again, self._read_so),
            (panel.sure, self._correct_sure),
            (panel.again, self._check_again),
            (panel.saving.corrected, self._save_corrected),
            (panel.saving.marked, self._save_marked),
            (panel.compare, self._compare),
            (panel.stop, self._stop),
        ):
            button.on_click(guarded(lambda _, act=act: act()))

    def _came(self, file: Received) -> None:
        self.open(file.path)
        # Its copy here is private, and gone with the form: nobody knows it by that path, and what
        # is saved goes elsewhere.
        self._called = file.path.name
        if self._panel is not None:
            self._panel.saving.offer(self.folder / file.path.name)

    def _picked(self, name: str) -> None:
        if name:
            self.path_field.value = name
            self.open(name)

    def _open_named(self) -> None:
        named = self._panel.choosing.named if self._panel else None
        if named is None:
            raise SheetError(
                "no file is named", hint="Drop one above, choose one, or write its path."
            )
        self.open(named)

    def _turned(self, tab: str | None) -> None:
        """Read another worksheet: what was said of the columns of this one means nothing there."""
        if self.path is not None and tab and tab != self.tab:
            self._leave_review()
            self._forget()
            self._read(self.path, tab, {}, {})

    def _decoded(self, encoding: str) -> None:
        """Read the file in another encoding: nothing is known of what it says in this one."""
        if self.path is not None and (encoding or None) != self.encoding:
            self._leave_review()
            self.encoding = encoding or None
            self._forget()
            self._read(self.path, None, {}, {})

    def _read_so(self) -> None:
        if self._panel is not None and self.path is not None:
            mapping = self._panel.columns.mapping
            self._read(self.path, self.tab, mapping, self._wanted())

    def _correct_sure(self) -> None:
        if self.look is None or self.path is None:
            return
        if not self.look.sure:
            self.tell("No correction is sure.", "Guesses are yours to choose, cell by cell.")
        else:
            # What a person chose for a cell comes before what is suggested there.
            sure = {**self.corrections, **self.look.sure, **self._chosen()}
            self.again.focus()  # the button may have nothing more to do
            self._read(self.path, self.tab, self.mapping, sure)

    def _check_again(self) -> None:
        if self.path is not None:
            self._read(self.path, self.tab, self.mapping, self._wanted())

    def _take_back(self, address: str) -> None:
        if self.path is not None:
            rest = {at: text for at, text in self._wanted().items() if at != address}
            if len(self.corrections) < 2:
                self.again.focus()  # the table will be gone
            self._read(self.path, self.tab, self.mapping, rest)

    def _chose(self) -> None:
        if self._panel is not None and self.look is not None:
            self._panel.count(self.look)

    def _chosen(self) -> dict[str, str]:
        return self._panel.findings.taken() if self._panel else {}

    def _wanted(self) -> dict[str, str]:
        return {**self.corrections, **self._chosen()}

    # Reading

    def _read(
        self,
        path: Path,
        tab: str | None,
        mapping: Mapping[str, str],
        corrections: Mapping[str, str],
    ) -> None:
        """Read the file so; returns at once. Corrections hold for the bytes that a person saw."""
        self.mapping = dict(mapping)
        digest = self.sheet.digest if self.sheet is not None and corrections else ""
        self._begin(
            asyncio.to_thread(
                looked,
                self.store,
                path,
                tab,
                mapping,
                corrections,
                encoding=self.encoding,
                digest=digest,
            ),
            self._show,
            self._unread,
        )

    def _show(self, look: Look) -> None:
        self.look, self.problem, self.tab = look, None, look.sheet.tab or None
        panel = self._panel
        if panel is not None and self.path is not None:
            panel.show(look, self._named(look.sheet), self.mapping, self.path)
            panel.columns.decode(self.encoding)
            self.tell(still.told(look.sheet))

    def _unread(self, error: PetsyncError) -> None:
        self.fail(error)
        if self.look is None and self.path is not None:
            self.problem = error
            if isinstance(error, EncodingError) and self._panel is not None:
                self._panel.columns.offer(error.offered)
                return
            # A file whose headers are all unknown can be read once somebody says what they mean.
            self._begin(
                asyncio.to_thread(peek, self.path, tab=self.tab, encoding=self.encoding),
                lambda seen: self._peeked(Shown.of_peek(seen)),
                lambda _: None,
            )

    def _peeked(self, shown: Shown) -> None:
        self.tab = shown.tab or None
        if self._panel is not None:
            self._panel.columns.show(shown, self.mapping)
            self._panel.columns.decode(self.encoding)

    def _forget(self) -> None:
        """Nothing is known any more of the sheet that was open."""
        self.look, self.problem, self.tab, self.plan = None, None, None, None
        self._drop_review()
        if self._panel is not None:
            self._panel.forget()
            self._panel.columns.decode(self.encoding)

    # Saving and comparing

    def _save_corrected(self) -> None:
        self._save(save_corrected, "corrected_as")

    def _save_marked(self) -> None:
        self._save(save_marked, "marked_as")

    def _save(self, save: Callable[[Sheet, Path], tuple[str, str]], field: str) -> None:
        panel, sheet = self._panel, self.sheet
        if panel is None or sheet is None:
            return
        path = panel.saving.path(getattr(panel.saving, field))
        self._begin(asyncio.to_thread(save, sheet, path), self._saved)

    def _saved(self, said: tuple[str, str]) -> None:
        self.notice.say(*said, done=True)

    def _compare(self) -> None:
        panel, sheet = self._panel, self.sheet
        if panel is None or sheet is None or self.path is None:
            return
        panel.findings.require_none_open()
        self._leave_review()
        panel.progress("Asking the store")
        self._begin(self._compared(self.path, sheet, panel.options.chosen), self._planned)

    async def _compared(
        self, path: Path, sheet: Sheet, options: Mapping[str, Any]
    ) -> tuple[Look, Plan]:
        """The sheet, judged with the statuses that the store really has, and its plan."""
        aio = self.store.aio
        snapshot = await aio.snapshot()
        known = frozenset(snapshot.frame["status"].dropna().unique())
        given = {each.address: each.after for each in sheet.corrections}
        look = await asyncio.to_thread(
            looked,
            self.store,
            path,
            sheet.tab or None,
            self.mapping,
            given,
            encoding=self.encoding,
            known=known,
            digest=sheet.digest,
        )
        plan = await aio.plan(
            self._named(look.sheet), snapshot=snapshot, on_progress=self._looking_up, **options
        )
        return look, plan

    def _named(self, sheet: Sheet) -> Sheet:
        """The sheet under the name by which the person knows it."""
        return replace(sheet, source=self._called) if self._called else sheet

    def _looking_up(self, lookups: Lookups) -> None:
        if self._panel is not None:
            self._panel.progress("Looking up single pets", lookups.done, lookups.total)

    def _planned(self, made: tuple[Look, Plan]) -> None:
        self._leave_review()
        look, plan = made
        self._show(look)
        self.plan = plan
        self.tell(still.planned(plan))
        self._drop_review()
        for act in list(self._on_plan):
            act(plan)
        if not self._on_plan:
            self._review(plan)

    def _review(self, plan: Plan) -> None:
        from petsync.widgets.review import review

        self.review = review(plan, self.store, sheet=self.received)
        self.review.on_report(lambda _: self.renew())
        if self._panel is not None:
            self._panel.review.children = [self.review.widget]

    def _leave_review(self) -> None:
        """Raise LockedError where leaving the review would stop a run."""
        if self.review is not None and self.review.is_running:
            raise LockedError(
                "a run is still under way below", hint="Let it end, or stop it there first."
            )

    def _drop_review(self) -> None:
        if self._panel is not None:
            self._panel.review.children = ()
        if self.review is not None:
            self.review.close()
            self.review = None

    # One thing at a time

    def _begin(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
    ) -> None:
        """Begin it, in place of what was under way; the end of that is not heard any more."""
        if self._task is not None:
            self._task.cancel()
        self._turn += 1
        turn = self._turn
        if self._panel is not None:
            self._panel.busy(True)

        def done(result: R) -> None:
            if turn == self._turn:
                self._rest()
                then(result)

        def not_done(error: PetsyncError) -> None:
            if turn == self._turn:
                self._rest()
                (failed or self.fail)(error)

        self._task = self.work.start(work, done, not_done)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._turn += 1
        self._rest()
        self.tell("Stopped. Nothing was changed.")
        if self._panel is not None:
            # The button that was pressed is gone; the keyboard goes on from here.
            self._panel.compare.focus()

    def _rest(self) -> None:
        self._task = None
        if self._panel is not None:
            self._panel.busy(False)
