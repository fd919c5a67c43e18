"""Undo a run: its effects on the pets, and the plan that restores their earlier values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from petsync.models import Pet
from petsync.plan.change import Add, Change, Conflict, Coverage, Delete, FailedLookup, Update
from petsync.plan.fields import (
    COLUMNS_OF,
    Unit,
    cell,
    differing_columns,
    equal,
    find_filled_columns,
    is_as_expected,
    normalize,
    photo_keys,
    update_fields,
)
from petsync.plan.guard import Guard, Limit
from petsync.plan.options import Owner, PlanOptions
from petsync.plan.plan import Plan
from petsync.plan.report import Cause, Entry, Outcome, PastRun
from petsync.table.columns import Column

__all__ = [
    "CurrentPet",
    "Effect",
    "LaterAdd",
    "LaterEffect",
    "build_undo_guard",
    "build_undo_plan",
    "find_effects",
]


# Effects: what a run did to each pet, from its journal.


_DONE: frozenset[tuple[Outcome | None, Cause]] = frozenset(
    {
        ("failed", "not-as-sent"),
        ("conflict", "not-as-sent"),
        ("unknown", "unverified"),
        ("failed", "overwrote"),
    }
)
"""Outcomes other than `applied`, with their causes, for which the change counts as done: the
service accepted it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a run did to one pet."""

    kind: Literal["add", "update", "delete", "upload"]
    pet_id: int | None
    """None if the service did not return the id that it assigned."""
    row: int | None
    source: str
    fields: tuple[Column, ...]
    before: Pet | None
    """The pet before the run; None if there was none, or if it is unknown."""
    after: Pet | None
    """The pet after the run; None if there was none, or if it is unknown."""
    urls: frozenset[str] = frozenset()
    """The image URLs that an upload added, normalized for comparisons."""
    is_settled: bool = True
    """False if it is unknown whether the change was made."""
    is_renumbered: bool = False
    """True if the service assigned an id other than the one in the plan."""
    is_assigned: bool = False
    """True if the plan named no id and the service assigned one."""

    @property
    def old(self) -> Pet:
        """The pet before the run; an empty pet if there was none."""
        return self.before or _EMPTY_PET

    @property
    def new(self) -> Pet:
        """The pet after the run; an empty pet if there was none."""
        return self.after or _EMPTY_PET

    @property
    def is_incomplete(self) -> bool:
        """True if the journal does not have a pet that the undo needs."""
        needed = {"add": [self.after], "delete": [self.before]}
        return None in needed.get(self.kind, [self.before, self.after])

    @property
    def is_image(self) -> bool:
        """True for an upload whose effect is completely known."""
        return self.kind == "upload" and self.is_settled and not self.is_incomplete

    @property
    def name(self) -> str:
        """The pet's name after the run, else before it."""
        return self.new.name or self.old.name or ""


_EMPTY_PET = Pet()


def find_effects(entries: Iterable[Entry]) -> Iterator[Effect]:
    """Yield the effects of the changes that were made or may have been made, in the order of the
    entries. All uploads for one pet are one effect, in the place of the first.
    """
    effects = [_build_effect(entry) for entry in entries if _may_have_happened(entry)]
    images = _join_uploads(effect for effect in effects if effect.is_image)
    for effect in effects:
        if not effect.is_image:
            yield effect
        elif (joined := images.pop(effect.pet_id, None)) is not None:
            yield joined


def _may_have_happened(entry: Entry) -> bool:
    return entry.outcome in ("applied", "unknown", None) or _is_done(entry)


def _is_done(entry: Entry) -> bool:
    return entry.outcome == "applied" or (entry.outcome, entry.cause) in _DONE


def _build_effect(entry: Entry) -> Effect:
    assigned = entry.assigned_id
    fields, kind = entry.fields, entry.kind
    if kind == "add" and entry.before is not None and entry.after is not None:
        # The new pet replaced another one: the undo restores that pet.
        fields, kind = differing_columns(entry.after, entry.before), "update"
    return Effect(
        kind=kind,
        pet_id=entry.pet_id if assigned is None else assigned,
        row=entry.row,
        source=entry.source,
        fields=fields,
        before=entry.before,
        after=entry.after,
        urls=_find_added_urls(entry) if entry.kind == "upload" else frozenset(),
        is_settled=_is_done(entry),
        is_renumbered=entry.cause == "another-id",
        is_assigned=entry.pet_id is None and assigned is not None,
    )


def _find_added_urls(entry: Entry) -> frozenset[str]:
    """Return the image URLs that an upload added, normalized for comparisons."""
    if entry.before is None or entry.after is None:
        return frozenset()
    after, before = (photo_keys(pet.photo_urls) for pet in (entry.after, entry.before))
    return frozenset(after) - frozenset(before)


def _join_uploads(uploads: Iterable[Effect]) -> dict[int | None, Effect]:
    """Return the uploads of each pet as one effect, by pet id: from `before` of the first upload to
    `after` of the last one.
    """
    pets: dict[int | None, Effect] = {}
    for effect in uploads:
        first = pets.get(effect.pet_id)
        pets[effect.pet_id] = (
            effect
            if first is None
            else replace(first, after=effect.after or first.after, urls=first.urls | effect.urls)
        )
    return pets


# Undo: build the plan that reverts a run, from the earlier values in its journal.


CurrentPet = Pet | FailedLookup | None
"""The current pet; None if it does not exist, FailedLookup if its look-up failed."""

LaterEffect = tuple[str, Effect]
"""The id of a later run, and its effect on the pet."""

LaterAdd = tuple[str, int]
"""The id of a later run that added a deleted pet again, and the pet's new id."""

_KINDS = ("add", "update", "delete")
_VERBS = {"add": "added", "update": "changed", "delete": "deleted", "upload": "given an image"}
_NO_COVERAGE = Coverage()
_MAX_QUOTED = 40


def build_undo_guard(
    guard: Guard, given: Collection[str], effects: Iterable[Effect], *, is_from_empty: bool
) -> Guard:
    """Return the guard of the undo of a run: what was permitted for the run is permitted for its
    undo. Limits that the user has `given`, by their names, stay.

    `is_from_empty` says whether the store was empty before the run: then the undo may empty it.
    """
    kinds = Counter(effect.kind for effect in effects)
    limits = {
        "max_delete": Limit(kinds["add"], is_share=False),
        "max_update": Limit(kinds["update"] + kinds["upload"], is_share=False),
        "max_add": Limit(kinds["delete"], is_share=False),
        "allow_empty": guard.allow_empty or is_from_empty,
    }
    changed = {name: value for name, value in limits.items() if name not in given}
    return msgspec.structs.replace(guard, **changed)


def build_undo_plan(
    past: PastRun,
    entries: Iterable[Entry],
    found: Mapping[int, CurrentPet],
    *,
    store: str,
    profile: str,
    pets: int,
    capacity: int | None = None,
    created: str,
    guard: Guard,
    coverage: Coverage = _NO_COVERAGE,
    sentinels: Sequence[Pet] = (),
    later_effects: Mapping[int, Sequence[LaterEffect]] = {},
    readded: Mapping[int, LaterAdd] = {},
    known_ids: Collection[int] = (),
    owners: Mapping[Unit, Owner] = {},
) -> Plan:
    """Return the plan that restores the pets that the run changed. A pet that has changed since, or
    that cannot be restored, is a conflict.

    `found` has the current pets of `find_effects(entries)`, by id. `pets` is the number of pets in
    the store, and `capacity` the maximum, None if unknown. `later_effects` has the effects of later
    runs, by pet id, the newest first. `readded` has the pets that the run deleted and a later run
    added again, by their old ids: they are not added again. `known_ids` are the ids of the
    pets that existed before the run added pets without an id: these pets are not deleted. `owners`
    are those of the run's plan: an update is also undone if the store has changed a field that the
    run did not send.
    """
    effects = list(find_effects(entries))
    options = PlanOptions(owners=owners)
    unsent = {column for unit in options.unsent_units for column in COLUMNS_OF[unit]}
    judge = _EffectJudge(past.run_id, found, later_effects, readded, known_ids, unsent)
    decisions = [judge.revert(effect) for effect in effects]
    changes = [each for each in decisions if isinstance(each, Change)]
    conflicts = [each for each in decisions if isinstance(each, Conflict)]
    plan = Plan(
        created=created,
        store=store,
        profile=profile,
        source=f"run {past.run_id}",
        undoes=past.run_id,
        options=options,
        guard=guard,
        changes=tuple(sorted(changes, key=lambda change: _KINDS.index(change.kind))),
        conflicts=tuple(conflicts),
        unchanged=len(decisions) - len(changes) - len(conflicts),
        rows=len(decisions),
        pets=pets,
        capacity=capacity,
        raw_notes=tuple(_iter_notes(past, effects, changes)),
        coverage=coverage,
        sentinels=tuple(sentinels),
    )
    return plan.with_verdict()


@dataclass(frozen=True, slots=True)
class _EffectJudge:
    """Decides how each effect of a run is reverted."""

    run: str
    found: Mapping[int, CurrentPet]
    later_effects: Mapping[int, Sequence[LaterEffect]]
    readded: Mapping[int, LaterAdd]
    known_ids: Collection[int]
    unsent: Collection[Column]

    def revert(self, effect: Effect) -> Change | Conflict | None:
        """Return the change that reverts the effect, or a conflict if it cannot be reverted; None
        if there is nothing to revert.
        """
        if (problem := self._find_obstacle(effect)) is not None:
            return problem
        now = self.found.get(effect.pet_id or 0, _NO_LOOKUP)
        if isinstance(now, FailedLookup):
            text = f"could not be looked up: {now.problem}"
            return _build_conflict(
                effect, "not-looked-up", text, "Undo again when the store answers"
            )
        if effect.kind == "add":
            return self._revert_add(effect, now)
        if effect.kind == "delete":
            return self._revert_delete(effect, now)
        return (
            self._revert_upload(effect, now)
            if effect.kind == "upload"
            else self._revert_update(effect, now)
        )

    def _find_obstacle(self, effect: Effect) -> Conflict | None:
        if not effect.is_settled:
            done = _VERBS[effect.kind]
            problem = f"may have been {done} by the run, which did not finish the change"
            suggestion = (
                f"`petsync resume {self.run}` determines the outcome and, unless the run was "
                "undone, sends the rest of the run; then undo again"
            )
            return _build_conflict(effect, "not-settled", problem, suggestion)
        if effect.pet_id is None:
            problem = "added a pet, and the service did not return the assigned id"
            return _build_conflict(
                effect, "no-id-known", problem, "Find it in the store, and delete it with a sheet"
            )
        known = effect.after if effect.kind == "add" else effect.before
        if known is not None and effect.kind == "upload" and effect.is_incomplete:
            problem = "was given an image by the run, and the journal does not have its address"
            return _build_conflict(
                effect, "not-recorded", problem, "Remove the address with a sheet"
            )
        if known is None:
            problem = "was changed by the run, and the journal does not have the old values"
            return _build_conflict(effect, "not-recorded", problem, "Change it back with a sheet")
        return None

    def _revert_add(self, effect: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None:
            return None
        if effect.is_assigned and effect.pet_id in self.known_ids:
            problem = "existed before the run, which put a new pet in its place"
            suggestion = "The journal does not have its earlier values. Change it back with a sheet"
            return _build_conflict(effect, "not-recorded", problem, suggestion, now)
        if columns := differing_columns(effect.new, now):
            return self._build_changed_conflict(
                effect, now, columns, "To remove it, delete it with a sheet"
            )
        return Delete(row=effect.row, source=effect.source, before=now)

    def _revert_update(self, effect: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None:
            return self._build_deleted_conflict(effect)
        if all(equal(now, effect.old, field) for field in effect.fields):
            return None
        if columns := [c for c in differing_columns(effect.new, now) if c not in self.unsent]:
            return self._build_changed_conflict(
                effect, now, columns, "To restore its earlier values, change it with a sheet"
            )
        after = update_fields(now, effect.new, effect.old, effect.fields)
        return Update(
            row=effect.row, source=effect.source, fields=effect.fields, before=now, after=after
        )

    def _revert_delete(self, effect: Effect, now: Pet | None) -> Change | Conflict | None:
        old = effect.old
        if now is None and (found := self.readded.get(effect.pet_id or 0)) is not None:
            run, pet_id = found
            problem = (
                f"was deleted by the run, and is in the store again as pet {pet_id} (run {run})"
            )
            suggestion = (
                f"To restore it under its old id, delete pet {pet_id} with a sheet; then undo again"
            )
            return _build_conflict(effect, "added-again", problem, suggestion)
        if now is None:
            return Add(
                row=effect.row, source=effect.source, fields=find_filled_columns(old), after=old
            )
        if columns := differing_columns(old, now):
            differences = _describe_differences(old, now, columns, whose="before it was")
            problem = f"was deleted by the run, and a pet with this id exists again: {differences}"
            suggestion = self._suggest(
                effect, now, columns, "To restore its earlier values, change it with a sheet"
            )
            return _build_conflict(effect, "came-since-run", problem, suggestion, now)
        return None

    def _revert_upload(self, effect: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None or effect.urls.isdisjoint(photo_keys(now.photo_urls)):
            return None
        if columns := differing_columns(effect.new, now):
            return self._build_changed_conflict(
                effect, now, columns, "Remove the photos with a sheet"
            )
        kept = tuple(url for url in now.photo_urls if normalize(url) not in effect.urls)
        after = msgspec.structs.replace(now, photo_urls=kept)
        fields: tuple[Column, ...] = ("photo_urls",)
        return Update(row=effect.row, source=effect.source, fields=fields, before=now, after=after)

    def _build_changed_conflict(
        self, effect: Effect, now: Pet, columns: Sequence[Column], default: str
    ) -> Conflict:
        differences = _describe_differences(effect.new, now, columns, whose="after the run:")
        problem = f"was changed since the run, and stays unchanged: {differences}"
        suggestion = self._suggest(effect, now, columns, default)
        return _build_conflict(effect, "changed-since-run", problem, suggestion, now)

    def _build_deleted_conflict(self, effect: Effect) -> Conflict:
        suggestion = f"`petsync runs {self.run} --pet {effect.pet_id}` shows its earlier values"
        problem = "was changed by the run, and no longer exists"
        return _build_conflict(
            effect, "gone-since-run", problem, self._suggest(effect, None, (), suggestion)
        )

    def _suggest(
        self, effect: Effect, now: Pet | None, columns: Sequence[Column], default: str
    ) -> str:
        """Return `default` or, if later runs explain the pet's current state, the suggestion to
        undo the newest of them first.
        """
        effects = self.later_effects.get(effect.pet_id or 0, ())
        if now is None:
            runs = [run for run, later in effects[:1] if later.kind == "delete"]
        else:
            setters = [_find_setter(effects, now, field) for field in columns]
            runs = [run for run, _ in effects if run in setters and None not in setters]
        return f"Run {runs[0]} changed it later: undo that run first" if runs else default


def _find_setter(effects: Iterable[LaterEffect], now: Pet, field: Column) -> str | None:
    """Return the last run that changed the field; None if no run did, or if the value has changed
    since.
    """
    for run, effect in effects:
        if not is_as_expected(effect.new, effect.old, field):
            return run if is_as_expected(effect.new, now, field) else None
    return None


_NO_LOOKUP = FailedLookup("", "it was not looked up")


def _describe_differences(left: Pet, now: Pet, fields: Iterable[Column], *, whose: str) -> str:
    """Return text such as `name is 'Maxi' (after the run: 'Max')`; here, `whose` is `after the
    run:`.
    """
    parts = (
        f"{field} is {_quote_cell(now, field)} ({whose} {_quote_cell(left, field)})"
        for field in fields
    )
    return ", ".join(parts)


def _quote_cell(pet: Pet, field: Column) -> str:
    text = " | ".join(cell(pet, field).splitlines())
    if not text:
        return "nothing"
    return f"'{text}'" if len(text) <= _MAX_QUOTED else f"'{text[:_MAX_QUOTED]}…'"


def _build_conflict(
    effect: Effect, rule: str, problem: str, suggestion: str, now: Pet | None = None
) -> Conflict:
    """Return a conflict about the pet or, if its id is unknown, about the row that adds it."""
    return Conflict(
        row=effect.row if effect.pet_id is None else None,
        source=effect.source,
        pet_id=effect.pet_id,
        name=(now.name if now is not None else None) or effect.name,
        rule=rule,
        problem=problem,
        suggestion=f"{suggestion}.",
    )


def _iter_notes(
    past: PastRun, effects: Sequence[Effect], changes: Sequence[Change]
) -> Iterator[str]:
    if past.undoes:
        yield (
            f"Run {past.run_id} undid run {past.undoes}: this undo makes the changes of run "
            f"{past.undoes} again."
        )
    if past.state == "stopped":
        yield (
            f"Run {past.run_id} was stopped before its end. This undo reverts what it did, and the "
            "rest of that run is no longer sent."
        )
    if any(effect.kind == "upload" and effect.is_settled for effect in effects):
        yield (
            "Addresses of images are removed from the pets. The image files themselves stay on the "
            "service: it has no operation that deletes them."
        )
    if any(effect.is_renumbered for effect in effects) and any(c.kind == "add" for c in changes):
        yield (
            f"In run {past.run_id}, the service gave pets ids other than those in the plan. "
            "Restored pets may get new ids too; the report then names them."
        )
