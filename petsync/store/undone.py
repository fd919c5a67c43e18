"""Undone: which run is to be taken back, and the plan that does it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from petsync.apply.deeds import Deed, deeds_of
from petsync.apply.undo import AddedAgain, LaterDeed, Present, undo_plan
from petsync.client import loader
from petsync.client.api import AsyncApi
from petsync.client.lookup import Lookups, look_up
from petsync.diff import arguments
from petsync.diff.align import absent
from petsync.diff.change import Add
from petsync.diff.fields import content
from petsync.diff.guard import Guard
from petsync.diff.history import Entry, Past
from petsync.diff.known import pets_of
from petsync.diff.plan import Plan
from petsync.diff.snapshot import Snapshot
from petsync.diff.standing import undone_by
from petsync.errors import LockedError, PlanError
from petsync.store.past import History

__all__ = ["Undoing"]

_MOVED = frozenset({"changed-since-run", "came-since-run", "gone-since-run"})


@dataclass(frozen=True, slots=True)
class Undoing:
    """Makes the plans that take runs of one store back."""

    api: AsyncApi
    history: History

    async def plan(
        self,
        run_id: str,
        guard: Guard,
        on_progress: Callable[[Lookups], None] | None,
    ) -> Plan:
        """The plan of an undo. Raises as AsyncStore.undo."""
        limits = arguments.guard_of(guard)
        past, entries = await asyncio.to_thread(self._chosen, run_id)
        now = await loader.snapshot(self.api, self.api.session.profile.statuses)
        found = await self._found(list(deeds_of(entries)), now, on_progress)
        make = partial(
            undo_plan,
            past,
            entries,
            found,
            known=await asyncio.to_thread(self.history.known, past.run_id),
            store=now.source,
            profile=self.api.session.profile.name,
            pets=len(now),
            capacity=self.api.session.profile.capacity,
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
            guard=limits,
            coverage=now.coverage,
            sentinels=pets_of(limits.sentinels, now.frame),
        )
        plan = make()
        if plan.adds:
            make = partial(make, again=await self._again(past, plan.adds, now))
            plan = make()
        moved = {each.pet_id for each in plan.conflicts if each.rule in _MOVED}
        return make(later=await asyncio.to_thread(self._later, past, moved)) if moved else plan

    def _chosen(self, run_id: str) -> tuple[Past, list[Entry]]:
        store = self.api.session.base_url
        past = self.history.find(run_id, store) if run_id else self._newest(store)
        if past is None:
            raise PlanError(
                f"no run on {store} has changed anything that is not undone already",
                hint="`petsync runs` lists the runs.",
            )
        if past.state == "running":
            raise LockedError(
                f"run {past.run_id} is still at work",
                hint="Wait for its end, or stop it with Ctrl-C where it runs; then undo it.",
            )
        return past, self.history.entries(past.run_id)

    def _newest(self, store: str) -> Past | None:
        """The newest run that changed something and is not undone. An undo is taken back only
        where it is named, and one that was stopped, or of a part, leaves its run to be undone.
        """
        runs = self.history.runs(store)
        undone = undone_by(runs)
        for run in runs:
            if run.kind != "undo" and self._has_changed(run):
                by = undone.get(run.run_id)
                if by is None or by.state != "done" or self.history.is_part(by.run_id):
                    return run
        return None

    def _has_changed(self, run: Past) -> bool:
        """Whether the run changed any pet. What it reports as failed may have: an add that took the
        place of a pet, or a change that the service stored otherwise.
        """
        if run.counts.get("applied"):
            return True
        if not any(run.counts.get(each) for each in ("failed", "conflict", "unknown")):
            return False
        return any(deed.is_settled for deed in deeds_of(self.history.entries(run.run_id)))

    async def _found(
        self, deeds: list[Deed], now: Snapshot, on_progress: Callable[[Lookups], None] | None
    ) -> dict[int, Present]:
        """The pets as they are now; those that no query lists are looked up one by one."""
        ids = [deed.pet_id for deed in deeds if deed.pet_id is not None and deed.is_settled]
        listed = {pet.id: pet for pet in pets_of(ids, now.frame) if pet.id is not None}
        others = await look_up(self.api, absent(ids, now.frame), on_progress=on_progress)
        return {**listed, **others}

    async def _again(
        self, past: Past, adds: Collection[Add], now: Snapshot
    ) -> dict[int, AddedAgain]:
        """The pets that the undo is to add and that the store has again under other ids: later runs
        added them, of the same rows or saying the same.
        """
        of_rows = await asyncio.to_thread(self._of_rows, past)
        same = await asyncio.to_thread(self._same, past, adds)
        ids = {pet_id for _, pet_id in (*of_rows.values(), *chain(*same.values()))}
        there = {pet.id for pet in pets_of(ids, now.frame)}
        others = await look_up(self.api, absent(sorted(ids), now.frame))
        there |= {pet_id for pet_id, pet in others.items() if pet is not None}
        found: dict[int, AddedAgain] = {}
        for add in adds:
            row = [of_rows[add.pet_id]] if add.pet_id in of_rows else []
            used = {pet_id for _, pet_id in found.values()}
            left = [each for each in (*row, *same[content(add.after)]) if each[1] in there - used]
            if left and add.pet_id is not None:
                found[add.pet_id] = left[0]
        return found

    def _of_rows(self, past: Past) -> dict[int, AddedAgain]:
        """What later runs made of the rows of the run that is to be done again; nothing, where the
        run to be taken back is no undo.
        """
        first = past
        while first.undoes:
            first = self.history.find(first.undoes)
        return {} if first is past else self.history.added_again(first.run_id)

    def _same(self, past: Past, adds: Iterable[Add]) -> Mapping[Hashable, list[AddedAgain]]:
        """What later runs added that says the same as these, the newest first."""
        found: dict[Hashable, list[AddedAgain]] = {content(add.after): [] for add in adds}
        for run, deed in self._since(past):
            if deed.kind == "add" and deed.pet_id is not None and content(deed.left) in found:
                found[content(deed.left)].append((run, deed.pet_id))
        return found

    def _since(self, past: Past) -> Iterator[LaterDeed]:
        """What later runs did, the newest first."""
        for run in self.history.runs(past.store):
            if run.run_id == past.run_id:
                return
            for deed in deeds_of(self.history.entries(run.run_id)):
                if deed.is_settled:
                    yield run.run_id, deed

    def _later(self, past: Past, ids: set[int | None]) -> dict[int, list[LaterDeed]]:
        """What later runs did to each of these pets, the newest first."""
        found: defaultdict[int, list[LaterDeed]] = defaultdict(list)
        for run, deed in self._since(past):
            if deed.pet_id is not None and deed.pet_id in ids:
                found[deed.pet_id].append((run, deed))
        return found
