"""Pauses that a service asks for: all requests keep them, and a cancellation ends them at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from virtual import Service, clock, many, ok, run, says

from petsync.client.retry import RetryPolicy
from petsync.errors import RateLimitedError, ServiceError, UnavailableError
from petsync.models import Pet
from petsync.protocol import operations

GET = operations.get_pet_by_id(7)
ONCE = RetryPolicy(attempts=1)
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
IN_9_SECONDS = format_datetime(NOW + timedelta(seconds=9), usegmt=True)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (429, {"retry_after": "9"}),
        (503, {"retry_after": "9"}),
        (429, {"retry_after": IN_9_SECONDS, "date": format_datetime(NOW, usegmt=True)}),
    ],
)
def test_all_wait_and_not_the_one_alone(status: int, headers: dict[str, str]) -> None:
    """After a refusal with Retry-After, all requests wait; a date is compared with the service's
    own clock.
    """

    async def main() -> None:
        service = Service(lambda number: says(status, **headers) if number == 2 else ok())
        session = service.session(retry=RetryPolicy(attempts=2))
        results = await many(session, 40, 10)
        assert all(isinstance(each, Pet) for each in results)
        refused = service.sent[0] + service.latency
        later = [sent for sent in service.sent if sent > refused + 0.001]
        assert len(later) > 30
        assert min(later) == pytest.approx(refused + 9.0, abs=0.1)

    run(main())


def test_many_refusals_at_once_are_one_pause() -> None:
    """Many refusals at once are one pause of one second, not one for each."""

    async def main() -> tuple[float, float]:
        busy = [False]
        service = Service(lambda _: says(429, retry_after="1") if busy[0] else ok())
        session = service.session(retry=RetryPolicy(attempts=3))
        await many(session, 500, 32)
        busy[0] = True
        work = asyncio.create_task(many(session, 32, 32))
        await asyncio.sleep(0.5)
        paused = session.traffic().waiting
        busy[0] = False
        begun = clock()
        assert all(isinstance(each, Pet) for each in await work)
        return paused, clock() - begun

    paused, took = run(main())
    assert 0.4 < paused < 0.6
    assert took < 1.0


def test_a_wait_that_is_too_long_is_an_error_at_once_for_all() -> None:
    """A too long Retry-After ends all requests at once; those not sent report the time, and that a
    run can be resumed.
    """

    async def main() -> None:
        service = Service(lambda number: says(429, retry_after="900") if number == 3 else ok())
        session = service.session()
        begun = clock()
        results = await many(session, 50, 8)
        assert clock() - begun < 1.0
        (refused,) = [each for each in results if isinstance(each, RateLimitedError)]
        assert refused.hint == "The service asks you to wait 900 seconds."
        others = [each for each in results if isinstance(each, UnavailableError)]
        assert others
        assert not any(each.may_have_happened for each in others)
        assert all("asks for a pause until" in str(each) for each in others)
        assert all("petsync resume" in each.hint for each in others)
        assert len(service.sent) <= 8
        await asyncio.sleep(900.0)
        assert (await session.send(GET)).id == 7

    run(main())


@pytest.mark.parametrize("status", [429, 503])
def test_after_a_long_pause_all_requests_are_sent(status: int) -> None:
    """After a too long Retry-After, the first response ends the pause for all requests; another
    refusal begins a new one.
    """

    async def main() -> None:
        refusals = {1: "900", 2: "600"}
        service = Service(
            lambda number: (
                says(status, retry_after=refusals[number]) if number in refusals else ok()
            )
        )
        session = service.session(retry=ONCE)
        for seconds in (900.0, 600.0):
            with pytest.raises((RateLimitedError, ServiceError)):
                await session.send(GET)
            await asyncio.sleep(seconds - 1.0)
            with pytest.raises(UnavailableError, match="asks for a pause until"):
                await session.send(GET)
            await asyncio.sleep(1.0)
        assert (await session.send(GET)).id == 7
        assert all(isinstance(each, Pet) for each in await many(session, 50, 8))

    run(main())


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("later", [ok(), says(429, retry_after="200"), says(404), says(500)])
def test_requests_under_way_do_not_end_a_long_pause(status: int, later: object) -> None:
    """The responses to requests that were under way when the service asked for a long pause do not
    shorten it.
    """

    async def answer_late(number: int) -> object:
        await asyncio.sleep(float(number))
        return later

    async def main() -> None:
        first = says(status, retry_after="900")
        service = Service(
            lambda number: first if number == 1 else answer_late(number) if number < 5 else ok()
        )
        session = service.session(retry=ONCE)
        session.breaker.failures, session.breaker.patience = 2, 0.0
        await many(session, 4, 4)
        assert len(service.sent) == 4
        await asyncio.sleep(700.0)
        with pytest.raises(UnavailableError):
            await session.send(GET)
        await asyncio.sleep(200.0)
        assert all(isinstance(each, Pet) for each in [await session.send(GET) for _ in range(3)])

    run(main())


def test_no_pause_is_longer_than_two_minutes() -> None:
    """A pause of two minutes is kept; a longer one is an error."""

    async def main(seconds: str) -> float:
        service = Service(lambda number: says(503, retry_after=seconds) if number == 1 else ok())
        begun = clock()
        await service.session().send(GET)
        return clock() - begun

    assert run(main("120")) == pytest.approx(120.0, abs=0.5)
    with pytest.raises(ServiceError):
        run(main("121"))


def test_a_pause_does_not_use_up_the_time_for_retries() -> None:
    """Pauses do not count towards the time for retries: five of half a minute each still end in
    success.
    """

    async def main() -> int:
        service = Service(lambda number: says(429, retry_after="30") if number < 6 else ok())
        await service.session().send(GET)
        return len(service.sent)

    assert run(main()) == 6


@pytest.mark.parametrize("wait", [says(429, retry_after="60"), says(503, retry_after="60")])
def test_a_pause_ends_at_once_when_it_is_cancelled(wait: object) -> None:
    """A cancellation ends a pause at once, for the refused request and all that wait with it."""

    async def main() -> float:
        session = Service(lambda _: wait).session()
        tasks = [asyncio.create_task(session.send(GET)) for _ in range(20)]
        await asyncio.sleep(5.0)
        begun = clock()
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError)
            for each in await asyncio.gather(*tasks, return_exceptions=True)
        )
        assert session.traffic().under_way == 0
        return clock() - begun

    assert run(main()) == 0.0


def test_a_refusal_without_a_time_pauses_a_little() -> None:
    """A refusal without Retry-After pauses for half a second, doubled after each
    further refusal.
    """

    async def main() -> list[float]:
        service = Service(lambda number: says(429) if number < 4 else ok())
        await service.session().send(GET)
        gaps = zip(service.sent, service.sent[1:], strict=False)
        return [round(after - before, 1) for before, after in gaps]

    assert run(main()) == [0.5, 1.0, 2.0]
