"""LoginForm: what happens when a person signs in by a form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import ipywidgets

from petsync.client import auth
from petsync.errors import PetsyncError, SettingsError
from petsync.render import markup
from petsync.settings import Secret
from petsync.store import Store
from petsync.widgets.form import Form, is_live
from petsync.widgets.login.panel import Panel
from petsync.widgets.login.shown import account_html, account_text, untold_html, untold_text
from petsync.widgets.login.ways import Way
from petsync.widgets.login.words import lack, welcome
from petsync.wire.account import Account

if TYPE_CHECKING:
    from petsync._loop import Task
    from petsync.client.credentials import Credentials
    from petsync.store import AsyncPending

__all__ = ["LoginForm"]

R = TypeVar("R")

_LONG = 900.0
"""So many seconds a person has to agree in the browser."""
_PATIENCE = 5.0
"""So many seconds a cell waits for the service before it shows the form; the form goes on."""


class LoginForm(Form):
    """Shows who one is, signs in by the chosen way, and signs out. `account` is what the service
    said last, None before it did.
    """

    title = "Sign in"

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.account: Account | None = None
        self._why: PetsyncError | None = None
        self._answered = threading.Event()
        self._asked = self._anew = self._is_wanted = False
        self._turns = 0
        self._panel: Panel | None = None
        self._pending: AsyncPending | None = None
        self._task: Task[Any] | None = None
        self._in: list[Callable[[Account], object]] = []
        self._out: list[Callable[[Account], object]] = []

    def on_signed_in(self, act: Callable[[Account], object]) -> None:
        """Call the function with the account whenever one is signed in: at once where the form
        finds that one is already, else after each sign-in.
        """
        self._in.append(act)

    def on_signed_out(self, act: Callable[[Account], object]) -> None:
        """Call the function with the account whenever one has signed out."""
        self._out.append(act)

    def html(self) -> str:
        """Who one is, as the service says now, and what one may not do."""
        self._know()
        said = untold_html(self._why) if self.account is None else account_html(self.account)
        return f"<h{self.level}>{markup.text(self.title)}</h{self.level}>\n{said}"

    def text(self) -> str:
        """The same as plain text of at most 80 columns."""
        self._know()
        return untold_text(self._why) if self.account is None else account_text(self.account)

    def close(self) -> None:
        """Stop what is under way, and take the widgets away; what was typed is forgotten."""
        if self._panel is not None:
            self._panel.entries.take()
            self._panel.leave()
            self._panel = None
        pending, self._pending, self._task, self._is_wanted = self._pending, None, None, False
        super().close()
        if pending is not None:
            self.work.start(pending.close(), lambda _: None)

    def _body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel()
        self._entries = entries = panel.entries
        self.way, self.keep, self.can_write = entries.way, entries.keep, entries.can_write
        self.token, self.api_key = entries.token, entries.api_key
        self.client_id, self.client_secret = entries.client_id, entries.client_secret
        self.go, self.stop, self.check = panel.go, panel.stop, panel.check
        self.link, self.address, self.paste = panel.link, panel.address, panel.paste
        self.other, self.sign_out = panel.other, panel.sign_out
        self._wire(panel)
        self._show()
        self._know_soon()
        return panel.box

    def _wire(self, panel: Panel) -> None:
        guarded, entries = self.work.guarded, panel.entries
        for button, act in (
            (panel.go, self._begin),
            (panel.stop, self._cancel),
            (panel.check, self.ask),
            (panel.paste, self._paste),
            (panel.other, self._differently),
            (panel.sign_out, self._leave),
        ):
            button.on_click(guarded(lambda _, act=act: act()))
        for field in entries.secrets:
            field.on_enter(guarded(self._begin))
        panel.address.on_enter(guarded(self._paste))
        entries.way.observe(guarded(self._chosen), "value")

    # Who one is

    def ask(self) -> None:
        """Ask the service who one is; returns at once."""
        self._asked, turn = True, self._turns
        self.work.start(
            self.store.aio.who(), lambda account: self._told(account, turn), self._untold
        )

    def _know_soon(self) -> None:
        if not self._asked:
            self.ask()

    def _know(self) -> None:
        """Return when the service has answered, or was given the time to."""
        self._know_soon()
        self._answered.wait(_PATIENCE if is_live() else 2 * self.store.aio.settings.timeout)

    def _told(self, account: Account, turn: int) -> None:
        if turn != self._turns:
            return  # who signed in or out meanwhile knows better
        was_in = self.account is not None and self.account.signed_in
        self._be(account)
        if account.signed_in and not was_in:
            _tell_all(self._in, account)

    def _untold(self, error: PetsyncError) -> None:
        self._why = error
        self._answered.set()
        self.fail(error)

    def _be(self, account: Account) -> None:
        self.account, self._anew = account, False
        self._turns += 1
        self._show()
        self._answered.set()

    # Signing in

    def _chosen(self, _: object) -> None:
        self._entries.show()
        self.notice.clear()
        self._show()

    def _differently(self) -> None:
        self._anew = not self._anew
        self._show()

    def _begin(self) -> None:
        way, given = self._entries.chosen, self._entries.take()
        if self._task is not None or self._pending is not None:
            return
        if way.opens:
            self._is_wanted = True
            self._run(self._asked_for(way), self._opened)
            self.tell("Asking the service for its sign-in page …")
        else:
            signing = self.store.aio.sign_in(self._credentials(way, given), keep=self._keeps)
            self._run(signing, self._signed_in)
            self.tell("Asking the service …")

    @property
    def _keeps(self) -> Literal["memory", "keyring"]:
        return "keyring" if self.keep.value else "memory"

    def _credentials(self, way: Way, given: dict[str, Secret]) -> Credentials:
        key = given["api_key"]
        besides = key if key.reveal().strip() else None
        if way.name == "token":
            return auth.bearer(given["token"], api_key=besides)
        if way.name == "key":
            return auth.api_key(key)
        return auth.client_credentials(
            self.client_id.value.strip(),
            given["client_secret"],
            scopes=self._entries.scopes,
            api_key=besides,
        )

    async def _asked_for(self, way: Way) -> AsyncPending:
        return await self.store.aio.begin_sign_in(
            scopes=self._entries.scopes,
            client_id=self.client_id.value.strip() or None,
            implicit=way.name == "implicit",
            listen=way.name != "elsewhere",
            keep=self._keeps,
        )

    def _opened(self, pending: AsyncPending) -> None:
        if not self._is_wanted:
            self.work.start(pending.close(), lambda _: None)
            return
        self._pending, way = pending, self._entries.chosen
        # It ends with the browser that comes back, and with the address that is pasted.
        self._run(pending.arrived(_LONG), self._signed_in, self._gave_up)
        self._show()
        if self._panel is not None:
            self._panel.open(pending.url, way)
        self.tell("The sign-in page is ready.", "Open it by the link above.")

    def _paste(self) -> None:
        text, pending = self.address.take(), self._pending
        if pending is None:
            return
        if not text.reveal().strip():
            raise SettingsError(
                "there is no address yet", hint="Copy it from the browser's address bar."
            )
        self.work.start(pending.pasted(text), self._signed_in)
        self.tell("Asking the service …")

    def _gave_up(self, error: PetsyncError) -> None:
        self._forget()
        self.heading.focus()
        self.fail(error)

    def _signed_in(self, account: Account) -> None:
        if account is self.account:
            return  # it was told already: pasted, and arrived
        self._forget()
        self._be(account)
        self.heading.focus()
        if lack(account) is not None and self.can_write.value:
            self.notice.warn(*welcome(account))
        else:
            self.notice.say(*welcome(account), done=True)
        _tell_all(self._in, account)

    def _cancel(self) -> None:
        self._forget()
        self.heading.focus()
        self.tell("Nothing was changed.")

    def _forget(self) -> None:
        """Leave what was begun: nobody waits for a browser any more."""
        pending, self._pending = self._pending, None
        task, self._task = self._task, None
        self._is_wanted = False
        if task is not None:
            task.cancel()
        if pending is not None:
            self.work.start(pending.close(), lambda _: None)
        if self._panel is not None:
            self._panel.leave()
        self._show()

    # Signing out

    def _leave(self) -> None:
        if self._task is None:
            self._run(self.store.aio.sign_out(), self._left)

    def _left(self, account: Account) -> None:
        self._be(account)
        self.heading.focus()
        self.notice.say("You are signed out.", account.problem, done=True)
        _tell_all(self._out, account)

    # What is there to see

    def _run(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
    ) -> None:
        """Begin the work, as the one thing that can be cancelled."""

        def ended(act: Callable[[Any], object]) -> Callable[[Any], object]:
            def end(result: object) -> None:
                if self._task is task:
                    self._task = None
                self._show()
                act(result)

            return end

        task = self.work.start(work, ended(then), ended(failed or self.fail))
        self._task = task
        self._show()

    def _show(self) -> None:
        """Show what can be done now, and nothing else."""
        if self._panel is not None:
            self._panel.show(
                self.account,
                busy=self._task is not None,
                opened=self._pending is not None,
                anew=self._anew,
            )


def _tell_all(acts: list[Callable[[Account], object]], account: Account) -> None:
    for act in acts:
        act(account)
