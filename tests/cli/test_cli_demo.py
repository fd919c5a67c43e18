"""petsync demo: the main workflow in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Done, Shell, finished

from petsync import load_plan

pytestmark = pytest.mark.slow

FILES = ["catalogue.results.xlsx", "catalogue.xlsx", "plan.html", "plan.json", "report.html"]


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_demo_from_nothing(shell: Shell, tmp_path: Path) -> None:
    """In an empty folder and without settings, the demo shows numbered steps, a plan and a run, and
    ends in sync.
    """
    done = finished("demo")
    assert done.code == 0
    for step in range(1, 6):
        assert f"\n{step}. " in done.err
    assert "to add" in done.out
    assert "applied" in done.out
    assert "In sync" in done.err
    assert "petsync undo" in done.out
    assert "Such commands are for another store: this one ends with the demo." in done.err
    assert "Traceback" not in done.err
    assert _files(tmp_path / "petsync-demo") == FILES
    _says_what_is_left(done)


def _says_what_is_left(done: Done) -> None:
    """Assert that rows with mistakes and conflicts are reported beside "in sync"."""
    assert "28 rows with mistakes" in done.err
    assert "1 row in conflict" in done.err


def test_demo_as_json(shell: Shell) -> None:
    """With --json the counts are one document: the second plan has nothing to send."""
    done = shell("demo", "--json", "--keep", "kept")
    assert done.code == done.json["exit_code"] == 0
    assert done.json["planned"]["adds"] > 50
    assert done.json["applied"]["unknown"] == 0
    again = done.json["planned_again"]
    assert (again["adds"], again["updates"], again["deletes"]) == (0, 0, 0)
    assert done.json["files"] == FILES == _files(Path("kept"))
    assert len(load_plan("kept/plan.json").changes) == done.json["applied"]["applied"]


def test_live_profile(shell: Shell) -> None:
    """The demo also ends in sync with a store that behaves as the public one."""
    assert shell("demo", "--profile", "live", "--json").json["planned_again"]["adds"] == 0


def test_demo_overwrites_nothing(shell: Shell, tmp_path: Path) -> None:
    """An existing folder stays unchanged: the demo creates another, and refuses a --keep folder
    that is not empty.
    """
    (tmp_path / "petsync-demo").mkdir()
    (tmp_path / "petsync-demo" / "report.html").write_text("mine", "utf-8")
    done = shell("demo", "--json")
    assert done.json["folder"] == "petsync-demo-2"
    assert (tmp_path / "petsync-demo" / "report.html").read_text("utf-8") == "mine"
    refused = shell("demo", "--keep", "petsync-demo")
    assert refused.code == 64
    assert "the folder is not empty" in refused.err


def test_demo_has_its_own_store(shell: Shell) -> None:
    """The demo uses its own store: an address is refused, and no file is written."""
    assert shell("demo", "--url", "http://127.0.0.1:1/v2").code == 64
    assert not list(Path().iterdir())


def test_folder_that_cannot_be_made(shell: Shell) -> None:
    """A folder that cannot be created is reported, with the fix."""
    Path("file").write_text("", "utf-8")
    done = shell("demo", "--keep", "file/folder")
    assert done.code == 1
    assert "file/folder" in done.err
    assert "--keep" in done.err
