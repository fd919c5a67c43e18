"""Redactor: a secret is masked in every encoding, and other text stays unchanged."""

from __future__ import annotations

import base64
import codecs
import html
import json
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

import pytest
from effort import steps
from hypothesis import given
from hypothesis import strategies as st

from petsync.client.auth.credentials import Credentials
from petsync.redact import Redactor, proxy_secrets
from petsync.settings import Secret

SECRET = "ap1~k3y/9?Xq&Wv+=<zT>\"'\\ ü🐕"
Encode = Callable[[str], str]


def utf16(text: str) -> list[str]:
    """Return the UTF-16 code units as hexadecimal digits."""
    data = text.encode("utf-16-be").hex()
    return [data[at : at + 4] for at in range(0, len(data), 4)]


def base64_of(text: str) -> str:
    """Return the text in base64."""
    return base64.b64encode(text.encode()).decode()


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of the text at this width."""
    return [text[at : at + width] for at in range(0, len(text), width)]


ENCODINGS: Mapping[str, Encode] = {
    "as it is": str,
    "another case": str.swapcase,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in full": lambda text: "".join(f"\\u{unit.upper()}" for unit in utf16(text)),
    "JSON with slashes escaped": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "Python": repr,
    "percent": lambda text: quote(text, safe=""),
    "percent in lower case": lambda text: quote(text, safe="").lower(),
    "percent in full": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "a form": quote_plus,
    "HTML": html.escape,
    "HTML in decimals": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML in hexadecimals": lambda text: "".join(f"&#x{ord(c):X};" for c in text),
    "HTML in JSON": lambda text: json.dumps(html.escape(text))[1:-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 in lines": lambda text: codecs.encode(text.encode() * 3, "base64").decode(),
    "base64 of percent": lambda text: base64.b64encode(quote(text, safe="").encode()).decode(),
    "base64 in MIME's lines": lambda text: "\r\n".join(wrapped(base64_of(text), 16)),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base64 of base64": lambda text: base64_of(base64_of(text)),
    "base64 of base64 for addresses": lambda text: base64_of(
        base64.urlsafe_b64encode(text.encode()).decode()
    ),
    "base64 five times": lambda text: base64_of(base64_of(base64_of(base64_of(base64_of(text))))),
    "base64 of base64 in lines": lambda text: base64_of("\n".join(wrapped(base64_of(text), 20))),
    "base64 of JSON in full": lambda text: base64_of("".join(f"\\u{u}" for u in utf16(text))),
    "base64 of hexadecimals": lambda text: base64_of(text.encode().hex()),
    "hexadecimals of base64": lambda text: base64_of(text).encode().hex(),
    "hexadecimals of base64 in upper case": lambda text: base64_of(text).encode().hex().upper(),
    "percent of base64 of base64": lambda text: quote(base64_of(base64_of(text)), safe=""),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32 in lower case": lambda text: base64.b32encode(text.encode()).decode().lower(),
    "hexadecimals of hexadecimals": lambda text: text.encode().hex().encode().hex(),
    "hexadecimals of UTF-16": lambda text: text.encode("utf-16-be").hex(),
    "hexadecimals with blanks": lambda text: text.encode().hex(" "),
    "hexadecimals with colons": lambda text: text.encode().hex(":").upper(),
    "hexadecimals with 0x": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
    "hexadecimals of base64 with blanks": lambda text: base64_of(text).encode().hex(" "),
    "C in octals": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "JavaScript": lambda text: "".join(f"\\u{{{ord(c):x}}}" for c in text),
    "JavaScript's escape": lambda text: "".join(f"%u{unit.upper()}" for unit in utf16(text)),
    "hexadecimals": lambda text: text.encode().hex(),
    "hexadecimals in upper case": lambda text: text.encode().hex().upper(),
    "broken over two lines": lambda text: f"{text[:9]}\n    {text[9:]}",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_secret_is_masked_in_every_encoding(name: str) -> None:
    """A secret is masked completely in each encoding, and the text around it stays."""
    masked = Redactor((Secret(SECRET),))(f"Bella ({ENCODINGS[name](SECRET)}) Rex")
    left = masked.removeprefix("Bella (").removesuffix(") Rex")
    assert len(left) < len(masked), "what stands around it is not as it was"
    assert not set(left) - set("*\"'\\\n="), left


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"client:"])
@pytest.mark.parametrize("after", [b"", b"z", b"zy"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_within_base64_is_masked_at_any_alignment(
    before: bytes, after: bytes, encode: Callable[[bytes], bytes]
) -> None:
    """A secret in base64 is masked at any alignment, so the remaining digits have no byte of it."""
    packed = encode(before + SECRET.encode() + after).decode()
    head, stars, tail = Redactor((Secret(SECRET),))(packed).partition("***")
    assert stars
    # Only digits whose bits all belong to the neighbour remain.
    assert len(head) * 6 <= len(before) * 8
    assert len(tail.rstrip("=")) * 6 <= len(after) * 8 + 6


@pytest.mark.parametrize("before", ["", "x", "xy", "Bearer ", "a: "])
@pytest.mark.parametrize("outer", ["x", "/", "a/b", ""])
@pytest.mark.parametrize("pack", ["base64", "hexadecimals"])
def test_a_secret_deep_in_digits_is_masked_at_any_alignment(
    before: str, outer: str, pack: str
) -> None:
    """A secret in nested base64 or hexadecimal digits is masked at any alignment, also behind other
    digits, such as those of a path.
    """
    packed = base64_of(f"{before}{base64_of(f'{before}{SECRET}')}")
    if pack == "hexadecimals":
        packed = packed.encode().hex()
    masked = Redactor((Secret(SECRET),))(f"got {outer}{packed}!")
    assert masked.startswith("got ")
    assert "***" in masked
    assert len(masked.replace("***", "")) < len(outer) + 4 * len(before) + 24


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("QUJD" * 50_000, id="base64"),
        pytest.param("4a" * 100_000, id="hexadecimals"),
        pytest.param("4a " * 70_000, id="hexadecimals with blanks"),
        pytest.param("%2541" * 40_000, id="percent"),
        pytest.param("\\" * 100_000, id="backslashes"),
        pytest.param("QUJDREVGR0hJ.." * 14_000, id="many short runs"),
    ],
)
def test_masking_takes_time_in_proportion_to_the_text(text: str) -> None:
    """Masking takes a few seconds at most for 200 kB of text like an encoding, and for 25 kB in
    base64 four times, because a service decides what petsync has to mask.
    """
    redact = Redactor((Secret(SECRET), Secret("t0ken-0123456789-abcdef")))
    nested = text[:25_000]
    for _ in range(4):
        nested = base64_of(nested)
    begun = time.process_time()
    assert redact(text) == text
    assert redact(nested) == nested
    assert time.process_time() - begun < 10


@given(
    st.text(st.characters(codec="utf-8"), min_size=4).filter(str.strip),
    st.lists(st.sampled_from(["JSON", "JSON in full", "percent", "HTML"]), max_size=3),
)
def test_encodings_nest(secret: str, names: list[str]) -> None:
    """A secret in up to three nested encodings of its characters is masked."""
    text = secret
    for name in names:
        text = ENCODINGS[name](text)
    assert secret not in Redactor((Secret(secret),))(f"<{text}>")
    assert "***" in Redactor((Secret(secret),))(f"<{text}>")


def test_a_secret_that_was_cut_is_masked() -> None:
    """A secret that was cut off at its end is masked too."""
    redact = Redactor((Secret("t0ken-0123456789-abcdef"),))
    assert redact("got 't0ken-0123456789-ab'") == "got '***'"
    assert redact("got 't0ken-012345") == "got '***"


ORDINARY = (
    "Bella",
    "Müsli & Co. #1",
    "100 % cotton",
    "C:\\pets\\new",
    "https://shop.example/a%20b.jpg?x=1&y=2",
    "Zoë 🐕 \\u00e9 &eacute;",
    "postgresql://shop.example/pets",
    "special",
)


@given(st.text())
def test_a_text_without_the_secret_stays_as_it_is(text: str) -> None:
    """A text without the secret stays unchanged, with all its escapes."""
    redact = Redactor((Secret("S3cret-9f8e7d6c5b4a"), Secret("postgresql://me:pw@db.example/x")))
    assert redact(text) == text
    assert [redact(each) for each in ORDINARY] == list(ORDINARY)


def test_the_password_of_a_proxy_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The password of a proxy is masked as it is in the environment, decoded, and in the header."""
    monkeypatch.setenv("HTTPS_PROXY", "http://me:p%40ss-w0rd@proxy.example:3128")
    redact = Redactor(())
    basic = base64.b64encode(b"me:p@ss-w0rd").decode()
    assert redact(f"p%40ss-w0rd p@ss-w0rd {basic}") == "*** *** ***"
    monkeypatch.setenv("HTTPS_PROXY", "http://t0ken-of-a-proxy@proxy.example:3128")
    assert Redactor(())("t0ken-of-a-proxy of proxy.example") == "*** of proxy.example"


def test_only_the_variables_of_proxies_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error reads the variables of proxies as they are now, and no others: their number may be
    large.
    """
    monkeypatch.setenv("HTTPS_PROXY", "http://me:first@proxy.example:3128")
    few = steps(proxy_secrets)
    for number in range(100):
        monkeypatch.setenv(f"VARIABLE_{number}", "value")
    assert steps(proxy_secrets) < few + 100 * 30
    for name, password in (("HTTPS_PROXY", "second"), ("https_proxy", "third")):
        monkeypatch.setenv(name, f"http://me:{password}@proxy.example:3128")
        assert Credentials().mask(f"{password} of first") == "*** of first"
    monkeypatch.delenv("https_proxy")
    assert Credentials().mask("second and third") == "*** and third"
