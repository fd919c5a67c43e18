"""Read and write spreadsheets: CSV files and Excel workbooks."""

from __future__ import annotations

from petsync.sheets.annotate import AnnotatedCopy, annotate_sheet
from petsync.sheets.corrected import write_corrected
from petsync.sheets.edits import Obstacle, SheetEdits, cells_of, edits_of
from petsync.sheets.files import EncodingError
from petsync.sheets.headers import HeaderNotFoundError
from petsync.sheets.load import STDIN, digest_of, encoding_of
from petsync.sheets.read import Peek, peek, read_file, read_sheet, sheet_from_frame, worksheet_of
from petsync.sheets.results import must_take_results, results_endings, write_back, write_results
from petsync.sheets.sidecar import sidecar_digest
from petsync.sheets.sync import load_edits, must_take_edits, obstacles, save_edits, write_synced
from petsync.sheets.write import write_sheet

__all__ = [
    "STDIN",
    "AnnotatedCopy",
    "EncodingError",
    "HeaderNotFoundError",
    "Obstacle",
    "Peek",
    "SheetEdits",
    "annotate_sheet",
    "cells_of",
    "digest_of",
    "edits_of",
    "encoding_of",
    "load_edits",
    "must_take_edits",
    "must_take_results",
    "obstacles",
    "peek",
    "read_file",
    "read_sheet",
    "results_endings",
    "save_edits",
    "sheet_from_frame",
    "sidecar_digest",
    "worksheet_of",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
    "write_synced",
]
