"""What carries requests to the service: aiohttp, or any httpx transport that is given instead.

Neither follows a redirect, keeps a cookie or repeats a request: session.py decides all that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from petsync.client.origin import is_loopback
from petsync.wire.message import Response

__all__ = ["ERRORS", "AiohttpCarrier", "Carrier", "HttpxCarrier", "never_sent"]

ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError)
"""Everything that a carrier raises where no whole answer came."""

_CONNECTIONS = 128
_CHUNK = 65536
_IDLE_SECONDS = 4.0
"""Below uvicorn's five seconds: a connection that the server is about to close is not used."""
_LONGEST_CONNECT = 10.0
_NEVER_SENT = (
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
)


class Carrier(Protocol):
    """Takes one request to the service, and its whole answer back."""

    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """The answer, decompressed. `url` is as origin.encoded makes it; `on_sent` is told how many
        bytes of the body have gone out so far. Raises one of ERRORS.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class AiohttpCarrier:
    """Carries by aiohttp. It is made where a loop runs, and asks the environment once for a proxy
    unless the service is on this machine. `timeout` is in seconds, for each wait.
    """

    def __init__(self, base_url: str, timeout: float) -> None:
        secure = urlsplit(base_url).scheme == "https"
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS,
                keepalive_timeout=_IDLE_SECONDS,
                ssl=httpx.create_ssl_context() if secure else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                sock_connect=min(timeout, _LONGEST_CONNECT), sock_read=timeout
            ),
            proxy=_proxy(base_url),
        )
        # aiohttp would send a PUT or DELETE again by itself after a lost connection, and nobody
        # would know that the first may have happened. Retries are client/retry.py's to decide.
        self._client._retry_connection = False

    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """As Carrier says."""
        data: bytes | AsyncIterator[bytes] | None = body or None
        if on_sent is not None:
            headers = {**headers, "content-length": str(len(body))}
            data = _pieces(body, on_sent)
        async with self._client.request(
            method,
            URL(url, encoded=True),
            headers=headers,
            data=data,
            allow_redirects=False,
        ) as answer:
            content = await answer.read()
            return Response(answer.status, _readable(answer.raw_headers), content)

    async def close(self) -> None:
        """As Carrier says."""
        await self._client.close()


class HttpxCarrier:
    """Carries by an httpx transport, which says what it does beyond HTTP itself."""

    def __init__(self, transport: httpx.AsyncBaseTransport, timeout: float) -> None:
        self._transport = transport
        self._extensions = {
            "timeout": {
                "connect": min(timeout, _LONGEST_CONNECT),
                "read": timeout,
                "write": timeout,
                "pool": None,
            }
        }

    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """As Carrier says; `on_sent` is told once, when all has gone out."""
        request = httpx.Request(
            method, url, headers=headers, content=body or None, extensions=self._extensions
        )
        answer = await self._transport.handle_async_request(request)
        try:
            content = await answer.aread()
        finally:
            await answer.aclose()
        if on_sent is not None:
            on_sent(len(body))
        return Response(answer.status_code, _readable(answer.headers.raw), content)

    async def close(self) -> None:
        """As Carrier says."""
        await self._transport.aclose()


def never_sent(error: BaseException) -> bool:
    """Whether the request surely never left: there was no connection to send it on.

    An httpx transport may call refused and lost connections alike; its cause tells them apart.
    """
    return isinstance(error, _NEVER_SENT) or isinstance(error.__cause__, _NEVER_SENT)


async def _pieces(body: bytes, on_sent: Callable[[int], None]) -> AsyncIterator[bytes]:
    """The body, piece by piece; one is asked for when there is room again behind the last."""
    view = memoryview(body)
    for start in range(0, len(body), _CHUNK):
        piece = view[start : start + _CHUNK]
        yield bytes(piece)
        on_sent(start + len(piece))


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def _proxy(base_url: str) -> str | None:
    """The environment's proxy for the service.

    aiohttp's own `trust_env` would ask in a thread for every request, and would send what
    ~/.netrc has for the host.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxy = getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
