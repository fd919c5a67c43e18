"""The parts of a running sandbox, in one value for all handlers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from petsync.sandbox.faults import Injector
from petsync.sandbox.http import Behaviour
from petsync.sandbox.storage import Storage
from petsync.sandbox.tokens import AccessGuard, Codes, Credentials, TokenBook

__all__ = ["BASE", "Service"]


BASE = "/v2"
"""The common prefix of the paths of all operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running sandbox. `origin` is its scheme, host and port; `guard` is None if no
    token is required.
    """

    behaviour: Behaviour
    storage: Storage
    origin: str
    credentials: Credentials
    tokens: TokenBook
    guard: AccessGuard | None
    faults: Injector
    codes: Codes = field(default_factory=Codes)
    requests: Counter[str] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        """The base URL of the operations."""
        return self.origin + BASE
