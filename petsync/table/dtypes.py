"""The dtypes of the DataFrames that petsync makes, the same with every version of pandas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

__all__ = ["TEXT", "as_texts", "infer_texts", "text_column", "time_column", "typed_frame"]


def _text_dtype() -> Any:
    try:
        return pd.StringDtype("pyarrow", na_value=np.nan)
    except TypeError:  # pandas 2.2
        return pd.api.types.pandas_dtype("string[pyarrow_numpy]")


TEXT = _text_dtype()
"""The dtype of a column of texts: `str` of pandas 3, whose missing value is NaN. pandas 2.3 has it
too, and pandas 2.2 names it `string[pyarrow_numpy]`; but pandas 2 makes columns of objects of texts
unless it is asked for this dtype.
"""


def text_column(array: pa.Array | pa.ChunkedArray) -> Any:
    """Return an Arrow array of large strings as an array of dtype TEXT, without a copy."""
    # `pd.array` of pandas 2.2 copies the texts, and refuses 2 GB of them.
    return TEXT.__from_arrow__(array)


def time_column(texts: Iterable[str]) -> pd.Series[Any]:
    """Return times in ISO 8601 as a column of UTC in microseconds."""
    return pd.Series([*map(datetime.fromisoformat, texts)], dtype="datetime64[us, UTC]")


def typed_frame(
    rows: Iterable[Any], names: Sequence[str], *, integers: Collection[str] = ("id",)
) -> pd.DataFrame:
    """Return a DataFrame of these rows, with the dtypes of `infer_texts`; `integers` are Int64."""
    # Use dtype object first: if an id is missing, pandas would convert the ids to floats.
    frame = pd.DataFrame([*rows], columns=[*names], dtype=object)
    return infer_texts(frame.astype(dict.fromkeys(integers, "Int64")))


def infer_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the dtype that suits the values of each column of objects: TEXT for
    texts, with or without missing ones.
    """
    frame = frame.infer_objects()
    return _as_texts(frame, [name for name in frame if _has(frame[name], "string")])


def as_texts(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return the frame with TEXT for those of these columns whose objects are texts or missing."""
    there = [name for name in names if name in frame]
    return _as_texts(frame, [name for name in there if _has(frame[name], "string", "empty")])


def _has(column: pd.Series[Any], *kinds: str) -> bool:
    """Return true if the column has objects of one of these kinds, apart from missing ones."""
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in kinds


def _as_texts(frame: pd.DataFrame, names: Sequence[Any]) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(names, TEXT)) if names else frame
