"""`petsync resume`, and how a run that was stopped tells the way there."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Shell, finished, process

from petsync.models import Pet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

PETS = 200


@pytest.fixture
def shop() -> Any:
    """A store without a token, slow enough to be interrupted."""
    pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, PETS + 1)]
    with Sandbox(auth=False, pets=pets, faults="latency=0.05") as box:
        yield box


def _deleting(box: Sandbox) -> Any:
    """An apply that deletes each pet but one, of which some are gone."""
    rows = "".join(f"{n},delete\n" for n in range(2, PETS + 1))
    Path("pets.csv").write_text(f"id,action\n{rows}", "utf-8")
    args = ["pets.csv", "--url", box.url, "--yes", "--max-delete", "100%", "--concurrency", "2"]
    running = process("apply", *args)
    while box.requests["deletePet"] < 6:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def _patient(*args: str) -> subprocess.Popen[str]:
    """A command that waits an hour for a journal that others keep locked."""
    code = (
        "from petsync.apply.journal import writer\nfrom petsync.cli import main\n"
        "writer.LOCK_TIMEOUT_S = 3600\nmain()"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *args], text=True, **pipes)


def _begun(box: Sandbox, *more: str, start: Callable[..., Any] = process) -> Any:
    """An apply of a change to each pet, of which some are done."""
    rows = "".join(f"{n},new {n}\n" for n in range(1, PETS + 1))
    Path("pets.csv").write_text(f"id,name\n{rows}", "utf-8")
    args = ["pets.csv", "--url", box.url, "--yes", "--max-update", "100%", "--concurrency", "2"]
    running = start("apply", *args, *more)
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
    assert "can be resumed" in again.err


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
    """It ends without waiting, and the resume finds out what it could not write down."""
    running = _begun(shop, start=_patient)
    with running, closing(sqlite3.connect(".petsync/journal.db", isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 10000")
        other.execute("BEGIN IMMEDIATE")
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=120) == 7
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
        _, err = running.communicate(timeout=120)
    run_id = shell("runs", "--url", shop.url, "--json").json["runs"][0]["run_id"]
    assert running.returncode == 7
    assert f"run {run_id} was" in err
    assert f"petsync resume {run_id}" in err
    assert "Unclosed" not in err


def test_ctrl_c_while_the_store_is_counted_again(shell: Shell, shop: Sandbox) -> None:
    """The guard counts the pets before anything is begun. Where the service has it wait for that,
    the command ends with 130, the plan stays unused, and no other process's run is named.
    """
    rows = "".join(f"{n},new {n}\n" for n in range(1, 16))
    Path("other.csv").write_text(f"id,name\n{rows}", "utf-8")
    with Sandbox(auth=False, pets=shop.pets()[:60]) as other:
        to = ("--url", other.url)
        assert shell("plan", "other.csv", "-o", "plan.json", *to).code == 0
        other.break_with("429=1,only=findPetsByStatus,retry_after=100")
        asked = other.requests["findPetsByStatus"]
        with _begun(shop) as foreign, process("apply", "plan.json", "--yes", *to) as running:
            while other.requests["findPetsByStatus"] == asked:
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(signal.SIGINT)
            # Before the 100 s that the service asks for.
            _, err = running.communicate(timeout=60)
            assert foreign.poll() is None
            foreign.kill()
        assert running.returncode == 130
        assert "petsync resume" not in err
        assert not other.requests["updatePetWithForm"]
        other.break_with(None)
        assert shell("apply", "plan.json", "--yes", *to).code == 0


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


EDITS = {
    "nothing": ("Two,sold", "Two,sold"),
    "status": ("Two,sold", "Two,pending"),
    "name": ("Two,sold", "Another,sold"),
}


@pytest.mark.parametrize("edited", EDITS)
def test_the_same_sheet_applied_again_doubles_nothing(
    shell: Shell, shop: Sandbox, edited: str
) -> None:
    """The stopped run is named, and its resume adds nothing that the later run has added, also
    where the sheet was edited in between. It ends well where each row is known to have its pet.
    """
    run = _stopped(shell, shop)
    text = Path("pets.csv").read_text("utf-8").replace(*EDITS[edited])
    Path("pets.csv").write_text(text, "utf-8")
    again = shell("apply", "pets.csv", "--url", shop.url, "--yes")
    assert f"petsync resume {run}" in " ".join(again.err.split())
    resumed = shell("resume", run, "--url", shop.url, "--settle", "0.1")
    assert resumed.code == (5 if edited == "name" else 0)
    assert shell("resume", "--url", shop.url).code == 1
    assert "petsync resume" not in shell("runs", "--url", shop.url).err
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    names = [pet.name for pet in shop.pets()]
    wanted = ("One", "Another" if edited == "name" else "Two", "Three")
    assert [names.count(name) for name in wanted] == [1, 1, 1]
    assert len(names) == PETS + 3
    assert shell("plan", "pets.csv", "--url", shop.url, "--exit-code").code == 0


def test_a_refused_row_that_was_corrected_is_not_added_by_the_first_run(
    shell: Shell, shop: Sandbox
) -> None:
    """The run that the service refused it in is not done, and may be resumed afterwards."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\n", "utf-8")
    shop.break_with("429=1,only=addPet,retry_after=600")
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes").code == 7
    shop.break_with(None)
    run = shell("runs", "--url", shop.url, "--json").json["runs"][0]["run_id"]
    Path("pets.csv").write_text("name,status\nOne,pending\nTwo,pending\n", "utf-8")
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    shell("resume", run, "--url", shop.url, "--settle", "0.1")
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    added = [(pet.name, pet.status) for pet in shop.pets()[PETS:]]
    assert sorted(added) == [("One", "pending"), ("Two", "pending")]


CUT_OFF = "id,name,status\n901,One,sold\n,Two,sold\n,Three,sold\n"


def _cut_off(shell: Shell, box: Sandbox) -> str:
    """A run that added One, got no answer when it added Two, and did not come to Three: its id."""
    Path("pets.csv").write_text(CUT_OFF, "utf-8")
    box.break_with("drop_after=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    assert shell("apply", "pets.csv", "--url", box.url, "--yes", *limits).code == 7
    box.break_with(None)
    assert [pet.name for pet in box.pets()[PETS:]] == ["One", "Two"]
    return str(shell("runs", "--url", box.url, "--json").json["runs"][0]["run_id"])


@pytest.mark.parametrize("arrived", [True, False])
def test_an_undone_run_is_never_sent_again(shell: Shell, shop: Sandbox, arrived: bool) -> None:
    """What nobody knows of it is found out, by the way that the undo and resume name, and can then
    be undone too.
    """
    run = _cut_off(shell, shop)
    if not arrived:
        shop.reset([pet for pet in shop.pets() if pet.name != "Two"])
    undo = ("undo", run, "--url", shop.url, "--yes", "--max-delete", "100%")
    undone = shell(*undo)
    assert undone.code == 5
    assert f"`petsync resume {run}` determines" in " ".join(undone.err.split())
    adds = shop.requests["addPet"]
    plain = shell("resume", "--url", shop.url)
    assert plain.code == 1
    assert f"`petsync resume {run}` determines it" in " ".join(plain.err.split())
    assert f"petsync resume {run}" in " ".join(shell("runs", "--url", shop.url).err.split())
    found = shell("resume", run, "--url", shop.url, "--settle", "0.1", "--json")
    assert found.code == 0
    assert [pet.name for pet in shop.pets()[PETS:]] == ["Two"] * arrived
    assert found.json["counts"]["unknown"] == 0
    assert shell(*undo).code == 0
    assert len(shop.pets()) == PETS
    again = shell("resume", run, "--url", shop.url)
    assert again.code == 1
    assert "was undone" in again.err
    assert "determines it" not in shell("resume", "--url", shop.url).err
    assert shop.requests["addPet"] == adds
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes").code == 0
    assert sorted(pet.name or "" for pet in shop.pets()[PETS:]) == ["One", "Three", "Two"]


@pytest.mark.parametrize("kind", ["update", "delete"])
def test_changes_under_way_of_an_undone_run_are_found_out(
    shell: Shell, shop: Sandbox, kind: str
) -> None:
    """Killed in the middle, a run of changes to known pets is undone, and nothing more is sent."""
    before = {pet.id: pet.name for pet in shop.pets()}
    with _begun(shop) if kind == "update" else _deleting(shop) as running:
        running.kill()
    shop.break_with(None)
    run = shell("runs", "--url", shop.url, "--json").json["runs"][0]["run_id"]
    limits = ("--max-update", "100%", "--max-add", "100%")
    assert shell("undo", run, "--url", shop.url, "--yes", *limits).code in (0, 5)
    sent = shop.requests["updatePetWithForm"], shop.requests["deletePet"]
    entries = shell("runs", run, "--url", shop.url, "--json").json["counts"]
    found = shell("resume", run, "--url", shop.url, "--settle", "0.1", "--json")
    assert found.code == (0 if entries["unknown"] else 1)
    assert (shop.requests["updatePetWithForm"], shop.requests["deletePet"]) == sent
    assert shell("undo", run, "--url", shop.url, "--yes", *limits).code == 0
    assert {pet.id: pet.name for pet in shop.pets()} == before


def test_a_sentinel_that_changed_is_refused_first(shell: Shell, shop: Sandbox) -> None:
    """Nothing says that the run is resumed, and nothing of it is sent."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\n", "utf-8")
    shop.break_with("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1", "--sentinel", "7")
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes", *limits).code != 0
    shop.break_with(None)
    shop.put(Pet(id=7, name="Changed", status="sold"))
    sent = shop.requests["addPet"]
    done = shell("resume", "--url", shop.url)
    assert done.code == 4
    assert "the guard refuses" in done.err
    assert "Resuming" not in done.err
    assert shop.requests["addPet"] == sent
