"""What carries requests to the service: aiohttp, or any httpx transport that is given instead.

Neither follows a redirect, keeps a cookie or repeats a request: session.py decides all that.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from petsync.client.origin import is_loopback
from petsync.errors import SettingsError
from petsync.protocol.operations import Response

__all__ = [
    "ERRORS",
    "UNTRUSTED",
    "AiohttpTransport",
    "Bounds",
    "HttpxTransport",
    "TooLongError",
    "Transport",
    "never_sent",
    "proxy_for",
    "ssl_context",
    "tls_reason",
]


ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError, EOFError)
"""Everything that a carrier raises where no whole answer came."""

UNTRUSTED = (
    "PETSYNC_CA_FILE can name a file with the authority that the service's certificate is of, and "
    "PETSYNC_CLIENT_CERT the certificate that the service asks for."
)
_CONNECTIONS = 128
_CHUNK = 65536
_IDLE_SECONDS = 4.0
"""Below uvicorn's five seconds: a connection that the server is about to close is not used."""
_LONGEST_CONNECT = 10.0
_LOGIN = "Proxy-Authorization"
_REFUSAL = 1 << 16
"""As much is read of what an error says."""
_NEVER_SENT = (
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one answer may be: `size` in bytes, decompressed, and `seconds` from when the request
    has gone out until the last byte is there. Of a refusal no more than 64 kB is read.
    """

    size: int
    seconds: float


class TooLongError(Exception):
    """The answer is longer than its bound; no more of it was read."""


def ssl_context() -> ssl.SSLContext:
    """A context that trusts the authorities in PETSYNC_CA_FILE (PEM) in the place of those that
    are known, and shows the certificate in PETSYNC_CLIENT_CERT, whose private key stands behind
    it or in PETSYNC_CLIENT_KEY. Raises SettingsError for a file that cannot be used.
    """
    authorities = os.environ.get("PETSYNC_CA_FILE", "")
    cert, key = (os.environ.get(f"PETSYNC_CLIENT_{name}", "") for name in ("CERT", "KEY"))
    try:
        if authorities:
            context = ssl.create_default_context(cafile=authorities)
        else:
            context = httpx.create_ssl_context()
    except OSError as error:
        where = authorities or "SSL_CERT_FILE or SSL_CERT_DIR"
        raise _unusable(f"the authorities in {where}", error) from None
    if cert:
        try:
            context.load_cert_chain(cert, key or None, password=_no_password)
        except OSError as error:
            raise _unusable(f"the client certificate {cert}", error) from None
    return context


def _no_password() -> str:
    # Without this OpenSSL would ask at the terminal, and wait.
    return ""


def _unusable(what: str, error: OSError) -> SettingsError:
    why = tls_reason(error) or error.strerror or "it is not in PEM"
    return SettingsError(
        f"{what} cannot be used: {why}",
        hint="PETSYNC_CA_FILE, PETSYNC_CLIENT_CERT and PETSYNC_CLIENT_KEY name files in PEM; a key "
        "must have no password.",
    )


class Transport(Protocol):
    """Takes one request to the service, and its whole answer back."""

    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """The answer, decompressed. `url` is as origin.encoded makes it; `on_sent` is told how many
        bytes of the body have gone out so far. Raises one of ERRORS, and TooLongError.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class AiohttpTransport:
    """Carries by aiohttp. It is made where a loop runs, and asks the environment once for a proxy
    unless the service is on this machine. `timeout` is in seconds, for each wait.
    """

    def __init__(self, base_url: str, timeout: float) -> None:
        secure = urlsplit(base_url).scheme == "https"
        proxy, login = proxy_for(base_url)
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS,
                keepalive_timeout=_IDLE_SECONDS,
                ssl=ssl_context() if secure else True,
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                sock_connect=min(timeout, _LONGEST_CONNECT), sock_read=timeout
            ),
            proxy=proxy,
        )
        said = {} if login is None else {_LOGIN: aiohttp.encode_basic_auth(*login)}
        # The proxy reads it in the request itself, or where a way through it is asked for.
        self._headers, self._proxy_headers = ({}, said) if secure else (said, {})
        # aiohttp would send a PUT or DELETE again by itself after a lost connection, and nobody
        # would know that the first may have happened. Retries are client/retry.py's to decide.
        self._client._retry_connection = False

    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """As Transport says."""
        data: bytes | AsyncIterator[bytes] | None = body or None
        async with _deadline(bounds.seconds) as deadline:
            if on_sent is not None:
                headers = {**headers, "content-length": str(len(body))}
                data = _pieces(body, on_sent, deadline, bounds.seconds)
            async with self._client.request(
                method,
                URL(url, encoded=True),
                headers={**headers, **self._headers},
                data=data,
                allow_redirects=False,
                proxy_headers=self._proxy_headers,
            ) as answer:
                readable = _readable(answer.raw_headers)
                pieces = answer.content.iter_any()
                content = await _content(pieces, answer.status, readable, bounds.size)
                return Response(answer.status, readable, content)

    async def close(self) -> None:
        """As Transport says."""
        await self._client.close()


class HttpxTransport:
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
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
    ) -> Response:
        """As Transport says; `on_sent` is told once, when all has gone out."""
        request = httpx.Request(
            method, url, headers=headers, content=body or None, extensions=self._extensions
        )
        async with _deadline(bounds.seconds):
            answer = await self._transport.handle_async_request(request)
            readable = _readable(answer.headers.raw)
            try:
                if answer.is_stream_consumed:  # The transport has read and decompressed it.
                    content = await answer.aread()
                    if len(content) > _most(answer.status_code, bounds.size):
                        content = _truncate(content, answer.status_code, bounds.size)
                else:
                    pieces = answer.aiter_raw()
                    content = await _content(pieces, answer.status_code, readable, bounds.size)
            finally:
                await answer.aclose()
        if on_sent is not None:
            on_sent(len(body))
        return Response(answer.status_code, readable, content)

    async def close(self) -> None:
        """As Transport says."""
        await self._transport.aclose()


def never_sent(error: BaseException) -> bool:
    """Whether the request surely never left: there was no connection to send it on.

    An httpx transport may call refused and lost connections alike; its cause tells them apart.
    """
    return isinstance(error, _NEVER_SENT) or isinstance(error.__cause__, _NEVER_SENT)


def proxy_for(url: str) -> tuple[str | None, tuple[str, str] | None]:
    """The environment's proxy for the address, and the user and password for it: in the proxy's
    address each error of a library would show them. Raises SettingsError, which does not.

    aiohttp's own `trust_env` would ask in a thread for every request, and would send what
    ~/.netrc has for the host.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None, None
    environment = getproxies()
    given = environment.get(parts.scheme) or environment.get("all")
    if not given:
        return None, None
    try:
        proxy = URL(given if "://" in given else f"http://{given}")
        is_known = proxy.scheme in ("http", "https") and bool(proxy.host) and proxy.port
    except ValueError:
        is_known = False
    if not is_known:
        raise SettingsError(
            f"the proxy that the environment names for {parts.scheme} cannot be used",
            hint=f"Look at {parts.scheme}_proxy and all_proxy: such as http://proxy.example:3128.",
        )
    login: tuple[str, str] | None = None
    if proxy.user or proxy.password:
        login = proxy.user or "", proxy.password or ""
    return str(proxy.with_user(None)), login


def tls_reason(error: BaseException | None) -> str:
    """Why no encrypted connection came about, in OpenSSL's words; "" where that is not why."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # aiohttp's own error claims to be OpenSSL's, which it holds.
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        if isinstance(error, ssl.SSLError) and not isinstance(error, aiohttp.ClientError):
            said = getattr(error, "verify_message", "")
            if said:
                return f"certificate verify failed: {said}"
            return (error.reason or "the encrypted connection failed").replace("_", " ").lower()
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
    return ""


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    try:
        async with asyncio.timeout(seconds) as deadline:
            yield deadline
    except TimeoutError as error:
        if deadline.expired():
            raise TimeoutError(f"it was not whole after {seconds:g} seconds") from error
        raise


async def _content(
    pieces: AsyncIterator[bytes], status: int, headers: Mapping[str, str], size: int
) -> bytes:
    """The answer's body, decompressed as it comes. Raises TooLongError, and ClientPayloadError
    where it cannot be decompressed.
    """
    most = _most(status, size)
    decoder = _decoder(headers.get("content-encoding", ""))
    parts: list[bytes] = []
    length = 0
    try:
        async for piece in pieces:
            part = piece if decoder is None else decoder.more(piece, most + 1 - length)
            parts.append(part)
            length += len(part)
            if length > most:
                return _truncate(b"".join(parts), status, size)
    except zlib.error as error:
        raise aiohttp.ClientPayloadError(f"it cannot be decompressed: {error}") from None
    if decoder is not None and parts and not decoder.is_whole:
        raise aiohttp.ClientPayloadError("it ends before what is compressed in it does")
    return b"".join(parts)


def _most(status: int, size: int) -> int:
    return size if 200 <= status < 300 else min(size, _REFUSAL)


def _truncate(content: bytes, status: int, size: int) -> bytes:
    """The beginning of a refusal; of any other answer a part is worth nothing."""
    if 200 <= status < 300:
        raise TooLongError(f"{size / 1e6:,.0f} MB")
    return content[: _most(status, size)]


class _Decoder:
    """Decompresses gzip and deflate piece by piece, and never more than is asked for."""

    def __init__(self, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._inner: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it ends where the compressed data do."""
        return self._inner is None or self._inner.eof

    def more(self, piece: bytes, most: int) -> bytes:
        """What the piece becomes, at most so many bytes of it; after more than is allowed nobody
        asks again. Raises zlib.error.
        """
        parts: list[bytes] = []
        while piece and most > 0:
            if self._inner is None or (self._inner.eof and self._is_gzip):
                self._inner = zlib.decompressobj(self._window(piece))
            part = self._inner.decompress(piece, most)
            piece = self._inner.unused_data if self._inner.eof and self._is_gzip else b""
            parts.append(part)
            most -= len(part)
        return b"".join(parts)

    def _window(self, piece: bytes) -> int:
        if self._is_gzip:
            return 16 + zlib.MAX_WBITS
        # Some servers send deflate without the header that belongs to it.
        return zlib.MAX_WBITS if piece[0] & 0xF == 8 else -zlib.MAX_WBITS


def _decoder(encoding: str) -> _Decoder | None:
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind in ("gzip", "x-gzip", "deflate"):
        return _Decoder(kind != "deflate")
    raise aiohttp.ClientPayloadError(f"it is compressed as {kind[:40]!r}, which nobody asked for")


async def _pieces(
    body: bytes, on_sent: Callable[[int], None], deadline: asyncio.Timeout, seconds: float
) -> AsyncIterator[bytes]:
    """The body, piece by piece; one is asked for when there is room again behind the last. The
    time of the answer begins with the last one.
    """
    clock = asyncio.get_running_loop().time
    view = memoryview(body)
    for start in range(0, len(body), _CHUNK):
        piece = view[start : start + _CHUNK]
        yield bytes(piece)
        deadline.reschedule(clock() + seconds)
        on_sent(start + len(piece))


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
