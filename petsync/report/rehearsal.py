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
from petsync.table.cells import visible

__all__ = [
    "AGAIN",
    "LOOK",
    "NOTHING_SENT",
    "NO_STATUS",
    "REFUSED",
    "ROWS",
    "Mismatch",
    "again_said",
    "describe_unapplied",
    "left_by_reason",
    "left_title",
    "left_where",
    "new_title",
    "refusals",
    "rehearsal_facts",
    "rehearsal_html",
    "rehearsal_lines",
    "rehearsal_summary",
    "surprise_title",
    "surprises",
]


# How a rehearsal is said: what was tried, on what, and how it would end.


REFUSED = "The guard refuses this plan: `petsync apply` would send nothing of it"
NOTHING_SENT = "petsync rehearsal: nothing was sent to the store"
NO_STATUS = "(no status)"
ROWS = "What would become of the rows"
LOOK = "How the store would look, by status"
AGAIN = "A second plan from the same sheet"
_WENT_WELL = ("applied", "")
_LEFT: Mapping[Why, str] = {
    "not-applied": "not applied on the copy:",
    "left-out": "left out of this plan:",
    "new": "new since the first plan:",
    "not-settled": "applied, and still not in agreement:",
}


class Mismatch(NamedTuple):
    """A pet's column that is not as the plan said; texts."""

    where: str
    pet: str
    said: str


def rehearsal_facts(rehearsal: Rehearsal) -> Iterator[tuple[str, str]]:
    """What was tried, and on what."""
    plan = rehearsal.plan
    pets = words.count(len(rehearsal.before), "pet")
    yield "store", visible(plan.store)
    yield "copied", f"{pets}, as they were at {words.moment(rehearsal.taken_at)}"
    yield words.origin(plan)
    yield "tried", f"on the copy, on this machine (profile {visible(rehearsal.profile)})"
    if rehearsal.broken is not None:
        yield "faults", visible(rehearsal.broken.faults)
        yield "broken", _hits(rehearsal.broken)


def rehearsal_summary(rehearsal: Rehearsal) -> str:
    """Two sentences: how many rows had each outcome, and how it would end."""
    return f"Rehearsed: {words.outcomes(rehearsal.report)}. {_end(rehearsal)}"


def refusals(rehearsal: Rehearsal) -> Iterator[str]:
    """Each limit that the plan breaks, and the way out."""
    for refusal in rehearsal.plan.verdict.refusals:
        yield words.sentences(visible(refusal.problem), words.way_out(refusal))


def again_said(rehearsal: Rehearsal) -> str:
    """What the second plan comes to."""
    again = rehearsal.again
    if again is None:
        return f"There is none: {visible(rehearsal.why_not_again)}."
    if again.changes:
        changes = words.count(len(again.changes), "change")
        return f"It would still hold {changes}."
    if again.in_sync:
        return "It would be empty: sheet and store would be in sync."
    rest = [
        *([words.count(n, "conflict")] if (n := len(again.open_conflicts)) else []),
        *([f"{words.count(n, 'row')} to fix"] if (n := len(again.blocked)) else []),
    ]
    return f"It would send nothing more; left to a person: {' and '.join(rest)}."


def left_by_reason(
    rehearsal: Rehearsal, limit: int | None
) -> Mapping[Why, Listing[LeftoverChange]]:
    """What a second plan would still send, the first `limit` of each reason."""
    groups: dict[Why, list[LeftoverChange]] = {}
    for left in rehearsal.left():
        groups.setdefault(left.why, []).append(left)
    return {why: first(group, limit) for why, group in groups.items()}


def left_title(why: Why, total: int) -> str:
    """What is said of all changes that are left for one reason."""
    return f"{words.count(total, 'change')}, {_LEFT[why]}"


def left_where(left: LeftoverChange) -> str:
    """Which change is left, and what was said of it."""
    change = left.change
    pet = "" if change.pet_id is None else f"pet {change.pet_id}, "
    said = f"{words.source_of(change)}, {change.kind} of {pet}{words.name_of(words.pet_of(change))}"
    return f"{said}: {visible(left.message)}" if left.message else said


def new_title(total: int) -> str:
    """The heading of the pets to which the copy gave ids."""
    pets = words.count(total, "new pet")
    return f"{pets}, with the ids that the copy gave: the store may give others"


def surprises(rehearsal: Rehearsal) -> list[Mismatch]:
    """What is not as the plan said although nothing went wrong."""
    rows = rehearsal.unexpected
    return [
        Mismatch(str(row.source), _pet(row.id, row.name), _describe_difference(row))
        for row in rows[rows["outcome"].isin(_WENT_WELL)].itertuples()
    ]


def surprise_title(total: int) -> str:
    """The heading of what is not as the plan said."""
    return f"Not as the plan said, although nothing went wrong: {words.number(total)}"


def describe_unapplied(rehearsal: Rehearsal) -> str:
    """How many pets are not as the plan said because their changes were not applied; "" if none."""
    rows = rehearsal.unexpected
    missed = rows[~rows["outcome"].isin(_WENT_WELL)]
    total = len(missed[["id", "source"]].drop_duplicates())
    if not total:
        return ""
    are = "is" if total == 1 else "are"
    why = "its change was" if total == 1 else "their changes were"
    return f"{words.count(total, 'pet')} {are} not as the plan said, as {why} not applied."


def _end(rehearsal: Rehearsal) -> str:
    if not rehearsal.plan.verdict.ok:
        return "But the guard refuses this plan: `petsync apply` would send nothing."
    if rehearsal.stopped:
        return "The run stopped early."
    again = rehearsal.again
    if again is None:
        said = "is as the plan says" if rehearsal.ok else "is not all as the plan says"
        return f"The copy {said}."
    if again.changes:
        return f"A second plan would still hold {words.count(len(again.changes), 'change')}."
    return "A second plan would " + ("be empty." if again.in_sync else "send nothing more.")


def _hits(broken: FaultCounts) -> str:
    hit = sum(broken.hits.values())
    kinds = ", ".join(f"{kind}: {words.number(n)}" for kind, n in sorted(broken.hits.items()))
    of = f"{words.number(hit)} of {words.count(broken.requests, 'request')}"
    return f"{of} ({kinds})" if kinds else of


def _pet(pet_id: object, name: object) -> str:
    said = "new pet" if pet_id is pd.NA else f"pet {pet_id}"
    return f"{said} ({visible(str(name))})" if name else said


def _describe_difference(row: object) -> str:
    column, expected, found, why = (
        str(getattr(row, name)) for name in ("column", "expected", "found", "why")
    )
    lead = f"{column}: " if column else ""
    told = f"{lead}expected {_quote_value(expected, column)}, found {_quote_value(found, column)}"
    return f"{told} ({why})" if why else told


def _quote_value(text: str, column: str) -> str:
    if not column:
        return text
    return f"'{text}'" if text else "nothing"


# A rehearsal as HTML.


_COLUMNS_HTML = ("before", "added", "deleted", "moved_in", "moved_out", "after")


def rehearsal_html(rehearsal: Rehearsal, *, limit: int | None = 20) -> str:
    """The rehearsal with the first `limit` rows of each sort."""
    return html.fragment(_parts(rehearsal, limit))


def _parts(rehearsal: Rehearsal, limit: int | None) -> Iterator[str]:
    fold_over = html.fold_over(limit)
    yield html.summary(rehearsal_summary(rehearsal))
    yield element("p", html.text(NOTHING_SENT))
    yield html.facts(rehearsal_facts(rehearsal))
    if not rehearsal.plan.verdict.ok:
        yield html.alert(REFUSED, map(html.bdi, refusals(rehearsal)))
    if rehearsal.stopped:
        lines = map(html.bdi, rehearsal.report.stopped.splitlines())
        yield html.alert(words.STOPPED, lines)
    yield html.folding(ROWS, _outcomes(rehearsal), open_=True)
    yield html.folding(LOOK, _statuses(rehearsal), open_=True)
    yield from _again_html(rehearsal, limit, fold_over)
    yield from causes_html(rehearsal.report, limit, is_over=True)
    listing = first(rehearsal.assigned(), limit)
    columns = ("", "Id", "Pet", "Where")
    yield html.listing(new_title(listing.total), listing, columns, _new_html, fold_over=fold_over)
    yield from _render_unexpected(rehearsal, limit, fold_over)
    if rehearsal.notes:
        notes = "".join(element("li", html.bdi(note)) for note in rehearsal.notes)
        yield html.folding("Notes", element("ul", notes), open_=True)


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
    listing = first(surprises(rehearsal), limit)
    title, columns = surprise_title(listing.total), ("", "Where", "Pet", "What differs")
    yield html.listing(title, listing, columns, _surprise, fold_over=fold_over)
    if missed := describe_unapplied(rehearsal):
        yield element("p", html.text(missed))


def _surprise(each: Mismatch) -> str:
    return html.row(
        "conflict",
        table_cell(each.where, kind="ps-where"),
        table_cell(each.pet),
        table_cell(each.said),
    )


def _again_html(rehearsal: Rehearsal, limit: int | None, fold_over: int) -> Iterator[str]:
    inner = element("p", html.text(again_said(rehearsal)))
    for why, listing in left_by_reason(rehearsal, limit).items():
        title, columns = left_title(why, listing.total), ("", "Change")
        inner += html.listing(title, listing, columns, _render_left, fold_over=fold_over)
    yield html.folding(AGAIN, inner, open_=True)


def _render_left(left: LeftoverChange) -> str:
    return html.row(left.change.kind, table_cell(left_where(left)))


# A rehearsal as lines: what came of the rows, how the store would look, and a second plan.


_COLUMNS_TEXT = ("before", "added", "deleted", "moved_in", "moved_out", "after")
_STATUS = 18


def rehearsal_lines(
    rehearsal: Rehearsal, *, limit: int | None = 5, width: int = 80
) -> Iterator[Text]:
    """The rehearsal with the first `limit` rows of each sort, in lines of at most `width` cells."""
    yield Text(NOTHING_SENT, "bold")
    yield from text.facts(rehearsal_facts(rehearsal), width)
    yield from _render_refusals(rehearsal, width)
    yield from text.heading(ROWS, width)
    yield from outcome_lines(rehearsal.report, limit=limit, width=width, is_over=True)
    yield from _look(rehearsal, width)
    yield from _new_text(rehearsal, limit, width)
    yield from _surprises(rehearsal, limit, width)
    yield from _again_text(rehearsal, limit, width)
    yield from _notes(rehearsal, width)
    yield text.BLANK
    style = "bold green" if rehearsal.ok else "bold"
    yield from text.paragraph(rehearsal_summary(rehearsal), width, style=style)


def _render_refusals(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if not rehearsal.plan.verdict.ok:
        yield from text.heading(REFUSED, width, style="bold red")
        for refusal in refusals(rehearsal):
            yield from text.item("conflict", refusal, width)


def _look(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    table = rehearsal.by_status()
    yield from text.heading(LOOK, width)
    names = [visible(str(status)) or NO_STATUS for status in table.index]
    column = min(_STATUS, max(map(cell_len, [*names, "all"])))
    yield Text(f"  {'':<{column}}{''.join(map(_format_title, _COLUMNS_TEXT))}", "dim")
    for name, row in zip(names, table[list(_COLUMNS_TEXT)].to_numpy().tolist(), strict=True):
        yield _status(name, row, column)
    yield _status("all", table[list(_COLUMNS_TEXT)].sum().tolist(), column, style="bold")


def _status(name: str, numbers: list[int], column: int, *, style: str = "") -> Text:
    fitted = shorten(name, column)
    pad = " " * (column - cell_len(fitted))
    shown = (words.number(n) if n or at in (0, 5) else "" for at, n in enumerate(numbers))
    told = "".join(f"{text:>10}" for text in shown)
    return Text(f"  {fitted}{pad}{told}", style)


def _format_title(column: str) -> str:
    return f"{column.replace('_', ' '):>10}"


def _new_text(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(rehearsal.assigned(), limit)
    if not listing.total:
        return
    yield from text.heading(new_title(listing.total), width)
    column = max(len(str(pet_id)) for _, pet_id in listing.shown)
    for change, pet_id in listing.shown:
        number = f"{pet_id:>{column}}"
        yield text.spread_item("add", number, words.name_of(change.after), change.source, width)
    yield from text.more(listing.more)


def _surprises(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(surprises(rehearsal), limit)
    if listing.total:
        yield from text.heading(surprise_title(listing.total), width)
    for each in listing.shown:
        where = f"{each.where}, {each.pet}" if each.where else each.pet
        yield from text.item("conflict", visible(f"{where}: {each.said}"), width)
    yield from text.more(listing.more)
    if missed := describe_unapplied(rehearsal):
        yield text.BLANK
        yield from text.paragraph(missed, width)


def _again_text(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    yield from text.heading(AGAIN, width)
    yield from text.paragraph(again_said(rehearsal), width, indent=2)
    for why, listing in left_by_reason(rehearsal, limit).items():
        title = left_title(why, listing.total)
        yield from text.paragraph(title, width, indent=2)
        for left in listing.shown:
            yield from text.item(left.change.kind, visible(left_where(left)), width)
        yield from text.more(listing.more)


def _notes(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if rehearsal.notes:
        yield from text.heading("Notes", width)
    for note in rehearsal.notes:
        yield from text.item("note", visible(note), width)
