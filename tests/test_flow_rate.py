"""The pace: a configured rate is kept, and a service's own rate limit is learned."""

from __future__ import annotations

import asyncio
import math
import random
from itertools import pairwise

import pytest
from virtual import Service, clock, many, ok, run, says

from petsync.client.session import Session
from petsync.client.throttle import AdaptiveRate, Pace
from petsync.models import Pet
from petsync.sandbox import Sandbox
from petsync.sandbox.faults import Throttle

pytestmark = pytest.mark.slow


class Limited(Service):
    """A service with a rate limit that answers further requests with 429."""

    def __init__(self, throttle: Throttle, *, latency: float = 0.002, phase: float = 0.0) -> None:
        super().__init__(lambda _: self._judge_now(), latency=latency)
        self.throttle, self.phase = throttle, phase

    def _judge_now(self) -> object:
        taken = self.throttle.takes(clock() + self.phase)
        return ok() if taken else says(429, retry_after="1")


def measured(service: Service, count: int, workers: int = 32) -> tuple[float, float]:
    """Return the requests done per second, and the share of refused requests."""

    async def main() -> tuple[float, float]:
        begun = clock()
        results = await many(service.session(), count, workers)
        assert all(isinstance(each, Pet) for each in results)
        return count / (clock() - begun), service.statuses.count(429) / len(service.sent)

    return run(main())


@pytest.mark.parametrize(
    ("limit", "burst", "latency"), [(200, 200, 0.002), (50, 50, 0.05), (50, 500, 0.002)]
)
def test_a_token_bucket_is_emptied_as_it_fills(limit: float, burst: float, latency: float) -> None:
    """With a token bucket, at least 95 % of the rate is used, and less than 2 % of the requests are
    refused.
    """
    service = Limited(Throttle(limit, burst=burst), latency=latency)
    rate, refused = measured(service, int(100 * limit))
    assert rate >= 0.95 * limit
    assert refused < 0.02


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7])
def test_a_window_by_the_clock_is_filled(phase: float) -> None:
    """With a limit per clock second, the rate is used and few requests are refused, at any phase of
    the clock.
    """
    throttle = Throttle(50.0, burst=50.0, window=1.0)
    rate, refused = measured(Limited(throttle, phase=phase), 5000)
    assert rate >= 47.5
    assert refused < 0.02


@pytest.mark.parametrize("burst", [1.0, 5.0])
def test_a_small_bucket_is_not_stormed(burst: float) -> None:
    """With a small bucket, where unused time is lost, the rate is learned and few requests are
    refused.
    """
    rate, refused = measured(Limited(Throttle(50.0, burst=burst), latency=0.05), 5000)
    assert rate >= 35
    assert refused < 0.02


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_refusals_by_chance_do_not_bring_it_down(share: float) -> None:
    """Random refusals with a second's wait do not reduce the rate beyond these waits."""
    drawn = random.Random(1)

    def judge(_: int) -> object:
        return says(429, retry_after="1") if drawn.random() < share else ok()

    rate, _ = measured(Service(judge, latency=0.002), 1500)
    assert rate >= 0.3 / share


@pytest.mark.parametrize(("before", "after"), [(50.0, 15.0), (15.0, 50.0)])
def test_a_rate_that_changes_is_found_again(before: float, after: float) -> None:
    """If the service's limit changes, the new rate is reached within two minutes."""

    async def main() -> float:
        service = Limited(Throttle(before, burst=before))
        session = service.session()
        work = asyncio.create_task(many(session, 10**6, 32))
        await asyncio.sleep(60.0)
        service.throttle = Throttle(after, burst=after)
        await asyncio.sleep(120.0)
        taken = service.statuses.count(200)
        await asyncio.sleep(20.0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return (service.statuses.count(200) - taken) / 20.0

    assert 0.85 * after <= run(main()) <= 1.2 * after


def test_a_service_without_a_limit_is_not_paced() -> None:
    """A service that refuses nothing is not paced."""
    rate, refused = measured(Service(ok, latency=0.01), 3000)
    assert rate > 2000
    assert refused == 0


@pytest.mark.parametrize("rate", [0.5, 7.0, 200.0])
def test_a_rate_that_is_asked_for_is_kept(rate: float) -> None:
    """A configured rate is never exceeded, and requests are evenly spread at nearly that rate."""

    async def main() -> list[float]:
        service = Service(ok)
        session = service.session()
        session.pace.rate = rate
        await many(session, max(10, int(3 * rate)), 32)
        return service.sent

    sent = run(main())
    gaps = [after - before for before, after in pairwise(sent)]
    assert min(gaps) >= 0.99 / rate
    assert math.isclose(sent[-1] - sent[0], (len(sent) - 1) / rate, rel_tol=0.05)


def test_late_timers_are_made_up_for() -> None:
    """A short delay of the loop does not reduce the rate; a long break is not made up for."""
    pace = Pace()
    pace.rate = 100.0
    pace.take(0.0, waited=False)
    assert pace.opens_at == pytest.approx(0.01)
    pace.take(0.03, waited=True)
    assert pace.opens_at == pytest.approx(0.02)
    pace.take(5.0, waited=True)
    assert pace.opens_at == pytest.approx(5.01)
    pace.take(6.0, waited=False)
    assert pace.opens_at == pytest.approx(6.01)


def test_the_lower_of_two_rates_counts() -> None:
    """A configured rate below the service's limit is kept."""

    async def main() -> float:
        service = Limited(Throttle(200.0, burst=200.0))
        session = service.session()
        await many(session, 2000, 32)
        session.pace.rate = 20.0
        begun = clock()
        await many(session, 200, 32)
        return 200 / (clock() - begun)

    assert run(main()) == pytest.approx(20.0, rel=0.05)


def test_refusals_of_one_moment_are_one_lesson() -> None:
    """Refusals of requests that were under way together reduce the rate once."""
    learnt = AdaptiveRate()
    for number in range(100):
        learnt.record_accepted(number * 0.001)
    learnt.record_refused(0.099, 0.1, 1.0)
    once = learnt.rate
    for _ in range(30):
        learnt.record_refused(0.099, 0.101, 1.0)
    assert learnt.rate == once == pytest.approx(99.0)


def test_a_limited_sandbox_is_not_stormed() -> None:
    """Against a sandbox with fifty requests a second, all requests are done, and few
    are refused.
    """
    with Sandbox(auth=False, pets=[Pet(id=7, name="Rex")], faults="limit=50,burst=25") as box:

        async def main() -> None:
            session = Session(box.url)
            results = await many(session, 150, 32)
            assert all(isinstance(each, Pet) for each in results)
            traffic = session.traffic()
            assert traffic.refused == box.broken["limit"]
            assert traffic.requests == 150 + traffic.refused
            assert 1 <= traffic.refused <= 40
            await session.close()

        asyncio.run(main())
