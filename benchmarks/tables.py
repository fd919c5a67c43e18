"""The tables that benchmarks/diff.py compares, and its contenders.

Each contender is a function from `Inputs` to a `Work`: it converts the two tables into the form
that it needs, compares them, and counts its result.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from sys import getsizeof
from typing import Any

import csv_diff
import msgspec
import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from load import answer

from petsync._collector import pause_collection
from petsync.plan.change import Coverage, Snapshot
from petsync.plan.compare import compare, find_unproved_ids
from petsync.plan.decide import SheetComparison
from petsync.plan.fields import COLUMNS_OF
from petsync.plan.match import Alignment, Row
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan
from petsync.profile import STANDARD
from petsync.table.arrow import PetTable, rows_from_table
from petsync.table.base import Base
from petsync.table.decode import frame_from_json, table_from_json
from petsync.table.sheet import Sheet

Found = tuple[int, ...]
"""The numbers of adds, updates and deletes, and of changed cells in the updates."""
Pair = tuple[pd.DataFrame, pd.DataFrame]

URL = "https://petstore.example/v2"
EXPORTED, COMPARED = "2026-11-19T00:00:00+00:00", "2026-11-20T00:00:00+00:00"
LISTS = ("tags", "photo_urls")


@dataclass(frozen=True)
class Inputs:
    """The service's responses at the export and `later`, after changes to some pets, and the
    sheet's pets in the same form.
    """

    exported: bytes
    later: bytes
    sheet: bytes

    def store_frame(self) -> pd.DataFrame:
        """Return the store's table at the export, newly decoded."""
        return frame_from_json(self.exported)

    def sheet_frame(self) -> pd.DataFrame:
        """Return the sheet's table, newly decoded, as a reader of sheets makes it."""
        return self._as_sheet(frame_from_json(self.sheet))

    def sheet_rows(self) -> pd.DataFrame:
        """Return the same table with Arrow lists, as petsync compares it."""
        return self._as_sheet(rows_from_table(table_from_json(self.sheet)))

    def _as_sheet(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame["action"] = pd.array(["merge"] * len(frame), dtype="str")
        frame.index = pd.Index(np.arange(2, 2 + len(frame)), name="row")
        return frame

    def arrow(self) -> tuple[pa.Table, pa.Table]:
        """Return both tables in Arrow, with the names and ids of the tags in two columns."""
        return table_from_json(self.exported), table_from_json(self.sheet)

    def plain(self) -> Pair:
        """Return both tables in the form that other tools than petsync need."""
        store, sheet = self.store_frame(), self.sheet_frame().drop(columns="action")
        numbers = {"id": "int64", "category_id": "int64"}
        return store.astype(numbers), sheet.reset_index(drop=True).astype(numbers)


@dataclass(frozen=True)
class Work:
    """One contender's steps: `convert` the tables, `compare` the result, and `count`."""

    compare: Callable[[Any], Any]
    count: Callable[[Any], Found]
    convert: Callable[[], Any] = lambda: None


def build_inputs(pets: int, *, shuffled: bool) -> Inputs:
    """Return the inputs for `pets` pets, with random edits from a fixed seed."""
    chance = random.Random(20_261_121)
    stored = orjson.loads(answer(pets + pets // 200))
    stored, new = stored[:pets], stored[pets:]
    some, part = chance.sample(range(pets), pets // 50), pets // 200
    later, rows = list(stored), list(stored)
    for at in some[:part]:
        later[at] = stored[at] | {"name": f"{stored[at]['name']} of kennel {at % 40}"}
    for turn, at in enumerate(some[2 * part :]):
        rows[at] = stored[at] | EDITS[turn % len(EDITS)](stored[at])
    for at in sorted(some[part : 2 * part], reverse=True):
        del rows[at]
    rows += new
    if shuffled:
        chance.shuffle(rows)
    return Inputs(orjson.dumps(stored), orjson.dumps(later), orjson.dumps(rows))


EDITS: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] = (
    lambda pet: {"name": f"{pet['name']} the second"},
    lambda pet: {"status": "sold" if pet["status"] == "available" else "available"},
    lambda _: {"category": {"id": 14, "name": "Category 14"}},
    lambda pet: {"tags": [*pet["tags"][1:], {"id": 90, "name": "award winner"}]},
    lambda pet: {"photoUrls": [*pet["photoUrls"], "https://images.petshop.example/new.jpg"]},
)
"""The edits of the sheet's pets, in turn."""


def table_bytes(frame: pd.DataFrame) -> int:
    """Return the bytes of a table with all that it alone holds: its columns, their lists, and the
    items of these, each object once; without None and small integers, which Python shares.
    """
    lists = [each for name in LISTS for each in frame[name]]
    photos = [photo for each in frame["photo_urls"] for photo in each]
    tags = {id(tag): tag for each in frame["tags"] for tag in each}.values()
    parts = [part for tag in tags for part in (tag.id, tag.name) if not _is_common(part)]
    columns = int(frame.memory_usage(index=False, deep=False).sum())
    return columns + sum(sum(map(getsizeof, held)) for held in (lists, tags, parts, photos))


def _is_common(part: object) -> bool:
    return part is None or (isinstance(part, int) and -5 <= part <= 256)


def _sides(inputs: Inputs, *, is_three_way: bool) -> tuple[Sheet, Snapshot]:
    """Return the sheet, with its base for a three-way comparison, and the snapshot."""
    base = (
        Base(pets=PetTable(table_from_json(inputs.exported)), store=URL, taken_at=EXPORTED)
        if is_three_way
        else None
    )
    frame = inputs.sheet_rows()
    sheet = Sheet(
        source="pets.xlsx",
        tab="Pets",
        content=PetTable(frame=frame),
        others=pd.DataFrame(index=frame.index),
        columns=dict(zip(frame.columns, "ABCDEFGH", strict=True)),
        base=base,
    )
    snapshot = Snapshot(
        pets=PetTable(table_from_json(inputs.later if is_three_way else inputs.exported)),
        coverage=Coverage(STANDARD.statuses),
        source=URL,
        taken_at=datetime.fromisoformat(COMPARED).astimezone(UTC),
    )
    return sheet, snapshot


def petsync(inputs: Inputs, *, is_three_way: bool = False) -> Work:
    """Return petsync's way from the tables to a Plan; getPetById answers 404 for any pet."""
    sheet, snapshot = _sides(inputs, is_three_way=is_three_way)
    options = PlanOptions(delete_missing=True)

    def plan(_: object) -> Plan:
        found = dict.fromkeys(find_unproved_ids(sheet.rows, snapshot.rows))
        compared = SheetComparison(snapshot, sheet, found)
        return compare(compared, created=COMPARED, options=options).plan

    return Work(plan, _of_plan)


def petsync_cells(inputs: Inputs, *, is_three_way: bool = False) -> Work:
    """Return petsync's way from the tables to the cells that differ, without a plan of them."""
    sheet, snapshot = _sides(inputs, is_three_way=is_three_way)

    def compared(_: object) -> tuple[Alignment, list[Row]]:
        aligned = Alignment(sheet, snapshot.rows, sheet.base)
        return aligned, [*aligned.rows()]

    def count(result: tuple[Alignment, list[Row]]) -> Found:
        aligned, rows = result
        updates = [row for row in rows if row.place >= 0]
        cells = sum(len(COLUMNS_OF[unit]) for row in updates for unit in row.units)
        deletes = int((~aligned.named).sum())
        return len(rows) - len(updates), len(updates), deletes, cells

    return Work(compared, count)


def _of_plan(plan: Plan) -> Found:
    plan.require_ok()
    cells = sum(len(update.fields) for update in plan.updates)
    return len(plan.adds), len(plan.updates), len(plan.deletes), cells


def copy(inputs: Inputs, *, in_depth: bool = False) -> Work:
    """Return the copy of both tables, as a reference."""
    store, sheet = inputs.store_frame(), inputs.sheet_frame()
    copied = _in_depth if in_depth else pd.DataFrame.copy
    return Work(lambda _: (copied(store), copied(sheet)), lambda _: ())


def _in_depth(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy with its own texts and lists: pandas shares Arrow's texts and never copies the
    items of an object column.
    """
    copied = frame.copy()
    with pause_collection():
        for name in LISTS:
            for at, each in enumerate(lists := copied[name].to_numpy(copy=True)):
                lists[at] = each.copy()
            copied[name] = lists
    memory = pa.default_cpu_memory_manager()
    for name in frame.select_dtypes("str"):
        chunks = pa.chunked_array(pa.array(frame[name])).chunks
        copied[name] = pd.array(
            pa.chunked_array([chunk.copy_to(memory) for chunk in chunks]), dtype="str"
        )
    return copied


def by_datacompy(inputs: Inputs) -> Work:
    """Return datacompy's pandas engine; it is many times slower on lists than on their texts."""
    # It needs an older pandas than petsync's, so only its own process can import it.
    import datacompy

    store, sheet = inputs.plain()

    def compared(texts: Pair) -> tuple[datacompy.PandasCompare, pd.DataFrame]:
        result = datacompy.PandasCompare(*texts, join_columns="id")
        return result, result.all_mismatch()

    def count(result: tuple[datacompy.PandasCompare, pd.DataFrame]) -> Found:
        whole, updates = result
        cells = sum(int(each["unequal_cnt"]) for each in whole.column_stats)
        return len(whole.df2_unq_rows), len(updates), len(whole.df1_unq_rows), cells

    return Work(compared, count, lambda: (_with_texts(store), _with_texts(sheet)))


def by_merge(inputs: Inputs, *, with_texts: bool = False) -> Work:
    """Return an outer merge that compares each pair of columns into a table of changed cells."""
    store, sheet = inputs.plain()

    def compared(pair: Pair) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        suffixes = "_store", "_sheet"
        joined = pair[0].merge(pair[1], on="id", how="outer", suffixes=suffixes, indicator=True)
        both = joined[joined["_merge"] == "both"]
        cells = []
        for column in pair[0].columns.drop("id"):
            before, after = both[f"{column}_store"], both[f"{column}_sheet"]
            differs = before.ne(after) & ~(before.isna() & after.isna())
            values = {"before": before[differs], "after": after[differs]}
            cells.append(pd.DataFrame({"id": both["id"][differs], "column": column, **values}))
        adds, deletes = (joined[joined["_merge"] == side] for side in ("right_only", "left_only"))
        return adds, deletes, pd.concat(cells)

    def count(result: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]) -> Found:
        adds, deletes, cells = result
        return len(adds), cells["id"].nunique(), len(deletes), len(cells)

    if not with_texts:
        return Work(compared, count, lambda: (store, sheet))
    return Work(compared, count, lambda: (_with_texts(store), _with_texts(sheet)))


def by_polars(inputs: Inputs) -> Work:
    """Return a full join of polars that compares each pair of columns, lists as lists."""
    import polars as pl

    store, sheet = (pl.from_arrow(table) for table in inputs.arrow())
    names = [name for name in store.columns if name not in ("id", "tag_ids", "extra")]

    def differs(name: str) -> pl.Expr:
        test = pl.col(name).ne_missing(pl.col(f"{name}_sheet"))
        return test | differs("tag_ids") if name == "tags" else test

    def compared(_: object) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
        joined = store.join(sheet, on="id", how="full", suffix="_sheet")
        both = joined.filter(pl.col("id").is_not_null() & pl.col("id_sheet").is_not_null())
        cells = [both.filter(differs(each)).select("id", each, f"{each}_sheet") for each in names]
        adds = joined.filter(pl.col("id").is_null())
        return adds, joined.filter(pl.col("id_sheet").is_null()), cells

    def count(result: tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]) -> Found:
        adds, deletes, cells = result
        updates = pl.concat([each["id"] for each in cells]).n_unique()
        return len(adds), updates, len(deletes), sum(map(len, cells))

    return Work(compared, count)


def by_duckdb(inputs: Inputs) -> Work:
    """Return a full join of DuckDB that keeps the rows with a difference, lists as lists."""
    import duckdb

    store, sheet = inputs.arrow()
    names = [name for name in store.column_names if name not in ("id", "tag_ids", "extra")]
    tests = {name: f"store.{name} IS DISTINCT FROM sheet.{name}" for name in names}
    tests["tags"] += " OR store.tag_ids IS DISTINCT FROM sheet.tag_ids"
    marks = ", ".join(f"({test}) AS {name}_differs" for name, test in tests.items())
    sides = ("store", "sheet")
    values = ", ".join(
        f"{side}.{name} AS {name}_{side}" for name in ("id", *names) for side in sides
    )
    where = " OR ".join(tests.values())
    query = (
        f"SELECT {values}, {marks} FROM store FULL JOIN sheet ON store.id = sheet.id "
        f"WHERE store.id IS NULL OR sheet.id IS NULL OR {where}"
    )
    connection = duckdb.connect()
    connection.register("store", store).register("sheet", sheet)

    def compared(_: object) -> pa.Table:
        return connection.sql(query).to_arrow_table()

    def count(result: pa.Table) -> Found:
        frame = result.to_pandas()
        adds, deletes = frame["id_store"].isna(), frame["id_sheet"].isna()
        marked = frame[~adds & ~deletes].filter(like="_differs")
        return int(adds.sum()), len(marked), int(deletes.sum()), int(marked.to_numpy().sum())

    return Work(compared, count)


def by_csv_diff(inputs: Inputs) -> Work:
    """Return csv-diff, which reads the texts of two CSV files into dicts of rows by id."""
    texts = [_with_texts(frame).to_csv(index=False) for frame in inputs.plain()]

    def read() -> list[dict[str, dict[str, str]]]:
        files = (io.StringIO(text, newline="") for text in texts)
        return [csv_diff.load_csv(file, key="id", dialect="excel") for file in files]

    def count(result: Mapping[str, Any]) -> Found:
        cells = sum(len(each["changes"]) for each in result["changed"])
        return len(result["added"]), len(result["changed"]), len(result["removed"]), cells

    return Work(lambda dicts: csv_diff.compare(*dicts), count, read)


def _with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its lists as JSON by msgspec, the fastest encoder."""
    # A tag's name is a text with an id.
    encode = msgspec.json.Encoder(enc_hook=str).encode
    return frame.assign(
        **{
            name: pd.array([encode(each).decode() for each in frame[name]], dtype="str")
            for name in LISTS
        }
    )
