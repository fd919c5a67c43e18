"""Rounds and round histories for the tests of `report`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from render_samples import hostile_plan, report_of, result, small_plan, small_report

from petsync.plan.report import PastRun, RoundReport
from petsync.plan.rounds import Counts, Difference, Round, SheetChange

replace = msgspec.structs.replace
FIRST = datetime(2026, 10, 23, 2, tzinfo=UTC)
OPENS = (
    Difference(
        kind="conflict",
        problem="changed in the sheet and in the store since the last round",
        hint="The sheet says sold, the store available.",
        pet_id=1022,
        name="Chef Ariel",
        row=23,
        address="Pets!C23",
        fields=("status",),
    ),
    Difference(
        kind="finding",
        problem="status: there is no status 'avaliable'; did you mean available?",
        pet_id=1031,
        name="Luna",
        row=32,
        address="Pets!C32",
        fields=("status",),
    ),
    Difference(kind="failed", problem="updatePet: the service answered 503", pet_id=7, name="Rex"),
    Difference(kind="waiting", problem="to be deleted", pet_id=9, name="Tom"),
    Difference(kind="drift", problem="the store has another name", pet_id=8, fields=("name",)),
    Difference(
        kind="note", problem="its pet is no longer in the store", name="Milo", address="Pets!A40"
    ),
)
"""One difference of each kind."""
SHEET = (
    SheetChange(
        kind="update",
        pet_id=1023,
        name="Tigger",
        row=24,
        address="Pets!C24",
        values={"status": ("available", "sold"), "tags": ("young; shy", "young")},
    ),
    SheetChange(
        kind="add", pet_id=1301, name="Nala", values={"name": ("", "Nala"), "id": ("", "1301")}
    ),
    SheetChange(
        kind="delete",
        pet_id=1002,
        name="Odin",
        row=3,
        address="Pets!A3",
        values={"name": ("Odin", "")},
    ),
)


def round_of(**more: Any) -> Round:
    """Return a round without problems, except for the given values."""
    values: dict[str, Any] = {
        "id": "20261121-020000-4f2a",
        "job": "catalogue",
        "mode": "two-way",
        "store": "https://shop.example/v2",
        "source": "catalogue.xlsx",
        "started": "2026-11-21T02:00:00Z",
        "seconds": 4.2,
        "rows": 1316,
        "pets": 1240,
        **more,
    }
    return Round(**values)


def build_full_report(**more: Any) -> RoundReport:
    """Return a round's report with every part filled in."""
    return RoundReport(
        round=round_of(
            **{
                "status": "conflicts",
                "exit_code": 5,
                "runs": ("20261121-020004-77aa",),
                "drift": 9,
                "to_store": Counts(add=1, update=1, delete=2),
                "to_sheet": Counts(add=1, update=1, delete=1),
                "applied": 5,
                "conflicts": 1,
                "findings": 1,
                "failed": 1,
                "unexplained": 1,
                "notes": 1,
                "waiting": ".petsync/reconcile/waiting/catalogue.json",
                "backup": "catalogue.backup.xlsx",
                "problem": "one conflict is open",
                "hint": "See `petsync runs`.",
                **more,
            }
        ),
        open=OPENS,
        plan=small_plan(),
        report=small_report(),
        sheet=SHEET,
    )


def build_rounds(
    total: int, *, job: str = "catalogue", seed: int = 7, every: float = 24.0
) -> list[Round]:
    """Return this number of nightly rounds, of which some have problems."""
    draw = random.Random(seed)
    return [_build_round(draw, n, job, every) for n in range(total)]


def _build_round(draw: random.Random, number: int, job: str, every: float) -> Round:
    started = FIRST + timedelta(hours=every * number)
    store = Counts(add=draw.randrange(5), update=draw.randrange(25), delete=draw.randrange(3))
    sheet = Counts(add=draw.randrange(3), update=draw.randrange(12))
    status, more = draw.choice(_ENDS)
    return round_of(
        id=f"{started:%Y%m%d-%H%M%S}-{number:04x}",
        job=job,
        started=started.isoformat(),
        seconds=round(draw.uniform(2, 9), 1),
        drift=store.total + sheet.total + sum(v for v in more.values() if isinstance(v, int)),
        to_store=store,
        to_sheet=sheet,
        applied=store.total + sheet.total,
        status=status,
        **more,
    )


_ENDS: Sequence[tuple[str, dict[str, Any]]] = (
    *[("done", {})] * 8,
    ("conflicts", {"exit_code": 5, "conflicts": 2}),
    ("findings", {"exit_code": 3, "findings": 3}),
    ("failed-rows", {"exit_code": 3, "failed": 4}),
    ("error", {"exit_code": 1, "problem": "the store cannot be reached"}),
    (
        "waiting",
        {"exit_code": 4, "waiting": "waiting/catalogue.json", "problem": "over its limits"},
    ),
)


def past(number: int) -> PastRun:
    """Return a run of the journal."""
    return PastRun(
        run_id=f"20261121-0200{number:02d}-77aa",
        store="https://shop.example/v2",
        source="catalogue.xlsx",
        started=(FIRST + timedelta(days=number)).isoformat(),
        seconds=3.0,
        state="done",
        total=12,
        counts={"applied": 11, "conflict": 1},
    )


def build_hostile_report(name: str) -> RoundReport:
    """Return a round's report in which every text that can be chosen is this name."""
    values = {"name": (name, f"{name}2"), "tags": ("", name)}
    change = SheetChange(kind="update", pet_id=5, name=name, address=name, values=values)
    fields: dict[str, Any] = dict.fromkeys(
        ("id", "job", "part", "store", "source", "started", "problem", "hint", "backup"), name
    )
    return RoundReport(
        round=round_of(**fields, status="waiting", exit_code=4, waiting=name, runs=(name,)),
        open=tuple(
            replace(each, problem=name, hint=name, name=name, address=name) for each in OPENS
        ),
        plan=hostile_plan(name),
        report=report_of(result(0, "failed", source=name, message=name), plan=hostile_plan(name)),
        sheet=(change, replace(change, kind="add"), replace(change, kind="delete")),
    )


def hostile_past(name: str) -> PastRun:
    """Return a run in which every text that can be chosen is this name."""
    return replace(past(0), run_id=name, store=name, source=name, started=name)
