"""Places: what tells stores apart, however their addresses are written."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["Place", "place_of"]


class Place(NamedTuple):
    """A store's: not the letters' case, and no port that goes without saying."""

    scheme: str
    host: str
    port: int | None
    path: str


def place_of(url: str) -> Place:
    """Where the store of this address is."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return Place(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))
