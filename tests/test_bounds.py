"""Limits of answers: no answer takes more memory or time than its kind may need."""

from __future__ import annotations

import asyncio
import gzip
import socketserver
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from scripted import ScriptedServer, answer
from test_transport import do, get

from petsync.client.api import AsyncApi
from petsync.client.retry import RetryPolicy
from petsync.client.target import photo
from petsync.config.settings import read_settings
from petsync.errors import (
    ApiError,
    InvalidInputError,
    NotFoundError,
    RedirectError,
    ResponseError,
    ServiceError,
    SettingsError,
    TransportError,
)
from petsync.models import Pet
from petsync.profile import STANDARD
from petsync.protocol.operations import upload_file

pytestmark = pytest.mark.slow

ROW = b'{"id":7,"name":"Rex","photoUrls":[]}'
SMALL = replace(STANDARD, max_answer_mb=1)


def packed(content: bytes, encoding: str = "gzip", status: int = 200) -> bytes:
    """Return a compressed answer."""
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": lambda: gzip.compress(content),
        "deflate": lambda: zlib.compress(content),
        "raw": lambda: raw.compress(content) + raw.flush(),
    }[encoding]()
    named = "deflate" if encoding == "raw" else encoding
    return answer(status, body, content_type="application/json", content_encoding=named)


def bomb(size: int, status: int = 200) -> bytes:
    """Return an answer of spaces that is compressed about a thousandfold."""
    return packed(b" " * size, status=status)


@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
def test_what_is_compressed_is_read(
    encoding: str, transport: type[httpx.AsyncHTTPTransport] | None
) -> None:
    """An answer is read in each compression that petsync accepts."""
    with ScriptedServer(packed(ROW, encoding)) as server:
        assert do(get, server.url, transport=transport).name == "Rex"


def test_several_gzip_members_are_one_answer() -> None:
    """Several gzip members are one answer (RFC 1952); some servers compress in pieces."""
    body = gzip.compress(ROW[:10]) + gzip.compress(ROW[10:])
    reply = answer(200, body, content_type="application/json", content_encoding="gzip")
    with ScriptedServer(reply) as server:
        assert do(get, server.url).name == "Rex"


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_half_of_what_is_compressed_is_no_answer(cut: int) -> None:
    """A truncated compressed body is an error, even if its HTTP length is complete."""
    body = gzip.compress(ROW)[:-cut]
    reply = answer(200, body, content_type="application/json", content_encoding="gzip")
    with ScriptedServer(reply) as server, pytest.raises(TransportError, match="ends before"):
        do(get, server.url)


@pytest.mark.parametrize(("encoding", "why"), [("br", "'br'"), ("gzip", "cannot be decompressed")])
def test_what_cannot_be_decompressed_is_no_answer(encoding: str, why: str) -> None:
    """An unknown encoding, or a body that cannot be decompressed, is an error."""
    reply = answer(200, ROW, content_type="application/json", content_encoding=encoding)
    with ScriptedServer(reply) as server, pytest.raises(TransportError, match=why):
        do(get, server.url)


@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport])
def test_a_bomb_is_not_unpacked(transport: type[httpx.AsyncHTTPTransport] | None) -> None:
    """An answer that decompresses to 300 MB is refused without that memory, and is not requested
    again.
    """
    with ScriptedServer(bomb(300_000_000)) as server:
        tracemalloc.start()
        with pytest.raises(ResponseError, match=r"127\.0\.0\.1.* exceeds the limit of 16 MB"):
            do(get, server.url, transport=transport)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 60_000_000
    assert len(server.requests) == 1, "what is too long is not asked for again"


def test_a_list_has_a_bound_of_its_own() -> None:
    """The limit of a list is larger than that of a pet, and petsync.toml sets it."""
    row = b'{"id":%d,"name":"Rex","photoUrls":[]}'
    rows = b",".join(row % n for n in range(500_000))
    assert len(rows) > 18_000_000
    profile = replace(STANDARD, max_answer_mb=18)
    find = lambda api: api.find_pets_by_status(["sold"])  # noqa: E731
    with ScriptedServer(packed(b"[" + rows + b"]")) as server:
        assert len(do(find, server.url)) == 500_000
        with pytest.raises(ResponseError, match="exceeds the limit of 18 MB") as failed:
            do(find, server.url, profile=profile)
    assert "max_answer_mb" in failed.value.hint


@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport])
def test_a_length_above_the_bound_is_not_waited_for(
    transport: type[httpx.AsyncHTTPTransport] | None,
) -> None:
    """An answer whose header states too many bytes is refused before they arrive."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16000001\r\n\r\n{"
    with (
        ScriptedServer(head) as server,
        pytest.raises(ResponseError, match="exceeds the limit of 16 MB"),
    ):
        do(get, server.url, transport=transport)


def test_a_photo_has_a_bound() -> None:
    """A photo of more than 64 MB is refused."""
    with (
        ScriptedServer(bomb(65_000_000)) as server,
        pytest.raises(ResponseError, match=r"a photo: .* exceeds the limit of 64 MB"),
    ):
        do(lambda api: photo(api.session, f"{server.url}/7.jpg"), server.url)


def test_of_a_refusal_the_beginning_is_read() -> None:
    """The status of a refusal counts, however long its body is."""
    with ScriptedServer(bomb(100_000_000, status=404)) as server, pytest.raises(NotFoundError):
        do(get, server.url)


class Endless:
    """A service that sends an answer's head, and then bytes until the client stops reading."""

    def __init__(self, piece: bytes, pause: float, status: int = 200) -> None:
        self._piece, self._pause, self._status = piece, pause, status
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        head = f"HTTP/1.1 {self._status} x\r\ncontent-type: application/json\r\n"
        yield head.encode() + b"transfer-encoding: chunked\r\n\r\n"
        chunk = b"%x\r\n%b\r\n" % (len(self._piece), self._piece)
        # More than any limit, but finite if no limit works.
        for _ in range(1_500):
            self.sent += len(self._piece)
            yield chunk
            threading.Event().wait(self._pause)


@pytest.mark.parametrize(
    ("status", "error", "why"), [(200, ResponseError, "16 MB"), (500, ServiceError, "500")]
)
def test_an_endless_answer_ends(status: int, error: type[ApiError], why: str) -> None:
    """No more than the limit is read of an endless answer."""
    endless = Endless(b" " * 65_536, 0.0, status)
    with ScriptedServer(endless) as server, pytest.raises(error, match=why):
        do(get, server.url)
    assert endless.sent < 64_000_000


@pytest.mark.parametrize("transport", [None, httpx.AsyncHTTPTransport])
def test_an_answer_that_drips_ends(transport: type[httpx.AsyncHTTPTransport] | None) -> None:
    """An answer that never completes ends at `answer_seconds`, although each byte arrives within
    `timeout`.
    """
    profile = replace(STANDARD, answer_seconds=1)
    with (
        ScriptedServer(Endless(b" ", 0.05)) as server,
        pytest.raises(TransportError, match="not complete after 1 second") as failed,
    ):
        do(get, server.url, profile=profile, transport=transport, timeout=30.0)
    assert failed.value.may_have_happened


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_service_that_falls_silent_is_not_waited_for(pieces: int) -> None:
    """A response ends after `timeout` seconds without another byte, before or in its body."""
    is_over = threading.Event()

    def stalled() -> Iterator[bytes]:
        if pieces:
            yield b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
        for _ in range(1, pieces):
            is_over.wait(0.1)
            yield b" "
        is_over.wait(60)

    with ScriptedServer(stalled()) as server:
        begun = time.monotonic()
        with pytest.raises(TransportError, match="Timeout on reading") as failed:
            do(get, server.url, timeout=0.4, retry=RetryPolicy(attempts=1))
        is_over.set()
    assert failed.value.may_have_happened
    assert time.monotonic() - begun < 30


def test_an_answer_that_progresses_may_take_longer_than_timeout() -> None:
    """`timeout` limits each wait for more of a response, not all waits together."""

    def slow() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\n"
        yield b"content-length: %d\r\n\r\n" % len(ROW)
        for n in range(6):
            threading.Event().wait(0.3)
            yield ROW[6 * n : 6 * n + 6]

    with ScriptedServer(slow()) as server:
        begun = time.monotonic()
        assert do(get, server.url, timeout=1.0).name == "Rex"
    assert time.monotonic() - begun > 1.0


def test_an_answer_that_arrived_in_time_is_read_by_a_busy_program() -> None:
    """An answer counts although the event loop was blocked for longer than `timeout` meanwhile."""

    async def block(api: AsyncApi) -> Pet:
        asking = asyncio.create_task(api.get_pet_by_id(7))
        await asyncio.to_thread(arrived.wait)
        time.sleep(0.6)  # noqa: ASYNC251 - blocks the loop
        return await asking

    arrived = threading.Event()

    def late() -> bytes:
        arrived.set()
        threading.Event().wait(0.05)
        return answer(200, ROW, content_type="application/json")

    with ScriptedServer(late) as server:
        assert do(block, server.url, timeout=0.3, retry=RetryPolicy(attempts=1)).name == "Rex"


@pytest.mark.parametrize("at", ["head", "body"])
def test_a_cancelled_request_is_no_timeout(at: str) -> None:
    """A caller that cancels a request gets its own cancellation, not an error of the service."""
    is_over = threading.Event()

    def stalled() -> Iterator[bytes]:
        if at == "body":
            yield b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
        is_over.wait(60)

    async def cancel(api: AsyncApi) -> None:
        with pytest.raises(TimeoutError) as ended:
            async with asyncio.timeout(0.3):
                await api.get_pet_by_id(7)
        assert not isinstance(ended.value, ApiError)

    with ScriptedServer(stalled()) as server:
        do(cancel, server.url, timeout=20.0)
        is_over.set()


def test_a_connection_that_does_not_open_in_time_sends_nothing() -> None:
    """If a connection opens too slowly, the error says that nothing was sent."""
    with ScriptedServer(b"") as server:
        url = server.url.replace("http", "https")
        with pytest.raises(TransportError, match="cannot be reached") as failed:
            do(
                lambda api: api.add_pet(Pet(name="Rex")),
                url,
                timeout=0.4,
                retry=RetryPolicy(attempts=1),
            )
    assert not failed.value.may_have_happened


class SlowReader(ScriptedServer):
    """A service that reads the body of a request in ten parts, with a pause before each."""

    def _serve(self, handler: socketserver.StreamRequestHandler) -> bool:
        read = handler.rfile.read

        def read_slowly(size: int) -> bytes:
            parts = []
            for _ in range(10):
                threading.Event().wait(0.3)
                parts.append(read(size // 10))
            return b"".join((*parts, read(size % 10)))

        handler.rfile.read = read_slowly
        return super()._serve(handler)


def test_an_upload_may_take_longer_than_the_limits_of_an_answer() -> None:
    """`timeout` does not limit the sending of a file, and `answer_seconds` only from its last
    piece on.
    """
    call = upload_file(7, file=bytes(30_000_000))
    response = answer(200, b'{"code":200}', content_type="application/json")
    sent: list[int] = []
    profile, policy = replace(STANDARD, answer_seconds=2), RetryPolicy(attempts=1)
    with SlowReader(response) as server:
        reply = do(
            lambda api: api.session.send(call, on_sent=sent.append),
            server.url,
            profile=profile,
            timeout=1.5,
            retry=policy,
        )
    assert reply.code == 200
    assert sent[-1] == len(call.request.body)


@pytest.mark.parametrize("name", ["max_answer_mb", "answer_seconds"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "true", '"600"'])
def test_bounds_are_whole_numbers_above_zero(tmp_path: Path, name: str, value: str) -> None:
    """A limit that is not a whole number above zero is refused by name."""
    (tmp_path / "petsync.toml").write_text(f"[service]\n{name} = {value}\n", "utf-8")
    with pytest.raises(SettingsError, match=rf":2: service.{name}: .* whole number above 0"):
        read_settings({}, {}, tmp_path)


def test_a_redirect_with_a_user_in_it_is_refused() -> None:
    """A redirect to an address with a user is refused, also on the same origin: the user would
    replace the token.
    """
    with ScriptedServer(b"") as server:
        at = server.url.removeprefix("http://")
        server._script = [answer(307, location=f"http://me:pw@{at}/pet/7")]
        with pytest.raises(RedirectError, match="points to an address with a user in it"):
            do(get, server.url)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    "headers",
    [
        {"retry_after": "9" * 400},
        {"retry_after": "Mon, 99999999999999999999 Jan 2026 00:00:00 GMT"},
        {
            "retry_after": "Fri, 31 Dec 9999 23:59:59 -2359",
            "date": "Mon, 01 Jan 0001 00:00:00 +2359",
        },
        {
            "retry_after": "Fri, 31 Dec 9999 23:59:59 GMT",
            "date": "Mon, 1 Jan 1 0:0:0 +999999999999",
        },
        {"retry_after": "1", "date": "x" * 9_000},
    ],
)
def test_a_date_of_no_calendar_is_no_error_of_its_own(status: int, headers: dict[str, str]) -> None:
    """An impossible date in Retry-After or Date does not hide the service's refusal."""
    body = answer(status, b"{}", content_type="application/json", **headers)
    with ScriptedServer(body) as server, pytest.raises(ApiError):
        do(get, server.url)


def test_a_field_that_the_service_refuses_is_still_named() -> None:
    """The service's message about a refused field is in the error."""
    body = b'{"code":400,"message":"name is empty"}'
    with (
        ScriptedServer(packed(body, status=400)) as server,
        pytest.raises(InvalidInputError, match="name is empty"),
    ):
        do(get, server.url)
