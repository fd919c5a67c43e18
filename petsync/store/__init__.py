"""The class Store, which represents one service, and the functions that create a Store."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from petsync._display import type_name
from petsync._extras import needs_extra
from petsync._sync import LoopThread, delegate, make_synchronous
from petsync.client import auth as auths
from petsync.client.api import Api
from petsync.client.auth.browser import AsyncPendingSignIn
from petsync.client.auth.credentials import Credentials, hide_other
from petsync.client.auth.keyring import CredentialStore
from petsync.client.origin import checked_base
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.client.transport import (
    GivenClient,
    GivenTransport,
    chosen_transport,
    has_client_certificate,
)
from petsync.config.settings import read_settings
from petsync.errors import MissingServiceError, SettingsError
from petsync.profile import ServiceProfile, profile_from
from petsync.samples import sample_data
from petsync.settings import (
    SIGN_IN_KEYS,
    HiddenEnvironment,
    Settings,
    as_written,
    hide_userinfo,
    is_same_address,
    resolve,
)
from petsync.store.async_store import AsyncStore
from petsync.store.signin import PendingSignIn
from petsync.trust import used_addresses

__all__ = [
    "AsyncPendingSignIn",
    "AsyncStore",
    "PendingSignIn",
    "Store",
    "checked_store",
    "connect",
    "credentials_from_environment",
    "demo",
    "store_of",
]


# Store: one service, for scripts and notebooks.


class Store:
    """One service: a Store loads pets, and makes and applies plans. `api` has the service's eight
    operations.

    `aio` has the same methods as coroutines, except `read`, `serves` and `check`, which are not
    coroutines there either. A `with` block closes the Store at its end.
    """

    def __init__(self, aio: AsyncStore, *, owned: ExitStack | None = None) -> None:
        self.aio = aio
        self._loop = LoopThread()
        self._owned = owned or ExitStack()
        self.api = Api(aio.api, self._loop)
        # Close the connections of a Store that a script does not close. Its `aio` may be used
        # longer, as in `async with ps.connect(url).aio`.
        self._close_loop = weakref.finalize(self, _release, aio, self._loop, self._owned)

    read = delegate("aio", AsyncStore.read)
    serves = delegate("aio", AsyncStore.serves)
    check = delegate("aio", AsyncStore.check)
    pets = make_synchronous(AsyncStore.pets)
    find_by_status = make_synchronous(AsyncStore.find_by_status)
    find_by_tags = make_synchronous(AsyncStore.find_by_tags)
    snapshot = make_synchronous(AsyncStore.snapshot)
    snapshot_to = make_synchronous(AsyncStore.snapshot_to)
    export_to = make_synchronous(AsyncStore.export_to)
    look_up = make_synchronous(AsyncStore.look_up)
    read_with_snapshot = make_synchronous(AsyncStore.read_with_snapshot)
    compare = make_synchronous(AsyncStore.compare)
    plan = make_synchronous(AsyncStore.plan)
    why = make_synchronous(AsyncStore.why)
    apply = make_synchronous(AsyncStore.apply)
    edit = make_synchronous(AsyncStore.edit)
    pictures = make_synchronous(AsyncStore.pictures)
    pictures_of = make_synchronous(AsyncStore.pictures_of)
    photo = make_synchronous(AsyncStore.photo)
    upload = make_synchronous(AsyncStore.upload)
    resume = make_synchronous(AsyncStore.resume)
    settle = make_synchronous(AsyncStore.settle)
    undo = make_synchronous(AsyncStore.undo)
    runs = make_synchronous(AsyncStore.runs)
    run = make_synchronous(AsyncStore.run)
    failed_rows = make_synchronous(AsyncStore.failed_rows)
    sign_in = make_synchronous(AsyncStore.sign_in)
    begin_sign_in = make_synchronous(AsyncStore.begin_sign_in, PendingSignIn)
    who = make_synchronous(AsyncStore.who)
    sign_out = make_synchronous(AsyncStore.sign_out)

    @property
    def url(self) -> str:
        """The service's base URL."""
        return self.api.aio.session.base_url

    def close(self) -> None:
        """Close the connections, and the embedded store of a `demo()`."""
        self._close_loop.detach()
        self._loop.run(self.aio.close(for_good=True))
        _close_loop(self._loop, self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<petsync.Store {self.url} ({self.api.aio.session.profile.name})>"


def _release(aio: AsyncStore, loop: LoopThread, owned: ExitStack) -> None:
    if loop.is_current:
        # A Store may be garbage-collected in any thread, but this one cannot wait for itself.
        threading.Thread(target=_release, args=(aio, loop, owned)).start()
        return
    loop.run(aio.close())
    _close_loop(loop, owned)


def _close_loop(loop: LoopThread, owned: ExitStack) -> None:
    loop.close()
    owned.close()


# Composition root: `connect(...)` returns a `Store`; its `aio` is the asynchronous store.


def checked_store(store: object, call: str) -> Store:
    """Return the Store. Raises SettingsError for another value; `call` is the example in it."""
    if not isinstance(store, Store):
        raise SettingsError(
            f"{type_name(store)} is not a Store", hint=f"Give the store first: {call}."
        )
    return store


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
    transport: GivenTransport | None = None,
    http: GivenClient | None = None,
) -> Store:
    """Return a Store for the service at `url`. Sends no request.

    Missing arguments come from PETSYNC_* variables and petsync.toml; a missing `url` is that of the
    last `petsync login` with this state folder. `timeout` is in seconds; `environ` replaces the
    process's environment. `http`, an AsyncClient of httpx or httpx2, or `transport`, an
    asynchronous transport, sends all requests in place of petsync's client; petsync does not
    close it. Raises SettingsError if no service is given or a setting is invalid.
    """
    url, auth = hide_userinfo(url), hide_other(auth)
    kinds: dict[str, tuple[object, tuple[type, ...]]] = {
        "profile": (profile, (str, ServiceProfile)),
        "retry": (retry, (RetryPolicy,)),
    }
    for name, (value, types) in kinds.items():
        if value is not None and not isinstance(value, types):
            raise SettingsError(
                f"{name} is {value!r}; it must be {' or '.join(each.__name__ for each in types)}"
            )
    environ = HiddenEnvironment(os.environ if environ is None else environ)
    arguments = {
        "url": url,
        "profile": profile if isinstance(profile, str) else None,
        "state": state,
        "allow_http": allow_http,
        "timeout": timeout,
    }
    settings = read_settings(arguments, environ, Path())
    # The store keeps its journal if the program changes its working folder.
    settings = replace(settings, state=settings.state.absolute())
    if settings.url is None and (last := used_addresses(settings.state).signed_in):
        settings = settings.with_found(last, "the last sign-in")
    given = profile if isinstance(profile, ServiceProfile) else None
    sender = chosen_transport(transport, http)
    return store_of(settings, auth=auth, profile=given, retry=retry, sender=sender)


def store_of(
    settings: Settings,
    *,
    auth: Credentials | None = None,
    profile: ServiceProfile | None = None,
    retry: RetryPolicy | None = None,
    sender: GivenTransport | GivenClient | None = None,
) -> Store:
    """Return a Store for exactly these settings.

    The environment and petsync.toml are not read. Without `auth`, the credentials are those in the
    settings, or else the stored ones for the service. `sender` is the caller's httpx transport or
    client. Raises SettingsError if a setting is invalid, or if there is no `url`.
    """
    auth = hide_other(auth)
    if settings.url is None:
        raise MissingServiceError(
            "no service is given",
            hint="Give its URL once (--url, in Python ps.connect(url), or PETSYNC_URL): a sign-in, "
            "an exported workbook, a plan and a run remember it. Or try `petsync demo`.",
        )
    try:
        # A value of another type may have no truth value.
        checked_base(settings.url, with_secret=False)
        session = _session(settings, auth, profile, retry, sender)
    except SettingsError as error:
        hint = as_written(error.cure, settings.expanded)
        raise SettingsError(as_written(error.problem, settings.expanded), hint=hint) from None
    return Store(AsyncStore(session, settings))


def _session(
    settings: Settings,
    auth: Credentials | None,
    profile: ServiceProfile | None,
    retry: RetryPolicy | None,
    sender: GivenTransport | GivenClient | None,
) -> Session:
    own = _credentials(settings) if auth is None else auth
    if own or (sender is None and has_client_certificate(settings.url or "")):
        settings.require_confirmed()
    # A confirmed file names the address for the sign-in of its job.
    credentials = _credentials_of_job(settings) if own is None else own
    return Session(
        settings.url or "",
        credentials=credentials,
        profile=profile or profile_from(settings.profile, settings.service),
        retry=retry or RetryPolicy(),
        timeout=settings.timeout,
        allow_http=settings.allow_http,
        given=sender,
    )


@needs_extra("sandbox", "ps.demo()")
def demo(*, state: str | Path | None = None, profile: str = "standard") -> Store:
    """Return a Store on an embedded pet store with the sample catalogue.

    The embedded store ends when the Store is closed, and listens on this machine only. It has room
    for any number of pets and assigns unique ids, even with the profile `live`. Raises
    SettingsError for an unknown profile.
    """
    from petsync.sandbox import Sandbox
    from petsync.sandbox.http import behaviour_named

    owned = ExitStack()
    # The sample catalogue has more pets than the reference server keeps, and an id close to the
    # maximum.
    behaviour = behaviour_named(profile)
    behaviour = replace(behaviour, capacity=None, unique_ids=True, reuses_ids=False)
    sandbox = owned.enter_context(Sandbox(profile=behaviour, seed=sample_data() / "store.json"))
    arguments: dict[str, Any] = {"url": sandbox.url, "profile": profile, "state": state}
    settings = resolve(arguments, {})
    session = Session(
        sandbox.url,
        credentials=auths.bearer(sandbox.token(), api_key=sandbox.api_key),
        profile=replace(profile_from(profile), capacity=None, assigns_unique_ids=True),
    )
    return Store(AsyncStore(session, settings), owned=owned)


def _credentials(settings: Settings) -> Credentials | None:
    """Return the credentials in the settings, or else the stored ones for this service, or None."""
    found = credentials_from_environment(settings)
    if found:
        kept = found.grant.keep("environment")
        return replace(found, grant=kept, hint=settings.refused_hint)
    keyring = CredentialStore(settings.state, checked_base(settings.url or "", with_secret=False))
    if settings.unconfirmed and keyring.has_entry():
        settings.require_confirmed()
    return keyring.load()


def _credentials_of_job(settings: Settings) -> Credentials:
    """Return the own sign-in of the jobs at this service. It is empty if there is none, if it
    cannot be used, or if the jobs sign in in different ways; then its hint says what to do.
    """
    own = [each for each in settings.job_sign_ins if is_same_address(each.url, settings.url or "")]
    if not own:
        return auths.none()
    can_use_all = all(each.values for each in own)
    ways = [each.values if can_use_all else each.given for each in own]
    if any(way != ways[0] for way in ways):
        names = " and ".join(each.job for each in own)
        return Credentials(
            hint=f"The jobs {names} sign in here in different ways. Choose one: set PETSYNC_TOKEN, "
            "or PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET."
        )
    one = own[0]
    values = {**dict.fromkeys(SIGN_IN_KEYS), "client_id": "", **one.values}
    found = credentials_from_environment(replace(settings, **values))
    return replace(found, grant=found.grant.keep("job"), hint=one.hint)


def credentials_from_environment(settings: Settings) -> Credentials:
    """Return the credentials that the environment's variables give; none if it has none. Raises
    SettingsError if the client id or its secret is missing.
    """
    if settings.token is not None:
        return auths.bearer(settings.token, api_key=settings.api_key)
    if settings.client_secret is not None:
        client_id = settings.client_id or settings.auth.get("client_id", "")
        if not client_id:
            raise _build_incomplete_error("PETSYNC_CLIENT_SECRET", "PETSYNC_CLIENT_ID")
        return auths.client_credentials(client_id, settings.client_secret, api_key=settings.api_key)
    if settings.client_id:
        raise _build_incomplete_error("PETSYNC_CLIENT_ID", "PETSYNC_CLIENT_SECRET")
    return auths.none() if settings.api_key is None else auths.api_key(settings.api_key)


def _build_incomplete_error(given: str, missing: str) -> SettingsError:
    return SettingsError(f"{given} is set, and {missing} is not", hint="Set both, or neither.")
