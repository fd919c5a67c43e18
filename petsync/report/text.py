"""Lines of a terminal: the building blocks of every text view.

A line is a rich Text that fits the width. A terminal shows it with its styles; without them it is
plain text. Nothing in it is interpreted as markup.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from rich.cells import cell_len
from rich.text import Text

from petsync.report.textdiff import Piece
from petsync.report.words import SYMBOL, Mark, number, shorten, wrap
from petsync.table.cells import make_visible

__all__ = [
    "BLANK",
    "NEW_STYLE",
    "OLD_STYLE",
    "STYLE",
    "facts",
    "flow",
    "heading",
    "item",
    "log_text",
    "more",
    "paragraph",
    "spread_item",
    "style_pieces",
    "wrap_keeping_paths",
]


BLANK = Text()
STYLE: Mapping[Mark, str] = {
    "add": "green",
    "update": "yellow",
    "delete": "red",
    "conflict": "magenta",
    "blocked": "red",
    "note": "cyan",
    "warning": "yellow",
    "applied": "green",
}
OLD_STYLE, NEW_STYLE = "red", "green"
"""The styles of old and removed values, and of new and added values."""
_INDENT = "  "
_MAX_PATH_CELLS = 250
_MAX_CELLS = 1_200
"""The maximum number of cells of one paragraph that are shown."""


def heading(text: str, width: int, *, style: str = "bold") -> Iterator[Text]:
    """Yield a blank line, and the text, bold by default."""
    yield BLANK
    yield from paragraph(text, width, style=style)


def paragraph(text: str, width: int, *, indent: int = 0, style: str = "") -> Iterator[Text]:
    """Yield the printable text, wrapped, with each line indented."""
    for line in wrap(shorten(text, _MAX_CELLS), width - indent):
        yield Text(" " * indent + line, style)


def wrap_keeping_paths(
    text: str, width: int, *, indent: int = 0, style: str = ""
) -> Iterator[Text]:
    """Yield the printable text, wrapped, without breaking a path, which users copy. A path that is
    too long for an indented line is not indented.
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
    """Return the lines of a log, without control characters, wrapped if the stream is a
    terminal.
    """
    shown = map(make_visible, lines)
    if stream is None or not stream.isatty():
        return "\n".join(shown)
    width = shutil.get_terminal_size().columns
    return "\n".join(part.plain for line in shown for part in wrap_keeping_paths(line, width))


def _indent(line: str, width: int, indent: int) -> str:
    return " " * (indent if cell_len(line) <= width - indent else 0) + line


def item(mark: Mark, text: str, width: int) -> Iterator[Text]:
    """Yield the printable text, wrapped, after its coloured symbol."""
    prefix = f"{_INDENT}{SYMBOL[mark]} "
    for n, line in enumerate(wrap(shorten(text, _MAX_CELLS), width - len(prefix))):
        yield Text.assemble((prefix if n == 0 else " " * len(prefix), STYLE[mark]), line)


def flow(label: str, items: Iterable[Text], width: int, *, indent: int) -> Iterator[Text]:
    """Yield the items after the label, separated by spaces, on as many lines as they need; no item
    may be wider than a line.
    """
    line = Text(" " * indent + label)
    is_first = True
    for item in items:
        if not is_first and line.cell_len + 1 + item.cell_len > width:
            yield line
            line, is_first = Text(" " * (indent + 2)), True
        line = Text.assemble(line, "" if is_first else " ", item)
        is_first = False
    yield line


def style_pieces(pieces: Iterable[Piece], style: str) -> Text:
    """Return the pieces of a text, with the marked ones in the style."""
    return Text.assemble(*((text, style if is_marked else "") for text, is_marked in pieces))


def facts(rows: Iterable[tuple[str, str]], width: int) -> Iterator[Text]:
    """Yield printable names and values in two columns, each value in one line."""
    rows = list(rows)
    column = max(cell_len(name) for name, _ in rows) + 4
    for name, value in rows:
        pad = " " * (column - 2 - cell_len(name))
        yield Text.assemble((f"{_INDENT}{name}{pad}", "dim"), shorten(value, width - column))


def spread_item(mark: Mark, identity: str, name: str, source: str, width: int) -> Text:
    """Return one line: symbol, id and name at the left, the address at the right."""
    left = f"{_INDENT}{SYMBOL[mark]} {identity}{_INDENT}"
    right = shorten(make_visible(source), min(34, width // 3))
    room = width - len(left) - cell_len(right) - 2
    short_name = shorten(name, max(room, 8))
    gap = " " * max(room - cell_len(short_name) + 2, 2)
    return Text.assemble((left, STYLE[mark]), (short_name, "bold"), gap, (right, "dim"))


def more(left_out: int) -> Iterator[Text]:
    """Yield a line with the number of items left out; none for 0."""
    if left_out:
        yield Text(f"{_INDENT}... and {number(left_out)} more", "dim")
