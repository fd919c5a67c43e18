"""Read and write spreadsheets: CSV files and Excel workbooks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petsync.sheets.annotate import AnnotatedCopy, annotate_sheet
    from petsync.sheets.corrected import write_corrected
    from petsync.sheets.edits import Obstacle, SheetEdits, cells_of, edits_of
    from petsync.sheets.files import EncodingError, reading_once
    from petsync.sheets.headers import HeaderNotFoundError
    from petsync.sheets.load import STDIN, digest_of, encoding_of, has_worksheets
    from petsync.sheets.read import (
        Peek,
        as_edited,
        find_named_again,
        peek,
        read_file,
        read_sheet,
        sheet_from_frame,
        with_edits,
        worksheet_of,
    )
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
    "as_edited",
    "cells_of",
    "digest_of",
    "edits_of",
    "encoding_of",
    "find_named_again",
    "has_worksheets",
    "load_edits",
    "must_take_edits",
    "must_take_results",
    "obstacles",
    "peek",
    "read_file",
    "read_sheet",
    "reading_once",
    "results_endings",
    "save_edits",
    "sheet_from_frame",
    "sidecar_digest",
    "with_edits",
    "worksheet_of",
    "write_back",
    "write_corrected",
    "write_results",
    "write_sheet",
    "write_synced",
]

# Each name's module, imported when the name is first used: a command that reads a sheet does not
# wait for the modules that write one.
_HOMES = {
    name: f"petsync.sheets.{module}"
    for module, names in {
        "annotate": ("AnnotatedCopy", "annotate_sheet"),
        "corrected": ("write_corrected",),
        "edits": ("Obstacle", "SheetEdits", "cells_of", "edits_of"),
        "files": ("EncodingError", "reading_once"),
        "headers": ("HeaderNotFoundError",),
        "load": ("STDIN", "digest_of", "encoding_of", "has_worksheets"),
        "read": (
            "Peek",
            "as_edited",
            "find_named_again",
            "peek",
            "read_file",
            "read_sheet",
            "sheet_from_frame",
            "with_edits",
            "worksheet_of",
        ),
        "results": ("must_take_results", "results_endings", "write_back", "write_results"),
        "sidecar": ("sidecar_digest",),
        "sync": ("load_edits", "must_take_edits", "obstacles", "save_edits", "write_synced"),
        "write": ("write_sheet",),
    }.items()
    for name in names
}

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
