"""What is read fast is what the careful way reads, cell by cell and line by line."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from petsync.errors import SheetError
from petsync.sheets import csv
from petsync.sheets.block import LONGEST, Mark, take_apart
from petsync.sheets.headers import Mapper
from petsync.sheets.source import Source

PIECES = ["a", "é", "'=", '"', '""', ",", ";", "\t", "\n", "\r", "\r\n", " ", "\0", "\ufeff", "7"]
CELLS = st.sampled_from(["", "7", "é", "'=1", '"a,b"', '"say ""hi"""', '"two\nlines"', '""', " "])
ROUGH = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40)
ROWS = st.lists(CELLS, min_size=1, max_size=4).map(",".join)
FINE = st.tuples(st.lists(ROWS, max_size=12), st.sampled_from(["\n", "\r\n", "\r"])).map(
    lambda drawn: drawn[1].join(drawn[0])
)
HEADS = st.sampled_from(["id,name\n", "id,name,,\r\n", "\ufeffid\n", "sep=;\nid;name\n", "a\nid\r"])
SIZES = st.integers(1, 60) | st.just(1 << 20)


def grid(data, size):
    """The grid as plain values, or what is said of a file that has none."""
    source = Source(Path("pets.csv"), "text", data)
    try:
        found = csv.read(source, Mapper.of("pets.csv", None), size=size)
    except SheetError as error:
        return str(error)
    columns = [column.text.to_pylist() for column in found.columns]
    return found.header, found.header_row, found.rows.tolist(), columns, found.faults


@settings(max_examples=600, deadline=None)
@given(head=HEADS, body=ROUGH | FINE, size=SIZES)
@example(head="id,name\n", body='1,"a"b\n2,"c\n",\n3,d', size=8)
@example(head="id,name\n", body='1,5" pipe\n2,5" pipe\n', size=20)
@example(head="id,name\n", body="1,a\r\n2,b\r\n3,c\r\n", size=4)
@example(head="id,name\n", body="1,a,,\n2,b,x,\n", size=100)
@example(head="id,name,,\n", body="1,a,,\n2,b, ,\n3,c,x,\n", size=100)
@example(head="id\n", body='\n""\n\n7\n', size=100)
@example(head="id\n", body="\ufeff7\n\ufeff8\n", size=5)
def test_a_file_is_read_alike_in_blocks_of_any_size(head, body, size):
    """The grid, or the error, is that of the careful way, for arbitrary text."""
    data = (head + body).encode("utf-8", "surrogatepass")
    assert grid(data, size) == grid(data, 0)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=30) | ROUGH.map(lambda text: text.encode("utf-8", "replace")))
def test_bytes_that_are_not_utf8_are_refused_alike(body):
    """What Python does not decode is refused, and nothing else is."""
    data = b"id,name\n" + body.replace(b"\0", b"0")  # many NULs are the mark of UTF-16
    try:
        data.decode()
        refused = False
    except UnicodeDecodeError:
        refused = True
    assert ("is not UTF-8" in str(grid(data, 1 << 20))) == refused


def test_blocks_are_in_use():
    """Plain records and quoted ones are taken apart at once, so the law above is about blocks."""
    data = '7,"a ""b"", c",x\r\n\r\n8,"d\r\ne",\r\n9,f,'.encode()
    block = take_apart(data, Mark(0, 5), ",", 3)
    assert [column.to_pylist() for column in block.columns] == [
        ["7", "8", "9"],
        ['a "b", c', "d\r\ne", "f"],
        ["x", "", ""],
    ]
    assert block.lines.tolist() == [5, 7, 9]
    assert block.after == Mark(len(data), 9)


@pytest.mark.parametrize(
    "data",
    ['7,5" pipe\n', '7,"a"b\n', '7,"a\n', "7\n", "7,a,b\n", "\ufeff7,a\n", f"7,{'a' * LONGEST}\n"],
)
def test_what_is_doubtful_is_left_to_the_careful_way(data):
    """A block with a doubtful quote, another width or a very long record is not taken apart."""
    assert take_apart(data.encode(), Mark(0, 1), ",", 2) is None
    assert take_apart(b"7,a\n8,b\n", Mark(0, 1), ",", 2) is not None


def test_a_cell_of_the_longest_kind_is_read():
    """The limit of a cell is one of characters; a block that may hold it is not refused."""
    longest = "é" * LONGEST
    assert grid(f"id,name\n7,{longest}\n".encode(), 1 << 20)[3] == [["7"], [longest]]
    assert "131,072 characters" in grid(f"id,name\n7,{longest}é\n".encode(), 1 << 20)
