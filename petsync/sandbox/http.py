"""HTTP of the sandbox: parameters, bodies, content negotiation, refusals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl, unquote_plus
from xml.etree import ElementTree as ET

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from petsync._json import decoder_of
from petsync.errors import InvalidInputError, ResponseError, SettingsError
from petsync.models import MAX_ID, MIN_ID, ApiResponse, Category, Pet, Tag
from petsync.protocol import json, xml
from petsync.protocol.xml import Shape

__all__ = [
    "BEHAVIOURS",
    "FORM",
    "JSON",
    "LISTS",
    "LIVE",
    "MAX_BODY",
    "MULTIPART",
    "STANDARD",
    "STATUSES",
    "UNKNOWN_TYPE",
    "XML",
    "Behaviour",
    "Bound",
    "Original",
    "RefusedError",
    "accepted_media_types",
    "api_response",
    "array",
    "behaviour_named",
    "bind_json",
    "bind_xml",
    "body",
    "check_json",
    "check_repeats",
    "check_xml",
    "form",
    "limit_body",
    "media_type",
    "not_in_xml",
    "parse_accept",
    "pet",
    "pet_id",
    "pet_response",
    "pet_xml",
    "problem",
    "sent_media_type",
    "success_response",
]


# Strict checks of a pet in the standard profile, where the protocol's decoders are more tolerant.
#
# The client's decoders accept whatever a service may send. A server that did the same would hide
# the mistakes of a client.


STATUSES = frozenset({"available", "pending", "sold"})

Int64 = Annotated[int, msgspec.Meta(ge=MIN_ID, le=MAX_ID)]
_STRICT_INTEGER = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_LEAVES = frozenset({"id", "name", "status"})
_KNOWN = _LEAVES | {"category", "photoUrls", "tags"}
_ITEMS = {
    "photoUrls": frozenset({"photoUrls", "photoUrl"}),
    "tags": frozenset({"tags", "tag"}),
}


class _StrictLabel(msgspec.Struct):
    id: Int64 | None = None
    name: str | None = None


class _StrictPet(msgspec.Struct, rename="camel"):
    """The checked fields of a pet in the standard profile. Other fields may have any value."""

    name: str
    photo_urls: list[str]
    id: Int64 | None = None
    category: _StrictLabel | None = None
    tags: list[_StrictLabel] | None = None
    status: str | None = None


_json = decoder_of(_StrictPet)


def check_json(content: bytes, statuses: Collection[str] | None = STATUSES) -> None:
    """Check a pet in JSON: its required fields, the types of its fields, and its status, if it has
    one. If `statuses` is None, any status is valid.

    Raises ResponseError or msgspec.DecodeError, which names the problem.
    """
    status = _json.decode(content).status
    if statuses is not None and status is not None and status not in statuses:
        raise ResponseError(f"{status!r} is not a status")


def check_xml(content: bytes, statuses: Collection[str] | None = STATUSES) -> None:
    """Check a pet as `check_json` does, but in XML that the decoder has accepted. Raises
    ResponseError.
    """
    root = ET.fromstring(content)  # noqa: S314  the decoder has refused a DTD
    if _name(root) != "Pet":
        raise ResponseError(f"the root element is {_name(root)}, not Pet")
    children = _find_children(root, _KNOWN)
    for required in ("name", "photoUrls"):
        if required not in children:
            raise ResponseError(f"the element {required} is missing")
    _check_leaves(children)
    if statuses is not None and "status" in children and children["status"].text not in statuses:
        raise ResponseError(f"{children['status'].text!r} is not a status")
    for label in _labels(children):
        _check_leaves(_find_children(label, _LEAVES - {"status"}))


def _labels(children: dict[str, ET.Element]) -> Iterator[ET.Element]:
    for url in _items(children, "photoUrls"):
        _check_leaf("photoUrls", url)
    labels = [*_items(children, "tags")]
    if "category" in children:
        labels.append(children["category"])
    for label in labels:
        if (label.text or "").strip():
            raise ResponseError(f"{_name(label)} is text, but should have an id and a name")
        yield label


def _items(children: dict[str, ET.Element], name: str) -> Iterable[ET.Element]:
    container = children.get(name, ())
    if not isinstance(container, tuple) and (container.text or "").strip():
        raise ResponseError(f"{name} is text, but should have elements")
    for item in container:
        if _name(item) not in _ITEMS[name]:
            raise ResponseError(f"{name} has the element {_name(item)}")
    return container


def _find_children(parent: ET.Element, names: frozenset[str]) -> dict[str, ET.Element]:
    found: dict[str, ET.Element] = {}
    for child in parent:
        if _name(child) in found and _name(child) in names:
            raise ResponseError(f"{_name(parent)} has the element {_name(child)} twice")
        found[_name(child)] = child
    return found


def _check_leaves(children: dict[str, ET.Element]) -> None:
    for name in _LEAVES & children.keys():
        _check_leaf(name, children[name])


def _check_leaf(name: str, element: ET.Element) -> None:
    if len(element):
        raise ResponseError(f"{name} has elements, but should be text")
    if name == "id" and not _STRICT_INTEGER.fullmatch(element.text or ""):
        raise ResponseError(f"id is {(element.text or '')[:40]!r}, not an integer")


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


# How the sandbox behaves where the API definition leaves a choice.
#
# This is independent of `ServiceProfile` on purpose: if client and server disagree, a test fails.


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of one sandbox. The defaults are those of the `standard` profile."""

    name: str = "standard"
    put_creates: bool = False
    """updatePet with an unknown id adds the pet instead of responding with 404."""
    post_replaces: bool = False
    """addPet with a known id replaces the pet instead of responding with 409."""
    reuses_ids: bool = False
    """An assigned id is the highest existing id plus one, even if an earlier pet had it; if the
    highest id is 2^63-1, it is assigned again.
    """
    unique_ids: bool = True
    """An id is assigned and its pet stored in one transaction. Otherwise parallel adds can get the
    same id, and the later pet replaces the earlier one.
    """
    own_ids: bool = False
    """addPet assigns a new id even if the pet already has one."""
    capacity: int | None = None
    """The number of pets above which an add removes the oldest pet; None for no limit."""
    statuses: frozenset[str] | None = STATUSES
    """The values a status may have; None for any text."""
    strict_pets: bool = True
    """name and photoUrls are required, ids must be integers and not text, and a status must be one
    of `statuses`.
    """
    bad_id: int = 400
    """The HTTP status for a path whose pet id is not an int64."""
    bad_type: int = 400
    """The HTTP status for a body that is well-formed but not a pet."""
    first_value_only: bool = False
    """Only the first value of a repeated query parameter or form field counts."""
    once_per_tag: bool = False
    """findPetsByTags lists a pet once for each matching tag."""
    form_skips_empty: bool = False
    """updatePetWithForm ignores empty values."""
    upload_needs_pet: bool = True
    upload_adds_photo: bool = True
    imitates_original: bool = False
    """The sandbox reads requests, sorts lists, and responds to errors and uploads as the original
    server does.
    """
    code_in_xml: bool = True
    """An ApiResponse in XML contains its code."""
    response_root: str = "ApiResponse"
    """The root element of an ApiResponse in XML."""
    says_done: bool = False
    """deletePet and updatePetWithForm return an ApiResponse instead of no body."""
    shape: Shape = field(default_factory=Shape)
    flows: tuple[str, ...] = ("code",)
    """The OAuth flows with a browser: `code`, and `token` (implicit)."""


STANDARD = Behaviour()

LIVE = Behaviour(
    name="live",
    put_creates=True,
    post_replaces=True,
    reuses_ids=True,
    unique_ids=False,
    capacity=1000,
    statuses=None,
    strict_pets=False,
    bad_id=404,
    bad_type=500,
    first_value_only=True,
    once_per_tag=True,
    form_skips_empty=True,
    upload_needs_pet=False,
    upload_adds_photo=False,
    imitates_original=True,
    code_in_xml=False,
    response_root="apiResponse",
    says_done=True,
    shape=Shape(photo_item="photoUrl", tag_item="tag", list_root="pets"),
    flows=("token",),
)

BEHAVIOURS = {"standard": STANDARD, "live": LIVE}


def behaviour_named(name: str | Behaviour) -> Behaviour:
    """Return the behaviour of a profile, or the given one. Raises SettingsError for an unknown
    name.
    """
    if isinstance(name, Behaviour):
        return name
    if name in BEHAVIOURS:
        return BEHAVIOURS[name]
    raise SettingsError(
        f"the sandbox has no profile {name!r}", hint=f"It has: {', '.join(BEHAVIOURS)}."
    )


# How the original server reads a pet from a body: known fields only, and almost nothing is refused.
#
# The `live` profile reads bodies as Jackson and JAXB bind them to the server's classes. A
# property that the class does not have is dropped. A label (a category or a tag) without an id gets
# the id 0. In JSON a number or a boolean in a text field becomes text; in XML an id that is not a
# number counts as absent.


LISTS = frozenset({"photoUrls", "tags"})

_NULL = msgspec.Raw(b"null")
_XML_INTEGER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)


class Bound(NamedTuple):
    """A pet, and the names of its lists that were null in the body: these lists are stored and
    returned as absent.
    """

    pet: Pet
    nulls: frozenset[str] = frozenset()


class _BoundLabel(msgspec.Struct):
    id: msgspec.Raw = _NULL
    name: msgspec.Raw = _NULL


class _BoundPet(msgspec.Struct, rename="camel"):
    id: msgspec.Raw = _NULL
    category: _BoundLabel | None = None
    name: msgspec.Raw = _NULL
    photo_urls: list[msgspec.Raw] | UnsetType | None = UNSET
    tags: list[_BoundLabel | None] | UnsetType | None = UNSET
    status: msgspec.Raw = _NULL


_pet = decoder_of(_BoundPet)
_text = decoder_of(str)


def bind_json(content: bytes) -> Bound:
    """Return the pet in a JSON body; its id is None if the server must assign one.

    Raises msgspec.ValidationError for a value of the wrong type, and msgspec.DecodeError for
    text that is not JSON.
    """
    found = _pet.decode(content)
    tags = found.tags or []
    pet = Pet(
        id=_requested_id(_number(found.id)),
        name=_text_of(found.name),
        photo_urls=tuple(t for raw in found.photo_urls or [] if (t := _text_of(raw)) is not None),
        category=None if found.category is None else Category(*_label(found.category)),
        tags=tuple(Tag(*_label(tag)) for tag in tags if tag is not None),
        status=_text_of(found.status),
    )
    lists = {"photoUrls": found.photo_urls, "tags": found.tags}
    return Bound(pet, frozenset(name for name, value in lists.items() if value is None))


def bind_xml(content: bytes) -> Bound:
    """Return the pet in an XML body. Raises ResponseError for text that is not XML, or for another
    root element.
    """
    root = xml.parse(content)
    if root.tag != "Pet":
        raise ResponseError(f"the root element is {root.tag}, not Pet")
    category = root.find("category")
    pet = Pet(
        id=_requested_id(_integer(root.findtext("id"))),
        name=root.findtext("name"),
        photo_urls=tuple(item.text or "" for item in root.iterfind("photoUrls/photoUrl")),
        category=None if category is None else Category(*_label_in(category)),
        tags=tuple(Tag(*_label_in(tag)) for tag in root.iterfind("tags/tag")),
        status=root.findtext("status"),
    )
    return Bound(pet)


def _label(found: _BoundLabel) -> tuple[int, str | None]:
    return _number(found.id), _text_of(found.name)


def _label_in(element: ET.Element) -> tuple[int, str | None]:
    return _integer(element.findtext("id")), element.findtext("name")


def _requested_id(number: int) -> int | None:
    """Return the id; None if it is below 1, because the server then assigns an id."""
    return number if number > 0 else None


def _number(raw: msgspec.Raw) -> int:
    """Return the int64 of a JSON value; an absent or null value is 0, and a text may contain a
    number.
    """
    value = msgspec.json.decode(raw)
    if value is None or value == "":
        return 0
    if isinstance(value, str) and _XML_INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise msgspec.ValidationError("an id is not a number")
    number = int(value)
    if not MIN_ID <= number <= MAX_ID:
        raise msgspec.ValidationError("an id is outside int64")
    return number


def _text_of(raw: msgspec.Raw) -> str | None:
    """Return the text of a JSON value; numbers and booleans as written, None for null."""
    content = bytes(raw)
    if content[:1] == b'"':
        return _text.decode(content)
    if content[:1] in b"{[":
        raise msgspec.ValidationError("text was expected, not an object or a list")
    return None if content == b"null" else content.decode()


def _integer(text: str | None) -> int:
    """Return the int64 in an XML element; 0 for any other content."""
    number = int(text) if text and _XML_INTEGER.fullmatch(text) else 0
    return number if MIN_ID <= number <= MAX_ID else 0


# Content negotiation: which representation was sent, and which are accepted.
#
# Source: RFC 9110, sections 8.3 and 12.5.1.


JSON = "application/json"
XML = "application/xml"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

_OFFERED = (JSON, XML)
_SENT = {JSON: JSON, XML: XML, "text/xml": XML}
_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\Z", re.ASCII)


def media_type(header: str | None) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return (header or "").partition(";")[0].strip().lower()


def sent_media_type(content_type: str | None) -> str | None:
    """Return `JSON` or `XML` for the request's Content-Type; None for any other or no type."""
    return _SENT.get(media_type(content_type))


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[str, ...]:
    """Return those of `JSON` and `XML` that an Accept header accepts, the preferred one first.

    An empty header accepts both; if both are equal, JSON is first.
    """
    ranges = dict(filter(None, map(_range, accept.split(","))))
    if not accept.strip():
        return _OFFERED
    scores = {media: _score(media, ranges) for media in _OFFERED}
    return tuple(sorted((m for m in _OFFERED if scores[m] > 0), key=lambda m: -scores[m]))


def _range(item: str) -> tuple[str, float] | None:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    if not name:
        return None
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            value = value.strip()
            quality = float(value) if _QUALITY.match(value) else 0.0
    return name, quality


def _score(media: str, ranges: dict[str, float]) -> float:
    """Return the quality of the media type, from the most specific range that contains it; 0 if
    there is none.
    """
    for name in (media, media.partition("/")[0] + "/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


# RefusedError: an error response, raised where the problem is found.


_KINDS = {
    400: "invalid_input",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "duplicate",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    503: "unavailable",
}


@dataclass(frozen=True, slots=True)
class Original:
    """The original server's response to a refused request: the fields of an ApiResponse.

    Without a `message`, the response has no body. If `code` is None, it is the HTTP status.
    """

    message: str | None
    code: int | None = None
    kind: str = "unknown"


class RefusedError(Exception):
    """Ends a request with `status`. A job of the Writer may raise it only before the job writes
    anything.

    `headers` are added to the response. `original` is the response in the `live` profile; if it is
    None, that response has the `message`.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        original: Original | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.original = original or Original(message)

    @property
    def kind(self) -> str:
        """The ApiResponse's `type`."""
        return _KINDS.get(self.status, "error")


# Values and refusals as responses, in the representation that the request asked for.


_UNROUTED = frozenset({405, 415})
"""The statuses of refusals that belong to no operation. The original server sends these refusals as
XML if the request has no Accept header.
"""
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def accepted_media_types(request: Request, behaviour: Behaviour) -> tuple[str, ...]:
    """Return the media types that the response may have, the preferred one first.

    Raises RefusedError (406) if there is none, except in the `live` profile, which then sends JSON.
    """
    found = _accept(request)
    if found:
        return found
    if behaviour.imitates_original:
        return (JSON,)
    raise RefusedError(406, f"Accept allows neither {JSON} nor {XML}")


def pet_response(body: bytes, media: Sequence[str], behaviour: Behaviour) -> Response:
    """Return a response with the pet, given its JSON. Raises RefusedError (406) if only XML is
    accepted and it cannot represent the pet.
    """
    for kind in media:
        if kind == JSON:
            return Response(body, media_type=JSON)
        try:
            text = pet_xml(body, behaviour.shape)
        except InvalidInputError:
            continue
        return Response(text, media_type=XML)
    raise not_in_xml("the pet")


def pet_xml(body: bytes, shape: xml.Shape) -> bytes:
    """Return a pet as an XML document, from its JSON; a list that is not in the JSON is omitted.

    Raises InvalidInputError for a character that XML cannot represent.
    """
    document = xml.encode_pet(json.decode_pet(body), shape)
    for name in LISTS:
        if f'"{name}":'.encode() not in body:
            document = document.replace(f"<{name} />".encode(), b"")
    return document


def not_in_xml(subject: str) -> RefusedError:
    """Return the refusal for text that only JSON can represent, such as control characters."""
    return RefusedError(406, f"XML cannot represent {subject}: request {JSON}")


def api_response(
    code: int, kind: str, message: str, media: str, behaviour: Behaviour, *, status: int = 200
) -> Response:
    """Return an ApiResponse; characters that XML cannot represent are replaced."""
    response = ApiResponse(code, kind, _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", message))
    if media == JSON:
        return Response(json.encode_api_response(response), status, media_type=JSON)
    if not behaviour.code_in_xml:
        response = ApiResponse(None, kind, response.message)
    text = xml.encode_api_response(response, behaviour.response_root)
    return Response(text, status, media_type=XML)


def success_response(message: str, media: str, behaviour: Behaviour) -> Response:
    """Return the response of a successful operation without a result."""
    if behaviour.says_done:
        return api_response(200, "unknown", message, media, behaviour)
    return Response()


def problem(refusal: RefusedError, request: Request, behaviour: Behaviour) -> Response:
    """Return the response to a refused request in this profile."""
    media = (*_accept(request), JSON)[0]
    if behaviour.imitates_original:
        response = _as_original(refusal, request, media, behaviour)
    else:
        code, kind = refusal.status, refusal.kind
        response = api_response(code, kind, refusal.message, media, behaviour, status=code)
    response.headers.update(refusal.headers)
    return response


def _as_original(
    refusal: RefusedError, request: Request, media: str, behaviour: Behaviour
) -> Response:
    status, original = refusal.status, refusal.original
    if original.message is None:
        return Response(status_code=status)
    if status == 413:
        return Response(original.message, status, media_type="text/plain")
    if status in _UNROUTED and not request.headers.get("accept"):
        media = XML
    code = status if original.code is None else original.code
    return api_response(code, original.kind, original.message, media, behaviour, status=status)


def _accept(request: Request) -> tuple[str, ...]:
    return parse_accept(",".join(request.headers.getlist("accept")))


# A request's body: its size limit, and the pet in it.


MAX_BODY = 1024 * 1024
"""The largest accepted pet or form, in bytes."""

UNKNOWN_TYPE = Original("RESTEASY003065: Cannot consume content type")


def limit_body(request: Request, limit: int) -> Receive:
    """Return the request's `receive`, which raises RefusedError (413) beyond `limit` bytes. Raises
    this error at once if the Content-Length is larger.
    """
    refusal = RefusedError(413, f"the body is larger than {limit} bytes")
    length = request.headers.get("content-length", "0")
    total = int(length) if length.isascii() and length.isdigit() else 0
    if total > limit:
        raise refusal
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise refusal
        return message

    return receive


async def body(request: Request, limit: int = MAX_BODY) -> bytes:
    """Return the complete body. Raises RefusedError (413) beyond `limit` bytes."""
    return await Request(request.scope, limit_body(request, limit)).body()


_Check = Callable[[bytes, Collection[str] | None], None]
_READERS: Mapping[str, tuple[Callable[[bytes], Bound], Callable[[bytes], Pet], _Check]] = {
    JSON: (bind_json, json.decode_pet, check_json),
    XML: (bind_xml, xml.decode_pet, check_xml),
}


async def pet(request: Request, behaviour: Behaviour) -> Bound:
    """Return the pet that was sent as JSON or XML. Raises RefusedError for any other body."""
    media = sent_media_type(request.headers.get("content-type"))
    if media is None:
        text = f"Content-Type must be {JSON} or {XML}"
        raise RefusedError(415, text, original=UNKNOWN_TYPE)
    content = await body(request)
    if behaviour.imitates_original and content.strip() in (b"", b"null"):
        raise RefusedError(405, "no data")
    try:
        bind, decode, check = _READERS[media]
        if behaviour.imitates_original:
            return bind(content)
        found = decode(content)
        if behaviour.strict_pets:
            check(content, behaviour.statuses)
        return Bound(found)
    except (ResponseError, msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _body_error(error, media, behaviour) from None


def _body_error(error: Exception, media: str, behaviour: Behaviour) -> RefusedError:
    """Return the refusal of a body: 400 for malformed text, and the profile's status for
    well-formed text that is not a pet.
    """
    text = f"not a pet: {_describe_error(error)}"
    if not _is_malformed(error, behaviour):
        return RefusedError(behaviour.bad_type, text, original=Original("something bad happened"))
    words = "bad input" if media == JSON else "HTTP 400 Bad Request"
    return RefusedError(400, text, original=Original(words))


def _is_malformed(error: Exception, behaviour: Behaviour) -> bool:
    """Return true if the error is about the syntax of the text."""
    if behaviour.imitates_original:
        return not isinstance(error, msgspec.ValidationError)
    return isinstance(error, RecursionError) or "is not valid" in str(error)


def _describe_error(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).replace("the response is", "the body is").replace("`", "'")[:300]


# The values in the path, the query and a form.


_BAD_ID = Original(
    "RESTEASY003870: Unable to extract parameter from http request: "
    'javax.ws.rs.PathParam("petId") value is {1}'
)
_PARAMETER_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)


def array(query: bytes, name: str, *, first_only: bool) -> list[str]:
    """Return the values of an array parameter: separated by commas, or given several times; [] if
    the parameter is absent.

    Values are decoded before they are separated, because clients and proxies may escape commas:
    `a%2Cb` is two values. Raises RefusedError for bytes that are not UTF-8.
    """
    values = [raw for key, raw in _pairs(query) if key == name]
    if first_only:
        values = values[:1]
    return [item for raw in values for item in _decode_query(raw).split(",")]


def form(body: bytes, *, single: Collection[str] = ()) -> dict[str, str]:
    """Return the first value of each field of an urlencoded form.

    Raises RefusedError if the form cannot be read, and if a field in `single` is repeated.
    """
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise RefusedError(400, "the form cannot be read as urlencoded UTF-8") from None
    check_repeats(pairs, single)
    return dict(reversed(pairs))


def check_repeats(pairs: Iterable[tuple[str, object]], single: Collection[str]) -> None:
    """Check that no field in `single` is repeated. Raises RefusedError."""
    counts = Counter(name for name, _ in pairs if name in single)
    for name, count in counts.items():
        if count > 1:
            raise RefusedError(400, f"{name} is given {count} times")


def pet_id(text: str, *, refused_with: int) -> int:
    """Return the pet id in a URL path, an int64. Raises RefusedError with the given status if the
    text is not an int64.
    """
    if _PARAMETER_INTEGER.fullmatch(text) and MIN_ID <= (number := int(text)) <= MAX_ID:
        return number
    problem = f"{text[:40]!r} is not a pet id: an id is a 64-bit integer"
    raise RefusedError(refused_with, problem, original=_BAD_ID)


def _pairs(query: bytes) -> list[tuple[str, str]]:
    parts = (pair.partition("=") for pair in query.decode("latin-1").split("&"))
    return [(unquote_plus(key), raw) for key, _, raw in parts]


def _decode_query(raw: str) -> str:
    try:
        return unquote_plus(raw.encode("latin-1").decode(), errors="strict")
    except UnicodeDecodeError:
        raise RefusedError(400, "the query is not UTF-8") from None
