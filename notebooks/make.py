"""Run the notebooks from top to bottom and save them with their outputs.

    python notebooks/make.py                 all of them
    python notebooks/make.py 03_round_trip   one

Each run saves the same text: it contains no execution times and no names of this machine, and
ports, times and run ids in outputs are replaced by fixed values. A cell with the tag
`nbval-check-output` is compared with its saved output in each test run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
KEPT = ("kernelspec", "language_info")
# The texts that differ in each run, and their fixed values: of the same length, to keep lines.
STAND_INS = {
    r"\b127\.0\.0\.1:\d+": "127.0.0.1:50321",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC": "2026-11-21 09:30:00 UTC",
    r"\b\d{8}-\d{6}-[0-9a-f]{4}\b": "20261121-093000-7f3a",
    r"\btook [\d.,]+ s\b": "took 0.3 s",
}


def settled(text: str) -> str:
    """Return the text with the fixed values."""
    for passing, stand_in in STAND_INS.items():
        text = re.sub(passing, stand_in, text)
    return text


def settle(output: Any) -> None:
    """Put the fixed values into an output, except its pictures."""
    if "text" in output:
        output["text"] = settled(output["text"])
    for kind, shown in output.get("data", {}).items():
        if kind.startswith("text/"):
            output["data"][kind] = settled(shown)


def make(path: Path) -> None:
    """Run one notebook, each cell as a reader would, and save it."""
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(
        book,
        timeout=300,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(HERE)}},
    )
    client.execute()
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            settle(output)
    book.metadata = nbformat.from_dict({name: book.metadata[name] for name in KEPT})
    nbformat.write(book, path)


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            sys.stderr.write(f"{path.name}\n")
            make(path)
