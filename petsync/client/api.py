"""The eight operations of the service, one method each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from petsync._sync import LoopThread, make_synchronous
from petsync.client.auth.credentials import header_safe
from petsync.client.session import Session
from petsync.errors import InvalidInputError
from petsync.models import ApiResponse, Pet
from petsync.profile import ServiceProfile
from petsync.protocol import operations
from petsync.protocol.operations import Call
from petsync.settings import Secret, as_secret

__all__ = ["Api", "AsyncApi", "as_list", "each_query"]


class AsyncApi:
    """The eight operations, asynchronous. Each raises ApiError if the request fails, and
    InvalidInputError for an invalid argument.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    async def add_pet(self, pet: Pet) -> Pet:
        """Add a pet, and return it from the service's response, with its id. The request is not
        sent again if the service may have processed it.
        """
        return await self.session.send(self._call_with_pet(operations.add_pet, pet))

    async def update_pet(self, pet: Pet) -> Pet:
        """Replace all fields of the pet with the same id, and return the pet from the service's
        response.
        """
        return await self.session.send(self._call_with_pet(operations.update_pet, pet))

    async def delete_pet(self, pet_id: int, *, api_key: str | Secret | None = None) -> None:
        """Delete the pet. `api_key` replaces the session's API key for this request.

        Raises SettingsError, which does not show the key, if it is not valid in a header, or if it
        would be sent over plain http to a host that is neither loopback nor in `allow_http`.
        """
        api_key = as_secret(api_key)
        key = None if api_key is None else header_safe(api_key, "the API key")
        if key is not None:
            self.session.require_safe_address()
        await self.session.send(operations.delete_pet(pet_id, api_key=key, profile=self._profile))

    async def find_pets_by_status(self, status: str | Sequence[str]) -> list[Pet]:
        """Return the pets with one of the statuses, each once. The service's API definition marks
        the query parameter as deprecated.
        """
        return await self._find(operations.find_pets_by_status, status)

    async def find_pets_by_tags(self, tags: str | Sequence[str]) -> list[Pet]:
        """Return the pets with at least one of the tags, each once."""
        return await self._find(operations.find_pets_by_tags, tags)

    async def get_pet_by_id(self, pet_id: int) -> Pet:
        """Return the pet with that id. Raises NotFoundError if there is none."""
        return await self.session.send(operations.get_pet_by_id(pet_id, profile=self._profile))

    async def update_pet_with_form(
        self, pet_id: int, *, name: str | None = None, status: str | None = None
    ) -> None:
        """Change only the name, the status or both; None leaves a field unchanged."""
        await self.session.send(
            operations.update_pet_with_form(pet_id, name=name, status=status, profile=self._profile)
        )

    async def upload_file(
        self,
        pet_id: int,
        file: bytes | str | Path | None = None,
        *,
        filename: str | None = None,
        additional_metadata: str | None = None,
    ) -> ApiResponse:
        """Upload an image, given as bytes or as a path. The request is not sent again if the
        service may have processed it.
        """
        content, name = _file(file)
        call = operations.upload_file(
            pet_id,
            file=content,
            filename=filename or name,
            additional_metadata=additional_metadata,
            profile=self._profile,
        )
        return await self.session.send(call)

    def _call_with_pet(self, make: Callable[..., Call[Pet]], pet: Pet) -> Call[Pet]:
        return make(pet, profile=self._profile, shape=self.session.shape)

    @property
    def _profile(self) -> ServiceProfile:
        return self.session.profile

    async def _find(
        self, make: Callable[..., Call[list[Pet]]], values: str | Sequence[str]
    ) -> list[Pet]:
        found: dict[object, Pet] = {}
        for call in each_query(make, values, self._profile):
            pets = await self.session.send(call)
            for pet in pets:
                found[("without id", len(found)) if pet.id is None else pet.id] = pet
        return list(found.values())


def each_query(
    make: Callable[..., Call[list[Pet]]], values: str | Sequence[str], profile: ServiceProfile
) -> list[Call[list[Pet]]]:
    """Return the calls that query all values: one call, or one for each value if the service
    supports only one value in a query.
    """
    queried = as_list(values)
    groups = [[value] for value in queried] if profile.one_value_a_query and queried else [queried]
    queries = [make(group, profile=profile) for group in groups]
    return list({query.request.target: query for query in queries}.values())


def as_list(values: Any) -> list[Any]:
    """Return the values as a list. They are not checked here: the operation does that."""
    if isinstance(values, Iterable) and not isinstance(values, str):
        return list(values)
    return [values]


def _file(file: object) -> tuple[bytes | None, str]:
    if file is None or isinstance(file, bytes):
        return file, "image"
    if not isinstance(file, str | PathLike):
        raise InvalidInputError(
            f"uploadFile takes bytes or a path, not {type(file).__name__}", operation="uploadFile"
        )
    path = Path(file)
    try:
        return path.read_bytes(), path.name
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise InvalidInputError(
            f"uploadFile: {str(path)!r} cannot be read: {why}", operation="uploadFile"
        ) from None


class Api:
    """The eight operations, synchronous; `aio` is the asynchronous object."""

    def __init__(self, aio: AsyncApi, loop: LoopThread) -> None:
        self.aio = aio
        self._loop = loop

    add_pet = make_synchronous(AsyncApi.add_pet)
    update_pet = make_synchronous(AsyncApi.update_pet)
    delete_pet = make_synchronous(AsyncApi.delete_pet)
    find_pets_by_status = make_synchronous(AsyncApi.find_pets_by_status)
    find_pets_by_tags = make_synchronous(AsyncApi.find_pets_by_tags)
    get_pet_by_id = make_synchronous(AsyncApi.get_pet_by_id)
    update_pet_with_form = make_synchronous(AsyncApi.update_pet_with_form)
    upload_file = make_synchronous(AsyncApi.upload_file)
