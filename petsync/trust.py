"""What the user trusts with secrets: confirmed petsync.toml files, and addresses used before.

A folder may come from anybody, and its petsync.toml decides where requests go. `petsync trust`
records a confirmation in the user's configuration folder: the file's path, and a digest of the
settings that decide where secrets and data go. If these settings change, the user must confirm
again.

A plan, an export or a journal may come from anybody too, and names the address of its store. It is
used without asking, but it gets no secret unless the user has used secrets there before. These
addresses are recorded in the user's state folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from petsync._files import make_private_folder, read_regular, user_folder, write_atomically
from petsync._json import decoder_of
from petsync.errors import SettingsError

_LOG = logging.getLogger(__name__)

__all__ = [
    "LISTED",
    "SECRETS",
    "UsedAddresses",
    "allowed_names",
    "build_unlisted_error",
    "confirm",
    "is_confirmed",
    "names_in",
    "note_address",
    "record_path",
    "relevant_settings",
    "used_addresses",
    "withdraw",
]


LISTED = "PETSYNC_VARIABLES"
"""The environment variable in which the user lists names for `${NAME}`, separated by commas."""
SECRETS = frozenset({"PETSYNC_TOKEN", "PETSYNC_API_KEY", "PETSYNC_CLIENT_SECRET"})
"""PETSYNC_* variables that an unconfirmed file may never put into an address, even if they are
listed.
"""
_NAMES = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_HARMLESS = frozenset(
    (
        *("profile", "timeout", "columns", "mode", "enabled", "tab", "files", "statuses", "tags"),
        *("delete_missing", "match_on", "on_conflict", "strict", "guard", "owners"),
        *("concurrency", "rate"),
        *("verify", "max_failures", "schedule", "on", "digest", "remind", "templates", "keep"),
        *("format", "level", "rules"),
    )
)
"""Settings that do not change where anything is sent or written, or what is read with the user's
credentials, such as a sheet at an address.
"""


def relevant_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a parsed petsync.toml that decide where secrets and data go. The key
    `${}` has the names of all variables that the file uses.
    """
    names = sorted(set(names_in(content)))
    return {**_without_harmless(content), **({"${}": names} if names else {})}


def _without_harmless(content: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    result = {}
    for key, value in content.items():
        # The second level has the names of jobs, which may be any text.
        if key in _HARMLESS and not (depth == 1 and isinstance(value, dict)):
            continue
        result[key] = _without_harmless(value, depth + 1) if isinstance(value, dict) else value
    return result


def names_in(value: object) -> Iterator[str]:
    """Yield the names in each `${NAME}` of the texts in a value."""
    if isinstance(value, str):
        yield from filter(None, (found[1] for found in _NAMES.finditer(value)))
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from names_in(entry)
    elif isinstance(value, list):
        for item in value:
            yield from names_in(item)


def allowed_names(
    environ: Mapping[str, str], also: Collection[str] = (), *, is_named: bool = False
) -> frozenset[str]:
    """Return the variables that an unconfirmed file may use: those in `also`, those that the
    environment lists in PETSYNC_VARIABLES, and PETSYNC_* if the user has named the file
    (`is_named`). The SECRETS are left out; the others may be secret too, such as an address with a
    password in PETSYNC_NOTIFY.
    """
    own = {name for name in environ if is_named and name.startswith("PETSYNC_")}
    return frozenset({*own, *also, *re.findall(r"\w+", environ.get(LISTED, ""))} - SECRETS)


def build_unlisted_error(name: str) -> SettingsError:
    """Return the error for a variable that the file may not use."""
    listed = "" if name in SECRETS else f", or list the name yourself: {LISTED}={name}"
    return SettingsError(
        f"this file may not use the environment variable {name}",
        hint=f"Check how the file uses it, and confirm the file (`petsync trust FILE`){listed}.",
    )


def is_confirmed(file: Path, content: Mapping[str, Any]) -> bool:
    """Return true if the user has confirmed the file with these settings. Raises SettingsError if
    the confirmations cannot be read.
    """
    digest = _digest(content)
    del content  # It may contain a secret, and a verbose traceback shows local variables.
    return _records().get(_key(file)) == digest


def confirm(file: Path, content: Mapping[str, Any]) -> None:
    """Record the user's confirmation. Raises SettingsError if the confirmations cannot be read or
    written.
    """
    _write({**_records(), _key(file): _digest(content)})


def withdraw(file: Path) -> bool:
    """Remove the confirmation, and return whether there was one. Raises SettingsError if the
    confirmations cannot be read or written.
    """
    records = _records()
    was = records.pop(_key(file), None) is not None
    if was:
        _write(records)
    return was


def record_path() -> Path:
    """Return the path of the file with the confirmations, in the user's configuration folder."""
    # A relative path in the variable is ignored: it could be in the folder with petsync.toml.
    return user_folder("XDG_CONFIG_HOME", "APPDATA", ".config") / "petsync" / "trusted.json"


def _key(file: Path) -> str:
    return os.path.realpath(file)


def _digest(content: Mapping[str, Any]) -> str:
    text = msgspec.json.encode(relevant_settings(content), order="deterministic", enc_hook=str)
    return hashlib.sha256(text).hexdigest()


def _records() -> dict[str, str]:
    path = record_path()
    try:
        return decoder_of(dict[str, str]).decode(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise SettingsError(
            f"{path} cannot be read",
            hint="It lists the files that you confirmed: delete it, and confirm them again.",
        ) from None


def _write(records: Mapping[str, str]) -> None:
    path = record_path()
    try:
        make_private_folder(path.parent)
        data = msgspec.json.format(msgspec.json.encode(records)) + b"\n"
        write_atomically(path, data, private=True)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None


# Addresses to which the user has sent secrets, for each state folder.


_MAX_ADDRESSES = 20


class UsedAddresses(msgspec.Struct, frozen=True):
    """The addresses of stores to which the user has sent secrets from a state folder."""

    signed_in: str = ""
    """The address of the last sign-in; "" if there was none."""
    urls: tuple[str, ...] = ()
    """All of them."""


def used_addresses(state: Path) -> UsedAddresses:
    """Return the addresses to which the user has sent secrets from this state folder."""
    return _read_addresses().get(_key(state), UsedAddresses())


def note_address(state: Path, url: str, *, is_sign_in: bool = False) -> None:
    """Record that the user has sent secrets to this address, or has signed in there. An error is
    only logged: without the record, the user names the address again.
    """
    before = used_addresses(state)
    urls = (*(each for each in before.urls if each != url), url)[-_MAX_ADDRESSES:]
    now = UsedAddresses(url if is_sign_in else before.signed_in, urls)
    if url in before.urls and now.signed_in == before.signed_in:
        return
    path = _addresses_path()
    try:
        if path is not None:
            make_private_folder(path.parent)
            records = {**_read_addresses(), _key(state): now}
            data = msgspec.json.format(msgspec.json.encode(records)) + b"\n"
            write_atomically(path, data, follow=False, private=True)
    except (OSError, UnicodeEncodeError) as error:
        _LOG.info("%s cannot be written: %s", path, error)


def _read_addresses() -> dict[str, UsedAddresses]:
    path = _addresses_path()
    try:
        data = b"{}" if path is None else read_regular(path)
        return decoder_of(dict[str, UsedAddresses]).decode(data)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _addresses_path() -> Path | None:
    """Return the path of the record; None if the user has no home folder."""
    try:
        folder = user_folder("XDG_STATE_HOME", "LOCALAPPDATA", ".local/state")
    except RuntimeError:
        return None
    return folder / "petsync" / "addresses.json"
