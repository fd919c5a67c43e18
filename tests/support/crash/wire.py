"""A proxy between a client and a service that can be cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

__all__ = ["Wire"]


class Wire:
    """Forwards connections from its own `port` to a port of this machine; a context manager.

    When it is cut, it refuses connections and breaks the existing ones; with `silently` it accepts
    everything and forwards nothing.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._silent = False
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.mend()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut()
        self._call(_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """The service's address through this proxy."""
        return f"http://127.0.0.1:{self.port}/v2"

    def mend(self) -> None:
        """Forward everything again on the same port; silent connections stay dead."""
        self._silent = False
        if self._server is None:
            self._call(self._listen())

    def cut(self, *, silently: bool = False) -> None:
        """Forward nothing from now on."""
        self._silent = silently
        if not silently:
            self._call(self._close())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._both, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for end in [*self._ends]:
            end.transport.abort()

    async def _both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            far, near = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            self._ends.discard(writer)
            return
        self._ends.add(near)
        await asyncio.gather(self._one(reader, near), self._one(far, writer))
        for end in (near, writer):
            end.transport.abort()
            self._ends.discard(end)

    async def _one(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(65536):
                if self._silent:
                    continue
                sink.write(piece)
                await sink.drain()
        sink.transport.abort()


async def _ended() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
