"""`petsync rehearse`: a plan applied to a copy of the store."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from petsync.cli import progress
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import keep_apart, must_be_writable
from petsync.cli.planning import Asked, plan_options, read
from petsync.cli.signals import loading
from petsync.errors import InterruptedRunError

if TYPE_CHECKING:
    from petsync.diff.plan import Plan
    from petsync.diff.rehearsal import Rehearsal
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["command"]

_SHEETS = (".xlsx", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
_EXAMPLES = """
petsync rehearse plan.json
petsync rehearse catalogue.xlsx --delete-missing -o after.xlsx
petsync rehearse plan.json --faults 429=0.05,drop_after=0.02 --seed 7
"""


@as_command("rehearse", examples=_EXAMPLES)
@click.argument("source", metavar="PLAN.json|SHEET", type=click.Path(path_type=Path))
@click.option(
    "--faults",
    default="",
    metavar="SPEC",
    help="Break answers of the copy meanwhile, as `petsync serve` does: see the example.",
)
@click.option("--seed", type=int, metavar="N", help="What decides which answers are broken.  [0]")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=16,
    metavar="N",
    help="Changes at a time; with 1 a seed breaks the same answers each time.  [16]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write how the store would look: .xlsx, .csv, .tsv, .json, .jsonl or .parquet.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the copy in a new file, to look around in it with `petsync serve --db FILE`.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What is shown, as an HTML page.",
)
@plan_options
@click.pass_obj
def command(
    context: Context,
    source: Path,
    faults: str,
    seed: int | None,
    concurrency: int,
    output: Path | None,
    keep: Path | None,
    page: Path | None,
    asked: Asked,
) -> int:
    """Apply a plan, or a sheet's, to a copy of the store, and show what comes of it.

    The store is read and copied to this machine; there the plan is applied as `petsync apply`
    does it. Nothing is sent to the store itself that changes anything, and a plan is not used up.
    Then a second plan is made from the same sheet: it should be empty.

    Exits with 0 if all went as planned, 2 if a second plan would send something, 3 if rows
    failed, 4 if the guard refuses the plan (it is rehearsed all the same), 5 for conflicts or a
    plan that was applied before, 7 if it was interrupted.
    """
    is_plan = source.suffix.lower() == ".json"
    _check_files(source, output, keep, page)
    _check_faults(faults, seed)
    if is_plan and asked:
        raise click.UsageError("A saved plan is rehearsed as it is; these options are for a SHEET.")
    options: dict[str, Any] = {
        "faults": faults,
        "seed": seed,
        "concurrency": concurrency,
        "keep": keep,
    }
    with loading():
        import_module("petsync.rehearsal")
    try:
        with context.connect() as store:
            written = (output, keep, page)
            given = None if is_plan else asked
            rehearsal = _rehearsed(context, store, source, given, written, options)
    except (KeyboardInterrupt, click.Abort):
        raise InterruptedRunError(
            "the rehearsal was interrupted", hint="Nothing was sent to the store itself."
        ) from None
    _leave(context, rehearsal, output, page)
    if keep is not None:
        context.say(f"The copy is in {keep}: `petsync serve --no-auth --db {keep}` serves it.")
    return rehearsal.exit_code


def _rehearsed(
    context: Context,
    store: Store,
    source: Path,
    asked: Asked | None,
    written: Iterable[Path | None],
    options: dict[str, Any],
) -> Rehearsal:
    from petsync.rehearsal import rehearse

    sheet: Sheet | None = None
    with progress.looked_up(context.err, "Reading the store") as looked_up:
        if asked is None:
            plan = _loaded(store, source)
            _keep_sheet(plan, written)
            snapshot = store.snapshot()
        else:
            arguments = asked.arguments
            snapshot, sheet = read(store, source, asked)
            plan = store.plan(sheet, **arguments, snapshot=snapshot, on_progress=looked_up)
            _keep_sheet(plan, written)
    with progress.shown(context.err, len(plan.changes), "Rehearsing") as step:
        return rehearse(store, plan, sheet=sheet, snapshot=snapshot, on_progress=step, **options)


def _keep_sheet(plan: Plan, written: Iterable[Path | None]) -> None:
    """Raise UsageError where a file would be written over the sheet of the plan, and SheetError
    where over one that a person edited.
    """
    from petsync.sheets.backup import must_be_replaceable

    for path in written:
        if path is not None and plan.source:
            keep_apart(path, Path(plan.source))
        if path is not None and path.suffix.lower() in _SHEETS:
            must_be_replaceable(path)


def _loaded(store: Store, path: Path) -> Plan:
    from petsync.apply.planfile import load_plan

    plan = load_plan(path)
    store.check(plan)
    return plan


def _leave(context: Context, rehearsal: Rehearsal, output: Path | None, page: Path | None) -> None:
    """Print it, once the files are written that are asked for."""
    if output is not None:
        from petsync.sheets import write_sheet

        # Without a base: it is no export, and its new ids are the copy's.
        write_sheet(rehearsal.after, output, base=False)
    if page is not None:
        _save_page(rehearsal, page)
    if context.as_json:
        from petsync.render.rehearsal_json import rehearsal_json

        context.show(rehearsal_json(rehearsal))
    else:
        from petsync.render.terminal import show_rehearsal

        show_rehearsal(rehearsal, context.out)
    if output is not None:
        context.say(f"How the store would look is in {output}.")
    if page is not None:
        context.say(f"The report is in {page}.")


def _save_page(rehearsal: Rehearsal, path: Path) -> None:
    from petsync.render.page import page
    from petsync.render.rehearsal_html import rehearsal_html
    from petsync.sheets import atomic

    title = f"Rehearsal of {Path(rehearsal.plan.source).name}"
    html = page(rehearsal_html(rehearsal, limit=None), title)
    atomic.replace(path, html.encode(), like=rehearsal.plan.source)


def _check_files(source: Path, output: Path | None, keep: Path | None, page: Path | None) -> None:
    """Raise UsageError, before anything is asked, where a file could not be left behind."""
    written = [path for path in (output, keep, page) if path is not None]
    for path in written:
        keep_apart(path, source)
        must_be_writable(path)
    if len({path.resolve() for path in written}) < len(written):
        raise click.UsageError("-o, --keep and --report need files of their own.")
    if output is not None and output.suffix.lower() not in _SHEETS:
        raise click.UsageError(f"-o {output}: the ending must be one of {', '.join(_SHEETS)}.")
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--report {page}: the ending must be .html or .htm.")
    if keep is not None and lexists(keep):
        raise click.UsageError(f"--keep {keep}: there is a file already; name a new one.")


def _check_faults(faults: str, seed: int | None) -> None:
    """Raise, before anything is asked, for faults that cannot be."""
    if seed is not None and not faults:
        raise click.UsageError("--seed decides which answers --faults breaks: give that too.")
    if faults:
        from petsync.rehearsal.run import specification

        specification(faults, seed)
