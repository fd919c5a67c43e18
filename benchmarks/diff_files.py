"""From two CSV files to their differences: `petsync diff` compared with `csv-diff`, as commands.

    python benchmarks/diff_files.py [PETS ...] [--rounds N]    (default: 100k and 1M)

Both files have the columns of an export. The second one is edited as users would:
1 % of the pets changed, 0.5 % removed, and 0.5 % added at the end. The commands run in turn with
their defaults, each in its own process, start included: `petsync diff A B` prints the first 20 rows
of each kind, `csv-diff A B --key id` all of them; the output goes to a file. As in an installation,
the bytecode of both is there: a first run, which is not counted, writes it. Times are medians. The
memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

HEADER = "id,name,status,category,category_id,tags,photo_urls,action\n"
GOAL = 10.0
"""The least ratio of the times of csv-diff and petsync, at the largest size."""
COMMANDS = {
    "petsync diff": [sys.executable, "-m", "petsync", "diff", "old.csv", "new.csv"],
    "csv-diff": [sys.executable, "-c", "from csv_diff.cli import cli; cli()"],
}
COMMANDS["csv-diff"] += ["old.csv", "new.csv", "--key", "id"]
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def main() -> None:
    """Compare at each size, and print whether the goal is met at the largest one."""
    options = _options()
    ratio = 0.0
    for pets in sorted(set(options.pets)):
        with tempfile.TemporaryDirectory() as folder:
            # In a process of its own: Linux counts the peak of the process that starts a command as
            # the command's own.
            with ProcessPoolExecutor(1, get_context("spawn")) as writer:
                writer.submit(write_files, Path(folder), pets).result()
            ratio = compare(Path(folder), pets, options.rounds)
    print(f"\n{'met' if ratio >= GOAL else 'NOT MET'}: at least {GOAL:g} x faster: {ratio:.1f} x")


def write_files(folder: Path, pets: int) -> None:
    """Write both files."""
    rows = [_row(number) for number in range(1, pets + 1)]
    _write(folder / "old.csv", rows)
    new = [row for row in rows if row[0] % 200 != 3]
    for at in range(7, len(new), 100):
        edited = list(new[at])
        column = 1 + at // 100 % 4
        edited[column] = ("Renamed", "reserved", "Others", 12)[column - 1]
        new[at] = edited
    new += [_row(number) for number in range(pets + 1, pets + 1 + pets // 200)]
    _write(folder / "new.csv", new)


def compare(folder: Path, pets: int, rounds: int) -> float:
    """Print the time and memory of each command, and return the ratio of the times."""
    print(f"\n{pets:,} pets, {rounds} rounds")
    turns = [
        {name: run(words, folder) for name, words in COMMANDS.items()} for _ in range(rounds + 1)
    ]
    medians = {}
    for name in COMMANDS:
        each = [turn[name] for turn in turns[1:]]
        seconds, processor, peak = (statistics.median(part) for part in zip(*each, strict=True))
        medians[name] = seconds, processor
        print(f"  {name:14}{seconds:8.2f} s{processor:8.2f} s of the processor{peak:8,.0f} MiB")
    ratio, used = (a / b for a, b in zip(medians["csv-diff"], medians["petsync diff"], strict=True))
    print(f"  petsync is {ratio:.1f} x faster, and uses the processor {used:.1f} x less")
    return ratio


def run(words: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """Return the seconds, the seconds of the processor, and the peak MiB of a command."""
    out = folder / "out.txt"
    variables = {name: text for name, text in os.environ.items() if name != _NO_BYTECODE}
    begun = time.perf_counter()
    with out.open("wb") as file:
        child = subprocess.Popen(
            words, cwd=folder, env=variables, stdout=file, stderr=subprocess.PIPE
        )
        _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begun
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 2) or not re.search(rb"[0-9]", out.read_bytes()):
        raise SystemExit(f"{words} ended with {code}: {child.stderr and child.stderr.read()!r}")
    return seconds, usage.ru_utime + usage.ru_stime, _mebibytes(usage)


def _mebibytes(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024


def _row(number: int) -> list[int | str]:
    status, kind = ("available", "pending", "sold")[number % 3], number % 12
    photos = [f"https://images.petshop.example/{number}/{n}.jpg" for n in range(1 + number % 3)]
    tags = f"a{number % 7}; b{number % 5}"
    return [number, f"Pet {number}", status, f"Kind {kind}", kind, tags, " | ".join(photos), ""]


def _write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    lines = (",".join(map(str, row)) for row in rows)
    path.write_text(HEADER + "\n".join(lines) + "\n", "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pets", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
