"""Running sandboxes, and clients for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from petsync.sandbox import Sandbox

Opener = Callable[..., httpx.Client]


def client_of(sandbox: Sandbox, **headers: str) -> httpx.Client:
    """Return a client that sends a token with both scopes, unless `authorization` is given."""
    given = {"authorization": f"Bearer {sandbox.token()}", "accept": "application/json", **headers}
    return httpx.Client(base_url=sandbox.url, headers=given)


@pytest.fixture(scope="module")
def standard() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def live() -> Iterator[Sandbox]:
    with Sandbox(profile="live") as sandbox:
        yield sandbox


@pytest.fixture
def api(standard: Sandbox) -> Iterator[httpx.Client]:
    """Yield a client of the standard profile without pets."""
    standard.reset()
    with client_of(standard) as client:
        yield client


@pytest.fixture
def live_api(live: Sandbox) -> Iterator[httpx.Client]:
    """Yield a client of the live profile without pets."""
    live.reset()
    with client_of(live) as client:
        yield client
