"""A file of NAME=value lines that completes the environment, read as sh and systemd read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from petsync._file import read_ordinary
from petsync.errors import SettingsError
from petsync.settings import Unshown

__all__ = ["read_variables"]

_MOST = 1 << 20
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_SINGLE, _DOUBLE = re.compile(r"'([^']*)'"), re.compile(r'"([^"\\$`]*)"')
_BARE = re.compile(r"[\w./:@%+,=?^~{}\[\]-]*")
"""What no shell changes in a word without quotes, after a name and =."""
_FORM = "Each line is NAME=value; a value of more than letters and digits in 'single quotes'."


def read_variables(path: Path) -> Unshown:
    """The variables that a file sets. Its lines are NAME=value; empty ones and those that begin
    with # count for nothing. A value that sh or systemd would read otherwise is refused, so that
    the file means the same to all of them. Raises SettingsError, which shows no value.
    """
    return Unshown(dict(_variables(path, _text(path))))


def _text(path: Path) -> str:
    try:
        content = read_ordinary(path)
        if len(content) <= _MOST:
            return content.decode("utf-8-sig")
        reason = "it is too long"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is no text in UTF-8"
    raise SettingsError(f"--env-file {path} cannot be read: {reason}", hint=_FORM)


def _variables(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield _variable(f"{path}:{number}", stripped)


def _variable(place: str, line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        is_export = line.startswith("export ")
        hint = "Take the word export out: systemd knows none." if is_export else _FORM
        raise SettingsError(f"{place}: this is not NAME=value", hint=hint)
    name, value = found.groups()
    quoted = _SINGLE.fullmatch(value) or _DOUBLE.fullmatch(value)
    if quoted is None and not _BARE.fullmatch(value):
        raise SettingsError(
            f"{place}: what {name} is set to would be read otherwise by a shell",
            hint=f"Write {name}='…', in single quotes, of which none may be in it.",
        )
    return name, value if quoted is None else quoted[1]
