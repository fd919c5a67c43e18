"""Load petsync.toml: read it, check it, and build a configuration; mistakes have line numbers."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from petsync._files import read_regular
from petsync.client.auth.keyring import CredentialStore
from petsync.client.origin import checked_base
from petsync.config.model import (
    EVENTS,
    INHERITED,
    OPTIONS,
    TABLES,
    VARIABLE,
    Configuration,
    Event,
    Job,
    JobSchedule,
    Log,
    Metrics,
    MisfitError,
    Notify,
    Option,
    Reports,
    Table,
    Timetable,
    ValueType,
    options_of,
)
from petsync.config.templates import DEFAULTS, mistakes_in
from petsync.errors import ConfigurationError, Problem, SettingsError
from petsync.plan.guard import Guard
from petsync.profile import ServiceProfile, profile_from
from petsync.settings import (
    OF_THE_URL,
    HiddenEnvironment,
    Secret,
    as_written,
    expand_variables,
    find_nearest,
    is_same,
    read_file,
)
from petsync.trust import SECRETS, is_confirmed, names_in

__all__ = [
    "CREDENTIALS",
    "ENVIRONMENT_TOO",
    "EVENTS",
    "NEEDS",
    "READ",
    "SOURCES",
    "ConfigMistake",
    "Configuration",
    "ConfigurationError",
    "Draft",
    "Event",
    "Job",
    "KeyPath",
    "Log",
    "Metrics",
    "Notify",
    "Problem",
    "Reader",
    "Reports",
    "Timetable",
    "check_job",
    "check_jobs",
    "configuration",
    "drafts",
    "encoding",
    "header_of",
    "line_of",
    "lines_of",
    "load",
    "problem",
    "read_variables",
    "statements",
    "timetable",
]


# Line numbers of the keys in a TOML file, needed only for messages.


KeyPath = tuple[str, ...]


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the text of each statement: a header, a key with its
    value, a comment or an empty line.

    Lines are joined until they can be parsed as one statement. Text that cannot be parsed comes
    last, up to the end of the file.
    """
    held: list[str] = []
    begun = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not held:
            begun = number
        held.append(line)
        if _parse_toml("\n".join(held)) is not None:
            yield begun, "\n".join(held)
            held = []
    if held:
        yield begun, "\n".join(held)


def lines_of(text: str) -> dict[KeyPath, int]:
    """Return the line of each key path of a valid TOML document."""
    found: dict[KeyPath, int] = {(): 1}
    table: KeyPath = ()
    for number, statement in statements(text):
        content = _parse_toml(statement) or {}
        if statement.lstrip().startswith("["):
            table = max(_paths(content, ()), key=len, default=())
            new: Iterator[KeyPath] = (table[:size] for size in range(1, len(table) + 1))
        else:
            new = _paths(content, table)
        for path in new:
            found.setdefault(path, number)
    return found


def line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """Return the line of the path, or of the nearest table around it."""
    return next(lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines)


def _paths(content: Mapping[str, Any], table: KeyPath) -> Iterator[KeyPath]:
    for key, value in content.items():
        path = (*table, key)
        yield path
        inner = value[-1] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from _paths(inner, path)


def _parse_toml(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


# Reader: the tables of petsync.toml as values, and the mistakes in single options.


_LONGEST = 60
_NAMED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ENV_FILE = "Use --env-file to read variables from a file."
_THERE, _OWN_URL = ("PETSYNC_URL",), "${PETSYNC_URL}"
"""A URL that consists only of this variable may use it without confirmation: the user sets it, and
no other server gets the value.
"""
_IN_ENVIRONMENT = ("token", "api_key", "client_secret", "client_id")


class ConfigMistake(NamedTuple):
    """A mistake: the path of its key, the problem, and how to fix it."""

    path: KeyPath
    message: str
    suggestion: str


def header_of(table: str, path: KeyPath) -> str:
    """Return the header of a table for a key with that path, such as `jobs.catalogue.guard`."""
    header = TABLES[table].header
    return header.replace("NAME", path[1]) if path[:1] == ("jobs",) and path[1:] else header


class _UnsetError(SettingsError):
    """A variable in petsync.toml is not set."""


class Reader:
    """Reads tables, and collects mistakes in `found`.

    If `is_partial`, an option whose variable is not set is left out without a mistake, and `lacks`
    becomes true. In a schedule, an unset variable is always a mistake. `names` are the variables
    that may be used, None for all. `secrets` must never be shown; `in_addresses` has the values of
    variables in URLs.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        is_partial: bool = False,
        names: Collection[str] | None = None,
    ) -> None:
        self.names = names
        self.found: list[ConfigMistake] = []
        self.secrets: list[Secret] = []
        self.lacks = False
        self.in_addresses: dict[str, str] = {}
        self._environ = environ
        self._is_partial = is_partial
        self._shown: dict[str, str] = {}

    def table(self, name: str, content: Mapping[str, Any], path: KeyPath = ()) -> dict[str, Any]:
        """Return the values of a table's valid options and of its inner tables."""
        options = options_of(name)
        inner = {t.name: t for t in TABLES.values() if t.name and t.within == name}
        values: dict[str, Any] = {}
        for key, raw in content.items():
            here = (*path, key)
            if key in inner:
                values[key] = self._inner(inner[key], raw, here)
            elif key in options:
                values |= self._option(options[key], raw, here)
            else:
                self._note_unknown(name, {*options, *inner}, here)
        for option in options.values():
            if option.is_required and option.name not in content:
                self._tell(
                    path,
                    f"{option.name} is missing",
                    f"Write {option.name} = {option.example}, or another {option.name}.",
                )
        return values

    def value(self, option: Option, raw: str, path: KeyPath) -> dict[str, Any]:
        """Return {name: value} for an option whose value comes from outside the file, {} if the
        value is invalid.
        """
        return self._option(option, raw, path)

    def as_written(self, text: str) -> str:
        """Return the text with `${NAME}` instead of the variables' values."""
        return as_written(text, self._shown)

    def _tell_error(self, option: Option, here: KeyPath, error: SettingsError) -> None:
        """Add the error to the mistakes, unless it is about a variable that may be unset."""
        is_unset = self._is_partial and isinstance(error, _UnsetError)
        if not is_unset or option.name == "schedule":
            self._tell(here, error.message, error.hint)

    def _tell(self, path: KeyPath, message: str, suggestion: str) -> None:
        self.found.append(ConfigMistake(path, message, suggestion))

    def _inner(self, table: Table, raw: object, here: KeyPath) -> dict[str, Any]:
        header = header_of(table.name, here)
        if not isinstance(raw, dict):
            text = "a list of tables" if isinstance(raw, list) else _format_value(raw)
            self._tell(here, f"is {text}, and must be a table", f"Write [{header}] above it.")
            return {}
        if table.names is None:
            return self.table(table.name, raw, here)
        return {
            name: self._read_named(table, name, entry, (*here, name)) for name, entry in raw.items()
        }

    def _read_named(self, table: Table, name: str, raw: object, here: KeyPath) -> dict[str, Any]:
        if not isinstance(raw, dict):
            is_option = name in options_of(table.name)
            what = f"{name} belongs to one of the {table.name}" if is_option else "is not a table"
            header = TABLES[table.name].header
            self._tell(
                here,
                what,
                f"Write [{header}] above it, with a name in place of the header's last part.",
            )
            return {}
        try:
            if table.names is not None:
                table.names.read(name)
        except MisfitError as wrong:
            advice = wrong.advice or (wrong.instead and f"Did you mean {wrong.instead}?")
            self._tell(here, f"the name must be {wrong.must}", advice or "Choose one of these.")
        return self.table(table.name, raw, here)

    def _option(self, option: Option, raw: object, here: KeyPath) -> dict[str, Any]:
        if option.entry is not None:
            return {option.name: self._entries(option, raw, here)}
        assert option.kind is not None
        kind = option.kind
        if kind.hides and self._is_open_secret(option, kind, raw, here):
            return {}
        if isinstance(raw, str) and kind.schema.get("type") == "array":
            # A value with a variable is shown as written.
            self._tell(
                here, f"must be {kind.words}", f"Write {option.name} = [{_format_value(raw)}]."
            )
            return {}
        try:
            is_own = kind.hides == "address" and raw == _OWN_URL
            also = SECRETS if kind.hides == "whole" else frozenset(_THERE if is_own else ())
            value = kind.read(self._expand(raw, also=also) if kind.is_filled else raw)
            if kind.hides == "address":
                self.in_addresses |= {f"${{{n}}}": self._environ[n] for n in names_in(raw)}
            return {option.name: self._mask(value) if kind.is_masked else value}
        except SettingsError as error:
            self._tell_error(option, here, error)
        except MisfitError as wrong:
            self._tell_wrong(option, here, raw, wrong, is_hidden=bool(kind.hides))
        return {}

    def _entries(self, option: Option, raw: object, here: KeyPath) -> dict[str, Any]:
        entry = option.entry
        assert entry is not None
        if not isinstance(raw, dict):
            self._tell(
                here,
                f"is {_format_value(raw)}, and must be a table",
                f"Write {option.name} = {option.example}.",
            )
            return {}
        values: dict[str, Any] = {}
        for key, value in raw.items():
            try:
                if entry.keys and key not in entry.keys:
                    self._note_unknown(option.name, {*entry.keys}, (*here, key))
                else:
                    values[key] = entry.read(key, self._expand(value))
            except SettingsError as error:
                self._tell_error(option, (*here, key), error)
            except MisfitError as wrong:
                self._tell_wrong(option, (*here, key), value, wrong, is_hidden=wrong.is_hidden)
        return values

    def _expand(self, raw: Any, *, also: Collection[str] = ()) -> Any:
        """Return the text or texts with variables expanded; the names in `also` are allowed too."""
        if isinstance(raw, list):
            return [self._expand(item, also=also) for item in raw]
        if not isinstance(raw, str):
            return raw
        is_unset = any(not self._environ.get(name) for name in _NAMED.findall(raw) if name)
        if is_unset and self._is_partial:
            self.lacks = True
        try:
            names = None if self.names is None else {*self.names, *also}
            text = expand_variables(raw, self._environ, names)
        except SettingsError as error:
            if not is_unset:
                raise
            raise _UnsetError(error.message, hint=f"{error.hint} {_ENV_FILE}") from None
        for found in re.finditer(VARIABLE, raw):
            self._shown[found[0]] = self._environ[found[0][2:-1]]
        return text

    def _mask(self, value: Any) -> Any:
        """Return the text or texts as secrets; record them and any password in them."""
        if isinstance(value, tuple):
            return tuple(self._mask(text) for text in value)
        secret = Secret(value.strip())
        self.secrets += [secret, *map(Secret, filter(None, [_password(value)]))]
        return secret

    def _tell_wrong(
        self, option: Option, here: KeyPath, raw: Any, wrong: MisfitError, *, is_hidden: bool
    ) -> None:
        is_part = wrong.part is not None and isinstance(raw, list)
        value = raw[wrong.part] if is_part else raw
        if is_hidden:
            message = f"must be {wrong.must}"
        elif is_part:
            message = f"has {_format_value(value)}, which must be {wrong.must}"
        else:
            message = f"is {_format_value(value)}, and must be {wrong.must}"
        suggestion = wrong.advice or f"Write, for example, {option.name} = {option.example}."
        if (
            isinstance(value, str)
            and re.search(VARIABLE, value)
            and not (is_hidden and wrong.advice)
        ):
            suggestion = "Set the variable to another value, or write the value here."
        elif wrong.instead and is_part:
            suggestion = f"Write {wrong.instead} there."
        elif wrong.instead:
            suggestion = f"Write {_key(here[-1])} = {wrong.instead}."
        self._tell(here, message, suggestion)

    def _is_open_secret(self, option: Option, kind: ValueType, raw: object, here: KeyPath) -> bool:
        texts = raw if isinstance(raw, list) else [raw]
        is_open = _is_literal if kind.hides == "whole" else _has_password
        if not any(isinstance(text, str) and is_open(text) for text in texts):
            return False
        if kind.hides == "address":
            advice = "Remove user and password from it; write token or api_key in the job."
        else:
            named = next((name for text in texts if (name := self._named_in(text))), "")
            example = re.sub(VARIABLE, lambda found: named or found[0], option.example)
            advice = f"Put it into an environment variable, and write {option.name} = {example}."
        what = "a secret" if kind.hides == "whole" else "a password"
        self._tell(here, f"{what} does not belong in a file", advice)
        return True

    def _named_in(self, text: object) -> str:
        """Return `${NAME}` if the text is an existing variable in another notation, else ""."""
        found = re.fullmatch(r"[$%{(]+(?:env[:.])?(\w+)[)}%]*", str(text), re.ASCII)
        return f"${{{found[1]}}}" if found and found[1] in self._environ else ""

    def _note_unknown(self, table: str, known: set[str], here: KeyPath) -> None:
        key = here[-1]
        options = options_of(table) if table in TABLES else {}
        if not table and key in _IN_ENVIRONMENT:
            self._tell(
                here,
                "it does not belong at the top of a file that is shared",
                f"Set PETSYNC_{key.upper()}, or write {key} = "
                f'"${{NAME}}" in a job. If it contains a secret, revoke it.',
            )
            return
        also = next((name for name, o in options.items() if key.casefold() in o.also), "")
        near = also or find_nearest(key, known)
        homes: list[str] = [o.table for o in OPTIONS if o.name == key and o.table != table]
        homes += [key] if key in TABLES else []
        if homes and not also:
            header = header_of(homes[0], here)
            where = f"under [{header}]" if header else "at the top of the file, above the first ["
            self._tell(here, "there is no such option here", f"It belongs {where}.")
        elif near:
            self._tell(here, "there is no such option", f"Did you mean {near}?")
        elif far := find_nearest(key, [option.name for option in OPTIONS]):
            home = next(option.table for option in OPTIONS if option.name == far)
            advice = f"Did you mean {far}, under [{header_of(home, here)}]?"
            self._tell(here, "there is no such option", advice)
        else:
            self._tell(
                here, "there is no such option", f"The options are: {', '.join(sorted(known))}."
            )


def _is_literal(text: str) -> bool:
    """Return true if the text is not just a variable."""
    return re.fullmatch(VARIABLE, text) is None


def _has_password(text: str) -> bool:
    """Return true if a URL has a password that is not a variable."""
    return _is_literal(_password(text) or "${NONE}")


def _password(address: str) -> str:
    """Return the password in a URL, "" if there is none. For an invalid URL, return all text before
    the last @.
    """
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return address.rpartition("@")[0]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _format_value(value: object) -> str:
    """Return the value as TOML, shortened if it is long, or a phrase such as "a table"."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool | str | int | list):
        try:
            text = json.dumps(value, ensure_ascii=False)
        except TypeError:
            text = "a list"
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# Draft: a job from the file, with defaults from the top of the file, before it becomes a Job.


CREDENTIALS = ("token", "api_key", "client_id", "client_secret")


@dataclass(frozen=True, slots=True)
class Draft:
    """A job that is not checked yet."""

    name: str
    raw: Mapping[str, Any]
    """The job's table as written."""
    own: Mapping[str, Any]
    """The valid values of that table."""
    values: Mapping[str, Any]
    """`own` with the values from the top of the file and the environment; paths are absolute."""
    home: Path
    """The folder of the file."""

    def resolve(self, path: Path) -> Path:
        """Return a path from the file as an absolute path; a relative path starts at the file's
        folder.
        """
        return self.home / path.expanduser()

    def mistake(self, key: str, message: str, suggestion: str) -> ConfigMistake:
        """Return a mistake in one of the job's options, or in the job if `key` is ""."""
        path = ("jobs", self.name, *([key] if key else []))
        return ConfigMistake(path, message, suggestion)

    def is_filled(self, key: str) -> bool:
        """Return true if the option has a variable; its value must then not be shown."""
        return re.search(VARIABLE, str(self.raw.get(key, ""))) is not None

    @property
    def mode(self) -> str:
        """The mode, "" if it is missing or invalid."""
        return str(self.own.get("mode", ""))

    @property
    def profile(self) -> ServiceProfile:
        """The service's profile, with the overrides of `[service]`."""
        name = self.values.get("profile", "standard")
        return profile_from(name, self.values.get("service", {}))

    @property
    def source(self) -> str:
        """`sheet`, `folder` or `query`; "" if none or more than one is given."""
        named = [key for key in ("sheet", "folder", "query") if self.values.get(key)]
        return named[0] if len(named) == 1 else ""


def drafts(
    raw: Mapping[str, Any],
    values: Mapping[str, Any],
    credentials: Mapping[str, Any],
    folder: Path,
) -> Iterator[Draft]:
    """Yield a draft of each job of a file in `folder`.

    `credentials` are those of the environment.
    """
    jobs = values.get("jobs", {})
    urls = {own.get("url", values.get("url")) for own in jobs.values()}
    # The store that the environment's secrets are for: the default one, or the only one.
    home = values.get("url", next(iter(urls)) if len(urls) == 1 else None)
    for name, own in jobs.items():
        if isinstance(raw["jobs"][name], dict):
            is_home = own.get("url", home) == home
            joined = _merge_tables(own, values, credentials if is_home else None, folder)
            if "url" in raw:
                # An invalid url at the top is already among the mistakes.
                joined.setdefault("url", "")
            yield Draft(name, raw["jobs"][name], own, joined, folder)


def _merge_tables(
    own: Mapping[str, Any],
    top: Mapping[str, Any],
    credentials: Mapping[str, Any] | None,
    folder: Path,
) -> dict[str, Any]:
    """Return the values of a job; `credentials` is None if they are for another store."""
    joined = {key: top[key] for key in INHERITED if key in top} | dict(own)
    joined["service"] = {**top.get("service", {}), **own.get("service", {})}
    # The job's header for a column replaces the top-level header for that column.
    mapped = own.get("columns", {})
    joined["columns"] = {
        **{
            h: column
            for h, column in top.get("columns", {}).items()
            if column not in mapped.values()
        },
        **mapped,
    }
    if credentials is None and "auth" not in own:
        # The sign-in server of another store must not get this store's secrets.
        joined.pop("auth", None)
    if credentials is not None and not any(key in own for key in CREDENTIALS):
        joined |= credentials
    for key in ("sheet", "folder", "query_file"):
        if key in joined:
            joined[key] = folder / joined[key].expanduser()
    return joined


# Mistakes in the combination of a job's options.


READ = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm")
"""The file name endings of sheets."""
SOURCES = ("sheet", "folder", "query", "query_file")
_QUERIES = ("query", "query_file")
NEEDS = {
    "tab": ("sheet", "folder"),
    "encoding": ("sheet", "folder"),
    "files": ("folder",),
    "database": _QUERIES,
    "query": ("database",),
    "query_file": ("database",),
    "client_secret": ("client_id",),
}
"""Options that need another option, each with the options of which it needs one."""
ENVIRONMENT_TOO = {"client_secret": "client_id"}
"""Options of NEEDS, each with the needed option that may come from the environment."""


def check_job(draft: Draft) -> Iterator[ConfigMistake]:
    """Yield the mistakes in the combination of a job's options."""
    for check in _CHECKS:
        yield from check(draft)


def _source(draft: Draft) -> Iterator[ConfigMistake]:
    given = [key for key in SOURCES if key in draft.raw]
    if not given:
        yield draft.mistake(
            "",
            "the job has nothing to compare with the store",
            'Write sheet = "catalogue.xlsx", or a folder, or a query.',
        )
    for key in given[1:]:
        yield draft.mistake(
            key,
            f"the job has {given[0]} too, and can have only one of them",
            f"Keep {given[0]} or {key}, and make another job for the other.",
        )


def _companions(draft: Draft) -> Iterator[ConfigMistake]:
    for key, needed in NEEDS.items():
        if key in draft.raw and not any(name in draft.raw for name in needed):
            if key in ENVIRONMENT_TOO and draft.values.get(ENVIRONMENT_TOO[key]):
                continue
            names = " or ".join(needed)
            yield draft.mistake(
                key, f"it has no effect without {names}", f"Write {names} too, or remove {key}."
            )


def _query_file(draft: Draft) -> Iterator[ConfigMistake]:
    path = draft.values.get("query_file")
    if path is None:
        return
    try:
        if read_file(path).strip():
            return
        reason = "it is empty"
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    yield draft.mistake(
        "query_file",
        f"{path} cannot be used: {reason}",
        "Write the SELECT into it, or name the file that has it.",
    )


def _of_mode(draft: Draft) -> Iterator[ConfigMistake]:
    for key in _QUERIES:
        if key in draft.raw and draft.mode in ("pull", "two-way"):
            yield draft.mistake(
                key,
                f'mode "{draft.mode}" writes to the sheet, and nothing is written to a database',
                'Write mode = "push" or mode = "check", or name a sheet.',
            )
    if "on_conflict" in draft.raw and draft.mode and draft.mode != "two-way":
        yield draft.mistake(
            "on_conflict",
            f'in mode "{draft.mode}" there are no conflicts to resolve',
            'Remove it, or write mode = "two-way".',
        )


def _endings(draft: Draft) -> Iterator[ConfigMistake]:
    for key in ("sheet", "files"):
        # A name with a variable is shown as written.
        name = str(draft.raw[key] if draft.is_filled(key) else draft.own.get(key, ""))
        ending = name[name.rfind(".") :].casefold() if "." in name else ""
        is_open = key == "files" and ("*" in ending or not ending)
        path = draft.own.get(key, "")
        if not path or is_open or str(path).casefold().endswith(READ):
            continue
        near = f"{name[: len(name) - len(ending)]}{find_nearest(ending, READ) or '.xlsx'}"
        advice = "" if draft.is_filled(key) else f', and write {key} = "{near}"'
        yield draft.mistake(
            key,
            f"{ending or 'a file without an ending'} is not a supported sheet format; the "
            f"supported formats are: {', '.join(READ)}",
            f"Save it as one of these{advice}.",
        )


def _statuses(draft: Draft) -> Iterator[ConfigMistake]:
    profile = draft.profile
    for status in draft.own.get("statuses", ()):
        if status in profile.statuses or profile.any_status:
            continue
        near = find_nearest(status, profile.statuses)
        meant = f'Did you mean "{near}"? ' if near else ""
        yield draft.mistake(
            "statuses",
            f'the service has no status "{status}"; it has {", ".join(profile.statuses)}',
            f"{meant}If the service does have this status, add it to statuses under [service].",
        )


def _columns(draft: Draft) -> Iterator[ConfigMistake]:
    seen: dict[str, str] = {}
    for header, column in draft.values["columns"].items():
        if column in seen:
            yield draft.mistake(
                "columns",
                f'"{seen[column]}" and "{header}" are both the column {column}',
                "Keep the header that the sheet has.",
            )
        seen[column] = header


def _ways_in(draft: Draft) -> Iterator[ConfigMistake]:
    if "token" in draft.raw and "client_secret" in draft.raw:
        yield draft.mistake(
            "client_secret", "the job has a token too: two ways to sign in", "Keep one of them."
        )


def _address(draft: Draft) -> Iterator[ConfigMistake]:
    url = draft.values.get("url", "")
    if "url" not in {**draft.values, **draft.raw}:
        yield draft.mistake(
            "",
            "no service is named, either here or at the top of the file",
            'Write url = "https://shop.example/v2" at the top, or set PETSYNC_URL.',
        )
    if not url or not any(draft.values.get(key) for key in ("token", "api_key", "auth")):
        return
    from petsync.client.origin import is_loopback

    parts = urlsplit(url)
    host = parts.hostname or ""
    allowed = draft.values.get("allow_http", ())
    if parts.scheme == "http" and not is_loopback(host) and host not in allowed:
        yield draft.mistake(
            "url" if "url" in draft.raw else "",
            f"a secret for {host} would travel unencrypted over http",
            f'Use https, or write allow_http = ["{host}"].',
        )


_CHECKS: tuple[Callable[[Draft], Iterator[ConfigMistake]], ...] = (
    _source,
    _companions,
    _query_file,
    _of_mode,
    _endings,
    _statuses,
    _columns,
    _ways_in,
    _address,
)


# Mistakes in the combination of jobs and tables, such as jobs that undo each other's work.


_WRITES_SHEET = ("pull", "two-way")
_WRITES_STORE = ("push", "two-way")


def check_jobs(
    drafts: Sequence[Draft], raw: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[ConfigMistake]:
    """Yield the mistakes in the combination of jobs and tables; `raw` and `values` are those of the
    whole file.
    """
    if not raw.get("jobs"):
        yield ConfigMistake(
            (), "there is no job", "Write [jobs.catalogue]; `petsync init` shows how."
        )
    for first, second in combinations(drafts, 2):
        yield from _pair(first, second)
    for output in (("log", "file"), ("metrics", "textfile")):
        yield from _check_output(output, drafts, values)
    yield from _metrics(values.get("metrics", {}))
    for event, texts in values.get("notify", {}).get("templates", {}).items():
        for part, text in texts.items():
            for mistake in mistakes_in(text):
                path = ("notify", "templates", event, part)
                yield ConfigMistake(path, mistake, "docs/notifications.md lists the names.")


def _pair(first: Draft, second: Draft) -> Iterator[ConfigMistake]:
    """Yield the mistakes in the combination of two jobs; each is reported at the second job."""
    modes = (first.mode, second.mode)
    if first.name.casefold() == second.name.casefold():
        yield second.mistake(
            "",
            f'its name differs from "{first.name}" only in letter case; files are named after it',
            "Give one of the jobs another name.",
        )
    for owner, other in ((first, second), (second, first)):
        if _has_file_of(owner, other):
            yield second.mistake(
                "",
                f'a state file of job "{other.name}" would have the same name as a state file of '
                f"job "
                f'"{owner.name}"',
                "Give one of the jobs another name.",
            )
    if "check" in modes or "" in modes:
        return
    if _share_sheet(first, second):
        yield from _same_sheet(first, second)
    elif _same_store(first, second) and _overlap(first, second):
        yield from _same_pets(first, second)


def _has_file_of(owner: Draft, other: Draft) -> bool:
    """Return true if the state files of `other` have names that `owner` also uses.

    `owner` uses such names for the plan of its sheet, or for the state of its folder's files.
    """
    name, rest = owner.name.casefold(), other.name.casefold()
    is_part = owner.source == "folder" and rest.startswith(f"{name}--")
    return is_part or rest == f"{name}.sheet"


def _same_sheet(first: Draft, second: Draft) -> Iterator[ConfigMistake]:
    writer = next((job for job in (first, second) if job.mode in _WRITES_SHEET), None)
    key = second.source
    if writer is not None:
        yield second.mistake(
            key,
            f'job "{first.name}" works with the same sheet, and job "{writer.name}" writes it: '
            "each would undo what the other does",
            'Combine them into one job with mode = "two-way", or give each a sheet of its own.',
        )
    elif _same_store(first, second) and first.own.get("tab") == second.own.get("tab"):
        yield second.mistake(
            key,
            f'job "{first.name}" sends the same sheet to the same store',
            "Remove one of the two, or name another tab, sheet or url.",
        )


def _same_pets(first: Draft, second: Draft) -> Iterator[ConfigMistake]:
    """Yield a mistake if one job pushes again what the other, a two-way job, deletes."""
    for pushed, other in ((first, second), (second, first)):
        deletes = other.mode == "two-way" and other.own.get("delete_missing")
        if pushed.mode == "push" and deletes:
            yield second.mistake(
                "delete_missing" if other is second else "mode",
                f'job "{pushed.name}" adds again what job "{other.name}" deletes in the store, '
                "because it sends its own sheet",
                f"Give each of them pets of its own (statuses, tags), "
                f'or remove delete_missing from "{other.name}".',
            )


def _same_store(first: Draft, second: Draft) -> bool:
    return first.values.get("url") == second.values.get("url")


def _overlap(first: Draft, second: Draft) -> bool:
    """Return true if a pet may be in the scope of both jobs."""
    return all(
        _meet(first.own.get(key, ()), second.own.get(key, ())) for key in ("statuses", "tags")
    )


def _meet(ours: Sequence[str], others: Sequence[str]) -> bool:
    return not ours or not others or bool({*ours} & {*others})


def _share_sheet(first: Draft, second: Draft) -> bool:
    for one, other in ((first, second), (second, first)):
        if one.source == "sheet" == other.source:
            return _path_of(one, "sheet") == _path_of(other, "sheet")
        if one.source == "sheet" and other.source == "folder":
            folder, name = os.path.split(_path_of(one, "sheet"))
            return folder == _path_of(other, "folder") and fnmatch(name, _files(other))
    if first.source == "folder" == second.source:
        # Different patterns may match the same file; that is not checked.
        same = _path_of(first, "folder") == _path_of(second, "folder")
        return same and (_files(first) == _files(second) or "*" in (_files(first), _files(second)))
    return False


def _path_of(draft: Draft, key: str) -> str:
    return _normalize_path(draft.values[key])


def _files(draft: Draft) -> str:
    return str(draft.own.get("files", "*"))


def _check_output(
    path: tuple[str, str], drafts: Sequence[Draft], values: Mapping[str, Any]
) -> Iterator[ConfigMistake]:
    """Yield a mistake if an output file is also a job's source."""
    table, key = path
    file = values.get(table, {}).get(key)
    if file is None:
        return
    for draft in drafts:
        own = [draft.values[name] for name in ("sheet", "query_file") if name in draft.values]
        folder = draft.values.get("folder")
        where = draft.resolve(file)
        is_in = folder is not None and _is_same_path(folder, where.parent)
        is_sheet = where.suffix.casefold() in READ
        if (is_in and is_sheet) or any(_is_same_path(each, where) for each in own):
            yield ConfigMistake(
                path,
                f'is "{file}", from which job "{draft.name}" reads',
                f'For example: {key} = "petsync.{"log" if table == "log" else "prom"}".',
            )


def _is_same_path(first: object, second: object) -> bool:
    return _normalize_path(first) == _normalize_path(second)


def _normalize_path(path: object) -> str:
    return os.path.normcase(os.path.normpath(str(path)))


def _metrics(metrics: Mapping[str, Any]) -> Iterator[ConfigMistake]:
    textfile = metrics.get("textfile")
    if textfile is not None and textfile.suffix != ".prom":
        yield ConfigMistake(
            ("metrics", "textfile"),
            f'is "{textfile}", and node_exporter reads only names that end in .prom',
            f'Write textfile = "{textfile.with_suffix(".prom")}".',
        )
    listen = metrics.get("listen", "")
    if not listen or metrics.get("public"):
        return
    from petsync.client.origin import is_loopback

    host, _, port = listen.rpartition(":")
    if not is_loopback(host.strip("[]")):
        yield ConfigMistake(
            ("metrics", "listen"),
            f'at "{host}" other machines can read the metrics too',
            f'Write listen = "127.0.0.1:{port}", or, if this is intended, public = true.',
        )


# Build the Configuration from checked values.


_FIELDS = {each.name for each in fields(Job)}
_KEPT_BY_DEFAULT = 90


def configuration(
    path: Path,
    text: str,
    values: Mapping[str, Any],
    drafts: Sequence[Draft],
    secrets: Sequence[Secret],
) -> Configuration:
    """Return the configuration of a file without mistakes."""
    folder = path.parent
    state = folder / values.get("state", Path(".petsync")).expanduser()
    lines = _Lines(text)
    return Configuration(
        path=path,
        state=state,
        jobs=tuple(_job(draft, lines) for draft in drafts),
        notify=_notify(values.get("notify", {})),
        report=_reports(values.get("report", {}), folder, state),
        log=Log(**_with_path(values.get("log", {}), "file", folder)),
        metrics=Metrics(
            **{
                key: value
                for key, value in _with_path(values.get("metrics", {}), "textfile", folder).items()
                if key != "public"
            }
        ),
        tracing=values.get("tracing", {}).get("enabled", False),
        secrets=tuple(dict.fromkeys(secrets)),
    )


class _Lines:
    """Finds the lines of the jobs' headers; parses the whole file only if a text search fails."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, job: str) -> int:
        """Return the line of the job's header."""
        name = f"(?:{re.escape(job)}|\"{re.escape(job)}\"|'{re.escape(job)}')"
        header = re.compile(rf"^[ \t]*\[[ \t]*jobs[ \t]*\.[ \t]*{name}[ \t]*\]", re.MULTILINE)
        found = header.search(self._text)
        if found is not None:
            return self._text.count("\n", 0, found.start()) + 1
        return lines_of(self._text).get(("jobs", job), 1)


def _job(draft: Draft, lines: _Lines) -> Job:
    values = {key: value for key, value in draft.values.items() if key in _FIELDS}
    if "query_file" in draft.values:
        values["query"] = read_file(draft.values["query_file"])
    for key in ("statuses", "tags", "allow_http", "match_on"):
        values[key] = tuple(values.get(key, ()))
    values["guard"] = Guard(**draft.own.get("guard", {}))
    return Job(name=draft.name, line=lines.of(draft.name), **values)


def _notify(values: Mapping[str, Any]) -> Notify:
    templates = {
        event: (texts.get("title", usual[0]), texts.get("body", usual[1]))
        for event, usual in DEFAULTS.items()
        if (texts := values.get("templates", {}).get(event))
    }
    return Notify(**{**values, "templates": templates})


def _reports(values: Mapping[str, Any], folder: Path, state: Path) -> Reports:
    placed = _with_path(values, "folder", folder)
    where = placed.get("folder", state / "reconcile" / "reports")
    return Reports(
        folder=where,
        keep=values.get("keep", _KEPT_BY_DEFAULT) or None,
        is_private="folder" not in placed,
    )


def _with_path(values: Mapping[str, Any], key: str, folder: Path) -> dict[str, Any]:
    """Return the values, with the path of this key made absolute; a relative path starts at
    `folder`.
    """
    placed = {key: folder / values[key].expanduser()} if key in values else {}
    return {**values, **placed}


# Mistakes in a file that is not TOML: the line, and the most likely fix.


_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_BARE_VALUE = re.compile(r"^(\s*[\w.\"'-]+\s*=\s*)([^\s\"'\[{#][^#]*?)\s*(#.*)?$")
_COLON = re.compile(r"^\s*[\"']?([\w.-]+)[\"']?\s*:\s*(.*)$")
_ODD_KEY = re.compile(r"^\s*(\w[\w .-]*?)\s*=")
_CURLY = re.compile("[“”„‟″«»]|[‘’‚′]")


def problem(file: str, text: str, error: tomllib.TOMLDecodeError) -> Problem:
    """Return the syntax mistake that the parser found."""
    place = _PLACE.search(str(error))
    message = _PLACE.sub("", str(error))
    end = len(text.rstrip("\n").split("\n"))
    number = int(place[1]) if place is not None and place[1] else end
    if re.search("twice|overwrite|immutable|redefine", message):
        return Problem(file, *_describe_repetition(text, number))
    begun, statement = _find_statement(text, len(text))
    return Problem(file, begun, "", *_suggest_line(statement.partition("\n")[0], message))


def encoding(file: str, error: UnicodeDecodeError) -> Problem:
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
    begun, statement = _find_statement(text, number)
    key, is_header = _key_of(statement), statement.lstrip().startswith("[")
    earlier = _find_earlier(text, key, begun, is_header=is_header)
    first = f", first on line {earlier}" if earlier else ""
    if is_header:
        advice = "Join both under one header, or give this one another name."
        return begun, key, f"the table [{key}] is defined twice{first}", advice
    return begun, key, f"{key} is defined twice{first}", "Keep one of them."


def _find_earlier(text: str, key: str, number: int, *, is_header: bool) -> int:
    """Return the first line before `number` with the same header or, in the same table, the same
    key; 0 if there is none.
    """
    found = 0
    for begun, statement in statements(text):
        if begun >= number:
            break
        starts_table = statement.lstrip().startswith("[")
        if starts_table and not is_header:
            found = 0
        if starts_table == is_header and _key_of(statement) == key:
            found = found or begun
    return found


def _key_of(statement: str) -> str:
    """Return the key or the table at the start of a statement."""
    return statement.strip().partition("=")[0].strip("[] \t").partition("]")[0]


def _suggest_line(line: str, message: str) -> tuple[str, str]:
    """Return the problem of an invalid line, and what to write instead."""
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
        return (
            "this value must be in quotes",
            f"Write {_format_assignment(bare[1].partition('=')[0].strip(), bare[2])}",
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


# Load and check a whole petsync.toml.


_NAME = "petsync.toml"
_FROM_ENVIRON = ("url", "profile", "state")


def load(
    path: str | Path,
    environ: Mapping[str, str],
    *,
    names: Collection[str] | None = None,
    is_named: bool = True,
) -> Configuration:
    """Return the configuration of the file, or of the folder's petsync.toml.

    It is read with the variables in `environ`. `names` are the variables that `${NAME}` may use;
    None for all. A confirmed file (`petsync trust`) may use all. If a file is neither named by the
    user (`is_named`) nor confirmed, there must be no secret, not even in `environ` (PETSYNC_TOKEN
    etc.), no saved sign-in for a job's service, and no path outside of the file's folder.

    Raises ConfigurationError. Its `problems` are all mistakes, each with file, line, key and
    suggestion; none shows a secret.
    """
    reader = Reader(HiddenEnvironment(environ), names=names)
    read = _read_file(path, environ, reader)
    _refuse(read, [*reader.found, *_check_combined(read)])
    found = configuration(read.path, read.text, read.values, read.drafts, reader.secrets)
    found = replace(found, in_addresses=HiddenEnvironment(reader.in_addresses))
    if not (is_named or is_confirmed(read.path, read.raw)):
        _refuse_unconfirmed(found, read)
    return found


def _refuse_unconfirmed(found: Configuration, read: _ConfigFile) -> None:
    """Raise ConfigurationError if the file or the environment provides a secret, if a sign-in is
    saved for a job's service, or if a path is outside of the file's folder.

    Called for a file that the user has neither named nor confirmed.
    """
    file = read.named
    folder = found.path.parent.resolve()
    paths = [found.state, found.report.folder, found.log.file, found.metrics.textfile]
    paths += [path for job in found.jobs for path in (job.sheet, job.folder)]
    away = [each for each in paths if each and not each.resolve().is_relative_to(folder)]
    signed_in = [
        job.url
        for job in found.jobs
        if job.url
        and CredentialStore(found.state, checked_base(job.url, with_secret=False)).has_entry()
    ]
    if found.secrets or signed_in or away:
        does = "decides where secrets go"
        if away:
            does = f"uses {read.reader.as_written(str(away[0]))}"
        raise ConfigurationError(
            f"{file} {does}, and is not confirmed",
            hint=f"Look at it; then confirm it once (`petsync trust {file}`), or name it: "
            f"`petsync reconcile {file}`.",
        )


def timetable(path: str | Path, environ: Mapping[str, str]) -> Timetable:
    """Return when each job of the file runs.

    An unset variable is a mistake only in a schedule: the scheduler that starts the jobs may set
    the others. If any variable is unset, combinations of options are not checked. Raises
    ConfigurationError for all other mistakes.
    """
    read = _read_file(path, environ, Reader(HiddenEnvironment(environ), is_partial=True))
    # With options left out, checks of combinations would be wrong.
    _refuse(read, [*read.reader.found, *([] if read.reader.lacks else _check_combined(read))])
    jobs = ((each.name, each.values) for each in read.drafts)
    timed = (
        JobSchedule(name, it.get("schedule", ""), it.get("enabled", True)) for name, it in jobs
    )
    return Timetable(read.path, tuple(timed))


class _ConfigFile(NamedTuple):
    """A file as it was read: `named` is the given path, `path` is absolute."""

    named: Path
    path: Path
    text: str
    raw: Mapping[str, Any]
    values: dict[str, Any]
    drafts: list[Draft]
    reader: Reader


def _read_file(path: str | Path, environ: Mapping[str, str], reader: Reader) -> _ConfigFile:
    given = Path(path)
    file = given / _NAME if given.is_dir() else given
    text = _text(file)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(file, [problem(str(file), text, error)]) from None
    if reader.names is not None and is_confirmed(file, raw):
        reader.names = None
    values = reader.table("", raw)
    own = values.get("url")
    values |= _from_environ(reader, environ)
    if environ.get("PETSYNC_URL") and (own is None or not is_same(own, values.get("url", own))):
        # The options for signing in to the file's service do not apply to another service.
        values = {key: value for key, value in values.items() if key not in OF_THE_URL}
    where = Path(os.path.abspath(file))  # noqa: PTH100 - links in it are kept, because the jobs' paths are relative to it
    found = list(drafts(raw, values, _credentials(reader, environ), where.parent))
    return _ConfigFile(file, where, text, raw, values, found, reader)


def _refuse(read: _ConfigFile, wrong: list[ConfigMistake]) -> None:
    """Raise ConfigurationError if there are mistakes."""
    if not wrong:
        return
    lines = lines_of(read.text)
    shown = [ConfigMistake(path, *map(read.reader.as_written, texts)) for path, *texts in wrong]
    problems = [_problem(read.named, each, line_of(each.path, lines)) for each in shown]
    raise _error(read.named, sorted(problems, key=lambda problem: problem.line))


def _text(file: Path) -> str:
    try:
        return read_file(file)
    except FileNotFoundError:
        raise ConfigurationError(
            f"there is no {file}", hint="`petsync init` writes an example with explanations."
        ) from None
    except UnicodeDecodeError as error:
        problem = encoding(str(file), error)
        raise _error(file, [problem]) from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None


def _from_environ(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of PETSYNC_URL etc., which override the top of the file."""
    top = options_of("")
    values: dict[str, Any] = {}
    for name in _FROM_ENVIRON:
        variable = f"PETSYNC_{name.upper()}"
        if environ.get(variable):
            values |= reader.value(top[name], environ[variable].replace("$", "$$"), (variable,))
    if "state" in values:
        # A path in an environment variable is relative to the working directory, as in every
        # command.
        values["state"] = Path.cwd() / values["state"].expanduser()
    return values


def _credentials(reader: Reader, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of PETSYNC_TOKEN etc."""
    texts = {name: environ.get(f"PETSYNC_{name.upper()}", "").strip() for name in CREDENTIALS}
    given = {name: text for name, text in texts.items() if text}
    values: dict[str, Any] = {
        name: text if name == "client_id" else Secret(text) for name, text in given.items()
    }
    reader.secrets += [value for value in values.values() if isinstance(value, Secret)]
    return values


def _check_combined(read: _ConfigFile) -> Iterator[ConfigMistake]:
    for draft in read.drafts:
        yield from check_job(draft)
    yield from check_jobs(read.drafts, read.raw, read.values)


def _problem(file: Path, found: ConfigMistake, line: int) -> Problem:
    return Problem(str(file), line, ".".join(found.path), found.message, found.suggestion)


def _error(file: Path, problems: list[Problem]) -> ConfigurationError:
    lines: list[str] = []
    for problem in problems:
        lines += [str(problem), *([f"  {problem.suggestion}"] if problem.suggestion else [])]
    count = "one mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return ConfigurationError(f"{file} has {count}", problems, hint="\n".join(lines))


# Read a file of NAME=value lines for the environment, as sh and systemd do.


_MAX_ENV_BYTES = 1 << 20
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_SINGLE, _DOUBLE = re.compile(r"'([^']*)'"), re.compile(r'"([^"\\$`]*)"')
_BARE_WORD = re.compile(r"(?:[\w./:@%+,=?^{}\[\]-]|(?<=[^:])~)*")
"""A value that a shell leaves unchanged without quotes. A shell expands `~` at the start and after
`:`.
"""
_FORM = (
    "Each line is NAME=value; a value with characters other than letters and digits must be in "
    "'single quotes'."
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
