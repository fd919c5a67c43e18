"""Functions that return credentials: `bearer`, `client_credentials`, `implicit`, `api_key`,
`from_file`, `none`. The credentials are masked wherever they are shown.

No variable has a plain secret where an error is raised, because a verbose traceback shows
variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from petsync.client.auth.credentials import (
    Credentials,
    Grant,
    Renew,
    checked_token,
    header_safe,
    require_secret,
)
from petsync.errors import SettingsError
from petsync.models import READ, WRITE
from petsync.settings import Secret, as_secret, read_file

__all__ = [
    "Credentials",
    "Renew",
    "api_key",
    "bearer",
    "client_credentials",
    "from_file",
    "implicit",
    "none",
]


Given = str | Secret


def bearer(
    token: Given, *, api_key: Given | None = None, renew: Renew | None = None
) -> Credentials:
    """Return credentials with an access token for `petstore_auth`, and with the API key, if given.

    `renew` takes no arguments and returns a new token, or an awaitable that returns one. After a
    401, petsync calls it and sends the request again with the new token. Concurrent requests share
    one call.
    """
    token, api_key = as_secret(token), as_secret(api_key)
    if renew is not None and not callable(renew):
        raise SettingsError(
            f"renew is {type(renew).__name__}, not a function that returns a new token",
            hint="For example renew=lambda: log_in(user, password).",
        )
    return Credentials(checked_token(token), _check_key(api_key), renew)


def client_credentials(
    client_id: str,
    client_secret: Given,
    *,
    scopes: str | Iterable[str] | None = (READ, WRITE),
    api_key: Given | None = None,
) -> Credentials:
    """Return credentials with a client's id and secret, for programs that run without a user.

    petsync requests a token before the first request, and a new one before it expires. If `scopes`
    is None, the service chooses the scopes.
    """
    client_secret, api_key = as_secret(client_secret), as_secret(api_key)
    client_id = client_id.strip() if isinstance(client_id, str) else ""
    if not client_id or not client_id.isprintable():
        raise SettingsError(
            "the client id is empty or not printable text",
            hint="It is the id under which your program is registered with the service.",
        )
    requested = scopes.split() if isinstance(scopes, str) else scopes
    grant = Grant(
        kind="client credentials",
        client_id=client_id,
        client_secret=require_secret(client_secret, "the client secret"),
        scopes=None if requested is None else frozenset(requested),
    )
    return Credentials(None, _check_key(api_key), grant=grant)


def implicit(
    text: Given, *, state: Given | None = None, api_key: Given | None = None
) -> Credentials:
    """Return credentials with the token in `text`, which is the final address of an implicit
    sign-in (with the token after `#`) or only the token.

    `state` is the state that the sign-in sent. An address must contain this state, or none if
    `state` is None. `store.begin_sign_in(implicit=True)` does the whole sign-in instead.
    """
    text, state, api_key = as_secret(text), as_secret(state), as_secret(api_key)
    from petsync.client.auth.browser import token_in

    pasted = require_secret(text, "the pasted text")
    return token_in(
        pasted, None if state is None else require_secret(state, "state"), _check_key(api_key)
    )


def from_file(path: str | Path, *, api_key: Given | None = None) -> Credentials:
    """Return credentials with the access token in the file. petsync reads the file again after a
    401, so another program can renew the token. Raises SettingsError if the file has no token.
    """
    api_key = as_secret(api_key)
    file = Path(path)
    grant = Grant(kept="file")
    return Credentials(
        _read_token(file), _check_key(api_key), lambda: _read_token(file), grant=grant
    )


def api_key(key: Given) -> Credentials:
    """Return credentials with only the API key, enough for getPetById."""
    key = as_secret(key)
    return Credentials(None, header_safe(key, "the API key"), grant=Grant(kind="api key"))


def none() -> Credentials:
    """Return empty credentials, for requests without a token or API key."""
    return Credentials(grant=Grant(kind="none"))


def _check_key(key: object) -> Secret | None:
    return None if key is None else header_safe(key, "the API key")


def _read_token(file: Path) -> Secret:
    try:
        return checked_token(Secret(read_file(file)), f"the token in {file}")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
    raise SettingsError(
        f"the token file {file} cannot be read: {why}",
        hint="Check the path: the file must contain the access token and nothing else.",
    )


def __dir__() -> list[str]:
    return sorted(__all__)
