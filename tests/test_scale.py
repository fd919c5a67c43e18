"""Sheets and stores in parts: the plan is the same as that of the whole."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from times import times

import petsync as ps
from petsync.cli.options import CompareOptions, read_inputs
from petsync.errors import FindingsError, PlanError, SheetError
from petsync.plan import lineage
from petsync.plan.change import Snapshot
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.scale import parts, reduce
from petsync.scale.parts import BASE_FOLDER, part_of
from petsync.sheets.read import sheet_from_frame
from petsync.sheets.sidecar import sidecar_path
from petsync.store import folders
from petsync.table.arrow import SCHEMA, table_from_pets
from petsync.table.sheet import FILE_ROWS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_parts")]

NAMES = ["Rex", "Tom", "Ada", "Zoë", "Bella", "Max", "Luna", "Rocky", "Milo", "Ida", "Ben", "Mia"]
TAGS = [ps.Tag(n, name) for n, name in enumerate(["shy", "calm", "old", "new", "loud"], 1)]
KINDS = [ps.Category(1, "Dogs"), ps.Category(2, "Cats"), ps.Category(7, "Birds"), None]
STATUSES = ["available", "pending", "sold"]
ODD = ["NaN", "n/a", "clear", "(clear)", "Category(1)", "#N/A", "=A1", "Rex\u200b", "ZoÃ«", "a\0b"]
ODD += ["Rex " * 99, "1:Dogs", "('Rex',)", " Rex", "Total", "17", "name"]
"""Texts that have findings, or might have some."""


def catalogue(chance: random.Random, size: int, odd: float = 0) -> list[ps.Pet]:
    """Random pets, some of which have the same name or photos. Of each column, a share of `odd` has
    values that may have findings.
    """
    return [
        ps.Pet(
            id=number * chance.choice([1, 1, 7919]) + 10_000 * (number % 3),
            name=chance.choice(ODD)
            if chance.random() < odd
            else f"{chance.choice(NAMES)}{chance.choice(['', '', f' {number}'])}",
            status=chance.choice(STATUSES),
            category=ps.Category(9, chance.choice(ODD))
            if chance.random() < odd
            else chance.choice(KINDS),
            tags=(ps.Tag(10, chance.choice([*ODD, "calm, shy", None])), TAGS[0], TAGS[0])
            if chance.random() < odd
            else tuple(chance.sample(TAGS, chance.randrange(3))),
            photo_urls=("C:\\Rex.jpg", "https://a.example/1.jpg;", "/x", "/x")[
                : chance.randrange(4)
            ]
            if chance.random() < odd
            else tuple(
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


def read_parts(folder: Path) -> pd.DataFrame:
    """The rows in the Parquet files of a folder."""
    paths = sorted(folder.glob("*.parquet"))
    frames = [pd.read_parquet(path, dtype_backend="numpy_nullable") for path in paths]
    return pd.concat(frames, ignore_index=True)


def numbered(folder: Path) -> dict[str, Any]:
    """The folder of Parquet files as a source, the numbers of all rows, and the files' names."""
    paths = sorted(folder.glob("*.parquet"))
    rows = [np.arange(len(pq.read_table(path))) + 1 for path in paths]
    numbers = [number * FILE_ROWS + each for number, each in enumerate(rows)]
    names = [path.name for path in paths]
    return {"source": str(folder), "numbers": np.concatenate(numbers), "files": names}


@contextmanager
def changed_store(
    chance: random.Random, pets: Sequence[ps.Pet], folder: Path, parts: int
) -> Iterator[tuple[ps.Store, Snapshot]]:
    """Yield a store in which 20 pets were changed after its export, and that export. The folder has
    the export as a base with this number of parts; no base if `parts` is 0.
    """
    with (
        Sandbox(pets=pets) as box,
        ps.connect(
            box.url, auth=ps.auth.bearer(box.token()), state=folder.with_name("state")
        ) as store,
    ):
        folder.mkdir()
        exported = store.snapshot()
        if parts:
            store.snapshot_to(folder / BASE_FOLDER, partitions=parts)
        for pet in chance.sample(pets, 20):
            store.api.update_pet(replace_name(pet, f"{pet.name} of the store"))
        yield store, exported


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.mark.parametrize(
    ("seed", "share"),
    [*((seed, 1.0) for seed in range(times(4))), *((seed, 0.1) for seed in range(times(4)))],
)
def test_the_plan_of_parts_is_that_of_the_whole(
    seed: int, share: float, tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the trouble in a sheet of all pets or of a `share` of them, and however many parts
    there are, the plan has the same changes, conflicts and rows in trouble as a comparison in
    memory.
    """
    chance = random.Random(f"{seed} {share}" if share < 1 else seed)
    pets = catalogue(chance, 300, odd=0.02)
    has_base, parts = seed % 2 == 0, [1, 2, 7, 16][seed % 4]
    folder = tmp_path / "pets"
    with changed_store(chance, pets, folder, parts if has_base else 0) as (store, exported):
        frame = edited(chance, exported.frame)
        if share < 1:
            # Every other four seeds leave out the pets in no row, as if they were many.
            monkeypatch.setattr(lineage, "MAX_LOST_PAIRS", 0 if seed % 8 > 3 else 100_000)
            start = chance.randrange(200)
            frame = frame[start : start + int(len(frame) * share)].reset_index(drop=True)
        write_parts(frame, folder, 3)
        options: dict[str, Any] = {"delete_missing": seed % 3 == 0 and share == 1}
        sheet = sheet_from_frame(read_parts(folder), **numbered(folder))
        whole = store.plan(
            replace(sheet, base=exported.as_base()) if has_base else sheet, **options
        )
        plan = store.plan(folder, executor=threads, **options)
    assert contents(plan) == contents(whole)
    assert plan.changes or plan.conflicts


@pytest.mark.parametrize("seed", range(times(4)))
def test_the_owners_of_fields_hold_in_parts(seed: int, tmp_path: Path, threads: Executor) -> None:
    """With random owners, the plan of parts has the same changes, conflicts, notes on owners and
    recognised rows as a comparison in memory, and its run changes no field of `store` or `never`.
    """
    chance = random.Random(f"owners {seed}")
    columns = ("name", "status", "category", "tags", "photo_urls")
    owners = {column: chance.choice(["sheet", "store", "both", "never"]) for column in columns}
    unsent = {column for column, owner in owners.items() if owner in ("store", "never")}
    pets = catalogue(chance, 200)
    parts = [1, 7, 64][seed % 3]
    folder = tmp_path / "pets"
    with changed_store(chance, pets, folder, parts if seed % 2 else 0) as (store, exported):
        write_parts(edited(chance, exported.frame), folder, 3)
        options: dict[str, Any] = {"owners": owners, "max_update": "100%", "allow_shifted": True}
        sheet = sheet_from_frame(read_parts(folder), **numbered(folder))
        whole = store.plan(
            replace(sheet, base=exported.as_base()) if seed % 2 else sheet, **options
        )
        plan = store.plan(folder, executor=threads, **options)
        assert contents(plan) == contents(whole)
        assert plan.recognised == whole.recognised
        on_owners = ("the sheet owns it", "the store owns it", "it is never written")
        own = [[n for n in p.notes if any(each in n for each in on_owners)] for p in (plan, whole)]
        assert own[0] == own[1]
        before = {pet.id: pet for pet in ps.pets_from_frame(store.pets())}
        store.apply(plan, progress=False)
        now = {pet.id: pet for pet in ps.pets_from_frame(store.pets())}
    assert plan.changes
    for pet_id in before.keys() & now.keys():
        for column in unsent:
            assert getattr(now[pet_id], column) == getattr(before[pet_id], column)
    for pet_id in now.keys() - before.keys():
        for column in unsent - {"name", "status"}:
            assert not getattr(now[pet_id], column)


def test_many_pets_in_no_row_are_left_out(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many pets in no row, only those stay that a row may mean, and the plan counts all."""
    monkeypatch.setattr(lineage, "MAX_LOST_PAIRS", 0)
    pets = [ps.Pet(id=n, name=f"Pet {n}", status="sold") for n in range(1, 1001)]
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        folder = tmp_path / "pets"
        rows = {"id": [7, 8, None], "name": ["Pet 7", "Rex", "Pet 900"], "status": ["pending"] * 3}
        rows |= {"category": ["Dogs"] * 3, "tags": [[]] * 3, "photo_urls": [[]] * 3}
        write_parts(pd.DataFrame(rows).astype({"id": "Int64"}), folder, 1)
        now, _ = store.read_with_snapshot(folder, with_unnamed=False, executor=threads)
        plan = store.plan(folder, executor=threads)
        seen, _ = read_inputs(store, folder, CompareOptions({}, {}))
        whole, _ = read_inputs(store, folder, CompareOptions({}, {"delete_missing": True}))
    assert now.rows["id"].tolist() == [7, 8, 900]
    assert (len(now), now.unnamed) == (1000, 997)
    assert (len(seen.pets), len(whole.pets)) == (3, 1000)  # on the command line
    assert (len(plan.updates), len(plan.adds), plan.pets) == (2, 1, 1000)
    assert plan.adds[0].namesake == 900
    assert any("998 pets of the store are in no row" in note for note in plan.notes)


Cells = list[Any]
TROUBLE: dict[str, Callable[[Cells], Cells]] = {
    "sorted": lambda cells: sorted(cells, key=str),
    "sorted from 700 on": lambda cells: cells[:700] + sorted(cells[700:], key=str),
    "cells inserted": lambda cells: cells[:100] + cells[99:-1],
    "cells deleted": lambda cells: cells[:100] + cells[102:] + cells[-2:],
    "reversed": lambda cells: cells[::-1],
    "filled down": lambda cells: [cells[0] if n % 7 == 3 else c for n, c in enumerate(cells)],
    "one value": lambda cells: cells[:300] + cells[:1] * 200 + cells[500:],
    "two exchanged": lambda cells: [cells[500], *cells[1:500], cells[0], *cells[501:]],
}


@pytest.mark.parametrize(("column", "most"), [("name", 0), ("name", 9999), ("status", 9999)])
def test_sorted_and_shifted_columns_are_found(
    column: str, most: int, tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that was sorted or shifted without its rows is found as in memory, and no other
    edits are taken for that; of different values, even if no row beside the edits is read.
    """
    monkeypatch.setattr(folders, "_MOST_BESIDE", most)
    pets = catalogue(random.Random(3), 1000)
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        exported = store.snapshot()
        shifted: dict[str, set[str]] = {}
        for number, (trouble, change) in enumerate(TROUBLE.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            store.snapshot_to(folder / BASE_FOLDER, partitions=8)
            frame = exported.frame.drop(columns="extra", errors="ignore")
            frame[column] = pd.Series(change(frame[column].tolist()), dtype=frame[column].dtype)
            write_parts(frame, folder, 3)
            sheet = replace(sheet_from_frame(frame, first=1), base=exported.as_base())
            plan, whole = store.plan(folder, executor=threads), store.plan(sheet)
            assert plan.shifted == whole.shifted, trouble
            assert plan.verdict == whole.verdict, trouble
            shifted[trouble] = {*plan.shifted}
    assert column in shifted["sorted"] & shifted["cells inserted"]
    assert not shifted["filled down"] | shifted["one value"] | shifted["two exchanged"]


STRANGE = [
    *["=1+1", "[clear]", "'[clear]", " Rex ", "nan", "#N/A", "1:Dogs", "a, b", "clear", "\u00a0"],
    *["007", "1.0", "2026-05-01", "'=x", "\n", '"', "\x00", "Available", "5 ", "-3", "9" * 20],
    *["x;y", "[1, 2]", "https://a.example/1", "B\u00e3\u00a9b\u00e3\u00a9", "delete", "update"],
]


def write_texts(chance: random.Random, frame: pd.DataFrame, whole: Path) -> list[list[str]]:
    """The records of an edited export as CSV, with strange cells and rows; the first is the header.
    `whole` must be the export: its base stays.
    """
    draft = whole.with_name("draft.csv")
    ps.write_sheet(frame, draft)
    with draft.open(encoding="utf-8", newline="") as file:
        header, *records = csv.reader(file)
    for record in chance.sample(records, 12):
        record[chance.randrange(len(header))] = chance.choice(STRANGE)
    for odd in ([""] * len(header), ["12"], [*records[0], "more"]):
        records.insert(chance.randrange(len(records)), odd)
    return [header, *records]


def write_csv(records: list[list[str]], path: Path, encoding: str, delimiter: str) -> list[int]:
    """Write the records, and return the line at which each begins."""
    lines, line = [], 1
    with path.open("w", encoding=encoding, newline="") as file:
        for record in records:
            text = io.StringIO()
            csv.writer(text, delimiter=delimiter).writerow(record)
            lines.append(line)
            line += len(text.getvalue().splitlines())
            file.write(text.getvalue())
    return lines


def renumbered(value: Any, rows: dict[int, int], files: Sequence[str]) -> Any:
    """The contents of a plan with the row numbers and addresses of one file."""
    if isinstance(value, str):

        def address(match: re.Match[str]) -> str:
            own = files.index(match[1]) * FILE_ROWS + int(match[2])
            return f"line {rows[own]}"

        return re.sub(r"(\d\d\.csv), line (\d+)", address, value)
    if isinstance(value, dict):
        return {
            str(rows[int(key)]) if key.isdigit() else key: rows[each]
            if key == "row" and each is not None
            else renumbered(each, rows, files)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [renumbered(each, rows, files) for each in value]
    return value


@pytest.mark.parametrize("seed", range(times(6)))
def test_the_plan_of_csv_files_is_that_of_one_file(
    seed: int, tmp_path: Path, threads: Executor
) -> None:
    """CSV files, in any encoding and with any cells, have the plan of the one CSV file with all
    their rows, but with addresses in these files.
    """
    chance = random.Random(seed)
    pets = catalogue(chance, 300)
    has_base, parts = seed % 2 == 0, [1, 2, 7, 16][seed % 4]
    encoding, delimiter = ["utf-8", "utf-8-sig", "utf-16", "utf-8"][seed % 4], ",;\t|"[seed % 3]
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        folder, one = tmp_path / "pets", tmp_path / "one.csv"
        folder.mkdir()
        exported = store.snapshot()
        ps.write_sheet(exported, one, base=None if has_base else False)
        if seed % 8 == 0:
            sidecar_path(folder / "01.csv").write_bytes(sidecar_path(one).read_bytes())
        elif has_base:
            store.snapshot_to(folder / BASE_FOLDER, partitions=parts)
        for pet in chance.sample(pets, 20):
            store.api.update_pet(replace_name(pet, f"{pet.name} of the store"))
        frame = edited(chance, exported.frame)
        header, *records = write_texts(chance, frame, one)
        _, *lines = write_csv([header, *records], one, encoding, delimiter)
        rows, step = {1: 1}, -(-len(records) // 3)
        for number in range(3):
            at = slice(number * step, (number + 1) * step)
            path = folder / f"{number:02d}.csv"
            _, *own = write_csv([header, *records[at]], path, encoding, delimiter)
            pairs = zip(own, lines[at], strict=True)
            rows |= {number * FILE_ROWS + line: other for line, other in pairs}
        options: dict[str, Any] = {"delete_missing": seed % 3 == 0}
        reading = {"encoding": encoding} if encoding == "utf-16" else {}
        whole = store.plan(store.read(one, **reading), **options)
        now, sheet = store.read_with_snapshot(folder, executor=threads, **reading)
        plan = store.plan(sheet, snapshot=now, **options)
    names = [f"{number:02d}.csv" for number in range(3)]
    found, expected = (
        msgspec.json.decode(msgspec.json.encode(contents(each))) for each in (plan, whole)
    )
    assert renumbered(found, rows, names) == expected
    assert plan.changes


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_rows_of_an_unedited_export_agree(suffix: str, tmp_path: Path, threads: Executor) -> None:
    """No row of an export without edits is compared as a whole, which would need memory."""
    pets = catalogue(random.Random(1), 300)
    pets += [replace_name(ps.Pet(id=7_000_000 + n, status="sold"), f"=a{n}") for n in range(9)]
    folder = tmp_path / "pets"
    folder.mkdir()
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        exported = store.snapshot()
        if suffix == "jsonl":
            lines = [json.dumps(json_row(row)) for row in exported.frame.to_dict("records")]
            (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
        else:
            ps.write_sheet(exported, folder / f"a.{suffix}", base=False)
        now, sheet = store.read_with_snapshot(folder, executor=threads)
    assert sheet.agreeing == len(pets)
    assert now.left_out == len(pets)


@pytest.mark.parametrize("seed", range(times(4)))
def test_the_plan_of_json_lines_is_that_of_a_table(
    seed: int, tmp_path: Path, threads: Executor
) -> None:
    """JSON Lines, with any values and without the keys of missing ones, have the plan of a
    DataFrame with these values.
    """
    chance = random.Random(seed)
    pets = catalogue(chance, 300)
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        folder = tmp_path / "pets"
        folder.mkdir()
        exported = store.snapshot()
        if seed % 2 == 0:
            store.snapshot_to(folder / BASE_FOLDER, partitions=[1, 7][seed % 4 // 2])
        for pet in chance.sample(pets, 20):
            store.api.update_pet(replace_name(pet, f"{pet.name} of the store"))
        frame = edited(chance, exported.frame)
        rows = [row for row in map(json_row, frame.to_dict("records")) if row]
        for row in chance.sample(rows, 12):
            column = chance.choice(["name", "category", "tags", "id", "status", "mine"])
            row[column] = chance.choice([*STRANGE[:16], 5, 5.0, True, None])
        numbers: list[int] = []
        step = -(-len(rows) // 3)
        for number in range(3):
            path = folder / f"{number:02d}.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for line, row in enumerate(rows[number * step : (number + 1) * step], 1):
                    file.write("\n" * (line == 5) + json.dumps(row) + "\n")
                    numbers.append(number * FILE_ROWS + line + (line >= 5))
        keys = dict.fromkeys(key for row in rows for key in row)
        table = pd.DataFrame({key: [row.get(key) for row in rows] for key in keys}, dtype=object)
        files = [f"{number:02d}.jsonl" for number in range(3)]
        sheet = sheet_from_frame(table, numbers=np.array(numbers), files=files)
        base = exported.as_base() if seed % 2 == 0 else None
        sheet = replace(sheet, source=str(folder), base=base)
        options: dict[str, Any] = {"delete_missing": seed % 3 == 0}
        whole = store.plan(sheet, **options)
        plan = store.plan(folder, executor=threads, **options)
    assert contents(plan) == contents(whole)
    assert plan.changes


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row as an object without missing values."""
    values = {
        key: [getattr(each, "name", each) for each in value] if key == "tags" and value else value
        for key, value in row.items()
    }
    return {
        key: value for key, value in values.items() if isinstance(value, list) or pd.notna(value)
    }


@pytest.mark.parametrize(
    ("files", "options"),
    [
        # An id that a float may have rounded is not that of a pet.
        ([{"id": pa.array([2.0**53, 1.0]), "name": ["Big", "Rex"]}], {}),
        # Ids in different forms are the same id.
        ([{"id": ["1", "2"]}, {"id": [" 1", "3"]}], {"delete_missing": True}),
        ([{"id": ["1", "02", "3"]}, {"id": ["1.0", "2", None]}], {}),
        ([{"id": pa.array([1.0, 2.5])}, {"id": pa.array([1.0, 3.0])}], {}),
        # The neighbour of a new row is the nearest row that can be used.
        (
            [
                {
                    "id": [1, 2, None, None, 2, 3],
                    "name": ["Rex", "Tom", "New", "Newer", "Tim", "Ada"],
                    "status": ["available"] * 6,
                }
            ],
            {},
        ),
        # Texts that empty a field, or that a program wrote, are no values.
        ([{"id": [1, 4, 5], "name": ["Rex", "", "Odd"], "category": [None, None, "[]"]}], {}),
        ([{"id": pa.array([1, 2**63 + 1], pa.uint64()), "name": ["Rex", "New"]}], {}),
        ([{"id": [1, None], "name": [1, 2]}], {}),
        ([{"id": [5], "tags": pa.array([["\u00a0"]])}], {}),
    ],
)
def test_cells_in_any_form_are_compared_as_in_memory(
    files: list[dict[str, Any]], options: dict[str, Any], tmp_path: Path, threads: Executor
) -> None:
    """A row is left out only if a comparison in memory finds that it agrees."""
    pets = [ps.Pet(id=n, name=name, status="available") for n, name in enumerate(NAMES[:3], 1)]
    pets += [
        ps.Pet(id=4, name="", status="available"),
        ps.Pet(
            id=5,
            name="Odd",
            status="available",
            category=ps.Category(9, "[]"),
            tags=(ps.Tag(8, "\u00a0"),),
        ),
        ps.Pet(id=2**53, name="Big", status="available"),
    ]
    folder = tmp_path / "pets"
    folder.mkdir()
    tables = [pa.table(each) for each in files]
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    frame = pa.concat_tables(tables).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    sheet = replace(sheet_from_frame(frame, **numbered(folder)), source=str(folder))
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        plan = store.plan(folder, executor=threads, **options)
        whole = store.plan(sheet, **options)
    assert contents(plan) == contents(whole)
    assert plan.slots == whole.slots


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("name", ["Rex"]),
        ("name", {"a": 1}),
        ("name", b"Rex"),
        ("status", ["sold"]),
        ("action", [""]),
    ],
)
def test_a_cell_that_is_no_text_is_an_error(
    column: str, cell: Any, tmp_path: Path, threads: Executor
) -> None:
    """A list, a struct or bytes instead of a text is an error that names the column."""
    folder = tmp_path / "pets"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, None], column: [cell, cell]}), folder / "0.parquet")
    with (
        Sandbox(pets=[ps.Pet(id=1, name="Rex", status="sold")]) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
        pytest.raises(SheetError, match=f"column {column} has"),
    ):
        store.plan(folder, executor=threads)


@pytest.mark.parametrize("columns", ["status", ["category", "tags"], "photo_urls"])
def test_rows_in_parts_are_matched_by_name_only(
    columns: Any, tmp_path: Path, threads: Executor
) -> None:
    """A match must look at every pet: without the name, the pets of rows that agree would be
    missing, and the row would get another pet.
    """
    pets = [ps.Pet(id=n, name=name, status="sold") for n, name in enumerate(NAMES[:3], 1)]
    folder = tmp_path / "pets"
    folder.mkdir()
    rows = {"id": [1, 2, 3, None], "name": [*NAMES[:3], "New"], "status": ["sold"] * 4}
    pq.write_table(pa.table(rows), folder / "0.parquet")
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        with pytest.raises(PlanError, match="without the name"):
            store.plan(folder, executor=threads, match_on=columns)
        assert store.plan(folder, executor=threads, match_on="name").adds


def test_warnings_of_rows_that_agree_are_bounded(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strict plan sees the warnings of rows that agree; of very many, a plan lists the first
    ones, and the number of the others.
    """
    pets = [ps.Pet(id=n, name="ZoÃ«", status="sold") for n in range(1, 10)]
    folder = tmp_path / "pets"
    folder.mkdir()
    rows = {"id": [*range(1, 10)], "name": ["ZoÃ«"] * 9}
    pq.write_table(pa.table(rows), folder / "0.parquet")
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        store.snapshot_to(tmp_path / "now", partitions=1)
        with pytest.raises(FindingsError, match="encoding"):
            store.plan(folder, executor=threads, strict=True)
        monkeypatch.setattr(folders, "_MOST_WARNINGS", 4)
        plan = store.plan(folder, snapshot=tmp_path / "now", executor=threads)
    assert plan.summary().unchanged == 9
    (listed, counted) = plan.notes
    assert "row 4, name" in listed
    assert "row 5" not in listed
    assert counted == "Not listed: the warnings of 5 further rows in agreement with the store."


PLAIN = st.text(st.characters(categories=["L"]) | st.sampled_from("aé clr.,:;|&()[]'-/#=7"))


@given(PLAIN | st.sampled_from(ODD), st.text("ab/.-|,;&%:", max_size=9))
def test_a_value_that_is_not_odd_has_no_finding(text: str, path: str) -> None:
    """Values that need no validation have no finding, in any column."""
    values = {
        "id": 7,
        "name": text,
        "status": text,
        "category": text,
        "tags": [text],
        "photo_urls": [f"https://a.example/{path}"],
    }
    names = ["id", *values.keys() - {"id"}]
    table = pa.table({name: pa.array([values[name]], SCHEMA.field(name).type) for name in names})
    for name in names:
        if not reduce._are_odd(table, name)[0]:
            frame = pd.DataFrame({"id": [7], name: [values[name]]})
            assert sheet_from_frame(frame, known_statuses=[text]).problems == ()


SCHEMES = st.sampled_from(["https://", "http://", "https:/", "http:/", "HTTPS://", "ftp://", ""])


@given(st.lists(st.none() | st.tuples(SCHEMES, st.text("ab/.:é ", max_size=9)).map("".join)))
@example(["https://a.example/" + "a" * 238, "https://a.example/" + "a" * 237])
def test_a_quick_look_at_addresses_finds_every_odd_one(urls: list[str | None]) -> None:
    """The check of the bytes of many addresses finds what the check of each finds."""
    texts = pa.array(urls, pa.large_string())
    found = reduce._are_odd_cells(texts, "photo_urls")
    assert found.tolist() == reduce._are_odd_texts(texts, "photo_urls").tolist()


@pytest.mark.parametrize("seed", range(times(6)))
def test_a_part_is_read_as_it_was_written(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part has the same values and odd values with dictionaries as without them, and the same
    values beside any other part, whatever its groups of rows are.
    """
    chance = random.Random(seed)
    monkeypatch.setattr(parts, "_GROUP_ROWS", [1, 4, 100][seed % 3])
    pets = table_from_pets(catalogue(chance, 12, odd=0.3)).sort_by("id")
    others = {
        "empty": pets.slice(0, 0),
        "equal": pets,
        "shorter": pets.slice(0, 7),
        "later": pets.slice(1),
        "longer": pa.concat_tables([pets, pets.slice(0, 3)]),
    }
    for at, kind in enumerate(SCHEMA):
        is_other = pa.array(np.arange(len(pets)) == 5)
        changed = pc.if_else(is_other, pa.scalar(None, kind.type), pets[kind.name])
        others[kind.name] = pets.set_column(at, kind, changed)
    unknown = pc.if_else(pc.equal(pets["status"], "sold"), "lost", pets["status"])
    others["status unknown"] = pets.set_column(2, SCHEMA.field("status"), unknown)

    def write(name: str, table: pa.Table) -> parts.PartReader:
        path = tmp_path / name
        return parts.PartReader(path, parts.write_part(path, table).sha256)

    store = write("store", pets)
    for name, other in others.items():
        part = write(name, other)
        assert part.read_beside(store, pets).equals(other), name
        assert store.read_beside(part, other).equals(pets), name
        encoded = part.read_encoded()
        assert encoded.cast(SCHEMA).equals(other), name
        for column in ("id", "name", "status", "category", "tags", "photo_urls"):
            odd, expected = (reduce._are_odd(each, column) for each in (encoded, other))
            assert odd.tolist() == expected.tolist(), (name, column)
    code = pa.dictionary(pa.int8(), pa.string())
    foreign = {"id": pa.int32(), "status": code, "category": pa.string(), "tags": pa.list_(code)}
    kinds = [field.with_type(foreign.get(field.name, field.type)) for field in SCHEMA]
    for table in (pets.cast(pa.schema(kinds)), pets.set_column(2, "status", pets["id"])):
        part = write("foreign", table)
        assert part.read_encoded().cast(SCHEMA).equals(table.cast(SCHEMA))
        assert part.read_beside(store, pets).equals(table.cast(SCHEMA))


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
        "notes": plan.notes,
    }


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize("seed", range(times(4)))
def test_the_number_of_parts_changes_nothing(
    seed: int, tmp_path: Path, threads: Executor, processes: Executor
) -> None:
    """A plan has the same fingerprint for any number of parts, on threads and on processes, and the
    changes of the plan in memory; also if the files of the export were edited in place, which are
    not split.
    """
    chance = random.Random(100 + seed)
    pets = catalogue(chance, 200)
    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        exported = store.snapshot()
        frame = edited(chance, exported.frame)
        plans = []
        for parts in (1, 2, 7, 16):
            folder = tmp_path / str(parts)
            store.export_to(folder, partitions=parts)
            for path in folder.glob("*.parquet"):
                path.unlink()
            own = part_of(frame["id"].fillna(0).to_numpy(np.int64), 7)
            for number in range(7):
                write_parts(frame[own == number], folder, 1)
                (folder / "00.parquet").rename(folder / f"part-{number}.parquet")
            executor = processes if parts in (2, 16) else threads
            plans.append(store.plan(folder, executor=executor, delete_missing=seed % 2 == 0))
        sheet = sheet_from_frame(read_parts(folder), **numbered(folder))
        whole = store.plan(replace(sheet, base=exported.as_base()), delete_missing=seed % 2 == 0)
    files = {
        msgspec.structs.replace(each, created="", source="", base="").fingerprint for each in plans
    }
    assert len(files) == 1
    assert plans[0].changes
    assert plans[0].namesakes == whole.namesakes
    if plans[0].shifted == whole.shifted:
        assert contents(plans[0]) == contents(whole)
    else:  # A column with few different values: see the limits in docs/scale.md.
        assert {*plans[0].shifted} < {*whole.shifted}
        assert plans[0].changes == whole.changes
        assert plans[0].conflicts == whole.conflicts


def is_worker(process: psutil.Process) -> bool:
    """Whether the process computes parts. This process has others: Python's resource tracker, and
    the one from which the tests fork commands.
    """
    with suppress(psutil.Error):
        return "spawn_main" in " ".join(process.cmdline())
    return False


def test_a_killed_worker_changes_no_plan(tmp_path: Path) -> None:
    """The plan is the same if a worker is killed in the middle, and only this process sends."""
    chance = random.Random(8)
    pets = catalogue(chance, 2000)
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        """Kill two workers, one after the other, soon after they start."""
        while len(killed) < 2 and not ended.wait(0.02):
            workers = [each for each in psutil.Process().children() if is_worker(each)]
            for each in workers[-1:]:
                ended.wait(chance.random() / 2)
                with suppress(psutil.NoSuchProcess):
                    each.kill()
                    killed.append(each.pid)

    with (
        Sandbox(pets=pets) as box,
        ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path / "state") as store,
    ):
        folder = tmp_path / "pets"
        store.export_to(folder, partitions=16)
        write_parts(edited(chance, store.snapshot().frame), folder, 3)
        for path in folder.glob("part-*.parquet"):
            path.unlink()
        calm = store.plan(folder)
        before = box.requests
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            plan = store.plan(folder)
        finally:
            ended.set()
            thread.join()
        sent = box.requests - before
    assert killed
    assert contents(plan) == contents(calm)
    assert plan.changes
    assert sent.keys() <= {"findPetsByStatus", "getPetById"}
    assert sent["findPetsByStatus"] == 1
