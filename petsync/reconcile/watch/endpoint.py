"""The address at which a `petsync reconcile --every` can be asked how it is."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from petsync.errors import SettingsError

__all__ = ["Endpoint"]

log = logging.getLogger(__name__)

_MOST = 16
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Endpoint:
    """Serves `/metrics` and `/healthz` in a thread, from `start` until `close`.

    `health` says how it is; `"ok": False` among it makes the answer a 503.
    """

    def __init__(self, listen: str, metrics: Any, health: Callable[[], Mapping[str, Any]]) -> None:
        self._host, self._port = _split(listen)
        self._metrics, self._health = metrics, health
        self._server: WSGIServer | None = None

    @property
    def address(self) -> str:
        """`127.0.0.1:9464`, "" while it is not served."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._server.server_port}" if self._server is not None else ""

    def start(self) -> None:
        """Serve it from now on. Raises OSError where the address is taken."""
        if self._host not in _LOCAL:
            log.warning("the metrics at %s:%d can be read by others", self._host, self._port)
        kind = _Server6 if ":" in self._host else _Server
        self._server = make_server(
            self._host, self._port, self._answer, server_class=kind, handler_class=_Silent
        )
        thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Serve it no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._host in _LOCAL and _host_of(environ) not in _LOCAL:
            # A web page can have a name of its own lead here, and read what is answered.
            return _said(start, "421 Misdirected Request", "text/plain", "Not under this name.\n")
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start)
            return answer
        if path == "/healthz":
            told = dict(self._health())
            status = "200 OK" if told.get("ok") else "503 Service Unavailable"
            return _said(start, status, "application/json", json.dumps(told))
        return _said(start, "404 Not Found", "text/plain", "There are /metrics and /healthz.\n")


def _said(start: Callable[..., Any], status: str, kind: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store")])
    return [text.encode()]


def _split(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9464`, `[::1]:9464` or `:9464`. Raises SettingsError."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 0xFFFF:
        raise SettingsError(
            f"[metrics] listen is {listen!r}, and must be an address with a port",
            hint='Such as "127.0.0.1:9464".',
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _host_of(environ: Mapping[str, Any]) -> str:
    """The name that was asked for, without the port."""
    try:
        return urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    except ValueError:
        return ""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers `_MOST` requests at a time; who comes on top of them is not answered."""

    daemon_threads = True

    def __init__(self, *given: Any, **options: Any) -> None:
        self._room = threading.BoundedSemaphore(_MOST)
        super().__init__(*given, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there is room for one."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Make room again afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Nothing: a scrape is no event."""
