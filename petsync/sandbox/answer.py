"""Values and refusals as responses, in the representation that the request asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from petsync.errors import InvalidInputError
from petsync.model import ApiResponse
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.binding import LISTS
from petsync.sandbox.negotiate import JSON, XML, welcome
from petsync.sandbox.refusal import RefusedError
from petsync.wire import json, xml

__all__ = ["accepted", "api_response", "done", "not_in_xml", "one_pet", "pet_xml", "problem"]

_UNROUTED = frozenset({405, 415})
"""Answered before an operation is chosen: by the original server in XML if Accept is absent."""
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def accepted(request: Request, behaviour: Behaviour) -> tuple[str, ...]:
    """The representations to answer in, the preferred one first.

    Raises RefusedError (406) where there is none; the live profile sends JSON all the same.
    """
    found = _accept(request)
    if found:
        return found
    if behaviour.imitates_original:
        return (JSON,)
    raise RefusedError(406, f"there is {JSON} and {XML} to choose from, and Accept allows neither")


def one_pet(body: bytes, media: Sequence[str], behaviour: Behaviour) -> Response:
    """A pet, from its JSON. Raises RefusedError (406) where only XML is welcome but cannot do."""
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
    """A pet as an XML document, from its JSON; a list that the JSON leaves out is left out here.

    Raises InvalidInputError for a character that XML cannot carry.
    """
    document = xml.encode_pet(json.decode_pet(body), shape)
    for name in LISTS:
        if f'"{name}":'.encode() not in body:
            document = document.replace(f"<{name} />".encode(), b"")
    return document


def not_in_xml(what: str) -> RefusedError:
    """For what only JSON can carry, such as control characters."""
    return RefusedError(406, f"{what} holds something that XML cannot carry: ask for {JSON}")


def api_response(
    code: int, kind: str, message: str, media: str, behaviour: Behaviour, *, status: int = 200
) -> Response:
    """An ApiResponse; characters that XML cannot carry are replaced."""
    said = ApiResponse(code, kind, _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", message))
    if media == JSON:
        return Response(json.encode_api_response(said), status, media_type=JSON)
    if not behaviour.code_in_xml:
        said = ApiResponse(None, kind, said.message)
    text = xml.encode_api_response(said, behaviour.response_root)
    return Response(text, status, media_type=XML)


def done(message: str, media: str, behaviour: Behaviour) -> Response:
    """The success of an operation without a result."""
    if behaviour.says_done:
        return api_response(200, "unknown", message, media, behaviour)
    return Response()


def problem(refusal: RefusedError, request: Request, behaviour: Behaviour) -> Response:
    """A refusal, as the profile words it."""
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
    return welcome(",".join(request.headers.getlist("accept")))
