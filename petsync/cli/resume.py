"""`petsync resume`: what a stopped run left, done."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from petsync.cli.apply import check_outputs, conclude, outputs_of, watched
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.history import named_run
from petsync.cli.interruption import interruptible_run
from petsync.cli.known import runs
from petsync.cli.pacing import run_options

__all__ = ["command"]

_EXAMPLES = """
petsync resume
petsync resume 20261121-0930 --report report.html
petsync resume --rate 20
"""


@as_command("resume", examples=_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=runs)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The sheet with what became of each row, and new ids.  [SHEET.results.xlsx]",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The report as an HTML page.",
)
@run_options
@click.pass_obj
def command(
    context: Context, run_id: str, results: Path | None, page: Path | None, pacing: dict[str, Any]
) -> int:
    """Finish a run that was stopped, killed, or that left failures.

    RUN is a run's id, or the beginning of one; without it, the store's newest run that has
    anything left. First the store is asked what became of the changes whose request was on its
    way when the run ended; then what is left is sent, as the plan said. What is done stays done,
    and nothing is sent twice. Nobody is asked again: the plan was agreed to. The report is of the
    whole run. Options that are not given are as they were.

    Exits with 0, 3 if rows failed, 5 for conflicts, 6 if the run is still at work, 7 if it was
    interrupted again.
    """
    check_outputs(None, results, page)
    with interruptible_run(context):
        with context.connect() as store:
            with named_run(context.settings.state, run_id):
                past, plan = store.aio.to_resume(run_id)
                run = past.run_id
                statuses = store.api.aio.session.profile.statuses
                outputs = outputs_of(store)
                sheet = None if plan.undoes else outputs.sheet(plan, statuses)
            if results is not None:
                wanted = outputs.wanted(plan)
                outputs.remember(plan, replace(wanted, results=str(results.absolute())))
            total = len(plan.changes)
            context.say(f"Resuming run {run} on {store.url}: {total:,} changes in all.")
            report, error = watched(
                context, store, total, partial(store.resume, run, **pacing), text="Resuming"
            )
        return conclude(context, report, error, sheet, page, outputs=outputs)
