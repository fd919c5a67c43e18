"""A sheet of 50 rows against a large store, compared with the same sheet against a small one.

    python benchmarks/narrow.py [PETS] [SHEETS]        (default: 1000000 and 10000)

`petsync plan` compares a CSV file, which changes a name in each row, with a sandbox in another
process. Each figure is the least of five runs, which take turns; the requests are counted by the
sandbox. `list` is what other ways must do first: it reads the list of all pets, with httpx and
msgspec, and compares nothing.

Then random small sheets, half of them with the values of an earlier export, are planned twice: as
usual, and with every pet of the store. Their adds and updates must be the same. For these plans, a
store of 300 pets counts as large.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pandas as pd

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.plan import scope
from petsync.sandbox import Sandbox
from petsync.table.arrow import PetTable
from petsync.table.frame import frame_from_pets

ROWS, RUNS, STORED = 50, 5, 300
MAX_REQUESTS, MAX_TIMES = 60, 2.0
"""The goals of a plan of `ROWS` rows: the number of its requests, and its time / that of a plan of
the same sheet against a store of 100 pets.
"""
STATUSES = ("available", "pending", "sold")
_PROCESSES = os.cpu_count() or 1
"""The number of processes that plan random sheets."""


@dataclass
class Cost:
    """The least seconds by the clock and of the processor, and the requests of one run."""

    seconds: float = float("inf")
    processor: float = float("inf")
    requests: int = 0


def main(pets: int, sheets: int) -> int:
    """Print the costs, and how many random sheets have the same changes; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
        costs = measure(Path(folder), pets)
    large = f"{pets:,} pets"
    print(f"{'':34}seconds  processor  requests")
    for name, cost in costs.items():
        print(f"{name:34}{cost.seconds:7.2f}{cost.processor:11.2f}{cost.requests:10}")
    small, auto = costs["100 pets, plan"], costs[f"{large}, plan"]
    times = auto.seconds / small.seconds
    is_few, is_fast = auto.requests <= MAX_REQUESTS, times <= MAX_TIMES
    print(f"at most {MAX_REQUESTS} requests: {auto.requests}: {'met' if is_few else 'NOT MET'}")
    print(f"at most {MAX_TIMES:g} x 100 pets: {times:.2f}: {'met' if is_fast else 'NOT MET'}")
    differing = compare(sheets)
    return 0 if is_few and is_fast and not differing else 1


# The costs of one sheet.


def measure(folder: Path, pets: int) -> Mapping[str, Cost]:
    """Return the costs by name."""
    sheet = folder / "few.csv"
    rows = (f"{number},New {number}\n" for number in range(1, ROWS + 1))
    sheet.write_text("id,name\n" + "".join(rows), encoding="utf-8")
    costs: dict[str, Cost] = {}
    with server(folder, 100) as small, server(folder, pets) as large:
        for _ in range(RUNS):
            run(costs, "100 pets, plan", small, plan_with(sheet))
            run(costs, f"{pets:,} pets, plan", large, plan_with(sheet))
            run(costs, f"{pets:,} pets, plan --scope rows", large, plan_with(sheet, "rows"))
            run(costs, f"{pets:,} pets, plan --scope all", large, plan_with(sheet, "all"))
            run(costs, f"{pets:,} pets, list", large, read_list)
    return costs


def plan_with(sheet: Path, scope: str = "auto") -> Callable[[str], list[str]]:
    """Return a function that returns the command for a store."""
    # With --scope rows, the guard knows of no more pets than the rows name.
    given = ["plan", str(sheet), "--scope", scope, "--max-update", str(ROWS), "--format", "json"]
    return lambda url: [sys.executable, "-m", "petsync", *given, "--url", url]


def read_list(url: str) -> list[str]:
    """Return the command that reads the list of all pets."""
    query = f"{url}/pet/findByStatus?status={','.join(STATUSES)}"
    code = f"import httpx, msgspec; msgspec.json.decode(httpx.get({query!r}, timeout=600).content)"
    return [sys.executable, "-c", code]


def run(
    costs: dict[str, Cost],
    name: str,
    server: tuple[str, Connection],
    make: Callable[[str], list[str]],
) -> None:
    """Run a command, and keep its least costs."""
    url, connection = server
    cost = costs.setdefault(name, Cost())
    connection.send("count")
    before = connection.recv()
    start, used = time.perf_counter(), os.times()
    subprocess.run(make(url), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cost.seconds = min(cost.seconds, time.perf_counter() - start)
    now = os.times()
    processor = now.children_user + now.children_system - used.children_user - used.children_system
    cost.processor = min(cost.processor, processor)
    connection.send("count")
    cost.requests = connection.recv() - before


@contextmanager
def server(folder: Path, pets: int) -> Iterator[tuple[str, Connection]]:
    """Yield the base URL of a sandbox in its own process, and a connection that answers with the
    number of its requests.
    """
    seed = folder / f"{pets}.json"
    seed.write_bytes(msgspec.json.encode([as_json(stored(n)) for n in range(1, pets + 1)]))
    here, there = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_serve, args=(there, seed), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv(), here
    finally:
        process.terminate()
        process.join()


def _serve(connection: Connection, seed: Path) -> None:
    with Sandbox(auth=False, seed=seed) as box:
        connection.send(box.url)
        while connection.recv():
            connection.send(sum(box.requests.values()))


def stored(number: int) -> Pet:
    """Return a pet of a store."""
    kind = number % 7
    return Pet(
        id=number,
        name=f"Pet {number}",
        status=STATUSES[number % 3],
        category=Category(kind + 1, f"Kind {kind}"),
        tags=(Tag(number % 50 + 1, f"tag {number % 50}"), Tag(60, "all")),
        photo_urls=(f"https://images.example/{number}.jpg",),
    )


def as_json(pet: Pet) -> dict[str, Any]:
    """Return the pet as the service represents it."""
    return {
        "id": pet.id,
        "name": pet.name,
        "status": pet.status,
        "category": {"id": pet.category.id, "name": pet.category.name} if pet.category else None,
        "tags": [{"id": tag.id, "name": tag.name} for tag in pet.tags],
        "photoUrls": pet.photo_urls,
    }


# Random sheets.


def compare(sheets: int) -> int:
    """Plan random sheets twice; print how many plans read single pets, and how many differ, and
    return the number of these.
    """
    parts = [range(first, sheets, _PROCESSES) for first in range(_PROCESSES)]
    with ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn")) as pool:
        narrow, differing = map(sum, zip(*pool.map(compare_part, parts), strict=True))
    print(
        f"{sheets:,} random sheets: {narrow:,} read single pets; adds and updates differ in "
        f"{differing:,}"
    )
    return differing


def compare_part(numbers: range) -> tuple[int, int]:
    """Return how many plans of the sheets with these numbers read single pets, and how many
    differ.
    """
    scope._SHORT_LIST, scope._PETS_A_LOOKUP = 100, 1
    old = [stored(number) for number in range(1, STORED + 1)]
    chance = Random(7)
    pets = [replace_some(pet, chance) if pet.id and pet.id % 3 == 0 else pet for pet in old]
    narrow = differing = 0
    with (
        Sandbox(auth=False, pets=pets) as box,
        tempfile.TemporaryDirectory() as state,
        ps.connect(box.url, environ={}, state=state) as store,
    ):
        snapshot = store.snapshot()
        base = replace(snapshot, pets=PetTable(frame=frame_from_pets(old))).as_base()
        for number in numbers:
            sheet = store.read(random_sheet(pets, Random(number)))
            if number % 2:
                sheet = replace(sheet, base=base)
            plan, whole = store.plan(sheet), store.plan(sheet, snapshot=snapshot)
            narrow += plan.coverage.is_narrow
            if (plan.adds, plan.updates) != (whole.adds, whole.updates):
                differing += 1
                print(f"sheet {number} differs")
    return narrow, differing


def replace_some(pet: Pet, chance: Random) -> Pet:
    """Return the pet after a change by another user."""
    change = chance.choice(
        [{"name": f"Other {pet.id}"}, {"status": chance.choice(STATUSES)}, {"tags": ()}]
    )
    return msgspec.structs.replace(pet, **change)


def random_sheet(pets: list[Pet], chance: Random) -> pd.DataFrame:
    """Return a sheet of up to 12 rows, most of which change something about their pet. In a tenth
    of the sheets, a row needs more than its own pet.
    """
    rows = [row_of(chance.choice(pets), pets, chance) for _ in range(chance.randint(1, 12))]
    rows = [*{row["id"]: row for row in rows}.values()]
    if not chance.randrange(10):
        odd: list[dict[str, Any]] = [
            {"id": chance.choice([None, STORED + chance.randint(1, 9)]), "name": "New"},
            {"tags": f"tag {chance.randrange(60)}"},
            {"category": f"Kind {chance.randrange(9)}"},
            {"status": "lost"},
        ]
        chance.choice(rows).update(chance.choice(odd))
    frame = pd.DataFrame(rows, dtype=object)
    dropped = chance.sample(["status", "category", "tags", "photo_urls"], chance.randrange(3))
    return frame.drop(columns=dropped).astype({"id": "Int64"})


def row_of(pet: Pet, pets: list[Pet], chance: Random) -> dict[str, Any]:
    """Return a row of the pet with some values of another pet."""
    other = chance.choice(pets)
    names = [tag.name for tag in pet.tags if chance.random() < 0.9]
    return {
        "id": pet.id,
        "name": chance.choice([pet.name, pet.name, other.name, f"New {pet.id}", None]),
        "status": chance.choice([pet.status, other.status, None]),
        "category": pet.category.name if pet.category and chance.random() < 0.7 else None,
        "tags": "; ".join(filter(None, names)) or None,
        "photo_urls": chance.choice([[*pet.photo_urls], [*other.photo_urls], None]),
        "action": chance.choice(["", "", "", "", "update", "delete", "ignore", "add"]),
    }


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*[*numbers, *(1_000_000, 10_000)[len(numbers) :]]))
