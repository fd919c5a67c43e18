"""The rows of a plan as records, and the counts of its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Blocked, Change, Clash, Conflict, release_of
from petsync.plan.fields import cell, normalize, tag_key
from petsync.plan.plan import Plan, Summary, Texts
from petsync.plan.rounds import NEW_ID, SheetChange
from petsync.report import words
from petsync.report.document import (
    UNITS,
    Alert,
    Field,
    Note,
    Record,
    RowKind,
    Value,
)
from petsync.report.textdiff import items, limit_items, shorten_common
from petsync.report.words import clashes_by_row, first, quote_text, shorten
from petsync.table.cells import format_tags, make_visible
from petsync.table.columns import LISTS, Column

__all__ = [
    "KINDS",
    "NAMES",
    "NOTE_KINDS",
    "RELEASED",
    "ROW_KINDS",
    "Kind",
    "plan_alerts",
    "record_of_blocked",
    "record_of_change",
    "record_of_conflict",
    "record_of_note",
    "record_of_sheet_change",
    "record_text",
    "records",
    "summary_rows",
    "value_of",
    "values_of",
]


# The rows of a plan as records, whose texts are printable and of limited length.


Kind = words.Mark
KINDS: tuple[Kind, ...] = ("conflict", "blocked", "add", "update", "delete")
"""The kinds of a plan's rows in the order of a page: those that need attention come first."""
NAMES: Mapping[Kind, str] = {
    "conflict": "Conflict",
    "blocked": "Needs fixing",
    "add": "Add",
    "update": "Change",
    "delete": "Delete",
}
ROW_KINDS = [RowKind(kind, NAMES[kind], kind) for kind in KINDS]
NOTE_KINDS = [RowKind("note", "Note", "note")]
_NUMBER = {unit: n for n, unit in enumerate(UNITS)}
_MAX_CELLS = 500
_NARROW_LENGTH = _MAX_CELLS // 2
_MAX_CHARACTERS = 2 * _MAX_CELLS
"""The maximum number of characters of a text that is short in cells: thousands of combining accents
take seconds to draw.
"""
_MAX_VALUE_ITEMS, _MAX_ORDER_ITEMS = 50, 12
_BOTH_CHANGED = "Changed in the sheet and in the store since the export."


def records(plan: Plan) -> Iterator[Record]:
    """Yield the record of every row of the plan, in the order of `KINDS`."""
    yield from map(record_of_conflict, plan.conflicts)
    yield from map(record_of_blocked, plan.blocked)
    clashes = clashes_by_row(plan)
    for change in plan.changes:
        yield record_of_change(change, clashes.get(change.row))


def record_of_change(change: Change, clash: Conflict | None = None) -> Record:
    """Return the record of a change; `clash` is the conflict of the same row, if any."""
    pet, is_update = words.pet_of(change), change.kind == "update"
    return Record(
        KINDS.index(change.kind),
        "new" if change.pet_id is None else str(change.pet_id),
        record_text(pet.name or "(no name)"),
        record_text(words.source_of(change)),
        tuple(_iter_changed_fields(change) if is_update else _iter_pet_fields(pet)),
        f"{words.capital(words.describe_clashes(clash))}." if clash and is_update else "",
    )


def record_of_conflict(conflict: Conflict) -> Record:
    return Record(
        KINDS.index("conflict"),
        "" if conflict.pet_id is None else str(conflict.pet_id),
        record_text(conflict.name),
        record_text(conflict.source),
        tuple(map(_clash_field, conflict.clashes)),
        record_text(_conflict_problem(conflict)),
        record_text(f"{_BOTH_CHANGED if conflict.clashes else ''} {conflict.suggestion}".strip()),
        conflict.winner,
    )


def record_of_blocked(row: Blocked) -> Record:
    return Record(
        KINDS.index("blocked"),
        "" if row.pet_id is None else str(row.pet_id),
        record_text(row.name),
        record_text(row.source),
        message=record_text(row.problem),
    )


def record_of_note(note: str) -> Record:
    """Return the record of a note. Its kind is the only one in `NOTE_KINDS`."""
    return Record(0, "", "", "", message=make_visible(note))


def record_of_sheet_change(change: SheetChange) -> Record:
    """Return the record of a change of the sheet. Its message names a new id and a new action."""
    fields = {
        _NUMBER[column]: _sheet_texts(change.values, column)
        for column in UNITS
        if {column, f"{column}_id"} & {*change.values}
    }
    is_update = change.kind == "update"
    return Record(
        KINDS.index(change.kind),
        "" if change.pet_id is None else str(change.pet_id),
        record_text(change.name or "(no name)"),
        record_text(change.address or ("a new row" if change.kind == "add" else "")),
        tuple(
            (unit, *_pair(*texts))
            if is_update
            else (unit, _text_value(texts[change.kind == "add"]))
            for unit, texts in sorted(fields.items())
            if is_update or unit != _NUMBER["name"]
        ),
        _describe_sheet_change(change) if is_update else "",
    )


def _sheet_texts(values: Texts, column: Column) -> tuple[str, str]:
    """Return the texts of a field before and after; those of a category with its number, or as a
    number if only that changes.
    """
    if column != "category":
        return values[column]
    if "category" not in values:
        before, after = (number and f"number {number}" for number in values["category_id"])
        return before, after
    names, numbers = (values.get(each, ("", "")) for each in ("category", "category_id"))
    before, after = (
        " ".join(filter(None, (name, number and f"({number})")))
        for name, number in zip(names, numbers, strict=True)
    )
    return before, after


def _describe_sheet_change(change: SheetChange) -> str:
    (_, number), (_, action) = (change.values.get(each, ("", "")) for each in ("id", "action"))
    texts = [
        f"The row gets {number if number == NEW_ID else f'the id {number}'}" if number else "",
        f"The action becomes {action}" if action else "",
        "After the requests to the store" if change.after_requests else "",
    ]
    return words.sentences(*texts)


def _conflict_problem(conflict: Conflict) -> str:
    if conflict.clashes:
        return words.sentences(
            *(
                f"The sheet's {each.column} is not sent: {each.refused}"
                for each in conflict.clashes
                if each.refused
            )
        )
    return words.sentences(words.capital(f"{conflict.subject} {conflict.problem}"))


def _clash_field(clash: Clash) -> Field:
    texts = (clash.base, clash.sheet, clash.store)
    if clash.column in LISTS:
        sides = limit_items([items(clash.column, text) if text else () for text in texts])
        base, sheet, store = (tuple(map(_shorten, side)) for side in sides)
        return _unit(clash.column), base, sheet, store
    exported, edited, current = map(_text_value, texts)
    return _unit(clash.column), exported, edited, current


def _iter_changed_fields(change: Change) -> Iterator[Field]:
    before, after = change.before or Pet(), change.after or Pet()
    for unit in sorted({_unit(column) for column in change.fields if column != "id"}):
        column = UNITS[unit]
        if column == "tags":
            yield unit, *_tag_values(_tag_differences(before.tags, after.tags))
        elif column == "photo_urls":
            yield _photo_field(unit, before.photo_urls, after.photo_urls)
        else:
            yield unit, *_pair(_scalar(before, column), _scalar(after, column))


def _iter_pet_fields(pet: Pet) -> Iterator[Field]:
    """Yield the pet's fields except its name, for an add or a delete."""
    for column in ("status", "category"):
        if text := _scalar(pet, column):
            yield _NUMBER[column], _text_value(text)
    if pet.tags:
        yield _NUMBER["tags"], _items_value(_labels(pet.tags))
    if pet.photo_urls:
        yield _NUMBER["photo_urls"], _items_value(pet.photo_urls)


def _photo_field(unit: int, before: tuple[str, ...], after: tuple[str, ...]) -> Field:
    removed, added = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if removed or added:
        return unit, _items_value(added), _items_value(removed)
    old, new = ("\n".join(items) for items in _number_items(before, after))
    return unit, old, new


def _number_items(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the numbered items in their old order, then in their new order. For a list with more
    than 12 items, only the range from the first to the last moved item is included: its first 12
    items, and the number of its other items.
    """
    moved = [n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    start, stop = 0, len(before)
    if moved and stop > _MAX_ORDER_ITEMS:
        start, stop = moved[0], moved[-1] + 1
    for side in (before, after):
        shown = side[start : min(stop, start + _MAX_ORDER_ITEMS)]
        more = stop - start - len(shown)
        numbered = [f"{n}. {_text_value(item)}" for n, item in enumerate(shown, start + 1)]
        yield [*numbered, *([f"and {words.number(more)} more"] if more else [])]


def _tag_differences(before: Iterable[Tag], after: Iterable[Tag]) -> tuple[list[Tag], list[Tag]]:
    """Return the added and the removed tags."""
    old, new = ({tag_key(tag): tag for tag in tags} for tags in (before, after))
    added = [tag for key, tag in new.items() if key not in old]
    return added, [tag for key, tag in old.items() if key not in new]


def _tag_values(tags: tuple[Sequence[Tag], Sequence[Tag]]) -> tuple[Value, Value]:
    added, removed = tags
    labels = _labels([*added, *removed])
    return _items_value(labels[: len(added)]), _items_value(labels[len(added) :])


def _labels(tags: Sequence[Tag]) -> list[str]:
    """Return the names of the tags, with the id if the name is empty or not unique."""
    uses = Counter(normalize(tag.name) for tag in tags)
    return [
        tag.name if tag.name and uses[normalize(tag.name)] == 1 else format_tags((tag,))
        for tag in tags
    ]


def _items_value(items: Iterable[str]) -> Value:
    items = list(items)
    more = len(items) - _MAX_VALUE_ITEMS
    return (*map(_text_value, items[:_MAX_VALUE_ITEMS]), *([more] if more > 0 else ()))


def _scalar(pet: Pet, column: Column) -> str:
    return _category(pet.category) if column == "category" else cell(pet, column)


def _category(category: Category | None) -> str:
    """Format a category: `Dogs (1)`."""
    if category is None:
        return ""
    number = "" if category.id is None else f"({category.id})"
    return " ".join(part for part in (category.name or "", number) if part)


def _pair(before: str, after: str) -> tuple[str, str]:
    old, new = shorten_common(_quote_visible(before), _quote_visible(after), _MAX_CELLS)
    return _shorten(old), _shorten(new)


def _text_value(text: str) -> str:
    return _shorten(_quote_visible(text))


def _quote_visible(text: str) -> str:
    """Return the value as printable text, in quotes if it could be misread; "" stays ""."""
    return quote_text(text) if text else ""


def record_text(text: str) -> str:
    """Return a printable text, shortened so that a page with many rows stays small."""
    return _shorten(make_visible(text))


def _shorten(text: str) -> str:
    # No character takes more than two cells, so short texts need not be measured.
    if len(text) <= _NARROW_LENGTH:
        return text
    short = shorten(text, _MAX_CELLS)
    most = _MAX_CHARACTERS // 2
    return short if len(short) <= _MAX_CHARACTERS else f"{short[:most]}...{short[-most:]}"


def value_of(column: Column, text: str) -> Value:
    """Return the text of a cell as the value of a field."""
    if column in LISTS:
        return tuple(map(_shorten, items(column, text))) if text else ()
    return _text_value(text)


def values_of(column: Column, before: str, after: str) -> tuple[Value, Value]:
    """Return the texts of a cell as two values of a field: the added and the removed items of a
    list, else the texts before and after.
    """
    if column not in LISTS:
        return _pair(before, after)
    old, new = ([*items(column, text)] if text else [] for text in (before, after))
    removed, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    if removed or added:
        return _items_value(added), _items_value(removed)
    return _text_value("\n".join(old)), _text_value("\n".join(new))


def _unit(column: Column) -> int:
    return _NUMBER["category" if column == "category_id" else column]


# The alerts and notes above the rows of a plan.


RELEASED = "Over the limits of its job"


def plan_alerts(plan: Plan, limit: int | None) -> Iterator[Alert | Note]:
    """Yield the guard's verdict or the release of the plan, and the first `limit` queries that
    failed; None shows all.
    """
    if not plan.verdict.ok:
        refusals = list(map(words.describe_refusal, plan.verdict.refusals))
        yield Alert(words.PLAN_REFUSED, refusals, is_refusal=True)
    elif release := release_of(plan.raw_notes):
        yield Alert(RELEASED, [release])
    elif plan.changes:
        yield Note(words.LIMITS_KEPT, "quiet")
    if plan.coverage.failed:
        failed = first(list(words.iter_unanswered(plan)), limit)
        lines = [words.sentences(words.capital(problem), then) for problem, then in failed.shown]
        yield Alert(words.UNANSWERED_TITLE, lines, more=failed.more)
    if plan.warnings:
        yield Alert(words.capital(words.count_warnings(plan)), plan.warnings)
    if len(plan.uncovered) > 1:
        yield Alert(words.UNCOVERED_TITLE, plan.uncovered)
    elif plan.uncovered:
        yield Note(f"{words.UNCOVERED_TITLE}: {plan.uncovered[0]}", "quiet")


# The counts of a plan.


def summary_rows(summary: Summary) -> Iterator[tuple[str, int, str]]:
    """Yield the name, the number and a note for each count of the summary."""
    yield "to add", summary.adds, ""
    yield "to change", summary.updates, words.format_changed_fields(summary)
    yield "to delete", summary.deletes, ""
    decided = summary.conflicts - summary.open_conflicts
    winner_note = f"{words.number(decided)} that the sheet wins" if decided else ""
    yield "conflicts", summary.conflicts, winner_note
    yield "needs fixing", summary.blocked, "errors in the sheet" if summary.blocked else ""
    agreeing = "as before" if summary.undoes else "in agreement"
    yield agreeing, summary.unchanged - summary.older - summary.deleted_in_store, ""
    older_note = "not edited since the export, and the store has a newer value"
    remaining = summary.older - summary.reset_by_undo
    yield "older", remaining, older_note if remaining else ""
    if summary.reset_by_undo:
        yield (
            "restored",
            summary.reset_by_undo,
            "not edited since the export, and unchanged since an undo",
        )
    deleted_note = "not edited since the export"
    remaining = summary.deleted_in_store - summary.deleted_by_undo
    yield "deleted in store", remaining, deleted_note if remaining else ""
    if summary.deleted_by_undo:
        deleted_by_undo_note = "not edited since the export, and an undo deleted the pets"
        yield "removed", summary.deleted_by_undo, deleted_by_undo_note
    yield "ignored", summary.ignored, ""
    yield "left out", summary.left_out, "by a selection" if summary.left_out else ""
    rows = f"that run {summary.undoes} changed" if summary.undoes else "of the sheet"
    yield "pets" if summary.undoes else "rows", summary.rows, rows
    yield "pets", summary.pets, f"{'at least, ' if summary.is_narrow else ''}in the store"
