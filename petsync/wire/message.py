"""An operation's request, the service's response, and the Call that ties the two together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Call", "Request", "Response"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send: `target` is the path and query below the base URL, already percent-encoded.

    `repeatable` says that sending it twice leaves the store as sending it once does.
    """

    operation: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    pet_id: int | None = None
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, whole: header names are in lower case. Services repeat what they were sent,
    so a verbose traceback shows neither headers nor body.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def media(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how its successful response is read."""

    request: Request
    read: Callable[[Response], T]
