"""`petsync login`, `logout`, `whoami` and `trust`."""

from __future__ import annotations

import os
import sys
import threading
import tomllib
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync._display import quote
from petsync._extras import needs_extra
from petsync._files import is_folder
from petsync.cli.context import (
    Context,
    NamedPath,
    ask_secret,
    ask_text,
    ask_yes_no,
    is_interactive,
    print_account,
)
from petsync.cli.context import command as as_command
from petsync.errors import AuthError, PetsyncError, SettingsError
from petsync.models import NOBODY
from petsync.settings import Secret, Settings, read_file
from petsync.trust import confirm, is_confirmed, names_in, record_path, relevant_settings, withdraw

if TYPE_CHECKING:
    from petsync.client.auth.credentials import Credentials
    from petsync.models import Account
    from petsync.store import Store
    from petsync.store.signin import PendingSignIn

__all__ = ["login_command", "logout_command", "trust_command", "whoami_command"]


# `petsync login`: sign in once for all commands, scripts and notebooks.


_DEFAULT_SCOPES = ("read:pets", "write:pets")
_MAX_ATTEMPTS = 5
_SECRETS = ("token", "client_id", "client_secret", "api_key")
"""The settings whose variables take precedence over a stored sign-in."""
_LOGIN_EXAMPLES = """
petsync login --url https://shop.example/v2
petsync login --no-browser
petsync login --client-credentials --client-id nightly
petsync login --token
"""


@as_command("login", examples=_LOGIN_EXAMPLES)
@click.option(
    "--no-browser",
    is_flag=True,
    help="Print an address to open in any browser, and ask for the address to which that browser "
    "is redirected.",
)
@click.option(
    "--token",
    is_flag=True,
    help="Sign in with an access token, which petsync asks for or reads from --token-file.",
)
@click.option(
    "--client-credentials",
    "client",
    is_flag=True,
    help="Sign in with a client id and its secret; petsync asks for what is not set.",
)
@click.option(
    "--implicit",
    is_flag=True,
    help="Use the browser to sign in at a service that offers only the implicit flow.",
)
@click.option(
    "--api-key",
    is_flag=True,
    help="Sign in with an API key, which petsync asks for. Can be combined with --token "
    "or --client-credentials.",
)
@click.option("--client-id", metavar="ID", help="The client id, if the service assigned you one.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="A scope to request; repeatable.  [read:pets and write:pets]",
)
@click.option(
    "--wait",
    type=click.FloatRange(1, 3600),
    default=300,
    metavar="SECONDS",
    help="How long to wait for your consent in the browser.  [300]",
)
@click.pass_context
@needs_extra(
    "keyring",
    "`petsync login`",
    instead="Or set PETSYNC_TOKEN, or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET.",
)
def login_command(
    ctx: click.Context,
    no_browser: bool,
    token: bool,
    client: bool,
    implicit: bool,
    api_key: bool,
    client_id: str | None,
    scopes: tuple[str, ...],
    wait: float,
) -> int:
    """Sign in to the service, and stay signed in.

    Usually your browser opens a page of the service, where you agree; petsync sees no password.
    petsync stores the sign-in in this computer's keyring (never in a file), for the --url and
    everything that uses the same --state folder: commands, scripts, notebooks. It renews the
    sign-in as long as the service permits it. Needs the extra `keyring`.

    Secrets are not shown while you type them. If standard input is not a terminal, petsync reads
    each missing value from one line of it, in this order: client id, token or client secret, API
    key.

    If the store asks for no sign-in, petsync says so and stores nothing, unless an option names a
    kind of sign-in, a client id or a scope.

    Exit codes: 0 if you are signed in, or if the store asks for no sign-in; else 1.
    """
    context: Context = ctx.obj
    kind = _choose_sign_in(ctx, token=token, client=client, implicit=implicit, api_key=api_key)
    token_given = context.take_token()
    with context.connect(signs_in=True, ignores_client=kind == "client") as store:
        is_default = kind == "code" and not (client_id or scopes)
        if is_default and (account := _find_open_account(context, store)) is not None:
            return _explain_open_store(context, account)
        if kind in ("code", "implicit"):
            listen = not no_browser and _has_browser()
            pending = store.begin_sign_in(
                scopes=scopes or _DEFAULT_SCOPES,
                client_id=client_id,
                implicit=kind == "implicit",
                listen=listen,
                keep="keyring",
            )
            with closing(pending):
                account = _await_consent(context, pending, wait)
        else:
            inputs = _SignInInputs(
                context.settings, token_given, client_id, scopes or _DEFAULT_SCOPES, api_key=api_key
            )
            credentials = inputs.credentials(kind)
            with context.busy("Asking the service"):
                account = store.sign_in(credentials, keep="keyring")
    return _conclude(context, account)


def _find_open_account(context: Context, store: Store) -> Account | None:
    """Return the account at a store that asks for no sign-in; None for any other store."""
    with context.busy("Asking the service"):
        try:
            account = store.who()
        except AuthError:
            return None
    return account if account.is_open else None


def _explain_open_store(context: Context, account: Account) -> int:
    print_account(context, account)
    context.say(
        "Nothing was stored. If the store refuses changes, "
        f"`petsync login {' '.join(f'--scope {scope}' for scope in _DEFAULT_SCOPES)}` signs you in."
    )
    context.suggest("export", "catalogue.xlsx", url=True)
    return 0


def _choose_sign_in(
    ctx: click.Context, *, token: bool, client: bool, implicit: bool, api_key: bool
) -> str:
    """Return the kind of sign-in that the options name. Raises UsageError for more than one kind,
    and for any argument, because it may be a secret.
    """
    context: Context = ctx.obj
    if ctx.args:
        raise click.UsageError(
            "a secret must not be an argument: other users could see it. petsync asks for it. "
            "If you typed one, revoke it: it is in your shell's history.",
            ctx,
        )
    named = {
        "token": token or context.token_file is not None,
        "client": client,
        "implicit": implicit,
    }
    ways = [kind for kind, is_wanted in named.items() if is_wanted]
    if len(ways) > 1 or (api_key and ways == ["implicit"]):
        raise click.UsageError("choose one way to sign in", ctx)
    return ways[0] if ways else "key" if api_key else "code"


@dataclass(frozen=True, slots=True)
class _SignInInputs:
    """The values for a sign-in that options and settings contain; petsync asks for the others."""

    settings: Settings
    token: Secret | None
    client_id: str | None
    scopes: tuple[str, ...]
    api_key: bool = field(kw_only=True)

    def credentials(self, kind: str) -> Credentials:
        import petsync as ps

        if kind == "token":
            return ps.auth.bearer(self.token or ask_secret("access token"), api_key=self._key())
        if kind == "key":
            return ps.auth.api_key(ask_secret("API key"))
        return ps.auth.client_credentials(
            self.client_id or self.settings.client_id or ask_text("client id"),
            self.settings.client_secret or ask_secret("client secret"),
            scopes=self.scopes,
            api_key=self._key(),
        )

    def _key(self) -> Secret | None:
        return ask_secret("API key") if self.api_key else self.settings.api_key


def _await_consent(context: Context, pending: PendingSignIn, wait: float) -> Account:
    if pending.is_listening:
        # A text browser in the terminal blocks until it is closed, so do not wait for it.
        threading.Thread(target=webbrowser.open, args=[pending.url], daemon=True).start()
        context.say("Agree on the page that your browser opens. If no page opens, open:")
        context.say(pending.url, fold=False)
        with context.busy("Waiting for you to agree"):
            return pending.wait(wait)
    context.say("Open this address in a browser, on this computer or another, and agree there:")
    context.say(pending.url, fold=False)
    context.say(
        "The browser then opens another address, which usually cannot be reached. Copy this whole "
        "address from the address bar and paste it here."
    )
    return _paste_address(context, pending)


def _paste_address(context: Context, pending: PendingSignIn) -> Account:
    """Ask for the address until it is valid, at most five times, and return the account. Without a
    terminal, read it only once.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return pending.paste(ask_secret("address"))
        except PetsyncError as error:
            if not (is_interactive() and pending.is_open):
                raise
            context.say(f"{error.problem[:1].upper()}{error.problem[1:]}.", "yellow")
            context.say(f"{error.cure} Paste it again, or press Ctrl-C to end.")
    return pending.paste(ask_secret("address"))


def _has_browser() -> bool:
    if sys.platform.startswith("linux"):
        screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        if not any(os.environ.get(name) for name in screens):
            return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _conclude(context: Context, account: Account) -> int:
    from petsync.store import credentials_from_environment

    print_account(context, account)
    settings = context.settings
    names = [f"PETSYNC_{name.upper()}" for name in _SECRETS if getattr(settings, name)]
    if names:
        verbs = "is set and takes" if len(names) == 1 else "are set and take"
        effect = f"{', '.join(names)} {verbs} precedence"
        try:
            credentials_from_environment(settings)
        except SettingsError as error:
            effect = f"{error.problem}, so other commands fail"
        context.say(f"warning: {effect}; `unset {' '.join(names)}` to use this sign-in", "yellow")
    context.say(
        f"Commands, scripts and notebooks with the state folder {settings.state} use this "
        "sign-in from now on; `petsync logout` ends it."
    )
    if account.signed_in and not names:
        context.suggest("export", "catalogue.xlsx", url=False)
    return 0 if account.signed_in else 1


# Accept extra arguments, so that the usage error does not print them: they may be secrets.
login_command.allow_extra_args = True


# `petsync logout`: end the sign-in of `petsync login`.


_LOGOUT_EXAMPLES = """
petsync logout
petsync logout --url https://shop.example/v2
"""


@as_command("logout", examples=_LOGOUT_EXAMPLES)
@click.pass_obj
def logout_command(context: Context) -> int:
    """Sign out: end the sign-in of `petsync login`, and delete it.

    petsync deletes the sign-in from this computer's keyring, and asks the service to revoke its
    tokens; a token that you entered yourself is not revoked. PETSYNC_TOKEN and token files stay
    unchanged.

    Exit codes: 0, even if there was no sign-in.
    """
    with context.connect(signs_in=True) as store, context.busy("Signing out"):
        account = store.sign_out()
    was_signed_out = account.problem == NOBODY
    if context.as_json:
        print_account(context, account)
    else:
        text = "There is no sign-in at" if was_signed_out else "Signed out of"
        context.out.print(f"{text} {account.url}.", soft_wrap=True)
    if account.problem and not was_signed_out:
        context.say(f"warning: {account.problem}", "yellow")
    return 0


# `petsync trust`: confirm where a folder's petsync.toml sends secrets.


_NAME = "petsync.toml"
_TRUST_EXAMPLES = """
petsync trust
petsync trust nightly/petsync.toml --yes
petsync trust --withdraw
"""


@as_command("trust", examples=_TRUST_EXAMPLES)
@click.argument("file", type=NamedPath(), default=_NAME)
@click.option("--yes", "-y", "is_sure", is_flag=True, help="Confirm without asking.")
@click.option("--withdraw", "is_withdrawn", is_flag=True, help="Remove the confirmation.")
@click.pass_obj
def trust_command(context: Context, file: Path, is_sure: bool, is_withdrawn: bool) -> int:
    """Confirm that FILE (petsync.toml) may decide where secrets and data go.

    Shows the settings of FILE that decide this, and asks. petsync records
    the confirmation in your configuration folder; if one of these settings changes, confirm the
    file again. Without a confirmation, no token, sign-in or password goes to an address that only
    FILE names. A FILE on the command line of `petsync reconcile` needs no confirmation, unless
    it uses a variable that neither begins with PETSYNC_ nor is in the --env-file.

    Exit codes: 0 if it is confirmed (with --withdraw: no longer confirmed), 1 if it is not.
    """
    path = file / _NAME if is_folder(file) else file
    if is_withdrawn:
        was_confirmed = withdraw(path)
        context.say(
            f"{path} is no longer confirmed." if was_confirmed else f"{path} was not confirmed."
        )
        return 0
    content = _read_content(path)
    settings = _collect_settings(content)
    is_agreed_to = is_sure or is_confirmed(path, content)
    if context.as_json:
        if not is_agreed_to:
            _must_be_interactive(path)
        context.show_json({"file": str(path), "settings": [list(fact) for fact in settings]})
    elif not settings:
        context.say(f"{path} does not decide where secrets and data go.", "bold")
    else:
        context.say(f"{path} decides where secrets and data go:", "bold")
        for name, value in settings:
            context.say(f"  {name} = {value}", fold=False)
    if not (is_agreed_to or _confirm(path)):
        context.say(f"{path} is not confirmed.", "yellow")
        return 1
    confirm(path, content)
    context.say(f"{path} is confirmed; this is recorded in {record_path()}.")
    if content.get("jobs"):
        named = [] if path == Path(_NAME) else [path]
        context.suggest("reconcile", *named, "--dry-run", url=False)
    return 0


def _read_content(path: Path) -> Mapping[str, Any]:
    # Its options are only needed here.
    from petsync.config.syntax import parse_toml

    try:
        return parse_toml(read_file(path))
    except FileNotFoundError:
        raise SettingsError(f"there is no {path}", hint="There is nothing to confirm.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint=f"`petsync config check {quote(path)}` shows more.",
        ) from None


def _collect_settings(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the settings to confirm, each as its dotted key and its value. The last one lists the
    variables that the file uses.
    """
    names = [f"${{{name}}}" for name in sorted(set(names_in(content)))]
    found = relevant_settings(content)
    found.pop("${}", None)
    return [*_iter_flat(found), *([("variables", ", ".join(names))] if names else [])]


def _iter_flat(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _iter_flat(value, name)
        else:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _confirm(path: Path) -> bool:
    _must_be_interactive(path)
    return ask_yes_no("Is that right?")


def _must_be_interactive(path: Path) -> None:
    """Raise SettingsError if petsync cannot ask."""
    if not is_interactive():
        raise SettingsError(
            "the confirmation needs a terminal",
            hint=f"`petsync trust {quote(path)} --yes` confirms without asking.",
        )


# `petsync whoami`: the account and its permissions.


_WHOAMI_EXAMPLES = """
petsync whoami
petsync whoami --url https://shop.example/v2 --json
"""


@as_command("whoami", examples=_WHOAMI_EXAMPLES)
@click.pass_obj
def whoami_command(context: Context) -> int:
    """Show who you are at the service, and what you may do there.

    Shows your account, your permissions, when the sign-in expires, whether petsync renews it, and
    where it is stored. petsync uses the first of these that is set: --token-file, then the
    environment (PETSYNC_TOKEN, PETSYNC_CLIENT_ID with PETSYNC_CLIENT_SECRET, PETSYNC_API_KEY), then
    `petsync login`, then the sign-in of a job in a confirmed petsync.toml.

    Exit codes: 0 if you are signed in, or if the store asks for no sign-in; else 1.
    """
    with context.connect() as store, context.busy("Asking the service"):
        account, hint = store.who(), store.api.aio.session.credentials.hint
    print_account(context, account)
    if account.signed_in and hint:
        context.say(
            "This is the sign-in of a job, which commands use if you have none of your own."
        )
    if account.signed_in or account.is_open:
        return 0
    context.say(hint or "`petsync login` signs you in.")
    return 1
