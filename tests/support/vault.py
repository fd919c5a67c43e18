"""A keyring in a file, chosen by PYTHON_KEYRING_BACKEND=vault.Vault; PETSYNC_TEST_VAULT names the
file. Processes can share it, and tests can read it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

Entries = dict[str, dict[str, str]]


class Vault(KeyringBackend):
    """A keyring that maps service to name to password, in plain text."""

    priority = 1.0  # type: ignore[assignment]

    def get_password(self, service: str, username: str) -> str | None:
        """Return the password; None if there is none."""
        return entries().get(service, {}).get(username)

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep the password."""
        kept = entries()
        kept.setdefault(service, {})[username] = password
        _file().write_text(json.dumps(kept), "utf-8")

    def delete_password(self, service: str, username: str) -> None:
        """Delete the password."""
        kept = entries()
        if kept.get(service, {}).pop(username, None) is None:
            raise PasswordDeleteError("there is none")
        _file().write_text(json.dumps({name: each for name, each in kept.items() if each}), "utf-8")


def entries() -> Entries:
    """Return every entry."""
    kept: Entries = json.loads(_file().read_text("utf-8")) if _file().exists() else {}
    return kept


def use(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make this process and its children keep passwords in a file of this folder."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "vault.Vault")
    monkeypatch.setenv("PETSYNC_TEST_VAULT", str(folder / "vault.json"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    # This makes keyring choose its backend again.
    monkeypatch.setattr("keyring.core._keyring_backend", None)


def _file() -> Path:
    return Path(os.environ["PETSYNC_TEST_VAULT"])
