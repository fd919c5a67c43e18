"""Connections that end too early: before, after and in the middle of an answer."""

from __future__ import annotations

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "TRANSPORT",
    "do_and_drop",
    "do_and_show_a_page",
    "drop",
    "read_at_once",
    "show_a_page",
    "tear",
]

TRANSPORT = "petsync.transport"
"""Where the server leaves the connection's transport, in the scope's `state`."""

_PAGE = HTMLResponse("<!doctype html><title>One moment</title><p>We will be back soon.")


async def read_at_once(receive: Receive) -> Receive:
    """The same request, which is whole already: it can be carried out after its client has gone.

    As the server sees it, nothing of a body can be read any more once the connection has ended.
    """
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again


async def drop(scope: Scope, receive: Receive) -> None:
    """End the connection as a crashed server would: at once, without a word."""
    scope["state"][TRANSPORT].abort()
    await _gone(receive)


async def do_and_drop(app: ASGIApp, scope: Scope, receive: Receive) -> None:
    """Carry the request out, then end the connection instead of answering."""

    async def swallow(_: Message) -> None:
        return

    await app(scope, receive, swallow)
    await drop(scope, receive)


async def do_and_show_a_page(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Carry the request out, then answer as something in between would: 200, and a web page."""

    async def swallow(_: Message) -> None:
        return

    await app(scope, receive, swallow)
    await _PAGE(scope, receive, send)


async def show_a_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the service's place, as a portal that wants a sign-in does: 200, and a web page."""
    await read_at_once(receive)
    await _PAGE(scope, receive, send)


async def tear(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the headers and half of the body's first piece; nothing where it is empty."""
    held: list[Message] = []

    async def hold(message: Message) -> None:
        if len(held) < 2:
            held.append(message)

    await app(scope, receive, hold)
    start, body = held
    piece = body.get("body", b"")
    if piece:
        await send(start)
        await send({**body, "body": piece[: len(piece) // 2], "more_body": True})
        scope["state"][TRANSPORT].close()
    else:
        scope["state"][TRANSPORT].abort()
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    """Until the server has noticed, which would otherwise answer in the handler's place."""
    while (await receive())["type"] != "http.disconnect":
        pass
