"""Base: the store's records at the moment at which a sheet was exported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pandas as pd

from petsync.errors import ResponseError
from petsync.table.frame import frame_from_json, pets_from_frame
from petsync.table.parcel import ParcelError, pack, unpack
from petsync.wire.json import encode_pets

__all__ = ["Base"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Base:
    """What the store said when a sheet was exported: to it, sheet and store are both compared.

    `frame` has the canonical columns (and `extra`), one row for each pet that the sheet was
    given, sorted by id; `store` is the service's base URL, `taken_at` the moment, ISO 8601 in UTC.
    `statuses` and `tags` are what was asked for, () where everything was or it is not known.
    """

    frame: pd.DataFrame
    store: str
    taken_at: str
    statuses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    def to_lines(self) -> list[str]:
        """The base as lines of plain ASCII, none longer than a cell can hold."""
        pets = pets_from_frame(self.frame.sort_values("id", kind="stable"))
        header = _Header(
            store=self.store,
            taken_at=self.taken_at,
            pets=len(pets),
            statuses=self.statuses,
            tags=self.tags,
        )
        return pack(msgspec.json.encode(header) + b"\n" + encode_pets(pets))

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Base:
        """The base that the lines carry. Raises ParcelError where it is not whole and unchanged."""
        head, _, body = unpack(lines).partition(b"\n")
        try:
            header = msgspec.json.decode(head, type=_Header)
            frame = frame_from_json(body)
        except (msgspec.DecodeError, UnicodeDecodeError, ResponseError):
            raise ParcelError("they hold something else than pets") from None
        if len(frame) != header.pets:
            raise ParcelError(f"they hold {len(frame):,} pets and should hold {header.pets:,}")
        return cls(
            frame=frame,
            store=header.store,
            taken_at=header.taken_at,
            statuses=header.statuses,
            tags=header.tags,
        )


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    taken_at: str
    pets: int
    statuses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
