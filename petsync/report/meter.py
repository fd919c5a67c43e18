"""The texts beside a progress bar, shortened to fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from petsync.report.words import count, number

__all__ = ["BORDERS_WIDTH", "Meter"]


_MIN_BAR_WIDTH = 5
"""The minimum width of the bar itself, in cells."""
_WIDE = 99
BORDERS_WIDTH = len(" |") + len("| ")
_MAX_RANK, _LINE_RANK = 6, 2
"""The highest rank of a part beside the bar, and the highest rank of a part in a separate line."""
_MAX_SECONDS = 100 * 3600
"""A longer remaining time is not shown, because it would be a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """The progress of a run at one point in time."""

    text: str
    unit: str
    done: int
    total: int
    sent: int = 0
    """The number of bytes sent so far."""
    size: int = 0
    """The number of all bytes; 0 if the progress is measured in items."""
    rate: float = 0.0
    """Items, or bytes, per second."""
    limit: int = 0
    """The number of requests that may be in flight at a time; 0 if unknown."""
    retries: int = 0
    problems: int = 0
    waiting: float = 0.0
    """The remaining seconds of a pause that the service asked for."""

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1."""
        done, total = (self.sent, self.size) if self.size else (self.done, self.total)
        return min(done, total) / total if total else 0.0

    def sides(self, width: int | None) -> tuple[str, str]:
        """Return the texts left and right of the bar in a line of `width` cells. If the line is
        narrow, less important parts are left out. Without a width, nothing is left out.
        """
        percent = f"{math.floor(100 * self.share):3}%" if self.total else ""
        # A title that appears and disappears would make the bar jump.
        is_roomy = width is None or width >= _WIDE or not self.limit
        left = f"{self.text} {percent}" if is_roomy else percent
        right = self._join_parts().replace("\0", f" {self.unit}")
        if width is None or _fits(left, right, width):
            return left, right
        right = right.replace(f" {self.unit}", "")
        if _fits(left, right, width):
            return left, right
        for max_rank in range(_MAX_RANK, -1, -1):
            right = self._join_parts(max_rank).replace("\0", "")
            if _fits(percent, right, width):
                break
        return percent, right

    def line(self) -> str:
        """Return the most important parts as a line without a bar."""
        return self._join_parts(_LINE_RANK).replace("/", " of ", 1).replace("\0", f" {self.unit}")

    def _join_parts(self, max_rank: int = 10) -> str:
        return ", ".join(text for rank, text in self._parts() if rank <= max_rank)

    def _parts(self) -> Sequence[tuple[int, str]]:
        """Return the parts of the text, each with its rank; 0 is the most important."""
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
        if self.size:
            unit, factor = ("KiB", 1024) if self.rate < 1024**2 else ("MiB", 1024**2)
            return f"{self.rate / factor:.1f} {unit}/s"
        return f"{number(round(self.rate))}/s" if self.rate >= 9.95 else f"{self.rate:.1f}/s"

    def _format_time_left(self) -> str:
        left = self.size - self.sent if self.size else self.total - self.done
        seconds = left / self.rate
        if not 0 < seconds < _MAX_SECONDS:
            return ""
        minutes, rest = divmod(math.ceil(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d} left" if hours else f"{minutes}:{rest:02d} left"


def _fits(left: str, right: str, width: int) -> bool:
    return len(left) + len(right) + BORDERS_WIDTH + _MIN_BAR_WIDTH <= width
