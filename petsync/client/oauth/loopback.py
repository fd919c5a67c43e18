"""Loopback: a page on this machine to which the service sends the browser back.

It listens on 127.0.0.1 alone, on a port and a path of its own, answers there and nowhere else,
and only requests for that very address: a name that somebody made point here gets nothing.
Source: RFC 8252, section 7.3.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Self

from petsync.errors import SettingsError
from petsync.settings import Secret

__all__ = ["Loopback", "OnReturn", "Page"]

_LONGEST = 64 * 1024
_PATIENCE = 10.0
_LAST_WORD = 2.0
_HOST = "127.0.0.1"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:10vh auto;padding:0 1rem;"
    "color-scheme:light dark}"
)
# The address would stay in the browser's history, and what it carries with it.
_FORGET = "history.replaceState(null,'',location.pathname);"
# What follows # never leaves the browser by itself: it is handed on here, as the body of a request.
_SCRIPT = (
    f"var f=location.hash.slice(1);{_FORGET}"
    "if(f)fetch(location.pathname,{method:'POST',body:f}).then(r=>r.text()).then(t=>{"
    "var d=new DOMParser().parseFromString(t,'text/html');"
    "for(var n of['h1','p'])document.querySelector(n).textContent=d.querySelector(n).textContent})"
)
_PAGE = Template(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>$title</title>'
    '<meta name="viewport" content="width=device-width"><style>$style</style></head>'
    "<body><main><h1>$title</h1><p>$text</p></main>$script</body></html>"
)
Page = tuple[str, str]
"""A heading and a sentence."""
OnReturn = Callable[[Secret], Awaitable[Page]]
"""Told what stood behind the address's `?` or `#`; the page that the person is to see."""


class Loopback:
    """Waits for the browser. `by_fragment`: the answer stands behind `#`."""

    def __init__(self, on_return: OnReturn, *, by_fragment: bool = False) -> None:
        self._on_return, self._by_fragment = on_return, by_fragment
        self._server: asyncio.Server | None = None
        self._path = "/"
        self._answering: set[asyncio.Task[None]] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def open(self, port: int = 0, path: str = "/petsync") -> Self:
        """It, listening; `address` is where. Raises SettingsError."""
        self._path = path
        try:
            self._server = await asyncio.start_server(
                self._served, _HOST, port, limit=_LONGEST, family=0
            )
        except OSError as error:
            raise SettingsError(
                f"petsync cannot listen on this machine for the browser: {error.strerror}",
                hint="Sign in by pasting the address that the browser ends on.",
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://{_HOST}:{self._port}{path}"
        return self

    async def close(self) -> None:
        """Stop listening; a browser that has come still gets its page."""
        server, self._server = self._server, None
        if server is None:
            return
        loop = server.get_loop()
        if loop is asyncio.get_running_loop():
            await self._end(server)
        elif loop.is_running():
            # Sockets and tasks belong to the loop that listens.
            ending = asyncio.run_coroutine_threadsafe(self._end(server), loop)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(ending), 2 * _LAST_WORD)
        else:
            server.close()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        for writer in tuple(self._silent):
            writer.transport.abort()  # Who has said nothing whole is not waited for.
        if self._answering:
            await asyncio.wait(self._answering, timeout=_LAST_WORD)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._silent.add(writer)
        try:
            async with asyncio.timeout(_PATIENCE):
                head = Secret((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                body = Secret((await reader.readexactly(_length(head))).decode("latin-1"))
            self._silent.discard(writer)
            answering = asyncio.create_task(self._answer(head, body, writer))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
            await answering
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            pass  # The loop ends. asyncio would print that a connection did not.
        finally:
            self._silent.discard(writer)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, head: Secret, body: Secret, writer: asyncio.StreamWriter) -> None:
        writer.write(await self._answered(head, body))
        await writer.drain()

    async def _answered(self, head: Secret, body: Secret) -> bytes:
        request = _request(head)
        place = (self._path, [f"{_HOST}:{self._port}"])
        is_here = (request.path, request.hosts) == place
        if is_here and self._by_fragment and request.method == "POST":
            return _response(200, await self._on_return(body))
        if not is_here or request.method != "GET":
            return _response(404, ("Nothing here", "This page is for one sign-in of petsync."))
        if self._by_fragment:
            return _response(200, ("One moment", "Signing in …"), script=_SCRIPT)
        return _response(200, await self._on_return(request.query), script=_FORGET)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Secret
    hosts: list[str]


def _request(head: Secret) -> _Request:
    first = head.reveal().partition("\r\n")[0]
    method, _, target = first.partition(" ")
    path, _, query = target.rpartition(" ")[0].partition("?")
    return _Request(method, path, Secret(query), _fields(head, "host"))


def _fields(head: Secret, wanted: str) -> list[str]:
    """The values of a header."""
    fields = (line.partition(":") for line in head.reveal().split("\r\n")[1:])
    return [value.strip() for name, _, value in fields if name.strip().lower() == wanted]


def _length(head: Secret) -> int:
    """How long the request's body is, as far as it is waited for."""
    said = _fields(head, "content-length")
    number = int(said[0]) if len(said) == 1 and re.fullmatch(r"[0-9]{1,5}", said[0]) else 0
    return number if number <= _LONGEST else 0


def _response(status: int, page: Page, *, script: str = "") -> bytes:
    title, text = page
    body = _PAGE.substitute(
        title=escape(title),
        text=escape(text),
        style=_STYLE,
        script=f"<script>{script}</script>" if script else "",
    ).encode()
    run = f"script-src 'sha256-{_digest(script)}'; connect-src 'self'; " if script else ""
    policy = (
        f"default-src 'none'; {run}style-src 'sha256-{_digest(_STYLE)}'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    lines = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        f"Content-Security-Policy: {policy}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
