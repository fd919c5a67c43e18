"""A receiver of webhooks that keeps every body."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["Postbox"]


class Postbox:
    """Listens on a free port of this machine, as a context manager; `letters` are the bodies."""

    def __init__(self) -> None:
        self.letters: list[dict[str, Any]] = []
        letters = self.letters

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                letters.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        """The address that apprise sends to."""
        return f"json://127.0.0.1:{self._server.server_address[1]}/told"

    def taken(self) -> list[dict[str, Any]]:
        """Return and remove the bodies that arrived since the last call, oldest first."""
        letters = self.letters[:]
        del self.letters[: len(letters)]
        return letters
