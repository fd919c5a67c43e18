"""Secrets taken out of a text, however they are encoded in it: the one place that masks."""

from __future__ import annotations

import base64
import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote
from urllib.request import getproxies

from petsync.settings import Secret

__all__ = ["Redactor", "proxy_secrets"]


_SHORT = 4
_PREFIX, _LONG = 12, 16
_LEVELS = 5
_DIGIT = "[A-Za-z0-9+/_-]"
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\(?:u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>000[0-9a-fA-F]{5})|x(?P<x>[0-9a-fA-F]{2}))"
    r"|\\(?P<self>[^\r\n])"
    r"|(?P<percent>%[0-7][0-9a-fA-F]|%[c-dC-D][0-9a-fA-F]%[89abAB][0-9a-fA-F]"
    r"|%[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}|%[fF][0-7](?:%[89abAB][0-9a-fA-F]){3})"
    r"|(?P<html>&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?)"
    r"|(?P<join>\r?\n[ \t]*|[\u00ad\u200b])",
    re.VERBOSE,
)


class Redactor:
    """`redactor(text)` is the text with `***`, or `stars`, for each secret: as it is, in any case,
    and as JSON, Python, addresses (`%2B`, `%2b`, `%252B`), forms and HTML write it, nested up to
    five times; in base64, wherever it begins in there, and in hexadecimal digits.

    A secret of less than four characters is replaced only where it stands as a word. The first
    twelve characters and more of a long one are replaced too: messages are cut. The passwords of
    the environment's proxies are secrets as well, whether they are given or not.
    """

    __slots__ = ("_long", "_plus", "_stars", "_wanted")

    def __init__(self, secrets: Iterable[Secret], *, stars: str = "***") -> None:
        self._stars = stars
        texts = {
            text for secret in (*secrets, *proxy_secrets()) if (text := secret.reveal()).strip()
        }
        plain = {each for text in texts for each in _levels(text)}
        # An address begins as many others do.
        self._long = [each for each in plain if len(each) >= _LONG and "://" not in each]
        self._plus = any(" " in each for each in plain)
        patterns = [_plain(each, each in self._long) for each in plain if each.strip()]
        patterns += [
            each for text in texts if len(text) >= _SHORT for each in _iter_encoded_patterns(text)
        ]
        patterns.sort(key=lambda each: (-len(each), each))
        self._wanted = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        if self._wanted is None:
            return text
        found = [span for each in self._readings(text) for span in self._find_secrets(each)]
        return _mask_spans(text, found, self._stars) if found else text

    def __repr__(self) -> str:
        return "Redactor(***)"

    def _readings(self, text: str) -> Iterator[_Level]:
        """The text, with one layer of escapes less, and so on."""
        # A form writes a blank as a plus sign, and what is a plus sign as an escape.
        plus = [text.replace("+", " ")] if self._plus and "+" in text else []
        for each in (text, *plus):
            level: _Level | None = _Level(each)
            for _ in range(_LEVELS + 1):
                if level is None:
                    break
                yield level
                level = level.decode()

    def _find_secrets(self, level: _Level) -> Iterator[tuple[int, int]]:
        """Where in the text as it was given a secret stands."""
        assert self._wanted is not None
        for match in self._wanted.finditer(level.text):
            start = match.start()
            longer = (start + _common(level.text, start, long) for long in self._long)
            yield level.origin((start, max((match.end(), *longer))))


def proxy_secrets() -> tuple[Secret, ...]:
    """What must not be seen of the proxies that the environment names: the password, or the user
    where it is all that authorises, and the header that is made of both.
    """
    found: list[Secret] = []
    for address in getproxies().values():
        given = address.rpartition("@")[0].rpartition("//")[2]
        user, _, password = given.partition(":")
        secret = password or user
        if secret:
            pair = f"{unquote(user)}:{unquote(password)}".encode()
            plain = (given, secret, unquote(secret), base64.b64encode(pair).decode())
            found += map(Secret, plain)
    return tuple(dict.fromkeys(found))


class _Piece(NamedTuple):
    """What one escape became: where that stands in the decoded text, and the escape before it."""

    start: int
    end: int
    source: int
    source_end: int


class _Level:
    """A text; `below` is the same with one more layer of escapes, which the pieces tell."""

    __slots__ = ("_below", "_pieces", "_starts", "text")

    def __init__(
        self, text: str, pieces: Sequence[_Piece] = (), below: _Level | None = None
    ) -> None:
        self.text, self._pieces, self._below = text, pieces, below
        self._starts = [piece.start for piece in pieces]

    def decode(self) -> _Level | None:
        """The text with one layer of escapes less; None where it has none."""
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
        """Where in the lowest text that stands."""
        if self._below is None:
            return span
        return self._below.origin((self._source(span[0])[0], self._source(span[1] - 1)[1]))

    def _source(self, at: int) -> tuple[int, int]:
        """The characters below that became the one at `at`."""
        n = bisect_right(self._starts, at) - 1
        if n < 0:
            return at, at + 1
        piece = self._pieces[n]
        if at < piece.end:
            return piece.source, piece.source_end
        place = piece.source_end + at - piece.end
        return place, place + 1


def _meaning(match: re.Match[str]) -> str:
    """The text that an escape stands for."""
    kind, text = match.lastgroup, match[0]
    if kind == "pair":
        high, low = int(text[2:6], 16), int(text[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if kind in ("u4", "u8", "x"):
        return chr(int(match[kind], 16))
    if kind == "self":
        return _CONTROLS.get(match["self"], match["self"])
    if kind == "percent":
        return bytes.fromhex(text.replace("%", "")).decode("utf-8", "replace")
    return html.unescape(text) if kind == "html" else ""


def _levels(text: str) -> set[str]:
    """The secret as it is, and as it becomes where a text is decoded around it."""
    found: set[str] = set()
    level: _Level | None = _Level(text)
    while level is not None and len(found) <= _LEVELS:
        found.add(level.text)
        level = level.decode()
    return found


def _plain(text: str, is_long: bool) -> str:
    """A regular expression for the text itself."""
    if len(text) < _SHORT:
        return rf"(?<!\w)(?i:{re.escape(text)})(?!\w)"
    return rf"(?i:{re.escape(text[:_PREFIX] if is_long else text)})"


def _iter_encoded_patterns(text: str) -> Iterator[str]:
    """Regular expressions for what does not encode the text character by character."""
    percent = quote(text, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), percent)
    for form in {text, quote(text), percent, lower, quote_plus(text)}:
        data = form.encode("utf-8", "surrogateescape")
        yield rf"(?i:{data.hex()})"
        for before in range(3):
            raw = base64.b64encode(b"\0" * before + data + b"\0\0").decode()
            bits = 8 * (before + len(data))
            core = re.escape(raw[-(-8 * before // 6) : bits // 6])
            core = core.replace(r"\+", "[+-]").replace("/", "[/_]")
            # A character that has bits of a neighbour in it goes too, whatever it is.
            first, last = (_DIGIT if before else ""), (f"{_DIGIT}?=*" if bits % 6 else "")
            yield f"{first}{core}{last}"


def _common(text: str, at: int, secret: str) -> int:
    """How many characters of the secret the text has there, the case aside; 0 for few."""
    same = 0
    for one, other in zip(text[at : at + len(secret)], secret, strict=False):
        if one != other and one.lower() != other.lower():
            break
        same += 1
    return same if same >= _PREFIX else 0


def _mask_spans(text: str, spans: Iterable[tuple[int, int]], stars: str) -> str:
    """The text with the stars for each of the spans; those that overlap are one."""
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += (text[done:start], stars)
        done = max(done, end)
    return "".join((*parts, text[done:]))
