"""Services with a capacity: an add beyond it would drop the oldest pets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from petsync import connect, load_plan
from petsync._display import as_html, as_text
from petsync.client.probe import examine
from petsync.client.session import Session
from petsync.errors import GuardError
from petsync.models import Pet
from petsync.profile import LIVE, ServiceProfile
from petsync.sandbox import Sandbox
from petsync.sandbox.http import LIVE as LIVE_SANDBOX
from petsync.store import Store

MOST = 20
PROFILE = replace(LIVE, capacity=MOST)


def shop(count: int) -> Sandbox:
    """Return a live sandbox with this number of pets and a capacity of 20."""
    pets = [Pet(id=n, name=f"Pet {n}", status="sold") for n in range(1, count + 1)]
    return Sandbox(profile=replace(LIVE_SANDBOX, capacity=MOST), auth=False, pets=pets)


def adds(count: int) -> pd.DataFrame:
    """Return a sheet of this number of new pets."""
    rows = [{"name": f"New {n}", "status": "sold"} for n in range(count)]
    return pd.DataFrame(rows, dtype=object)


def store_of(box: Sandbox, state: Path, profile: ServiceProfile = PROFILE) -> Store:
    """Return a connection with that profile."""
    return connect(box.url, environ={}, profile=profile, state=state)


def test_adds_up_to_the_capacity_pass_and_one_more_is_refused(tmp_path: Path) -> None:
    """The guard counts existing and added pets against the capacity; a refused plan
    sends nothing.
    """
    with shop(18) as box, store_of(box, tmp_path) as store:
        assert store.plan(adds(2)).verdict.ok
        plan = store.plan(adds(3))
        (refusal,) = plan.verdict.refusals
        assert refusal.limit == "capacity"
        assert "drop the oldest pet: it keeps 20" in refusal.problem
        for shown in (as_text(plan), as_html(plan)):
            assert "No option" not in shown
            assert "Add fewer pets, or delete some first" in shown
            assert "[service]" in shown
        with pytest.raises(GuardError, match="capacity") as caught:
            store.apply(plan)
        assert "[service]" in caught.value.hint
        assert [pet.id for pet in box.pets()] == list(range(1, 19))
        part = plan.select(numbers=[0, 1])
        assert part.verdict.ok
        assert store.apply(part).exit_code == 0
        assert len(box.pets()) == MOST


def test_a_plan_file_keeps_the_capacity(tmp_path: Path) -> None:
    """A saved plan that exceeds the capacity is refused as well."""
    path = tmp_path / "plan.json"
    with shop(MOST) as box, store_of(box, tmp_path) as store:
        store.plan(adds(1)).save(path)
        with pytest.raises(GuardError, match="it keeps 20"):
            store.apply(load_plan(path))


def test_without_a_known_capacity_adds_are_free(tmp_path: Path) -> None:
    """Without a known capacity, any number of adds passes the guard."""
    with shop(MOST) as box, store_of(box, tmp_path, replace(LIVE, capacity=None)) as store:
        assert store.plan(adds(5)).verdict.ok


def test_an_undo_that_would_drop_pets_is_refused(tmp_path: Path) -> None:
    """An undo of a delete is refused if another pet has taken the free place."""
    with shop(MOST) as box, store_of(box, tmp_path) as store:
        sheet = pd.DataFrame([{"id": 7, "action": "delete"}], dtype=object)
        run = store.apply(store.plan(sheet)).run_id
        box.put(Pet(id=99, name="Other", status="sold"))
        undo = store.undo(run)
        assert [refusal.limit for refusal in undo.verdict.refusals] == ["capacity"]


@pytest.mark.parametrize(
    ("count", "verdict", "says"),
    [(17, "fits", "17 of the 20"), (18, "noted", "nearly full"), (21, "differs", "set capacity")],
)
def test_the_doctor_tells_how_full_the_store_is(count: int, verdict: str, says: str) -> None:
    """The doctor warns when nine tenths of the capacity are used, and reports a wrong profile when
    the store has more pets.
    """

    async def work(url: str) -> dict[str, tuple[str, str]]:
        session = Session(url, profile=PROFILE)
        try:
            found = await examine(session)
        finally:
            await session.close()
        return {check.topic: (check.verdict, check.found) for check in found.checks}

    with shop(count) as box:
        found = asyncio.run(work(box.url))["capacity"]
    assert found[0] == verdict
    assert says in found[1]
