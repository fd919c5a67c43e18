"""`petsync reconcile` as people and cron start it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from commands import Shell, shop
from crash.running import Nursery

import petsync as ps
from petsync.sandbox import Sandbox


@pytest.fixture
def config(box: Sandbox, tmp_path: Path) -> Path:
    """A configuration with one job, whose sheet has one other name."""
    pets = [ps.Pet(id=1, name="Rexi"), *shop()[1:]]
    ps.write_sheet(ps.frame_from_pets(pets), tmp_path / "catalogue.csv", base=False)
    path = tmp_path / "petsync.toml"
    path.write_text(
        f'url = "{box.url}"\n[jobs.catalogue]\nmode = "push"\nsheet = "catalogue.csv"\n', "utf-8"
    )
    return path


def test_a_round_is_run_and_told(shell: Shell, config: Path, box: Sandbox) -> None:
    """The table goes to stdout; a dry run before it sends and writes nothing."""
    dry = shell("reconcile", "--dry-run")
    assert dry.code == 2
    assert "Differences (dry run)" in dry.out
    assert not (config.parent / ".petsync").exists()
    done = shell("reconcile", config)
    assert done.code == 0, done.err
    assert "catalogue" in done.out
    assert box.pets()[0].name == "Rexi"


def test_machines_get_json(shell: Shell, config: Path) -> None:
    """One document, with every round."""
    done = shell("reconcile", "--json", "--job", "catalogue")
    (told,) = done.json["rounds"]
    assert told["round"]["applied"] == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--job", "catalog"], "Did you mean catalogue?"),
        (["missing.toml"], "petsync init"),
        (["--every", "15"], "--every is '15'"),
        (["--every", "1h", "--dry-run"], "it goes alone"),
        (["--allow-http", "shop"], "into the configuration"),
    ],
)
def test_mistakes_are_usage(shell: Shell, config: Path, args: list[str], said: str) -> None:
    """Exit code 64, and the way out."""
    done = shell("reconcile", *args)
    assert done.code == 64
    assert said in done.err


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGTERM, 7), (signal.SIGKILL, -9)])
def test_a_round_that_is_ended_from_outside_is_finished(
    shell: Shell, tmp_path: Path, nursery: Nursery, sign: signal.Signals, code: int
) -> None:
    """By the next one, first of all; no change is made twice, and none is lost."""
    pets = [ps.Pet(id=number, name=f"Pet {number}", status="sold") for number in range(1, 5)]
    new = [ps.Pet(name=f"Neu {number}", status="sold") for number in range(12)]
    ps.write_sheet(ps.frame_from_pets([*pets, *new]), tmp_path / "catalogue.csv", base=False)
    with Sandbox(auth=False, pets=pets, faults="latency=0.05") as box:
        (tmp_path / "petsync.toml").write_text(
            f'url = "{box.url}"\ntimeout = 0.5\n[jobs.catalogue]\nmode = "two-way"\n'
            'sheet = "catalogue.csv"\nconcurrency = 2\n'
            '[jobs.never]\nmode = "check"\nsheet = "catalogue.csv"\n',
            "utf-8",
        )
        running = nursery("reconcile", folder=tmp_path)
        assert running.until(lambda: box.requests["addPet"] > 3)
        running.signal(sign)
        assert running.wait(30) == code, running.said()
        assert len(box.pets()) < 16
        box.break_with(None)
        done = shell("reconcile", "--json")
        first, second = (each["round"] for each in done.json["rounds"])
        assert (first["status"], first["resumed"]) == ("done", 1), done.err
        assert second["status"] == "in-sync"
        names = sorted(pet.name or "" for pet in box.pets())
        assert names == sorted(pet.name or "" for pet in [*pets, *new])
