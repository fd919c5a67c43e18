"""An unsuccessful response becomes the error of petsync.errors that it means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from petsync import errors
from petsync.wire import json, xml
from petsync.wire.message import Request, Response

__all__ = ["error_for", "retry_after"]

_INVALID = frozenset({400, 405, 406, 413, 414, 415, 422})
_LONGEST = 1e9
_HINTS = {
    401: "Sign in: `petsync login`, or `ps.widgets.login(store)` in a notebook. Or give a token: "
    "PETSYNC_TOKEN, --token-file.",
    403: "The token lacks a scope that this operation needs (write:pets, read:pets).",
}


def error_for(
    response: Response,
    request: Request,
    now: datetime,
    masked: Callable[[str], str] = str,
) -> errors.ApiError:
    """The error for a status outside 2xx; `now` resolves a Retry-After date where the service does
    not say what time it is there, `masked` takes secrets out of the service's words.
    """
    # Masked first: base64 that is broken into lines can be known by its line breaks alone.
    said = " ".join(masked(_message(response)).split())[:300]
    about = "" if request.pet_id is None else f" of pet {request.pet_id}"
    message = f"{request.operation}{about}: {response.status} {said}".rstrip()
    kind = _kind(response.status)
    # Neither a success nor a refusal: a change may have been made.
    is_odd = response.status < 400 and request.method != "GET"
    error = kind(
        message,
        operation=request.operation,
        pet_id=request.pet_id,
        status=response.status,
        service_message=said,
        may_have_happened=response.status >= 500 or is_odd,
        hint=_hint(response.status, request),
    )
    if isinstance(error, errors.RateLimitedError | errors.ServiceError):
        there = _moment(response.headers.get("date", "")) or now
        error.retry_after = retry_after(response.headers.get("retry-after", ""), there)
        error.hint = _patience(error.retry_after) or error.hint
    return error


def _patience(seconds: float | None) -> str:
    if not seconds:
        return ""
    whole = math.ceil(seconds)
    return f"The service asks to wait {whole} second{'' if whole == 1 else 's'}."


def _hint(status: int, request: Request) -> str:
    if status == 404 and request.pet_id is None:
        return "Is the base URL right? It is what stands before /pet, and often ends in /v2."
    return _HINTS.get(status, "")


def retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait from a Retry-After header: delta-seconds or an HTTP date; None if neither.

    Source: RFC 9110, section 10.2.3.
    """
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return min(float(text), _LONGEST)
    moment = _moment(text)
    try:
        return None if moment is None else max(0.0, (moment - now).total_seconds())
    except OverflowError:
        return None


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, ArithmeticError, LookupError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _kind(status: int) -> type[errors.ApiError]:
    if status in (401, 403):
        return errors.AuthError
    if status in _INVALID:
        return errors.InvalidInputError
    if status >= 500:
        return errors.ServiceError
    return {
        404: errors.NotFoundError,
        409: errors.DuplicateError,
        429: errors.RateLimitedError,
    }.get(status, errors.ResponseError)


def _message(response: Response) -> str:
    """The service's own words: an ApiResponse's message, else plain text."""
    try:
        if response.media.endswith("json"):
            return json.decode_api_response(response.body).message or ""
        if response.media.endswith("xml"):
            return xml.decode_api_response(response.body).message or ""
    except errors.ResponseError:
        pass
    if response.media.endswith("html"):
        return ""
    return response.body.decode("utf-8", "replace")
