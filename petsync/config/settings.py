"""Settings from arguments, the environment and the top of a folder's petsync.toml.

pydantic is loaded only if there is such a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petsync._display import quote
from petsync.errors import SettingsError
from petsync.settings import (
    OF_THE_URL,
    SIGN_IN_KEYS,
    HiddenEnvironment,
    JobSignIn,
    Secret,
    Settings,
    as_written,
    describe_sign_in,
    expand_variables,
    hide_userinfo,
    is_same_address,
    resolve,
)
from petsync.trust import allowed_names, is_confirmed, names_in

if TYPE_CHECKING:
    from petsync.config.read import ConfigDocument

__all__ = ["read_job_sign_ins", "read_settings"]


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
    if own is None or not is_same_address(own, explicit.get("url", own)):
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
    found["job_sign_ins"] = read_job_sign_ins(document, environ, is_confirmed=confirmed)
    replaced = own if own is not None and not is_same_address(own, explicit.get("url", own)) else ""
    return {
        **found,
        "replaced_url": as_written(replaced, reader.shown),
        "expanded": HiddenEnvironment(reader.shown),
    }


def read_job_sign_ins(
    document: ConfigDocument, environ: Mapping[str, str], *, is_confirmed: bool
) -> tuple[JobSignIn, ...]:
    """Return the jobs' own sign-ins in the file. They have values only if the user has confirmed
    the file and the variables are set. A mistake in a job is not reported: `petsync reconcile` and
    `petsync config check` do that.
    """
    jobs = document.raw.get("jobs")
    tables = jobs.items() if isinstance(jobs, dict) else ()
    top = environ.get("PETSYNC_URL") or _own_url(document.raw, environ)
    signed = (
        _job_sign_in(document.named, name, table, top, environ, is_confirmed=is_confirmed)
        for name, table in tables
        if isinstance(table, dict)
    )
    return tuple(each for each in signed if each is not None)


def _job_sign_in(
    file: Path,
    job: str,
    table: Mapping[str, Any],
    top: str | None,
    environ: Mapping[str, str],
    *,
    is_confirmed: bool,
) -> JobSignIn | None:
    """Return the sign-in of the job at its store, which is at `top` if the job names none. Return
    None if the job has none, or if its table has a mistake.
    """
    # Most commands have no job.
    from petsync.config.values import VARIABLE

    given = {key: table[key] for key in SIGN_IN_KEYS if isinstance(table.get(key), str)}
    secrets = [key for key in given if key != "client_id"]
    url = _own_url(table, environ) or top
    is_valid = all(re.fullmatch(VARIABLE, given[key]) for key in secrets)
    has_client = "client_secret" not in given or given.get("client_id")
    if not (secrets and url and is_valid and has_client):
        return None
    unset = sorted({name for name in names_in(given) if not environ.get(name)})
    steps = [] if is_confirmed else [f"confirm the file (`petsync trust {quote(str(file))}`)"]
    steps += [f"set {' and '.join(unset)}"] if unset else []
    whose = f"Job {job} in {file} signs in with its {describe_sign_in(given)}"
    if steps:
        hint = (
            f"{whose}. To use this sign-in here, {' and '.join(steps)}. Or sign in yourself: "
            "`petsync login`, in Python ps.widgets.login(store)."
        )
        return JobSignIn(job=job, url=url, given=given, hint=hint)
    values: dict[str, Any] = {key: Secret(expand_variables(given[key], environ)) for key in secrets}
    if "client_id" in given:
        values["client_id"] = expand_variables(given["client_id"], environ)
    hint = f"{whose}: correct it."
    return JobSignIn(job=job, url=url, given=given, values=values, hint=hint)


def _own_url(raw: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """Return the url in the file, None if there is none or its variables are not set."""
    try:
        return expand_variables(str(raw["url"]), environ) if "url" in raw else None
    except SettingsError:
        return None


def _is_below(state: Path, folder: Path) -> bool:
    parent = folder.resolve()
    return (parent / state.expanduser()).resolve().is_relative_to(parent)
