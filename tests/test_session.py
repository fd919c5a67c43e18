"""The session: which requests are sent where, which are retried, and what errors show."""

from __future__ import annotations

import asyncio
import gzip
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from scripted import ScriptedServer, answer

from petsync.client import auth
from petsync.client.api import AsyncApi
from petsync.client.retry import RetryPolicy
from petsync.client.session import Session
from petsync.errors import (
    ApiError,
    AuthError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    RedirectError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
)
from petsync.models import Pet
from petsync.profile import LIVE, STANDARD, ServiceProfile
from petsync.protocol import operations
from petsync.settings import Secret
from petsync.store import connect

TOKEN = "s3cr3t-token-0123456789"
KEY = "k3y-9876543210"
SECRET = auth.bearer(TOKEN, api_key=KEY)
NONE = auth.none()
PET = answer(200, b'{"id":7,"name":"Rex"}', content_type="application/json")
OK = answer(200)
QUICK = RetryPolicy(first=0.001, longest=0.002)
Act = Callable[[AsyncApi], Coroutine[Any, Any, Any]]


def get(api: AsyncApi) -> Coroutine[Any, Any, Any]:
    """Call getPetById, which is safe to repeat."""
    return api.get_pet_by_id(7)


def add(api: AsyncApi) -> Coroutine[Any, Any, Any]:
    """Call addPet, which is not safe to repeat."""
    return api.add_pet(Pet(name="Rex"))


def do(act: Act, url: str, **options: Any) -> Any:
    """Return or raise the result of the call in a session that is closed afterwards."""

    async def work() -> Any:
        session = Session(url, **{"credentials": SECRET, "retry": QUICK, **options})
        try:
            return await act(AsyncApi(session))
        finally:
            await session.close()

    return asyncio.run(work())


def failure(act: Act, url: str, **options: Any) -> ApiError:
    """Return the error that the call raises."""
    with pytest.raises(ApiError) as caught:
        do(act, url, **options)
    return caught.value


def test_token_and_key_travel_in_their_headers() -> None:
    """The token is sent with every request, the key only with getPetById and deletePet."""
    with ScriptedServer(PET) as server:
        do(get, server.url)
        do(add, server.url)
    first, second = (request.lower() for request in server.requests)
    assert f"authorization: bearer {TOKEN}\r\n" in first
    assert f"api_key: {KEY}\r\n" in first
    assert f"authorization: bearer {TOKEN}\r\n" in second
    assert KEY not in second
    assert "cookie" not in first


def test_a_key_that_is_given_stands_before_the_configured_one() -> None:
    """deletePet's own parameter overrides the configured API key."""
    with ScriptedServer(OK) as server:
        do(lambda api: api.delete_pet(7, api_key="other"), server.url)
    assert "api_key: other\r\n" in server.requests[0].lower()


def test_a_cookie_is_not_kept() -> None:
    """A cookie from the service is never sent back."""
    first = answer(404, set_cookie="a=b; Path=/")
    with ScriptedServer(first, PET) as server:

        async def twice(api: AsyncApi) -> Pet:
            with pytest.raises(NotFoundError):
                await api.get_pet_by_id(7)
            return await api.get_pet_by_id(7)

        do(twice, server.url)
    assert "cookie" not in server.requests[1].lower()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_never_gets_the_token(status: int) -> None:
    """A redirect to another origin sends no request there, and the error names the target."""
    with ScriptedServer(PET) as other:
        there = answer(status, location=other.url + "/pet/7")
        with ScriptedServer(there) as server:
            error = failure(get, server.url)
    assert isinstance(error, RedirectError)
    assert other.url.removesuffix("/v2") in str(error)
    assert other.requests == []


def test_a_redirect_on_the_same_origin_is_followed() -> None:
    """A redirect to the same origin is followed."""
    with ScriptedServer(answer(307, location="/v2/moved/7"), PET) as server:
        assert do(get, server.url).id == 7
    assert server.requests[1].startswith("GET /v2/moved/7 ")


@pytest.mark.parametrize("status", [301, 302, 303, 304])
def test_a_redirect_that_would_turn_a_post_into_a_get_is_refused(status: int) -> None:
    """A redirect that changes the method is refused. The change may have happened: a service may
    redirect to the result of a change that it made.
    """
    with ScriptedServer(answer(status, location="/v2/pet")) as server:
        error = failure(add, server.url)
    assert isinstance(error, RedirectError | ResponseError)
    assert error.may_have_happened
    assert "has moved" not in str(error)
    assert len(server.requests) == 1


def test_a_redirect_that_asks_for_the_request_again_has_done_nothing() -> None:
    """A 307 to another origin is refused, and the error reports that the change was not made."""
    with ScriptedServer(answer(307, location="http://other.example/pet")) as server:
        assert failure(add, server.url).may_have_happened is False


def test_a_circle_of_redirects_ends() -> None:
    """A redirect loop raises a RedirectError after five redirects."""
    with ScriptedServer(answer(307, location="/v2/pet/7")) as server:
        error = failure(get, server.url)
    assert isinstance(error, RedirectError)
    assert "still redirects after 5 redirects" in str(error)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "url",
    ["http://shop.example/v2", "http://10.0.0.1/v2", "http://127.0.0.1.evil.example/v2"],
)
def test_a_token_over_plain_http_is_refused_unless_allowed_by_name(url: str) -> None:
    """A token over plain HTTP is refused unless the host is loopback or listed in allow_http."""
    with pytest.raises(SettingsError, match="unencrypted"):
        Session(url, credentials=SECRET)
    host = url.split("/")[2]
    assert Session(url, credentials=SECRET, allow_http=[host]).base_url == url
    assert Session(url).base_url == url


def test_the_key_of_one_request_over_plain_http_is_refused_too() -> None:
    """A key that delete_pet gets is not sent over plain HTTP unless the host is allowed."""
    with pytest.raises(SettingsError, match="unencrypted"):
        do(lambda api: api.delete_pet(7, api_key=KEY), "http://shop.invalid/v2", credentials=NONE)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example/v2",
        "ftp://shop.example",
        "https://user:pw@shop.example/v2",
        "https://shop.example/v2?a=b",
        "https://[::1/v2",
        "https://shop.example:port/v2",
        "http://user:a/pw@shop.example",
        "http://user:a?pw@shop.example",
        "http://user:a#pw@shop.example/v2",
        "user:pw@shop.example/v2",
        "ftp://shop.example/user:pw@x",
    ],
)
def test_an_address_that_is_no_base_url_is_refused(url: str) -> None:
    """An invalid base URL is refused at once, and the error shows no password."""
    with pytest.raises(SettingsError) as caught:
        Session(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("act", [get, add])
def test_429_is_tried_again_for_everything(act: Act) -> None:
    """Every request is retried after a 429, because the service did not carry it out."""
    with ScriptedServer(answer(429, retry_after="0"), PET) as server:
        assert do(act, server.url).id == 7
    assert len(server.requests) == 2


@pytest.mark.parametrize("trouble", [answer(500), answer(503), None, PET[:-5]])
def test_a_lost_answer_is_asked_for_again_only_where_that_is_safe(trouble: bytes | None) -> None:
    """After a 5xx, a closed connection or half a body, a GET is retried and an add is not."""
    with ScriptedServer(trouble, PET) as server:
        assert do(get, server.url).id == 7
        assert len(server.requests) == 2
    with ScriptedServer(trouble, PET) as server:
        error = failure(add, server.url)
        assert len(server.requests) == 1
    assert error.may_have_happened
    assert error.operation == "addPet"


@pytest.mark.parametrize(
    ("act", "times"),
    [
        (lambda api: api.update_pet(Pet(id=7, name="x")), 2),
        (lambda api: api.update_pet_with_form(7, name="x"), 2),
        (lambda api: api.delete_pet(7), 2),
        (lambda api: api.find_pets_by_status("sold"), 2),
        (lambda api: api.find_pets_by_tags("a"), 2),
        (lambda api: api.upload_file(7, b"x"), 1),
        (add, 1),
    ],
)
def test_which_operations_are_repeated(act: Act, times: int) -> None:
    """Every operation is retried except addPet and uploadFile, which are not idempotent."""
    with ScriptedServer(answer(503)) as server:
        error = failure(act, server.url, retry=RetryPolicy(attempts=2, first=0.001))
    assert isinstance(error, ServiceError)
    assert len(server.requests) == times


def test_a_delete_whose_first_answer_was_lost_may_find_the_pet_gone() -> None:
    """A 404 to a retried delete is success; a 404 to the first attempt is an error."""
    with ScriptedServer(None, answer(404)) as server:
        assert do(lambda api: api.delete_pet(7), server.url) is None
    with ScriptedServer(answer(404)) as server:
        assert isinstance(failure(lambda api: api.delete_pet(7), server.url), NotFoundError)


def test_retry_after_is_waited_for() -> None:
    """The service's Retry-After header overrides petsync's own back-off."""
    with ScriptedServer(answer(503, retry_after="1"), PET) as server:
        begun = time.monotonic()
        do(get, server.url)
    assert time.monotonic() - begun >= 1.0


def test_retries_end_after_so_many_attempts_and_before_too_long_a_wait() -> None:
    """Retries end at the limit of attempts and at too long a wait, and the caller gets the last
    error.
    """
    with ScriptedServer(answer(429)) as server:
        error = failure(get, server.url, retry=replace(QUICK, attempts=3))
        assert len(server.requests) == 3
    assert isinstance(error, RateLimitedError)
    with ScriptedServer(answer(429, retry_after="3600")) as server:
        begun = time.monotonic()
        error = failure(get, server.url)
        assert error.status == 429
        assert error.hint == "The service asks you to wait 3600 seconds."
        assert len(server.requests) == 1
    assert time.monotonic() - begun < 60


def test_no_service_is_a_transport_error_that_says_nothing_was_sent() -> None:
    """A closed port is a TransportError which reports that nothing was sent, even for an add."""
    with ScriptedServer(PET) as server:
        url = server.url
    error = failure(add, url)
    assert isinstance(error, TransportError)
    assert isinstance(error, ConnectionError)
    assert not error.may_have_happened
    assert url in str(error)


def test_silence_is_a_timeout() -> None:
    """A service that never answers is a TransportError after the timeout."""

    is_over = threading.Event()

    def silent() -> bytes | None:
        is_over.wait(120)
        return None

    with ScriptedServer(silent) as server:
        policy = RetryPolicy(attempts=1)
        error = failure(add, server.url, timeout=1.0, retry=policy)
        is_over.set()
    assert isinstance(error, TransportError)
    assert error.may_have_happened


def test_nonsense_instead_of_http_is_a_transport_error() -> None:
    """An answer that is not HTTP is a TransportError; no library's exception escapes."""
    with ScriptedServer(b"SSH-2.0-OpenSSH_9\r\n\r\n") as server:
        assert isinstance(failure(add, server.url), TransportError)


def test_an_answer_that_is_no_pet_is_a_response_error() -> None:
    """An answer that is not a pet is a ResponseError with operation and status; the add may have
    happened.
    """
    body = answer(200, b'{"id":[]}', content_type="application/json")
    with ScriptedServer(body) as server:
        error = failure(add, server.url)
    assert isinstance(error, ResponseError)
    assert str(error).startswith("addPet: the pet")
    assert (error.status, error.may_have_happened) == (200, True)


def test_a_compressed_answer_is_read() -> None:
    """A gzip answer is read; a broken one is a TransportError."""
    body = gzip.compress(b'{"id":7}')
    zipped = answer(200, body, content_encoding="gzip", content_type="application/json")
    broken = answer(200, b"\x00nonsense", content_encoding="gzip")
    with ScriptedServer(zipped) as server:
        assert do(get, server.url).id == 7
    with ScriptedServer(broken) as server:
        assert isinstance(failure(add, server.url), TransportError)


def test_secrets_stay_out_of_everything_that_shows(caplog: pytest.LogCaptureFixture) -> None:
    """No repr, message, traceback or log shows a secret, even where the service echoes it."""
    echo = answer(401, f"bad token {TOKEN} or key {KEY}".encode(), content_type="text/plain")
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(echo) as server:
        error = failure(get, server.url)
    assert isinstance(error, AuthError)
    assert "bad token *** or key ***" in str(error)
    shown = [
        repr(SECRET),
        str(SECRET),
        f"{Secret(TOKEN)!s} {Secret(TOKEN)!r}",
        "".join(traceback.format_exception(error)),
        caplog.text,
        repr(vars(error)),
    ]
    assert not any(TOKEN in text or KEY in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(Secret(TOKEN))


@pytest.mark.parametrize("token", ["", "  ", "a\r\nX: y", "tökén", "a b"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(token: str) -> None:
    """A token that no header can carry is refused, and the error does not show it."""
    with pytest.raises(SettingsError) as caught:
        auth.bearer(token)
    assert not token.strip() or token.strip() not in str(caught.value)


def test_the_live_profile_asks_for_each_value_alone() -> None:
    """The live profile sends one request for each status; the standard profile sends one."""
    pets = answer(200, b'[{"id":1},{"id":2},{}]', content_type="application/json")
    with ScriptedServer(pets) as server:
        find: Act = lambda api: api.find_pets_by_status(["a", "b"])  # noqa: E731
        found = do(find, server.url, profile=LIVE)
        assert [pet.id for pet in found] == [1, 2, None, None]
        assert len(server.requests) == 2
        assert [pet.id for pet in do(find, server.url, profile=STANDARD)] == [1, 2, None]


@pytest.mark.parametrize("path", ["no/such.png", "no/such.png\0"])
def test_a_missing_image_is_named_before_anything_is_sent(path: str) -> None:
    """uploadFile with a missing path raises an error that names the path, and sends nothing."""
    with ScriptedServer(OK) as server:
        error = failure(lambda api: api.upload_file(7, path), server.url)
    assert isinstance(error, InvalidInputError)
    assert "no/such.png" in str(error)
    assert server.requests == []


def test_a_rate_spreads_requests() -> None:
    """At a rate of 50 a second, six requests take at least a tenth of a second."""
    with ScriptedServer(PET) as server:

        async def paced(api: AsyncApi) -> None:
            api.session.pace.rate = 50
            await asyncio.gather(*(api.get_pet_by_id(7) for _ in range(6)))

        begun = time.monotonic()
        do(paced, server.url)
    assert time.monotonic() - begun >= 0.1


@pytest.mark.parametrize(
    "where", [f"http://{TOKEN}.evil.example/", f"http://{KEY.upper()}.example"]
)
def test_a_redirect_that_holds_a_secret_does_not_show_it(where: str) -> None:
    """The error of a redirect masks a secret that the target contains."""
    with ScriptedServer(answer(307, location=where)) as server:
        error = failure(get, server.url)
    assert isinstance(error, RedirectError)
    assert "points to http://***." in str(error)
    shown = (repr(error) + "".join(traceback.format_exception(error))).lower()
    assert TOKEN not in shown
    assert KEY not in shown


@pytest.mark.parametrize("where", ["http://[::1", "http://127.0.0.1:port/", "http://a:99999999/"])
def test_a_redirect_to_no_address_is_reported(where: str) -> None:
    """A redirect to an invalid address is a RedirectError, not a bare ValueError."""
    with ScriptedServer(answer(307, location=where)) as server:
        error = failure(get, server.url)
    assert isinstance(error, RedirectError)
    assert "points to an address that cannot be read" in str(error)


def test_a_redirect_without_an_address_is_reported() -> None:
    """A redirect without a Location header is a RedirectError which reports that."""
    with ScriptedServer(answer(302)) as server:
        error = failure(get, server.url)
    assert isinstance(error, RedirectError)
    assert "answers 302 without a Location header" in str(error)


def test_an_unreadable_answer_does_not_show_the_token_either() -> None:
    """The error of an unreadable answer quotes the answer with the token masked."""
    body = answer(200, f"<Pet><id>{TOKEN}</id></Pet>".encode(), content_type="text/xml")
    with ScriptedServer(body) as server:
        error = failure(get, server.url)
    assert "id is '***'" in str(error)
    assert TOKEN not in repr(error) + repr(vars(error))


@pytest.mark.parametrize("status", [400, 401, 404, 409, 418, 429, 501])
def test_an_error_after_a_lost_answer_says_that_it_may_have_happened(status: int) -> None:
    """After a lost answer, the error of a later attempt still reports that the change may have
    happened.
    """
    act: Act = lambda api: api.update_pet(Pet(id=7, name="x"))  # noqa: E731
    policy = replace(QUICK, attempts=2)
    for script, doubtful in ([None, answer(status)], True), ([answer(429), answer(status)], False):
        with ScriptedServer(*script) as server:
            error = failure(act, server.url, retry=policy)
        assert error.status == status
        assert error.may_have_happened is (doubtful or status >= 500)


@pytest.mark.parametrize(("first", "doubtful"), [(None, True), (answer(429), False)])
def test_an_error_before_a_retry_says_that_the_change_may_have_happened(
    first: bytes | None, doubtful: bool
) -> None:
    """After a lost answer, the error of another request that `before_retry` sends reports that the
    change may have happened.
    """
    call = operations.delete_pet(7)

    def act(api: AsyncApi) -> Coroutine[Any, Any, None]:
        async def look(_: ApiError) -> None:
            await api.get_pet_by_id(7)

        return api.session.send(call, before_retry=look)

    with ScriptedServer(first, answer(403)) as server:
        error = failure(act, server.url)
    assert isinstance(error, AuthError)
    assert error.operation == "getPetById"
    assert error.may_have_happened is doubtful


def test_a_delete_that_was_lost_in_any_attempt_may_find_the_pet_gone() -> None:
    """A 404 to a delete is success after a lost answer in any attempt, not after a 429 alone."""
    act: Act = lambda api: api.delete_pet(7)  # noqa: E731
    with ScriptedServer(answer(429), None, answer(404)) as server:
        assert do(act, server.url) is None
    with ScriptedServer(answer(429), answer(404)) as server:
        assert isinstance(failure(act, server.url), NotFoundError)


def test_an_update_answered_with_another_pet_may_have_happened() -> None:
    """An update that is answered with another pet raises a ResponseError, and its effect is
    uncertain.
    """
    with ScriptedServer(PET) as server:
        error = failure(lambda api: api.update_pet(Pet(id=3, name="x")), server.url)
    assert isinstance(error, ResponseError)
    assert "updatePet: sent pet 3, got pet 7" in str(error)
    assert error.may_have_happened


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), None, "30", True], ids=repr)
def test_a_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    """An invalid timeout is refused at once, and the error names the setting."""
    with pytest.raises(SettingsError, match="the timeout is"):
        Session("http://127.0.0.1", timeout=timeout)


@pytest.mark.parametrize("token", [None, 7, b"token"])
def test_a_token_that_is_no_text_is_refused(token: Any) -> None:
    """A token or API key that is not text is refused, such as the None of an unset variable."""
    kind = type(token).__name__
    with pytest.raises(SettingsError, match=f"the token is {kind}, not text"):
        auth.bearer(token)
    with pytest.raises(SettingsError, match=f"the API key is {kind}, not text"):
        auth.api_key(token)


def test_a_bare_token_in_place_of_credentials_is_refused_without_being_shown() -> None:
    """A bare token in place of credentials is refused; the error names auth.bearer and hides the
    token.
    """
    token: Any = TOKEN
    with pytest.raises(SettingsError, match=r"(?s)the credentials are str.*bearer") as caught:
        Session("https://shop.example/v2", credentials=token)
    assert TOKEN not in str(caught.value)
    with pytest.raises(SettingsError, match="the credentials are str"):
        connect("https://shop.example/v2", auth=token, environ={})


@pytest.mark.parametrize("profile", [STANDARD, LIVE])
@pytest.mark.parametrize("values", [None, 7, [None], [["sold"]], b"sold"], ids=repr)
def test_a_search_for_what_is_no_text_is_refused(values: Any, profile: ServiceProfile) -> None:
    """A search for a value that is not text raises an error that names the operation, and sends
    nothing.
    """
    with ScriptedServer(OK) as server:
        act: Act = lambda api: api.find_pets_by_status(values)  # noqa: E731
        error = failure(act, server.url, profile=profile)
    assert isinstance(error, InvalidInputError)
    assert "findPetsByStatus takes strings, not" in str(error)
    assert server.requests == []


def test_a_secret_in_an_address_is_not_repeated() -> None:
    """The error of an invalid base URL leaves out the query string."""
    with pytest.raises(SettingsError) as caught:
        Session("https://shop.example/v2?token=S3cret")
    assert "S3cret" not in caught.value.message
