"""On which line of a TOML file each key stands; only asked for where there is something to tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Path", "line_of", "lines_of", "statements"]

Path = tuple[str, ...]


def statements(text: str) -> Iterator[tuple[int, str]]:
    """The first line and the text of each statement: a header, or a key with its value, over as
    many lines as it takes until it can be parsed alone. What cannot be, comes last, as far as the
    end.
    """
    held: list[str] = []
    begun = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not held:
            begun = number
        held.append(line)
        if _parsed("\n".join(held)) is not None:
            yield begun, "\n".join(held)
            held = []
    if held:
        yield begun, "\n".join(held)


def lines_of(text: str) -> dict[Path, int]:
    """The line of each key path of a TOML document that can be parsed."""
    found: dict[Path, int] = {(): 1}
    table: Path = ()
    for number, statement in statements(text):
        content = _parsed(statement) or {}
        if statement.lstrip().startswith("["):
            table = max(_paths(content, ()), key=len, default=())
            new: Iterator[Path] = (table[:size] for size in range(1, len(table) + 1))
        else:
            new = _paths(content, table)
        for path in new:
            found.setdefault(path, number)
    return found


def line_of(path: Path, lines: Mapping[Path, int]) -> int:
    """The line of the path, or of what it would stand in."""
    return next(lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines)


def _paths(content: Mapping[str, Any], table: Path) -> Iterator[Path]:
    for key, value in content.items():
        path = (*table, key)
        yield path
        inner = value[-1] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from _paths(inner, path)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
