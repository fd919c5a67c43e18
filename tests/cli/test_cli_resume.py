"""`petsync resume`, and how a run that was stopped tells the way there."""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Shell, finished, process

from petsync.model import Pet
from petsync.sandbox import Sandbox

PETS = 200


@pytest.fixture
def shop() -> Any:
    """A store without a token, slow enough to be interrupted."""
    pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, PETS + 1)]
    with Sandbox(auth=False, pets=pets, faults="latency=0.05") as box:
        yield box


def _begun(box: Sandbox, *more: str) -> Any:
    """An apply of a change to each pet, of which some are done."""
    rows = "".join(f"{n},new {n}\n" for n in range(1, PETS + 1))
    Path("pets.csv").write_text(f"id,name\n{rows}", "utf-8")
    args = ["pets.csv", "--url", box.url, "--yes", "--max-update", "100%", "--concurrency", "2"]
    running = process("apply", *args, *more)
    while box.requests["updatePetWithForm"] < 6:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def test_a_killed_run_is_finished(shell: Shell, shop: Sandbox) -> None:
    """The newest run that has anything left, without its name, and without a question."""
    with _begun(shop) as running:
        running.kill()
    shop.break_with(None)
    done = shell("resume", "--url", shop.url, "--json")
    assert done.code == 0
    assert done.json["counts"]["applied"] == PETS
    assert {pet.name for pet in shop.pets()} == {f"new {n}" for n in range(1, PETS + 1)}
    assert 0 <= shop.requests["updatePetWithForm"] - PETS <= 2
    again = shell("resume", "--url", shop.url)
    assert again.code == 1
    assert "is to be resumed" in again.err


def test_a_run_at_work_is_left_alone(shell: Shell, shop: Sandbox) -> None:
    """The second of two gets 6, and says which process is the first."""
    with _begun(shop) as running:
        second = shell("resume", "--url", shop.url)
        assert second.code == 6
        assert str(running.pid) in second.err
        running.kill()


def test_a_journal_that_somebody_keeps_locked_does_not_hold_ctrl_c(
    shell: Shell, shop: Sandbox
) -> None:
    """It ends as soon as ever, and the resume finds out what it could not write down."""
    running = _begun(shop)
    with running, closing(sqlite3.connect(".petsync/journal.db", isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 10000")
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=15) == 7
        assert time.monotonic() - begun < 6
        other.execute("ROLLBACK")
    shop.break_with(None)
    assert shell("resume", "--url", shop.url).code == 0
    assert {pet.name for pet in shop.pets()} == {f"new {n}" for n in range(1, PETS + 1)}


def test_a_second_ctrl_c_names_the_run(shop: Sandbox, shell: Shell) -> None:
    """A script can resume just that one."""
    shop.break_with("latency=3,only=updatePetWithForm")
    with _begun_slowly(shop) as running:
        for _ in range(2):
            running.send_signal(signal.SIGINT)
            time.sleep(0.3)
        _, err = running.communicate(timeout=15)
    run_id = shell("runs", "--url", shop.url, "--json").json["runs"][0]["run_id"]
    assert running.returncode == 7
    assert f"run {run_id} was" in err
    assert f"petsync resume {run_id}" in err
    assert "Unclosed" not in err


def _begun_slowly(box: Sandbox) -> Any:
    Path("pets.csv").write_text("id,name\n1,new\n2,new\n", "utf-8")
    running = process("apply", "pets.csv", "--url", box.url, "--yes", "--max-update", "100%")
    while not box.requests["updatePetWithForm"]:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def test_only_runs_of_this_store_are_resumed(shell: Shell, shop: Sandbox) -> None:
    """A run on another store is named, with the way there."""
    with _begun(shop) as running:
        running.kill()
    run_id = shell("runs", "--json").json["runs"][0]["run_id"]
    with Sandbox(auth=False) as other:
        done = finished("resume", run_id, "--url", other.url)
        assert done.code == 1
        assert f"--url {shop.url}" in " ".join(done.err.split())
        assert not other.requests


def _stopped(shell: Shell, box: Sandbox) -> str:
    """An apply of three new rows that stopped at the first: the id of its run."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\nThree,sold\n", "utf-8")
    box.break_with("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    done = shell("apply", "pets.csv", "--url", box.url, "--yes", *limits)
    assert done.code == 7
    box.break_with(None)
    return re.findall(r"petsync resume (\d[\w-]+)", " ".join((done.out + done.err).split()))[-1]


@pytest.mark.parametrize("edited", [False, True])
def test_the_same_sheet_applied_again_doubles_nothing(
    shell: Shell, shop: Sandbox, edited: bool
) -> None:
    """The stopped run is named, and its resume adds nothing that the later run has added, also
    where the sheet was edited in between.
    """
    run = _stopped(shell, shop)
    text = Path("pets.csv").read_text("utf-8")
    Path("pets.csv").write_text(text.replace("Two,sold", "Two,pending") if edited else text)
    again = shell("apply", "pets.csv", "--url", shop.url, "--yes")
    assert f"petsync resume {run}" in " ".join(again.err.split())
    shell("resume", run, "--url", shop.url)
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    names = [pet.name for pet in shop.pets()]
    assert [names.count(name) for name in ("One", "Two", "Three")] == [1, 1, 1]
    assert shell("plan", "pets.csv", "--url", shop.url, "--exit-code").code == 0
