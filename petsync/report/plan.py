"""A plan as text, HTML and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from rich.cells import cell_len
from rich.text import Text

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Blocked, Change, Clash, Conflict, release_of
from petsync.plan.fields import cell, normalize
from petsync.plan.guard import Refusal
from petsync.plan.plan import Inbound, Plan, Summary
from petsync.plan.rounds import SheetChange
from petsync.report import html, words
from petsync.report import text as lines
from petsync.report.document import UNITS, Field, Record, Records, RowKind, Value, fold_limit
from petsync.report.html import (
    bdi,
    document,
    element,
    prose,
    record_html,
    table_cell,
    text,
    two_columns,
)
from petsync.report.textdiff import (
    Cell,
    Detail,
    SideBySide,
    details,
    fit_texts,
    fold_items,
    items,
    mark_differences,
    shorten_common,
    tag_differences,
    traits,
)
from petsync.report.words import (
    ClashesByRow,
    Listing,
    changes_by_kind,
    clashes_by_row,
    conflicts_by_winner,
    first,
    quote_text,
    shorten,
)
from petsync.table.cells import format_tags, make_visible
from petsync.table.columns import Column

__all__ = [
    "KINDS",
    "NAMES",
    "ROW_KINDS",
    "Kind",
    "alerts",
    "change_lines",
    "conflict_lines",
    "facts",
    "intake_lines",
    "of_blocked",
    "of_change",
    "of_conflict",
    "of_sheet_change",
    "one_change",
    "plan_html",
    "plan_lines",
    "plan_page",
    "record_text",
    "records",
    "summary_rows",
]


# The changes of a plan as lines: pet by pet, field by field.


_INDENT = 6
_ARROW_TEXT = " -> "
_MAX_LINE_ITEMS = 12
_STYLES = (lines.OLD_STYLE, lines.NEW_STYLE)


def change_lines(
    kind: words.Kind, listing: Listing[Change], plan: Plan, conflicts: ClashesByRow, width: int
) -> Iterator[Text]:
    """Yield the shown changes of one kind, under a heading that counts all of them. If not all
    updates are shown, also yield the number of changes of each field.
    """
    if not listing.total:
        return
    yield from lines.heading(f"{words.HEADING[kind]} {words.count(listing.total, 'pet')}", width)
    if kind == "update" and listing.more:
        field_counts = words.format_changed_fields(plan.summary())
        yield from lines.paragraph(field_counts, width, indent=2, style="dim")
    numbers = _numbers(listing.shown)
    for number, change in zip(numbers, listing.shown, strict=True):
        yield from _change_text(number, change, width)
        if change.kind == "update" and change.row in conflicts:
            yield from _clash_note(conflicts[change.row], width)
    yield from lines.more(listing.more)


def one_change(change: Change, width: int) -> Iterator[Text]:
    """Yield one change: the pet, and the difference in each field."""
    yield from _change_text(_numbers([change])[0], change, width)


def _numbers(changes: Sequence[Change]) -> list[str]:
    """Return the ids, aligned at the right."""
    numbers = ["new" if c.pet_id is None else str(c.pet_id) for c in changes]
    column = max(map(len, numbers), default=0)
    return [number.rjust(column) for number in numbers]


def _change_text(number: str, change: Change, width: int) -> Iterator[Text]:
    pet = words.pet_of(change)
    yield lines.spread_item(change.kind, number, words.name_of(pet), words.source_of(change), width)
    if change.kind == "update":
        for detail in details(change):
            yield from _detail(detail, width)
    elif traits_text := traits(pet):
        yield from lines.paragraph(traits_text, width, indent=_INDENT)


def _clash_note(conflict: Conflict, width: int) -> Iterator[Text]:
    text = words.describe_clashes(conflict)
    yield from lines.paragraph(text, width, indent=_INDENT, style=lines.STYLE["conflict"])


def _detail(detail: Detail, width: int) -> Iterator[Text]:
    label = f"{detail.column}: "
    if detail.removed or detail.added:
        yield from lines.flow(
            label, _items_text(detail, width - _INDENT - len(label)), width, indent=_INDENT
        )
        return
    if detail.orders:
        yield from _order_lines(detail, width)
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


def _order_lines(detail: Detail, width: int) -> Iterator[Text]:
    """Yield both orders of a list, with each item on a separate line."""
    label = f"{detail.column}: "
    for side, style, order in zip(("before", "after"), _STYLES, detail.orders, strict=True):
        start = f"{' ' * _INDENT}{label}{side:<8}"
        for line in fold_items(order, width - len(start)):
            yield Text.assemble(start, (line, style))
            start = " " * len(start)
        label = " " * len(label)


def _colour_differences(before: str, after: str) -> tuple[Text, Text]:
    old, new = mark_differences(before, after)
    return lines.style_pieces(old, lines.OLD_STYLE), lines.style_pieces(new, lines.NEW_STYLE)


def _items_text(detail: Detail, room: int) -> Iterator[Text]:
    items = [
        *((f"+{item}", lines.NEW_STYLE) for item in detail.added),
        *((f"-{item}", lines.OLD_STYLE) for item in detail.removed),
    ]
    shown = items[:_MAX_LINE_ITEMS]
    long = [item for item, _ in shown if cell_len(item) > room]
    short = dict(zip(long, fit_texts(long, room), strict=True))
    for item, style in shown:
        yield Text(short.get(item, item), style)
    if len(items) > _MAX_LINE_ITEMS:
        yield Text(f"and {words.number(len(items) - _MAX_LINE_ITEMS)} more")


# The conflicts of a plan as lines: the values in export, sheet and store, side by side.


_LABEL = 12
_NAME = 30
"""The maximum number of cells of a pet's name."""
_SIDES_CONFLICT_TEXT = ("exported", "sheet", "store")
_WINS_CONFLICT_TEXT: Mapping[words.Winner, Mapping[str, str]] = {
    "": {},
    "store": {"store": "store (stays)"},
    "sheet": {"sheet": "sheet (sent)"},
}


def conflict_lines(winner: words.Winner, listing: Listing[Conflict], width: int) -> Iterator[Text]:
    """Yield the shown conflicts with this winner, under a heading that counts all of them."""
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
            problem = words.sentences(conflict.problem, conflict.suggestion)
            yield from lines.item(
                "conflict", make_visible(f"{_place_conflict_text(conflict)} {problem}"), width
            )
            continue
        yield from lines.item("conflict", make_visible(_source_and_pet(conflict)), width)
        for clash in conflict.clashes:
            values = _values(clash)
            if not is_headed and table.fits(values):
                yield Text.assemble(" " * (_INDENT + _LABEL), table.head)
                is_headed = True
            for n, line in enumerate(table.lines(values, styles)):
                label = clash.column if n == 0 else ""
                yield Text.assemble(f"{' ' * _INDENT}{label:<{_LABEL}}", line)
            if clash.refused:
                note = f"The sheet's value is not sent: {make_visible(clash.refused)}."
                yield from lines.paragraph(note, width, indent=_INDENT + _LABEL)
    yield from lines.more(listing.more)


def _source_and_pet(conflict: Conflict) -> str:
    """Format the address and the pet: `Pets!B18 (pet 17, Bella)`."""
    name = f", {shorten(make_visible(conflict.name), _NAME)}" if conflict.name else ""
    pet = f"pet {conflict.pet_id}{name}"
    return f"{conflict.source} ({pet})" if conflict.source else pet


def _place_conflict_text(conflict: Conflict) -> str:
    """Return the conflict's address, and its pet or name."""
    if conflict.pet_id is not None or not conflict.source:
        return _source_and_pet(conflict)
    name = shorten(make_visible(conflict.name), _NAME)
    return f"{conflict.source} ({name})" if name else conflict.source


def _values(clash: Clash) -> list[Cell]:
    return [items(clash.column, text) for text in (clash.base, clash.sheet, clash.store)]


# Changes from the store for a sheet, as lines and as text.


_ALL = (
    "To see all of them: `petsync apply` with `--limit 0`; the report of the round has them, too."
)
_SHEET_CHANGE_WORDS = {"add": "new row", "update": "", "delete": "row goes"}


def intake_lines(inbound: Inbound, *, width: int = 80, limit: int | None = 20) -> Iterator[Text]:
    """Yield the numbers of rows that are added, changed and removed in the sheet, and the first
    `limit` changes.
    """
    counts, rows = inbound.counts, inbound.changes
    yield from lines.paragraph(f"For the sheet {inbound.source}", width, style="bold")
    yield from lines.paragraph(f"from {inbound.store}", width)
    counts_text = (
        f"{counts.update:,} rows changed, {counts.add:,} added, {counts.delete:,} removed."
    )
    yield from lines.heading(counts_text, width)
    if release := release_of([note.problem for note in inbound.notes[:1]]):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    for change in islice(rows, limit):
        yield from lines.item(change.kind, _line(change), width)
    remaining = 0 if limit is None else max(0, len(rows) - limit)
    yield from lines.more(remaining)
    if remaining:
        yield from lines.paragraph(_ALL, width, style="dim")


def _line(change: SheetChange) -> str:
    place = change.address or _SHEET_CHANGE_WORDS[change.kind]
    head = f"{place}: pet {change.pet_id} {make_visible(change.name)}".rstrip()
    if change.kind == "update":
        each = [f"{c} {quote_text(a)} -> {quote_text(b)}" for c, (a, b) in change.values.items()]
        return f"{head}: {', '.join(each)}"
    return f"{head} ({_SHEET_CHANGE_WORDS[change.kind]})" if change.address else head


# A plan's rows as the plain values of a page: compact, visible, of limited length.
#
# Each change, conflict or blocked row is one record. The static rows of the page and the rows that
# its script makes come from the same records.


Kind = words.Mark
KINDS: tuple[Kind, ...] = ("conflict", "blocked", "add", "update", "delete")
"""The kinds in the order of a page: those that need attention come first."""
NAMES: Mapping[Kind, str] = {
    "conflict": "Conflict",
    "blocked": "Needs fixing",
    "add": "Add",
    "update": "Change",
    "delete": "Delete",
}
ROW_KINDS = [RowKind(kind, NAMES[kind], kind) for kind in KINDS]
_NUMBER = {unit: n for n, unit in enumerate(UNITS)}
_MAX_CELLS = 500
_NARROW_LENGTH = _MAX_CELLS // 2
_MAX_CHARACTERS = 2 * _MAX_CELLS
"""The maximum number of characters that are shown: thousands of combining accents take seconds to
draw.
"""
_MAX_VALUE_ITEMS = 50


def records(plan: Plan) -> Iterator[Record]:
    """Yield the record of every row of the plan, in the order of `KINDS`."""
    yield from map(of_conflict, plan.conflicts)
    yield from map(of_blocked, plan.blocked)
    clashes = clashes_by_row(plan)
    for change in plan.changes:
        yield of_change(change, clashes.get(change.row) if change.kind == "update" else None)


def of_change(change: Change, clash: Conflict | None = None) -> Record:
    """Return the record of a change; `clash` is a conflict of its row."""
    pet = words.pet_of(change)
    return Record(
        KINDS.index(change.kind),
        "new" if change.pet_id is None else str(change.pet_id),
        record_text(pet.name or "(no name)"),
        record_text(words.source_of(change)),
        tuple(_iter_changed_fields(change) if change.kind == "update" else _iter_pet_fields(pet)),
        "" if clash is None else f"{words.capital(words.describe_clashes(clash))}.",
    )


def of_conflict(conflict: Conflict) -> Record:
    """Return the record of a conflict."""
    return Record(
        KINDS.index("conflict"),
        "" if conflict.pet_id is None else str(conflict.pet_id),
        record_text(conflict.name),
        record_text(conflict.source),
        tuple(map(_clash_field, conflict.clashes)),
        record_text(_conflict_problem(conflict)),
        record_text(conflict.suggestion),
        conflict.winner,
    )


def of_blocked(row: Blocked) -> Record:
    """Return the record of a blocked row."""
    return Record(
        KINDS.index("blocked"),
        "" if row.pet_id is None else str(row.pet_id),
        record_text(row.name),
        record_text(row.source),
        message=record_text(row.problem),
    )


def of_sheet_change(change: SheetChange) -> Record:
    """Return the record of a change for the sheet."""
    fields = {_unit(column): texts for column, texts in change.values.items() if column != "id"}
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
    )


def _conflict_problem(conflict: Conflict) -> str:
    if conflict.clashes:
        return "Changed in the sheet and in the store since the export."
    return words.sentences(words.capital(f"{conflict.subject} {conflict.problem}"))


def _clash_field(clash: Clash) -> Field:
    # The items, which are on separate lines, are joined into one line with " | ".
    texts = (text.replace("\n", " | ") for text in (clash.base, clash.sheet, clash.store))
    base, sheet, store = map(_text_value, texts)
    return _unit(clash.column), base, sheet, store


def _iter_changed_fields(change: Change) -> Iterator[Field]:
    before, after = change.before or Pet(), change.after or Pet()
    for unit in sorted({_unit(column) for column in change.fields if column != "id"}):
        column = UNITS[unit]
        if column == "tags":
            yield unit, *_tag_values(tag_differences(before.tags, after.tags))
        elif column == "photo_urls":
            yield _photo_field(unit, before.photo_urls, after.photo_urls)
        else:
            yield unit, *_pair(_scalar(before, column), _scalar(after, column))


def _iter_pet_fields(pet: Pet) -> Iterator[Field]:
    """Yield the pet's fields besides its name, for an add or a delete."""
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
    return unit, *_pair(" | ".join(before), " | ".join(after))


def _tag_values(tags: tuple[Sequence[Tag], Sequence[Tag]]) -> tuple[Value, Value]:
    added, removed = tags
    labels = _labels([*added, *removed])
    return _items_value(labels[: len(added)]), _items_value(labels[len(added) :])


def _labels(tags: Sequence[Tag]) -> list[str]:
    """Return the tags by name, with their id if two have the same name."""
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
    """Return the visible value, in quotes if its whitespace could mislead; "" stays ""."""
    return quote_text(text) if text else ""


def record_text(text: str) -> str:
    """Return the visible text of a record, shortened so that a page with many rows stays small."""
    return _shorten(make_visible(text))


def _shorten(text: str) -> str:
    # No character takes more than two cells, so short texts need not be measured.
    if len(text) <= _NARROW_LENGTH:
        return text
    short = shorten(text, _MAX_CELLS)
    most = _MAX_CHARACTERS // 2
    return short if len(short) <= _MAX_CHARACTERS else f"{short[:most]}...{short[-most:]}"


def _unit(column: Column) -> int:
    return _NUMBER["category" if column == "category_id" else column]


# The top of a plan's HTML: alerts and facts.


def alerts(plan: Plan) -> Iterator[str]:
    """Yield the guard's verdict, and the queries that the store did not answer."""
    if not plan.verdict.ok:
        refusals = map(_refusal, plan.verdict.refusals)
        yield html.alert(words.PLAN_REFUSED, refusals, kind="ps-refused")
    if plan.coverage.failed:
        yield html.alert(
            words.UNANSWERED_TITLE, map(_unanswered_alert, words.iter_unanswered(plan))
        )
    if plan.verdict.ok and (release := release_of(plan.notes)):
        yield html.alert("Released by the person who applies it", [prose(release)])
    elif plan.verdict.ok and plan.changes:
        yield element("p", text(words.LIMITS_KEPT), class_="ps-kept")


def facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield names and values: store, sheet, time, and the pets that the plan covers."""
    yield from words.plan_facts(plan)
    yield from words.scope_facts(plan)


def _refusal(refusal: Refusal) -> str:
    cure = words.refusal_cure(refusal)
    if refusal.override:
        cure = cure.replace(refusal.override, f"`{refusal.override}`")
    return f"{prose(words.sentences(words.capital(refusal.problem)))} {prose(cure)}"


def _unanswered_alert(question: tuple[str, str]) -> str:
    problem, consequence = question
    first = element("strong", text(words.sentences(words.capital(problem))))
    return f"{first} {prose(consequence)}"


# A plan as HTML.


_CHANGE_COLUMNS = ("", "Id", "Pet", "What", "Where")
_BLOCKED_COLUMNS = ("", "Id", "Pet", "Problem", "Where")


def plan_html(plan: Plan, *, limit: int | None = 20) -> str:
    """Return the plan as HTML, with the first `limit` rows of each kind, all if it is None."""
    return html.fragment(_parts(plan, limit))


def _parts(plan: Plan, limit: int | None) -> Iterator[str]:
    fold_over = fold_limit(limit)
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
    change = partial(_change_html, conflicts=clashes_by_row(plan))
    for kind in words.KINDS:
        title = f"{words.HEADING[kind]} {words.count(counts[kind], 'pet')}"
        yield html.listing(title, changes[kind], _CHANGE_COLUMNS, change, fold_over=fold_over)
    title = words.format_need_fixing(blocked.total)
    yield html.listing(title, blocked, _BLOCKED_COLUMNS, _blocked_html, fold_over=fold_over)
    yield html.listing("Notes", notes, ("", "Note"), _note, fold_over=fold_over)
    hidden_counts = [listing.more for listing in changes.values()]
    hidden_counts += [listing.more for listing in conflicts.values()]
    if any((*hidden_counts, blocked.more, notes.more)):
        yield element("p", html.prose(words.where_to_see_all(plan)))


def _change_html(change: Change, conflicts: ClashesByRow) -> str:
    clash = conflicts.get(change.row) if change.kind == "update" else None
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
        element("td", record_html(record), class_="ps-what"),
        table_cell(record.where, kind="ps-where"),
    )


def _note(note: str) -> str:
    return html.row("note", element("td", html.prose(note)))


# A plan as lines: summary, facts, changes, conflicts, blocked rows, notes.


_SCREEN_LINES = 20
"""If there are more lines of details than this, the summary is repeated at the end."""


def plan_lines(plan: Plan, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """Yield the plan in lines of at most `width` cells, with the first `limit` rows of each kind;
    the summary comes first.
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
    conflicts_by_row, line_count = clashes_by_row(plan), 0
    parts = (
        *(change_lines(kind, changes[kind], plan, conflicts_by_row, width) for kind in words.KINDS),
        *(conflict_lines(winner, conflicts[winner], width) for winner in words.WINNERS),
        _blocked_text(blocked, width),
        _notes_text(notes, width),
    )
    for part in parts:
        for line in part:
            line_count += 1
            yield line
    hidden_counts = [each.more for each in changes.values()] + [
        each.more for each in conflicts.values()
    ]
    if any((*hidden_counts, blocked.more, notes.more)):
        yield lines.BLANK
        yield from lines.paragraph(words.where_to_see_all(plan), width, style="dim")
    if line_count > _SCREEN_LINES:
        yield lines.BLANK
        yield from summary
        yield from (
            []
            if plan.verdict.ok
            else lines.paragraph(words.PLAN_REFUSED, width, style=_ALARM_STYLE)
        )


_ALARM_STYLE = f"bold {lines.STYLE['blocked']}"


def _guard(plan: Plan, width: int) -> Iterator[Text]:
    if not plan.verdict.ok:
        yield from lines.heading(words.PLAN_REFUSED, width, style=_ALARM_STYLE)
        for refusal in plan.verdict.refusals:
            yield from lines.item("blocked", make_visible(refusal.problem), width)
            yield from lines.paragraph(make_visible(words.refusal_cure(refusal)), width, indent=4)
    elif release := release_of(plan.notes):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    elif plan.changes:
        yield Text(words.LIMITS_KEPT, "green")


def _unanswered_text(plan: Plan, limit: int | None, width: int) -> Iterator[Text]:
    failed = first(list(words.iter_unanswered(plan)), limit)
    if failed.total:
        yield from lines.heading(words.UNANSWERED_TITLE, width, style=_ALARM_STYLE)
    for problem, consequence in failed.shown:
        yield from lines.item("blocked", problem, width)
        yield from lines.paragraph(consequence, width, indent=4)
    yield from lines.more(failed.more)


def _blocked_text(listing: Listing[Blocked], width: int) -> Iterator[Text]:
    if not listing.total:
        return
    yield from lines.heading(words.format_need_fixing(listing.total), width)
    for row in listing.shown:
        yield from lines.item("blocked", make_visible(f"{_place_text(row)}: {row.problem}"), width)
    yield from lines.more(listing.more)


def _place_text(row: Blocked) -> str:
    name = f", {shorten(make_visible(row.name), _NAME)}" if row.name else ""
    return row.source if row.pet_id is None else f"{row.source} (pet {row.pet_id}{name})"


def _notes_text(listing: Listing[str], width: int) -> Iterator[Text]:
    if listing.total:
        yield from lines.heading("Notes", width)
    for note in listing.shown:
        yield from lines.item("note", make_visible(note), width)
    yield from lines.more(listing.more)


# A plan as a page: the summary first, then every row, with filters and pages.
#
# The page contains the data of its script as JSON; without scripts, it shows the first rows of each
# kind.


_ADVICE = "save the plan as a workbook: petsync plan -o plan.xlsx."
_MAX_NOTES = 100
_TILES = {
    "conflict": ("conflict", "conflicts"),
    "blocked": ("row needs fixing", "rows need fixing"),
    "add": ("to add", "to add"),
    "update": ("to change", "to change"),
    "delete": ("to delete", "to delete"),
}


def plan_page(plan: Plan) -> str:
    """Return the plan as a complete HTML document that loads nothing, however many rows it has."""
    rows = list(records(plan))
    title = f"Undo of {plan.source}" if plan.undoes else f"Plan for {plan.source}"
    counts: Counter[str] = Counter(KINDS[row.kind] for row in rows)
    body = "\n".join(
        [
            element("a", "Skip to the rows", class_="ps-skip", href="#rows") if rows else "",
            '<main class="petsync ps-page">',
            *_top(plan, title, counts),
            html.records_html(Records("Kind", ROW_KINDS, rows, _ADVICE)) if rows else "",
            "</main>",
        ]
    )
    return document(body, title, scripts=html.TABLE_SCRIPTS if rows else ())


def _top(plan: Plan, title: str, counts: Counter[str]) -> Iterator[str]:
    yield "<header>"
    yield element("p", "petsync plan", class_="ps-kicker")
    yield element("h1", bdi(title))
    yield html.summary(words.plan_summary(plan, counts))
    yield "</header>"
    yield element("ul", "".join(_tiles(counts)), class_="ps-tiles")
    yield from alerts(plan)
    yield two_columns(facts(plan))
    if plan.notes:
        yield _notes_page(plan.notes)


def _tiles(counts: Counter[str]) -> Iterator[str]:
    """Yield the number of rows of each kind, each with a link to its rows."""
    for kind in KINDS:
        total = counts[kind]
        if not total and kind in ("conflict", "blocked"):
            continue
        inner = element("strong", words.number(total)) + f" {_TILES[kind][total != 1]}"
        inner = element("a", inner, href=f"#kind={kind}") if total else element("span", inner)
        yield element("li", inner, class_=f"ps-{kind}")


def _notes_page(notes: Sequence[str]) -> str:
    items = [element("li", prose(note)) for note in notes[:_MAX_NOTES]]
    if len(notes) > _MAX_NOTES:
        items.append(element("li", f"and {words.number(len(notes) - _MAX_NOTES)} more"))
    inner = element("h2", "Notes", id="notes") + element("ul", "".join(items))
    return element("section", inner, class_="ps-notes", aria_labelledby="notes")


# A plan's numbers.


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
    yield "pets", summary.pets, "in the store"
