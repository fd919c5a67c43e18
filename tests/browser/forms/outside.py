"""A proxy that records and refuses each request to another host."""

from __future__ import annotations

import socketserver
import threading
from typing import Self


class _Refusal(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline(4096).decode("latin-1").strip()
        self.server.asked.append(line)  # type: ignore[attr-defined]
        self.wfile.write(
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Outside:
    """A proxy that lets nothing through. Browsers send it each request that is not for loopback:
    pages, images, sockets, name look-ups, and the browser's own requests.
    """

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Refusal)
        self.asked: list[str] = []
        self._server.asked = self.asked  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"
