"""`petsync apply`: a plan carried out, after it was seen."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync.cli import progress, streams
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import keep_apart, must_be_writable
from petsync.cli.interruption import interruptible_run
from petsync.cli.outcome import default_results, save_report, save_results
from petsync.cli.pacing import run_options
from petsync.cli.planning import PENDING, Asked, of_sheet, plan_options
from petsync.cli.saved import of_plan
from petsync.cli.sheetplan import is_sheet_plan, write_sheet_plan
from petsync.errors import InterruptedRunError, PetsyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from petsync.diff.plan import Plan
    from petsync.diff.report import Report
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["carry_out", "check_outputs", "command", "conclude", "is_agreed", "watched"]

_STOPPING = "Stopping: what is on its way may still end. Ctrl-C once more does not wait for it."
_EXAMPLES = """
petsync apply plan.json
petsync apply catalogue.xlsx --delete-missing --yes
petsync apply plan.json --yes --rate 20 --report report.html
"""


@as_command("apply", examples=_EXAMPLES)
@click.argument("source", metavar="PLAN.json|SHEET", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The sheet with what became of each row, and new ids.  [SHEET.results.xlsx]",
)
@click.option(
    "--write-back",
    is_flag=True,
    help="Put the results into the sheet itself; it is kept as SHEET.backup-….xlsx.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The report as an HTML page.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="How many rows of each sort of the plan to show; 0 for all.  [20]",
)
@run_options
@plan_options
@click.pass_obj
def command(
    context: Context,
    source: Path,
    yes: bool,
    results: Path | None,
    write_back: bool,
    page: Path | None,
    limit: int,
    asked: Asked,
    pacing: dict[str, Any],
) -> int:
    """Bring the store to what a plan, or a sheet, says.

    Shows the plan and asks. Without --yes and without a terminal nothing is sent (exit code 2 if
    changes are pending). Each pet is read again just before it is changed: what someone else
    changed since the plan is left alone and listed. Ctrl-C stops the run, and `petsync resume`
    does the rest; `petsync undo` takes it back. A plan can be applied once. What `petsync
    reconcile` has wait is released so too; what waits for a sheet is written into it.

    Exits with 0, 3 if rows failed or errors block them, 4 if the plan is over a limit, 5 for
    conflicts or a plan that was applied before, 6 if another run is at work on this store, 7 if
    it was stopped.
    """
    is_plan = source.suffix.lower() == ".json"
    if is_plan and asked:
        raise click.UsageError("A saved plan is applied as it is; these options are for a SHEET.")
    check_outputs(source, results, page)
    if is_plan and is_sheet_plan(source):
        if results or page or write_back:
            raise click.UsageError("This is for a sheet: it has no results, and no report.")
        return write_sheet_plan(context, source, yes=yes, limit=limit or None)
    with interruptible_run(context), context.connect() as store:
        text = "Reading the plan" if is_plan else "Comparing the sheet"
        with progress.looked_up(context.err, text) as step:
            read = of_plan(store, source) if is_plan else of_sheet(store, source, asked, step)
        plan, sheet = read
        _check_fit(plan, sheet, results, page)
        if write_back:
            _check_write_back(sheet)
        if not is_agreed(context, plan, yes, limit or None):
            return PENDING
        report, error = carry_out(context, store, plan, **pacing)
    return conclude(context, report, error, sheet, results, page, write_back=write_back)


def conclude(
    context: Context,
    report: Report,
    error: InterruptedRunError | None,
    sheet: Sheet | None,
    results: Path | None,
    page: Path | None,
    *,
    write_back: bool = False,
) -> int:
    """Leave the files that were asked for, tell what became of the run, and give its exit code."""
    # Whoever reads what is printed may have gone away: the files come first.
    said, left = _leave(report, sheet, results, page, write_back=write_back)
    _print(context, report)
    for line, style in said:
        context.say(line, style)
    if error is not None:
        context.say(f"error: {error.message}", "bold red")
    return report.exit_code or left


def carry_out(
    context: Context, store: Store, plan: Plan, **options: Any
) -> tuple[Report, InterruptedRunError | None]:
    """The report of a run of the plan, with progress on the way, and its interruption."""
    return watched(context, store, len(plan.changes), partial(store.apply, plan, **options))


def watched(
    context: Context,
    store: Store,
    total: int,
    run: Callable[..., Report],
    *,
    text: str = "Applying",
) -> tuple[Report, InterruptedRunError | None]:
    """The report of a run that tells its progress to `on_progress`, and its interruption."""
    from petsync.diff.report import Report

    traffic = store.api.aio.session.traffic
    with (
        streams.stopping(_STOPPING),
        progress.shown(context.err, total, text, traffic=traffic, lines=context.verbose) as step,
    ):
        try:
            return run(on_progress=step), None
        except InterruptedRunError as error:
            if not isinstance(error.report, Report):
                raise
            return error.report, error


def is_agreed(context: Context, plan: Plan, yes: bool, limit: int | None = 20) -> bool:
    """Whether the plan may be sent: nobody needs to agree to nothing. Raises GuardError."""
    from petsync.render.terminal import show_plan

    show_plan(plan, context.err, limit=limit)
    plan.require_ok()
    if yes or not plan.changes:
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        total = len(plan.changes)
        these = "this change" if total == 1 else f"these {total:,} changes"
        question = f"Send {these} to {plan.store}?"
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


Said = list[tuple[str, str]]
"""Lines with their style."""


def _leave(
    report: Report,
    sheet: Sheet | None,
    results: Path | None,
    page: Path | None,
    *,
    write_back: bool,
) -> tuple[Said, int]:
    """Write what is asked for; what to say of it, and 1 if it could not be: the run itself is
    over, and stands.
    """
    said: Said = []
    code = 0
    done = write_back and sheet is not None and _write_back(report, sheet, said)
    code |= write_back and not done
    if results is None and sheet is not None and report.plan.changes and not done:
        results = default_results(sheet)
    if results is not None:
        file = results
        told = f"What became of each row is in {file}."
        code |= _write(said, told, lambda: save_results(report, sheet, file))
    elif sheet is None and not report.plan.undoes:
        said.append(("No result workbook: the sheet is gone, or was changed since the plan.", ""))
    if page is not None:
        code |= _write(said, f"The report is in {page}.", lambda: save_report(report, page))
    return said, code


def _write_back(report: Report, sheet: Sheet, said: Said) -> bool:
    """Whether the results are in the sheet itself; if not, what to say of that."""
    from petsync.sheets import write_back

    try:
        backup = write_back(sheet, report)
    except PetsyncError as error:
        said += [(f"error: {error.message}", "bold red"), (error.hint, "")]
        return False
    told = f"What became of each row is in {sheet.source}; as it was before it is in {backup}."
    said.append((told, ""))
    return True


def _check_write_back(sheet: Sheet | None) -> None:
    """Raise, before anything is sent, where the results could not go into the sheet itself."""
    from petsync.sheets import must_take_results

    if sheet is None:
        raise click.UsageError(
            "--write-back: the sheet of this plan is gone, or was changed since."
        )
    must_take_results(sheet)


def _write(said: Said, told: str, save: Callable[[], None]) -> int:
    try:
        save()
    except PetsyncError as error:
        said += [(f"error: {error.message}", "bold red"), (error.hint, "")]
        return error.exit_code
    said.append((told, ""))
    return 0


def check_outputs(source: Path | None, results: Path | None, page: Path | None) -> None:
    """Raise UsageError, before anything is asked, where a file could not be left behind."""
    for path in (results, page):
        if path is not None:
            if source is not None:
                keep_apart(path, source)
            must_be_writable(path)
    if results is not None and page is not None and results.resolve() == page.resolve():
        raise click.UsageError(f"--results and --report are the same file, {page}.")
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--report {page}: the ending must be .html or .htm.")


def _check_fit(plan: Plan, sheet: Sheet | None, results: Path | None, page: Path | None) -> None:
    """Raise UsageError, before anything is sent, where the results could not be of the sheet."""
    for path in (results, page):
        if path is not None:
            keep_apart(path, Path(plan.source))
    is_text = sheet is not None and sheet.tab == ""
    fitting: tuple[str, ...] = (".csv", ".tsv", ".txt") if is_text else (".xlsx",)
    if sheet is not None and sheet.source.lower().endswith(".xlsm"):
        fitting = (".xlsx", ".xlsm")
    if results is not None and results.suffix.lower() not in fitting:
        kind = "a text sheet" if is_text else "a workbook"
        raise click.UsageError(
            f"--results {results}: the results are {kind}; the ending must be one of "
            f"{', '.join(fitting)}."
        )
