"""`petsync plan`: what would change, and nothing sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync.cli import gaps, progress
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import keep_apart, must_be_writable
from petsync.cli.planning import Asked, of_sheet, plan_options, verdict_code, why_of_sheet
from petsync.errors import GuardError, SheetError

if TYPE_CHECKING:
    from petsync.diff.plan import Plan

__all__ = ["FORMATS", "check_output", "command", "form_of", "print_plan", "save"]

FORMATS = ("text", "json", "html", "xlsx", "md")
_BY_SUFFIX = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
    ".md": "md",
    ".txt": "text",
}
_SHOWN = {"text": 20, "md": 100}
"""How many rows of each sort are printed where nobody says otherwise."""
_EXAMPLES = """
petsync plan catalogue.xlsx
petsync plan catalogue.xlsx -o plan.json -o plan.html
petsync plan catalogue.xlsx --delete-missing --max-delete 25
petsync plan arrivals.csv --match-on name --exit-code
petsync plan catalogue.xlsx --why 4711
"""


@as_command("plan", examples=_EXAMPLES)
@click.argument("sheet", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save the plan: as .json to apply it later, as .html, .xlsx, .md or .txt to look at; "
    "repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print: text, json, html or md, for a pull request; xlsx needs -o.  [text]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many rows of each sort to print; 0 for all (md: all that a comment takes).  "
    "[20, of md 100]",
)
@click.option(
    "--why",
    "asked_why",
    type=int,
    multiple=True,
    metavar="ID",
    help="Print instead why the plan does with this pet what it does; repeatable.",
)
@plan_options
@click.option("--exit-code", is_flag=True, help="Exit by what is found, as described above.")
@click.pass_obj
def command(
    context: Context,
    sheet: Path,
    outputs: tuple[Path, ...],
    form: str | None,
    limit: int | None,
    asked_why: tuple[int, ...],
    asked: Asked,
    exit_code: bool,
) -> int:
    """Show what would bring the store to what SHEET says.

    SHEET is an .xlsx or .csv file. Nothing is sent that changes anything. A missing column or a
    blank cell says nothing; [clear] empties a field; a row without an id is a new pet.

    Exits with 0, or with 4 if the plan is over a limit. With --exit-code: 2 if changes are
    pending; else 5 if rows are in conflict with the store; else 3 if errors in the sheet block
    rows, or pets could not be looked up; else 0, in sync. With --why always with 0.
    """
    if asked_why:
        _only_why(form, outputs, exit_code=exit_code)
        return _explain(context, sheet, asked, asked_why, as_json=context.as_json or form == "json")
    asked_form = form
    form = form_of(context, form, outputs)
    for path in outputs:
        check_output(path, sheet, asked_form)
    text = "Comparing the sheet with the store"
    with context.connect() as store, progress.looked_up(context.err, text) as step:
        plan, _ = of_sheet(store, sheet, asked, step)
    gaps.warn(context, plan.coverage)
    kinds = [save(plan, path, form, limit) for path in outputs]
    if context.as_json or form not in kinds or form in ("text", "json"):
        print_plan(context, plan, form, limit)
    for path in outputs:
        context.say(f"Saved {path}.")
    code = verdict_code(plan)
    if code == GuardError.exit_code:
        context.say("error: the guard refuses this plan; it would not be applied", "bold red")
        return code
    return code if exit_code else 0


def save(plan: Plan, path: Path, form: str = "text", limit: int | None = 0) -> str:
    """Write the plan in the format of the path's suffix, else of `form`; which one it was. Text and
    Markdown have the first `limit` rows of each sort, 0 for all; where it is None, text has all.
    """
    kind = _BY_SUFFIX.get(path.suffix.lower(), form)
    if kind == "html":
        from petsync.sheets import atomic

        atomic.replace(path, _html(plan), like=plan.source)
    elif kind == "xlsx":
        from petsync.render.workbook import plan_workbook

        plan_workbook(plan, path)
    elif kind == "text":
        from petsync.render.text import plan_text
        from petsync.sheets import atomic

        text = plan_text(plan, limit=limit or None).encode() + b"\n"
        atomic.replace(path, text, like=plan.source)
    elif kind == "md":
        from petsync.sheets import atomic

        atomic.replace(path, _markdown(plan, limit), like=plan.source)
    else:
        from petsync.apply.planfile import save_plan

        save_plan(plan, path)
    return kind


def check_output(path: Path, sheet: Path | None, form: str | None) -> None:
    """Raise UsageError where a plan made from the sheet cannot be saved so."""
    # A name without an ending is written as --format says.
    if path.suffix.lower() not in _BY_SUFFIX and (path.suffix or form is None):
        raise click.UsageError(f"{path}: the ending must be one of {', '.join(_BY_SUFFIX)}.")
    if sheet is not None:
        keep_apart(path, sheet)
    must_be_writable(path)
    if path.suffix.lower() == ".xlsx" and path.is_file():
        _must_be_no_export(path)


def _must_be_no_export(path: Path) -> None:
    """Raise UsageError where the workbook carries the base of an export: people edit those."""
    from petsync.sheets.base import find
    from petsync.sheets.source import load

    try:
        base, refused = find(load(path))
    except SheetError:
        return
    if base is not None or refused:
        raise click.UsageError(f"{path} is an export of petsync: it would be overwritten.")


def form_of(context: Context, form: str | None, outputs: Sequence[Path]) -> str:
    """What to print. Raises UsageError where that is contradictory, or is no text."""
    if context.as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other.")
    if form == "xlsx" and not outputs:
        raise click.UsageError("--format xlsx needs -o FILE.xlsx.")
    return "json" if context.as_json else form or "text"


def _only_why(form: str | None, outputs: Sequence[Path], *, exit_code: bool) -> None:
    given = "-o" if outputs else "--exit-code" if exit_code else f"--format {form}"
    if outputs or exit_code or form not in (None, "text", "json"):
        raise click.UsageError(f"--why explains a plan and shows none: leave {given} out.")


def _explain(
    context: Context, sheet: Path, asked: Asked, ids: Sequence[int], *, as_json: bool
) -> int:
    text = "Comparing the sheet with the store"
    with context.connect() as store, progress.looked_up(context.err, text) as step:
        explanations = why_of_sheet(store, sheet, asked, ids, step)
    if as_json:
        from petsync.render.machine import explanations_json

        context.show(explanations_json(explanations))
    else:
        from petsync.render.terminal import show_explanations

        show_explanations(explanations, context.out)
    return 0


def print_plan(context: Context, plan: Plan, form: str, limit: int | None) -> None:
    """Print the plan in this format on standard output."""
    if form == "json":
        context.show(plan.to_json())
    elif form == "html":
        context.show(_html(plan))
    elif form == "md":
        context.show(_markdown(plan, limit))
    else:
        from petsync.render.terminal import show_plan

        show_plan(plan, context.out, limit=_rows("text", limit))


def _rows(form: str, limit: int | None) -> int | None:
    """How many rows of each sort to show, None for all."""
    return _SHOWN[form] if limit is None else limit or None


def _markdown(plan: Plan, limit: int | None) -> bytes:
    from petsync.render.markdown import plan_markdown

    return plan_markdown(plan, limit=_rows("md", limit)).encode()


def _html(plan: Plan) -> bytes:
    from petsync.render.html import plan_page

    return plan_page(plan).encode()
