"""Texts whose UTF-8 was taken for Windows-1252, which is how `Zoë` becomes `ZoÃ«`."""

from __future__ import annotations

import re

__all__ = ["repaired"]

_BYTES = {bytes([n]).decode("cp1252", "ignore") or chr(n): n for n in range(0x80, 0x100)}
"""What the bytes from 80 on are taken for; the five that mean nothing, for control characters."""
_OTHERS = re.compile(f"([^\\x00-\\x7f{re.escape(''.join(_BYTES))}]+)")


def repaired(text: str) -> str:
    """What the text was before; "" where it was not misread.

    Each part between characters that Windows-1252 does not have is judged alone.
    """
    before = "".join(_decoded(part) for part in _OTHERS.split(text))
    return before if before != text else ""


def _decoded(part: str) -> str:
    try:
        return bytes(_BYTES.get(char, ord(char)) for char in part).decode()
    except ValueError:
        return part
