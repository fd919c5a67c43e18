"""Tokens, scopes and the API key of every operation."""

from __future__ import annotations

import httpx
import pytest

from petsync.models import Pet
from petsync.sandbox import Sandbox

OPERATIONS = {
    "addPet": ("POST", "/pet"),
    "updatePet": ("PUT", "/pet"),
    "deletePet": ("DELETE", "/pet/1"),
    "findPetsByStatus": ("GET", "/pet/findByStatus?status=sold"),
    "findPetsByTags": ("GET", "/pet/findByTags?tags=a"),
    "getPetById": ("GET", "/pet/1"),
    "updatePetWithForm": ("POST", "/pet/1"),
    "uploadFile": ("POST", "/pet/1/uploadImage"),
}
READS = {"findPetsByStatus", "findPetsByTags", "getPetById"}


def ask(sandbox: Sandbox, operation: str, **headers: str) -> httpx.Response:
    """Send a valid request for the operation."""
    method, path = OPERATIONS[operation]
    body = b'{"id": 1, "name": "Rex", "photoUrls": []}' if path == "/pet" else b""
    if body:
        headers["content-type"] = "application/json"
    return httpx.request(method, sandbox.url + path, content=body, headers=headers)


def bearer(token: str) -> str:
    return f"Bearer {token}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_without_a_token(standard, operation):
    """Without credentials every operation is 401 with a challenge without an error."""
    answer = ask(standard, operation)
    assert answer.status_code == 401
    assert answer.json()["type"] == "unauthorized"
    assert answer.headers["www-authenticate"] == 'Bearer realm="petstore_auth"'


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("authorization", ["Bearer nonsense", "Bearer", "Basic Zm9vOmJhcg==", "x"])
def test_nothing_with_a_wrong_token(standard, operation, authorization):
    """An unknown token or another scheme is 401 with the error invalid_token."""
    answer = ask(standard, operation, authorization=authorization)
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_expired_token(standard, operation):
    """An expired token is 401."""
    token = standard.token(expires_in=0)
    assert ask(standard, operation, authorization=bearer(token)).status_code == 401


@pytest.mark.parametrize("operation", OPERATIONS)
def test_scopes(standard, operation):
    """Reading needs read:pets; every other operation needs both scopes, and the 403 names them."""
    standard.reset([Pet(id=1, name="x")])
    answers = {
        scopes: ask(standard, operation, authorization=bearer(standard.token(scopes)))
        for scopes in (("read:pets",), ("write:pets",), ())
    }
    refused = set(answers) - ({("read:pets",)} if operation in READS else set())
    for scopes, answer in answers.items():
        if scopes in refused:
            assert answer.status_code == 403
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert "read:pets" in answer.headers["www-authenticate"]
        else:
            assert answer.status_code == 200
    if operation != "addPet":
        assert ask(standard, operation, authorization=bearer(standard.token())).status_code == 200


@pytest.mark.parametrize("operation", OPERATIONS)
def test_api_key_alone(standard, operation):
    """The API key alone gives access to getPetById only."""
    standard.reset([Pet(id=1, name="x")])
    expected = 200 if operation == "getPetById" else 401
    assert ask(standard, operation, api_key=standard.api_key).status_code == expected
    assert ask(standard, operation, api_key="wrong").status_code == 401


def test_api_key_beside_a_token(standard):
    """deletePet accepts the key with a token and refuses a wrong key; for getPetById a valid token
    is enough.
    """
    token = bearer(standard.token())
    for key, expected in (("wrong", 401), (standard.api_key, 200)):
        standard.reset([Pet(id=1, name="x")])
        assert ask(standard, "getPetById", authorization=token, api_key=key).status_code == 200
        answer = ask(standard, "deletePet", authorization=token, api_key=key)
        assert answer.status_code == expected


def test_no_auth():
    """With auth=False no credentials are needed, and the OpenAPI document has no security
    scheme.
    """
    with Sandbox(auth=False, pets=[Pet(id=1, name="x")]) as sandbox:
        assert [ask(sandbox, name).status_code for name in OPERATIONS if name != "addPet"] == [
            200
        ] * 2 + [200, 200, 404, 404, 404]
        document = httpx.get(f"{sandbox.url}/openapi.json").json()
        assert "securitySchemes" not in document["components"]


def test_foreign_pages():
    """With auth=False a form on a page of another origin is refused."""
    with Sandbox(auth=False, pets=[Pet(id=1, name="x")]) as sandbox:
        own = sandbox.url.removesuffix("/v2")
        for origin, expected in (("http://evil.example", 403), ("null", 403), (own, 200)):
            form = {"name": "y"}
            headers = {"origin": origin}
            answer = httpx.post(f"{sandbox.url}/pet/1", data=form, headers=headers)
            assert answer.status_code == expected


def test_tokens_outlive_the_server(tmp_path):
    """With a database file a token stays valid after a restart, and the file does not contain
    it.
    """
    path = tmp_path / "store.db"
    with Sandbox(db=path, pets=[Pet(id=1, name="x")]) as sandbox:
        token, gone = sandbox.token(), sandbox.token(expires_in=0)
    with Sandbox(db=path) as sandbox:
        assert ask(sandbox, "getPetById", authorization=bearer(token)).status_code == 200
        assert ask(sandbox, "getPetById", authorization=bearer(gone)).status_code == 401
    assert token.encode() not in path.read_bytes()


def test_secrets_do_not_show():
    """No repr contains a secret, a key or a token."""
    with Sandbox() as sandbox:
        shown = repr(sandbox) + repr(sandbox._running.service)
        token = sandbox.token()
        assert token not in shown + repr(sandbox._running.service.tokens)
        assert sandbox.client_secret not in shown
        assert sandbox.api_key not in shown
