"""Store: the facade over one service, and the composition root of the house.

`connect(...)` gives a `Store`; its `aio` is the same, asynchronous.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from petsync.client import auth as auths
from petsync.client.credentials import Credentials
from petsync.client.oauth.pending import AsyncPending
from petsync.client.oauth.vault import Vault
from petsync.client.origin import checked_base
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.errors import SettingsError
from petsync.profile import ServiceProfile, profile_from
from petsync.samples import sample_data
from petsync.settings import Settings, Unshown, read_confirmed, resolve
from petsync.store.aio import AsyncStore
from petsync.store.signed import Pending
from petsync.store.sync import Store

__all__ = ["AsyncPending", "AsyncStore", "Pending", "Store", "connect", "demo", "store_of"]


def connect(
    url: str | None = None,
    *,
    auth: Credentials | None = None,
    profile: str | ServiceProfile | None = None,
    state: str | Path | None = None,
    allow_http: Sequence[str] | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
) -> Store:
    """A Store for the service at `url`; what is not given comes from PETSYNC_* and petsync.toml.

    `timeout` is in seconds; `environ` stands in for the process's environment. Nothing is sent
    yet. Raises SettingsError.
    """
    arguments = {
        "url": url,
        "profile": profile if isinstance(profile, str) else None,
        "state": state,
        "allow_http": allow_http,
        "timeout": timeout,
    }
    environ = Unshown(os.environ if environ is None else environ)
    toml, confirmed = read_confirmed(Path.cwd())
    settings = resolve(arguments, environ, toml, confirmed=confirmed)
    if settings.url is None:
        raise SettingsError(
            "no service is named",
            hint="Give its address (--url, PETSYNC_URL), or try `petsync demo`.",
        )
    given = profile if isinstance(profile, ServiceProfile) else None
    return store_of(settings, auth=auth, profile=given, retry=retry)


def store_of(
    settings: Settings,
    *,
    auth: Credentials | None = None,
    profile: ServiceProfile | None = None,
    retry: RetryPolicy | None = None,
) -> Store:
    """A Store for just these settings, whose `url` is given: neither the environment nor a file is
    asked. Without `auth`, the sign-in is that of the settings, else the one that is kept for the
    service. Raises SettingsError.
    """
    credentials = _credentials(settings) if auth is None else auth
    if credentials:
        settings.require_confirmed()
    session = Session(
        settings.url or "",
        credentials=credentials,
        profile=profile or profile_from(settings.profile, settings.service),
        retry=retry or RetryPolicy(),
        timeout=settings.timeout,
        allow_http=settings.allow_http,
    )
    return Store(AsyncStore(session, settings))


def demo(*, state: str | Path | None = None, profile: str = "standard") -> Store:
    """A Store on an embedded pet store of its own, filled with the sample catalogue.

    It lives until the store is closed, and listens on this machine only. Under `live` too it keeps
    any number of pets and gives each an id of its own: the sample catalogue has more pets than the
    original server keeps, and nearly the highest id.
    """
    from petsync.sandbox import Sandbox
    from petsync.sandbox.behaviour import behaviour_named

    owned = ExitStack()
    behaviour = behaviour_named(profile)
    behaviour = replace(behaviour, capacity=None, unique_ids=True, reuses_ids=False)
    box = owned.enter_context(Sandbox(profile=behaviour, seed=sample_data() / "store.json"))
    arguments: dict[str, Any] = {"url": box.url, "profile": profile, "state": state}
    settings = resolve(arguments, {}, {})
    session = Session(
        box.url,
        credentials=auths.bearer(box.token(), api_key=box.api_key),
        profile=replace(profile_from(profile), capacity=None, assigns_unique_ids=True),
    )
    return Store(AsyncStore(session, settings), owned=owned)


def _credentials(settings: Settings) -> Credentials:
    """Those of the environment, else those that are kept for this service."""
    found = _environment(settings)
    if found:
        return replace(found, grant=found.grant.keep("environment"))
    vault = Vault(settings.state, checked_base(settings.url or "", with_secret=False))
    if settings.unconfirmed and vault.has_mark():
        settings.require_confirmed()
    kept = vault.kept()
    return auths.none() if kept is None else kept


def _environment(settings: Settings) -> Credentials:
    if settings.token is not None:
        return auths.bearer(settings.token, api_key=settings.api_key)
    if settings.client_secret is not None:
        client_id = settings.client_id or settings.auth.get("client_id", "")
        if not client_id:
            raise _half("PETSYNC_CLIENT_SECRET", "PETSYNC_CLIENT_ID")
        return auths.client_credentials(client_id, settings.client_secret, api_key=settings.api_key)
    if settings.client_id:
        raise _half("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET")
    return auths.none() if settings.api_key is None else auths.api_key(settings.api_key)


def _half(there: str, missing: str) -> SettingsError:
    return SettingsError(f"{there} is set, and {missing} is not", hint="Set both, or neither.")
