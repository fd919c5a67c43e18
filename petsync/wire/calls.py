"""The eight operations of the interface, each as a Call.

Where a parameter travels and which statuses succeed is the profile's matter (docs/profiles.md);
nothing here opens a connection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote, urlencode

from petsync.errors import InvalidInputError
from petsync.model import MAX_ID, MIN_ID, ApiResponse, Pet
from petsync.profile import STANDARD, ServiceProfile
from petsync.wire import json, xml
from petsync.wire.answer import added_answer, done_answer, pet_answer, read_api_response, reader
from petsync.wire.message import Call, Request, Response

__all__ = [
    "add_pet",
    "delete_pet",
    "find_pets_by_status",
    "find_pets_by_tags",
    "get_pet_by_id",
    "shape_of",
    "update_pet",
    "update_pet_with_form",
    "upload_file",
]

_MEDIA = {"json": "application/json", "xml": "application/xml"}


def add_pet(
    pet: Pet, *, profile: ServiceProfile = STANDARD, shape: xml.Shape | None = None
) -> Call[Pet]:
    """addPet. Never repeatable: an add without an id would make two pets.

    In XML the pet has the given shape, the profile's if that is None.
    """
    return _send_pet("addPet", "POST", pet, profile, shape, read=added_answer, repeatable=False)


def update_pet(
    pet: Pet, *, profile: ServiceProfile = STANDARD, shape: xml.Shape | None = None
) -> Call[Pet]:
    """updatePet: the whole pet is replaced by what is sent. In XML it has the given shape, the
    profile's if that is None.
    """
    pet_id = _is_pet(pet, "updatePet").id
    if pet_id is None:
        raise InvalidInputError("updatePet needs a pet with an id", operation="updatePet")
    read = pet_answer(pet_id, asked="sent", needs_id=False)
    return _send_pet("updatePet", "PUT", pet, profile, shape, read=read, repeatable=True)


def delete_pet(
    pet_id: int, *, api_key: str | None = None, profile: ServiceProfile = STANDARD
) -> Call[None]:
    """deletePet, with the `api_key` parameter as a header where one is given."""
    headers = {} if api_key is None else {profile.api_key_header: api_key}
    request = _request("deletePet", "DELETE", pet_id, profile, headers=headers)
    return Call(request, done_answer(pet_id))


def find_pets_by_status(
    statuses: Sequence[str], *, profile: ServiceProfile = STANDARD
) -> Call[list[Pet]]:
    """findPetsByStatus, one request for all values."""
    target = "/pet/findByStatus?" + _array("status", statuses, profile, "findPetsByStatus")
    return _find("findPetsByStatus", target, profile)


def find_pets_by_tags(
    tags: Sequence[str], *, profile: ServiceProfile = STANDARD
) -> Call[list[Pet]]:
    """findPetsByTags, one request for all values: the pets that carry at least one of them."""
    target = "/pet/findByTags?" + _array("tags", tags, profile, "findPetsByTags")
    return _find("findPetsByTags", target, profile)


def get_pet_by_id(pet_id: int, *, profile: ServiceProfile = STANDARD) -> Call[Pet]:
    """getPetById. An answer that is another pet is a ResponseError."""
    read = pet_answer(pet_id, asked="asked for", needs_id=True)
    return Call(_request("getPetById", "GET", pet_id, profile), read)


def update_pet_with_form(
    pet_id: int,
    *,
    name: str | None = None,
    status: str | None = None,
    profile: ServiceProfile = STANDARD,
) -> Call[None]:
    """updatePetWithForm: only the fields that are given are sent."""
    fields = {key: text for key, text in (("name", name), ("status", status)) if text is not None}
    request = _request(
        "updatePetWithForm",
        "POST",
        pet_id,
        profile,
        headers={"content-type": "application/x-www-form-urlencoded"},
        body=urlencode(fields).encode(),
    )
    return Call(request, done_answer(pet_id))


def upload_file(
    pet_id: int,
    *,
    file: bytes | None = None,
    filename: str = "image",
    additional_metadata: str | None = None,
    profile: ServiceProfile = STANDARD,
) -> Call[ApiResponse]:
    """uploadFile as multipart/form-data. Never repeatable: a second one adds a second image.

    It asks for JSON in every profile: the original server has no XML for it, and answers 406.
    """
    boundary, body = _multipart(file, filename, additional_metadata)
    request = _request(
        "uploadFile",
        "POST",
        pet_id,
        profile,
        suffix="/uploadImage",
        headers={
            "accept": _MEDIA["json"],
            "content-type": f"multipart/form-data; boundary={boundary}",
        },
        body=body,
        repeatable=False,
    )
    return Call(request, read_api_response)


def shape_of(profile: ServiceProfile) -> xml.Shape:
    """The XML element names of a profile."""
    return xml.Shape(photo_item=profile.xml_photo_item, tag_item=profile.xml_tag_item)


def _send_pet(
    operation: str,
    method: str,
    pet: Pet,
    profile: ServiceProfile,
    shape: xml.Shape | None,
    *,
    read: Callable[[Response], Pet],
    repeatable: bool,
) -> Call[Pet]:
    _is_pet(pet, operation)
    try:
        as_xml = profile.media == "xml"
        shape = shape or shape_of(profile)
        body = xml.encode_pet(pet, shape) if as_xml else json.encode_pet(pet)
    except InvalidInputError as error:
        error.operation, error.pet_id = operation, pet.id
        raise
    except UnicodeEncodeError:
        raise InvalidInputError(
            "the pet holds half of a surrogate pair, which is no character",
            operation=operation,
            pet_id=pet.id,
        ) from None
    if pet.id is not None:
        _checked(pet.id, operation)
    media = _MEDIA[profile.media]
    request = Request(
        operation=operation,
        method=method,
        target="/pet",
        headers={"accept": media, "content-type": media},
        body=body,
        pet_id=pet.id,
        repeatable=repeatable,
    )
    return Call(request, read)


def _is_pet(pet: object, operation: str) -> Pet:
    if isinstance(pet, Pet):
        return pet
    given = type(pet).__name__
    raise InvalidInputError(
        f"{operation} takes a Pet, not {given}",
        operation=operation,
        hint='For example petsync.Pet(name="Rex", status="available").',
    )


def _find(operation: str, target: str, profile: ServiceProfile) -> Call[list[Pet]]:
    headers = {"accept": _MEDIA[profile.media]}
    request = Request(operation=operation, method="GET", target=target, headers=headers)
    return Call(request, reader(json.decode_pets, xml.decode_pets))


def _request(
    operation: str,
    method: str,
    pet_id: int,
    profile: ServiceProfile,
    *,
    suffix: str = "",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    repeatable: bool = True,
) -> Request:
    return Request(
        operation=operation,
        method=method,
        target=f"/pet/{_checked(pet_id, operation)}{suffix}",
        headers={"accept": _MEDIA[profile.media], **(headers or {})},
        body=body,
        pet_id=pet_id,
        repeatable=repeatable,
    )


def _checked(pet_id: int, operation: str) -> int:
    """The id itself: an id of another type or size must not become another path."""
    if isinstance(pet_id, bool) or not isinstance(pet_id, int) or not MIN_ID <= pet_id <= MAX_ID:
        raise InvalidInputError(f"{operation}: {pet_id!r} is no int64 pet id", operation=operation)
    return pet_id


def _array(name: str, values: Iterable[str], profile: ServiceProfile, operation: str) -> str:
    items = list(dict.fromkeys(_texts(values, operation)))
    if not items:
        raise InvalidInputError(f"{operation} needs at least one value", operation=operation)
    for item in items:
        if "," in item:
            raise InvalidInputError(
                f"{operation}: {item!r} holds a comma, which separates values here",
                operation=operation,
                hint="Services split the value at an escaped comma too. Take a snapshot, and look "
                "for the value in its table.",
            )
    if profile.array_style == "multi":
        return "&".join(f"{name}={quote(item, safe='')}" for item in items)
    return f"{name}={','.join(quote(item, safe='') for item in items)}"


def _texts(values: Iterable[object], operation: str) -> list[str]:
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise InvalidInputError(
                f"{operation} takes texts, not {type(value).__name__}", operation=operation
            )
        texts.append(value)
    return texts


def _multipart(
    file: bytes | None, filename: str, additional_metadata: str | None
) -> tuple[str, bytes]:
    parts: list[tuple[str, bytes]] = []
    if additional_metadata is not None:
        parts.append(('name="additionalMetadata"\r\n', additional_metadata.encode()))
    if file is not None:
        disposition = f'name="file"; filename="{_escaped(filename)}"\r\n'
        parts.append((disposition + "Content-Type: application/octet-stream\r\n", file))
    digest = hashlib.sha256(b"".join(content for _, content in parts)).hexdigest()
    boundary = f"petsync-{digest[:48]}"
    heads = (f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n" for head, _ in parts)
    body = b"".join(
        head.encode() + content + b"\r\n" for head, (_, content) in zip(heads, parts, strict=True)
    )
    return boundary, body + f"--{boundary}--\r\n".encode()


def _escaped(filename: str) -> str:
    """As WHATWG's form encoding does it, so that a name cannot end its header."""
    return filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
