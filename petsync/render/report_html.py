"""A report as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from petsync.diff.report import OUTCOMES, Report, Result
from petsync.render import markup, words
from petsync.render.causes import QUIET
from petsync.render.digest import Group, results_by_cause
from petsync.render.markup import cell, element

__all__ = ["causes_html", "report_html"]

_COLUMNS = ("", "Where", "Change", "Id", "Pet", "What happened")


def report_html(report: Report, *, limit: int | None = 20) -> str:
    """The report with the first `limit` rows of each outcome that needs a person."""
    return markup.fragment(_parts(report, limit))


def _parts(report: Report, limit: int | None) -> Iterator[str]:
    yield markup.summary(words.report_summary(report))
    yield markup.facts([("run", report.run_id), *words.report_facts(report)])
    if report.stopped:
        yield markup.alert(words.STOPPED, map(markup.text, report.stopped.splitlines()))
    yield _totals(report)
    yield from causes_html(report, limit)
    if back := words.way_back(report):
        yield element("p", markup.prose(back), class_="ps-kept")


def causes_html(report: Report, limit: int | None, *, is_over: bool = False) -> Iterator[str]:
    """The results that need a person by their causes, each a part that folds. With `is_over` no
    cures are named.
    """
    row = partial(_row, names=words.named_in(report.plan))
    fold_over = markup.fold_over(limit)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield _group(group, map(row, group.listing.shown), fold_over)


def _group(group: Group, rows: Iterable[str], fold_over: int) -> str:
    inner = element("p", markup.prose(group.told.meaning), class_="ps-kept")
    if group.told.cure:
        inner += element("p", markup.prose(group.told.cure))
    inner += markup.table(_COLUMNS, rows)
    if group.listing.more:
        inner += f"\n<p>... and {words.number(group.listing.more)} more</p>"
    is_open = group.cause not in QUIET and len(group.listing.shown) <= fold_over
    return markup.folding(group.title, inner, open_=is_open)


def _totals(report: Report) -> str:
    counts = report.counts
    rows = [(outcome, counts[outcome]) for outcome in OUTCOMES]
    lines = [_total(name, value) for name, value in (*rows, ("total", sum(counts.values())))]
    return markup.table(("Outcome", "Rows"), lines, small=True)


def _total(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", markup.row_head(name) + number)


def _row(result: Result, *, names: Sequence[str]) -> str:
    return markup.row(
        words.OUTCOME_MARK[result.outcome],
        cell(result.source, kind="ps-where"),
        cell("" if result.kind == "none" else result.kind),
        cell("" if result.pet_id is None else str(result.pet_id), kind="ps-number"),
        cell(names[result.number] if result.number < len(names) else ""),
        cell(result.message),
    )
