"""The service as the target of the apply engine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from petsync.client.api import AsyncApi
from petsync.client.origin import encode_url
from petsync.client.session import PHOTO, Session
from petsync.errors import ApiError, InvalidInputError, NotFoundError
from petsync.models import ApiResponse, Pet
from petsync.protocol import operations
from petsync.protocol.operations import Call, Request, Traffic, error_for

__all__ = ["ServiceTarget", "photo", "target_of"]


# A photo that the service itself serves; nothing else is ever fetched from an address in a pet.


async def photo(session: Session, url: str) -> bytes:
    """The content behind the address. Raises InvalidInputError for one that is not the service's
    own, without asking anybody, and ApiError where the service does not give it.
    """
    target = target_of(session.base_url, url)
    if target is None:
        raise InvalidInputError(
            f"a photo: this address is not below {session.base_url}, and nothing else is fetched"
        )
    request = Request(operation=PHOTO, method="GET", target=target, headers={"accept": "image/*"})
    answer = await session.answer(request)
    if answer.status != 200:
        raise error_for(answer, request, datetime.now(UTC), session.credentials.mask)
    return answer.body


def target_of(base_url: str, url: str) -> str | None:
    """What of the address follows the base URL; None where it leads anywhere else."""
    try:
        base, whole = encode_url(base_url), encode_url(url)
        path = unquote(urlsplit(whole).path)
    except (ValueError, httpx.InvalidURL):
        return None
    target = whole.partition("#")[0].removeprefix(base)
    if len(target) == len(whole.partition("#")[0]) or not target.startswith("/"):
        return None
    # Neither the client nor a server may walk out of the base by the way.
    return None if re.search(r"(^|[/\\])\.\.?([/\\]|$)", path) else target


# The service as the engine's Target.


T = TypeVar("T")
Again = Callable[[ApiError], Awaitable[None]]
Hold = Callable[[], Awaitable[None]]


class ServiceTarget:
    """One service, through its operations; fits petsync.apply.engine.Target. It counts the traffic
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
            return await self._send(operations.get_pet_by_id(pet_id, profile=self._profile))
        except NotFoundError:
            return None

    async def add(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By addPet."""
        call = operations.add_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._send(call, again=again)

    async def replace(self, pet: Pet, *, again: Again | None = None) -> Pet:
        """By updatePet."""
        call = operations.update_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._send(call, again=again)

    async def rename(
        self, pet_id: int, *, name: str | None, status: str | None, again: Again | None = None
    ) -> None:
        """By updatePetWithForm."""
        call = operations.update_pet_with_form(
            pet_id, name=name, status=status, profile=self._profile
        )
        await self._send(call, again=again)

    async def delete(self, pet_id: int, *, again: Again | None = None) -> None:
        """By deletePet."""
        await self._send(operations.delete_pet(pet_id, profile=self._profile), again=again)

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
        call = operations.upload_file(
            pet_id,
            file=content,
            filename=filename,
            additional_metadata=metadata,
            profile=self._profile,
        )
        told = None if on_sent is None else _of_content(call.request.body, content, on_sent)
        return await self._send(call, again=again, on_sent=told)

    async def _send(
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
