"""The metrics endpoint: which hosts it accepts, and how many requests at a time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from petsync.reconcile import observe
from petsync.reconcile.observe import Endpoint


class Slow:
    """Metrics that wait until the test lets them respond."""

    def __init__(self) -> None:
        self.may, self.asked = threading.Event(), threading.Semaphore(0)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.asked.release()
        assert self.may.wait(60)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"up 1\n"]


@pytest.fixture
def metrics() -> Slow:
    """Return metrics that respond immediately unless a test changes that."""
    slow = Slow()
    slow.may.set()
    return slow


@pytest.fixture
def served(metrics: Slow) -> Iterator[Endpoint]:
    """Yield an endpoint on a free port of this machine."""
    one = Endpoint("127.0.0.1:0", metrics, lambda: {"ok": True})
    one.start()
    yield one
    metrics.may.set()
    one.close()


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost", "LOCALHOST:{}", "[::1]:{}"])
def test_this_machine_is_answered(served: Endpoint, host: str) -> None:
    """A request with any name of this machine as its Host is answered."""
    named = {"Host": host.format(served.address.rpartition(":")[2])}
    assert httpx.get(f"http://{served.address}/metrics", headers=named).text == "up 1\n"
    assert httpx.get(f"http://{served.address}/healthz", headers=named).json() == {"ok": True}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "[", ""])
def test_another_name_is_not_answered(served: Endpoint, host: str) -> None:
    """A request with a Host of another machine is refused, as protection against DNS rebinding."""
    for path in ("metrics", "healthz"):
        answer = httpx.get(f"http://{served.address}/{path}", headers={"Host": host})
        assert (answer.status_code, "up" in answer.text) == (421, False)


def test_so_many_are_answered_at_a_time(served: Endpoint, metrics: Slow) -> None:
    """A request over the limit is refused immediately; later requests are answered again."""
    metrics.may.clear()
    host, _, port = served.address.partition(":")
    with ExitStack() as lines:
        asking = []
        for _ in range(observe._MAX_REQUESTS):
            line = lines.enter_context(socket.create_connection((host, int(port)), timeout=60))
            line.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert metrics.asked.acquire(timeout=60)
            asking.append(line)
        # A refusal, not a timeout: an accepted request would wait.
        with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
            httpx.get(f"http://{served.address}/metrics", timeout=30)
        metrics.may.set()
        for line in asking:
            assert line.recv(8) == b"HTTP/1.0"
            while line.recv(1000):
                pass
    for _ in range(100):  # A thread frees its place just after its last byte.
        try:
            assert httpx.get(f"http://{served.address}/metrics").text == "up 1\n"
            break
        except httpx.TransportError:
            threading.Event().wait(0.05)
    else:
        pytest.fail("there is no room again")
