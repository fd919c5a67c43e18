"""Examine a service with GET requests only, and compare its behaviour with its profile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec

from petsync.client.auth.credentials import Credentials
from petsync.client.origin import is_loopback
from petsync.client.session import MISSING_VERSION, Session
from petsync.errors import ApiError, AuthError, ResponseError, TransportError
from petsync.models import MAX_ID, Pet
from petsync.profile import PROFILES, ServiceProfile
from petsync.protocol import json, operations, xml
from petsync.protocol.operations import (
    NO_STATUS,
    Request,
    Response,
    error_for,
    read_pet,
    retry_after,
)

__all__ = [
    "MEDIA",
    "READABLE",
    "Check",
    "Diagnosis",
    "Observations",
    "ProbeClient",
    "Site",
    "Verdict",
    "error_of",
    "examine",
    "find_version",
    "ids_in",
    "pet_in",
    "pets_in",
]


# ProbeClient: sends and times GET requests. It repeats a request if the service is busy or gives no
# complete response.


MEDIA = {"json": "application/json", "xml": "application/xml"}

_BUSY_STATUSES = frozenset({429, 502, 503, 504})
_MAX_WAIT_S = 10.0


@dataclass(slots=True)
class ProbeClient:
    """Sends GET requests to one service, and records its responses."""

    session: Session
    answers: list[Response] = field(default_factory=list)
    """All complete responses."""
    times: list[float] = field(default_factory=list)
    """The times of these responses, in seconds."""
    waits: list[float | None] = field(default_factory=list)
    """The seconds to wait according to each busy response; None if the response did not say."""
    broken: int = 0
    """The number of requests without a complete response."""

    async def get(
        self,
        operation: str,
        target: str,
        *,
        accept: str = MEDIA["json"],
        session: Session | None = None,
    ) -> Response:
        """Return the response to `GET target`; its status may be an error. The body of an error
        response is masked. Raises the errors of `Session.send_request`.
        """
        request = Request(
            operation=operation, method="GET", target=target, headers={"accept": accept}
        )
        for wait in (0.25, 0.5, 1.0):
            try:
                response = await self._send_once(request, session or self.session)
            except TransportError as error:
                if error.is_without_tls:
                    raise
                await asyncio.sleep(wait)
                continue
            if response.status not in _BUSY_STATUSES:
                return response
            requested = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
            self.waits.append(requested)
            await asyncio.sleep(min(max(requested or 0.0, wait), _MAX_WAIT_S))
        return await self._send_once(request, session or self.session)

    @property
    def requests(self) -> int:
        return len(self.answers) + self.broken

    @property
    def median_seconds(self) -> float:
        """The median response time, in seconds; 0.0 without responses."""
        return median(self.times) if self.times else 0.0

    def headers(self, beginnings: Sequence[str]) -> dict[str, str]:
        """Return the last value of each response header whose name starts with one of
        `beginnings`.
        """
        return {
            name: value
            for answer in self.answers
            for name, value in answer.headers.items()
            if name.startswith(tuple(beginnings))
        }

    async def _send_once(self, request: Request, session: Session) -> Response:
        started = time.perf_counter()
        try:
            response = await session.send_request(request)
        except TransportError:
            self.broken += 1
            raise
        self.times.append(time.perf_counter() - started)
        if not 200 <= response.status < 300:
            # The error message will be shown.
            text = response.body.decode("utf-8", "surrogateescape")
            masked = session.credentials.mask(text).encode("utf-8", "surrogateescape")
            response = msgspec.structs.replace(response, body=masked)
        self.answers.append(response)
        return response


# Diagnosis: the behaviour of a service, and how it differs from the profile.


Verdict = Literal["fits", "noted", "differs", "fails", "unknown"]

READABLE = (
    "array_style",
    "one_value_a_query",
    "unknown_status",
    "statuses",
    "xml_tag_item",
    "xml_photo_item",
    "media",
)
"""The fields of a profile that GET requests can check."""
_SETTINGS = ("name", "api_key_header", "max_answer_mb", "answer_seconds")
"""The fields of a profile that petsync uses without a check."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    topic: str
    verdict: Verdict
    """`fits`: the profile is right; `noted`: information only; `differs`: the profile is wrong, but
    petsync works; `fails`: petsync does not work correctly; `unknown`: it could not be checked.
    """
    found: str


@dataclass(slots=True, kw_only=True)
class Observations:
    """Observed values of profile fields; None if not observed."""

    arrays: frozenset[str] | None = None
    """The styles of several values in a query, "csv" and "multi", that the service supports."""
    unknown_status: Literal["invalid", "empty"] | None = None
    xml_tag_item: str | None = None
    xml_photo_item: str | None = None
    media: frozenset[str] = frozenset()
    """The formats, "json" and "xml", in which the service sent pets."""

    def overrides(self, profile: ServiceProfile) -> dict[str, Any]:
        """Return the observed values that differ from the profile, by field."""
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
    """The result of `examine`."""

    url: str
    profile: ServiceProfile
    checks: tuple[Check, ...]
    facts: Observations
    pets: Mapping[str, int] = field(default_factory=dict)
    """The number of pets by status."""
    requests: int = 0
    """The number of GET requests."""
    seconds: float = 0.0
    """The median response time, in seconds."""

    @property
    def works(self) -> bool:
        """True if no check fails."""
        return all(check.verdict != "fails" for check in self.checks)

    @property
    def overrides(self) -> Mapping[str, Any]:
        """The values that `[service]` in petsync.toml should set, by field."""
        return self.facts.overrides(self.profile)

    @property
    def suggested_profile(self) -> str | None:
        """Another built-in profile that fits all observations; None if the chosen profile fits
        them, or if no profile does.
        """
        if not self.overrides:
            return None
        return next((n for n, p in PROFILES.items() if not self.facts.overrides(p)), None)


def _array(understood: frozenset[str], profile: ServiceProfile) -> dict[str, Any]:
    if profile.array_style in understood:
        return {}
    return {"array_style": min(understood)} if understood else {"one_value_a_query": True}


# The version in the path of the base URL, which users forget.


async def find_version(session: Session) -> str:
    """Return "/v2" if the base URL has no path, and only the address with /v2 answers as a pet
    store, else "".

    Sends at most two GET requests to the origin of the base URL, without credentials, and raises no
    ApiError.
    """
    if urlsplit(session.base_url).path:
        return ""
    alone = session.make_trial_session(Credentials())
    try:
        if await _is_store_at(alone, "") is False and await _is_store_at(alone, MISSING_VERSION):
            return MISSING_VERSION
    finally:
        await alone.close()
    return ""


async def _is_store_at(session: Session, path: str) -> bool | None:
    """Return whether a pet store answers at this path; None if no response shows it."""
    operation = "findPetsByStatus"
    target = f"{path}/pet/findByStatus?status={NO_STATUS}"
    request = Request(
        operation=operation, method="GET", target=target, headers={"accept": MEDIA["json"]}
    )
    try:
        response = await session.send_request(request)
        if response.status != 200:
            # A store may refuse the unknown status, or requests without a token.
            is_refusal = response.status == 400 and response.media.endswith(tuple(MEDIA))
            is_unclear = response.status == 429 or response.status >= 500
            return None if is_unclear else is_refusal or response.status in _REFUSED
        pets_in(response, operation)
    except ResponseError:
        return False
    except ApiError:
        return None
    return True


# Site: the examined service, and the observations so far.


@dataclass(slots=True)
class Site:
    session: Session
    client: ProbeClient
    facts: Observations = field(default_factory=Observations)
    ids: dict[str, set[int]] = field(default_factory=dict)
    """The ids of the listed pets, by status."""
    sample: Pet = field(default_factory=Pet)
    """The listed pet that is best for the checks: it has photos and several tags, if any has."""

    @property
    def profile(self) -> ServiceProfile:
        return self.session.profile

    @property
    def nonempty_statuses(self) -> list[str]:
        """The statuses that have pets, those with the fewest pets first."""
        return sorted((s for s, ids in self.ids.items() if ids), key=lambda s: len(self.ids[s]))

    @property
    def unused_id(self) -> int:
        """The largest id that no listed pet has."""
        number = MAX_ID
        while any(number in ids for ids in self.ids.values()):
            number -= 1
        return number

    def fits(self, *names: str) -> bool:
        """Return true if no observation contradicts these fields of the profile."""
        return not set(names) & self.facts.overrides(self.profile).keys()

    async def by_status(self, query: str) -> Response:
        """Send findPetsByStatus with an encoded query."""
        return await self._get("findPetsByStatus", f"/pet/findByStatus?{query}")

    async def by_tags(self, query: str) -> Response:
        """Send findPetsByTags with an encoded query."""
        return await self._get("findPetsByTags", f"/pet/findByTags?{query}")

    async def by_id(self, name: object, accept: str | None = None) -> Response:
        """Send getPetById; `accept` is a media type, None for that of the profile."""
        return await self._get("getPetById", f"/pet/{name}", accept)

    async def status_without_credentials(self) -> int:
        """Return the HTTP status of a small query without credentials."""
        return await self._fetch_status("findPetsByStatus", f"/pet/findByStatus?status={NO_STATUS}")

    async def status_with_only_key(self) -> int:
        """Return the HTTP status of getPetById for the sample with only the API key."""
        return await self._fetch_status("getPetById", f"/pet/{self.sample.id}", key=True)

    def record(self, status: str, response: Response, pets: list[Pet]) -> None:
        """Record the result of findPetsByStatus for one status."""
        self.facts.media |= {kind for kind in MEDIA if response.media.endswith(kind)}
        self.ids[status] = {pet.id for pet in pets if pet.id is not None}
        self.sample = max((self.sample, *pets), key=_sample_quality)

    async def _get(self, operation: str, target: str, accept: str | None = None) -> Response:
        wanted = accept or MEDIA[self.profile.media]
        return await self.client.get(operation, target, accept=wanted)

    async def _fetch_status(self, operation: str, target: str, *, key: bool = False) -> int:
        alone = self.session.with_only(key=key)
        try:
            return (await self.client.get(operation, target, session=alone)).status
        finally:
            await alone.close()


def pets_in(response: Response, operation: str = "findPetsByStatus") -> list[Pet]:
    """Return the pets in the response. Raises ApiError if it is not a list of pets."""
    if response.status != 200:
        raise error_of(response, operation)
    return operations.find_pets_by_status([NO_STATUS]).read(response)


def ids_in(response: Response) -> set[int]:
    """Return the ids in the response; an empty set if it is not a list of pets."""
    try:
        return {pet.id for pet in pets_in(response) if pet.id is not None}
    except ApiError:
        return set()


def pet_in(response: Response) -> Pet:
    """Return the pet in the response. Raises ApiError if the response is not a pet."""
    if response.status != 200:
        raise error_of(response, "getPetById")
    return read_pet(response)


def error_of(response: Response, operation: str) -> ApiError:
    """Return the error for an unsuccessful response."""
    request = Request(operation=operation, method="GET", target="", headers={})
    return error_for(response, request, datetime.now(UTC))


def _sample_quality(pet: Pet) -> tuple[bool, bool, bool]:
    """Return a sort key: a pet is better with an id, then with several tags, then with photos."""
    names = {tag.name for tag in pet.tags if tag.name and "," not in tag.name}
    return pet.id is not None, len(names) > 1, bool(pet.photo_urls)


# examine: the checks of a service.
#
# docs/profiles.md explains what the API definition leaves open. What only a write could show is
# listed as not tested.


_LIMITS = ("retry-after", "ratelimit", "x-ratelimit", "x-rate-limit")
_NEARLY_FULL = 0.9
_REFUSED = frozenset({401, 403})


async def examine(session: Session) -> Diagnosis:
    """Compare the service's behaviour with the session's profile. An ApiError becomes a failed
    check.
    """
    site = Site(session, ProbeClient(session))
    checks = [
        # Mask after the checks: the token may have been renewed.
        replace(check, found=session.credentials.mask(check.found))
        async for check in _checks(site)
    ]
    return Diagnosis(
        url=session.base_url,
        profile=session.profile,
        checks=tuple(checks),
        facts=site.facts,
        pets={status: len(ids) for status, ids in site.ids.items()},
        requests=site.client.requests,
        seconds=site.client.median_seconds,
    )


async def _checks(site: Site) -> AsyncIterator[Check]:
    yield _check_address(site.session)
    failure = await _check_listing(site)
    if failure is not None:
        yield failure
        return
    for topic, check_topic in _CHECKS.items():
        try:
            check = await check_topic(site)
        except ApiError as error:
            check = Check(topic, "fails", error.problem)
        if check is not None:
            yield check
    yield _check_limits(site)
    yield _list_unchecked()


def _check_address(session: Session) -> Check:
    parts = urlsplit(session.base_url)
    if is_loopback(parts.hostname or ""):
        return Check("address", "fits", "on this machine")
    if parts.scheme == "https":
        return Check("address", "fits", "https: what is sent is encrypted")
    finding = "plain http: anyone on the network path can read and change what is sent"
    return Check("address", "noted", finding)


async def _check_listing(site: Site) -> Check | None:
    """Query each status of the profile and record its pets; return a failed check or None."""
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
        site.record(status, response, pets)
    return None


def _access_failure(site: Site, response: Response) -> Check:
    error, credentials = error_of(response, "findPetsByStatus"), site.session.credentials
    if response.status == 401:
        error.cure = credentials.refused_hint or error.cure
    if credentials.token is None:
        finding = f"{response.status}: the service requires a token, and none was given"
        return Check("access", "fails", f"{finding}. {error.cure}")
    return Check("access", "fails", _sentence(error))


async def _check_access(site: Site) -> Check:
    anonymous = await site.status_without_credentials()
    if anonymous in _REFUSED:
        finding = f"the token is accepted ({anonymous} without it) and allows reading"
        return Check("access", "fits", f"{finding}; this does not show whether it has write:pets")
    finding = "this store asks for no sign-in; only a change shows whether changes need a token"
    has_token = site.session.credentials.token is not None
    return Check(
        "access", "noted", f"{finding}, and whether yours is valid" if has_token else finding
    )


async def _check_api_key(site: Site) -> Check | None:
    if site.session.credentials.key is None or site.sample.id is None:
        return None
    status = await site.status_with_only_key()
    if status == 200:
        return Check("api key", "fits", "getPetById works with the API key and without a token")
    return Check(
        "api key",
        "noted",
        f"the API key without a token does not give access to getPetById ({status})",
    )


async def _check_pets(site: Site) -> Check:
    counts = ", ".join(f"{len(ids):,} {status}" for status, ids in site.ids.items())
    return Check("pets", "noted", f"{sum(map(len, site.ids.values())):,}: {counts}")


async def _check_capacity(site: Site) -> Check | None:
    """Check how close the store is to its capacity: beyond it, an add drops the oldest pet."""
    capacity, count = site.profile.capacity, sum(map(len, site.ids.values()))
    if capacity is None:
        return None
    usage = f"{count:,} of the {capacity:,} pets that it keeps according to the profile"
    if count > capacity:
        finding = (
            f"{count:,} pets, but it keeps {capacity:,} according to the profile: set capacity "
            "under [service]"
        )
        return Check("capacity", "differs", finding)
    if count < capacity * _NEARLY_FULL:
        return Check("capacity", "fits", usage)
    finding = f"nearly full: {usage}; beyond that, each add drops the oldest pet without an error"
    return Check("capacity", "noted", finding)


async def _check_several_statuses(site: Site) -> Check:
    topic, two = "several statuses", site.nonempty_statuses[:2]
    if len(two) < 2:
        return Check(topic, "unknown", "fewer than two statuses have pets")
    names = [quote(status, safe="") for status in two]
    queries = {"csv": f"status={','.join(names)}", "multi": "&".join(f"status={n}" for n in names)}
    understood: list[str] = []
    for style, query in queries.items():
        ids = ids_in(await site.by_status(query))
        if all(ids & site.ids[status] for status in two):
            understood.append(style)
    site.facts.arrays = frozenset(understood)
    finding = f"understood as {' and as '.join(understood)}" if understood else "only one is used"
    if site.profile.one_value_a_query:
        return Check(
            topic,
            "fits",
            f"{finding}; with this profile, petsync queries each status separately, which always "
            "works",
        )
    fits = site.fits("array_style", "one_value_a_query")
    return Check(topic, "fits" if fits else "fails", finding)


async def _check_unknown_status(site: Site) -> Check:
    topic = "unknown status"
    response = await site.by_status(f"status={NO_STATUS}")
    if response.status == 400:
        site.facts.unknown_status, finding = "invalid", "refused with 400"
    elif response.status == 200 and not ids_in(response):
        site.facts.unknown_status, finding = "empty", "an empty list"
    else:
        return Check(topic, "noted", f"answered with {response.status}")
    return Check(topic, "fits" if site.fits("unknown_status") else "differs", finding)


async def _check_several_tags(site: Site) -> Check:
    topic = "several tags"
    names = sorted({tag.name for tag in site.sample.tags if tag.name and "," not in tag.name})[:2]
    if len(names) < 2:
        return Check(topic, "unknown", "no pet with two tags was seen")
    response = await site.by_tags("tags=" + ",".join(quote(name, safe="") for name in names))
    try:
        times = sum(pet.id == site.sample.id for pet in pets_in(response, "findPetsByTags"))
    except ApiError as error:
        return Check(topic, "noted", error.problem)
    finding = {
        0: "comma-separated tags are not supported",
        1: "comma-separated tags work; each pet is sent once",
    }.get(
        times,
        "comma-separated tags work; a pet is sent once for each requested tag that it has, and "
        "petsync keeps one",
    )
    return Check(topic, "noted", finding)


async def _check_one_pet(site: Site) -> Check | None:
    if site.sample.id is None:
        return None
    pet = pet_in(await site.by_id(site.sample.id))
    if pet.id != site.sample.id:
        return Check("getPetById", "fails", f"sends pet {pet.id} instead of pet {site.sample.id}")
    known = f", with additional fields: {', '.join(sorted(pet.extra))}" if pet.extra else ""
    return Check("getPetById", "fits", f"sends the requested pet{known}")


async def _check_unknown_id(site: Site) -> Check:
    status = (await site.by_id(site.unused_id)).status
    if status == 404:
        return Check("unknown id", "fits", "404, and ids may have 63 bits")
    finding = f"{status} instead of 404: petsync cannot detect that a pet does not exist"
    return Check("unknown id", "fails", finding)


async def _check_invalid_id(site: Site) -> Check:
    response = await site.by_id("no-number")
    return Check("invalid id", "noted", f"{response.status}, {_describe_body(response)}")


async def _check_xml(site: Site) -> Check:
    if site.sample.id is None:
        return Check("XML", "unknown", "no pet was seen")
    response = await site.by_id(site.sample.id, MEDIA["xml"])
    if not response.media.endswith("xml"):
        finding = f"not supported: asked for XML, it sends {response.media or 'no media type'}"
        return Check("XML", "noted" if site.fits("media") else "fails", finding)
    site.facts.media |= {"xml"}
    try:
        pet = xml.decode_pet(response.body)
    except ResponseError as error:
        return Check("XML", "noted", error.problem)
    finding = "supported" if pet.id == site.sample.id else "supported, but it sent another pet"
    shape = xml.detect_shape(response.body, xml.Shape(photo_item="", tag_item=""))
    if shape.photo_item:
        finding += f"; photos as {_element_path(shape.photo_array, shape.photo_item)}"
    if shape.tag_item:
        finding += f"; tags as {_element_path(shape.tag_array, shape.tag_item)}"
    site.facts.xml_photo_item = _element_name(shape.photo_item, ("photoUrls", "photoUrl"))
    site.facts.xml_tag_item = _element_name(shape.tag_item, ("tags", "tag"))
    if site.profile.media == "json":
        fits = site.fits("xml_photo_item", "xml_tag_item")
        return Check("XML", "fits" if fits else "differs", finding)
    profiled = operations.shape_of(site.profile)
    if xml.detect_shape(response.body, profiled) == profiled:
        return Check("XML", "fits", finding)
    lost = "the profile writes pets in another shape, so the service would read no tags or photos"
    return Check("XML", "fails", f"{finding}; {lost}")


def _element_path(array: str, item: str) -> str:
    """Return text such as `<tags><tag>` for the elements of an array's items."""
    return f"<{array}><{item}>" if array else f"<{item}> without an enclosing element"


def _element_name(item: str, known: tuple[str, ...]) -> str | None:
    """Return the element name if a profile can have it, else None."""
    return item if item in known else None


async def _check_errors(site: Site) -> Check:
    plain = await site.by_id(site.unused_id, MEDIA["json"])
    as_xml = await site.by_id(site.unused_id, MEDIA["xml"])
    return Check("errors", "noted", f"{_describe_body(plain)}; in XML {_describe_body(as_xml)}")


def _describe_body(response: Response) -> str:
    if not response.body.strip():
        return "no body"
    readers = {"json": json.decode_api_response, "xml": xml.decode_api_response}
    kind = next((kind for kind in readers if response.media.endswith(kind)), None)
    if kind is None:
        return f"{response.media or 'a body without a media type'}, not an ApiResponse"
    try:
        decoded = readers[kind](response.body)
    except ResponseError:
        return f"{kind}, not an ApiResponse"
    names = [name for name in decoded.__struct_fields__ if getattr(decoded, name) is not None]
    return f"an ApiResponse with {', '.join(names)}" if names else f"{kind}, not an ApiResponse"


def _check_limits(site: Site) -> Check:
    client = site.client
    parts = [f"{name}: {value}" for name, value in client.headers(_LIMITS).items()]
    parts += [f"busy responses: {len(client.waits)}"] if client.waits else []
    parts += [f"requests without a complete response: {client.broken}"] if client.broken else []
    return Check("limits", "noted", "; ".join(parts) or f"none seen in {client.requests} requests")


def _list_unchecked() -> Check:
    names = [f.name for f in fields(ServiceProfile) if f.name not in (*READABLE, *_SETTINGS)]
    return Check("not tested", "unknown", f"only a write could show: {', '.join(names)}")


def _sentence(error: ApiError) -> str:
    return f"{error.problem}. {error.cure}" if error.cure else error.problem


_CHECKS: dict[str, Callable[[Site], Awaitable[Check | None]]] = {
    "access": _check_access,
    "api key": _check_api_key,
    "pets": _check_pets,
    "capacity": _check_capacity,
    "several statuses": _check_several_statuses,
    "unknown status": _check_unknown_status,
    "several tags": _check_several_tags,
    "getPetById": _check_one_pet,
    "unknown id": _check_unknown_id,
    "invalid id": _check_invalid_id,
    "XML": _check_xml,
    "errors": _check_errors,
}
