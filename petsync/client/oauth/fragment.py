"""The token that an implicit sign-in brings behind the `#` of an address.

Source: RFC 6749, section 4.2.2.
"""

from __future__ import annotations

import time

from petsync.client.credentials import Credentials, checked_token
from petsync.client.grant import Grant
from petsync.client.oauth import answer, returned
from petsync.client.oauth.returned import Returned
from petsync.client.oauth.said import Values
from petsync.errors import AuthError, SettingsError
from petsync.settings import Secret

__all__ = ["from_fragment", "token_in"]


def from_fragment(back: Returned, wanted: Credentials) -> Credentials:
    """The credentials with the token that came back. Raises AuthError where none did."""
    if back.get("error") is not None:
        raise answer.refusal(back.plain(), wanted).error()
    if back.get("access_token") is None:
        raise AuthError(
            "sign-in: the address holds no token",
            hint="Copy the whole address, with what stands behind #.",
        )
    return answer.granted(Values(back.revealed()), wanted, time.time())


def token_in(text: Secret, state: Secret | None, key: Secret | None) -> Credentials:
    """The credentials with the token in the text. Raises SettingsError, AuthError."""
    back = returned.read(text)
    wanted = Credentials(key=key, grant=Grant(kind="implicit"))
    if back.bare is not None:
        return Credentials(checked_token(back.bare), key, grant=wanted.grant)
    if back.get("state") is not None and state is None:
        raise SettingsError(
            "the address names the sign-in that it belongs to, and nothing says that it is yours",
            hint="Give the state that you sent, or use store.begin_sign_in(implicit=True).",
        )
    if state is not None and not back.is_from(state):
        raise AuthError(
            "sign-in: this answer belongs to another sign-in, so it was not used",
            hint="Begin again, and copy the address that the browser ends on.",
        )
    return from_fragment(back, wanted)
