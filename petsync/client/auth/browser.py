"""Sign in with a browser: the loopback page, the returned address, the implicit flow."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from html import escape
from string import Template
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from oauthlib.common import add_params_to_uri
from oauthlib.oauth2 import WebApplicationClient

from petsync.client.auth import oauth
from petsync.client.auth.credentials import Credentials, Grant, checked_token
from petsync.client.auth.oauth import Authority, Endpoints, Values
from petsync.errors import AuthError, PetsyncError, SettingsError
from petsync.models import Account
from petsync.settings import Secret

__all__ = [
    "AsyncPendingSignIn",
    "CallbackParameters",
    "Loopback",
    "OnReturn",
    "Page",
    "Prompt",
    "Question",
    "from_fragment",
    "parse_return",
    "same",
    "token_in",
]


# CallbackParameters: what a browser brings back from the sign-in, in its address or pasted by hand.
#
# Source: RFC 6749, sections 4.1.2 and 4.2.2; RFC 9207 for `iss`.


_LONGEST = 64 * 1024
_MOST = 40
_WHOLE = "Copy the whole address from the browser's address bar, after you chose Allow."


@dataclass(frozen=True, slots=True)
class CallbackParameters:
    """The parameters; or `bare`, a text that has none. Shows none of it."""

    values: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    bare: Secret | None = field(default=None, repr=False)

    def get(self, name: str) -> Secret | None:
        """One parameter."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """One that is no secret."""
        value = self.values.get(name)
        return "" if value is None else value.reveal()

    def reveal_items(self) -> Iterator[tuple[str, str]]:
        """All of it."""
        return ((name, value.reveal()) for name, value in self.values.items())

    def plain(self) -> dict[str, str]:
        """The parameters that are no secrets, and tell what the service decided."""
        names = ("error", "error_description", "scope", "expires_in", "token_type")
        return {name: self.text(name) for name in names if name in self.values}

    def is_from(self, state: Secret) -> bool:
        """Whether it answers the question that was asked with this state."""
        given = self.get("state")
        return given is not None and same(given, state)

    def check_issuer(self, places: Endpoints) -> None:
        """Return if nothing says that another service answers. Raises AuthError."""
        given = self.text("iss")
        if not given and not places.says_iss:
            return
        expected = places.issuer or _origin(places.authorize)
        if given not in (expected, places.issuer):
            raise AuthError(
                "sign-in: the answer does not come from the service that was asked",
                hint="Nothing was sent to it. Open the present address, and copy what it ends on.",
            )


def parse_return(pasted: Secret) -> CallbackParameters:
    """What is in an address, in what stands behind its `?` or `#`, or a bare text.

    Raises SettingsError for what cannot be that, and does not show it.
    """
    pairs = _pairs(pasted)
    if pairs is None:
        raise SettingsError("what was pasted is no address that ends a sign-in", hint=_WHOLE)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise SettingsError("the address says something twice, so it is not used", hint=_WHOLE)
    return (
        CallbackParameters(dict(pairs)) if pairs else CallbackParameters(bare=_strip_pasted(pasted))
    )


def same(given: Secret, kept: Secret) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of either."""
    return hmac.compare_digest(given.reveal().encode(), kept.reveal().encode())


def _pairs(pasted: Secret) -> list[tuple[str, Secret]] | None:
    """None for what is empty or too much."""
    text = _strip_pasted(pasted).reveal()
    if not text or len(text) > _LONGEST:
        return None
    try:
        return [
            (name, Secret(value))
            for part in _parts(text)
            for name, value in parse_qsl(part, keep_blank_values=True, max_num_fields=_MOST)
        ]
    except ValueError:
        return None


def _parts(text: str) -> Iterator[str]:
    if "://" in text or text[:1] in "?#/":
        parts = urlsplit(text)
        yield from (parts.query, parts.fragment)
    elif "=" in text.rstrip("="):
        # A bare token may end in =, as base64 does.
        yield text


def _strip_pasted(pasted: Secret) -> Secret:
    """Without what comes along when one copies, and the line breaks of a terminal."""
    text = "".join(pasted.reveal().split("\n")).replace("\r", "").replace("\t", "")
    return Secret(text.strip().strip("<>\"'` ").strip())


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# The token that an implicit sign-in brings behind the `#` of an address.
#
# Source: RFC 6749, section 4.2.2.


def from_fragment(back: CallbackParameters, wanted: Credentials) -> Credentials:
    """The credentials with the token that came back. Raises AuthError where none did."""
    if back.get("error") is not None:
        raise oauth.refusal(back.plain(), wanted).error()
    if back.get("access_token") is None:
        raise AuthError(
            "sign-in: the address holds no token",
            hint="Copy the whole address, with what stands behind #.",
        )
    return oauth.parse_credentials(Values(back.reveal_items()), wanted, time.time())


def token_in(text: Secret, state: Secret | None, key: Secret | None) -> Credentials:
    """The credentials with the token in the text. Raises SettingsError, AuthError."""
    back = parse_return(text)
    wanted = Credentials(key=key, grant=Grant(kind="implicit"))
    if back.bare is not None:
        return Credentials(checked_token(back.bare), key, grant=wanted.grant)
    if back.get("state") is not None and state is None:
        raise SettingsError(
            "the address names the sign-in that it belongs to, and nothing says that it is yours",
            hint="Give the state that you sent, or use store.begin_sign_in(implicit=True).",
        )
    if state is not None and not back.is_from(state):
        raise AuthError(
            "sign-in: this answer belongs to another sign-in, so it was not used",
            hint="Begin again, and copy the address that the browser ends on.",
        )
    return from_fragment(back, wanted)


# Loopback: a page on this machine to which the service sends the browser back.
#
# It listens on 127.0.0.1 alone, on a port and a path of its own, answers there and nowhere else,
# and only requests for that very address: a name that somebody made point here gets nothing.
# Source: RFC 8252, section 7.3.


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
                self._handle_connection, _HOST, port, limit=_LONGEST, family=0
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

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
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
        writer.write(await self._build_response(head, body))
        await writer.drain()

    async def _build_response(self, head: Secret, body: Secret) -> bytes:
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


# AsyncPendingSignIn: a sign-in that waits for a person at a browser.


Finish = Callable[[Credentials], Awaitable[Account]]
_DONE = ("You are signed in", "You can close this window and go back to where you came from.")
_AGAIN = "Begin the sign-in again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to ask the person for."""

    scopes: tuple[str, ...]
    client_id: str
    implicit: bool
    listen: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the service, by way of a browser: what it was asked with, all of it secret
    until it is answered.
    """

    asked: Prompt
    places: Endpoints
    redirect: str
    state: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(32)), repr=False)
    verifier: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(64)), repr=False)

    @property
    def url(self) -> str:
        """The address to open. It carries the state, which is worth nothing without the verifier
        or this process.
        """
        params = {
            "response_type": "token" if self.asked.implicit else "code",
            "client_id": self.asked.client_id,
            "redirect_uri": self.redirect,
            "scope": " ".join(self.asked.scopes),
            "state": self.state.reveal(),
        }
        if not self.asked.implicit:
            challenge = WebApplicationClient("").create_code_challenge(
                self.verifier.reveal(), "S256"
            )
            params |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        given = [(name, text) for name, text in params.items() if text]
        return str(add_params_to_uri(self.places.authorize, given))

    def grant(self) -> Grant:
        """What is known of the sign-in before it is answered."""
        return Grant(
            kind="implicit" if self.asked.implicit else "code",
            kept="memory",
            client_id=self.asked.client_id,
            scopes=frozenset(self.asked.scopes) or None,
        )


class AsyncPendingSignIn:
    """A sign-in under way: open `url` in a browser, and wait until the browser has `arrived`, or
    hand over what somebody `pasted`. Whichever comes first counts, and counts once.

    `is_listening`: the browser can come back by itself, if it runs on this machine.
    """

    def __init__(self, authority: Authority, asked: Prompt, finish: Finish) -> None:
        self._authority, self._asked, self._finish = authority, asked, finish
        self._loopback: Loopback | None = None
        self._question: Question
        self._account: Future[Account] = Future()
        self._taken = threading.Lock()
        self._is_over = False

    @classmethod
    async def begin(cls, authority: Authority, asked: Prompt, finish: Finish) -> Self:
        """A sign-in that waits. Raises SettingsError where the service does not offer it."""
        pending = cls(authority, asked, finish)
        places = await authority.places()
        _check_offered(places, asked)
        pending._question = Question(asked, places, await pending._redirect(places))
        return pending

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return self._question.url

    @property
    def is_listening(self) -> bool:
        """Whether the browser's return would be noticed."""
        return self._loopback is not None

    @property
    def is_open(self) -> bool:
        """Whether nothing has come yet that belongs to this sign-in."""
        return not self._is_over and not self._taken.locked()

    async def arrived(self, timeout: float = 300.0) -> Account:  # noqa: ASYNC109
        """The account, once the browser came back; at most `timeout` seconds are waited.

        Raises AuthError where the person or the service said no, or nobody came in time.
        """
        try:
            waiting = asyncio.wrap_future(self._account)
            # Whoever stops waiting leaves nobody to hear of an error.
            waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            async with asyncio.timeout(timeout):
                return await asyncio.shield(waiting)
        except TimeoutError:
            pass
        finally:
            await self.close()
        raise AuthError("sign-in: nobody came back from the browser in time", hint=_AGAIN)

    async def pasted(self, text: str | Secret) -> Account:
        """The account for the address that the browser ended on; for an implicit sign-in also for
        the bare token. What does not belong to this sign-in leaves it open for another try.

        Raises AuthError and SettingsError, which do not show what was pasted.
        """
        self._check_not_over()
        text = text if isinstance(text, Secret) else Secret(str(text))
        back = parse_return(text)
        if back.bare is not None and self._asked.implicit:
            account = await self._complete(self._granted_bare(back.bare))
        else:
            self._check_mine(back)
            account = await self._complete(self._obtain_credentials(back))
        await self.close()
        return account

    async def close(self) -> None:
        """Wait no longer; a second time is no error."""
        loopback, self._loopback = self._loopback, None
        if loopback is not None:
            await loopback.close()

    async def end(self) -> None:
        """Close it for good: whatever comes from here on signs nobody in."""
        self._is_over = True
        self._end(_over())
        await self.close()

    def __repr__(self) -> str:
        return f"<petsync.Pending {urlsplit(self._question.places.authorize).netloc}>"

    async def _redirect(self, places: Endpoints) -> str:
        """Where the browser is to go; where nobody listens, its address bar is enough."""
        named = urlsplit(places.redirect)
        is_here = not places.redirect or named.hostname == "127.0.0.1"
        if self._asked.listen and is_here:
            loopback = Loopback(self._handle_return, by_fragment=self._asked.implicit)
            await loopback.open(named.port or 0, named.path or "/petsync")
            self._loopback = loopback
            return places.redirect or loopback.address
        return places.redirect or f"http://127.0.0.1:{49152 + secrets.randbelow(16000)}/petsync"

    async def _handle_return(self, query: Secret) -> Page:
        """The browser is here, or somebody who says so."""
        try:
            self._check_not_over()
            back = parse_return(Secret(f"?{query.reveal()}"))
            self._check_mine(back)
            await self._complete(self._obtain_credentials(back))
        except PetsyncError as error:
            return "This did not work", f"{error.message}. {error.hint}"
        return _DONE

    def _check_not_over(self) -> None:
        if self._is_over:
            raise _over()

    def _check_mine(self, back: CallbackParameters) -> None:
        if back.get("code_challenge") is not None or back.get("response_type") is not None:
            raise SettingsError(
                "that is the address to open, not the one that the browser ends on",
                hint="Open it, choose Allow, and then copy what stands in the address bar.",
            )
        if back.get("state") is None:
            raise SettingsError(
                "what was pasted does not name the sign-in that it belongs to",
                hint="Copy the whole address from the browser's address bar.",
            )
        if not back.is_from(self._question.state):
            raise AuthError(
                "sign-in: this answer belongs to another sign-in, so it was not used",
                hint="Open the present address, and copy what the browser ends on.",
            )
        back.check_issuer(self._question.places)

    async def _complete(self, granted: Coroutine[Any, Any, Credentials]) -> Account:
        """The account; everyone who waits gets it, or the error."""
        if not self._taken.acquire(blocking=False):
            granted.close()
            raise AuthError("sign-in: this one was answered already", hint=_AGAIN)
        try:
            found = await granted
            self._check_not_over()
            account = await self._finish(found)
        except BaseException as error:
            self._end(error)
            raise
        if not self._account.done():
            self._account.set_result(account)
        return account

    def _end(self, error: BaseException) -> None:
        known = isinstance(error, PetsyncError)
        kept = error if known else AuthError("sign-in: it was interrupted", hint=_AGAIN)
        if not self._account.done():
            self._account.set_exception(kept)

    async def _obtain_credentials(self, back: CallbackParameters) -> Credentials:
        question, code = self._question, back.get("code")
        known = (question.state, question.verifier, code, back.get("access_token"))
        past = tuple(each for each in known if each is not None)
        wanted = Credentials(grant=question.grant(), past=past)
        if back.get("error") is not None:
            raise oauth.refusal(back.plain(), wanted).error()
        if self._asked.implicit:
            return from_fragment(back, wanted)
        if code is None:
            raise AuthError("sign-in: the service sent no code back", hint=_AGAIN)
        return await self._authority.by_code(wanted, code, question.verifier, question.redirect)

    async def _granted_bare(self, token: Secret) -> Credentials:
        return Credentials(checked_token(token), grant=self._question.grant())


def _over() -> AuthError:
    return AuthError(
        "sign-in: the store that began it was closed",
        hint="Connect again, and begin the sign-in there.",
    )


def _check_offered(places: Endpoints, asked: Prompt) -> None:
    wanted = "token" if asked.implicit else "code"
    if places.flows is not None and wanted not in places.flows:
        other = "code" if asked.implicit else "token"
        way = {"code": "Leave implicit out", "token": "Use the implicit sign-in (implicit=True)"}
        raise SettingsError(
            "the service does not offer this way to sign in",
            hint=f"{way[other]}." if other in places.flows else "Give a token instead.",
        )
    if not places.authorize or not (places.token or asked.implicit):
        raise SettingsError(
            "the service does not say where one signs in with a browser",
            hint="Name authorize_url and token_url under [auth] in petsync.toml.",
        )
