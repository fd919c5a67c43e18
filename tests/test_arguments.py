"""Arguments of plan and apply are checked before any request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from shop import snapshot_of

import petsync as ps
from petsync.plan.guard import Limit
from petsync.sandbox import Sandbox

ONE = pd.DataFrame([{"id": 1, "name": "Max"}])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit(-1),
        lambda: Limit(float("nan")),
        lambda: Limit(10),
        lambda: Limit("x"),  # type: ignore[arg-type]
        lambda: Limit.parse("150%", "--max-delete"),
        lambda: Limit.parse("ten", "--max-delete"),
        lambda: ps.Guard(max_delete=5),  # type: ignore[arg-type]
        lambda: ps.Guard(max_update=None),  # type: ignore[arg-type]
    ],
)
def test_a_limit_that_would_switch_the_guard_off_is_refused(make: Callable[[], object]) -> None:
    """A limit that would turn the guard off is refused, such as ten as a share: 1,000 percent."""
    with pytest.raises(ps.errors.SettingsError):
        make()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"match_on": ["zzz"]}, ps.errors.SettingsError),
        ({"match_on": "id"}, ps.errors.SettingsError),
        ({"guard": 5}, ps.errors.SettingsError),
        ({"guard": None}, ps.errors.SettingsError),
        ({"snapshot": ONE}, ps.errors.PlanError),
        ({"snapshot": snapshot_of([])}, ps.errors.PlanError),
        ({"sheet": None}, ps.errors.SheetError),
        ({"sheet": 5}, ps.errors.SheetError),
        ({"sheet": b"id,name"}, ps.errors.SheetError),
    ],
)
def test_plan_says_what_it_takes(arguments: dict[str, Any], error: type[Exception]) -> None:
    """A wrong argument of `plan` raises a typed error."""
    with Sandbox(auth=False) as box, ps.connect(box.url, environ={}) as store:
        given = {"sheet": ONE, **arguments}
        with pytest.raises(error):
            store.plan(given.pop("sheet"), **given)
        assert store.plan(ONE, match_on="name").rows == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"plan": None},
        {"plan": ONE},
        {"concurrency": 0},
        {"concurrency": 1000},
        {"concurrency": "4"},
        {"rate": 0},
        {"rate": -1},
        {"rate": float("nan")},
    ],
)
def test_apply_says_what_it_takes_and_keeps_the_plan(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    """A wrong argument of `apply` sends nothing and does not use up the plan."""
    pet = ps.Pet(id=1, name="Rex", status="sold")
    with (
        Sandbox(auth=False, pets=[pet]) as box,
        ps.connect(box.url, environ={}, state=tmp_path) as store,
    ):
        plan = store.plan(ONE)
        given = {"plan": plan, **arguments}
        with pytest.raises(ps.errors.PetsyncError):
            store.apply(given.pop("plan"), **given)
        assert box.pets() == [pet]
        assert store.apply(plan).counts["applied"] == 1
