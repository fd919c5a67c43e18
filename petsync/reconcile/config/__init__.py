"""The configuration of the reconciliation: petsync.toml, checked as a whole."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from petsync.client.oauth.vault import Vault
from petsync.client.origin import checked_base
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
    Timed,
    Timetable,
)
from petsync.reconcile.config.options import options_of
from petsync.reconcile.config.reader import Found, Reader
from petsync.settings import OF_THE_URL, Secret, Unshown, is_same, read_file
from petsync.trust import is_confirmed

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
    "Timetable",
    "load",
    "timetable",
]

_NAME = "petsync.toml"
_FROM_ENVIRON = ("url", "profile", "state")


def load(
    path: str | Path,
    environ: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
    is_named: bool = True,
) -> Configuration:
    """The configuration in the file, or in the folder's petsync.toml, as `environ` completes it.

    `names` are the variables that `${NAME}` may stand for, besides those of a file that is
    confirmed (`petsync trust`); None: all. A file that nobody has named (`is_named`) nor confirmed
    gets no secret, and keeps to its folder.

    Raises ConfigurationError, whose `problems` are all that is wrong with it, each with file, line,
    key and suggestion; none of them shows a secret.
    """
    reader = Reader(Unshown(environ), names=names)
    read = _read(path, environ, reader)
    _refuse(read, [*reader.found, *_together(read)])
    found = build.configuration(read.path, read.text, read.values, read.drafts, reader.secrets)
    if not (is_named or is_confirmed(read.path, read.raw)):
        _refuse_unconfirmed(found, read.named)
    return found


def _refuse_unconfirmed(found: Configuration, file: Path) -> None:
    """Raise ConfigurationError where the configuration of a file that nobody has named or confirmed
    has a secret, or reads or writes outside of its folder.
    """
    folder = found.path.parent.resolve()
    paths = [found.state, found.report.folder, found.log.file, found.metrics.textfile]
    paths += [path for job in found.jobs for path in (job.sheet, job.folder)]
    away = [each for each in paths if each and not each.resolve().is_relative_to(folder)]
    signed_in = [
        job.url
        for job in found.jobs
        if job.url and Vault(found.state, checked_base(job.url, with_secret=False)).has_mark()
    ]
    if found.secrets or signed_in or away:
        does = f"reaches {away[0]}" if away else "says where secrets go"
        raise ConfigurationError(
            f"{file} {does}, and nobody has confirmed it",
            hint=f"Look at it; then confirm it once (`petsync trust {file}`), or name it: "
            f"`petsync reconcile {file}`.",
        )


def timetable(path: str | Path, environ: Mapping[str, str]) -> Timetable:
    """Which jobs of the file run when. A variable that is not set is no mistake, as what starts
    the jobs may have it. Raises ConfigurationError for what is wrong in any case.
    """
    read = _read(path, environ, Reader(Unshown(environ), is_partial=True))
    # What is left out cannot be held against the rest.
    _refuse(read, [*read.reader.found, *([] if read.reader.lacks else _together(read))])
    jobs = ((each.name, each.values) for each in read.drafts)
    timed = (Timed(name, it.get("schedule", ""), it.get("enabled", True)) for name, it in jobs)
    return Timetable(read.path, tuple(timed))


class _Read(NamedTuple):
    """A file as it was read: `named` as it was given, `path` from the root on."""

    named: Path
    path: Path
    text: str
    raw: Mapping[str, Any]
    values: dict[str, Any]
    drafts: list[Draft]
    reader: Reader


def _read(path: str | Path, environ: Mapping[str, str], reader: Reader) -> _Read:
    given = Path(path)
    file = given / _NAME if given.is_dir() else given
    text = _text(file)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(file, [syntax.problem(str(file), text, error)]) from None
    if reader.names is not None and is_confirmed(file, raw):
        reader.names = None
    values = reader.table("", raw)
    own = values.get("url")
    values |= _from_environ(reader, environ)
    if environ.get("PETSYNC_URL") and (own is None or not is_same(own, values.get("url", own))):
        # How one signs in to the file's own service is not for another one.
        values = {key: value for key, value in values.items() if key not in OF_THE_URL}
    where = Path(os.path.abspath(file))  # noqa: PTH100 - links in it stay, as jobs are relative to it
    found = list(drafts(raw, values, _credentials(reader, environ), where.parent))
    return _Read(file, where, text, raw, values, found, reader)


def _refuse(read: _Read, wrong: list[Found]) -> None:
    """Raise what is wrong, if anything is."""
    if not wrong:
        return
    lines = lines_of(read.text)
    shown = [Found(path, *map(read.reader.as_written, told)) for path, *told in wrong]
    problems = [_problem(read.named, each, line_of(each.path, lines)) for each in shown]
    raise _error(read.named, sorted(problems, key=lambda problem: problem.line))


def _text(file: Path) -> str:
    try:
        return read_file(file)
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


def _together(read: _Read) -> Iterator[Found]:
    for draft in read.drafts:
        yield from checks.checked(draft)
    yield from apart.checked(read.drafts, read.raw, read.values)


def _problem(file: Path, found: Found, line: int) -> Problem:
    return Problem(str(file), line, ".".join(found.path), found.message, found.suggestion)


def _error(file: Path, problems: list[Problem]) -> ConfigurationError:
    lines: list[str] = []
    for problem in problems:
        lines += [str(problem), *([f"  {problem.suggestion}"] if problem.suggestion else [])]
    count = "one mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return ConfigurationError(f"{file} has {count}", problems, hint="\n".join(lines))
