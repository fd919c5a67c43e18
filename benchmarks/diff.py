"""From two tables in memory to their changes: petsync compared with other table comparisons.

    python benchmarks/diff.py [PETS ...] [--rounds N] [--shuffled]    (default: 10k, 100k and 1M)

The store is a response of findPetsByStatus as a DataFrame, with real lists of tags and photo URLs.
The sheet is decoded separately, so it shares with the store only what petsync's tables always
share: equal tags. It is edited as users would: 1 % of the pets changed (name, status, category,
tags or photos, in turn), 0.5 % removed, and 0.5 % added at the end, with ids that the store does
not have. In the three-way comparison the sheet has its base, and the store has changed 0.5 % other
pets since the export.

petsync makes the whole Plan from these tables. The others only find the different rows and cells in
the same tables, as petsync's contenders `cells` do, which are the comparison without the decisions
on the rows. Contenders that cannot read the tables get what they can: lists become texts for
datacompy, and csv-diff reads the texts of two CSV files by its own loader (writing them is not
counted). Of each time, `compare` is the part after this conversion.

Each contender has its own process, which holds only its own tables; in a round each runs once.
datacompy needs an older pandas than the constraints file has: the first run installs both into
`build/`, for the process of datacompy alone. If that fails, it is left out, with the reason.
Times are medians, together with CPU times, which other load on the machine affects less. Memory is
the peak above the tables: `resident` as the system counts it, in a forked child; for petsync also
`traced`, as Python's and Arrow's allocators count it in another child, since a process may reuse
memory that it already has. The larger of both counts.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tables
from load import status
from tables import Found, Inputs, Work

FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
TWO_WAY, THREE_WAY, COPY = "petsync, two-way", "petsync, three-way", "copy of both tables"
CELLS, THREE_CELLS = f"{TWO_WAY}, cells", f"{THREE_WAY}, cells"
POLARS, DUCKDB = "polars, join", "DuckDB, join"
DATACOMPY, MERGE, CSV_DIFF = "datacompy, pandas engine", "pandas merge + compare", "csv-diff"
CONTENDERS: dict[str, Callable[[Inputs], Work]] = {
    TWO_WAY: tables.petsync,
    THREE_WAY: partial(tables.petsync, is_three_way=True),
    CELLS: tables.petsync_cells,
    THREE_CELLS: partial(tables.petsync_cells, is_three_way=True),
    COPY: tables.copy,
    "copy, lists and texts too": partial(tables.copy, in_depth=True),
    DATACOMPY: tables.by_datacompy,
    MERGE: tables.by_merge,
    "pandas, lists as texts": partial(tables.by_merge, with_texts=True),
    POLARS: tables.by_polars,
    DUCKDB: tables.by_duckdb,
    CSV_DIFF: tables.by_csv_diff,
}
DATACOMPY_PACKAGE = "datacompy==1.1.0"
TRACED = (TWO_WAY, THREE_WAY, COPY)
"""Contenders whose memory is traced; the others would take minutes."""
THREADED = (POLARS, DUCKDB)
"""Contenders whose threads do not survive a fork; their own process measures their memory."""
GOALS = {DATACOMPY: 1 / 5, MERGE: 1 / 5, CSV_DIFF: 1 / 15, COPY: 4.0}
"""Limits: the two-way plan's time divided by that of each contender, at the largest size."""
THREE_TO_TWO, TABLES, GROWTH = 2.0, 1.0, 1.1
"""Limits: three-way time / two-way time; memory / one table; and the exponent of growth."""


@dataclass(frozen=True)
class Times:
    """Seconds of one run: clock time, CPU time, and clock time of the comparison only."""

    whole: float
    processor: float
    compare: float


@dataclass(frozen=True)
class Cost:
    """One contender's median times, its memory in MiB above the tables, and what it found."""

    times: Times
    resident: float
    traced: float
    found: Found

    @property
    def peak(self) -> float:
        """Return the larger of both memory counts."""
        return max(self.resident, self.traced)


Costs = Mapping[str, Cost]


def main() -> None:
    """Compare at each size; print how each contender grows, and which goals are met."""
    options = _options()
    sizes = sorted(set(options.pets))
    packages = install_datacompy()
    if packages is None:
        del CONTENDERS[DATACOMPY]
    costs = {}
    for pets in sizes:
        costs[pets], table = at(pets, options.rounds, packages, shuffled=options.shuffled)
    met = [*goals(sizes[-1], costs[sizes[-1]], table), *growth(costs)]
    print("\nall goals met: " + ("yes" if all(met) else "NO"))


def install_datacompy() -> Path | None:
    """Return the folder with datacompy and its own pandas, and install it if it is missing; print
    why, and return None, if that fails.
    """
    folder = Path(__file__).parents[1] / "build" / f"{DATACOMPY_PACKAGE}-{sys.version_info.minor}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}-{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(unfinished)]
    try:
        subprocess.run([*pip, DATACOMPY_PACKAGE], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        print(f"left out: {DATACOMPY}: {error.stderr.strip().splitlines()[-1]}")
        return None
    unfinished.rename(folder)
    return folder


def at(
    pets: int, rounds: int | None, datacompy: Path | None, *, shuffled: bool
) -> tuple[Costs, float]:
    """Print and return each contender's cost for `pets` pets; also return the MiB of one table."""
    with ProcessPoolExecutor(1, mp_context=FORK) as apart:
        # In another process, so that no contender's memory includes the leftovers of this step.
        inputs = apart.submit(tables.build_inputs, pets, shuffled=shuffled).result()
        table = apart.submit(_table_size, inputs.exported).result() / 2**20
    workers = {
        name: Worker(name, inputs, datacompy if name == DATACOMPY else None) for name in CONTENDERS
    }
    rounds = rounds or (7 if pets <= 200_000 else 3)
    costs = measure(workers, rounds)
    for worker in workers.values():
        worker.end()
    show(f"{pets:,} pets, {table:,.0f} MiB a table, {rounds} rounds", costs)
    return costs, table


def measure(workers: Mapping[str, Worker], rounds: int) -> Costs:
    """Return the cost of each contender."""
    peaks = {
        name: (
            each.ask("resident in place" if name in THREADED else "resident"),
            each.ask("traced") if name in TRACED else 0.0,
        )
        for name, each in workers.items()
    }
    runs = [{name: each.ask("run") for name, each in workers.items()} for _ in range(rounds)]
    return {
        name: Cost(_median([run[name][0] for run in runs]), *peaks[name], runs[0][name][1])
        for name in workers
    }


def show(title: str, costs: Costs) -> None:
    """Print the table of one size, with the two-way plan's ratios to each contender."""
    ours = costs[TWO_WAY].times
    print(f"\n{title}")
    print(f"  {'':26}{'seconds':>8}{'processor':>11}{'compare':>9}", end="")
    print(f"{'two-way is':>12}{'of compare':>12}{'peak MiB':>10}{'resident':>10}{'traced':>8}")
    for name, cost in costs.items():
        times = cost.times
        print(
            f"  {name:26}{times.whole:8.3f}{times.processor:11.3f}{times.compare:9.3f}"
            f"{ours.whole / times.whole:12.3f}{ours.whole / times.compare:12.3f}"
            f"{cost.peak:10,.0f}{cost.resident:10,.0f}{cost.traced:8,.0f}"
        )
    answers = {cost.found for cost in costs.values() if cost.found}
    if len(answers) > 1:
        raise SystemExit(f"they disagree: {[(name, cost.found) for name, cost in costs.items()]}")
    adds, updates, deletes, cells = answers.pop()
    print(f"  all agree: {adds:,} adds, {updates:,} updates ({cells:,} cells), {deletes:,} deletes")


def goals(pets: int, costs: Costs, table: float) -> Iterator[bool]:
    """Print and yield whether each goal, which is set for 1M pets, is met at the largest size."""
    two, three = costs[TWO_WAY], costs[THREE_WAY]
    print(
        f"\ngoals for 1M pets, at {pets:,}: by the clock; by the processor; and by the clock beside"
    )
    print("the other's comparison alone")
    for name, most in GOALS.items():
        if name not in costs:
            continue
        times = f"{most:g} x" if most >= 1 else f"1/{1 / most:g} of"
        yield _met(f"two-way at most {times} {name}", most, *_ratios(two, costs[name]))
    for name in (CELLS, THREE_CELLS):
        for other in THREADED:
            yield _met(f"{name}: ahead of {other}", 1, *_ratios(costs[name], costs[other]))
    yield _met(f"three-way at most {THREE_TO_TWO:g} x two-way", THREE_TO_TWO, *_ratios(three, two))
    for name in (TWO_WAY, THREE_WAY):
        ratio = costs[name].peak / table
        yield _met(f"{name}: memory at most that of one table", TABLES, ratio)


def growth(costs: Mapping[int, Costs]) -> Iterator[bool]:
    """Print each contender's time and memory as a power of the number of pets, by least squares
    over all sizes; yield whether petsync's limits are kept.
    """
    if len(costs) < 2:
        return
    print("\ngrowth, as a power of the number of pets: seconds, of the processor, peak MiB")
    for name in CONTENDERS:
        own = {pets: each[name] for pets, each in costs.items()}
        seconds = _power({pets: cost.times.whole for pets, cost in own.items()})
        processor = _power({pets: cost.times.processor for pets, cost in own.items()})
        peak = _power({pets: cost.peak for pets, cost in own.items()})
        print(f"  {name:26}{seconds:8.2f}{processor:8.2f}{peak:8.2f}")
        if name in (TWO_WAY, THREE_WAY):
            yield _met(f"{name}: no worse than n^{GROWTH}", GROWTH, max(seconds, peak))


class Worker:
    """A contender in its own process, which holds its tables and runs orders. With a folder of
    packages, the process imports these first.
    """

    def __init__(self, name: str, inputs: Inputs, packages: Path | None) -> None:
        self._pipe, far = FORK.Pipe()
        context = SPAWN if packages else FORK
        self._process = context.Process(target=_serve, args=(far, name, inputs), daemon=True)
        path = list(sys.path)
        if packages:
            # A spawned process has the module path of this one.
            sys.path.insert(0, str(packages))
        self._process.start()
        sys.path[:] = path
        far.close()

    def ask(self, order: str) -> Any:
        """Return the result of one of `ORDERS`; the first waits until the tables are loaded."""
        self._pipe.send(order)
        return self._pipe.recv()

    def end(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection, name: str, inputs: Inputs) -> None:
    work = CONTENDERS[name](inputs)
    while order := pipe.recv():
        gc.collect()
        pipe.send(ORDERS[order](work))


def _run(work: Work) -> tuple[Times, Found]:
    begun, used = time.perf_counter(), time.process_time()
    form = work.convert()
    ready = time.perf_counter()
    result = work.compare(form)
    done = time.perf_counter()
    processor = time.process_time() - used
    return Times(done - begun, processor, done - ready), work.count(result)


def _resident(work: Work) -> float:
    """Return the peak memory in MiB above that before the run, without mapped code."""
    Path("/proc/self/clear_refs").write_text("5")
    before, mapped = status("VmRSS"), status("RssFile")
    result = work.compare(work.convert())
    peak = status("VmHWM") - before - (status("RssFile") - mapped)
    del result
    return peak / 1024


def _traced(work: Work) -> float:
    """Return the peak memory in MiB that Python and Arrow allocated."""
    pool = pa.system_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    result = work.compare(work.convert())
    peak = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    del result
    return peak / 2**20


def _apart(measured: Callable[[Work], float], work: Work) -> float:
    """Return a measurement from a forked child, which starts with this process's memory."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(measured(work)).encode())
        os._exit(0)
    os.close(writer)
    result = float(os.read(reader, 100))
    os.close(reader)
    os.wait()
    return result


ORDERS: Mapping[str, Callable[[Work], Any]] = {
    "run": _run,
    "resident": partial(_apart, _resident),
    "resident in place": _resident,
    "traced": partial(_apart, _traced),
}


def _table_size(body: bytes) -> int:
    return tables.table_bytes(tables.frame_from_json(body))


def _median(runs: list[Times]) -> Times:
    return Times(
        statistics.median(run.whole for run in runs),
        statistics.median(run.processor for run in runs),
        statistics.median(run.compare for run in runs),
    )


def _ratios(one: Cost, other: Cost) -> tuple[float, float, float]:
    mine, theirs = one.times, other.times
    return (
        mine.whole / theirs.whole,
        mine.processor / theirs.processor,
        mine.whole / theirs.compare,
    )


def _met(goal: str, most: float, ratio: float, *others: float) -> bool:
    ratios = "; ".join(f"{each:.3f}" for each in (ratio, *others))
    print(f"  {'met    ' if ratio <= most else 'NOT MET'}  {goal}: {ratios}")
    return ratio <= most


def _power(values: Mapping[int, float]) -> float:
    slope, _ = np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)
    return float(slope)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument("pets", nargs="*", type=int, default=sizes, help="1,000 or more each")
    parser.add_argument("--rounds", type=int, help="default: 7, of large tables 3")
    parser.add_argument("--shuffled", action="store_true", help="the sheet's rows in any order")
    return parser.parse_args()


if __name__ == "__main__":
    main()
