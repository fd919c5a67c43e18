"""Text from outside as a notice may carry it: one line that no receiver takes for markup."""

from __future__ import annotations

import re

from petsync.render.visible import shorten, visible

__all__ = ["plain"]

_WIDEST = 300
_MARKUP = re.compile(
    r"[<>\[\]*|]"  # HTML, links and mentions, emphasis, spoilers
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis, but no name_with_words
    r"|~~|(?<!\w)@"  # struck out, @everyone
    r"|(?<=:)//"  # an address that would become a link
    r"|^[#>+-]"  # a heading, a quotation, a list
)


def plain(text: str, width: int = _WIDEST) -> str:
    """The text, at most `width` cells wide: whatever steers or hides is named as `[NUL]` is, and
    what chat programs and mail take for markup is written in full-width characters, or as '.
    """
    return _MARKUP.sub(_wide, shorten(visible(text), width).replace("`", "'"))


def _wide(found: re.Match[str]) -> str:
    return "".join(chr(ord(char) + 0xFEE0) for char in found[0])
