"""examine: what one service supports, found out by GET requests alone.

The gaps are those of the interface (docs/profiles.md). What can be seen only by writing is left
alone and said to be.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from petsync.client.ask import MEDIA, Asker
from petsync.client.diagnosis import READABLE, Check, Diagnosis, Facts
from petsync.client.origin import is_loopback
from petsync.client.session import Session
from petsync.errors import ApiError, ResponseError
from petsync.model import MAX_ID, Pet
from petsync.profile import ServiceProfile
from petsync.wire import calls, json, xml
from petsync.wire.failure import error_for
from petsync.wire.message import Request, Response

__all__ = ["examine"]

_UNKNOWN_STATUS = "petsync-doctor-asks"
_LIMITS = ("retry-after", "ratelimit", "x-ratelimit", "x-rate-limit")
_REFUSED = frozenset({401, 403})


async def examine(session: Session) -> Diagnosis:
    """What the service does, compared with the session's profile. Raises nothing of the service's
    making: what goes wrong is a check that fails.
    """
    site = _Site(session, Asker(session))
    checks = [_address(session)]
    try:
        checks.extend([check async for check in _all(site)])
    except ApiError as error:
        checks.append(Check("reachable", "fails", _sentence(error.message, error.hint)))
    return Diagnosis(
        url=session.base_url,
        profile=session.profile,
        checks=tuple(checks),
        facts=site.facts,
        pets={status: len(ids) for status, ids in site.ids.items()},
        requests=site.asker.requests,
        seconds=site.asker.typical,
    )


@dataclass(slots=True)
class _Site:
    """The service, and what has been learnt of it."""

    session: Session
    asker: Asker
    facts: Facts = field(default_factory=Facts)
    ids: dict[str, set[int]] = field(default_factory=dict)
    sample: Pet = field(default_factory=Pet)
    """A pet with photos and several tags, or the next best one."""

    @property
    def profile(self) -> ServiceProfile:
        return self.session.profile

    def verdict(self, *names: str) -> bool:
        """Whether the profile says what was seen of these fields."""
        return not set(names) & self.facts.overrides(self.profile).keys()

    async def by_status(self, query: str) -> Response:
        return await self.get("findPetsByStatus", f"/pet/findByStatus?{query}")

    async def by_id(self, name: object, accept: str | None = None) -> Response:
        return await self.get("getPetById", f"/pet/{name}", accept)

    async def get(self, operation: str, target: str, accept: str | None = None) -> Response:
        wanted = accept or MEDIA[self.profile.media]
        return await self.asker.get(operation, target, accept=wanted)

    async def answers_to(self, status: str, *, token: bool, key: bool) -> int:
        """The status of a small query with only these credentials."""
        alone = self.session.narrowed(token=token, key=key)
        target = f"/pet/{self.sample.id}" if key else f"/pet/findByStatus?status={status}"
        operation = "getPetById" if key else "findPetsByStatus"
        try:
            return (await self.asker.get(operation, target, session=alone)).status
        finally:
            await alone.close()


async def _all(site: _Site) -> AsyncIterator[Check]:
    trouble = await _listed(site)
    if trouble is not None:
        yield trouble
        return
    yield await _access(site)
    if site.session.credentials.key is not None and site.sample.id is not None:
        yield await _api_key(site)
    yield _pets(site)
    yield await _several_statuses(site)
    yield await _unknown_status(site)
    yield await _several_tags(site)
    if site.sample.id is not None:
        yield await _one_pet(site)
    missing = await site.by_id(_absent(site))
    yield _unknown_id(missing)
    yield await _no_number(site)
    yield await _as_xml(site)
    yield await _errors(site, missing)
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


async def _listed(site: _Site) -> Check | None:
    """Ask for every status alone and remember the ids; the check that fails, if one does."""
    for status in site.profile.statuses:
        response = await site.by_status(f"status={quote(status, safe='')}")
        if response.status in _REFUSED:
            return _refused(site, response)
        try:
            pets = _pets_in(response)
        except ApiError as error:
            return Check("findPetsByStatus", "fails", f"status={status}: {error.message}")
        if any(pet.status not in (status, None) for pet in pets):
            said = f"status={status} lists pets of another status too"
            return Check("findPetsByStatus", "fails", said)
        site.facts.media |= {kind for kind in MEDIA if response.media.endswith(kind)}
        site.ids[status] = {pet.id for pet in pets if pet.id is not None}
        site.sample = max((site.sample, *pets), key=_telling)
    return None


def _telling(pet: Pet) -> tuple[bool, bool, bool]:
    """How much of the service's ways a pet can show."""
    names = {tag.name for tag in pet.tags if tag.name and "," not in tag.name}
    return pet.id is not None, len(names) > 1, bool(pet.photo_urls)


def _refused(site: _Site, response: Response) -> Check:
    error = _error(response, "findPetsByStatus")
    if site.session.credentials.token is None:
        said = f"{response.status}: it asks for a token, and none was given"
        return Check("access", "fails", f"{said}. {error.hint}")
    return Check("access", "fails", _sentence(error.message, error.hint))


async def _access(site: _Site) -> Check:
    has_token = site.session.credentials.token is not None
    anonymous = await site.answers_to(_UNKNOWN_STATUS, token=False, key=False)
    if anonymous not in _REFUSED:
        said = "reading needs no token; whether writing does cannot be told by reading"
        extra = ", nor whether yours is good" if has_token else ""
        return Check("access", "noted", said + extra)
    return Check(
        "access",
        "fits",
        f"the token is accepted ({anonymous} without it) and may read; whether it has write:pets "
        "cannot be told by reading",
    )


async def _api_key(site: _Site) -> Check:
    status = await site.answers_to("", token=False, key=True)
    if status == 200:
        return Check("api key", "fits", "getPetById takes it in place of a token")
    return Check("api key", "noted", f"alone it does not open getPetById ({status})")


def _pets(site: _Site) -> Check:
    counts = ", ".join(f"{len(ids):,} {status}" for status, ids in site.ids.items())
    total = sum(map(len, site.ids.values()))
    return Check("pets", "noted", f"{total:,}: {counts}")


async def _several_statuses(site: _Site) -> Check:
    filled = sorted((s for s, ids in site.ids.items() if ids), key=lambda s: len(site.ids[s]))
    topic = "several statuses"
    if len(filled) < 2:
        return Check(topic, "untold", "fewer than two statuses have pets")
    names = [quote(status, safe="") for status in filled[:2]]
    queries = {"csv": f"status={','.join(names)}", "multi": "&".join(f"status={n}" for n in names)}
    understood = set()
    for style, query in queries.items():
        ids = _ids_in(await site.by_status(query))
        if all(ids & site.ids[status] for status in filled[:2]):
            understood.add(style)
    site.facts.arrays = frozenset(understood)
    said = (
        f"understood as {' and as '.join(sorted(understood))}" if understood else "only one counts"
    )
    if site.profile.one_value_a_query:
        return Check(topic, "fits", f"{said}; the profile asks for each alone, which always works")
    return Check(
        topic, "fits" if site.verdict("array_style", "one_value_a_query") else "fails", said
    )


async def _unknown_status(site: _Site) -> Check:
    response = await site.by_status(f"status={_UNKNOWN_STATUS}")
    topic = "unknown status"
    if response.status == 400:
        site.facts.unknown_status = "invalid"
        said = "refused with 400"
    elif response.status == 200 and not _ids_in(response):
        site.facts.unknown_status = "empty"
        said = "an empty list"
    else:
        return Check(topic, "noted", f"answered with {response.status}")
    return Check(topic, "fits" if site.verdict("unknown_status") else "differs", said)


async def _several_tags(site: _Site) -> Check:
    names = sorted({tag.name for tag in site.sample.tags if tag.name and "," not in tag.name})[:2]
    topic = "several tags"
    if len(names) < 2:
        return Check(topic, "untold", "no pet with two tags was seen")
    query = "tags=" + ",".join(quote(name, safe="") for name in names)
    response = await site.get("findPetsByTags", f"/pet/findByTags?{query}")
    try:
        pets = _pets_in(response, "findPetsByTags")
    except ApiError as error:
        return Check(topic, "noted", error.message)
    times = sum(pet.id == site.sample.id for pet in pets)
    said = {0: "not understood as csv", 1: "each pet once"}.get(
        times, "a pet once for each tag that fits (petsync keeps one)"
    )
    return Check(topic, "noted", said)


async def _one_pet(site: _Site) -> Check:
    response = await site.by_id(site.sample.id)
    try:
        pet = _pet_in(response)
    except ApiError as error:
        return Check("getPetById", "fails", error.message)
    if pet.id != site.sample.id:
        return Check("getPetById", "fails", f"asked for pet {site.sample.id}, it sent {pet.id}")
    known = f", with fields of its own: {', '.join(sorted(pet.extra))}" if pet.extra else ""
    return Check("getPetById", "fits", f"sends the pet that was asked for{known}")


def _absent(site: _Site) -> int:
    """The largest id that no pet was seen to have."""
    number = MAX_ID
    while any(number in ids for ids in site.ids.values()):
        number -= 1
    return number


def _unknown_id(response: Response) -> Check:
    topic = "unknown id"
    if response.status == 404:
        return Check(topic, "fits", "404, and ids may have 63 bits")
    said = f"{response.status} instead of 404: petsync cannot tell that a pet is not there"
    return Check(topic, "fails", said)


async def _no_number(site: _Site) -> Check:
    response = await site.by_id("no-number")
    return Check("id that is no number", "noted", f"{response.status}")


async def _as_xml(site: _Site) -> Check:
    if site.sample.id is None:
        return Check("XML", "untold", "no pet was seen")
    response = await site.by_id(site.sample.id, MEDIA["xml"])
    if not response.media.endswith("xml"):
        said = f"not spoken: asked for XML, it sends {response.media or 'nothing named'}"
        return Check("XML", "noted" if site.verdict("media") else "fails", said)
    site.facts.media |= {"xml"}
    try:
        pet = xml.decode_pet(response.body)
    except ResponseError as error:
        return Check("XML", "noted", error.message)
    site.facts.xml_photo_item = _item(rb"photoUrls", response.body, ("photoUrls", "photoUrl"))
    site.facts.xml_tag_item = _item(rb"tags", response.body, ("tags", "tag"))
    shapes = (site.facts.xml_photo_item, site.facts.xml_tag_item)
    said = "spoken" if pet.id == site.sample.id else "spoken, though it sent another pet"
    if all(shapes):
        said += f": photoUrls/{shapes[0]}, tags/{shapes[1]}"
    fits = site.verdict("xml_photo_item", "xml_tag_item")
    return Check("XML", "fits" if fits else "differs", said)


def _item(container: bytes, body: bytes, known: tuple[str, ...]) -> str | None:
    """The element name of an array's items, where it is one that a profile can say."""
    match = re.search(rb"<%b>\s*<([A-Za-z]+)[\s/>]" % container, body)
    name = match[1].decode() if match else None
    return name if name in known else None


async def _errors(site: _Site, missing: Response) -> Check:
    as_xml = await site.by_id(_absent(site), MEDIA["xml"])
    return Check("errors", "noted", f"{_shape(missing)}; in XML {_shape(as_xml)}")


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


def _limits(site: _Site) -> Check:
    asker = site.asker
    said = [f"{name}: {value}" for name, value in asker.headers(_LIMITS).items()]
    said += [f"busy {len(asker.waits)} times"] if asker.waits else []
    said += [f"no whole answer {asker.broken} times"] if asker.broken else []
    return Check("limits", "noted", "; ".join(said) or f"none seen in {asker.requests} requests")


def _unreadable() -> Check:
    names = [f.name for f in fields(ServiceProfile) if f.name not in (*READABLE, "name")]
    return Check("not looked at", "untold", f"only writing would tell: {', '.join(names)}")


def _ids_in(response: Response) -> set[int]:
    try:
        return {pet.id for pet in _pets_in(response) if pet.id is not None}
    except ApiError:
        return set()


def _pets_in(response: Response, operation: str = "findPetsByStatus") -> list[Pet]:
    """The pets of a list. Raises ApiError for anything else."""
    if response.status != 200:
        raise _error(response, operation)
    return calls.find_pets_by_status([_UNKNOWN_STATUS]).read(response)


def _pet_in(response: Response) -> Pet:
    if response.status != 200:
        raise _error(response, "getPetById")
    return calls.get_pet_by_id(0).read(response)


def _error(response: Response, operation: str) -> ApiError:
    request = Request(operation=operation, method="GET", target="", headers={})
    return error_for(response, request, datetime.now(UTC))


def _sentence(message: str, hint: str) -> str:
    return f"{message}. {hint}" if hint else message
