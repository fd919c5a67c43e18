"""The operations on pets, but for uploadFile."""

from __future__ import annotations

import sqlite3
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from petsync.sandbox import answer, incoming, listing, parameters, records
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.binding import LISTS, Bound
from petsync.sandbox.drift import drift_of
from petsync.sandbox.incoming import UNKNOWN_TYPE
from petsync.sandbox.negotiate import FORM, JSON, media_type
from petsync.sandbox.refusal import Original, RefusedError
from petsync.sandbox.service import Service
from petsync.wire import json

__all__ = [
    "add_pet",
    "delete_pet",
    "find_pets_by_status",
    "find_pets_by_tags",
    "get_pet_by_id",
    "named",
    "not_found",
    "update_pet",
    "update_pet_with_form",
]


async def add_pet(service: Service, request: Request) -> ASGIApp:
    """addPet: the pet as it is stored, with the id that it was given."""
    media, sent = await _sent(service, request)
    return answer.one_pet(await _added(service, sent), media, service.behaviour)


async def update_pet(service: Service, request: Request) -> ASGIApp:
    """updatePet: the pet as it is stored, which is wholly what was sent."""
    media, sent = await _sent(service, request)
    behaviour = service.behaviour
    if sent.pet.id is None and not behaviour.put_creates:
        raise RefusedError(400, "the pet has no id")
    if sent.pet.id is None:
        body = await _added(service, sent)
    else:
        body = await service.storage.write(partial(_update, sent=sent, behaviour=behaviour))
    return answer.one_pet(body, media, behaviour)


async def delete_pet(service: Service, request: Request) -> ASGIApp:
    """deletePet: no body."""
    media = answer.accepted(request, service.behaviour)
    number = named(service, request)
    if not await service.storage.write(partial(records.remove, number=number)):
        raise not_found(number, Original(None))
    return answer.done(str(number), media[0], service.behaviour)


async def get_pet_by_id(service: Service, request: Request) -> ASGIApp:
    """getPetById: the pet."""
    media = answer.accepted(request, service.behaviour)
    number = named(service, request)
    body = records.find(service.storage.reader, number)
    if body is None:
        raise not_found(number, Original("Pet not found", code=1, kind="error"))
    return answer.one_pet(body, media, service.behaviour)


async def find_pets_by_status(service: Service, request: Request) -> ASGIApp:
    """findPetsByStatus: the pets of any of the statuses."""
    behaviour = service.behaviour
    media = answer.accepted(request, behaviour)
    statuses = _array(request, "status", behaviour)
    if behaviour.statuses is not None:
        for status in statuses:
            _check_status(status, behaviour)
    selection, drift = records.by_status(statuses, _order(behaviour)), drift_of(request)
    found = listing.pets(service.storage, selection, media, behaviour.shape, drift)
    if drift.moves:
        # Before it is sent, and not in it: a list shows one moment of the store.
        await service.storage.write(drift.move)
    return found


async def find_pets_by_tags(service: Service, request: Request) -> ASGIApp:
    """findPetsByTags: the pets with any of the tags."""
    behaviour = service.behaviour
    media = answer.accepted(request, behaviour)
    tags = _array(request, "tags", behaviour)
    if not behaviour.imitates_original and "" in tags:
        raise RefusedError(400, "a tag is empty")
    selection = records.by_tags(tags, once_per_tag=behaviour.once_per_tag, order=_order(behaviour))
    return listing.pets(service.storage, selection, media, behaviour.shape, drift_of(request))


async def update_pet_with_form(service: Service, request: Request) -> ASGIApp:
    """updatePetWithForm: no body; what the form does not name stays as it is."""
    behaviour = service.behaviour
    media = answer.accepted(request, behaviour)
    number = named(service, request)
    fields = await _form(request, behaviour)
    if behaviour.form_skips_empty:
        fields = {name: text for name, text in fields.items() if text}
    if "status" in fields:
        _check_status(fields["status"], behaviour)
    await service.storage.write(partial(_change, number=number, fields=fields))
    return answer.done(str(number), media[0], behaviour)


def named(service: Service, request: Request) -> int:
    """The pet id in the path."""
    return parameters.pet_id(request.path_params["petId"], refused_with=service.behaviour.bad_id)


def not_found(number: int | None, original: Original | None = None) -> RefusedError:
    """For an id that no pet has."""
    return RefusedError(404, f"there is no pet {number}", original=original)


async def _sent(service: Service, request: Request) -> tuple[tuple[str, ...], Bound]:
    """How to answer, and the pet; refused before it is stored if it cannot be answered with."""
    media = answer.accepted(request, service.behaviour)
    sent = await incoming.pet(request, service.behaviour)
    if JSON not in media and not records.is_xml(sent.pet, json.encode_pet(sent.pet)):
        raise answer.not_in_xml("the pet")
    return media, sent


async def _added(service: Service, sent: Bound) -> bytes:
    """The JSON of a pet that was added, with an id if it came without one."""
    behaviour = service.behaviour
    if behaviour.own_ids:
        sent = sent._replace(pet=msgspec.structs.replace(sent.pet, id=None))
    if sent.pet.id is None and not behaviour.unique_ids:
        # No lock, as in the original server: until this pet is stored, another request can get
        # the same id.
        number = records.next_id(service.storage.reader, reuse=behaviour.reuses_ids)
        pet = msgspec.structs.replace(sent.pet, id=number)
        job = partial(_save, sent=sent._replace(pet=pet), behaviour=behaviour)
    else:
        job = partial(_add, sent=sent, behaviour=behaviour)
    return await service.storage.write(job)


async def _form(request: Request, behaviour: Behaviour) -> dict[str, str]:
    body = await incoming.body(request)
    if body and media_type(request.headers.get("content-type")) != FORM:
        raise RefusedError(415, f"the form is sent as {FORM}", original=UNKNOWN_TYPE)
    single = () if behaviour.first_value_only else ("name", "status")
    form = parameters.form(body, single=single)
    return {name: form[name] for name in ("name", "status") if name in form}


def _add(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    pet = sent.pet
    if pet.id is None:
        pet = msgspec.structs.replace(
            pet, id=records.next_id(connection, reuse=behaviour.reuses_ids)
        )
    elif not behaviour.post_replaces and records.find(connection, pet.id) is not None:
        raise RefusedError(409, f"there is a pet {pet.id} already, and it was not changed")
    return _save(connection, sent._replace(pet=pet), behaviour)


def _update(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    assert sent.pet.id is not None
    if not behaviour.put_creates and records.find(connection, sent.pet.id) is None:
        raise not_found(sent.pet.id)
    return _save(connection, sent, behaviour)


def _save(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    body = records.save(connection, sent.pet, sent.nulls)
    records.keep_within(connection, behaviour.capacity)
    return body


def _change(connection: sqlite3.Connection, number: int, fields: dict[str, str]) -> None:
    body = records.find(connection, number)
    if body is None:
        raise not_found(number, Original("not found"))
    nulls = LISTS - msgspec.json.decode(body).keys()
    records.save(connection, msgspec.structs.replace(json.decode_pet(body), **fields), nulls)


def _order(behaviour: Behaviour) -> records.Order:
    return "arrived" if behaviour.imitates_original else "id"


def _array(request: Request, name: str, behaviour: Behaviour) -> list[str]:
    query: bytes = request.scope["query_string"]
    values = parameters.array(query, name, first_only=behaviour.first_value_only)
    if not values and not behaviour.imitates_original:
        raise RefusedError(400, f"the parameter {name} is missing")
    return values


def _check_status(status: str, behaviour: Behaviour) -> None:
    if behaviour.statuses is not None and status not in behaviour.statuses:
        known = ", ".join(sorted(behaviour.statuses))
        raise RefusedError(400, f"{status[:40]!r} is no status: there is {known}")
