"""Reports as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from petsync.plan.change import Blocked, Change, Clash, Conflict
from petsync.plan.plan import Plan
from petsync.report import words
from petsync.report.textdiff import Detail, details, fit_texts, items, traits
from petsync.report.words import changes_by_kind, conflicts_by_winner, first, shorten
from petsync.table.cells import make_visible

__all__ = ["code", "plan_markdown", "prose", "table"]


# Text that stays text in Markdown: no name becomes a link, an image, HTML, a mention, the edge of a
# table or a fence, in CommonMark, on GitHub or in a chat.
#
# Backslashes are not enough: GitHub turns `@team`, `#12` and URLs into links after it has removed
# them. In code spans it does not.


_PLAIN = re.compile(
    r"""["'(]*(?:[^\W\d_]+(?:['-][^\W\d_]+)*|[0-9]{1,3}(?:,[0-9]{3})*|[0-9]{1,6}"""
    r"""|[0-9]{4}(?:-[0-9]{2}){2}|[0-9]{2}(?::[0-9]{2}){2}|%)["')]*[.,;:!?]*""",
)
_COMMIT = re.compile(r"[0-9a-f]{7,40}\W*", re.IGNORECASE)
_NUMBERED = re.compile(r"[0-9]+[.)]+")
_PUNCTUATION = re.compile(r"""(["'(]*)(.*?)([)"'.,;:!?]*)""", re.DOTALL)
_CODE_SPAN = re.compile(r"""((?:^|(?<= ))["'(]*`[^`]+`[)"'.,;:!?]*(?= |$))""")
_MAX_CELLS = 300


def code(text: str, width: int = _MAX_CELLS, *, in_table: bool = True) -> str:
    """Return the text as a code span, shortened to `width` cells; "" for no text."""
    shown = shorten(make_visible(text), width)
    if not shown:
        return ""
    ticks = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (ticks + 1)
    is_edgy = shown[0] == "`" or shown[-1] == "`" or (shown[0] == shown[-1] == " ")
    pad = " " if is_edgy and shown.strip(" ") else ""
    return fence + pad + (_escape_bars(shown) if in_table else shown) + pad + fence


def prose(text: str, *, in_table: bool = True) -> str:
    """Return a sentence: plain words stay, other parts become code spans. A part between backticks
    is one span; brackets and punctuation around it stay outside.
    """
    pieces = _CODE_SPAN.split(shorten(make_visible(text), _MAX_CELLS))
    return "".join(
        _span(piece, in_table) if n % 2 else " ".join(_mark_words(piece, in_table, is_first=n == 0))
        for n, piece in enumerate(pieces)
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; titles and cells are Markdown already."""
    yield _line(titles)
    yield _line(["---"] * len(titles))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark_words(text: str, in_table: bool, *, is_first: bool) -> Iterator[str]:
    """Yield the words of the text; consecutive words that are not plain become one span."""
    words = text.split(" ")
    marked_words = [
        (word, _is_plain(word, is_first=is_first and n == 0)) for n, word in enumerate(words)
    ]
    for is_plain, group in groupby(marked_words, key=lambda pair: pair[1]):
        group_words = [word for word, _ in group]
        if is_plain:
            yield " ".join(group_words)
            continue
        start = 0
        for n, word in enumerate(group_words, 1):
            if (
                n == len(group_words)
                or _split_punctuation(word)[2]
                or _split_punctuation(group_words[n])[0]
            ):
                yield _span(" ".join(group_words[start:n]), in_table)
                start = n


def _span(text: str, in_table: bool) -> str:
    """Return the text as a code span, without the punctuation around it."""
    lead, core, trail = _split_punctuation(text)
    if len(core) > 2 and core[0] == core[-1] == "`" and "`" not in core[1:-1]:
        core = core[1:-1]
    return f"{lead}{code(core, in_table=in_table)}{trail}"


def _split_punctuation(text: str) -> tuple[str, str, str]:
    """Return the opening quotes and brackets, the text, and the closing ones with punctuation."""
    match = _PUNCTUATION.fullmatch(text)
    lead, core, trail = match.groups() if match else ("", text, "")
    if not core:
        return "", text, ""
    # A closing bracket belongs to the text if the opening one does.
    core_end = trail.index(")") + 1 if ")" in trail and "(" in core else 0
    return lead, core + trail[:core_end], trail[core_end:]


def _is_plain(word: str, *, is_first: bool) -> bool:
    if _COMMIT.fullmatch(word) or (is_first and _NUMBERED.fullmatch(word)):
        return False
    return not word or _PLAIN.fullmatch(word) is not None


def _escape_bars(shown: str) -> str:
    r"""Return the text with its bars escaped for a table. Markdown readers disagree on a bar after
    a backslash, `\\|`, so that bar is written as [U+007C].
    """
    return shown.replace("\\|", "\\[U+007C]").replace("|", "\\|")


# A plan as Markdown, for a pull request or a chat.


LONGEST = 60_000
"""The maximum number of characters: a comment on GitHub holds 65,536."""
_FOLD_OVER = 10
_NAME, _VALUE, _WHERE = 60, 100, 40
_MAX_ITEMS = 8
_MAX_ALERTS = 10
_FOOTER_LENGTH = 300
Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class _Part:
    """A section: a table under a title."""

    title: str
    columns: Row
    rows: Iterator[Sequence[Row]]
    """For each item, its rows of the table."""
    total: int
    """The number of all items."""


_TOO_LONG = "A comment cannot be longer. To see all: `petsync plan` with `-o plan.html` or .xlsx."


def plan_markdown(plan: Plan, *, limit: int | None = 100) -> str:
    """Return the plan with the first `limit` rows of each kind (None: as many as fit), in at most
    60,000 characters, and with the number of rows left out.
    """
    head = "\n".join(_head(plan))
    room = LONGEST - len(head) - _FOOTER_LENGTH
    parts = [part for part in _parts(plan, limit) if part.total]
    blocks, left_out = [head], 0
    for n, part in enumerate(parts):
        block, shown = _section(part, room // (len(parts) - n))
        room -= len(block) + 2
        left_out += part.total - shown
        blocks.append(block)
    if left_out:
        where = _TOO_LONG if limit is None else words.where_to_see_all(plan)
        blocks.append(f"{words.number(left_out)} more are not shown. {where}")
    return "\n\n".join(blocks) + "\n"


def _head(plan: Plan) -> Iterator[str]:
    counts = {kind: listing.total for kind, listing in changes_by_kind(plan, 0).items()}
    yield f"## {words.plan_summary(plan, counts)}"
    if not plan.verdict.ok:
        refusals = ((each.problem, words.refusal_cure(each)) for each in plan.verdict.refusals)
        yield from _alert(f"{words.PLAN_REFUSED}.", refusals)
    elif plan.changes:
        yield from ("", words.LIMITS_KEPT)
    if plan.coverage.failed:
        yield from _alert(f"{words.UNANSWERED_TITLE}.", words.iter_unanswered(plan))
    yield ""
    facts = [*words.plan_facts(plan), *words.scope_facts(plan), ("fingerprint", plan.fingerprint)]
    yield from table(("", ""), ((name, prose(value)) for name, value in facts))


def _alert(title: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    listing = first(list(rows), _MAX_ALERTS)
    yield from ("", f"> **{title}**", ">")
    for problem, consequence in listing.shown:
        text = words.sentences(problem, consequence)
        yield f"> - {prose(text, in_table=False)}"
    if listing.more:
        yield f"> - and {words.number(listing.more)} more"


def _parts(plan: Plan, limit: int | None) -> Iterator[_Part]:
    changes, conflicts = changes_by_kind(plan, limit), conflicts_by_winner(plan, limit)
    for kind in words.KINDS:
        listing = changes[kind]
        title = f"{words.HEADING[kind]} {words.count(listing.total, 'pet')}"
        update = kind == "update"
        columns = ("id", "pet", "field", "before", "after", "where") if update else _WHOLE_COLUMNS
        rows = map(_update if update else _whole_rows, listing.shown)
        yield _Part(title, columns, rows, listing.total)
    for winner in words.WINNERS:
        clashes = conflicts[winner]
        title = words.conflicts_title(clashes.total, winner)
        yield _Part(
            title,
            _CLASH_COLUMNS if winner else _OPEN_COLUMNS,
            map(_conflict, clashes.shown),
            clashes.total,
        )
    blocked, notes = first(plan.blocked, limit), first(plan.notes, limit)
    title = words.format_need_fixing(blocked.total)
    yield _Part(
        title,
        ("where", "id", "pet", "problem"),
        map(_build_blocked_rows, blocked.shown),
        blocked.total,
    )
    yield _Part("Notes", ("note",), ([(prose(note),)] for note in notes.shown), notes.total)


_WHOLE_COLUMNS = ("id", "pet", "what", "where")
_OPEN_COLUMNS = ("where", "id", "pet", "problem")
_CLASH_COLUMNS = ("where", "id", "pet", "field", "exported", "sheet", "store")


def _section(part: _Part, room: int) -> tuple[str, int]:
    """Return the section in at most `room` characters, and the number of items shown in it."""
    start = list(table(part.columns, ()))
    rows, shown = [], 0
    room -= sum(map(len, start)) + len(part.title) + _FOOTER_LENGTH
    for group in part.rows:
        lines = list(table(part.columns, group))[2:]
        room -= sum(len(line) + 1 for line in lines)
        if room < 0:
            break
        rows += lines
        shown += 1
    more = part.total - shown
    tail = ["", f"... and {words.number(more)} more"] if more else []
    body = "\n".join([*start, *rows, *tail])
    if len(rows) <= _FOLD_OVER:
        return f"### {part.title}\n\n{body}", shown
    return f"<details>\n<summary>{part.title}</summary>\n\n{body}\n\n</details>", shown


def _update(change: Change) -> Sequence[Row]:
    lead = [_id(change.pet_id), _name(change)]
    where = code(words.source_of(change), _WHERE)
    rows = [_field(detail) for detail in details(change)]
    return [
        (*(lead if n == 0 else ["", ""]), *row, where if n == 0 else "")
        for n, row in enumerate(rows)
    ]


def _field(detail: Detail) -> Row:
    if detail.removed or detail.added:
        return detail.column, _items("-", detail.removed), _items("+", detail.added)
    if detail.orders:
        before, after = ("<br>".join(code(each) for each in order) for order in detail.orders)
        return detail.column, before, after
    before, after = fit_texts([detail.before, detail.after], _VALUE)
    return detail.column, code(before), code(after)


def _items(sign: str, items: Sequence[str]) -> str:
    shown = [code(f"{sign}{item}", _NAME) for item in items[:_MAX_ITEMS]]
    more = len(items) - len(shown)
    return " ".join([*shown, *([f"and {words.number(more)} more"] if more else [])])


def _whole_rows(change: Change) -> Sequence[Row]:
    what = code(traits(words.pet_of(change)), 2 * _VALUE)
    where = words.source_of(change)
    place = code(where, _WHERE) if change.source else where
    return [(_id(change.pet_id), _name(change), what, place)]


def _conflict(conflict: Conflict) -> Sequence[Row]:
    where = code(conflict.source, _WHERE)
    pet = _id(conflict.pet_id, ""), code(conflict.name, _NAME)
    if not conflict.clashes:
        problem = words.sentences(conflict.problem, conflict.suggestion)
        return [(where, *pet, prose(problem))]
    rows: list[Row] = []
    for clash in conflict.clashes:
        lead = ("", "", "") if rows else (where, *pet)
        rows.append((*lead, clash.column, *_sides(clash)))
    return rows


def _sides(clash: Clash) -> Iterator[str]:
    """Yield the clash's values in export, sheet and store; the items of a short list are on
    separate lines.
    """
    sides = [items(clash.column, text) for text in (clash.base, clash.sheet, clash.store)]
    if max(map(len, sides)) <= _MAX_ITEMS:
        short = fit_texts([item for side in sides for item in side], _VALUE)
        shown = iter(short)
        yield from ("<br>".join(code(next(shown)) for _ in side) for side in sides)
        return
    yield from map(code, fit_texts(["; ".join(side) for side in sides], _VALUE))


def _build_blocked_rows(row: Blocked) -> Sequence[Row]:
    pet = _id(row.pet_id, ""), code(row.name, _NAME)
    return [(code(row.source, _WHERE), *pet, prose(row.problem))]


def _name(change: Change) -> str:
    return code(words.name_of(words.pet_of(change)), _NAME)


def _id(number: int | None, missing: str = "new") -> str:
    return missing if number is None else code(str(number))
