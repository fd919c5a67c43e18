"""`petsync apply`, `resume` and `undo`: commands that change the store."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from petsync.cli import context as progress
from petsync.cli import signals
from petsync.cli.context import Context, interruptible_run, keep_apart, must_be_writable, runs
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    PENDING,
    CompareOptions,
    guard_of,
    named_run,
    of_plan,
    of_sheet,
    plan_options,
    run_options,
    save_report,
    save_results,
)
from petsync.cli.plan import FORMATS, check_output, form_of, print_plan, save
from petsync.errors import GuardError, InterruptedRunError, PetsyncError

if TYPE_CHECKING:
    from collections.abc import Callable

    from petsync.models import Pet
    from petsync.plan.plan import Inbound, Plan
    from petsync.plan.report import Report
    from petsync.store import Store
    from petsync.store.runs import IntoSheet, OutputRequest, Outputs
    from petsync.table.sheet import Sheet

__all__ = [
    "apply_command",
    "carry_out",
    "check_outputs",
    "conclude",
    "is_agreed",
    "is_sheet_plan",
    "outputs_of",
    "resume_command",
    "run_with_progress",
    "undo_command",
    "write_sheet_plan",
]


# `petsync apply` of what a sheet is to take from the store, and what a job had wait.


_HEAD = 300


def is_sheet_plan(path: Path) -> bool:
    """Whether the file holds what a sheet is to take; reading it as a plan tells any other."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return b'"sheet_plan"' in file.read(_HEAD)
    except OSError:
        return False


def write_sheet_plan(context: Context, path: Path, *, yes: bool, limit: int | None = 20) -> int:
    """Show it, ask, and write the sheet; the exit code. What the store has changed since is left
    out, and the next round of the job looks at it again.
    """
    from petsync import sheets
    from petsync.reconcile.round import writable
    from petsync.reconcile.state import SheetWaiting

    inbound = sheets.load_edits(path)
    with context.connect() as store:
        sheet = _sheet_of(inbound, store)
        standing = inbound.standing(_pets_of(inbound, store).get)
    _show(context, standing, limit)
    standing.require_ok()
    if standing and not (yes or _is_agreed(context, standing)):
        return PENDING
    edits = sheets.edits_of(standing, sheet)
    stuck = sheets.obstacles(sheet, edits)
    for each in stuck:
        context.say(f"{each}. {each.suggestion}", "bold")
    rest = edits.without(stuck)
    waiting = SheetWaiting(path)
    # Before the sheet is written: should this be killed, the next round sees whether it was.
    waiting.intend(writable(standing, stuck))
    backup = sheets.write_synced(sheet, rest) if rest else None
    waiting.take()
    _show_standing(context, inbound, standing, backup)
    return 3 if stuck else 0


def _sheet_of(inbound: Inbound, store: Store) -> Sheet:
    """The sheet as it was then. Raises PlanError."""
    from petsync.errors import PlanError, StalePlanError

    if inbound.store != store.url:
        raise PlanError(
            f"this is from {inbound.store}, and this store is {store.url}",
            hint=f"Name that store: --url {inbound.store}",
        )
    sheet = store.read(
        inbound.source,
        tab=inbound.tab or None,
        mapping=inbound.columns,
        encoding=inbound.encoding or None,
    )
    if sheet.digest != inbound.digest:
        raise StalePlanError(
            f"{inbound.source} has changed since this was made",
            hint="Nothing was written. The next `petsync reconcile` looks at it again.",
        )
    return sheet


def _pets_of(inbound: Inbound, store: Store) -> dict[int, Pet | None]:
    """The pets that it is about, as the store has them now."""
    from petsync.models import Pet
    from petsync.table.frame import pets_from_frame

    listed = {pet.id: pet for pet in pets_from_frame(store.snapshot().frame)}
    wanted = {pet_id: listed.get(pet_id) for pet_id in inbound.pet_ids}
    answers = store.look_up([pet_id for pet_id, pet in wanted.items() if pet is None])
    for pet_id, found in answers.items():
        # One that could not be looked up is neither as it was nor gone.
        wanted[pet_id] = found if found is None or isinstance(found, Pet) else Pet(id=pet_id)
    return wanted


def _show(context: Context, inbound: Inbound, limit: int | None) -> None:
    from petsync.report.show import show_intake

    show_intake(inbound, context.err, limit=limit)


def _is_agreed(context: Context, inbound: Inbound) -> bool:
    if sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm(f"Write this into {inbound.source}?", err=True):
            return True
        context.say("Nothing was written.", "bold")
    else:
        context.say("Nothing was written, as nobody can be asked. --yes writes it.", "bold")
    if context.as_json:
        rows = inbound.counts.total
        told = {"dry_run": True, "sheet": inbound.source, "rows": rows, "exit_code": PENDING}
        context.show_json(told)
    return False


def _show_standing(
    context: Context, inbound: Inbound, standing: Inbound, backup: Path | None
) -> None:
    rows = standing.counts.total
    left = inbound.counts.total - rows
    if backup is not None:
        context.say(f"{inbound.source} is written; as it was before it is in {backup}.")
    if left:
        context.say(f"{left:,} rows were left out: the store has changed them since.")
    if context.as_json:
        told = {"sheet": inbound.source, "rows": rows, "left_out": left, "exit_code": 0}
        context.show_json({**told, "backup": str(backup or "")})


# `petsync apply`: a plan carried out, after it was seen.


_STOPPING = "Stopping: what is on its way may still end. Ctrl-C once more does not wait for it."
_APPLY_EXAMPLES = """
petsync apply plan.json
petsync apply catalogue.xlsx --delete-missing --yes
petsync apply plan.json --yes --rate 20 --report report.html
"""


@as_command("apply", examples=_APPLY_EXAMPLES)
@click.argument("source", metavar="PLAN.json|SHEET", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the sheet with the outcome of each row and the new "
    "ids.  [SHEET.results.xlsx]",
)
@click.option(
    "--write-ids",
    "into_sheet",
    flag_value="ids",
    help="Write the new ids into the sheet itself, with a backup in SHEET.backup-….xlsx.  [asks]",
)
@click.option(
    "--write-back",
    "into_sheet",
    flag_value="results",
    help="Write the new ids and the outcome of each row into the sheet, with a backup.",
)
@click.option(
    "--no-write-ids",
    "into_sheet",
    flag_value="",
    help="Write nothing into the sheet, and do not ask.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report as an HTML page.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="How many rows of each kind of the plan to show; 0 for all.  [20]",
)
@run_options
@plan_options
@click.pass_obj
def apply_command(
    context: Context,
    source: Path,
    yes: bool,
    results: Path | None,
    into_sheet: IntoSheet | None,
    page: Path | None,
    limit: int,
    asked: CompareOptions,
    pacing: dict[str, Any],
) -> int:
    """Bring the store into agreement with a plan, or with a sheet.

    Shows the plan and asks. Without --yes and without a terminal, it sends nothing (exit code 2 if
    there are changes). It reads each pet again just before the change; a pet that somebody else
    changed since the plan stays as it is and is listed. Ctrl-C stops the run: `petsync resume`
    continues, `petsync undo` restores the former values. A plan can be applied once. This also
    releases a plan that waits in `petsync reconcile`; one for the sheet is written into the sheet.

    Exit codes: 0, 3 if rows failed or errors block them, 4 if the plan exceeds a limit, 5 for
    conflicts or a plan that was applied before, 6 if another run uses this store, 7 if stopped.
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
            outputs.remember(plan, _build_wanted(into_sheet, results))
            report, error = carry_out(context, store, plan, **pacing)
        return conclude(context, report, error, sheet, page, outputs=outputs)


def _finished_first(
    context: Context, store: Store, source: Path, yes: bool, pacing: dict[str, Any]
) -> int:
    """Name the run of the same sheet that was stopped, and finish it if a person wants that. The
    exit code of a run that has still not come to its end; 0 where the sheet may be planned.
    """
    from petsync.plan.report import left_in

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
    report, error = run_with_progress(context, store, len(plan.changes), again, text="Resuming")
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
    said, left = _leave_results(report, sheet, page, outputs)
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
    return run_with_progress(
        context, store, len(plan.changes), partial(store.apply, plan, **options)
    )


def run_with_progress(
    context: Context,
    store: Store,
    total: int,
    run: Callable[..., Report],
    *,
    text: str = "Applying",
) -> tuple[Report, InterruptedRunError | None]:
    """The report of a run that tells its progress to `on_progress`, and its interruption."""
    from petsync.plan.report import Report

    traffic = store.api.aio.session.traffic
    with (
        signals.stopping(_STOPPING),
        progress.show_progress(
            context.err, total, text, traffic=traffic, lines=context.verbose
        ) as step,
    ):
        try:
            return run(on_progress=step), None
        except InterruptedRunError as error:
            if not isinstance(error.report, Report):
                raise
            return error.report, error


def is_agreed(context: Context, plan: Plan, yes: bool, limit: int | None = 20) -> bool:
    """Whether the plan may be sent: nobody needs to agree to nothing. Raises GuardError."""
    from petsync.report.show import show_plan

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
        from petsync.report.json import report_json

        context.show(report_json(report))
    else:
        from petsync.report.show import show_report

        show_report(report, context.out)


Said = list[tuple[str, str]]
"""Lines with their style."""


def _leave_results(
    report: Report, sheet: Sheet | None, page: Path | None, outputs: Outputs
) -> tuple[Said, int]:
    """Write what is asked for; what to say of it, and 1 if it could not be: the run itself is
    over, and stands.
    """
    from petsync.store.runs import default_results

    said: Said = []
    code = 0
    wanted = outputs.read_wanted(report.plan)
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
    from petsync.cli.context import free
    from petsync.sheets.files import must_be_closed

    backups: list[Path] = []
    try:
        must_be_closed(path)
    except PetsyncError as error:
        said.append((f"{error.message}, so that the results get another name.", "bold"))
        path = free(path)

    if path.is_symlink() and not is_named:
        said.append(
            (f"{_shorten_path(path)} is a symbolic link: the results get another name.", "bold")
        )
        path = free(path)

    def save() -> None:
        if sheet is None:
            save_results(report, None, path)
        elif backup := outputs.write_results(sheet, report, path, follow=is_named):
            backups.append(backup)

    code = _write(said, f"What became of each row is in {_shorten_path(path)}.", save)
    said += [
        (f"The file of that name is kept as {_shorten_path(backup)}.", "") for backup in backups
    ]
    return code


def _shorten_path(path: Path) -> Path:
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
    from petsync.store.runs import gives_ids

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


def _build_wanted(into_sheet: IntoSheet, results: Path | None) -> OutputRequest:
    from petsync.store.runs import OutputRequest

    return OutputRequest(
        into_sheet=into_sheet, results="" if results is None else str(results.absolute())
    )


def outputs_of(store: Store) -> Outputs:
    """What writes the files that runs on the store leave."""
    from petsync.store.runs import Outputs

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


# `petsync resume`: what a stopped run left, done.


_RESUME_EXAMPLES = """
petsync resume
petsync resume 20261121-0930 --report report.html
petsync resume --rate 20
"""


@as_command("resume", examples=_RESUME_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=runs)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the sheet with the outcome of each row and the new "
    "ids.  [SHEET.results.xlsx]",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report as an HTML page.",
)
@run_options
@click.pass_obj
def resume_command(
    context: Context, run_id: str, results: Path | None, page: Path | None, pacing: dict[str, Any]
) -> int:
    """Finish a run that was stopped, killed, or has failures.

    RUN is the id of a run or its beginning; the default is the store's newest run that is not
    complete. petsync asks the store about each request that was under way when the run ended, then
    sends the rest of the plan, without another question. It sends nothing twice. The report covers
    the whole run. An option that you do not give keeps its value.

    Exit codes: 0, 3 if rows failed, 5 for conflicts, 6 if the run is still working, 7 if
    interrupted again.
    """
    from petsync.apply.engine import has_more, refuse_drifted
    from petsync.plan.change import FailedLookup

    check_outputs(None, results, page)
    with interruptible_run(context):
        with context.connect() as store:
            with named_run(context.settings.state, run_id):
                past, plan = store.aio.to_resume(run_id, startable=True)
                run = past.run_id
                statuses = store.api.aio.session.profile.statuses
                outputs = outputs_of(store)
                sheet = None if plan.undoes else outputs.sheet(plan, statuses)
            if results is not None:
                wanted = outputs.read_wanted(plan)
                outputs.remember(plan, replace(wanted, results=str(results.absolute())))
            if has_more(past):
                found = store.look_up([pet.id for pet in plan.sentinels if pet.id is not None])
                now = {i: each for i, each in found.items() if not isinstance(each, FailedLookup)}
                refuse_drifted(plan, now)
            total = len(plan.changes)
            context.say(f"Resuming run {run} on {store.url}: {total:,} changes in all.")
            report, error = run_with_progress(
                context, store, total, partial(store.resume, run, **pacing), text="Resuming"
            )
        return conclude(context, report, error, sheet, page, outputs=outputs)


# `petsync undo`: a run taken back, after it was seen what that means.


_LEADS = (
    "Job {job} made this run, and its sheet leads: the next round sends all of it again. Fix the "
    "sheet first, or write enabled = false into the job's table."
)
_FOLLOWS = (
    "Job {job} made this run. Its next round takes what is undone into the sheet too, but for what "
    "a person edits there until then. The row of a pet that the undo deletes stays, with a note, "
    "unless delete_missing is on. To keep the sheet as it is: enabled = false in the job's table."
)
_NEXT = {"push": _LEADS, "two-way": _FOLLOWS, "pull": _FOLLOWS, "check": _FOLLOWS}
"""What a round of the job that made a run makes of its undo."""
_UNDO_EXAMPLES = """
petsync undo
petsync undo 20261121-0930 --max-delete 400
petsync undo 20261121-0930 --id 4711 --id 4712 --yes
petsync undo 20261121-0930 -o undo.json -o undo.html
"""


@as_command("undo", examples=_UNDO_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=runs)
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--id",
    "ids",
    type=int,
    multiple=True,
    metavar="ID",
    help="Undo only what the run did to this pet; repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(("add", "update", "delete")),
    multiple=True,
    help="Only the pets that the undo adds, updates or deletes; repeatable.",
)
@click.option(
    "--query",
    metavar="QUERY",
    help="Only what this query selects, such as \"name == 'Max'\"; docs/undo.md lists the names.",
)
@click.option(
    "--max-delete", metavar="N|P%", help="The maximum number of deletes.  [10%, or 1; never all]"
)
@click.option("--max-update", metavar="N|P%", help="The maximum number of updates.  [30%, or 10]")
@click.option("--max-add", metavar="N|P%", help="The maximum number of adds.  [50%, or 100]")
@click.option("--allow-empty", is_flag=True, help="Permit an undo that deletes every pet.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save the undo and send nothing: as .json for `petsync apply`, as .html, "
    ".xlsx, .md or .txt to read it; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the undo in this format and send nothing; xlsx needs -o.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="With -o or --format: how many rows of each kind to print; 0 for all.  [20; md: 100]",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report as an HTML page.",
)
@run_options
@click.pass_obj
def undo_command(
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
    """Restore what a run changed.

    RUN is the id of a run or its beginning; the default is the store's newest run that changed
    something and is not undone. The undo is a plan: petsync shows it, the guard judges it, and you
    confirm it. A pet that somebody changed since the run stays as it is and is listed. An undo is a
    run too: its id undoes it.

    Without --yes and without a terminal, it sends nothing (exit code 2). Other exit codes: 0, 3 if
    rows failed, 4 if it exceeds a limit, 5 for conflicts, 6 if a run uses this store, 7 if stopped.
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
            _show_undone_run(context, store, plan)
            if looking:
                return _save_undo(context, plan, outputs, shown, limit)
            if not is_agreed(context, plan, yes):
                return PENDING
            report, error = carry_out(context, store, plan, **pacing)
            files = outputs_of(store)
        return conclude(context, report, error, None, page, outputs=files)


def _show_undone_run(context: Context, store: Store, plan: Plan) -> None:
    """Say which run is taken back, in the words of the list of runs."""
    from petsync.reconcile.state import History
    from petsync.report.run import run_line

    past = store.aio.history.find(plan.undoes)
    context.say(f"Undo of run {past.run_id}, {run_line(past)}.")
    rounds = History(store.aio.settings.state).rounds()
    told = next((each for each in reversed(rounds) if past.run_id in each.runs), None)
    if told is not None:
        context.say(_NEXT[told.mode].format(job=told.job), "bold")


def _save_undo(
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
