"""OAuth 2.0: endpoints and metadata of an authority, token requests, and their answers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote_plus, urlencode, urlsplit

import httpx
import msgspec
from oauthlib.oauth2.rfc6749.parameters import prepare_token_request

from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.origin import is_loopback
from petsync.client.transport import UNTRUSTED, proxy_for, ssl_context, tls_reason
from petsync.errors import (
    AuthError,
    PetsyncError,
    RateLimitedError,
    RedirectError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
)
from petsync.redact import Redactor
from petsync.settings import Secret

__all__ = [
    "CLIENT",
    "Authority",
    "Endpoints",
    "OAuthProblem",
    "TokenEndpoint",
    "TokenResponse",
    "Values",
    "candidates",
    "checked_place",
    "credentials_in",
    "parse_credentials",
    "places_from_config",
    "places_from_metadata",
    "refusal",
    "scopes_of",
    "without_echo",
]


# What a service said, with secrets in it: it shows no more than the names.


class Values(dict[str, Any]):
    """Names and values; a verbose traceback shows the names alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """An answer: its status, and its JSON object where it is one."""

    status: int
    json: Values | None


# What the token endpoint answers: a token with its terms, or why there is none.
#
# Source: RFC 6749, sections 5.1 and 5.2.


_CENTURY = 100 * 365.25 * 24 * 3600
_WHY = {
    "invalid_client": (
        "the service does not know this client id, or its secret is wrong",
        "Check the client id and the secret with the people who gave them to you.",
    ),
    "invalid_grant": (
        "the service does not take this sign-in any more",
        "Sign in again; a sign-in can be used once, and for a short time.",
    ),
    "unauthorized_client": (
        "this client may not sign in this way",
        "Choose another way to sign in, or ask the people who run the service.",
    ),
    "unsupported_grant_type": (
        "the service does not offer this way to sign in",
        "Choose another way to sign in.",
    ),
    "invalid_scope": (
        "the service does not give these permissions",
        "Ask for read:pets alone, or ask the people who run the service.",
    ),
    "access_denied": (
        "it was declined in the browser",
        "Begin again, and choose Allow, if that was not meant.",
    ),
    "server_error": ("the service failed", "Try again in a moment."),
    "temporarily_unavailable": ("the service is too busy just now", "Try again in a moment."),
}
_OTHER = ("the service refuses", "Begin again; if it stays so, ask the people who run the service.")


@dataclass(frozen=True, slots=True)
class OAuthProblem:
    """An error code of the protocol, and the service's words for it."""

    code: str
    words: str = ""

    def error(self, status: int | None = None) -> AuthError:
        """The error for a person."""
        why, hint = _WHY.get(self.code, _OTHER)
        code = _plain(self.code, 40)
        said = f" ({code}: {self.words})" if self.words else f" ({code})" if code else ""
        return AuthError(f"sign-in: {why}{said}", status=status, service_message=code, hint=hint)


def refusal(values: Mapping[str, Any], secrets: Credentials) -> OAuthProblem:
    """The refusal in an answer, without any secret that it echoes."""
    words = secrets.mask(_text(values, "error_description"))
    return OAuthProblem(secrets.mask(_text(values, "error")), _plain(words, 200))


def credentials_in(said: TokenResponse, asked: Credentials, now: float) -> Credentials:
    """The credentials that the answer gives; what it does not say is as `asked` has it.

    Raises AuthError for a refusal, ResponseError for what is neither.
    """
    if said.json is None:
        raise _unusable(f"it sends no JSON ({said.status})")
    if "error" in said.json or said.status >= 400:
        raise refusal(said.json, asked).error(said.status)
    return parse_credentials(said.json, asked, now)


def parse_credentials(values: Mapping[str, Any], asked: Credentials, now: float) -> Credentials:
    """The credentials with the token that is among the values. Raises ResponseError."""
    token = _secret(values, "access_token")
    if token is None:
        raise _unusable("it sends no token")
    kind = asked.mask(_text(values, "token_type")) or "bearer"
    if kind.lower() != "bearer":
        raise _unusable(f"it sends a token of the type {_plain(kind, 40)}")
    return asked.with_grant(token, _terms(values, asked.grant, now))


def scopes_of(values: Mapping[str, Any]) -> frozenset[str] | None:
    """The scopes that are named; None where none are."""
    text = values.get("scope")
    if isinstance(text, list):
        return frozenset(each for each in text if isinstance(each, str))
    return frozenset(text.split()) if isinstance(text, str) and text.strip() else None


def _terms(values: Mapping[str, Any], asked: Grant, now: float) -> Grant:
    told = scopes_of(values)
    life = _seconds(values.get("expires_in"))
    return asked.with_terms(
        refresh=_secret(values, "refresh_token") or asked.refresh,
        scopes=asked.scopes if told is None else told,
        issued=now,
        expires=None if life is None else now + life,
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else min(max(number, 0.0), _CENTURY)


def _secret(values: Mapping[str, Any], name: str) -> Secret | None:
    """A token that a header can carry."""
    text = values.get(name)
    fits = isinstance(text, str) and text and all("!" <= each <= "~" for each in text)
    return Secret(str(text)) if fits else None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _plain(text: str, most: int) -> str:
    """The service's words in one line, without what could play tricks with it."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def _unusable(why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: the service answers what cannot be used: {why}",
        hint="Is token_url under [auth] in petsync.toml right?",
    )


# Endpoints: where one signs in to a service, as petsync.toml or the service's metadata says.
#
# Source: RFC 8414 for the metadata, RFC 9700, section 4, for what must not be believed of it.


CLIENT = "petsync"
"""The program's name where nobody gave it another."""
_FIELDS = {
    "authorize": "authorization_endpoint",
    "token": "token_endpoint",
    "revoke": "revocation_endpoint",
    "introspect": "introspection_endpoint",
}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The addresses, "" for what the service does not offer. `issuer` is how the service names
    itself; `says_iss`: it promises to do so when it sends a browser back. `flows` are the response
    types it offers, None where that is not known.
    """

    issuer: str = ""
    authorize: str = ""
    token: str = ""
    revoke: str = ""
    introspect: str = ""
    client_id: str = CLIENT
    redirect: str = ""
    says_iss: bool = False
    by_post: bool = False
    flows: frozenset[str] | None = None


def places_from_config(auth: Mapping[str, str], allow_http: Collection[str]) -> Endpoints:
    """The places that `[auth]` names. Raises SettingsError for an address that cannot be used."""
    found: dict[str, Any] = {
        n: _read_url(auth, f"{n}_url", allow_http) for n in (*_FIELDS, "redirect")
    }
    issuer = auth.get("issuer", "")
    if issuer:
        checked_place(issuer, "[auth] issuer", allow_http)
    return Endpoints(issuer=issuer, client_id=auth.get("client_id", CLIENT), **found)


def candidates(base_url: str, issuer: str) -> Iterator[tuple[str, str]]:
    """Issuers that could stand behind the base URL, each with its metadata's address."""
    if issuer:
        parts = urlsplit(issuer)
        yield issuer, _well_known(parts, parts.path.rstrip("/"))
        return
    parts = urlsplit(base_url)
    root = f"{parts.scheme}://{parts.netloc}"
    yield root, _well_known(parts, "")
    if parts.path.strip("/"):
        path = parts.path.rstrip("/")
        yield root + path, _well_known(parts, path)


def places_from_metadata(
    metadata: object, issuer: str, known: Endpoints, allow_http: Collection[str]
) -> Endpoints:
    """What the metadata says of the issuer. Raises SettingsError where it speaks of another, or
    points to another origin: a secret would be sent there on this service's word alone.
    """
    if not isinstance(metadata, dict):
        raise _metadata_error(issuer, "is no object")
    said = metadata.get("issuer")
    if not isinstance(said, str) or not _same_place(said, issuer):
        raise _metadata_error(issuer, "speaks for another service")
    found: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = metadata.get(field)
        if value is None:
            continue
        if not isinstance(value, str) or not _same_origin(value, issuer):
            raise _metadata_error(issuer, f"points to another place ({field})")
        found[name] = _at(checked_place(value, f"the {field} of the service", allow_http), issuer)
    methods = _names(metadata, "token_endpoint_auth_methods_supported")
    return Endpoints(
        issuer=said,
        client_id=known.client_id,
        redirect=known.redirect,
        says_iss=metadata.get("authorization_response_iss_parameter_supported") is True,
        by_post="client_secret_post" in methods and "client_secret_basic" not in methods,
        flows=frozenset(_names(metadata, "response_types_supported")) or None,
        **found,
    )


def checked_place(url: str, what: str, allow_http: Collection[str]) -> str:
    """The address, if secrets may be sent there. Raises SettingsError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError(
            f"{what} cannot be read as an address",
            hint="It looks like https://shop.example/oauth/token.",
        ) from None
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in _PORTS or not host or parts.fragment or "@" in parts.netloc or not clean:
        raise SettingsError(
            f"{what} is no address that starts with https://",
            hint="It looks like https://shop.example/oauth/token, without a user or #.",
        )
    if parts.scheme == "http" and host not in allow_http and not is_loopback(host):
        raise SettingsError(
            f"{what} is at http://{host}, where secrets would travel unencrypted",
            hint=f"Use https, or allow this host by name: --allow-http {host}, in Python "
            f"allow_http=['{host}'].",
        )
    return url


def _read_url(auth: Mapping[str, str], name: str, allow_http: Collection[str]) -> str:
    url = auth.get(name, "")
    return checked_place(url, f"[auth] {name}", allow_http) if url else ""


def _well_known(parts: SplitResult, path: str) -> str:
    name = "/.well-known/oauth-authorization-server"
    return f"{parts.scheme}://{parts.netloc}{name}{path}"


def _same_place(url: str, other: str) -> bool:
    """Whether both are the same address; this machine goes by several names."""
    return _same_origin(url, other) and (
        urlsplit(url).path.rstrip("/") == urlsplit(other).path.rstrip("/")
    )


def _at(url: str, issuer: str) -> str:
    """The address on the very origin that was asked: where that calls itself by another name of
    this machine, nothing is sent to that name, as somebody else may listen there.
    """
    return urlsplit(url)._replace(netloc=urlsplit(issuer).netloc).geturl()


def _same_origin(url: str, issuer: str) -> bool:
    try:
        return _origin(urlsplit(url)) == _origin(urlsplit(issuer))
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    host = parts.hostname or ""
    name = "this machine" if is_loopback(host) else host
    return parts.scheme, name, parts.port or _PORTS.get(parts.scheme)


def _names(metadata: Mapping[str, Any], field: str) -> list[str]:
    value = metadata.get(field)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _metadata_error(issuer: str, why: str) -> SettingsError:
    return SettingsError(
        f"what {issuer} says of how to sign in {why}, so petsync does not go there",
        hint="If it is right, name the addresses under [auth] in petsync.toml.",
    )


# Echo: what a request carried, taken out of what is said in answer to it.


_KNOWN = frozenset({"grant_type", "client_id", "redirect_uri", "scope", "token_type_hint"})
_NEW = frozenset({"access_token", "refresh_token"})
_WORDS = frozenset({"error", "error_description"})
_LONG = 8
"""A shorter secret may be a part of plain words, and is taken out of the service's words alone."""


def without_echo(said: Values, form: Secret, authorization: Secret | None) -> Values:
    """The answer without any text of the request that is secret, however it was encoded; what the
    answer gives to be used, its tokens, stays.
    """
    sent = _texts(form, authorization)
    words, others = Redactor(sent), Redactor(each for each in sent if len(each.reveal()) >= _LONG)
    return Values(
        {n: v if n in _NEW else _mask(v, words if n in _WORDS else others) for n, v in said.items()}
    )


def _mask(value: object, redactor: Redactor) -> object:
    if isinstance(value, list):
        return [_mask(each, redactor) for each in value]
    return redactor(value) if isinstance(value, str) else value


def _texts(form: Secret, authorization: Secret | None) -> list[Secret]:
    """Every secret text of the request."""
    plain = [Secret(v) for n, v in parse_qsl(form.reveal()) if n not in _KNOWN]
    if authorization is not None:
        plain += _parts(authorization)
    return [each for each in plain if each]


def _parts(authorization: Secret) -> Iterator[Secret]:
    """What stands in the header behind its scheme, and the secret in it."""
    token = Secret(authorization.reveal().partition(" ")[2])
    yield token
    try:
        pair = Secret(base64.b64decode(token.reveal(), validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return
    if ":" in pair.reveal():
        secret = Secret(pair.reveal().partition(":")[2])
        yield from (secret, Secret(unquote_plus(secret.reveal())))


# TokenEndpoint: one request to the authorization server and its answer, with bounds on both.
#
# No plain secret is a local variable of a frame that an error passes: a verbose traceback shows
# those. What httpx raises is left behind with its frames.


log = logging.getLogger(__name__)
_MOST = 256 * 1024
_AGENT = f"petsync/{version('petsync')}"
_FORM = "application/x-www-form-urlencoded"
Transport = Callable[[], httpx.AsyncBaseTransport]


class TokenEndpoint:
    """Asks one address at a time. `timeout` (seconds) is for a whole answer."""

    def __init__(self, timeout: float, transport: Transport | None = None) -> None:
        self._timeout, self._transport = timeout, transport

    async def get(self, url: str) -> TokenResponse:
        """The answer to a GET that carries nothing."""
        return await self._request("GET", url, Secret(""), None)

    async def post(
        self, url: str, form: Secret, authorization: Secret | None = None
    ) -> TokenResponse:
        """The answer to an encoded form, without what it repeats of it. Raises ApiError where
        there is none that can be used.
        """
        said = await self._request("POST", url, form, authorization)
        _check_status(said.status, url)
        if said.json is None:
            return said
        return TokenResponse(said.status, without_echo(said.json, form, authorization))

    async def _request(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse:
        found = await self._caught(method, url, form, authorization)
        if isinstance(found, PetsyncError):
            raise found
        log.debug("%s %s: %d", method, url, found.status)
        return found

    async def _caught(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse | PetsyncError:
        """An error is returned, and not raised, so that its frames are gone."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(method, url, form, authorization)
        except asyncio.CancelledError as cancelled:
            raise cancelled.with_traceback(None) from None
        except SettingsError as error:
            return error.with_traceback(None)
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.InvalidURL,
            httpx.ProxyError,
        ) as error:
            return _unreachable(url, may_have_happened=False, why=tls_reason(error))
        except (httpx.HTTPError, OSError, TimeoutError):
            return _unreachable(url, may_have_happened=True)
        except _TooMuchError:
            return _unreadable(url, "its answer is far too long")

    async def _exchange(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        headers["user-agent"] = _AGENT
        if method == "POST":
            headers["content-type"] = _FORM
        if authorization is not None:
            headers["authorization"] = authorization.reveal()
        async with self._client(url) as client:
            body = form.reveal().encode()
            async with client.stream(method, url, headers=headers, content=body) as answer:
                content = bytearray()
                async for piece in answer.aiter_raw():
                    content += piece
                    if len(content) > _MOST:
                        raise _TooMuchError
                return TokenResponse(answer.status_code, _object(answer, bytes(content)))

    def _client(self, url: str) -> httpx.AsyncClient:
        """One that goes by the environment's proxy, unless the address is on this machine."""
        proxy, login = proxy_for(url)
        return httpx.AsyncClient(
            transport=None if self._transport is None else self._transport(),
            verify=ssl_context() if urlsplit(url).scheme == "https" else True,
            proxy=None if proxy is None else httpx.Proxy(proxy, auth=login),
            trust_env=False,
            timeout=self._timeout,
            follow_redirects=False,
        )


class _TooMuchError(Exception):
    pass


def _object(answer: httpx.Response, content: bytes) -> Values | None:
    if answer.headers.get("content-encoding", "identity") != "identity":
        return None
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Values(found) if isinstance(found, dict) else None


def _check_status(status: int, url: str) -> None:
    where = _place(url)
    if 300 <= status < 400:
        raise RedirectError(
            f"sign-in: {where} points elsewhere ({status}), where no secret is sent",
            status=status,
            hint="If the address has moved, name the new one under [auth] in petsync.toml.",
        )
    if status == 429:
        raise RateLimitedError(
            f"sign-in: {where} asks to wait (429)", status=429, hint="Try again in a minute."
        )
    if status >= 500:
        raise ServiceError(
            f"sign-in: {where} failed ({status})",
            status=status,
            may_have_happened=True,
            hint="Try again in a moment; if it stays so, ask the people who run the service.",
        )


def _unreachable(url: str, *, may_have_happened: bool, why: str = "") -> TransportError:
    what = "gave no whole answer" if may_have_happened else "cannot be reached"
    return TransportError(
        f"sign-in: {_place(url)} {what}{f' ({why})' if why else ''}",
        may_have_happened=may_have_happened,
        hint=UNTRUSTED if why else "Is the address right, and the service up? Then try again.",
    )


def _unreadable(url: str, why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: {_place(url)} answers what cannot be read: {why}",
        hint="Is this the address of the sign-in? petsync.toml can name it under [auth].",
    )


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


# Authority: the part of a service that gives tokens, changes them for new ones and ends them.
#
# Source: RFC 6749, RFC 7009 (revocation), RFC 7662 (introspection), RFC 7636 (PKCE).


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
        self._talk = TokenEndpoint(timeout, transport)
        self._places: Endpoints | None = None

    @property
    def client_id(self) -> str:
        """The program's name at the service."""
        return self._auth.get("client_id", CLIENT)

    async def places(self) -> Endpoints:
        """Where everything is; asked for once. Raises SettingsError where that is not to be had,
        and ApiError where the service does not answer.
        """
        if self._places is None:
            self._places = await self._find_places()
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

    async def renew(self, asked: Credentials) -> Credentials:
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

    async def introspect(self, asked: Credentials) -> Values | None:
        """What the service says of the token; None where it does not say such things."""
        place = (await self.places()).introspect
        if not place or asked.token is None:
            return None
        form = {"token": asked.token}
        if asked.grant.client_id:
            said = await self._form(place, asked, form)
        else:  # Whose token it is, is what is asked: it opens the door itself.
            said = await self._talk.post(
                place, _encode_form(asked, form, by_post=False), _bearer_header(asked)
            )
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
    ) -> TokenResponse:
        places = await self.places()
        by_post = places.by_post or asked.grant.client_secret is None
        authorization = None if by_post else _basic(asked)
        return await self._talk.post(
            place, _encode_form(asked, form, by_post=by_post), authorization
        )

    async def _find_places(self) -> Endpoints:
        named = places_from_config(self._auth, self._allow_http)
        if named.authorize or named.token:
            return named
        for issuer, place in candidates(self._base_url, named.issuer):
            checked_place(place, "the service's metadata", self._allow_http)
            said = await self._talk.get(place)
            if said.status == 200 and said.json is not None:
                return places_from_metadata(said.json, issuer, named, self._allow_http)
        raise _silent(self._base_url)


def _encode_form(
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


def _bearer_header(asked: Credentials) -> Secret:
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
