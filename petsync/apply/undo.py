"""Undo: what a run did to each pet, and the plan that restores the earlier values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from petsync.models import Pet
from petsync.plan.change import Add, Change, Conflict, Coverage, Delete, FailedLookup, Update
from petsync.plan.fields import cell, differing, equal, find_filled_columns, with_fields
from petsync.plan.guard import Guard
from petsync.plan.plan import Plan
from petsync.plan.report import Cause, Entry, Outcome, PastRun
from petsync.table.columns import Column

__all__ = ["AddedAgain", "Effect", "LaterDeed", "Present", "deeds_of", "undo_plan"]


# Deeds: what a run did to each pet, put together from its journal.


_DONE: frozenset[tuple[Outcome | None, Cause]] = frozenset(
    {
        ("failed", "not-as-sent"),
        ("conflict", "not-as-sent"),
        ("unknown", "unverified"),
        ("failed", "overwrote"),
    }
)
"""What counts as done, besides `applied`: the service took it, and made something else of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a run did to one pet. `before` and `after` are the pet then, None where there was none
    or nobody knows; `pet_id` is None where the service did not say which id it gave. `urls` are
    the addresses that an upload added. `is_settled` is False where nobody knows whether it was
    done. `is_renumbered`: the service gave the pet another id than it was to have; `is_assigned`:
    it gave one to a pet that was to have none.
    """

    kind: Literal["add", "update", "delete", "upload"]
    pet_id: int | None
    row: int | None
    source: str
    fields: tuple[Column, ...]
    before: Pet | None
    after: Pet | None
    urls: frozenset[str] = frozenset()
    is_settled: bool = True
    is_renumbered: bool = False
    is_assigned: bool = False

    @property
    def was(self) -> Pet:
        """The pet before; empty where there was none."""
        return self.before or _NOBODY

    @property
    def left(self) -> Pet:
        """The pet as the run left it; empty where it left none."""
        return self.after or _NOBODY

    @property
    def is_forgotten(self) -> bool:
        """Whether the journal lacks what is needed to take it back."""
        needed = {"add": [self.after], "delete": [self.before]}
        return None in needed.get(self.kind, [self.before, self.after])

    @property
    def is_image(self) -> bool:
        """Whether it is an upload of which all is known."""
        return self.kind == "upload" and self.is_settled and not self.is_forgotten

    @property
    def name(self) -> str:
        """The pet's name as it is best known."""
        return self.left.name or self.was.name or ""


_NOBODY = Pet()


def deeds_of(entries: Iterable[Entry]) -> Iterator[Effect]:
    """What was done, or may have been, in the order of the entries; several images of one pet are
    one deed, at the place of the first. What was surely not done is left out.
    """
    done = [_build_deed(entry) for entry in entries if _may_be_done(entry)]
    images = _together(deed for deed in done if deed.is_image)
    for deed in done:
        if not deed.is_image:
            yield deed
        elif (joined := images.pop(deed.pet_id, None)) is not None:
            yield joined


def _may_be_done(entry: Entry) -> bool:
    return entry.outcome in ("applied", "unknown", None) or _is_done(entry)


def _is_done(entry: Entry) -> bool:
    return entry.outcome == "applied" or (entry.outcome, entry.cause) in _DONE


def _build_deed(entry: Entry) -> Effect:
    assigned = entry.assigned_id
    fields, kind = entry.fields, entry.kind
    if kind == "add" and entry.before is not None and entry.after is not None:
        # It took the place of a pet: taken back, that pet is as it was.
        fields, kind = differing(entry.after, entry.before), "update"
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
    """The addresses that an upload brought."""
    if entry.before is None or entry.after is None:
        return frozenset()
    return frozenset(entry.after.photo_urls) - frozenset(entry.before.photo_urls)


def _together(uploads: Iterable[Effect]) -> dict[int | None, Effect]:
    """One deed for each pet: from before the first of its images to after the last."""
    pets: dict[int | None, Effect] = {}
    for deed in uploads:
        first = pets.get(deed.pet_id)
        pets[deed.pet_id] = (
            deed
            if first is None
            else replace(first, after=deed.after or first.after, urls=first.urls | deed.urls)
        )
    return pets


# Undo: the plan that takes a run back, made from what its journal says the pets were before.


Present = Pet | FailedLookup | None
"""A pet as it is now; None where there is none, FailedLookup where the service did not say."""

LaterDeed = tuple[str, Effect]
"""A run that began later, and what it did to the pet."""

AddedAgain = tuple[str, int]
"""A run that began later and added a deleted pet again, and the id that the pet has since."""

_KINDS = ("add", "update", "delete")
_NO_COVERAGE = Coverage()
_SHOWN = 40


def undo_plan(
    past: PastRun,
    entries: Iterable[Entry],
    found: Mapping[int, Present],
    *,
    store: str,
    profile: str,
    pets: int,
    capacity: int | None = None,
    created: str,
    guard: Guard,
    coverage: Coverage = _NO_COVERAGE,
    sentinels: Sequence[Pet] = (),
    later: Mapping[int, Sequence[LaterDeed]] = {},
    again: Mapping[int, AddedAgain] = {},
    known: Collection[int] = (),
) -> Plan:
    """The plan that gives every pet that the run changed back what it was, where nobody changed
    it since; what is kept, or cannot be taken back, is a conflict each.

    `found` are the pets of `deeds_of(entries)` as they are now, `pets` is how many the store has,
    and `capacity` how many it keeps, None where no limit is known. `later` is what later runs did
    to each pet, the newest first. `again`: by id, the pets that the run deleted and that a later
    run added again: they do not come back a second time. `known` are the ids of the pets that there
    were before the run added some without an id: none of them is deleted. There is one change,
    conflict or unchanged row for each pet that the run changed, or may have changed.
    """
    deeds = list(deeds_of(entries))
    judge = _EffectJudge(past.run_id, found, later, again, known)
    told = [judge.taken_back(deed) for deed in deeds]
    changes = [each for each in told if isinstance(each, Change)]
    conflicts = [each for each in told if isinstance(each, Conflict)]
    plan = Plan(
        created=created,
        store=store,
        profile=profile,
        source=f"run {past.run_id}",
        undoes=past.run_id,
        guard=guard,
        changes=tuple(sorted(changes, key=lambda change: _KINDS.index(change.kind))),
        conflicts=tuple(conflicts),
        unchanged=len(told) - len(changes) - len(conflicts),
        rows=len(told),
        pets=pets,
        capacity=capacity,
        notes=tuple(_notes(past, deeds, changes)),
        coverage=coverage,
        sentinels=tuple(sentinels),
    )
    return plan.judged()


@dataclass(frozen=True, slots=True)
class _EffectJudge:
    """Decides what becomes of each deed of a run."""

    run: str
    found: Mapping[int, Present]
    later: Mapping[int, Sequence[LaterDeed]]
    again: Mapping[int, AddedAgain]
    known: Collection[int]

    def taken_back(self, deed: Effect) -> Change | Conflict | None:
        """The change that takes a deed back, or why there is none; None where nothing is left."""
        if (problem := self._impossible(deed)) is not None:
            return problem
        now = self.found.get(deed.pet_id or 0, _NOT_ASKED)
        if isinstance(now, FailedLookup):
            what = f"could not be looked up: {now.problem}"
            return _build_conflict(deed, "not-looked-up", what, "Undo again when the store answers")
        if deed.kind == "add":
            return self._of_add(deed, now)
        if deed.kind == "delete":
            return self._of_delete(deed, now)
        return self._of_upload(deed, now) if deed.kind == "upload" else self._of_update(deed, now)

    def _impossible(self, deed: Effect) -> Conflict | None:
        if not deed.is_settled:
            what = "may have been changed by the run, which did not see it through"
            cure = f"`petsync resume {self.run}` finds out what became of it; then undo again"
            return _build_conflict(deed, "not-settled", what, cure)
        if deed.pet_id is None:
            what = "added a pet, and the service did not say which id it gave it"
            return _build_conflict(
                deed, "no-id-known", what, "Find it in the store, and delete it by a sheet"
            )
        known = deed.after if deed.kind == "add" else deed.before
        if known is not None and deed.kind == "upload" and deed.is_forgotten:
            what = "was given an image by the run, which could not read its address"
            return _build_conflict(deed, "not-recorded", what, "Take the address out by a sheet")
        if known is None:
            what = "was changed by the run, and the journal does not say from what"
            return _build_conflict(deed, "not-recorded", what, "Change it back by a sheet")
        return None

    def _of_add(self, deed: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None:
            return None
        if deed.is_assigned and deed.pet_id in self.known:
            what = "was there before the run, which put a new pet in its place"
            cure = "The journal does not say what it was. Change it back by a sheet"
            return _build_conflict(deed, "not-recorded", what, cure, now)
        if since := differing(deed.left, now):
            return self._build_changed_conflict(
                deed, now, since, "Delete it by a sheet if it is to go"
            )
        return Delete(row=deed.row, source=deed.source, before=now)

    def _of_update(self, deed: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None:
            return self._build_gone_conflict(deed)
        if all(equal(now, deed.was, field) for field in deed.fields):
            return None
        if since := differing(deed.left, now):
            return self._build_changed_conflict(
                deed, now, since, "Change it by a sheet if it is to be as before"
            )
        after = with_fields(now, deed.was, deed.fields)
        return Update(row=deed.row, source=deed.source, fields=deed.fields, before=now, after=after)

    def _of_delete(self, deed: Effect, now: Pet | None) -> Change | Conflict | None:
        was = deed.was
        if now is None and (found := self.again.get(deed.pet_id or 0)) is not None:
            run, pet_id = found
            what = f"was deleted by the run, and is in the store again as pet {pet_id} (run {run})"
            cure = f"To have it under its old id, delete pet {pet_id} by a sheet; then undo again"
            return _build_conflict(deed, "added-again", what, cure)
        if now is None:
            return Add(row=deed.row, source=deed.source, fields=find_filled_columns(was), after=was)
        if since := differing(was, now):
            told = _contrast(was, now, since, whose="before it was")
            what = f"was deleted by the run, and there is one of this id again: {told}"
            cure = self._first(deed, now, since, "Change it by a sheet if it is to be as before")
            return _build_conflict(deed, "came-since-run", what, cure, now)
        return None

    def _of_upload(self, deed: Effect, now: Pet | None) -> Change | Conflict | None:
        if now is None or deed.urls.isdisjoint(now.photo_urls):
            return None
        if since := differing(deed.left, now):
            return self._build_changed_conflict(deed, now, since, "Take the photos out by a sheet")
        kept = tuple(url for url in now.photo_urls if url not in deed.urls)
        after = msgspec.structs.replace(now, photo_urls=kept)
        fields: tuple[Column, ...] = ("photo_urls",)
        return Update(row=deed.row, source=deed.source, fields=fields, before=now, after=after)

    def _build_changed_conflict(
        self, deed: Effect, now: Pet, since: Sequence[Column], otherwise: str
    ) -> Conflict:
        told = _contrast(deed.left, now, since, whose="the run left")
        what = f"was changed since the run, and is kept as it is: {told}"
        cure = self._first(deed, now, since, otherwise)
        return _build_conflict(deed, "changed-since-run", what, cure, now)

    def _build_gone_conflict(self, deed: Effect) -> Conflict:
        shown = f"`petsync runs {self.run} --pet {deed.pet_id}` shows what it was"
        what = "was changed by the run, and is gone since"
        return _build_conflict(deed, "gone-since-run", what, self._first(deed, None, (), shown))

    def _first(self, deed: Effect, now: Pet | None, since: Sequence[Column], otherwise: str) -> str:
        """What to do: where later runs made the pet what it is now, the newest of them is to be
        undone first. What somebody else made of it no undo of a run takes back.
        """
        deeds = self.later.get(deed.pet_id or 0, ())
        if now is None:
            runs = [run for run, later in deeds[:1] if later.kind == "delete"]
        else:
            makers = [_maker(deeds, now, field) for field in since]
            runs = [run for run, _ in deeds if run in makers and None not in makers]
        return f"Run {runs[0]} changed it later: undo that one first" if runs else otherwise


def _maker(deeds: Iterable[LaterDeed], now: Pet, field: Column) -> str | None:
    """The newest run that set the field to what it is now; None where none did."""
    for run, deed in deeds:
        if not equal(deed.was, deed.left, field):
            return run if equal(deed.left, now, field) else None
    return None


_NOT_ASKED = FailedLookup("", "nobody asked for it")


def _contrast(left: Pet, now: Pet, fields: Iterable[Column], *, whose: str) -> str:
    """`name is 'Maxi' (the run left 'Max')`; `whose` is `the run left` there."""
    said = (
        f"{field} is {_quote_cell(now, field)} ({whose} {_quote_cell(left, field)})"
        for field in fields
    )
    return ", ".join(said)


def _quote_cell(pet: Pet, field: Column) -> str:
    text = " | ".join(cell(pet, field).splitlines())
    if not text:
        return "nothing"
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"


def _build_conflict(
    deed: Effect, rule: str, problem: str, suggestion: str, now: Pet | None = None
) -> Conflict:
    """A conflict: about the pet, or, where its id is not known, about the row that added it."""
    return Conflict(
        row=deed.row if deed.pet_id is None else None,
        source=deed.source,
        pet_id=deed.pet_id,
        name=(now.name if now is not None else None) or deed.name,
        rule=rule,
        problem=problem,
        suggestion=f"{suggestion}.",
    )


def _notes(past: PastRun, deeds: Sequence[Effect], changes: Sequence[Change]) -> Iterator[str]:
    if past.undoes:
        yield f"That run took back run {past.undoes}: this does again what that one had done."
    if past.state == "stopped":
        yield (
            "That run was stopped before its end. This takes back what it did, and the rest of it "
            "is not sent any more."
        )
    if any(deed.kind == "upload" and deed.is_settled for deed in deeds):
        yield (
            "Addresses of images are taken out of the pets. The image files themselves stay with "
            "the service: it has no operation that deletes one."
        )
    if any(deed.is_renumbered for deed in deeds) and any(c.kind == "add" for c in changes):
        yield (
            "In that run the service gave pets other ids than they were to have. Pets that come "
            "back may get new ids too; the report then names them."
        )
