"""Sign in and out at a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from petsync._sync import LoopThread, make_synchronous
from petsync.client.auth.browser import AsyncPendingSignIn
from petsync.client.auth.credentials import Credentials, hide_other
from petsync.client.auth.keyring import CredentialStore
from petsync.client.auth.oauth import Authority
from petsync.client.session import Session
from petsync.client.signin import SignInService, make_sign_in_request
from petsync.models import READ, WRITE, Account
from petsync.settings import Secret, Settings

__all__ = ["Keep", "PendingSignIn", "SignIn"]


Keep = Literal["memory", "keyring"]


@dataclass(frozen=True, slots=True)
class SignIn:
    """Signs in and out at one service, and reads the account."""

    settings: Settings
    service: SignInService

    @classmethod
    def of(cls, session: Session, settings: Settings) -> Self:
        authority = Authority(
            session.base_url,
            auth=settings.auth,
            allow_http=settings.allow_http,
            timeout=settings.timeout,
            given=session.given,
        )
        keyring = CredentialStore(settings.state, session.base_url)
        return cls(settings, SignInService(session, authority, keyring))

    async def sign_in(self, credentials: Credentials, *, keep: Keep = "memory") -> Account:
        """Use these credentials of `petsync.auth` from now on, if the service accepts them.

        `keep="keyring"` stores them for other processes with the same state folder. Raises
        AuthError if the service refuses them, SettingsError if the service does not offer this
        sign-in or the keyring cannot be used, and ApiError if the service does not answer; the
        former credentials then stay.
        """
        credentials = hide_other(credentials)
        self.settings.require_confirmed()
        return await self.service.sign_in(credentials, keep)

    async def begin_sign_in(
        self,
        *,
        scopes: str | Sequence[str] = (READ, WRITE),
        client_id: str | None = None,
        implicit: bool = False,
        listen: bool = True,
        keep: Keep = "memory",
    ) -> AsyncPendingSignIn:
        """Return a sign-in that waits for the user in a browser: open its `url`.

        The sign-in uses the authorization code grant with PKCE; `implicit=True` is for a service
        that offers only the implicit grant. `listen=False` is for a browser on another machine:
        then pass the URL to which the browser is redirected to `paste`. Raises SettingsError if the
        service does not offer this kind of sign-in or does not name the endpoints for it, or if
        petsync cannot listen or use the keyring; ApiError if the service does not answer.
        """
        self.settings.require_confirmed()
        question = make_sign_in_request(scopes, client_id, implicit=implicit, listen=listen)
        return await self.service.begin(question, keep)

    async def who(self) -> Account:
        """Return the account at the service: who is signed in, with which permissions.

        Raises AuthError if the service does not accept the credentials, and ApiError if it does not
        answer.
        """
        return await self.service.who()

    async def sign_out(self) -> Account:
        """End the sign-in, and delete it if it is in the keyring. Returns an account without a
        sign-in, whose `problem` has notices for the user.

        petsync asks the service to revoke the tokens that it requested itself, but not a token that
        the user provided. PETSYNC_TOKEN and token files stay unchanged.
        """
        return await self.service.sign_out()


class PendingSignIn:
    """A sign-in that waits for the user in a browser.

    Open `url`, then `wait` for the browser, or `paste` the URL to which it is redirected.
    """

    def __init__(self, aio: AsyncPendingSignIn, loop: LoopThread) -> None:
        self.aio = aio
        self._loop = loop

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        return self.aio.url

    @property
    def is_listening(self) -> bool:
        """True if petsync listens for the browser's redirect."""
        return self.aio.is_listening

    @property
    def is_open(self) -> bool:
        """True until a response for this sign-in arrives, or the sign-in or the store is closed."""
        return self.aio.is_open

    wait = make_synchronous(AsyncPendingSignIn.wait)
    close = make_synchronous(AsyncPendingSignIn.close)

    def paste(self, text: str | Secret) -> Account:
        """Sign in with the URL to which the browser is redirected, and return the account.

        An implicit sign-in also accepts the token without its address. Raises PetsyncErrors, such
        as AuthError and SettingsError, which do not show the text.
        """
        # A verbose traceback shows the arguments of each function.
        text = text if isinstance(text, Secret) else Secret(str(text))
        return self._loop.run(self.aio.paste(text))

    def __repr__(self) -> str:
        return repr(self.aio)
