"""A request's body: held to its limit, and read as a pet."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.types import Message, Receive

from petsync.errors import ResponseError
from petsync.sandbox import strict
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.binding import Bound, bind_json, bind_xml
from petsync.sandbox.negotiate import JSON, XML, sent
from petsync.sandbox.refusal import Original, RefusedError
from petsync.wire import json, xml

__all__ = ["MAX_BODY", "UNKNOWN_TYPE", "body", "limited", "pet"]

MAX_BODY = 1024 * 1024
"""The largest pet or form that is taken, in bytes."""

UNKNOWN_TYPE = Original("RESTEASY003065: Cannot consume content type")


def limited(request: Request, limit: int) -> Receive:
    """The request's `receive`, which raises RefusedError (413) beyond `limit` bytes."""
    refusal = RefusedError(413, f"the body is larger than {limit} bytes")
    length = request.headers.get("content-length", "0")
    total = int(length) if length.isascii() and length.isdigit() else 0
    if total > limit:
        raise refusal
    seen = 0

    async def receive() -> Message:
        nonlocal seen
        message = await request.receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise refusal
        return message

    return receive


async def body(request: Request, limit: int = MAX_BODY) -> bytes:
    """The whole body. Raises RefusedError (413) beyond `limit` bytes."""
    return await Request(request.scope, limited(request, limit)).body()


async def pet(request: Request, behaviour: Behaviour) -> Bound:
    """The pet that was sent as JSON or XML. Raises RefusedError: 413, 415, or that it is no pet."""
    media = sent(request.headers.get("content-type"))
    if media is None:
        said = f"a pet is sent as {JSON} or {XML}, said in Content-Type"
        raise RefusedError(415, said, original=UNKNOWN_TYPE)
    content = await body(request)
    if behaviour.imitates_original and content.strip() in (b"", b"null"):
        raise RefusedError(405, "no data")
    try:
        return _from_json(content, behaviour) if media == JSON else _from_xml(content, behaviour)
    except (ResponseError, msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _refused(error, media, behaviour) from None


def _from_json(content: bytes, behaviour: Behaviour) -> Bound:
    if behaviour.imitates_original:
        return bind_json(content)
    if behaviour.strict_pets:
        strict.check_json(content, behaviour.statuses)
    return Bound(json.decode_pet(content))


def _from_xml(content: bytes, behaviour: Behaviour) -> Bound:
    if behaviour.imitates_original:
        return bind_xml(content)
    found = xml.decode_pet(content)
    if behaviour.strict_pets:
        strict.check_xml(content, behaviour.statuses)
    return Bound(found)


def _refused(error: Exception, media: str, behaviour: Behaviour) -> RefusedError:
    """400 where the text itself is broken; the profile's for what is well formed and no pet."""
    said = f"no pet: {_said(error)}"
    is_broken = isinstance(error, RecursionError) or "not whole" in str(error)
    if behaviour.imitates_original:
        is_broken = not isinstance(error, msgspec.ValidationError)
    if not is_broken:
        return RefusedError(behaviour.bad_type, said, original=Original("something bad happened"))
    words = "bad input" if media == JSON else "HTTP 400 Bad Request"
    return RefusedError(400, said, original=Original(words))


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).replace("the answer is", "the body is").replace("`", "'")[:300]
