"""Pictures in a folder or a sheet: which file belongs to which pet, and what is reported of all
others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from picturing import image, put

import petsync as ps
from petsync.errors import SettingsError, SheetError
from petsync.images.find import (
    DEFAULT_PATTERNS,
    ImageMatches,
    Patterns,
    find_in_folder,
    find_in_sheet,
)
from petsync.models import MAX_ID
from petsync.sandbox import Sandbox


def look(folder: Path, *templates: str, **options: object) -> ImageMatches:
    """Return the pictures and problems in the folder."""
    return find_in_folder(folder, Patterns.of(templates or DEFAULT_PATTERNS), **options)  # type: ignore[arg-type]


def collect_problems(found: ImageMatches) -> dict[str, str]:
    """Return the problem of each file that is not a picture of a pet."""
    return {problem.file: problem.problem for problem in found.problems}


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        ("{id}", "7", (7, 0)),
        ("{id}", "007", (7, 0)),
        ("{id}", str(MAX_ID), (MAX_ID, 0)),
        ("{id}", str(MAX_ID + 1), None),
        ("{id}", "9" * 200, None),
        ("{id}", "-7", None),
        ("{id}", "٧", None),
        ("{id}_{n}", "7_02", (7, 2)),
        ("{id}_{n}", "7_", None),
        ("{id}-*", "1001-bella", (1001, 0)),
        ("{id}*", "12abc34", (12, 0)),
        ("*{id}", "abc12", (12, 0)),
        ("*_{id}", "a_1_22", (22, 0)),
        ("pet {id} ({n})", "pet 7 (3)", (7, 3)),
        ("{id}.{n}", "7x3", None),
        ("{n}-{id}", "2-7", (7, 2)),
    ],
)
def test_template(template: str, name: str, expected: tuple[int, int] | None) -> None:
    """A template reads the pet id and the number from a file name, or nothing."""
    found = Patterns.of(template).parse_name(name)
    assert (found and tuple(found)) == expected


@pytest.mark.parametrize(
    "template",
    ["", "{n}", "*", "{id}{n}", "{n}{id}", "{id}_{id}", "*{id}*", "{pet}", "{id", "a/{id}", 7],
)
def test_template_that_cannot_be_used(template: object) -> None:
    """A template without one clear id is refused with an example."""
    with pytest.raises(SettingsError) as caught:
        Patterns.of([template])  # type: ignore[list-item]
    assert "{id}-{n}" in caught.value.hint


@given(st.text(max_size=250))
def test_any_name_is_read_quickly(name: str) -> None:
    """No file name makes a template slow or raises an error."""
    for template in ("{id}_{n}", "*{id}_{n}", "{id}*{n}"):
        Patterns.of(template).parse_name(name + "1" * 250)


def test_everything_in_a_folder_is_reported(tmp_path: Path) -> None:
    """Files with a picture's ending and a pet id are candidates, system files are counted, and
    every other file is reported.
    """
    content = image()
    folder = put(tmp_path / "f", p7__PNG=content, p7_2__JPEG=content, p8__webp=content)
    put(folder, notes__txt=b"x", Thumbs__db=b"x", pportrait__png=content, p9__bmp=b"BM")
    for name in (".DS_Store", "desktop.ini", ".hidden.png"):
        (folder / name).write_bytes(b"x")
    (folder / "7.jpg").mkdir()
    (folder / "old").mkdir()
    (folder / ".jpg").write_bytes(content)
    found = look(folder)
    taken = {(one.file, one.pet_id, one.place) for one in found.candidates}
    assert taken == {("7.PNG", 7, 0), ("7_2.JPEG", 7, 2), ("8.webp", 8, 0), ("9.bmp", 9, 0)}
    assert set(collect_problems(found)) == {"notes.txt", "portrait.png", "7.jpg", "old"}
    assert {p.file for p in found.problems if p.blocks} == {"portrait.png", "7.jpg"}
    assert found.ignored == 5


@pytest.mark.parametrize("name", ["7\n8.png", "7\u202egnp.exe.png", 'a"b.png', "7 .png", "７.png"])
def test_strange_names_are_reported(tmp_path: Path, name: str) -> None:
    """A file name with a line break, a direction mark or a quote is reported, and is never read as
    an id.
    """
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / name).write_bytes(image())
    assert list(collect_problems(look(folder))) == [name]


@pytest.mark.skipif(os.name != "posix", reason="names are bytes here")
def test_name_that_is_no_text_is_reported(tmp_path: Path) -> None:
    """A file name in another encoding is reported in a form that can be shown."""
    (tmp_path / os.fsdecode(b"7\xff.png")).write_bytes(image())
    assert list(collect_problems(look(tmp_path))) == ["7\N{REPLACEMENT CHARACTER}.png"]


def test_recursive(tmp_path: Path) -> None:
    """Subfolders are searched only with `recursive`, and hidden ones never."""
    put(tmp_path / "a" / "b", p7__png=image())
    put(tmp_path / ".git", p8__png=image())
    assert not look(tmp_path).candidates
    found = look(tmp_path, recursive=True)
    assert [one.file for one in found.candidates] == ["a/b/7.png"]
    assert found.ignored == 1


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    """A link to a file inside the folder is accepted; a link to the outside, to nothing, to itself
    or to a folder is reported.
    """
    outside = put(tmp_path / "outside", p1__png=image())
    folder = put(tmp_path / "f", real__png=image())
    (folder / "2.png").symlink_to(folder / "real.png")
    (folder / "3.png").symlink_to(outside / "1.png")
    (folder / "4.png").symlink_to(folder / "nothing.png")
    (folder / "5.png").symlink_to(folder / "5.png")
    (folder / "6.png").symlink_to(folder)
    (folder / "out").symlink_to(outside)
    found = look(folder, recursive=True)
    assert [one.file for one in found.candidates] == ["2.png"]
    assert set(collect_problems(found)) == {"3.png", "4.png", "5.png", "6.png", "real.png", "out"}


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_pipe_does_not_hang(tmp_path: Path) -> None:
    """A named pipe with the name of a picture is reported and never read."""
    os.mkfifo(tmp_path / "7.png")
    assert collect_problems(look(tmp_path)) == {"7.png": "it is not a regular file"}


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """A missing folder, or a file in its place, is an error that names it."""
    for path in (tmp_path / "none", put(tmp_path, file=b"") / "file"):
        with pytest.raises(SheetError, match=path.name):
            look(path)


# Sheets ----------------------------------------------------------------------------------------


def sheet(folder: Path, *rows: str, header: str = "id;name;Image;caption") -> ps.types.Sheet:
    """Return a sheet in the folder."""
    path = put(folder) / "sheet.csv"
    path.write_text("\n".join([header, *rows, ""]), "utf-8")
    return ps.read_sheet(path)


def listed(folder: Path, *rows: str, **options: object) -> ImageMatches:
    """Return the pictures that the column Image of such a sheet names."""
    return find_in_sheet(sheet(folder, *rows), "image", folder=folder, **options)  # type: ignore[arg-type]


def test_cells_name_files(tmp_path: Path) -> None:
    """A cell contains one or several paths in their order, with quotes as in photo_urls; a blank
    cell gives no picture.
    """
    put(tmp_path / "pics", p1__png=image(), p2__png=image())
    (tmp_path / "a | b.png").write_bytes(image())
    found = listed(
        tmp_path,
        "7;Rex;pics/2.png | pics/1.png;two",
        '8;Mia;"""a | b.png""";',
        "9;Tom;;no picture",
        "10;Kim;pics\\1.png;from Windows",
        metadata_column="caption",
        metadata="else",
    )
    taken = [(one.file, one.pet_id, one.place, one.metadata) for one in found.candidates]
    assert taken == [
        ("pics/2.png", 7, 0, "two"),
        ("pics/1.png", 7, 1, "two"),
        ("a | b.png", 8, 0, "else"),
        ("pics\\1.png", 10, 0, "from Windows"),
    ]
    assert not found.problems
    assert found.candidates[0].source == "line 2, column 3"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("https://shop.example/7.jpg", "URL"),
        ("file:///etc/passwd", "URL"),
        ("../secret.png", "outside"),
        ("/etc/hostname", "outside"),
        ("none.png", "no such file"),
        ("pics", "not a regular file"),
        ('"""open"', "cannot be read"),
        ("a" * 5000, "no such file"),
    ],
)
def test_cells_that_name_no_file(tmp_path: Path, cell: str, message: str) -> None:
    """A cell that names no file in the folder is reported: no URL is fetched, and no path leaves
    the folder.
    """
    (tmp_path / "secret.png").write_bytes(image())
    put(tmp_path / "in" / "pics")
    (problem,) = listed(tmp_path / "in", f"7;Rex;{cell};").problems
    assert message in problem.problem
    assert problem.source == "line 2, column 3"


def test_rows_without_a_sure_pet(tmp_path: Path) -> None:
    """The pictures of a row without a readable id are reported and belong to no pet."""
    put(tmp_path, p1__png=image())
    found = listed(tmp_path, ";New;1.png;", "x;Odd;1.png;")
    assert not found.candidates
    assert sorted(p.row for p in found.problems) == [2, 3]


def test_rows_that_the_reader_takes_for_one(tmp_path: Path) -> None:
    """A second row of a pet that differs only in picture and caption is a problem with its row
    number, so its picture is not left out silently.
    """
    put(tmp_path, p1__png=image(), p2__png=image(colour=(1, 2, 3)))
    found = listed(tmp_path, "7;Rex;1.png;one", "7;Rex;2.png;two")
    assert [each.file for each in found.candidates] == ["1.png"]
    (problem,) = found.problems
    assert (problem.row, problem.pet_id, problem.blocks) == (3, 7, True)
    assert "is not used" in problem.problem


@pytest.mark.parametrize("column", ["photo", "photo_urls", "id"])
def test_column_that_is_not_there(tmp_path: Path, column: str) -> None:
    """A column that the sheet lacks, or that is one of petsync's own, is refused with the names of
    the others.
    """
    with pytest.raises(SheetError) as caught:
        find_in_sheet(sheet(tmp_path, "7;Rex;1.png;"), column, folder=tmp_path)
    assert "'Image', 'caption'" in caught.value.hint


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a store with two pets, one available and one sold."""
    pets = [ps.Pet(id=7, name="Rex", status="available"), ps.Pet(id=8, name="Mia", status="sold")]
    with (
        Sandbox(auth=False, pets=pets) as box,
        ps.connect(box.url, state=tmp_path / "state", environ={}) as store,
    ):
        yield store


def test_workbook_of_pictures(tmp_path: Path, store: ps.Store) -> None:
    """A workbook's column of files is read and uploaded, and each problem has the address of its
    cell.
    """
    put(tmp_path / "pics", p1__png=image(), p2__png=image(colour=(0, 9, 0)))
    book = openpyxl.Workbook()
    tab = book.active
    assert tab is not None
    tab.title = "Shop"
    tab.append(["id", "name", "Picture", "said"])
    tab.append(["7", "Rex", "1.png\n2.png", "in the sun"])
    tab.append(["8", "Mia", "gone.png", None])
    book.save(tmp_path / "sheet.xlsx")
    pictures = store.pictures(
        tmp_path / "sheet.xlsx",
        column="picture",
        tab="Shop",
        folder=tmp_path / "pics",
        metadata_column="SAID",
    )
    assert [(p.file, p.source, p.metadata) for p in pictures.pictures] == [
        ("1.png", "Shop!C2", "in the sun"),
        ("2.png", "Shop!C2", "in the sun"),
    ]
    assert [p.source for p in pictures.problems] == ["Shop!C3"]
    report = store.upload(pictures)
    assert [r.outcome for r in report.results] == ["applied", "applied", "needs fixing"]


def test_a_sheet_of_pictures_in_another_encoding(tmp_path: Path, store: ps.Store) -> None:
    """A sheet of pictures in another encoding is read with the given encoding."""
    put(tmp_path, p1__png=image())
    (tmp_path / "sheet.csv").write_bytes("id;Bild;Text\n7;1.png;schön\n".encode("cp1252"))
    given = {"column": "Bild", "metadata_column": "Text"}
    with pytest.raises(SheetError, match="is not UTF-8"):
        store.pictures(tmp_path / "sheet.csv", **given)
    pictures = store.pictures(tmp_path / "sheet.csv", encoding="cp1252", **given)
    assert [each.metadata for each in pictures.pictures] == ["schön"]


def test_options_that_belong_elsewhere(tmp_path: Path, store: ps.Store) -> None:
    """A sheet without a column, and a folder with an option for sheets, are refused."""
    with pytest.raises(SettingsError, match="column"):
        store.pictures(tmp_path / "sheet.xlsx")
    for option in ("tab", "encoding", "folder", "metadata_column"):
        with pytest.raises(SettingsError, match=option):
            store.pictures(tmp_path, **{option: "x"})
