"""Spreadsheets in and out: CSV and Excel, with every problem at its address."""

from petsync.sheets.frame import sheet_from_frame
from petsync.sheets.read import read_sheet
from petsync.sheets.results import write_results
from petsync.sheets.write import write_sheet

__all__ = ["read_sheet", "sheet_from_frame", "write_results", "write_sheet"]
