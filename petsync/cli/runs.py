"""`petsync runs`: list runs and rounds, their outcomes, and the changes of a pet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync.cli.context import (
    Context,
    complete_jobs,
    complete_runs,
    find_free_path,
    must_be_writable,
)
from petsync.cli.context import command as as_command
from petsync.cli.options import (
    PetName,
    check_page,
    explain_round_names,
    file_option,
    find_pet_ids,
    find_round,
    find_rounds,
    limit_option,
    save_history,
    save_report,
    save_results,
    save_uploaded,
)
from petsync.cli.run import check_outputs, shorten_path
from petsync.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from petsync.plan.report import Entry, PastRun, Report, RoundReport
    from petsync.plan.rounds import Round
    from petsync.plan.uploads import UploadReport
    from petsync.store.runs import RunHistory

__all__ = ["command"]


_MAX_SHOWN, _MAX_ON_PAGE = 20, 100
_EXAMPLES = """
petsync runs
petsync runs 20261121-0930 --report report.html
petsync runs last --failed fixed.xlsx
petsync runs --pet 4711
petsync runs --html history.html
"""


@as_command("runs", examples=_EXAMPLES)
@click.argument("run_id", metavar="[RUN]", default="", shell_complete=complete_runs)
@click.option(
    "--pet",
    type=PetName(),
    metavar="ID|NAME",
    help="List every change of this pet, with the values before and after.",
)
@limit_option(
    help="How many runs, rounds, or rows of each kind to list; 0 for all.  [20; --html: 100]",
)
@click.option(
    "--job",
    default="",
    metavar="NAME",
    help="Only the rounds and runs of this job.",
    shell_complete=complete_jobs,
)
@file_option(
    "--html",
    "history_page",
    help="Write the history of the rounds, with plots, as an HTML page.",
)
@click.option(
    "--failed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.xlsx",
    help="Write the rows of RUN that failed, conflict or need fixing as a workbook, to fix and "
    "apply again; if FILE exists, the workbook gets another name in the same folder.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.xlsx",
    help="Write the outcome of each row of RUN as a workbook.",
)
@file_option(
    "--report",
    "page",
    help="Write the report of RUN as an HTML page.",
)
@click.pass_obj
def command(
    context: Context,
    run_id: str,
    pet: int | str | None,
    limit: int | None,
    job: str,
    history_page: Path | None,
    failed: Path | None,
    results: Path | None,
    page: Path | None,
) -> int:
    """List the runs, show one of them, or list every change of a pet.

    Also lists the rounds of `petsync reconcile`; --html plots their changes, open differences,
    drift and duration for each job.

    RUN is the id of a run or a round, the beginning of an id, or `last` for the newest run. All
    data come from the state folder: petsync sends no request. If no url is set, the runs on all
    stores are listed.

    The workbook of --failed has a comment on each cell to fix, and a base: fix it, then `petsync
    apply` it. `petsync resume` sends the rows that were not sent yet.
    """
    _check_options(run_id, pet, job, history_page, {"--failed": failed, "--results": results}, page)
    rows_shown = _MAX_SHOWN if limit is None else limit
    history = _history(context)
    if pet is not None:
        (pet_id,) = find_pet_ids("--pet", [pet], _iter_names(context, history, pet))
        _show_pet(context, pet_id, _find_changes(context, history, pet_id, run_id))
    elif run_id:
        _show_run(context, history, run_id, rows_shown or None, results, page, failed)
    else:
        store = _store(context)
        rounds, found = find_rounds(context.settings.state, job, store), history.runs(store)
        if job:
            # Not at the top: `petsync --help` must not wait for pandas.
            from petsync.plan.report import runs_of

            found = runs_of(found, rounds)
        if history_page is not None:
            page_limit = (_MAX_ON_PAGE if limit is None else limit) or None
            save_history(rounds, found, history_page, page_limit)
        _show_runs(context, found, rounds[::-1], rows_shown or None)
        if history_page is not None:
            context.say(f"Saved {history_page}.")
    return 0


def _check_options(
    run_id: str,
    pet: int | str | None,
    job: str,
    history_page: Path | None,
    workbooks: Mapping[str, Path | None],
    page: Path | None,
) -> None:
    """Raise UsageError if options contradict each other, or if a file cannot be written."""
    if (any(workbooks.values()) or page) and (not run_id or pet is not None):
        raise click.UsageError(
            f"{', '.join(workbooks)} and --report are for one run: name it, and leave out --pet."
        )
    if (job or history_page) and (run_id or pet is not None):
        raise click.UsageError("--job and --html are for lists of runs: leave out RUN and --pet.")
    check_outputs(None, workbooks["--results"], page)
    if history_page is not None:
        must_be_writable(history_page)
        check_page(history_page, "--html")
    for option, path in workbooks.items():
        if path is not None and path.suffix.lower() != ".xlsx":
            raise click.UsageError(f"{option} {path}: the file extension must be .xlsx.")
        if path is not None:
            must_be_writable(path)


def _history(context: Context) -> RunHistory:
    from petsync.store.runs import RunHistory

    return RunHistory(context.settings.state)


def _store(context: Context) -> str | None:
    """Return the base URL in the settings, as runs record it; None for all stores."""
    url = context.settings.url
    if url is None:
        return None
    from petsync.client.origin import checked_base

    return checked_base(url, with_secret=False)


def _iter_names(context: Context, history: RunHistory, pet: int | str) -> Iterator[tuple[int, str]]:
    """Yield the ids and names that pets had before and after the changes of all runs; nothing for a
    pet that is given by id.
    """
    if isinstance(pet, int):
        return
    for run in history.runs(_store(context)):
        for entry in history.entries(run.run_id):
            pet_id = entry.assigned_id or entry.pet_id
            for state in (entry.before, entry.after):
                if state is not None and state.name and pet_id is not None:
                    yield pet_id, state.name


def _find_changes(
    context: Context, history: RunHistory, pet: int, run_id: str
) -> list[tuple[PastRun, Entry]]:
    if not run_id:
        return history.find_entries(pet, _store(context))
    past = history.find(run_id)
    return [
        (past, entry)
        for entry in history.entries(past.run_id)
        if pet in (entry.pet_id, entry.assigned_id)
    ]


def _show_runs(
    context: Context, runs: Sequence[PastRun], rounds: Sequence[Round], limit: int | None
) -> None:
    """Print runs and rounds, the newest first; without rounds, only the runs."""
    if context.as_json:
        round_data = {"rounds": rounds[:limit]} if rounds else {}
        context.show_json({"runs": runs[:limit], **round_data})
        return
    from petsync.apply.engine import find_unfinished
    from petsync.report.views.round import past_rounds_view
    from petsync.report.views.run import runs_view

    if rounds:
        context.show_view(past_rounds_view(rounds, limit=limit))
        context.out.print()
    context.show_view(runs_view(runs, limit=limit))
    if not (runs or rounds):
        context.say(_history(context).explain_lack(_store(context)))
    unfinished = next(find_unfinished(runs), None)
    if unfinished is not None:
        context.say(
            f"`petsync resume {unfinished.run_id}` sends the remaining changes of that run."
        )
    for run in _find_undone_unknown(runs):
        context.say(
            f"Run {run.run_id} was undone, but the outcome of some of its changes is unknown: "
            f"`petsync resume {run.run_id}` determines it, and sends nothing."
        )


def _find_undone_unknown(runs: Sequence[PastRun]) -> list[PastRun]:
    from petsync.apply.engine import has_unknown
    from petsync.plan.report import find_undoing_runs

    undone = find_undoing_runs(runs)
    return [
        run for run in runs if run.run_id in undone and run.kind != "upload" and has_unknown(run)
    ]


def _show_pet(context: Context, pet: int, changes: Sequence[tuple[PastRun, Entry]]) -> None:
    if context.as_json:
        data = [{"run": past, "change": entry} for past, entry in changes]
        context.show_json({"pet": pet, "changes": data})
        return
    from petsync.report.views.run import pet_view

    context.show_view(pet_view(pet, changes))


def _show_run(
    context: Context,
    history: RunHistory,
    run_id: str,
    limit: int | None,
    results: Path | None,
    page: Path | None,
    failed: Path | None,
) -> None:
    try:
        past = history.find(run_id)
    except PlanError:
        round_report = find_round(context.settings.state, run_id)
        if round_report is None:
            raise
        if failed is not None or results is not None:
            with explain_round_names(context.settings.state, run_id):
                raise
        _show_round(context, round_report, limit, page)
        return
    if past.kind == "upload":
        workbooks = {"--results": results, "--failed": failed}
        _show_upload(context, history, past, limit, workbooks, page)
        return
    _show_report(context, history.report(past.run_id), limit, results, page)
    if failed is not None:
        _save_failed(context, history, past.run_id, failed)


def _show_report(
    context: Context, report: Report, limit: int | None, results: Path | None, page: Path | None
) -> None:
    backup = None if results is None else save_results(report, None, results)
    if page is not None:
        save_report(report, page)
    if context.as_json:
        from petsync.report.json import report_json

        context.show(report_json(report))
    else:
        from petsync.report.views.run import report_view

        context.show_view(report_view(report, limit=limit))
    for path in (results, page):
        if path is not None:
            context.say(f"Saved {path}.")
    if backup is not None:
        context.say(f"The earlier file of that name is kept as {shorten_path(backup)}.")


def _save_failed(context: Context, history: RunHistory, run_id: str, path: Path) -> None:
    """Write the failed rows of the run, and say which rows the workbook does not have."""
    from petsync._display import count, quote
    from petsync.plan.change import job_of
    from petsync.profile import profile_from
    from petsync.store.failed import save_failed_rows
    from petsync.store.runs import Outputs

    report, settings = history.report(run_id), context.settings
    statuses = profile_from(settings.profile, settings.service).statuses
    # An earlier workbook may have been edited.
    found = save_failed_rows(Outputs(history), report, find_free_path(path), statuses)
    if found.path is None:
        context.say(f"No row of run {report.run_id} failed: no workbook was written.")
    else:
        context.say(f"The {count(found.rows, 'row')} to fix: {found.path}.")
    resume = f"`petsync resume {report.run_id}`"
    left_out = report.plan.left_out
    if found.unsent > left_out:
        rows = count(found.unsent - left_out, "row")
        context.say(f"{rows} without a request: {resume} sends what the run has not sent.")
    if left_out:
        job = job_of(report.plan.raw_notes)
        again = f"`petsync reconcile --job {quote(job)}`" if job else "plan the sheet again"
        context.say(f"{count(left_out, 'row')} not selected: {again} to send more.")
    if found.unknown:
        rows = count(found.unknown, "row")
        context.say(f"{rows} with an unknown outcome: {resume} determines it.")
    if found.pets:
        context.say(f"{count(found.pets, 'pet')} in no row: the report says why.")
    if found.path is not None:
        context.suggest("plan", found.path, url=False)


def _show_round(
    context: Context, report: RoundReport, limit: int | None, output: Path | None
) -> None:
    if output is not None:
        suffix = f" Its report is {report.round.report}." if report.round.report else ""
        raise click.UsageError(f"{report.round.id} is a round, not a run in the journal.{suffix}")
    if context.as_json:
        from petsync.report.json import round_json

        context.show(round_json(report))
        return
    from petsync.report.views.round import round_view

    context.show_view(round_view(report, limit=limit))


def _show_upload(
    context: Context,
    history: RunHistory,
    past: PastRun,
    limit: int | None,
    workbooks: Mapping[str, Path | None],
    page: Path | None,
) -> None:
    for option, path in workbooks.items():
        if path is not None:
            raise click.UsageError(
                f"{option}: run {past.run_id} uploaded images, and has no rows for a workbook. "
                "--report FILE.html shows what happened to each file."
            )
    entries, report = history.entries(past.run_id), _load_upload(history, past)
    if context.as_json:
        files = None if report is None else report.results
        context.show_json({"run": past, "changes": entries, "files": files})
    else:
        from petsync.report.views.run import run_view

        files = () if report is None else report.results
        context.show_view(run_view(past, entries, files=files, limit=limit))
    if page is not None:
        if report is None:
            raise PlanError(
                f"the files of run {past.run_id} are listed in a format that this petsync cannot "
                "read, so there is no report",
                hint=f"`petsync runs {past.run_id}` shows what it did to each pet.",
            )
        save_uploaded(report, page)
        context.say(f"Saved {page}.")


def _load_upload(history: RunHistory, past: PastRun) -> UploadReport | None:
    """Return the upload's report; None if the journal has no list of its files that this petsync
    can read.
    """
    try:
        return history.upload(past.run_id)
    except PlanError:
        return None
