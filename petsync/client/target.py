"""The service as the engine's Target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from petsync.client.api import AsyncApi
from petsync.errors import NotFoundError
from petsync.model import Pet
from petsync.wire import calls

__all__ = ["ServiceTarget"]

Again = Callable[[], Awaitable[None]]


class ServiceTarget:
    """One service, through its operations; fits petsync.apply.target.Target."""

    def __init__(self, api: AsyncApi) -> None:
        self._api = api
        self._session = api.session
        self._profile = api.session.profile

    async def get(self, pet_id: int) -> Pet | None:
        """The pet as it is now, None for a 404."""
        try:
            return await self._api.get_pet_by_id(pet_id)
        except NotFoundError:
            return None

    async def add(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By addPet."""
        return await self._session.send(calls.add_pet(pet, profile=self._profile), again=again)

    async def replace(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By updatePet."""
        return await self._session.send(calls.update_pet(pet, profile=self._profile), again=again)

    async def rename(
        self, pet_id: int, *, name: str | None, status: str | None, again: Again | None = None
    ) -> None:
        """By updatePetWithForm."""
        call = calls.update_pet_with_form(pet_id, name=name, status=status, profile=self._profile)
        await self._session.send(call, again=again)

    async def delete(self, pet_id: int, *, again: Again | None = None) -> None:
        """By deletePet."""
        await self._session.send(calls.delete_pet(pet_id, profile=self._profile), again=again)

    async def all(self) -> list[Pet]:
        """The union of the profile's status queries."""
        return await self._api.find_pets_by_status(self._profile.statuses)
