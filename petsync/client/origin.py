"""Where requests may go: the base URL, checked, and which redirects stay on its origin."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import SplitResult, urljoin, urlsplit

from petsync.errors import RedirectError, SettingsError
from petsync.wire.message import Request, Response

__all__ = ["checked_base", "is_loopback", "redirect_target"]

_PORTS = {"http": 80, "https": 443}


def checked_base(url: str, *, with_secret: bool, allow_http: Collection[str] = ()) -> str:
    """The base URL without a trailing slash.

    Raises SettingsError where it is no http(s) address, carries a password, or would send a
    secret over plain http to a host that is neither loopback nor in `allow_http`.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError(f"the address {url!r} cannot be read") from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"the address of {host} carries a user or password",
            hint="Leave it out, and give a token: PETSYNC_TOKEN or auth=petsync.auth.bearer(…).",
        )
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment:
        raise SettingsError(
            f"the address {url!r} is no base URL of a service",
            hint="It looks like https://shop.example/v2.",
        )
    if with_secret and parts.scheme == "http" and host not in allow_http and not is_loopback(host):
        raise SettingsError(
            f"a token for {host} would travel unencrypted over http",
            hint=f"Use https, or allow this host by name: --allow-http {host}.",
        )
    return parts.geturl().rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def redirect_target(request: Request, response: Response, url: str) -> str:
    """The address that a 3xx points to, if the same request may go there.

    Raises RedirectError for another origin, where credentials must not go, and for a redirect
    that would change the request.
    """
    target = urljoin(url, response.headers.get("location", ""))
    same = _origin(urlsplit(url)) == _origin(urlsplit(target))
    kept = response.status in (307, 308) or request.method == "GET"
    if same and kept and "location" in response.headers:
        return target
    where = f"{urlsplit(target).scheme}://{urlsplit(target).netloc.rpartition('@')[2]}"
    raise RedirectError(
        f"{request.operation}: the service answers {response.status} and points to {where}",
        operation=request.operation,
        pet_id=request.pet_id,
        status=response.status,
        hint="If that is the service's address, give it as the URL.",
    )


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
