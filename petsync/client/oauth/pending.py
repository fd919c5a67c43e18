"""AsyncPending: a sign-in that waits for a person at a browser."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from oauthlib.common import add_params_to_uri
from oauthlib.oauth2 import WebApplicationClient

from petsync.client.credentials import Credentials, checked_token
from petsync.client.grant import Grant
from petsync.client.oauth import answer, returned
from petsync.client.oauth.authority import Authority
from petsync.client.oauth.fragment import from_fragment
from petsync.client.oauth.loopback import Loopback, Page
from petsync.client.oauth.places import Places
from petsync.client.oauth.returned import Returned
from petsync.errors import AuthError, PetsyncError, SettingsError
from petsync.settings import Secret
from petsync.wire.account import Account

__all__ = ["Asked", "AsyncPending", "Question"]

Finish = Callable[[Credentials], Awaitable[Account]]
_DONE = ("You are signed in", "You can close this window and go back to where you came from.")
_AGAIN = "Begin the sign-in again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
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

    asked: Asked
    places: Places
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


class AsyncPending:
    """A sign-in under way: open `url` in a browser, and wait until the browser has `arrived`, or
    hand over what somebody `pasted`. Whichever comes first counts, and counts once.

    `is_listening`: the browser can come back by itself, if it runs on this machine.
    """

    def __init__(self, authority: Authority, asked: Asked, finish: Finish) -> None:
        self._authority, self._asked, self._finish = authority, asked, finish
        self._loopback: Loopback | None = None
        self._question: Question
        self._account: Future[Account] = Future()
        self._taken = threading.Lock()
        self._is_over = False

    @classmethod
    async def begun(cls, authority: Authority, asked: Asked, finish: Finish) -> Self:
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
        back = returned.read(text)
        if back.bare is not None and self._asked.implicit:
            account = await self._settled(self._granted_bare(back.bare))
        else:
            self._check_mine(back)
            account = await self._settled(self._granted(back))
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

    async def _redirect(self, places: Places) -> str:
        """Where the browser is to go; where nobody listens, its address bar is enough."""
        named = urlsplit(places.redirect)
        is_here = not places.redirect or named.hostname == "127.0.0.1"
        if self._asked.listen and is_here:
            loopback = Loopback(self._came, by_fragment=self._asked.implicit)
            await loopback.open(named.port or 0, named.path or "/petsync")
            self._loopback = loopback
            return places.redirect or loopback.address
        return places.redirect or f"http://127.0.0.1:{49152 + secrets.randbelow(16000)}/petsync"

    async def _came(self, query: Secret) -> Page:
        """The browser is here, or somebody who says so."""
        try:
            self._check_not_over()
            back = returned.read(Secret(f"?{query.reveal()}"))
            self._check_mine(back)
            await self._settled(self._granted(back))
        except PetsyncError as error:
            return "This did not work", f"{error.message}. {error.hint}"
        return _DONE

    def _check_not_over(self) -> None:
        if self._is_over:
            raise _over()

    def _check_mine(self, back: Returned) -> None:
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

    async def _settled(self, granted: Coroutine[Any, Any, Credentials]) -> Account:
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

    async def _granted(self, back: Returned) -> Credentials:
        question, code = self._question, back.get("code")
        known = (question.state, question.verifier, code, back.get("access_token"))
        past = tuple(each for each in known if each is not None)
        wanted = Credentials(grant=question.grant(), past=past)
        if back.get("error") is not None:
            raise answer.refusal(back.plain(), wanted).error()
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


def _check_offered(places: Places, asked: Asked) -> None:
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
