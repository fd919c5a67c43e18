"""The sandbox as an ASGI application and as a server on loopback."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import json
import logging
import os
import secrets
import signal
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from petsync.errors import SettingsError
from petsync.models import Pet
from petsync.sandbox import faults, http, pets, storage
from petsync.sandbox.faults import KEY, TRANSPORT, Hit, Injector, parse
from petsync.sandbox.http import LIVE, Behaviour, Original, RefusedError, behaviour_named
from petsync.sandbox.oauth import AUTHORIZE, INTROSPECT, METADATA, REVOKE, TOKEN, Consent, OAuth
from petsync.sandbox.service import BASE, Service
from petsync.sandbox.storage import Storage
from petsync.sandbox.tokens import (
    READ,
    WRITE,
    AccessGuard,
    Credentials,
    Requirement,
    TokenBook,
    refuse_foreign_pages,
)

__all__ = [
    "Options",
    "Running",
    "ServedInfo",
    "allowed_hosts",
    "application",
    "bind_socket",
    "is_loopback",
    "origin",
    "serve",
    "warnings",
]


# The address of the sandbox, and the host names that it accepts.


_UNREACHABLE = "pets.invalid"
"""The domain of sandboxes that do not listen (RFC 2606)."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the port. Raises SettingsError if that fails."""
    if not 0 <= port <= 65535:
        raise SettingsError(
            f"{port} is not a port", hint="Choose a port up to 65535, or 0 for a free port."
        )
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"the host {host!r} has no address: {error}") from None
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
    except OSError as error:
        bound.close()
        raise _bind_error(host, port, error) from None
    return bound


def origin(host: str, bound: socket.socket) -> str:
    """Return the scheme, host and port of the socket, as seen from this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{bound.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Return true if only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_hosts(host: str) -> tuple[str, ...]:
    """Return the host names that a request may use for this server; `*`, which allows any name, if
    other machines can reach `host`.
    """
    return (*_LOOPBACK, host) if is_loopback(host) else ("*",)


def warnings(host: str, *, auth: bool) -> tuple[str, ...]:
    """Return the warnings for the user of a server that listens on `host`."""
    if is_loopback(host):
        return ()
    reachable = f"other machines can reach {host}, and the connection is not encrypted"
    open_to_all = "no token is required: anybody who can reach the port can change pets"
    return (reachable,) if auth else (reachable, open_to_all)


def _bind_error(host: str, port: int, error: OSError) -> SettingsError:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            f"port {port} on {host} is in use", hint="Choose another port, or 0 for a free port."
        )
    return SettingsError(
        f"port {port} on {host} cannot be used: {error.strerror}",
        hint="Choose a port above 1023 and an address of this machine.",
    )


# The ASGI application: the routes, and the common steps of all operations.


logger = logging.getLogger(__name__)

Handler = Callable[[Service, Request], Awaitable[ASGIApp]]

_BOTH = Requirement(frozenset({WRITE, READ}))
_READ = Requirement(frozenset({READ}))
_OPERATIONS: Mapping[str, tuple[Handler, Requirement]] = {
    "addPet": (pets.add_pet, _BOTH),
    "updatePet": (pets.update_pet, _BOTH),
    "deletePet": (pets.delete_pet, Requirement(_BOTH.scopes, api_key="right")),
    "findPetsByStatus": (pets.find_pets_by_status, _READ),
    "findPetsByTags": (pets.find_pets_by_tags, _READ),
    "getPetById": (pets.get_pet_by_id, Requirement(_READ.scopes, api_key="alone")),
    "updatePetWithForm": (pets.update_pet_with_form, _BOTH),
    "uploadFile": (pets.upload_file, _BOTH),
}
_PATHS = {
    "/pet": {"POST": "addPet", "PUT": "updatePet"},
    "/pet/findByStatus": {"GET": "findPetsByStatus"},
    "/pet/findByTags": {"GET": "findPetsByTags"},
    "/pet/{petId}": {
        "GET": "getPetById",
        "POST": "updatePetWithForm",
        "DELETE": "deletePet",
    },
    "/pet/{petId}/uploadImage": {"POST": "uploadFile"},
}


def application(service: Service, *, hosts: tuple[str, ...] = ("*",)) -> ASGIApp:
    """Return the ASGI application of the sandbox. It refuses requests for host names that are not
    in `hosts`, so that a foreign web page cannot reach the sandbox through the page's host name
    (DNS rebinding).
    """
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)]
    app = Starlette(routes=_routes(service), middleware=middleware)
    app.router.redirect_slashes = False
    for kind in (RefusedError, HTTPException, Exception):
        app.add_exception_handler(kind, partial(_answer_error, service.behaviour))
    return app


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation of the service. It counts its requests, checks their permissions, and applies
    the faults.
    """

    name: str
    service: Service
    handler: Handler
    need: Requirement

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.service.requests[self.name] += 1
        hit = self.service.faults.next(self.name, scope["query_string"])
        scope.setdefault("state", {})[KEY] = hit.drift
        try:
            if hit.kind == "late":
                receive = await faults.read_at_once(receive)
            if hit.wait:
                await asyncio.sleep(hit.wait)
            await self._answer_with_fault(hit, scope, receive, send)
        except ClientDisconnect:
            logger.debug("%s: the client disconnected", self.name)

    async def _answer_with_fault(
        self, hit: Hit, scope: Scope, receive: Receive, send: Send
    ) -> None:
        match hit.kind:
            case "drop_before":
                await faults.drop(scope, receive)
            case "drop_after":
                await faults.handle_and_drop(partial(self._answer, hit), scope, receive)
            case "torn":
                await faults.handle_and_truncate(partial(self._answer, hit), scope, receive, send)
            case "html":
                answered = partial(self._answer, hit)
                await faults.handle_and_show_page(answered, scope, receive, send)
            case "portal":
                await faults.show_page(scope, receive, send)
            case _:
                await self._answer(hit, scope, receive, send)

    async def _answer(self, hit: Hit, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._handle(hit, request)
        except RefusedError as refusal:
            response = http.problem(refusal, request, self.service.behaviour)
        await response(scope, receive, send)

    async def _handle(self, hit: Hit, request: Request) -> ASGIApp:
        self._refuse(hit)
        if self.service.guard is not None:
            self.service.guard.admit(request.headers, self.need)
        elif request.method != "GET":
            refuse_foreign_pages(request.headers, self.service.origin)
        try:
            return await self.handler(self.service, request)
        except sqlite3.Error as error:
            logger.exception("%s: an operation on the store's file failed", self.name)
            raise RefusedError(500, f"an operation on the store's file failed: {error}") from None

    def _refuse(self, hit: Hit) -> None:
        if hit.kind == "too_many":
            wait = str(self.service.faults.retry_after)
            raise RefusedError(429, "too many requests", headers={"Retry-After": wait})
        if hit.kind == "unavailable":
            raise RefusedError(503, "the store is not available right now")


class _Methods:
    """The operations of one path, by method."""

    def __init__(self, service: Service, names: Mapping[str, str]) -> None:
        self._service = service
        self._operations = {
            method: _Operation(name, service, *_OPERATIONS[name]) for method, name in names.items()
        }
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"])
        if operation is not None:
            await operation(scope, receive, send)
            return
        allow = ", ".join(self._operations)
        original = Original(
            f"RESTEASY003650: No resource method found for {scope['method']}, "
            "return 405 with Allow header"
        )
        text = f"the allowed methods are {allow}"
        raise RefusedError(405, text, headers={"Allow": allow}, original=original)


def _routes(service: Service) -> list[BaseRoute]:
    oauth, consent = OAuth(service), Consent(service)
    operations = [Route(BASE + path, _Methods(service, names)) for path, names in _PATHS.items()]
    return [
        *operations,
        Route(BASE + "/images/{number}", partial(pets.serve_image, service)),
        Route("/openapi.json", partial(_document, service)),
        Route(BASE + "/openapi.json", partial(_document, service)),
        Route(METADATA, oauth.metadata),
        Route(TOKEN, oauth.token, methods=["POST"]),
        Route(REVOKE, oauth.revoke, methods=["POST"]),
        Route(INTROSPECT, oauth.introspect, methods=["POST"]),
        Route(AUTHORIZE, consent.ask, methods=["GET"]),
        Route(AUTHORIZE, consent.answer, methods=["POST"]),
    ]


async def _answer_error(behaviour: Behaviour, request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = RefusedError(error.status_code, error.detail, headers=error.headers)
    if not isinstance(error, RefusedError):
        error = RefusedError(500, "the sandbox failed; see its log for the reason")
    return http.problem(error, request, behaviour)


# The OpenAPI document. `openapi.json` is the document of the profile `standard`;
# `openapi-live.json` is a merge patch (RFC 7396), which makes the document of the profile `live`.


_ORIGIN = "http://127.0.0.1:8080"
"""The origin of the URLs in these two files."""


async def _document(service: Service, _: Request) -> Response:
    """Return the OpenAPI document of the sandbox's profile, without security schemes if no token is
    required.
    """
    found: dict[str, Any] = _read_document("openapi.json", service.origin)
    if service.behaviour.name == LIVE.name:
        found = _apply_patch(found, _read_document("openapi-live.json", service.origin))
    if service.guard is None:
        del found["components"]["securitySchemes"]
        for operations in found["paths"].values():
            for operation in operations.values():
                if "security" in operation:
                    del operation["security"], operation["responses"]["401"]
    _drop_unused(found)
    return JSONResponse(found)


def _drop_unused(document: Any) -> None:
    """Delete the components that nothing in the document refers to, except security schemes."""
    components = document["components"]
    while True:
        text = json.dumps(document)
        unused = [
            (kind, name)
            for kind in components.keys() - {"securitySchemes"}
            for name in components[kind]
            if f'"#/components/{kind}/{name}"' not in text
        ]
        if not unused:
            return
        for kind, name in unused:
            del components[kind][name]


def _read_document(name: str, origin: str) -> Any:
    text = files(__package__).joinpath(name).read_text("utf-8")
    return json.loads(text.replace(_ORIGIN, origin))


def _apply_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _apply_patch(result.get(name), value)
    return result


# The sandbox's server: a socket, a store, and uvicorn around the application.


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a sandbox. Port 0 means a free port; `token_lifetime` is in seconds. Without
    `listens`, there is no port: `Running.app` gets the requests.
    """

    listens: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    profile: str | Behaviour = "standard"
    auth: bool = True
    seed: Path | None = None
    pets: tuple[Pet, ...] = ()
    faults: str | None = None
    token_lifetime: float = 3600.0
    credentials: Credentials = field(default_factory=Credentials)


class Running:
    """A sandbox with an open file and, if it listens, an open port. It accepts requests while `run`
    is active.

    Raises SettingsError for an option that cannot be used, and then leaves nothing open.
    """

    def __init__(self, options: Options, path: Path, *, durable: bool) -> None:
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        """The error that ended `run` before the server responded; None if there is none."""
        self.loop: asyncio.AbstractEventLoop
        self._behaviour = behaviour_named(options.profile)
        self._faults = None if options.faults is None else parse(options.faults)
        pets = storage.read_pets(options.seed, options.pets)
        self._socket = bind_socket(options.host, options.port) if options.listens else None
        try:
            self._storage = Storage(path, durable=durable)
        except BaseException:
            self._close_socket()
            raise
        try:
            storage.fill_storage(self._storage, pets)
            self.service = self._service(options)
        except BaseException:
            self.close()
            raise
        hosts = allowed_hosts(options.host) if options.listens else ("*",)
        self.app = application(self.service, hosts=hosts)
        self._server = _Server(_config(self.app))
        self._server.stopping = self._ended = asyncio.Event()

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop`, or in the main thread until Ctrl-C or SIGTERM."""

        def ready() -> None:
            on_ready()
            self.ready.set()

        self._server.when_started = ready
        try:
            with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
                self.loop = runner.get_loop()
                runner.run(self._serve(ready))
        except BaseException as error:
            if not self.ready.is_set():
                self.failure = error
            raise
        finally:
            self.ready.set()

    def stop(self) -> None:
        """Make `run` return. Can be called from any thread."""
        self._server.should_exit = True
        with suppress(AttributeError, RuntimeError):  # `run` has no loop yet, or has returned.
            self.loop.call_soon_threadsafe(self._ended.set)

    def close(self) -> None:
        """Release the port and the file; `run` must have returned."""
        self._close_socket()
        self._storage.close()

    async def _serve(self, ready: Callable[[], None]) -> None:
        if self._socket is not None:
            await self._server.serve(sockets=[self._socket])
            return
        ready()
        await self._ended.wait()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _service(self, options: Options) -> Service:
        tokens = TokenBook(self._storage, lifetime=options.token_lifetime)
        # Runs are remembered by address, so no two sandboxes without a port have the same one.
        own = f"https://{secrets.token_hex(8)}.{_UNREACHABLE}"
        return Service(
            behaviour=self._behaviour,
            storage=self._storage,
            origin=own if self._socket is None else origin(options.host, self._socket),
            credentials=options.credentials,
            tokens=tokens,
            guard=AccessGuard(tokens, options.credentials.api_key) if options.auth else None,
            faults=Injector(self._faults),
        )


class _Protocol(HttpToolsProtocol):
    """Stores the transport where a fault can access it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][TRANSPORT] = self.transport


class _Server(uvicorn.Server):
    """Stops without the 0.2 s that uvicorn sleeps until it sees the end of idle connections."""

    when_started: Callable[[], None]
    stopping: asyncio.Event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_started()

    async def main_loop(self) -> None:
        """Serve until `should_exit` or `stopping` is set."""
        waits = [
            asyncio.create_task(super().main_loop()),
            asyncio.create_task(self.stopping.wait()),
        ]
        done, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waiting:
            wait.cancel()
        await done.pop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the server and idle connections; wait for open requests as uvicorn does."""
        state = self.server_state
        for server in self.servers:
            server.close()
        for connection in [*state.connections]:
            connection.shutdown()
        await asyncio.sleep(0)  # Idle connections end in this step of the loop.
        if state.connections or state.tasks:
            await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle Ctrl-C and SIGTERM; unlike uvicorn, do not raise them again, because the caller
        must close the store.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            name: signal.signal(name, self.handle_exit) for name in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def _config(app: Callable[..., Any]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )


# serve: run the sandbox as a program until it is stopped.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedInfo:
    """The details that a user needs for a server that has just started.

    `url` is the base URL and ends in /v2; `pets` is the number of pets; `db` is the store's file,
    or None if the store is deleted when the server stops; `warnings` are for the user. The client
    secret and the API key are new at each start, and are not used if `auth` is False.
    """

    url: str
    openapi_url: str
    profile: str
    auth: bool
    db: Path | None
    pets: int
    client_id: str
    client_secret: str = field(repr=False)
    api_key: str = field(repr=False)
    warnings: tuple[str, ...] = ()


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    db: Path | None = None,
    profile: str = "standard",
    auth: bool = True,
    seed: Path | None = None,
    pets: Sequence[Pet] = (),
    faults: str | None = None,
    on_ready: Callable[[ServedInfo], None] = lambda _: None,
) -> None:
    """Serve until Ctrl-C or SIGTERM (in the main thread), then return.

    `on_ready` is called once, when the server accepts requests. With `db`, the store and its tokens
    remain after the server stops. Raises SettingsError before the start for an argument that cannot
    be used, such as a port in use or a seed that is not a list of pets.
    """
    options = Options(
        host=host,
        port=port,
        profile=profile,
        auth=auth,
        seed=seed,
        pets=tuple(pets),
        faults=faults,
    )
    with ExitStack() as resources:
        folder = (
            None if db else resources.enter_context(tempfile.TemporaryDirectory(prefix="petsync-"))
        )
        running = Running(options, db or Path(folder or "") / "sandbox.db", durable=db is not None)
        resources.callback(running.close)
        running.run(lambda: on_ready(_info(running, options, db)))


def _info(running: Running, options: Options, db: Path | None) -> ServedInfo:
    service = running.service
    count = service.storage.reader.execute("SELECT count(*) FROM pet").fetchone()[0]
    return ServedInfo(
        url=service.url,
        openapi_url=f"{service.origin}/openapi.json",
        profile=service.behaviour.name,
        auth=options.auth,
        db=db,
        pets=count,
        client_id=options.credentials.client_id,
        client_secret=options.credentials.client_secret,
        api_key=options.credentials.api_key,
        warnings=warnings(options.host, auth=options.auth),
    )
