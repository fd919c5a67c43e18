"""The contenders of benchmarks/apply.py: petsync's engine, and loops that only send requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from changes import FORM, request_of
from requests import drive

from petsync.apply import engine
from petsync.apply.journal import Journal, RunSession
from petsync.apply.options import ApplyOptions, Recheck
from petsync.client.api import AsyncApi
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.models import Category, Pet
from petsync.plan.change import Add, Change, Delete
from petsync.plan.plan import Plan
from petsync.protocol.operations import Request, Traffic

__all__ = [
    "Loop",
    "aiohttp_alone",
    "carried_out",
    "generated_asyncio",
    "generated_urllib3",
    "petsync",
    "sockets_alone",
]

RUN = "20261121-000000-benchmark"

Run = Callable[[], Awaitable[object]]
Loop = Callable[[str, Plan, int], AbstractAsyncContextManager[Run]]
"""Yields a function that makes the plan's changes over the given number of connections."""


@asynccontextmanager
async def petsync(
    url: str, plan: Plan, connections: int, *, journal: bool, recheck: Recheck
) -> AsyncIterator[Run]:
    """Yield a run of petsync's engine, with its own journal or without one."""
    session = Session(url)
    with TemporaryDirectory(prefix="petsync-journal-") as state:
        kept = Path(state) if journal else None
        yield partial(carried_out, session, plan, kept, connections, recheck)
    await session.close()


async def carried_out(
    session: Session, plan: Plan, state: Path | None, connections: int, recheck: Recheck
) -> Traffic:
    """Apply the plan as a store does, and return the traffic. Raise RuntimeError unless every
    change is applied.
    """
    started = "2026-11-21T00:00:00+00:00"
    options = ApplyOptions(concurrency=connections, recheck=recheck)
    target = ServiceTarget(AsyncApi(session))
    session.gate.most = connections
    recorder = Nowhere() if state is None else _begin_run(state, plan, started)
    if isinstance(recorder, RunSession):
        target.before_send = recorder.confirm_lock
    report = await engine.run(plan, target, recorder, run_id=RUN, started=started, options=options)
    if isinstance(recorder, RunSession):
        await recorder.finish()
        await recorder.close()
    if report.counts["applied"] != len(plan.changes):
        raise RuntimeError(f"{report.counts}: {report.stopped or report.results[0]}")
    return target.traffic


class Nowhere(engine.Recorder):
    """A recorder that records nothing: the methods of the protocol do nothing."""


@asynccontextmanager
async def generated_asyncio(
    package: Any, url: str, plan: Plan, connections: int, *, reads: bool = False
) -> AsyncIterator[Run]:
    """Yield a run of the generated client on aiohttp; each response becomes a model. With `reads`,
    it reads each pet before its change.
    """
    configuration = package.Configuration(host=url, connection_pool_maxsize=connections)
    async with package.ApiClient(configuration) as client:
        api = package.PetApi(client)

        async def send(change: Change) -> None:
            if reads:
                with suppress(package.exceptions.NotFoundException):
                    await api.get_pet_by_id(change.pet_id)
            await _generated(package, api, change)

        yield partial(drive, send, plan.changes, connections)


@asynccontextmanager
async def generated_urllib3(package: Any, url: str, plan: Plan, _: int) -> AsyncIterator[Run]:
    """Yield a run of the generated client on urllib3: one thread, one request after another."""
    with package.ApiClient(package.Configuration(host=url)) as client:
        api = package.PetApi(client)

        async def run() -> None:
            for change in plan.changes:
                _generated(package, api, change)

        yield run


@asynccontextmanager
async def aiohttp_alone(
    url: str, plan: Plan, connections: int, *, reads: bool = False
) -> AsyncIterator[Run]:
    """Yield a run of aiohttp with prepared requests, which does not parse responses. With `reads`,
    it reads each pet before its change.
    """
    requests = [(f"/pet/{change.pet_id}", request_of(change)) for change in plan.changes]
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector) as client:

        async def send(each: tuple[str, Request]) -> None:
            target, request = each
            if reads:
                async with client.get(url + target) as answer:
                    await answer.read()
            async with client.request(
                request.method,
                url + request.target,
                headers=request.headers,
                data=request.body or None,
                raise_for_status=True,
            ) as answer:
                await answer.read()

        yield partial(drive, send, requests, connections)


@asynccontextmanager
async def sockets_alone(url: str, plan: Plan, connections: int) -> AsyncIterator[Run]:
    """Yield a run that sends prepared bytes over plain sockets: the service's maximum rate."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    texts = iter([_text(request_of(change), parts.path, parts.netloc) for change in plan.changes])

    async def run() -> None:
        loop = asyncio.get_running_loop()
        ended = [loop.create_future() for _ in range(connections)]
        for each in ended:
            await loop.create_connection(partial(_Connection, texts, each), host, port)
        await asyncio.gather(*ended)

    yield run


class _Connection(asyncio.Protocol):
    """Sends the next request when a response is complete."""

    def __init__(self, texts: Any, ended: asyncio.Future[None]) -> None:
        self._texts, self._ended, self._seen = texts, ended, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length: ")[2].split()[0]):
            return
        if head[9:10] != b"2":
            self._fail(RuntimeError(f"answered {head[:40]!r}"))
        self._seen = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the connection ended"))

    def _next(self) -> None:
        text = next(self._texts, None)
        if text is not None:
            self._transport.write(text)
        elif not self._ended.done():
            self._ended.set_result(None)
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            self._transport.close()


def _begin_run(state: Path, plan: Plan, started: str) -> RunSession:
    return Journal.open(state, create=True).begin(
        RUN,
        kind="apply",
        store=plan.store,
        source=plan.source,
        started=started,
        total=len(plan.changes),
        plan=plan,
        fingerprint=plan.fingerprint,
    )


def _generated(package: Any, api: Any, change: Change) -> Any:
    """Return the generated client's call for a change: its result or a coroutine."""
    if isinstance(change, Add):
        return api.add_pet(_model(package, package.NewPet, change.after))
    if isinstance(change, Delete):
        return api.delete_pet(change.pet_id)
    if FORM.issuperset(change.fields):
        after = change.after
        return api.update_pet_with_form(change.pet_id, name=after.name, status=after.status)
    return api.update_pet(_model(package, package.KnownPet, change.after))


def _model(package: Any, model: Any, pet: Pet) -> Any:
    category = pet.category or Category()
    return model(
        id=pet.id,
        name=pet.name,
        photo_urls=list(pet.photo_urls),
        category=package.NewLabel(id=category.id, name=category.name),
        tags=[package.NewLabel(id=tag.id, name=tag.name) for tag in pet.tags],
        status=pet.status,
    )


def _text(request: Request, base: str, host: str) -> bytes:
    headers = {"host": host, **request.headers, "content-length": str(len(request.body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"{request.method} {base}{request.target} HTTP/1.1\r\n{lines}\r\n".encode() + request.body
    )
