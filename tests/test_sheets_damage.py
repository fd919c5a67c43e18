"""Findings on Excel's own damage, on many mistakes in one row, and no findings on valid text."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path

import pandas as pd
import pytest
from effort import growth
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900
from sheetmaking import csv_of, list_findings, sheet_of, with_whole_tags, workbook_of
from shop import base_of

from petsync.models import Category, Pet, Tag
from petsync.sheets import read_sheet, sheet_from_frame, write_sheet
from petsync.sheets.validate.rules import RULES
from petsync.table.frame import frame_from_pets

pytestmark = pytest.mark.slow

URL = "https://example.org/1.jpg"
ODD = ["()", "set()", "(1, 'a')", "clear]", f"{URL};", f"{URL}&{URL}", f"{URL}\u00a6b"]
ODD += ["[]", "['a']", "[Tag(1)", "(clear)", "[ clear ]", "a,b", "http://ahttps://b", f"{URL}, b"]


def test_no_problem_hides_another_in_its_row(tmp_path: Path) -> None:
    """A row that breaks a rule in each cell has a finding for each, in the columns' order."""
    header = ["id", "name", "status", "category", "category_id", "tags", "photo_urls", "action"]
    row = ["x1", "[clear]", "solld", "#N/A", "dogs", '"a', '"b', "zap"]
    rules = [
        "id-not-a-number",
        "clear-refused",
        "unknown-status",
        "error-cell",
        "id-not-a-number",
        "tags-unreadable",
        "photos-unreadable",
        "unknown-action",
    ]
    book = sheet_of(tmp_path, [header, row])
    assert list_findings(book) == [
        (f"Pets!{c}2", r) for c, r in zip("ABCDEFGH", rules, strict=True)
    ]
    quoted = ('"' + cell.replace('"', '""') + '"' for cell in row)
    text = csv_of(tmp_path, ",".join(header) + "\n" + ",".join(quoted) + "\n")
    assert [each.rule for each in text.problems] == rules
    assert text.errors == 8
    assert text.findings["row"].tolist() == [2] * 8


def test_no_problem_hides_another_in_its_cell(tmp_path: Path) -> None:
    """A cell with several problems has a finding for each."""
    name = "ZoÃ« \u200b" + "x" * 260
    sheet = csv_of(tmp_path, f"id,name\n1,{name}\n")
    assert {each.rule for each in sheet.problems} == {
        "damaged-characters",
        "invisible-characters",
        "name-long",
    }
    tags = "\u00a0calm;; shy; calm; e\u0301"
    sheet = csv_of(tmp_path, f"id,tags\n1,{tags}\n")
    assert {each.rule for each in sheet.problems} == {
        "decomposed-characters",
        "no-break-space",
        "tag-repeated",
        "tags-separators",
    }


def test_a_date_is_a_date_and_nothing_else(tmp_path: Path) -> None:
    """A date in a cell is one finding, and not an unknown status or action as well."""
    day = dt.date(2026, 5, 1)
    sheet = sheet_of(tmp_path, [["id", "status", "tags", "action"], [1, day, day, day]])
    assert [each.rule for each in sheet.problems] == ["date-instead-of-text"] * 3
    assert sheet.problems[0].suggestion == RULES["date-instead-of-text"].cure


@pytest.mark.parametrize(
    ("day", "typed"),
    [
        (dt.date(2026, 5, 1), 'If "May 1", "5/1" or "1/5" was typed, format'),
        (dt.date(2026, 4, 3), 'If "Apr 3", "4/3" or "3/4" was typed, format'),
        (dt.date(2026, 6, 6), 'If "Jun 6" or "6/6" was typed, format'),
        (
            dt.datetime.fromisoformat("2026-12-10T08:30"),
            'If "Dec 10", "12/10" or "10/12" was typed, format',
        ),
        (dt.time(8, 30), "Format the cell as text"),
    ],
)
def test_dates_where_text_was_are_named(tmp_path: Path, day: object, typed: str) -> None:
    """The suggestion for a date lists the texts from which Excel may have made it."""
    sheet = sheet_of(tmp_path, [["id", "name"], [1, day]])
    assert list_findings(sheet) == [("Pets!B2", "date-instead-of-text")]
    assert sheet.problems[0].suggestion.startswith(typed)


@pytest.mark.parametrize(
    "shown",
    [
        *("#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", "#SPILL!", "#BEZUG!"),
        *("#WERT!", "#NV", "#NOM?", "#VALEUR!", "#¡REF!", "Err:502", "########"),
        *("#ERROR!", "#PYTHON!"),
    ],
)
def test_errors_in_a_csv_file_are_errors(tmp_path: Path, shown: str) -> None:
    """The text of a spreadsheet error in a CSV is an error, and none reaches a store."""
    sheet = csv_of(tmp_path, f"id,name,tags\n1,{shown},\n{shown},Bello,\n3,Rex,{shown}\n")
    assert list_findings(sheet) == [
        ("line 2, column 2", "error-cell"),
        ("line 3, column 1", "error-cell"),
        ("line 4, column 3", "error-cell"),
    ]
    assert {each.value for each in sheet.problems} == {shown}
    assert sheet.blocked == (2, 3, 4)


@pytest.mark.parametrize(
    ("epoch", "cell", "number"),
    [
        (CALENDAR_MAC_1904, dt.date(1916, 5, 2), "4505"),
        (CALENDAR_WINDOWS_1900, dt.date(1912, 5, 1), "4505"),
        (CALENDAR_MAC_1904, dt.date(1904, 1, 1), None),
        (CALENDAR_WINDOWS_1900, dt.date(1900, 2, 28), None),
        (CALENDAR_WINDOWS_1900, dt.datetime.fromisoformat("1912-05-01T12:00"), None),
    ],
)
def test_a_date_in_an_id_is_the_number_that_its_workbook_counts(
    tmp_path: Path, epoch: dt.datetime, cell: dt.date, number: str | None
) -> None:
    """The number of a date depends on the day from which its workbook counts; a date with a time is
    no whole number.
    """
    book = workbook_of([["id", "name"], [None, "Bello"]])
    book.epoch = epoch
    book.active["A2"].value = cell
    book.save(tmp_path / "pets.xlsx")
    (finding,) = read_sheet(tmp_path / "pets.xlsx").problems
    assert (finding.rule, finding.meant) == ("id-not-a-cell", number)


@pytest.mark.parametrize(("cell", "shown"), [("#¿NOMBRE?", "#¿NOMBRE?"), ("#" * 90, "###")])
def test_an_error_is_named_in_full(tmp_path: Path, cell: str, shown: str) -> None:
    """A finding names the error as its cell shows it; many hashes are shortened."""
    (finding,) = csv_of(tmp_path, f"id,name\n1,{cell}\n").problems
    assert finding.problem.startswith(f"The cell shows {shown}: ")


@pytest.mark.parametrize("name", ["#1", "#winning", "##", "NA", "Ref!", "E.", "Err", "#"])
def test_names_with_a_hash_are_names(tmp_path: Path, name: str) -> None:
    """Only the whole text of a spreadsheet error is an error."""
    sheet = csv_of(tmp_path, f"id,name\n1,{name}\n")
    assert not sheet.problems
    assert sheet.frame["name"].tolist() == [name]


def test_an_error_in_an_id_is_not_blank(tmp_path: Path) -> None:
    """An id cell with an error does not make its row an addition."""
    sheet = sheet_of(tmp_path, [["name", "id"], ["Bello", "#N/A"], ["Rex", "=A1"]])
    assert list_findings(sheet) == [("Pets!B2", "error-cell"), ("Pets!B3", "formula-without-value")]
    assert not len(sheet)


def test_errors_at_the_edge_of_the_table_are_found(tmp_path: Path) -> None:
    """A row or a column with nothing but errors is not blank."""
    sheet = sheet_of(tmp_path, [["id", "name", "tags"], [1, "Bello", "#N/A"], [None, "#REF!"]])
    assert list_findings(sheet) == [("Pets!C2", "error-cell"), ("Pets!B3", "error-cell")]


@pytest.mark.parametrize(
    "shown",
    [
        *("1.2E+15", "1,20E+06", "01-May", "1-Dec-26", "May-20", "3. Mrz", "5/1/2026"),
        *("2026-05-01 00:00:00", "2026-05-01", "01.05.2026"),
    ],
)
def test_what_excel_leaves_in_a_csv_file_is_named(tmp_path: Path, shown: str) -> None:
    """A name that looks like a converted date or number is used, with a warning."""
    sheet = csv_of(tmp_path, f"id;name\n1;{shown}\n")
    assert list_findings(sheet) == [("line 2, column 2", "looks-converted")]
    assert sheet.frame["name"].tolist() == [shown]


@pytest.mark.parametrize(
    "name", ["R2-D2", "Jean-2", "May", "May Day", "7-Up", "3 Dogs", "E+", "1E", "10-4", "Sept-11"]
)
def test_names_with_numbers_are_names(tmp_path: Path, name: str) -> None:
    """A name with a number that no program converts is not a finding."""
    assert not csv_of(tmp_path, f"id,name\n1,{name}\n").problems


@pytest.mark.parametrize(
    "text",
    [
        "👨‍👩‍👧",
        "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
        "می‌خواهم",
        "क्‍ष",
        "\u200fשלום\u200f",
        "naïve",
        "Łódź",
        "😀\ufe0f",
        "日本　語",
        "a\tb\nc",
    ],
)
def test_the_spelling_of_scripts_and_emoji_is_no_finding(tmp_path: Path, text: str) -> None:
    """Joiners in emoji and scripts, and direction marks in right-to-left text, are not findings."""
    sheet = csv_of(tmp_path, f'id,name\n1,"{text}"\n')
    assert not [each for each in sheet.problems if each.rule == "invisible-characters"]


@pytest.mark.parametrize("code", [1, 0x7F, 0xAD, 0x200B, 0x200E, 0x202E, 0x2060, 0xFEFF, 0xE0020])
@pytest.mark.parametrize("column", ["name", "status", "category", "tags"])
def test_a_character_that_cannot_be_seen_is_named(tmp_path: Path, code: int, column: str) -> None:
    """An invisible character in any column is reported with its code point."""
    sheet = csv_of(tmp_path, f"id,{column}\n1,so{chr(code)}ld\n")
    finding = next(each for each in sheet.problems if each.rule == "invisible-characters")
    assert f"U+{code:04X} (" in finding.problem
    assert finding.column == column


@pytest.mark.parametrize(
    "status", ["s\u043eld", "s\u200bold", "ѕоld", "ｓｏｌｄ", "so\u00adld"], ids=ascii
)
def test_a_status_that_only_looks_right_gets_its_suggestion(tmp_path: Path, status: str) -> None:
    """A status with letters of another script or invisible characters gets the intended status and
    the reason.
    """
    sheet = csv_of(tmp_path, f"id,status\n1,{status}\n")
    hint = next(each.suggestion for each in sheet.problems if each.rule == "unknown-status")
    assert hint.startswith("Write sold if you mean that: th")


@pytest.mark.parametrize(
    ("tags", "found_"),
    [
        (["calm, shy"], 1),
        (["calm, shy", "calm; old"], 1),
        (["good with cats, dogs", "good with cats; calm"], 1),
        (['"calm, shy"'], 0),
        (['"calm, shy"; old'], 0),
        (['"calm, shy"; old, grey'], 1),
        (["1,5 kg"], 0),
        (["calm,", ",calm", ","], 3),
        (["calm | shy", "a; b"], 1),
        (["a|b", "a\tb"], 2),
        (["calm\nshy", "a; b"], 1),
        (["calm\uff1bshy", "calm\uff0cshy", "calm\u3001shy", "a\u060cb", "\u8336", "\u00fc"], 4),
        (["shy, 105:loud", "104:shy; 7:senior"], 1),
        (['5" high, shy; calm'], 1),
    ],
)
def test_tags_that_are_separated_otherwise_are_never_one(
    tmp_path: Path, tags: list[str], found_: int
) -> None:
    """A cell with wrongly separated tags blocks its row, whatever other cells hold; quotes make it
    one tag.
    """
    sheet = sheet_of(tmp_path, [["id", "tags"], *([n, tag] for n, tag in enumerate(tags, 1))])
    assert [each.rule for each in sheet.problems] == ["tags-commas"] * found_
    assert len(sheet) == len(tags) - found_


@given(
    texts=st.lists(
        st.text(st.sampled_from("ab1 ,;|\n\t\uff1b\u3001\uff5c\u00a6[](){}'\":/"))
        | st.sampled_from(ODD),
        min_size=1,
        max_size=4,
    )
)
def test_what_an_export_writes_of_a_list_is_never_doubted(texts: list[str]) -> None:
    """Tags and addresses of any text that come as lists stay unchanged, without an error."""
    frame = pd.DataFrame({"id": [1], "tags": [texts], "photo_urls": [texts]})
    sheet = sheet_from_frame(frame)
    assert not sheet.errors
    assert [tag.name for tag in sheet.frame["tags"][0]] == list(dict.fromkeys(texts))
    assert sheet.frame["photo_urls"][0] == list(dict.fromkeys(texts))


@pytest.mark.parametrize("run", [",", " ", ", ", " ,", "|", " |", "\uff1b", "x,", "https://"])
def test_long_runs_of_separators_are_read_in_time(run: str) -> None:
    """Tags and addresses with very many separators are read within a minute."""
    text = f"https://a{run * 200_000}|b"
    start = time.process_time()
    sheet_from_frame(
        pd.DataFrame({"id": [1, 2], "tags": [text, "x"], "photo_urls": [text, [text]]})
    )
    # Usually less than a second; a quadratic search takes minutes.
    assert time.process_time() - start < 60


def test_a_tag_that_the_export_has_is_one(tmp_path: Path) -> None:
    """A tag with a comma that the base has is one tag, so an older export without quotes is in
    sync.
    """
    pet = Pet(id=1, name="Bello", tags=(Tag(None, "calm, shy"),), photo_urls=(f"{URL}|b",))
    path = tmp_path / "pets.csv"
    write_sheet(frame_from_pets([pet]), path, base=base_of([pet]))
    text = path.read_text("utf-8-sig")
    assert '"""calm, shy"""' in text
    plain = text.replace('"""calm, shy"""', '"calm, shy"')
    path.write_text(plain.replace(f'"""{URL}|b"""', f"{URL}|b"))
    assert not read_sheet(path).problems
    path.write_text(text.replace('"""calm, shy"""', '"calm, old"'))
    assert list_findings(read_sheet(path))[0][1] == "tags-commas"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[Tag(106, 'young'), Tag(None, \"it's\")]", "106:young; it's"),
        ("['calm', \"it's\"]", "calm; it's"),
        ("['calm' 'a;b']", 'calm; "a;b"'),
        ('["calm", "shy"]', "calm; shy"),
        ('[{"id":1,"name":"calm"},{"name":"shy"}]', "1:calm; shy"),
        ("[{'id': 1, 'name': 'calm'}]", "1:calm"),
        ("('calm',)", "calm"),
        ("(Tag(101, 'calm'),)", "101:calm"),
        ("(Tag(101, 'calm'), Tag(104, 'shy'))", "101:calm; 104:shy"),
        ("{Tag(101, 'calm')}", "101:calm"),
        ("frozenset({Tag(101, 'calm')})", "101:calm"),
        ("[(101, 'calm'), (104, 'shy')]", "101:calm; 104:shy"),
        ("deque(['calm'], maxlen=3)", "calm"),
        ("list(['calm'])", "calm"),
        ("dict_values(['calm', 'shy'])", "calm; shy"),
        ("Index(['calm'], dtype='str', name='tags')", "calm"),
        ("<StringArray>", None),
        ("<generator object tags at 0x7f0>", None),
        ("[1, 'calm'", None),
        ("[]", None),
        ("[Tag(id=1, name='a', extra={})]", None),
        ("['calm', [", None),
        ("['" + "[" * 30_000, None),
    ],
)
def test_the_list_of_a_program_is_an_error_with_what_is_meant(
    tmp_path: Path, text: str, meant: str | None
) -> None:
    """The printed list of a program is an error, with the intended text if it is known."""
    sheet = sheet_of(tmp_path, [["id", "tags"], [1, text]])
    assert list_findings(sheet) == [("Pets!B2", "list-text")]
    assert sheet.problems[0].meant == meant
    assert sheet.blocked == (2,)


EMPTY = ["()", "( )", "[ ]", "{}", "set()", "frozenset()", "deque([])", "dict_keys([])"]


@pytest.mark.parametrize("text", [*EMPTY, "array([], dtype=object)", "Series([], dtype: object)"])
def test_the_empty_list_of_a_program_is_an_error_in_each_column(tmp_path: Path, text: str) -> None:
    """An empty printed list is an error as tags, address or category, and a warning as a name."""
    sheet = sheet_of(tmp_path, [["id", "tags", "photo_urls", "category"], [1, text, text, text]])
    assert [each.rule for each in sheet.problems] == ["list-text", "list-text", "category-text"]
    for each in sheet.problems:
        assert each.meant is None
        assert each.suggestion.startswith("Leave the cell blank")
        assert "[clear]" in each.suggestion
    (name,) = sheet_of(tmp_path, [["id", "name"], [1, text]]).problems
    assert (name.rule, name.severity, name.meant) == ("name-text", "warning", None)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("['Bella']", "Bella"),
        ("('Bella',)", "Bella"),
        ("(1, 'Bella')", "Bella"),
        ("('Bella', 'Rex')", None),
        ("[1, 'Bella']", None),
    ],
)
def test_a_name_or_category_in_the_list_of_a_program_is_pointed_out(
    tmp_path: Path, text: str, meant: str | None
) -> None:
    """A printed list is an error as a category and a warning as a name, because a pet may have any
    name.
    """
    sheet = sheet_of(tmp_path, [["id", "name", "category"], [1, text, text], [2, text, None]])
    assert [each.rule for each in sheet.problems] == ["name-text", "category-text", "name-text"]
    assert {each.meant for each in sheet.problems} == {meant}
    assert sheet.frame["name"].tolist() == [text]


@pytest.mark.parametrize(
    "text", ["calm (101)", "(old) cat", "5 (five)", "good(1)", "Rex (2)", "<3", "list", "(set)"]
)
def test_texts_with_brackets_of_their_own_are_left_alone(tmp_path: Path, text: str) -> None:
    """A text with brackets that no program prints for a list is not a finding."""
    assert not sheet_of(tmp_path, [["id", "name", "category", "tags"], [1, *[text] * 3]]).problems


def test_what_the_export_has_is_no_list_of_a_program(tmp_path: Path) -> None:
    """Values of the base that look like printed lists are not errors: a store may have them."""
    texts = ["()", "set()", "('a',)", "(1, 'a')", "deque(['a'])", "[1, 'a']", "<Array>"]
    pets = [
        Pet(
            id=n, name=text, category=Category(n, text), tags=(Tag(None, text),), photo_urls=(text,)
        )
        for n, text in enumerate(texts, 1)
    ]
    for name in ("pets.csv", "pets.xlsx"):
        write_sheet(frame_from_pets(pets), tmp_path / name, base=base_of(pets))
        sheet = read_sheet(tmp_path / name)
        assert {each.rule for each in sheet.problems} <= {"photo-not-an-address"}
        assert with_whole_tags(sheet.frame["tags"]) == [[Tag(None, text)] for text in texts]


@pytest.mark.parametrize("write", ["to_excel", "to_csv", "to_json_lists"])
def test_a_frame_that_pandas_saved_is_refused_cell_by_cell(tmp_path: Path, write: str) -> None:
    """Each list in a file that pandas wrote is an error, and every row is blocked."""
    pets = [Pet(id=n, name="x", tags=(Tag(n, "calm"),), photo_urls=(URL,)) for n in range(1, 4)]
    frame, path = frame_from_pets(pets), tmp_path / "pets.csv"
    if write == "to_excel":
        path = tmp_path / "pets.xlsx"
        frame.to_excel(path, index=False)
    elif write == "to_csv":
        frame.to_csv(path, index=False)
    else:
        lists = frame.assign(
            tags=[json.dumps([tag.name for tag in tags]) for tags in frame["tags"]],
            photo_urls=frame["photo_urls"].map(json.dumps),
        )
        lists.to_csv(path, index=False)
    sheet = read_sheet(path)
    assert {each.rule for each in sheet.problems} <= {"list-text", "number-instead-of-text"}
    assert sum(each.rule == "list-text" for each in sheet.problems) == 6
    assert len(sheet.blocked) == 3


def test_commas_between_tags_of_an_export_are_fixed_in_the_suggestion(tmp_path: Path) -> None:
    """The suggestion keeps the tags' ids and separates only the tags that a comma joins."""
    sheet = csv_of(tmp_path, 'id,tags\n1,"104:shy; senior, calm"\n2,7:senior; 9:calm\n')
    assert sheet.problems[0].suggestion.startswith(
        "Write 104:shy; senior; calm (without quotes) if"
    )


@pytest.mark.parametrize(
    ("photos", "found_"),
    [
        (f"{URL}, {URL}", 1),
        (f"{URL};{URL}", 1),
        (f"{URL} {URL}", 1),
        (f"{URL} | {URL}?2 | {URL}?3", 0),
        (f"{URL}?a=1,2;3", 0),
        (f"https://web.archive.org/web/2020/{URL}", 0),
        (f'"{URL}, {URL}"', 0),
        ("data:image/png;base64,iVBORw0KGgo=", 0),
        (f"{URL}|{URL}", 1),
        (f"{URL}{URL}", 1),
        (f"{URL},\u00a0{URL}", 1),
        (f"{URL}\n{URL}x{URL}\nhttp://a", 1),
        (f"https://proxy.example/?url={URL}", 0),
        (f'"{URL}|{URL}"', 0),
        (f"{URL}&{URL}", 1),
        (f"{URL}&amp;{URL}?2", 1),
        (f"{URL}\uff5c{URL}", 1),
        (f"{URL} \u00a6 {URL}?2", 1),
        (f"{URL}\uff5c2.jpg", 1),
        (f"{URL};", 1),
        (f"{URL},", 1),
        (f"{URL}\uff1b", 1),
        (f"{URL};\n{URL}?2", 1),
        (f'"{URL};"', 0),
        (f"{URL}?a=1&b=http", 0),
        ("https://example.org/\u00fc.jpg", 0),
    ],
)
def test_addresses_that_stand_in_one_are_named(tmp_path: Path, photos: str, found_: int) -> None:
    """Two addresses with a wrong separator in between are reported."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, photos]])
    assert [each.rule for each in sheet.problems] == ["photos-separators"] * found_


@pytest.mark.parametrize("sign", [";", ",", ";;", "\uff1b", "\u3001", "|", " \u00a6"])
def test_a_separator_at_the_end_of_an_address_is_none_of_it(tmp_path: Path, sign: str) -> None:
    """A separator after an address is reported, and the suggestion is the address alone."""
    rows = [["id", "photo_urls"], [1, URL + sign], [2, URL], [3, URL + sign]]
    sheet = sheet_of(tmp_path, rows)
    assert list_findings(sheet) == [
        ("Pets!B2", "photos-separators"),
        ("Pets!B4", "photos-separators"),
    ]
    assert {each.meant for each in sheet.problems} == {URL}
    assert sheet.problems[0].suggestion.startswith(f"Write {URL} instead. ")


@pytest.mark.parametrize(
    "text",
    [
        *("\uff3bclear\uff3d", "\u3010Clear\u3011", "\uff08clear\uff09", "\u300cclear\u300d"),
        *("clear]", "CLEAR )", "[clear", "clear\u3011", "\uff1cclear\uff1e"),
    ],
)
@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_the_marker_in_other_brackets_is_never_a_text(
    tmp_path: Path, text: str, suffix: str
) -> None:
    """A [clear] in other brackets is a finding, as it may be meant to clear the field; an exported
    text like it is none.
    """
    header = ["id", "category", "tags", "photo_urls"]
    if suffix == ".csv":
        sheet = csv_of(tmp_path, f"{','.join(header)}\n1,{text},{text},{text}\n2,a,b; {text},\n")
    else:
        sheet = sheet_of(tmp_path, [header, [1, text, text, text], [2, "a", f"b; {text}"]])
    rules = [each.rule for each in sheet.problems]
    assert rules == ["clear-spelling"] * 3 + ["clear-beside-others"]
    assert sheet.problems[0].suggestion.startswith("Write [clear] to empty")
    pet = Pet(id=1, name=text, category=Category(1, text), tags=(Tag(None, text), Tag(None, "a")))
    path = tmp_path / f"out{suffix}"
    write_sheet(frame_from_pets([pet]), path, base=base_of([pet]))
    again = read_sheet(path)
    assert not again.problems
    assert again.rows[["name", "category"]].to_numpy().tolist() == [[text, text]]
    assert with_whole_tags(again.frame["tags"]) == [[*pet.tags]]


@pytest.mark.parametrize("blank", ["\t", " \t", "\u3000", "\u2003", "\u200b", "\v"])
def test_white_space_before_a_quote_is_an_error(tmp_path: Path, blank: str) -> None:
    """White space before a quote is an error, as the quotes would be part of the name; an exported
    name like it is none.
    """
    sheet = csv_of(tmp_path, f'id,name,status\n1001,{blank}"Bella",sold\n1002,{blank}Rex,sold\n')
    assert list_findings(sheet)[0] == ("line 2, column 2", "quote-after-space")
    assert sheet.blocked == (2,)
    pet = Pet(id=1, name=f'{blank}"Bella"')
    write_sheet(frame_from_pets([pet]), tmp_path / "out.csv", base=base_of([pet]))
    again = read_sheet(tmp_path / "out.csv")
    assert {each.rule for each in again.problems} <= {"invisible-characters"}
    assert again.frame["name"].tolist() == [pet.name]


@pytest.mark.parametrize(
    ("photo", "hint"),
    [
        ("www.example.org/1.jpg", "It may be https://www.example.org/1.jpg."),
        ("images.example.org/1.jpg", "It may be https://images.example.org/1.jpg."),
        ("htps://e.org/1.jpg", "It may be https://e.org/1.jpg."),
        ("http:/e.org/1.jpg", "It may be http://e.org/1.jpg."),
        ("file:///C:/1.jpg", "This is a file on a computer"),
        (r"C:\Photos\1.jpg", "This is a file on a computer"),
        (r"\\server\1.jpg", "This is a file on a computer"),
        ("see Dropbox", "Upload the photo and write its address"),
        ("1.jpg", "Upload the photo and write its address"),
    ],
)
def test_what_is_no_address_of_a_photo_gets_a_suggestion(
    tmp_path: Path, photo: str, hint: str
) -> None:
    """A photo that is not an address is a warning with a suggestion, and its row is used."""
    sheet = sheet_of(tmp_path, [["id", "photo_urls"], [1, photo]])
    assert list_findings(sheet) == [("Pets!B2", "photo-not-an-address")]
    assert sheet.problems[0].suggestion.startswith(hint)
    assert sheet.frame["photo_urls"].tolist() == [[photo]]


@pytest.mark.parametrize(
    "photo",
    ["HTTPS://E.ORG/1.JPG", "/images/1.jpg", "s3://bucket/1.jpg", "data:image/png;base64,x"],
)
def test_other_addresses_are_left_alone(tmp_path: Path, photo: str) -> None:
    """A relative path or another scheme is a valid address."""
    assert not sheet_of(tmp_path, [["id", "photo_urls"], [1, photo]]).problems


def test_merged_titles_are_no_finding(tmp_path: Path) -> None:
    """Merged cells above the header, or in columns that petsync does not use, are not findings."""
    rows = [["Pets of the month", None, None], ["id", "name", "Shelf"], [1, "Bello", "A"]]
    book = workbook_of([*rows, [2, "Rex", None]])
    book.active.merge_cells("A1:C1")
    book.active.merge_cells("C3:C4")
    book.save(tmp_path / "pets.xlsx")
    sheet = read_sheet(tmp_path / "pets.xlsx")
    assert not sheet.problems
    assert len(sheet) == 2


def test_a_thousand_merged_ranges_cost_nothing(tmp_path: Path) -> None:
    """The time to read merged ranges grows linearly with their number."""
    for count in (250, 1000):
        rows = range(2, 2 + 2 * count)
        book = workbook_of([["id", "name"], *([n, f"Pet {n}"] for n in rows)])
        for row in rows[::2]:
            book.active.merge_cells(f"B{row}:B{row + 1}")
        book.save(tmp_path / f"{count}.xlsx")
    assert growth(lambda count: read_sheet(tmp_path / f"{count}.xlsx"), 250) < 5
    sheet = read_sheet(tmp_path / "1000.xlsx")
    assert [each.rule for each in sheet.problems] == ["merged-cells"] * 1000


def test_hidden_columns_to_the_end_of_the_sheet_cost_nothing(tmp_path: Path) -> None:
    """Hidden columns that petsync does not use are not findings, up to the end of the sheet."""
    book = workbook_of([["id", "name"], [1, "Bello"]])
    book.active.column_dimensions.group("C", "XFD", hidden=True)
    book.save(tmp_path / "pets.xlsx")
    assert not read_sheet(tmp_path / "pets.xlsx").problems


def test_the_same_mistake_in_every_row_is_found_in_every_row(tmp_path: Path) -> None:
    """A mistake that every row has is reported in every row."""
    rows = "".join(f"{n},Sold\n" for n in range(1, 241))
    sheet = csv_of(tmp_path, f"id,status\n{rows}")
    assert [each.rule for each in sheet.problems] == ["status-spelling"] * 240
    assert len(sheet) == 240


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_what_an_export_wrote_is_no_mistake(tmp_path: Path, suffix: str) -> None:
    """Exported texts like formulas, markers, errors and tags with commas read back without an
    error.
    """
    text = (
        "id,name,tags\n1,'=A1,\"calm, dogs\"\n2,'[clear],a; b\n3,'#N/A,c\n"
        '4,"\'=HYPERLINK(""x"")",d\n'
    )
    first = csv_of(tmp_path, text)
    write_sheet(first, tmp_path / f"again{suffix}")
    again = read_sheet(tmp_path / f"again{suffix}")
    assert [each.rule for each in again.problems] == ["error-text"]
    assert again.frame["name"].tolist() == first.frame["name"].tolist()
