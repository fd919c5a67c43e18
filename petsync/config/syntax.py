"""The statements of a TOML file with their lines, and the mistakes in a file that is not TOML."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from petsync.config.model import OPTIONS
from petsync.errors import Problem

__all__ = [
    "KeyPath",
    "explain_encoding_error",
    "explain_syntax_error",
    "line_of",
    "lines_of",
    "parse_toml",
    "statements",
]


KeyPath = tuple[str, ...]


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the text of each statement: a header, a key with its
    value, a comment or an empty line.

    Lines are joined until they can be parsed as one statement. Text that cannot be parsed comes
    last, up to the end of the file.
    """
    held: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not held:
            start = number
        held.append(line)
        # A list of many lines is not parsed again for each of them.
        can_end = len(held) == 1 or _LAST_LINE.search(line) is not None
        if can_end and _parse_toml("\n".join(held)) is not None:
            yield start, "\n".join(held)
            held = []
    if held:
        yield start, "\n".join(held)


_LAST_LINE = re.compile(r"[\]}]|\"{3}|'{3}")
"""Matches each line with which a statement of several lines may end."""


def lines_of(text: str) -> dict[KeyPath, int]:
    """Return the line of each key path of a valid TOML document."""
    found: dict[KeyPath, int] = {(): 1}
    table: KeyPath = ()
    items: Counter[KeyPath] = Counter()
    for number, statement in statements(text):
        content = _parse_toml(statement) or {}
        if statement.lstrip().startswith("["):
            table = max(_paths(content, ()), key=len, default=())
            new = [table[:size] for size in range(1, len(table) + 1)]
            if statement.lstrip().startswith("[["):
                items[table] += 1
                table = (*table[:-1], f"{table[-1]}[{items[table]}]")
                new.append(table)
        else:
            new = [*_paths(content, table)]
        for path in new:
            found.setdefault(path, number)
    return found


def line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """Return the line of the path, or of the nearest list or table around it."""
    while path not in lines:
        name = _POSITION.sub("", path[-1])
        path = path[:-1] if name == path[-1] else (*path[:-1], name)
    return lines[path]


_POSITION = re.compile(r"\[[0-9]+\]$")


def _paths(content: Mapping[str, Any], table: KeyPath) -> Iterator[KeyPath]:
    for key, value in content.items():
        path = (*table, key)
        yield path
        if isinstance(value, dict):
            yield from _paths(value, path)
        elif isinstance(value, list):
            for at, item in enumerate(value, 1):
                if isinstance(item, dict) and item:
                    place = (*table, f"{key}[{at}]")
                    yield place
                    yield from _paths(item, place)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML file. Raises TOMLDecodeError, also for valid TOML that Python
    cannot read.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError(_TOO_DEEP) from None
    except ValueError:
        # Python refuses numbers of thousands of digits.
        raise tomllib.TOMLDecodeError(_TOO_LONG) from None


_TOO_DEEP = "lists, tables or dotted names are nested too deep"
_TOO_LONG = "a number has too many digits"


def _parse_toml(text: str) -> dict[str, Any] | None:
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError:
        return None


# Mistakes in a file that is not TOML: the line, and the most likely fix.


_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_BARE_VALUE = re.compile(r"^(\s*[\w.\"'-]+\s*=\s*)([^\s\"'\[{#][^#]*?)\s*(#.*)?$")
_COLON = re.compile(r"^\s*[\"']?([\w.-]+)[\"']?\s*:\s*(.*)$")
_ODD_KEY = re.compile(r"^\s*(\w[\w .-]*?)\s*=")
_CURLY = re.compile("[“”„‟″«»]|[‘’‚′]")


def explain_syntax_error(file: str, text: str, error: tomllib.TOMLDecodeError) -> Problem:
    """Return the syntax mistake that the parser found."""
    place = _PLACE.search(str(error))
    message = _PLACE.sub("", str(error))
    end = len(text.rstrip("\n").split("\n"))
    number = int(place[1]) if place is not None and place[1] else end
    if re.search("twice|overwrite|immutable|redefine", message):
        return Problem(file, *_describe_repetition(text, number))
    start, statement = _find_statement(text, len(text))
    return Problem(file, start, "", *_suggest_line(statement.partition("\n")[0], message))


def explain_encoding_error(file: str, error: UnicodeDecodeError) -> Problem:
    """Return the mistake for a file that is not UTF-8."""
    data = error.object
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:200].count(0) > 20:
        return Problem(
            file, 1, "", "it is UTF-16, and must be UTF-8", "Save it again with the encoding UTF-8."
        )
    line = data[: error.start].count(b"\n") + 1
    return Problem(
        file,
        line,
        "",
        f"byte {data[error.start]:#04x} is not UTF-8",
        "Save it again with the encoding UTF-8.",
    )


def _find_statement(text: str, number: int) -> tuple[int, str]:
    """Return the last statement that begins at or before line `number`.

    In invalid TOML, the last statement of the file is the one with the error.
    """
    return [each for each in statements(text) if each[0] <= number][-1]


def _describe_repetition(text: str, number: int) -> tuple[int, str, str, str]:
    """Return line, key, message and suggestion for a repeated table or key."""
    start, statement = _find_statement(text, number)
    key, is_header = _key_of(statement), statement.lstrip().startswith("[")
    earlier = _find_earlier(text, key, start, is_header=is_header)
    first = f", first on line {earlier}" if earlier else ""
    if is_header:
        advice = "Join both under one header, or give this one another name."
        return start, key, f"the table [{key}] is defined twice{first}", advice
    return start, key, f"{key} is defined twice{first}", "Keep one of them."


def _find_earlier(text: str, key: str, number: int, *, is_header: bool) -> int:
    """Return the first line before `number` with the same header or, in the same table, the same
    key; 0 if there is none.
    """
    found = 0
    for start, statement in statements(text):
        if start >= number:
            break
        starts_table = statement.lstrip().startswith("[")
        if starts_table and not is_header:
            found = 0
        if starts_table == is_header and _key_of(statement) == key:
            found = found or start
    return found


def _key_of(statement: str) -> str:
    """Return the key or the table at the start of a statement."""
    return statement.strip().partition("=")[0].strip("[] \t").partition("]")[0]


def _suggest_line(line: str, message: str) -> tuple[str, str]:
    """Return the problem of an invalid line, and what to write instead."""
    plain = line.strip()
    if message == _TOO_DEEP:
        return message, "Write the values in fewer levels."
    if message == _TOO_LONG:
        return message, "Write a shorter number."
    if curly := _CURLY.search(line):
        return (
            f"{curly[0]} is a typographic quotation mark",
            "Write a straight one, \" or ', as a programmer's editor does.",
        )
    if "\\" in line and '"' in line:
        return (
            "in double quotes a \\ begins a special character",
            "Write the path in single quotes, 'C:\\shop\\pets.xlsx', or with /.",
        )
    if plain.startswith(("//", ";", "--", "/*")):
        return "this is not a comment", "A comment begins with #."
    if plain.startswith("["):
        return _of_header(plain, message)
    if (odd := _ODD_KEY.match(line)) and not re.fullmatch(r"[\w.-]+", odd[1], re.ASCII):
        return (
            "a name with a space or with letters beyond a to z must be in quotes",
            f'Write "{odd[1]}" = and the value.',
        )
    if "=" not in plain and (colon := _COLON.match(line)):
        return "this is YAML syntax, not TOML", f"Write {_format_assignment(colon[1], colon[2])}"
    if "=" not in plain and not plain.startswith(("[", '"', "'")):
        name, _, rest = plain.partition(" ")
        return "there is no =", f"Write {_format_assignment(name, rest)}"
    return _of_value(plain, line, message)


def _of_header(plain: str, message: str) -> tuple[str, str]:
    if "]" not in plain:
        return "the header's ] is missing", "Write ] at its end."
    name = plain.strip("[] ").partition("]")[0]
    if re.fullmatch(r"[\w. -]+", name, re.ASCII) and " " in name:
        return "a header's name must not have spaces", f"Write [{name.replace(' ', '-')}]"
    return (
        f"this is not a header: {message[:1].lower()}{message[1:]}",
        "A header looks like [jobs.catalogue].",
    )


def _of_value(plain: str, line: str, message: str) -> tuple[str, str]:
    for mark in ('"', "'"):
        if plain.partition("#")[0].count(mark) % 2:
            return (
                f"a quotation mark ({mark}) is missing",
                "Text begins and ends with the same quotation mark.",
            )
    if "=" in plain and not plain.partition("=")[2].partition("#")[0].strip():
        return "there is no value after the =", "Write a value, or remove the line."
    if (bare := _BARE_VALUE.match(line)) and "Unclosed" not in message:
        assignment = _format_assignment(bare[1].partition("=")[0].strip(), bare[2])
        is_text = assignment.endswith('"')
        return (
            "this value must be in quotes" if is_text else "a flag must be true or false",
            f"Write {assignment}",
        )
    if "Unclosed array" in message or plain.count("[") > plain.count("]"):
        return "a list is not closed, or a comma is missing in it", 'A list: ["a", "b"].'
    if "inline table" in message or plain.count("{") > plain.count("}"):
        return (
            "an inline table { } is not closed, or a comma is missing in it",
            'An inline table looks like this: { a = "b" }.',
        )
    return (
        f"this is not TOML: {message[:1].lower()}{message[1:]}",
        "Compare it with what `petsync init` writes.",
    )


def _format_assignment(key: str, text: str) -> str:
    """Return `key = value` in TOML; a value that may be secret is left out."""
    named = [option for option in OPTIONS if option.name == key.rpartition(".")[2]]
    is_known = named and all(not each.hides and each.words != "a table" for each in named)
    value = _value(text) if is_known else '"…"'
    return f"{key if named else 'key'} = {value}"


def _value(text: str) -> str:
    text = text.strip().rstrip(",")
    lowered = text.casefold()
    if lowered in ("true", "yes", "on"):
        return "true"
    if lowered in ("false", "no", "off"):
        return "false"
    if re.fullmatch(r"\".*\"|'.*'|\[.*\]|\{.*\}", text) or _parse_toml(f"value = {text}"):
        return text
    return f'"{text}"' if text else '"…"'
