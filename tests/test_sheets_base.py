"""The base of a sheet: the store's records at its export, read back or refused."""

import base64
import io
import random
import zipfile
from dataclasses import replace
from datetime import UTC, datetime

import openpyxl
import pyarrow as pa
import pytest
from disks import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from sheetmaking import assert_same_frames
from shop import plan_of
from strategies import extras, ids, pets
from times import times

from petsync.errors import PlanError, SheetError
from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.plan.change import Coverage, Snapshot
from petsync.sheets import peek, read_sheet, results, sidecar, worksheet_of, write_sheet
from petsync.sheets.base import BASE_NAME, BASE_TAB
from petsync.sheets.xlsx import read
from petsync.table.arrow import PetTable, table_from_pets
from petsync.table.base import LINE, Base, ParcelError, _digest, pack, unpack
from petsync.table.frame import frame_from_pets, pets_from_frame

pytestmark = pytest.mark.slow

PETS = [
    Pet(id=1, name="Zoë", status="available", category=Category(2, "Dogs"), tags=(Tag(1, "a;b"),)),
    Pet(id=2, name="=1+1", photo_urls=("u", "v"), extra={"color": "red"}),
    Pet(id=MAX_ID, name="NA"),
]
KINDS = pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv", "pets.tsv"])


def a_snapshot(some=PETS):
    """Return a snapshot of these pets, without a store behind it."""
    return Snapshot(
        pets=PetTable(frame=frame_from_pets(some)),
        coverage=Coverage(("available", "sold")),
        source="http://shop.example/v2/ü",
        taken_at=datetime(2026, 11, 21, 12, 30, tzinfo=UTC),
    )


def test_a_workbook_of_the_same_pets_needs_no_backup(tmp_path):
    """A workbook without a base that is written again with only a new time has no backup."""
    path, frame = tmp_path / "pets.xlsx", frame_from_pets(PETS)
    write_sheet(frame, path)
    earlier = io.BytesIO()
    with zipfile.ZipFile(path) as now, zipfile.ZipFile(earlier, "w") as then:
        for info in now.infolist():
            then.writestr(zipfile.ZipInfo(info.filename, (2026, 1, 1, 0, 0, 0)), now.read(info))
    path.write_bytes(earlier.getvalue())
    assert write_sheet(frame, path) is None
    path.write_bytes(earlier.getvalue())
    assert write_sheet(frame.assign(name="Max"), path) is not None


@KINDS
def test_a_replaced_export_is_read_once(tmp_path, name, monkeypatch):
    """An export that is overwritten is read only once, because a large workbook is slow to read."""
    write_sheet(a_snapshot(), tmp_path / name)
    read = []
    monkeypatch.setattr(results, "read_sheet", lambda path: read.append(path) or read_sheet(path))
    write_sheet(a_snapshot(PETS[:2]), tmp_path / name)
    assert read == [tmp_path / name]


@KINDS
def test_an_export_carries_its_snapshot(tmp_path, name):
    """A written snapshot reads back with the same records, store, time and query."""
    snapshot = a_snapshot()
    write_sheet(snapshot, tmp_path / name)
    sheet = read_sheet(tmp_path / name)
    assert sheet.base_refused == ""
    assert_same_frames(sheet.base.frame, snapshot.frame)
    assert len(sheet.base) == 3
    assert sheet.base.store == "http://shop.example/v2/ü"
    assert sheet.base.taken_at == "2026-11-21T12:30:00.000000+00:00"
    assert sheet.base.statuses == ("available", "sold")


PLAIN, ANY = (pets(st.text(max_size=9), extra, ids) for extra in (st.none(), extras))


@given(catalogue=st.lists(PLAIN, max_size=5) | st.lists(ANY, max_size=5))
@settings(deadline=None, max_examples=times(25))
def test_a_base_survives_its_lines(catalogue):
    """A base of any pets comes back from its lines, sorted by id."""
    once = {pet.id: pet for pet in catalogue}
    frame = frame_from_pets(once.values())
    base = Base.from_lines(Base(pets=PetTable(frame=frame), store="s", taken_at="t").to_lines())
    assert_same_frames(base.frame, frame.sort_values("id", ignore_index=True))


def test_lines_are_plain_and_fit_a_cell():
    """Every line is printable ASCII and fits a cell, for data of any size."""
    data = bytes(range(256)) * 2_000 + b"".join(str(n * n).encode() for n in range(90_000))
    lines = pack(data)
    assert len(lines) > 3
    assert max(map(len, lines)) <= LINE
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert unpack(lines) == data


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_791, 65_792, 1 << 20])
def test_data_of_each_size_comes_back(size):
    """Data reads back, whatever the length of the field that holds its size."""
    data = random.Random(size).randbytes(size // 2) + b"ab" * (size // 4) + b"c" * size
    assert unpack(pack(data[:size])) == data[:size]


def test_what_packs_too_well_is_carried_too():
    """Data that compresses like a ZIP bomb reads back, because it is stored uncompressed."""
    data = b"\0" * 20_000_000
    lines = pack(data)
    assert sum(map(len, lines)) > 20_000_000
    assert unpack(lines) == data


def without_last(lines):
    return lines[:-1]


def with_a_letter_changed(lines):
    return [*lines[:-1], lines[-1].replace(lines[-1][5], "A" if lines[-1][5] != "A" else "B")]


def of_the_next_version(lines):
    return [lines[0].replace("petsync-base 2", "petsync-base 3"), *lines[1:]]


def with_one_more(lines):
    return [*lines, "AAAA"]


def without_label(lines):
    return lines[1:]


def swapped(lines):
    return [lines[0], *lines[:0:-1]]


def of_no_pets(lines):
    return pack(b'{"store":"s","taken_at":"t","pets":1}\n[]\nARROW1')


def of_other_columns(lines):
    sink = pa.BufferOutputStream()
    table = pa.table({"id": [1]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    header = b'{"store":"s","taken_at":"t","pets":1}\n[]\n'
    return pack(header + sink.getvalue().to_pybytes())


def of_broken_text(lines):
    header, pets, table = unpack(lines).split(b"\n", 2)
    return pack(b"\n".join([header, pets, table.replace(b"3200000", b"32000\xff0")]))


def of_no_header(lines):
    return pack(b"[]")


def with_table(lines, change):
    header, pets, table = unpack(lines).split(b"\n", 2)
    with pa.ipc.open_stream(table) as reader:
        changed = change(reader.read_all())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if changed.num_rows == 5_000 else None)
    with pa.ipc.new_stream(sink, changed.schema, options=options) as writer:
        writer.write_table(changed)
    return pack(b"\n".join([header, pets, sink.getvalue().to_pybytes()]))


def compressed_twice(lines):
    return with_table(lines, lambda table: table)


def with_unequal_tags(lines):
    return with_table(lines, lambda table: change_column(table, "tag_ids", [[1]]))


def with_extra_of_another_kind(lines):
    return with_table(lines, lambda table: change_column(table, "extra", ["[5]"]))


def change_column(table, name, value):
    table = table.slice(0, 1)
    at = table.schema.get_field_index(name)
    return table.set_column(
        at, table.schema.field(at), [pa.array(value, table.schema.field(at).type)]
    )


def miscounted(lines):
    return pack(unpack(lines).replace(b'"pets":5000', b'"pets":5001'))


def repacked(lines, change):
    packed = change(base64.b64decode("".join(lines[1:])))
    digest = _digest(2, 1, packed)
    return [f"petsync-base 2 1 {digest}", base64.b64encode(packed).decode()]


def of_another_size(lines):
    return repacked(lines, lambda packed: packed[:6] + bytes([packed[6] ^ 1]) + packed[7:])


def without_a_size(lines):
    return repacked(lines, lambda packed: packed[:4] + b"\x00" + packed[5:])


def of_another_kind(lines):
    return repacked(lines, lambda packed: b"(")


def of_no_text(lines):
    return [lines[0], "é", *lines[2:]]


REASONS = {
    without_last: r"only \d of their \d parts are present",
    with_a_letter_changed: "they were changed",
    with_one_more: "they were changed",
    swapped: "they were changed",
    of_no_text: "they were changed",
    of_the_next_version: "format 3",
    without_label: "their first line is missing",
    of_no_pets: "they are not pets",
    of_no_header: "they are not pets",
    of_other_columns: "they are not pets",
    of_broken_text: "they are not pets",
    compressed_twice: "they are not pets",
    with_unequal_tags: "they are not pets",
    with_extra_of_another_kind: "they are not pets",
    of_another_size: "they cannot be unpacked",
    without_a_size: "they cannot be unpacked",
    of_another_kind: "they cannot be unpacked",
    miscounted: "they have 5,000 pets instead of 5,001",
}


@pytest.mark.parametrize(
    ("harm", "reason"),
    REASONS.items(),
    ids=[f"{n} {reason}" for n, reason in enumerate(REASONS.values())],
)
def test_lines_that_were_tampered_with_are_refused(harm, reason):
    """Lines that are changed, missing, added, of another version or no pets are refused, with the
    reason.
    """
    lines = a_snapshot([Pet(id=n, name=str(n**5)) for n in range(5_000)]).as_base().to_lines()
    assert len(lines) > 3
    with pytest.raises(ParcelError, match=reason):
        Base.from_lines(harm(lines))


OLD_LINES = """
petsync-base 1 1 76c352dddc6a63360d7f4d137da8881dd4edba0db502bef794922a7a12cb89cc
eF51UM1OwzAMvvMYvtK1SdiYmhsSZ8QBLkwVylarnWjjqkmBqeoT8Ri8GE62lQkJKYryOd+P7RGcpx5BQ+1953SWuZq6\
FD9N2zWYvStIwJs3tK/GM0kJdbuQcqHkkxRahHMdb6Z16B1olbCj8YNDBhtw1JRQBI8q4PjastFjICewo2ZobWTuS8bW\
tBjog7VDu8UeS/6SxXS1GQNBS5YYjxX1B9DHkjqpNNwTZ0wzfKHvLzh3wzi2wm3W5Om5b2JoGJpnNplMO1tdNDrHncxc\
fWDr8Qx3pmlhKkLlA/dVzbuR6SqJolyItcxztVqulyLPb2aPh7s/8ZdxvAkaemaFmY9Gv0oqy5BWXKxhHhL/NWXBD4YY\
ko8=
"""


def test_a_base_of_petsync_0_2_is_read():
    """A base in the old format has all its values, the same digest, and is written in the new."""
    base = Base.from_lines(OLD_LINES.splitlines())
    category, tags = Category(2, "Dogs"), (Tag(1, "shy"), Tag(None, "calm"))
    odd = Pet(
        id=2**53 + 1, name="NA", tags=(Tag(3, "odd", {"colour": "red"}),), extra={"weight": 1.5}
    )
    assert pets_from_frame(base.frame) == [
        Pet(
            id=1,
            name="Zoë",
            status="sold",
            category=category,
            tags=tags,
            photo_urls=("http://a/1.png",),
        ),
        odd,
    ]
    assert (base.store, base.statuses, base.tab) == ("https://shop.example/v2", ("sold",), "Pets")
    assert base.sheet_pets == {1: Pet(id=1, name="Zoe")}
    assert (base.columns, base.unnumbered) == ({"id", "name"}, {1})
    assert base.digest == "dbe578daa2588b2a8fed1563f8da26c57bdde5c6ae41b38fe0b7467fda7fc031"
    again = Base.from_lines(base.to_lines())
    assert base.to_lines()[0].startswith("petsync-base 2 ")
    assert pets_from_frame(again.frame) == pets_from_frame(base.frame)
    assert (again.digest, again.sheet_pets) == (base.digest, base.sheet_pets)


def test_a_bomb_is_not_unpacked(monkeypatch):
    """Unpacking lines that would give far too much data ends at a limit."""
    monkeypatch.setattr("petsync.table.base._compute_size_limit", lambda packed: 1 << 40)
    lines = pack(b"\0" * 40_000_000)
    monkeypatch.undo()
    assert sum(map(len, lines)) < 60_000
    with pytest.raises(ParcelError, match="far too large"):
        unpack(lines)


def edit_workbook(path, change):
    """Change the hidden worksheet, as a macro or another program would."""
    book = openpyxl.load_workbook(path)
    change(book[BASE_TAB])
    book.save(path)


def test_a_hidden_worksheet_that_was_edited_is_refused(tmp_path):
    """The sheet of an edited base is still read, has no base and gives the reason."""
    path = tmp_path / "pets.xlsx"
    write_sheet(a_snapshot(), path)
    edit_workbook(path, lambda tab: tab.cell(3, 1, "AAAA"))
    sheet = read_sheet(path)
    assert len(sheet) == 3
    assert sheet.base is None
    assert sheet.base_refused == "the records of its export cannot be used: they were changed"


def test_a_cell_far_away_in_the_hidden_worksheet_is_refused(tmp_path):
    """A cell far away in the hidden worksheet refuses the base, so that reading needs no more
    memory.
    """
    path = tmp_path / "pets.xlsx"
    write_sheet(a_snapshot(), path)
    edit_workbook(path, lambda tab: tab.cell(1_048_576, 16_384, "x"))
    sheet = read_sheet(path)
    assert sheet.base is None
    assert "too far" in sheet.base_refused
    assert str(path) not in sheet.base_refused


def test_a_hidden_worksheet_that_was_deleted_is_missed(tmp_path):
    """A workbook whose base was deleted is reported; a workbook that never had one has no name for
    it and no report.
    """
    path = tmp_path / "pets.xlsx"
    write_sheet(a_snapshot(), path)
    book = openpyxl.load_workbook(path)
    assert book.defined_names[BASE_NAME].hidden
    del book[BASE_TAB]
    book.save(path)
    sheet = read_sheet(path)
    assert (len(sheet), sheet.base) == (3, None)
    assert sheet.base_refused == (
        "the records of its export cannot be used: the worksheet 'petsync base' was deleted"
    )
    write_sheet(a_snapshot(), path, base=False, force=True)
    assert BASE_NAME not in openpyxl.load_workbook(path).defined_names
    assert read_sheet(path).base_refused == ""


def test_a_hidden_worksheet_that_was_shown_is_the_base_still(tmp_path):
    """A base whose worksheet was made visible is still valid."""
    path = tmp_path / "pets.xlsx"
    write_sheet(a_snapshot(), path)
    edit_workbook(path, lambda tab: setattr(tab, "sheet_state", "visible"))
    sheet = read_sheet(path)
    assert (len(sheet), len(sheet.base), sheet.tab) == (3, 3, "Pets")


def test_the_base_is_very_hidden_and_never_the_data(tmp_path):
    """The base's worksheet is veryHidden and is never read as the pets, even if it is alone."""
    path = tmp_path / "pets.xlsx"
    write_sheet(a_snapshot(), path)
    book = openpyxl.load_workbook(path)
    assert book[BASE_TAB].sheet_state == "veryHidden"
    assert book.active.title == "Pets"
    del book["Pets"]
    book.create_sheet("Empty", 0)
    book.save(path)
    with pytest.raises(SheetError, match=r"'Pets', .* no longer exists"):
        read_sheet(path)
    with pytest.raises(SheetError, match="no column"):
        read_sheet(path, tab="Empty")


def a_book(path, change):
    """Return an export of PETS whose workbook a person has changed."""
    path.unlink(missing_ok=True)
    write_sheet(a_snapshot(), path)
    book = openpyxl.load_workbook(path)
    change(book)
    book.save(path)
    return path


def copied(book, name, rows, at=None):
    """Add a worksheet with these rows of the pets; the first row is the header."""
    tab = book.create_sheet(name, at)
    for row in rows:
        tab.append([cell.value for cell in book["Pets"][row]])


def test_a_worksheet_in_front_is_not_read(tmp_path):
    """The base names the worksheet of the pets, which is read wherever it is and whatever the
    others hold.
    """

    def change(book):
        copied(book, "For Anna", [1, 2], 0)
        copied(book, "Archive", [1, 3])
        book["Archive"].sheet_state = "hidden"
        notes = book.create_sheet("Notes", 0)
        notes.append(["Name", "what to do"])
        notes.append(["Bella", "call the vet"])

    path = a_book(tmp_path / "pets.xlsx", change)
    sheet = read_sheet(path)
    assert (sheet.tab, len(sheet), sheet.base.tab) == ("Pets", 3, "Pets")
    assert sheet.ids_elsewhere == {"For Anna": {1}}
    assert sheet.with_statuses(["adopted"]).ids_elsewhere == sheet.ids_elsewhere
    assert [each.value for each in sheet.problems if each.row < 2] == ["For Anna"]
    assert peek(path).tab == "Pets"
    chosen = read_sheet(path, tab="For Anna")
    assert (chosen.tab, len(chosen), chosen.ids_elsewhere) == (
        "For Anna",
        1,
        {"Pets": {1, 2, MAX_ID}},
    )


def test_a_base_knows_the_worksheet_of_its_file(tmp_path):
    """A base names the worksheet of its own file, not of the source file; a CSV has none."""
    write_sheet(a_snapshot(), tmp_path / "pets.xlsx", tab="Tiere")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    write_sheet(sheet, tmp_path / "again.xlsx")
    write_sheet(sheet, tmp_path / "pets.csv")
    tabs = [
        read_sheet(tmp_path / name).base.tab for name in ("pets.xlsx", "again.xlsx", "pets.csv")
    ]
    assert tabs == ["Tiere", "Pets", ""]


def test_a_renamed_worksheet_is_read_where_it_is_certain(tmp_path):
    """A renamed worksheet is read if it alone has ids and has all ids of the base; otherwise the
    error names the choices.
    """
    path = tmp_path / "pets.xlsx"

    def renamed(book):
        book["Pets"].title = "Tiere"

    assert read_sheet(a_book(path, renamed)).tab == "Tiere"

    def replaced(book):
        copied(book, "For Anna", [1, 2])
        del book["Pets"]

    def doubled(book):
        copied(book, "Other", [1, 2, 3, 4])
        renamed(book)

    def shortened(book):
        renamed(book)
        book["Tiere"].delete_rows(2)

    for change, names in (
        (replaced, ["'For Anna'"]),
        (doubled, ["'Tiere'", "'Other'"]),
        (shortened, ["'Tiere'"]),
    ):
        with pytest.raises(SheetError, match=r"'Pets', .* no longer exists") as caught:
            read_sheet(a_book(path, change))
        assert all(name in caught.value.cure for name in (*names, "--sheet", "tab="))


def test_a_hidden_worksheet_of_pets_is_not_replaced_by_another(tmp_path):
    """If the worksheet of the pets is hidden, no other worksheet is read in its place."""

    def change(book):
        copied(book, "For Anna", [1, 2, 3, 4], 0)
        book["Pets"].sheet_state = "hidden"

    path = a_book(tmp_path / "pets.xlsx", change)
    with pytest.raises(SheetError, match=r"'Pets', .* is hidden"):
        read_sheet(path)
    assert len(read_sheet(path, tab="Pets")) == 3


def test_the_worksheet_of_another_base_is_found(tmp_path):
    """The worksheet that a job's base names is found; a file with its own base uses its own."""
    base = a_snapshot().as_base()
    for name in ("pets.csv", "pets.xlsx"):
        write_sheet(a_snapshot(), tmp_path / name)
    path = tmp_path / "pets.xlsx"
    assert worksheet_of(tmp_path / "pets.csv", replace(base, tab="Pets")) is None
    assert worksheet_of(path, base) is None
    assert worksheet_of(path, replace(base, tab="pets")) == "Pets"
    assert worksheet_of(path, replace(base, tab="Tiere")) is None
    write_sheet(a_snapshot(), tmp_path / "plain.xlsx", base=False)
    assert worksheet_of(tmp_path / "plain.xlsx", replace(base, tab="Tiere")) == "Pets"
    more = base.with_pets([Pet(id=3, name="Mia")])
    with pytest.raises(SheetError, match=r"'Tiere', .* no longer exists"):
        worksheet_of(tmp_path / "plain.xlsx", replace(more, tab="Tiere"))


def test_a_worksheet_that_cannot_be_read_may_have_any_id(tmp_path, monkeypatch):
    """A worksheet that is too large to search is named with unknown ids."""
    path = a_book(tmp_path / "pets.xlsx", lambda book: copied(book, "For Anna", [1, 2], 0))
    monkeypatch.setattr(read, "MAX_SEARCHED", 100)
    assert read_sheet(path).ids_elsewhere == {"For Anna": None}


def test_who_carries_a_base(tmp_path):
    """A snapshot is its own base, a sheet keeps its base, a table has none; `base` overrides."""
    path, again = tmp_path / "pets.xlsx", tmp_path / "again.csv"
    snapshot = a_snapshot()
    write_sheet(snapshot, path)
    sheet = read_sheet(path)
    write_sheet(sheet, again)
    assert read_sheet(again).base.store == snapshot.source
    write_sheet(sheet, again, base=False)
    assert read_sheet(again).base is None
    write_sheet(snapshot.frame, again)
    assert read_sheet(again).base is None
    for given_base in (snapshot, sheet.base):
        write_sheet(snapshot.frame, again, base=given_base)
        assert_same_frames(read_sheet(again).base.frame, snapshot.frame)
    with pytest.raises(SheetError, match="not a Snapshot, a Base, False or None"):
        write_sheet(snapshot, again, base=True)


def test_a_sheet_without_base_says_nothing_of_one(tmp_path):
    """A sheet of unknown origin has neither a base nor a reason for its absence."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Rex\n")
    sheet = read_sheet(path)
    assert (sheet.base, sheet.base_refused) == (None, "")


def test_an_export_without_base_removes_the_old_sidecar(tmp_path):
    """An export without a base deletes the sidecar of an earlier export with its name."""
    path = tmp_path / "pets.csv"
    write_sheet(a_snapshot(), path)
    assert (tmp_path / "pets.csv.petsync-base").is_file()
    write_sheet(a_snapshot().frame, path)
    assert [each.name for each in tmp_path.iterdir()] == ["pets.csv"]


@pytest.mark.parametrize("stage", ["the file", "the sidecar"])
def test_an_export_that_is_killed_leaves_no_wrong_base(tmp_path, monkeypatch, stage):
    """If an export is killed before its CSV or its sidecar is written, the base is refused with the
    reason.
    """
    path = tmp_path / "pets.csv"
    write_sheet(a_snapshot(PETS[:1]), path)
    replaced = sidecar.write_atomically

    def killed(target, data, **options):
        if target == path if stage == "the file" else data.startswith(b"#"):
            raise KeyboardInterrupt
        replaced(target, data, **options)

    monkeypatch.setattr(sidecar, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        write_sheet(a_snapshot(), path)
    monkeypatch.undo()
    sheet = read_sheet(path)
    assert len(sheet) == (1 if stage == "the file" else 3)
    assert sheet.base is None
    assert "the last write of the file was interrupted" in sheet.base_refused
    write_sheet(a_snapshot(), path)
    assert read_sheet(path).base_refused == ""


def test_a_csv_that_cannot_be_written_keeps_its_sidecar(tmp_path, monkeypatch):
    """A CSV that cannot be replaced keeps its old sidecar."""
    path = tmp_path / "pets.csv"
    write_sheet(a_snapshot(PETS[:1]), path)
    replaced = sidecar.write_atomically

    def full(target, data, **options):
        if target == path:
            raise SheetError("no space left")
        replaced(target, data, **options)

    monkeypatch.setattr(sidecar, "write_atomically", full)
    with pytest.raises(SheetError, match="no space"):
        write_sheet(a_snapshot(), path)
    monkeypatch.undo()
    assert len(read_sheet(path).base) == 1


@pytest.mark.parametrize("room", ["for the file", "for none"])
def test_a_sidecar_that_cannot_be_written_loses_and_doubles_nothing(tmp_path, room):
    """If there is no room for the sidecar, the error says whether the file was written and what to
    do. No plan is made from the file until it is exported again, and a comparison with the store
    alone finds the pets.
    """
    path, sidecar_file = tmp_path / "pets.csv", tmp_path / "pets.csv.petsync-base"
    write_sheet(a_snapshot(PETS[:1]), path)
    size = path.stat().st_size
    assert size < 500 < sidecar_file.stat().st_size
    with full_disk(500 if room == "for the file" else 30), pytest.raises(SheetError) as caught:
        write_sheet(a_snapshot(), path)
    was_written = room == "for the file"
    assert (len(read_sheet(path)) == 3) == was_written
    begin = f"{path} was written, but" if was_written else f"{path} cannot be written: "
    assert caught.value.message.startswith(begin)
    assert caught.value.message.endswith(f"{sidecar_file} cannot be written: File too large")
    assert "free space. Then export again, and move your edits there" in caught.value.hint
    with pytest.raises(PlanError, match="the last write of the file was interrupted"):
        plan_of(PETS, read_sheet(path))
    assert plan_of(PETS, read_sheet(path), two_way=True).in_sync
    write_sheet(a_snapshot(), path)
    assert read_sheet(path).base_refused == ""


def test_a_sidecar_is_as_private_as_its_csv(tmp_path):
    """A sidecar has the permissions of its CSV."""
    path = tmp_path / "pets.csv"
    path.touch(0o600)
    write_sheet(a_snapshot(), path)
    assert (tmp_path / "pets.csv.petsync-base").stat().st_mode & 0o777 == 0o600


def test_a_link_has_the_sidecar_of_its_file(tmp_path):
    """A CSV has one base, whether it is read by its own path or through a link."""
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.touch()
    link.symlink_to(real)
    write_sheet(a_snapshot(PETS[:1]), link)
    write_sheet(a_snapshot(), real)
    assert len(read_sheet(link).base) == len(read_sheet(real).base) == 3


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"petsync-base 1 9 zz\n", b"\0" * 99])
def test_a_sidecar_that_cannot_be_read_is_refused(tmp_path, content):
    """A damaged sidecar never stops the reading of its CSV."""
    path = tmp_path / "pets.csv"
    write_sheet(a_snapshot(), path)
    (tmp_path / "pets.csv.petsync-base").write_bytes(content)
    sheet = read_sheet(path)
    assert len(sheet) == 3
    assert sheet.base is None
    assert sheet.base_refused.startswith("the records of its export cannot be used: ")


def test_a_sidecar_that_is_too_large_is_refused(tmp_path):
    """A sidecar of more than 1 GiB refuses the base, with its size as the reason."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Rex\n")
    with (tmp_path / "pets.csv.petsync-base").open("wb") as sidecar:
        sidecar.truncate(2**30 + 1)
    assert "it is larger than 1 GiB" in read_sheet(path).base_refused


def test_a_folder_in_the_place_of_a_sidecar_is_refused(tmp_path):
    """A folder in place of a sidecar refuses the base and is never overwritten."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Rex\n")
    (tmp_path / "pets.csv.petsync-base").mkdir()
    assert "not a regular file" in read_sheet(path).base_refused
    with pytest.raises(SheetError, match="petsync-base"):
        write_sheet(a_snapshot(), path)
    assert path.read_text() == "id,name\n1,Rex\n"


@pytest.mark.parametrize("target", [".", "other.txt", "/dev/null", "missing"])
def test_a_link_in_the_place_of_a_sidecar_is_to_be_removed(tmp_path, target):
    """A link in place of a sidecar is refused, and the hint is to remove it, whatever its target
    is.
    """
    path = tmp_path / "pets.csv"
    (tmp_path / "other.txt").touch()
    (tmp_path / "pets.csv.petsync-base").symlink_to(target)
    with pytest.raises(SheetError, match="is a symbolic link") as caught:
        write_sheet(a_snapshot(), path)
    assert caught.value.hint == "Remove the link, or name another file."
    assert not path.exists()


def test_no_worksheet_of_pets_takes_the_name_of_the_base(tmp_path):
    """The worksheet of the pets cannot have the hidden worksheet's name, in any case."""
    with pytest.raises(SheetError, match="petsync itself"):
        write_sheet(a_snapshot(), tmp_path / "pets.xlsx", tab="Petsync Base")


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ([["nummer", "tier"], [2, "renamed"]], True),
        ([[2, "Renamed", "sold"]], True),
        ([["tier", "zustand"], ["Bella", "sold"], ["Somebody new", "sold"]], True),
        ([["Row Labels", "Count"], ["available", 2], ["sold", 1], ["Total", 3]], False),
        ([["available", "may be bought"], ["sold", "is gone"]], False),
        ([[1, "Dogs"], [2, "Cats"]], False),
        ([["tier", "what to do"], ["Bella", "call the vet"]], False),
        ([["Titel"]], False),
        ([], False),
    ],
    ids=["headers", "none", "names", "pivot", "legend", "categories", "notes", "title", "empty"],
)
def test_a_worksheet_of_pets_without_a_known_header_is_reported(tmp_path, rows, is_reported):
    """Another visible worksheet is reported only if its rows are like the store's pets and no
    worksheet was chosen.
    """
    book = openpyxl.Workbook()
    book.active.append(["id", "name", "status"])
    book.active.append([1, "Rex", "sold"])
    other = book.create_sheet("Neu")
    for row in rows:
        other.append(row)
    path = tmp_path / "pets.xlsx"
    book.save(path)
    kinds = [Category(1, "Dogs"), Category(2, "Cats"), None]
    store = [
        Pet(id=n, name=name, status=status, category=kinds[n - 1])
        for n, (name, status) in enumerate(
            [("Rex", "sold"), ("Milo", "available"), ("Bella", "sold")], 1
        )
    ]

    def notes(sheet):
        return [note for note in plan_of(store, sheet).notes if note.startswith("Another visible")]

    assert len(notes(read_sheet(path))) == is_reported
    assert notes(read_sheet(path, tab="Sheet")) == []


@given(st.lists(pets(extra=st.none()), max_size=4, unique_by=lambda pet: pet.id))
def test_the_digest_is_that_of_the_pets_one_by_one(several: list[Pet]) -> None:
    """The digest by column is that of the pets' JSON, whatever texts they have and lack."""
    numbered = [pet for pet in several if pet.id is not None]
    table = table_from_pets(numbered)
    base = Base(pets=PetTable(table), store="s", taken_at="t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("petsync.table.base._ESCAPED", "")
        careful = Base(pets=PetTable(frame=frame_from_pets(numbered)), store="s", taken_at="t")
        expected = careful.digest
    assert base.digest == expected
