"""Rehearse a plan: copy the store into a sandbox, apply the plan there, and compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import lexists
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
import pandas as pd

from petsync._extras import needs_extra
from petsync._files import is_in_parts
from petsync._options import reject_unknown, show_keywords
from petsync.apply.options import ApplyOptions
from petsync.apply.planfile import is_plan_file, load_plan
from petsync.client import auth
from petsync.client.session import Session
from petsync.errors import InterruptedRunError, SettingsError
from petsync.models import Pet
from petsync.plan import arguments
from petsync.plan.change import FailedLookup, Snapshot
from petsync.plan.compare import find_unproved_ids
from petsync.plan.guard import NO_GUARD, Guard, Limit, Verdict
from petsync.plan.options import PlanKeywords, PlanOptions
from petsync.plan.plan import Plan
from petsync.plan.rehearsal import FaultCounts, Rehearsal, find_unexpected
from petsync.plan.report import Progress, Report
from petsync.profile import ServiceProfile
from petsync.settings import Settings
from petsync.sheets.read import sheet_of
from petsync.store import Store, checked_store
from petsync.store.async_store import AsyncStore
from petsync.table.arrow import ArrowTable
from petsync.table.frame import frame_from_pets, pets_from_frame, unique_texts
from petsync.table.rules import SheetRule
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.sandbox import Sandbox
    from petsync.sandbox.http import Behaviour

__all__ = [
    "StoreCopy",
    "apply_plan",
    "build_behaviour",
    "copy_store",
    "make_second_plan",
    "must_be_new",
    "notes",
    "rehearse",
    "specification",
    "stage",
]


# The copy of the store: its snapshot, and other pets that the plan names.


@dataclass(frozen=True, eq=False)
class StoreCopy:
    """The pets for the copy of the store."""

    snapshot: Snapshot
    outside: tuple[Pet, ...] = ()
    """Pets that the snapshot lacks, found by their ids."""
    unanswered: tuple[FailedLookup, ...] = ()
    """The look-ups of further pets that failed."""

    @cached_property
    def pets(self) -> list[Pet]:
        """All pets, sorted by id."""
        listed = pets_from_frame(self.snapshot.rows)
        return sorted([*listed, *self.outside], key=_id) if self.outside else listed

    @property
    def frame(self) -> pd.DataFrame:
        """All pets as a table, sorted by id."""
        return frame_from_pets(self.pets) if self.outside else self.snapshot.frame


def copy_store(store: Store, plan: Plan, sheet: Sheet | None, snapshot: Snapshot) -> StoreCopy:
    """Return the snapshot with the results of getPetById for further ids in plan and sheet."""
    listed = set(snapshot.rows["id"])
    rows = (*plan.changes, *plan.conflicts)
    named = {row.pet_id for row in rows if row.pet_id is not None} | set(plan.guard.sentinels)
    if sheet is not None:
        named.update(find_unproved_ids(sheet.rows, snapshot.rows))
    answers = store.look_up(sorted(named - listed)).values()
    return StoreCopy(
        snapshot,
        tuple(answer for answer in answers if isinstance(answer, Pet)),
        tuple(answer for answer in answers if isinstance(answer, FailedLookup)),
    )


def _id(pet: Pet) -> int:
    return pet.id or 0


# The behaviour of the sandbox, from the service's profile.


_STRICT = frozenset({"name", "photo_urls"})


def build_behaviour(profile: ServiceProfile) -> tuple[Behaviour, tuple[str, ...]]:
    """Return the behaviour most similar to the profile, and notes on what it cannot imitate.

    The copy never assigns the same id to two pets, but the service may, depending on timing.
    """
    from petsync.sandbox.http import BEHAVIOURS, STANDARD

    behaviour = replace(
        BEHAVIOURS.get(profile.name, STANDARD),
        name=profile.name,
        put_creates=profile.update_unknown == "creates",
        post_replaces=profile.add_existing == "replaces",
        unique_ids=True,
        capacity=profile.capacity,
        first_value_only=profile.one_value_a_query,
        statuses=None if profile.any_status else frozenset(profile.statuses),
        strict_pets=set(profile.required) >= _STRICT,
        upload_needs_pet=profile.upload_needs_pet,
        upload_adds_photo=profile.upload_adds_photo,
    )
    return behaviour, _note_unsupported(profile)


def _note_unsupported(profile: ServiceProfile) -> tuple[str, ...]:
    # The sandbox can require either both name and photoUrls of a pet, or no field.
    required = set(profile.required)
    unasked = sorted(required - _STRICT if required >= _STRICT else required)
    if not unasked:
        return ()
    lacking = " and ".join(unasked)
    text = f"The service's profile requires {lacking}, but the copy does not"
    return (f"{text}: the store may refuse what the copy accepted.",)


# The notes of a rehearsal.


_SHOWN = 5


def notes(source: StoreCopy, listed: Snapshot, after: Collection[int]) -> Iterator[str]:
    """Yield notes on what could not be copied, and on pets that no status query finds after the
    run.

    `listed` has the pets that the copy's status queries return; `after` has the ids of all its
    pets.
    """
    for lookup in source.snapshot.coverage.failed:
        yield f"The copy may lack pets of status {lookup.query}: {lookup.problem}."
    if source.unanswered:
        ids = _format_ids([int(each.query) for each in source.unanswered])
        yield (
            f"The store gave no answer for {ids} ({source.unanswered[0].problem}). Without an "
            "answer a pet is not in the copy, so its changes could not be rehearsed."
        )
    outside = {pet.id for pet in source.outside}
    if hidden := set(after) - set(listed.rows["id"]) - outside:
        yield f"No status query, and so no export, would return {_format_ids(sorted(hidden))}."


def _format_ids(ids: list[int]) -> str:
    """Return `pet 7`, `pets 7, 8`, or `pets 1, 2, 3, 4, 5 and 10 more`."""
    named = ", ".join(map(str, ids[:_SHOWN]))
    rest = f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else ""
    return f"pet{'' if len(ids) == 1 else 's'} {named}{rest}"


# The run on the copy, with optional faults, and the second plan after it.


_ANY = Limit(1e12, is_share=False)
_SETTLE = 1.0
"""The time in seconds after which a request counts as not arrived. It is short because the copy is
on this machine.
"""
_NO_LIMITS = Guard(max_delete=_ANY, max_update=_ANY, allow_empty=True)


def specification(faults: str, seed: int | None) -> str:
    """Return the faults with their seed, "" for none. Raises SettingsError if they are invalid."""
    from petsync.sandbox.faults import parse

    if not isinstance(faults, str):
        raise SettingsError(
            f"faults is {faults!r}, not text", hint='For example faults="429=0.05".'
        )
    if not faults.strip():
        return ""
    text = faults if seed is None else f"{faults},seed={seed}"
    parse(text)
    return text


def apply_plan(
    box: Sandbox,
    copy: Store,
    plan: Plan,
    *,
    faults: str,
    concurrency: int,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[Report, FaultCounts | None]:
    """Apply the plan to the copy; return the report, and the effect of any faults."""
    before = box.requests
    box.set_faults(faults or None)
    try:
        report = copy.apply(
            _adapt_to_copy(plan, copy.url),
            concurrency=concurrency,
            settle=_SETTLE,
            on_progress=on_progress,
        )
    except InterruptedRunError as error:
        report = _report_of_early_end(error)
    broken = FaultCounts(faults=faults, requests=(box.requests - before).total(), hits=box.broken)
    box.set_faults(None)
    return report, broken if faults else None


def make_second_plan(
    copy: Store, plan: Plan, sheet: Sheet, now: Snapshot, unanswered: Collection[FailedLookup]
) -> Plan:
    """Return a plan that compares the sheet with the copy, without changes of pets that could not
    be copied.
    """
    if sheet.base is not None:
        sheet = replace(sheet, base=replace(sheet.base, store=copy.url))
    options = msgspec.structs.asdict(plan.options)
    again = copy.plan(sheet, snapshot=now, guard=plan.guard, **options)
    unknown = {each.query for each in unanswered}
    remaining = tuple(change for change in again.changes if str(change.pet_id) not in unknown)
    if len(remaining) == len(again.changes):
        return again
    return msgspec.structs.replace(again, changes=remaining).with_verdict()


def _adapt_to_copy(plan: Plan, url: str) -> Plan:
    """Return the plan for the copy; if the guard refuses the plan, without limits, because no data
    can be lost in the copy.
    """
    if plan.verdict.ok:
        return msgspec.structs.replace(plan, store=url)
    return msgspec.structs.replace(plan, store=url, guard=_NO_LIMITS, verdict=Verdict())


def _report_of_early_end(error: InterruptedRunError) -> Report:
    """Return the report of a run that ended early on the copy.

    Raises InterruptedRunError if the user interrupted the run, or if there is no report.
    """
    if not isinstance(error.report, Report) or error.report.stopped == "interrupted":
        raise InterruptedRunError(
            "the rehearsal was interrupted", hint="The store itself was not changed."
        ) from None
    return error.report


# The environment of a rehearsal: a new sandbox with the store's pets, and a Store for it.
#
# It uses no secret of the real store: the sandbox has its own token, which is never shown.


_LONG_ENOUGH = 7 * 24 * 3600.0


@contextmanager
def stage(
    profile: ServiceProfile, pets: Sequence[Pet], *, keep: Path | None = None
) -> Iterator[tuple[Sandbox, Store]]:
    """Yield a running sandbox with these pets, and a store for it.

    The sandbox behaves as the profile says. Its journals are in a temporary folder. At the end,
    everything except the file `keep` is removed; after an error, that file is removed too.
    """
    from petsync.sandbox import Sandbox

    with ExitStack() as resources:
        state = Path(resources.enter_context(TemporaryDirectory(prefix="petsync-rehearsal-")))
        if keep is not None:
            resources.enter_context(_remove_on_error(keep))
        box = resources.enter_context(
            Sandbox(
                profile=build_behaviour(profile)[0], pets=pets, db=keep, token_lifetime=_LONG_ENOUGH
            )
        )
        session = Session(box.url, credentials=auth.bearer(box.token()), profile=profile)
        settings = Settings(url=box.url, profile=profile.name, state=state)
        yield box, resources.enter_context(Store(AsyncStore(session, settings)))


def must_be_new(keep: Path) -> Path:
    """Return the path. Raises SettingsError if a file exists there: it is never overwritten."""
    if lexists(keep):
        raise SettingsError(
            f"{keep} already exists, but the copy needs a new file", hint="Name another file."
        )
    return keep


@contextmanager
def _remove_on_error(path: Path) -> Iterator[None]:
    """Remove the file and its companions if the body raises an exception."""
    try:
        yield
    except BaseException:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}.lock"):
            path.with_name(name).unlink(missing_ok=True)
        raise


# rehearse: apply the plan to a copy of the store, and compare.


_NO_SHEET = (
    "the sheet of the plan is missing, or was changed since, so the pets were compared only with "
    "the plan"
)
_IN_PARTS = (
    "only a sheet in one file gets a second plan, so the pets were compared only with the plan"
)
_UNDO = "the plan is an undo and has no sheet, so the pets were compared only with the plan"


def _find_reason(plan: Plan) -> str:
    if plan.undoes:
        return _UNDO
    return _IN_PARTS if is_in_parts(plan.source) else _NO_SHEET


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    plan: Plan
    sheet: Sheet | None
    source: StoreCopy
    faults: str
    concurrency: int
    keep: Path | None
    on_progress: Callable[[Progress], None] | None


@show_keywords(PlanKeywords, PlanOptions)
@needs_extra("sandbox", "ps.rehearse")
def rehearse(
    store: Store,
    plan: Plan | Sheet | pd.DataFrame | ArrowTable | str | Path,
    *,
    sheet: Sheet | None = None,
    snapshot: Snapshot | None = None,
    faults: str = "",
    seed: int | None = None,
    concurrency: int = 16,
    keep: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    strict: bool = False,
    guard: Guard = NO_GUARD,
    rules: Sequence[SheetRule] | None = None,
    **options: Unpack[PlanKeywords],
) -> Rehearsal:
    """Apply the plan to a copy of the store on this machine, and return the result.

    `plan` is a Plan, the path of a saved plan (`.json` or `.parquet`), or anything that
    `store.plan` accepts, with its `options` and `rules`. petsync only reads from the store, and the
    plan can still be applied. `sheet` is the sheet of a Plan, by default the file from which it was
    made. With a `snapshot`, the store's pets are not listed again. `faults` makes requests to the
    copy fail during the run, in the syntax of `petsync serve --faults`; with `concurrency` 1, the
    same `seed` makes the same requests fail. `keep` is a new file for the resulting copy, for
    `petsync serve --db`.

    A plan that the guard refuses is rehearsed too; the result contains the refusal. Raises
    PlanError for a plan of another store or a plan file that cannot be read, StalePlanError for a
    plan that was applied, SheetError for a sheet that cannot be read, SettingsError for an invalid
    option, ApiError if the store cannot be read, and InterruptedRunError or KeyboardInterrupt if
    the rehearsal was stopped.
    """
    reject_unknown(options, "rehearse", PlanKeywords)
    store = checked_store(store, "ps.rehearse(store, plan)")
    ApplyOptions(concurrency=concurrency)
    broken = specification(faults, seed)
    path = None if keep is None else must_be_new(Path(keep))
    if isinstance(plan, str | Path) and is_plan_file(plan):
        plan = load_plan(plan)
    given: dict[str, Any] = {**options, **({"strict": True} if strict else {})}
    if guard is not NO_GUARD:
        given["guard"] = guard
    if rules is not None:
        given["rules"] = rules
    if isinstance(plan, Plan):
        made, read, source = _of_plan(store, plan, sheet, snapshot, given)
    else:
        made, read, source = _of_sheet(store, plan, snapshot, given)
    trial = _Trial(
        plan=made,
        sheet=read,
        source=source,
        faults=broken,
        concurrency=concurrency,
        keep=path,
        on_progress=on_progress,
    )
    return _run_trial(store, trial)


def _of_plan(
    store: Store,
    plan: Plan,
    sheet: Sheet | None,
    snapshot: Snapshot | None,
    options: dict[str, Any],
) -> tuple[Plan, Sheet | None, StoreCopy]:
    if options:
        raise SettingsError(
            f"{', '.join(options)}: these are options for making a plan from a sheet, but a "
            "finished plan was given",
            hint="The options of a plan are fixed; make another plan with these options.",
        )
    store.check(plan)
    now = store.snapshot() if snapshot is None else arguments.checked_snapshot(snapshot, store.url)
    if sheet is None:
        sheet = sheet_of(plan, statuses=store.api.aio.session.profile.statuses)
    return plan, sheet, copy_store(store, plan, sheet, now)


def _of_sheet(
    store: Store,
    sheet: Sheet | pd.DataFrame | ArrowTable | str | Path,
    snapshot: Snapshot | None,
    options: dict[str, Any],
) -> tuple[Plan, Sheet | None, StoreCopy]:
    if isinstance(sheet, str | Path) and is_in_parts(sheet):
        return _of_plan(store, store.plan(sheet, **options), None, snapshot, {})
    now = store.snapshot() if snapshot is None else snapshot
    statuses = unique_texts(now.rows, "status")
    rules = options.pop("rules", None)
    read = store.aio.read(sheet, known_statuses=statuses, rules=rules)
    plan = store.plan(read, snapshot=now, **options)
    return plan, read, copy_store(store, plan, read, now)


def _run_trial(store: Store, trial: _Trial) -> Rehearsal:
    profile = store.api.aio.session.profile
    plan, source = trial.plan, trial.source
    with stage(profile, source.pets, keep=trial.keep) as (box, copy):
        report, broken = apply_plan(
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
            else make_second_plan(copy, plan, trial.sheet, listed, source.unanswered)
        )
    before = {pet.id: pet for pet in source.pets if pet.id is not None}
    after = {pet.id: pet for pet in pets if pet.id is not None}
    return Rehearsal(
        plan=plan,
        report=report,
        before=source.frame,
        after=frame_from_pets(pets),
        unexpected=find_unexpected(report, before, after),
        again=again,
        why_not_again="" if again is not None else _find_reason(plan),
        taken_at=source.snapshot.taken_at,
        profile=profile.name,
        broken=broken,
        notes=(*build_behaviour(profile)[1], *notes(source, listed, after)),
    )
