"""Runs that are killed at random moments, and resumed until the store is as planned.

Each round has a random store, plan and service, which follow from its number; the processes are
real, and are killed with SIGKILL. `--crash-rounds 1000` plays more rounds, `--crash-seed 17` one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crash.round import Round
from crash.running import Nursery

pytestmark = pytest.mark.slow


def _play(seeds: Sequence[int], profile: str, folder: Path, nursery: Nursery) -> None:
    """Play several rounds at a time, because most of a round is waiting."""

    def play(seed: int) -> Exception | None:
        place = folder / str(seed)
        place.mkdir()
        try:
            Round(seed, profile, place, nursery).play()
        except Exception as error:  # noqa: BLE001 - the other rounds are to end all the same
            name = "TestStandard" if profile == "standard" else "TestLive"
            error.add_note(f"again: pytest tests/test_crash.py -k {name} --crash-seed {seed}")
            return error
        return None

    with ThreadPoolExecutor(len(seeds)) as pool:
        failed = [error for error in pool.map(play, seeds) if error is not None]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of the rounds {seeds}", failed)


class TestStandard:
    """A service that keeps the interface's rules."""

    def test_killed_run_comes_to_the_plan(
        self, crash_seeds: Sequence[int], tmp_path: Path, nursery: Nursery
    ) -> None:
        """After kills and resumes, the store is as planned, each change was made once, and the
        journal agrees.
        """
        _play(crash_seeds, "standard", tmp_path, nursery)


class TestLive:
    """A service that replaces, creates and reuses ids, as the public reference server does."""

    def test_killed_run_comes_to_the_plan(
        self, crash_seeds: Sequence[int], tmp_path: Path, nursery: Nursery
    ) -> None:
        """After kills and resumes, the store is as planned, each change was made once, and the
        journal agrees.
        """
        _play(crash_seeds, "live", tmp_path, nursery)
