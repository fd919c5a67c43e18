"""Signed: the part of a store that is about signing in; and a sign-in for synchronous callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from petsync._loop import LoopThread
from petsync.client.credentials import Credentials
from petsync.client.oauth.authority import Authority
from petsync.client.oauth.desk import Desk, asked
from petsync.client.oauth.pending import AsyncPending
from petsync.client.oauth.vault import Vault
from petsync.client.session import Session
from petsync.settings import Secret, Settings
from petsync.wire.account import READ, WRITE, Account

__all__ = ["Pending", "Signed", "desk_at"]

Keep = Literal["memory", "keyring"]


def desk_at(session: Session, settings: Settings) -> Desk:
    """Where one signs in to the session's service, as the settings have it."""
    authority = Authority(
        session.base_url,
        auth=settings.auth,
        allow_http=settings.allow_http,
        timeout=settings.timeout,
    )
    return Desk(session, authority, Vault(settings.state, session.base_url))


class Signed:
    """Signing in, out, and who one is."""

    _desk: Desk
    settings: Settings

    async def sign_in(self, credentials: Credentials, *, keep: Keep = "memory") -> Account:
        """Use these from here on, once the service has taken them: what `petsync.auth` makes.
        `keep="keyring"` keeps them for other processes with the same state folder too.

        Raises AuthError where the service refuses, SettingsError where it does not offer this or
        the keyring cannot be used, and ApiError where it does not answer; then what was in use
        before stays.
        """
        self.settings.require_confirmed()
        return await self._desk.sign_in(credentials, keep)

    async def begin_sign_in(
        self,
        *,
        scopes: str | Sequence[str] = (READ, WRITE),
        client_id: str | None = None,
        implicit: bool = False,
        listen: bool = True,
        keep: Keep = "memory",
    ) -> AsyncPending:
        """A sign-in that waits for a person at a browser: open its `url`.

        With a code and PKCE, or `implicit`, where the service offers only that. `listen=False`
        where the browser runs on another machine: the address that it ends on is `pasted` then.
        Raises SettingsError where the service does not say where one signs in.
        """
        self.settings.require_confirmed()
        question = asked(scopes, client_id, implicit=implicit, listen=listen)
        return await self._desk.begin(question, keep)

    async def who(self) -> Account:
        """Who one is at the service, and what one may do, as it says now. It is asked questions
        that change nothing. Raises AuthError where it does not take the sign-in any more.
        """
        return await self._desk.who()

    async def sign_out(self) -> Account:
        """Forget the sign-in, in the keyring too, after the service has ended it where it offers
        that. What PETSYNC_TOKEN or a file holds stays there.
        """
        return await self._desk.sign_out()


class Pending:
    """A sign-in that waits for a person at a browser: open `url`, then `wait` for the browser, or
    `paste` the address that it ended on.
    """

    def __init__(self, aio: AsyncPending, loop: LoopThread) -> None:
        self.aio = aio
        self._loop = loop

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return self.aio.url

    @property
    def is_listening(self) -> bool:
        """Whether the browser's return would be noticed."""
        return self.aio.is_listening

    @property
    def is_open(self) -> bool:
        """Whether nothing has come yet that belongs to this sign-in: another try may succeed."""
        return self.aio.is_open

    def wait(self, timeout: float = 300.0) -> Account:
        """The account, once the browser came back; at most `timeout` seconds are waited. Raises
        AuthError where somebody said no, or nobody came.
        """
        return self._loop.run(self.aio.arrived(timeout))

    def paste(self, text: str | Secret) -> Account:
        """The account for the address that the browser ended on; for an implicit sign-in also for
        the bare token. Raises AuthError and SettingsError, which do not show it.
        """
        text = text if isinstance(text, Secret) else Secret(str(text))
        return self._loop.run(self.aio.pasted(text))

    def close(self) -> None:
        """Wait no longer."""
        self._loop.run(self.aio.close())

    def __repr__(self) -> str:
        return repr(self.aio)
