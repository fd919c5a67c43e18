"""Reading, validating and writing spreadsheets, compared with the fastest maintained libraries.

    python benchmarks/sheets.py [--rows 100000] [--large 1000000] [--rounds 7] [--formats]

One table of pets is made from a fixed seed in a temporary folder: as CSV, as the workbook that
Excel would save (shared texts, ids as numbers), and as the workbook that petsync exports. petsync
and its peer read each file in one process, in rounds with one turn for each contender: to a grid of
texts (`read`), and to the complete Sheet with every cell validated (`whole`). `validate` is the
time of `whole` above `read`. Times are medians, together with CPU times, which other load on the
machine affects less. Peak memory is that of a new process above its memory after all imports.
The large CSV is read by new processes, as pyarrow.csv reads it and to the complete Sheet; its time
is the least of several, and its peak memory that of the whole process.

With `--formats`, the same table is read in each of the other formats instead, beside the library
that a script would use. The .xls has only a tenth of the rows, because its minimal writer makes no
large file.
"""

from __future__ import annotations

import argparse
import csv
import gc
import gzip
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xlsxwriter
from load import status
from python_calamine import load_workbook

from petsync._collector import pause_collection
from petsync.sheets import read_sheet, write_sheet
from petsync.sheets.load import load
from petsync.sheets.read import read_grid

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from formats import WRITERS, Tab

Work = Callable[[], object]

LIMIT = 1.3
"""Limit of the time for reading, and of that for validating, divided by the peer's time."""
LARGE_LIMIT = 1000
"""Limit in megabytes for reading and validating the large CSV."""
LARGE_RATIO = 4
"""Limit of the time for reading and validating the large CSV, divided by pyarrow.csv's time."""
LARGE_ROUNDS = 3

HEADER = ("id", "name", "status", "category", "category_id", "tags", "photo_urls", "action")
NUMBERS = (0, 4)
NAMES = (
    *("Bello", "Luna", "Zoë", "Müsli", "Pip", "Chef Ariel", "Señor Bigotes", "Łatka", "茶々"),
    *("Snowball", "Rex, the second", 'Ruth "Ginger" B.', "Max", "Axel", "Nala", "Ōkami"),
)
CATEGORIES = (
    *("Dogs", "Cats", "Birds", "Fish", "Reptiles", "Hamsters & Mice", "Rabbits", "Amphibians"),
    *("Ponies", "Insects, spiders"),
)
TAGS = (
    *("calm", "shy", "house-trained", "special diet", "good with dogs", "good with children"),
    *("vaccinated", "beginner-friendly", "small", "large", "live food", "heat lamp", "senior"),
    *("cold water", "award winner", "neutered", "très câlin", "needs a garden", "bonded pair"),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One contender's median clock seconds and CPU seconds, and its peak memory in MiB."""

    seconds: float
    processor: float
    peak: float


def main() -> None:
    """Make the files, run all contenders, and print which goals are met."""
    options = _options()
    if options.peak:
        name, path, other = options.peak
        print(_peak_here(CONTENDERS[name](Path(path), Path(other))))
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        if options.formats:
            read_formats(made, options.rows, options.rounds)
            return
        print(f"{options.rows:,} pets in {len(HEADER)} columns, {options.rounds} rounds")
        paths = files(made, options.rows)
        met = [read(path, peer, options.rounds) for path, peer in paths.items()]
        write(made / "pets.csv", made / "written.xlsx", max(3, options.rounds // 2))
        if options.large:
            met.append(large(made / "large.csv", options.large))
        print("\nall goals met: " + ("yes" if all(met) else "NO"))


def files(folder: Path, pets: int) -> dict[Path, str]:
    """Make the files to read, and return the name of each file's peer."""
    _write_csv(folder / "pets.csv", pets)
    _write_workbook(folder / "pets.xlsx", _rows(pets), shared=True, numbers=NUMBERS)
    write_sheet(read_sheet(folder / "pets.csv"), folder / "exported.xlsx")
    return {
        folder / "pets.csv": "pandas' C engine",
        folder / "pets.xlsx": "python-calamine",
        folder / "exported.xlsx": "python-calamine",
    }


def read(path: Path, peer: str, rounds: int) -> bool:
    """Print the table of one file; return whether its goals are met."""
    costs = measure((peer, "petsync, read", "petsync, whole"), path, path, rounds)
    show(f"reading {path.name}, {path.stat().st_size / 1e6:,.1f} MB", costs, peer)
    theirs, ours, whole = costs[peer], costs["petsync, read"], costs["petsync, whole"]
    goals = {
        "read": (ours.seconds / theirs.seconds, ours.processor / theirs.processor),
        "validate": (
            (whole.seconds - ours.seconds) / theirs.seconds,
            (whole.processor - ours.processor) / theirs.processor,
        ),
    }
    for name, (clock, processor) in goals.items():
        verdict = "met" if clock <= LIMIT else "NOT MET"
        print(
            f"  goal: {name} in at most {LIMIT} x {peer}: {clock:.2f} "
            f"(processor {processor:.2f}): {verdict}"
        )
    return all(clock <= LIMIT for clock, _ in goals.values())


def read_formats(folder: Path, pets: int, rounds: int) -> None:
    """Print the table of a file in each of the other formats."""
    _write_csv(folder / "pets.csv", pets)
    text = (folder / "pets.csv").read_bytes()
    (folder / "pets.csv.gz").write_bytes(gzip.compress(text))
    with pa.output_stream(folder / "pets.csv.zst", compression="zstd") as file:
        file.write(text)
    sheet = read_sheet(folder / "pets.csv")
    for ending in ("json", "jsonl", "parquet"):
        write_sheet(sheet, folder / f"pets.{ending}")
    rows = [list(HEADER), *_rows(pets)]
    for ending, build in WRITERS.items():
        count = 1 + (pets // 10 if ending == ".xls" else pets)
        (folder / f"pets{ending}").write_bytes(build([Tab("Pets", rows[:count])]))
    for path, peer in {
        "pets.csv.gz": "gzip and pandas",
        "pets.csv.zst": "pyarrow and pandas",
        "pets.json": "msgspec",
        "pets.jsonl": "msgspec, line by line",
        "pets.parquet": "pyarrow.parquet",
        **{f"pets{ending}": "python-calamine" for ending in WRITERS},
    }.items():
        costs = measure((peer, "petsync, whole"), folder / path, folder / path, rounds)
        size = (folder / path).stat().st_size / 1e6
        show(f"reading {path}, {size:,.1f} MB", costs, peer)


def write(path: Path, target: Path, rounds: int) -> None:
    """Print the table of the writers, which all write the cells of a CSV as text."""
    names = ("XlsxWriter, constant memory", "XlsxWriter", "openpyxl, write-only", "petsync, write")
    show("writing .xlsx", measure(names, path, target, rounds), names[0])


def large(path: Path, pets: int) -> bool:
    """Print the time and the peak memory of processes that read a large CSV, with pyarrow.csv and
    with petsync, which also validates it; return whether both are within the limits.
    """
    _write_csv(path, pets)
    costs: dict[str, list[list[float]]] = {name: [] for name in LARGE_CODE}
    for _ in range(LARGE_ROUNDS):
        for name, each in costs.items():
            arguments = [sys.executable, "-c", LARGE_CODE[name] + LARGE_END, str(path)]
            done = subprocess.run(arguments, capture_output=True, text=True, check=True)
            each.append(list(map(float, done.stdout.split())))
    print(f"\nreading large.csv, {path.stat().st_size / 1e6:,.1f} MB, {pets:,} rows")
    seconds = {name: min(each)[0] for name, each in costs.items()}
    processor = {name: min(used for _, used, *_ in each) for name, each in costs.items()}
    megabytes = {name: max(peak for *_, peak, _ in each) / 1e6 for name, each in costs.items()}
    for name in costs:
        print(
            f"  {name:30}{seconds[name]:6.2f} s, processor {processor[name]:.2f} s, "
            f"process peak {megabytes[name]:,.0f} MB"
        )
    peer, ours = costs
    ratio = seconds[ours] / seconds[peer]
    is_fast = ratio <= LARGE_RATIO
    is_small = megabytes[ours] < LARGE_LIMIT and all(each[-1] == pets for each in costs[ours])
    print(
        f"  goal: read and validated in at most {LARGE_RATIO} x {peer}: {ratio:.2f} (processor "
        f"{processor[ours] / processor[peer]:.2f}): {'met' if is_fast else 'NOT MET'}"
    )
    print(
        f"  goal: read and validated below {LARGE_LIMIT:,} MB: {'met' if is_small else 'NOT MET'}"
    )
    return is_fast and is_small


LARGE_CODE = {
    "pyarrow.csv": (
        "import sys, time; from pathlib import Path; from pyarrow import csv;"
        "begun, used = time.perf_counter(), time.process_time();"
        "read = csv.read_csv("
        "sys.argv[1], parse_options=csv.ParseOptions(newlines_in_values=True));"
    ),
    "petsync, whole": (
        "import sys, time; from pathlib import Path; from petsync.sheets.read import read_sheet;"
        "begun, used = time.perf_counter(), time.process_time();"
        "read = read_sheet(sys.argv[1]);"
    ),
}
LARGE_END = (
    "seconds, used = time.perf_counter() - begun, time.process_time() - used;"
    "status = Path('/proc/self/status').read_text().split();"
    "print(seconds, used, int(status[status.index('VmHWM:') + 1]) * 1024, len(read))"
)


def measure(names: Iterable[str], path: Path, other: Path, rounds: int) -> dict[str, Cost]:
    """Return each contender's cost for a file; they run in turn."""
    work = {name: CONTENDERS[name](path, other) for name in names}
    clock: dict[str, list[float]] = {name: [] for name in work}
    processor: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            gc.collect()
            begun, used = time.perf_counter(), time.process_time()
            result = do()
            clock[name].append(time.perf_counter() - begun)
            processor[name].append(time.process_time() - used)
            del result
    median = statistics.median
    return {
        name: Cost(median(clock[name]), median(processor[name]), _peak(name, path, other))
        for name in work
    }


def show(title: str, costs: dict[str, Cost], peer: str) -> None:
    """Print one table with each contender's ratio to the peer."""
    theirs = costs[peer]
    print(f"\n{title}")
    print(f"  {'':30}{'seconds':>9}{'ratio':>7}{'processor':>11}{'ratio':>7}{'peak MiB':>10}")
    for name, cost in costs.items():
        print(
            f"  {name:30}{cost.seconds:9.3f}{cost.seconds / theirs.seconds:7.2f}"
            f"{cost.processor:11.3f}{cost.processor / theirs.processor:7.2f}{cost.peak:10.0f}"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=1_000_000, help="0: not at all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--formats", action="store_true", help="only the other formats")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _pandas(path: Path, _: Path) -> Work:
    return lambda: pd.read_csv(path, dtype=str, keep_default_na=False, engine="c")


def _calamine(path: Path, _: Path) -> Work:
    return lambda: load_workbook(str(path)).get_sheet_by_index(0).to_python()


def _unpacked(path: Path, _: Path) -> Work:
    def work() -> object:
        with pa.input_stream(path, compression="detect") as file:
            return pd.read_csv(file, dtype=str, keep_default_na=False, engine="c")

    return work


def _json(path: Path, _: Path) -> Work:
    return lambda: msgspec.json.decode(path.read_bytes())


def _json_lines(path: Path, _: Path) -> Work:
    return lambda: msgspec.json.Decoder().decode_lines(path.read_bytes())


def _parquet(path: Path, _: Path) -> Work:
    return lambda: pq.read_table(path)


def _read(path: Path, _: Path) -> Work:
    def work() -> object:
        with pause_collection():
            return read_grid(load(path), None, None)

    return work


def _whole(path: Path, _: Path) -> Work:
    return lambda: read_sheet(path)


def _write(path: Path, target: Path) -> Work:
    sheet = read_sheet(path)
    return lambda: write_sheet(sheet, target)


def _xlsxwriter(path: Path, target: Path, *, shared: bool) -> Work:
    rows = _cells(path)
    return lambda: _write_workbook(target, rows, shared=shared, numbers=())


def _openpyxl(path: Path, target: Path) -> Work:
    rows = _cells(path)
    return lambda: _write_openpyxl(target, rows)


CONTENDERS: dict[str, Callable[[Path, Path], Work]] = {
    "pandas' C engine": _pandas,
    "python-calamine": _calamine,
    "gzip and pandas": _pandas,
    "pyarrow and pandas": _unpacked,
    "msgspec": _json,
    "msgspec, line by line": _json_lines,
    "pyarrow.parquet": _parquet,
    "petsync, read": _read,
    "petsync, whole": _whole,
    "XlsxWriter, constant memory": partial(_xlsxwriter, shared=False),
    "XlsxWriter": partial(_xlsxwriter, shared=True),
    "openpyxl, write-only": _openpyxl,
    "petsync, write": _write,
}
"""Functions that prepare a contender's work, given the file to read and the file to write."""


def _peak(name: str, path: Path, other: Path) -> float:
    arguments = [sys.executable, __file__, "--peak", name, str(path), str(other)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _peak_here(work: Work) -> float:
    """Return the work's peak memory in MiB, above that of the process before it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    work()
    return (status("VmHWM") - before) / 1024


def _rows(pets: int) -> Iterator[list[str]]:
    chance = random.Random(20_261_121)
    for number in range(1, pets + 1):
        category = chance.randrange(len(CATEGORIES))
        tags = chance.sample(range(len(TAGS)), chance.randint(2, 5))
        named = [f"{n + 1}:{TAGS[n]}" if number % 3 == 0 else TAGS[n] for n in tags]
        photos = [
            f"https://images.petshop.example/{number}/{n}-{chance.randrange(10**6)}.jpg"
            for n in range(1, chance.randint(1, 3) + 1)
        ]
        yield [
            str(number),
            f"{chance.choice(NAMES)} {number}",
            chance.choice(("available", "pending", "sold")),
            CATEGORIES[category],
            str(category + 1),
            "; ".join(named),
            "\n".join(photos),
            chance.choice(("", "", "", "update")),
        ]


def _cells(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def _write_csv(path: Path, pets: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows(_rows(pets))


def _write_workbook(
    path: Path, rows: Iterable[list[str]], *, shared: bool, numbers: Container[int]
) -> None:
    book = xlsxwriter.Workbook(path, {"constant_memory": not shared})
    sheet = book.add_worksheet("Pets")
    sheet.write_row(0, 0, HEADER)
    for at, row in enumerate(rows, 1):
        for column, text in enumerate(row):
            if column in numbers:
                sheet.write_number(at, column, int(text))
            elif text:
                sheet.write_string(at, column, text)
    book.close()


def _write_openpyxl(path: Path, rows: Iterable[list[str]]) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Pets")
    sheet.append(HEADER)
    for row in rows:
        sheet.append(row)
    book.save(path)


if __name__ == "__main__":
    main()
