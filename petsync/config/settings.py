"""Settings from arguments, the environment and the top of a folder's petsync.toml.

pydantic is loaded only if there is such a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from petsync.errors import SettingsError
from petsync.settings import (
    OF_THE_URL,
    HiddenEnvironment,
    Settings,
    as_written,
    expand_variables,
    hide_userinfo,
    is_same,
    resolve,
)
from petsync.trust import allowed_names, is_confirmed

__all__ = ["read_settings"]


def read_settings(
    arguments: Mapping[str, Any], environ: Mapping[str, str], folder: Path
) -> Settings:
    """Return the settings: arguments, else the environment, else the folder's petsync.toml.

    The file's `auth` and `allow_http` apply only to the `url` in the file. Unless the user has
    confirmed the file, it may use only the allowed variables, its state folder must be below the
    folder, and if it decides where secrets go, the settings are `unconfirmed`: no secret is used
    with them. Raises SettingsError for an invalid argument or variable, or a state folder
    elsewhere, and ConfigurationError for mistakes in the file.
    """
    environ = HiddenEnvironment(environ)
    path = folder / "petsync.toml"
    try:
        path.stat()
    except FileNotFoundError:
        return resolve(arguments, environ)
    except OSError:
        pass  # Reading the file raises a ConfigurationError for the same reason.
    settings = resolve(arguments, environ, partial(_read_file, path, environ))
    # An option replaces the address on purpose, a variable perhaps not.
    return settings if arguments.get("url") is None else replace(settings, replaced_url="")


def _read_file(
    path: Path, environ: Mapping[str, str], explicit: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of the file that are not in `explicit`."""
    from petsync.config.read import Reader, read_document, read_top, refuse

    document = read_document(path)
    confirmed = is_confirmed(path, document.raw)
    reader = Reader(environ, names=None if confirmed else allowed_names(environ))
    found = read_top(reader, {k: v for k, v in document.raw.items() if k not in explicit})
    refuse(document, reader, reader.found)
    own = hide_userinfo(found.get("url") or _own_url(document.raw, environ))
    if own is None or not is_same(own, explicit.get("url", own)):
        found = {key: value for key, value in found.items() if key not in OF_THE_URL}
    says_where = "url" not in explicit or bool(found.keys() & OF_THE_URL)
    if not confirmed and own is not None and says_where:
        found["unconfirmed"] = True
    if not confirmed and "state" in found and not _is_below(found["state"], path.parent):
        raise SettingsError(
            f"petsync.toml: state is {document.raw['state']!r}, outside of the file's folder",
            hint="Confirm the file (`petsync trust`), or name the folder (--state, in Python "
            "state=…).",
        )
    replaced = own if own is not None and not is_same(own, explicit.get("url", own)) else ""
    return {
        **found,
        "replaced_url": as_written(replaced, reader.shown),
        "expanded": HiddenEnvironment(reader.shown),
    }


def _own_url(raw: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """Return the url in the file, None if there is none or its variables are not set."""
    try:
        return expand_variables(str(raw["url"]), environ) if "url" in raw else None
    except SettingsError:
        return None


def _is_below(state: Path, folder: Path) -> bool:
    parent = folder.resolve()
    return (parent / state.expanduser()).resolve().is_relative_to(parent)
