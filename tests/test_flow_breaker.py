"""The circuit breaker: a run waits for a service that restarts, and stops if it stays away."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from scripted import answer
from virtual import PET, Service, clock, lost, make_connect_error, many, ok, run, says

from petsync.client.api import AsyncApi
from petsync.client.loaders import look_up
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.errors import ServiceError, TransportError, UnavailableError
from petsync.models import Pet
from petsync.protocol import operations

pytestmark = pytest.mark.slow

GET = operations.get_pet_by_id(7)
ADD = operations.add_pet(Pet(name="Rex"))


class Outage:
    """A service that fails for a time: it `begins` after and `lasts` for these seconds."""

    def __init__(self, error: object, *, begins: float, lasts: float) -> None:
        self.begins, self.ends = 1000.0 + begins, 1000.0 + begins + lasts
        self.error = error

    def __call__(self, number: int) -> object:
        fails = self.begins <= clock() < self.ends
        return self.error if fails else ok()


@pytest.mark.parametrize("workers", [1, 2, 16, 128])
@pytest.mark.parametrize("seconds", [3.0, 10.0, 45.0])
def test_a_service_that_restarts_is_waited_for(workers: int, seconds: float) -> None:
    """If no server listens for a while, all requests of a run, adds included, are done afterwards,
    each once and within seconds.
    """

    async def main() -> tuple[float, int]:
        outage = Outage(make_connect_error(), begins=1.0, lasts=seconds)
        service = Service(outage, latency=0.1)
        session = service.session()
        call = asyncio.create_task(_adds(session, 20 * workers, workers))
        results = await call
        assert all(isinstance(each, Pet) for each in results)
        assert service.statuses.count(200) == 20 * workers
        return clock() - outage.ends, len(service.sent) - 20 * workers

    late, extra = run(main())
    assert late < 20.0
    assert extra <= 2 * workers + 40


async def _adds(session: Session, count: int, workers: int) -> list[object]:
    left, results = iter(range(count)), list[object]()

    async def work() -> None:
        for _ in left:
            try:
                results.append(await session.send(ADD, patient=True))
            except Exception as error:  # noqa: BLE001 - judged by the test
                results.append(error)

    await asyncio.gather(*(work() for _ in range(workers)))
    return results


@pytest.mark.parametrize("error", [says(502), says(503), lost()])
def test_one_request_at_a_time_finds_out_whether_it_is_back(error: object) -> None:
    """After twenty failures in a row, only one request at a time probes the service; then all are
    done.
    """

    async def main() -> None:
        outage = Outage(error, begins=5.0, lasts=40.0)
        service = Service(outage, latency=0.05)
        session = service.session()
        work = asyncio.create_task(many(session, 8000, 16))
        await asyncio.sleep(8.0)
        before = len(service.sent)
        service.most_under_way = 0
        await asyncio.sleep(35.0)
        assert 6 <= len(service.sent) - before <= 12
        assert service.most_under_way == 1
        results = await work
        assert all(isinstance(each, Pet) for each in results)

    run(main())


@pytest.mark.parametrize("error", [says(503), make_connect_error(), lost()])
def test_patience_ends(error: object) -> None:
    """After a minute without success, every request fails with the times, the number of attempts,
    the reason and a hint to resume.
    """

    async def main() -> None:
        service = Service(Outage(error, begins=1.0, lasts=1e9))
        session = service.session()
        begun = clock()
        results = await many(session, 4000, 16, patient=True)
        assert 60.0 <= clock() - begun <= 75.0
        unavailable = [each for each in results if isinstance(each, UnavailableError)]
        failed = [e for e in results if isinstance(e, ServiceError | TransportError)]
        assert len(unavailable) > 16
        assert len(failed) <= 4
        assert len(service.sent) - service.statuses.count(200) < 120
        result = unavailable[-1]
        assert re.search(r"since \d\d:\d\d:\d\d: \d+ attempts in a row have failed", str(result))
        assert "getPetById of pet 7" in str(result)
        assert "petsync resume" in result.hint
        assert result.operation == "getPetById"
        assert result.exit_code == 1

    run(main())


def test_what_was_sent_before_stays_uncertain() -> None:
    """When the breaker ends a PUT, the error shows whether an attempt may have been carried out;
    for a request that was never sent, none was.
    """

    async def main() -> None:
        service = Service(Outage(lost(), begins=1.0, lasts=1e9))
        session = service.session(retry=RetryPolicy(attempts=1000, seconds=1000.0))
        session.breaker.failures = 5
        put = operations.update_pet(Pet(id=7, name="Rex"))
        await session.send(put)
        await asyncio.sleep(1.0)
        known = []
        for _ in range(3):
            with pytest.raises(UnavailableError) as caught:
                await session.send(put)
            known.append((caught.value.may_have_happened, len(service.sent)))
            if len(known) == 1:
                await asyncio.sleep(6.0)  # virtual seconds, until the next probe
        assert [happened for happened, _ in known[:2]] == [True, True]
        assert known[2] == (False, known[1][1])

    run(main())


def test_a_probe_now_and_then_finds_it_well_again() -> None:
    """An open breaker sends one request in five seconds, and closes after its success."""

    async def main() -> None:
        service = Service(Outage(says(503), begins=1.0, lasts=200.0))
        session = service.session()
        await many(session, 4000, 16)
        assert session.breaker.is_open
        before, begun = len(service.sent), clock()
        while clock() - begun < 60.0:
            with pytest.raises((UnavailableError, ServiceError)):
                await session.send(GET)
            await asyncio.sleep(0.5)
        assert 10 <= len(service.sent) - before <= 13
        await asyncio.sleep(200.0)
        assert (await session.send(GET)).id == 7
        assert not session.breaker.is_open
        assert all(isinstance(each, Pet) for each in await many(session, 100, 16))

    run(main())


def test_an_answer_of_any_kind_shows_that_it_is_there() -> None:
    """Failures between answers of any status do not open the breaker."""

    async def main() -> None:
        service = Service(lambda number: says(404) if number % 3 == 0 else says(500))
        session = service.session(retry=RetryPolicy(first=0.001))
        begun = clock()
        while clock() - begun < 300.0:
            await many(session, 10, 4)
        assert not session.breaker.is_open

    run(main())


def test_one_pet_that_always_fails_is_its_own_matter() -> None:
    """With one worker, six failures of one pet do not open the breaker, and the next request is
    sent at once.
    """

    async def main() -> float:
        service = Service(lambda number: says(500) if 2 <= number <= 7 else ok())
        session = service.session()
        results = await many(session, 3, 1)
        assert [type(each) for each in results] == [Pet, ServiceError, Pet]
        return clock()

    assert run(main()) < 1010.0


def test_a_service_that_never_answered_is_not_waited_for() -> None:
    """A service that never answered is not waited for: one request ends after six attempts, a bulk
    of them after twenty.
    """

    async def main() -> None:
        service = Service(lambda _: make_connect_error())
        session = service.session()
        begun = clock()
        with pytest.raises(TransportError):
            await session.send(GET)
        assert clock() - begun < 4.0
        assert len(service.sent) == 6
        results = await many(session, 10_000, 16, patient=True)
        assert all(isinstance(each, UnavailableError) for each in results)
        assert clock() - begun < 21.0

    run(main())


@pytest.mark.parametrize("workers", [1, 2, 16, 128])
def test_a_run_against_a_wrong_port_ends_after_twenty_seconds(workers: int) -> None:
    """All waiting requests end together when the service is dropped, however many there are."""

    async def main() -> None:
        service = Service(lambda _: make_connect_error())
        session = service.session()
        begun = clock()
        results = await many(session, 3 * workers, workers, patient=True)
        assert all(isinstance(each, UnavailableError) for each in results)
        assert 20.0 <= clock() - begun < 21.0

    run(main())


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_a_service_that_takes_connections_and_never_answers_ends_a_run(workers: int) -> None:
    """If a service accepts connections but never answers, the first time-outs end the whole run."""

    async def main() -> None:
        service = Service(lambda _: httpx.ReadTimeout("no answer"), latency=30.0)
        session = service.session()
        begun = clock()
        results = await many(session, 1_000, workers, patient=True)
        # A single worker needs three time-outs to exclude a problem of one request.
        assert sum(not isinstance(each, UnavailableError) for each in results) == (workers == 1)
        assert clock() - begun < (100.0 if workers == 1 else 45.0)

    run(main())


@pytest.mark.parametrize("error", [says(503), make_connect_error(), lost()])
def test_look_ups_wait_and_then_end(error: object) -> None:
    """Look-ups wait for the end of a short outage, and end with an error in a permanent one."""

    async def main(lasts: float) -> dict[int, object]:
        service = Service(Outage(error, begins=2.0, lasts=lasts), latency=0.2)
        session = service.session(retry=RetryPolicy(attempts=12))
        return await look_up(_Lenient(session), range(2000))

    found = run(main(30.0))
    assert len(found) == 2000
    assert all(isinstance(each, Pet) for each in found.values())
    with pytest.raises((UnavailableError, TransportError)):
        run(main(1e9))


class _Lenient(AsyncApi):
    """Returns the one pet for every id."""

    async def get_pet_by_id(self, pet_id: int) -> Pet:
        return await self.session.send(GET)


def test_the_doctor_s_questions_pass_an_open_breaker() -> None:
    """The doctor's requests are sent despite an open breaker."""

    async def main() -> None:
        service = Service(Outage(says(503), begins=1.0, lasts=1e9))
        session = service.session()
        await many(session, 4000, 16)
        assert session.breaker.is_open
        response = await session.send_request(GET.request)
        assert response.status == 503

    run(main())


def test_a_refused_connection_of_a_real_server_is_waited_for() -> None:
    """A request waits for a real server whose port is closed and opened again."""
    pet = answer(200, PET, content_type="application/json")
    served: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        served.append(head.split()[0])
        writer.write(pet.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
        await writer.drain()
        writer.close()

    async def main() -> None:
        first = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = first.sockets[0].getsockname()[1]
        session = Session(f"http://127.0.0.1:{port}/v2")
        await session.send(GET)
        first.close()
        await first.wait_closed()
        waiting = asyncio.create_task(session.send(ADD, patient=True))
        await asyncio.sleep(1.5)
        assert not waiting.done()
        async with await asyncio.start_server(serve, "127.0.0.1", port):
            assert (await waiting).id == 7
        await session.close()

    asyncio.run(main())
    assert served == [b"GET", b"POST"]
