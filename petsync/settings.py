"""Settings, in this order of precedence: arguments, PETSYNC_* variables, petsync.toml, defaults.

`resolve` does not read the environment or a file: it gets both as arguments, and
config/settings.py reads the file.
"""

from __future__ import annotations

import codecs
import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from petsync._files import is_file, read_regular
from petsync.errors import SettingsError
from petsync.trust import build_unlisted_error, names_in, used_addresses

__all__ = [
    "AUTH",
    "MAPPED",
    "OF_THE_URL",
    "SIGN_IN_KEYS",
    "JobSignIn",
    "Secret",
    "Settings",
    "as_secret",
    "as_written",
    "checked_address",
    "checked_encoding",
    "column_named",
    "describe_sign_in",
    "expand_variables",
    "find_nearest",
    "hide_userinfo",
    "is_same_address",
    "mask_before_at",
    "place_of",
    "read_file",
    "resolve",
    "without_scheme",
]


AUTH = (
    "issuer",
    "authorize_url",
    "token_url",
    "revoke_url",
    "introspect_url",
    "redirect_url",
    "client_id",
)
"""The keys under `[auth]` in petsync.toml, for signing in; docs/sign-in.md explains them."""
SIGN_IN_KEYS = ("token", "api_key", "client_id", "client_secret")
"""The settings that sign in."""
_SECRET = ("token", "api_key", "client_secret")
_NO_FILES = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "unicode-escape")
"""Encodings of Python that are not used for files."""


MAPPED = ("id", "name", "status", "category", "category_id", "tags", "photo_urls", "action")
"""The columns that a header of a sheet can be mapped to."""


class Secret:
    """A text that is displayed as `***`; `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the code that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a secret cannot be pickled")


def as_secret(value: Any) -> Any:
    """Return a string as a Secret, and a Secret, a type or None unchanged. For any other value,
    which is invalid, return only its type: a verbose traceback would show the value.
    """
    if value is None or isinstance(value, Secret | type):
        return value
    return Secret(value) if isinstance(value, str) else type(value)


class HiddenEnvironment(Mapping[str, str]):
    """An environment that is displayed as `***`, because a verbose traceback shows the values of
    variables.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSignIn:
    """A job's own sign-in in petsync.toml, which other commands can use."""

    job: str
    url: str
    """The address of the job's store."""
    given: Mapping[str, str]
    """The settings that sign in, by name, as the file has them: secrets are names of variables."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The settings that sign in, by name (`token`, `api_key`, `client_id`, `client_secret`): each a
    Secret, except the client id. Empty if they cannot be used.
    """
    hint: str
    """What to do if the store refuses access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """petsync's settings."""

    url: str | None = None
    profile: str = "standard"
    state: Path = Path(".petsync")
    token: Secret | None = None
    api_key: Secret | None = None
    client_id: str = ""
    client_secret: Secret | None = None
    allow_http: tuple[str, ...] = ()
    """Hosts that may get a token over plain http."""
    timeout: float = 30.0
    """In seconds."""
    service: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the profile's fields."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """petsync's column for each header of a sheet."""
    rules: tuple[Any, ...] = ()
    """The user's own rules for sheets and stores (`SheetRule`)."""
    auth: Mapping[str, str] = field(default_factory=dict)
    """The endpoints and the client id for signing in (AUTH)."""
    refused_hint: str = ""
    """What to do if the store refuses these secrets, "" if they are in petsync's variables."""
    job_sign_ins: tuple[JobSignIn, ...] = ()
    """The jobs' own sign-ins, which are used if there is no other."""
    unconfirmed: bool = False
    """Whether only an unconfirmed petsync.toml decides where secrets go, or a file that names an
    address to which the user has sent no secret before.
    """
    url_from: str = ""
    """What names the address if the user does not: a file, a run, or the last sign-in."""
    replaced_url: str = ""
    """The address in petsync.toml, if PETSYNC_URL names another one, else ""."""
    expanded: Mapping[str, str] = field(default_factory=lambda: HiddenEnvironment({}), repr=False)
    """The values of the variables in petsync.toml, by `${NAME}`."""

    def with_found(self, url: str, url_from: str) -> Settings:
        """Return the settings with an address that the user does not name. They are unconfirmed,
        unless the user has sent secrets to it before.
        """
        url = hide_userinfo(url)
        is_used = url in used_addresses(self.state).urls
        return replace(self, url=url, url_from=url_from, unconfirmed=not is_used)

    @property
    def address_note(self) -> str:
        """A line about the address in petsync.toml that PETSYNC_URL replaces, "" for none."""
        if not self.replaced_url:
            return ""
        return f"Store: {self.url} (from PETSYNC_URL; petsync.toml names {self.replaced_url})"

    def require_confirmed(self) -> None:
        """Raise SettingsError if the settings are unconfirmed."""
        if self.unconfirmed and self.url_from:
            raise SettingsError(
                f"{self.url_from} names the store {self.url}, and you have not used a token, a "
                "sign-in or a client certificate there before: none is sent to it",
                hint=f"If it is the right store, name it once: --url {self.url}, in Python "
                f"ps.connect({self.url!r})",
            )
        if self.unconfirmed:
            also = (
                "; --url and PETSYNC_URL are not enough to make its [auth] trusted"
                if self.auth
                else ""
            )
            raise SettingsError(
                f"the petsync.toml of this folder sends secrets to "
                f"{as_written(self.url or '', self.expanded)}, and it is not confirmed",
                hint="If that is right, confirm it once: `petsync trust`. Otherwise change to "
                f"another folder{also}.",
            )


def describe_sign_in(table: Mapping[str, Any]) -> str:
    """Return the secrets in the table of a job, with the variables that contain them, such as
    "`client_secret` (SHOP_SECRET)"; "" if there is none.
    """
    secrets = [key for key in _SECRET if isinstance(table.get(key), str)]
    names = sorted({name for key in (*secrets, "client_id") for name in names_in(table.get(key))})
    keys = " and ".join(f"`{key}`" for key in secrets)
    return f"{keys} ({', '.join(names)})" if names and keys else keys


def resolve(
    arguments: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {},
) -> Settings:
    """Return the settings; an argument that is None is ignored. Raises SettingsError, which
    names the key with an invalid value.

    `file` takes the settings of arguments and environment, and returns those of petsync.toml.
    """
    explicit = _from_environment(HiddenEnvironment(environ))
    explicit |= {name: value for name, value in arguments.items() if value is not None}
    explicit |= {"url": hide_userinfo(explicit["url"])} if "url" in explicit else {}
    for key, value in explicit.items():
        if wanted := _describe_requirement(key, value):
            raise SettingsError(f"{key} is {value!r}, and must be {wanted}")
    explicit |= {"state": Path(explicit["state"])} if "state" in explicit else {}
    explicit |= {"allow_http": tuple(explicit["allow_http"])} if "allow_http" in explicit else {}
    settings = Settings(**{**file(explicit), **explicit})
    if is_file(settings.state):
        raise SettingsError(
            f"the state folder {settings.state} is a file, not a folder",
            hint="Name a folder (--state, in Python state=…), or remove the file.",
        )
    return settings


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the environment. The address still has its password; `resolve` hides
    it.
    """
    names = ("url", "profile", "state", "client_id", *_SECRET)
    found = {name: Secret(environ.get(f"PETSYNC_{name.upper()}", "")) for name in names}
    plain = {name: text.reveal() for name, text in found.items() if text and name not in _SECRET}
    secret = {name: Secret(found[name].reveal().strip()) for name in _SECRET}
    return plain | {name: text for name, text in secret.items() if text}


OF_THE_URL = frozenset({"auth", "allow_http"})
"""Settings of petsync.toml that apply only to the url in the same file."""


def hide_userinfo(url: Any) -> Any:
    """Return the address with `***` in place of the user and password, the query and the fragment,
    which may be secret; `checked_base` refuses each of them. If the address has no host or cannot
    be parsed, `***` replaces everything between its scheme and its last @.
    """
    if not isinstance(url, str):
        return url
    hidden = url
    try:
        parts = urlsplit(url.strip())
        _, is_read = parts.port, parts.hostname is not None
    except ValueError:
        is_read = False
    if not is_read:
        hidden = mask_before_at(url)
    elif "@" in parts.netloc:
        netloc = f"***@{parts.netloc.rpartition('@')[2]}"
        hidden = parts._replace(netloc=netloc).geturl()
    return re.sub(r"([?#]).+", r"\1***", hidden, flags=re.DOTALL)


def mask_before_at(url: str) -> str:
    """Return the text with `***` instead of everything between its scheme and its last @."""
    return re.sub(r"\A(\s*[A-Za-z][\w+.-]*://)?.*@", r"\1***@", url, flags=re.DOTALL)


def checked_address(address: str) -> str:
    """Return the address of a sheet or a folder (`is_address`) as petsync shows and stores it.
    Raises SettingsError, which shows no secret, if the address may contain one.
    """
    scheme, _, rest = address.partition("://")
    is_http = scheme.casefold() in ("http", "https")
    has_password = re.search(":[^@]*@" if not is_http else "^[^/]*@|:[^@]*@", rest)
    if has_password or re.search("[?#]" if is_http else r"\?[^/]*=", rest):
        shown = re.sub(r"([?#]).+", r"\1***", mask_before_at(address), flags=re.DOTALL)
        what = "a user or a password" if has_password else "a query, which may contain a secret"
        raise SettingsError(
            f"the address {shown} has {what}",
            hint="Leave it out. The file system takes its credentials from the environment and its "
            "own configuration files.",
        )
    return f"{scheme.casefold()}://{rest.rstrip('/')}"


def without_scheme(token: str) -> str:
    """Return the token of a header's value, `Bearer TOKEN`, or of a plain token."""
    return re.sub(r"(?i)^bearer\s+", "", token.strip())


def is_same_address(one: str, other: str) -> bool:
    """Return true if two addresses belong to the same service."""
    return place_of(one) == place_of(other)


class Place(NamedTuple):
    """A service's address in parts, with the host in lower case and the usual port added."""

    scheme: str
    host: str
    port: int | None
    path: str


def place_of(url: str) -> Place:
    """Return the parts of an address. One that cannot be parsed is all host."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return Place("", url, None, "")
    return Place(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


def checked_encoding(name: str) -> str:
    """Return the standard name of a text encoding. Raises SettingsError for an unknown name."""
    try:
        found = codecs.lookup(name).name
        "a".encode(found)
    except (LookupError, ValueError, TypeError):
        found = ""
    if not found or found in _NO_FILES:
        raise SettingsError(
            f"there is no text encoding {name!r}", hint="Examples are utf-16 and cp1252."
        ) from None
    return found


def read_file(path: Path) -> str:
    """Return the text of a settings file. Raises UnicodeDecodeError for text that is not UTF-8.
    Raises OSError if the file cannot be read, is larger than 16 MB, or is a device or a pipe (which
    may never end).
    """
    return read_regular(path).decode("utf-8-sig").replace("\r\n", "\n")


def _describe_requirement(key: str, value: Any) -> str:
    """Return the requirement that a value does not meet; "" if the value is valid."""
    if key == "timeout" and not (
        isinstance(value, int | float) and math.isfinite(value) and value > 0
    ):
        return "a number of seconds above 0"
    if key == "state" and not (isinstance(value, str | Path) and str(value)):
        return "the path of a folder"
    if key == "allow_http" and not (
        isinstance(value, Collection)
        and not isinstance(value, str)
        and all(isinstance(host, str) and host for host in value)
    ):
        return "a list of host names"
    return ""


_SHORT = 3
"""The maximum length of a value that is not replaced, because it may occur in a text by chance."""


def as_written(text: str, expanded: Mapping[str, str]) -> str:
    """Return the text with the values of variables, except very short ones, replaced by `${NAME}`,
    because they may be secret.

    `expanded` has the values by `${NAME}`.
    """
    for name, value in sorted(expanded.items(), key=lambda each: -len(each[1])):
        text = text.replace(value, name) if len(value) > _SHORT else text
    return text


_VARIABLE = re.compile(r"\$(?:\$|\{([^{}]*)\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand_variables(
    text: str, environ: Mapping[str, str], names: Collection[str] | None = None
) -> str:
    """Return the text with the environment's values instead of `${NAME}`, and `$` instead of `$$`.

    Raises SettingsError for a variable that is not set, is empty, has an invalid name, or is not
    one of the `names` that may be used (None: all).
    """
    return _VARIABLE.sub(lambda found: _variable(found[1], environ, names), text)


def _variable(name: str | None, environ: Mapping[str, str], names: Collection[str] | None) -> str:
    if name is None:
        return "$"
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"${{{name}}} names no environment variable",
            hint="A name has letters, digits and _, and does not begin with a digit. Write $$ for "
            "a dollar sign.",
        )
    if names is not None and name not in names and name in environ:
        raise build_unlisted_error(name)
    if not environ.get(name):
        is_set = "is empty" if name in environ else "is not set"
        raise SettingsError(
            f"the environment variable {name} {is_set}",
            hint=f"Set {name} where petsync is started, or correct its name.",
        )
    return environ[name]


def find_nearest(text: str, choices: Iterable[str]) -> str:
    """Return the most similar of the choices; "" if none is similar."""
    plain = {name.casefold().replace("-", "_"): name for name in choices}
    near = difflib.get_close_matches(text.casefold().replace("-", "_"), plain, n=1)
    return plain[near[0]] if near else ""


def column_named(text: str) -> str | None:
    """Return the column that the text names, ignoring case, spaces, underscores and hyphens as in
    the headers of a sheet (`Photo URLs` is photo_urls); None if there is none.
    """
    loose = re.sub(r"[\s_-]+", "", text).casefold()
    return next((name for name in MAPPED if name.replace("_", "") == loose), None)
