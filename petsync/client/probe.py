"""Probe a service with GET requests alone, and compare it with its profile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from petsync.client.origin import is_loopback
from petsync.client.session import Session
from petsync.errors import ApiError, AuthError, ResponseError, TransportError
from petsync.models import MAX_ID, Pet
from petsync.profile import PROFILES, ServiceProfile
from petsync.protocol import json, operations, xml
from petsync.protocol.operations import Request, Response, error_for, read_pet, retry_after

__all__ = [
    "MEDIA",
    "NO_STATUS",
    "READABLE",
    "Check",
    "Diagnosis",
    "Facts",
    "ProbeClient",
    "Site",
    "Verdict",
    "error_of",
    "examine",
    "ids_in",
    "pet_in",
    "pets_in",
]


# ProbeClient: single, timed GETs whose answers are taken as they are. A GET is sent again where the
# service asks for patience. It sends nothing but GETs.


MEDIA = {"json": "application/json", "xml": "application/xml"}

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST = 10.0


@dataclass(slots=True)
class ProbeClient:
    """Asks one service. `answers` are all that came, `waits` the seconds that a busy answer asked
    for (None where it did not say), `broken` how often none came; `times` are in seconds.
    """

    session: Session
    answers: list[Response] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    waits: list[float | None] = field(default_factory=list)
    broken: int = 0

    async def get(
        self,
        operation: str,
        target: str,
        *,
        accept: str = MEDIA["json"],
        session: Session | None = None,
    ) -> Response:
        """The answer to `GET target`. Raises AuthError, TransportError, RedirectError."""
        request = Request(
            operation=operation, method="GET", target=target, headers={"accept": accept}
        )
        for wait in (0.25, 0.5, 1.0):
            try:
                response = await self._once(request, session or self.session)
            except TransportError:
                await asyncio.sleep(wait)
                continue
            if response.status not in _BUSY:
                return response
            asked = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
            self.waits.append(asked)
            await asyncio.sleep(min(max(asked or 0.0, wait), _LONGEST))
        return await self._once(request, session or self.session)

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return len(self.answers) + self.broken

    @property
    def typical(self) -> float:
        """The median time of an answer, in seconds."""
        return median(self.times) if self.times else 0.0

    def headers(self, beginnings: Sequence[str]) -> dict[str, str]:
        """The headers whose name begins so, with the last value seen."""
        return {
            name: value
            for answer in self.answers
            for name, value in answer.headers.items()
            if name.startswith(tuple(beginnings))
        }

    async def _once(self, request: Request, session: Session) -> Response:
        begun = time.perf_counter()
        try:
            response = await session.answer(request)
        except TransportError:
            self.broken += 1
            raise
        self.times.append(time.perf_counter() - begun)
        if not 200 <= response.status < 300:
            # Its words are shown; what is shown of pets is masked there.
            said = response.body.decode("utf-8", "surrogateescape")
            masked = session.credentials.mask(said).encode("utf-8", "surrogateescape")
            response = replace(response, body=masked)
        self.answers.append(response)
        return response


# Diagnosis: what a service was found to do, and where that is not what the profile says.


Verdict = Literal["fits", "noted", "differs", "fails", "untold"]

READABLE = (
    "array_style",
    "one_value_a_query",
    "unknown_status",
    "statuses",
    "xml_tag_item",
    "xml_photo_item",
    "media",
)
"""The fields of a profile that reading alone tells something of."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `fits`: as the profile says; `noted`: worth knowing;
    `differs`: not as the profile says, and petsync copes; `fails`: petsync would go wrong;
    `untold`: it could not be seen.
    """

    topic: str
    verdict: Verdict
    found: str


@dataclass(slots=True, kw_only=True)
class Facts:
    """What was seen of the profile's fields; None where nothing was."""

    arrays: frozenset[str] | None = None
    """The ways in which several values of a query parameter are understood: csv, multi."""
    unknown_status: Literal["invalid", "empty"] | None = None
    xml_tag_item: str | None = None
    xml_photo_item: str | None = None
    media: frozenset[str] = frozenset()
    """The representations that pets were sent in: json, xml."""

    def overrides(self, profile: ServiceProfile) -> dict[str, Any]:
        """The fields in which the profile is not what was seen, as the service has them."""
        found: dict[str, Any] = {}
        if self.arrays is not None and not profile.one_value_a_query:
            found |= _array(self.arrays, profile)
        for name in ("unknown_status", "xml_tag_item", "xml_photo_item"):
            seen = getattr(self, name)
            if seen is not None and seen != getattr(profile, name):
                found[name] = seen
        if self.media and profile.media not in self.media:
            found["media"] = min(self.media)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The checks, and the numbers beside them: pets by status, requests sent (all of them GETs),
    and the median time of an answer in seconds.
    """

    url: str
    profile: ServiceProfile
    checks: tuple[Check, ...]
    facts: Facts
    pets: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        """Whether nothing was found with which petsync would go wrong."""
        return all(check.verdict != "fails" for check in self.checks)

    @property
    def overrides(self) -> Mapping[str, Any]:
        """What `[service]` in petsync.toml should say."""
        return self.facts.overrides(self.profile)

    @property
    def suggested_profile(self) -> str | None:
        """A profile that fits all that was seen, where the chosen one does not."""
        if not self.overrides:
            return None
        return next((n for n, p in PROFILES.items() if not self.facts.overrides(p)), None)


def _array(understood: frozenset[str], profile: ServiceProfile) -> dict[str, Any]:
    if profile.array_style in understood:
        return {}
    return {"array_style": min(understood)} if understood else {"one_value_a_query": True}


# Site: one service while it is examined, and what has been learnt of it so far.


NO_STATUS = "petsync-doctor-asks"
"""A status that no service has."""


@dataclass(slots=True)
class Site:
    """`ids` are those that each status listed; `sample` is a pet with photos and several tags, or
    the next best one.
    """

    session: Session
    asker: ProbeClient
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
        return await self._fetch_status("findPetsByStatus", f"/pet/findByStatus?status={NO_STATUS}")

    async def status_with_key_alone(self) -> int:
        """How getPetById is answered for the api key without a token."""
        return await self._fetch_status("getPetById", f"/pet/{self.sample.id}", key=True)

    def remember(self, status: str, response: Response, pets: list[Pet]) -> None:
        """Learn from what findPetsByStatus listed for one status."""
        self.facts.media |= {kind for kind in MEDIA if response.media.endswith(kind)}
        self.ids[status] = {pet.id for pet in pets if pet.id is not None}
        self.sample = max((self.sample, *pets), key=_telling)

    async def _get(self, operation: str, target: str, accept: str | None = None) -> Response:
        wanted = accept or MEDIA[self.profile.media]
        return await self.asker.get(operation, target, accept=wanted)

    async def _fetch_status(self, operation: str, target: str, *, key: bool = False) -> int:
        alone = self.session.with_only(key=key)
        try:
            return (await self.asker.get(operation, target, session=alone)).status
        finally:
            await alone.close()


def pets_in(response: Response, operation: str = "findPetsByStatus") -> list[Pet]:
    """The pets of a list. Raises ApiError for anything else."""
    if response.status != 200:
        raise error_of(response, operation)
    return operations.find_pets_by_status([NO_STATUS]).read(response)


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


# examine: what one service supports, found out by GET requests alone.
#
# The gaps are those of the interface (docs/profiles.md). What only writing would show is left
# alone, and said to be.


_LIMITS = ("retry-after", "ratelimit", "x-ratelimit", "x-rate-limit")
_NEARLY = 0.9
_REFUSED = frozenset({401, 403})


async def examine(session: Session) -> Diagnosis:
    """What the service does, compared with the session's profile. Raises nothing of the service's
    making: what goes wrong is a check that fails.
    """
    site = Site(session, ProbeClient(session))
    checks = [
        # A token that was renewed meanwhile is masked too.
        replace(check, found=session.credentials.mask(check.found))
        async for check in _checks(site)
    ]
    return Diagnosis(
        url=session.base_url,
        profile=session.profile,
        checks=tuple(checks),
        facts=site.facts,
        pets={status: len(ids) for status, ids in site.ids.items()},
        requests=site.asker.requests,
        seconds=site.asker.typical,
    )


async def _checks(site: Site) -> AsyncIterator[Check]:
    yield _address(site.session)
    trouble = await _check_listing(site)
    if trouble is not None:
        yield trouble
        return
    for topic, look in _LOOKS.items():
        try:
            check = await look(site)
        except ApiError as error:
            check = Check(topic, "fails", error.message)
        if check is not None:
            yield check
    yield _limits(site)
    yield _unreadable()


def _address(session: Session) -> Check:
    parts = urlsplit(session.base_url)
    if is_loopback(parts.hostname or ""):
        return Check("address", "fits", "on this machine")
    if parts.scheme == "https":
        return Check("address", "fits", "https: what is sent is encrypted")
    said = "plain http: anyone on the way can read and change what is sent"
    return Check("address", "noted", said)


async def _check_listing(site: Site) -> Check | None:
    """Ask for every status alone and remember the pets; the check that fails, if one does."""
    topic = "reachable"
    for status in site.profile.statuses:
        try:
            response = await site.by_status(f"status={quote(status, safe='')}")
            topic = "findPetsByStatus"
            if response.status in _REFUSED:
                return _access_failure(site, response)
            pets = pets_in(response)
        except AuthError as error:
            return Check("access", "fails", _sentence(error))
        except ApiError as error:
            return Check(topic, "fails", _sentence(error))
        if any(pet.status not in (status, None) for pet in pets):
            return Check(topic, "fails", f"status={status} lists pets of another status too")
        site.remember(status, response, pets)
    return None


def _access_failure(site: Site, response: Response) -> Check:
    error = error_of(response, "findPetsByStatus")
    if site.session.credentials.token is None:
        said = f"{response.status}: it asks for a token, and none was given"
        return Check("access", "fails", f"{said}. {error.hint}")
    return Check("access", "fails", _sentence(error))


async def _access(site: Site) -> Check:
    anonymous = await site.status_without_credentials()
    if anonymous in _REFUSED:
        said = f"the token is accepted ({anonymous} without it) and may read"
        return Check("access", "fits", f"{said}; whether it has write:pets cannot be told so")
    said = "reading needs no token; whether writing does cannot be told by reading"
    has_token = site.session.credentials.token is not None
    return Check("access", "noted", f"{said}, nor whether yours is good" if has_token else said)


async def _api_key(site: Site) -> Check | None:
    if site.session.credentials.key is None or site.sample.id is None:
        return None
    status = await site.status_with_key_alone()
    if status == 200:
        return Check("api key", "fits", "getPetById takes it in place of a token")
    return Check("api key", "noted", f"alone it does not open getPetById ({status})")


async def _pets(site: Site) -> Check:
    counts = ", ".join(f"{len(ids):,} {status}" for status, ids in site.ids.items())
    return Check("pets", "noted", f"{sum(map(len, site.ids.values())):,}: {counts}")


async def _capacity(site: Site) -> Check | None:
    """How near the store is to the number of pets from which on an add drops the oldest one."""
    most, count = site.profile.capacity, sum(map(len, site.ids.values()))
    if most is None:
        return None
    of_it = f"{count:,} of the {most:,} pets that the profile says it keeps"
    if count > most:
        said = f"{count:,} pets, although the profile says it keeps {most:,}: set capacity"
        return Check("capacity", "differs", said)
    if count < most * _NEARLY:
        return Check("capacity", "fits", of_it)
    said = f"nearly full: {of_it}; beyond that each add drops the oldest pet without a word"
    return Check("capacity", "noted", said)


async def _several_statuses(site: Site) -> Check:
    topic, two = "several statuses", site.filled[:2]
    if len(two) < 2:
        return Check(topic, "untold", "fewer than two statuses have pets")
    names = [quote(status, safe="") for status in two]
    queries = {"csv": f"status={','.join(names)}", "multi": "&".join(f"status={n}" for n in names)}
    understood: list[str] = []
    for style, query in queries.items():
        ids = ids_in(await site.by_status(query))
        if all(ids & site.ids[status] for status in two):
            understood.append(style)
    site.facts.arrays = frozenset(understood)
    said = f"understood as {' and as '.join(understood)}" if understood else "only one counts"
    if site.profile.one_value_a_query:
        return Check(topic, "fits", f"{said}; the profile asks for each alone, which always works")
    fits = site.fits("array_style", "one_value_a_query")
    return Check(topic, "fits" if fits else "fails", said)


async def _unknown_status(site: Site) -> Check:
    topic = "unknown status"
    response = await site.by_status(f"status={NO_STATUS}")
    if response.status == 400:
        site.facts.unknown_status, said = "invalid", "refused with 400"
    elif response.status == 200 and not ids_in(response):
        site.facts.unknown_status, said = "empty", "an empty list"
    else:
        return Check(topic, "noted", f"answered with {response.status}")
    return Check(topic, "fits" if site.fits("unknown_status") else "differs", said)


async def _several_tags(site: Site) -> Check:
    topic = "several tags"
    names = sorted({tag.name for tag in site.sample.tags if tag.name and "," not in tag.name})[:2]
    if len(names) < 2:
        return Check(topic, "untold", "no pet with two tags was seen")
    response = await site.by_tags("tags=" + ",".join(quote(name, safe="") for name in names))
    try:
        times = sum(pet.id == site.sample.id for pet in pets_in(response, "findPetsByTags"))
    except ApiError as error:
        return Check(topic, "noted", error.message)
    said = {0: "not understood as csv", 1: "understood as csv; each pet once"}.get(
        times, "understood as csv; a pet once for each tag that fits (petsync keeps one)"
    )
    return Check(topic, "noted", said)


async def _one_pet(site: Site) -> Check | None:
    if site.sample.id is None:
        return None
    pet = pet_in(await site.by_id(site.sample.id))
    if pet.id != site.sample.id:
        return Check("getPetById", "fails", f"asked for pet {site.sample.id}, it sent {pet.id}")
    known = f", with fields of its own: {', '.join(sorted(pet.extra))}" if pet.extra else ""
    return Check("getPetById", "fits", f"sends the pet that was asked for{known}")


async def _unknown_id(site: Site) -> Check:
    status = (await site.by_id(site.absent)).status
    if status == 404:
        return Check("unknown id", "fits", "404, and ids may have 63 bits")
    said = f"{status} instead of 404: petsync cannot tell that a pet is not there"
    return Check("unknown id", "fails", said)


async def _no_number(site: Site) -> Check:
    response = await site.by_id("no-number")
    return Check("id that is no number", "noted", f"{response.status}, {_shape(response)}")


async def _as_xml(site: Site) -> Check:
    if site.sample.id is None:
        return Check("XML", "untold", "no pet was seen")
    response = await site.by_id(site.sample.id, MEDIA["xml"])
    if not response.media.endswith("xml"):
        said = f"not spoken: asked for XML, it sends {response.media or 'nothing named'}"
        return Check("XML", "noted" if site.fits("media") else "fails", said)
    site.facts.media |= {"xml"}
    try:
        pet = xml.decode_pet(response.body)
    except ResponseError as error:
        return Check("XML", "noted", error.message)
    said = "spoken" if pet.id == site.sample.id else "spoken, though it sent another pet"
    shape = xml.detect_shape(response.body, xml.Shape(photo_item="", tag_item=""))
    if shape.photo_item:
        said += f"; {shape.photo_array or 'without'}/{shape.photo_item}"
    if shape.tag_item:
        said += f"; {shape.tag_array or 'without'}/{shape.tag_item}"
    site.facts.xml_photo_item = _element_name(shape.photo_item, ("photoUrls", "photoUrl"))
    site.facts.xml_tag_item = _element_name(shape.tag_item, ("tags", "tag"))
    if site.profile.media == "json":
        fits = site.fits("xml_photo_item", "xml_tag_item")
        return Check("XML", "fits" if fits else "differs", said)
    profiled = operations.shape_of(site.profile)
    if xml.detect_shape(response.body, profiled) == profiled:
        return Check("XML", "fits", said)
    lost = "the profile writes pets in another shape, from which a service reads no tags or photos"
    return Check("XML", "fails", f"{said}; {lost}")


def _element_name(item: str, known: tuple[str, ...]) -> str | None:
    """The element name of an array's items, where it is one that a profile can say."""
    return item if item in known else None


async def _errors(site: Site) -> Check:
    plain = await site.by_id(site.absent, MEDIA["json"])
    as_xml = await site.by_id(site.absent, MEDIA["xml"])
    return Check("errors", "noted", f"{_shape(plain)}; in XML {_shape(as_xml)}")


def _shape(response: Response) -> str:
    if not response.body.strip():
        return "no body"
    readers = {"json": json.decode_api_response, "xml": xml.decode_api_response}
    kind = next((kind for kind in readers if response.media.endswith(kind)), None)
    if kind is None:
        return f"{response.media or 'an unnamed body'}, no ApiResponse"
    try:
        said = readers[kind](response.body)
    except ResponseError:
        return f"{kind}, no ApiResponse"
    names = [name for name in said.__struct_fields__ if getattr(said, name) is not None]
    return f"an ApiResponse with {', '.join(names)}" if names else f"{kind}, no ApiResponse"


def _limits(site: Site) -> Check:
    asker = site.asker
    said = [f"{name}: {value}" for name, value in asker.headers(_LIMITS).items()]
    said += [f"busy {len(asker.waits)} times"] if asker.waits else []
    said += [f"no whole answer {asker.broken} times"] if asker.broken else []
    return Check("limits", "noted", "; ".join(said) or f"none seen in {asker.requests} requests")


def _unreadable() -> Check:
    names = [f.name for f in fields(ServiceProfile) if f.name not in (*READABLE, "name")]
    return Check("not looked at", "untold", f"only writing would tell: {', '.join(names)}")


def _sentence(error: ApiError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message


_LOOKS: dict[str, Callable[[Site], Awaitable[Check | None]]] = {
    "access": _access,
    "api key": _api_key,
    "pets": _pets,
    "capacity": _capacity,
    "several statuses": _several_statuses,
    "unknown status": _unknown_status,
    "several tags": _several_tags,
    "getPetById": _one_pet,
    "unknown id": _unknown_id,
    "id that is no number": _no_number,
    "XML": _as_xml,
    "errors": _errors,
}
