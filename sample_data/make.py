"""Write the sample data: a pet shop's catalogue, what its people did to it, and some pictures.

    python sample_data/make.py [OUTDIR]

The same files come out each time, byte for byte. Without OUTDIR they replace the ones beside
this script.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from _catalogue import catalogue, store_json
from _edits import Row, edited
from _images import pictures
from _nights import nightly
from _tables import from_excel, new_arrivals, price_list
from _workbook import clean_workbook, edited_workbook, place


def files() -> dict[str, bytes]:
    """Every file's content, by its path below the folder."""
    pets = catalogue(random.Random("catalogue"))
    rows = edited(random.Random("edits"), pets)
    return {
        "store.json": store_json(pets).encode(),
        "catalogue_clean.xlsx": clean_workbook(pets),
        "catalogue_edited.xlsx": edited_workbook(random.Random("shelves"), rows),
        "mistakes.json": mistakes_json(rows).encode(),
        "new_arrivals.csv": new_arrivals(random.Random("arrivals")),
        "price_list_semicolon.csv": price_list(random.Random("prices"), pets),
        "from_excel_bom.csv": from_excel(random.Random("excel"), pets),
        **{
            f"reconcile/{name}": content
            for name, content in nightly(random.Random("nights"), pets).items()
        },
        **{f"images/{name}": content for name, content in pictures().items()},
    }


def mistakes_json(rows: Sequence[Row | None]) -> str:
    """The planted mistakes, in the sheet's order."""
    listed = [
        {
            "address": place(mistake.column, number),
            "rule_hint": mistake.rule,
            "blocks": mistake.blocks,
            "seen_by": mistake.seen_by,
            "what": mistake.what,
        }
        for number, row in enumerate(rows, 2)
        for mistake in (row.mistakes if row else ())
    ]
    return json.dumps(listed, ensure_ascii=False, indent=1) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Write the files into the folder that the first argument names."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, content in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        print(f"{len(content):>8,} {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
