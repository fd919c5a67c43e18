"""Loading a findPetsByStatus response, compared with the fastest ways without petsync.

    python benchmarks/load.py [PETS ...]        (default: 100000 and 1000000)

The same bytes become petsync's Arrow table, petsync's DataFrame, the objects of `orjson.loads` with
the collector off, and an Arrow table by DuckDB's `read_json`, which finds the schema itself, uses
all processors and reads the file during the measured time. The same pets as XML become petsync's
Arrow table too.

Each run has a process of its own. Times are the least of five runs, because page faults make them
vary; the least of orjson is F, the floor, which benchmarks/end_to_end.py uses too. Peak memory is
the least of the same runs, above the process's memory before it reads the bytes, so it includes
them.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import orjson

from petsync.protocol.json import decode_pet
from petsync.protocol.xml import encode_pet
from petsync.table.decode import frame_from_json, table_from_json, table_from_xml

ARROW, FRAME, FLOOR = "petsync (Arrow table)", "petsync (DataFrame)", "orjson.loads, gc off"
DUCKDB = "DuckDB read_json -> Arrow"
XML = "petsync (Arrow table), XML"
TIME, TABLES = 1.0, 1.3
"""Goals of petsync's Arrow table: its time / F, and (its peak memory - the bytes) / the table."""
XML_TIME = 8.0
"""The goal of the table from XML: its time / that from JSON."""
RUNS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the processor, peak memory, and the size of an Arrow table."""

    seconds: float
    processor: float
    peak: int
    table: int


def main(sizes: list[int]) -> None:
    """Print a table for each size, and whether the goals are met."""
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
        for pets in sizes:
            path = Path(folder) / f"{pets}.json"
            path.write_bytes(answer(pets))
            as_xml = path.with_suffix(".xml")
            as_xml.write_bytes(xml_answer(pets))
            costs = {name: measure(name, as_xml if name == XML else path) for name in LOADS}
            show(pets, path.stat().st_size, as_xml.stat().st_size, costs)
            path.unlink()
            as_xml.unlink()


def answer(pets: int) -> bytes:
    """Return the service's response with `pets` pets, as the sandbox writes it."""
    return orjson.dumps([_pet(number) for number in range(1, pets + 1)])


def xml_answer(pets: int) -> bytes:
    """Return the same response as XML."""
    documents = (encode_pet(decode_pet(orjson.dumps(_pet(n)))) for n in range(1, pets + 1))
    return b"<Pets>%b</Pets>" % b"".join(each.partition(b"\n")[2] for each in documents)


def measure(name: str, path: Path) -> Cost:
    """Return the least costs of a contender, each run in a new process."""
    command = [sys.executable, __file__, "--run", name, str(path)]
    runs = [
        Cost(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        for _ in range(RUNS)
    ]
    return Cost(*(min(getattr(run, part) for run in runs) for part in asdict(runs[0])))


def run_once(name: str, path: Path) -> Cost:
    """Return the cost of loading the file in this process."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    source = path if name == DUCKDB else path.read_bytes()
    begun, used = time.perf_counter(), time.process_time()
    result = LOADS[name](source)
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    peak = 1024 * (status("VmHWM") - before)
    return Cost(seconds, processor, peak, result.nbytes if name in TABULAR else 0)


def status(field: str) -> int:
    """Return a field of this process's status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def show(pets: int, size: int, xml_size: int, costs: dict[str, Cost]) -> None:
    """Print the table of one size, with each contender's ratio to F, and the goals."""
    floor, ours, from_xml = costs[FLOOR], costs[ARROW], costs[XML]
    sizes = f"{size / 2**20:,.0f} MiB of JSON, {xml_size / 2**20:,.0f} MiB of XML"
    print(f"\n{pets:,} pets, {sizes}, least of {RUNS} processes")
    print(f"{'':28}{'seconds':>9}{'/ F':>7}{'processor':>11}{'/ F':>7}{'peak MiB':>10}{'table':>8}")
    for name, cost in costs.items():
        print(
            f"{name:28}{cost.seconds:9.3f}{cost.seconds / floor.seconds:7.2f}"
            f"{cost.processor:11.3f}{cost.processor / floor.processor:7.2f}"
            f"{cost.peak / 2**20:10,.0f}{f'{cost.table / 2**20:,.0f}' if cost.table else '':>8}"
        )
    _met(f"{ARROW} in at most {TIME:g} F", ours.seconds / floor.seconds, TIME)
    beyond = (ours.peak - size) / ours.table
    _met(f"its peak at most the bytes and {TABLES:g} tables", beyond, TABLES)
    _met(f"XML in at most {XML_TIME:g} times JSON", from_xml.seconds / ours.seconds, XML_TIME)


def _met(goal: str, value: float, most: float) -> None:
    print(f"  {'met    ' if value <= most else 'NOT MET'}  {goal}: {value:.2f}")


def _load_without_collector(body: bytes) -> object:
    gc.disable()
    return orjson.loads(body)


def _load_by_duckdb(path: Path) -> object:
    return duckdb.read_json(str(path)).to_arrow_table()


LOADS: dict[str, Callable[[Any], Any]] = {
    ARROW: table_from_json,
    FRAME: frame_from_json,
    FLOOR: _load_without_collector,
    DUCKDB: _load_by_duckdb,
    XML: table_from_xml,
}
"""Each contender; it gets the bytes, or DuckDB their file."""
TABULAR = (ARROW, DUCKDB, XML)


def _pet(number: int) -> dict[str, object]:
    tags = [{"id": n, "name": f"tag {n}"} for n in sorted({number % 37, number % 11})]
    return {
        "id": number,
        "category": {"id": number % 14, "name": f"Category {number % 14}"},
        "name": f"Zoë {number}",
        "photoUrls": [
            f"https://images.petshop.example/{number}/{n}.jpg" for n in range(number % 3)
        ],
        "tags": tags,
        "status": ("available", "pending", "sold")[number % 3],
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(json.dumps(asdict(run_once(sys.argv[2], Path(sys.argv[3])))))
    else:
        main([int(argument) for argument in sys.argv[1:]] or [100_000, 1_000_000])
