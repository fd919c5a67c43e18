"""A small plan, its report, a sheet and a snapshot for the tests of `report`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pandas as pd

from petsync.models import Category, Pet, Tag
from petsync.plan.change import (
    Add,
    Blocked,
    Change,
    Clash,
    Conflict,
    Coverage,
    Delete,
    FailedLookup,
    Snapshot,
    Update,
)
from petsync.plan.guard import Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.plan.report import Report, Result
from petsync.table.arrow import PetTable, table_from_pets
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import frame_from_pets, texts
from petsync.table.sheet import Finding, Sheet

replace = msgspec.structs.replace

DOGS, CATS = Category(1, "Dogs"), Category(2, "Cats")
SHY, CALM, KIDS = Tag(1, "shy"), Tag(2, "calm"), Tag(3, "good with kids")
BELLA = Pet(
    id=17, name="Bella", status="available", category=DOGS, tags=(SHY, CALM), photo_urls=("/1.png",)
)
MOCHI = Pet(name="Mochi", status="available", category=CATS, tags=(CALM, KIDS))
TOM = Pet(id=100, name="Tom", status="sold", category=CATS)

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"><b onmouseover='alert(1)'>",
    "[red]Rex[/red] [link=http://x.example]x[/link] :smile:",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "Rex\r\nPlan: 0 to add\x08\x00",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200bRex\u200d \ufeff",
    '=HYPERLINK("http://x.example")',
    "北京小猫" * 40,
    "a" * 5_000,
    "e" + "\u0301" * 5_000,
    "👩‍👩‍👧‍👦 Family 🏳️‍🌈 عائلة שלום",
    " \u00a0 ",
]
"""Names that try to break the output that contains them."""

ADD = Add(row=61, source="Pets!A61", fields=("name", "status", "category", "tags"), after=MOCHI)
UPDATE = Update(
    row=18,
    source="Pets!B18",
    fields=("name", "status", "tags", "photo_urls"),
    before=BELLA,
    after=replace(
        BELLA, name="Bela", status="sold", tags=(CALM, KIDS), photo_urls=("/1.png", "/2.png")
    ),
)
DELETE = Delete(row=40, source="Pets!A40", before=replace(BELLA, id=99, name="Rex"))
MISSING = Delete(row=None, source="", before=TOM, why="missing")
CONFLICT = Conflict(
    row=12,
    source="Pets!A12",
    pet_id=None,
    problem="matches several pets: 3, 8",
    suggestion="Give the row its id.",
)


def clash(column: Column, base: str, sheet: str, store: str) -> Clash:
    """Return a field that the sheet and the store both changed."""
    return Clash(column=column, base=base, sheet=sheet, store=store)


CLASHING = Conflict(
    row=18,
    source="Pets!B18",
    pet_id=17,
    rule="both-changed",
    problem="and the store both changed pet 17 since the export: name, status",
    suggestion="Write the store's value to keep it.",
    clashes=(clash("name", "Bella", "Bela", "Bellina"), clash("status", "sold", "pending", "")),
    winner="store",
)
OVER = Refusal(
    "delete",
    "2 deletes are more than --max-delete 1 allows (1 of 1,200 pets)",
    "--max-delete 2",
)
SILENT = FailedLookup("sold", "findPetsByStatus: the service answered 503")
BLOCKED = Blocked(row=60, source="Pets!C60", problem="petsync knows no such status.")


def plan_with(*changes: Change, **more: Any) -> Plan:
    """Return a plan with these changes."""
    values: dict[str, Any] = {
        "created": "2026-11-20T09:30:12Z",
        "store": "http://127.0.0.1:1/v2",
        "profile": "standard",
        "source": "edited.xlsx",
        "changes": changes,
        "rows": len(changes),
        "pets": 1200,
    }
    return Plan(**{**values, **more})


def small_plan() -> Plan:
    """Return a plan with one change of every kind."""
    return plan_with(
        ADD,
        UPDATE,
        DELETE,
        MISSING,
        conflicts=(CONFLICT,),
        blocked=(BLOCKED,),
        unchanged=870,
        ignored=3,
        rows=878,
        raw_notes=("Pet 100 (Tom) would be deleted. Look twice.",),
        verdict=Verdict((OVER,)),
    )


def large_plan(size: int) -> Plan:
    """Return a plan with this number of updates."""
    return plan_with(*(replace(UPDATE, row=n, before=replace(BELLA, id=n)) for n in range(size)))


def hostile_plan(name: str) -> Plan:
    """Return a plan in which every text that can be chosen is this name."""
    nasty = Pet(
        id=5,
        name=name,
        status=name,
        category=Category(7, name),
        tags=(Tag(8, name), Tag(None, name + "!")),
        photo_urls=(name,),
    )
    fields = UPDATE.fields
    return plan_with(
        replace(ADD, source=name, after=nasty),
        replace(UPDATE, source=name, fields=fields, before=nasty, after=replace(BELLA, id=5)),
        replace(UPDATE, fields=fields, before=BELLA, after=replace(nasty, id=17)),
        replace(UPDATE, fields=("name",), before=nasty, after=replace(nasty, name=name + "2")),
        replace(DELETE, source=name, before=nasty),
        store=name,
        source=name,
        created=name,
        conflicts=(
            replace(CONFLICT, source=name, problem=name, suggestion=name),
            replace(CLASHING, source=name, clashes=(clash("name", name, name + "2", "Rex"),)),
        ),
        coverage=Coverage((name,), (FailedLookup(name, name),)),
        blocked=(replace(BLOCKED, source=name, problem=name),),
        raw_notes=(name,),
        verdict=Verdict((Refusal("delete", name, name),)),
    )


def result(number: int, outcome: str, **more: object) -> Result:
    """Return the result of an update of Bella in a separate row."""
    values: dict[str, object] = {
        "number": number,
        "kind": "update",
        "row": 18 + number,
        "source": "Pets!B18",
        "pet_id": 17,
        "outcome": outcome,
    }
    return msgspec.convert({**values, **more}, Result)


def report_of(*results: Result, stopped: str = "", plan: Plan | None = None) -> Report:
    """Return a report on a run of `plan`."""
    return Report(
        run_id="20261120-093100-4f2a",
        plan=plan or small_plan(),
        started="2026-11-20T09:31:00+00:00",
        seconds=3.24,
        results=results,
        stopped=stopped,
    )


def small_report() -> Report:
    """Return a report with five different outcomes."""
    busy = "updatePet: the service answered 503"
    held = "held back, because 1 of the earlier changes failed or got no answer"
    several = "matches several pets: 3, 8."
    none = {"kind": "none", "pet_id": None}
    return report_of(
        result(0, "applied", kind="add", pet_id=None, assigned_id=1201, source="Pets!A61"),
        result(1, "failed", cause="service-error", message=busy, fields=["name"]),
        result(2, "unknown", cause="no-answer", kind="delete", message="no answer arrived"),
        result(3, "not sent", cause="held-back", kind="delete", message=held),
        result(4, "conflict", cause="from-plan", **none, message=several),
    )


def stopped_report() -> Report:
    """Return a report on a run that was stopped before it finished."""
    why = "not started: interrupted"
    return report_of(
        result(0, "applied"),
        result(1, "unknown", cause="cut-off", message="under way when the run was stopped"),
        result(2, "not sent", cause="not-begun", message=why),
        result(3, "not sent", cause="not-begun", message=why),
        stopped="interrupted",
        plan=plan_with(*[UPDATE] * 4),
    )


def finding(rule: str, row: int, **more: object) -> Finding:
    """Return a finding in column C."""
    values: dict[str, object] = {
        "address": f"Pets!C{row}",
        "row": row,
        "column": "status",
        "severity": "error",
        "rule": rule,
        "value": "availabel",
        "problem": "petsync knows no such status.",
        "suggestion": "Write available if you mean that.",
    }
    return msgspec.convert({**values, **more}, Finding)


def sheet_with(*findings: Finding, source: str = "edited.xlsx", tab: str = "Pets") -> Sheet:
    """Return a sheet of two pets with these findings."""
    frame = frame_from_pets([BELLA, TOM])
    frame["action"] = texts(["merge", "merge"])
    frame.index = pd.Index([2, 3], name="row")
    return Sheet(
        source=source,
        tab=tab,
        content=PetTable(frame=frame),
        others=pd.DataFrame({"Shelf": ["a", "b"]}, index=frame.index),
        problems=findings,
        columns={**dict(zip(COLUMNS, "ABCDEFG", strict=True)), "Shelf": "H"},
        blocked=tuple({f.row for f in findings if f.severity == "error"}),
    )


def small_snapshot(*pets: Pet) -> Snapshot:
    """Return a snapshot of these pets, or of three."""
    return Snapshot(
        pets=PetTable(table_from_pets(pets or (BELLA, replace(BELLA, id=18), TOM))),
        coverage=Coverage(("available", "pending", "sold")),
        source="http://127.0.0.1:1/v2",
        taken_at=datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
    )
