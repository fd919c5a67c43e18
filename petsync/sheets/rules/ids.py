"""The rules of ids, a pet's and a category's."""

from __future__ import annotations

from petsync.sheets.rules.rule import error, warning

__all__ = ["IDS"]

IDS = (
    error(
        "id-not-a-number",
        "The id is not a whole number.",
        "new",
        "a blank cell",
        "Write the pet's number, or leave the cell blank to add a pet.",
        "`#12`, `ID 12` and `1,234` break this rule too: what they probably mean is suggested "
        "and never assumed.",
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
        "Often a formula or a price stands in the column.",
    ),
    error(
        "id-scientific",
        "The id is in scientific notation, so its last digits are lost.",
        "1.2E+3",
        "1204, as text",
        "Format the column as text and type the whole number.",
        "Excel shows long numbers so, and saves what it shows to a CSV file.",
    ),
    error(
        "id-imprecise",
        "The id is a number of more than 15 digits, of which the program keeps only 15.",
        "9007199254740993, stored as a number, or 9007199254740992.0",
        "9007199254740993, as text",
        "Format the column as text and type the whole number again.",
        "Such a number is never rounded or guessed; a decimal point shows that a program without "
        "exact integers wrote it. A workbook that petsync exported has all ids as text.",
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
        "Only a pet that the store already has may have such an id: a plan adds none, as each "
        "apply could add the pet again. An id that the sheet's export has is not reported.",
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
        "Keep the row that is right and delete the others.",
    ),
    warning(
        "duplicate-row",
        "The row stands in the sheet before, word for word; it is used once.",
        "the rows 12 and 40 are the same",
        "row 12 alone",
        "Delete one of the rows.",
    ),
)
