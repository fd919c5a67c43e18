"""The eight operations as calls, and the errors for unsuccessful responses, without I/O."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from petsync import errors
from petsync.errors import InvalidInputError, ResponseError
from petsync.models import ApiResponse, Pet, as_int64
from petsync.profile import STANDARD, ServiceProfile
from petsync.protocol import json, xml
from petsync.settings import Secret

__all__ = [
    "NO_STATUS",
    "BodyReader",
    "Call",
    "NewReader",
    "Request",
    "Response",
    "Traffic",
    "add_pet",
    "delete_pet",
    "detect_media",
    "error_for",
    "find_pets_by_status",
    "find_pets_by_tags",
    "get_pet_by_id",
    "media_reader",
    "pet_reader",
    "read_added_pet",
    "read_api_response",
    "read_pet",
    "retry_after",
    "shape_of",
    "success_reader",
    "update_pet",
    "update_pet_with_form",
    "upload_file",
]


# Request, Response, and Call: a request with the function that reads its response.


T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `target` is the percent-encoded path after the base URL, with the query. Sending a
    `repeatable` request twice has the same effect as sending it once. `api_key`, if set, replaces
    the session's API key.
    """

    operation: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    pet_id: int | None = None
    repeatable: bool = True
    api_key: Secret | None = None


class BodyReader(Protocol):
    """Reads the body of a response while it arrives."""

    @property
    def is_full(self) -> bool:
        """True if the rest of the body is not needed: the connection is then closed."""

    def write(self, piece: bytes, /) -> object:
        """Take the next piece of the body."""
        ...


class Response(msgspec.Struct, frozen=True):
    """A complete response; header names are in lower case. The repr shows neither headers nor body,
    because services repeat the secrets that they receive. If a `reader` took the body, `body` is
    empty.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    reader: BodyReader | None = None

    def __repr__(self) -> str:
        return f"Response(status={self.status})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("status", self.status)]

    @property
    def media(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


NewReader = Callable[[Response], BodyReader]


class Call(msgspec.Struct, Generic[T], frozen=True):
    """A request, and the function that reads a successful response to it. With `new_reader`, which
    gets the response without its body, the new reader takes the body of such a response.
    """

    request: Request
    read: Callable[[Response], T]
    new_reader: NewReader | None = None


# Readers of successful responses.


_JSON = frozenset({"application/json", "text/json"})
_XML = frozenset({"application/xml", "text/xml"})
_PAGE = frozenset({"text/html", "application/xhtml+xml"})
_UNSPECIFIC = frozenset({"", "application/octet-stream", "text/plain"})
_PAGE_STARTS = (b"<!doctype html", b"<html")


def detect_media(response: Response) -> Literal["json", "xml"]:
    """Return the format of the body, from its media type or, if that is missing or unspecific, from
    its first byte.

    Raises ResponseError for a web page, and for a media type that is neither JSON nor XML.
    """
    media = response.media
    if media in _JSON:
        return "json"
    if media in _PAGE or (media in _UNSPECIFIC and _starts_as_page(response.body)):
        raise ResponseError(
            "the response is a web page, not pets",
            hint="Check the base URL, and whether the service or a proxy requires a sign-in. The "
            "base URL is the part before /pet; open it in a browser to see the page.",
        )
    if media.endswith("+json"):
        return "json"
    if media in _XML or media.endswith("+xml"):
        return "xml"
    if media in _UNSPECIFIC:
        return "xml" if response.body.lstrip()[:1] == b"<" else "json"
    raise ResponseError(f"the response is {media[:60]!r}, neither JSON nor XML")


def media_reader(
    from_json: Callable[[bytes], T], from_xml: Callable[[bytes], T]
) -> Callable[[Response], T]:
    """Return a function that decodes the body of a response in either format."""

    def decode(response: Response) -> T:
        return (from_json if detect_media(response) == "json" else from_xml)(response.body)

    return decode


_any_pet = media_reader(json.decode_pet, xml.decode_pet)
_decode_api_response = media_reader(json.decode_api_response, xml.decode_api_response)
_EMPTY_RESPONSE = ApiResponse()


def read_pet(response: Response) -> Pet:
    """Return the pet in a response. Raises ResponseError if the response is not a pet."""
    pet = _any_pet(response)
    if (pet if pet.extra is None else replace(pet, extra=None)) == _EMPTY_PET:
        raise ResponseError("the response is not a pet: it has no field of a pet")
    return pet


_EMPTY_PET = Pet()


def read_added_pet(response: Response) -> Pet:
    """Return the pet in the response to addPet. Raises ResponseError if the pet has no id."""
    pet = read_pet(response)
    if pet.id is None:
        raise ResponseError("the pet in the response has no id")
    return pet


def pet_reader(pet_id: int, *, action: str, needs_id: bool) -> Callable[[Response], Pet]:
    """Return a function that reads a pet, and raises ResponseError if it has another id.

    `action` starts the error message, such as "asked for". Without `needs_id`, a pet without an id
    is accepted.
    """

    def read_answer(response: Response) -> Pet:
        pet = read_pet(response)
        if pet.id == pet_id or (pet.id is None and not needs_id):
            return pet
        answered = "a pet without an id" if pet.id is None else f"pet {pet.id}"
        raise ResponseError(
            f"{action} pet {pet_id}, got {answered}",
            hint="Check whether the response comes from a cache or a proxy, not from the service.",
        )

    return read_answer


def read_api_response(response: Response) -> ApiResponse:
    """Return the ApiResponse in a response. Raises ResponseError if it is empty or reports an
    error.
    """
    answer = _decode_api_response(response)
    if answer == _EMPTY_RESPONSE:
        raise ResponseError("the response is not an ApiResponse: it has no code, type or message")
    return _checked_success(answer)


def success_reader(pet_id: int) -> Callable[[Response], None]:
    """Return a function that checks the response of an operation without a result, such as
    deletePet.

    It accepts an empty body, an ApiResponse that reports no error, and the pet itself. It raises
    ResponseError for any other body, such as `{}` or a web page, which may not come from the
    service.
    """

    def read_answer(response: Response) -> None:
        if not response.body.strip():
            return
        answer = _decode_api_response(response)
        if answer != _EMPTY_RESPONSE:
            _checked_success(answer)
        elif read_pet(response).id != pet_id:
            raise ResponseError(f"the response is not about pet {pet_id}")

    return read_answer


def _checked_success(answer: ApiResponse) -> ApiResponse:
    is_error = answer.code is not None and 400 <= answer.code < 600
    if is_error or (answer.type or "").lower() == "error":
        message = " ".join((answer.message or "").split())[:300]
        raise ResponseError(f"the response has a success status but reports an error: {message}")
    return answer


def _starts_as_page(body: bytes) -> bool:
    return body[:200].lstrip().lower().startswith(_PAGE_STARTS)


# The eight operations of the service, each as a Call. The profile determines the form of
# parameters and bodies (docs/profiles.md).


NO_STATUS = "petsync-doctor-asks"
"""A status that presumably no pet has."""
_MEDIA = {"json": "application/json", "xml": "application/xml"}


def add_pet(
    pet: Pet, *, profile: ServiceProfile = STANDARD, shape: xml.Shape | None = None
) -> Call[Pet]:
    """Return the call of addPet. It is not repeatable: without an id, a second request would add a
    second pet. `shape` is the shape of the pet in XML; None for the profile's.
    """
    return _send_pet("addPet", "POST", pet, profile, shape, read=read_added_pet, repeatable=False)


def update_pet(
    pet: Pet, *, profile: ServiceProfile = STANDARD, shape: xml.Shape | None = None
) -> Call[Pet]:
    """Return the call of updatePet, which replaces all fields of the pet. `shape` is the shape of
    the pet in XML; None for the profile's.
    """
    pet_id = _check_pet(pet, "updatePet").id
    if pet_id is None:
        raise InvalidInputError("updatePet needs a pet with an id", operation="updatePet")
    read = pet_reader(pet_id, action="sent", needs_id=False)
    return _send_pet("updatePet", "PUT", pet, profile, shape, read=read, repeatable=True)


def delete_pet(
    pet_id: int, *, api_key: Secret | None = None, profile: ServiceProfile = STANDARD
) -> Call[None]:
    """Return the call of deletePet. `api_key`, if given, replaces the session's API key."""
    request = _request("deletePet", "DELETE", pet_id, profile)
    return Call(replace(request, api_key=api_key), success_reader(pet_id))


def find_pets_by_status(
    statuses: Sequence[str], *, profile: ServiceProfile = STANDARD
) -> Call[list[Pet]]:
    """Return the call of findPetsByStatus: one request for all values."""
    target = "/pet/findByStatus?" + _array_parameter(
        "status", statuses, profile, "findPetsByStatus"
    )
    return _find("findPetsByStatus", target, profile)


def find_pets_by_tags(
    tags: Sequence[str], *, profile: ServiceProfile = STANDARD
) -> Call[list[Pet]]:
    """Return the call of findPetsByTags: one request for the pets with at least one of the tags."""
    target = "/pet/findByTags?" + _array_parameter("tags", tags, profile, "findPetsByTags")
    return _find("findPetsByTags", target, profile)


def get_pet_by_id(pet_id: int, *, profile: ServiceProfile = STANDARD) -> Call[Pet]:
    """Return the call of getPetById. Its reader raises ResponseError for another pet."""
    read = pet_reader(pet_id, action="asked for", needs_id=True)
    return Call(_request("getPetById", "GET", pet_id, profile), read)


def update_pet_with_form(
    pet_id: int,
    *,
    name: str | None = None,
    status: str | None = None,
    profile: ServiceProfile = STANDARD,
) -> Call[None]:
    """Return the call of updatePetWithForm. A field that is None is not sent."""
    given = {"name": name, "status": status}
    fields = {key: text for key, text in given.items() if text is not None}
    _check_fields(fields, "updatePetWithForm")
    try:
        body = urlencode(fields).encode()
    except UnicodeEncodeError:
        raise _build_surrogate_error("the form", "updatePetWithForm", pet_id) from None
    request = _request(
        "updatePetWithForm",
        "POST",
        pet_id,
        profile,
        headers={"content-type": "application/x-www-form-urlencoded"},
        body=body,
    )
    return Call(request, success_reader(pet_id))


def upload_file(
    pet_id: int,
    *,
    file: bytes | None = None,
    filename: str = "image",
    additional_metadata: str | None = None,
    profile: ServiceProfile = STANDARD,
) -> Call[ApiResponse]:
    """Return the call of uploadFile, as multipart/form-data. It is not repeatable: a second request
    would add a second image.

    It requests JSON in every profile, because the original server has no XML for this response.
    """
    texts = {"filename": filename, "additional_metadata": additional_metadata}
    _check_fields(texts, "uploadFile")
    try:
        boundary, body = _multipart(file, filename, additional_metadata)
    except UnicodeEncodeError:
        what = "the file name or the metadata"
        raise _build_surrogate_error(what, "uploadFile", pet_id) from None
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
    """Return the shape of pets in XML according to a profile."""
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
    _check_pet(pet, operation)
    try:
        as_xml = profile.media == "xml"
        shape = shape or shape_of(profile)
        body = xml.encode_pet(pet, shape) if as_xml else json.encode_pet(pet)
    except InvalidInputError as error:
        error.operation, error.pet_id = operation, pet.id
        raise
    except UnicodeEncodeError:
        raise _build_surrogate_error("the pet", operation, pet.id) from None
    except TypeError as error:
        raise InvalidInputError(
            f"the extra fields of the pet have {error}, which JSON cannot have",
            operation=operation,
            pet_id=pet.id,
        ) from None
    if pet.id is not None:
        _check_id(pet.id, operation)
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


def _build_surrogate_error(what: str, operation: str, pet_id: int | None) -> InvalidInputError:
    return InvalidInputError(
        f"{what} contains half of a surrogate pair, which is not a character",
        operation=operation,
        pet_id=pet_id,
    )


def _check_pet(pet: object, operation: str) -> Pet:
    if isinstance(pet, Pet):
        return pet
    type_name = type(pet).__name__
    raise InvalidInputError(
        f"{operation} takes a Pet, not {type_name}",
        operation=operation,
        hint='For example petsync.Pet(name="Rex", status="available").',
    )


def _find(operation: str, target: str, profile: ServiceProfile) -> Call[list[Pet]]:
    headers = {"accept": _MEDIA[profile.media]}
    request = Request(operation=operation, method="GET", target=target, headers=headers)
    return Call(request, media_reader(json.decode_pets, xml.decode_pets))


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
    pet_id = _check_id(pet_id, operation)
    return Request(
        operation=operation,
        method=method,
        target=f"/pet/{pet_id}{suffix}",
        headers={"accept": _MEDIA[profile.media], **(headers or {})},
        body=body,
        pet_id=pet_id,
        repeatable=repeatable,
    )


def _check_id(pet_id: int, operation: str) -> int:
    """Return the id. Raises InvalidInputError if it is not an int64: another value could change the
    request's path.
    """
    number = as_int64(pet_id)
    if number is None:
        raise InvalidInputError(
            f"{operation}: {pet_id!r} is not an int64 pet id", operation=operation
        )
    return number


def _array_parameter(
    name: str, values: Iterable[str], profile: ServiceProfile, operation: str
) -> str:
    items = list(dict.fromkeys(_check_texts(values, operation)))
    if not items:
        raise InvalidInputError(f"{operation} needs at least one value", operation=operation)
    for item in items:
        if "," in item:
            raise InvalidInputError(
                f"{operation}: {item!r} has a comma, which would separate two values",
                operation=operation,
                hint="Services also split a value at an encoded comma. Take a snapshot, and look "
                "for the value in its table.",
            )
    try:
        quoted = [quote(item, safe="") for item in items]
    except UnicodeEncodeError:
        raise _build_surrogate_error("a value", operation, None) from None
    if profile.array_style == "multi":
        return "&".join(f"{name}={item}" for item in quoted)
    return f"{name}={','.join(quoted)}"


def _check_texts(values: Iterable[object], operation: str) -> list[str]:
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise InvalidInputError(
                f"{operation} takes strings, not {type(value).__name__}", operation=operation
            )
        texts.append(value)
    return texts


def _check_fields(fields: Mapping[str, object], operation: str) -> None:
    """Raise InvalidInputError if a field is neither text nor None."""
    for name, value in fields.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(
                f"{operation}: {name} is {value!r}, not text",
                operation=operation,
                hint="Give text, or None to leave it out.",
            )


def _multipart(
    file: bytes | None, filename: str, additional_metadata: str | None
) -> tuple[str, bytes]:
    parts: list[tuple[str, bytes]] = []
    if additional_metadata is not None:
        parts.append(('name="additionalMetadata"\r\n', additional_metadata.encode()))
    if file is not None:
        disposition = f'name="file"; filename="{_escape_filename(filename)}"\r\n'
        parts.append((disposition + "Content-Type: application/octet-stream\r\n", file))
    digest = hashlib.sha256(b"".join(content for _, content in parts)).hexdigest()
    boundary = f"petsync-{digest[:48]}"
    heads = (f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n" for head, _ in parts)
    body = b"".join(
        head.encode() + content + b"\r\n" for head, (_, content) in zip(heads, parts, strict=True)
    )
    return boundary, body + f"--{boundary}--\r\n".encode()


def _escape_filename(filename: str) -> str:
    """Return the name, escaped as the WHATWG specifies, so that it cannot end its header."""
    return filename.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


# The errors of petsync.errors for unsuccessful responses.


_INVALID = frozenset({400, 405, 406, 413, 414, 415, 422})
_MAX_WAIT_S = 1e9
_WITHOUT_ID = frozenset({"addPet", "findPetsByStatus", "findPetsByTags"})
"""The operations that do not need an existing pet: a 404 indicates a wrong base URL."""
_HINTS = {
    401: "Sign in: `petsync login`, in Python ps.widgets.login(store). Or give a token: "
    "PETSYNC_TOKEN, or --token-file, in Python auth=ps.auth.bearer(token).",
    403: "The token may lack a scope that this operation needs: read:pets or write:pets.",
}


def error_for(
    response: Response,
    request: Request,
    now: datetime,
    masked: Callable[[str], str] = str,
) -> errors.ApiError:
    """Return the error for a status outside 2xx. `masked` masks the secrets in the service's
    message.

    If Retry-After is a date, the wait is counted from the response's Date header or, without one,
    from `now`.
    """
    # Mask before the line breaks are removed: they help to recognise base64 that has several lines.
    answer = _read_message(response)
    text = _read_text(response) if answer is None else answer
    message_text = " ".join(masked(text).split())[:300]
    subject = "" if request.pet_id is None else f" of pet {request.pet_id}"
    message = f"{request.operation}{subject}: {response.status} {message_text}".rstrip()
    kind = _error_type(response.status)
    # A 1xx or 3xx shows neither success nor failure: the change may have been made.
    is_ambiguous = response.status < 400 and request.method != "GET"
    error = kind(
        message,
        operation=request.operation,
        pet_id=request.pet_id,
        status=response.status,
        service_message=message_text,
        may_have_happened=response.status >= 500 or is_ambiguous,
        hint=_hint(response.status, request),
    )
    if isinstance(error, errors.ServiceError):
        error.is_page = answer is None
    if isinstance(error, errors.RateLimitedError | errors.ServiceError):
        service_now = _parse_date(response.headers.get("date", "")) or now
        error.retry_after = retry_after(response.headers.get("retry-after", ""), service_now)
        error.cure = _wait_hint(error.retry_after) or error.cure
    return error


def _wait_hint(seconds: float | None) -> str:
    if not seconds:
        return ""
    whole = math.ceil(seconds)
    return f"The service asks you to wait {whole} second{'' if whole == 1 else 's'}."


def _hint(status: int, request: Request) -> str:
    if status == 404 and request.pet_id is None and request.operation in _WITHOUT_ID:
        return "Check the base URL: it is the part before /pet, and often ends in /v2."
    return _HINTS.get(status, "")


def retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds to wait according to a Retry-After header, which is a number of seconds or
    a date; None if it is neither.

    Source: RFC 9110, section 10.2.3.
    """
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return min(float(text), _MAX_WAIT_S)
    date = _parse_date(text)
    try:
        return None if date is None else max(0.0, (date - now).total_seconds())
    except OverflowError:
        return None


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, ArithmeticError, LookupError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _error_type(status: int) -> type[errors.ApiError]:
    if status in (401, 403):
        return errors.AuthError
    if status in _INVALID:
        return errors.InvalidInputError
    if status >= 500:
        return errors.ServiceError
    return {
        404: errors.NotFoundError,
        409: errors.DuplicateError,
        429: errors.RateLimitedError,
    }.get(status, errors.ResponseError)


def _read_message(response: Response) -> str | None:
    """Return the message of the ApiResponse in the body; None if the body is something else."""
    try:
        if response.media.endswith("json"):
            return json.decode_api_response(response.body).message or ""
        if response.media.endswith("xml"):
            return xml.decode_api_response(response.body).message or ""
    except errors.ResponseError:
        pass
    return None


def _read_text(response: Response) -> str:
    """Return the body as text, unless it is HTML."""
    return "" if response.media.endswith("html") else response.body.decode("utf-8", "replace")


# Traffic: the statistics of the requests to a service.


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Counts of the requests since the start of a session or run, and their current state."""

    requests: int = 0
    """The number of requests, including repeated ones."""
    retries: int = 0
    """The number of repeated requests."""
    refused: int = 0
    """The number of responses with 429 or 503."""
    limit: int = 0
    """The current limit of concurrent requests."""
    under_way: int = 0
    """The number of requests in flight."""
    waiting: float = 0.0
    """The remaining seconds of a pause of all requests, which the service asked for or which
    follows failures; 0.0 without a pause.
    """
