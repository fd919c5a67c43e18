"""The rules of whole rows, and of the sheet."""

from __future__ import annotations

from petsync.sheets.rules.rule import error, warning

__all__ = ["ROWS", "SHEET"]

ROWS = (
    error(
        "ragged-row",
        "The row has more or fewer cells than the header, so they may be in the wrong columns.",
        "7,Bello, the dog,sold",
        '7,"Bello, the dog",sold',
        "Quote cells that contain the delimiter, and give each row the header's columns.",
        "Nothing else is said of such a row, as any cell may be in a wrong column.",
    ),
    error(
        "broken-quote",
        "Text follows the closing quote of a cell, so it is not certain where the cell ends.",
        '7,"Bello" the dog,sold',
        '7,"""Bello"" the dog",sold',
        'Quote the whole cell and double the quotes in it: "" for each.',
    ),
    error(
        "cell-long",
        "A cell has more characters than readers of CSV files take.",
        "a cell with 200,000 characters",
        "a shorter text",
        "Shorten the text: a cell has at most 131,072 characters.",
        "Often a quote is missing where the text should end. Nothing else is said of such a row.",
    ),
    error(
        "quote-after-space",
        "There is a space before the cell's quote, so the quote is part of the text.",
        '1001, "Bella, the dog"',
        '1001,"Bella, the dog"',
        "Delete the space between the delimiter and the quote.",
        "In a CSV file only a quote at the very beginning of a cell encloses it; behind a space it "
        "does not, and a delimiter inside ends the cell. An export writes an apostrophe before a "
        "text that really begins so.",
    ),
    error(
        "header-repeated",
        "The header stands here once more; this row is no pet.",
        "id, name, status in row 40",
        "no such row",
        "Delete the row. It is often pasted along with the rows below it.",
    ),
    error(
        "totals-row",
        "This looks like a line of totals and not like a pet.",
        "Total, in the last row",
        "no such row",
        "Delete the row, or write ignore in the column action.",
    ),
    warning(
        "row-repeated",
        "The row says the same as another, and has no id: it stands for one more pet.",
        "two rows without ids: Bubble, available, Fish",
        "one row, if it is one pet",
        "Delete one of the rows if both mean the same pet.",
        "Two goldfish may well have the same name, so such rows are never taken for one.",
    ),
    error(
        "merged-cells",
        "The cell is merged with others, of which only the first has a value.",
        "C4:C6",
        "three cells",
        "Undo the merge and fill in each cell.",
        "Merged titles above the header are no finding.",
    ),
)

SHEET = (
    warning(
        "header-near-miss",
        "The column is not used: its header is only nearly one that petsync knows.",
        "Staus",
        "status",
        "Write the header as suggested, or map it.",
        "A header is never guessed, not even a usual one such as `Nummer`, `SKU`, `Catégorie` or "
        "`ï»¿id`, which is `id` in a wrong encoding. It is reported beside the column that it is "
        "like, too; other numbers beside `id` are not. In a DataFrame a misspelt header is an "
        "error. How to map a header of your own is in [sheets.md](sheets.md).",
    ),
    error(
        "header-renamed",
        "A column of the export has another header now, or the export's ids are missing.",
        "State, over what the export had as status",
        "status",
        "Write the header as it was, or map it.",
        "Only an export knows what its columns held: the unused column says mostly what was in the "
        "missing one, or its header is nearly that one's. Nothing is planned from such a sheet, "
        "as edits in the column would not be seen, and rows without their ids would be new pets. "
        "If the column is away on purpose, insert an empty one with its header.",
    ),
    warning(
        "header-numbers",
        "No column is known to hold ids, and an unused column holds whole numbers.",
        "Regal, over 1001, 1002, 1003",
        "id",
        "Rename the column to id if these are the pets' ids, or map it.",
        "Without ids each row is a new pet. This is looked for where hardly any number of the "
        "column is there twice.",
    ),
    warning(
        "header-elsewhere",
        "Another worksheet has headers that petsync knows, too, and is not read.",
        "the worksheets Dogs and Cats, both with id and name",
        "the worksheet that is meant, by its name",
        "Name the worksheet that is to be read, or hide the others.",
        "One worksheet is read, the first that has such a header; with its name given this is no "
        "finding.",
    ),
    warning(
        "header-missing",
        "The column has values and no header, so it is not used.",
        "values below a blank header",
        "a header above them",
        "Give the column a header.",
    ),
    warning(
        "hidden-rows",
        "Rows are hidden, by hand or by a filter; they count like the others.",
        "the rows 12 to 40 are hidden",
        "all rows are shown",
        "Show all rows to see what the sheet says, or write ignore in the column action.",
    ),
    warning(
        "hidden-columns",
        "A column that petsync reads is hidden; its cells count like the others.",
        "the column status is hidden",
        "the column is shown",
        "Show the column to see what it says, or delete it if it should say nothing.",
    ),
    warning(
        "filter-active",
        "A filter is set; the rows that it hides count like the others.",
        "a filter for the status sold",
        "all rows are shown",
        "Clear the filter to see all rows.",
    ),
)
