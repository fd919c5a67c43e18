"""OAuth 2.0: endpoints and metadata of an authority, token requests, and their responses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote_plus, urlencode, urlsplit

import httpx
import msgspec

from petsync._version import __version__
from petsync.client.auth.credentials import Credentials, Grant
from petsync.client.origin import is_loopback
from petsync.client.transport import UNTRUSTED, proxy_for, ssl_context, tls_reason
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


# Values of a response, which may be secret: their repr shows only the names.


class Values(dict[str, Any]):
    """Names and values; a verbose traceback shows only the names."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """A response: its status, and its JSON object; None if it has none."""

    status: int
    json: Values | None


# Responses of the token endpoint: a token with its terms, or an error.
#
# Source: RFC 6749, sections 5.1 and 5.2.


_CENTURY_S = 100 * 365.25 * 24 * 3600
_REFUSALS = {
    "invalid_client": (
        "the service does not recognise this client id, or its secret is wrong",
        "Check the client id and the secret with the people who gave them to you.",
    ),
    "invalid_grant": (
        "the service does not accept this sign-in any more",
        "Sign in again; the code from a sign-in can be used only once, and only for a short time.",
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
    """An error code of the protocol, and the service's description."""

    code: str
    description: str = ""

    def error(self, status: int | None = None) -> AuthError:
        """Return the error for the user."""
        why, hint = _REFUSALS.get(self.code, _OTHER_REFUSAL)
        code = _one_line(self.code, 40)
        details = (
            f" ({code}: {self.description})" if self.description else f" ({code})" if code else ""
        )
        return AuthError(f"sign-in: {why}{details}", status=status, service_message=code, hint=hint)


def parse_refusal(values: Mapping[str, Any], secrets: Credentials) -> OAuthProblem:
    """Return the error in a response, without secrets that it repeats."""
    description = secrets.mask(_text(values, "error_description"))
    return OAuthProblem(secrets.mask(_text(values, "error")), _one_line(description, 200))


def read_credentials(response: TokenResponse, requested: Credentials, now: float) -> Credentials:
    """Return the credentials in a response; missing terms are those of `requested`.

    Raises AuthError for a refusal, ResponseError for any other response.
    """
    if response.json is None:
        raise _build_unusable_error(f"it contains no JSON object ({response.status})")
    if "error" in response.json or response.status >= 400:
        raise parse_refusal(response.json, requested).error(response.status)
    return parse_credentials(response.json, requested, now)


def parse_credentials(values: Mapping[str, Any], requested: Credentials, now: float) -> Credentials:
    """Return the credentials with the token in the values. Raises ResponseError."""
    token = _secret(values, "access_token")
    if token is None:
        raise _build_unusable_error("it contains no token")
    kind = requested.mask(_text(values, "token_type")) or "bearer"
    if kind.lower() != "bearer":
        raise _build_unusable_error(f"it contains a token of the type {_one_line(kind, 40)}")
    return requested.with_grant(token, _parse_terms(values, requested.grant, now))


def parse_scopes(values: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the scopes in the values; None if there are none."""
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
    """Return the token, if it is valid in a header; None otherwise."""
    text = values.get(name)
    fits = isinstance(text, str) and text and all("!" <= each <= "~" for each in text)
    return Secret(str(text)) if fits else None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _one_line(text: str, max_length: int) -> str:
    """Return the service's text as one line, without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def _build_unusable_error(why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: the response of the service cannot be used: {why}",
        hint="If petsync.toml names addresses under [auth], check them; otherwise, ask the "
        "operators of the service.",
    )


# Endpoints: the addresses for a sign-in, from petsync.toml or the service's metadata.
#
# Source: RFC 8414 for the metadata; RFC 9700, section 4, for what must be checked.


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
    """The addresses of the endpoints; "" for an endpoint that the service does not offer."""

    issuer: str = ""
    """The service's identifier."""
    authorize: str = ""
    token: str = ""
    revoke: str = ""
    introspect: str = ""
    client_id: str = CLIENT
    redirect: str = ""
    says_iss: bool = False
    """Whether the redirects contain the service's identifier (`iss`)."""
    by_post: bool = False
    flows: frozenset[str] | None = None
    """The response types that the service offers; None if unknown."""


def endpoints_from_config(auth: Mapping[str, str], allow_http: Collection[str]) -> Endpoints:
    """Return the endpoints that `[auth]` names. Raises SettingsError for an invalid address."""
    found: dict[str, Any] = {
        n: _read_url(auth, f"{n}_url", allow_http) for n in (*_FIELDS, "redirect")
    }
    issuer = auth.get("issuer", "")
    if issuer:
        check_endpoint(issuer, "[auth] issuer", allow_http)
    return Endpoints(issuer=issuer, client_id=auth.get("client_id", CLIENT), **found)


def metadata_addresses(base_url: str, issuer: str) -> Iterator[tuple[str, str]]:
    """Yield possible issuers for the base URL, each with the address of its metadata."""
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
    """Return the endpoints in the issuer's metadata. Raises SettingsError if the metadata belongs
    to another issuer or names another origin: metadata alone must not cause a secret to be sent
    there.
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
            raise _metadata_error(issuer, f"names another origin ({field})")
        found[name] = _with_asked_host(
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
    """Return the address if secrets may be sent there. Raises SettingsError."""
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
            f"{what} is not an address that starts with https://",
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
    return check_endpoint(url, f"[auth] {name}", allow_http) if url else ""


def _well_known(parts: SplitResult, path: str) -> str:
    name = "/.well-known/oauth-authorization-server"
    return f"{parts.scheme}://{parts.netloc}{name}{path}"


def _same_address(url: str, other: str) -> bool:
    """Return true if both addresses are the same; all names of this machine count as one."""
    return _same_origin(url, other) and (
        urlsplit(url).path.rstrip("/") == urlsplit(other).path.rstrip("/")
    )


def _with_asked_host(url: str, issuer: str) -> str:
    """Return the address with the issuer's host instead of another name of this machine, where
    another program may listen.
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
        hint="If it is right, name the addresses under [auth] in petsync.toml.",
    )


# Echo: remove the secrets of a request from the response.


_PUBLIC = frozenset({"grant_type", "client_id", "redirect_uri", "scope", "token_type_hint"})
_ISSUED = frozenset({"access_token", "refresh_token"})
_MESSAGES = frozenset({"error", "error_description"})
_MIN_SECRET = 8
"""The minimum length of a secret that is removed everywhere. A shorter one may be part of ordinary
words, and is removed only from the error texts.
"""


def without_echo(values: Values, form: Secret, authorization: Secret | None) -> Values:
    """Return the response without secrets of the request, in any encoding; issued tokens stay."""
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
    """Return every secret in the request."""
    plain = [Secret(v) for n, v in parse_qsl(form.reveal()) if n not in _PUBLIC]
    if authorization is not None:
        plain += _parts(authorization)
    return [each for each in plain if each]


def _parts(authorization: Secret) -> Iterator[Secret]:
    """Yield the value of the header after its scheme, and the secret in it."""
    token = Secret(authorization.reveal().partition(" ")[2])
    yield token
    try:
        pair = Secret(base64.b64decode(token.reveal(), validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return
    if ":" in pair.reveal():
        secret = Secret(pair.reveal().partition(":")[2])
        yield from (secret, Secret(unquote_plus(secret.reveal())))


# TokenEndpoint: one request to the authorization server and its response, with limits on time and
# size.
#
# No stack frame that an error passes through has a plain secret as a local variable: a verbose
# traceback shows variables. Errors of httpx are dropped with their frames.


log = logging.getLogger(__name__)
_MAX_RESPONSE_BYTES = 256 * 1024
_AGENT = f"petsync/{__version__}"
_FORM = "application/x-www-form-urlencoded"
Transport = Callable[[], httpx.AsyncBaseTransport]


class TokenEndpoint:
    """Sends single requests to an authorization server. `timeout` (seconds) is for a complete
    response.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    async def get(self, url: str) -> TokenResponse:
        """Return the response to a GET without credentials. `may_have_happened` of its errors is
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
        """Return the response to an encoded form, without secrets that it repeats. Raises ApiError
        if there is no usable response.
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
        """Send the request; return errors instead of raising them, so that their frames are
        dropped.
        """
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
            return _build_unreachable_error(url, may_have_happened=False, why=tls_reason(error))
        except (httpx.HTTPError, OSError, TimeoutError):
            return _build_unreachable_error(url, may_have_happened=True)
        except _TooMuchError:
            return _build_unreadable_error(url, "it is too long")

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
            async with client.stream(method, url, headers=headers, content=body) as response:
                content = bytearray()
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > _MAX_RESPONSE_BYTES:
                        raise _TooMuchError
                return TokenResponse(response.status_code, _parse_object(response, bytes(content)))

    def _client(self, url: str) -> httpx.AsyncClient:
        """Return a client that uses the environment's proxy, unless the address is on this
        machine.
        """
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


def _parse_object(response: httpx.Response, content: bytes) -> Values | None:
    if response.headers.get("content-encoding", "identity") != "identity":
        return None
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Values(found) if isinstance(found, dict) else None


def _check_status(status: int, url: str, *, is_change: bool = True) -> None:
    where = _describe_address(url)
    if 300 <= status < 400:
        raise RedirectError(
            f"sign-in: {where} redirects ({status}), and no secret is sent to other addresses",
            status=status,
            hint="If the address has moved, name the new one under [auth] in petsync.toml.",
        )
    if status == 429:
        raise RateLimitedError(
            f"sign-in: {where} asks for a pause (429)", status=429, hint="Try again in a minute."
        )
    if status >= 500:
        raise ServiceError(
            f"sign-in: {where} failed ({status})",
            status=status,
            may_have_happened=is_change,
            hint="Try again in a moment; if it persists, ask the operators of the service.",
        )


def _build_unreachable_error(url: str, *, may_have_happened: bool, why: str = "") -> TransportError:
    what = "gave no complete response" if may_have_happened else "cannot be reached"
    return TransportError(
        f"sign-in: {_describe_address(url)} {what}{f' ({why})' if why else ''}",
        may_have_happened=may_have_happened,
        hint=UNTRUSTED if why else "Is the address right, and the service up? Then try again.",
    )


def _build_unreadable_error(url: str, why: str) -> ResponseError:
    return ResponseError(
        f"sign-in: {_describe_address(url)} sends a response that cannot be read: {why}",
        hint="Is this the right address? petsync.toml can name another one under [auth].",
    )


def _describe_address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


# Authority: the part of a service that issues, renews and revokes tokens.
#
# Source: RFC 6749, RFC 7009 (revocation), RFC 7662 (introspection), RFC 7636 (PKCE).


_RETRY_WAITS_S = (0.3, 1.0)
_TEMPORARY = frozenset({429, 502, 503, 504})
"""The statuses that do not show whether a service has metadata. A service without metadata may
answer 500.
"""


class Authority:
    """The authorization server of the service at `base_url`. It stores no token.

    `auth` is `[auth]` of petsync.toml: if it names authorize_url or token_url, the metadata is not
    used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Mapping[str, str] | None = None,
        allow_http: Collection[str] = (),
        timeout: float = 30.0,
    ) -> None:
        self._base_url, self._allow_http = base_url, tuple(allow_http)
        self._auth = dict(auth or {})
        self._endpoint = TokenEndpoint(timeout)
        self._endpoints: Endpoints | None = None

    @property
    def client_id(self) -> str:
        """The client id at the service."""
        return self._auth.get("client_id", CLIENT)

    async def endpoints(self) -> Endpoints:
        """Return the endpoints, which are looked up once. Raises SettingsError if they cannot be
        found, and ApiError if the service does not respond.
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
        """Get the token for an authorization code."""
        return await self._request_token(
            credentials,
            "authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=redirect,
        )

    async def request_by_refresh(self, credentials: Credentials) -> Credentials:
        """Get new tokens with a refresh token, which may be valid only once."""
        return await self._request_token(
            credentials, "refresh_token", refresh_token=credentials.grant.refresh
        )

    async def renew(self, credentials: Credentials) -> Credentials:
        """Get a new token with the refresh token or the client's secret. Only requests that were
        certainly not processed are repeated: a refresh token that is sent twice ends the sign-in.
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
        """Return the service's claims about the token; None if it has no introspection, or refuses
        the request.
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
        """End the sign-in; return whether the service has ended it. Raises ApiError."""
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
    """Return the encoded form; oauthlib encodes forms that have a grant type."""
    plain = {n: v.reveal() if isinstance(v, Secret) else v for n, v in form.items() if v}
    if by_post:
        plain["client_id"] = credentials.grant.client_id
        if credentials.grant.client_secret is not None:
            plain["client_secret"] = credentials.grant.client_secret.reveal()
    kind = plain.pop("grant_type", None)
    if kind is None:
        return Secret(urlencode(plain))
    # oauthlib is loaded when a token is requested.
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
        f"the service at {parts.netloc} provides no metadata with the addresses for signing in",
        hint="Name the addresses under [auth] in the petsync.toml that has this url "
        "(docs/sign-in.md), or give a token.",
    )
