"""Ports of services, and sockets of Jupyter kernels, that nothing else takes meanwhile."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

__all__ = ["free_port", "use_unix_sockets"]


def free_port() -> int:
    """Return a free port below those that the system assigns to sockets without a given port, so
    that no other test gets it before a service uses it, or while the service restarts.
    """
    while True:
        port = secrets.randbelow(20000) + 12000
        with socket.socket() as end, suppress(OSError):
            end.bind(("127.0.0.1", port))
            return port


def use_unix_sockets(folder: Path) -> None:
    """Let the Jupyter kernels that this process starts listen on Unix sockets in the folder.

    Jupyter chooses free TCP ports seconds before the kernel opens them. If another test gets one of
    them meanwhile, the kernel dies.
    """
    begin = KernelManager.__init__

    def begin_with_socket(self: KernelManager, *args: Any, **options: Any) -> None:
        own = {"transport": "ipc", "ip": str(folder / f"kernel-{secrets.token_hex(4)}")}
        begin(self, *args, **{**own, **options})

    pytest.MonkeyPatch().setattr(KernelManager, "__init__", begin_with_socket)
