"""A report as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from petsync.diff.report import OUTCOMES, Report, Result
from petsync.render import markup, words
from petsync.render.digest import results_by_outcome
from petsync.render.markup import cell, element

__all__ = ["RESULTS", "report_html", "result_row"]

RESULTS = ("", "Where", "Change", "Id", "Pet", "What happened")
"""The columns of `result_row`."""


def report_html(report: Report, *, limit: int | None = 20) -> str:
    """The report with the first `limit` rows of each outcome that needs a person."""
    return markup.fragment(_parts(report, limit))


def _parts(report: Report, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    yield markup.summary(words.report_summary(report))
    yield markup.facts([("run", report.run_id), *words.report_facts(report)])
    if report.stopped:
        yield markup.alert(words.STOPPED, map(markup.text, report.stopped.splitlines()))
    yield _totals(report)
    groups = results_by_outcome(report, limit)
    row = partial(result_row, names=words.named_in(report.plan))
    for outcome in words.TO_LOOK_AT:
        if outcome in groups:
            title = words.results_title(outcome, groups[outcome].total)
            yield markup.listing(title, groups[outcome], RESULTS, row, fold_over=fold_over)


def _totals(report: Report) -> str:
    counts = report.counts
    rows = [(outcome, counts[outcome]) for outcome in OUTCOMES]
    lines = [_total(name, value) for name, value in (*rows, ("total", sum(counts.values())))]
    return markup.table(("Outcome", "Rows"), lines, small=True)


def _total(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", markup.row_head(name) + number)


def result_row(result: Result, *, names: Sequence[str]) -> str:
    """The row of a table: where, which change of which pet, and what happened. `names` are the
    pets' by the results' numbers.
    """
    return markup.row(
        words.OUTCOME_MARK[result.outcome],
        cell(result.source, kind="ps-where"),
        cell("" if result.kind == "none" else result.kind),
        cell("" if result.pet_id is None else str(result.pet_id), kind="ps-number"),
        cell(names[result.number] if result.number < len(names) else ""),
        cell(result.message),
    )
