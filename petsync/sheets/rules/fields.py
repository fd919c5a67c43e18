"""The rules of single columns: name, status, category, tags, photo addresses and action."""

from __future__ import annotations

from petsync.sheets.rules.rule import error, warning

__all__ = ["FIELDS", "LISTS"]

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
        "A row without an id that a plan recognises as a pet needs none. Where the sheet has "
        "neither ids nor statuses, this is reported once, for the whole sheet.",
    ),
    error(
        "unknown-status",
        "The store has no such status.",
        "availabel",
        "available",
        "Write one of the store's statuses.",
        "If the store really has the status, name it in petsync.toml: `[service]`, `statuses`.",
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
        "This is looked for in category, tags and photo addresses: `-`, `n/a`, `none`, `null`, "
        "`NaN`, `<NA>`, `?`, `tbd`, `(blank)` and the like, and the word of the marker without its "
        "brackets, `clear`. Of names it is only what programs write for a missing value, to the "
        "letter: `nan`, `NaN`, `None`, `NULL`, `<NA>`. A pet may be called so; a name or a "
        "category that the sheet's export has is no finding.",
    ),
    error(
        "category-text",
        "The text is what a program writes for a category.",
        "Category(id=1, name='Dogs')",
        "Dogs",
        "Write the category's name; its number belongs in the column category_id.",
        "This is also `{'id': 1, 'name': 'Dogs'}`, the same in JSON, and a list such as "
        "`['Dogs']`. A category that the sheet's export has is no finding.",
    ),
    warning(
        "category-numbered",
        "The category seems to have its number before its name; all of it is taken as the name.",
        "1:Dogs",
        "Dogs",
        "Write the category's name; its number belongs in the column category_id.",
        "Tags may be written so, categories may not. A category that the sheet's export has is no "
        "finding.",
    ),
    error(
        "unknown-action",
        "There is no such action.",
        "remove",
        "delete",
        "Write add, update, delete, merge or ignore, or leave the cell blank.",
    ),
)

LISTS = (
    error(
        "tags-unreadable",
        "The tags cannot be told apart.",
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
        "pandas writes such texts for the lists of a DataFrame in Excel, CSV and JSON files: "
        "`[Tag(106, 'young')]`, `['https://...']`, `[\"calm\"]`, `[]`. Brackets around all of a "
        "cell are reported too: `[calm; shy]`, `{calm}`. A tag or an address that really begins "
        "so is written in double quotes; an export does this by itself.",
    ),
    error(
        "tags-commas",
        "The tags seem to be separated by something else than semicolons.",
        "calm, shy",
        "calm; shy",
        "Write semicolons between the tags, without quotes. Put double quotes only around what is "
        'one tag: "calm, shy".',
        "A comma, a line break (`<br>` and `\\n` too), a tab, a `|` and the separators of other "
        "scripts, such as `；` and `、`, are reported; a comma between two digits is not. A tag in "
        "double quotes is one tag, and so is a tag that the sheet's export has. An export writes "
        "the quotes by itself.",
    ),
    error(
        "clear-beside-others",
        "The marker that empties the field stands beside other items.",
        "[clear]; shy",
        "[clear]",
        "Write [clear] alone to empty the field, or take it out and keep the others.",
        'A tag that is really called so is written in quotes: `"[clear]"; shy`. An export does '
        "this by itself.",
    ),
    error(
        "photos-unreadable",
        "The photo addresses cannot be told apart.",
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
        "This is an address that begins directly behind another one, a comma, a semicolon or a "
        "space, a `|` without spaces, `<br>`, and a comma or a semicolon before a space. What the "
        "sheet's export has as one address is one.",
    ),
    warning(
        "photo-not-an-address",
        "This does not look like the address of a photo.",
        "C:\\Photos\\Bello.jpg",
        "https://example.org/bello.jpg",
        "Upload the photo and write its address, which begins with https://.",
    ),
)
