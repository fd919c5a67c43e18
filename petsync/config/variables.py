"""Files of NAME=value lines for the environment, as sh and systemd read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from petsync._files import read_regular
from petsync.errors import SettingsError
from petsync.settings import HiddenEnvironment

__all__ = ["read_variables"]


_MAX_ENV_BYTES = 1 << 20
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_SINGLE, _DOUBLE = re.compile(r"'([^']*)'"), re.compile(r'"([^"\\$`]*)"')
_BARE_WORD = re.compile(r"(?:[\w./:@%+,=?^{}\[\]-]|(?<=[^:])~)*")
"""A value that a shell leaves unchanged without quotes. A shell expands `~` at the start and after
`:`.
"""
_FORM = (
    "Each line is NAME=value; a value with spaces or special characters must be in 'single quotes'."
)


def read_variables(path: Path) -> HiddenEnvironment:
    """Return the variables that a file sets.

    Its lines are NAME=value, empty, or comments with #. A value that sh or systemd would read
    differently is an error: the file must mean the same to petsync, sh and systemd. Raises
    SettingsError, which shows no value.
    """
    return HiddenEnvironment(dict(_variables(path, _decode_lines(path))))


def _decode_lines(path: Path) -> str:
    try:
        content = read_regular(path)
        if len(content) <= _MAX_ENV_BYTES:
            return content.decode("utf-8-sig")
        reason = "it is too long"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not text in UTF-8"
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
        hint = "Remove the word export: systemd does not support it." if is_export else _FORM
        raise SettingsError(f"{place}: this is not NAME=value", hint=hint)
    name, value = found.groups()
    quoted = _SINGLE.fullmatch(value) or _DOUBLE.fullmatch(value)
    if quoted is None and not _BARE_WORD.fullmatch(value):
        raise SettingsError(
            f"{place}: a shell would read the value of {name} differently",
            hint=f"Write {name}='…', in single quotes; the value must not contain single quotes.",
        )
    return name, value if quoted is None else quoted[1]
