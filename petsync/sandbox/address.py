"""Where the sandbox listens, and which names it goes by."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from petsync.errors import SettingsError

__all__ = ["bound", "is_loopback", "origin", "trusted", "warnings"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def bound(host: str, port: int) -> socket.socket:
    """A socket that holds the port. Raises SettingsError where it cannot be had."""
    if not 0 <= port <= 65535:
        raise SettingsError(f"{port} is no port", hint="A port is from 0 (a free one) to 65535.")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"there is no address for the host {host!r}: {error}") from None
    held = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(place)
    except OSError as error:
        held.close()
        raise _refused(host, port, error) from None
    return held


def origin(host: str, held: socket.socket) -> str:
    """Scheme, host and port to reach the socket by, from this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{held.getsockname()[1]}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trusted(host: str) -> tuple[str, ...]:
    """The names that a request may use for this server."""
    return (*_LOOPBACK, host) if is_loopback(host) else ("*",)


def warnings(host: str, *, auth: bool) -> tuple[str, ...]:
    """What a person should know before the server answers on `host`."""
    if is_loopback(host):
        return ()
    open_to_all = () if auth else ("no token is asked for: who reaches the port can change pets",)
    return (f"{host} can be reached from other machines, and nothing is encrypted", *open_to_all)


def _refused(host: str, port: int, error: OSError) -> SettingsError:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            f"port {port} on {host} is in use", hint="Choose another, or 0 for a free one."
        )
    return SettingsError(
        f"port {port} on {host} cannot be used: {error.strerror}",
        hint="Choose a port above 1023 and an address of this machine.",
    )
