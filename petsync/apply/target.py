"""Target: what the engine needs of a store. The client is one; tests have their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from petsync.errors import ApiError
from petsync.model import ApiResponse, Pet
from petsync.wire.traffic import Traffic

__all__ = ["Again", "Target"]

Again = Callable[[ApiError], Awaitable[None]]
"""Awaited before a request is sent once more, with the error of the attempt before; what it raises
ends the attempts.
"""


class Target(Protocol):
    """A store, one pet at a time. Errors are those of petsync.errors; each call retries what is
    safe to repeat by itself, and an error's `may_have_happened` is honest. Time passes between
    two attempts, so a change takes `again`, which looks whether it still is to be sent.
    UnavailableError says that the service has been failing for too long to go on.
    """

    @property
    def traffic(self) -> Traffic:
        """How the requests go just now."""

    @property
    def assigns_unique_ids(self) -> bool:
        """Whether each id that the service assigns to a new pet is that pet's alone."""

    async def get(self, pet_id: int) -> Pet | None:
        """The pet as it is now, None if there is none."""

    async def add(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """Add the pet, once; the answer carries its id."""

    async def replace(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """Replace the whole pet of that id."""

    async def rename(
        self, pet_id: int, *, name: str | None, status: str | None, again: Again | None = None
    ) -> None:
        """Change name and status only, by the form operation; None is left out."""

    async def delete(self, pet_id: int, *, again: Again | None = None) -> None:
        """Delete the pet."""

    async def upload(
        self,
        pet_id: int,
        content: bytes,
        *,
        filename: str,
        metadata: str | None = None,
        again: Again | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> ApiResponse:
        """Upload an image; repeated only where the service surely did nothing with it. `on_sent`
        is told how many bytes of `content` have gone out, all in all, in this attempt.
        """

    async def all(self, statuses: Collection[str] = ()) -> list[Pet]:
        """Every pet that the service's queries list; also those of `statuses`, if there are any
        that it is not asked for anyway.
        """
