"""Asker: single GETs whose answers are taken as they are, timed, and asked again where the
service asks for patience. It sends nothing but GETs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median

from petsync.client.session import Session
from petsync.errors import TransportError
from petsync.wire.failure import retry_after
from petsync.wire.message import Request, Response

__all__ = ["MEDIA", "Asker"]

MEDIA = {"json": "application/json", "xml": "application/xml"}

_BUSY = frozenset({429, 502, 503, 504})
_LONGEST = 10.0


@dataclass(slots=True)
class Asker:
    """Asks one service. `answers` are all that came, `waits` the seconds that a busy answer asked
    for (None where it did not say), `broken` how often none came; `times` are in seconds.
    """

    session: Session
    answers: list[Response] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    waits: list[float | None] = field(default_factory=list)
    broken: int = 0

    async def get(
        self,
        operation: str,
        target: str,
        *,
        accept: str = MEDIA["json"],
        session: Session | None = None,
    ) -> Response:
        """The answer to `GET target`. Raises TransportError, RedirectError."""
        request = Request(
            operation=operation, method="GET", target=target, headers={"accept": accept}
        )
        for wait in (0.25, 0.5, 1.0):
            try:
                response = await self._once(request, session or self.session)
            except TransportError:
                await asyncio.sleep(wait)
                continue
            if response.status not in _BUSY:
                return response
            asked = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
            self.waits.append(asked)
            await asyncio.sleep(min(max(asked or 0.0, wait), _LONGEST))
        return await self._once(request, session or self.session)

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return len(self.answers) + self.broken

    @property
    def typical(self) -> float:
        """The median time of an answer, in seconds."""
        return median(self.times) if self.times else 0.0

    def headers(self, beginnings: Sequence[str]) -> dict[str, str]:
        """The headers whose name begins so, with the last value seen."""
        return {
            name: value
            for answer in self.answers
            for name, value in answer.headers.items()
            if name.startswith(tuple(beginnings))
        }

    async def _once(self, request: Request, session: Session) -> Response:
        begun = time.perf_counter()
        try:
            response = await session.answer(request)
        except TransportError:
            self.broken += 1
            raise
        self.times.append(time.perf_counter() - begun)
        if not 200 <= response.status < 300:
            # Its words are shown; what is shown of pets is masked there.
            said = response.body.decode("utf-8", "surrogateescape")
            masked = session.credentials.masked(said).encode("utf-8", "surrogateescape")
            response = replace(response, body=masked)
        self.answers.append(response)
        return response
