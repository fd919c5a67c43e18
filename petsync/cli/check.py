"""`petsync check`: the mistakes in a sheet, without a store."""

from __future__ import annotations

from pathlib import Path

import click

import petsync as ps
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.planning import SOME_FAILED
from petsync.profile import profile_from

__all__ = ["command"]

_EXAMPLES = """
petsync check catalogue.xlsx
petsync check catalogue.xlsx --sheet Pets --strict
petsync check arrivals.csv --json
"""


@as_command("check", examples=_EXAMPLES)
@click.argument("sheet", type=click.Path(path_type=Path))
@click.option("--sheet", "tab", metavar="TAB", help="The worksheet to read, if not the first.")
@click.option("--strict", is_flag=True, help="Exit with 3 for warnings too.")
@click.option("--format", "form", type=click.Choice(("text", "json")), help="[text]")
@click.pass_obj
def command(context: Context, sheet: Path, tab: str | None, strict: bool, form: str | None) -> int:
    """List the mistakes in SHEET.

    They are listed by kind, each with its cell and a suggestion. No store is needed, and nothing
    is changed. What only the store can tell, such as an id that it does not have, is for
    `petsync plan`.

    Exits with 0 if every row can be used, with 3 if errors block rows, and with 1 if the file
    cannot be read.
    """
    settings = context.settings
    profile = profile_from(settings.profile, settings.service)
    read = ps.read_sheet(sheet, tab=tab, mapping=settings.columns, statuses=profile.statuses)
    if context.as_json or form == "json":
        from petsync.render.machine import findings_json

        context.show(findings_json(read))
    else:
        from petsync.render.terminal import show_findings

        show_findings(read, context.out)
    return SOME_FAILED if read.blocked or (strict and read.problems) else 0
