"""What every command shares: common options, console, streams, errors and exit codes, progress."""

from __future__ import annotations

import dataclasses
import errno
import getpass
import logging
import os
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
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

import click

from petsync._files import landing
from petsync.cli.signals import ignore_signals, loading
from petsync.errors import InterruptedRunError, PetsyncError, SettingsError
from petsync.settings import HiddenEnvironment, Secret, Settings, read_confirmed, read_file, resolve
from petsync.trust import allowed_names

if TYPE_CHECKING:
    from rich.console import Console

    from petsync.client.loaders import Lookups
    from petsync.models import Account
    from petsync.plan.change import Coverage
    from petsync.plan.report import Progress
    from petsync.protocol.operations import Traffic
    from petsync.store import Store

__all__ = [
    "INTERRUPTED",
    "Command",
    "Context",
    "Group",
    "ask",
    "ask_secret",
    "command",
    "environment",
    "exit_code",
    "flush_output",
    "free",
    "interruptible_run",
    "is_interactive",
    "jobs",
    "keep_apart",
    "looked_up",
    "must_be_writable",
    "names",
    "of_output",
    "option",
    "prepare",
    "print_account",
    "runs",
    "show_progress",
    "tell",
    "warn",
]


# An account as commands show it.


def print_account(context: Context, account: Account) -> None:
    """Put the account on stdout: as text, or as the one JSON document."""
    if context.as_json:
        context.show_json(_document(account))
    else:
        context.show(str(account).encode(errors="backslashreplace"))


def _document(account: Account) -> dict[str, Any]:
    said = dataclasses.asdict(account)
    scopes = account.scopes
    return said | {"scopes": None if scopes is None else sorted(scopes)}


# Secrets that a person types, or a pipe hands over. None is ever an argument: those show in the
# list of processes, and in the shell's history.


_MOST = 64 * 1024
_WAY_OUT = "Type it when asked for it, or hand it over on standard input, as a line of its own."


def is_interactive() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty()


def ask_secret(what: str) -> Secret:
    """What is typed without being shown; or standard input's next line, where it is no terminal.

    Raises SettingsError where there is none.
    """
    prompt = f"{_capital(what)} (it does not show): "
    try:
        text = getpass.getpass(prompt, sys.stderr) if is_interactive() else _line()
    except EOFError:
        text = ""
    if not text.strip():
        raise SettingsError(f"no {what} was given", hint=_WAY_OUT)
    return Secret(text.strip())


def ask(what: str) -> str:
    """The same for what is no secret, and shows."""
    if is_interactive():
        sys.stderr.write(f"{_capital(what)}: ")
        sys.stderr.flush()
    text = _line().strip()
    if not text:
        raise SettingsError(f"no {what} was given", hint=_WAY_OUT)
    return text


def _line() -> str:
    return sys.stdin.readline(_MOST)


def _capital(what: str) -> str:
    return what[:1].upper() + what[1:]


# What every command works with: the options that all of them have, and where it speaks.


_MAX_TOKEN = 64 * 1024
_HEAVY = ("petsync.store", "petsync.report.show", "petsync.report.show")
"""What takes long to import, and every command with a store needs."""


@dataclass(slots=True)
class Context:
    """The options that every command has, filled in while they are read, and the two streams."""

    url: str | None = None
    profile: str | None = None
    state: str | None = None
    token_file: str | None = None
    allow_http: tuple[str, ...] = ()
    as_json: bool = False
    verbose: int = 0

    @property
    def out(self) -> Console:
        """Where results go."""
        return _console(sys.stdout)

    @property
    def err(self) -> Console:
        """Where everything that is said to a person goes."""
        return _console(sys.stderr)

    @property
    def talk(self) -> Console:
        """Where a text for people goes that is a result unless JSON is."""
        return self.err if self.as_json else self.out

    def say(self, text: str, style: str = "", *, fold: bool = True) -> None:
        """Lines to a person, folded to the terminal's width, or to 80 columns where there is none;
        what a service or a sheet put into them cannot steer the terminal.
        """
        from petsync.cli.console import fold_text
        from petsync.table.cells import visible

        err, shown = self.err, visible(text, keep="\n")
        err.print(fold_text(shown, err.width) if fold else shown, style=style, soft_wrap=True)

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Meanwhile a terminal shows what takes so long."""
        err = self.err
        return err.status(f"{text} …") if err.is_terminal else nullcontext()

    def show(self, document: bytes) -> None:
        """A whole document on stdout, as it is."""
        sys.stdout.flush()
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()

    def show_json(self, value: object) -> None:
        """A value as the one JSON document on stdout."""
        import msgspec

        self.show(msgspec.json.format(msgspec.json.encode(value), indent=2))

    @contextmanager
    def log_to_stderr(self) -> Iterator[None]:
        """Meanwhile, petsync's log goes to stderr: with -v what was repeated, with -vv all."""
        log, handler = logging.getLogger("petsync"), logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Harmless("%(asctime)s %(name)s: %(message)s"))
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
        """The options, the environment and petsync.toml together. Raises SettingsError."""
        toml, confirmed = read_confirmed(Path.cwd())
        return resolve(self._arguments(), os.environ, toml, confirmed=confirmed)

    def connect(self, *, asks_client: bool = False) -> Store:
        """The store that the options name. Nothing is sent yet. Raises SettingsError.

        `asks_client`: of a client's id and secret a person is asked for what is not set.
        """
        with loading():
            for name in _HEAVY:
                import_module(name)
        import petsync as ps

        environ = dict(os.environ)
        if asks_client:
            for name in ("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET"):
                environ.pop(name, None)
        auth = None
        source = self.token_file
        if source is not None:
            environ["PETSYNC_TOKEN"] = self._token(source)
            key = self.settings.api_key
            if source == "-":
                auth = ps.auth.bearer(environ["PETSYNC_TOKEN"], api_key=key)
            else:
                # Another program may keep it fresh: after a refusal it is read again.
                auth = ps.auth.from_file(source, api_key=key)
        return ps.connect(environ=environ, auth=auth, **self._arguments())

    def taken_token(self) -> Secret | None:
        """The token of --token-file, if there is one, to sign in with; the store that is connected
        to after this does not use it by itself.
        """
        source, self.token_file = self.token_file, None
        return None if source is None else Secret(self._token(source))

    def variables(self) -> dict[str, str]:
        """The options as the variables that say the same, for what reads a configuration."""
        given = {"URL": self.url, "PROFILE": self.profile, "STATE": self.state}
        if self.token_file is not None:
            given["TOKEN"] = self._token(self.token_file)
        return {f"PETSYNC_{name}": text for name, text in given.items() if text}

    def _arguments(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "profile": self.profile,
            "state": self.state,
            "allow_http": self.allow_http or None,
        }

    def _token(self, name: str) -> str:
        if name == "-" and sys.stdin.isatty():
            return _one_line(getpass.getpass("Access token: ", sys.stderr), "what was typed")
        if name == "-":
            return _one_line(sys.stdin.read(_MAX_TOKEN), "standard input")
        path = Path(name)
        try:
            text = read_file(path)[:_MAX_TOKEN]
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError(f"--token-file {path} cannot be read: {reason}") from None
        if os.name == "posix" and mode & 0o077:
            self.say(
                f"warning: others can read {path}; `chmod 600 {path}` keeps it yours", "yellow"
            )
        return _one_line(text, str(path))


class _Harmless(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The lines, with whatever could steer a terminal escaped, and folded for one."""
        from petsync.report.text import log_text

        return log_text(super().format(record).split("\n"), sys.stderr)


def _one_line(text: str, where: str) -> str:
    token = text.strip()
    if not token or len(token.split()) > 1:
        what = "empty" if not token else "more than one word"
        raise SettingsError(
            f"--token-file: {where} is {what}", hint="It holds the access token and nothing else."
        )
    return token


def _console(stream: Any) -> Console:
    # rich is loaded when something is said.
    from petsync.cli.console import console

    return console(stream)


# Commands whose help tells their own options from those that every command has.


_FLAGS = frozenset({"as_json", "verbose"})


class _Everywhere(click.Option):
    """An option that every command has, before or after the command's name; the later one counts,
    and one that can be repeated adds up.
    """

    def __init__(self, *declarations: str, **attributes: Any) -> None:
        super().__init__(list(declarations), expose_value=False, callback=_remember, **attributes)


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value and option.name is not None:
        context = ctx.ensure_object(Context)
        before = getattr(context, option.name)
        adds_up = isinstance(value, tuple) or (isinstance(value, int) and value is not True)
        setattr(context, option.name, before + value if adds_up else value)


def _everywhere() -> list[click.Parameter]:
    return [
        _Everywhere("--url", metavar="URL", help="The service's address, such as https://host/v2."),
        _Everywhere(
            "--profile",
            metavar="NAME",
            help="How the service behaves: standard or live (docs/profiles.md).",
        ),
        _Everywhere(
            "--state", metavar="DIR", help="The state folder, with the journal.  [.petsync]"
        ),
        _Everywhere(
            "--token-file",
            metavar="FILE",
            help="A file with the access token; - for standard input.",
        ),
        _Everywhere(
            "--allow-http",
            metavar="HOST",
            multiple=True,
            help="A host that may receive the token over plain http; repeatable.",
        ),
        _Everywhere(
            "--json",
            "as_json",
            is_flag=True,
            help="Print one JSON document on stdout, for programs.",
        ),
        _Everywhere(
            "-v", "--verbose", count=True, help="Print more, with tracebacks.  [-vv: everything]"
        ),
    ]


class _Sections(click.Command):
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in two sections, the command's own first."""
        for title, records in self.option_sections(ctx):
            with formatter.section(title):
                formatter.write_dl(records)

    def option_sections(self, ctx: click.Context) -> list[tuple[str, list[tuple[str, str]]]]:
        """The sections of options that are not empty: title, and each option with its help."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if isinstance(option, click.Option) and record is not None:
                (shared if isinstance(option, _Everywhere) else own).append(record)
        sections = (("Options", own), ("Options of every command", shared))
        return [(title, records) for title, records in sections if records]


class Command(_Sections):
    """A command; its function's result is the exit code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _everywhere()

    def invoke(self, ctx: click.Context) -> Any:
        """What the command's function returns, its log on stderr where -v asks for it."""
        with ctx.ensure_object(Context).log_to_stderr():
            return super().invoke(ctx)


class Group(_Sections, click.Group):
    """The commands, in the order in which they were added."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _everywhere()

    def list_commands(self, _: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def command(name: str, *, examples: str) -> Callable[[Callable[..., int]], Command]:
    """A decorator: the function as the command of that name. Its docstring is the help, each line
    of `examples` an invocation, and its result the exit code.
    """
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return click.command(name, cls=Command, epilog=epilog)


# What went wrong, in words or as JSON, and the exit code that says it.


_USAGE = 64
INTERRUPTED = 130
_ABORTED = (click.Abort, KeyboardInterrupt)


def exit_code(error: BaseException) -> int:
    """The exit code that says this error."""
    return _words(error)[2]


def tell(error: BaseException, context: Context, arguments: Sequence[str]) -> int:
    """The exit code, after the error was told; `arguments` are asked where reading them failed."""
    as_json = context.as_json or "--json" in arguments
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        error.show()
        return _USAGE
    message, hint, code = _words(error)
    if context.verbose and not isinstance(error, (click.ClickException, *_ABORTED)):
        context.say("".join(traceback.format_exception(error)).rstrip(), fold=False)
    if as_json:
        said = {"type": _kind(error), "message": message, "hint": hint, "exit_code": code}
        context.show_json({"error": said})
    else:
        context.say(f"error: {message}", "bold red")
        for line in hint.splitlines():
            context.say(line)
    return code


def _words(error: BaseException) -> tuple[str, str, int]:
    if isinstance(error, PetsyncError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, _ABORTED):
        return "interrupted", "", INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return "no command was given", _where_to_look(error), _USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), _where_to_look(error), _USAGE
    if isinstance(error, MemoryError):
        return "there is not enough memory for this", "", 1
    reason = " ".join(str(error).split())[:300]
    return (
        f"unexpected: {type(error).__name__}: {reason}",
        "This is a fault in petsync. Please report it, with what the same command says with -v.",
        1,
    )


def _kind(error: BaseException) -> str:
    if isinstance(error, _ABORTED):
        return "Interrupted"
    return "UsageError" if isinstance(error, click.ClickException) else type(error).__name__


def _where_to_look(error: click.ClickException) -> str:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"See `{ctx.command_path} --help`." if ctx is not None else "See `petsync --help`."


# Files that commands write: never over the sheet they read.


def keep_apart(target: Path, source: Path) -> None:
    """Raise UsageError where the target is the file that is read, or carries its base."""
    with loading():
        from petsync.sheets.sidecar import sidecar_path
    for each in (source, sidecar_path(source)):
        if lexists(target) and each.exists() and target.exists() and target.samefile(each):
            raise click.UsageError(f"{target} is what is read: it would be overwritten.")


def must_be_writable(target: Path) -> None:
    """Raise UsageError where a file cannot be put there."""
    try:
        folder = landing(target).parent
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written: {error.strerror}.") from None
    if not folder.is_dir():
        raise click.UsageError(f"{target}: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.UsageError(f"{target}: you may not write into the folder {folder}.")


def free(path: Path) -> Path:
    """The path itself, else the first of `name-2.ext`, `name-3.ext`, … that is not there yet. A
    symbolic link is there, wherever it leads.
    """
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return path if not lexists(path) else next(name for name in names if not lexists(name))


# What the store did not answer, said before anything that is built on it.


def warn(context: Context, coverage: Coverage) -> None:
    """Say which statuses the store did not list, and what that means for a plan."""
    for query in coverage.failed:
        said = f"warning: no pet of the status {query.asked} was listed: {query.problem}"
        context.say(said, "yellow")
    if coverage.failed:
        context.say("Rows that name such a pet are looked up by id; none is deleted as missing.")


# A run that somebody ended at once: which one it was, if it had begun.


@contextmanager
def interruptible_run(context: Context) -> Iterator[None]:
    """What Ctrl-C ends ends as InterruptedRunError, which names the run if one had begun."""
    since = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        with ignore_signals():
            run = _own_run(context, since)
        if run is None:
            raise click.Abort from None
        raise InterruptedRunError(
            f"run {run} was interrupted",
            hint=f"`petsync resume {run}` finds out what became of requests that were on their "
            "way, and does the rest.",
        ) from None


def _own_run(context: Context, since: str) -> str | None:
    """The newest run that this process was at work on since then."""
    from petsync.apply.journal import Journal

    try:
        with closing(Journal.open(context.settings.state, create=False)) as journal:
            return journal.run_of_process(since)
    except PetsyncError:
        return None


# What a shell can complete besides petsync's own words: the jobs that there are, runs, rounds.


_NEWEST = 50


def jobs(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The names of the jobs in the configuration that is named, else in petsync.toml."""
    from petsync.settings import read_file

    found: list[str] = []
    path = Path(ctx.params.get("config") or "petsync.toml")
    # Whatever is wrong there, a shell that completes is no place to tell it.
    with suppress(OSError, ValueError):
        told = tomllib.loads(read_file(path)).get("jobs", {})
        found = [name for name in told if name.startswith(begun)]
    return found


def runs(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The ids of the newest runs and rounds in the state folder, the newest first."""
    from petsync.errors import PetsyncError
    from petsync.reconcile.state import History
    from petsync.settings import read_confirmed, resolve
    from petsync.store.runs import History as Journal

    with suppress(PetsyncError, OSError):
        toml, confirmed = read_confirmed(Path.cwd())
        state = resolve({}, os.environ, toml, confirmed=confirmed).state
        ids = [run.run_id for run in Journal(state).runs()]
        ids += [told.id for told in History(state).rounds()]
        return sorted((each for each in ids if each.startswith(begun)), reverse=True)[:_NEWEST]
    return []


# How far a run is, or the look-ups before it: a bar on a terminal, else a line now and then.


_MANY = 300
"""So many look-ups take a moment that a person notices."""


@contextmanager
def show_progress(
    console: Console,
    total: int,
    text: str = "Applying",
    *,
    unit: str = "changes",
    traffic: Callable[[], Traffic] | None = None,
    lines: int = 0,
) -> Iterator[Callable[[Progress], None]]:
    """What to call with each step of a run of `total` changes. Called from any thread, it never
    raises: a terminal that went away must not end a run.

    `traffic` tells how the requests go just now: only so a pause shows in which no step is made.
    Where there is no terminal nothing is said, or a line now and then if `lines` are asked for.
    """
    # tqdm is loaded where there is something to show.
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
def looked_up(console: Console, text: str) -> Iterator[Callable[[Lookups], None]]:
    """Meanwhile a terminal shows `text`, and a bar while many pets are looked up by their ids;
    what to call with each step of that. It never raises.
    """
    from petsync.report.progress import run_bar

    if not console.is_terminal:
        with run_bar(unit="pets looked up", file=console.file, show=True) as step:
            yield step
        return
    busy = console.status(f"{text} …")
    bar: Callable[[Lookups], None] | None = None
    bars = ExitStack()

    def look(lookups: Lookups) -> None:
        nonlocal bar
        if lookups.total < _MANY:
            return
        with suppress(OSError, ValueError):
            if bar is None:
                busy.stop()
                shows = run_bar(text="Looking up", unit="pets by id", file=console.file, delay=0)
                bar = bars.enter_context(shows)
            bar(lookups)
            if lookups.done == lookups.total:
                bars.close()
                busy.start()

    busy.start()
    try:
        with bars:
            yield look
    finally:
        with suppress(OSError, ValueError):
            busy.stop()


# The standard streams: a reader that goes away, a full disk.


_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def prepare() -> None:
    """Make the streams fit to use: text that a terminal cannot show must not end a command.

    Raises PetsyncError where there is no standard output at all (`>&-`).
    """
    # What asyncio and aiohttp have to say of an end in the middle is nothing to a person.
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    if sys.stdin is None:
        sys.stdin = _nowhere("r")
    is_closed = sys.stdout is None
    if is_closed:
        sys.stdout = _nowhere("w")
    if sys.stderr is None:
        sys.stderr = _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if is_closed:
        raise PetsyncError(
            "standard output is closed; nothing was done", hint="Use >/dev/null to hide it."
        )


def flush_output() -> OSError | None:
    """Why standard output cannot be written, None if it can. Streams that cannot be are turned
    off, so that the last flush of the process does not fail once more.
    """
    _flush(sys.stderr)
    return _flush(sys.stdout)


def of_output(error: BaseException) -> OSError | None:
    """The error itself where it can only have come from writing to a standard stream."""
    if not isinstance(error, OSError) or isinstance(error, PetsyncError):
        return None
    if error.filename is None and error.errno in _OUTPUT:
        return error
    return None


def _nowhere(mode: str) -> Any:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _flush(stream: Any) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


# `--env-file`: variables from a file, for the commands that read all of petsync.toml.


option = click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read variables from lines NAME=value, as in petsync.env; the environment comes first.",
)
"""The option of a command."""


def names(environ: Mapping[str, str], file: Path | None, *, is_named: bool) -> frozenset[str]:
    """The variables that a petsync.toml may use which nobody has confirmed: those that the person
    lists, in the file or in PETSYNC_VARIABLES; if the person has named it, also petsync's own, the
    secrets among them only as secrets. Raises SettingsError.
    """
    from petsync.reconcile.config.load import read_variables

    listed = set(read_variables(file)) if file is not None else set[str]()
    if is_named:
        return allowed_names(environ, listed, is_named=True)
    # The file may be a stranger's too: it gives values of its own, and lists no others.
    own = {name for name in listed - {*os.environ} if not name.startswith("PETSYNC_")}
    return allowed_names(os.environ, own)


def environment(context: Context, file: Path | None) -> Mapping[str, str]:
    """The process's variables, and those of the file that it has not. Raises SettingsError."""
    if file is None:
        return os.environ
    from petsync.reconcile.config.load import read_variables

    variables = read_variables(file)
    if os.name == "posix" and file.stat().st_mode & 0o077:
        context.say(f"warning: others can read {file}; `chmod 600 {file}` keeps it yours", "yellow")
    return HiddenEnvironment(
        {**variables, **{name: text for name, text in os.environ.items() if text}}
    )
