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
from petsync.scale.parts import BASE_FOLDER, MANIFEST, Manifest, PartFolder, PartWriter, write_part

__all__ = ["PARTS", "export_to", "snapshot_to"]

PARTS = 64
"""The default number of parts."""


async def snapshot_to(
    api: AsyncApi,
    statuses: Sequence[str],
    folder: Path,
    parts: int = PARTS,
    *,
    is_whole: bool = False,
) -> PartFolder:
    """Write the pets with one of the statuses into a new or empty folder, and return it.

    The pets are those of `loaders.snapshot`, sorted by id in each part. The manifest is written
    last: without it, the folder is not complete. Raises the errors of `snapshot`, and SheetError if
    the folder is not empty or cannot be written or, with `is_whole`, if a query failed.
    """
    await asyncio.to_thread(_prepare, folder)
    taken_at = datetime.now(UTC)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".petsync-") as temporary:
        numbers = itertools.count()

        def new_writer() -> PartWriter:
            return PartWriter(Path(temporary, str(next(numbers))), parts)

        writers, coverage = await by_status(api, statuses, new_writer)
        if is_whole:
            coverage.require_whole()
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


async def export_to(
    api: AsyncApi,
    statuses: Sequence[str],
    folder: Path,
    parts: int = PARTS,
    *,
    with_base: bool = True,
) -> PartFolder:
    """Write the pets into a new or empty folder, as a sheet to edit, and return the snapshot. With
    a base, the snapshot is in BASE_FOLDER, and the sheet has copies of its files.

    Raises the errors of `snapshot_to`, and SheetError if a query failed.
    """
    if not with_base:
        return await snapshot_to(api, statuses, folder, parts, is_whole=True)
    await asyncio.to_thread(_prepare, folder)
    base = await snapshot_to(api, statuses, folder / BASE_FOLDER, parts, is_whole=True)
    for part in base.manifest.parts:
        content = await asyncio.to_thread((base.path / part.file).read_bytes)
        await asyncio.to_thread(write_atomically, folder / part.file, content, error=SheetError)
    return base


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
