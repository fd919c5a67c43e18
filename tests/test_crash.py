"""A run that is killed at any moment, again and again, comes to what was planned and nothing else.

Each round has a random store, plan and service, which follow from its number; the processes are
real ones, killed with SIGKILL. `--crash-rounds 1000` plays more of them, `--crash-seed 17` one.
"""

from __future__ import annotations

from pathlib import Path

from crash.round import Round
from crash.running import Nursery


def _play(seed: int, profile: str, folder: Path, nursery: Nursery) -> None:
    try:
        Round(seed, profile, folder, nursery).play()
    except BaseException as error:
        name = "TestStandard" if profile == "standard" else "TestLive"
        error.add_note(f"again: pytest tests/test_crash.py -k {name} --crash-seed {seed}")
        raise


class TestStandard:
    """A service that keeps the interface's rules."""

    def test_killed_run_comes_to_the_plan(
        self, crash_seed: int, tmp_path: Path, nursery: Nursery
    ) -> None:
        """The store is as planned, each change was made once, and the journal's rows add up."""
        _play(crash_seed, "standard", tmp_path, nursery)


class TestLive:
    """A service that replaces, creates and reuses ids, as the public reference server does."""

    def test_killed_run_comes_to_the_plan(
        self, crash_seed: int, tmp_path: Path, nursery: Nursery
    ) -> None:
        """The store is as planned, each change was made once, and the journal's rows add up."""
        _play(crash_seed, "live", tmp_path, nursery)
