"""Read petsync.toml: its tables as models, and the mistakes in single options."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from petsync._display import quote
from petsync._files import READABLE, ending_of
from petsync.config.model import (
    OPTIONS,
    TABLES,
    ConfigurationFile,
    Option,
    Table,
    TopOptions,
    entry_keys,
    options_of,
    toml_value,
    values_set_by,
)
from petsync.config.syntax import (
    KeyPath,
    explain_encoding_error,
    explain_syntax_error,
    line_of,
    lines_of,
    parse_toml,
)
from petsync.config.values import VARIABLE, BadValueError, Kind, format_value
from petsync.errors import ConfigurationError, Problem, SettingsError
from petsync.settings import Secret, as_written, expand_variables, find_nearest, read_file
from petsync.table.rules import RuleError, find_repeated
from petsync.trust import SECRETS, names_in

__all__ = ["ConfigDocument", "ConfigMistake", "Reader", "read_document", "read_top", "refuse"]


_AnyTable = TypeVar("_AnyTable", bound=Table)
_THERE, _OWN_URL = ("PETSYNC_URL",), "${PETSYNC_URL}"
"""A URL that consists only of this variable may use it without confirmation: the user sets it, and
no other server gets the value.
"""
_MAX_PASSES = 5
_RULE = re.compile(r"rules\[([0-9]+)\]")
_VALID_RULE = {"name": "valid", "columns": ["name"], "required": True}
_PAGES = {"service": "docs/profiles.md", "auth": "docs/sign-in.md"}
"""The pages that explain the keys of tables whose options are not in config/model.py."""
_IN_ENVIRONMENT = ("token", "api_key", "client_secret", "client_id")


class ConfigMistake(NamedTuple):
    """A mistake: the path of its key, the problem, and how to fix it."""

    path: KeyPath
    message: str
    suggestion: str


class _UnsetError(SettingsError):
    """A variable in petsync.toml is not set."""


class _PlainSecretError(ValueError):
    """A value in petsync.toml contains a secret in plain text."""


class Reader:
    """Reads tables, and collects mistakes in `found`. It is the context of pydantic's validation.

    If `is_partial`, an option whose variable is not set is left out without a mistake, and `lacks`
    becomes true. In a schedule, an unset variable is always a mistake. `names` are the variables
    that may be used, None for all. `secrets` must never be shown; `in_addresses` has the values of
    variables in URLs. `guessed` are the required options that have no valid value. `unset_hint` is
    added to the advice for an unset variable, `unlisted_hint` for one that is not in `names`.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        is_partial: bool = False,
        names: Collection[str] | None = None,
        unset_hint: str = "",
        unlisted_hint: str = "",
    ) -> None:
        self.names = names
        self.found: list[ConfigMistake] = []
        self.secrets: list[Secret] = []
        self.lacks = False
        self.in_addresses: dict[str, str] = {}
        self.guessed: set[KeyPath] = set()
        self.shown: dict[str, str] = {}
        """The values of the variables that were used, by `${NAME}`."""
        self.is_environment = False
        """True while values of PETSYNC_URL etc. are read: a mistake names the variable, and never
        shows an address, which may be a secret in the wrong place.
        """
        self._environ = environ
        self._is_partial = is_partial
        self._unset_hint, self._unlisted_hint = unset_hint, unlisted_hint

    def read(self, model: type[_AnyTable], raw: Mapping[str, Any]) -> _AnyTable:
        """Return a table without its invalid options, which are reported in `found`."""
        content = deepcopy(dict(raw))
        for _ in range(_MAX_PASSES):
            try:
                table = model.model_validate(content, context=self)
            except ValidationError as error:
                for each in error.errors(include_url=False, include_input=False):
                    path = _path_of(each["loc"])
                    cause = each.get("ctx", {}).get("error")
                    if isinstance(cause, RuleError):
                        self._note_rule(path, cause, content)
                        continue
                    # If the key itself is invalid, pydantic adds "[key]" to the path.
                    is_key = path[-1] == "[key]" and _look_up(raw, path) is None
                    path = path[:-1] if is_key else path
                    self._note(each, path, raw, is_key=is_key)
                    self._leave_out(path, content)
            else:
                self._note_repeated_rules(raw)
                return table
        raise AssertionError("an invalid option cannot be left out")

    def _note_rule(self, path: KeyPath, error: RuleError, content: dict[str, Any]) -> None:
        for key, message, hint in error.problems:
            self._tell((*path, key) if key else path, message, hint)
        self._leave_out(path, content)

    def _note_repeated_rules(self, raw: Mapping[str, Any]) -> None:
        jobs = raw["jobs"] if isinstance(raw.get("jobs"), dict) else {}
        paths: list[KeyPath] = [("rules",), *(("jobs", name, "rules") for name in jobs)]
        for path in paths:
            rules = _look_up(raw, path)
            names = [
                str(each.get("name", n)) if isinstance(each, dict) else str(n)
                for n, each in enumerate(rules if isinstance(rules, list) else ())
            ]
            for at in find_repeated(names):
                key = (*path[:-1], f"rules[{at + 1}]", "name")
                self._tell(key, f"two rules have the name {names[at]!r}", "Rename one of them.")

    def as_written(self, text: str) -> str:
        """Return the text with `${NAME}` instead of the variables' values."""
        return as_written(text, self.shown)

    # The methods that a Kind calls during validation.

    def fill(self, raw: Any, kind: Kind) -> Any:
        """Return the value with its variables expanded. Raises a ValueError for a variable that is
        unset or not allowed, or for a secret in the file.
        """
        if kind.hides and _has_plain_secret(raw, kind):
            raise _PlainSecretError
        is_own = kind.hides == "address" and raw == _OWN_URL
        also = SECRETS if kind.hides == "whole" else frozenset(_THERE if is_own else ())
        value = self._expand(raw, also) if kind.is_filled else raw
        if kind.hides == "address":
            self.in_addresses |= {f"${{{name}}}": self._environ[name] for name in names_in(raw)}
        return value

    def keep(self, value: Any, kind: Kind) -> Any:
        """Return the value; record a secret and any password in it."""
        if isinstance(value, Secret):
            password = _password(value.reveal()) if kind.hides else ""
            self.secrets += [value, *map(Secret, filter(None, [password]))]
        return value

    def _expand(self, raw: Any, also: Collection[str]) -> Any:
        """Return the text or texts with variables expanded; the names in `also` are allowed too."""
        if isinstance(raw, list):
            return [self._expand(item, also) for item in raw]
        if not isinstance(raw, str):
            return raw
        is_unset = any(not self._environ.get(name) for name in names_in(raw))
        self.lacks = self.lacks or (is_unset and self._is_partial)
        names = None if self.names is None else {*self.names, *also}
        try:
            text = expand_variables(raw, self._environ, names)
        except SettingsError as error:
            unlisted = set() if names is None else {*names_in(raw)} - names
            if not is_unset and unlisted and not unlisted & SECRETS:
                hint = f"{error.cure} {self._unlisted_hint}".rstrip()
                raise SettingsError(error.problem, hint=hint) from None
            if not is_unset:
                raise
            raise _UnsetError(
                error.problem, hint=f"{error.cure} {self._unset_hint}".rstrip()
            ) from None
        self.shown |= {f"${{{name}}}": self._environ[name] for name in names_in(raw)}
        return text

    # Mistakes.

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints that were given for variables."""
        return tuple(filter(None, (self._unset_hint, self._unlisted_hint)))

    def _tell(self, path: KeyPath, message: str, suggestion: str) -> None:
        mistake = ConfigMistake(path, message, suggestion)
        self.found += [mistake] if mistake not in self.found else []

    def _leave_out(self, path: KeyPath, content: dict[str, Any]) -> None:
        """Remove an invalid value; a required option gets its example. A valid rule replaces an
        invalid one.
        """
        for at, key in enumerate(path):
            if rule := _RULE.fullmatch(key):
                _look_up(content, (*path[:at], "rules"))[int(rule[1]) - 1] = dict(_VALID_RULE)
                return
        table = _look_up(content, path[:-1])
        option = _option_at(path)
        if isinstance(table, dict) and option is not None and option.is_required:
            self.guessed.add(path)
            table[path[-1]] = toml_value(option.example)
        elif isinstance(table, dict):
            table.pop(path[-1], None)

    def _note(
        self, error: ErrorDetails, path: KeyPath, raw: Mapping[str, Any], *, is_key: bool
    ) -> None:
        """Add the mistake for a pydantic error at the path; with `is_key`, the key is invalid."""
        cause = error.get("ctx", {}).get("error")
        option = _option_at(path)
        if error["type"] == "missing" and option is not None:
            name = option.name
            advice = f"Write {name} = {option.example}, or another {name}."
            self._tell(path[:-1], f"{name} is missing", advice)
        elif error["type"] == "extra_forbidden":
            self._note_unknown(path, raw)
        elif is_key and isinstance(cause, BadValueError):
            advice = f"Did you mean {cause.instead}?" if cause.instead else cause.advice
            self._tell(path, f"the name must be {cause.must}", advice)
        elif option is None or cause is None:
            self._note_no_table(path, _look_up(raw, path))
        elif isinstance(cause, _PlainSecretError):
            self._note_open_secret(path, option, _look_up(raw, path))
        elif isinstance(cause, BadValueError):
            index = error["loc"][len(_parts_of(path)) :]
            self._note_misfit(path, option, cause, _look_up(raw, path), index)
        elif isinstance(cause, SettingsError):
            is_unset = self._is_partial and isinstance(cause, _UnsetError)
            if not is_unset or option.name == "schedule":
                self._tell(path, cause.problem, cause.cure)

    def _note_misfit(
        self,
        path: KeyPath,
        option: Option,
        wrong: BadValueError,
        value: Any,
        index: tuple[int | str, ...],
    ) -> None:
        part = index[0] if index else wrong.part
        is_part = part is not None
        if is_part:
            value = value[part]
        # Before an @ is a user, and after a ? may be a key.
        is_plain = (
            option.hides == "address"
            and not self.is_environment
            and not re.search("[@?]", str(value))
        )
        is_hidden = wrong.is_hidden or (bool(option.hides) and not is_plain)
        if is_hidden:
            message = f"must be {wrong.must}"
        elif is_part:
            message = f"has {format_value(value)}, which must be {wrong.must}"
        else:
            message = f"is {format_value(value)}, and must be {wrong.must}"
        key = f"PETSYNC_{option.name.upper()}" if self.is_environment else _key(path[-1])
        name = key if self.is_environment else option.name
        inner = _locate(path)[1]
        is_key = len(inner) > 1 and inner[0] in _PAGES
        example = f"Write, for example, {name} = {option.example}."
        suggestion = wrong.advice or (f"{_PAGES[inner[0]]} explains it." if is_key else example)
        has_variable = (
            not self.is_environment and isinstance(value, str) and re.search(VARIABLE, value)
        )
        if has_variable and not wrong.is_hidden and not (is_hidden and wrong.advice):
            suggestion = "Set the variable to another value, or write the value here."
        elif wrong.instead and is_part:
            suggestion = f"Write {wrong.instead} there."
        elif wrong.instead:
            suggestion = f"Write {key} = {wrong.instead}."
        self._tell(path, message, suggestion)

    def _note_open_secret(self, path: KeyPath, option: Option, raw: object) -> None:
        advice = (
            "Remove the user and the password from the address. If the service needs a token or a "
            'key, put it into an environment variable, and write token = "${NAME}" or api_key = '
            '"${NAME}" in the job.'
        )
        if option.hides != "address":
            texts = raw if isinstance(raw, list) else [raw]
            named = next((name for text in texts if (name := self._named_in(text))), "")
            example = re.sub(VARIABLE, lambda found: named or found[0], option.example)
            value = "it" if option.hides == "whole" else "the whole value"
            advice = (
                f"Put {value} into an environment variable, and write {option.name} = {example}."
            )
        what = "a secret" if option.hides == "whole" else "a password"
        self._tell(path, f"{what} does not belong in a file", advice)

    def _named_in(self, text: object) -> str:
        """Return `${NAME}` if the text is an existing variable in another notation, else ""."""
        found = re.fullmatch(r"[$%{(]+(?:env[:.])?(\w+)[)}%]*", str(text), re.ASCII)
        return f"${{{found[1]}}}" if found and found[1] in self._environ else ""

    def _note_no_table(self, path: KeyPath, value: object) -> None:
        option, key = _option_at(path), path[-1]
        if _RULE.fullmatch(key) or key == "rules":
            header = _header_of("rules", path)
            advice = f"Write [{header}] above the options of each rule."
            self._tell(path, f"is {_kind_of(value)}, and must be a list of tables", advice)
            return
        named = {("jobs",): "jobs", ("notify", "templates"): "templates"}.get(path[:-1])
        if named is not None and key in options_of(named):
            header = TABLES[named].header()
            what = "the job's name" if named == "jobs" else "the event"
            self._tell(
                path,
                f"{key} belongs to one of the {named}",
                f"Write [{header}] above it, with {what} in place of {header.rpartition('.')[2]}.",
            )
        elif option is not None:
            advice = f"Write {option.name} = {option.example}."
            self._tell(path, f"is {_kind_of(value)}, and must be a table", advice)
        else:
            header = _header_of(key, path) if named is None else ".".join(map(_key, path))
            advice = f"Write [{header}] in its place, with options below it."
            self._tell(path, f"is {_kind_of(value)}, and must be a table", advice)

    def _note_unknown(self, path: KeyPath, raw: Mapping[str, Any]) -> None:
        table, inner = _locate(path)
        key, options = path[-1], options_of(table)
        known = {*(TABLES[table] if table else ConfigurationFile).model_fields}
        if len(inner) > 1:
            # A key of `service` or `auth`.
            table, options, known = inner[0], {}, {*entry_keys(inner[0])}
        also = next((name for name, o in options.items() if key.casefold() in o.also), "")
        near = also or find_nearest(key, known)
        homes = [o.table for o in OPTIONS if o.name == key and o.table != table]
        homes += [key] if key in TABLES else []
        if key in known:
            self._note_no_table(path, raw[key])
        elif table in ("", "service", "auth") and key in _IN_ENVIRONMENT:
            self._tell(
                path,
                f"it does not belong {'in' if table else 'at the top of'} a file that is shared",
                f"Set PETSYNC_{key.upper()}, or write {key} = "
                f'"${{NAME}}" in a job. If it contains a secret, revoke it.',
            )
        elif homes and not also:
            header = _header_of(homes[0], path)
            where = f"under [{header}]" if header else "at the top of the file, above all tables"
            self._tell(path, "there is no such option here", f"It belongs {where}.")
        elif near:
            self._tell(path, "there is no such option", f"Did you mean {near}?")
        elif far := find_nearest(key, [option.name for option in OPTIONS]):
            home = next(option.table for option in OPTIONS if option.name == far)
            advice = f"Did you mean {far}, under [{_header_of(home, path)}]?"
            self._tell(path, "there is no such option", advice)
        else:
            advice = f"The options are: {', '.join(sorted(known))}."
            self._tell(path, "there is no such option", advice)


def _path_of(places: tuple[int | str, ...]) -> KeyPath:
    """Return the path of the key at a location in an error of pydantic. A rule is one key, such as
    `rules[2]`; the path ends before the position in another list.
    """
    path: list[str] = []
    for part in places:
        if isinstance(part, str):
            path.append(part)
        elif path and path[-1] == "rules":
            path[-1] = f"rules[{part + 1}]"
        else:
            break
    return tuple(path)


def _parts_of(path: KeyPath) -> list[int | str]:
    """Return the path with the position of a rule as an item of its own, counted from 0."""
    parts: list[int | str] = []
    for key in path:
        rule = _RULE.fullmatch(key)
        parts += ["rules", int(rule[1]) - 1] if rule else [key]
    return parts


def _locate(path: KeyPath) -> tuple[str, KeyPath]:
    """Return the name of the table that a key is in, and the path of the key inside it."""
    at = next((n for n, key in enumerate(path) if _RULE.fullmatch(key)), None)
    if at is not None and len(path) > at + 1:
        return "rules", path[at + 1 :]
    if path[:1] == ("jobs",) and len(path) > 2:
        is_inner = path[2] in ("guard", "owners") and len(path) > 3
        return (str(path[2]), path[3:]) if is_inner else ("jobs", path[2:])
    if path[:2] == ("notify", "templates") and len(path) > 3:
        return "templates", path[3:]
    is_inside = len(path) > 1 and path[0] in TABLES and path[0] != "jobs"
    return (path[0], path[1:]) if is_inside else ("", path)


def _option_at(path: KeyPath) -> Option | None:
    """Return the option that has the path, None for a table."""
    table, inner = _locate(path)
    return options_of(table).get(inner[0])


def _kind_of(value: object) -> str:
    """Return the type of a value in words, without the value: text in the place of a table may be a
    secret.
    """
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else format_value(value)


def _header_of(table: str, path: KeyPath) -> str:
    """Return the table's header, such as `jobs.catalogue.guard`: if the path is in a job, with the
    job's name in place of NAME.
    """
    header = TABLES[table].header()
    if table == "rules" and path[:1] == ("jobs",) and path[1:]:
        return f"[jobs.{path[1]}.rules]"
    return header.replace("NAME", path[1]) if path[:1] == ("jobs",) and path[1:] else header


def _look_up(content: Any, path: KeyPath) -> Any:
    """Return the value at the path, None if there is none."""
    for key in _parts_of(path):
        if isinstance(key, int):
            is_there = isinstance(content, list) and key < len(content)
            content = content[key] if is_there else None
        else:
            content = content.get(key) if isinstance(content, dict) else None
    return content


def _has_plain_secret(raw: object, kind: Kind) -> bool:
    """Return true if a text or a list of texts contains a secret in plain text."""
    texts = [text for text in (raw if isinstance(raw, list) else [raw]) if isinstance(text, str)]
    secrets = texts if kind.hides == "whole" else [_password(text) or "${NONE}" for text in texts]
    return any(re.fullmatch(VARIABLE, secret) is None for secret in secrets)


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


def read_top(reader: Reader, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options at the top, without the tables of `petsync reconcile`."""
    tables = ConfigurationFile.model_fields.keys() - TopOptions.model_fields.keys()
    is_other = {key for key in tables if isinstance(raw.get(key), dict)}
    top = reader.read(TopOptions, {k: v for k, v in raw.items() if k not in is_other})
    return values_set_by(top)


# The text of the file, and the error with its mistakes.


class ConfigDocument(NamedTuple):
    """A petsync.toml as written: `named` is the given path."""

    named: Path
    text: str
    raw: Mapping[str, Any]

    def __repr__(self) -> str:
        # A verbose traceback shows local variables, and the text may contain a secret.
        return f"Document({str(self.named)!r})"


def read_document(file: Path) -> ConfigDocument:
    """Return the content of a file. Raises ConfigurationError if it cannot be read, or is not
    TOML.
    """
    found = _read_or_refuse(file)
    if isinstance(found, ConfigurationError):
        # Raised here, so that neither its frames nor its context have the text.
        raise found
    return found


def _read_or_refuse(file: Path) -> ConfigDocument | ConfigurationError:
    try:
        text = read_file(file)
        return ConfigDocument(file, text, parse_toml(text))
    except FileNotFoundError:
        return ConfigurationError(
            f"there is no {file}", hint="`petsync init` writes an example with explanations."
        )
    except UnicodeDecodeError as error:
        return _sheet_error(file) or _error(file, [explain_encoding_error(str(file), error)])
    except OSError as error:
        return ConfigurationError(f"{file} cannot be read: {error.strerror}")
    except tomllib.TOMLDecodeError as error:
        return _sheet_error(file) or _error(file, [explain_syntax_error(str(file), text, error)])


def _sheet_error(file: Path) -> ConfigurationError | None:
    """Return the error for a sheet that is named in place of a configuration."""
    if ending_of(file) not in READABLE:
        return None
    return ConfigurationError(
        f"{file} is a sheet, not a configuration",
        hint="A petsync.toml names the sheet in a job: `petsync init` writes an example. "
        f"To compare the sheet now: `petsync plan {quote(str(file))}`.",
    )


def refuse(document: ConfigDocument, reader: Reader, mistakes: Iterable[ConfigMistake]) -> None:
    """Raise ConfigurationError if there are mistakes. It shows no variable's value."""
    if not (wrong := [*mistakes]):
        return
    lines = lines_of(document.text)
    problems = [
        Problem(
            str(document.named),
            line_of(path, lines),
            ".".join(path),
            reader.as_written(message),
            reader.as_written(suggestion),
        )
        for path, message, suggestion in wrong
    ]
    problems.sort(key=lambda problem: problem.line)
    raise _error(document.named, problems, reader.hints)


def _error(file: Path, problems: list[Problem], hints: Iterable[str] = ()) -> ConfigurationError:
    """Return the error for these mistakes. Each of the `hints` with which several suggestions end
    is once at the end.
    """
    lines: list[str] = []
    ends = [hint for hint in hints if sum(each.suggestion.endswith(hint) for each in problems) > 1]
    for each in problems:
        suggestion = each.suggestion
        for end in ends:
            suggestion = suggestion.removesuffix(end).rstrip()
        lines += [str(each), *([f"  {suggestion}"] if suggestion else [])]
    lines += ends
    count = "one mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    return ConfigurationError(f"{file} has {count}", problems, hint="\n".join(lines))
