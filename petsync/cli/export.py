"""`petsync export`: the store's catalogue as a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import petsync as ps
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.errors import PetsyncError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["command"]

_SUFFIXES = (".xlsx", ".csv", ".tsv", ".json", ".parquet")
_EXAMPLES = """
petsync export catalogue.xlsx
petsync export for-sale.csv --status available --status pending
petsync export friendly.xlsx --tag friendly
"""


@as_command("export", examples=_EXAMPLES)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--status", "statuses", multiple=True, help="Only pets of this status; repeatable.")
@click.option("--tag", "tags", multiple=True, help="Only pets with this tag; repeatable.")
@click.pass_obj
def command(context: Context, out: Path, statuses: tuple[str, ...], tags: tuple[str, ...]) -> int:
    """Write the store's pets to OUT: .xlsx, .csv, .tsv, .json or .parquet.

    The file is written whole or not at all, and replaces one of that name. The .xlsx and .csv
    read back exactly: `petsync plan OUT` then says in sync. With several tags or statuses a pet
    needs one of each. An export of no pets does not replace a file that has something in it.
    """
    if out.suffix.lower() == ".ods":
        raise click.UsageError(f"{out} would be an OpenDocument sheet (.ods); save it as .xlsx.")
    if out.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"{out}: the ending must be one of {', '.join(_SUFFIXES)}.")
    with context.connect() as store, context.busy("Reading the store"):
        if tags:
            pets = _of_status(store.find_by_tags(*tags), statuses)
            source = store.url
        else:
            snapshot = store.snapshot(statuses=statuses)
            pets, source = snapshot.frame, snapshot.source
    if not len(pets) and out.is_file() and out.stat().st_size:
        raise PetsyncError(
            f"{source} has no pet to export, and {out} is not empty: it was left alone",
            hint="Delete the file first if that is meant.",
        )
    ps.write_sheet(pets if tags else snapshot, out)
    context.say(f"{len(pets):,} pets of {source} are in {out}.")
    if context.as_json:
        context.show_json({"file": str(out), "pets": len(pets), "store": source})
    return 0


def _of_status(pets: pd.DataFrame, statuses: tuple[str, ...]) -> pd.DataFrame:
    return pets[pets["status"].isin(statuses)] if statuses else pets
