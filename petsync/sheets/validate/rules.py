"""The rules of findings: code, severity, sentence and suggestion of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
    "warning",
]


# Rule: one thing that can be wrong with a sheet, and all that is said of it.


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. An `error` keeps its row out of a plan, a `warning` does not.

    `meaning` is one sentence, and the finding's problem where nothing more exact can be said;
    `cure` is its suggestion likewise. `example` shows what breaks the rule, `fixed` the same
    when it has been fixed. `more` is what only the documentation tells.
    """

    code: str
    severity: Severity
    meaning: str
    example: str
    fixed: str
    cure: str
    more: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the row is kept out of a plan."""
        return self.severity == "error"


def error(code: str, meaning: str, example: str, fixed: str, cure: str, more: str = "") -> Rule:
    """A rule that blocks the row that breaks it."""
    return _rule("error", code, meaning, example, fixed, cure, more)


def warning(code: str, meaning: str, example: str, fixed: str, cure: str, more: str = "") -> Rule:
    """A rule that tells how a cell was read."""
    return _rule("warning", code, meaning, example, fixed, cure, more)


def _rule(severity: Severity, code: str, *said: str) -> Rule:
    meaning, example, fixed, cure, more = said
    return Rule(
        code=code,
        severity=severity,
        meaning=meaning,
        example=example,
        fixed=fixed,
        cure=cure,
        more=more,
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
        "narrow. Write such a name with an apostrophe: `'#N/A`.",
    ),
    warning(
        "error-text",
        "The text is what a spreadsheet program shows for an error.",
        "#N/A, as text",
        "Bello",
        "Type the value that is meant; leave it if it is right.",
        "In a workbook, this is text and no real error, so petsync sends it.",
    ),
    error(
        "formula-without-value",
        "The cell holds a formula that was never calculated, so it has no value yet.",
        "=PROPER(A2)",
        "Bello",
        "Open the workbook in Excel or LibreOffice, save it, and read it again.",
        "Some programs write workbooks without calculating them.",
    ),
    warning(
        "formula-empty",
        "The cell holds a formula that shows nothing, so the cell is read as blank.",
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
        "Write the value. If the text is meant, put an apostrophe before it.",
        "A CSV file that petsync wrote already has the apostrophe.",
    ),
    error(
        "date-instead-of-text",
        "The program turned what was typed into a date.",
        "2026-05-01, where the name May 1 was typed",
        "May 1, as text",
        "Format the cell as text and type the value again.",
        "Excel reads `May 1`, `3-4` and `10/12` as dates, and keeps only the date.",
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
        "A number format such as `000` shows 007 for the value 7; only the value counts. In the "
        "id column, numbers as text are right, even if Excel shows a green triangle.",
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
        "The text is nearly the marker that empties the field.",
        "[ clear ] or (clear)",
        "[clear]",
        "Write [clear] to empty the field; put an apostrophe before the text if it is meant.",
        "petsync reports other brackets (`［clear］`), a missing one (`clear]`) and spaces inside "
        "them. In a list of several items, put such an item in double quotes: "
        '`"(clear)"; shy`. An export does both.',
    ),
)

CHARACTERS = (
    error(
        "nul-character",
        "The text holds a NUL character; the file may be damaged.",
        "Bel\\0lo",
        "Bello",
        "Type the value again, and look at the cells around it.",
        "Nobody can type this character; it comes from damaged files. petsync does not send it. "
        "If the store has such a text, an export writes it with an apostrophe, and petsync reads "
        "it back.",
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
        "petsync compares texts in Unicode form NFC and sends them as typed.",
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
        "Zero-width spaces, soft hyphens, direction marks and control characters make texts "
        "different that look the same. petsync does not report joiners inside emoji, and marks in "
        "right-to-left texts.",
    ),
)


# The rules of single columns: name, status, category, tags, photo addresses and action.


FIELDS = (
    error(
        "name-missing",
        "A pet is to be added, and the row gives it no name.",
        "a row with neither id nor name",
        "Bello",
        "Write the pet's name; write its id if it is not new; or delete the row.",
    ),
    warning(
        "name-long",
        "The name is longer than 255 characters.",
        "a whole description",
        "Bello",
        "Shorten it, or leave it if it is meant: it is sent as it stands.",
    ),
    warning(
        "status-missing",
        "A pet is to be added, and the row gives it no status, so a plan does not add it.",
        "a new row whose status is blank",
        "available",
        "Write one of the store's statuses.",
        "A row without an id that means an existing pet needs no status. If the sheet has neither "
        "ids nor statuses, petsync reports this once for the whole sheet.",
    ),
    error(
        "unknown-status",
        "The store has no such status.",
        "availabel",
        "available",
        "Write one of the store's statuses.",
        "If the store has this status, add it to petsync.toml: `[service]`, `statuses`.",
    ),
    warning(
        "status-spelling",
        "The status has capital letters or spaces around it; it is read without them.",
        "Sold",
        "sold",
        "Write it in small letters.",
    ),
    error(
        "category-contradiction",
        "The category's name and id do not agree on whether the category is to be emptied.",
        "[clear] in category_id beside the category Dogs",
        "[clear] in both columns",
        "Write [clear] in both columns, or in category alone.",
    ),
    warning(
        "placeholder-text",
        "The text seems to stand for nothing; it is taken as a text.",
        "n/a",
        "a blank cell",
        "Leave the cell blank to say nothing, or write [clear] to empty the field.",
        "petsync looks for this in category, tags and photo addresses: `-`, `n/a`, `none`, "
        "`null`, `NaN`, `<NA>`, `?`, `tbd`, `(blank)` and similar texts, and `clear` without "
        "brackets. In names, it reports only what programs write for a missing value: `nan`, "
        "`NaN`, `None`, `NULL`, `<NA>`. It does not report names and categories from the sheet's "
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
        "The text is what a program writes for a list; it is taken as the name.",
        "['Bello']",
        "Bello",
        "Write the name alone; leave it if it is right.",
        "This includes `('Bello',)` and `[]`. petsync does not report names from the sheet's "
        "export.",
    ),
    warning(
        "category-numbered",
        "The category seems to have its number before its name; all of it is taken as the name.",
        "1:Dogs",
        "Dogs",
        "Write the category's name; its number belongs in the column category_id.",
        "This form is only for tags. petsync does not report categories from the sheet's export.",
    ),
    error(
        "unknown-action",
        "There is no such action.",
        "remove",
        "delete",
        "Write add, add-another, update, delete, merge or ignore, or leave the cell blank.",
    ),
)

LISTS = (
    error(
        "tags-unreadable",
        "The tags cannot be distinguished.",
        '"small; friendly',
        "small; friendly",
        "Close each quote, and double the quotes inside a quoted tag.",
    ),
    warning(
        "tag-repeated",
        "A tag stands there twice; it counts once.",
        "calm; calm",
        "calm",
        "Keep one.",
    ),
    warning(
        "tags-separators",
        "There is a semicolon too many; it is passed over.",
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
        "The tags seem to be separated by something else than semicolons.",
        "calm, shy",
        "calm; shy",
        "Write semicolons between the tags, without quotes. Put double quotes only around what is "
        'one tag: "calm, shy".',
        "petsync reports a comma (but not between two digits), a line break (also `<br>` and "
        "`\\n`), a tab, a `|` or `¦`, and separators of other scripts, such as `；` and `、`. A "
        "tag in double quotes, or from the sheet's export, is one tag.",
    ),
    error(
        "clear-beside-others",
        "The marker that empties the field stands beside other items.",
        "[clear]; shy",
        "[clear]",
        "Write [clear] alone to empty the field, or take it out and keep the others.",
        'Put a tag with this name in quotes: `"[clear]"; shy`. An export does this.',
    ),
    error(
        "photos-unreadable",
        "The photo addresses cannot be distinguished.",
        '"https://example.org/1.jpg',
        "https://example.org/1.jpg",
        "Close each quote, and double the quotes inside a quoted address.",
    ),
    warning(
        "photo-repeated",
        "A photo's address stands there twice; it counts once.",
        "the same address in two lines",
        "the address in one line",
        "Keep one.",
    ),
    error(
        "photos-separators",
        "Several addresses seem to stand in one.",
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


# The rules of ids, a pet's and a category's.


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
        "12.000, which is 12 to some and 12000 to others",
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
        "The id is in scientific notation, so its last digits are lost.",
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
        "DataFrame, this is a float that its type may have rounded: from 2^53 on, a float32 from "
        "2^24, a float16 from 2^11.",
    ),
    warning(
        "id-rounded",
        "The id has zeros behind its fifteenth digit, as a program leaves them that keeps only 15.",
        "1234567890123450000",
        "1234567890123456789",
        "Compare the id with the store's; leave it if it is right.",
    ),
    warning(
        "id-below-one",
        "The id is below 1, and a service may give such a pet another id.",
        "0",
        "a blank cell, or 1001",
        "Leave the id blank if it is a new pet, or give the id of its pet.",
        "Only an existing pet can have such an id: a plan adds none, because each apply could add "
        "the pet again. petsync does not report ids from the sheet's export.",
    ),
    error(
        "id-out-of-range",
        "The id is outside the range of ids (64 bits).",
        "9223372036854775808",
        "9223372036854775807, the largest there is",
        "Write the right number.",
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
        "The id went through a program that made it a decimal; it is read as the whole number.",
        "12.0",
        "12",
        "Format the column as text.",
    ),
    warning(
        "id-respelled",
        "The id has leading zeros or a plus sign, which do not count.",
        "007",
        "7",
        "Write the number without them.",
    ),
    error(
        "duplicate-id",
        "Several rows have the same id and say different things, so none of them is used.",
        "7 in the rows 12 and 40, with different names",
        "one row with the id 7",
        "Give each row the id of its own pet, or keep the row that is right and delete the others.",
    ),
    warning(
        "duplicate-row",
        "The row stands in the sheet before, word for word; it is used once.",
        "the rows 12 and 40 are the same",
        "row 12 alone",
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
        "Quote cells that contain the delimiter, and give each row the header's columns.",
        "petsync reports nothing else about such a row, because any cell may be in the wrong "
        "column.",
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
        "The closing quote may be missing. petsync reports nothing else about such a row.",
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
        "Two goldfish can have the same name, so petsync never combines such rows.",
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
        "petsync never guesses a header, not even a common one such as `Nummer`, `SKU`, "
        "`Catégorie` or `ï»¿id` (`id` in a wrong encoding). It also reports a header beside the "
        "column that it is similar to, except other numbers beside `id`. In a DataFrame, a "
        "misspelt header is an error. [sheets.md](sheets.md#columns) explains how to map headers.",
    ),
    error(
        "header-renamed",
        "A column of the export has another header now, or the export's ids are missing.",
        "State, over what the export had as status",
        "status",
        "Write the header as it was, or map it.",
        "petsync knows from the export what each column contained: the unused column contains "
        "most of the missing one's values, or its header is similar. petsync makes no plan, "
        "because it would overlook edits in the column, and rows without their ids would be new "
        "pets. If you removed a column on purpose, insert an empty one with its header.",
    ),
    warning(
        "header-numbers",
        "No column is known to hold ids, and an unused column holds whole numbers.",
        "Regal, over 1001, 1002, 1003",
        "id",
        "Rename the column to id if these are the pets' ids, or map it.",
        "Without ids, each row is a new pet. petsync reports a column in which hardly any number "
        "occurs twice, also under a header that petsync itself writes, such as `assigned_id`.",
    ),
    warning(
        "header-elsewhere",
        "Another worksheet has headers that petsync knows, too, and is not read.",
        "the worksheets Dogs and Cats, both with id and name",
        "the worksheet that is meant, by its name",
        "Name the worksheet that is to be read, or hide the others.",
        "petsync reads the exported worksheet, or the first one with a known header. If you name "
        "the worksheet, this is no finding.",
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


# The rules a sheet is read by: a stable code for each, what it means, an example and the cure.


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
