"""Arrow tables that are written in parts, each column in one piece of memory.

To join the parts at the end would need up to twice the memory of the table.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

__all__ = ["TableWriter"]


class TableWriter:
    """Collects the rows of tables. The columns are numbers of 64 bits, large texts, or large lists
    of these.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns = [_ColumnWriter(type_) for type_ in schema.types]

    def __len__(self) -> int:
        return len(self._columns[0])

    def write(self, table: pa.Table) -> None:
        """Add the rows of a table with the same columns. Texts and lists may have offsets of 32 or
        64 bits.
        """
        for name, column in zip(self._schema.names, self._columns, strict=True):
            for chunk in table[name].chunks:
                column.write(chunk)

    def to_table(self) -> pa.Table:
        """Return the table with all rows, and forget them."""
        columns = [column.to_array() for column in self._columns]
        self._columns.clear()
        return pa.table(columns, schema=self._schema)


class _ColumnWriter:
    """BytesIO enlarges its memory in place, if the system can."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type, self._length, self._nulls = type_, 0, 0
        self._is_valid, self._values, self._offsets = BytesIO(), BytesIO(), BytesIO()
        self._items = _ColumnWriter(type_.value_type) if types.is_large_list(type_) else None
        if not types.is_int64(type_):
            self._offsets.write(bytes(8))

    def __len__(self) -> int:
        return self._length

    def write(self, array: pa.Array) -> None:
        """Add the values of an array."""
        self._write_validity(array)
        _, values, *more = array.buffers()
        start, end = array.offset, array.offset + len(array)
        if types.is_int64(array.type):
            self._values.write(memoryview(values)[8 * start : 8 * end])
        elif self._items is None:
            first, last = self._write_offsets(array, values, self._values.tell())
            if first < last:
                self._values.write(memoryview(more[0])[first:last])
        else:
            first, last = self._write_offsets(array, values, self._items._length)
            self._items.write(array.values[first:last])
        self._length += len(array)

    def _write_validity(self, array: pa.Array) -> None:
        if not array.null_count and not self._nulls:
            return
        if not self._nulls:
            self._is_valid.write(bytes([1]) * self._length)
        self._nulls += array.null_count
        self._is_valid.write(array.is_valid().to_numpy(zero_copy_only=False).tobytes())

    def _write_offsets(self, array: pa.Array, buffer: pa.Buffer, before: int) -> tuple[int, int]:
        """Add the end of each value, and return the range of the contents in the array."""
        if not len(array):
            return 0, 0
        is_large = types.is_large_string(array.type) or types.is_large_list(array.type)
        width = np.int64 if is_large else np.int32
        offsets: npt.NDArray[np.signedinteger] = np.frombuffer(buffer, width)
        offsets = offsets[array.offset : array.offset + len(array) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        self._offsets.write((offsets[1:].astype(np.int64) + (before - first)).tobytes())
        return first, last

    def to_array(self) -> pa.Array:
        """Return the array with all values."""
        validity = None
        if self._nulls:
            is_valid = np.frombuffer(self._is_valid.getbuffer(), bool)
            validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        values, offsets = (pa.py_buffer(each.getbuffer()) for each in (self._values, self._offsets))
        buffers, children = [validity, offsets, values], []
        if self._items is not None:
            buffers, children = [validity, offsets], [self._items.to_array()]
        elif types.is_int64(self._type):
            buffers = [validity, values]
        return pa.Array.from_buffers(
            self._type, self._length, buffers, self._nulls, children=children
        )
