"""Journals for tests: runs of a small plan, and separate processes with a run session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shop import plan_of, sheet_saying

from petsync.apply.journal import Journal, RunSession
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Change
from petsync.plan.plan import Plan
from petsync.plan.report import Result

STORE = "http://127.0.0.1:1/v2"
STARTED = "2026-11-21T08:00:00.000000+00:00"
PETS = [
    Pet(
        id=number,
        name=f"pet {number}",
        status="available",
        photo_urls=(f"https://pets.example/{number}.jpg",),
        category=Category(1, "Dogs"),
        tags=(Tag(1, "friendly"),),
    )
    for number in range(1, 7)
]


def small_plan(pets: Iterable[Pet] = PETS, name: str = "renamed") -> Plan:
    """Return a plan that renames each of the pets."""
    pets = list(pets)
    rows = [{"id": pet.id, "name": f"{name} {pet.id}"} for pet in pets]
    return plan_of(pets, sheet_saying(*rows))


def begin_run(journal: Journal, run: str, plan: Plan | None = None, **more: Any) -> RunSession:
    """Begin a new run of the plan, and return its session."""
    options: dict[str, Any] = {
        "kind": "apply",
        "store": STORE,
        "source": "s.xlsx",
        "started": STARTED,
    }
    if plan is not None:
        options |= {"plan": plan, "fingerprint": plan.fingerprint, "total": len(plan.changes)}
    return journal.begin(run, **{"total": 0, **options, **more})


async def intended(session: RunSession, number: int, change: Change) -> None:
    """Record the intent of this change, as the engine does."""
    await session.record_intent(number, change, before=change.before, after=change.after)


def result(number: int, change: Change, outcome: Any = "applied", **more: Any) -> Result:
    """Return a result of the change."""
    return Result(
        number=number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=change.pet_id,
        fields=change.fields,
        outcome=outcome,
        **more,
    )


class Other:
    """Another process with a run session, which executes commands line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, *words: object) -> str:
        """Send a command, and return its response."""
        self.tell(*words)
        return self.answer()

    def tell(self, *words: object) -> None:
        """Send a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Return the next line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def other_process(state: Path, run: str, *, store: str = STORE) -> Iterator[Other]:
    """Yield a process that has begun a run, or has reported why it could not; kill it at the
    end.
    """
    script = Path(__file__).with_name("run_session.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(state), run, store],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Other(process)
    finally:
        process.kill()
        process.communicate()
