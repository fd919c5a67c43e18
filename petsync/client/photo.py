"""A photo that the service itself serves; nothing else is ever fetched from an address in a pet."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import httpx

from petsync.client.exchange import PHOTO
from petsync.client.origin import encoded
from petsync.client.session import Session
from petsync.errors import InvalidInputError
from petsync.wire.failure import error_for
from petsync.wire.message import Request

__all__ = ["photo", "target_of"]


async def photo(session: Session, url: str) -> bytes:
    """The content behind the address. Raises InvalidInputError for one that is not the service's
    own, without asking anybody, and ApiError where the service does not give it.
    """
    target = target_of(session.base_url, url)
    if target is None:
        raise InvalidInputError(
            f"a photo: this address is not below {session.base_url}, and nothing else is fetched"
        )
    request = Request(operation=PHOTO, method="GET", target=target, headers={"accept": "image/*"})
    answer = await session.answer(request)
    if answer.status != 200:
        raise error_for(answer, request, datetime.now(UTC), session.credentials.masked)
    return answer.body


def target_of(base_url: str, url: str) -> str | None:
    """What of the address follows the base URL; None where it leads anywhere else."""
    try:
        base, whole = encoded(base_url), encoded(url)
        path = unquote(urlsplit(whole).path)
    except (ValueError, httpx.InvalidURL):
        return None
    target = whole.partition("#")[0].removeprefix(base)
    if len(target) == len(whole.partition("#")[0]) or not target.startswith("/"):
        return None
    # Neither the client nor a server may walk out of the base by the way.
    return None if re.search(r"(^|[/\\])\.\.?([/\\]|$)", path) else target
