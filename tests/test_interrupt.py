"""Ctrl-C and other signals: a run stops within two seconds, reports an outcome for every row, and
can be resumed to the plan.

A test machine may be busy, so no test measures the two seconds. Each wait in a run takes minutes,
so a run that stops long before did not wait.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pexpect
import pytest
from crash.ledger import ledger, runs
from crash.round import check_store
from crash.running import Nursery
from crash.service import Service
from crash.story import story
from jupyter_client.manager import start_new_kernel

from petsync.apply.options import ApplyOptions
from petsync.apply.planfile import save_plan
from petsync.plan.guard import Limit

pytestmark = pytest.mark.slow

PROMISED_S = 2.0
PATIENCE_S = 60
"""Less than every wait of the runs."""
LONG = ("--settle", 600)
WITHOUT_END_OF_GRACE = """
from petsync.apply.engine import Stopper
from petsync.cli import main
made = Stopper.__init__
Stopper.__init__ = lambda self, grace, on_wire: made(self, 3600.0, on_wire)
main()
"""
Press = Callable[[pexpect.spawn], None]


class Shop:
    """A served store and a plan for it, which is applied in a separate terminal."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self._nursery = nursery
        self._service: Service | None = None

    def open(
        self, faults: str, *, changes: int = 120, ids: str = "given", is_counted: bool = True
    ) -> None:
        """Start a store with these faults, and save a plan of this number of changes; it has no
        deletes if the pets are not to be counted before the run.
        """
        rng = random.Random(changes)
        self.story = story(rng, pets=changes + 20, changes=changes, ids=ids)
        if not is_counted:
            self.story.deleted.clear()
        self._service = Service(self._nursery, self.folder, self.story.before.values(), "standard")
        self.service.start(faults)
        plan = self.story.plan(self.service.url, "standard")
        if not is_counted:
            guard = msgspec.structs.replace(plan.guard, max_update=Limit(changes, is_share=False))
            plan = msgspec.structs.replace(plan, guard=guard)
            assert not plan.needs_count
        save_plan(plan, self.folder / "plan.json")
        (self.folder / "petsync.toml").write_text("timeout = 600\n", "utf-8")

    @property
    def service(self) -> Service:
        """The store, after it is started."""
        assert self._service is not None
        return self._service

    def close(self) -> None:
        """Stop the store."""
        if self._service is not None:
            self._service.close()

    def apply(self, *options: object, code: str = "") -> pexpect.spawn:
        """Apply the plan in a terminal, with its JSON in a file."""
        command = ["apply", "plan.json", "--yes", "--json", *options]
        return self.terminal(*command, "--url", self.service.url, "--state", self.state, code=code)

    def terminal(self, *args: object, code: str = "") -> pexpect.spawn:
        """Start a command, or the code with its arguments, in a terminal, with its standard output
        in a file.
        """
        program = ["-c", code] if code else ["-m", "petsync.cli"]
        words = shlex.join([sys.executable, *program, *map(str, args)])
        env = {**os.environ, "TERM": "xterm-256color"}
        shell = ["-c", f"exec {words} > said.json"]
        return pexpect.spawn("/bin/sh", shell, cwd=str(self.folder), env=env, timeout=PATIENCE_S)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        limit = time.monotonic() + 2 * PATIENCE_S
        while not holds():
            assert time.monotonic() < limit
            time.sleep(0.01)

    def wrote(self, number: int) -> Callable[[], bool]:
        """Return a condition: this number of writes has reached the store."""
        return lambda: self.service.writes() >= number

    def began(self) -> bool:
        """Return whether the run is in the journal."""
        return bool(runs(self.state))

    def sends(self) -> bool:
        """Return whether a change is under way."""
        return self.began() and ledger(self.state, *runs(self.state)).counts[None] > 0

    def check_report(self) -> dict[str, Any]:
        """Check that the report on standard output has a row for each change, and return it."""
        document: dict[str, Any] = json.loads((self.folder / "said.json").read_bytes())
        assert document["exit_code"] == 7, document
        assert len(document["results"]) == self.story.total
        assert sum(document["counts"].values()) == self.story.total
        return document

    def check_resumed(self) -> None:
        """Check that a resume on a service without faults completes the plan."""
        self.service.kill()
        self.service.start()
        (run,) = runs(self.state)
        to = ("--url", self.service.url, "--state", self.state)
        last = self._nursery("resume", run, "--settle", 0.2, *to, folder=self.folder)
        assert last.wait(2 * PATIENCE_S) == 0, last.output()
        check_store(self.story, self.service)
        ledger(self.state, run).check()


@pytest.fixture
def shop(nursery: Nursery, tmp_path: Path) -> Iterator[Shop]:
    """Yield a shop that is not open yet."""
    made = Shop(nursery, tmp_path)
    yield made
    made.close()


def _end(child: pexpect.spawn, press: Press) -> None:
    """Press a key or send a signal, and wait for the end with exit code 7."""
    begun = time.monotonic()
    press(child)
    child.expect(pexpect.EOF)
    child.close()
    print(f"stopped after {time.monotonic() - begun:.2f} s")  # noqa: T201
    assert child.exitstatus == 7, (child.exitstatus, child.signalstatus, child.before)
    assert b"Traceback" not in child.before


def test_the_promise_leaves_time_to_end() -> None:
    """The grace for requests under way is shorter than the promised time of a stop."""
    assert ApplyOptions().grace < PROMISED_S


def test_ctrl_c_in_a_large_run(shop: Shop) -> None:
    """Ctrl-C in a run of two thousand changes stops with a row for each change, and a resume does
    exactly the rest.
    """
    shop.open("latency=0.1", changes=2000, ids="mixed")
    child = shop.apply()
    shop.until(shop.wrote(150))
    _end(child, pexpect.spawn.sendintr)
    document = shop.check_report()
    assert document["counts"]["applied"] == shop.service.writes() >= 150
    assert document["counts"]["not sent"] > 0
    assert document["counts"]["unknown"] == 0
    shop.check_resumed()


def test_second_ctrl_c_waits_for_nothing(shop: Shop) -> None:
    """A second Ctrl-C stops without the grace of the first; requests under way stay open in the
    journal, and a resume settles them.
    """
    shop.open("latency=600,only=updatePetWithForm+updatePet+addPet")
    child = shop.apply(*LONG, code=WITHOUT_END_OF_GRACE)
    shop.until(shop.sends)
    child.sendintr()
    child.expect("Stopping")
    assert child.isalive()
    _end(child, pexpect.spawn.sendintr)
    kept = ledger(shop.state, *runs(shop.state))
    assert kept.counts[None] > 0
    shop.check_resumed()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_the_pets_are_counted(shop: Shop, sign: int) -> None:
    """A signal before the run begins ends the command with 130, and no run is in the journal."""
    shop.open("429=1,retry_after=100")
    child = shop.apply("-v", *LONG)
    child.expect("429")
    child.kill(sign)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130, (child.exitstatus, child.signalstatus, child.before)
    assert b"Traceback" not in child.before
    assert not shop.began()
    assert not shop.service.writes()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_stop_as_ctrl_c_does(shop: Shop, sign: int) -> None:
    """SIGTERM, SIGHUP and SIGINT stop a run that can be resumed."""
    shop.open("latency=0.3,retry_after=0,429=0.05,drop_after=0.03", changes=300, ids="mixed")
    child = shop.apply()
    shop.until(shop.wrote(20))
    _end(child, lambda child: child.kill(sign))
    shop.check_report()
    shop.check_resumed()


def test_ctrl_c_in_a_resume(shop: Shop) -> None:
    """A resume is stopped and resumed like a first run."""
    shop.open("latency=0.2", changes=300, ids="mixed")
    child = shop.apply()
    shop.until(shop.wrote(20))
    _end(child, pexpect.spawn.sendintr)
    again = shop.terminal("resume", "--json", "--url", shop.service.url, "--state", shop.state)
    shop.until(shop.wrote(60))
    _end(again, pexpect.spawn.sendintr)
    shop.check_report()
    shop.check_resumed()


CELL = """
import petsync as ps
store = ps.connect({url!r}, state={state!r})
plan = ps.types.Plan.load({plan!r})
store.apply(plan)
"""
AFTER = """
import sys
error = sys.last_value
report = store.resume(error.report.run_id, settle=0.2)
print(len(error.report.results), error.report.exit_code, report.exit_code)
"""


def test_interrupted_kernel(shop: Shop) -> None:
    """An interrupted notebook kernel ends the cell with an InterruptedRunError with a complete
    report, and the next cell resumes the run.
    """
    shop.open("latency=0.3", changes=300, ids="mixed")
    manager, client = start_new_kernel(cwd=str(shop.folder))
    try:
        names = {"url": shop.service.url, "state": str(shop.state), "plan": "plan.json"}
        asked = client.execute(CELL.format(**names))
        shop.until(shop.wrote(20))
        manager.interrupt_kernel()
        reply = _reply(client, asked)
        assert reply["ename"] == "InterruptedRunError", reply
        shop.service.kill()
        shop.service.start()
        output: list[str] = []
        client.execute_interactive(
            AFTER,
            timeout=2 * PATIENCE_S,
            output_hook=lambda out: output.append(out["content"].get("text", "")),
        )
        assert "".join(output).split() == [str(shop.story.total), "7", "0"], output
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    check_store(shop.story, shop.service)


def _reply(client: Any, asked: str) -> dict[str, Any]:
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE_S)
        if reply["parent_header"].get("msg_id") == asked:
            content: dict[str, Any] = reply["content"]
            return content


class TestWaiting:
    """Stops of a run that waits for a slow event."""

    @pytest.mark.parametrize(
        ("faults", "ids"),
        [
            ("latency=600,only=updatePetWithForm+updatePet+addPet", "given"),
            ("latency=600,only=addPet", "assigned"),
            ("429=1,retry_after=100,only=addPet", "given"),
            ("429=1,retry_after=100", "given"),
            ("503=1,only=addPet+updatePet+updatePetWithForm", "given"),
            ("latency=600,only=getPetById", "given"),
            ("latency=600,only=findPetsByStatus", "assigned"),
            ("drop_before=1,only=addPet,first=3", "assigned"),
        ],
        ids=[
            "slow-writes",
            "slow-adds-without-id",
            "all-wait-for-retry-after",
            "reads-wait-for-retry-after",
            "between-two-attempts",
            "slow-reads",
            "slow-lists",
            "waiting-for-what-may-still-arrive",
        ],
    )
    def test_ctrl_c_while_it_waits(self, shop: Shop, faults: str, ids: str) -> None:
        """Ctrl-C ends a run in any of its waits."""
        shop.open(faults, ids=ids, is_counted=False)
        child = shop.apply(*LONG)
        shop.until(shop.began)
        if "drop_before" in faults:
            shop.until(shop.wrote(len(shop.story.added) + len(shop.story.updates) - 3))
        assert child.isalive()
        _end(child, pexpect.spawn.sendintr)
        shop.check_report()
        shop.check_resumed()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_point_until_the_first_change(
    sign: signal.Signals, nursery: Nursery, shop: Shop
) -> None:
    """A signal at any point before the first answer ends the command without a traceback: with 7 if
    a run is in the journal, else with 130.
    """
    shop.open("latency=600,only=updatePetWithForm+updatePet+addPet", changes=40)
    codes = []
    for point in itertools.count(1, 11):
        state = shop.folder / f"state-{point}"
        env = {"POINT": str(point), "SIGN": str(int(sign))}
        to = ("--url", shop.service.url, "--state", state)
        command = ("apply", "plan.json", "--yes", *to)
        running = nursery(*command, folder=shop.folder, env=env, call="crash.signalled:main")
        code = running.wait(2 * PATIENCE_S)
        output = running.output()
        assert "interrupted" in output
        assert "Traceback" not in output
        assert code == (7 if runs(state) else 130), output
        codes.append(code)
        if code == 7 and ledger(state, *runs(state)).lines:
            break
    assert codes[0] == 130
    assert codes[-1] == 7
