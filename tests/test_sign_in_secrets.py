"""No secret of a sign-in is in a repr, a log, an error or a traceback with local variables."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, quote_plus, urlencode

import httpx
import pytest
import vault
from consenting import sent_back
from IPython.core.ultratb import VerboseTB
from pairwise import pairwise
from rich.pretty import pretty_repr
from scripted import ScriptedServer, answer
from signing import age, confirmed_file, credentials, spoil, store_at

import petsync as ps
from petsync.client.auth.browser import Loopback
from petsync.client.auth.credentials import Credentials, Grant
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.settings import Secret

pytestmark = pytest.mark.slow

PETS = [Pet(id=1, name="Rex", status="available", photo_urls=[])]
SECRET = "s3cret-0123456789-abcdef"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(pets=PETS) as sandbox:
        yield sandbox


def seen(error: BaseException) -> str:
    """Return everything that a detailed traceback shows of an error: chained errors, all frames,
    and all variables in them.
    """
    error = error.with_traceback(_beyond(error.__traceback__))
    result = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown = ["".join(result.format()), repr(error), str(error), repr(error.args)]
    shown += _frames(error, set())
    shown.append(VerboseTB(theme_name="nocolor").text(type(error), error, error.__traceback__))
    return "\n".join(shown)


def _beyond(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the tests' own frames, which contain the secret."""
    while trace is not None and "/tests/" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace


def _frames(error: BaseException | None, known: set[int]) -> Iterator[str]:
    """Yield the variables of all frames outside the tests, of chained errors too."""
    if error is None or id(error) in known:
        return
    known.add(id(error))
    trace = error.__traceback__
    while trace is not None:
        if "/tests/" not in trace.tb_frame.f_code.co_filename:
            variables = dict(trace.tb_frame.f_locals)
            # rich shows the items of containers and the fields of dataclasses.
            yield f"{trace.tb_frame.f_code}: {variables} {pretty_repr(variables)}"
        trace = trace.tb_next
    yield from _frames(error.__cause__, known)
    yield from _frames(error.__context__, known)


def bad(secret: str) -> str:
    """Return a secret that cannot be sent in a header."""
    return f"{secret}\nwrapped"


FAILING: dict[str, Callable[[ps.Store], object]] = {
    "token with a line break": lambda _: ps.auth.bearer(bad(SECRET)),
    "api key with a line break": lambda _: ps.auth.api_key(bad(SECRET)),
    "renew is not a function": lambda _: ps.auth.bearer(SECRET, renew="x"),  # type: ignore[arg-type]
    "second key": lambda _: ps.auth.bearer("good", api_key=bad(SECRET)),
    "client secret without a client": lambda _: ps.auth.client_credentials("", SECRET),
    "unknown token": lambda store: store.sign_in(ps.auth.bearer(SECRET)),
    "unknown key": lambda store: store.sign_in(ps.auth.api_key(SECRET)),
    "unknown client": lambda store: store.sign_in(ps.auth.client_credentials("x", SECRET)),
    "implicit without a state": lambda _: ps.auth.implicit(
        f"https://a.example/#access_token={SECRET}&state=x"
    ),
    "implicit of another": lambda _: ps.auth.implicit(
        f"https://a.example/#access_token={SECRET}&state=x", state=SECRET
    ),
    "implicit said twice": lambda _: ps.auth.implicit(f"#access_token={SECRET}&access_token=x"),
    "implicit of another type": lambda _: ps.auth.implicit(
        f"#access_token={SECRET}&token_type=mac"
    ),
    "implicit that no header carries": lambda _: ps.auth.implicit(f"#access_token={SECRET}%0A"),
    "implicit that is refused": lambda _: (
        ps.auth.implicit(f"#error=x&error_description={SECRET}&access_token={SECRET}") and None
    ),
    "pasted without a state": lambda store: store.begin_sign_in(listen=False).paste(
        f"http://127.0.0.1/?code={SECRET}"
    ),
    "pasted with another state": lambda store: store.begin_sign_in(listen=False).paste(
        f"http://127.0.0.1/?code={SECRET}&state={SECRET}"
    ),
    "pasted nonsense": lambda store: store.begin_sign_in(listen=False).paste(f"{SECRET} " * 9_000),
    "asked with a bad token": lambda store: _asked_with(store, SECRET),
    "a token instead of credentials": lambda store: store.sign_in(SECRET),  # type: ignore[arg-type]
    "a pair instead of credentials": lambda store: store.sign_in(("me", SECRET)),  # type: ignore[arg-type]
    "token as bytes": lambda _: ps.auth.bearer(SECRET.encode()),  # type: ignore[arg-type]
    "connected with a token": lambda store: ps.connect(
        store.url,
        auth=SECRET,  # type: ignore[arg-type]
        environ={},
    ),
    "connected with a password": lambda _: ps.connect(
        f"https://me:{SECRET}@shop.example/v2", environ={}
    ),
    "connected with a query": lambda _: ps.connect(
        f"https://shop.example/v2?key={SECRET}", environ={}
    ),
    "environment with a password": lambda _: ps.connect(
        environ={"PETSYNC_URL": f"https://me:{SECRET}@shop.example/v2"}
    ),
    "environment and a bad argument": lambda _: ps.connect(
        "https://shop.example/v2", environ={"PETSYNC_TOKEN": SECRET}, timeout=-1
    ),
    "session with another token": lambda store: store.api.aio.session.use(SECRET),  # type: ignore[arg-type]
    "key of one request": lambda store: store.api.delete_pet(404, api_key=SECRET),
    "key of one request, hidden": lambda store: store.api.delete_pet(404, api_key=Secret(SECRET)),
    "key with a line break": lambda store: store.api.delete_pet(1, api_key=bad(SECRET)),
    "key as bytes": lambda store: store.api.delete_pet(1, api_key=SECRET.encode()),  # type: ignore[arg-type]
    "key and a bad id": lambda store: store.api.delete_pet(2**70, api_key=SECRET),
    "key, asynchronous": lambda store: _awaited(
        store, store.api.aio.delete_pet(404, api_key=SECRET)
    ),
    "credentials, asynchronous": lambda store: _awaited(store, store.aio.sign_in(SECRET)),  # type: ignore[arg-type]
    "jobs with an environment": lambda _: ps.reconcile.run(
        "missing.toml", environ={"PETSYNC_TOKEN": SECRET}
    ),
}


def _awaited(store: ps.Store, work: Coroutine[object, object, object]) -> object:
    async def run() -> object:
        async with store.aio:
            return await work

    return asyncio.run(run())


def _asked_with(store: ps.Store, secret: str) -> object:
    store.api.aio.session.use(ps.auth.bearer(secret))
    return store.find_by_status("available")


@pytest.mark.parametrize("what", FAILING)
def test_errors(box: Sandbox, tmp_path: Path, what: str) -> None:
    """A refused secret is in neither the error nor the frames of its traceback."""
    with store_at(box, tmp_path) as store, pytest.raises(ps.errors.PetsyncError) as failed:
        FAILING[what](store)
    if what == "implicit that is refused":
        return  # This error shows the service's own description, secret included.
    assert SECRET not in seen(failed.value)


WRONG: dict[str, Callable[[ps.Store], object]] = {
    "a misspelt keyword": lambda store: store.api.delete_pet(1, apikey=SECRET),  # type: ignore[call-arg]
    "a key by position": lambda store: store.api.delete_pet(1, SECRET),  # type: ignore[call-arg]
    "user and password": lambda store: store.sign_in(username="me", password=SECRET),  # type: ignore[call-arg]
    "asynchronous": lambda store: _awaited(store, store.aio.sign_in(password=SECRET)),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(box: Sandbox, tmp_path: Path, what: str) -> None:
    """Arguments that a method does not have are not in the frames of the TypeError."""
    with store_at(box, tmp_path) as store, pytest.raises(TypeError) as failed:
        WRONG[what](store)
    assert SECRET not in seen(failed.value)


def test_a_service_that_repeats_the_key_of_a_request(tmp_path: Path) -> None:
    """A key that `delete_pet` takes as an argument is masked in the service's message."""
    reply = answer(401, f'{{"message": "bad {SECRET}"}}'.encode(), content_type="application/json")
    with (
        ScriptedServer(reply) as server,
        ps.connect(server.url, state=tmp_path, environ={}) as store,
        pytest.raises(ps.errors.AuthError) as failed,
    ):
        store.api.delete_pet(1, api_key=SECRET)
    assert "bad ***" in failed.value.message
    assert SECRET not in seen(failed.value)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        answer(500, b"x"),
        answer(200, b"<html>", content_type="text/html"),
        answer(200, b"x" * 400_000),
        answer(200, f'{{"access_token": "{SECRET} x"}}'.encode()),
        answer(200, f'{{"access_token": "{SECRET}", "token_type": "mac"}}'.encode()),
        answer(200, f'{{"access_token": "{SECRET}", "error": "both"}}'.encode()),
        answer(400, f'{{"error": "x", "error_description": "{SECRET}"}}'.encode()),
        answer(302, location="https://evil.example/"),
    ],
)
def test_the_token_endpoint_fails(tmp_path: Path, reply: bytes | None, caplog) -> None:
    """Neither the client secret nor the endpoint's response is in the error, in the frames of its
    traceback, or in a debug log, those of httpx and httpcore included.
    """
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(reply) as server:
        origin = server.url.removesuffix("/v2")
        environ = {"PETSYNC_CLIENT_ID": "me", "PETSYNC_CLIENT_SECRET": SECRET}
        with pytest.MonkeyPatch.context() as patch:
            text = f'url = "{server.url}"\n[auth]\ntoken_url = "{origin}/token"\n'
            confirmed_file(tmp_path, text, patch)
            with ps.connect(server.url, state=tmp_path, environ=environ, timeout=5) as store:
                with pytest.raises(ps.errors.PetsyncError) as failed:
                    store.sign_in(ps.auth.client_credentials("me", SECRET))
                assert SECRET not in seen(failed.value)
                with pytest.raises(ps.errors.PetsyncError) as failed:
                    store.find_by_status("available")
                assert SECRET not in seen(failed.value)
    assert SECRET not in caplog.text


def test_a_sign_in_with_a_closed_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a sign-in with a client that the caller has closed does not show the secret."""
    url = "https://shop.example/v2"
    confirmed_file(tmp_path, f'url = "{url}"\n[auth]\ntoken_url = "{url}/token"\n', monkeypatch)
    client = httpx.AsyncClient()
    asyncio.run(client.aclose())
    with (
        ps.connect(url, state=tmp_path, environ={}, http=client) as store,
        pytest.raises(ps.errors.PetsyncError, match="the httpx client given") as failed,
    ):
        store.sign_in(ps.auth.client_credentials("me", SECRET))
    shown = seen(failed.value)
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert not [each for each in (SECRET, basic) if each in shown]


ODD = "s3cret/of+the: nightly=job"
"""A secret that each encoding changes."""
_PAIR = f"nightly:{quote_plus(ODD)}"
_BASE64 = base64.b64encode(_PAIR.encode()).decode()
ECHOES = [
    ODD,
    f"Basic {_BASE64}",
    _BASE64.rstrip("="),
    quote(_BASE64, safe=""),
    _PAIR,
    f"nightly:{ODD}",
    quote(ODD),
    quote(ODD, safe=""),
    urlencode({"client_secret": ODD}),
]


@pytest.mark.parametrize(
    ("field", "text", "method"),
    pairwise(
        ["error", "error_description", "token_type"],
        ECHOES,
        ["client_secret_basic", "client_secret_post"],
    ),
)
def test_a_token_endpoint_that_echoes(tmp_path: Path, field: str, text: str, method: str) -> None:
    """A client secret that the token endpoint repeats, in any encoding, is masked in the error."""
    with ScriptedServer(b"") as server:
        origin = server.url.removesuffix("/v2")
        places = {"issuer": origin, "token_endpoint": f"{origin}/token"}
        metadata = {**places, "token_endpoint_auth_methods_supported": [method]}
        result = {"error": "x", field: f"got {text}"}
        if field == "token_type":
            result = {"access_token": "new", field: text}
        server._script = [
            answer(200, json.dumps(metadata).encode()),
            answer(200, json.dumps(result).encode()),
        ]
        with (
            ps.connect(server.url, state=tmp_path, environ={}) as store,
            pytest.raises(ps.errors.PetsyncError, match=r"\*\*\*") as failed,
        ):
            store.sign_in(ps.auth.client_credentials("nightly", ODD))
    shown = seen(failed.value)
    assert not [each for each in ECHOES if each in shown]


def test_an_endpoint_that_echoes_the_answer(tmp_path: Path) -> None:
    """Code, verifier, state and refresh token are masked in errors, encoded or not."""
    with ScriptedServer(b"") as server:
        origin = server.url.removesuffix("/v2")
        names = ("authorization", "token")
        places = {f"{name}_endpoint": f"{origin}/{name}" for name in names}
        server._script = [answer(200, json.dumps({"issuer": origin, **places}).encode())]
        with ps.connect(server.url, state=tmp_path, environ={}) as store:
            pending = store.begin_sign_in(listen=False)
            question = pending.aio._question
            kept = [question.state.reveal(), question.verifier.reveal(), "a/c+o=d e"]
            texts = [form for each in kept for form in (each, quote_plus(each), quote(each))]
            result = {"error": "x", "error_description": " ".join(texts[3:])}
            server._script = [answer(400, json.dumps(result).encode())]
            back = urlencode({"state": kept[0], "code": kept[2]})
            with pytest.raises(ps.errors.AuthError, match=r"\*\*\*") as failed:
                pending.paste(f"{question.redirect}?{back}")
            shown = seen(failed.value)
            assert not [each for each in texts if each in shown]
            grant = Grant(kind="code", client_id="me", refresh=Secret(kept[2]))
            store.api.aio.session.use(Credentials(Secret("old"), grant=grant))
            server._script = [answer(401), answer(400, json.dumps(result).encode())]
            with pytest.raises(ps.errors.AuthError) as failed:
                store.find_by_status("available")
            shown = seen(failed.value)
            assert not [each for each in texts[6:] if each in shown]


@pytest.mark.parametrize("reply", [None, answer(500), answer(401), answer(302, location="//x/")])
def test_a_service_that_fails(tmp_path: Path, reply: bytes | None) -> None:
    """A failed request shows no credentials in its error or in the frames of its traceback."""
    policy = ps.RetryPolicy(attempts=2, first=0.01)
    auth = ps.auth.bearer(SECRET, api_key=f"key-{SECRET}")
    with (
        ScriptedServer(reply) as server,
        ps.connect(server.url, state=tmp_path, environ={}, auth=auth, retry=policy) as store,
    ):
        for call in (
            lambda: store.api.get_pet_by_id(1),
            lambda: store.api.delete_pet(1),
            store.who,
        ):
            with pytest.raises(ps.errors.PetsyncError) as failed:
                call()
            assert SECRET not in seen(failed.value)


def test_a_service_that_echoes(tmp_path: Path) -> None:
    """A token that the service repeats in its error is masked."""
    reply = answer(401, f'{{"message": "bad {SECRET}"}}'.encode(), content_type="application/json")
    with (
        ScriptedServer(reply) as server,
        ps.connect(server.url, state=tmp_path, environ={}, auth=ps.auth.bearer(SECRET)) as store,
        pytest.raises(ps.errors.AuthError) as failed,
    ):
        store.api.get_pet_by_id(1)
    assert "bad ***" in failed.value.message
    assert SECRET not in seen(failed.value)


def test_logs_of_a_whole_story(
    box: Sandbox, tmp_path: Path, caplog, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    """No secret of a browser sign-in that is stored, renewed and ended is in a debug log, on the
    terminal, in a repr or in the state folder.
    """
    vault.use(monkeypatch, tmp_path)
    caplog.set_level(logging.DEBUG)
    secrets: set[str] = set()
    shown: list[str] = []
    with store_at(box, tmp_path / "state") as store:
        pending = store.begin_sign_in(keep="keyring")
        question = pending.aio._question
        secrets |= {question.state.reveal(), question.verifier.reveal()}
        address = sent_back(pending.url)
        secrets.add(address.partition("code=")[2].partition("&")[0])
        caplog.clear()  # Drop what the test's browser logged.
        shown += [repr(pending), repr(pending.aio), repr(question)]
        shown.append(repr(pending.paste(address)))
        for act in (lambda: None, lambda: age(store), lambda: spoil(store)):
            act()
            store.find_by_status("available")
            mine = credentials(store)
            kept = (mine.token, *mine.grant.secrets())
            secrets |= {each.reveal() for each in kept if each is not None}
            shown += [repr(mine), repr(mine.grant), repr(store), repr(vars(store.aio)), str(mine)]
        shown += [repr(store.who()), str(store.sign_out())]
    assert len(secrets) >= 7
    captured = capfd.readouterr()
    files = [p.read_text() for p in (tmp_path / "state").rglob("*") if p.is_file()]
    everything = "\n".join([*shown, *files, caplog.text, captured.out, captured.err])
    assert not [each for each in secrets if each in everything]


def test_the_browsers_return_is_not_logged(box: Sandbox, tmp_path: Path, caplog) -> None:
    """petsync logs neither the code nor the state that the loopback receives."""
    caplog.set_level(logging.DEBUG)
    with store_at(box, tmp_path) as store:
        pending = store.begin_sign_in()
        httpx.get(sent_back(pending.url))
        pending.wait(120)
    mine = [record.getMessage() for record in caplog.records if record.name.startswith("petsync")]
    assert not [each for each in mine if "code=" in each or "state=" in each]


def test_secrets_are_not_copied_out() -> None:
    """A secret shows as ***, cannot be pickled or copied, and compares by its text."""
    secret = Secret(SECRET)
    for text in (repr(secret), str(secret), f"{secret}", repr([secret])):
        assert SECRET not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(ps.auth.bearer(SECRET))
    assert secret == Secret(SECRET) != Secret("other")


def test_repr_of_what_holds_them() -> None:
    """All credentials that `ps.auth` makes show their secrets as ***."""
    made = (
        ps.auth.bearer(SECRET, api_key=SECRET),
        ps.auth.api_key(SECRET),
        ps.auth.client_credentials("me", SECRET),
        ps.auth.implicit(SECRET),
    )
    for each in made:
        assert SECRET not in f"{each!r} {each} {each.grant!r}"
    assert "object at" in repr(Loopback(None))  # type: ignore[arg-type]
