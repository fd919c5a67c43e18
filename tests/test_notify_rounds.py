"""Notices of real rounds, from the sandbox to the receiver."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from receiver import Receiver
from scenarios import PETS, Scenario, changed

from petsync.cli import main
from petsync.config.model import Configuration, Notify
from petsync.plan.guard import Guard, Limit
from petsync.reconcile import run
from petsync.sandbox import Sandbox


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Scenario]:
    """Yield a push job on a store with twelve pets, and a sheet with the same pets."""
    with Sandbox(pets=PETS, auth=False) as box:
        scenario = Scenario(box, tmp_path / "a folder")
        scenario.folder.mkdir()
        scenario.write()
        yield scenario


def telling(scenario: Scenario, receiver: Receiver, **options: object) -> Configuration:
    """Return the job's configuration, with the receiver for all events except digests."""
    on = ("failure", "violation", "recovery", "waiting")
    return replace(
        scenario.config(scenario.job(**options)), notify=Notify(urls=(receiver.url,), on=on)
    )


def test_a_waiting_plan_is_released_by_the_notices_command(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command in the notice releases the waiting plan from any folder, and the next round has
    nothing left to do.
    """
    guard = Guard(max_delete=Limit(1, is_share=False))
    with Receiver() as receiver:
        config = telling(scenario, receiver, delete_missing=True, guard=guard)
        assert run(config).exit_code == 0
        scenario.write(PETS[4:])
        assert [run(config).exit_code for _ in range(2)] == [4, 4]
        (notice,) = receiver.got
        assert "In the store: 4 to delete" in notice["message"]
        assert "max_delete" in notice["message"]
        lines = [line.strip() for line in notice["message"].splitlines()]
        command = next(line for line in lines if line.startswith("petsync apply"))
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*shlex.split(command)[1:], "--yes"])
        assert run(config).exit_code == 0
    assert sorted(scenario.store_pets()) == [*range(5, 13)]
    assert [each["type"] for each in receiver.got] == ["warning", "success"]


def test_a_job_that_fails_and_recovers_is_reported_twice(scenario: Scenario) -> None:
    """A sheet that is missing for two nights causes one failure with the problem, and one
    recovery.
    """
    with Receiver() as receiver:
        config = telling(scenario, receiver)
        moved = scenario.sheet.rename(scenario.folder / "moved.csv")
        assert [run(config).exit_code for _ in range(2)] == [1, 1]
        moved.rename(scenario.sheet)
        assert [run(config).exit_code for _ in range(2)] == [0, 0]
    assert [each["type"] for each in receiver.got] == ["failure", "success"]
    assert "there is no such file" in receiver.got[0]["message"]


def test_a_receiver_that_is_down_changes_no_exit_code(
    scenario: Scenario, capfd: pytest.CaptureFixture[str]
) -> None:
    """A receiver that fails changes no exit code and is reported on stderr without its address; a
    dry run sends nothing.
    """
    with Receiver() as receiver:
        receiver.status = 500
        config = telling(scenario, receiver)
        scenario.write(changed(PETS, 3, status="no such status"))
        assert run(config, dry_run=True).exit_code == 3
        assert receiver.paths == []
        assert run(config).exit_code == 3
    output = capfd.readouterr().err
    assert "could not be sent" in output
    assert "Hu5h" not in output
