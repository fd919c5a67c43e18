"""Authority: the part of a service that gives tokens, changes them for new ones and ends them.

Source: RFC 6749, RFC 7009 (revocation), RFC 7662 (introspection), RFC 7636 (PKCE).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlencode, urlsplit

import httpx
from oauthlib.oauth2.rfc6749.parameters import prepare_token_request

from petsync.client.credentials import Credentials
from petsync.client.oauth import places as known
from petsync.client.oauth.answer import credentials_in, refusal
from petsync.client.oauth.places import Places
from petsync.client.oauth.said import Said, Values
from petsync.client.oauth.talk import Talk
from petsync.errors import RateLimitedError, SettingsError, TransportError
from petsync.settings import Secret

__all__ = ["Authority"]

_WAITS = (0.3, 1.0)


class Authority:
    """Where one signs in to the service at `base_url`. It keeps no token.

    `auth` is `[auth]` of petsync.toml: where that names an address, nothing else is believed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Mapping[str, str] | None = None,
        allow_http: Collection[str] = (),
        timeout: float = 30.0,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self._base_url, self._allow_http = base_url, tuple(allow_http)
        self._auth = dict(auth or {})
        self._talk = Talk(timeout, transport)
        self._places: Places | None = None

    @property
    def client_id(self) -> str:
        """The program's name at the service."""
        return self._auth.get("client_id", known.CLIENT)

    async def places(self) -> Places:
        """Where everything is; asked for once. Raises SettingsError where that is not to be had,
        and ApiError where the service does not answer.
        """
        if self._places is None:
            self._places = await self._found()
        return self._places

    async def by_client(self, asked: Credentials) -> Credentials:
        """A token for the client's own id and secret."""
        scope = _scope(asked.grant.scopes)
        return await self._token(asked, "client_credentials", scope=scope)

    async def by_code(
        self, asked: Credentials, code: Secret, verifier: Secret, redirect: str
    ) -> Credentials:
        """The token that a code stands for."""
        return await self._token(
            asked, "authorization_code", code=code, code_verifier=verifier, redirect_uri=redirect
        )

    async def by_refresh(self, asked: Credentials) -> Credentials:
        """New tokens for a refresh token, which may be spent by it."""
        return await self._token(asked, "refresh_token", refresh_token=asked.grant.refresh)

    async def renewed(self, asked: Credentials) -> Credentials:
        """A new token, in the way in which this sign-in can get one. What surely was not taken is
        tried again, and nothing else: a refresh token that comes twice ends the sign-in.
        """
        how = self.by_client if asked.grant.refresh is None else self.by_refresh
        for wait in _WAITS:
            try:
                return await how(asked)
            except (TransportError, RateLimitedError) as error:
                if error.may_have_happened:
                    raise
            await asyncio.sleep(wait)
        return await how(asked)

    async def introspected(self, asked: Credentials) -> Values | None:
        """What the service says of the token; None where it does not say such things."""
        place = (await self.places()).introspect
        if not place or asked.token is None:
            return None
        form = {"token": asked.token}
        if asked.grant.client_id:
            said = await self._form(place, asked, form)
        else:  # Whose token it is, is what is asked: it opens the door itself.
            said = await self._talk.post(place, _encoded(asked, form, by_post=False), _held(asked))
        return said.json if said.status == 200 else None

    async def revoke(self, asked: Credentials) -> bool:
        """Whether the service has ended the sign-in, or had nothing to end. Raises ApiError."""
        place = (await self.places()).revoke
        ends = asked.grant.refresh or asked.token
        if not place or ends is None:
            return False
        hint = "refresh_token" if asked.grant.refresh else "access_token"
        said = await self._form(place, asked, {"token": ends, "token_type_hint": hint})
        if said.status >= 400:
            raise refusal(said.json or {}, asked).error(said.status)
        return True

    async def _token(
        self, asked: Credentials, kind: str, **form: Secret | str | None
    ) -> Credentials:
        place = (await self.places()).token
        if not place:
            raise SettingsError(
                "the service does not say where tokens are given",
                hint="Name the address as token_url under [auth] in petsync.toml.",
            )
        begun = time.time()
        said = await self._form(place, asked, {"grant_type": kind, **form})
        return credentials_in(said, asked, begun)

    async def _form(
        self, place: str, asked: Credentials, form: Mapping[str, Secret | str | None]
    ) -> Said:
        places = await self.places()
        by_post = places.by_post or asked.grant.client_secret is None
        authorization = None if by_post else _basic(asked)
        return await self._talk.post(place, _encoded(asked, form, by_post=by_post), authorization)

    async def _found(self) -> Places:
        named = known.configured(self._auth, self._allow_http)
        if named.authorize or named.token:
            return named
        for issuer, place in known.candidates(self._base_url, named.issuer):
            known.checked_place(place, "the service's metadata", self._allow_http)
            said = await self._talk.get(place)
            if said.status == 200 and said.json is not None:
                return known.discovered(said.json, issuer, named, self._allow_http)
        raise _silent(self._base_url)


def _encoded(
    asked: Credentials, form: Mapping[str, Secret | str | None], *, by_post: bool
) -> Secret:
    """The form as it is sent, encoded by oauthlib where it has a grant."""
    plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in form.items() if v}
    if by_post:
        plain["client_id"] = asked.grant.client_id
        if asked.grant.client_secret is not None:
            plain["client_secret"] = asked.grant.client_secret.reveal()
    kind = plain.pop("grant_type", None)
    if kind is None:
        return Secret(urlencode(plain))
    return Secret(prepare_token_request(kind, **plain))


def _basic(asked: Credentials) -> Secret:
    pair = asked.grant.pair
    assert pair is not None
    return Secret(f"Basic {pair.reveal()}")


def _held(asked: Credentials) -> Secret:
    assert asked.token is not None
    return Secret(f"Bearer {asked.token.reveal()}")


def _scope(scopes: frozenset[str] | None) -> str | None:
    return None if scopes is None else " ".join(sorted(scopes))


def _silent(base_url: str) -> SettingsError:
    parts = urlsplit(base_url)
    return SettingsError(
        f"the service at {parts.netloc} does not say where one signs in",
        hint="Name the addresses under [auth] in the petsync.toml that has this url "
        "(docs/sign-in.md), or give a token.",
    )
