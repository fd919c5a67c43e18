"""Realistic workbooks, for the tests of copies that change a few cells."""

import io
import re
import zipfile

import openpyxl
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.drawing.image import Image
from openpyxl.formatting.rule import CellIsRule
from openpyxl.styles import Border, Font, PatternFill, Side
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table
from PIL import Image as Picture

ROWS = [
    ["id", "name", "status", "tags", "Price"],
    ["1", "Bello", "sold", "calm", 10],
    ["2", "Rex", "solld", "calm;; shy", 20],
    ["x", "Mia", "available", "", "=SUM(E2:E3)"],
    ["4", "  Zoë", "Sold ", None, None],
]
OURS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def rich(path, *, table=False, notes=(), comments=()):
    """Write a workbook with titles, colours, borders, formulas with values, a chart, an image, a
    second worksheet, a drop-down, a conditional format, a filter and frozen panes; return its path.

    `comments` are pairs of cell and text.
    """
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Pets"
    for row in ROWS:
        sheet.append(row)
    for cell in sheet[1]:
        cell.font, cell.fill = Font(bold=True), PatternFill("solid", fgColor="2F5D62")
    sheet["C3"].fill = PatternFill("solid", fgColor="00FF00")
    sheet["C3"].number_format = "0.00"
    sheet["C3"].border = Border(left=Side("thin"))
    sheet.column_dimensions["B"].width = 33
    sheet.freeze_panes = "B2"
    drop = DataValidation(type="list", formula1='"available,pending,sold"')
    drop.add("C2:C5")
    sheet.add_data_validation(drop)
    red = PatternFill(bgColor="FF0000")
    sheet.conditional_formatting.add("C2:C3", CellIsRule("equal", ['"x"'], fill=red))
    if table:
        sheet.add_table(Table(displayName="pets", ref="A1:E5"))
    else:
        sheet.auto_filter.ref = "A1:E5"
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=5, min_row=1, max_row=4))
    sheet.add_chart(chart, "H8")
    picture = io.BytesIO()
    Picture.new("RGB", (8, 8), "red").save(picture, "PNG")
    sheet.add_image(Image(picture), "H2")
    for cell, text in comments:
        sheet[cell].comment = Comment(text, "Anna")
    other = book.create_sheet("Notes")
    other.append(["keep me", "=1+1"])
    for cell, text in notes:
        other[cell].comment = Comment(text, "Anna")
    plain = io.BytesIO()
    book.save(plain)
    path.write_bytes(plain.getvalue())
    change(path, {"sheet1.xml": _calculated})
    return path


def plain(path, rows):
    """Write a workbook with only these rows, and return its path."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.active.title = "Pets"
    book.save(path)
    return path


def change(path, edits):
    """Change parts of a workbook by functions of bytes, each for the parts whose name has this
    suffix.
    """
    old = parts(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in old.items():
            edit = next((edit for end, edit in edits.items() if name.endswith(end)), bytes)
            archive.writestr(name, edit(data))


def add(path, **new):
    """Add parts to a workbook."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, data in new.items():
            archive.writestr(name, data)


def parts(path):
    """Return the parts of a workbook by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def prefixed(data):
    """Return the part with a namespace prefix on each element."""
    return re.sub(rb"<(/?)(?=[a-zA-Z])", rb"<\1x:", data).replace(b"xmlns=", b"xmlns:x=", 1)


def strict(data):
    """Return the part as Excel writes it in the format "Strict Open XML Spreadsheet"."""
    for name in (b"spreadsheetml", b"officeDocument", b"drawingml"):
        old = b"http://schemas.openxmlformats.org/" + name + b"/2006/"
        data = data.replace(old, b"http://purl.oclc.org/ooxml/" + name + b"/")
    return data


def _calculated(data):
    # openpyxl writes an empty value in one of three forms, depending on its XML library.
    value = rb"(<f>SUM\(E2:E3\)</f>)<v(?: ?/>|></v>)"
    return re.sub(value, rb"\1<v>30</v>", data)
