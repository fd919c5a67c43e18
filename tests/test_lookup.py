"""look_up: concurrent getPetById requests, their progress, and the errors that end all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pandas as pd
import pytest
from scripted import ScriptedServer, answer

import petsync as ps
from petsync.cli.options import verdict_code
from petsync.client.api import AsyncApi
from petsync.client.loaders import Lookups, look_up
from petsync.client.session import Session
from petsync.plan.change import FailedLookup
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

T = TypeVar("T")
ONCE = ps.RetryPolicy(attempts=1)
CONCURRENCY = 32
PETS = {n: ps.Pet(id=n, name=f"pet {n}", status="sold") for n in range(1, 501)}


@pytest.fixture(scope="module", params=["standard", "live"])
def open_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Yield a sandbox of each profile with 500 pets."""
    with Sandbox(profile=request.param, auth=False, pets=PETS.values()) as box:
        yield box


@pytest.fixture
def box(open_box: Sandbox) -> Sandbox:
    """Return the sandbox without faults."""
    open_box.set_faults(None)
    return open_box


@asynccontextmanager
async def api_for(url: str, retry: ps.RetryPolicy = ONCE):
    """Yield the operations of the service at `url`; each request is tried once."""
    session = Session(url, retry=retry)
    try:
        yield AsyncApi(session)
    finally:
        await session.close()


def ask(url: str, work: Callable[[AsyncApi], Awaitable[T]], **more: ps.RetryPolicy) -> T:
    """Return the result of `work`; no task runs after it."""

    async def main() -> T:
        async with api_for(url, **more) as api:
            try:
                return await work(api)
            finally:
                assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(main())


def test_each_id_is_answered_for(box: Sandbox) -> None:
    """Each id gets its pet, or None where no such pet exists, in the order of the ids, and each id
    is requested once.
    """
    before = box.requests["getPetById"]
    wanted = [3, 900, -1, 3, 2**63 - 1, 500, 900]
    found = ask(box.url, lambda api: look_up(api, wanted))
    assert list(found.items()) == [
        (3, PETS[3]),
        (900, None),
        (-1, None),
        (2**63 - 1, None),
        (500, PETS[500]),
    ]
    assert box.requests["getPetById"] - before == 5


def test_no_id_is_no_request(box: Sandbox) -> None:
    """Without ids, no request is sent and no progress is reported."""
    reports: list[Lookups] = []
    before = box.requests
    assert ask(box.url, lambda api: look_up(api, [], on_progress=reports.append)) == {}
    assert (box.requests, reports) == (before, [])


def test_ten_thousand_ids() -> None:
    """Ten thousand look-ups give the right pets with a small number of tasks, and progress is
    reported from zero to all.
    """
    reports: list[Lookups] = []
    tasks: list[int] = []

    def tell(lookups: Lookups) -> None:
        reports.append(lookups)
        tasks.append(len(asyncio.all_tasks()))

    with Sandbox(auth=False, pets=PETS.values()) as box:
        wanted = range(1, 10_001)
        found = ask(box.url, lambda api: look_up(api, wanted, on_progress=tell))
        assert box.requests == {"getPetById": 10_000}
    assert {n: pet for n, pet in found.items() if pet is not None} == PETS
    assert list(found) == list(wanted)
    assert max(tasks) <= CONCURRENCY + 1
    assert reports[0] == Lookups(0, 10_000)
    assert reports[-1] == Lookups(10_000, 10_000)
    done = [lookups.done for lookups in reports]
    assert done == sorted(done)
    assert 3 <= len(done) <= 2_000


def test_a_look_up_that_fails_stops_no_other(box: Sandbox) -> None:
    """A look-up that fails is a FailedLookup with the id and the reason, and all other results are
    right.
    """
    box.set_faults("html=0.1,503=0.1,torn=0.05,seed=3")
    wanted = range(400, 600)
    found = ask(box.url, lambda api: look_up(api, wanted))
    unanswered = {n: each for n, each in found.items() if isinstance(each, FailedLookup)}
    assert 20 < len(unanswered) < 80
    for number, each in unanswered.items():
        assert each.query == str(number)
        assert each.problem.startswith("getPetById")
    assert {n: each for n, each in found.items() if n not in unanswered} == {
        n: PETS.get(n) for n in wanted if n not in unanswered
    }


def test_retries_come_first(box: Sandbox) -> None:
    """A temporary fault that a retry overcomes leaves no failed look-up."""
    box.set_faults("503=0.3,drop_before=0.1,seed=1")
    patient = ps.RetryPolicy(attempts=20, first=0.001)
    found = ask(box.url, lambda api: look_up(api, range(450, 550)), retry=patient)
    assert found == {n: PETS.get(n) for n in range(450, 550)}


def test_an_answer_about_another_pet_is_none() -> None:
    """A response with another pet is a FailedLookup, so a cache that returns one pet for each
    request proves nothing about the others.
    """
    body = json.dumps({"id": 1, "name": "Rex", "photoUrls": []}).encode()
    with ScriptedServer(answer(200, body, content_type="application/json")) as server:
        found = ask(server.url, lambda api: look_up(api, [1, 2, 3]))
    assert found[1] == ps.Pet(id=1, name="Rex")
    for number in (2, 3):
        each = found[number]
        assert isinstance(each, FailedLookup)
        assert f"asked for pet {number}, got pet 1" in each.problem


def test_a_refused_token_ends_them_all() -> None:
    """A refused token ends all look-ups after a few requests."""
    with Sandbox(pets=PETS.values()) as box:
        with pytest.raises(ps.errors.AuthError):
            ask(box.url, lambda api: look_up(api, range(1, 5000)))
        assert box.requests["getPetById"] <= 2 * CONCURRENCY


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ("drop_before=1", ps.errors.TransportError),
        ("torn=1", ps.errors.TransportError),
        ("503=1", ps.errors.ServiceError),
        ("429=1,retry_after=0", ps.errors.RateLimitedError),
    ],
)
def test_a_service_that_breaks_down_ends_them_all(
    box: Sandbox, faults: str, error: type[ps.errors.ApiError]
) -> None:
    """Many failures in a row end all look-ups, because the fault is the service's."""
    box.set_faults(faults)
    before = box.requests["getPetById"]
    with pytest.raises(error):
        ask(box.url, lambda api: look_up(api, range(1, 5000)))
    assert 64 <= box.requests["getPetById"] - before <= 64 + 2 * CONCURRENCY


@pytest.mark.parametrize("faults", ["503=0.5", "drop_before=0.3", "503=0.6,html=0.4"])
def test_failures_with_answers_between_them_end_nothing(box: Sandbox, faults: str) -> None:
    """Any number of failures ends nothing while the service answers some requests, even with a
    response that cannot be read.
    """
    box.set_faults(f"{faults},seed=1")
    found = ask(box.url, lambda api: look_up(api, range(1, 301)))
    failed = sum(isinstance(each, FailedLookup) for each in found.values())
    assert failed > 60
    assert len(found) == 300


@pytest.mark.parametrize("ids", [1, 5000])
def test_a_service_that_is_gone_ends_them_at_once(ids: int) -> None:
    """One refused connection ends all look-ups after the retries, because no service listens."""
    with ScriptedServer(b"") as server:
        url = server.url
    requests = []

    async def look(api: AsyncApi) -> object:
        try:
            return await look_up(api, range(ids))
        finally:
            requests.append(api.session.traffic().requests)

    with pytest.raises(ps.errors.TransportError) as caught:
        ask(url, look)
    assert not caught.value.may_have_happened
    assert 1 <= requests[0] <= CONCURRENCY


def test_pets_that_are_refused_one_by_one_do_not_end_them() -> None:
    """Pets that the service refuses with 400 are one FailedLookup each, and end nothing."""
    with ScriptedServer(answer(400, b"no such id")) as server:
        found = ask(server.url, lambda api: look_up(api, range(300)))
    assert all(isinstance(each, FailedLookup) and "400" in each.problem for each in found.values())


def test_cancelled_they_end_at_once(box: Sandbox) -> None:
    """A cancelled look-up leaves no task that could send a request, and begins at most one more
    request for each worker.
    """
    box.set_faults("latency=0.05")

    async def main() -> None:
        before = box.requests["getPetById"]
        async with api_for(box.url) as api:
            work = asyncio.create_task(look_up(api, range(100_000)))
            while box.requests["getPetById"] < before + 2 * CONCURRENCY:
                assert not work.done()
                await asyncio.sleep(0.01)
            begun = api.session.traffic().requests
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert asyncio.all_tasks() == {asyncio.current_task()}
            # Workers whose response is already there may begin one more request each.
            assert api.session.traffic().requests <= begun + CONCURRENCY

    asyncio.run(main())


def test_an_error_of_a_listener_ends_them(box: Sandbox) -> None:
    """An error of the progress callback reaches the caller unchanged and ends all look-ups."""

    def tell(lookups: Lookups) -> None:
        if lookups.done:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(box.url, lambda api: look_up(api, range(1000), on_progress=tell))


def test_a_plan_tells_of_its_look_ups(box: Sandbox) -> None:
    """store.plan reports the progress of its look-ups; rows whose pets are in the snapshot are not
    looked up.
    """
    reports: list[Lookups] = []
    rows = pd.DataFrame([{"id": n, "name": "x", "status": "sold"} for n in (1, 2, 901, 902, 903)])
    with ps.connect(box.url, profile=box.profile, environ={}) as store:
        plan = store.plan(rows, on_progress=reports.append)
    assert (len(plan.adds), len(plan.updates)) == (3, 2)
    assert (reports[0], reports[-1]) == (Lookups(0, 3), Lookups(3, 3))


def test_a_row_that_could_not_be_looked_up_is_a_conflict(box: Sandbox) -> None:
    """A row that could not be looked up is a conflict with a reason, neither added nor updated, and
    the other rows are planned.
    """
    rows = pd.DataFrame([{"id": n, "name": "x", "status": "sold"} for n in (1, 901, 902)])
    with ps.connect(box.url, profile=box.profile, environ={}, retry=ONCE) as store:
        box.set_faults("html=1,only=getPetById,first=1")
        plan = store.plan(rows)
    assert [change.kind for change in plan.changes] == ["add", "update"]
    (conflict,) = plan.conflicts
    assert conflict.rule == "not-looked-up"
    assert conflict.pet_id in (901, 902)
    assert "web page" in conflict.problem + conflict.suggestion


def test_a_failed_look_up_ends_as_an_outage_does(box: Sandbox, tmp_path: Path) -> None:
    """A row whose look-up failed has the outcome failed (exit code 3), not conflict (exit code
    5).
    """
    rows = pd.DataFrame([{"id": 901, "name": "x", "status": "sold"}])
    with ps.connect(box.url, profile=box.profile, environ={}, retry=ONCE, state=tmp_path) as store:
        box.set_faults("html=1,only=getPetById,first=1")
        plan = store.plan(rows)
        report = store.apply(plan, progress=False)
    assert verdict_code(plan) == 3
    assert [(r.outcome, r.cause) for r in report.results] == [("failed", "not-looked-up")]
    assert "Plan again" in report.results[0].message
    assert report.exit_code == 3
