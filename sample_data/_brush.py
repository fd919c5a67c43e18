"""A brush for small flat pictures: smooth shapes on a canvas of 320 × 240."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, cos, dist, pi, sin

from PIL import Image, ImageDraw

__all__ = ["Brush", "Point"]

Point = tuple[float, float]
WIDTH, HEIGHT = 320, 240
INK = "#2b2430"
FINE = 4  # drawn four times as large, so that edges come out smooth


class Brush:
    """Draws in the canvas's own units, origin at the top left; `turn` is in degrees."""

    def __init__(self, top: str, bottom: str) -> None:
        column = Image.new("RGB", (1, 2))
        for y, colour in enumerate((top, bottom)):
            column.paste(colour, (0, y, 1, y + 1))
        size = (WIDTH * FINE, HEIGHT * FINE)
        self._image = column.resize(size, Image.Resampling.BILINEAR)
        self._draw = ImageDraw.Draw(self._image)

    def finished(self) -> Image.Image:
        """The picture, 320 × 240, RGB."""
        return self._image.reduce(FINE)

    def poly(self, points: Sequence[Point], fill: str) -> None:
        """A shape with straight edges."""
        self._draw.polygon([(x * FINE, y * FINE) for x, y in points], fill=fill)

    def blob(self, points: Sequence[Point], fill: str) -> None:
        """A closed smooth shape through the points."""
        around = [points[-1], *points, *points[:2]]
        self.poly(list(_curve(around)), fill)

    def line(self, points: Sequence[Point], width: float, fill: str = INK, thin: float = 1) -> None:
        """A smooth stroke through the points with round ends; it ends at `thin` of its width."""
        spots = list(_curve([points[0], *points, points[-1]]))
        for n, (x, y) in enumerate(spots):
            r = width / 2 * (1 - (1 - thin) * n / len(spots))
            box = [(x - r) * FINE, (y - r) * FINE, (x + r) * FINE, (y + r) * FINE]
            self._draw.ellipse(box, fill=fill)

    def oval(self, x: float, y: float, rx: float, ry: float, fill: str, turn: float = 0) -> None:
        """An ellipse."""
        c, s = cos(turn * pi / 180), sin(turn * pi / 180)
        angles = [n * pi / 60 for n in range(120)]
        corners = [(rx * cos(a), ry * sin(a)) for a in angles]
        self.poly([(x + c * u - s * v, y + s * u + c * v) for u, v in corners], fill)

    def ovals(
        self, x: float, dx: float, y: float, rx: float, ry: float, fill: str, turn: float = 0
    ) -> None:
        """Two ellipses, mirrored at `x`; `turn` is that of the right one."""
        self.oval(x - dx, y, rx, ry, fill, -turn)
        self.oval(x + dx, y, rx, ry, fill, turn)

    def blobs(self, x: float, points: Sequence[Point], fill: str) -> None:
        """Two smooth shapes, mirrored at `x`; the points are relative to it."""
        self.blob([(x - px, py) for px, py in points], fill)
        self.blob([(x + px, py) for px, py in points], fill)

    def eye(self, x: float, y: float, r: float, white: float = 0) -> None:
        """A dark eye with a spark, in a white of `white` times its size."""
        if white:
            self.oval(x, y, r * white, r * white, "#ffffff")
        self.oval(x, y, r, r * 1.1, INK)
        self.oval(x - r * 0.3, y - r * 0.4, r * 0.32, r * 0.32, "#ffffff")

    def eyes(self, x: float, dx: float, y: float, r: float, white: float = 0) -> None:
        """Two eyes."""
        self.eye(x - dx, y, r, white)
        self.eye(x + dx, y, r, white)

    def smile(self, x: float, y: float, w: float, width: float = 2.4) -> None:
        """A muzzle's mouth: two small arcs that meet at (x, y)."""
        for side in (-1, 1):
            arc = [(x, y), (x + side * w / 2, y + w / 3), (x + side * w, y)]
            self.line(arc, width)

    def whiskers(self, x: float, dx: float, y: float, length: float, colour: str = INK) -> None:
        """Three to each side."""
        for side in (-1, 1):
            for lift in (-6, 0, 6):
                start = (x + side * dx, y + lift / 2)
                self.line([start, (x + side * (dx + length), y + lift * 1.6)], 1.2, colour)

    def ground(self, fill: str, top: float = 196) -> None:
        """A soft hill to stand on."""
        self.oval(160, top + 110, 290, 112, fill)


def _curve(points: Sequence[Point]) -> Iterator[Point]:
    """A Catmull-Rom spline from the second point to the last but one."""
    for p0, p1, p2, p3 in zip(points, points[1:], points[2:], points[3:], strict=False):
        steps = max(8, ceil(2 * dist(p1, p2)))
        for t in (n / steps for n in range(steps)):
            yield (_blend(p0[0], p1[0], p2[0], p3[0], t), _blend(p0[1], p1[1], p2[1], p3[1], t))
    yield points[-2]


def _blend(a: float, b: float, c: float, d: float, t: float) -> float:
    bend = 2 * a - 5 * b + 4 * c - d
    return b + 0.5 * t * (c - a + t * (bend + t * (3 * b - a - 3 * c + d)))
