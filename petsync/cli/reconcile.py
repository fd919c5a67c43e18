"""`petsync reconcile`, `config` and `init`: the scheduled job and its configuration."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from petsync._display import quote
from petsync._extras import has_extra
from petsync._files import make_folder, write_atomically
from petsync.cli.context import (
    Context,
    Group,
    NamedPath,
    complete_jobs,
    find_allowed_names,
    find_last_url,
    read_environment,
    report_error,
)
from petsync.cli.context import command as as_command
from petsync.cli.context import env_file_option as env_file
from petsync.cli.options import PENDING, file_option, limit_option, save_page
from petsync.cli.run import check_outputs
from petsync.cli.signals import exiting_on_signal
from petsync.errors import ConfigurationError, PetsyncError, SettingsError
from petsync.settings import HiddenEnvironment
from petsync.trust import is_confirmed

if TYPE_CHECKING:
    from petsync.config.model import Configuration
    from petsync.plan.report import Rounds

__all__ = ["config_command", "init_command", "reconcile_command"]


# `petsync config`: check and explain petsync.toml, and print its schema and the schedule of its
# jobs.


_FILE = "petsync.toml"
_LABEL = 12
_EPILOG = """
\b
Examples:
  petsync config check
  petsync config schedule
"""


@click.group("config", cls=Group, epilog=_EPILOG)
def config_command() -> None:
    """Check petsync.toml, and show what its jobs mean.

    docs/config.md explains every option, and `petsync init` writes a file to start with.
    """


@as_command(
    "check",
    examples="""
petsync config check
petsync config check nightly/petsync.toml --json
petsync config check --env-file petsync.env
""",
)
@click.argument("file", type=click.Path(path_type=Path), default=_FILE)
@env_file
@click.pass_obj
def check(context: Context, file: Path, env_file: Path | None) -> int:
    """List every mistake in FILE, or show what FILE means.

    FILE is petsync.toml by default. Each mistake is listed with its line and, if possible, what to
    write instead. petsync sends no request, and opens no sheet; it names a sheet that does not
    exist.

    Exit codes: 0 if there is no mistake, else 64.
    """
    with exiting_on_signal():
        from petsync.config.load import ENV_FILE_HINT, load

    environ = read_environment(context, env_file)
    try:
        configuration = load(file, environ)
    except ConfigurationError as error:
        if not error.problems:
            raise
        if context.as_json:
            found = [each._asdict() for each in error.problems]
            context.show_json({"ok": False, "problems": found})
            return error.exit_code
        code = report_error(error, context, ())
        named = [] if file == Path(_FILE) else [file]
        # If only variables are missing, no edit of the file changes the outcome of this command.
        if not all(each.suggestion.endswith(ENV_FILE_HINT) for each in error.problems):
            context.suggest("config", "check", *named, repeat=["env_file"], url=False)
        return code
    from petsync.config.tools import as_data

    if context.as_json:
        context.show_json({"ok": True, **as_data(configuration)})
    else:
        _print(context, configuration)
    _warn(context, configuration)
    _explain_trust(context, file, configuration)
    names = find_allowed_names(environ, env_file, is_named=True)
    try:
        load(file, environ, names=names)
    except ConfigurationError:
        context.suggest("trust", *([] if file == Path(_FILE) else [file]), url=False)
        return 0
    if not _suggest_export(context, configuration):
        # A file that is named on the command line needs no other confirmation.
        context.suggest("reconcile", file, "--dry-run", repeat=["env_file"], url=True)
    return 0


def _suggest_export(context: Context, configuration: Configuration) -> bool:
    """Print which sheets do not exist, and the command that makes the first one from the store.
    Return false if there is none, or if an address has variables.
    """
    lacking = [
        (job, job.sheet)
        for job in configuration.jobs
        if job.enabled and job.mode != "pull" and isinstance(job.sheet, Path)
        if not (job.is_in_parts or job.sheet.exists())
    ]
    for job, sheet in lacking:
        context.say(f"{job.name}: the sheet {sheet.name} does not exist.")
    if not lacking or configuration.in_addresses:
        return False
    job, sheet = lacking[0]
    path = sheet.relative_to(Path.cwd()) if sheet.is_relative_to(Path.cwd()) else sheet
    context.suggest("export", path, "--url", job.url, repeat=[], url=False)
    return True


def _warn(context: Context, configuration: Configuration) -> None:
    """Warn about missing extras, and about addresses that apprise does not support. The jobs run,
    but send no notices to these addresses; apprise is slow to import, so only this command checks
    them.
    """
    metrics = configuration.metrics
    used = {
        "notify": configuration.notify.urls,
        "metrics": metrics.textfile or metrics.listen,
        "tracing": configuration.tracing,
        "sql": any(job.query or job.query_file for job in configuration.jobs),
    }
    for extra in used:
        if used[extra] and not has_extra(extra):
            context.say(
                f"warning: the extra {extra} is not installed: pip install 'petsync[{extra}]'",
                "yellow",
            )
    from petsync.reconcile.send import find_problem

    for number, address in enumerate(configuration.notify.urls, start=1):
        if problem := find_problem(address):
            context.say(
                f"warning: notify.urls, address {number}: {problem}, so it gets no notices",
                "yellow",
            )


def _explain_trust(context: Context, file: Path, configuration: Configuration) -> None:
    """Print when other commands use the jobs' own sign-ins, unless the file is confirmed."""
    from petsync.config.read import read_document

    path = configuration.path
    if any(each.sign_in for each in configuration.jobs):
        if is_confirmed(path, read_document(path).raw):
            return
        command = "petsync trust" if file == Path(_FILE) else f"petsync trust {quote(str(file))}"
        context.say(
            "Other commands, such as `petsync export`, use the sign-in of these jobs once you "
            f"confirm the file: `{command}`."
        )


def _print(context: Context, configuration: Configuration) -> None:
    from petsync.config.tools import lines

    out = context.out
    for label, text in lines(configuration, datetime.now(UTC)):
        out.print(_format_labelled(label, text, out.width), soft_wrap=True)


def _format_labelled(label: str, text: str, width: int) -> str:
    """Return the label and its text, folded to the width; the text is below the label if a word is
    too long.
    """
    from rich.cells import cell_len

    from petsync.cli.console import fold_text
    from petsync.table.cells import make_visible

    if not label:
        return fold_text(make_visible(text), width)
    start = f"  {label:{_LABEL}}"
    first, *more = fold_text(make_visible(text), width - len(start)).split("\n")
    if max(map(cell_len, (first, *more))) > width - len(start):
        return "\n".join([start.rstrip(), *fold_text(make_visible(text), width).split("\n")])
    return "\n".join([start + first, *(" " * len(start) + line for line in more)])


@as_command(
    "schema",
    examples="""
petsync config schema > petsync.schema.json
""",
)
@click.pass_obj
def schema(context: Context) -> int:
    """Print the JSON Schema of petsync.toml.

    An editor that supports such schemas for TOML uses it to complete and check the file. --json
    prints the same.
    """
    with exiting_on_signal():
        from petsync.config.tools import schema_text

    context.show(schema_text().encode())
    return 0


@as_command(
    "schedule",
    examples="""
petsync config schedule --for cron
petsync config schedule --for systemd --into ~/.config/systemd/user
""",
)
@click.argument("file", type=click.Path(path_type=Path), default=_FILE)
@click.option(
    "--for",
    "kind",
    type=click.Choice(("cron", "systemd")),
    default="cron",
    help="What to print: lines for a crontab, or a service and a timer for each job.  [cron]",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the systemd units into this folder, and replace files of the same name.",
)
@click.pass_obj
def schedule(context: Context, file: Path, kind: str, into: Path | None) -> int:
    """Print the crontab lines or systemd units that start the jobs of FILE (petsync.toml) when
    they are due.

    Includes the enabled jobs with a `schedule`, and names the enabled jobs without one. petsync
    installs nothing. The lines and units contain no secrets: the jobs read them from petsync.env
    beside petsync.toml.

    Exit codes: 0, or 64 if no enabled job has a schedule or FILE has a mistake.
    """
    if into is not None and kind != "systemd":
        raise click.UsageError("--into works only with --for systemd.")
    with exiting_on_signal():
        from petsync.config.load import load_timetable
    from petsync.config.tools import crontab, schedule_notes, scheduled_jobs, units

    table = load_timetable(file, os.environ)
    if not scheduled_jobs(table):
        raise SettingsError(
            f"no enabled job of {file} has a schedule",
            hint='Write, for example, schedule = "0 2 * * *" in the table of a job.',
        )
    files = dict(units(table, _find_program()))
    if into is not None:
        _write(context, files, into)
        for note in schedule_notes(table):
            context.say(note)
        if context.as_json:
            context.show_json({"units": files})
    elif context.as_json:
        text = crontab(table, _find_program())
        context.show_json({"crontab": text} if kind == "cron" else {"units": files})
    elif kind == "cron":
        context.show(crontab(table, _find_program()).encode())
    else:
        parts = [f"# {name}\n{text}" for name, text in files.items()]
        context.show(
            "\n".join((*(f"# {note}\n" for note in schedule_notes(table)), *parts)).encode()
        )
    return 0


def _write(context: Context, files: dict[str, str], folder: Path) -> None:
    try:
        make_folder(folder)
        backups = [_write_unit(folder / name, text.encode()) for name, text in files.items()]
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror}") from None
    timers = " ".join(name for name in files if name.endswith(".timer"))
    for backup in filter(None, backups):
        context.say(f"The earlier version of a file is in {backup}.")
    context.say(f"{len(files)} files were written into {folder}. Then run:")
    user = "--user " if os.environ.get("HOME") and folder.is_relative_to(Path.home()) else ""
    context.say(f"systemctl {user}daemon-reload", fold=False)
    context.say(f"systemctl {user}enable --now {timers}", fold=False)


def _write_unit(path: Path, content: bytes) -> Path | None:
    """Write a unit. Return the path of a backup of another file with this name, which a user may
    have edited; None if there was none. Raises OSError.
    """
    backup = None
    if path.is_file() and not path.is_symlink() and (before := path.read_bytes()) != content:
        # systemd does not read a file with this ending.
        backup = path.with_name(f"{path.name}.backup-{datetime.now(UTC):%Y%m%d-%H%M%S}")
        write_atomically(backup, before, new=True, like=path)
    write_atomically(path, content, follow=False)
    return backup


def _find_program() -> list[str]:
    """Return the command that starts this petsync."""
    own = Path(sys.executable).with_name("petsync")
    found = str(own) if own.exists() else shutil.which("petsync")
    return [found] if found else [sys.executable, "-P", "-m", "petsync"]


for _each in (check, schema, schedule):
    config_command.add_command(_each)


# `petsync init`: write a petsync.toml that explains every option.


_INIT_EXAMPLES = """
petsync init
petsync init nightly
"""
_EXAMPLE_SHEET = "catalogue.xlsx"
"""The sheet in the new file."""


@as_command("init", examples=_INIT_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.pass_obj
def init_command(context: Context, folder: Path) -> int:
    """Write a petsync.toml that explains every option into FOLDER (by default the current one).

    The file has one job, `catalogue`, which can run when you have set url and sheet. petsync sets a
    url that it knows; otherwise the line stays a comment. An existing petsync.toml stays as it is.

    Exit codes: 0, or 64 if the file exists.
    """
    with exiting_on_signal():
        from petsync.config.tools import example

    path, url = folder / "petsync.toml", _find_known_url(context)
    try:
        make_folder(folder)
        write_atomically(path, example(url).encode(), new=True)
    except FileExistsError:
        raise SettingsError(
            f"{path} already exists, and was not changed",
            hint=f"`petsync config check {quote(path)}` shows what it means.",
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
    if context.as_json:
        context.show_json({"file": str(path)})
    else:
        context.say(f"{path} was written. {_describe_missing(url, folder / _EXAMPLE_SHEET)}.")
        context.suggest("config", "check", *([] if folder == Path() else [path]), url=False)
    return 0


def _describe_missing(url: str, sheet: Path) -> str:
    """Describe what the new file is for, and which options are to be set in it."""
    known = {"url": url, "sheet": sheet.name if sheet.is_file() else ""}
    given = " and ".join(text for text in known.values() if text)
    missing = " and ".join(name for name, text in known.items() if not text)
    if not given:
        return f"Set {missing} in it"
    return f"It is for {given}: set {missing} in it" if missing else f"It is for {given}"


def _find_known_url(context: Context) -> str:
    """Return the address in the settings, else that of the last sign-in or run; "" if there is none
    that petsync.toml can contain.
    """
    try:
        settings = context.settings
        url = settings.url or find_last_url(settings.state)[0]
    except PetsyncError:
        return ""
    return url if re.fullmatch(r"https?://[\w.:/\[\]~%-]+", url) else ""


# `petsync reconcile`: the scheduled job.


_MAX_SHOWN = 5
_RECONCILE_EXAMPLES = """
petsync reconcile
petsync reconcile /srv/petsync/petsync.toml --job catalogue
petsync reconcile --dry-run --limit 0
petsync reconcile --dry-run --report tonight.html
petsync reconcile --every 15m
petsync reconcile --job catalogue --moved
"""


@as_command("reconcile", examples=_RECONCILE_EXAMPLES)
@click.argument("config", metavar="[CONFIG]", default="petsync.toml", type=NamedPath())
@click.option(
    "--job",
    metavar="NAME",
    default="",
    help="Only this job, enabled or not.",
    shell_complete=complete_jobs,
)
@click.option(
    "--dry-run", is_flag=True, help="Show what the jobs would do; send and write nothing."
)
@click.option(
    "--moved",
    is_flag=True,
    help="With --job: confirm that its store is the same one at a new address.",
)
@click.option(
    "--every",
    metavar="TIME",
    help="Run until stopped: jobs with a schedule when they are due, all others at this interval, "
    "such as 15m or 1h.",
)
@limit_option(
    help="How many differences of each kind to show; 0 for all.  [5]",
)
@file_option(
    "--report",
    "page",
    help="Write the result, even of a dry run, as an HTML page.",
)
@click.option("--log", type=click.Choice(["text", "json"]), help="The format of the log.  [text]")
@env_file
@click.pass_context
def reconcile_command(
    ctx: click.Context,
    config: Path,
    job: str,
    dry_run: bool,
    moved: bool,
    every: str | None,
    limit: int | None,
    page: Path | None,
    log: Literal["text", "json"] | None,
    env_file: Path | None,
) -> int:
    """Bring sheets and stores into agreement, as a configuration file describes.

    CONFIG is the file with the jobs, petsync.toml by default. If you do not name it, it gets your
    secrets only after `petsync trust`. For each job, petsync finds out what an unfinished round
    sent, compares the sheet with the store, applies the changes, compares again, writes a report
    and sends notifications. It does not ask: a plan that exceeds a limit waits in a file, and
    `petsync apply` of that file releases it. docs/reconcile.md explains each step.

    With --dry-run petsync changes nothing, and writes only the page of --report. The exit code is
    that of the round, or 2 if there are changes.

    Exit codes: 0, 1 for an error, such as a store that does not answer, 2 if differences remain, 3
    for findings or failed rows, 4 if a plan waits or is refused, 5 for conflicts, 6 if the job is
    already running, 7 if stopped (the next round continues), 64 for a mistake in the configuration.
    If several jobs run, the most urgent code counts.
    """
    context: Context = ctx.obj
    if context.allow_http:
        raise click.UsageError("--allow-http: write allow_http into the configuration.")
    if every is not None and (job or dry_run or moved or page or limit is not None):
        raise click.UsageError(
            "--every runs all jobs that are due: leave out --job, --dry-run, --moved, --report and "
            "--limit."
        )
    if moved and not job:
        raise click.UsageError("--moved: name the job whose store has moved, with --job.")
    check_outputs(None, None, page)
    environ = HiddenEnvironment({**read_environment(context, env_file), **context.variables()})
    is_named = ctx.get_parameter_source("config") is ParameterSource.COMMANDLINE
    names = find_allowed_names(environ, env_file, is_named=is_named)
    load = partial(_load, names=names, is_named=is_named, env_file=env_file)
    if every is not None:
        return _run_forever(config, every, environ, log, load)
    with exiting_on_signal():
        import_module("petsync.reconcile.jobs")
    from petsync.reconcile import run

    configuration = load(config, environ)
    rounds = run(
        _with_log_options(configuration, log, context.verbose),
        job=job,
        dry_run=dry_run,
        moved=moved,
    )
    if page is not None:
        _save(rounds, page)
    _show(context, rounds, _MAX_SHOWN if limit is None else limit or None)
    if page is not None:
        context.say(f"Saved {page}.")
    has_others = not job and sum(each.enabled for each in configuration.jobs) > 1
    _suggest_after_rounds(context, rounds, [config] if is_named else [], has_others=has_others)
    return rounds.exit_code


def _suggest_after_rounds(
    context: Context, rounds: Rounds, named: Sequence[Path], *, has_others: bool
) -> None:
    """Suggest making the changes of a dry run, or running all jobs again after an interrupt.

    The report of each round names the command that runs its job again, so nothing is suggested for
    rounds that failed, or for the only job (no `has_others`).
    """
    statuses = {each.round.status for each in rounds}
    is_dry = any(each.round.dry_run for each in rounds)
    is_pending = is_dry and rounds.exit_code == PENDING
    if is_pending or ("interrupted" in statuses and has_others):
        again = ["--dry-run"] if is_dry and not is_pending else []
        context.suggest("reconcile", *named, *again, repeat=["job", "env_file"], url=True)


def _with_log_options(
    config: Configuration, form: Literal["text", "json"] | None, verbose: int
) -> Configuration:
    """Return the configuration with the log options of the command line; -v counts only if the
    configuration sets no level.
    """
    log = config.log if form is None else config.log.model_copy(update={"format": form})
    if log.level is None and verbose:
        log = log.model_copy(update={"level": "info" if verbose == 1 else "debug"})
    return replace(config, log=log)


def _save(rounds: Rounds, page: Path) -> None:
    """Write the rounds as a page. Raises SheetError."""
    from petsync.report.views.round import round_page_view, rounds_page_view

    if len(rounds) == 1:
        save_page(page, round_page_view(rounds[0]), rounds[0].round.name)
    else:
        save_page(page, rounds_page_view(rounds), "petsync rounds")


def _run_forever(
    config: Path,
    text: str,
    environ: Mapping[str, str],
    log: Literal["text", "json"] | None,
    load: Callable[[Path, Mapping[str, str]], Configuration],
) -> int:
    with exiting_on_signal():
        import_module("petsync.reconcile.jobs")
    from petsync.reconcile.daemon import every, parse_interval

    return every(
        config,
        parse_interval(text),
        stop=threading.Event(),
        environ=environ,
        log_format=log,
        load=load,
    )


def _load(
    path: Path,
    environ: Mapping[str, str],
    *,
    names: Collection[str],
    is_named: bool,
    env_file: Path | None,
) -> Configuration:
    from petsync.reconcile import load

    return replace(load(path, environ, names=names, is_named=is_named), env_file=env_file)


def _show(context: Context, rounds: Rounds, limit: int | None) -> None:
    if context.as_json:
        from petsync.report.json import rounds_json

        context.show(rounds_json(rounds))
    elif rounds:
        from petsync.report.views.round import rounds_view

        context.show_view(rounds_view(rounds, limit=limit))
    else:
        context.say("No job is enabled; nothing was done.", "bold")
