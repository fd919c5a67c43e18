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
from petsync.cli.files import keep_apart, must_be_writable
from petsync.cli.outcome import default_results, save_report, save_results
from petsync.cli.planning import PENDING, Asked, of_sheet, plan_options
from petsync.cli.saved import of_plan
from petsync.errors import InterruptedRunError, PetsyncError

if TYPE_CHECKING:
    from collections.abc import Callable

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
    write_back: bool,
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
    _check_outputs(source, results, page)
    try:
        with context.connect() as store:
            text = "Reading the plan" if is_plan else "Comparing the sheet"
            with progress.looked_up(context.err, text) as step:
                read = of_plan(store, source) if is_plan else of_sheet(store, source, asked, step)
            plan, sheet = read
            _check_fit(plan, sheet, results, page)
            if write_back:
                _check_write_back(sheet)
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
    # Whoever reads what is printed may have gone away: the files come first.
    said, left = _leave(report, sheet, results, page, write_back=write_back)
    _print(context, report)
    for line, style in said:
        context.say(line, style)
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
    elif sheet is None:
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


def _check_outputs(source: Path, results: Path | None, page: Path | None) -> None:
    """Raise UsageError, before anything is asked, where a file could not be left behind."""
    for path in (results, page):
        if path is not None:
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
