"""The plots of a job's history: how its turns ended, what changed, what is open, drift, time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from petsync.render import round_words as said
from petsync.render.history_words import UNKNOWN, about_column, extremes
from petsync.render.markup import element, text
from petsync.render.plot import TOP, Frame, figure, shape
from petsync.render.scale import (
    ceiling,
    rounded_up,
    short_duration,
    short_number,
    steps,
    steps_in_time,
)
from petsync.render.turns import Column

__all__ = ["plots", "strip"]

_HEIGHT = 120.0
_CELL = 18.0
_LOW = 1.5
_CLOSE = 34.0
_SIDES = ("\u2191 store", "\u2193 sheet")
Stack = Sequence[tuple[str, float]]
"""Classes and values, the lowest first."""
_CHANGES: Mapping[str, str] = {
    "add": "added",
    "update": "changed",
    "delete": "deleted",
    "held": "planned, not made",
}
_OPEN: Mapping[str, tuple[str, str]] = {
    "conflict": ("conflicts", "conflicts"),
    "finding": ("findings", "errors in the sheet"),
    "failed": ("failed", "did not arrive"),
    "left": ("left", "other differences"),
}


def plots(columns: Sequence[Column], name: str) -> Iterator[str]:
    """The four of them; `name` keeps their ids apart from those of others on the page."""
    yield _changes(columns, f"{name}-changes")
    yield _open(columns, f"{name}-open")
    yield _line(
        "Differences found at the beginning",
        columns,
        lambda column: _unless(column, UNKNOWN, column.total("drift")),
        f"{name}-drift",
        (steps, short_number),
    )
    yield _line(
        "Duration",
        columns,
        lambda column: _unless(column, ("locked",), max(turn.seconds for turn in column.turns)),
        f"{name}-took",
        (steps_in_time, short_duration),
    )


def strip(columns: Sequence[Column], name: str) -> str:
    """How each turn ended: a shape and a sign for each, the newest at the right."""
    width = _CELL * max(len(columns), 1)
    drawn = (_mark(column, n * _CELL + _CELL / 2) for n, column in enumerate(columns))
    svg = element(
        "svg",
        "".join(drawn),
        viewBox=f"0 0 {width:.0f} {_CELL + 4:.0f}",
        width=f"{width:.0f}",
        height=f"{_CELL + 4:.0f}",
        preserveAspectRatio="xMaxYMid slice",
        role="img",
        class_="ps-strip",
        aria_label="How each round ended",
        aria_describedby=f"{name}-said",
    )
    seen = dict.fromkeys(column.worst.status for column in columns if column.turns)
    ends = [said.ENDS[status] for status in seen]
    legend = _legend(*((_key(_signed(end, 7, 7, 5.6)), end.title) for end in ends))
    caption = element("figcaption", element("h3", "How each round ended") + legend)
    told = element("p", text(extremes(columns)), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + svg + told, class_="ps-ends")


def _mark(column: Column, x: float) -> str:
    y, size = _CELL / 2 + 2, _CELL / 2 - 1.5
    if not column.turns:
        drawn = shape("path", d=f"M{x - 4:.1f} {y:.1f}h8", class_="ps-none-ran")
    else:
        drawn = _signed(said.ENDS[column.worst.status], x, y, size)
    hit = shape("rect", x=x - _CELL / 2, y=0, width=_CELL, height=_CELL + 4, class_="ps-hit")
    return element("g", element("title", text(about_column(column))) + drawn + hit)


def _signed(end: said.End, x: float, y: float, size: float) -> str:
    sign = shape("text", end.sign, x=x, y=y + size / 2, text_anchor="middle")
    return _shape(end.level, x, y, size) + sign


def _shape(level: str, x: float, y: float, size: float) -> str:
    """A circle where all is well, a triangle to look at, a square where it is bad."""
    if level == "well":
        return shape("circle", cx=x, cy=y, r=size, class_="ps-well")
    if level == "bad":
        return shape(
            "rect", x=x - size, y=y - size, width=2 * size, height=2 * size, class_="ps-bad"
        )
    d = f"M{x:.1f} {y - size - 1:.1f}l{size + 1:.1f} {2 * size + 1:.1f}h{-2 * size - 2:.1f}z"
    return shape("path", d=d, class_="ps-look")


def _legend(*entries: tuple[str, str]) -> str:
    """Drawn keys, and words."""
    items = (element("li", f"{key} {text(title)}".strip()) for key, title in entries)
    return element("ul", "".join(items), class_="ps-legend")


def _swatch(kind: str) -> str:
    """The key of a part of a bar."""
    drawn = shape("rect", x=1, y=1, width=12, height=12, class_=f"ps-bar ps-{kind}")
    return _key(drawn)


def _key(drawn: str) -> str:
    return element("svg", drawn, viewBox="0 0 14 14", class_="ps-key", aria_hidden="true")


def _changes(columns: Sequence[Column], name: str) -> str:
    up = [_stack(column, "to_store") for column in columns]
    down = [_stack(column, "to_sheet") for column in columns]
    used = [kind for kind in _CHANGES if any(dict(stack)[kind] for stack in (*up, *down))]
    sides = [
        side for side, stacks in zip(_SIDES, (up, down), strict=True) if any(map(_height, stacks))
    ]
    keys = [(_swatch(kind), _CHANGES[kind]) for kind in used]
    legend = _legend(*keys, *([("", " ".join(sides))] if sides else []))
    return _bars("Changes", columns, (up, down), name, legend)


def _stack(column: Column, side: str) -> Stack:
    made = column.made(side)
    held = column.planned(side)
    return [("add", made.add), ("update", made.update), ("delete", made.delete), ("held", held)]


def _open(columns: Sequence[Column], name: str) -> str:
    stacks = [
        [(kind, column.total(field)) for kind, (field, _) in _OPEN.items()] for column in columns
    ]
    used = [kind for kind in _OPEN if any(dict(stack)[kind] for stack in stacks)]
    legend = _legend(*((_swatch(kind), _OPEN[kind][1]) for kind in used))
    return _bars("Left open", columns, (stacks, []), name, legend)


def _height(stack: Stack) -> float:
    return sum(value for _, value in stack)


def _bars(
    title: str,
    columns: Sequence[Column],
    stacks: tuple[Sequence[Stack], Sequence[Stack]],
    name: str,
    legend: str,
) -> str:
    """Bars up, and down where the second stacks have anything, on one scale."""
    frame = Frame(columns)
    tops = [ceiling(map(_height, side)) for side in stacks]
    marks = steps(sum(tops)) if any(tops) else [0.0]
    tops = [rounded_up(top, marks) if top else 0 for top in tops]
    whole = sum(tops) or 1.0
    zero = TOP + _HEIGHT * (tops[0] / whole if sum(tops) else 1)
    scale = _HEIGHT / whole
    parts = [frame.gaps(_HEIGHT), _grid(frame, zero, scale, tops, marks)]
    for side, top, sign in zip(stacks, tops, (-1, 1), strict=True):
        for stack, (_, x, wide) in zip(side, frame.places(), strict=False):
            parts.append(_bar(stack, (x, wide), zero, sign * scale, top))
        heights = map(_height, side)
        parts += _cuts(frame, heights, zero + sign * top * scale, top, (sign, short_number))
    parts += [frame.dates(TOP + _HEIGHT + 17), frame.told(_HEIGHT, about_column)]
    return figure(
        title,
        extremes(columns, name.rpartition("-")[2]),
        parts,
        height=_HEIGHT,
        legend=legend,
        name=name,
    )


def _grid(
    frame: Frame, zero: float, scale: float, tops: Sequence[float], marks: Sequence[float]
) -> str:
    parts = [_rule(frame, zero, "0", kind="ps-zero")]
    step = marks[1] if len(marks) > 1 else sum(tops)
    for sign, top in zip((-1, 1), tops, strict=True):
        values = [n * step for n in range(1, round(top / step) + 1)] if step else []
        parts += [_rule(frame, zero + sign * v * scale, short_number(v)) for v in values]
    return "".join(parts)


def _rule(frame: Frame, y: float, label: str, kind: str = "ps-rule") -> str:
    line = shape("path", d=f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}", class_=kind)
    return line + shape("text", label, x=frame.left - 6, y=y + 4, text_anchor="end")


def _bar(stack: Stack, place: tuple[float, float], zero: float, scale: float, top: float) -> str:
    """The values on each other, away from the zero line; over the top it is cut, and says so."""
    x, wide = place
    gap = min(wide * 0.2, 3)
    parts: list[str] = []
    level = 0.0
    for kind, value in stack:
        end = min(level + value, top)
        if end > level:
            ends = sorted((zero + level * scale, zero + end * scale))
            tall = max(ends[1] - ends[0], _LOW)
            y = ends[1] - tall if scale < 0 else ends[0]
            width = max(min(wide - gap, 28), 0.6)
            left = x + (wide - width) / 2
            parts.append(
                shape("rect", x=left, y=y, width=width, height=tall, class_=f"ps-bar ps-{kind}")
            )
        level += value
    return "".join(parts)


def _cuts(
    frame: Frame,
    values: Iterable[float | None],
    y: float,
    top: float,
    how: tuple[int, Callable[[float], str]],
) -> Iterator[str]:
    """Where values are over the top, a mark that they go on; of those that stand close together the
    largest says how far.
    """
    sign, say = how
    found = [
        (x + wide / 2, value)
        for value, (_, x, wide) in zip(values, frame.places(), strict=False)
        if value is not None and value > top > 0
    ]
    for x, value in found:
        near = [(other, -place) for place, other in found if abs(place - x) < _CLOSE]
        inward = -8 * sign
        d = f"M{x - 8:.1f} {y + inward:.1f}l4 -4l4 4l4 -4l4 4"
        yield shape("path", d=d, class_="ps-cut")
        if (value, -x) == max(near):
            at = y - 3 if sign < 0 else y + 11
            yield shape("text", say(value), x=x, y=at, text_anchor="middle", class_="ps-far")


def _unless(column: Column, statuses: Sequence[str], value: float) -> float | None:
    """The value, unless no round of the column came as far as to know it."""
    known = any(each.status not in statuses for each in column.rounds)
    return value if known else None


def _line(
    title: str,
    columns: Sequence[Column],
    value: Callable[[Column], float | None],
    name: str,
    axis: tuple[Callable[[float], list[float]], Callable[[float], str]],
) -> str:
    frame = Frame(columns)
    values = [value(column) if column.turns else None for column in columns]
    top = ceiling(each for each in values if each is not None) or 1.0
    top = rounded_up(top, axis[0](top))
    zero, scale = TOP + _HEIGHT, _HEIGHT / top
    parts = [frame.gaps(_HEIGHT)]
    parts += [
        _rule(frame, zero - step * scale, axis[1](step), "ps-rule" if step else "ps-zero")
        for step in axis[0](top)
    ]
    points = [
        None if each is None else (x + wide / 2, zero - min(each, top) * scale)
        for each, (_, x, wide) in zip(values, frame.places(), strict=True)
    ]
    parts += [_run(run, zero, dots=len(columns) <= 90) for run in _unbroken(points)]
    parts += _cuts(frame, values, TOP, top, (-1, axis[1]))
    parts += [frame.dates(zero + 17), frame.told(_HEIGHT, about_column)]
    return figure(
        title, extremes(columns, name.rpartition("-")[2]), parts, height=_HEIGHT, name=name
    )


Point = tuple[float, float]


def _unbroken(points: Iterable[Point | None]) -> Iterator[list[Point]]:
    run: list[Point] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def _run(points: Sequence[Point], zero: float, *, dots: bool) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"M{path}L{points[-1][0]:.1f} {zero:.1f}H{points[0][0]:.1f}z"
    drawn = shape("path", d=area, class_="ps-area") + shape("path", d=f"M{path}", class_="ps-line")
    if dots or len(points) == 1:
        drawn += "".join(shape("circle", cx=x, cy=y, r=2.4, class_="ps-dot") for x, y in points)
    return drawn
