"""Sheets in formats that petsync reads but does not write into: OpenDocument, old and binary Excel
files, Parquet, JSON, JSON Lines, and compressed text.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from formats import WRITERS, Error, Tab, packed_ods, xls
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sheetmaking import Stream, assert_same_frames, with_whole_tags
from strategies import ids, pets, xml_texts
from times import times

import petsync as ps
from petsync.errors import SheetError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.sandbox import Sandbox
from petsync.sheets import load, read_sheet, sheet_from_frame, write_results, write_sheet
from petsync.sheets.files import Source
from petsync.sheets.records import read_records
from petsync.sheets.write import csv_bytes
from petsync.sheets.xlsx.contents import OUT, cell_texts
from petsync.store.runs import default_results_path
from petsync.table.arrow import PetTable
from petsync.table.frame import frame_from_pets
from petsync.table.sheet import Sheet

pytestmark = pytest.mark.slow

BIG_ID = 2**62 + 1
Rows = list[dict[str, Any]]
WORKBOOKS = tuple(WRITERS)
RECORDS = (".json", ".jsonl", ".parquet")
ALL = (*WORKBOOKS, *RECORDS, ".csv.gz", ".csv.zst", ".json.gz", ".jsonl.zst")
TEXT = (".csv.gz", ".csv.zst")


def zstd(data: bytes) -> bytes:
    """Return the bytes, compressed with Zstandard."""
    return bytes(pa.Codec("zstd").compress(data))


def write(path: Path, rows: Rows) -> Path:
    """Write rows with texts and lists as a file in the format of the path's ending."""
    header = [*dict.fromkeys(key for row in rows for key in row)]
    cells = [[_cell(row.get(key)) for key in header] for row in rows]
    kind = "".join(path.suffixes)
    if kind in WRITERS:
        path.write_bytes(WRITERS[kind]([Tab("Pets", [header, *cells])]))
        return path
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    contents: Mapping[str, Callable[[], bytes]] = {
        ".json": lambda: json.dumps(rows).encode(),
        ".jsonl": lambda: lines,
        ".csv": lambda: csv_bytes([header, *cells]),
        ".parquet": lambda: _parquet(rows),
    }
    content = contents[path.suffixes[0]]()
    packers = {".gz": gzip.compress, ".zst": zstd}
    path.write_bytes(packers[path.suffix](content) if path.suffix in packers else content)
    return path


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return "" if value is None else str(value)


def _parquet(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


GOOD = {"id": 1, "name": "A", "status": "sold"}
ROWS: Rows = [
    {"id": BIG_ID, "name": "Zoë", "status": "available", "tags": ["calm", "shy"]},
    {"id": 2, "name": "Mia", "status": "sold", "tags": []},
    {"id": None, "name": "Neu", "status": "pending", "tags": ["new"]},
    {"id": None, "name": "Noch", "status": "sold", "tags": ["new"]},
]
SHOP = [
    Pet(id=BIG_ID, name="Zoe", status="available", tags=(Tag(None, "calm"), Tag(None, "shy"))),
    Pet(id=2, name="Mia", status="sold"),
]


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def store(_open_box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store with two pets, one of them with an id that no float can be."""
    _open_box.reset(SHOP)
    with ps.connect(_open_box.url, state=tmp_path / "state") as store:
        yield store


@pytest.mark.parametrize("ending", ALL)
def test_rows_without_an_id_are_added_once(store: ps.Store, tmp_path: Path, ending: str) -> None:
    """After an apply, people go on in the same file, a copy or the results: no pet is added twice,
    and every id is exact.
    """
    path = write(tmp_path / f"pets{ending}", ROWS)
    sheet = store.read(path)
    assert sheet.form
    plan = store.plan(sheet)
    assert (len(plan.adds), [each.pet_id for each in plan.updates]) == (2, [BIG_ID])
    report = store.apply(plan)
    assert not store.plan(path).changes
    results = default_results_path(sheet)
    assert results.suffix == (".csv" if ending in TEXT else ".xlsx")
    assert results.name.startswith("pets.results.")
    write_results(sheet, report, results)
    copy = store.read(results)
    assert set(copy.frame["id"]) == set(store.pets()["id"])
    assert not store.plan(copy).changes
    rows = [{**row, "name": "Nein"} if row["name"] == "Noch" else row for row in ROWS]
    assert not store.plan(write(tmp_path / f"copy{ending}", ROWS)).changes
    edited = store.plan(write(path, rows))
    assert (len(edited.adds), len(edited.updates)) == (0, 1), edited


@pytest.mark.parametrize("ending", ALL)
def test_the_file_itself_is_never_written(store: ps.Store, tmp_path: Path, ending: str) -> None:
    """What petsync cannot write into is refused with the format and the way out, and stays."""
    path = write(tmp_path / f"pets{ending}", ROWS)
    before = path.read_bytes()
    report = store.apply(store.plan(sheet := store.read(path)))
    with pytest.raises(
        SheetError, match=re.escape(f"petsync does not write into {sheet.form}")
    ) as caught:
        ps.write_back(sheet, report)
    assert "Save the sheet as .xlsx or .csv" in caught.value.hint
    with pytest.raises(SheetError, match=re.escape(f"the copy of {sheet.form} must be")):
        write_results(sheet, report, tmp_path / "copy.parquet")
    assert path.read_bytes() == before


# The same findings as in .xlsx.


ODD = Tab(
    "My pets",
    [
        ["id", "name", "status", "category", "tags"],
        ["9223372036854775807", "Rex", "solld", Error("#REF!"), Error("#N/A", formula=True)],
        [1234567890123456.0, 12.0, "sold", dt.date(2026, 5, 1), True],
        ["3", "Mia", "sold", None, None],
        ["5", " two  spaces\n and lines", "sold", None, None],
    ],
    merged=[(3, 3, 3, 4)],
    hidden=[3],
)


def xlsx(tab: Tab) -> bytes:
    """Return the worksheet as .xlsx."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = tab.name
    for row in tab.rows:
        sheet.append([each.text if isinstance(each, Error) else each for each in row])
    for first_row, last_row, first, last in tab.merged:
        sheet.merge_cells(None, first_row + 1, first + 1, last_row + 1, last + 1)
    for row in tab.hidden:
        sheet.row_dimensions[row + 1].hidden = True
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def listed(sheet: Sheet) -> list[tuple[str, str, str]]:
    """Return the address, rule and value of each finding."""
    return [(each.address, each.rule, each.value) for each in sheet.problems]


@pytest.mark.parametrize("ending", WORKBOOKS)
def test_a_workbook_has_the_findings_of_an_xlsx(tmp_path: Path, ending: str) -> None:
    """Errors, dates, booleans, numbers, merged cells and hidden rows are the same findings at the
    same cells as in .xlsx.
    """
    path, peer = tmp_path / f"odd{ending}", tmp_path / "odd.xlsx"
    path.write_bytes(WRITERS[ending]([ODD, Tab("Hidden", [["x"]], visible=False)]))
    peer.write_bytes(xlsx(ODD))
    sheet, expected = read_sheet(path), read_sheet(peer)
    assert listed(sheet) == listed(expected)
    assert ("'My pets'!D2", "error-cell", "#REF!") in listed(sheet)
    assert_same_frames(sheet.frame, expected.frame)
    marked = ps.annotate_sheet(sheet, tmp_path / "marked.xlsx")
    assert marked.cells == ps.annotate_sheet(expected, tmp_path / "peer.marked.xlsx").cells


@pytest.mark.parametrize("ending", WRITERS)
def test_a_character_that_xml_lacks_is_read(tmp_path: Path, ending: str) -> None:
    """A text with U+FFFF is read, also beside a formula, for which the cells are parsed."""
    text = "\uffff" if ending != ".ods" else "\ufffd"
    wrong = ["2", "c", Error("#REF!", formula=True)]
    rows = [["id", "name", "status"], ["1", f"a{text}b", "sold"], wrong]
    path = tmp_path / f"odd{ending}"
    path.write_bytes(WRITERS[ending]([Tab("P", rows)]))
    sheet = read_sheet(path)
    assert ("P!C3", "error-cell") in [each[:2] for each in listed(sheet)]
    assert sheet.rows["name"].to_list() == [f"a{text}b"]


def test_an_open_document_sheet_has_what_only_it_can_have(tmp_path: Path) -> None:
    """Repeated cells and rows, spaces, breaks, comments, durations, unknown errors and formulas
    without a value are read.
    """
    content = io.StringIO()
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "drawing")
    )
    cells = [
        f"<table:table-cell><text:p>{name}</text:p></table:table-cell>"
        for name in ("id", "name", "status", "category", "tags")
    ]
    body = """<table:table-row table:number-rows-repeated="2">
      <table:table-cell office:value-type="string" office:string-value="7"/>
      <table:table-cell><office:annotation><text:p>no</text:p></office:annotation>
        <text:p> a<text:s text:c="2"/><text:span>b
        c</text:span><text:line-break/>d</text:p><text:p>e<text:tab/></text:p></table:table-cell>
      <table:table-cell><text:p>sold</text:p></table:table-cell>
      <table:table-cell table:formula="of:=X"><text:p>Err:508</text:p></table:table-cell>
      <table:table-cell table:formula="of:=&quot;&quot;"/></table:table-row>
    <table:table-row><table:table-cell><text:p>8</text:p></table:table-cell>
      <table:table-cell office:value-type="time" office:time-value="PT30H0M1S"/>
      <table:table-cell table:number-columns-repeated="2" office:value-type="boolean"
        office:boolean-value="false"/></table:table-row>"""
    content.write(f"<office:document-content {spaces}><office:body><office:spreadsheet>")
    content.write(f'<table:table table:name="P"><table:table-row>{"".join(cells)}')
    content.write(f"</table:table-row>{body}</table:table></office:spreadsheet></office:body>")
    content.write("</office:document-content>")
    path = tmp_path / "pets.ods"
    path.write_bytes(packed_ods(content.getvalue()))
    sheet = read_sheet(path)
    found = [each[:2] for each in listed(sheet)]
    assert ("P!D2", "error-cell") in found
    assert ("P!E3", "formula-without-value") in found
    assert ("P!B4", "date-instead-of-text") in found
    assert ("P!C4", "boolean-instead-of-text") in found
    cells_read = load.load(path).data
    grid = openpyxl.load_workbook(io.BytesIO(cells_read))["P"]
    assert grid["B2"].value == grid["B3"].value == " a  b c\nd\ne\t"


@pytest.mark.parametrize("ending", RECORDS)
def test_a_value_that_is_not_exact_is_a_finding(tmp_path: Path, ending: str) -> None:
    """A float that may be a rounded id blocks its row, which is named by its number and key."""
    rows = [{"id": 1e18, "name": "A", "status": "sold"}, {"id": 2.0, "name": "B", "status": "sold"}]
    sheet = read_sheet(write(tmp_path / f"pets{ending}", rows))
    assert [each[:2] for each in listed(sheet)] == [("row 1, id", "id-imprecise")]
    assert sheet.frame["id"].to_list() == [2]


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_a_value_of_a_wrong_type_blocks_only_its_row(tmp_path: Path, ending: str) -> None:
    """An object for a name, or a tag with an inexact id, is a finding at its row and key."""
    rows: Rows = [
        {"id": 1, "name": {"first": "A"}, "status": "sold"},
        {"id": 2, "name": "B", "status": "sold", "tags": [{"id": 1e20, "name": "x"}]},
        {"id": 3, "name": "C", "status": "sold", "tags": [4], "photoUrls": [None, "http://x/1"]},
        {"id": 4, "name": "D", "status": "sold", "tags": [{"id": 2.0, "name": "y"}, "z"]},
    ]
    sheet = read_sheet(write(tmp_path / f"pets{ending}", rows))
    assert [each[:2] for each in listed(sheet)] == [
        ("row 1, name", "wrong-value"),
        ("row 2, tags", "wrong-value"),
        ("row 3, tags", "wrong-value"),
    ]
    assert with_whole_tags(sheet.frame["tags"]) == [[Tag(2, "y"), Tag(None, "z")]]
    assert sheet.blocked_ids == {1, 2, 3}


REPEATED = [
    ('"name": "a", "name": "b"', "name"),
    ('"name": "a", "name": "a"', "name"),
    (r'"name": "a", "n\u0061me": "b"', "name"),
    (r'"status": "sold", "status": "sold", "name": "\u0022b\u0022"', "status"),
    ('"name": "a", "tags": [{"id": 1, "name": "x", "name": "y"}]', "name"),
    ('"name": "a", "category": {"id": 1, "id": 2}', "id"),
]


@pytest.mark.parametrize(("pairs", "key"), REPEATED)
@pytest.mark.parametrize("ending", [".json", ".jsonl", ".jsonl.gz"])
def test_no_value_of_a_repeated_key_is_lost(
    tmp_path: Path, ending: str, pairs: str, key: str
) -> None:
    """A record with two values of one key is an error that names the record and the key, also in a
    folder of files.
    """
    rows = ['{"id": 7, "name": "\\"q\\""}', f'{{"id": 8, {pairs}}}']
    text = f"[{', '.join(rows)}]" if ending == ".json" else "\n".join(["", *rows])
    path = tmp_path / f"pets{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    place = "item 2 of the list" if ending == ".json" else "line 3"
    with pytest.raises(SheetError, match=f"pets{ending}: {place} has a key twice: '{key}'"):
        read_sheet(path)
    if ending == ".jsonl":
        with pytest.raises(SheetError, match=f"pets.jsonl: {place} has a key twice: '{key}'"):
            ps.check_sheet(tmp_path)


@given(st.lists(st.dictionaries(st.text(), st.text()), min_size=1))
def test_records_without_repeated_keys_are_read(rows: list[dict[str, str]]) -> None:
    """Texts with quotation marks and escapes, however they are written, are no repeated keys."""
    items = [
        "{" + ", ".join(f"{_escape(key)}: {_escape(value)}" for key, value in row.items()) + "}"
        for row in rows
    ]
    for name, text in (
        ("a.json", json.dumps(rows)),
        ("a.json", f"[{','.join(items)}]"),
        ("a.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)),
        ("a.jsonl", "\n".join(items)),
    ):
        frame = read_records(Source(Path(name), "records", text.encode())).frame
        assert list(frame.columns) == [*dict.fromkeys(key for row in rows for key in row)]


def _escape(text: str) -> str:
    """Return the text as JSON, with each character as an escape."""
    units = text.encode("utf-16-be").hex()
    return '"' + "".join(rf"\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'


def test_corrections_of_records_are_in_the_copies(tmp_path: Path) -> None:
    """A record can be corrected at its address, and its copies are workbooks one row lower."""
    rows: Rows = [
        {"id": 1, "name": "A", "status": "solld"},
        {"id": 2, "name": "B", "status": "sold"},
    ]
    path = write(tmp_path / "pets.json", rows)
    wrong = read_sheet(path)
    assert ps.annotate_sheet(wrong, tmp_path / "marked.xlsx").cells == 1
    marked = openpyxl.load_workbook(tmp_path / "marked.xlsx")["Pets"]
    assert marked["C2"].comment is not None
    sheet = read_sheet(path, corrections={"row 1, status": "sold"})
    assert sheet.frame["status"].to_list() == ["sold", "sold"]
    ps.write_corrected(sheet, tmp_path / "corrected.xlsx")
    assert read_sheet(tmp_path / "corrected.xlsx").frame["status"].to_list() == ["sold", "sold"]


# Each format holds what a pet has.


@settings(max_examples=times(12), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("ending", WORKBOOKS)
def test_a_workbook_reads_as_its_xlsx(ending: str, data: st.DataObject) -> None:
    """The cells of an export in another format are read as those of the .xlsx with the same texts,
    also Unicode, line breaks, formulas' first characters and every id.
    """
    texts = st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
        | st.sampled_from("\n\t=+-@'"),
        max_size=12,
    )
    some = data.draw(
        st.lists(pets(texts, st.none(), ids), max_size=4, unique_by=lambda pet: pet.id)
    )
    columns = cell_texts(frame_from_pets(some), marker="[clear]", empty="")
    rows = [[*OUT], *([*row] for row in zip(*columns, strict=True))]
    with _folder() as folder:
        path, peer = folder / f"a{ending}", folder / "a.xlsx"
        path.write_bytes(WRITERS[ending]([Tab("Pets", rows)]))
        write_sheet(PetTable(frame=frame_from_pets(some)), peer, base=False)
        sheet, expected = read_sheet(path), read_sheet(peer)
        assert listed(sheet) == listed(expected)
        assert_same_frames(sheet.frame, expected.frame)


@settings(max_examples=times(15), deadline=None)
@given(some=st.lists(pets(xml_texts, pet_ids=ids), max_size=4, unique_by=lambda pet: pet.id))
@pytest.mark.parametrize("ending", RECORDS)
def test_an_export_of_records_reads_as_its_pets(ending: str, some: list[Pet]) -> None:
    """An export as JSON, JSON Lines or Parquet has the ids, names, tags and addresses of its pets,
    compared as a DataFrame of the same pets is.
    """
    if not some:
        return
    with _folder() as folder:
        path = folder / f"a{ending}"
        write_sheet(frame_from_pets(some), path)
        sheet, expected = read_sheet(path), ps_sheet(some)
        wrong = {each.row for each in expected.problems if each.severity == "error"}
        rows = [n for n in sheet.frame.index if n - 1 not in wrong]
        for name in ("id", "name", "status", "photo_urls", "category_id"):
            if name in sheet.frame:
                there = sheet.frame[name].loc[rows]
                meant = expected.frame[name].loc[[n - 1 for n in rows]]
                for one, other in zip(there, meant, strict=True):
                    assert _is_same(one, other), name


def ps_sheet(some: list[Pet]) -> Sheet:
    """Return the sheet of the pets as a DataFrame."""
    return sheet_from_frame(frame_from_pets(some).drop(columns="extra", errors="ignore"))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return list(one if isinstance(one, list) else []) == list(
            other if isinstance(other, list) else []
        )
    return (pd.isna(one) or one == "") == (pd.isna(other) or other == "") and (
        pd.isna(one) or pd.isna(other) or one == other
    )


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


EXPORTS = (".xlsx", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
PACKED_TEXTS = [
    text + packed
    for text in (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
    for packed in (".gz", ".zst")
]


def export(store: ps.Store, folder: Path, ending: str) -> Path:
    """Export the store, and return the file in the format of the ending."""
    text = ending.removesuffix(".gz").removesuffix(".zst")
    kind = {".txt": ".csv", ".ndjson": ".jsonl", **dict.fromkeys(WORKBOOKS, ".csv")}.get(text, text)
    plain = folder / f"export{kind}"
    ps.write_sheet(store.snapshot(), plain, base=False)
    if text in WORKBOOKS:
        rows = csv.reader(io.StringIO(plain.read_text("utf-8-sig"), newline=""))
        content = WRITERS[text]([Tab("Pets", [*rows])])
    else:
        content = plain.read_bytes()
    packers = {".gz": gzip.compress, ".zst": zstd}
    path = folder / f"pets{ending}"
    path.write_bytes(packers[path.suffix](content) if path.suffix in packers else content)
    return path


def _expect_sync(store: ps.Store, sheet: Any) -> None:
    """The sheet has every id of the store exactly, and no change; one edit is one update."""
    assert set(store.read(sheet).frame["id"]) == {2, BIG_ID, MAX_ID}
    plan = store.plan(sheet)
    assert (plan.in_sync, plan.rows) == (True, 3), plan
    store.apply(store.edit(MAX_ID, name="Someone else's"), progress=False)
    plan = store.plan(sheet)
    assert [(each.pet_id, each.fields) for each in plan.changes] == [(MAX_ID, ("name",))], plan
    assert plan.changes[0].after.name == "Max"


@pytest.fixture
def shop(store: ps.Store, _open_box: Sandbox) -> ps.Store:
    """Return a store with a category, an address, and the largest id that a pet can have."""
    cat = replace(SHOP[1], category=Category(3, "Cats"), photo_urls=("http://x.example/1",))
    _open_box.reset([SHOP[0], cat, Pet(id=MAX_ID, name="Max", status="sold")])
    return store


@pytest.mark.parametrize("ending", [*EXPORTS, *WORKBOOKS, *PACKED_TEXTS])
@pytest.mark.parametrize("way", ["file", "standard input"])
def test_an_export_is_in_sync(
    shop: ps.Store, tmp_path: Path, ending: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export of the store in any format, saved by another program or compressed, is in sync,
    with exact ids, as a file and from standard input.
    """
    path = export(shop, tmp_path, ending)
    if way == "file":
        _expect_sync(shop, path)
    else:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        _expect_sync(shop, "-")


TABLES: Mapping[str, Callable[[Path], Any]] = {
    "a DataFrame": pd.read_parquet,
    "an Arrow table": pq.read_table,
    "a record batch": lambda path: pq.read_table(path).combine_chunks().to_batches()[0],
    "a reader of batches": lambda path: Stream(pq.read_table(path)),
    # polars has views of texts, and no large types.
    "views of texts": lambda path: Stream(_with_views(pq.read_table(path))),
}


def _with_views(table: pa.Table) -> pa.Table:
    is_text = (pa.types.is_string, pa.types.is_large_string)
    fields = [
        field.with_type(pa.string_view()) if any(each(field.type) for each in is_text) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_the_store_is_in_sync(shop: ps.Store, tmp_path: Path, kind: str) -> None:
    """A table of pandas, pyarrow or another library with the store's pets is in sync, with exact
    ids.
    """
    _expect_sync(shop, TABLES[kind](export(shop, tmp_path, ".parquet")))


@pytest.mark.parametrize("ending", WORKBOOKS)
def test_a_sidecar_is_the_base_of_a_workbook(store: ps.Store, tmp_path: Path, ending: str) -> None:
    """A CSV export that was saved in another format has its base if the second file has its name:
    another client's change is kept, also after the results.
    """
    export = tmp_path / "pets.csv"
    ps.write_sheet(store.snapshot(), export)
    rows = [*csv.reader(io.StringIO(export.read_text("utf-8-sig")))]
    path = tmp_path / f"pets{ending}"
    at = rows[0].index("name")
    rows[1][at] = "Typed"
    path.write_bytes(WRITERS[ending]([Tab("Pets", rows)]))
    shutil.copy(f"{export}.petsync-base", f"{path}.petsync-base")
    store.apply(store.edit(BIG_ID, status="sold"), progress=False)
    sheet = store.read(path)
    assert sheet.base is not None
    plan = store.plan(sheet)
    assert [(each.pet_id, each.fields) for each in plan.updates] == [(2, ("name",))]
    results = default_results_path(sheet)
    write_results(sheet, store.apply(plan), results)
    assert store.read(results).base is not None
    assert not store.plan(results).changes


# Damaged, protected and excessive files.


BOMB = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>'
    '<table:table table:name="P"><table:table-row table:number-rows-repeated="{}">'
    '<table:table-cell table:number-columns-repeated="{}"><text:p>{}</text:p>'
    "</table:table-cell></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"
)
SAVE = "save it again"
REFUSED = {
    "an .ods that is cut off": (".ods", lambda data: data[:-40], "OpenDocument sheet is dam", SAVE),
    "an .ods with broken XML": (
        ".ods",
        lambda _: packed_ods("<a><b></a>"),
        "OpenDocument sheet is damaged: mismatched tag",
        SAVE,
    ),
    "an .ods with a DTD": (
        ".ods",
        lambda _: packed_ods('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
        "document type declaration",
        SAVE,
    ),
    "an .ods without worksheets": (".ods", lambda _: packed_ods("<a/>"), "no worksheet", "table"),
    "an .ods with a password": (
        ".ods",
        lambda _: packed_ods("x", '<manifest:encryption-data a="b"/>'),
        "protected by a password",
        "without a password",
    ),
    "an .ods far too long": (
        ".ods",
        lambda _: packed_ods(BOMB.format(1 << 30, 1, "id")),
        "as far as row 1,073,741,824",
        "Delete the stray cells",
    ),
    "an .ods far too wide": (
        ".ods",
        lambda _: packed_ods(BOMB.format(1, 1 << 20, "id")),
        "as far as column 1,048,576",
        "Delete the stray cells",
    ),
    "an .xls that is cut off": (".xls", lambda data: data[:600], "is damaged", "as .xlsx"),
    "an .xls without a workbook": (
        ".xls",
        lambda data: data.replace("Workbook".encode("utf-16-le"), "Wordbook".encode("utf-16-le")),
        "it has no workbook",
        "as .xlsx",
    ),
    "an .xls with a password": (
        ".xls",
        lambda _: xls([Tab("P", [["id"]])], records=b"\x2f\0\2\0\1\0"),
        "protected by a password",
        "without a password",
    ),
    "an .xlsb that is cut off": (".xlsb", lambda data: data[:300], "the end of the", "wait"),
    "an .xls with cells far apart": (
        ".xls",
        lambda _: xls([Tab("P", [["id", *[None] * 254, "x"], *[[]] * 65_000, ["x"]])]),
        "too far for a table",
        "Delete the stray cells",
    ),
    "JSON that is cut off": (".json", lambda data: data[:-5], "not valid JSON", "Get it again"),
    "JSON of other things": (".json", lambda _: b"[1]", "item 1 of the list is not", "objects"),
    "JSON without records": (".json", lambda _: b"[]", "has no records", "right file"),
    "JSON Lines with a text": (".jsonl", lambda data: data + b"x\n", "line 2 is not", "object"),
    "a saved plan": (".json", lambda _: b'{"fingerprint":"x"}', "is a saved plan", "store.apply("),
    "Parquet that is cut off": (".parquet", lambda data: data[:-9], "cannot be read", "again"),
    "encrypted Parquet": (".parquet", lambda _: b"PARE1234PARE", "encrypted Parquet", "without"),
    "gzip that is cut off": (".csv.gz", lambda data: data[:-9], "compressed file is dam", "again"),
    "zstd that is cut off": (".csv.zst", lambda data: data[:-3], "compressed file is dam", "again"),
    "text as gzip": (".csv.gz", lambda _: b"id,name\n1,Rex\n", "is not compressed", "to pets.csv."),
    "a compressed workbook": (
        ".csv.gz",
        lambda _: gzip.compress(b"PK\3\4" + bytes(50)),
        "not a text file",
        "Unpack it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_read_is_named_with_the_way_out(tmp_path: Path, case: str) -> None:
    """A damaged, protected or excessive file of each format gives an error with a way out."""
    ending, change, what, way = REFUSED[case]
    path = write(tmp_path / f"pets{ending}", [GOOD])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SheetError, match=what) as caught:
        read_sheet(path)
    assert str(path) in caught.value.message
    assert way in caught.value.hint


def test_the_bytes_decide_how_a_file_is_unpacked(tmp_path: Path) -> None:
    """Zstandard with the name of gzip is unpacked, too."""
    path = tmp_path / "pets.csv.gz"
    path.write_bytes(zstd(b"id,name\n1,Rex\n"))
    assert read_sheet(path).rows["name"].tolist() == ["Rex"]


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.zst"])
def test_a_decompression_bomb_is_refused(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unpacking stops at the limit for a sheet, whatever the file claims."""
    monkeypatch.setattr(load, "MAX_SIZE", 1 << 20)
    pack = gzip.compress if ending.endswith(".gz") else zstd
    path = tmp_path / f"pets{ending}"
    path.write_bytes(pack(b"a" * (1 << 22)))
    with pytest.raises(SheetError, match="the unpacked file has more than") as caught:
        read_sheet(path)
    assert "split it into several files" in caught.value.hint


@settings(max_examples=times(20), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("ending", [*WORKBOOKS, ".parquet"])
def test_a_damaged_file_is_never_a_crash(ending: str, data: st.DataObject) -> None:
    """A file with any bytes changed is read, or refused with a SheetError."""
    with _folder() as folder:
        path = write(folder / f"a{ending}", [GOOD, GOOD | {"id": 2}])
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
        with suppress(SheetError):
            read_sheet(path)


@pytest.mark.parametrize("ending", [*ALL, ".csv", ".xlsx"])
def test_standard_input_is_read_in_the_format_of_its_content(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input is read as a file with the same bytes, whatever their format."""
    rows: Rows = [{"id": 1, "name": "Rex", "Price": "5"}, {"id": 2, "name": "Mia", "Price": "x"}]
    path = tmp_path / f"pets{ending}"
    if ending == ".csv":
        path.write_text("id,name,Price\n1,Rex,5\n2,Mia,x\n", "utf-8")
    elif ending == ".xlsx":
        pd.DataFrame(rows).to_excel(path, index=False)
    else:
        write(path, rows)
    file = ps.read_sheet(path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    sheet = ps.read_sheet("-")
    assert_same_frames(sheet.frame, file.frame)
    pd.testing.assert_frame_equal(sheet.others, file.others)
