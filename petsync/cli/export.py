"""`petsync export`: the store's catalogue as a spreadsheet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

import petsync as ps
from petsync.cli.command import command as as_command
from petsync.cli.context import Context
from petsync.cli.signals import loading
from petsync.errors import PetsyncError
from petsync.profile import profile_from

if TYPE_CHECKING:
    from petsync.store import Store
    from petsync.table.base import Base

__all__ = ["command"]

_SUFFIXES = (".xlsx", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
_EXAMPLES = """
petsync export catalogue.xlsx
petsync export for-sale.csv --status available --status pending
petsync export friendly.xlsx --tag friendly
"""


@as_command("export", examples=_EXAMPLES)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--status", "statuses", multiple=True, help="Only pets of this status; repeatable.")
@click.option("--tag", "tags", multiple=True, help="Only pets with this tag; repeatable.")
@click.option(
    "--no-base",
    is_flag=True,
    help="Leave out the copy of the exported pets by which a plan tells your changes from others'.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace OUT although it was edited, is no export, or is open; a backup of it is kept.",
)
@click.pass_obj
def command(
    context: Context,
    out: Path,
    statuses: tuple[str, ...],
    tags: tuple[str, ...],
    no_base: bool,
    force: bool,
) -> int:
    """Write the store's pets to OUT: .xlsx, .csv, .tsv, .json, .jsonl or .parquet.

    The file is written whole or not at all. An earlier export that nobody edited is replaced; a
    file that was edited since its export, is no export, or is open in a program is left alone
    (--force replaces it and keeps a backup). The .xlsx, .csv and
    .tsv read back exactly: `petsync plan OUT` then says in sync. They carry a copy of the pets as
    they are now, a CSV in OUT.petsync-base beside it: a later plan changes only what you changed
    since, and nothing that others changed meanwhile. With several tags or statuses a pet needs one
    of each. An export of no pets does not replace a file that has something in it.
    """
    _check_ending(out)
    if not force:
        _check_file(out)
    with context.connect() as store, context.busy("Reading the store"):
        base = _read(store, statuses, tags)
    if not len(base) and out.is_file() and out.stat().st_size:
        raise PetsyncError(
            f"{base.store} has no pet to export, and {out} is not empty: it was left alone",
            hint="Delete the file first if that is meant.",
        )
    settings = context.settings
    usual = profile_from(settings.profile, settings.service).statuses
    backup = ps.write_sheet(
        base.frame, out, base=False if no_base else base, statuses=usual, force=force
    )
    said = "1 pet of {} is" if len(base) == 1 else f"{len(base):,} pets of {{}} are"
    context.say(f"{said.format(base.store)} in {out}.")
    if backup is not None:
        context.say(f"The file as it was before is in {backup}.")
    if context.as_json:
        told = {"file": str(out), "pets": len(base), "store": base.store}
        context.show_json(told if backup is None else {**told, "backup": str(backup)})
    return 0


def _check_file(out: Path) -> None:
    """Raise SheetError where the file must not be replaced, before the store is read."""
    with loading():
        from petsync.sheets.backup import must_be_replaceable
    must_be_replaceable(out, force="--force")


def _check_ending(out: Path) -> None:
    if out.suffix.lower() == ".ods":
        raise click.UsageError(f"{out} would be an OpenDocument sheet (.ods); save it as .xlsx.")
    if out.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(f"{out}: the ending must be one of {', '.join(_SUFFIXES)}.")


def _read(store: Store, statuses: tuple[str, ...], tags: tuple[str, ...]) -> Base:
    """What is asked for, as it is in the store now."""
    # pandas is loaded when a store is read.
    from petsync.sheets.base import base_of
    from petsync.table.base import Base

    if not tags:
        return base_of(store.snapshot(statuses=statuses))
    taken_at = datetime.now(UTC).isoformat(timespec="seconds")
    pets = store.find_by_tags(*tags)
    wanted = pets[pets["status"].isin(statuses)] if statuses else pets
    return Base(
        frame=wanted[wanted["id"].notna()].sort_values("id", ignore_index=True),
        store=store.url,
        taken_at=taken_at,
        statuses=statuses,
        tags=tags,
    )
