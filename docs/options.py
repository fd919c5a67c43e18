"""Write the parts of docs/ that are made from the table of petsync.toml's options:
`python docs/options.py`.

tests/test_config_docs.py fails if config.md or config.schema.json differs from what this program
writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from petsync.config.model import INHERITED, TABLES, Option, options_of
from petsync.config.tools import schema_text

__all__ = ["PAGE", "SCHEMA", "config_page", "main"]

PAGE = Path(__file__).parent / "config.md"
SCHEMA = Path(__file__).parent / "config.schema.json"
_MARKED = re.compile(r"<!-- options: (\w+) -->\n.*?<!-- /options -->", re.DOTALL)


def config_page(text: str) -> str:
    """Return the page with an updated table of options between each pair of marks."""
    return _MARKED.sub(lambda found: "\n".join(_marked(found[1])), text)


def _marked(name: str) -> Iterator[str]:
    table = "" if name == "top" else name
    yield from (f"<!-- options: {name} -->", cleandoc(TABLES[table].__doc__ or ""), "")
    yield from ("| option | value | meaning | default | example |", "|---|---|---|---|---|")
    # Options that a job inherits from the top level are in the top-level table only.
    shown = (each for each in options_of(table).values() if not table or each.name not in INHERITED)
    yield from map(_row, shown)
    yield "<!-- /options -->"


def _row(option: Option) -> str:
    kind = re.sub(r"\$\{NAME\}", "`${NAME}`", option.words).replace('"', "`")
    cells = (f"`{option.name}`", kind, option.meaning, _default(option), f"`{option.example}`")
    return f"| {' | '.join(cells)} |"


def _default(option: Option) -> str:
    if option.is_required:
        return "**required**"
    is_words = re.search(r"[a-z]{2} |`|^none$|^all$|^nowhere$|'", option.default)
    return option.default if is_words or not option.default else f"`{option.default}`"


def main() -> None:
    """Write both files."""
    PAGE.write_text(config_page(PAGE.read_text("utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
