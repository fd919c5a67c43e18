"""Talk: one question to the place where one signs in, and its answer, with bounds on everything.

No plain secret is a local variable of a frame that an error passes: a verbose traceback shows
those. What httpx raises is left behind with its frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib.metadata import version
from urllib.parse import urlsplit

import httpx
import msgspec

from petsync.client.oauth.echo import without_echo
from petsync.client.oauth.said import Said, Values
from petsync.client.transport import UNTRUSTED, proxy_for, ssl_context, tls_reason
from petsync.errors import (
    PetsyncError,
    RateLimitedError,
    RedirectError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
)
from petsync.settings import Secret

__all__ = ["Talk"]

log = logging.getLogger(__name__)
_MOST = 256 * 1024
_AGENT = f"petsync/{version('petsync')}"
_FORM = "application/x-www-form-urlencoded"
Transport = Callable[[], httpx.AsyncBaseTransport]


class Talk:
    """Asks one address at a time. `timeout` (seconds) is for a whole answer."""

    def __init__(self, timeout: float, transport: Transport | None = None) -> None:
        self._timeout, self._transport = timeout, transport

    async def get(self, url: str) -> Said:
        """The answer to a GET that carries nothing."""
        return await self._asked("GET", url, Secret(""), None)

    async def post(self, url: str, form: Secret, authorization: Secret | None = None) -> Said:
        """The answer to an encoded form, without what it repeats of it. Raises ApiError where
        there is none that can be used.
        """
        said = await self._asked("POST", url, form, authorization)
        _check_status(said.status, url)
        if said.json is None:
            return said
        return Said(said.status, without_echo(said.json, form, authorization))

    async def _asked(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> Said:
        found = await self._caught(method, url, form, authorization)
        if isinstance(found, PetsyncError):
            raise found
        log.debug("%s %s: %d", method, url, found.status)
        return found

    async def _caught(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> Said | PetsyncError:
        """An error is returned, and not raised, so that its frames are gone."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchanged(method, url, form, authorization)
        except asyncio.CancelledError as cancelled:
            raise cancelled.with_traceback(None) from None
        except SettingsError as error:
            return error.with_traceback(None)
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.InvalidURL,
            httpx.ProxyError,
        ) as error:
            return _unreachable(url, may_have_happened=False, why=tls_reason(error))
        except (httpx.HTTPError, OSError, TimeoutError):
            return _unreachable(url, may_have_happened=True)
        except _TooMuchError:
            return _unreadable(url, "its answer is far too long")

    async def _exchanged(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> Said:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        headers["user-agent"] = _AGENT
        if method == "POST":
            headers["content-type"] = _FORM
        if authorization is not None:
            headers["authorization"] = authorization.reveal()
        async with self._client(url) as client:
            body = form.reveal().encode()
            async with client.stream(method, url, headers=headers, content=body) as answer:
                content = bytearray()
                async for piece in answer.aiter_raw():
                    content += piece
                    if len(content) > _MOST:
                        raise _TooMuchError
                return Said(answer.status_code, _object(answer, bytes(content)))

    def _client(self, url: str) -> httpx.AsyncClient:
        """One that goes by the environment's proxy, unless the address is on this machine."""
        proxy, login = proxy_for(url)
        return httpx.AsyncClient(
            transport=None if self._transport is None else self._transport(),
            verify=ssl_context() if urlsplit(url).scheme == "https" else True,
            proxy=None if proxy is None else httpx.Proxy(proxy, auth=login),
            trust_env=False,
            timeout=self._timeout,
            follow_redirects=False,
        )


class _TooMuchError(Exception):
    pass


def _object(answer: httpx.Response, content: bytes) -> Values | None:
    if answer.headers.get("content-encoding", "identity") != "identity":
        return None
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Values(found) if isinstance(found, dict) else None


def _check_status(status: int, url: str) -> None:
    where = _place(url)
    if 300 <= status < 400:
        raise RedirectError(
            f"sign-in: {where} points elsewhere ({status}), where no secret is sent",
            status=status,
            hint="If the address has moved, name the new one under [auth] in petsync.toml.",
        )
    if status == 429:
        raise RateLimitedError(
            f"sign-in: {where} asks to wait (429)", status=429, hint="Try again in a minute."
        )
    if status >= 500:
        raise ServiceError(
            f"sign-in: {where} failed ({status})",
            status=status,
            may_have_happened=True,
            hint="Try again in a moment; if it stays so, ask whoever runs the service.",
        )


def _unreachable(url: str, *, may_have_happened: bool, why: str = "") -> TransportError:
    what = "gave no whole answer" if may_have_happened else "cannot be reached"
    return TransportError(
        f"sign-in: {_place(url)} {what}{f' ({why})' if why else ''}",
        may_have_happened=may_have_happened,
        hint=UNTRUSTED if why else "Is the address right, and the service up? Then try again.",
    )


def _unreadable(url: str, why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: {_place(url)} answers what cannot be read: {why}",
        hint="Is this the address of the sign-in? petsync.toml can name it under [auth].",
    )


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
