"""A request's body: held to its limit, and read as a pet."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.types import Message, Receive

from petsync.errors import ResponseError
from petsync.model import Pet
from petsync.sandbox import strict
from petsync.sandbox.behaviour import Behaviour
from petsync.sandbox.negotiate import JSON, XML, sent
from petsync.sandbox.refusal import RefusedError
from petsync.wire import json, xml

__all__ = ["MAX_BODY", "body", "limited", "pet"]

MAX_BODY = 1024 * 1024
"""The largest pet or form that is taken, in bytes."""


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


async def pet(request: Request, behaviour: Behaviour) -> Pet:
    """The pet that was sent as JSON or XML. Raises RefusedError: 413, 415, or that it is no pet."""
    media = sent(request.headers.get("content-type"))
    if media is None:
        raise RefusedError(415, f"a pet is sent as {JSON} or {XML}, said in Content-Type")
    content = await body(request)
    try:
        return _from_json(content, behaviour) if media == JSON else _from_xml(content, behaviour)
    except (ResponseError, msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RefusedError(_status(error, behaviour), f"no pet: {_said(error)}") from None


def _from_json(content: bytes, behaviour: Behaviour) -> Pet:
    if behaviour.strict_pets:
        strict.check_json(content, behaviour.statuses)
    return json.decode_pet(content)


def _from_xml(content: bytes, behaviour: Behaviour) -> Pet:
    found = xml.decode_pet(content)
    if behaviour.strict_pets:
        strict.check_xml(content, behaviour.statuses)
    return found


def _status(error: Exception, behaviour: Behaviour) -> int:
    """400 where the text itself is broken; the profile's for what is well formed and no pet."""
    broken = isinstance(error, RecursionError) or "not whole" in str(error)
    return 400 if broken else behaviour.bad_type


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).replace("the answer is", "the body is").replace("`", "'")[:300]
