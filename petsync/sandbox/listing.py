"""Many pets as one response, streamed from a snapshot of the store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from petsync.sandbox import records
from petsync.sandbox.answer import not_in_xml, pet_xml
from petsync.sandbox.drift import Drift
from petsync.sandbox.negotiate import JSON, XML
from petsync.sandbox.records import BATCH, Selection
from petsync.sandbox.storage import Storage
from petsync.wire import xml

__all__ = ["pets"]

Batches = Iterable[list[bytes]]


def pets(
    storage: Storage,
    selection: Selection,
    media: Sequence[str],
    shape: xml.Shape,
    drift: Drift,
) -> ASGIApp:
    """The selected pets, in the first of `media` that can carry them all, with the copies that
    `drift` makes of some.

    JSON is put together from the stored text and never decoded; a long list is sent in pieces
    while it is read. Raises RefusedError (406) where XML alone is welcome and cannot carry a pet.
    """
    with ExitStack() as held:
        connection = held.enter_context(storage.snapshot())
        kind = _media(connection, selection, media)
        found = records.batches(connection, selection)
        first = next(found, [])
        rest = map(drift.repeated, chain([first] if first else [], found))
        pieces = _json(rest) if kind == JSON else _xml(rest, shape)
        if len(first) < BATCH:
            return Response(b"".join(pieces), media_type=kind)
        return _Stream(kind, pieces, held.pop_all())


class _Stream:
    """An ASGI answer that lets other requests pass between two pieces."""

    def __init__(self, media: str, pieces: Iterable[bytes], held: ExitStack) -> None:
        self._media = media
        self._pieces = pieces
        self._held = held

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-type", self._media.encode())]
        with self._held:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b""})


def _media(connection: sqlite3.Connection, selection: Selection, media: Sequence[str]) -> str:
    if media[0] == XML and (number := records.unwritable(connection, selection)) is not None:
        if JSON not in media:
            raise not_in_xml(f"pet {number}")
        return JSON
    return media[0]


def _json(found: Batches) -> Iterator[bytes]:
    opening = b"["
    for batch in found:
        yield opening + b",".join(batch)
        opening = b","
    yield b"[]" if opening == b"[" else b"]"


def _xml(found: Batches, shape: xml.Shape) -> Iterator[bytes]:
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<{shape.list_root}>'.encode()
    for batch in found:
        documents = (pet_xml(body, shape) for body in batch)
        yield b"".join(document[document.index(b"<Pet") :] for document in documents)
    yield f"</{shape.list_root}>".encode()
