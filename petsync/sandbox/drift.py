"""Answers that disagree with each other: pets listed twice, as they were, or on the move."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from petsync.model import Pet
from petsync.sandbox import records
from petsync.wire import json

__all__ = ["KEY", "NONE", "Drift", "Move", "drift_of"]

KEY = "petsync.drift"
"""Where a request that is hit has its Drift, in the scope's `state`."""

Move = tuple[int, str]
"""A pet's id, and the status that it gets, or "" where it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How one answer is falsified: `twice` and `stale` are the shares of its pets that come a
    second time, as they are and under a name that is not theirs; `moves` are carried out behind
    it. The same pet is always hit by the same `seed`.
    """

    twice: float = 0.0
    stale: float = 0.0
    seed: int = 0
    moves: tuple[Move, ...] = ()

    def repeated(self, bodies: list[bytes]) -> list[bytes]:
        """The pets with their copies, each behind its pet."""
        if not self.twice + self.stale:
            return bodies
        return [each for body in bodies for each in (body, *self._copies(body))]

    def move(self, connection: sqlite3.Connection) -> None:
        """Give the pets of `moves` that are there their new status."""
        for number, status in self.moves:
            body = records.find(connection, number)
            if body is not None and status:
                pet = json.decode_pet(body)
                records.save(connection, msgspec.structs.replace(pet, status=status))
            elif body is not None:
                records.remove(connection, number)

    def _copies(self, body: bytes) -> Iterator[bytes]:
        digest = hashlib.blake2b(b"%d:%b" % (self.seed, body), digest_size=8).digest()
        draw = int.from_bytes(digest) / 2**64
        if draw < self.twice:
            yield body
        elif draw < self.twice + self.stale:
            yield json.encode_pet(_as_it_was(json.decode_pet(body)))


NONE = Drift()
"""An answer as it is."""


def drift_of(request: Request) -> Drift:
    """How the request's answer is to be falsified."""
    drift: Drift = request.scope.get("state", {}).get(KEY, NONE)
    return drift


def _as_it_was(pet: Pet) -> Pet:
    return msgspec.structs.replace(pet, name=f"{pet.name or ''} (as it was)".strip())
