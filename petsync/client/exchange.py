"""Exchange: one request to one service, through redirects, and its whole answer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib.metadata import version

import httpx

from petsync.client.credentials import Credentials
from petsync.client.origin import encoded, endless, redirect_target
from petsync.client.transport import ERRORS, Carrier, never_sent
from petsync.errors import SettingsError, TransportError
from petsync.wire.message import Request, Response

__all__ = ["Exchange", "OnSent"]

log = logging.getLogger(__name__)

OnSent = Callable[[int], None]
_REDIRECTS = 5
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_AGENT = f"petsync/{version('petsync')}"


class _Headers(dict[str, str]):
    """Headers, of which a verbose traceback shows the names alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


class Exchange:
    """Sends one request at a time to the service at `base_url`; it keeps nothing of any."""

    def __init__(self, base_url: str, api_key_header: str) -> None:
        self._base_url, self._key_header = base_url, api_key_header
        self._encoded_base = _encoded_base(base_url)

    async def answer(
        self,
        request: Request,
        credentials: Credentials,
        carrier: Carrier,
        on_sent: OnSent | None = None,
    ) -> Response:
        """The answer, whatever its status. Raises TransportError, RedirectError."""
        url = self._encoded_base + request.target
        headers = self._headers(request, credentials)
        for _ in range(_REDIRECTS + 1):
            # Raised outside, an error leaves behind the frames of those who saw the headers.
            failure: TransportError | None = None
            try:
                response = await carrier.carry(request.method, url, headers, request.body, on_sent)
            except ERRORS as error:
                failure = self._transport_error(request, error, credentials)
            if failure is not None:
                raise failure
            if log.isEnabledFor(logging.DEBUG):
                shown = credentials.masked_text(url)
                log.debug("%s %s: %d", request.method, shown, response.status)
            if not 300 <= response.status < 400 or response.status == 304:
                return response
            url = redirect_target(request, response, url, credentials.masked_text)
        raise endless(request, response.status, _REDIRECTS)

    def _headers(self, request: Request, credentials: Credentials) -> _Headers:
        headers = _Headers(
            {"user-agent": _AGENT, "accept-encoding": "gzip, deflate", **request.headers}
        )
        if credentials.token is not None:
            headers["authorization"] = f"Bearer {credentials.token.reveal()}"
        if credentials.key is not None and request.operation in _KEY_OPERATIONS:
            headers.setdefault(self._key_header, credentials.key.reveal())
        return headers

    def _transport_error(
        self, request: Request, error: Exception, credentials: Credentials
    ) -> TransportError:
        unsent = never_sent(error)
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        what = "cannot be reached" if unsent else "gave no whole answer"
        reason = credentials.masked_text(_reason(error))
        return TransportError(
            f"{request.operation}{about}: {self._base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint="Is the address right, and the service up?" if unsent else "",
        )


def _encoded_base(url: str) -> str:
    try:
        return encoded(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"the address {url!r} cannot be read: {error}") from None


def _reason(error: Exception) -> str:
    """The system's own words where there are some: "Connection refused"."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__
