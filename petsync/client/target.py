"""The service as the engine's Target."""

from __future__ import annotations

from petsync.client.api import AsyncApi
from petsync.errors import NotFoundError
from petsync.model import Pet

__all__ = ["ServiceTarget"]


class ServiceTarget:
    """One service, through its operations; fits petsync.apply.target.Target."""

    def __init__(self, api: AsyncApi) -> None:
        self._api = api

    async def get(self, pet_id: int) -> Pet | None:
        """The pet as it is now, None for a 404."""
        try:
            return await self._api.get_pet_by_id(pet_id)
        except NotFoundError:
            return None

    async def add(self, pet: Pet) -> Pet:
        """By addPet."""
        return await self._api.add_pet(pet)

    async def replace(self, pet: Pet) -> Pet:
        """By updatePet."""
        return await self._api.update_pet(pet)

    async def rename(self, pet_id: int, *, name: str | None, status: str | None) -> None:
        """By updatePetWithForm."""
        await self._api.update_pet_with_form(pet_id, name=name, status=status)

    async def delete(self, pet_id: int) -> None:
        """By deletePet."""
        await self._api.delete_pet(pet_id)

    async def all(self) -> list[Pet]:
        """The union of the profile's status queries."""
        return await self._api.find_pets_by_status(self._api.session.profile.statuses)
