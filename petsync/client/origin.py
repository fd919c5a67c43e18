"""Check the base URL, and allow only redirects within its origin."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx
from yarl import URL

from petsync.errors import RedirectError, SettingsError
from petsync.protocol.operations import Request, Response
from petsync.settings import mask_before_at

__all__ = [
    "build_redirect_loop_error",
    "checked_base",
    "encode_url",
    "is_loopback",
    "redirect_target",
]


_EXAMPLE = "It looks like https://shop.example/v2."
_PORTS = {"http": 80, "https": 443}


def checked_base(url: str, *, with_secret: bool, allow_http: Collection[str] = ()) -> str:
    """Return the base URL without a trailing slash.

    Raises SettingsError if it is not an http or https URL, if it contains a user, password, query
    or fragment, or if `with_secret` is true and it is a plain http URL whose host is neither
    loopback nor in `allow_http`.
    """
    given: object = url
    if not isinstance(given, str):
        raise SettingsError(f"the address is {given!r}, not text", hint=_EXAMPLE)
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError(
            f"the address {mask_before_at(url)!r} cannot be read",
            hint=f"{_EXAMPLE} A port is a number up to 65535.",
        ) from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"the address of {host} contains a user or a password",
            hint="Remove it and provide a token instead: PETSYNC_TOKEN, or --token-file (in Python "
            "auth=ps.auth.bearer(…)).",
        )
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment:
        has_scheme = "://" in url or parts.scheme in _PORTS
        # The query and the part before an @ may contain a secret.
        shown = re.split("[?#]", mask_before_at(url), maxsplit=1)[0] + ("?…" if parts.query else "")
        raise SettingsError(
            f"the address {shown!r} is not a base URL of a service",
            hint=_EXAMPLE if has_scheme else f"Write http:// or https:// before it. {_EXAMPLE}",
        )
    if with_secret and parts.scheme == "http" and host not in allow_http and not is_loopback(host):
        raise SettingsError(
            f"a secret for {host} would travel unencrypted over http",
            hint=f"Use https, or allow this host by name: --allow-http {host}, in Python "
            f"allow_http=['{host}'].",
        )
    return parts.geturl().rstrip("/")


def is_loopback(host: str) -> bool:
    """Return true if the host is a loopback address, or localhost or one of its subdomains."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def encode_url(url: str) -> str:
    """Return the URL in ASCII, as in a request; encoded parts are not encoded again. Raises
    httpx.InvalidURL.
    """
    return str(httpx.URL(url))


def redirect_target(
    request: Request, response: Response, url: URL, masked: Callable[[str], str]
) -> URL:
    """Return the encoded target of a redirect, if the request may be repeated there unchanged.

    Raises RedirectError for a target on another origin, which must not get credentials, for a
    redirect that would change the method, and for a missing or unusable target. `masked` masks the
    secrets in the target that the error shows.
    """
    if "location" not in response.headers:
        raise _redirect_error(
            request, response.status, f"answers {response.status} without a Location header"
        )
    try:
        target = encode_url(urljoin(str(url), response.headers["location"]))
        here, there = urlsplit(str(url)), urlsplit(target)
        same = _origin(here) == _origin(there)
    except (ValueError, httpx.InvalidURL):
        problem = f"answers {response.status} and points to an address that cannot be read"
        raise _redirect_error(request, response.status, problem) from None
    if "@" in there.netloc:
        problem = f"answers {response.status} and points to an address with a user in it"
        raise _redirect_error(request, response.status, problem)
    if same and (response.status in (307, 308) or request.method == "GET"):
        return URL(target, encoded=True)
    if same:
        problem = f"answers {response.status}, which petsync does not follow for {request.method}"
        raise _redirect_error(request, response.status, problem)
    where = masked(f"{there.scheme}://{there.netloc}")
    raise _redirect_error(
        request,
        response.status,
        f"answers {response.status} and points to {where}",
        hint="If the service has moved there, use its new base URL.",
    )


def build_redirect_loop_error(request: Request, status: int, times: int) -> RedirectError:
    """Return the error for a request that is still redirected after `times` redirects."""
    return _redirect_error(request, status, f"still redirects after {times} redirects")


def _redirect_error(
    request: Request, status: int, problem: str, *, hint: str = ""
) -> RedirectError:
    # 307 and 308 mean that the request was not processed. After any other status, the change may
    # have been made.
    asks_again = status in (307, 308)
    return RedirectError(
        f"{request.operation}: the service {problem}",
        operation=request.operation,
        pet_id=request.pet_id,
        status=status,
        may_have_happened=request.method != "GET" and not asks_again,
        hint=hint or "Check the base URL: it is the part before /pet.",
    )


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
