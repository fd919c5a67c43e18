"""`petsync config`: petsync.toml checked and explained, its schema, and what starts its jobs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync._file import make_folder, replace
from petsync.cli.command import Group
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.signals import loading
from petsync.cli.variables import environment
from petsync.cli.variables import option as env_file
from petsync.errors import ConfigurationError, SettingsError

if TYPE_CHECKING:
    from petsync.reconcile.config.model import Configuration

__all__ = ["command"]

_FILE = "petsync.toml"
_LABEL = 12
_EPILOG = """
\b
Examples:
  petsync config check
  petsync config schedule
"""


@click.group("config", cls=Group, epilog=_EPILOG)
def command() -> None:
    """Check petsync.toml, and see what its jobs mean.

    It is read as `petsync reconcile` reads it. docs/config.md explains every option, and
    `petsync init` writes a file to begin with.
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
    """Tell every mistake in FILE (petsync.toml), or what it means.

    Each mistake comes with its line, what is wrong, and what to write instead. No service is
    asked, and whether sheets and folders are there is not looked at.

    Exits with 0 if there is none, else with 64.
    """
    with loading():
        from petsync.reconcile.config import load

    try:
        configuration = load(file, environment(context, env_file))
    except ConfigurationError as error:
        if not context.as_json or not error.problems:
            raise
        context.show_json({"ok": False, "problems": [each._asdict() for each in error.problems]})
        return error.exit_code
    from petsync.reconcile.config.account import as_data

    if context.as_json:
        context.show_json({"ok": True, **as_data(configuration)})
    else:
        _print(context, configuration)
    _warn(context, configuration)
    return 0


def _warn(context: Context, configuration: Configuration) -> None:
    """Say which notices could go nowhere. Only apprise knows its addresses, so the jobs would run;
    it takes long to load, and is asked here alone.
    """
    from petsync.reconcile.notify.send import lack_of

    for number, address in enumerate(configuration.notify.urls, start=1):
        if lack := lack_of(address):
            context.say(
                f"warning: notify.urls, address {number}: {lack}, and nobody is told", "yellow"
            )


def _print(context: Context, configuration: Configuration) -> None:
    from datetime import UTC, datetime

    from petsync.reconcile.config.account import lines

    out = context.out
    for label, text in lines(configuration, datetime.now(UTC)):
        out.print(_labelled(label, text, out.width), soft_wrap=True)


def _labelled(label: str, text: str, width: int) -> str:
    """The text behind its label, in lines of that width; below it where a word is too long."""
    from rich.cells import cell_len

    from petsync.cli.console import folded
    from petsync.table.visible import visible

    if not label:
        return folded(visible(text), width)
    start = f"  {label:{_LABEL}}"
    first, *more = folded(visible(text), width - len(start)).split("\n")
    if max(map(cell_len, (first, *more))) > width - len(start):
        return "\n".join([start.rstrip(), *folded(visible(text), width).split("\n")])
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

    An editor that knows TOML completes and checks the file by it. It is the same in text and
    with --json.

    Exits with 0.
    """
    with loading():
        from petsync.reconcile.config.schema import schema_text

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
    help="What starts the jobs: lines for a crontab, or a service and a timer each.  [cron]",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write systemd's files there; what has the same name is replaced.",
)
@click.pass_obj
def schedule(context: Context, file: Path, kind: str, into: Path | None) -> int:
    """Print what starts the jobs of FILE (petsync.toml) at their time.

    These are the jobs that have a `schedule` and are not switched off; the others are named.
    Nothing is installed. Secrets are not part of it, and need not be set: it names petsync.env,
    beside petsync.toml, as the place for them.

    Exits with 0, and with 64 if no job has a schedule or FILE has a mistake.
    """
    if into is not None and kind != "systemd":
        raise click.UsageError("--into goes with --for systemd.")
    with loading():
        from petsync.reconcile.config import timetable
    from petsync.reconcile.config.install import crontab, scheduled, units, unscheduled

    table = timetable(file, os.environ)
    if not scheduled(table):
        raise SettingsError(
            f"no job of {file} has a schedule", hint='Write, say, schedule = "0 2 * * *" in it.'
        )
    files = dict(units(table, _program()))
    if context.as_json:
        text = crontab(table, _program())
        context.show_json({"crontab": text} if kind == "cron" else {"units": files})
    elif into is not None:
        _write(context, files, into)
        for said in unscheduled(table):
            context.say(said)
    elif kind == "cron":
        context.show(crontab(table, _program()).encode())
    else:
        parts = [f"# {name}\n{text}" for name, text in files.items()]
        context.show("\n".join((*(f"# {said}\n" for said in unscheduled(table)), *parts)).encode())
    return 0


def _write(context: Context, files: dict[str, str], folder: Path) -> None:
    try:
        make_folder(folder)
        for name, text in files.items():
            replace(folder / name, text.encode(), follow=False)
    except OSError as error:
        raise SettingsError(f"{folder} cannot be written: {error.strerror}") from None
    timers = " ".join(name for name in files if name.endswith(".timer"))
    context.say(f"{len(files)} files are in {folder}. Then:")
    user = "--user " if os.environ.get("HOME") and folder.is_relative_to(Path.home()) else ""
    context.say(f"systemctl {user}daemon-reload", fold=False)
    context.say(f"systemctl {user}enable --now {timers}", fold=False)


def _program() -> list[str]:
    """How this petsync is called from elsewhere."""
    own = Path(sys.executable).with_name("petsync")
    found = str(own) if own.exists() else shutil.which("petsync")
    return [found] if found else [sys.executable, "-P", "-m", "petsync"]


for _each in (check, schema, schedule):
    command.add_command(_each)
