"""Redactor: a secret is masked however a text encodes it, and nothing else is."""

from __future__ import annotations

import base64
import codecs
import html
import json
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.redact import Redactor
from petsync.settings import Secret

SECRET = "ap1~k3y/9?Xq&Wv+=<zT>\"'\\ ü🐕"
Encode = Callable[[str], str]


def utf16(text: str) -> list[str]:
    """The code units in hexadecimal digits."""
    data = text.encode("utf-16-be").hex()
    return [data[at : at + 4] for at in range(0, len(data), 4)]


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
    "hexadecimals": lambda text: text.encode().hex(),
    "hexadecimals in upper case": lambda text: text.encode().hex().upper(),
    "broken over two lines": lambda text: f"{text[:9]}\n    {text[9:]}",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_secret_is_masked_in_every_encoding(name: str) -> None:
    """All of it, and nothing of what stands around it."""
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
    """What is left of the digits has no byte of it."""
    packed = encode(before + SECRET.encode() + after).decode()
    head, stars, tail = Redactor((Secret(SECRET),))(packed).partition("***")
    assert stars
    # Digits of a neighbour are whole: so many bits are theirs alone.
    assert len(head) * 6 <= len(before) * 8
    assert len(tail.rstrip("=")) * 6 <= len(after) * 8 + 6


@given(
    st.text(st.characters(codec="utf-8"), min_size=4).filter(str.strip),
    st.lists(st.sampled_from(["JSON", "JSON in full", "percent", "HTML"]), max_size=3),
)
def test_encodings_nest(secret: str, names: list[str]) -> None:
    """Up to three layers of what goes character by character hide nothing."""
    text = secret
    for name in names:
        text = ENCODINGS[name](text)
    assert secret not in Redactor((Secret(secret),))(f"<{text}>")
    assert "***" in Redactor((Secret(secret),))(f"<{text}>")


def test_a_secret_that_was_cut_is_masked() -> None:
    """Messages are cut: what is left of a long secret is no less secret."""
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
    """To the character, whatever escapes it has."""
    redact = Redactor((Secret("S3cret-9f8e7d6c5b4a"), Secret("postgresql://me:pw@db.example/x")))
    assert redact(text) == text
    assert [redact(each) for each in ORDINARY] == list(ORDINARY)


def test_the_password_of_a_proxy_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the environment has it, decoded, and in the header that is made of it."""
    monkeypatch.setenv("HTTPS_PROXY", "http://me:p%40ss-w0rd@proxy.example:3128")
    redact = Redactor(())
    basic = base64.b64encode(b"me:p@ss-w0rd").decode()
    assert redact(f"p%40ss-w0rd p@ss-w0rd {basic}") == "*** *** ***"
    monkeypatch.setenv("HTTPS_PROXY", "http://t0ken-of-a-proxy@proxy.example:3128")
    assert Redactor(())("t0ken-of-a-proxy of proxy.example") == "*** of proxy.example"
