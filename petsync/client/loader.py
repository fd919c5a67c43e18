"""Loaders: the find operations' answers as DataFrames, straight from the bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pandas as pd

from petsync.client.api import AsyncApi, each_query
from petsync.diff.snapshot import Coverage, Snapshot
from petsync.model import Pet
from petsync.table.frame import frame_from_json, frame_from_pets, without_duplicates
from petsync.wire import calls
from petsync.wire.answer import kind_of
from petsync.wire.message import Call, Response

__all__ = ["find_by_status", "find_by_tags", "snapshot"]


async def find_by_status(api: AsyncApi, statuses: Sequence[str]) -> pd.DataFrame:
    """The pets that have one of the statuses, in the canonical columns."""
    return await _load(api, calls.find_pets_by_status, statuses)


async def find_by_tags(api: AsyncApi, tags: Sequence[str]) -> pd.DataFrame:
    """The pets that carry at least one of the tags, in the canonical columns."""
    return await _load(api, calls.find_pets_by_tags, tags)


async def snapshot(api: AsyncApi, statuses: Sequence[str]) -> Snapshot:
    """All pets that have one of the statuses, sorted by id. A pet without an id, which no later
    call could name, is left out.
    """
    taken_at = datetime.now(UTC)
    frame = await find_by_status(api, statuses)
    identified = frame[frame["id"].notna()]
    return Snapshot(
        frame=identified.sort_values("id", ignore_index=True),
        coverage=Coverage(tuple(statuses)),
        source=api.session.base_url,
        taken_at=taken_at,
    )


async def _load(
    api: AsyncApi, make: Callable[..., Call[list[Pet]]], values: Sequence[str]
) -> pd.DataFrame:
    queries = each_query(make, values, api.session.profile)
    parts = [await api.session.send(_as_frame(call)) for call in queries]
    return parts[0] if len(parts) == 1 else without_duplicates(pd.concat(parts, ignore_index=True))


def _as_frame(call: Call[list[Pet]]) -> Call[pd.DataFrame]:
    def read(response: Response) -> pd.DataFrame:
        if kind_of(response) == "json":
            return frame_from_json(response.body)
        return without_duplicates(frame_from_pets(call.read(response)))

    return Call(call.request, read)
