"""The gate: the number of concurrent requests, their order, and how the limit adapts."""

from __future__ import annotations

import asyncio

import pytest
from virtual import Service, clock, lost, many, ok, run, says

from petsync.client.retry import RetryPolicy
from petsync.client.throttle import MAX_CONCURRENCY, Gate, Pace, Window
from petsync.models import Pet
from petsync.protocol import operations

GET = operations.get_pet_by_id(7)
PUT = operations.update_pet(Pet(id=7, name="Rex"))
ONCE = RetryPolicy(attempts=1)


def test_it_starts_small_and_doubles_while_all_is_well() -> None:
    """The limit starts at four and doubles with each round of answers without trouble."""

    async def main() -> None:
        service = Service(ok, latency=1.0)
        session = service.session()
        work = asyncio.create_task(many(session, 200, 200))
        seen = []
        for _ in range(4):
            await asyncio.sleep(0.99)
            seen.append(service.under_way)
            await asyncio.sleep(0.01)
        assert seen == [4, 8, 16, 32]
        await work

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "most"), [(1, 1), (10, 10), (500, MAX_CONCURRENCY), (0, 1)])
def test_its_bound_holds(asked: int, most: int) -> None:
    """The number of requests under way reaches its configured limit and never exceeds it."""

    async def main() -> int:
        service = Service(ok)
        session = service.session()
        session.gate.most = asked
        await many(session, 2000, 300)
        assert session.traffic().limit == most
        return service.most_under_way

    assert run(main()) == most


@pytest.mark.parametrize("trouble", [says(429), says(503), lost()])
def test_trouble_halves_it_once_a_round(trouble: object) -> None:
    """Refusals of one round halve the limit once; afterwards it grows by about one per round."""

    async def main() -> list[int]:
        session = Service(lambda number: trouble if 401 <= number <= 416 else ok()).session(
            retry=ONCE
        )
        session.gate.most = 16
        await many(session, 400, 16)
        limits = [session.traffic().limit]
        for count in (16, 40):
            await many(session, count, 16)
            limits.append(session.traffic().limit)
        return limits

    before, after, later = run(main())
    assert (before, after) == (16, 8)
    assert 9 <= later <= 13


def test_it_never_goes_below_one() -> None:
    """A service that refuses everything still gets one request at a time."""

    async def main() -> tuple[int, int]:
        service = Service(lambda _: says(429, retry_after="0"))
        session = service.session(retry=ONCE)
        await many(session, 60, 8)
        service.most_under_way = 0
        await many(session, 20, 8)
        return session.traffic().limit, service.most_under_way

    assert run(main()) == (1, 1)


def test_a_service_that_has_become_slow_gets_fewer() -> None:
    """The limit falls if a service becomes three times slower and takes more than half a second."""

    async def main() -> tuple[int, int]:
        service = Service(ok, latency=0.2)
        session = service.session()
        await many(session, 400, 64)
        before = session.traffic().limit
        service.latency = 0.8
        await many(session, 200, 64)
        return before, session.traffic().limit

    before, after = run(main())
    assert before >= 60
    assert after <= before / 2


@pytest.mark.parametrize(("first", "then"), [(0.001, 0.45), (0.4, 1.1)])
def test_a_service_that_is_a_little_slower_does_not(first: float, then: float) -> None:
    """The limit does not fall if a fast service stays below half a second, or a slow one below
    three times its best.
    """

    async def main() -> tuple[int, int]:
        service = Service(ok, latency=first)
        session = service.session()
        await many(session, 400, 64)
        before = session.traffic().limit
        service.latency = then
        await many(session, 400, 64)
        return before, session.traffic().limit

    before, after = run(main())
    assert after >= before


def test_an_operation_is_compared_with_itself() -> None:
    """Each operation is compared with its own times: a slow list is not a sign of a slow
    service.
    """
    window = Window()
    for _ in range(100):
        window.record_answer("getPetById", 0.0, 0.01, full=True)
    before = window.limit
    for _ in range(100):
        window.record_answer("findPetsByStatus", 0.0, 10.0, full=True)
        window.record_answer("uploadFile", 0.0, 10.0, full=True)
        window.record_answer("updatePet", 0.0, 2.0, full=True)
    assert window.limit >= before


def test_a_new_upper_bound_keeps_what_was_learned() -> None:
    """Another upper bound, as a run sets it, does not let the limit begin again: the next full
    response does not lower it.
    """
    window = Window()
    for _ in range(60):
        window.record_answer("getPetById", 0.0, 0.01, full=True)
    before = window.limit
    window.most = before + 10
    assert window.limit == before
    window.record_answer("getPetById", 0.0, 0.01, full=True)
    assert window.limit == before + 1
    window.most = 5
    assert window.limit == 5


def test_the_first_to_come_is_the_first_to_go() -> None:
    """Requests are sent in the order in which they were made."""

    async def main() -> list[str]:
        service = Service(ok)
        session = service.session(retry=ONCE)
        session.gate.most = 2
        sent = (session.send(operations.get_pet_by_id(number)) for number in range(50))
        await asyncio.gather(*sent, return_exceptions=True)
        return [request.url.path.rpartition("/")[2] for request in service.requests]

    assert run(main()) == [str(number) for number in range(50)]


def test_a_change_goes_ahead_of_reads() -> None:
    """Changes go before waiting reads at three to one, so that a pet is changed soon after it was
    read, and reads still proceed.
    """

    async def main() -> str:
        service = Service(ok)
        session = service.session()
        session.gate.most = 1
        reads = [asyncio.create_task(session.send(GET)) for _ in range(6)]
        await asyncio.sleep(0)
        changes = [asyncio.create_task(session.send(PUT)) for _ in range(5)]
        await asyncio.gather(*reads, *changes)
        return "".join(request.method[0] for request in service.requests)

    assert run(main()) == "GPPPGPPGGGG"


def test_a_paced_run_changes_each_pet_just_after_it_was_read() -> None:
    """At one request a second with sixteen workers, each pet is changed within seconds
    of its read.
    """

    async def main() -> float:
        session = Service(ok).session()
        session.pace.rate = 1.0
        gaps = []

        async def work() -> None:
            for _ in range(4):
                await session.send(GET)
                read = clock()
                await session.send(PUT)
                gaps.append(clock() - read)

        await asyncio.gather(*(work() for _ in range(16)))
        return max(gaps)

    assert run(main()) < 3.0


def test_whoever_is_cancelled_holds_no_place() -> None:
    """A request that is cancelled while it waits, enters or runs leaves the gate."""

    async def main() -> None:
        window = Window(most=2)
        gate = Gate(window, Pace())

        async def one() -> None:
            assert await gate.enter()
            try:
                await asyncio.sleep(1.0)
            finally:
                gate.leave()

        tasks = [asyncio.create_task(one()) for _ in range(10)]
        await asyncio.sleep(0.5)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.under_way == 0
        assert await asyncio.wait_for(gate.enter(), 1.0)

    run(main())


def test_one_that_is_let_in_and_cancelled_at_once_gives_its_place_on() -> None:
    """A request that is admitted and cancelled in the same loop turn passes its place on."""

    async def main() -> None:
        gate = Gate(Window(most=1), Pace())
        assert await gate.enter()
        second, third = (asyncio.create_task(gate.enter()) for _ in range(2))
        await asyncio.sleep(0)
        gate.leave()
        second.cancel()
        assert await asyncio.wait_for(third, 1.0)
        assert gate.under_way == 1

    run(main())


def test_a_cancelled_request_leaves_the_session_as_it_was() -> None:
    """Hundreds of cancelled requests do not delay the next one."""

    async def main() -> float:
        session = Service(ok, latency=100.0).session()
        work = asyncio.create_task(many(session, 1000, 300))
        await asyncio.sleep(1.0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert session.traffic().under_way == 0
        begun = clock()
        await session.send(GET)
        return clock() - begun

    assert run(main()) == pytest.approx(100.0)
