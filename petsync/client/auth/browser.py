"""Sign in with a browser: the loopback listener, the parsing of the response, the implicit flow."""

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

from petsync.client.auth import oauth
from petsync.client.auth.credentials import Credentials, Grant, checked_token
from petsync.client.auth.oauth import Authority, Endpoints, Values
from petsync.errors import AuthError, PetsyncError, SettingsError
from petsync.models import Account
from petsync.settings import Secret

__all__ = [
    "AsyncPendingSignIn",
    "AuthorizationRequest",
    "CallbackParameters",
    "Loopback",
    "OnReturn",
    "Page",
    "SignInRequest",
    "equal_secrets",
    "from_fragment",
    "parse_callback",
    "token_in",
]


# CallbackParameters: the authorization server's response, from the browser's redirect or pasted by
# the user.
#
# Source: RFC 6749, sections 4.1.2 and 4.2.2; RFC 9207 for `iss`.


_MAX_SIZE = 64 * 1024
_MAX_FIELDS = 40
_COPY_HINT = "Copy the whole address from the browser's address bar, after you choose Allow."


@dataclass(frozen=True, slots=True)
class CallbackParameters:
    """The parameters of the authorization server's response. The repr shows no values."""

    values: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    token_text: Secret | None = field(default=None, repr=False)
    """The pasted text, if it has no parameters."""

    def get(self, name: str) -> Secret | None:
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Return the plain text of a parameter that is not secret; "" if it is missing."""
        value = self.values.get(name)
        return "" if value is None else value.reveal()

    def reveal_items(self) -> Iterator[tuple[str, str]]:
        """Return the names and plain values of all parameters."""
        return ((name, value.reveal()) for name, value in self.values.items())

    def public_values(self) -> dict[str, str]:
        """Return the parameters that describe the service's decision and are not secret."""
        names = ("error", "error_description", "scope", "expires_in", "token_type")
        return {name: self.text(name) for name in names if name in self.values}

    def has_state(self, state: Secret) -> bool:
        """Return true if this is the response to the request with this state."""
        state_sent = self.get("state")
        return state_sent is not None and equal_secrets(state_sent, state)

    def check_issuer(self, endpoints: Endpoints) -> None:
        """Raise AuthError if `iss` names another service, or is missing although the service
        always sends it.
        """
        given = self.text("iss")
        if not given and not endpoints.says_iss:
            return
        expected = endpoints.issuer or _origin(endpoints.authorize)
        if given not in (expected, endpoints.issuer):
            raise AuthError(
                "sign-in: the response does not name this service as its issuer",
                hint="petsync did not use it. Open the address of this sign-in, and copy the final "
                "address from the browser's address bar.",
            )


def parse_callback(pasted: Secret) -> CallbackParameters:
    """Parse an address, the part after its `?` or `#`, or only a token.

    Raises SettingsError for other text, and does not show it.
    """
    pairs = _pairs(pasted)
    if pairs is None:
        raise SettingsError("the pasted text is not the address of a sign-in", hint=_COPY_HINT)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise SettingsError(
            "the address contains a parameter twice, so petsync does not use it", hint=_COPY_HINT
        )
    return (
        CallbackParameters(dict(pairs)) if pairs else CallbackParameters(token_text=_clean(pasted))
    )


def equal_secrets(given: Secret, kept: Secret) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.reveal().encode(), kept.reveal().encode())


def _pairs(pasted: Secret) -> list[tuple[str, Secret]] | None:
    """Return the parameters in the text; None if it is empty, too long or cannot be parsed."""
    text = _clean(pasted).reveal()
    if not text or len(text) > _MAX_SIZE:
        return None
    try:
        return [
            (name, Secret(value))
            for part in _parts(text)
            for name, value in parse_qsl(part, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        ]
    except ValueError:
        return None


def _parts(text: str) -> Iterator[str]:
    if "://" in text or text[:1] in "?#/":
        parts = urlsplit(text)
        yield from (parts.query, parts.fragment)
    elif "=" in text.rstrip("="):
        # A token may end in =, as base64 does.
        yield text


def _clean(pasted: Secret) -> Secret:
    """Return the text without line breaks and tabs, and without surrounding spaces, quotes and
    angle brackets.
    """
    text = "".join(pasted.reveal().split("\n")).replace("\r", "").replace("\t", "")
    return Secret(text.strip().strip("<>\"'` ").strip())


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# The token of an implicit sign-in, which is in the part of the address after `#`.
#
# Source: RFC 6749, section 4.2.2.


def from_fragment(callback: CallbackParameters, wanted: Credentials) -> Credentials:
    """Return the credentials with the token in the response. Raises AuthError if it has none, and
    ResponseError if the token cannot be used.
    """
    if callback.get("error") is not None:
        raise oauth.parse_refusal(callback.public_values(), wanted).error()
    if callback.get("access_token") is None:
        raise AuthError(
            "sign-in: the address contains no token",
            hint="Copy the whole address, including the part after #.",
        )
    return oauth.parse_credentials(Values(callback.reveal_items()), wanted, time.time())


def token_in(text: Secret, state: Secret | None, key: Secret | None) -> Credentials:
    """Return the credentials with the token in the text, which is an address or only the token.

    Raises SettingsError, AuthError or ResponseError if it contains no usable token, or if its state
    is not `state`.
    """
    callback = parse_callback(text)
    wanted = Credentials(key=key, grant=Grant(kind="implicit"))
    if callback.token_text is not None:
        return Credentials(checked_token(callback.token_text), key, grant=wanted.grant)
    if callback.get("state") is not None and state is None:
        raise SettingsError(
            "the address contains a state, but no state was given to compare it with",
            hint="Pass the state that you sent, or use store.begin_sign_in(implicit=True).",
        )
    if state is not None and not callback.has_state(state):
        raise AuthError(
            "sign-in: this response belongs to another sign-in, so it was not used",
            hint="Begin again, and copy the final address from the browser's address bar.",
        )
    return from_fragment(callback, wanted)


# Loopback: a listener on this machine to which the service redirects the browser.
#
# It listens only on 127.0.0.1, and responds with 404 to requests for another path or with another
# Host header (DNS rebinding). Source: RFC 8252, section 7.3.


_REQUEST_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 2.0
_CLOSE_GRACE_S = 0.25
"""Seconds that a connected browser has to send its request after the listener was closed."""
_HOST = "127.0.0.1"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:10vh auto;padding:0 1rem;"
    "color-scheme:light dark}"
)
# Remove the parameters from the browser's history.
_CLEAR_ADDRESS = "history.replaceState(null,'',location.pathname);"
# The browser does not send the part of the address after #, so this script sends it in a POST.
_SCRIPT = (
    f"var f=location.hash.slice(1);{_CLEAR_ADDRESS}"
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
"""The heading and the text of a page."""
OnReturn = Callable[[Secret], Awaitable[Page]]
"""A function that gets the part of the address after `?` or `#`, and returns the page to show."""


class Loopback:
    """A listener on this machine for the browser's redirect. `by_fragment` is true if the response
    is in the part of the address after `#`.
    """

    def __init__(self, on_return: OnReturn, *, by_fragment: bool = False) -> None:
        self._on_return, self._by_fragment = on_return, by_fragment
        self._server: asyncio.Server | None = None
        self._path = "/"
        self._responding: set[asyncio.Task[None]] = set()
        self._reading: set[asyncio.Task[tuple[Secret, Secret]]] = set()
        self.address = ""

    async def open(self, port: int = 0, path: str = "/petsync") -> Self:
        """Start to listen, set `address`, and return the listener. Raises SettingsError if it
        cannot listen on the port; port 0 means any free port.
        """
        self._path = path
        try:
            self._server = await asyncio.start_server(
                self._handle_connection, _HOST, port, limit=_MAX_SIZE, family=0
            )
        except OSError as error:
            raise SettingsError(
                f"petsync cannot listen on this machine for the browser: {error.strerror}",
                hint="Sign in with --no-browser, in Python listen=False, and paste the final "
                "address from the browser's address bar.",
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://{_HOST}:{self._port}{path}"
        return self

    async def close(self) -> None:
        """Stop listening, after a short wait for requests in progress."""
        server, self._server = self._server, None
        if server is None:
            return
        loop = server.get_loop()
        if loop is asyncio.get_running_loop():
            await self._shut_down(server)
        elif loop.is_running():
            # Sockets and tasks belong to the loop that listens.
            ending = asyncio.run_coroutine_threadsafe(self._shut_down(server), loop)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(ending), 2 * _CLOSE_TIMEOUT_S)
        else:
            server.close()

    async def _shut_down(self, server: asyncio.Server) -> None:
        # Accept waiting connections first, which takes several iterations of the loop: when the
        # listener closes, the system resets connections that are not accepted yet.
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        if self._reading:
            _, incomplete = await asyncio.wait(self._reading, timeout=_CLOSE_GRACE_S)
            for reading in incomplete:
                reading.cancel()
            await asyncio.sleep(0)  # Let the tasks that respond to complete requests start.
        if self._responding:
            await asyncio.wait(self._responding, timeout=_CLOSE_TIMEOUT_S)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reading = asyncio.create_task(_read_request(reader))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        try:
            head, body = await reading
            responding = asyncio.create_task(self._answer(head, body, writer))
            self._responding.add(responding)
            responding.add_done_callback(self._responding.discard)
            await responding
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            pass  # Without this clause, asyncio would log an error when the event loop ends.
        finally:
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
            return _response(404, ("Nothing here", "This page is for a single petsync sign-in."))
        if self._by_fragment:
            return _response(200, ("One moment", "Signing in …"), script=_SCRIPT)
        return _response(200, await self._on_return(request.query), script=_CLEAR_ADDRESS)


async def _read_request(reader: asyncio.StreamReader) -> tuple[Secret, Secret]:
    async with asyncio.timeout(_REQUEST_TIMEOUT_S):
        head = Secret((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        body = Secret((await reader.readexactly(_length(head))).decode("latin-1"))
    return head, body


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
    fields = (line.partition(":") for line in head.reveal().split("\r\n")[1:])
    return [value.strip() for name, _, value in fields if name.strip().lower() == wanted]


def _length(head: Secret) -> int:
    """Return the request's Content-Length; 0 if it is missing, invalid or too large."""
    values = _fields(head, "content-length")
    number = int(values[0]) if len(values) == 1 and re.fullmatch(r"[0-9]{1,5}", values[0]) else 0
    return number if number <= _MAX_SIZE else 0


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


# AsyncPendingSignIn: a sign-in that waits until the user finishes it in a browser.


Finish = Callable[[Credentials], Awaitable[Account]]
_DONE = ("You are signed in", "You can close this window and return to petsync.")
_AGAIN = "Begin the sign-in again."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInRequest:
    """The options of a sign-in."""

    scopes: tuple[str, ...]
    client_id: str
    implicit: bool
    listen: bool


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """One authorization request. Its `state` and `verifier` are secret."""

    request: SignInRequest
    endpoints: Endpoints
    redirect: str
    state: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(32)), repr=False)
    verifier: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(64)), repr=False)

    @property
    def url(self) -> str:
        """The address to open in a browser. It contains the state, but not the verifier."""
        # Imported here, because it takes long and only a sign-in needs it.
        from oauthlib.common import add_params_to_uri
        from oauthlib.oauth2 import WebApplicationClient

        params = {
            "response_type": "token" if self.request.implicit else "code",
            "client_id": self.request.client_id,
            "redirect_uri": self.redirect,
            "scope": " ".join(self.request.scopes),
            "state": self.state.reveal(),
        }
        if not self.request.implicit:
            challenge = WebApplicationClient("").create_code_challenge(
                self.verifier.reveal(), "S256"
            )
            params |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        given = [(name, text) for name, text in params.items() if text]
        return str(add_params_to_uri(self.endpoints.authorize, given))

    def grant(self) -> Grant:
        """Return the terms of the grant that are known before the response."""
        return Grant(
            kind="implicit" if self.request.implicit else "code",
            kept="memory",
            client_id=self.request.client_id,
            scopes=frozenset(self.request.scopes) or None,
        )


class AsyncPendingSignIn:
    """A sign-in that waits for the user. Open `url` in a browser. If `is_listening` is true, await
    `wait`; otherwise, pass the final address from the browser to `paste`.

    Only the first response to this sign-in is used.
    """

    def __init__(self, authority: Authority, request: SignInRequest, finish: Finish) -> None:
        self._authority, self._request_values, self._finish = authority, request, finish
        self._loopback: Loopback | None = None
        self._question: AuthorizationRequest
        self._account: Future[Account] = Future()
        self._lock = threading.Lock()
        self._is_over = False

    @classmethod
    async def begin(cls, authority: Authority, request: SignInRequest, finish: Finish) -> Self:
        """Begin a sign-in. Raises SettingsError if the service does not offer this kind of sign-in
        or petsync cannot listen, and ApiError if the service does not respond.
        """
        pending = cls(authority, request, finish)
        endpoints = await authority.endpoints()
        _check_offered(endpoints, request)
        pending._question = AuthorizationRequest(
            request, endpoints, await pending._choose_redirect(endpoints)
        )
        return pending

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return self._question.url

    @property
    def is_listening(self) -> bool:
        """True if petsync listens for the redirect of a browser on this machine."""
        return self._loopback is not None

    @property
    def is_open(self) -> bool:
        """True until a response to this sign-in arrives, or `end` is called."""
        return not self._is_over and not self._lock.locked()

    async def wait(self, timeout: float = 300.0) -> Account:  # noqa: ASYNC109
        """Wait up to `timeout` seconds for the end of the sign-in, stop listening, and return the
        account.

        Raises AuthError if the user or the service refuses the sign-in, or after the timeout, and
        other PetsyncErrors if the token cannot be requested or stored.
        """
        try:
            waiting = asyncio.wrap_future(self._account)
            # Retrieve the error even if the caller stops waiting: otherwise asyncio would log it.
            waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            async with asyncio.timeout(timeout):
                return await asyncio.shield(waiting)
        except TimeoutError:
            pass
        finally:
            await self.close()
        raise AuthError("sign-in: the browser did not return in time", hint=_AGAIN)

    async def paste(self, text: str | Secret) -> Account:
        """Finish the sign-in with the final address from the browser, and return the account. An
        implicit sign-in also accepts the token without its address.

        Raises the errors of `wait`, and SettingsError if the text is not usable; the errors do not
        show the text. If the text belongs to another sign-in, this one stays open.
        """
        self._check_not_over()
        text = text if isinstance(text, Secret) else Secret(str(text))
        callback = parse_callback(text)
        if callback.token_text is not None and self._request_values.implicit:
            account = await self._complete(self._use_token(callback.token_text))
        else:
            self._check_state(callback)
            account = await self._complete(self._obtain_credentials(callback))
        await self.close()
        return account

    async def close(self) -> None:
        """Stop listening for the redirect. `paste` still works."""
        loopback, self._loopback = self._loopback, None
        if loopback is not None:
            await loopback.close()

    async def end(self) -> None:
        """End the sign-in: later responses are refused."""
        self._is_over = True
        self._shut_down(_build_closed_error())
        await self.close()

    def __repr__(self) -> str:
        return f"<petsync.Pending {urlsplit(self._question.endpoints.authorize).netloc}>"

    async def _choose_redirect(self, endpoints: Endpoints) -> str:
        """Return the redirect address, and start the listener if it was requested and the address
        is on this machine.
        """
        configured = urlsplit(endpoints.redirect)
        is_here = not endpoints.redirect or configured.hostname == "127.0.0.1"
        if self._request_values.listen and is_here:
            loopback = Loopback(self._handle_return, by_fragment=self._request_values.implicit)
            await loopback.open(configured.port or 0, configured.path or "/petsync")
            self._loopback = loopback
            return endpoints.redirect or loopback.address
        return endpoints.redirect or f"http://127.0.0.1:{49152 + secrets.randbelow(16000)}/petsync"

    async def _handle_return(self, query: Secret) -> Page:
        """Finish the sign-in with the browser's redirect, and return the page to show."""
        try:
            self._check_not_over()
            callback = parse_callback(Secret(f"?{query.reveal()}"))
            self._check_state(callback)
            await self._complete(self._obtain_credentials(callback))
        except PetsyncError as error:
            return "This did not work", f"{error.problem}. {error.cure}"
        return _DONE

    def _check_not_over(self) -> None:
        if self._is_over:
            raise _build_closed_error()

    def _check_state(self, callback: CallbackParameters) -> None:
        if callback.get("code_challenge") is not None or callback.get("response_type") is not None:
            raise SettingsError(
                "that is the address to open, not the final address in the browser",
                hint="Open it, choose Allow, and then copy the address from the address bar.",
            )
        if callback.get("state") is None:
            raise SettingsError(
                "the pasted text has no state, so it may belong to another sign-in",
                hint="Copy the whole address from the browser's address bar.",
            )
        if not callback.has_state(self._question.state):
            raise AuthError(
                "sign-in: this response belongs to another sign-in, so it was not used",
                hint="Open the address of this sign-in, and copy the final address from the "
                "browser's address bar.",
            )
        callback.check_issuer(self._question.endpoints)

    async def _complete(self, exchange: Coroutine[Any, Any, Credentials]) -> Account:
        """Finish the sign-in, and return the account; `wait` gets the same account or error."""
        if not self._lock.acquire(blocking=False):
            exchange.close()
            raise AuthError(
                "sign-in: a response was already used, and only the first one counts",
                hint=f"If you are not signed in: {_AGAIN}",
            )
        try:
            credentials = await exchange
            self._check_not_over()
            account = await self._finish(credentials)
        except BaseException as error:
            self._shut_down(error)
            raise
        if not self._account.done():
            self._account.set_result(account)
        return account

    def _shut_down(self, error: BaseException) -> None:
        known = isinstance(error, PetsyncError)
        kept = error if known else AuthError("sign-in: it was interrupted", hint=_AGAIN)
        if not self._account.done():
            self._account.set_exception(kept)

    async def _obtain_credentials(self, callback: CallbackParameters) -> Credentials:
        question, code = self._question, callback.get("code")
        sent = (question.state, question.verifier, code, callback.get("access_token"))
        past = tuple(each for each in sent if each is not None)
        wanted = Credentials(grant=question.grant(), past=past)
        if callback.get("error") is not None:
            raise oauth.parse_refusal(callback.public_values(), wanted).error()
        if self._request_values.implicit:
            return from_fragment(callback, wanted)
        if code is None:
            raise AuthError("sign-in: the service returned no code", hint=_AGAIN)
        return await self._authority.request_by_code(
            wanted, code, question.verifier, question.redirect
        )

    async def _use_token(self, token: Secret) -> Credentials:
        return Credentials(checked_token(token), grant=self._question.grant())


def _build_closed_error() -> AuthError:
    return AuthError(
        "sign-in: the store that started it was closed",
        hint="Connect again, and begin the sign-in there.",
    )


def _check_offered(endpoints: Endpoints, request: SignInRequest) -> None:
    wanted = "token" if request.implicit else "code"
    if endpoints.flows is not None and wanted not in endpoints.flows:
        other = "code" if request.implicit else "token"
        suggestions = {
            "code": "Omit --implicit, in Python implicit=True",
            "token": "Use the implicit sign-in: --implicit, in Python implicit=True",
        }
        raise SettingsError(
            "the service does not offer this kind of sign-in",
            hint=f"{suggestions[other]}." if other in endpoints.flows else "Give a token instead.",
        )
    if not endpoints.authorize or not (endpoints.token or request.implicit):
        missing = "token" if endpoints.authorize else "authorization"
        raise SettingsError(
            f"no {missing} endpoint is known for the service",
            hint="Name authorize_url and token_url under [auth] in petsync.toml.",
        )
