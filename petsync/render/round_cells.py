"""The parts of a round's HTML that a notebook's cell and a page have in common."""

from __future__ import annotations

from petsync.diff.round import Open, Round
from petsync.render import round_words as said
from petsync.render import words
from petsync.render.markup import alert, capital, element, prose, text
from petsync.render.plan_cells import badge

__all__ = ["more", "open_said", "reason", "round_badge", "typed"]


def round_badge(round_: Round) -> str:
    """How the round ended: a sign and words, and a colour besides."""
    end = said.ENDS[round_.status]
    return badge(end.sign, end.title, kind=f"ps-{end.level}")


def reason(round_: Round) -> str:
    """Why it ended so, where there is anything to say."""
    lines = [prose(line) for line in said.reason(round_).splitlines()]
    if not lines:
        return ""
    kind = "ps-refused" if said.ENDS[round_.status].level == "bad" else ""
    return alert("To know" if round_.is_well else "Why", lines, kind=kind)


def open_said(each: Open) -> str:
    """What is the matter with it, in which fields, and the way out."""
    named = said.fields_of(each)
    fields = element("span", f"{text(named)}:", class_="ps-field") if named else ""
    what = f"{fields} {prose(words.sentences(capital(each.problem)))}".strip()
    way = element("p", prose(each.hint), class_="ps-cure") if each.hint else ""
    return element("p", what) + way


def typed(line: str) -> str:
    """What is to be typed."""
    return element("code", text(line))


def more(total: int) -> str:
    """How many were left out, if any were."""
    return element("p", f"... and {words.number(total)} more") if total else ""
