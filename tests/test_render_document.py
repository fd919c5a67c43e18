"""Documents: the same blocks as text and as HTML."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from render_samples import HOSTILE
from rich.cells import cell_len

from petsync.report.document import (
    Alert,
    Block,
    Column,
    Comparison,
    ComparisonRow,
    Details,
    Document,
    Facts,
    Figure,
    Figures,
    Note,
    Record,
    Records,
    Row,
    RowKind,
    Snippets,
    Summary,
    Table,
)
from petsync.report.html import document_html, document_page
from petsync.report.markdown import document_markdown
from petsync.report.text import plain_text
from petsync.table.cells import make_visible

COLUMNS = (
    Column("Where", "where"),
    Column("Change", "change"),
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("What"),
)
MARKDOWN = """\
## petsync sample

## Done.

> **Why it stopped.**
>
> - the token expired

|  |  |
| --- | --- |
| store | shop |

### Rows

| where | change | id | pet | what |
| --- | --- | --- | --- | --- |
| `Pets!B2` | update | 7 | Rex | refused |

... and 2 more

| what | rows |
| --- | --- |
| all | 1,200 |

Look at `petsync runs`.

Copy:

- `petsync runs` all runs

| field | x | y | why |
| --- | --- | --- | --- |
| name | `a` | `b`<br>`c` | Both differ. |
"""
TEXT = """\
petsync sample
  store  shop

Rows
  x Pets!B2, update of pet 7 (Rex): refused
  ... and 2 more

  all  1,200

Why it stopped
  the token expired

Done.
Look at `petsync runs`."""


def sample(text: str = "") -> list[Block]:
    """Return a block of each type; `text` replaces every text of a value."""
    cells = (text or "Pets!B2", text or "update", "7", text or "Rex", text or "refused")
    row = Row(cells, "blocked")
    columns = (Column("What", "head"), Column("Rows", "number"))
    return [
        Facts([("store", text or "shop")]),
        Details(text or "Rows", [Table(COLUMNS, [row], more="... and 2 more")]),
        Table(columns, [Row((text or "all", "1,200"))], "grid"),
        Alert("Why it stopped", [text or "the token expired"]),
        Summary(text or "Done."),
        Note(text or "Look at `petsync runs`."),
    ]


def test_text_has_the_order_of_the_view() -> None:
    """Text has the title first, and the blocks in the order of the view."""
    assert plain_text(Document("petsync sample", sample())) == TEXT


def test_html_has_what_matters_first() -> None:
    """HTML has the summary and the alerts first, marks commands as code, and leaves out columns
    without a text.
    """
    blocks = [*sample(), Table(COLUMNS, [Row(("", "", "", "", "Late."), "note")])]
    for html in (document_html(Document("t", blocks)), document_page(Document("t", blocks), "T")):
        places = [html.index(part) for part in ("Done.", "Why it stopped", "<dt>store", "Rows")]
        assert places == sorted(places)
        assert "<code>petsync runs</code>" in html
        assert len(re.findall(r'<th class="ps-where"', html)) == 1


def test_markdown_has_what_matters_first() -> None:
    """Markdown has the order of HTML, and each block in its form."""
    side = ComparisonRow("name", [["a"], ["b", "c"]], 1, "Both differ.")
    more = [Snippets("Copy:", [("all runs", "petsync runs")]), Comparison(("x", "y"), [side])]
    assert document_markdown(Document("petsync sample", [*sample(), *more])) == MARKDOWN


ONE_OF_EACH: dict[type[Block], Block] = {
    Summary: Summary("a fact"),
    Note: Note("a fact"),
    Alert: Alert("Why", ["a fact"]),
    Facts: Facts([("store", "a fact")]),
    Snippets: Snippets("Copy:", [("all", "a fact")]),
    Table: Table((Column("What"),), [Row(("a fact",), "note")]),
    Comparison: Comparison(("x", "y"), [ComparisonRow("name", [["a fact"], ["b"]])]),
    Details: Details("Rows", [Note("a fact")]),
    Figures: Figures([Figure("f", "Rounds", "a fact", "<svg></svg>")]),
    Records: Records([Record(0, "7", "a fact", "A1")], [RowKind("add", "Add", "add")]),
}


@pytest.mark.parametrize("block", ONE_OF_EACH.values(), ids=lambda block: type(block).__name__)
def test_no_format_drops_a_block(block: Block) -> None:
    """Text, Markdown, notebooks and pages show a block of every type."""
    assert {*ONE_OF_EACH} == {*get_args(Block)}
    document = Document("t", [block])
    page = document_page(document, "T")
    shown = (plain_text(document), document_markdown(document), document_html(document), page)
    assert ["a fact" in each for each in shown] == [True] * 4


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_becomes_markup_or_leaves_its_line(name: str) -> None:
    """With any texts, HTML is escaped, and lines fit and have no control character."""
    side = ComparisonRow(name, [["a"], [make_visible(name), "b"]], 1, name)
    blocks = [*sample(name), Snippets("Copy:", [(name, "x")]), Comparison(("x", "y"), [side])]
    text = plain_text(Document(name, [*blocks, Details("d", [Note(name, mark="note")])]))
    assert text.replace("\n", "").replace("\u200d", "").isprintable()
    assert max(map(cell_len, plain_text(Document(name, sample(name))).split("\n"))) <= 80
    inner = document_html(Document(name, blocks)).partition("</style>")[2]
    tags = {"div", "p", "bdi", "strong", "dl", "dt", "dd", "details", "summary", "table", "thead"}
    tags |= {"tbody", "tr", "th", "td", "span", "code"}
    assert set(re.findall(r"<(\w+)", inner)) <= tags


def test_a_grid_with_several_long_columns_fits() -> None:
    """A grid with more than one long column fits the width: names give way after notes, and an id
    stays whole. What belongs below a row is below it, indented.
    """
    columns = (Column("Id", "id"), Column("Name", "name"), Column("What"), Column("R", "below"))
    row = Row((str(2**62), "very long name " * 9, "a long note " * 9, "below " * 20))
    lines = plain_text(Document("", [Table(columns, [row], "grid", has_titles=True)])).split("\n")
    assert max(map(len, lines)) <= 80
    assert str(2**62) in lines[1]
    assert lines[0].split() == ["id", "name", "what"]
    assert lines[-1].startswith("    below")


def test_templates_are_loaded_for_html_alone() -> None:
    """Text loads no template engine, and HTML does."""
    code = (
        "import sys\n"
        "from petsync.report.document import Document, Summary\n"
        "from petsync.report.html import document_html\n"
        "from petsync.report.text import plain_text\n"
        "plain_text(Document('', [Summary('x')]))\n"
        "print('jinja2' in sys.modules)\n"
        "document_html(Document('', [Summary('x')]))\n"
        "print('jinja2' in sys.modules)\n"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
