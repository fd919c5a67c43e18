"""What the tests of signing in share: stores at a sandbox, and sign-ins that are about to end."""

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
    """A store that knows nothing but the address."""
    with ps.connect(box.url, **{"state": state, "environ": {}, **given}) as store:  # type: ignore[arg-type]
        yield store


def confirmed_file(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with a petsync.toml that a person has confirmed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.chdir(folder)
    file = folder / "petsync.toml"
    file.write_text(text, "utf-8")
    confirm(file, tomllib.loads(text))


def credentials(store: ps.Store) -> Credentials:
    """What the store's next request carries."""
    return store.api.aio.session.credentials


def age(store: ps.Store, left: float = 1.0) -> None:
    """Let the store believe that its token has no more than so many seconds left."""
    mine, now = credentials(store), time.time()
    grant = replace(mine.grant, issued=now - 3600, expires=now + left)
    store.api.aio.session.use(replace(mine, grant=grant))


def spoil(store: ps.Store) -> None:
    """Let the store hold a token that the service does not know, with all else as it is."""
    mine = credentials(store)
    store.api.aio.session.use(replace(mine, token=Secret("spoilt-0123456789")))


def forget_renewals(box: Sandbox) -> None:
    """Begin to count at zero."""
    storage = box._active.service.storage
    box._call(lambda: storage.write(lambda c: c.execute("DELETE FROM token WHERE spent = 1")))


def renewals(box: Sandbox) -> int:
    """How often a refresh token was changed for a new one."""
    with closing(box._active.service.storage.connect()) as connection:
        return int(connection.execute(SPENT).fetchone()[0])
