"""Secrets taken out of a text, in whatever form they are written there."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from petsync.settings import Secret

__all__ = ["Redactor"]

_SHORT = 4


class Redactor:
    """`redactor(text)` is the text with `***`, or `stars`, for each secret: as it is, quoted
    for an address, for HTML, for JSON and for Python, and in base64 wherever it begins in there.

    What has less than four characters is replaced only where it stands as a word.
    """

    __slots__ = ("_stars", "_wanted")

    def __init__(self, secrets: Iterable[Secret], *, stars: str = "***") -> None:
        self._stars = stars
        texts = {secret.reveal() for secret in secrets}
        long = {form for text in texts if len(text) >= _SHORT for form in _forms(text)}
        short = {text for text in texts if text.strip() and len(text) < _SHORT}
        parts = [re.escape(form) for form in sorted(long, key=len, reverse=True)]
        parts += [rf"(?<!\w){re.escape(text)}(?!\w)" for text in sorted(short)]
        self._wanted = re.compile("|".join(parts)) if parts else None

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        return text if self._wanted is None else self._wanted.sub(self._stars, text)

    def __repr__(self) -> str:
        return "Redactor(***)"


def _forms(text: str) -> set[str]:
    """The text as it may be written; of base64 only what no neighbour of it changes."""
    forms = {text, quote(text), quote(text, safe=""), quote_plus(text), html.escape(text)}
    forms |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    forms |= {form.replace("/", "\\/") for form in list(forms)}
    for before in (0, 1, 2):
        raw = base64.b64encode(b"\0" * before + text.encode("utf-8", "surrogateescape")).decode()
        whole = (before + len(text.encode("utf-8", "surrogateescape"))) // 3 * 4
        inner = raw[4 if before else 0 : whole]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= _SHORT}
