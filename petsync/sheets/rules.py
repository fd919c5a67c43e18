"""The rules a sheet is read by: a stable code for each, what it means, an example and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. An `error` keeps its row out of a plan, a `warning` does not."""

    code: str
    severity: Literal["error", "warning"]
    meaning: str
    example: str
    cure: str


def _error(code: str, meaning: str, example: str, cure: str) -> Rule:
    return Rule(code=code, severity="error", meaning=meaning, example=example, cure=cure)


def _warning(code: str, meaning: str, example: str, cure: str) -> Rule:
    return Rule(code=code, severity="warning", meaning=meaning, example=example, cure=cure)


_ALL = (
    # Any cell.
    _error(
        "error-cell",
        "The cell shows an error of the spreadsheet program instead of a value.",
        "#REF!",
        "Mend the formula, or type the value in.",
    ),
    _error(
        "formula-without-value",
        "The cell holds a formula that was never calculated, so it has no value yet.",
        "=PROPER(A2)",
        "Open the workbook in Excel or LibreOffice, save it, and read it again.",
    ),
    _error(
        "date-instead-of-text",
        "The program turned what was typed into a date.",
        "2026-05-01 where the name May 1 was typed",
        "Format the cell as text and type the value again.",
    ),
    _error(
        "boolean-instead-of-text",
        "The program turned what was typed into TRUE or FALSE.",
        "TRUE where the name True was typed",
        "Format the cell as text and type the value again.",
    ),
    _warning(
        "number-instead-of-text",
        "The cell holds a number, which is read as its digits; leading zeros may be lost.",
        "7 where the name 007 was typed",
        "Format the cell as text and check its value.",
    ),
    _error(
        "number-imprecise",
        "The cell holds a number of more than 15 digits; the last ones may be lost.",
        "1234567890123456789",
        "Format the cell as text and type the value again.",
    ),
    _error(
        "ragged-row",
        "The row has more or fewer cells than the header, so they may be in the wrong columns.",
        "7,Bello, the dog,sold",
        "Quote cells that contain the delimiter, and give each row the header's columns.",
    ),
    _error(
        "broken-quote",
        "Text follows the closing quote of a cell, so it is not certain where the cell ends.",
        '7,"Bello" the dog,sold',
        'Quote the whole cell and double the quotes in it: "" for each.',
    ),
    _warning(
        "nul-character",
        "The text holds a NUL character; the file may be damaged.",
        "Bel\\0lo",
        "Type the value again.",
    ),
    _warning(
        "damaged-characters",
        "The text looks as if it had been read in a wrong encoding somewhere.",
        "ZoÃ«",
        "Type the text again, and save CSV files as UTF-8.",
    ),
    _warning(
        "decomposed-characters",
        "An accent is a character of its own; the text is compared as if it were not.",
        "Zoë typed as e and an accent",
        "Nothing needs to be done.",
    ),
    _warning(
        "no-break-space",
        "There is a no-break space around the value; it is trimmed.",
        "sold followed by a no-break space",
        "Delete the space, which often comes from web pages.",
    ),
    _error(
        "clear-refused",
        "This field cannot be emptied.",
        "[clear] in the column name",
        "Write the value that the pet should have, or leave the cell blank.",
    ),
    # Ids.
    _error(
        "id-not-a-number",
        "The id is not a whole number.",
        "new",
        "Write the pet's number, or leave the cell blank to add a pet.",
    ),
    _error("id-fraction", "The id has a fraction.", "12.5", "Write the pet's whole number."),
    _error(
        "id-scientific",
        "The id is in scientific notation, so its last digits are lost.",
        "1.2E+3",
        "Format the column as text and type the whole number.",
    ),
    _error(
        "id-imprecise",
        "The id is a number of more than 15 digits, of which the program keeps only 15.",
        "9007199254740993 stored as a number",
        "Format the column as text and type the whole number again.",
    ),
    _error(
        "id-out-of-range",
        "The id is outside the range of ids (64 bits).",
        "9223372036854775808",
        "Write the pet's number.",
    ),
    _error(
        "id-not-a-cell",
        "The program turned the id into a date or into TRUE or FALSE.",
        "1912-05-01",
        "Format the column as text and type the number again.",
    ),
    _warning(
        "id-decimal",
        "The id went through a program that made it a decimal; it is read as the whole number.",
        "12.0",
        "Format the column as text.",
    ),
    _warning(
        "id-respelled",
        "The id has leading zeros or a plus sign, which do not count.",
        "007",
        "Write the number without them.",
    ),
    _error(
        "duplicate-id",
        "Several rows have the same id and say different things, so none of them is used.",
        "7 in the rows 12 and 40",
        "Keep one of the rows.",
    ),
    _warning(
        "duplicate-row",
        "The row stands in the sheet before, word for word; it is used once.",
        "the rows 12 and 40 are the same",
        "Delete one of the rows.",
    ),
    # Name, status, category.
    _error(
        "name-missing",
        "A pet is to be added, and the row gives it no name.",
        "a row with neither id nor name",
        "Write the pet's name.",
    ),
    _warning(
        "name-long",
        "The name is longer than 255 characters.",
        "a whole description",
        "Check that the name is meant.",
    ),
    _error(
        "unknown-status",
        "The store has no such status.",
        "availabel",
        "Write one of the store's statuses.",
    ),
    _warning(
        "status-spelling",
        "The status has capital letters or spaces around it; it is read without them.",
        "Sold",
        "Write it in small letters.",
    ),
    _error(
        "category-contradiction",
        "The category's name and id do not agree on whether the category is to be emptied.",
        "[clear] in category_id beside a category",
        "Write [clear] in both columns, or in category alone.",
    ),
    # Tags and photo addresses.
    _error(
        "tags-unreadable",
        "The tags cannot be told apart.",
        '"small; friendly',
        "Close each quote, and double the quotes inside a quoted tag.",
    ),
    _warning(
        "tag-repeated", "A tag stands there twice; it counts once.", "calm; calm", "Keep one."
    ),
    _warning(
        "tags-separators",
        "There is a semicolon too many; it is passed over.",
        "calm;;shy;",
        "Write one semicolon between two tags.",
    ),
    _error(
        "photos-unreadable",
        "The photo addresses cannot be told apart.",
        '"https://example.org/1.jpg',
        "Close each quote, and double the quotes inside a quoted address.",
    ),
    _warning(
        "photo-repeated",
        "A photo's address stands there twice; it counts once.",
        "the same address in two lines",
        "Keep one.",
    ),
    _warning(
        "photo-not-an-address",
        "This does not look like the address of a photo.",
        "C:\\Photos\\Bello.jpg",
        "Upload the photo and write its address, which begins with https://.",
    ),
    # The row and the sheet.
    _error(
        "unknown-action",
        "There is no such action.",
        "remove",
        "Write add, update, delete, merge or ignore, or leave the cell blank.",
    ),
    _warning(
        "header-near-miss",
        "The column is not used: its header is only nearly one that petsync knows.",
        "Staus",
        "Write the header as suggested, or map it.",
    ),
    _warning(
        "header-missing",
        "The column has values and no header, so it is not used.",
        "values below a blank header",
        "Give the column a header.",
    ),
    _error(
        "merged-cells",
        "The cell is merged with others, of which only the first has a value.",
        "C4:C6",
        "Undo the merge and fill in each cell.",
    ),
    _warning(
        "hidden-rows",
        "Rows are hidden, by hand or by a filter; they count like the others.",
        "rows 12 to 40",
        "Show all rows to see what the sheet says, or write ignore in the column action.",
    ),
)

RULES = {rule.code: rule for rule in _ALL}
"""Every rule by its code, in the order in which they are documented."""
