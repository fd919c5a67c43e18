"""The service as the target of the apply engine, and the photos that the service serves."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from petsync._display import type_name
from petsync.client.api import AsyncApi
from petsync.client.origin import encode_url
from petsync.client.session import PHOTO, Session
from petsync.errors import ApiError, InvalidInputError, NotFoundError
from petsync.models import ApiResponse, Pet
from petsync.protocol import operations
from petsync.protocol.operations import Call, Request, Traffic, error_for

__all__ = ["ServiceTarget", "photo", "target_of"]


# Photos. petsync fetches only photos that the service itself serves.


async def photo(session: Session, url: str) -> bytes:
    """Return the bytes of a photo. Raises ApiError if the service does not return it, and
    InvalidInputError, without a request, if its URL is not below the base URL.
    """
    target = target_of(session.base_url, url)
    if not isinstance(url, str):
        raise InvalidInputError(
            f"{type_name(url)} is not the URL of a photo", hint="Give one of a pet's photo_urls."
        )
    if target is None:
        raise InvalidInputError(
            f"a photo: its address is not below {session.base_url}, so petsync does not fetch it"
        )
    request = Request(operation=PHOTO, method="GET", target=target, headers={"accept": "image/*"})
    response = await session.send_request(request)
    if response.status != 200:
        raise error_for(response, request, datetime.now(UTC), session.credentials.mask)
    return response.body


def target_of(base_url: str, url: object) -> str | None:
    """Return the part of the URL after the base URL; None if the URL is not below it, or not a
    string.
    """
    if not isinstance(url, str):
        return None
    try:
        base, whole = encode_url(base_url), encode_url(url)
        path = unquote(urlsplit(whole).path)
    except (ValueError, httpx.InvalidURL):
        return None
    target = whole.partition("#")[0].removeprefix(base)
    if len(target) == len(whole.partition("#")[0]) or not target.startswith("/"):
        return None
    # Client or server could resolve dot segments to an address outside the base URL.
    return None if re.search(r"(^|[/\\])\.\.?([/\\]|$)", path) else target


# The service as the engine's Target.


T = TypeVar("T")
BeforeRetry = Callable[[ApiError], Awaitable[None]]
BeforeSend = Callable[[], Awaitable[None]]


class ServiceTarget:
    """A service, as petsync.apply.engine.Target.

    `before_send`, if set, is awaited just before each attempt to send a change, after all waits. If
    it raises an exception, the attempt is not sent.
    """

    before_send: BeforeSend | None = None

    def __init__(self, api: AsyncApi) -> None:
        self._api = api
        self._session = api.session
        self._profile = api.session.profile
        self._mark = api.session.traffic()

    @property
    def traffic(self) -> Traffic:
        """The session's request counts since this target was created, and the current state."""
        return self._session.traffic_since(self._mark)

    @property
    def assigns_unique_ids(self) -> bool:
        """True if, according to the profile, the service never assigns an id twice."""
        return self._profile.assigns_unique_ids

    async def get(self, pet_id: int) -> Pet | None:
        """Return the current pet; None for a 404."""
        try:
            return await self._send(operations.get_pet_by_id(pet_id, profile=self._profile))
        except NotFoundError:
            return None

    async def add(self, pet: Pet, *, before_retry: BeforeRetry | None = None) -> Pet:
        """Send addPet."""
        call = operations.add_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._send(call, before_retry=before_retry)

    async def replace(self, pet: Pet, *, before_retry: BeforeRetry | None = None) -> Pet:
        """Send updatePet."""
        call = operations.update_pet(pet, profile=self._profile, shape=self._session.shape)
        return await self._send(call, before_retry=before_retry)

    async def update_with_form(
        self,
        pet_id: int,
        *,
        name: str | None,
        status: str | None,
        before_retry: BeforeRetry | None = None,
    ) -> None:
        """Send updatePetWithForm."""
        call = operations.update_pet_with_form(
            pet_id, name=name, status=status, profile=self._profile
        )
        await self._send(call, before_retry=before_retry)

    async def delete(self, pet_id: int, *, before_retry: BeforeRetry | None = None) -> None:
        """Send deletePet."""
        await self._send(
            operations.delete_pet(pet_id, profile=self._profile), before_retry=before_retry
        )

    async def upload(
        self,
        pet_id: int,
        content: bytes,
        *,
        filename: str,
        metadata: str | None = None,
        before_retry: BeforeRetry | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> ApiResponse:
        """Send uploadFile. `on_sent` gets the number of bytes of `content` sent so far, about every
        64 KiB.
        """
        call = operations.upload_file(
            pet_id,
            file=content,
            filename=filename,
            additional_metadata=metadata,
            profile=self._profile,
        )
        report_sent = (
            None if on_sent is None else _count_content(call.request.body, content, on_sent)
        )
        return await self._send(call, before_retry=before_retry, on_sent=report_sent)

    async def _send(
        self,
        call: Call[T],
        *,
        before_retry: BeforeRetry | None = None,
        on_sent: Callable[[int], None] | None = None,
    ) -> T:
        """Send the call with `patient`: a run waits while the service cannot be reached."""
        before_send = None if call.request.method == "GET" else self.before_send
        return await self._session.send(
            call, before_retry=before_retry, on_sent=on_sent, before_send=before_send, patient=True
        )

    async def list_pets(self, statuses: Collection[str] = ()) -> list[Pet]:
        """Return the pets with one of the profile's statuses or of `statuses`."""
        queried = list(dict.fromkeys((*self._profile.statuses, *statuses)))
        return await self._api.find_pets_by_status(queried)


def _count_content(
    body: bytes, content: bytes, on_sent: Callable[[int], None]
) -> Callable[[int], None]:
    """Return a callback for the number of body bytes sent, which reports to `on_sent` how many of
    them are content.
    """
    head = body.rindex(content)

    def report_sent(sent: int) -> None:
        on_sent(min(max(sent - head, 0), len(content)))

    return report_sent
