"""Rounds as HTML: fragments for a notebook's cell, and the page that a round leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from petsync.diff.round import Open, Round
from petsync.diff.round_report import RoundReport
from petsync.render import markup, words
from petsync.render import round_words as said
from petsync.render.digest import first
from petsync.render.markup import capital, cell, element, prose, text
from petsync.render.round_cells import more, open_said, reason, typed
from petsync.render.round_page import round_page

__all__ = ["round_html", "round_page", "rounds_html"]

_OPEN = ("", "Id", "Pet", "What is the matter", "Where")
_ROUNDS = ("", "Status", "Job", "For the store", "For the sheet", "Open", "Took")


def round_html(told: RoundReport, *, limit: int | None = 20) -> str:
    """The round with the first `limit` of each kind of difference that it left."""
    return markup.fragment(_parts(told, limit))


def rounds_html(rounds: Sequence[RoundReport], *, limit: int | None = 5) -> str:
    """A table of the rounds, and below it each that needs a person."""
    return markup.fragment(_rounds(rounds, limit))


def _parts(told: RoundReport, limit: int | None) -> Iterator[str]:
    round_ = told.round
    yield markup.summary(f"{round_.name}. {said.headline(round_)}")
    yield reason(round_)
    yield markup.facts([*said.facts(told), *said.sides_said(round_)])
    for kind, found in said.by_kind(told.open).items():
        yield _opens(kind, found, round_, limit)
    for command in said.commands(round_):
        yield element("p", f"{text(capital(command.purpose))}: {typed(command.line)}")


def _opens(kind: said.Kind, found: Sequence[Open], round_: Round, limit: int | None) -> str:
    title = f"{said.open_title(kind, len(found))}: {said.kept_title(kind)}"
    way = element("p", prose(said.way_out(kind, round_)), class_="ps-kept")
    listing = first(found, limit)
    table = markup.table(_OPEN, map(partial(_open, kind), listing.shown))
    is_open = len(listing.shown) <= markup.fold_over(limit) and kind != "note"
    return markup.folding(title, way + table + more(listing.more), open_=is_open)


def _open(kind: said.Kind, each: Open) -> str:
    return markup.row(
        said.MARKS[kind],
        cell("" if each.pet_id is None else str(each.pet_id), kind="ps-number"),
        markup.row_head(each.name) if each.name else cell(""),
        element("td", open_said(each), class_="ps-what"),
        cell(each.address, kind="ps-where"),
    )


def _rounds(rounds: Sequence[RoundReport], limit: int | None) -> Iterator[str]:
    if not rounds:
        yield markup.summary("No round was made.")
        return
    yield markup.table(_ROUNDS, (_round(told.round) for told in rounds))
    for told in rounds:
        if not told.round.is_well:
            inner = "\n".join(filter(None, _parts(told, limit)))
            yield markup.folding(told.round.name, inner)


def _round(round_: Round) -> str:
    end = said.ENDS[round_.status]
    return markup.row(
        said.LEVELS[end.level],
        cell(end.title),
        markup.row_head(round_.name),
        cell(said.planned(round_, round_.to_store)),
        cell(said.planned(round_, round_.to_sheet)),
        cell(said.brief(round_)),
        cell(words.duration(round_.seconds), kind="ps-number"),
    )
