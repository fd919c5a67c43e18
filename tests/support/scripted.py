"""A server of raw bytes: it answers each connection's requests with a test's script."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

Answer = bytes | None | Callable[[], bytes | None] | Iterable[bytes]


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole HTTP response; `content_type="x"` becomes `content-type: x`."""
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ScriptedServer:
    """Answers each request with the next answer of the script, and then repeats the last one.

    None closes the connection without an answer; pieces are sent one by one until the client stops
    reading. `requests` holds each request's head and body as text.
    """

    def __init__(self, *script: Answer) -> None:
        self._script = list(script)
        self.requests: list[str] = []
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while outer._serve(self):
                    pass

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v2"

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

    def _serve(self, handler: socketserver.StreamRequestHandler) -> bool:
        head: list[bytes] = []
        while (line := handler.rfile.readline()) not in (b"\r\n", b""):
            head.append(line)
        if not head:
            return False
        lengths = [int(h.split(b":")[1]) for h in head if h.lower().startswith(b"content-length")]
        body = handler.rfile.read(lengths[0]) if lengths else b""
        self.requests.append((b"".join(head) + b"\r\n" + body).decode("latin-1"))
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        reply = step() if callable(step) else step
        if reply is None:
            return False
        if not isinstance(reply, bytes):
            return _stream(handler, reply)
        handler.wfile.write(reply)
        return b"\r\n\r\n" in reply and _is_whole(reply)


def _stream(handler: socketserver.StreamRequestHandler, pieces: Iterable[bytes]) -> bool:
    """Send the pieces until the client stops reading; then the connection ends."""
    try:
        for piece in pieces:
            handler.wfile.write(piece)
    except OSError:
        pass
    return False


def _is_whole(reply: bytes) -> bool:
    head, _, body = reply.partition(b"\r\n\r\n")
    lines: Sequence[bytes] = head.lower().split(b"\r\n")
    lengths = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")]
    return bool(lengths) and lengths[0] == len(body)
