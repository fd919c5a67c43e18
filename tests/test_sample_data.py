"""The files of sample_data/: the contents that the demo and the tests rely on, and their script."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from PIL import Image, ImageChops, ImageStat

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parent.parent / "sample_data"
TYPES = {".png": "PNG", ".jpg": "JPEG", ".webp": "WEBP", ".gif": "GIF"}
MADE = {
    "store.json",
    "catalogue_clean.xlsx",
    "catalogue_edited.xlsx",
    "mistakes.json",
    "new_arrivals.csv",
    "price_list_semicolon.csv",
    "from_excel_bom.csv",
    "reconcile/petsync.toml",
    "reconcile/tanks.xlsx",
    "reconcile/inbox/monday.csv",
    "reconcile/inbox/tuesday.csv",
    "reconcile/labels.csv",
}
STATUSES = {"available": 0.62, "pending": 0.18, "sold": 0.20}
Cells = dict[str, Any]


def make(folder: Path) -> None:
    subprocess.run([sys.executable, SAMPLES / "make.py", folder], check=True, capture_output=True)


def images(folder: Path = SAMPLES) -> list[Path]:
    return sorted((folder / "images").iterdir())


def members(path: Path) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Return the parts of a workbook; the deflated bytes around them depend on the zlib version."""
    with zipfile.ZipFile(path) as archive:
        return [(item.filename, item.date_time, archive.read(item)) for item in archive.infolist()]


def distance(one: Path, other: Path) -> float:
    """Return the mean difference of two pictures' samples, out of 255."""
    with Image.open(one) as a, Image.open(other) as b:
        difference = ImageChops.difference(a.convert("RGB"), b.convert("RGB"))
    return sum(ImageStat.Stat(difference).mean) / 3


def rows(name: str) -> dict[int, Cells]:
    """Return the rows of `Pets` that are not blank, by row number."""
    sheet = openpyxl.load_workbook(SAMPLES / name)["Pets"]
    head, *body = sheet.iter_rows(values_only=True)
    return {
        number: dict(zip(head, row, strict=True))
        for number, row in enumerate(body, 2)
        if any(value is not None for value in row)
    }


def content(pet: Cells) -> Cells:
    """Return a pet as the text of its cells, written by the grammar independently of the script."""
    tags = [f'"{tag["name"]}"' if ";" in tag["name"] else tag["name"] for tag in pet["tags"]]
    texts = {
        "name": pet["name"],
        "status": pet["status"],
        "category": pet.get("category", {}).get("name"),
        "category_id": str(pet["category"]["id"]) if "category" in pet else None,
        "tags": "; ".join(tags),
        "photo_urls": "\n".join(pet["photoUrls"]),
    }
    return {column: text or None for column, text in texts.items()}


@pytest.fixture(scope="module")
def pets() -> list[Cells]:
    loaded: list[Cells] = json.loads((SAMPLES / "store.json").read_bytes())
    return loaded


@pytest.fixture(scope="module")
def mistakes() -> list[Cells]:
    loaded: list[Cells] = json.loads((SAMPLES / "mistakes.json").read_bytes())
    return loaded


@pytest.fixture(scope="module")
def edited() -> dict[int, Cells]:
    return rows("catalogue_edited.xlsx")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample_data")
    make(folder)
    return folder


def test_script_twice(fresh: Path, tmp_path: Path) -> None:
    """Two runs write the same files, byte for byte, workbooks and pictures included."""
    make(tmp_path)
    files = [path.relative_to(fresh) for path in sorted(fresh.rglob("*")) if path.is_file()]
    assert len(files) == len(MADE) + 20
    for path in files:
        assert (tmp_path / path).read_bytes() == (fresh / path).read_bytes(), path


@pytest.mark.parametrize("name", sorted(MADE))
def test_kept_file_is_the_made_one(name: str, fresh: Path) -> None:
    """Each file in the repository is what the script writes."""
    if name.endswith(".xlsx"):
        assert members(SAMPLES / name) == members(fresh / name)
    else:
        assert (SAMPLES / name).read_bytes() == (fresh / name).read_bytes()


def test_kept_pictures_are_the_drawn_ones(fresh: Path) -> None:
    """Each kept picture shows what the script draws, within a tolerance for different encoders."""
    assert [path.name for path in images()] == [path.name for path in images(fresh)]
    for kept, drawn in zip(images(), images(fresh), strict=True):
        assert distance(kept, drawn) < 1.0, kept.name


def test_pictures_differ() -> None:
    """No two pictures are alike, so the tolerance of the comparison cannot hide an exchanged
    picture.
    """
    paths = images()
    pairs = [(a, b) for n, a in enumerate(paths) for b in paths[n + 1 :]]
    assert min(distance(a, b) for a, b in pairs) > 10.0


def test_catalogue_size(pets: list[Cells]) -> None:
    """The store has at least 1,200 pets with unique ids, some near the limit of int64, in all
    statuses.
    """
    ids = {pet["id"] for pet in pets}
    assert len(pets) == len(ids) >= 1200
    assert {9007199254740993, 9223372036854775806} <= ids
    share = {s: sum(pet["status"] == s for pet in pets) / len(pets) for s in STATUSES}
    assert share == pytest.approx(STATUSES, abs=0.02)


def test_catalogue_names(pets: list[Cells]) -> None:
    """The pets' names use many scripts and include names that spreadsheets convert."""
    names = {pet["name"] for pet in pets}
    assert sum(not pet["name"].isascii() for pet in pets) >= 100
    assert {"Zoë", "Björn", "小雪", "Łatka", "Чернышка", "Ñandú", "مشمش", "O'Malley"} <= names
    assert {"NA", "null", "=^.^=", "+1 (Bella's brother)", "007", "Coco 🐾"} <= names
    assert {"Tom, the Second", "Salt; Pepper"} <= names


def test_catalogue_contents(pets: list[Cells]) -> None:
    """No two pets have the same content, and each tag or category name has exactly one id."""
    contents = [json.dumps({**pet, "id": None}, sort_keys=True) for pet in pets]
    assert len(set(contents)) == len(contents)
    for labels in (
        {(tag["name"], tag["id"]) for pet in pets for tag in pet["tags"]},
        {tuple(pet["category"].values()) for pet in pets if "category" in pet},
    ):
        for place in (0, 1):
            assert len({label[place] for label in labels}) == len(labels) >= 14


def test_clean_workbook_agrees(pets: list[Cells]) -> None:
    """catalogue_clean.xlsx holds exactly the store's values of every pet, with ids as text."""
    lines = list(rows("catalogue_clean.xlsx").values())
    assert [row.pop("id") for row in lines] == [str(pet["id"]) for pet in pets]
    assert {row.pop("action") for row in lines} == {None}
    assert lines == [content(pet) for pet in pets]


def test_edited_workbook_keeps_the_limits(
    edited: dict[int, Cells], pets: list[Cells], mistakes: list[Cells]
) -> None:
    """The number of edits is as documented and stays below the guard's default limits."""
    known = {str(pet["id"]): content(pet) for pet in pets}
    spoilt = {int("".join(filter(str.isdigit, m["address"]))) for m in mistakes if m["blocks"]}
    usable = [row for number, row in edited.items() if number not in spoilt]
    by_action = {
        action: [row for row in usable if row["action"] == action]
        for action in (None, "merge", "update", "add", "delete", "ignore")
    }
    assert sum(map(len, by_action.values())) == len(usable)
    assert len(by_action["delete"]) == 40 <= 0.08 * len(known)
    assert len(by_action["ignore"]) == 6
    assert sum(row["id"] is None for row in usable) == 64
    changed = 0
    for row in (*by_action[None], *by_action["merge"], *by_action["update"]):
        if row["id"] in known:
            before = known[row["id"]]
            cells = {column: row[column] for column in before}
            cells["photo_urls"] = (cells["photo_urls"] or "").replace(" | ", "\n") or None
            changed += cells != before
    assert 210 <= changed <= 0.28 * len(known)


def test_mistakes_have_addresses(edited: dict[int, Cells], mistakes: list[Cells]) -> None:
    """Every planted mistake names a cell of an existing row and gives a reason in words."""
    sheet = openpyxl.load_workbook(SAMPLES / "catalogue_edited.xlsx")["Pets"]
    assert 40 <= len(mistakes) == len({mistake["address"] for mistake in mistakes})
    for mistake in mistakes:
        tab, _, place = mistake["address"].partition("!")
        assert tab == sheet.title
        assert sheet[place].row in edited
        assert sheet[place].value is not None or mistake["rule_hint"] == "name-missing"
        assert mistake["what"].endswith(".")
        assert mistake["seen_by"] in {"check", "plan"}
        assert isinstance(mistake["blocks"], bool)


def test_mistakes_are_in_the_cells(mistakes: list[Cells]) -> None:
    """The cells hold the mistakes that the list names: errors, dates, formulas, damaged numbers."""
    sheet = openpyxl.load_workbook(SAMPLES / "catalogue_edited.xlsx")["Pets"]
    kinds = {"error-cell": "e", "date-instead-of-text": "d", "formula-without-value": "f"}
    kinds |= {"id-imprecise": "n", "id-fraction": "n", "id-scientific": "s", "id-decimal": "s"}
    seen = set()
    for mistake in mistakes:
        if kind := kinds.get(mistake["rule_hint"]):
            seen.add(mistake["rule_hint"])
            assert sheet[mistake["address"].partition("!")[2]].data_type == kind, mistake
    assert seen == set(kinds)


def test_formulas_are_only_the_planted_ones(mistakes: list[Cells]) -> None:
    """A name that begins with an equals sign is text; the only formulas are planted mistakes."""
    for name in ("catalogue_clean.xlsx", "catalogue_edited.xlsx"):
        sheet = openpyxl.load_workbook(SAMPLES / name)["Pets"]
        cells = [cell for row in sheet.iter_rows() for cell in row]
        found = {f"Pets!{cell.coordinate}" for cell in cells if cell.data_type == "f"}
        planted = {m["address"] for m in mistakes if m["rule_hint"] == "formula-without-value"}
        assert found == (planted if "edited" in name else set())
        assert any(cell.value == "=^.^=" and cell.data_type == "s" for cell in cells)


@pytest.mark.parametrize(
    ("name", "delimiter", "count", "first"),
    [
        ("new_arrivals.csv", ",", 60, "name"),
        ("price_list_semicolon.csv", ";", 240, "ID"),
        ("from_excel_bom.csv", ",", 120, "id"),
    ],
)
def test_csv(name: str, delimiter: str, count: int, first: str) -> None:
    """Each CSV file has its number of rows, all as wide as the header, and non-ASCII text."""
    text = (SAMPLES / name).read_bytes().decode("utf-8-sig")
    head, *body = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    assert head[0] == first
    assert len(body) == count
    assert {len(row) for row in body} == {len(head)}
    assert not text.isascii()


def test_excel_csv_looks_like_excel() -> None:
    """from_excel_bom.csv has a byte order mark, CRLF rows, and line breaks inside quotes."""
    data = (SAMPLES / "from_excel_bom.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    assert data.count(b"\r\n") == 121
    assert data.count(b"\n") > 121


def test_pictures_are_what_their_suffix_says(pets: list[Cells]) -> None:
    """Each of the twenty small pictures opens, has the type of its suffix, and belongs to a pet of
    the store.
    """
    ids = {str(pet["id"]) for pet in pets}
    assert len(images()) == 20
    for path in images():
        with Image.open(path) as image:
            image.load()
            assert image.format == TYPES[path.suffix]
            assert image.size == (320, 240)
        assert 3_000 <= path.stat().st_size <= 25_000
        assert path.name.partition("-")[0] in ids
    assert {path.suffix for path in images()} == set(TYPES)


def test_everything_is_small() -> None:
    """The folder stays below 1.5 MB, so that the package can include it."""
    files = [*SAMPLES.glob("*.*"), *images()]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 1_500_000
