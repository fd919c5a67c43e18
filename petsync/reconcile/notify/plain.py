"""Text from outside as a notice may carry it: one line that no receiver takes for markup."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from petsync.render.visible import shorten, visible

__all__ = ["origins", "plain"]

_WIDEST = 300
_LIKE = str.maketrans("<>*|_`", "‹›∗¦‗'")
_MARKUP = re.compile(
    r"(?P<like>[<>*|`]|(?<![^\W_])_|_(?![^\W_]))"  # HTML, mentions, emphasis; no name_with_words
    r"|\](?=[(\[:])|~(?=~)"  # a link, struck out
    r"|(?<!\w)@(?=\w)"  # @everyone
    r"|(?P<address>\b[A-Za-z][A-Za-z0-9+.-]*)?:(?=//)"  # an address that would become a link
    r"|(?P<start>^[#>+-])"  # a heading, a quotation, a list
)
_ENDS = re.compile(r"[/?#'\",;)\s]|[.:]?(?:\s|$)")
"""What may follow an address's host."""


def origins(urls: Collection[str]) -> tuple[str, ...]:
    """Of the services' addresses, scheme and host: an address there is one to copy."""
    split = (urlsplit(url) for url in urls)
    return tuple(dict.fromkeys(f"{u.scheme}://{u.netloc}" for u in split if u.netloc))


def plain(text: str, width: int = _WIDEST, *, known: Collection[str] = ()) -> str:
    """The text, at most about `width` cells wide: whatever steers or hides is named as `[NUL]` is,
    and what chat programs and mail take for markup is broken by a space, or written with a
    character that looks like it. Addresses of the `known` origins stay whole.
    """

    def broken(found: re.Match[str]) -> str:
        if found["like"]:
            return found[0].translate(_LIKE)
        if found["start"]:
            return f"· {found[0]}"
        return found[0] if found["address"] and _is_known(found, known) else f"{found[0]} "

    return _MARKUP.sub(broken, shorten(visible(text), width))


def _is_known(found: re.Match[str], known: Collection[str]) -> bool:
    rest = found.string[found.start() :]
    return any(rest.startswith(one) and _ENDS.match(rest, len(one)) for one in known)
