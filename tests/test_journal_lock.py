"""One run at a time on a store: the lock, its heartbeat, and the takeover of a dead
holder's lock.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from journals import STORE, begin_run, intended, other_process, small_plan

from petsync.apply.journal import Journal
from petsync.apply.journal.schema import Lock
from petsync.errors import LockedError
from petsync.plan.report import Entry, PastRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's"),
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state folder that does not exist yet."""
    return tmp_path / "state"


def altered(state: Path, text: str, *values: object) -> None:
    """Change the lock directly in the database."""
    with closing(sqlite3.connect(state / "journal.db", timeout=120)) as connection, connection:
        assert connection.execute(f"UPDATE lock SET {text}", values).rowcount == 1


def heartbeat(state: Path) -> float:
    """Return the time of the holder's last heartbeat."""
    with closing(sqlite3.connect(state / "journal.db", timeout=120)) as connection:
        (beat,) = connection.execute("SELECT heartbeat FROM lock").fetchone()
    return float(beat)


def past(state: Path, run: str = "first") -> PastRun:
    """Return a run in the journal."""
    return Journal.open(state, create=False).find(run)


async def sat(state: Path, run: str = "second") -> None:
    """Open a session of a run, and finish it."""
    journal = Journal.open(state, create=True)
    known = [each.run_id for each in journal.runs()]
    session = journal.resume(run) if run in known else begin_run(journal, run)
    await session.finish()
    await session.close()


def test_a_second_run_on_the_same_store_is_locked_out(state: Path) -> None:
    """A second run on the same store is refused, and the error names the holder, its start and the
    command to resume.
    """
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        with pytest.raises(LockedError) as caught:
            asyncio.run(sat(state))
        result = str(caught.value)
        assert f"run first is working on {STORE}: process {other.process.pid} on " in result
        assert "since 20" in result
        assert 'store.resume("first")' in result
        assert caught.value.exit_code == 6
        with pytest.raises(LockedError):
            asyncio.run(sat(state, "first"))
        assert (past(state).state, past(state).sessions) == ("running", 1)
        assert [run.run_id for run in Journal.open(state, create=False).runs()] == ["first"]
        assert other.ask("finish") == other.ask("close") == "ok"
        assert past(state).state == "done"
        asyncio.run(sat(state))


def test_a_second_run_of_the_same_process_is_locked_out(state: Path) -> None:
    """A second run of the same process is refused too."""

    async def work() -> None:
        journal = Journal.open(state, create=True)
        first = begin_run(journal, "first")
        with pytest.raises(LockedError, match="run first is working on"):
            begin_run(journal, "second")
        with pytest.raises(LockedError, match="run first is working on"):
            journal.resume("first")
        await first.close()
        await journal.resume("first").close()

    asyncio.run(work())


def test_a_run_with_another_state_folder_is_locked_out(state: Path, tmp_path: Path) -> None:
    """A second run on the same store is refused while a run of the same user with another state
    folder works on it, and the error names that folder. A killed run leaves no lock.
    """
    elsewhere = tmp_path / "elsewhere"
    with other_process(elsewhere, "first") as other:
        assert other.answer() == "sat"
        with pytest.raises(LockedError, match=f"another run is working on {STORE}, with") as caught:
            asyncio.run(sat(state))
        assert caught.value.exit_code == 6
        assert not list(Journal.open(state, create=False).runs())
        with other_process(state, "theirs", store="http://other.example") as third:
            assert third.answer() == "sat"
        other.process.send_signal(signal.SIGKILL)
        other.process.wait()
    asyncio.run(sat(state))
    with other_process(elsewhere, "second") as other:
        assert other.answer() == "sat"


def test_of_two_runs_that_begin_at_once_in_two_folders_one_goes_on(tmp_path: Path) -> None:
    """Of two runs that begin at the same time with different state folders, exactly one works on
    the store.
    """
    for number in range(3):
        folders = [tmp_path / f"{number}{name}" for name in "ab"]
        with other_process(folders[0], "one") as one, other_process(folders[1], "two") as two:
            answers = sorted([one.answer(), two.answer()])
        assert answers[-1] == "sat"
        assert "another run is working on" in answers[0]


def test_runs_on_two_stores_do_not_lock_each_other_out(state: Path) -> None:
    """Two processes with runs on different stores write to one journal at the same time."""
    plan = small_plan()

    async def work() -> None:
        with other_process(state, "theirs", store="http://other.example") as other:
            assert other.answer() == "sat"
            other.tell("race")
            session = begin_run(Journal.open(state, create=True), "mine", total=200)
            number, theirs = 0, list[Entry]()
            while number < 200 or len(theirs) < 6:
                await intended(session, number, plan.changes[number % 6])
                number += 1
                if number % 200 == 0:
                    theirs = list(Journal.open(state, create=False).entries("theirs"))
                    assert number < 100_000, "the other process got nowhere"
            await session.finish()
            await session.close()

    asyncio.run(work())
    journal = Journal.open(state, create=False)
    assert len(list(journal.entries("mine"))) >= 200
    assert len(list(journal.entries("theirs"))) > 5


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")
def test_a_killed_holders_lock_is_taken_over_at_once(state: Path) -> None:
    """The lock of a killed process is taken over at once, even if its parent has not
    waited for it.
    """
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        assert other.ask("intend", 0) == other.ask("intend", 1) == other.ask("done", 1) == "ok"
        other.process.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 120
        while past(state).state == "running" and time.monotonic() < deadline:
            time.sleep(0.01)
        # The process is still a zombie, because its parent has not waited for it.
        asyncio.run(sat(state))
        killed = past(state)
    assert (killed.state, killed.stopped) == ("stopped", "killed")
    assert killed.ended >= killed.started
    assert (killed.open, killed.counts["applied"]) == (1, 1)
    asyncio.run(sat(state, "first"))
    assert (past(state).state, past(state).sessions) == ("done", 2)


def test_a_killed_run_is_reported_as_killed(state: Path) -> None:
    """A killed run is listed as stopped even before another process takes over."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        assert past(state).state == "running"
    killed = past(state)
    assert (killed.state, killed.stopped, killed.sessions) == ("stopped", "killed", 1)
    assert killed.ended


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")
def test_another_process_with_the_same_number_holds_nothing(state: Path) -> None:
    """A process with a reused id does not hold the lock: its start time differs."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
    altered(state, "pid = ?", os.getpid())
    asyncio.run(sat(state))


def test_the_lock_of_another_host_is_left_to_it_until_it_is_silent(state: Path) -> None:
    """The lock of another host is held until its heartbeat stops."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
    altered(state, "machine = 'elsewhere', host = 'elsewhere', heartbeat = ?", time.time() - 15)
    assert past(state).state == "running"
    with pytest.raises(LockedError, match="on elsewhere"):
        asyncio.run(sat(state))
    altered(state, "heartbeat = heartbeat - 6")
    assert past(state).state == "stopped"
    asyncio.run(sat(state))


def test_a_suspended_holder_whose_lock_was_taken_over_writes_nothing_more(state: Path) -> None:
    """A suspended holder whose lock was taken over writes nothing more when it continues."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        assert other.ask("intend", 0) == "ok"
        other.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.process.pid, os.WSTOPPED)
        altered(state, "heartbeat = heartbeat - 21")
        asyncio.run(sat(state, "first"))
        other.process.send_signal(signal.SIGCONT)
        refused = other.ask("intend", 1)
        assert refused.startswith("LockedError")
        assert "has taken over" in refused
        assert other.ask("repeat", 0).startswith("LockedError")
        assert other.ask("done", 0).startswith("LockedError")
        assert other.ask("finish").startswith("LockedError")
        assert other.ask("close") == "ok"
    journal = Journal.open(state, create=False)
    (entry,) = journal.entries("first")
    assert (entry.number, entry.outcome) == (0, None)
    assert (past(state).state, past(state).sessions) == ("done", 2)


def test_who_has_taken_over_is_named(state: Path) -> None:
    """The error of a holder that lost its lock names the run and process that took over."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        altered(state, "claim = 'another', run = 'second', pid = 77, host = 'desk'")
        refused = other.ask("intend", 0)
        assert "run second (process 77 on desk) has taken over" in refused
        assert other.ask("close") == "ok"
    altered(state, "heartbeat = heartbeat")


def test_the_heart_beats_while_the_loop_is_busy(state: Path) -> None:
    """The heartbeat continues while the event loop is blocked."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        first = heartbeat(state)
        other.tell("block", 3600)
        end = time.monotonic() + 120
        while heartbeat(state) <= first + 1:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert past(state).state == "running"


def test_a_holder_in_the_same_second_is_no_stranger(state: Path) -> None:
    """A clock that was set back does not make a living holder look dead."""
    lock = Lock.for_this_process(STORE, "run", 1)
    assert lock.is_alive
    assert lock.born
    values = {name: getattr(lock, name) for name in Lock.__struct_fields__}
    assert Lock(**{**values, "heartbeat": time.time() + 3600}).is_alive
    assert not Lock(**{**values, "heartbeat": time.time() - 21}).is_alive


@pytest.mark.parametrize("round_", range(3))
def test_no_intent_is_lost_with_a_killed_process(state: Path, round_: int) -> None:
    """After a kill, every entry reported as on disk is there, and no row is partly written."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        other.tell("race")
        lines = [other.answer() for _ in range(10 + round_ * 37)]
        other.process.send_signal(signal.SIGKILL)
        assert other.process.stdout is not None
        lines += other.process.stdout.read().split("\n")[:-1]
    numbers = {int(line[1:]) for line in lines if line.startswith("i")}
    done = {int(line[1:]) for line in lines if line.startswith("d")}
    found = {
        entry.number: entry.outcome for entry in Journal.open(state, create=False).entries("first")
    }
    assert len(numbers) > 5
    assert numbers <= set(found) <= numbers | {max(numbers) + 1}
    assert done <= {number for number, outcome in found.items() if outcome == "applied"}


def test_two_processes_that_begin_at_once_make_one_journal(state: Path) -> None:
    """Two processes that start at once make one journal, and one of them has the lock."""
    with other_process(state, "one") as one, other_process(state, "two") as two:
        answers = sorted([one.answer().split()[0], two.answer().split()[0]])
    assert answers == ["LockedError", "sat"]
    assert len(Journal.open(state, create=False).runs()) == 1


def test_nothing_is_left_behind(state: Path) -> None:
    """A closed session leaves no thread and no open file."""
    asyncio.run(sat(state))
    assert not [t for t in threading.enumerate() if t.name.startswith("petsync journal")]
    if Path("/proc/self/fd").exists():
        opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
        assert not [path for path in opened if path.startswith(str(state))]


@pytest.mark.skipif(sys.platform == "win32", reason="asks for it")
def test_on_windows_no_process_is_asked_by_a_signal(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    """On Windows only the heartbeat is checked, because signal 0 would end the holder."""
    lock = Lock.for_this_process(STORE, "run", 1)
    killed: Callable[..., None] = pytest.fail
    monkeypatch.setattr(os, "kill", killed)
    monkeypatch.setattr(os, "name", "nt")
    assert lock.is_alive
