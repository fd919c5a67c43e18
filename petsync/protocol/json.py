"""Pets as JSON, with 64-bit ids and unknown fields.

A fast, strict decoder reads pets that have only known fields. If it fails, the JSON is decoded
again and read field by field, so that no field is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from petsync._json import decoder_of
from petsync.errors import ResponseError
from petsync.models import MAX_ID, MIN_ID, ApiResponse, Category, Id, Pet, Tag

__all__ = [
    "decode_api_response",
    "decode_pet",
    "decode_pets",
    "decode_pets_carefully",
    "encode_api_response",
    "encode_pet",
    "encode_pets",
    "split_list",
]


T = TypeVar("T")


class _PetRow(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A pet for the strict decoder."""

    id: Id | None = None
    name: str | None = None
    photo_urls: tuple[str, ...] = msgspec.field(default=(), name="photoUrls")
    category: Category | None = None
    tags: tuple[Tag, ...] = ()
    status: str | None = None

    def to_pet(self) -> Pet:
        return Pet(
            id=self.id,
            name=self.name,
            photo_urls=self.photo_urls,
            category=self.category,
            tags=self.tags,
            status=self.status,
        )


_row_decoder = decoder_of(_PetRow)
_rows_decoder = decoder_of(list[_PetRow])
_parts_decoder = decoder_of(list[msgspec.Raw])


def _plain(value: Any) -> Any:
    """Return a number or an array of numpy as JSON has it. Raises TypeError for other values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of the type {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_BYTE = re.compile(r"\(byte (\d+)\)")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KNOWN_FIELDS = ("id", "name", "photoUrls", "category", "tags", "status")


def decode_pet(body: bytes) -> Pet:
    """Decode one pet. Raises ResponseError if the JSON is not a pet."""
    try:
        return _row_decoder.decode(body).to_pet()
    except _UNREADABLE:
        return _pet(_decode_plain(body), "the pet")


def split_list(body: bytes) -> list[msgspec.Raw] | None:
    """Return the undecoded JSON of each value in a list; None if the JSON is not a list."""
    try:
        return _parts_decoder.decode(body)
    except _UNREADABLE:
        return None


def decode_pets(body: bytes) -> list[Pet]:
    """Decode a list of pets. Raises ResponseError if the JSON is not a list of pets; the error
    names the first item that is not a pet.
    """
    try:
        return [row.to_pet() for row in _rows_decoder.decode(body)]
    except _UNREADABLE:
        return decode_pets_carefully(body)


def decode_pets_carefully(body: bytes, *, before: int = 0, offset: int = 0) -> list[Pet]:
    """Decode a list of pets as `decode_pets` does, but without the fast decoder.

    If the body is the end of a longer list, `before` is the number of pets before it, and `offset`
    what errors add to a position in the body.
    """
    plain = _decode_plain(body, offset)
    if not isinstance(plain, list):
        raise ResponseError(f"a list of pets was expected, not {_type_name(plain)}")
    return [_pet(item, f"pet {n} of the list") for n, item in enumerate(plain, before + 1)]


def encode_pet(pet: Pet) -> bytes:
    """Encode one pet. Fields that are None are omitted; lists are always included."""
    return _encoder.encode(_pet_fields(pet))


def encode_pets(pets: Sequence[Pet]) -> bytes:
    return _encoder.encode([_pet_fields(pet) for pet in pets])


def decode_api_response(body: bytes) -> ApiResponse:
    """Decode an ApiResponse; unknown fields are ignored. Raises ResponseError."""
    try:
        return decoder_of(ApiResponse, strict=False).decode(body)
    except _UNREADABLE as error:
        raise ResponseError(f"the response is not an ApiResponse: {error}") from None


def encode_api_response(answer: ApiResponse) -> bytes:
    return _encoder.encode(answer)


def _pet_fields(pet: Pet) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": pet.id,
        "category": None if pet.category is None else _encode_label(pet.category),
        "name": pet.name,
        "status": pet.status,
    }
    lists = {"photoUrls": pet.photo_urls, "tags": [_encode_label(tag) for tag in pet.tags]}
    return {**(pet.extra or {}), **_drop_none(known), **lists}


def _encode_label(thing: Category | Tag) -> dict[str, Any]:
    return {**(thing.extra or {}), **_drop_none({"id": thing.id, "name": thing.name})}


def _drop_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _decode_plain(body: bytes, offset: int = 0) -> Any:
    try:
        return msgspec.json.decode(body)
    except _UNREADABLE as error:
        problem = _BYTE.sub(lambda found: f"(byte {int(found[1]) + offset})", str(error))
        raise ResponseError(f"the response is not valid JSON: {problem}") from None


def _pet(value: Any, where: str) -> Pet:
    fields = _object(value, where)
    if fields.get("id") is not None:
        where = f"{where} (id {str(fields['id'])[:30]})"
    return Pet(
        id=_number(fields.get("id"), f"{where}: id"),
        name=_text(fields.get("name"), f"{where}: name"),
        photo_urls=_items(fields.get("photoUrls"), f"{where}: photoUrls", _text),
        category=_category(fields.get("category"), f"{where}: category"),
        tags=_items(fields.get("tags"), f"{where}: tags", _tag),
        status=_text(fields.get("status"), f"{where}: status"),
        extra=_unknown_fields(fields, _KNOWN_FIELDS),
    )


def _category(value: Any, where: str) -> Category | None:
    if value is None:
        return None
    fields = _object(value, where)
    return Category(*_label(fields, where))


def _tag(value: Any, where: str) -> Tag:
    return Tag(*_label(_object(value, where), where))


def _label(
    fields: Mapping[str, Any], where: str
) -> tuple[int | None, str | None, dict[str, Any] | None]:
    return (
        _number(fields.get("id"), f"{where}: id"),
        _text(fields.get("name"), f"{where}: name"),
        _unknown_fields(fields, ("id", "name")),
    )


def _unknown_fields(fields: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any] | None:
    return {key: value for key, value in fields.items() if key not in known} or None


def _items(value: Any, where: str, read: Callable[[Any, str], T | None]) -> tuple[T, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ResponseError(f"{where} is {_type_name(value)}, not a list")
    items = (read(item, f"{where}[{n}]") for n, item in enumerate(value) if item is not None)
    return tuple(item for item in items if item is not None)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ResponseError(f"{where} is {_type_name(value)}, not an object")
    return value


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ResponseError(f"{where} is {_type_name(value)}, not text")


def _number(value: Any, where: str) -> int | None:
    """Return an int64. A string of digits is accepted too, because the live service accepts it."""
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and _is_digits(value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise ResponseError(f"{where} is {_type_name(value)}, not an integer")
    if not MIN_ID <= number <= MAX_ID:
        raise ResponseError(f"{where} is {number}, outside int64")
    return number


def _is_digits(text: str) -> bool:
    return len(text) <= 20 and text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()


def _type_name(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
