"""The plots of a job's history, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from petsync.report.document import Badge, Figure
from petsync.report.history import UNCOMPARED, Period, describe_period, summarize_plot
from petsync.report.html import element, text
from petsync.report.round import status_badge

__all__ = [
    "axis_limit",
    "draw_plots",
    "draw_status_strip",
    "round_up_to_mark",
    "short_duration",
    "short_number",
    "steps",
    "steps_in_time",
]


# The frame of a plot as SVG: axes, labels, gaps and tooltips.
#
# A plot is drawn for a fixed width and scales with the page. Colours come from the classes in
# `assets/page.css`, because the page's content security policy forbids inline styles; the patterns
# are in `assets/page.html`.


_WIDTH, _LEFT, _RIGHT, _TOP = 520.0, 46.0, 10.0, 14.0
_BOTTOM, _HEIGHT = 22.0, 120.0
_MIN_COLUMNS = 12
_LABELS = 6
_LABEL_DISTANCE = 76.0
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class _PlotArea:
    """The positions of a plot's columns, one for each period, the newest at the right."""

    def __init__(self, periods: Sequence[Period], width: float = _WIDTH) -> None:
        self.periods = periods
        units = [period.width for period in periods]
        self.unit = (width - _LEFT - _RIGHT) / max(sum(units), _MIN_COLUMNS)
        end = width - _RIGHT
        starts = [end - left * self.unit for left in accumulate(reversed(units))]
        self.starts = starts[::-1]
        self.left, self.right = _LEFT, end

    def places(self) -> Iterator[tuple[Period, float, float]]:
        """Yield each period with the left edge and the width of its column."""
        for period, start in zip(self.periods, self.starts, strict=True):
            yield period, start, period.width * self.unit

    def gaps(self, height: float) -> str:
        """Return the hatched columns for gaps."""
        return "".join(
            _rectangle((x, _TOP, wide, height), "ps-gap", fill="url(#ps-gap)")
            for period, x, wide in self.places()
            if not period.turns
        )

    def draw_tooltips(self, height: float, say: Callable[[Period], str]) -> str:
        """Return transparent columns with tooltips, to be drawn on top of everything else."""
        return "".join(
            element(
                "g",
                _tooltip(say(period)) + _rectangle((x, _TOP, wide, height), "ps-hit"),
            )
            for period, x, wide in self.places()
        )

    def dates(self, y: float) -> str:
        """Return the dates or times below the columns."""
        last = self.right + _LABEL_DISTANCE
        parts: list[str] = []
        for x, label in reversed(_date_labels(self)):
            if last - x >= _LABEL_DISTANCE or not parts:
                last = x
                anchor = "end" if x > self.right - _LABEL_DISTANCE / 2 else "middle"
                place = self.right if anchor == "end" else max(x, self.left)
                parts.append(_svg_element("text", label, x=place, y=y, text_anchor=anchor))
        return "".join(parts)


def _tooltip(description: str) -> str:
    """Return a tooltip for an SVG element. Line breaks in the description are kept."""
    return element("title", "\n".join(map(text, description.split("\n"))))


def _svg_element(tag: str, inner: str = "", **attributes: str | float) -> str:
    """Return an SVG element around text; numbers have one decimal."""
    formatted = {name: v if isinstance(v, str) else f"{v:.1f}" for name, v in attributes.items()}
    return element(tag, text(inner), **formatted)


def _rectangle(place: tuple[float, float, float, float], kind: str, *, fill: str = "") -> str:
    """Return a rectangle. `place` is its left edge, top, width and height; `kind` is its class."""
    x, y, width, height = place
    return _svg_element("rect", x=x, y=y, width=width, height=height, class_=kind, fill=fill)


def _date_labels(frame: _PlotArea) -> list[tuple[float, str]]:
    """Return the positions and labels of a few columns, including the newest turn."""
    shown = [(x + wide / 2, period) for period, x, wide in frame.places() if period.turns]
    if not shown:
        return []
    span = shown[-1][1].since - shown[0][1].since
    step = max(len(shown) / _LABELS, 1)
    selected = [shown[-1 - round(n * step)] for n in range(_LABELS) if round(n * step) < len(shown)]
    x_of_label = {_date(period.since, span): x for x, period in selected}
    return sorted((x, label) for label, x in x_of_label.items())


def _date(time: datetime, span: timedelta) -> str:
    if timedelta() < span < timedelta(hours=36):
        return f"{time:%H:%M}"
    month = _MONTHS[time.month - 1]
    return f"{time.day} {month}" if span < timedelta(days=300) else f"{month} {time.year}"


def _figure(
    name: str, title: str, periods: Sequence[Period], parts: Iterable[str], legend: Legend = ()
) -> Figure:
    svg = _image(name, title, parts, (_WIDTH, _TOP + _HEIGHT + _BOTTOM), class_="ps-plot")
    return Figure(name, title, summarize_plot(periods, name.rpartition("-")[2]), svg, legend)


def _image(
    name: str, title: str, parts: Iterable[str], size: tuple[float, float], **attributes: str
) -> str:
    """Return an image of SVG elements. The document must contain its description, under the id
    `NAME-description`.
    """
    labels = {"role": "img", "aria_label": title, "aria_describedby": f"{name}-description"}
    view = f"0 0 {size[0]:.0f} {size[1]:.0f}"
    return element("svg", "".join(parts), viewBox=view, **labels, **attributes)


# Axes of a plot: ticks at round numbers, and a limit for outliers.


_OUTLIER_FACTOR = 8
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800)
_HOURS = (3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def axis_limit(values: Iterable[float]) -> float:
    """Return the end of an axis: the largest value, or a smaller limit if a few outliers would make
    the other values invisible.
    """
    positive = sorted(value for value in values if value > 0)
    if not positive:
        return 0
    typical = positive[(len(positive) - 1) * 9 // 10]
    usual_values = [value for value in positive if value <= _OUTLIER_FACTOR * typical]
    return 1.15 * usual_values[-1] if len(usual_values) < len(positive) else usual_values[-1]


def steps(top: float, limit: int = 4) -> list[float]:
    """Return the ticks of an axis: round integers from 0 to at most `top`, with at most `limit` of
    them above 0.
    """
    needed = max(top / limit, 1)
    size = 10 ** math.floor(math.log10(needed))
    step = next(n * size for n in (1, 2, 5, 10) if n * size >= needed)
    return [n * step for n in range(int(top / step + 1e-9) + 1)]


def steps_in_time(top: float, limit: int = 4) -> list[float]:
    """Return the ticks of a time axis: multiples of a common duration, in seconds, from 0 to at
    most `top`.
    """
    needed = top / limit
    days = [86_400 * step for step in steps(top / 86_400, limit)]
    step = next((n for n in (*_TIMES, *_HOURS) if n >= needed), 0)
    return [n * step for n in range(int(top / step + 1e-9) + 1)] if step else days


def round_up_to_mark(top: float, marks: Sequence[float]) -> float:
    """Return the first tick at or above `top`, so that the axis can end with a tick."""
    step = marks[1] if len(marks) > 1 else top
    return step * math.ceil(top / step - 1e-9) if step else top


_UNITS: Sequence[tuple[float, float, str]] = (
    (999.5e9, 1e12, "T"),
    (999.5e6, 1e9, "G"),
    (999_500, 1e6, "M"),
    (9_999.5, 1e3, "k"),
)
"""Units: the smallest value that is shown in the unit, the unit's size, and its symbol."""


def short_number(value: float) -> str:
    """Format a number briefly: `950`, `9,500`, `12k`, `1.5M`."""
    for least, size, unit in _UNITS:
        if value >= least:
            scaled = value / size
            return f"{scaled:.3g}{unit}" if scaled < 1_000 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}"


def short_duration(seconds: float) -> str:
    """Format a duration: `0.5 s`, `20 s`, `5 min`, `2 h`, `3 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# The plots of a job's history: status, changes, open differences, drift and duration.


_CELL = 18.0
_MIN_BAR_HEIGHT = 1.5
_MARK_DISTANCE = 34.0
_SIDES = ("\u2191 store", "\u2193 sheet")
Legend = Sequence[tuple[str, str]]
Stack = Sequence[tuple[str, float]]
"""The parts of a stacked bar, from the zero line outwards: the CSS class and the value of each."""
_PATTERNS = dict.fromkeys(("update", "finding"), "url(#ps-changed)")
_PATTERNS |= dict.fromkeys(("delete", "failed"), "url(#ps-deleted)")
_CHANGES: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "held": "planned, not made",
}
_OPEN: Mapping[str, tuple[str, str]] = {
    "conflict": ("conflicts", "conflicts"),
    "finding": ("findings", "errors in the sheet"),
    "failed": ("failed", "not applied"),
    "left": ("unexplained", "other differences"),
}


def draw_plots(periods: Sequence[Period], name: str) -> Iterator[Figure]:
    """Yield the four plots of a job; their names begin with `name`."""
    yield _changes_plot(periods, f"{name}-changes")
    yield _open_plot(periods, f"{name}-open")
    yield _line_plot(
        "Differences at the start of each round",
        periods,
        lambda period: _known_value(period, UNCOMPARED, period.total("drift")),
        f"{name}-drift",
        (steps, short_number),
    )
    yield _line_plot(
        "Duration",
        periods,
        lambda period: _known_value(
            period, ("locked",), max(turn.seconds for turn in period.turns)
        ),
        f"{name}-took",
        (steps_in_time, short_duration),
    )


def draw_status_strip(periods: Sequence[Period], name: str) -> Figure:
    """Return the status of each period as a shape and a sign, the newest at the right."""
    title = "How each round ended"
    width, height = _CELL * max(len(periods), 1), _CELL + 4
    svg = _image(
        name,
        title,
        (_mark(period, n * _CELL + _CELL / 2) for n, period in enumerate(periods)),
        (width, height),
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        preserveAspectRatio="xMaxYMid slice",
        class_="ps-strip",
    )
    ends = dict.fromkeys(status_badge(period.worst) for period in periods if period.turns)
    legend = [(_key(_draw_sign(end, 7, 7, 5.6)), end.title) for end in ends]
    return Figure(name, title, summarize_plot(periods), svg, legend)


def _mark(period: Period, x: float) -> str:
    y, size = _CELL / 2 + 2, _CELL / 2 - 1.5
    if not period.turns:
        sign = _svg_element("path", d=f"M{x - 4:.1f} {y:.1f}h8", class_="ps-none-ran")
    else:
        sign = _draw_sign(status_badge(period.worst), x, y, size)
    hit = _rectangle((x - _CELL / 2, 0, _CELL, _CELL + 4), "ps-hit")
    return element("g", _tooltip(describe_period(period)) + sign + hit)


def _draw_sign(end: Badge, x: float, y: float, size: float) -> str:
    """Return a circle if all is well, a triangle for a warning, a square for a problem, and the
    sign on it.
    """
    kind = f"ps-shape ps-{end.mark}"
    if end.mark == "applied":
        shape = _svg_element("circle", cx=x, cy=y, r=size, class_=kind)
    elif end.mark == "blocked":
        shape = _rectangle((x - size, y - size, 2 * size, 2 * size), kind)
    else:
        d = f"M{x:.1f} {y - size - 1:.1f}l{size + 1:.1f} {2 * size + 1:.1f}h{-2 * size - 2:.1f}z"
        shape = _svg_element("path", d=d, class_=kind)
    return shape + _svg_element(
        "text", end.sign, x=x, y=y + size / 2, text_anchor="middle", class_="ps-sign"
    )


def _swatch(kind: str) -> str:
    return _key(_block((1, 1, 12, 12), kind))


def _block(place: tuple[float, float, float, float], kind: str) -> str:
    """Return a part of a bar, hatched if its kind has a pattern."""
    return _rectangle(place, f"ps-block ps-{kind}", fill=_PATTERNS.get(kind, ""))


def _key(inner: str) -> str:
    return element("svg", inner, viewBox="0 0 14 14", class_="ps-key", aria_hidden="true")


def _changes_plot(periods: Sequence[Period], name: str) -> Figure:
    up = [_stack(period, "to_store") for period in periods]
    down = [_stack(period, "to_sheet") for period in periods]
    used_kinds = [kind for kind in _CHANGES if any(dict(stack)[kind] for stack in (*up, *down))]
    sides = [
        side for side, stacks in zip(_SIDES, (up, down), strict=True) if any(map(_height, stacks))
    ]
    keys = [(_swatch(kind), _CHANGES[kind]) for kind in used_kinds]
    legend = [*keys, *([("", " ".join(sides))] if sides else [])]
    return _bar_plot("Changes", periods, (up, down), name, legend)


def _stack(period: Period, side: str) -> Stack:
    made_counts = period.count_made(side)
    planned = period.count_planned(side)
    return [
        ("add", made_counts.add),
        ("update", made_counts.update),
        ("delete", made_counts.delete),
        ("held", planned),
    ]


def _open_plot(periods: Sequence[Period], name: str) -> Figure:
    stacks = [
        [(kind, period.total(field)) for kind, (field, _) in _OPEN.items()] for period in periods
    ]
    used_kinds = [kind for kind in _OPEN if any(dict(stack)[kind] for stack in stacks)]
    legend = [(_swatch(kind), _OPEN[kind][1]) for kind in used_kinds]
    return _bar_plot("Left open", periods, (stacks, []), name, legend)


def _height(stack: Stack) -> float:
    return sum(value for _, value in stack)


def _bar_plot(
    title: str,
    periods: Sequence[Period],
    stacks: tuple[Sequence[Stack], Sequence[Stack]],
    name: str,
    legend: Legend,
) -> Figure:
    """Return a bar plot with the first stacks upwards and the second ones downwards, on one
    scale.
    """
    frame = _PlotArea(periods)
    tops = [axis_limit(map(_height, side)) for side in stacks]
    marks = steps(sum(tops)) if any(tops) else [0.0]
    tops = [round_up_to_mark(top, marks) if top else 0 for top in tops]
    whole = sum(tops) or 1.0
    zero = _TOP + _HEIGHT * (tops[0] / whole if sum(tops) else 1)
    scale = _HEIGHT / whole
    parts = [frame.gaps(_HEIGHT), _grid_plot(frame, zero, scale, tops, marks)]
    for side, top, sign in zip(stacks, tops, (-1, 1), strict=True):
        for stack, (_, x, wide) in zip(side, frame.places(), strict=False):
            parts.append(_bar(stack, (x, wide), zero, sign * scale, top))
        heights = map(_height, side)
        parts += _cut_marks(frame, heights, zero + sign * top * scale, top, (sign, short_number))
    parts += [frame.dates(_TOP + _HEIGHT + 17), frame.draw_tooltips(_HEIGHT, describe_period)]
    return _figure(name, title, periods, parts, legend)


def _grid_plot(
    frame: _PlotArea, zero: float, scale: float, tops: Sequence[float], marks: Sequence[float]
) -> str:
    parts = [_grid_line(frame, zero, "0", kind="ps-zero")]
    step = marks[1] if len(marks) > 1 else sum(tops)
    for sign, top in zip((-1, 1), tops, strict=True):
        values = [n * step for n in range(1, round(top / step) + 1)] if step else []
        parts += [_grid_line(frame, zero + sign * v * scale, short_number(v)) for v in values]
    return "".join(parts)


def _grid_line(frame: _PlotArea, y: float, label: str, kind: str = "ps-rule") -> str:
    line = _svg_element("path", d=f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}", class_=kind)
    return line + _svg_element("text", label, x=frame.left - 6, y=y + 4, text_anchor="end")


def _bar(stack: Stack, place: tuple[float, float], zero: float, scale: float, top: float) -> str:
    """Return a stacked bar that starts at the zero line and is cut at the limit of the axis."""
    x, wide = place
    gap = min(wide * 0.2, 3)
    parts: list[str] = []
    level = 0.0
    for kind, value in stack:
        end = min(level + value, top)
        if end > level:
            ends = sorted((zero + level * scale, zero + end * scale))
            bar_height = max(ends[1] - ends[0], _MIN_BAR_HEIGHT)
            y = ends[1] - bar_height if scale < 0 else ends[0]
            width = max(min(wide - gap, 28), 0.6)
            left = x + (wide - width) / 2
            parts.append(_block((left, y, width, bar_height), kind))
        level += value
    return "".join(parts)


def _cut_marks(
    frame: _PlotArea,
    values: Iterable[float | None],
    y: float,
    top: float,
    formatting: tuple[int, Callable[[float], str]],
) -> Iterator[str]:
    """Yield a mark for each value that exceeds the limit of the axis. Of marks that are close
    together, only the one with the largest value has a label.
    """
    sign, format_value = formatting
    cut_values = [
        (x + wide / 2, value)
        for value, (_, x, wide) in zip(values, frame.places(), strict=False)
        if value is not None and value > top > 0
    ]
    for x, value in cut_values:
        neighbours = [
            (other, -place) for place, other in cut_values if abs(place - x) < _MARK_DISTANCE
        ]
        offset = -8 * sign
        d = f"M{x - 8:.1f} {y + offset:.1f}l4 -4l4 4l4 -4l4 4"
        yield _svg_element("path", d=d, class_="ps-cut")
        if (value, -x) == max(neighbours):
            label_y = y - 3 if sign < 0 else y + 11
            yield _svg_element(
                "text", format_value(value), x=x, y=label_y, text_anchor="middle", class_="ps-far"
            )


def _known_value(period: Period, statuses: Sequence[str], value: float) -> float | None:
    """Return the value; None if all rounds of the period have one of these statuses."""
    is_known = any(each.status not in statuses for each in period.rounds)
    return value if is_known else None


def _line_plot(
    title: str,
    periods: Sequence[Period],
    value: Callable[[Period], float | None],
    name: str,
    axis: tuple[Callable[[float], list[float]], Callable[[float], str]],
) -> Figure:
    frame = _PlotArea(periods)
    values = [value(period) if period.turns else None for period in periods]
    top = axis_limit(each for each in values if each is not None) or 1.0
    top = round_up_to_mark(top, axis[0](top))
    zero, scale = _TOP + _HEIGHT, _HEIGHT / top
    parts = [frame.gaps(_HEIGHT)]
    parts += [
        _grid_line(frame, zero - step * scale, axis[1](step), "ps-rule" if step else "ps-zero")
        for step in axis[0](top)
    ]
    points = [
        None if each is None else (x + wide / 2, zero - min(each, top) * scale)
        for each, (_, x, wide) in zip(values, frame.places(), strict=True)
    ]
    parts += [_line_segment(run, zero, dots=len(periods) <= 90) for run in _split_at_gaps(points)]
    parts += _cut_marks(frame, values, _TOP, top, (-1, axis[1]))
    parts += [frame.dates(zero + 17), frame.draw_tooltips(_HEIGHT, describe_period)]
    return _figure(name, title, periods, parts)


Point = tuple[float, float]


def _split_at_gaps(points: Iterable[Point | None]) -> Iterator[list[Point]]:
    segment: list[Point] = []
    for point in [*points, None]:
        if point is not None:
            segment.append(point)
        elif segment:
            yield segment
            segment = []


def _line_segment(points: Sequence[Point], zero: float, *, dots: bool) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"M{path}L{points[-1][0]:.1f} {zero:.1f}H{points[0][0]:.1f}z"
    parts = _svg_element("path", d=area, class_="ps-area") + _svg_element(
        "path", d=f"M{path}", class_="ps-line"
    )
    if dots or len(points) == 1:
        parts += "".join(
            _svg_element("circle", cx=x, cy=y, r=2.4, class_="ps-dot") for x, y in points
        )
    return parts
