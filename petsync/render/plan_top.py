"""What comes first in a plan's HTML: what nobody may overlook, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.diff.guard import Refusal
from petsync.diff.plan import Plan
from petsync.diff.released import release_of
from petsync.render import markup, words
from petsync.render.markup import element, prose, text

__all__ = ["alerts", "facts"]


def alerts(plan: Plan) -> Iterator[str]:
    """The guard's verdict, and what the store did not answer."""
    if not plan.verdict.ok:
        lines = map(_refusal, plan.verdict.refusals)
        yield markup.alert(words.REFUSED, lines, kind="ps-refused")
    if plan.coverage.failed:
        yield markup.alert(words.UNANSWERED, map(_unanswered, words.unanswered(plan)))
    if plan.verdict.ok and (release := release_of(plan.notes)):
        yield markup.alert("Released by whoever applies it", [prose(release)])
    elif plan.verdict.ok and plan.changes:
        yield element("p", text(words.KEPT), class_="ps-kept")


def facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Names and values: store, sheet, when, and of which pets the plan knows."""
    yield from words.plan_facts(plan)
    yield from words.scope_facts(plan)


def _refusal(refusal: Refusal) -> str:
    way_out = words.way_out(refusal)
    if refusal.override:
        way_out = way_out.replace(refusal.override, f"`{refusal.override}`")
    return f"{prose(words.sentences(markup.capital(refusal.problem)))} {prose(way_out)}"


def _unanswered(said: tuple[str, str]) -> str:
    problem, consequence = said
    first = element("strong", text(words.sentences(markup.capital(problem))))
    return f"{first} {prose(consequence)}"
