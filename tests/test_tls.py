"""TLS: trusted authorities, client certificates, and the errors of failed connections."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from signing import confirmed_file

import petsync as ps
from petsync.errors import SettingsError, TransportError

pytestmark = pytest.mark.slow

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


class Files(NamedTuple):
    """The files of one authority: its certificate, the server's certificate and a client's."""

    authority: Path
    server: Path
    cert: Path
    key: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return an authority that no system trusts, and two certificates that it signed."""
    folder = tmp_path_factory.mktemp("tls")
    made = Files(*(folder / f"{name}.pem" for name in Files._fields))
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("Test authority", authority_key, None)
    made.authority.write_bytes(authority.public_bytes(PEM))
    for name, paths in (("127.0.0.1", (made.server,) * 2), ("nightly", (made.cert, made.key))):
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _certificate(name, key, (authority, authority_key))
        for path, content in zip(
            paths,
            (
                cert.public_bytes(PEM),
                key.private_bytes(PEM, PKCS8, serialization.NoEncryption()),
            ),
            strict=True,
        ):
            with path.open("ab") as file:
                file.write(content)
    return made


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signer = key if issuer is None else issuer[1]
    build = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is None:
        usage = x509.KeyUsage(*([False] * 5), key_cert_sign=True, crl_sign=True, **_NO_MORE)
        build = build.add_extension(usage, critical=True)
    else:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        build = build.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if name == "127.0.0.1":
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
            build = build.add_extension(names, critical=False)
    return build.sign(signer, hashes.SHA256())


_NO_MORE = {"encipher_only": False, "decipher_only": False}


class Service(BaseHTTPRequestHandler):
    """Answers each GET with one pet and each POST with a token."""

    protocol_version = "HTTP/1.1"
    who: list[str]

    def do_GET(self) -> None:
        """Send one pet and record the client certificate's name."""
        certificate = self.connection.getpeercert()  # type: ignore[attr-defined]
        self.who.append(
            dict(pair[0] for pair in certificate["subject"])["commonName"] if certificate else ""
        )
        self._send(b'{"id": 7, "name": "Rex", "photoUrls": []}')

    def do_POST(self) -> None:
        """Send a token."""
        self.rfile.read(int(self.headers["content-length"]))
        self._send(b'{"access_token": "n3w-t0ken", "token_type": "bearer"}')

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that does not print errors of client certificates."""

    def handle_error(self, *_: object) -> None:
        """Print nothing."""


def serving(files: Files, *, asks: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield a TLS service's address and clients; `asks` requires a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    if asks:
        # TLS 1.3 reports it only after the client has sent data, or closes the connection.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.authority)
    handler = type("Handler", (Service,), {"who": []})
    server = Quiet(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}/v2", handler.who
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def service(files: Files) -> Iterator[tuple[str, list[str]]]:
    """Yield a service whose certificate is signed by an unknown authority."""
    yield from serving(files, asks=False)


@pytest.fixture
def strict(files: Files) -> Iterator[tuple[str, list[str]]]:
    """Yield a service that requires a client certificate."""
    yield from serving(files, asks=True)


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
