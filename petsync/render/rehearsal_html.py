"""A rehearsal as HTML."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.diff.change import Add
from petsync.diff.rehearsal import Left, Rehearsal
from petsync.diff.report import OUTCOMES
from petsync.render import markup, words
from petsync.render import rehearsal_words as said
from petsync.render.digest import first
from petsync.render.markup import cell, element
from petsync.render.report_html import causes_html

__all__ = ["rehearsal_html"]

_COLUMNS = ("before", "added", "deleted", "moved_in", "moved_out", "after")


def rehearsal_html(rehearsal: Rehearsal, *, limit: int | None = 20) -> str:
    """The rehearsal with the first `limit` rows of each sort."""
    return markup.fragment(_parts(rehearsal, limit))


def _parts(rehearsal: Rehearsal, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    yield markup.summary(said.rehearsal_summary(rehearsal))
    yield element("p", markup.text(said.NOTHING_SENT))
    yield markup.facts(said.rehearsal_facts(rehearsal))
    if not rehearsal.plan.verdict.ok:
        yield markup.alert(said.REFUSED, map(markup.bdi, said.refusals(rehearsal)))
    if rehearsal.stopped:
        lines = map(markup.bdi, rehearsal.report.stopped.splitlines())
        yield markup.alert(words.STOPPED, lines)
    yield markup.folding(said.ROWS, _outcomes(rehearsal), open_=True)
    yield markup.folding(said.LOOK, _statuses(rehearsal), open_=True)
    yield from _again(rehearsal, limit, fold_over)
    yield from causes_html(rehearsal.report, limit, is_over=True)
    listing = first(rehearsal.assigned(), limit)
    columns = ("", "Id", "Pet", "Where")
    yield markup.listing(said.new_title(listing.total), listing, columns, _new, fold_over=fold_over)
    yield from _unexpected(rehearsal, limit, fold_over)
    if rehearsal.notes:
        notes = "".join(element("li", markup.bdi(note)) for note in rehearsal.notes)
        yield markup.folding("Notes", element("ul", notes), open_=True)


def _outcomes(rehearsal: Rehearsal) -> str:
    counts = rehearsal.report.counts
    rows = [(outcome, counts[outcome]) for outcome in OUTCOMES]
    totals = [(str(name), [n]) for name, n in (*rows, ("total", sum(counts.values())))]
    return markup.table(("Outcome", "Rows"), (_numbers(*row) for row in totals), small=True)


def _statuses(rehearsal: Rehearsal) -> str:
    table = rehearsal.by_status()[list(_COLUMNS)]
    rows = [
        (str(status) or said.NO_STATUS, [int(n) for n in numbers])
        for status, *numbers in table.itertuples()
    ]
    rows.append(("all", [int(n) for n in table.sum()]))
    titles = [column.replace("_", " ").capitalize() for column in _COLUMNS]
    return markup.table(("Status", *titles), (_numbers(*row) for row in rows), small=True)


def _numbers(name: str, numbers: list[int]) -> str:
    cells = (element("td", words.number(n), class_="ps-number") for n in numbers)
    return element("tr", markup.row_head(name) + "".join(cells))


def _new(added: tuple[Add, int]) -> str:
    change, pet_id = added
    return markup.row(
        "add",
        cell(str(pet_id), kind="ps-number"),
        cell(change.after.name or ""),
        cell(change.source, kind="ps-where"),
    )


def _unexpected(rehearsal: Rehearsal, limit: int | None, fold_over: int) -> Iterator[str]:
    listing = first(said.surprises(rehearsal), limit)
    title, columns = said.surprise_title(listing.total), ("", "Where", "Pet", "What differs")
    yield markup.listing(title, listing, columns, _surprise, fold_over=fold_over)
    if missed := said.unapplied(rehearsal):
        yield element("p", markup.text(missed))


def _surprise(each: said.Surprise) -> str:
    return markup.row(
        "conflict", cell(each.where, kind="ps-where"), cell(each.pet), cell(each.said)
    )


def _again(rehearsal: Rehearsal, limit: int | None, fold_over: int) -> Iterator[str]:
    inner = element("p", markup.text(said.again_said(rehearsal)))
    for why, listing in said.left_by_reason(rehearsal, limit).items():
        title, columns = said.left_title(why, listing.total), ("", "Change")
        inner += markup.listing(title, listing, columns, _left, fold_over=fold_over)
    yield markup.folding(said.AGAIN, inner, open_=True)


def _left(left: Left) -> str:
    return markup.row(left.change.kind, cell(said.left_where(left)))
