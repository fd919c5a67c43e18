"""Shared parts of the commands: common options, console, streams, errors, exit codes, progress."""

from __future__ import annotations

import dataclasses
import errno
import getpass
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from itertools import count
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from petsync._display import complete_commands, quote, with_options
from petsync._files import find_target, is_address, is_folder
from petsync._terms import in_shell
from petsync.cli.signals import exiting_on_signal, ignore_signals
from petsync.config.settings import read_settings
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.settings import (
    HiddenEnvironment,
    JobSignIn,
    Secret,
    Settings,
    checked_address,
    read_file,
    without_scheme,
)
from petsync.trust import allowed_names, is_confirmed, note_address, used_addresses

if TYPE_CHECKING:
    from rich.console import Console

    from petsync.client.loaders import Lookups
    from petsync.models import Account
    from petsync.plan.change import Coverage
    from petsync.protocol.operations import Traffic
    from petsync.report.document import Document
    from petsync.report.progress import Step
    from petsync.store import Store

__all__ = [
    "INTERRUPTED",
    "Command",
    "Context",
    "Group",
    "as_output_error",
    "ask_secret",
    "ask_text",
    "ask_yes_no",
    "command",
    "complete_jobs",
    "complete_runs",
    "confirm",
    "env_file_option",
    "exit_code",
    "find_allowed_names",
    "find_free_path",
    "find_job_sign_ins",
    "find_last_url",
    "find_url_of_run",
    "flush_output",
    "interruptible_run",
    "is_interactive",
    "must_be_writable",
    "must_differ",
    "prepare_streams",
    "print_account",
    "read_environment",
    "report_error",
    "show_lookups",
    "show_progress",
    "warn_of_coverage",
]


# Accounts, as text or JSON.


def print_account(context: Context, account: Account) -> None:
    """Print the account on stdout, as text or as one JSON document."""
    if context.as_json:
        context.show_json(_account_data(account))
    else:
        context.show(str(account).encode(errors="backslashreplace"))


def _account_data(account: Account) -> dict[str, Any]:
    data = dataclasses.asdict(account)
    scopes = account.scopes
    return data | {"scopes": None if scopes is None else sorted(scopes)}


# Secrets from the terminal or from standard input. They are never arguments, because the process
# list and the shell's history would show them.


_MAX_INPUT = 64 * 1024
_INPUT_HINT = "Type it when petsync asks for it, or pass it on standard input, as a separate line."


def is_interactive() -> bool:
    """Return true if standard input is a terminal, on which petsync can ask the user."""
    return sys.stdin.isatty()


def ask_secret(what: str) -> Secret:
    """Ask for a secret without showing it, or read the next line if standard input is not a
    terminal.

    Raises SettingsError for empty input.
    """
    prompt = f"{_capitalize(what)} (input is hidden): "
    try:
        text = getpass.getpass(prompt, sys.stderr) if is_interactive() else _read_line()
    except EOFError:
        text = ""
    if not text.strip():
        raise SettingsError(f"no {what} was given", hint=_INPUT_HINT)
    return Secret(text.strip())


def ask_text(what: str) -> str:
    """Ask for a text that is not a secret, or read the next line if standard input is not a
    terminal. Raises SettingsError for empty input.
    """
    if is_interactive():
        sys.stderr.write(f"{_capitalize(what)}: ")
        sys.stderr.flush()
    text = _read_line().strip()
    if not text:
        raise SettingsError(f"no {what} was given", hint=_INPUT_HINT)
    return text


def confirm(context: Context, question: str, refusal: str, without_terminal: str) -> bool:
    """Ask the user, and return true for yes. Otherwise print `refusal`, and return false. Without a
    terminal, do not ask, and print `without_terminal` after `refusal`.
    """
    if sys.stdin.isatty() and sys.stderr.isatty():
        if ask_yes_no(question):
            return True
        without_terminal = "."
    context.say(f"{refusal}{without_terminal}", "bold")
    return False


def ask_yes_no(question: str, *, default: bool = False) -> bool:
    """Ask the user on the terminal, and return true for yes. What was typed before the question is
    discarded, because it cannot be an answer to it.
    """
    with suppress(ImportError):  # Windows has no termios
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
    return click.confirm(question, default=default, err=True)


def _read_line() -> str:
    return sys.stdin.readline(_MAX_INPUT)


def _capitalize(what: str) -> str:
    return what[:1].upper() + what[1:]


# Context: the common options, and the output streams.


_MAX_TOKEN = 64 * 1024
_WITHOUT_STATE = ("completion", "config", "demo", "help", "init", "serve", "trust")
"""Commands that need neither a state folder nor a store, or that use their own."""
_SIGNING_IN = ("doctor", "login", "whoami")
"""Commands that need the store's address, which neither a file nor a run names."""
_STORE_MODULES = ("petsync.store", "petsync.report.text")
"""Modules that are slow to import and that every command with a store needs."""


@dataclass(slots=True)
class Context:
    """The common options, set while they are parsed, and the two output streams."""

    url: str | None = None
    profile: str | None = None
    state: str | None = None
    token_file: str | None = None
    allow_http: tuple[str, ...] = ()
    as_json: bool = False
    verbose: int = 0

    @property
    def out(self) -> Console:
        """The console for results."""
        return _console(sys.stdout)

    @property
    def err(self) -> Console:
        """The console for messages to the user."""
        return _console(sys.stderr)

    @property
    def text_console(self) -> Console:
        """The console for text: standard output or, with --json, standard error."""
        return self.err if self.as_json else self.out

    def say(self, text: str, style: str = "", *, fold: bool = True) -> None:
        """Print a message to the user, folded to the terminal's width, or to 80 columns without a
        terminal. Control characters are made visible, and commands in it are completed.
        """
        from petsync.cli.console import fold_text
        from petsync.table.cells import make_visible

        err, shown = self.err, make_visible(self.complete(text), keep="\n")
        err.print(fold_text(shown, err.width) if fold else shown, style=style, soft_wrap=True)

    def suggest(
        self, *words: object, title: str = "Next", repeat: Collection[str] | None = (), url: bool
    ) -> None:
        """Print the command that usually comes next, as `command_line` returns it; nothing with
        --json, or if the command would read standard input again.
        """
        if not self.as_json and Path("-") not in words:
            line = self.command_line(*words, repeat=repeat, url=url)
            self.say(f"{title}: {line}", "bold", fold=False)

    def command_line(
        self, *words: object, repeat: Collection[str] | None = (), url: bool = True
    ) -> str:
        """Return a command of petsync, as one line to copy.

        It has the common options of this command, --url only with `url`, and this command's other
        options whose parameters are in `repeat`; None means all.
        """
        options = [*_own_options(click.get_current_context(), repeat), *self._common_words(url=url)]
        return " ".join(map(quote, ["petsync", *words, *options]))

    def complete(self, text: str) -> str:
        """Return a message for a shell, in which each command, such as `petsync resume RUN`, has
        the common options of this command that it needs to find the same state folder and store.
        """

        def complete(line: str) -> str:
            name = line.split()[1]
            if name in _WITHOUT_STATE:
                return line
            return with_options(
                line, [*self._common_words(url=name in _SIGNING_IN, token=name != "login")]
            )

        return complete_commands(in_shell(text), complete)

    def _common_words(self, *, url: bool, token: bool = True) -> Iterator[str]:
        given = {
            "--url": self.url if url else None,
            "--profile": self.profile,
            "--state": self.state,
            "--token-file": self.token_file if token else None,
        }
        for name, value in given.items():
            if value:
                yield from (name, value)
        for host in self.allow_http:
            yield from ("--allow-http", host)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Show the text on a terminal while the block runs."""
        err = self.err
        return err.status(f"{text} …") if err.is_terminal else nullcontext()

    def show(self, document: bytes) -> None:
        """Write a document to stdout, with exactly one newline at its end."""
        sys.stdout.flush()
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()

    def show_view(self, view: Document) -> None:
        """Print a document to stdout, as text."""
        from petsync.report.text import show

        show(view, self.out)

    def show_json(self, value: object) -> None:
        """Write a value to stdout, as one JSON document."""
        import msgspec

        self.show(msgspec.json.format(msgspec.json.encode(value), indent=2))

    @contextmanager
    def log_to_stderr(self) -> Iterator[None]:
        """With -v, send petsync's log of level INFO to stderr while the block runs; with -vv, of
        level DEBUG.
        """
        log, handler = logging.getLogger("petsync"), logging.StreamHandler(sys.stderr)
        handler.setFormatter(_SafeFormatter("%(asctime)s %(name)s: %(message)s"))
        before = log.level
        if self.verbose:
            log.setLevel(logging.INFO if self.verbose == 1 else logging.DEBUG)
            log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before)

    @property
    def settings(self) -> Settings:
        """The settings from options, environment and petsync.toml. Raises SettingsError."""
        return read_settings(self._arguments(), os.environ, Path())

    def connect(
        self,
        find_url: Callable[[], tuple[str, str]] = lambda: ("", ""),
        *,
        find_job: Callable[[Path], str] = lambda _: "",
        signs_in: bool = False,
        ignores_client: bool = False,
    ) -> Store:
        """Return the store that the options name. Raises SettingsError. Sends nothing, except GET
        requests without credentials if the address has no path: it may lack /v2.

        If they name none, petsync uses and shows the first of these addresses: the one that
        `find_url` finds in the command's input, that of the last sign-in, that of all runs if it is
        the same. `find_url` returns the address and where it is from, or "". `ignores_client`:
        ignore the client id and secret of the environment, because the sign-in uses them itself, or
        asks for them.

        Without another sign-in, petsync uses a job's own sign-in for this store from a confirmed
        petsync.toml, except in commands that sign in or out (`signs_in`). `find_job` takes the
        state folder, and returns the job that the command is about, or "".
        """
        with exiting_on_signal():
            for name in _STORE_MODULES:
                import_module(name)
        import petsync as ps
        from petsync.client.transport import has_client_certificate
        from petsync.store import store_of

        environ = dict(os.environ)
        if ignores_client:
            for name in ("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET"):
                environ.pop(name, None)
        auth = None
        source = self.token_file
        if source is not None:
            environ["PETSYNC_TOKEN"] = self._read_token(source)
            key = self.settings.api_key
            if _is_read_once(source):
                auth = ps.auth.bearer(environ["PETSYNC_TOKEN"], api_key=key)
            else:
                # Another program may renew the token, so the file is read again after a 401.
                auth = ps.auth.from_file(source, api_key=key)
        settings = read_settings(self._arguments(), environ, Path())
        if settings.url is None:
            settings = self._with_found_url(settings, find_url)
        elif settings.address_note:
            self.say(settings.address_note, fold=False)
        settings = self._with_job_sign_ins(settings, None if signs_in else find_job)
        store = store_of(settings, auth=auth)
        if version := self._find_version(store):
            settings = dataclasses.replace(settings, url=store.url + version)
            store.close()
            store = store_of(settings, auth=auth)
            self.say(f"Store: {store.url} ({version} was missing)", fold=False)
            self.url = self.url and store.url
        identifies = store.api.aio.session.credentials or has_client_certificate(store.url)
        if identifies and not settings.unconfirmed:
            note_address(settings.state, store.url)
        return store

    def _with_job_sign_ins(
        self, settings: Settings, find_job: Callable[[Path], str] | None
    ) -> Settings:
        """Return the settings with the sign-in of the job that the command is about, or with those
        of all jobs; with none if `find_job` is None. The jobs are those of the folder's
        petsync.toml, else those of the last round with the state folder.
        """
        if find_job is None:
            return dataclasses.replace(settings, job_sign_ins=())
        found = settings.job_sign_ins
        has_own = settings.token is not None or settings.client_secret is not None
        if not (found or has_own or Path("petsync.toml").exists()):
            found = find_job_sign_ins(settings.state)
        job = find_job(settings.state) if len(found) > 1 else ""
        own = tuple(each for each in found if each.job == job)
        return dataclasses.replace(settings, job_sign_ins=own or found)

    def _find_version(self, store: Store) -> str:
        """Return the part that the store's address lacks, "" if it lacks none."""
        if urlsplit(store.url).path:
            return ""
        import asyncio

        from petsync.client.probe import find_version

        with self.busy("Asking the service"):
            return asyncio.run(find_version(store.api.aio.session))

    def _with_found_url(
        self, settings: Settings, find_url: Callable[[], tuple[str, str]]
    ) -> Settings:
        """Return the settings with the address of a store that the options do not name, and show
        it; return the same settings if there is none.
        """
        url, url_from = find_url()
        if not url:
            url, url_from = find_last_url(settings.state)
        if not url:
            return settings
        found = settings.with_found(url, url_from)
        self.say(f"Store: {found.url} (from {url_from})", fold=False)
        return found

    def take_token(self) -> Secret | None:
        """Remove and return the token of --token-file for a sign-in, None if there is none. A store
        that connects afterwards does not use it.
        """
        source, self.token_file = self.token_file, None
        return None if source is None else Secret(self._read_token(source))

    def variables(self) -> dict[str, str]:
        """Return the options as environment variables, for the code that reads a configuration."""
        values = {"URL": self.url, "PROFILE": self.profile, "STATE": self.state}
        if self.token_file is not None:
            values["TOKEN"] = self._read_token(self.token_file)
        return {f"PETSYNC_{name}": text for name, text in values.items() if text}

    def _arguments(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "profile": self.profile,
            "state": self.state,
            "allow_http": self.allow_http or None,
        }

    def _read_token(self, name: str) -> str:
        if name == "-" and sys.stdin.isatty():
            return _check_token(getpass.getpass("Access token: ", sys.stderr), "what was typed")
        if name == "-":
            return _check_token(sys.stdin.read(_MAX_TOKEN), "standard input")
        path = Path(name)
        try:
            if _is_read_once(name):
                with path.open(encoding="utf-8-sig") as pipe:
                    return _check_token(pipe.read(_MAX_TOKEN), str(path))
            text = read_file(path)[:_MAX_TOKEN]
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            # A user may have given the token itself, which must not be shown.
            named = f" {path}" if lexists(path) else ""
            raise SettingsError(
                f"--token-file{named} cannot be read: {reason}",
                hint="Name the file that contains the access token, or - for standard input.",
            ) from None
        if os.name == "posix" and mode & 0o077:
            self.say(
                f"warning: other users can read {path}; `chmod 600 {shlex.quote(name)}` makes it "
                "private",
                "yellow",
            )
        return _check_token(text, str(path))


def find_last_url(state: Path) -> tuple[str, str]:
    """Return the address of the last sign-in with this state folder, else that of the newest run,
    and where it is from; "" for both if there is none.
    """
    signed_in = used_addresses(state).signed_in
    return (signed_in, "the last sign-in") if signed_in else find_url_of_run(state)


def find_job_sign_ins(state: Path) -> tuple[JobSignIn, ...]:
    """Return the sign-ins of the jobs in the petsync.toml of the last round with this state folder;
    none if this file names another state folder.
    """
    # If the folder cannot be read, the journal's error says so.
    if not is_folder(state / "reconcile"):
        return ()
    from petsync.config.read import read_document
    from petsync.config.settings import read_job_sign_ins
    from petsync.reconcile.state import History

    with suppress(PetsyncError):
        again = [each.again for each in History(state).rounds(limit=1)]
        document = read_document(Path(again[0][0])) if again and again[0] else None
        if document is not None:
            own = document.named.parent / Path(str(document.raw.get("state", ".petsync")))
            if os.path.realpath(own.expanduser()) == os.path.realpath(state):
                confirmed = is_confirmed(document.named, document.raw)
                return read_job_sign_ins(document, os.environ, is_confirmed=confirmed)
    return ()


def find_url_of_run(state: Path, name: str = "") -> tuple[str, str]:
    """Return the address of the store of the runs whose ids begin with `name`, and the newest of
    them; "" for both if there is none, or if they are on several stores.
    """
    from petsync.apply.journal import Journal, find_runs_named

    runs = Journal.open(state, create=False).runs()
    found = find_runs_named(runs, name) if name else runs
    is_clear = len({run.store for run in found}) == 1
    return (found[0].store, f"run {found[0].run_id}") if is_clear else ("", "")


_ARGUMENTS = "petsync.arguments"


def _own_options(ctx: click.Context, names: Collection[str] | None) -> Iterator[str]:
    """Yield the words of the command's given options, without the common ones. `names` selects
    options by their parameters; None means all.
    """
    given, _, _ = ctx.command.make_parser(ctx).parse_args(list(ctx.meta.get(_ARGUMENTS, ())))
    for param in ctx.command.params:
        if not isinstance(param, click.Option) or isinstance(param, _CommonOption):
            continue
        if param.name in given and (names is None or param.name in names):
            value = given[param.name]
            for each in value if isinstance(value, list) else [value]:
                yield from _option_words(param, each)


def _option_words(option: click.Option, value: Any) -> list[str]:
    name = max(option.opts, key=len)
    return [name] if option.is_flag else [name, str(value)]


class _SafeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the lines, with control characters escaped, folded for the terminal."""
        from petsync.report.text import log_text

        return log_text(super().format(record).split("\n"), sys.stderr)


def _is_read_once(name: str) -> bool:
    """Return true for standard input and for the pipe that a shell makes of `<(command)`. Opening
    any other pipe may wait forever.
    """
    path = Path(name)
    return name == "-" or (path.parent == Path("/dev/fd") and path.is_fifo())


def _check_token(text: str, where: str) -> str:
    token = without_scheme(text)
    if not token or len(token.split()) > 1:
        problem = "is empty" if not token else "contains more than one word"
        raise SettingsError(
            f"--token-file: {where} {problem}",
            hint="It must contain the access token and nothing else.",
        )
    return token


def _console(stream: Any) -> Console:
    # Import rich only to print something.
    from petsync.cli.console import console

    return console(stream)


# Commands whose help lists their options and the common ones separately.


_FLAGS = frozenset({"as_json", "verbose"})


class _CommonOption(click.Option):
    """An option of every command, before or after the command's name. If it is given twice, the
    later value counts; the values of a repeatable option are collected.
    """

    def __init__(self, *declarations: str, **attributes: Any) -> None:
        super().__init__(
            list(declarations), expose_value=False, callback=_store_option, **attributes
        )


def _store_option(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value and option.name is not None:
        context = ctx.ensure_object(Context)
        before = getattr(context, option.name)
        adds_up = isinstance(value, tuple) or (isinstance(value, int) and value is not True)
        setattr(context, option.name, before + value if adds_up else value)


def _common_options() -> list[click.Parameter]:
    return [
        _CommonOption(
            "--url",
            metavar="URL",
            help="The service's address, such as https://host/v2.  [from the plan, export or "
            "run, else the last sign-in or run]",
        ),
        _CommonOption(
            "--profile",
            metavar="NAME",
            help="How the service behaves: standard or live (docs/profiles.md).",
        ),
        _CommonOption(
            "--state", metavar="DIR", help="The state folder, with the journal.  [.petsync]"
        ),
        _CommonOption(
            "--token-file",
            metavar="FILE",
            help="A file with the access token; - for standard input.",
        ),
        _CommonOption(
            "--allow-http",
            metavar="HOST",
            multiple=True,
            help="A host that may receive the token over plain http; repeatable.",
        ),
        _CommonOption(
            "--json",
            "as_json",
            is_flag=True,
            help="Print one JSON document on stdout, for programs.",
        ),
        _CommonOption(
            "-v", "--verbose", count=True, help="Print more, with tracebacks.  [-vv: everything]"
        ),
    ]


class _Sections(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two sections, first those of this command only."""
        for title, records in self.option_sections(ctx):
            with formatter.section(title):
                formatter.write_dl(records)

    def option_sections(self, ctx: click.Context) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the non-empty sections of options: title, and each option with its help."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if isinstance(option, click.Option) and record is not None:
                (shared if isinstance(option, _CommonOption) else own).append(record)
        sections = (("Options", own), ("Options of every command", shared))
        return [(title, records) for title, records in sections if records]


class Command(_Sections):
    """A command; its function's result is the exit code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _common_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them for the suggestion of the next command."""
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command's function, with its log on stderr if -v is given."""
        with ctx.ensure_object(Context).log_to_stderr():
            return super().invoke(ctx)


class Group(_Sections, click.Group):
    """A group of commands. `places` has the places of commands (`module:attribute`) that are
    imported when they are first used.
    """

    def __init__(self, *args: Any, places: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _common_options()
        self._places = places or {}

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands in the order in which the help lists them."""
        return list(dict.fromkeys([*self._places, *self.commands]))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; `help COMMAND` means `COMMAND --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None."""
        place = self._places.get(cmd_name)
        if place is not None and cmd_name not in self.commands:
            module, _, attribute = place.partition(":")
            with exiting_on_signal():
                loaded = import_module(module)
            self.add_command(getattr(loaded, attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command. The error for an unknown name suggests similar names."""
        if self.get_command(ctx, args[0]) is None:
            for name in self.list_commands(ctx):  # click suggests only commands that it has
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def command(name: str, *, examples: str) -> Callable[[Callable[..., int]], Command]:
    """Return a decorator that makes a function a command. The docstring is the help, each line of
    `examples` an invocation, and the function's result the exit code.
    """
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return click.command(name, cls=Command, epilog=epilog)


# Errors, as text or JSON, and their exit codes.


_USAGE = 64
INTERRUPTED = 130
_ABORTED = (click.Abort, KeyboardInterrupt)


def exit_code(error: BaseException) -> int:
    """Return the exit code for this error."""
    return _describe_error(error)[2]


def report_error(error: BaseException, context: Context, arguments: Sequence[str]) -> int:
    """Print the error, and return its exit code; if parsing failed, `arguments` determine whether
    JSON is printed.
    """
    as_json = context.as_json or "--json" in arguments
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        error.show()
        return _USAGE
    message, hint, code = _describe_error(error)
    message = in_shell(message)
    hint = context.complete(hint)
    if context.verbose and not isinstance(error, (click.ClickException, *_ABORTED)):
        context.say("".join(traceback.format_exception(error)).rstrip(), fold=False)
    if as_json:
        document = {"type": _error_type(error), "message": message, "hint": hint, "exit_code": code}
        context.show_json({"error": document})
    else:
        context.say(f"error: {message}", "bold red")
        for line in hint.splitlines():
            context.say(line)
    return code


def _describe_error(error: BaseException) -> tuple[str, str, int]:
    if isinstance(error, PetsyncError):
        return error.problem, error.cure, error.exit_code
    if isinstance(error, _ABORTED):
        return "interrupted", "", INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return "no command was given", _help_hint(error), _USAGE
    if isinstance(error, click.ClickException):
        # click lists the choices of a missing argument in lines with tabs.
        return error.format_message().replace("\n\t", " "), _help_hint(error), _USAGE
    if isinstance(error, MemoryError):
        return "there is not enough memory", "", 1
    reason = " ".join(str(error).split())[:300]
    return (
        f"unexpected: {type(error).__name__}: {reason}",
        "This is a bug in petsync. Please report it, with the output of the same command with -v.",
        1,
    )


def _error_type(error: BaseException) -> str:
    if isinstance(error, _ABORTED):
        return "Interrupted"
    return "UsageError" if isinstance(error, click.ClickException) else type(error).__name__


def _help_hint(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is not None and isinstance(error, click.NoSuchOption):
        is_yes = error.option_name in ("--yes", "-y")
        if is_yes and isinstance(ctx.command, Command) and ctx.info_name != "login":
            return f"Leave it out: `{ctx.command_path}` does not ask."
    return f"See `{ctx.command_path} --help`." if ctx is not None else "See `petsync --help`."


# Files that commands write must never replace the sheet that they read.


class NamedPath(click.Path):
    """The path of a file or a folder, as a Path. An empty name, such as that of an unset variable,
    is a usage error: as a path, it would be the current folder.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises UsageError for an empty name."""
        if value == "":
            self.fail("the name is empty.", param, ctx)
        return super().convert(value, param, ctx)


class SheetPath(NamedPath):
    """The path of a sheet or a folder, as a Path; an address, such as s3://bucket/pets, as str."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value as described. Raises SettingsError for an address with a secret, and
        UsageError for an empty name.
        """
        return checked_address(value) if is_address(value) else super().convert(value, param, ctx)


def must_differ(target: Path, source: Path | str) -> None:
    """Raise UsageError if the target is the input file, or the file with the base of the input."""
    if isinstance(source, str):
        return
    with exiting_on_signal():
        from petsync.sheets.sidecar import sidecar_path
    for each, what in ((source, "the input"), (sidecar_path(source), "the base of the input")):
        if lexists(target) and each.exists() and target.exists() and target.samefile(each):
            raise click.UsageError(f"{target} is {what}: it would be overwritten.")


def must_be_writable(target: Path) -> None:
    """Raise UsageError if the file cannot be written, for example because its folder does not
    exist.
    """
    try:
        folder = find_target(target).parent
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written: {error.strerror}.") from None
    if not folder.is_dir():
        raise click.UsageError(f"{target}: there is no folder {folder}; create it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.UsageError(
            f"{target}: you do not have permission to write to the folder {folder}."
        )


def find_free_path(path: Path) -> Path:
    """Return the path if it does not exist, else the first of `name-2.ext`, `name-3.ext`, … that
    does not exist. A symbolic link counts as existing, even if its target does not exist.
    """
    candidates = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return path if not lexists(path) else next(name for name in candidates if not lexists(name))


# Warnings about failed queries of the store.


def warn_of_coverage(context: Context, coverage: Coverage) -> None:
    """Warn about statuses whose pets the store did not list, and about the effect on a plan."""
    for lookup in coverage.failed:
        message = f"warning: no pet with the status {lookup.query} was listed: {lookup.problem}"
        context.say(message, "yellow")
    if coverage.failed:
        context.say(
            "If a row names such a pet, petsync looks the pet up by id. No such pet is deleted as "
            "missing."
        )


# Interrupted runs.


@contextmanager
def interruptible_run(context: Context) -> Iterator[None]:
    """Raise InterruptedRunError, which names the run, if Ctrl-C ends the block after the run
    started; if it ends the block earlier, raise click.Abort.
    """
    since = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        with ignore_signals():
            run = _find_own_run(context, since)
        if run is None:
            raise click.Abort from None
        raise InterruptedRunError(
            f"run {run} was interrupted",
            hint=f"`petsync resume {run}` determines the outcome of requests that were under way, "
            "and sends the remaining changes.",
        ) from None


def _find_own_run(context: Context, since: str) -> str | None:
    """Return the newest run that this process has worked on since a time; None if there is none."""
    from petsync.apply.journal import Journal

    try:
        return Journal.open(context.settings.state, create=False).find_run_of_process(since)
    except PetsyncError:
        return None


# Shell completion of jobs, runs and rounds.


_MAX_COMPLETIONS = 50


def complete_jobs(ctx: click.Context, _: click.Parameter, prefix: str) -> list[str]:
    """Return the names of the jobs in the given configuration, else in petsync.toml."""
    from petsync.config.syntax import parse_toml
    from petsync.settings import read_file

    found: list[str] = []
    path = Path(ctx.params.get("config") or "petsync.toml")
    # Completion cannot report errors.
    with suppress(OSError, ValueError):
        jobs = parse_toml(read_file(path)).get("jobs", {})
        found = [name for name in jobs if name.startswith(prefix)]
    return found


def complete_runs(_: click.Context, __: click.Parameter, prefix: str) -> list[str]:
    """Return the ids of the newest runs and rounds in the state folder, the newest first."""
    from petsync.errors import PetsyncError
    from petsync.reconcile.state import History
    from petsync.store.runs import RunHistory

    with suppress(PetsyncError, OSError):
        state = read_settings({}, os.environ, Path()).state
        ids = [run.run_id for run in RunHistory(state).runs()]
        ids += [round_.id for round_ in History(state).rounds()]
        return sorted((each for each in ids if each.startswith(prefix)), reverse=True)[
            :_MAX_COMPLETIONS
        ]
    return []


# Progress of runs and look-ups: a bar on a terminal, else occasional lines.


_MIN_FOR_BAR = 300
"""The minimum number of look-ups for which a bar is shown."""


@contextmanager
def show_progress(
    console: Console,
    total: int,
    text: str = "Applying",
    *,
    unit: str = "changes",
    traffic: Callable[[], Traffic] | None = None,
    lines: int = 0,
) -> Iterator[Callable[[Step], None]]:
    """Yield a function to call with each step of a run of `total` changes, 0 if the total is in the
    steps. It can be called from any thread and never raises: a closed terminal must not end a run.

    `traffic` returns the state of the requests, with which the bar shows a pause. Without a
    terminal nothing is printed, or occasional lines if `lines` is not 0.
    """
    # Import the bar only to show it.
    from petsync.report.progress import run_bar

    with run_bar(
        total,
        text=text,
        unit=unit,
        file=console.file,
        show=True if lines else None,
        traffic=traffic,
    ) as step:
        yield step


@contextmanager
def show_lookups(console: Console, text: str) -> Iterator[Callable[[Lookups], None]]:
    """Show `text` on a terminal, and a bar while many pets are looked up by id; without a terminal,
    print occasional lines. Yield a function to call with each step; it never raises.
    """
    from petsync.report.progress import run_bar

    if not console.is_terminal:
        with run_bar(unit="pets looked up", file=console.file, show=True) as step:
            yield step
        return
    busy = console.status(f"{text} …")
    bar: Callable[[Lookups], None] | None = None
    bars = ExitStack()

    def update(lookups: Lookups) -> None:
        nonlocal bar
        if lookups.total < _MIN_FOR_BAR:
            return
        with suppress(OSError, ValueError):
            if bar is None:
                busy.stop()
                bar_context = run_bar(
                    text="Looking up", unit="pets by id", file=console.file, delay=0
                )
                bar = bars.enter_context(bar_context)
            bar(lookups)
            if lookups.done == lookups.total:
                bars.close()
                busy.start()

    busy.start()
    try:
        with bars:
            yield update
    finally:
        with suppress(OSError, ValueError):
            busy.stop()


# The standard streams: closed pipes, a full disk.


_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def prepare_streams() -> None:
    """Configure the standard streams, so that characters that they cannot encode cause no error.

    Raises PetsyncError if standard output is closed (`>&-`).
    """
    # Hide messages of asyncio and aiohttp about an interrupted run.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    if sys.stdin is None:
        sys.stdin = _open_devnull("r")
    is_closed = sys.stdout is None
    if is_closed:
        sys.stdout = _open_devnull("w")
    if sys.stderr is None:
        sys.stderr = _open_devnull("w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if is_closed:
        raise PetsyncError(
            "standard output is closed; nothing was done",
            hint=f"Use >{os.devnull} to discard it.",
        )


def flush_output() -> OSError | None:
    """Flush the streams, and return the error of standard output, None if there is none. Broken
    streams are redirected to the null device, because the last flush of the process would fail
    again.
    """
    _flush(sys.stderr)
    return _flush(sys.stdout)


def as_output_error(error: BaseException) -> OSError | None:
    """Return the error if it probably comes from writing to a standard stream, else None."""
    if not isinstance(error, OSError) or isinstance(error, PetsyncError):
        return None
    if error.filename is None and error.errno in _OUTPUT:
        return error
    return None


def _open_devnull(mode: str) -> Any:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _flush(stream: Any) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


# `--env-file`: variables from a file, for commands that read the whole petsync.toml.


env_file_option = click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read environment variables from the lines NAME=value of a file such as petsync.env; "
    "variables of the process take precedence.",
)
"""The decorator that adds the option `--env-file` to a command."""


def find_allowed_names(
    environ: Mapping[str, str], file: Path | None, *, is_named: bool
) -> frozenset[str]:
    """Return the variables that an unconfirmed petsync.toml may use: those listed in
    PETSYNC_VARIABLES, and those that `file` (of `--env-file`) sets.

    If the user has named the petsync.toml, it may also use PETSYNC_* variables. Otherwise it may
    use those of `file` only if they are not PETSYNC_* variables, and the process does not have
    them. The result never contains petsync's variables for secrets: only settings for secrets may
    use them. Raises SettingsError.
    """
    from petsync.config.variables import read_variables

    listed = set(read_variables(file)) if file is not None else set[str]()
    if is_named:
        return allowed_names(environ, listed, is_named=True)
    # The author of the petsync.toml may have written this file too: it can set its own variables,
    # but cannot permit other variables of the process.
    own = {name for name in listed - {*os.environ} if not name.startswith("PETSYNC_")}
    return allowed_names(os.environ, own)


def read_environment(context: Context, file: Path | None) -> Mapping[str, str]:
    """Return the environment variables of the process, and those variables of the file that are
    not set, or empty, in the process. Raises SettingsError.
    """
    if file is None:
        return os.environ
    from petsync.config.variables import read_variables

    variables = read_variables(file)
    if os.name == "posix" and file.stat().st_mode & 0o077:
        context.say(
            f"warning: other users can read {file}; `chmod 600 {shlex.quote(str(file))}` makes it "
            "private",
            "yellow",
        )
    return HiddenEnvironment(
        {**variables, **{name: text for name, text in os.environ.items() if text}}
    )
