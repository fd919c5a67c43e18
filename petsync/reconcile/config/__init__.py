"""The configuration of the reconciliation: petsync.toml, checked as a whole."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from petsync.errors import ConfigurationError, Problem
from petsync.reconcile.config import apart, build, checks, syntax
from petsync.reconcile.config.draft import CREDENTIALS, Draft, drafts
from petsync.reconcile.config.lines import line_of, lines_of
from petsync.reconcile.config.model import (
    EVENTS,
    Configuration,
    Event,
    Job,
    Log,
    Metrics,
    Notify,
    Reports,
)
from petsync.reconcile.config.options import options_of
from petsync.reconcile.config.reader import Found, Reader
from petsync.settings import Secret, Unshown

__all__ = [
    "EVENTS",
    "Configuration",
    "ConfigurationError",
    "Event",
    "Job",
    "Log",
    "Metrics",
    "Notify",
    "Problem",
    "Reports",
    "load",
]

_NAME = "petsync.toml"
_FROM_ENVIRON = ("url", "profile", "state")


def load(path: str | Path, environ: Mapping[str, str]) -> Configuration:
    """The configuration in the file, or in the folder's petsync.toml, as `environ` completes it.

    Raises ConfigurationError, whose `problems` are all that is wrong with it, each with file, line,
    key and suggestion; none of them shows a secret.
    """
    given = Path(path)
    file = given / _NAME if given.is_dir() else given
    text = _text(file)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(file, [syntax.problem(str(file), text, error)]) from None
    reader = Reader(Unshown(environ))
    values = reader.table("", raw)
    values |= _from_environ(reader, environ)
    where = Path(os.path.abspath(file))  # noqa: PTH100 - links in it stay, as jobs are relative to it
    found = list(drafts(raw, values, _credentials(reader, environ), where.parent))
    wrong = [*reader.found, *_together(found, raw, values)]
    if wrong:
        lines = lines_of(text)
        shown = [Found(path, *map(reader.as_written, told)) for path, *told in wrong]
        problems = [_problem(file, each, line_of(each.path, lines)) for each in shown]
        raise _error(file, sorted(problems, key=lambda problem: problem.line))
    return build.configuration(where, text, values, found, reader.secrets)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise ConfigurationError(
            f"there is no {file}", hint="`petsync init` writes one that is explained."
        ) from None
    except UnicodeDecodeError as error:
        problem = syntax.encoding(str(file), error)
        raise _error(file, [problem]) from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None


def _from_environ(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """What PETSYNC_URL and the like say, which comes before the top of the file."""
    top = options_of("")
    values: dict[str, Any] = {}
    for name in _FROM_ENVIRON:
        variable = f"PETSYNC_{name.upper()}"
        if environ.get(variable):
            values |= reader.value(top[name], environ[variable].replace("$", "$$"), (variable,))
    if "state" in values:
        # As everywhere, a variable's path starts where petsync is started.
        values["state"] = Path.cwd() / values["state"].expanduser()
    return values


def _credentials(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """What PETSYNC_TOKEN and the like say."""
    texts = {name: environ.get(f"PETSYNC_{name.upper()}", "").strip() for name in CREDENTIALS}
    given = {name: text for name, text in texts.items() if text}
    values: dict[str, Any] = {
        name: text if name == "client_id" else Secret(text) for name, text in given.items()
    }
    reader.secrets += [value for value in values.values() if isinstance(value, Secret)]
    return values


def _together(
    found: list[Draft], raw: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[Found]:
    for draft in found:
        yield from checks.checked(draft)
    yield from apart.checked(found, raw, values)


def _problem(file: Path, found: Found, line: int) -> Problem:
    return Problem(str(file), line, ".".join(found.path), found.message, found.suggestion)


def _error(file: Path, problems: list[Problem]) -> ConfigurationError:
    lines: list[str] = []
    for problem in problems:
        lines += [str(problem), *([f"  {problem.suggestion}"] if problem.suggestion else [])]
    count = "one mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return ConfigurationError(f"{file} has {count}", problems, hint="\n".join(lines))
