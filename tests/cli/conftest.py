"""Fixtures of the command tests: a shell in an empty folder, and stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Shell, shop

from petsync.sandbox import Sandbox


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the command line in an empty folder, without petsync settings in the environment."""
    for name in [*os.environ]:
        if name.startswith("PETSYNC_") or name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return Shell()


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def box(_open_box: Sandbox) -> Sandbox:
    """Return a store with six pets that requires no token."""
    _open_box.set_faults(None)
    _open_box.reset(shop())
    return _open_box


@pytest.fixture(scope="module")
def guarded() -> Iterator[Sandbox]:
    """Yield a store with six pets that requires a token."""
    with Sandbox(pets=shop()) as box:
        yield box
