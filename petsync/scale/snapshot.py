"""Snapshots in folders of parts: the store is never in memory as a whole."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path

import msgspec
import pyarrow as pa

from petsync._files import make_folder, write_atomically
from petsync.client.api import AsyncApi
from petsync.client.loaders import by_status, resolve_copies
from petsync.errors import SettingsError, SheetError
from petsync.scale.parts import (
    BASE_FOLDER,
    MANIFEST,
    Manifest,
    Part,
    PartFolder,
    PartWriter,
    write_part,
)

__all__ = ["PARTS", "export_to", "not_empty_error", "snapshot_to"]

PARTS = 64
"""The default number of parts."""
MAX_PARTS = 65_536
"""The maximum number of parts."""


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
    the folder is not empty or cannot be written or, with `is_whole`, if a query failed; and
    SettingsError for an unusable number of parts.
    """
    number: object = parts
    if not isinstance(number, Integral) or not 1 <= parts <= MAX_PARTS:
        raise SettingsError(
            f"partitions={parts!r} is not a number from 1 to {MAX_PARTS:,}",
            hint="A part of 100,000 to 500,000 pets is a good size.",
        )
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
            path = Path(temporary, f"part-{number:05d}.parquet")
            written.append(await asyncio.to_thread(write_part, path, table))
            reread += again
        _move_files(Path(temporary), folder, written)
    manifest = Manifest(
        store=api.session.base_url,
        taken_at=taken_at.isoformat(timespec="microseconds"),
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
    # Until everything is there, the folder has only a temporary one, which an error removes.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".petsync-") as temporary:
        base = await snapshot_to(api, statuses, Path(temporary, "base"), parts, is_whole=True)
        sheet = Path(temporary, "sheet")
        await asyncio.to_thread(shutil.copytree, base.path, sheet)
        _move_files(sheet, folder, base.manifest.parts)
        base.path.rename(folder / BASE_FOLDER)
    return PartFolder(folder / BASE_FOLDER, base.manifest)


def _move_files(source: Path, folder: Path, parts: Sequence[Part]) -> None:
    for part in parts:
        (source / part.file).rename(folder / part.file)


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
        raise not_empty_error(folder)


def not_empty_error(folder: str | Path) -> SheetError:
    """Return the error for a folder with files, which petsync does not replace."""
    return SheetError(
        f"{folder} is not empty", hint="Name a new folder, or remove its files first."
    )


def _read_part(writers: Sequence[PartWriter], number: int) -> pa.Table:
    return pa.concat_tables([writer.read(number) for writer in writers])
