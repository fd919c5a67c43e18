"""Spreadsheets in and out: CSV and Excel, with every problem at its address."""

from petsync.sheets.annotate import Annotated, annotate_sheet
from petsync.sheets.backup import must_take_results, write_back
from petsync.sheets.edits import Obstacle, SheetEdits, cells_of, edits_of
from petsync.sheets.frame import sheet_from_frame
from petsync.sheets.headers import HeaderNotFoundError
from petsync.sheets.mended import write_corrected
from petsync.sheets.peek import Peek, peek
from petsync.sheets.read import read_sheet
from petsync.sheets.results import write_results
from petsync.sheets.source import EncodingError, encoding_of
from petsync.sheets.synced import must_take_edits, obstacles, write_synced
from petsync.sheets.waiting import load_edits, save_edits
from petsync.sheets.write import write_sheet

__all__ = [
    "Annotated",
    "EncodingError",
    "HeaderNotFoundError",
    "Obstacle",
    "Peek",
    "SheetEdits",
    "annotate_sheet",
    "cells_of",
    "edits_of",
    "encoding_of",
    "load_edits",
    "must_take_edits",
    "must_take_results",
    "obstacles",
    "peek",
    "read_sheet",
    "save_edits",
    "sheet_from_frame",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
    "write_synced",
]
