"""Sign in to a service, sign out, renew a token, and ask who is signed in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

from petsync.client.auth.browser import AsyncPendingSignIn, Prompt
from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.auth.keyring import CredentialStore
from petsync.client.auth.oauth import Authority, scopes_of
from petsync.client.probe import NO_STATUS
from petsync.client.session import Session
from petsync.errors import ApiError, AuthError, SettingsError
from petsync.models import MAX_ID, NOBODY, READ, WRITE, Account, Kept
from petsync.protocol.operations import Request, error_for

__all__ = ["SignInService", "identify", "make_sign_in_request"]


# Identity: what the service says of credentials, by questions that change nothing.


_REFUSED = (401, 403)
_READ = Request(
    operation="findPetsByStatus",
    method="GET",
    target=f"/pet/findByStatus?status={NO_STATUS}",
    headers={"accept": "application/json"},
)
_BY_KEY = Request(
    operation="getPetById",
    method="GET",
    target=f"/pet/{MAX_ID}",
    headers={"accept": "application/json"},
    pet_id=MAX_ID,
)


@dataclass(frozen=True, slots=True)
class _ProbeResult:
    """What a question that reads came to: `status` with what is tried, `anybody` without."""

    status: int
    anybody: int

    @property
    def is_open(self) -> bool:
        return self.anybody not in _REFUSED


async def identify(session: Session, authority: Authority, tried: Credentials) -> Account:
    """The account that the credentials open at the service. Raises AuthError where it does not
    take them, and ApiError where it does not answer.
    """
    if tried.token is not None:
        return await _by_token(session, authority, tried)
    if tried.key is not None:
        return await _by_key(session, tried)
    status = await _status(session, Credentials(), _READ)
    return _account(session, tried, can_read=status not in _REFUSED, problem=tried.problem)


async def _by_token(session: Session, authority: Authority, tried: Credentials) -> Account:
    seen = await _try_credentials(session, Credentials(tried.token), _READ)
    told = {} if seen.status == 401 else await _introspect(authority, tried)
    # Of another program's token a service may say so although it is good.
    is_dead = told.get("active") is False and tried.grant.client_id != ""
    if seen.status == 401 or (is_dead and seen.is_open):
        raise AuthError(
            "sign-in: the service does not take this token",
            operation="findPetsByStatus",
            status=401,
            hint="Is it whole, for this service, and not expired? Else sign in again.",
        )
    scopes = scopes_of(told) or tried.grant.scopes
    can_write = None if scopes is None else WRITE in scopes
    return _account(
        session,
        tried,
        signed_in=True,
        user=_user(told),
        client_id=_short(told.get("client_id")) or tried.grant.client_id,
        scopes=scopes,
        can_read=seen.status != 403,
        can_write=can_write,
        expires=tried.grant.until or _until(told),
        problem=tried.problem or _lack(seen, can_write),
    )


async def _by_key(session: Session, tried: Credentials) -> Account:
    seen = await _try_credentials(session, Credentials(None, tried.key), _BY_KEY)
    if seen.status in _REFUSED:
        raise AuthError(
            "sign-in: the service does not take this api key",
            operation="getPetById",
            status=seen.status,
            hint="Is it whole, and for this service? It opens getPetById alone.",
        )
    anybody = seen.is_open and await _status(session, Credentials(), _READ) not in _REFUSED
    return _account(
        session,
        tried,
        signed_in=True,
        can_read=True if anybody else None,
        can_write=False,
        problem=tried.problem or "an api key opens single pets by their id, and nothing else",
    )


async def _try_credentials(session: Session, tried: Credentials, request: Request) -> _ProbeResult:
    status = await _status(session, tried, request)
    anybody = status if status in _REFUSED else await _status(session, Credentials(), request)
    return _ProbeResult(status, anybody)


async def _status(session: Session, tried: Credentials, request: Request) -> int:
    """How the service answers. Raises ApiError where that says nothing about who asks."""
    trial = session.trial(tried)
    try:
        answer = await trial.answer(request)
    finally:
        await trial.close()
    if answer.status >= 500 or answer.status == 429 or 300 <= answer.status < 400:
        raise error_for(answer, request, datetime.now(UTC), tried.mask)
    return answer.status


async def _introspect(authority: Authority, tried: Credentials) -> Mapping[str, Any]:
    """What introspection says; nothing where there is none, or it does not answer."""
    try:
        return await authority.introspect(tried) or {}
    except (ApiError, SettingsError):
        return {}


def _lack(seen: _ProbeResult, can_write: bool | None) -> str:
    if seen.status == 403:
        return f"the token lacks {READ}, so pets cannot be read"
    if can_write is False:
        return f"the token lacks {WRITE}, so nothing can be changed"
    return "reading needs no token here, so whether yours is good shows when you write" * (
        seen.is_open and can_write is None
    )


def _user(told: Mapping[str, Any]) -> str:
    return _short(told.get("username")) or _short(told.get("sub"))


def _short(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:200]


def _until(told: Mapping[str, Any]) -> datetime | None:
    moment = told.get("exp")
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        return None
    try:
        return datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _account(session: Session, tried: Credentials, **said: Any) -> Account:
    kind = tried.grant.kind if tried else "none"
    return Account(
        url=session.base_url,
        kind=kind,
        renews=tried.renews,
        kept=tried.grant.kept if tried else "none",
        api_key=tried.key is not None,
        **said,
    )


# SignInService: signing in to one service and out of it, asking who one is, and renewing.


_VARIABLES = {
    "api key": ("PETSYNC_API_KEY", "it"),
    "client credentials": ("PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET", "them"),
}


class SignInService:
    """Puts the credentials that it was given into the session once the service took them, and not
    before; it lets the session renew them.
    """

    def __init__(self, session: Session, authority: Authority, vault: CredentialStore) -> None:
        self._session, self._authority, self._vault = session, authority, vault
        self._pending: WeakSet[AsyncPendingSignIn] = WeakSet()
        session.renew_by(self._renew)

    async def sign_in(self, credentials: Credentials, keep: str) -> Account:
        """As AsyncStore says."""
        kept = await self._keeps(keep)
        return await self._accept(_with_keep(credentials, kept))

    async def begin(self, question: Prompt, keep: str) -> AsyncPendingSignIn:
        """As AsyncStore says."""
        kept = await self._keeps(keep)
        named = replace(question, client_id=question.client_id or self._authority.client_id)
        pending = await AsyncPendingSignIn.begin(
            self._authority, named, lambda found: self._accept(_with_keep(found, kept))
        )
        self._pending.add(pending)
        return pending

    async def close(self) -> None:
        """End the sign-ins that wait for a person: there is no store for them any more."""
        for pending in tuple(self._pending):
            await pending.end()

    async def who(self) -> Account:
        """As AsyncStore says."""
        try:
            return await self._renewed_or_seen()
        except AuthError as refused:
            refused.hint = _way_out(self._session.credentials.grant) or refused.hint
            raise

    async def sign_out(self) -> Account:
        """As AsyncStore says."""
        mine = self._session.credentials
        if not mine and mine.grant.kept != "keyring":
            return Account(url=self._session.base_url, problem=NOBODY)
        self._session.use(Credentials(grant=Grant(kind="none", kept="memory")))
        problems = [await self._revoke(mine)]
        if mine.grant.kept in ("keyring", "environment"):
            problems.append(await self._forgotten(mine))
        return Account(url=self._session.base_url, problem="; ".join(filter(None, problems)))

    async def _renewed_or_seen(self) -> Account:
        await self._session.fresh()
        try:
            return await self._identify_current()
        except AuthError as refused:
            if not self._session.credentials.renews:
                raise
            await self._session.renew(refused)
        return await self._identify_current()

    async def _identify_current(self) -> Account:
        return await identify(self._session, self._authority, self._session.credentials)

    async def _forgotten(self, mine: Credentials) -> str:
        """What a person should know after the keyring has nothing any more."""
        if mine.grant.kept == "keyring":
            await self._vault.forget(mine)
            return ""
        there = await asyncio.to_thread(self._vault.load)
        if there is not None:
            await self._revoke(there)
            await self._vault.forget(there)
        return "what PETSYNC_… in the environment holds is still there, and counts next time"

    async def _keeps(self, keep: str) -> Kept:
        """Where to keep what comes. Raises SettingsError where that is not to be had: before a
        person is asked for anything.
        """
        if keep == "keyring":
            await self._vault.check()
            return "keyring"
        if keep == "memory":
            return "memory"
        raise SettingsError(f"keep is {keep!r}; it must be 'memory' or 'keyring'")

    async def _accept(self, offered: Credentials) -> Account:
        """The account, once the service has taken what was offered."""
        if offered.token is None and offered.grant.renews:
            offered = await self._authority.renew(offered)
        account = await identify(self._session, self._authority, offered)
        if offered.grant.kept == "keyring":
            await self._vault.put(offered)
        self._session.use(offered)
        return account

    async def _renew(self, mine: Credentials) -> Credentials:
        if mine.grant.kept == "keyring":
            return await self._vault.renew(mine, self._authority.renew)
        return await self._authority.renew(mine)

    async def _revoke(self, mine: Credentials) -> str:
        """What a person should know of the end of the sign-in at the service."""
        if mine.grant.kind in ("none", "api key", "token") or mine.token is None:
            return ""
        try:
            ended = await self._authority.revoke(mine)
        except (ApiError, SettingsError) as error:
            return f"the service did not end the token ({error.message})"
        return "" if ended else "the service ends no tokens: yours works until it expires"


def _with_keep(credentials: Credentials, kept: Kept) -> Credentials:
    if not isinstance(credentials, Credentials) or not credentials:
        raise SettingsError(
            "there is nothing to sign in with",
            hint="Use petsync.auth.bearer(…), client_credentials(…), implicit(…) or api_key(…).",
        )
    return replace(credentials, grant=credentials.grant.keep(kept))


def _way_out(grant: Grant) -> str:
    """Where what was refused came from, and what to do there; "" where a script knows best."""
    if grant.kept == "environment":
        names, it = _VARIABLES.get(grant.kind, ("PETSYNC_TOKEN", "it"))
        return (
            f"This comes from {names} in the environment. Unset {it} to use what `petsync login` "
            f"keeps, or set {it} anew."
        )
    if grant.kept == "file":
        return (
            "This comes from the token's file. Leave --token-file out to use what `petsync login` "
            "keeps, or put a new token into the file."
        )
    if grant.kept == "keyring":
        return (
            "This comes from the keyring. Sign in again: `petsync login`, or "
            "store.begin_sign_in(keep='keyring')."
        )
    return ""


def make_sign_in_request(
    scopes: str | Sequence[str], client_id: str | None, *, implicit: bool, listen: bool
) -> Prompt:
    """What a person is asked for; a text may hold several scopes."""
    wanted = tuple(scopes.split() if isinstance(scopes, str) else scopes)
    return Prompt(scopes=wanted, client_id=client_id or "", implicit=implicit, listen=listen)
