"""A plan as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from petsync.diff.change import Blocked, Change, Conflict
from petsync.diff.plan import Plan
from petsync.render import markup, words
from petsync.render.detail import Detail, details, traits
from petsync.render.digest import changes_by_kind, first
from petsync.render.markup import cell, element

__all__ = ["plan_html"]

_ITEMS = 50


def plan_html(plan: Plan, *, limit: int | None = 20) -> str:
    """The plan with the first `limit` rows of each sort (all where it is None)."""
    return markup.fragment(_parts(plan, limit))


def _parts(plan: Plan, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    changes = changes_by_kind(plan, limit)
    conflicts, blocked = first(plan.conflicts, limit), first(plan.blocked, limit)
    notes = first(plan.notes, limit)
    counts = {kind: listing.total for kind, listing in changes.items()}
    yield markup.summary(words.plan_summary(plan, counts))
    yield markup.facts(words.plan_facts(plan))
    yield _guard(plan)
    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(counts[kind], 'pet')}"
        columns = ("", "Id", "Pet", "What", "Where")
        yield markup.listing(title, changes[kind], columns, _change, fold_over=fold_over)
    yield markup.listing(
        words.conflicts_title(conflicts.total),
        conflicts,
        ("", "Where", "Pet", "Problem", "Suggestion"),
        _conflict,
        fold_over=fold_over,
    )
    title = words.blocked_title(blocked.total)
    yield markup.listing(title, blocked, ("", "Row", "Problem"), _blocked, fold_over=fold_over)
    yield markup.listing("Notes", notes, ("", "Note"), _note, fold_over=fold_over)
    left_out = [*(listing.more for listing in changes.values()), conflicts.more, blocked.more]
    if any((*left_out, notes.more)):
        yield element("p", markup.text(words.WHERE_TO_SEE_ALL))


def _guard(plan: Plan) -> str:
    if not plan.verdict.ok:
        return markup.alert(words.REFUSED, map(str, plan.verdict.refusals))
    return element("p", markup.text(words.KEPT)) if plan.changes else ""


def _change(change: Change) -> str:
    pet = words.pet_of(change)
    identity = "new" if change.pet_id is None else str(change.pet_id)
    what = "<br>".join(map(_detail, details(change))) if change.kind == "update" else ""
    return markup.row(
        change.kind,
        cell(identity, kind="ps-number"),
        markup.row_head(words.name_of(pet)),
        element("td", what or markup.bdi(traits(pet))),
        cell(words.source_of(change), kind="ps-where"),
    )


def _detail(detail: Detail) -> str:
    field = element("span", markup.text(f"{detail.column}:"), class_="ps-field")
    if not (detail.gone or detail.come):
        old, new = _value("del", detail.before), _value("ins", detail.after)
        return f"{field} {old} &rarr; {new}"
    items = [*_items("ins", "+", detail.come), *_items("del", "-", detail.gone)]
    return f"{field} {' '.join(items)}"


def _items(tag: str, sign: str, items: Iterable[str]) -> Iterator[str]:
    items = list(items)
    yield from (_value(tag, f"{sign}{item}") for item in items[:_ITEMS])
    if len(items) > _ITEMS:
        yield f"... {words.number(len(items) - _ITEMS)} more"


def _value(tag: str, value: str) -> str:
    return element(tag, markup.bdi(value))


def _conflict(conflict: Conflict) -> str:
    return markup.row(
        "conflict",
        cell(conflict.source, kind="ps-where"),
        cell("" if conflict.pet_id is None else str(conflict.pet_id), kind="ps-number"),
        cell(conflict.problem),
        cell(conflict.suggestion),
    )


def _blocked(row: Blocked) -> str:
    return markup.row("blocked", cell(row.source, kind="ps-where"), cell(row.problem))


def _note(note: str) -> str:
    return markup.row("note", cell(note))
