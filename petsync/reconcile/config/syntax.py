"""What is wrong with a file that is no TOML: where, and the likeliest way out."""

from __future__ import annotations

import re
import tomllib

from petsync.errors import Problem
from petsync.reconcile.config.lines import statements
from petsync.reconcile.config.options import OPTIONS

__all__ = ["encoding", "problem"]

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_BARE = re.compile(r"^(\s*[\w.\"'-]+\s*=\s*)([^\s\"'\[{#][^#]*?)\s*(#.*)?$")
_COLON = re.compile(r"^\s*[\"']?([\w.-]+)[\"']?\s*:\s*(.*)$")
_ODD_KEY = re.compile(r"^\s*(\w[\w .-]*?)\s*=")
_CURLY = re.compile("[“”„‟″«»]|[‘’‚′]")


def problem(file: str, text: str, error: tomllib.TOMLDecodeError) -> Problem:
    """The mistake that the parser met."""
    place = _PLACE.search(str(error))
    said = _PLACE.sub("", str(error))
    end = len(text.rstrip("\n").split("\n"))
    number = int(place[1]) if place is not None and place[1] else end
    if re.search("twice|overwrite|immutable|redefine", said):
        return Problem(file, *_twice(text, number))
    begun, statement = _last(text, len(text))
    return Problem(file, begun, "", *_meant(statement.partition("\n")[0], said))


def encoding(file: str, error: UnicodeDecodeError) -> Problem:
    """The mistake of a file that is not UTF-8."""
    data = error.object
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:200].count(0) > 20:
        return Problem(
            file, 1, "", "it is UTF-16, and must be UTF-8", "Save it anew with the encoding UTF-8."
        )
    line = data[: error.start].count(b"\n") + 1
    return Problem(
        file,
        line,
        "",
        f"byte {data[error.start]:#04x} is not UTF-8",
        "Save it anew with the encoding UTF-8.",
    )


def _last(text: str, number: int) -> tuple[int, str]:
    """The last statement that begins until that line. Of a text that is no TOML the last of all is
    the one that never ends, or cannot be read.
    """
    return [each for each in statements(text) if each[0] <= number][-1]


def _twice(text: str, number: int) -> tuple[int, str, str, str]:
    """Line, key, message and suggestion where a table or a key is there twice."""
    begun, statement = _last(text, number)
    key, is_header = _named(statement), statement.lstrip().startswith("[")
    earlier = _earlier(text, key, begun, is_header=is_header)
    first = f", first on line {earlier}" if earlier else ""
    if is_header:
        advice = "Join both under one header, or give this one another name."
        return begun, key, f"the table [{key}] is there twice{first}", advice
    return begun, key, f"{key} is there twice{first}", "Keep one of them."


def _earlier(text: str, key: str, number: int, *, is_header: bool) -> int:
    """The line before that of that number on which the table, or in its table the key, is; or 0."""
    found = 0
    for begun, statement in statements(text):
        if begun >= number:
            break
        starts_table = statement.lstrip().startswith("[")
        if starts_table and not is_header:
            found = 0
        if starts_table == is_header and _named(statement) == key:
            found = found or begun
    return found


def _named(statement: str) -> str:
    """The key or the table that a statement begins with."""
    return statement.strip().partition("=")[0].strip("[] \t").partition("]")[0]


def _meant(line: str, said: str) -> tuple[str, str]:
    """What is wrong with a line that cannot be read, and what to write instead."""
    plain = line.strip()
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
        return "this is no comment", "A comment begins with #."
    if plain.startswith("["):
        return _of_header(plain, said)
    if (odd := _ODD_KEY.match(line)) and not re.fullmatch(r"[\w.-]+", odd[1], re.ASCII):
        return (
            "a name with a space or with letters beyond a to z must be in quotes",
            f'Write "{odd[1]}" = and the value.',
        )
    if "=" not in plain and (colon := _COLON.match(line)):
        return "this is written as in YAML", f"Write {_assigned(colon[1], colon[2])}"
    if "=" not in plain and not plain.startswith(("[", '"', "'")):
        name, _, rest = plain.partition(" ")
        return "there is no =", f"Write {_assigned(name, rest)}"
    return _of_value(plain, line, said)


def _of_header(plain: str, said: str) -> tuple[str, str]:
    if "]" not in plain:
        return "the header's ] is missing", "Write ] at its end."
    name = plain.strip("[] ").partition("]")[0]
    if re.fullmatch(r"[\w. -]+", name, re.ASCII) and " " in name:
        return "a header's name has no spaces", f"Write [{name.replace(' ', '-')}]"
    return f"this is no header: {said[:1].lower()}{said[1:]}", "One looks like [jobs.catalogue]."


def _of_value(plain: str, line: str, said: str) -> tuple[str, str]:
    for mark in ('"', "'"):
        if plain.partition("#")[0].count(mark) % 2:
            return (
                f"a quotation mark ({mark}) is missing",
                "Text begins and ends with the same one.",
            )
    if "=" in plain and not plain.partition("=")[2].partition("#")[0].strip():
        return "there is no value after the =", "Write a value, or take the line out."
    if (bare := _BARE.match(line)) and "Unclosed" not in said:
        return (
            "this value must be in quotes",
            f"Write {_assigned(bare[1].partition('=')[0].strip(), bare[2])}",
        )
    if "Unclosed array" in said or plain.count("[") > plain.count("]"):
        return "a list is not closed, or a comma is missing in it", 'A list: ["a", "b"].'
    if "inline table" in said or plain.count("{") > plain.count("}"):
        return "a { } is not closed, or a comma is missing in it", 'Such a table: { a = "b" }.'
    return (
        f"this is no TOML: {said[:1].lower()}{said[1:]}",
        "Compare it with what `petsync init` writes.",
    )


def _assigned(key: str, text: str) -> str:
    """The key with the text as a value of TOML; what may be a secret is left out."""
    named = [option for option in OPTIONS if option.name == key.rpartition(".")[2]]
    is_known = named and all(option.kind and not option.kind.hides for option in named)
    value = _value(text) if is_known else '"…"'
    return f"{key if named else 'key'} = {value}"


def _value(text: str) -> str:
    text = text.strip().rstrip(",")
    lowered = text.casefold()
    if lowered in ("true", "yes", "on"):
        return "true"
    if lowered in ("false", "no", "off"):
        return "false"
    if re.fullmatch(r"[\d.]+|\".*\"|'.*'|\[.*\]|\{.*\}", text):
        return text
    return f'"{text}"' if text else '"…"'
