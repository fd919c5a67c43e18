"""Helpers for the tests of sign-in: stores at a sandbox, and sign-ins that are about to expire."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import petsync as ps
from petsync.client.auth.credentials import Credentials
from petsync.sandbox import Sandbox
from petsync.settings import Secret
from petsync.trust import confirm

SPENT = "SELECT count(*) FROM token WHERE kind = 'refresh' AND spent = 1"


@contextmanager
def store_at(box: Sandbox, state: Path, **given: object) -> Iterator[ps.Store]:
    """Yield a store that is configured with the address alone."""
    with ps.connect(box.url, **{"state": state, "environ": {}, **given}) as store:  # type: ignore[arg-type]
        yield store


def confirmed_file(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a petsync.toml, confirm it as a person does, and change to its folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.chdir(folder)
    file = folder / "petsync.toml"
    file.write_text(text, "utf-8")
    confirm(file, tomllib.loads(text))


def credentials(store: ps.Store) -> Credentials:
    """Return the credentials of the store's next request."""
    return store.api.aio.session.credentials


def age(store: ps.Store, left: float = 1.0) -> None:
    """Change the store's token so that only this number of seconds is left."""
    mine, now = credentials(store), time.time()
    grant = replace(mine.grant, issued=now - 3600, expires=now + left)
    store.api.aio.session.use(replace(mine, grant=grant))


def spoil(store: ps.Store) -> None:
    """Replace the store's token with an unknown one, and keep all other credentials."""
    mine = credentials(store)
    store.api.aio.session.use(replace(mine, token=Secret("spoilt-0123456789")))


def forget_renewals(box: Sandbox) -> None:
    """Reset the count of renewals to zero."""
    storage = box._active.service.storage
    box._call(lambda: storage.write(lambda c: c.execute("DELETE FROM token WHERE spent = 1")))


def renewals(box: Sandbox) -> int:
    """Return how often a refresh token was exchanged for a new one."""
    with closing(box._active.service.storage.connect()) as connection:
        return int(connection.execute(SPENT).fetchone()[0])
