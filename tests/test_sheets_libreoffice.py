"""Exports that LibreOffice opens and saves: the same values and the same base.

The tests run the real program, and fail where it is missing.
"""

import random
import re
import subprocess
from datetime import UTC, datetime

import openpyxl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sheetmaking import assert_same_frames
from strategies import pets
from test_sheets_round_trip import TEXT, as_sheet_values, with_needed_ids

from petsync.models import MAX_ID, Category, Pet, Tag
from petsync.plan.change import Coverage, Snapshot
from petsync.plan.compare import compare
from petsync.plan.decide import SheetComparison
from petsync.sheets import read_sheet, write_sheet
from petsync.sheets.base import BASE_TAB
from petsync.sheets.exact import FRAGILE_TEXT, find_resaved_forms
from petsync.table.arrow import PetTable
from petsync.table.columns import COLUMNS
from petsync.table.frame import frame_from_pets, pets_from_frame
from petsync.table.lists import with_python_lists

pytestmark = [pytest.mark.office, pytest.mark.slow]

WORKBOOK = "xlsx:Calc MS Excel 2007 XML"
# Separated by commas, quoted, UTF-8; cells are saved as they are shown.
CSV = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true"
# The file is opened with every column as text.
OPENED_AS_TEXT = "CSV:44,34,76,1," + "/".join(f"{column}/2" for column in range(1, 9))

CHOSEN = [
    Pet(id=MAX_ID, name="Zoë 小雪 👩‍👩‍👧", category=Category(MAX_ID, "Dogs & <Cats>")),
    Pet(id=1, name="=1+1", status="sold", tags=(Tag(None, "=A1"), Tag(1, 'a; "b"'), Tag(2, "7:c"))),
    Pet(id=2, name="  two  ", photo_urls=("https://a.example/?x=1&y=2", "a | b", "c\nd", '"q"')),
    Pet(id=3, name="007", tags=(Tag(None, "TRUE"), Tag(None, "1e5")), photo_urls=("1", "2")),
    Pet(id=4, name="2026-11-21", status="available", category=Category(None, "1/2")),
    Pet(id=5, name="two\r\nlines\rand\n\rmore", photo_urls=("a\r\nb", "c")),
    Pet(id=6, name="two\nlines\nand\nmore", photo_urls=("a\nb", "c")),
    Pet(id=7, name="_x0041_x0042_", category=Category(1, "_x1_"), tags=(Tag(None, "_x000D_\r\n"),)),
    Pet(id=8, name="é e\u0301 \u00a0\u200b\ufeff\uffff\U0010ffff"),
    Pet(id=9, name="x" * 32_767, photo_urls=("y" * 32_000,)),
    Pet(id=-9, name="NA", status="#REF!", extra={"color": "red"}),
]


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """Return a function that opens a file with LibreOffice, saves it elsewhere and returns its
    path.
    """
    profile = tmp_path_factory.mktemp("office").as_uri()

    def save(path, kind=WORKBOOK, *options):
        folder = tmp_path_factory.mktemp("saved")
        program = ["soffice", f"-env:UserInstallation={profile}", "--headless", *options]
        command = [*program, "--convert-to", kind, "--outdir", str(folder), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        saved = folder / path.with_suffix(f".{kind.partition(':')[0]}").name
        assert saved.is_file(), done.stderr
        return saved

    return save


@pytest.fixture(scope="module")
def snapshot():
    """Return a snapshot of several hundred generated pets and of chosen difficult ones."""
    drawn = []

    @settings(
        max_examples=400,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(pets(TEXT, st.none()))
    def draw(pet):
        drawn.append(replace(pet, id=(-1) ** len(drawn) * (MAX_ID - 9 - len(drawn))))

    draw()
    assert len(drawn) > 250
    return Snapshot(
        pets=PetTable(frame=frame_from_pets(sorted([*drawn, *CHOSEN], key=lambda pet: pet.id))),
        coverage=Coverage(("available",)),
        source="http://shop.example/v2",
        taken_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


@pytest.fixture(scope="module")
def exported(snapshot, tmp_path_factory):
    """Return the workbook that petsync wrote."""
    path = tmp_path_factory.mktemp("exported") / "pets.xlsx"
    write_sheet(snapshot, path)
    return path


@pytest.fixture(scope="module")
def resaved_once(exported, office):
    """Return the workbook after LibreOffice saved it."""
    return office(exported)


def read(path, snapshot):
    """Return the sheet, read with the statuses of the store in either form of line ends."""
    statuses = set(snapshot.frame["status"].dropna())
    fed = {re.sub(r"\r\n|\n\r|\r", "\n", status) for status in statuses}
    return read_sheet(path, known_statuses=statuses | fed)


def exported_values(snapshot):
    """Return the values that an export of the snapshot has."""
    pets = with_needed_ids(pets_from_frame(snapshot.frame))
    return as_sheet_values(frame_from_pets(pets), is_export=True)


def test_a_workbook_says_the_same(resaved_once, snapshot):
    """Every value of every pet stays the same after the save, without an error."""
    sheet = read(resaved_once, snapshot)
    assert not sheet.errors
    rows = with_python_lists(sheet.rows)[list(COLUMNS)].reset_index(drop=True)
    assert_same_frames(rows, exported_values(snapshot))


def test_a_workbook_keeps_its_base(resaved_once, snapshot):
    """The base and its facts about the export stay the same after the save."""
    sheet = read(resaved_once, snapshot)
    assert sheet.base_refused == ""
    assert_same_frames(sheet.base.frame, snapshot.frame)
    assert sheet.base.store == snapshot.source


def test_a_base_that_was_deleted_is_missed_after_a_save(resaved_once, office, tmp_path):
    """The name of the base stays after a save, so a deleted base is still reported."""
    book = openpyxl.load_workbook(resaved_once)
    del book[BASE_TAB]
    path = tmp_path / "without.xlsx"
    book.save(path)
    for without in (path, office(path)):
        assert read_sheet(without).base_refused.endswith("'petsync base' was deleted")


def test_a_workbook_is_in_sync(resaved_once, snapshot):
    """A saved workbook without edits plans no change."""
    sheet = read(resaved_once, snapshot)
    plan = compare(SheetComparison(snapshot, sheet, {}), created="2026-11-21T00:00:00+00:00").plan
    assert (plan.changes, plan.conflicts, plan.blocked) == ((), (), ())
    assert plan.unchanged == len(snapshot)


def test_what_helps_people_stays(resaved_once):
    """The drop-downs, the filter and the guide stay after the save."""
    book = openpyxl.load_workbook(resaved_once)
    sheet = book["Pets"]
    assert book.active.title == "Pets"
    assert book.sheetnames[:2] == ["Pets", "How to use this sheet"]
    assert sheet.auto_filter.ref.startswith("A1:H")
    lists = {str(each.sqref)[0]: each for each in sheet.data_validations.dataValidation}
    assert set(lists) == {"C", "D", "H"}
    assert "merge" in lists["H"].formula1
    assert {each.type for each in lists.values()} == {"list"}


def test_an_edit_is_still_an_edit(exported, office, snapshot, tmp_path):
    """A cell that was edited before LibreOffice saved the file is the only planned change."""
    book = openpyxl.load_workbook(exported)
    ids_column = [cell.value for cell in book["Pets"]["A"]]
    book["Pets"].cell(ids_column.index("5") + 1, 2).value = "two\nlines"
    edited = tmp_path / "edited.xlsx"
    book.save(edited)
    sheet = read(office(edited), snapshot)
    plan = compare(SheetComparison(snapshot, sheet, {}), created="2026-11-21T00:00:00+00:00").plan
    assert [(change.after.id, change.fields) for change in plan.changes] == [(5, ("name",))]


def test_what_it_changes_is_known(office, tmp_path):
    """LibreOffice changes a text exactly as `find_resaved_forms` predicts, and no other text."""
    pieces = ["_", "x", "_x0041_", "_x005F_", "x0001_", "_x00_", "_x1_", "a", "\x01", "\r", "\n"]
    draw = random.Random(7)
    drawn = {"".join(draw.choices(pieces, k=draw.randint(1, 6))) for _ in range(3_000)}
    texts = sorted(text for text in drawn if text.strip())
    frame = frame_from_pets(Pet(id=n, name=text) for n, text in enumerate(texts))
    write_sheet(frame, tmp_path / "texts.xlsx", base=False)
    names = read_sheet(office(tmp_path / "texts.xlsx")).frame["name"]
    expected = [(find_resaved_forms(text, times=1) or [text])[0] for text in texts]
    assert dict(zip(texts, names, strict=True)) == dict(zip(texts, expected, strict=True))
    changed = [text for text, now in zip(texts, names, strict=True) if text != now]
    assert len(changed) > 100
    assert all(FRAGILE_TEXT.search(text) for text in changed)


def with_line_feeds(frame):
    """Return the table with every line end in its texts as a line feed."""

    def fed(value):
        if isinstance(value, list):
            return [fed(item) for item in value]
        if isinstance(value, Tag):
            return replace(value, name=fed(value.name))
        return re.sub(r"\r\n|\n\r|\r", "\n", value) if isinstance(value, str) else value

    texts = frame.select_dtypes(exclude="Int64")
    return frame.assign(**{name: texts[name].map(fed).astype(texts[name].dtype) for name in texts})


def test_a_csv_says_the_same(office, snapshot, tmp_path):
    """A CSV that is opened with text columns keeps its values, except for the kind of line ends."""
    path = tmp_path / "pets.csv"
    write_sheet(snapshot, path)
    sheet = read(office(path, CSV, f"--infilter={OPENED_AS_TEXT}"), snapshot)
    assert not sheet.errors
    rows = with_python_lists(sheet.rows)[list(COLUMNS)].reset_index(drop=True)
    assert_same_frames(
        with_line_feeds(rows),
        with_line_feeds(exported_values(snapshot).reset_index(drop=True)),
    )


LOST = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML lacks, and so OpenDocument; .xls reads a text that begins with U+FFFE as
another one.
"""
OTHER_FORMS = {"ods": "ods:calc8", "xls": "xls:MS Excel 97"}


def as_text(pet):
    """Return all texts of a pet."""
    names = [tag.name or "" for tag in pet.tags]
    category = pet.category.name if pet.category else ""
    return " ".join([pet.name or "", pet.status or "", category or "", *names, *pet.photo_urls])


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_another_format_of_it_has_the_base(office, snapshot, exported, tmp_path, form):
    """An export that LibreOffice saves as .ods or .xls keeps its base, also if the worksheet is
    deleted, and every text that has no characters that these formats lack.
    """
    path = office(exported, OTHER_FORMS[form])
    sheet = read(path, snapshot)
    assert sheet.form
    assert sheet.base_refused == ""
    assert_same_frames(sheet.base.frame, snapshot.frame)
    plan = compare(SheetComparison(snapshot, sheet, {}), created="2026-11-21T00:00:00+00:00").plan
    places = (*plan.updates, *plan.conflicts, *plan.blocked)
    pets_by_id = {pet.id: pet for pet in pets_from_frame(snapshot.frame)}
    lossless = [each for each in places if not LOST.search(as_text(pets_by_id[each.pet_id]))]
    assert not lossless
    book = openpyxl.load_workbook(exported)
    del book[BASE_TAB]
    book.save(tmp_path / "without.xlsx")
    refused = read_sheet(office(tmp_path / "without.xlsx", OTHER_FORMS[form]))
    assert refused.base_refused.endswith("'petsync base' was deleted")


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_another_format_has_every_text(office, tmp_path, form):
    """Of several thousand texts with line ends, spaces and characters beyond 16 bits in all places,
    LibreOffice's .ods and .xls files have each one as the export had it.
    """
    draw = random.Random(11)
    kinds = ["\r\n ", "\x85\u2028\ufdd0\ufeff\ufffd\U0001ffff\U0010ffff", "ab;\"'|_=[]"]

    def text():
        kind = draw.choice([*kinds, None])
        if kind is None:
            return chr(
                draw.choice([draw.randrange(0xA0, 0xD800), draw.randrange(0x10000, 1 << 20)])
            )
        return draw.choice(kind)

    some = [
        Pet(
            id=n, name=f"n{n}", photo_urls=("a", "".join(text() for _ in range(draw.randint(1, 6))))
        )
        for n in range(1, 4_001)
    ]
    write_sheet(frame_from_pets(some), tmp_path / "texts.xlsx")
    rows = with_python_lists(read_sheet(office(tmp_path / "texts.xlsx", OTHER_FORMS[form])).rows)
    kept = dict(zip(rows["id"], rows["photo_urls"], strict=True))
    expected = {pet.id: tuple(dict.fromkeys(pet.photo_urls)) for pet in some}
    lost = {n: (kept[n], expected[n]) for n in expected if tuple(kept[n]) != expected[n]}
    assert not lost
