"""TLS: trusted authorities, client certificates, and the errors of failed connections."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from authority import PEM, PKCS8, Files, make_files, serving
from cryptography.hazmat.primitives import serialization
from signing import confirmed_file

import petsync as ps
from petsync.errors import SettingsError, TransportError
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return an authority that no system trusts, and two certificates that it signed."""
    return make_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(files: Files) -> Iterator[tuple[str, list[str]]]:
    """Yield a service whose certificate is signed by an unknown authority."""
    with serving(files) as running:
        yield running


@pytest.fixture
def strict(files: Files) -> Iterator[tuple[str, list[str]]]:
    """Yield a service that requires a client certificate."""
    with serving(files, ssl.CERT_REQUIRED) as running:
        yield running


def ask(url: str, state: Path) -> None:
    """Request one pet."""
    with ps.connect(url, state=state, environ={}, auth=ps.auth.bearer("t0ken")) as store:
        assert store.api.get_pet_by_id(7).name == "Rex"


def test_an_unknown_authority_is_refused_in_plain_words(
    service: tuple[str, list[str]], tmp_path: Path
) -> None:
    """A certificate of an unknown authority is refused with the cause; the hint names
    PETSYNC_CA_FILE.
    """
    url, who = service
    with pytest.raises(TransportError, match=r"certificate verify failed") as failed:
        ask(url, tmp_path)
    assert "not permitted" not in str(failed.value)
    assert "PETSYNC_CA_FILE" in failed.value.hint
    assert not failed.value.may_have_happened
    assert who == []


def test_an_authority_of_ones_own_is_trusted(
    service: tuple[str, list[str]], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authority in PETSYNC_CA_FILE is trusted for the service and for the sign-in."""
    monkeypatch.setenv("PETSYNC_CA_FILE", str(files.authority))
    url, who = service
    ask(url, tmp_path)
    assert who == [""]
    place = url.removesuffix("/v2") + "/token"
    text = f'url = "{url}"\n[auth]\ntoken_url = "{place}"\n'
    confirmed_file(tmp_path, text, monkeypatch)
    with ps.connect(state=tmp_path, environ={}) as store:
        store.sign_in(ps.auth.client_credentials("nightly", "s3cret"))
        assert store.api.get_pet_by_id(7).name == "Rex"


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
@pytest.mark.parametrize("kind", ["transport", "http"])
def test_an_authority_of_the_callers_client_is_trusted(
    service: tuple[str, list[str]], files: Files, tmp_path: Path, name: str, kind: str
) -> None:
    """A caller's client or transport trusts its own authority, and without it no other."""
    library = import_module(name)
    make = library.AsyncClient if kind == "http" else library.AsyncHTTPTransport
    url, who = service
    for verify in (True, ssl.create_default_context(cafile=files.authority)):
        sender = make(verify=verify, limits=library.Limits(max_keepalive_connections=0))
        options: dict[str, Any] = {kind: sender, "environ": {}, "state": tmp_path}
        with ps.connect(url, auth=ps.auth.bearer("t0ken"), **options) as store:
            if verify is True:
                with pytest.raises(TransportError, match="certificate verify failed"):
                    store.api.get_pet_by_id(7)
            else:
                assert store.api.get_pet_by_id(7).name == "Rex"
    assert who == [""]


def test_a_sign_in_says_why_it_does_not_trust(
    service: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-in reports a failed certificate check in the same words as a request."""
    url, _ = service
    place = url.removesuffix("/v2") + "/token"
    text = f'url = "{url}"\n[auth]\ntoken_url = "{place}"\n'
    confirmed_file(tmp_path, text, monkeypatch)
    with (
        ps.connect(state=tmp_path, environ={}) as store,
        pytest.raises(TransportError, match=r"sign-in: .*certificate verify failed"),
    ):
        store.sign_in(ps.auth.client_credentials("nightly", "s3cret"))


@pytest.mark.parametrize("apart", [True, False])
def test_a_client_certificate_is_shown(
    strict: tuple[str, list[str]],
    files: Files,
    apart: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client certificate is sent, whether its key is in the same file or in another."""
    whole = tmp_path / "whole.pem"
    whole.write_bytes(files.key.read_bytes() + files.cert.read_bytes())
    monkeypatch.setenv("PETSYNC_CA_FILE", str(files.authority))
    monkeypatch.setenv("PETSYNC_CLIENT_CERT", str(files.cert if apart else whole))
    if apart:
        monkeypatch.setenv("PETSYNC_CLIENT_KEY", str(files.key))
    url, who = strict
    ask(url, tmp_path)
    assert who == ["nightly"]


def test_a_certificate_that_is_missing_is_named(
    strict: tuple[str, list[str]], files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing client certificate is reported with the service's reason."""
    monkeypatch.setenv("PETSYNC_CA_FILE", str(files.authority))
    url, who = strict
    with pytest.raises(TransportError, match=r"certificate required|handshake failure"):
        ask(url, tmp_path)
    assert who == []


@pytest.mark.parametrize("name", ["PETSYNC_CA_FILE", "PETSYNC_CLIENT_CERT", "PETSYNC_CLIENT_KEY"])
@pytest.mark.parametrize("content", [None, "nonsense\n"])
def test_a_file_that_cannot_be_used_is_named(
    name: str,
    content: str | None,
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing or invalid PEM file raises an error before anything is sent."""
    monkeypatch.setenv("PETSYNC_CLIENT_CERT", str(files.cert))
    monkeypatch.setenv("PETSYNC_CLIENT_KEY", str(files.key))
    broken = tmp_path / "broken.pem"
    if content is not None:
        broken.write_text(content)
    monkeypatch.setenv(name, str(broken))
    with pytest.raises(SettingsError, match=r"cannot be used") as failed:
        ask("https://127.0.0.1:9/v2", tmp_path)
    assert "PEM" in failed.value.hint


def test_a_key_with_a_password_does_not_ask_for_it(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key with a password raises an error and does not prompt at the terminal."""
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    secret = serialization.BestAvailableEncryption(b"hunter2")
    locked.write_bytes(key.private_bytes(PEM, PKCS8, secret))
    monkeypatch.setenv("PETSYNC_CLIENT_CERT", str(files.cert))
    monkeypatch.setenv("PETSYNC_CLIENT_KEY", str(locked))
    with pytest.raises(SettingsError, match=r"client certificate .* cannot be used"):
        ask("https://127.0.0.1:9/v2", tmp_path)


def test_https_to_an_http_port() -> None:
    """A port without TLS is tried once, because no retry can succeed, and the hint is http://."""
    with (
        Sandbox(auth=False) as box,
        ps.connect(box.url.replace("http://", "https://")) as store,
        pytest.raises(TransportError, match="cannot be reached") as caught,
    ):
        store.api.get_pet_by_id(1)
    assert "is the address http:// instead of https://?" in caught.value.hint
    traffic = store.api.aio.session.traffic()
    assert (traffic.requests, traffic.retries) == (1, 0)
