"""rehearse: the plan applied to a copy of the store, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from petsync.apply.options import ApplyOptions
from petsync.apply.planfile import load_plan
from petsync.diff import arguments
from petsync.diff.plan import Plan
from petsync.diff.progress import Progress
from petsync.diff.rehearsal import Rehearsal
from petsync.diff.snapshot import Snapshot
from petsync.diff.surprises import surprises
from petsync.errors import SettingsError
from petsync.rehearsal.copied import Copied, copied
from petsync.rehearsal.imitation import imitated
from petsync.rehearsal.notes import notes
from petsync.rehearsal.run import applied, planned_again, specification
from petsync.rehearsal.stage import must_be_new, stage
from petsync.sheets.planned import sheet_of
from petsync.store import Store
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

__all__ = ["rehearse"]

_NO_SHEET = (
    "the sheet that the plan was made from is gone, or was changed since; so the pets were "
    "compared with what the plan says, and nothing more"
)
_UNDO = (
    "the plan takes a run back, and was made from no sheet; so the pets were compared with what "
    "the plan says, and nothing more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    plan: Plan
    sheet: Sheet | None
    source: Copied
    faults: str
    concurrency: int
    keep: Path | None
    on_progress: Callable[[Progress], None] | None


def rehearse(
    store: Store,
    plan: Plan | Sheet | pd.DataFrame | str | Path,
    *,
    sheet: Sheet | None = None,
    snapshot: Snapshot | None = None,
    faults: str = "",
    seed: int | None = None,
    concurrency: int = 16,
    keep: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Rehearsal:
    """What applying the plan would come to, tried out on a copy of the store on this machine.

    `plan` is a Plan, the path of a saved one (`.json`), or whatever `store.plan` takes, with its
    `options`. The store is read by GET requests alone, and the plan is not used up. `sheet` is the
    sheet of a Plan, which is otherwise looked for where it was; `snapshot` saves reading the store
    once more. `faults` breaks answers of the copy while the plan is applied, as of `petsync
    serve`; with `concurrency` 1 the same `seed` breaks the same ones again. `keep` is a new file
    for the copy as it is in the end, which `petsync serve --db` serves.

    A plan that the guard refuses is rehearsed all the same; the result says so. Raises PlanError
    for a plan of another store, StalePlanError for one that was applied, SettingsError for an
    option that cannot be, ApiError where the store cannot be read, and InterruptedRunError or
    KeyboardInterrupt where the rehearsal was stopped.
    """
    ApplyOptions(concurrency=concurrency)
    broken = specification(faults, seed)
    path = None if keep is None else must_be_new(Path(keep))
    if isinstance(plan, str | Path) and Path(plan).suffix.lower() == ".json":
        plan = load_plan(plan)
    if isinstance(plan, Plan):
        made, read, source = _of_plan(store, plan, sheet, snapshot, options)
    else:
        made, read, source = _of_sheet(store, plan, snapshot, options)
    trial = _Trial(
        plan=made,
        sheet=read,
        source=source,
        faults=broken,
        concurrency=concurrency,
        keep=path,
        on_progress=on_progress,
    )
    return _tried(store, trial)


def _of_plan(
    store: Store,
    plan: Plan,
    sheet: Sheet | None,
    snapshot: Snapshot | None,
    options: dict[str, Any],
) -> tuple[Plan, Sheet | None, Copied]:
    if options:
        raise SettingsError(
            f"{', '.join(options)}: these are options of a sheet's plan, and this is a plan",
            hint="A plan is rehearsed as it is; make another one with these options.",
        )
    store.check(plan)
    now = store.snapshot() if snapshot is None else arguments.checked_snapshot(snapshot, store.url)
    if sheet is None:
        sheet = sheet_of(plan, statuses=store.api.aio.session.profile.statuses)
    return plan, sheet, copied(store, plan, sheet, now)


def _of_sheet(
    store: Store,
    sheet: Sheet | pd.DataFrame | str | Path,
    snapshot: Snapshot | None,
    options: dict[str, Any],
) -> tuple[Plan, Sheet, Copied]:
    now = store.snapshot() if snapshot is None else snapshot
    known = frozenset(now.frame["status"].dropna().unique())
    read = store.aio.read(sheet, known_statuses=known)
    plan = store.plan(read, snapshot=now, **options)
    return plan, read, copied(store, plan, read, now)


def _tried(store: Store, trial: _Trial) -> Rehearsal:
    profile = store.api.aio.session.profile
    plan, source = trial.plan, trial.source
    with stage(profile, source.pets, keep=trial.keep) as (box, copy):
        report, broken = applied(
            box,
            copy,
            plan,
            faults=trial.faults,
            concurrency=trial.concurrency,
            on_progress=trial.on_progress,
        )
        pets = box.pets()
        listed = copy.snapshot(statuses=source.snapshot.coverage.statuses)
        again = (
            None
            if trial.sheet is None
            else planned_again(copy, plan, trial.sheet, listed, source.unanswered)
        )
    before = {pet.id: pet for pet in source.pets if pet.id is not None}
    after = {pet.id: pet for pet in pets if pet.id is not None}
    return Rehearsal(
        plan=plan,
        report=report,
        before=source.frame,
        after=frame_from_pets(pets),
        unexpected=surprises(report, before, after),
        again=again,
        why_not_again="" if again is not None else _UNDO if plan.undoes else _NO_SHEET,
        taken_at=source.snapshot.taken_at,
        profile=profile.name,
        broken=broken,
        notes=(*imitated(profile)[1], *notes(source, listed, after)),
    )
