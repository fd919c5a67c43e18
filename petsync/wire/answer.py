"""How a successful answer is read: as JSON or XML by its media type, and as the pet it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from petsync.errors import ResponseError
from petsync.model import ApiResponse, Pet
from petsync.wire import json, xml
from petsync.wire.message import Response

__all__ = [
    "added_answer",
    "done_answer",
    "kind_of",
    "pet_answer",
    "read_api_response",
    "read_pet",
    "reader",
]

T = TypeVar("T")

_JSON = frozenset({"application/json", "text/json"})
_XML = frozenset({"application/xml", "text/xml"})
_PAGE = frozenset({"text/html", "application/xhtml+xml"})
_UNSAID = frozenset({"", "application/octet-stream", "text/plain"})
_PAGE_STARTS = (b"<!doctype html", b"<html")


def kind_of(response: Response) -> Literal["json", "xml"]:
    """What the body is: by its media type, or by its first byte where that says nothing.

    Raises ResponseError for a web page, and for every other media type.
    """
    media = response.media
    if media in _PAGE or (media in _UNSAID and _starts_as_page(response.body)):
        raise ResponseError(
            "the answer is a web page, not pets; is the address right, or is a sign-in needed?",
            hint="The base URL is what stands before /pet; open it in a browser to see the page.",
        )
    if media in _JSON or media.endswith("+json"):
        return "json"
    if media in _XML or media.endswith("+xml"):
        return "xml"
    if media in _UNSAID:
        return "xml" if response.body.lstrip()[:1] == b"<" else "json"
    raise ResponseError(f"the answer is {media[:60]!r}, neither JSON nor XML")


def reader(
    from_json: Callable[[bytes], T], from_xml: Callable[[bytes], T]
) -> Callable[[Response], T]:
    """What reads an answer of either kind."""

    def read(response: Response) -> T:
        return (from_json if kind_of(response) == "json" else from_xml)(response.body)

    return read


_any_pet = reader(json.decode_pet, xml.decode_pet)
_decode_api_response = reader(json.decode_api_response, xml.decode_api_response)
_NOTHING = ApiResponse()


def read_pet(response: Response) -> Pet:
    """One pet, whichever it is. Raises ResponseError for what has none of a pet's fields."""
    pet = _any_pet(response)
    if msgspec.structs.replace(pet, extra=None) == _NOBODY:
        raise ResponseError("the answer is not a pet: it has none of a pet's fields")
    return pet


_NOBODY = Pet()


def added_answer(response: Response) -> Pet:
    """The pet that was added. Raises ResponseError where the answer does not say its id."""
    pet = read_pet(response)
    if pet.id is None:
        raise ResponseError("the answer does not say which id the pet has")
    return pet


def pet_answer(pet_id: int, *, asked: str, needs_id: bool) -> Callable[[Response], Pet]:
    """What reads the pet of that id, and raises ResponseError for another one.

    `asked` begins the message ("asked for"); without `needs_id` a pet without an id is taken.
    """

    def read(response: Response) -> Pet:
        pet = read_pet(response)
        if pet.id == pet_id or (pet.id is None and not needs_id):
            return pet
        came = "a pet without an id" if pet.id is None else f"pet {pet.id}"
        raise ResponseError(
            f"{asked} pet {pet_id}, was answered with {came}",
            hint="Does something between here and the service, a cache or a proxy, answer for it?",
        )

    return read


def read_api_response(response: Response) -> ApiResponse:
    """The ApiResponse of an upload. Raises ResponseError where it says nothing, or an error."""
    answer = _decode_api_response(response)
    if answer == _NOTHING:
        raise ResponseError("the answer is not an ApiResponse: it has no code, type or message")
    return _successful(answer)


def done_answer(pet_id: int) -> Callable[[Response], None]:
    """What reads the answer of an operation without a result on the pet of that id.

    Success is an empty body, an ApiResponse that reports no error, or the pet. Everything else,
    such as `{}` or the web page of a portal, raises ResponseError: it may come from elsewhere.
    """

    def read(response: Response) -> None:
        if not response.body.strip():
            return
        answer = _decode_api_response(response)
        if answer != _NOTHING:
            _successful(answer)
        elif read_pet(response).id != pet_id:
            raise ResponseError(f"the answer says nothing of pet {pet_id}")

    return read


def _successful(answer: ApiResponse) -> ApiResponse:
    is_error = answer.code is not None and 400 <= answer.code < 600
    if is_error or (answer.type or "").lower() == "error":
        said = " ".join((answer.message or "").split())[:300]
        raise ResponseError(f"the answer has the status of a success and reports an error: {said}")
    return answer


def _starts_as_page(body: bytes) -> bool:
    return body[:200].lstrip().lower().startswith(_PAGE_STARTS)
