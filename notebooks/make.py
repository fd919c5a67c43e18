"""Run the notebooks from top to bottom and save them with what they show.

    python notebooks/make.py                 all of them
    python notebooks/make.py 03_round_trip   one

What is saved is the same each time: no times of the run, no names of the machine. A cell that is
tagged `nbval-check-output` is compared with what is saved in every test run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
KEPT = ("kernelspec", "language_info")


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
    book.metadata = nbformat.from_dict({name: book.metadata[name] for name in KEPT})
    nbformat.write(book, path)


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            sys.stderr.write(f"{path.name}\n")
            make(path)
