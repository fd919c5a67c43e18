"""Failures around a run, of the disk, the network, the service or another run, lose nothing."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.ledger import ledger, runs
from crash.round import check_store
from crash.running import MAIN, Nursery, Running
from crash.service import Service
from crash.story import story
from crash.wire import Wire

from petsync.apply.planfile import save_plan

pytestmark = pytest.mark.slow


class World:
    """A store, a plan for it, and commands under the faults of a test."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self._nursery = nursery
        self.story = story(random.Random(7), pets=140, changes=120)
        self.service = Service(nursery, folder, self.story.before.values(), "standard")
        self.url = self.service.url

    def open(self, faults: str = "latency=0.02") -> None:
        """Start the service and save the plan."""
        self.service.start(faults)
        save_plan(self.story.plan(self.url, "standard"), self.folder / "plan.json")

    def apply(self, worse: str = "", *, at_a_time: int = 4, **env: str) -> Running:
        """Apply the plan, a few changes at a time."""
        args = ("apply", "plan.json", "--yes", "--concurrency", at_a_time, "--settle", 0.5)
        return self.command(*args, "--json", worse=worse, **env)

    def resume(self, worse: str = "", **env: str) -> Running:
        """Resume the newest run."""
        return self.command("resume", "--settle", 0.2, "--json", worse=worse, **env)

    def command(self, *args: object, worse: str = "", **env: str) -> Running:
        """Run a command on this store and state folder, with the faults in `worse`."""
        call = "crash.worse:main" if worse else MAIN
        to = ("--url", self.url, "--state", self.state)
        return self._nursery(*args, *to, folder=self.folder, call=call, env={"WORSE": worse, **env})

    def until(self, running: Running, writes: int) -> None:
        """Wait until the service has written this number of pets."""
        assert running.until(lambda: self.service.writes() >= writes), running.output()

    def check(self) -> None:
        """Check a store as planned, one write for each pet, and the totals of the journal."""
        check_store(self.story, self.service)
        assert self.service.writes() == self.story.total, "a pet was written twice"
        kept = ledger(self.state, *runs(self.state))
        assert kept.total == self.story.total
        kept.check()


@pytest.fixture
def world(nursery: Nursery, tmp_path: Path) -> Iterator[World]:
    """Yield a world without faults."""
    made = World(nursery, tmp_path)
    yield made
    made.service.close()


def _is_stopped(running: Running, seconds: float = 30) -> None:
    """Check that the command ended with 7, and that its report has a row for each change."""
    assert running.wait(seconds) == 7, running.output()
    document = running.json()
    assert len(document["results"]) == sum(document["counts"].values()), document["counts"]
    assert "Traceback" not in running.output()


class TestDisk:
    """The journal cannot be written."""

    def test_disk_full_in_mid_run(self, world: World) -> None:
        """A run on a full disk stops with its report, sends nothing without an intent on disk, and
        can be resumed when there is room.
        """
        world.open()
        first = world.apply("disk=250000")
        _is_stopped(first)
        assert "cannot be written" in first.output()
        assert 0 < world.service.writes() < world.story.total
        last = world.resume()
        assert last.wait(120) == 0, last.output()
        world.check()

    def test_disk_full_at_the_beginning(self, world: World) -> None:
        """If the run's own row does not fit on the disk, nothing is sent, and the plan
        is not used up.
        """
        world.open()
        first = world.apply("disk=12000")
        assert first.wait(120) == 1, first.output()
        assert "Traceback" not in first.output()
        assert world.service.writes() == 0
        last = world.apply()
        assert last.wait(120) == 0, last.output()
        world.check()

    @pytest.mark.parametrize("begun", [False, True], ids=["new", "resumed"])
    def test_read_only_state_folder(self, world: World, begun: bool) -> None:
        """A read-only state folder is reported, and nothing is sent."""
        world.open()
        world.state.mkdir()
        if begun:
            first = world.apply()
            world.until(first, 10)
            first.kill()
            # The requests that were under way at the kill have arrived now, or never arrive.
            world.service.kill()
            world.service.start()
        writes = world.service.writes()
        for path in (world.state, *world.state.iterdir()):
            path.chmod(0o500 if path.is_dir() else 0o400)
        try:
            stuck = world.resume("weak=1") if begun else world.apply("weak=1")
            assert stuck.wait(120) == 1, stuck.output()
            assert str(world.state) in stuck.output()
            assert "Traceback" not in stuck.output()
            assert world.service.writes() == writes
        finally:
            world.state.chmod(0o700)
            for path in world.state.iterdir():
                path.chmod(0o600)
        last = world.resume() if begun else world.apply()
        assert last.wait(120) == 0, last.output()
        world.check()


class TestNetwork:
    """The service is not available, permanently or for a time."""

    def test_service_restarts_in_mid_run(self, world: World) -> None:
        """A run waits for a service that restarts; it finishes alone or with a resume, and doubles
        nothing.
        """
        world.open()
        running = world.apply()
        world.until(running, 20)
        world.service.kill()
        time.sleep(0.5)
        world.service.start("latency=0.02")
        assert running.wait(60) in (0, 3), running.output()
        if running.code == 3:
            assert world.resume().wait(120) == 0
        world.check()

    def test_service_stays_away(self, world: World) -> None:
        """A service that does not return stops the run, which can be resumed, and fails no other
        changes.
        """
        world.open()
        running = world.apply("patience=2")
        world.until(running, 20)
        world.service.kill()
        _is_stopped(running)
        assert running.json()["counts"]["failed"] <= 4
        world.service.start()
        last = world.resume()
        assert last.wait(120) == 0, last.output()
        world.check()

    @pytest.mark.parametrize("silently", [False, True], ids=["cut", "silent"])
    def test_network_is_lost(self, world: World, silently: bool) -> None:
        """Lost connections, cut or silent, stop the run; a resume finds the requests that arrived
        and does not send them again.
        """
        with Wire(world.service.port) as wire:
            world.url = wire.url
            world.open()
            settings = world.folder / "petsync.toml"
            settings.write_text("timeout = 1\n", "utf-8")
            running = world.apply("patience=2")
            world.until(running, 20)
            wire.cut(silently=silently)
            _is_stopped(running)
            wire.cut()
            wire.mend()
            settings.unlink()
            last = world.resume()
            assert last.wait(120) == 0, last.output()
        world.check()

    def test_network_comes_back(self, world: World) -> None:
        """A short network failure does not change the result."""
        with Wire(world.service.port) as wire:
            world.url = wire.url
            world.open()
            running = world.apply()
            world.until(running, 20)
            wire.cut()
            time.sleep(0.5)
            wire.mend()
            assert running.wait(60) in (0, 3), running.output()
            if running.code == 3:
                assert world.resume().wait(120) == 0
        world.check()


class TestLateRequests:
    """A request is carried out long after its client ended."""

    def test_add_that_was_sent_late_and_arrives_late(self, world: World) -> None:
        """An add without an id that was sent after a long Retry-After and then cut off gets time to
        arrive before it is sent again.
        """
        world.open("latency=0.6,429=1,retry_after=2,first=2,only=addPet")
        running = world.apply()
        time.sleep(1.0)
        running.kill()
        last = world.resume()
        assert last.wait(120) == 0, last.output()
        world.check()


class TestTwoRuns:
    """Two processes on one store."""

    def test_second_run_is_refused(self, world: World) -> None:
        """A second run on the same store ends with 6 and sends nothing, and the first run is not
        affected.
        """
        world.open("latency=0.05")
        first = world.apply()
        world.until(first, 5)
        save_plan(world.story.plan(world.url, "live"), world.folder / "other.json")
        other = world.command("apply", "other.json", "--yes", "--json")
        again = world.resume()
        assert other.wait(120) == 6, other.output()
        assert again.wait(120) == 6, again.output()
        assert first.is_alive
        assert first.wait(60) == 0, first.output()
        world.check()

    @pytest.mark.parametrize(
        "place",
        [
            "intended given 2",
            "intended assigned 2",
            "intended put 2",
            "sent form 2",
            "written delete 1",
        ],
    )
    def test_run_that_stood_still_is_taken_over(self, world: World, place: str) -> None:
        """A process that was suspended while another one resumed its run sends nothing more when it
        continues.
        """
        world.open("")
        store = str(world.service.db)
        still = world.apply("stale=2", at_a_time=1, DOOM=place, SIGN="STOP", STORE=store)
        assert still.until(lambda: _state_of(still.pid) == "T")
        time.sleep(2.2)
        last = world.resume("stale=2")
        assert last.wait(120) == 0, last.output()
        world.check()
        still.signal(signal.SIGCONT)
        assert still.wait(120) in (6, 7), still.output()
        assert "Traceback" not in still.output()
        world.check()


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
