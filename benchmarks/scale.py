"""A plan of two sides in Parquet files, beside the time to read both once.

    python benchmarks/scale.py [PETS[:ROWS] …]    (default: 1000000 10000000 50000000:10000000)

The store's side and the export are folders of `snapshot_to`; one of 128 rows is edited, and one
pet of each part has changed in the store since the export. With ROWS, the export has only the
first ROWS pets. The plan needs no request. `--run` makes one plan in a process of its own, and
prints what it needed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import petsync as ps
from petsync.plan.change import Coverage
from petsync.scale.parts import BASE_FOLDER, MANIFEST, Manifest, Part, PartWriter, write_part
from petsync.table.arrow import SCHEMA

URL = "http://127.0.0.1:9/v2"
PARTS, PART_ROWS = 64, 156_250
"""The number of parts, and from which number of pets in each there are more."""
CHUNK = 250_000
READS, PEAK_MIB, SPEED_UP = 3.0, 1536.0, 1.7
"""The goals: the time beside that of reading both sides, the memory of each process, and the speed
of two workers beside that of one.
"""


def main(sizes: list[str]) -> None:
    """Print the figures of each size."""
    for size in sizes:
        pets, _, rows = size.partition(":")
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            build(Path(folder), int(pets), int(rows or pets))
            show(Path(folder), int(pets), int(rows or pets))


def build(folder: Path, pets: int, rows: int) -> None:
    """Write the snapshot `store`, and the edited export `sheet`."""
    (folder / "store").mkdir()
    writer = PartWriter(folder / "rows", max(PARTS, pets // PART_ROWS))
    for start in range(1, pets + 1, CHUNK):
        writer.write(make_pets(start, min(start + CHUNK, pets + 1)))
    writer.close()
    base = folder / "sheet" / BASE_FOLDER
    base.mkdir(parents=True)
    parts, changed = [], []
    for n in range(len(writer.files)):
        table = writer.read(n).sort_by("id")
        exported = table.filter(pc.less_equal(table["id"], rows))
        parts.append(write_part(base / f"part-{n:05d}.parquet", exported))
        statuses = pa.array(["withdrawn", *table["status"][1:].to_pylist()], pa.large_string())
        changed.append(
            write_part(folder / "store" / parts[n].file, table.set_column(2, "status", statuses))
        )
    shutil.rmtree(folder / "rows")
    _write_manifest(base, rows, parts)
    _write_manifest(folder / "store", pets, changed)
    for part in parts:
        table = pq.read_table(base / part.file)
        is_edited = pc.equal(pc.bit_wise_and(table["id"], 127), 1)
        names = table["name"].cast(pa.string())
        other = pc.binary_join_element_wise(names, "II", " ")
        names = pc.if_else(is_edited, other, names).cast(pa.large_string())
        table = table.set_column(1, "name", names)
        pq.write_table(table, folder / "sheet" / part.file, compression="zstd")


def _write_manifest(folder: Path, pets: int, parts: Sequence[Part]) -> None:
    manifest = Manifest(
        store=URL,
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        coverage=Coverage(("available", "pending", "sold")),
        pets=pets,
        parts=tuple(parts),
    )
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))


def make_pets(start: int, end: int) -> pa.Table:
    """Return pets with these ids."""
    ids = np.arange(start, end)
    kinds = pa.array(ids % 14)
    names = pc.binary_join_element_wise("Zoë", pa.array(ids).cast(pa.string()), " ")
    tags = np.stack([ids % 37, 37 + ids % 11], axis=1).ravel()
    ends = pa.array(np.arange(0, 2 * len(ids) + 1, 2))
    urls = pc.binary_join_element_wise(
        "https://images.petshop.example", pa.array(ids).cast(pa.string()), "1.jpg", "/"
    )
    columns = {
        "id": ids,
        "name": names,
        "status": pa.array(["available", "pending", "sold"]).take(pa.array(ids % 3)),
        "category": pc.binary_join_element_wise("Category", kinds.cast(pa.string()), " "),
        "category_id": kinds,
        "tags": pa.LargeListArray.from_arrays(
            ends, pc.binary_join_element_wise("tag", pa.array(tags).cast(pa.string()), " ")
        ),
        "tag_ids": pa.LargeListArray.from_arrays(ends, pa.array(tags)),
        "photo_urls": pa.LargeListArray.from_arrays(pa.array(np.arange(len(ids) + 1)), urls),
        "extra": pa.nulls(len(ids), pa.large_string()),
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def show(folder: Path, pets: int, rows: int) -> None:
    """Print the figures of one size."""
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 2**20
    counts = f"{pets:,} pets and rows" if pets == rows else f"{pets:,} pets, {rows:,} rows"
    print(f"\n{counts}, {size:,.0f} MiB of Parquet in three folders")
    start = time.perf_counter()
    for side in ("store", "sheet"):
        for path in sorted((folder / side).glob("*.parquet")):
            pq.read_table(path, use_threads=False)
    reading = time.perf_counter() - start
    print(f"reading both sides once, one thread  {reading:8.2f} s")
    seconds = {}
    for workers in (1, 2):
        command = [sys.executable, __file__, "--run", str(folder), str(workers)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        run = json.loads(done.stdout)
        seconds[workers] = run["seconds"]
        print(
            f"plan, {workers} worker(s)                    {run['seconds']:8.2f} s, "
            f"{run['main']:,.0f} MiB, each worker at most {run['worker']:,.0f} MiB, "
            f"{run['updates']:,} updates"
        )
    _met(f"at most {READS:g} x reading", seconds[2] / reading, READS)
    _met(
        f"peak of the largest process below {PEAK_MIB:,.0f} MiB",
        max(run["main"], run["worker"]),
        PEAK_MIB,
    )
    print(f"  two workers beside one: {seconds[1] / seconds[2]:.2f} (goal {SPEED_UP:g})")


def _met(goal: str, value: float, most: float) -> None:
    print(f"  {'met    ' if value <= most else 'NOT MET'}  {goal}: {value:.2f}")


def run_once(folder: Path, workers: int) -> dict[str, float]:
    """Return what a plan needs."""
    with (
        ps.connect(URL, state=folder / f"state{workers}") as store,
        ProcessPoolExecutor(workers, get_context("spawn")) as executor,
    ):
        list(executor.map(abs, range(workers)))
        start = time.perf_counter()
        plan = store.plan(folder / "sheet", snapshot=folder / "store", executor=executor)
        seconds = time.perf_counter() - start
    peak = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    main_peak, worker_peak = peak
    return {
        "seconds": seconds,
        "main": main_peak,
        "worker": worker_peak,
        "updates": len(plan.updates),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(json.dumps(run_once(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        main(sys.argv[1:] or ["1000000", "10000000", "50000000:10000000"])
