"""Reader: the tables of petsync.toml as values, and everything that is wrong with one by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from petsync.errors import SettingsError
from petsync.reconcile.config.kinds import VARIABLE, Kind, MisfitError
from petsync.reconcile.config.lines import Path
from petsync.reconcile.config.option import Option, Table
from petsync.reconcile.config.options import OPTIONS, TABLES, options_of
from petsync.settings import Secret, filled, nearest
from petsync.trust import SECRETS

__all__ = ["Found", "Reader", "header_of"]

_LONGEST = 60
_SHORT = 3
"""Values of so few characters are in any text by chance."""
_NAMED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ENV_FILE = "A file of variables is named by --env-file."
_IN_ENVIRONMENT = ("token", "api_key", "client_secret", "client_id")


class Found(NamedTuple):
    """One mistake: the path of its key, what is wrong, and the way out."""

    path: Path
    message: str
    suggestion: str


def header_of(table: str, path: Path) -> str:
    """The header of a table, for a key of that path: `jobs.catalogue.guard`."""
    header = TABLES[table].header
    return header.replace("NAME", path[1]) if path[:1] == ("jobs",) and path[1:] else header


class _UnsetError(SettingsError):
    """A variable is not set."""


class Reader:
    """Reads tables; `found` is what was wrong so far, `secrets` what must never be shown.

    `is_partial`: an option whose variable is not set is left out, and no mistake; `lacks` then
    says that there was one. A schedule is never left out. `names` are the variables that may be
    used, None for all.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        is_partial: bool = False,
        names: Collection[str] | None = None,
    ) -> None:
        self.names = names
        self.found: list[Found] = []
        self.secrets: list[Secret] = []
        self.lacks = False
        self._environ = environ
        self._is_partial = is_partial
        self._shown: dict[str, str] = {}

    def table(self, name: str, content: Mapping[str, Any], path: Path = ()) -> dict[str, Any]:
        """The values of a table's options and of the tables in it, as far as they can be."""
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
                self._unknown(name, {*options, *inner}, here)
        for option in options.values():
            if option.is_required and option.name not in content:
                self._tell(
                    path,
                    f"{option.name} is missing",
                    f"Write {option.name} = {option.example}, or another {option.name}.",
                )
        return values

    def value(self, option: Option, raw: str, path: Path) -> dict[str, Any]:
        """The value of an option by its name, as text that is not in the file; empty if wrong."""
        return self._option(option, raw, path)

    def as_written(self, text: str) -> str:
        """The text with `${NAME}` in place of what the environment has for it."""
        for name, value in self._shown.items():
            text = text.replace(value, name) if len(value) > _SHORT else text
        return text

    def _tell_error(self, option: Option, here: Path, error: SettingsError) -> None:
        """Tell it, unless it is a variable that need not be there."""
        is_unset = self._is_partial and isinstance(error, _UnsetError)
        if not is_unset or option.name == "schedule":
            self._tell(here, error.message, error.hint)

    def _tell(self, path: Path, message: str, suggestion: str) -> None:
        self.found.append(Found(path, message, suggestion))

    def _inner(self, table: Table, raw: object, here: Path) -> dict[str, Any]:
        header = header_of(table.name, here)
        if not isinstance(raw, dict):
            told = "a list of tables" if isinstance(raw, list) else _shown(raw)
            self._tell(here, f"is {told}, and must be a table", f"Write [{header}] above it.")
            return {}
        if table.names is None:
            return self.table(table.name, raw, here)
        return {name: self._named(table, name, entry, (*here, name)) for name, entry in raw.items()}

    def _named(self, table: Table, name: str, raw: object, here: Path) -> dict[str, Any]:
        if not isinstance(raw, dict):
            is_option = name in options_of(table.name)
            what = f"{name} belongs to one of the {table.name}" if is_option else "is no table"
            header = TABLES[table.name].header
            self._tell(here, what, f"Write [{header}] above it, with a name in place of its last.")
            return {}
        try:
            if table.names is not None:
                table.names.read(name)
        except MisfitError as wrong:
            advice = wrong.advice or (wrong.instead and f"Did you mean {wrong.instead}?")
            self._tell(here, f"the name must be {wrong.must}", advice or "Choose one of these.")
        return self.table(table.name, raw, here)

    def _option(self, option: Option, raw: object, here: Path) -> dict[str, Any]:
        if option.entry is not None:
            return {option.name: self._entries(option, raw, here)}
        assert option.kind is not None
        kind = option.kind
        if kind.hides and self._is_open_secret(option, kind, raw, here):
            return {}
        if isinstance(raw, str) and kind.schema.get("type") == "array":
            # What the environment completes is told as it is written.
            self._tell(here, f"must be {kind.words}", f"Write {option.name} = [{_shown(raw)}].")
            return {}
        try:
            is_secret = kind.hides == "whole"
            value = kind.read(self._filled(raw, is_secret=is_secret) if kind.is_filled else raw)
            return {option.name: self._masked(value) if kind.is_masked else value}
        except SettingsError as error:
            self._tell_error(option, here, error)
        except MisfitError as wrong:
            self._tell_wrong(option, here, raw, wrong, is_hidden=bool(kind.hides))
        return {}

    def _entries(self, option: Option, raw: object, here: Path) -> dict[str, Any]:
        entry = option.entry
        assert entry is not None
        if not isinstance(raw, dict):
            self._tell(
                here,
                f"is {_shown(raw)}, and must be a table",
                f"Write {option.name} = {option.example}.",
            )
            return {}
        values: dict[str, Any] = {}
        for key, value in raw.items():
            try:
                if entry.keys and key not in entry.keys:
                    self._unknown(option.name, {*entry.keys}, (*here, key))
                else:
                    values[key] = entry.read(key, self._filled(value))
            except SettingsError as error:
                self._tell_error(option, (*here, key), error)
            except MisfitError as wrong:
                self._tell_wrong(option, (*here, key), value, wrong, is_hidden=wrong.is_hidden)
        return values

    def _filled(self, raw: Any, *, is_secret: bool = False) -> Any:
        if isinstance(raw, list):
            return [self._filled(item, is_secret=is_secret) for item in raw]
        if not isinstance(raw, str):
            return raw
        is_unset = any(not self._environ.get(name) for name in _NAMED.findall(raw) if name)
        if is_unset and self._is_partial:
            self.lacks = True
        try:
            names = self.names
            if names is not None and is_secret:
                # What goes into a masked option goes into no address.
                names = {*names, *SECRETS}
            text = filled(raw, self._environ, names)
        except SettingsError as error:
            if not is_unset:
                raise
            raise _UnsetError(error.message, hint=f"{error.hint} {_ENV_FILE}") from None
        for found in re.finditer(VARIABLE, raw):
            self._shown[found[0]] = self._environ[found[0][2:-1]]
        return text

    def _masked(self, value: Any) -> Any:
        """The text or texts behind a mask, which is remembered with the password that is in it."""
        if isinstance(value, tuple):
            return tuple(self._masked(text) for text in value)
        secret = Secret(value.strip())
        self.secrets += [secret, *map(Secret, filter(None, [_password(value)]))]
        return secret

    def _tell_wrong(
        self, option: Option, here: Path, raw: Any, wrong: MisfitError, *, is_hidden: bool
    ) -> None:
        is_part = wrong.part is not None and isinstance(raw, list)
        value = raw[wrong.part] if is_part else raw
        if is_hidden:
            message = f"must be {wrong.must}"
        elif is_part:
            message = f"has {_shown(value)}, which must be {wrong.must}"
        else:
            message = f"is {_shown(value)}, and must be {wrong.must}"
        suggestion = wrong.advice or f"Write, for example, {option.name} = {option.example}."
        if (
            isinstance(value, str)
            and re.search(VARIABLE, value)
            and not (is_hidden and wrong.advice)
        ):
            suggestion = "Set the variable otherwise, or write the value here."
        elif wrong.instead and is_part:
            suggestion = f"Write {wrong.instead} there."
        elif wrong.instead:
            suggestion = f"Write {_key(here[-1])} = {wrong.instead}."
        self._tell(here, message, suggestion)

    def _is_open_secret(self, option: Option, kind: Kind, raw: object, here: Path) -> bool:
        texts = raw if isinstance(raw, list) else [raw]
        is_open = _is_literal if kind.hides == "whole" else _has_password
        if not any(isinstance(text, str) and is_open(text) for text in texts):
            return False
        if kind.hides == "address":
            advice = "Take user and password out of it; write token or api_key in the job."
        else:
            named = next((name for text in texts if (name := self._named_in(text))), "")
            example = re.sub(VARIABLE, lambda found: named or found[0], option.example)
            advice = f"Put it into an environment variable, and write {option.name} = {example}."
        what = "a secret" if kind.hides == "whole" else "a password"
        self._tell(here, f"{what} does not belong in a file", advice)
        return True

    def _named_in(self, text: object) -> str:
        """`${NAME}` where the text is the name of a variable that there is, written otherwise."""
        found = re.fullmatch(r"[$%{(]+(?:env[:.])?(\w+)[)}%]*", str(text), re.ASCII)
        return f"${{{found[1]}}}" if found and found[1] in self._environ else ""

    def _unknown(self, table: str, known: set[str], here: Path) -> None:
        key = here[-1]
        options = options_of(table) if table in TABLES else {}
        if not table and key in _IN_ENVIRONMENT:
            self._tell(
                here,
                "it does not belong at the top of a file that is shared",
                f"Set PETSYNC_{key.upper()}, or write {key} = "
                f'"${{NAME}}" in a job. If a secret stands there, take it back.',
            )
            return
        also = next((name for name, o in options.items() if key.casefold() in o.also), "")
        near = also or nearest(key, known)
        homes: list[str] = [o.table for o in OPTIONS if o.name == key and o.table != table]
        homes += [key] if key in TABLES else []
        if homes and not also:
            header = header_of(homes[0], here)
            where = f"under [{header}]" if header else "at the top of the file, above the first ["
            self._tell(here, "there is no such option here", f"It belongs {where}.")
        elif near:
            self._tell(here, "there is no such option", f"Did you mean {near}?")
        elif far := nearest(key, [option.name for option in OPTIONS]):
            home = next(option.table for option in OPTIONS if option.name == far)
            advice = f"Did you mean {far}, under [{header_of(home, here)}]?"
            self._tell(here, "there is no such option", advice)
        else:
            self._tell(here, "there is no such option", f"There are: {', '.join(sorted(known))}.")


def _is_literal(text: str) -> bool:
    """Whether the text is more than the name of a variable."""
    return re.fullmatch(VARIABLE, text) is None


def _has_password(text: str) -> bool:
    """Whether a password stands in an address, and not the name of a variable."""
    return _is_literal(_password(text) or "${NONE}")


def _password(address: str) -> str:
    """The password in an address, "" where there is none."""
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return address.rpartition("@")[0]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _shown(value: object) -> str:
    """The value as TOML writes it, not too long."""
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
