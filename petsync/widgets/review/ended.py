"""Ended: a run's report, with its results in groups that a person can look at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from petsync.diff.report import Report, Result
from petsync.render import words
from petsync.render.digest import Group, results_by_cause
from petsync.widgets.review.rows import Row, result_row

__all__ = ["Ended"]

_ALL = -1


class Ended:
    """A report, looked at by a person. Making it takes a while where the report is large."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.groups: list[Group] = results_by_cause(report, None)
        self._names = words.named_in(report.plan)

    @property
    def views(self) -> list[tuple[str, int]]:
        """What can be shown, each with its number: everything, or one group."""
        titles = [(group.title, number) for number, group in enumerate(self.groups)]
        return [(f"Everything ({words.number(len(self.report.results))})", _ALL), *titles]

    @property
    def first(self) -> int:
        """What a person should see first: the largest group that is none of success."""
        worst = (n for n, group in enumerate(self.groups) if not group.is_plain)
        return next(worst, _ALL)

    def results(self, view: int) -> Sequence[Result]:
        """The results of a view."""
        return self.report.results if view == _ALL else self._group(view)

    def row(self, result: Result) -> Row:
        """A result as a row."""
        number = result.number
        name = self._names[number] if number < len(self._names) else ""
        return result_row(str(number), result, name)

    @property
    def can_resume(self) -> bool:
        """Whether going on may do anything."""
        return bool(self.report.stopped or words.left_to_do(self.report))

    @property
    def can_undo(self) -> bool:
        """Whether anything can be taken back."""
        return any(result.outcome == "applied" for result in self.report.results)

    @cached_property
    def is_pressed(self) -> bool:
        """Whether the service asked for fewer requests."""
        return any(group.cause == "too-many" for group in self.groups)

    def _group(self, view: int) -> Sequence[Result]:
        group = self.groups[view]
        wanted = (group.outcome, group.cause)
        return [r for r in self.report.results if (r.outcome, r.cause) == wanted]
