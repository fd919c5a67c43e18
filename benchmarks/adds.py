"""Adds without an id, on a service that can assign one id to two of them.

    python benchmarks/adds.py [--runs N] [--adds N] [--concurrency N]

The sandbox has the profile `live`, which assigns ids as the original server does: the highest plus
one, without a lock. Each run adds pets to a new store in one of two ways:

one at a time   the profile states that ids can be assigned twice (`live`): each add is sent alone
parallel        the profile states that they are unique: adds are sent together until an id is
                assigned twice; then they are sent alone, and replaced pets are added again

Both read the new pets back before they count. After each run the rows that are reported as applied
are compared with the pets in the store, and the program exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

import petsync as ps
from petsync.profile import LIVE, ServiceProfile
from petsync.sandbox import Sandbox

WAYS = {"one at a time": LIVE, "parallel": replace(LIVE, assigns_unique_ids=True)}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: rows reported as applied, pets in the store, requests for adds, and seconds."""

    applied: int
    stored: int
    sent: int
    seconds: float
    is_exact: bool


def main() -> int:
    """Run both ways and print their results; return 1 if a row has no pet of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--adds", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=16)
    asked = parser.parse_args()
    is_exact = True
    for name, profile in WAYS.items():
        runs = [one_run(profile, asked.adds, asked.concurrency) for _ in range(asked.runs)]
        is_exact &= all(run.is_exact and run.applied == asked.adds for run in runs)
        print(format_runs(name, runs), flush=True)
    return 0 if is_exact else 1


def one_run(profile: ServiceProfile, adds: int, concurrency: int) -> Run:
    """Run once on a new store."""
    rows = pd.DataFrame({"name": [f"pet {n}" for n in range(adds)], "status": "available"})
    with (
        tempfile.TemporaryDirectory() as state,
        Sandbox(profile="live", pets=[], auth=False) as sandbox,
        ps.connect(sandbox.url, profile=profile, state=Path(state)) as store,
    ):
        plan = store.plan(rows)
        begun = time.perf_counter()
        report = store.apply(plan, concurrency=concurrency, progress=False)
        seconds = time.perf_counter() - begun
        pets = store.snapshot().frame
        requests = len(plan.changes) + sum("again" in each.message for each in report.results)
    applied = [each for each in report.results if each.outcome == "applied"]
    added_names = {each.assigned_id: f"pet {each.row}" for each in applied}
    names = dict(zip(pets["id"], pets["name"], strict=True))
    # Rows of a frame are numbered from 0.
    is_exact = added_names == names
    return Run(len(applied), len(pets), requests, seconds, is_exact)


def format_runs(name: str, runs: list[Run]) -> str:
    """Return one line about the runs of one way."""
    exact = sum(run.is_exact for run in runs)
    applied, stored = sum(run.applied for run in runs), sum(run.stored for run in runs)
    again = sum(run.sent for run in runs) - applied
    rate = statistics.median(run.applied / run.seconds for run in runs)
    return (
        f"{name:<14} {exact} of {len(runs)} runs exact: {applied:,} rows applied, {stored:,} pets "
        f"stored; {again:,} added again; {rate:,.0f} adds a second (median)"
    )


if __name__ == "__main__":
    sys.exit(main())
