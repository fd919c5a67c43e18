"""Transports for requests to the service: aiohttp, or a given httpx transport or client.

They keep no cookies, follow no redirects and repeat no requests: session.py does the last two.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from types import ModuleType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from msgspec.structs import replace
from yarl import URL

from petsync._version import __version__
from petsync.client.origin import is_loopback
from petsync.errors import PetsyncError, SettingsError, UnavailableError
from petsync.protocol.operations import NewReader, Response

__all__ = [
    "AGENT",
    "ERRORS",
    "UNTRUSTED",
    "AiohttpTransport",
    "Bounds",
    "GivenClient",
    "GivenTransport",
    "HttpxTransport",
    "TooLongError",
    "Transport",
    "chosen_transport",
    "has_client_certificate",
    "proxy_for",
    "ssl_context",
    "tls_reason",
    "was_never_sent",
]


ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError, EOFError)
"""The errors of a transport that received no complete response."""

AGENT = f"petsync/{__version__}"
"""The User-Agent of every request."""
_HEADERS = {"user-agent": AGENT, "accept-encoding": "gzip, deflate"}

UNTRUSTED = (
    "PETSYNC_CA_FILE can name a file with the certificate authorities to trust, and "
    "PETSYNC_CLIENT_CERT a client certificate, if the service requires one."
)
_CONNECTIONS = 128
_CHUNK = 65536
_SHORT_BODY = 32768
"""The maximum size of a body in bytes that aiohttp hands over to the system at once."""
_IDLE_SECONDS = 4.0
"""Seconds for which an idle connection is kept. uvicorn closes it after five seconds: petsync must
not use a connection that the server is about to close.
"""
_MAX_CONNECT_S = 10.0
_PROXY_HEADER = "Proxy-Authorization"
_MAX_ERROR_BYTES = 1 << 16
"""The maximum number of bytes that are read of an error response."""


class _TunnelError(aiohttp.ClientConnectionError):
    """The proxy opened no connection to the service."""


_NEVER_SENT = (
    _TunnelError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
)
_NOT_CONNECTED = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
"""httpcore's errors before a connection is established: the causes of httpx's errors."""
_OTHER_LOOP = (
    "the given client has connections of another event loop; give each store a separate client"
)
_LIBRARIES = ("httpx", "httpx2")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a response. Of an error response, at most 64 KiB are read."""

    size: int
    """The maximum size in bytes, after decompression."""
    seconds: float
    """The maximum time until the end of the response, from the start of the request or, with
    aiohttp and `on_sent`, from the last piece of the request's body.
    """


class TooLongError(Exception):
    """The response exceeds its size limit; the rest of it is not read."""


def ssl_context() -> ssl.SSLContext:
    """Return the TLS context that the environment describes.

    PETSYNC_CA_FILE (PEM) replaces the default certificate authorities. PETSYNC_CLIENT_CERT is the
    client certificate; its private key is in the same file or in PETSYNC_CLIENT_KEY. Raises
    SettingsError for a file that cannot be used.
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
        raise _build_unusable_error(f"the certificate authorities in {where}", error) from None
    if cert:
        try:
            context.load_cert_chain(cert, key or None, password=_no_password)
        except OSError as error:
            raise _build_unusable_error(f"the client certificate {cert}", error) from None
    return context


def has_client_certificate(url: str) -> bool:
    """Return true if petsync's own client presents the user's client certificate to the service at
    this URL.
    """
    return urlsplit(url).scheme == "https" and bool(os.environ.get("PETSYNC_CLIENT_CERT"))


def _no_password() -> str:
    # Without this, OpenSSL would ask for a password in the terminal.
    return ""


def _build_unusable_error(what: str, error: OSError) -> SettingsError:
    why = tls_reason(error) or error.strerror or "it is not in PEM"
    return SettingsError(
        f"{what} cannot be used: {why}",
        hint="PETSYNC_CA_FILE, PETSYNC_CLIENT_CERT and PETSYNC_CLIENT_KEY name files in PEM; a key "
        "must have no password.",
    )


class Transport(Protocol):
    """Sends one request to the service, and returns the complete response. It adds the headers that
    are the same for all requests.
    """

    async def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
        new_reader: NewReader | None = None,
    ) -> Response:
        """Send the request, and return the decompressed response.

        `url` is encoded, as by `origin.encode_url`. `on_sent` gets the number of bytes of the body
        that were sent so far. The body of a successful response goes to the result of `new_reader`,
        if given. Raises one of ERRORS if no complete response arrives, and
        TooLongError for a successful response above the size limit.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class AiohttpTransport:
    """A transport that uses aiohttp. It must be created on a running event loop.

    `timeout` is the maximum time in seconds of each wait for data. Raises SettingsError if the
    environment names a proxy or a certificate file that cannot be used.
    """

    def __init__(self, base_url: str, timeout: float) -> None:
        secure = urlsplit(base_url).scheme == "https"
        proxy, login = proxy_for(base_url)
        proxy_login = {} if login is None else {_PROXY_HEADER: aiohttp.encode_basic_auth(*login)}
        # The proxy reads the login in the request or, for https, in CONNECT.
        headers, self._proxy_headers = ({}, proxy_login) if secure else (proxy_login, {})
        self._seconds = timeout
        connect = min(timeout, _MAX_CONNECT_S)
        self._short_timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        self._long_timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=connect, sock_read=timeout
        )
        self._watch = _Watch()
        self._client = aiohttp.ClientSession(
            connector=_Connector(
                self._watch,
                timeout,
                limit=_CONNECTIONS,
                keepalive_timeout=_IDLE_SECONDS,
                ssl=ssl_context() if secure else True,
            ),
            headers={**_HEADERS, **headers},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy,
        )
        # aiohttp would repeat a PUT or DELETE after a lost connection, although the service may
        # have processed the first request. client/retry.py decides about retries. The attribute is
        # private: another version of aiohttp may lack it.
        self._may_repeat = "_retry_connection" not in vars(self._client)
        self._client._retry_connection = False

    async def send(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
        new_reader: NewReader | None = None,
    ) -> Response:
        """Send the request, as `Transport.send`. Raises UnavailableError after `close`, and
        PetsyncError for a request that changes something, if this version of aiohttp might repeat
        it.
        """
        if self._client.closed:
            raise UnavailableError(
                "the store was closed before this request was sent",
                hint="Close a store only after its last call has returned.",
            )
        if self._may_repeat and method != "GET":
            raise PetsyncError(
                f"{method} {url}: not sent, because aiohttp {aiohttp.__version__} might send it "
                "twice after a lost connection",
                hint="Install the version of aiohttp that petsync supports: pip install --upgrade "
                "petsync aiohttp. Or give a client: ps.connect(…, http=httpx.AsyncClient()).",
            )
        data: bytes | AsyncIterator[bytes] | None = body or None
        is_short = on_sent is None and len(body) <= _SHORT_BODY
        with _Wait(self._watch, bounds.seconds, self._seconds if is_short else math.inf) as wait:
            if on_sent is not None:
                headers = {**headers, "content-length": str(len(body))}
                data = _iter_pieces(body, on_sent, wait)
            response = await self._client.request(
                method,
                url,
                headers=headers,
                data=data,
                allow_redirects=False,
                proxy_headers=self._proxy_headers,
                timeout=self._short_timeout if is_short else self._long_timeout,
            )
            status, received = response.status, _decode_headers(response.raw_headers)
            head = Response(status, received, b"")
            is_plain = new_reader is None and "content-encoding" not in received
            if is_plain and response.content.is_eof():  # All of it has arrived.
                content = response.content.read_nowait() if data is None else await response.read()
                if len(content) > _max_size(status, bounds.size):
                    content = _truncate(content, head, bounds.size)
                return Response(status, received, content)
            wait.expect()
            pieces = response.content.iter_any()
            async with response:
                return await _read_body(pieces, head, bounds.size, new_reader, wait)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class _Watch:
    """Cancels requests that take too long. A single timer serves all of them: aiohttp's own timers,
    three for each request, take a seventh of its time.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.waits: dict[asyncio.Task[Any], _Wait] = {}
        self.checks_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def check_at(self, when: float) -> None:
        """Check the limits at this time, which must be earlier than `checks_at`."""
        if self._timer is not None:
            self._timer.cancel()
        # What arrived while the loop was busy is handled before the check.
        self._timer = self._loop.call_at(when, self._loop.call_soon, self._check)
        self.checks_at = when

    def _check(self) -> None:
        self._timer, self.checks_at = None, math.inf
        now = self.now()
        for wait in self.waits.values():
            if not wait.is_over and wait.limit <= now:
                wait.is_over = True
                wait.task.cancel()
        if left := [wait.limit for wait in self.waits.values() if not wait.is_over]:
            self.check_at(min(left))


class _Wait:
    """The time limits of a request by the current task: it may take `seconds`, and each wait for a
    part of the response `silence` seconds. As a context manager, it cancels the task when one of
    them has passed, and raises TimeoutError.
    """

    __slots__ = (
        "_cancelling",
        "_end",
        "_seconds",
        "_silence",
        "_watch",
        "is_over",
        "limit",
        "task",
    )

    def __init__(self, watch: _Watch, seconds: float, silence: float) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request needs a task")
        self._watch, self.task, self._seconds, self._silence = watch, task, seconds, silence
        self._cancelling, self.is_over = task.cancelling(), False
        self._end = watch.now() + seconds

    def restart(self) -> None:
        """Start the limit of the whole request again, and end that of a wait."""
        self._end = self._watch.now() + self._seconds
        self.pause()

    def pause(self) -> None:
        """End the limit of a wait: nothing is expected."""
        self.limit = self._end

    def expect(self) -> None:
        """Start the limit of a wait for a part of the response."""
        watch = self._watch
        limit = watch.now() + self._silence
        self.limit = limit = limit if limit < self._end else self._end
        if limit < watch.checks_at:
            watch.check_at(limit)

    def __enter__(self) -> Self:
        self.expect()
        self._watch.waits[self.task] = self
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del self._watch.waits[self.task]
        if not self.is_over or self.task.uncancel() > self._cancelling:
            return
        if isinstance(error, asyncio.CancelledError):
            if self.limit == self._end:
                raise _build_timeout_error(self._seconds) from error
            raise aiohttp.SocketTimeoutError("Timeout on reading data from socket") from error


class _Connector(aiohttp.TCPConnector):
    """aiohttp's connector. While it opens a connection, no response is expected."""

    def __init__(self, watch: _Watch, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._watch, self._seconds = watch, seconds

    async def _create_connection(self, *args: Any, **options: Any) -> ResponseHandler:
        task = asyncio.current_task()
        wait = self._watch.waits.get(task) if task is not None else None
        if wait is not None:
            wait.pause()
        try:
            # aiohttp would wait for a proxy without a limit.
            async with asyncio.timeout(self._seconds):
                connection = await super()._create_connection(*args, **options)
        except aiohttp.ClientConnectorError:
            raise
        except aiohttp.ClientError as error:
            status = getattr(error, "status", None)
            why = f"it answers {status}" if status else str(error)
            raise _TunnelError(f"the proxy opens no connection: {why}") from error
        if wait is not None:
            wait.expect()
        return connection


class GivenTransport(Protocol):
    """An asynchronous transport of httpx or httpx2."""

    @property
    def handle_async_request(self) -> Callable[..., Any]: ...

    @property
    def aclose(self) -> Callable[..., Any]: ...


class GivenClient(Protocol):
    """An AsyncClient of httpx or httpx2."""

    @property
    def build_request(self) -> Callable[..., Any]: ...

    @property
    def send(self) -> Callable[..., Any]: ...

    @property
    def is_closed(self) -> bool: ...


def chosen_transport(
    transport: GivenTransport | None, http: GivenClient | None
) -> GivenTransport | GivenClient | None:
    """Return the given transport or client, None if there is none. Raises SettingsError for both,
    and for an object that is not asynchronous.
    """
    if transport is not None and http is not None:
        raise SettingsError(
            "transport and http are both given",
            hint="Give the transport to the client: http=httpx.AsyncClient(transport=…).",
        )
    if transport is not None and not _has_coroutine(transport, "handle_async_request"):
        raise SettingsError(
            f"transport is {_describe_type(transport)}, not an asynchronous httpx transport",
            hint="For example transport=httpx.AsyncHTTPTransport(verify=…).",
        )
    if http is not None and not (hasattr(http, "build_request") and _has_coroutine(http, "send")):
        raise SettingsError(
            f"http is {_describe_type(http)}, not an httpx.AsyncClient",
            hint="For example http=httpx.AsyncClient(verify=…).",
        )
    return transport if http is None else http


def _has_coroutine(given: object, name: str) -> bool:
    return not isinstance(given, type) and inspect.iscoroutinefunction(getattr(given, name, None))


def _describe_type(given: object) -> str:
    kind = given if isinstance(given, type) else type(given)
    return f"{'the class ' if kind is given else 'a '}{kind.__module__}.{kind.__qualname__}"


class HttpxTransport:
    """A transport that uses a given transport or client of httpx or httpx2.

    A client that `is_borrowed` belongs to the caller, and is not closed. Requests to the service
    get the headers, cookies and parameters of a client; `plain` requests, to an authorization
    server, do not.
    """

    def __init__(
        self,
        given: GivenTransport | GivenClient,
        timeout: float,
        *,
        is_borrowed: bool = False,
        plain: bool = False,
    ) -> None:
        self._given: Any = given
        self._is_borrowed, self._is_plain = is_borrowed, plain
        self._library = _library_of(given)
        self._extensions: dict[str, Any] = {
            "timeout": {
                "connect": min(timeout, _MAX_CONNECT_S),
                "read": timeout,
                "write": timeout,
                "pool": None,
            }
        }

    async def send(
        self,
        method: str,
        url: URL | str,
        headers: Mapping[str, str],
        body: bytes,
        bounds: Bounds,
        on_sent: Callable[[int], None] | None = None,
        new_reader: NewReader | None = None,
    ) -> Response:
        """Send the request, as `Transport.send`; `on_sent` is called once, after the response."""
        try:
            async with _deadline(bounds.seconds):
                response = await self._send(method, url, headers, body)
                try:
                    whole = await _read_response(response, bounds.size, new_reader)
                finally:
                    await response.aclose()
        except RuntimeError as error:
            # The connections belong to another loop, the request is repeated, or a stream is used
            # up.
            why = _OTHER_LOOP if "event loop" in str(error).lower() else str(error)
            raise httpx.TransportError(why) from error
        except Exception as error:
            known = _as_httpx(error, self._library)
            if known is error:
                raise
            raise known from error.__cause__
        if on_sent is not None:
            on_sent(len(body))
        return whole

    async def close(self) -> None:
        """Close the connections, unless they belong to the caller."""
        if not self._is_borrowed:
            await self._given.aclose()

    async def _send(
        self, method: str, url: URL | str, headers: Mapping[str, str], body: bytes
    ) -> Any:
        given = self._given
        is_client = not hasattr(given, "handle_async_request")
        if is_client and given.is_closed:
            raise UnavailableError(
                "the httpx client given to ps.connect is closed",
                hint="Close the store first, and then the client.",
            )
        # petsync's credentials replace the client's.
        uses_auth = (
            is_client
            and not self._is_plain
            and "authorization" not in headers
            and given.auth is not None
        )
        extensions = dict(self._extensions)
        if method != "GET" and not uses_auth:  # The client's auth may repeat a refused request.
            extensions["trace"] = _refuse_repeat()
        build = given.build_request if is_client and not self._is_plain else self._library.Request
        request = build(
            method,
            str(url),
            headers={**_HEADERS, **headers},
            content=body or None,
            extensions=extensions,
        )
        if not is_client:
            return await given.handle_async_request(request)
        auth = {} if uses_auth else {"auth": None}
        return await given.send(request, stream=True, follow_redirects=False, **auth)


def _refuse_repeat() -> Callable[[str, object], Awaitable[None]]:
    """Return a trace function for httpcore that lets a request be sent only once, whatever the
    transports above httpcore do.
    """
    is_sent = False

    async def trace(event: str, _: object) -> None:
        nonlocal is_sent
        if event.endswith("send_request_headers.started"):
            if is_sent:
                raise RuntimeError("the given transport tried to send the request again")
            is_sent = True

    return trace


def _library_of(given: object) -> ModuleType:
    """Return the module that the object's class comes from, httpx or httpx2; httpx for others."""
    roots = (kind.__module__.partition(".")[0] for kind in type(given).__mro__)
    return sys.modules[next((root for root in roots if root in _LIBRARIES), "httpx")]


def _as_httpx(error: Exception, library: ModuleType) -> Exception:
    """Return httpx's error of the same name for an error of httpx2, and a ReadError for an error of
    anyio, which httpcore lets through when a connection ends; other errors unchanged.
    """
    if type(error).__module__.partition(".")[0] == "anyio":
        return httpx.ReadError(f"the connection ended ({type(error).__name__})")
    if library is httpx or not isinstance(error, library.HTTPError | library.InvalidURL):
        return error
    kind = getattr(httpx, type(error).__name__, httpx.TransportError)
    return kind(str(error)) if isinstance(kind, type) else httpx.TransportError(str(error))


async def _read_response(response: Any, size: int, new_reader: NewReader | None) -> Response:
    head = Response(response.status_code, _decode_headers(response.headers.raw), b"")
    if not response.is_stream_consumed:
        return await _read_body(response.aiter_raw(), head, size, new_reader)
    # The transport or an event hook has already decompressed the body.
    content = await response.aread()
    if len(content) > _max_size(head.status, size):
        content = _truncate(content, head, size)
    return replace(head, body=content)


def was_never_sent(error: BaseException) -> bool:
    """Return true if the request was certainly not sent, because no connection was established.

    An httpx transport may raise the same error for a refused and a lost connection; then only the
    error's cause shows which one it is.
    """
    cause = error.__cause__
    is_httpcore = type(cause).__module__.partition(".")[0] in ("httpcore", "httpcore2")
    return (
        isinstance(error, _NEVER_SENT)
        or isinstance(cause, _NEVER_SENT)
        or (is_httpcore and type(cause).__name__ in _NOT_CONNECTED)
    )


def proxy_for(url: str) -> tuple[str | None, tuple[str, str] | None]:
    """Return the environment's proxy for the address, and the pair of the proxy's user and
    password. The proxy's address does not contain them, because libraries show it in errors.

    The proxy is None for a loopback host and for a host in no_proxy. The pair is None without user
    and password. Raises SettingsError, which does not show the password, for an invalid proxy.

    aiohttp's `trust_env` would use a thread for every request, and would send the credentials
    in ~/.netrc.
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
            hint=f"Check {parts.scheme}_proxy and all_proxy. A valid value looks like http://proxy.example:3128.",
        )
    login: tuple[str, str] | None = None
    if proxy.user or proxy.password:
        login = proxy.user or "", proxy.password or ""
    return str(proxy.with_user(None)), login


def tls_reason(error: BaseException | None) -> str:
    """Return the reason why a TLS connection failed, from OpenSSL; "" for other errors."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # aiohttp's error is also an ssl.SSLError, but only wraps OpenSSL's error.
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        if isinstance(error, ssl.SSLError) and not isinstance(error, aiohttp.ClientError):
            message = getattr(error, "verify_message", "")
            if message:
                return f"certificate verify failed: {message}"
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
            raise _build_timeout_error(seconds) from error
        raise


def _build_timeout_error(seconds: float) -> TimeoutError:
    return TimeoutError(f"it was not complete after {seconds:g} seconds")


async def _read_body(
    pieces: AsyncIterator[bytes],
    head: Response,
    size: int,
    new_reader: NewReader | None,
    wait: _Wait | None = None,
) -> Response:
    """Return the response with its decompressed body. Raises TooLongError, and ClientPayloadError
    if the body cannot be decompressed.
    """
    limit = _max_size(head.status, size)
    stated = head.headers.get("content-length", "")
    if _is_success(head.status) and stated.isdecimal() and int(stated) > limit:
        raise _build_too_long_error(size)  # Nothing of the body is read.
    decoder = _decoder(head.headers.get("content-encoding", ""))
    reader = new_reader(head) if new_reader is not None and _is_success(head.status) else None
    # This needs half the memory of a list of the pieces that is joined.
    content = BytesIO()
    write = content.write if reader is None else reader.write
    length = 0
    try:
        async for piece in pieces:
            part = piece if decoder is None else decoder.decompress(piece, limit + 1 - length)
            write(part)
            if reader is not None and reader.is_full:
                return replace(head, reader=reader)
            length += len(part)
            if length > limit:
                return replace(head, body=_truncate(content.getvalue(), head, size))
            if wait is not None:
                wait.expect()
    except zlib.error as error:
        raise aiohttp.ClientPayloadError(f"it cannot be decompressed: {error}") from None
    if decoder is not None and not decoder.is_whole:
        raise aiohttp.ClientPayloadError("it ends before the compressed data are complete")
    return replace(head, body=content.getvalue(), reader=reader)


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _max_size(status: int, size: int) -> int:
    return size if _is_success(status) else min(size, _MAX_ERROR_BYTES)


def _truncate(content: bytes, head: Response, size: int) -> bytes:
    """Return the beginning of an error response. Raises TooLongError for a successful response."""
    if _is_success(head.status):
        raise _build_too_long_error(size)
    return content[: _max_size(head.status, size)]


def _build_too_long_error(size: int) -> TooLongError:
    return TooLongError(f"{size / 1e6:,.0f} MB")


class _Decoder:
    def __init__(self, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._inner: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        """True if the compressed data are complete."""
        return self._inner is None or self._inner.eof

    def decompress(self, piece: bytes, most: int) -> bytes:
        """Return the decompressed piece, cut off after `most` bytes: then the decoder must not be
        used any more. Raises zlib.error.
        """
        parts: list[bytes] = []
        while piece and most > 0:
            if self._inner is None or (self._inner.eof and self._is_gzip):
                self._inner = zlib.decompressobj(self._window_bits(piece))
            part = self._inner.decompress(piece, most)
            piece = self._inner.unused_data if self._inner.eof and self._is_gzip else b""
            parts.append(part)
            most -= len(part)
        return b"".join(parts)

    def _window_bits(self, piece: bytes) -> int:
        if self._is_gzip:
            return 16 + zlib.MAX_WBITS
        # Some servers send deflate without the zlib header.
        return zlib.MAX_WBITS if piece[0] & 0xF == 8 else -zlib.MAX_WBITS


def _decoder(encoding: str) -> _Decoder | None:
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind in ("gzip", "x-gzip", "deflate"):
        return _Decoder(kind != "deflate")
    raise aiohttp.ClientPayloadError(f"it is compressed as {kind[:40]!r}, which is not accepted")


async def _iter_pieces(
    body: bytes, on_sent: Callable[[int], None], wait: _Wait
) -> AsyncIterator[bytes]:
    """Yield the body in pieces, and restart the response's time limit after each piece."""
    view = memoryview(body)
    for start in range(0, len(body), _CHUNK):
        piece = view[start : start + _CHUNK]
        yield bytes(piece)
        wait.restart()
        on_sent(start + len(piece))


def _decode_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
