"""A process that reads spreadsheets with a memory limit, and reports the result of each.

Its arguments are a kind of mutation, a working folder and the number of cases; or "files" and a
folder, of which it reads all files. For each case it prints a JSON line with the name, then one
with the result, so that a case that ends the process is known too.
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

# Arrow's own allocators reserve a gigabyte in advance, which would hide the memory in use.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import mutants
import openpyxl
import specimens

from petsync.errors import PetsyncError
from petsync.sheets import read_sheet, write_sheet

CAP = 400 << 20
"""The number of bytes that reading a small file may need in addition to the libraries."""

SUFFIXES = {"container": ".xlsx", "parts": ".xlsx", "claims": ".xlsx", "text": ".csv"}
KINDS = {
    "container": mutants.mutate_container,
    "parts": mutants.mutate_package,
    "claims": mutants.mutate_claim,
    "text": mutants.mutate_text,
}


def bases(kind: str, folder: Path) -> dict[str, bytes]:
    """Return the files to mutate, including one that petsync writes."""
    plain, written = folder / "plain.csv", folder / f"written{SUFFIXES[kind]}"
    plain.write_bytes(specimens.text(",", "\n", lines=5))
    write_sheet(read_sheet(plain), written)
    others = specimens.texts() if kind == "text" else specimens.workbooks()
    return {**others, "petsync": written.read_bytes()}


def cases(kind: str, folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield each case's name and bytes; the name is its seed."""
    sources = bases(kind, folder)
    for number in range(count):
        name = list(sources)[number % len(sources)]
        seed = f"{kind}: {name}: {number}"
        yield seed, KINDS[kind](random.Random(seed), sources[name])


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each file of a folder."""
    for path in sorted(folder.iterdir()):
        yield path.name, path.read_bytes()


def outcome(path: Path) -> tuple[str, str]:
    """Return the result of reading: "sheet", "refused", or what the error lacks; and the message.

    Any other error ends the process, which the waiting test detects.
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
    """Allow the process `CAP` bytes more than it uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + CAP
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(what: object) -> None:
    """Print a line of JSON and flush it."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(kind: str, folder: str, count: str = "0") -> None:
    """Run all cases of one kind, or all files of a folder."""
    room = Path(folder)
    openpyxl.Workbook()  # modules that are loaded at first use do not count
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
