"""Values and refusals as responses, in the representation that the request asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from petsync.errors import InvalidInputError
from petsync.model import ApiResponse
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.negotiate import JSON, XML, welcome
from petsync.sandbox.refusal import RefusedError
from petsync.wire import json, xml

__all__ = ["accepted", "api_response", "done", "not_in_xml", "one_pet", "problem"]

_PLAIN = frozenset({405, 406, 413, 415})
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def accepted(request: Request, behaviour: Behaviour) -> tuple[str, ...]:
    """The representations to answer in, the preferred one first.

    Raises RefusedError (406) where there is none; the live profile sends JSON all the same.
    """
    found = _accept(request)
    if found:
        return found
    if not behaviour.typed_errors:
        return (JSON,)
    raise RefusedError(406, f"there is {JSON} and {XML} to choose from, and Accept allows neither")


def one_pet(body: bytes, media: Sequence[str], behaviour: Behaviour) -> Response:
    """A pet, from its JSON. Raises RefusedError (406) where only XML is welcome but cannot do."""
    for kind in media:
        if kind == JSON:
            return Response(body, media_type=JSON)
        try:
            text = xml.encode_pet(json.decode_pet(body), behaviour.shape)
        except InvalidInputError:
            continue
        return Response(text, media_type=XML)
    raise not_in_xml("the pet")


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
    return Response(xml.encode_api_response(said), status, media_type=XML)


def done(message: str, media: str, behaviour: Behaviour) -> Response:
    """The success of an operation without a result."""
    if behaviour.says_done:
        return api_response(200, "unknown", message, media, behaviour)
    return Response()


def problem(refusal: RefusedError, request: Request, behaviour: Behaviour) -> Response:
    """A refusal, as the profile words it."""
    response = _problem(refusal, (*_accept(request), JSON)[0], behaviour)
    response.headers.update(refusal.headers)
    return response


def _problem(refusal: RefusedError, media: str, behaviour: Behaviour) -> Response:
    if refusal.empty:
        return Response(status_code=refusal.status)
    if refusal.status in _PLAIN and not behaviour.typed_errors:
        return Response(refusal.message, refusal.status, media_type="text/plain")
    code, kind = refusal.status, refusal.kind
    return api_response(code, kind, refusal.message, media, behaviour, status=refusal.status)


def _accept(request: Request) -> tuple[str, ...]:
    return welcome(",".join(request.headers.getlist("accept")))
