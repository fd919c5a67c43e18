"""Returned: what a browser brings back from the sign-in, in its address or as somebody pasted it.

Source: RFC 6749, sections 4.1.2 and 4.2.2; RFC 9207 for `iss`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from petsync.client.oauth.places import Places
from petsync.errors import AuthError, SettingsError
from petsync.settings import Secret

__all__ = ["Returned", "read", "same"]

_LONGEST = 64 * 1024
_MOST = 40
_WHOLE = "Copy the whole address from the browser's address bar, after you chose Allow."


@dataclass(frozen=True, slots=True)
class Returned:
    """The parameters; or `bare`, a text that has none. Shows none of it."""

    values: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    bare: Secret | None = field(default=None, repr=False)

    def get(self, name: str) -> Secret | None:
        """One parameter."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """One that is no secret."""
        value = self.values.get(name)
        return "" if value is None else value.reveal()

    def revealed(self) -> Iterator[tuple[str, str]]:
        """All of it."""
        return ((name, value.reveal()) for name, value in self.values.items())

    def plain(self) -> dict[str, str]:
        """The parameters that are no secrets, and tell what the service decided."""
        names = ("error", "error_description", "scope", "expires_in", "token_type")
        return {name: self.text(name) for name in names if name in self.values}

    def is_from(self, state: Secret) -> bool:
        """Whether it answers the question that was asked with this state."""
        given = self.get("state")
        return given is not None and same(given, state)

    def check_issuer(self, places: Places) -> None:
        """Return if nothing says that another service answers. Raises AuthError."""
        given = self.text("iss")
        if not given and not places.says_iss:
            return
        expected = places.issuer or _origin(places.authorize)
        if given not in (expected, places.issuer):
            raise AuthError(
                "sign-in: the answer does not come from the service that was asked",
                hint="Nothing was sent to it. Open the present address, and copy what it ends on.",
            )


def read(pasted: Secret) -> Returned:
    """What is in an address, in what stands behind its `?` or `#`, or a bare text.

    Raises SettingsError for what cannot be that, and does not show it.
    """
    pairs = _pairs(pasted)
    if pairs is None:
        raise SettingsError("what was pasted is no address that ends a sign-in", hint=_WHOLE)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise SettingsError("the address says something twice, so it is not used", hint=_WHOLE)
    return Returned(dict(pairs)) if pairs else Returned(bare=_stripped(pasted))


def same(given: Secret, kept: Secret) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of either."""
    return hmac.compare_digest(given.reveal().encode(), kept.reveal().encode())


def _pairs(pasted: Secret) -> list[tuple[str, Secret]] | None:
    """None for what is empty or too much."""
    text = _stripped(pasted).reveal()
    if not text or len(text) > _LONGEST:
        return None
    try:
        return [
            (name, Secret(value))
            for part in _parts(text)
            for name, value in parse_qsl(part, keep_blank_values=True, max_num_fields=_MOST)
        ]
    except ValueError:
        return None


def _parts(text: str) -> Iterator[str]:
    if "://" in text or text[:1] in "?#/":
        parts = urlsplit(text)
        yield from (parts.query, parts.fragment)
    elif "=" in text.rstrip("="):
        # A bare token may end in =, as base64 does.
        yield text


def _stripped(pasted: Secret) -> Secret:
    """Without what comes along when one copies, and the line breaks of a terminal."""
    text = "".join(pasted.reveal().split("\n")).replace("\r", "").replace("\t", "")
    return Secret(text.strip().strip("<>\"'` ").strip())


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
