"""Documents as lines of text.

A line is a rich Text that fits the width; only paths and commands may be longer, because users copy
them. A terminal shows a line with its styles. Nothing in a line is interpreted as markup.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.text import Text

from petsync._terms import in_shell
from petsync.report.document import (
    UNITS,
    Alert,
    Block,
    Column,
    Comparison,
    ComparisonRow,
    Details,
    Document,
    Facts,
    Field,
    Figures,
    Note,
    Record,
    Records,
    Role,
    Row,
    RowKind,
    Snippets,
    Summary,
    Table,
    Value,
    cell_text,
    format_more,
    format_title,
    reword,
)
from petsync.report.textdiff import (
    SideBySide,
    describe_traits,
    fit_texts,
    fold_items,
    mark_differences,
    quote_item,
    split_items,
)
from petsync.report.words import EMPTY, SYMBOL, Mark, capital, number, sentences, shorten, wrap
from petsync.table.cells import make_visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "document_lines",
    "log_text",
    "plain_text",
    "show",
    "terminal_svg",
    "wrap_keeping_paths",
]


_BLANK = Text()
_STYLE: Mapping[Mark, str] = {
    "add": "green",
    "update": "yellow",
    "delete": "red",
    "conflict": "magenta",
    "blocked": "red",
    "note": "cyan",
    "warning": "yellow",
    "applied": "green",
}
_OLD_STYLE, _NEW_STYLE = "red", "green"
"""The styles of old and removed values, and of new and added values."""
_INDENT = "  "
_MAX_PATH_CELLS = 250
_MAX_CELLS = 1_200
"""The maximum length of a paragraph, in cells."""


def _paragraph(text: str, width: int, *, indent: int = 0, style: str = "") -> Iterator[Text]:
    """Yield the printable text, shortened to 1,200 cells and wrapped, with each line indented."""
    for line in wrap(shorten(text, _MAX_CELLS), width - indent):
        yield Text(" " * indent + line, style)


def wrap_keeping_paths(
    text: str, width: int, *, indent: int = 0, style: str = ""
) -> Iterator[Text]:
    """Yield the printable text, wrapped. Paths are not broken, because users copy them, unless they
    are very long. A path that is too long for an indented line is not indented.
    """
    line = ""
    for word in shorten(text, _MAX_CELLS).split(" "):
        is_path = cell_len(word) <= _MAX_PATH_CELLS and ("/" in word or "\\" in word)
        for part in [word] if is_path else wrap(word, width - indent):
            longer = f"{line} {part}" if line else part
            if line and cell_len(longer) > width - indent:
                yield Text(_indent(line, width, indent), style)
                longer = part
            line = longer
    yield Text(_indent(line, width, indent), style)


def log_text(lines: Iterable[str], stream: TextIO | None) -> str:
    """Return the lines of a log as printable text, wrapped if the stream is a terminal."""
    shown = map(make_visible, lines)
    if stream is None or not stream.isatty():
        return "\n".join(shown)
    width = shutil.get_terminal_size().columns
    return "\n".join(part.plain for line in shown for part in wrap_keeping_paths(line, width))


def _indent(line: str, width: int, indent: int) -> str:
    return " " * (indent if cell_len(line) <= width - indent else 0) + line


def _item(mark: Mark, text: str, width: int) -> Iterator[Text]:
    """Yield the printable text, wrapped, after its coloured symbol."""
    prefix = f"{_INDENT}{SYMBOL[mark]} "
    for n, line in enumerate(wrap(shorten(text, _MAX_CELLS), width - len(prefix))):
        yield Text.assemble((prefix if n == 0 else " " * len(prefix), _STYLE[mark]), line)


def _facts(rows: Iterable[tuple[str, str]], width: int) -> Iterator[Text]:
    """Yield printable names and values in two columns, each value shortened to one line."""
    rows = list(rows)
    column = max(cell_len(name) for name, _ in rows) + 4
    for name, value in rows:
        pad = " " * (column - 2 - cell_len(name))
        yield Text.assemble((f"{_INDENT}{name}{pad}", "dim"), shorten(value, width - column))


def _more(left_out: int) -> Iterator[Text]:
    """Yield a line with the number of items left out; none for 0."""
    if left_out:
        yield Text(f"{_INDENT}{format_more(left_out)}", "dim")


# Documents as lines, as plain text, and on a console.


_NARROW, _WIDE = 60, 100
_NAME = 30
"""The maximum length of a pet's name within a line, in cells."""
_NAME_BESIDE_PLACE = 24
"""The length to which a pet's name is shortened before the address beside it, in cells."""
_ROW_OF_FILE = re.compile(r", (?:line|row) [0-9]+(?:, .*)?$")
"""The end of an address in a folder, such as `a.csv, line 12, column 3`."""
_LABEL = 13
"""The width of `category_id` and a gap."""
_MAX_LINES, _MAX_ITEMS = 6, 60
"""The approximate maximum number of lines of a long value, and the maximum number of shown items of
a list.
"""
_GAP = 2
_INNER = 6
"""The indent of the lines below a line with a symbol."""
_NO_VALUE = "-"
_BATCH = 100
"""The lines that are printed together."""
_SCREEN_LINES = 28
"""If there are more lines than this, a summary at the top is repeated at the end."""


def show(document: Document, console: Console) -> None:
    """Print the document for a shell, in colour if the console has colours, in 60 to 100
    columns.
    """
    document = reword(document, in_shell)
    lines = document_lines(document, min(max(console.width, _NARROW), _WIDE))
    # Rich takes as long for a call as for a few lines.
    while batch := [*islice(lines, _BATCH)]:
        for line in batch:
            line.rstrip()
        console.print(Text("\n").join(batch), soft_wrap=True)


def terminal_svg(show: Callable[[Console], None], *, title: str, width: int = 80) -> str:
    """Return an SVG image of the text that `show` prints. The image loads nothing."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console

    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor"
    )
    show(console)
    plain = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, code_format=plain)


def plain_text(document: Document, *, width: int = 80) -> str:
    """Return the document as text without colour, in lines of at most `width` cells, except for
    paths and commands.
    """
    return "\n".join(line.plain.rstrip() for line in document_lines(document, width))


def document_lines(document: Document, width: int = 80) -> Iterator[Text]:
    """Yield the document in lines of at most `width` cells, except for paths and commands. If there
    are many lines, a summary at the top is repeated at the end, with the titles of refusals.
    """
    total, ending = 0, list[Block]()
    for line in _lines(document, width, ending):
        total += 1
        yield line
    if ending and total > _SCREEN_LINES:
        yield _BLANK
        for block in ending:
            yield from _block_lines(block, width)


def _lines(document: Document, width: int, ending: list[Block]) -> Iterator[Text]:
    """Yield the document in lines, and append to `ending` the blocks to repeat at the end."""
    previous: Block | None = None
    if document.title:
        previous = Summary(document.title)
        yield from _paragraph(make_visible(format_title(document)), width, style="bold")
    for block in document.blocks:
        if isinstance(block, Details) and block.is_extra:
            continue
        if previous is not None and _needs_blank_line(block, previous):
            yield _BLANK
        if isinstance(block, Summary) and previous is None:
            ending.append(block)
        elif ending and isinstance(block, Alert) and block.is_refusal:
            ending.append(Summary(block.title, "blocked"))
        yield from _block_lines(block, width)
        previous = block


def _needs_blank_line(block: Block, previous: Block) -> bool:
    """Return true if a blank line separates the block from the one above it."""
    match block:
        case Facts() | Table():
            return not isinstance(previous, Summary)
        case Note():
            return not isinstance(previous, Summary | Note)
        case Alert():
            return bool(block.lines)
        case _:
            return True


def _block_lines(block: Block, width: int, indent: int = 0) -> Iterator[Text]:
    match block:
        case Summary() | Note():
            yield from _text_lines(block, width, indent)
        case Alert():
            yield from _alert_lines(block, width, indent)
        case Facts(pairs):
            yield from _facts([(make_visible(a), make_visible(b)) for a, b in pairs], width)
        case Table():
            yield from _table_lines(block, width, indent)
        case Snippets():
            yield from _snippet_lines(block, width, indent)
        case Records():
            yield from _record_lines(block, width)
        case Comparison():
            yield from _comparison_lines(block, width)
        case Details():
            yield from _details_lines(block, width, indent)
        case Figures():
            yield from _figure_lines(block, width, indent)


def _figure_lines(block: Figures, width: int, indent: int) -> Iterator[Text]:
    for figure in block.figures:
        text = make_visible(f"{figure.title}: {figure.text}")
        yield from _paragraph(text, width, indent=indent)


def _text_lines(block: Summary | Note, width: int, indent: int) -> Iterator[Text]:
    text = make_visible(block.text)
    if isinstance(block, Summary):
        style = f"bold {_STYLE[block.mark]}" if block.mark else "bold"
    elif block.mark:
        yield from _item(block.mark, text, width)
        return
    else:
        style = {"": "", "quiet": "dim", "strong": "bold"}[block.tone]
    yield from _paragraph(text, width, indent=indent, style=style)


def _alert_lines(alert: Alert, width: int, indent: int) -> Iterator[Text]:
    title = make_visible(alert.title)
    if not alert.lines:
        yield from _item(
            "blocked" if alert.is_refusal else "warning", sentences(capital(title)), width
        )
        return
    style = f"bold {_STYLE['blocked' if alert.is_refusal else 'warning']}"
    yield from _paragraph(title, width, indent=indent, style=style)
    for line in map(make_visible, alert.lines):
        if alert.has_paths:
            yield from wrap_keeping_paths(line, width, indent=indent + len(_INDENT))
        elif alert.is_refusal:
            yield from _item("blocked", line, width)
        else:
            yield from _paragraph(line, width, indent=len(_INDENT))
    yield from _more(alert.more)


def _snippet_lines(snippets: Snippets, width: int, indent: int) -> Iterator[Text]:
    yield from _paragraph(make_visible(snippets.title), width, indent=indent)
    for purpose, line in snippets.lines:
        text = make_visible(line)
        if purpose:
            yield Text(f"{_INDENT}{text}", "bold")
            yield from _paragraph(make_visible(purpose), width, indent=_INNER, style="dim")
        else:
            yield from wrap_keeping_paths(text, width, indent=len(_INDENT))
    if snippets.more:
        yield Text(f"{_INDENT}{snippets.more}", "dim")


def _details_lines(details: Details, width: int, indent: int) -> Iterator[Text]:
    title, mark = make_visible(format_title(details)), details.mark
    inner = indent or len(_INDENT)
    if indent and mark:
        yield from _item(mark, title, width)
        inner = _INNER
    elif mark:
        for n, line in enumerate(_paragraph(title, width - 2)):
            sign = f"{SYMBOL[mark]} " if n == 0 else "  "
            yield Text.assemble((sign, _STYLE[mark]), (line.plain, "bold"))
    else:
        yield from _paragraph(title, width, indent=indent, style="" if indent else "bold")
    for n, block in enumerate(details.blocks):
        is_part = isinstance(block, Snippets) or (isinstance(block, Details) and not block.mark)
        if is_part and n:
            yield _BLANK
        yield from _block_lines(block, width, inner)


def _table_lines(table: Table, width: int, indent: int) -> Iterator[Text]:
    if table.layout in ("grid", "totals"):
        yield from _grid_lines(table, width)
    else:
        for row in table.rows:
            text = _row_sentence(row, table.columns)
            if row.mark and indent <= len(_INDENT):
                yield from _item(row.mark, text, width)
            else:
                yield from _paragraph(text, width, indent=indent)
    if table.more:
        yield Text(f"{_INDENT}{table.more}", "dim")


def _cells(row: Row, columns: Sequence[Column]) -> dict[Role, str]:
    """Return the texts of the row by role; the columns of one role are joined."""
    cells: dict[Role, str] = {}
    for column, cell in zip(columns, row.cells, strict=True):
        text = make_visible(cell_text(cell))
        cells[column.role] = " ".join(filter(None, (cells.get(column.role), text)))
    return cells


def _row_sentence(row: Row, columns: Sequence[Column]) -> str:
    """Return the row as `Pets!B18, update of pet 17 (Bella): what`."""
    cells = _cells(row, columns)
    subject = _subject(cells.get("id", ""), cells.get("name", ""))
    change = " of ".join(filter(None, (cells.get("change"), subject)))
    where = " ".join(filter(None, (cells.get("where"), cells.get("value"))))
    place = ", ".join(filter(None, (where, change, cells.get("field"))))
    return ": ".join(filter(None, (place, cells.get("what"))))


def _subject(pet_id: str, name: str) -> str:
    """Format a pet: `pet 17 (Bella)`; without an id the name."""
    short = shorten(name, _NAME)
    pet = f"pet {pet_id}" if pet_id else ""
    return f"{pet} ({short})" if pet and short else pet or short


def _spread_item(mark: Mark, identity: str, name: str, source: str, width: int) -> Text:
    """Return one line: symbol, id and name at the left, the address at the right."""
    left = f"{_INDENT}{SYMBOL[mark]} {identity}{_INDENT}"
    room = width - len(left) - 2
    right = _shorten_place(source, max(width // 3, room - min(cell_len(name), _NAME_BESIDE_PLACE)))
    room -= cell_len(right)
    short_name = shorten(name, max(room, 8))
    gap = " " * max(room - cell_len(short_name) + 2, 2)
    return Text.assemble((left, _STYLE[mark]), (short_name, "bold"), gap, (right, "dim"))


def _shorten_place(place: str, width: int) -> str:
    """Return the address in at most `width` cells. Of a row in a file of a folder, the row stays,
    and the file's name is shortened.
    """
    row = _ROW_OF_FILE.search(place)
    if cell_len(place) <= width or row is None or cell_len(row[0]) > width - 4:
        return shorten(place, width)
    return shorten(place[: row.start()], width - cell_len(row[0])) + row[0]


def _grid_lines(table: Table, width: int) -> Iterator[Text]:
    """Yield the rows in aligned columns; a text that does not fit is wrapped in its column."""
    shown_columns = [n for n, c in enumerate(table.columns) if c.role not in ("extra", "below")]
    below = [n for n, column in enumerate(table.columns) if column.role == "below"]
    columns = [table.columns[n] for n in shown_columns]
    rows = [[make_visible(cell_text(row.cells[n])) for n in shown_columns] for row in table.rows]
    titles = [column.title[:1].lower() + column.title[1:] for column in columns]
    shown = [titles, *rows] if table.has_titles else rows
    if not shown:
        return
    widths = [max(map(cell_len, texts)) for texts in zip(*shown, strict=True)]
    # Columns of notes become narrower first, then titles, then the others; ids and numbers stay
    # whole if possible.
    order = {"what": 2, "head": 1, "id": -1, "number": -1}
    keys = [(order.get(column.role, 0), each) for column, each in zip(columns, widths, strict=True)]
    excess = len(_INDENT) + sum(widths) + _GAP * (len(widths) - 1) - width
    for n in sorted(range(len(keys)), key=keys.__getitem__, reverse=True):
        cut = min(max(excess, 0), max(widths[n] - _LABEL, 0))
        widths[n] -= cut
        excess -= cut
    if table.has_titles:
        yield from _grid_row(titles, widths, columns, "dim")
    for row, cells in zip(table.rows, rows, strict=True):
        style = {"quiet": "dim", "strong": "bold"}.get(row.tone) or (
            _STYLE[row.mark] if row.mark else ""
        )
        yield from _grid_row(cells, widths, columns, style)
        for n in below:
            text = make_visible(cell_text(row.cells[n]))
            yield from _paragraph(text, width, indent=2 * len(_INDENT))


def _grid_row(
    cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column], style: str
) -> Iterator[Text]:
    wrapped = [
        wrap(shorten(cell, _MAX_LINES * width), width) if width else [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for texts in zip_longest(*wrapped, fillvalue=""):
        padded = [
            " " * (width - cell_len(text)) + text
            if column.role == "number"
            else text + " " * (width - cell_len(text))
            for text, width, column in zip(texts, widths, columns, strict=True)
        ]
        yield Text(f"{_INDENT}{(' ' * _GAP).join(padded)}".rstrip(), style)


def _comparison_lines(comparison: Comparison, width: int) -> Iterator[Text]:
    yield _BLANK
    indent = len(_INDENT) + _LABEL
    differing = [row.sides for row in comparison.rows if _common_value(row) is None]
    table = SideBySide(comparison.sides, differing, width - indent)
    if any(map(table.fits, differing)):
        yield Text.assemble(" " * indent, table.head)
    for row in comparison.rows:
        common = _common_value(row)
        if common is None:
            styles = ["bold" if n == row.strong else "" for n in range(len(row.sides))]
            lines = table.lines(row.sides, styles)
        else:
            lines = _value_lines(common, width - indent)
        yield from _label_lines(make_visible(row.name), lines, len(_INDENT))
        if row.reason:
            yield from _paragraph(make_visible(row.reason), width, indent=indent, style="dim")


def _label_lines(label: str, lines: Iterable[Text], indent: int) -> Iterator[Text]:
    """Yield the lines of a field's values, the first one after the label."""
    for line in lines:
        yield Text.assemble(f"{' ' * indent}{label:<{_LABEL}}", line)
        label = ""


def _common_value(row: ComparisonRow) -> Sequence[str] | None:
    """Return the value if the sides that have one agree; None if they differ, or if one side is
    emphasised.
    """
    values = {tuple(side) for side in row.sides} - {(_NO_VALUE,)}
    if row.strong is not None or len(values) > 1:
        return None
    return values.pop() if values else (_NO_VALUE,)


def _value_lines(value: Sequence[str], room: int) -> Iterator[Text]:
    """Yield the value as lines; a short list as one line."""
    joined = "; ".join(value)
    cell = [joined] if cell_len(joined) <= room else value
    shown = [shorten(each, _MAX_LINES * room) for each in cell[:_MAX_ITEMS]]
    more = len(cell) - _MAX_ITEMS
    yield from map(Text, fold_items([*shown, *([f"and {more:,} more"] if more > 0 else [])], room))


# Records as lines: pet by pet, field by field.


_ARROW = " -> "
_MAX_LINE_ITEMS = 12
_BATCH = 1_000
"""The number of records that are aligned with each other."""
_SIDES = ("before", "sheet", "store")
_WINNING_SIDES = {"": {}, "store": {"store": "store (stays)"}, "sheet": {"sheet": "sheet (sent)"}}


def _record_lines(records: Records, width: int) -> Iterator[Text]:
    """Yield each record: a sentence, or the pet with its fields below it."""
    rows = iter(records.rows)
    while batch := list(islice(rows, _BATCH)):
        yield from _batch_lines(batch, records.kinds, width)
    yield from _more(records.more)


def _batch_lines(batch: Sequence[Record], kinds: Sequence[RowKind], width: int) -> Iterator[Text]:
    column = max(len(record.pet_id) for record in batch)
    clashes = [_sides(field) for record in batch for field in record.fields if _is_clash(field)]
    winners = {record.winner for record in batch if any(map(_is_clash, record.fields))}
    titles = _WINNING_SIDES[winners.pop() if len(winners) == 1 else ""]
    table = SideBySide(
        [titles.get(side, side) for side in _SIDES], clashes, width - _INNER - _LABEL
    )
    head = iter([Text.assemble(" " * (_INNER + _LABEL), table.head)])
    for record in batch:
        mark = kinds[record.kind].mark
        if record.message and not record.fields:
            yield from _item(mark, _record_sentence(record), width)
            continue
        yield _spread_item(mark, record.pet_id.rjust(column), record.name, record.where, width)
        styles = ["bold" if side == record.winner else "" for side in _SIDES]
        for field in filter(_is_clash, record.fields):
            if table.fits(sides := _sides(field)):
                yield from head
            yield from _label_lines(UNITS[field[0]], table.lines(sides, styles), _INNER)
        yield from _field_lines(record.fields, width)
        if record.message:
            style = _STYLE["conflict"]
            yield from _paragraph(record.message, width, indent=_INNER, style=style)
        elif record.cure and not record.fields:
            yield from _paragraph(record.cure, width, indent=_INNER, style="dim")


def _is_clash(field: Field) -> bool:
    return len(field) == 4


def _record_sentence(record: Record) -> str:
    place = ", ".join(filter(None, (record.where, _subject(record.pet_id, record.name))))
    return ": ".join(filter(None, (place, sentences(record.message, record.cure))))


def _sides(clash: Field) -> list[Sequence[str]]:
    """Return the values of a clash, each as its items."""
    sides = (value if isinstance(value, tuple) else (value,) for value in clash[1:])
    return [[str(item or EMPTY) for item in side or ("",)] for side in sides]


def _field_lines(fields: Sequence[Field], width: int) -> Iterator[Text]:
    """Yield the changed fields, each in one or more lines. The fields of a new or deleted pet are
    one paragraph. Clashes are left out.
    """
    if whole := [field for field in fields if len(field) == 2]:
        yield from _paragraph(describe_traits(whole), width, indent=_INNER)
    for field in fields:
        if len(field) != 3:
            continue
        label, before, after = f"{UNITS[field[0]]}: ", field[1], field[2]
        if not isinstance(before, str) or not isinstance(after, str):
            yield from _item_lines(label, before, after, width)
        elif "\n" in before:
            yield from _order_lines(label, before, after, width)
        else:
            yield from _pair_lines(label, before or EMPTY, after or EMPTY, width)


def _pair_lines(label: str, before: str, after: str, width: int) -> Iterator[Text]:
    """Yield both values in one line if they fit, else one below the other."""
    start = " " * _INNER + label
    room = width - len(start)
    is_short = cell_len(before) + len(_ARROW) + cell_len(after) <= room
    texts = (before, after) if is_short else fit_texts([before, after], room)
    old, new = (
        Text.assemble(*((text, style if is_marked else "") for text, is_marked in pieces))
        for pieces, style in zip(mark_differences(*texts), (_OLD_STYLE, _NEW_STYLE), strict=True)
    )
    if is_short:
        yield Text.assemble(start, old, _ARROW, new)
        return
    yield Text.assemble(start, old)
    yield Text.assemble(" " * (len(start) - len(_ARROW) + 1), _ARROW[1:], new)


def _order_lines(label: str, before: str, after: str, width: int) -> Iterator[Text]:
    """Yield both orders of a list, with each item on a separate line."""
    sides = ("before", before, _OLD_STYLE), ("after", after, _NEW_STYLE)
    for side, order, style in sides:
        start = f"{' ' * _INNER}{label}{side:<8}"
        for line in fold_items(order.split("\n"), width - len(start)):
            yield Text.assemble(start, (line, style))
            start = " " * len(start)
        label = " " * len(label)


def _item_lines(label: str, added: Value, removed: Value, width: int) -> Iterator[Text]:
    """Yield the first added and removed items after the label, on as many lines as they need."""
    total, signed = 0, list[tuple[str, str]]()
    for sign, value, style in (("+", added, _NEW_STYLE), ("-", removed, _OLD_STYLE)):
        named, count = split_items(value)
        total += count
        signed += [(f"{sign}{quote_item(name, ' ')}", style) for name in named]
    shown = signed[:_MAX_LINE_ITEMS]
    room = width - _INNER - len(label)
    long = [text for text, _ in shown if cell_len(text) > room]
    short = dict(zip(long, fit_texts(long, room), strict=True))
    items = [Text(short.get(text, text), style) for text, style in shown]
    items += [Text(f"and {number(total - len(shown))} more")] if total > len(shown) else []
    line = Text(" " * _INNER + label.rstrip())
    for item in items:
        if line.cell_len + 1 + item.cell_len > width:
            yield line
            line = Text(" " * (_INNER + 1))
        line = Text.assemble(line, " ", item)
    yield line
