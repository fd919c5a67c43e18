"""The sign-in form."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import ipywidgets
import msgspec

from petsync._files import make_private_folder, read_regular, user_folder, write_atomically
from petsync._json import decoder_of
from petsync.client import auth
from petsync.errors import PetsyncError, SettingsError
from petsync.models import READ, WRITE, Account
from petsync.report import html
from petsync.report.document import Alert, Document, Note, Snippets, error_alert
from petsync.report.views.account import account_view
from petsync.settings import Secret
from petsync.store import Store, checked_store, connect, demo
from petsync.widgets.components import Fold, Link, SecretField, button, show, tick
from petsync.widgets.form import Form, is_live, on_enter

if TYPE_CHECKING:
    from petsync._sync import Task
    from petsync.client.auth.browser import AsyncPendingSignIn
    from petsync.client.auth.credentials import Credentials

__all__ = [
    "SIGN_IN_METHODS",
    "ConnectForm",
    "Entries",
    "Field",
    "LoginForm",
    "LoginMethod",
    "Message",
    "Panel",
    "account_document",
    "describe_expiry",
    "describe_restriction",
    "login",
    "remember_store",
    "remembered_stores",
    "welcome",
]


# ConnectForm: asks for a store if none is configured.


_WORDS = "The address of the store's service. Ask the people who run the service for it."
_ANOTHER = (
    "If you choose another store, the open sheet and its plan are closed; nothing from them is "
    "sent to it."
)
_MAX_REMEMBERED = 10


def remember_store(url: str) -> None:
    """Add the address to those that the form offers. It contains no secret, because `connect`
    accepts none in an address. If the file cannot be written, the address is not remembered.
    """
    others = [each for each in remembered_stores() if each != url]
    with suppress(OSError, RuntimeError):
        path = _stores_path()
        make_private_folder(path.parent)
        data = msgspec.json.format(msgspec.json.encode([url, *others][:_MAX_REMEMBERED])) + b"\n"
        write_atomically(path, data, private=True)


def remembered_stores() -> list[str]:
    """Return the addresses of the stores that were used before, the last one first."""
    try:
        return decoder_of(list[str]).decode(read_regular(_stores_path()))
    except (OSError, RuntimeError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _stores_path() -> Path:
    return user_folder("XDG_STATE_HOME", "LOCALAPPDATA", ".local/state") / "petsync" / "stores.json"


class ConnectForm(Form):
    """Asks for a service's address, or starts a sample store on this machine. `connect(url)` and
    `demo()` do the same. `options` are further options of `connect`; a `url` in them is ignored.
    """

    title = "Choose the store"
    terms = (
        *Form.terms,
        (r"provide a token instead: PETSYNC_TOKEN, or .*\)\.", "sign in as the next step."),
    )

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._options = {**(options or {})}
        self._on_store: list[Callable[[Store], object]] = []
        self._sample: Store | None = None
        self.address = ""
        """The address of the store in use that the user entered; "" for a sample store."""

    def on_store(self, act: Callable[[Store], object]) -> None:
        """Call the function with each store that the user chooses. If the function uses the store,
        it calls `confirm`.
        """
        self._on_store.append(act)

    def confirm(self, store: Store) -> None:
        """Show that this store is in use."""
        self.address = "" if store is self._sample else store.url
        self.notice.say(f"Using the store at {store.url}", _ANOTHER, done=True)

    def _iter_views(self) -> Iterator[Document]:
        choices = [("a service", "ps.connect(url)"), ("a sample store", "ps.demo()")]
        yield Document("", [Snippets("No store is chosen. Connect to one:", choices)])

    def _build_body(self) -> ipywidgets.Widget:
        known = remembered_stores()
        self.url = ipywidgets.Combobox(
            description="Address",
            placeholder="https://shop.example/v2",
            continuous_update=False,
            options=known,
            value=known[0] if known else "",
        )
        self.go = ipywidgets.Button(description="Use this store", button_style="primary")
        self.sample = ipywidgets.Button(description="Try it with a sample store")
        self.go.on_click(self.work.wrap_callback(lambda _: self._connect()))
        on_enter(self.url, self.work, self._connect)
        self.sample.on_click(self.work.wrap_callback(lambda _: self._demo()))
        words = ipywidgets.HTML(html.element("p", html.text(_WORDS)))
        return ipywidgets.VBox([words, self.url, ipywidgets.HBox([self.go, self.sample])])

    def _connect(self) -> None:
        if self.go.disabled:
            return
        address = self.url.value.strip()
        if not address:
            raise SettingsError("there is no address yet", hint="Fill it in above.")
        options = {**self._options, "url": address}
        self._open(lambda: connect(**options), "Connecting …", self._take_store)

    def _demo(self) -> None:
        self._open(demo, "Starting a sample store on this machine …", self._take_sample)

    def _open(self, make: Callable[[], Store], text: str, take: Callable[[Store], object]) -> None:
        """Make the store in a thread: the system's keyring may ask the user first."""

        def end_with(act: Callable[[Any], object]) -> Callable[[Any], None]:
            def end(result: object) -> None:
                self.go.disabled = self.sample.disabled = False
                act(result)

            return end

        self.go.disabled = self.sample.disabled = True
        self.tell(text)
        self.work.start(asyncio.to_thread(make), end_with(take), end_with(self.fail))

    def _take_sample(self, store: Store) -> None:
        self._sample = store
        self._take_store(store)

    def _take_store(self, store: Store) -> None:
        self.notice.clear()
        for act in self._on_store:
            act(store)


# The sign-in methods of the form: their purpose, and their fields.


Field = Literal["client_id", "client_secret", "token", "api_key", "can_write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMethod:
    """One sign-in method: its title in the list, an explanation (`words`), its fields, those that
    few services need (`options`), and the button's text. If it `opens` a page of the service first,
    `then` says what to do there.
    """

    name: Literal["browser", "elsewhere", "token", "client", "implicit", "key"]
    title: str
    words: str
    fields: tuple[Field, ...]
    options: tuple[Field, ...] = ()
    button: str = "Sign in"
    opens: bool = False
    then: str = ""


_AGREE = "Open the link below, and allow access there. "
SIGN_IN_METHODS: tuple[LoginMethod, ...] = (
    LoginMethod(
        name="browser",
        title="In the browser (usual)",
        words="A page of the service asks you whether petsync may use the store on your behalf. "
        "petsync never sees your password.",
        fields=("can_write",),
        options=("client_id",),
        button="Begin",
        opens=True,
        then=_AGREE
        + "This form continues automatically. If your browser ends up on a page that cannot be "
        "reached, copy that page's address and paste it here.",
    ),
    LoginMethod(
        name="elsewhere",
        title="In the browser, with petsync on another computer",
        words="For a notebook or a page on a server or a hub. The browser cannot reach petsync "
        "there, so you copy an address by hand.",
        fields=("can_write",),
        options=("client_id",),
        button="Begin",
        opens=True,
        then=_AGREE + "Your browser then ends up on a page that cannot be reached. This is "
        "expected: copy that page's complete address and paste it here.",
    ),
    LoginMethod(
        name="token",
        title="An access token that I have",
        words="For a token that somebody gave you, or that you created at the service. petsync "
        "cannot renew it: when it expires, enter a new one.",
        fields=("token",),
        options=("api_key",),
    ),
    LoginMethod(
        name="client",
        title="A client id and its secret",
        words="For programs and teams: the people who run the service issue them. petsync gets a "
        "new token whenever one expires.",
        fields=("client_id", "client_secret", "can_write"),
        options=("api_key",),
    ),
    LoginMethod(
        name="implicit",
        title="In the browser, for a service that offers only a token",
        words="The older method (implicit), for services that offer no other method. The token "
        "comes in the address of a page, cannot be renewed, and expires soon.",
        fields=("can_write",),
        options=("client_id",),
        button="Begin",
        opens=True,
        then=_AGREE
        + "This form continues automatically. If it does not, copy the complete address of the "
        "page on which your browser ends up and paste it here, or paste only the token.",
    ),
    LoginMethod(
        name="key",
        title="Only an API key",
        words="Enough to look up single pets by their id. Lists, changes and pictures need another "
        "method.",
        fields=("api_key",),
    ),
)


_TITLES = {way.name: f"“{way.title}”" for way in SIGN_IN_METHODS}
_KEEP = "Keep me signed in"
_TERMS = (
    *Form.terms,
    (
        r"Sign in with --no-browser, in Python listen=False, and paste",
        f"Begin again with {_TITLES['elsewhere']}, and paste",
    ),
    (r"Omit --implicit, in Python implicit=\w+", f"Choose {_TITLES['browser']}"),
    (
        r"Use the implicit sign-in: --implicit, in Python implicit=\w+",
        f"Choose {_TITLES['implicit']}",
    ),
    (
        r"Name another one: --state, in Python .* In Python, keep='memory' stores no sign-in",
        f"Untick “{_KEEP}”",
    ),
    (
        r"Set PETSYNC_TOKEN, .* In a notebook or a script, .* without storing anything",
        f"Untick “{_KEEP}”",
    ),
)
"""Parts of messages that name options and arguments, as regular expressions, and their
replacements.
"""


# Entries: the fields for signing in, one set for all methods.


class Entries:
    """The fields; `box` shows those of the chosen method. Secrets are not stored in any widget's
    state, and reading them clears their fields.
    """

    def __init__(self) -> None:
        titles = [(way.title, way.name) for way in SIGN_IN_METHODS]
        self.way = ipywidgets.Dropdown(
            options=titles, value=SIGN_IN_METHODS[0].name, description="How"
        )
        self.client_id = ipywidgets.Text(description="Client id")
        self.client_secret = SecretField(label="Client secret")
        self.token = SecretField(label="Access token")
        self.api_key = SecretField(label="API key")
        self.can_write = tick(f"I want to change pets too ({WRITE})", value=True)
        self.keep = tick(f"{_KEEP}: in the keyring of the computer petsync runs on")
        self._words = ipywidgets.HTML()
        self._fields, self._folded = ipywidgets.VBox(), ipywidgets.VBox()
        self._more = Fold("Options", [self._folded])
        self.box = ipywidgets.VBox([self.way, self._words, self._fields, self.keep, self._more])
        self.show()

    @property
    def chosen(self) -> LoginMethod:
        return next(way for way in SIGN_IN_METHODS if way.name == self.way.value)

    @property
    def scopes(self) -> tuple[str, ...]:
        return (READ, WRITE) if self.can_write.value else (READ,)

    @property
    def secrets(self) -> tuple[SecretField, ...]:
        return (self.token, self.client_secret, self.api_key)

    def show(self) -> None:
        """Show only the fields of the chosen method; clear all fields for secrets."""
        way = self.chosen
        self.take()
        self._words.value = html.element("p", html.text(way.words))
        self.client_id.placeholder = "leave it empty if you have none" if way.opens else ""
        self.api_key.hint = "" if way.name == "key" else "only if the service also needs one"
        self._fields.children = [getattr(self, name) for name in way.fields]
        self._folded.children = [getattr(self, name) for name in way.options]
        show(self._more, bool(way.options))

    def take(self) -> dict[str, Secret]:
        """Return the input of the secret fields, by name, and clear them."""
        names = ("token", "client_secret", "api_key")
        return {name: getattr(self, name).take() for name in names}


# Messages about an account, especially about missing permissions.


Message = tuple[str, str]
"""A message, and a hint, which may be ""."""


def describe_restriction(account: Account) -> Message | None:
    """Describe what a signed-in account cannot do, and what to do about it; None if it is not
    restricted.
    """
    if not account.signed_in:
        return None
    if account.kind == "api key":
        return (
            "With only an API key you can look up single pets, and nothing else.",
            "Sign in another way to see the whole catalogue, or to change it.",
        )
    if account.can_read is False:
        return (
            f"You cannot read the catalogue: {READ} is missing.",
            "petsync cannot compare anything without it. Sign in again and request it.",
        )
    if account.can_write is False:
        return (
            f"You can read pets, but not change them: {WRITE} is missing.",
            f"Sign in again and request it, or ask the people who run the service for {WRITE}.",
        )
    return None


def welcome(account: Account) -> Message:
    """Return the message to show right after the user has signed in."""
    if describe_restriction(account) is not None:
        missing = READ if account.can_read is False else WRITE
        restriction = (
            "but can only look up single pets"
            if account.kind == "api key"
            else f"but without {missing}"
        )
        return f"You are signed in, {restriction}.", "The message above explains this."
    user = f" as {account.user}" if account.user else ""
    if account.can_write is None:
        return (
            f"You are signed in{user}.",
            (
                "The service does not report your permissions; petsync reports each change that "
                "the service refuses."
            ),
        )
    return f"You are signed in{user}, and may read and change pets.", ""


def describe_expiry(account: Account) -> str:
    """Return a sentence that says when the sign-in ends or is renewed, in the local time of this
    computer; "" if that is unknown, or if local time is UTC.
    """
    if account.expires is None or not account.signed_in:
        return ""
    local = account.expires.astimezone()
    if not local.utcoffset():
        return ""
    ending = "is renewed at" if account.renews else "ends at"
    return (
        f"The sign-in {ending} {local:%H:%M} on {local:%Y-%m-%d} by this computer's clock "
        f"({local:%Z})."
    )


# The view of an account, with missing permissions first.


_OPEN = "Continue, or sign in below if the store refuses changes."
_UNKNOWN = "Your account is not known yet: the service has not responded."


def account_document(account: Account) -> Document:
    """Return the account with its restriction and the local time at which the sign-in ends."""
    blocks = list(account_view(_without_restriction(account)).blocks)
    if account.is_open:
        blocks.insert(0, Note(_OPEN))
    if message := describe_restriction(account):
        problem, hint = message
        blocks.insert(0, Alert(problem, [hint], is_refusal=account.can_read is False))
    if expiry := describe_expiry(account):
        blocks.append(Note(expiry))
    return Document("", blocks)


def _without_restriction(account: Account) -> Account:
    """Return the account without a problem that `describe_restriction` already describes."""
    known_scopes = (READ, WRITE, "API key")
    is_described = describe_restriction(account) is not None and any(
        word in account.problem for word in known_scopes
    )
    return replace(account, problem="") if is_described else account


# Panel: the widgets of the sign-in form; only the usable ones are shown.


class Panel:
    """The account with its buttons; the entries; and, for a sign-in page of the service, the link
    and the field for the address at which the browser ends up.
    """

    def __init__(self) -> None:
        self.entries = Entries()
        self.go = button("", primary=True)
        self.link = Link(label="Open the sign-in page (in a new tab)")
        self.address = SecretField(label="Address", masked=False)
        self.paste = button("Continue with this address")
        self.stop = button("Cancel")
        self.go_on = button("Continue without signing in", primary=True)
        self.check = button("Check again")
        self.other = button("Sign in differently")
        self.sign_out = button("Sign out")
        self._who, self._then = ipywidgets.HTML(), ipywidgets.HTML()
        self._entry = ipywidgets.VBox([self.entries.box, self.go])
        self._open = ipywidgets.VBox([self._then, self.link, self.address])
        signed = ipywidgets.HBox([self.check, self.other, self.sign_out])
        under_way = ipywidgets.HBox([self.paste, self.stop])
        self.box = ipywidgets.VBox(
            [self._who, self.go_on, signed, self._entry, self._open, under_way]
        )

    def open(self, url: str, way: LoginMethod) -> None:
        """Show the link to the service's page."""
        self._then.value = html.element("p", html.text(way.then))
        self.link.show(url)

    def leave(self) -> None:
        """Remove the address and the link."""
        self.address.take()
        self.link.clear()

    def show(
        self, account: Account | None, *, busy: bool, is_open: bool, signs_in_again: bool
    ) -> None:
        """Show the controls for this account. `busy`: work is active; `is_open`: a sign-in page is
        open; `signs_in_again`: a signed-in user signs in again.
        """
        is_in = account is not None and account.signed_in
        self._who.value = "" if account is None else html.document_html(account_document(account))
        self.go.description = self.entries.chosen.button
        self.other.description = "Keep this account" if signs_in_again else "Sign in differently"
        goes_on = account is not None and account.is_open and not is_open
        show(self.go_on, goes_on)
        self.go.button_style = "" if goes_on else "primary"
        show(self.check, account is None or is_in)
        show(self.other, is_in and not is_open)
        show(self.sign_out, is_in and not is_open)
        show(self._entry, not is_open and (signs_in_again or not is_in))
        show(self._open, is_open)
        show(self.paste, is_open)
        show(self.stop, busy or is_open)


# LoginForm: the form for signing in.


R = TypeVar("R")

_CONSENT_TIMEOUT_S = 900.0
"""The time in which the user must agree in the browser."""
_ACCOUNT_TIMEOUT_S = 5.0
"""The time that a cell waits for the account before it shows the form."""


class LoginForm(Form):
    """Shows the account, signs in by the chosen method, and signs out. `account` is the account as
    last read from the service, None before the first response.
    """

    title = "Sign in"
    terms = _TERMS

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.account: Account | None = None
        self._account_error: PetsyncError | None = None
        self._answered = threading.Event()
        self._is_asked = self._signs_in_again = self._is_wanted = False
        self._turns = 0
        self._panel: Panel | None = None
        self._pending: AsyncPendingSignIn | None = None
        self._task: Task[Any] | None = None
        self._in: list[Callable[[Account], object]] = []
        self._out: list[Callable[[Account], object]] = []

    def on_signed_in(self, act: Callable[[Account], object]) -> None:
        """Call the function with the account after each sign-in, once if the form finds that the
        user is already signed in, and when the user continues without signing in.
        """
        self._in.append(act)

    def on_signed_out(self, act: Callable[[Account], object]) -> None:
        """Call the function with the account after each sign-out."""
        self._out.append(act)

    def _iter_views(self) -> Iterator[Document]:
        """Yield the current account, with missing permissions."""
        self._await_account()
        if self.account is not None:
            yield account_document(self.account)
        else:
            error = self._account_error
            yield Document("", [Alert(_UNKNOWN) if error is None else error_alert(error)])

    def close(self) -> None:
        """Stop the work, remove the widgets, and discard the input."""
        if self._panel is not None:
            self._panel.entries.take()
            self._panel.leave()
            self._panel = None
        pending, self._pending, self._task, self._is_wanted = self._pending, None, None, False
        super().close()
        if pending is not None:
            self.work.start(pending.close(), lambda _: None)

    def _build_body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel()
        self._entries = entries = panel.entries
        self.way, self.keep, self.can_write = entries.way, entries.keep, entries.can_write
        self.token, self.api_key = entries.token, entries.api_key
        self.client_id, self.client_secret = entries.client_id, entries.client_secret
        self.go, self.stop, self.check = panel.go, panel.stop, panel.check
        self.link, self.address, self.paste = panel.link, panel.address, panel.paste
        self.other, self.sign_out, self.go_on = panel.other, panel.sign_out, panel.go_on
        self._connect_controls(panel)
        self._show()
        self._fetch_account_soon()
        return panel.box

    def _connect_controls(self, panel: Panel) -> None:
        guarded, entries = self.work.wrap_callback, panel.entries
        self.work.on_clicks(
            {
                panel.go: self._begin,
                panel.stop: self._cancel,
                panel.go_on: self._continue,
                panel.check: self.ask,
                panel.paste: self._paste,
                panel.other: self._sign_in_again,
                panel.sign_out: self._leave,
            }
        )
        for field in entries.secrets:
            field.on_enter(guarded(self._begin))
        panel.address.on_enter(guarded(self._paste))
        entries.way.observe(guarded(self._show_way), "value")

    # Account

    def ask(self) -> None:
        """Read the account from the service; returns at once."""
        self._is_asked, turn = True, self._turns
        self.work.start(
            self.store.aio.who(),
            lambda account: self._update_account(account, turn),
            self._show_account_error,
        )

    def _fetch_account_soon(self) -> None:
        if not self._is_asked:
            self.ask()

    def _await_account(self) -> None:
        """Wait for the service's response, but not longer than a time limit."""
        self._fetch_account_soon()
        self._answered.wait(
            _ACCOUNT_TIMEOUT_S if is_live() else 2 * self.store.aio.settings.timeout
        )

    def _update_account(self, account: Account, turn: int) -> None:
        if turn != self._turns:
            return  # outdated: the user has signed in or out meanwhile
        was_in = self.account is not None and self.account.signed_in
        self._show_account(account)
        if account.signed_in and not was_in:
            _tell_all(self._in, account)

    def _show_account_error(self, error: PetsyncError) -> None:
        self._account_error = error
        self._answered.set()
        self.fail(error)

    def _show_account(self, account: Account) -> None:
        self.account, self._signs_in_again = account, False
        self._turns += 1
        self._show()
        self._answered.set()

    # Signing in

    def _show_way(self, _: object) -> None:
        self._entries.show()
        self.notice.clear()
        self._show()

    def _continue(self) -> None:
        if self.account is not None:
            _tell_all(self._in, self.account)

    def _sign_in_again(self) -> None:
        self._signs_in_again = not self._signs_in_again
        self._show()

    def _begin(self) -> None:
        way, secrets = self._entries.chosen, self._entries.take()
        if self._task is not None or self._pending is not None:
            return
        if way.opens:
            self._is_wanted = True
            self._run(self._begin_in_browser(way), self._offer_sign_in)
            self.tell("Asking the service for its sign-in page …")
        else:
            signing = self.store.aio.sign_in(self._credentials(way, secrets), keep=self._keeps)
            self._run(signing, self._on_sign_in)
            self.tell("Asking the service …")

    @property
    def _keeps(self) -> Literal["memory", "keyring"]:
        return "keyring" if self.keep.value else "memory"

    def _credentials(self, way: LoginMethod, secrets: dict[str, Secret]) -> Credentials:
        key = secrets["api_key"]
        besides = key if key.reveal().strip() else None
        if way.name == "token":
            return auth.bearer(secrets["token"], api_key=besides)
        if way.name == "key":
            return auth.api_key(key)
        return auth.client_credentials(
            self.client_id.value.strip(),
            secrets["client_secret"],
            scopes=self._entries.scopes,
            api_key=besides,
        )

    async def _begin_in_browser(self, way: LoginMethod) -> AsyncPendingSignIn:
        return await self.store.aio.begin_sign_in(
            scopes=self._entries.scopes,
            client_id=self.client_id.value.strip() or None,
            implicit=way.name == "implicit",
            listen=way.name != "elsewhere",
            keep=self._keeps,
        )

    def _offer_sign_in(self, pending: AsyncPendingSignIn) -> None:
        if not self._is_wanted:
            self.work.start(pending.close(), lambda _: None)
            return
        self._pending, way = pending, self._entries.chosen
        # The sign-in ends when the browser returns, or when the user pastes the address.
        self._run(pending.wait(_CONSENT_TIMEOUT_S), self._on_sign_in, self._on_failure)
        self._show()
        if self._panel is not None:
            self._panel.open(pending.url, way)
        self.tell("The sign-in page is ready.", "Open it with the link above.")

    def _paste(self) -> None:
        text, pending = self.address.take(), self._pending
        if pending is None:
            return
        if not text.reveal().strip():
            raise SettingsError(
                "there is no address yet", hint="Copy it from the browser's address bar."
            )
        self.work.start(pending.paste(text), self._on_sign_in)
        self.tell("Asking the service …")

    def _on_failure(self, error: PetsyncError) -> None:
        self._forget()
        self.heading.focus()
        self.fail(error)

    def _on_sign_in(self, account: Account) -> None:
        if account is self.account:
            return  # already shown: the address was pasted, and the browser also delivered it
        self._forget()
        self._show_account(account)
        self.heading.focus()
        is_wanted = self.can_write.value or account.can_read is False
        if describe_restriction(account) is not None and is_wanted:
            self.notice.warn(*welcome(account))
        else:
            self.notice.say(*welcome(account), done=True)
        _tell_all(self._in, account)

    def _cancel(self) -> None:
        self._forget()
        self.heading.focus()
        self.tell("Cancelled.")
        if self.account is not None and self.account.signed_in:
            self.ask()  # a cancelled sign-out may already have ended the sign-in

    def _forget(self) -> None:
        """Cancel the pending sign-in."""
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
            self._run(self.store.aio.sign_out(), self._show_signed_out)

    def _show_signed_out(self, account: Account) -> None:
        self._show_account(account)
        self.heading.focus()
        self.notice.say("You are signed out.", account.problem, done=True)
        _tell_all(self._out, account)

    # Display

    def _run(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
    ) -> None:
        """Start the work as the one task that the user can cancel."""

        def end_with(act: Callable[[Any], object]) -> Callable[[Any], object]:
            def end(result: object) -> None:
                if self._task is task:
                    self._task = None
                self._show()
                act(result)

            return end

        task = self.work.start(work, end_with(then), end_with(failed or self.fail))
        self._task = task
        self._show()

    def _show(self) -> None:
        """Show only the controls that can be used now."""
        if self._panel is not None:
            self._panel.show(
                self.account,
                busy=self._task is not None,
                is_open=self._pending is not None,
                signs_in_again=self._signs_in_again,
            )


def _tell_all(acts: list[Callable[[Account], object]], account: Account) -> None:
    for act in acts:
        act(account)


# login: the public function for the sign-in form.


def login(store: Store) -> LoginForm:
    """Return a form to sign in to the store's service and to sign out. `store.who()`,
    `store.sign_in(…)`, `store.begin_sign_in(…)` and `store.sign_out()` do the same.
    """
    return LoginForm(checked_store(store, "ps.widgets.login(store)"))
