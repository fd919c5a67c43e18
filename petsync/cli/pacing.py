"""How a run goes: the options that `apply`, `resume` and `undo` share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

__all__ = ["Rate", "run_options"]


class Rate(click.ParamType[float]):
    """Requests a second, from `20` or `20/s`."""

    name = "N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Requests a second, from `20` or `20/s`."""
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?:/s)?", str(value), re.ASCII)
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is no number of requests a second, such as 20.", param, ctx)
        return float(match[1])


_NAMES = ("concurrency", "rate", "verify", "recheck", "max_failures", "settle")
_OPTIONS = (
    click.option(
        "--concurrency",
        type=click.IntRange(1, 128),
        metavar="N",
        help="The most changes at a time; fewer while the service is slow or refuses.  [16]",
    ),
    click.option("--rate", type=Rate(), metavar="N", help="The most requests a second."),
    click.option("--verify", is_flag=True, default=None, help="Read every changed pet back."),
    click.option(
        "--recheck",
        type=click.Choice(("each", "bulk")),
        help="Read each pet again just before its change, or all of them once at the beginning, "
        "which is faster.  [each]",
    ),
    click.option(
        "--max-failures",
        type=click.IntRange(0),
        metavar="N",
        help="Stop, resumable, when more changes than this have failed.  [no limit]",
    ),
    click.option(
        "--settle",
        type=click.FloatRange(0, 3600),
        metavar="SECONDS",
        help="How long an add without an id, that got no answer and is not there, may still "
        "arrive, before it is sent again.  [the timeout, 30]",
    ),
)


def run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give the command these options, and its function those that were given as `pacing`."""

    @functools.wraps(function)
    def gathered(*args: Any, **options: Any) -> int:
        given = {name: options.pop(name) for name in _NAMES}
        pacing = {name: value for name, value in given.items() if value is not None}
        return function(*args, pacing=pacing, **options)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered
