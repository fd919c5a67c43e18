"""Lines of a terminal: the parts from which every text is put together.

A line is a rich Text that fits the width: with its styles it goes to a terminal, without them it
is the plain text. Nothing in it is interpreted as markup.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from rich.cells import cell_len
from rich.text import Text

from petsync.report.textdiff import Piece
from petsync.report.words import SYMBOL, Mark, number, shorten, wrap
from petsync.table.cells import visible

__all__ = [
    "BLANK",
    "COME",
    "GONE",
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
GONE, COME = "red", "green"
"""What was and will be no more, and what will be and was not."""
_INDENT = "  "
_PATH = 250
_LONGEST = 1_200
"""So many cells of one paragraph are shown: a name can be a whole book."""


def heading(text: str, width: int, *, style: str = "bold") -> Iterator[Text]:
    """A blank line, and the text, bold where nothing else is asked for."""
    yield BLANK
    yield from paragraph(text, width, style=style)


def paragraph(text: str, width: int, *, indent: int = 0, style: str = "") -> Iterator[Text]:
    """The visible text, wrapped, every line of it indented."""
    for line in wrap(shorten(text, _LONGEST), width - indent):
        yield Text(" " * indent + line, style)


def wrap_keeping_paths(
    text: str, width: int, *, indent: int = 0, style: str = ""
) -> Iterator[Text]:
    """The same, but a path stays in one piece, however long, so that it can be copied; one that is
    too long for the indented line stands at the left.
    """
    line = ""
    for word in shorten(text, _LONGEST).split(" "):
        is_path = cell_len(word) <= _PATH and ("/" in word or "\\" in word)
        for part in [word] if is_path else wrap(word, width - indent):
            longer = f"{line} {part}" if line else part
            if line and cell_len(longer) > width - indent:
                yield Text(_indent(line, width, indent), style)
                longer = part
            line = longer
    yield Text(_indent(line, width, indent), style)


def log_text(lines: Iterable[str], stream: TextIO | None) -> str:
    """The lines of a log, in which nothing steers a terminal, folded where the stream is one."""
    shown = map(visible, lines)
    if stream is None or not stream.isatty():
        return "\n".join(shown)
    width = shutil.get_terminal_size().columns
    return "\n".join(part.plain for line in shown for part in wrap_keeping_paths(line, width))


def _indent(line: str, width: int, indent: int) -> str:
    return " " * (indent if cell_len(line) <= width - indent else 0) + line


def item(mark: Mark, text: str, width: int) -> Iterator[Text]:
    """The visible text, wrapped, behind its coloured symbol."""
    lead = f"{_INDENT}{SYMBOL[mark]} "
    for n, line in enumerate(wrap(shorten(text, _LONGEST), width - len(lead))):
        yield Text.assemble((lead if n == 0 else " " * len(lead), STYLE[mark]), line)


def flow(label: str, items: Iterable[Text], width: int, *, indent: int) -> Iterator[Text]:
    """The items behind the label, with a space between them, on as many lines as they need; each
    item is no wider than a line.
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
    """The pieces of a text, those that are marked in the style."""
    return Text.assemble(*((text, style if is_marked else "") for text, is_marked in pieces))


def facts(rows: Iterable[tuple[str, str]], width: int) -> Iterator[Text]:
    """Visible names and values in two columns, each value in one line."""
    rows = list(rows)
    column = max(cell_len(name) for name, _ in rows) + 4
    for name, value in rows:
        pad = " " * (column - 2 - cell_len(name))
        yield Text.assemble((f"{_INDENT}{name}{pad}", "dim"), shorten(value, width - column))


def spread_item(mark: Mark, identity: str, name: str, source: str, width: int) -> Text:
    """Symbol, id and name at the left, the address at the right."""
    left = f"{_INDENT}{SYMBOL[mark]} {identity}{_INDENT}"
    right = shorten(visible(source), min(34, width // 3))
    room = width - len(left) - cell_len(right) - 2
    fitted = shorten(name, max(room, 8))
    gap = " " * max(room - cell_len(fitted) + 2, 2)
    return Text.assemble((left, STYLE[mark]), (fitted, "bold"), gap, (right, "dim"))


def more(left_out: int) -> Iterator[Text]:
    """How many were left out, if any were."""
    if left_out:
        yield Text(f"{_INDENT}... and {number(left_out)} more", "dim")
