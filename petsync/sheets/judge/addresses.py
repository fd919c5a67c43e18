"""What does not look like a photo's address, and what may be meant by it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["meant", "strange"]

_LIKE = ("http://", "https://", "data:", "/")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):/{1,3}(.*)", re.IGNORECASE | re.DOTALL)
_WEB = ("http", "https")
_SITE = re.compile(r"(?:www\.|(?:[a-z0-9-]+\.)+[a-z]{2,}/)\S+", re.IGNORECASE)
_WRAPPED = re.compile(r"!?(?:\[[^\]]*\])?[<(](https?://[^\s<>()]+)[>)]", re.IGNORECASE)
_LOCAL = re.compile(r"[a-z]:[\\/]|\\\\|file:", re.IGNORECASE)

_OF_COMPUTER = (
    "This is a file on somebody's computer: upload the photo and write its address, which begins "
    "with https://."
)


def strange(urls: Iterable[str]) -> list[str]:
    """Those of the addresses that a store can hardly show: files of a computer, words, typing
    errors; other schemes, and paths of the store's own, are left alone.
    """
    return [url for url in urls if not url.casefold().startswith(_LIKE) and _is_strange(url)]


def meant(url: str) -> tuple[str, str]:
    """A suggestion for a strange address, "" if there is none beyond the rule's own; and the
    address that may be meant, "" if there is none.
    """
    if _LOCAL.match(url):
        return _OF_COMPUTER, ""
    wrapped = _WRAPPED.fullmatch(url)
    if wrapped:
        return _told(wrapped[1])
    scheme = _SCHEME.fullmatch(url)
    if scheme:
        return _told(f"{_near(scheme[1]) or 'https'}://{scheme[2]}")
    return _told(f"https://{url}") if _SITE.fullmatch(url) else ("", "")


def _told(address: str) -> tuple[str, str]:
    return f"It may be {address}.", address


def _is_strange(url: str) -> bool:
    scheme = _SCHEME.fullmatch(url)
    return scheme is None or "://" not in url or bool(_LOCAL.match(url) or _near(scheme[1]))


def _near(scheme: str) -> str:
    """The web's scheme that this one is, or that it is a typing error for; "" if neither."""
    plain = scheme.casefold()
    return next(iter(difflib.get_close_matches(plain, _WEB, n=1, cutoff=0.7)), "")
