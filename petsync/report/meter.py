"""What a progress bar says, and how that fits beside the bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from petsync.report.words import count, number

__all__ = ["Meter"]


_BAR = 5
"""So many cells are left to the bar itself, if that can be."""
_ROOMY = 99
_EDGES = len("| | ")
_RANKS, _PLAIN = 6, 2
"""The highest rank, and the highest of what a line now and then says."""
_LONGEST = 100 * 3600
"""An hour that far away is a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """How far a run is at one moment: `done` of `total`, at a `rate` a second. `limit` is how many
    requests may be under way at a time, 0 where that is not known, and `waiting` for how many
    seconds nothing is sent, because the service asked for it.
    """

    text: str
    unit: str
    done: int
    total: int
    rate: float = 0.0
    limit: int = 0
    retries: int = 0
    problems: int = 0
    waiting: float = 0.0

    def sides(self, width: int | None) -> tuple[str, str]:
        """What stands left and right of the bar in a line of so many cells: what matters least is
        left out first where not all fits. Without a width, all.
        """
        percent = f"{100 * min(self.done, self.total) // self.total:3}%" if self.total else ""
        # A title that came and went with what there is to say would make the bar jump.
        is_roomy = width is None or width >= _ROOMY or not self.limit
        left = f"{self.text} {percent}" if is_roomy else percent
        right = self._join_parts().replace("\0", f" {self.unit}")
        if width is None or _fits(left, right, width):
            return left, right
        right = right.replace(f" {self.unit}", "")
        if _fits(left, right, width):
            return left, right
        for most in range(_RANKS, -1, -1):
            right = self._join_parts(most).replace("\0", "")
            if _fits(percent, right, width):
                break
        return percent, right

    def line(self) -> str:
        """How far the run is, as a line of its own."""
        return self._join_parts(_PLAIN).replace("/", " of ", 1).replace("\0", f" {self.unit}")

    def _join_parts(self, most: int = 10) -> str:
        return ", ".join(said for rank, said in self._parts() if rank <= most)

    def _parts(self) -> Sequence[tuple[int, str]]:
        """What there is to say, each with its rank, 0 being what matters most."""
        parts = [(0, f"{number(self.done)}/{number(self.total)}\0")]
        if self.waiting > 0:
            parts.append((1, f"the service asked to wait {math.ceil(self.waiting)} s"))
        else:
            parts += [(4, self._pace())] if self.rate else []
            parts += [(6, f"{number(self.limit)} at once")] if self.limit else []
        if self.retries:
            parts.append((5, "1 retry" if self.retries == 1 else f"{number(self.retries)} retries"))
        if self.problems:
            parts.append((2, count(self.problems, "problem")))
        if self.rate and not self.waiting and (left := self._format_time_left()):
            parts.append((3, left))
        return parts

    def _pace(self) -> str:
        return f"{number(round(self.rate))}/s" if self.rate >= 9.95 else f"{self.rate:.1f}/s"

    def _format_time_left(self) -> str:
        seconds = (self.total - self.done) / self.rate
        if not 0 < seconds < _LONGEST:
            return ""
        minutes, rest = divmod(math.ceil(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


def _fits(left: str, right: str, width: int) -> bool:
    return len(left) + len(right) + _EDGES + _BAR <= width
