"""Small spreadsheets as different programs write them; tests mutate them."""

from __future__ import annotations

import datetime as dt
import io
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import openpyxl
from openpyxl.comments import Comment

SAMPLES = Path(__file__).parents[2] / "sample_data"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"

HEADER = ["id", "name", "status", "category", "tags", "photoUrls", "shelf"]
ROWS = [
    ["9223372036854775807", "Bello", "available", "Dogs", "a; 7:b", "https://x.org/1.png", "3"],
    ["2", "Zoë", "sold", "", '"c;d"', "", "2.5"],
    ["3", "Tom & Jerry", "pendign", "Cats", "", "https://x.org/2.png | x", ""],
    ["3", "", "sold", "", "", "", "7"],
    ["12.0", "  NA", "[clear]", "", "[clear]", "", "5"],
]


def zipped(parts: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]) -> bytes:
    """Return the bytes of a ZIP file with these members."""
    out = io.BytesIO()
    members = parts.items() if isinstance(parts, Mapping) else parts
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two members of one name may be meant
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def unzipped(data: bytes) -> list[tuple[str, bytes]]:
    """Return the members of a ZIP file, in their order."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def package(sheet: str, *, strings: str = "", styles: str = "", book: str = "") -> bytes:
    """Return a workbook of these parts, with the relations that they need."""
    targets = {"worksheets/sheet1.xml": ("worksheet", sheet)}
    if strings:
        targets["sharedStrings.xml"] = ("sharedStrings", strings)
    if styles:
        targets["styles.xml"] = ("styles", styles)
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{KINDS}/{kind}" Target="{target}"/>'
        for n, (target, (kind, _)) in enumerate(targets.items(), 1)
    )
    sheets = '<sheets><sheet name="Pets" sheetId="1" r:id="rId1"/></sheets>'
    root = f'<Relationship Id="rId1" Type="{KINDS}/officeDocument" Target="xl/workbook.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{root}</Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}">'
            f"{book}{sheets}</workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
            f"{links}</Relationships>",
            **{f"xl/{target}": text for target, (_, text) in targets.items()},
        }
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _is_number(text: str) -> bool:
    return text.replace(".", "").isdecimal() and len(text) < 10


def libreoffice() -> bytes:
    """Return a workbook as LibreOffice Calc saves it: all attributes written, all texts shared."""
    texts: list[str] = []
    rows = []
    for r, row in enumerate([HEADER, *ROWS], 1):
        cells = []
        for c, text in enumerate(row):
            place = f'r="{chr(65 + c)}{r}" s="{c % 3}"'
            if _is_number(text):
                cells.append(f'<c {place} t="n"><v>{text}</v></c>')
            elif text:
                texts.append(text)
                cells.append(f'<c {place} t="s"><v>{len(texts) - 1}</v></c>')
        hidden = str(r == 4).lower()
        rows.append(
            f'<row r="{r}" customFormat="false" ht="15" hidden="{hidden}" customHeight="false" '
            f'outlineLevel="0" collapsed="false">{"".join(cells)}</row>'
        )
    rows.append(
        '<row r="7" hidden="false"><c r="A7" s="0" t="e"><f aca="false">1/0</f><v>#DIV/0!</v></c>'
        '<c r="B7" s="2" t="n"><v>46024</v></c><c r="C7" s="1" t="b"><v>1</v></c>'
        '<c r="D7" s="1" t="str"><f aca="false">B2&amp;"x"</f><v>Bellox</v></c></row>'
    )
    items = "".join(f'<si><t xml:space="preserve">{_escaped(text)}</t></si>' for text in texts)
    return package(
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<worksheet xmlns="{MAIN}">'
        '<sheetPr filterMode="false"/><dimension ref="A1:G7"/><sheetViews><sheetView '
        'tabSelected="true" workbookViewId="0"/></sheetViews>'
        f"<sheetData>{''.join(rows)}</sheetData>"
        '<autoFilter ref="A1:G6"/><mergeCells count="1"><mergeCell ref="D6:E6"/></mergeCells>'
        "</worksheet>",
        strings=f'<sst xmlns="{MAIN}" count="24" uniqueCount="{len(texts)}">{items}</sst>',
        styles=f'<styleSheet xmlns="{MAIN}"><numFmts count="2"><numFmt numFmtId="164" '
        'formatCode="General"/><numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ h:mm:ss"/>'
        '</numFmts><cellXfs count="3"><xf numFmtId="164"/><xf numFmtId="49"/>'
        '<xf numFmtId="165"/></cellXfs></styleSheet>',
        book='<fileVersion appName="Calc"/><workbookPr date1904="false"/>',
    )


def inline() -> bytes:
    """Return a workbook of a small exporter: inline and rich texts, few references, a prefix."""
    rows = []
    for row in [HEADER, *ROWS]:
        cells = "".join(
            f"<x:c><x:v>{text}</x:v></x:c>"
            if _is_number(text)
            else f'<x:c t="inlineStr"><x:is><x:r><x:t>{_escaped(text[:2])}</x:t></x:r>'
            f"<x:r><x:t>{_escaped(text[2:])}</x:t></x:r></x:is></x:c>"
            for text in row
        )
        rows.append(f"<x:row>{cells}</x:row>")
    return package(
        f'<x:worksheet xmlns:x="{MAIN}"><x:sheetData>{"".join(rows)}</x:sheetData></x:worksheet>'
    )


def edited() -> bytes:
    """Return an edited sheet as openpyxl saves it: comments, merges, hidden rows, formulas."""
    book = openpyxl.Workbook()
    notes, pets = book.active, book.create_sheet("Our pets")
    notes.append(["Read me first"])
    for row in [["Spring catalogue"], HEADER, *ROWS]:
        pets.append([int(text) if text.isdecimal() and len(text) < 10 else text for text in row])
    pets["A8"], pets["B8"], pets["G5"] = "=A3+1", "#REF!", dt.date(2026, 1, 2)
    pets["G6"], pets["G7"] = True, 1.5e300
    pets["B3"].comment = Comment("a dog", "someone")
    pets.merge_cells("D5:E6")
    pets.row_dimensions[5].hidden = True
    pets.auto_filter.ref = "A2:G8"
    book.create_sheet("hidden").sheet_state = "veryHidden"
    return _saved(book)


def _saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def shortened(name: str) -> bytes:
    """Return one of the sample workbooks with only its first rows."""
    book = openpyxl.load_workbook(SAMPLES / name)
    for tab in book:
        tab.delete_rows(12, tab.max_row)
        for dimension in [n for n in tab.row_dimensions if n > 12]:
            del tab.row_dimensions[dimension]
    return _saved(book)


def sample(name: str) -> bytes:
    """Return one of the sample files unchanged."""
    return (SAMPLES / name).read_bytes()


def text(delimiter: str, newline: str, *, lines: int = 0) -> bytes:
    """Return a CSV file with quoted cells, line breaks in cells, and `lines` further records."""
    rows = [HEADER, *ROWS, ["8", 'say ""wow""', "sold", "a\nb", "x\r\ny", "", "'=1+1"]]
    rows += [[str(n), f"pet {n}", "sold", "", "", "", ""] for n in range(100, 100 + lines)]
    quoted = [[f'"{cell}"' if set(cell) & set(',;\t\r\n"') else cell for cell in r] for r in rows]
    return "".join(delimiter.join(row) + newline for row in quoted).encode()


@cache
def workbooks() -> dict[str, bytes]:
    """Return the workbooks by name."""
    return {
        "LibreOffice": libreoffice(),
        "inline": inline(),
        "openpyxl": edited(),
        "clean sample": shortened("catalogue_clean.xlsx"),
        "edited sample": shortened("catalogue_edited.xlsx"),
    }


@cache
def texts() -> dict[str, bytes]:
    """Return the CSV files by name."""
    return {
        "comma": text(",", "\n"),
        "semicolon": b"\xef\xbb\xbf" + text(";", "\r\n"),
        "tab": text("\t", "\r"),
        "sep line": b"sep=;\r\n" + text(";", "\r\n", lines=50),
        "title": b"Pets of 2026\n\n" + text(",", "\n", lines=200),
        "sample": sample("new_arrivals.csv"),
        "BOM sample": sample("from_excel_bom.csv"),
    }
