"""The retry budget limits the retries to a failing service, and fails no request for lack of it."""

from __future__ import annotations

import asyncio

import pytest
from virtual import Service, clock, lost, many, ok, run, says

from petsync.client.retry import RetryBudget, RetryPolicy
from petsync.errors import RateLimitedError, ServiceError
from petsync.models import Pet
from petsync.protocol import operations

GET = operations.get_pet_by_id(7)


@pytest.mark.parametrize("refusal", [says(429, retry_after="0"), says(503)])
def test_a_service_that_refuses_everything_sees_a_bounded_stream(refusal: object) -> None:
    """A service that refuses everything gets the first tries, the burst, and two retries a second,
    however many requests wait.
    """

    async def main() -> int:
        service = Service(lambda _: refusal)
        policy = RetryPolicy(attempts=100, seconds=1000.0, first=0.001, longest=0.01)
        session = service.session(retry=policy)
        work = asyncio.create_task(many(session, 128, 128))
        await asyncio.sleep(60.0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return len(service.sent)

    assert run(main()) <= 128 + 32 + 2 * 61


def test_successes_pay_for_retries() -> None:
    """Successes refill the budget: if every sixth answer fails, no request waits for a token."""

    async def main() -> tuple[float, int]:
        service = Service(lambda number: lost() if number % 6 == 0 else ok())
        session = service.session(retry=RetryPolicy(first=0.001))
        begun = clock()
        results = await many(session, 3000, 16)
        assert all(isinstance(each, Pet) for each in results)
        return clock() - begun, session.traffic().retries

    seconds, retries = run(main())
    assert 590 <= retries <= 610
    assert seconds < 30


def test_an_empty_budget_makes_wait_and_fails_nothing() -> None:
    """With an empty budget, retries wait for tokens and do not fail."""

    async def main() -> float:
        service = Service(lambda number: says(500) if number <= 40 else ok(), latency=1.0)
        session = service.session(retry=RetryPolicy(first=0.001))
        session.gate.most = 40
        session.breaker.failures = 1000
        begun = clock()
        results = await many(session, 40, 40)
        assert all(isinstance(each, Pet) for each in results)
        return clock() - begun

    assert run(main()) < 60


def test_a_token_is_waited_for_within_the_time_for_retries() -> None:
    """A wait for a token ends with the time for retries: the last error is raised, and nothing more
    is sent.
    """

    async def main() -> None:
        service = Service(lambda _: says(429, retry_after="0"))
        policy = RetryPolicy(attempts=10_000, seconds=20.0, first=0.001, longest=0.002)
        session = service.session(retry=policy)
        begun = clock()
        (error,) = await many(session, 1, 1)
        assert isinstance(error, RateLimitedError)
        assert 19.0 <= clock() - begun <= 21.0
        assert len(service.sent) <= 1 + 32 + 2 * 21

    run(main())


def test_those_that_wait_for_tokens_get_them_in_turn_or_leave() -> None:
    """Waiting requests get tokens in order; one that is cancelled or gives up takes none."""

    async def main() -> list[int]:
        budget = RetryBudget(clock())
        for _ in range(32):
            assert await budget.take(0.0)
        served: list[int] = []

        async def one(number: int) -> None:
            if await budget.take(1.2 if number == 1 else 100.0):
                served.append(number)

        tasks = [asyncio.create_task(one(number)) for number in range(8)]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        tasks[3].cancel()
        await asyncio.sleep(0.5)
        for _ in range(4):
            budget.record_success()
        await asyncio.gather(*tasks, return_exceptions=True)
        return served

    assert run(main()) == [1, 2, 4, 5, 6, 7]


def test_the_attempts_of_one_request_are_as_many_as_ever() -> None:
    """A single request has six attempts with a full budget."""

    async def main() -> int:
        service = Service(lambda _: says(500))
        (error,) = await many(service.session(), 1, 1)
        assert isinstance(error, ServiceError)
        return len(service.sent)

    assert run(main()) == 6
