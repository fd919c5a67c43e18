"""httpx's transport on aiohttp, set up so that nothing is repeated, kept or routed unseen."""

from __future__ import annotations

import aiohttp
import httpx
import httpx_aiohttp

from petsync.client.origin import is_loopback

__all__ = ["ERRORS", "aiohttp_transport", "never_sent"]

ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError)
"""Everything that a transport raises where no whole answer came."""

_CONNECTIONS = 64
_IDLE_SECONDS = 4.0
"""Below uvicorn's five seconds: a connection that the server is about to close is not used."""
_NEVER_SENT = (
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
)


def aiohttp_transport(base_url: str) -> httpx.AsyncBaseTransport:
    """A transport without cookies, that asks the environment for a proxy unless the service is on
    this machine.
    """
    local = is_loopback(httpx.URL(base_url).host)
    transport = httpx_aiohttp.AiohttpTransport()

    def session() -> aiohttp.ClientSession:
        made = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=_CONNECTIONS, keepalive_timeout=_IDLE_SECONDS, ssl=transport.ssl_context
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not local,
        )
        # aiohttp would send a PUT or DELETE again by itself after a lost connection, and nobody
        # would know that the first may have happened. Retries are client/retry.py's to decide.
        made._retry_connection = False
        return made

    transport.client = session
    return transport


def never_sent(error: BaseException) -> bool:
    """Whether the request surely never left: there was no connection to send it on.

    The transport calls refused and lost connections alike a ConnectTimeout; its cause tells.
    """
    return isinstance(error, _NEVER_SENT) or isinstance(error.__cause__, _NEVER_SENT)
