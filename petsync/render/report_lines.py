"""A report as lines: the totals, the rows that need a person, and the sum of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from petsync.diff.report import OUTCOMES, Report, Result
from petsync.render import lines, words
from petsync.render.digest import Group, results_by_cause
from petsync.render.visible import shorten, visible

__all__ = ["outcome_lines", "report_lines"]

_NAME = 30


def report_lines(report: Report, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The report with the first `limit` rows of each outcome that needs a person."""
    yield Text.assemble(("petsync run ", "bold"), (visible(report.run_id), "bold"))
    yield from lines.facts(words.report_facts(report), width)
    yield lines.BLANK
    yield from outcome_lines(report, limit=limit, width=width)
    yield lines.BLANK
    yield from lines.paragraph(words.report_summary(report), width, style="bold")
    if back := words.way_back(report):
        yield from lines.paragraph(back, width, style="dim")


def outcome_lines(
    report: Report, *, limit: int | None, width: int, is_over: bool = False
) -> Iterator[Text]:
    """How many rows had each outcome, those that need a person by their causes, and why the run
    stopped early. With `is_over` no cures are named.
    """
    yield from _totals(report)
    yield from _stop(report, width)
    names = words.named_in(report.plan)
    for group in results_by_cause(report, limit, is_over=is_over):
        if not group.is_plain:
            yield from _group(group, names, width)


def _totals(report: Report) -> Iterator[Text]:
    counts = report.counts
    totals = [
        *((outcome, counts[outcome]) for outcome in OUTCOMES),
        ("total", sum(counts.values())),
    ]
    column = max(len(words.number(value)) for _, value in totals)
    for name, value in totals:
        yield Text(f"  {name:<9}{words.number(value):>{column}}", _style(name, value))


def _style(name: str, value: int) -> str:
    if name == "total" or not value:
        return "bold" if name == "total" else "dim"
    return {"applied": "green", "skipped": ""}.get(name, "red")


def _group(group: Group, names: Sequence[str], width: int) -> Iterator[Text]:
    yield from lines.heading(group.title, width)
    yield from lines.paragraph(group.told.meaning, width, indent=2, style="dim")
    if group.told.cure:
        yield from lines.paragraph(group.told.cure, width, indent=2)
    for result in group.listing.shown:
        mark = words.OUTCOME_MARK[group.outcome]
        yield from lines.item(mark, visible(_said(result, names)), width)
    yield from lines.more(group.listing.more)


def _said(result: Result, names: Sequence[str]) -> str:
    """`Pets!B18, update of pet 17 (Bella): what became of it`."""
    verb = "" if result.kind == "none" else result.kind
    pet = "" if result.pet_id is None else f"pet {result.pet_id}"
    name = shorten(visible(names[result.number]), _NAME) if result.number < len(names) else ""
    who = f"{pet} ({name})" if pet and name else pet or name
    about = " of ".join(part for part in (verb, who) if part)
    where = ", ".join(part for part in (result.source, about) if part)
    return ": ".join(part for part in (where, result.message) if part)


def _stop(report: Report, width: int) -> Iterator[Text]:
    if report.stopped:
        yield from lines.heading(words.STOPPED, width)
        for line in report.stopped.splitlines():
            yield from lines.paragraph(visible(line), width, indent=2)
