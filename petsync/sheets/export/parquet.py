"""A table as a Parquet file: exact ids, lists of URLs, tags with id and name."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from petsync.table.columns import COLUMNS
from petsync.table.frame import EXTRA

__all__ = ["parquet_bytes"]

_TAG = pa.struct([("id", pa.int64()), ("name", pa.string())])
_TYPES = {
    "id": pa.int64(),
    "category_id": pa.int64(),
    "tags": pa.list_(_TAG),
    "photo_urls": pa.list_(pa.string()),
}


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """The canonical columns that the table has; `extra` is JSON text."""
    columns: dict[str, Any] = {
        name: pa.array(_plain(frame[name]), _TYPES.get(name, pa.large_string()))
        for name in COLUMNS
        if name in frame
    }
    if EXTRA in frame:
        extra = [value and msgspec.json.encode(value).decode() for value in frame[EXTRA]]
        columns[EXTRA] = pa.array(extra, pa.large_string())
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def _plain(column: pd.Series[Any]) -> list[Any]:
    if column.name == "tags":
        return [
            [{"id": tag.id, "name": tag.name} for tag in tags] if isinstance(tags, list) else None
            for tags in column
        ]
    missing = column.isna().tolist()
    values = column.tolist()
    return [None if gone else value for value, gone in zip(values, missing, strict=True)]
