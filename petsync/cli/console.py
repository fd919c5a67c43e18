"""The console that the command line writes on."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from rich.console import Console

__all__ = ["Plain", "console", "fold_text"]


class Plain(Console):
    """A console that takes text as it is."""

    def on_broken_pipe(self) -> None:
        """Unlike rich, which ends the process here: there may be results to save first."""
        raise BrokenPipeError


def console(stream: Any) -> Console:
    """A console on the stream."""
    return Plain(file=stream, highlight=False, markup=False, emoji=False)


def fold_text(text: str, width: int) -> str:
    """The text in lines of at most `width` cells, where words are not longer; each keeps its
    indentation, and no word is broken.
    """
    return "\n".join(part for line in text.split("\n") for part in _lines(line, width))


def _lines(line: str, width: int) -> list[str]:
    if cell_len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines: list[str] = []
    current = ""
    for word in line.split():
        longer = f"{current} {word}" if current else indent + word
        if current and cell_len(longer) > width:
            lines.append(current)
            longer = indent + word
        current = longer
    return [*lines, current]
