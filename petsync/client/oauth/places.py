"""Places: where one signs in to a service, as petsync.toml or the service's metadata says.

Source: RFC 8414 for the metadata, RFC 9700, section 4, for what must not be believed of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from petsync.client.origin import is_loopback
from petsync.errors import SettingsError

__all__ = ["CLIENT", "Places", "candidates", "checked_place", "configured", "discovered"]

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
class Places:
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


def configured(auth: Mapping[str, str], allow_http: Collection[str]) -> Places:
    """The places that `[auth]` names. Raises SettingsError for an address that cannot be used."""
    found: dict[str, Any] = {
        n: _given(auth, f"{n}_url", allow_http) for n in (*_FIELDS, "redirect")
    }
    issuer = auth.get("issuer", "")
    if issuer:
        checked_place(issuer, "[auth] issuer", allow_http)
    return Places(issuer=issuer, client_id=auth.get("client_id", CLIENT), **found)


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


def discovered(metadata: object, issuer: str, known: Places, allow_http: Collection[str]) -> Places:
    """What the metadata says of the issuer. Raises SettingsError where it speaks of another, or
    points to another origin: a secret would be sent there on this service's word alone.
    """
    if not isinstance(metadata, dict):
        raise _distrusted(issuer, "is no object")
    said = metadata.get("issuer")
    if not isinstance(said, str) or not _same_place(said, issuer):
        raise _distrusted(issuer, "speaks for another service")
    found: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = metadata.get(field)
        if value is None:
            continue
        if not isinstance(value, str) or not _same_origin(value, issuer):
            raise _distrusted(issuer, f"points to another place ({field})")
        found[name] = _at(checked_place(value, f"the {field} of the service", allow_http), issuer)
    methods = _names(metadata, "token_endpoint_auth_methods_supported")
    return Places(
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
            hint=f"Use https, or allow this host by name: --allow-http {host}.",
        )
    return url


def _given(auth: Mapping[str, str], name: str, allow_http: Collection[str]) -> str:
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


def _distrusted(issuer: str, why: str) -> SettingsError:
    return SettingsError(
        f"what {issuer} says of how to sign in {why}, so petsync does not go there",
        hint="If it is right, name the addresses under [auth] in petsync.toml.",
    )
