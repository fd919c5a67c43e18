"""OAuth 2.0: an authorization server's endpoints and metadata, token requests and responses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote_plus, urlencode, urlsplit

import httpx
import msgspec

from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.origin import is_loopback
from petsync.client.transport import (
    AGENT,
    ERRORS,
    UNTRUSTED,
    Bounds,
    GivenClient,
    GivenTransport,
    HttpxTransport,
    TooLongError,
    proxy_for,
    ssl_context,
    tls_reason,
)
from petsync.errors import (
    ApiError,
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
    "check_endpoint",
    "endpoints_from_config",
    "endpoints_from_metadata",
    "metadata_addresses",
    "parse_credentials",
    "parse_refusal",
    "parse_scopes",
    "read_credentials",
    "without_echo",
]


class Values(dict[str, Any]):
    """The values of a response, by name. The repr shows only the names: values may be secret, and a
    verbose traceback shows variables.
    """

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The response of an authorization server."""

    status: int
    json: Values | None
    """None if the body is not a JSON object."""


# Responses of the token endpoint: a token with its terms, or an error.
#
# Source: RFC 6749, sections 5.1 and 5.2.


_CENTURY_S = 100 * 365.25 * 24 * 3600
_REFUSALS = {
    "invalid_client": (
        "the service does not recognise this client id, or its secret is wrong",
        "Check the client id and the secret with the operators of the service.",
    ),
    "invalid_grant": (
        "the service does not accept this sign-in any more",
        "Sign in again. The code of a sign-in is valid only once, and only for a short time.",
    ),
    "unauthorized_client": (
        "this client may not use this kind of sign-in",
        "Use another sign-in, or ask the operators of the service.",
    ),
    "unsupported_grant_type": (
        "the service does not offer this kind of sign-in",
        "Use another sign-in.",
    ),
    "invalid_scope": (
        "the service does not grant these permissions",
        "Request only read:pets, or ask the operators of the service.",
    ),
    "access_denied": (
        "it was declined in the browser",
        "If that was not intended, begin again, and choose Allow.",
    ),
    "server_error": ("the service failed", "Try again in a moment."),
    "temporarily_unavailable": ("the service is too busy", "Try again in a moment."),
}
_OTHER_REFUSAL = (
    "the service refused the request",
    "Begin again; if it happens again, ask the operators of the service.",
)


@dataclass(frozen=True, slots=True)
class OAuthProblem:
    """An OAuth error code, and the service's description."""

    code: str
    description: str = ""

    def error(self, status: int | None = None) -> AuthError:
        why, hint = _REFUSALS.get(self.code, _OTHER_REFUSAL)
        code = _one_line(self.code, 40)
        details = (
            f" ({code}: {self.description})" if self.description else f" ({code})" if code else ""
        )
        return AuthError(f"sign-in: {why}{details}", status=status, service_message=code, hint=hint)


def parse_refusal(values: Mapping[str, Any], secrets: Credentials) -> OAuthProblem:
    """Return the error in a response; the secrets that it repeats are masked."""
    description = secrets.mask(_text(values, "error_description"))
    return OAuthProblem(secrets.mask(_text(values, "error")), _one_line(description, 200))


def read_credentials(response: TokenResponse, requested: Credentials, now: float) -> Credentials:
    """Return the credentials in a response; missing terms are those of `requested`.

    Raises AuthError for a refusal, and ResponseError if there is no usable token.
    """
    if response.json is None:
        raise _build_unusable_error(f"it contains no JSON object ({response.status})")
    if "error" in response.json or response.status >= 400:
        raise parse_refusal(response.json, requested).error(response.status)
    return parse_credentials(response.json, requested, now)


def parse_credentials(values: Mapping[str, Any], requested: Credentials, now: float) -> Credentials:
    """Return the credentials with the token in the values. Raises ResponseError if there is no
    usable token.
    """
    token = _secret(values, "access_token")
    if token is None:
        raise _build_unusable_error("it contains no token")
    kind = requested.mask(_text(values, "token_type")) or "bearer"
    if kind.lower() != "bearer":
        raise _build_unusable_error(f"it contains a token of the type {_one_line(kind, 40)}")
    return requested.with_grant(token, _parse_terms(values, requested.grant, now))


def parse_scopes(values: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the scopes in the values; None if the values do not name any."""
    text = values.get("scope")
    if isinstance(text, list):
        return frozenset(each for each in text if isinstance(each, str))
    return frozenset(text.split()) if isinstance(text, str) and text.strip() else None


def _parse_terms(values: Mapping[str, Any], requested: Grant, now: float) -> Grant:
    scopes = parse_scopes(values)
    lifetime = _parse_seconds(values.get("expires_in"))
    return requested.with_terms(
        refresh=_secret(values, "refresh_token") or requested.refresh,
        scopes=requested.scopes if scopes is None else scopes,
        issued=now,
        expires=None if lifetime is None else now + lifetime,
    )


def _parse_seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else min(max(number, 0.0), _CENTURY_S)


def _secret(values: Mapping[str, Any], name: str) -> Secret | None:
    """Return the value, if it is text that is valid in a header; None otherwise."""
    text = values.get(name)
    fits = isinstance(text, str) and text and all("!" <= each <= "~" for each in text)
    return Secret(str(text)) if fits else None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _one_line(text: str, max_length: int) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def _build_unusable_error(why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: the response of the service cannot be used: {why}",
        hint="Check the addresses under [auth] in petsync.toml, if there are any; otherwise, ask "
        "the operators of the service.",
    )


# Endpoints: the addresses for a sign-in, from petsync.toml or the service's metadata.
#
# Source: RFC 8414 for the metadata, and RFC 9700, section 4, for the checks.


CLIENT = "petsync"
"""The default client id."""
_FIELDS = {
    "authorize": "authorization_endpoint",
    "token": "token_endpoint",
    "revoke": "revocation_endpoint",
    "introspect": "introspection_endpoint",
}
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The addresses of the endpoints; "" for an endpoint that is not known."""

    issuer: str = ""
    """The service's identifier."""
    authorize: str = ""
    token: str = ""
    revoke: str = ""
    introspect: str = ""
    client_id: str = CLIENT
    redirect: str = ""
    says_iss: bool = False
    """Whether each redirect contains the service's identifier (`iss`)."""
    by_post: bool = False
    """Whether the client's secret is sent in the form instead of the Authorization header."""
    flows: frozenset[str] | None = None
    """The response types that the service offers; None if unknown."""


def endpoints_from_config(auth: Mapping[str, str], allow_http: Collection[str]) -> Endpoints:
    """Return the endpoints in `[auth]`. Raises SettingsError for an invalid address."""
    found: dict[str, Any] = {
        n: _read_url(auth, f"{n}_url", allow_http) for n in (*_FIELDS, "redirect")
    }
    issuer = auth.get("issuer", "")
    if issuer:
        check_endpoint(issuer, "[auth] issuer", allow_http)
    return Endpoints(issuer=issuer, client_id=auth.get("client_id", CLIENT), **found)


def metadata_addresses(base_url: str, issuer: str) -> Iterator[tuple[str, str]]:
    """Yield `issuer` or, if it is "", the possible issuers for the base URL, each with the address
    of its metadata.
    """
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


def endpoints_from_metadata(
    metadata: object, issuer: str, known: Endpoints, allow_http: Collection[str]
) -> Endpoints:
    """Return the endpoints in the issuer's metadata.

    Raises SettingsError if the metadata is for another issuer, or an endpoint is not on the
    issuer's origin: metadata must not make petsync send secrets to another origin.
    """
    if not isinstance(metadata, dict):
        raise _metadata_error(issuer, "is not an object")
    named_issuer = metadata.get("issuer")
    if not isinstance(named_issuer, str) or not _same_address(named_issuer, issuer):
        raise _metadata_error(issuer, "is for another service")
    found: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = metadata.get(field)
        if value is None:
            continue
        if not isinstance(value, str) or not _same_origin(value, issuer):
            raise _metadata_error(issuer, f"has a {field} on another origin")
        found[name] = _with_issuer_host(
            check_endpoint(value, f"the {field} of the service", allow_http), issuer
        )
    methods = _names(metadata, "token_endpoint_auth_methods_supported")
    return Endpoints(
        issuer=named_issuer,
        client_id=known.client_id,
        redirect=known.redirect,
        says_iss=metadata.get("authorization_response_iss_parameter_supported") is True,
        by_post="client_secret_post" in methods and "client_secret_basic" not in methods,
        flows=frozenset(_names(metadata, "response_types_supported")) or None,
        **found,
    )


def check_endpoint(url: str, what: str, allow_http: Collection[str]) -> str:
    """Return the address if it is valid and secrets may be sent to it. Raises SettingsError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError(
            f"{what} is not a valid address",
            hint="It looks like https://shop.example/oauth/token.",
        ) from None
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in _PORTS or not host or parts.fragment or "@" in parts.netloc or not clean:
        raise SettingsError(
            f"{what} is not a valid https address",
            hint="It looks like https://shop.example/oauth/token, without a user, spaces or #.",
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
    return check_endpoint(url, f"[auth] {name}", allow_http) if url else ""


def _well_known(parts: SplitResult, path: str) -> str:
    name = "/.well-known/oauth-authorization-server"
    return f"{parts.scheme}://{parts.netloc}{name}{path}"


def _same_address(url: str, other: str) -> bool:
    """Return true if both addresses are the same; all loopback hosts count as one host."""
    return _same_origin(url, other) and (
        urlsplit(url).path.rstrip("/") == urlsplit(other).path.rstrip("/")
    )


def _with_issuer_host(url: str, issuer: str) -> str:
    """Return the address with the issuer's host: another program may listen on another loopback
    address with the same port.
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
        f"the sign-in metadata of {issuer} {why}, so petsync does not use it",
        hint="Ask the operators of the service, or name the addresses under [auth] in "
        "petsync.toml.",
    )


# Echo: mask the secrets of a request in its response.


_PUBLIC = frozenset({"grant_type", "client_id", "redirect_uri", "scope", "token_type_hint"})
_ISSUED = frozenset({"access_token", "refresh_token"})
_MESSAGES = frozenset({"error", "error_description"})
_MIN_SECRET = 8
"""The minimum length of a secret that is masked in all values except issued tokens. A shorter
secret may be part of an ordinary word, and is masked only in error texts.
"""


def without_echo(values: Values, form: Secret, authorization: Secret | None) -> Values:
    """Return the response with the request's secrets masked; issued tokens stay unchanged."""
    sent = _find_secrets(form, authorization)
    redact_words, redact_others = (
        Redactor(sent),
        Redactor(each for each in sent if len(each.reveal()) >= _MIN_SECRET),
    )
    return Values(
        {
            n: v if n in _ISSUED else _mask(v, redact_words if n in _MESSAGES else redact_others)
            for n, v in values.items()
        }
    )


def _mask(value: object, redactor: Redactor) -> object:
    if isinstance(value, list):
        return [_mask(each, redactor) for each in value]
    return redactor(value) if isinstance(value, str) else value


def _find_secrets(form: Secret, authorization: Secret | None) -> list[Secret]:
    plain = [Secret(v) for n, v in parse_qsl(form.reveal()) if n not in _PUBLIC]
    if authorization is not None:
        plain += _parts(authorization)
    return [each for each in plain if each]


def _parts(authorization: Secret) -> Iterator[Secret]:
    """Yield the header's value without its scheme and, for Basic, the secret that it encodes."""
    token = Secret(authorization.reveal().partition(" ")[2])
    yield token
    try:
        pair = Secret(base64.b64decode(token.reveal(), validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return
    if ":" in pair.reveal():
        secret = Secret(pair.reveal().partition(":")[2])
        yield from (secret, Secret(unquote_plus(secret.reveal())))


# TokenEndpoint: sends one request to the authorization server, with limits on time and size.
#
# Errors must not pass through a stack frame with a plain secret, because a verbose traceback shows
# local variables. Errors of httpx are therefore dropped and replaced.


log = logging.getLogger(__name__)
_MAX_RESPONSE_BYTES = 256 * 1024
_FORM = "application/x-www-form-urlencoded"


class TokenEndpoint:
    """Sends single requests to an authorization server. `timeout` is the maximum time in seconds
    until the response is complete. The requests may go through the `given` transport or client of
    the caller, but without its headers and credentials, which are for the service.
    """

    def __init__(
        self, timeout: float, *, given: GivenTransport | GivenClient | None = None
    ) -> None:
        self._timeout = timeout
        self._given = (
            None if given is None else HttpxTransport(given, timeout, is_borrowed=True, plain=True)
        )

    async def get(self, url: str) -> TokenResponse:
        """Return the response to a GET without credentials. Its errors have `may_have_happened`
        False, because a GET changes nothing.
        """
        try:
            return await self._request("GET", url, Secret(""), None)
        except ApiError as error:
            error.may_have_happened = False
            raise

    async def post(
        self, url: str, form: Secret, authorization: Secret | None = None
    ) -> TokenResponse:
        """Return the response to an encoded form; the secrets that it repeats are masked. Raises
        ApiError if no complete response arrives, or for a redirect, 429 or 5xx.
        """
        response = await self._request("POST", url, form, authorization)
        _check_status(response.status, url)
        if response.json is None:
            return response
        return TokenResponse(response.status, without_echo(response.json, form, authorization))

    async def _request(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse:
        found = await self._try_exchange(method, url, form, authorization)
        if isinstance(found, PetsyncError):
            raise found
        log.debug("%s %s: %d", method, url, found.status)
        return found

    async def _try_exchange(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse | PetsyncError:
        """Send the request. Return errors instead of raising them, to drop their frames."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(method, url, form, authorization)
        except asyncio.CancelledError as cancelled:
            raise cancelled.with_traceback(None) from None
        except PetsyncError as error:
            return error.with_traceback(None)
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.InvalidURL,
            httpx.ProxyError,
        ) as error:
            return _build_unreachable_error(url, may_have_happened=False, why=tls_reason(error))
        except ERRORS:
            return _build_unreachable_error(url, may_have_happened=True)
        except (_TooMuchError, TooLongError):
            return _build_unreadable_error(url, "it is too long")

    async def _exchange(
        self, method: str, url: str, form: Secret, authorization: Secret | None
    ) -> TokenResponse:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        headers["user-agent"] = AGENT
        if method == "POST":
            headers["content-type"] = _FORM
        if authorization is not None:
            headers["authorization"] = authorization.reveal()
        body = form.reveal().encode()
        if self._given is not None:
            bounds = Bounds(_MAX_RESPONSE_BYTES, self._timeout)
            found = await self._given.send(method, url, headers, body, bounds)
            return TokenResponse(found.status, _parse_object(found.body))
        async with (
            self._client(url) as client,
            client.stream(method, url, headers=headers, content=body) as response,
        ):
            content = bytearray()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > _MAX_RESPONSE_BYTES:
                    raise _TooMuchError
            is_plain = response.headers.get("content-encoding", "identity") == "identity"
            found_json = _parse_object(bytes(content)) if is_plain else None
            return TokenResponse(response.status_code, found_json)

    def _client(self, url: str) -> httpx.AsyncClient:
        proxy, login = proxy_for(url)
        return httpx.AsyncClient(
            verify=ssl_context() if urlsplit(url).scheme == "https" else True,
            proxy=None if proxy is None else httpx.Proxy(proxy, auth=login),
            trust_env=False,
            timeout=self._timeout,
            follow_redirects=False,
        )


class _TooMuchError(Exception):
    pass


def _parse_object(content: bytes) -> Values | None:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Values(found) if isinstance(found, dict) else None


def _check_status(status: int, url: str, *, is_change: bool = True) -> None:
    where = _describe_address(url)
    if 300 <= status < 400:
        raise RedirectError(
            f"sign-in: {where} redirects ({status}), and no secret is sent to another address",
            status=status,
            hint="If the address has moved, name the new one under [auth] in petsync.toml.",
        )
    if status == 429:
        raise RateLimitedError(
            f"sign-in: {where} got too many requests (429)",
            status=429,
            hint="Try again in a minute.",
        )
    if status >= 500:
        raise ServiceError(
            f"sign-in: {where} failed ({status})",
            status=status,
            may_have_happened=is_change,
            hint="Try again in a moment; if it persists, ask the operators of the service.",
        )


def _build_unreachable_error(url: str, *, may_have_happened: bool, why: str = "") -> TransportError:
    what = "sent no complete response" if may_have_happened else "cannot be reached"
    return TransportError(
        f"sign-in: {_describe_address(url)} {what}{f' ({why})' if why else ''}",
        may_have_happened=may_have_happened,
        hint=UNTRUSTED
        if why
        else "Check the address, and that the service is running; then try again.",
    )


def _build_unreadable_error(url: str, why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: the response of {_describe_address(url)} cannot be read: {why}",
        hint="Check the address. petsync.toml can name another address under [auth].",
    )


def _describe_address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


# Authority: a service's authorization server, which issues, renews and revokes tokens.
#
# Source: RFC 6749, RFC 7009 (revocation), RFC 7662 (introspection), RFC 7636 (PKCE).


_RETRY_WAITS_S = (0.3, 1.0)
_TEMPORARY = frozenset({429, 502, 503, 504})
"""Statuses that do not show whether the metadata exists; if no metadata is found, they are reported
as errors. A 500 is not one of them: some services without metadata respond with it.
"""


class Authority:
    """The authorization server of the service at `base_url`. The object stores no tokens.

    `auth` is the table `[auth]` of petsync.toml. If it has authorize_url or token_url, the metadata
    of the service is not used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Mapping[str, str] | None = None,
        allow_http: Collection[str] = (),
        timeout: float = 30.0,
        given: GivenTransport | GivenClient | None = None,
    ) -> None:
        self._base_url, self._allow_http = base_url, tuple(allow_http)
        self._auth = dict(auth or {})
        self._endpoint = TokenEndpoint(timeout, given=given)
        self._endpoints: Endpoints | None = None

    @property
    def client_id(self) -> str:
        """The client id in `[auth]`, or petsync's default."""
        return self._auth.get("client_id", CLIENT)

    async def endpoints(self) -> Endpoints:
        """Return the endpoints, which are looked up on first use. Raises SettingsError if they
        cannot be found, and ApiError if the service does not respond.
        """
        if self._endpoints is None:
            self._endpoints = await self._find_endpoints()
        return self._endpoints

    async def request_by_client(self, credentials: Credentials) -> Credentials:
        """Get a token with the client's id and secret."""
        scope = _scope(credentials.grant.scopes)
        return await self._request_token(credentials, "client_credentials", scope=scope)

    async def request_by_code(
        self, credentials: Credentials, code: Secret, verifier: Secret, redirect: str
    ) -> Credentials:
        """Exchange an authorization code for a token."""
        return await self._request_token(
            credentials,
            "authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=redirect,
        )

    async def request_by_refresh(self, credentials: Credentials) -> Credentials:
        """Get new tokens with the refresh token, which may be valid only once."""
        return await self._request_token(
            credentials, "refresh_token", refresh_token=credentials.grant.refresh
        )

    async def renew(self, credentials: Credentials) -> Credentials:
        """Get a new token with the refresh token or, without one, the client's secret.

        Only a request that was certainly not processed is repeated: a refresh token that is used
        twice may end the sign-in.
        """
        request = (
            self.request_by_client if credentials.grant.refresh is None else self.request_by_refresh
        )
        for wait in _RETRY_WAITS_S:
            try:
                return await request(credentials)
            except (TransportError, RateLimitedError) as error:
                if error.may_have_happened:
                    raise
            await asyncio.sleep(wait)
        return await request(credentials)

    async def introspect(self, credentials: Credentials) -> Values | None:
        """Return the service's claims about the token; None if introspection is not available or
        is refused.
        """
        address = (await self.endpoints()).introspect
        if not address or credentials.token is None:
            return None
        form = {"token": credentials.token}
        if credentials.grant.client_id:
            response = await self._post_form(address, credentials, form)
        else:  # Without a client id, the token itself authorizes the request.
            response = await self._endpoint.post(
                address, _encode_form(credentials, form, by_post=False), _bearer_header(credentials)
            )
        return response.json if response.status == 200 else None

    async def revoke(self, credentials: Credentials) -> bool:
        """Revoke the refresh token or, without one, the access token. Return false if there is no
        token or no revocation endpoint. Raises ApiError if the service does not revoke the token.
        """
        address = (await self.endpoints()).revoke
        token = credentials.grant.refresh or credentials.token
        if not address or token is None:
            return False
        hint = "refresh_token" if credentials.grant.refresh else "access_token"
        response = await self._post_form(
            address, credentials, {"token": token, "token_type_hint": hint}
        )
        if response.status >= 400:
            raise parse_refusal(response.json or {}, credentials).error(response.status)
        return True

    async def _request_token(
        self, credentials: Credentials, kind: str, **form: Secret | str | None
    ) -> Credentials:
        address = (await self.endpoints()).token
        if not address:
            raise SettingsError(
                "no token endpoint is known for the service",
                hint="Set token_url under [auth] in petsync.toml.",
            )
        started = time.time()
        response = await self._post_form(address, credentials, {"grant_type": kind, **form})
        return read_credentials(response, credentials, started)

    async def _post_form(
        self, address: str, credentials: Credentials, form: Mapping[str, Secret | str | None]
    ) -> TokenResponse:
        endpoints = await self.endpoints()
        by_post = endpoints.by_post or credentials.grant.client_secret is None
        authorization = None if by_post else _basic(credentials)
        return await self._endpoint.post(
            address, _encode_form(credentials, form, by_post=by_post), authorization
        )

    async def _find_endpoints(self) -> Endpoints:
        configured = endpoints_from_config(self._auth, self._allow_http)
        if configured.authorize or configured.token:
            return configured
        failures: list[tuple[int, str]] = []
        for issuer, address in metadata_addresses(self._base_url, configured.issuer):
            check_endpoint(address, "the service's metadata", self._allow_http)
            response = await self._endpoint.get(address)
            if response.status == 200 and response.json is not None:
                return endpoints_from_metadata(response.json, issuer, configured, self._allow_http)
            if response.status in _TEMPORARY:
                failures.append((response.status, address))
        for status, address in failures:
            _check_status(status, address, is_change=False)
        raise _build_unknown_error(self._base_url)


def _encode_form(
    credentials: Credentials, form: Mapping[str, Secret | str | None], *, by_post: bool
) -> Secret:
    plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in form.items() if v}
    if by_post:
        plain["client_id"] = credentials.grant.client_id
        if credentials.grant.client_secret is not None:
            plain["client_secret"] = credentials.grant.client_secret.reveal()
    kind = plain.pop("grant_type", None)
    if kind is None:
        return Secret(urlencode(plain))
    # Imported here, because it takes long and only token requests need it.
    from oauthlib.oauth2.rfc6749.parameters import prepare_token_request

    return Secret(prepare_token_request(kind, **plain))


def _basic(credentials: Credentials) -> Secret:
    pair = credentials.grant.pair
    assert pair is not None
    return Secret(f"Basic {pair.reveal()}")


def _bearer_header(credentials: Credentials) -> Secret:
    assert credentials.token is not None
    return Secret(f"Bearer {credentials.token.reveal()}")


def _scope(scopes: frozenset[str] | None) -> str | None:
    return None if scopes is None else " ".join(sorted(scopes))


def _build_unknown_error(base_url: str) -> SettingsError:
    parts = urlsplit(base_url)
    return SettingsError(
        f"the service at {parts.netloc} provides no metadata with the addresses for a sign-in",
        hint="Name the addresses under [auth] in the petsync.toml that has this url "
        "(docs/sign-in.md), or use a token.",
    )
