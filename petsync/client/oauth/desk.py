"""Desk: signing in to one service and out of it, asking who one is, and renewing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakSet

from petsync.client.credentials import Credentials
from petsync.client.grant import Grant
from petsync.client.oauth.authority import Authority
from petsync.client.oauth.identity import identify
from petsync.client.oauth.pending import Asked, AsyncPending
from petsync.client.oauth.vault import Vault
from petsync.client.session import Session
from petsync.errors import ApiError, AuthError, SettingsError
from petsync.wire.account import NOBODY, Account, Kept

__all__ = ["Desk", "asked"]

_VARIABLES = {
    "api key": ("PETSYNC_API_KEY", "it"),
    "client credentials": ("PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET", "them"),
}


class Desk:
    """Puts the credentials that it was given into the session once the service took them, and not
    before; it lets the session renew them.
    """

    def __init__(self, session: Session, authority: Authority, vault: Vault) -> None:
        self._session, self._authority, self._vault = session, authority, vault
        self._pending: WeakSet[AsyncPending] = WeakSet()
        session.renew_by(self._renewed)

    async def sign_in(self, credentials: Credentials, keep: str) -> Account:
        """As AsyncStore says."""
        kept = await self._keeps(keep)
        return await self._taken(_kept(credentials, kept))

    async def begin(self, question: Asked, keep: str) -> AsyncPending:
        """As AsyncStore says."""
        kept = await self._keeps(keep)
        named = replace(question, client_id=question.client_id or self._authority.client_id)
        pending = await AsyncPending.begun(
            self._authority, named, lambda found: self._taken(_kept(found, kept))
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
        problems = [await self._ended(mine)]
        if mine.grant.kept in ("keyring", "environment"):
            problems.append(await self._forgotten(mine))
        return Account(url=self._session.base_url, problem="; ".join(filter(None, problems)))

    async def _renewed_or_seen(self) -> Account:
        await self._session.fresh()
        try:
            return await self._seen()
        except AuthError as refused:
            if not self._session.credentials.renews:
                raise
            await self._session.renew(refused)
        return await self._seen()

    async def _seen(self) -> Account:
        return await identify(self._session, self._authority, self._session.credentials)

    async def _forgotten(self, mine: Credentials) -> str:
        """What a person should know after the keyring has nothing any more."""
        if mine.grant.kept == "keyring":
            await self._vault.forget(mine)
            return ""
        there = await asyncio.to_thread(self._vault.kept)
        if there is not None:
            await self._ended(there)
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

    async def _taken(self, offered: Credentials) -> Account:
        """The account, once the service has taken what was offered."""
        if offered.token is None and offered.grant.renews:
            offered = await self._authority.renewed(offered)
        account = await identify(self._session, self._authority, offered)
        if offered.grant.kept == "keyring":
            await self._vault.put(offered)
        self._session.use(offered)
        return account

    async def _renewed(self, mine: Credentials) -> Credentials:
        if mine.grant.kept == "keyring":
            return await self._vault.renewed(mine, self._authority.renewed)
        return await self._authority.renewed(mine)

    async def _ended(self, mine: Credentials) -> str:
        """What a person should know of the end of the sign-in at the service."""
        if mine.grant.kind in ("none", "api key", "token") or mine.token is None:
            return ""
        try:
            ended = await self._authority.revoke(mine)
        except (ApiError, SettingsError) as error:
            return f"the service did not end the token ({error.message})"
        return "" if ended else "the service ends no tokens: yours works until it expires"


def _kept(credentials: Credentials, kept: Kept) -> Credentials:
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


def asked(
    scopes: str | Sequence[str], client_id: str | None, *, implicit: bool, listen: bool
) -> Asked:
    """What a person is asked for; a text may hold several scopes."""
    wanted = tuple(scopes.split() if isinstance(scopes, str) else scopes)
    return Asked(scopes=wanted, client_id=client_id or "", implicit=implicit, listen=listen)
