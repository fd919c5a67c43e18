"""`petsync check`: the mistakes in a sheet, without a store."""

from __future__ import annotations

from pathlib import Path

import click

import petsync as ps
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.files import free, keep_apart, must_be_writable
from petsync.cli.planning import SOME_FAILED, as_usage_error, sheet_options
from petsync.profile import profile_from

__all__ = ["command"]

_EXAMPLES = """
petsync check catalogue.xlsx
petsync check catalogue.xlsx --annotate marked.xlsx
petsync check catalogue.xlsx --sheet Pets --column Tiername=name --strict
petsync check arrivals.csv --json
"""


@as_command("check", examples=_EXAMPLES)
@click.argument("sheet", type=click.Path(path_type=Path))
@sheet_options
@click.option(
    "--annotate",
    "marked",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a copy of the sheet (.xlsx) in which each finding is marked at its cell; where "
    "FILE is there already, beside it.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 for warnings too.")
@click.option("--format", "form", type=click.Choice(("text", "json")), help="[text]")
@click.pass_obj
def command(
    context: Context,
    sheet: Path,
    tab: str | None,
    columns: tuple[tuple[str, str], ...],
    encoding: str | None,
    marked: Path | None,
    strict: bool,
    form: str | None,
) -> int:
    """List the mistakes in SHEET.

    They are listed by kind, each with its cell and a suggestion. No store is needed, and nothing
    is changed. What only the store can tell, such as an id that it does not have, is for
    `petsync plan`.

    Exits with 0 if every row can be used, with 3 if errors block rows or the whole sheet, and with
    1 if the file cannot be read.
    """
    if marked is not None:
        keep_apart(marked, sheet)
        must_be_writable(marked)
    settings = context.settings
    profile = profile_from(settings.profile, settings.service)
    mapping = dict(columns)
    with as_usage_error(mapping):
        read = ps.read_sheet(
            sheet,
            tab=tab,
            mapping=mapping,
            defaults=settings.columns,
            statuses=profile.statuses,
            encoding=encoding,
        )
    if context.as_json or form == "json":
        from petsync.render.machine import findings_json

        context.show(findings_json(read))
    else:
        from petsync.render.terminal import show_findings

        show_findings(read, context.out)
    if marked is not None:
        # An earlier copy may have been mended by hand.
        _annotate(context, read, free(marked))
    return SOME_FAILED if read.errors or (strict and read.problems) else 0


def _annotate(context: Context, sheet: ps.Sheet, path: Path) -> None:
    done = ps.annotate_sheet(sheet, path)
    cells = "1 cell is" if done.cells == 1 else f"{done.cells:,} cells are"
    context.say(f"{cells} marked in {path}.")
    for line in done.lost:
        context.say(f"note: {line}")
