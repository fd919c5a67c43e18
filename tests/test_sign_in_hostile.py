"""Signing in to services with wrong metadata or wrong responses of the token endpoint."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedServer, answer
from signing import credentials

import petsync as ps
from petsync.client.auth.oauth import Authority

pytestmark = pytest.mark.slow

SECRET = "client-secret-0123456789"
TOKEN = "access-token-0123456789"
CLIENT = "nightly"


class Service(ScriptedServer):
    """A service whose metadata and token endpoint send the responses that the test sets. `metadata`
    and `token` are responses, or None for no response.
    """

    def __init__(self) -> None:
        super().__init__(b"")
        self.metadata: bytes | None = None
        self.token: bytes | None = None
        self.pets = answer(200, b"[]", content_type="application/json")

    def _serve(self, handler: Any) -> bool:
        self._script = [self._reply]
        return super()._serve(handler)

    def _reply(self) -> bytes | None:
        first = self.requests[-1].partition("\r\n")[0]
        if "/.well-known/" in first:
            return self.metadata
        return self.token if "/token" in first else self.pets

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/v2")

    @property
    def default_metadata(self) -> dict[str, Any]:
        """Return valid metadata."""
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "response_types_supported": ["code"],
        }


def as_json(value: object, status: int = 200, **headers: str) -> bytes:
    return answer(status, json.dumps(value).encode(), content_type="application/json", **headers)


GRANTED = as_json({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as one:
        one.metadata, one.token = as_json(one.default_metadata), GRANTED
        yield one


@pytest.fixture
def store(service: Service, tmp_path: Path) -> Iterator[ps.Store]:
    with ps.connect(service.url, state=tmp_path, environ={}, timeout=5) as one:
        yield one


def sign_in(store: ps.Store) -> ps.types.Account:
    return store.sign_in(ps.auth.client_credentials(CLIENT, SECRET))


@contextmanager
def refused(kind: type[ps.errors.PetsyncError], message: str, service: Service) -> Iterator[None]:
    """Expect an error with a hint, without a secret, and with a short printable message."""
    with pytest.raises(kind, match=message) as failed:
        yield
    error = failed.value
    assert error.hint
    assert not {SECRET, TOKEN} & set(str(error).split())
    assert SECRET not in f"{error!r} {error.args}"
    assert len(error.message) < 500
    assert error.message.isprintable()


def test_a_good_service(service: Service, store: ps.Store) -> None:
    """A correct service signs in; the client secret goes into the header, and not into the address
    or the form.
    """
    account = sign_in(store)
    assert (account.signed_in, account.renews) == (True, True)
    (asked,) = [each for each in service.requests if each.startswith("POST")]
    assert "authorization: Basic " in asked
    assert SECRET not in asked


def test_by_post_where_only_that_is_offered(service: Service, store: ps.Store) -> None:
    """A service that accepts only client_secret_post gets id and secret in the form."""
    methods = ["client_secret_post"]
    service.metadata = as_json(
        {**service.default_metadata, "token_endpoint_auth_methods_supported": methods}
    )
    sign_in(store)
    (asked,) = [each for each in service.requests if each.startswith("POST")]
    assert f"client_secret={SECRET}" in asked
    assert "authorization:" not in asked


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (401, "invalid_client", "Correct or unset PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET."),
        (400, "invalid_client", "Correct or unset PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET."),
        (401, "", "Correct or unset PETSYNC_CLIENT_ID and PETSYNC_CLIENT_SECRET."),
        (400, "unauthorized_client", "Use another sign-in, or ask the operators of the service."),
    ],
)
def test_a_refused_client_has_one_way_out(
    service: Service, tmp_path: Path, status: int, code: str, hint: str
) -> None:
    """If the service gives no token to the client of the environment, the hint names the variables
    only if their values are wrong, and nothing else.
    """
    environ = {"PETSYNC_CLIENT_ID": CLIENT, "PETSYNC_CLIENT_SECRET": SECRET}
    service.token = as_json({"error": code}, status)
    with (
        ps.connect(service.url, state=tmp_path, environ=environ, timeout=5) as store,
        pytest.raises(ps.errors.AuthError, match="so there is no token") as failed,
    ):
        store.find_by_status("sold")
    assert failed.value.hint == hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"issuer": "https://evil.example"}, "is for another service"),
        ({"issuer": None}, "is for another service"),
        ({"issuer": ["x"]}, "is for another service"),
        ({"token_endpoint": "https://evil.example/token"}, "on another origin"),
        ({"token_endpoint": "http://127.0.0.1:1/token"}, "on another origin"),
        ({"token_endpoint": "//evil.example/token"}, "on another origin"),
        ({"token_endpoint": "/token"}, "on another origin"),
        ({"token_endpoint": "javascript:alert(1)"}, "on another origin"),
        ({"token_endpoint": 7}, "on another origin"),
        ({"token_endpoint": "http://[::1/token"}, "on another origin"),
        ({"revocation_endpoint": "https://evil.example/r"}, "on another origin"),
        ({"introspection_endpoint": "https://evil.example/i"}, "on another origin"),
        ({"authorization_endpoint": "https://evil.example/a"}, "on another origin"),
    ],
)
def test_metadata_that_point_elsewhere(
    service: Service, store: ps.Store, change: dict[str, object], message: str
) -> None:
    """Metadata of another issuer, or with an endpoint at another origin, are refused, and no secret
    is sent.
    """
    service.metadata = as_json({**service.default_metadata, **change})
    with refused(ps.errors.SettingsError, message, service):
        sign_in(store)
    assert not [each for each in service.requests if each.startswith("POST")]


@pytest.mark.parametrize("user", ["user:pw@", "user@"])
def test_metadata_with_a_user_in_an_address(service: Service, store: ps.Store, user: str) -> None:
    """An endpoint address that contains a user name is refused."""
    place = f"http://{user}{service.origin.removeprefix('http://')}/token"
    service.metadata = as_json({**service.default_metadata, "token_endpoint": place})
    with refused(ps.errors.SettingsError, "not a valid https address", service):
        sign_in(store)


@pytest.mark.parametrize(
    "metadata",
    [
        answer(404),
        answer(200, b"<html>hello</html>", content_type="text/html"),
        answer(200, b"[1]", content_type="application/json"),
        answer(200, b"\xff\xfe", content_type="application/json"),
        answer(200, b"[" * 100_000, content_type="application/json"),
        answer(302, location="https://evil.example/"),
        answer(401),
        answer(500),
    ],
)
def test_no_metadata(service: Service, store: ps.Store, metadata: bytes) -> None:
    """Without usable metadata, a sign-in raises an error with a hint; a token from the user still
    works.
    """
    service.metadata = metadata
    with refused(ps.errors.SettingsError, "provides no metadata", service):
        sign_in(store)
    with refused(ps.errors.SettingsError, "provides no metadata", service):
        store.begin_sign_in()
    assert store.sign_in(ps.auth.bearer(TOKEN)).signed_in
    assert not [each for each in service.requests if "evil" in each]


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (429, ps.errors.RateLimitedError, "got too many requests"),
        (502, ps.errors.ServiceError, "failed"),
        (503, ps.errors.ServiceError, "failed"),
        (504, ps.errors.ServiceError, "failed"),
    ],
)
def test_metadata_that_fail_for_a_time(
    service: Service,
    store: ps.Store,
    status: int,
    kind: type[ps.errors.ApiError],
    message: str,
) -> None:
    """A temporary failure of the metadata is reported as such, and sends no secret; a later attempt
    signs in.
    """
    good, service.metadata = service.metadata, answer(status)
    with refused(kind, message, service):
        store.begin_sign_in()
    with pytest.raises(kind) as failed:
        sign_in(store)
    assert not failed.value.may_have_happened
    assert not [each for each in service.requests if each.startswith("POST")]
    service.metadata = good
    assert sign_in(store).signed_in


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (answer(200, b"<html>", content_type="text/html"), ps.errors.ResponseError, "no JSON"),
        (answer(200, b""), ps.errors.ResponseError, "no JSON"),
        (as_json([]), ps.errors.ResponseError, "no JSON"),
        (as_json({}), ps.errors.ResponseError, "no token"),
        (as_json({"access_token": ""}), ps.errors.ResponseError, "no token"),
        (as_json({"access_token": 7}), ps.errors.ResponseError, "no token"),
        (as_json({"access_token": "a b"}), ps.errors.ResponseError, "no token"),
        (as_json({"access_token": "a\r\nX-Evil: 1"}), ps.errors.ResponseError, "no token"),
        (as_json({"access_token": "ü"}), ps.errors.ResponseError, "no token"),
        (
            as_json({"access_token": TOKEN, "token_type": "mac"}),
            ps.errors.ResponseError,
            "of the type mac",
        ),
        (answer(500, b"oops"), ps.errors.ServiceError, "failed"),
        (answer(503, b"<html>"), ps.errors.ServiceError, "failed"),
        (answer(429), ps.errors.RateLimitedError, "got too many requests"),
        (
            answer(302, location="https://evil.example/"),
            ps.errors.RedirectError,
            "and no secret is sent to another address",
        ),
        (
            answer(307, location="http://127.0.0.1:1/"),
            ps.errors.RedirectError,
            "and no secret is sent to another address",
        ),
        (answer(404), ps.errors.ResponseError, "no JSON"),
        (None, ps.errors.TransportError, "no complete response"),
        (answer(200, b"x" * 400_000), ps.errors.ResponseError, "it is too long"),
        (
            b"HTTP/1.1 200 x\r\ncontent-length: 50\r\n\r\n{",
            ps.errors.TransportError,
            "no complete response",
        ),
        (b"nonsense\r\n\r\n", ps.errors.TransportError, "no complete response"),
        (
            answer(200, gzip.compress(b"x" * 10_000_000), content_encoding="gzip"),
            ps.errors.ResponseError,
            "no JSON",
        ),
        (
            as_json({"error": "invalid_client"}, 401),
            ps.errors.AuthError,
            "does not recognise this client id",
        ),
        (as_json({"error": "invalid_scope"}, 400), ps.errors.AuthError, "permissions"),
        (
            as_json({"error": "unauthorized_client"}, 400),
            ps.errors.AuthError,
            "may not use this kind of sign-in",
        ),
        (as_json({"error": "unsupported_grant_type"}, 400), ps.errors.AuthError, "not offer"),
        (as_json({"error": "invalid_grant"}, 400), ps.errors.AuthError, "any more"),
        (as_json({"error": "server_error"}, 400), ps.errors.AuthError, "the service failed"),
        (
            as_json({"error": "new_in_2030"}, 400),
            ps.errors.AuthError,
            r"refused the request \(new_in_2030\)",
        ),
        (as_json({"error": ["x"]}, 400), ps.errors.AuthError, "refused the request"),
        (as_json({"message": "no"}, 403), ps.errors.AuthError, "refused the request"),
        (as_json({"access_token": TOKEN, "error": "both"}), ps.errors.AuthError, "both"),
        (
            as_json({"error": "x", "error_description": f"you sent {SECRET}\x1b[2J\u202e"}, 400),
            ps.errors.AuthError,
            r"you sent \*\*\*",
        ),
    ],
)
def test_token_endpoints(
    service: Service,
    store: ps.Store,
    reply: bytes | None,
    kind: type[ps.errors.PetsyncError],
    message: str,
) -> None:
    """Each wrong response of a token endpoint raises a specific error with a hint and no secret."""
    service.token = reply
    with refused(kind, message, service):
        sign_in(store)
    assert not credentials(store)
    assert not [each for each in service.requests if "evil" in each]


@pytest.mark.parametrize(
    ("life", "ends"),
    [
        (3600, True),
        (3600.5, True),
        ("3600", True),
        (0, True),
        (-5, True),
        (10**30, True),
        (None, False),
        ("soon", False),
        (True, False),
        ([1], False),
        ("nan", False),
        ("1e400", True),
    ],
)
def test_how_long_it_lasts(service: Service, store: ps.Store, life: object, ends: bool) -> None:
    """Any number is accepted as a lifetime, up to a century; other values count as none. Whatever
    its lifetime, the account can be shown, and requests reuse the token.
    """
    service.token = as_json({"access_token": TOKEN, "token_type": "bearer", "expires_in": life})
    account = sign_in(store)
    assert (account.expires is not None) == ends
    assert str(account)
    for _ in range(3):
        store.find_by_status("available")
    asked = [each for each in service.requests if each.startswith("POST")]
    assert len(asked) == 1


@pytest.mark.parametrize("scope", ["read:pets", "", None, 7, ["read:pets"]])
def test_scopes_that_are_reported(service: Service, store: ps.Store, scope: object) -> None:
    """The scopes in the response count; where it has none, the requested scopes count."""
    service.token = as_json({"access_token": TOKEN, "scope": scope})
    result = scope in ("read:pets", ["read:pets"])
    assert sign_in(store).can_write is not result


@pytest.mark.parametrize(
    "document",
    [
        as_json({"active": False}),
        as_json({"active": True, "username": 7, "exp": "x", "scope": 7, "sub": None}),
        as_json({"active": True, "exp": 10**400}),
        as_json({"active": True, "username": "x" * 10_000 + "\u202e\x1b"}),
        answer(500),
        answer(200, b"<html>"),
        None,
    ],
)
def test_introspection_that_says_nonsense(
    service: Service, store: ps.Store, document: bytes | None
) -> None:
    """A failed or invalid introspection response does not prevent a sign-in."""
    place = f"{service.origin}/token/introspect"
    service.metadata = as_json({**service.default_metadata, "introspection_endpoint": place})
    service.token = document
    account = store.sign_in(ps.auth.bearer(TOKEN))
    assert account.signed_in
    assert len(account.user) <= 200
    assert max(map(len, str(account).splitlines())) <= 80


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(500), ps.errors.ServiceError),
        (answer(429), ps.errors.RateLimitedError),
        (answer(302, location="https://evil.example/"), ps.errors.RedirectError),
        (None, ps.errors.TransportError),
    ],
)
def test_a_service_that_cannot_be_asked(
    service: Service, store: ps.Store, reply: bytes | None, kind: type[ps.errors.PetsyncError]
) -> None:
    """A token that cannot be checked is not used, and the service's error is raised."""
    service.pets = reply  # type: ignore[assignment]
    with pytest.raises(kind):
        store.sign_in(ps.auth.bearer(TOKEN))
    assert not credentials(store)


def test_a_slow_drip(service: Service, tmp_path: Path) -> None:
    """A token response that arrives byte by byte must be complete within the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = f"http://127.0.0.1:{listening.getsockname()[1]}/token"
        dripping = threading.Thread(target=_drip, args=[listening])
        dripping.start()
        auth = Authority(service.url, auth={"token_url": place}, timeout=0.5)
        with pytest.raises(ps.errors.TransportError, match="no complete response"):
            asyncio.run(auth.request_by_client(ps.auth.client_credentials(CLIENT, SECRET)))
        dripping.join(120)
        assert not dripping.is_alive()


def _drip(listening: socket.socket) -> None:
    """Send one byte every 20 ms until the client disconnects."""
    line, _ = listening.accept()
    with line, suppress(OSError):
        line.sendall(b"HTTP/1.1 200 x\r\ncontent-length: 100000\r\n\r\n")
        while True:
            line.sendall(b" ")
            time.sleep(0.02)
