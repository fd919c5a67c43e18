"""Snapshots in folders of parts: the store is never in memory as a whole."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa

from petsync._files import make_folder, write_atomically
from petsync.client.api import AsyncApi
from petsync.client.loaders import by_status, resolve_copies
from petsync.errors import SheetError
from petsync.scale.parts import MANIFEST, Manifest, PartFolder, PartWriter, write_part

__all__ = ["PARTS", "snapshot_to"]

PARTS = 64
"""The default number of parts."""


async def snapshot_to(
    api: AsyncApi, statuses: Sequence[str], folder: Path, parts: int = PARTS
) -> PartFolder:
    """Write the pets with one of the statuses into a new or empty folder, and return it.

    The pets are those of `loaders.snapshot`, sorted by id in each part. The manifest is written
    last: without it, the folder is not complete. Raises the errors of `snapshot`, and SheetError if
    the folder is not empty or cannot be written.
    """
    await asyncio.to_thread(_prepare, folder)
    taken_at = datetime.now(UTC)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".petsync-") as temporary:
        numbers = itertools.count()

        def new_writer() -> PartWriter:
            return PartWriter(Path(temporary, str(next(numbers))), parts)

        writers, coverage = await by_status(api, statuses, new_writer)
        for writer in writers:
            await asyncio.to_thread(writer.close)
        written, reread = [], list[int]()
        for number in range(parts):
            rows = await asyncio.to_thread(_read_part, writers, number)
            table, again = await resolve_copies(api, rows)
            path = folder / f"part-{number:05d}.parquet"
            written.append(await asyncio.to_thread(write_part, path, table))
            reread += again
    manifest = Manifest(
        store=api.session.base_url,
        taken_at=taken_at.isoformat(timespec="seconds"),
        coverage=coverage,
        pets=sum(part.rows for part in written),
        reread=tuple(sorted(reread)),
        parts=tuple(written),
    )
    content = msgspec.json.format(msgspec.json.encode(manifest))
    await asyncio.to_thread(write_atomically, folder / MANIFEST, content, error=SheetError)
    return PartFolder(folder, manifest)


def _prepare(folder: Path) -> None:
    try:
        make_folder(folder)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise SheetError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint="Name another folder.",
        ) from None
    if not is_empty:
        raise SheetError(
            f"{folder} is not empty", hint="Name a new folder, or remove its files first."
        )


def _read_part(writers: Sequence[PartWriter], number: int) -> pa.Table:
    return pa.concat_tables([writer.read(number) for writer in writers])
