"""The service as the engine's Target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from petsync.client.api import AsyncApi
from petsync.errors import ApiError, NotFoundError
from petsync.model import ApiResponse, Pet
from petsync.wire import calls
from petsync.wire.message import Call
from petsync.wire.traffic import Traffic

__all__ = ["ServiceTarget"]

T = TypeVar("T")
Again = Callable[[ApiError], Awaitable[None]]
Hold = Callable[[], Awaitable[None]]


class ServiceTarget:
    """One service, through its operations; fits petsync.apply.target.Target. It counts the traffic
    from when it is made. `hold`, where it is set, is awaited just before each attempt to change
    anything, when nothing is waited for any more; by raising it keeps the request from being sent.
    """

    hold: Hold | None = None

    def __init__(self, api: AsyncApi) -> None:
        self._api = api
        self._session = api.session
        self._profile = api.session.profile
        self._mark = api.session.traffic()

    @property
    def traffic(self) -> Traffic:
        """How the session's requests go just now."""
        return self._session.traffic_since(self._mark)

    @property
    def assigns_unique_ids(self) -> bool:
        """As the service's profile says."""
        return self._profile.assigns_unique_ids

    async def get(self, pet_id: int) -> Pet | None:
        """The pet as it is now, None for a 404."""
        try:
            return await self._sent(calls.get_pet_by_id(pet_id, profile=self._profile))
        except NotFoundError:
            return None

    async def add(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By addPet."""
        call = calls.add_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._sent(call, again=again)

    async def replace(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By updatePet."""
        call = calls.update_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._sent(call, again=again)

    async def rename(
        self, pet_id: int, *, name: str | None, status: str | None, again: Again | None = None
    ) -> None:
        """By updatePetWithForm."""
        call = calls.update_pet_with_form(pet_id, name=name, status=status, profile=self._profile)
        await self._sent(call, again=again)

    async def delete(self, pet_id: int, *, again: Again | None = None) -> None:
        """By deletePet."""
        await self._sent(calls.delete_pet(pet_id, profile=self._profile), again=again)

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
        """By uploadFile; `on_sent` is told about every 64 KiB."""
        call = calls.upload_file(
            pet_id,
            file=content,
            filename=filename,
            additional_metadata=metadata,
            profile=self._profile,
        )
        told = None if on_sent is None else _of_content(call.request.body, content, on_sent)
        return await self._sent(call, again=again, on_sent=told)

    async def _sent(
        self,
        call: Call[T],
        *,
        again: Again | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> T:
        """Unlike a person, a run waits for a service that has gone away."""
        hold = None if call.request.method == "GET" else self.hold
        return await self._session.send(call, again=again, on_sent=on_sent, hold=hold, patient=True)

    async def all(self, statuses: Collection[str] = ()) -> list[Pet]:
        """The union of the queries for the profile's statuses and for these."""
        asked = list(dict.fromkeys((*self._profile.statuses, *statuses)))
        return await self._api.find_pets_by_status(asked)


def _of_content(
    body: bytes, content: bytes, on_sent: Callable[[int], None]
) -> Callable[[int], None]:
    """Tells of the content what it is told of the body around it."""
    head = body.rindex(content)

    def tell(sent: int) -> None:
        on_sent(min(max(sent - head, 0), len(content)))

    return tell
