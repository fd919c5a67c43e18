"""A process that reads mutated spreadsheets under a memory cap, and says what became of each.

Called with a kind of mutation, the folder to work in and the number of cases. It prints a line of
JSON for each case: first its name, then what became of it, so that a case that ends the process
is known too.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Arrow's own allocators reserve a gigabyte beforehand, which would hide what is used.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import mutants
import specimens

from petsync.errors import PetsyncError
from petsync.sheets import read_sheet, write_sheet

CAP = 400 << 20
"""How many bytes the reading of a small file may need on top of the libraries."""

KINDS = {
    "container": mutants.mutate_container,
    "parts": mutants.mutate_package,
    "text": mutants.mutate_text,
}


def bases(kind: str, folder: Path) -> dict[str, bytes]:
    """The files that are mutated, those that petsync writes among them."""
    suffix = ".csv" if kind == "text" else ".xlsx"
    plain, written = folder / "plain.csv", folder / f"written{suffix}"
    plain.write_bytes(specimens.text(",", "\n", lines=5))
    write_sheet(read_sheet(plain), written)
    others = specimens.texts() if kind == "text" else specimens.workbooks()
    return {**others, "petsync": written.read_bytes()}


def cases(kind: str, folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Each case's name and bytes; the name is its seed."""
    sources = bases(kind, folder)
    for number in range(count):
        name = list(sources)[number % len(sources)]
        seed = f"{kind}: {name}: {number}"
        yield seed, KINDS[kind](random.Random(seed), sources[name])


def outcome(path: Path) -> str:
    """What reading comes to: "sheet", "refused", or what the error lacks.

    Every other error ends the process, which is seen by those who wait for it.
    """
    try:
        sheet = read_sheet(path)
        repr(sheet)
        assert len(sheet.findings) == len(sheet.problems)
        assert not set(sheet.frame.index) & set(sheet.blocked)
    except PetsyncError as error:
        named = str(path) in error.message and error.hint
        return "refused" if named else f"no file or no way out in: {error}"
    return "sheet"


def capped() -> None:
    """Let the process have `CAP` bytes more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + CAP
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(what: object) -> None:
    """Print a line of JSON at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(kind: str, folder: str, count: str) -> None:
    """Run all cases of one kind."""
    suffix = ".csv" if kind == "text" else ".xlsx"
    path = Path(folder, f"mutant{suffix}")
    for number, (name, data) in enumerate(cases(kind, Path(folder), int(count))):
        if number == 0:
            capped()
        path.write_bytes(data)
        say(name)
        started = time.perf_counter()
        became = outcome(path)
        say([became, round(time.perf_counter() - started, 3)])


if __name__ == "__main__":
    main(*sys.argv[1:])
