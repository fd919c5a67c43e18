"""The console on which the command line writes."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from rich.console import Console

__all__ = ["PlainConsole", "console", "fold_text"]


class PlainConsole(Console):
    """A console that raises an error for a closed pipe, instead of ending the process."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, because rich would end the process before results are saved."""
        raise BrokenPipeError


def console(stream: Any) -> Console:
    """Return a console that writes text to the stream without markup, highlighting or emoji
    codes.
    """
    return PlainConsole(file=stream, highlight=False, markup=False, emoji=False)


def fold_text(text: str, width: int) -> str:
    """Return the text in lines of at most `width` cells. Longer words are not broken, and each line
    keeps its indentation. A line of options stays whole, so that it can be copied.
    """
    return "\n".join(part for line in text.split("\n") for part in _fold_line(line, width))


def _fold_line(line: str, width: int) -> list[str]:
    if cell_len(line) <= width or line.startswith("--"):
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
