"""A process that reads spreadsheets under a memory cap, and says what became of each.

Called with a kind of mutation, the folder to work in and the number of cases; or with "files" and
a folder, of which it reads all files. It prints a line of JSON for each case: first its name, then
what became of it, so that a case that ends the process is known too.
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
import openpyxl
import specimens

from petsync.errors import PetsyncError
from petsync.sheets import read_sheet, write_sheet

CAP = 400 << 20
"""How many bytes the reading of a small file may need on top of the libraries."""

SUFFIXES = {"container": ".xlsx", "parts": ".xlsx", "claims": ".xlsx", "text": ".csv"}
KINDS = {
    "container": mutants.mutate_container,
    "parts": mutants.mutate_package,
    "claims": mutants.mutate_claim,
    "text": mutants.mutate_text,
}


def bases(kind: str, folder: Path) -> dict[str, bytes]:
    """The files that are mutated, those that petsync writes among them."""
    plain, written = folder / "plain.csv", folder / f"written{SUFFIXES[kind]}"
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


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each file of a folder."""
    for path in sorted(folder.iterdir()):
        yield path.name, path.read_bytes()


def outcome(path: Path) -> tuple[str, str]:
    """What reading comes to: "sheet", "refused", or what the error lacks; and the message.

    Every other error ends the process, which is seen by those who wait for it.
    """
    try:
        sheet = read_sheet(path)
        repr(sheet)
        assert len(sheet.findings) == len(sheet.problems)
        assert not set(sheet.frame.index) & set(sheet.blocked)
    except PetsyncError as error:
        named = str(path) in error.message and error.hint
        return "refused" if named else "no file or no way out in the message", str(error)
    return "sheet", f"{len(sheet)} rows, {len(sheet.problems)} problems"


def capped() -> None:
    """Let the process have `CAP` bytes more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + CAP
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(what: object) -> None:
    """Print a line of JSON at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(kind: str, folder: str, count: str = "0") -> None:
    """Run all cases of one kind, or all files of a folder."""
    room = Path(folder)
    openpyxl.Workbook()  # what is loaded when it is used is not to count
    read_sheet(specimens.SAMPLES / "catalogue_clean.xlsx")
    for number, (name, data) in enumerate(
        files(room) if kind == "files" else cases(kind, room, int(count))
    ):
        path = room / (name if kind == "files" else f"mutant{SUFFIXES[kind]}")
        if number == 0:
            capped()
        if kind != "files":
            path.write_bytes(data)
        del data
        say(name)
        started = time.process_time()
        became, message = outcome(path)
        say([became, round(time.process_time() - started, 3), message])


if __name__ == "__main__":
    main(*sys.argv[1:])
