"""Spreadsheets in and out: CSV and Excel, with every problem at its address."""

from petsync.sheets.annotate import Annotated, annotate_sheet
from petsync.sheets.backup import must_take_results, write_back
from petsync.sheets.frame import sheet_from_frame
from petsync.sheets.mended import write_corrected
from petsync.sheets.peek import Peek, peek
from petsync.sheets.read import read_sheet
from petsync.sheets.results import write_results
from petsync.sheets.write import write_sheet

__all__ = [
    "Annotated",
    "Peek",
    "annotate_sheet",
    "must_take_results",
    "peek",
    "read_sheet",
    "sheet_from_frame",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
]
