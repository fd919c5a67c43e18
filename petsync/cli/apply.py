"""`petsync apply`: a plan carried out, after it was seen."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync.cli import progress
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import keep_apart
from petsync.cli.outcome import default_results, save_report, save_results
from petsync.cli.planning import PENDING, Asked, of_sheet, plan_options
from petsync.cli.saved import of_plan
from petsync.errors import InterruptedRunError, PetsyncError

if TYPE_CHECKING:
    from petsync.diff.plan import Plan
    from petsync.diff.report import Report
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["carry_out", "command"]

_EXAMPLES = """
petsync apply plan.json
petsync apply catalogue.xlsx --delete-missing --yes
petsync apply plan.json --yes --rate 20 --report report.html
"""


class _Rate(click.ParamType[float]):
    name = "N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Requests a second, from `20` or `20/s`."""
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?:/s)?", str(value), re.ASCII)
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is no number of requests a second, such as 20.", param, ctx)
        return float(match[1])


@as_command("apply", examples=_EXAMPLES)
@click.argument("source", metavar="PLAN.json|SHEET", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=16,
    metavar="N",
    help="Changes at a time.  [16]",
)
@click.option("--rate", type=_Rate(), metavar="N", help="The most requests a second.")
@click.option("--verify", is_flag=True, help="Read every changed pet back.")
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
@plan_options
@click.pass_obj
def command(
    context: Context,
    source: Path,
    yes: bool,
    concurrency: int,
    rate: float | None,
    verify: bool,
    results: Path | None,
    page: Path | None,
    asked: Asked,
) -> int:
    """Bring the store to what a plan, or a sheet, says.

    Shows the plan and asks. Without --yes and without a terminal nothing is sent (exit code 2 if
    changes are pending). Each pet is read again just before it is changed: what someone else
    changed since the plan is left alone and listed. Ctrl-C stops between two changes; applying
    the result workbook, which has the new ids, does the rest. A plan can be applied once.

    Exits with 0, 3 if rows failed or errors block them, 4 if the plan is over a limit, 5 for
    conflicts or a plan that was applied before, 7 if it was interrupted.
    """
    is_plan = source.suffix.lower() == ".json"
    if is_plan and asked:
        raise click.UsageError("A saved plan is applied as it is; these options are for a SHEET.")
    for path in (results, page):
        if path is not None:
            keep_apart(path, source)
    try:
        with context.connect() as store:
            with context.busy("Reading the plan" if is_plan else "Comparing the sheet"):
                read = of_plan(store, source) if is_plan else of_sheet(store, source, asked)
            plan, sheet = read
            if not _is_agreed(context, plan, yes):
                return PENDING
            report, error = carry_out(
                context, store, plan, concurrency=concurrency, rate=rate, verify=verify
            )
    except (KeyboardInterrupt, click.Abort):
        raise InterruptedRunError(
            "interrupted",
            hint="If the run had begun, its journal tells how far it came. Plan again from the "
            "sheet to see what is left.",
        ) from None
    _print(context, report)
    left = _leave(context, report, sheet, results, page)
    if error is not None:
        context.say(f"error: {error.message}", "bold red")
        context.say(error.hint)
    return report.exit_code or left


def carry_out(
    context: Context, store: Store, plan: Plan, **options: Any
) -> tuple[Report, InterruptedRunError | None]:
    """The report, with progress on the way, and the interruption if the run was stopped."""
    from petsync.diff.report import Report

    with progress.shown(context.err, len(plan.changes)) as step:
        try:
            return store.apply(plan, on_progress=step, **options), None
        except InterruptedRunError as error:
            if not isinstance(error.report, Report):
                raise
            return error.report, error


def _is_agreed(context: Context, plan: Plan, yes: bool) -> bool:
    """Whether the plan may be sent: nobody needs to agree to nothing. Raises GuardError."""
    from petsync.render.terminal import show_plan

    show_plan(plan, context.err)
    plan.require_ok()
    if yes or not plan.changes:
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f"Send these {len(plan.changes):,} changes to {plan.store}?"
        if click.confirm(question, err=True):
            return True
        said = "Nothing was sent."
    else:
        said = "Nothing was sent: this is a dry run, as nobody can be asked. --yes applies."
    context.say(said, "bold")
    if context.as_json:
        kinds = {"adds": plan.adds, "updates": plan.updates, "deletes": plan.deletes}
        counts = {name: len(changes) for name, changes in kinds.items()}
        context.show_json({"dry_run": True, "store": plan.store, **counts, "exit_code": PENDING})
    return False


def _print(context: Context, report: Report) -> None:
    if context.as_json:
        from petsync.render.machine import report_json

        context.show(report_json(report))
    else:
        from petsync.render.terminal import show_report

        show_report(report, context.out)


def _leave(
    context: Context, report: Report, sheet: Sheet | None, results: Path | None, page: Path | None
) -> int:
    """Write what is asked for; 1 if it could not be: the run itself is over, and stands."""
    if results is None and sheet is not None and report.plan.changes:
        results = default_results(sheet)
    try:
        if results is not None:
            save_results(report, sheet, results)
            context.say(f"What became of each row is in {results}.")
        elif sheet is None:
            context.say("No result workbook: the sheet is gone, or was changed since the plan.")
        if page is not None:
            save_report(report, page)
            context.say(f"The report is in {page}.")
    except PetsyncError as error:
        context.say(f"error: {error.message}", "bold red")
        context.say(error.hint)
        return error.exit_code
    return 0
