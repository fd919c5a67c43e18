"""examine: what one service supports, found out by GET requests alone.

The gaps are those of the interface (docs/profiles.md). What only writing would show is left
alone, and said to be.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields, replace
from urllib.parse import quote, urlsplit

from petsync.client.ask import MEDIA, Asker
from petsync.client.diagnosis import READABLE, Check, Diagnosis
from petsync.client.origin import is_loopback
from petsync.client.session import Session
from petsync.client.site import NO_STATUS, Site, error_of, ids_in, pet_in, pets_in
from petsync.errors import ApiError, ResponseError
from petsync.profile import ServiceProfile
from petsync.wire import calls, json, xml
from petsync.wire.message import Response

__all__ = ["examine"]

_LIMITS = ("retry-after", "ratelimit", "x-ratelimit", "x-rate-limit")
_NEARLY = 0.9
_REFUSED = frozenset({401, 403})


async def examine(session: Session) -> Diagnosis:
    """What the service does, compared with the session's profile. Raises nothing of the service's
    making: what goes wrong is a check that fails.
    """
    site = Site(session, Asker(session))
    masked = session.credentials.masked
    checks = [replace(check, found=masked(check.found)) async for check in _checks(site)]
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
    trouble = await _listed(site)
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


async def _listed(site: Site) -> Check | None:
    """Ask for every status alone and remember the pets; the check that fails, if one does."""
    topic = "reachable"
    for status in site.profile.statuses:
        try:
            response = await site.by_status(f"status={quote(status, safe='')}")
            topic = "findPetsByStatus"
            if response.status in _REFUSED:
                return _refused(site, response)
            pets = pets_in(response)
        except ApiError as error:
            return Check(topic, "fails", _sentence(error))
        if any(pet.status not in (status, None) for pet in pets):
            return Check(topic, "fails", f"status={status} lists pets of another status too")
        site.remember(status, response, pets)
    return None


def _refused(site: Site, response: Response) -> Check:
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
    shape = xml.shape_in(response.body, xml.Shape(photo_item="", tag_item=""))
    if shape.photo_item:
        said += f"; {shape.photo_array or 'without'}/{shape.photo_item}"
    if shape.tag_item:
        said += f"; {shape.tag_array or 'without'}/{shape.tag_item}"
    site.facts.xml_photo_item = _named(shape.photo_item, ("photoUrls", "photoUrl"))
    site.facts.xml_tag_item = _named(shape.tag_item, ("tags", "tag"))
    if site.profile.media == "json":
        fits = site.fits("xml_photo_item", "xml_tag_item")
        return Check("XML", "fits" if fits else "differs", said)
    profiled = calls.shape_of(site.profile)
    if xml.shape_in(response.body, profiled) == profiled:
        return Check("XML", "fits", said)
    lost = "the profile writes pets in another shape, from which a service reads no tags or photos"
    return Check("XML", "fails", f"{said}; {lost}")


def _named(item: str, known: tuple[str, ...]) -> str | None:
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
