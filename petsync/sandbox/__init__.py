"""The embedded pet store: all eight operations, for trials, tests and rehearsals.

`Sandbox` runs a store in a thread, by default on a free loopback port; `serve` runs a store until
Ctrl-C or SIGTERM. The sandbox does not use petsync's client.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from operator import index
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from petsync._extras import needs_extra
from petsync.errors import SettingsError
from petsync.models import Pet

with needs_extra("sandbox", "petsync.sandbox"):
    from starlette.types import Receive, Scope, Send

    from petsync.sandbox import storage as records
    from petsync.sandbox.app import Options, Running, ServedInfo, serve
    from petsync.sandbox.faults import parse
    from petsync.sandbox.http import Behaviour
    from petsync.sandbox.tokens import PUBLIC_CLIENT, SCOPES, Credentials

__all__ = ["PUBLIC_CLIENT", "Credentials", "Sandbox", "ServedInfo", "serve"]


# Sandbox: a pet store on a free loopback port, for tests, notebooks and rehearsals.


T = TypeVar("T")


class Sandbox:
    """A pet store that runs in a thread. Use it as a context manager, or call `start` and `stop`.

    `profile` is `standard`, `live` or a Behaviour; with `auth=False`, no token is required; `db` is
    the store's file (without it, the store is deleted when the sandbox stops); `pets`, each a
    Pet or a dict of its fields, and the JSON file `seed` fill an empty store; `faults` is a
    specification as in `petsync serve --faults`;
    `token_lifetime` is in seconds. `client_secret` and `api_key` are random by default;
    `redirect_uris` are allowed in addition to loopback addresses. Without `listens`, there is no
    port, and only `petsync.testing.FakeService` reaches the store. `start` raises SettingsError for
    an argument that cannot be used, such as a port in use.
    """

    def __init__(
        self,
        *,
        profile: str | Behaviour = "standard",
        auth: bool = True,
        db: str | Path | None = None,
        seed: str | Path | None = None,
        pets: Iterable[Pet | Mapping[str, Any]] = (),
        faults: str | None = None,
        port: int = 0,
        token_lifetime: float = 3600.0,
        client_id: str | None = None,
        client_secret: str | None = None,
        api_key: str | None = None,
        redirect_uris: Sequence[str] = (),
        listens: bool = True,
    ) -> None:
        given = {"client_id": client_id, "client_secret": client_secret, "api_key": api_key}
        chosen = {name: text for name, text in given.items() if text is not None}
        self._credentials = Credentials(**chosen, redirect_uris=tuple(redirect_uris))
        self._db = None if db is None else Path(db)
        self._options = Options(
            listens=listens,
            port=port,
            profile=profile,
            auth=auth,
            seed=None if seed is None else _as_path(seed),
            pets=_as_pets(pets),
            faults=faults,
            token_lifetime=token_lifetime,
            credentials=self._credentials,
        )
        self._running: Running | None = None
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._running is None else self.url
        return f"<{type(self).__name__} {self.profile} {state}>"

    def start(self) -> Self:
        """Start the server, and return the sandbox when the server accepts requests."""
        if self._running is not None:
            return self
        with ExitStack() as resources:
            path = self._db or Path(resources.enter_context(_folder())) / "sandbox.db"
            running = Running(self._options, path, durable=self._db is not None)
            resources.callback(running.close)
            thread = threading.Thread(
                target=_run, args=(running,), name="petsync-sandbox", daemon=True
            )
            thread.start()
            resources.callback(thread.join)
            resources.callback(running.stop)
            running.ready.wait()
            if running.failure is not None:
                raise running.failure
            self._resources = resources.pop_all()
        self._running = running
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop the server, and delete the store if it has no `db`. A second call does nothing."""
        if self._running is not None:
            self._running = None
            atexit.unregister(self.stop)
            self._resources.close()

    @property
    def url(self) -> str:
        """The base URL, which ends in /v2."""
        return self._active.service.url

    @property
    def profile(self) -> str:
        """The name of the sandbox's profile."""
        profile = self._options.profile
        return profile.name if isinstance(profile, Behaviour) else profile

    @property
    def client_id(self) -> str:
        """The id of the client that requests tokens with a secret."""
        return self._credentials.client_id

    @property
    def client_secret(self) -> str:
        """The secret of the client `client_id`."""
        return self._credentials.client_secret

    @property
    def api_key(self) -> str:
        """The API key that getPetById accepts in place of a token."""
        return self._credentials.api_key

    @property
    def requests(self) -> Counter[str]:
        """The number of requests by operation (`addPet`), including requests that failed."""
        return Counter(self._active.service.requests)

    @property
    def broken(self) -> Counter[str]:
        """The number of requests that the current faults hit, by kind (`429`, `drop_after`)."""
        return Counter(self._active.service.faults.hits)

    def token(
        self, scopes: str | Iterable[str] = tuple(SCOPES), *, expires_in: float | None = None
    ) -> str:
        """Return a new access token for the scopes: a list, or a string with spaces between them.
        With an `expires_in` of 0 seconds or less, the token has already expired.
        """
        if not isinstance(scopes, Iterable):
            raise SettingsError(
                f"the scopes are {scopes!r}, not a list", hint=f"For example {[*SCOPES]!r}."
            )
        requested = scopes.split() if isinstance(scopes, str) else scopes
        tokens = self._active.service.tokens
        issued = self._call(lambda: tokens.issue(self.client_id, requested, expires_in=expires_in))
        return issued.access_token

    def pets(self) -> list[Pet]:
        """Return every pet in the store, sorted by id."""
        with closing(self._active.service.storage.connect()) as connection:
            return records.read_all(connection)

    def put(self, pet: Pet | Mapping[str, Any]) -> Pet:
        """Store a pet, a Pet or a dict of its fields, without a request, and return it; a pet
        without an id gets one. Raises SettingsError for another value.
        """
        service = self._active.service
        add = partial(records.put_pet, pet=_as_pet(pet), reuse=service.behaviour.reuses_ids)
        return self._call(lambda: service.storage.write(add))

    def remove(self, pet_id: int) -> bool:
        """Remove a pet without a request, and return whether it existed. Raises SettingsError if
        `pet_id` is not an integer.
        """
        try:
            number = index(pet_id)
        except TypeError:
            problem = f"the id of the pet to remove is {pet_id!r}, not an integer"
            raise SettingsError(problem) from None
        storage = self._active.service.storage
        return self._call(lambda: storage.write(lambda c: records.remove(c, number)))

    def reset(self, pets: Iterable[Pet | Mapping[str, Any]] = ()) -> None:
        """Replace all pets and images with these pets, each a Pet or a dict of its fields, and
        reset the counts of `requests`. Raises SettingsError for another value.
        """
        service, new_pets = self._active.service, _as_pets(pets)
        self._call(lambda: service.storage.write(lambda c: records.replace_all(c, new_pets)))
        service.requests.clear()

    def set_faults(self, faults: str | None) -> None:
        """Use this specification of faults from now on; None for no faults."""
        self._active.service.faults.set(None if faults is None else parse(faults))

    @property
    def _active(self) -> Running:
        if self._running is None:
            raise RuntimeError(
                "the sandbox is not running: start it, or use it in a with statement"
            )
        return self._running

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request on the sandbox's loop, from any other loop."""
        app, loop = self._active.app, self._active.loop

        async def run() -> None:
            await app(scope, receive, send)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))

    def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._active.loop).result()


def _as_path(seed: object) -> Path:
    """Return the path. Raises SettingsError for another value."""
    if not isinstance(seed, str | os.PathLike):
        raise SettingsError(
            f"seed is {repr(seed)[:60]}, not the path of a JSON file",
            hint="Give a list of pets as `pets`.",
        )
    return Path(seed)


def _as_pets(pets: object) -> tuple[Pet, ...]:
    """Return the pets. Raises SettingsError if they are not pets."""
    if isinstance(pets, Pet | Mapping | str) or not isinstance(pets, Iterable):
        raise SettingsError(
            f"the pets are {repr(pets)[:60]}, not a list of pets", hint=f"{_GIVE_PETS} in a list."
        )
    return tuple(map(_as_pet, pets))


_GIVE_PETS = 'Give ps.Pet(name="Rex"), or a dict such as {"name": "Rex"},'


def _as_pet(pet: object) -> Pet:
    """Return the pet, or the pet with the fields of a dict. Raises SettingsError for another
    value.
    """
    if isinstance(pet, Pet):
        return pet
    if not isinstance(pet, Mapping):
        raise SettingsError(f"{repr(pet)[:60]} is not a pet", hint=f"{_GIVE_PETS} for each pet.")
    fields = Pet.__struct_fields__
    if unknown := [name for name in pet if name not in fields]:
        raise SettingsError(
            f"the field {unknown[0]!r} of {repr(dict(pet))[:60]} is not a field of a pet",
            hint=f"The fields are {', '.join(fields)}.",
        )
    return Pet(**pet)


def _run(running: Running) -> None:
    """Serve until `stop`. A failure before the server responds is raised by `start` instead."""
    try:
        running.run()
    except BaseException:
        if running.failure is None:
            raise


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="petsync-sandbox-")
