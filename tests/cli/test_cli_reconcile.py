"""`petsync reconcile` as people and cron start it."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Shell, shop

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
