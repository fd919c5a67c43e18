"""The rules that a cell of any column can break."""

from __future__ import annotations

from petsync.sheets.rules.rule import error, warning

__all__ = ["CHARACTERS", "PROGRAM"]

PROGRAM = (
    error(
        "error-cell",
        "The cell shows an error of the spreadsheet program instead of a value.",
        "#REF!",
        "Bello",
        "Mend the formula, or type the value in.",
        "In a CSV file, where everything is text, the texts of these errors count as errors: "
        "`#N/A`, `#REF!`, `#VALUE!`, `#NAME?` and so on, in several languages, and `########`, "
        "which a program saves for a column that was too narrow. A pet that is really called so "
        "gets an apostrophe: `'#N/A`.",
    ),
    warning(
        "error-text",
        "The text is what a spreadsheet program shows for an error.",
        "#N/A, as text",
        "Bello",
        "Type the value that is meant; leave it if it is right.",
        "In a workbook a real error is no text, so the text may be meant; it is sent as it stands.",
    ),
    error(
        "formula-without-value",
        "The cell holds a formula that was never calculated, so it has no value yet.",
        "=PROPER(A2)",
        "Bello",
        "Open the workbook in Excel or LibreOffice, save it, and read it again.",
        "Programs that write workbooks without calculating them leave such cells.",
    ),
    warning(
        "formula-empty",
        "The cell holds a formula that shows nothing, so the cell is read as blank.",
        '=IF(A2="","",A2)',
        "Bello",
        "Save the workbook in Excel or LibreOffice if the formula was never calculated.",
        "This is reported where no formula of the worksheet has a value: some programs write a "
        "formula so that gave an empty text, others one that they did not calculate.",
    ),
    warning(
        "formula-text",
        "The text looks like a formula; in a CSV file nothing calculates it.",
        "=PROPER(A2)",
        "Bello",
        "Write the value. If the text is meant, put an apostrophe before it.",
        "A CSV file that petsync wrote has the apostrophe already.",
    ),
    error(
        "date-instead-of-text",
        "The program turned what was typed into a date.",
        "2026-05-01, where the name May 1 was typed",
        "May 1, as text",
        "Format the cell as text and type the value again.",
        "Excel takes `May 1`, `3-4` and `10/12` for dates, and keeps only the date.",
    ),
    error(
        "boolean-instead-of-text",
        "The program turned what was typed into TRUE or FALSE.",
        "TRUE, where the name True was typed",
        "True, as text",
        "Format the cell as text and type the value again.",
    ),
    warning(
        "number-instead-of-text",
        "The cell holds a number, which is read as its digits; leading zeros may be lost.",
        "7, where the name 007 was typed",
        "007, as text",
        "Format the cell as text and check its value.",
        "A number format such as `000` shows 007 where the value is 7, and only the value counts. "
        "Text that is a number is right for ids, whatever the green triangle in Excel says.",
    ),
    error(
        "number-imprecise",
        "The cell holds a number of more than 15 digits; the last ones may be lost.",
        "1234567890123456789, stored as a number",
        "1234567890123456789, as text",
        "Format the cell as text and type the value again.",
    ),
    warning(
        "looks-converted",
        "The text is what a spreadsheet program makes of a typed date or number.",
        "1.20E+15, or 01-May",
        "what was typed",
        "Compare it with where it came from, and type it again as text; leave it if it is right.",
        "This is looked for in CSV files, in the columns `name`, `category` and `tags`. What was "
        "typed cannot be told from what is left of it.",
    ),
    error(
        "clear-refused",
        "This field cannot be emptied.",
        "[clear], in the column name",
        "Bello",
        "Write the value that the pet should have, or leave the cell blank.",
    ),
    error(
        "clear-spelling",
        "The text is nearly the marker that empties the field.",
        "[ clear ] or (clear)",
        "[clear]",
        "Write [clear] to empty the field; put an apostrophe before the text if it is meant.",
        "Other brackets, and spaces inside them, are reported. In a list of several items such an "
        'item is put in double quotes: `"(clear)"; shy`. An export does both by itself.',
    ),
)

CHARACTERS = (
    error(
        "nul-character",
        "The text holds a NUL character; the file may be damaged.",
        "Bel\\0lo",
        "Bello",
        "Type the value again, and look at the cells around it.",
        "No program lets a person type this character. In a CSV file it comes from damaged disks "
        "and copies, so the text is not sent. Where a store has such a text all the same, an "
        "export writes it with an apostrophe before it, and it is read back.",
    ),
    warning(
        "damaged-characters",
        "The text looks as if it had been read in a wrong encoding somewhere.",
        "ZoÃ«",
        "Zoë",
        "Type the text again, and save CSV files as UTF-8.",
    ),
    warning(
        "decomposed-characters",
        "An accent is a character of its own; the text is compared as if it were not.",
        "Zoë, typed as Zoe and an accent",
        "Zoë, with one character for the ë",
        "Nothing needs to be done.",
        "Texts are compared in the form NFC of Unicode and sent as they were typed.",
    ),
    warning(
        "no-break-space",
        "There is a no-break space around the value; it is trimmed.",
        "sold, followed by a no-break space",
        "sold",
        "Delete the space, which often comes from web pages.",
    ),
    warning(
        "invisible-characters",
        "There are characters in the text that cannot be seen.",
        "so\\u200bld, with a zero-width space inside",
        "sold",
        "Type the value again instead of pasting it.",
        "Zero-width spaces, soft hyphens, direction marks and control characters make two texts "
        "different that look the same. Joiners inside emoji, and marks in texts that run from "
        "right to left, are part of the spelling and no finding.",
    ),
)
