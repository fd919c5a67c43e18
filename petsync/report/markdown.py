"""Documents as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby, islice

from petsync.report import words
from petsync.report.document import (
    UNITS,
    Alert,
    Block,
    Comparison,
    Details,
    Document,
    Facts,
    Field,
    Figures,
    Note,
    Record,
    Records,
    Snippets,
    Summary,
    Table,
    Value,
    cell_text,
    format_more,
    format_title,
    order_blocks,
)
from petsync.report.textdiff import describe_traits, fit_texts, quote_item, split_items
from petsync.report.words import shorten
from petsync.table.cells import make_visible

__all__ = ["code", "document_markdown", "prose", "table"]


# Text that stays text in Markdown: no value becomes a link, an image, HTML, a mention, the edge of
# a table or a fence, in CommonMark, on GitHub or in a chat.
#
# Backslashes are not enough: GitHub turns `@team`, `#12` and URLs into links after it has removed
# the backslashes. Text in code spans does not become a link.


_PLAIN = re.compile(
    r"""["'(]*(?:[^\W\d_]+(?:['-][^\W\d_]+)*|[0-9]{1,3}(?:,[0-9]{3})*|[0-9]{1,6}"""
    r"""|\.{3}|[0-9]{4}(?:-[0-9]{2}){2}|[0-9]{2}(?::[0-9]{2}){2}|%)["')]*[.,;:!?]*""",
)
_COMMIT = re.compile(r"[0-9a-f]{7,40}\W*", re.IGNORECASE)
_NUMBERED = re.compile(r"[0-9]+[.)]+")
_PUNCTUATION = re.compile(r"""(["'(]*)(.*?)([)"'.,;:!?]*)""", re.DOTALL)
_CODE_SPAN = re.compile(r"""((?:^|(?<= ))["'(]*`[^`]+`[)"'.,;:!?]*(?= |$))""")
_MAX_CELLS = 300


def code(text: str, width: int = _MAX_CELLS, *, in_table: bool = True) -> str:
    """Return the text as a code span, shortened to `width` cells of a terminal; "" for ""."""
    shown = shorten(make_visible(text), width)
    if not shown:
        return ""
    ticks = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (ticks + 1)
    is_edgy = shown[0] == "`" or shown[-1] == "`" or (shown[0] == shown[-1] == " ")
    pad = " " if is_edgy and shown.strip(" ") else ""
    return fence + pad + (_escape_bars(shown) if in_table else shown) + pad + fence


def prose(text: str, *, in_table: bool = True) -> str:
    """Return a text, shortened to 300 cells of a terminal: plain words stay, other parts become
    code spans. A part between backticks is one span; brackets and punctuation around it stay
    outside.
    """
    pieces = _CODE_SPAN.split(shorten(make_visible(text), _MAX_CELLS))
    return "".join(
        _span(piece, in_table) if n % 2 else " ".join(_mark_words(piece, in_table, is_first=n == 0))
        for n, piece in enumerate(pieces)
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table. Titles and cells must be Markdown."""
    yield _line(titles)
    yield _line(["---"] * len(titles))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark_words(text: str, in_table: bool, *, is_first: bool) -> Iterator[str]:
    """Yield the words of the text. Consecutive words that are not plain share a code span, unless
    punctuation separates them.
    """
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
    """Return the text as a code span; punctuation around the text stays outside the span."""
    lead, core, trail = _split_punctuation(text)
    if len(core) > 2 and core[0] == core[-1] == "`" and "`" not in core[1:-1]:
        core = core[1:-1]
    return f"{lead}{code(core, in_table=in_table)}{trail}"


def _split_punctuation(text: str) -> tuple[str, str, str]:
    """Split off the quotes, brackets and punctuation before and after the text."""
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
    r"""Return the text with its bars escaped for a table. Markdown renderers disagree on a bar
    after a backslash, `\|`, so that bar is written as [U+007C].
    """
    return shown.replace("\\|", "\\[U+007C]").replace("|", "\\|")


# Documents as Markdown, for example for a pull request.


LONGEST = 60_000
"""The maximum number of characters; a comment on GitHub has at most 65,536."""
_FOLD_OVER = 10
_NAME, _VALUE, _WHERE = 60, 100, 40
_MAX_ITEMS = 8
_MAX_ALERTS = 10
_FOOTER_LENGTH = 300
Lines = Sequence[str]


def document_markdown(document: Document) -> str:
    """Return the document as Markdown. If it would be longer than 60,000 characters, tables are
    cut, and a line below a cut table says how many rows are missing.
    """
    blocks: list[Block] = [*([Summary(format_title(document))] if document.title else [])]
    blocks += order_blocks(document)
    texts = [None if _is_long(block) else _format(block, LONGEST)[0] for block in blocks]
    room = LONGEST - sum(len(text or "") + 2 for text in texts) - _FOOTER_LENGTH
    long, left_out = texts.count(None), 0
    for n, block in enumerate(blocks):
        if texts[n] is None:
            text, cut = _format(block, room // long)
            texts[n], room, long, left_out = text, room - len(text) - 2, long - 1, left_out + cut
    if left_out:
        advice = next(filter(None, map(_find_advice, blocks)), "show it in parts.")
        texts.append(
            f"Shortened to fit in a GitHub comment: {words.count(left_out, 'row')} left out. "
            f"To see all, {prose(advice, in_table=False)}"
        )
    return "\n\n".join(filter(None, texts)) + "\n"


def _is_long(block: Block) -> bool:
    return isinstance(block, Table | Records | Details)


def _find_advice(block: Block) -> str:
    if isinstance(block, Details):
        return next(filter(None, map(_find_advice, block.blocks)), "")
    return block.advice if isinstance(block, Records) else ""


def _format(block: Block, room: int) -> tuple[str, int]:
    """Return the block, with tables in at most `room` characters, and the number of their rows that
    are left out.
    """
    match block:
        case Details():
            return _format_details(block, room)
        case Records():
            return _format_records(block, room)
        case Table():
            return _format_table(block, room)
        case _:
            return "\n".join(_format_short(block)), 0


def _format_short(
    block: Summary | Note | Alert | Facts | Snippets | Comparison | Figures,
) -> Iterator[str]:
    match block:
        case Summary(sentence):
            yield f"## {prose(sentence, in_table=False)}"
        case Note():
            yield prose(block.text, in_table=False)
        case Alert():
            yield from _format_alert(block)
        case Facts(pairs):
            yield from table(("", ""), ((prose(a), prose(b)) for a, b in pairs))
        case Snippets():
            items = (f"- {code(line, in_table=False)} {prose(to)}" for to, line in block.lines)
            yield "\n".join([prose(block.title), "", *items, "", block.more]).rstrip()
        case Comparison():
            rows = (
                (prose(r.name), *map(_join_items, r.sides), prose(r.reason)) for r in block.rows
            )
            yield from table(("field", *map(prose, block.sides), "why"), rows)
        case Figures(figures):
            yield from (f"- {prose(f'{each.title}: {each.text}')}" for each in figures)


def _format_alert(alert: Alert) -> Iterator[str]:
    yield f"> **{words.sentences(prose(alert.title, in_table=False))}**"
    if alert.lines:
        yield ">"
    listing = words.first(alert.lines, _MAX_ALERTS)
    for line in listing.shown:
        yield f"> - {prose(line, in_table=False)}"
    if more := format_more(listing.more + alert.more):
        yield f"> - {more}"


def _format_details(details: Details, room: int) -> tuple[str, int]:
    title = format_title(details)
    heading = prose(title, in_table=False)
    summary = escape(make_visible(title), quote=False)
    texts, left_out = list[str](), 0
    room -= max(len(heading), len(summary)) + len(_FOLD)
    for block in details.blocks:
        text, cut = _format(block, room)
        room, left_out = room - len(text) - 2, left_out + cut
        texts.append(text)
    body = "\n\n".join(texts)
    is_long = body.count("\n| ") > _FOLD_OVER + 1
    return (_FOLD.format(summary, body) if is_long else f"### {heading}\n\n{body}"), left_out


_FOLD = "<details>\n<summary>{}</summary>\n\n{}\n\n</details>"


def _format_rows(
    titles: Lines, groups: Iterable[Sequence[Lines]], total: int, more: int, room: int
) -> tuple[str, int]:
    """Return a table of the first groups of rows that fit in `room` characters, and the number of
    groups left out of the `total`.
    """
    lines, shown = list(table(titles, ())), 0
    room -= sum(map(len, lines)) + _FOOTER_LENGTH
    for group in groups:
        rows = list(map(_line, group))
        room -= sum(len(row) + 1 for row in rows)
        if room < 0:
            break
        lines += rows
        shown += 1
    cut = total - shown
    return "\n".join([*lines, *(["", format_more(cut + more)] if cut + more else [])]), cut


def _format_table(part: Table, room: int) -> tuple[str, int]:
    titles = [column.title.lower() for column in part.columns]
    cells = ([[prose(cell_text(cell)) for cell in row.cells]] for row in part.rows)
    text, cut = _format_rows(titles, cells, len(part.rows), 0, room)
    return (f"{text}\n\n{prose(part.more)}" if part.more else text), cut


def _format_records(records: Records, room: int) -> tuple[str, int]:
    # More records do not fit: each takes more than 20 characters.
    rows = list(islice(records.rows, max(room, 0) // 20 + 1))
    longest = max((len(field) for record in rows for field in record.fields), default=0)
    middle = _FIELD_COLUMNS.get(longest, ("what",))
    has_lead = {
        "id": any(record.pet_id for record in rows),
        "pet": any(record.name for record in rows),
        "where": any(record.where for record in rows),
    }
    titles = ["id", "pet", *middle, "where"]
    kept = [n for n, title in enumerate(titles) if has_lead.get(title, True)]
    groups = (
        [[row[n] for n in kept] for row in _record_rows(record, len(middle))] for record in rows
    )
    return _format_rows([titles[n] for n in kept], groups, len(records.rows), records.more, room)


_FIELD_COLUMNS = {
    3: ("field", "before", "after"),
    4: ("field", "before", "sheet", "store"),
}
"""The titles of the columns between the pet and its place, by the length of the longest `Field`."""


def _record_rows(record: Record, width: int) -> Iterator[Lines]:
    """Yield the rows of a record, with `width` cells between the pet and its place."""
    pet_id = record.pet_id if record.pet_id == "new" else code(record.pet_id)
    is_address = any(map(str.isdigit, record.where))
    where = code(record.where, _WHERE) if is_address else prose(record.where)
    lead, place = [pet_id, code(record.name, _NAME)], [where]
    for cells in _contents(record):
        yield [*lead, *cells, *[""] * (width - len(cells)), *place]
        lead, place = ["", ""], [""]


def _contents(record: Record) -> Iterator[Lines]:
    """Yield the cells of each field, then those of the message. The fields of a new or deleted pet
    share one cell with the message.
    """
    whole = [field for field in record.fields if len(field) == 2]
    for field in record.fields:
        if len(field) != 2:
            yield [UNITS[field[0]], *_values(field)]
    message = words.sentences(record.message, record.cure if not record.fields else "")
    if whole or message or not record.fields:
        yield [
            "<br>".join(filter(None, (code(describe_traits(whole), 2 * _VALUE), prose(message))))
        ]


def _values(field: Field) -> Iterator[str]:
    before, *others = field[1:]
    if len(field) == 3 and isinstance(before, tuple):
        yield _join_signed("-", field[2])
        yield _join_signed("+", before)
        return
    sides = [
        list(map(str, value)) if isinstance(value, tuple) else value.split("\n")
        for value in map(_or_empty, (before, *others))
    ]
    if max(map(len, sides)) > _MAX_ITEMS and len(field) > 3:
        sides = [["; ".join(side)] for side in sides]
    short = iter(fit_texts([item for side in sides for item in side], _VALUE))
    yield from ("<br>".join(code(next(short)) for _ in side) for side in sides)


def _or_empty(value: Value | int) -> Value:
    return value if isinstance(value, str | tuple) and value else words.EMPTY


def _join_signed(sign: str, value: Value) -> str:
    named, total = split_items(value)
    shown = [code(f"{sign}{quote_item(item, ' ')}", _NAME) for item in named[:_MAX_ITEMS]]
    more = total - len(shown)
    return " ".join([*shown, *([f"and {words.number(more)} more"] if more else [])])


def _join_items(side: Sequence[str]) -> str:
    return "<br>".join(map(code, side))
