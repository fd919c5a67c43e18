"""How values become places in a plot: round steps, and a ceiling for the few that are far off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["ceiling", "rounded_up", "short_duration", "short_number", "steps", "steps_in_time"]

_FAR_OFF = 8
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800)
_HOURS = (3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def ceiling(values: Iterable[float]) -> float:
    """How far an axis has to reach: as far as the largest value, unless a few are so far off that
    nothing could be seen of the others.
    """
    found = sorted(value for value in values if value > 0)
    if not found:
        return 0
    usual = found[(len(found) - 1) * 9 // 10]
    near = [value for value in found if value <= _FAR_OFF * usual]
    return 1.15 * near[-1] if len(near) < len(found) else near[-1]


def steps(top: float, most: int = 4) -> list[float]:
    """Round whole numbers from 0 up to `top` or a little less, at most `most` of them above 0."""
    needed = max(top / most, 1)
    size = 10 ** math.floor(math.log10(needed))
    step = next(n * size for n in (1, 2, 5, 10) if n * size >= needed)
    return [n * step for n in range(int(top / step + 1e-9) + 1)]


def steps_in_time(top: float, most: int = 4) -> list[float]:
    """Seconds that people count in, from 0 up to `top` or a little less."""
    needed = top / most
    days = [86_400 * step for step in steps(top / 86_400, most)]
    step = next((n for n in (*_TIMES, *_HOURS) if n >= needed), 0)
    return [n * step for n in range(int(top / step + 1e-9) + 1)] if step else days


def rounded_up(top: float, marks: Sequence[float]) -> float:
    """The first mark at or over `top`, so that an axis ends with one."""
    step = marks[1] if len(marks) > 1 else top
    return step * math.ceil(top / step - 1e-9) if step else top


_UNITS: Sequence[tuple[float, str]] = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_number(value: float) -> str:
    """`950`, `9,500`, `12k`, `1.5M`: at most five characters."""
    for size, unit in _UNITS:
        if value >= size:
            scaled = value / (1_000 if unit == "k" else size)
            return f"{scaled:.3g}{unit}" if scaled < 1_000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def short_duration(seconds: float) -> str:
    """`0.5 s`, `20 s`, `5 min`, `2 h`, `3 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
