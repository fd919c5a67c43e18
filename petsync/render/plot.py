"""The frame of a plot as SVG: axes, labels, gaps, and what is told of each column.

A plot is drawn for a width of its own and grows and shrinks with the page. Colours and patterns
are classes of `assets/history.css`: a style of its own would be against the page's policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from petsync.render.markup import element, text
from petsync.render.turns import Column

__all__ = ["BOTTOM", "LEFT", "RIGHT", "TOP", "WIDTH", "Frame", "date_labels", "figure", "shape"]

WIDTH, LEFT, RIGHT, TOP = 520.0, 46.0, 10.0, 14.0
BOTTOM = 22.0
_FEWEST = 12
_LABELS = 6
_APART = 76.0
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Frame:
    """Where the columns of a plot stand, the newest at the right."""

    def __init__(self, columns: Sequence[Column], width: float = WIDTH) -> None:
        self.columns = columns
        units = [column.width for column in columns]
        self.unit = (width - LEFT - RIGHT) / max(sum(units), _FEWEST)
        end = width - RIGHT
        starts = [end - left * self.unit for left in accumulate(reversed(units))]
        self.starts = starts[::-1]
        self.left, self.right = LEFT, end

    def places(self) -> Iterator[tuple[Column, float, float]]:
        """Each column with its left edge and its width."""
        for column, start in zip(self.columns, self.starts, strict=True):
            yield column, start, column.width * self.unit

    def gaps(self, height: float) -> str:
        """The columns where no round ran, hatched."""
        return "".join(
            shape("rect", x=x, y=TOP, width=wide, height=height, class_="ps-gap")
            for column, x, wide in self.places()
            if not column.turns
        )

    def told(self, height: float, say: Callable[[Column], str]) -> str:
        """Over everything, what a pointer is told of each column."""
        return "".join(
            element(
                "g",
                element("title", text(say(column)))
                + shape("rect", x=x, y=TOP, width=wide, height=height, class_="ps-hit"),
            )
            for column, x, wide in self.places()
        )

    def dates(self, y: float) -> str:
        """The moments below the columns."""
        last = self.right + _APART
        parts: list[str] = []
        for x, label in reversed(date_labels(self)):
            if last - x >= _APART or not parts:
                last = x
                anchor = "end" if x > self.right - _APART / 2 else "middle"
                place = self.right if anchor == "end" else max(x, self.left)
                parts.append(shape("text", label, x=place, y=y, text_anchor=anchor))
        return "".join(parts)


def shape(tag: str, inner: str = "", **attributes: str | float) -> str:
    """An element of SVG around text; numbers have one digit behind the point."""
    said = {name: v if isinstance(v, str) else f"{v:.1f}" for name, v in attributes.items()}
    return element(tag, text(inner), **said)


def date_labels(frame: Frame) -> list[tuple[float, str]]:
    """So many moments, the newest among them, as a reader needs to find one's way."""
    shown = [(x + wide / 2, column) for column, x, wide in frame.places() if column.turns]
    if not shown:
        return []
    span = shown[-1][1].since - shown[0][1].since
    step = max(len(shown) / _LABELS, 1)
    picked = [shown[-1 - round(n * step)] for n in range(_LABELS) if round(n * step) < len(shown)]
    named = {_date(column.since, span): x for x, column in picked}
    return sorted((x, label) for label, x in named.items())


def _date(moment: datetime, span: timedelta) -> str:
    if timedelta() < span < timedelta(hours=36):
        return f"{moment:%H:%M}"
    month = _MONTHS[moment.month - 1]
    return f"{moment.day} {month}" if span < timedelta(days=300) else f"{month} {moment.year}"


def figure(
    title: str, said: str, parts: Iterable[str], *, height: float, legend: str = "", name: str
) -> str:
    """A plot under its title (text), with what it shows in words for those who do not see it."""
    total = TOP + height + BOTTOM
    drawn = element(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {WIDTH:.0f} {total:.0f}",
        role="img",
        class_="ps-plot",
        aria_label=title,
        aria_describedby=f"{name}-said",
    )
    caption = element("figcaption", element("h3", text(title)) + legend)
    told = element("p", text(said), id=f"{name}-said", class_="ps-said")
    return element("figure", caption + drawn + told)
