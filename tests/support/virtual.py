"""A loop with a virtual clock, and a service that uses it: minutes pass at once, and a test gives
the same result every time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import aiohttp
import httpx

from petsync.client.session import Session
from petsync.errors import ApiError
from petsync.protocol import operations

T = TypeVar("T")
Answer = httpx.Response | Exception
PET = b'{"id":7,"name":"Rex"}'


class _Timer(asyncio.TimerHandle):
    """A timer that keeps the order of creation among timers due at the same time; a heap alone does
    not keep that order, and drops cancelled timers in between.
    """

    __slots__ = ("_number",)
    _made = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._number = next(self._made)

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self._number) < (other.when(), other._number)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that moves its clock to the next timer when no task can run."""

    now = 1000.0

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback as asyncio does, with timers that keep their order."""
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now

    async def shutdown_default_executor(self, *_: object) -> None:
        """Wait for the threads without a limit: in virtual time, any limit is over at once."""
        await super().shutdown_default_executor()

    def _run_once(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if scheduled and not self._ready:
            self.now = max(self.now, scheduled[0]._when)
        super()._run_once()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result without real waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def clock() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


class Service(httpx.AsyncBaseTransport):
    """A service whose answers come from `judge`.

    `judge` gets the number of the request (from 1) and returns an answer or a transport's error, or
    an awaitable of one. `sent` are the times of all requests, `latency` is in seconds.
    """

    def __init__(
        self, judge: Callable[[int], Answer | Awaitable[Answer]], *, latency: float = 0.01
    ) -> None:
        self._judge, self.latency = judge, latency
        self.sent: list[float] = []
        self.statuses: list[int] = []
        self.requests: list[httpx.Request] = []
        self.under_way = self.most_under_way = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, as httpx's transports do."""
        self.sent.append(clock())
        self.requests.append(request)
        number = len(self.sent)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.latency / 2)
            answer = self._judge(number)
            if not isinstance(answer, httpx.Response | Exception):
                answer = await answer
            await asyncio.sleep(self.latency / 2)
        finally:
            self.under_way -= 1
        if isinstance(answer, Exception):
            raise answer
        self.statuses.append(answer.status_code)
        return answer

    def session(self, **options: Any) -> Session:
        """Return a session with this service."""
        return Session("http://127.0.0.1:9/v2", transport=lambda: self, **options)


def ok(number: int = 0) -> httpx.Response:
    """Return an answer with a pet."""
    return httpx.Response(200, content=PET, headers={"content-type": "application/json"})


def says(status: int, **headers: str) -> httpx.Response:
    """Return a refusal; `retry_after="1"` becomes its header."""
    return httpx.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def make_connect_error() -> Exception:
    """Return a transport's error if no server listens: nothing was sent."""
    error = httpx.ConnectError("nobody listens")
    error.__cause__ = aiohttp.ConnectionTimeoutError()
    return error


def lost() -> Exception:
    """Return a transport's error if a connection ends without an answer."""
    return httpx.RemoteProtocolError("the connection ended")


async def many(session: Session, count: int, workers: int, **options: Any) -> list[Any]:
    """Return the results of `count` getPetById calls by `workers` workers: pets and errors."""
    call = operations.get_pet_by_id(7)
    left, results = iter(range(count)), list[Any]()

    async def work() -> None:
        for _ in left:
            try:
                results.append(await session.send(call, **options))
            except ApiError as error:
                results.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return results
