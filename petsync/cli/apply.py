"""`petsync apply`: a plan carried out, after it was seen."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync.cli import progress, signals
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import keep_apart, must_be_writable
from petsync.cli.interruption import interruptible_run
from petsync.cli.outcome import save_report, save_results
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
    from petsync.store.outputs import IntoSheet, Outputs, Wanted
    from petsync.table.sheet import Sheet

__all__ = [
    "carry_out",
    "check_outputs",
    "command",
    "conclude",
    "is_agreed",
    "outputs_of",
    "watched",
]

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
    "--write-ids",
    "into_sheet",
    flag_value="ids",
    help="Write the new ids into the sheet itself; it is kept as SHEET.backup-….xlsx.  [asks]",
)
@click.option(
    "--write-back",
    "into_sheet",
    flag_value="results",
    help="The same, with what became of each row.",
)
@click.option("--no-write-ids", "into_sheet", flag_value="", help="Do neither, and do not ask.")
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
    into_sheet: IntoSheet | None,
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
        if results or page or into_sheet:
            raise click.UsageError("This is for a sheet: it has no results, and no report.")
        return write_sheet_plan(context, source, yes=yes, limit=limit or None)
    with interruptible_run(context):
        with context.connect() as store:
            if not is_plan and (code := _finished_first(context, store, source, yes, pacing)):
                return code
            text = "Reading the plan" if is_plan else "Comparing the sheet"
            with progress.looked_up(context.err, text) as step:
                read = of_plan(store, source) if is_plan else of_sheet(store, source, asked, step)
            plan, sheet = read
            _check_fit(plan, sheet, results, page)
            if into_sheet:
                _check_into_sheet(sheet, f"--write-{'ids' if into_sheet == 'ids' else 'back'}")
            if not is_agreed(context, plan, yes, limit or None):
                return PENDING
            if into_sheet is None:
                into_sheet = _asked_for_ids(context, plan, sheet, yes=yes)
            outputs = outputs_of(store)
            outputs.remember(plan, _wanted(into_sheet, results))
            report, error = carry_out(context, store, plan, **pacing)
        return conclude(context, report, error, sheet, page, outputs=outputs)


def _finished_first(
    context: Context, store: Store, source: Path, yes: bool, pacing: dict[str, Any]
) -> int:
    """Name the run of the same sheet that was stopped, and finish it if a person wants that. The
    exit code of a run that has still not come to its end; 0 where the sheet may be planned.
    """
    from petsync.diff.standing import left_in

    past = store.aio.unfinished(source)
    if past is None:
        return 0
    left = left_in(past)
    when = datetime.fromisoformat(past.started).astimezone()
    context.say(
        f"Run {past.run_id} of this sheet, of {when:%Y-%m-%d %H:%M}, was stopped with {left:,} of "
        f"{past.total:,} changes left.",
        "bold",
    )
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        context.say(
            f"This applies what is left of it, but for rows of which nobody knows whether it added "
            f"them: `petsync resume {past.run_id}` finds that out, and adds no row a second time."
        )
        return 0
    if not click.confirm("Finish it first?", default=True, err=True):
        return 0
    _, plan = store.aio.to_resume(past.run_id)
    outputs = outputs_of(store)
    sheet = outputs.sheet(plan, store.api.aio.session.profile.statuses)
    again = partial(store.resume, past.run_id, **pacing)
    report, error = watched(context, store, len(plan.changes), again, text="Resuming")
    code = conclude(context, report, error, sheet, None, outputs=outputs)
    return code if report.stopped else 0


def conclude(
    context: Context,
    report: Report,
    error: InterruptedRunError | None,
    sheet: Sheet | None,
    page: Path | None,
    *,
    outputs: Outputs,
) -> int:
    """Leave the files that were asked for, tell what became of the run, and give its exit code."""
    # Whoever reads what is printed may have gone away: the files come first.
    said, left = _leave(report, sheet, page, outputs)
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
        signals.stopping(_STOPPING),
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
    report: Report, sheet: Sheet | None, page: Path | None, outputs: Outputs
) -> tuple[Said, int]:
    """Write what is asked for; what to say of it, and 1 if it could not be: the run itself is
    over, and stands.
    """
    from petsync.store.outputs import default_results

    said: Said = []
    code = 0
    wanted = outputs.wanted(report.plan)
    # The copy first: it is of the sheet as it is before anything is written into that.
    results = Path(wanted.results) if wanted.results else None
    if results is None and sheet is not None and report.plan.changes:
        results = None if wanted.into_sheet == "results" else default_results(sheet)
    if results is not None:
        is_named = bool(wanted.results)
        code |= _write_results(report, sheet, results, outputs, said, is_named=is_named)
    elif sheet is None and not report.plan.undoes:
        said.append(("No result workbook: the sheet is gone, or was changed since the plan.", ""))
    if wanted.into_sheet and not report.plan.undoes:
        code |= not _write_into_sheet(report, sheet, wanted.into_sheet, outputs, said)
    if page is not None:
        code |= _write(said, f"The report is in {page}.", lambda: save_report(report, page))
    return said, code


def _write_results(
    report: Report,
    sheet: Sheet | None,
    path: Path,
    outputs: Outputs,
    said: Said,
    *,
    is_named: bool,
) -> int:
    """0 if the results file is written, and what to say of it. A link is followed only where a
    person has named it.
    """
    from petsync.cli.files import free
    from petsync.sheets.locks import must_be_closed

    backups: list[Path] = []
    try:
        must_be_closed(path)
    except PetsyncError as error:
        said.append((f"{error.message}, so that the results get another name.", "bold"))
        path = free(path)

    if path.is_symlink() and not is_named:
        said.append((f"{_shown(path)} is a symbolic link: the results get another name.", "bold"))
        path = free(path)

    def save() -> None:
        if sheet is None:
            save_results(report, None, path)
        elif backup := outputs.write_results(sheet, report, path, follow=is_named):
            backups.append(backup)

    code = _write(said, f"What became of each row is in {_shown(path)}.", save)
    said += [(f"The file of that name is kept as {_shown(backup)}.", "") for backup in backups]
    return code


def _shown(path: Path) -> Path:
    """The path as it is shorter: from here, where it is below this folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _write_into_sheet(
    report: Report, sheet: Sheet | None, into_sheet: IntoSheet, outputs: Outputs, said: Said
) -> bool:
    """Whether the ids, or the results, are in the sheet itself; and what to say of that."""
    if sheet is None:
        told = f"error: {report.plan.source} is gone or was changed, so no id was written into it."
        said.append((told, "bold red"))
        said.append(("petsync still knows which row became which pet: go on in that file.", ""))
        return False
    try:
        backup = outputs.write_into_sheet(sheet, report, into_sheet)
    except PetsyncError as error:
        said += [(f"error: {error.message}", "bold red"), (error.hint, "")]
        return False
    what = "The new ids are" if into_sheet == "ids" else "What became of each row is"
    said.append((f"{what} in {sheet.source}; as it was before it is in {backup}.", ""))
    return True


def _check_into_sheet(sheet: Sheet | None, option: str) -> None:
    """Raise, before anything is sent, where nothing could be written into the sheet itself."""
    from petsync.sheets import must_take_results

    if sheet is None:
        raise click.UsageError(f"{option}: the sheet of this plan is gone, or was changed since.")
    must_take_results(sheet)


def _asked_for_ids(context: Context, plan: Plan, sheet: Sheet | None, *, yes: bool) -> IntoSheet:
    """Whether a person has the new ids written into the sheet; nobody is asked where `yes` said
    that, or where there is none to write.
    """
    from petsync.sheets import must_take_results
    from petsync.store.outputs import gives_ids

    if yes or sheet is None or not plan.changes or not gives_ids(plan):
        return ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ""
    try:
        must_take_results(sheet)
    except PetsyncError as error:
        context.say(f"The new ids cannot be written into the sheet: {error.message}.", "bold")
        context.say(
            f"{error.hint} The results file gets the ids. To write them into the sheet later: "
            f"`petsync apply {shlex.quote(sheet.source)} --write-ids`."
        )
        return ""
    question = f"Write the new ids into {sheet.source} itself, and keep a backup?"
    return "ids" if click.confirm(question, default=True, err=True) else ""


def _wanted(into_sheet: IntoSheet, results: Path | None) -> Wanted:
    from petsync.store.outputs import Wanted

    return Wanted(into_sheet=into_sheet, results="" if results is None else str(results.absolute()))


def outputs_of(store: Store) -> Outputs:
    """What writes the files that runs on the store leave."""
    from petsync.store.outputs import Outputs

    return Outputs(store.aio.history)


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
