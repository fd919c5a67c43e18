"""Mask secrets in text, including those in the usual encodings."""

from __future__ import annotations

import base64
import binascii
import html
import math
import os
import re
import string
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote
from urllib.request import getproxies, getproxies_environment

from petsync.settings import Secret

__all__ = ["Redactor", "proxy_secrets"]


_SHORT = 4
_PREFIX, _LONG = 12, 16
_LEVELS = 5
_PACKED = 4
"""The greatest depth at which digits are decoded; the given text has the depth 0."""
_SEGMENT = 8
"""The minimum length of a run of decoded characters; shorter runs may be readable by chance."""
_APART = re.compile(
    r"(?<![0-9A-Za-z])(?:0[xX])?[0-9a-fA-F]{2}"
    r"(?:[\s:,;.-]{1,2}(?:0[xX])?[0-9a-fA-F]{2}(?![0-9a-fA-F])){3,}"
)
_PAIR = re.compile(r"(?:0[xX])?([0-9a-fA-F]{2})")
_HEX = re.compile("[0-9a-fA-F]{16,}")
_BASE64 = re.compile("[A-Za-z0-9+/]{12,}")
_DIGITS = frozenset(string.ascii_letters + string.digits + "+/")
_FOR_ADDRESSES = str.maketrans("-_", "+/")
_HEX_AS_LOWER = str.maketrans("ABCDEF", "abcdef")
_AS_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_Span = tuple[int, int]
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(
    r"(?P<pair>[\\%]u[dD][89abAB][0-9a-fA-F]{2}[\\%]u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\(?:u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>000[0-9a-fA-F]{5})|x(?P<x>[0-9a-fA-F]{2})"
    r"|u\{0*(?P<curly>[0-9a-fA-F]{1,5})\}|(?P<octal>[01][0-7]{2}|3[0-7]{2}(?:\\2[0-7]{2}){1,3})"
    r"|(?P<self>[^\r\n]))"
    r"|%u(?P<percent4>[0-9a-fA-F]{4})"
    r"|(?P<percent>%[0-7][0-9a-fA-F]|%[c-dC-D][0-9a-fA-F]%[89abAB][0-9a-fA-F]"
    r"|%[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}|%[fF][0-7](?:%[89abAB][0-9a-fA-F]){3})"
    r"|(?P<html>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?)"
    r"|(?P<join>\r?\n[ \t]*|[\u00ad\u200b])",
    re.VERBOSE,
)


class Redactor:
    """Replaces secrets in a text with `***`, or `stars`: call `redactor(text)`.

    A secret is found in upper and lower case; with the escapes of JSON, JavaScript, Python, C, URLs
    (`%2B`, `%2b`, `%252B`, `%u002B`), forms and HTML, nested up to five times; in base64 and
    base32, at any offset and broken into lines; and in hexadecimal digits, joined or separated
    (`5a 6b`, `5a:6b`, `0x5a, 0x6b`), of UTF-8 and UTF-16. Base64 and hexadecimal digits may
    contain any of these again, up to five levels deep.

    A secret of fewer than four characters is replaced only as a whole word. A prefix of at least
    twelve characters of a long secret is replaced too, because messages are truncated. The
    credentials of proxies in the environment are also secrets.
    """

    __slots__ = ("_base32", "_base64", "_hex", "_long", "_part", "_plus", "_secrets", "_stars")

    def __init__(self, secrets: Iterable[Secret], *, stars: str = "***") -> None:
        self._stars = stars
        texts = {
            text for secret in (*secrets, *proxy_secrets()) if (text := secret.reveal()).strip()
        }
        plain = {each for text in texts for each in _decoded_forms(text)}
        # The prefix of an address is not replaced, because many addresses begin with it.
        self._long = [each for each in plain if len(each) >= _LONG and "://" not in each]
        self._plus = any(" " in each for each in plain)
        patterns = [_plain_pattern(each, each in self._long) for each in plain if each.strip()]
        patterns.sort(key=lambda each: (-len(each), each))
        self._secrets = re.compile("|".join(patterns)) if patterns else None
        forms = {form for text in texts if len(text) >= _SHORT for form in _forms(text)}
        self._hex = {form.hex() for form in forms}
        self._base64 = {each for form in forms for each in _cores(form, base64.b64encode, 6)}
        self._base32 = {
            each
            for form in forms
            if len(form) >= _SEGMENT  # five letters may be a word
            for each in _cores(form, base64.b32encode, 5)
        }
        least = max(_SEGMENT, min(map(len, forms), default=0))
        self._part = re.compile(rb"[\t\n\r -~]{%d,}" % least) if forms else None

    def __call__(self, text: str) -> str:
        """Return the text without the secrets."""
        if self._secrets is None:
            return text
        found = self._find_all(text)
        return _mask_spans(text, found, self._stars) if found else text

    def __repr__(self) -> str:
        return "Redactor(***)"

    def _find_all(self, text: str, depth: int = 0) -> list[_Span]:
        found: list[_Span] = []
        parts: dict[str, list[tuple[_Level, _EncodedText]]] = {}
        for level in _readings(text):
            found += map(level.origin, self._find_secrets(level.text))
            found += map(level.origin, self._find_encoded(level.text))
            if self._part is not None and depth <= _PACKED:
                for packed in _decode_digits(level.text, self._part):
                    parts.setdefault(packed.text, []).append((level, packed))
        if self._plus and "+" in text:
            # A form writes a space as a plus sign, and a plus sign as an escape.
            for level in _readings(text.replace("+", " ")):
                found += map(level.origin, self._find_secrets(level.text))
        if parts:
            found += self._find_packed(parts, depth + 1)
        return found

    def _find_packed(
        self, parts: Mapping[str, Sequence[tuple[_Level, _EncodedText]]], depth: int
    ) -> Iterator[_Span]:
        """Yield the spans of secrets in decoded texts. All texts are searched together, because
        there may be many.
        """
        texts = [*parts]
        starts = [0, *accumulate(len(each) + 1 for each in texts)]
        for start, end in self._find_all("\0".join(texts), depth):
            n = bisect_right(starts, start) - 1
            inside = start - starts[n], min(end - starts[n], len(texts[n]))
            for level, packed in parts[texts[n]]:
                yield level.origin(_with_padding(level.text, *packed.origin(*inside)))

    def _find_secrets(self, text: str) -> Iterator[_Span]:
        """Yield the spans of secrets in plain characters."""
        assert self._secrets is not None
        for match in self._secrets.finditer(text):
            start = match.start()
            longer = (start + _common(text, start, long) for long in self._long)
            yield start, max((match.end(), *longer))

    def _find_encoded(self, text: str) -> Iterator[_Span]:
        """Yield the spans of secrets in digits: hexadecimal, base64 or base32."""
        yield from _find(text.translate(_HEX_AS_LOWER), self._hex)
        as_base64 = text.translate(_FOR_ADDRESSES)
        for start, end in _find(as_base64, self._base64):
            yield _with_neighbours(as_base64, start, end, _DIGITS)
        if self._base32:
            as_base32 = text.translate(_AS_UPPER)
            for start, end in _find(as_base32, self._base32):
                yield _with_neighbours(as_base32, start, end, _DIGITS)


def _readings(text: str) -> Iterator[_Level]:
    """Yield the text, then the text with one layer of escapes decoded, and so on."""
    level: _Level | None = _Level(text)
    for _ in range(_LEVELS + 1):
        if level is None:
            break
        yield level
        level = level.decode()


def proxy_secrets() -> tuple[Secret, ...]:
    """Return the secrets in the addresses of proxies: the password, or the user name if there is no
    password, and its encoded forms in the address and in a header.
    """
    found: list[Secret] = []
    for address in _proxy_addresses():
        credentials = address.rpartition("@")[0].rpartition("//")[2]
        user, _, password = credentials.partition(":")
        secret = password or user
        if secret:
            pair = f"{unquote(user)}:{unquote(password)}".encode()
            plain = (credentials, secret, unquote(secret), base64.b64encode(pair).decode())
            found += map(Secret, plain)
    return tuple(dict.fromkeys(found))


def _proxy_addresses() -> Iterable[str]:
    """Return the addresses of the environment's proxies, or else those of the system's settings.

    The variables are read each time, because they may change; `getproxies` reads the values of all
    variables, which takes longer than masking a message.
    """
    names = [name for name in os.environ if name[-6:].lower() == "_proxy"]
    given = [value for name in names if (value := os.environ.get(name))]
    return given if given or getproxies is getproxies_environment else getproxies().values()


class _Piece(NamedTuple):
    """One decoded escape: its span in the decoded text, and its span in the source."""

    start: int
    end: int
    source: int
    source_end: int


class _Level:
    """A text after some layers of escapes were decoded. `below` is the text one layer before, None
    for the original, and `pieces` are the escapes that were decoded from it.
    """

    __slots__ = ("_below", "_pieces", "_starts", "text")

    def __init__(
        self, text: str, pieces: Sequence[_Piece] = (), below: _Level | None = None
    ) -> None:
        self.text, self._pieces, self._below = text, pieces, below
        self._starts = [piece.start for piece in pieces]

    def decode(self) -> _Level | None:
        """Return the text with one layer of escapes decoded; None if it has no escapes."""
        pieces: list[_Piece] = []
        parts: list[str] = []
        at = length = 0
        for match in _ESCAPE.finditer(self.text):
            new = _meaning(match)
            if new == match[0]:
                continue
            parts += (self.text[at : match.start()], new)
            length += match.start() - at
            pieces.append(_Piece(length, length + len(new), *match.span()))
            length += len(new)
            at = match.end()
        return _Level("".join((*parts, self.text[at:])), pieces, self) if pieces else None

    def origin(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the span in the original text."""
        if self._below is None:
            return span
        return self._below.origin((self._source(span[0])[0], self._source(span[1] - 1)[1]))

    def _source(self, at: int) -> tuple[int, int]:
        """Return the span, in the text `below`, of the character at `at`."""
        n = bisect_right(self._starts, at) - 1
        if n < 0:
            return at, at + 1
        piece = self._pieces[n]
        if at < piece.end:
            return piece.source, piece.source_end
        place = piece.source_end + at - piece.end
        return place, place + 1


def _meaning(match: re.Match[str]) -> str:
    """Return the decoded text of an escape."""
    kind, text = match.lastgroup, match[0]
    if kind == "pair":
        high, low = int(text[2:6], 16), int(text[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if kind in ("u4", "u8", "x", "curly", "percent4"):
        return chr(int(match[kind], 16))
    if kind == "octal":
        return bytes(int(each, 8) for each in text[1:].split("\\")).decode("utf-8", "replace")
    if kind == "self":
        return _CONTROLS.get(match["self"], match["self"])
    if kind == "percent":
        return bytes.fromhex(text.replace("%", "")).decode("utf-8", "replace")
    return html.unescape(text) if kind == "html" else ""


def _decoded_forms(text: str) -> set[str]:
    """Return the secret, and its decoded forms."""
    found: set[str] = set()
    level: _Level | None = _Level(text)
    while level is not None and len(found) <= _LEVELS:
        found.add(level.text)
        level = level.decode()
    return found


def _plain_pattern(text: str, is_long: bool) -> str:
    if len(text) < _SHORT:
        return rf"(?<!\w)(?i:{re.escape(text)})(?!\w)"
    return rf"(?i:{re.escape(text[:_PREFIX] if is_long else text)})"


def _forms(text: str) -> set[bytes]:
    """Return the bytes of the secret: plain in UTF-8 and UTF-16, and encoded as in URLs and
    forms.
    """
    percent = quote(text, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), percent)
    forms = {text, quote(text), percent, lower, quote_plus(text)}
    wide = {text.encode(each, "surrogatepass") for each in ("utf-16-le", "utf-16-be")}
    return wide | {form.encode("utf-8", "surrogateescape") for form in forms}


def _cores(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """Yield, for each alignment of the data, the digits (of `bits` bits each) that depend only on
    the data.
    """
    for before in range(bits // math.gcd(bits, 8)):
        raw = encode(b"\0" * before + data + b"\0" * bits).decode()
        yield raw[-(-8 * before // bits) : 8 * (before + len(data)) // bits]


def _find(text: str, needles: Iterable[str]) -> Iterator[_Span]:
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            yield at, at + len(needle)
            at = text.find(needle, at + len(needle))


def _with_neighbours(text: str, start: int, end: int, digits: Collection[str]) -> _Span:
    """Return the span extended by the adjacent digits, which may contain some of the secret's bits,
    and by padding.
    """
    if start and text[start - 1] in digits:
        start -= 1
    if end < len(text) and text[end] in digits:
        end += 1
    return _with_padding(text, start, end)


def _with_padding(text: str, start: int, end: int) -> _Span:
    """Return the span with the padding of base64 or base32 after it."""
    while end < len(text) and text[end] == "=":
        end += 1
    return start, end


class _EncodedText(NamedTuple):
    """A text decoded from digits, or joined from separated digits, and the position of the
    digits.
    """

    text: str
    at: int
    """The position at which the digits begin."""
    first: int = 0
    """The index of the first decoded character that is part of the text."""
    size: int = 2
    """The number of characters that `digits` digits encode."""
    digits: int = 2
    pairs: Sequence[_Span] = ()
    """The spans of separated digits."""

    def origin(self, start: int, end: int) -> _Span:
        """Return the span of the digits of a part of the text."""
        if self.pairs:
            first, last = self.pairs[start // 2][0], self.pairs[(end - 1) // 2][1]
        else:
            first = (self.first + start) * self.digits // self.size
            last = -(-(self.first + end) * self.digits // self.size)
        return self.at + first, self.at + last


def _decode_digits(text: str, part: re.Pattern[bytes]) -> Iterator[_EncodedText]:
    """Yield separated hexadecimal digits without their separators. Also decode runs of hexadecimal
    and base64 digits, and yield the parts of the decoded bytes that match `part`.
    """
    for run in _APART.finditer(text):
        pairs = [*_PAIR.finditer(run[0])]
        joined = "".join(pair[1] for pair in pairs)
        yield _EncodedText(joined, run.start(), pairs=[pair.span() for pair in pairs])
    for run in _HEX.finditer(text):
        for at in range(run.start(), run.start() + 2):
            data = bytes.fromhex(text[at : run.end() - (run.end() - at) % 2])
            for found in part.finditer(data):
                yield _EncodedText(found[0].decode("ascii"), at, found.start(), 1, 2)
    for run in _BASE64.finditer(text.translate(_FOR_ADDRESSES)):
        for before in range(4):
            digits = run[0][before:]
            digits = digits[:-1] if len(digits) % 4 == 1 else digits
            data = binascii.a2b_base64(digits + "=" * (-len(digits) % 4))
            for found in part.finditer(data):
                yield _EncodedText(
                    found[0].decode("ascii"), run.start() + before, found.start(), 3, 4
                )


def _common(text: str, at: int, secret: str) -> int:
    """Return the length of the common prefix of the text at `at` and the secret, ignoring case; 0
    if it is too short.
    """
    same = 0
    for one, other in zip(text[at : at + len(secret)], secret, strict=False):
        if one != other and one.lower() != other.lower():
            break
        same += 1
    return same if same >= _PREFIX else 0


def _mask_spans(text: str, spans: Iterable[tuple[int, int]], stars: str) -> str:
    """Return the text with the spans replaced by stars; overlapping spans get one replacement."""
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += (text[done:start], stars)
        done = max(done, end)
    return "".join((*parts, text[done:]))
