"""The OAuth clients that the sandbox knows, and where they may be sent back to."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus, urlsplit

from petsync.sandbox.access import same

__all__ = ["PUBLIC_CLIENT", "Credentials", "is_registered", "who"]

PUBLIC_CLIENT = "petsync"
"""The client id of programs that cannot keep a secret: authorization code with PKCE only."""

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What opens the sandbox; whatever is not given is made up."""

    client_id: str = "sandbox"
    client_secret: str = field(repr=False, default_factory=lambda: secrets.token_urlsafe(24))
    api_key: str = field(repr=False, default_factory=lambda: f"special-{secrets.token_urlsafe(12)}")
    redirect_uris: tuple[str, ...] = ()


def who(
    authorization: str | None, form: Mapping[str, str], known: Credentials
) -> tuple[str, bool] | None:
    """The client that asks, and whether it proved to be it; None for an unknown or false one.

    Source: RFC 6749, section 2.3.1: HTTP Basic, or `client_id` and `client_secret` in the form.
    """
    if authorization is not None:
        client_id, secret = _basic(authorization)
    else:
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    if client_id == PUBLIC_CLIENT and not secret:
        return client_id, False
    if same(client_id, known.client_id) & same(secret, known.client_secret):
        return client_id, True
    return None


def is_registered(redirect_uri: str, known: Credentials) -> bool:
    """Whether a browser may be sent there: a registered address, or loopback at any port.

    Source: RFC 8252, section 7.3.
    """
    if redirect_uri in known.redirect_uris:
        return True
    try:
        parts = urlsplit(redirect_uri)
        port = parts.port
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and not (parts.fragment or parts.username or parts.password)
    return is_plain and parts.hostname in _LOOPBACK and port != 0 and _is_clean(redirect_uri)


def _is_clean(text: str) -> bool:
    return text.isascii() and text.isprintable() and not set(text) & set(" \"'<>\\;,")


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    client_id, colon, secret = text.partition(":")
    if scheme.lower() != "basic" or not colon:
        return "", ""
    return unquote_plus(client_id), unquote_plus(secret)
