"""Moments of a night at which a kill does most harm, and random ones."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crash.running import Running
from nights.world import World

__all__ = ["Moment", "is_still"]


@dataclass(frozen=True)
class Moment:
    """The first moment after an event (`has_come`), and `later` seconds after it."""

    name: str
    has_come: Callable[[], bool]
    later: float

    @classmethod
    def drawn(cls, world: World, rng: random.Random) -> Self:
        """Return a random moment: a write of the store, the sheet's backup, the sheet, the base, a
        round's end, or any time.
        """
        sheet = world.sheets["catalogue"]
        backups, stamp, bases = _backups(sheet), _stamp(sheet), _bases(world)
        rounds, writes = len(world.history()), world.writes() + rng.randint(1, 6)
        moments: dict[str, Callable[[], bool]] = {
            "writes": lambda: world.writes() >= writes,
            "backup": lambda: _backups(sheet) > backups,
            "sheet": lambda: _stamp(sheet) != stamp,
            "base": lambda: _bases(world) != bases,
            "history": lambda: len(world.history()) > rounds,
            "time": lambda: True,
        }
        name = rng.choice([*moments])
        soon = rng.choice((0, 0, rng.uniform(0, 0.02)))
        return cls(name, moments[name], rng.uniform(0, 1.2) if name == "time" else soon)

    def come(self, running: Running) -> None:
        """Wait for the moment, or until the process ends."""
        running.until(self.has_come)
        time.sleep(self.later)


def is_still(world: World) -> bool:
    """Return whether the store has finished the requests of a killed process."""
    before = world.writes()
    time.sleep(0.1)
    return world.writes() == before


def _backups(sheet: Path) -> int:
    return len([*sheet.parent.glob(f"{sheet.stem}.backup-*")])


def _bases(world: World) -> Any:
    folder = world.state / "reconcile" / "bases"
    return {path: _stamp(path) for path in folder.glob("*.base")} if folder.exists() else {}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_ino, found.st_mtime_ns)
