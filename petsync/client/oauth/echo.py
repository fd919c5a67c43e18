"""Echo: what a request carried, taken out of what is said in answer to it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, quote_plus, unquote_plus

from petsync.client.oauth.said import Values
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
    sent = sorted(_texts(form, authorization), key=lambda each: -len(each.reveal()))
    return Values({n: v if n in _NEW else _masked(n, v, sent) for n, v in said.items()})


def _masked(name: str, value: object, sent: list[Secret]) -> object:
    if isinstance(value, list):
        return [_masked(name, each, sent) for each in value]
    if not isinstance(value, str):
        return value
    for each in sent:
        if name in _WORDS or len(each.reveal()) >= _LONG:
            value = re.sub(re.escape(each.reveal()), "***", value, flags=re.IGNORECASE)
    return value


def _texts(form: Secret, authorization: Secret | None) -> set[Secret]:
    """Every secret text of the request, as it is and as it may be quoted."""
    plain = {Secret(v) for n, v in parse_qsl(form.reveal()) if n not in _KNOWN}
    if authorization is not None:
        plain |= set(_parts(authorization))
    found = (form for each in plain for form in _forms(each))
    return {each for each in found if each.reveal()}


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


def _forms(secret: Secret) -> Iterator[Secret]:
    text = secret.reveal()
    yield from map(Secret, (text, text.rstrip("="), quote(text), quote(text, ""), quote_plus(text)))
