"""The status queries of a snapshot, and what is covered where some of them fail."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pandas as pd

from petsync.client.api import AsyncApi, each_query
from petsync.diff.snapshot import Coverage, Unanswered
from petsync.errors import (
    ApiError,
    AuthError,
    RateLimitedError,
    RedirectError,
    TransportError,
    UnavailableError,
)
from petsync.model import Pet
from petsync.table.frame import frame_from_json, frame_from_pets, without_duplicates
from petsync.wire import calls
from petsync.wire.answer import kind_of
from petsync.wire.message import Call, Response

__all__ = ["as_frame", "by_status"]

log = logging.getLogger(__name__)
_ABOUT_ALL = (AuthError, RateLimitedError, RedirectError, UnavailableError)


async def by_status(api: AsyncApi, statuses: Sequence[str]) -> tuple[list[pd.DataFrame], Coverage]:
    """Each answered query's pets, with every copy of a pet, and what the answers cover.

    Where one query for all statuses fails, each is asked for by itself. Raises the first error if
    no status is answered, and at once an error that is not about the query: AuthError,
    RateLimitedError, RedirectError, UnavailableError, TransportError for a service that cannot be
    reached.
    """
    queries = each_query(calls.find_pets_by_status, statuses, api.session.profile)
    asked = tuple(dict.fromkeys(statuses))
    if len(queries) > 1:
        return await _each(api, asked, None)
    try:
        return [await api.session.send(as_frame(queries[0], copies=True))], Coverage(asked)
    except ApiError as error:
        if len(asked) == 1 or not _is_about_the_query(error):
            raise
        log.info("%s; asking for each status by itself", error.message)
        first = error
    return await _each(api, asked, first)


async def _each(
    api: AsyncApi, asked: Sequence[str], first: ApiError | None
) -> tuple[list[pd.DataFrame], Coverage]:
    answers: dict[str, pd.DataFrame] = {}
    failed: list[Unanswered] = []
    for status in asked:
        call = calls.find_pets_by_status([status], profile=api.session.profile)
        try:
            answers[status] = await api.session.send(as_frame(call, copies=True))
        except ApiError as error:
            if not _is_about_the_query(error):
                raise
            first = first or error
            failed.append(Unanswered(status, error.message))
    if first is not None and not answers:
        raise first
    return list(answers.values()), Coverage(tuple(answers), tuple(failed))


def as_frame(call: Call[list[Pet]], *, copies: bool = False) -> Call[pd.DataFrame]:
    """The same call, with its answer as a table: one row for each pet, or for each copy of it."""

    def read(response: Response) -> pd.DataFrame:
        if kind_of(response) == "json":
            return frame_from_json(response.body, copies=copies)
        frame = frame_from_pets(call.read(response))
        return frame if copies else without_duplicates(frame)

    return Call(call.request, read)


def _is_about_the_query(error: ApiError) -> bool:
    if isinstance(error, TransportError):
        return error.may_have_happened
    return not isinstance(error, _ABOUT_ALL)
