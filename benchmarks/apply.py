"""Bulk changes as `petsync apply` makes them, compared with loops that only send requests.

    python benchmarks/apply.py [--speed] [--memory] [--limited]         (default: all three)
                               [--changes N] [--connections N ...] [--rounds N]

A sandbox with a durable store, which answers when a change is on disk, runs in its own process and
starts each run with the same pets. Each contender runs in this process, on asyncio's own event
loop, and makes the same changes in the same order: 10 % adds with an id, 60 % updates by updatePet,
20 % by updatePetWithForm, 10 % deletes. After each run the store is compared with its expected
content.

petsync has the defaults of the command line: a journal, an intent on disk before each change, and
each pet read again just before its change, 16 changes at the same time. Journal and store are in
TMPDIR, and the time of an fsync there is printed: a TMPDIR in memory flatters. The others record
nothing. Those "with reads" read each pet before its change too, but do not compare it; aiohttp even
gets its requests prepared, and does not parse responses.

--speed: changes per second, and CPU, which is the time of this process with its threads; ratios are
medians of the ratios in each round. The goals count from petsync's default number of connections
on. `service` is the share of the time in which the sandbox was busy: near 100 % it is the
bottleneck, and only CPU compares the clients. Plain sockets show its maximum.

--memory: how far the process's peak rises above its memory with the plan loaded.

--limited: a service that accepts 200 requests per second and answers 429 above that, with half as
many changes. The goals are the accepted requests per second over the whole run, and the share of
refused requests.

The generated clients are made here, as in benchmarks/requests.py (`pip install petsync[bench]`);
without them those rows are omitted, with the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from changes import Work, build_work
from load import status
from loops import (
    Loop,
    aiohttp_alone,
    carried_out,
    generated_asyncio,
    generated_urllib3,
    petsync,
    sockets_alone,
)
from requests import generated_packages, server, why

from petsync.apply.options import ApplyOptions
from petsync.client.session import Session
from petsync.protocol.operations import Traffic

OURS, BULK, BARE = "petsync, defaults", "petsync, --recheck bulk", "petsync, no journal, no reads"
JOURNAL = "petsync, journal, no reads"
GENERATED, READING, RAW = "generated, asyncio", "generated, reads", "aiohttp, ready-made, reads"
BLOCKING, SOCKETS = "generated, urllib3, one by one", "plain sockets: the service's limit"
GOALS = {
    (OURS, GENERATED): 1.0,
    (JOURNAL, GENERATED): 1.5,
    (OURS, READING): 1.5,
    (OURS, RAW): 0.4,
}
"""Goals: petsync's changes per second, divided by those of the contender."""
MEMORY = (5_000, 20_000, 80_000)
RATE, REACHED, WASTED = 200, 0.95, 0.02
CONCURRENCY = ApplyOptions().concurrency
"""Concurrent changes in the parts `memory` and `limited`, and where the goals of `speed` count."""


@dataclass(frozen=True)
class Run:
    """One run: changes per second, CPU in microseconds per change, and the service's busy share."""

    rate: float
    cpu: float
    service: float


Runs = Mapping[str, Sequence[Run]]


def main() -> None:
    """Run the selected parts and print whether the goals are met."""
    options = _options()
    every = not (options.speed or options.memory or options.limited)
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as name:
        folder = Path(name)
        print(f"an fsync in {tempfile.gettempdir()} takes {1000 * fsync(folder):.2f} ms")
        met = []
        if options.speed or every:
            met += speed(folder, options.changes, options.connections, options.rounds)
        if options.memory or every:
            memory(folder, sorted(size * options.changes // 20_000 for size in MEMORY))
        if options.limited or every:
            met.append(limited(folder, options.changes // 2))
    if met:
        print("\nall goals met: " + ("yes" if all(met) else "NO"))


def speed(folder: Path, changes: int, connections: Sequence[int], rounds: int) -> list[bool]:
    """Print a table for each number of connections; return whether its goals are met."""
    work = build_work(changes)
    seed = work.seed(folder)
    loops = contenders(seed, folder)
    met = []
    for count in connections:
        runs: dict[str, list[Run]] = {}
        for _ in range(rounds):
            for name, loop in loops.items():
                if name != BLOCKING or count == min(connections):
                    runs.setdefault(name, []).append(one_run(loop, work, seed, count))
        show(f"{changes:,} changes, connections: {count}, rounds: {rounds}", runs)
        if count >= CONCURRENCY:
            met += judge(runs)
    return met


def judge(runs: Runs) -> list[bool]:
    """Print the goals, and return whether each is met."""
    met = []
    for (ours, other), goal in GOALS.items():
        if other in runs:
            ratio, cpu = (_ratio(runs, other, part, ours) for part in ("rate", "cpu"))
            met.append(ratio >= goal)
            print(
                f"  {ours} / {other}: {ratio:.2f} (CPU {cpu:.2f}), goal {goal:.1f}: "
                f"{'met' if met[-1] else 'NOT MET'}"
            )
    return met


def contenders(seed: Path, folder: Path) -> dict[str, Loop]:
    """Return all contenders by name, without the generated clients if they cannot be made."""
    ours: dict[str, Loop] = {
        OURS: partial(petsync, journal=True, recheck="each"),
        BULK: partial(petsync, journal=True, recheck="bulk"),
        JOURNAL: partial(petsync, journal=True, recheck="none"),
        BARE: partial(petsync, journal=False, recheck="none"),
    }
    theirs: dict[str, Loop] = {
        RAW: partial(aiohttp_alone, reads=True),
        "aiohttp, ready-made": aiohttp_alone,
        SOCKETS: sockets_alone,
    }
    try:
        with server(seed) as url:
            awaited, blocking = generated_packages(url, folder)
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        print(f"left out: generated clients: {why(error)}")
        return ours | theirs
    generated: dict[str, Loop] = {
        GENERATED: partial(generated_asyncio, awaited),
        READING: partial(generated_asyncio, awaited, reads=True),
        BLOCKING: partial(generated_urllib3, blocking),
    }
    return ours | generated | theirs


def one_run(loop: Loop, work: Work, seed: Path, connections: int) -> Run:
    """Make all changes on a new sandbox, and check the store afterwards."""
    with durable_server(seed) as url:
        run = asyncio.run(timed(loop, work, url, connections))
        work.check(url)
    return run


@contextmanager
def durable_server(seed: Path, faults: str | None = None) -> Iterator[str]:
    """Yield the base URL of a sandbox with the pets of the seed file in a new, durable store."""
    with (
        tempfile.TemporaryDirectory(prefix="petsync-store-") as folder,
        server(seed, faults, Path(folder) / "store.db") as url,
    ):
        yield url


async def timed(loop: Loop, work: Work, url: str, connections: int) -> Run:
    """Return the clock time and the CPU time of all changes."""
    async with loop(url, work.plan, connections) as carry_out:
        gc.collect()
        begun, cpu, service = time.perf_counter(), time.process_time(), _children()
        await carry_out()
        seconds = time.perf_counter() - begun
        cpu, service = time.process_time() - cpu, _children() - service
    changes = len(work.plan.changes)
    return Run(changes / seconds, 1e6 * cpu / changes, service / seconds)


def memory(folder: Path, sizes: Sequence[int]) -> None:
    """Print how far the peak memory rises while a plan of each size is applied."""
    print(f"\npeak above the loaded plan, {CONCURRENCY} at a time")
    print(f"{'changes':>10}{'MiB':>8}{'bytes a change':>16}{'bytes a change more':>21}")
    before = 0, 0.0
    for size in sizes:
        mebibytes = risen(build_work(size), folder)
        more = (mebibytes - before[1]) / (size - before[0])
        each, further = 2**20 * mebibytes / size, 2**20 * more
        print(f"{size:10,}{mebibytes:8.1f}{each:16,.0f}{further:21,.0f}")
        before = size, mebibytes


def risen(work: Work, folder: Path) -> float:
    """Return the MiB by which the peak memory of a forked process rises during the run."""
    seed = work.seed(folder)
    with durable_server(seed) as url:

        async def run() -> None:
            async with petsync(
                url, work.plan, CONCURRENCY, journal=True, recheck="each"
            ) as carry_out:
                await carry_out()

        gc.collect()
        mebibytes = peak(lambda: asyncio.run(run()))
        work.check(url)
    return mebibytes


def peak(work: Callable[[], object]) -> float:
    """Return the MiB by which the work raises the peak memory of a forked process."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        work()
        os.write(writer, str(status("VmHWM") - before).encode())
        os._exit(0)
    os.close(writer)
    kibibytes = int(os.read(reader, 100))
    os.close(reader)
    os.wait()
    return kibibytes / 1024


def limited(folder: Path, changes: int) -> bool:
    """Print how well petsync uses a service with a rate limit; return whether the goals are met."""
    work = build_work(changes)
    seed = work.seed(folder)
    with durable_server(seed, f"limit={RATE}") as url:
        seconds, traffic = asyncio.run(limited_run(work, url, folder))
    taken, wasted = traffic.requests - traffic.refused, traffic.refused / traffic.requests
    reached = taken / seconds
    print(
        f"\n{changes:,} changes to a service that takes {RATE} requests a second, {seconds:.1f} s"
    )
    print(f"taken a second   {reached:10.1f}  {reached / RATE:6.1%}  goal {REACHED:.0%}")
    print(f"refused in all   {traffic.refused:10,}  {wasted:6.2%}  goal below {WASTED:.0%}")
    return reached >= REACHED * RATE and wasted < WASTED


async def limited_run(work: Work, url: str, folder: Path) -> tuple[float, Traffic]:
    """Return the seconds of all changes, and the traffic."""
    session = Session(url)
    begun = time.perf_counter()
    traffic = await carried_out(session, work.plan, folder / "limited", CONCURRENCY, "each")
    seconds = time.perf_counter() - begun
    await session.close()
    return seconds, traffic


def show(title: str, runs: Runs) -> None:
    """Print the table with petsync's ratios to each contender."""
    print(f"\n{title}")
    print(
        f"{'':36}{'changes/s':>10}{'petsync/it':>12}{'µs CPU each':>13}{'petsync/it':>12}"
        f"{'service':>9}"
    )
    for name, own in runs.items():
        rate, cpu, service = (
            statistics.median(getattr(run, part) for run in own)
            for part in ("rate", "cpu", "service")
        )
        print(
            f"{name:36}{rate:10,.0f}{_ratio(runs, name, 'rate'):12.2f}{cpu:13.0f}"
            f"{_ratio(runs, name, 'cpu'):12.2f}{service:9.0%}"
        )


def fsync(folder: Path) -> float:
    """Return the median seconds that a small write needs to reach the disk."""
    took = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(bytes(400))
            begun = time.perf_counter()
            os.fsync(file)
            took.append(time.perf_counter() - begun)
    return statistics.median(took)


def _children() -> float:
    """Return the CPU seconds of the child processes."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())


def _ratio(runs: Runs, name: str, part: str, ours: str = OURS) -> float:
    pairs = zip(runs[ours], runs[name], strict=True)
    return statistics.median(getattr(ours, part) / getattr(other, part) for ours, other in pairs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how fast petsync applies changes.")
    for part in ("speed", "memory", "limited"):
        parser.add_argument(f"--{part}", action="store_true", help="this part (default: all)")
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, CONCURRENCY, 64])
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
