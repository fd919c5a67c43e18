"""A plan's rows as the plain values that a page shows: compact, visible, of bounded length.

One record is one row, whatever it is: a change, a conflict or a blocked row. The page's own rows
and those that its script makes come from the same records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from petsync.diff.change import Blocked, Change, Clash, Conflict
from petsync.diff.fields import cell, normal, tag_key
from petsync.diff.plan import Plan
from petsync.diff.round import SheetChange
from petsync.model import Category, Pet, Tag
from petsync.render import markup, words
from petsync.render.digest import clashing
from petsync.render.marked import around
from petsync.render.visible import quoted, shorten, visible
from petsync.table.cells import format_tags
from petsync.table.columns import Column

__all__ = [
    "KINDS",
    "UNITS",
    "Field",
    "Kind",
    "Record",
    "Value",
    "of_blocked",
    "of_change",
    "of_conflict",
    "of_sheet_change",
    "records",
]

Kind = words.Mark
KINDS: tuple[Kind, ...] = ("conflict", "blocked", "add", "update", "delete")
"""In the order of a page: what needs a person comes first."""
UNITS: tuple[Column, ...] = ("name", "status", "category", "tags", "photo_urls")
"""What changes as one: a category's id moves with its name."""
_NUMBER = {unit: n for n, unit in enumerate(UNITS)}
_LONGEST = 500
_SURELY_NARROW = _LONGEST // 2
_MOST_MARKS = 2 * _LONGEST
"""So many characters are shown in no more cells: drawing thousands of accents takes seconds."""
_ITEMS = 50

Value = str | tuple[str | int, ...]
"""Text; or the items of a list, behind them the number of those that are left out."""
Field = (
    tuple[int, Value] | tuple[int, str, str] | tuple[int, Value, Value] | tuple[int, str, str, str]
)
"""A unit's number and: its value; its values before and after, or the items of a list that come
and go; of a clash, its texts in export, sheet and store.
"""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """A row: its kind's number in `KINDS`, all else visible text.

    `said`, `cure` and `winner` are those of a conflict or a blocked row; a change says which other
    fields of its row are in conflict.
    """

    kind: int
    pet_id: str
    name: str
    where: str
    fields: tuple[Field, ...] = ()
    said: str = ""
    cure: str = ""
    winner: str = ""


def records(plan: Plan) -> Iterator[Record]:
    """Every row of the plan, in the order of `KINDS`."""
    yield from map(of_conflict, plan.conflicts)
    yield from map(of_blocked, plan.blocked)
    held = clashing(plan)
    for change in plan.changes:
        yield of_change(change, held.get(change.row) if change.kind == "update" else None)


def of_change(change: Change, clash: Conflict | None = None) -> Record:
    """The record of a change, and of the conflict that its row is in besides."""
    pet = words.pet_of(change)
    return Record(
        KINDS.index(change.kind),
        "new" if change.pet_id is None else str(change.pet_id),
        _text(pet.name or "(no name)"),
        _text(words.source_of(change)),
        tuple(_changed(change) if change.kind == "update" else _held(pet)),
        "" if clash is None else f"{markup.capital(words.held_back(clash))}.",
    )


def of_conflict(conflict: Conflict) -> Record:
    """The record of a conflict."""
    return Record(
        KINDS.index("conflict"),
        "" if conflict.pet_id is None else str(conflict.pet_id),
        _text(conflict.name),
        _text(conflict.source),
        tuple(map(_clash, conflict.clashes)),
        _text(_said(conflict)),
        _text(conflict.suggestion),
        conflict.winner,
    )


def of_blocked(row: Blocked) -> Record:
    """The record of a blocked row."""
    return Record(
        KINDS.index("blocked"),
        "" if row.pet_id is None else str(row.pet_id),
        _text(row.name),
        _text(row.source),
        said=_text(row.problem),
    )


def of_sheet_change(change: SheetChange) -> Record:
    """The record of what the sheet takes."""
    fields = {_unit(column): texts for column, texts in change.values.items() if column != "id"}
    is_update = change.kind == "update"
    return Record(
        KINDS.index(change.kind),
        "" if change.pet_id is None else str(change.pet_id),
        _text(change.name or "(no name)"),
        _text(change.address or ("a new row" if change.kind == "add" else "")),
        tuple(
            (unit, *_pair(*texts)) if is_update else (unit, _value(texts[change.kind == "add"]))
            for unit, texts in sorted(fields.items())
            if is_update or unit != _NUMBER["name"]
        ),
    )


def _said(conflict: Conflict) -> str:
    if conflict.clashes:
        return "Changed in the sheet and in the store since the export."
    return words.sentences(markup.capital(f"{conflict.subject} {conflict.problem}"))


def _clash(clash: Clash) -> Field:
    # A list's items may stand on lines of their own; in a line the grammar has another mark.
    texts = (text.replace("\n", " | ") for text in (clash.base, clash.sheet, clash.store))
    base, sheet, store = map(_value, texts)
    return _unit(clash.column), base, sheet, store


def _changed(change: Change) -> Iterator[Field]:
    before, after = change.before or Pet(), change.after or Pet()
    for unit in sorted({_unit(column) for column in change.fields if column != "id"}):
        column = UNITS[unit]
        if column == "tags":
            yield unit, *_apart(_tags(before.tags, after.tags))
        elif column == "photo_urls":
            yield _photos(unit, before.photo_urls, after.photo_urls)
        else:
            yield unit, *_pair(_scalar(before, column), _scalar(after, column))


def _held(pet: Pet) -> Iterator[Field]:
    """What a pet is, besides its name: all that comes with it, or goes."""
    for column in ("status", "category"):
        if text := _scalar(pet, column):
            yield _NUMBER[column], _value(text)
    if pet.tags:
        yield _NUMBER["tags"], _items(_labels(pet.tags))
    if pet.photo_urls:
        yield _NUMBER["photo_urls"], _items(pet.photo_urls)


def _photos(unit: int, before: tuple[str, ...], after: tuple[str, ...]) -> Field:
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if gone or come:
        return unit, _items(come), _items(gone)
    return unit, *_pair(" | ".join(before), " | ".join(after))


def _tags(before: Iterable[Tag], after: Iterable[Tag]) -> tuple[list[Tag], list[Tag]]:
    """The tags that come, and those that go."""
    old, new = ({tag_key(tag): tag for tag in tags} for tags in (before, after))
    come = [tag for key, tag in new.items() if key not in old]
    return come, [tag for key, tag in old.items() if key not in new]


def _apart(tags: tuple[Sequence[Tag], Sequence[Tag]]) -> tuple[Value, Value]:
    come, gone = tags
    labels = _labels([*come, *gone])
    return _items(labels[: len(come)]), _items(labels[len(come) :])


def _labels(tags: Sequence[Tag]) -> list[str]:
    """The tags by name; with their id where the name alone would not tell two apart."""
    uses = Counter(normal(tag.name) for tag in tags)
    return [
        tag.name if tag.name and uses[normal(tag.name)] == 1 else format_tags((tag,))
        for tag in tags
    ]


def _items(items: Iterable[str]) -> Value:
    items = list(items)
    more = len(items) - _ITEMS
    return (*map(_value, items[:_ITEMS]), *([more] if more > 0 else ()))


def _scalar(pet: Pet, column: Column) -> str:
    return _category(pet.category) if column == "category" else cell(pet, column)


def _category(category: Category | None) -> str:
    """`Dogs (1)`."""
    if category is None:
        return ""
    number = "" if category.id is None else f"({category.id})"
    return " ".join(part for part in (category.name or "", number) if part)


def _pair(before: str, after: str) -> tuple[str, str]:
    old, new = around(_visible(before), _visible(after), _LONGEST)
    return _short(old), _short(new)


def _value(text: str) -> str:
    return _short(_visible(text))


def _visible(text: str) -> str:
    """As it is said of a value: in quotes where white space would mislead; empty stays empty."""
    return quoted(text) if text else ""


def _text(text: str) -> str:
    return _short(visible(text))


def _short(text: str) -> str:
    # No character takes more than two cells: measuring is for long texts only.
    if len(text) <= _SURELY_NARROW:
        return text
    short = shorten(text, _LONGEST)
    most = _MOST_MARKS // 2
    return short if len(short) <= _MOST_MARKS else f"{short[:most]}...{short[-most:]}"


def _unit(column: Column) -> int:
    return _NUMBER["category" if column == "category_id" else column]
