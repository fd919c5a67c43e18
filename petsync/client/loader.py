"""Loaders: the find operations' answers as DataFrames, straight from the bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pandas as pd

from petsync.client import copies, queries
from petsync.client.api import AsyncApi, each_query
from petsync.diff.snapshot import Snapshot
from petsync.model import Pet
from petsync.table.frame import without_duplicates
from petsync.wire import calls
from petsync.wire.message import Call

__all__ = ["find_by_status", "find_by_tags", "snapshot"]


async def find_by_status(api: AsyncApi, statuses: Sequence[str]) -> pd.DataFrame:
    """The pets that have one of the statuses, in the canonical columns.

    Of a pet that came twice the last copy stays, as it was read last; `snapshot` asks again.
    """
    return await _load(api, calls.find_pets_by_status, statuses)


async def find_by_tags(api: AsyncApi, tags: Sequence[str]) -> pd.DataFrame:
    """The pets that carry at least one of the tags, in the canonical columns; of a pet that came
    twice the last copy.
    """
    return await _load(api, calls.find_pets_by_tags, tags)


async def snapshot(api: AsyncApi, statuses: Sequence[str]) -> Snapshot:
    """All pets that have one of the statuses, sorted by id. A pet without an id, which no later
    call could name, is left out.

    A status whose query fails for good is in `coverage.failed`, and its pets are not there; if no
    query is answered the first error is raised. A pet that came twice, and differently, is read by
    its id; it is left out where it is gone by then. A pet that moves, between two queries, from a
    status that is yet to be asked for to one that was, is seen by neither: only getPetById proves
    that a pet is not there.
    """
    taken_at = datetime.now(UTC)
    parts, coverage = await queries.by_status(api, statuses)
    frame, reread = await copies.settled(api, _joined(parts))
    return Snapshot(
        frame=frame,
        coverage=coverage,
        source=api.session.base_url,
        taken_at=taken_at,
        reread=reread,
    )


async def _load(
    api: AsyncApi, make: Callable[..., Call[list[Pet]]], values: Sequence[str]
) -> pd.DataFrame:
    asked = each_query(make, values, api.session.profile)
    parts = [await api.session.send(queries.as_frame(call)) for call in asked]
    return parts[0] if len(parts) == 1 else without_duplicates(_joined(parts))


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
