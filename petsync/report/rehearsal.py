"""A rehearsal as text and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd
from rich.cells import cell_len
from rich.text import Text

from petsync.plan.change import Add
from petsync.plan.rehearsal import FaultCounts, LeftoverChange, Rehearsal, Why
from petsync.plan.report import OUTCOMES
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.run import causes_html, outcome_lines
from petsync.report.words import Listing, first, shorten
from petsync.table.cells import make_visible

__all__ = [
    "NOTHING_SENT",
    "NO_STATUS",
    "REFUSED_TITLE",
    "ROWS_TITLE",
    "SECOND_PLAN_TITLE",
    "STATUSES_TITLE",
    "Mismatch",
    "describe_left",
    "describe_second_plan",
    "describe_unapplied",
    "left_by_reason",
    "left_title",
    "new_title",
    "refusals",
    "rehearsal_facts",
    "rehearsal_html",
    "rehearsal_lines",
    "rehearsal_summary",
    "unexpected_title",
    "unexpected_values",
]


# The words of a rehearsal, for every format.


REFUSED_TITLE = "The guard refuses this plan: `petsync apply` would send none of it"
NOTHING_SENT = "petsync rehearsal: nothing was sent to the store"
NO_STATUS = "(no status)"
ROWS_TITLE = "What would happen to the rows"
STATUSES_TITLE = "How the store would look, by status"
SECOND_PLAN_TITLE = "A second plan from the same sheet"
_OK_OUTCOMES = ("applied", "")
_REASON_WORDS: Mapping[Why, str] = {
    "not-applied": "not applied on the copy:",
    "left-out": "left out of this plan:",
    "new": "new since the first plan:",
    "not-settled": "applied, but sheet and store still differ:",
}


class Mismatch(NamedTuple):
    """A difference between a pet and the plan, as texts."""

    where: str
    pet: str
    difference: str


def rehearsal_facts(rehearsal: Rehearsal) -> Iterator[tuple[str, str]]:
    """Yield the store, the copy, the sheet, and the profile and faults of the rehearsal."""
    plan = rehearsal.plan
    pets = words.count(len(rehearsal.before), "pet")
    yield "store", make_visible(plan.store)
    yield "copied", f"{pets}, as they were at {words.format_timestamp(rehearsal.taken_at)}"
    yield words.origin(plan)
    yield "tried", f"on the copy, on this machine (profile {make_visible(rehearsal.profile)})"
    if rehearsal.broken is not None:
        yield "faults", make_visible(rehearsal.broken.faults)
        yield "broken", _describe_faults(rehearsal.broken)


def rehearsal_summary(rehearsal: Rehearsal) -> str:
    """Return two sentences: the number of rows with each outcome, and the result."""
    return f"Rehearsed: {words.format_outcomes(rehearsal.report)}. {_describe_end(rehearsal)}"


def refusals(rehearsal: Rehearsal) -> Iterator[str]:
    """Yield each limit that the plan exceeds, and the way to override it."""
    for refusal in rehearsal.plan.verdict.refusals:
        yield words.sentences(make_visible(refusal.problem), words.refusal_cure(refusal))


def describe_second_plan(rehearsal: Rehearsal) -> str:
    """Return the result of the second plan."""
    again = rehearsal.again
    if again is None:
        return f"There is none: {make_visible(rehearsal.why_not_again)}."
    if again.changes:
        changes = words.count(len(again.changes), "change")
        return f"It would still have {changes}."
    if again.in_sync:
        return "It would be empty: sheet and store would be in sync."
    open_counts = [
        *([words.count(n, "conflict")] if (n := len(again.open_conflicts)) else []),
        *([f"{words.count(n, 'row')} to fix"] if (n := len(again.blocked)) else []),
    ]
    return f"It would send nothing more; to be decided: {' and '.join(open_counts)}."


def left_by_reason(
    rehearsal: Rehearsal, limit: int | None
) -> Mapping[Why, Listing[LeftoverChange]]:
    """Return the changes of a second plan by reason, the first `limit` of each."""
    groups: dict[Why, list[LeftoverChange]] = {}
    for leftover in rehearsal.remaining_changes():
        groups.setdefault(leftover.why, []).append(leftover)
    return {why: first(group, limit) for why, group in groups.items()}


def left_title(why: Why, total: int) -> str:
    """Return the heading of the changes that are left for one reason."""
    return f"{words.count(total, 'change')}, {_REASON_WORDS[why]}"


def describe_left(leftover: LeftoverChange) -> str:
    """Return the change that is left, and its message."""
    change = leftover.change
    pet = "" if change.pet_id is None else f"pet {change.pet_id}, "
    description = (
        f"{words.source_of(change)}, {change.kind} of {pet}{words.name_of(words.pet_of(change))}"
    )
    return f"{description}: {make_visible(leftover.message)}" if leftover.message else description


def new_title(total: int) -> str:
    """Return the heading of the pets to which the copy gave ids."""
    pets = words.count(total, "new pet")
    return f"{pets}, with the ids that the copy gave: the store may give others"


def unexpected_values(rehearsal: Rehearsal) -> list[Mismatch]:
    """Return the values that differ from the plan for another reason than a change that was not
    applied.
    """
    rows = rehearsal.unexpected
    return [
        Mismatch(str(row.source), _format_pet(row.id, row.name), _describe_difference(row))
        for row in rows[rows["outcome"].isin(_OK_OUTCOMES)].itertuples()
    ]


def unexpected_title(total: int) -> str:
    """Return the heading of values that differ from the plan."""
    return f"Different from the plan, although no change failed: {words.number(total)}"


def describe_unapplied(rehearsal: Rehearsal) -> str:
    """Return the number of pets that differ from the plan because their changes were not applied,
    in words; "" for none.
    """
    rows = rehearsal.unexpected
    unapplied = rows[~rows["outcome"].isin(_OK_OUTCOMES)]
    total = len(unapplied[["id", "source"]].drop_duplicates())
    if not total:
        return ""
    verb = "is" if total == 1 else "are"
    reason = "its change was" if total == 1 else "their changes were"
    return (
        f"{words.count(total, 'pet')} {verb} different from the plan, because {reason} not applied."
    )


def _describe_end(rehearsal: Rehearsal) -> str:
    if not rehearsal.plan.verdict.ok:
        return "But the guard refuses this plan: `petsync apply` would send nothing."
    if rehearsal.stopped:
        return "The run stopped early."
    again = rehearsal.again
    if again is None:
        result = "is as planned" if rehearsal.ok else "differs from the plan"
        return f"The copy {result}."
    if again.changes:
        return f"A second plan would still have {words.count(len(again.changes), 'change')}."
    return "A second plan would " + ("be empty." if again.in_sync else "send nothing more.")


def _describe_faults(broken: FaultCounts) -> str:
    total = sum(broken.hits.values())
    kinds = ", ".join(f"{kind}: {words.number(n)}" for kind, n in sorted(broken.hits.items()))
    share = f"{words.number(total)} of {words.count(broken.requests, 'request')}"
    return f"{share} ({kinds})" if kinds else share


def _format_pet(pet_id: object, name: object) -> str:
    label = "new pet" if pet_id is pd.NA else f"pet {pet_id}"
    return f"{label} ({make_visible(str(name))})" if name else label


def _describe_difference(row: object) -> str:
    column, expected, actual, reason = (
        str(getattr(row, name)) for name in ("column", "expected", "found", "why")
    )
    label = f"{column}: " if column else ""
    difference = (
        f"{label}expected {_quote_value(expected, column)}, found {_quote_value(actual, column)}"
    )
    return f"{difference} ({reason})" if reason else difference


def _quote_value(text: str, column: str) -> str:
    if not column:
        return text
    return f"'{text}'" if text else "nothing"


# A rehearsal as HTML.


_COLUMNS_HTML = ("before", "added", "deleted", "moved_in", "moved_out", "after")


def rehearsal_html(rehearsal: Rehearsal, *, limit: int | None = 20) -> str:
    """Return the rehearsal as HTML, with the first `limit` rows of each kind."""
    return html.fragment(_parts(rehearsal, limit))


def _parts(rehearsal: Rehearsal, limit: int | None) -> Iterator[str]:
    fold_over = html.fold_limit(limit)
    yield html.summary(rehearsal_summary(rehearsal))
    yield element("p", html.text(NOTHING_SENT))
    yield html.facts(rehearsal_facts(rehearsal))
    if not rehearsal.plan.verdict.ok:
        yield html.alert(REFUSED_TITLE, map(html.bdi, refusals(rehearsal)))
    if rehearsal.stopped:
        lines = map(html.bdi, rehearsal.report.stopped.splitlines())
        yield html.alert(words.STOPPED_TITLE, lines)
    yield html.collapsible(ROWS_TITLE, _outcomes(rehearsal), open_=True)
    yield html.collapsible(STATUSES_TITLE, _statuses(rehearsal), open_=True)
    yield from _again_html(rehearsal, limit, fold_over)
    yield from causes_html(rehearsal.report, limit, is_over=True)
    listing = first(rehearsal.assigned_ids(), limit)
    columns = ("", "Id", "Pet", "Where")
    yield html.listing(new_title(listing.total), listing, columns, _new_html, fold_over=fold_over)
    yield from _render_unexpected(rehearsal, limit, fold_over)
    if rehearsal.notes:
        notes = "".join(element("li", html.bdi(note)) for note in rehearsal.notes)
        yield html.collapsible("Notes", element("ul", notes), open_=True)


def _outcomes(rehearsal: Rehearsal) -> str:
    counts = rehearsal.report.counts
    rows = [(outcome, counts[outcome]) for outcome in OUTCOMES]
    totals = [(str(name), [n]) for name, n in (*rows, ("total", sum(counts.values())))]
    return html.table(("Outcome", "Rows"), (_numbers(*row) for row in totals), small=True)


def _statuses(rehearsal: Rehearsal) -> str:
    table = rehearsal.by_status()[list(_COLUMNS_HTML)]
    rows = [
        (str(status) or NO_STATUS, [int(n) for n in numbers])
        for status, *numbers in table.itertuples()
    ]
    rows.append(("all", [int(n) for n in table.sum()]))
    titles = [column.replace("_", " ").capitalize() for column in _COLUMNS_HTML]
    return html.table(("Status", *titles), (_numbers(*row) for row in rows), small=True)


def _numbers(name: str, numbers: list[int]) -> str:
    cells = (element("td", words.number(n), class_="ps-number") for n in numbers)
    return element("tr", html.row_head(name) + "".join(cells))


def _new_html(added: tuple[Add, int]) -> str:
    change, pet_id = added
    return html.row(
        "add",
        table_cell(str(pet_id), kind="ps-number"),
        table_cell(change.after.name or ""),
        table_cell(change.source, kind="ps-where"),
    )


def _render_unexpected(rehearsal: Rehearsal, limit: int | None, fold_over: int) -> Iterator[str]:
    listing = first(unexpected_values(rehearsal), limit)
    title, columns = unexpected_title(listing.total), ("", "Where", "Pet", "What differs")
    yield html.listing(title, listing, columns, _unexpected_row, fold_over=fold_over)
    if unapplied := describe_unapplied(rehearsal):
        yield element("p", html.text(unapplied))


def _unexpected_row(each: Mismatch) -> str:
    return html.row(
        "conflict",
        table_cell(each.where, kind="ps-where"),
        table_cell(each.pet),
        table_cell(each.difference),
    )


def _again_html(rehearsal: Rehearsal, limit: int | None, fold_over: int) -> Iterator[str]:
    inner = element("p", html.text(describe_second_plan(rehearsal)))
    for why, listing in left_by_reason(rehearsal, limit).items():
        title, columns = left_title(why, listing.total), ("", "Change")
        inner += html.listing(title, listing, columns, _render_left, fold_over=fold_over)
    yield html.collapsible(SECOND_PLAN_TITLE, inner, open_=True)


def _render_left(leftover: LeftoverChange) -> str:
    return html.row(leftover.change.kind, table_cell(describe_left(leftover)))


# A rehearsal as lines: the outcomes, the store afterwards, and a second plan.


_COLUMNS_TEXT = ("before", "added", "deleted", "moved_in", "moved_out", "after")
_STATUS = 18


def rehearsal_lines(
    rehearsal: Rehearsal, *, limit: int | None = 5, width: int = 80
) -> Iterator[Text]:
    """Yield the rehearsal in lines of at most `width` cells, with the first `limit` rows of each
    kind.
    """
    yield Text(NOTHING_SENT, "bold")
    yield from text.facts(rehearsal_facts(rehearsal), width)
    yield from _render_refusals(rehearsal, width)
    yield from text.heading(ROWS_TITLE, width)
    yield from outcome_lines(rehearsal.report, limit=limit, width=width, is_over=True)
    yield from _status_lines(rehearsal, width)
    yield from _new_text(rehearsal, limit, width)
    yield from _unexpected_lines(rehearsal, limit, width)
    yield from _again_text(rehearsal, limit, width)
    yield from _notes(rehearsal, width)
    yield text.BLANK
    style = "bold green" if rehearsal.ok else "bold"
    yield from text.paragraph(rehearsal_summary(rehearsal), width, style=style)


def _render_refusals(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if not rehearsal.plan.verdict.ok:
        yield from text.heading(REFUSED_TITLE, width, style="bold red")
        for refusal in refusals(rehearsal):
            yield from text.item("conflict", refusal, width)


def _status_lines(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    table = rehearsal.by_status()
    yield from text.heading(STATUSES_TITLE, width)
    names = [make_visible(str(status)) or NO_STATUS for status in table.index]
    column = min(_STATUS, max(map(cell_len, [*names, "all"])))
    yield Text(f"  {'':<{column}}{''.join(map(_format_title, _COLUMNS_TEXT))}", "dim")
    for name, row in zip(names, table[list(_COLUMNS_TEXT)].to_numpy().tolist(), strict=True):
        yield _status_line(name, row, column)
    yield _status_line("all", table[list(_COLUMNS_TEXT)].sum().tolist(), column, style="bold")


def _status_line(name: str, numbers: list[int], column: int, *, style: str = "") -> Text:
    short_name = shorten(name, column)
    pad = " " * (column - cell_len(short_name))
    texts = (words.number(n) if n or at in (0, 5) else "" for at, n in enumerate(numbers))
    cells = "".join(f"{text:>10}" for text in texts)
    return Text(f"  {short_name}{pad}{cells}", style)


def _format_title(column: str) -> str:
    return f"{column.replace('_', ' '):>10}"


def _new_text(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(rehearsal.assigned_ids(), limit)
    if not listing.total:
        return
    yield from text.heading(new_title(listing.total), width)
    column = max(len(str(pet_id)) for _, pet_id in listing.shown)
    for change, pet_id in listing.shown:
        number = f"{pet_id:>{column}}"
        yield text.spread_item("add", number, words.name_of(change.after), change.source, width)
    yield from text.more(listing.more)


def _unexpected_lines(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(unexpected_values(rehearsal), limit)
    if listing.total:
        yield from text.heading(unexpected_title(listing.total), width)
    for each in listing.shown:
        where = f"{each.where}, {each.pet}" if each.where else each.pet
        yield from text.item("conflict", make_visible(f"{where}: {each.difference}"), width)
    yield from text.more(listing.more)
    if unapplied := describe_unapplied(rehearsal):
        yield text.BLANK
        yield from text.paragraph(unapplied, width)


def _again_text(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    yield from text.heading(SECOND_PLAN_TITLE, width)
    yield from text.paragraph(describe_second_plan(rehearsal), width, indent=2)
    for why, listing in left_by_reason(rehearsal, limit).items():
        title = left_title(why, listing.total)
        yield from text.paragraph(title, width, indent=2)
        for leftover in listing.shown:
            yield from text.item(leftover.change.kind, make_visible(describe_left(leftover)), width)
        yield from text.more(listing.more)


def _notes(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if rehearsal.notes:
        yield from text.heading("Notes", width)
    for note in rehearsal.notes:
        yield from text.item("note", make_visible(note), width)
