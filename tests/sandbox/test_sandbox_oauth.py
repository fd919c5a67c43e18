"""The OAuth flows of petstore_auth, by HTTP requests to a running sandbox."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.sandbox.tokens import PUBLIC_CLIENT, AuthorizationRequest, Codes

BACK = "http://127.0.0.1:45678/back"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(pets=[Pet(id=1, name="x")], redirect_uris=["https://shop.example/back"]) as one:
        yield one


@pytest.fixture
def web(sandbox: Sandbox) -> Iterator[httpx.Client]:
    """Yield a browser without cookies of another test."""
    with httpx.Client(base_url=sandbox.url.removesuffix("/v2")) as client:
        yield client


def pair() -> tuple[str, str]:
    """Return a PKCE verifier and its S256 challenge."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).decode().rstrip("=")


def question(challenge: str, **other: str | None) -> dict[str, str]:
    """Return the parameters of an authorization request."""
    given = {
        "response_type": "code",
        "client_id": PUBLIC_CLIENT,
        "redirect_uri": BACK,
        "scope": "read:pets",
        "state": "s <&> ü",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        **other,
    }
    return {name: text for name, text in given.items() if text is not None}


def key_in(page: httpx.Response) -> str:
    found = re.search(r'name="question" value="([^"]+)"', page.text)
    assert found
    return found.group(1)


def allowed(web: httpx.Client, challenge: str, **other: str | None) -> dict[str, str]:
    """Allow access as the user, and return the parameters of the redirect to the client."""
    page = web.get("/oauth/authorize", params=question(challenge, **other))
    form = {"question": key_in(page), "answer": "allow"}
    return read_redirect(web.post("/oauth/authorize", data=form))


def read_redirect(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 303
    query = parse_qs(urlsplit(answer.headers["location"]).query, strict_parsing=True)
    return {name: values[0] for name, values in query.items()}


def redeem(web: httpx.Client, code: str, verifier: str, **other: str) -> httpx.Response:
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier}
    base = {"client_id": PUBLIC_CLIENT, "redirect_uri": BACK}
    return web.post("/oauth/token", data={**form, **base, **other})


def refresh(web: httpx.Client, token: str, **other: str) -> httpx.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": PUBLIC_CLIENT}
    return web.post("/oauth/token", data={**form, **other})


def opens(sandbox: Sandbox, token: str) -> int:
    """Return the status of a read request with this token."""
    return httpx.get(
        f"{sandbox.url}/pet/1", headers={"authorization": f"Bearer {token}"}
    ).status_code


def test_metadata_names_what_is_there(web):
    """The addresses in the metadata respond, and S256 is the only challenge method."""
    found = web.get("/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == str(web.base_url).rstrip("/")
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert web.post(found["token_endpoint"], data={"grant_type": "x"}).status_code == 401
    assert web.post(found["revocation_endpoint"], data={"token": "x"}).status_code == 401
    assert web.get(found["authorization_endpoint"]).status_code == 400


@pytest.mark.parametrize("how", ["basic", "post"])
def test_client_credentials(sandbox, web, how):
    """The client gets a token for its secret by HTTP Basic and by form, and no refresh token."""
    form = {"grant_type": "client_credentials", "scope": "read:pets"}
    names = (sandbox.client_id, sandbox.client_secret)
    if how == "basic":
        answer = web.post("/oauth/token", data=form, auth=names)
    else:
        form |= {"client_id": names[0], "client_secret": names[1]}
        answer = web.post("/oauth/token", data=form)
    issued = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert (issued["token_type"], issued["scope"], issued["expires_in"]) == (
        "Bearer",
        "read:pets",
        3600,
    )
    assert "refresh_token" not in issued
    assert opens(sandbox, issued["access_token"]) == 200


@pytest.mark.parametrize(
    ("form", "error", "status"),
    [
        ({"grant_type": "client_credentials", "client_secret": "wrong"}, "invalid_client", 401),
        ({"grant_type": "client_credentials", "client_id": "who"}, "invalid_client", 401),
        ({"grant_type": "client_credentials", "scope": "all"}, "invalid_scope", 400),
        ({"grant_type": "password"}, "unsupported_grant_type", 400),
        ({}, "unsupported_grant_type", 400),
        (
            {"grant_type": "refresh_token", "refresh_token": "x", "scope": "all"},
            "invalid_scope",
            400,
        ),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant", 400),
        ({"grant_type": "authorization_code", "code": "x"}, "invalid_grant", 400),
    ],
)
def test_token_errors(sandbox, web, form, error, status):
    """A request that cannot be granted gets the OAuth error as JSON."""
    known = {"client_id": sandbox.client_id, "client_secret": sandbox.client_secret}
    answer = web.post("/oauth/token", data={**known, **form})
    assert (answer.status_code, answer.json()["error"]) == (status, error)


def test_a_wrong_basic_secret_is_challenged(web):
    """A wrong secret by HTTP Basic is 401 with a Basic challenge."""
    answer = web.post("/oauth/token", data={"grant_type": "x"}, auth=("sandbox", "wrong"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_a_public_client_has_no_credentials_grant(web):
    """A client without a secret gets no token for itself."""
    form = {"grant_type": "client_credentials", "client_id": PUBLIC_CLIENT}
    assert web.post("/oauth/token", data=form).json()["error"] == "unauthorized_client"


def test_authorization_code(sandbox, web):
    """An allowed authorization code is exchanged with its verifier for a token, and the state is
    returned unchanged.
    """
    verifier, challenge = pair()
    back = allowed(web, challenge)
    assert back["state"] == "s <&> ü"
    assert back["iss"] == str(web.base_url).rstrip("/")
    issued = redeem(web, back["code"], verifier).json()
    assert issued["scope"] == "read:pets"
    assert opens(sandbox, issued["access_token"]) == 200


def test_denied(web):
    """A user who refuses is redirected to the client with access_denied."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    back = read_redirect(
        web.post("/oauth/authorize", data={"question": key_in(page), "answer": "deny"})
    )
    assert (back["error"], back["state"]) == ("access_denied", "s <&> ü")
    assert "code" not in back


@pytest.mark.parametrize(
    "wrong",
    [
        {"code_verifier": "v" * 43},
        {"code_verifier": ""},
        {"redirect_uri": "http://127.0.0.1:45679/back"},
    ],
)
def test_code_for_somebody_else(web, wrong):
    """A code with a wrong verifier or redirect URI is refused, and cannot be used afterwards."""
    verifier, challenge = pair()
    code = allowed(web, challenge)["code"]
    assert redeem(web, code, verifier, **wrong).json()["error"] == "invalid_grant"
    assert redeem(web, code, verifier).status_code == 400


def test_a_code_that_comes_twice_ends_its_tokens(sandbox, web):
    """A code that is used twice may be stolen, so its tokens are revoked."""
    verifier, challenge = pair()
    code = allowed(web, challenge)["code"]
    token = redeem(web, code, verifier).json()["access_token"]
    assert redeem(web, code, verifier).status_code == 400
    assert opens(sandbox, token) == 401


def test_used_codes_do_not_pile_up():
    """Only the last 1,000 used codes are remembered."""
    codes = Codes()
    request = AuthorizationRequest(PUBLIC_CLIENT, BACK, frozenset(), None, "")
    texts = [codes.grant(request) for _ in range(2)]
    for text in texts:
        assert codes.redeem(text) is not None
    for _ in range(999):
        assert codes.redeem(codes.grant(request)) is not None
    assert [codes.replayed_family(text) is not None for text in texts] == [False, True]


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.example/back",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "http://evil.example#@127.0.0.1/",
        "http://127.0.0.1:80;x/",
        "http://127.0.0.1/#fragment",
        "http://127.0.0.1/ space",
        "http://[::1",
        "javascript:alert(1)",
        "",
        None,
    ],
)
def test_wrong_redirect_uri(web, redirect_uri):
    """An unregistered redirect URI gets an error page, not a redirect."""
    page = web.get("/oauth/authorize", params=question(pair()[1], redirect_uri=redirect_uri))
    assert page.status_code == 400
    assert "location" not in page.headers


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "http://localhost:1/x",
        "http://[::1]:9/x?a=b",
        "http://127.0.0.1/x",
        "https://shop.example/back",
    ],
)
def test_right_redirect_uri(web, redirect_uri):
    """Loopback addresses with any port and the registered address are valid; their query is
    kept.
    """
    verifier, challenge = pair()
    page = web.get("/oauth/authorize", params=question(challenge, redirect_uri=redirect_uri))
    answer = web.post("/oauth/authorize", data={"question": key_in(page), "answer": "allow"})
    assert answer.headers["location"].startswith(redirect_uri)
    code = read_redirect(answer)["code"]
    assert redeem(web, code, verifier, redirect_uri=redirect_uri).status_code == 200


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "all"}, "invalid_scope"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
    ],
)
def test_wrong_question(web, wrong, error):
    """Each other error is returned to the client's redirect URI with the state."""
    back = read_redirect(web.get("/oauth/authorize", params=question(pair()[1], **wrong)))
    assert (back["error"], back["state"]) == (error, "s <&> ü")


def test_unknown_program(web):
    """An unknown client gets an error page, and its name is not rendered as HTML."""
    page = web.get("/oauth/authorize", params=question(pair()[1], client_id="<script>"))
    assert page.status_code == 400
    assert "<script>" not in page.text


def test_the_page_is_safe(web):
    """The consent page runs no script, cannot be framed, sends its form only to itself, and is not
    cached.
    """
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:45678;" in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    cookie = page.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_another_browser_cannot_answer(web, sandbox):
    """A consent can only be given once, and only by the browser that got the page."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    form = {"question": key_in(page), "answer": "allow"}
    stranger = httpx.post(f"{web.base_url}/oauth/authorize", data=form)
    assert stranger.status_code == 400
    assert web.post("/oauth/authorize", data=form).status_code == 400


def test_another_page_cannot_answer(web):
    """A form on another origin cannot give the consent."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    form = {"question": key_in(page), "answer": "allow"}
    answer = web.post("/oauth/authorize", data=form, headers={"origin": "http://evil.example"})
    assert answer.status_code == 400


def test_refresh_rotates(sandbox, web):
    """Each refresh token can be used once; a second use revokes all tokens of its sign-in."""
    verifier, challenge = pair()
    code = allowed(web, challenge, scope="read:pets write:pets")["code"]
    first = redeem(web, code, verifier).json()
    second = refresh(web, first["refresh_token"], scope="read:pets").json()
    assert second["scope"] == "read:pets"
    assert second["refresh_token"] != first["refresh_token"]
    assert opens(sandbox, second["access_token"]) == 200
    assert refresh(web, first["refresh_token"]).json()["error"] == "invalid_grant"
    assert opens(sandbox, second["access_token"]) == 401
    assert refresh(web, second["refresh_token"]).status_code == 400


def test_a_narrower_refresh_narrows_only_the_access_token(web):
    """After a refresh with fewer scopes, the new refresh token still has all of them."""
    verifier, challenge = pair()
    code = allowed(web, challenge, scope="read:pets write:pets")["code"]
    first = redeem(web, code, verifier).json()
    narrow = refresh(web, first["refresh_token"], scope="read:pets").json()
    assert asked(web, narrow["access_token"])["scope"] == "read:pets"
    wide = refresh(web, narrow["refresh_token"]).json()
    assert wide["scope"] == "read:pets write:pets"
    assert asked(web, wide["access_token"])["scope"] == "read:pets write:pets"


def test_refresh_cannot_widen(web):
    """A refresh cannot add a scope that the user did not allow."""
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    assert refresh(web, issued["refresh_token"], scope="write:pets").status_code == 400


def test_refresh_is_bound_to_its_client(sandbox, web):
    """Another client cannot use a refresh token."""
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    other = {"client_id": sandbox.client_id, "client_secret": sandbox.client_secret}
    assert refresh(web, issued["refresh_token"], **other).status_code == 400


def test_revoke(sandbox, web):
    """Revoking a refresh token revokes its access token too; revoking an unknown token is not an
    error.
    """
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    for token in (issued["refresh_token"], "unknown"):
        form = {"token": token, "client_id": PUBLIC_CLIENT}
        assert web.post("/oauth/revoke", data=form).status_code == 200
    assert opens(sandbox, issued["access_token"]) == 401


def test_lifetime():
    """A token reports its lifetime and expires after it."""
    with Sandbox(token_lifetime=0, pets=[Pet(id=1, name="x")]) as sandbox:
        origin = sandbox.url.removesuffix("/v2")
        names = (sandbox.client_id, sandbox.client_secret)
        form = {"grant_type": "client_credentials"}
        issued = httpx.post(f"{origin}/oauth/token", data=form, auth=names).json()
        assert issued["expires_in"] == 0
        assert opens(sandbox, issued["access_token"]) == 401


def asked(web: httpx.Client, token: str, **other: str) -> dict[str, object]:
    """Return the introspection of a token, requested by the public client."""
    form = {"token": token, "client_id": PUBLIC_CLIENT, **other}
    return web.post("/oauth/introspect", data=form).json()


def test_introspection_tells_whose_token_it_is(web):
    """The token of a user is active, with its scopes, client, expiry and user."""
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    result = asked(web, issued["access_token"])
    assert result["active"] is True
    assert (result["username"], result["client_id"]) == ("shopkeeper", PUBLIC_CLIENT)
    assert result["scope"] == "read:pets"
    assert result["exp"] > 0


def test_introspection_of_a_programs_token(sandbox, web):
    """The token of a client has the client as its subject, and no user."""
    result = asked(web, sandbox.token("read:pets"))
    assert result["sub"] == sandbox.client_id
    assert "username" not in result


@pytest.mark.parametrize("token", ["unknown", ""])
def test_introspection_of_what_is_no_token(web, token):
    """An unknown token is reported as inactive, without any detail."""
    assert asked(web, token) == {"active": False}


def test_introspection_by_the_token_itself(sandbox, web):
    """A client that holds a token may introspect it; without a valid token it may not."""
    token = sandbox.token("read:pets")
    headers = {"authorization": f"Bearer {token}"}
    output = web.post("/oauth/introspect", data={"token": token}, headers=headers).json()
    assert output["scope"] == "read:pets"
    for other in ({"authorization": "Bearer unknown"}, {}):
        answer = web.post("/oauth/introspect", data={"token": token}, headers=other)
        assert answer.status_code == 401


def test_live_gives_the_token_by_the_browser():
    """In the live profile the redirect has the token in its fragment, with the state and without a
    code.
    """
    with Sandbox(profile="live", pets=[Pet(id=1, name="x")]) as sandbox:
        web = httpx.Client(base_url=sandbox.url.removesuffix("/v2"))
        with web:
            wish = question("", response_type="token", code_challenge=None)
            page = web.get("/oauth/authorize", params=wish)
            form = {"question": key_in(page), "answer": "allow"}
            back = urlsplit(web.post("/oauth/authorize", data=form).headers["location"])
            values = {name: texts[0] for name, texts in parse_qs(back.fragment).items()}
            assert (back.query, values["state"], values["scope"]) == ("", "s <&> ü", "read:pets")
            assert opens(sandbox, values["access_token"]) == 200
            metadata = web.get("/.well-known/oauth-authorization-server").json()
            assert metadata["response_types_supported"] == ["token"]
            assert read_redirect(web.get("/oauth/authorize", params=question(pair()[1])))[
                "error"
            ] == ("unsupported_response_type")


def test_live_denied_is_reported_behind_the_hash():
    """A refusal in the implicit flow is in the fragment of the redirect, as the token would be."""
    with (
        Sandbox(profile="live") as sandbox,
        httpx.Client(base_url=sandbox.url.removesuffix("/v2")) as web,
    ):
        page = web.get("/oauth/authorize", params=question("", response_type="token"))
        form = {"question": key_in(page), "answer": "deny"}
        place = web.post("/oauth/authorize", data=form).headers["location"]
        assert "error=access_denied" in urlsplit(place).fragment


def test_a_browser_can_answer(web):
    """A consent with the origin `null` is refused; the page's referrer policy lets a browser send
    the real origin.
    """
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    assert page.headers["referrer-policy"] == "same-origin"
    form = {"question": key_in(page), "answer": "allow"}
    refused = web.post("/oauth/authorize", data=form, headers={"origin": "null"})
    assert refused.status_code == 400
