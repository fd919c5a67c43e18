"""Two-way rounds that die at any moment, between edits of every kind: each arrives or is named.

Each seed has people and kills of its own; `--rounds 200 --rounds-seed 7` plays 200 rounds of one.
"""

from __future__ import annotations

from pathlib import Path

from crash.running import Nursery
from rounds.play import Play


def test_each_edit_arrives_or_is_named(rounds_seed: int, rounds: int, tmp_path: Path) -> None:
    """No round reverts an edit, loses or doubles a pet, or ends well while sides differ."""
    with Nursery("nights.loaded") as nursery:
        Play(rounds_seed, tmp_path, nursery).play(rounds)
