"""The sandbox's server: a socket, a store, and uvicorn around the application."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from petsync.model import Pet
from petsync.sandbox import address, seeds
from petsync.sandbox.access import Guard
from petsync.sandbox.app import application
from petsync.sandbox.behaviour import Behaviour, behaviour_named
from petsync.sandbox.breakage import TRANSPORT
from petsync.sandbox.clients import Credentials
from petsync.sandbox.faults import Injector, parse
from petsync.sandbox.service import Service
from petsync.sandbox.storage import Storage
from petsync.sandbox.tokens import TokenBook

__all__ = ["Options", "Running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run a sandbox; port 0 is a free one, `token_lifetime` is in seconds."""

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
    """A sandbox that holds its port and its file, and answers while `run` runs.

    Raises SettingsError for an option that cannot be used: before anything is held.
    """

    def __init__(self, options: Options, path: Path, *, durable: bool) -> None:
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop
        self._behaviour = behaviour_named(options.profile)
        self._faults = None if options.faults is None else parse(options.faults)
        pets = seeds.read(options.seed, options.pets)
        self._socket = address.bound(options.host, options.port)
        try:
            self._storage = Storage(path, durable=durable)
        except BaseException:
            self._socket.close()
            raise
        try:
            seeds.fill(self._storage, pets)
            self.service = self._service(options)
        except BaseException:
            self.close()
            raise
        hosts = address.trusted(options.host)
        self._server = _Server(_config(application(self.service, hosts=hosts)))

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Answer until `stop`, or in the main thread until Ctrl-C or SIGTERM."""

        def ready() -> None:
            on_ready()
            self.ready.set()

        self._server.when_started = ready
        try:
            with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
                self.loop = runner.get_loop()
                runner.run(self._server.serve(sockets=[self._socket]))
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.ready.set()

    def stop(self) -> None:
        """Ask `run` to return; from any thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Release the port and the file; `run` must have returned."""
        self._socket.close()
        self._storage.close()

    def _service(self, options: Options) -> Service:
        tokens = TokenBook(self._storage, lifetime=options.token_lifetime)
        return Service(
            behaviour=self._behaviour,
            storage=self._storage,
            origin=address.origin(options.host, self._socket),
            credentials=options.credentials,
            tokens=tokens,
            guard=Guard(tokens, options.credentials.api_key) if options.auth else None,
            faults=Injector(self._faults),
        )


class _Protocol(HttpToolsProtocol):
    """Leaves the transport where a fault can reach it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][TRANSPORT] = self.transport


class _Server(uvicorn.Server):
    when_started: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's, a signal is not raised again: the caller has a store to close."""
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
