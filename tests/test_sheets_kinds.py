"""Files of another kind than a sheet: each error names the kind and how to get a sheet from it."""

import gzip
import hashlib
import json
import os
import re
import threading
import zipfile

import pandas as pd
import pytest
from sheetmaking import assert_same_frames
from specimens import libreoffice, unzipped, zipped

from petsync.errors import SettingsError, SheetError
from petsync.sheets import files, read_sheet, write_back, write_results

OLE = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(600)
RECORD = b"id,name\n1,Bello\n"


def stream(name):
    """Return the start of an old or encrypted Office file with a stream of this name."""
    return OLE + name.encode("utf-16-le")


WIDE = "id,name\n1,Zoë\n"

FOREIGN = {
    "an empty file": ("a.csv", b"", "is empty", "Get it again from its source"),
    "blank lines alone": ("a.csv", b"\r\n \n", "is empty", "Get it again from its source"),
    "an empty workbook": ("a.xlsx", b"", "is empty", "Get it again from its source"),
    "NUL bytes alone": ("a.xlsx", bytes(4096), "only NUL bytes", "Get it again from its source"),
    "NUL bytes for an end": (
        "a.csv",
        RECORD + bytes(4096),
        "4,096 NUL bytes",
        "Get it again from its source",
    ),
    "a password": ("a.xlsx", stream("EncryptedPackage"), "by a password", "Encrypt with Password"),
    "a password, named .xls": ("a.xls", stream("EncryptedPackage"), "by a password", "LibreOffice"),
    "a damaged old workbook": ("a.xls", stream("Workbook"), "workbook is damaged", "as .xlsx"),
    "an old workbook, renamed": ("a.xlsx", stream("Workbook"), "workbook is damaged", "as .xlsx"),
    "a very old workbook": ("a.xls", b"\x09\x08\x10\0\0\x06", "old Excel file", "Save As"),
    "an old Word document": ("a.xlsx", stream("WordDocument"), "Word document", "export one"),
    "a binary workbook": ("a.xlsx", zipped({"xl/workbook.bin": b""}), "is damaged", "as .xlsx"),
    "a binary workbook by name": ("a.xlsb", b"PK\3\4", "end of the workbook is", "get it again"),
    "an OpenDocument sheet": (
        "a.xlsx",
        b"PK\3\4" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
        "OpenDocument sheet is damaged",
        "save it again",
    ),
    "an OpenDocument sheet by name": ("a.ods", b"PK\3\4", "OpenDocument sheet", "save it again"),
    "an OpenDocument text": (
        "a.ods",
        b"PK\3\4" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.text",
        "an OpenDocument file, but not a sheet",
        "export one",
    ),
    "a text named .ods": ("a.ods", RECORD, "this is not an OpenDocument sheet", "with .csv"),
    "a text named .xls": ("a.xls", RECORD, "this is not an Excel workbook", "with .csv"),
    "a text named .parquet": ("a.parquet", RECORD, "this is not a Parquet file", "with .csv"),
    "a flat OpenDocument sheet": (
        "a.txt",
        b'<?xml version="1.0"?>\n<office:document>',
        "OpenDocument sheet",
        ".xlsx",
    ),
    "a Numbers document": ("a.numbers", b"PK\3\4", "Numbers document", "Export To, Excel"),
    "a Numbers document, renamed": (
        "a.xlsx",
        zipped({"Index/Document.iwa": b""}),
        "Numbers document",
        "Export To, Excel",
    ),
    "a Word document": ("a.xlsx", zipped({"word/document.xml": b""}), "Word", "export one"),
    "a packed sheet": (
        "a.zip",
        zipped({"pets/spring.xlsx": b"", "pets/a.csv": b""}),
        "ZIP file, not an Excel workbook",
        "It contains pets/spring.xlsx, pets/a.csv. Unpack it",
    ),
    "another ZIP file": ("a.xlsx", zipped({"readme": b""}), "ZIP file, not an Excel", "no sheet"),
    "compressed with gzip": ("a.csv", gzip.compress(RECORD), "compressed with gzip", "Unpack it"),
    "a web page": ("a.xlsx", b"<!doctype HTML><p>", "is a web page", "sign-in"),
    "a web page for a CSV": ("a.csv", b"\xef\xbb\xbf\n<html>", "is a web page", "sign-in"),
    "a table as a web page": ("a.xls", b"<table><tr><td>", "is a web page", "Excel"),
    "an XML spreadsheet": (
        "a.xls",
        b'<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>',
        "XML spreadsheet of Excel 2003",
        "Save As",
    ),
    "a service's answer": ("a.xlsx", b'{"message": "no"}', "is JSON", "export one"),
    "pets as JSON for a CSV": ("a.csv", b'[{"id": 1}]', "is JSON", "ends in .json"),
    "a Google shortcut": (
        "a.gsheet",
        json.dumps({"doc_id": "x"}).encode(),
        "shortcut to a Google sheet",
        "File, Download, Microsoft Excel",
    ),
    "a Google shortcut, renamed": (
        "a.xlsx",
        b'{"url": "https://docs.google.com/open?id=x"}',
        "shortcut to a Google sheet",
        "File, Download, Microsoft Excel",
    ),
    "a pointer of Git LFS": (
        "a.xlsx",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "pointer that Git LFS left",
        "git lfs pull",
    ),
    "the lock of Excel": (
        "~$pets.xlsx",
        b"\5Mary",
        "lock file of a program that has pets.xlsx open",
        "Save pets.xlsx",
    ),
    "the lock of LibreOffice": (
        ".~lock.pets.xlsx#",
        b",mary,",
        "lock file of a program that has pets.xlsx open",
        "Save pets.xlsx",
    ),
    "a PDF": ("a.xlsx", b"%PDF-1.7\n", "is a PDF", "made from"),
    "a picture": ("a.csv", b"\x89PNG\r\n\x1a\n", "is a picture", "made from"),
    "a damaged Parquet file": ("a.csv", b"PAR1....", "Parquet file cannot be", "get it again"),
    "half a download": ("a.xlsx.crdownload", b"PK\3\4", "still being downloaded", "Wait until"),
    "half a workbook": ("a.xlsx", libreoffice()[:900], "end of the workbook is missing", "wait"),
    "a CSV named .xlsx": (
        "a.xlsx",
        b"\xef\xbb\xbf\r\n id,name\r\n1,Bello\r\n",
        "not an Excel workbook; it begins with the text “id,name”",
        "ends with .csv",
    ),
    "anything named .xlsx": (
        "a.xlsx",
        b"\1\2\xff",
        "not an Excel workbook; it begins with the bytes 01 02 FF",
        "get it again from its source",
    ),
    "another suffix": ("a.docm", RECORD, "'?.docm'? is not a kind of sheet", ".csv"),
    "no suffix": ("pets", RECORD, "a file without a suffix is not a kind", ".csv"),
    "UTF-16": ("a.csv", WIDE.encode("utf-16"), "UTF-16, not UTF-8", "--encoding utf-16,"),
    "UTF-16 without a mark": ("a.csv", WIDE.encode("utf-16-le"), "UTF-16", "--encoding utf-16-le"),
    "UTF-16, the other way": ("a.csv", WIDE.encode("utf-16-be"), "UTF-16", "--encoding utf-16-be"),
    "UTF-32": ("a.csv", WIDE.encode("utf-32"), "UTF-32, not UTF-8", "--encoding utf-32"),
    "Windows-1252": (
        "a.csv",
        WIDE.encode("cp1252"),
        r"line 2, byte 13 of the file \(0xEB\) is not UTF-8; as Windows-1252 it reads '1,Zoë'",
        '--encoding cp1252, in Python encoding="cp1252"',
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_sheet_is_named_with_the_way_to_one(tmp_path, case):
    """The error names the file and its kind, and the hint how to get a sheet from it."""
    name, data, what, way = FOREIGN[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SheetError, match=what) as caught:
        read_sheet(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert way in caught.value.cure


def test_a_workbook_that_holds_other_documents_is_a_workbook(tmp_path):
    """A workbook with embedded documents, whose parts are in its bytes, is read as a workbook."""
    path = tmp_path / "pets.xlsx"
    document = zipped({"word/document.xml": b"", "xl/workbook.bin": b"", "pets.csv": b""})
    members = [*unzipped(libreoffice()), ("xl/embeddings/letter.docx", document)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    assert len(read_sheet(path))


@pytest.mark.parametrize("style", ["no folder", "backslashes", "another folder"])
def test_a_workbook_may_have_its_parts_anywhere(tmp_path, style):
    """A workbook's parts are found by its relations, in any folder and with backslashes."""
    path = tmp_path / "pets.xlsx"
    places = {"no folder": "", "another folder": "book/", "backslashes": "xl/"}
    members = []
    for name, data in unzipped(libreoffice()):
        moved = name.replace("xl/", places[style], 1)
        if name.endswith((".rels", ".xml")):
            data = data.replace(b"/xl/", b"/" + places[style].encode())
            data = data.replace(b'"xl/', b'"' + places[style].encode())
        members.append((moved, data))
    if style == "backslashes":
        members = [
            (name.replace("/", "\\"), re.sub(rb'(Target="[^"]*)/', rb"\1\\", data))
            for name, data in members
        ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    (tmp_path / "usual.xlsx").write_bytes(libreoffice())
    usual, sheet = read_sheet(tmp_path / "usual.xlsx"), read_sheet(path)
    assert_same_frames(sheet.frame, usual.frame)
    assert len(sheet)
    write_results(sheet, results_of(sheet), tmp_path / "done.xlsx")
    assert_same_frames(read_sheet(tmp_path / "done.xlsx").frame, usual.frame)


def results_of(sheet):
    """Return the results of a run that left every row unchanged."""
    row = {"outcome": "unchanged", "message": "", "assigned_id": None}
    return pd.DataFrame([row] * len(sheet), index=sheet.frame.index)


ENCODED = 'id;name;status\r\n1;"Zoë; Müller";sold\r\n2;Łódź;sold\r\n'


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8", "utf-32", "cp1250", "CP1252"])
def test_a_csv_file_is_read_in_the_encoding_that_is_named(tmp_path, encoding):
    """A CSV in the named encoding reads like one in UTF-8, and so does its copy with results."""
    text = ENCODED.replace("Łódź", "Rex") if encoding == "CP1252" else ENCODED
    path = tmp_path / "pets.csv"
    path.write_bytes(text.encode(encoding))
    sheet = read_sheet(path, encoding=encoding)
    assert sheet.frame["name"].tolist() == ["Zoë; Müller", text.splitlines()[2].split(";")[1]]
    assert sheet.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    write_results(sheet, results_of(sheet), tmp_path / "done.csv")
    again = read_sheet(tmp_path / "done.csv", encoding=encoding)
    assert_same_frames(again.frame, sheet.frame)
    assert again.others["outcome"].tolist() == ["unchanged"] * 2


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("cp1252", "Łódź"),
        ("cp932", "\u301cRex"),
        ("shift_jis", "\u00a5 100"),
        ("euc_jp", "\u203e"),
        ("cp950", "Rex \u2022"),
        ("euc_kr", "\u3164 Rex"),
    ],
)
def test_results_that_an_encoding_cannot_hold_are_written_in_utf8(tmp_path, encoding, message):
    """Results that an encoding cannot represent, or would change, are written in UTF-8 with a byte
    order mark.
    """
    path, text = tmp_path / "pets.csv", "id;name;status\r\n1;Mia;sold\r\n2;Rex;sold\r\n"
    path.write_bytes(text.encode(encoding))
    sheet = read_sheet(path, encoding=encoding)
    results = results_of(sheet).assign(message=message)
    backup = write_back(sheet, results)
    assert backup.read_bytes() == text.encode(encoding)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_sheet(path).others["message"].tolist() == [message] * 2
    with pytest.raises(
        SheetError, match=f"byte order mark of UTF-8, so it is not {encoding}"
    ) as caught:
        read_sheet(path, encoding=encoding)
    assert caught.value.hint == "Leave out the encoding."


@pytest.mark.parametrize(
    ("name", "encoding", "why"),
    [
        ("pets.csv", "ascii", "the file is not ascii: byte 22 of the file"),
        ("pets.csv", "utf-8", "the file is not utf-8: byte 22 of the file"),
        ("pets.xlsx", "cp1252", "a workbook, which needs no encoding"),
    ],
)
def test_an_encoding_that_cannot_be_is_refused(tmp_path, name, encoding, why):
    """An encoding that does not fit the file, or is given for a workbook, is refused."""
    path = tmp_path / name
    path.write_bytes(libreoffice() if name.endswith("x") else ENCODED.encode("cp1250") + b"x")
    with pytest.raises(SheetError, match=why) as caught:
        read_sheet(path, encoding=encoding)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("pets.csv", "a text file"),
        ("pets.csv.gz", "a compressed file"),
        ("pets.json", "a JSON file"),
        ("pets.parquet", "a Parquet file"),
    ],
)
def test_a_worksheet_of_a_file_without_worksheets_is_refused(tmp_path, name, what):
    """A worksheet is refused for a file that has none, with the option and the argument."""
    path = tmp_path / name
    table = pd.DataFrame({"id": [1], "name": ["Rex"]})
    if "csv" in name:
        table.to_csv(path, index=False)
    elif "json" in name:
        table.to_json(path, orient="records")
    else:
        table.to_parquet(path)
    assert len(read_sheet(path)) == 1
    with pytest.raises(SheetError, match=f"this is {what}, which has no worksheets") as caught:
        read_sheet(path, tab="My pets")
    assert "--sheet 'My pets', in Python tab='My pets'" in caught.value.cure
    assert "--sheet" not in str(caught.value)


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "undefined", "idna", "", "a\0b"])
@pytest.mark.parametrize("content", [ENCODED.encode(), ENCODED.encode("utf-8-sig"), b""])
def test_an_unknown_encoding_is_a_mistake_in_the_call(tmp_path, name, content):
    """An unknown encoding is a SettingsError for any file, also for a missing one."""
    path = tmp_path / "pets.csv"
    if content:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match="there is no text encoding") as caught:
        read_sheet(path, encoding=name)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("written", "encoding"),
    [
        ("utf-8-sig", "cp1252"),
        ("utf-8-sig", "utf-16"),
        ("utf-16", "utf-8"),
        ("utf-16", "cp1252"),
        ("utf-16", "utf-16-be"),
        ("utf-32", "utf-16"),
    ],
)
def test_a_byte_order_mark_is_not_contradicted(tmp_path, written, encoding):
    """An encoding that contradicts the byte order mark is refused, and the error names the mark."""
    path = tmp_path / "pets.csv"
    path.write_bytes(ENCODED.encode(written))
    mark = written.removesuffix("-sig").upper()
    with pytest.raises(SheetError, match=f"byte order mark of {mark}, so it is not {encoding}"):
        read_sheet(path, encoding=encoding)
    fitting = {"utf-8-sig": "utf8", "utf-16": "UTF-16LE", "utf-32": "utf_32"}[written]
    assert len(read_sheet(path, encoding=fitting)) == 2


def test_the_encoding_stays_with_a_sheet_that_is_judged_again(tmp_path):
    """A sheet that is checked again with the store's statuses keeps its encoding."""
    path = tmp_path / "pets.csv"
    path.write_bytes(ENCODED.replace("sold", "lent").replace("Łódź", "Rex").encode("cp1252"))
    sheet = read_sheet(path, encoding="cp1252")
    assert sheet.with_statuses({"lent"}).encoding == "cp1252"


@pytest.mark.parametrize(
    "text", ['"id"|"name"\n"7"|"Bello, the dog"\n', "sep=|\nid|name\n7|Bello, the dog\n"]
)
def test_a_bar_separates_cells_too(tmp_path, text):
    """A vertical bar is a delimiter, also where every cell is quoted."""
    (tmp_path / "pets.csv").write_text(text)
    sheet = read_sheet(tmp_path / "pets.csv")
    assert sheet.frame["name"].tolist() == ["Bello, the dog"]
    assert not sheet.problems


def test_a_folder_names_the_sheets_in_it(tmp_path):
    """The error of a folder names the sheets in it."""
    (tmp_path / "pets.csv").touch()
    (tmp_path / "notes.md").touch()
    with pytest.raises(SheetError, match="this is a folder") as caught:
        read_sheet(tmp_path)
    assert "there is pets.csv" in caught.value.hint


def test_a_missing_file_of_the_current_folder(tmp_path, monkeypatch):
    """The error of a missing file without a folder lists the sheets of this folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.csv").touch()
    with pytest.raises(SheetError) as caught:
        read_sheet("pet.csv")
    assert caught.value.hint == "In this folder there is pets.csv."


def test_a_missing_folder_differs_from_a_missing_file(tmp_path):
    """The error of a file in a missing folder reports that the folder is missing."""
    with pytest.raises(SheetError, match="there is no such file") as caught:
        read_sheet(tmp_path / "summer" / "pets.csv")
    assert "There is no folder" in caught.value.hint


@pytest.mark.parametrize("path", ["/dev/zero", "pets\0.csv", "x" * 5000 + ".csv"])
def test_a_path_that_leads_to_no_file_is_refused_at_once(path):
    """An endless device and a name that no file can have are refused with a hint."""
    with pytest.raises(SheetError) as caught:
        read_sheet(path)
    assert path in caught.value.message
    assert caught.value.hint


def test_a_pipe_is_not_waited_for(tmp_path):
    """A pipe without a writer is refused, and the reader does not wait."""
    path = tmp_path / "pets.csv"
    os.mkfifo(path)
    with pytest.raises(SheetError, match="a device or a pipe"):
        read_sheet(path)


def test_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path):
    """A file of three gigabytes is refused before it is read, and the error names the limit."""
    path = tmp_path / "pets.csv"
    with path.open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(
        SheetError, match=r"is 3\.0 GB, and the limit for a sheet is 1\.1 GB"
    ) as caught:
        read_sheet(path)
    assert "Split it" in caught.value.hint


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path):
    """A file that grows while it is read is refused, so that no half file is used."""
    path, begun, done = tmp_path / "pets.csv", threading.Event(), threading.Event()
    path.write_bytes(RECORD * 3_000_000)

    def write():
        with path.open("ab", buffering=0) as file:
            while not done.is_set():
                file.write(b"2,Rex\n")
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    try:
        with pytest.raises(SheetError, match="changed while it was read") as caught:
            read_sheet(path)
    finally:
        done.set()
        writer.join()
    assert "Wait until" in caught.value.hint


@pytest.mark.parametrize("piece", [b"x", b",", b'""', b'"a",'])
@pytest.mark.parametrize("head", [RECORD, RECORD.replace(b"\n", b"\r")])
def test_a_line_without_an_end_is_refused_at_once(tmp_path, piece, head):
    """A line that is longer than any row is an error that names the line, before it is parsed."""
    path = tmp_path / "pets.csv"
    path.write_bytes(head + piece * (files.MAX_LINE // len(piece) + 1))
    with pytest.raises(SheetError, match="line 3 has more than 16 MiB without a line break"):
        read_sheet(path)


def test_long_files_of_short_lines_pass():
    """A long file of short lines is accepted, with any line end."""
    for end in (b"\n", b"\r", b"\r\n"):
        files.check_lines("pets.csv", (b"1,Bello" + end) * 3_000_000)
