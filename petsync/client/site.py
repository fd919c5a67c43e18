"""Site: one service while it is examined, and what has been learnt of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from petsync.client.ask import MEDIA, Asker
from petsync.client.diagnosis import Facts
from petsync.client.session import Session
from petsync.errors import ApiError
from petsync.model import MAX_ID, Pet
from petsync.profile import ServiceProfile
from petsync.wire import calls
from petsync.wire.answer import read_pet
from petsync.wire.failure import error_for
from petsync.wire.message import Request, Response

__all__ = ["NO_STATUS", "Site", "error_of", "ids_in", "pet_in", "pets_in"]

NO_STATUS = "petsync-doctor-asks"
"""A status that no service has."""


@dataclass(slots=True)
class Site:
    """`ids` are those that each status listed; `sample` is a pet with photos and several tags, or
    the next best one.
    """

    session: Session
    asker: Asker
    facts: Facts = field(default_factory=Facts)
    ids: dict[str, set[int]] = field(default_factory=dict)
    sample: Pet = field(default_factory=Pet)

    @property
    def profile(self) -> ServiceProfile:
        """What the service is said to be like."""
        return self.session.profile

    @property
    def filled(self) -> list[str]:
        """The statuses that have pets, the one with the fewest first."""
        return sorted((s for s, ids in self.ids.items() if ids), key=lambda s: len(self.ids[s]))

    @property
    def absent(self) -> int:
        """The largest id that no pet was seen to have."""
        number = MAX_ID
        while any(number in ids for ids in self.ids.values()):
            number -= 1
        return number

    def fits(self, *names: str) -> bool:
        """Whether the profile says what was seen of these fields."""
        return not set(names) & self.facts.overrides(self.profile).keys()

    async def by_status(self, query: str) -> Response:
        """The answer of findPetsByStatus to a query, already encoded."""
        return await self._get("findPetsByStatus", f"/pet/findByStatus?{query}")

    async def by_tags(self, query: str) -> Response:
        """The answer of findPetsByTags to a query, already encoded."""
        return await self._get("findPetsByTags", f"/pet/findByTags?{query}")

    async def by_id(self, name: object, accept: str | None = None) -> Response:
        """The answer of getPetById, in `accept` or the profile's representation."""
        return await self._get("getPetById", f"/pet/{name}", accept)

    async def status_without_credentials(self) -> int:
        """How a small query is answered for anybody."""
        return await self._narrowed("findPetsByStatus", f"/pet/findByStatus?status={NO_STATUS}")

    async def status_with_key_alone(self) -> int:
        """How getPetById is answered for the api key without a token."""
        return await self._narrowed("getPetById", f"/pet/{self.sample.id}", key=True)

    def remember(self, status: str, response: Response, pets: list[Pet]) -> None:
        """Learn from what findPetsByStatus listed for one status."""
        self.facts.media |= {kind for kind in MEDIA if response.media.endswith(kind)}
        self.ids[status] = {pet.id for pet in pets if pet.id is not None}
        self.sample = max((self.sample, *pets), key=_telling)

    async def _get(self, operation: str, target: str, accept: str | None = None) -> Response:
        wanted = accept or MEDIA[self.profile.media]
        return await self.asker.get(operation, target, accept=wanted)

    async def _narrowed(self, operation: str, target: str, *, key: bool = False) -> int:
        alone = self.session.narrowed(key=key)
        try:
            return (await self.asker.get(operation, target, session=alone)).status
        finally:
            await alone.close()


def pets_in(response: Response, operation: str = "findPetsByStatus") -> list[Pet]:
    """The pets of a list. Raises ApiError for anything else."""
    if response.status != 200:
        raise error_of(response, operation)
    return calls.find_pets_by_status([NO_STATUS]).read(response)


def ids_in(response: Response) -> set[int]:
    """The ids in a list of pets; none where the answer is anything else."""
    try:
        return {pet.id for pet in pets_in(response) if pet.id is not None}
    except ApiError:
        return set()


def pet_in(response: Response) -> Pet:
    """The one pet, whichever it is. Raises ApiError for anything else."""
    if response.status != 200:
        raise error_of(response, "getPetById")
    return read_pet(response)


def error_of(response: Response, operation: str) -> ApiError:
    """The error that a refusal means."""
    request = Request(operation=operation, method="GET", target="", headers={})
    return error_for(response, request, datetime.now(UTC))


def _telling(pet: Pet) -> tuple[bool, bool, bool]:
    """How much of the service's ways a pet can show."""
    names = {tag.name for tag in pet.tags if tag.name and "," not in tag.name}
    return pet.id is not None, len(names) > 1, bool(pet.photo_urls)
