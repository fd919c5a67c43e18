"""An authority that no system trusts, and TLS services whose certificates it has signed."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


class Files(NamedTuple):
    """The files of one authority: its certificate, the server's certificate and a client's."""

    authority: Path
    server: Path
    cert: Path
    key: Path


def make_files(folder: Path) -> Files:
    """Create an authority that no system trusts, and two certificates that it signed."""
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


@contextmanager
def serving(files: Files, asks: ssl.VerifyMode = ssl.CERT_NONE) -> Iterator[tuple[str, list[str]]]:
    """Run a TLS service; yield its address and the name in each request's client certificate, ""
    for a request without one. `asks` says whether it asks for a certificate, or requires one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    if asks:
        # TLS 1.3 reports it only after the client has sent data, or closes the connection.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = asks
        context.load_verify_locations(files.authority)
    handler = type("Handler", (Service,), {"who": []})
    server = Quiet(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/v2", handler.who
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
