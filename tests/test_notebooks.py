"""The notebooks: their saved outputs are what a run produces, each time."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from petsync.samples import sample_data
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
NIGHTLY = next(path for path in NOTEBOOKS if path.name.startswith("06_"))
CHECKED = "nbval-check-output"
_MAKE = runpy.run_path(str(Path(__file__).parents[1] / "notebooks" / "make.py"))
_PASSING = re.compile("|".join(_MAKE["STAND_INS"]))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def _book(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def _code(book: Any) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def _run(book: Any, folder: Path) -> None:
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()


@each_notebook
def test_nbval_compares_what_is_stable(path: Path) -> None:
    """nbval compares every output except pictures and those with a port, a time or a run id; only
    the tour has such outputs outside of forms.
    """
    telling = [cell for cell in _code(_book(path)) if cell.outputs and not _has_picture(cell)]
    passing = [cell for cell in telling if _PASSING.search(json.dumps(cell.outputs))]
    checked = [cell for cell in telling if CHECKED in cell.metadata.get("tags", ())]
    assert len(checked) >= 3
    assert [cell.id for cell in telling if cell not in passing] == [cell.id for cell in checked]
    assert path.name.startswith("01_") or all("ps.widgets." in cell.source for cell in passing)


@each_notebook
def test_every_run_is_saved_alike(path: Path) -> None:
    """Saved ports, times and run ids are fixed values and no output shows an object's address, so
    two runs are saved as the same bytes.
    """
    before, after = _book(path), _book(path)
    for cell in _code(after):
        for output in cell.outputs:
            _MAKE["settle"](output)
    assert after == before
    assert not re.search(r"\bat 0x[0-9a-f]+", json.dumps([cell.outputs for cell in _code(before)]))


def _has_picture(cell: Any) -> bool:
    return any(kind.startswith("image/") for kind in _kinds(cell))


@each_notebook
def test_a_saved_notebook_is_only_the_notebook(path: Path) -> None:
    """A saved notebook has no execution times, no widget state and no machine names."""
    book = _book(path)
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert all(set(cell.metadata) <= {"tags"} for cell in book.cells)
    assert not any("widget-view" in kind for cell in _code(book) for kind in _kinds(cell))


@each_notebook
def test_a_form_can_be_used_after_run_all(path: Path) -> None:
    """The last cell of a notebook with a form shows the form, so nothing closes its store."""
    sources = [cell.source for cell in _code(_book(path))]
    if forms := [source for source in sources if "ps.widgets." in source]:
        assert forms == sources[-1:]
        assert not any("store.close()" in source or ".stop()" in source for source in sources)


def _kinds(cell: Any) -> list[str]:
    return [kind for output in cell.outputs for kind in output.get("data", {})]


def test_a_story_opens_with_what_one_will_be_able_to_do() -> None:
    """Every notebook after the tour begins with a list of what the reader can do at its end, and
    ends with links to the next steps.
    """
    for path in NOTEBOOKS[1:]:
        result = [cell.source for cell in _book(path).cells if cell.cell_type == "markdown"]
        assert result[0].startswith("# "), path.name
        assert "At the end of this notebook you can" in " ".join(result[0].split()), path.name
        assert result[0].count("\n- ") >= 3, path.name
        assert "## Where to go next" in result[-1], path.name


def _nightly_notebook(**parameters: object) -> Any:
    """Return the nightly notebook up to the end of the night, with other parameters in a new cell
    behind the tagged one, as papermill inserts them.
    """
    book = _book(NIGHTLY)
    end = next(number for number, cell in enumerate(book.cells) if cell.id == "bad-text")
    book.cells = book.cells[:end]
    (place,) = (
        number
        for number, cell in enumerate(book.cells)
        if "parameters" in cell.metadata.get("tags", ())
    )
    source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    injected = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
    book.cells.insert(place + 1, injected)
    return book


def test_the_nightly_notebook_takes_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another workbook and service, the nightly notebook updates that service and writes its
    results into the given folder.
    """
    results = tmp_path / "results"
    results.mkdir()
    with Sandbox(seed=sample_data() / "store.json") as box:
        monkeypatch.setenv("PETSYNC_TOKEN", box.token())
        monkeypatch.setenv("PETSYNC_API_KEY", box.api_key)
        arrivals = str(sample_data() / "new_arrivals.csv")
        _run(_nightly_notebook(workbook=arrivals, service=box.url, results=str(results)), tmp_path)
        assert len(box.pets()) == 1300
    assert {"results.csv", "waiting.csv"} <= {path.name for path in results.iterdir()}


def test_the_nightly_notebook_sends_nothing_that_the_guard_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night whose plan exceeds a limit of the guard ends with an error, and the store is
    unchanged.
    """
    with Sandbox(seed=sample_data() / "store.json") as box:
        monkeypatch.setenv("PETSYNC_TOKEN", box.token())
        monkeypatch.setenv("PETSYNC_API_KEY", box.api_key)
        before = box.pets()
        with pytest.raises(CellExecutionError, match="230 updates are more than"):
            _run(_nightly_notebook(service=box.url, max_update=0.05), tmp_path)
        assert box.pets() == before
