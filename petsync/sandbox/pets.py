"""The pet operations of the sandbox."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from petsync.protocol import json, xml
from petsync.sandbox import http, storage
from petsync.sandbox.faults import ResponseDrift, drift_of, wait_for_disconnect
from petsync.sandbox.http import (
    FORM,
    JSON,
    LISTS,
    MULTIPART,
    UNKNOWN_TYPE,
    XML,
    Behaviour,
    Bound,
    Original,
    RefusedError,
    limit_body,
    media_type,
    not_in_xml,
    pet_xml,
)
from petsync.sandbox.service import Service
from petsync.sandbox.storage import BATCH, Selection, Storage, batches, find_unwritable

__all__ = [
    "MAX_IMAGE",
    "add_pet",
    "delete_pet",
    "find_pets_by_status",
    "find_pets_by_tags",
    "get_pet_by_id",
    "not_found",
    "path_pet_id",
    "pets",
    "serve_image",
    "sniff",
    "update_pet",
    "update_pet_with_form",
    "upload_file",
]


# Many pets as one response, streamed from a snapshot of the store.


Batches = Iterable[list[bytes]]


async def pets(
    storage: Storage,
    selection: Selection,
    media: Sequence[str],
    shape: xml.Shape,
    drift: ResponseDrift,
) -> ASGIApp:
    """Return the selected pets, in the first of `media` that can represent them all, with the
    copies that `drift` adds.

    A long list is sent in pieces while it is read. The moves of `drift` are carried out before the
    response is sent, but the response has the pets from before the moves. Raises RefusedError (406)
    if only XML is accepted and it cannot represent a pet.
    """
    with ExitStack() as resources:
        connection = resources.enter_context(storage.snapshot())
        kind = _media(connection, selection, media)
        found = batches(connection, selection)
        first = next(found, [])
        if drift.moves:
            await storage.write(drift.move)
        rest = map(drift.with_copies, chain([first] if first else [], found))
        pieces = _json(rest) if kind == JSON else _xml(rest, shape)
        if len(first) < BATCH:
            return Response(b"".join(pieces), media_type=kind)
        return _Stream(kind, pieces, resources.pop_all())


class _Stream:
    """An ASGI response that lets other requests run between two pieces. It ends if the client
    closes the connection.
    """

    def __init__(self, media: str, pieces: Iterable[bytes], resources: ExitStack) -> None:
        self._media = media
        self._pieces = pieces
        self._resources = resources

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self._media.encode())]
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            with self._resources:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                for piece in self._pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    await asyncio.sleep(0)
                    if gone.done():
                        return
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()


def _media(connection: sqlite3.Connection, selection: Selection, media: Sequence[str]) -> str:
    if media[0] == XML and (number := find_unwritable(connection, selection)) is not None:
        if JSON not in media:
            raise not_in_xml(f"pet {number}")
        return JSON
    return media[0]


def _json(found: Batches) -> Iterator[bytes]:
    opening = b"["
    for batch in found:
        yield opening + b",".join(batch)
        opening = b","
    yield b"[]" if opening == b"[" else b"]"


def _xml(found: Batches, shape: xml.Shape) -> Iterator[bytes]:
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<{shape.list_root}>'.encode()
    for batch in found:
        documents = (pet_xml(body, shape) for body in batch)
        yield b"".join(document[document.index(b"<Pet") :] for document in documents)
    yield f"</{shape.list_root}>".encode()


# The operations on pets, except uploadFile.


async def add_pet(service: Service, request: Request) -> ASGIApp:
    """Return the response of addPet: the stored pet, with its assigned id."""
    media, sent = await _receive_pet(service, request)
    return http.pet_response(await _add_pet(service, sent), media, service.behaviour)


async def update_pet(service: Service, request: Request) -> ASGIApp:
    """Return the response of updatePet: the stored pet, as sent; with `put_creates`, a pet without
    an id gets one.
    """
    media, sent = await _receive_pet(service, request)
    behaviour = service.behaviour
    if sent.pet.id is None and not behaviour.put_creates:
        raise RefusedError(400, "the pet has no id")
    if sent.pet.id is None:
        body = await _add_pet(service, sent)
    else:
        body = await service.storage.write(partial(_update, sent=sent, behaviour=behaviour))
    return http.pet_response(body, media, behaviour)


async def delete_pet(service: Service, request: Request) -> ASGIApp:
    """Return the response of deletePet, by default without a body."""
    media = http.accepted_media_types(request, service.behaviour)
    number = path_pet_id(service, request)
    if not await service.storage.write(partial(storage.remove, number=number)):
        raise not_found(number, Original(None))
    return http.success_response(str(number), media[0], service.behaviour)


async def get_pet_by_id(service: Service, request: Request) -> ASGIApp:
    """Return the response of getPetById: the pet."""
    media = http.accepted_media_types(request, service.behaviour)
    number = path_pet_id(service, request)
    body = storage.find(service.storage.reader, number)
    if body is None:
        raise not_found(number, Original("Pet not found", code=1, kind="error"))
    return http.pet_response(body, media, service.behaviour)


async def find_pets_by_status(service: Service, request: Request) -> ASGIApp:
    """Return the response of findPetsByStatus: the pets with any of the statuses."""
    behaviour = service.behaviour
    media = http.accepted_media_types(request, behaviour)
    statuses = _array(request, "status", behaviour)
    if behaviour.statuses is not None:
        for status in statuses:
            _check_status(status, behaviour)
    selection = storage.by_status(statuses, _order(behaviour))
    return await pets(service.storage, selection, media, behaviour.shape, drift_of(request))


async def find_pets_by_tags(service: Service, request: Request) -> ASGIApp:
    """Return the response of findPetsByTags: the pets with any of the tags."""
    behaviour = service.behaviour
    media = http.accepted_media_types(request, behaviour)
    tags = _array(request, "tags", behaviour)
    if not behaviour.imitates_original and "" in tags:
        raise RefusedError(400, "a tag is empty")
    selection = storage.by_tags(tags, once_per_tag=behaviour.once_per_tag, order=_order(behaviour))
    return await pets(service.storage, selection, media, behaviour.shape, drift_of(request))


async def update_pet_with_form(service: Service, request: Request) -> ASGIApp:
    """Return the response of updatePetWithForm, by default without a body. Fields that are not in
    the form stay unchanged; with `form_skips_empty`, also fields that are empty in the form.
    """
    behaviour = service.behaviour
    media = http.accepted_media_types(request, behaviour)
    number = path_pet_id(service, request)
    fields = await _form(request, behaviour)
    if behaviour.form_skips_empty:
        fields = {name: text for name, text in fields.items() if text}
    if "status" in fields:
        _check_status(fields["status"], behaviour)
    await service.storage.write(partial(_change, number=number, fields=fields))
    return http.success_response(str(number), media[0], behaviour)


def path_pet_id(service: Service, request: Request) -> int:
    """Return the pet id in the path."""
    return http.pet_id(request.path_params["petId"], refused_with=service.behaviour.bad_id)


def not_found(number: int | None, original: Original | None = None) -> RefusedError:
    """Return the refusal for an id that no pet has."""
    return RefusedError(404, f"there is no pet {number}", original=original)


async def _receive_pet(service: Service, request: Request) -> tuple[tuple[str, ...], Bound]:
    """Return the media types for the response, and the pet that was sent. Raises RefusedError if
    the body is not a pet, or if none of these types can represent the pet.
    """
    media = http.accepted_media_types(request, service.behaviour)
    sent = await http.pet(request, service.behaviour)
    if JSON not in media and not storage.is_xml(sent.pet, json.encode_pet(sent.pet)):
        raise http.not_in_xml("the pet")
    return media, sent


async def _add_pet(service: Service, sent: Bound) -> bytes:
    """Add a pet, with an assigned id if it has none or if `own_ids` is set, and return its JSON."""
    behaviour = service.behaviour
    if behaviour.own_ids:
        sent = sent._replace(pet=msgspec.structs.replace(sent.pet, id=None))
    if sent.pet.id is None and not behaviour.unique_ids:
        # No lock, as in the original server: until this pet is stored, another request can get
        # the same id.
        number = storage.next_id(service.storage.reader, reuse=behaviour.reuses_ids)
        pet = msgspec.structs.replace(sent.pet, id=number)
        job = partial(_save, sent=sent._replace(pet=pet), behaviour=behaviour)
    else:
        job = partial(_add, sent=sent, behaviour=behaviour)
    return await service.storage.write(job)


async def _form(request: Request, behaviour: Behaviour) -> dict[str, str]:
    body = await http.body(request)
    if body and media_type(request.headers.get("content-type")) != FORM:
        raise RefusedError(415, f"Content-Type must be {FORM}", original=UNKNOWN_TYPE)
    single = () if behaviour.first_value_only else ("name", "status")
    form = http.form(body, single=single)
    return {name: form[name] for name in ("name", "status") if name in form}


def _add(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    pet = sent.pet
    if pet.id is None:
        pet = msgspec.structs.replace(
            pet, id=storage.next_id(connection, reuse=behaviour.reuses_ids)
        )
    elif not behaviour.post_replaces and storage.find(connection, pet.id) is not None:
        raise RefusedError(409, f"pet {pet.id} already exists; it was not changed")
    return _save(connection, sent._replace(pet=pet), behaviour)


def _update(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    assert sent.pet.id is not None
    if not behaviour.put_creates and storage.find(connection, sent.pet.id) is None:
        raise not_found(sent.pet.id)
    return _save(connection, sent, behaviour)


def _save(connection: sqlite3.Connection, sent: Bound, behaviour: Behaviour) -> bytes:
    body = storage.save(connection, sent.pet, sent.nulls)
    storage.enforce_capacity(connection, behaviour.capacity)
    return body


def _change(connection: sqlite3.Connection, number: int, fields: dict[str, str]) -> None:
    body = storage.find(connection, number)
    if body is None:
        raise not_found(number, Original("not found"))
    nulls = LISTS - msgspec.json.decode(body).keys()
    storage.save(connection, msgspec.structs.replace(json.decode_pet(body), **fields), nulls)


def _order(behaviour: Behaviour) -> storage.Order:
    return "arrived" if behaviour.imitates_original else "id"


def _array(request: Request, name: str, behaviour: Behaviour) -> list[str]:
    query: bytes = request.scope["query_string"]
    values = http.array(query, name, first_only=behaviour.first_value_only)
    if not values and not behaviour.imitates_original:
        raise RefusedError(400, f"the parameter {name} is missing")
    return values


def _check_status(status: str, behaviour: Behaviour) -> None:
    if behaviour.statuses is not None and status not in behaviour.statuses:
        known = ", ".join(sorted(behaviour.statuses))
        raise RefusedError(400, f"{status[:40]!r} is not a status; the statuses are {known}")


# uploadFile, and the images that the service serves.


MAX_IMAGE = 10 * 1024 * 1024
"""The largest accepted file, in bytes."""

_ENVELOPE = 128 * 1024
_MAX_METADATA = 64 * 1024
_UNKNOWN = "application/octet-stream"
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class _Upload:
    file: bytes | None = None
    name: str | None = None
    metadata: str | None = None


def sniff(content: bytes) -> str:
    """Return the media type of an image; `application/octet-stream` if its format is unknown."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _MAGIC if content.startswith(magic)), _UNKNOWN)


async def upload_file(service: Service, request: Request) -> ASGIApp:
    """Return the response of uploadFile: an ApiResponse that says what was stored."""
    behaviour = service.behaviour
    media = http.accepted_media_types(request, behaviour)
    if behaviour.imitates_original and JSON not in media:
        raise RefusedError(406, "RESTEASY003635: No match for accept header")
    number = path_pet_id(service, request)
    upload = await _read_upload(request)
    if behaviour.imitates_original and upload.file is None:
        raise RefusedError(500, "there is no file", original=Original(None))
    image = await service.storage.write(
        partial(_store, number=number, upload=upload, service=service)
    )
    if behaviour.imitates_original:
        return http.api_response(200, "unknown", _as_original(upload), JSON, behaviour)
    message = "nothing was stored: there was no file"
    if upload.file is not None:
        message = f"image {image}: {len(upload.file)} bytes of {sniff(upload.file)}"
    note = "" if upload.metadata is None else f"; additional metadata: {upload.metadata[:500]}"
    return http.api_response(200, "unknown", message + note, media[0], behaviour)


def _as_original(upload: _Upload) -> str:
    metadata = "null" if upload.metadata is None else upload.metadata
    stored = f"./{upload.name}, {len(upload.file or b'')} bytes"
    return f"additionalMetadata: {metadata}\nFile uploaded to {stored}"


async def serve_image(service: Service, request: Request) -> Response:
    """Return an image, with headers that prevent a browser from treating it as a page of this
    origin.
    """
    number = http.pet_id(request.path_params["number"], refused_with=404)
    row = service.storage.reader.execute(
        "SELECT media, content FROM image WHERE number = ?", (number,)
    ).fetchone()
    if row is None:
        raise RefusedError(404, "there is no such image")
    media, content = row
    place = "attachment" if media == _UNKNOWN else "inline"
    headers = {
        "Content-Disposition": f'{place}; filename="image-{number}"',
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=3600",
    }
    return Response(content, headers=headers, media_type=media)


async def _read_upload(request: Request) -> _Upload:
    receive = limit_body(request, MAX_IMAGE + _ENVELOPE)
    if media_type(request.headers.get("content-type")) != MULTIPART:
        if await Request(request.scope, receive).body():
            problem = f"Content-Type must be {MULTIPART}"
            raise RefusedError(415, problem, original=UNKNOWN_TYPE)
        return _Upload()
    limited = Request(request.scope, receive)
    try:
        async with limited.form(max_files=1, max_fields=20, max_part_size=_MAX_METADATA) as form:
            http.check_repeats(form.multi_items(), ("file", "additionalMetadata"))
            file, metadata = form.get("file"), form.get("additionalMetadata")
            name = file.filename if isinstance(file, UploadFile) else None
            extra = None if metadata is None else await _text(metadata)
            return _Upload(await _bytes(file), name, extra)
    except HTTPException as error:
        raise RefusedError(400, f"the form cannot be read: {error.detail}") from None


async def _bytes(part: UploadFile | str | None) -> bytes | None:
    if part is None or isinstance(part, str):
        return None if part is None else part.encode()
    if (part.size or 0) > MAX_IMAGE:
        raise RefusedError(413, f"the file is larger than {MAX_IMAGE} bytes")
    return await part.read()


async def _text(part: UploadFile | str) -> str:
    return part if isinstance(part, str) else (await part.read()).decode(errors="replace")


def _store(
    connection: sqlite3.Connection, number: int, upload: _Upload, service: Service
) -> int | None:
    body = storage.find(connection, number)
    if body is None and service.behaviour.upload_needs_pet:
        raise not_found(number)
    if upload.file is None:
        return None
    row = (number, sniff(upload.file), upload.metadata, upload.file)
    image = connection.execute(
        "INSERT INTO image (pet_id, media, metadata, content) VALUES (?, ?, ?, ?)", row
    ).lastrowid
    if body is not None and service.behaviour.upload_adds_photo:
        pet = json.decode_pet(body)
        urls = (*pet.photo_urls, f"{service.url}/images/{image}")
        storage.save(connection, msgspec.structs.replace(pet, photo_urls=urls))
    return image
