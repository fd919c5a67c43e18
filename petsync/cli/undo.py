"""`petsync undo`: a run taken back, after it was seen what that means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync.cli import progress
from petsync.cli.apply import carry_out, check_outputs, conclude, is_agreed, outputs_of
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.history import named_run
from petsync.cli.interruption import interruptible_run
from petsync.cli.known import runs
from petsync.cli.pacing import run_options
from petsync.cli.plan import FORMATS, check_output, form_of, print_plan, save
from petsync.cli.planning import PENDING, guard_of
from petsync.errors import GuardError

if TYPE_CHECKING:
    from petsync.diff.plan import Plan
    from petsync.store import Store

__all__ = ["command"]

_LEADS = (
    "Job {job} made this run, and its sheet leads: the next round sends all of it again. Mend the "
    "sheet first, or write enabled = false into the job's table."
)
_FOLLOWS = (
    "Job {job} made this run. Its next round takes what is undone into the sheet too, but for what "
    "a person edits there until then. The row of a pet that the undo deletes stays, with a note, "
    "unless delete_missing is on. To keep the sheet as it is: enabled = false in the job's table."
)
_NEXT = {"push": _LEADS, "two-way": _FOLLOWS, "pull": _FOLLOWS, "check": _FOLLOWS}
"""What a round of the job that made a run makes of its undo."""
_EXAMPLES = """
petsync undo
petsync undo 20261121-0930 --max-delete 400
petsync undo 20261121-0930 --id 4711 --id 4712 --yes
petsync undo 20261121-0930 -o undo.json -o undo.html
"""


@as_command("undo", examples=_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=runs)
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--id",
    "ids",
    type=int,
    multiple=True,
    metavar="ID",
    help="Take back what was done to this pet alone; repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(("add", "update", "delete")),
    multiple=True,
    help="Only where the undo is to add, update or delete a pet; repeatable.",
)
@click.option(
    "--query",
    metavar="QUERY",
    help="Only what a query picks, such as \"name == 'Max'\"; docs/undo.md tells its names.",
)
@click.option("--max-delete", metavar="N|P%", help="The most deletes.  [10%, or 1; never all]")
@click.option("--max-update", metavar="N|P%", help="The most updates.  [30%, or 10]")
@click.option("--max-add", metavar="N|P%", help="The most adds.  [50%, or 100]")
@click.option("--allow-empty", is_flag=True, help="Let an undo that deletes every pet pass.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save the undo and send nothing: as .json for `petsync apply`, as .html, .xlsx, .md or "
    ".txt to look at; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the undo so and send nothing; xlsx needs -o.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="With -o or --format: how many rows of each sort to print; 0 for all.  [20, of md 100]",
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
    context: Context,
    run_id: str,
    yes: bool,
    ids: tuple[int, ...],
    kinds: tuple[str, ...],
    query: str | None,
    max_delete: str | None,
    max_update: str | None,
    max_add: str | None,
    allow_empty: bool,
    outputs: tuple[Path, ...],
    form: str | None,
    limit: int | None,
    page: Path | None,
    pacing: dict[str, Any],
) -> int:
    """Take a run back: every pet that it changed is given back what it was.

    RUN is a run's id, or the beginning of one; without it, the store's newest run that changed
    something and is not undone. The undo is a plan as any other: it is shown, the guard judges it,
    and you are asked. A pet that anybody changed since the run is kept as it is, and listed. An
    undo is a run too, and can be undone.

    Without --yes and without a terminal nothing is sent (exit code 2). Exits with 0, 3 if rows
    failed, 4 if it is over a limit, 5 if pets are kept, 6 if a run is at work on this store, 7 if
    it was stopped.
    """
    looking = form is not None or bool(outputs)
    shown = form_of(context, form, outputs) if looking else ""
    for path in outputs:
        check_output(path, None, form)
    check_outputs(None, None, page)
    guard = guard_of(max_delete, max_update, max_add, allow_empty=allow_empty)
    with interruptible_run(context):
        with context.connect() as store:
            state = context.settings.state
            with (
                named_run(state, run_id),
                progress.looked_up(context.err, "Looking at the pets of the run") as step,
            ):
                plan = store.undo(run_id, guard=guard, on_progress=step)
            if ids or kinds or query is not None:
                plan = plan.select(ids=ids or None, actions=kinds or None, query=query)
            _tell(context, store, plan)
            if looking:
                return _leave(context, plan, outputs, shown, limit)
            if not is_agreed(context, plan, yes):
                return PENDING
            report, error = carry_out(context, store, plan, **pacing)
            files = outputs_of(store)
        return conclude(context, report, error, None, page, outputs=files)


def _tell(context: Context, store: Store, plan: Plan) -> None:
    """Say which run is taken back, in the words of the list of runs."""
    from petsync.reconcile.history import History
    from petsync.render.runs_words import run_line

    past = store.aio.history.find(plan.undoes)
    context.say(f"Undo of run {past.run_id}, {run_line(past)}.")
    rounds = History(store.aio.settings.state).rounds()
    told = next((each for each in reversed(rounds) if past.run_id in each.runs), None)
    if told is not None:
        context.say(_NEXT[told.mode].format(job=told.job), "bold")


def _leave(
    context: Context, plan: Plan, outputs: tuple[Path, ...], form: str, limit: int | None
) -> int:
    """Save and print the plan; the exit code."""
    kinds = [save(plan, path, form, limit) for path in outputs]
    if context.as_json or form not in kinds or form in ("text", "json"):
        print_plan(context, plan, form, limit)
    for path in outputs:
        context.say(f"Saved {path}.")
    if plan.verdict.ok:
        return 0
    context.say("error: the guard refuses this undo; it would not be applied", "bold red")
    return GuardError.exit_code
