"""`petsync reconcile`: the scheduled job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from petsync.cli.apply import check_outputs
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.known import jobs
from petsync.cli.signals import loading
from petsync.cli.variables import environment, names
from petsync.cli.variables import option as env_file
from petsync.settings import Unshown

if TYPE_CHECKING:
    from petsync.diff.rounds import Rounds
    from petsync.reconcile.config.model import Configuration

__all__ = ["command"]

_SHOWN = 5
_EXAMPLES = """
petsync reconcile
petsync reconcile /srv/petsync/petsync.toml --job catalogue
petsync reconcile --dry-run --limit 0
petsync reconcile --dry-run --report tonight.html
petsync reconcile --every 15m
petsync reconcile --job catalogue --moved
"""


@as_command("reconcile", examples=_EXAMPLES)
@click.argument(
    "config", metavar="[CONFIG]", default="petsync.toml", type=click.Path(path_type=Path)
)
@click.option(
    "--job",
    metavar="NAME",
    default="",
    help="This job alone, enabled or not.",
    shell_complete=jobs,
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; send and write nothing.")
@click.option(
    "--moved",
    is_flag=True,
    help="With --job: its store is the same one at a new address; go on from what was agreed on.",
)
@click.option(
    "--every",
    metavar="TIME",
    help="Go on until it is stopped: 15m, 1h; jobs run when they are due.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help="How many differences of each kind to show; 0 for all.  [5]",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="All of it as an HTML page, also of a dry run.",
)
@click.option(
    "--log", type=click.Choice(["text", "json"]), help="How the log's lines are written.  [text]"
)
@env_file
@click.pass_context
def command(
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
    """Bring sheets and stores together, as a configuration says.

    CONFIG is the file with the jobs, petsync.toml if none is named; that one gets secrets, and
    reaches out of its folder, only once `petsync trust` has confirmed it. Each job: finish what
    its last round left, look at both sides, hold back what is over its guard, send and write the
    rest, look again, report, tell people. Nobody is asked: a plan over its guard waits as a file,
    and `petsync apply` of that file releases it. docs/reconcile.md tells it all.

    With --dry-run nothing is sent or written but --report: it shows what would be done, and ends
    as the round would, with 2 where there is anything to do.

    Exits with 0, 1 for an error such as a store that does not answer, 2 if differences are left, 3
    for findings or rows that failed, 4 if a plan waits or is refused, 5 for conflicts, 6 if the job
    is at work already, 7 if it was stopped (the next round goes on), 64 for a mistake in the
    configuration. Of several rounds, the worst counts.
    """
    context: Context = ctx.obj
    if context.allow_http:
        raise click.UsageError("--allow-http: write allow_http into the configuration.")
    if every is not None and (job or dry_run or moved or page or limit is not None):
        raise click.UsageError("--every runs all jobs that are due, and for good: it goes alone.")
    if moved and not job:
        raise click.UsageError("--moved: name the job whose store has moved, with --job.")
    check_outputs(None, None, page)
    environ = Unshown({**environment(context, env_file), **context.variables()})
    load = partial(
        _load,
        names=names(environ, env_file),
        is_named=ctx.get_parameter_source("config") is ParameterSource.COMMANDLINE,
    )
    if every is not None:
        return _going_on(config, every, environ, log, load)
    with loading():
        import_module("petsync.reconcile.passing")
    from petsync.reconcile import run

    given = load(config, environ)
    rounds = run(_logging(given, log, context.verbose), job=job, dry_run=dry_run, moved=moved)
    if page is not None:
        _save(rounds, page)
    _show(context, rounds, _SHOWN if limit is None else limit or None)
    if page is not None:
        context.say(f"Saved {page}.")
    return rounds.exit_code


def _logging(
    config: Configuration, form: Literal["text", "json"] | None, verbose: int
) -> Configuration:
    """The configuration with what the options say of the log."""
    log = config.log if form is None else replace(config.log, format=form)
    if log.level is None and verbose:
        log = replace(log, level="info" if verbose == 1 else "debug")
    return replace(config, log=log)


def _save(rounds: Rounds, page: Path) -> None:
    """Write all rounds as a page. Raises SheetError."""
    from petsync.render.round_page import rounds_page
    from petsync.sheets import atomic

    atomic.replace(page, rounds_page(rounds).encode())


def _going_on(
    config: Path,
    text: str,
    environ: Mapping[str, str],
    log: Literal["text", "json"] | None,
    load: Callable[[Path, Mapping[str, str]], Configuration],
) -> int:
    with loading():
        import_module("petsync.reconcile.passing")
    from petsync.reconcile.every import every, interval

    return every(
        config, interval(text), stop=threading.Event(), environ=environ, log_format=log, load=load
    )


def _load(
    path: Path, environ: Mapping[str, str], *, names: Collection[str], is_named: bool
) -> Configuration:
    from petsync.reconcile import load

    return load(path, environ, names=names, is_named=is_named)


def _show(context: Context, rounds: Rounds, limit: int | None) -> None:
    if context.as_json:
        from petsync.render.round_json import rounds_json

        context.show(rounds_json(rounds))
    elif rounds:
        from petsync.render.terminal import show_rounds

        show_rounds(rounds, context.out, limit=limit)
    else:
        context.say("No job is enabled; nothing was done.", "bold")
