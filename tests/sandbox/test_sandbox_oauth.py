"""The flows of petstore_auth, over the wire."""

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
from petsync.sandbox.tokens import PUBLIC_CLIENT

BACK = "http://127.0.0.1:45678/back"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(pets=[Pet(id=1, name="x")], redirect_uris=["https://shop.example/back"]) as one:
        yield one


@pytest.fixture
def web(sandbox: Sandbox) -> Iterator[httpx.Client]:
    """A browser without a jar of cookies from another test."""
    with httpx.Client(base_url=sandbox.url.removesuffix("/v2")) as client:
        yield client


def pair() -> tuple[str, str]:
    """A PKCE verifier and its S256 challenge."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).decode().rstrip("=")


def question(challenge: str, **other: str | None) -> dict[str, str]:
    """The parameters of an authorization request."""
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
    """What the program is told after the person has allowed it."""
    page = web.get("/oauth/authorize", params=question(challenge, **other))
    form = {"question": key_in(page), "answer": "allow"}
    return told(web.post("/oauth/authorize", data=form))


def told(answer: httpx.Response) -> dict[str, str]:
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
    """The status that the token gets for reading a pet."""
    return httpx.get(
        f"{sandbox.url}/pet/1", headers={"authorization": f"Bearer {token}"}
    ).status_code


def test_metadata_names_what_is_there(web):
    """The metadata's addresses answer, and S256 is the only method."""
    found = web.get("/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == str(web.base_url).rstrip("/")
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert web.post(found["token_endpoint"], data={"grant_type": "x"}).status_code == 401
    assert web.post(found["revocation_endpoint"], data={"token": "x"}).status_code == 401
    assert web.get(found["authorization_endpoint"]).status_code == 400


@pytest.mark.parametrize("how", ["basic", "post"])
def test_client_credentials(sandbox, web, how):
    """The client gets a token for its secret, in either way of telling it, and no refresh token."""
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
    """What cannot be granted is an error of the protocol, as JSON."""
    known = {"client_id": sandbox.client_id, "client_secret": sandbox.client_secret}
    answer = web.post("/oauth/token", data={**known, **form})
    assert (answer.status_code, answer.json()["error"]) == (status, error)


def test_a_wrong_basic_secret_is_challenged(web):
    """A client that used HTTP Basic is told to try that again."""
    answer = web.post("/oauth/token", data={"grant_type": "x"}, auth=("sandbox", "wrong"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_a_public_client_has_no_credentials_grant(web):
    """Without a secret there are no tokens without a person."""
    form = {"grant_type": "client_credentials", "client_id": PUBLIC_CLIENT}
    assert web.post("/oauth/token", data=form).json()["error"] == "unauthorized_client"


def test_authorization_code(sandbox, web):
    """Asked, allowed and redeemed with the verifier: a token that reads, with the state passed
    back as it was sent.
    """
    verifier, challenge = pair()
    back = allowed(web, challenge)
    assert back["state"] == "s <&> ü"
    assert back["iss"] == str(web.base_url).rstrip("/")
    issued = redeem(web, back["code"], verifier).json()
    assert issued["scope"] == "read:pets"
    assert opens(sandbox, issued["access_token"]) == 200


def test_denied(web):
    """A person who says no sends the program back with access_denied."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    back = told(web.post("/oauth/authorize", data={"question": key_in(page), "answer": "deny"}))
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
    """A code without its verifier or address is refused, and spent by the attempt."""
    verifier, challenge = pair()
    code = allowed(web, challenge)["code"]
    assert redeem(web, code, verifier, **wrong).json()["error"] == "invalid_grant"
    assert redeem(web, code, verifier).status_code == 400


def test_a_code_that_comes_twice_ends_its_tokens(sandbox, web):
    """Whoever brings a code a second time may have stolen it: its tokens end."""
    verifier, challenge = pair()
    code = allowed(web, challenge)["code"]
    token = redeem(web, code, verifier).json()["access_token"]
    assert redeem(web, code, verifier).status_code == 400
    assert opens(sandbox, token) == 401


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
    """Nobody is sent to an address that is not the program's own: an error page instead."""
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
    """Loopback at any port and the registered address are taken; a query in it is kept."""
    verifier, challenge = pair()
    page = web.get("/oauth/authorize", params=question(challenge, redirect_uri=redirect_uri))
    answer = web.post("/oauth/authorize", data={"question": key_in(page), "answer": "allow"})
    assert answer.headers["location"].startswith(redirect_uri)
    code = told(answer)["code"]
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
    """Everything else that is wrong goes back to the program, with its state."""
    back = told(web.get("/oauth/authorize", params=question(pair()[1], **wrong)))
    assert (back["error"], back["state"]) == (error, "s <&> ü")


def test_unknown_program(web):
    """A program that is not known gets no question asked, and its name is not shown as HTML."""
    page = web.get("/oauth/authorize", params=question(pair()[1], client_id="<script>"))
    assert page.status_code == 400
    assert "<script>" not in page.text


def test_the_page_is_safe(web):
    """The page runs no script, is shown in no frame, sends its form home, and is not kept."""
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
    """A question can only be answered from the browser that was asked, and once."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    form = {"question": key_in(page), "answer": "allow"}
    stranger = httpx.post(f"{web.base_url}/oauth/authorize", data=form)
    assert stranger.status_code == 400
    assert web.post("/oauth/authorize", data=form).status_code == 400


def test_another_page_cannot_answer(web):
    """A form on another origin cannot answer in the person's name."""
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    form = {"question": key_in(page), "answer": "allow"}
    answer = web.post("/oauth/authorize", data=form, headers={"origin": "http://evil.example"})
    assert answer.status_code == 400


def test_refresh_rotates(sandbox, web):
    """Each refresh token works once; one that comes again ends the whole family."""
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


def test_refresh_cannot_widen(web):
    """A refresh token gives no scope that the person did not allow."""
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
    """A revoked token opens nothing, and revoking an unknown one is no error."""
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    for token in (issued["refresh_token"], "unknown"):
        form = {"token": token, "client_id": PUBLIC_CLIENT}
        assert web.post("/oauth/revoke", data=form).status_code == 200
    assert opens(sandbox, issued["access_token"]) == 401


def test_lifetime():
    """Tokens say how long they live, and do not live longer."""
    with Sandbox(token_lifetime=0, pets=[Pet(id=1, name="x")]) as sandbox:
        origin = sandbox.url.removesuffix("/v2")
        names = (sandbox.client_id, sandbox.client_secret)
        form = {"grant_type": "client_credentials"}
        issued = httpx.post(f"{origin}/oauth/token", data=form, auth=names).json()
        assert issued["expires_in"] == 0
        assert opens(sandbox, issued["access_token"]) == 401


def asked(web: httpx.Client, token: str, **other: str) -> dict[str, object]:
    """What introspection says of a token to the public client."""
    form = {"token": token, "client_id": PUBLIC_CLIENT, **other}
    return web.post("/oauth/introspect", data=form).json()


def test_introspection_tells_whose_token_it_is(web):
    """A person's token is active, with its scopes, its client, its end and its person."""
    verifier, challenge = pair()
    issued = redeem(web, allowed(web, challenge)["code"], verifier).json()
    told = asked(web, issued["access_token"])
    assert told["active"] is True
    assert (told["username"], told["client_id"]) == ("shopkeeper", PUBLIC_CLIENT)
    assert told["scope"] == "read:pets"
    assert told["exp"] > 0


def test_introspection_of_a_programs_token(sandbox, web):
    """A client's own token has the client as its subject, and no person."""
    told = asked(web, sandbox.token("read:pets"))
    assert told["sub"] == sandbox.client_id
    assert "username" not in told


@pytest.mark.parametrize("token", ["unknown", ""])
def test_introspection_of_what_is_no_token(web, token):
    """Of an unknown token nothing is told but that it opens nothing."""
    assert asked(web, token) == {"active": False}


def test_introspection_by_the_token_itself(sandbox, web):
    """Who holds a token may ask what it is; who holds none may not."""
    token = sandbox.token("read:pets")
    headers = {"authorization": f"Bearer {token}"}
    told = web.post("/oauth/introspect", data={"token": token}, headers=headers).json()
    assert told["scope"] == "read:pets"
    for other in ({"authorization": "Bearer unknown"}, {}):
        answer = web.post("/oauth/introspect", data={"token": token}, headers=other)
        assert answer.status_code == 401


def test_live_gives_the_token_by_the_browser():
    """The live profile's page ends on the token, behind #, with the state and no code."""
    with Sandbox(profile="live", pets=[Pet(id=1, name="x")]) as sandbox:
        web = httpx.Client(base_url=sandbox.url.removesuffix("/v2"))
        with web:
            wish = question("", response_type="token", code_challenge=None)
            page = web.get("/oauth/authorize", params=wish)
            form = {"question": key_in(page), "answer": "allow"}
            back = urlsplit(web.post("/oauth/authorize", data=form).headers["location"])
            said = {name: texts[0] for name, texts in parse_qs(back.fragment).items()}
            assert (back.query, said["state"], said["scope"]) == ("", "s <&> ü", "read:pets")
            assert opens(sandbox, said["access_token"]) == 200
            metadata = web.get("/.well-known/oauth-authorization-server").json()
            assert metadata["response_types_supported"] == ["token"]
            assert told(web.get("/oauth/authorize", params=question(pair()[1])))["error"] == (
                "unsupported_response_type"
            )


def test_live_denied_is_said_behind_the_hash():
    """A refusal of the implicit flow comes where the token would have come."""
    with (
        Sandbox(profile="live") as sandbox,
        httpx.Client(base_url=sandbox.url.removesuffix("/v2")) as web,
    ):
        page = web.get("/oauth/authorize", params=question("", response_type="token"))
        form = {"question": key_in(page), "answer": "deny"}
        place = web.post("/oauth/authorize", data=form).headers["location"]
        assert "error=access_denied" in urlsplit(place).fragment


def test_a_browser_can_answer(web):
    """A browser names the page's origin only where the page lets it: another one, or none that is
    told (`null`), is refused.
    """
    page = web.get("/oauth/authorize", params=question(pair()[1]))
    assert page.headers["referrer-policy"] == "same-origin"
    form = {"question": key_in(page), "answer": "allow"}
    refused = web.post("/oauth/authorize", data=form, headers={"origin": "null"})
    assert refused.status_code == 400
