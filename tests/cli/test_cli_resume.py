"""`petsync resume`, and the messages of a stopped run that lead to it."""

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
    """Yield a store without tokens that is slow enough for an interrupt."""
    pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, PETS + 1)]
    with Sandbox(auth=False, pets=pets, faults="latency=0.05") as box:
        yield box


def _deleting(box: Sandbox) -> Any:
    """Start an apply that deletes each pet but one, and return it after some deletes."""
    rows = "".join(f"{n},delete\n" for n in range(2, PETS + 1))
    Path("pets.csv").write_text(f"id,action\n{rows}", "utf-8")
    args = ["pets.csv", "--url", box.url, "--yes", "--max-delete", "100%", "--concurrency", "2"]
    running = process("apply", *args)
    while box.requests["deletePet"] < 6:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def _patient(*args: str) -> subprocess.Popen[str]:
    """Start a command that waits up to an hour for a locked journal."""
    code = (
        "from petsync.apply.journal import writer\nfrom petsync.cli import main\n"
        "writer.LOCK_TIMEOUT_S = 3600\nmain()"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *args], text=True, **pipes)


def _start_apply(box: Sandbox, *more: str, start: Callable[..., Any] = process) -> Any:
    """Start an apply that renames each pet, and return it after some updates."""
    rows = "".join(f"{n},new {n}\n" for n in range(1, PETS + 1))
    Path("pets.csv").write_text(f"id,name\n{rows}", "utf-8")
    args = ["pets.csv", "--url", box.url, "--yes", "--max-update", "100%", "--concurrency", "2"]
    running = start("apply", *args, *more)
    while box.requests["updatePetWithForm"] < 6:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def test_a_killed_run_is_finished(shell: Shell, shop: Sandbox) -> None:
    """`resume` without an id completes the newest incomplete run, without a confirmation."""
    with _start_apply(shop) as running:
        running.kill()
    shop.set_faults(None)
    done = shell("resume", "--url", shop.url, "--json")
    assert done.code == 0
    assert done.json["counts"]["applied"] == PETS
    assert {pet.name for pet in shop.pets()} == {f"new {n}" for n in range(1, PETS + 1)}
    assert 0 <= shop.requests["updatePetWithForm"] - PETS <= 2
    again = shell("resume", "--url", shop.url)
    assert again.code == 1
    assert "can be resumed" in again.err


def test_a_run_at_work_is_left_alone(shell: Shell, shop: Sandbox) -> None:
    """A resume of a run that is still at work exits with 6 and names its process."""
    with _start_apply(shop) as running:
        second = shell("resume", "--url", shop.url)
        assert second.code == 6
        assert str(running.pid) in second.err
        running.kill()


def test_a_journal_that_somebody_keeps_locked_does_not_hold_ctrl_c(
    shell: Shell, shop: Sandbox
) -> None:
    """A stop does not wait for a locked journal; the resume determines what was not recorded."""
    running = _start_apply(shop, start=_patient)
    with running, closing(sqlite3.connect(".petsync/journal.db", isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 10000")
        other.execute("BEGIN IMMEDIATE")
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=120) == 7
        other.execute("ROLLBACK")
    shop.set_faults(None)
    assert shell("resume", "--url", shop.url).code == 0
    assert {pet.name for pet in shop.pets()} == {f"new {n}" for n in range(1, PETS + 1)}


def test_a_second_ctrl_c_names_the_run(shop: Sandbox, shell: Shell) -> None:
    """After a second Ctrl-C the error names the run, so that a script can resume it."""
    shop.set_faults("latency=3,only=updatePetWithForm")
    with _start_slow_apply(shop) as running:
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
    """The guard counts the pets before the run starts. Ctrl-C while the service delays this count
    exits with 130; the plan can still be applied, and the run of another process is not named.
    """
    rows = "".join(f"{n},new {n}\n" for n in range(1, 16))
    Path("other.csv").write_text(f"id,name\n{rows}", "utf-8")
    with Sandbox(auth=False, pets=shop.pets()[:60]) as other:
        to = ("--url", other.url)
        assert shell("plan", "other.csv", "-o", "plan.json", *to).code == 0
        other.set_faults("429=1,only=findPetsByStatus,retry_after=100")
        asked = other.requests["findPetsByStatus"]
        with _start_apply(shop) as foreign, process("apply", "plan.json", "--yes", *to) as running:
            while other.requests["findPetsByStatus"] == asked:
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(signal.SIGINT)
            # Less than the 100 s that the service asks for.
            _, err = running.communicate(timeout=60)
            assert foreign.poll() is None
            foreign.kill()
        assert running.returncode == 130
        assert "petsync resume" not in err
        assert not other.requests["updatePetWithForm"]
        other.set_faults(None)
        assert shell("apply", "plan.json", "--yes", *to).code == 0


def _start_slow_apply(box: Sandbox) -> Any:
    Path("pets.csv").write_text("id,name\n1,new\n2,new\n", "utf-8")
    running = process("apply", "pets.csv", "--url", box.url, "--yes", "--max-update", "100%")
    while not box.requests["updatePetWithForm"]:
        assert running.poll() is None
        time.sleep(0.02)
    return running


def test_a_complete_run_writes_only_what_is_missing(shell: Shell, shop: Sandbox) -> None:
    """A resume of a complete run sends nothing and makes no backup. It writes the results file if
    it is missing, or another one if it is named, also after the sheet was edited.
    """
    shop.reset([])
    to = ("--url", shop.url)
    Path("pets.csv").write_text("name,status\nRex,sold\n", "utf-8")
    assert shell("apply", "pets.csv", *to, "--yes", "--write-ids").code == 0
    written, sent = set(Path().iterdir()), shop.requests.total()
    content = Path("pets.csv").read_bytes()
    again = shell("resume", "last", *to)
    assert again.code == 0
    assert "is complete: nothing is left to send" in " ".join(again.err.split())
    assert "backup" not in again.err
    assert (set(Path().iterdir()), Path("pets.csv").read_bytes()) == (written, content)
    assert shop.requests["addPet"] == 1
    assert shop.requests.total() <= sent + 3
    Path("pets.results.csv").unlink()
    assert shell("resume", "last", *to).code == 0
    assert set(Path().iterdir()) == written
    assert shell("resume", "last", *to, "--results", "mine.csv").code == 0
    assert set(Path().iterdir()) == {*written, Path("mine.csv")}
    Path("pets.csv").write_bytes(content + b"9,Bo,sold\r\n")
    edited = shell("resume", "last", *to)
    assert (edited.code, "error" in edited.err) == (0, False)
    assert set(Path().iterdir()) == {*written, Path("mine.csv")}


def test_only_runs_of_this_store_are_resumed(shell: Shell, shop: Sandbox) -> None:
    """A run on another store is not resumed; the error names its store."""
    with _start_apply(shop) as running:
        running.kill()
    run_id = shell("runs", "--json").json["runs"][0]["run_id"]
    with Sandbox(auth=False) as other:
        done = finished("resume", run_id, "--url", other.url)
        assert done.code == 1
        assert f"--url {shop.url}" in " ".join(done.err.split())
        assert not other.requests


def _stopped(shell: Shell, box: Sandbox) -> str:
    """Stop an apply of three new rows at the first; return the id of its run."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\nThree,sold\n", "utf-8")
    box.set_faults("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    done = shell("apply", "pets.csv", "--url", box.url, "--yes", *limits)
    assert done.code == 7
    box.set_faults(None)
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
    """A second apply of the sheet names the stopped run, and the resume of that run adds no pet
    that the second run added, even if the sheet was edited. It exits with 0 if each row is known to
    have its pet.
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
    """A resume of the stopped run does not add the old values of rows that a later run added."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\n", "utf-8")
    shop.set_faults("429=1,only=addPet,retry_after=600")
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes").code == 7
    shop.set_faults(None)
    run = shell("runs", "--url", shop.url, "--json").json["runs"][0]["run_id"]
    Path("pets.csv").write_text("name,status\nOne,pending\nTwo,pending\n", "utf-8")
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    shell("resume", run, "--url", shop.url, "--settle", "0.1")
    shell("apply", "pets.csv", "--url", shop.url, "--yes")
    added = [(pet.name, pet.status) for pet in shop.pets()[PETS:]]
    assert sorted(added) == [("One", "pending"), ("Two", "pending")]


CUT_OFF = "id,name,status\n901,One,sold\n,Two,sold\n,Three,sold\n"


def _cut_off(shell: Shell, box: Sandbox) -> str:
    """Return the id of a run that added One, got no answer for Two, and did not reach Three."""
    Path("pets.csv").write_text(CUT_OFF, "utf-8")
    box.set_faults("drop_after=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    assert shell("apply", "pets.csv", "--url", box.url, "--yes", *limits).code == 7
    box.set_faults(None)
    assert [pet.name for pet in box.pets()[PETS:]] == ["One", "Two"]
    return str(shell("runs", "--url", box.url, "--json").json["runs"][0]["run_id"])


@pytest.mark.parametrize("arrived", [True, False])
def test_an_undone_run_is_never_sent_again(shell: Shell, shop: Sandbox, arrived: bool) -> None:
    """Resume determines the unknown changes of an undone run, as undo and resume suggest, and sends
    no change; then these changes can be undone too.
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
    """A killed run of updates or deletes is undone; the resume determines its unknown changes and
    sends none.
    """
    before = {pet.id: pet.name for pet in shop.pets()}
    with _start_apply(shop) if kind == "update" else _deleting(shop) as running:
        running.kill()
    shop.set_faults(None)
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


def test_a_resume_counts_one_change(shell: Shell, shop: Sandbox) -> None:
    """A resume of a run with one change says so in the singular."""
    Path("pets.csv").write_text("name,status\nOne,sold\n", "utf-8")
    shop.set_faults("503=1,only=addPet")
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes").code != 0
    shop.set_faults(None)
    assert ": 1 change in all." in " ".join(shell("resume", "--url", shop.url).err.split())


def test_a_sentinel_that_changed_is_refused_first(shell: Shell, shop: Sandbox) -> None:
    """A changed sentinel is refused before the resume starts, and nothing is sent."""
    Path("pets.csv").write_text("name,status\nOne,sold\nTwo,sold\n", "utf-8")
    shop.set_faults("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1", "--sentinel", "7")
    assert shell("apply", "pets.csv", "--url", shop.url, "--yes", *limits).code != 0
    shop.set_faults(None)
    shop.put(Pet(id=7, name="Changed", status="sold"))
    sent = shop.requests["addPet"]
    done = shell("resume", "--url", shop.url)
    assert done.code == 4
    assert "the guard refuses" in done.err
    assert "Resuming" not in done.err
    assert shop.requests["addPet"] == sent
