"""Identity: what the service says of credentials, by questions that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from petsync.client.credentials import Credentials
from petsync.client.oauth.answer import scopes_of
from petsync.client.oauth.authority import Authority
from petsync.client.session import Session
from petsync.client.site import NO_STATUS
from petsync.errors import ApiError, AuthError, SettingsError
from petsync.model import MAX_ID
from petsync.wire.account import READ, WRITE, Account
from petsync.wire.failure import error_for
from petsync.wire.message import Request

__all__ = ["identify"]

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
class _Seen:
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
    seen = await _asked(session, Credentials(tried.token), _READ)
    told = {} if seen.status == 401 else await _told(authority, tried)
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
    seen = await _asked(session, Credentials(None, tried.key), _BY_KEY)
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


async def _asked(session: Session, tried: Credentials, request: Request) -> _Seen:
    status = await _status(session, tried, request)
    anybody = status if status in _REFUSED else await _status(session, Credentials(), request)
    return _Seen(status, anybody)


async def _status(session: Session, tried: Credentials, request: Request) -> int:
    """How the service answers. Raises ApiError where that says nothing about who asks."""
    trial = session.trial(tried)
    try:
        answer = await trial.answer(request)
    finally:
        await trial.close()
    if answer.status >= 500 or answer.status == 429 or 300 <= answer.status < 400:
        raise error_for(answer, request, datetime.now(UTC), tried.masked)
    return answer.status


async def _told(authority: Authority, tried: Credentials) -> Mapping[str, Any]:
    """What introspection says; nothing where there is none, or it does not answer."""
    try:
        return await authority.introspected(tried) or {}
    except (ApiError, SettingsError):
        return {}


def _lack(seen: _Seen, can_write: bool | None) -> str:
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
