"""The progress bar in a real kernel: shown in the right cell during a run, and removed
afterwards.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from petsync.report.progress import NotebookBar

pytestmark = pytest.mark.slow

CELLS = (
    """
import time
import warnings
warnings.simplefilter("error")
import pandas as pd
import petsync as ps
from petsync.report.progress import run_bar

store = ps.demo()
pets = pd.DataFrame({"name": [f"Pet {n}" for n in range(6000)], "status": "available"})
plan = store.plan(pets, guard=ps.Guard(max_add=None))
short = store.plan(pets.head(5).assign(name="Rex"))
""",
    """
print("before")
with run_bar(len(plan.changes)) as step:
    report = store.apply(plan, on_progress=step)
    time.sleep(0.5)
print("after")
""",
    """
with run_bar(5, delay=60) as step:
    few = store.apply(short, on_progress=step)
few.counts["applied"]
""",
    """
try:
    with run_bar(10):
        time.sleep(1.5)
        raise ValueError("the disk is full")
except ValueError:
    print("stopped")
""",
    "store.close()",
)
LONG, SHORT, FAILING = 1, 2, 3


class Watched(NotebookClient):
    """A client that records the messages of each cell, in their order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.messages: list[tuple[int, str, dict[str, Any]]] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Record the message and process it."""
        self.messages.append((cell_index, msg["msg_type"], msg["content"]))
        return super().process_message(msg, cell, cell_index)

    def find_contents(self, cell: int, *kinds: str) -> list[dict[str, Any]]:
        """Return the contents of a cell's messages of these kinds."""
        return [content for at, kind, content in self.messages if at == cell and kind in kinds]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Return the client of a notebook that ran from top to bottom."""
    folder: Path = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    client = Watched(book, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return client


def test_a_bar_shows_how_far_a_run_is(notebook: Watched) -> None:
    """While 6,000 changes are applied, one bar in the cell of the run shows the progress, in HTML
    and as text.
    """
    (shown,) = notebook.find_contents(LONG, "display_data")
    assert shown["transient"]["display_id"]
    updates = notebook.find_contents(LONG, "update_display_data")
    assert {each["transient"]["display_id"] for each in updates} == {
        shown["transient"]["display_id"]
    }
    drawn = [each["data"] for each in (shown, *updates) if each["data"]]
    done = [
        float(found[1])
        for each in drawn
        if (found := re.search(r'<progress value="([0-9.]+)" max="1"', each["text/html"]))
    ]
    assert len(done) == len(drawn) >= 2
    assert done == sorted(done)
    assert done[-1] <= 1
    texts = " ".join(each["text/html"] for each in drawn)
    assert "/6,000 changes" in texts
    assert "16 at once" in texts
    assert re.fullmatch(r"[0-9,]+ of 6,000 changes.*", drawn[-1]["text/plain"])


def test_the_bar_goes_with_the_run(notebook: Watched) -> None:
    """After a run the saved notebook has no bar, and keeps all other output."""
    outputs = notebook.nb.cells[LONG].outputs
    assert [output.get("text", output.get("data")) for output in outputs] == [
        "before\n",
        {},
        "after\n",
    ]
    assert not notebook.find_contents(LONG, "comm_open")


def test_a_short_run_leaves_nothing_in_a_notebook(notebook: Watched) -> None:
    """A run that is shorter than the delay shows no bar."""
    assert 0.5 <= NotebookBar.delay <= 2.0
    assert [output["output_type"] for output in notebook.nb.cells[SHORT].outputs] == [
        "execute_result"
    ]
    assert not notebook.find_contents(SHORT, "comm_open", "display_data")


def test_a_stopped_run_leaves_no_bar(notebook: Watched) -> None:
    """The bar of a run that raised an error is removed too."""
    outputs = notebook.nb.cells[FAILING].outputs
    assert [output.get("text", output.get("data")) for output in outputs] == [{}, "stopped\n"]


def test_no_warning_reaches_the_notebook(notebook: Watched) -> None:
    """Nothing is on stderr, although every warning is an error: no library warns."""
    errors = [
        output.text
        for cell in notebook.nb.cells
        for output in cell.outputs
        if output.get("name") == "stderr"
    ]
    assert errors == []
