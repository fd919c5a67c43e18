"""Commands in a terminal: confirmation, colours, the progress bar, Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import BIG, PROGRAM, READING, Shell, to

from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

CHANGED = f"id,name,status\n1,Max,available\n,New,sold\n{BIG},Sean,sold\n2,Mia,available\n"


def _sheet(text: str = CHANGED) -> None:
    Path("pets.csv").write_text(text, "utf-8")


def _names(box: Sandbox) -> set[str | None]:
    return {pet.name for pet in box.pets()}


@contextmanager
def _terminal(*args: object, cwd: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a command in a new terminal; yield the terminal's other end and the process."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "90"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [*PROGRAM, *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env
    ) as running:
        os.close(theirs)
        try:
            yield ours, running
        finally:
            os.close(ours)


def _until(end: int, wanted: str = "", seconds: float = 120) -> str:
    """Return the terminal's output until `wanted`, or until the command closes the terminal."""
    seen = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until and (not wanted or wanted.encode() not in seen):
        if select.select([end], [], [], 0.2)[0]:
            try:
                more = os.read(end, 4096)
            except OSError:
                break
            if not more:
                break
            seen += more
    return seen.decode("utf-8", "replace")


def test_terminal_asks_shows_a_bar_and_colours(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """In a terminal the plan is coloured, a confirmation is required, and a progress bar is shown
    and removed before the report.
    """
    _sheet()
    with _terminal("apply", "pets.csv", *to(box), cwd=tmp_path) as (end, running):
        asked = _until(end, "[y/N]")
        assert "\x1b[" in asked
        assert f"Send these 3 changes to {box.url}?" in asked
        assert "Max" not in _names(box)
        box.set_faults("latency=0.8,only=updatePetWithForm+addPet+updatePet")
        os.write(end, b"y\n")
        assert "Write the new ids into pets.csv itself" in _until(end, "[Y/n]")
        os.write(end, b"\n")
        rest = _until(end)
        assert running.wait(120) == 0
    shown = [re.search(r" \d+% \|.*\| [012]/3 changes", line) for line in rest.split("\r")]
    assert any(shown)
    assert "changes" not in rest.rpartition("petsync run")[2]
    assert "Max" in _names(box)
    (new,) = (pet for pet in box.pets() if pet.name == "New")
    assert (tmp_path / "pets.csv").read_text("utf-8") == CHANGED.replace(",New", f"{new.id},New")
    assert len([*tmp_path.glob("pets.backup-*.csv")]) == 1


def test_a_sheet_that_is_open_takes_its_ids_later(
    shell: Shell, box: Sandbox, tmp_path: Path
) -> None:
    """If another program has the sheet open, the command does not offer to write ids. It names the
    command that writes them later, which then works.
    """
    _sheet()
    lock = tmp_path / ".~lock.pets.csv#"
    lock.write_text(",anna,host,22.11.2026 10:00;", "utf-8")
    with _terminal("apply", "pets.csv", *to(box), cwd=tmp_path) as (end, running):
        _until(end, "[y/N]")
        os.write(end, b"y\n")
        shown = re.sub(r"\x1b\[[0-9;]*m|\s+", " ", _until(end))
        assert running.wait(30) == 0
    assert "ids cannot be written into the sheet: pets.csv: LibreOffice has the file" in shown
    assert "`petsync apply pets.csv --write-ids`" in shown
    assert (tmp_path / "pets.csv").read_text("utf-8") == CHANGED
    lock.unlink()
    assert shell("apply", "pets.csv", *to(box), "--write-ids").code == 0
    (new,) = (pet for pet in box.pets() if pet.name == "New")
    assert (tmp_path / "pets.csv").read_text("utf-8") == CHANGED.replace(",New", f"{new.id},New")


@pytest.mark.parametrize("address", ["pets", "file://{}/pets"])
def test_ids_are_not_offered_for_several_files(
    address: str, shell: Shell, box: Sandbox, tmp_path: Path
) -> None:
    """The new ids of a folder, or of an address, are in no sheet and in no results file: the
    command asks once, and names no file that takes them.
    """
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/a.csv").write_text("id,name,status\n,New,sold\n", "utf-8")
    with _terminal("apply", address.format(tmp_path), *to(box), cwd=tmp_path) as (end, running):
        _until(end, "[y/N]")
        os.write(end, b"y\n")
        shown = re.sub(r"\x1b\[[0-9;]*m|\s+", " ", _until(end))
        assert running.wait(60) == 0
    assert "1 applied" in shown
    assert "new ids" not in shown


def test_a_run_that_was_stopped_is_finished_first(
    shell: Shell, box: Sandbox, tmp_path: Path
) -> None:
    """A second apply of the same sheet names the stopped run and completes it before it compares
    the sheet.
    """
    _sheet("name,status\nOne,sold\nTwo,sold\n")
    box.set_faults("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    assert shell("apply", "pets.csv", *to(box), "--yes", *limits).code == 7
    box.set_faults(None)
    again = ("apply", "pets.csv", *to(box), "--settle", "0.2")
    with _terminal(*again, cwd=tmp_path) as (end, running):
        assert "was stopped with 2 of 2" in _until(end, "[Y/n]")
        os.write(end, b"\n")
        assert "In sync" in _until(end)
        assert running.wait(120) == 0
    assert sorted(_names(box) & {"One", "Two"}) == ["One", "Two"]
    assert len(box.pets()) == 8


def test_terminal_no_means_no(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """Any answer but yes sends nothing and exits with 2."""
    _sheet()
    with _terminal("apply", "pets.csv", *to(box), cwd=tmp_path) as (end, running):
        _until(end, "[y/N]")
        os.write(end, b"\n")
        assert "Nothing was sent" in _until(end)
        assert running.wait(120) == 2
    assert set(box.requests) <= READING


def test_interrupt_at_the_question(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """Ctrl-C at the confirmation sends nothing and exits with 130."""
    _sheet()
    with _terminal("apply", "pets.csv", *to(box), cwd=tmp_path) as (end, running):
        _until(end, "[y/N]")
        # Python may handle a signal that arrives just before it blocks only after the next signal.
        for _ in range(24):
            running.send_signal(signal.SIGINT)
            if "interrupted" in _until(end, "interrupted", 5):
                break
        _until(end)
        assert running.wait(120) == 130
    assert set(box.requests) <= READING


def test_an_answer_before_the_question_does_not_count(
    shell: Shell, box: Sandbox, tmp_path: Path
) -> None:
    """What is typed before the plan is shown does not agree to it."""
    _sheet()
    with _terminal("apply", "pets.csv", *to(box), cwd=tmp_path) as (end, running):
        os.write(end, b"y\ny\n")
        _until(end, "[y/N]")
        os.write(end, b"n\n")
        assert "Nothing was sent" in _until(end)
        assert running.wait(120) != 0
    assert set(box.requests) <= READING


def test_no_color_is_obeyed(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """NO_COLOR disables colours in a terminal."""
    _sheet("id,name\n1,Max\n")
    env = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
    ours, theirs = pty.openpty()
    program = [*PROGRAM, "plan", "pets.csv", *to(box)]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, cwd=tmp_path, env=env) as running:
        os.close(theirs)
        shown = _until(ours)
        assert running.wait(120) == 0
    os.close(ours)
    assert "1 to change" in shown
    assert "\x1b[3" not in shown
