"""Decoders of JSON that threads can share."""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

__all__ = ["decoder_of"]

T = TypeVar("T")
_lock = threading.Lock()


def decoder_of(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]:
    """Return the decoder of JSON into this type.

    msgspec examines a type when its first decoder is built, and another thread that needs the type
    meanwhile ends the process. So every decoder of petsync is built here, one at a time.
    """
    with _lock:
        return msgspec.json.Decoder(kind, strict=strict)
