"""Echo: what a request carried, taken out of what is said in answer to it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote_plus

from petsync.client.oauth.said import Values
from petsync.redact import Redactor
from petsync.settings import Secret

__all__ = ["without_echo"]

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
        {
            n: v if n in _NEW else _masked(v, words if n in _WORDS else others)
            for n, v in said.items()
        }
    )


def _masked(value: object, redactor: Redactor) -> object:
    if isinstance(value, list):
        return [_masked(each, redactor) for each in value]
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
