"""`petsync apply`, `resume` and `undo`: commands that change the store."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from petsync._display import count, quote
from petsync._files import is_file, is_in_parts
from petsync._options import iter_keywords
from petsync.cli import context as progress
from petsync.cli import signals
from petsync.cli.context import (
    Context,
    SheetPath,
    ask_yes_no,
    complete_runs,
    confirm,
    find_url_of_run,
    interruptible_run,
    is_interactive,
    must_be_writable,
    must_differ,
)
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    PENDING,
    READING,
    CompareOptions,
    Selection,
    check_page,
    dask_option,
    explain_round_names,
    file_option,
    find_job_of_file,
    find_job_of_run,
    find_round_of,
    find_rounds,
    find_url_of,
    is_saved_plan,
    keyword_options,
    limit_option,
    must_still_wait,
    plan_from_sheet,
    plan_options,
    read_plan,
    run_options,
    save_report,
    save_results,
    select_options,
)
from petsync.cli.plan import (
    FORMATS,
    check_output,
    choose_format,
    find_saved_plan,
    save_and_print,
)
from petsync.errors import GuardError, InterruptedRunError, PetsyncError
from petsync.plan.guard import UndoKeywords

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from petsync.models import Pet
    from petsync.plan.plan import Inbound, Plan
    from petsync.plan.report import Report
    from petsync.store import Store
    from petsync.store.runs import IntoSheet, OutputRequest, Outputs
    from petsync.table.sheet import Sheet

__all__ = [
    "apply_command",
    "apply_plan",
    "apply_sheet_plan",
    "build_outputs",
    "check_outputs",
    "confirm_plan",
    "finish_run",
    "is_sheet_plan",
    "resume_command",
    "run_with_progress",
    "shorten_path",
    "undo_command",
]


# `petsync apply` of a sheet plan: changes of the store that a job would write into a sheet.


_HEAD = 300


def is_sheet_plan(path: Path) -> bool:
    """Return true if the file is a sheet plan."""
    if not is_file(path):
        return False
    try:
        with path.open("rb") as file:
            return b'"sheet_plan"' in file.read(_HEAD)
    except OSError:
        return False


def apply_sheet_plan(context: Context, path: Path, *, yes: bool, limit: int | None = 20) -> int:
    """Show the sheet plan, ask, write the sheet, and return the exit code. Values that have changed
    in the store since the plan was made are left out; the next round of the job compares them
    again.
    """
    from petsync import sheets
    from petsync.reconcile.round import select_writable
    from petsync.reconcile.state import SheetWaiting

    inbound = sheets.load_edits(path)
    find_job = partial(find_job_of_file, path=path)
    with context.connect(lambda: (inbound.store, str(path)), find_job=find_job) as store:
        sheet = _read_sheet(inbound, store)
        current = inbound.keep_valid(_read_pets(inbound, store).get)
    _show(context, current, limit)
    current.require_ok()
    if current and not (yes or _confirm_sheet_plan(context, current)):
        return PENDING
    edits = sheets.edits_of(current, sheet)
    obstacles = sheets.obstacles(sheet, edits)
    for each in obstacles:
        context.say(f"{each}. {each.suggestion}", "bold")
    rest = edits.without(obstacles)
    waiting = SheetWaiting(path)
    # Do this before the sheet is written: if the process is killed, the next round checks whether
    # the sheet was written.
    written = select_writable(current, obstacles)
    waiting.note_intent(written)
    backup = sheets.write_synced(sheet, rest) if rest else None
    waiting.note_written()
    code = 3 if obstacles else 0
    left_out = inbound.counts.total - current.counts.total
    _show_written(context, written, left_out, backup, code)
    if obstacles or left_out:
        _suggest_round(context, [note.problem for note in inbound.notes[:1]])
    return code


def _read_sheet(inbound: Inbound, store: Store) -> Sheet:
    """Return the sheet of the sheet plan. Raises PlanError if the sheet has changed, or if the plan
    is from another store.
    """
    from petsync.errors import PlanError, StalePlanError

    if inbound.store != store.url:
        raise PlanError(
            f"this plan is from {inbound.store}, and this store is {store.url}",
            hint=f"Name that store: --url {quote(inbound.store)}",
        )
    sheet = store.read(
        inbound.source,
        tab=inbound.tab or None,
        mapping=inbound.columns,
        encoding=inbound.encoding or None,
    )
    if sheet.digest != inbound.digest:
        raise StalePlanError(
            f"{inbound.source} has changed since this plan was made",
            hint="Nothing was written. The next `petsync reconcile` compares it again.",
        )
    return sheet


def _read_pets(inbound: Inbound, store: Store) -> dict[int, Pet | None]:
    """Return the current pets of the sheet plan by id; None for a pet that does not exist."""
    from petsync.models import Pet
    from petsync.table.frame import pets_from_frame

    listed = {pet.id: pet for pet in pets_from_frame(store.snapshot().rows)}
    wanted = {pet_id: listed.get(pet_id) for pet_id in inbound.pet_ids}
    answers = store.look_up([pet_id for pet_id, pet in wanted.items() if pet is None])
    for pet_id, found in answers.items():
        # If the look-up failed, use an empty pet: the pet then counts neither as unchanged nor as
        # missing.
        wanted[pet_id] = found if found is None or isinstance(found, Pet) else Pet(id=pet_id)
    return wanted


def _show(context: Context, inbound: Inbound, limit: int | None) -> None:
    from petsync.report.text import show
    from petsync.report.views.plan import inbound_view

    show(inbound_view(inbound, limit=limit), context.err)


def _confirm_sheet_plan(context: Context, inbound: Inbound) -> bool:
    if confirm(
        context,
        f"Write this into {inbound.source}?",
        "Nothing was written",
        ": petsync can ask only on a terminal. Use --yes to write without asking.",
    ):
        return True
    if context.as_json:
        rows = inbound.counts.total
        document = {"dry_run": True, "sheet": inbound.source, "rows": rows, "exit_code": PENDING}
        context.show_json(document)
    return False


def _show_written(
    context: Context, written: Inbound, left_out: int, backup: Path | None, code: int
) -> None:
    """Print which sheet was written and how many rows were left out; as JSON, also the number of
    changes that were written, the exit code, and the path of the backup.
    """
    if backup is not None:
        context.say(f"{written.source} was written; the earlier version is in {backup}.")
    if left_out:
        rows = "1 row was" if left_out == 1 else f"{left_out:,} rows were"
        context.say(f"{rows} left out, because the store has changed since the plan was made.")
    if context.as_json:
        counts = {"rows": written.counts.total, "left_out": left_out}
        document = {"sheet": written.source, **counts, "exit_code": code}
        context.show_json({**document, "backup": str(backup or "")})


# `petsync apply`: show a plan, ask, and apply it.


_STOP_MESSAGE = (
    "Stopping: requests that were sent may still finish. Press Ctrl-C again to stop without "
    "waiting for them."
)
_APPLY_EXAMPLES = """
petsync apply plan.json
petsync apply catalogue.xlsx --delete-missing --yes
petsync apply plan.json --yes --rate 20 --report report.html
"""


@as_command("apply", examples=_APPLY_EXAMPLES)
@click.argument("source", metavar="PLAN|SHEET", type=SheetPath())
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@file_option(
    "--results",
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
    help="Write the new ids and the outcome of each row into the sheet itself, with a backup.",
)
@click.option(
    "--no-write-ids",
    "into_sheet",
    flag_value="",
    help="Write nothing into the sheet, and do not ask.",
)
@file_option(
    "--report",
    "page",
    help="Write the report as an HTML page.",
)
@limit_option(
    default=20,
    help="How many rows of each kind of the plan to show; 0 for all.  [20]",
)
@run_options
@select_options
@plan_options
@dask_option
@click.pass_obj
def apply_command(
    context: Context,
    source: Path | str,
    yes: bool,
    results: Path | None,
    into_sheet: IntoSheet | None,
    page: Path | None,
    limit: int,
    selection: Selection,
    compare_options: CompareOptions,
    pacing: dict[str, Any],
) -> int:
    """Bring the store into agreement with a plan, or with a sheet.

    Shows the plan and asks. Without --yes and without a terminal, petsync sends nothing. It reads
    each pet again before the change; if a field to change was changed since the plan was made, the
    pet stays unchanged and is listed. Ctrl-C stops the run: `petsync resume` continues it, `petsync
    undo` restores the former values. A plan can be applied once. The command also releases a
    waiting plan of `petsync reconcile`, for the store or for the sheet.

    Exit codes: 0, 1 for an error, such as a refused sign-in (nothing was sent, and the plan can be
    applied later), or if all was sent but a file could not be written, 2 if there are changes that
    you did not confirm, 3 if rows failed or errors block them, 4 if the guard refuses the plan, 5
    for conflicts or a plan that was applied before, 6 if another run uses this store, 7 if stopped
    (also by a full disk).
    """
    plan_path = source if is_saved_plan(source) else None
    if plan_path and compare_options:
        raise click.UsageError(
            f"The options of a saved plan are fixed: leave out {compare_options.flags}."
        )
    check_outputs(source, results, page)
    must_still_wait(context, plan_path)
    if plan_path and is_sheet_plan(plan_path):
        if results or page or into_sheet or selection:
            raise click.UsageError(
                "This plan changes a sheet: leave out --results, --report, --write-ids, "
                "--write-back, --only and --only-field."
            )
        return apply_sheet_plan(context, plan_path, yes=yes, limit=limit or None)
    with interruptible_run(context):
        find_job = partial(find_job_of_file, path=source)
        with context.connect(partial(find_url_of, source), find_job=find_job) as store:
            if not plan_path and (code := _offer_to_finish(context, store, source, yes, pacing)):
                return code
            text = "Reading the plan" if plan_path else "Comparing the sheet"
            with progress.show_lookups(context.err, text) as step:
                plan, sheet = (
                    read_plan(store, plan_path, selection)
                    if plan_path
                    else plan_from_sheet(store, source, compare_options, step, selection)
                )
            _check_fit(plan, sheet, results, page)
            if plan.changes:
                store.api.aio.session.require_write()
            if into_sheet:
                _check_into_sheet(sheet, f"--write-{'ids' if into_sheet == 'ids' else 'back'}")
            if not confirm_plan(context, plan, yes, limit or None):
                if not is_interactive():
                    context.suggest("apply", source, "--yes", repeat=None, url=True)
                return PENDING
            if into_sheet is None:
                into_sheet = _ask_for_ids(context, plan, sheet, yes=yes)
            outputs = build_outputs(store)
            # Keep the record of a run of this plan that has started meanwhile.
            outputs.history.journal.check_unused(plan.fingerprint)
            outputs.remember(plan, _build_request(into_sheet, results))
            report, error = apply_plan(context, store, plan, **pacing)
        is_listed = is_same_output()
        return finish_run(context, report, error, sheet, page, outputs=outputs, is_listed=is_listed)


def _offer_to_finish(
    context: Context, store: Store, source: Path | str, yes: bool, pacing: dict[str, Any]
) -> int:
    """Offer to finish a stopped run of the same sheet. Return the exit code if that run was stopped
    again, or 0 if petsync may continue with a plan of the sheet.
    """
    from petsync.plan.report import count_remaining

    past = store.aio.find_unfinished(source)
    if past is None:
        return 0
    left = count_remaining(past)
    when = datetime.fromisoformat(past.started).astimezone()
    context.say(
        f"Run {past.run_id} of this sheet, started {when:%Y-%m-%d %H:%M}, was stopped with "
        f"{left:,} of {past.total:,} changes left.",
        "bold",
    )
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        context.say(
            "This plan applies the remaining changes of that run, except rows that the run may "
            f"already have added: `petsync resume {past.run_id}` determines whether it added "
            "them, and adds no row twice."
        )
        return 0
    if not ask_yes_no("Finish it first?", default=True):
        return 0
    _, plan = store.aio.to_resume(past.run_id)
    outputs = build_outputs(store)
    sheet = outputs.sheet(plan, store.api.aio.session.profile.statuses)
    resume = partial(store.resume, past.run_id, **pacing)
    report, error = run_with_progress(context, store, len(plan.changes), resume, text="Resuming")
    code = finish_run(context, report, error, sheet, None, outputs=outputs)
    return code if report.stopped else 0


def finish_run(
    context: Context,
    report: Report,
    error: InterruptedRunError | None,
    sheet: Sheet | None,
    page: Path | None,
    *,
    outputs: Outputs,
    is_listed: bool = False,
    is_again: bool = False,
) -> int:
    """Write the files, print the report and what to do next, and return the exit code. With
    `is_listed`, the user has just read the plan: the report does not list its rows again. With
    `is_again`, only what is missing is written into the results file and the sheet.
    """
    # Write the files first, because printing fails if standard output is a closed pipe.
    written = _write_outputs(report, sheet, page, outputs, is_again=is_again)
    code = report.exit_code or written.code
    _print(context, report, code, is_listed=is_listed)
    for line, style in written.lines:
        context.say(line, style)
    if error is not None:
        context.say(f"error: {error.problem}", "bold red")
    _suggest_after_run(context, report, sheet, has_failed=written.has_failed)
    return code


def _suggest_after_run(
    context: Context, report: Report, sheet: Sheet | None, *, has_failed: bool
) -> None:
    """Suggest finishing the run if something is left, or writing its files if that `has_failed`;
    else undoing it, and listing the mistakes in rows that were not sent or, after a waiting plan
    with conflicts, running its job.
    """
    counts = report.counts
    is_left = bool(report.stopped or counts["failed"] or counts["unknown"])
    if has_failed:
        _suggest_after_failed_write(context, report, sheet, is_left=is_left)
        return
    if is_left:
        context.suggest("resume", report.run_id, url=False)
        return
    if counts["applied"]:
        context.suggest("undo", report.run_id, title="To undo it", url=False)
    if sheet is not None and report.plan.blocked:
        path = shorten_path(Path(sheet.source))
        context.suggest("check", path, repeat=READING, url=False)
    elif counts["conflict"]:
        _suggest_round(context, report.plan.raw_notes)


def _suggest_round(context: Context, notes: Sequence[str]) -> None:
    """Suggest running the job of a waiting plan with these notes; nothing for another plan."""
    from petsync.plan.change import job_of
    from petsync.report.round import complete

    job = job_of(notes)
    if job and not context.as_json:
        rounds = find_rounds(context.settings.state)
        command = f"`petsync reconcile --job {quote(job)}`"
        if (last := next((each for each in reversed(rounds) if each.job == job), None)) is not None:
            command = complete(last, command)
        context.say(f"Next: {command.strip('`')}", "bold", fold=False)


def _suggest_after_failed_write(
    context: Context, report: Report, sheet: Sheet | None, *, is_left: bool
) -> None:
    """Say what was applied although files could not be written, and suggest how to write them."""
    applied, total = report.counts["applied"], len(report.plan.changes)
    outcome = f"{applied:,} of {total:,} changes were applied"
    if sheet is not None and sheet.source == "-" and not is_left:
        # A resume cannot read the sheet again.
        context.say(f"{outcome}.")
        context.suggest("runs", report.run_id, title="To see their outcomes", url=False)
        return
    rest = "completes the run and writes the files" if is_left else "writes the files"
    context.say(f"{outcome}. Once the cause is removed, a resume {rest}; it sends no change twice.")
    context.suggest("resume", report.run_id, repeat={"page"}, url=False)


def apply_plan(
    context: Context, store: Store, plan: Plan, **options: Any
) -> tuple[Report, InterruptedRunError | None]:
    """Apply the plan with a progress bar; return the report, and the error if it was
    interrupted.
    """
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
    """Call `run` with a progress bar; return the report, and the error if it was interrupted."""
    from petsync.plan.report import Report

    traffic = store.api.aio.session.traffic
    with (
        signals.announcing_stop(_STOP_MESSAGE),
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


def confirm_plan(
    context: Context,
    plan: Plan,
    yes: bool,
    limit: int | None = 20,
) -> bool:
    """Show the plan, and return true if it is to be sent: `yes` is set, the plan is empty, or the
    user agrees. Without a terminal, the user cannot agree. Raises GuardError.
    """
    from petsync.report.text import show
    from petsync.report.views.plan import plan_view

    show(plan_view(plan, limit=limit), context.err)
    plan.require_ok()
    if yes or not plan.changes:
        return True
    total = len(plan.changes)
    changes = "this change" if total == 1 else f"these {total:,} changes"
    if confirm(
        context,
        f"Send {changes} to {plan.store}?",
        "Nothing was sent",
        ": without a terminal this is a dry run. --yes applies the plan.",
    ):
        return True
    if context.as_json:
        summary = plan.summary()
        counts = {name: getattr(summary, name) for name in ("adds", "updates", "deletes")}
        context.show_json({"dry_run": True, "store": plan.store, **counts, "exit_code": PENDING})
    return False


def is_same_output() -> bool:
    """Return true if standard error and standard output are the same file or terminal."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        return os.path.samestat(os.fstat(out), os.fstat(err))
    except (OSError, ValueError):
        return False


def _print(context: Context, report: Report, exit_code: int, *, is_listed: bool) -> None:
    if context.as_json:
        from petsync.report.json import report_json

        context.show(report_json(report, exit_code=exit_code))
    else:
        from petsync.report.views.run import report_view

        view = report_view(report, is_listed=is_listed, has_undo=False)
        context.show_view(view)


class _Written:
    """The messages about the files of a run, each with its style."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.code = 0
        """The exit code, which is not 0 if a file could not be written."""
        self.has_failed = False
        """True if a file could not be written, and a later attempt may succeed."""

    def add(self, message: str, style: str = "") -> None:
        """Add a message."""
        self.lines.append((message, style))

    def add_error(self, error: PetsyncError) -> None:
        """Add the message and the hint of an error, and set the exit code."""
        self.add(f"error: {error.problem}", "bold red")
        if error.cure:
            self.add(error.cure)
        self.code, self.has_failed = error.exit_code, True


def _write_outputs(
    report: Report, sheet: Sheet | None, page: Path | None, outputs: Outputs, *, is_again: bool
) -> _Written:
    """Write the requested files; return messages and the exit code. The run itself has ended."""
    written = _Written()
    try:
        request = outputs.read_request(report.plan)
    except PetsyncError as error:
        message = f"neither results nor ids were written: {error.problem}"
        written.add_error(PetsyncError(message, hint=error.cure))
    else:
        _write_requested(report, sheet, outputs, request, written, is_again=is_again)
    if page is not None:
        _write(written, f"The report is in {page}.", lambda: save_report(report, page))
    return written


def _write_requested(
    report: Report,
    sheet: Sheet | None,
    outputs: Outputs,
    request: OutputRequest,
    written: _Written,
    *,
    is_again: bool,
) -> None:
    """Write the results file, write into the sheet what the request asks for, and add messages.
    With `is_again`, write only what is missing.
    """
    from petsync.store.runs import default_results_path

    in_parts = is_in_parts(report.plan.source)
    if in_parts:
        sheet = None
    # Write the results file first: it is a copy of the current sheet.
    results = Path(request.results) if request.results else None
    if results is None and sheet is not None and report.plan.changes:
        results = None if request.into_sheet == "results" else default_results_path(sheet)
    if is_again and outputs.are_in_results(report):
        written.add(f"The outcome of each row is in {shorten_path(Path(request.written))}.")
    elif results is not None:
        is_named = bool(request.results)
        _write_results(report, sheet, results, outputs, written, is_named=is_named)
    elif in_parts:
        written.add("No results file is written for a folder: --report lists the outcomes.")
    elif sheet is None and not report.plan.undoes:
        written.add("No results file was written: the sheet is missing or was changed.")
    is_written = is_again and outputs.are_in_sheet(report)
    if request.into_sheet and not report.plan.undoes and not is_written:
        _write_into_sheet(report, sheet, request.into_sheet, outputs, written)


def _write_results(
    report: Report,
    sheet: Sheet | None,
    path: Path,
    outputs: Outputs,
    written: _Written,
    *,
    is_named: bool,
) -> None:
    """Write the results file, and add messages. A symbolic link is followed only if the user has
    named the path.
    """
    from petsync.cli.context import find_free_path
    from petsync.sheets.files import must_be_closed

    backups: list[Path] = []
    try:
        must_be_closed(path)
    except PetsyncError as error:
        written.add(f"{error.problem}, so the results go to another file.", "bold")
        path = find_free_path(path)

    if path.is_symlink() and not is_named:
        message = f"{shorten_path(path)} is a symbolic link: the results go to another file."
        written.add(message, "bold")
        path = find_free_path(path)

    def save() -> None:
        if sheet is None:
            backup = save_results(report, None, path)
        else:
            backup = outputs.write_results(sheet, report, path, follow=is_named)
        if backup is not None:
            backups.append(backup)

    if not _write(written, f"The outcome of each row is in {shorten_path(path)}.", save):
        return
    if sheet is not None and sheet.form:
        written.add(f"It is a copy, because petsync does not write into {sheet.form}.")
    for backup in backups:
        written.add(f"The earlier file of that name is kept as {shorten_path(backup)}.")


def shorten_path(path: Path) -> Path:
    """Return the path, made relative if it is in the current folder or below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _write_into_sheet(
    report: Report,
    sheet: Sheet | None,
    into_sheet: IntoSheet,
    outputs: Outputs,
    written: _Written,
) -> None:
    """Write ids or results into the sheet, and add messages."""
    if sheet is None:
        message = (
            f"error: {report.plan.source} is missing or was changed: nothing was written into it."
        )
        written.add(message, "bold red")
        written.add("The journal records the pet of each row: a later plan adds no row twice.")
        written.code = written.code or 1
        return
    try:
        backup = outputs.write_into_sheet(sheet, report, into_sheet)
    except PetsyncError as error:
        written.add_error(error)
        return
    what = f"The outcome of each row is in {sheet.source}"
    if into_sheet == "ids":
        what = f"The new ids are in {sheet.source}"
        if all(each.assigned_id is None for each in report.results):
            what = f"The run assigned no id: {sheet.source} has the same cells as before"
    written.add(f"{what}; the earlier version is in {backup}.")


def _check_into_sheet(sheet: Sheet | None, option: str) -> None:
    """Raise UsageError or SheetError, before anything is sent, if the sheet cannot be written."""
    from petsync.sheets import must_take_results

    if sheet is None:
        raise click.UsageError(
            f"{option}: the sheet of this plan is missing or was changed since the plan was made."
        )
    must_take_results(sheet)


def _ask_for_ids(context: Context, plan: Plan, sheet: Sheet | None, *, yes: bool) -> IntoSheet:
    """Ask whether to write the new ids into the sheet, and return "ids" or "". There is no
    question, and the result is "", with `yes`, without a terminal, if there are no new ids, or if
    the sheet cannot be written or has several files.
    """
    from petsync.sheets import must_take_results
    from petsync.store.runs import assigns_ids

    if is_in_parts(plan.source):
        return ""
    if yes or sheet is None or sheet.form or not plan.changes or not assigns_ids(plan):
        return ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ""
    try:
        must_take_results(sheet)
    except PetsyncError as error:
        context.say(f"The new ids cannot be written into the sheet: {error.problem}.", "bold")
        context.say(
            f"{error.cure} The results file gets the ids. To write them into the sheet later: "
            f"`petsync apply {quote(sheet.source)} --write-ids`."
        )
        return ""
    question = f"Write the new ids into {sheet.source} itself, and keep a backup?"
    return "ids" if ask_yes_no(question, default=True) else ""


def _build_request(into_sheet: IntoSheet, results: Path | None) -> OutputRequest:
    from petsync.store.runs import OutputRequest

    return OutputRequest(
        into_sheet=into_sheet, results="" if results is None else str(results.absolute())
    )


def build_outputs(store: Store) -> Outputs:
    from petsync.store.runs import Outputs

    return Outputs(store.aio.history)


def _write(written: _Written, message: str, save: Callable[[], None]) -> bool:
    """Call `save`, add the message or the error, and return true if the file was written."""
    try:
        save()
    except PetsyncError as error:
        written.add_error(error)
        return False
    written.add(message)
    return True


def check_outputs(source: Path | str | None, results: Path | None, page: Path | None) -> None:
    """Raise UsageError if an output file cannot be written, or would replace another file of the
    command.
    """
    for path in (results, page):
        if path is not None:
            if source is not None:
                must_differ(path, source)
            must_be_writable(path)
    if results is not None and page is not None and results.resolve() == page.resolve():
        raise click.UsageError(f"--results and --report are the same file, {page}.")
    check_page(page)


def _check_fit(plan: Plan, sheet: Sheet | None, results: Path | None, page: Path | None) -> None:
    """Raise UsageError if a file would replace the sheet or its base, or if the results file has
    the wrong extension.
    """
    for path in (results, page):
        if path is not None:
            must_differ(path, Path(plan.source))
    if results is not None and is_in_parts(plan.source):
        raise click.UsageError("--results cannot apply to a folder: --report lists the outcomes.")
    from petsync.store.runs import results_endings

    suffixes: tuple[str, ...] = (".xlsx",) if sheet is None else results_endings(sheet)
    if results is not None and results.suffix.lower() not in suffixes:
        kind = "a text sheet" if ".csv" in suffixes else "a workbook"
        raise click.UsageError(
            f"--results {results}: the results are {kind}; the file extension must be one of "
            f"{', '.join(suffixes)}."
        )


def _find_url_of_run(context: Context, run_id: str) -> tuple[str, str]:
    """Return the address of a run's store, and where it is from. Raises PlanError if no run is
    recorded.
    """
    from petsync.errors import PlanError
    from petsync.store.runs import RunHistory

    history = RunHistory(context.settings.state)
    if not history.runs():
        raise PlanError("no run is recorded here", hint=history.explain_lack())
    return find_url_of_run(context.settings.state, run_id) if run_id else ("", "")


# `petsync resume`: finish a stopped run.


_RESUME_EXAMPLES = """
petsync resume
petsync resume 20261121-0930 --report report.html
petsync resume --rate 20
"""


@as_command("resume", examples=_RESUME_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=complete_runs)
@file_option(
    "--results",
    help="Where to write the sheet with the outcome of each row and the new "
    "ids.  [SHEET.results.xlsx]",
)
@file_option(
    "--report",
    "page",
    help="Write the report as an HTML page.",
)
@run_options
@click.pass_obj
def resume_command(
    context: Context, run_id: str, results: Path | None, page: Path | None, pacing: dict[str, Any]
) -> int:
    """Finish a run that was stopped or killed, or that has failures.

    RUN is the id of a run, the beginning of an id, or `last` for the store's newest run; the
    default is the newest run that is not complete. petsync determines the outcome of each request
    that was under way when the run ended, then sends the remaining changes without asking. No
    change is made twice. The report covers the whole run. An option that you do not give has the
    value that it had in the run. If the run is complete, petsync sends nothing, and writes only
    the files that are missing.

    Exit codes: 0, 1 for an error, or if all was sent but a file could not be written, 3 if rows
    failed, 4 if a sentinel has changed, 5 for conflicts, 6 if a run uses this store, 7 if stopped
    again.
    """
    from petsync.apply.engine import refuse_drifted
    from petsync.plan.change import FailedLookup
    from petsync.plan.report import is_resumable

    check_outputs(None, results, page)
    with interruptible_run(context):
        find_url = partial(_find_url_of_run, context, run_id)
        with context.connect(find_url, find_job=partial(find_job_of_run, name=run_id)) as store:
            with explain_round_names(context.settings.state, run_id):
                past, plan = store.aio.to_resume(run_id, startable=True)
                run = past.run_id
                statuses = store.api.aio.session.profile.statuses
                outputs = build_outputs(store)
                sheet = None if plan.undoes else outputs.sheet(plan, statuses)
            if results is not None:
                named = str(results.absolute())
                request = outputs.read_request(plan)
                outputs.remember(plan, replace(request, results=named, in_results=""))
            if is_resumable(past):
                found = store.look_up([pet.id for pet in plan.sentinels if pet.id is not None])
                now = {i: each for i, each in found.items() if not isinstance(each, FailedLookup)}
                refuse_drifted(plan, now)
            total, is_complete = len(plan.changes), not is_resumable(past)
            if is_complete:
                context.say(f"Run {run} on {store.url} is complete: nothing is left to send.")
            else:
                context.say(f"Resuming run {run} on {store.url}: {count(total, 'change')} in all.")
            report, error = run_with_progress(
                context, store, total, partial(store.resume, run, **pacing), text="Resuming"
            )
        return finish_run(
            context, report, error, sheet, page, outputs=outputs, is_again=is_complete
        )


# `petsync undo`: show the undo of a run, ask, and apply it.


_PUSH_NOTE = (
    "Job {job} made this run, and its sheet has priority: the next round sends all changes again. "
    "To prevent this, fix the sheet first, or set enabled = false in the job's table."
)
_SYNC_NOTE = (
    "Job {job} made this run. Its next round writes the undone values into the sheet too, except "
    "cells that are edited there before then. The row of a pet that the undo deletes stays, with a "
    "note, unless delete_missing is on. To keep the sheet as it is, set enabled = false in the "
    "job's table."
)
_NOTES_BY_MODE = {
    "push": _PUSH_NOTE,
    "two-way": _SYNC_NOTE,
    "pull": _SYNC_NOTE,
    "check": _SYNC_NOTE,
}
"""What the next round of a job does after an undo of its run, by the job's mode."""
_OWNED_NOTE = (
    "The sheet owns {fields}: the next round sends the sheet's values again. To prevent this, "
    "change them in the sheet first."
)
_UNDOING = {each.name for each in iter_keywords(UndoKeywords)} | {"ids", "kinds", "query"}
"""The parameters of the options that decide what is undone."""
_UNDO_EXAMPLES = """
petsync undo
petsync undo 20261121-0930 --max-delete 25
petsync undo 20261121-0930 --id 4711 --id 4712 --yes
petsync undo 20261121-0930 -o undo.json -o undo.html
"""


@as_command("undo", examples=_UNDO_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=complete_runs)
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
    help="Undo only by adding, updating or deleting pets; repeatable.",
)
@click.option(
    "--query",
    metavar="QUERY",
    help="Undo only the changes that this query selects, such as \"name == 'Max'\"; docs/undo.md "
    "lists the names.",
)
@keyword_options(UndoKeywords, "limits")
@file_option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    help="Save the undo and send nothing: as .json for `petsync apply`, as .html, "
    ".xlsx, .md or .txt to read it; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the undo in this format and send nothing; xlsx needs -o.",
)
@limit_option(
    help="With -o or --format: how many rows of each kind to print; 0 for all.  [20; md: 100]",
)
@file_option(
    "--report",
    "page",
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
    limits: dict[str, Any],
    outputs: tuple[Path, ...],
    form: str | None,
    limit: int | None,
    page: Path | None,
    pacing: dict[str, Any],
) -> int:
    """Restore what a run changed.

    RUN is the id of a run, the beginning of an id, or `last` for the store's newest run; the
    default is the newest run that changed something and is not completely undone. The undo is a
    plan: petsync shows it, the guard checks it, and you confirm it. A pet that was changed since
    the run stays as it is and is listed. An undo is a run too, which you can undo by its id.

    Without --yes and without a terminal, petsync sends nothing. Exit codes: 0, 2 if there are
    changes that you did not confirm, 3 if rows failed, 4 if the guard refuses the undo, 5 for
    conflicts, 6 if a run uses this store, 7 if stopped.
    """
    is_preview = form is not None or bool(outputs)
    output_format = choose_format(context, form, outputs) if is_preview else ""
    for path in outputs:
        check_output(path, None, form)
    check_outputs(None, None, page)
    with interruptible_run(context):
        find_url = partial(_find_url_of_run, context, run_id)
        with context.connect(find_url, find_job=partial(find_job_of_run, name=run_id)) as store:
            state = context.settings.state
            with (
                explain_round_names(state, run_id),
                progress.show_lookups(context.err, "Reading the pets of the run") as step,
            ):
                plan = store.undo(run_id, on_progress=step, **limits)
            if ids or kinds or query is not None:
                plan = plan.select(ids=ids or None, actions=kinds or None, query=query)
            _show_undone_run(context, store, plan)
            if is_preview:
                return _save_undo(context, plan, outputs, output_format, limit)
            if plan.changes:
                store.api.aio.session.require_write()
            if not confirm_plan(context, plan, yes):
                if not is_interactive():
                    context.suggest("undo", plan.undoes, "--yes", repeat=None, url=False)
                return PENDING
            report, error = apply_plan(context, store, plan, **pacing)
            run_outputs = build_outputs(store)
        is_listed = is_same_output()
        return finish_run(
            context, report, error, None, page, outputs=run_outputs, is_listed=is_listed
        )


def _show_undone_run(context: Context, store: Store, plan: Plan) -> None:
    """Print the run to undo and, if it is a job's, what the next round of the job does."""
    from petsync.report.views.run import run_line
    from petsync.table.columns import COLUMNS_OF

    past = store.aio.history.find(plan.undoes)
    context.say(f"The run to undo: {past.run_id}, {run_line(past)}.")
    round_ = find_round_of(store.aio.settings.state, past.run_id)
    if round_ is not None:
        note = _NOTES_BY_MODE[round_.mode].format(job=round_.job)
        owners = store.aio.history.journal.read_options(past.run_id).owners
        columns = {column for change in plan.changes for column in change.fields}
        owned = [
            unit
            for unit, owner in owners.items()
            if owner == "sheet" and not columns.isdisjoint(COLUMNS_OF[unit])
        ]
        if owned and round_.mode == "two-way":
            note = f"{note} {_OWNED_NOTE.format(fields=' and '.join(owned))}"
        context.say(note, "bold")


def _save_undo(
    context: Context,
    plan: Plan,
    outputs: tuple[Path, ...],
    form: str,
    limit: int | None,
) -> int:
    save_and_print(context, plan, outputs, form, limit)
    saved = find_saved_plan(outputs)
    if plan.verdict.ok and form == "text" and plan.changes:
        if saved is not None:
            context.suggest("apply", saved, url=False)
        else:
            context.suggest("undo", plan.undoes, repeat=_UNDOING, url=False)
    if plan.verdict.ok:
        return 0
    context.say("error: the guard refuses this undo; it would not be applied", "bold red")
    return GuardError.exit_code
