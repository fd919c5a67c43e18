"""`petsync apply` of what a sheet is to take from the store, and what a job had wait."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from petsync.cli.context import Context
from petsync.cli.planning import PENDING

if TYPE_CHECKING:
    from petsync.diff.intake import Inbound
    from petsync.model import Pet
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = ["is_sheet_plan", "write_sheet_plan"]

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
    from petsync.reconcile.sheetside import writable
    from petsync.reconcile.waiting import SheetWaiting

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
    backup = sheets.write_synced(sheet, rest) if rest else None
    SheetWaiting(path).take(writable(standing, stuck))
    _tell(context, inbound, standing, backup)
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
    from petsync.model import Pet
    from petsync.table.frame import pets_from_frame

    listed = {pet.id: pet for pet in pets_from_frame(store.snapshot().frame)}
    wanted = {pet_id: listed.get(pet_id) for pet_id in inbound.pet_ids}
    answers = store.look_up([pet_id for pet_id, pet in wanted.items() if pet is None])
    for pet_id, found in answers.items():
        # One that could not be looked up is neither as it was nor gone.
        wanted[pet_id] = found if found is None or isinstance(found, Pet) else Pet(id=pet_id)
    return wanted


def _show(context: Context, inbound: Inbound, limit: int | None) -> None:
    from petsync.render.terminal import show_intake

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


def _tell(context: Context, inbound: Inbound, standing: Inbound, backup: Path | None) -> None:
    rows = standing.counts.total
    left = inbound.counts.total - rows
    if backup is not None:
        context.say(f"{inbound.source} is written; as it was before it is in {backup}.")
    if left:
        context.say(f"{left:,} rows were left out: the store has changed them since.")
    if context.as_json:
        told = {"sheet": inbound.source, "rows": rows, "left_out": left, "exit_code": 0}
        context.show_json({**told, "backup": str(backup or "")})
