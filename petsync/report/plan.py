"""A plan as text, HTML and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec
from rich.cells import cell_len
from rich.text import Text

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Blocked, Change, Clash, Conflict, release_of
from petsync.plan.fields import cell, normal, tag_key
from petsync.plan.guard import Refusal
from petsync.plan.plan import Inbound, Plan, Summary
from petsync.plan.rounds import SheetChange
from petsync.report import html, words
from petsync.report import text as lines
from petsync.report.html import bdi, document, element, prose, table_cell, text
from petsync.report.textdiff import (
    Cell,
    Detail,
    Piece,
    SideBySide,
    around,
    details,
    fit_texts,
    fold_items,
    items,
    mark_differences,
    traits,
)
from petsync.report.words import (
    SYMBOL,
    Clashing,
    Listing,
    changes_by_kind,
    clashing,
    conflicts_by_winner,
    first,
    quote_text,
    shorten,
)
from petsync.table.cells import format_tags, visible
from petsync.table.columns import Column

__all__ = [
    "KINDS",
    "NAMES",
    "UNITS",
    "Field",
    "Kind",
    "Record",
    "Value",
    "alerts",
    "badge",
    "change_lines",
    "conflict_lines",
    "facts",
    "head",
    "intake_lines",
    "intake_text",
    "line",
    "of_blocked",
    "of_change",
    "of_conflict",
    "of_sheet_change",
    "one_change",
    "page_row",
    "pager",
    "plan_html",
    "plan_lines",
    "plan_page",
    "records",
    "summary_lines",
    "summary_rows",
    "tools",
    "what",
]


# The changes of a plan as lines: pet by pet, field by field.


_INDENT = 6
_ARROW_TEXT = " -> "
_ITEMS_TEXT = 12
_STYLES = (lines.GONE, lines.COME)


def change_lines(
    kind: words.Kind, listing: Listing[Change], plan: Plan, conflicts: Clashing, width: int
) -> Iterator[Text]:
    """The changes of one kind that are shown, under a heading that counts all of them, and where
    there are more the fields that they change.
    """
    if not listing.total:
        return
    yield from lines.heading(f"{words.HEADING[kind]} {words.count(listing.total, 'pet')}", width)
    if kind == "update" and listing.more:
        said = words.fields_changed(plan.summary())
        yield from lines.paragraph(said, width, indent=2, style="dim")
    numbers = _numbers(listing.shown)
    for number, change in zip(numbers, listing.shown, strict=True):
        yield from _change_text(number, change, width)
        if change.kind == "update" and change.row in conflicts:
            yield from _partly(conflicts[change.row], width)
    yield from lines.more(listing.more)


def one_change(change: Change, width: int) -> Iterator[Text]:
    """A change alone: the pet, and what differs in each field."""
    yield from _change_text(_numbers([change])[0], change, width)


def _numbers(changes: Sequence[Change]) -> list[str]:
    """The ids, aligned at the right."""
    numbers = ["new" if c.pet_id is None else str(c.pet_id) for c in changes]
    column = max(map(len, numbers), default=0)
    return [number.rjust(column) for number in numbers]


def _change_text(number: str, change: Change, width: int) -> Iterator[Text]:
    pet = words.pet_of(change)
    yield lines.spread_item(change.kind, number, words.name_of(pet), words.source_of(change), width)
    if change.kind == "update":
        for detail in details(change):
            yield from _detail(detail, width)
    elif said := traits(pet):
        yield from lines.paragraph(said, width, indent=_INDENT)


def _partly(conflict: Conflict, width: int) -> Iterator[Text]:
    text = words.held_back(conflict)
    yield from lines.paragraph(text, width, indent=_INDENT, style=lines.STYLE["conflict"])


def _detail(detail: Detail, width: int) -> Iterator[Text]:
    label = f"{detail.column}: "
    if detail.gone or detail.come:
        yield from lines.flow(
            label, _items_text(detail, width - _INDENT - len(label)), width, indent=_INDENT
        )
        return
    if detail.orders:
        yield from _orders(detail, width)
        return
    start = " " * _INDENT + label
    room = width - len(start)
    if cell_len(detail.before) + len(_ARROW_TEXT) + cell_len(detail.after) <= room:
        old, new = _colour_differences(detail.before, detail.after)
        yield Text.assemble(start, old, _ARROW_TEXT, new)
        return
    old, new = _colour_differences(*fit_texts([detail.before, detail.after], room))
    yield Text.assemble(start, old)
    yield Text.assemble(" " * (len(start) - len(_ARROW_TEXT) + 1), _ARROW_TEXT[1:], new)


def _orders(detail: Detail, width: int) -> Iterator[Text]:
    """Both orders, an address a line."""
    label = f"{detail.column}: "
    for side, style, order in zip(("before", "after"), _STYLES, detail.orders, strict=True):
        start = f"{' ' * _INDENT}{label}{side:<8}"
        for line in fold_items(order, width - len(start)):
            yield Text.assemble(start, (line, style))
            start = " " * len(start)
        label = " " * len(label)


def _colour_differences(before: str, after: str) -> tuple[Text, Text]:
    old, new = mark_differences(before, after)
    return lines.style_pieces(old, lines.GONE), lines.style_pieces(new, lines.COME)


def _items_text(detail: Detail, room: int) -> Iterator[Text]:
    items = [
        *((f"+{item}", lines.COME) for item in detail.come),
        *((f"-{item}", lines.GONE) for item in detail.gone),
    ]
    shown = items[:_ITEMS_TEXT]
    long = [item for item, _ in shown if cell_len(item) > room]
    short = dict(zip(long, fit_texts(long, room), strict=True))
    for item, style in shown:
        yield Text(short.get(item, item), style)
    if len(items) > _ITEMS_TEXT:
        yield Text(f"and {words.number(len(items) - _ITEMS_TEXT)} more")


# The conflicts of a plan as lines: what the export, the sheet and the store say, side by side.


_LABEL = 12
_NAME = 30
"""`photo_urls` and a gap."""
_SIDES_CONFLICT_TEXT = ("exported", "sheet", "store")
_WINS_CONFLICT_TEXT: Mapping[words.Winner, Mapping[str, str]] = {
    "": {},
    "store": {"store": "store (stays)"},
    "sheet": {"sheet": "sheet (sent)"},
}


def conflict_lines(winner: words.Winner, listing: Listing[Conflict], width: int) -> Iterator[Text]:
    """The conflicts with this winner that are shown, under a heading that counts all of them."""
    if not listing.total:
        return
    yield from lines.heading(words.conflicts_title(listing.total, winner), width)
    titles = [_WINS_CONFLICT_TEXT[winner].get(side, side) for side in _SIDES_CONFLICT_TEXT]
    styles = ["bold" if side == winner else "" for side in _SIDES_CONFLICT_TEXT]
    clashes = (_values(clash) for conflict in listing.shown for clash in conflict.clashes)
    table = SideBySide(titles, clashes, width - _INDENT - _LABEL)
    is_headed = False
    for conflict in listing.shown:
        if not conflict.clashes:
            said = words.sentences(conflict.problem, conflict.suggestion)
            yield from lines.item(
                "conflict", visible(f"{_place_conflict_text(conflict)} {said}"), width
            )
            continue
        yield from lines.item("conflict", visible(_both(conflict)), width)
        for clash in conflict.clashes:
            values = _values(clash)
            if not is_headed and table.fits(values):
                yield Text.assemble(" " * (_INDENT + _LABEL), table.head)
                is_headed = True
            for n, line in enumerate(table.lines(values, styles)):
                label = clash.column if n == 0 else ""
                yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
            if clash.refused:
                why = f"The sheet's value is not sent: {visible(clash.refused)}."
                yield from lines.paragraph(why, width, indent=_INDENT + _LABEL)
    yield from lines.more(listing.more)


def _both(conflict: Conflict) -> str:
    """`Pets!B18 (pet 17, Bella)`."""
    name = f", {shorten(visible(conflict.name), _NAME)}" if conflict.name else ""
    pet = f"pet {conflict.pet_id}{name}"
    return f"{conflict.source} ({pet})" if conflict.source else pet


def _place_conflict_text(conflict: Conflict) -> str:
    """Where, and which pet, but for a row that names none."""
    if conflict.pet_id is not None or not conflict.source:
        return _both(conflict)
    name = shorten(visible(conflict.name), _NAME)
    return f"{conflict.source} ({name})" if name else conflict.source


def _values(clash: Clash) -> list[Cell]:
    return [items(clash.column, text) for text in (clash.base, clash.sheet, clash.store)]


# What a sheet is to take from the store, as lines, and as text.


_ALL = "All of them: `petsync apply` with `--limit 0`; the report of the round has them, too."
_SAID = {"add": "new row", "update": "", "delete": "row goes"}


def intake_lines(inbound: Inbound, *, width: int = 80, limit: int | None = 20) -> Iterator[Text]:
    """How many rows come, change and go in which sheet, and the first `limit` of them."""
    counts, rows = inbound.counts, inbound.changes
    yield from lines.paragraph(f"For the sheet {inbound.source}", width, style="bold")
    yield from lines.paragraph(f"from {inbound.store}", width)
    said = f"{counts.update:,} rows change, {counts.add:,} come, {counts.delete:,} go."
    yield from lines.heading(said, width)
    if release := release_of([note.problem for note in inbound.notes[:1]]):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    for change in islice(rows, limit):
        yield from lines.item(change.kind, _line(change), width)
    left = 0 if limit is None else max(0, len(rows) - limit)
    yield from lines.more(left)
    if left:
        yield from lines.paragraph(_ALL, width, style="dim")


def intake_text(inbound: Inbound, *, width: int = 80) -> str:
    """The same as plain text."""
    return "\n".join(line.plain.rstrip() for line in intake_lines(inbound, width=width))


def _line(change: SheetChange) -> str:
    place = change.address or _SAID[change.kind]
    head = f"{place}: pet {change.pet_id} {visible(change.name)}".rstrip()
    if change.kind == "update":
        each = [f"{c} {quote_text(a)} -> {quote_text(b)}" for c, (a, b) in change.values.items()]
        return f"{head}: {', '.join(each)}"
    return f"{head} ({_SAID[change.kind]})" if change.address else head


# A plan's rows as the plain values that a page shows: compact, visible, of bounded length.
#
# One record is one row, whatever it is: a change, a conflict or a blocked row. The page's own
# rows and those that its script makes come from the same records.


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
_ITEMS_RECORD = 50

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
        tuple(_iter_changed_fields(change) if change.kind == "update" else _held_record(pet)),
        "" if clash is None else f"{html.capital(words.held_back(clash))}.",
    )


def of_conflict(conflict: Conflict) -> Record:
    """The record of a conflict."""
    return Record(
        KINDS.index("conflict"),
        "" if conflict.pet_id is None else str(conflict.pet_id),
        _text(conflict.name),
        _text(conflict.source),
        tuple(map(_clash_record, conflict.clashes)),
        _text(_said_record(conflict)),
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
            (unit, *_pair(*texts))
            if is_update
            else (unit, _value_record(texts[change.kind == "add"]))
            for unit, texts in sorted(fields.items())
            if is_update or unit != _NUMBER["name"]
        ),
    )


def _said_record(conflict: Conflict) -> str:
    if conflict.clashes:
        return "Changed in the sheet and in the store since the export."
    return words.sentences(html.capital(f"{conflict.subject} {conflict.problem}"))


def _clash_record(clash: Clash) -> Field:
    # A list's items may stand on lines of their own; in a line the grammar has another mark.
    texts = (text.replace("\n", " | ") for text in (clash.base, clash.sheet, clash.store))
    base, sheet, store = map(_value_record, texts)
    return _unit(clash.column), base, sheet, store


def _iter_changed_fields(change: Change) -> Iterator[Field]:
    before, after = change.before or Pet(), change.after or Pet()
    for unit in sorted({_unit(column) for column in change.fields if column != "id"}):
        column = UNITS[unit]
        if column == "tags":
            yield unit, *_apart(_tags(before.tags, after.tags))
        elif column == "photo_urls":
            yield _photos(unit, before.photo_urls, after.photo_urls)
        else:
            yield unit, *_pair(_scalar(before, column), _scalar(after, column))


def _held_record(pet: Pet) -> Iterator[Field]:
    """What a pet is, besides its name: all that comes with it, or goes."""
    for column in ("status", "category"):
        if text := _scalar(pet, column):
            yield _NUMBER[column], _value_record(text)
    if pet.tags:
        yield _NUMBER["tags"], _items_record(_labels(pet.tags))
    if pet.photo_urls:
        yield _NUMBER["photo_urls"], _items_record(pet.photo_urls)


def _photos(unit: int, before: tuple[str, ...], after: tuple[str, ...]) -> Field:
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if gone or come:
        return unit, _items_record(come), _items_record(gone)
    return unit, *_pair(" | ".join(before), " | ".join(after))


def _tags(before: Iterable[Tag], after: Iterable[Tag]) -> tuple[list[Tag], list[Tag]]:
    """The tags that come, and those that go."""
    old, new = ({tag_key(tag): tag for tag in tags} for tags in (before, after))
    come = [tag for key, tag in new.items() if key not in old]
    return come, [tag for key, tag in old.items() if key not in new]


def _apart(tags: tuple[Sequence[Tag], Sequence[Tag]]) -> tuple[Value, Value]:
    come, gone = tags
    labels = _labels([*come, *gone])
    return _items_record(labels[: len(come)]), _items_record(labels[len(come) :])


def _labels(tags: Sequence[Tag]) -> list[str]:
    """The tags by name; with their id where the name alone would not tell two apart."""
    uses = Counter(normal(tag.name) for tag in tags)
    return [
        tag.name if tag.name and uses[normal(tag.name)] == 1 else format_tags((tag,))
        for tag in tags
    ]


def _items_record(items: Iterable[str]) -> Value:
    items = list(items)
    more = len(items) - _ITEMS_RECORD
    return (*map(_value_record, items[:_ITEMS_RECORD]), *([more] if more > 0 else ()))


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


def _value_record(text: str) -> str:
    return _short(_visible(text))


def _visible(text: str) -> str:
    """As it is said of a value: in quotes where white space would mislead; empty stays empty."""
    return quote_text(text) if text else ""


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


# What a plan's rows say, as HTML. `assets/rows.js` makes the same for the rows of other pages.


NAMES: Mapping[Kind, str] = {
    "conflict": "Conflict",
    "blocked": "Needs fixing",
    "add": "Add",
    "update": "Change",
    "delete": "Delete",
}
_SIDES_CELL = ("As exported", "Sheet", "Store")
_WINS_CELL = {"store": "stays", "sheet": "is sent"}
_EMPTY = element("span", "(empty)", class_="ps-empty")
_ARROW_CELL = element("span", " &rarr; ", aria_hidden="true")


def page_row(record: Record, said: str = "") -> str:
    """The record as a row of the page's table; with something else (HTML) said of it, where that
    is given.
    """
    kind = KINDS[record.kind]
    shown = badge(words.SYMBOL[kind], NAMES[kind])
    return line(kind, shown, record.pet_id, record.name, said or what(record), record.where)


def badge(sign: str, title: str, *, kind: str = "") -> str:
    """A sign and what it stands for (texts); coloured by the row that it is in, or by its kind."""
    symbol = element("span", text(sign), class_="ps-sign", aria_hidden="true")
    return element("span", f"{symbol}{text(title)}", class_=f"ps-badge {kind}".rstrip())


def line(kind: str, shown: str, pet_id: str, name: str, said: str, where: str) -> str:
    """A row of a page's table: a badge (HTML), a pet, what there is to say of it (HTML), and where
    it stands in the sheet.
    """
    cells = (
        _cell("td", shown, "ps-kind"),
        _cell("td", bdi(pet_id), "ps-id"),
        _cell("th", bdi(name), "ps-name") if name else _cell("td", "", "ps-name"),
        _cell("td", said, "ps-what"),
        _cell("td", bdi(where), "ps-where"),
    )
    return element("tr", "".join(cells), class_=f"ps-{kind}", role="row")


def what(record: Record) -> str:
    """What is to happen, or why nothing is."""
    clashes = [field for field in record.fields if len(field) == 4]
    fields = [field for field in record.fields if len(field) != 4]
    return "".join(
        [
            element("p", prose(record.said)) if record.said else "",
            _clashes(clashes, record.winner) if clashes else "",
            element("p", prose(record.cure), class_="ps-cure") if record.cure else "",
            element("dl", "".join(map(_field, fields)), class_="ps-fields") if fields else "",
        ]
    )


def _cell(tag: str, inner: str, kind: str) -> str:
    if tag == "th":
        return element("th", inner, class_=kind, scope="row", role="rowheader")
    return element("td", inner, class_=kind, role="cell")


def _field(field: Field) -> str:
    name = element("dt", text(UNITS[field[0]]))
    return element("div", name + element("dd", _said_cell(field)))


def _said_cell(field: Field) -> str:
    values = field[1:]
    if len(values) == 1:
        return _held_cell(values[0])
    before, after = values[0], values[1]
    if isinstance(before, str) and isinstance(after, str):
        return _change_cell(before, after)
    come, gone = _items_cell("ins", "+", "added", before), _items_cell("del", "-", "removed", after)
    return element("ul", "".join([*come, *gone]), class_="ps-items")


def _held_cell(value: Value) -> str:
    if isinstance(value, str):
        return bdi(value)
    return element("ul", "".join(_items_cell("span", "", "", value)), class_="ps-items")


def _items_cell(tag: str, sign: str, word: str, items: Value) -> Iterator[str]:
    for item in items:
        if isinstance(item, int):
            yield element("li", f"and {words.number(item)} more {word}".rstrip())
            continue
        signs = element("span", sign, class_="ps-sign", aria_hidden="true") if sign else ""
        told = _hidden(f"{word} ") if word else ""
        yield element("li", element(tag, signs + told + bdi(item), class_="ps-item"))


def _change_cell(before: str, after: str) -> str:
    old, new = mark_differences(before, after)
    left = element("span", _hidden("from ") + _value_cell("del", old), class_="ps-old")
    right = element("span", _hidden("to ") + _value_cell("ins", new), class_="ps-new")
    return left + _ARROW_CELL + right


def _value_cell(tag: str, pieces: Iterable[Piece]) -> str:
    parts = [element(tag, text(part)) if is_marked else text(part) for part, is_marked in pieces]
    return element("bdi", "".join(parts)) if parts else _EMPTY


def _clashes(clashes: Iterable[Field], winner: str) -> str:
    heads = [element("th", "Field", scope="col"), *(_side(side, winner) for side in _SIDES_CELL)]
    body = "".join(_conflict_cell(clash, winner) for clash in clashes)
    inner = f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody>"
    return element("table", inner, class_="ps-clash")


def _side(side: str, winner: str) -> str:
    if side.lower() != winner:
        return element("th", side, scope="col")
    return element(
        "th", f"{side} {element('span', _WINS_CELL[winner], class_='ps-tag')}", scope="col"
    )


def _conflict_cell(clash: Field, winner: str) -> str:
    texts = zip(_SIDES_CELL, clash[1:], strict=True)
    cells = (_clash_cell(str(value), side.lower() == winner) for side, value in texts)
    return element("tr", element("th", text(UNITS[clash[0]]), scope="row") + "".join(cells))


def _clash_cell(value: str, wins: bool) -> str:
    return element("td", bdi(value) if value else _EMPTY, class_="ps-wins" if wins else "")


def _hidden(words_: str) -> str:
    return element("span", words_, class_="ps-hidden")


# What comes first in a plan's HTML: what nobody may overlook, and what it was made from.


def alerts(plan: Plan) -> Iterator[str]:
    """The guard's verdict, and what the store did not answer."""
    if not plan.verdict.ok:
        lines = map(_refusal, plan.verdict.refusals)
        yield html.alert(words.REFUSED, lines, kind="ps-refused")
    if plan.coverage.failed:
        yield html.alert(words.UNANSWERED, map(_unanswered_top, words.iter_unanswered(plan)))
    if plan.verdict.ok and (release := release_of(plan.notes)):
        yield html.alert("Released by the person who applies it", [prose(release)])
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
    return f"{prose(words.sentences(html.capital(refusal.problem)))} {prose(way_out)}"


def _unanswered_top(said: tuple[str, str]) -> str:
    problem, consequence = said
    first = element("strong", text(words.sentences(html.capital(problem))))
    return f"{first} {prose(consequence)}"


# A plan as HTML.


_CHANGE_COLUMNS = ("", "Id", "Pet", "What", "Where")
_BLOCKED_COLUMNS = ("", "Id", "Pet", "Problem", "Where")


def plan_html(plan: Plan, *, limit: int | None = 20) -> str:
    """The plan with the first `limit` rows of each sort (all where it is None)."""
    return html.fragment(_parts(plan, limit))


def _parts(plan: Plan, limit: int | None) -> Iterator[str]:
    fold_over = html.fold_over(limit)
    changes = changes_by_kind(plan, limit)
    conflicts = conflicts_by_winner(plan, limit)
    blocked, notes = first(plan.blocked, limit), first(plan.notes, limit)
    counts = {kind: listing.total for kind, listing in changes.items()}
    yield html.summary(words.plan_summary(plan, counts))
    yield from alerts(plan)
    yield html.facts(facts(plan))
    for winner in words.WINNERS:
        title = words.conflicts_title(conflicts[winner].total, winner)
        yield html.listing(
            title, conflicts[winner], _CHANGE_COLUMNS, _conflict, fold_over=fold_over
        )
    change = partial(_change_html, held=clashing(plan))
    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(counts[kind], 'pet')}"
        yield html.listing(title, changes[kind], _CHANGE_COLUMNS, change, fold_over=fold_over)
    title = words.need_fixing(blocked.total)
    yield html.listing(title, blocked, _BLOCKED_COLUMNS, _blocked_html, fold_over=fold_over)
    yield html.listing("Notes", notes, ("", "Note"), _note, fold_over=fold_over)
    more = [listing.more for listing in changes.values()]
    more += [listing.more for listing in conflicts.values()]
    if any((*more, blocked.more, notes.more)):
        yield element("p", html.prose(words.where_to_see_all(plan)))


def _change_html(change: Change, held: Clashing) -> str:
    clash = held.get(change.row) if change.kind == "update" else None
    return _row(change.kind, of_change(change, clash))


def _conflict(conflict: Conflict) -> str:
    return _row("conflict", of_conflict(conflict))


def _blocked_html(row: Blocked) -> str:
    return _row("blocked", of_blocked(row))


def _row(kind: words.Mark, record: Record) -> str:
    return html.row(
        kind,
        table_cell(record.pet_id, kind="ps-number"),
        html.row_head(record.name) if record.name else table_cell(""),
        element("td", what(record), class_="ps-what"),
        table_cell(record.where, kind="ps-where"),
    )


def _note(note: str) -> str:
    return html.row("note", element("td", html.prose(note)))


# A plan as lines: what it comes to, what it stands on, what would be sent, what would not, why.


_SCREEN = 20
"""From so many lines of details on the sum is said again below them, where a terminal stops."""


def plan_lines(plan: Plan, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The plan with the first `limit` rows of each sort, in lines of at most `width` cells; the
    sum of it comes first.
    """
    changes = changes_by_kind(plan, limit)
    conflicts = conflicts_by_winner(plan, limit)
    others = plan.notes[1:] if release_of(plan.notes) else plan.notes
    blocked, notes = first(plan.blocked, limit), first(others, limit)
    counts = {kind: listing.total for kind, listing in changes.items()}
    summary = list(lines.paragraph(words.plan_summary(plan, counts), width, style="bold"))
    yield from summary
    yield from _guard(plan, width)
    yield from _unanswered_text(plan, limit, width)
    yield lines.BLANK
    yield from lines.facts([*words.plan_facts(plan), *words.scope_facts(plan)], width)
    partial, told = clashing(plan), 0
    parts = (
        *(change_lines(kind, changes[kind], plan, partial, width) for kind in words.KINDS),
        *(conflict_lines(winner, conflicts[winner], width) for winner in words.WINNERS),
        _blocked_text(blocked, width),
        _notes_text(notes, width),
    )
    for part in parts:
        for line in part:
            told += 1
            yield line
    more = [each.more for each in changes.values()] + [each.more for each in conflicts.values()]
    if any((*more, blocked.more, notes.more)):
        yield lines.BLANK
        yield from lines.paragraph(words.where_to_see_all(plan), width, style="dim")
    if told > _SCREEN:
        yield lines.BLANK
        yield from summary
        yield from [] if plan.verdict.ok else lines.paragraph(words.REFUSED, width, style=_ALARM)


_ALARM = f"bold {lines.STYLE['blocked']}"


def _guard(plan: Plan, width: int) -> Iterator[Text]:
    if not plan.verdict.ok:
        yield from lines.heading(words.REFUSED, width, style=_ALARM)
        for refusal in plan.verdict.refusals:
            yield from lines.item("blocked", visible(refusal.problem), width)
            yield from lines.paragraph(visible(words.way_out(refusal)), width, indent=4)
    elif release := release_of(plan.notes):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    elif plan.changes:
        yield Text(words.KEPT, "green")


def _unanswered_text(plan: Plan, limit: int | None, width: int) -> Iterator[Text]:
    failed = first(list(words.iter_unanswered(plan)), limit)
    if failed.total:
        yield from lines.heading(words.UNANSWERED, width, style=_ALARM)
    for problem, then in failed.shown:
        yield from lines.item("blocked", problem, width)
        yield from lines.paragraph(then, width, indent=4)
    yield from lines.more(failed.more)


def _blocked_text(listing: Listing[Blocked], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(words.need_fixing(listing.total), width)
    for row in listing.shown:
        yield from lines.item("blocked", visible(f"{_place_text(row)}: {row.problem}"), width)
    yield from lines.more(listing.more)


def _place_text(row: Blocked) -> str:
    name = f", {shorten(visible(row.name), _NAME)}" if row.name else ""
    return row.source if row.pet_id is None else f"{row.source} (pet {row.pet_id}{name})"


def _notes_text(listing: Listing[str], width: int) -> Iterator[Text]:
    if listing.total:
        yield from lines.heading("Notes", width)
    for note in listing.shown:
        yield from lines.item("note", visible(note), width)
    yield from lines.more(listing.more)


# What a plan's page is worked with: filters, order, pages. Hidden until its script runs.


_SORTED = (("kind", "Kind"), ("id", "Id"), ("name", "Pet"), ("", "What"), ("where", "Where"))
_SIZES = (25, 50, 100, 250)
_SIZE = 50
_STEPS = (("first", "First"), ("previous", "Previous"), ("next", "Next"), ("last", "Last"))


def tools() -> str:
    """The filters."""
    return element(
        "form",
        "".join([_kinds(), _fields(), _search()]),
        id="tools",
        class_="ps-tools",
        role="search",
        aria_label="Filter the rows",
        hidden="hidden",
    )


def head() -> str:
    """The table's head; the script makes what sorts into buttons."""
    cells = (
        element(
            "th",
            title,
            scope="col",
            role="columnheader",
            data_sort=key,
            class_=f"ps-{key or 'what'}",
        )
        for key, title in _SORTED
    )
    row = element("tr", "".join(cells), role="row")
    return element("thead", row, role="rowgroup")


def pager(place: str) -> str:
    """The buttons that turn pages; the upper ones come with how many rows there are."""
    inner = "".join(_pager(place))
    nav = element("nav", inner, aria_label=f"Pages, {place} the rows", class_="ps-pages")
    status = _status() if place == "above" else ""
    return element("div", status + nav, class_="ps-bar", hidden="hidden")


def _status() -> str:
    told = element("p", "", id="status", role="status")
    reset = element("button", "Show all", type="button", id="reset", hidden="hidden")
    return element("div", told + reset, class_="ps-status")


def _kinds() -> str:
    boxes = "".join(map(_kind, KINDS))
    return element("fieldset", element("legend", "Kind") + boxes, class_="ps-kinds")


def _kind(kind: Kind) -> str:
    box = f'<input type="checkbox" name="kind" value="{kind}">'
    name = NAMES[kind]
    sign = element("span", text(SYMBOL[kind]), class_="ps-sign", aria_hidden="true")
    count = element("span", "", class_="ps-count")
    return element("label", f"{box}{sign}{name} {count}", class_=f"ps-chip ps-{kind}")


def _fields() -> str:
    options = "".join(element("option", text(unit), value=unit) for unit in UNITS)
    select = f'<select id="field"><option value="">any</option>{options}</select>'
    return element("p", f'<label for="field">Changed field</label>{select}')


def _search() -> str:
    box = '<input type="search" id="text" autocomplete="off" spellcheck="false" '
    box += 'aria-describedby="hint">'
    hint = element("span", "id, name, value or cell", id="hint", class_="ps-hint")
    return element("p", f'<label for="text">Search {hint}</label>{box}', class_="ps-search")


def _pager(place: str) -> Iterator[str]:
    for step, title in _STEPS[:2]:
        yield _step(step, title)
    number = f'<input type="number" class="ps-page-number" id="page-{place}" min="1" value="1">'
    of = element("span", "", class_="ps-page-count")
    yield element("span", f'<label for="page-{place}">Page</label> {number} {of}')
    for step, title in _STEPS[2:]:
        yield _step(step, title)
    sizes = "".join(
        f"<option{' selected' if size == _SIZE else ''}>{size}</option>" for size in _SIZES
    )
    select = f'<select id="size-{place}" class="ps-size">{sizes}</select>'
    yield element("span", f'<label for="size-{place}">Rows a page</label> {select}')


def _step(step: str, title: str) -> str:
    return element("button", title, type="button", data_step=step)


# A plan as a page of its own: the summary first, then every row, to filter and to turn pages.
#
# What the page's script needs stands in it as JSON; without scripts the first rows of each kind
# are there all the same.


_STATIC = 20
_NOTES = 100
_TILES = {
    "conflict": ("conflict", "conflicts"),
    "blocked": ("row needs fixing", "rows need fixing"),
    "add": ("to add", "to add"),
    "update": ("to change", "to change"),
    "delete": ("to delete", "to delete"),
}
# In a `<script>` only these can end it or begin something else; JSON has another spelling for them.
_SAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def plan_page(plan: Plan) -> str:
    """The plan as a whole HTML document that loads nothing, however many rows it has."""
    rows = list(records(plan))
    title = f"Undo of {plan.source}" if plan.undoes else f"Plan for {plan.source}"
    counts: Counter[str] = Counter(KINDS[row.kind] for row in rows)
    body = "\n".join(
        [
            element("a", "Skip to the rows", class_="ps-skip", href="#rows") if rows else "",
            '<main class="petsync ps-page">',
            *_top(plan, title, counts),
            *(_details(rows) if rows else ()),
            "</main>",
            *([_data(rows)] if rows else ()),
        ]
    )
    scripts = ("marks.js", "rows.js", "plan.js") if rows else ()
    return document(body, title, styles=(html.FRAGMENT_STYLE, "plan.css"), scripts=scripts)


def _top(plan: Plan, title: str, counts: Counter[str]) -> Iterator[str]:
    yield "<header>"
    yield element("p", "petsync plan", class_="ps-kicker")
    yield element("h1", bdi(title))
    yield html.summary(words.plan_summary(plan, counts))
    yield "</header>"
    yield element("ul", "".join(_tiles(counts)), class_="ps-tiles")
    yield from alerts(plan)
    yield _facts(plan)
    if plan.notes:
        yield _notes_page(plan.notes)


def _tiles(counts: Counter[str]) -> Iterator[str]:
    """How many of each kind; each leads to its rows."""
    for kind in KINDS:
        total = counts[kind]
        if not total and kind in ("conflict", "blocked"):
            continue
        inner = element("strong", words.number(total)) + f" {_TILES[kind][total != 1]}"
        inner = element("a", inner, href=f"#kind={kind}") if total else element("span", inner)
        yield element("li", inner, class_=f"ps-{kind}")


def _facts(plan: Plan) -> str:
    pairs = (
        element("div", element("dt", text(name)) + element("dd", bdi(value)))
        for name, value in facts(plan)
    )
    return element("dl", "".join(pairs), class_="ps-about")


def _notes_page(notes: Sequence[str]) -> str:
    items = [element("li", prose(note)) for note in notes[:_NOTES]]
    if len(notes) > _NOTES:
        items.append(element("li", f"and {words.number(len(notes) - _NOTES)} more"))
    inner = element("h2", "Notes", id="notes") + element("ul", "".join(items))
    return element("section", inner, class_="ps-notes", aria_labelledby="notes")


def _details(rows: Sequence[Record]) -> Iterator[str]:
    shown = list(_first(rows))
    yield '<section aria-labelledby="rows" class="ps-rows">'
    yield element("h2", "Row by row", id="rows", tabindex="-1")
    yield tools()
    yield _without_script(len(shown), len(rows))
    yield pager("above")
    yield '<table role="table" aria-labelledby="rows" id="table" class="ps-table">'
    yield head()
    yield f'<tbody role="rowgroup">{_static_rows(shown)}</tbody></table>'
    yield pager("below")
    yield "</section>"


def _first(rows: Iterable[Record]) -> Iterator[Record]:
    seen: Counter[int] = Counter()
    for row in rows:
        seen[row.kind] += 1
        if seen[row.kind] <= _STATIC:
            yield row


def _static_rows(shown: Sequence[Record]) -> str:
    """The rows; the first of each kind is where its tile leads to."""
    firsts = {row.kind: n for n, row in reversed(list(enumerate(shown)))}
    lines = [page_row(row) for row in shown]
    for kind, n in firsts.items():
        lines[n] = lines[n].replace("<tr ", f'<tr id="kind={KINDS[kind]}" ', 1)
    return "\n".join(lines)


def _without_script(shown: int, total: int) -> str:
    some = (
        f"These are the first rows of each kind, {words.number(shown)} of {words.number(total)}. "
        "The rest needs JavaScript, which this page runs without a network; or save the plan as "
        "a workbook: petsync plan -o plan.xlsx."
    )
    every = "To filter and sort the rows needs JavaScript, which this page runs without a network."
    return element("noscript", element("p", text(every if shown == total else some)))


def _data(rows: Sequence[Record]) -> str:
    about = {
        "kinds": [[kind, words.SYMBOL[kind], NAMES[kind]] for kind in KINDS],
        "units": UNITS,
        "rows": rows,
    }
    body = msgspec.json.encode(about).decode().translate(_SAFE)
    return f'<script type="application/json" id="data">{body}</script>'


# A plan's numbers as a few aligned lines.


def summary_lines(summary: Summary, *, width: int = 80) -> Iterator[Text]:
    """The numbers, each with what it counts, and what they are made up of."""
    rows = [(name, words.number(total), said) for name, total, said in summary_rows(summary)]
    names = max(cell_len(name) for name, _, _ in rows)
    column = max(len(total) for _, total, _ in rows)
    yield Text("petsync plan, in numbers", "bold")
    for name, total, said in rows:
        start = f"  {name:<{names}}  {total:>{column}}"
        style = "dim" if total == "0" else ""
        room = width - len(start) - 2
        for n, line in enumerate(lines.paragraph(said, room) if said else [Text()]):
            yield Text.assemble((start if n == 0 else " " * len(start), style), "  ", line)
    yield lines.BLANK
    yield Text(words.KEPT if summary.ok else f"{words.REFUSED}.", "" if summary.ok else "bold red")


def summary_rows(summary: Summary) -> Iterator[tuple[str, int, str]]:
    """What is counted, how often, and what of that there is to say."""
    yield "to add", summary.adds, ""
    yield "to change", summary.updates, words.fields_changed(summary)
    yield "to delete", summary.deletes, ""
    decided = summary.conflicts - summary.open_conflicts
    won = f"{words.number(decided)} that the sheet wins" if decided else ""
    yield "conflicts", summary.conflicts, won
    yield "needs fixing", summary.blocked, "errors in the sheet" if summary.blocked else ""
    agreeing = "as before" if summary.undoes else "in agreement"
    yield agreeing, summary.unchanged - summary.older - summary.gone, ""
    older = "not edited since the export, and the store has something newer"
    own = summary.older - summary.set_back
    yield "older", own, older if own else ""
    if summary.set_back:
        yield "set back", summary.set_back, "not edited since the export, and as an undo left them"
    gone = "not edited since the export, and the pet is not there any more"
    own = summary.gone - summary.taken_away
    yield "gone", own, gone if own else ""
    if summary.taken_away:
        away = "not edited since the export, and an undo took the pets away"
        yield "taken away", summary.taken_away, away
    yield "ignored", summary.ignored, ""
    yield "left out", summary.left_out, "by a selection" if summary.left_out else ""
    rows = f"that run {summary.undoes} changed" if summary.undoes else "of the sheet"
    yield "pets" if summary.undoes else "rows", summary.rows, rows
    yield "pets", summary.pets, "in the store"
