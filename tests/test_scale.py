"""Sheets and stores in parts: the plan is the same as that of the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import petsync as ps
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.scale.parts import BASE_FOLDER
from petsync.sheets.base import base_of
from petsync.sheets.read import sheet_from_frame

pytestmark = pytest.mark.slow

NAMES = ["Rex", "Tom", "Ada", "Zoë", "Bella", "Max", "Luna", "Rocky", "Milo", "Ida", "Ben", "Mia"]
TAGS = [ps.Tag(n, name) for n, name in enumerate(["shy", "calm", "old", "new", "loud"], 1)]
KINDS = [ps.Category(1, "Dogs"), ps.Category(2, "Cats"), ps.Category(7, "Birds"), None]
STATUSES = ["available", "pending", "sold"]


def catalogue(chance: random.Random, size: int) -> list[ps.Pet]:
    """Random pets, some of which have the same name or photos."""
    return [
        ps.Pet(
            id=number * chance.choice([1, 1, 7919]) + 10_000 * (number % 3),
            name=f"{chance.choice(NAMES)}{chance.choice(['', '', f' {number}'])}",
            status=chance.choice(STATUSES),
            category=chance.choice(KINDS),
            tags=tuple(chance.sample(TAGS, chance.randrange(3))),
            photo_urls=tuple(
                f"https://a.example/{chance.choice([number, number % 9])}/{n}.jpg"
                for n in range(chance.randrange(3))
            ),
        )
        for number in range(1, size + 1)
    ]


def edited(chance: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of an export with every kind of edit and trouble."""
    rows: list[dict[str, Any]] = frame.drop(columns="extra", errors="ignore").to_dict("records")
    for row in rows:
        row["action"] = None
    for row in chance.sample(rows, len(rows) // 5):
        column = chance.choice(["name", "status", "category", "tags", "photo_urls", "action", "id"])
        row[column] = {
            "name": f"{row['name']} II",
            "status": chance.choice([*STATUSES, "reserved", ""]),
            "category": chance.choice(["Dogs", "Fish", "dogs", ""]),
            "tags": chance.choice([[], ["shy"], ["brand new"], [*row["tags"], "calm"]]),
            "photo_urls": chance.choice([[], ["https://a.example/new.jpg"], None]),
            "action": chance.choice(["add", "update", "delete", "ignore", "add-another", "bad"]),
            "id": chance.choice([None, 9_999_999, -1, rows[0]["id"]]),
        }[column]
        if column == "category":
            row["category_id"] = None
    for _ in range(chance.randrange(4)):
        one, other = chance.sample(rows, 2)
        one["id"], other["id"] = other["id"], one["id"]
    for row in chance.sample(rows, len(rows) // 20):
        rows.remove(row)
    for row in chance.sample(rows, len(rows) // 30):
        rows.insert(chance.randrange(len(rows)), {**row, "id": chance.choice([row["id"], None])})
    for _ in range(chance.randrange(5)):
        new = {**chance.choice(rows), "id": None, "name": chance.choice([*NAMES, "Newcomer"])}
        rows.insert(chance.randrange(len(rows)), new)
    return pd.DataFrame(rows).astype({"id": "Int64", "category_id": "Int64"})


def write_parts(frame: pd.DataFrame, folder: Path, files: int) -> None:
    """Write the rows into several Parquet files with lists of names."""
    lists = {
        "tags": [
            None if each is None else [getattr(t, "name", t) for t in each]
            for each in frame["tags"]
        ],
        "photo_urls": frame["photo_urls"].tolist(),
    }
    text = pa.list_(pa.string())
    columns = {
        name: pa.array(lists[name], text)
        if name in lists
        else pa.array(frame[name], from_pandas=True, type=None if "id" in name else pa.string())
        for name in frame.columns
    }
    table = pa.table(columns)
    folder.mkdir(exist_ok=True)
    step = -(-len(table) // files)
    for number in range(files):
        pq.write_table(table.slice(number * step, step), folder / f"{number:02d}.parquet")


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_of_parts_is_that_of_the_whole(
    seed: int, tmp_path: Path, threads: Executor
) -> None:
    """Whatever the trouble in a sheet, and however many parts there are, the plan has the same
    changes, conflicts and rows in trouble as a comparison in memory.
    """
    chance = random.Random(seed)
    pets = catalogue(chance, 300)
    has_base, parts = seed % 2 == 0, [1, 2, 7, 64][seed % 4]
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        folder = tmp_path / "pets"
        folder.mkdir()
        exported = store.snapshot()
        if has_base:
            store.snapshot_to(folder / BASE_FOLDER, partitions=parts)
        for pet in chance.sample(pets, 20):
            store.api.update_pet(replace_name(pet, f"{pet.name} of the store"))
        frame = edited(chance, exported.frame)
        write_parts(frame, folder, 3)
        options: dict[str, Any] = {"delete_missing": seed % 3 == 0}
        table = pd.concat(
            [
                pd.read_parquet(each, dtype_backend="numpy_nullable")
                for each in sorted(folder.glob("*.parquet"))
            ],
            ignore_index=True,
        )
        sheet = sheet_from_frame(table, first=1)
        whole = store.plan(replace(sheet, base=base_of(exported)) if has_base else sheet, **options)
        plan = store.plan(folder, executor=threads, **options)
    assert contents(plan) == contents(whole)
    assert plan.changes
    assert has_base == any("compared in parts" in note for note in plan.notes)


def replace_name(pet: ps.Pet, name: str) -> ps.Pet:
    return ps.Pet(
        id=pet.id,
        name=name,
        status=pet.status,
        category=pet.category,
        tags=pet.tags,
        photo_urls=pet.photo_urls,
    )


def contents(plan: Plan) -> dict[str, Any]:
    """What a plan sends, refuses and counts."""
    return {
        "changes": plan.changes,
        "conflicts": plan.conflicts,
        "blocked": plan.blocked,
        "summary": plan.summary(),
        "recognised": plan.recognised,
        "notes": [note for note in plan.notes if "compared in parts" not in note],
    }
