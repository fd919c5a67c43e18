"""The rules of findings, with their codes, severities and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from petsync.table.rules import SheetRule, describe, rule_code

__all__ = [
    "CHARACTERS",
    "FIELDS",
    "IDS",
    "KINDS",
    "LISTS",
    "PROGRAM",
    "ROWS",
    "RULES",
    "SHEET",
    "Rule",
    "error",
    "findings_rule",
    "warning",
]


# Rule: one kind of problem in a sheet, with its texts.


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of findings, with its severity and its texts."""

    code: str
    severity: Severity
    """An `error` keeps its row out of a plan; a `warning` does not."""
    meaning: str
    """One sentence: the default for a finding's problem."""
    example: str
    """A text that breaks the rule."""
    fixed: str
    """The corrected example."""
    cure: str
    """The default for a finding's suggestion."""
    more: str = ""
    """Text for the documentation only."""

    @property
    def blocks(self) -> bool:
        """True if the row is kept out of a plan."""
        return self.severity == "error"


def error(code: str, meaning: str, example: str, fixed: str, cure: str, more: str = "") -> Rule:
    """Return a rule with the severity `error`."""
    return _rule("error", code, meaning, example, fixed, cure, more)


def warning(code: str, meaning: str, example: str, fixed: str, cure: str, more: str = "") -> Rule:
    """Return a rule with the severity `warning`."""
    return _rule("warning", code, meaning, example, fixed, cure, more)


def _rule(severity: Severity, code: str, *texts: str) -> Rule:
    meaning, example, fixed, cure, more = texts
    return Rule(
        code=code,
        severity=severity,
        meaning=meaning,
        example=example,
        fixed=fixed,
        cure=cure,
        more=more,
    )


def findings_rule(rule: SheetRule) -> Rule:
    """Return the rule of the findings of a rule of the user's own."""
    return Rule(
        code=rule_code(rule),
        severity=rule.severity,
        meaning=describe(rule),
        example="",
        fixed="",
        cure="",
    )


# The rules that a cell of any column can break.


PROGRAM = (
    error(
        "error-cell",
        "The cell shows an error of the spreadsheet program instead of a value.",
        "#REF!",
        "Bello",
        "Fix the formula, or type the value in.",
        "In a CSV file, the texts of these errors count as errors: `#N/A`, `#REF!`, `#VALUE!`, "
        "`#NAME?` and others, in several languages, and `########` from a column that was too "
        "narrow. If such a text is correct, put an apostrophe before it: `'#N/A`.",
    ),
    warning(
        "error-text",
        "The text is what a spreadsheet program shows for an error.",
        "#N/A, as text",
        "Bello",
        "Type the intended value; leave the text if it is correct.",
        "In a workbook, this is text, not a real error, so petsync sends it.",
    ),
    error(
        "formula-without-value",
        "The cell contains a formula that was never calculated, so it has no value yet.",
        "=PROPER(A2)",
        "Bello",
        "Open the workbook in Excel or LibreOffice, save it, and read it again.",
        "Some programs write workbooks without calculating them.",
    ),
    warning(
        "formula-empty",
        "The cell contains a formula that shows nothing, so the cell is read as blank.",
        '=IF(A2="","",A2)',
        "Bello",
        "Save the workbook in Excel or LibreOffice if the formula was never calculated.",
        "petsync reports this if no formula of the worksheet has a value: either the formula "
        "returns an empty text, or no program calculated it.",
    ),
    warning(
        "formula-text",
        "The text looks like a formula; in a CSV file nothing calculates it.",
        "=PROPER(A2)",
        "Bello",
        "Write the value. If the text is intended, put an apostrophe before it.",
        "A CSV file that petsync wrote already has the apostrophe.",
    ),
    error(
        "date-instead-of-text",
        "The program converted the typed text to a date.",
        "2026-05-01, where the name May 1 was typed",
        "May 1, as text",
        "Format the cell as text and type the value again.",
        "Excel reads `May 1`, `3-4` and `10/12` as dates, and keeps only the date.",
    ),
    error(
        "boolean-instead-of-text",
        "The program converted the typed text to TRUE or FALSE.",
        "TRUE, where the name True was typed",
        "True, as text",
        "Format the cell as text and type the value again.",
    ),
    warning(
        "number-instead-of-text",
        "The cell contains a number, which is read as its digits; leading zeros may be lost.",
        "7, where the name 007 was typed",
        "007, as text",
        "Format the cell as text and check its value.",
        "A number format such as `000` shows 007 for the value 7; only the value counts. In the "
        "id column, numbers as text are right, even if Excel shows a green triangle.",
    ),
    error(
        "number-imprecise",
        "The cell contains a number of more than 15 digits; the last ones may be lost.",
        "1234567890123456789, stored as a number",
        "1234567890123456789, as text",
        "Format the cell as text and type the value again.",
    ),
    warning(
        "looks-converted",
        "The text is what a spreadsheet program makes of a typed date or number.",
        "1.20E+15, or 01-May",
        "what was typed",
        "Compare it with its source, and type it again as text; leave it if it is correct.",
        "petsync looks for this in CSV files, in the columns `name`, `category` and `tags`. The "
        "original text is lost.",
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
        "The text resembles the marker that empties the field.",
        "[ clear ] or (clear)",
        "[clear]",
        "Write [clear] to empty the field; put an apostrophe before the text if it is intended.",
        "petsync reports other brackets (`［clear］`), a missing bracket (`clear]`) and spaces "
        "inside the brackets. In a list of several items, put such an item in double quotes: "
        '`"(clear)"; shy`. An export writes the apostrophe or the quotes.',
    ),
)

CHARACTERS = (
    error(
        "nul-character",
        "The text contains a NUL character; the file may be damaged.",
        "Bel\\0lo",
        "Bello",
        "Type the value again, and look at the cells around it.",
        "A keyboard cannot type this character; it comes from damaged files. petsync does not send "
        "it. If the store has such a text, an export writes it with an apostrophe, and petsync "
        "reads it back.",
    ),
    warning(
        "damaged-characters",
        "The text looks as if a program had read it in the wrong encoding.",
        "ZoÃ«",
        "Zoë",
        "Type the text again, and save CSV files as UTF-8.",
    ),
    warning(
        "decomposed-characters",
        "An accent is a separate character; comparisons ignore the difference.",
        "Zoë, typed as Zoe and an accent",
        "Zoë, with one character for the ë",
        "No action is needed.",
        "petsync compares texts in Unicode form NFC and sends them as typed.",
    ),
    warning(
        "no-break-space",
        "The value starts or ends with a no-break space, which is removed.",
        "sold, followed by a no-break space",
        "sold",
        "Delete the space, which often comes from web pages.",
    ),
    warning(
        "invisible-characters",
        "The text contains invisible characters.",
        "so\\u200bld, with a zero-width space inside",
        "sold",
        "Type the value again instead of pasting it.",
        "Because of zero-width spaces, soft hyphens, direction marks and control characters, "
        "texts that look the same can differ. petsync does not report joiners inside emoji, or "
        "direction marks in right-to-left texts.",
    ),
)


# The rules of single columns: name, status, category, tags, photo addresses and action.


FIELDS = (
    error(
        "name-missing",
        "The row adds a pet and has no name.",
        "a row with neither id nor name",
        "Bello",
        "Write the pet's name; write its id if it is not new; or delete the row.",
    ),
    warning(
        "name-long",
        "The name is longer than 255 characters.",
        "a whole description",
        "Bello",
        "Shorten it, or leave it if it is intended: petsync sends it unchanged.",
    ),
    warning(
        "status-missing",
        "The row would add a pet but has no status, so the plan does not add the pet.",
        "a new row whose status is blank",
        "available",
        "Write one of the store's statuses.",
        "A row without an id that matches an existing pet needs no status. If the sheet has no ids "
        "and no statuses, petsync reports this once for the whole sheet.",
    ),
    error(
        "unknown-status",
        "petsync knows no such status.",
        "availabel",
        "available",
        "Write one of the store's statuses.",
        "`--correct status:reserved=pending`, in Python "
        '`corrections={"status:reserved": "pending"}`, corrects all cells with this text. The '
        "people who run the store know which statuses it accepts. If it has this one, add it to "
        "petsync.toml: `[service]`, `statuses`.",
    ),
    warning(
        "status-spelling",
        "The status differs from one of the store's only in case or spaces around it.",
        "Sold",
        "sold",
        "Write it as the store does.",
        "petsync reads it as the store's status.",
    ),
    error(
        "category-contradiction",
        "The category's name and id disagree on whether to empty the category.",
        "[clear] in category_id beside the category Dogs",
        "[clear] in both columns",
        "Write [clear] in both columns, or only in category.",
    ),
    warning(
        "placeholder-text",
        "The text looks like a placeholder; petsync uses it as text.",
        "n/a",
        "a blank cell",
        "Leave the cell blank to change nothing, or write [clear] to empty the field.",
        "petsync looks for this in category, tags and photo addresses: `-`, `n/a`, `none`, "
        "`null`, `NaN`, `<NA>`, `?`, `tbd`, `(blank)` and similar texts, `clear` without "
        'brackets, and an empty item of a list: `""; calm`, or `["", "calm"]` in a DataFrame. In '
        "names, it reports only what programs write for a missing value, such as "
        "`nan`, `None`, `NULL` or `<NA>`. It does not report names and categories from the sheet's "
        "export.",
    ),
    error(
        "category-text",
        "The text is what a program writes for a category.",
        "Category(id=1, name='Dogs')",
        "Dogs",
        "Write the category's name; its number belongs in the column category_id.",
        "This includes `{'id': 1, 'name': 'Dogs'}`, the same in JSON, a list such as `['Dogs']`, "
        "`(1, 'Dogs')` and `()`. petsync does not report categories from the sheet's export.",
    ),
    warning(
        "name-text",
        "The text is what a program writes for a list; petsync uses it as the name.",
        "['Bello']",
        "Bello",
        "Write only the name; leave it if it is correct.",
        "This includes `('Bello',)` and `[]`. petsync does not report names from the sheet's "
        "export.",
    ),
    warning(
        "category-numbered",
        "The category seems to start with its number; petsync uses all of it as the name.",
        "1:Dogs",
        "Dogs",
        "Write the category's name; its number belongs in the column category_id.",
        "This form is only for tags. petsync does not report categories from the sheet's export.",
    ),
    error(
        "unknown-action",
        "The action is unknown.",
        "remove",
        "delete",
        "Write add, add-another, update, delete, merge or ignore, or leave the cell blank.",
    ),
)

LISTS = (
    error(
        "tags-unreadable",
        "petsync cannot tell where one tag ends and the next begins.",
        '"small; friendly',
        "small; friendly",
        "Close each quote, and double the quotes inside a quoted tag.",
        "petsync also reports a tag whose id is outside the range of ids (64 bits).",
    ),
    warning(
        "tag-repeated",
        "A tag is in the list more than once; it counts once.",
        "calm; calm",
        "calm",
        "Keep one.",
    ),
    warning(
        "tags-separators",
        "There is an extra semicolon, which is ignored.",
        "calm;;shy;",
        "calm; shy",
        "Write one semicolon between two tags.",
    ),
    error(
        "list-text",
        "The text is what a program writes for a list.",
        "['calm', 'shy']",
        "calm; shy",
        "Write the items with the separators that petsync reads, and save a DataFrame with "
        "ps.write_sheet.",
        "pandas writes such texts for lists in a DataFrame: `[Tag(106, 'young')]`, "
        "`['https://...']`, `[\"calm\"]`, `[]`, `('calm',)`, `()`, `set()`, "
        "`dict_values(['calm'])`. Brackets around a whole cell count too: `[calm; shy]`, "
        "`{calm}`. Put a tag or an address that starts like this in double quotes; an "
        "export does this.",
    ),
    error(
        "tags-commas",
        "Something other than a semicolon seems to separate the tags.",
        "calm, shy",
        "calm; shy",
        "Write semicolons between the tags, without quotes. Put double quotes only around a single "
        'tag: "calm, shy".',
        "petsync reports a comma (but not between two digits), a line break (also `<br>` and "
        "`\\n`), a tab, a `|` or `¦`, and separators of other scripts, such as `；` and `、`. A "
        "tag in double quotes, or from the sheet's export, is one tag.",
    ),
    error(
        "clear-beside-others",
        "The marker that empties the field is in a list with other items.",
        "[clear]; shy",
        "[clear]",
        "Write only [clear] to empty the field, or remove it and keep the others.",
        'Put a tag with this name in quotes: `"[clear]"; shy`. An export does this.',
    ),
    error(
        "photos-unreadable",
        "petsync cannot tell where one address ends and the next begins.",
        '"https://example.org/1.jpg',
        "https://example.org/1.jpg",
        "Close each quote, and double the quotes inside a quoted address.",
    ),
    warning(
        "photo-repeated",
        "A photo's address is in the list more than once; it counts once.",
        "the same address in two lines",
        "the address in one line",
        "Keep one.",
    ),
    error(
        "photos-separators",
        "One address seems to contain several.",
        "https://example.org/1.jpg, https://example.org/2.jpg",
        "https://example.org/1.jpg | https://example.org/2.jpg",
        "Write a line break, or | with spaces around it, between two addresses; if it is one "
        "address, put it in double quotes.",
        "petsync reports an address directly after another one, or after a comma, a semicolon, an "
        "`&` or a space; a `|` without spaces; `｜` and `¦`; `<br>`; and a comma or semicolon "
        "before a space or at the end. An address from the sheet's export is one address.",
    ),
    warning(
        "photo-not-an-address",
        "This does not look like the address of a photo.",
        "C:\\Photos\\Bello.jpg",
        "https://example.org/bello.jpg",
        "Upload the photo and write its address, which begins with https://.",
    ),
)


# The rules for the ids of pets and categories.


IDS = (
    error(
        "id-not-a-number",
        "The id is not a whole number.",
        "new",
        "a blank cell",
        "Write the pet's number, or leave the cell blank to add a pet.",
        "This includes `#12`, `ID 12` and `1,234`. petsync suggests what they may mean, and does "
        "not assume it.",
    ),
    error(
        "id-ambiguous",
        "The point in the id may be a decimal point or a thousands separator.",
        "12.000, which can mean 12 or 12000",
        "12000",
        "Write the number without a point.",
    ),
    error(
        "id-fraction",
        "The id has a fraction.",
        "12.5",
        "12",
        "Write the whole number.",
        "The column may contain a formula or a price.",
    ),
    error(
        "id-scientific",
        "The id is in scientific notation, so its last digits may be lost.",
        "1.2E+3",
        "1204, as text",
        "Format the column as text and type the whole number.",
        "Excel shows long numbers like this, and saves what it shows to a CSV file.",
    ),
    error(
        "id-imprecise",
        "The id is a number of more than 15 digits, of which the program keeps only 15.",
        "9007199254740993, stored as a number, or 9007199254740992.0",
        "9007199254740993, as text",
        "Format the column as text and type the whole number again.",
        "petsync never rounds or guesses such a number. A decimal point shows that a program "
        "without exact integers wrote it. An exported workbook has all ids as text. In a "
        "DataFrame, this is a float that its type may have rounded: a float64 from 2^53, a float32 "
        "from 2^24, a float16 from 2^11.",
    ),
    warning(
        "id-rounded",
        "The id has only zeros after its fifteenth digit: a program may have kept only 15 digits.",
        "1234567890123450000",
        "1234567890123456789",
        "Compare the id with the store's; leave it if it is correct.",
    ),
    warning(
        "id-below-one",
        "The id is below 1, and a service may give such a pet another id.",
        "0",
        "a blank cell, or 1001",
        "Leave the id blank for a new pet, or write the id of an existing one.",
        "Only an existing pet can have such an id: a plan adds none, because each apply could add "
        "the pet again. petsync does not report ids from the sheet's export.",
    ),
    error(
        "id-out-of-range",
        "The id is outside the range of ids (64 bits).",
        "9223372036854775808",
        "9223372036854775807, the largest id",
        "Write the correct number.",
    ),
    error(
        "id-not-a-cell",
        "The program turned the id into a date or into TRUE or FALSE.",
        "1912-05-01, which is the number 4505 formatted as a date",
        "4505",
        "Format the column as text and type the number again.",
    ),
    warning(
        "id-decimal",
        "A program has made the id a decimal number; petsync reads it as the whole number.",
        "12.0",
        "12",
        "Format the column as text.",
    ),
    warning(
        "id-respelled",
        "The id has leading zeros or a plus sign, which petsync ignores.",
        "007",
        "7",
        "Write the number without them.",
    ),
    error(
        "duplicate-id",
        "Several rows have the same id and different values, so petsync uses none of them.",
        "7 in rows 12 and 40, with different names",
        "one row with the id 7",
        "Give each row the id of its pet, and clear the id of a new pet. Of rows of one pet, keep "
        "the correct one.",
    ),
    warning(
        "duplicate-row",
        "The row is identical to an earlier one in petsync's columns; petsync uses it once.",
        "rows 12 and 40 are the same",
        "only row 12",
        "Delete one of the rows.",
    ),
)


# The rules of whole rows, and of the sheet.


ROWS = (
    error(
        "ragged-row",
        "The row has more or fewer cells than the header, so they may be in the wrong columns.",
        "7,Bello, the dog,sold",
        '7,"Bello, the dog",sold',
        "Quote cells that contain the delimiter, and give each row as many cells as the header.",
        "petsync reports nothing else about such a row, except problems of its id, because any "
        "cell may be in the wrong column.",
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
        "A text has more characters than a cell can have.",
        "a cell with 200,000 characters",
        "a shorter text",
        "Shorten the text: a cell has at most 32,767 characters in a workbook, and 131,072 in "
        "another file.",
        "In a CSV file, the closing quote may be missing. A text that is too long for the file can "
        "also come from `--correct` or `sheet.frame`; `store.plan(sheet.frame)` has no such limit. "
        "petsync reports nothing else about such a row, except problems of its id.",
    ),
    error(
        "wrong-value",
        "In JSON, Parquet or a DataFrame, the value is of a type that the column cannot have.",
        '"name": {"first": "Bello"}',
        '"name": "Bello"',
        "Write text or a number; in tags and photo addresses, a list of texts.",
        "petsync reports nothing else about such a row, except problems of its id.",
    ),
    error(
        "unknown-fields",
        "The row of a DataFrame changes fields that petsync does not know.",
        'pets.at[0, "extra"] = {"chip": 7}',
        "the value with which the DataFrame was read",
        "Restore the value, or drop the column extra: a plan does not change these fields.",
        "Fields that petsync does not know are in the column `extra` and in the `extra` of a tag. "
        "petsync reports nothing else about such a row, except problems of its id.",
    ),
    error(
        "quote-after-space",
        "There is a space before the cell's quote, so the quote is part of the text.",
        '1001, "Bella, the dog"',
        '1001,"Bella, the dog"',
        "Delete the space between the delimiter and the quote.",
        "In a CSV file, a quote encloses a cell only at its very start. After a space or a tab it "
        "is text, and a delimiter ends the cell. If a text really starts like this, an export "
        "writes an apostrophe before it.",
    ),
    error(
        "header-repeated",
        "The row repeats the header; it is not a pet.",
        "id, name, status in row 40",
        "no such row",
        "Delete the row. It was probably pasted together with the rows below it.",
    ),
    error(
        "totals-row",
        "The row seems to contain totals, not a pet.",
        "Total, in the last row",
        "no such row",
        "Delete the row, or write ignore in the column action.",
    ),
    warning(
        "row-repeated",
        "The row has no id and the same values as another row.",
        "two rows without ids: Bubble, available, Fish",
        "one row; or two, the second with the action add-another",
        "Delete the row if both are the same pet; otherwise, write add-another in its action.",
        "A plan adds the pet once. The other row is a conflict until it is deleted, or has the "
        "action `add-another`: two goldfish can have the same name.",
    ),
    error(
        "merged-cells",
        "The cell is part of merged cells; only the first of them has a value.",
        "C4:C6",
        "three cells",
        "Undo the merge and fill in each cell.",
        "Merged titles above the header are not findings.",
    ),
)

SHEET = (
    warning(
        "header-near-miss",
        "The column is not used: its header is similar to one that petsync recognises.",
        "Staus",
        "status",
        "Write the header as suggested, or map it.",
        "petsync never guesses the meaning of a header, not even of a common one such as `Nummer`, "
        "`SKU`, `Catégorie` or `ï»¿id` (`id` in a wrong encoding). It also reports a header if the "
        "sheet already has the similar column, unless this column is `id`. In a "
        "DataFrame, a misspelt header is an error. [sheets.md](sheets.md#columns) explains how to "
        "map headers.",
    ),
    error(
        "header-renamed",
        "A column of the export has a different header now, or the export's ids are missing.",
        "State, over the exported status values",
        "status",
        "Restore the header, or map it.",
        "The export records what each column contained: most values of the unused column were in "
        "the missing column, or the headers are similar. petsync makes no plan, because it would "
        "overlook edits in the column, and rows without their ids would be new pets. If you "
        "removed a column on purpose, insert an empty one with its header.",
    ),
    warning(
        "header-numbers",
        "No column has a recognised id header, and an unused column contains whole numbers.",
        "Regal, over 1001, 1002, 1003",
        "id",
        "Rename the column to id if these are the pets' ids, or map it.",
        "Without ids, each row is a new pet. petsync reports a column in which hardly any number "
        "occurs twice, also under a header that petsync itself writes, such as `assigned_id`.",
    ),
    warning(
        "header-elsewhere",
        "Another worksheet has known headers too, and is not read.",
        "the worksheets Dogs and Cats, both with id and name",
        "the intended worksheet, by its name",
        "Specify the worksheet to read, or hide the others.",
        "petsync reads the exported worksheet, or the first one with a known header. If the other "
        "worksheet is a copy of it, the finding names the first cell that differs; a copy without "
        "a difference is not a finding. If you specify the worksheet, this is not a finding "
        "either.",
    ),
    warning(
        "header-missing",
        "The column has values and no header, so it is not used.",
        "values below a blank header",
        "a header above them",
        "Give the column a header.",
    ),
    warning(
        "header-unchecked",
        "A rule of your own did not run, because the sheet lacks a column that it needs.",
        "a rule for the column Price, in a sheet without it",
        "a column Price",
        "Add the column, or correct its name in the rule.",
        "[rules.md](rules.md) explains rules of your own.",
    ),
    warning(
        "hidden-rows",
        "Rows are hidden, by hand or by a filter; petsync uses them like the others.",
        "rows 12 to 40 are hidden",
        "all rows are shown",
        "Show all rows and check them, or write ignore in the column action.",
    ),
    warning(
        "hidden-columns",
        "A column that petsync reads is hidden; petsync uses it like the others.",
        "the column status is hidden",
        "the column is shown",
        "Show the column and check it, or delete it if petsync should not use it.",
    ),
    warning(
        "filter-active",
        "A filter is set; petsync also uses the rows that it hides.",
        "a filter for the status sold",
        "all rows are shown",
        "Clear the filter to see all rows.",
    ),
)


# All rules, by kind and by their stable codes.


KINDS: Mapping[str, tuple[Rule, ...]] = {
    "What the spreadsheet program did to a cell": PROGRAM,
    "Characters": CHARACTERS,
    "Ids": IDS,
    "Names, statuses, categories and actions": FIELDS,
    "Tags and photo addresses": LISTS,
    "Rows": ROWS,
    "The sheet": SHEET,
}
"""The rules by kind, in the order in which they are documented."""

RULES: Mapping[str, Rule] = {rule.code: rule for kind in KINDS.values() for rule in kind}
"""Every rule by its code, in the same order."""
