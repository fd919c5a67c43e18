"""Loading a findPetsByStatus response into a DataFrame, compared with ways without petsync.

    python benchmarks/load.py [PETS ...]        (default: 100000 and 1000000)

The same bytes go to petsync (the complete DataFrame), to `orjson.loads` alone (objects, without a
DataFrame) and to `json.loads` with `pandas.json_normalize`. Times are medians of rounds in which
each contender runs once, in this process; peak memory is that of a forked child that runs one
contender, above its memory before.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pandas as pd

from petsync.table.arrow import frame_from_json

Load = Callable[[bytes], object]

LIMITS = {"orjson.loads": 1.2, "json.loads + json_normalize": 1 / 3}


def main(sizes: list[int]) -> None:
    """Print a table for each size, and whether the limits are kept."""
    contenders: dict[str, Load] = {
        "petsync (DataFrame)": frame_from_json,
        "orjson.loads": orjson.loads,
        "orjson.loads, gc off": _orjson_without_gc,
        "json.loads + json_normalize": lambda body: pd.json_normalize(json.loads(body)),
    }
    for pets in sizes:
        body = answer(pets)
        rounds = 5 if pets <= 200_000 else 3
        times = measure(contenders, body, rounds)
        peaks = {name: peak(load, body) for name, load in contenders.items()}
        show(pets, len(body), rounds, times, peaks)


def answer(pets: int) -> bytes:
    """Return the service's response with `pets` pets, as the sandbox writes it."""
    return orjson.dumps([_pet(number) for number in range(1, pets + 1)])


def measure(contenders: dict[str, Load], body: bytes, rounds: int) -> dict[str, float]:
    """Return each contender's median seconds; they run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, load in contenders.items():
            gc.collect()
            begun = time.perf_counter()
            result = load(body)
            seconds[name].append(time.perf_counter() - begun)
            del result
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak(load: Load, body: bytes) -> float:
    """Return the load's peak memory in MiB, above that of the process before it."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmRSS")
        result = load(body)
        os.write(writer, str(status("VmHWM") - before).encode())
        del result
        os._exit(0)
    os.close(writer)
    kibibytes = int(os.read(reader, 100))
    os.close(reader)
    os.wait()
    return kibibytes / 1024


def status(field: str) -> int:
    """Return a field of this process's status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def show(
    pets: int, size: int, rounds: int, times: dict[str, float], peaks: dict[str, float]
) -> None:
    """Print the table of one size, with petsync's ratio to each contender."""
    ours, our_peak = times["petsync (DataFrame)"], peaks["petsync (DataFrame)"]
    print(f"\n{pets:,} pets, {size / 2**20:,.0f} MiB of JSON, median of {rounds} rounds")
    print(f"{'':30}{'seconds':>9}{'petsync/it':>12}{'limit':>8}{'peak MiB':>10}{'petsync/it':>12}")
    for name, seconds in times.items():
        limit = f"{LIMITS[name]:.2f}" if name in LIMITS else ""
        print(
            f"{name:30}{seconds:9.3f}{ours / seconds:12.2f}{limit:>8}"
            f"{peaks[name]:10.0f}{our_peak / peaks[name]:12.2f}"
        )
    kept = all(
        ours <= limit * times[name] and our_peak < peaks[name] for name, limit in LIMITS.items()
    )
    print("limits kept: " + ("yes" if kept else "NO"))


def _orjson_without_gc(body: bytes) -> object:
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()


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
    main([int(argument) for argument in sys.argv[1:]] or [100_000, 1_000_000])
