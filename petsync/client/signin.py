"""Sign in to a service, sign out, renew tokens, and identify the account."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

from petsync.client.auth.browser import AsyncPendingSignIn, SignInRequest
from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.auth.keyring import CredentialStore
from petsync.client.auth.oauth import Authority, parse_scopes
from petsync.client.session import Session
from petsync.errors import ApiError, AuthError, SettingsError
from petsync.models import MAX_ID, NOBODY, READ, WRITE, Account, Kept
from petsync.protocol.operations import NO_STATUS, Request, error_for

__all__ = ["SignInService", "identify", "make_sign_in_request"]


# Identity: find out the account of credentials, with requests that change nothing.


_REFUSED = (401, 403)
_READ = Request(
    operation="findPetsByStatus",
    method="GET",
    target=f"/pet/findByStatus?status={NO_STATUS}",
    headers={"accept": "application/json"},
)
_GET_BY_KEY = Request(
    operation="getPetById",
    method="GET",
    target=f"/pet/{MAX_ID}",
    headers={"accept": "application/json"},
    pet_id=MAX_ID,
)


@dataclass(frozen=True, slots=True)
class _ProbeResult:
    """The HTTP statuses of a read request with the credentials and without any. A refused request
    is not repeated without credentials: both statuses are then the same.
    """

    status: int
    anonymous_status: int

    @property
    def is_open(self) -> bool:
        return self.anonymous_status not in _REFUSED


async def identify(session: Session, authority: Authority, credentials: Credentials) -> Account:
    """Return the account of the credentials. Raises AuthError if the service does not accept them,
    and ApiError if no response shows whether it does.
    """
    if credentials.token is not None:
        return await _identify_by_token(session, authority, credentials)
    if credentials.key is not None:
        return await _identify_by_key(session, credentials)
    status = await _status(session, Credentials(), _READ)
    return _account(
        session, credentials, can_read=status not in _REFUSED, problem=credentials.problem
    )


async def _identify_by_token(
    session: Session, authority: Authority, credentials: Credentials
) -> Account:
    result = await _try_credentials(session, Credentials(credentials.token), _READ)
    claims = {} if result.status == 401 else await _introspect(authority, credentials)
    # A service may report a valid token as inactive if it was issued to another client.
    is_inactive = claims.get("active") is False and credentials.grant.client_id != ""
    if result.status == 401 or (is_inactive and result.is_open):
        raise AuthError(
            "sign-in: the service does not accept this token",
            operation="findPetsByStatus",
            status=401,
            hint="Check that it is complete, for this service, and not expired, or sign in again.",
        )
    scopes = parse_scopes(claims) or credentials.grant.scopes
    can_write = None if scopes is None else WRITE in scopes
    return _account(
        session,
        credentials,
        signed_in=True,
        user=_user(claims),
        client_id=_short(claims.get("client_id")) or credentials.grant.client_id,
        scopes=scopes,
        can_read=result.status != 403,
        can_write=can_write,
        expires=credentials.grant.until or _until(claims),
        problem=credentials.problem or _describe_missing(result, can_write),
    )


async def _identify_by_key(session: Session, credentials: Credentials) -> Account:
    result = await _try_credentials(session, Credentials(None, credentials.key), _GET_BY_KEY)
    if result.status in _REFUSED:
        raise AuthError(
            "sign-in: the service does not accept this API key",
            operation="getPetById",
            status=result.status,
            hint="Check that it is complete and for this service.",
        )
    anybody = result.is_open and await _status(session, Credentials(), _READ) not in _REFUSED
    return _account(
        session,
        credentials,
        signed_in=True,
        can_read=True if anybody else None,
        can_write=False,
        problem=credentials.problem or "the API key only gives access to single pets by their id",
    )


async def _try_credentials(
    session: Session, credentials: Credentials, request: Request
) -> _ProbeResult:
    status = await _status(session, credentials, request)
    anybody = status if status in _REFUSED else await _status(session, Credentials(), request)
    return _ProbeResult(status, anybody)


async def _status(session: Session, credentials: Credentials, request: Request) -> int:
    """Return the HTTP status of one request. Raises ApiError for a status that does not show
    whether the credentials are valid.
    """
    trial = session.make_trial_session(credentials)
    try:
        response = await trial.send_request(request)
    finally:
        await trial.close()
    # 404 on a list: the base URL is not the URL of a store.
    is_elsewhere = response.status == 404 and request is _READ
    is_other = response.status >= 500 or response.status == 429 or 300 <= response.status < 400
    if is_elsewhere or is_other:
        raise error_for(response, request, datetime.now(UTC), credentials.mask)
    return response.status


async def _introspect(authority: Authority, credentials: Credentials) -> Mapping[str, Any]:
    """Return the token's claims; empty if introspection is not available or fails."""
    try:
        return await authority.introspect(credentials) or {}
    except (ApiError, SettingsError):
        return {}


def _describe_missing(result: _ProbeResult, can_write: bool | None) -> str:
    if result.status == 403:
        return f"the token lacks {READ}, so pets cannot be read"
    if can_write is False:
        return f"the token lacks {WRITE}, so nothing can be changed"
    if result.is_open and can_write is None:
        return "reading needs no token here, so an invalid token is detected only when you write"
    return ""


def _user(claims: Mapping[str, Any]) -> str:
    return _short(claims.get("username")) or _short(claims.get("sub"))


def _short(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:200]


def _until(claims: Mapping[str, Any]) -> datetime | None:
    expiry = claims.get("exp")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    try:
        return datetime.fromtimestamp(expiry, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _account(session: Session, credentials: Credentials, **values: Any) -> Account:
    kind = credentials.grant.kind if credentials else "none"
    return Account(
        url=session.base_url,
        kind=kind,
        renews=credentials.renews,
        kept=credentials.grant.kept if credentials else "none",
        api_key=credentials.key is not None,
        **values,
    )


# SignInService: sign-in, sign-out, account and token renewal for one service.


class SignInService:
    """Signs a session in and out, and renews its tokens. The session gets only credentials that the
    service has accepted.
    """

    def __init__(self, session: Session, authority: Authority, store: CredentialStore) -> None:
        self._session, self._authority, self._store = session, authority, store
        self._pending: WeakSet[AsyncPendingSignIn] = WeakSet()
        session.renew_by(self._renew)

    async def sign_in(self, credentials: Credentials, keep: str) -> Account:
        """Sign in with the credentials, keep them in "memory" or the "keyring", and return the
        account.
        """
        kept = await self._check_keep(keep)
        return await self._accept(_with_keep(credentials, kept))

    async def begin(self, request: SignInRequest, keep: str) -> AsyncPendingSignIn:
        """Begin a sign-in with a browser; `keep` is "memory" or "keyring"."""
        kept = await self._check_keep(keep)
        with_client = replace(request, client_id=request.client_id or self._authority.client_id)
        pending = await AsyncPendingSignIn.begin(
            self._authority, with_client, lambda found: self._accept(_with_keep(found, kept))
        )
        self._pending.add(pending)
        return pending

    async def close(self) -> None:
        """End the sign-ins that wait for the user."""
        for pending in tuple(self._pending):
            await pending.end()

    async def who(self) -> Account:
        """Return the account. If the service refuses the token, renew it first, if possible. Raises
        the errors of `identify`.
        """
        try:
            return await self._identify_or_renew()
        except AuthError as refused:
            refused.cure = self._session.credentials.refused_hint or refused.cure
            raise

    async def sign_out(self) -> Account:
        """Sign out: revoke the token, delete a stored sign-in, and return an empty account. Its
        `problem` says what did not work, or is "".
        """
        current = self._session.credentials
        if not current and current.grant.kept != "keyring":
            return Account(url=self._session.base_url, problem=NOBODY)
        self._session.use(Credentials(grant=Grant(kind="none", kept="memory")))
        problems = [await self._revoke(current)]
        if current.grant.kept in ("keyring", "environment", "job"):
            problems.append(await self._forget(current))
        return Account(url=self._session.base_url, problem="; ".join(filter(None, problems)))

    async def _identify_or_renew(self) -> Account:
        await self._session.ensure_fresh()
        try:
            return await self._identify_current()
        except AuthError as refused:
            if not self._session.credentials.renews:
                raise
            await self._session.renew(refused)
        return await self._identify_current()

    async def _identify_current(self) -> Account:
        return await identify(self._session, self._authority, self._session.credentials)

    async def _forget(self, current: Credentials) -> str:
        """Delete the stored sign-in, and return a notice for the user or "". If the current
        credentials come from variables, the stored sign-in is also revoked.
        """
        if current.grant.kept == "keyring":
            await self._store.forget(current)
            return ""
        stored = await asyncio.to_thread(self._store.load)
        if stored is not None:
            await self._revoke(stored)
            await self._store.forget(stored)
        return (
            "the PETSYNC_… variables in the environment are still set, and will be used next time"
        )

    async def _check_keep(self, keep: str) -> Kept:
        """Return `keep`. Raises SettingsError if it is invalid, or if the sign-in cannot be stored
        there: the user should learn this before signing in.
        """
        if keep == "keyring":
            await self._store.check()
            return "keyring"
        if keep == "memory":
            return "memory"
        raise SettingsError(f"keep is {keep!r}; it must be 'memory' or 'keyring'")

    async def _accept(self, credentials: Credentials) -> Account:
        """Check that the service accepts the credentials, store them if they are kept in the
        keyring, use them from now on, and return the account.
        """
        if credentials.token is None and credentials.grant.renews:
            credentials = await self._authority.renew(credentials)
        account = await identify(self._session, self._authority, credentials)
        if credentials.grant.kept == "keyring":
            await self._store.put(credentials)
        self._session.use(credentials)
        return account

    async def _renew(self, current: Credentials) -> Credentials:
        if current.grant.kept == "keyring":
            return await self._store.renew(current, self._authority.renew)
        return await self._authority.renew(current)

    async def _revoke(self, current: Credentials) -> str:
        """Revoke the token of a sign-in; return a notice for the user, "" if there is none."""
        if current.grant.kind in ("none", "api key", "token") or current.token is None:
            return ""
        try:
            is_ended = await self._authority.revoke(current)
        except (ApiError, SettingsError) as error:
            return f"the service did not revoke the token ({error.problem})"
        return "" if is_ended else "the service cannot revoke tokens: yours works until it expires"


def _with_keep(credentials: Credentials, place: Kept) -> Credentials:
    if not isinstance(credentials, Credentials) or not credentials:
        raise SettingsError(
            "there is nothing to sign in with",
            hint="Use petsync.auth.bearer(…), client_credentials(…), implicit(…) or api_key(…).",
        )
    return replace(credentials, grant=credentials.grant.keep(place))


def make_sign_in_request(
    scopes: str | Sequence[str], client_id: str | None, *, implicit: bool, listen: bool
) -> SignInRequest:
    """Return the options of a sign-in; a string may contain several scopes, separated by spaces."""
    wanted = tuple(scopes.split() if isinstance(scopes, str) else scopes)
    client_id = (client_id or "").strip()
    return SignInRequest(scopes=wanted, client_id=client_id, implicit=implicit, listen=listen)
