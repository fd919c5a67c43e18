"""Exchange: one request to one service, through redirects, and its whole answer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib.metadata import version

import httpx

from petsync.client.credentials import Credentials
from petsync.client.origin import encoded, endless, redirect_target
from petsync.client.transport import (
    ERRORS,
    UNTRUSTED,
    Bounds,
    Carrier,
    TooLongError,
    never_sent,
    tls_reason,
)
from petsync.errors import ApiError, ResponseError, SettingsError, TransportError
from petsync.profile import ServiceProfile
from petsync.wire.message import Request, Response

__all__ = ["PHOTO", "Exchange", "OnSent"]

log = logging.getLogger(__name__)

OnSent = Callable[[int], None]
PHOTO = "a photo"
"""The name under which an image is asked for that the service serves."""
_REDIRECTS = 5
_PET = 16_000_000
_PHOTO = 64_000_000
_KEY_OPERATIONS = frozenset({"getPetById", "deletePet"})
_AGENT = f"petsync/{version('petsync')}"


class _Headers(dict[str, str]):
    """Headers, of which a verbose traceback shows the names alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(self)}>"


class Exchange:
    """Sends one request at a time to the service at `base_url`; it keeps nothing of any."""

    def __init__(self, base_url: str, profile: ServiceProfile) -> None:
        self._base_url, self._key_header = base_url, profile.api_key_header
        self._encoded_base = _encoded_base(base_url)
        self._seconds = profile.answer_seconds
        lists = max(_PET, profile.max_answer_mb * 1_000_000)
        self._sizes = {"findPetsByStatus": lists, "findPetsByTags": lists, PHOTO: _PHOTO}

    async def answer(
        self,
        request: Request,
        credentials: Credentials,
        carrier: Carrier,
        on_sent: OnSent | None = None,
    ) -> Response:
        """The answer, whatever its status. Raises TransportError, RedirectError, and ResponseError
        for one that is longer than what was asked for can be.
        """
        url = self._encoded_base + request.target
        headers = self._headers(request, credentials)
        bounds = Bounds(self._sizes.get(request.operation, _PET), self._seconds)
        for _ in range(_REDIRECTS + 1):
            # Raised outside, an error leaves behind the frames of those who saw the headers.
            failure: ApiError | None = None
            try:
                response = await carrier.carry(
                    request.method, url, headers, request.body, bounds, on_sent
                )
            except TooLongError as error:
                failure = self._too_long(request, str(error))
            except ERRORS as error:
                failure = self._transport_error(request, error, credentials)
            if failure is not None:
                raise failure
            if log.isEnabledFor(logging.DEBUG):
                shown = credentials.masked(url)
                log.debug("%s %s: %d", request.method, shown, response.status)
            if not 300 <= response.status < 400 or response.status == 304:
                return response
            url = redirect_target(request, response, url, credentials.masked)
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
        untrusted = tls_reason(error)
        reason = credentials.masked(untrusted or _reason(error))
        hint = "Is the address right, and the service up?" if unsent else ""
        return TransportError(
            f"{request.operation}{about}: {self._base_url} {what} ({reason})",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=not unsent,
            hint=UNTRUSTED if untrusted else hint,
        )

    def _too_long(self, request: Request, most: str) -> ResponseError:
        about = "" if request.pet_id is None else f" of pet {request.pet_id}"
        is_list = request.operation.startswith("findPets")
        return ResponseError(
            f"{request.operation}{about}: {self._base_url} sends more than {most}, and no more of "
            "it is read",
            operation=request.operation,
            pet_id=request.pet_id,
            may_have_happened=request.method != "GET",
            hint="If the catalogue is that large: max_answer_mb under [service] in petsync.toml."
            if is_list
            else "Is it the service, or something between here and there, that answers?",
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
