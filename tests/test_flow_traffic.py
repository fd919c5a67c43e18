"""The traffic counts of a session, and the progress of an upload."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from virtual import Service, lost, many, ok, run, says

from petsync.client.api import AsyncApi
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.client.target import ServiceTarget
from petsync.errors import TransportError
from petsync.models import Pet
from petsync.protocol import operations
from petsync.protocol.operations import Traffic
from petsync.sandbox import Sandbox

GET = operations.get_pet_by_id(7)
QUICK = RetryPolicy(first=0.001)


def test_every_attempt_is_counted_by_what_it_is() -> None:
    """First tries, retries and refusals are counted separately, and nothing is counted before the
    first request.
    """

    async def main() -> None:
        troubles = {2: says(429, retry_after="0"), 3: says(503), 4: lost(), 6: says(404)}
        session = Service(lambda number: troubles.get(number) or ok()).session(retry=QUICK)
        assert session.traffic() == Traffic(limit=4)
        await many(session, 4, 1)
        traffic = session.traffic()
        assert (traffic.requests, traffic.retries, traffic.refused) == (7, 3, 2)
        assert (traffic.under_way, traffic.waiting) == (0, 0.0)

    run(main())


def test_a_target_counts_from_when_it_is_made() -> None:
    """A target counts from its creation: two runs on one session do not count each other's earlier
    requests.
    """

    async def main() -> None:
        session = Service(ok, latency=1.0).session()
        await many(session, 5, 5)
        first = ServiceTarget(AsyncApi(session))
        work = asyncio.create_task(many(session, 3, 3))
        await asyncio.sleep(0.5)
        assert (first.traffic.requests, first.traffic.under_way) == (3, 3)
        await work
        second = ServiceTarget(AsyncApi(session))
        await second.get(7)
        assert (first.traffic.requests, second.traffic.requests) == (4, 1)

    run(main())


def test_a_pause_shows_how_long_it_lasts() -> None:
    """The traffic shows the rest of a pause and the reduced limit."""

    async def main() -> None:
        service = Service(lambda number: says(429, retry_after="20") if number == 3 else ok())
        session = service.session()
        work = asyncio.create_task(many(session, 10, 4))
        await asyncio.sleep(5.0)
        traffic = session.traffic()
        assert 14.0 < traffic.waiting < 16.0
        assert traffic.limit < 4
        await work

    run(main())


def test_it_can_be_asked_where_no_loop_runs() -> None:
    """The traffic can be read without a running loop."""
    session = Service(ok).session()
    run(many(session, 3, 1))
    assert session.traffic().requests == 3


@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
@pytest.mark.parametrize("metadata", [None, "front"])
def test_an_upload_tells_how_far_it_is(size: int, metadata: str | None) -> None:
    """Upload progress counts the image's bytes only, in steps of at most 64 KiB up to the end, and
    the whole image arrives.
    """
    content = b"\x89PNG\r\n\x1a\n" + bytes(size) if size else b""
    counts: list[int] = []
    with Sandbox(auth=False, pets=[Pet(id=7, name="Rex")]) as box:

        async def main() -> None:
            session = Session(box.url)
            target = ServiceTarget(AsyncApi(session))
            answer = await target.upload(
                7, content, filename="a.png", metadata=metadata, on_sent=counts.append
            )
            assert f"{len(content)} byte" in (answer.message or "")
            await session.close()

        asyncio.run(main())
    assert counts == sorted(counts)
    assert counts[-1] == len(content)
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= 65_536


def test_an_upload_that_is_cut_is_not_reported_to_its_end() -> None:
    """The progress of an upload whose connection ends early does not reach the end."""
    counts: list[int] = []

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.transport.abort()

    async def main() -> None:
        async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            session = Session(f"http://127.0.0.1:{port}/v2")
            target = ServiceTarget(AsyncApi(session))
            with pytest.raises(TransportError) as caught:
                await target.upload(7, bytes(50_000_000), filename="a.png", on_sent=counts.append)
            assert caught.value.may_have_happened
            await session.close()

    asyncio.run(main())
    assert not counts or counts[-1] < 50_000_000


def test_another_transport_tells_once() -> None:
    """A transport of httpx reports the progress once, at the end."""

    async def main() -> list[int]:
        counts: list[int] = []
        answer = httpx.Response(200, json={"code": 200, "type": "unknown", "message": "stored"})
        target = ServiceTarget(AsyncApi(Service(lambda _: answer).session()))
        await target.upload(7, b"abc", filename="a.png", on_sent=counts.append)
        return counts

    assert run(main()) == [3]


def test_all_asks_for_more_statuses_if_named() -> None:
    """`all` queries the profile's and the given statuses, and returns each pet once."""
    pets = [Pet(id=n, name="x", status=s) for n, s in ((1, "sold"), (2, "lent"), (3, "lost"))]
    with Sandbox(auth=False, profile="live", pets=pets) as box:

        async def main() -> list[list[int | None]]:
            session = Session(box.url)
            target = ServiceTarget(AsyncApi(session))
            asked: list[list[str]] = [[], ["lent"], ["sold", "lent", "lost"]]
            found = [[p.id for p in await target.list_pets(statuses)] for statuses in asked]
            await session.close()
            return found

        assert asyncio.run(main()) == [[1], [1, 2], [1, 2, 3]]
