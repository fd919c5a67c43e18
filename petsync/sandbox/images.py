"""uploadFile, and the images handed out again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import partial

import msgspec
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from petsync.sandbox import answer, parameters, records
from petsync.sandbox.incoming import UNKNOWN_TYPE, limited
from petsync.sandbox.negotiate import JSON, MULTIPART, media_type
from petsync.sandbox.pets import named, not_found
from petsync.sandbox.refusal import Original, RefusedError
from petsync.sandbox.service import Service
from petsync.wire import json

__all__ = ["MAX_IMAGE", "serve_image", "sniff", "upload_file"]

MAX_IMAGE = 10 * 1024 * 1024
"""The largest file that is taken, in bytes."""

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
    """The media type by the content alone; `application/octet-stream` for all but four kinds."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _MAGIC if content.startswith(magic)), _UNKNOWN)


async def upload_file(service: Service, request: Request) -> ASGIApp:
    """uploadFile: an ApiResponse that says what was stored."""
    behaviour = service.behaviour
    media = answer.accepted(request, behaviour)
    if behaviour.imitates_original and JSON not in media:
        raise RefusedError(406, "RESTEASY003635: No match for accept header")
    number = named(service, request)
    upload = await _read(request)
    if behaviour.imitates_original and upload.file is None:
        raise RefusedError(500, "there is no file", original=Original(None))
    image = await service.storage.write(
        partial(_store, number=number, upload=upload, service=service)
    )
    if behaviour.imitates_original:
        return answer.api_response(200, "unknown", _as_original(upload), JSON, behaviour)
    said = "nothing was stored: there was no file"
    if upload.file is not None:
        said = f"image {image}: {len(upload.file)} bytes of {sniff(upload.file)}"
    note = "" if upload.metadata is None else f"; additional metadata: {upload.metadata[:500]}"
    return answer.api_response(200, "unknown", said + note, media[0], behaviour)


def _as_original(upload: _Upload) -> str:
    metadata = "null" if upload.metadata is None else upload.metadata
    stored = f"./{upload.name}, {len(upload.file or b'')} bytes"
    return f"additionalMetadata: {metadata}\nFile uploaded to {stored}"


async def serve_image(service: Service, request: Request) -> Response:
    """An image, in a way that no browser can take for a page of this origin."""
    number = parameters.pet_id(request.path_params["number"], refused_with=404)
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


async def _read(request: Request) -> _Upload:
    receive = limited(request, MAX_IMAGE + _ENVELOPE)
    if media_type(request.headers.get("content-type")) != MULTIPART:
        if await Request(request.scope, receive).body():
            said = f"a file is sent as {MULTIPART}"
            raise RefusedError(415, said, original=UNKNOWN_TYPE)
        return _Upload()
    whole = Request(request.scope, receive)
    try:
        async with whole.form(max_files=1, max_fields=20, max_part_size=_MAX_METADATA) as form:
            parameters.once(form.multi_items(), ("file", "additionalMetadata"))
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
    body = records.find(connection, number)
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
        records.save(connection, msgspec.structs.replace(pet, photo_urls=urls))
    return image
