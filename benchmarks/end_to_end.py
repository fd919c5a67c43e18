"""The commands as people run them, from the start of the process to its end.

    python benchmarks/end_to_end.py [PETS ...]      (default: 100000 and 1000000)

A small server in its own process answers every query with the same list of pets. `export` writes it
in each format. In the CSV file and the workbook, 1 % of the names are edited, and `plan` compares
them with the store. A two-way job has an export as its sheet; its second round, in sync, is
measured. At the end, `apply` makes the 1,000 changes of a saved plan with its defaults, in a
durable sandbox of 10,000 pets; a job of 100,000 pets with ten kept versions of its sheet runs in
sync, beside a plan of that sheet, five times in turn; and `plan` compares a sheet of 1,240 pets,
beside the import of pandas and pyarrow, five times in turn. All files are in TMPDIR.

Each command is a new process: its time by the clock, its processor time, and its peak resident
memory are printed beside F, the floor of the same list in benchmarks/load.py. Peaks are of whole
processes, with Python and all imports. The answer is sent over loopback, neither compressed nor
encrypted; the server's processor time is not counted. The goals are for 1,000,000 pets: with few,
most of the time is that of imports. With several sizes, the growth of each command is printed: the
exponent of a power of the number of pets, fitted to its times by least squares. Workbooks are left
out above 1,000,000 pets, because a worksheet has at most 1,048,576 rows.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import load
import numpy as np
from requests import server

SPAWN = multiprocessing.get_context("spawn")
GIBIBYTE = 2**30
GOALS: Mapping[str, tuple[float, float | None]] = {
    "export .parquet": (2.5, None),
    "export .csv": (4, None),
    "export .xlsx": (10, None),
    "plan .csv": (4, 1 * GIBIBYTE),
    "plan .xlsx": (9, 2 * GIBIBYTE),
}
"""The most clock time, as a multiple of F, and the most memory, at 1,000,000 pets."""
GROWTH, MAX_ROWS = 1.05, 1_000_000
"""The most growth of exports and plans, and the most pets in a workbook."""
SETTINGS = "[service]\nmax_answer_mb = 10_000\n"
STORED, EDITED = 10_000, 1_000
"""The pets of the sandbox for `apply`, and how many of them it changes."""
AGREED, VERSIONS, TURNS, MOST = 100_000, 10, 5, 1.5
"""The pets and kept versions of the job in sync, how often it runs, and the most time beside a plan
of its sheet.
"""
SMALL, IMPORTS, MOST_IMPORTS = 1_240, "import pandas, pyarrow", 2.5
"""The pets of the small sheet, the imports beside its plan, and the most time of the plan beside
theirs.
"""
JOB = '[jobs.pets]\nmode = "two-way"\nsheet = "{sheet}"\nurl = "{url}"\n'


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the processor, and peak resident bytes, of one process."""

    seconds: float
    processor: float
    peak: int


def main(sizes: list[int]) -> None:
    """Print a table for each size, and that of `apply`."""
    print(f"{'':22}{'seconds':>9}{'/ F':>7}{'processor':>11}{'/ F':>7}{'peak MiB':>10}  goals")
    seconds: dict[str, dict[int, float]] = defaultdict(dict)
    for pets in sizes:
        with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
            for name, cost in at(pets, Path(folder)).items():
                seconds[name][pets] = cost.seconds
    if len(sizes) > 1:
        show_growth(seconds)
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
        apply(Path(folder))
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
        reconcile(Path(folder))
    with tempfile.TemporaryDirectory(prefix="petsync-bench-") as folder:
        small(Path(folder))


def show_growth(seconds: Mapping[str, Mapping[int, float]]) -> None:
    """Print how the time of each command grows with the number of pets."""
    print("\ngrowth, as a power of the number of pets")
    for name, own in seconds.items():
        if len(own) < 2:
            continue  # no workbook has the rows of the largest size
        power, _ = np.polyfit(np.log([*own]), np.log([*own.values()]), 1)
        goal = "" if name.startswith("reconcile") else f"at most {GROWTH}: "
        verdict = "" if not goal else "met" if power <= GROWTH else "NOT MET"
        print(f"{name:22}{power:9.2f}  {goal}{verdict}")


def at(pets: int, folder: Path) -> dict[str, Cost]:
    """Print and return the cost of each command for `pets` pets."""
    (folder / "petsync.toml").write_text(SETTINGS)
    body = folder / "pets.json"
    apart(write_answer, body, pets)
    floor = load.measure(load.FLOOR, body)
    print(f"\n{pets:,} pets, {body.stat().st_size / 2**20:,.0f} MiB of JSON")
    print(f"{'F':22}{floor.seconds:9.2f}{'':7}{floor.processor:11.2f}")

    costs: dict[str, Cost] = {}

    def show(name: str, cost: Cost) -> None:
        costs[name] = cost
        print(
            f"{name:22}{cost.seconds:9.2f}{cost.seconds / floor.seconds:7.1f}"
            f"{cost.processor:11.2f}{cost.processor / floor.processor:7.1f}"
            f"{cost.peak / 2**20:10,.0f}  {_judge(name, cost, floor.seconds)}",
            flush=True,
        )

    workbook = [".xlsx"] if pets <= MAX_ROWS else []
    with list_server(body) as url:
        for ending in (".parquet", ".csv", *workbook):
            show(f"export {ending}", run(folder, "export", f"pets{ending}", "--url", url))
        for ending in (".csv", *workbook):
            sheet = f"synced{ending}"
            shutil.copy(folder / f"pets{ending}", folder / sheet)
            if ending == ".csv":
                shutil.copy(folder / "pets.csv.petsync-base", folder / f"{sheet}.petsync-base")
            (folder / "jobs.toml").write_text(JOB.format(sheet=sheet, url=url) + SETTINGS)
            job = "reconcile", "jobs.toml", "--state", f"state{ending}"
            run(folder, *job)
            show(f"reconcile {ending}", run(folder, *job))
            apart(edit, folder / f"pets{ending}")
            edits = f"{pets // 100:,} to change"
            plan = run(folder, "plan", f"pets{ending}", "--url", url, expected=edits)
            show(f"plan {ending}", plan)
    return costs


def apply(folder: Path) -> None:
    """Print the cost of applying a saved plan in a durable sandbox."""
    seed = folder / "pets.json"
    apart(write_answer, seed, STORED)
    with server(seed, db=folder / "store.db") as url:
        run(folder, "export", "pets.csv", "--url", url)
        apart(edit, folder / "pets.csv", r"[0-9]*0")
        run(folder, "plan", "pets.csv", "--url", url, "-o", "plan.json")
        cost = run(
            folder, "apply", "plan.json", "--url", url, "--yes", expected=f"{EDITED:,} applied"
        )
    print(f"\n{EDITED:,} updates in a durable store of {STORED:,} pets")
    print(
        f"{'apply':22}{cost.seconds:9.2f}{'':7}{cost.processor:11.2f}{'':7}"
        f"{cost.peak / 2**20:10,.0f}  {EDITED / cost.seconds:,.0f} changes a second"
    )


def reconcile(folder: Path) -> None:
    """Print the cost of a round in sync with many kept versions, and of a plan of its sheet."""
    seed, sheet = folder / "pets.json", folder / "pets.csv"
    (folder / "petsync.toml").write_text(SETTINGS)
    apart(write_answer, seed, AGREED)
    with server(seed) as url:
        run(folder, "export", "pets.csv", "--url", url)
        (folder / "jobs.toml").write_text(JOB.format(sheet="pets.csv", url=url) + SETTINGS)
        job = "reconcile", "jobs.toml", "--state", "state"
        for number in range(VERSIONS):
            run(folder, *job)
            apart(edit, sheet, str(100 + number))
        run(folder, *job)
        run(folder, "export", "plan.csv", "--url", url)
        turns = [
            (run(folder, *job), run(folder, "plan", "plan.csv", "--url", url)) for _ in range(TURNS)
        ]
    print(f"\n{AGREED:,} pets in sync, {VERSIONS} kept versions, least of {TURNS}")
    compare(("reconcile", "plan"), turns, MOST)


def small(folder: Path) -> None:
    """Print the cost of a plan of few pets, and of the imports that it cannot do without."""
    seed = folder / "pets.json"
    apart(write_answer, seed, SMALL)
    with list_server(seed) as url:
        run(folder, "export", "pets.csv", "--url", url)
        apart(edit, folder / "pets.csv")
        plan = "-m", "petsync", "plan", "pets.csv", "--url", url
        turns = [(execute(folder, plan), execute(folder, ("-c", IMPORTS))) for _ in range(TURNS)]
    print(f"\n{SMALL:,} pets, 1 % edited, least of {TURNS}")
    compare(("plan", IMPORTS), turns, MOST_IMPORTS)


def compare(names: tuple[str, str], turns: Sequence[tuple[Cost, Cost]], most: float) -> None:
    """Print the least cost of two processes that ran in turn, and how much longer the first one
    takes.
    """
    costs = [
        (
            min(cost.seconds for cost in each),
            min(cost.processor for cost in each),
            max(cost.peak for cost in each),
        )
        for each in zip(*turns, strict=True)
    ]
    for name, (seconds, processor, peak) in zip(names, costs, strict=True):
        print(f"{name:22}{seconds:9.2f}{'':7}{processor:11.2f}{'':7}{peak / 2**20:10,.0f}")
    ratio = costs[0][0] / costs[1][0]
    verdict = "met" if ratio <= most else "NOT MET"
    print(f"{'ratio':22}{ratio:9.2f}  at most {most}: {verdict}")


def run(folder: Path, *command: str, expected: str = "") -> Cost:
    """Run a petsync command as `execute` does."""
    return execute(folder, ("-m", "petsync", *command), expected)


def execute(folder: Path, arguments: Sequence[str], expected: str = "") -> Cost:
    """Run Python in the folder, and return its cost. Raise SystemExit with its output if it fails,
    or if the expected text is not in it.
    """
    with (folder / "output").open("w+b") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={name: each for name, each in os.environ.items() if "PETSYNC" not in name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        # The kernel starts the peak at this process's own, which therefore holds no large values.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
        if process.returncode or expected not in text:
            raise SystemExit(f"python {' '.join(arguments)}: {text}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)


@contextmanager
def list_server(body: Path) -> Iterator[str]:
    """Yield the base URL of a server in its own process that answers each GET with the file."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_serve, args=(there, body), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def apart(function: Callable[..., None], *arguments: object) -> None:
    """Call the function in a new process, so that this one stays small."""
    process = SPAWN.Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def write_answer(path: Path, pets: int) -> None:
    """Write the service's response with `pets` pets."""
    path.write_bytes(load.answer(pets))


def edit(path: Path, numbers: str = "[0-9]*00") -> None:
    """Change the names of the pets whose numbers match, in a CSV file or a workbook."""
    name = re.compile(f"(Zoë (?:{numbers}))(?=[,<])".encode())

    def edited(content: bytes) -> bytes:
        return name.sub(rb"\1 the second", content)

    if path.suffix != ".xlsx":
        path.write_bytes(edited(path.read_bytes()))
        return
    target = path.with_suffix(".edited")
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(target, "w") as written:
        for part in book.infolist():
            content = book.read(part)
            if part.filename == "xl/worksheets/sheet1.xml":
                content = edited(content)
            written.writestr(part.filename, content, zipfile.ZIP_DEFLATED, compresslevel=1)
    target.replace(path)


def _serve(ready: Connection, path: Path) -> None:
    body = path.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(f"http://127.0.0.1:{listening.server_port}/v2")
    listening.serve_forever()


def _judge(name: str, cost: Cost, floor: float) -> str:
    if name not in GOALS:
        return ""
    times, peak = GOALS[name]
    is_met = cost.seconds <= times * floor and (peak is None or cost.peak <= peak)
    memory = "" if peak is None else f", {peak / GIBIBYTE:g} GiB"
    return f"{times:g} F{memory}: {'met' if is_met else 'NOT MET'}"


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100_000, 1_000_000])
