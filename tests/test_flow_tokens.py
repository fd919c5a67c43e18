"""Tokens that expire in mid-run: renewed once for all requests, always masked, and reported."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from virtual import Service, clock, many, ok, run

from petsync.client import auth
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.errors import AuthError, SettingsError
from petsync.models import Pet
from petsync.protocol import operations
from petsync.sandbox import Sandbox
from petsync.settings import Secret

GET = operations.get_pet_by_id(7)
ADD = operations.add_pet(Pet(name="Rex"))
OLD, NEW = "0ld-t0ken-aaaaaaaa", "n3w-t0ken-bbbbbbbb"


class Guarded(Service):
    """A service that accepts the tokens of `valid`, and echoes any other in a 401."""

    def __init__(self, *valid: str, latency: float = 0.1) -> None:
        super().__init__(lambda number: self._judge_of(self.requests[number - 1]), latency=latency)
        self.valid = set(valid)
        self.carried: list[str] = []

    def _judge_of(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        self.carried.append(token)
        if token in self.valid:
            return ok()
        body = f"no such token: {token} ({OLD})"
        return httpx.Response(401, text=body, headers={"content-type": "text/plain"})


class Renewal:
    """A renewal that gives one token after another, and counts its calls."""

    def __init__(self, *tokens: Any, seconds: float = 0.5) -> None:
        self.left, self.calls, self.seconds = list(tokens), 0, seconds

    async def __call__(self) -> Any:
        """Return the next token."""
        return await self.give()

    async def give(self) -> Any:
        """Return the next token after a delay, or raise the next exception."""
        self.calls += 1
        await asyncio.sleep(self.seconds)
        token = self.left.pop(0)
        if isinstance(token, BaseException):
            raise token
        return token


def test_one_renewal_however_many_requests_were_refused() -> None:
    """However many requests were refused, adds included, there is one renewal, and each is sent at
    most twice.
    """

    async def main() -> None:
        service, renewal = Guarded(OLD), Renewal(NEW)
        session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))
        await many(session, 300, 32)
        service.valid = {NEW}
        results = await many(session, 1000, 32)
        results += await asyncio.gather(*(session.send(ADD) for _ in range(10)))
        assert all(isinstance(each, Pet) for each in results)
        assert renewal.calls == 1
        assert len(service.sent) <= 300 + 1000 + 10 + 2 * 32
        assert session.credentials.token == Secret(NEW)

    run(main())


def test_one_that_carried_an_older_token_is_simply_sent_again() -> None:
    """A request with an older token whose 401 comes after the renewal is sent again without another
    renewal.
    """

    async def main() -> None:
        service, renewal = Guarded(NEW, latency=1.0), Renewal(NEW, seconds=0.0)
        session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))
        first = asyncio.create_task(session.send(GET))
        await asyncio.sleep(0.9)
        late = asyncio.create_task(session.send(GET))
        assert [(await first).id, (await late).id] == [7, 7]
        assert service.carried == [OLD, OLD, NEW, NEW]
        assert renewal.calls == 1

    run(main())


def test_tokens_that_last_a_second_are_renewed_again_and_again() -> None:
    """A run continues through any number of expired tokens."""

    async def main() -> None:
        tokens = [f"token-{number}" for number in range(200)]
        service = Guarded(tokens[0], latency=0.05)

        async def renew() -> str:
            service.valid = {tokens[int(clock() - 1000.0)]}
            return next(iter(service.valid))

        async def expire() -> None:
            while True:
                await asyncio.sleep(1.0)
                service.valid = set()

        expiring = asyncio.create_task(expire())
        session = service.session(credentials=auth.bearer(tokens[0], renew=renew))
        results = await many(session, 3000, 16)
        expiring.cancel()
        assert all(isinstance(each, Pet) for each in results)

    run(main())


@pytest.mark.parametrize(
    ("renewed", "words"),
    [
        (NEW, "the token was just renewed"),
        (OLD, "the token's renewal returned the same token"),
        (ValueError("the password is hunter2"), "the token's renewal failed: ValueError"),
        (SettingsError("t.txt cannot be read"), "the token's renewal failed: t.txt cannot be read"),
        ("", "the token's renewal failed: the token is empty"),
        (17, "the token's renewal failed: the token is int, not text"),
        (None, "the token's renewal failed: the token is NoneType, not text"),
        (asyncio.CancelledError(), "the token's renewal was cancelled"),
    ],
)
def test_a_renewal_that_does_not_help_is_an_auth_error(renewed: Any, words: str) -> None:
    """A failed renewal is an AuthError for each request, which names the 401 and the renewal and
    shows no secret.
    """

    async def main() -> list[Any]:
        service, renewal = Guarded(), Renewal(renewed)
        session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))
        results = await many(session, 4, 4)
        assert renewal.calls == 1
        return results

    for error in run(main()):
        assert isinstance(error, AuthError)
        assert error.status == 401
        assert "getPetById of pet 7: 401 no such token: ***" in error.message
        assert words in error.message
        shown = "".join(traceback.format_exception(error)) + repr(vars(error))
        assert not any(secret in shown for secret in (OLD, NEW, "hunter2"))


def test_after_a_failed_renewal_the_next_request_tries_another() -> None:
    """After a failed renewal, the next request tries a new one."""

    async def main() -> None:
        service, renewal = Guarded(NEW), Renewal(RuntimeError(), NEW)
        session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))
        assert isinstance((await many(session, 1, 1))[0], AuthError)
        assert isinstance((await many(session, 1, 1))[0], Pet)
        assert renewal.calls == 2

    run(main())


def test_a_renewal_outlives_the_request_that_began_it() -> None:
    """A renewal continues if its request is cancelled, and the other requests use its token."""

    async def main() -> None:
        service, renewal = Guarded(NEW), Renewal(NEW, seconds=5.0)
        session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))
        tasks = [asyncio.create_task(session.send(GET)) for _ in range(3)]
        await asyncio.sleep(1.0)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in results] == [asyncio.CancelledError, Pet, Pet]
        assert renewal.calls == 1

    run(main())


@pytest.mark.parametrize("status", [401, 403])
def test_without_a_way_to_renew_a_401_is_an_error_at_once(status: int) -> None:
    """A 401 without a renewal, and any 403, is an error after one request."""

    async def main() -> int:
        service = Service(lambda _: httpx.Response(status))
        renew = Renewal(NEW).give if status == 403 else None
        session = service.session(credentials=auth.bearer(OLD, renew=renew))
        (error,) = await many(session, 1, 1)
        assert isinstance(error, AuthError)
        return len(service.sent)

    assert run(main()) == 1


def test_whoever_looks_before_a_repetition_looks_here_too() -> None:
    """`before_retry` is also called before the repetition after a renewal."""

    async def main() -> None:
        service = Guarded(NEW)
        session = service.session(credentials=auth.bearer(OLD, renew=Renewal(NEW).give))
        errors: list[Exception] = []

        async def again(error: Exception) -> None:
            errors.append(error)

        await session.send(ADD, before_retry=again)
        (error,) = errors
        assert isinstance(error, AuthError)
        assert session.traffic().retries == 1

    run(main())


@pytest.mark.parametrize("kind", ["plain", "async", "object", "partial"])
def test_what_renews_may_be_any_function(kind: str) -> None:
    """A renewal may be any function, async or not; a blocking one runs in a thread and does not
    block the loop.
    """

    begun, may_end = threading.Event(), threading.Event()

    def plain() -> str:
        begun.set()
        assert may_end.wait(60), "the loop stood still meanwhile"
        return NEW

    async def awaited() -> Secret:
        return Secret(NEW)

    ways: dict[str, Callable[[], Any]] = {
        "plain": plain,
        "async": awaited,
        "object": Renewal(NEW, seconds=0.0),
        "partial": lambda: awaited(),
    }

    async def main() -> None:
        service = Guarded(NEW, latency=0.01)
        session = service.session(credentials=auth.bearer(OLD, renew=ways[kind]))
        work = asyncio.create_task(session.send(GET))
        if kind == "plain":
            assert await asyncio.to_thread(begun.wait, 60)
        may_end.set()
        assert (await work).id == 7

    asyncio.run(main())


def test_two_loops_share_one_renewal() -> None:
    """Two event loops that share a session share one renewal."""
    service, renewal = Guarded(NEW, latency=0.05), Renewal(NEW, seconds=0.4)
    session = service.session(credentials=auth.bearer(OLD, renew=renewal.give))

    async def main() -> list[Any]:
        mine = many(session, 20, 4)
        theirs = asyncio.to_thread(lambda: asyncio.run(many(session, 20, 4)))
        return [each for part in await asyncio.gather(mine, theirs) for each in part]

    assert all(isinstance(each, Pet) for each in asyncio.run(main()))
    assert renewal.calls == 1


def test_a_token_in_a_file_is_read_again(tmp_path: Path) -> None:
    """A token file is read again when its token was revoked in mid-run."""
    file = tmp_path / "token"
    with Sandbox(pets=[Pet(id=7, name="Rex")]) as box:
        token = box.token()
        file.write_text(f"{token}\n")

        def end() -> None:
            origin, client = box.url.removesuffix("/v2"), (box.client_id, box.client_secret)
            done = httpx.post(f"{origin}/oauth/revoke", data={"token": token}, auth=client)
            assert done.is_success
            head = {"authorization": f"Bearer {token}"}
            assert httpx.get(f"{box.url}/pet/7", headers=head).status_code == 401

        async def main() -> list[Any]:
            session = Session(box.url, credentials=auth.from_file(file))
            results = await many(session, 20, 4)
            file.write_text(box.token())
            await asyncio.to_thread(end)
            results += await many(session, 200, 16)
            await session.close()
            return results

        assert all(isinstance(each, Pet) for each in asyncio.run(main()))


def test_a_token_in_a_file_that_is_not_renewed_is_reported(tmp_path: Path) -> None:
    """The error names a token file that was not renewed or is missing, and never shows
    its content.
    """
    file = tmp_path / "token"
    file.write_text(OLD)

    async def main() -> list[Any]:
        service = Guarded()
        session = service.session(credentials=auth.from_file(file))
        results = await many(session, 1, 1)
        file.unlink()
        return results + await many(session, 1, 1)

    same, missing = run(main())
    assert "the token's renewal returned the same token" in str(same)
    assert f"the token's renewal failed: the token file {file} cannot be read" in str(missing)
    assert OLD not in str(same) + str(missing)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two words", b"line\nline"])
def test_a_file_without_a_token_is_refused_at_once(content: bytes, tmp_path: Path) -> None:
    """A missing file or one without a valid token is refused by name at once, and its content is
    not shown.
    """
    file = tmp_path / "token"
    with pytest.raises(SettingsError, match="No such file"):
        auth.from_file(file)
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        auth.from_file(str(file))
    assert str(file) in str(caught.value)
    assert "two" not in str(caught.value)


def test_what_is_no_function_is_refused() -> None:
    """A renewal that is not a function is refused at once, not at the first 401."""
    with pytest.raises(SettingsError, match="renew is str"):
        auth.bearer(OLD, renew="token")  # type: ignore[arg-type]


def test_old_tokens_stay_masked(caplog: pytest.LogCaptureFixture) -> None:
    """After two renewals, none of the three tokens is in an error, a repr or a log."""
    third = "th1rd-t0ken-cccccc"
    caplog.set_level(logging.DEBUG)

    async def main() -> tuple[Session, Any]:
        service = Guarded(NEW)
        session = service.session(credentials=auth.bearer(OLD, renew=Renewal(NEW, third).give))
        await many(session, 1, 1)
        service.valid = set()
        (error,) = await many(session, 1, 1)
        return session, error

    session, error = run(main())
    assert isinstance(error, AuthError)
    shown = [str(error), repr(vars(error)), repr(session.credentials), caplog.text]
    shown.append("".join(traceback.format_exception(error)))
    assert not any(secret in text for text in shown for secret in (OLD, NEW, third))
    assert "***" in str(error)
    assert session.credentials.mask(f"{OLD} {NEW.upper()} {third}") == "*** *** ***"


def test_retries_and_renewals_go_together() -> None:
    """A 401 in a later attempt is renewed, and the remaining attempts go on."""

    async def main() -> None:
        answers = [500, 401, 500, 200]

        def judge(number: int) -> httpx.Response:
            status = answers[number - 1]
            return ok() if status == 200 else httpx.Response(status)

        session = Service(judge).session(
            credentials=auth.bearer(OLD, renew=Renewal(NEW).give),
            retry=RetryPolicy(attempts=3, first=0.001),
        )
        assert (await session.send(GET)).id == 7

    run(main())
